# SPDX-License-Identifier: Apache-2.0
"""The figures of Horovod timelines, straight from json.load(): what the importer is checked against.

Prints one line an activity: name, n, sum and union in us, fused operations (runs of begins with the
same name that follow each other in the file). What is open at the end counts up to the last event.
"""
import collections
import json
import sys

DTYPE_BYTES = {"uint8": 1, "int8": 1, "int32": 4, "int64": 8, "float16": 2, "float32": 4, "float64": 8}


def load(path):
    text = open(path).read().strip()
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text.rstrip(",") + "]")


def union(intervals):
    total, end = 0, -1
    for start, stop in sorted(intervals):
        if stop > end:
            total += stop - max(start, end)
            end = stop
    return total


def figures(path):
    """{"activities": {name: (n, sum_us, union_us, n_runs)}, "bytes": .., "n_events": .., ...}"""
    events = load(path)
    stacks = collections.defaultdict(list)
    intervals = collections.defaultdict(list)
    runs = collections.Counter()
    previous, n_bytes, n_unmatched, tensors = None, 0, 0, set()
    times = [e["ts"] for e in events if "ts" in e]
    for e in events:
        if e["ph"] == "M":
            if "name" in e["args"]:
                tensors.add(e["args"]["name"])
        elif e["ph"] == "B":
            runs[e["name"]] += e["name"] != previous
            previous = e["name"]
            stacks[e["pid"]].append((e["name"], e["ts"]))
        else:
            previous = None
        if e["ph"] != "E":
            continue
        if not stacks[e["pid"]]:
            n_unmatched += 1
            continue
        name, start = stacks[e["pid"]].pop()
        intervals[name].append((start, e["ts"]))
        if "args" in e:
            size = DTYPE_BYTES[e["args"]["dtype"]]
            for extent in e["args"]["shape"].strip("[]").split(","):
                size *= int(extent) if extent.strip() else 1
            n_bytes += size
    n_open = 0
    for stack in stacks.values():
        for name, start in stack:
            intervals[name].append((start, max(times)))
            n_open += 1
    return {
        "activities": {k: (len(v), sum(b - a for a, b in v), union(v), runs[k])
                       for k, v in intervals.items()},
        "bytes": n_bytes, "n_events": len(events), "n_tensors": len(tensors),
        "first_us": min(times), "last_us": max(times), "n_open": n_open, "n_unmatched": n_unmatched,
        "n_ticks": sum(e["ph"] == "X" for e in events), "n_cycles": sum(e["ph"] == "i" for e in events),
    }


if __name__ == "__main__":
    for path in sys.argv[1:]:
        found = figures(path)
        print(path, {k: v for k, v in found.items() if k != "activities"})
        for name, row in found["activities"].items():
            print("  %-28s" % name, *row)
