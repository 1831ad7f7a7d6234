/* SPDX-License-Identifier: Apache-2.0 */
/* fake_nccl.c - the public API of the double of libnccl, ncclX and pncclX as NCCL has them; see fake_nccl.h. */
#include "tests/lib/fake_nccl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/nccl.h" /* lw_nccl_hash_*: how NCCL names communicators */

#define EXPORT __attribute__((visibility("default")))

/* pncclX is the function, ncclX a weak other name of it. */
#define API(name, ...)                                                                             \
	EXPORT int p##name(__VA_ARGS__);                                                           \
	EXPORT int name(__VA_ARGS__) __attribute__((weak, alias("p" #name)));                      \
	EXPORT int p##name(__VA_ARGS__)

int fake_version = 22809, fake_n_channels = 2, fake_gpu_us;
int fake_late_rank = -1, fake_late_us, fake_slow_from = -1, fake_slow_to = -1, fake_slow_us;
bool fake_is_net, fake_is_local, fake_has_credits;

enum { QUEUE_MAX = 512 };

static _Thread_local int depth; /* of groups */
static _Thread_local struct fake_task *group_first, **group_last;
static _Thread_local void *group_api_event;

static int number_of(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text && *text ? (int)strtol(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void configure(void)
{
	fake_version = number_of("FAKE_NCCL_VERSION", fake_version);
	fake_n_channels = number_of("FAKE_NCCL_CHANNELS", fake_n_channels);
	if (fake_n_channels < 1 || fake_n_channels > FAKE_CHANNELS_MAX)
		fake_n_channels = 2;
	fake_gpu_us = number_of("FAKE_NCCL_GPU_US", 0);
	fake_is_net = number_of("FAKE_NCCL_NET", 0) != 0;
	fake_is_local = number_of("FAKE_NCCL_LOCAL", 0) != 0;
	fake_has_credits = number_of("FAKE_NCCL_CREDITS", 0) != 0;
	if (getenv("FAKE_NCCL_LATE"))
		sscanf(getenv("FAKE_NCCL_LATE"), "%d:%d", &fake_late_rank, &fake_late_us);
	if (getenv("FAKE_NCCL_SLOW"))
		sscanf(getenv("FAKE_NCCL_SLOW"), "%d:%d:%d", &fake_slow_from, &fake_slow_to,
			&fake_slow_us);
}

size_t fake_type_bytes(int type)
{
	static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return type >= 0 && (size_t)type < sizeof(bytes) ? bytes[type] : 0;
}

/* ---- the proxy thread ---------------------------------------------------------------------------------------- */

static struct fake_task *take(struct fake_comm *comm)
{
	struct fake_task *task = comm->first;

	comm->first = task->next;
	if (!comm->first)
		comm->last = &comm->first;
	return task;
}

/* A send and the receive behind it run at once, as NCCL's do: two ranks may send to each other. */
static void run_next(struct fake_comm *comm)
{
	struct fake_task *task = take(comm), *second = NULL;
	int n = 1;

	if (task->func == F_SEND && comm->first && comm->first->func == F_RECV) {
		second = take(comm);
		n = 2;
	}
	pthread_mutex_unlock(&comm->lock);
	if (!__atomic_load_n(&comm->is_aborted, __ATOMIC_RELAXED)) {
		if (task->func == F_SEND || task->func == F_RECV)
			fake_run_p2p(task->func == F_SEND ? task : NULL,
				task->func == F_RECV ? task : second);
		else
			fake_run(task);
	}
	free(task);
	free(second);
	pthread_mutex_lock(&comm->lock);
	comm->n_queued -= n;
	pthread_cond_broadcast(&comm->changed);
}

static void *proxy(void *argument)
{
	struct fake_comm *comm = argument;

	pthread_mutex_lock(&comm->lock);
	for (;;) {
		if (comm->first)
			run_next(comm);
		else if (comm->is_ending)
			break;
		else
			pthread_cond_wait(&comm->changed, &comm->lock);
	}
	pthread_mutex_unlock(&comm->lock);
	return NULL;
}

static void wait_idle(struct fake_comm *comm)
{
	pthread_mutex_lock(&comm->lock);
	while (comm->n_queued)
		pthread_cond_wait(&comm->changed, &comm->lock);
	pthread_mutex_unlock(&comm->lock);
}

/* What a stream would be waited for with. */
EXPORT int fake_nccl_synchronize(struct fake_comm *comm);
EXPORT int fake_nccl_synchronize(struct fake_comm *comm)
{
	wait_idle(comm);
	return FAKE_SUCCESS;
}

/* Version of the plugin interface in use, 0 = none. */
EXPORT int fake_nccl_plugin(void);
EXPORT int fake_nccl_plugin(void)
{
	return fake_plugin_version();
}

/* ---- groups and operations ------------------------------------------------------------------------------------ */

/* Kernel launch, then the task events around what makes work for the proxy, as NCCL 2.23 and later. */
static void launch(struct fake_task *tasks)
{
	void *launch_event = NULL, *plan = NULL;

	if (!tasks)
		return;
	fake_plugin_launch_start(tasks, &launch_event);
	fake_plugin_stop(&launch_event);
	fake_plugin_group_start(tasks->comm, &plan);
	for (struct fake_task *task = tasks; task; task = task->next)
		fake_plugin_task_start(task, plan);
	for (struct fake_task *task = tasks, *next; task; task = next) {
		struct fake_comm *comm = task->comm;
		void *event = task->event;

		next = task->next;
		task->next = NULL;
		pthread_mutex_lock(&comm->lock);
		while (comm->n_queued >=
			QUEUE_MAX) /* as NCCL's own queues, and CUDA's, are bounded */
			pthread_cond_wait(&comm->changed, &comm->lock);
		*comm->last = task; /* the proxy thread may free it from here on */
		comm->last = &task->next;
		comm->n_queued++;
		pthread_cond_broadcast(&comm->changed);
		pthread_mutex_unlock(&comm->lock);
		fake_plugin_stop(&event);
	}
	fake_plugin_stop(&plan);
}

API(ncclGroupStart, void)
{
	depth++;
	return FAKE_SUCCESS;
}

API(ncclGroupEnd, void)
{
	struct fake_task *tasks = group_first;

	if (depth < 1)
		return FAKE_INVALID_USAGE;
	if (--depth)
		return FAKE_SUCCESS;
	group_first = NULL;
	group_last = NULL;
	launch(tasks);
	fake_plugin_stop(&group_api_event);
	return FAKE_SUCCESS;
}

static int enqueue(struct fake_task wanted)
{
	struct fake_task *task;

	if (!wanted.comm || !fake_type_bytes(wanted.type) || wanted.root < 0 ||
		wanted.root >= wanted.comm->size)
		return FAKE_INVALID_ARGUMENT;
	pncclGroupStart(); /* as every call of NCCL's is a group of its own */
	if (!group_last)
		group_last = &group_first;
	if (!group_api_event)
		fake_plugin_group_api_start(wanted.comm, depth, &group_api_event);
	if (wanted.count && wanted.comm->size > 1) {
		task = malloc(sizeof(*task));
		*task = wanted;
		task->group_api_event = group_api_event;
		fake_plugin_api_start(task);
		*group_last = task;
		group_last = &task->next;
		if (task->api_event) { /* its handle is needed after its stop */
			void *handle = task->api_event;

			fake_plugin_stop(&handle);
		}
	} else if (wanted.count) {
		fake_run(&wanted);
	}
	return pncclGroupEnd();
}

API(ncclAllReduce, const void *send, void *receive, size_t count, int type, int op,
	struct fake_comm *comm, void *stream)
{
	(void)op, (void)stream;
	return enqueue((struct fake_task){.comm = comm,
		.func = F_ALLREDUCE,
		.send = send,
		.receive = receive,
		.count = count,
		.type = type});
}

API(ncclAllGather, const void *send, void *receive, size_t count, int type, struct fake_comm *comm,
	void *stream)
{
	(void)stream;
	return enqueue((struct fake_task){.comm = comm,
		.func = F_ALLGATHER,
		.send = send,
		.receive = receive,
		.count = count,
		.type = type});
}

API(ncclReduceScatter, const void *send, void *receive, size_t count, int type, int op,
	struct fake_comm *comm, void *stream)
{
	(void)op, (void)stream;
	return enqueue((struct fake_task){.comm = comm,
		.func = F_REDUCESCATTER,
		.send = send,
		.receive = receive,
		.count = count,
		.type = type});
}

API(ncclBroadcast, const void *send, void *receive, size_t count, int type, int root,
	struct fake_comm *comm, void *stream)
{
	(void)stream;
	return enqueue((struct fake_task){.comm = comm,
		.func = F_BROADCAST,
		.send = send,
		.receive = receive,
		.count = count,
		.type = type,
		.root = root});
}

API(ncclReduce, const void *send, void *receive, size_t count, int type, int op, int root,
	struct fake_comm *comm, void *stream)
{
	(void)op, (void)stream;
	return enqueue((struct fake_task){.comm = comm,
		.func = F_REDUCE,
		.send = send,
		.receive = receive,
		.count = count,
		.type = type,
		.root = root});
}

API(ncclSend, const void *send, size_t count, int type, int peer, struct fake_comm *comm,
	void *stream)
{
	(void)stream;
	return enqueue((struct fake_task){.comm = comm,
		.func = F_SEND,
		.send = send,
		.count = count,
		.type = type,
		.root = peer});
}

API(ncclRecv, void *receive, size_t count, int type, int peer, struct fake_comm *comm, void *stream)
{
	(void)stream;
	return enqueue((struct fake_task){.comm = comm,
		.func = F_RECV,
		.receive = receive,
		.count = count,
		.type = type,
		.root = peer});
}

/* ---- communicators ------------------------------------------------------------------------------------------------ */

API(ncclGetUniqueId, struct fake_id *id)
{
	return fake_root_start(id) == 0 ? FAKE_SUCCESS : FAKE_SYSTEM_ERROR;
}

/* NCCL up to 2.26 asks for its plugin before the communicator has a name, later when it is connected. */
static int open_comm(struct fake_comm *comm)
{
	comm->last = &comm->first;
	pthread_mutex_init(&comm->lock, NULL);
	pthread_cond_init(&comm->changed, NULL);
	fake_plugin_init(comm);
	return pthread_create(&comm->proxy, NULL, proxy, comm) == 0 ? FAKE_SUCCESS
								    : FAKE_SYSTEM_ERROR;
}

API(ncclCommInitRank, struct fake_comm **ret_comm, int n_ranks, struct fake_id id, int rank)
{
	struct fake_comm *comm;

	if (n_ranks < 1 || n_ranks > FAKE_RANKS_MAX || rank < 0 || rank >= n_ranks)
		return FAKE_INVALID_ARGUMENT;
	comm = calloc(1, sizeof(*comm));
	comm->rank = rank;
	comm->size = n_ranks;
	comm->hash = lw_nccl_hash_id(id.bytes, fake_version);
	if (fake_mesh_make(comm, &id) < 0) {
		free(comm);
		return FAKE_SYSTEM_ERROR;
	}
	*ret_comm = comm;
	return open_comm(comm);
}

API(ncclCommInitRankConfig, struct fake_comm **ret_comm, int n_ranks, struct fake_id id, int rank,
	void *config)
{
	(void)config;
	return pncclCommInitRank(ret_comm, n_ranks, id, rank);
}

API(ncclCommSplit, struct fake_comm *parent, int color, int key, struct fake_comm **ret_comm,
	void *config)
{
	struct fake_comm *comm = calloc(1, sizeof(*comm));

	(void)config;
	*ret_comm = NULL;
	parent->n_splits++;
	wait_idle(parent);
	comm->hash = lw_nccl_hash_split(parent->hash, parent->n_splits, color, fake_version);
	if (fake_mesh_split(comm, parent, color, key) < 0)
		return FAKE_SYSTEM_ERROR;
	if (!comm->size) { /* ncclSplitNoColor */
		fake_mesh_close(comm);
		free(comm);
		return FAKE_SUCCESS;
	}
	*ret_comm = comm;
	return open_comm(comm);
}

API(ncclCommFinalize, struct fake_comm *comm)
{
	wait_idle(comm);
	return FAKE_SUCCESS;
}

static int end_comm(struct fake_comm *comm)
{
	pthread_mutex_lock(&comm->lock);
	comm->is_ending = true;
	pthread_cond_broadcast(&comm->changed);
	pthread_mutex_unlock(&comm->lock);
	pthread_join(comm->proxy, NULL);
	fake_plugin_finalize(comm);
	fake_mesh_close(comm);
	free(comm);
	return FAKE_SUCCESS;
}

API(ncclCommDestroy, struct fake_comm *comm)
{
	wait_idle(comm);
	return end_comm(comm);
}

API(ncclCommAbort, struct fake_comm *comm)
{
	__atomic_store_n(&comm->is_aborted, true, __ATOMIC_RELAXED);
	return end_comm(comm);
}

API(ncclCommCount, const struct fake_comm *comm, int *n)
{
	*n = comm->size;
	return FAKE_SUCCESS;
}

API(ncclCommUserRank, const struct fake_comm *comm, int *rank)
{
	*rank = comm->rank;
	return FAKE_SUCCESS;
}

API(ncclCommCuDevice, const struct fake_comm *comm, int *device)
{
	(void)comm;
	*device = 0;
	return FAKE_SUCCESS;
}

API(ncclCommGetAsyncError, const struct fake_comm *comm, int *error)
{
	*error = comm->is_aborted ? FAKE_SYSTEM_ERROR : FAKE_SUCCESS;
	return FAKE_SUCCESS;
}

API(ncclGetVersion, int *version)
{
	*version = fake_version;
	return FAKE_SUCCESS;
}

EXPORT const char *ncclGetErrorString(int error);
EXPORT const char *ncclGetErrorString(int error)
{
	return error ? "an error of the double's" : "no error";
}

EXPORT const char *ncclGetLastError(const struct fake_comm *comm);
EXPORT const char *ncclGetLastError(const struct fake_comm *comm)
{
	(void)comm;
	return "";
}
