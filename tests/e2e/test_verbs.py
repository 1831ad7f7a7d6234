#!/usr/bin/env python3
"""Every RDMA work request and byte is recorded once: on the double of libibverbs, linked and by dlvsym."""
import os
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import rings  # noqa: E402
import traced  # noqa: E402
import verbs_account as account  # noqa: E402

DOUBLE = str(traced.BUILD / "tests" / "verbs")
BIG_RINGS = {"LAPWING_RING_RECORDS": "1048576"}
TABLE_FULL, UNSEEN = 5, 15


def run(name, *cases, hooks=None, **extra):
    """One program with @cases, traced; its output and code are those of the same one untraced."""
    command = [traced.program(name), *cases]
    extra["LD_LIBRARY_PATH"] = DOUBLE
    plain = subprocess.run(command, env=dict(os.environ, **extra), capture_output=True, text=True, timeout=60)
    job = traced.run(command, hooks=hooks, **extra)
    assert (job.code, job.stdout, job.stderr) == (plain.returncode, plain.stdout, plain.stderr), (
        f"{cases}: untraced {plain}, traced {job.code}\n{job.stdout}\n{job.stderr}")
    assert job.code == 0, job.stderr
    return job


def check(name, case, flags=None, **extra):
    """Exactly what the program says; @flags: how many records have each."""
    job = run(name, case, **extra)
    process = job.only()
    expected, got = account.told(job.stdout)["parent"], account.recorded(process)
    assert expected == got, f"{case}\n{account.difference(expected, got)}"
    assert not process["lost"] and not rings.of_kind(process, "LOSS"), rings.of_kind(process, "LOSS")
    work = rings.of_kind(process, "RDMA_WORK")
    for flag, n in (flags or {}).items():
        with_flag = sum(bool(event["flags"] & flag) for event in work)
        assert with_flag == n, f"{case}: {with_flag} records with flag {flag}, not {n}"
    print(f"{name} {case}: {len(work)} requests, {sum(event['bytes'] for event in work)} bytes, exact")
    return process


def every_request_and_byte_counts_however_the_library_was_got():
    for name in ("verbs_cases", "verbs_cases_dl"):
        check(name, "rc", {account.UNSIGNALLED: 0, account.UNTIMED: 0})
        check(name, "unsignalled", {account.UNSIGNALLED: 600, account.INLINE: 214})
        check(name, "srq", {account.SRQ: 120, account.UNTIMED: 0})
        check(name, "wr", {account.EX: 135, account.INLINE: 45, account.UNSIGNALLED: 90})
        check(name, "signal_all", {account.UNSIGNALLED: 0})
        check(name, "cq_ex")
        check(name, "cq_ex_first")
        check(name, "cq_ex_unsized", {account.UNSIZED: 30})
        check(name, "cq_ex_unnamed", {account.UNSIZED: 0})
        check(name, "cq_ex", FAKE_VERBS_IMPORT="1")
    check("verbs_cases_dl", "reload")
    check("verbs_cases", "signal_all", {account.UNSIGNALLED: 0}, FAKE_VERBS_CREATE="unseen")


def a_queue_that_cannot_name_its_queue_pairs_is_the_job_s_all_the_same():
    process = run("verbs_cases", "cq_ex_unnamed", FAKE_VERBS_NO_NUMBERS="1").only()
    status = [event["status"] for event in rings.of_kind(process, "RDMA_WORK") if event["op"] == account.OPS["send"]]
    assert status == [account.NO_STATUS] * 30, status
    assert sum(event["count"] for event in rings.of_kind(process, "LOSS") if event["op"] == UNSEEN) == 60


def what_makes_a_queue_pair_is_seen_once_whatever_it_calls():
    for how in ("ex", "ex2", "old", "old2"):
        for case, flag in (("signal_all", account.QP_SIGNAL_ALL), ("wr", account.QP_EX)):
            process = check("verbs_cases", case, FAKE_VERBS_CREATE=how)
            seen = [event for event in rings.of_kind(process, "RDMA_QP") if event["op"] == account.SEEN]
            assert len(seen) == 2 and all(event["flags"] == flag for event in seen), (how, case, seen)
    check("verbs_cases", "wr", {account.EX: 135}, FAKE_VERBS_CREATE="ex", RIG_DV="1")


def the_peer_of_a_queue_pair_is_known():
    with tempfile.TemporaryDirectory() as sysfs:
        os.makedirs(f"{sysfs}/ports/1/gids")
        for i, text in enumerate(("fe80:0000:0000:0000:0001:0002:0003:0004", "0000:0000:0000:0000:0000:ffff:c612:0007")):
            with open(f"{sysfs}/ports/1/gids/{i}", "w", encoding="ascii") as file:
                file.write(text + "\n")
        process = check("verbs_cases", "rc", FAKE_VERBS_SYSFS=sysfs)
    own = bytes(10) + b"\xff\xff\xc6\x12\0\x07"
    by_op = {op: [event for event in rings.of_kind(process, "RDMA_QP") if event["op"] == op] for op in (1, 2, 3)}
    assert {op: len(events) for op, events in by_op.items()} == {1: 2, 2: 2, 3: 2}
    ports = {event["port"]: event for event in rings.of_kind(process, "RDMA_PORT")}
    for event in by_op[account.CONNECTED]:
        assert (event["number"], event["peer_number"]) in ((1, 2), (2, 1)) and event["type"] == 2, event
        port = ports[event["port"]]
        assert (port["device"], port["number"], port["gid_index"], port["gid"]) == ("fake0", 1, 1, own), port
        assert event["peer_gid"] == own, event
    (hook,) = [event for event in rings.of_kind(process, "HOOK") if event["name"] == "verbs"]
    assert (hook["op"], hook["n_slots"]) == (1, 6) and hook["detail"].endswith("/libfake-rdmav34.so"), hook


def errors_and_what_never_completes_are_told():
    check("verbs_cases", "error", {account.UNSIGNALLED: 5})
    process = check("verbs_cases", "destroyed", {account.UNFINISHED: 5})
    ended = [event for event in rings.of_kind(process, "RDMA_QP") if event["op"] == account.ENDED]
    assert sorted(event["n_unused_receives"] for event in ended) == [0, 9], ended
    check("verbs_cases", "reset", {account.UNFINISHED: 4})
    check("verbs_cases", "exit", {account.UNFINISHED: 3})
    check("verbs_cases", "full")


def a_wr_id_is_compared_and_never_followed():
    for case in ("rc", "unsignalled", "srq", "signal_all"):
        check("verbs_cases", case, FAKE_VERBS_GARBAGE="1")


def threads_may_share_queues():
    for i in range(3):
        check("verbs_cases", "threads", {account.UNFINISHED: 0, account.UNTIMED: 0}, **BIG_RINGS)


def long_lists_and_many_queue_pairs_are_followed_and_too_many_are_counted():
    check("verbs_cases", "list", {account.UNSIGNALLED: 9999})
    job = run("verbs_cases", "long_list", **BIG_RINGS)
    process = job.only()
    assert account.told(job.stdout)["parent"] == account.recorded(process), account.recorded(process)
    losses = {reason: sum(event["count"] for event in rings.of_kind(process, "LOSS") if event["op"] == reason)
              for reason in (TABLE_FULL, UNSEEN)}
    assert losses == {TABLE_FULL: 70000 - 65536, UNSEEN: 0}, losses
    for case, n in (("many", 100000), ("too_many", 140000)):
        process = run("verbs_cases", case, **BIG_RINGS).only()
        n_work = sum(event["bytes"] == 3 for event in rings.of_kind(process, "RDMA_WORK"))
        n_unseen = sum(event["count"] for event in rings.of_kind(process, "LOSS") if event["op"] == UNSEEN)
        n_full = sum(event["count"] for event in rings.of_kind(process, "LOSS") if event["op"] == TABLE_FULL)
        assert n_work + n_unseen == n, (n_work, n_unseen)
        assert (n_unseen == 0) == (case == "many") and n_full >= n_unseen, (n_unseen, n_full)
        print(f"{case}: {n_work} of {n} queue pairs followed, {n_unseen} counted as lost")


def a_forked_child_has_tables_of_its_own():
    job = run("verbs_cases", "fork")
    assert len(job.processes) == 2, job.processes.keys()
    sums = account.told(job.stdout)
    for who, pid in (("parent", min(job.processes)), ("child", max(job.processes))):
        got = account.recorded(job.processes[pid])
        assert sums[who] == got, f"{who}\n{account.difference(sums[who], got)}"
        last = rings.of_kind(job.processes[pid], "RDMA_MEMORY")[-1]
        assert (last["registered_bytes"], last["n_registrations"], last["n_deregistrations"]) == (0, 1, 1), last


def memory_is_counted():
    job = run("verbs_cases", "memory")
    _, n_bytes, n, n_registrations = job.stdout.splitlines()[0].split()
    last = rings.of_kind(job.only(), "RDMA_MEMORY")[-1]
    assert (last["registered_bytes"], last["n_registered"], last["n_registrations"], last["n_deregistrations"],
            last["n_dmabufs"]) == (int(n_bytes), int(n), int(n_registrations), 1, 0), last
    # what the provider registers for itself goes too
    last = rings.of_kind(check("verbs_cases", "rc", FAKE_VERBS_RINGS="1"), "RDMA_MEMORY")[-1]
    assert (last["registered_bytes"], last["n_registered"], last["n_registrations"]) == (0, 0, 2), last


def contexts_of_other_releases_are_left_alone():
    check("verbs_cases", "rc", FAKE_VERBS_SHORT="1")
    process = run("verbs_cases", "rc", FAKE_VERBS_ANCIENT="1").only()
    assert not rings.of_kind(process, "RDMA_WORK")
    (hook,) = [event for event in rings.of_kind(process, "HOOK") if event["name"] == "verbs"]
    assert hook["op"] == 3 and "layout" in hook["detail"], hook


def a_process_that_only_looks_leaves_nothing():
    assert not run("verbs_cases", "inert").processes
    assert not run("verbs_cases", "rc", hooks="-verbs").processes


def the_library_may_be_used_before_our_constructor():
    both = [traced.program("verbs_in_load.so"), traced.LIBRARY]
    for order in (both, both[::-1]):
        job = traced.run([traced.program("verbs_cases"), "inert"], LD_LIBRARY_PATH=DOUBLE, LD_PRELOAD=":".join(order))
        process = job.only()
        expected, got = account.told(job.stdout)["parent"], account.recorded(process)
        assert job.code == 0 and expected and expected == got, f"{job.stderr}\n{account.difference(expected, got)}"


def memory_that_the_job_locks_stays_small():
    """The tables are some 90 MB that nobody uses; a job that locks its memory must not get them for real."""
    job = traced.run([traced.program("verbs_cases"), "locked"], LD_LIBRARY_PATH=DOUBLE)
    grown_bytes = int(job.stdout.split()[1])
    assert job.code == 0 and rings.of_kind(job.only(), "RDMA_QP") and grown_bytes < 40e6, job.stdout
    print(f"locked: {grown_bytes / 1e6:.0f} MB more in memory")


def a_run_file_has_it_all():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.lapwing"
        done = subprocess.run([traced.BUILD / "bin" / "lapwing", "record", "-q", "-o", path, "--",
                               traced.program("verbs_cases"), "rc", "srq", "error"], capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": DOUBLE}, timeout=60)
        assert done.returncode == 0, done.stderr
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            qps = {qp: (number, peer, is_srq, device) for qp, number, peer, is_srq, device in
                   db.execute("SELECT qp, number, peer_qp, is_srq, device FROM v_rdma_qp")}
            sums = dict(((qps[qp][0], op), (n, n_bytes, n_failed)) for qp, op, n, n_bytes, n_failed in
                        db.execute("SELECT qp, op, n, bytes, n_failed FROM v_rdma_work"))
    told = {}
    for (number, op, status), (n, n_bytes) in account.told(done.stdout)["parent"].items():
        before = told.get((number, op), (0, 0, 0))
        told[number, op] = (before[0] + n, before[1] + n_bytes, before[2] + (n if status else 0))
    assert sums == told, (sums, told)
    assert len(qps) == 8 and sum(qp[2] for qp in qps.values()) == 4, qps
    by_number = {qp[0]: qp for qp in qps.values()}
    assert all(by_number[peer][1] == number and device == "fake0" for number, peer, _, device in qps.values()), qps


if __name__ == "__main__":
    every_request_and_byte_counts_however_the_library_was_got()
    a_queue_that_cannot_name_its_queue_pairs_is_the_job_s_all_the_same()
    what_makes_a_queue_pair_is_seen_once_whatever_it_calls()
    the_peer_of_a_queue_pair_is_known()
    errors_and_what_never_completes_are_told()
    a_wr_id_is_compared_and_never_followed()
    threads_may_share_queues()
    long_lists_and_many_queue_pairs_are_followed_and_too_many_are_counted()
    a_forked_child_has_tables_of_its_own()
    memory_is_counted()
    contexts_of_other_releases_are_left_alone()
    a_process_that_only_looks_leaves_nothing()
    the_library_may_be_used_before_our_constructor()
    memory_that_the_job_locks_stays_small()
    a_run_file_has_it_all()
