/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap.h - 95 % intervals of any statistics by resampling blocks of steps.
 *
 * Pure and seeded: same input, same output. Steps next to each other are not independent, so whole
 * blocks of them are drawn (Kuensch 1989); the statistics must be means or functions of means.
 */
#ifndef LAPWING_ANALYZER_FIT_BOOTSTRAP_H
#define LAPWING_ANALYZER_FIT_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/run.h"

/**
 * Compute the statistics of a run in which block b occurs @weights[b] times.
 * @ret_values: all of them; NAN where this resample cannot say
 * Return: LW_OK or an error, which ends the bootstrap.
 */
typedef int (*lw_statistics_fn)(
	const double *weights, size_t n_blocks, double *ret_values, void *context);

/**
 * lw_bootstrap() - value and interval of @n_values statistics.
 * @n_blocks, @n_replicates: >= 1; 1000 replicates give the ends of an interval to about 5 % of it
 * @ret_figures: value = the statistics with all weights 1; low, high = the percentile interval,
 * widened for the number of blocks (Hesterberg 2015); below 10 blocks Student's t with the
 * bootstrap's standard error. NAN, with why, for one block, or when a tenth of the resamples
 * could not say. how = LW_FITTED; why of a NAN value is left to the caller.
 * Return: LW_OK, LW_ERR_NOMEM, or the error of @statistics.
 */
int lw_bootstrap(size_t n_blocks, size_t n_replicates, uint64_t seed, lw_statistics_fn statistics,
	void *context, size_t n_values, struct lw_figure *ret_figures);

#endif /* LAPWING_ANALYZER_FIT_BOOTSTRAP_H */
