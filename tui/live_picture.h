/* SPDX-License-Identifier: Apache-2.0 */
/* live_picture.h - one picture of a job that runs: what view_live.c gathers, and live_table.c draws a part of. */
#ifndef LAPWING_TUI_LIVE_PICTURE_H
#define LAPWING_TUI_LIVE_PICTURE_H

#include "tui/live.h"

enum { LW_LIVE_PICTURE_RANKS = 1024 };

struct lw_live_picture {
	const struct lw_live *live;
	const struct lw_live_model *model; /* of it, or as it was when the picture was held */
	int64_t to_ns, now_ns;
	struct lw_live_figures job;
	const struct lw_live_rank *ranks[LW_LIVE_PICTURE_RANKS]; /* by number */
	size_t n_ranks, n_alive, n_died;
	const struct lw_live_rank *latest; /* NULL: nobody is late */
	struct lw_live_figures latest_figures;
};

/**
 * lw_live_draw_table() - the ranks from @first_row on, in @n_lines lines from @y on: titles, and where not all have
 * room, which ones these are.
 */
void lw_live_draw_table(const struct lw_live_picture *picture, struct lw_pane pane, int y,
	int n_lines, int first_row);

#endif /* LAPWING_TUI_LIVE_PICTURE_H */
