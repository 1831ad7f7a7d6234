#!/usr/bin/env python3
"""The user's marks: from C, from Python, from NVTX; and nothing at all without the tracer."""
import glob
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import rings  # noqa: E402
import traced  # noqa: E402

STEP, POINT, RANGE, NVTX_RANGE, NVTX_POINT = 1, 2, 3, 4, 5


def marks(process, op=None):
    return [mark for mark in rings.of_kind(process, "MARK") if op in (None, mark["op"])]


def marks_from_c_have_names_values_and_nesting():
    job = traced.run([traced.program("mark_cases")])
    assert job.code == 0 and job.stdout == "done\n", job.stderr
    process = job.only()
    assert [mark["value"] for mark in marks(process, STEP)] == [100, 101, 102]
    names = [mark["name"] for mark in marks(process, POINT)]
    assert names[:4] == ["loss"] * 3 + ["from the other thread"] and names[4] == "x" * 1020, names
    ranges = marks(process, RANGE)
    assert [mark["name"] for mark in ranges].count("layer 1") == 3
    for outer, inner in zip([mark for mark in ranges if mark["name"] == "forward"],
                            [mark for mark in ranges if mark["name"] == "layer 1"]):
        assert outer["t0"] <= inner["t0"] <= inner["t1"] <= outer["t1"]
    assert len({mark["tid"] for mark in marks(process)}) == 2
    assert [mark["name"] for mark in ranges].count("deep") == 32
    (loss,) = [loss for loss in rings.of_kind(process, "LOSS") if loss["where"] == "ranges nested too deep"][:1]
    lost = sum(event["count"] for event in rings.of_kind(process, "LOSS"))
    assert lost == 8, (lost, loss)


def without_the_tracer_marks_do_nothing():
    done = subprocess.run([traced.program("mark_cases")], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    job = traced.run([traced.program("mark_cases")], hooks="-mark")
    assert job.code == 0 and not job.processes


def marks_from_python():
    command = ["/usr/bin/python3", str(traced.SOURCE / "examples" / "mark.py")]
    assert subprocess.run(command, capture_output=True).returncode == 0
    process = traced.run(command).only()
    assert [mark["value"] for mark in marks(process, STEP)] == [0, 1, 2]
    assert [mark["name"] for mark in marks(process, RANGE)] == ["load"] * 3
    assert [mark["name"] for mark in marks(process, POINT)] == ["finished"]


def nvtx_ranges_and_points():
    job = traced.run([traced.program("nvtx_client")], NVTX_INJECTION64_PATH=traced.LIBRARY)
    assert job.code == 0, job.stderr
    assert job.stdout == "levels 0 1 0 1 pop -1\n", job.stdout
    found = [(mark["op"], mark["name"], mark["value"]) for mark in marks(job.only()) if mark["op"] != STEP]
    assert sorted(found) == sorted([
        (NVTX_RANGE, "step", 0), (NVTX_RANGE, "batch", -5), (NVTX_RANGE, "NCCL/ncclAllReduce", 4096),
        (NVTX_RANGE, "across", 0), (NVTX_POINT, "point", 0), (NVTX_POINT, "NCCL/wide ?", 4096),
        (NVTX_RANGE, "aten::add", 1234), (NVTX_RANGE, "autograd::engine::evaluate_function: AddBackward0", 0),
        (NVTX_RANGE, "wide range", 0), (NVTX_POINT, "from another copy", 0), (NVTX_RANGE, "range of another copy", 0)]), found


def the_real_nvtx_header_agrees_where_there_is_one():
    include = next(iter(sorted(glob.glob("/usr/local/cuda*/include/nvtx3") + glob.glob("/usr/include/nvtx3"))), None)
    if not include:
        print("nvtx3 headers: none on this machine; the client double above stands for them")
        return
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, "nvtx_real")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "nvtx_real.c")
        subprocess.run(["cc", "-I", os.path.dirname(include), source, "-o", program, "-ldl"], check=True)
        job = traced.run([program], NVTX_INJECTION64_PATH=traced.LIBRARY)
    assert job.code == 0, job.stderr
    found = [(mark["op"], mark["name"], mark["value"]) for mark in marks(job.only()) if mark["op"] != STEP]
    expected = [(NVTX_RANGE, "step", 0), (NVTX_RANGE, "NCCL/ncclAllReduce", 4096), (NVTX_POINT, "point", 0)]
    if os.path.exists(os.path.join(include, "nvToolsExtPayload.h")):
        expected.append((NVTX_RANGE, "NCCL/ncclAllGather", 777))
        gathers = [op for op in rings.of_kind(job.only(), "NCCL_OP") if op["op"] == 2]
        assert [(op["comm"], op["bytes"]) for op in gathers] == [(0xabc, 777)], gathers
    assert sorted(found) == sorted(expected), found
    print(f"nvtx3 headers of {include}: {len(found)} records as the client double has them")


if __name__ == "__main__":
    marks_from_c_have_names_values_and_nesting()
    without_the_tracer_marks_do_nothing()
    marks_from_python()
    nvtx_ranges_and_points()
    the_real_nvtx_header_agrees_where_there_is_one()
