/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_nccl_plugin.c - the double of libnccl loads a profiler plugin and calls it, as NCCL's src/plugin does.
 *
 * NCCL_PROFILER_PLUGIN: "none", a path or library, STATIC_PLUGIN (this whole process), or NAME of
 * libnccl-profiler-NAME.so. Of the plugin's tables the newest that this NCCL knows is taken.
 */
#include "tests/lib/fake_nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tracer/nccl_abi.h"

struct table {
	const char *name;
	void (*init)(void);
	int (*start)(void *context, void **handle, void *event);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *arguments);
	int (*finalize)(void *context);
};
typedef int (*init_old)(void **context, int *mask);
typedef int (*init_v4)(void **context, int *mask, const char *name, uint64_t hash, int n_nodes,
	int n_ranks, int rank, void (*log)(void));
typedef int (*init_v5)(void **context, uint64_t hash, int *mask, const char *name, int n_nodes,
	int n_ranks, int rank, void (*log)(void));

union any_event {
	struct lw_nccl_event_v1 v1;
	struct lw_nccl_event_v2 v2;
	struct lw_nccl_event_v3 v3;
	struct lw_nccl_event_v4 v4;
	struct lw_nccl_event_v6 v6;
};

static const struct table *table;
static unsigned version;
static int mask; /* that the plugin sets, and may set again */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const functions[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
	"AllReduce", "SendRecv", "Send", "Recv"};
static const char *const types[] = {"ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64",
	"ncclUint64", "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};

/* The first version of NCCL that speaks version i + 1 of the interface. */
static const int first_nccl[] = {22304, 22403, 22602, 22703, 22803, 22902};

static void *open_library(void)
{
	const char *name = getenv("NCCL_PROFILER_PLUGIN");
	char full[512];
	void *library;

	if (!name || !*name)
		return dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
	if (!strcasecmp(name, "none"))
		return NULL;
	if (!strncasecmp(name, "STATIC_PLUGIN", strlen(name)))
		return dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (library || strchr(name, '/'))
		return library;
	snprintf(full, sizeof(full), "libnccl-profiler-%s.so", name);
	return dlopen(full, RTLD_NOW | RTLD_LOCAL);
}

static void load(void)
{
	void *library = open_library();
	char symbol[32];

	for (unsigned i = LW_NCCL_PROFILER_VERSIONS; library && !table && i-- > 0;) {
		if (fake_version < first_nccl[i])
			continue;
		snprintf(symbol, sizeof(symbol), "ncclProfiler_v%u", i + 1);
		table = dlsym(library, symbol);
		version = table ? i + 1 : 0;
	}
}

int fake_plugin_version(void)
{
	return (int)version;
}

static void log_nothing(void)
{
}

void fake_plugin_init(struct fake_comm *comm)
{
	int result = 0;

	pthread_once(&once, load);
	if (!table)
		return;
	if (version < 4)
		result = ((init_old)table->init)(&comm->profiler, &mask);
	else if (version == 4)
		result = ((init_v4)table->init)(&comm->profiler, &mask, NULL, comm->hash, 1,
			comm->size, comm->rank, log_nothing);
	else
		result = ((init_v5)table->init)(&comm->profiler, comm->hash, &mask, NULL, 1,
			comm->size, comm->rank, log_nothing);
	if (result)
		table = NULL;
}

void fake_plugin_finalize(struct fake_comm *comm)
{
	if (table && comm->profiler)
		table->finalize(comm->profiler);
	comm->profiler = NULL;
}

/* Is one of @kinds asked for? */
static bool is_on(int kinds)
{
	return table && __atomic_load_n(&mask, __ATOMIC_RELAXED) & kinds;
}

enum {
	BELOW = LW_NCCL_PROFILE_PROXY_OP | LW_NCCL_PROFILE_PROXY_STEP | LW_NCCL_PROFILE_KERNEL_CH |
		LW_NCCL_PROFILE_NET_PLUGIN,
	TASKS = LW_NCCL_PROFILE_COLL | LW_NCCL_PROFILE_P2P | BELOW,
	APIS = LW_NCCL_PROFILE_GROUP_API | LW_NCCL_PROFILE_COLL_API | LW_NCCL_PROFILE_P2P_API |
	       LW_NCCL_PROFILE_KERNEL_LAUNCH
};

static void begin(union any_event *event, int kind, void *parent, int rank)
{
	memset(event, 0, sizeof(*event));
	if (version < 5) { /* what follows a type of one byte is not cleared by every NCCL */
		memset(event, 0xee, 8);
		event->v4.type = (uint8_t)kind;
	} else {
		event->v6.type = (uint64_t)kind;
	}
	event->v6.parent = parent;
	event->v6.rank = rank;
}

static void start(struct fake_comm *comm, union any_event *event, void **handle)
{
	table->start(comm->profiler, handle, event);
}

void fake_plugin_stop(void **handle)
{
	if (table && *handle)
		table->stop(*handle);
	*handle = NULL;
}

void fake_plugin_group_api_start(struct fake_comm *comm, int depth, void **handle)
{
	union any_event event;

	if (version < 5 || !is_on(TASKS | APIS | LW_NCCL_PROFILE_GROUP))
		return;
	begin(&event, LW_NCCL_PROFILE_GROUP_API, NULL, comm->rank);
	event.v6.group_api.depth = depth;
	start(comm, &event, handle);
}

static bool is_p2p(const struct fake_task *task)
{
	return task->func == F_SEND || task->func == F_RECV;
}

void fake_plugin_api_start(struct fake_task *task)
{
	union any_event event;

	if (version < 5 || !is_on(TASKS | APIS))
		return;
	begin(&event, is_p2p(task) ? LW_NCCL_PROFILE_P2P_API : LW_NCCL_PROFILE_COLL_API,
		task->group_api_event, 0);
	if (is_p2p(task)) {
		event.v6.p2p_api.func = functions[task->func];
		event.v6.p2p_api.count = task->count;
		event.v6.p2p_api.datatype = types[task->type];
	} else {
		event.v6.coll_api.func = functions[task->func];
		event.v6.coll_api.count = task->count;
		event.v6.coll_api.datatype = types[task->type];
		event.v6.coll_api.root = task->root;
	}
	start(task->comm, &event, &task->api_event);
}

void fake_plugin_launch_start(struct fake_task *task, void **handle)
{
	union any_event event;

	if (version < 5 || !is_on(LW_NCCL_PROFILE_KERNEL_LAUNCH))
		return;
	begin(&event, LW_NCCL_PROFILE_KERNEL_LAUNCH, task->group_api_event, 0);
	start(task->comm, &event, handle);
}

void fake_plugin_group_start(struct fake_comm *comm, void **handle)
{
	union any_event event;

	if (!is_on(TASKS | LW_NCCL_PROFILE_GROUP))
		return;
	begin(&event, LW_NCCL_PROFILE_GROUP, NULL, 0);
	start(comm, &event, handle);
}

/* ---- tasks: one function a version, as NCCL has ------------------------------------------------------------------- */

/* NCCL hands these two over as bytes. */
static bool is_bytes(const struct fake_task *task)
{
	return task->func == F_ALLGATHER || task->func == F_BROADCAST;
}

static size_t count_of(const struct fake_task *task)
{
	return is_bytes(task) ? task->count * fake_type_bytes(task->type) : task->count;
}

static int type_of(const struct fake_task *task)
{
	return is_bytes(task) ? 0 : task->type;
}

#define COLL_TEXTS(e, channels)                                                                    \
	do {                                                                                       \
		(e).coll.seq_number = task->comm->seq_number[task->func];                          \
		(e).coll.func = functions[task->func];                                             \
		(e).coll.send = task->send;                                                        \
		(e).coll.receive = task->receive;                                                  \
		(e).coll.count = count_of(task);                                                   \
		(e).coll.root = task->root;                                                        \
		(e).coll.datatype = types[type_of(task)];                                          \
		(e).coll.channels = (uint8_t)fake_n_channels;                                      \
		(e).coll.algo = "RING";                                                            \
		(e).coll.proto = "SIMPLE";                                                         \
	} while (0)

static void fill_coll(union any_event *event, const struct fake_task *task, void *group)
{
	switch (version) {
	case 1:
		event->v1.coll.comm_hash = task->comm->hash;
		event->v1.coll.seq_number = task->comm->seq_number[task->func];
		event->v1.coll.func = (uint8_t)task->func;
		event->v1.coll.count = count_of(task);
		event->v1.coll.root = task->root;
		event->v1.coll.datatype = (uint8_t)type_of(task);
		event->v1.coll.n_max_channels = (uint8_t)fake_n_channels;
		event->v1.coll.algo = 1;
		event->v1.coll.proto = 2;
		break;
	case 2:
		event->v2.coll.comm_hash = task->comm->hash;
		COLL_TEXTS(event->v2, n_max_channels);
		break;
	case 3:
		event->v3.coll.comm_hash = task->comm->hash;
		COLL_TEXTS(event->v3, n_max_channels);
		break;
	case 4:
		COLL_TEXTS(event->v4, n_channels);
		break;
	default:
		COLL_TEXTS(event->v6, n_channels);
		event->v6.coll.parent_group = group;
	}
}

#define P2P_TEXTS(e)                                                                               \
	do {                                                                                       \
		(e).p2p.func = functions[task->func];                                              \
		(e).p2p.datatype = types[task->type];                                              \
		(e).p2p.count = task->count;                                                       \
		(e).p2p.peer = task->root;                                                         \
	} while (0)

static void fill_p2p(union any_event *event, const struct fake_task *task, void *group)
{
	switch (version) {
	case 1:
		event->v1.p2p.comm_hash = task->comm->hash;
		event->v1.p2p.func = (uint8_t)task->func;
		event->v1.p2p.datatype = (uint8_t)task->type;
		event->v1.p2p.count = task->count;
		event->v1.p2p.peer = task->root;
		break;
	case 2:
	case 3:
		event->v2.p2p.comm_hash = task->comm->hash;
		P2P_TEXTS(event->v2);
		break;
	case 4:
		P2P_TEXTS(event->v4);
		event->v4.p2p.n_channels = 1;
		break;
	default:
		P2P_TEXTS(event->v6);
		event->v6.p2p.n_channels = 1;
		event->v6.p2p.parent_group = group;
	}
}

void fake_plugin_task_start(struct fake_task *task, void *group)
{
	union any_event event;

	if (!is_on(BELOW | (is_p2p(task) ? LW_NCCL_PROFILE_P2P : LW_NCCL_PROFILE_COLL)))
		return;
	if (version < 5 && !group)
		return;
	begin(&event, is_p2p(task) ? LW_NCCL_PROFILE_P2P : LW_NCCL_PROFILE_COLL,
		version < 5 ? group : task->api_event, task->comm->rank);
	if (is_p2p(task))
		fill_p2p(&event, task, group);
	else
		fill_coll(&event, task, group);
	start(task->comm, &event, &task->event);
	task->comm->seq_number[task->func]++;
}

/* ---- proxies --------------------------------------------------------------------------------------------------------- */

void fake_plugin_proxy_start(
	struct fake_task *task, int channel, bool is_send, int peer, int n_steps)
{
	union any_event event;

	if (fake_is_local || !task->event || !is_on(BELOW & ~LW_NCCL_PROFILE_KERNEL_CH))
		return;
	begin(&event, LW_NCCL_PROFILE_PROXY_OP, task->event, task->comm->rank);
	event.v1.proxy_op.pid = getpid();
	event.v1.proxy_op.channel = (uint8_t)channel;
	event.v1.proxy_op.peer = peer;
	event.v1.proxy_op.n_steps = n_steps;
	event.v1.proxy_op.chunk_size = 1 << 17;
	event.v1.proxy_op.is_send = is_send;
	start(task->comm, &event, &task->proxy_event[channel][!is_send]);
}

/* States 0 to 7 are told up to v3, with bytes so far; 19 from v4 on. */
void fake_plugin_proxy_state(
	struct fake_task *task, int channel, bool is_send, int state, size_t bytes)
{
	union lw_nccl_state_arguments arguments = {0};
	void *handle = task->proxy_event[channel][!is_send];

	task->moved_bytes[channel][!is_send] += bytes;
	if (!table || !handle || (version < 4) != (state < 8))
		return;
	arguments.proxy.transferred_bytes = version < 4 ? task->moved_bytes[channel][!is_send] : 0;
	table->state(handle, state, &arguments);
}

void fake_plugin_step_start(
	struct fake_task *task, int channel, bool is_send, int step, void **handle)
{
	void *proxy = task->proxy_event[channel][!is_send];
	union any_event event;

	if (!proxy || !is_on(LW_NCCL_PROFILE_PROXY_STEP | LW_NCCL_PROFILE_NET_PLUGIN))
		return;
	begin(&event, LW_NCCL_PROFILE_PROXY_STEP, proxy, task->comm->rank);
	event.v1.proxy_step.step = step;
	start(task->comm, &event, handle);
}

void fake_plugin_step_state(struct fake_task *task, void *handle, int state, size_t bytes)
{
	union lw_nccl_state_arguments arguments = {0};

	(void)task;
	if (!table || !handle || (version < 4 && state == LW_NCCL_STATE_STEP_SEND_PEER_WAIT))
		return;
	arguments.proxy.transferred_bytes = bytes;
	table->state(handle, state, version < 4 ? NULL : &arguments);
}

void fake_plugin_net_start(
	struct fake_task *task, void *step, int fd, bool is_send, size_t bytes, void **handle)
{
	struct lw_nccl_net_socket data = {
		.type = 1, .sock = {.fd = fd, .op = !is_send, .bytes = bytes}};
	union any_event event;

	if (!fake_is_net || !step || version < 3 || !is_on(LW_NCCL_PROFILE_NET_PLUGIN))
		return;
	begin(&event, LW_NCCL_PROFILE_NET_PLUGIN, step, task->comm->rank);
	event.v3.net_plugin.id = LW_NCCL_NET_ID_SOCKET;
	event.v3.net_plugin.data = &data;
	start(task->comm, &event, handle);
}
