#!/usr/bin/env python3
"""What the CUPTI hook costs without a GPU: to read a record, to say what a call is for, and to stand in a call's way.

    tests/bench/cupti.py [--rounds 300]

Runs bench_cupti, and bench_cuda under `lapwing record` on the doubles of CUDA's libraries: subscribed, and as a process
that nobody traces. Prints one JSON line.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPWING_BUILD_DIR", os.path.join(SOURCE, "build"))


def run(*command, **extra):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CUDA_", "LAPWING_GPU", "KINETO_"))}
    done = subprocess.run(command, env={**env, "LD_LIBRARY_PATH": f"{BUILD}/tests/cuda", **extra}, capture_output=True, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"cupti.py: {' '.join(command)}: exit {done.returncode}\n{done.stderr[-1000:]}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", default="300")
    args = parser.parse_args()
    result = run(f"{BUILD}/tests/bench_cupti", args.rounds)
    with tempfile.TemporaryDirectory() as folder:
        record = [f"{BUILD}/bin/lapwing", "record", "-q", "--no-analyze", "-o", f"{folder}/run.lapwing", "--", f"{BUILD}/tests/bench_cuda",
                  args.rounds]
        for name, rank in (("subscribed", "0"), ("not_traced", "")):
            result[name] = run(*record, RANK=rank)
            if not result[name]["is_hooked"]:
                sys.exit("cupti.py: the call is not hooked")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
