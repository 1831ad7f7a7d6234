#!/usr/bin/env python3
"""Horovod over Gloo whose vtables are not watched: the messages on its sockets still add up."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["LAPWING_SOURCE_DIR"], "tests", "lib"))
import horovod_run  # noqa: E402
import rings  # noqa: E402

ALLREDUCE_PREFIX, HOROVOD, GLOO = 4, 1, 2


def preambles_stand_in_for_horovods_own_hooks():
    with horovod_run.Run("gloo", "train") as hooked:
        assert hooked.code == 0
        payload = {rank: sum(one["sent_bytes"] for one in rings.of_kind(process, "COLLECTIVE") if one["op"] == 1)
                   for rank, process in hooked.traced.items()}
        assert not any(rings.of_kind(process, "GLOO_MESSAGE") for process in hooked.traced.values())
    with horovod_run.Run("gloo", "train", env={"LAPWING_HOOKS": "-horovod"}) as run:
        assert run.code == 0 and run.output == hooked.output and sorted(run.traced) == [0, 1]
        for rank, process in run.traced.items():
            assert not rings.of_kind(process, "LOSS") and not rings.of_kind(process, "BATCH")
            assert {(one["framework"], one["transport"]) for one in rings.of_kind(process, "PROCESS")} == {(HOROVOD, GLOO)}
            sent = sum(one["bytes"] for one in rings.of_kind(process, "GLOO_MESSAGE")
                       if one["is_sent"] and one["slot"] >> 56 == ALLREDUCE_PREFIX)
            share = (sent - payload[rank]) / payload[rank]
            print(f"rank {rank}: {len(rings.of_kind(process, 'GLOO_MESSAGE'))} messages; allreduce payload sent "
                  f"{sent}, tensors alone {payload[rank]}: {100 * share:.3f} % coordination")
            assert 0 <= share < 0.02


if __name__ == "__main__":
    preambles_stand_in_for_horovods_own_hooks()
