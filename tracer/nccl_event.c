/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_event.c - an event of any version of NCCL's profiler plugin interface in our one form.
 *
 * Where a field lies is a table with a row a version (nccl_abi.h); what it says is one function.
 */
#include <string.h>

#include "tracer/hook_nccl_plugin.h"

/* ---- names and numbers of NCCL's ---------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint8_t dtype, n_bytes;
} dtypes[] = {
	{"ncclInt8", LW_DTYPE_INT8, 1},
	{"ncclUint8", LW_DTYPE_UINT8, 1},
	{"ncclInt32", LW_DTYPE_INT32, 4},
	{"ncclUint32", LW_DTYPE_UINT32, 4},
	{"ncclInt64", LW_DTYPE_INT64, 8},
	{"ncclUint64", LW_DTYPE_UINT64, 8},
	{"ncclFloat16", LW_DTYPE_FLOAT16, 2},
	{"ncclFloat32", LW_DTYPE_FLOAT32, 4},
	{"ncclFloat64", LW_DTYPE_FLOAT64, 8},
	{"ncclBfloat16", LW_DTYPE_BFLOAT16, 2},
	{"ncclFloat8e4m3", LW_DTYPE_FLOAT8E4M3, 1},
	{"ncclFloat8e5m2", LW_DTYPE_FLOAT8E5M2, 1},
};
enum { N_DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

/* By ncclFunc_t, which v1 gives; 5 is "SendRecv", which no task is. */
static const struct {
	const char *name;
	uint16_t op;
} functions[] = {
	{"Broadcast", LW_NCCL_BROADCAST},
	{"Reduce", LW_NCCL_REDUCE},
	{"AllGather", LW_NCCL_ALLGATHER},
	{"ReduceScatter", LW_NCCL_REDUCESCATTER},
	{"AllReduce", LW_NCCL_ALLREDUCE},
	{"SendRecv", LW_NCCL_OTHER},
	{"Send", LW_NCCL_SEND},
	{"Recv", LW_NCCL_RECV},
	{"AlltoAll", LW_NCCL_ALLTOALL},
	{"Scatter", LW_NCCL_SCATTER},
	{"Gather", LW_NCCL_GATHER},
};
enum { N_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

/* By NCCL's number + 1, as our own are. */
static const char *const algorithms[] = {
#define X(name, number, text) [number] = (text),
	LW_NCCL_ALGORITHMS(X)
#undef X
};
static const char *const protocols[] = {
#define X(name, number, text) [number] = (text),
	LW_NCCL_PROTOCOLS(X)
#undef X
};
enum { N_ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };
enum { N_PROTOCOLS = sizeof(protocols) / sizeof(protocols[0]) };

uint8_t lw_nccl_dtype(int nccl_type, uint8_t *ret_bytes)
{
	if (nccl_type < 0 || nccl_type >= N_DTYPES) {
		*ret_bytes = 0;
		return LW_DTYPE_UNKNOWN;
	}
	*ret_bytes = dtypes[nccl_type].n_bytes;
	return dtypes[nccl_type].dtype;
}

static int number_of_dtype(const char *name)
{
	for (int i = 0; name && i < N_DTYPES; i++)
		if (!strcmp(name, dtypes[i].name))
			return i;
	return -1;
}

static int number_of_function(const char *name)
{
	for (int i = 0; name && i < N_FUNCTIONS; i++)
		if (!strcmp(name, functions[i].name))
			return i;
	return -1;
}

static uint8_t number_among(const char *name, const char *const *names, uint8_t n)
{
	for (uint8_t i = 1; name && i < n; i++)
		if (!strcmp(name, names[i]))
			return i;
	return 0;
}

/* ---- where they lie ---------------------------------------------------------------------------------------- */

enum { NONE = 0 }; /* no field is at the start, where the type is */

/* Offsets. */
struct layout {
	bool has_numbers, has_long_type; /* kinds as one byte each, not as texts; type is 8 bytes */
	struct {
		uint8_t hash, func, count, root, dtype, n_channels, algo, proto, group;
	} coll, p2p; /* p2p: root is the peer */
};

#define COLL_OLD(version)                                                                          \
	{                                                                                          \
		offsetof(struct lw_nccl_event_v##version, coll.comm_hash),                         \
			offsetof(struct lw_nccl_event_v##version, coll.func),                      \
			offsetof(struct lw_nccl_event_v##version, coll.count),                     \
			offsetof(struct lw_nccl_event_v##version, coll.root),                      \
			offsetof(struct lw_nccl_event_v##version, coll.datatype),                  \
			offsetof(struct lw_nccl_event_v##version, coll.n_max_channels),            \
			offsetof(struct lw_nccl_event_v##version, coll.algo),                      \
			offsetof(struct lw_nccl_event_v##version, coll.proto), NONE                \
	}
#define P2P_OLD(version)                                                                           \
	{                                                                                          \
		offsetof(struct lw_nccl_event_v##version, p2p.comm_hash),                          \
			offsetof(struct lw_nccl_event_v##version, p2p.func),                       \
			offsetof(struct lw_nccl_event_v##version, p2p.count),                      \
			offsetof(struct lw_nccl_event_v##version, p2p.peer),                       \
			offsetof(struct lw_nccl_event_v##version, p2p.datatype), NONE, NONE, NONE, \
			NONE                                                                       \
	}
#define COLL_NEW(version, group)                                                                   \
	{                                                                                          \
		NONE, offsetof(struct lw_nccl_event_v##version, coll.func),                        \
			offsetof(struct lw_nccl_event_v##version, coll.count),                     \
			offsetof(struct lw_nccl_event_v##version, coll.root),                      \
			offsetof(struct lw_nccl_event_v##version, coll.datatype),                  \
			offsetof(struct lw_nccl_event_v##version, coll.n_channels),                \
			offsetof(struct lw_nccl_event_v##version, coll.algo),                      \
			offsetof(struct lw_nccl_event_v##version, coll.proto), group               \
	}
#define P2P_NEW(version, group)                                                                    \
	{                                                                                          \
		NONE, offsetof(struct lw_nccl_event_v##version, p2p.func),                         \
			offsetof(struct lw_nccl_event_v##version, p2p.count),                      \
			offsetof(struct lw_nccl_event_v##version, p2p.peer),                       \
			offsetof(struct lw_nccl_event_v##version, p2p.datatype),                   \
			offsetof(struct lw_nccl_event_v##version, p2p.n_channels), NONE, NONE,     \
			group                                                                      \
	}
#define LAYOUT_6                                                                                   \
	{                                                                                          \
		false, true, COLL_NEW(6, offsetof(struct lw_nccl_event_v6, coll.parent_group)),    \
			P2P_NEW(6, offsetof(struct lw_nccl_event_v6, p2p.parent_group))            \
	}

static const struct layout layouts[LW_NCCL_PROFILER_VERSIONS + 1] = {
	[1] = {true, false, COLL_OLD(1), P2P_OLD(1)},
	[2] = {false, false, COLL_OLD(2), P2P_OLD(2)},
	[3] = {false, false, COLL_OLD(3), P2P_OLD(3)},
	[4] = {false, false, COLL_NEW(4, NONE), P2P_NEW(4, NONE)},
	[5] = LAYOUT_6,
	[6] = LAYOUT_6,
};

static uint64_t word_at(const void *at, size_t offset)
{
	uint64_t word;

	memcpy(&word, (const char *)at + offset, sizeof(word));
	return word;
}

static int32_t int_at(const void *at, size_t offset)
{
	int32_t value;

	memcpy(&value, (const char *)at + offset, sizeof(value));
	return value;
}

static uint8_t byte_at(const void *at, size_t offset)
{
	return ((const uint8_t *)at)[offset];
}

static const char *text_at(const void *at, size_t offset)
{
	return (const char *)(uintptr_t)word_at(at, offset); /* NCCL's own, or NULL */
}

/* ---- what they say -------------------------------------------------------------------------------------------- */

static void set_kind_and_type(struct lw_nccl_event *event, int function, int dtype)
{
	uint8_t n_bytes;

	event->op =
		function >= 0 && function < N_FUNCTIONS ? functions[function].op : LW_NCCL_OTHER;
	event->dtype = lw_nccl_dtype(dtype, &n_bytes);
	event->bytes = event->count * n_bytes;
}

static void read_task(const struct layout *layout, const void *at, struct lw_nccl_event *event)
{
	__typeof__(layout->coll) of =
		event->kind == LW_NCCL_PROFILE_COLL ? layout->coll : layout->p2p;
	int function, dtype;

	event->comm_hash = of.hash ? word_at(at, of.hash) : 0;
	event->count = word_at(at, of.count);
	event->root = int_at(at, of.root);
	event->n_channels = of.n_channels ? byte_at(at, of.n_channels) : 0;
	event->group = of.group ? word_at(at, of.group) : event->parent;
	if (layout->has_numbers) {
		function = byte_at(at, of.func);
		dtype = byte_at(at, of.dtype);
		if (of.algo && byte_at(at, of.algo) + 1 < N_ALGORITHMS)
			event->algorithm = byte_at(at, of.algo) + 1;
		if (of.proto && byte_at(at, of.proto) + 1 < N_PROTOCOLS)
			event->protocol = byte_at(at, of.proto) + 1;
	} else {
		function = number_of_function(text_at(at, of.func));
		dtype = number_of_dtype(text_at(at, of.dtype));
		if (of.algo)
			event->algorithm =
				number_among(text_at(at, of.algo), algorithms, N_ALGORITHMS);
		if (of.proto)
			event->protocol =
				number_among(text_at(at, of.proto), protocols, N_PROTOCOLS);
	}
	set_kind_and_type(event, function, dtype);
}

static void read_api(const struct lw_nccl_event_v6 *at, struct lw_nccl_event *event)
{
	switch (event->kind) {
	case LW_NCCL_PROFILE_GROUP_API:
		event->is_captured = at->group_api.is_captured != 0;
		event->depth = at->group_api.depth;
		break;
	case LW_NCCL_PROFILE_COLL_API:
		event->is_captured = at->coll_api.is_captured != 0;
		event->count = at->coll_api.count;
		event->root = at->coll_api.root;
		set_kind_and_type(event, number_of_function(at->coll_api.func),
			number_of_dtype(at->coll_api.datatype));
		break;
	case LW_NCCL_PROFILE_P2P_API: /* does not say which peer */
		event->is_captured = at->p2p_api.is_captured != 0;
		event->count = at->p2p_api.count;
		set_kind_and_type(event, number_of_function(at->p2p_api.func),
			number_of_dtype(at->p2p_api.datatype));
		break;
	case LW_NCCL_PROFILE_CE_COLL:
		event->count = at->ce_coll.count;
		event->root = at->ce_coll.root;
		set_kind_and_type(event, number_of_function(at->ce_coll.func),
			number_of_dtype(at->ce_coll.datatype));
		break;
	}
}

/* Of all versions alike, v6's layout serves. */
static void read_proxy(const struct lw_nccl_event_v6 *at, struct lw_nccl_event *event)
{
	switch (event->kind) {
	case LW_NCCL_PROFILE_PROXY_OP:
		event->pid = at->proxy_op.pid;
		event->channel = at->proxy_op.channel;
		event->root = at->proxy_op.peer;
		event->n_steps = at->proxy_op.n_steps;
		event->is_send = at->proxy_op.is_send != 0;
		break;
	case LW_NCCL_PROFILE_PROXY_STEP:
		event->step = at->proxy_step.step;
		break;
	case LW_NCCL_PROFILE_KERNEL_CH:
		event->channel = at->kernel_ch.channel;
		break;
	case LW_NCCL_PROFILE_NET_PLUGIN:
		event->net_id = at->net_plugin.id;
		event->net_data = at->net_plugin.data;
		break;
	}
}

void lw_nccl_event_read(unsigned version, const void *at, struct lw_nccl_event *event)
{
	const struct layout *layout = &layouts[version];
	uint64_t kind = layout->has_long_type ? word_at(at, 0) : byte_at(at, 0);

	memset(event, 0, sizeof(*event));
	event->kind = kind <= UINT32_MAX ? (uint32_t)kind : 0;
	event->parent = word_at(at, offsetof(struct lw_nccl_event_v6, parent));
	event->rank = int_at(at, offsetof(struct lw_nccl_event_v6, rank));
	event->root = -1;
	if (event->kind == LW_NCCL_PROFILE_COLL || event->kind == LW_NCCL_PROFILE_P2P)
		read_task(layout, at, event);
	else if (version >= 5 && event->kind >= LW_NCCL_PROFILE_GROUP_API)
		read_api(at, event);
	else
		read_proxy(at, event);
}
