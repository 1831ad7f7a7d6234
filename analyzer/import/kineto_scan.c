/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto_scan.c - the first reading of a trace: its rank and base, its extent, its operations of NCCL and its steps.
 *
 * What a trace says of itself stands before its events or behind them, depending on the version, and events are in no order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/gpu.h"
#include "analyzer/import/kineto.h"
#include "analyzer/load/kernel_name.h"
#include "base/err.h"
#include "schema/event.h"
#include "schema/store.h"

struct scan {
	struct lw_kineto_file *file;
	uint64_t n_plain; /* intervals without a category */
	lw_progress_fn on_progress;
	void *context;
};

/* ---- what the file says of itself ----------------------------------------------------------------- */

static void take_device(
	struct lw_kineto_file *file, const char *key, const struct lw_json_field *field)
{
	struct lw_kineto_device *device =
		file->n_devices ? &file->devices[file->n_devices - 1] : NULL;
	static const struct {
		const char *key;
		size_t offset;
	} members[] = {
		{"totalGlobalMem", offsetof(struct lw_kineto_device, memory_bytes)},
		{"numSms", offsetof(struct lw_kineto_device, n_multiprocessors)},
		{"computeMajor", offsetof(struct lw_kineto_device, major)},
		{"computeMinor", offsetof(struct lw_kineto_device, minor)},
	};

	if (!strcmp(key, "id") && field->type == LW_JSON_INT &&
		file->n_devices < LW_KINETO_MAX_DEVICES)
		file->devices[file->n_devices++].id = field->integer;
	else if (device && !strcmp(key, "name") && field->type == LW_JSON_TEXT)
		snprintf(device->name, sizeof(device->name), "%s", field->text);
	for (size_t i = 0; device && field->type == LW_JSON_INT && field->integer >= 0 &&
			   i < sizeof(members) / sizeof(members[0]);
		i++)
		if (!strcmp(key, members[i].key))
			memcpy((char *)device + members[i].offset, &field->integer,
				sizeof(field->integer));
}

static int on_outside(void *context, const struct lw_json_field *field)
{
	static const char devices[] = "deviceProperties.";
	struct lw_kineto_file *file = ((struct scan *)context)->file;
	bool is_count = field->type == LW_JSON_INT && field->integer >= 0;

	if (!strncmp(field->key, devices, sizeof(devices) - 1))
		take_device(file, field->key + sizeof(devices) - 1, field);
	else if (is_count && !strcmp(field->key, "distributedInfo.rank"))
		file->rank = field->integer;
	else if (is_count && !strcmp(field->key, "distributedInfo.world_size"))
		file->world_size = field->integer;
	else if (is_count && !strcmp(field->key, "baseTimeNanoseconds")) {
		file->base_ns = field->integer;
		file->has_base = true;
	}
	return LW_OK;
}

/* ---- events --------------------------------------------------------------------------------------- */

/* Place of @rank in "[0, 1, 5]"; -1: not in it, or it is cut short. */
static int64_t place_in(const char *ranks, int64_t rank)
{
	int64_t place = 0;

	for (; ranks && *ranks; place++) {
		char *end;
		long long number;

		ranks += strspn(ranks, "[ ,");
		number = strtoll(ranks, &end, 10);
		if (end == ranks)
			return -1;
		if (number == rank)
			return place;
		ranks = end;
	}
	return -1;
}

/* The same text on all its ranks. Ranks are numbered later: of a file's rank nothing is known yet. */
static int find_group(struct lw_kineto_file *file, const struct lw_kineto_payload *payload,
	int64_t at_ns, int32_t *ret_group)
{
	struct lw_kineto_group added = {
		.size = payload->group_size ? payload->group_size : -1, .first_ns = at_ns};
	char text[512];
	int n = snprintf(text, sizeof(text), "%s|%lld|%s", payload->group,
		(long long)payload->group_size, payload->ranks ? payload->ranks : "");

	added.key = (int64_t)(lw_string_id(text,
				      (size_t)n < sizeof(text) ? (uint64_t)n : sizeof(text) - 1) >>
			      1);
	added.rank = place_in(payload->ranks, file->rank);
	*ret_group = -1;
	for (size_t i = 0; i < file->groups.n; i++)
		if (file->groups.at[i].key == added.key) {
			if (at_ns < file->groups.at[i].first_ns)
				file->groups.at[i].first_ns = at_ns;
			*ret_group = (int32_t)i;
			return LW_OK;
		}
	if (file->groups.n == LW_KINETO_MAX_GROUPS)
		return LW_OK;
	*ret_group = (int32_t)file->groups.n;
	return lw_vec_push(&file->groups, added);
}

static int add_kernel(struct lw_kineto_file *file, const struct lw_kineto_event *event)
{
	struct lw_kernel_kind kind = lw_kernel_kind(event->name);
	struct lw_kineto_payload payload;
	struct lw_kineto_op op = {.start_ns = event->start_ns,
		.end_ns = event->end_ns,
		.called_ns = LW_ROW_NULL,
		.correlation = event->correlation,
		.op = kind.nccl_op,
		.algorithm = kind.algorithm,
		.group = -1};
	int status = LW_OK;

	file->n_kernels++;
	if (kind.gpu_class != LW_GPU_COMMUNICATION)
		return LW_OK;
	if (file->ops.n == LW_KINETO_MAX_OPS) {
		file->n_ops_left_out++;
		return LW_OK;
	}
	lw_kineto_payload(event->record, &payload);
	op.is_told = payload.op != 0;
	if (op.is_told) {
		op.op = payload.op;
		op.dtype = payload.dtype;
		op.bytes = payload.bytes;
		op.has_bytes = payload.has_bytes;
	}
	if (payload.group)
		status = find_group(file, &payload, event->start_ns, &op.group);
	return status < 0 ? status : lw_vec_push(&file->ops, op);
}

static int add_range(struct lw_kineto_file *file, const struct lw_kineto_event *event)
{
	int64_t number = lw_kineto_step(event->name);
	struct lw_kineto_payload payload;
	struct lw_kineto_annotation annotation = {
		.start_ns = event->start_ns, .end_ns = event->end_ns, .tid = event->tid};
	struct lw_kineto_step step = {number, event->start_ns, event->end_ns, event->tid};

	if (event->is_operator)
		return LW_OK;
	if (number >= 0)
		return file->steps.n < LW_KINETO_MAX_STEPS ? lw_vec_push(&file->steps, step)
							   : LW_OK;
	if (!lw_kineto_annotation(event->record, &payload) ||
		file->annotations.n >= LW_KINETO_MAX_OPS)
		return LW_OK;
	annotation.op = payload.op;
	annotation.dtype = payload.dtype;
	annotation.bytes = payload.bytes;
	annotation.has_bytes = payload.has_bytes;
	return lw_vec_push(&file->annotations, annotation);
}

static int on_record(void *context, const struct lw_json_record *record)
{
	struct scan *scan = context;
	struct lw_kineto_file *file = scan->file;
	struct lw_kineto_event event;

	lw_kineto_event(record, &event);
	if (event.kind == LW_KINETO_OTHER) {
		scan->n_plain += !lw_json_field(record, "cat") && lw_json_field(record, "dur");
		return LW_OK;
	}
	if (event.kind == LW_KINETO_BAD) {
		file->n_bad++;
		return LW_OK;
	}
	if (event.start_ns < file->first_ns)
		file->first_ns = event.start_ns;
	if (event.end_ns > file->last_ns)
		file->last_ns = event.end_ns;
	if (!file->pid && (event.kind == LW_KINETO_LAUNCH || event.kind == LW_KINETO_RANGE))
		file->pid = event.pid;
	if (event.kind == LW_KINETO_KERNEL)
		return add_kernel(file, &event);
	return event.kind == LW_KINETO_RANGE ? add_range(file, &event) : LW_OK;
}

static int on_progress(void *context, double done_frac)
{
	const struct scan *scan = context;

	return scan->on_progress ? scan->on_progress(scan->context, done_frac) : LW_OK;
}

/* ---- order ---------------------------------------------------------------------------------------- */

static int compare_op(const void *a, const void *b)
{
	const struct lw_kineto_op *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->correlation > y->correlation) - (x->correlation < y->correlation);
}

static int compare_correlation(const void *a, const void *b, void *context)
{
	const struct lw_kineto_op *ops = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (ops[x].correlation != ops[y].correlation)
		return ops[x].correlation < ops[y].correlation ? -1 : 1;
	return (x > y) - (x < y);
}

static int compare_annotation(const void *a, const void *b)
{
	const struct lw_kineto_annotation *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static int compare_step(const void *a, const void *b)
{
	const struct lw_kineto_step *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

#define SORT(vec, compare)                                                                         \
	do {                                                                                       \
		if ((vec)->n)                                                                      \
			qsort((vec)->at, (vec)->n, sizeof(*(vec)->at), compare);                   \
	} while (0)

static int put_in_order(struct lw_kineto_file *file)
{
	SORT(&file->ops, compare_op);
	SORT(&file->annotations, compare_annotation);
	SORT(&file->steps, compare_step);
	for (uint32_t i = 0; i < file->ops.n; i++)
		if (lw_vec_push(&file->by_correlation, i) < 0)
			return LW_ERR_NOMEM;
	if (file->ops.n)
		qsort_r(file->by_correlation.at, file->by_correlation.n, sizeof(uint32_t),
			compare_correlation, file->ops.at);
	for (size_t i = 0, n; i < file->ops.n; i += n) {
		struct lw_kineto_op *first = &file->ops.at[file->by_correlation.at[i]];

		n = 1;
		while (first->correlation && i + n < file->ops.n &&
			file->ops.at[file->by_correlation.at[i + n]].correlation ==
				first->correlation)
			n++;
		for (size_t k = i; k < i + n; k++) {
			file->ops.at[file->by_correlation.at[k]].n_same = (uint32_t)n;
			file->ops.at[file->by_correlation.at[k]].place = (uint32_t)i;
		}
	}
	return LW_OK;
}

struct lw_kineto_op *lw_kineto_op_of(
	const struct lw_kineto_file *file, uint32_t correlation, uint32_t *ret_n)
{
	size_t low = 0, high = file->by_correlation.n;
	struct lw_kineto_op *op;

	*ret_n = 0;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (file->ops.at[file->by_correlation.at[middle]].correlation < correlation)
			low = middle + 1;
		else
			high = middle;
	}
	if (!correlation || low == file->by_correlation.n)
		return NULL;
	op = &file->ops.at[file->by_correlation.at[low]];
	if (op->correlation != correlation)
		return NULL;
	*ret_n = op->n_same;
	return op;
}

int64_t lw_kineto_serial(const struct lw_kineto_file *file, const struct lw_kineto_op *op)
{
	return op - file->ops.at + 1;
}

/* ---- the whole ------------------------------------------------------------------------------------ */

int lw_kineto_scan(struct lw_kineto_file *file, lw_progress_fn progress, void *context)
{
	struct scan scan = {.file = file, .on_progress = progress, .context = context};
	const struct lw_json_reader reader = {.on_record = on_record,
		.on_outside = on_outside,
		.on_progress = on_progress,
		.context = &scan,
		.max_elements = LW_KINETO_ELEMENTS};
	int status;

	file->rank = file->world_size = -1;
	file->first_ns = INT64_MAX;
	file->last_ns = INT64_MIN;
	status = lw_json_stream_file(file->path, &reader, &file->json);
	if (status == LW_OK && file->first_ns > file->last_ns)
		status = lw_fail(LW_ERR_FORMAT,
			"no event of a kernel, a call or an operator in it%s",
			scan.n_plain
				? ": its intervals have no categories, as a PyTorch that was built without Kineto writes them"
				: "");
	if (status == LW_OK)
		status = put_in_order(file);
	return status;
}

void lw_kineto_file_done(struct lw_kineto_file *file)
{
	lw_vec_free(&file->ops);
	lw_vec_free(&file->by_correlation);
	lw_vec_free(&file->groups);
	lw_vec_free(&file->annotations);
	lw_vec_free(&file->steps);
}
