/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - which form of cost predicts sizes that it has not seen. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/fit/cost.h"
#include "base/err.h"

enum { MAX_SINGLE_SIZES = 20, N_FOLDS = 10, MIN_SIZES = 3 };
static const double enough_better_frac = 0.9;
/* Of the time of an operation. Sizes that a run does not hold are predicted as badly as those that were left out, and
 * another setting seldom saves more than this of what is on the wire: beyond it the error decides what is advised.
 * Of 49 real jobs on loopback three in four are below. */
static const double poor_frac = 0.3;

/* Mean of |fit - mean| / mean over the sizes of all folds, each fitted without its own. */
static int cross_validate(const struct lw_size *sizes, size_t n, enum lw_cost_form form,
	enum lw_weighting weighting, struct lw_size *scratch, double *ret_frac)
{
	size_t n_folds = n <= MAX_SINGLE_SIZES ? n : N_FOLDS;
	double sum = 0, n_tested = 0;

	for (size_t fold = 0; fold < n_folds; fold++) {
		struct lw_cost cost;
		size_t n_kept = 0;
		int status;

		for (size_t i = 0; i < n; i++)
			if (i % n_folds != fold)
				scratch[n_kept++] = sizes[i];
		status = lw_cost_fit(scratch, n_kept, form, weighting, &cost);
		if (status < 0)
			return status;
		for (size_t i = fold; i < n; i += n_folds) {
			if (!(sizes[i].mean_ns > 0))
				continue;
			sum += fabs(lw_cost_ns(&cost, sizes[i].bytes, NULL) / sizes[i].mean_ns - 1);
			n_tested++;
		}
		lw_cost_done(&cost);
	}
	*ret_frac = n_tested > 0 ? sum / n_tested : (double)NAN;
	return LW_OK;
}

int lw_cost_choose(const struct lw_size *sizes, size_t n, enum lw_weighting weighting,
	struct lw_cost *ret_cost)
{
	/* fewest parameters first */
	static const enum lw_cost_form forms[] = {
		LW_COST_AFFINE, LW_COST_PIECEWISE, LW_COST_SEGMENTS, LW_COST_TABLE};
	enum lw_cost_form best = LW_COST_AFFINE;
	double best_frac = NAN;
	struct lw_size *scratch;
	int status = LW_OK;

	if (n < MIN_SIZES)
		return lw_cost_fit(sizes, n, LW_COST_AFFINE, weighting, ret_cost);
	scratch = calloc(n, sizeof(*scratch));
	if (!scratch)
		return lw_fail(LW_ERR_NOMEM, "no memory to compare fits of %zu sizes", n);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]) && status == LW_OK; i++) {
		double frac;

		status = cross_validate(sizes, n, forms[i], weighting, scratch, &frac);
		if (status == LW_OK && (i == 0 || frac < enough_better_frac * best_frac)) {
			best = forms[i];
			best_frac = frac;
		}
	}
	free(scratch);
	if (status == LW_OK)
		status = lw_cost_fit(sizes, n, best, weighting, ret_cost);
	if (status == LW_OK)
		ret_cost->cross_frac = best_frac;
	return status;
}

const char *lw_cost_verdict(const struct lw_cost *cost, char text[LW_VERDICT_TEXT_BYTES])
{
	text[0] = 0;
	if (cost->form != LW_COST_NONE && cost->cross_frac > poor_frac)
		snprintf(text, LW_VERDICT_TEXT_BYTES, "poor fit: held-out error %.0f %%",
			100 * cost->cross_frac);
	return text;
}
