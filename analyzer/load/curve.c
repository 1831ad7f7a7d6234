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

/* The last point at or before @at_ns, looked for from *@hint on; and how far it is on to the next. Return: false: there is none. */
static bool find_point(const struct lw_tcp_end *end, int64_t at_ns, size_t *hint, double *ret_part)
{
	const struct lw_curve_point *at = end->curve.at;
	size_t i = *hint, low = 0, high = end->curve.n;

	*ret_part = 0;
	if (i < end->curve.n && at[i].at_ns <= at_ns) { /* times mostly come in their order */
		while (i + 1 < end->curve.n && at[i + 1].at_ns <= at_ns)
			i++;
	} else {
		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (at[middle].at_ns <= at_ns)
				low = middle + 1;
			else
				high = middle;
		}
		if (!low)
			return false;
		i = low - 1;
	}
	if (i + 1 < end->curve.n)
		*ret_part = (double)(at_ns - at[i].at_ns) / (double)(at[i + 1].at_ns - at[i].at_ns);
	*hint = i;
	return true;
}

static uint64_t bytes_of(const struct lw_curve_point *point, enum lw_end_way way)
{
	return way == LW_END_SENT   ? point->sent_bytes
	       : way == LW_END_READ ? point->read_bytes
				    : point->received_bytes;
}

double lw_end_bytes(const struct lw_tcp_end *end, int64_t at_ns, enum lw_end_way way, size_t *hint)
{
	const struct lw_curve_point *at;
	double part;

	if (!find_point(end, at_ns, hint, &part))
		return 0;
	at = &end->curve.at[*hint];
	return part > 0 ? between(bytes_of(&at[0], way), bytes_of(&at[1], way), part)
			: (double)bytes_of(at, way);
}

double lw_end_total_bytes(const struct lw_tcp_end *end, enum lw_end_way way)
{
	return end->curve.n ? (double)bytes_of(&end->curve.at[end->curve.n - 1], way) : 0;
}

double lw_end_sent_bytes(const struct lw_tcp_end *end)
{
	return lw_end_total_bytes(end, LW_END_SENT);
}

double lw_end_received_bytes(const struct lw_tcp_end *end)
{
	return lw_end_total_bytes(end, LW_END_RECEIVED);
}
