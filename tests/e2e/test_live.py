#!/usr/bin/env python3
"""`lapwing live` on real jobs: in the middle of one, attached, to its end, with a rank or the collector killed."""
import atexit
import contextlib
import glob
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

SOURCE = os.environ.get("LAPWING_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPWING_BUILD_DIR") or os.path.join(SOURCE, "build")
PYTHON = os.environ.get("LAPWING_PYTHON") or os.path.join(SOURCE, ".venv", "bin", "python3")
LAPWING = os.path.join(BUILD, "bin", "lapwing")
LAPWINGD = os.path.join(BUILD, "bin", "lapwingd")
PRODUCER = os.path.join(BUILD, "tests", "producer")
JOB = os.path.join(SOURCE, "examples", "train_horovod.py")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("LAPWING_", "HOROVOD_")) and k != "LD_PRELOAD"}
ENVIRONMENT.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1", LANG="C.UTF-8",
                   TERM="xterm-256color", XDG_CONFIG_HOME=tempfile.mkdtemp(prefix="lapwing-live-config-"))
atexit.register(shutil.rmtree, ENVIRONMENT["XDG_CONFIG_HOME"], ignore_errors=True)


def training(n_steps):
    return ["mpirun", "-np", "2", "--oversubscribe", "--mca", "btl", "self,vader,tcp", "--mca",
            "btl_vader_single_copy_mechanism", "none", PYTHON, JOB, "--steps", str(n_steps)]


def wait_for(what, is_so, patience_s=30):
    deadline = time.monotonic() + patience_s
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def query(path, sql):
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchall()
    except sqlite3.Error:
        return []


def ring_dir_of(path):
    for name in glob.glob("/dev/shm/lapwing-*/out"):
        with contextlib.suppress(OSError), open(name) as file:
            if file.read().strip() == path:
                return os.path.dirname(name)
    return None


def live(*arguments, cwd=None):
    return subprocess.run([LAPWING, "live", *arguments], capture_output=True, text=True, timeout=180, env=ENVIRONMENT, cwd=cwd)


def start(folder, command):
    """A job under `record`. Return: process, run file, ring directory, once it trains."""
    path = f"{folder}/run.lapwing"
    process = subprocess.Popen([LAPWING, "record", "-q", "-o", path, "--", *command], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    ring_dir = wait_for("a ring directory", lambda: ring_dir_of(path))
    wait_for("steps", lambda: query(path, "SELECT count(*) FROM batch HAVING count(*) > 100"), 90)
    return process, path, ring_dir


def test_in_the_middle_of_a_job(folder):
    job, path, ring_dir = start(folder, training(115))
    done = live("--dump", "--after", "4", "--attach", ring_dir)
    print(done.stdout)
    assert done.returncode == 0, done
    assert "2 of 2 ranks alive" in done.stdout and "following" in done.stdout
    assert re.search(r"step +[\d.]+ m?s +[\d.]+/s", done.stdout)
    assert re.search(r"exposed +[\d.]+ %", done.stdout)
    for rank in (0, 1):
        assert re.search(rf"^ +{rank} +\d+ +[\d.]+ m?s +[\d.]+ % +[\d.]+ [mun]?s .* runs", done.stdout, re.M), rank
    assert re.search(r"late +(rank|nobody)", done.stdout) and "advice" in done.stdout
    assert f"lapwing live --attach {ring_dir}` follows it again" in done.stderr
    # its keys: held, marked, a snapshot beside the command
    done = live("--dump", "--after", "1", "--attach", ring_dir, "--size", "120x40", "--keys", "m <Space> <Left> w", cwd=folder)
    assert "HELD, 0.5 s back" in done.stdout and "written: lapwing-live-" in done.stdout, done.stdout
    snapshot = glob.glob(f"{folder}/lapwing-live-*.lapwing")
    assert len(snapshot) == 1 and query(snapshot[0], "SELECT count(*) > 100 FROM batch") == [(1,)]
    assert not glob.glob(snapshot[0] + "-*"), "one file"
    # without arguments it is found; other jobs of this host may be there too
    done = live("--dump", "--after", "0.5", "--size", "200x60")
    assert path in done.stdout if "are being recorded on this host" in done.stdout else "ranks alive" in done.stdout, done
    # nothing was written into the run by looking at it
    assert query(path, "SELECT count(*) FROM step") == [(0,)]
    done = live("--dump", "--after", "150", "--attach", ring_dir, "--size", "120x40")
    assert done.returncode == 0 and f"the job has ended: this is the whole run, {path}" in done.stdout, done
    assert "follows it again" not in done.stderr
    assert job.wait(10) == 0
    assert query(path, "SELECT closed FROM run") == [(1,)] and os.listdir(folder).count("run.lapwing-wal") == 0
    assert query(path, "SELECT count(*) > 0 FROM step") == [(1,)], "the whole run was analysed"


def test_a_command_of_ones_own(folder):
    path = f"{folder}/own.lapwing"
    done = live("--dump", "--after", "150", "--size", "120x40", "-o", path, "--", "sh", "-c",
                f"echo to the screen; {PRODUCER} -n 3000 -u 10000 -r 1024 >/dev/null; exit 5")
    assert done.returncode == 5, done
    assert "the job has ended with exit code 5" in done.stdout, done.stdout
    assert "to the screen" not in done.stdout and "to the screen" in open(f"{path}.log").read()
    assert f"the command's output is in {path}.log" in done.stderr
    for command, code in ((["no-such-command"], 127), (["/etc/passwd"], 126)):
        done = live("--dump", "--", *command, cwd=folder)
        assert done.returncode == code and not done.stdout, done
    done = live("--dump", "-o", f"{folder}/short.lapwing", "--", "true")
    assert done.returncode == 0 and "the job goes on" not in done.stderr and done.stdout, done
    done = live("--dump", "-o", f"{folder}/no/such/folder.lapwing", "--", "true")
    assert done.returncode == 1 and not done.stdout and "No such file" in done.stderr, done
    done = live("--attach", f"{folder}/nothing", "--dump")
    assert done.returncode == 1 and "No such file" in done.stderr, done
    done = live("--attach", folder, "--", "true")
    assert done.returncode == 2, done
    done = live("--attach", folder)
    assert done.returncode == 1, done


def test_a_job_that_goes_on_when_the_screen_is_left(folder):
    path = f"{folder}/left.lapwing"
    done = live("--dump", "--after", "1", "-o", path, "--", PRODUCER, "-n", "2000", "-u", "100000", "-r", "1024")
    assert done.returncode == 0 and "the job goes on" in done.stderr, done
    again = re.search(r"`lapwing live --attach (\S+)`", done.stderr).group(1)
    done = live("--dump", "--after", "150", "--attach", again, "--size", "120x40")
    assert done.returncode == 0 and "the job has ended" in done.stdout, done
    assert query(path, "SELECT closed, exit_code FROM run") == [(1, 0)]


def test_only_ones_own_run_is_shown(folder):
    """Another job is being recorded into the file of that name, so the command is not recorded: its run is not shown."""
    path = f"{folder}/taken.lapwing"
    other = subprocess.Popen([LAPWING, "record", "-q", "-o", path, "--", PRODUCER, "-n", "100000", "-u", "50000", "-r", "1024"],
                             stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    try:
        wait_for("rows", lambda: query(path, "SELECT count(*) FROM ready HAVING count(*) > 10"))
        done = live("--dump", "-o", path, "--", "true")
        assert done.returncode == 1 and not done.stdout, done
        assert "the recording ended before it began" in done.stderr, done
    finally:
        other.terminate()
        other.wait(20)


def test_a_rank_is_killed(folder):
    job, path, ring_dir = start(folder, training(400))
    pid = query(path, "SELECT pid FROM process WHERE rank = 1")[0][0]
    screen = subprocess.Popen([LAPWING, "live", "--dump", "--after", "150", "--attach", ring_dir, "--size", "160x40"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    time.sleep(2)
    os.kill(pid, signal.SIGKILL)
    out, errors = screen.communicate(timeout=160)
    print(out.splitlines()[-1])
    assert "the job has ended; rank 1 died" in out, (out, errors)
    assert screen.returncode == 3, "data is incomplete"
    job.wait(10)
    assert ("died",) in query(path, "SELECT ended FROM process WHERE rank = 1")


def test_the_collector_is_killed(folder):
    """Nobody starts another one: the screen says so, and that salvage helps; then it does."""
    ring_dir, path = tempfile.mkdtemp(prefix="lapwing-test-", dir="/dev/shm"), f"{folder}/killed.lapwing"
    job = subprocess.Popen([PRODUCER, "-n", "100000", "-u", "20000", "-r", "4096"], stdout=subprocess.DEVNULL,
                           env={**ENVIRONMENT, "LAPWING_DIR": ring_dir})
    collector = subprocess.Popen([LAPWINGD, "--foreground", "--dir", ring_dir, "--out", path], env=ENVIRONMENT)
    wait_for("rows", lambda: query(path, "SELECT count(*) FROM ready HAVING count(*) > 100"))
    screen = subprocess.Popen([LAPWING, "live", "--dump", "--after", "6", "--attach", ring_dir, "--size", "160x40"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    time.sleep(1)
    collector.kill()
    collector.wait()
    out, errors = screen.communicate(timeout=30)
    assert screen.returncode == 3 and f"`lapwing salvage {ring_dir}`" in errors and "follows it again" not in errors, errors
    assert "NO COLLECTOR" in out and f"`lapwing salvage {ring_dir}`" in out, out
    job.kill()
    job.wait()
    subprocess.run([LAPWING, "salvage", ring_dir], check=True, timeout=30, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    assert query(path, "SELECT closed FROM run") == [(1,)] and not os.path.exists(ring_dir)


class Terminal:
    """A real one, in tmux."""

    def __init__(self, command, width=100, height=30):
        self.name = f"lapwing-{os.getpid()}-{time.monotonic_ns()}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height),
                  command + "; echo left with $?; stty -a; exec sleep 60")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-L", self.name, *words], capture_output=True, text=True, env=ENVIRONMENT, timeout=10).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def shows(self, text, patience_s=30):
        try:
            wait_for(text, lambda: re.search(text, self.screen()), patience_s)
        except AssertionError as error:
            raise AssertionError(f"{text!r} is not on:\n{self.screen()}") from error

    def close(self):
        self.tmux("kill-server")


def test_a_real_screen(folder):
    """From start to post-mortem, with keys and a resize; the terminal is given back."""
    path = f"{folder}/screen.lapwing"
    with contextlib.closing(Terminal(f"{LAPWING} live -o {path} -- {' '.join(training(90))}")) as terminal:
        terminal.shows("advice +after [1-5] more step|advice +\\w+")
        terminal.shows("2 of 2 ranks alive  following")
        terminal.shows(r"\d+ +[\d.]+ m?s +[\d.]+ %.*runs")
        terminal.keys("m")
        terminal.shows("mark 1, ")
        terminal.keys("Space")
        terminal.shows(r"HELD\b")
        held = [re.sub(r"quiet \d+ s", "runs", line) for line in terminal.screen().splitlines()[2:10]]
        time.sleep(1)
        assert held == terminal.screen().splitlines()[2:10], "a held picture stays"
        terminal.keys("Left", "Left")
        terminal.shows(r"HELD, \d\.\d s back")
        terminal.tmux("resize-window", "-x", "80", "-y", "24")
        terminal.shows(r"\[1over\]")
        terminal.keys("Space")
        terminal.shows("following")
        terminal.keys("-")
        terminal.shows(r"\[-log\]")
        terminal.shows(r"as of \d+ s ago|after the run|reading")
        terminal.keys("1")
        terminal.keys("Space")  # held beyond the end
        terminal.shows(r"HELD.*; the job has ended", 120)
        terminal.shows("this picture is held: Space shows the whole run")
        terminal.keys("Space")
        terminal.shows("the job has ended: this is the whole run; m goes to its marks")
        terminal.keys("m")
        terminal.shows("mark 1 of 1, .* step [0-9]+")
        terminal.shows(r"\[2time\]")
        terminal.keys("q")
        terminal.shows("left with 0")
        terminal.shows(" echo ")  # stty: as it was
    assert query(path, "SELECT closed FROM run") == [(1,)]
    assert "median step" in open(f"{path}.log").read()


def test_attached_on_a_real_screen_while_a_rank_is_killed(folder):
    """In the middle of a job; the screen says who died and that the recorder goes on, then what is left."""
    job, path, ring_dir = start(folder, training(400))
    pid = query(path, "SELECT pid FROM process WHERE rank = 1")[0][0]
    with contextlib.closing(Terminal(f"{LAPWING} live --attach {ring_dir}", width=160, height=40)) as terminal:
        terminal.shows("2 of 2 ranks alive  following")
        terminal.keys("Space")
        terminal.shows("HELD")
        os.kill(pid, signal.SIGKILL)
        terminal.shows(rf"rank 1 died \(pid {pid} on \S+ was killed or crashed\)")
        terminal.shows("this picture is held: Space shows the whole run")
        terminal.keys("Space")
        terminal.shows("the job has ended; rank 1 died")
        terminal.keys("q")
        terminal.shows("left with 3")
    job.wait(10)


def test_the_recorder_is_killed_on_a_real_screen(folder):
    """kill -9 of `lapwing record` kills its command; the collector keeps what there is, and the screen says so."""
    job, path, ring_dir = start(folder, training(400))
    with contextlib.closing(Terminal(f"{LAPWING} live --attach {ring_dir}", width=160, height=40)) as terminal:
        terminal.shows("2 of 2 ranks alive  following")
        job.kill()
        job.wait(10)
        terminal.shows("`lapwing record` was killed before: what was recorded is kept")
        terminal.keys("q")
        terminal.shows("left with [03]")
    assert query(path, "SELECT closed FROM run") == [(1,)]


def test_deaths_around_a_job_that_goes_on(folder):
    """A collector that is killed has a successor; what a killed recorder's command had started runs on, and is recorded on."""
    path = f"{folder}/script.lapwing"
    job = subprocess.Popen([LAPWING, "record", "-q", "-o", path, "--", "sh", "-c", f"{PRODUCER} -n 100000 -u 50000 -r 1024; true"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    ring_dir = wait_for("a ring directory", lambda: ring_dir_of(path))
    pid = wait_for("a process", lambda: query(path, "SELECT pid FROM process"))[0][0]
    with contextlib.closing(Terminal(f"{LAPWING} live --attach {ring_dir} 2>{folder}/word", width=160)) as terminal:
        terminal.shows("following")
        time.sleep(1.5)  # it has asked who collects
        children = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(job.pid)], capture_output=True, text=True).stdout
        os.kill(int(re.search(r"(\d+) lapwingd", children).group(1)), signal.SIGKILL)
        terminal.shows(r"the collector \(lapwingd, pid \d+\) was killed; another \(pid \d+\) goes on")
        job.kill()
        job.wait(10)
        terminal.shows("`lapwing record` was killed, and the command that it had started; what that had started may run on")
        terminal.shows("following")
        terminal.keys("C-c")  # for the screen, not for the job; it says where that goes on
        wait_for("a word", lambda: f"the job goes on, into {path}: `lapwing live --attach" in open(f"{folder}/word").read())
    n_before = query(path, "SELECT sum(n_stored) FROM thread")
    wait_for("more records", lambda: query(path, "SELECT sum(n_stored) FROM thread") > n_before)
    os.kill(pid, signal.SIGTERM)
    wait_for("the end", lambda: query(path, "SELECT closed FROM run") == [(1,)])


def test_the_remembered_view(folder):
    """What was looked at last opens the whole run, but not before the job ends; watching a job changes nothing."""
    settings = f"{ENVIRONMENT['XDG_CONFIG_HOME']}/lapwing/tui"
    os.makedirs(os.path.dirname(settings), exist_ok=True)
    with open(settings, "w") as file:
        file.write("view=ranks\n")
    job = f"{PRODUCER} -n 6000 -u 50000 -r 1024"
    with contextlib.closing(Terminal(f"{LAPWING} live -o {folder}/a.lapwing -- {job}")) as terminal:
        terminal.shows(r"\[1over")
        terminal.keys("q")
        terminal.shows("left with 0")
    assert open(settings).read() == "view=ranks\n"
    with contextlib.closing(Terminal(f"{LAPWING} live -o {folder}/b.lapwing -- {job}")) as terminal:
        terminal.shows(r"\[1over")
        terminal.shows(r"\[5rank")
        terminal.keys("3")
        terminal.keys("q")
        terminal.shows("left with")
    assert open(settings).read() == "view=phases\n"


def test_several_jobs(folder):
    """A list of them: arrows and Enter. It is of now: one that comes appears, one that ends is marked."""
    jobs = [subprocess.Popen([LAPWING, "record", "-q", "-o", f"{folder}/job{i}.lapwing", "--", PRODUCER, "-n", "100000", "-u",
                              "50000", "-r", "1024"], stdout=subprocess.DEVNULL, env=ENVIRONMENT) for i in range(2)]
    try:
        for i in range(2):
            wait_for("rings", lambda name=f"{folder}/job{i}.lapwing": ring_dir_of(name))
        with contextlib.closing(Terminal(f"{LAPWING} live", width=160)) as terminal:
            terminal.shows("jobs are being recorded on this host")
            lines = terminal.screen()
            assert f"{folder}/job0.lapwing" in lines and f"{folder}/job1.lapwing" in lines, lines
            jobs.append(subprocess.Popen([LAPWING, "record", "-q", "-o", f"{folder}/late.lapwing", "--", PRODUCER, "-n",
                                          "64", "-u", "2000000", "-r", "1024"], stdout=subprocess.DEVNULL, env=ENVIRONMENT))
            terminal.shows(f"{folder}/late.lapwing")
            terminal.shows(r"\d+ +ended +\d+ of \d+ .*producer")
            terminal.keys("G", "Enter")  # the one that has ended: its run
            terminal.shows("the job has ended: this is the whole run")
            terminal.keys("q")
            terminal.shows("left with")
        with contextlib.closing(Terminal(f"{LAPWING} live", width=160)) as terminal:
            terminal.shows("jobs are being recorded on this host")
            terminal.keys("Down", "Up", "Enter")
            terminal.shows("1 of 1 ranks? alive|following")
            terminal.keys("q")
            terminal.shows("the job goes on")
            terminal.shows("left with 0")
    finally:
        for job in jobs:
            job.terminate()
            job.wait(20)


def end_what_is_left(folder):
    """Of a test that failed: its jobs name its folder, and would slow the next test down."""
    for name in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError), open(name, "rb") as file:
            if folder.encode() in file.read():
                os.kill(int(name.split("/")[2]), signal.SIGTERM)


def main():
    only = sys.argv[1:]
    for name, test in list(globals().items()):
        if not name.startswith("test_") or (only and name not in only):
            continue
        folder = tempfile.mkdtemp(prefix="lapwing-live-")
        started = time.monotonic()
        try:
            test(folder)
        finally:
            end_what_is_left(folder)
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{name}: {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
