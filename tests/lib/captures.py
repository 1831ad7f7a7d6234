"""Captures made by hand: pcap and pcapng files of packets whose every byte is chosen."""
import struct


def ethernet(payload, kind=0x0800):
    return bytes(12) + struct.pack("!H", kind) + payload


def ipv4(payload, source, destination, protocol=6, ident=1, length=None, fragment=0x4000, tos=0):
    head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(payload) if length is None else length, ident, fragment, 64, protocol, 0)
    return head + bytes(source) + bytes(destination) + payload


def tcp(n_payload, source, destination, seq, flags=16, options=b""):
    return struct.pack("!HHIIBBHHH", source, destination, seq & 0xFFFFFFFF, 0, 0x50 + (len(options) // 4 << 4), flags, 1000, 0, 0) \
        + options + bytes(n_payload)


def roce(opcode, qp, psn, n_extended, n_payload, source=49152):
    pad = -n_payload % 4
    bth = struct.pack("!BBHII", opcode, pad << 4, 0xFFFF, qp, psn) + bytes(n_extended + n_payload + pad + 4)
    return struct.pack("!HHHH", source, 4791, 8 + len(bth), 0) + bth


def pcap(packets, link=1, snap=65535, has_ns=True):
    """@packets: (time in ns, bytes) or (time, bytes, length on the wire)."""
    out = [struct.pack("<IHHIIII", 0xA1B23C4D if has_ns else 0xA1B2C3D4, 2, 4, 0, 0, snap, link)]
    for at, data, *wire in packets:
        sub = at % 10**9 if has_ns else at % 10**9 // 1000
        out.append(struct.pack("<IIII", at // 10**9, sub, min(len(data), snap), wire[0] if wire else len(data)) + data[:snap])
    return b"".join(out)


def pcapng(packets, link=1, snap=65535, order="<", n_interfaces=1):
    """@packets: as of pcap(), or (time, bytes, length on the wire, interface)."""
    def block(kind, body):
        body += bytes(-len(body) % 4)
        return struct.pack(order + "II", kind, len(body) + 12) + body + struct.pack(order + "I", len(body) + 12)

    out = [block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    for _ in range(n_interfaces):
        out.append(block(1, struct.pack(order + "HHI", link, 0, snap) + struct.pack(order + "HHB3xHH", 9, 1, 9, 0, 0)))  # if_tsresol: ns
    out.append(block(5, struct.pack(order + "III", 0, 0, 0)))  # statistics: no packet
    for at, data, *more in packets:
        wire, interface = (*more, *(len(data), 0)[len(more):])
        out.append(block(6, struct.pack(order + "IIIII", interface, at >> 32, at & 0xFFFFFFFF, min(len(data), snap), wire) + data[:snap]))
    return b"".join(out)
