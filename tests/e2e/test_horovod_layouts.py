#!/usr/bin/env python3
"""Horovods that cannot be built here: old strings, unknown strings, entries of another layout. Nothing is guessed."""
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rings
from horovod_run import BUILD, LIBRARY

NAMES = ["alpha", "beta/with a name that is longer than fifteen"]
N_ROUNDS = 5000


def fake(variant):
    return os.path.join(BUILD, "tests", f"libfake_horovod_{variant}.so")


def run(variants, seed):
    directory = tempfile.mkdtemp(prefix="lapwing-rings-", dir="/dev/shm")
    try:
        env = dict(os.environ, LD_PRELOAD=LIBRARY, LAPWING_DIR=directory, LAPWING_RING_RECORDS="65536",
                   FAKE_SEED=str(seed), FAKE_ROUNDS=str(N_ROUNDS))
        env.pop("LAPWING_HOOKS", None)
        subprocess.run([os.path.join(BUILD, "tests", "fake_job"), *map(fake, variants)], env=env, check=True, timeout=60)
        ranks = rings.read_job(directory)
        assert list(ranks) == [0] and ranks[0]["lost"] == 0
        return ranks[0]
    finally:
        shutil.rmtree(directory)


def check(variants, process):
    batches, unfinished = rings.batches(process)
    assert not unfinished
    threads = sorted({event["tid"] for event in rings.of_kind(process, "THREAD") if event["op"] == 2})
    assert len(threads) == len(variants)
    for variant, tid in zip(variants, threads):
        own = [batch for batch in batches if batch["tid"] == tid]
        hooks = {event["name"]: event for event in rings.of_kind(process, "HOOK") if event["tid"] == tid}
        losses = [event for event in rings.of_kind(process, "LOSS") if event["tid"] == tid]
        assert hooks["horovod.controller"]["op"] == hooks["horovod.execute"]["op"] == 1
        assert hooks["horovod.ready"]["op"] == 2, "no tensor class is exported"
        assert os.path.samefile(hooks["horovod.execute"]["detail"], fake(variant))
        first = own[:6]
        if variant == "unknown":
            assert hooks["horovod.names"]["op"] == 3
            assert all(batch["n_tensors"] == 0 and not batch["members"] for batch in own)
            assert sum(event["count"] for event in losses) == len(own)
        else:
            assert "horovod.names" not in hooks
            for batch, is_read in zip(first, (True, False, False, False, None, True)):
                if is_read is None:
                    assert batch["coll"] == "join" and [member["name"] for member in batch["members"]] == ["join.noname"]
                    continue
                assert [member["name"] for member in batch["members"]] == NAMES
                assert all(bool(member["object"]) == is_read for member in batch["members"]), variant
                # sizes are the response's own: 3 and 5 floats, whatever the entries hold
                assert [member["bytes"] for member in batch["members"]] == [12, 20] and batch["bytes"] == 32
            assert first[5]["coll"] == "adasum"
            assert sum(event["count"] for event in losses) == 3
            assert hooks["horovod.entries"]["op"] == 3
        rounds = [event for event in rings.of_kind(process, "CYCLE") if event["tid"] == tid and event["op"] == 1]
        counted = sum(event["n_unchanged"] for event in rounds)
        assert len(rounds) + counted == N_ROUNDS, f"{len(rounds)} told and {counted} counted of {N_ROUNDS}"
        assert counted > N_ROUNDS // 20
        for event in rounds:
            assert 0 <= event["unchanged_ns"] <= event["unchanged_span_ns"]
        for before, after in zip(rounds, rounds[1:]):
            assert before["t1"] <= after["t0"] - after["unchanged_span_ns"], "counted rounds lie between the told ones"
        print(f"{variant}: {len(own)} batches; {len(rounds)} rounds told, {counted} counted of {N_ROUNDS}")


def main():
    seed = int(os.environ.get("LAPWING_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}")
    for variants in (["new"], ["old"], ["unknown"], ["norelro"], ["old", "new"]):
        check(variants, run(variants, seed))


if __name__ == "__main__":
    main()
