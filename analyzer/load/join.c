/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.c - ties the rows of one rank together: which batch carried what, when each tensor was queued,
 * when all ranks had agreed on it, and when its transport collective ran.
 *
 * Everything is one sweep over rows sorted by time, so the cost is that of sorting.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "analyzer/load/load.h"

#define BY(type, field)                                                                            \
	static int compare_##type(const void *a, const void *b)                                    \
	{                                                                                          \
		const struct lw_##type *x = a, *y = b;                                             \
                                                                                                   \
		return (x->field > y->field) - (x->field < y->field);                              \
	}
BY(ready, at_ns)
BY(interval, start_ns)
BY(cycle, start_ns)
BY(collective, start_ns)
#undef BY

static int compare_batch(const void *a, const void *b)
{
	const struct lw_batch *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->serial > y->serial) - (x->serial < y->serial);
}

static int compare_member(const void *a, const void *b)
{
	const struct lw_load_member *x = a, *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return (x->position > y->position) - (x->position < y->position);
}

#define SORT(vec, compare)                                                                         \
	do {                                                                                       \
		if ((vec)->n)                                                                      \
			qsort((vec)->at, (vec)->n, sizeof(*(vec)->at), compare);                   \
	} while (0)

/* First row of batch @serial in the sorted @members; its index may be members->n. */
static size_t find_serial(const lw_load_members *members, uint64_t serial)
{
	size_t low = 0, high = members->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (members->at[middle].serial < serial)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- when each member was queued ------------------------------------------------------------- */

struct queued {
	uint64_t object;
	size_t ready; /* index of the newest record */
	UT_hash_handle hh;
};

struct queue {
	struct queued *by_object;
	int32_t *by_tensor;     /* newest record that came with a name; LW_NONE */
	int64_t *last_start_ns; /* by tensor: the batch that carried it before */
	uint64_t n_members, n_missing;
};

static int queue_ready(struct queue *queue, struct lw_rank *rank, size_t i)
{
	const struct lw_ready *ready = &rank->readies.at[i];
	struct queued *queued;

	if (ready->tensor != LW_NONE)
		queue->by_tensor[ready->tensor] = (int32_t)i;
	if (!ready->object)
		return LW_OK;
	HASH_FIND(hh, queue->by_object, &ready->object, sizeof(ready->object), queued);
	if (!queued) {
		queued = calloc(1, sizeof(*queued));
		if (!queued)
			return lw_fail(LW_ERR_NOMEM, "no memory");
		queued->object = ready->object;
		HASH_ADD(hh, queue->by_object, object, sizeof(queued->object), queued);
	}
	queued->ready = i;
	return LW_OK;
}

/* Takes the newest earlier record of @object, else of @tensor, out of the queue. */
static void take_ready(
	struct queue *queue, struct lw_rank *rank, struct lw_member *member, uint64_t object)
{
	struct lw_ready *ready = NULL;
	struct queued *queued = NULL;

	if (object)
		HASH_FIND(hh, queue->by_object, &object, sizeof(object), queued);
	if (queued) {
		ready = &rank->readies.at[queued->ready];
		HASH_DEL(queue->by_object, queued);
		free(queued);
	} else if (queue->by_tensor[member->tensor] != LW_NONE) {
		ready = &rank->readies.at[queue->by_tensor[member->tensor]];
	}
	queue->by_tensor[member->tensor] = LW_NONE;
	/* Older than the batch before: left over from records that were lost in between. */
	if (!ready || ready->at_ns < queue->last_start_ns[member->tensor]) {
		queue->n_missing++;
		return;
	}
	ready->tensor = (int32_t)member->tensor;
	member->ready_ns = ready->at_ns;
}

static int add_members(struct lw_run *run, struct lw_rank *rank, struct lw_batch *batch,
	const lw_load_members *members, struct queue *queue)
{
	uint64_t sum_bytes = 0;

	batch->first_member = (uint32_t)rank->members.n;
	for (size_t i = find_serial(members, batch->serial);
		i < members->n && members->at[i].serial == batch->serial; i++) {
		const struct lw_load_member *row = &members->at[i];
		struct lw_tensor *tensor = &run->tensors.at[row->tensor];
		struct lw_member member = {.tensor = (uint32_t)row->tensor,
			.bytes = row->bytes,
			.ready_ns = LW_NS_UNKNOWN,
			.computed_ns = LW_NS_UNKNOWN};

		if (row->bytes > tensor->bytes)
			tensor->bytes = row->bytes;
		if (row->dtype)
			tensor->dtype = row->dtype;
		sum_bytes += row->bytes;
		take_ready(queue, rank, &member, row->object);
		queue->last_start_ns[row->tensor] = batch->start_ns;
		queue->n_members++;
		if (lw_vec_push(&rank->members, member) < 0)
			return LW_ERR_NOMEM;
	}
	batch->n_members = (uint32_t)rank->members.n - batch->first_member;
	if (!batch->bytes)
		batch->bytes = sum_bytes;
	return LW_OK;
}

static int sweep_members(struct lw_run *run, struct lw_rank *rank, const lw_load_members *members,
	struct queue *queue)
{
	struct lw_batch *batch;
	size_t next = 0;

	for (size_t i = 0; i < run->tensors.n; i++) {
		queue->by_tensor[i] = LW_NONE;
		queue->last_start_ns[i] = 0;
	}
	lw_vec_foreach (batch, &rank->batches) {
		for (; next < rank->readies.n && rank->readies.at[next].at_ns <= batch->start_ns;
			next++)
			if (queue_ready(queue, rank, next) < 0)
				return LW_ERR_NOMEM;
		if (add_members(run, rank, batch, members, queue) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

static int join_members(struct lw_run *run, struct lw_rank *rank, lw_load_members *members)
{
	struct queue queue = {0};
	struct queued *queued, *later;
	int status = LW_ERR_NOMEM;

	queue.by_tensor = malloc((run->tensors.n + 1) * sizeof(*queue.by_tensor));
	queue.last_start_ns = malloc((run->tensors.n + 1) * sizeof(*queue.last_start_ns));
	if (queue.by_tensor && queue.last_start_ns)
		status = sweep_members(run, rank, members, &queue);
	else
		lw_fail(LW_ERR_NOMEM, "no memory");
	HASH_ITER(hh, queue.by_object, queued, later)
	{
		HASH_DEL(queue.by_object, queued);
		free(queued);
	}
	free(queue.by_tensor);
	free(queue.last_start_ns);
	if (status == LW_OK && queue.n_missing && rank->readies.n)
		status = lw_run_diag(run, "load", "no ready time", queue.n_missing,
			"rank %d: the moment a tensor was queued is not known (%" PRIu64
			" of %" PRIu64 " times)",
			rank->rank, queue.n_missing, queue.n_members);
	if (status == LW_OK && members->n > rank->members.n)
		status = lw_run_diag(run, "load", "tensors without a batch",
			members->n - rank->members.n,
			"rank %d: tensors whose batch was not recorded", rank->rank);
	return status;
}

/* ---- transport collectives and coordination rounds -------------------------------------------- */

/* The batch of the same thread that holds [start, end]; few threads run batches, so look back a little. */
static int32_t find_batch(const struct lw_rank *rank, size_t after, int64_t thread_id,
	int64_t start_ns, int64_t end_ns)
{
	enum { LOOK_BACK = 32 };

	for (size_t i = after; i > 0 && after - i < LOOK_BACK; i--) {
		const struct lw_batch *batch = &rank->batches.at[i - 1];

		if (batch->thread_id == thread_id)
			return batch->start_ns <= start_ns && end_ns <= batch->end_ns
				       ? (int32_t)(i - 1)
				       : LW_NONE;
	}
	return LW_NONE;
}

static void join_collectives(struct lw_rank *rank)
{
	struct lw_collective *collective;
	size_t after = 0; /* batches that start at or before the collective */

	lw_vec_foreach (collective, &rank->collectives) {
		struct lw_batch *batch;

		while (after < rank->batches.n &&
			rank->batches.at[after].start_ns <= collective->start_ns)
			after++;
		if (collective->flags & LW_COLL_CONTROL)
			continue;
		collective->batch = find_batch(rank, after, collective->thread_id,
			collective->start_ns, collective->end_ns);
		if (collective->batch == LW_NONE)
			continue;
		batch = &rank->batches.at[collective->batch];
		if (batch->wire_start_ns == LW_NS_UNKNOWN)
			batch->wire_start_ns = collective->start_ns;
		if (batch->wire_end_ns < collective->end_ns)
			batch->wire_end_ns = collective->end_ns;
	}
}

static int64_t last_ready_ns(const struct lw_rank *rank, const struct lw_batch *batch)
{
	int64_t last_ns = LW_NS_UNKNOWN;

	for (uint32_t i = 0; i < batch->n_members; i++) {
		int64_t ready_ns = rank->members.at[batch->first_member + i].ready_ns;

		if (ready_ns > last_ns)
			last_ns = ready_ns;
	}
	return last_ns;
}

/*
 * The round that agreed a batch is the last one of its thread that ended before it starts: the
 * framework executes what was agreed at once, in order, on that thread.
 */
static int join_cycles(struct lw_run *run, struct lw_rank *rank)
{
	struct {
		int64_t thread_id, agreed_ns, start_ns, and_start_ns;
	} last = {.thread_id = -1};
	struct lw_batch *batch;
	uint64_t n_stale = 0;
	size_t next = 0;

	lw_vec_foreach (batch, &rank->batches) {
		for (; next < rank->cycles.n && rank->cycles.at[next].end_ns <= batch->start_ns;
			next++) {
			const struct lw_cycle *cycle = &rank->cycles.at[next];

			if (cycle->op == LW_CYCLE_AND)
				last.and_start_ns = cycle->start_ns;
			/* The slow path is part of the round that its bit vectors began. */
			last.start_ns = cycle->op != LW_CYCLE_AND && cycle->n_unchanged == 0 &&
							last.thread_id == cycle->thread_id
						? last.and_start_ns
						: cycle->start_ns;
			last.thread_id = cycle->thread_id;
			last.agreed_ns = cycle->end_ns;
		}
		if (last.thread_id != batch->thread_id)
			continue;
		if (last.agreed_ns < last_ready_ns(rank, batch)) {
			n_stale++;
			continue;
		}
		batch->agreed_ns = last.agreed_ns;
		batch->cycle_ns = last.start_ns;
	}
	if (!n_stale)
		return LW_OK;
	return lw_run_diag(run, "load", "round not recorded", n_stale,
		"rank %d: the coordination round that agreed a batch is not in the run",
		rank->rank);
}

/* What failed had no result, and its size was not told: it is counted, and nothing is learnt from it. */
static int drop_failed(struct lw_run *run, struct lw_rank *rank)
{
	int32_t *place = malloc((rank->batches.n + 1) * sizeof(*place));
	struct lw_collective *collective;
	size_t n = 0;

	rank->n_failed = 0;
	rank->first_failed_ns = rank->last_failed_ns = LW_NS_UNKNOWN;
	if (!place)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t i = 0; i < rank->batches.n; i++) {
		const struct lw_batch *batch = &rank->batches.at[i];

		place[i] = batch->flags & LW_COLL_FAILED ? LW_NONE : (int32_t)n;
		if (place[i] != LW_NONE) {
			rank->batches.at[n++] = *batch;
			continue;
		}
		if (!rank->n_failed++)
			rank->first_failed_ns = batch->start_ns;
		if (batch->end_ns > rank->last_failed_ns)
			rank->last_failed_ns = batch->end_ns;
	}
	rank->batches.n = n;
	n = 0;
	lw_vec_foreach (collective, &rank->collectives) {
		bool is_kept = collective->batch == LW_NONE || place[collective->batch] != LW_NONE;

		if (collective->batch != LW_NONE)
			collective->batch = place[collective->batch];
		if (is_kept)
			rank->collectives.at[n++] = *collective;
	}
	rank->collectives.n = n;
	free(place);
	if (!rank->n_failed)
		return LW_OK;
	return lw_run_diag(run, "load", "failed operations", rank->n_failed,
		"rank %d: %u operation%s of the framework failed, from %.3f s after its start on: they do not count",
		rank->rank, rank->n_failed, rank->n_failed == 1 ? "" : "s",
		(double)(rank->first_failed_ns - rank->start_ns) / 1e9);
}

int lw_load_join(struct lw_run *run, struct lw_rank *rank, lw_load_members *members)
{
	int status;

	SORT(&rank->readies, compare_ready);
	SORT(&rank->waits, compare_interval);
	SORT(&rank->cycles, compare_cycle);
	SORT(&rank->collectives, compare_collective);
	SORT(&rank->batches, compare_batch);
	SORT(members, compare_member);
	status = join_members(run, rank, members);
	if (status < 0)
		return status;
	join_collectives(rank);
	status = join_cycles(run, rank);
	return status == LW_OK ? drop_failed(run, rank) : status;
}

/* ---- a run without a framework ------------------------------------------------------------------ */

int lw_load_plain(struct lw_run *run, struct lw_rank *rank)
{
	struct lw_collective *collective;

	lw_vec_foreach (collective, &rank->collectives) {
		struct lw_batch batch = {.op = collective->op,
			.serial = rank->batches.n + 1,
			.bytes = collective->sent_bytes > collective->received_bytes
					 ? collective->sent_bytes
					 : collective->received_bytes,
			.fusion_bytes = UINT64_MAX,
			.start_ns = collective->start_ns,
			.end_ns = collective->end_ns,
			.wire_start_ns = collective->start_ns,
			.wire_end_ns = collective->end_ns,
			.agreed_ns = LW_NS_UNKNOWN,
			.cycle_ns = LW_NS_UNKNOWN,
			.first_member = (uint32_t)rank->members.n,
			.n_members = 1,
			.flags = collective->flags,
			.thread_id = collective->thread_id,
			.comm_key = collective->comm_key,
			.nccl_op = collective->nccl_op,
			.step = LW_NONE,
			.group = LW_NONE};
		struct lw_member member = {.bytes = batch.bytes,
			.ready_ns = LW_NS_UNKNOWN,
			.computed_ns = LW_NS_UNKNOWN};
		const char *op = lw_coll_name(collective->op);
		char name[80];
		int32_t tensor;

		if (collective->flags & LW_COLL_CONTROL)
			continue;
		/* Such programs name nothing: what is the same operation on the same bytes is one name. */
		if (collective->op == LW_COLL_ALLREDUCE && batch.bytes)
			snprintf(name, sizeof(name), "%s of %" PRIu64 " bytes", op, batch.bytes);
		else
			snprintf(name, sizeof(name), "%s", op ? op : "collective");
		tensor = lw_load_tensor(run, name);
		if (tensor < 0)
			return tensor;
		member.tensor = (uint32_t)tensor;
		if (batch.bytes > run->tensors.at[tensor].bytes)
			run->tensors.at[tensor].bytes = batch.bytes;
		collective->batch = (int32_t)rank->batches.n;
		if (lw_vec_push(&rank->members, member) < 0 ||
			lw_vec_push(&rank->batches, batch) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}
