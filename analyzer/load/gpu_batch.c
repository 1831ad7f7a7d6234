/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_batch.c - operations of NCCL as what the analyzer matches across ranks: batches, with their times on the device.
 *
 * Without a framework an operation, or the operations of one kind in a group, are a batch of their own. On a rank that has
 * its kernel:
 *
 *	ready   called, and the computing that was launched before had ended: its data is there
 *	starts  ready, and the operation before it on its stream had ended          WAIT until then
 *	wire    its kernel                                                          MISC until then
 *
 * With a framework the kernels launched for a batch are its wire; what a batch did before (waiting for the device among
 * it) is MISC as ever.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"

/* ---- without a framework --------------------------------------------------------------------------- */

/* enum lw_coll of an operation, 0 = none that is matched. The first ones have the same numbers. */
static int coll_of(const struct lw_nccl_call *op)
{
	if (op->op == LW_NCCL_BARRIER)
		return LW_COLL_BARRIER;
	return op->op >= LW_NCCL_ALLREDUCE && op->op <= LW_NCCL_SCATTER ? op->op : 0;
}

static bool is_point_to_point(const struct lw_nccl_call *op)
{
	return op->op == LW_NCCL_SEND || op->op == LW_NCCL_RECV;
}

static struct lw_collective collective_of(
	const struct lw_rank *rank, const struct lw_nccl_call *op, int coll)
{
	struct lw_collective collective = {.start_ns = op->start_ns,
		.end_ns = op->end_ns,
		.op = coll,
		.transport = LW_TRANSPORT_NCCL,
		.comm_key = op->comm_key,
		.root = op->peer,
		.batch = LW_NONE,
		.thread_id = op->thread_id,
		.nccl_op = (int32_t)(op - rank->gpu.nccl_ops.at)};

	/* Only the device tells when an operation ran: the host's call returns when it is enqueued. */
	if (op->kernel_start_ns != LW_NS_UNKNOWN) {
		collective.start_ns = op->kernel_start_ns;
		collective.end_ns = op->kernel_end_ns;
	} else {
		collective.flags |= LW_COLL_NONBLOCKING;
	}
	if (op->flags & LW_NCCL_UNFINISHED)
		collective.flags |= LW_COLL_UNFINISHED;
	if (op->flags & LW_NCCL_FAILED)
		collective.flags |= LW_COLL_FAILED;
	if (op->flags & LW_NCCL_NO_BYTES)
		collective.flags |= LW_COLL_NO_BYTES;
	return collective;
}

/* Of a communicator that nobody told of: the job's. */
static int32_t size_of(const struct lw_run *run, int64_t comm_key)
{
	size_t low = 0, high = run->gpu.nccl_comm_ranks.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (run->gpu.nccl_comm_ranks.at[middle].comm_key < comm_key)
			low = middle + 1;
		else
			high = middle;
	}
	return low < run->gpu.nccl_comm_ranks.n &&
			       run->gpu.nccl_comm_ranks.at[low].comm_key == comm_key
		       ? run->gpu.nccl_comm_ranks.at[low].size
		       : run->size;
}

bool lw_nccl_is_alltoall(const struct lw_run *run, const struct lw_nccl_call *first, size_t n)
{
	enum { SENT = 1, RECEIVED = 2 };
	int32_t size = size_of(run, first->comm_key), n_sent = 0, n_received = 0;
	uint8_t *seen;

	/* to and from each other rank; a rank's own part may be a copy */
	if (size < 2 || n / 2 + 1 < (size_t)size || !(seen = calloc((size_t)size, 1)))
		return false;
	for (size_t i = 0; i < n; i++) {
		uint8_t way = first[i].op == LW_NCCL_RECV ? RECEIVED : SENT;
		int32_t peer = first[i].peer;

		if (!is_point_to_point(&first[i]) || first[i].comm_key != first->comm_key ||
			peer < 0 || peer >= size) {
			n_sent = 0;
			break;
		}
		n_sent += way == SENT && !(seen[peer] & SENT);
		n_received += way == RECEIVED && !(seen[peer] & RECEIVED);
		seen[peer] |= way;
	}
	free(seen);
	return n_sent >= size - 1 && n_received >= size - 1;
}

/* From operation @i on, those of its group; sends and receives of one may be an all-to-all. Return: how many. */
static size_t take_group(const struct lw_run *run, const struct lw_rank *rank, size_t i,
	struct lw_collective *ret_collective)
{
	const struct lw_nccl_call *first = &rank->gpu.nccl_ops.at[i];
	int coll = coll_of(first);
	uint64_t sent_bytes = 0;
	size_t n = 1;

	while (first->group && i + n < rank->gpu.nccl_ops.n &&
		rank->gpu.nccl_ops.at[i + n].group == first->group &&
		(is_point_to_point(first)
				? is_point_to_point(&first[n])
				: first[n].op == first->op && first[n].comm_key == first->comm_key))
		n++;
	if (is_point_to_point(first) && lw_nccl_is_alltoall(run, first, n))
		coll = LW_COLL_ALLTOALL;
	for (size_t k = 0; k < n; k++)
		if (first[k].op != LW_NCCL_RECV)
			sent_bytes += first[k].bytes;
	*ret_collective = collective_of(rank, first, coll);
	ret_collective->sent_bytes = sent_bytes;
	return n;
}

int lw_load_gpu_collectives(struct lw_run *run, struct lw_rank *rank)
{
	uint64_t n_other = 0;

	for (size_t i = 0; i < rank->gpu.nccl_ops.n;) {
		struct lw_collective collective;
		size_t n = take_group(run, rank, i, &collective);

		if (!collective.op)
			n_other += n;
		else if (lw_vec_push(&rank->collectives, collective) < 0)
			return LW_ERR_NOMEM;
		i += n;
	}
	if (!n_other)
		return LW_OK;
	return lw_run_diag(run, "load", "point to point", n_other,
		"rank %d: sends and receives of NCCL, or operations that nothing names: their time counts, but they are not matched across ranks",
		rank->rank);
}

struct launched { /* compute kernels by their launch */
	int64_t launched_ns, end_ns;
	int64_t last_end_ns; /* of this one and all before */
};

static int compare_launched(const void *a, const void *b)
{
	const struct launched *x = a, *y = b;

	if (x->launched_ns != y->launched_ns)
		return x->launched_ns < y->launched_ns ? -1 : 1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* End of the computing that was launched before @called_ns, as far as it was over at @start_ns; else LW_NS_UNKNOWN: a
 * kernel that still ran is of a stream that the operation did not wait for. A CUDA graph is one launch of many kernels:
 * those of the operation's own that were over count too. */
static int64_t computed_ns(
	const struct launched *launched, size_t n, int64_t called_ns, int64_t start_ns)
{
	enum { LOOK_BACK = 256 };
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (launched[middle].launched_ns < called_ns ||
			(launched[middle].launched_ns == called_ns &&
				launched[middle].end_ns <= start_ns))
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i > 0 && low - i < LOOK_BACK; i--) {
		if (launched[i - 1].last_end_ns <= start_ns)
			return launched[i - 1].last_end_ns;
		if (launched[i - 1].end_ns <= start_ns)
			return launched[i - 1].end_ns;
	}
	return LW_NS_UNKNOWN;
}

static int list_launched(const struct lw_gpu_rank *gpu, struct launched **ret_list, size_t *ret_n)
{
	struct launched *list = malloc((gpu->kernels.n + 1) * sizeof(*list));
	const struct lw_kernel *kernel;
	size_t n = 0;

	if (!list)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	lw_vec_foreach (kernel, &gpu->kernels)
		if (kernel->gpu_class == LW_GPU_COMPUTE && kernel->launch != LW_NONE)
			list[n++] = (struct launched){gpu->launches.at[kernel->launch].start_ns,
				kernel->end_ns, kernel->end_ns};
	if (n)
		qsort(list, n, sizeof(*list), compare_launched);
	for (size_t i = 1; i < n; i++)
		if (list[i - 1].last_end_ns > list[i].last_end_ns)
			list[i].last_end_ns = list[i - 1].last_end_ns;
	*ret_list = list;
	*ret_n = n;
	return LW_OK;
}

/* End of the communication kernel before @kernel on its stream; LW_NS_UNKNOWN. */
static int64_t before_ns(const struct lw_gpu_rank *gpu, int32_t kernel)
{
	enum { LOOK_BACK = 4096 };
	const struct lw_kernel *own = &gpu->kernels.at[kernel];

	for (int32_t i = kernel; i > 0 && kernel - i < LOOK_BACK; i--) {
		const struct lw_kernel *other = &gpu->kernels.at[i - 1];

		if (other->stream == own->stream && other->gpu_class == LW_GPU_COMMUNICATION)
			return other->end_ns;
	}
	return LW_NS_UNKNOWN;
}

static void place_batch(const struct lw_gpu_rank *gpu, const struct launched *launched, size_t n,
	struct lw_batch *batch, struct lw_member *member)
{
	const struct lw_nccl_call *op = &gpu->nccl_ops.at[batch->nccl_op];
	const struct lw_kernel *kernel = &gpu->kernels.at[op->kernel];
	int64_t called_ns = kernel->launch != LW_NONE ? gpu->launches.at[kernel->launch].start_ns
						      : op->start_ns;
	int64_t ready_ns = called_ns,
		computed = computed_ns(launched, n, called_ns, batch->wire_start_ns);
	int64_t before = before_ns(gpu, op->kernel);

	if (computed > ready_ns)
		ready_ns = computed;
	if (ready_ns > batch->wire_start_ns)
		ready_ns = batch->wire_start_ns;
	batch->start_ns = ready_ns;
	if (before > ready_ns)
		batch->start_ns = before < batch->wire_start_ns ? before : batch->wire_start_ns;
	member->ready_ns = ready_ns;
	member->computed_ns = computed;
}

static int compare_batch(const void *a, const void *b)
{
	const struct lw_batch *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->serial > y->serial) - (x->serial < y->serial);
}

/* An operation of another stream may have waited: in their order again. Serials are places from 1, until then. */
static int sort_batches(struct lw_rank *rank)
{
	int32_t *place = malloc((rank->batches.n + 1) * sizeof(*place));
	struct lw_collective *collective;

	if (!place)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	if (rank->batches.n)
		qsort(rank->batches.at, rank->batches.n, sizeof(*rank->batches.at), compare_batch);
	for (size_t i = 0; i < rank->batches.n; i++)
		place[rank->batches.at[i].serial - 1] = (int32_t)i;
	lw_vec_foreach (collective, &rank->collectives)
		if (collective->batch != LW_NONE)
			collective->batch = place[collective->batch];
	free(place);
	return LW_OK;
}

int lw_load_gpu_plain(struct lw_rank *rank)
{
	struct lw_gpu_rank *gpu = &rank->gpu;
	struct launched *launched = NULL;
	struct lw_batch *batch;
	size_t n = 0;
	int status;

	if (!gpu->nccl_ops.n)
		return LW_OK;
	status = list_launched(gpu, &launched, &n);

	if (status < 0)
		return status;
	lw_vec_foreach (batch, &rank->batches) {
		if (batch->nccl_op == LW_NONE || gpu->nccl_ops.at[batch->nccl_op].kernel == LW_NONE)
			continue;
		place_batch(gpu, launched, n, batch, &rank->members.at[batch->first_member]);
	}
	free(launched);
	status = sort_batches(rank);
	if (status < 0)
		return status;
	for (size_t i = 0; i < rank->batches.n; i++) {
		batch = &rank->batches.at[i];
		if (batch->nccl_op != LW_NONE)
			gpu->nccl_ops.at[batch->nccl_op].batch = (int32_t)i;
	}
	for (size_t i = 1; i < gpu->nccl_ops.n; i++) { /* the others of a group */
		struct lw_nccl_call *op = &gpu->nccl_ops.at[i];

		if (op->batch == LW_NONE && op->group && op->group == op[-1].group)
			op->batch = op[-1].batch;
	}
	return LW_OK;
}

/* ---- with a framework ------------------------------------------------------------------------------- */

struct serial {
	uint64_t serial;
	int32_t batch;
};

static int compare_serial(const void *a, const void *b)
{
	const struct serial *x = a, *y = b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

/* The batch within which @op was called: of its thread, else of any. */
static int32_t batch_around(const struct lw_rank *rank, const struct lw_nccl_call *op)
{
	enum { LOOK_BACK = 32 };
	size_t low = 0, high = rank->batches.n;
	int32_t any = LW_NONE;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->batches.at[middle].start_ns <= op->start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i > 0 && low - i < LOOK_BACK; i--) {
		const struct lw_batch *batch = &rank->batches.at[i - 1];

		if (batch->end_ns < op->start_ns)
			continue;
		if (batch->thread_id == op->thread_id)
			return (int32_t)(i - 1);
		any = any == LW_NONE ? (int32_t)(i - 1) : any;
	}
	return any;
}

static int find_batches(struct lw_rank *rank)
{
	struct lw_gpu_rank *gpu = &rank->gpu;
	size_t n = rank->batches.n;
	struct serial *serials = malloc((n + 1) * sizeof(*serials));
	struct lw_gpu_launch *launch;
	struct lw_nccl_call *op;

	if (!serials)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t i = 0; i < n; i++)
		serials[i] = (struct serial){rank->batches.at[i].serial, (int32_t)i};
	if (n)
		qsort(serials, n, sizeof(*serials), compare_serial);
	lw_vec_foreach (launch, &gpu->launches) {
		struct serial key = {.serial = launch->for_serial}, *found = NULL;

		if (launch->made_for == LW_LAUNCH_FOR_BATCH && n)
			found = bsearch(&key, serials, n, sizeof(key), compare_serial);
		if (found)
			launch->batch = found->batch;
	}
	free(serials);
	lw_vec_foreach (op, &gpu->nccl_ops) {
		const struct lw_kernel *kernel =
			op->kernel == LW_NONE ? NULL : &gpu->kernels.at[op->kernel];

		op->batch = batch_around(rank, op);
		if (kernel && kernel->launch != LW_NONE &&
			gpu->launches.at[kernel->launch].batch != LW_NONE)
			op->batch = gpu->launches.at[kernel->launch].batch;
		if (kernel && kernel->launch != LW_NONE && op->batch != LW_NONE)
			gpu->launches.at[kernel->launch].batch = op->batch;
	}
	return LW_OK;
}

/* A gradient is handed over when its kernels are launched; the device has it when these have ended. */
static int find_computed(struct lw_rank *rank)
{
	const struct lw_batch *batch;
	struct launched *launched = NULL;
	size_t n = 0;
	int status = list_launched(&rank->gpu, &launched, &n);

	if (status < 0)
		return status;
	lw_vec_foreach (batch, &rank->batches)
		for (uint32_t i = 0; i < batch->n_members && n; i++) {
			struct lw_member *member = &rank->members.at[batch->first_member + i];

			if (member->ready_ns != LW_NS_UNKNOWN)
				member->computed_ns = computed_ns(launched, n, member->ready_ns,
					batch->wire_start_ns != LW_NS_UNKNOWN ? batch->wire_start_ns
									      : batch->end_ns);
		}
	free(launched);
	return LW_OK;
}

/* A batch ends when the device has done what was launched for it. */
static void extend(struct lw_batch *batch, int64_t end_ns)
{
	if (end_ns > batch->end_ns)
		batch->end_ns = end_ns;
}

int lw_load_gpu_batches(struct lw_run *run, struct lw_rank *rank)
{
	struct lw_gpu_rank *gpu = &rank->gpu;
	const struct lw_kernel *kernel;
	const struct lw_copy *copy;
	uint64_t n_without = 0;
	const struct lw_batch *each;
	int status = find_batches(rank);

	if (status < 0 || !gpu->kernels.n)
		return status;
	lw_vec_foreach (kernel, &gpu->kernels) {
		int32_t index = kernel->nccl_op != LW_NONE ? gpu->nccl_ops.at[kernel->nccl_op].batch
							   : LW_NONE;
		struct lw_batch *batch;

		if (index == LW_NONE && kernel->launch != LW_NONE)
			index = gpu->launches.at[kernel->launch].batch;
		if (index == LW_NONE)
			continue;
		batch = &rank->batches.at[index];
		extend(batch, kernel->end_ns);
		if (kernel->gpu_class != LW_GPU_COMMUNICATION)
			continue;
		if (batch->wire_start_ns == LW_NS_UNKNOWN ||
			kernel->start_ns < batch->wire_start_ns)
			batch->wire_start_ns = kernel->start_ns;
		if (kernel->end_ns > batch->wire_end_ns)
			batch->wire_end_ns = kernel->end_ns;
	}
	lw_vec_foreach (copy, &gpu->copies)
		if (copy->launch != LW_NONE && gpu->launches.at[copy->launch].batch != LW_NONE)
			extend(&rank->batches.at[gpu->launches.at[copy->launch].batch],
				copy->end_ns);
	lw_vec_foreach (each, &rank->batches)
		n_without += each->wire_start_ns == LW_NS_UNKNOWN;
	status = find_computed(rank);
	if (status < 0)
		return status;
	if (!n_without || n_without == rank->batches.n)
		return LW_OK;
	return lw_run_diag(run, "load", "batches without a kernel", n_without,
		"rank %d: operations of the framework of which no communication kernel was recorded",
		rank->rank);
}
