#!/usr/bin/env python3
"""Real libibverbs on soft-RoCE in QEMU guests: every work request and byte is recorded, peers are right, output is unchanged."""
import collections
import contextlib
import functools
import json
import os
import pathlib
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile

import jsonschema

HERE = pathlib.Path(__file__).resolve().parent
BUILD, SOURCE = os.environ["LAPWING_BUILD_DIR"], os.environ["LAPWING_SOURCE_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
import verbs_account as account  # noqa: E402

LAPWING = os.path.join(BUILD, "bin", "lapwing")
SEND, WRITE, READ, RECV = 1, 4, 6, 14
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


def lapwing(*arguments):
    done = subprocess.run([LAPWING, *arguments], capture_output=True, text=True)
    assert done.returncode in (0, 3), (arguments, done)  # 3: something is missing, and said to be
    return done.stdout


@functools.cache
def schema(verb):
    return json.loads(lapwing(verb, "--json-schema"))


def ask(verb, *paths):
    answer = json.loads(lapwing(verb, "--json", *paths))
    jsonschema.validate(answer, schema(verb))
    return answer


class Analysis:
    """What is made of run files of one job."""

    def __init__(self, folder, *names):
        paths = [str(folder / f"{name}.lapwing") for name in names]
        report = ask("report", *paths)
        self.network, self.diag = report["network"], report["diag"]
        self.text = lapwing("report", *paths)
        self.advice = ask("advise", *paths)
        for path in paths:
            ask("info", path)

    def links(self, key):
        """{(from, to): figure}, without what only set the connections up."""
        return {(link["from"], link["to"]): link[key] for link in self.network["links"] if link["rdma_bytes"]}

    def port(self, host="guest"):
        (port,) = [nic for nic in self.network["nics"] if nic["kind"] == "rdma_port" and nic["host"] == host]
        assert port["name"] == "rxe0/1" and port["tx_bytes"] is None and port["other_tx_bytes"] is None, port
        return port


def check_links(folder, name, expected):
    """Links of the run of two ranks on one device, and that nothing else went through that."""
    analysis = Analysis(folder, name)
    assert analysis.links("rdma_bytes") == expected, (name, analysis.network["links"])
    port = analysis.port()
    # a packet that comes late (the guest is emulated) is sent again, which its port counts, and acknowledged again
    n_late = sum(one["n"] for one in analysis.network["troubles"])
    others = port["other_tx_packets"] + port["other_rx_packets"]
    assert n_late <= 0.1 * port["tx_packets"], (name, analysis.network["troubles"])
    assert others <= 0.001 * port["tx_packets"] + n_late and (port["may_be"] is None or n_late), (name, port)
    # a packet for each 1024 bytes is the least that it takes; acknowledgements are on top
    assert sum(expected.values()) / 1024 <= port["tx_packets"] <= port["job_tx_packets"] + others, (name, port)
    assert analysis.network["algorithm"]["name"] == "pair", analysis.network["algorithm"]
    return analysis


def masked(text):
    """What a benchmark prints, without its measurements (of its clock too), numbers of queue pairs and keys."""
    return [re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "#", re.sub(r"\s+", " ", line)) for line in text.splitlines()
            if not re.match("Correlation coefficient|Conflicting CPU", line)]


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
    check_links(folder, name, {(0, 1): 819200, (1, 0): 819200})
    print(f"{name}: 200 sends and 200 receives of 4096 bytes each way, exact; peers right; output unchanged")


def check_write_bw(folder):
    check_output(folder, "write_bw")
    run = Run(folder / "write_bw.lapwing")
    assert sorted(run.by_op().values(), key=len) == [{WRITE: (200, 200 * 65536)}], run.by_op()
    check_mutual(run, "10.9.0.1")
    n_unsignalled = run.rows("SELECT count(*) FROM rdma_work WHERE flags & 1")[0][0]
    assert n_unsignalled == 190, n_unsignalled  # one of 20 has a completion
    check_links(folder, "write_bw", {(1, 0): 200 * 65536})
    memory = run.rows("SELECT max(n_registrations), max(registered_bytes) FROM rdma_memory")[0]
    assert memory[0] >= 1 and memory[1] >= 65536, memory
    print(f"write_bw: 200 writes of 65536 bytes, {n_unsignalled} without a completion of their own, exact; output unchanged")


def check_read_bw(folder):
    """Who is read sends without knowing it."""
    check_output(folder, "read_bw")
    run = Run(folder / "read_bw.lapwing")
    assert sorted(run.by_op().values(), key=len) == [{READ: (50, 50 * 65536)}], run.by_op()
    check_links(folder, "read_bw", {(0, 1): 50 * 65536})
    print("read_bw: 50 reads of 65536 bytes, exact, in the link from who was read; output unchanged")


def check_half(folder):
    """What the unseen client sends is beyond what was posted, and said to be."""
    analysis = Analysis(folder, "half")
    (mine,) = Run(folder / "half.lapwing").by_op().values()
    assert mine == {SEND: (200, 819200), RECV: (200, 819200)}, mine
    port = analysis.port()
    # 4 packets for each message of the client, and what it acknowledges
    assert 800 <= port["other_tx_packets"] <= 1000 and "libibverbs" in port["may_be"], port
    assert "beyond what the job asked libibverbs for" in " ".join(analysis.text.split()), analysis.text
    print(f"half: {port['other_tx_packets']} packets of {port['tx_packets']} are nobody's: the client was not recorded")


def check_doctor(folder):
    """Without the kernel's inet_diag: what is missing, and what to do."""
    answer = (folder / "doctor.json").read_text()
    assert "no TCP_INFO" in answer and "modprobe -a inet_diag tcp_diag" in answer and "TCP connections," not in answer, answer
    print("doctor: says that inet_diag is missing")


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
    """{(source, destination, queue pair): payload bytes} of RC sends on the wire, each packet number once: a witness of its own."""
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
    analysis = Analysis(folder, "one", "two")
    assert analysis.links("rdma_bytes") == {(0, 1): 1000000, (1, 0): 1000000}, analysis.network["links"]
    assert analysis.links("packet_bytes") == analysis.links("run_bytes"), analysis.network["links"]
    assert sum(analysis.links("n_psn_gaps").values()) == 0, analysis.network["links"]
    # the same from tcpdump's file beside them: it is one more sight of the same packets
    lapwing("import", "-o", str(folder / "wire.lapwing"), str(folder / "wire.pcap"))
    with contextlib.closing(sqlite3.connect(folder / "wire.lapwing")) as db:
        decoded = {tuple(row[:3]): row[3] for row in db.execute(
            "SELECT source_address, destination_address, destination_qp, stream_bytes FROM v_flow WHERE destination_qp IS NOT NULL AND stream_bytes > 0")}
    assert decoded == payload, (decoded, payload)
    imported = Analysis(folder, "one", "two", "wire")
    assert imported.links("rdma_bytes") == analysis.links("rdma_bytes"), imported.network["links"]
    assert imported.links("packet_bytes") == analysis.links("packet_bytes"), imported.network["links"]
    print("two guests: 1000000 bytes each way recorded, and as many in the capture, to the queue pairs recorded as peers")
    check_ring(folder)


N_RANKS, N_STEPS, PIECE_BYTES, READ_BYTES = 4, 12, 16384, 40000  # as in verbs_ring.c
HELLO_BYTES = 32 + 3  # over TCP, each way between neighbours


def check_ring(folder):
    """Four ranks on two hosts, in three recordings that captured their packets."""
    analysis = Analysis(folder, "ring0", "ring1", "ring23")
    network = analysis.network
    step_bytes = 2 * (N_RANKS - 1) * PIECE_BYTES
    forth = {(rank, (rank + 1) % N_RANKS) for rank in range(N_RANKS)}
    back = {(b, a) for a, b in forth}
    for key, sums in (("step_bytes", (step_bytes, 0)), ("rdma_bytes", (N_STEPS * step_bytes, READ_BYTES)),
                      ("run_bytes", (N_STEPS * step_bytes + HELLO_BYTES, READ_BYTES + HELLO_BYTES))):
        wanted = {**{link: sums[0] for link in forth}, **{link: sums[1] for link in back}}
        got = analysis.links(key)
        # a byte of TCP falls into the last step by halves: it is sampled
        assert got.keys() == wanted.keys() and all(abs(got[link] - wanted[link]) < 1 for link in wanted), (key, got, wanted)
    # packets between ranks of one guest never leave its device
    wanted = {(a, b): n if a // 2 != b // 2 else HELLO_BYTES for (a, b), n in wanted.items()}
    for (a, b), n in analysis.links("packet_bytes").items():
        assert n == (wanted[a, b] if a // 2 != b // 2 else None), (a, b, n, analysis.links("packet_bytes"))
    assert network["algorithm"]["name"] == "ring", network["algorithm"]
    assert any("captured several times" in one["kind"] for one in analysis.diag), analysis.diag
    for host in ("one", "two"):
        port = analysis.port(host)
        assert port["other_tx_packets"] + port["other_rx_packets"] <= 0.001 * port["tx_packets"], port
        (nic,) = [one for one in network["nics"] if one["name"] == "eth0" and one["host"] == host]
        assert nic["other_tx_bytes"] + nic["other_rx_bytes"] <= 0.005 * (nic["tx_bytes"] + nic["rx_bytes"]), nic
    paths = [str(folder / f"{name}.lapwing") for name in ("ring0", "ring1", "ring23")]
    screen = lapwing("tui", "--dump", "network", "--keys", "t", "--size", "120x40", *paths)
    shown = re.findall(r"(\d) +(\d) .* 10\.9\.0\.(\d) qp \d+ .* 10\.9\.0\.(\d) qp \d+", screen)
    assert {(int(a), int(b)) for a, b, *_ in shown} == forth | back and all(
        (int(peer), int(own)) == (int(b) // 2 + 1, int(a) // 2 + 1) for a, b, peer, own in shown), screen
    print(f"ring of 4 on two guests: {step_bytes} bytes a step and link, {N_STEPS * step_bytes} in all, as in the packets; reads too")


def main():
    with tempfile.TemporaryDirectory(prefix="lapwing-roce-") as name:
        folder = pathlib.Path(name)
        finish(start(folder))
        check_pingpong(folder, "pingpong", False)
        check_pingpong(folder, "pingpong_new", True)
        check_datagrams(folder)
        check_write_bw(folder)
        check_read_bw(folder)
        check_half(folder)
        check_doctor(folder)
        check_own(folder, "own")
        check_own(folder, "own_dl")
        check_own(folder, "more", n_on_srq=0)
        two_guests(folder)


if __name__ == "__main__":
    main()
