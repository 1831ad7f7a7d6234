/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/reconstruct/volume.h"

#include <assert.h>

#include "analyzer/reconstruct/nccl_served.h"

static_assert((int)LW_COLL_ALLREDUCE == (int)LW_NCCL_ALLREDUCE &&
		      (int)LW_COLL_ALLGATHER == (int)LW_NCCL_ALLGATHER &&
		      (int)LW_COLL_BROADCAST == (int)LW_NCCL_BROADCAST &&
		      (int)LW_COLL_ALLTOALL == (int)LW_NCCL_ALLTOALL &&
		      (int)LW_COLL_REDUCESCATTER == (int)LW_NCCL_REDUCESCATTER &&
		      (int)LW_COLL_REDUCE == (int)LW_NCCL_REDUCE &&
		      (int)LW_COLL_GATHER == (int)LW_NCCL_GATHER &&
		      (int)LW_COLL_SCATTER == (int)LW_NCCL_SCATTER,
	"collectives have the same numbers");

/* The call of NCCL that @group is, on the first rank that has it; NULL: it is of another interface. */
static const struct lw_nccl_call *nccl_call_of(
	const struct lw_run *run, const struct lw_group *group)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);

		if (batch)
			return batch->nccl_op == LW_NONE
				       ? NULL
				       : &run->ranks.at[r].gpu.nccl_ops.at[batch->nccl_op];
	}
	return NULL;
}

double lw_group_size_bytes(const struct lw_run *run, const struct lw_group *group)
{
	const struct lw_nccl_call *call = run->is_plain ? nccl_call_of(run, group) : NULL;
	double bytes = (double)group->bytes;

	if (call) /* grouped sends, which are an all-to-all too, are added up already */
		return lw_nccl_size(call->op, call->flags, bytes, group->n_wanted);
	/* MPI's calls tell both sides, of which the greater counts; frameworks tell what a rank gives */
	return !run->is_plain && group->op == LW_COLL_ALLGATHER ? bytes * group->n_wanted : bytes;
}

double lw_group_given_bytes(const struct lw_run *run, const struct lw_group *group)
{
	double size = lw_group_size_bytes(run, group);
	bool is_own = group->op == LW_COLL_ALLGATHER || group->op == LW_COLL_GATHER;

	return is_own && group->n_wanted ? size / group->n_wanted : size;
}

double lw_group_bus_factor(const struct lw_group *group)
{
	return lw_nccl_bus_factor(group->op, group->n_wanted);
}
