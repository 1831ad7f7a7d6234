/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_nccl.h - a double of libnccl.so.2: real collectives of CPU buffers over loopback, and NCCL's profiler plugin.
 *
 * What a caller gets is what NCCL's public API promises; what the plugin is called with follows NCCL's sources
 * (src/plugin/profiler.cc, enqueue.cc, transport/net.cc): which events, in which order, on which thread. There is
 * no GPU: a buffer is host memory, a stream is ignored, fake_nccl_synchronize() stands for the stream's.
 *
 * FAKE_NCCL_VERSION: what it says it is, 22304 and later; decides the plugin's versions (default 22809)
 * FAKE_NCCL_CHANNELS: 1 to 8 (default 2). FAKE_NCCL_NET=1: built with network profiling. FAKE_NCCL_GPU_US: time
 * that a step's data takes to be ready. FAKE_NCCL_LOCAL=1: no proxies, as between GPUs of one machine.
 * FAKE_NCCL_CREDITS=1: who sends waits until the receiver has asked for it, as over RDMA (3 ranks or more).
 * FAKE_NCCL_LATE=RANK:US: its proxy comes so late to every step. FAKE_NCCL_SLOW=FROM:TO:US: that link takes so long for a message.
 */
#ifndef LAPWING_TESTS_LIB_FAKE_NCCL_H
#define LAPWING_TESTS_LIB_FAKE_NCCL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_CHANNELS_MAX = 8, FAKE_RANKS_MAX = 64 };
enum fake_func {
	F_BROADCAST,
	F_REDUCE,
	F_ALLGATHER,
	F_REDUCESCATTER,
	F_ALLREDUCE,
	F_SEND = 6,
	F_RECV
};
enum { FAKE_SUCCESS = 0, FAKE_SYSTEM_ERROR = 2, FAKE_INVALID_ARGUMENT = 4, FAKE_INVALID_USAGE = 5 };

struct fake_id { /* ncclUniqueId */
	char bytes[128];
};

struct fake_task {
	struct fake_task *next;
	struct fake_comm *comm;
	enum fake_func func;
	const void *send;
	void *receive;
	size_t count;
	int type, root; /* ncclDataType_t; root also the peer */
	/* what the profiler gave */
	void *api_event, *event, *group_api_event;
	void *proxy_event[FAKE_CHANNELS_MAX][2]; /* by channel; [0] send, [1] receive */
	size_t moved_bytes[FAKE_CHANNELS_MAX][2];
};

struct fake_comm {
	int rank, size, n_splits;
	uint64_t hash;
	int listener, fd[FAKE_CHANNELS_MAX][FAKE_RANKS_MAX]; /* to each rank */
	uint64_t seq_number[16];
	void *profiler; /* the plugin's context */
	pthread_t proxy;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct fake_task *first, **last; /* for the proxy thread */
	int n_queued;                    /* not done */
	bool is_ending, is_aborted;
};

/* fake_nccl.c */
extern int fake_version, fake_n_channels, fake_gpu_us;
extern int fake_late_rank, fake_late_us, fake_slow_from, fake_slow_to, fake_slow_us;
extern bool fake_is_net, fake_is_local, fake_has_credits;
size_t fake_type_bytes(int type);

/* fake_nccl_mesh.c: made and torn down by the caller's thread, used by the proxy thread */
int fake_mesh_make(struct fake_comm *comm, const struct fake_id *id);
int fake_mesh_split(struct fake_comm *comm, struct fake_comm *parent, int color, int key);
void fake_mesh_close(struct fake_comm *comm);
int fake_root_start(struct fake_id *id);

/* fake_nccl_ring.c: of the proxy thread */
int fake_run(struct fake_task *task);
int fake_run_p2p(struct fake_task *send, struct fake_task *receive); /* at once; either NULL */

/* fake_nccl_plugin.c: as NCCL's own profiler.cc */
void fake_plugin_init(struct fake_comm *comm);
void fake_plugin_finalize(struct fake_comm *comm);
void fake_plugin_group_api_start(struct fake_comm *comm, int depth, void **handle);
void fake_plugin_api_start(struct fake_task *task);
void fake_plugin_launch_start(struct fake_task *task, void **handle);
void fake_plugin_group_start(struct fake_comm *comm, void **handle);
void fake_plugin_task_start(struct fake_task *task, void *group);
void fake_plugin_proxy_start(
	struct fake_task *task, int channel, bool is_send, int peer, int n_steps);
void fake_plugin_proxy_state(
	struct fake_task *task, int channel, bool is_send, int state, size_t bytes);
void fake_plugin_step_start(
	struct fake_task *task, int channel, bool is_send, int step, void **handle);
void fake_plugin_step_state(struct fake_task *task, void *handle, int state, size_t bytes);
void fake_plugin_net_start(
	struct fake_task *task, void *step, int fd, bool is_send, size_t bytes, void **handle);
void fake_plugin_stop(void **handle);
int fake_plugin_version(void); /* 0 = none */

#endif /* LAPWING_TESTS_LIB_FAKE_NCCL_H */
