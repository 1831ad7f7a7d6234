#!/usr/bin/env python3
"""`record --pcap` on real transfers between namespaces: every byte of the sockets, every byte of the NIC, every retransmit."""
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
from two_hosts import A, B, RECEIVER, drop, inside, ip, nic, receiver, record, routed_hosts, run, sender, shape, two_hosts  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="lapwing-pcap-")
LAPWING = os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing")
RUN = os.path.join(FOLDER, "run.lapwing")


def rows(sql, path=RUN):
    with sqlite3.connect(path) as store:
        store.row_factory = sqlite3.Row
        return [dict(row) for row in store.execute(sql)]


def flow(port, direction="source"):
    """The one flow with this port at its @direction, and that its capture lost nothing."""
    (capture,) = rows("SELECT * FROM capture")
    assert capture["n_dropped"] == capture["n_cut"] == capture["n_bad"] == 0 and capture["problem"] is None, capture
    assert capture["n_received"] > 0 and 0 < capture["clock_error_ns"] < 1e6, capture
    (one,) = rows(f"SELECT * FROM v_flow WHERE {direction}_port = {port} AND protocol = 'tcp'")
    return one


def transfer(host, other, address, n_bytes, options=("--pcap=eth0",), **more):
    """Sends @n_bytes; gives what the sender said, its flow, and how far the NIC's counters moved meanwhile."""
    with receiver(other, address) as port:
        before = {name: nic(host, name) for name in ("tx_bytes", "rx_bytes")}
        said = record(host, RUN, options, sender(address, port, n_bytes, **more))
        moved = {name: nic(host, name) - before[name] for name in before}
    return said, flow(said["port"]), moved


def payload_is_exact_and_the_nic_agrees(a, b):
    shape(a, "400mbit")
    for gso in ("off", "on"):
        subprocess.run(inside(a, "ethtool", "-K", "eth0", "tso", gso, "gso", gso), check=True, stdout=subprocess.DEVNULL)
        n_bytes = 30 << 20
        said, one, moved = transfer(a, b, B, n_bytes)
        assert one["stream_bytes"] == n_bytes and one["missing_bytes"] == 0, one
        assert one["is_sent"] == 1 and one["rank"] is None, one
        (sent,) = rows(f"SELECT sum(b.frame_bytes) AS bytes FROM packet_bin b JOIN flow f ON f.id = b.flow_id WHERE source_address = '{A}'")
        (got,) = rows(f"SELECT sum(b.frame_bytes) AS bytes FROM packet_bin b JOIN flow f ON f.id = b.flow_id WHERE destination_address = '{A}'")
        off = abs(sent["bytes"] / moved["tx_bytes"] - 1), abs(got["bytes"] / moved["rx_bytes"] - 1)
        # what is no TCP (ARP, neighbour discovery) weighs more beside acknowledgements alone
        assert off[0] < 1e-3 and (off[1] < 1e-3 or moved["rx_bytes"] - got["bytes"] < 1000), (sent, got, moved)
        # On the wire each full segment has headers of its own, merged by the host or not.
        expected = n_bytes + (n_bytes / said["mss"]) * (14 + 20 + 32)
        wire = one["wire_bytes"] - one["retransmitted_bytes"] * (1 + 66 / said["mss"])
        assert abs(wire / expected - 1) < 2e-3, (wire, expected, one)
        if gso == "off":
            assert one["wire_bytes"] == one["frame_bytes"], one
        print(f"gso {gso}: {one['stream_bytes']} payload bytes of {n_bytes}; NIC tx {moved['tx_bytes']}, frames {sent['bytes']}"
              f" ({off[0]:.5%} off); wire {one['wire_bytes']}, by MSS {expected:.0f}; {one['n_packets']} packets")
    (bins,) = rows("SELECT count(*) AS n, min(bin_ns % 1000000) AS low, max(bin_ns % 1000000) AS high, min(first_ns - bin_ns) AS early,"
                   " max(last_ns - bin_ns) AS late FROM packet_bin")
    assert bins["n"] > 100 and bins["low"] == bins["high"] == 0 and bins["early"] >= 0 and bins["late"] < 1e6, bins
    (times,) = rows("SELECT min(b.first_ns) - (SELECT start_ns FROM process) AS first, max(b.last_ns) - (SELECT end_ns FROM process) AS last"
                    f" FROM packet_bin b JOIN flow f ON f.id = b.flow_id WHERE source_port = {said['port']}")
    assert -1e9 < times["first"] < 5e9 and -2e9 < times["last"] < 1e9, f"not on the clock of the other records: {times}"


def lost_packets_are_found_at_the_sender_as_the_kernel_counts_them(a, b, router):
    said, one, _ = transfer(a, b, "198.18.202.2", 20 << 20)
    print(f"1 % lost on the way: capture at the sender {one['n_retransmitted']} retransmitted, TCP_INFO {said['n_retransmits']}")
    assert said["n_retransmits"] > 20
    assert abs(one["n_retransmitted"] - said["n_retransmits"]) <= max(1, 0.01 * said["n_retransmits"]), (said, one)
    assert one["stream_bytes"] == 20 << 20 and one["missing_bytes"] == 0 and one["n_out_of_order"] == 0, one


def and_at_the_receiver_where_the_first_ones_never_came(a, b, router):
    """Holes that are filled by what was sent again."""
    watch = subprocess.Popen(inside(b, LAPWING, "record", "-q", "--pcap=eth0", "-o", RUN, "--", "/usr/bin/python3", "-c", RECEIVER,
                                    "198.18.202.2", "1"), stdout=subprocess.PIPE, text=True)
    said = json.loads(run(inside(a, *sender("198.18.202.2", int(watch.stdout.readline()), 20 << 20))).stdout)
    watch.communicate()
    assert watch.returncode == 0
    one = flow(said["port"])
    print(f"capture at the receiver: {one['n_retransmitted']} retransmitted, TCP_INFO {said['n_retransmits']}; "
          f"{one['n_out_of_order']} out of order")
    assert abs(one["n_retransmitted"] - said["n_retransmits"]) <= max(4, 0.05 * said["n_retransmits"]), (said, one)
    assert one["stream_bytes"] == 20 << 20 and one["missing_bytes"] == 0, one
    assert one["is_sent"] == 0


def a_packet_is_counted_once_on_lo_on_any_and_on_a_bridge(a, b):
    for options in (["--pcap"], ["--pcap=lo"]):
        with receiver(a, "127.0.0.1") as port:
            before = nic(a, "rx_packets", "lo")
            said = record(a, RUN, options, sender("127.0.0.1", port, 5 << 20))
            moved = nic(a, "rx_packets", "lo") - before
        one = flow(said["port"])
        assert one["stream_bytes"] == 5 << 20 and one["is_sent"] == 1, one
        (frames,) = rows("SELECT sum(n_frames) AS n FROM packet_bin")
        assert abs(frames["n"] - moved) <= 2, (frames, moved)
    ip("-n", b, "link", "add", "br0", "type", "bridge")
    ip("-n", b, "link", "set", "eth0", "master", "br0")
    ip("-n", b, "addr", "del", f"{B}/24", "dev", "eth0")
    ip("-n", b, "addr", "add", f"{B}/24", "dev", "br0")
    ip("-n", b, "link", "set", "br0", "up")
    with receiver(a, A) as port:
        said = record(b, RUN, ["--pcap"], sender(A, port, 5 << 20))
    one = flow(said["port"])
    (capture,) = rows("SELECT * FROM capture")
    assert one["stream_bytes"] == 5 << 20 and one["retransmitted_bytes"] < 1 << 20, one
    assert capture["n_elsewhere"] > 0, capture
    ip("-n", b, "link", "del", "br0")
    ip("-n", b, "addr", "add", f"{B}/24", "dev", "eth0")


# Sends as many TCP segments of 100 bytes with a VLAN tag as it is told: this kernel may have no VLAN device.
TAGGED = """
import socket, struct, sys, time
time.sleep(1)
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(("eth0", 0))
mac = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
for i in range(int(sys.argv[1])):
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 140, i + 1, 0, 64, 6, 0, bytes([198, 18, 201, 1]), bytes([198, 18, 201, 2]))
    tcp = struct.pack("!HHIIBBHHH", 700, 701, 1000 + 100 * i, 0, 0x50, 16, 100, 0, 0)
    s.send(b"\\xff" * 6 + mac + struct.pack("!HHH", 0x8100, 5, 0x0800) + ip + tcp + bytes(100))
time.sleep(0.5)
"""


def ipv6_and_tagged_packets_are_seen(a, b):
    for host, end in ((a, 1), (b, 2)):
        ip("-n", host, "addr", "add", f"fd00:201::{end}/64", "dev", "eth0", "nodad")
    for device in ("eth0", "any"):
        with receiver(b, "fd00:201::2") as port:
            said = record(a, RUN, [f"--pcap={device}"], sender("fd00:201::2", port, 5 << 20))
        one = flow(said["port"])
        assert one["stream_bytes"] == 5 << 20 and one["source_address"] == "fd00:201::1", (device, one)
        assert one["is_sent"] == 1
    for host in (a, b):  # where the tag is part of the packet, and where the kernel took it off
        watch = subprocess.Popen(inside(host, LAPWING, "record", "-q", "--pcap=eth0", "-o", RUN, "--", "sleep", "3"))
        run(inside(a, "/usr/bin/python3", "-c", TAGGED, "2000"))
        assert watch.wait() == 0
        one = flow(700)  # nobody's: what falls into a second with too little is summed apart
        (rest,) = rows("SELECT coalesce(sum(n_packets), 0) AS n, coalesce(sum(payload_bytes), 0) AS bytes, coalesce(sum(frame_bytes), 0) AS"
                       " frames FROM v_flow WHERE is_other AND protocol = 'tcp'")
        assert one["n_packets"] + rest["n"] == 2000 and one["payload_bytes"] + rest["bytes"] == 200000, (host, one, rest)
        assert one["frame_bytes"] + rest["frames"] == 2000 * (18 + 40 + 100) and one["stream_bytes"] == one["payload_bytes"], (host, one)


def main():
    with two_hosts() as (a, b):
        payload_is_exact_and_the_nic_agrees(a, b)
        a_packet_is_counted_once_on_lo_on_any_and_on_a_bridge(a, b)
        ipv6_and_tagged_packets_are_seen(a, b)
    with routed_hosts() as (a, b, router):
        # single packets are lost, not merged ones: what is sent again and lost again reaches no receiver
        subprocess.run(inside(a, "ethtool", "-K", "eth0", "tso", "off", "gso", "off"), check=True, stdout=subprocess.DEVNULL)
        drop(router, "forward", 0.01)
        lost_packets_are_found_at_the_sender_as_the_kernel_counts_them(a, b, router)
        and_at_the_receiver_where_the_first_ones_never_came(a, b, router)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(FOLDER)
