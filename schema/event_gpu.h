/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_gpu.h - the part of the contract that tells of GPUs and NCCL; included by event.h, never alone.
 *
 * Times of GPU work are the device's, in CLOCK_MONOTONIC ns of the host: CUPTI is given that clock.
 */
#ifndef LAPWING_SCHEMA_EVENT_GPU_H
#define LAPWING_SCHEMA_EVENT_GPU_H

#include <stdint.h>

/* X(KIND...) of LW_EVENT_KINDS: event.h puts them behind its own. */
#define LW_EVENT_KINDS_GPU(X)                                                                      \
	X(GPU, 28, gpu, "a GPU that this process uses")                                            \
	X(KERNEL, 29, kernel, "a kernel ran on a GPU")                                             \
	X(COPY, 30, copy, "a copy or memset ran on a GPU; op = enum lw_copy_op")                   \
	X(GPU_SYNC, 31, gpu_sync, "waited for a GPU; op = enum lw_gpu_sync_op")                    \
	X(LAUNCH, 32, launch, "the host called CUDA to start GPU work; op = enum lw_launch_op")    \
	X(GPU_OVERHEAD, 33, gpu_overhead, "time that CUPTI or the driver took for itself")         \
	X(NCCL_OP, 34, nccl_op, "one operation of NCCL on this rank; op = enum lw_nccl_op")        \
	X(NCCL_PROXY, 35, nccl_proxy,                                                              \
		"what a proxy moved for an operation; op = enum lw_message_op")                    \
	X(NCCL_NET, 36, nccl_net, "what carried it; op = enum lw_nccl_net_op")

/* X(NAME, number, lower-case name in the store and on screens); 1 to 10 as CUPTI numbers them */
#define LW_COPY_OPS(X)                                                                             \
	X(HTOD, 1, "host to device")                                                               \
	X(DTOH, 2, "device to host")                                                               \
	X(HTOA, 3, "host to array")                                                                \
	X(ATOH, 4, "array to host")                                                                \
	X(ATOA, 5, "array to array")                                                               \
	X(ATOD, 6, "array to device")                                                              \
	X(DTOA, 7, "device to array")                                                              \
	X(DTOD, 8, "device to device")                                                             \
	X(HTOH, 9, "host to host")                                                                 \
	X(PTOP, 10, "peer to peer")                                                                \
	X(OTHER, 11, "copy")                                                                       \
	X(MEMSET, 12, "memset")

enum lw_copy_op {
#define X(name, number, text) LW_COPY_##name = (number),
	LW_COPY_OPS(X)
#undef X
};

/* 1 to 4 as CUPTI numbers them */
#define LW_GPU_SYNC_OPS(X)                                                                         \
	X(EVENT, 1, "event")                                                                       \
	X(STREAM_WAIT_EVENT, 2, "stream waits for event")                                          \
	X(STREAM, 3, "stream")                                                                     \
	X(CONTEXT, 4, "context")                                                                   \
	X(OTHER, 5, "other")

enum lw_gpu_sync_op {
#define X(name, number, text) LW_GPU_SYNC_##name = (number),
	LW_GPU_SYNC_OPS(X)
#undef X
};

#define LW_LAUNCH_OPS(X)                                                                           \
	X(KERNEL, 1, "kernel")                                                                     \
	X(COPY, 2, "copy")                                                                         \
	X(MEMSET, 3, "memset")                                                                     \
	X(GRAPH, 4, "graph")                                                                       \
	X(SYNC, 5, "synchronize")                                                                  \
	X(OTHER, 6, "other")

enum lw_launch_op {
#define X(name, number, text) LW_LAUNCH_##name = (number),
	LW_LAUNCH_OPS(X)
#undef X
};

enum lw_kernel_flag {
	LW_KERNEL_GRAPH = 1u << 0,     /* one record for a whole CUDA graph */
	LW_KERNEL_IN_GRAPH = 1u << 1,  /* a node of a CUDA graph */
	LW_KERNEL_UNORDERED = 1u << 2, /* its end lay before its start: both are the start */
};

/* What a launch was made for: which hook said so. */
enum lw_launch_for {
	LW_LAUNCH_FOR_NOTHING = 0,
	LW_LAUNCH_FOR_NCCL_OP = 1, /* serial of an NCCL_OP */
	LW_LAUNCH_FOR_BATCH = 2,   /* batch of a BATCH */
};

/* The first numbers are those of enum lw_coll. X(NAME, number, lower-case name) */
#define LW_NCCL_OPS(X)                                                                             \
	X(ALLREDUCE, 1, "allreduce")                                                               \
	X(ALLGATHER, 2, "allgather")                                                               \
	X(BROADCAST, 3, "broadcast")                                                               \
	X(ALLTOALL, 4, "alltoall")                                                                 \
	X(REDUCESCATTER, 5, "reducescatter")                                                       \
	X(REDUCE, 6, "reduce")                                                                     \
	X(GATHER, 7, "gather")                                                                     \
	X(SCATTER, 8, "scatter")                                                                   \
	X(SEND, 9, "send")                                                                         \
	X(RECV, 10, "recv")                                                                        \
	X(OTHER, 11, "other")                                                                      \
	X(BARRIER, 12, "barrier")

enum lw_nccl_op {
#define X(name, number, text) LW_NCCL_##name = (number),
	LW_NCCL_OPS(X)
#undef X
};

/* Algorithms and protocols of NCCL. X(NAME, number, name as NCCL spells it in its own messages) */
#define LW_NCCL_ALGORITHMS(X)                                                                      \
	X(UNKNOWN, 0, "unknown")                                                                   \
	X(TREE, 1, "TREE")                                                                         \
	X(RING, 2, "RING")                                                                         \
	X(COLLNET_DIRECT, 3, "COLLNET_DIRECT")                                                     \
	X(COLLNET_CHAIN, 4, "COLLNET_CHAIN")                                                       \
	X(NVLS, 5, "NVLS")                                                                         \
	X(NVLS_TREE, 6, "NVLS_TREE")                                                               \
	X(PAT, 7, "PAT")

enum lw_nccl_algorithm {
#define X(name, number, text) LW_NCCL_ALGORITHM_##name = (number),
	LW_NCCL_ALGORITHMS(X)
#undef X
};

#define LW_NCCL_PROTOCOLS(X)                                                                       \
	X(UNKNOWN, 0, "unknown")                                                                   \
	X(LL, 1, "LL")                                                                             \
	X(LL128, 2, "LL128")                                                                       \
	X(SIMPLE, 3, "SIMPLE")

enum lw_nccl_protocol {
#define X(name, number, text) LW_NCCL_PROTOCOL_##name = (number),
	LW_NCCL_PROTOCOLS(X)
#undef X
};

/* Who told of an operation. */
enum lw_nccl_source { LW_NCCL_FROM_PRELOAD = 1, LW_NCCL_FROM_PLUGIN = 2, LW_NCCL_FROM_NVTX = 3 };

enum lw_nccl_flag {
	LW_NCCL_UNTIMED =
		1u << 0, /* its completion was not seen: t1 = return of the call that enqueued it */
	LW_NCCL_UNFINISHED =
		1u << 1, /* its completion was awaited in vain: its communicator or process ended */
	LW_NCCL_IN_PLACE = 1u << 2,
	LW_NCCL_FAILED = 1u << 3,   /* the call returned an error */
	LW_NCCL_IN_GRAPH = 1u << 4, /* captured into a CUDA graph: runs when that is launched */
	LW_NCCL_NO_BYTES = 1u << 5, /* its size could not be known */
	LW_NCCL_WHOLE_BYTES =
		1u
		<< 6, /* of an all-to-all: what goes to all ranks, where a caller of NCCL counts for each */
};

enum lw_nccl_net_op { LW_NCCL_NET_QP = 1, LW_NCCL_NET_SOCKET = 2 };

struct lw_ev_gpu {
	uint64_t name;         /* string id */
	uint64_t pci;          /* string id of its PCI bus id, "0000:3b:00.0"; 0 = not known */
	uint64_t memory_bytes; /* 0 = not known */
	uint32_t device;       /* as CUDA numbers it in this process */
	uint32_t n_multiprocessors;
	uint32_t clock_khz;    /* highest; 0 = not known */
	uint16_t major, minor; /* compute capability */
};

struct lw_ev_kernel {
	uint64_t name; /* string id, as the compiler mangled it */
	uint32_t device, context, stream;
	uint32_t correlation; /* of its LAUNCH */
	uint32_t graph;       /* CUDA graph that it is a node of, or that it stands for; 0 = none */
	uint32_t flags;       /* enum lw_kernel_flag */
	uint64_t reserved;
};

struct lw_ev_copy {
	uint64_t bytes;
	uint32_t device, context, stream;
	uint32_t correlation;
	uint32_t peer_device; /* the other one's of a peer to peer copy */
	uint32_t flags;       /* enum lw_kernel_flag */
	uint64_t reserved;
};

struct lw_ev_gpu_sync {
	uint32_t context, stream; /* stream UINT32_MAX: no single one */
	uint32_t event;           /* that it waited for, 0 = none */
	uint32_t correlation;
	uint64_t reserved[3];
};

struct lw_ev_launch {
	uint64_t name; /* string id of the CUDA function, "cudaLaunchKernel" */
	uint64_t for_serial;
	uint32_t correlation;
	uint32_t tid;      /* of the thread that called */
	uint16_t made_for; /* enum lw_launch_for: what for_serial is of */
	uint16_t reserved16;
	uint32_t result; /* of the call, 0 = success */
	uint64_t reserved;
};

struct lw_ev_gpu_overhead {
	uint64_t name; /* string id: "buffer flush", "lazy function loading", ... */
	uint64_t reserved[4];
};

struct lw_ev_nccl_op {
	uint64_t comm;   /* key of struct lw_ev_comm */
	uint64_t serial; /* process-wide, from 1 */
	uint64_t bytes;  /* count x type size, as the caller gave them; see LW_NCCL_NO_BYTES */
	int32_t peer;    /* root or peer in comm, -1 = none */
	uint32_t group;  /* calls of one ncclGroup share it, 0 = not in a group */
	uint8_t algorithm, protocol; /* enum lw_nccl_algorithm, enum lw_nccl_protocol */
	uint8_t n_channels;          /* 0 = not known */
	uint8_t dtype;               /* enum lw_dtype */
	uint16_t flags;              /* enum lw_nccl_flag */
	uint16_t source;             /* enum lw_nccl_source */
};

/* One proxy operation: what one channel sent to, or received from, one peer for an operation. */
struct lw_ev_nccl_proxy {
	uint64_t serial; /* of its NCCL_OP; 0 = of another process (PXN) or not known */
	uint64_t bytes;
	int32_t peer; /* rank in comm */
	uint16_t channel, n_steps;
	uint32_t gpu_wait_us;  /* of its steps: waiting for the GPU */
	uint32_t peer_wait_us; /* waiting for the peer's credits */
	uint32_t wire_us;      /* on the network */
	uint32_t reserved32;
};

struct lw_ev_nccl_net {
	uint64_t serial; /* of its NCCL_OP; 0 = not known */
	uint64_t bytes;
	uint32_t
		number; /* QP: its number on the wire; SOCKET: serial of struct lw_ev_socket, 0 = not known */
	uint32_t n; /* work requests or calls */
	uint64_t reserved[2];
};

#endif /* LAPWING_SCHEMA_EVENT_GPU_H */
