#!/usr/bin/env python3
"""Every way to start a job gives complete runs: one `record` per rank, one around the launcher, and the
variables alone; Horovod over MPI and Gloo, plain MPI (Open MPI and MPICH), torch DDP over Gloo.

Bytes: what the run says was all-reduced is exactly what the job says; socket bytes agree with TCP_INFO.
"""
import contextlib
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

BUILD = os.environ["LAPWING_BUILD_DIR"]
SOURCE = os.environ["LAPWING_SOURCE_DIR"]
LAPWING = os.path.join(BUILD, "bin", "lapwing")
PRELOAD = os.path.join(BUILD, "lib", "liblapwing.so")
PYTHON = os.environ.get("LAPWING_PYTHON", os.path.join(SOURCE, ".venv/bin/python3"))
PROGRAMS = os.path.join(SOURCE, "tests/e2e/programs")
STEPS = 12
ALLREDUCE = 1  # enum lw_coll

ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1",
               "PATH": os.path.dirname(PYTHON) + ":" + os.environ["PATH"]}
for name in ("LD_PRELOAD", "LAPWING_OUT", "LAPWING_DIR", "HOROVOD_TIMELINE"):
    ENVIRONMENT.pop(name, None)


def run(command, folder, **environment):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, env={**ENVIRONMENT, **environment})
    assert done.returncode == 0, (command, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def said(text):
    """The JSON objects that the ranks printed, whatever the launcher put in front of or between them."""
    return [json.loads(found) for found in re.findall(r'\{"rank"[^{}]*\}', text)]


def rows(paths, sql):
    found = []
    for path in paths:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            found += db.execute(sql).fetchall()
    return found


def check_complete(paths, n_ranks):
    for path in paths:
        done = subprocess.run([LAPWING, "info", "--json", path], capture_output=True, text=True)
        assert done.returncode == 0, (path, done.returncode, done.stdout[-3000:], done.stderr)
    ranks = sorted(r for r, in rows(paths, "SELECT rank FROM process WHERE rank IS NOT NULL"))
    assert ranks == list(range(n_ranks)), ranks
    assert rows(paths, "SELECT * FROM loss") == [] and rows(paths, "SELECT n_lost FROM thread WHERE n_lost") == []
    assert all(ended == "exit" for ended, in rows(paths, "SELECT ended FROM process"))
    # one call opens all the files, and nothing is missing in what it says
    report = subprocess.run([LAPWING, "report", "--json", *paths], capture_output=True, text=True)
    assert report.returncode == 0, (report.returncode, report.stdout[-2000:], report.stderr)
    return json.loads(report.stdout)


def check_batches(paths, expected):
    """All-reduced bytes exactly as the job's tensors say, on every rank, and the same order everywhere."""
    orders = []
    for job in expected:
        where = f"WHERE p.rank = {job['rank']} AND b.op = {ALLREDUCE}"
        join = "JOIN thread t ON t.id = b.thread_id JOIN process p ON p.id = t.process_id"
        [(total,)] = rows(paths, f"SELECT sum(b.bytes) FROM batch b {join} {where}") if len(paths) == 1 else \
            [r for r in rows(paths, f"SELECT sum(b.bytes) FROM batch b {join} {where}") if r[0] is not None]
        assert total == job["steps"] * job["step_bytes"], (job["rank"], total, job)
        orders.append([(b, name) for b, name in rows(paths, f"""SELECT b.n_tensors, s.text FROM batch b {join}
            JOIN batch_tensor bt ON bt.batch = b.batch AND bt.thread_id = b.thread_id
            JOIN string s ON s.id = bt.name_id {where} ORDER BY b.start_ns, bt.position""")])
    assert all(order == orders[0] for order in orders), "ranks disagree on the order of operations"
    return orders[0]


def check_sockets(paths):
    """Hooked bytes against the kernel's, over all connections that were closed or seen at the end."""
    found = rows(paths, """SELECT x.sent, x.received, y.acked, y.got FROM
        (SELECT process_id, socket, max(sent_bytes) AS sent, max(received_bytes) AS received FROM socket_sample GROUP BY 1, 2) x
        JOIN (SELECT process_id, socket, max(acked_bytes) AS acked, max(received_bytes) AS got FROM tcp_sample GROUP BY 1, 2) y
        ON x.process_id = y.process_id AND x.socket = y.socket""")
    sent, received = sum(r[0] for r in found), sum(r[1] for r in found)
    acked, got = sum(r[2] for r in found), sum(r[3] for r in found)
    return sent, acked, received, got


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def horovod_per_rank(folder, launcher):
    done = run([*launcher, LAPWING, "record", "-o", "run-%r.lapwing", "--", PYTHON, f"{PROGRAMS}/horovod_job.py", str(STEPS)], folder)
    return [f"{folder}/run-{r}.lapwing" for r in range(2)], said(done.stdout)


def horovod_around(folder, launcher):
    done = run([LAPWING, "record", "-o", "run.lapwing", "--", *launcher, PYTHON, f"{PROGRAMS}/horovod_job.py", str(STEPS)], folder)
    return [f"{folder}/run.lapwing"], said(done.stdout)


def wait_closed(path):
    """A job started with the variables alone ends before its collector does: wait for the closed file."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if rows([path], "SELECT closed FROM run") == [(1,)] and not os.path.exists(path + "-wal"):
                return
        except sqlite3.Error:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{path} was not closed within 30 s")


def horovod_variables(folder, launcher):
    path = f"{folder}/run.lapwing"
    done = run([*launcher, PYTHON, f"{PROGRAMS}/horovod_job.py", str(STEPS)], folder, LD_PRELOAD=PRELOAD, LAPWING_OUT=path)
    wait_closed(path)
    return [path], said(done.stdout)


MPIRUN = ["mpirun.openmpi", "-np", "2", "--oversubscribe"]
HVDRUN = ["horovodrun", "--gloo", "-np", "2"]
HOROVOD = [(horovod_per_rank, MPIRUN), (horovod_per_rank, HVDRUN), (horovod_around, MPIRUN), (horovod_around, HVDRUN),
           (horovod_variables, MPIRUN), (horovod_variables, HVDRUN)]


def test_horovod(folder):
    for i, (start, launcher) in enumerate(HOROVOD):
        here = os.path.join(folder, f"hvd{i}")
        os.mkdir(here)
        paths, expected = start(here, launcher)
        assert len(expected) == 2, expected
        report = check_complete(paths, 2)
        order = check_batches(paths, expected)
        names = {name for _, name in order if name.startswith("allreduce.")}
        assert names == set(expected[0]["tensors"]), names
        assert report["collectives"]["bytes_per_step"]["value"] == expected[0]["step_bytes"], report["collectives"]
        sent, acked, received, got = check_sockets(paths)
        print(f"horovod {start.__name__[8:]:9} {launcher[0]:15} {len(order)} tensors in order, bytes exact; sockets sent {sent} "
              f"(kernel {acked}), received {received} (kernel {got})")
        if launcher is HVDRUN:
            # the ring sends 2 S (N - 1) / N = S per rank and step, plus preambles, negotiation and the broadcast
            payload = 2 * STEPS * expected[0]["step_bytes"]
            assert sent >= payload, (sent, payload)
            assert abs(sent - acked) <= 0.001 * sent + 4096 and abs(received - got) <= 0.001 * received + 4096
            print(f"  payload {payload}, share of preambles, negotiation and set-up {(sent - payload) / sent:.4f}")


def test_mpi(folder):
    for kind in ("openmpi", "mpich"):
        here = os.path.join(folder, kind)
        os.mkdir(here)
        program = os.path.join(here, "allreduce")
        subprocess.run([f"mpicc.{kind}", f"{PROGRAMS}/allreduce.c", "-o", program], check=True)
        launcher = MPIRUN if kind == "openmpi" else ["mpirun.mpich", "-np", "2"]
        for around in (True, False):
            out = "run.lapwing" if around else "run-%r.lapwing"
            record = [LAPWING, "record", "-o", out, "--"]
            run([*record, *launcher, program] if around else [*launcher, *record, program], here)
            paths = [f"{here}/run.lapwing"] if around else [f"{here}/run-{r}.lapwing" for r in range(2)]
            check_complete(paths, 2)
            found = rows(paths, f"SELECT sent_bytes FROM collective WHERE op = {ALLREDUCE} AND NOT flags & 8")
            assert found == [(8000,)] * 100, (kind, len(found))
            assert rows(paths, "SELECT bytes FROM message ORDER BY op") in ([(8000,), (8000,)],), kind
            print(f"mpi {kind} {'around the launcher' if around else 'per rank'}: 100 all-reduces of 8000 bytes, 2 messages")


def test_ddp(folder):
    here = os.path.join(folder, "ddp")
    os.mkdir(here)
    port = free_port()
    script = os.path.join(here, "both.sh")
    with open(script, "w") as file:
        file.write(f"""export MASTER_ADDR=127.0.0.1 MASTER_PORT={port} WORLD_SIZE=2
RANK=1 /usr/bin/python3 {PROGRAMS}/ddp_job.py {STEPS} & RANK=0 /usr/bin/python3 {PROGRAMS}/ddp_job.py {STEPS}; wait
""")
    done = run([LAPWING, "record", "-o", "run.lapwing", "--", "bash", script], here)
    paths, expected = [f"{here}/run.lapwing"], said(done.stdout)
    check_complete(paths, 2)
    for job in expected:
        [(total,)] = rows(paths, f"""SELECT sum(b.bytes) FROM batch b JOIN thread t ON t.id = b.thread_id JOIN process p ON
            p.id = t.process_id WHERE p.rank = {job['rank']} AND b.op = {ALLREDUCE}""")
        assert total >= job["steps"] * job["step_bytes"], (total, job)
        print(f"ddp rank {job['rank']}: {total} bytes in buckets, gradients {job['steps'] * job['step_bytes']}")


def main():
    folder = tempfile.mkdtemp(prefix="lapwing-launch-")
    wanted = sys.argv[1:] or ["horovod", "mpi", "ddp"]
    try:
        for name in wanted:
            globals()[f"test_{name}"](folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
