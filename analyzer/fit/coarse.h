/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coarse.h - the coarse model (model/coarse.h) fitted to measured step times.
 *
 * Pure: numbers in, numbers out. Least is the root mean square of ln(modelled / measured), as Pollux takes
 * it, so a step of 10 ms weighs as much as one of 10 s.
 * Not for: one run, which has one number of ranks and one batch size (simulate/closed.h).
 */
#ifndef LAPWING_ANALYZER_FIT_COARSE_H
#define LAPWING_ANALYZER_FIT_COARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/model/coarse.h"

struct lw_coarse_sample {
	struct lw_coarse_setting setting;
	double step_ns; /* > 0 */
};

struct lw_coarse_fit {
	struct lw_coarse model;
	/* Which of the model's parameters the samples can tell. The others are held at 0, the power at 1: a
	 * slope needs two different values, the power needs both phases. */
	bool knows_per_sample, knows_inter, knows_inter_slope, knows_intra, knows_intra_slope,
		knows_power;
	double rmsle;     /* the least found */
	double mape_frac; /* mean of |modelled - measured| / measured */
	double max_frac;  /* the largest */
};

/**
 * lw_coarse_fit() - all parameters >= 0, the power within its bounds.
 * Levenberg's and Marquardt's steps on ln(modelled / measured), cut at the bounds, from several starts of a
 * fixed sequence, since the minimum is not the only one: same samples, same fit.
 * Return: LW_OK, LW_ERR_LIMIT (no sample, or one that is not positive), LW_ERR_NOMEM.
 */
int lw_coarse_fit(const struct lw_coarse_sample *samples, size_t n, struct lw_coarse_fit *ret_fit);

/**
 * lw_pnorm_fit_power() - the power that, by the same measure, explains @step_ns by two phases.
 * @compute_ns, @network_ns, @step_ns: @n each, > 0
 * Return: within the bounds; at one of them where the steps lie outside of what any power gives.
 */
double lw_pnorm_fit_power(
	const double *compute_ns, const double *network_ns, const double *step_ns, size_t n);

#endif /* LAPWING_ANALYZER_FIT_COARSE_H */
