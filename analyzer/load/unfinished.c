/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unfinished.c - a rank that was killed in the middle of an operation.
 *
 * An operation is recorded when it ends: of one that never did there are its gradients, handed over after the last
 * one ended, and the readings of connections that were still there.
 */
#include <stdio.h>

#include "analyzer/load/load.h"
#include "base/units.h"

static int64_t last_end_ns(const struct lw_rank *rank)
{
	const struct lw_batch *batch;
	int64_t end_ns = LW_NS_UNKNOWN;

	lw_vec_foreach (batch, &rank->batches)
		end_ns = batch->end_ns > end_ns ? batch->end_ns : end_ns;
	return end_ns;
}

/* The last time that one of its connections was found. */
static int64_t last_seen_ns(const struct lw_run *run, size_t rank)
{
	const struct lw_tcp_end *end;
	int64_t at_ns = LW_NS_UNKNOWN;

	lw_vec_foreach (end, &run->ends)
		if (end->rank == (int32_t)rank && end->tcp.n &&
			end->tcp.at[end->tcp.n - 1].at_ns > at_ns)
			at_ns = end->tcp.at[end->tcp.n - 1].at_ns;
	return at_ns;
}

static int say(struct lw_run *run, size_t r, int64_t end_ns, int64_t first_ns, size_t n)
{
	const struct lw_rank *rank = &run->ranks.at[r];
	int64_t seen_ns = last_seen_ns(run, r);
	char ended[LW_UNIT_TEXT_BYTES], since[LW_UNIT_TEXT_BYTES], seen[LW_UNIT_TEXT_BYTES];
	char after[96] = "";

	if (seen_ns > first_ns)
		snprintf(after, sizeof(after), "; its connections were there for another %s",
			lw_ns_format((double)(seen_ns - first_ns), seen));
	return lw_run_diag(run, "load", "unfinished operation", 1,
		"rank %d was killed: its last operation to end did so %s after its start, and of the %zu gradient%s that it handed over from %s on none was carried to an end%s",
		rank->rank, lw_ns_format((double)(end_ns - rank->start_ns), ended), n,
		n == 1 ? "" : "s", lw_ns_format((double)(first_ns - rank->start_ns), since), after);
}

int lw_load_unfinished(struct lw_run *run)
{
	int status = LW_OK;

	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];
		int64_t end_ns = rank->died ? last_end_ns(rank) : LW_NS_UNKNOWN;
		size_t first = rank->readies.n;

		while (first > 0 && rank->readies.at[first - 1].at_ns > end_ns)
			first--;
		if (end_ns != LW_NS_UNKNOWN && first < rank->readies.n)
			status = say(run, r, end_ns, rank->readies.at[first].at_ns,
				rank->readies.n - first);
	}
	return status;
}
