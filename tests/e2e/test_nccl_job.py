#!/usr/bin/env python3
"""A job of four ranks on the double of libnccl, under `lapwing record`: its operations are stored exactly as driven.

The double moves real bytes over loopback and calls the profiler plugin from its proxy thread as NCCL does. Every
version of the plugin interface is tried: FAKE_NCCL_VERSION decides it.
"""
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

import jsonschema

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import traced  # noqa: E402

LAPWING = str(traced.BUILD / "bin" / "lapwing")
DOUBLE = str(traced.BUILD / "tests" / "nccl")
RANKS, CHANNELS = 4, 2
VERSIONS = {1: 22304, 2: 22403, 3: 22602, 4: 22703, 5: 22809, 6: 22902}
UNTIMED, UNFINISHED = 1, 2
ALLREDUCE, ALLGATHER, BROADCAST, REDUCESCATTER, REDUCE, SEND, RECV = 1, 2, 3, 5, 6, 9, 10
# kind, bytes as the caller gave them, root: of one round of nccl_job's case "all"
ROUND = ((ALLREDUCE, 16384, -1), (ALLREDUCE, 262144, -1), (ALLGATHER, 4096, -1), (REDUCESCATTER, 8192, -1),
         (BROADCAST, 4096, 1), (REDUCE, 2048, 0))


class Job:
    """What a run of nccl_job left: its output, and rows by table, each with the rank that wrote it."""

    def __init__(self, stdout, path):
        self.stdout = stdout
        self.db = sqlite3.connect(":memory:")
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
            file.backup(self.db)
        self.db.row_factory = sqlite3.Row

    def rows(self, table, rank, order="start_ns"):
        return [dict(row) for row in self.db.execute(
            f"SELECT t.* FROM {table} t JOIN thread h ON h.id = t.thread_id JOIN process p ON p.id = h.process_id"
            f" WHERE p.rank = ? ORDER BY t.{order}", (rank,))]

    def comms(self, rank):
        return [dict(row) for row in self.db.execute(
            "SELECT c.* FROM comm c JOIN process p ON p.id = c.process_id WHERE p.rank = ? AND c.transport = 3", (rank,))]

    def losses(self):
        return {row["reason"]: row["n"] for row in self.db.execute("SELECT reason, sum(n) AS n FROM loss GROUP BY reason")}


def environment(version, **extra):
    return {**os.environ, "LD_LIBRARY_PATH": DOUBLE, "FAKE_NCCL_VERSION": str(VERSIONS[version]), **extra}


def run(case, version, rounds=2, ranks=RANKS, hooks=None, **extra):
    """The job, untraced and recorded: its output is the same but for the plugin in use. Return: a Job."""
    command = [traced.program("nccl_job"), str(ranks), case, str(rounds)]
    plain = subprocess.run(command, env=environment(version, **{**extra, "NCCL_PROFILER_PLUGIN": "none"}), text=True,
                           capture_output=True, timeout=60)
    assert plain.returncode == 0, plain
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.lapwing"
        record = [LAPWING, "record", "-q", "--no-analyze", "-o", path, *([f"--hooks={hooks}"] if hooks else []), "--"]
        done = subprocess.run(record + command, env=environment(version, **extra), text=True, capture_output=True, timeout=60)
        assert done.returncode == 0 and done.stderr == plain.stderr, done
        ours, theirs = sorted(done.stdout.splitlines()), sorted(plain.stdout.splitlines())
        plugin = 0 if "NCCL_PROFILER_PLUGIN" in extra else version
        assert ours == [line.replace("plugin 0", f"plugin {plugin}") for line in theirs], (ours, theirs)
        return Job(done.stdout, path)


def shares(total, parts):
    """Bytes of each part, as the double cuts elements of a buffer."""
    return [total * (i + 1) // parts - total * i // parts for i in range(parts)]


def expected_proxies(kind, n_bytes, root, rank, element=4):
    """{(is_send, peer, channel): (bytes, steps)} of one operation on a ring."""
    result, n = {}, n_bytes // element
    following, previous = (rank + 1) % RANKS, (rank - 1) % RANKS
    for channel, own in enumerate(shares(n, CHANNELS)):
        if kind == ALLREDUCE:
            sent, received, steps = 0, 0, 2 * (RANKS - 1)
            parts = shares_of(n, channel)
            for k in range(RANKS - 1):
                sent += parts[(rank - k) % RANKS] + parts[(rank + 1 - k) % RANKS]
                received += parts[(rank - k - 1) % RANKS] + parts[(rank - k) % RANKS]
        elif kind in (ALLGATHER, REDUCESCATTER):
            sent = received = own * (RANKS - 1)
            steps = RANKS - 1
        else:
            at = (rank - (root if kind == BROADCAST else root + 1)) % RANKS
            sent, received, steps = own * (at < RANKS - 1), own * (at > 0), 1
        if sent:
            result[True, following, channel] = sent * element, steps
        if received:
            result[False, previous, channel] = received * element, steps
    return result


def shares_of(n, channel):
    """Elements of each part of a channel's share of @n elements."""
    first, end = n * channel // CHANNELS, n * (channel + 1) // CHANNELS
    return shares(end - first, RANKS)


def check_round(job, rank, version, ops, comm_key):
    proxies = {}
    for proxy in job.rows("nccl_proxy", rank):
        proxies.setdefault(proxy["serial"], []).append(proxy)
    for op, (kind, n_bytes, root) in zip(ops, ROUND * (len(ops) // len(ROUND))):
        element = {BROADCAST: 8, REDUCE: 8}.get(kind, 4)
        want = {"op": kind, "bytes": n_bytes, "peer": root, "algorithm": 2, "protocol": 3, "n_channels": CHANNELS,
                "group_serial": None, "comm_key": comm_key, "source": 2, "flags": 0}
        wrong = {key: (op[key], value) for key, value in want.items() if op[key] != value}
        assert not wrong, f"v{version} rank {rank}: {wrong} (got, expected) in {op}"
        own = proxies.pop(op["serial"])
        got = {(row["op"] == 1, row["peer"], row["channel"]): (row["bytes"], row["n_steps"]) for row in own}
        assert got == expected_proxies(kind, n_bytes, root, rank, element), (version, rank, op, own)
        assert op["start_ns"] <= min(row["start_ns"] for row in own)
        assert op["end_ns"] == max(row["end_ns"] for row in own), (version, rank, op, own)
    assert not proxies, proxies


def every_operation_of_every_rank_is_stored_as_driven():
    for version in VERSIONS:
        job = run("all", version)
        keys = set()
        for rank in range(RANKS):
            comm = job.comms(rank)
            assert len(comm) == 1 and comm[0]["rank"] == rank, comm
            assert comm[0]["size"] == (RANKS if version >= 4 else comm[0]["size"]), comm
            keys.add(comm[0]["key"])
            ops = job.rows("nccl_op", rank, "serial")
            assert len(ops) == 2 * len(ROUND), f"v{version} rank {rank}: {len(ops)} operations"
            check_round(job, rank, version, ops, comm[0]["key"])
        assert len(keys) == 1, f"v{version}: one communicator has {keys}"
        assert not job.losses(), job.losses()


def what_proxies_wait_for_is_told_apart():
    for version in VERSIONS:
        job = run("all", version, rounds=1, FAKE_NCCL_GPU_US="3000")
        for rank in range(RANKS):
            for row in job.rows("nccl_proxy", rank):
                if row["op"] == 1:
                    assert row["gpu_wait_ns"] >= 3000000 * row["n_steps"], (version, row)
                    waited = row["gpu_wait_ns"] + row["peer_wait_ns"] + row["wire_ns"]
                    assert waited <= row["end_ns"] - row["start_ns"], (version, row)


def groups_are_one_and_send_to_the_ring():
    for version in VERSIONS:
        job = run("group", version, rounds=1)
        for rank in range(RANKS):
            send, receive, first, second = job.rows("nccl_op", rank, "serial")
            assert (send["op"], send["peer"], send["bytes"]) == (SEND, (rank + 1) % RANKS, 65536), send
            assert (receive["op"], receive["peer"], receive["bytes"]) == (RECV, (rank - 1) % RANKS, 65536), receive
            assert send["group_serial"] and send["group_serial"] == receive["group_serial"]
            assert first["group_serial"] == second["group_serial"] and first["group_serial"] != send["group_serial"]
            assert (send["flags"], receive["flags"], first["flags"]) == (0, 0, 0), (version, send, receive)
            moved = [(row["op"], row["bytes"]) for row in job.rows("nccl_proxy", rank) if row["serial"] == send["serial"]]
            assert moved == [(1, 65536)], moved
        assert not job.losses()


def halves_have_names_that_all_their_ranks_agree_on():
    for version in VERSIONS:
        job = run("split", version, rounds=1)
        by_key = {}
        for rank in range(RANKS):
            for op in job.rows("nccl_op", rank):
                by_key.setdefault(op["comm_key"], []).append(rank)
        assert sorted(by_key.values()) == [[0, 2], [1, 3]], (version, by_key)
        if version >= 4:
            places = {rank: comm["rank"] for rank in range(RANKS) for comm in job.comms(rank) if comm["size"] == 2}
            assert places == {0: 1, 1: 1, 2: 0, 3: 0}, places


def an_aborted_operation_is_unfinished_and_the_others_are_whole():
    for version in VERSIONS:
        job = run("abort", version, rounds=1)
        for rank in range(RANKS):
            ops = job.rows("nccl_op", rank, "serial")
            assert [op["flags"] for op in ops] == [0] * len(ROUND) + [UNFINISHED] * (rank == 0), (version, ops)
        assert job.losses() == {16: 2 * CHANNELS}, job.losses()


def a_process_that_leaves_without_a_word_is_whole():
    for version in VERSIONS:
        job = run("leave", version, rounds=1)
        for rank in range(RANKS):
            assert [op["flags"] for op in job.rows("nccl_op", rank, "serial")] == [0] * len(ROUND)
        assert not job.losses()


def without_proxies_their_end_is_not_known():
    job = run("all", 6, FAKE_NCCL_LOCAL="1")
    for rank in range(RANKS):
        ops = job.rows("nccl_op", rank, "serial")
        assert [op["flags"] for op in ops] == [UNTIMED] * 2 * len(ROUND), ops
        assert not job.rows("nccl_proxy", rank)
    assert len(job.rows("nccl_op", 0)) == 2 * len(ROUND)


def thousands_of_operations_are_each_there_once():
    for version in (1, 6):
        job = run("many", version, rounds=6000)
        for rank in range(RANKS):
            ops = job.rows("nccl_op", rank, "serial")
            assert [op["serial"] for op in ops] == list(range(1, 6001)), len(ops)
            assert not [op for op in ops if op["flags"] or op["bytes"] != 256], ops[0]
        assert not job.losses(), job.losses()


def only_what_is_asked_for_is_recorded():
    for version in VERSIONS:
        job = run("off", version, rounds=4)
        for rank in range(RANKS):
            ops = job.rows("nccl_op", rank, "serial")
            assert [(op["op"], op["bytes"]) for op in ops] == [(kind, n_bytes) for kind, n_bytes, _ in ROUND], (version, ops)
            assert {op["flags"] for op in ops} == {0}
        assert not job.losses()


def what_carried_it_is_tied_to_its_socket():
    for version in (3, 6):
        job = run("all", version, rounds=1, FAKE_NCCL_NET="1")
        for rank in range(RANKS):
            sockets = [row[0] for row in job.db.execute(
                "SELECT s.socket FROM socket s JOIN process p ON p.id = s.process_id WHERE p.rank = ?", (rank,))]
            rows = job.rows("nccl_net", rank)
            assert rows and all(row["op"] == 2 and row["number"] in sockets for row in rows), (rows, sockets)
            moved = sum(row["bytes"] for row in job.rows("nccl_proxy", rank))
            assert sum(row["bytes"] for row in rows) == moved, (version, rank, moved)
            steps = sum(row["n_steps"] for row in job.rows("nccl_proxy", rank))
            assert sum(row["n"] for row in rows) == steps


def the_report_says_what_was_driven():
    command = [traced.program("nccl_job"), str(RANKS), "all", "20"]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.lapwing"
        for line in ([LAPWING, "record", "-q", "-o", path, "--", *command], [LAPWING, "report", "--json", path]):
            done = subprocess.run(line, env=environment(5), text=True, capture_output=True, timeout=100)
            assert done.returncode == 0, done
    report = json.loads(done.stdout)
    assert report["run"]["transports"] == ["nccl"] and len(report["ranks"]) == RANKS, report["run"]
    n_steps = report["steps"]["n"]
    assert n_steps >= 15, report["steps"]
    names = {ALLREDUCE: "allreduce", ALLGATHER: "allgather", REDUCESCATTER: "reducescatter", BROADCAST: "broadcast", REDUCE: "reduce"}
    want = {}
    for kind, n_bytes, _ in ROUND:
        want.setdefault(names[kind], []).append(n_bytes)
    got = {row["op"]: row for row in report["gpu"]["nccl"]}
    assert got.keys() == want.keys(), got.keys()
    for name, sizes in want.items():
        row = got[name]
        assert (row["algorithm"], row["protocol"], row["n"]) == ("RING", "SIMPLE", n_steps * RANKS * len(sizes)), row
        assert row["bytes"]["value"] == sum(sizes) / len(sizes), row
    assert report["collectives"]["n_per_step"]["value"] == len(ROUND), report["collectives"]
    assert report["loss"]["n_dropped"] == 0


def report_of(version, rounds, **extra):
    """Rounds of every operation, recorded: what `lapwing report` says of proxies, as JSON and as text."""
    command = [traced.program("nccl_job"), str(RANKS), "all", str(rounds)]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.lapwing"
        for line in ([LAPWING, "record", "-q", "-o", path, "--", *command], [LAPWING, "report", path],
                     [LAPWING, "report", "--json", path]):
            before = done.stdout if line[2] == "--json" else ""
            done = subprocess.run(line, env=environment(version, **extra), text=True, capture_output=True, timeout=100)
            assert done.returncode == 0, done
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads(subprocess.run([LAPWING, "report", "--json-schema"], capture_output=True, check=True).stdout))
    proxies = report["gpu"]["proxies"]
    links = {(link["from"], link["to"]): link for link in proxies["links"]}
    assert links.keys() == {(rank, (rank + 1) % RANKS) for rank in range(RANKS)}, links.keys()
    return proxies, links, " ".join(before.split())


def bytes_of_round(rank):
    return sum(n_bytes for kind, n, root in ROUND
               for (is_send, _, _), (n_bytes, _) in expected_proxies(kind, n, root, rank, {BROADCAST: 8, REDUCE: 8}.get(kind, 4)).items()
               if is_send)


def the_report_tells_what_each_link_carried():
    proxies, links, text = report_of(6, 20, FAKE_NCCL_NET="1")
    assert proxies["is_by_step"] and proxies["other"]["n_proxies"] == 0, proxies
    for (rank, _), link in links.items():
        assert link["sent"]["bytes"]["value"] == link["received"]["bytes"]["value"] == bytes_of_round(rank), (rank, link)
        assert link["over"] == ["tcp"] and link["nic"] == "lo", link
    assert "Inside NCCL" in text and "TCP lo" in text, text
    steps = {}
    for row in proxies["by_step"]:
        steps.setdefault(row["step"], {})[row["from"], row["to"]] = row["bytes"]
    assert len(steps) == 19 and proxies["n_by_step"] == 19 * RANKS, steps
    assert all(links == {(rank, (rank + 1) % RANKS): bytes_of_round(rank) for rank in range(RANKS)} for links in steps.values()), steps


def a_slow_link_is_named_and_no_rank_is_late():
    for version in (1, 6):
        proxies, links, text = report_of(version, 12, FAKE_NCCL_CREDITS="1", FAKE_NCCL_SLOW="1:2:3000")
        assert (proxies["slow_from"], proxies["slow_to"], proxies["late_rank"]) == (1, 2, None), (version, proxies)
        assert links[1, 2]["sent"]["network_ns"]["value"] > 2900000, links[1, 2]
        assert links[1, 2]["network_most_ns"]["value"] > 2000000, links[1, 2]
        assert "Slow: from rank 1 to rank 2" in text and "Late:" not in text, text


def a_late_rank_is_named_and_no_link_is_slow():
    for version in (1, 6):
        proxies, links, text = report_of(version, 12, FAKE_NCCL_CREDITS="1", FAKE_NCCL_LATE="2:3000")
        assert (proxies["slow_from"], proxies["late_rank"]) == (None, 2), (version, proxies)
        unasked_ns = links[1, 2]["sent"]["peer_wait_ns"]["value"]
        assert unasked_ns > 2000000 if version == 6 else unasked_ns is None, links[1, 2]
        assert links[1, 2]["receiver_late_least_ns"]["value"] > 2000000, links[1, 2]
        assert "Late: rank 2 had not asked for what rank 1 had ready" in text and "Slow:" not in text, text
        assert "Late rank: rank 2, by its GPU or its host" in text, text


def over_sockets_a_late_rank_is_no_slow_link():
    """Nobody asks for messages there, and buffers hold them."""
    proxies, _, text = report_of(6, 12, FAKE_NCCL_LATE="2:3000")
    assert proxies["slow_from"] is None and proxies["late_rank"] in (None, 2), proxies
    assert "Slow:" not in text, text


def words_of(case, rounds):
    """Of a recorded job: the report in one line, and its JSON."""
    command = [traced.program("nccl_job"), str(RANKS), case, str(rounds)]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.lapwing"
        done = [subprocess.run(line, env=environment(6), text=True, capture_output=True, timeout=100)
                for line in ([LAPWING, "record", "-q", "-o", path, "--", *command], [LAPWING, "report", path],
                             [LAPWING, "report", "--json", path])]
    return " ".join(done[1].stdout.split()), json.loads(done[2].stdout)


def halves_of_the_ranks_have_steps_of_their_own():
    text, report = words_of("split", 20)
    assert report["steps"]["n"] >= 18, report["steps"]
    lengths = [rank["step_ns"]["value"] for rank in report["ranks"]]
    assert all(lengths), lengths
    assert "records of a rank are missing" not in text and "A step takes" in text, text


def what_neighbours_send_each_other_is_no_alltoall():
    text, report = words_of("group", 12)
    assert report["steps"]["n"] == 11, report["steps"]
    assert "alltoall" not in text and "unmatched" not in text and "sends and receives of NCCL" in text, text


def a_hang_says_who_waited_and_who_never_called():
    text, report = words_of("abort", 5)
    found = re.search(r"Hang: rank 0 called allreduce of 16 KiB \d+\.\d+ s after the run began, and it had not ended when the"
                      r" process did, (\d+) ms later; ranks 1, 2, 3 never called it\. A step", text)
    assert found and 90 < int(found.group(1)) < 5000, text
    assert "allreduce allreduce" not in text, text


def another_plugin_or_none_is_left_alone():
    for name in ("none", "/nonexistent/libother.so"):
        job = run("all", 6, rounds=1, NCCL_PROFILER_PLUGIN=name)
        assert not [row for row in job.db.execute("SELECT 1 FROM nccl_op WHERE source = 2")]
    job = run("all", 6, rounds=1, hooks="-nccl", NCCL_PROFILER_PLUGIN="none")
    assert not [row for row in job.db.execute("SELECT 1 FROM nccl_op")]


def main():
    assert re.fullmatch(r"(\w|/|\.|-)+", DOUBLE)
    tests = [value for name, value in globals().items() if callable(value) and getattr(value, "__module__", "") == "__main__"
             and name.count("_") >= 3]
    for test in tests:
        test()
        print(test.__name__)


if __name__ == "__main__":
    main()
