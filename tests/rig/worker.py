"""One rank of a rig job: real Horovod, real gradients, a real network; computing is a timer, its time dilated.

worker.py MODEL.json STEPS [--groups G] [--passes K] [--compress fp16] ; rank 0 prints its step times as JSON.
A model is a list of tensors, each with the time that backward takes for it, or a network of torch with such a time
added to each of its parameters. Both go through hvd.DistributedOptimizer, as a user's job does.
"""
import argparse
import json
import os
import time

import horovod.torch as hvd
import torch


class Timer:
    """Sleeps until the sum of all times asked for since start(): what the code in between takes is not added."""

    def start(self):
        self.at_s = time.monotonic()

    def pass_s(self, duration_s):
        self.at_s += duration_s
        left_s = self.at_s - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)


timer = Timer()


class TimedLayer(torch.autograd.Function):
    """Hands its input on; backward takes its time and yields a gradient made before."""

    @staticmethod
    def forward(ctx, carry, weight, gradient, duration_s):
        ctx.gradient, ctx.duration_s = gradient, duration_s
        return carry.clone()

    @staticmethod
    def backward(ctx, carry_gradient):
        timer.pass_s(ctx.duration_s)
        return carry_gradient, ctx.gradient, None, None


class TimedModel(torch.nn.Module):
    """The first tensor of the list is the first that backward makes ready, so the last layer of forward."""

    def __init__(self, tensors):
        super().__init__()
        self.durations_s = [t["us"] / 1e6 for t in reversed(tensors)]
        self.gradients = [torch.zeros(max(1, t["bytes"] // 4)) for t in reversed(tensors)]
        for tensor, gradient in zip(reversed(tensors), self.gradients):
            self.register_parameter(tensor["name"], torch.nn.Parameter(torch.zeros_like(gradient)))

    def forward(self, carry):
        for weight, gradient, duration_s in zip(self.parameters(), self.gradients, self.durations_s):
            carry = TimedLayer.apply(carry, weight, gradient, duration_s)
        return carry


def convnet(parameter_s):
    """A small convolutional network, 19 parameters, 5 MB; its own arithmetic is real."""
    layers, before = [], 3
    for width, stride in ((64, 1), (128, 2), (256, 2), (256, 2)):
        layers += [torch.nn.Conv2d(before, width, 3, stride, 1), torch.nn.BatchNorm2d(width), torch.nn.ReLU()]
        before = width
    layers += [torch.nn.Flatten(), torch.nn.Linear(before * 4, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10, bias=False)]
    model = torch.nn.Sequential(*layers)
    for parameter in model.parameters() if parameter_s else []:
        parameter.register_hook(lambda gradient: time.sleep(parameter_s))
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("steps", type=int)
    parser.add_argument("--groups", type=int)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--compress", choices=["none", "fp16"], default="none")
    args = parser.parse_args()
    with open(args.model) as file:
        spec = json.load(file)
    if "LAPWING_RIG_NICE" in os.environ:  # of root, -15: what else runs on the machine is kept out of the way of the ranks,
        with open("/proc/self/autogroup", "w") as file:  # which share its cores among themselves as before
            file.write(os.environ["LAPWING_RIG_NICE"])
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if "parameter_us" in spec:
        model, data = convnet(spec["parameter_us"] / 1e6), torch.randn(spec.get("batch", 2), 3, 16, 16)
    else:
        model, data = TimedModel(spec["tensors"]), torch.zeros((), requires_grad=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters(), groups=args.groups,
        backward_passes_per_step=args.passes, compression=getattr(hvd.Compression, args.compress))

    steps_s = []
    for _ in range(args.steps):
        start_s = time.monotonic()
        optimizer.zero_grad()
        for _ in range(args.passes):
            timer.start()
            timer.pass_s(spec["forward_us"] / 1e6)
            model(data).sum().backward()
        optimizer.step()
        steps_s.append(time.monotonic() - start_s)
    late = sorted(steps_s[len(steps_s) // 3:])
    if hvd.rank() == 0:
        print(json.dumps({"n": hvd.size(), "median": late[len(late) // 2], "min": late[0], "max": late[-1], "steps_s": steps_s}),
              flush=True)
    hvd.shutdown()


main()
