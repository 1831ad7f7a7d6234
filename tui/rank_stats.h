/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_stats.h - what the views say of one rank beside its summary: when it was late, what it sent.
 *
 * Reads:  a run and its summary.   Writes: nothing. Figures that cannot be known are NAN.
 */
#ifndef LAPWING_TUI_RANK_STATS_H
#define LAPWING_TUI_RANK_STATS_H

#include "analyzer/emit/summary.h"

struct lw_rank_stats {
	double late_ns;             /* computing beyond the fastest rank, mean over counted steps */
	double last_frac;           /* of the counted steps it was last in */
	double sent_bytes_per_step; /* over TCP, from the first counted step to the last */
};

/** lw_rank_late_ns() - rank by rank, step by step: computing beyond the fastest rank. @late_ns: ranks x steps. */
int lw_rank_late_ns(const struct lw_run *run, double *late_ns);

/** lw_rank_stats_make() - one a rank, freed by the caller. @late_ns: as lw_rank_late_ns() fills it. */
int lw_rank_stats_make(
	const struct lw_run *run, const double *late_ns, struct lw_rank_stats **ret_stats);

/** lw_counted_steps() - the first and the last. Return: how many; 0: none. */
size_t lw_counted_steps(const struct lw_run *run, size_t *ret_first, size_t *ret_last);

#endif /* LAPWING_TUI_RANK_STATS_H */
