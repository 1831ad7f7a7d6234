#!/usr/bin/env python3
"""Real torch.distributed over Gloo: buckets, ready times, waits, sizes, and bytes on the wire."""
import json
import os
import pathlib
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import rings  # noqa: E402
import traced  # noqa: E402

JOB = str(pathlib.Path(__file__).resolve().parent / "programs" / "ddp_buckets.py")
PYTHON = "/usr/bin/python3"  # Debian's torch
COLL = {"allreduce": 1, "allgather": 2, "broadcast": 3, "alltoall": 4, "reduce": 6, "gather": 7, "scatter": 8,
        "barrier": 10}
FAILED, TORCH_DDP, GLOO, WAIT_WORK, LIVE, TRAINING, BACKGROUND, FLOAT32 = 32, 2, 2, 3, 3, 1, 2, 8


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def jobs(n_ranks, *arguments):
    port = str(free_port())
    return [([PYTHON, JOB, *arguments], {"RANK": str(rank), "WORLD_SIZE": str(n_ranks), "MASTER_ADDR": "127.0.0.1",
                                         "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"})
            for rank in range(n_ranks)]


def train(n_ranks, steps, *mode):
    """[(process, what the rank printed)] of a run where every rank ended well."""
    done = traced.run_all(jobs(n_ranks, str(steps), *mode))
    for one in done:
        assert one.code == 0, one.stderr
    return [(one.only(), json.loads(one.stdout)) for one in done], [one.stdout for one in done]


def untraced_output(n_ranks, *arguments):
    started = [subprocess.Popen(command, env=dict(os.environ, **extra), text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE) for command, extra in jobs(n_ranks, *arguments)]
    return [process.communicate(timeout=100)[0] for process in started]


def joined(process):
    """BATCH records in order of their start, each with "name", "object" and the READY that belongs to it."""
    members = {tensor["batch"]: tensor for tensor in rings.of_kind(process, "BATCH_TENSOR")}
    batches = sorted(rings.of_kind(process, "BATCH"), key=lambda batch: batch["t0"])
    unused = rings.of_kind(process, "READY")
    for batch in batches:
        tensor = members.pop(batch["batch"])
        earlier = [ready for ready in unused if ready["object"] == tensor["object"] and ready["t0"] <= batch["t0"]]
        assert earlier, f"nobody queued {tensor}"
        batch["ready"] = earlier[-1]
        unused.remove(batch["ready"])
        batch["name"] = tensor["name"]
        assert batch["ready"]["name"] == tensor["name"] and tensor["bytes"] == batch["bytes"]
        assert batch["framework"] == TORCH_DDP and batch["n_tensors"] == 1
    assert not members and not unused
    return batches


def final_sent_bytes(process):
    newest = {sample["socket"]: sample["sent_bytes"] for sample in rings.of_kind(process, "SOCKET_BYTES")}
    return sum(newest.values())


def buckets_are_what_ddp_says(steps=8):
    ranks, printed = train(2, steps)
    assert printed == untraced_output(2, str(steps)), "the job prints something else when traced"
    orders, n_swapped = [], 0
    for process, said in ranks:
        assert process["lost"] == 0 and not rings.of_kind(process, "LOSS")
        first = [int(size) for size in said["first"].split(",")]
        rebuilt = [int(size) for size in said["rebuilt"].split(",")]
        batches = joined(process)
        by_ready = sorted(batches, key=lambda batch: batch["ready"]["t0"])
        n_swapped += sum(a is not b for a, b in zip(batches, by_ready))
        assert len(batches) == len(first) + (steps - 1) * len(rebuilt)
        found = [(batch["name"], batch["bytes"]) for batch in by_ready]
        expected = [(f"bucket.{k}", size) for k, size in enumerate(first)]
        expected += [(f"bucket.{k}", size) for k, size in enumerate(rebuilt)] * (steps - 1)
        assert found == expected, (found, expected)
        assert sum(rebuilt) == said["model_bytes"]
        orders.append(found)
        settings = [(one["op"], one["value"], one["source"]) for one in rings.of_kind(process, "SETTING")]
        assert settings == [(12, said["cap_bytes"], LIVE), (13, said["first_cap_bytes"], LIVE)], settings
        assert {batch["fusion_bytes"] for batch in batches} == {said["cap_bytes"]}
        check_gradients(process, said, by_ready, steps)
        check_threads_and_waits(process, batches, steps)
        check_wire(process, batches)
    assert orders[0] == orders[1]
    print(f"{len(orders[0])} buckets a rank, bytes exact, same order; {n_swapped} of {2 * len(orders[0])} started "
          "out of the order in which they were queued (two worker threads)")
    return ranks


def check_gradients(process, said, buckets, steps):
    """Sizes as the model says; torch's rule over them, in the order of the first pass, gives its buckets."""
    sizes = [one["bytes"] for one in rings.of_kind(process, "PARAMETER")]
    assert sizes == said["sizes"] and {one["dtype"] for one in rings.of_kind(process, "PARAMETER")} == {FLOAT32}
    gradients = rings.of_kind(process, "GRADIENT")
    assert len(gradients) == steps * len(sizes) and {one["reducer"] for one in gradients} == {0}
    passes = [gradients[i:i + len(sizes)] for i in range(0, len(gradients), len(sizes))]
    made, held, cap_bytes = [], [], said["first_cap_bytes"]
    for gradient in passes[0]:
        held.append(gradient["position"])
        if sum(sizes[i] for i in held) >= cap_bytes:
            made.append(held)
            held, cap_bytes = [], said["cap_bytes"]
    made += [held] if held else []
    assert [sum(sizes[i] for i in members) for members in made] == [int(size) for size in said["rebuilt"].split(",")]
    rebuilt = buckets[len(said["first"].split(",")):]
    assert len(rebuilt) == (steps - 1) * len(made)
    late_ns = []
    for i, bucket in enumerate(rebuilt):
        own = {one["position"]: one["t0"] for one in passes[1 + i // len(made)]}
        assert sorted(own) == list(range(len(sizes)))
        # queued after its last gradient, and before any later one
        last_ns = max(own[position] for position in made[i % len(made)])
        late_ns.append(bucket["ready"]["t0"] - last_ns)
        assert all(at_ns > bucket["ready"]["t0"] for at_ns in own.values() if at_ns > last_ns)
    assert min(late_ns) > 0
    print(f"rank {process['rank']}: {len(sizes)} parameters, {len(gradients)} gradients; a bucket is queued "
          f"{sorted(late_ns)[len(late_ns) // 2] / 1e3:.0f} us after its last gradient (median)")


def check_threads_and_waits(process, batches, steps):
    roles = {}
    for thread in rings.of_kind(process, "THREAD"):
        roles.setdefault(thread["op"], set()).add(thread["tid"])
    (training,) = roles[TRAINING]
    assert {batch["ready"]["tid"] for batch in batches} == {training}
    assert {batch["tid"] for batch in batches} <= roles[BACKGROUND]
    waits = [wait for wait in rings.of_kind(process, "WAIT") if wait["op"] == WAIT_WORK]
    assert {wait["tid"] for wait in waits} == {training}
    collectives = rings.of_kind(process, "COLLECTIVE")
    waited_ns = 0
    by_ready = sorted(batches, key=lambda batch: batch["ready"]["t0"])
    for batch, following in zip(by_ready, by_ready[1:] + [None]):
        (inside,) = [one for one in collectives if one["tid"] == batch["tid"] and batch["t0"] <= one["t0"]
                     and one["t1"] <= batch["t1"]]
        assert inside["op"] == COLL["allreduce"] and inside["sent_bytes"] == batch["bytes"]
        if following and following["name"] != "bucket.0":
            continue
        # the last bucket of a step: what the thread waited for had ended when it went on
        end_ns = following["ready"]["t0"] if following else 1 << 62
        own = [wait for wait in waits if batch["ready"]["t0"] <= wait["t0"] < end_ns][: int(batch["name"][7:]) + 1]
        assert len(own) == int(batch["name"][7:]) + 1
        assert own[-1]["t1"] >= inside["t1"], (own[-1], inside)
        waited_ns += sum(wait["t1"] - wait["t0"] for wait in own)
    print(f"rank {process['rank']}: {len(waits)} waits, {waited_ns / steps / 1e6:.2f} ms a step at the end of backward")


def check_wire(process, batches):
    n = process["rank"]
    collectives = rings.of_kind(process, "COLLECTIVE")
    payload = sum(2 * one["sent_bytes"] * (2 - 1) // 2 for one in collectives if one["op"] == COLL["allreduce"])
    payload += sum(one["sent_bytes"] for one in collectives if one["op"] in (COLL["broadcast"], COLL["allgather"]))
    sent = final_sent_bytes(process)
    share = (sent - payload) / payload
    print(f"rank {n}: {sent} bytes sent on TCP for 2D(N-1)/N and the like = {payload}: "
          f"{100 * share:.3f} % headers and store")
    assert 0 < share < 0.01, share


def a_communication_hook_halves_the_bytes():
    ranks, _ = train(2, 3, "fp16")
    for process, said in ranks:
        rebuilt = [int(size) for size in said["rebuilt"].split(",")]
        assert [batch["bytes"] for batch in sorted(joined(process), key=lambda batch: batch["ready"]["t0"])][1:] == \
            [size // 2 for size in rebuilt] * 2
    print("fp16 hook: half the bytes of each bucket")


def every_collective_has_its_bytes_root_and_comm(n=3):
    done = traced.run_all(jobs(n, "1", "collectives"))
    comms = {}
    for rank, one in enumerate(done):
        assert one.code == 0, one.stderr
        process = one.only()
        assert process["rank"] == rank and not rings.of_kind(process, "LOSS")
        for comm in rings.of_kind(process, "COMM"):
            comms.setdefault(comm["comm"], {"size": comm["size"], "of": {}})["of"][rank] = comm["rank"]
        world = rings.of_kind(process, "COMM")[0]["comm"]
        found = [(one["op"], one["sent_bytes"], one["received_bytes"], one["root"])
                 for one in rings.of_kind(process, "COLLECTIVE")
                 if one["comm"] == world and not 20000 <= one["sent_bytes"] < 20020]
        expected = [
            (COLL["allreduce"], 4000, 4000, -1),
            (COLL["broadcast"], 1200, 0, 1) if rank == 1 else (COLL["broadcast"], 0, 1200, 1),
            (COLL["reduce"], 280, 280 if rank == 0 else 0, 0),
            (COLL["allgather"], 80, 80 * n, -1),
            (COLL["gather"], 44, 44 * n, 0) if rank == 0 else (COLL["gather"], 44, 0, -1),
            (COLL["scatter"], 52 * n, 52, 1) if rank == 1 else (COLL["scatter"], 0, 52, -1),
            (COLL["alltoall"], 16 * n, 16 * n, -1),
            (COLL["barrier"], 0, 0, -1)]
        assert found == expected, (rank, found, expected)
        queued = sorted(one["sent_bytes"] for one in rings.of_kind(process, "COLLECTIVE")
                        if 20000 <= one["sent_bytes"] < 20020)
        assert queued == [20000, 20004, 20008, 20012]
        others = {one["sent_bytes"]: one["comm"] for one in rings.of_kind(process, "COLLECTIVE")
                  if one["comm"] != world}
        assert sorted(others) == {0: [68, 76], 1: [68], 2: [76]}[rank]
    members = sorted((comm["size"], sorted(comm["of"].items())) for comm in comms.values())
    assert members == [(2, [(0, 0), (1, 1)]), (2, [(0, 0), (2, 1)]), (3, [(0, 0), (1, 1), (2, 2)])], members
    print(f"{len(comms)} communicators, one key each on all their ranks")


def a_collective_that_throws_is_recorded_as_failed():
    done = traced.run_all(jobs(2, "50", "die"))
    assert done[1].code == 9 and done[0].code == 1 and "RuntimeError" in done[0].stderr, done[0].stderr
    flags = [one["flags"] for one in rings.of_kind(done[0].only(), "COLLECTIVE")]
    assert FAILED in flags, flags
    print(f"a rank left: {flags.count(FAILED)} failed collectives on the other")


def neither_threads_nor_models_run_out(steps=2):
    ranks, _ = train(2, steps, "many")
    for process, _ in ranks:
        assert not rings.of_kind(process, "LOSS"), rings.of_kind(process, "LOSS")
        sent = [one["sent_bytes"] for one in rings.of_kind(process, "COLLECTIVE")]
        assert (sent.count(4 * 123), sent.count(4 * 321)) == (1, 20 * 4), (sent.count(4 * 123), sent.count(4 * 321))
        names = [batch["name"] for batch in joined(process)]
        # the first model's hook threw before anything was queued: what came next on that thread is no bucket
        assert sorted(names) == sorted(f"ddp{k}.bucket.0" for k in range(1, 71) for _ in range(steps)), names
        threads = {one["tid"] for one in rings.of_kind(process, "COLLECTIVE")}
        assert len(threads) > 32, len(threads)
    print(f"collectives of {len(threads)} threads and buckets of 70 models, none lost")


def preambles_add_up_to_the_same_bytes():
    """Sent payload by kind of message (top byte of the slot): allreduce 2D(N-1)/N, to the byte."""
    done = traced.run_all(jobs(2, "4"), hooks="gloo,ddp,gloo_preamble")
    for one in done:
        assert one.code == 0, one.stderr
        process = one.only()
        assert not rings.of_kind(process, "LOSS") and not rings.of_kind(process, "SOCKET_BYTES")
        messages = rings.of_kind(process, "GLOO_MESSAGE")
        allreduced = sum(each["sent_bytes"] for each in rings.of_kind(process, "COLLECTIVE")
                         if each["op"] == COLL["allreduce"])
        for is_sent in (0, 1):
            own = [message for message in messages if message["is_sent"] == is_sent]
            assert sum(message["bytes"] for message in own if message["slot"] >> 56 == 4) == allreduced
            counts = {opcode: sum(message["op"] == opcode for message in own) for opcode in (1, 2, 3)}
            assert all(counts.values()), counts
        print(f"rank {process['rank']}: {len(messages)} messages, allreduce payload {allreduced} both ways, sent {counts}")


def it_can_be_turned_off():
    done = traced.run_all(jobs(2, "3"), hooks="-gloo,-ddp")
    for one in done:
        assert one.code == 0 and not one.processes, one.stderr


if __name__ == "__main__":
    buckets_are_what_ddp_says()
    a_communication_hook_halves_the_bytes()
    every_collective_has_its_bytes_root_and_comm()
    a_collective_that_throws_is_recorded_as_failed()
    neither_threads_nor_models_run_out()
    preambles_add_up_to_the_same_bytes()
    it_can_be_turned_off()
