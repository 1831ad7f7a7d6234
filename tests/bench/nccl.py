#!/usr/bin/env python3
"""What NCCL's profiler plugin costs a collective: recorded, and with the hook off, beside a plugin that does nothing.

    tests/bench/nccl.py [--repeats 5] [--rounds 200] [--calls 100]

Every repeat runs bench_nccl once under each; shown is the median over the repeats of its median cost over rounds, with the
lowest and the highest. Prints one JSON line: case -> figure -> {median, low, high, p5, p95}, ns a collective.
"""
import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPWING_BUILD_DIR", os.path.join(SOURCE, "build"))
CASES = {"recorded": [], "off": ["--hooks=-nccl"]}
WARM_CALLS, PROXIES = 64, 4  # of bench_nccl: a round and arm, a collective


def run_case(name, args):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.lapwing"
        command = [f"{BUILD}/bin/lapwing", "record", "-q", "--no-analyze", "--ring-records=1048576", "-o", path, *CASES[name],
                   "--", f"{BUILD}/tests/bench_nccl", str(args.rounds), str(args.calls)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            sys.exit(f"nccl.py: {name}: exit {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
        n_lost = 0
        if name == "recorded":
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as run:
                n = run.execute("SELECT count(*) FROM nccl_op").fetchone()[0]
                n += run.execute("SELECT count(*) FROM nccl_proxy").fetchone()[0]
                n_lost = run.execute("SELECT coalesce(sum(n), 0) FROM loss").fetchone()[0]
            if n + n_lost != args.rounds * (args.calls + WARM_CALLS) * (2 + PROXIES):
                sys.exit(f"nccl.py: recorded {n} operations and proxies, lost {n_lost}")
    return json.loads(done.stdout), n_lost


def spread(figures):
    medians = [figure["median"] for figure in figures]
    return {"median": statistics.median(medians), "low": min(medians), "high": max(medians),
            **{key: statistics.median(figure[key] for figure in figures) for key in ("p5", "p95")}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=100)
    args = parser.parse_args()
    runs = {name: [] for name in CASES}
    result = {"bench": "nccl", "n_repeats": args.repeats, "n_rounds": args.rounds, "n_calls": args.calls, "n_lost": 0}
    for _ in range(args.repeats):
        for name in CASES:
            run, n_lost = run_case(name, args)
            runs[name].append(run)
            result["n_lost"] += n_lost
    for name, of_case in runs.items():
        figures = [key for key, value in of_case[0].items() if isinstance(value, dict)]
        result[name] = {key: spread([run[key] for run in of_case]) for key in figures}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
