/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_join.c - ties GPU work of one rank together: which call launched it, which operation of NCCL a kernel is.
 *
 * A launch and its work share a correlation within the process. An operation of NCCL gets the kernel of the launch that was
 * made for it; those of one group share theirs. What is left is taken in its order: the operations of a communicator run in
 * the order in which they were enqueued, none before that, on one stream.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"

struct keyed {
	uint64_t key;
	int32_t index;
};
typedef lw_vec(struct keyed) keyed_list;

static int compare_keyed(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static void sort_keyed(keyed_list *list)
{
	if (list->n)
		qsort(list->at, list->n, sizeof(*list->at), compare_keyed);
}

/* Place of the first with @key, list->n or another key's: none. */
static size_t place_of(const keyed_list *list, uint64_t key)
{
	size_t low;

	lw_vec_bisect(low, list->n, i, list->at[i].key < key);
	return low;
}

/* The first with @key; LW_NONE. */
static int32_t find_keyed(const keyed_list *list, uint64_t key)
{
	size_t place = place_of(list, key);

	return key && place < list->n && list->at[place].key == key ? list->at[place].index
								    : LW_NONE;
}

/* ---- order ---------------------------------------------------------------------------------------- */

/* By start, then by what tells two apart: the same rows come in the same order, however they were written. */
#define COMPARE(type, second, third)                                                               \
	static int compare_##type(const void *a, const void *b)                                    \
	{                                                                                          \
		const struct lw_##type *x = a, *y = b;                                             \
                                                                                                   \
		if (x->start_ns != y->start_ns)                                                    \
			return x->start_ns < y->start_ns ? -1 : 1;                                 \
		if (x->second != y->second)                                                        \
			return x->second < y->second ? -1 : 1;                                     \
		return (x->third > y->third) - (x->third < y->third);                              \
	}
COMPARE(kernel, correlation, end_ns)
COMPARE(copy, correlation, end_ns)
COMPARE(gpu_sync, correlation, has_number)
COMPARE(gpu_launch, correlation, end_ns)
COMPARE(nccl_call, serial, end_ns)
#undef COMPARE

#define SORT(vec, compare)                                                                         \
	do {                                                                                       \
		if ((vec)->n)                                                                      \
			qsort((vec)->at, (vec)->n, sizeof(*(vec)->at), compare);                   \
	} while (0)

struct numbered { /* a stream, and its index before sorting */
	struct lw_gpu_stream stream;
	uint32_t index;
};

static int compare_stream(const void *a, const void *b)
{
	const struct lw_gpu_stream *x = &((const struct numbered *)a)->stream;
	const struct lw_gpu_stream *y = &((const struct numbered *)b)->stream;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->context != y->context)
		return x->context < y->context ? -1 : 1;
	return (x->stream > y->stream) - (x->stream < y->stream);
}

static int sort_streams(struct lw_gpu_rank *gpu)
{
	size_t n = gpu->streams.n;
	struct numbered *streams = malloc((n + 1) * sizeof(*streams));
	uint32_t *place = malloc((n + 1) * sizeof(*place));
	struct lw_kernel *kernel;
	struct lw_copy *copy;

	if (!streams || !place) {
		free(streams);
		free(place);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	for (size_t i = 0; i < n; i++)
		streams[i] = (struct numbered){gpu->streams.at[i], (uint32_t)i};
	if (n)
		qsort(streams, n, sizeof(*streams), compare_stream);
	for (size_t i = 0; i < n; i++) {
		gpu->streams.at[i] = streams[i].stream;
		place[streams[i].index] = (uint32_t)i;
	}
	lw_vec_foreach (kernel, &gpu->kernels)
		kernel->stream = place[kernel->stream];
	lw_vec_foreach (copy, &gpu->copies)
		copy->stream = place[copy->stream];
	free(streams);
	free(place);
	return LW_OK;
}

/* ---- launches ------------------------------------------------------------------------------------- */

/* Of a wait that two rows tell of, the one that knows its stream stays. The other is of the call itself. */
static void drop_twins(struct lw_gpu_rank *gpu, const keyed_list *by_launch)
{
	bool has_twins = false;
	size_t n = 0;

	for (size_t i = 0, k; i < by_launch->n; i = k) {
		bool is_known = false;

		for (k = i; k < by_launch->n && by_launch->at[k].key == by_launch->at[i].key; k++)
			is_known |= gpu->syncs.at[by_launch->at[k].index].has_number;
		for (size_t m = i; m < k && is_known && k - i > 1; m++)
			if (!gpu->syncs.at[by_launch->at[m].index].has_number) {
				gpu->syncs.at[by_launch->at[m].index].op = 0;
				has_twins = true;
			}
	}
	for (size_t i = 0; i < gpu->syncs.n && has_twins; i++)
		if (gpu->syncs.at[i].op)
			gpu->syncs.at[n++] = gpu->syncs.at[i];
	if (has_twins)
		gpu->syncs.n = n;
}

static int32_t stream_numbered(const struct lw_gpu_rank *gpu, const struct lw_gpu_sync *sync)
{
	for (size_t i = 0; sync->has_number && i < gpu->streams.n; i++)
		if (gpu->streams.at[i].stream == sync->number &&
			gpu->streams.at[i].context == sync->context)
			return (int32_t)i;
	return LW_NONE;
}

static int join_launches(struct lw_gpu_rank *gpu)
{
	keyed_list launches = {0}, syncs = {0};
	struct lw_kernel *kernel;
	struct lw_copy *copy;
	int status = LW_OK;

	for (size_t i = 0; i < gpu->launches.n && status == LW_OK; i++)
		status = lw_vec_push(
			&launches, ((struct keyed){gpu->launches.at[i].correlation, (int32_t)i}));
	for (size_t i = 0; i < gpu->syncs.n && status == LW_OK; i++)
		if (gpu->syncs.at[i].correlation)
			status = lw_vec_push(
				&syncs, ((struct keyed){gpu->syncs.at[i].correlation, (int32_t)i}));
	sort_keyed(&launches);
	sort_keyed(&syncs);
	if (status == LW_OK) {
		drop_twins(gpu, &syncs);
		lw_vec_foreach (kernel, &gpu->kernels)
			kernel->launch = find_keyed(&launches, kernel->correlation);
		lw_vec_foreach (copy, &gpu->copies)
			copy->launch = find_keyed(&launches, copy->correlation);
		for (size_t i = 0; i < gpu->syncs.n; i++) {
			struct lw_gpu_sync *sync = &gpu->syncs.at[i];

			sync->launch = find_keyed(&launches, sync->correlation);
			sync->stream = stream_numbered(gpu, sync);
			if (sync->launch != LW_NONE)
				sync->tid = gpu->launches.at[sync->launch].tid;
		}
	}
	lw_vec_free(&launches);
	lw_vec_free(&syncs);
	gpu->has_syncs = gpu->launches.n && gpu->syncs.n;
	return status;
}

/* ---- operations of NCCL ---------------------------------------------------------------------------- */

static void set_kernel(struct lw_gpu_rank *gpu, int32_t op_index, int32_t kernel_index)
{
	struct lw_nccl_call *op = &gpu->nccl_ops.at[op_index];
	struct lw_kernel *kernel = &gpu->kernels.at[kernel_index];

	if (op->kernel == LW_NONE)
		op->kernel = kernel_index;
	if (op->kernel_start_ns == LW_NS_UNKNOWN || kernel->start_ns < op->kernel_start_ns)
		op->kernel_start_ns = kernel->start_ns;
	if (kernel->end_ns > op->kernel_end_ns)
		op->kernel_end_ns = kernel->end_ns;
	kernel->nccl_op = op_index;
	if (kernel->launch != LW_NONE)
		gpu->launches.at[kernel->launch].nccl_op = op_index;
}

/* Kernels whose launch was made for an operation. */
static int join_by_launch(struct lw_gpu_rank *gpu)
{
	keyed_list serials = {0};
	int status = LW_OK;

	for (size_t i = 0; i < gpu->nccl_ops.n && status == LW_OK; i++)
		status = lw_vec_push(
			&serials, ((struct keyed){gpu->nccl_ops.at[i].serial, (int32_t)i}));
	sort_keyed(&serials);
	for (size_t i = 0; i < gpu->kernels.n && status == LW_OK; i++) {
		const struct lw_kernel *kernel = &gpu->kernels.at[i];
		const struct lw_gpu_launch *launch =
			kernel->launch == LW_NONE ? NULL : &gpu->launches.at[kernel->launch];
		int32_t op;

		if (!launch || launch->made_for != LW_LAUNCH_FOR_NCCL_OP ||
			kernel->gpu_class != LW_GPU_COMMUNICATION)
			continue;
		op = find_keyed(&serials, launch->for_serial);
		if (op != LW_NONE)
			set_kernel(gpu, op, (int32_t)i);
	}
	lw_vec_free(&serials);
	return status;
}

/* The operations of a group without a kernel have that of another one of it. */
static int share_in_groups(struct lw_gpu_rank *gpu)
{
	keyed_list groups = {0};
	int status = LW_OK;

	for (size_t i = 0; i < gpu->nccl_ops.n && status == LW_OK; i++)
		if (gpu->nccl_ops.at[i].group)
			status = lw_vec_push(
				&groups, ((struct keyed){gpu->nccl_ops.at[i].group, (int32_t)i}));
	sort_keyed(&groups);
	for (size_t i = 0, k; i < groups.n && status == LW_OK; i = k) {
		const struct lw_nccl_call *with = NULL;

		for (k = i; k < groups.n && groups.at[k].key == groups.at[i].key; k++)
			if (!with && gpu->nccl_ops.at[groups.at[k].index].kernel != LW_NONE)
				with = &gpu->nccl_ops.at[groups.at[k].index];
		for (size_t m = i; m < k && with; m++) {
			struct lw_nccl_call *op = &gpu->nccl_ops.at[groups.at[m].index];

			if (op->kernel != LW_NONE)
				continue;
			op->kernel = with->kernel;
			op->kernel_start_ns = with->kernel_start_ns;
			op->kernel_end_ns = with->kernel_end_ns;
		}
	}
	lw_vec_free(&groups);
	return status;
}

struct queue { /* of one communicator, while the rest is taken in its order */
	int64_t comm_key;
	size_t next;    /* kernel to look at */
	int64_t stream; /* -1 = not known yet */
};
typedef lw_vec(struct queue) queues;

static struct queue *queue_of(queues *all, int64_t comm_key)
{
	struct queue added = {.comm_key = comm_key, .stream = -1};

	for (size_t i = all->n; i > 0; i--)
		if (all->at[i - 1].comm_key == comm_key)
			return &all->at[i - 1];
	return lw_vec_push(all, added) < 0 ? NULL : &all->at[all->n - 1];
}

static bool may_be(const struct lw_run *run, const struct lw_kernel *kernel,
	const struct lw_nccl_call *op, const struct queue *queue)
{
	int named = run->gpu.names.at[kernel->name].nccl_op;

	return kernel->gpu_class == LW_GPU_COMMUNICATION && kernel->nccl_op == LW_NONE &&
	       kernel->start_ns >= op->start_ns &&
	       (queue->stream < 0 || queue->stream == (int64_t)kernel->stream) &&
	       (named == op->op || named == LW_NCCL_OTHER || op->op == LW_NCCL_OTHER ||
		       (named == LW_NCCL_ALLREDUCE && op->op == LW_NCCL_BARRIER));
}

/* The first kernel from @queue on that can be of operation @i; after it the queue goes on. */
static void take_next(
	const struct lw_run *run, struct lw_gpu_rank *gpu, size_t i, struct queue *queue)
{
	enum { LOOK_AHEAD = 4096 };
	const struct lw_nccl_call *op = &gpu->nccl_ops.at[i];

	while (queue->next < gpu->kernels.n && gpu->kernels.at[queue->next].start_ns < op->start_ns)
		queue->next++;
	for (size_t at = queue->next; at < gpu->kernels.n && at < queue->next + LOOK_AHEAD; at++)
		if (may_be(run, &gpu->kernels.at[at], op, queue)) {
			set_kernel(gpu, (int32_t)i, (int32_t)at);
			queue->stream = gpu->kernels.at[at].stream;
			queue->next = at + 1;
			return;
		}
}

/* Takes the rest in its order. As many kernels as operations, or the record of one is missing: then that is said, since
 * all behind it may have the next one's. */
static int join_by_order(struct lw_run *run, const struct lw_rank *rank, struct lw_gpu_rank *gpu)
{
	enum { MAX_COMMS = 256 };
	queues all = {0};
	size_t n_left = 0, n_kernels = 0;
	const struct lw_kernel *kernel;
	uint32_t group = 0;
	int status = LW_OK;

	lw_vec_foreach (kernel, &gpu->kernels)
		n_kernels +=
			kernel->gpu_class == LW_GPU_COMMUNICATION && kernel->nccl_op == LW_NONE;
	for (size_t i = 0; i < gpu->nccl_ops.n && n_kernels; i++) {
		const struct lw_nccl_call *op = &gpu->nccl_ops.at[i];
		struct queue *queue;

		if (op->kernel != LW_NONE || (op->group && op->group == group))
			continue;
		group = op->group;
		queue = queue_of(&all, op->comm_key);
		if (!queue || all.n > MAX_COMMS) {
			status =
				queue ? lw_run_diag(run, "load", "too many communicators", 1,
						"rank %d: kernels of NCCL are tied to operations of its first %d communicators only",
						rank->rank, MAX_COMMS)
				      : LW_ERR_NOMEM;
			break;
		}
		take_next(run, gpu, i, queue);
		n_left++;
	}
	lw_vec_free(&all);
	if (status < 0 || !n_left || n_left == n_kernels)
		return status;
	return lw_run_diag(run, "load", "kernels taken in order", n_left,
		"rank %d: of %zu operations of NCCL no launch is recorded, of %zu kernels of its no operation: they are matched in their order, and may be off by some",
		rank->rank, n_left, n_kernels);
}

/* Nobody told of operations, but their kernels are there: each is one, of which the name alone is known. */
static int make_ops(const struct lw_run *run, struct lw_gpu_rank *gpu)
{
	uint64_t serial = 0;

	for (size_t i = 0; i < gpu->kernels.n; i++) {
		const struct lw_kernel *kernel = &gpu->kernels.at[i];
		struct lw_nccl_call op = {
			.start_ns = kernel->start_ns, /* so that they stay in order */
			.end_ns = kernel->end_ns,
			.kernel_start_ns = LW_NS_UNKNOWN,
			.kernel_end_ns = LW_NS_UNKNOWN,
			.serial = ++serial,
			.peer = -1,
			.op = run->gpu.names.at[kernel->name].nccl_op,
			.flags = LW_NCCL_NO_BYTES,
			.kernel = LW_NONE,
			.batch = LW_NONE};

		if (kernel->gpu_class != LW_GPU_COMMUNICATION)
			continue;
		if (lw_vec_push(&gpu->nccl_ops, op) < 0)
			return LW_ERR_NOMEM;
		set_kernel(gpu, (int32_t)gpu->nccl_ops.n - 1, (int32_t)i);
	}
	return LW_OK;
}

/* What neither plugin nor arguments told, the name of the kernel may. */
static void name_algorithms(const struct lw_run *run, struct lw_gpu_rank *gpu)
{
	struct lw_nccl_call *op;

	lw_vec_foreach (op, &gpu->nccl_ops)
		if (op->kernel != LW_NONE && op->algorithm == LW_NCCL_ALGORITHM_UNKNOWN)
			op->algorithm =
				run->gpu.names.at[gpu->kernels.at[op->kernel].name].algorithm;
}

/* ---- busy ------------------------------------------------------------------------------------------- */

/* [start, end) after all that @busy holds, by start. */
static int unite(struct lw_gpu_rank *gpu, int gpu_class, int64_t start_ns, int64_t end_ns)
{
	size_t n = gpu->busy[gpu_class].n;
	struct lw_interval added = {start_ns, end_ns};

	if (end_ns <= start_ns)
		return LW_OK;
	if (!n || start_ns > gpu->busy[gpu_class].at[n - 1].end_ns)
		return lw_vec_push(&gpu->busy[gpu_class], added);
	if (end_ns > gpu->busy[gpu_class].at[n - 1].end_ns)
		gpu->busy[gpu_class].at[n - 1].end_ns = end_ns;
	return LW_OK;
}

/* Copies come from two lists, both by start. */
static int find_busy(struct lw_gpu_rank *gpu)
{
	const struct lw_copy *copy = gpu->copies.at, *end = copy + gpu->copies.n;
	const struct lw_kernel *kernel;
	int status = LW_OK;

	lw_vec_foreach (kernel, &gpu->kernels) {
		for (; copy < end && copy->start_ns <= kernel->start_ns && status == LW_OK; copy++)
			status = unite(gpu, LW_GPU_COPY, copy->start_ns, copy->end_ns);
		if (status == LW_OK)
			status = unite(gpu, kernel->gpu_class, kernel->start_ns, kernel->end_ns);
	}
	for (; copy < end && status == LW_OK; copy++)
		status = unite(gpu, LW_GPU_COPY, copy->start_ns, copy->end_ns);
	return status;
}

int lw_load_gpu_join(struct lw_run *run, struct lw_rank *rank)
{
	struct lw_gpu_rank *gpu = &rank->gpu;
	bool has_ops = gpu->nccl_ops.n > 0;
	int status;

	if (gpu->kernels.n > INT32_MAX || gpu->launches.n > INT32_MAX || gpu->syncs.n > INT32_MAX ||
		gpu->nccl_ops.n > INT32_MAX)
		return lw_fail(LW_ERR_LIMIT, "more than %d records of GPU work of rank %d",
			INT32_MAX, rank->rank);
	SORT(&gpu->kernels, compare_kernel);
	SORT(&gpu->copies, compare_copy);
	SORT(&gpu->syncs, compare_gpu_sync);
	SORT(&gpu->launches, compare_gpu_launch);
	SORT(&gpu->nccl_ops, compare_nccl_call);
	status = sort_streams(gpu);
	if (status == LW_OK)
		status = join_launches(gpu);
	if (status == LW_OK && has_ops)
		status = join_by_launch(gpu);
	if (status == LW_OK && has_ops)
		status = share_in_groups(gpu);
	if (status == LW_OK)
		status = has_ops ? join_by_order(run, rank, gpu) : make_ops(run, gpu);
	if (status == LW_OK && has_ops) /* of those that were found by their order */
		status = share_in_groups(gpu);
	if (status == LW_OK)
		name_algorithms(run, gpu);
	if (status == LW_OK)
		status = lw_load_nccl_join(run, rank);
	if (status == LW_OK)
		status = lw_load_gpu_missing(run, rank);
	return status == LW_OK ? find_busy(gpu) : status;
}
