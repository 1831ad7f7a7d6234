#!/usr/bin/env python3
"""Whose ring is whose, straight from the ring files: children of every kind, threads, handlers, errors, limits on files."""
import collections
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rings  # noqa: E402
import traced  # noqa: E402

PROGRAM = traced.program("ring_owners")
BARRIER, REENTRY, NO_RING = 10, 3, 2


def barriers(process):
    return [event for event in rings.of_kind(process, "COLLECTIVE") if event["op"] == BARRIER]


def losses(process):
    n = collections.Counter()
    for event in rings.of_kind(process, "LOSS"):
        n[event["op"]] += event["count"]
    return n


def check_whole(process):
    """No record is torn or missing: sequence numbers of each ring are complete, times are in order."""
    assert process["lost"] == 0
    for event in process["events"]:
        assert 0 < event["t0"] <= event["t1"], event


def run(mode, hooks="mpi,mark", code=0, **environment):
    untraced = subprocess.run([PROGRAM, mode], env=dict(os.environ, LAPWING_DIR="/nonexistent"), capture_output=True, text=True,
                              timeout=60) if mode in ("workers", "signals") else None
    job = traced.run([PROGRAM, mode], hooks=hooks, timeout=60, **environment)
    assert job.code == code, (mode, job.code, job.stderr)
    if untraced:
        assert untraced.returncode == code and untraced.stderr == job.stderr == "", (untraced.stderr, job.stderr)
        assert len(untraced.stdout.splitlines()) == len(job.stdout.splitlines())
    said = collections.defaultdict(dict)
    for pid, what, n in re.findall(r"^(\d+) (\w+) (\d+)$", job.stdout, re.M):
        said[int(pid)][what] = int(n)
    for process in job.processes.values():
        check_whole(process)
    return job, said


def children_leave_the_parents_rings_alone():
    job, said = run("fork")
    process = job.only()
    assert list(said) == [process["pid"]] and len(barriers(process)) == said[process["pid"]]["barriers"] == 15
    print("fork, clone, vfork, vfork+exec, posix_spawn, system: 15 of 15 barriers of the parent, none of a child")


def forked_workers_are_traced_for_themselves():
    job, said = run("workers")
    assert len(said) == 3 and set(job.processes) == set(said)
    for pid, process in job.processes.items():
        assert len(barriers(process)) == said[pid]["barriers"]
        assert len(rings.of_kind(process, "COMM")) == 1
    job, said = run("fork_traced")
    assert set(job.processes) == set(said) and sorted(n["barriers"] for n in said.values()) == [6, 8]
    for pid, process in job.processes.items():
        assert len(barriers(process)) == said[pid]["barriers"], (pid, len(barriers(process)), said)
    print("forked workers: each in rings of its own, also below a traced parent")


def a_threads_ring_ends_with_it():
    job, said = run("threads")
    process = job.only()
    by_thread = collections.Counter(event["tid"] for event in barriers(process))
    assert sorted(by_thread.values()) == [1] + [5] * 8 and sum(by_thread.values()) == said[process["pid"]]["barriers"]
    job, _ = run("exit", code=21, LAPWING_RING_RECORDS="4194304")
    assert len(barriers(job.only())) >= 2000
    print("8 threads: a ring each, closed when the thread ends; exit while 3 threads are inside hooks: code as untraced")


def signal_handlers_lose_nothing_in_silence():
    n_marks, n_refused = 0, 0
    for _ in range(3):
        job, said = run("signals", LAPWING_RING_RECORDS="4194304")
        process = job.only()
        own = said[process["pid"]]
        marks = rings.of_kind(process, "MARK")
        assert len(barriers(process)) == own["barriers"]
        refused = losses(process)[REENTRY]
        assert len(marks) + refused == own["marks"], (len(marks), refused, own)
        assert {event["name"] for event in marks} == {"a signal handler's mark"}
        n_marks, n_refused = n_marks + len(marks), n_refused + refused
    print(f"signal handlers: {n_marks} marks recorded and {n_refused} counted as refused: all of them")


def errno_and_codes_are_the_jobs():
    job, _ = run("errors")
    process = job.only()
    colls = rings.of_kind(process, "COLLECTIVE")
    assert [(event["op"], event["flags"]) for event in colls] == [(1, 0), (1, 32 | 64)], colls
    assert losses(process)[NO_RING] == 1, "the thread without a descriptor for its ring is counted"
    print("errno and return codes: as the library left them, also when there is no ring to be had")


def limits_on_files_do_not_kill():
    for limit in ("4", "100"):  # KiB: less than any ring, and room for a small one
        job = traced.run(["bash", "-c", f"ulimit -f {limit}; exec {PROGRAM} fork_traced"], hooks="mpi")
        assert job.code == 0 and len(job.stdout.splitlines()) == 2, (job.code, job.stderr)
        assert len(job.processes) == (0 if limit == "4" else 2), (limit, len(job.processes))
    print("ulimit -f: a smaller ring, or none; the job goes on")


def main():
    children_leave_the_parents_rings_alone()
    forked_workers_are_traced_for_themselves()
    a_threads_ring_ends_with_it()
    signal_handlers_lose_nothing_in_silence()
    errno_and_codes_are_the_jobs()
    limits_on_files_do_not_kill()


if __name__ == "__main__":
    main()
