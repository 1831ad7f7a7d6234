#!/usr/bin/env python3
"""Real libibverbs on soft-RoCE in QEMU guests: every work request and byte is recorded, peers are right, output is unchanged."""
import collections
import os
import pathlib
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD, SOURCE = os.environ["LAPWING_BUILD_DIR"], os.environ["LAPWING_SOURCE_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
import verbs_account as account  # noqa: E402

SEND, WRITE, RECV = 1, 4, 14
EX = account.EX


def start(folder, name="guest", **variables):
    command = (f"BUILD={BUILD} SOURCE={SOURCE} ONLY_PEER={'' if name == 'guest' else name} "
               f"sh {HERE}/cases.sh")
    return subprocess.Popen([HERE / "guest.sh", folder, command], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env={**os.environ, "GUEST_NAME": name, **variables})


def finish(guest, limit_s=300):
    output, _ = guest.communicate(timeout=limit_s)
    assert guest.returncode == 0, f"guest: exit {guest.returncode}\n{output}"
    return output


class Run:
    """A run file: its work requests by process and queue pair, and who is whose peer."""

    def __init__(self, path):
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        assert self.rows("SELECT * FROM loss") == [], self.rows("SELECT * FROM loss")
        self.qps = self.rows("SELECT process_id, number, device, port, gid, peer_qp, peer_gid, is_srq, type FROM v_rdma_qp")

    def rows(self, sql, *values):
        return self.db.execute(sql, values).fetchall()

    def sums(self):
        """{(number, op, status): (n, bytes)}"""
        return {(number, op, account.NO_STATUS if status is None else status): (n, n_bytes)
                for number, op, status, n, n_bytes in self.rows(
                    "SELECT q.number, w.op, w.status, count(*), sum(w.bytes) FROM rdma_work w"
                    " JOIN thread t ON t.id = w.thread_id"
                    " JOIN v_rdma_qp q ON q.process_id = t.process_id AND q.qp = w.qp GROUP BY 1, 2, 3")}

    def by_op(self):
        """{process: {op: (n, bytes)}} of all that succeeded."""
        sums = collections.defaultdict(dict)
        for process, op, n, n_bytes in self.rows(
                "SELECT t.process_id, op, count(*), sum(bytes) FROM rdma_work JOIN thread t ON t.id = thread_id"
                " WHERE status = 0 GROUP BY 1, 2"):
            sums[process][op] = (n, n_bytes)
        return dict(sums)

    def flags(self):
        return {flags for flags, in self.rows("SELECT DISTINCT flags FROM rdma_work WHERE op < 14")}


def masked(text):
    """What a benchmark prints, without its measurements, numbers of queue pairs and keys."""
    return [re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "#", re.sub(r"\s+", " ", line)) for line in text.splitlines()]


def outputs(folder, name):
    return [(folder / f"{name}.{how}").read_text() for how in ("plain", "traced")]


def check_output(folder, name):
    plain, traced = outputs(folder, name)
    assert plain.splitlines()[-1] == "exit 0", f"{name}, untraced:\n{plain}"
    assert masked(plain) == masked(traced), f"{name}: untraced\n{plain}\ntraced\n{traced}"


def check_mutual(run, gid):
    """Two processes on one device: each one's peer is the other."""
    (a, b) = run.qps
    for own, peer in ((a, b), (b, a)):
        assert own[2:5] == ("rxe0", 1, gid) and own[5] == peer[1] and own[6] == gid and own[8] == 2, run.qps


def check_pingpong(folder, name, is_new):
    check_output(folder, name)
    run = Run(folder / f"{name}.lapwing")
    sums = run.by_op()
    assert len(sums) == 2 and all(one == {SEND: (200, 819200), RECV: (200, 819200)} for one in sums.values()), sums
    assert all(bool(flags & EX) == is_new for flags in run.flags()), run.flags()
    check_mutual(run, "10.9.0.1")
    print(f"{name}: 200 sends and 200 receives of 4096 bytes each way, exact; peers right; output unchanged")


def check_write_bw(folder):
    check_output(folder, "write_bw")
    run = Run(folder / "write_bw.lapwing")
    assert sorted(run.by_op().values(), key=len) == [{WRITE: (200, 200 * 65536)}], run.by_op()
    check_mutual(run, "10.9.0.1")
    n_unsignalled = run.rows("SELECT count(*) FROM rdma_work WHERE flags & 1")[0][0]
    assert n_unsignalled == 190, n_unsignalled  # one of 20 has a completion
    memory = run.rows("SELECT max(n_registrations), max(registered_bytes) FROM rdma_memory")[0]
    assert memory[0] >= 1 and memory[1] >= 65536, memory
    print(f"write_bw: 200 writes of 65536 bytes, {n_unsignalled} without a completion of their own, exact; output unchanged")


def check_datagrams(folder):
    """Each request names its own peer there, and a receive has 40 bytes of header."""
    check_output(folder, "datagrams")
    run = Run(folder / "datagrams.lapwing")
    sums = run.by_op()
    assert len(sums) == 2 and all(one == {SEND: (100, 100000), RECV: (100, 104000)} for one in sums.values()), sums
    number = {process: qp for process, qp, *_ in run.qps}
    peers = run.rows("SELECT DISTINCT t.process_id, w.peer_number FROM rdma_work w JOIN thread t ON t.id = w.thread_id"
                     " WHERE w.status = 0")
    assert {qp[8] for qp in run.qps} == {4} and len(peers) == 2, (run.qps, peers)
    assert all(peer in number.values() and peer != number[process] for process, peer in peers), (number, peers)
    print("datagrams: 100 each way, exact; the peer of every request right; output unchanged")


def check_own(folder, name, n_on_srq=4):
    plain, traced = outputs(folder, name)
    assert plain.splitlines()[-1] == "exit 0", f"{name}, untraced:\n{plain}"
    without_numbers = [sorted(re.sub(r"^sum \d+", "sum", line) for line in text.splitlines()) for text in (plain, traced)]
    assert without_numbers[0] == without_numbers[1], f"{name}: untraced\n{plain}\ntraced\n{traced}"
    run = Run(folder / f"{name}.lapwing")
    told, got = collections.defaultdict(lambda: (0, 0)), run.sums()
    for sums in account.told(traced).values():  # of a forked child too
        for key, (n, n_bytes) in sums.items():
            told[key] = (told[key][0] + n, told[key][1] + n_bytes)
    assert told == got, f"{name}\n{account.difference(told, got)}"
    assert sum(qp[7] for qp in run.qps) == n_on_srq, run.qps
    for n_slots, provider in run.rows(
            "SELECT n_slots, d.text FROM hook JOIN string n ON n.id = name_id JOIN string d ON d.id = detail_id"
            " WHERE n.text = 'verbs'"):
        assert n_slots == 6 and "/librxe" in provider, (n_slots, provider)
    n, n_bytes = run.rows("SELECT count(*), sum(bytes) FROM rdma_work")[0]
    print(f"{name}: {n} requests of {len(run.qps)} queue pairs, {n_bytes} bytes, exact; output unchanged")


def roce_payload(path):
    """{(source, destination, queue pair): payload bytes} of RC sends on the wire, each packet number once."""
    data = path.read_bytes()
    assert data[:4] == b"\xd4\xc3\xb2\xa1", "a little-endian pcap with microseconds"
    at, seen, sums = 24, set(), collections.defaultdict(int)
    while at < len(data):
        _, _, captured, _ = struct.unpack_from("<IIII", data, at)
        packet = data[at + 16:at + 16 + captured]
        at += 16 + captured
        ip = packet[14:]
        header = (ip[0] & 15) * 4
        if ip[9] != 17 or struct.unpack_from(">H", ip, header + 2)[0] != 4791:
            continue
        opcode, flags = ip[header + 8], ip[header + 9]
        qp, number = (int.from_bytes(ip[header + i:header + i + 3], "big") for i in (13, 17))
        if opcode not in (0, 1, 2, 4):  # first, middle, last, only
            continue
        key = (".".join(map(str, ip[12:16])), ".".join(map(str, ip[16:20])), qp)
        if (key, number) in seen:  # sent again
            continue
        seen.add((key, number))
        sums[key] += struct.unpack_from(">H", ip, header + 4)[0] - 8 - 12 - 4 - (flags >> 4 & 3)
    return dict(sums)


def two_guests(folder):
    wire = folder / "wire.sock"
    guests = [start(folder, "one", GUEST_WIRE=str(wire), GUEST_ADDRESS="10.9.0.1/24"),
              start(folder, "two", GUEST_WIRE=str(wire), GUEST_ADDRESS="10.9.0.2/24")]
    try:
        outputs_of = [finish(guest) for guest in guests]
    finally:
        for guest in guests:
            if guest.poll() is None:
                guest.terminate()
                guest.wait()
    runs = [Run(folder / f"{name}.lapwing") for name in ("one", "two")]
    payload = roce_payload(folder / "wire.pcap")
    addresses = ["10.9.0.1", "10.9.0.2"]
    for i, run in enumerate(runs):
        (qp,) = run.qps
        (peer,) = runs[1 - i].qps
        assert qp[2:7] == ("rxe0", 1, addresses[i], peer[1], addresses[1 - i]), (qp, peer)
        assert list(run.by_op().values()) == [{SEND: (100, 1000000), RECV: (100, 1000000)}], run.by_op()
        on_wire = payload.get((addresses[i], addresses[1 - i], peer[1]))
        assert on_wire == 1000000, (payload, outputs_of)
    print("two guests: 1000000 bytes each way recorded, and as many in the capture, to the queue pairs recorded as peers")


def main():
    with tempfile.TemporaryDirectory(prefix="lapwing-roce-") as name:
        folder = pathlib.Path(name)
        finish(start(folder))
        check_pingpong(folder, "pingpong", False)
        check_pingpong(folder, "pingpong_new", True)
        check_datagrams(folder)
        check_write_bw(folder)
        check_own(folder, "own")
        check_own(folder, "own_dl")
        check_own(folder, "more", n_on_srq=0)
        two_guests(folder)


if __name__ == "__main__":
    main()
