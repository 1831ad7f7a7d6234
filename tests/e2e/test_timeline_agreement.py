#!/usr/bin/env python3
"""Horovod's own timeline of rank 0 and the batches in our run file are the same operations at the same times."""
import json
import os
import sqlite3
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from horovod_run import Run

N_STEPS = 150  # the timeline loses its last events, a step or so, when the job ends


def read_timeline(path):
    """[(name, activity or None for the operation itself, start_us, end_us)], in order of their ends, and the origin."""
    with open(path) as file:
        events = json.load(file)
    names, stacks, spans, origin_us = {}, {}, [], None
    for event in events:
        pid = event.get("pid")
        if event["ph"] == "M" and event["name"] == "process_name":
            if pid == 0:
                origin_us = event["args"]["start_time_since_epoch_in_micros"]
            else:
                names[pid] = event["args"]["name"]
        elif event["ph"] == "B":
            stacks.setdefault(pid, []).append((event["name"], event["ts"]))
        elif event["ph"] == "E" and stacks.get(pid):
            name, start_us = stacks[pid].pop()
            spans.append((names[pid], name, start_us, event["ts"]))
    return spans, origin_us


def compare(label, theirs, ours):
    """Pair the k-th of each name; both are {name: [(start_ns, end_ns), ...]}."""
    n_theirs, n_ours = (sum(len(spans) for spans in side.values()) for side in (theirs, ours))
    pairs = [pair for name, spans in theirs.items() for pair in zip(spans, ours.get(name, []))]
    starts_us = [abs(their[0] - our[0]) / 1000 for their, our in pairs]
    ends_us = [abs(their[1] - our[1]) / 1000 for their, our in pairs]
    frac = len(pairs) / max(n_theirs, n_ours)
    print(f"{label}: {n_theirs} in the timeline, {n_ours} ours, {frac:.2%} matched; median gap of starts "
          f"{statistics.median(starts_us):.1f} us, of ends {statistics.median(ends_us):.1f} us "
          f"(90th percentile {statistics.quantiles(starts_us, n=10)[-1]:.1f} and {statistics.quantiles(ends_us, n=10)[-1]:.1f})")
    assert frac >= 0.99
    assert statistics.median(starts_us) <= 50 and statistics.median(ends_us) <= 50


OURS = """SELECT text, start_ns, end_ns FROM batch JOIN batch_tensor USING(thread_id, batch)
    JOIN string ON string.id = name_id WHERE thread_id IN (SELECT thread.id FROM thread JOIN process
    ON process.id = process_id WHERE rank = 0) ORDER BY start_ns"""
# a batch's time on the wire is the Gloo collective inside it
WIRE = """SELECT text, collective.start_ns, collective.end_ns FROM collective JOIN batch
    ON batch.thread_id = collective.thread_id AND collective.start_ns BETWEEN batch.start_ns AND batch.end_ns
    JOIN batch_tensor ON batch_tensor.thread_id = batch.thread_id AND batch_tensor.batch = batch.batch
    JOIN string ON string.id = name_id WHERE collective.transport = 2 AND collective.thread_id IN
    (SELECT thread.id FROM thread JOIN process ON process.id = process_id WHERE rank = 0)
    ORDER BY collective.start_ns"""


def by_name(rows):
    result = {}
    for name, start_ns, end_ns in rows:
        result.setdefault(name, []).append((start_ns, end_ns))
    return result


def check(launcher):
    with tempfile.TemporaryDirectory(prefix="lapwing-timeline-") as directory:
        timeline, run_file = os.path.join(directory, "timeline.json"), os.path.join(directory, "run.lapwing")
        env = {"HOROVOD_TIMELINE": timeline, "JOB_STEPS": N_STEPS}
        with Run(launcher, "train", env=env, run_file=run_file) as run:
            assert run.code == 0
        with sqlite3.connect(run_file) as store:
            spans, origin_us = read_timeline(timeline)
            monotonic_ns, realtime_ns = store.execute("SELECT monotonic_ns, realtime_ns FROM clock_sample").fetchone()
            origin_ns = origin_us * 1000 - realtime_ns + monotonic_ns
            times = [(name, activity, origin_ns + start_us * 1000, origin_ns + end_us * 1000)
                     for name, activity, start_us, end_us in spans]
            compare(f"{launcher} operations", by_name(row[::2] + row[3:] for row in times if row[1] == "ALLREDUCE"),
                    by_name(store.execute(OURS)))
            if launcher == "gloo":
                compare("gloo time on the wire", by_name(row[::2] + row[3:] for row in times if row[1] == "GLOO_ALLREDUCE"),
                        by_name(store.execute(WIRE)))


def main():
    for launcher in sys.argv[1:] or ["mpi", "gloo"]:
        check(launcher)


if __name__ == "__main__":
    main()
