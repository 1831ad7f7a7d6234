/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_draw.c - ruler, steps, rows and their lanes. Redrawing looks at columns, not at events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "tui/timeline.h"

enum {
	SIDE_WIDTH = 44, /* details beside the rows .. */
	SIDE_FROM = 120, /* .. on screens as wide as this */
	NAME_WIDTH = 10, /* of a lane */
	MAX_COLUMNS = 4096
};

static int n_digits(int64_t number)
{
	int n = 1;

	for (; number >= 10; number /= 10)
		n++;
	return n;
}

static int n_lanes_there(const struct lw_timeline *timeline)
{
	int n = 0;

	for (size_t k = 0; k < LW_TRACKS; k++)
		n += k == LW_LANE_COMPUTE || timeline->lanes.is_there[k];
	return n;
}

static enum lw_timeline_density density_for(
	const struct lw_timeline *timeline, const struct lw_timeline_layout *layout)
{
	int n_ranks = (int)layout->n_rows;

	if (timeline->density != LW_TIMELINE_FITTING)
		return timeline->density;
	if (n_ranks * n_lanes_there(timeline) <= layout->n_lines)
		return LW_TIMELINE_ALL;
	return n_ranks * 2 <= layout->n_lines ? LW_TIMELINE_TWO : LW_TIMELINE_ONE;
}

static void place_rows(const struct lw_timeline *timeline, struct lw_timeline_layout *layout)
{
	const struct lw_run *run = timeline->lanes.run;
	int n;

	if (timeline->is_by_tensor) {
		layout->n_rows = timeline->lanes.tensors.n_order;
		layout->lanes_per_row = layout->row_lines = 1;
		layout->label_width = layout->n_columns / 4 < 26 ? layout->n_columns / 4 : 26;
	} else {
		layout->n_rows = run->ranks.n;
		layout->density = density_for(timeline, layout);
		layout->lanes_per_row = layout->density == LW_TIMELINE_ALL ? n_lanes_there(timeline)
					: layout->density == LW_TIMELINE_TWO ? 2
									     : 1;
		n = (int)layout->n_rows;
		layout->row_lines = layout->lanes_per_row +
				    (layout->lanes_per_row > 1 &&
					    n * (layout->lanes_per_row + 1) <= layout->n_lines + 1);
		layout->label_width = 2 + n_digits(run->size);
		if (layout->density != LW_TIMELINE_ONE)
			layout->label_width += NAME_WIDTH;
	}
	layout->n_columns -= layout->label_width;
	if (layout->n_columns > MAX_COLUMNS)
		layout->n_columns = MAX_COLUMNS;
	if (layout->n_columns < 1)
		layout->n_columns = 1;
	layout->n_shown = (size_t)((layout->n_lines + layout->row_lines - layout->lanes_per_row) /
				   layout->row_lines);
	if (layout->n_shown < 1)
		layout->n_shown = 1;
}

struct lw_timeline_layout lw_timeline_lay_out(
	const struct lw_timeline *timeline, struct lw_pane pane)
{
	struct lw_timeline_layout layout = {.n_columns = pane.width, .legend_line = -1};
	int height = pane.height;

	layout.header_lines = height >= 8 ? 3 : 2;
	if (pane.width >= SIDE_FROM && height > LW_TIMELINE_HEAD_LINES) {
		layout.n_columns = pane.width - SIDE_WIDTH;
		layout.details =
			lw_pane_part(pane, layout.n_columns + 1, 0, SIDE_WIDTH - 1, pane.height);
	} else if (height >= 18) {
		height -= LW_TIMELINE_HEAD_LINES;
	} else if (height >= 12) {
		height -= 3;
	}
	if (height < pane.height)
		layout.details = lw_pane_part(pane, 0, height, pane.width, pane.height - height);
	if (height >= 8)
		layout.legend_line = --height;
	layout.first_line = layout.header_lines;
	layout.n_lines = height - layout.header_lines;
	place_rows(timeline, &layout);
	return layout;
}

/* ---- above the rows ----------------------------------------------------------------------------- */

static int column_of(const struct lw_timeline *timeline, int64_t at_ns)
{
	int64_t apart_ns = at_ns - timeline->from_ns;
	int64_t column = apart_ns / timeline->column_ns - (apart_ns < 0);

	return column < -1 ? -1 : column > MAX_COLUMNS ? MAX_COLUMNS : (int)column;
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
	int32_t step = lw_timeline_step_at(timeline, timeline->cursor_ns);
	char column[LW_UNIT_TEXT_BYTES];
	int x = 1;

	if (timeline->is_by_tensor)
		x += lw_pane_print(pane, x, 0, LW_STYLE_STRONG, "%zu tensors of rank %d",
			timeline->lanes.tensors.n_order, rank->rank);
	else
		x += lw_pane_print(pane, x, 0, LW_STYLE_STRONG, "%zu rank%s", run->ranks.n,
			run->ranks.n == 1 ? "" : "s");
	x += lw_pane_print(pane, x, 0, LW_STYLE_TEXT, "  %s a column",
		lw_ns_format((double)timeline->column_ns, column));
	if (step != LW_NONE)
		x += lw_pane_print(pane, x, 0, LW_STYLE_TEXT, "  step %d of %zu%s", step,
			rank->steps.n, rank->steps.at[step].excluded ? " (left out)" : "");
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
		if (tick_ns / timeline->column_ns >= n_digits(last_ns / unit_ns) + decimals + 1 + 6)
			return tick_ns;
		tick_ns = tick_ns / (i % 3 ? factors[i % 3 - 1] : 1) * factors[i % 3];
	}
}

static void draw_ruler(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	struct lw_pane pane)
{
	int decimals, cursor = column_of(timeline, timeline->cursor_ns);
	int64_t tick_ns = tick_of(timeline, layout->n_columns, &decimals);
	int64_t at_ns =
		timeline->from_ns > 0 ? (timeline->from_ns + tick_ns - 1) / tick_ns * tick_ns : 0;
	struct lw_pane across = lw_pane_part(pane, layout->label_width, 0, layout->n_columns, 3);

	for (; column_of(timeline, at_ns) < layout->n_columns; at_ns += tick_ns) {
		bool is_s = tick_ns >= LW_NS_PER_S / 10;
		int x = column_of(timeline, at_ns), width;
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
static const char *step_text(const struct lw_step *step, int32_t s, int width, char text[96])
{
	static const char *const counted[] = {"step %d", "%d"};
	static const char *const excluded[] = {
		"step %d left out: ", "step %d left out", "%d left out", "%dx"};
	size_t n = step->excluded ? 4 : 2;

	for (size_t i = 0; i < n; i++) {
		const char *format = step->excluded ? excluded[i] : counted[i];
		int columns;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		columns = snprintf(text, 96, format, s);
#pragma GCC diagnostic pop
		if (step->excluded && i == 0)
			columns = snprintf(text, 96, "step %d left out: %s", s, step->excluded);
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
		int x = column_of(timeline, step->start_ns - origin_ns);
		int end = column_of(timeline, step->end_ns - origin_ns);
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
		shown = step_text(step, s, end - x > 1 ? end - x : n_digits(s) + 1, text);
		if (!shown)
			shown = "";
		free_from = x + 1 +
			    lw_pane_text(across, x, 2, layout->n_columns - x,
				    step->excluded ? LW_STYLE_DIM : LW_STYLE_TEXT, shown);
	}
}

/* ---- rows --------------------------------------------------------------------------------------- */

struct columns {
	int64_t from_ns, column_ns; /* on the rank's clock */
	int n;
	int64_t occupied[LW_TRACKS][MAX_COLUMNS];
};

static void look(const struct lw_tracks *tracks, struct columns *columns)
{
	for (size_t k = 0; k < LW_TRACKS; k++)
		lw_track_columns(&tracks->of[k], columns->from_ns, columns->column_ns, columns->n,
			columns->occupied[k]);
}

/* One kind: how much of each column, in eighths; a little is still something. */
static void draw_kind(struct lw_pane line, const struct columns *columns, size_t kind)
{
	for (int x = 0; x < columns->n; x++) {
		int64_t occupied_ns = columns->occupied[kind][x];
		int level = (int)(occupied_ns * 8 / columns->column_ns);

		if (occupied_ns > 0)
			lw_pane_rune(line, x, 0, lw_lanes[kind].style,
				lw_glyph(line.cells,
					level >= 7 ? LW_GLYPH_LEVEL_LAST
						   : LW_GLYPH_LEVEL_FIRST + (enum lw_glyph)level));
	}
}

/*
 * Several kinds: the one that takes most of the column. Of kinds that go on side by side the first of the list
 * counts, as where exposed time is told apart (docs/phases.md): what is left for a later one is what the
 * earlier ones leave of the column.
 */
static void draw_most(struct lw_pane line, const struct columns *columns, bool with_compute)
{
	static const size_t kinds[] = {
		LW_LANE_COMPUTE, LW_LANE_ALLREDUCE, LW_LANE_MISC, LW_LANE_WAIT, LW_LANE_NEGOTIATE};

	for (int x = 0; x < columns->n; x++) {
		size_t most = LW_TRACKS;
		int64_t most_ns = 0, left_ns = columns->column_ns;

		for (size_t i = with_compute ? 0 : 1; i < LW_TRACKS; i++) {
			int64_t own_ns = columns->occupied[kinds[i]][x];

			own_ns = own_ns < left_ns ? own_ns : left_ns;
			left_ns -= own_ns;
			if (own_ns > most_ns) {
				most = kinds[i];
				most_ns = own_ns;
			}
		}
		if (most < LW_TRACKS)
			lw_pane_rune(line, x, 0, lw_lanes[most].style,
				lw_glyph(line.cells, lw_lanes[most].glyph));
	}
}

/* The selected collective on a row: brackets, so that it is seen without colours too. */
static void mark(const struct lw_timeline *timeline, size_t r, struct lw_pane line)
{
	const struct lw_batch *batch = lw_timeline_batch(timeline, r);
	int64_t origin_ns = timeline->lanes.ranks[r].origin_ns;
	int first, last;

	if (!batch)
		return;
	first = column_of(timeline, batch->start_ns - origin_ns);
	last = column_of(timeline, batch->end_ns - 1 - origin_ns);
	if (last < 0 || first >= line.width) { /* which way it is */
		lw_pane_rune(line, last < 0 ? 0 : line.width - 1, 0, LW_STYLE_WARN,
			last < 0 ? '<' : '>');
		return;
	}
	lw_pane_restyle(line, first, 0, last - first + 1, LW_STYLE_SELECTED);
	if (first == last) {
		lw_pane_rune(line, first, 0, LW_STYLE_SELECTED, '@');
		return;
	}
	lw_pane_rune(line, first, 0, LW_STYLE_SELECTED, '[');
	lw_pane_rune(line, last, 0, LW_STYLE_SELECTED, ']');
}

static void draw_rank_label(const struct lw_timeline *timeline, size_t r, struct lw_pane pane,
	int y, const char *lane, bool is_first)
{
	bool is_selected = r == timeline->rank;
	const struct lw_run *run = timeline->lanes.run;
	int digits = n_digits(run->size);
	enum lw_style style = is_selected ? LW_STYLE_STRONG : LW_STYLE_TEXT;

	if (is_selected && is_first)
		lw_pane_rune(pane, 0, y, style, lw_glyph(pane.cells, LW_GLYPH_CURSOR));
	if (is_first)
		lw_pane_print(pane, 1, y, style, "%*d", digits, run->ranks.at[r].rank);
	if (lane)
		lw_pane_text(pane, digits + 2, y, NAME_WIDTH - 1, style, lane);
}

static void draw_rank(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	size_t r, struct lw_pane pane, int y, struct columns *columns)
{
	static const char *const two[] = {"compute", "comm"};
	size_t kind = 0;

	columns->from_ns = timeline->from_ns + timeline->lanes.ranks[r].origin_ns;
	look(&timeline->lanes.ranks[r].tracks, columns);
	for (int lane = 0; lane < layout->lanes_per_row; lane++, kind++) {
		struct lw_pane line =
			lw_pane_part(pane, layout->label_width, y + lane, layout->n_columns, 1);
		bool is_comm = layout->lanes_per_row == 1 || lane == 1;

		while (kind > LW_LANE_COMPUTE && layout->density == LW_TIMELINE_ALL &&
			!timeline->lanes.is_there[kind])
			kind++;
		draw_rank_label(timeline, r, pane, y + lane,
			layout->density == LW_TIMELINE_ONE   ? NULL
			: layout->density == LW_TIMELINE_TWO ? two[lane]
							     : lw_lanes[kind].name,
			lane == 0);
		if (layout->density == LW_TIMELINE_ONE)
			draw_most(line, columns, true);
		else if (layout->density == LW_TIMELINE_TWO && lane == 1)
			draw_most(line, columns, false);
		else
			draw_kind(line, columns, kind);
		if (kind == LW_LANE_COMPUTE && layout->density != LW_TIMELINE_ONE &&
			timeline->lanes.ranks[r].is_waited == LW_BLOCKED_UNKNOWN)
			lw_pane_text(line, 0, 0, line.width, LW_STYLE_DIM, "? not known");
		if (layout->density == LW_TIMELINE_ALL)
			is_comm = kind == LW_LANE_ALLREDUCE;
		if (is_comm && (timeline->is_following || r == timeline->rank))
			mark(timeline, r, line);
	}
}

/* The end of a name tells tensors apart; their beginnings are often the same. */
static void draw_tensor_label(
	struct lw_pane pane, int y, int width, enum lw_style style, const char *name)
{
	int columns = lw_text_width(name);

	if (columns > width && width > 1) {
		lw_pane_rune(pane, 1, y, style, lw_glyph(pane.cells, LW_GLYPH_CUT));
		for (; columns > width - 1 && *name; columns = lw_text_width(name)) {
			name++;
			while ((*name & 0xc0) == 0x80)
				name++;
		}
		lw_pane_text(pane, 2, y, width - 1, style, name);
	} else {
		lw_pane_text(pane, 1, y, width, style, name);
	}
}

static bool carries(const struct lw_rank *rank, const struct lw_batch *batch, uint32_t tensor)
{
	for (uint32_t i = 0; batch && i < batch->n_members; i++)
		if (rank->members.at[batch->first_member + i].tensor == tensor)
			return true;
	return false;
}

static void draw_tensor(struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	size_t row, struct lw_pane pane, int y, struct columns *columns)
{
	const struct lw_run *run = timeline->lanes.run;
	uint32_t tensor = timeline->lanes.tensors.order[row];
	const struct lw_tracks *tracks = lw_lanes_tensor(&timeline->lanes, tensor);
	struct lw_pane line = lw_pane_part(pane, layout->label_width, y, layout->n_columns, 1);
	enum lw_style style = row == timeline->row ? LW_STYLE_STRONG : LW_STYLE_TEXT;

	if (row == timeline->row)
		lw_pane_rune(pane, 0, y, style, lw_glyph(pane.cells, LW_GLYPH_CURSOR));
	draw_tensor_label(pane, y, layout->label_width - 2, style, run->tensors.at[tensor].name);
	if (!tracks)
		return;
	columns->from_ns = timeline->from_ns + timeline->lanes.ranks[timeline->rank].origin_ns;
	look(tracks, columns);
	draw_most(line, columns, false);
	if ((timeline->is_following || row == timeline->row) &&
		carries(&run->ranks.at[timeline->rank], lw_timeline_batch(timeline, timeline->rank),
			tensor))
		mark(timeline, timeline->rank, line);
}

static void draw_legend(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	struct lw_pane pane, int width)
{
	struct lw_pane line = lw_pane_part(pane, 0, layout->legend_line, width, 1);
	struct lw_bar_part parts[LW_TRACKS];
	uint32_t rule = lw_glyph(pane.cells, LW_GLYPH_LINE);
	size_t n = 0;
	int x;

	lw_pane_fill(line, 0, 0, 2, LW_STYLE_DIM, rule);
	if (!timeline->is_by_tensor && layout->density == LW_TIMELINE_ALL) {
		x = 2 + lw_pane_print(line, 2, 0, LW_STYLE_DIM,
				" height: share of the column's time   [] or @: selected ");
	} else {
		for (size_t k = timeline->is_by_tensor ? LW_LANE_NEGOTIATE : LW_LANE_COMPUTE;
			k < LW_TRACKS; k++)
			if (timeline->lanes.is_there[k])
				parts[n++].lane = (enum lw_lane)k;
		x = 2 + lw_pane_print(line, 2, 0, LW_STYLE_DIM, " most of a column:  ");
		x += lw_pane_legend(line, x, 0, parts, n);
	}
	lw_pane_fill(line, x, 0, width - x, LW_STYLE_DIM, rule);
}

/* Where the cursor's column crosses the selected row. */
static void draw_cursor(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	struct lw_pane pane)
{
	size_t row = timeline->is_by_tensor ? timeline->row : timeline->rank;
	int x = column_of(timeline, timeline->cursor_ns);
	int y = layout->first_line + (int)(row - timeline->top) * layout->row_lines;

	if (x >= 0 && x < layout->n_columns)
		for (int lane = 0; lane < layout->lanes_per_row; lane++)
			lw_pane_restyle(
				pane, layout->label_width + x, y + lane, 1, LW_STYLE_SELECTED);
}

static void draw_rows(
	struct lw_timeline *timeline, const struct lw_timeline_layout *layout, struct lw_pane pane)
{
	size_t row = timeline->is_by_tensor ? timeline->row : timeline->rank;
	struct columns *columns = malloc(sizeof(*columns));
	struct lw_pane rows =
		lw_pane_part(pane, 0, 0, pane.width, layout->first_line + layout->n_lines);

	if (!columns)
		return;
	columns->column_ns = timeline->column_ns;
	columns->n = layout->n_columns;
	if (timeline->top + layout->n_shown > layout->n_rows)
		timeline->top =
			layout->n_rows > layout->n_shown ? layout->n_rows - layout->n_shown : 0;
	if (row < timeline->top)
		timeline->top = row;
	if (row >= timeline->top + layout->n_shown)
		timeline->top = row - layout->n_shown + 1;
	for (size_t i = 0; i < layout->n_shown && timeline->top + i < layout->n_rows; i++) {
		int y = layout->first_line + (int)i * layout->row_lines;

		if (timeline->is_by_tensor)
			draw_tensor(timeline, layout, timeline->top + i, rows, y, columns);
		else
			draw_rank(timeline, layout, timeline->top + i, rows, y, columns);
	}
	free(columns);
	draw_cursor(timeline, layout, rows);
	if (timeline->top > 0)
		lw_pane_rune(pane, layout->label_width - 1, layout->first_line, LW_STYLE_DIM,
			lw_glyph(pane.cells, LW_GLYPH_UP));
	if (timeline->top + layout->n_shown < layout->n_rows)
		lw_pane_rune(pane, layout->label_width - 1,
			layout->first_line + layout->n_lines - 1, LW_STYLE_DIM,
			lw_glyph(pane.cells, LW_GLYPH_DOWN));
}

void lw_timeline_draw(struct lw_timeline *timeline, struct lw_pane pane)
{
	struct lw_timeline_layout layout = lw_timeline_lay_out(timeline, pane);
	bool is_beside = layout.details.y == pane.y && layout.details.height > 0;
	int width = is_beside ? pane.width - SIDE_WIDTH : pane.width;
	struct lw_pane left = lw_pane_part(pane, 0, 0, width, pane.height);

	draw_status(timeline, left);
	draw_ruler(timeline, &layout, left);
	if (layout.header_lines > 2)
		draw_steps(timeline, &layout, left);
	draw_rows(timeline, &layout, left);
	if (layout.legend_line >= 0)
		draw_legend(timeline, &layout, left, width);
	for (int y = 0; is_beside && y < pane.height; y++)
		lw_pane_rune(pane, width, y, LW_STYLE_DIM, lw_glyph(pane.cells, LW_GLYPH_BAR));
	if (layout.details.height > 0)
		lw_timeline_details_draw(timeline, layout.details);
}
