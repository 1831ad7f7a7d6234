#!/usr/bin/env python3
"""Every benchmark runs, prints its JSON and finds its row in the report. Nothing here is timed."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "bench.md")
        done = subprocess.run([os.path.join(HERE, "report.py"), out, "--quick"], stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stderr
        with open(out, encoding="utf-8") as file:
            report = file.read()
    print(report)
    for title in ("## One hook", "## RDMA verbs", "## CUPTI", "## NCCL's profiler plugin", "## Ring to SQLite", "## Predictions", "## Looking at NICs", "## A whole job", "## Packets"):
        assert title in report, title
    # a recorded call costs at least the two looks at the clock that it takes
    clock_ns = float(re.search(r"\| two clock reads[^|]*\| ([\d.]+)", report).group(1))
    for call in ("MPI_Barrier, recorded", "MPI_Allreduce, recorded"):
        cost_ns = float(re.search(rf"\| {call} \| ([\d.]+)", report).group(1))
        assert cost_ns > clock_ns / 2, (call, cost_ns, clock_ns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
