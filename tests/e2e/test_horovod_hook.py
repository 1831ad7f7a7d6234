#!/usr/bin/env python3
"""What the Horovod hook records of real jobs is what those jobs did: over MPI and over Gloo, on both ranks."""
import collections
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import horovod_run
import rings
from horovod_run import Run

N_STEPS, N_LAYERS, WIDTH = 20, 4, 96


def by_name(members):
    return collections.Counter(members)


def check_ranks(run, label):
    """Every rank: what was executed and enqueued is what the job says it called, byte for byte."""
    assert run.code == 0, f"{label}: exit {run.code}"
    assert sorted(run.traced) == sorted(run.ranks) == [0, 1], f"{label}: ranks {sorted(run.traced)}"
    gaps_ns, orders = [], []
    for rank, told in run.ranks.items():
        process = run.traced[rank]
        assert process["lost"] == 0 and not rings.of_kind(process, "LOSS"), f"{label}: losses on rank {rank}"
        batches, unfinished = rings.batches(process)
        assert not unfinished
        for batch in batches:
            assert batch["n_tensors"] == len(batch["members"])
            assert batch["bytes"] == sum(member["bytes"] for member in batch["members"])
            assert batch["t0"] <= batch["t1"]
        seen = by_name((batch["coll"], member["name"], member["bytes"], batch["process_set"])
                       for batch in batches for member in batch["members"] if batch["coll"] != "join")
        said = by_name((call["coll"], call["name"], call["bytes"], call["set"])
                       for call in told["calls"] if call["coll"] != "join")
        assert seen == said, f"{label} rank {rank}: not seen {said - seen}, not called {seen - said}"
        joins = sum(batch["coll"] == "join" for batch in batches)
        assert joins == sum(call["coll"] == "join" for call in told["calls"])
        enqueued = [call for call in told["calls"] if call["is_ready"]]
        readies = rings.of_kind(process, "READY")
        assert len(readies) == len(enqueued), f"{label} rank {rank}: {len(readies)} READY, {len(enqueued)} enqueued"
        ready = horovod_run.ready_of(process)
        assert len(ready) == len(enqueued), f"{label} rank {rank}: {len(ready)} of {len(enqueued)} joined with a name"
        windows = collections.defaultdict(list)
        for call in enqueued:
            windows[call["name"]].append(call)
        for batch in batches:
            for position, member in enumerate(batch["members"]):
                event = ready.get((batch["batch"], position))
                if event is None:
                    continue
                call = windows[member["name"]].pop(0)
                assert call["before_ns"] <= event["t0"] <= call["after_ns"], f"{member['name']}: not in its call"
                assert event["bytes"] == call["bytes"]
                assert event["t0"] <= batch["t0"]
                gaps_ns.append(call["after_ns"] - event["t0"])
        orders.append([[member["name"] for member in batch["members"]] for batch in batches
                       if batch["process_set"] == 0 and batch["coll"] != "join"])
        failed = {member["name"] for batch in batches if batch["flags"] & rings.FAILED for member in batch["members"]}
        assert failed == {call["name"] for call in told["calls"] if call["is_failed"]}
        places = {(event["rank"], event["size"]) for event in rings.of_kind(process, "PROCESS")}
        assert places == {(rank, 2)}
    assert orders[0] == orders[1], f"{label}: the ranks executed different batches"
    n = sum(len(batch) for batch in orders[0])
    print(f"{label}: {n} tensors in {len(orders[0])} batches a rank, order and bytes equal; enqueue to return of the call: "
          f"median {statistics.median(gaps_ns) / 1000:.1f} us, largest {max(gaps_ns) / 1000:.0f} us")


def settings_of(process, source):
    result = collections.defaultdict(list)
    for event in rings.of_kind(process, "SETTING"):
        if event["source"] == source:
            result[rings.SETTINGS[event["op"]]].append(event["value"])
    return result


DEFAULT, ENV, LIVE = 1, 2, 3


def check_wire(run, launcher):
    """Each batch has its time on the wire inside it, with the same bytes: told by Gloo's hook here, or MPI's."""
    for process in run.traced.values():
        transport = {"mpi": 1, "gloo": 2}[launcher]
        wires = [event for event in rings.of_kind(process, "COLLECTIVE")
                 if event["transport"] == transport and not event["flags"] & rings.CONTROL]
        if launcher == "mpi":
            reduced = [batch for batch in rings.batches(process)[0] if batch["coll"] == "allreduce"]
            for batch in reduced:
                inside = [wire for wire in wires if batch["t0"] <= wire["t0"] <= wire["t1"] <= batch["t1"]]
                assert [(wire["op"], wire["sent_bytes"]) for wire in inside] == [(1, batch["bytes"])], (batch, inside)
            continue
        batches = [batch for batch in rings.batches(process)[0]
                   if batch["coll"] in ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter")]
        assert len(wires) == len(batches)
        comms = {event["comm"]: event for event in rings.of_kind(process, "COMM")}
        for batch, wire in zip(batches, sorted(wires, key=lambda wire: wire["t0"])):
            assert batch["t0"] <= wire["t0"] <= wire["t1"] <= batch["t1"]
            assert rings.COLLS[wire["op"]] == batch["coll"]
            assert comms[wire["comm"]]["size"] == (1 if batch["process_set"] else 2)
            if batch["coll"] in ("allreduce", "allgather", "alltoall", "reducescatter"):
                assert wire["sent_bytes"] == batch["bytes"], (wire, batch)
            else:
                assert max(wire["sent_bytes"], wire["received_bytes"]) == batch["bytes"]


def trained(launcher):
    with Run(launcher, "train", env={"JOB_STEPS": N_STEPS}) as run, Run(launcher, "train", traced=False) as plain:
        check_ranks(run, f"{launcher} train")
        check_wire(run, launcher)
        assert (run.code, run.output) == (plain.code, plain.output), f"{run.output} traced, {plain.output} untraced"
        for process in run.traced.values():
            batches, _ = rings.batches(process)
            total = sum(batch["bytes"] for batch in batches)
            assert total == N_STEPS * N_LAYERS * (WIDTH * WIDTH + WIDTH) * 4, total
            told = settings_of(process, DEFAULT)
            assert told["fusion_bytes"] == [128 << 20] and told["cycle_ns"] == [1e6]
            live = settings_of(process, LIVE)
            assert live["fusion_bytes"] == [128 << 20] and live["cycle_ns"] == [1e6] and live["cache_enabled"] == [1]
            hooks = {event["name"]: event for event in rings.of_kind(process, "HOOK")}
            assert all(hooks[f"horovod.{part}"]["op"] == 1 for part in ("controller", "execute", "ready", "settings"))


def told_rounds(launcher):
    """The rounds that were told and counted are as many as the cycle time allows, and say who was late."""
    env = {"JOB_STEPS": N_STEPS, "JOB_LATE_S": "0.02"}
    with Run(launcher, "train", env=env) as run:
        check_ranks(run, f"{launcher} late rank 1")
        late = {}
        for rank, process in run.traced.items():
            rounds = [event for event in rings.of_kind(process, "CYCLE") if event["op"] == 1]
            counted = sum(event["n_unchanged"] for event in rounds)
            last, n_late = None, 0
            for event in rounds:
                assert event["n_words"] >= 1
                assert event["unchanged_ns"] <= event["unchanged_span_ns"]
                waiting = event["in_bits"] & ~event["out_bits"] & ~7
                n_late += bool(waiting)
                same = last and (last["in_bits"], last["out_bits"]) == (event["in_bits"], event["out_bits"])
                # told twice in a row only because work came of it, or after a second of silence
                assert not same or event["out_bits"] != 7 or event["unchanged_span_ns"] > 9e8
                last = event
            late[rank] = n_late
            print(f"{launcher} late rank 1: rank {rank} told {len(rounds)} rounds, counted {counted} more; "
                  f"{n_late} say that it waits for others")
        # rank 0 hands over its last tensors of a step 20 ms before rank 1, so it must have been seen waiting
        assert late[0] >= N_STEPS // 2 and late[0] > late[1], late


def set_by_hand(launcher):
    env = {"HOROVOD_FUSION_THRESHOLD": "40000", "HOROVOD_CYCLE_TIME": "2.5", "HOROVOD_CACHE_CAPACITY": "64", "JOB_STEPS": 5}
    with Run(launcher, "train", env=env) as run:
        check_ranks(run, f"{launcher} 40 kB, 2.5 ms")
        for process in run.traced.values():
            told, live = settings_of(process, ENV), settings_of(process, LIVE)
            assert told["fusion_bytes"] == [40000] and told["cycle_ns"] == [2.5e6] and told["cache_capacity"] == [64]
            assert live["fusion_bytes"] == [40000] and live["cycle_ns"] == [2.5e6]
            # rounded up to 64 doubles for each of the two local ranks
            assert live["fusion_effective_bytes"][-1] == 40960
            assert {batch["fusion_bytes"] for batch in rings.batches(process)[0]} == {40960}
            assert max(batch["bytes"] for batch in rings.batches(process)[0] if batch["n_tensors"] > 1) <= 40960
    with Run(launcher, "train", env={"HOROVOD_CACHE_CAPACITY": "0", "JOB_STEPS": 5}) as run:
        check_ranks(run, f"{launcher} without the cache")
        for process in run.traced.values():
            rounds = rings.of_kind(process, "CYCLE")
            assert rounds and all(event["op"] == 3 for event in rounds), "no bits without the cache"
            n_batches = len(rings.batches(process)[0])
            assert sum(event["n_words"] for event in rounds) == n_batches
            assert settings_of(process, LIVE)["cache_enabled"] == [0]


def autotuned(launcher):
    log = "/tmp/lapwing-autotune-%d.csv" % os.getpid()
    env = {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": log, "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "1",
           "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "2", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "3", "JOB_STEPS": 60,
           "JOB_LATE_S": "0"}
    try:
        with Run(launcher, "train", env=env) as run:
            check_ranks(run, f"{launcher} autotune")
            with open(log) as file:
                rows = [line.replace(" ", "").split(",") for line in file.read().splitlines()[1:]]
            tried = {(round(float(row[-3]) * 1e6), round(float(row[-2]) * 1048576)) for row in rows}
            for rank, process in run.traced.items():
                live = settings_of(process, LIVE)
                cycles, fusions = set(live["cycle_ns"]), set(live["fusion_bytes"])
                assert len(fusions) > 1, f"rank {rank}: no change of the autotuner's was seen"
                for cycle_ns, fusion_bytes in tried:
                    assert any(abs(cycle_ns - other) <= 1e3 for other in cycles), (cycle_ns, cycles)
                    assert any(abs(fusion_bytes - other) <= 8 for other in fusions), (fusion_bytes, fusions)
                assert settings_of(process, ENV)["autotune"] == [1]
            print(f"{launcher} autotune: {len(rows)} rows in Horovod's log, {len(tried)} settings, all seen live on both ranks; "
                  f"{len(fusions)} thresholds and {len(cycles)} cycle times in all")
    finally:
        if os.path.exists(log):
            os.remove(log)


def every_operation(launcher):
    with Run(launcher, "operations") as run, Run(launcher, "operations", traced=False) as plain:
        check_ranks(run, f"{launcher} operations")
        check_wire(run, launcher)
        assert (run.code, run.output) == (plain.code, plain.output), f"{run.output} traced, {plain.output} untraced"
        kinds = {batch["coll"] for batch in rings.batches(run.traced[0])[0]}
        said = {call["coll"] for call in run.ranks[0]["calls"]}
        assert kinds == said and {"allreduce", "allgather", "broadcast", "alltoall", "error", "join"} <= kinds
        sets = {batch["process_set"] for batch in rings.batches(run.traced[1])[0]}
        print(f"{launcher} operations: {', '.join(sorted(kinds))}; process sets on rank 1: {sorted(sets)}")


def killed(launcher):
    with Run(launcher, "die") as run, Run(launcher, "die", traced=False) as plain:
        assert run.code == plain.code != 0, f"exit {run.code} traced, {plain.code} untraced"
        assert sorted(run.traced) == [0, 1]
        for rank, process in run.traced.items():
            batches, unfinished = rings.batches(process)
            total = sum(batch["bytes"] for batch in batches if not batch["flags"] & rings.FAILED)
            assert total >= 11 * N_LAYERS * (WIDTH * WIDTH + WIDTH) * 4, f"rank {rank}: {total} bytes of 11 steps"
            print(f"{launcher} killed: rank {rank} left {len(batches)} batches, {len(unfinished)} begun, "
                  f"{sum(bool(batch['flags'] & rings.FAILED) for batch in batches)} failed; exit {run.code} as untraced")


def killed_inside(launcher):
    """The peer goes while a batch is on the wire: Horovod throws through the hook, which tells so."""
    if launcher == "mpi":
        return  # mpirun kills the other rank too
    env = {"HOROVOD_FUSION_THRESHOLD": "0"}
    with Run(launcher, "die_inside", env=env) as run, Run(launcher, "die_inside", env=env, traced=False) as plain:
        assert run.code == plain.code != 0, f"exit {run.code} traced, {plain.code} untraced"
        batches, unfinished = rings.batches(run.traced[0])
        failed = [batch for batch in batches if batch["flags"] & rings.FAILED]
        wires = [event for event in rings.of_kind(run.traced[0], "COLLECTIVE") if event["flags"] & rings.FAILED]
        # the launcher kills rank 0 too in the end, which may cut off one more
        assert len(unfinished) <= 1 and failed and wires, (len(unfinished), len(failed), len(wires))
        assert all(batch["t0"] <= wire["t0"] <= wire["t1"] <= batch["t1"] for batch, wire in zip(failed, wires))
        print(f"{launcher} killed inside: {len(batches)} batches, {len(failed)} of them failed by an exception; "
              f"exit {run.code} as untraced")


def with_timeline(launcher):
    path = "/tmp/lapwing-hook-timeline-%d.json" % os.getpid()
    try:
        with Run(launcher, "train", env={"HOROVOD_TIMELINE": path, "JOB_STEPS": 8}) as run:
            check_ranks(run, f"{launcher} with the timeline")
            assert all(settings_of(process, ENV)["timeline"] == [1] for process in run.traced.values())
    finally:
        if os.path.exists(path):
            os.remove(path)


def unhooked(launcher):
    """Without the vtables the job is the same, nothing is invented, and the transport's hook sees what it can."""
    with Run(launcher, "train", env={"LAPWING_HOOKS": "-horovod", "JOB_STEPS": N_STEPS}) as run:
        assert run.code == 0
        for rank, process in run.traced.items():
            for kind in ("READY", "BATCH", "BATCH_TENSOR"):
                assert not rings.of_kind(process, kind), f"{kind} although the hook is off"
            seen = rings.of_kind(process, "CYCLE" if launcher == "mpi" else "GLOO_MESSAGE")
            assert seen, "the fallback saw nothing"
            print(f"{launcher} unhooked: rank {rank}: {len(seen)} {seen[0]['kind']} records from the transport")
            if launcher == "mpi":
                assert {event["op"] for event in seen} == {1} and len({event["in_bits"] for event in seen}) >= 3
                refused = [event for event in rings.of_kind(process, "HOOK") if event["op"] == 3]
                assert [event["name"] for event in refused] == ["horovod.controller"]


def main():
    launchers = sys.argv[1:] or ["mpi", "gloo"]
    for launcher in launchers:
        for test in (trained, told_rounds, set_by_hand, autotuned, every_operation, killed, killed_inside, with_timeline, unhooked):
            test(launcher)
            print(f"{launcher}: {test.__name__}: passed", flush=True)


if __name__ == "__main__":
    main()
