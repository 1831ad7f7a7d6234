/* SPDX-License-Identifier: Apache-2.0 */
/*
 * range_lanes.h - the program's own ranges over time (NVTX, lapwing's, a profiler's): of each rank those of one thread, by how
 * deep they lie in others.
 *
 * Reads:  a run after load, and its stores.   Writes: nothing.
 * A level is sorted and nothing in it overlaps: what a column shows is found by bisection, however many there are.
 */
#ifndef LAPWING_TUI_RANGE_LANES_H
#define LAPWING_TUI_RANGE_LANES_H

#include "analyzer/advise/host_ranges.h"

enum { LW_RANGE_MAX_LEVELS = 64 }; /* deeper ones are counted only */

struct lw_range_bar {
	int64_t start_ns, end_ns; /* on the rank's clock */
	int64_t row;              /* of table range */
	const char *name;         /* of the rank: equal names are the same pointer */
};

typedef lw_vec(struct lw_range_bar) lw_range_level;

struct lw_range_rank {
	lw_range_level levels[LW_RANGE_MAX_LEVELS]; /* the outermost first */
	size_t n_levels;                            /* 0: it has no ranges */
	uint64_t n_deeper;
	uint32_t tid;                /* whose they are */
	struct lw_host_ranges names; /* that bars point to; no ranges are left in it */
};

struct lw_range_lanes {
	size_t n_ranks, most_levels;
	struct lw_range_rank *ranks;
};

/**
 * lw_range_lanes_init() - all ranks of @run. The thread is the one whose ranges cover most time among those that launch GPU work,
 * call NCCL or hand gradients over; where none of these has ranges, among all.
 * lw_range_lanes_done() frees, also after an error. Return: LW_OK or an error.
 */
int lw_range_lanes_init(struct lw_range_lanes *lanes, const struct lw_run *run);
void lw_range_lanes_done(struct lw_range_lanes *lanes);

/** lw_range_at() - the first of @level that ends after @at_ns. Return: level->n: none. */
size_t lw_range_at(const lw_range_level *level, int64_t at_ns);

#endif /* LAPWING_TUI_RANGE_LANES_H */
