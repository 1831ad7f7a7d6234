#!/usr/bin/env python3
"""Who leaves the screen in the middle of something, or loses it, leaves whole files: the run as it was, no half snapshot."""
import contextlib
import fcntl
import glob
import os
import pty
import select
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import time

BUILD = os.environ["LAPWING_BUILD_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
ENVIRONMENT = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": "/proc/nowhere"}


class Screen:
    """lapwing on a terminal of its own."""

    def __init__(self, *arguments, cwd=None):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.output = b""
        self.child = subprocess.Popen([LAPWING, *arguments], stdin=slave, stdout=slave, stderr=slave, cwd=cwd,
                                      start_new_session=True, env=ENVIRONMENT)
        os.close(slave)

    def read(self, timeout_s=0.02):
        with contextlib.suppress(OSError):
            if select.select([self.master], [], [], timeout_s)[0]:
                self.output += os.read(self.master, 65536)

    def wait(self, what, is_so, patience_s=60):
        end_s = time.monotonic() + patience_s
        while not is_so():
            assert time.monotonic() < end_s and self.child.poll() is None, (what, self.output[-600:])
            self.read()

    def shows(self, text):
        self.wait(text, lambda: text in self.output)

    def send(self, how):
        """A key, or a signal."""
        if isinstance(how, bytes):
            os.write(self.master, how)
        else:
            self.child.send_signal(how)

    def end(self, how=b""):
        """Return: its exit status."""
        begin_s = time.monotonic()
        self.send(how)
        while self.child.poll() is None:
            self.read()
            assert time.monotonic() < begin_s + 60, "does not end"
        os.close(self.master)
        return self.child.returncode


def sides(path):
    return [path + end for end in ("-journal", "-wal", "-shm") if os.path.exists(path + end)]


def query(path, sql):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


def has_results(path):
    return query(path, "SELECT count(*) FROM summary WHERE name = 'form'") == [(1,)]


def is_whole(path):
    assert not sides(path), sides(path)
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    assert query(path, "PRAGMA journal_mode") == [("delete",)]


def big(folder, name, sql=None):
    source = os.path.join(folder, "big.lapwing")
    if not os.path.exists(source):
        subprocess.run([os.path.join(BUILD, "tests", "tui_write_run"), "long", source], check=True)
        with contextlib.closing(sqlite3.connect(source)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
    path = shutil.copy(source, os.path.join(folder, name))
    if sql:
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute(sql)
            db.commit()
    return path


def test_while_results_are_stored(folder):
    for how, status in ((b"q", 0), (signal.SIGTERM, -signal.SIGTERM)):
        path = big(folder, "storing.lapwing")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM run").fetchall()  # who reads keeps it from being done with it
            screen = Screen("tui", path)
            screen.wait("it stores", lambda: os.path.exists(path + "-journal"))
            screen.send(how)
            time.sleep(0.5)
        assert screen.end() == status
        assert not has_results(path)
        is_whole(path)
    print("left while results are stored")


def test_while_another_analysis_is_ended(folder):
    """What that had left beside the file goes, too."""
    path = big(folder, "ended.lapwing")
    analysis = subprocess.Popen([LAPWING, "analyze", path], env=ENVIRONMENT)
    while not os.path.exists(path + "-wal"):
        assert analysis.poll() is None, "it was too quick for this test"
        time.sleep(0.01)
    screen = Screen("tui", path)
    assert analysis.wait(60) == -signal.SIGIO
    assert screen.end(b"q") == 0
    is_whole(path)
    assert not has_results(path), "it was too quick for this test"
    print("left after another's analysis was ended")


def test_of_a_run_that_lost_something(folder):
    n_early = 0
    for i, sql in enumerate(("INSERT INTO loss(thread_id, reason, n, detail) VALUES(1, 0, 7, '')", "UPDATE process SET ended = 'died' WHERE id = 1",
                             "UPDATE process SET size = 8", "UPDATE run SET closed = 0", None)):
        path = big(folder, f"lossy{i}.lapwing", sql)
        expected = subprocess.run([LAPWING, "report", shutil.copy(path, path + ".copy")], capture_output=True).returncode
        assert expected == (3 if sql else 0), (sql, expected)
        screen = Screen("tui", path)
        screen.shows(b"\033[?1049h")
        assert screen.end(b"q") == expected, sql
        is_whole(path)
        n_early += not has_results(path)
    assert n_early > 2, "it was too quick for this test"
    print("left a run that lost something")


def test_without_a_terminal(folder):
    """Says so at once: nothing is read, and nothing written."""
    path = big(folder, "dumb.lapwing")
    for term in ("xterm", "dumb"):
        done = subprocess.run([LAPWING, "tui", path], env={**ENVIRONMENT, "TERM": term}, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        assert done.returncode == 1 and b"needs a terminal" in done.stderr, done
        assert not has_results(path)
    done = subprocess.run([LAPWING, "live", "--", "touch", os.path.join(folder, "begun")], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, cwd=folder)
    assert done.returncode == 1 and b"needs a terminal" in done.stderr, done
    assert not os.path.exists(os.path.join(folder, "begun")), "a command was begun that nobody can follow"
    print("without a terminal")


def test_while_a_snapshot_is_written(folder):
    """A terminal that is closed leaves no half file."""
    command = ["sh", "-c", "touch begun; while [ -e begun ]; do sleep 0.1; done"]
    for how in (signal.SIGHUP, signal.SIGTERM):
        screen = Screen("live", "--", *command, cwd=folder)
        path = os.path.join(folder, "run.lapwing")
        screen.wait("the command runs", lambda: os.path.exists(os.path.join(folder, "begun")) and os.path.exists(path))
        screen.shows(b"q")
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as db:  # some 200 MB, so that it takes a while
            db.execute("CREATE TABLE filler AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)"
                       " SELECT zeroblob(1000000) AS bytes FROM n")
            db.commit()
        os.write(screen.master, b"w")
        written = os.path.join(folder, "lapwing-live-*")
        screen.wait("it is being written", lambda: any(os.path.getsize(f) > 1 << 20 for f in glob.glob(written) if os.path.exists(f)))
        assert screen.end(how) == -how
        assert not glob.glob(written), glob.glob(written)
        os.unlink(os.path.join(folder, "begun"))
        end_s = time.monotonic() + 60
        while sides(path) or query(path, "SELECT closed FROM run") != [(1,)]:
            assert time.monotonic() < end_s
            time.sleep(0.1)
        os.unlink(path)
    print("left while a snapshot is written")


def main():
    with tempfile.TemporaryDirectory(prefix="lapwing-leave-") as folder:
        test_without_a_terminal(folder)
        test_while_results_are_stored(folder)
        test_while_another_analysis_is_ended(folder)
        test_of_a_run_that_lost_something(folder)
        test_while_a_snapshot_is_written(folder)
    return 0


sys.exit(main())
