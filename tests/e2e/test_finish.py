#!/usr/bin/env python3
"""When a recording has ended its analysis is in the file, whoever recorded it; it never costs the file or a reader anything."""
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

BUILD, SOURCE = os.environ["LAPWING_BUILD_DIR"], os.environ["LAPWING_SOURCE_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
LIBRARY = os.path.join(BUILD, "lib", "liblapwing.so")
PROGRAM = os.path.join(BUILD, "tests", "mark_cases")
LAUNCHERS = ("LAPWING_", "OMPI_", "PMI", "SLURM_", "LD_PRELOAD")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}


def run(*command, **environment):
    return subprocess.run(command, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, timeout=120)


def query(path, sql):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


def has_results(path):
    return query(path, "SELECT count(*) FROM summary WHERE name = 'form'") == [(1,)]


def sides(path):
    folder, name = os.path.split(path)
    return [other for other in os.listdir(folder) if other.startswith(name) and other != name]


def record(path, *options, **environment):
    done = run(LAPWING, "record", "-o", path, *options, "--", PROGRAM, **environment)
    assert done.returncode == 0 and "done" in done.stdout, done
    return has_results(path)


def test_record(folder):
    path = os.path.join(folder, "run.lapwing")
    assert record(path), "record has returned, and no results are there"
    assert not sides(path), sides(path)
    assert not record(path, "--no-analyze")
    assert not record(path, LAPWING_NO_ANALYZE="1")
    assert record(path, LAPWING_NO_ANALYZE="0")
    print("record, --no-analyze, LAPWING_NO_ANALYZE")


def test_part_of_a_job(folder):
    """A file of some ranks is not the job: nothing is concluded from it alone."""
    path = os.path.join(folder, "part.lapwing")
    assert not record(path, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
    assert record(path, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1")
    print("part of a job")


def test_whose_caller_ignores_its_children(folder):
    """A caller that ignores SIGCHLD leaves that to what it starts, and nobody could be waited for."""
    path = os.path.join(folder, "orphan.lapwing")
    source = os.path.join(SOURCE, "tests/data/timeline_small.json")
    ignoring = dict(env=ENVIRONMENT, capture_output=True, text=True, timeout=30,
                    preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    done = subprocess.run([LAPWING, "import", source, "-o", path], **ignoring)
    assert done.returncode in (0, 3) and has_results(path) and not sides(path), done
    done = subprocess.run([LAPWING, "record", "-o", path, "--", "grep", "SigIgn", "/proc/self/status"], **ignoring)
    assert done.returncode == 0, done
    assert int(done.stdout.split()[1], 16) & 1 << signal.SIGCHLD - 1, "the command is not called as it would have been"
    done = subprocess.run([LAPWING, "record", "-o", path, "--", PROGRAM], **ignoring)
    assert done.returncode == 0 and has_results(path), done
    print("whose caller ignores its children")


def test_left_by_the_user(folder):
    """What takes long is said; Ctrl-C leaves it, with the command's own exit code and a whole file."""
    path = os.path.join(folder, "long.lapwing")
    recording = subprocess.Popen([LAPWING, "record", "-o", path, "--", "sh", "-c", f"{PROGRAM}; sleep 0.5; exit 7"],
                                 env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for("the run file", lambda: os.path.exists(path))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as db:

        def is_taken():  # who holds the run as a writer keeps the analysis from storing, for 5 s
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.Error:
                return False
            if db.execute("SELECT closed FROM run").fetchall() == [(1,)]:
                return True
            db.execute("ROLLBACK")
            return False

        wait_for("the run is closed", is_taken)
        said = ""
        while "analysing" not in said:
            line = recording.stderr.readline()
            assert line, said
            said += line
        assert path in said and "Ctrl-C" in said, said
        recording.send_signal(signal.SIGINT)
        _, rest = recording.communicate(timeout=10)
        assert recording.returncode == 7 and not rest, (recording.returncode, rest)
        db.execute("ROLLBACK")
    assert is_closed(path) and not has_results(path)
    done = run(LAPWING, "report", path)
    assert done.returncode == 3 and not done.stderr, done  # 3: this program nests its marks too deep
    assert has_results(path) and not sides(path)
    print("left by the user")


def wait_for(what, is_so, patience_s=30):
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def is_closed(path):
    try:
        return query(path, "SELECT closed FROM run") == [(1,)]
    except sqlite3.Error:
        return False


def state_of(path):
    return next(line for line in run(LAPWING, "info", path).stdout.splitlines() if line.strip().startswith("state"))


def test_time_of_what_was_killed(folder):
    """One that was killed ended with its last event, as far as it could tell; its connections were seen for longer. Hosts have clocks of their own."""
    path = os.path.join(folder, "killed.lapwing")
    record(path, "--no-analyze")
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE process SET start_ns = 1000000000, end_ns = 3000000000, ended = 'died'")
        db.execute("INSERT INTO host SELECT 900, 'far', 'boot', clock FROM host LIMIT 1")
        db.execute("INSERT INTO process(id, host_id, pid, ppid, framework, transport, start_ns, end_ns) VALUES(900, 900, 7, 1, 0, 0, 500000000000, 504000000000)")
        db.execute("INSERT INTO tcp_connection(id, host_id, process_id, inode_key, namespace_key, local_address, local_port, peer_address, peer_port,"
                   " first_ns, last_ns, is_ended) SELECT 900, host_id, id, 0, 0, '10.0.0.1', 1, '10.0.0.2', 2, 1000000000, 62000000000, 0"
                   " FROM process WHERE id <> 900 LIMIT 1")
    line = next(line for line in run(LAPWING, "info", path).stdout.splitlines() if "recorded" in line)
    assert " UTC, 61.0 s, " in line, line
    print("time of what was killed")


def test_variables_alone(folder):
    for off, expected in (("0", True), ("1", False)):
        path = os.path.join(folder, f"alone{off}.lapwing")
        done = run(PROGRAM, LD_PRELOAD=LIBRARY, LAPWING_OUT=path, LAPWING_NO_ANALYZE=off)
        assert done.returncode == 0 and not done.stderr, done
        wait_for("the run is closed", lambda: os.path.exists(path) and is_closed(path))
        if expected:
            wait_for("results", lambda: has_results(path))
        wait_for("one file", lambda: not sides(path))
        time.sleep(0 if expected else 1)
        assert has_results(path) == expected
    print("variables alone")


def test_import(folder):
    path = os.path.join(folder, "import.lapwing")
    done = run(LAPWING, "import", os.path.join(SOURCE, "tests/data/timeline_small.json"), "-o", path)
    assert done.returncode in (0, 3), done
    assert has_results(path) and not sides(path)
    print("import")


def big(folder, name):
    source = os.path.join(folder, "big.lapwing")
    if not os.path.exists(source):
        subprocess.run([os.path.join(BUILD, "tests", "tui_write_run"), "long", source], check=True)
        assert not has_results(source)
    return shutil.copy(source, os.path.join(folder, name))


def begin(path):
    return subprocess.Popen([LAPWING, "analyze", path], env=ENVIRONMENT, stderr=subprocess.PIPE)


def test_killed(folder):
    """Whenever it is killed, and however, the run is whole, and the next reader tidies up."""
    n_killed = 0
    for i in range(15):
        path = big(folder, f"killed{i}.lapwing")
        number = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[i % 3]
        analysis = begin(path)
        time.sleep(0.02 + 0.05 * i)
        analysis.send_signal(number)
        analysis.communicate(timeout=60)
        assert analysis.returncode in (0, -number), analysis.returncode
        n_killed += analysis.returncode != 0
        with contextlib.closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert db.execute("SELECT closed FROM run").fetchall() == [(1,)]
        if i % 5 == 0:
            done = run(LAPWING, "report", path)
            assert done.returncode == 0 and not done.stderr, done
            assert has_results(path) and not sides(path)
            assert query(path, "PRAGMA journal_mode") == [("delete",)]
    assert n_killed >= 3, n_killed
    print(f"killed {n_killed} times")


def test_reader_in_the_middle(folder):
    """Who only looks does not wait and ends nothing; who analyses takes over, and nobody sees an error."""
    path = big(folder, "middle.lapwing")
    analysis = begin(path)
    wait_for("it is at work", lambda: "is being analysed" in state_of(path) or analysis.poll() is not None)
    assert analysis.poll() is None, "it was too quick for this test"
    assert "complete" in state_of(path) and analysis.poll() is None
    done = run(LAPWING, "report", path)
    assert done.returncode == 0 and not done.stderr and "A step takes" in done.stdout, done
    analysis.communicate(timeout=60)
    assert analysis.returncode == -signal.SIGIO, analysis.returncode
    assert has_results(path) and not sides(path) and "is being analysed" not in state_of(path)
    print("a reader in the middle")


def test_two_at_once(folder):
    """A second one finds the first and leaves; readers of any kind at any moment are served."""
    path = big(folder, "two.lapwing")
    first = begin(path)
    wait_for("it is at work", lambda: "is being analysed" in state_of(path))
    second = begin(path)
    second.communicate(timeout=60)
    assert second.returncode == 1 and first.poll() is None, (second.returncode, first.poll())
    errors, is_over = [], threading.Event()

    def look():
        while not is_over.is_set():
            done = run(LAPWING, "info", path)
            if done.returncode or done.stderr:
                errors.append(done)

    looking = threading.Thread(target=look)
    looking.start()
    first.communicate(timeout=60)
    is_over.set()
    looking.join()
    assert first.returncode == 0 and not errors, (first.returncode, errors[:1])
    assert has_results(path)
    print("two at once")


def test_replaced(folder):
    """A new recording into the same file does not meet the old one's analysis."""
    path = big(folder, "again.lapwing")
    analysis = begin(path)
    wait_for("it is at work", lambda: "is being analysed" in state_of(path))
    assert record(path)
    analysis.communicate(timeout=60)
    assert analysis.returncode == -signal.SIGIO, analysis.returncode
    assert query(path, "SELECT count(*) FROM batch") == [(0,)] and not sides(path)
    print("replaced")


def main():
    with tempfile.TemporaryDirectory(prefix="lapwing-finish-") as folder:
        test_record(folder)
        test_time_of_what_was_killed(folder)
        test_part_of_a_job(folder)
        test_whose_caller_ignores_its_children(folder)
        test_left_by_the_user(folder)
        test_variables_alone(folder)
        test_import(folder)
        test_killed(folder)
        test_reader_in_the_middle(folder)
        test_two_at_once(folder)
        test_replaced(folder)
    return 0


sys.exit(main())
