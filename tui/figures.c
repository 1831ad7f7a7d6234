/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c - bars, legends, sparklines and heat on a pane. */
#include <math.h>

#include "tui/cells.h"

const struct lw_lane_look lw_lanes[LW_LANE_COUNT] = {
	[LW_LANE_COMPUTE] = {"compute", LW_STYLE_COMPUTE, LW_GLYPH_COMPUTE},
	[LW_LANE_NEGOTIATE] = {"NEGOTIATE", LW_STYLE_NEGOTIATE, LW_GLYPH_NEGOTIATE},
	[LW_LANE_WAIT] = {"WAIT", LW_STYLE_WAIT, LW_GLYPH_WAIT},
	[LW_LANE_ALLREDUCE] = {"ALLREDUCE", LW_STYLE_ALLREDUCE, LW_GLYPH_ALLREDUCE},
	[LW_LANE_MISC] = {"MISC", LW_STYLE_MISC, LW_GLYPH_MISC},
	[LW_LANE_EXPOSED] = {"exposed", LW_STYLE_EXPOSED, LW_GLYPH_EXPOSED},
	[LW_LANE_IDLE] = {"idle", LW_STYLE_IDLE, LW_GLYPH_IDLE},
};

void lw_pane_bar(struct lw_pane pane, int x, int y, int width, const struct lw_bar_part *parts,
	size_t n_parts, double whole)
{
	double sum = 0;
	int from = 0;

	if (!(whole > 0))
		return;
	for (size_t i = 0; i < n_parts && from < width; i++) {
		const struct lw_lane_look *look = &lw_lanes[parts[i].lane];
		int to;

		if (!(parts[i].amount > 0))
			continue;
		sum += parts[i].amount;
		to = (int)lround(fmin(sum / whole, 1) * width);
		if (to <= from)
			to = from + 1;
		lw_pane_fill(pane, x + from, y, to - from, look->style,
			lw_glyph(pane.cells, look->glyph));
		from = to;
	}
}

int lw_pane_legend(
	struct lw_pane pane, int x, int y, const struct lw_bar_part *parts, size_t n_parts)
{
	int at = x;

	for (size_t i = 0; i < n_parts; i++) {
		const struct lw_lane_look *look = &lw_lanes[parts[i].lane];

		lw_pane_rune(pane, at, y, look->style, lw_glyph(pane.cells, look->glyph));
		at += 2 + lw_pane_print(pane, at + 2, y, LW_STYLE_DIM, "%s", look->name) + 2;
	}
	return at - x;
}

int lw_pane_spark(struct lw_pane pane, int x, int y, int width, enum lw_style style,
	const double *values, size_t n)
{
	double least = INFINITY, most = -INFINITY;
	size_t n_columns =
		n < (size_t)(width > 0 ? width : 0) ? n : (size_t)(width > 0 ? width : 0);

	for (size_t i = 0; i < n; i++)
		if (isfinite(values[i])) {
			least = fmin(least, values[i]);
			most = fmax(most, values[i]);
		}
	for (size_t c = 0; c < n_columns; c++) {
		double value = -INFINITY;
		int level;

		for (size_t i = c * n / n_columns; i < (c + 1) * n / n_columns; i++)
			if (isfinite(values[i]))
				value = fmax(value, values[i]);
		if (!isfinite(value))
			continue;
		level = most > least ? (int)lround((value - least) / (most - least) * 7) : 3;
		lw_pane_rune(pane, x + (int)c, y, style,
			lw_glyph(pane.cells, LW_GLYPH_LEVEL_FIRST + (enum lw_glyph)level));
	}
	return (int)n_columns;
}

enum lw_style lw_heat_style(double frac)
{
	int level = isfinite(frac) ? (int)(fmin(fmax(frac, 0), 1) * 7.999) : 0;

	return LW_STYLE_HEAT_FIRST + (enum lw_style)level;
}
