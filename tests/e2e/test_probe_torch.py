#!/usr/bin/env python3
"""lapwing_probe.py in a torch.distributed job and beside it: the same operations on all ranks, and the job is the same job."""
import collections
import json
import os
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rings
import traced

LAPWING = str(traced.BUILD / "bin" / "lapwing")
TRACER = str(traced.SOURCE / "tracer")
JOB = str(traced.SOURCE / "tests" / "e2e" / "programs" / "ddp_job.py")
PYTHON = "/usr/bin/python3"  # Debian's torch
PROBE_S, MARGIN_S, N_RANKS, STEPS = 1.5, 0.5, 2, 8


def environment(rank, port):
    return {"RANK": str(rank), "WORLD_SIZE": str(N_RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": TRACER, "PYTHONDONTWRITEBYTECODE": "1"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def train(probing, **of_rank):
    """[(process, output)] of the ranks; @probing: JOB_PROBES is set, @of_rank: r0={...} more for rank 0."""
    port = free_port()
    jobs = [([PYTHON, JOB, str(STEPS)], {**environment(rank, port), **({"JOB_PROBES": "1"} if probing else {}),
                                         **of_rank.get(f"r{rank}", {})}) for rank in range(N_RANKS)]
    done = traced.run_all(jobs)
    for one in done:
        assert one.code == 0, one.stderr
    return [(one.only(), json.loads(one.stdout)) for one in done]


def count(process):
    """Of everything that is the job's own: how many, and how many bytes."""
    result = collections.Counter(event["kind"] for event in process["events"] if event["kind"] in ("READY", "BATCH"))
    result.update((event["op"], event["sent_bytes"]) for event in rings.of_kind(process, "COLLECTIVE"))
    return result


def in_the_job():
    asked = {"LAPWING_PROBE": str(PROBE_S)}
    probed, plain = train(True, r0=asked, r1=asked), train(False)
    operations = [[(event["number"], event["burst"], event["position"], event["bytes"])
                   for event in rings.of_kind(process, "PROBE")] for process, _ in probed]
    assert operations[0] == operations[1] and len(operations[0]) > 50, [len(one) for one in operations]
    assert min(size for *_, size in operations[0]) == 48 and {size for *_, size in operations[0]} >= {64, 512, 2048, 8192}
    for (process, said), (process_plain, said_plain) in zip(probed, plain):
        assert said == said_plain and count(process) == count(process_plain), (count(process), count(process_plain))
        probe = rings.of_kind(process, "PROBE")
        span_s = (probe[-1]["t1"] - probe[0]["t0"]) / 1e9
        assert span_s <= PROBE_S + MARGIN_S, span_s
        assert not [event for event in process["events"] if event["kind"] in ("COLLECTIVE", "WAIT", "BATCH")
                    and event["t1"] > probe[0]["t0"] and event["t0"] < probe[-1]["t1"]]
        assert not [event for event in rings.of_kind(process, "HOOK") if event["name"] == "probe"]
    print(f"in the job: {len(operations[0])} operations in {span_s:.2f} s; the job is the same")


def in_the_job_on_one_rank():
    done = train(True, r1={"LAPWING_PROBE": "2"})
    assert not any(rings.of_kind(process, "PROBE") for process, _ in done)
    told = [[event["detail"] for event in rings.of_kind(process, "HOOK") if event["name"] == "probe"] for process, _ in done]
    assert told[0] == [] and "not every rank" in told[1][0], told
    print("in the job, asked on one rank of two: no probe")


def beside_the_job():
    port = free_port()
    ranks = "; ".join(f'RANK={rank} "$0" "$@" &' for rank in range(N_RANKS)).replace("&;", "&") + " wait"
    with tempfile.TemporaryDirectory() as folder:
        for name, options, script in (("run", [], [JOB, str(STEPS)]), ("probe", ["--probe=1"], [f"{TRACER}/lapwing_probe.py"])):
            env = {**os.environ, **environment(0, port + (name == "run"))}
            done = subprocess.run([LAPWING, "record", "-q", *options, "-o", f"{folder}/{name}", "--", "bash", "-c", ranks, PYTHON,
                                   *script], env=env, capture_output=True, text=True, timeout=100)
            assert done.returncode == 0, done.stderr
        told = [json.loads(subprocess.run([LAPWING, "report", "--json", *paths], capture_output=True, text=True, check=True).stdout)
                for paths in ([f"{folder}/run"], [f"{folder}/run", f"{folder}/probe"])]
        assert told[0]["steps"] == told[1]["steps"] and told[0]["collectives"] == told[1]["collectives"]
        kinds = {row["kind"] for row in told[1]["diag"]}
        assert not kinds & {"duplicate rank", "probe not whole", "missing ranks"}, kinds
        info = json.loads(subprocess.run([LAPWING, "info", "--json", f"{folder}/probe"], capture_output=True, text=True,
                                         check=True).stdout)["runs"][0]
        assert info["probe"]["n_operations"] > 50 and info["rows"]["collective"] == info["rows"]["wait"] == 0, info["rows"]
        print(f"beside the job: {info['probe']['n_operations']} operations; the report of both is that of the job")


def asked_for_and_not_called():
    """The script has no lapwing_probe.run(): record, info and the report say that there was no probe, and what it takes."""
    ranks = "; ".join(f'RANK={rank} "$0" "$@" &' for rank in range(N_RANKS)).replace("&;", "&") + " wait"
    with tempfile.TemporaryDirectory() as folder:
        for options in (["--probe=1"], []):
            env = {**os.environ, **environment(0, free_port())}
            done = subprocess.run([LAPWING, "record", *options, "-o", f"{folder}/run", "--", "bash", "-c", ranks, PYTHON, JOB, str(STEPS)],
                                  env=env, capture_output=True, text=True, timeout=100)
            assert done.returncode == 0, done.stderr
            said = [done.stderr] + [" ".join(subprocess.run([LAPWING, verb, f"{folder}/run"], capture_output=True, text=True).stdout.split())
                                    for verb in ("info", "report")]
            for text in said:
                assert ("with torch.distributed the script makes it" in text) == bool(options), text
        assert "--probe: there was none" not in done.stderr


def main():
    for test in (in_the_job, in_the_job_on_one_rank, beside_the_job, asked_for_and_not_called):
        test()
        print(f"{test.__name__}: passed", flush=True)


if __name__ == "__main__":
    main()
