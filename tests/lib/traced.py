"""Run a command with the tracer preloaded and a ring directory of its own, and give back what it recorded."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rings  # noqa: E402

BUILD = pathlib.Path(os.environ["LAPWING_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["LAPWING_SOURCE_DIR"])
LIBRARY = str(BUILD / "lib" / "liblapwing.so")


def program(name):
    """Path of a C program built beside the tests."""
    return str(BUILD / "tests" / name)


class Traced:
    """code, stdout, stderr and processes ({pid: see rings.read_processes}) of one command."""

    def __init__(self, code, stdout, stderr, processes):
        self.code, self.stdout, self.stderr, self.processes = code, stdout, stderr, processes

    def only(self):
        """The process, when exactly one was traced."""
        assert len(self.processes) == 1, f"{len(self.processes)} traced processes\n{self.stderr}"
        return next(iter(self.processes.values()))


def run_all(jobs, hooks=None, timeout=100):
    """Run several (command, further environment) at once, each with its own rings. Return: a Traced each."""
    started, done = [], []
    try:
        for command, extra in jobs:
            directory = tempfile.mkdtemp(prefix="lapwing-test-", dir="/dev/shm")
            env = {**os.environ, "LD_PRELOAD": LIBRARY, "LAPWING_DIR": directory, **extra}
            env.pop("LAPWING_HOOKS", None)
            if hooks:
                env["LAPWING_HOOKS"] = hooks
            started.append((subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE,
                                             stderr=subprocess.PIPE), directory))
        for process, directory in started:
            stdout, stderr = process.communicate(timeout=timeout)
            done.append(Traced(process.returncode, stdout, stderr, rings.read_processes(directory)))
    finally:
        for process, directory in started:
            if process.poll() is None:
                process.kill()
                process.wait()
            shutil.rmtree(directory, ignore_errors=True)
    return done


def run(command, hooks=None, timeout=100, **extra):
    return run_all([(command, extra)], hooks, timeout)[0]
