#!/usr/bin/env python3
"""`lapwing doctor`: tells, before anything runs, what can be preloaded and which hooks will see it."""
import contextlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import tempfile
import time

import jsonschema

LAPWING = os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing")
PYTHON = os.environ.get("LAPWING_PYTHON", os.path.join(os.environ["LAPWING_SOURCE_DIR"], ".venv/bin/python3"))
SCHEMA = json.loads(subprocess.run([LAPWING, "doctor", "--json-schema"], capture_output=True, check=True).stdout)


def doctor(*command, code=0, **environment):
    done = subprocess.run([LAPWING, "doctor", "--json", "--", *command], capture_output=True, text=True,
                          env={**os.environ, **environment})
    assert code is None or done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, SCHEMA)
    return {check["id"]: check for check in answer["checks"]}


def build(folder, name, *flags, text="int main(void) { return 0; }\n"):
    source = os.path.join(folder, name + ".c")
    with open(source, "w") as file:
        file.write(text)
    program = os.path.join(folder, name)
    subprocess.run(["cc", source, "-o", program, *flags], check=True)
    return program


def bad_output(folder):
    """With the variables alone nothing may be printed into the job: doctor tells before, and what was recorded is not lost."""
    good, bad = os.path.join(folder, "run-%r.lapwing"), "/no/such/folder/run.lapwing"
    for command, environment, verdict, words in (
            (["ls"], {}, "yes", "run.lapwing"),
            (["ls"], {"LAPWING_OUT": good}, "yes", "run-0.lapwing"),
            (["ls"], {"LAPWING_OUT": bad}, "no", "No such file or directory"),
            (["ls"], {"LAPWING_OUT": folder}, "no", "is a folder"),
            (["ls"], {"LAPWING_OUT": "run-%y"}, "no", "%y"),
            (["env", f"LAPWING_OUT={bad}", "ls"], {"LAPWING_OUT": good}, "no", bad)):
        out = doctor(*command, **environment)["out"]
        assert out["verdict"] == verdict and words in out["text"], (command, environment, out)
    program = os.path.join(os.environ["LAPWING_BUILD_DIR"], "tests", "mark_cases")
    done = subprocess.run([program], capture_output=True, text=True, env={
        **os.environ, "LD_PRELOAD": os.path.join(os.environ["LAPWING_BUILD_DIR"], "lib", "liblapwing.so"), "LAPWING_OUT": bad})
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", ""), done
    deadline = time.monotonic() + 20
    while True:
        lines = subprocess.run([LAPWING, "salvage"], capture_output=True, text=True, check=True).stdout.splitlines()
        told = [before.split()[0] for before, line in zip(lines, lines[1:]) if bad in line and "No such file" in line]
        if told:
            break
        assert time.monotonic() < deadline, lines
        time.sleep(0.05)
    (ring_dir,) = told
    left = doctor("ls")["left"]  # shows one of those that other tests may have left, too
    assert left["verdict"] == "unsure" and (bad in left["text"] or not left["text"].startswith("1 left")), left
    rescued = os.path.join(folder, "rescued.lapwing")
    done = subprocess.run([LAPWING, "salvage", ring_dir, "-o", rescued], capture_output=True, text=True)
    assert done.returncode == 0 and "recovered from" in done.stdout and not os.path.exists(ring_dir), done
    with contextlib.closing(sqlite3.connect(rescued)) as db:  # and analysed, as what `record` has recorded is
        assert db.execute("SELECT count(*) FROM summary WHERE name = 'form'").fetchall() == [(1,)]


def which_nccl(folder):
    """How NCCL is linked, its version, and which ways in are open, without running anything of it."""
    body = "int ncclAllReduce(void) { return 0; }\nconst char *text = \"NCCL version %s+cuda12.2\";\n"
    main_too = body + "int main(void) { return ncclAllReduce() + !text; }\n"
    library = build(folder, "libnccl.so.2", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", text=body % "2.29.3")
    dynamic = build(folder, "dynamic", library, text="int ncclAllReduce(void);\nint main(void) { return ncclAllReduce(); }\n")
    here = {"LD_LIBRARY_PATH": folder}
    checks = doctor(dynamic, **here)
    assert checks["nccl"]["verdict"] == "yes" and "2.29.3" in checks["nccl"]["text"] and library in checks["nccl"]["text"], checks["nccl"]
    assert checks["nccl_preload"]["verdict"] == "yes", checks["nccl_preload"]
    assert checks["nccl_plugin"]["verdict"] == "yes" and "version 6" in checks["nccl_plugin"]["text"], checks["nccl_plugin"]
    for version, plugin in ("2.28.9", "version 5"), ("2.27.7", "version 4"), ("2.26.2", "version 3"), ("2.25.1", "version 2"), ("2.23.4", "version 1"):
        checks = doctor(build(folder, "exported", "-rdynamic", text=main_too % version))
        assert checks["nccl_preload"]["verdict"] == "yes" and "static" in checks["nccl"]["text"], checks["nccl_preload"]
        assert checks["nccl_plugin"]["verdict"] == "yes" and plugin in checks["nccl_plugin"]["text"], (version, checks["nccl_plugin"])
    checks = doctor(build(folder, "hidden", text=main_too % "2.19.3"))
    assert checks["nccl"]["verdict"] == "yes" and "2.19.3" in checks["nccl"]["text"], checks["nccl"]
    assert checks["nccl_preload"]["verdict"] == "no" and checks["nccl_plugin"]["verdict"] == "no", checks["nccl_plugin"]
    checks = doctor(dynamic, **here, NCCL_PROFILER_PLUGIN="inspector")
    assert checks["nccl_plugin"]["verdict"] == "no" and "inspector" in checks["nccl_plugin"]["text"], checks["nccl_plugin"]
    checks = doctor("env", "NCCL_PROFILER_PLUGIN=none", dynamic, **here)
    told = checks["nccl_plugin"]
    assert told["verdict"] == "no" and "none: NCCL loads no profiler" in told["text"], told
    os.remove(library)
    checks = doctor(build(folder, "empty"), **here)
    if checks["nccl"]["verdict"] == "no":  # no real one on this machine either
        assert checks["nccl_preload"]["verdict"] == checks["nccl_plugin"]["verdict"] == "no"
    else:
        assert checks["nccl"]["verdict"] == "unsure" and "libnccl.so.2" in checks["nccl"]["text"], checks["nccl"]


def who_has_the_gpu(folder):
    """Driver, CUPTI, NVTX and NVML, and who else is there."""
    other = build(folder, "libtool.so", "-shared", "-fPIC", text="int InitializeInjectionNvtx2(void *f) { return !f; }\n")
    told = doctor("mpirun", PYTHON, "job.py", NVTX_INJECTION64_PATH=other)["nvtx"]
    assert told["verdict"] == "yes" and "goes on to " + other in told["text"], told
    none = build(folder, "libnone.so", "-shared", "-fPIC")
    told = doctor("mpirun", PYTHON, "job.py", NVTX_INJECTION64_PATH=none)["nvtx"]
    assert told["verdict"] == "unsure" and none + ", which is no NVTX tool" in told["text"], told
    told = doctor("ls", NVTX_INJECTION64_PATH="/nowhere/libtool.so")["nvtx"]
    assert told["verdict"] == "unsure" and "/nowhere/libtool.so" in told["text"], told
    cupti = build(folder, "libcupti_tool.so", "-shared", "-fPIC",
                  text="int InitializeInjectionNvtx2(void *f) { return !f; }\nint cuptiSubscribe(void) { return 0; }\n")
    told = doctor("mpirun", PYTHON, "job.py", NVTX_INJECTION64_PATH=cupti)["nvtx"]
    assert told["verdict"] == "unsure" and "not NCCL's own" in told["text"] and cupti in told["text"], told
    assert "not NCCL's own" in doctor("env", "NCCL_NVTX_DISABLE=1", "ls")["nvtx"]["text"]

    for variables, words in ({"LAPWING_GPU": "off"}, "LAPWING_GPU=off"), ({"KINETO_USE_DAEMON": "1"}, "left to Kineto"):
        told = doctor("ls", **variables)["cupti"]
        assert told["verdict"] == "no" and words in told["text"], told
    assert "Kineto" not in doctor("ls", KINETO_USE_DAEMON="1", LAPWING_GPU="on")["cupti"]["text"]
    told = doctor("ls", LAPWING_GPU="bogus")["cupti"]
    assert told["verdict"] == "no" and "LAPWING_GPU=bogus is none of on, graphs, off, release" in told["text"], told
    for path, words in ("/nowhere/libX.so", "/nowhere/libX.so, which is not there"), (other, other + ": CUPTI has one subscriber"):
        told = doctor("ls", CUDA_INJECTION64_PATH=path)["cupti"]
        assert "CUDA_INJECTION64_PATH is " + words in told["text"] and told["verdict"] != "yes", told
    # as the tracer would: none newer than the program's own runtime, though the loader has one
    stub = "int cupti(void) { return 0; }\n"
    for name in "libcupti.so.13", "libcupti.so.12":
        build(folder, name, "-shared", "-fPIC", text=stub)
    runtime = build(folder, "libcudart.so.12", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", text="int cudaFree(void) { return 0; }\n")
    program = build(folder, "uses_cuda", runtime, text="int cudaFree(void);\nint main(void) { return cudaFree(); }\n")
    told = doctor(program, LD_LIBRARY_PATH=folder)["cupti"]
    assert folder + "/libcupti.so.12" in told["text"] and "libcupti.so.13" not in told["text"], told
    for name in "libcupti.so.13", "libcupti.so.12", "libcudart.so.12":
        os.remove(os.path.join(folder, name))
    none, cuda = doctor("ls"), "int cuDriverGetVersion(int *v) { *v = 13000; return %d; }\n"
    if none["cupti"]["verdict"] == "no" and "libcuda.so.1" in none["cupti"]["text"]:
        both = doctor("ls", KINETO_USE_DAEMON="1")["cupti"]["text"]
        assert "left to Kineto" in both and "libcuda.so.1" in both, both
        for result, words in (34, "the stub"), (3, "error 3"), (0, "/dev/nvidiactl"):
            build(folder, "libcuda.so.1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", text=cuda % result)
            told = doctor("ls", LD_LIBRARY_PATH=folder)["cupti"]
            assert told["verdict"] == "no" and words in told["text"], (result, told)
        os.remove(os.path.join(folder, "libcuda.so.1"))
        for stub in ("/usr/local/cuda/lib64/stubs/libcuda.so",):
            if os.path.exists(stub):  # of the CUDA toolkit
                os.symlink(stub, os.path.join(folder, "libcuda.so.1"))
                assert "the stub" in doctor("ls", LD_LIBRARY_PATH=folder)["cupti"]["text"]
                os.remove(os.path.join(folder, "libcuda.so.1"))

    nvml = os.path.join(os.environ["LAPWING_BUILD_DIR"], "tests", "nvml")
    told = doctor("ls", LD_LIBRARY_PATH=nvml, FAKE_NVML="gpus=2")["nvml"]
    assert told["verdict"] == "yes" and "2 GPUs, driver 580.95.05" in told["text"], told
    told = doctor("ls", LD_LIBRARY_PATH=nvml, FAKE_NVML="init=9")["nvml"]
    assert told["verdict"] == "no" and told["text"] == "Driver Not Loaded", told
    assert "no GPU" in doctor("ls", LD_LIBRARY_PATH=nvml, FAKE_NVML="gpus=0")["nvml"]["text"]


def what_is_seen_only_under_conditions(folder):
    """A process that merely has sockets or NVTX is not traced, and of a command that is not there nothing is known."""
    plain = build(folder, "hello")
    checks = doctor(plain)
    for name in "nvtx", "socket":
        assert checks[name]["verdict"] == "unsure" and "lapwing_mark_step()" in checks[name]["text"], checks[name]
    checks = doctor("mpirun", "-np", "2", PYTHON, "job.py")
    assert checks["nvtx"]["verdict"] == checks["socket"]["verdict"] == "yes", checks
    checks = doctor("./nonexist", code=1)
    assert checks["reach"]["text"] == "./nonexist: no such command"
    assert not {"horovod", "mpi", "nccl", "nvtx", "cupti", "socket", "verbs"} & set(checks), sorted(checks)


def what_is_in_the_way(folder):
    """Launchers that start the program in another environment: no LD_PRELOAD reaches it there, and what files it has is not known."""
    fakes = {**os.environ, "PATH": folder + ":" + os.environ["PATH"]}["PATH"]
    for name in "docker", "podman", "kubectl", "ssh", "sudo", "su", "srun", "singularity", "apptainer":
        shutil.copy(build(folder, "fake"), os.path.join(folder, name))
    for words, verdict, part in (
            (("docker", "run", "x"), "no", "container"), (("podman", "exec", "x"), "no", "container"),
            (("kubectl", "exec", "pod", "--"), "no", "container"), (("ssh", "host", "mpirun", "-np", "4"), "no", "other host"),
            (("mpirun", "-np", "2", "docker", "run", "x"), "no", "container"), (("sudo", "-E"), "no", "drops LD_PRELOAD"),
            (("su", "-", "me", "-c"), "no", "drops LD_PRELOAD"), (("su", "me", "-c"), "unsure", "unless root"),
            (("env", "LD_PRELOAD="), "no", "takes the place"), (("mpirun", "-x", "LD_PRELOAD=libjemalloc.so"), "no", "takes the place"),
            (("env", "-i"), "no", "clears the environment"), (("env", "-u", "LD_PRELOAD"), "no", "takes LD_PRELOAD out"),
            (("env", "-u", "DISPLAY"), "yes", ""), (("env", "A=B"), "yes", ""), (("nice", "env", "-i"), "no", "clears"),
            (("srun", "--export=NONE"), "no", "--export=ALL"), (("srun", "--export", "A,B"), "no", "--export=ALL"),
            (("mpirun", "-mca", "plm_rsh_agent", "ssh", "-np", "2"), "yes", ""), (("mpirun", "-launcher", "ssh"), "yes", ""),
            (("srun", "--export=ALL,A=B"), "yes", ""), (("srun", "-n", "4"), "yes", ""),
            (("singularity", "exec", "--cleanenv", "i.sif"), "no", "container"), (("apptainer", "exec", "i.sif"), "unsure", "--bind")):
        checks = doctor(*words, PYTHON, "t.py", code=1 if verdict == "no" else 0, PATH=fakes)
        told = checks["reach"]
        assert told["verdict"] == verdict and part in told["text"], (words, told)
        is_elsewhere = verdict != "yes" and any(word in words for word in ("docker", "podman", "kubectl", "ssh", "singularity", "apptainer"))
        assert ("horovod" in checks) == (not is_elsewhere), (words, sorted(checks))
    assert doctor(build(folder, "own"), "docker", "env", "-i", PATH=fakes)["reach"]["verdict"] == "yes"  # arguments of a program
    assert doctor("mpirun", "-np", "2", build(folder, "own"), "--by", "ssh", PATH=fakes)["reach"]["verdict"] == "yes"
    assert doctor(PYTHON, "t.py", "-i", "env", "LD_PRELOAD=", PATH=fakes)["reach"]["verdict"] == "yes"


def whose_python_it_is(folder):
    """A launcher that is a script of Python's, and a shell that starts one; of what a shell starts otherwise nobody knows."""
    torchrun = os.path.join(folder, "torchrun")
    with open(torchrun, "w") as file:
        file.write(f"#!{PYTHON}\n")
    os.chmod(torchrun, 0o755)
    direct = doctor(PYTHON, "t.py")
    assert direct["horovod"]["verdict"] == "yes", direct
    for command in ([torchrun, "--nproc-per-node", "4", "t.py", "test"], ["bash", "-c", f"cd / && {PYTHON} t.py"],
                    ["mpirun", "-np", "2", "sh", "-c", f"{PYTHON} t.py"]):
        checks = doctor(*command, code=None)
        for name in "horovod", "gloo", "ddp", "mpi":
            assert checks[name] == direct[name], (command, checks[name])
    script = os.path.join(folder, "job.sh")
    with open(script, "w") as file:
        file.write("#!/bin/sh\nexec ./job\n")
    os.chmod(script, 0o755)
    for command in [script], ["bash", script], ["bash", "-c", "./job"]:
        for name in "horovod", "gloo", "ddp", "mpi":
            told = doctor(*command)[name]
            assert told["verdict"] == "unsure" and "a shell starts" in told["text"], (command, told)


def main():
    folder = tempfile.mkdtemp(prefix="lapwing-doctor-")
    try:
        checks = doctor("mpirun", "-np", "2", "-x", "A=B", PYTHON, "job.py")
        assert checks["reach"]["verdict"] == "yes"
        assert checks["horovod"]["verdict"] == "yes" and "mpi_lib" in checks["horovod"]["text"], checks["horovod"]
        assert checks["mpi"]["verdict"] == "yes" and checks["gloo"]["verdict"] == "yes"
        assert checks["sample"]["verdict"] == "yes" and "TCP" in checks["sample"]["text"], checks["sample"]

        n = len(os.sched_getaffinity(0))
        for words, verdict in ((("mpirun", "-np", str(n + 1)), "no"), (("horovodrun", "-np", str(8 * n)), "no"), (("mpirun", "-n", str(n)), "unsure"),
                               (("torchrun", f"--nproc_per_node={n + 1}"), "no"), (("mpirun", "-np", str(n + 1), "-H", "a:1,b:1"), "unsure"), ((), "unsure"), (("nice", "-n", "19"), "unsure")):
            told = doctor(*words, PYTHON, "job.py", "-np", "99", code=None)["cores"]
            # a quota of this machine's groups may leave less than its cores
            assert told["verdict"] == verdict or (told["verdict"] == "no" and verdict == "unsure"), (words, told)
        assert "ranks on" in doctor("mpirun", "-np", "99999", PYTHON, "job.py")["cores"]["text"]

        plain = build(folder, "plain")
        checks = doctor(plain)
        assert checks["reach"]["verdict"] == "yes" and checks["horovod"]["verdict"] == "no"
        assert checks["mpi"]["verdict"] == "no"

        fixed = build(folder, "fixed", "-static")
        checks = doctor(fixed, code=1)
        assert checks["reach"]["verdict"] == "no" and "statically" in checks["reach"]["text"]

        os.chmod(plain, os.stat(plain).st_mode | stat.S_ISUID)
        checks = doctor(plain, code=1)
        assert "another user's rights" in checks["reach"]["text"]

        checks = doctor("no-such-command", PYTHON, code=1)
        assert checks["reach"]["text"] == "no-such-command: no such command"

        checks = doctor("ls", LD_PRELOAD=os.path.join(os.environ["LAPWING_BUILD_DIR"], "lib", "liblapwing.so"))
        assert checks["preload"]["verdict"] == "unsure" and "kept" in checks["preload"]["text"]
        what_is_seen_only_under_conditions(folder)
        what_is_in_the_way(folder)
        whose_python_it_is(folder)
        which_nccl(folder)
        who_has_the_gpu(folder)
        bad_output(folder)
        jsonschema.validate(json.loads(subprocess.run([LAPWING, "doctor", "--json"], capture_output=True).stdout), SCHEMA)
    finally:
        shutil.rmtree(folder)
    print("doctor: Horovod job, plain, static, set-user-id and missing commands are told apart")


if __name__ == "__main__":
    main()
