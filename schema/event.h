/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h - THE CONTRACT between the tracer and the collector: one 64-byte record.
 *
 * Written by tracer/record.c into schema/ring.h, read by collector/drain.c. Times are host
 * CLOCK_MONOTONIC ns. A record never holds a pointer that its reader may follow: addresses are
 * opaque keys. Text travels as 64-bit ids whose STRING records come before the first use.
 *
 * To add a kind: one line in LW_EVENT_KINDS, one payload struct below, one row in
 * collector/record_columns.c and in collector/check.c, one migration. Never reuse a number; bump
 * LW_EVENT_VERSION when the meaning of an existing field changes.
 */
#ifndef LAPWING_SCHEMA_EVENT_H
#define LAPWING_SCHEMA_EVENT_H

#include <assert.h>
#include <stdint.h>

#include "schema/event_gpu.h"

enum { LW_EVENT_VERSION = 1, LW_EVENT_BYTES = 64, LW_EVENT_ARG_BYTES = 40 };

/* X(NAME, number, payload member, what one record says) */
#define LW_EVENT_KINDS(X)                                                                          \
	X(PROCESS, 1, process, "a traced process: its place in the job, as far as known now")      \
	X(STRING, 2, string, "a part of a text; op = part number, from 0")                         \
	X(CLOCK, 3, clock, "t0 in CLOCK_MONOTONIC and the same moment in CLOCK_REALTIME")          \
	X(COMM, 4, comm, "a communicator this rank belongs to; op = enum lw_comm_how")             \
	X(COLLECTIVE, 5, collective, "one transport-level collective; op = enum lw_coll")          \
	X(MESSAGE, 6, message, "point-to-point; op = enum lw_message_op")                          \
	X(READY, 7, ready, "t0: a tensor was handed to the framework (its gradient is ready)")     \
	X(CYCLE, 8, cycle, "one coordination round of Horovod; op = enum lw_cycle_op")             \
	X(BATCH, 9, batch, "one executed (fused) response; op = enum lw_coll")                     \
	X(BATCH_TENSOR, 10, batch_tensor, "one member of a batch; op = its position in it")        \
	X(SETTING, 11, setting, "a framework setting in force from t0 on; op = enum lw_setting")   \
	X(WAIT, 12, wait, "the training thread was blocked; op = enum lw_wait_op")                 \
	X(SOCKET, 13, socket, "a TCP connection appeared, with its two ends")                      \
	X(SOCKET_BYTES, 14, socket_bytes,                                                          \
		"totals of a connection so far; op = enum lw_sample_why")                          \
	X(TCP_INFO, 15, tcp_info, "the kernel's view of a connection; op = enum lw_sample_why")    \
	X(GLOO_MESSAGE, 16, gloo_message, "a Gloo preamble seen on a socket; op = its opcode")     \
	X(MARK, 17, mark, "a mark or range of the user's; op = enum lw_mark_op")                   \
	X(LOSS, 18, loss, "something was not recorded; op = enum lw_loss_reason")                  \
	X(HOOK, 19, hook, "a hook is in place, or why it is not; op = enum lw_hook_status")        \
	X(THREAD, 20, thread, "what this ring's thread is; op = enum lw_thread_role")              \
	X(PARAMETER, 21, parameter, "a parameter whose gradient a DDP reducer exchanges")          \
	X(GRADIENT, 22, gradient, "t0: a parameter's gradient is complete on this rank")           \
	X(PROBE, 23, probe,                                                                        \
		"one collective of `record --probe`, not the job's; op = enum lw_coll")            \
	X(RDMA_PORT, 24, rdma_port, "an RDMA port that this process uses, and its address")        \
	X(RDMA_QP, 25, rdma_qp, "a queue pair; op = enum lw_rdma_qp_op")                           \
	X(RDMA_WORK, 26, rdma_work, "one work request, posted to completed; op = enum lw_rdma_op") \
	X(RDMA_MEMORY, 27, rdma_memory, "memory registered for RDMA so far")                       \
	LW_EVENT_KINDS_GPU(X)

enum lw_event_kind {
#define X(name, number, member, text) LW_EV_##name = (number),
	LW_EVENT_KINDS(X)
#undef X
};
enum { LW_EV_COUNT = 37 }; /* one past the highest number */

/* X(NAME, number, lower-case name in the store and on screens) */
#define LW_COLLS(X)                                                                                \
	X(ALLREDUCE, 1, "allreduce")                                                               \
	X(ALLGATHER, 2, "allgather")                                                               \
	X(BROADCAST, 3, "broadcast")                                                               \
	X(ALLTOALL, 4, "alltoall")                                                                 \
	X(REDUCESCATTER, 5, "reducescatter")                                                       \
	X(REDUCE, 6, "reduce")                                                                     \
	X(GATHER, 7, "gather")                                                                     \
	X(SCATTER, 8, "scatter")                                                                   \
	X(SCAN, 9, "scan")                                                                         \
	X(BARRIER, 10, "barrier")                                                                  \
	X(ADASUM, 11, "adasum")                                                                    \
	X(NEIGHBOR_ALLGATHER, 12, "neighbor_allgather")                                            \
	X(NEIGHBOR_ALLTOALL, 13, "neighbor_alltoall")                                              \
	X(JOIN, 14, "join")                                                                        \
	X(ERROR, 15, "error")

enum lw_coll {
#define X(name, number, text) LW_COLL_##name = (number),
	LW_COLLS(X)
#undef X
};

enum lw_coll_flag {
	LW_COLL_NONBLOCKING =
		1u << 0, /* t0 = start call, t1 = return of the completing wait or test */
	LW_COLL_PERSISTENT = 1u << 1, /* started by MPI_Start(all) */
	LW_COLL_IN_PLACE = 1u << 2,
	LW_COLL_CONTROL =
		1u << 3, /* framework coordination, not payload (MPI_BAND, MPI_BOR, ...) */
	LW_COLL_UNFINISHED =
		1u << 4,          /* the end was never seen: t1 = last moment it was known to run */
	LW_COLL_FAILED = 1u << 5, /* it returned an error or threw */
	LW_COLL_NO_BYTES = 1u << 6, /* sizes could not be known; both byte fields are 0 */
	LW_COLL_FORTRAN = 1u << 7,
};

enum lw_transport {
	LW_TRANSPORT_NONE = 0,
	LW_TRANSPORT_MPI = 1,
	LW_TRANSPORT_GLOO = 2,
	LW_TRANSPORT_NCCL = 3
};
enum lw_framework { LW_FRAMEWORK_NONE = 0, LW_FRAMEWORK_HOROVOD = 1, LW_FRAMEWORK_TORCH_DDP = 2 };
enum lw_comm_how {
	LW_COMM_WORLD = 1,
	LW_COMM_DUP,
	LW_COMM_SPLIT,
	LW_COMM_CREATE,
	LW_COMM_OTHER,
	LW_COMM_FREE
};
enum lw_message_op { LW_MESSAGE_SEND = 1, LW_MESSAGE_RECV = 2 };
enum lw_cycle_op { LW_CYCLE_AND = 1, LW_CYCLE_OR = 2, LW_CYCLE_RESPONSES = 3 };
enum lw_wait_op {
	LW_WAIT_POLL_SLEEP = 1, /* between two polls of a handle, asleep */
	LW_WAIT_POLL_YIELD = 2, /* the same, giving way to other threads */
	LW_WAIT_WORK = 3        /* inside a wait for a work object or future (torch.distributed) */
};
enum lw_sample_why { LW_SAMPLE_PERIOD = 1, LW_SAMPLE_CLOSE = 2, LW_SAMPLE_EXIT = 3 };
enum lw_mark_op {
	LW_MARK_STEP = 1,
	LW_MARK_POINT = 2,
	LW_MARK_RANGE = 3,
	LW_MARK_NVTX_RANGE = 4,
	LW_MARK_NVTX_POINT = 5
};
enum lw_hook_status { LW_HOOK_ACTIVE = 1, LW_HOOK_ABSENT = 2, LW_HOOK_REFUSED = 3 };
enum lw_thread_role { LW_THREAD_OTHER = 0, LW_THREAD_TRAINING = 1, LW_THREAD_BACKGROUND = 2 };

enum lw_rdma_qp_op {
	LW_RDMA_QP_SEEN = 1,      /* created, or first used when its creation was not seen */
	LW_RDMA_QP_CONNECTED = 2, /* ready to receive: its peer is known */
	LW_RDMA_QP_ENDED = 3      /* destroyed */
};
enum lw_rdma_qp_flag {
	LW_RDMA_QP_SRQ = 1u << 0,        /* receives from a shared queue */
	LW_RDMA_QP_EX = 1u << 1,         /* posts by the ibv_wr_* functions */
	LW_RDMA_QP_SIGNAL_ALL = 1u << 2, /* every work request gives a completion */
	LW_RDMA_QP_MTU = 7u << 4,        /* CONNECTED: enum ibv_mtu of its path, 0 = not known */
};
enum { LW_RDMA_QP_MTU_SHIFT = 4 };

/* Work requests. X(NAME, number, lower-case name in the store and on screens) */
#define LW_RDMA_OPS(X)                                                                             \
	X(SEND, 1, "send")                                                                         \
	X(SEND_IMM, 2, "send_imm")                                                                 \
	X(SEND_INV, 3, "send_inv")                                                                 \
	X(WRITE, 4, "write")                                                                       \
	X(WRITE_IMM, 5, "write_imm")                                                               \
	X(READ, 6, "read")                                                                         \
	X(CMP_SWAP, 7, "cmp_swap")                                                                 \
	X(FETCH_ADD, 8, "fetch_add")                                                               \
	X(ATOMIC_WRITE, 9, "atomic_write")                                                         \
	X(LOCAL_INV, 10, "local_inv")                                                              \
	X(BIND_MW, 11, "bind_mw")                                                                  \
	X(TSO, 12, "tso")                                                                          \
	X(OTHER, 13, "other")                                                                      \
	X(RECV, 14, "recv")                                                                        \
	X(RECV_WRITE_IMM, 15, "recv_write_imm")

enum lw_rdma_op {
#define X(name, number, text) LW_RDMA_##name = (number),
	LW_RDMA_OPS(X)
#undef X
};

enum lw_rdma_flag {
	LW_RDMA_UNSIGNALLED = 1u << 0, /* asked for no completion: done when a later one was */
	LW_RDMA_INLINE = 1u << 1,      /* its bytes were copied when it was posted */
	LW_RDMA_SRQ = 1u << 2,         /* a receive from a shared queue */
	LW_RDMA_EX = 1u << 3,          /* posted by the ibv_wr_* functions */
	LW_RDMA_UNFINISHED = 1u << 4,  /* no completion was seen until its queue pair ended */
	LW_RDMA_UNTIMED = 1u << 5,     /* start or end was not seen: the two times are equal */
	LW_RDMA_UNSIZED = 1u << 6,     /* received bytes could not be known: 0 */
};
enum { LW_RDMA_NO_STATUS = UINT16_MAX };

/* Element types, as bytes an element matters more than the name. X(NAME, number, text, bytes) */
#define LW_DTYPES(X)                                                                               \
	X(UNKNOWN, 0, "unknown", 0)                                                                \
	X(UINT8, 1, "uint8", 1)                                                                    \
	X(INT8, 2, "int8", 1)                                                                      \
	X(UINT16, 3, "uint16", 2)                                                                  \
	X(INT16, 4, "int16", 2)                                                                    \
	X(INT32, 5, "int32", 4)                                                                    \
	X(INT64, 6, "int64", 8)                                                                    \
	X(FLOAT16, 7, "float16", 2)                                                                \
	X(FLOAT32, 8, "float32", 4)                                                                \
	X(FLOAT64, 9, "float64", 8)                                                                \
	X(BOOL, 10, "bool", 1)                                                                     \
	X(BFLOAT16, 11, "bfloat16", 2)                                                             \
	X(UINT32, 12, "uint32", 4)                                                                 \
	X(UINT64, 13, "uint64", 8)                                                                 \
	X(FLOAT8E4M3, 14, "float8_e4m3", 1)                                                        \
	X(FLOAT8E5M2, 15, "float8_e5m2", 1)

enum lw_dtype {
#define X(name, number, text, bytes) LW_DTYPE_##name = (number),
	LW_DTYPES(X)
#undef X
};

/* X(NAME, number, name in the store; the unit is its suffix) */
#define LW_SETTINGS(X)                                                                             \
	X(FUSION_BYTES, 1, "fusion_bytes")                                                         \
	X(CYCLE_NS, 2, "cycle_ns")                                                                 \
	X(FUSION_EFFECTIVE_BYTES, 3, "fusion_effective_bytes")                                     \
	X(CACHE_CAPACITY, 4, "cache_capacity")                                                     \
	X(AUTOTUNE, 5, "autotune")                                                                 \
	X(HIERARCHICAL_ALLREDUCE, 6, "hierarchical_allreduce")                                     \
	X(TORUS_ALLREDUCE, 7, "torus_allreduce")                                                   \
	X(DISABLE_GROUP_FUSION, 8, "disable_group_fusion")                                         \
	X(BATCH_D2D_MEMCOPIES, 9, "batch_d2d_memcopies")                                           \
	X(CACHE_ENABLED, 10, "cache_enabled")                                                      \
	X(TIMELINE, 11, "timeline")                                                                \
	X(BUCKET_CAP_BYTES, 12, "bucket_cap_bytes")                                                \
	X(FIRST_BUCKET_BYTES, 13, "first_bucket_bytes")

enum lw_setting {
#define X(name, number, text) LW_SETTING_##name = (number),
	LW_SETTINGS(X)
#undef X
};
/* ENV: read from the environment (or the documented default); LIVE: read from the framework itself. */
enum lw_setting_source { LW_SOURCE_DEFAULT = 1, LW_SOURCE_ENV = 2, LW_SOURCE_LIVE = 3 };

/* Why something is missing. X(NAME, number, text in the store) */
#define LW_LOSS_REASONS(X)                                                                         \
	X(RING_FULL, 1, "ring full")                                                               \
	X(NO_RING, 2, "no ring: no room in shared memory")                                         \
	X(REENTRY, 3, "called from inside the tracer (signal handler)")                            \
	X(LAYOUT, 4, "unknown object layout: not read")                                            \
	X(TABLE_FULL, 5, "a fixed table of the tracer is full")                                    \
	X(TORN, 6, "invalid record: not used")                                                     \
	X(UNKNOWN_KIND, 7, "record kind unknown to this version")                                  \
	X(LATE_JOIN, 8, "ring appeared after the run was closed")                                  \
	X(UNMATCHED_STRING, 9, "text of an id never arrived")                                      \
	X(DIED, 10, "process ended without saying so (killed or crashed)")                         \
	X(RUNNING, 11, "process still ran when the run was closed")                                \
	X(BAD_RING, 12, "ring file is damaged: not read")                                          \
	X(TAKEN, 13, "taken by an earlier collector whose file is gone")                           \
	X(NOT_SAMPLED, 14, "counter or socket that could not be read")                             \
	X(UNSEEN, 15, "it completed, but was never seen to begin")                                 \
	X(UNENDED, 16, "it began, but its end was not seen")

/* How the detail of TORN begins where a trace that was imported stops inside of a record. */
#define LW_LOSS_CUT_OFF "the trace was cut off: "

enum lw_loss_reason {
#define X(name, number, text) LW_LOSS_##name = (number),
	LW_LOSS_REASONS(X)
#undef X
};

/* ---- payloads: each is exactly LW_EVENT_ARG_BYTES ------------------------------------------ */

struct lw_ev_process {
	int32_t rank, size;             /* -1 = not known */
	int32_t local_rank, local_size; /* -1 = not known */
	uint64_t command;               /* string id of the command line */
	uint32_t ppid;
	uint16_t framework, transport; /* enum lw_framework, enum lw_transport; 0 = not known yet */
	uint64_t reserved;
};

struct lw_ev_string {
	uint64_t id;      /* lw_string_id() of the whole text */
	uint16_t n_bytes; /* length of the whole text, at most LW_STRING_MAX_BYTES */
	char text[30];    /* bytes [30 * op, 30 * op + 30), zero padded */
};
enum { LW_STRING_PART_BYTES = 30, LW_STRING_MAX_BYTES = 1020 };

struct lw_ev_clock {
	int64_t realtime_ns; /* CLOCK_REALTIME at t0 */
	uint64_t tsc;        /* 0 where there is none */
	uint64_t reserved[3];
};

struct lw_ev_comm {
	uint64_t comm;   /* the same on all its ranks: hash of its world ranks, parent and serial */
	uint64_t parent; /* comm it was made from, 0 = none or unknown */
	int32_t size, rank; /* members, and this rank's place */
	uint32_t serial; /* k-th of its kind (MPI: made from that parent), equal on all its ranks */
	uint16_t transport; /* enum lw_transport */
	uint16_t reserved16;
	uint64_t reserved;
};

struct lw_ev_collective {
	uint64_t comm;           /* key of struct lw_ev_comm, 0 = unknown */
	uint64_t sent_bytes;     /* payload this rank contributes (allreduce: count x type size) */
	uint64_t received_bytes; /* payload this rank is given */
	int32_t root;            /* -1 = none */
	uint16_t flags;          /* enum lw_coll_flag */
	uint16_t transport;      /* enum lw_transport */
	uint64_t reserved;
};

struct lw_ev_message {
	uint64_t comm;
	uint64_t bytes;
	int32_t peer; /* rank in comm; -1 = any */
	int32_t tag;
	uint16_t flags; /* enum lw_coll_flag */
	uint16_t reserved16[3];
	uint64_t reserved;
};

struct lw_ev_ready {
	uint64_t
		object; /* key that joins with lw_ev_batch_tensor.object; newest earlier one wins */
	uint64_t name;  /* string id, 0 = not known here */
	uint64_t bytes; /* 0 = not known here */
	uint64_t reserved[2];
};

/* Rounds that change nothing are not recorded one by one: they are counted in the next record. */
struct lw_ev_cycle {
	uint64_t in_bits;  /* first word this rank sent (0 for RESPONSES) */
	uint64_t out_bits; /* first word agreed */
	uint32_t n_words;  /* length of the vectors in 64-bit words; RESPONSES: n responses */
	uint32_t
		n_unchanged; /* rounds since the previous record of this thread that changed nothing */
	int64_t unchanged_ns;      /* time spent inside those rounds, ns */
	int64_t unchanged_span_ns; /* from the first of them to the end of the last, ns */
};

struct lw_ev_batch {
	uint64_t batch; /* process-wide serial, from 1 */
	uint64_t bytes; /* payload, sum over its tensors (0 = not known) */
	uint64_t
		fusion_bytes; /* fusion threshold in force (0 = no fusion), UINT64_MAX = not known */
	uint32_t n_tensors;
	int32_t process_set; /* 0 = all ranks; -1 = not known */
	uint16_t dtype;      /* enum lw_dtype */
	uint16_t flags;      /* enum lw_coll_flag */
	uint16_t framework;  /* enum lw_framework */
	uint16_t reserved16;
};

struct lw_ev_batch_tensor {
	uint64_t batch;  /* serial of its batch; comes before the BATCH record itself */
	uint64_t name;   /* string id */
	uint64_t object; /* 0 = could not be read */
	uint64_t bytes;
	uint16_t dtype; /* enum lw_dtype */
	uint16_t reserved16[3];
};

struct lw_ev_setting {
	double value;    /* in the unit of the setting's name */
	uint32_t source; /* enum lw_setting_source */
	uint32_t reserved32;
	uint64_t reserved[3];
};

struct lw_ev_wait {
	uint64_t reserved[5];
};

struct lw_ev_socket {
	uint32_t socket; /* process-wide serial, from 1 */
	uint16_t local_port, peer_port;
	uint8_t local[16], peer[16]; /* IPv6, or IPv4 mapped into IPv6 */
};

struct lw_ev_socket_bytes {
	uint32_t socket;
	uint32_t n_sends;
	uint64_t sent_bytes, received_bytes; /* since the connection was first seen */
	uint32_t n_receives;
	uint32_t reserved32;
	uint64_t reserved;
};

struct lw_ev_tcp_info {
	uint32_t socket;
	uint32_t rtt_us;               /* smoothed */
	uint64_t acked_bytes;          /* bytes_acked, since the connection opened */
	uint64_t received_bytes;       /* bytes_received */
	uint64_t delivery_bytes_per_s; /* most recent delivery rate */
	uint32_t n_retransmits;        /* total_retrans, segments */
	uint32_t congestion_window_segments;
};

struct lw_ev_gloo_message {
	uint32_t socket;
	uint32_t reserved32;
	uint64_t slot;    /* prefix << 56 | tag << 24 | delta */
	uint64_t bytes;   /* payload of this message */
	uint64_t is_sent; /* 1 sent, 0 received */
	uint64_t reserved;
};

struct lw_ev_mark {
	uint64_t name; /* string id */
	int64_t value; /* step number, or the user's */
	uint64_t reserved[3];
};

struct lw_ev_loss {
	uint64_t count;
	uint64_t where; /* string id, 0 = none */
	uint64_t reserved[3];
};

struct lw_ev_hook {
	uint64_t name;    /* string id, e.g. "horovod.execute" */
	uint64_t detail;  /* string id, e.g. the library it was found in, or why it was refused */
	uint32_t n_slots; /* functions in place */
	uint32_t reserved32;
	uint64_t reserved[2];
};

struct lw_ev_thread {
	uint64_t name; /* string id of the thread's comm name */
	uint64_t reserved[4];
};

struct lw_ev_parameter {
	uint32_t reducer;  /* k-th of the process, from 0: the same on all ranks */
	uint32_t position; /* among the parameters of its reducer, from 0 */
	uint64_t bytes;    /* of its gradient */
	uint16_t dtype;    /* enum lw_dtype */
	uint16_t reserved16[3];
	uint64_t reserved[2];
};

struct lw_ev_gradient {
	uint32_t reducer, position; /* of its PARAMETER record */
	uint64_t reserved[4];
};

/* All ranks make the same probe operations in the same order. */
struct lw_ev_probe {
	uint64_t bytes;     /* payload of every rank */
	uint32_t number;    /* k-th of the probe, from 0, the same on all ranks */
	uint32_t burst;     /* operations of one burst follow each other at once, from 0 */
	uint32_t position;  /* in its burst, from 0 */
	uint16_t transport; /* enum lw_transport */
	uint16_t reserved16;
	uint64_t reserved[2];
};

struct lw_ev_rdma_port {
	uint64_t device; /* string id */
	uint8_t gid[16]; /* of this port and index; all zero = not known */
	uint32_t port;   /* process-wide serial, from 1 */
	uint16_t lid;    /* 0 = none (RoCE) */
	uint8_t number;  /* of the port on its device, 0 = not known */
	uint8_t gid_index;
	uint64_t reserved;
};

struct lw_ev_rdma_qp {
	uint32_t qp;          /* process-wide serial, from 1 */
	uint32_t number;      /* on the wire; unique on its device, and used again */
	uint32_t peer_number; /* 0 = none or not known */
	uint32_t port;        /* serial of its RDMA_PORT, 0 = not known */
	uint8_t peer_gid[16]; /* all zero = none or not known */
	uint16_t peer_lid;
	uint8_t type;               /* enum ibv_qp_type, 0 = not known */
	uint8_t flags;              /* enum lw_rdma_qp_flag */
	uint32_t n_unused_receives; /* ENDED: posted and never filled */
};

struct lw_ev_rdma_work {
	uint64_t bytes;       /* sent: of its local buffers; received: as the completion says */
	uint32_t qp;          /* serial, 0 = not known */
	uint32_t peer_number; /* where each request has its own peer (UD), else 0 */
	uint16_t n_sge;       /* local buffers */
	uint16_t status;      /* enum ibv_wc_status, LW_RDMA_NO_STATUS = not known */
	uint16_t flags;       /* enum lw_rdma_flag */
	uint16_t reserved16;
	uint64_t reserved[2];
};

struct lw_ev_rdma_memory {
	uint64_t registered_bytes;                   /* at t0 */
	uint32_t n_registered;                       /* regions at t0 */
	uint32_t n_registrations, n_deregistrations; /* so far */
	uint32_t n_dmabufs;   /* registrations of another device's memory, so far */
	uint64_t register_ns; /* time spent in registrations so far */
	uint64_t reserved;
};

struct lw_event {
	int64_t t0_ns, t1_ns; /* CLOCK_MONOTONIC; t1 >= t0; equal for instants */
	uint32_t seq;         /* low 32 bits of the ring's count of pushes, lost ones included */
	uint16_t kind;        /* enum lw_event_kind */
	uint16_t op;          /* see the kind */
	union {
#define X(name, number, member, text) struct lw_ev_##member member;
		LW_EVENT_KINDS(X)
#undef X
		uint64_t arg[5];
	};
};

static_assert(sizeof(struct lw_event) == LW_EVENT_BYTES, "the record is 64 bytes");
#define X(name, number, member, text)                                                              \
	static_assert(sizeof(struct lw_ev_##member) == LW_EVENT_ARG_BYTES, #member);
LW_EVENT_KINDS(X)
#undef X

/** lw_string_id() - 64-bit FNV-1a of @n bytes at @text; never 0. */
static inline uint64_t lw_string_id(const char *text, uint64_t n)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (uint64_t i = 0; i < n; i++)
		hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return hash ? hash : 1;
}

#endif /* LAPWING_SCHEMA_EVENT_H */
