#!/usr/bin/env python3
"""The collector's life without `record`: one per directory, ends by itself, can be told to, costs nothing when idle."""
import contextlib
import glob
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["LAPWING_BUILD_DIR"]
LAPWINGD = os.path.join(BUILD, "bin", "lapwingd")
LAPWING = os.path.join(BUILD, "bin", "lapwing")
PRODUCER = os.path.join(BUILD, "tests", "producer")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("LAPWING_") and k != "LD_PRELOAD"}
ENVIRONMENT["LAPWING_NO_ANALYZE"] = "1"  # what follows the collector's life is e2e_finish's
IDLE_S = 5
MAX_IDLE_FRAC, MAX_SAMPLERS_FRAC = 0.002, 0.002  # of a core; the samplers' is on top
RUNNING = 11  # enum lw_loss_reason


def wait_for(what, is_so, patience_s=30):
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def produce(ring_dir, *arguments):
    return subprocess.Popen([PRODUCER, *arguments], stdout=subprocess.DEVNULL, env={**ENVIRONMENT, "LAPWING_DIR": ring_dir})


def daemon(ring_dir, out, **variables):
    """As a rank starts it. Return: when its first process has returned."""
    subprocess.run([LAPWINGD, "--dir", ring_dir, "--out", out], check=True, timeout=10, env={**ENVIRONMENT, **variables})
    wait_for("the run file", lambda: os.path.exists(f"{ring_dir}/out"))


def query(path, sql):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


def daemon_pid(ring_dir):
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path, "rb").read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"lapwingd") and ring_dir.encode() in words:
            return int(path.split("/")[2])
    return 0


def test_ends_by_itself(folder, ring_dir):
    """Processes come and go; a gap shorter than the grace is no end; then one file, no directory, no process."""
    out = f"{folder}/run.lapwing"
    first = produce(ring_dir, "-n", "500", "-r", "1024")
    first.wait()
    daemon(ring_dir, out)
    pid = daemon_pid(ring_dir)
    assert os.getsid(pid) != os.getsid(0), "a daemon has a session of its own"
    assert [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1)] == ["/dev/null"] * 2
    wait_for("the first process", lambda: query(out, "SELECT ended FROM process") == [("exit",)])
    second = produce(ring_dir, "-n", "500", "-r", "1024")
    second.wait()
    started = time.monotonic()
    wait_for("the end", lambda: not os.path.exists(ring_dir))
    took = time.monotonic() - started
    assert 1 < took < 10, took
    wait_for("no process", lambda: daemon_pid(ring_dir) == 0)
    assert os.listdir(folder) == ["run.lapwing"], os.listdir(folder)
    assert query(out, "SELECT pid, ended, n_stored FROM process p JOIN thread t ON t.process_id = p.id ORDER BY p.id") == [
        (first.pid, "exit", 550), (second.pid, "exit", 550)]
    assert query(out, "SELECT closed, command FROM run") == [(1, "producer")]
    print(f"ended {took:.1f} s after the last process")


def test_one_per_directory(folder, ring_dir):
    out = f"{folder}/run.lapwing"
    job = produce(ring_dir, "-n", "1000000", "-u", "1000")
    daemon(ring_dir, out)
    pid = daemon_pid(ring_dir)
    # the second rank's: leaves the field without a word
    subprocess.run([LAPWINGD, "--dir", ring_dir, "--out", f"{folder}/second.lapwing"], check=True, timeout=10, env=ENVIRONMENT)
    done = subprocess.run([LAPWINGD, "--foreground", "--dir", ring_dir, "--out", f"{folder}/second.lapwing"], capture_output=True,
                          text=True, timeout=10, env=ENVIRONMENT)
    assert done.returncode == 1 and "a collector is at work there" in done.stderr, done
    assert daemon_pid(ring_dir) == pid
    # a reader sees the run grow
    done = subprocess.run([LAPWING, "info", out], capture_output=True, text=True, timeout=10, env=ENVIRONMENT)
    assert done.returncode == 3 and "still being written" in done.stdout, done
    # Ctrl-C and hangups of a terminal are not for it
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(pid, number)
    # told to end at once: what still runs is named
    os.kill(pid, signal.SIGUSR1)
    wait_for("the end", lambda: not os.path.exists(ring_dir))
    assert query(out, "SELECT closed FROM run") == [(1,)]
    assert query(out, "SELECT reason, detail FROM loss WHERE thread_id IS NULL") == [(RUNNING, f"pid {job.pid}")]
    assert query(out, "SELECT count(*) FROM ready")[0][0] > 0
    job.kill()
    job.wait()
    assert not os.path.exists(f"{folder}/second.lapwing")
    print("a second collector leaves at once; SIGUSR1 closes the run")


def test_an_output_that_cannot_be(folder, ring_dir):
    """Nobody sees a daemon's errors: they are in the directory, and `salvage` shows them."""
    job = produce(ring_dir, "-n", "500", "-r", "1024")
    job.wait()
    subprocess.run([LAPWINGD, "--dir", ring_dir, "--out", f"{folder}/no/such/run.lapwing"], check=True, timeout=10, env=ENVIRONMENT)
    wait_for("the log", lambda: os.path.exists(f"{ring_dir}/log") and "folder does not exist" in open(f"{ring_dir}/log").read())
    listing = subprocess.run([LAPWING, "salvage"], capture_output=True, text=True, env=ENVIRONMENT).stdout
    assert ring_dir in listing and "folder does not exist" in listing and "give -o" in listing, listing
    done = subprocess.run([LAPWING, "salvage", "-o", f"{folder}/run.lapwing", ring_dir], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0 and "550 events" in done.stdout, done
    print("a daemon's error is found by salvage:", done.stdout.strip())



def test_a_reader_at_the_close(folder, ring_dir):
    """Somebody looks again and again until the run is closed: it is one file all the same, without a -wal."""
    path = f"{folder}/run.lapwing"
    job = produce(ring_dir, "-n", "500", "-r", "1024")
    daemon(ring_dir, path)
    job.wait()

    def is_closed():
        try:
            return query(path, "SELECT closed FROM run") == [(1,)] and not os.path.exists(ring_dir)
        except sqlite3.Error:
            return False

    deadline = time.monotonic() + 30
    while not is_closed():  # without a pause: some reader is there at every moment
        assert time.monotonic() < deadline, "the close"
    assert sorted(os.listdir(folder)) == ["run.lapwing"], os.listdir(folder)
    assert query(path, "PRAGMA journal_mode") == [("delete",)]
    print("read until it was closed: one file")


def idle_frac(folder, ring_dir, sample_ms):
    """Of a core, beside a job that waits for its data: rings are there, nothing is pushed."""
    jobs = [produce(ring_dir, "-t", "4", "-n", "1000000000", "-u", "60000000", "-r", "65536") for _ in range(2)]
    wait_for("rings", lambda: len(glob.glob(f"{ring_dir}/*.ring")) == 8)
    daemon(ring_dir, f"{folder}/run.lapwing", LAPWING_SAMPLE_MS=sample_ms)
    pid = daemon_pid(ring_dir)
    wait_for("rows", lambda: query(f"{folder}/run.lapwing", "SELECT count(*) FROM thread WHERE n_stored > 0") == [(8,)])
    schedstat = f"/proc/{pid}/schedstat"  # ns on the CPU: ticks are too coarse
    before = int(open(schedstat).read().split()[0])
    time.sleep(IDLE_S)  # the quantity measured is what happens in this time
    used_frac = (int(open(schedstat).read().split()[0]) - before) / (IDLE_S * 1e9)
    for job in jobs:
        job.kill()
        job.wait()
    wait_for("the end", lambda: not os.path.exists(ring_dir))
    print(f"idle with 8 rings, --sample-ms {sample_ms}: {100 * used_frac:.3f} % of one core over {IDLE_S} s")
    return used_frac


def test_idle_cost(folder, ring_dir):
    used_frac = idle_frac(folder, ring_dir, "0")
    assert used_frac < MAX_IDLE_FRAC, used_frac


def test_idle_cost_with_samplers(folder, ring_dir):
    used_frac = idle_frac(folder, ring_dir, "100")
    assert used_frac < MAX_IDLE_FRAC + MAX_SAMPLERS_FRAC, used_frac


def main():
    for test in (test_ends_by_itself, test_one_per_directory, test_an_output_that_cannot_be,
                 test_a_reader_at_the_close, test_idle_cost, test_idle_cost_with_samplers):
        with tempfile.TemporaryDirectory() as folder:
            test(folder, tempfile.mkdtemp(prefix=f"lapwing-{os.geteuid()}-life", dir="/dev/shm"))


if __name__ == "__main__":
    sys.exit(main())
