"""A Horovod job whose traffic is known exactly: prints, as one JSON line a rank, what it all-reduced."""
import json
import sys
import time

import torch

import horovod.torch as hvd

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 12
hvd.init()
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512),
                            torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01),
                                     named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
x, y = torch.randn(32, 256), torch.randint(0, 10, (32,))
times = []
for step in range(steps):
    start = time.monotonic()
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    times.append(time.monotonic() - start)
step_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
print(json.dumps({"rank": hvd.rank(), "steps": steps, "step_bytes": step_bytes,
                  "tensors": ["allreduce." + name for name, _ in model.named_parameters()],
                  "median_s": sorted(times)[steps // 2]}), flush=True)
hvd.shutdown()
