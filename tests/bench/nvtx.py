#!/usr/bin/env python3
"""What an NVTX range and a call of NCCL by preload cost: recorded, and untraced, in the same run.

    tests/bench/nvtx.py [--repeats 5] [--rounds 200] [--calls 100]

Every repeat runs bench_nvtx once under `lapwing record` and once alone; shown is the median over the repeats of its median
over rounds. Prints one JSON line: case -> arm -> {median, low, high}, ns. Nothing is shown unless all of it was recorded.
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
WARM_CALLS = 64


def run_case(is_recorded, args):
    env = {**os.environ, "LD_LIBRARY_PATH": f"{BUILD}/tests/nccl_stub", "STUB_NCCL_QUIET": "1", "NCCL_PROFILER_PLUGIN": "none"}
    command = [f"{BUILD}/tests/bench_nvtx", str(args.rounds), str(args.calls)]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.lapwing"
        record = [f"{BUILD}/bin/lapwing", "record", "-q", "--no-analyze", "--ring-records=1048576", "-o", path, "--"]
        done = subprocess.run(record * is_recorded + command, capture_output=True, text=True, timeout=120, env=env)
        if done.returncode:
            sys.exit(f"nvtx.py: exit {done.returncode}\n{done.stdout[-500:]}{done.stderr[-500:]}")
        if is_recorded:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as run:
                n_ops, = run.execute("SELECT count(*) FROM nccl_op").fetchone()
                n_marks, = run.execute("SELECT count(*) FROM range WHERE op = 4").fetchone()
                n_lost, = run.execute("SELECT coalesce(sum(n), 0) FROM loss").fetchone()
            n = args.rounds * (args.calls + WARM_CALLS)
            if n_ops + n_marks + n_lost != 5 * n or n_lost > n / 100:
                sys.exit(f"nvtx.py: {n_ops} operations, {n_marks} ranges, {n_lost} lost of {5 * n}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=100)
    args = parser.parse_args()
    runs = {"recorded": [], "plain": []}
    for _ in range(args.repeats):
        for name, of_case in runs.items():
            of_case.append(run_case(name == "recorded", args))
    result = {"bench": "nvtx", "n_repeats": args.repeats, "n_rounds": args.rounds, "n_calls": args.calls}
    for name, of_case in runs.items():
        result[name] = {}
        for arm in [key for key, value in of_case[0].items() if isinstance(value, dict)]:
            medians = [run[arm]["median"] for run in of_case]
            result[name][arm] = {"median": statistics.median(medians), "low": min(medians), "high": max(medians)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
