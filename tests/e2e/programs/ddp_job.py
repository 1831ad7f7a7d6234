"""A torch.distributed Gloo DDP job (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT from the environment)."""
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 12
dist.init_process_group("gloo")
if "JOB_PROBES" in os.environ:
    import lapwing_probe
    lapwing_probe.run()
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512),
                            torch.nn.ReLU(), torch.nn.Linear(512, 10))
step_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(32, 256), torch.randint(0, 10, (32,))
for step in range(steps):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
print(json.dumps({"rank": dist.get_rank(), "steps": steps, "step_bytes": step_bytes}), flush=True)
dist.destroy_process_group()
