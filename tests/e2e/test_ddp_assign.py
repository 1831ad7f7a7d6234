#!/usr/bin/env python3
"""Which gradients share a bucket: the analyzer's answer against torch's own, over random models."""
import os
import random
import subprocess

import torch
import torch.distributed as dist

PROGRAM = os.path.join(os.environ["LAPWING_BUILD_DIR"], "tests", "ddp_assign")
TYPES = {torch.float32: 8, torch.float64: 9, torch.float16: 7}
N_CASES = 400


def case(draw):
    """One type: torch's order of buckets that stay open is that of a hash table, so with more it is not defined."""
    dtype = draw.choice(list(TYPES))
    sizes = [draw.randint(1, 3000) for _ in range(draw.randint(1, 60))]
    tensors = [torch.empty(size, dtype=dtype) for size in sizes]
    limits = draw.choice([[draw.randint(1, 20000), draw.randint(1, 50000)], [10 ** 15, 10 ** 15]])
    is_static = draw.random() < 0.5
    # rebuild_buckets() names the tensors, in the order in which they were ready; the constructor does not
    order = list(range(len(sizes)))
    indices, _ = dist._compute_bucket_assignment_by_size(
        tensors, limits, [False] * len(sizes), *([] if is_static else [order]))
    if is_static:
        indices = list(reversed(indices))
    expected = [0] * len(sizes)
    for bucket, members in enumerate(indices):
        for i in members:
            expected[i] = bucket
    rows = " ".join(f"{t.numel() * t.element_size()} {TYPES[dtype]}" for t in tensors)
    return f"{int(is_static)} {limits[0]} {limits[1]} {len(sizes)} {rows}", expected


def several_types(draw):
    """Every tensor that is not left over at the end: which ones it shares a bucket with, and in which order it is sent."""
    sizes = [(draw.randint(1, 3000), draw.choice(list(TYPES))) for _ in range(60)]
    tensors = [torch.empty(size, dtype=dtype) for size, dtype in sizes]
    limits = [draw.randint(1, 20000), draw.randint(1, 50000)]
    indices, _ = dist._compute_bucket_assignment_by_size(tensors, limits, [False] * 60, list(range(60)))
    rows = " ".join(f"{t.numel() * t.element_size()} {TYPES[t.dtype]}" for t in tensors)
    return f"0 {limits[0]} {limits[1]} 60 {rows}", indices, limits, tensors


def answer(lines):
    done = subprocess.run([PROGRAM], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


def main():
    draw = random.Random(1)
    cases = [case(draw) for _ in range(N_CASES)]
    found = answer([line for line, _ in cases])
    assert len(found) == N_CASES
    for (line, expected), own in zip(cases, found):
        assert own == expected, (line, own, expected)
    mixed = [several_types(draw) for _ in range(N_CASES)]
    for (line, indices, limits, tensors), own in zip(mixed, answer([one[0] for one in mixed])):
        buckets = [[t for t in range(60) if own[t] == bucket] for bucket in range(max(own) + 1)]
        n_left = len(indices)
        while n_left and sum(tensors[t].numel() * tensors[t].element_size() for t in indices[n_left - 1]) < limits[1]:
            n_left -= 1
        assert buckets[:n_left] == indices[:n_left], line
        assert sorted(buckets[n_left:]) == sorted(indices[n_left:]), line
    print(f"{2 * N_CASES} models: the same buckets as torch {torch.__version__} makes")


if __name__ == "__main__":
    main()
