/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer/cupti_records.h"

#include <string.h>

#include "tracer/cupti_calls.def"
#include "tracer/cupti_layout.h"

/* ---- calls ------------------------------------------------------------------------------------------ */

struct call {
	const char *name; /* NULL = not wanted */
	uint16_t op;      /* enum lw_launch_op */
};

#define X(op_, name_, number) [number] = {#name_, LW_LAUNCH_##op_},
static const struct call runtime_calls[] = {LW_CUPTI_RUNTIME_CALLS(X)};
static const struct call driver_calls[] = {LW_CUPTI_DRIVER_CALLS(X)};
#undef X

enum {
	N_RUNTIME_CALLS = sizeof(runtime_calls) / sizeof(runtime_calls[0]),
	N_DRIVER_CALLS = sizeof(driver_calls) / sizeof(driver_calls[0]),
};

uint32_t lw_cupti_call(size_t i, bool *ret_is_driver)
{
#define X(op_, name_, number) {false, number},
#define Y(op_, name_, number) {true, number},
	static const struct {
		bool is_driver;
		uint32_t number;
	} calls[] = {LW_CUPTI_RUNTIME_CALLS(X) LW_CUPTI_DRIVER_CALLS(Y)};
#undef X
#undef Y

	if (i >= sizeof(calls) / sizeof(calls[0]))
		return 0;
	*ret_is_driver = calls[i].is_driver;
	return calls[i].number;
}

/* "cudaMemcpyAsync_ptsz_v7000", "__cudaLaunchKernel_v13000": what a programmer calls it lies between. */
static void name_call(const char *listed, struct lw_cupti_record *out)
{
	out->name = listed + strspn(listed, "_");
	out->n_name = strcspn(out->name, "_");
}

/* ---- members ---------------------------------------------------------------------------------------- */

static uint32_t u32(const uint8_t *record, size_t offset)
{
	uint32_t value;

	memcpy(&value, record + offset, sizeof(value));
	return value;
}

static uint64_t u64(const uint8_t *record, size_t offset)
{
	uint64_t value;

	memcpy(&value, record + offset, sizeof(value));
	return value;
}

static const char *pointer(const uint8_t *record, size_t offset)
{
	const char *value;

	memcpy(&value, record + offset, sizeof(value));
	return value;
}

/* Times that no clock gives are left to the collector, which knows what time it is. */
static bool read_times(
	const struct lw_cupti_parser *parser, uint64_t start, uint64_t end, struct lw_event *event)
{
	return !__builtin_add_overflow(
		       (int64_t)(start & INT64_MAX), parser->offset_ns, &event->t0_ns) &&
	       !__builtin_add_overflow(
		       (int64_t)(end & INT64_MAX), parser->offset_ns, &event->t1_ns) &&
	       !((start | end) >> 63) && event->t0_ns >= 0;
}

/*
 * Work of a GPU: without both times it was not finished when it was told, or CUPTI had no memory for its
 * times. One that ends before it begins did run: its order is what its flag says.
 */
static enum lw_cupti_verdict read_work_times(const struct lw_cupti_parser *parser,
	const uint8_t *record, size_t start_at, size_t end_at, struct lw_event *event,
	uint32_t *flags)
{
	uint64_t start = u64(record, start_at), end = u64(record, end_at);

	if (!start || !end)
		return LW_CUPTI_IS_UNFINISHED;
	if (!read_times(parser, start, end, event))
		return LW_CUPTI_IS_TORN;
	if (event->t1_ns < event->t0_ns) {
		event->t1_ns = event->t0_ns;
		*flags |= LW_KERNEL_UNORDERED;
	}
	return LW_CUPTI_IS_EVENT;
}

/* Of what a thread did: an end before its start is no time at all. */
static enum lw_cupti_verdict read_host_times(const struct lw_cupti_parser *parser,
	const uint8_t *record, size_t start_at, size_t end_at, struct lw_event *event)
{
	bool is_whole = read_times(parser, u64(record, start_at), u64(record, end_at), event);

	return is_whole && event->t1_ns >= event->t0_ns ? LW_CUPTI_IS_EVENT : LW_CUPTI_IS_TORN;
}

static bool has_u64(size_t n_bytes, size_t offset)
{
	return n_bytes >= offset + sizeof(uint64_t);
}

/* ---- kinds ------------------------------------------------------------------------------------------ */

static enum lw_cupti_verdict parse_kernel(struct lw_cupti_parser *parser, const uint8_t *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	struct lw_ev_kernel *kernel = &out->event.kernel;

	out->event.kind = LW_EV_KERNEL;
	kernel->device = u32(record, LW_CUPTI_KERNEL_DEVICE);
	kernel->context = u32(record, LW_CUPTI_KERNEL_CONTEXT);
	kernel->stream = u32(record, LW_CUPTI_KERNEL_STREAM);
	kernel->correlation = u32(record, LW_CUPTI_KERNEL_CORRELATION);
	out->name = pointer(record, LW_CUPTI_KERNEL_NAME);
	if (n_bytes >= LW_CUPTI_KERNEL_GRAPH + sizeof(uint32_t)) {
		kernel->graph = u32(record, LW_CUPTI_KERNEL_GRAPH);
		if (kernel->graph || u64(record, LW_CUPTI_KERNEL_GRAPH_NODE))
			kernel->flags |= LW_KERNEL_IN_GRAPH;
	}
	return read_work_times(parser, record, LW_CUPTI_KERNEL_START, LW_CUPTI_KERNEL_END,
		&out->event, &kernel->flags);
}

static enum lw_cupti_verdict parse_graph(struct lw_cupti_parser *parser, const uint8_t *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	struct lw_ev_kernel *kernel = &out->event.kernel;

	(void)n_bytes;
	out->event.kind = LW_EV_KERNEL;
	kernel->device = u32(record, LW_CUPTI_GRAPH_DEVICE);
	kernel->context = u32(record, LW_CUPTI_GRAPH_CONTEXT);
	kernel->stream = u32(record, LW_CUPTI_GRAPH_STREAM);
	kernel->correlation = u32(record, LW_CUPTI_GRAPH_CORRELATION);
	kernel->graph = u32(record, LW_CUPTI_GRAPH_GRAPH);
	kernel->flags = LW_KERNEL_GRAPH;
	return read_work_times(parser, record, LW_CUPTI_GRAPH_START, LW_CUPTI_GRAPH_END,
		&out->event, &kernel->flags);
}

static enum lw_cupti_verdict parse_copy(struct lw_cupti_parser *parser, const uint8_t *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	struct lw_ev_copy *copy = &out->event.copy;
	uint8_t how = record[LW_CUPTI_COPY_KIND];

	out->event.kind = LW_EV_COPY;
	out->event.op = how >= LW_COPY_HTOD && how <= LW_COPY_PTOP ? how : LW_COPY_OTHER;
	copy->bytes = u64(record, LW_CUPTI_COPY_BYTES_MOVED);
	copy->device = copy->peer_device = u32(record, LW_CUPTI_COPY_DEVICE);
	copy->context = u32(record, LW_CUPTI_COPY_CONTEXT);
	copy->stream = u32(record, LW_CUPTI_COPY_STREAM);
	copy->correlation = u32(record, LW_CUPTI_COPY_CORRELATION);
	if (has_u64(n_bytes, LW_CUPTI_COPY_GRAPH_NODE) && u64(record, LW_CUPTI_COPY_GRAPH_NODE))
		copy->flags |= LW_KERNEL_IN_GRAPH;
	return read_work_times(
		parser, record, LW_CUPTI_COPY_START, LW_CUPTI_COPY_END, &out->event, &copy->flags);
}

static enum lw_cupti_verdict parse_peer_copy(struct lw_cupti_parser *parser, const uint8_t *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	struct lw_ev_copy *copy = &out->event.copy;
	uint32_t source = u32(record, LW_CUPTI_PEER_SOURCE);

	out->event.kind = LW_EV_COPY;
	out->event.op = LW_COPY_PTOP;
	copy->bytes = u64(record, LW_CUPTI_PEER_BYTES_MOVED);
	copy->device = u32(record, LW_CUPTI_PEER_DEVICE);
	copy->peer_device = source == copy->device ? u32(record, LW_CUPTI_PEER_TARGET) : source;
	copy->context = u32(record, LW_CUPTI_PEER_CONTEXT);
	copy->stream = u32(record, LW_CUPTI_PEER_STREAM);
	copy->correlation = u32(record, LW_CUPTI_PEER_CORRELATION);
	if (has_u64(n_bytes, LW_CUPTI_PEER_GRAPH_NODE) && u64(record, LW_CUPTI_PEER_GRAPH_NODE))
		copy->flags |= LW_KERNEL_IN_GRAPH;
	return read_work_times(
		parser, record, LW_CUPTI_PEER_START, LW_CUPTI_PEER_END, &out->event, &copy->flags);
}

static enum lw_cupti_verdict parse_memset(struct lw_cupti_parser *parser, const uint8_t *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	struct lw_ev_copy *copy = &out->event.copy;

	out->event.kind = LW_EV_COPY;
	out->event.op = LW_COPY_MEMSET;
	copy->bytes = u64(record, LW_CUPTI_MEMSET_BYTES_MOVED);
	copy->device = copy->peer_device = u32(record, LW_CUPTI_MEMSET_DEVICE);
	copy->context = u32(record, LW_CUPTI_MEMSET_CONTEXT);
	copy->stream = u32(record, LW_CUPTI_MEMSET_STREAM);
	copy->correlation = u32(record, LW_CUPTI_MEMSET_CORRELATION);
	if (has_u64(n_bytes, LW_CUPTI_MEMSET_GRAPH_NODE) && u64(record, LW_CUPTI_MEMSET_GRAPH_NODE))
		copy->flags |= LW_KERNEL_IN_GRAPH;
	return read_work_times(parser, record, LW_CUPTI_MEMSET_START, LW_CUPTI_MEMSET_END,
		&out->event, &copy->flags);
}

static enum lw_cupti_verdict parse_sync(struct lw_cupti_parser *parser, const uint8_t *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	struct lw_ev_gpu_sync *sync = &out->event.gpu_sync;
	uint32_t type = u32(record, LW_CUPTI_SYNC_TYPE);

	(void)n_bytes;
	out->event.kind = LW_EV_GPU_SYNC;
	out->event.op = (uint16_t)(type >= LW_GPU_SYNC_EVENT && type <= LW_GPU_SYNC_CONTEXT
					   ? type
					   : LW_GPU_SYNC_OTHER);
	sync->context = u32(record, LW_CUPTI_SYNC_CONTEXT);
	sync->stream =
		u32(record, LW_CUPTI_SYNC_STREAM); /* CUPTI's "no stream" is UINT32_MAX too */
	sync->event = u32(record, LW_CUPTI_SYNC_EVENT);
	if (sync->event == UINT32_MAX)
		sync->event = 0;
	sync->correlation = u32(record, LW_CUPTI_SYNC_CORRELATION);
	return read_host_times(parser, record, LW_CUPTI_SYNC_START, LW_CUPTI_SYNC_END, &out->event);
}

static enum lw_cupti_verdict parse_external(struct lw_cupti_parser *parser, const uint8_t *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	uint32_t correlation = u32(record, LW_CUPTI_EXTERNAL_CORRELATION);
	uint32_t kind = u32(record, LW_CUPTI_EXTERNAL_KIND);
	__typeof__(&parser->purpose[0]) purpose =
		&parser->purpose[correlation % LW_CUPTI_REMEMBERED];

	(void)n_bytes;
	(void)out;
	if (kind != LW_CUPTI_EXTERNAL_CUSTOM0 && kind != LW_CUPTI_EXTERNAL_CUSTOM1)
		return LW_CUPTI_IS_NOTHING; /* somebody else's */
	/* One call may have both: the operation of NCCL says more than the batch that it is part of. */
	if (purpose->correlation == correlation && purpose->made_for == LW_LAUNCH_FOR_NCCL_OP)
		return LW_CUPTI_IS_NOTHING;
	purpose->correlation = correlation;
	purpose->serial = u64(record, LW_CUPTI_EXTERNAL_ID);
	purpose->made_for =
		kind == LW_CUPTI_EXTERNAL_CUSTOM0 ? LW_LAUNCH_FOR_NCCL_OP : LW_LAUNCH_FOR_BATCH;
	return LW_CUPTI_IS_NOTHING;
}

static void take_purpose(struct lw_cupti_parser *parser, struct lw_ev_launch *launch)
{
	__typeof__(&parser->purpose[0]) purpose =
		&parser->purpose[launch->correlation % LW_CUPTI_REMEMBERED];

	if (!purpose->made_for || purpose->correlation != launch->correlation)
		return;
	launch->made_for = purpose->made_for;
	launch->for_serial = purpose->serial;
	purpose->made_for = LW_LAUNCH_FOR_NOTHING;
}

static enum lw_cupti_verdict parse_api(struct lw_cupti_parser *parser, const uint8_t *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	struct lw_ev_launch *launch = &out->event.launch;
	bool is_driver = u32(record, 0) == LW_CUPTI_KIND_DRIVER;
	uint32_t number = u32(record, LW_CUPTI_API_CALL), *launched;
	const struct call *calls = is_driver ? driver_calls : runtime_calls;
	enum lw_cupti_verdict verdict;

	(void)n_bytes;
	if (number >= (is_driver ? N_DRIVER_CALLS : N_RUNTIME_CALLS) || !calls[number].name)
		return LW_CUPTI_IS_NOTHING;
	out->event.kind = LW_EV_LAUNCH;
	out->event.op = calls[number].op;
	name_call(calls[number].name, out);
	launch->correlation = u32(record, LW_CUPTI_API_CORRELATION);
	launch->result = u32(record, LW_CUPTI_API_RESULT);
	if (parser->is_tid_of_kernel)
		launch->tid = u32(record, LW_CUPTI_API_THREAD);
	/* Before the times are judged: what an external record said is of this call, and of no other. */
	take_purpose(parser, launch);
	verdict =
		read_host_times(parser, record, LW_CUPTI_API_START, LW_CUPTI_API_END, &out->event);
	/* A call of the runtime that makes one of the driver's is told twice; the inner one ends first. */
	launched = &parser->launched[launch->correlation % LW_CUPTI_REMEMBERED];
	if (launch->correlation && *launched == launch->correlation)
		return LW_CUPTI_IS_NOTHING;
	*launched = launch->correlation;
	return verdict;
}

static enum lw_cupti_verdict parse_overhead(struct lw_cupti_parser *parser, const uint8_t *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	static const struct {
		uint32_t kind;
		const char *text;
	} overheads[] = {
#define X(name, number, text) {number, text},
		LW_CUPTI_OVERHEADS(X)
#undef X
	};
	uint32_t kind = u32(record, LW_CUPTI_OVERHEAD_KIND);

	(void)n_bytes;
	out->event.kind = LW_EV_GPU_OVERHEAD;
	out->name = overheads[0].text;
	for (size_t i = 0; i < sizeof(overheads) / sizeof(overheads[0]); i++)
		if (overheads[i].kind == kind)
			out->name = overheads[i].text;
	return read_host_times(
		parser, record, LW_CUPTI_OVERHEAD_START, LW_CUPTI_OVERHEAD_END, &out->event);
}

/* Has no time: the caller's is as good as any. */
static enum lw_cupti_verdict parse_device(struct lw_cupti_parser *parser, const uint8_t *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	struct lw_ev_gpu *gpu = &out->event.gpu;

	(void)parser;
	/* Those that CUDA_VISIBLE_DEVICES hides are told of too; before CUDA 11.6 that is not said. */
	if (n_bytes > LW_CUPTI_DEVICE_VISIBLE && !record[LW_CUPTI_DEVICE_VISIBLE])
		return LW_CUPTI_IS_NOTHING;
	out->event.kind = LW_EV_GPU;
	out->name = pointer(record, LW_CUPTI_DEVICE_NAME);
	out->uuid = record + LW_CUPTI_DEVICE_UUID;
	gpu->memory_bytes = u64(record, LW_CUPTI_DEVICE_MEMORY);
	gpu->clock_khz = u32(record, LW_CUPTI_DEVICE_CLOCK);
	gpu->n_multiprocessors = u32(record, LW_CUPTI_DEVICE_MULTIPROCESSORS);
	gpu->major = (uint16_t)u32(record, LW_CUPTI_DEVICE_MAJOR);
	gpu->minor = (uint16_t)u32(record, LW_CUPTI_DEVICE_MINOR);
	gpu->device = u32(record, LW_CUPTI_DEVICE_ID);
	return LW_CUPTI_IS_EVENT;
}

static const struct {
	enum lw_cupti_verdict (*parse)(
		struct lw_cupti_parser *, const uint8_t *, size_t, struct lw_cupti_record *);
	uint16_t least_bytes;
} kinds[] = {
	[LW_CUPTI_KIND_CONCURRENT_KERNEL] = {parse_kernel, LW_CUPTI_KERNEL_BYTES},
	[LW_CUPTI_KIND_KERNEL] = {parse_kernel, LW_CUPTI_KERNEL_BYTES},
	[LW_CUPTI_KIND_GRAPH_TRACE] = {parse_graph, LW_CUPTI_GRAPH_BYTES},
	[LW_CUPTI_KIND_MEMCPY] = {parse_copy, LW_CUPTI_COPY_BYTES},
	[LW_CUPTI_KIND_MEMCPY2] = {parse_peer_copy, LW_CUPTI_PEER_BYTES},
	[LW_CUPTI_KIND_MEMSET] = {parse_memset, LW_CUPTI_MEMSET_BYTES},
	[LW_CUPTI_KIND_SYNCHRONIZATION] = {parse_sync, LW_CUPTI_SYNC_BYTES},
	[LW_CUPTI_KIND_EXTERNAL_CORRELATION] = {parse_external, LW_CUPTI_EXTERNAL_BYTES},
	[LW_CUPTI_KIND_RUNTIME] = {parse_api, LW_CUPTI_API_BYTES},
	[LW_CUPTI_KIND_DRIVER] = {parse_api, LW_CUPTI_API_BYTES},
	[LW_CUPTI_KIND_OVERHEAD] = {parse_overhead, LW_CUPTI_OVERHEAD_BYTES},
	[LW_CUPTI_KIND_DEVICE] = {parse_device, LW_CUPTI_DEVICE_BYTES},
};

enum lw_cupti_verdict lw_cupti_parse(struct lw_cupti_parser *parser, const void *record,
	size_t n_bytes, struct lw_cupti_record *out)
{
	uint32_t kind;

	if (n_bytes < sizeof(kind))
		return LW_CUPTI_IS_TORN;
	memcpy(&kind, record, sizeof(kind));
	if (kind >= sizeof(kinds) / sizeof(kinds[0]) || !kinds[kind].parse)
		return LW_CUPTI_IS_UNKNOWN;
	if (n_bytes < kinds[kind].least_bytes)
		return LW_CUPTI_IS_TORN;
	memset(out, 0, sizeof(*out));
	return kinds[kind].parse(parser, record, n_bytes, out);
}
