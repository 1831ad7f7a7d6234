#!/usr/bin/env python3
"""NVIDIA's own libcupti, where it is installed: without a driver it refuses, which is said, and the job does not notice."""
import ctypes
import glob
import os
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import traced  # noqa: E402

LAPWING = str(traced.BUILD / "bin" / "lapwing")


def real_libraries():
    found = sorted(glob.glob("/usr/local/cuda*/lib64/libcupti.so.1[0-9]") + glob.glob("/usr/local/cuda*/extras/CUPTI/lib64/libcupti.so.1[0-9]"))
    return {os.path.realpath(path): path for path in found}.values()


def has_gpu():
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


def record(folder, environment, *command):
    path = os.path.join(folder, "run.lapwing")
    plain = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    done = subprocess.run([LAPWING, "record", "-q", "--no-analyze", "-o", path, "--", *command], env=environment,
                          capture_output=True, text=True, timeout=100)
    assert (plain.returncode, plain.stdout, plain.stderr) == (done.returncode, done.stdout, done.stderr), (plain, done)
    assert done.returncode == 0
    with sqlite3.connect(path) as run:
        return done.stdout, run.execute("SELECT h.status, d.text FROM hook h JOIN string n ON n.id = h.name_id"
                                        " JOIN string d ON d.id = h.detail_id WHERE n.text = 'cupti' ORDER BY h.at_ns").fetchall()


def check_refusal(status, detail):
    assert status == 3 and "cuptiSubscribe: CUPTI_ERROR_" in detail and "no driver, or no GPU?" in detail, detail


def check_double_beside(library, env, stub):
    """The double of the runtime with the real libcupti for a neighbour; @stub: and a libcuda that can do nothing."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(traced.BUILD / "tests" / "cuda" / "libcudart.so.13", f"{folder}/libcudart.so.13")
        os.symlink(library, f"{folder}/{os.path.basename(library)}")
        if stub:
            os.symlink(stub, f"{folder}/libcuda.so.1")
        _, hooks = record(folder, {**env, "LD_LIBRARY_PATH": folder}, traced.program("cuda_cases"), "rows")
    ((status, detail),) = hooks
    if has_gpu() and not stub:
        assert status == 1, detail
    else:
        check_refusal(status, detail)
    print(f"{library}{' with the stub of the driver' if stub else ''}: {detail}")


def check_linked(library, env):
    """A program that is linked to the real runtime and the real libcupti: the same results from the same calls."""
    folder, source = os.path.dirname(library), os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "cupti_real.c")
    runtime = os.path.join(folder, "libcudart.so.13")
    if not os.path.exists(runtime):
        return
    with tempfile.TemporaryDirectory() as out:
        program = os.path.join(out, "cupti_real")
        subprocess.run(["cc", source, "-o", program, library, runtime, f"-Wl,-rpath,{folder}"], check=True)
        stdout, hooks = record(out, env, program)
    if not has_gpu():
        ((status, detail),) = hooks
        check_refusal(status, detail)
    print(f"{library}, linked: {'; '.join(stdout.splitlines())}")


def main():
    libraries = real_libraries()
    if not libraries:
        print("libcupti: none on this machine; the double of test_cupti.py stands for it")
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CUDA_", "KINETO_", "LAPWING_GPU"))}
    env = {**env, "RANK": "0", "WORLD_SIZE": "1"}
    for library in libraries:
        stub = os.path.join(os.path.dirname(library), "stubs", "libcuda.so")
        check_double_beside(library, env, None)
        if os.path.exists(stub):
            check_double_beside(library, env, stub)
        check_linked(library, env)


if __name__ == "__main__":
    main()
