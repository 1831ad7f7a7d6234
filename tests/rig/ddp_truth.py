#!/usr/bin/env python3
"""Does the prediction of another bucket_cap_mb come true? Real torch DDP over Gloo, 2 ranks, a shaped link between them.

    tests/rig/ddp_truth.py [--recorded MB] [--caps 1,2,4,8,25] [--rate 200mbit] [--steps N] [--lock FILE] [--results FILE]
    tests/rig/ddp_truth.py --once RUN [--recorded MB] ...    only record, and keep the run                 (needs root)

Records ONE run with the recorded cap, lets `lapwing predict` say what each cap takes and `lapwing advise` what to set,
then measures every cap without lapwing, twice, interleaved. A pair that differs by more than 2 % is measured once more.
With --lock every run holds that file's lock, for machines where others measure too. lapwing is told nothing of the rig.
"""
import argparse
import contextlib
import datetime
import fcntl
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
LAPWING = os.path.join(os.environ.get("LAPWING_BUILD_DIR", os.path.join(SOURCE, "build")), "bin", "lapwing")
PYTHON = "/usr/bin/python3"  # Debian's torch
SPACES = ("lwd0", "lwd1")
TOLERANCE_FRAC = 0.02


def note(text):
    print(f"{datetime.datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def sh(command):
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def network(rate):
    """Two network namespaces, one link; 198.18.0.0/15 is the benchmarking range (RFC 2544)."""
    try:
        for space in SPACES:
            sh(f"ip netns add {space}")
        sh(f"ip -n {SPACES[0]} link add eth0 type veth peer name eth0 netns {SPACES[1]}")
        for i, space in enumerate(SPACES):
            sh(f"ip -n {space} addr add 198.18.78.{i + 1}/24 dev eth0")
            for device in ("lo", "eth0"):
                sh(f"ip -n {space} link set {device} up")
            sh(f"ip netns exec {space} sysctl -qw net.ipv4.tcp_slow_start_after_idle=0")
            sh(f"ip netns exec {space} sysctl -qw net.ipv4.tcp_congestion_control=reno")
            sh(f"ip netns exec {space} tc qdisc add dev eth0 root tbf rate {rate} burst 32kb limit 64mb")
        yield
    finally:
        for space in SPACES:
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def locked(path):
    if not path:
        yield
        return
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_job(options, cap_mb, record_to=None):
    """What rank 0 printed: its median step and its buckets."""
    ranks = "".join(
        f"ip netns exec {space} env RANK={i} WORLD_SIZE=2 MASTER_ADDR=198.18.78.1 MASTER_PORT=29500 GLOO_SOCKET_IFNAME=eth0 "
        f"OMP_NUM_THREADS=1 {PYTHON} {HERE}/ddp_worker.py {options.steps} {cap_mb:g} & pid{i}=$!; " for i, space in enumerate(SPACES))
    command = ["bash", "-c", f"{ranks} wait $pid0 && wait $pid1"]
    if record_to:
        command = [LAPWING, "record", "--quiet", "-o", record_to, "--", *command]
    with locked(options.lock), network(options.rate):
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    said = json.loads(lines[-1])
    note(f"cap {cap_mb:g} MB{' recorded' if record_to else ''}: {said['median_s'] * 1e3:.1f} ms, buckets {said['buckets']}")
    return said


def lapwing(*arguments):
    done = subprocess.run([LAPWING, *arguments, "--json"], capture_output=True, text=True, timeout=60)
    if done.returncode not in (0, 3):
        sys.exit(f"lapwing {arguments}: exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def spread(medians):
    return (max(medians) - min(medians)) / min(medians)


def closest(medians):
    """The mean of the two runs that agree best, and by how much they differ."""
    ordered = sorted(medians)
    low, high = min(zip(ordered, ordered[1:]), key=lambda pair: pair[1] / pair[0])
    return (low + high) / 2, high / low - 1


def measure(options, caps_mb):
    found = {cap_mb: [] for cap_mb in caps_mb}
    for turn in range(2):
        for cap_mb in caps_mb if turn == 0 else reversed(caps_mb):
            found[cap_mb].append(run_job(options, cap_mb))
    for cap_mb, runs in found.items():
        if spread([run["median_s"] for run in runs]) > TOLERANCE_FRAC:
            runs.append(run_job(options, cap_mb))
    return found


def advised_cap_mb(advice):
    """The advised bucket_cap_mb, and the whole advice; None = to leave it."""
    for one in advice["advice"]:
        if one["id"] == "ddp.buckets":
            return float(one["set"]["bucket_cap_mb"]), one
    return None, None


def table(options, recorded, predictions, found, advice):
    lines = [f"Recorded once with bucket_cap_mb={options.recorded:g} under lapwing: {recorded['median_s'] * 1e3:.1f} ms a step, "
             f"{recorded['bytes']} bytes of gradients.", "",
             "| bucket_cap_mb | buckets | measured | pair differs by | predicted (95 %) | error | covered |", "|---|---|---|---|---|---|---|"]
    errors, n_covered, best = [], 0, (None, 1e9)
    for cap_mb, runs in found.items():
        step_s, differs_frac = closest([run["median_s"] for run in runs])
        step = predictions[cap_mb]["step_ns"]
        error_frac = step["value"] / 1e9 / step_s - 1
        covered = step["low"] <= step_s * 1e9 <= step["high"]
        best = min(best, (cap_mb, step_s), key=lambda one: one[1])
        if cap_mb != options.recorded:
            errors.append(abs(error_frac))
        n_covered += covered
        lines.append(
            f"| {cap_mb:g}{' (recorded)' if cap_mb == options.recorded else ''} | {len(runs[0]['buckets'].split(','))} "
            f"| {step_s * 1e3:.1f} ms | {differs_frac:.1%}{' (overloaded)' if differs_frac > TOLERANCE_FRAC else ''} "
            f"| {step['value'] / 1e6:.1f} ms ({step['low'] / 1e6:.0f} to {step['high'] / 1e6:.0f})"
            f"{', extrapolated' if predictions[cap_mb]['is_extrapolated'] else ''} | {error_frac:+.1%} | {'yes' if covered else 'NO'} |")
    lines += ["", f"Of the {len(errors)} that were not recorded: median error {statistics.median(errors):.1%}, worst {max(errors):.1%}; {n_covered} of "
              f"{len(found)} intervals hold the measured value."]
    cap_mb, one = advised_cap_mb(advice)
    now_s = closest([run["median_s"] for run in found[options.recorded]])[0]
    if cap_mb is None:
        lines.append(f"No other limit is advised; the best of all measured is {best[0]:g} with {best[1] * 1e3:.1f} ms.")
    else:
        advised_s = closest([run["median_s"] for run in found[cap_mb]])[0]
        gain = one["gain_frac"]
        lines.append(f"Advised: {' '.join(f'{name}={value}' for name, value in one['set'].items())}, predicted to take "
                     f"{gain['value']:.1%} less ({gain['low']:.1%} to {gain['high']:.1%}); bucket_cap_mb={cap_mb:g} measured: "
                     f"{1 - advised_s / now_s:.1%} less, {best[1] / advised_s:.1%} of the best of all measured ({best[0]:g}).")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorded", type=float, default=25, help="bucket_cap_mb of the one recorded run")
    parser.add_argument("--caps", default="1,2,4,8,25")
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--lock")
    parser.add_argument("--results")
    parser.add_argument("--once", metavar="RUN")
    options = parser.parse_args()
    if options.once:
        run_job(options, options.recorded, options.once)
        return
    caps_mb = sorted({float(cap) for cap in options.caps.split(",")} | {options.recorded})
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run.lapwing")
        recorded = run_job(options, options.recorded, run)
        advice = lapwing("advise", run)
        advised_mb = advised_cap_mb(advice)[0]
        if advised_mb is not None:
            caps_mb = sorted({*caps_mb, advised_mb})
        predictions = {cap_mb: lapwing("predict", run, "--bucket-cap-mb", f"{cap_mb:g}") for cap_mb in caps_mb}
    found = measure(options, caps_mb)
    lines = table(options, recorded, predictions, found, advice)
    print("\n".join(lines))
    if options.results:
        version = subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
        with open(options.results, "a") as file:
            file.write(f"\n{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}; "
                       f"torch {version.stdout.strip()} over Gloo, 2 ranks, a namespace each, link of {options.rate}, computing by "
                       f"timers.  \nCommand: `tests/rig/ddp_truth.py --recorded {options.recorded:g} --caps {options.caps} "
                       f"--rate {options.rate} --steps {options.steps}`\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
