/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_table.h - the queue pairs of this process and what is posted on each and not yet completed.
 *
 * Writes: RDMA_PORT, RDMA_QP and RDMA_WORK records. Knows nothing of libibverbs' structures: hook_verbs*.c
 * translate. Work of one queue pair is a list under a flag that is only ever tried for. Who cannot have
 * it leaves a message in the queue pair's inbox, and whoever has it reads that before and after, but no
 * more of it than MAX_ACTS: so nobody waits, and nothing is forgotten. All memory is one mapping that the kernel wipes in a forked
 * child: there the tables are empty again, and no flag is held.
 */
#ifndef LAPWING_TRACER_VERBS_TABLE_H
#define LAPWING_TRACER_VERBS_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracer/tracer.h"

enum {
	LW_QPS_MAX = 1 << 17, /* at a time, shared receive queues among them */
	LW_QP_SLOTS = 2 * LW_QPS_MAX,
	LW_WORKS_MAX = 1 << 20, /* posted and not completed, of all queue pairs */
	LW_RDMA_PORTS_MAX = 256,
	LW_OPEN_POSTS = 1024
};

enum lw_queue { LW_QUEUE_SEND = 0, LW_QUEUE_RECV = 1, LW_QUEUE_UNKNOWN = 2 };

/* A work request, or a message in an inbox: what @kind says happens to @queue. */
struct lw_work {
	_Atomic uint32_t next;    /* index in the pool, 0 = none */
	uint32_t prev;            /* in a list */
	_Atomic uint32_t sibling; /* the request before it in the same post */
	uint8_t kind;             /* enum lw_work_kind */
	uint8_t queue;            /* enum lw_queue */
	uint16_t op;              /* enum lw_rdma_op */
	uint16_t flags;           /* enum lw_rdma_flag */
	uint16_t n_sge;
	uint16_t status; /* of a completion */
	bool is_passed; /* asks for no completion, and a later one had its own while this post was open */
	uint32_t peer_number;
	uint32_t owner; /* posted: key of the thread; completed: serial of the queue pair */
	uint64_t wr_id; /* the job's: compared, never followed */
	uint64_t bytes;
	int64_t at_ns;        /* posted, or polled */
	_Atomic uint64_t tag; /* of its post, LW_WORK_REFUSED when the device did not take it */
};

enum { LW_WORK_REFUSED = 1 };

/* One call that posts. */
struct lw_post {
	int64_t at_ns;
	uint32_t last; /* index of the last request */
	uint32_t n_untracked,
		n_awaited; /* that found no room in the pool; of these, that complete */
};

struct lw_work_list {
	uint32_t first, last; /* indices in the pool, 0 = none */
	uint32_t n;
};

/* Of ibv_wr_*: between start and complete, which libibverbs orders. */
struct lw_batch {
	struct lw_work_list list;
	uint32_t n_untracked, n_awaited; /* as of a post */
	bool is_last_untracked;
};

/* A queue pair, or (number LW_SRQ_NUMBER) a shared receive queue. */
struct lw_qp {
	_Atomic uint32_t is_held; /* the flag; guards lists, pending, free, n_free, is_signal_all */
	_Atomic uint32_t inbox;   /* newest message first */
	_Atomic uintptr_t context;
	_Atomic uint32_t number;
	struct lw_work_list lists[2];    /* by enum lw_queue, oldest first */
	struct lw_work_list pending;     /* taken out of the inbox, not acted on yet */
	_Atomic uint32_t n_untracked[2]; /* posted without room in the pool, not yet completed */
	uint32_t free, n_free;           /* works kept here for the next post */
	struct lw_batch batch;
	uintptr_t send_cq, recv_cq, srq;
	_Atomic uint32_t serial;
	int64_t made_ns;
	uint32_t port, peer_number;
	uint8_t type;
	_Atomic uint8_t flags; /* enum lw_rdma_qp_flag */
	bool is_signal_all, is_signalling_known;
	uint32_t next_free; /* of the queue pairs that are free */
};

enum { LW_SRQ_NUMBER = UINT32_MAX };

struct lw_qp_facts {
	uintptr_t context;
	uint32_t number;
	uintptr_t send_cq, recv_cq, srq; /* 0 = none */
	const char *device;              /* NULL = not known */
	uint8_t type, flags;
	bool is_signalling_known; /* flags tells whether all work is signalled */
};

struct lw_rdma_path {
	const char *device;
	uint8_t gid[16], peer_gid[16]; /* all zero = not known */
	uint32_t peer_number;
	uint16_t lid, peer_lid;
	uint8_t port, gid_index;
	uint8_t mtu; /* enum ibv_mtu, 0 = not known */
};

/* What a poll returned. */
struct lw_completion {
	uint64_t wr_id, bytes;
	int64_t at_ns;
	uint32_t peer_number; /* UD receives */
	uint16_t op;          /* enum lw_rdma_op of a receive */
	uint16_t status;
	uint16_t flags;      /* LW_RDMA_UNSIZED */
	enum lw_queue queue; /* unknown: failed, and then the completion does not say */
	uintptr_t cq;
};

/**
 * lw_verbs_begin() - a queue pair is made or used: map the tables, activate this process.
 * Return: false: nothing is to be recorded.
 */
bool lw_verbs_begin(void);

/** lw_verbs_is_on() - tables are there and this process records. */
bool lw_verbs_is_on(void);

/** lw_verbs_lose() - count @n that could not be followed; told at once the first time, then in sums. */
void lw_verbs_lose(enum lw_loss_reason reason, uint64_t n);

/** lw_qp_find() - lock-free. Return: NULL = not known. */
struct lw_qp *lw_qp_find(uintptr_t context, uint32_t number);

/** lw_qp_get() - find it, or make it known. Return: NULL = no room, which is counted. */
struct lw_qp *lw_qp_get(const struct lw_qp_facts *facts);

/**
 * lw_qp_created() - a new one, made since @since_ns: one of the same place and number that is older has
 * ended unseen, and one that is not is it (two hooks saw it being made).
 */
struct lw_qp *lw_qp_created(const struct lw_qp_facts *facts, int64_t since_ns);

/** lw_qp_connected() - @qp has a peer now. */
void lw_qp_connected(struct lw_qp *qp, const struct lw_rdma_path *path);

/** lw_qp_reset(), lw_qp_ended() - what is outstanding will never complete. Not to be used after its end. */
void lw_qp_reset(struct lw_qp *qp);
void lw_qp_ended(struct lw_qp *qp);

/* ---- work: verbs_work.c --------------------------------------------------------------------------- */

/** lw_qp_enter() - take the flag if it is free. Return: to be given to the calls below. */
bool lw_qp_enter(struct lw_qp *qp);
void lw_qp_leave(struct lw_qp *qp, bool is_in);

/**
 * lw_post_begin(), lw_post_end() - around the real call that posts. Until its end the device may refuse
 * what was noted, so no later completion says that it is done. @n_refused: of the last ones.
 */
void lw_post_begin(struct lw_post *post);
void lw_post_end(
	struct lw_qp *qp, enum lw_queue queue, const struct lw_post *post, uint32_t n_refused);

/** lw_work_post() - @work is about to be posted by @post; its owner, time and tag are set here. */
void lw_work_post(struct lw_qp *qp, bool is_in, const struct lw_work *work, struct lw_post *post);

/** lw_works_untracked() - @n posted ones are not followed, and @n_awaited of them will complete. */
void lw_works_untracked(struct lw_qp *qp, enum lw_queue queue, uint32_t n, uint32_t n_awaited);

/** lw_work_complete() - the poll returned a work request of @qp, or (NULL) of an unknown one. */
void lw_work_complete(struct lw_qp *qp, const struct lw_completion *completion);

/** lw_batch_*() - a chain of requests that becomes posted as a whole (ibv_wr_start to ibv_wr_complete). */
struct lw_work *lw_batch_add(struct lw_qp *qp, bool is_signalled); /* zeroed; NULL = no room */
struct lw_work *lw_batch_last(struct lw_qp *qp);                   /* NULL = none, or no room */
void lw_batch_post(struct lw_qp *qp, struct lw_post *post);
void lw_batch_drop(struct lw_qp *qp);

/* ---- between verbs_table.c and verbs_work.c ------------------------------------------------------- */

enum lw_work_kind { LW_WORK_POST, LW_WORK_COMPLETE, LW_WORK_RESET, LW_WORK_END };

struct lw_verbs_tables {
	_Atomic uint32_t
		slots[LW_QP_SLOTS];   /* index of a queue pair, 0 = never used, UINT32_MAX = left */
	_Atomic uint32_t is_changing; /* slots and ports: spun for, a bounded time */
	_Atomic uint32_t n_qps, n_works;       /* of the arrays, ever used */
	_Atomic uint64_t free_qps, free_works; /* count of changes << 32 | index */
	_Atomic uint32_t n_serials, n_ports;
	_Atomic uint64_t n_lost[2]; /* not yet told */
	_Atomic bool is_told[2];    /* of the same: that there are any */
	_Atomic bool is_reported;
	struct {
		_Atomic int64_t at_ns __attribute__((aligned(64)));
	} open_posts[LW_OPEN_POSTS]; /* by a hash of the thread's key */
	struct {
		uint64_t device;
		uint8_t gid[16];
		uint8_t number, gid_index;
	} ports[LW_RDMA_PORTS_MAX];
	struct lw_qp qps[LW_QPS_MAX];
	struct lw_work works[LW_WORKS_MAX];
};

extern struct lw_verbs_tables *_Atomic lw_verbs_tables;

/** lw_qp_free() - @qp has ended and holds nothing any more. */
void lw_qp_free(struct lw_qp *qp);

/** lw_qp_record() - an RDMA_QP record of @qp. */
void lw_qp_record(const struct lw_qp *qp, enum lw_rdma_qp_op op, const struct lw_rdma_path *path,
	uint32_t n_unused_receives);

/** lw_qp_tell() - leave the message @kind for @qp, or act on it at once. */
void lw_qp_tell(struct lw_qp *qp, enum lw_work_kind kind);

/** lw_qp_flush() - the process ends: tell the sends of @qp that never completed. */
void lw_qp_flush(struct lw_qp *qp);

#endif /* LAPWING_TRACER_VERBS_TABLE_H */
