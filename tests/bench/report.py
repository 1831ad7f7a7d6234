#!/usr/bin/env python3
"""Run every benchmark and write one Markdown report.

    tests/bench/report.py OUT.md [--quick]

--quick: a few rounds of each, to see that they work; the figures mean nothing. Each benchmark prints one JSON line, which
is all that this program knows of it. LAPWING_BUILD_DIR and LAPWING_PYTHON as for the tests.
"""
import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("LAPWING_BUILD_DIR", os.path.join(SOURCE, "build"))
PYTHON = os.environ.get("LAPWING_PYTHON", os.path.join(SOURCE, ".venv/bin/python3"))
QUIET_LOAD = 0.7


def command_line(program, *arguments):
    name = os.path.relpath(program, SOURCE)
    return " ".join([name, *arguments])


def run(program, *arguments):
    print(f"bench: {command_line(program, *arguments)}", file=sys.stderr, flush=True)
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"bench: {command_line(program, *arguments)}: exit {done.returncode}")
    return json.loads(done.stdout)


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=SOURCE)
    except FileNotFoundError:
        return "not there"
    return (done.stdout or done.stderr).strip().split("\n")[0]


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    return f"{os.cpu_count()} cores, {model.group(1) if model else platform.machine()}"


def package(name):
    version = first_line("dpkg-query", "-W", "-f=${Version}", name)
    return f"{name} {version}"


def cell(figure, decimals=1, scale=1.0):
    low, median, high = (f"{figure[key] / scale:,.{decimals}f}" for key in ("low", "median", "high"))
    return f"{median} [{low}, {high}]"


def verdict(is_met, by):
    return "met" if is_met else f"**missed by {by}**"


def hook_rows(result):
    live, off = result["lapwing"], result["lapwing_off"]
    limit_ns = 1.3 * live["two_clock_reads_ns"]["median"] + 25
    return [("two clock reads, nothing else", live["two_clock_reads_ns"], None),
            ("MPI_Barrier, recorded", live["barrier_cost_ns"], limit_ns),
            ("MPI_Allreduce, recorded", live["allreduce_cost_ns"], limit_ns),
            ("lapwing_range_push and _pop: one record", live["range_ns"], limit_ns),
            ("MPI_Barrier, hook off", off["barrier_cost_ns"], 3),
            ("MPI_Allreduce, hook off", off["allreduce_cost_ns"], 3),
            ("lapwing_range_push and _pop, marks off: two calls", off["range_ns"], 6),
            ("clock_nanosleep, process not traced", off["sleep_cost_ns"], 3),
            ("clock_nanosleep, process traced, caller not Horovod", live["sleep_cost_ns"], 3),
            ("read of no socket, process not traced", off["read_cost_ns"], 3),
            ("read of no socket, process traced", live["read_cost_ns"], 3)]


def write_hook(out, command, result):
    out.append(f"""## One hook

`{command}`

An MPI whose calls do nothing (tests/lib/fake_mpi.c) under `lapwing record`, its collector running. A cost is the hooked
call less the plain one (PMPI_, or libc's own through dlsym), both in loops of {result['n_calls']} calls within the same millisecond or two;
median of {result['n_rounds']} such rounds. Shown: the median [lowest, highest] of {result['n_repeats']} processes, and the 5th and 95th
percentile over rounds, which hold what else ran on the machine.
Targets: recorded, 1.3 times the two clock reads plus 25 ns; disabled, 3 ns a call.

| call | cost, ns | p5, p95 | target, ns | |
|---|---|---|---|---|""")
    for name, figure, target_ns in hook_rows(result):
        rounds = f"{figure['p5']:.1f}, {figure['p95']:.1f}"
        if target_ns is None:
            out.append(f"| {name} | {cell(figure)} | {rounds} | | |")
        else:
            over_ns = figure["median"] - target_ns
            out.append(f"| {name} | {cell(figure)} | {rounds} | <= {target_ns:.1f} | {verdict(over_ns <= 0, f'{over_ns:.1f} ns')} |")
    out.append("""
The same program and calls on Debian's Open MPI (`mpirun -n 1`, MPI_COMM_SELF, one int), the tools in turn:

| tool | MPI_Barrier, ns | MPI_Allreduce, ns | what a call leaves behind |
|---|---|---|---|""")
    for name, title, what in (
            ("real_lapwing", "`lapwing record`", "one record: start, end, operation, communicator, bytes sent and received"),
            ("real_uftrace", "`uftrace record --force --no-event`", "entry and exit with their times; no arguments"),
            ("real_eztrace", "`eztrace -t openmpi`", "enter, collective begin, collective end with bytes, leave (OTF2)"),
            ("real_uftrace_off", "the same uftrace with `-N` for these calls", "nothing: what a call costs that is filtered out")):
        out.append(f"| {title} | {cell(result[name]['barrier_cost_ns'])} | {cell(result[name]['allreduce_cost_ns'])} | {what} |")
    out.append(f"""
All calls were found again in lapwing's run file (lost: {result['n_lost']}) and in `uftrace report`; EZTrace's event file had at least 20 bytes for each.
lapwing's collector and uftrace's recorder are processes of their own and had the other core; EZTrace writes from the timed process.
""")


def write_verbs(out, command, result):
    live, off = result["recorded"], result["off"]
    limit_ns = 1.3 * live["two_clock_reads_ns"]["median"] + 25
    out.append(f"""## RDMA verbs

`{command}`

A double of libibverbs (tests/lib/fake_verbs.c) with two devices, one of which registers its functions past the hook. A cost is a
signalled 8-byte write and the poll that returns it, on the hooked device less on the other, within one round; one record
each. Median [lowest, highest] of {result['n_repeats']} processes; {result['n_lost']} records lost.

| call | cost, ns | p5, p95 | target, ns | |
|---|---|---|---|---|""")
    for name, figure, target_ns in (("post and poll, recorded", live["post_and_poll_cost_ns"], limit_ns),
                                    ("poll of an empty queue", live["empty_poll_cost_ns"], 3),
                                    ("post and poll, hook off", off["post_and_poll_cost_ns"], 3)):
        over_ns = figure["median"] - target_ns
        out.append(f"| {name} | {cell(figure)} | {figure['p5']:.1f}, {figure['p95']:.1f} | <= {target_ns:.1f} | "
                   f"{verdict(over_ns <= 0, f'{over_ns:.1f} ns')} |")
    out.append(f"""
The two calls unhooked take {cell(live['plain_post_and_poll_ns'])} ns.
""")


def write_cupti(out, command, result):
    over_ns = result["told_call_ns"]["median"] - result["call_ns"]["median"] - 3
    out.append(f"""## CUPTI

`{command}`

A buffer of 4 MiB of records as a training step leaves it ({result['n_records']:,}: launches, kernels, every eighth a copy), and a call that does
nothing, alone and between `lw_cupti_enter()` and `lw_cupti_leave()` with CUPTI off. Then cudaSetDevice of a double of libcudart, interposed less
called by its address. Median of {result['n_rounds']} rounds; 5th and 95th percentile.

| | ns | p5, p95 | target, ns | |
|---|---|---|---|---|""")
    for name, key in (("walk over a record and copy 40 bytes of it", "walk_ns"), ("parse a record", "parse_ns"),
                      ("a call", "call_ns"), ("a call, and what it is for", "told_call_ns")):
        figure = result[key]
        target = f"<= the call + 3 | {verdict(over_ns <= 0, f'{over_ns:.1f} ns')}" if key == "told_call_ns" else "|"
        out.append(f"| {name} | {figure['median']:.1f} | {figure['p5']:.1f}, {figure['p95']:.1f} | {target} |")
    for name, key in (("an interposed call, subscribed", "subscribed"), ("an interposed call, process not traced", "not_traced")):
        figure = result[key]["cost_ns"]
        over_ns = figure["median"] - 3
        out.append(f"| {name} | {figure['median']:.1f} | {figure['p5']:.1f}, {figure['p95']:.1f} | <= 3 | {verdict(over_ns <= 0, f'{over_ns:.1f} ns')} |")
    out.append("")


def write_nccl(out, command, result):
    live, off = result["recorded"], result["off"]
    out.append(f"""## NCCL's profiler plugin

`{command}`

The calls that NCCL 2.28 makes for one collective over two channels (four proxy operations of two steps each), to lapwing's
plugin and to one that does nothing, in turn in each round; a cost is the difference. Five records a collective. Median
[lowest, highest] of {result['n_repeats']} processes; {result['n_lost']} records lost.

| a collective | cost, ns | p5, p95 |
|---|---|---|""")
    for name, figure in (("all of it, recorded", live["collective_cost_ns"]),
                         ("what its calling thread pays", live["enqueue_cost_ns"]), ("all of it, hook off", off["collective_cost_ns"])):
        out.append(f"| {name} | {cell(figure)} | {figure['p5']:.1f}, {figure['p95']:.1f} |")
    out.append("")


def write_store(out, command, result):
    rate, stored = result["events_per_cpu_s"], result["file_bytes_per_event"]
    out.append(f"""## Ring to SQLite

`{command}`

The event mix of a real Horovod run ({result['n_events']:,} events, {result['n_runs']} runs), drained, checked and stored by the collector's own code, one thread.
The alternative, in the same run: one prepared INSERT a record, columns bound one by one, no compaction.

| | median [lowest, highest] | target | |
|---|---|---|---|
| events per second of CPU time | {cell(rate, 2, 1e6)} M | >= 1 M | {verdict(rate['median'] >= 1e6, f"{1 - rate['median'] / 1e6:.0%}")} |
| events per second of wall time, disk included | {cell(result['events_per_wall_s'], 2, 1e6)} M | | |
| the alternative, per second of CPU time | {cell(result['plain_insert_events_per_cpu_s'], 2, 1e6)} M | | |
| the alternative, per second of wall time | {cell(result['plain_insert_events_per_wall_s'], 2, 1e6)} M | | |
| bytes an event stored, indexes included | {cell(stored)} | <= 60 | {verdict(stored['median'] <= 60, f"{stored['median'] - 60:.1f}")} |
| bytes an event stored, rows alone | {cell(result['data_bytes_per_event'])} | | |
| closing the run (indexes), CPU seconds | {cell(result['close_cpu_s'], 2)} | | |
""")


def write_whatif(out, command, result):
    rows = [("one simulation of all steps, as recorded", "simulation_ns", 1),
            ("a prediction with its interval: another threshold", "threshold_ns", 1),
            ("a prediction with its interval: no fusion", "threshold_0_ns", 1),
            ("a prediction with its interval: cycle 1 ms", "cycle_1ms_ns", 1),
            ("a prediction with its interval: 16 ranks", "ranks_16_ns", 1),
            ("the exact grouping of 2000 tensors", "group_2000_ns", 100)]
    out.append(f"""## Predictions

`{command}`

A run of {result['n_tensors']} tensors (those of ResNet-50), {result['n_steps']} steps, {result['n_ranks']} ranks. CPU time of the one thread; median [lowest, highest] of {result['n_repeats']}.

| | ms | target, ms | |
|---|---|---|---|""")
    for title, name, target_ms in rows:
        figure = result[name]
        over_ms = figure["median"] / 1e6 - target_ms
        out.append(f"| {title} | {cell(figure, 2, 1e6)} | <= {target_ms} | {verdict(over_ms <= 0, f'{over_ms:.2f} ms')} |")
    for title, name in (("predictions of 400 settings, each with its interval", "settings_400_ns"),
                        (f"all advice: {result['n_advise_trials']} settings tried, the replay made anew", "advise_ns")):
        over_ms = result[name] / 1e6 - 1000
        out.append(f"| {title} | {result[name] / 1e6:,.0f} | <= 1000 | {verdict(over_ms <= 0, f'{over_ms:,.0f} ms')} |")
    grown = result["peak_400_kib"] - result["peak_10_kib"]
    out.append(f"""
Largest resident set after 10 settings: {result['peak_10_kib']:,} KiB; after 400: {result['peak_400_kib']:,} KiB. Target: the same ({verdict(grown <= 64, f'{grown:,} KiB')}; 64 KiB, what
the allocator may keep, are let pass).
""")


def write_samplers(out, command, result):
    median = result["sampling_core_frac"]["median"]
    rows = "\n".join(f"| {what} | {figure['median']:.2%} | {figure['low']:.2%} to {figure['high']:.2%} |" for what, figure in (
        ("lapwing: with --sample-ms 100 less with 0", result["sampling_core_frac"]), ("the whole collector, sampling", result["core_frac"]["on"]),
        ("`cat /sys/class/net/*/statistics/*` and `ss -tin` in a shell", result["core_frac"]["shell"]),
        ("the same files and `ss` from a Python loop", result["core_frac"]["python"])))
    periods = ", ".join(f"{name} {one['period_ms']:.0f} ms" for name, one in result["samplers"].items())
    out.append(f"""## Looking at NICs and TCP connections

`{command}`

Share of one core to look every 100 ms at {result['n_nics']} NICs and {result['n_sockets']} sockets that are all busy, {result['seconds']:.0f} s a round, the ways in turn.
Target: <= 0.2 % ({verdict(median <= 0.002, f"{median - 0.002:.2%}")}). What one look costs decides how often there is one; at the end: {periods}.

| way | median | lowest to highest |
|---|---|---|
{rows}
""")


def write_overhead(out, command, result):
    low, middle, high = result["low_frac"], result["slowdown_frac"], result["high_frac"]
    if high <= 0.005:
        word = "met: the whole interval lies below"
    elif middle <= 0.005:
        word = "met by the median; the interval reaches further"
    else:
        word = f"**missed by {(middle - 0.005) * 100:.2f} percent points**" + ("; the interval reaches below" if low <= 0.005 else "")
    out.append(f"""## A whole job

`{command}`

examples/train_horovod.py, 2 ranks, {result['n_steps']} steps, {result['launcher']}: {result['n_pairs']} pairs of runs without and with `lapwing record`, the order alternating.
A pair's ratio is of mean step times, warm-up third left out; interval: 95 %, bootstrap over pairs. Target: <= 0.5 %.

| step without | step with | slowdown (median ratio) | 95 % interval | spread of the plain runs | |
|---|---|---|---|---|---|
| {result['plain_step_ns'] / 1e6:.2f} ms | {result['recorded_step_ns'] / 1e6:.2f} ms | {middle:+.2%} | {low:+.2%} to {high:+.2%} | {result['plain_spread_frac']:.1%} | {word} |
""")


def write_capture(out, command, result):
    out.append(f"""## Packets

`{command}`

TCP segments of 64 bytes, {result['rate_per_s']:,} a second of {result['n_flows']} flows for {result['seconds']:g} s, leave a veth device. Its reader's CPU time (all threads, user and system), median
[lowest, highest] of {result['n_repeats']} turns. Narrow: the kernel's filter lets none of them pass, so that is what a capture costs that sees nothing.

| reader | CPU, % of a core | ns a packet sent | dropped by the kernel | rows |
|---|---|---|---|---|""")
    for name, title in (("wide", "`lapwing record --pcap`: bins in a run file"), ("tcpdump", "`tcpdump -s 136 -w /dev/null`"),
                        ("narrow", "`lapwing record --pcap`, filter narrowed")):
        one = result[name]
        out.append(f"| {title} | {cell(one['cpu_frac'], 2, 0.01)} | {cell(one['ns_per_packet'])} | {one['n_dropped']:,} | {one['n_rows']:,} |")
    out.append("")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    benchmarks = [(f"{HERE}/hook.py", ["--repeats", "1", "--rounds", "5", "--calls", "100"] if args.quick else [], write_hook),
                  (f"{HERE}/verbs.py", ["--repeats", "1", "--rounds", "5", "--calls", "100"] if args.quick else [], write_verbs),
                  (f"{HERE}/cupti.py", ["--rounds", "5"] if args.quick else [], write_cupti),
                  (f"{HERE}/nccl.py", ["--repeats", "1", "--rounds", "5", "--calls", "20"] if args.quick else [], write_nccl),
                  (f"{BUILD}/tests/bench_store", ["1", "100000"] if args.quick else ["5", "2000000"], write_store),
                  (f"{BUILD}/tests/bench_whatif", ["3"] if args.quick else ["21"], write_whatif),
                  (f"{HERE}/samplers.py", ["0.5", "1"] if args.quick else ["10", "5"], write_samplers),
                  (f"{HERE}/overhead.py", ["--pairs", "1", "--steps", "6"] if args.quick else ["--pairs", "10"], write_overhead),
                  (f"{HERE}/capture.py", ["--repeats", "1", "--seconds", "1", "--rate", "50000"] if args.quick else ["--repeats", "5"], write_capture)]
    start_s, load = time.monotonic(), os.getloadavg()[0]
    if load > QUIET_LOAD and not args.quick:
        print(f"bench: warning: load average {load:.1f}: something else is running; figures will suffer", file=sys.stderr)
    sections = []
    for program, arguments, write in benchmarks:
        write(sections, command_line(program, *arguments), run(program, *arguments))
    horovod = first_line(PYTHON, "-c", "import horovod, torch; print('Horovod', horovod.__version__, 'torch', torch.__version__)")
    header = f"""# Benchmarks

Written by `scripts/bench.sh`, {time.monotonic() - start_s:.0f} s.{" QUICK: too short for figures that mean anything." if args.quick else ""}

- date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC; lapwing {first_line('git', 'describe', '--always', '--dirty')}
- machine: {processor()}; load average before: {load:.2f}
- kernel: {platform.release()}; clock: {first_line('cat', '/sys/devices/system/clocksource/clocksource0/current_clocksource')}
- {first_line('cc', '--version')}; {', '.join(package(name) for name in ('openmpi-bin', 'uftrace', 'eztrace', 'libsqlite3-0'))}; {horovod}
"""
    with open(args.out, "w", encoding="utf-8") as file:
        file.write("\n".join([header, *sections]))
    print(f"bench: written to {args.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
