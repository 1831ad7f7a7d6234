/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_nccl_plugin.h - between hook_nccl_plugin.c, nccl_event.c, nccl_own.c and nccl_proxy.c; for nobody else.
 *
 * One form of event that all versions of the plugin interface are read into, and the pool of proxy operations.
 */
#ifndef LAPWING_TRACER_HOOK_NCCL_PLUGIN_H
#define LAPWING_TRACER_HOOK_NCCL_PLUGIN_H

#include "tracer/nccl.h"
#include "tracer/nccl_abi.h"

struct lw_nccl_event {
	uint32_t kind;      /* one bit of enum lw_nccl_profile */
	uint64_t parent;    /* handle */
	uint64_t group;     /* handle of the plan that it is launched with, 0 = not known */
	uint64_t comm_hash; /* v1 to v3 */
	int32_t rank,
		root; /* -1 = none; in its communicator. root: also the peer of a send or receive */
	uint64_t count, bytes;
	uint16_t op;   /* enum lw_nccl_op */
	uint8_t dtype; /* enum lw_dtype */
	uint8_t algorithm, protocol, n_channels;
	bool is_captured, is_send;
	int32_t depth; /* of a group */
	int32_t pid, channel, n_steps, step;
	int64_t net_id;
	const void *net_data;
};

/** lw_nccl_event_read() - *@at, as version @version (1 to 6) lays it out. Unknown kinds: only kind and parent. */
void lw_nccl_event_read(unsigned version, const void *at, struct lw_nccl_event *event);

/*
 * Whose an operation is. A proxy may work for another process (PXN) and then has that one's handle as its parent. NCCL tells
 * processes apart by their pids, which containers may share, so the handles that NCCL is given of operations bear a number
 * that this process drew.
 */

/** lw_nccl_own_begin() - NCCL calls this process: draw its number, unless that was done since it was forked. */
void lw_nccl_own_begin(void);

/** lw_nccl_own() - @handle of an operation, or of one that was dropped, as NCCL is given it. */
uint64_t lw_nccl_own(uint64_t handle);

/** lw_nccl_own_handle() - the other way round. Return: LW_NCCL_HANDLE_NONE = @handle is another process's. */
uint64_t lw_nccl_own_handle(uint64_t handle);

/**
 * lw_nccl_own_parent() - the parent of a proxy or of a part of a kernel is of this process, and not of another communicator
 * than @comm (NULL = not known). Then event->parent is a handle as this process knows it.
 */
bool lw_nccl_own_parent(struct lw_nccl_event *event, const struct lw_nccl_comm *comm);

/* What recordEventState() says, of all versions. */
struct lw_nccl_change {
	unsigned version;
	int state;                                      /* enum lw_nccl_state */
	const union lw_nccl_state_arguments *arguments; /* or NULL */
	int64_t now_ns;
};

/* ---- hook_nccl_plugin.c, for the tables of nccl_tables.c: of all versions ---------------------------------- */

/** lw_nccl_plugin_open() - a communicator begins. @mask: NCCL's own, which events it tells of. */
int lw_nccl_plugin_open(
	unsigned version, void **ret_context, int *mask, const struct lw_nccl_comm_facts *facts);

/* Return: ncclSuccess. */
int lw_nccl_plugin_start(unsigned version, void *at, void **ret_handle, const void *event);
int lw_nccl_plugin_stop(void *at);
int lw_nccl_plugin_change(unsigned version, void *at, int state, const void *arguments);
int lw_nccl_plugin_finalize(void *at);

/* ---- nccl_proxy.c ------------------------------------------------------------------------------------ */

/**
 * lw_nccl_proxy_start() - a proxy operation, or the part of a kernel on one channel, began.
 * @comm: or NULL; @is_own: its parent is of this process
 * Return: its handle; LW_NCCL_HANDLE_NONE = no room (counted).
 */
uint64_t lw_nccl_proxy_start(
	struct lw_nccl_comm *comm, const struct lw_nccl_event *event, bool is_own, int64_t now_ns);

/** lw_nccl_proxy_step() - a step of the proxy operation event->parent began. Return: its handle. */
uint64_t lw_nccl_proxy_step(const struct lw_nccl_event *event, int64_t now_ns);

/** lw_nccl_proxy_net() - a network request of the step event->parent began. Return: its handle. */
uint64_t lw_nccl_proxy_net(const struct lw_nccl_event *event, int64_t now_ns);

/* These return false where @handle is of something that has ended, or never was. */
bool lw_nccl_proxy_change(uint64_t handle, const struct lw_nccl_change *change);
bool lw_nccl_proxy_stop(uint64_t handle, int64_t now_ns);

/** lw_nccl_proxies_flush() - write what has not ended of @comm, of all when NULL. */
void lw_nccl_proxies_flush(const struct lw_nccl_comm *comm);

#endif /* LAPWING_TRACER_HOOK_NCCL_PLUGIN_H */
