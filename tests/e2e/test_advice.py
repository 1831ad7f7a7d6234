#!/usr/bin/env python3
"""A real job with something to find: the advice names it and, applied, brings what it said."""
import json
import os
import re
import shutil
import subprocess
import tempfile

BUILD = os.environ["LAPWING_BUILD_DIR"]
SOURCE = os.environ["LAPWING_SOURCE_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
PYTHON = os.environ.get("LAPWING_PYTHON", os.path.join(SOURCE, ".venv/bin/python3"))
JOB = os.path.join(SOURCE, "tests", "e2e", "advice_job.py")
STEPS = 24
WRONG = {"HOROVOD_CYCLE_TIME": "150", "HOROVOD_FUSION_THRESHOLD": "134217728"}  # 50 ms, time dilated by 3
MAX_SPREAD = 0.02  # two runs of one setting that differ by more: measured once more


def run_job(settings, record_to=None, steps=STEPS):
    """Median step, seconds, as the job itself measures it."""
    environment = {**os.environ, "PATH": os.path.dirname(PYTHON) + ":" + os.environ["PATH"], "OMP_NUM_THREADS": "1", **settings}
    command = ["horovodrun", "--gloo", "-np", "2", PYTHON, JOB, str(steps)]
    if record_to:
        command = [LAPWING, "record", "--quiet", "-o", record_to, "--", *command]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    found = re.search(r'\{"median_s": [0-9.]+\}', done.stdout)  # horovodrun puts "[1,0]<stdout>:" in front
    assert done.returncode == 0 and found, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
    return json.loads(found[0])["median_s"]


def lapwing(*arguments):
    done = subprocess.run([LAPWING, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 3), (arguments, done.returncode, done.stderr)
    return done.stdout


def agreeing(medians_s):
    """Mean of the two that agree best, and by how much they differ."""
    ordered = sorted(medians_s)
    a, b = min(zip(ordered, ordered[1:]), key=lambda pair: pair[1] - pair[0])
    return (a + b) / 2, b / a - 1


def a_cycle_that_is_too_long_is_found_and_the_gain_comes_true(path):
    recorded_s = run_job(WRONG, record_to=path)
    answer = json.loads(lapwing("advise", "--json", path))
    advice = {one["id"]: one for one in answer["advice"]}
    found = advice["horovod.fusion_cycle"]
    assert float(found["set"]["HOROVOD_CYCLE_TIME"]) < 75, found["set"]
    assert answer["advice"][0]["kind"] == "set"
    for one in answer["advice"]:
        assert one["gain_frac"]["low"] > 0, one
        assert (one["code"] is not None) == (one["kind"] in ("code", "training")), one
    assert answer["defaults"]["is_recorded"] is False

    settings = (WRONG, {**WRONG, **found["set"]})
    medians_s = ([], [])
    for _ in range(2):
        for which in (0, 1):
            medians_s[which].append(run_job(settings[which]))
    for which in (0, 1):
        if agreeing(medians_s[which])[1] > MAX_SPREAD:
            medians_s[which].append(run_job(settings[which]))
    before_s, after_s = medians_s
    gain = 1 - agreeing(after_s)[0] / agreeing(before_s)[0]
    gain_frac = found["gain_frac"]
    print(f"recorded {recorded_s * 1e3:.1f} ms; without lapwing {[round(s * 1e3, 1) for s in before_s]} ms, with {found['set']} "
          f"{[round(s * 1e3, 1) for s in after_s]} ms: gain {gain:.1%}, predicted {gain_frac['value']:.1%} "
          f"({gain_frac['low']:.1%} to {gain_frac['high']:.1%})")
    assert gain_frac["low"] <= gain <= gain_frac["high"], (gain, gain_frac)
    return agreeing(before_s)[0]


def the_lines_of_code_run_and_passes_save_what_was_said(path, before_s):
    for one in json.loads(lapwing("advise", "--json", path))["advice"]:
        if not one["code"]:
            continue
        passes = re.search(r"backward_passes_per_step=(\d+)", one["code"])
        settings = {**WRONG, **one["set"], "JOB_OPTIMIZER": one["code"], "JOB_PASSES": passes[1] if passes else "1"}
        after_s, gain_frac = run_job(settings), one["gain_frac"]
        gain = 1 - after_s / before_s
        print(f"{one['id']}: {after_s * 1e3:.1f} ms a pass instead of {before_s * 1e3:.1f} ms: gain {gain:.1%}, predicted "
              f"{gain_frac['value']:.1%} ({gain_frac['low']:.1%} to {gain_frac['high']:.1%})")
        if passes:  # 16 bits: loopback is no network that bytes matter on, so only that the lines run
            assert gain_frac["low"] <= gain <= gain_frac["high"], (gain, gain_frac)


def the_story_of_each_is_told_in_80_columns(path):
    def prose(text):  # lines to paste are not wrapped
        return [line for line in text.splitlines() if '", "' not in line and "named_parameters" not in line]

    text = lapwing("advise", path)
    assert all(len(line) < 80 for line in prose(text)), max(prose(text), key=len)
    ids = re.sub(r"\s+", " ", text.split("by --explain ID:")[1]).split()
    assert "horovod.fusion_cycle" in ids and "sensitivity" in ids, ids
    for name in ids:
        story = lapwing("advise", "--explain", name, path)
        for title in ("Numbers it stands on", "What the model assumes", "What could make it wrong", "How to check it"):
            assert title in story, (name, title)
        assert all(len(line) < 80 for line in prose(story)), (name, max(prose(story), key=len))
        explained = json.loads(lapwing("advise", "--json", "--explain", name, path))["explain"]
        assert explained["id"] == name and explained["assumes"]
    print(f"{len(ids)} stories: {' '.join(ids)}")


def main():
    folder = tempfile.mkdtemp(prefix="lapwing-advice-")
    try:
        path = os.path.join(folder, "run.lapwing")
        before_s = a_cycle_that_is_too_long_is_found_and_the_gain_comes_true(path)
        the_lines_of_code_run_and_passes_save_what_was_said(path, before_s)
        the_story_of_each_is_told_in_80_columns(path)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
