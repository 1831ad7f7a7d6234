"""A DDP job over Gloo that also says what DDP itself knows of its buckets.

    ddp_buckets.py STEPS [fp16 | unused | static | part | collectives | die | leave | kill | many]
fp16: gradients compressed by a communication hook; part: one that sends a part of each bucket; unused:
find_unused_parameters; static: static_graph; collectives: one call of each instead of training; die: the last rank
leaves without a word after the first step; leave, kill: it ends, or is killed, after STEPS steps, and the others go on; many:
more process groups and models than any table of a tracer has room for, after a communication hook that throws.
RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT come from the environment.
"""
import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

steps, mode = int(sys.argv[1]), (sys.argv[2:] + [""])[0]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def train():
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh())
                                  for width in (300,) * 9])
    sizes = [p.numel() * p.element_size() for p in model.parameters()]
    model = DistributedDataParallel(model, bucket_cap_mb=0.8, find_unused_parameters=mode == "unused",
                                    static_graph=mode == "static")
    if mode == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if mode == "part":
        model.register_comm_hook(None, send_part)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(16, 300)
    for step in range(steps + 20 * (mode in ("leave", "kill") and rank < size - 1)):
        optimizer.zero_grad()
        model(x + rank).sum().backward()
        optimizer.step()
        if mode == "die" and rank == size - 1:
            os._exit(9)
    if mode == "kill" and rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    data = model._get_ddp_logging_data()
    total = sum(float(p.double().sum()) for p in model.parameters())
    return {"model_bytes": sum(sizes), "sizes": sizes, "first_cap_bytes": dist._DEFAULT_FIRST_BUCKET_BYTES,
            "first": data["bucket_sizes"], "rebuilt": data.get("rebuilt_bucket_sizes", ""),
            "cap_bytes": data["bucket_cap_bytes"], "sum": total}


def send_part(state, bucket):
    part = bucket.buffer()[:1000].clone()
    return dist.all_reduce(part, async_op=True).get_future().then(lambda future: bucket.buffer())


def every_collective():
    ones, world = torch.ones(1000), range(size)
    pair = dist.new_group([0, 1])      # every rank calls, only its members make a context
    last = dist.new_group([size - 1, 0])
    dist.all_reduce(ones)
    dist.broadcast(torch.ones(300), src=1)
    dist.reduce(torch.ones(70), dst=0)
    dist.all_gather([torch.empty(20) for _ in world], torch.ones(20))
    dist.gather(torch.ones(11), [torch.empty(11) for _ in world] if rank == 0 else None, dst=0)
    dist.scatter(torch.empty(13), [torch.ones(13) for _ in world] if rank == 1 else None, src=1)
    dist.all_to_all_single(torch.empty(4 * size), torch.ones(4 * size))
    works = [dist.all_reduce(torch.ones(5000 + i), async_op=True) for i in range(4)]
    for work in works:
        work.wait()
    if rank < 2:
        dist.all_reduce(torch.ones(17), group=pair)
    if rank in (0, size - 1):
        dist.all_reduce(torch.ones(19), group=last)
    dist.barrier()
    return {}


def throw(state, bucket):
    raise RuntimeError("on purpose")


def many():
    model = DistributedDataParallel(torch.nn.Linear(10, 10))
    model.register_comm_hook(None, throw)
    try:
        model(torch.ones(1, 10)).sum().backward()
    except RuntimeError as error:
        assert "on purpose" in str(error), error
    else:
        raise AssertionError("the hook did not throw")
    dist.all_reduce(torch.ones(123))
    for group in [dist.new_group() for _ in range(20)]:  # two threads each
        for work in [dist.all_reduce(torch.ones(321), group=group, async_op=True) for _ in range(4)]:
            work.wait()
    models = []  # none of them goes
    for _ in range(70):
        models.append(DistributedDataParallel(torch.nn.Linear(20, 20)))
        for step in range(steps):
            models[-1](torch.ones(1, 20)).sum().backward()
    return {}


result = {"collectives": every_collective, "many": many}.get(mode, train)()
print(json.dumps(dict(result, rank=rank)), flush=True)
# torch 1.13 aborts in some of its exits ("terminate called without an active exception": a thread that nobody
# joined), also without a tracer: leave before it tears itself down, but not before its worker threads have
# returned from their last operation, which nothing tells.
time.sleep(0.5)
os._exit(0)
