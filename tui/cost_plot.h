/* SPDX-License-Identifier: Apache-2.0 */
/* cost_plot.h - what operations of each size took, against the cost that was fitted to it. */
#ifndef LAPWING_TUI_COST_PLOT_H
#define LAPWING_TUI_COST_PLOT_H

#include "analyzer/fit/fit.h"
#include "base/units.h"
#include "tui/cells.h"

/** lw_cost_plot() - logarithmic both ways: 'o' measured means, '.' the fit, '@' both in one place. */
void lw_cost_plot(struct lw_pane pane, const struct lw_fit_cost *fitted);

/** lw_cost_sizes() - a line a size from @top on: how many, measured, fitted, off. Return: lines it has room for. */
size_t lw_cost_sizes(struct lw_pane pane, const struct lw_fit_cost *fitted, size_t top);

/** lw_off_format() - "-12.3%" or unsigned "12.3 %", in at most 7 columns, whatever @frac is. */
const char *lw_off_format(double frac, bool is_signed, char text[LW_UNIT_TEXT_BYTES]);

#endif /* LAPWING_TUI_COST_PLOT_H */
