#!/usr/bin/env python3
"""What `lapwing live` costs, and how soon it shows what happened: in a real terminal (tmux), beside a real collector.

    tests/bench/live.py [SECONDS]        prints one JSON line

cost: CPU time of its process, analyses in the background included, over wall time, at about 10 000 events a second: a job of
4 processes, each of which records a real job's mix at 2500 a second.
latency: from the first record of a process that joins the job (its own clock reading) until the screen holds it.
"""
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPWING_BUILD_DIR") or os.path.join(ROOT, "build")
LAPWING, PRODUCER = os.path.join(BUILD, "bin", "lapwing"), os.path.join(BUILD, "tests", "producer")
LAPWINGD = os.path.join(BUILD, "bin", "lapwingd")
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith("LAPWING_")}, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
N_PROCESSES, N_JOINING = 4, 20


def tmux(name, *words):
    return subprocess.run(["tmux", "-L", name, *words], capture_output=True, text=True, env=ENVIRONMENT).stdout


def produce(ring_dir, *arguments):
    """In a process group of its own: a job of several processes ends as one."""
    return subprocess.Popen([PRODUCER, *arguments], stdout=subprocess.DEVNULL, env={**ENVIRONMENT, "LAPWING_DIR": ring_dir},
                            start_new_session=True)


def end(job):
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()


def cpu_s(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def count(path, sql):
    import sqlite3
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return db.execute(sql).fetchone()[0]
    finally:
        db.close()


def n_ranks_shown(name):
    found = re.search(r"(\d+) of \d+ ranks alive", tmux(name, "capture-pane", "-p"))
    return int(found.group(1)) if found else 0


def measure(ring_dir, path, name, seconds):
    pid = int(tmux(name, "display-message", "-p", "#{pane_pid}"))
    time.sleep(5)
    before = cpu_s(pid), count(path, "SELECT sum(n_stored) FROM thread"), time.monotonic()
    time.sleep(seconds)
    wall = time.monotonic() - before[2]
    result = {"cost_frac": (cpu_s(pid) - before[0]) / wall,
              "n_processes": n_ranks_shown(name),
              "events_per_s": (count(path, "SELECT sum(n_stored) FROM thread") - before[1]) / wall}
    taken, joined, phase = [], [], random.Random(7)
    for _ in range(N_JOINING):
        n = n_ranks_shown(name)
        joined.append(produce(ring_dir, "-n", "100000", "-u", "1000000", "-r", "65536"))
        while n_ranks_shown(name) == n:
            time.sleep(0.002)
        seen_ns = time.monotonic_ns()
        start_ns = count(path, f"SELECT start_ns FROM process WHERE pid = {joined[-1].pid}")
        taken.append((seen_ns - start_ns) * 1e-6)
        time.sleep(phase.uniform(0.3, 0.7))  # not in step with its looks
    for one in joined:
        end(one)
    result["latency_ms"] = {"median": statistics.median(taken), "most": max(taken)}
    return result


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30
    folder, ring_dir = tempfile.mkdtemp(prefix="lapwing-bench-"), tempfile.mkdtemp(prefix="lapwing-bench-", dir="/dev/shm")
    path, name = f"{folder}/run.lapwing", f"lapwing-bench-{os.getpid()}"
    job = produce(ring_dir, "-p", str(N_PROCESSES), "-n", "10000000", "-u", "25600", "-r", "65536")
    collector = subprocess.Popen([LAPWINGD, "--foreground", "--dir", ring_dir, "--out", path], env=ENVIRONMENT)
    try:
        while not os.path.exists(f"{ring_dir}/out"):
            time.sleep(0.05)
        tmux(name, "-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40",
             f"exec {LAPWING} live --attach {ring_dir}")
        result = measure(ring_dir, path, name, seconds)
        print(json.dumps({"bench": "live", **result}))
    finally:
        tmux(name, "kill-server")
        end(job)
        collector.kill()
        collector.wait()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(ring_dir, ignore_errors=True)


if __name__ == "__main__":
    main()
