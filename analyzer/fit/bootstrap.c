/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/bootstrap.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/random.h"

enum { MIN_PERCENTILE_BLOCKS = 10 };

/* 97.5 % quantile of Student's t: exact for few degrees, then Abramowitz and Stegun 26.7.5. */
static double student_t(size_t n_degrees)
{
	static const double few[] = {12.706, 4.303, 3.182, 2.776};
	const double z = 1.959964, v = (double)n_degrees;

	if (n_degrees <= sizeof(few) / sizeof(few[0]))
		return few[n_degrees - 1];
	return z + (pow(z, 3) + z) / (4 * v) +
	       (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * v * v);
}

/* Percentiles are too narrow by sqrt((n - 1) / n) and know no t: ask for a smaller tail. */
static double tail_frac(size_t n_blocks)
{
	double n = (double)n_blocks;

	return 0.5 * erfc(sqrt(n / (n - 1)) * student_t(n_blocks - 1) / sqrt(2));
}

static int compare_doubles(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static double quantile(const double *sorted, size_t n, double frac)
{
	double place = frac * (double)(n - 1);
	size_t below = (size_t)place;

	if (below + 1 >= n)
		return sorted[n - 1];
	return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

/* @replicates: of one statistic; sorted here. */
static void interval(
	double *replicates, size_t n_replicates, size_t n_blocks, struct lw_figure *figure)
{
	size_t n = 0;

	for (size_t i = 0; i < n_replicates; i++)
		if (isfinite(replicates[i]))
			replicates[n++] = replicates[i];
	if (!isfinite(figure->value))
		return;
	if (n * 10 < n_replicates * 9) {
		figure->why = "no interval: too often missing when steps are resampled";
		return;
	}
	if (n_blocks < MIN_PERCENTILE_BLOCKS) {
		double sum = 0, squares = 0, mean, blocks = (double)n_blocks;
		double half;

		for (size_t i = 0; i < n; i++)
			sum += replicates[i];
		mean = sum / (double)n;
		for (size_t i = 0; i < n; i++)
			squares += (replicates[i] - mean) * (replicates[i] - mean);
		half = student_t(n_blocks - 1) * sqrt(squares / (double)n * blocks / (blocks - 1));
		figure->low = figure->value - half;
		figure->high = figure->value + half;
		return;
	}
	qsort(replicates, n, sizeof(*replicates), compare_doubles);
	figure->low = quantile(replicates, n, tail_frac(n_blocks));
	figure->high = quantile(replicates, n, 1 - tail_frac(n_blocks));
}

int lw_bootstrap(size_t n_blocks, size_t n_replicates, uint64_t seed, lw_statistics_fn statistics,
	void *context, size_t n_values, struct lw_figure *ret_figures)
{
	double *weights = calloc(n_blocks, sizeof(*weights));
	double *values = calloc(n_values, sizeof(*values));
	double *replicates =
		calloc(n_values * n_replicates, sizeof(*replicates)); /* by statistic */
	struct lw_random random = {seed};
	int status = LW_OK;

	if (!weights || !values || !replicates) {
		status = lw_fail(LW_ERR_NOMEM, "no memory for %zu resamples of %zu figures",
			n_replicates, n_values);
		goto out;
	}
	for (size_t b = 0; b < n_blocks; b++)
		weights[b] = 1;
	status = statistics(weights, n_blocks, values, context);
	for (size_t v = 0; status == LW_OK && v < n_values; v++)
		ret_figures[v] = (struct lw_figure){values[v], NAN, NAN, LW_FITTED,
			n_blocks < 2 ? "no interval: one block of steps only" : NULL};
	for (size_t r = 0; status == LW_OK && n_blocks > 1 && r < n_replicates; r++) {
		for (size_t b = 0; b < n_blocks; b++)
			weights[b] = 0;
		for (size_t b = 0; b < n_blocks; b++)
			weights[lw_random_below(&random, n_blocks)]++;
		status = statistics(weights, n_blocks, values, context);
		for (size_t v = 0; v < n_values; v++)
			replicates[v * n_replicates + r] = values[v];
	}
	for (size_t v = 0; status == LW_OK && n_blocks > 1 && v < n_values; v++)
		interval(&replicates[v * n_replicates], n_replicates, n_blocks, &ret_figures[v]);
out:
	free(weights);
	free(values);
	free(replicates);
	return status;
}
