/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - an operation over all ranks, read: its batches, and what the wire took for it. */
#include "analyzer/run.h"

bool lw_run_is_one_clock(const struct lw_run *run)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		if (rank->clock != run->ranks.at[0].clock)
			return false;
	return true;
}

const struct lw_batch *lw_group_batch(
	const struct lw_run *run, const struct lw_group *group, size_t rank)
{
	int32_t batch = group->batch_of_rank[rank];

	return batch == LW_NONE ? NULL : &run->ranks.at[rank].batches.at[batch];
}

bool lw_group_waits(int op)
{
	return op == LW_COLL_ALLREDUCE || op == LW_COLL_ALLGATHER || op == LW_COLL_ALLTOALL ||
	       op == LW_COLL_REDUCESCATTER || op == LW_COLL_BARRIER || op == LW_COLL_ADASUM;
}

bool lw_group_is_unsized(const struct lw_run *run, const struct lw_group *group)
{
	for (size_t r = 0; r < run->ranks.n && !group->bytes; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);

		if (batch && batch->flags & LW_COLL_NO_BYTES)
			return true;
	}
	return false;
}

struct lw_interval lw_batch_wire(const struct lw_batch *batch)
{
	if (batch->wire_start_ns == LW_NS_UNKNOWN || batch->wire_end_ns == LW_NS_UNKNOWN)
		return (struct lw_interval){batch->start_ns, batch->end_ns};
	return (struct lw_interval){batch->wire_start_ns, batch->wire_end_ns};
}

int64_t lw_member_there_ns(const struct lw_rank *rank, const struct lw_member *member)
{
	return lw_gpu_has(rank) && member->computed_ns > member->ready_ns ? member->computed_ns
									  : member->ready_ns;
}

int64_t lw_batch_there_ns(const struct lw_rank *rank, const struct lw_batch *batch)
{
	int64_t there_ns = batch->start_ns;

	for (uint32_t i = 0; i < batch->n_members && lw_gpu_has(rank); i++) {
		int64_t at_ns =
			lw_member_there_ns(rank, &rank->members.at[batch->first_member + i]);

		if (at_ns > there_ns)
			there_ns = at_ns;
	}
	return there_ns < batch->wire_start_ns || batch->wire_start_ns == LW_NS_UNKNOWN
		       ? there_ns
		       : batch->wire_start_ns;
}

double lw_group_service_ns(
	const struct lw_run *run, const struct lw_group *group, bool is_one_clock)
{
	int64_t shortest_ns = INT64_MAX;

	if (is_one_clock)
		return (double)(group->last_end_ns - group->last_start_ns);
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);
		struct lw_interval wire;

		if (!batch)
			continue;
		wire = lw_batch_wire(batch);
		if (wire.end_ns - wire.start_ns < shortest_ns)
			shortest_ns = wire.end_ns - wire.start_ns;
	}
	return (double)shortest_ns;
}
