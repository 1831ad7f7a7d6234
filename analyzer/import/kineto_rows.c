/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto_rows.c - the second reading of a trace: its events as rows.
 *
 *	kernel, copy     GPU work, with the correlation of the call that launched it
 *	launch           calls that start or await GPU work, on the thread that called; made for an operation of NCCL, when its
 *	                 kernel has that correlation
 *	gpu_sync         waits: of calls (their stream is not told), and what the device's profiler says of the same calls
 *	nccl_op          every communication kernel: enqueued when it was launched, completed when it ended
 *	range            annotations and operators on their threads, annotations' extents on streams, marks of steps
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/kineto.h"
#include "base/err.h"
#include "schema/event.h"

enum {
	MAX_THREADS = 1 << 12, /* further ones are put together with the process's own */
	MAX_TEXTS = 1 << 16,   /* remembered; the store knows all */
};
static const uint64_t stream_mark = UINT64_C(1) << 63;

int64_t lw_kineto_string(
	struct lw_import_rows *rows, struct lw_kineto_text **texts, const char *text)
{
	struct lw_kineto_text *known;
	int64_t id;

	HASH_FIND_STR(*texts, text, known);
	if (known)
		return known->id;
	id = lw_store_string(rows->store, text);
	if (id < 0 || HASH_COUNT(*texts) >= MAX_TEXTS)
		return id;
	known = calloc(1, sizeof(*known));
	if (!known || !(known->text = strdup(text))) {
		free(known);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	known->id = id;
	HASH_ADD_KEYPTR(hh, *texts, known->text, strlen(known->text), known);
	return id;
}

static int64_t string_of(struct lw_kineto_writer *w, const char *text)
{
	return lw_kineto_string(w->import->rows, w->texts, text);
}

/* NULL: no memory. */
static struct lw_kineto_thread *thread_of(struct lw_kineto_writer *w, uint64_t key)
{
	struct lw_kineto_thread *thread;

	if (key == w->own.key)
		return &w->own;
	HASH_FIND(hh, w->threads, &key, sizeof(key), thread);
	if (thread)
		return thread;
	if (HASH_COUNT(w->threads) >= MAX_THREADS)
		return &w->own;
	thread = calloc(1, sizeof(*thread));
	if (!thread) {
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	thread->key = key;
	thread->id = (*w->next_thread_id)++;
	HASH_ADD(hh, w->threads, key, sizeof(thread->key), thread);
	return thread;
}

/* ---- events --------------------------------------------------------------------------------------- */

static int add_kernel(struct lw_kineto_writer *w, const struct lw_kineto_event *event)
{
	int64_t name_id = string_of(w, event->name);
	int flags = (event->is_unordered ? LW_KERNEL_UNORDERED : 0) |
		    (event->graph ? LW_KERNEL_IN_GRAPH : 0);

	if (name_id < 0)
		return (int)name_id;
	w->import->summary->n_kernels++;
	if (event->device < 64)
		w->used_devices |= UINT64_C(1) << event->device;
	return lw_row(w->import->rows, LW_ROW_KERNEL, w->own.id, w->own.n_rows++, event->start_ns,
		event->end_ns, name_id, event->device, event->context, event->stream,
		event->correlation, event->graph ? event->graph : LW_ROW_NULL, flags);
}

static int add_copy(struct lw_kineto_writer *w, const struct lw_kineto_event *event)
{
	w->import->summary->n_copies++;
	return lw_row(w->import->rows, LW_ROW_COPY, w->own.id, w->own.n_rows++, event->start_ns,
		event->end_ns, event->op,
		event->bytes <= INT64_MAX ? (int64_t)event->bytes : INT64_MAX, event->device,
		event->context, event->stream, event->correlation, event->device,
		event->is_unordered ? LW_KERNEL_UNORDERED : 0);
}

static int add_sync(struct lw_kineto_writer *w, const struct lw_kineto_event *event, int op)
{
	w->import->summary->n_syncs += event->kind == LW_KINETO_LAUNCH;
	return lw_row(w->import->rows, LW_ROW_GPU_SYNC, w->own.id, w->own.n_rows++, event->start_ns,
		event->end_ns, op, event->context,
		event->stream == UINT32_MAX ? LW_ROW_NULL : event->stream, event->correlation);
}

static int add_wait(struct lw_kineto_writer *w, const struct lw_kineto_event *event)
{
	return add_sync(w, event, event->op);
}

static int add_launch(struct lw_kineto_writer *w, const struct lw_kineto_event *event)
{
	struct lw_kineto_thread *thread = thread_of(w, event->tid);
	int64_t name_id = string_of(w, event->name);
	const struct lw_kineto_file *file = w->file;
	struct lw_kineto_op *op;
	uint32_t n;
	int status;

	if (!thread || name_id < 0)
		return thread ? (int)name_id : LW_ERR_NOMEM;
	op = lw_kineto_op_of(file, event->correlation, &n);
	for (uint32_t i = 0; op && i < n; i++) {
		struct lw_kineto_op *launched =
			&file->ops.at[file->by_correlation.at[op->place + i]];

		launched->called_ns = event->start_ns;
		launched->tid = event->tid;
	}
	w->import->summary->n_launches++;
	status = lw_row(w->import->rows, LW_ROW_LAUNCH, thread->id, thread->n_rows++,
		event->start_ns, event->end_ns, event->op, name_id, event->correlation, event->tid,
		n == 1 ? LW_LAUNCH_FOR_NCCL_OP : LW_LAUNCH_FOR_NOTHING,
		n == 1 ? lw_kineto_serial(file, op) : 0, 0);
	return status == LW_OK && event->sync_op ? add_sync(w, event, event->sync_op) : status;
}

static int add_range(struct lw_kineto_writer *w, const struct lw_kineto_event *event)
{
	uint64_t key = event->kind == LW_KINETO_GPU_RANGE
			       ? stream_mark | (uint64_t)event->device << 32 | event->stream
			       : event->tid;
	struct lw_kineto_thread *thread = thread_of(w, key);
	int64_t name_id = string_of(w, event->name);

	if (!thread || name_id < 0)
		return thread ? (int)name_id : LW_ERR_NOMEM;
	w->import->summary->n_ranges++;
	return lw_row(w->import->rows, LW_ROW_RANGE, thread->id, thread->n_rows++, event->start_ns,
		event->end_ns, LW_MARK_RANGE, name_id, 0);
}

static int add_overhead(struct lw_kineto_writer *w, const struct lw_kineto_event *event)
{
	int64_t name_id = string_of(w, event->name);

	if (name_id < 0)
		return (int)name_id;
	return lw_row(w->import->rows, LW_ROW_GPU_OVERHEAD, w->own.id, w->own.n_rows++,
		event->start_ns, event->end_ns, name_id);
}

/* From the file's base to the run's origin. Return: false: it is not near the others of its run. */
static bool move(struct lw_kineto_writer *w, int64_t *ns)
{
	static const int64_t max_ns = INT64_C(1) << 57;

	return !__builtin_add_overflow(*ns, w->offset_ns, ns) && *ns >= 0 && *ns <= max_ns;
}

static int (*const adders[])(struct lw_kineto_writer *w, const struct lw_kineto_event *event) = {
	[LW_KINETO_OTHER] = NULL,
	[LW_KINETO_KERNEL] = add_kernel,
	[LW_KINETO_COPY] = add_copy,
	[LW_KINETO_LAUNCH] = add_launch,
	[LW_KINETO_SYNC] = add_wait,
	[LW_KINETO_RANGE] = add_range,
	[LW_KINETO_GPU_RANGE] = add_range,
	[LW_KINETO_OVERHEAD] = add_overhead,
};

static int on_record(void *context, const struct lw_json_record *record)
{
	struct lw_kineto_writer *w = context;
	struct lw_kineto_event event;

	lw_kineto_event(record, &event);
	if (event.kind == LW_KINETO_BAD)
		return LW_OK;
	if (!adders[event.kind]) {
		w->import->summary->n_unused++;
		return LW_OK;
	}
	if (!move(w, &event.start_ns) || !move(w, &event.end_ns)) {
		w->file->n_bad++;
		return LW_OK;
	}
	return adders[event.kind](w, &event);
}

static int on_progress(void *context, double done_frac)
{
	const struct lw_kineto_writer *w = context;

	return w->on_progress ? w->on_progress(w->context, done_frac) : LW_OK;
}

/* ---- operations of NCCL ---------------------------------------------------------------------------- */

/* The annotation within which the call was made: which operation, on how many bytes. */
static void annotate(const struct lw_kineto_file *file, struct lw_kineto_op *op, int64_t called_ns)
{
	size_t low = 0, high = file->annotations.n;
	const struct lw_kineto_annotation *annotation;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		annotation = &file->annotations.at[middle];
		if (annotation->tid < op->tid ||
			(annotation->tid == op->tid && annotation->start_ns <= called_ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return;
	annotation = &file->annotations.at[low - 1];
	if (annotation->tid != op->tid || annotation->end_ns < called_ns)
		return;
	op->op = annotation->op;
	op->dtype = annotation->dtype;
	op->bytes = annotation->bytes;
	op->has_bytes = annotation->has_bytes;
}

static int write_ops(struct lw_kineto_writer *w)
{
	struct lw_kineto_file *file = w->file;
	struct lw_kineto_op *op;
	int status = LW_OK;

	lw_vec_foreach (op, &file->ops) {
		int64_t start_ns = op->start_ns, end_ns = op->end_ns;

		if (status < 0)
			return status;
		if (!move(w, &start_ns) || !move(w, &end_ns))
			continue;
		if (op->called_ns != LW_ROW_NULL && !op->is_told)
			annotate(file, op, op->called_ns - w->offset_ns);
		if (op->called_ns != LW_ROW_NULL && op->called_ns < start_ns)
			start_ns = op->called_ns;
		w->import->summary->n_nccl_ops++;
		w->import->summary->n_nccl_unsized += !op->has_bytes;
		w->import->summary->bytes += op->has_bytes ? op->bytes : 0;
		status = lw_row(w->import->rows, LW_ROW_NCCL_OP, w->own.id, w->own.n_rows++,
			start_ns, end_ns, op->op,
			op->group < 0 ? 0 : file->groups.at[op->group].key,
			lw_kineto_serial(file, op), (int64_t)op->bytes, -1, LW_ROW_NULL,
			op->algorithm, LW_NCCL_PROTOCOL_UNKNOWN, 0, op->dtype,
			(op->has_bytes ? 0 : LW_NCCL_NO_BYTES) |
				(op->op == LW_NCCL_ALLTOALL ? LW_NCCL_WHOLE_BYTES : 0) |
				(op->n_same > 1 ? LW_NCCL_IN_GRAPH : 0),
			0);
	}
	for (size_t i = 0; i < file->groups.n && status == LW_OK; i++) {
		struct lw_kineto_group *group = &file->groups.at[i];

		if (!move(w, &group->first_ns))
			group->first_ns = 0;
		status = lw_row(w->import->rows, LW_ROW_COMM, w->process_id, group->key,
			group->size, group->rank, (int64_t)i, LW_COMM_OTHER, LW_TRANSPORT_NCCL,
			group->first_ns);
	}
	return status;
}

/* ---- what is known of the whole -------------------------------------------------------------------- */

static int mark_step(struct lw_kineto_writer *w, int64_t at_ns, int64_t number)
{
	int64_t name_id = string_of(w, "ProfilerStep");

	if (name_id < 0)
		return (int)name_id;
	if (!move(w, &at_ns))
		return LW_OK;
	return lw_row(w->import->rows, LW_ROW_RANGE, w->own.id, w->own.n_rows++, at_ns, at_ns,
		LW_MARK_STEP, name_id, number);
}

/* Where each begins, and where one ends after which the profiler paused, or stopped. */
static int write_steps(struct lw_kineto_writer *w)
{
	const struct lw_kineto_file *file = w->file;
	int64_t last = INT64_MIN, end_ns = 0;
	uint64_t n = 0;
	int status = LW_OK;

	for (size_t i = 0; i < file->steps.n && status == LW_OK; i++) {
		const struct lw_kineto_step *step = &file->steps.at[i];

		if (step->number == last) /* another thread tells of it too */
			continue;
		if (i && step->number != last + 1)
			status = mark_step(w, end_ns, -1);
		if (status == LW_OK)
			status = mark_step(w, step->start_ns, step->number);
		n++;
		last = step->number;
		end_ns = step->end_ns;
	}
	if (status == LW_OK && file->steps.n)
		status = mark_step(w, end_ns, -1);
	if (n > w->import->summary->n_steps) /* all ranks make the same steps */
		w->import->summary->n_steps = n;
	return status;
}

static int write_devices(struct lw_kineto_writer *w)
{
	const struct lw_kineto_file *file = w->file;
	int64_t at_ns = file->first_ns;
	int status = LW_OK;

	if (!move(w, &at_ns))
		at_ns = 0;
	for (size_t i = 0; i < file->n_devices && status == LW_OK; i++) {
		const struct lw_kineto_device *device = &file->devices[i];
		int64_t name_id;

		if (device->id < 0 || device->id > 63 ||
			!(w->used_devices & UINT64_C(1) << device->id))
			continue;
		name_id = string_of(w, device->name);
		if (name_id < 0)
			return (int)name_id;
		status = lw_row(w->import->rows, LW_ROW_GPU, w->process_id, at_ns, device->id,
			name_id, device->memory_bytes ? device->memory_bytes : LW_ROW_NULL,
			device->n_multiprocessors, LW_ROW_NULL, device->major, device->minor);
	}
	return status;
}

static int write_threads(struct lw_kineto_writer *w)
{
	struct lw_kineto_thread *thread, *next;
	int status = LW_OK;

	HASH_ITER(hh, w->threads, thread, next)
	{
		struct lw_row_thread row = {.id = thread->id,
			.process_id = w->process_id,
			.name_id = LW_ROW_NULL,
			.n_stored = thread->n_rows};
		char name[64];

		snprintf(name, sizeof(name), "stream %u of device %u", (uint32_t)thread->key,
			(uint32_t)((thread->key & ~stream_mark) >> 32));
		if (!(thread->key & stream_mark))
			row.tid = (int64_t)thread->key;
		else if (status == LW_OK) {
			row.name_id = string_of(w, name);
			status = row.name_id < 0 ? (int)row.name_id : LW_OK;
		}
		if (status == LW_OK)
			status = lw_rows_thread(w->import->rows, &row);
		HASH_DEL(w->threads, thread);
		free(thread);
	}
	return status;
}

static int write_process(struct lw_kineto_writer *w)
{
	struct lw_kineto_file *file = w->file;
	struct lw_import_rows *rows = w->import->rows;
	uint64_t n_torn = file->json.n_bad + file->json.is_truncated;
	struct lw_row_process process = {.id = w->process_id,
		.host_id = w->process_id,
		.rank = file->rank,
		.size = file->world_size < 0 ? LW_ROW_NULL : file->world_size,
		.framework = LW_FRAMEWORK_NONE,
		.transport = file->ops.n ? LW_TRANSPORT_NCCL : LW_TRANSPORT_NONE,
		.role = LW_THREAD_TRAINING,
		.start_ns = file->first_ns,
		.end_ns = file->last_ns,
		.n_stored = w->own.n_rows,
		.n_lost = (int64_t)(n_torn + file->n_bad),
		.pid = file->pid,
		.tid = file->steps.n ? (int64_t)file->steps.at[0].tid : 0};
	char torn[400];
	int status;

	snprintf(torn, sizeof(torn), "%s%s", file->json.is_truncated ? LW_LOSS_CUT_OFF : "",
		file->json.problem);
	if (!move(w, &process.start_ns))
		process.start_ns = 0;
	if (!move(w, &process.end_ns))
		process.end_ns = process.start_ns;
	status = lw_rows_process(rows, &process);
	if (status == LW_OK)
		status = lw_rows_loss(rows, w->process_id, LW_LOSS_TORN, n_torn, torn);
	if (status == LW_OK)
		status = lw_rows_loss(rows, w->process_id, LW_LOSS_TORN, file->n_bad,
			"an interval without its times, or far from all others");
	if (status == LW_OK)
		status = lw_rows_loss(rows, w->process_id, LW_LOSS_TABLE_FULL, file->n_ops_left_out,
			"operations of NCCL beyond what the importer holds: kernels only");
	return status;
}

int lw_kineto_write(struct lw_kineto_writer *w)
{
	const struct lw_json_reader reader = {.on_record = on_record,
		.on_progress = on_progress,
		.context = w,
		.max_elements = LW_KINETO_ELEMENTS};
	struct lw_json_result result;
	int status;

	w->offset_ns = w->file->base_ns - w->file->origin_ns;
	w->own = (struct lw_kineto_thread){.id = w->process_id,
		.key = w->file->steps.n ? w->file->steps.at[0].tid : UINT64_MAX};
	status = lw_json_stream_file(w->file->path, &reader, &result);
	if (status == LW_OK)
		status = write_ops(w);
	if (status == LW_OK)
		status = write_steps(w);
	if (status == LW_OK)
		status = write_devices(w);
	/* also after an error: it frees them */
	if (status == LW_OK)
		status = write_threads(w);
	else
		write_threads(w);
	return status == LW_OK ? write_process(w) : status;
}
