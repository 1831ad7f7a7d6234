#!/usr/bin/env python3
"""What only a GPU can say of the CUPTI hook: counts, clock, cost. Says "no GPU here" where there is none.

    tests/gpu/cupti_truth.py [--kernels 100000] [--repeats 5] [--json FILE]

A child (this file with --child) uses the driver's interface and a few lines of PTX, so that neither a compiler nor
the toolkit is needed. Checked against what the child itself knows:
  counts   each kernel, copy and memset that it launched is one row, with its launch by correlation; nothing is lost
  clock    a kernel says over host memory that it has begun, and ends when the host says so: its recorded start is
           not after the moment the host saw it, its end not before the host's word; by 1 us at most
  cost     host time of a launch of a kernel that does nothing, recorded and not, interleaved
  path     a CUDA_INJECTION64_PATH that does not exist (another host, a container) does not keep CUDA from starting
  release  after lapwing_gpu_release() another client can subscribe, and lapwing_gpu_start() begins anew
"""
import argparse
import ctypes
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPWING_BUILD_DIR", os.path.join(SOURCE, "build"))
CLOCK_LIMIT_NS = 1000
N_ROUNDS = 300

PTX = b"""
.version 6.4
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry handshake(.param .u64 begun, .param .u64 go)
{
	.reg .u64 %rd<3>;
	.reg .u32 %r<3>;
	.reg .pred %p1;
	ld.param.u64 %rd1, [begun];
	ld.param.u64 %rd2, [go];
	mov.u32 %r1, 1;
	st.volatile.u32 [%rd1], %r1;
	membar.sys;
again:
	ld.volatile.u32 %r2, [%rd2];
	setp.eq.u32 %p1, %r2, 0;
	@%p1 bra again;
	ret;
}
"""


def driver():
    """The driver, initialised, or None."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return cuda if cuda.cuInit(0) == 0 else None


class Gpu:
    def __init__(self):
        self.cuda = driver()
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
        self.kernels = {}
        for name in (b"nothing", b"handshake"):
            self.kernels[name] = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(self.kernels[name]), module, ctypes.c_char_p(name))

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result:
            sys.exit(f"{name}: error {result} of the driver")

    def launch(self, name, arguments=None):
        self.call("cuLaunchKernel", self.kernels[name], 1, 1, 1, 1, 1, 1, 0, None, arguments, None)

    def wait(self):
        self.call("cuCtxSynchronize")


def measure_launches(gpu, n):
    """Host ns a launch, in pieces, so that the queue of the device is not what is measured."""
    piece, spent_ns = 500, 0
    for _ in range(n // piece):
        start_ns = time.monotonic_ns()
        for _ in range(piece):
            gpu.launch(b"nothing")
        spent_ns += time.monotonic_ns() - start_ns
        gpu.wait()
    return spent_ns / (n // piece * piece), n // piece * piece


def shake_hands(gpu):
    """[(host saw the kernel begun, host let it end)], ns of CLOCK_MONOTONIC, one a kernel."""
    memory = ctypes.c_void_p()
    gpu.call("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(256), 2)  # mapped into the device
    begun = ctypes.c_uint32.from_address(memory.value)
    go = ctypes.c_uint32.from_address(memory.value + 128)
    parameters = [ctypes.c_uint64(memory.value), ctypes.c_uint64(memory.value + 128)]
    arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(parameter) for parameter in parameters])
    rounds = []
    for _ in range(N_ROUNDS):
        begun.value = go.value = 0
        gpu.launch(b"handshake", arguments)
        while not begun.value:
            pass
        seen_ns = time.monotonic_ns()
        go_ns = time.monotonic_ns()
        go.value = 1
        gpu.wait()
        rounds.append((seen_ns, go_ns))
    return rounds


def child(args):
    gpu = Gpu()
    memory = ctypes.c_uint64()
    gpu.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 20))
    host = ctypes.create_string_buffer(1 << 20)
    launch_ns, n_nothing = measure_launches(gpu, args.kernels)
    rounds = [] if args.cost else shake_hands(gpu)
    for _ in range(10):
        gpu.call("cuMemcpyHtoD_v2", memory, host, ctypes.c_size_t(1 << 20))
        gpu.call("cuMemsetD8_v2", memory, ctypes.c_ubyte(1), ctypes.c_size_t(4096))
        gpu.call("cuMemcpyDtoH_v2", host, memory, ctypes.c_size_t(512))
    gpu.wait()
    result = {"launch_ns": launch_ns, "n_nothing": n_nothing, "rounds": rounds}
    if args.release:
        own = ctypes.CDLL(None)
        own.lapwing_gpu_release()
        mapped = [line.split()[-1] for line in open("/proc/self/maps") if "libcupti.so" in line]
        cupti, subscriber = ctypes.CDLL(mapped[0]), ctypes.c_void_p()
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(lambda *_: None)
        result["other_subscribes"] = cupti.cuptiSubscribe(ctypes.byref(subscriber), callback, None)
        result["other_unsubscribes"] = cupti.cuptiUnsubscribe(subscriber)
        gpu.launch(b"nothing")
        gpu.wait()
        own.lapwing_gpu_start()
        gpu.launch(b"nothing")
        gpu.wait()
    print(json.dumps(result))


def run_child(folder, *options, record=True):
    command = [sys.executable, os.path.abspath(__file__), "--child", *options]
    path = os.path.join(folder, "run.lapwing")
    if record:
        command = [f"{BUILD}/bin/lapwing", "record", "-q", "--no-analyze", "-o", path, "--", *command]
    done = subprocess.run(command, env={**os.environ, "RANK": "0", "WORLD_SIZE": "1"}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1]), sqlite3.connect(path) if record else None


def one(run, query):
    return run.execute(query).fetchone()[0]


def check_counts(told, run, faults):
    kernel = "SELECT count(*) FROM kernel k JOIN string s ON s.id = k.name_id WHERE s.text = "
    counts = {
        "kernels 'nothing'": (told["n_nothing"], one(run, kernel + "'nothing'")),
        "kernels 'handshake'": (len(told["rounds"]), one(run, kernel + "'handshake'")),
        "copies to the device of 1 MiB": (10, one(run, "SELECT count(*) FROM copy WHERE op = 1 AND bytes = 1048576")),
        "copies to the host of 512": (10, one(run, "SELECT count(*) FROM copy WHERE op = 2 AND bytes = 512")),
        "memsets of 4096": (10, one(run, "SELECT count(*) FROM copy WHERE op = 12 AND bytes = 4096")),
        "kernels without a launch": (0, one(run, "SELECT count(*) FROM kernel k WHERE NOT EXISTS (SELECT 1 FROM launch l"
                                                 " WHERE l.correlation = k.correlation)")),
        "launches told twice": (0, one(run, "SELECT count(*) - count(DISTINCT correlation) FROM launch WHERE op < 5")),
        "launches of another thread": (0, one(run, "SELECT count(*) FROM launch l JOIN thread t ON t.id = l.thread_id"
                                                   " JOIN process p ON p.id = t.process_id WHERE l.tid != p.pid")),
        "lost": (0, one(run, "SELECT coalesce(sum(n), 0) FROM loss")),
    }
    for name, (expected, got) in counts.items():
        print(f"  {name}: {got}" + ("" if got == expected else f", not {expected}"))
        if got != expected:
            faults.append(f"{name}: {got}, not {expected}")


def check_clock(told, run, faults):
    """How far recorded times lie on the impossible side of what the host saw. Return: figures, ns."""
    kernels = run.execute("SELECT start_ns, end_ns FROM kernel k JOIN string s ON s.id = k.name_id"
                          " WHERE s.text = 'handshake' ORDER BY start_ns").fetchall()
    if len(kernels) != len(told["rounds"]):
        faults.append("clock: not all kernels are there")
        return {}
    early = [seen - start for (start, _), (seen, _) in zip(kernels, told["rounds"])]
    late = [end - go for (_, end), (_, go) in zip(kernels, told["rounds"])]
    figures = {"start_to_seen_ns": [min(early), statistics.median(early)],
               "go_to_end_ns": [min(late), statistics.median(late)],
               "offset_between_ns": [-min(late), min(early)]}
    print(f"  start to seen by the host: least {min(early)} ns, median {statistics.median(early):.0f}")
    print(f"  host's word to end: least {min(late)} ns, median {statistics.median(late):.0f}")
    print(f"  so recorded times are off by {-min(late)} to {min(early)} ns")
    if min(early) < -CLOCK_LIMIT_NS or min(late) < -CLOCK_LIMIT_NS:
        faults.append(f"clock: off by more than {CLOCK_LIMIT_NS} ns")
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=100000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    for hidden in ("--child", "--cost", "--release"):
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args)
        return 0
    if not driver():
        print("no GPU here: the driver's library is missing or finds none")
        return 0
    faults, result = [], {"kernels": args.kernels}
    with tempfile.TemporaryDirectory() as folder:
        told, run = run_child(folder, "--kernels", str(args.kernels))
        for name, library, gpu in run.execute(
                "SELECT g.text, d.text, p.text FROM gpu JOIN string g ON g.id = gpu.name_id LEFT JOIN string p ON p.id = gpu.pci_id,"
                " hook h JOIN string n ON n.id = h.name_id JOIN string d ON d.id = h.detail_id WHERE n.text = 'cupti'"):
            print(f"{name} at {gpu}, {library}")
            result["on"] = [name, library]
        print("counts")
        check_counts(told, run, faults)
        print("clock")
        result["clock"] = check_clock(told, run, faults)
    print("cost")
    cost = {"recorded": [], "not recorded": []}
    for _ in range(args.repeats):
        for name in cost:
            with tempfile.TemporaryDirectory() as folder:
                cost[name].append(run_child(folder, "--cost", "--kernels", str(args.kernels), record=name == "recorded")[0]["launch_ns"])
    for name, values in cost.items():
        print(f"  launch {name}: median {statistics.median(values):.0f} ns of {len(values)} ({min(values):.0f} to {max(values):.0f})")
    result["launch_ns"] = cost
    print("path")
    started = subprocess.run([sys.executable, "-c", "import ctypes; raise SystemExit(ctypes.CDLL('libcuda.so.1').cuInit(0) != 0)"],
                             env={**os.environ, "CUDA_INJECTION64_PATH": "/nowhere/liblapwing.so"}).returncode
    print(f"  cuInit with a path that is not there: {'fails' if started else 'works'}")
    if started:
        faults.append("path: CUDA does not start when CUDA_INJECTION64_PATH is not there")
    print("release")
    with tempfile.TemporaryDirectory() as folder:
        told, run = run_child(folder, "--kernels", "1000", "--release")
        n = one(run, "SELECT count(*) FROM kernel k JOIN string s ON s.id = k.name_id WHERE s.text = 'nothing'")
        if told["other_subscribes"] or told["other_unsubscribes"] or n != 1001:
            faults.append(f"release: {told['other_subscribes']}, {told['other_unsubscribes']}, {n} kernels, not 1001")
        print(f"  another client subscribes: {told['other_subscribes']}; kernels before and after: {n}")
    result["faults"] = faults
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    print("\n".join(faults) if faults else "all of it holds")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
