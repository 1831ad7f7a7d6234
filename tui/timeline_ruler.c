/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_ruler.c - the lines above the rows: what is shown and what is doubtful, times, steps. */
#include <stdio.h>

#include "base/units.h"
#include "tui/timeline.h"

int lw_timeline_n_digits(int64_t number)
{
	int n = 1;

	for (; number >= 10; number /= 10)
		n++;
	return n;
}

int lw_timeline_column(const struct lw_timeline *timeline, int64_t at_ns)
{
	int64_t apart_ns = at_ns - timeline->from_ns;
	int64_t column = apart_ns / timeline->column_ns - (apart_ns < 0);

	return column < -1                        ? -1
	       : column > LW_TIMELINE_MAX_COLUMNS ? LW_TIMELINE_MAX_COLUMNS
						  : (int)column;
}

/* What the rows cannot show, as much of it as there is room for. */
static void draw_doubts(const struct lw_timeline *timeline, struct lw_pane pane, int x, int width)
{
	static const char *const computes[][2] = {
		[LW_BLOCKED_UNKNOWN] = {"! compute not known",
			"! compute not known: no waits, no ready times"},
		[LW_BLOCKED_KNOWN] = {"", ""},
		[LW_BLOCKED_ASSUMED] = {
			"! compute assumed", "! compute assumed: no waits recorded"}};
	enum lw_blocked is_waited = timeline->lanes.ranks[timeline->rank].is_waited;
	const struct lw_run *run = timeline->lanes.run;
	char text[256] = "";

	for (int is_long = 1; is_long >= 0; is_long--) {
		size_t n =
			(size_t)snprintf(text, sizeof(text), "%s ", computes[is_waited][is_long]);

		if (!timeline->lanes.is_one_clock)
			n += (size_t)snprintf(text + n, sizeof(text) - n,
				is_long ? "! rows not aligned: clocks differ "
					: "! clocks differ ");
		if (run->n_missing_ranks)
			n += (size_t)snprintf(text + n, sizeof(text) - n,
				is_long ? "! %u of %d ranks missing " : "! %u of %d missing ",
				run->n_missing_ranks, run->size);
		if (run->n_lost)
			snprintf(text + n, sizeof(text) - n,
				is_long ? "! %llu records lost " : "! %llu lost ",
				(unsigned long long)run->n_lost);
		if (lw_text_width(text) <= width)
			break;
	}
	if (width > 8)
		lw_pane_right(pane, x + width, 0, width, LW_STYLE_WARN, text + (text[0] == ' '));
}

static void draw_status(const struct lw_timeline *timeline, struct lw_pane pane)
{
	const struct lw_run *run = timeline->lanes.run;
	const struct lw_rank *rank = &run->ranks.at[timeline->rank];
	int64_t column_ns = lw_timeline_column_start(timeline);
	int32_t step = lw_timeline_step_at(timeline, column_ns);
	int32_t last = lw_timeline_step_at(timeline, column_ns + timeline->column_ns - 1);
	char column[LW_UNIT_TEXT_BYTES], number[2][LW_STEP_TEXT_BYTES];
	int x = 1;

	if (timeline->is_by_tensor)
		x += lw_pane_print(pane, x, 0, LW_STYLE_STRONG, "%zu tensors of rank %d",
			timeline->lanes.tensors.n_order, rank->rank);
	else
		x += lw_pane_print(pane, x, 0, LW_STYLE_STRONG, "%zu rank%s", run->ranks.n,
			run->ranks.n == 1 ? "" : "s");
	x += lw_pane_print(pane, x, 0, LW_STYLE_TEXT, "  %s a column",
		lw_ns_exact((double)timeline->column_ns, column));
	if (last == step + 1 || step == LW_NONE) /* at a border: where the cursor is */
		step = last = lw_timeline_step_at(timeline, timeline->cursor_ns);
	if (step != LW_NONE && last > step)
		x += lw_pane_print(pane, x, 0, LW_STYLE_TEXT, "  steps %s to %s of %zu",
			lw_rank_step_text(rank, step, number[0]),
			lw_rank_step_text(rank, last, number[1]), rank->steps.n);
	else if (step != LW_NONE)
		x += lw_pane_print(pane, x, 0, LW_STYLE_TEXT, "  step %s of %zu%s",
			lw_rank_step_text(rank, step, number[0]), rank->steps.n,
			rank->steps.at[step].excluded ? " (left out)" : "");
	else
		x += lw_pane_print(pane, x, 0, LW_STYLE_TEXT, "  %s",
			rank->steps.n ? "outside of steps" : "no steps found");
	if (timeline->is_following)
		x += lw_pane_print(pane, x, 0, LW_STYLE_STRONG, "  following");
	draw_doubts(timeline, pane, x + 2, pane.width - x - 2);
}

/* The nicest distance of ticks, 1, 2 or 5 times a power of ten, with room for its texts. */
static int64_t tick_of(const struct lw_timeline *timeline, int n_columns, int *ret_decimals)
{
	int64_t tick_ns = 1;
	static const int factors[] = {2, 5, 10};
	int64_t last_ns = timeline->from_ns + timeline->column_ns * n_columns;

	for (int i = 0;; i++) {
		int64_t unit_ns = tick_ns >= LW_NS_PER_S / 10 ? LW_NS_PER_S : LW_NS_PER_MS;
		int decimals = 0;

		for (int64_t part_ns = unit_ns; part_ns > tick_ns; part_ns /= 10)
			decimals++;
		*ret_decimals = decimals;
		if (tick_ns / timeline->column_ns >=
			lw_timeline_n_digits(last_ns / unit_ns) + decimals + 1 + 6)
			return tick_ns;
		tick_ns = tick_ns / (i % 3 ? factors[i % 3 - 1] : 1) * factors[i % 3];
	}
}

static void draw_ruler(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	struct lw_pane pane)
{
	int decimals, cursor = lw_timeline_column(timeline, timeline->cursor_ns);
	int64_t tick_ns = tick_of(timeline, layout->n_columns, &decimals);
	int64_t at_ns =
		timeline->from_ns > 0 ? (timeline->from_ns + tick_ns - 1) / tick_ns * tick_ns : 0;
	struct lw_pane across = lw_pane_part(pane, layout->label_width, 0, layout->n_columns, 3);

	for (; lw_timeline_column(timeline, at_ns) < layout->n_columns; at_ns += tick_ns) {
		bool is_s = tick_ns >= LW_NS_PER_S / 10;
		int x = lw_timeline_column(timeline, at_ns), width;
		char text[64];

		width = snprintf(text, sizeof(text), "%.*f %s", decimals,
			(double)at_ns / (double)(is_s ? LW_NS_PER_S : LW_NS_PER_MS),
			is_s ? "s" : "ms");
		lw_pane_rune(across, x, 1, LW_STYLE_DIM, lw_glyph(pane.cells, LW_GLYPH_BAR));
		if (x + width < layout->n_columns && (cursor < x || cursor > x + width))
			lw_pane_text(across, x + 1, 1, width, LW_STYLE_DIM, text);
	}
	if (cursor >= 0 && cursor < layout->n_columns)
		lw_pane_rune(
			across, cursor, 1, LW_STYLE_STRONG, lw_glyph(pane.cells, LW_GLYPH_DOWN));
}

/* The longest text of a step that fits. */
static const char *step_text(const struct lw_rank *rank, int32_t s, int width, char text[96])
{
	const struct lw_step *step = &rank->steps.at[s];
	char number[LW_STEP_TEXT_BYTES];

	lw_rank_step_text(rank, s, number);
	for (int i = 0; i < 5; i++) {
		int columns = 0;

		switch (i) {
		case 0:
			columns = snprintf(text, 96, "step %s%s%s", number,
				step->excluded ? " left out: " : "",
				step->excluded ? step->excluded : "");
			break;
		case 1:
			columns = snprintf(
				text, 96, "step %s%s", number, step->excluded ? " left out" : "");
			break;
		case 2:
			columns = snprintf(
				text, 96, "step %d%s", s, step->excluded ? " left out" : "");
			break;
		case 3:
			columns = snprintf(text, 96, "%d%s", s, step->excluded ? " left out" : "");
			break;
		default:
			columns = snprintf(text, 96, "%d%s", s, step->excluded ? "x" : "");
		}
		if (columns <= width)
			return text;
	}
	return NULL;
}

static void draw_steps(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	struct lw_pane pane)
{
	const struct lw_rank *rank = &timeline->lanes.run->ranks.at[timeline->rank];
	int64_t origin_ns = timeline->lanes.ranks[timeline->rank].origin_ns;
	struct lw_pane across = lw_pane_part(pane, layout->label_width, 0, layout->n_columns, 3);
	int32_t s = lw_timeline_step_at(timeline, timeline->from_ns);
	int free_from = 0;

	for (s = s == LW_NONE ? 0 : s; s < (int32_t)rank->steps.n; s++) {
		const struct lw_step *step = &rank->steps.at[s];
		int x = lw_timeline_column(timeline, step->start_ns - origin_ns);
		int end = lw_timeline_column(timeline, step->end_ns - origin_ns);
		const char *shown;
		char text[96];

		if (x >= layout->n_columns)
			return;
		if (end < 0 || x < free_from - 1) {
			int64_t next_ns = timeline->from_ns + timeline->column_ns * free_from;
			int32_t next = lw_timeline_step_at(timeline, next_ns);

			if (next > s + 1) /* nothing between has room */
				s = next - 1;
			continue;
		}
		if (end > layout->n_columns)
			end = layout->n_columns;
		if (x >= 0)
			lw_pane_rune(across, x, 2, step->excluded ? LW_STYLE_DIM : LW_STYLE_STRONG,
				lw_glyph(pane.cells, LW_GLYPH_BAR));
		x = x < 0 ? 0 : x + 1;
		shown = step_text(
			rank, s, end - x > 1 ? end - x : lw_timeline_n_digits(s) + 1, text);
		if (!shown)
			shown = "";
		free_from = x + 1 +
			    lw_pane_text(across, x, 2, layout->n_columns - x,
				    step->excluded ? LW_STYLE_DIM : LW_STYLE_TEXT, shown);
	}
}

void lw_timeline_ruler_draw(const struct lw_timeline *timeline,
	const struct lw_timeline_layout *layout, struct lw_pane pane)
{
	draw_status(timeline, pane);
	draw_ruler(timeline, layout, pane);
	if (layout->header_lines > 2)
		draw_steps(timeline, layout, pane);
}
