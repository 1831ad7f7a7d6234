#!/usr/bin/env python3
"""What one hook costs: recorded, disabled, and beside uftrace and EZTrace on the same call of the same program.

    tests/bench/hook.py [--repeats 5] [--rounds 300] [--calls 500]

Every repeat runs bench_hook once under each tool, one after the other. bench_hook measures the plain call, the hooked call
and two clock reads in turn, about 200 us each, and gives the median cost over its rounds; shown is the median of these over the
repeats, with the lowest and the highest. Prints one JSON line: case -> figure -> {median, low, high, p5, p95}, ns a call.
"""
import argparse
import glob
import json
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPWING_BUILD_DIR", os.path.join(SOURCE, "build"))
REAL_MPI = ["mpirun.openmpi", "-n", "1", "--bind-to", "none", "--oversubscribe"]
WARM_CALLS = 64  # of bench_hook, a round and arm


def lapwing(folder, *options):
    return [f"{BUILD}/bin/lapwing", "record", "-q", "-o", f"{folder}/run.lapwing", *options, "--"]


def uftrace(folder, *options):
    # --force: the program is not built with -pg; --no-event: no scheduler events, which would cost more
    return ["uftrace", "record", "--force", "--no-event", "-d", f"{folder}/uftrace", *options]


# How many calls a tool recorded of each kind, from its own output: nothing is compared that did not record.
def n_in_run(folder, _n):
    with sqlite3.connect(f"file:{folder}/run.lapwing?mode=ro", uri=True) as run:
        counts = dict(run.execute("SELECT op, count(*) FROM collective GROUP BY op"))
        lost = run.execute("SELECT coalesce(sum(n), 0) FROM loss").fetchone()[0]
    return {"n_barrier": counts.get(10, 0), "n_allreduce": counts.get(1, 0), "n_lost": lost}


def n_in_uftrace(folder, _n):
    report = subprocess.run(["uftrace", "report", "-d", f"{folder}/uftrace"], capture_output=True, text=True, check=True).stdout
    counts = {name: int(n) for n, name in re.findall(r"(\d+)\s+(MPI_\w+)\s*$", report, re.M)}
    return {"n_barrier": counts.get("MPI_Barrier", 0), "n_allreduce": counts.get("MPI_Allreduce", 0), "n_lost": 0}


def n_in_eztrace(folder, n):
    # Without OTF2's tools its events cannot be counted; each of the two calls takes 20 bytes at the very least.
    size_bytes = sum(os.path.getsize(path) for path in glob.glob(f"{folder}/eztrace/*/*/*.evt"))
    return {"n_barrier": n if size_bytes > 40 * n else 0, "n_allreduce": n if size_bytes > 40 * n else 0, "n_lost": 0}


def nothing(_folder, _n):
    return {"n_barrier": 0, "n_allreduce": 0, "n_lost": 0}


# name: (what runs the program, is the MPI a real one, who counts what was recorded)
CASES = {
    "lapwing": (lambda folder: lapwing(folder), False, n_in_run),
    "lapwing_off": (lambda folder: lapwing(folder, "--hooks=-mpi,-mark"), False, nothing),
    "real_lapwing": (lambda folder: lapwing(folder) + REAL_MPI, True, n_in_run),
    "real_uftrace": (lambda folder: REAL_MPI + uftrace(folder), True, n_in_uftrace),
    "real_uftrace_off": (lambda folder: REAL_MPI + uftrace(folder, "-N", "^P*MPI_"), True, nothing),
    "real_eztrace": (lambda folder: REAL_MPI + ["eztrace", "-t", "openmpi", "-o", f"{folder}/eztrace"], True, n_in_eztrace),
}


def put_real_mpi(folder):
    """A folder for LD_LIBRARY_PATH where the system's Open MPI has the fake library's name."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"libmpi\.so\.40 .*=> (\S+)", listed)
    if not found:
        sys.exit("hook.py: no libmpi.so.40: install openmpi-bin (scripts/setup.sh)")
    os.symlink(found.group(1), f"{folder}/libfake_mpi.so")
    return folder


def run_case(name, args):
    command, is_real, count = CASES[name]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with tempfile.TemporaryDirectory() as folder:
        if is_real:
            environment["LD_LIBRARY_PATH"] = put_real_mpi(folder)
        program = [f"{BUILD}/tests/bench_hook", str(args.rounds), str(args.calls)]
        done = subprocess.run(command(folder) + program, capture_output=True, text=True, timeout=120, env=environment)
        line = next((line for line in done.stdout.splitlines() if line.startswith('{"bench":"hook"')), None)
        if done.returncode or not line:
            sys.exit(f"hook.py: {name}: exit {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
        n_wanted = args.rounds * (args.calls + WARM_CALLS)
        counts = count(folder, n_wanted)
    if count is not nothing:
        n = min(counts["n_barrier"], counts["n_allreduce"])
        if n + counts["n_lost"] < n_wanted:
            sys.exit(f"hook.py: {name}: recorded {counts} of {n_wanted} calls each")
    return json.loads(line), counts["n_lost"]


def spread(figures):
    """Of the processes' medians; the percentiles over rounds are those of the middle process."""
    medians = [figure["median"] for figure in figures]
    return {"median": statistics.median(medians), "low": min(medians), "high": max(medians),
            **{key: statistics.median(figure[key] for figure in figures) for key in ("p5", "p95")}}


def measure(args):
    runs = {name: [] for name in CASES}
    result = {"bench": "hook", "n_repeats": args.repeats, "n_rounds": args.rounds, "n_calls": args.calls}
    n_lost = 0
    for i in range(args.repeats):
        for name in CASES:
            run, lost = run_case(name, args)
            runs[name].append(run)
            n_lost += lost
        print(f"hook: repeat {i + 1}/{args.repeats}", file=sys.stderr, flush=True)
    for name, of_case in runs.items():
        figures = [key for key, value in of_case[0].items() if isinstance(value, dict)]
        result[name] = {key: spread([run[key] for run in of_case]) for key in figures}
    result["n_lost"] = n_lost
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--calls", type=int, default=500)
    print(json.dumps(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
