"""A Horovod job whose gradients come at known times: advice_job.py STEPS. Prints rank 0's median step as JSON.

Computing is a timer inside the backward pass of each layer, so gradients reach Horovod through the hooks of
DistributedOptimizer as they do in any job. JOB_OPTIMIZER: lines of Python that make `optimizer` (as advice prints
them); JOB_PASSES: backward passes a step, each is timed.
"""
import json
import os
import sys
import time

import horovod.torch as hvd
import torch

N_LAYERS, N_FLOATS = 24, 10000
FORWARD_S, LAYER_S = 0.06, 0.006


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(weight)
        return x + 0

    @staticmethod
    def backward(context, gradient):
        (weight,) = context.saved_tensors
        time.sleep(LAYER_S)
        return gradient, torch.zeros_like(weight)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(N_FLOATS)) for _ in range(N_LAYERS))

    def forward(self, x):
        time.sleep(FORWARD_S)
        for weight in self.layers:
            x = Slow.apply(x, weight)
        return x


def main():
    hvd.init()
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    passes = int(os.environ.get("JOB_PASSES", "1"))
    space = {"hvd": hvd, "model": model, "optimizer": optimizer}
    exec(os.environ.get("JOB_OPTIMIZER",  # noqa: S102: the lines under test
                        "optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())"), space)
    optimizer = space["optimizer"]
    times = []
    for step in range(int(sys.argv[1])):
        start_s = time.monotonic()
        model(torch.ones(1, requires_grad=True)).sum().backward()
        if (step + 1) % passes == 0:
            optimizer.step()
            optimizer.zero_grad()
        times.append(time.monotonic() - start_s)
    times = [sum(times[i:i + passes]) / passes for i in range(0, len(times) - passes + 1, passes)]
    times = sorted(times[len(times) // 3:])
    if hvd.rank() == 0:
        print(json.dumps({"median_s": times[len(times) // 2]}), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
