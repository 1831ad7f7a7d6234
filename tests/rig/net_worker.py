"""One rank of a job whose traffic is known: net_worker.py ring|ps STEPS COMPUTE_MS BYTES[,BYTES...]

ring: torch's allreduce over Gloo. ps: rank 0 adds the gradients of the others up and sends the sum to each of them.
NET_WORKER_AT=STEP:COMMAND: a shell command that this rank runs before that step. RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and GLOO_SOCKET_IFNAME as torch.distributed wants them.
"""
import json
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

SETTLE_S = 0.5  # the NICs of a host that joins are read some 0.1 s after its first connection, later where cores are busy


def allreduce(tensors):
    for tensor in tensors:
        dist.all_reduce(tensor)


def exchange_by_server(tensors):
    """Each worker's gradient to rank 0, the sum back."""
    if dist.get_rank():
        for tensor in tensors:
            dist.send(tensor, 0)
            dist.recv(tensor, 0)
        return
    for tensor in tensors:
        given = [torch.empty_like(tensor) for _ in range(1, dist.get_world_size())]
        for work in [dist.irecv(one, rank + 1) for rank, one in enumerate(given)]:
            work.wait()
        total = torch.stack(given).sum(0)
        for work in [dist.isend(total, rank + 1) for rank in range(len(given))]:
            work.wait()


def main():
    kind, n_steps, compute_ms = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    tensors = [torch.ones(int(n) // 4) for n in sys.argv[4].split(",")]
    steps_s = []
    at, _, command = os.environ.get("NET_WORKER_AT", "").partition(":")
    time.sleep(SETTLE_S)
    for step in range(n_steps):
        if command and step == int(at):
            subprocess.run(command, shell=True, check=True)
        start_s = time.monotonic()
        time.sleep(compute_ms / 1e3)
        (allreduce if kind == "ring" else exchange_by_server)(tensors)
        for tensor in tensors:
            tensor.fill_(1)
        steps_s.append(time.monotonic() - start_s)
    if dist.get_rank() == 0:
        print(json.dumps({"steps_s": steps_s}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
