#!/usr/bin/env python3
"""record --probe on real jobs: every rank sends the same, within its time; the job is the same job; no rank waits in vain."""
import collections
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import jsonschema
import rings
from horovod_run import BUILD, SOURCE, Run

LAPWING = os.path.join(BUILD, "bin", "lapwing")
SIZES = {8, 64, 512, 2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 32 << 20}
PROBE_S, MARGIN_S = 2.5, 0.5  # one operation may begin just before the end
FOREIGN_BITS = 0xff << 56  # by which the ranks agree on a probe; Horovod must not see them


def work(run):
    """What the job itself did: by rank, batches as (operation, names, bytes)."""
    return {rank: [(batch["coll"], tuple(member["name"] for member in batch["members"]), batch["bytes"])
                   for batch in rings.batches(process)[0]] for rank, process in run.traced.items()}


def tensors(run):
    return {rank: collections.Counter(name for _, names, _ in batches for name in names) for rank, batches in work(run).items()}


def operations(process):
    return [(event["number"], event["burst"], event["position"], event["bytes"]) for event in rings.of_kind(process, "PROBE")]


def probed(launcher):
    """All sizes on both ranks, alike, in time, before the first batch; the rest as without a probe."""
    transport = {"mpi": 1, "gloo": 2}[launcher]
    with Run(launcher, "train", env={"LAPWING_PROBE": PROBE_S}) as run, Run(launcher, "train") as plain:
        assert run.code == plain.code == 0 and run.output == plain.output, (run.code, run.output, plain.output)
        assert tensors(run) == tensors(plain), "other tensors were reduced"
        assert not any(rings.of_kind(process, "PROBE") for process in plain.traced.values()), "a probe nobody asked for"
        both = [operations(run.traced[rank]) for rank in (0, 1)]
        assert both[0] == both[1] and both[0], [len(one) for one in both]
        assert [number for number, *_ in both[0]] == list(range(len(both[0])))
        assert {size for *_, size in both[0]} == SIZES, {size for *_, size in both[0]}
        n_bursts = {size: len({burst for _, burst, _, own in both[0] if own == size}) for size in SIZES}
        assert all(n_bursts[size] >= 5 for size in SIZES if size <= 8 << 10), n_bursts
        for rank, process in run.traced.items():
            assert process["lost"] == 0 and not rings.of_kind(process, "LOSS")
            assert not [hook for hook in rings.of_kind(process, "HOOK") if hook["name"] == "probe"]
            probe = rings.of_kind(process, "PROBE")
            assert {event["transport"] for event in probe} == {transport}
            span_s = (probe[-1]["t1"] - probe[0]["t0"]) / 1e9
            assert span_s <= PROBE_S + MARGIN_S, f"{span_s} s"
            for event in process["events"]:  # nothing else of this thread in between
                if event["tid"] == probe[0]["tid"] and event["kind"] in ("CYCLE", "COLLECTIVE", "BATCH"):
                    assert event["t1"] <= probe[0]["t0"] or event["t0"] >= probe[-1]["t1"], event
            assert rings.of_kind(process, "BATCH")[0]["t0"] >= probe[-1]["t1"]
            rounds = [event for event in rings.of_kind(process, "CYCLE") if event["op"] == 1]
            assert not any((event["in_bits"] | event["out_bits"]) & FOREIGN_BITS for event in rounds)
        times = zip(rings.of_kind(run.traced[0], "PROBE"), rings.of_kind(run.traced[1], "PROBE"))
        service = collections.defaultdict(list)
        for one, other in times:
            service[one["bytes"]].append(max(one["t1"], other["t1"]) - max(one["t0"], other["t0"]))
        assert all(time > 0 for each in service.values() for time in each), "a rank left before the other had come"
        print(f"{launcher}: {len(both[0])} operations in {span_s:.2f} s; median service, us: "
              + " ".join(f"{size}:{statistics.median(service[size]) / 1e3:.0f}" for size in sorted(SIZES)))


def asked_on_one_rank(launcher):
    """The other rank knows of nothing: the job must not wait for it, nor see anything of it."""
    only = ["bash", "-c", 'if [ "${OMPI_COMM_WORLD_RANK:-$HOROVOD_RANK}" = 1 ]; then export LAPWING_PROBE=2; fi; exec "$0" "$@"']
    with Run(launcher, "train", before=only) as run, Run(launcher, "train", traced=False) as plain:
        assert run.code == 0 and run.output == plain.output, (run.code, run.output)
        assert not any(rings.of_kind(process, "PROBE") for process in run.traced.values())
        told = {rank: [event["detail"] for event in rings.of_kind(process, "HOOK") if event["name"] == "probe"]
                for rank, process in run.traced.items()}
        assert told[0] == [] and len(told[1]) == 1 and "not every rank" in told[1][0], told
    print(f"{launcher}: asked on one rank of two: no probe, the same result")


def without_a_tracer_on_one_rank(launcher):
    only = ["bash", "-c", 'if [ "${OMPI_COMM_WORLD_RANK:-$HOROVOD_RANK}" = 0 ]; then export LAPWING_DISABLE=1; fi; exec "$0" "$@"']
    with Run(launcher, "train", env={"LAPWING_PROBE": 2}, before=only) as run, Run(launcher, "train", traced=False) as plain:
        assert run.code == 0 and run.output == plain.output, (run.code, run.output)
        assert sorted(run.traced) == [1] and not rings.of_kind(run.traced[1], "PROBE")
    print(f"{launcher}: traced on one rank of two: no probe, the same result")


def without_a_cache(launcher):
    with Run(launcher, "train", env={"LAPWING_PROBE": 2, "HOROVOD_CACHE_CAPACITY": 0}) as run:
        assert run.code == 0
        for process in run.traced.values():
            assert not rings.of_kind(process, "PROBE")
            told = [event["detail"] for event in rings.of_kind(process, "HOOK") if event["name"] == "probe"]
            assert len(told) == 1 and "response cache" in told[0], told
    print(f"{launcher}: without a response cache: no probe, and that is said")


def lapwing(*arguments):
    return subprocess.run([LAPWING, *arguments], capture_output=True, text=True, timeout=60)


def recorded(launcher):
    """The same from end to end: `record --probe`, what info says, and a report that does not know of the probe."""
    with tempfile.TemporaryDirectory() as folder:
        reports = {}
        for name, options in (("probe", ["--probe=1"]), ("plain", [])):
            path = os.path.join(folder, name)
            with Run(launcher, "train", run_file=path, options=options) as run:
                assert run.code == 0, run.errors
            told = json.loads(lapwing("info", "--json", path).stdout)
            jsonschema.validate(told, json.loads(lapwing("info", "--json-schema").stdout))
            probe = told["runs"][0]["probe"]
            with sqlite3.connect(path) as db:
                rows = db.execute("SELECT rank, count(*), count(DISTINCT number) FROM v_probe GROUP BY rank").fetchall()
            if options:
                n = probe["n_operations"]
                assert rows == [(0, n, n), (1, n, n)] and n > 50, rows
                assert probe["min_bytes"] == 8 and probe["n_sizes"] >= 9
                span_s = probe["duration_ns"] / 1e9
                assert span_s < 1 + MARGIN_S, probe
                assert f"{n} collectives" in lapwing("info", path).stdout
            else:
                assert probe["n_operations"] == 0 and rows == []
            reports[name] = json.loads(lapwing("report", "--json", path).stdout)
        values = [reports[name]["collectives"]["bytes_per_step"]["value"] for name in ("probe", "plain")]
        assert values[0] == values[1], values
        steps = [reports[name]["steps"]["n"] + reports[name]["steps"]["n_excluded"] for name in ("probe", "plain")]
        assert steps[0] == steps[1], steps
        print(f"{launcher}: record --probe=1: {n} operations in {span_s:.2f} s")


def plain_mpi(mpi):
    """No Horovod: all-reduces on a copy of MPI_COMM_WORLD, where all ranks are seen to be asked; else none, and no hang."""
    n_ranks = 3
    launcher = [f"mpirun.{mpi}", "-np", str(n_ranks)] + (["--oversubscribe"] if mpi == "openmpi" else [])
    one_asked = ["bash", "-c", 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then export LAPWING_PROBE=1; fi; exec "$0"']
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "allreduce")
        subprocess.run([f"mpicc.{mpi}", "-O1", "-w", os.path.join(SOURCE, "tests/e2e/programs/allreduce.c"), "-o", program],
                       check=True)

        def job(name, *command):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd=folder)
            assert done.returncode == 0, (name, done.stdout, done.stderr)
            assert sorted(json.loads(line)["rank"] for line in done.stdout.splitlines()) == list(range(n_ranks)), done.stdout
            with sqlite3.connect(os.path.join(folder, name)) as db:
                return ({rank: db.execute("SELECT number, burst, position, bytes FROM v_probe WHERE rank = ? ORDER BY number",
                                          (rank,)).fetchall() for rank in range(n_ranks)},
                        db.execute("SELECT op, sent_bytes, count(*) FROM collective GROUP BY 1, 2 ORDER BY 1, 2").fetchall(),
                        db.execute("SELECT d.text FROM hook k JOIN string n ON n.id = k.name_id JOIN string d ON d.id = k.detail_id"
                                   " WHERE n.text = 'probe'").fetchall())

        record = [LAPWING, "record", "-q"]
        plain = job("plain", *record, "-o", "plain", "--", *launcher, program)
        assert not any(plain[0].values()) and plain[2] == [], plain
        probe = job("probe", *record, "--probe=1", "-o", "probe", "--", *launcher, program)
        assert probe[0][0] and all(probe[0][rank] == probe[0][0] for rank in range(n_ranks)), probe[0]
        assert probe[1] == plain[1] and probe[2] == [], (probe[1:], plain[1:])
        one = job("one", *record, "-o", "one", "--", *launcher, *one_asked, program)
        assert not any(one[0].values()) and one[1] == plain[1] and len(one[2]) == 1, one
        each = job("each.0", *launcher, *record, "--probe=1", "-o", "each.%r", "--", program)
        assert not any(each[0].values()) and "one host" in each[2][0][0], each
    print(f"{mpi}: plain MPI, --probe=1: {len(probe[0][0])} operations, up to {max(size for *_, size in probe[0][0])} bytes, "
          f"{n_ranks} ranks alike; none when one rank is asked, or each is recorded alone")


def bad_options():
    for value in ("0", "-1", "x", "5s", "601", "nan"):
        done = lapwing("record", f"--probe={value}", "--", "true")
        assert done.returncode == 2 and "--probe" in done.stderr, (value, done)


def main():
    bad_options()
    for mpi in ("openmpi", "mpich"):
        plain_mpi(mpi)
    for launcher in sys.argv[1:] or ["gloo", "mpi"]:
        for test in (probed, asked_on_one_rank, without_a_tracer_on_one_rank, without_a_cache, recorded):
            test(launcher)
            print(f"{launcher}: {test.__name__}: passed", flush=True)


if __name__ == "__main__":
    main()
