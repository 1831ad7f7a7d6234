#!/usr/bin/env python3
"""One rank of a torch DDP job over Gloo whose computing is a timer; gradients and network are real.

ddp_worker.py STEPS BUCKET_CAP_MB. RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and GLOO_SOCKET_IFNAME come from the
environment. Rank 0 prints its step times and the sizes of its buckets.
"""
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WARM_UP = 3
FORWARD_S = 0.12
BACKWARD_S = 0.55


class Timer(torch.autograd.Function):
    """Passes everything on; in the backward pass a layer's time goes by before its gradients are made. The moments are
    planned when the pass begins, so that a sleep that ends late does not make all that follows late."""
    planned_s = 0.0

    @staticmethod
    def forward(context, x, seconds):
        context.seconds = seconds
        Timer.planned_s = 0.0
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        Timer.planned_s = (Timer.planned_s or time.monotonic()) + context.seconds
        time.sleep(max(Timer.planned_s - time.monotonic(), 0))
        return gradient, None


class Layer(torch.nn.Module):
    def __init__(self, n_in, n_out, seconds):
        super().__init__()
        self.linear, self.seconds = torch.nn.Linear(n_in, n_out), seconds

    def forward(self, x):
        return Timer.apply(torch.tanh(self.linear(x)), self.seconds)


class Model(torch.nn.Module):
    """12.5 MiB in 26 layers: small ones at the input, large ones at the output, as networks for images have."""

    def __init__(self):
        super().__init__()
        shapes = [(128, 128)] * 6 + [(128, 256)] + [(256, 256)] * 10 + [(256, 512)] + [(512, 512)] * 7 + [(512, 1000)]
        share = BACKWARD_S / len(shapes)
        self.layers = torch.nn.Sequential(*[Layer(n_in, n_out, share) for n_in, n_out in shapes])

    def forward(self, x):
        time.sleep(FORWARD_S)
        return self.layers(x)


def main():
    n_steps, cap_mb = int(sys.argv[1]), float(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(Model(), bucket_cap_mb=cap_mb)
    x, took_s = torch.randn(4, 128), []
    for _ in range(n_steps + WARM_UP):
        start_s = time.monotonic()
        model(x).square().mean().backward()
        took_s.append(time.monotonic() - start_s)
    if dist.get_rank() == 0:
        took_s = took_s[WARM_UP:]
        print(json.dumps({"median_s": statistics.median(took_s), "steps_s": took_s,
                          "bytes": sum(p.numel() * p.element_size() for p in model.parameters()),
                          "buckets": model._get_ddp_logging_data()["rebuilt_bucket_sizes"]}), flush=True)
    dist.barrier()
    time.sleep(0.5)  # torch 1.13 aborts in some of its exits: leave before, but after the last operation returned
    os._exit(0)


main()
