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

double lw_end_bytes(const struct lw_tcp_end *end, int64_t at_ns, bool is_sent, size_t *hint)
{
	const struct lw_curve_point *at;
	double part;

	if (!find_point(end, at_ns, hint, &part))
		return 0;
	at = &end->curve.at[*hint];
	if (part > 0)
		return is_sent ? between(at[0].sent_bytes, at[1].sent_bytes, part)
			       : between(at[0].received_bytes, at[1].received_bytes, part);
	return (double)(is_sent ? at->sent_bytes : at->received_bytes);
}

double lw_end_sent_bytes(const struct lw_tcp_end *end)
{
	return end->curve.n ? (double)end->curve.at[end->curve.n - 1].sent_bytes : 0;
}

double lw_end_received_bytes(const struct lw_tcp_end *end)
{
	return end->curve.n ? (double)end->curve.at[end->curve.n - 1].received_bytes : 0;
}
