#!/usr/bin/env python3
"""`record --pcap` beside others' traffic: few rows for it, and all of them for the job; what --pcap-filter adds."""
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
from two_hosts import A, B, inside, receiver, record, run, sender, two_hosts  # noqa: E402

BUILD = os.environ["LAPWING_BUILD_DIR"]
FOLDER = tempfile.mkdtemp(prefix="lapwing-pcap-")
RUN = os.path.join(FOLDER, "run.lapwing")


def rows(sql):
    with sqlite3.connect(RUN) as store:
        store.row_factory = sqlite3.Row
        return [dict(row) for row in store.execute(sql)]


def two_thousand_flows_of_others_make_some_rows_a_second(a, b, seconds=6):
    """8 000 packets/s: too few for a narrow filter however they bunch, and each flow moves less than 64 KiB/s."""
    with receiver(b, B) as port:
        flood = subprocess.Popen(inside(a, os.path.join(BUILD, "tests", "flood"), "eth0", "8000", str(seconds), "2000"), stdout=subprocess.PIPE)
        said = record(a, RUN, ["--pcap=eth0"], sender(B, port, 4 << 20, 1 << 13, (seconds - 2) / 512))
        n_sent = int(flood.communicate()[0])
    (capture,) = rows("SELECT * FROM capture")
    assert "host" not in capture["filter"] and capture["n_dropped"] == 0, capture
    (job,) = rows(f"SELECT * FROM v_flow WHERE source_port = {said['port']} AND source_address = '{A}'")
    (bins,) = rows("SELECT count(*) AS n, max(b.last_ns - b.bin_ns) AS longest FROM packet_bin b JOIN flow f ON f.id = b.flow_id"
                   f" WHERE f.source_port = {said['port']}")
    assert job["stream_bytes"] == 4 << 20 and job["is_sent"] == 1 and bins["n"] > 300 and bins["longest"] < 1_000_000, (job, bins)
    (others,) = rows("SELECT count(*) AS n, count(DISTINCT f.id) AS n_flows, sum(b.n_packets) AS n_packets, max(f.is_other) AS is_other"
                     " FROM packet_bin b JOIN flow f ON f.id = b.flow_id WHERE f.process_id IS NULL AND f.protocol = 'tcp'")
    print(f"strangers: {others['n_packets']} packets of {n_sent} while it was captured in {others['n']} rows; the job's {bins['n']}")
    assert others["n_packets"] > 8000 * (seconds - 3) and others["n_flows"] == 1 and others["is_other"] == 1, others
    assert others["n"] <= seconds + 2, others
    assert rows("SELECT count(*) AS n FROM flow WHERE destination_port = 601") == [{"n": 0}]


def one_that_moves_much_is_named_by_the_second(a, b):
    with receiver(b, B) as port:
        watch = subprocess.Popen(inside(a, os.path.join(BUILD, "bin", "lapwing"), "record", "-q", "--pcap=eth0", "-o", RUN, "--", "sleep", "4"))
        time.sleep(1)
        run(inside(a, *sender(B, port, 20 << 20, 1 << 16, 0.005)))
        assert watch.wait() == 0
    (one,) = rows(f"SELECT * FROM v_flow WHERE destination_port = {port}")
    (bins,) = rows("SELECT count(*) AS n, max(b.last_ns - b.bin_ns) AS longest, max(b.bin_ns % 1000000000) AS off FROM packet_bin b"
                   f" JOIN flow f ON f.id = b.flow_id WHERE f.destination_port = {port}")
    assert one["is_sent"] is None and (19 << 20) < one["payload_bytes"] and bins["n"] <= 4, (one, bins)
    assert bins["longest"] < 1e9 and bins["off"] == 0, bins


# Datagrams to port argv[2] of argv[1], one a ms.
TALK = """
import socket, sys, time
time.sleep(1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(300):
    s.sendto(b"x" * 100, (sys.argv[1], int(sys.argv[2]))); time.sleep(0.001)
time.sleep(0.3)
"""


def what_the_user_asks_for_is_captured_too(a, b):
    """And nothing else: of two ports one; the job's connection is there whatever the expression says, vlan in it too."""
    for expression, n in (("udp port 5353", 300), ("vlan 9", 0), ("vlan 9 or vlan 10", 0), (None, 0)):
        options = ["--pcap=eth0", *(["--pcap-filter", expression] if expression else [])]
        with receiver(b, B) as port:
            talks = [subprocess.Popen(inside(a, "/usr/bin/python3", "-c", TALK, B, to)) for to in ("5353", "5354")]
            said = record(a, RUN, options, sender(B, port, 1 << 20, 1 << 14, 0.03))
            for talk in talks:
                talk.wait()
        (capture,) = rows("SELECT filter FROM capture")
        assert (f" or ({expression})" in capture["filter"]) == (expression is not None), capture
        (job,) = rows(f"SELECT * FROM v_flow WHERE source_port = {said['port']}")
        assert job["stream_bytes"] == 1 << 20, (expression, job)
        seen = rows(f"SELECT destination_port AS port, n_packets AS n FROM v_flow WHERE protocol = 'udp' AND destination_address = '{B}'")
        assert seen == ([{"port": 5353, "n": n}] if n else []), (expression, seen)
        (bins,) = rows("SELECT count(*) AS n FROM packet_bin b JOIN flow f ON f.id = b.flow_id WHERE f.protocol = 'udp'")
        assert (bins["n"] > 100) == (n > 0), bins


# RoCE packets of 16 bytes to the queue pairs argv[1:], one each in a ms.
ROCE = """
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for psn in range(400):
    for qp in sys.argv[1:]:
        s.sendto(struct.pack("!BBHII", 4, 0, 65535, int(qp), psn) + bytes(20), ("127.0.0.1", 4791))
    time.sleep(0.001)
"""


def flows_of_queue_pairs_are_the_jobs(a, b):
    """The double of libibverbs has two that are connected to each other, 1 and 2, at an address of ours; nobody has 99."""
    gids = os.path.join(FOLDER, "ports/1/gids")
    os.makedirs(gids)
    for i, text in enumerate(("fe80:0000:0000:0000:0001:0002:0003:0004", "0000:0000:0000:0000:0000:ffff:7f00:0001")):
        with open(os.path.join(gids, str(i)), "w", encoding="ascii") as file:
            file.write(text + "\n")
    talk = f"/usr/bin/python3 -c '{ROCE}' 1 2 99 & "
    verbs = f"LD_LIBRARY_PATH={BUILD}/tests/verbs FAKE_VERBS_SYSFS={FOLDER} {BUILD}/tests/verbs_cases rc; wait"
    run(inside(a, os.path.join(BUILD, "bin", "lapwing"), "record", "-q", "--pcap=lo", "-o", RUN, "--", "sh", "-c", talk + verbs))
    (process,) = rows("SELECT DISTINCT process_id AS id FROM rdma_qp")
    flows = rows("SELECT f.*, v.n_packets, v.payload_bytes FROM flow f JOIN v_flow v ON v.flow_id = f.id WHERE f.protocol = 'roce'"
                 " ORDER BY f.is_other, f.destination_qp")
    assert [(one["destination_qp"], one["is_other"], one["process_id"], one["peer_process_id"], one["n_packets"]) for one in flows] == [
        (1, 0, process["id"], process["id"], 400), (2, 0, process["id"], process["id"], 400), (None, 1, None, None, 400)], flows
    (bins,) = rows("SELECT count(*) AS n, max(b.last_ns - b.bin_ns) AS longest FROM packet_bin b JOIN flow f ON f.id = b.flow_id"
                   " WHERE f.protocol = 'roce' AND NOT f.is_other")
    assert bins["n"] > 200 and bins["longest"] < 1_000_000, bins


def main():
    with two_hosts("lwPs", "lwPt") as (a, b):
        run(inside(a, "ip", "neigh", "add", "198.18.201.77", "lladdr", "02:00:00:00:00:02", "dev", "eth0"))
        two_thousand_flows_of_others_make_some_rows_a_second(a, b)
        one_that_moves_much_is_named_by_the_second(a, b)
        what_the_user_asks_for_is_captured_too(a, b)
        flows_of_queue_pairs_are_the_jobs(a, b)


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(FOLDER)
