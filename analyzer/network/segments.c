/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segments.c - what the kernel counted of one end between two moments: payload, segments, what was sent again. Segments are
 * acknowledgements too: those follow what comes in, not what is sent.
 */
#include <math.h>
#include <stddef.h>

#include "analyzer/network/network.h"

static int64_t value_at(const struct lw_tcp_end *end, size_t reading, size_t offset)
{
	return *(const int64_t *)(const void *)((const char *)&end->tcp.at[reading] + offset);
}

static bool is_known(const struct lw_tcp_end *end, size_t offset)
{
	return end->tcp.n && value_at(end, 0, offset) >= 0 &&
	       value_at(end, end->tcp.n - 1, offset) >= 0;
}

static double moved_bytes(const struct lw_tcp_end *end, int64_t at_ns)
{
	size_t hint = 0;

	return lw_end_bytes(end, at_ns, LW_END_SENT, &hint) +
	       lw_end_bytes(end, at_ns, LW_END_RECEIVED, &hint);
}

/* By @at_ns, between two readings in proportion; before the first one, in proportion to the payload both ways. */
static double counted_by(const struct lw_tcp_end *end, size_t offset, int64_t at_ns)
{
	const struct lw_tcp_reading *at = end->tcp.at;
	size_t low = 0, high = end->tcp.n;
	double value, more;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (at[middle].at_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low) {
		double moved = moved_bytes(end, at[0].at_ns);

		return moved > 0
			       ? (double)value_at(end, 0, offset) * moved_bytes(end, at_ns) / moved
			       : 0;
	}
	value = (double)value_at(end, low - 1, offset);
	if (low == end->tcp.n || at[low].at_ns == at[low - 1].at_ns)
		return value;
	more = (double)value_at(end, low, offset) - value;
	return value + more * (double)(at_ns - at[low - 1].at_ns) /
			       (double)(at[low].at_ns - at[low - 1].at_ns);
}

static double counted(const struct lw_tcp_end *end, size_t offset, int64_t from_ns, int64_t to_ns)
{
	return fmax(0, counted_by(end, offset, to_ns) - counted_by(end, offset, from_ns));
}

double lw_net_segments(
	const struct lw_tcp_end *end, enum lw_end_way way, int64_t from_ns, int64_t to_ns)
{
	size_t offset = way == LW_END_SENT ? offsetof(struct lw_tcp_reading, n_segments_out)
					   : offsetof(struct lw_tcp_reading, n_segments_in);

	return is_known(end, offset) ? counted(end, offset, from_ns, to_ns) : (double)NAN;
}

double lw_net_kernel_bytes(
	const struct lw_tcp_end *end, enum lw_end_way way, int64_t from_ns, int64_t to_ns)
{
	size_t offset = way == LW_END_SENT ? offsetof(struct lw_tcp_reading, sent_bytes)
					   : offsetof(struct lw_tcp_reading, received_bytes);

	return is_known(end, offset) ? counted(end, offset, from_ns, to_ns) : (double)NAN;
}

double lw_net_again_bytes(const struct lw_tcp_end *end, int64_t from_ns, int64_t to_ns)
{
	const size_t offset = offsetof(struct lw_tcp_reading, retransmitted_bytes);

	return is_known(end, offset) ? counted(end, offset, from_ns, to_ns) : 0;
}

double lw_net_n_again(const struct lw_tcp_end *end, int64_t from_ns, int64_t to_ns)
{
	const size_t offset = offsetof(struct lw_tcp_reading, n_retransmits);

	return is_known(end, offset) ? counted(end, offset, from_ns, to_ns) : 0;
}
