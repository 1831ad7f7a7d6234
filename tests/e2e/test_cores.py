#!/usr/bin/env python3
"""Two ranks of a real Horovod job on one core: the run holds what they waited for it, and every answer says so."""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

import jsonschema

SOURCE, BUILD = os.environ["LAPWING_SOURCE_DIR"], os.environ["LAPWING_BUILD_DIR"]
PYTHON = os.environ.get("LAPWING_PYTHON", os.path.join(SOURCE, ".venv/bin/python3"))
LAPWING = os.path.join(BUILD, "bin", "lapwing")
SPEC = {"forward_us": 0, "parameter_us": 0, "batch": 16}  # of tests/rig/worker.py: a network and nothing but its arithmetic
N_STEPS = 50


def lapwing(*arguments):
    return subprocess.run([LAPWING, *arguments], capture_output=True, text=True, timeout=60)


def ask(verb, *arguments):
    done = lapwing(verb, *arguments, "--json")
    assert done.returncode in (0, 3), done.stderr
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, json.loads(lapwing(verb, "--json-schema").stdout))
    return answer


def record(folder):
    path, spec = os.path.join(folder, "run.lapwing"), os.path.join(folder, "job.json")
    with open(spec, "w") as file:
        json.dump(SPEC, file)
    core = str(min(os.sched_getaffinity(0)))
    done = subprocess.run([LAPWING, "record", "--quiet", "-o", path, "--", "taskset", "-c", core, "bash", f"{SOURCE}/tests/rig/run.sh",
                           "local", "2", spec, str(N_STEPS)], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "LAPWING_PYTHON": PYTHON, "HOROVOD_CYCLE_TIME": "5"})
    assert done.returncode == 0, done.stderr
    return path, core


def check_rows(path, core):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        assert db.execute("SELECT DISTINCT allowed, n_allowed FROM cores").fetchall() == [(core, 1)]
        used = db.execute("SELECT rank, used_cores, waited_cores FROM v_cpu WHERE rank IS NOT NULL ORDER BY rank").fetchall()
        assert [row[0] for row in used] == [0, 1] and 0.05 < sum(row[1] for row in used) < 1.05, used
        assert all(row[2] > 0.1 for row in used), used
        shrunk = db.execute("SELECT count(*) FROM cpu_sample a JOIN cpu_sample b ON a.process_id = b.process_id AND a.thread_id IS b.thread_id"
                            " WHERE a.at_ns < b.at_ns AND (a.user_ns + a.system_ns > b.user_ns + b.system_ns OR a.waited_ns > b.waited_ns)").fetchone()
        assert shrunk == (0,), "totals of a process only grow"


def check_answers(path):
    report = ask("report", path)
    (cores,) = report["cores"]
    assert cores["n_cores"] == 1 and cores["n_known"] == 2 and 0.05 < cores["used_cores"] < 1.05, cores
    # two that compute all the time: each has the core half of it, or less where others are on it
    assert cores["is_contended"] and 0.15 < cores["core_wait_frac"] < 1, cores
    text = " ".join(lapwing("report", path).stdout.split())
    assert "cores contended: ranks on host" in text and "computing waited for one in" in text, text
    assert "cores contended" in lapwing("tui", "--dump", "log", "--size", "120x40", path).stdout
    same, other = ask("predict", path), ask("predict", path, "--cycle-ms", "1")
    assert "cores" not in same["error_ns"] and "contended" not in same["note"], same
    wait_ns = cores["core_wait_frac"] * report["steps"]["step_ns"]["value"]
    assert other["error_ns"]["cores"] > wait_ns and other["step_ns"]["how"] == "assumed", other
    assert other["step_ns"]["high"] - other["step_ns"]["value"] > other["error_ns"]["cores"]
    more = ask("predict", path, "--ranks", "4")
    assert "other ranks would not compute as the recorded ones do" in more["note"], more["note"]
    assert more["step_ns"]["high"] > 2 * more["step_ns"]["value"], more["step_ns"]
    advice = ask("advise", path)
    for one in advice["advice"]:
        assert one["kind"] != "set" or one["gain_frac"]["low"] > 0, one
    return cores


def main():
    with tempfile.TemporaryDirectory() as folder:
        path, core = record(folder)
        check_rows(path, core)
        cores = check_answers(path)
        print(f"2 ranks on one core used {cores['used_cores']:.2f} of it, and computing waited for it in {cores['core_wait_frac']:.0%} of a step")


if __name__ == "__main__":
    sys.exit(main())
