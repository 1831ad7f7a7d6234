/* SPDX-License-Identifier: Apache-2.0 */
/* curve.c - the cumulative curve of a rank's traffic, read at any time. */
#include "analyzer/run.h"

double lw_rank_sent_bytes(const struct lw_rank *rank, int64_t at_ns)
{
	const struct lw_traffic *before = NULL, *after = NULL, *sample;

	lw_vec_foreach (sample, &rank->traffic) {
		if (sample->at_ns > at_ns) {
			after = sample;
			break;
		}
		before = sample;
	}
	if (!before)
		return 0;
	if (!after)
		return (double)before->sent_bytes;
	return (double)before->sent_bytes + (double)(after->sent_bytes - before->sent_bytes) *
						    (double)(at_ns - before->at_ns) /
						    (double)(after->at_ns - before->at_ns);
}

static double between(uint64_t before, uint64_t after, double part)
{
	return (double)before + ((double)after - (double)before) * part;
}

/* The last point at or before @at_ns, and how far it is on to the next. Return: false: there is none. */
static bool find_point(
	const struct lw_tcp_end *end, int64_t at_ns, size_t *ret_index, double *ret_part)
{
	size_t low = 0, high = end->curve.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (end->curve.at[middle].at_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	*ret_index = low - 1;
	*ret_part = 0;
	if (low < end->curve.n) {
		const struct lw_curve_point *at = &end->curve.at[low - 1];

		*ret_part = (double)(at_ns - at->at_ns) / (double)(at[1].at_ns - at->at_ns);
	}
	return true;
}

double lw_end_sent_bytes(const struct lw_tcp_end *end, int64_t at_ns)
{
	const struct lw_curve_point *at = end->curve.at;
	size_t i;
	double part;

	if (!find_point(end, at_ns, &i, &part))
		return 0;
	return between(at[i].sent_bytes, at[part > 0 ? i + 1 : i].sent_bytes, part);
}

double lw_end_received_bytes(const struct lw_tcp_end *end, int64_t at_ns)
{
	const struct lw_curve_point *at = end->curve.at;
	size_t i;
	double part;

	if (!find_point(end, at_ns, &i, &part))
		return 0;
	return between(at[i].received_bytes, at[part > 0 ? i + 1 : i].received_bytes, part);
}
