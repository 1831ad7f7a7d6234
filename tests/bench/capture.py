#!/usr/bin/env python3
"""What a capture costs its reader at a given packet rate, beside tcpdump writing the same headers to /dev/null.

    tests/bench/capture.py [--rate 200000] [--seconds 4] [--repeats 3] [--flows 64]

A flood of TCP segments of 64 bytes leaves a veth device; every case reads it there, one after the other, in turn:
  wide      lapwing record --pcap: all packets to its flows, which are nobody's: stored by the second
  fine      the same as datagrams, asked for by --pcap-filter: stored by the millisecond, as flows of the job are
  tcpdump   -s 136 -w /dev/null -B 32768 with the same expression
  narrow    the filter that the kernel has once strangers are too many: lapwing sees none of these packets
Prints one JSON line. cpu_frac: CPU time of the reading process (all its threads, user and system) over the time of the flood;
ns_per_packet: the same over the packets sent. Needs root and tcpdump.
"""
import argparse
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.setdefault("LAPWING_BUILD_DIR", os.path.join(SOURCE, "build"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
from two_hosts import B, inside, receiver, run, sender, two_hosts  # noqa: E402

HOSTS = ("lwPg", "lwPh")


def cpu_ns(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


def measure(pid, args, *more):
    before = cpu_ns(pid)
    n_sent = int(run(inside(HOSTS[0], f"{BUILD}/tests/flood", "eth0", str(args.rate), str(args.seconds), str(args.flows), *more)).stdout)
    time.sleep(0.3)  # what waits in the ring
    return n_sent, cpu_ns(pid) - before


def lapwing(args, folder, is_narrow=False, is_fine=False):
    path = os.path.join(folder, "run.lapwing")
    with receiver(HOSTS[1], B) as port:
        command = sender(B, port, 1 << 20, 1 << 12, (args.seconds + 4) / 256) if is_narrow else ["sleep", str(args.seconds + 2)]
        record = subprocess.Popen(inside(HOSTS[0], f"{BUILD}/bin/lapwing", "record", "-q", "-o", path, "--pcap=eth0",
                                         *(["--pcap-filter", "udp"] if is_fine else []), "--", *command),
                                  stdout=subprocess.DEVNULL)
        time.sleep(0.8)
        pid = int(run(["pgrep", "-n", "-P", str(record.pid), "lapwingd"]).stdout)
        if is_narrow:  # strangers of more than a second bring it about
            run(inside(HOSTS[0], f"{BUILD}/tests/flood", "eth0", "60000", "1.5", "8"))
        n_sent, used_ns = measure(pid, args, *(["udp"] if is_fine else []))
        record.wait()
    with sqlite3.connect(path) as store:
        (dropped, text), = store.execute("SELECT n_dropped, filter FROM capture")
        (n_rows, n_seen), = store.execute("SELECT count(*), coalesce(sum(n_packets), 0) FROM packet_bin b JOIN flow f ON f.id = b.flow_id"
                                          " WHERE f.destination_port = 601 OR f.is_other")
    if ("host" in text) != is_narrow or (not is_narrow and n_seen + dropped < 0.999 * n_sent):
        sys.exit(f"capture.py: {n_seen} seen and {dropped} dropped of {n_sent}; filter '{text}'")
    return n_sent, used_ns, dropped, n_rows


def tcpdump(args):
    words = "tcp or udp port 4791 or (vlan and (tcp or udp port 4791))"
    dump = subprocess.Popen(inside(HOSTS[0], "tcpdump", "-Z", "root", "-p", "-i", "eth0", "-s", "136", "-B", "32768", "-w", "/dev/null", words),
                            stderr=subprocess.PIPE, text=True)
    time.sleep(0.8)
    n_sent, used_ns = measure(dump.pid, args)
    dump.send_signal(signal.SIGINT)
    words = dump.communicate()[1]
    dropped = int(next(line for line in words.splitlines() if "dropped by kernel" in line).split()[0])
    return n_sent, used_ns, dropped, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=200000)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--flows", type=int, default=64)
    args = parser.parse_args()
    cases = {"wide": lambda folder: lapwing(args, folder), "fine": lambda folder: lapwing(args, folder, is_fine=True),
             "tcpdump": lambda folder: tcpdump(args), "narrow": lambda folder: lapwing(args, folder, is_narrow=True)}
    results = {name: [] for name in cases}
    with two_hosts(*HOSTS), tempfile.TemporaryDirectory() as folder:
        run(inside(HOSTS[0], "ip", "neigh", "add", "198.18.201.77", "lladdr", "02:00:00:00:00:02", "dev", "eth0"))
        for i in range(args.repeats):
            for name, case in cases.items():
                results[name].append(case(folder))
            print(f"capture: repeat {i + 1}/{args.repeats}", file=sys.stderr, flush=True)
    report = {"bench": "capture", "rate_per_s": args.rate, "n_repeats": args.repeats, "n_flows": args.flows, "seconds": args.seconds}
    for name, runs in results.items():
        def spread(values):
            return {"median": statistics.median(values), "low": min(values), "high": max(values)}
        report[name] = {"cpu_frac": spread([used / (args.seconds * 1e9) for _, used, _, _ in runs]),
                        "ns_per_packet": spread([used / sent for sent, used, _, _ in runs]),
                        "sent_per_s": spread([sent / args.seconds for sent, _, _, _ in runs]),
                        "n_dropped": sum(dropped for _, _, dropped, _ in runs), "n_rows": max(rows for _, _, _, rows in runs)}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
