/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_span.h - what advice on GPUs is measured against: the counted steps of a rank, or all of it where there are none.
 *
 * Reads:  a run after gpu.   Writes: nothing.
 * These advisers replay nothing. What they say is at most to be gained comes straight from the records; its error is not
 * known, as nobody ran the job the other way, and they say so.
 */
#ifndef LAPWING_ANALYZER_ADVISE_GPU_SPAN_H
#define LAPWING_ANALYZER_ADVISE_GPU_SPAN_H

#include "analyzer/advise/advise.h"

#define LW_GPU_WORTH_FRAC 0.02 /* of a step: below it nothing is said */

struct lw_gpu_span {
	const struct lw_rank *rank;
	const struct lw_gpu_times *times; /* sums over n */
	double n;                         /* steps; 1 where there are none */
	double length_ns;                 /* of one */
	int64_t first_ns, last_ns;        /* of one without steps: when kernels ran */
	const char *each;                 /* "a step", "in what was recorded" */
};

/** lw_gpu_span() - of @rank. Return: false: it has no kernels, or no time passed. */
bool lw_gpu_span(
	const struct lw_run *run, const struct lw_rank *rank, struct lw_gpu_span *ret_span);

/**
 * lw_gpu_span_has() - @at_ns is in what is counted of @rank: without steps, from its first kernel to the end of its last.
 * @hint: 0 at first; then it is quick for ascending times.
 */
bool lw_gpu_span_has(const struct lw_gpu_span *span, int64_t at_ns, size_t *hint);

/** lw_gpu_span_frac() - what @ns, a sum over all that counts, is of it: at most 1, for no run gains more than it took. */
double lw_gpu_span_frac(const struct lw_gpu_span *span, double ns);

#endif /* LAPWING_ANALYZER_ADVISE_GPU_SPAN_H */
