#!/usr/bin/env python3
"""Horovod's own timeline of rank 0 and our batches are the same operations at the same times."""
import json
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rings
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


def check(launcher):
    with tempfile.TemporaryDirectory(prefix="lapwing-timeline-") as directory:
        path = os.path.join(directory, "timeline.json")
        with Run(launcher, "train", env={"HOROVOD_TIMELINE": path, "JOB_STEPS": N_STEPS}) as run:
            assert run.code == 0
            process = run.traced[0]
            spans, origin_us = read_timeline(path)
            clock = rings.of_kind(process, "CLOCK")[0]
            origin_ns = origin_us * 1000 - clock["realtime_ns"] + clock["t0"]  # in CLOCK_MONOTONIC
            theirs, wire = {}, {}
            for name, activity, start_us, end_us in spans:
                side = {"ALLREDUCE": theirs, "GLOO_ALLREDUCE": wire}.get(activity)
                if side is not None:
                    side.setdefault(name, []).append((origin_ns + start_us * 1000, origin_ns + end_us * 1000))
            ours, our_wire = {}, {}
            batches, _ = rings.batches(process)
            wires = sorted((event for event in rings.of_kind(process, "COLLECTIVE") if event["transport"] == 2),
                           key=lambda event: event["t0"])
            for i, batch in enumerate(batches):
                for member in batch["members"]:
                    ours.setdefault(member["name"], []).append((batch["t0"], batch["t1"]))
                    if wires:
                        our_wire.setdefault(member["name"], []).append((wires[i]["t0"], wires[i]["t1"]))
            compare(f"{launcher} operations", theirs, ours)
            if launcher == "gloo":
                compare("gloo time on the wire", wire, our_wire)


def main():
    for launcher in sys.argv[1:] or ["mpi", "gloo"]:
        check(launcher)


if __name__ == "__main__":
    main()
