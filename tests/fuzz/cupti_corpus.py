#!/usr/bin/env python3
"""Make the seeds of fuzz_cupti: one record of each kind and version, and what goes before what.

    cupti_corpus.py DIR
"""
import os
import struct
import sys


def record(kind, n_bytes, *members):
    """@members: (offset, struct format, value)."""
    data = bytearray(struct.pack("<I", kind).ljust(n_bytes, b"\0"))
    for offset, layout, value in members:
        struct.pack_into("<" + layout, data, offset, value)
    return bytes([n_bytes]) + bytes(data)


def times(start, end):
    return (start, "Q", 10**12), (end, "Q", 10**12 + 5000)


def call(kind, number, correlation):
    return record(kind, 40, (4, "I", number), *times(8, 16), (28, "I", 99), (32, "I", correlation))


def external(kind, serial, correlation):
    return record(39, 24, (4, "I", kind), (8, "Q", serial), (16, "I", correlation))


SEEDS = {
    "kernels": b"".join(record(10, n, *times(16, 24), (92, "I", n), (104, "Q", 0x1000)) for n in (144, 160, 168, 176, 200, 208, 216)),
    "kernel_of_a_graph": record(10, 216, *times(16, 24), (144, "Q", 9), (156, "I", 4)),
    "backwards": record(10, 216, (16, "Q", 10**12), (24, "Q", 10**11)),
    "unfinished": record(10, 216, (16, "Q", 10**12)),
    "copies": b"".join(record(1, n, (4, "B", 8), (8, "Q", 4096), *times(16, 24)) for n in (64, 72, 80, 88, 96)),
    "peer": record(22, 96, (8, "Q", 1), *times(16, 24), (44, "I", 0), (52, "I", 1)),
    "memset": record(2, 88, (8, "Q", 2**63), *times(16, 24)),
    "wait": record(38, 56, (4, "I", 3), *times(8, 16), (36, "I", 2**32 - 1)),
    "launch_for": external(4, 7, 5) + external(3, 8, 5) + call(5, 211, 5),
    "call_in_a_call": call(4, 307, 6) + call(5, 211, 6),
    "other_call": call(5, 20, 7),
    "overhead": record(17, 40, (4, "I", 5 << 16), *times(24, 32)),
    "graph": record(51, 48, (4, "I", 3), *times(8, 16), (28, "I", 2)),
    "device": record(8, 192, (16, "Q", 80 << 30), (44, "I", 132), (104, "I", 9), (136, "Q", 0x1000)),
    "cut": record(10, 143, *times(16, 24))[:100],
    "unknown": record(77, 64) + record(0, 4),
    "clock": b"\x08" + struct.pack("<q", -10**11) + record(10, 216, *times(16, 24)),
}


def main():
    for name, data in SEEDS.items():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
