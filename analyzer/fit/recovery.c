/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/recovery.h"

#include <math.h>
#include <stdlib.h>

enum {
	MIN_FREE = 12, /* samples beyond one of each size that the comparison needs */
	A_FEW = 3
};
static const double least_spread_frac =
	0.05; /* of the limit: pauses that are all alike say nothing */
static const double surely = 3;
/* limits that are tried, ns: the buckets and windows of real links empty within these */
static const double limits_ns[] = {
	0.25e6, 0.5e6, 1e6, 1.5e6, 2e6, 3e6, 4e6, 6e6, 8e6, 12e6, 16e6, 24e6, LW_RECOVERY_MOST_NS};

/* By size, then by the pause. */
static int by_bytes(const void *a, const void *b)
{
	const struct lw_recovery_sample *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? 1 : -1;
	return (x->idle_ns > y->idle_ns) - (x->idle_ns < y->idle_ns);
}

struct sums { /* of deviations from the mean of their size, weighted; x: pause, y: service */
	double xx, xy, yy;
	double spread_ns2; /* of the pauses, not weighted */
	size_t n_free;
};

/* Samples [@first, @end) are of one size. Relative weights, as in every fit of costs. */
static void add_size(
	struct sums *sums, const struct lw_recovery_sample *sample, size_t n, double limit_ns)
{
	double x_mean = 0, y_mean = 0, weight;

	for (size_t i = 0; i < n; i++) {
		x_mean += fmin(sample[i].idle_ns, limit_ns) / (double)n;
		y_mean += sample[i].service_ns / (double)n;
	}
	weight = 1 / (y_mean * y_mean);
	for (size_t i = 0; i < n; i++) {
		double x = fmin(sample[i].idle_ns, limit_ns) - x_mean;
		double y = sample[i].service_ns - y_mean;

		sums->xx += weight * x * x;
		sums->xy += weight * x * y;
		sums->yy += weight * y * y;
		sums->spread_ns2 += x * x;
	}
	sums->n_free += n - 1;
}

static struct sums sums_of(const struct lw_recovery_sample *samples, size_t n, double limit_ns)
{
	struct sums sums = {0};
	size_t end;

	for (size_t first = 0; first < n; first = end) {
		for (end = first + 1; end < n && samples[end].bytes == samples[first].bytes;)
			end++;
		add_size(&sums, samples + first, end - first, limit_ns);
	}
	return sums;
}

/* The longest pause that a few operations had and a few of their size had no more than half of. */
static double told_ns(const struct lw_recovery_sample *samples, size_t n)
{
	double longest_ns = 0;
	size_t end;

	for (size_t first = 0; first < n; first = end) {
		double pause_ns;

		for (end = first + 1; end < n && samples[end].bytes == samples[first].bytes;)
			end++;
		if (end - first < 2 * A_FEW)
			continue;
		pause_ns = samples[end - A_FEW].idle_ns;
		if (samples[first + A_FEW - 1].idle_ns <= pause_ns / 2)
			longest_ns = fmax(longest_ns, pause_ns);
	}
	return longest_ns;
}

struct lw_recovery lw_recovery_fit(struct lw_recovery_sample *samples, size_t n)
{
	struct lw_recovery best = {0, 0, 0};
	double least = INFINITY;

	if (n > 0)
		qsort(samples, n, sizeof(*samples), by_bytes);
	for (size_t i = 0; i < sizeof(limits_ns) / sizeof(limits_ns[0]); i++) {
		struct sums sums = sums_of(samples, n, limits_ns[i]);
		double slope, residual, error;

		if (sums.n_free < MIN_FREE || sqrt(sums.spread_ns2 / (double)sums.n_free) <
						      least_spread_frac * limits_ns[i])
			continue;
		slope = fmin(fmax(-sums.xy / sums.xx, 0), 1);
		residual = sums.yy + 2 * slope * sums.xy + slope * slope * sums.xx;
		error = sqrt(residual / (double)(sums.n_free - 1) / sums.xx);
		if (residual < least && slope > surely * error) {
			least = residual;
			best = (struct lw_recovery){slope, limits_ns[i], 0};
		}
	}
	best.told_ns = told_ns(samples, n);
	return best;
}
