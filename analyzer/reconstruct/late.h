/* SPDX-License-Identifier: Apache-2.0 */
/* late.h - between late.c and late_kernels.c. */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_LATE_H
#define LAPWING_ANALYZER_RECONSTRUCT_LATE_H

#include "analyzer/run.h"

/* Kernels of an operation that all leave together end within so much of each other: ranks that differ by less came together. */
#define LW_LATE_RESOLUTION_NS 5000

/**
 * lw_kernels_late() - by what each rank came later than the first, by its own doing, to the operation of step @s that somebody
 * came to latest so; of a rank without a part in it, the same of the one that it came to latest. @late_ns: one a rank.
 * Return: false: of some rank it is not known.
 */
bool lw_kernels_late(const struct lw_run *run, size_t s, int64_t *late_ns);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_LATE_H */
