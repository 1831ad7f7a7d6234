#!/usr/bin/env python3
"""The time in which a training thread waits for its peers is recorded, and no other sleep or yield is."""
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rings
import traced
from horovod_run import Run


def overlap_ns(span, waits):
    return sum(max(0, min(span[1], wait["t1"]) - max(span[0], wait["t0"])) for wait in waits)


def check(launcher):
    with Run(launcher, "wait") as run:
        assert run.code == 0
        for rank, told in run.ranks.items():
            process = run.traced[rank]
            waits = rings.of_kind(process, "WAIT")
            training = {event["tid"] for event in rings.of_kind(process, "THREAD") if event["op"] == 1}
            assert waits and {wait["tid"] for wait in waits} == training, "waits of the training thread alone"
            assert all(wait["t0"] <= wait["t1"] for wait in waits)
            for before, after in zip(waits, waits[1:]):
                assert before["t1"] <= after["t0"]
            assert overlap_ns(told["idle_ns"], waits) == 0, "the job's own sleep was taken for a wait"
            fracs = [overlap_ns(span, waits) / (span[1] - span[0]) for span in told["spans_ns"]]
            took_ns = [span[1] - span[0] for span in told["spans_ns"]]
            whole_frac = sum(overlap_ns(span, waits) for span in told["spans_ns"]) / sum(took_ns)
            if rank == 0:  # rank 1 comes late by a known time, which is waited for here
                assert sum(took_ns) > 0.7 * told["late_ns"] * len(took_ns), took_ns
                assert whole_frac > 0.9, f"recorded part of the waits: {whole_frac:.2%}, each {fracs}"
            print(f"{launcher} rank {rank}: {len(waits)} waits; synchronize() took {statistics.median(took_ns) / 1e6:.2f} ms, "
                  f"of which {whole_frac:.2%} is recorded as waiting")
    with Run(launcher, "wait", env={"LAPWING_HOOKS": "-wait"}) as run:
        assert run.code == 0
        assert not any(rings.of_kind(process, "WAIT") for process in run.traced.values()), "waits although the hook is off"


def a_constructor_may_wait_for_a_thread_that_waits():
    job = traced.run(["/usr/bin/python3", "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])",
                      traced.program("wait_in_load.so")], timeout=30)
    assert job.code == 0, job.stderr
    print("loading a library whose constructor waits: done")


def main():
    a_constructor_may_wait_for_a_thread_that_waits()
    for launcher in sys.argv[1:] or ["mpi", "gloo"]:
        check(launcher)


if __name__ == "__main__":
    main()
