#!/usr/bin/env python3
"""kill -9 of a rank, of the collector, of both, at seeded random moments: every record that was published is
in the run file exactly once, shown by the records' sequence numbers. Then `lapwing salvage`."""
import glob
import os
import random
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["LAPWING_BUILD_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
LAPWINGD = os.path.join(BUILD, "bin", "lapwingd")
PRODUCER = os.path.join(BUILD, "tests", "producer")
SEED = int(os.environ.get("LAPWING_SEED", "7"))
EVENT_TABLES = ["ready", "batch_tensor", "batch", "cycle", "collective", "wait"]
N_OPENING = 50  # records of the producer that are no rows: texts (49 parts) and PROCESS

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("LAPWING_") and k != "LD_PRELOAD"}


def lapwing(*arguments, code=0):
    done = subprocess.run([LAPWING, *arguments], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


def wait_for(what, is_so):
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.002)


def check_exactly_once(path, truth_path=None, n_threads=None):
    """Return: rows that were checked."""
    n_rows = 0
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT closed FROM run").fetchone() == (1,)
        published = []
        for thread, serial, rank, pushed, stored, lost in db.execute(
                "SELECT t.id, serial, rank, n_pushed, n_stored, n_lost FROM thread t JOIN process p ON p.id = t.process_id"):
            assert pushed == stored + lost, (thread, pushed, stored, lost)
            assert lost == 0, f"thread {thread}: {lost} lost: the ring was full, which this test does not mean to show"
            seqs = [s for table in EVENT_TABLES for s, in db.execute(f'SELECT seq FROM "{table}" WHERE thread_id = ?', (thread,))]
            first = N_OPENING
            assert sorted(seqs) == list(range(first, pushed)), (thread, len(seqs), len(set(seqs)), pushed)
            n_rows += len(seqs)
            published.append((rank, serial, pushed))
        assert db.execute("SELECT count(*) FROM ready WHERE name_id IS NOT NULL").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM batch_tensor WHERE name_id IS NULL").fetchone() == (0,)
    if truth_path:
        with open(truth_path, "rb") as file:
            truth = [n for n, in struct.iter_unpack("<Q", file.read())]
        assert len(published) == len([n for n in truth if n]), (published, truth)
        for rank, serial, pushed in published:
            # killed between the push and the count of it: the file may know one more
            assert truth[rank * n_threads + serial] in (pushed, pushed - 1), (rank, serial, pushed, truth)
    assert not glob.glob(path + "-*"), "a run is one file"
    return n_rows


def start_producer(folder, ring_dir, *arguments):
    return subprocess.Popen([PRODUCER, "-r", "131072", "-T", f"{folder}/truth", *arguments], stdout=subprocess.DEVNULL,
                            env={**ENVIRONMENT, "LAPWING_DIR": ring_dir})


def start_collector(ring_dir, out):
    return subprocess.Popen([LAPWINGD, "--foreground", "--dir", ring_dir, "--out", out], env=ENVIRONMENT)


def has_rings(ring_dir, n):
    return lambda: len(glob.glob(f"{ring_dir}/*.ring")) >= n


def test_rank_killed(folder, ring_dir):
    """The collector lives and ends by itself."""
    out = f"{folder}/run.lapwing"
    producer = start_producer(folder, ring_dir, "-t", "3", "-n", "100000000", "-u", "500")
    wait_for("rings", has_rings(ring_dir, 3))
    collector = start_collector(ring_dir, out)
    wait_for("the run file", lambda: os.path.exists(out))
    time.sleep(random.uniform(0.05, 0.3))
    producer.kill()
    producer.wait()
    assert collector.wait(timeout=30) == 0
    assert not os.path.exists(ring_dir)
    n = check_exactly_once(out, f"{folder}/truth", 3)
    done = lapwing("info", out, code=3)
    assert "died" in done.stdout, done.stdout
    return n, 1


def test_collector_killed(folder, ring_dir):
    """Again and again, wherever it stands: in a transaction, before or after giving the slots back."""
    out = f"{folder}/run.lapwing"
    producer = start_producer(folder, ring_dir, "-p", "2", "-t", "2", "-n", "120000", "-u", "400")
    wait_for("rings", has_rings(ring_dir, 4))
    n_kills = 0
    while producer.poll() is None and n_kills < 60:
        collector = start_collector(ring_dir, out)
        if not n_kills:  # before that, salvage could not know the name of the run file
            wait_for("the run file", lambda: os.path.exists(f"{ring_dir}/out"))
        time.sleep(random.uniform(0.0, 0.04) if random.random() < 0.8 else random.uniform(0.1, 0.2))
        collector.send_signal(signal.SIGKILL)
        collector.wait()
        n_kills += 1
    # the last one is salvage: it waits for processes that still record
    done = lapwing("salvage", ring_dir)
    producer.wait()
    # "nothing": the last kill hit a collector that was removing the directory already
    assert "recovered" in done.stdout or "nothing was left" in done.stdout, done.stdout
    assert not os.path.exists(ring_dir)
    assert n_kills > 10, n_kills
    n = check_exactly_once(out, f"{folder}/truth", 2)
    lapwing("info", out)
    return n, n_kills


def test_both_killed(folder, ring_dir):
    out = f"{folder}/run.lapwing"
    producer = start_producer(folder, ring_dir, "-p", "2", "-t", "2", "-n", "100000000", "-u", "500")
    collector = start_collector(ring_dir, out)
    wait_for("rings", has_rings(ring_dir, 4))
    wait_for("the run file", lambda: os.path.exists(f"{ring_dir}/out"))
    time.sleep(random.uniform(0.02, 0.3))
    refused = lapwing("salvage", ring_dir, code=1)
    assert "a collector is at work" in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
    assert "is being recorded" in lapwing("salvage").stdout
    collector.kill()
    collector.wait()
    pids = {int(os.path.basename(name).split(".")[0]) for name in glob.glob(f"{ring_dir}/*.ring")}
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    producer.wait()
    lapwing("info", out, code=3)  # what was stored is readable as it stands
    assert "left behind: salvage it" in lapwing("salvage").stdout
    done = lapwing("salvage", ring_dir)
    print(" ", done.stdout.strip())
    n = check_exactly_once(out, f"{folder}/truth", 2)
    lapwing("salvage", ring_dir, code=1)  # gone: nothing left to salvage
    return n, 2


def test_salvaged_elsewhere(folder, ring_dir):
    """-o: what was stored comes along, and the old file is left as it is."""
    out, other = f"{folder}/run.lapwing", f"{folder}/other.lapwing"
    producer = start_producer(folder, ring_dir, "-n", "100000000", "-u", "500")
    collector = start_collector(ring_dir, out)
    wait_for("rows", lambda: os.path.exists(f"{ring_dir}/out"))
    time.sleep(0.25)
    collector.kill()
    collector.wait()
    producer.kill()
    producer.wait()
    lapwing("salvage", "-o", other, ring_dir)
    assert os.path.exists(out)
    return check_exactly_once(other, f"{folder}/truth", 1), 2


def test_killed_under_record(folder, ring_dir):
    """`record` gives the job a new collector; the job notices nothing."""
    os.rmdir(ring_dir)
    out = f"{folder}/run.lapwing"
    record = subprocess.Popen([LAPWING, "record", "-o", out, "--", PRODUCER, "-r", "131072", "-t", "2", "-n", "40000", "-u", "500",
                               "-T", f"{folder}/truth", "-x", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=ENVIRONMENT)
    children = f"/proc/{record.pid}/task/{record.pid}/children"

    def collector():
        for pid in open(children).read().split():
            try:
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "lapwingd":
                    return int(pid)
            except OSError:
                pass
        return 0

    wait_for("the collector", collector)
    wait_for("the run file", lambda: os.path.exists(out))
    time.sleep(random.uniform(0.05, 0.2))
    os.kill(collector(), signal.SIGKILL)
    stdout, stderr = record.communicate(timeout=60)
    assert record.returncode == 5, (record.returncode, stderr)
    assert stdout.startswith("rank 0 published ") and stdout.count("\n") == 1, stdout
    assert "another goes on" in stderr and stderr.count("\n") == 2, stderr
    return check_exactly_once(out, f"{folder}/truth", 2), 1


def main():
    random.seed(SEED)
    tests = [test_rank_killed, test_collector_killed, test_both_killed, test_salvaged_elsewhere, test_killed_under_record]
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            ring_dir = tempfile.mkdtemp(prefix=f"lapwing-{os.geteuid()}-kill", dir="/dev/shm")
            n_rows, n_kills = test(folder, ring_dir)
            assert n_rows > 0
            print(f"{test.__name__[5:]}: {n_rows} rows, each exactly once, after {n_kills} kill(s); seed {SEED}")


if __name__ == "__main__":
    sys.exit(main())
