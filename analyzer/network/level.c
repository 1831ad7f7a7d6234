/* SPDX-License-Identifier: Apache-2.0 */
/* level.c - the rate that rates agree on, and whether it changed once. A mean of before and after would be neither. */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

enum { LEAST_RATES = 4, LEAST_SIDE = 6, LEAST_SIDE_PART = 10 };

struct middle {
	double low, rate, high; /* quartiles */
};

static struct middle middle_of(const struct lw_net_rate *rates, size_t n, double *scratch)
{
	struct middle middle;

	for (size_t i = 0; i < n; i++)
		scratch[i] = rates[i].bytes_per_s;
	middle.rate = lw_net_median(scratch, n); /* sorts */
	middle.low = scratch[n / 4];
	middle.high = scratch[n * 3 / 4];
	return middle;
}

/* Where the means of both sides differ most, by how many there are. 0: there are too few. */
static size_t split_of(const struct lw_net_rate *rates, size_t n)
{
	size_t least = n / LEAST_SIDE_PART > LEAST_SIDE ? n / LEAST_SIDE_PART : LEAST_SIDE;
	double sum = 0, before = 0, most = -1;
	size_t best = 0;

	for (size_t i = 0; i < n; i++)
		sum += rates[i].bytes_per_s;
	for (size_t k = 1; k + least <= n; k++) {
		double off;

		before += rates[k - 1].bytes_per_s;
		off = before / (double)k - (sum - before) / (double)(n - k);
		off *= off * (double)k * (double)(n - k);
		if (k >= least && off > most) {
			most = off;
			best = k;
		}
	}
	return best;
}

static bool agree(const struct middle *middle, double spread_frac)
{
	return middle->high - middle->low <= spread_frac * middle->rate;
}

static bool are_apart(const struct middle *a, const struct middle *b, double factor)
{
	return (a->low > b->high && a->rate >= factor * b->rate) ||
	       (b->low > a->high && b->rate >= factor * a->rate);
}

struct lw_net_level lw_net_level_of(
	const struct lw_net_rate *rates, size_t n, double spread_frac, double apart_factor)
{
	struct lw_net_level level = {NAN, NAN, LW_NS_UNKNOWN};
	double *scratch = calloc(n + 1, sizeof(*scratch));
	size_t split = split_of(rates, n);
	struct middle all, before, after;

	if (!scratch || n < LEAST_RATES) {
		free(scratch);
		return level;
	}
	all = middle_of(rates, n, scratch);
	if (agree(&all, spread_frac))
		level.bytes_per_s = all.rate;
	if (split) {
		before = middle_of(rates, split, scratch);
		after = middle_of(rates + split, n - split, scratch);
		if (agree(&before, spread_frac) && agree(&after, spread_frac) &&
			are_apart(&before, &after, apart_factor))
			level = (struct lw_net_level){
				after.rate, before.rate, rates[split].from_ns};
	}
	free(scratch);
	return level;
}
