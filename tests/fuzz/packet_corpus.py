#!/usr/bin/env python3
"""Make the seeds of fuzz_packet: real traffic of loopback and of a veth pair, and packets made by hand.

    packet_corpus.py DIR        needs root (network namespaces) and tcpdump
"""
import os
import struct
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))
import captures  # noqa: E402
from two_hosts import B, inside, receiver, run, sender, two_hosts  # noqa: E402

LINKS = {1: 0, 276: 1, 113: 2, 12: 3, 101: 3, 0: 4, 108: 5}
MOST_PACKETS = 60


def seed(link, packets, room=60):
    """@packets: (time in ns, bytes, length on the wire)."""
    out, last = [bytes([LINKS[link], room])], None
    for at, data, wire in packets[:MOST_PACKETS]:
        data = data[:200]
        passed = 0 if last is None else max(-100, min(100, (at - last) // 62500))
        out.append(struct.pack("!BHb", len(data), min(wire - len(data), 65535), passed) + data)
        last = at
    return b"".join(out)


def read_pcap(data):
    magic, = struct.unpack_from("<I", data)
    link, = struct.unpack_from("<I", data, 20)
    packets, at = [], 24
    while at + 16 <= len(data):
        seconds, fraction, n, wire = struct.unpack_from("<IIII", data, at)
        packets.append((seconds * 10**9 + fraction * (1 if magic == 0xA1B23C4D else 1000), data[at + 16:at + 16 + n], wire))
        at += 16 + n
    return link, packets


def live(host, device, other, address, *options):
    dump = subprocess.Popen(inside(host, "tcpdump", "-i", device, "-s", "136", "-w", "-", "-U", "--immediate-mode", *options, "tcp"), stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    time.sleep(1)
    with receiver(other, address) as port:
        run(inside(host, *sender(address, port, 1 << 20)))
    time.sleep(1)
    dump.terminate()
    return read_pcap(dump.communicate()[0])


def by_hand():
    one, two = (10, 0, 0, 1), (10, 0, 0, 2)
    plain = captures.ipv4(captures.tcp(100, 1, 2, 0xFFFFFFC0, 24), one, two)
    packets = [captures.ethernet(struct.pack("!HH", 5, 0x0800) + plain, 0x8100),
               captures.ethernet(struct.pack("!HHHH", 5, 0x8100, 6, 0x0800) + plain, 0x88A8),
               captures.ethernet(captures.ipv4(bytes(200), one, two, 17, fragment=0x2010)),
               captures.ethernet(captures.ipv4(captures.tcp(100, 1, 2, 0xFFFFFFC0, 24), one, two, length=0)),
               captures.ethernet(captures.ipv4(captures.tcp(0, 1, 2, 5, 2, b"\2\4\5\xb4\1\1\4\2\3\3\7\0"), one, two))]
    for next_header, chain in ((0, b"\x2b\0" + bytes(6) + b"\x06\2" + bytes(22)), (44, b"\x06\0\0\1" + bytes(4)), (51, b"\x06\1" + bytes(10))):
        body = chain + captures.tcp(50, 3, 4, 9)
        packets.append(captures.ethernet(struct.pack("!IHBB", 6 << 28, len(body), next_header, 64) + bytes(15) + b"\1" + bytes(15) + b"\2" + body, 0x86DD))
    rdma = [captures.ethernet(captures.ipv4(captures.roce(opcode, 17, psn & 0xFFFFFF, extra, 256), one, two, 17))
            for opcode, psn, extra in ((6, -2, 16), (7, -1, 0), (7, 0, 0), (7, 2, 0), (8, 1, 0), (12, 3, 16), (13, 3, 4), (16, 9, 4), (17, 3, 4),
                                       (0x64, 1, 8), (0x81, 0, 16))]
    return {"hand": packets, "roce": rdma}


def main(folder):
    os.makedirs(folder, exist_ok=True)
    seeds = {name: seed(1, [(i * 10**5, data, len(data)) for i, data in enumerate(packets)]) for name, packets in by_hand().items()}
    with open(os.path.join(ROOT, "tests", "data", "pcap", "soft_roce.pcap"), "rb") as file:
        seeds["soft_roce"] = seed(*read_pcap(file.read()))
    with two_hosts("lwPe", "lwPf") as (a, b):
        seeds["veth"] = seed(*live(a, "eth0", b, B))
        seeds["loopback"] = seed(*live(a, "lo", a, "127.0.0.1"))
        seeds["any_sll2"] = seed(*live(a, "any", b, B))
        seeds["any_sll"] = seed(*live(a, "any", b, B, "-y", "LINUX_SLL"))
    seeds["small_table"] = seeds["veth"][:1] + b"\0" + seeds["hand"][2:] + seeds["roce"][2:]
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
        print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
