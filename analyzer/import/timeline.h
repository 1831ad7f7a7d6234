/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - what a Horovod timeline says: negotiations, batches, activities, cycle marks.
 *
 * Reads the file that HOROVOD_TIMELINE makes, of every version from 0.20 to 0.28: one row (Chrome
 * "pid") a tensor, begin and end events on it, rank 0's view only. Rebuilds what each fused operation
 * carried. Times are ns of the file's own clock: CLOCK_MONOTONIC in 0.20, since the start of the
 * timeline in later versions.
 *
 * Not for: storing it (horovod_timeline.c).
 */
#ifndef LAPWING_ANALYZER_IMPORT_TIMELINE_H
#define LAPWING_ANALYZER_IMPORT_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/import/json_stream.h"
#include "base/vec.h"

enum { LW_TIMELINE_MAX_RANKS = 1 << 16 };

enum lw_activity_kind {
	LW_ACTIVITY_NEGOTIATE, /* NEGOTIATE_*: first rank heard of to all ranks agreed */
	LW_ACTIVITY_OPERATION, /* ALLREDUCE, ...: the executed response, everything included */
	LW_ACTIVITY_WIRE,      /* MPI_*, GLOO_*, NCCL_*, CCL_*: the transport's collective */
	LW_ACTIVITY_SETUP,     /* INIT_*: happens once, not part of a steady step */
	LW_ACTIVITY_OTHER      /* copies, waits for data, queues */
};

/* All intervals of one name. Those still open at the end of the file count up to its last event. */
struct lw_activity_stats {
	char *name;
	enum lw_activity_kind kind;
	int op;                   /* enum lw_coll, 0 = none */
	int transport;            /* enum lw_transport; LW_ACTIVITY_WIRE only */
	uint64_t n;               /* tensors x times */
	uint64_t n_runs;          /* fused: one operation on several tensors counts once */
	uint64_t n_unfinished;    /* of n */
	int64_t sum_ns, union_ns; /* union: exact as long as the file is in time order */
	/* of the reader and its sink */
	uint64_t n_open;
	int64_t union_start_ns, union_end_ns, string_id;
};

struct lw_timeline_stats {
	struct lw_json_result json;
	bool has_origin;            /* the header of 0.21 and later */
	int64_t origin_realtime_ns; /* wall clock at time 0 */
	int64_t first_ns, last_ns;  /* of all events */
	uint64_t n_events;          /* JSON records, metadata included */
	uint64_t n_tensors, n_batches, n_cycles, n_ticks;
	uint64_t n_ticked;         /* negotiations that say which rank came when */
	uint64_t n_unfinished;     /* batches whose end is missing */
	uint64_t n_unmatched_ends; /* ends without a begin: not used */
	uint64_t n_unknown;        /* records that are no Horovod event: not used */
	uint64_t bytes;            /* payload of all batches whose size is known */
	int32_t n_ranks;           /* highest rank in a tick + 1, 0 = no ticks */
	int transport;             /* enum lw_transport of most collectives */
	lw_vec(struct lw_activity_stats *) activities; /* by first appearance */
	uint8_t rank_seen[LW_TIMELINE_MAX_RANKS / 8];  /* bit set: rank r reported at least once */
};

struct lw_timeline_tensor;

struct lw_timeline_tick { /* "rank r has it", slow path of the coordinator only */
	int32_t rank;     /* of the process set, which is usually all ranks */
	int64_t at_ns;
};

struct lw_timeline_negotiation {
	struct lw_timeline_tensor *tensor;
	struct lw_activity_stats *activity;
	uint64_t object; /* from 1; its execution (struct lw_timeline_member) has the same */
	int64_t start_ns, end_ns;
	const struct lw_timeline_tick *ticks;
	size_t n_ticks; /* distinct ranks: n_ticks */
};

struct lw_timeline_member { /* one tensor of a batch */
	struct lw_timeline_tensor *tensor;
	uint64_t object;          /* 0 = its negotiation is not in the file */
	int64_t negotiated_ns;    /* all ranks agreed; INT64_MIN = not in the file */
	int64_t start_ns, end_ns; /* of the operation, as this tensor shows it */
	uint64_t bytes;           /* of its output, 0 = not known */
	int dtype;                /* enum lw_dtype */
	bool has_bytes;
	bool is_ticked; /* negotiated by request, not by the response cache */
};

struct lw_timeline_run { /* one activity on all its tensors */
	struct lw_activity_stats *activity;
	int64_t start_ns, end_ns; /* first begin, last end; in between one is always open */
	bool is_unfinished;
	/* of the reader */
	uint64_t n, n_open;
	struct lw_timeline_batch *batch;
	lw_vec(struct lw_timeline_tensor *) tensors;
};

struct lw_timeline_batch { /* one executed response */
	uint64_t serial;   /* from 1, by end */
	struct lw_activity_stats *activity;
	int64_t start_ns, end_ns;
	uint64_t bytes; /* sum over members; 0 unless has_bytes */
	bool has_bytes, is_unfinished;
	lw_vec(struct lw_timeline_member) members;
	lw_vec(struct lw_timeline_run *) runs; /* by start */
	/* of the reader */
	uint64_t n_open;
	struct lw_timeline_batch *prev, *next;
};

/* Who gets what was read, in the order of ends. Each returns LW_OK or an error that stops it. */
struct lw_timeline_sink {
	int (*on_negotiation)(void *context, const struct lw_timeline_negotiation *negotiation);
	int (*on_batch)(void *context, const struct lw_timeline_batch *batch);
	int (*on_stray)(void *context, const struct lw_timeline_run *run); /* outside any batch */
	int (*on_cycle)(void *context, int64_t at_ns);                     /* CYCLE_START */
	int (*on_progress)(void *context, double done_frac);               /* may be NULL */
	void *context;
};

/* A tensor's name, and two fields that belong to the sink. */
const char *lw_timeline_tensor_name(const struct lw_timeline_tensor *tensor);
int64_t *lw_timeline_tensor_mark(struct lw_timeline_tensor *tensor); /* starts as 0 */

/**
 * lw_timeline_read() - read @path, telling @sink (NULL: nobody) and counting into *@ret_stats.
 * Return: LW_OK; the errors of lw_json_stream_file(); LW_ERR_FORMAT when it holds no operation.
 * Free *@ret_stats with lw_timeline_stats_free() in any case.
 */
int lw_timeline_read(
	const char *path, const struct lw_timeline_sink *sink, struct lw_timeline_stats *ret_stats);

/** lw_timeline_stats() - the figures of the timeline at @path; as lw_timeline_read(). */
int lw_timeline_stats(const char *path, struct lw_timeline_stats *ret_stats);
void lw_timeline_stats_free(struct lw_timeline_stats *stats);

/** lw_timeline_activity() - the statistics of activity @name, NULL when it never appeared. */
const struct lw_activity_stats *lw_timeline_activity(
	const struct lw_timeline_stats *stats, const char *name);

#endif /* LAPWING_ANALYZER_IMPORT_TIMELINE_H */
