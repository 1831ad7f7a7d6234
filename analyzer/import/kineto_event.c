/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto_event.c - what one record of a Kineto trace is: its category, its times, which call of CUDA it was.
 *
 * Categories are spelt in two ways ("Kernel" to PyTorch 1.11, "kernel" since), and so are some arguments.
 */
#include "analyzer/import/kineto_event.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "schema/event.h"

/* us that as ns fit into 64 bits */
static const int64_t max_us = INT64_MAX / 1000 - 1;

static const struct {
	const char *name;
	enum lw_kineto_kind kind;
	bool is_operator;
} categories[] = {
	{"kernel", LW_KINETO_KERNEL, false},
	{"gpu_memcpy", LW_KINETO_COPY, false},
	{"gpu_memset", LW_KINETO_COPY, false},
	{"memcpy", LW_KINETO_COPY, false},
	{"memset", LW_KINETO_COPY, false},
	{"cuda_runtime", LW_KINETO_LAUNCH, false},
	{"cuda_driver", LW_KINETO_LAUNCH, false},
	{"hip_runtime", LW_KINETO_LAUNCH, false},
	{"runtime", LW_KINETO_LAUNCH, false},
	{"cuda_sync", LW_KINETO_SYNC, false},
	{"gpu_user_annotation", LW_KINETO_GPU_RANGE, false},
	{"user_annotation", LW_KINETO_RANGE, false},
	{"cpu_op", LW_KINETO_RANGE, true},
	{"operator", LW_KINETO_RANGE, true},
	{"overhead", LW_KINETO_OVERHEAD, false},
};

/* Calls by the beginning of their names, less "cuda", "cu" or "hip"; the first that fits. */
static const struct {
	const char *name;
	int op, sync_op; /* enum lw_launch_op, enum lw_gpu_sync_op */
} calls[] = {
	{"LaunchKernel", LW_LAUNCH_KERNEL, 0},
	{"LaunchCooperativeKernel", LW_LAUNCH_KERNEL, 0},
	{"LaunchHostFunc", LW_LAUNCH_OTHER, 0},
	{"ExtLaunch", LW_LAUNCH_KERNEL, 0},
	{"ExtModuleLaunchKernel", LW_LAUNCH_KERNEL, 0},
	{"ModuleLaunch", LW_LAUNCH_KERNEL, 0},
	{"HccModuleLaunchKernel", LW_LAUNCH_KERNEL, 0},
	{"GraphLaunch", LW_LAUNCH_GRAPH, 0},
	{"Memcpy", LW_LAUNCH_COPY, 0},
	{"Memset", LW_LAUNCH_MEMSET, 0},
	{"StreamWaitEvent", LW_LAUNCH_SYNC, LW_GPU_SYNC_STREAM_WAIT_EVENT},
	{"StreamSynchronize", LW_LAUNCH_SYNC, LW_GPU_SYNC_STREAM},
	{"EventSynchronize", LW_LAUNCH_SYNC, LW_GPU_SYNC_EVENT},
	{"DeviceSynchronize", LW_LAUNCH_SYNC, LW_GPU_SYNC_CONTEXT},
	{"CtxSynchronize", LW_LAUNCH_SYNC, LW_GPU_SYNC_CONTEXT},
	{"ThreadSynchronize", LW_LAUNCH_SYNC, LW_GPU_SYNC_CONTEXT},
};

/* Waits as the profiler of the device names them. */
static const struct {
	const char *name;
	int op; /* enum lw_gpu_sync_op */
} waits[] = {
	{"Stream Wait Event", LW_GPU_SYNC_STREAM_WAIT_EVENT},
	{"Stream Sync", LW_GPU_SYNC_STREAM},
	{"Event Sync", LW_GPU_SYNC_EVENT},
	{"Context Sync", LW_GPU_SYNC_CONTEXT},
};

/* A part of the name tells which way: "Memcpy HtoD (Pinned -> Device)", "CopyHostToDevice". */
static const struct {
	const char *part;
	int op; /* enum lw_copy_op */
} directions[] = {
	{"HtoD", LW_COPY_HTOD},
	{"HostToDevice", LW_COPY_HTOD},
	{"DtoH", LW_COPY_DTOH},
	{"DeviceToHost", LW_COPY_DTOH},
	{"DtoD", LW_COPY_DTOD},
	{"DeviceToDevice", LW_COPY_DTOD},
	{"HtoH", LW_COPY_HTOH},
	{"HostToHost", LW_COPY_HTOH},
	{"PtoP", LW_COPY_PTOP},
	{"Peer", LW_COPY_PTOP},
	{"HtoA", LW_COPY_HTOA},
	{"AtoH", LW_COPY_ATOH},
	{"AtoA", LW_COPY_ATOA},
	{"AtoD", LW_COPY_ATOD},
	{"DtoA", LW_COPY_DTOA},
};

/* ---- numbers ------------------------------------------------------------------------------------- */

bool lw_kineto_time_ns(const struct lw_json_field *field, int64_t *ret_ns)
{
	const char *text = field ? field->text : "";
	bool is_negative = *text == '-';
	int64_t us = 0, ns = 0, unit = 100;

	if (field && field->type == LW_JSON_REAL && strpbrk(text, "eE")) {
		if (!(field->real > -(double)max_us && field->real < (double)max_us))
			return false;
		*ret_ns = (int64_t)(field->real * 1000);
		return true;
	}
	text += is_negative;
	if (!isdigit((unsigned char)*text))
		return false;
	for (; isdigit((unsigned char)*text); text++) {
		us = us * 10 + (*text - '0');
		if (us > max_us)
			return false;
	}
	if (*text == '.')
		for (text++; isdigit((unsigned char)*text); text++, unit /= 10) {
			ns += (*text - '0') * unit;
			if (!unit) { /* the first digit beyond: to the nearest */
				ns += *text >= '5';
				break;
			}
		}
	*ret_ns = (us * 1000 + ns) * (is_negative ? -1 : 1);
	return true;
}

/* A number, or a text that ends in one ("stream 7"). -1 = none. */
static int64_t number_of(const struct lw_json_field *field)
{
	const char *text;

	if (!field || field->type == LW_JSON_REAL)
		return -1;
	if (field->type == LW_JSON_INT)
		return field->integer;
	text = field->text + strlen(field->text);
	while (text > field->text && isdigit((unsigned char)text[-1]))
		text--;
	return *text && strlen(text) < 10 ? atoll(text) : -1;
}

static uint32_t small_number(
	const struct lw_json_record *record, const char *key, uint32_t otherwise)
{
	int64_t number = number_of(lw_json_field(record, key));

	return number < 0 || number >= UINT32_MAX ? otherwise : (uint32_t)number;
}

int64_t lw_kineto_step(const char *name)
{
	static const char prefix[] = "ProfilerStep#";
	const char *digits = name + sizeof(prefix) - 1;
	size_t n;

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return -1;
	n = strspn(digits, "0123456789");
	return n && n < 18 && !digits[n] ? atoll(digits) : -1;
}

/* ---- one event ----------------------------------------------------------------------------------- */

static void take_call(struct lw_kineto_event *event)
{
	const char *name = event->name;

	event->kind = LW_KINETO_OTHER;
	if (!strncmp(name, "cuda", 4))
		name += 4;
	else if (!strncmp(name, "hip", 3))
		name += 3;
	else if (!strncmp(name, "cu", 2))
		name += 2;
	else
		return;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strncmp(name, calls[i].name, strlen(calls[i].name))) {
			event->kind = LW_KINETO_LAUNCH;
			event->op = calls[i].op;
			event->sync_op = calls[i].sync_op;
			return;
		}
}

static void take_copy(struct lw_kineto_event *event)
{
	int64_t bytes = number_of(lw_json_field(event->record, "args.bytes"));

	event->bytes = bytes > 0 ? (uint64_t)bytes : 0;
	event->op = strcasestr(event->name, "memset") ? LW_COPY_MEMSET : LW_COPY_OTHER;
	for (size_t i = 0;
		event->op == LW_COPY_OTHER && i < sizeof(directions) / sizeof(directions[0]); i++)
		if (strstr(event->name, directions[i].part))
			event->op = directions[i].op;
}

static void take_wait(struct lw_kineto_event *event)
{
	event->op = LW_GPU_SYNC_OTHER;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		if (strcasestr(event->name, waits[i].name)) {
			event->op = waits[i].op;
			return;
		}
}

static bool take_times(struct lw_kineto_event *event)
{
	int64_t duration_ns;

	if (!lw_kineto_time_ns(lw_json_field(event->record, "ts"), &event->start_ns) ||
		!lw_kineto_time_ns(lw_json_field(event->record, "dur"), &duration_ns))
		return false;
	event->is_unordered = duration_ns < 0;
	if (duration_ns < 0)
		duration_ns = 0;
	return !__builtin_add_overflow(event->start_ns, duration_ns, &event->end_ns);
}

/* Of GPU work: the arguments say where; where these lack, its row does. */
static void take_place(struct lw_kineto_event *event)
{
	const struct lw_json_record *record = event->record;

	event->device = small_number(record, "args.device", small_number(record, "pid", 0));
	event->context = small_number(record, "args.context", 0);
	event->stream =
		small_number(record, "args.stream", small_number(record, "tid", UINT32_MAX));
}

void lw_kineto_event(const struct lw_json_record *record, struct lw_kineto_event *ret_event)
{
	const char *phase = lw_json_text(record, "ph"), *category = lw_json_text(record, "cat");
	struct lw_kineto_event *event = ret_event;
	size_t i = 0;

	*event = (struct lw_kineto_event){.record = record, .name = lw_json_text(record, "name")};
	if (!phase || strcmp(phase, "X") != 0 || !category || !event->name)
		return;
	while (i < sizeof(categories) / sizeof(categories[0]) &&
		strcasecmp(category, categories[i].name) != 0)
		i++;
	if (i == sizeof(categories) / sizeof(categories[0]))
		return;
	event->kind = categories[i].kind;
	event->is_operator = categories[i].is_operator;
	event->pid = small_number(record, "pid", 0);
	event->tid = small_number(record, "tid", 0);
	event->correlation = small_number(record, "args.correlation", 0);
	event->stream = UINT32_MAX;
	if (event->kind == LW_KINETO_LAUNCH)
		take_call(event);
	else if (event->kind == LW_KINETO_COPY)
		take_copy(event);
	else if (event->kind == LW_KINETO_SYNC)
		take_wait(event);
	if (event->kind == LW_KINETO_KERNEL || event->kind == LW_KINETO_COPY ||
		event->kind == LW_KINETO_SYNC || event->kind == LW_KINETO_GPU_RANGE)
		take_place(event);
	if (event->kind == LW_KINETO_KERNEL)
		event->graph = small_number(record, "args.graph id", 0);
	if (event->kind != LW_KINETO_OTHER && !take_times(event))
		event->kind = LW_KINETO_BAD;
}
