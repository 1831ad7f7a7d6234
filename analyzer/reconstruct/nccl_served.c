/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/reconstruct/nccl_served.h"

#include <math.h>
#include <stdlib.h>

enum { NO_KIND = -1, SEVERAL_KINDS = -2 };

struct group {                       /* of run->groups: what its kernels on all ranks say */
	int op, algorithm, protocol; /* op: or NO_KIND, SEVERAL_KINDS */
	int32_t step;
	uint32_t n_ranks, flags;
	double bytes, shortest_ns;
	int64_t comm_key;
};

double lw_nccl_bus_factor(int op, uint32_t n_ranks)
{
	double n = n_ranks;

	if (!n_ranks)
		return (double)NAN;
	switch (op) {
	case LW_NCCL_ALLREDUCE:
		return 2 * (n - 1) / n;
	case LW_NCCL_ALLGATHER:
	case LW_NCCL_REDUCESCATTER:
	case LW_NCCL_ALLTOALL:
	case LW_NCCL_GATHER:
	case LW_NCCL_SCATTER:
		return (n - 1) / n;
	case LW_NCCL_BROADCAST:
	case LW_NCCL_REDUCE:
	case LW_NCCL_SEND:
	case LW_NCCL_RECV:
		return 1;
	default:
		return (double)NAN;
	}
}

double lw_nccl_size(int op, uint32_t flags, double bytes, uint32_t n_ranks)
{
	if (op == LW_NCCL_ALLTOALL && flags & LW_NCCL_WHOLE_BYTES)
		return n_ranks ? bytes : 0;
	switch (op) {
	case LW_NCCL_ALLGATHER:
	case LW_NCCL_REDUCESCATTER:
	case LW_NCCL_ALLTOALL:
	case LW_NCCL_GATHER:
	case LW_NCCL_SCATTER:
		return bytes * n_ranks;
	default:
		return bytes;
	}
}

bool lw_nccl_is_counted(const struct lw_rank *rank, const struct lw_nccl_call *call)
{
	return lw_rank_counts_at(
		rank, call->kernel == LW_NONE ? call->start_ns : call->kernel_start_ns);
}

static bool is_timed(const struct lw_nccl_call *call)
{
	return call->kernel != LW_NONE && call->kernel_start_ns != LW_NS_UNKNOWN &&
	       call->kernel_end_ns > call->kernel_start_ns && !(call->flags & LW_NCCL_NO_BYTES);
}

static int32_t group_of(const struct lw_rank *rank, const struct lw_nccl_call *call)
{
	return call->batch == LW_NONE ? LW_NONE : rank->batches.at[call->batch].group;
}

/* One kernel serves all calls of a group of calls: it counts with the first. */
static bool is_first_of_kernel(const struct lw_rank *rank, const struct lw_nccl_call *call)
{
	return call == rank->gpu.nccl_ops.at || call[-1].kernel != call->kernel;
}

static double length_ns(const struct lw_nccl_call *call)
{
	return (double)(call->kernel_end_ns - call->kernel_start_ns);
}

/* Sends and receives of one group of calls are an all-to-all, in which each rank hands over all that it sends. */
static bool is_point_to_point(const struct lw_nccl_call *call)
{
	return call->op == LW_NCCL_SEND || call->op == LW_NCCL_RECV;
}

static double handed_bytes(const struct lw_nccl_call *call)
{
	return call->op == LW_NCCL_RECV ? 0 : (double)call->bytes;
}

static void add_to_group(struct group *group, const struct lw_rank *rank,
	const struct lw_nccl_call *call, double *batch_ns)
{
	int op = is_point_to_point(call) ? LW_NCCL_ALLTOALL : call->op;

	if (group->op == NO_KIND) {
		group->op = op;
		group->algorithm = call->algorithm;
		group->protocol = call->protocol;
		group->flags = call->flags | (is_point_to_point(call) ? LW_NCCL_WHOLE_BYTES : 0);
		group->step = rank->batches.at[call->batch].step;
		group->comm_key = call->comm_key;
	} else if (group->op != op || group->algorithm != call->algorithm ||
		   group->protocol != call->protocol) {
		group->op = SEVERAL_KINDS;
	}
	if (!group->n_ranks)
		group->bytes += handed_bytes(call);
	if (is_first_of_kernel(rank, call))
		*batch_ns += length_ns(call);
}

static int add_rank(const struct lw_rank *rank, struct group *groups)
{
	double *batch_ns = calloc(rank->batches.n + 1, sizeof(*batch_ns));
	const struct lw_nccl_call *call;

	if (!batch_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", rank->batches.n);
	lw_vec_foreach (call, &rank->gpu.nccl_ops)
		if (is_timed(call) && group_of(rank, call) != LW_NONE &&
			lw_nccl_is_counted(rank, call))
			add_to_group(
				&groups[group_of(rank, call)], rank, call, &batch_ns[call->batch]);
	for (size_t b = 0; b < rank->batches.n; b++) {
		struct group *group;

		if (!(batch_ns[b] > 0))
			continue;
		group = &groups[rank->batches.at[b].group];
		if (!group->n_ranks++ || batch_ns[b] < group->shortest_ns)
			group->shortest_ns = batch_ns[b];
	}
	free(batch_ns);
	return LW_OK;
}

static bool is_whole(const struct lw_run *run, const struct group *groups, int32_t g)
{
	return g != LW_NONE && groups[g].op > 0 && groups[g].n_ranks == run->groups.at[g].n_wanted;
}

static int add_whole(
	const struct lw_run *run, const struct group *groups, struct lw_nccl_services *services)
{
	for (size_t g = 0; g < run->groups.n; g++) {
		const struct group *group = &groups[g];
		struct lw_nccl_served served = {group->op, group->algorithm, group->protocol,
			group->step, run->groups.at[g].n_wanted, true, group->bytes,
			lw_nccl_size(
				group->op, group->flags, group->bytes, run->groups.at[g].n_wanted),
			group->shortest_ns, group->comm_key};

		if (is_whole(run, groups, (int32_t)g) && lw_vec_push(&services->at, served) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

size_t lw_nccl_together(const struct lw_run *run, const struct lw_rank *rank,
	const struct lw_nccl_call *first, struct lw_nccl_call *ret_call)
{
	const struct lw_nccl_call *end = rank->gpu.nccl_ops.at + rank->gpu.nccl_ops.n;
	size_t n = 1;
	double bytes = handed_bytes(first);

	*ret_call = *first;
	while (first->kernel != LW_NONE && first + n < end && first[n].kernel == first->kernel)
		bytes += handed_bytes(&first[n++]);
	if (n == 1)
		return n;
	ret_call->bytes = (uint64_t)bytes;
	if (is_point_to_point(first) && lw_nccl_is_alltoall(run, first, n)) {
		ret_call->op = LW_NCCL_ALLTOALL;
		ret_call->flags |= LW_NCCL_WHOLE_BYTES;
	}
	return n;
}

static int add_others(
	const struct lw_run *run, const struct group *groups, struct lw_nccl_services *services)
{
	uint32_t n_ranks = run->is_size_known && run->size > 0 ? (uint32_t)run->size : 0;
	const struct lw_nccl_call *call;
	struct lw_nccl_served served;
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		lw_vec_foreach (call, &rank->gpu.nccl_ops) {
			struct lw_nccl_call all;

			if (!is_timed(call) || !lw_nccl_is_counted(rank, call) ||
				is_whole(run, groups, group_of(rank, call)) ||
				!is_first_of_kernel(rank, call))
				continue;
			lw_nccl_together(run, rank, call, &all);
			served = (struct lw_nccl_served){all.op, all.algorithm, all.protocol,
				all.batch == LW_NONE ? LW_NONE : rank->batches.at[all.batch].step,
				n_ranks, false, (double)all.bytes,
				lw_nccl_size(all.op, all.flags, (double)all.bytes, n_ranks),
				length_ns(&all), all.comm_key};
			if (lw_vec_push(&services->at, served) < 0)
				return LW_ERR_NOMEM;
		}
	return LW_OK;
}

int lw_nccl_services(const struct lw_run *run, struct lw_nccl_services *ret_services)
{
	struct group *groups = calloc(run->groups.n + 1, sizeof(*groups));
	const struct lw_rank *rank;
	int status = LW_OK;

	*ret_services = (struct lw_nccl_services){0};
	if (!groups)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", run->groups.n);
	for (size_t g = 0; g < run->groups.n; g++)
		groups[g].op = NO_KIND;
	lw_vec_foreach (rank, &run->ranks)
		if (status == LW_OK)
			status = add_rank(rank, groups);
	if (status == LW_OK)
		status = add_whole(run, groups, ret_services);
	if (status == LW_OK)
		status = add_others(run, groups, ret_services);
	free(groups);
	return status;
}
