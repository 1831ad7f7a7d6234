#!/usr/bin/env python3
"""Slowdown of a real 2-rank Horovod job under `lapwing record`: paired runs, in alternating order.

    tests/bench/overhead.py [--pairs 10] [--steps 120] [--launcher gloo|mpi]

Each run gives its mean step time (the job's own clock, warm-up third left out); a pair gives one ratio. Printed: the
median ratio with a 95 % bootstrap interval over pairs, and the spread of the plain runs alone, which is the noise floor.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPWING_BUILD_DIR", os.path.join(SOURCE, "build"))
PYTHON = os.environ.get("LAPWING_PYTHON", os.path.join(SOURCE, ".venv/bin/python3"))
LAUNCHERS = {"gloo": ["horovodrun", "--gloo", "-np", "2"], "mpi": ["mpirun.openmpi", "-np", "2", "--oversubscribe"]}


def step_s(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    found = re.search(r"mean step ([\d.]+) ms", done.stdout)
    if done.returncode or not found:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return float(found.group(1)) / 1000


def interval(values, statistic, seed=1, n=10000):
    rng = random.Random(seed)
    draws = sorted(statistic(rng.choices(values, k=len(values))) for _ in range(n))
    return draws[int(0.025 * n)], draws[int(0.975 * n)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--launcher", choices=LAUNCHERS, default="gloo")
    args = parser.parse_args()

    environment = {**os.environ, "PATH": os.path.dirname(PYTHON) + ":" + os.environ["PATH"], "OMP_NUM_THREADS": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    job = [*LAUNCHERS[args.launcher], PYTHON, f"{SOURCE}/examples/train_horovod.py", "--steps", str(args.steps)]
    plain, traced = [], []
    with tempfile.TemporaryDirectory() as folder:
        record = [f"{BUILD}/bin/lapwing", "record", "-o", f"{folder}/run.lapwing", "--"]
        step_s(job, environment)  # warms the caches
        for i in range(args.pairs):
            for is_traced in ((False, True) if i % 2 == 0 else (True, False)):
                (traced if is_traced else plain).append(step_s(record + job if is_traced else job, environment))
            print(f"pair {i + 1}/{args.pairs}: plain {plain[-1] * 1e3:.2f} ms, recorded {traced[-1] * 1e3:.2f} ms, "
                  f"ratio {traced[-1] / plain[-1]:.4f}", file=sys.stderr, flush=True)
    ratios = [t / p for t, p in zip(traced, plain)]
    low, high = interval(ratios, statistics.median)
    result = {"bench": "overhead", "launcher": args.launcher, "n_pairs": args.pairs, "n_steps": args.steps,
              "plain_step_ns": round(statistics.median(plain) * 1e9), "recorded_step_ns": round(statistics.median(traced) * 1e9),
              "slowdown_frac": round(statistics.median(ratios) - 1, 5), "low_frac": round(low - 1, 5), "high_frac": round(high - 1, 5),
              "plain_spread_frac": round((max(plain) - min(plain)) / statistics.median(plain), 5)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
