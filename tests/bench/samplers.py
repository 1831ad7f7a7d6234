#!/usr/bin/env python3
"""What looking at NICs and TCP connections costs, beside what one would do without lapwing, in the same run.

    tests/bench/samplers.py [SECONDS [ROUNDS]]        prints one JSON line

In a network namespace of its own with 8 NICs (veth pairs, each carrying traffic) and 100 sockets of one recorded
process, all of them busy. CPU time, of the process and the children that it waited for, as a share of one core; rounds
of every way in turn:
    off, on        the collector of that process with --sample-ms 0 and 100: the difference is what sampling costs
    shell          `cat /sys/class/net/*/statistics/*` and `ss -tin` every 100 ms
    python         a loop over the same files and `ss`, as an exporter does it, every 100 ms
"""
import json
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPWING_BUILD_DIR") or os.path.join(ROOT, "build")
LIBRARY, LAPWINGD = os.path.join(BUILD, "lib", "liblapwing.so"), os.path.join(BUILD, "bin", "lapwingd")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("LAPWING_") and k != "LD_PRELOAD"}
NAMESPACE, N_NICS, N_PAIRS = "lwSbench", 8, 50
PYTHON = "/usr/bin/python3"

JOB = f"""
import ctypes, socket, time
listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen(100)
ctypes.CDLL(None).lapwing_mark_step(ctypes.c_uint64(1))
pairs = []
for i in range({N_PAIRS}):
    pairs.append((socket.create_connection(listener.getsockname()), None)); pairs[-1] = (pairs[-1][0], listener.accept()[0])
nics = []
for i in range({N_NICS // 2}):
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); one.bind((f"vsn{{i}}", 0x88b5)); nics.append(one)
print("ready", flush=True)
while True:
    for a, b in pairs:
        a.send(b"x" * 1000); b.recv(1000)
    for one in nics:
        one.send(b"\\xff" * 12 + b"\\x88\\xb5" + b"x" * 200)
    time.sleep(0.05)
"""
SHELL = "while sleep 0.1; do cat /sys/class/net/*/statistics/* >/dev/null; ss -tin >/dev/null; done"
LOOP = """
import glob, subprocess, time
while True:
    start = time.monotonic()
    for path in glob.glob("/sys/class/net/*/statistics/*"):
        with open(path) as file:
            int(file.read())
    subprocess.run(["ss", "-tin"], stdout=subprocess.PIPE)
    time.sleep(max(0, 0.1 - (time.monotonic() - start)))
"""


def inside(*command):
    return ["ip", "netns", "exec", NAMESPACE, *command]


def cpu_ns(pid):
    """Of the process itself in ns, and of its children that have ended in ticks."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        own_ns = int(file.read().split()[0])
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return own_ns + (int(fields[13]) + int(fields[14])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def share(pid, seconds):
    time.sleep(1.5)  # what starting costs is not the question
    before, start = cpu_ns(pid), time.monotonic_ns()
    time.sleep(seconds)
    return (cpu_ns(pid) - before) / (time.monotonic_ns() - start)


def collected(folder, seconds, sample_ms):
    ring_dir, path = tempfile.mkdtemp(prefix="lapwing-bench-", dir="/dev/shm"), os.path.join(folder, f"{sample_ms}.lapwing")
    job = subprocess.Popen(inside(PYTHON, "-c", JOB), stdout=subprocess.PIPE, text=True,
                           env={**ENVIRONMENT, "LD_PRELOAD": LIBRARY, "LAPWING_DIR": ring_dir})
    collector = subprocess.Popen([LAPWINGD, "--foreground", "--dir", ring_dir, "--out", path, "--sample-ms", str(sample_ms)], env=ENVIRONMENT)
    try:
        job.stdout.readline()
        return share(collector.pid, seconds), path
    finally:
        job.kill()
        job.wait()
        collector.send_signal(signal.SIGTERM)
        collector.wait()
        shutil.rmtree(ring_dir, ignore_errors=True)


def watched(seconds, command):
    job = subprocess.Popen(inside(PYTHON, "-c", JOB.replace("ctypes.CDLL(None).lapwing_mark_step(ctypes.c_uint64(1))", "")),
                           stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    watcher = subprocess.Popen(inside(*command), env=ENVIRONMENT)
    try:
        job.stdout.readline()
        return share(watcher.pid, seconds)
    finally:
        for one in (job, watcher):
            one.kill()
            one.wait()


def figure(values):
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5
    n_rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    folder = tempfile.mkdtemp(prefix="lapwing-bench-")
    found = {"off": [], "on": [], "shell": [], "python": []}
    subprocess.run(["ip", "netns", "del", NAMESPACE], capture_output=True)
    try:
        subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
        subprocess.run(["ip", "-n", NAMESPACE, "link", "set", "lo", "up"], check=True)
        for i in range(N_NICS // 2):
            subprocess.run(["ip", "-n", NAMESPACE, "link", "add", f"vsn{i}", "type", "veth", "peer", "name", f"vsp{i}"], check=True)
            for end in ("n", "p"):
                subprocess.run(["ip", "-n", NAMESPACE, "link", "set", f"vs{end}{i}", "up"], check=True)
        for _ in range(n_rounds):
            found["off"].append(collected(folder, seconds, 0)[0])
            cost, path = collected(folder, seconds, 100)
            found["on"].append(cost)
            found["shell"].append(watched(seconds, ["bash", "-c", SHELL]))
            found["python"].append(watched(seconds, [PYTHON, "-c", LOOP]))
        db = sqlite3.connect(path)
        samplers = {name: {"period_ms": period * 1e-6, "n_samples": n, "cpu_frac": cpu / seconds_ns} for name, period, n, cpu, seconds_ns in
                    db.execute("SELECT name, actual_period_ns, n_samples, cpu_ns, (SELECT max(at_ns) - min(at_ns) FROM counter_sample) FROM sampler")}
        rows = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("counter_sample", "tcp_info_sample")}
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"bench": "samplers", "seconds": seconds, "n_nics": N_NICS, "n_sockets": 2 * N_PAIRS,
                      "core_frac": {name: figure(values) for name, values in found.items()},
                      "sampling_core_frac": figure([on - off for on, off in zip(found["on"], found["off"])]),
                      "samplers": samplers, "rows": rows}))


if __name__ == "__main__":
    main()
