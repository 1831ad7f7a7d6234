/* SPDX-License-Identifier: Apache-2.0 */
/* live_table.c - rank by rank: the last seconds of a job that runs. */
#include <math.h>
#include <stdio.h>

#include "tui/live_picture.h"

enum { CELL_BYTES = 64 };

#define QUIET_NS (3 * LW_NS_PER_S / 2) /* without a record */

/* ---- the ranks ------------------------------------------------------------------------------------------------- */

struct row {
	const struct lw_live_picture *picture;
	const struct lw_live_rank *rank;
	struct lw_live_figures figures;
	struct lw_live_figures later; /* after the window: of a picture that is held */
};

/* What is wrong with it stands before its number, where the state has no room, too. */
static void cell_rank(const struct row *row, char text[CELL_BYTES])
{
	const char *sign = row->rank->ended == LW_LIVE_DIED ? "x" : row->rank->n_lost ? "!" : "";

	if (row->rank->rank >= 0)
		snprintf(text, CELL_BYTES, "%s%d", sign, row->rank->rank);
	else
		snprintf(text, CELL_BYTES, "%s?", sign);
}

static void cell_steps(const struct row *row, char text[CELL_BYTES])
{
	snprintf(text, CELL_BYTES, "%s%llu", row->picture->model->is_partial ? "+" : "",
		(unsigned long long)(row->rank->n_steps - row->later.n_steps));
}

static void cell_step(const struct row *row, char text[CELL_BYTES])
{
	lw_ns_or_unknown(row->figures.step_ns, text);
}

static void cell_exposed(const struct row *row, char text[CELL_BYTES])
{
	if (isnan(row->figures.exposed_frac))
		snprintf(text, CELL_BYTES, "?");
	else
		snprintf(text, CELL_BYTES, "%.1f %%", 100 * row->figures.exposed_frac);
}

static void cell_late(const struct row *row, char text[CELL_BYTES])
{
	lw_ns_or_unknown(row->figures.late_ns, text);
}

static void cell_sent(const struct row *row, char text[CELL_BYTES])
{
	lw_rate_or_unknown(row->figures.sent_bytes_per_s, text);
}

static void cell_received(const struct row *row, char text[CELL_BYTES])
{
	lw_rate_or_unknown(row->figures.received_bytes_per_s, text);
}

static void cell_ops(const struct row *row, char text[CELL_BYTES])
{
	if (isnan(row->figures.ops_per_s))
		snprintf(text, CELL_BYTES, "?");
	else
		snprintf(text, CELL_BYTES, "%.3g", row->figures.ops_per_s);
}

static void cell_dropped(const struct row *row, char text[CELL_BYTES])
{
	snprintf(text, CELL_BYTES, "%llu",
		(unsigned long long)(row->rank->n_lost - row->later.n_lost));
}

static void cell_state(const struct row *row, char text[CELL_BYTES])
{
	const struct lw_live *live = row->picture->live;
	int64_t quiet_ns = row->picture->now_ns - row->rank->end_ns;
	bool has_ended = row->rank->ended != LW_LIVE_RUNS &&
			 !(row->picture->live->back_ns && row->rank->end_ns > row->picture->to_ns);
	int n;

	if (has_ended)
		n = snprintf(text, CELL_BYTES, "%s",
			row->rank->ended == LW_LIVE_DIED ? "DIED" : "ended");
	else if (!live->closing_ns && !live->back_ns && quiet_ns > QUIET_NS)
		n = snprintf(text, CELL_BYTES, "quiet %lld s", (long long)(quiet_ns / LW_NS_PER_S));
	else if (row->rank == row->picture->latest)
		n = snprintf(text, CELL_BYTES, "runs, late");
	else
		n = snprintf(text, CELL_BYTES, "runs");
	if (row->rank->n_lost)
		n += snprintf(text + n, CELL_BYTES - (size_t)n, ", lossy");
	if (row->rank->rank < 0)
		snprintf(text + n, CELL_BYTES - (size_t)n, ", pid %lld", (long long)row->rank->pid);
}

static const struct {
	const char *title;
	int width, from_width; /* shown on screens at least so wide */
	void (*text)(const struct row *row, char text[CELL_BYTES]);
} columns[] = {
	{"rank", 5, 0, cell_rank}, {"steps", 7, 0, cell_steps}, {"step", 9, 0, cell_step},
	{"exposed", 9, 0, cell_exposed}, {"late by", 9, 0, cell_late}, {"sent", 11, 72, cell_sent},
	{"received", 11, 72, cell_received}, {"operations/s", 14, 110, cell_ops},
	{"dropped", 9, 90, cell_dropped},
	{"state", 13, 60, cell_state}, /* the last one is to the left */
};
enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static enum lw_style row_style(const struct row *row)
{
	if (row->rank->ended == LW_LIVE_DIED || row->rank->n_lost)
		return LW_STYLE_BAD;
	if (row->rank->ended == LW_LIVE_EXITED)
		return LW_STYLE_DIM;
	return row->rank == row->picture->latest ? LW_STYLE_WARN : LW_STYLE_TEXT;
}

static void draw_row(struct lw_pane pane, int y, const struct row *row)
{
	int x = 0;

	for (int i = 0; i < N_COLUMNS; i++) {
		char text[CELL_BYTES];
		enum lw_style style = row ? row_style(row) : LW_STYLE_DIM;

		if (pane.width < columns[i].from_width)
			continue;
		if (row)
			columns[i].text(row, text);
		else
			snprintf(text, sizeof(text), "%s", columns[i].title);
		x += columns[i].width;
		if (i == N_COLUMNS - 1)
			lw_pane_text(pane, x - columns[i].width + 2, y,
				pane.width - x + columns[i].width - 3, style, text);
		else
			lw_pane_right(pane, x, y, columns[i].width, style, text);
	}
}

static void draw_rank(const struct lw_live_picture *picture, struct lw_pane pane, int y,
	const struct lw_live_rank *rank)
{
	const struct lw_live_model *model = picture->model;
	struct row row = {.picture = picture, .rank = rank};

	lw_live_rank_figures(
		model, rank, picture->to_ns, picture->live->options.window_ns, &row.figures);
	if (picture->to_ns < model->newest_ns)
		lw_live_rank_figures(model, rank, model->newest_ns,
			model->newest_ns - picture->to_ns, &row.later);
	draw_row(pane, y, &row);
}

void lw_live_draw_table(const struct lw_live_picture *picture, struct lw_pane pane, int y,
	int n_lines, int first_row)
{
	int n = (int)picture->n_ranks, room = n_lines - 1;

	if (n_lines < 1)
		return;
	if (!n) {
		lw_pane_print(pane, 1, y, LW_STYLE_DIM,
			"no rank yet: no operation of MPI, Horovod or Gloo, and no mark was recorded");
		return;
	}
	draw_row(pane, y++, NULL);
	room -= n > room; /* one line says which ones these are */
	if (first_row > n - room)
		first_row = n > room ? n - room : 0;
	for (int i = first_row; i < n && i < first_row + room; i++)
		draw_rank(picture, pane, y++, picture->ranks[i]);
	if (n > room && room == 1)
		lw_pane_print(pane, 1, y, LW_STYLE_DIM, "one of %d ranks (Up, Down)", n);
	else if (n > room)
		lw_pane_print(pane, 1, y, LW_STYLE_DIM, "ranks %d to %d of %d (Up, Down)",
			first_row + 1, first_row + room, n);
}
