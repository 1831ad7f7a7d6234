/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h - NCCL's communicators and operations, whoever tells of them: preload, profiler plugin, NVTX.
 *
 * Writes: COMM (transport NCCL) and NCCL_OP records. Nothing here waits, locks or allocates: NCCL calls its
 * plugin from the user's threads and from proxy threads at once.
 *
 * One operation is counted once although three may tell of it:
 * - A call of NCCL's API is begun by the outermost who sees it on its thread (the preload, else NVTX, else the
 *   plugin's API event): lw_nccl_call_begin() gives a handle, and 0 to everybody inside of that call.
 * - The plugin's task event (Coll, P2p) takes that over, lw_nccl_op_start(): by the handle of the call on this
 *   thread or, where its version has no API events, by communicator, kind and bytes. It knows more and wins; what
 *   only the call knew stays: when it was made, in place or not, its type.
 * - What nobody took over is written when its call, or the group around it, returns; on a communicator that has
 *   the plugin it waits, for NCCL may launch later, until its place in the pool is needed or the communicator ends.
 *
 * A handle is never a pointer: it names a serial, and what it named may be gone. A handle that means nothing is
 * never an error here.
 */
#ifndef LAPWING_TRACER_NCCL_H
#define LAPWING_TRACER_NCCL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracer/tracer.h"

enum { LW_NCCL_ID_BYTES = 128 }; /* ncclUniqueId */

/* ---- names of communicators: nccl_hash.c ------------------------------------------------------- */

/**
 * lw_nccl_hash_id() - NCCL's own name of the communicator that ncclCommInitRank*() makes of @id.
 * @id: LW_NCCL_ID_BYTES; of several (ncclCommInitRankScalable) the first
 * @version: as ncclGetVersion() tells it, 22809 for 2.28.9
 */
uint64_t lw_nccl_hash_id(const void *id, int version);

/**
 * lw_nccl_hash_split() - NCCL's own name of a communicator made of @parent by ncclCommSplit() or Shrink.
 * @n_splits: calls of ncclCommSplit() on @parent so far, this one included, whatever the color; of a Shrink 0
 * @color: of a Shrink 0
 */
uint64_t lw_nccl_hash_split(uint64_t parent, int32_t n_splits, int32_t color, int version);

/** lw_nccl_dtype() - enum lw_dtype of an ncclDataType_t. @ret_bytes: of one element, 0 = not known */
uint8_t lw_nccl_dtype(int nccl_type, uint8_t *ret_bytes);

/* ---- communicators: nccl_comm.c ------------------------------------------------------------------ */

struct lw_nccl_comm {
	_Atomic uint64_t key; /* NCCL's commHash: the same on all ranks; 0 = free */
	_Atomic uint64_t parent;
	_Atomic int32_t size; /* 0 = not known */
	_Atomic int32_t rank_plus_1;
	_Atomic uint32_t serial, how; /* of the COMM record */
	_Atomic uint32_t
		n_contexts; /* plugin contexts of it: more than one where one process has several ranks */
	_Atomic bool is_announced, is_ended;
	_Atomic bool
		has_network; /* a proxy or kernel told of an operation: completion can be known */
	_Atomic uint64_t running; /* serial of the newest operation that a part of has ended */
	_Atomic uint64_t settled; /* nothing new can come of its operations of lower serials */
};

/* What its teller knows of a communicator; zero or -1 where it says so = not known. */
struct lw_nccl_comm_facts {
	uint64_t key;    /* never 0 */
	uint64_t parent; /* 0 = none or not known */
	int32_t size;    /* 0 = not known */
	int32_t rank;    /* -1 = not known */
	uint32_t serial; /* k-th split of its parent; else 0 */
	uint16_t how;    /* enum lw_comm_how; 0 = not known */
};

/**
 * lw_nccl_comm_seen() - what @facts adds to what is known of a communicator; its COMM record is written as soon
 * as size, rank and how it was made are known, else with its first operation's record, or at its end. Return: its entry, which stays; NULL = no room (counted) or not live.
 */
struct lw_nccl_comm *lw_nccl_comm_seen(const struct lw_nccl_comm_facts *facts);

/** lw_nccl_comm_find() - Return: NULL = never seen. */
struct lw_nccl_comm *lw_nccl_comm_find(uint64_t key);

/** lw_nccl_comm_announce() - write its COMM record now, with what is known, unless it is out. */
void lw_nccl_comm_announce(struct lw_nccl_comm *comm);

/** lw_nccl_comms_flush() - the process ends: announce what is not. */
void lw_nccl_comms_flush(void);

/** lw_nccl_comm_ended() - it was destroyed or aborted: what waits of it is written. */
void lw_nccl_comm_ended(struct lw_nccl_comm *comm);

/* Does the profiler plugin tell of its operations? Not of those of one rank: NCCL copies there. */
static inline bool lw_nccl_comm_has_plugin(const struct lw_nccl_comm *comm)
{
	return comm && atomic_load_explicit(&comm->n_contexts, memory_order_relaxed) &&
	       atomic_load_explicit(&comm->size, memory_order_relaxed) != 1;
}

/* ---- operations: nccl_op.c -------------------------------------------------------------------------- */

struct lw_nccl_facts {
	struct lw_nccl_comm *comm; /* NULL = not known */
	int64_t t0_ns;
	uint64_t bytes;
	int32_t peer;   /* root or peer in comm, -1 = none */
	uint32_t group; /* 0 = none */
	bool is_plan; /* group: launched together; told only where it has more than one operation */
	uint16_t op;  /* enum lw_nccl_op */
	uint16_t flags;    /* enum lw_nccl_flag: IN_PLACE, IN_GRAPH, NO_BYTES */
	uint16_t source;   /* enum lw_nccl_source */
	uint8_t algorithm; /* enum lw_nccl_algorithm; these three 0 = not known */
	uint8_t protocol;  /* enum lw_nccl_protocol */
	uint8_t n_channels;
	uint8_t dtype; /* enum lw_dtype */
};

/* Operations are not recorded: lapwing_nccl_stop(). Those under way are, to their end. */
extern _Atomic bool lw_nccl_is_off;

/**
 * lw_nccl_call_begin() - a call of the API begins on this thread. GPU work launched until its end is for it.
 * Return: its handle, to be given to lw_nccl_call_end(); 0 = somebody outside of us tells of it, or not live.
 */
uint64_t lw_nccl_call_begin(const struct lw_nccl_facts *facts);

/** lw_nccl_call_current() - handle of the call that this thread is in, 0 = none. */
uint64_t lw_nccl_call_current(void);

/**
 * lw_nccl_call_end() - it returned. @flags: LW_NCCL_FAILED or 0. Written now, unless in a group or the plugin's.
 * @handle: 0 does nothing
 */
void lw_nccl_call_end(uint64_t handle, uint16_t flags, int64_t t1_ns);

/** lw_nccl_group_serial() - a new one: calls of one group share it. */
uint32_t lw_nccl_group_serial(void);

/** lw_nccl_group_begin() - ncclGroupStart() returned; they nest. */
void lw_nccl_group_begin(void);

/** lw_nccl_group_launch() - ncclGroupEnd() is about to be called: GPU work is for the group's first operation. */
void lw_nccl_group_launch(void);

/** lw_nccl_group_end() - ncclGroupEnd() returned. @flags as for lw_nccl_call_end(). */
void lw_nccl_group_end(uint16_t flags, int64_t t1_ns);

/* What the kind of a handle is, in its upper four bits; never 0, so that no handle is NULL. */
enum lw_nccl_handle {
	LW_NCCL_HANDLE_OP = 1, /* of an operation or a call: its serial */
	LW_NCCL_HANDLE_PROXY,
	LW_NCCL_HANDLE_STEP,
	LW_NCCL_HANDLE_NET,
	LW_NCCL_HANDLE_GROUP,  /* its serial */
	LW_NCCL_HANDLE_LAUNCH, /* serial of the operation that is launched */
	LW_NCCL_HANDLE_CALL,   /* of an operation: its call, begun by the plugin's API event */
	LW_NCCL_HANDLE_INSIDE, /* the same, begun by who called the plugin, who ends it too */
	LW_NCCL_HANDLE_NONE    /* dropped, or of no interest */
};

static inline uint64_t lw_nccl_handle(enum lw_nccl_handle kind, uint64_t value)
{
	return (uint64_t)kind << 60 | (value & (UINT64_MAX >> 4));
}

/* Return: an enum lw_nccl_handle, or what no handle has. */
static inline unsigned lw_nccl_handle_kind(uint64_t handle)
{
	return (unsigned)(handle >> 60);
}

static inline uint64_t lw_nccl_handle_value(uint64_t handle)
{
	return handle & (UINT64_MAX >> 4);
}

/**
 * lw_nccl_op_start() - the plugin has a task of an operation: a new one, or what @call began.
 * @call: handle of the call that it is of, 0 = look for one
 * Return: its handle; LW_NCCL_HANDLE_NONE = dropped (counted).
 */
uint64_t lw_nccl_op_start(uint64_t call, const struct lw_nccl_facts *facts);

/** lw_nccl_op_stop() - that task is enqueued. Return: false = it was not there, or was stopped already. */
bool lw_nccl_op_stop(uint64_t handle, int64_t now_ns);

/**
 * lw_nccl_part_begin() - a proxy or kernel works for it: it is not complete before lw_nccl_part_end().
 * Return: false = the operation is gone, or was never there.
 */
bool lw_nccl_part_begin(uint64_t handle);
void lw_nccl_part_end(uint64_t handle, int64_t now_ns);

/** lw_nccl_op_captured() - the call was captured into a CUDA graph: each launch of that has its own operations. */
void lw_nccl_op_captured(uint64_t handle);

/** lw_nccl_group_first() - serial of the first operation of a group, 0 = not known. */
uint64_t lw_nccl_group_first(uint32_t group);

/** lw_nccl_ops_flush() - write what waits of @comm, of all when NULL. */
void lw_nccl_ops_flush(const struct lw_nccl_comm *comm);

/* ---- where in a call a thread is: of struct lw_thread_memory; GPU work: cupti.h ----------------------- */

/** lw_nccl_launch_begin() - what this thread launches is for operation @serial, until lw_nccl_launch_end(). */
void lw_nccl_launch_begin(uint64_t serial);
void lw_nccl_launch_end(void);

/* ---- the profiler plugin: hook_nccl_plugin.c ----------------------------------------------------------- */

/** lw_nccl_plugin_on() - from now on operations are recorded, and NCCL calls the plugin, or not; at any time. */
void lw_nccl_plugin_on(bool is_on);

/**
 * lw_nccl_plugin_missing() - a communicator was made and no plugin was asked for: record why, once a process.
 * @version: as ncclGetVersion() tells it, 0 = not known. For the preload, when the communicator is made.
 */
void lw_nccl_plugin_missing(int version);

#endif /* LAPWING_TRACER_NCCL_H */
