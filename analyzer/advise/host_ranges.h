/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_ranges.h - in which ranges of its own a thread of the host was during a stretch of time.
 *
 * Reads:  table range (NVTX, marks of the program, what a profiler tells of operators).   Writes: nothing.
 */
#ifndef LAPWING_ANALYZER_ADVISE_HOST_RANGES_H
#define LAPWING_ANALYZER_ADVISE_HOST_RANGES_H

#include "analyzer/run.h"

/* The innermost range that covers half of the stretch or more, the one around it, and the outermost. NULL: there is none.
 * Names belong to the ranges; equal names of one rank are the same pointer. */
struct lw_host_where {
	const char *in, *within, *outermost;
};

struct lw_host_range {
	int64_t start_ns, end_ns;
	int64_t row; /* of table range, in its store: in the order in which a thread made them */
	const char *name;
	uint32_t tid;
};

struct lw_host_name;

struct lw_host_ranges { /* of one rank */
	lw_vec(struct lw_host_range)
		at;                 /* by start; of those that begin at once the longest first */
	struct lw_host_name *names; /* that they point to */
	lw_vec(const struct lw_host_range *)
		open; /* that had not ended before the last stretch asked for */
	size_t next;  /* the first that is not there yet */
};

/**
 * lw_host_ranges_load() - those of @rank, without what operations of NCCL and Horovod, streams and profilers make of their own.
 * Return: LW_OK or an error; free with lw_host_ranges_free() in any case.
 */
int lw_host_ranges_load(
	const struct lw_run *run, const struct lw_rank *rank, struct lw_host_ranges *ret_ranges);

/** lw_host_ranges_load_all() - the same of all ranks, each store read once. @ret_ranges: by index of rank, all to be freed. */
int lw_host_ranges_load_all(const struct lw_run *run, struct lw_host_ranges *ret_ranges);
void lw_host_ranges_free(struct lw_host_ranges *ranges);

/**
 * lw_host_ranges_find() - where thread @tid was in [start, end). Stretches have to be asked for in their order, none that
 * overlaps another.
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_host_ranges_find(struct lw_host_ranges *ranges, int64_t start_ns, int64_t end_ns,
	uint32_t tid, struct lw_host_where *ret_where);

enum { LW_HOST_WHERE_BYTES = 192 };

/** lw_host_where_text() - "aten::copy_ (in Module.forward, ## forward ##)". Return: @text, "" = nowhere known. */
const char *lw_host_where_text(const struct lw_host_where *where, char text[LW_HOST_WHERE_BYTES]);

#endif /* LAPWING_ANALYZER_ADVISE_HOST_RANGES_H */
