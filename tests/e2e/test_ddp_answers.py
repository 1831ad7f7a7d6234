#!/usr/bin/env python3
"""predict and advise on real torch DDP runs: torch's rule is recognized however DDP makes its buckets, or refused in words."""
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile

import jsonschema

SOURCE, BUILD = os.environ["LAPWING_SOURCE_DIR"], os.environ["LAPWING_BUILD_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
JOB = f"{SOURCE}/tests/e2e/programs/ddp_buckets.py"
STEPS = 12


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lapwing(*arguments):
    return subprocess.run([LAPWING, *arguments], capture_output=True, text=True, timeout=60)


def record(path, mode):
    """What rank 0 printed."""
    environment = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                   "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ranks = "".join(f"RANK={rank} /usr/bin/python3 {JOB} {STEPS} {mode} {'>/dev/null' if rank else ''} & pid{rank}=$!; "
                    for rank in range(2))
    done = subprocess.run([LAPWING, "record", "--quiet", "-o", path, "--", "bash", "-c", f"{ranks} wait $pid0 && wait $pid1"],
                          env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def record_death(path, mode):
    """Of a job whose rank 1 goes: the first lines of the report, in one."""
    environment = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                   "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ranks = "".join(f"RANK={rank} /usr/bin/python3 {JOB} {STEPS} {mode} >/dev/null 2>&1 & " for rank in range(2))
    subprocess.run([LAPWING, "record", "--quiet", "-o", path, "--", "bash", "-c", f"{ranks} wait"], env=environment,
                   capture_output=True, text=True, timeout=100)
    return " ".join(lapwing("report", path).stdout.split("Where a step goes")[0].split())


def check_death(folder):
    """What rank 0 sent into nothing has no size: it is no tensor that changes its size, and no operation of a step."""
    for mode, words in (("leave", r"Left: rank 1 made its last operation (\d+\.\d+) s after the run began and ended at"),
                        ("kill", r"Died: rank 1 was killed or crashed; its last record is of (\d+\.\d+) s after the run")):
        path = os.path.join(folder, f"{mode}.lapwing")
        answer = record_death(path, mode)
        print(f"{mode}: {answer}")
        found = re.search(words, answer)
        assert found, answer
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            (n_failed,), (begin, end) = (db.execute(sql).fetchone() for sql in (
                "SELECT count(*) FROM batch WHERE flags & 32",
                "SELECT (SELECT min(start_ns) FROM process), (SELECT max(b.end_ns) FROM batch b JOIN thread t ON"
                " t.id = b.thread_id JOIN process p ON p.id = t.process_id WHERE p.rank = 1)"))
        assert n_failed, "rank 0 must have gone on"
        assert -0.1 < float(found.group(1)) - (end - begin) / 1e9 < 0.5, (found.group(1), begin, end)
        assert "change their size" not in answer, answer
        report = lapwing("report", path).stdout
        assert f"{n_failed} operation" in " ".join(report.split()) and "unmatched operation" not in report, report
        same, why = predict(path, 25)
        assert same, why


def predict(path, cap_mb):
    done = lapwing("predict", path, "--bucket-cap-mb", f"{cap_mb:.17g}", "--json")
    if done.returncode not in (0, 3):
        return None, done.stderr
    return json.loads(done.stdout), ""


def check_known(path, said, mode):
    """Loopback and real computing on few cores: what is predicted is not judged here, but that it can be."""
    recorded_mb = said["cap_bytes"] / (1 << 20)
    same, why = predict(path, recorded_mb)
    assert same, f"{mode}: {why}"
    jsonschema.validate(same, json.loads(lapwing("predict", "--json-schema").stdout))
    assert same["is_recorded"] and same["setting"]["bucket_cap_bytes"] == said["cap_bytes"], same["setting"]
    assert same["setting"]["first_bucket_bytes"] == said["first_cap_bytes"]
    assert same["recorded_step_ns"]["low"] <= same["step_ns"]["value"] <= same["recorded_step_ns"]["high"]
    other, why = predict(path, 25)
    assert other and not other["is_recorded"], why
    text = lapwing("predict", path, "--bucket-cap-mb", "25", "--first-bucket-mb", "0.5").stdout
    assert "buckets of 25 MiB, the first of 512 KiB" in " ".join(text.split()), text
    advice = json.loads(lapwing("advise", path, "--json").stdout)
    about = [one for one in advice["advice"] + advice.get("findings", []) if one["id"] == "ddp.buckets"]
    assert about, advice
    print(f"{mode or 'default'}: {same['step_ns']['value'] / 1e6:.1f} ms at {recorded_mb:.2g} MiB, "
          f"{other['step_ns']['value'] / 1e6:.1f} ms predicted at 25 MiB; replay off by {same['replay']['error_frac']:.1%}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("", "fp16", "unused", "static"):
            path = os.path.join(folder, f"{mode or 'default'}.lapwing")
            said = record(path, mode)
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
                (n_parameters,), (n_gradients,) = (db.execute(f"SELECT count(*) FROM {table}").fetchone()
                                                   for table in ("parameter", "gradient"))
            # static_graph sends what its first pass makes when that is over, without looking at one parameter
            assert n_parameters == 2 * len(said["sizes"]), (n_parameters, said["sizes"])
            assert n_gradients == (STEPS - (mode == "static")) * n_parameters, (n_gradients, n_parameters)
            check_known(path, said, mode)
        path = os.path.join(folder, "part.lapwing")
        record(path, "part")
        answer, why = predict(path, 25)
        assert answer is None and "torch's rule" in why, (answer, why)
        print(f"part: {why.strip()}")
        check_death(folder)


if __name__ == "__main__":
    sys.exit(main())
