/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

enum { N_RESAMPLES = 200 };

int lw_stats_ascending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

double lw_stats_median(double *values, size_t n)
{
	if (n == 0)
		return NAN;
	qsort(values, n, sizeof(*values), lw_stats_ascending);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double lw_stats_middle(double *values, size_t n)
{
	size_t n_left_out = n / 4;
	double sum = 0;

	if (n == 0)
		return NAN;
	qsort(values, n, sizeof(*values), lw_stats_ascending);
	for (size_t i = n_left_out; i < n - n_left_out; i++)
		sum += values[i];
	return sum / (double)(n - 2 * n_left_out);
}

/* The median of a resample of sorted values, from how often each was drawn. */
static double resampled_median(const double *sorted, size_t n, struct lw_random *random)
{
	uint16_t drawn[LW_STATS_MAX] = {0};
	size_t below = 0, lower = 0, i = 0;

	for (size_t k = 0; k < n; k++)
		drawn[lw_random_below(random, n)]++;
	for (; below + drawn[i] < (n + 1) / 2; i++)
		below += drawn[i];
	lower = i;
	if (n % 2 || below + drawn[i] > n / 2)
		return sorted[i];
	do
		i++;
	while (!drawn[i]);
	return (sorted[lower] + sorted[i]) / 2;
}

void lw_stats_interval(
	const double *values, size_t n, double *ret_median, double *ret_low, double *ret_high)
{
	double kept[LW_STATS_MAX], medians[N_RESAMPLES];
	size_t n_kept = n < LW_STATS_MAX ? n : LW_STATS_MAX;
	double *sorted = malloc((n + 1) * sizeof(*sorted));
	struct lw_random random = {1};

	*ret_median = *ret_low = *ret_high = NAN;
	if (!sorted)
		return;
	memcpy(sorted, values, n * sizeof(*sorted));
	*ret_median = lw_stats_median(sorted, n);
	for (size_t i = 0; i < n_kept; i++) /* evenly, so that what is kept has the same median */
		kept[i] = sorted[(2 * i + 1) * n / (2 * n_kept)];
	free(sorted);
	if (n_kept < 2)
		return;
	for (size_t i = 0; i < N_RESAMPLES; i++)
		medians[i] = resampled_median(kept, n_kept, &random);
	qsort(medians, N_RESAMPLES, sizeof(*medians), lw_stats_ascending);
	*ret_low = medians[N_RESAMPLES * 25 / 1000];
	*ret_high = medians[N_RESAMPLES - 1 - N_RESAMPLES * 25 / 1000];
}

void lw_stats_step(
	const double *values, size_t n, double *ret_middle, double *ret_low, double *ret_high)
{
	double median, *copy = malloc((n + 1) * sizeof(*copy));

	lw_stats_interval(values, n, &median, ret_low, ret_high);
	*ret_middle = NAN;
	if (!copy)
		return;
	memcpy(copy, values, n * sizeof(*copy));
	*ret_middle = lw_stats_middle(copy, n);
	free(copy);
	if (isfinite(*ret_low)) {
		*ret_low = fmin(*ret_low, *ret_middle);
		*ret_high = fmax(*ret_high, *ret_middle);
	}
}
