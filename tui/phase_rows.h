/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phase_rows.h - the figures behind the phases view: a row a step, a rank or a tensor, all in ns, NAN = not known.
 *
 * Reads:  a run after overlap.   Writes: nothing.
 */
#ifndef LAPWING_TUI_PHASE_ROWS_H
#define LAPWING_TUI_PHASE_ROWS_H

#include "analyzer/run.h"
#include "tui/tensor_stats.h"

enum lw_phase_figure { /* all in ns */
	LW_PHASE_STEP,
	LW_PHASE_COMPUTE,
	LW_PHASE_EXPOSED,
	LW_PHASE_IDLE,
	LW_PHASE_NEGOTIATE,
	LW_PHASE_LATE,
	LW_PHASE_WAIT,
	LW_PHASE_TICK,
	LW_PHASE_ALLREDUCE,
	LW_PHASE_ENTRY,
	LW_PHASE_MISC,
	LW_PHASE_COUNT
};

struct lw_phase_rows {
	const struct lw_run *run;
	double (*figures_ns)[LW_PHASE_COUNT];
	struct lw_tensor_stats *stats; /* of tensors */
	double whole_ns;               /* of a bar */
};

/** lw_phase_rows_fill_steps() - a row a step: the mean over ranks. */
void lw_phase_rows_fill_steps(struct lw_phase_rows *rows, size_t n_steps);

/** lw_phase_rows_fill_ranks() - a row a rank. @step: LW_NONE = the mean of all that count. */
void lw_phase_rows_fill_ranks(struct lw_phase_rows *rows, int32_t step);

/** lw_phase_rows_fill_tensors() - a row a tensor, from rows->stats. */
void lw_phase_rows_fill_tensors(struct lw_phase_rows *rows);

#endif /* LAPWING_TUI_PHASE_ROWS_H */
