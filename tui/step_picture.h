/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step_picture.h - one step over time, replayed as recorded and as predicted, on one axis.
 *
 * Reads:  traces of the simulator.   Writes: a pane.   Not for: what was measured (timeline.h).
 */
#ifndef LAPWING_TUI_STEP_PICTURE_H
#define LAPWING_TUI_STEP_PICTURE_H

#include "analyzer/simulate/trace.h"
#include "tui/cells.h"

enum { LW_STEP_PICTURE_LEAST = 3 }; /* lines: what it is, the two wires */

/** lw_step_picture() - the wires, then pairs of ranks, as many as fit. Traces of the same step. Return: lines. */
int lw_step_picture(
	struct lw_pane pane, const struct lw_trace *replayed, const struct lw_trace *predicted);

#endif /* LAPWING_TUI_STEP_PICTURE_H */
