/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_abi.h - the structures of NCCL's profiler plugin interface, versions 1 to 6, on 64-bit Linux.
 *
 * Facts from NVIDIA/nccl, plugins/profiler/example/nccl/profiler_v1.h to profiler_v6.h, profiler.h and
 * net_{ib,socket}_v1.h; sizes and offsets are asserted as these headers give them. First NCCL of each version:
 * v1 2.23.4, v2 2.24.3, v3 2.26.2, v4 2.27.3, v5 2.28.3, v6 2.29.2. In v1 to v4 the type is one byte, what
 * follows it is padding. Fields that nobody here reads are left as room.
 */
#ifndef LAPWING_TRACER_NCCL_ABI_H
#define LAPWING_TRACER_NCCL_ABI_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LW_NCCL_PROFILER_VERSIONS = 6 };

/* Kinds of events, which are bits of the activation mask too. */
enum lw_nccl_profile {
	LW_NCCL_PROFILE_GROUP = 1 << 0,
	LW_NCCL_PROFILE_COLL = 1 << 1,
	LW_NCCL_PROFILE_P2P = 1 << 2,
	LW_NCCL_PROFILE_PROXY_OP = 1 << 3,
	LW_NCCL_PROFILE_PROXY_STEP = 1 << 4,
	LW_NCCL_PROFILE_PROXY_CTRL = 1 << 5,
	LW_NCCL_PROFILE_KERNEL_CH = 1 << 6,  /* from v3 on */
	LW_NCCL_PROFILE_NET_PLUGIN = 1 << 7, /* from v3 on */
	LW_NCCL_PROFILE_GROUP_API = 1 << 8,  /* from v5 on, as the next three */
	LW_NCCL_PROFILE_COLL_API = 1 << 9,
	LW_NCCL_PROFILE_P2P_API = 1 << 10,
	LW_NCCL_PROFILE_KERNEL_LAUNCH = 1 << 11,
	LW_NCCL_PROFILE_CE_COLL = 1 << 12, /* from v6 on: copies by the copy engine */
	LW_NCCL_PROFILE_CE_SYNC = 1 << 13,
	LW_NCCL_PROFILE_CE_BATCH = 1 << 14,
};

/* States that recordEventState() tells of; the others are of events that we do not ask for. */
enum lw_nccl_state {
	LW_NCCL_STATE_OP_SEND_REM_FIFO_WAIT = 1, /* v1 to v3: the next step waits for its peer */
	LW_NCCL_STATE_OP_V3_LAST = 7,            /* 0 to 7: of a proxy operation, v1 to v3 */
	LW_NCCL_STATE_STEP_SEND_GPU_WAIT = 8,
	LW_NCCL_STATE_STEP_SEND_WAIT = 9,
	LW_NCCL_STATE_STEP_RECV_WAIT = 10,
	LW_NCCL_STATE_STEP_RECV_FLUSH_WAIT = 11,
	LW_NCCL_STATE_STEP_RECV_GPU_WAIT = 12,
	LW_NCCL_STATE_OP_IN_PROGRESS = 19,       /* v4 on */
	LW_NCCL_STATE_STEP_SEND_PEER_WAIT = 20,  /* v4 on */
	LW_NCCL_STATE_NET_PLUGIN_UPDATE = 21,    /* v3 on */
	LW_NCCL_STATE_KERNEL_CH_STOP = 22,       /* v4 on */
	LW_NCCL_STATE_GROUP_START_API_STOP = 23, /* v5 on */
	LW_NCCL_STATE_GROUP_END_API_START = 24,  /* v5 on */
};

/* v1: kinds as numbers, NCCL's ncclFunc_t, ncclDataType_t, NCCL_ALGO_* and NCCL_PROTO_* */
struct lw_nccl_event_v1 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t comm_hash, seq_number;
			uint8_t func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			uint8_t datatype;
			uint32_t op;
			size_t traffic_bytes;
			uint8_t n_max_channels, n_warps, algo, proto;
			int is_collnet, is_nvls;
		} coll;
		struct {
			const char *name;
			uint64_t comm_hash;
			uint8_t func;
			void *buffer;
			uint8_t datatype;
			size_t count;
			int peer;
		} p2p;
		struct {
			int pid;
			uint8_t channel;
			int peer, n_steps, chunk_size, is_send;
		} proxy_op; /* the same in all versions, as proxy_step */
		struct {
			int step;
		} proxy_step;
	};
};
static_assert(sizeof(struct lw_nccl_event_v1) == 120, "profiler_v1.h");
static_assert(offsetof(struct lw_nccl_event_v1, parent) == 8, "parentObj");
static_assert(offsetof(struct lw_nccl_event_v1, rank) == 16, "rank");
static_assert(offsetof(struct lw_nccl_event_v1, coll.seq_number) == 40, "coll.seqNumber");
static_assert(offsetof(struct lw_nccl_event_v1, coll.func) == 48, "coll.func");
static_assert(offsetof(struct lw_nccl_event_v1, coll.count) == 72, "coll.count");
static_assert(offsetof(struct lw_nccl_event_v1, coll.algo) == 106, "coll.algo");
static_assert(offsetof(struct lw_nccl_event_v1, p2p.peer) == 72, "p2p.peer");
static_assert(offsetof(struct lw_nccl_event_v1, proxy_op.peer) == 32, "proxyOp.peer");
static_assert(offsetof(struct lw_nccl_event_v1, proxy_op.chunk_size) == 40, "proxyOp.chunkSize");

/* v2: kinds as texts. v3 is v2 without coll.traffic_bytes, and with the two kinds at its end. */
#define LW_NCCL_EVENT_TEXT(version, traffic)                                                       \
	struct lw_nccl_event_v##version {                                                          \
		uint8_t type;                                                                      \
		void *parent;                                                                      \
		int rank;                                                                          \
		union {                                                                            \
			struct {                                                                   \
				const char *name;                                                  \
				uint64_t comm_hash, seq_number;                                    \
				const char *func;                                                  \
				const void *send;                                                  \
				void *receive;                                                     \
				size_t count;                                                      \
				int root;                                                          \
				const char *datatype;                                              \
				traffic uint8_t n_max_channels, n_warps;                           \
				const char *algo, *proto;                                          \
			} coll;                                                                    \
			struct {                                                                   \
				const char *name;                                                  \
				uint64_t comm_hash;                                                \
				const char *func;                                                  \
				void *buffer;                                                      \
				const char *datatype;                                              \
				size_t count;                                                      \
				int peer;                                                          \
			} p2p;                                                                     \
			struct {                                                                   \
				int pid;                                                           \
				uint8_t channel;                                                   \
				int peer, n_steps, chunk_size, is_send;                            \
			} proxy_op;                                                                \
			struct {                                                                   \
				int step;                                                          \
			} proxy_step;                                                              \
			struct {                                                                   \
				uint8_t channel;                                                   \
			} kernel_ch;                                                               \
			struct {                                                                   \
				int64_t id;                                                        \
				void *data;                                                        \
			} net_plugin;                                                              \
		};                                                                                 \
	}
LW_NCCL_EVENT_TEXT(2, size_t traffic_bytes;);
LW_NCCL_EVENT_TEXT(3, );
#undef LW_NCCL_EVENT_TEXT
static_assert(sizeof(struct lw_nccl_event_v2) == 128, "profiler_v2.h");
static_assert(offsetof(struct lw_nccl_event_v2, coll.func) == 48, "coll.func");
static_assert(offsetof(struct lw_nccl_event_v2, coll.count) == 72, "coll.count");
static_assert(offsetof(struct lw_nccl_event_v2, coll.algo) == 112, "coll.algo");
static_assert(offsetof(struct lw_nccl_event_v2, p2p.peer) == 72, "p2p.peer");
static_assert(sizeof(struct lw_nccl_event_v3) == 120, "profiler_v3.h");
static_assert(offsetof(struct lw_nccl_event_v3, coll.count) == 72, "coll.count");
static_assert(offsetof(struct lw_nccl_event_v3, coll.algo) == 104, "coll.algo");
static_assert(offsetof(struct lw_nccl_event_v3, net_plugin.data) == 32, "netPlugin.data");

struct lw_nccl_event_v4 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct {
			uint64_t seq_number;
			const char *func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			const char *datatype;
			uint8_t n_channels, n_warps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *func;
			void *buffer;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t n_channels;
		} p2p;
		struct {
			int pid;
			uint8_t channel;
			int peer, n_steps, chunk_size, is_send;
		} proxy_op;
		struct {
			int step;
		} proxy_step;
		struct {
			uint8_t channel;
			uint64_t timer; /* of the GPU */
		} kernel_ch;
		struct {
			int64_t id;
			void *data;
		} net_plugin;
	};
};
static_assert(sizeof(struct lw_nccl_event_v4) == 104, "profiler_v4.h");
static_assert(offsetof(struct lw_nccl_event_v4, coll.seq_number) == 24, "coll.seqNumber");
static_assert(offsetof(struct lw_nccl_event_v4, coll.func) == 32, "coll.func");
static_assert(offsetof(struct lw_nccl_event_v4, coll.count) == 56, "coll.count");
static_assert(offsetof(struct lw_nccl_event_v4, coll.algo) == 88, "coll.algo");
static_assert(offsetof(struct lw_nccl_event_v4, p2p.peer) == 56, "p2p.peer");

/* v6, which has all of v5: the same fields at the same places, and ce_coll, ce_sync, ce_batch besides. */
struct lw_nccl_event_v6 {
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct {
			uint8_t is_captured; /* a bool */
			int depth;
		} group_api;
		struct {
			const char *func;
			size_t count;
			const char *datatype;
			int root;
			void *stream;
			uint8_t is_captured; /* a bool */
		} coll_api;
		struct {
			const char *func;
			size_t count;
			const char *datatype;
			void *stream;
			uint8_t is_captured; /* a bool */
		} p2p_api;
		struct {
			void *stream;
		} kernel_launch;
		struct {
			uint64_t seq_number;
			const char *func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			const char *datatype;
			uint8_t n_channels, n_warps;
			const char *algo, *proto;
			void *parent_group;
		} coll;
		struct {
			const char *func;
			void *buffer;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t n_channels;
			void *parent_group;
		} p2p;
		struct {
			int pid;
			uint8_t channel;
			int peer, n_steps, chunk_size, is_send;
		} proxy_op;
		struct {
			int step;
		} proxy_step;
		struct {
			uint8_t channel;
			uint64_t timer;
		} kernel_ch;
		struct {
			int64_t id;
			void *data;
		} net_plugin;
		struct {
			uint64_t seq_number;
			const char *func;
			const void *send;
			void *receive;
			size_t count;
			int root;
			const char *datatype, *sync_strategy;
			uint8_t is_intra_batch_sync;
			uint32_t batch_size, n_batches, ce_seq_number;
			void *stream;
		} ce_coll;
		struct {
			uint8_t is_complete;
			int n_ranks;
		} ce_sync;
		struct {
			int n_ops;
			size_t total_bytes;
			uint8_t uses_intra_sync;
		} ce_batch;
	};
};
static_assert(sizeof(struct lw_nccl_event_v6) == 112, "profiler_v5.h, profiler_v6.h");
static_assert(offsetof(struct lw_nccl_event_v6, rank) == 16, "rank");
static_assert(offsetof(struct lw_nccl_event_v6, group_api.depth) == 28, "groupApi.groupDepth");
static_assert(
	offsetof(struct lw_nccl_event_v6, coll_api.is_captured) == 64, "collApi.graphCaptured");
static_assert(offsetof(struct lw_nccl_event_v6, p2p_api.is_captured) == 56, "p2pApi.graphCaptured");
static_assert(offsetof(struct lw_nccl_event_v6, coll.count) == 56, "coll.count");
static_assert(offsetof(struct lw_nccl_event_v6, coll.algo) == 88, "coll.algo");
static_assert(offsetof(struct lw_nccl_event_v6, coll.parent_group) == 104, "coll.parentGroup");
static_assert(offsetof(struct lw_nccl_event_v6, p2p.peer) == 56, "p2p.peer");
static_assert(offsetof(struct lw_nccl_event_v6, p2p.parent_group) == 64, "p2p.parentGroup");
static_assert(offsetof(struct lw_nccl_event_v6, proxy_op.peer) == 32, "proxyOp.peer");
static_assert(offsetof(struct lw_nccl_event_v6, proxy_op.chunk_size) == 40, "proxyOp.chunkSize");
static_assert(offsetof(struct lw_nccl_event_v6, ce_coll.count) == 56, "ceColl.count");

/* What comes with a state. v1 to v3: of a proxy operation; v4 on: of a step. */
union lw_nccl_state_arguments {
	struct {
		size_t transferred_bytes; /* v1 to v3: of all steps so far; v4 on: of this one */
		int steps;                /* v1 to v3 */
	} proxy;
	struct {
		void *data;
	} net_plugin;
	struct {
		uint64_t timer;
	} kernel_ch;
};

/* net_plugin.id: whose data it is in the upper 48 bits, and the version of that in the lower 16. */
enum { LW_NCCL_NET_ID_IB = 1 << 16 | 1, LW_NCCL_NET_ID_SOCKET = 2 << 16 | 1 };

struct lw_nccl_net_ib {
	uint8_t type;
	struct {
		int device;
		uint64_t wr_id;
		int opcode, number;
		size_t bytes;
	} qp;
};
static_assert(offsetof(struct lw_nccl_net_ib, qp.number) == 28, "net_ib_v1.h");
static_assert(offsetof(struct lw_nccl_net_ib, qp.bytes) == 32, "net_ib_v1.h");

struct lw_nccl_net_socket {
	uint8_t type;
	struct {
		int fd, op;
		size_t bytes;
	} sock;
};
static_assert(offsetof(struct lw_nccl_net_socket, sock.fd) == 8, "net_socket_v1.h");
static_assert(offsetof(struct lw_nccl_net_socket, sock.bytes) == 16, "net_socket_v1.h");

#endif /* LAPWING_TRACER_NCCL_ABI_H */
