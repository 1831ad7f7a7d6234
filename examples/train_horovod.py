#!/usr/bin/env python3
"""A small, ordinary Horovod job: a convolutional network on random images, a few seconds long.

    horovodrun --gloo -np 2 python3 examples/train_horovod.py
    mpirun -np 2 python3 examples/train_horovod.py

Nothing in it knows of lapwing.
"""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import horovod.torch as hvd


class Net(nn.Module):
    """Convolutions in front (many small tensors), two wide layers behind (few large ones)."""

    def __init__(self):
        super().__init__()
        width = [3, 16, 16, 32, 32, 64, 64]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(width, width[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in width[1:])
        self.fc1 = nn.Linear(64 * 4 * 4, 1024)
        self.fc2 = nn.Linear(1024, 10)

    def forward(self, x):
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            x = F.relu(norm(conv(x)))
            if i % 2:
                x = F.max_pool2d(x, 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()

    hvd.init()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    torch.manual_seed(100 + hvd.rank())
    images = torch.randn(args.batch, 3, 32, 32)
    labels = torch.randint(0, 10, (args.batch,))
    times = []
    for step in range(args.steps):
        start = time.monotonic()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        times.append(time.monotonic() - start)
        if hvd.rank() == 0 and step % 20 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}  {times[-1] * 1000:.1f} ms", flush=True)
    times = sorted(times[len(times) // 3:])
    if hvd.rank() == 0:
        print(f"median step {times[len(times) // 2] * 1000:.2f} ms, mean step {sum(times) / len(times) * 1000:.2f} ms, "
              f"{len(times)} steps", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
