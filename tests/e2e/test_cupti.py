#!/usr/bin/env python3
"""What a GPU does comes out exactly as CUPTI (its double) told it; and whoever else wants CUPTI gets it."""
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import rings  # noqa: E402
import traced  # noqa: E402

NEW, OLD = str(traced.BUILD / "tests" / "cuda"), str(traced.BUILD / "tests" / "cuda_old")
CASES = traced.program("cuda_cases")
LAPWING = str(traced.BUILD / "bin" / "lapwing")
ACTIVE, ABSENT, REFUSED = 1, 2, 3
KERNEL_THAT_SERIALISES = 3
RANK = {"RANK": "0", "WORLD_SIZE": "1"}
LOSS_TORN, LOSS_UNKNOWN_KIND, LOSS_TABLE_FULL, LOSS_UNENDED = 6, 7, 5, 16


def environment(extra, libraries=NEW):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("CUDA_", "LAPWING_GPU", "KINETO"))}
    return {**kept, **RANK, "LD_LIBRARY_PATH": libraries, **extra}


class Run:
    """One program under `lapwing record`: its output and code as without it, what the double said, the run file."""

    def __init__(self, *command, options=(), compare=True, libraries=NEW, **extra):
        self.folder = tempfile.TemporaryDirectory()
        log, path = f"{self.folder.name}/log", f"{self.folder.name}/run.lapwing"
        env = environment(extra, libraries)
        plain = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60) if compare else None
        done = subprocess.run([LAPWING, "record", "-q", "--no-analyze", "-o", path, *options, "--", *command],
                              env={**env, "FAKE_CUPTI_LOG": log}, capture_output=True, text=True, timeout=100)
        if compare:
            assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr), (
                f"{command}: untraced {plain}\ntraced {done}")
        self.stdout = done.stdout
        self.log = open(log).read().splitlines() if os.path.exists(log) else []
        self.db = sqlite3.connect(path) if os.path.exists(path) else None
        assert f"enable {KERNEL_THAT_SERIALISES}" not in self.log

    def rows(self, query):
        return self.db.execute(query).fetchall()

    def said(self, what):
        return [line.split() for line in self.log if line.split()[0] == what]

    def hooks(self):
        return self.rows("SELECT h.status, h.n_slots, d.text FROM hook h JOIN string n ON n.id = h.name_id"
                         " LEFT JOIN string d ON d.id = h.detail_id WHERE n.text = 'cupti' ORDER BY h.at_ns")

    def losses(self):
        return dict(self.rows("SELECT l.reason, sum(l.n) FROM loss l GROUP BY l.reason"))

    def kernels(self):
        return [name for (name,) in self.rows(
            "SELECT s.text FROM kernel k LEFT JOIN string s ON s.id = k.name_id ORDER BY k.start_ns")]


def check_rows(run):
    """Every row of the four tables against the double's own account."""
    told = sorted((name, int(device), int(stream), int(correlation), int(start), int(end))
                  for _, name, device, stream, correlation, start, end in run.said("kernel"))
    assert told and told == sorted(run.rows(
        "SELECT s.text, device, stream, correlation, start_ns, end_ns FROM kernel k JOIN string s ON s.id = k.name_id"))
    op = {100: 10, 101: 12}
    told = sorted((op.get(int(how), int(how)), int(n), int(stream), int(correlation), int(start), int(end))
                  for _, how, n, stream, correlation, start, end in run.said("copy"))
    assert told == sorted(run.rows("SELECT op, bytes, stream, correlation, start_ns, end_ns FROM copy"))
    told = sorted((int(kind), int(correlation), int(start), int(end))
                  for _, kind, _, correlation, start, end in run.said("sync"))
    assert told == sorted(run.rows("SELECT op, correlation, start_ns, end_ns FROM gpu_sync"))
    launches = {}
    for _, _, call, correlation, start, end in run.said("api"):  # the inner call of two with one correlation
        launches.setdefault(int(correlation), (int(correlation), int(start), int(end)))
    assert sorted(launches.values()) == sorted(run.rows("SELECT correlation, start_ns, end_ns FROM launch"))
    if run.said("dropped"):
        return
    missing = run.rows("SELECT count(*) FROM kernel k WHERE NOT EXISTS"
                       " (SELECT 1 FROM launch l WHERE l.correlation = k.correlation)")
    assert missing == [(0,)]


def every_record_becomes_a_row_with_its_own_times():
    run = Run(CASES, "rows")
    check_rows(run)
    names = dict(run.rows("SELECT s.text, l.op FROM launch l JOIN string s ON s.id = l.name_id"))
    assert names == {"cudaLaunchKernel": 1, "cuLaunchKernel": 1, "cudaMemcpyAsync": 2, "cudaMemcpyPeerAsync": 2,
                     "cudaMemsetAsync": 3, "cudaDeviceSynchronize": 5}, names  # no cudaMalloc
    assert run.rows("SELECT max(length(text)) FROM string s JOIN kernel k ON k.name_id = s.id") == [(399,)]
    assert run.rows("SELECT graph, flags FROM kernel WHERE graph IS NOT NULL") == [(5, 2)]
    assert run.rows("SELECT device, peer_device FROM copy WHERE op = 10") == [(0, 1)]
    assert run.rows("SELECT op, stream, event FROM gpu_sync") == [(4, None, None)]
    assert run.rows("SELECT l.tid = p.pid FROM launch l JOIN thread t ON t.id = l.thread_id"
                    " JOIN process p ON p.id = t.process_id GROUP BY 1") == [(1,)]
    assert run.rows("SELECT device, s.text, memory_bytes, n_multiprocessors, clock_khz, major, minor FROM gpu g"
                    " JOIN string s ON s.id = g.name_id") == [(0, "Double of a GPU", 80 << 30, 132, 1980000, 9, 0)]
    ((status, n, detail),) = run.hooks()
    assert status == ACTIVE and n == 10 and detail == f"{NEW}/libcupti.so.13, CUPTI 130001", (status, n, detail)
    assert run.losses() == {}, run.losses()
    for wanted in ("clock", "thread ids 1", "all sync records 0", "flush 1", "dump 8"):
        assert wanted in run.log, wanted
    assert not run.said("cuptiSubscribe_v2") and run.log.index("clock") < run.log.index("enable 10")
    print(f"rows: {len(run.log)} lines of the double's account, exact")


def a_process_that_leaves_at_once_has_told_all():
    check_rows(Run(CASES, "_exit"))


def a_cupti_of_cuda_9_is_read_too_and_says_what_it_lacks():
    run = Run(CASES, "rows", libraries=OLD)
    ((status, n, detail),) = run.hooks()
    assert status == ACTIVE and n == 10, (status, n, detail)
    assert detail == f"{OLD}/libcupti.so.11.0, CUPTI 10, its times converted by the offset of its clock", detail
    assert {"enable 5", "enable 4"} <= set(run.log)  # it cannot narrow: all calls, of which ours are taken
    assert len(run.kernels()) == 3 and run.rows("SELECT count(*) FROM copy") == [(4,)]
    assert run.rows("SELECT count(*) FROM launch WHERE tid = 0") == run.rows("SELECT count(*) FROM launch") == [(8,)]
    # its times are CLOCK_REALTIME: converted, they lie within the process's life, and are as long
    told = sorted(int(end) - int(start) for *_, start, end in run.said("kernel"))
    assert told == sorted(ns for (ns,) in run.rows("SELECT end_ns - start_ns FROM kernel"))
    ((low, high),) = run.rows("SELECT min(monotonic_ns), max(monotonic_ns) FROM clock_sample")
    assert run.rows(f"SELECT count(*) FROM kernel WHERE start_ns < {low - 10**8} OR end_ns > {high + 10**8}") == [(0,)]
    assert run.losses() == {}


def a_launch_inside_a_batch_of_horovod_says_which():
    job = traced.run([traced.program("fake_job"), traced.program("libfake_horovod_new.so")],
                     **environment({"FAKE_CUDA": f"{NEW}/libcudart.so.13", "FAKE_SEED": "1", "FAKE_ROUNDS": "200"}))
    assert job.code == 0, job.stderr
    process = job.only()
    batches = {batch["batch"]: batch for batch in rings.of_kind(process, "BATCH")}
    launches = {event["correlation"]: event for event in rings.of_kind(process, "LAUNCH")}
    found = {}
    for kernel in rings.of_kind(process, "KERNEL"):
        launch = launches[kernel["correlation"]]
        if kernel["name"] == "between batches":
            assert (launch["made_for"], launch["for_serial"]) == (0, 0)
            continue
        assert launch["made_for"] == 2
        batch = batches[launch["for_serial"]]
        assert batch["t0"] <= launch["t0"] <= launch["t1"] <= batch["t1"]
        found[batch["batch"]] = found.get(batch["batch"], 0) + 1
    assert sorted(found) == sorted(batches) and len(batches) > 6, (found, batches)
    assert sorted(found.values()) == [1] * (len(found) - 1) + [2]  # one operation used another
    print(f"{len(found)} batches, each with the kernels that were launched in it")


def pips_packages_are_found_beside_each_other():
    with tempfile.TemporaryDirectory() as folder:
        for package in ("cuda_runtime", "cuda_cupti"):
            os.makedirs(f"{folder}/nvidia/{package}/lib")
        os.symlink(f"{NEW}/libcudart.so.13", f"{folder}/nvidia/cuda_runtime/lib/libcudart.so.13")
        shutil.copy(f"{NEW}/libcupti.so.13", f"{folder}/nvidia/cuda_cupti/lib/libcupti.so.13")
        run = Run(CASES, "rows", libraries=f"{folder}/nvidia/cuda_runtime/lib")
        ((status, _, detail),) = run.hooks()
        assert status == ACTIVE and detail.startswith(f"{folder}/nvidia/cuda_cupti/lib/libcupti.so.13,"), detail
        check_rows(run)


def who_has_cupti_keeps_it_and_is_named():
    run = Run(CASES, "rows", FAKE_CUPTI_SUBSCRIBE="39", FAKE_CUPTI_HOLDER="CUPTI for Nsight Systems")
    assert run.hooks() == [(REFUSED, 0, f"{NEW}/libcupti.so.13: another has CUPTI: CUPTI for Nsight Systems")]
    assert not run.kernels() and not run.said("enable")
    run = Run(CASES, "rows", FAKE_CUPTI_SUBSCRIBE="39", CUDA_INJECTION64_PATH="/opt/nsys/libToolsInjection64.so")
    ((_, _, detail),) = run.hooks()
    assert detail.endswith("another has CUPTI: nsys, ncu, a debugger, or a profiler in the program;"
                           " CUDA_INJECTION64_PATH is another's: /opt/nsys/libToolsInjection64.so"), detail


def without_a_driver_the_job_goes_on():
    run = Run(CASES, "rows", FAKE_CUPTI_SUBSCRIBE="999")
    assert run.hooks() == [(REFUSED, 0, f"{NEW}/libcupti.so.13: cuptiSubscribe: CUPTI_ERROR_UNKNOWN (999):"
                                        " no driver, or no GPU?")]
    assert Run(CASES, "rows", FAKE_CUPTI_SUBSCRIBE="15").hooks()[0][2].endswith(" (15): no driver, or no GPU?")
    run = Run(CASES, "rows", FAKE_CUPTI_REFUSE="10")  # not even kernels: it is given back
    assert run.hooks()[0][0] == REFUSED and "cuptiActivityEnable" in run.hooks()[0][2]
    assert run.said("cuptiUnsubscribe") and not run.kernels()
    run = Run(CASES, "rows", FAKE_CUPTI_REFUSE="39")  # one kind less, and no more than that
    assert run.hooks()[0][:2] == (ACTIVE, 9) and len(run.kernels()) == 3
    run = Run(CASES, "rows", FAKE_CUPTI_VERSION="9")
    assert run.hooks() == [(ABSENT, 0, f"{NEW}/libcupti.so.13 is of version 9: CUDA 9.0 (10) is the oldest that is read")]


def settings_say_who_may_have_it():
    assert Run(CASES, "rows", KINETO_USE_DAEMON="1").hooks()[0][2].startswith("KINETO_USE_DAEMON is set")
    assert Run(CASES, "rows", KINETO_USE_DAEMON="1", LAPWING_GPU="on").hooks()[0][0] == ACTIVE
    run = Run(CASES, "rows", options=["--gpu=off"])
    assert run.hooks() == [(REFUSED, 0, "LAPWING_GPU=off: not before lapwing_gpu_start()")] and not run.log
    run = Run(CASES, "on_off", options=["--gpu=release"])
    assert {hook[2] for hook in run.hooks()} == {"LAPWING_GPU=release: left to others"} and not run.log
    assert Run(CASES, "rows", LAPWING_GPU="maybe").hooks()[0][2] == "LAPWING_GPU=maybe: on, graphs, off or release"
    run = Run(CASES, "rows", options=["--gpu=graphs"])
    assert "enable 51" in run.log and run.hooks()[0][2].endswith(", graphs as a whole")
    assert "enable 51" not in Run(CASES, "rows").log
    run = Run(CASES, "rows", options=["--hooks=-cupti"])
    assert not run.log
    refused = subprocess.run([LAPWING, "record", "--gpu=maybe", "--", "true"], capture_output=True, text=True)
    assert refused.returncode == 2 and "on, graphs, off or release" in refused.stderr


def the_program_switches_it_on_and_off():
    run = Run(CASES, "on_off")
    assert run.kernels() == ["before", "after"]
    assert run.rows("SELECT count(*) FROM gpu") == [(1,)] and len(run.said("dump")) == 2  # told twice, one GPU
    assert [(status, detail.split(",")[0]) for status, _, detail in run.hooks()] == [
        (ACTIVE, f"{NEW}/libcupti.so.13"), (REFUSED, "stopped by lapwing_gpu_stop()"),
        (ACTIVE, f"{NEW}/libcupti.so.13")]
    run = Run(CASES, "on_off", LAPWING_GPU="off")  # before the first start: nothing
    assert run.kernels() == ["after"]


def another_client_gets_it_when_it_is_released():
    run = Run(CASES, "release", compare=False)
    assert run.stdout.splitlines() == ["begins", "held 39 monotonic", "released 0 realtime", "taken monotonic", "ends"], run.stdout
    assert run.kernels() == ["before", "after"]
    assert [status for status, *_ in run.hooks()] == [ACTIVE, REFUSED, REFUSED, ACTIVE]
    assert run.hooks()[1][2] == "released by lapwing_gpu_release()" and "another has CUPTI" in run.hooks()[2][2]
    assert run.losses() == {}


def the_programs_own_profiler_works_as_without_us():
    run = Run(CASES, "profiler")  # its output, which has the results of its calls, is that of the untraced run
    assert "subscribed 0" in run.stdout and run.kernels() == ["before", "after"], run.stdout
    assert [status for status, *_ in run.hooks()] == [ACTIVE, REFUSED, ACTIVE] and run.losses() == {}
    assert run.hooks()[1][2] == f"given up: the program's own profiler takes CUPTI: {CASES}"
    run = Run(CASES, "collector")
    assert run.kernels() == ["before"] and [status for status, *_ in run.hooks()] == [ACTIVE, REFUSED]


def a_forked_child_is_inert_also_when_it_is_traced():
    for case in ("fork", "fork_exec"):
        run = Run(CASES, case)
        assert run.kernels() == ["parent", "parent again"], run.kernels()
        ((processes,),) = run.rows("SELECT count(*) FROM process")
        assert processes == 2 and len(run.said("cuptiSubscribe")) == 1
    assert Run(CASES, "exec").kernels() == ["before exec"]


def a_helper_of_a_rank_is_not_that_rank():
    run = Run(CASES, "helper")
    assert run.kernels() == ["rank"] and run.rows("SELECT count(*) FROM process") == [(1,)]


def records_that_cannot_be_are_counted_or_flagged():
    run = Run(CASES, "strange", compare=False)
    flags = dict(run.rows("SELECT s.text, k.flags FROM kernel k JOIN string s ON s.id = k.name_id"))
    assert flags == {"first": 0, "last": 0, "earlier": 0, "backwards": 4}, flags
    assert run.losses() == {LOSS_UNKNOWN_KIND: 1, LOSS_UNENDED: 2}, run.losses()


def calls_of_many_threads_are_told_apart():
    run = Run(CASES, "threads", compare=False)
    check_rows(run)
    assert run.rows("SELECT count(*), count(DISTINCT tid), count(DISTINCT thread_id) FROM launch") == [(800, 4, 1)]
    run = Run(CASES, "threads", compare=False, FAKE_CUPTI_BUFFER_RECORDS="3")  # given back by the job's threads
    check_rows(run)
    dropped = len(run.said("dropped"))
    assert run.losses() == ({LOSS_TABLE_FULL: dropped} if dropped else {}), run.losses()


def a_full_ring_makes_our_thread_wait_and_nobody_else():
    env = environment({"LAPWING_RING_RECORDS": "8192"})
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.lapwing"
        subprocess.run([LAPWING, "record", "-q", "--no-analyze", "-o", path, "--", CASES, "storm"], env=env, check=True,
                       capture_output=True, timeout=100)
        with sqlite3.connect(path) as run:
            assert run.execute("SELECT count(*) FROM kernel").fetchone() == (40000,)
            assert run.execute("SELECT count(*) FROM launch").fetchone() == (40000,)
            assert run.execute("SELECT coalesce(sum(n), 0) FROM loss").fetchone() == (0,)
    start = time.monotonic()
    job = traced.run([CASES, "storm"], **env)  # nobody collects: it gives up, and the job ends all the same
    assert job.code == 0 and time.monotonic() - start < 30
    process = job.only()
    n = len(rings.of_kind(process, "KERNEL"))
    assert 0 < n < 8192, n
    print(f"storm: 40000 kernels through a ring of 8192; without a collector {n}, and the job took"
          f" {time.monotonic() - start:.1f} s")


def what_cupti_drops_is_counted():
    """A reader that is slow: 33rd buffer on are refused. The double's account says how many records that cost."""
    run = Run(CASES, "storm", compare=False, FAKE_CUPTI_SLOW_MS="300", FAKE_CUPTI_BUFFER_RECORDS="100")
    dropped, told = len(run.said("dropped")), len(run.said("kernel")) + len(run.said("api"))
    assert dropped > 0, "the reader was quick enough: nothing is tested"
    ((kernels, launches),) = run.rows("SELECT (SELECT count(*) FROM kernel), (SELECT count(*) FROM launch)")
    assert run.losses() == {LOSS_TABLE_FULL: dropped}, (run.losses(), dropped)
    assert kernels + launches == told, (kernels, launches, told)
    print(f"drops: {dropped} of {dropped + told} records, all counted")


def a_cupti_that_hangs_does_not_hold_the_job():
    start = time.monotonic()
    run = Run(CASES, "rows", FAKE_CUPTI_SLOW_MS="100000")
    assert time.monotonic() - start < 20 and run.losses()[LOSS_UNENDED] == 1, run.losses()


def cuda_alone_is_no_reason_to_trace():
    """Nothing is known of this process until it marks: then its GPU is recorded from there on."""
    env = environment({})
    del env["RANK"], env["WORLD_SIZE"]
    with tempfile.TemporaryDirectory() as folder:
        log = f"{folder}/log"
        job = traced.run([CASES, "rows"], **{**env, "FAKE_CUPTI_LOG": log, "RANK": ""})
        assert job.code == 0 and not job.processes and not os.path.exists(log)
        job = traced.run([CASES, "late"], **{**env, "FAKE_CUPTI_LOG": log, "RANK": ""})
        assert [kernel["name"] for kernel in rings.of_kind(job.only(), "KERNEL")] == ["traced"]
    for arguments, n in ([], 0), (["mark"], 3):  # nothing but the injection and the mark can have said it
        job = traced.run([traced.program("cuda_static"), *arguments],
                         **{**env, "RANK": "", "CUDA_INJECTION64_PATH": traced.LIBRARY})
        assert job.code == 0 and job.stdout == "injected 1\n"
        assert sum(len(rings.of_kind(process, "KERNEL")) for process in job.processes.values()) == n


def the_driver_brings_it_into_a_program_that_cannot_be_preloaded_between():
    run = Run(traced.program("cuda_static"), compare=False)
    assert run.stdout == "injected 1\n" and run.kernels() == ["static"] * 3
    assert "enable 8" in run.log and "dump 8" not in run.log  # inside cuInit the driver cannot be asked
    run = Run(traced.program("cuda_static"), compare=False, options=["--gpu=release"])
    assert run.stdout == "injected -1\n"


def it_is_seen_while_it_runs_and_after_a_kill():
    env = environment({})
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run.lapwing"
        job = subprocess.Popen([LAPWING, "record", "-q", "--no-analyze", "-o", path, "--", CASES, "sleepy"], env=env,
                               stdout=subprocess.DEVNULL)
        try:
            n, deadline = 0, time.monotonic() + 30
            while not n and time.monotonic() < deadline:
                time.sleep(0.1)
                try:
                    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as run:
                        n = run.execute("SELECT count(*) FROM kernel").fetchone()[0]
                except sqlite3.Error:
                    pass
            assert n == 1
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as run:
                os.kill(run.execute("SELECT pid FROM process").fetchone()[0], signal.SIGKILL)
            assert job.wait(timeout=30) == 128 + signal.SIGKILL
            with sqlite3.connect(path) as run:
                assert run.execute("SELECT count(*) FROM kernel").fetchone() == (1,)
                assert run.execute("SELECT ended FROM process").fetchone() == ("died",)
        finally:
            if job.poll() is None:
                job.kill()
                job.wait()


def main():
    only = sys.argv[1:]
    for name, test in list(globals().items()):
        if callable(test) and getattr(test, "__module__", "") == "__main__" and re.match(r"[a-z]+_[a-z_0-9]+$", name):
            if name in ("check_rows",) or (only and name not in only):
                continue
            start = time.monotonic()
            test()
            print(f"{name}: ok ({time.monotonic() - start:.1f} s)")


if __name__ == "__main__":
    main()
