/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - the ready times, blocked times and tails of a job that differs from the recorded one.
 *
 * Reads:  a replay.   Writes: nothing.   Not for: what the loop does with them (hvd_cycle.h).
 * A row is one step of one rank, as in struct lw_hvd_input.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_ROWS_H
#define LAPWING_ANALYZER_SIMULATE_ROWS_H

#include "analyzer/simulate/replay.h"

struct lw_rows {
	const struct lw_replay *replay;
	uint32_t n_ranks;
	double compute_frac;
	uint32_t n_passes; /* >= 1: all but the last compute alone */
	bool is_balanced;
	/* by tensor of the new job; NULL = as recorded */
	const uint32_t *from;     /* which recorded tensor it is */
	const int32_t *group_of;  /* queued together, 0 to n_tensors - 1 or LW_HVD_NO_GROUP */
	const double *convert_ns; /* the training thread's before it is queued */
};

/**
 * lw_rows_fill() - all rows.
 * A rank beyond the recorded ones is a recorded rank, shifted by some steps, so that ranks differ from
 * each other as much as recorded ones differ from step to step. A pass that sends nothing takes what
 * a recorded step of the same rank computes before it waits.
 * @ret_ready_ns: [n_steps][n_ranks][n_tensors] of replay->input; @ret_blocked_ns, @ret_tail_ns: [n_steps][n_ranks]
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_rows_fill(const struct lw_rows *rows, int64_t *ret_ready_ns, int64_t *ret_blocked_ns,
	int64_t *ret_tail_ns);

#endif /* LAPWING_ANALYZER_SIMULATE_ROWS_H */
