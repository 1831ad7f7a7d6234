#!/usr/bin/env python3
"""`lapwing doctor`: tells, before anything runs, what can be preloaded and which hooks will see it."""
import json
import os
import shutil
import stat
import subprocess
import tempfile

import jsonschema

LAPWING = os.path.join(os.environ["LAPWING_BUILD_DIR"], "bin", "lapwing")
PYTHON = os.environ.get("LAPWING_PYTHON", os.path.join(os.environ["LAPWING_SOURCE_DIR"], ".venv/bin/python3"))
SCHEMA = json.loads(subprocess.run([LAPWING, "doctor", "--json-schema"], capture_output=True, check=True).stdout)


def doctor(*command, code=0, **environment):
    done = subprocess.run([LAPWING, "doctor", "--json", "--", *command], capture_output=True, text=True,
                          env={**os.environ, **environment})
    assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, SCHEMA)
    return {check["id"]: check for check in answer["checks"]}


def build(folder, name, *flags):
    source = os.path.join(folder, name + ".c")
    with open(source, "w") as file:
        file.write("int main(void) { return 0; }\n")
    program = os.path.join(folder, name)
    subprocess.run(["cc", source, "-o", program, *flags], check=True)
    return program


def main():
    folder = tempfile.mkdtemp(prefix="lapwing-doctor-")
    try:
        checks = doctor("mpirun", "-np", "2", "-x", "A=B", PYTHON, "job.py")
        assert checks["reach"]["verdict"] == "yes"
        assert checks["horovod"]["verdict"] == "yes" and "mpi_lib" in checks["horovod"]["text"], checks["horovod"]
        assert checks["mpi"]["verdict"] == "yes" and checks["gloo"]["verdict"] == "yes"
        assert checks["sample"]["verdict"] == "yes" and "TCP" in checks["sample"]["text"], checks["sample"]

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
        jsonschema.validate(json.loads(subprocess.run([LAPWING, "doctor", "--json"], capture_output=True).stdout), SCHEMA)
    finally:
        shutil.rmtree(folder)
    print("doctor: Horovod job, plain, static, set-user-id and missing commands are told apart")


if __name__ == "__main__":
    main()
