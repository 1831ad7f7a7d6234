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

/* The middle of one, likewise. */
static double resampled_middle(const double *sorted, size_t n, struct lw_random *random)
{
	uint16_t drawn[LW_STATS_MAX] = {0};
	size_t first = n / 4, end = n - n / 4, at = 0;
	double sum = 0;

	for (size_t k = 0; k < n; k++)
		drawn[lw_random_below(random, n)]++;
	for (size_t i = 0; i < n; at += drawn[i++]) {
		size_t from = at > first ? at : first,
		       to = at + drawn[i] < end ? at + drawn[i] : end;

		if (to > from)
			sum += (double)(to - from) * sorted[i];
	}
	return sum / (double)(end - first);
}

/* Of the sorted @values: 95 % of what @of says of resamples; NAN: not known. */
static void resample(const double *sorted, size_t n,
	double (*of)(const double *sorted, size_t n, struct lw_random *random), double *ret_low,
	double *ret_high)
{
	double kept[LW_STATS_MAX], of_each[N_RESAMPLES];
	size_t n_kept = n < LW_STATS_MAX ? n : LW_STATS_MAX;
	struct lw_random random = {1};

	*ret_low = *ret_high = NAN;
	if (n_kept < 2)
		return;
	for (size_t i = 0; i < n_kept; i++) /* evenly, so that what is kept has the same median */
		kept[i] = sorted[(2 * i + 1) * n / (2 * n_kept)];
	for (size_t i = 0; i < N_RESAMPLES; i++)
		of_each[i] = of(kept, n_kept, &random);
	qsort(of_each, N_RESAMPLES, sizeof(*of_each), lw_stats_ascending);
	*ret_low = of_each[N_RESAMPLES * 25 / 1000];
	*ret_high = of_each[N_RESAMPLES - 1 - N_RESAMPLES * 25 / 1000];
}

void lw_stats_interval(
	const double *values, size_t n, double *ret_median, double *ret_low, double *ret_high)
{
	double *sorted = malloc((n + 1) * sizeof(*sorted));

	*ret_median = *ret_low = *ret_high = NAN;
	if (!sorted)
		return;
	memcpy(sorted, values, n * sizeof(*sorted));
	*ret_median = lw_stats_median(sorted, n);
	resample(sorted, n, resampled_median, ret_low, ret_high);
	free(sorted);
}

void lw_stats_step(
	const double *values, size_t n, double *ret_middle, double *ret_low, double *ret_high)
{
	double *sorted = malloc((n + 1) * sizeof(*sorted)), low, high;

	*ret_middle = *ret_low = *ret_high = NAN;
	if (!sorted)
		return;
	memcpy(sorted, values, n * sizeof(*sorted));
	*ret_middle = lw_stats_middle(sorted, n);
	resample(sorted, n, resampled_median, ret_low, ret_high);
	resample(sorted, n, resampled_middle, &low, &high);
	free(sorted);
	if (!isfinite(low))
		return;
	*ret_low = fmin(fmin(*ret_low, low), *ret_middle);
	*ret_high = fmax(fmax(*ret_high, high), *ret_middle);
}
