"""A real Horovod job that knows what it does: every tensor it hands over, with sizes and times, as JSON.

Usage: horovod_job.py MODE FILE_PREFIX; each rank writes FILE_PREFIX.RANK.json and prints a digest of its results.
Modes: train (a training loop), operations (every kind of collective), wait (rank 1 is late, rank 0 waits),
die (as train, rank 1 kills itself), die_inside (the same in the middle of large allreduces).
"""
import hashlib
import json
import os
import signal
import sys
import time

import horovod.torch as hvd
import torch

N_LAYERS, WIDTH = 4, 96
calls, numbers = [], hashlib.sha256()


def say(line):
    sys.stdout.write(line.splitlines()[0] + "\n")  # one write a line: two ranks share the pipe
    sys.stdout.flush()


def note(coll, names, tensors, process_set, before_ns):
    after_ns = time.monotonic_ns()
    for name, tensor in zip(names, tensors):
        n_bytes = tensor.element_size() * tensor.nelement() if tensor is not None else 0
        calls.append({"coll": coll, "name": name, "bytes": n_bytes, "set": process_set, "is_ready": tensor is not None,
                      "is_failed": False, "before_ns": before_ns, "after_ns": after_ns})


def digest(value):
    for tensor in value if isinstance(value, (list, tuple)) else [value]:
        numbers.update(tensor.detach().to(torch.float64).numpy().tobytes())


def train(n_steps, die_at=None):
    import horovod.torch.optimizer as wrapped

    enqueue = wrapped.allreduce_async_

    def watched(tensor, *args, **named):
        before_ns = time.monotonic_ns()
        handle = enqueue(tensor, *args, **named)
        note("allreduce", ["allreduce." + named["name"]], [tensor], 0, before_ns)
        return handle

    wrapped.allreduce_async_ = watched
    torch.manual_seed(1)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(N_LAYERS)]
    model = torch.nn.Sequential(*layers)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters())
    data = torch.randn(n_steps, 8, WIDTH)
    spans = []
    for step in range(n_steps):
        if die_at == step and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        model(data[step] + hvd.rank()).pow(2).mean().backward()
        if hvd.rank() == 1:
            time.sleep(float(os.environ.get("JOB_LATE_S", "0.002")))
        before_ns = time.monotonic_ns()
        optimizer.step()
        spans.append([before_ns, time.monotonic_ns()])
    digest([p for p in model.parameters()])
    return {"step_spans_ns": spans}


def wait():
    """Steps in which rank 1 hands its tensor over later by a known time; what synchronize() took is told."""
    spans, late_s = [], 0.03
    for step in range(10):
        if hvd.rank() == 1:
            time.sleep(late_s)
        handle = hvd.allreduce_async(torch.ones(1000), name=f"step{step}", op=hvd.Sum)
        before_ns = time.monotonic_ns()
        hvd.synchronize(handle)
        spans.append([before_ns, time.monotonic_ns()])
        hvd.allreduce(torch.ones(1), name=f"together{step}", op=hvd.Sum)
    before_ns = time.monotonic_ns()
    time.sleep(0.05)  # not Horovod's: must not be seen
    os.sched_yield()
    return {"spans_ns": spans, "late_ns": int(late_s * 1e9), "idle_ns": [before_ns, time.monotonic_ns()]}


def die_inside():
    """Rank 1 kills itself while both are reducing: rank 0 is inside an operation when its peer goes."""
    tensors = [torch.ones(4 << 20) for _ in range(24)]
    handles = [hvd.allreduce_async(tensor, name=f"big{i}", op=hvd.Sum) for i, tensor in enumerate(tensors)]
    hvd.synchronize(handles[1])
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    for handle in handles[2:]:
        hvd.synchronize(handle)
    return {}


def operations():
    rank, size = hvd.rank(), hvd.size()

    def go(coll, call, *args, prefix=None, tensor=None, splits=None, **named):
        name = (prefix or coll) + "." + named["name"]
        before_ns = time.monotonic_ns()
        handle = call(tensor, *([splits] if splits is not None else []), *args, **named)
        note(coll, [name], [tensor], named["process_set"].process_set_id if "process_set" in named else 0, before_ns)
        result = hvd.synchronize(handle)
        digest(result[0] if coll == "alltoall" else result)

    def refused(coll, name, tensor, op):
        before_ns = time.monotonic_ns()
        handle = hvd.allreduce_async(tensor, name=name, op=op)
        note(coll, ["allreduce." + name], [tensor], 0, before_ns)
        calls[-1]["is_failed"] = True
        try:
            hvd.synchronize(handle)
            say("no error?")
        except Exception as error:  # its type differs between versions
            say(f"refused: {type(error).__name__} {str(error)[:60]}")

    for n, dtype in ((1, torch.float32), (1000, torch.float64), (333, torch.int32), (7, torch.float16)):
        go("allreduce", hvd.allreduce_async, tensor=torch.full((n,), rank + 1, dtype=dtype), name=f"n{n}", op=hvd.Sum)
    go("allgather", hvd.allgather_async, tensor=torch.ones(3 + rank, 5) * rank, name="rows")
    go("broadcast", hvd.broadcast_async, 1, tensor=torch.arange(200, dtype=torch.uint8) + rank, name="from1")
    go("broadcast", hvd.broadcast_async, 0, tensor=torch.tensor(float(rank)), name="scalar")
    go("alltoall", hvd.alltoall_async, tensor=torch.arange(12.0), splits=torch.tensor([5, 7], dtype=torch.int32),
       name="uneven")
    go("alltoall", hvd.alltoall_async, tensor=torch.arange(8.0), name="even")
    if hasattr(hvd, "reducescatter_async"):
        go("reducescatter", hvd.reducescatter_async, tensor=torch.ones(6, 11), name="halves", op=hvd.Sum)
    if hvd.mpi_enabled():
        go("adasum", hvd.allreduce_async, prefix="allreduce", tensor=torch.arange(64.0) + rank, name="ada", op=hvd.Adasum)
    tensors = [torch.full((10 * (i + 1),), float(rank)) for i in range(3)]
    before_ns = time.monotonic_ns()
    handle = hvd.grouped_allreduce_async(tensors, name="trio", op=hvd.Sum)
    note("allreduce", [f"grouped_allreduce.trio_{i + 1}of3" for i in range(3)], tensors, 0, before_ns)
    digest(hvd.synchronize(handle))
    if own_sets:
        go("allreduce", hvd.allreduce_async, tensor=torch.ones(20) * rank, name="own", op=hvd.Sum,
           process_set=own_sets[rank])
    if hasattr(hvd, "barrier"):
        before_ns = time.monotonic_ns()
        hvd.barrier()
        note("barrier", ["barrier.noname"], [None], 0, before_ns)
    if hvd.mpi_enabled() and not hvd.gloo_enabled():  # Adasum knows floats only and throws on its way
        refused("adasum", "ada_of_integers", torch.arange(8), op=hvd.Adasum)
    # The shapes do not fit together: every rank is told so, by an operation of its own kind.
    refused("error", "wrong", torch.ones(4 + rank), op=hvd.Sum)
    # Rank 1 stops early; what rank 0 still reduces runs on rank 1 too, with zeros and without an enqueue.
    late = torch.ones(77)
    before_ns = time.monotonic_ns()
    if rank == 0:
        handle = hvd.allreduce_async(late, name="late", op=hvd.Sum)
        note("allreduce", ["allreduce.late"], [late], 0, before_ns)
        digest(hvd.synchronize(handle))
    else:
        note("allreduce", ["allreduce.late"], [late], 0, before_ns)
        calls[-1]["is_ready"] = False
    before_ns = time.monotonic_ns()
    hvd.join()
    note("join", ["join.noname"], [None], 0, before_ns)
    return {"size": size}


mode, prefix = sys.argv[1:3]
own_sets = [hvd.ProcessSet([0]), hvd.ProcessSet([1])] if mode == "operations" and hasattr(hvd, "ProcessSet") else None
torch.set_num_threads(1)
if own_sets:
    hvd.init(process_sets=own_sets)
else:
    hvd.init()
about = {"train": lambda: train(int(os.environ.get("JOB_STEPS", "20"))), "operations": operations,
         "die": lambda: train(20, die_at=12), "die_inside": die_inside, "wait": wait}[mode]()
with open(f"{prefix}.{hvd.rank()}.json", "w") as file:
    json.dump({"calls": calls, "rank": hvd.rank(), "size": hvd.size(), **about}, file)
say(f"rank {hvd.rank()} {numbers.hexdigest()[:16]}")
hvd.shutdown()
