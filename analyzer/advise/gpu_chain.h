/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_chain.h - what a run gains at most where ranks come earlier to their operations.
 *
 * Ranks leave an operation together, as much earlier as whoever comes last to it does: by what it gained itself since the
 * operation before, and by what that one gained. So gains add up from operation to operation that share a rank; those of
 * groups of ranks that share none run side by side, and are not added.
 *
 * Reads:  a run after match.   Writes: nothing.
 */
#ifndef LAPWING_ANALYZER_ADVISE_GPU_CHAIN_H
#define LAPWING_ANALYZER_ADVISE_GPU_CHAIN_H

#include "analyzer/run.h"

/**
 * lw_gpu_chain_gain() - along the ranks that come last in turn, over all of @run.
 * @last: of each group the index of the rank that came last, LW_NONE = not known
 * @held_ns: of each group, what that rank can gain before it
 * @free_ns: of each rank, what it can gain after the last operation of which it is known
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_gpu_chain_gain(const struct lw_run *run, const int32_t *last, const double *held_ns,
	const double *free_ns, double *ret_ns);

#endif /* LAPWING_ANALYZER_ADVISE_GPU_CHAIN_H */
