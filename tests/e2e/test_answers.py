#!/usr/bin/env python3
"""report, advise and predict on one real run: valid JSON, figures that add up, the same bytes twice, and one clear
line with the documented exit code for a file that cannot be used."""
import contextlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import tempfile
import xml.etree.ElementTree

import jsonschema

BUILD = os.environ["LAPWING_BUILD_DIR"]
SOURCE = os.environ["LAPWING_SOURCE_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
PYTHON = os.environ.get("LAPWING_PYTHON", os.path.join(SOURCE, ".venv/bin/python3"))
STEPS = 30


def lapwing(*arguments, code=0):
    done = subprocess.run([LAPWING, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (arguments, done.returncode, done.stdout[-500:], done.stderr[-500:])
    return done


def record(folder):
    environment = {**os.environ, "PATH": os.path.dirname(PYTHON) + ":" + os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    path = os.path.join(folder, "run.lapwing")
    subprocess.run([LAPWING, "record", "-o", path, "--", "horovodrun", "--gloo", "-np", "2", PYTHON,
                    f"{SOURCE}/examples/train_horovod.py", "--steps", str(STEPS)], env=environment, check=True, timeout=120,
                   stdout=subprocess.DEVNULL)
    return path


def validated(verb, *arguments):
    answer = json.loads(lapwing(verb, *arguments, "--json").stdout)
    schema = json.loads(lapwing(verb, "--json-schema").stdout)
    for one in answer if isinstance(answer, list) else [answer]:
        jsonschema.validate(one, schema if not isinstance(answer, list) or schema.get("type") != "array" else schema["items"])
    return answer


def test_report(path):
    report = validated("report", path)
    assert report["run"]["frameworks"] == ["horovod"] and report["run"]["transports"] == ["gloo"]
    assert report["run"]["n_ranks"] == 2 and [r["rank"] for r in report["ranks"]] == [0, 1]
    assert report["steps"]["n"] + report["steps"]["n_excluded"] == STEPS, report["steps"]
    for rank in report["ranks"]:
        parts = sum(rank[name]["value"] for name in ("compute_ns", "exposed_ns", "idle_ns"))
        assert abs(parts - rank["step_ns"]["value"]) < 1, (parts, rank["step_ns"])
        assert abs(rank["hidden_ns"]["value"] + rank["exposed_ns"]["value"] - rank["comm_ns"]["value"]) < 1
        by_phase = sum(figure["value"] for figure in rank["exposed_by_phase"].values())
        assert abs(by_phase - rank["exposed_ns"]["value"]) < 1, (by_phase, rank["exposed_ns"])
    assert report["scaling"]["sf"]["value"] is None
    assert any("scaling.sf" in d["text"] and "--baseline" in d["text"] for d in report["diag"])
    step_ns = report["steps"]["step_ns"]["value"]
    bare = lapwing("report", "--baseline", "117", path, code=2)
    assert "of which unit" in bare.stderr and not bare.stdout, bare
    with_baseline = validated("report", "--baseline", f"{step_ns / 2e6:.3f}ms", path)
    assert abs(with_baseline["scaling"]["sf"]["value"] - 0.5) < 1e-3
    text = lapwing("report", "--steps", path).stdout
    assert all(len(line) < 80 for line in text.splitlines()), max(text.splitlines(), key=len)
    first = text.index("A step takes")
    assert first < text.index("Exposed communication:") < text.index("To change:") < text.index("Where a step goes")
    assert lapwing("report", "--json", path).stdout == lapwing("report", "--json", path).stdout
    print(f"report: {step_ns / 1e6:.1f} ms a step, exposed {report['steps']['exposed_frac']['value']:.1%}; parts add up")


def nulls_are_explained(prediction):
    figures = {"step_ns": prediction["step_ns"], **{f"scaling.{k}": v for k, v in prediction["scaling"].items()}}
    for name, figure in figures.items():
        if None in figure.values():
            assert any(row["text"].startswith(name) for row in prediction["diag"]), (name, prediction["diag"])


def test_predict(path):
    recorded = validated("predict", path)
    report = json.loads(lapwing("report", "--json", path).stdout)
    measured = report["steps"]["step_ns"]["value"]
    for name in ("csf", "osf", "osf_f"):  # two verbs, one answer
        assert recorded["scaling"][name] == report["scaling"][name], (name, recorded["scaling"], report["scaling"])
    nulls_are_explained(recorded)
    # what the simulator says by itself: the printed prediction is corrected by just that error
    raw_ns = recorded["step_ns"]["value"] - recorded["replay"]["bias_ns"]
    error = raw_ns / measured - 1
    print(f"predict: simulated {raw_ns / 1e6:.1f} ms, measured {measured / 1e6:.1f} ms ({error:+.1%})")
    assert abs(error) < 0.1, error
    faster = validated("predict", "--compute-frac", "0.5", path)
    assert faster["step_ns"]["value"] < recorded["step_ns"]["value"]
    grid = validated("predict", "--grid", path)
    assert isinstance(grid, list) and len(grid) >= 9
    assert sum(cell["is_recorded"] for cell in grid) == 1, [cell["setting"] for cell in grid]
    for model in ("hvd_cycle", "osf_fifo", "osf_paper", "osf", "csf", "coarse", "fine"):
        other = validated("predict", "--model", model, "--bandwidth-frac", "2", path)
        nulls_are_explained(other)
        assert (other["step_ns"]["low"] is None) == (model != "hvd_cycle"), other
    asked = [("--num-groups", "3", "n_groups", 3), ("--backward-passes", "2", "n_passes", 2),
             ("--compress", "fp16", "wire_frac", 0.5), ("--balanced", None, "is_balanced", True)]
    for option, argument, key, value in asked:
        other = validated("predict", option, *([argument] if argument else []), path)
        assert other["setting"][key] == value and not other["is_recorded"], other["setting"]
        nulls_are_explained(other)
        factor = 2 if key == "n_passes" else 1  # a step of two passes; what is gained is of one
        gain = 1 - other["step_ns"]["value"] / factor / other["baseline_step_ns"]["value"]
        assert abs(gain - other["gain_frac"]) < 1e-9, other
    for option, argument in (("--num-groups", "0"), ("--backward-passes", "two"), ("--compress", "fp8")):
        lapwing("predict", option, argument, path, code=2)
    lapwing("predict", "--model", "tea_leaves", path, code=2)
    lapwing("predict", "--ranks", "0", path, code=2)


def test_figures(path, folder):
    curve = validated("predict", "--scaling", "--ranks", "16", path)
    assert [one["setting"]["n_ranks"] for one in curve] == [1, 2, 4, 8, 16]
    assert [one["is_recorded"] for one in curve] == [False, True, False, False, False]
    for one in curve:
        efficiency = one["efficiency"]
        assert 0 < efficiency["low"] <= efficiency["value"] <= efficiency["high"] <= 1, one
        assert bool(one["would_tell"]) or (one["is_recorded"] and not one["is_extrapolated"]), one
    models = validated("predict", "--model", "all", path)
    measured = models[0]["recorded_step_ns"]["value"]
    for one in models:
        if one["error_ns"] is None and one["baseline_step_ns"]["value"] is not None:
            error = one["baseline_step_ns"]["value"] / measured - 1
            assert abs(error - one["recorded_error_frac"]) < 1e-9, one
    print("recorded setting: " + ", ".join(f"{one['model']} {one['recorded_error_frac']:+.1%}" for one in models
                                           if one["recorded_error_frac"] is not None))
    for arguments, texts in ((["--grid"], ("best", "recorded")), (["--scaling"], ("ranks", "efficiency")),
                             (["--model", "all"], ("hvd_cycle", "csf"))):
        svg = os.path.join(folder, "figure.svg")
        plain = lapwing("predict", *arguments, path).stdout
        assert lapwing("predict", *arguments, "--plot", svg, path).stdout.startswith(plain)
        words = " ".join(xml.etree.ElementTree.parse(svg).getroot().itertext())
        assert all(text in words for text in texts), (texts, words)
        with open(svg, "rb") as file:
            first = file.read()
        lapwing("predict", *arguments, "--json", "--plot", svg, path)
        with open(svg, "rb") as file:
            assert file.read() == first
        for locale, is_ascii in (("C", True), ("C.UTF-8", False)):
            done = subprocess.run([LAPWING, "predict", *arguments, "--plot", "-", path], capture_output=True, check=True,
                                  env={**os.environ, "LC_ALL": locale})
            drawn = done.stdout.decode()
            assert drawn.startswith(plain) and len(drawn) > len(plain) + 100, drawn
            assert drawn.isascii() == is_ascii, drawn
            assert all(len(line) < 80 for line in drawn.splitlines()), max(drawn.splitlines(), key=len)
        one_line(lapwing("predict", *arguments, "--plot", "/no/such/folder/x.svg", path, code=1), "/no/such/folder/x.svg")
        one_line(lapwing("predict", *arguments, "--plot", "/dev/full", path, code=1), "/dev/full", "No space left")
    lapwing("predict", "--plot", "-", path, code=2)
    lapwing("predict", "--grid", "--scaling", path, code=2)
    lapwing("predict", "--grid", "--plot", "-", "--json", path, code=2)


def test_advise(path):
    advice = validated("advise", path)
    for one in advice["advice"]:
        assert one["gain_frac"]["low"] > 0, one  # no advice below its own error
        assert one["why"] and one["sure"]
        if one["kind"] in ("set", "code", "training"):  # the others are answers, not advice
            assert one["set"] or one["code"], one
    assert lapwing("advise", "--json", path).stdout == lapwing("advise", "--json", path).stdout
    lapwing("advise", "--explain", "horovod.fusion_cycle", path)
    there = lapwing("advise", path).stdout.split("by --explain ID:")[1].split("\n\n")[0].split()
    one_line(lapwing("advise", "--explain", "no.such", path, code=2), "no.such", *there)
    print(f"advise: {len(advice['advice'])} advice, {len(advice['findings'])} findings")


def altered(path, folder, name, *statements):
    copy = os.path.join(folder, name + ".lapwing")
    shutil.copy(path, copy)
    with contextlib.closing(sqlite3.connect(copy)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()
    return copy


def test_not_whole(path, folder):
    """What is missing in a run is said by every verb, not by its exit code alone."""
    of_rank_1 = "(SELECT t.id FROM thread t JOIN process p ON p.id = t.process_id WHERE p.rank = 1)"
    tables = ("batch", "batch_tensor", "ready", "wait", "cycle", "collective")
    cases = (
        ("missing", ("1 of 2 ranks", "missing ranks: 1 of 2 ranks are not in the run"),
         [f"DELETE FROM {table} WHERE thread_id IN {of_rank_1}" for table in tables]),
        ("lost", ("5000 records lost", "ring full"), ["INSERT INTO loss VALUES(1, 1, 1, 5000, '')"]),
        ("died", ("rank 1: process ended without saying so",), ["UPDATE process SET ended = 'died' WHERE rank = 1"]),
        ("open", ("not closed",), ["UPDATE run SET closed = 0"]),
    )
    for name, words, statements in cases:
        copy = altered(path, folder, name, *statements)
        for verb in (("report",), ("predict",), ("predict", "--grid"), ("advise",),
                     ("advise", "--explain", "horovod.fusion_cycle")):
            text = lapwing(*verb, copy, code=3).stdout
            joined = " ".join(text.split())
            said = words[1:] if name == "missing" and verb[0] != "predict" else words
            assert all(word in joined for word in said), (name, verb, text)
    whole = lapwing("predict", path).stdout + lapwing("advise", path).stdout
    assert "lost" not in whole and "missing" not in whole, whole


def one_line(done, *words):
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("lapwing: "), done.stderr
    assert all(word in lines[0] for word in words), (words, lines[0])
    assert not done.stdout, done.stdout
    return lines[0]


def test_bad_input(path, folder):
    other = os.path.join(folder, "other")
    cases = [("missing", None, ("No such file",))]
    with open(other, "w") as file:
        file.write("not a run\n" * 100)
    cases.append(("foreign", other, ("not a lapwing run",)))
    cut = os.path.join(folder, "cut.lapwing")
    shutil.copy(path, cut)
    os.truncate(cut, os.path.getsize(path) // 2)
    cases.append(("truncated", cut, ("damaged",)))
    newer = os.path.join(folder, "newer.lapwing")
    shutil.copy(path, newer)
    with contextlib.closing(sqlite3.connect(newer)) as db:
        db.execute("PRAGMA user_version = 999")
    cases.append(("newer", newer, ("newer lapwing",)))
    for verb in ("report", "advise", "predict", "info"):
        for name, file, words in cases:
            line = one_line(lapwing(verb, file or os.path.join(folder, "nothing.lapwing"), code=1), *words)
            if verb == "report":
                print(f"{name}: {line}")
        lapwing(verb, code=2)
    # read-only file in a read-only folder: everything can be read, nothing is written
    locked = os.path.join(folder, "locked")
    os.mkdir(locked)
    shutil.copy(path, locked)
    copy = os.path.join(locked, "run.lapwing")
    os.chmod(copy, stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    os.chmod(locked, stat.S_IRUSR | stat.S_IXUSR | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    os.chmod(folder, 0o755)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    program = shutil.copy(LAPWING, os.path.join(folder, "lapwing"))  # where another user may run it
    before = open(copy, "rb").read()
    done = subprocess.run([*nobody, program, "report", copy], capture_output=True, text=True)
    assert done.returncode == 0 and "A step takes" in done.stdout, (done.returncode, done.stderr)
    assert open(copy, "rb").read() == before and os.listdir(locked) == ["run.lapwing"]
    os.chmod(locked, 0o700)


def main():
    folder = tempfile.mkdtemp(prefix="lapwing-answers-")
    try:
        path = record(folder)
        test_report(path)
        test_predict(path)
        test_figures(path, folder)
        test_advise(path)
        test_not_whole(path, folder)
        test_bad_input(path, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
