#!/usr/bin/env python3
"""What users get wrong around `record`, `info` and `salvage`: one clear line, the documented exit code, and the
job's own output and exit code untouched. Mounts live in a mount namespace of this script."""
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time

import jsonschema

BUILD = os.environ["LAPWING_BUILD_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
LIBRARY = os.path.join(BUILD, "lib", "liblapwing.so")
PRODUCER = os.path.join(BUILD, "tests", "producer")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("LAPWING_") and k != "LD_PRELOAD"}
JOB = ["/bin/sh", "-c", "echo to stdout; echo to stderr >&2; exit 6"]


def lapwing(*arguments, folder=None, **environment):
    return subprocess.run([LAPWING, *arguments], cwd=folder, capture_output=True, text=True, timeout=60,
                          env={**ENVIRONMENT, **environment})


def one_line(done, code, *words):
    """Failed with @code and exactly one line on stderr that holds all of @words; nothing on stdout."""
    assert done.returncode == code, (done.args, done.returncode, done.stdout, done.stderr)
    assert done.stdout == "", done.stdout
    lines = done.stderr.split("Try `")[0].splitlines()  # argp adds where to look for help
    assert len(lines) == 1 and lines[0].startswith("lapwing"), done.stderr
    for word in words:
        assert word in lines[0], (word, lines[0])
    print("   ", lines[0])


def job_is_untouched(done, own_lines=1):
    """JOB's output and exit code, plus @own_lines of ours on stderr."""
    assert done.returncode == 6, (done.returncode, done.stderr)
    assert done.stdout == "to stdout\n", done.stdout
    lines = done.stderr.splitlines()
    assert lines.count("to stderr") == 1 and len(lines) == 1 + own_lines, done.stderr
    return [line for line in lines if line != "to stderr"]


def make_run(folder, name="good.lapwing"):
    path = os.path.join(folder, name)
    done = lapwing("record", "-q", "-o", path, "--", PRODUCER, "-n", "2000", "-r", "65536")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return path


def own_ring_dirs():
    return {line.split()[0] for line in lapwing("salvage").stdout.splitlines() if line.startswith("/")}


def test_info(folder):
    good = make_run(folder)
    done = lapwing("info", "--json", good)
    assert done.returncode == 0, done
    jsonschema.validate(json.loads(done.stdout), json.loads(lapwing("info", "--json-schema").stdout))
    run = json.loads(done.stdout)["runs"][0]
    assert run["closed"] and run["n_lost"] == 0 and run["exit_code"] == 0 and run["rows"]["ready"] > 600, run
    data = open(good, "rb").read()

    def broken(name, content):
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    one_line(lapwing("info", os.path.join(folder, "none.lapwing")), 1, "none.lapwing", "No such file")
    one_line(lapwing("info", folder), 1, folder, "is a folder")
    one_line(lapwing("info", broken("cut.lapwing", data[:len(data) // 3])), 1, "cut.lapwing", "damaged")
    one_line(lapwing("info", broken("stub.lapwing", data[:3000])), 1, "stub.lapwing")
    one_line(lapwing("info", broken("noise.lapwing", data[:8192] + b"\xa5" * (len(data) - 8192))), 1, "noise.lapwing", "damaged")
    one_line(lapwing("info", broken("text.lapwing", b"chapter one: it was a dark and stormy night " * 50)), 1, "not a lapwing run")
    one_line(lapwing("info", broken("empty.lapwing", b"")), 1, "empty.lapwing", "not a lapwing run")
    foreign = os.path.join(folder, "foreign.db")
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE accounts(name)")
    one_line(lapwing("info", foreign), 1, "another program")
    newer = broken("newer.lapwing", data)
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 999")
    one_line(lapwing("info", newer), 1, "newer lapwing", "update lapwing")
    one_line(lapwing("info"), 2, "which run file")
    # several: the good one is still shown
    done = lapwing("info", good, foreign)
    assert done.returncode == 1 and "complete" in done.stdout, done
    # a medium that cannot be written
    media = os.path.join(folder, "media")
    os.mkdir(media)
    mount(media, "size=8m")
    make_run(media)
    mount(media, "remount,ro")
    done = lapwing("info", os.path.join(media, "good.lapwing"))
    assert done.returncode == 0 and "complete" in done.stdout, done.stderr
    one_line(lapwing("record", "-o", os.path.join(media, "new.lapwing"), "--", *JOB), 1, "new.lapwing", "Read-only file system")


def test_before_the_job(folder):
    """record's own mistakes are found before the job starts: it does not run."""
    before = own_ring_dirs()
    marker = os.path.join(folder, "ran")
    job = ["/bin/sh", "-c", f"touch {marker}"]
    one_line(lapwing("record", "-o", f"{folder}/no/such/run.lapwing", "--", *job), 1, "no/such/run.lapwing", "folder does not exist")
    precious = os.path.join(folder, "thesis.txt")
    with open(precious, "w") as file:
        file.write("a year of work\n" * 100)
    one_line(lapwing("record", "-o", precious, "--", *job), 1, "thesis.txt", "not replaced")
    assert open(precious).read() == "a year of work\n" * 100
    one_line(lapwing("record", "-o", folder, "--", *job), 1, folder, "is a folder")
    one_line(lapwing("record", "-o", f"{folder}/run-%r.lapwing", "--", *job), 2, "%r", "no launcher")
    one_line(lapwing("record", "-o", f"{folder}/run-%z.lapwing", "--", *job), 2, "%z")
    one_line(lapwing("record"), 2, "which command")
    one_line(lapwing("record", "--ring-records", "1000", "--", *job), 2, "power of two")
    one_line(lapwing("record", "--hook", "mpi", "--nonsense", "--", *job), 2, "nonsense")
    one_line(lapwing("record", "--hooks", "mpi,-sockets", "--", *job), 2, "--hooks mpi,-sockets", "names are")
    one_line(lapwing("record", "--", "no-such-command-here"), 127, "no-such-command-here", "not found")
    one_line(lapwing("record", "--", f"{folder}/no/such/command"), 127, "not found")
    one_line(lapwing("record", "--", precious), 126, "not an executable")
    one_line(lapwing("record", "--", folder), 126, folder)
    tiny = os.path.join(folder, "tiny")
    os.mkdir(tiny)
    mount(tiny, "size=64k")
    one_line(lapwing("record", "-o", f"{tiny}/run.lapwing", "--", *job), 1, "disk is full")
    assert os.listdir(tiny) == []
    assert not os.path.exists(marker)
    assert own_ring_dirs() == before, "nothing is left behind"


def test_output_and_exit_code(folder):
    done = lapwing("record", "-o", f"{folder}/run.lapwing", "--", *JOB)
    [line] = job_is_untouched(done)
    assert "nothing was recorded of any process" in line and "lapwing doctor" in line, line
    assert line.endswith("; counters are in it"), line
    done = lapwing("record", "--pcap=", "-o", f"{folder}/none.lapwing", "--", *JOB)
    assert done.returncode == 2 and "--pcap=: which device?" in done.stderr and not os.path.exists(f"{folder}/none.lapwing"), done
    assert lapwing("info", f"{folder}/run.lapwing").returncode == 0
    assert json.loads(lapwing("info", "--json", f"{folder}/run.lapwing").stdout)["runs"][0]["exit_code"] == 6
    job_is_untouched(lapwing("record", "-q", "-o", f"{folder}/run.lapwing", "--", *JOB), 0)
    # the default name, in the folder where it was started
    lapwing("record", "--", *JOB, folder=folder)
    assert os.path.exists(f"{folder}/run.lapwing")
    lapwing("record", "--", *JOB, folder=folder, OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2")
    assert os.path.exists(f"{folder}/run-1.lapwing")
    done = subprocess.run([LAPWING, "record", "-q", "-o", f"{folder}/run.lapwing", "cat", "-n"], input="a\nb\n", capture_output=True,
                          text=True, env=ENVIRONMENT)
    assert done.stdout == "     1\ta\n     2\tb\n" and done.stderr == "", done
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        done = lapwing("record", "-o", f"{folder}/run.lapwing", "--", "/bin/sh", "-c", f"kill -{int(number)} $$")
        assert done.returncode == 128 + number, done
    done = lapwing("record", "-o", f"{folder}/run.lapwing", "--", PRODUCER, "-n", "500", "-k", "-x", "9")
    assert done.returncode == 9 and "a process died" in done.stderr and done.stderr.count("\n") == 1, done
    assert lapwing("info", f"{folder}/run.lapwing").returncode == 3


def test_signals(folder):
    def start(script):
        process = subprocess.Popen([LAPWING, "record", "-q", "-o", f"{folder}/run.lapwing", "--", "/bin/sh", "-c", script],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True)
        assert process.stdout.readline() == "ready\n"
        return process

    for name, code in (("TERM", 31), ("HUP", 32), ("USR1", 33), ("INT", 34)):
        process = start(f"trap 'exit {code}' {name}; echo ready; while :; do sleep 0.02; done")
        process.send_signal(getattr(signal, "SIG" + name))
        _, errors = process.communicate(timeout=20)
        assert process.returncode == code and errors == "", (name, process.returncode, errors)
    # Ctrl-C: the whole group gets it; the run is closed all the same
    process = start("trap 'exit 35' INT; echo ready; while :; do sleep 0.02; done")
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 35 and errors == "", (process.returncode, errors)
    assert lapwing("info", f"{folder}/run.lapwing").returncode == 0
    # kill -9 of record is kill -9 of the job
    process = start("echo $$ > pid; echo ready; exec sleep 1000".replace("pid", f"{folder}/pid"))
    process.kill()
    process.wait()
    pid = int(open(f"{folder}/pid").read())
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().rsplit(")")[1].split()[0] != "Z":
        assert time.monotonic() < deadline, "the job outlives kill -9 of record"
        time.sleep(0.01)


def test_two_into_one_file(folder):
    path = f"{folder}/run.lapwing"
    first = subprocess.Popen([LAPWING, "record", "-o", path, "--", "/bin/sh", "-c", "echo ready; read line"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT)
    assert first.stdout.readline() == "ready\n"
    one_line(lapwing("record", "-o", path, "--", *JOB), 1, "run.lapwing", "another job", "%r")
    first.communicate("\n", timeout=20)
    assert first.returncode == 0
    assert lapwing("info", path).returncode == 0
    # together, as a launcher starts them: one of them gets it, whole
    for _ in range(10):
        job = ["/bin/sh", "-c", f"{PRODUCER} -n 3000 -r 8192; read line"]
        both = [subprocess.Popen([LAPWING, "record", "-o", path, "--", *job], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) for _ in range(2)]
        deadline = time.monotonic() + 20
        while all(one.poll() is None for one in both):  # the loser ends, the winner waits for us
            assert time.monotonic() < deadline, "both record into one file"
            time.sleep(0.005)
        said = [one.communicate("\n" if one.poll() is None else None, timeout=20) for one in both]
        winner, loser = sorted(zip(both, said), key=lambda pair: pair[0].returncode)
        assert (winner[0].returncode, loser[0].returncode) == (0, 1), said
        assert winner[1] == ("rank 0 published 3050 lost 0\n", f"lapwing: {path}: 1 rank(s), 3050 events, 0 lost\n"), winner[1]
        assert loser[1][0] == "" and "another job" in loser[1][1] and loser[1][1].count("\n") == 1, loser[1]


def test_full_disk(folder):
    """The disk fills while the job runs: the job goes on, the rings wait, salvage stores all of it elsewhere."""
    small = os.path.join(folder, "small")
    os.mkdir(small)
    mount(small, "size=1m")
    before = own_ring_dirs()
    done = lapwing("record", "-o", f"{small}/run.lapwing", "--", PRODUCER, "-n", "60000", "-r", "65536", "-u", "300", "-x", "4")
    assert done.returncode == 4, done
    assert done.stdout == "rank 0 published 60050 lost 0\n", done.stdout
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and "disk is full" in lines[0] and "lapwing salvage" in lines[0] and "-o ELSEWHERE" in lines[0], done.stderr
    print("   ", lines[0])
    [ring_dir] = own_ring_dirs() - before
    assert ring_dir in lines[0]
    done = lapwing("info", f"{small}/run.lapwing")
    assert done.returncode == 3 and "NOT CLOSED" in done.stdout, done  # what was written is readable
    one_line(lapwing("salvage", ring_dir), 1, "disk is full")
    done = lapwing("salvage", "-o", f"{folder}/all.lapwing", ring_dir)
    assert done.returncode == 0, done
    print("   ", done.stdout.strip())
    with sqlite3.connect(f"{folder}/all.lapwing") as db:
        assert db.execute("SELECT n_pushed, n_stored, n_lost FROM thread").fetchall() == [(60050, 60050, 0)]
        tables = ["ready", "batch_tensor", "batch", "cycle", "collective", "wait"]
        seqs = [s for table in tables for s, in db.execute(f'SELECT seq FROM "{table}"')]
        assert sorted(seqs) == list(range(50, 60050))
    assert own_ring_dirs() == before


def test_programs_that_cannot_be_traced(folder):
    static = os.path.join(folder, "static")
    source = os.path.join(folder, "static.c")
    with open(source, "w") as file:
        file.write('#include <stdio.h>\nint main(void) { puts("to stdout"); fputs("to stderr\\n", stderr); return 6; }\n')
    subprocess.run(["cc", "-static", "-o", static, source], check=True)
    lines = job_is_untouched(lapwing("record", "-o", f"{folder}/run.lapwing", "--", static), 2)
    assert "statically" in lines[0] and "nothing was recorded" in lines[1], lines
    print("   ", lines[0])
    privileged = os.path.join(folder, "privileged")
    subprocess.run(["cc", "-o", privileged, source], check=True)
    os.chmod(folder, 0o755)
    os.chmod(privileged, stat.S_ISUID | 0o755)
    lines = job_is_untouched(lapwing("record", "-o", f"{folder}/run.lapwing", "--", privileged), 2)
    assert "LD_PRELOAD" in lines[0], lines
    print("   ", lines[0])


def test_path_that_cannot_be_preloaded(folder):
    for name in ("with space", "with:colon"):
        place = os.path.join(folder, name)
        for part in ("bin/lapwing", "bin/lapwingd", "lib/liblapwing.so"):
            os.makedirs(os.path.dirname(os.path.join(place, part)), exist_ok=True)
            shutil.copy(os.path.join(BUILD, part), os.path.join(place, part))
        program = os.path.join(place, "bin", "lapwing")
        done = subprocess.run([program, "record", "--", *JOB], cwd=folder, capture_output=True, text=True, env=ENVIRONMENT)
        one_line(done, 1, name, "space or a colon")  # and the job has not run
        done = subprocess.run([program, "doctor"], capture_output=True, text=True, env=ENVIRONMENT)
        assert done.returncode == 1 and "space or a colon" in done.stdout, done


def test_preload_is_kept(folder):
    source, library = os.path.join(folder, "other.c"), os.path.join(folder, "other.so")
    with open(source, "w") as file:
        file.write('#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void load(void)\n'
                   '{ if (getenv("OTHER_SAYS")) fprintf(stderr, "other preload here\\n"); }\n')
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    done = lapwing("record", "-q", "-o", f"{folder}/run.lapwing", "--", "/bin/sh", "-c",
                   'echo "$LD_PRELOAD"; echo "$LAPWING_OUT"; OTHER_SAYS=1 /bin/true', LD_PRELOAD=library)
    assert done.returncode == 0 and done.stderr == "other preload here\n", done.stderr
    assert done.stdout == f"{library}:{LIBRARY}\n{folder}/run.lapwing\n", done.stdout
    # the collector is not traced itself, and whatever else is preloaded stays out of it
    done = lapwing("record", "-q", "-o", f"{folder}/run.lapwing", "--", PRODUCER, LD_PRELOAD=library, OTHER_SAYS="1")
    assert done.returncode == 0, done


def test_salvage(folder):
    one_line(lapwing("salvage", f"{folder}/none"), 1, "none", "No such file")
    path = os.path.join(folder, "file")
    open(path, "w").close()
    one_line(lapwing("salvage", path), 1, "not a ring directory")
    one_line(lapwing("salvage", "a", "b"), 2, "one directory")
    # any other directory: refused, and not touched
    home = os.path.join(folder, "home")
    os.mkdir(home)
    with open(os.path.join(home, "letter"), "w") as file:
        file.write("dear\n")
    one_line(lapwing("salvage", home), 1, "home", "not a ring directory")
    assert os.listdir(home) == ["letter"]


def mount(path, options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)


def main():
    if "--inside" not in sys.argv:  # mounts in a namespace of our own: nothing to clean up
        unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
        return subprocess.run([*unshare, sys.executable, __file__, "--inside"]).returncode
    for place in ("/dev/shm", "/tmp"):  # ring directories of other jobs are not ours to count
        if not os.path.abspath(__file__).startswith(place + "/"):  # a checkout in /tmp must stay visible
            mount(place, "size=512m")
    tests = [test_info, test_before_the_job, test_output_and_exit_code, test_signals, test_two_into_one_file, test_full_disk,
             test_programs_that_cannot_be_traced, test_path_that_cannot_be_preloaded, test_preload_is_kept, test_salvage]
    for test in tests:
        print(test.__name__[5:])
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(folder)
            finally:
                for name in ("media", "tiny", "small"):
                    subprocess.run(["umount", "-q", os.path.join(folder, name)], capture_output=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
