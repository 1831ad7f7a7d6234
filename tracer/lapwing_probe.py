"""A probe for torch.distributed over Gloo: what collectives of many sizes cost on this job's own connections.

In a training script, on every rank, after init_process_group():

    import lapwing_probe            # PYTHONPATH: the folder of this file
    lapwing_probe.run()

It does nothing (but agree on that) unless the job is recorded with `lapwing record --probe`. Or on its own, beside
the training, with the same launcher:

    lapwing record --probe -o probe.lapwing -- torchrun --nproc-per-node 4 lapwing_probe.py
    lapwing predict run.lapwing probe.lapwing --grid
"""
import ctypes

import torch
import torch.distributed as dist

N_VOTES = 12  # bits of lapwing_probe_votes(): one float each, in front of every operation
MAX_BYTES = 32 << 20


def _tracer():
    """The functions of liblapwing.so, which `record` preloads; None without it."""
    own = ctypes.CDLL(None)
    if not hasattr(own, "lapwing_probe_begin"):
        return None
    own.lapwing_probe_next.restype = own.lapwing_probe_votes.restype = ctypes.c_uint64
    own.lapwing_probe_done.argtypes = [ctypes.c_uint64]
    return own


def run(group=None):
    """Make the probe on all ranks of @group (the default one: all). Return: how many operations it had, 0 = none."""
    tracer = _tracer()
    asked = torch.tensor([float(bool(tracer and tracer.lapwing_probe_begin()))])
    is_asked = bool(asked)
    dist.all_reduce(asked, group=group)  # the sum: a rank that is not asked makes it smaller
    n_ranks = dist.get_world_size(group)
    n = 0
    if asked == n_ranks and n_ranks > 1:
        words = torch.zeros(MAX_BYTES // 4)
        bits = [1 << i for i in range(N_VOTES)]
        while True:
            n_bytes = tracer.lapwing_probe_next()
            if not n_bytes:
                break
            part = words[:max(n_bytes // 4, N_VOTES)]
            votes = tracer.lapwing_probe_votes()
            part.zero_()
            part[:N_VOTES] = torch.tensor([float(bool(votes & bit)) for bit in bits])
            dist.all_reduce(part, group=group)
            agreed = sum(bit for bit, count in zip(bits, part[:N_VOTES].tolist()) if count == n_ranks)
            tracer.lapwing_probe_done(agreed)
            n += 1
    if is_asked:
        tracer.lapwing_probe_end()
    return n


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    count = run()
    if dist.get_rank() == 0:
        print(f"lapwing_probe: {count} operations" if count else
              "lapwing_probe: none: not recorded with `lapwing record --probe` on all ranks, or one rank only", flush=True)
    dist.destroy_process_group()
