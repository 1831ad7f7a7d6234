/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_picture.h - one step over time, replayed as recorded and as predicted, on one axis.
 *
 * Reads:  traces of the simulator, the run's numbers of ranks.   Writes: a pane.   Not for: what was measured (timeline.h).
 */
#ifndef LAPWING_TUI_STEP_PICTURE_H
#define LAPWING_TUI_STEP_PICTURE_H

#include "analyzer/run.h"
#include "analyzer/simulate/trace.h"
#include "tui/cells.h"

enum { LW_STEP_PICTURE_LEAST = 3 }; /* lines: what it is, the two wires */

/**
 * lw_step_picture() - the wires, then pairs of ranks, as many as fit. Return: lines.
 * @run: whose ranks have numbers: those of the traces, of one step, are in its order; what is beyond was added
 */
int lw_step_picture(struct lw_pane pane, const struct lw_run *run, const struct lw_trace *replayed,
	const struct lw_trace *predicted);

#endif /* LAPWING_TUI_STEP_PICTURE_H */
