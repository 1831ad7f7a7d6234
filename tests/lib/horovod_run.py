"""Start a Horovod job of two ranks under lapwing's tracer, or without it, and read what both sides say."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import rings

SOURCE = os.environ.get("LAPWING_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("LAPWING_BUILD_DIR") or os.path.join(SOURCE, "build")
PYTHON = os.environ.get("LAPWING_PYTHON") or os.path.join(SOURCE, ".venv", "bin", "python3")
LIBRARY = os.path.join(BUILD, "lib", "liblapwing.so")
JOB = os.path.join(SOURCE, "tests", "e2e", "horovod_job.py")
N_RANKS = 2


class Run:
    """What one job left: code, output (lines, sorted), ranks (as told by the job), traced (by rank).

    Traced by the library alone, or with @run_file under `lapwing record` with @options: then there are no rings
    to read. @before: words in front of the job's own command, on every rank.
    """

    def __init__(self, launcher, mode, env=None, traced=True, python=None, run_file=None,
                 timeout_s=100, before=(), options=()):
        self.directory = tempfile.mkdtemp(prefix="lapwing-test-")
        self.rings = tempfile.mkdtemp(prefix="lapwing-rings-", dir="/dev/shm")
        python = python or PYTHON
        settings = dict(env or {})
        if traced and not run_file:
            settings.update(LD_PRELOAD=LIBRARY, LAPWING_DIR=self.rings, LAPWING_RING_RECORDS="262144")
        job = [python, JOB, mode, os.path.join(self.directory, "told")]
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("LAPWING_", "HOROVOD_"))}
        clean.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1",
                     PATH=os.path.dirname(python) + ":" + clean.get("PATH", "/usr/bin:/bin"))
        words = [f"{key}={value}" for key, value in settings.items()]
        if launcher == "mpi":
            command = ["mpirun", "-np", str(N_RANKS), "--oversubscribe", "--mca", "btl", "self,vader,tcp", "--mca",
                       "btl_vader_single_copy_mechanism", "none", "env", *words, *before, *job]
        else:
            command = ["horovodrun", "--gloo", "-np", str(N_RANKS), "env", *words, *before, *job]
        if run_file:
            command = [os.path.join(BUILD, "bin", "lapwing"), "record", "-q", *options, "-o", run_file, "--", *command]
        done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=timeout_s)
        self.code, self.errors = done.returncode, done.stderr
        self.output = sorted(line.split(">:", 1)[-1] for line in done.stdout.splitlines())
        self.ranks = {}
        for path in glob.glob(os.path.join(self.directory, "told.*.json")):
            with open(path) as file:
                told = json.load(file)
            self.ranks[told["rank"]] = told
        self.traced = rings.read_job(self.rings)

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.rmtree(self.rings, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if value is not None:
            sys.stderr.write(self.errors[-1500:])
        self.close()


def ready_of(process):
    """{(batch, position): READY event}: the newest earlier enqueue of the same object, consumed once."""
    result, waiting = {}, {}
    for event in process["events"]:  # in order of time
        if event["kind"] == "READY":
            waiting.setdefault(event["object"], []).append(event)
        elif event["kind"] == "BATCH_TENSOR" and event["object"] and waiting.get(event["object"]):
            result[event["batch"], event["op"]] = waiting[event["object"]].pop()
    return result
