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


def record(folder, environment):
    path = os.path.join(folder, "run.lapwing")
    command = [traced.program("cuda_cases"), "rows"]
    plain = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    done = subprocess.run([LAPWING, "record", "-q", "--no-analyze", "-o", path, "--", *command], env=environment,
                          capture_output=True, text=True, timeout=100)
    assert (plain.returncode, plain.stdout, plain.stderr) == (done.returncode, done.stdout, done.stderr), (plain, done)
    assert done.returncode == 0
    with sqlite3.connect(path) as run:
        return run.execute("SELECT h.status, d.text FROM hook h JOIN string n ON n.id = h.name_id"
                           " JOIN string d ON d.id = h.detail_id WHERE n.text = 'cupti'").fetchall()


def main():
    libraries = real_libraries()
    if not libraries:
        print("libcupti: none on this machine; the double of test_cupti.py stands for it")
    for library in libraries:
        stubs = os.path.join(os.path.dirname(library), "stubs")
        for with_stub in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                # The double of the runtime, with the real libcupti for a neighbour.
                os.symlink(traced.BUILD / "tests" / "cuda" / "libcudart.so.13", f"{folder}/libcudart.so.13")
                os.symlink(library, f"{folder}/{os.path.basename(library)}")
                if with_stub:
                    if not os.path.exists(f"{stubs}/libcuda.so"):
                        continue
                    os.symlink(f"{stubs}/libcuda.so", f"{folder}/libcuda.so.1")
                env = {key: value for key, value in os.environ.items() if not key.startswith(("CUDA_", "KINETO_", "LAPWING_GPU"))}
                ((status, detail),) = record(folder, {**env, "RANK": "0", "WORLD_SIZE": "1", "LD_LIBRARY_PATH": folder})
            if has_gpu() and not with_stub:
                assert status == 1, detail
            else:
                assert status == 3 and "cuptiSubscribe: CUPTI_ERROR_" in detail, detail
                assert "no driver, or no GPU?" in detail, detail
            print(f"{library}{' with the stub of the driver' if with_stub else ''}: {detail}")


if __name__ == "__main__":
    main()
