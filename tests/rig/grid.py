#!/usr/bin/env python3
"""Which jobs the rig runs: cells (ranks, model, bandwidth, transport) and, for each, settings (fusion bytes, cycle).

The cells cover every pair of values of two of their four factors, the rows of all cells every pair of values of two of
the six. Settings are chosen greedily in a fixed order, the same on every machine. grid.py prints and checks them.
"""
import itertools
import sys

RANKS = (2, 3, 4)
MODELS = ("uniform", "resnet50", "vgg", "tiny", "convnet")
RATES = ("50mbit", "100mbit")
TRANSPORTS = ("gloo", "mpi")
MIB = 1 << 20
FUSION_BYTES = (0, 65536, MIB, 16 * MIB, 128 * MIB)
CYCLES_MS = (5, 25, 100, 250)  # Horovod's 1, 5, 20 and 50 ms, dilated by 5
DEFAULT = (128 * MIB, 5)
N_ROWS = 70
FACTORS = (RANKS, MODELS, RATES, TRANSPORTS, FUSION_BYTES, CYCLES_MS)


def pairs(row):
    """Each pair of values of two factors that the row holds."""
    return {(i, row[i], j, row[j]) for i, j in itertools.combinations(range(len(row)), 2)}


def all_pairs(factors):
    return {(i, a, j, b) for i, j in itertools.combinations(range(len(factors)), 2) for a in factors[i] for b in factors[j]}


def cells():
    """15 cells, one for each pair of model and ranks; bandwidth and transport vary along both."""
    return [(n, model, RATES[(m + r) % 2], TRANSPORTS[((r == m % 3) + m) % 2])
            for m, model in enumerate(MODELS) for r, n in enumerate(RANKS)]


def n_alike(row, others):
    """How much a row repeats: values that its own cell has, and its setting anywhere."""
    return sum((row[4] == o[4]) + (row[5] == o[5]) if o[:4] == row[:4] else row[4:] == o[4:] for o in others)


def rows():
    """(ranks, model, rate, transport, fusion bytes, cycle) of every setting; each cell's first is Horovod's default."""
    found = [cell + DEFAULT for cell in cells()]
    covered = set().union(*map(pairs, found))
    settings = list(itertools.product(FUSION_BYTES, CYCLES_MS))
    while len(found) < N_ROWS:
        for cell in cells():
            if len(found) == N_ROWS:
                break
            row = max((cell + s for s in settings if cell + s not in found),
                      key=lambda r: (len(pairs(r) - covered), -n_alike(r, found)))
            found.append(row)
            covered |= pairs(row)
    order = cells()
    return sorted(found, key=lambda r: order.index(r[:4]))


def cell_name(cell):
    return f"n{cell[0]}-{cell[1]}-{cell[2]}-{cell[3]}"


def main():
    for row in rows():
        print(cell_name(row[:4]), *row[4:])
    missing = (all_pairs(FACTORS[:4]) - set().union(*map(pairs, cells()))) | (all_pairs(FACTORS) - set().union(*map(pairs, rows())))
    print(f"{len(cells())} cells, {len(rows())} rows, {len(all_pairs(FACTORS))} pairs, {len(missing)} not covered {sorted(missing, key=str)}")
    return 1 if missing or len(set(rows())) != N_ROWS else 0


if __name__ == "__main__":
    sys.exit(main())
