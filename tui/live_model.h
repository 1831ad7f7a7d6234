/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_model.h - what a growing run says about its last minutes: figures of each rank in slots of 250 ms.
 *
 * Reads: rows, in the order of one look: per look processes first, then when ranks resumed, ready times, members,
 * operations, waits.   Writes: nothing. Bounded memory: ten minutes of slots a rank, the newest ready times, the newest
 * operations. Times are ns of the host's CLOCK_MONOTONIC, all ranks of one host.
 *
 * How its figures are made, simpler than the analysis after the run and without its exclusions:
 *
 *	step     from the largest tensor that recurs on this rank to its next operation, or from one mark of the
 *	         user's (lapwing_mark.h) to the next; a plain MPI program: every ops_per_step operations, once
 *	         an analysis has told how many
 *	exposed  recorded waits of the training thread, each up to the end of the last operation in it: what
 *	         comes after is idle (docs/phases.md). A plain program's blocking collectives are its waits.
 *	         A share of the time since the first step began; while steps are not known, since the first record
 *	late     at the operation of a step before which ranks computed most differently: how much longer this rank did
 *		 than the one that did least, from when it resumed (its last wait ended; a plain program: its operation
 *		 before) to when it had the last of its tensors queued (a plain program: entered it). Who only resumes
 *		 later, as the gradients come later over a slow link, is not late. While steps are not known: at each
 *		 operation
 */
#ifndef LAPWING_TUI_LIVE_MODEL_H
#define LAPWING_TUI_LIVE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "base/vec.h"

#define LW_LIVE_SLOT_NS (250 * LW_NS_PER_MS)

enum {
	LW_LIVE_HOST_BYTES = 64,
	LW_LIVE_NAME_BYTES = 128,
	LW_LIVE_SLOTS = 2400,   /* ten minutes */
	LW_LIVE_READIES = 8192, /* of a rank, a power of two */
	LW_LIVE_GROUPS = 1024,  /* operations that may wait for their other ranks */
	LW_LIVE_ENDS = 64,      /* newest ends of operations of a rank */
	LW_LIVE_LATES = 64,     /* newest steps whose worst operation may still change */
	LW_LIVE_BOUNDS = 256,   /* newest beginnings of its steps */
	LW_LIVE_RESUMES = 1024, /* newest ends of its waits */
};

struct lw_live_slot {
	int64_t number; /* time / LW_LIVE_SLOT_NS; another one: nothing is known of this time */
	int64_t blocked_ns;
	int64_t steps_ns, late_ns; /* sums */
	uint32_t n_steps;          /* that ended here */
	uint32_t n_late;           /* steps (operations) that late_ns is the sum over */
	uint32_t n_last;           /* of them, in which this rank computed longest */
	uint32_t n_ops;
	double sent_bytes, received_bytes; /* TCP payload */
	uint64_t n_lost;
};

struct lw_live_name { /* a tensor of a rank, by the id of its name */
	uint64_t bytes;
	int64_t last_ns;
	uint32_t n;
};

struct lw_live_ready {
	uint64_t object;
	int64_t at_ns;
	uint64_t before; /* the one of the same object before it, counted from 1; 0 = none */
};

struct lw_live_seen { /* newest ready of an object */
	uint64_t object, newest;
};

struct lw_live_socket {
	int64_t at_ns;
	uint64_t sent_bytes, received_bytes;
	bool is_known;
};

enum lw_live_ended { LW_LIVE_RUNS, LW_LIVE_EXITED, LW_LIVE_DIED };

struct lw_live_rank { /* a process; one without a number is not shown as a rank */
	int64_t process_id, pid;
	char host[LW_LIVE_HOST_BYTES];
	int32_t rank, size; /* LW_NONE: not known */
	int framework, transport;
	int64_t start_ns, end_ns; /* first record; newest one so far */
	enum lw_live_ended ended;
	uint64_t n_steps, n_ops; /* counted since the screen looks */
	uint64_t n_world_ops;    /* of a plain program: those of all ranks */
	uint64_t n_stored, n_lost;
	bool has_marks, has_waits, has_ready;
	bool is_exposed_unknown; /* nonblocking collectives of a plain program */
	int64_t counting_ns;     /* its first step began; 0 = not known */
	int64_t step_ns;         /* the last one; 0 = none yet */
	int64_t boundary_ns;     /* the step in progress began; 0 = not known */
	int64_t anchor;          /* id of the name that steps are counted by, LW_NONE */
	lw_vec(struct lw_live_name) names;
	lw_vec(struct lw_live_socket) sockets;
	bool has_traffic;
	struct lw_live_ready *readies; /* a ring of LW_LIVE_READIES */
	struct lw_live_seen *seen;     /* a hash table of as many */
	uint64_t n_readies;
	size_t n_seen;
	int64_t ends_ns[LW_LIVE_ENDS];
	uint64_t n_ends;
	int64_t bounds_ns[LW_LIVE_BOUNDS];
	uint64_t n_bounds;
	int64_t resumes_ns[LW_LIVE_RESUMES];
	uint64_t n_resumes;
	struct lw_live_slot *slots; /* LW_LIVE_SLOTS */
};

struct lw_live_group { /* one operation, until all ranks have told of it */
	int64_t serial;
	int64_t name_id; /* of a member: the same on all ranks, or they are not the same operation */
	uint32_t n_done;
	bool is_mixed;
};

struct lw_live_late { /* the operation of a step before which ranks computed most differently */
	int64_t step, spread_ns;
	int64_t at_ns; /* counts in this time's slots */
};

struct lw_live_model {
	lw_vec(struct lw_live_rank) ranks; /* by process, in the order in which they appeared */
	struct lw_live_group *groups;      /* LW_LIVE_GROUPS, by serial */
	int64_t *ready_ns;                 /* group x rank; 0 = not known */
	int64_t *resumed_ns;               /* likewise, before that */
	size_t n_group_ranks;              /* that these have room for */
	struct lw_live_late *late;         /* LW_LIVE_LATES, by step */
	int64_t *late_ns;                  /* step x rank, LW_NONE: not part of it */
	int64_t late_step;                 /* the newest one; 0 = steps are not known */
	int64_t first_ns, newest_ns;       /* of all records; 0 = none */
	uint32_t ops_per_step;             /* of a plain program, 0 = not known */
	bool is_partial; /* earlier rows were skipped: counts since the beginning are not known */
	bool has_batches, has_waits;
	int64_t n_nccl_ops; /* in the file: of a plain program they are counted, and not followed */
	const char *why_not_late; /* static; NULL: operations can be compared */
	uint64_t n_groups;        /* compared so far */
};

void lw_live_model_done(struct lw_live_model *model);

/** lw_live_model_copy() - what figures are made of; nothing can be added to it. Return: LW_OK, LW_ERR_NOMEM. */
int lw_live_model_copy(struct lw_live_model *into, const struct lw_live_model *from);

struct lw_live_process {
	int64_t process_id, pid, start_ns, end_ns; /* 0 = not known */
	const char *host;                          /* NULL = not known */
	int32_t rank, size;                        /* LW_NONE */
	int framework, transport;
	enum lw_live_ended ended;
};

/** lw_live_see_process() - new, or what is new of it. Return: LW_OK, LW_ERR_NOMEM. */
int lw_live_see_process(struct lw_live_model *model, const struct lw_live_process *process);

/** lw_live_rank_of() - of a process. NULL: not seen. Valid until the next process is seen. */
struct lw_live_rank *lw_live_rank_of(struct lw_live_model *model, int64_t process_id);

/** lw_live_see_counts() - totals of a process: records stored and lost so far; what is new counts at @at_ns. */
void lw_live_see_counts(struct lw_live_model *model, struct lw_live_rank *rank, int64_t at_ns,
	uint64_t n_stored, uint64_t n_lost);

/** lw_live_see_resume() - a wait of its training thread ended. */
void lw_live_see_resume(struct lw_live_model *model, struct lw_live_rank *rank, int64_t at_ns);

void lw_live_see_ready(struct lw_live_model *model, struct lw_live_rank *rank, uint64_t object,
	int64_t name_id, int64_t at_ns);

struct lw_live_member {
	int64_t at_ns, serial, name_id; /* name_id 0: not known */
	uint64_t object, bytes;
};

/** lw_live_see_member() - a tensor that an operation carries. Return: LW_OK, LW_ERR_NOMEM. */
int lw_live_see_member(struct lw_live_model *model, struct lw_live_rank *rank,
	const struct lw_live_member *member);

/** lw_live_see_batch() - an executed operation; its members were seen before. */
void lw_live_see_batch(struct lw_live_model *model, struct lw_live_rank *rank, int64_t serial,
	int64_t end_ns, int64_t process_set);

/** lw_live_see_collective() - of a plain program, payload only. @is_world: of all ranks of the job. */
void lw_live_see_collective(struct lw_live_model *model, struct lw_live_rank *rank,
	int64_t start_ns, int64_t end_ns, bool is_nonblocking, bool is_world);

void lw_live_see_wait(
	struct lw_live_model *model, struct lw_live_rank *rank, int64_t start_ns, int64_t end_ns);

void lw_live_see_mark(struct lw_live_model *model, struct lw_live_rank *rank, int64_t at_ns);

/** lw_live_set_period() - a step of this plain program has @ops_per_step operations, as an analysis found. */
void lw_live_set_period(struct lw_live_model *model, uint32_t ops_per_step);

/** lw_live_see_traffic() - totals of a connection. Return: LW_OK, LW_ERR_NOMEM. */
int lw_live_see_traffic(struct lw_live_model *model, struct lw_live_rank *rank, int64_t socket,
	int64_t at_ns, int64_t sent_bytes, int64_t received_bytes);

/* ---- what it says ----------------------------------------------------------------------------------- */

/* Of a rank, or the mean over ranks, in the window that ends at to_ns. NAN: not known. */
struct lw_live_figures {
	double step_ns, steps_per_s, exposed_frac, ops_per_s;
	double sent_bytes_per_s, received_bytes_per_s;
	double late_ns;   /* mean over steps, beyond the rank that computed least; see above */
	double last_frac; /* of the steps it computed longest in */
	const char *why_not_exposed; /* static; NULL where it is known */
	uint64_t n_steps, n_late, n_lost;
};

/** lw_live_rank_figures() - Return: *@ret. */
struct lw_live_figures *lw_live_rank_figures(const struct lw_live_model *model,
	const struct lw_live_rank *rank, int64_t to_ns, int64_t window_ns,
	struct lw_live_figures *ret);

/** lw_live_job_figures() - means over ranks; bytes and losses are sums. Return: *@ret. */
struct lw_live_figures *lw_live_job_figures(const struct lw_live_model *model, int64_t to_ns,
	int64_t window_ns, struct lw_live_figures *ret);

/**
 * lw_live_step_series() - step time of the @n slots up to @to_ns, mean over ranks, ns: that of the step that
 * was running. NAN: none was, or it has not ended yet.
 */
void lw_live_step_series(
	const struct lw_live_model *model, int64_t to_ns, size_t n, double *values);

/** lw_live_name() - "rank 3", or which process it is where no rank is known. Return: @text. */
const char *lw_live_name(const struct lw_live_rank *rank, char text[LW_LIVE_NAME_BYTES]);

/** lw_live_is_rank() - this process counts as a rank of the job: it has a number, or did what ranks do. */
bool lw_live_is_rank(const struct lw_live_rank *rank);

/** lw_live_is_nccl() - a program whose operations are NCCL's alone: no figure of operations is known. */
bool lw_live_is_nccl(const struct lw_live_model *model);

#endif /* LAPWING_TUI_LIVE_MODEL_H */
