# SPDX-License-Identifier: Apache-2.0
"""`lapwing import` as a user meets it: exit codes, one line for what is wrong, no file left behind."""
import gzip
import json
import os
import pty
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import jsonschema

SOURCE = os.environ["LAPWING_SOURCE_DIR"]
LAPWING = os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing")
DATA = os.path.join(SOURCE, "tests", "data")
sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
import timeline_figures  # noqa: E402


def lapwing(*args, cwd):
    return subprocess.run([LAPWING, *args], cwd=cwd, text=True, capture_output=True, timeout=60)


def check_failure(done, code, text, folder, left=()):
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == "", done.stdout
    assert text in done.stderr, done.stderr
    if code == 1:
        assert done.stderr.count("\n") == 1 and done.stderr.startswith("lapwing: "), done.stderr
    assert sorted(os.listdir(folder)) == sorted(left), os.listdir(folder)
    print("exit", code, done.stderr.splitlines()[0])


def test_bad_input(folder):
    cases = [
        ("empty.json", "an empty file"),
        ("only_bracket.json", "an empty JSON array"),
        ("not_json.json", "text, not JSON"),
        ("other_program.json", "JSON, but of another program"),
        ("header_only.json", "no Horovod operation"),
        ("missing.json", "No such file or directory"),
    ]
    for name, text in cases:
        path = os.path.join(DATA, "fail", name)
        done = lapwing("import", path, cwd=folder)
        check_failure(done, 1, text, folder)
        assert path in done.stderr
    check_failure(lapwing("import", folder, cwd=folder), 1, "no .json or .json.gz in this folder", folder)
    small = os.path.join(DATA, "timeline_small.json")
    forced = lapwing("import", "--from", "horovod_timeline", os.path.join(DATA, "fail", "not_json.json"), cwd=folder)
    check_failure(forced, 1, "lexical error", folder)
    check_failure(lapwing("import", "-o", "no/such/run", small, cwd=folder), 1, "No such file or directory", folder)
    check_failure(lapwing("import", "--from", "nothing", small, cwd=folder), 2, "'nothing'", folder)
    check_failure(lapwing("import", cwd=folder), 2, "which file?", folder)
    check_failure(lapwing("import", small, small, cwd=folder), 2, "several files make one run", folder)
    check_failure(lapwing("import", small, small, "-o", "x", cwd=folder), 2, "one file at a time", folder)
    kineto = os.path.join(DATA, "kineto", "rank0.json")
    check_failure(lapwing("import", small, kineto, "-o", "x", cwd=folder), 2, "a kineto, while", folder)
    check_failure(lapwing("import", kineto, kineto, "-o", "x", cwd=folder), 1, "both of rank 0", folder)
    with open(os.path.join(folder, "thesis.txt"), "w") as file:
        file.write("chapter one")
    check_failure(lapwing("import", "-o", "thesis.txt", small, cwd=folder), 1, "not replaced", folder, ["thesis.txt"])
    with open("/dev/full", "w") as full:
        done = subprocess.run([LAPWING, "import", small, "--json"], cwd=folder, stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, (done.returncode, done.stderr)
    os.remove(os.path.join(folder, "thesis.txt"))
    os.remove(os.path.join(folder, "timeline_small.lapwing"))


def test_incomplete_input(folder):
    for name, n_bad, text in [("truncated.json", 1, "ends here, inside a record"), ("raw_quote.json", 1, "record 5 at byte 298")]:
        done = lapwing("import", "-o", "run.lapwing", os.path.join(DATA, "fail", name), cwd=folder)
        assert done.returncode == 3, (done.returncode, done.stderr)
        assert text in done.stdout and "INCOMPLETE" in done.stdout, done.stdout
        done = lapwing("import", "--json", "-o", "run.lapwing", os.path.join(DATA, "fail", name), cwd=folder)
        assert done.returncode == 3
        summary = json.loads(done.stdout)
        assert summary["n_bad"] == n_bad and text in summary["problem"], summary
        jsonschema.validate(summary, json.loads(lapwing("import", "--json-schema", cwd=folder).stdout))
        assert summary["truncated"] == (name == "truncated.json")
        assert lapwing("info", "run.lapwing", cwd=folder).returncode == 3
    assert os.listdir(folder) == ["run.lapwing"]
    os.remove(os.path.join(folder, "run.lapwing"))


def test_good_input(folder):
    """The whole way, and the store against a plain parser."""
    horovod = os.path.join(DATA, "horovod")
    schema = json.loads(lapwing("import", "--json-schema", cwd=folder).stdout)
    paths = [os.path.join(horovod, name) for name in sorted(os.listdir(horovod)) if name.endswith(".json")]
    for path in paths:
        done = lapwing("import", "--json", path, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", done.stderr
        summary, expected = json.loads(done.stdout), timeline_figures.figures(path)
        jsonschema.validate(summary, schema)
        assert summary["format"] == "horovod_timeline" and summary["problem"] is None
        assert summary["bytes"] == expected["bytes"] and summary["n_tensors"] == expected["n_tensors"]
        assert summary["n_records"] == expected["n_events"]
        assert summary["duration_ns"] == 1000 * (expected["last_us"] - expected["first_us"])
        output = os.path.join(folder, summary["output"])
        assert os.path.basename(path).replace(".json", ".lapwing") == summary["output"]
        with sqlite3.connect(output) as db:
            for name, (n, sum_us, union_us, n_runs) in expected["activities"].items():
                if not name.startswith("NEGOTIATE"):
                    continue
                found = db.execute("SELECT count(*), sum(end_ns - start_ns) FROM range JOIN string ON string.id = name_id"
                                   " WHERE text = ?", (name,)).fetchone()
                assert found == (n, sum_us * 1000), (path, name, found)
            (damage,) = db.execute("PRAGMA integrity_check").fetchone()
            assert damage == "ok", damage
        info = lapwing("info", summary["output"], cwd=folder)
        assert info.returncode == 0
        assert "rank 0 of" in info.stdout and " on " not in info.stdout.split("rank 0 of")[1].splitlines()[0], info.stdout
        print("%-12s %4d operations, %8d bytes, as a plain parser says" %
              (os.path.basename(path), summary["n_batches"], summary["bytes"]))
        os.remove(output)
    assert os.listdir(folder) == []


def test_report(folder):
    """An import is one rank's view: its steps are rank 0's, the ranks it only mentions do not thin them."""
    path = os.path.join(DATA, "horovod", "tl.json")
    assert lapwing("import", path, cwd=folder).returncode == 0
    done = lapwing("report", "--json", "tl.lapwing", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    events = timeline_figures.load(path)
    # the 4 steps after the first: between first begins of the negotiations of each step's first tensor
    (first,) = {e["pid"] for e in events if e.get("args", {}).get("name") == "allreduce.4.bias"}
    begins = [e["ts"] for e in events if e["ph"] == "B" and e["pid"] == first and e["name"] == "NEGOTIATE_ALLREDUCE"]
    assert len(begins) == 5, begins
    mean_us = (begins[4] - begins[1]) / 3
    assert report["run"]["n_ranks"] == 2 and [rank["rank"] for rank in report["ranks"]] == [0]
    assert report["steps"]["n"] == 4, report["steps"]
    step_us = report["ranks"][0]["step_ns"]["value"] / 1000
    print("mean step: report %.0f us, negotiation to negotiation %.0f us" % (step_us, mean_us))
    assert abs(step_us / mean_us - 1) < 0.05
    os.remove(os.path.join(folder, "tl.lapwing"))


def test_profiler_traces(folder):
    """A folder of traces is one run, and its report is of its kernels."""
    traces = os.path.join(folder, "traces")
    os.mkdir(traces)
    for rank in range(2):
        with open(os.path.join(DATA, "kineto", f"rank{rank}.json"), "rb") as plain:
            with gzip.open(os.path.join(traces, f"rank{rank}.json.gz"), "wb") as packed:
                shutil.copyfileobj(plain, packed)
    done = lapwing("import", "--json", traces + "/", cwd=folder)
    assert done.returncode == 0 and done.stderr == "", (done.returncode, done.stderr)
    summary = json.loads(done.stdout)
    jsonschema.validate(summary, json.loads(lapwing("import", "--json-schema", cwd=folder).stdout))
    assert summary["output"] == "traces.lapwing" and summary["format"] == "kineto", summary
    assert summary["n_ranks"] == 2 and summary["n_kernels"] == 16 and summary["n_nccl_ops"] == 4, summary
    with open(os.path.join(folder, "layers"), "w") as file:
        file.write("# operations of the forward pass\nconv 0.6G\nfc, 4e8\n")
    done = lapwing("report", "--json", "traces.lapwing", "--flop", "layers", "--peak-flop", "10T", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads(lapwing("report", "--json-schema", cwd=folder).stdout))
    # test_gpu.c has these by hand: the first step, us; the second is cut where the profiler stopped
    for rank, compute, exposed in ((0, 500, 50), (1, 500, 50)):
        assert abs(report["ranks"][rank]["compute_ns"]["value"] / 1000 - compute) < 1e-6, report["ranks"][rank]
        assert abs(report["ranks"][rank]["exposed_ns"]["value"] / 1000 - exposed) < 1e-6, report["ranks"][rank]
    c = report["model"]["utilisation_frac"]["value"]
    assert abs(c - 3 * 1e9 / (10e12 * 500e-6)) < 1e-9, c
    assert report["steps"]["n_excluded"] == 1 and summary["n_without_kernel"] == 0, (report["steps"], summary)
    print("two ranks of a profiler: compute, exposed and c as by hand")
    check_failure(lapwing("report", "traces.lapwing", "--flop", "1e9", cwd=folder), 2, "belong together", folder,
                  ["layers", "traces", "traces.lapwing"])
    check_failure(lapwing("report", "traces.lapwing", "--flop", "x", "--peak-flop", "1T", cwd=folder), 2,
                  "neither a number", folder, ["layers", "traces", "traces.lapwing"])
    one = lapwing("import", os.path.join(traces, "rank0.json.gz"), cwd=folder)
    assert one.returncode == 0 and os.path.exists(os.path.join(folder, "rank0.lapwing")), one.stderr
    assert "MISSING: 1 of the job's 2 ranks" in one.stdout and "2 steps (kineto)" in one.stdout, one.stdout
    done = lapwing("report", "rank0.lapwing", cwd=folder)
    assert done.returncode == 3 and "import the traces of all ranks" in " ".join(done.stdout.split()), done.stdout
    with gzip.open(os.path.join(traces, "rank0.json.gz"), "rb") as packed:
        whole = packed.read()
    with open(os.path.join(folder, "rank0.json"), "wb") as cut:  # before its first kernel
        cut.write(whole[:whole.index(b'"kernel"')])
    done = lapwing("import", "rank0.json", cwd=folder)
    assert done.returncode == 3 and done.stdout.startswith("CUT OFF: "), done.stdout
    assert "0 kernels" in done.stdout and "tensors" not in done.stdout, done.stdout
    done = lapwing("report", "rank0.lapwing", cwd=folder)
    assert "Cut off: a trace of this run stops" in "\n".join(done.stdout.split("\n")[:4]), done.stdout
    for name in "rank0.json", os.path.join(traces, "rank1.json.gz"):
        for verb in "report", "tui":
            done = lapwing(verb, name, cwd=folder)
            assert done.returncode == 1 and "`lapwing import` makes a run of it" in done.stderr, (verb, done.stderr)
    os.remove(os.path.join(folder, "rank0.json"))
    shutil.rmtree(traces)
    for name in ("layers", "traces.lapwing", "rank0.lapwing"):
        os.remove(os.path.join(folder, name))


def test_profiles_that_lack_something(folder):
    """What the profiler was not asked for is said, with how to ask for it."""
    with open(os.path.join(DATA, "kineto", "rank0.json"), encoding="utf-8") as file:
        trace = json.load(file)
    trace["distributedInfo"]["world_size"] = 1
    unsized = [{**e, "args": {k: v for k, v in e.get("args", {}).items() if "nelems" not in k and "Input" not in k}} for e in trace["traceEvents"]]
    with open(os.path.join(folder, "unsized.json"), "w", encoding="utf-8") as file:
        json.dump({**trace, "traceEvents": unsized}, file)
    done = lapwing("import", "unsized.json", cwd=folder)
    assert done.returncode == 0 and "2 operations of NCCL of unknown size, " in done.stdout and " 0 B" not in done.stdout, done.stdout
    os.remove(os.path.join(folder, "unsized.json"))
    os.remove(os.path.join(folder, "unsized.lapwing"))
    cases = {
        "no_kernels": ([e for e in trace["traceEvents"] if e.get("cat") in ("user_annotation", "cpu_op")], "was ProfilerActivity.CUDA"),
        "no_steps": ([e for e in trace["traceEvents"] if "ProfilerStep" not in e.get("name", "")], "the trace has no ProfilerStep marks"),
        "backwards": ([{**e, "dur": -5} if e.get("cat") == "kernel" else e for e in trace["traceEvents"]], "kernels or copies end before they begin"),
    }
    for name, (events, wanted) in cases.items():
        with open(os.path.join(folder, f"{name}.json"), "w", encoding="utf-8") as file:
            json.dump({**trace, "traceEvents": events}, file)
        assert lapwing("import", f"{name}.json", cwd=folder).returncode in (0, 3)
        done = lapwing("report", f"{name}.lapwing", cwd=folder)
        assert wanted in " ".join(done.stdout.split()), done.stdout + done.stderr
        for end in ("json", "lapwing"):
            os.remove(os.path.join(folder, f"{name}.{end}"))


def test_long_lists_of_tensors(folder):
    """Of a list that is longer than what is read of it the bytes are not known, rather than too few."""
    def trace(n_tensors):
        annotation = {"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce_coalesced", "pid": 7, "tid": 1, "ts": 100, "dur": 20,
                      "args": {"Input Dims": [[1000]] * n_tensors, "Input type": ["float"] * n_tensors}}
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 1, "ts": 105, "dur": 5, "args": {"correlation": 3}}
        kernel = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 20, "ts": 130, "dur": 50,
                  "args": {"device": 0, "context": 1, "stream": 20, "correlation": 3}}
        return {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [annotation, launch, kernel]}

    for n_tensors, wanted in ((4, [(16000, 0)]), (16, [(0, 32)])):
        with open(os.path.join(folder, "list.json"), "w", encoding="utf-8") as file:
            json.dump(trace(n_tensors), file)
        done = lapwing("import", "list.json", cwd=folder)
        assert done.returncode == 0, done.stderr
        with sqlite3.connect(os.path.join(folder, "list.lapwing")) as run:
            got = run.execute("SELECT bytes, flags & 32 FROM nccl_op").fetchall()
        print(f"{n_tensors} tensors: bytes and 'not known': {got}")
        assert got == wanted, got
        for end in ("json", "lapwing"):
            os.remove(os.path.join(folder, f"list.{end}"))


def test_pause_of_a_profiler(folder):
    """Two windows of one profiler, a second apart: what lies between them is no step, and no idle GPU of one."""
    with open(os.path.join(DATA, "kineto", "rank0.json"), encoding="utf-8") as file:
        trace = json.load(file)
    trace["distributedInfo"]["world_size"] = 1
    later = json.loads(json.dumps(trace["traceEvents"]))
    for event in later:
        event["ts"] = event.get("ts", 0) + 1000000
        arguments = event.get("args", {})
        for key in ("correlation", "External id"):
            if key in arguments:
                arguments[key] += 100000
        if event.get("name", "").startswith("ProfilerStep#"):
            event["name"] = f"ProfilerStep#{int(event['name'].split('#')[1]) + 20}"
    with open(os.path.join(folder, "windows.json"), "w", encoding="utf-8") as file:
        json.dump({**trace, "traceEvents": trace["traceEvents"] + [e for e in later if e.get("ph") != "M"]}, file)
    assert lapwing("import", "windows.json", cwd=folder).returncode == 0
    report = json.loads(lapwing("report", "--json", "windows.lapwing", cwd=folder).stdout)
    print("steps of two windows:", report["steps"])
    # the last of each window is cut, and what lies between them is a pause
    assert report["steps"]["n"] == 2 and report["steps"]["n_excluded"] == 3, report["steps"]
    assert abs(report["steps"]["step_ns"]["value"] - 1e6) < 1, report["steps"]
    for end in ("json", "lapwing"):
        os.remove(os.path.join(folder, f"windows.{end}"))


def test_progress_is_for_terminals(folder):
    master, slave = pty.openpty()
    done = subprocess.run([LAPWING, "import", os.path.join(DATA, "horovod", "tl.json")], cwd=folder, stderr=slave,
                          stdout=subprocess.PIPE, timeout=60)
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert done.returncode == 0 and "importing" in shown and "100 %" in shown, shown
    os.remove(os.path.join(folder, "tl.lapwing"))


def test_help(folder):
    done = lapwing("import", "--help", cwd=folder)
    assert done.returncode == 0 and "horovod_timeline" in done.stdout and "Exit codes" in done.stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="lapwing-import-") as place:
        for test in (test_bad_input, test_incomplete_input, test_good_input, test_report, test_profiler_traces,
                     test_profiles_that_lack_something, test_pause_of_a_profiler, test_long_lists_of_tensors, test_progress_is_for_terminals, test_help):
            test(place)
    print("ok")
