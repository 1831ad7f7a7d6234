#!/usr/bin/env python3
"""Does the prediction of another bucket_cap_mb come true? Real torch DDP over Gloo, 2 ranks, a shaped link between them.

    tests/rig/ddp_truth.py [--recorded MB] [--caps 1,2,4,8,25] [--rate 200mbit] [--steps N] [--lock FILE] [--results FILE]
    tests/rig/ddp_truth.py --once RUN [--recorded MB] ...    only record, and keep the run                 (needs root)

Records ONE run with the recorded cap, lets `lapwing predict` say what each cap takes and `lapwing advise` what to set,
then measures every cap without lapwing, twice, interleaved. A pair that differs by more than 2 % is measured once more.
With --lock (or LAPWING_RIG_LOCK) every run holds that file's lock, for machines where others measure too. lapwing is told nothing
of the rig. --results replaces the section of that recorded cap. Exit status 1 when a bound does not hold; every miss is named.
"""
import argparse
import contextlib
import datetime
import fcntl
import json
import os
import platform
import re
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
MEDIAN_FRAC, WORST_FRAC, ADVICE_FRAC = 0.01, 0.03, 0.97  # those of judge.py
MOST_OVERLOADED = 1


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


def rows(predictions, found):
    """What was measured and what was predicted of each cap, in rising order."""
    made = []
    for cap_mb, runs in found.items():
        step_s, differs_frac = closest([run["median_s"] for run in runs])
        step = predictions[cap_mb]["step_ns"]
        made.append({"cap_mb": cap_mb, "n_buckets": len(runs[0]["buckets"].split(",")), "measured_s": step_s, "differs_frac": differs_frac,
                     "step_ns": step, "error_frac": step["value"] / 1e9 / step_s - 1, "is_covered": step["low"] <= step_s * 1e9 <= step["high"],
                     "is_extrapolated": predictions[cap_mb]["is_extrapolated"]})
    return made


def misses(made, recorded_mb, advised_mb, gain):
    """In words what is beyond a bound. Those that the run does not identify have their interval for a bound."""
    found = []
    calm = [r for r in made if r["differs_frac"] <= TOLERANCE_FRAC]
    if len(made) - len(calm) > MOST_OVERLOADED:
        found.append(f"{len(made) - len(calm)} of {len(made)} pairs are overloaded")
    errors = [abs(r["error_frac"]) for r in calm if r["cap_mb"] != recorded_mb and not r["is_extrapolated"]]
    if not errors:
        return found + ["none is identified by the run: nothing was tested"]
    if statistics.median(errors) > MEDIAN_FRAC:
        found.append(f"median error {statistics.median(errors):.1%}, bound {MEDIAN_FRAC:.0%}")
    if max(errors) > WORST_FRAC:
        found.append(f"worst error {max(errors):.1%}, bound {WORST_FRAC:.0%}")
    outside = [r for r in calm if not r["is_covered"]]
    if len(outside) > 1:
        found.append(f"{len(calm) - len(outside)} of {len(calm)} intervals hold the measured value")
    found += [f"{r['cap_mb']:g} MiB, extrapolated: outside its interval" for r in outside if r["is_extrapolated"]]
    best_s = min(r["measured_s"] for r in made)
    by_cap = {r["cap_mb"]: r["measured_s"] for r in made}
    advised_s = by_cap[recorded_mb if advised_mb is None else advised_mb]
    if best_s / advised_s < ADVICE_FRAC:
        found.append(f"the advice reaches {best_s / advised_s:.1%} of the best speed measured, bound {ADVICE_FRAC:.0%}")
    brings_frac = 1 - advised_s / by_cap[recorded_mb]
    if gain and not gain["low"] <= brings_frac <= gain["high"]:
        found.append(f"the advice brings {brings_frac:.1%}, promised {gain['low']:.1%} to {gain['high']:.1%}")
    return found


def table(options, recorded, made, advised_mb, advice):
    lines = [f"Recorded once with bucket_cap_mb={options.recorded:g} under lapwing: {recorded['median_s'] * 1e3:.1f} ms a step, "
             f"{recorded['bytes']} bytes of gradients.", "",
             "| bucket_cap_mb | buckets | measured | pair differs by | predicted (95 %) | error | covered |", "|---|---|---|---|---|---|---|"]
    for r in made:
        lines.append(
            f"| {r['cap_mb']:g}{' (recorded)' if r['cap_mb'] == options.recorded else ''} | {r['n_buckets']} "
            f"| {r['measured_s'] * 1e3:.1f} ms | {r['differs_frac']:.1%}{' (overloaded)' if r['differs_frac'] > TOLERANCE_FRAC else ''} "
            f"| {r['step_ns']['value'] / 1e6:.1f} ms ({r['step_ns']['low'] / 1e6:.0f} to {r['step_ns']['high'] / 1e6:.0f})"
            f"{', extrapolated' if r['is_extrapolated'] else ''} | {r['error_frac']:+.1%} | {'yes' if r['is_covered'] else 'NO'} |")
    errors = [abs(r["error_frac"]) for r in made if r["cap_mb"] != options.recorded]
    best = min(made, key=lambda r: r["measured_s"])
    lines += ["", f"Of the {len(errors)} that were not recorded: median error {statistics.median(errors):.1%}, worst {max(errors):.1%}; "
              f"{sum(r['is_covered'] for r in made)} of {len(made)} intervals hold the measured value."]
    if advised_mb is None:
        lines.append(f"No other limit is advised; the best of all measured is {best['cap_mb']:g} with {best['measured_s'] * 1e3:.1f} ms.")
    else:
        by_cap, gain = {r["cap_mb"]: r["measured_s"] for r in made}, advice["gain_frac"]
        lines.append(f"Advised: {' '.join(f'{name}={value}' for name, value in advice['set'].items())}, predicted to take "
                     f"{gain['value']:.1%} less ({gain['low']:.1%} to {gain['high']:.1%}); bucket_cap_mb={advised_mb:g} measured: "
                     f"{1 - by_cap[advised_mb] / by_cap[options.recorded]:.1%} less, {best['measured_s'] / by_cap[advised_mb]:.1%} of the best of all measured ({best['cap_mb']:g}).")
    return lines


def put_section(path, title, text):
    """Replaces the section of that title, or appends it: what people wrote beside it stays."""
    old = ""
    if os.path.exists(path):
        with open(path) as file:
            old = file.read()
    section = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.M | re.S)
    new = f"## {title}\n\n{text}\n\n"
    with open(path, "w") as file:
        file.write((section.sub(lambda _: new, old) if section.search(old) else f"{old.rstrip()}\n\n{new}").rstrip() + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorded", type=float, default=25, help="bucket_cap_mb of the one recorded run")
    parser.add_argument("--caps", default="1,2,4,8,25")
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--lock", default=os.environ.get("LAPWING_RIG_LOCK"))
    parser.add_argument("--results")
    parser.add_argument("--once", metavar="RUN")
    options = parser.parse_args()
    if options.once:
        run_job(options, options.recorded, options.once)
        return 0
    caps_mb = sorted({float(cap) for cap in options.caps.split(",")} | {options.recorded})
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run.lapwing")
        recorded = run_job(options, options.recorded, run)
        advice = lapwing("advise", run)
        advised_mb, advised = advised_cap_mb(advice)
        if advised_mb is not None:
            caps_mb = sorted({*caps_mb, advised_mb})
        predictions = {cap_mb: lapwing("predict", run, "--bucket-cap-mb", f"{cap_mb:g}") for cap_mb in caps_mb}
    made = rows(predictions, measure(options, caps_mb))
    found = misses(made, options.recorded, advised_mb, advised and advised["gain_frac"])
    lines = table(options, recorded, made, advised_mb, advised)
    lines += ["", f"Bounds: median {MEDIAN_FRAC:.0%} and worst {WORST_FRAC:.0%} of those that the run identifies, one interval outside at most, none of an extrapolated "
              f"one; the advice within its promise and at {ADVICE_FRAC:.0%} of the best speed measured. {'All hold.' if not found else 'Missed:'}", *(f"- {miss}" for miss in found)]
    print("\n".join(lines))
    if options.results:
        version = subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
        put_section(options.results, f"Recorded at {options.recorded:g} MiB",
                    f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}; "
                    f"torch {version.stdout.strip()} over Gloo, 2 ranks, a namespace each, link of {options.rate}, computing by "
                    f"timers.  \nCommand: `tests/rig/ddp_truth.py --recorded {options.recorded:g} --caps {options.caps} "
                    f"--rate {options.rate} --steps {options.steps}`\n\n" + "\n".join(lines))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
