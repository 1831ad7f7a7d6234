/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - small things that several views have in common: figures that may be unknown, headings. */
#ifndef LAPWING_TUI_PARTS_H
#define LAPWING_TUI_PARTS_H

#include "base/units.h"
#include "tui/table.h"
#include "tui/view.h"

/** lw_ns_known() - NAN for LW_NS_UNKNOWN. */
double lw_ns_known(int64_t ns);

/** lw_percent_format() - 0.123 -> "12 %". */
const char *lw_percent_format(double frac, char text[LW_UNIT_TEXT_BYTES]);

/** lw_count_format() - 12.34 -> "12.3", 12 -> "12". */
const char *lw_count_format(double n, char text[LW_UNIT_TEXT_BYTES]);

/** lw_run_n_steps() - of every rank of it. */
size_t lw_run_n_steps(const struct lw_run *run);

/** lw_pane_heading() - what is shown, and at the right which row of @table is selected (NULL: none). */
void lw_pane_heading(
	struct lw_pane pane, const struct lw_table *table, enum lw_style style, const char *text);

/** lw_pane_rule() - a line across, with a title. */
void lw_pane_rule(struct lw_pane pane, int y, const char *title);

/** lw_pane_fit() - as lw_pane_wrap() in at most @lines of it, and @end after it; what is longer is cut at a word, with
 * "..." before @end. Return: lines. */
int lw_pane_fit(struct lw_pane pane, int x, int y, int width, int lines, enum lw_style style,
	const char *text, const char *end);

/** lw_input_inside() - the same request, seen from a pane that begins at line @y and is @height high. */
struct lw_input lw_input_inside(const struct lw_input *input, int y, int height);

/** lw_focus_move() - the step after or before the one that is selected, kept inside @run. */
void lw_focus_move(struct lw_focus *focus, const struct lw_run *run, int by);

#endif /* LAPWING_TUI_PARTS_H */
