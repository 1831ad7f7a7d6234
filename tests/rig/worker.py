"""One rank of a rig job: computing is a timer, gradients and network are real. worker.py MODEL.json STEPS"""
import json
import sys
import time

import horovod.torch as hvd
import torch

spec = json.load(open(sys.argv[1]))
n_steps = int(sys.argv[2])
hvd.init()
torch.set_num_threads(1)
gradients = [torch.zeros(max(1, t["bytes"] // 4)) for t in spec["tensors"]]


def sleep_until(at_s):
    left_s = at_s - time.monotonic()
    if left_s > 0:
        time.sleep(left_s)


steps_s = []
for _ in range(n_steps):
    start_s = time.monotonic()
    at_s = start_s + spec["forward_us"] / 1e6
    handles = []
    for tensor, gradient in zip(spec["tensors"], gradients):
        at_s += tensor["us"] / 1e6
        sleep_until(at_s)
        handles.append(hvd.allreduce_async_(gradient, name=tensor["name"], op=hvd.Sum))
    for handle in handles:
        hvd.synchronize(handle)
    steps_s.append(time.monotonic() - start_s)

steps_s = sorted(steps_s[len(steps_s) // 3:])
if hvd.rank() == 0:
    print(json.dumps({"n": hvd.size(), "median": steps_s[len(steps_s) // 2], "min": steps_s[0], "max": steps_s[-1]}),
          flush=True)
hvd.shutdown()
