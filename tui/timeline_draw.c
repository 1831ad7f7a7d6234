/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_draw.c - rows and their lanes. Redrawing looks at columns, not at events. */
#include <stdlib.h>

#include "tui/timeline.h"

/* ---- rows --------------------------------------------------------------------------------------- */

struct columns {
	int64_t from_ns, column_ns; /* on the rank's clock */
	int n;
	int64_t occupied[LW_TRACKS][LW_TIMELINE_MAX_COLUMNS];
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
 * earlier ones leave of the column. @may_idle: the rank's computing is its GPU's, which may do nothing at all.
 */
static void draw_most(
	struct lw_pane line, const struct columns *columns, bool with_compute, bool may_idle)
{
	static const size_t kinds[] = {
		LW_LANE_COMPUTE, LW_LANE_ALLREDUCE, LW_LANE_MISC, LW_LANE_WAIT, LW_LANE_NEGOTIATE};

	for (int x = 0; x < columns->n; x++) {
		size_t most = LW_TRACKS;
		int64_t most_ns = 0, left_ns = columns->column_ns;
		enum lw_glyph glyph;

		for (size_t i = with_compute ? 0 : 1; i < LW_TRACKS; i++) {
			int64_t own_ns = columns->occupied[kinds[i]][x];

			own_ns = own_ns < left_ns ? own_ns : left_ns;
			left_ns -= own_ns;
			if (own_ns > most_ns) {
				most = kinds[i];
				most_ns = own_ns;
			}
		}
		if (most == LW_TRACKS)
			continue;
		/* idle for most of it: as high as what the kind has */
		glyph = may_idle && left_ns > most_ns
				? LW_GLYPH_LEVEL_FIRST +
					  (enum lw_glyph)(most_ns * 8 / columns->column_ns)
				: lw_lanes[most].glyph;
		lw_pane_rune(line, x, 0, lw_lanes[most].style, lw_glyph(line.cells, glyph));
	}
}

void lw_timeline_mark(
	const struct lw_timeline *timeline, struct lw_pane line, struct lw_interval span)
{
	int first = lw_timeline_column(timeline, span.start_ns);
	int last = lw_timeline_column(
		timeline, span.end_ns > span.start_ns ? span.end_ns - 1 : span.start_ns);

	if (last < 0 || first >= line.width)
		return;
	lw_pane_restyle(line, first, 0, last - first + 1, LW_STYLE_SELECTED);
	lw_pane_rune(line, first, 0, LW_STYLE_SELECTED, first == last ? '@' : '[');
	if (first != last)
		lw_pane_rune(line, last, 0, LW_STYLE_SELECTED, ']');
}

/* The selected collective on a row. */
static void mark(const struct lw_timeline *timeline, size_t r, struct lw_pane line)
{
	const struct lw_batch *batch = lw_timeline_batch(timeline, r);
	int64_t origin_ns = timeline->lanes.ranks[r].origin_ns;
	int first, last;

	if (!batch)
		return;
	first = lw_timeline_column(timeline, batch->start_ns - origin_ns);
	last = lw_timeline_column(timeline, batch->end_ns - 1 - origin_ns);
	if (last < 0 || first >= line.width) /* which way it is */
		lw_pane_rune(line, last < 0 ? 0 : line.width - 1, 0, LW_STYLE_WARN,
			last < 0 ? '<' : '>');
	else
		lw_timeline_mark(timeline, line,
			(struct lw_interval){
				batch->start_ns - origin_ns, batch->end_ns - origin_ns});
}

static void draw_rank_label(const struct lw_timeline *timeline, size_t r, struct lw_pane pane,
	int y, const char *lane, bool is_first)
{
	bool is_selected = r == timeline->rank;
	const struct lw_run *run = timeline->lanes.run;
	int digits = lw_timeline_n_digits(run->size);
	enum lw_style style = is_selected ? LW_STYLE_STRONG : LW_STYLE_TEXT;

	if (is_selected && is_first)
		lw_pane_rune(pane, 0, y, style, lw_glyph(pane.cells, LW_GLYPH_CURSOR));
	if (is_first)
		lw_pane_print(pane, 1, y, style, "%*d", digits, run->ranks.at[r].rank);
	if (lane)
		lw_pane_text(pane, digits + 2, y, LW_TIMELINE_NAME_WIDTH - 1, style, lane);
}

static void draw_nic(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	size_t r, struct lw_pane pane, int y, int n_lines)
{
	char label[2 * LW_UNIT_TEXT_BYTES];

	for (int line = 0; line < n_lines; line++) {
		lw_timeline_nic_label(timeline, r, line, n_lines, label);
		if (layout->density != LW_TIMELINE_ONE)
			draw_rank_label(timeline, r, pane, y + line, label, false);
	}
	lw_timeline_nic_draw(timeline, r,
		lw_pane_part(pane, layout->label_width, y, layout->n_columns, n_lines), n_lines);
}

/* Each once, below the rows, with the number of the first rank that has it: "0+". */
static void draw_shared(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	struct lw_pane pane)
{
	const struct lw_nic_lanes *nic = &timeline->lanes.nic;
	size_t n_above = layout->n_shown < layout->n_rows ? layout->n_shown : layout->n_rows;
	int y = layout->first_line + (int)n_above * layout->row_lines;
	int digits = lw_timeline_n_digits(timeline->lanes.run->size);

	for (size_t r = 0; r < layout->n_rows && layout->shared_lines; r++) {
		const struct lw_nic_lane *lane = lw_nic_lane_of(nic, r);
		bool is_selected =
			lane && lane == lw_nic_lane_of(nic, timeline->rank) && lane->n_ranks > 1;
		int x = lw_timeline_column(timeline, timeline->cursor_ns);

		if (!lane || lane->n_ranks < 2 || lane->first_rank != r ||
			(layout->is_shared_selected && !is_selected))
			continue;
		lw_pane_print(pane, 1, y, is_selected ? LW_STYLE_STRONG : LW_STYLE_TEXT, "%*d+",
			digits, timeline->lanes.run->ranks.at[r].rank);
		draw_nic(timeline, layout, r, pane, y, layout->shared_lines);
		for (int i = 0;
			is_selected && x >= 0 && x < layout->n_columns && i < layout->shared_lines;
			i++)
			lw_pane_restyle(pane, layout->label_width + x, y + i, 1, LW_STYLE_SELECTED);
		y += layout->shared_lines;
	}
}

static void draw_ranges(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	size_t r, struct lw_pane pane, int y)
{
	for (int line = 0; line < layout->range_lines; line++) {
		draw_rank_label(timeline, r, pane, y + line,
			line == 0 && layout->density != LW_TIMELINE_ONE ? "ranges" : NULL,
			line == 0);
		lw_timeline_range_draw(timeline, r, line, layout->range_lines,
			lw_pane_part(pane, layout->label_width, y + line, layout->n_columns, 1));
	}
}

static void draw_gpu(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	size_t r, struct lw_pane pane, int y)
{
	char label[LW_UNIT_TEXT_BYTES];

	for (int line = 0; line < layout->gpu_lines; line++) {
		draw_rank_label(timeline, r, pane, y + line,
			lw_timeline_gpu_label(timeline, r, (size_t)line, label),
			line == 0 && !layout->range_lines);
		lw_timeline_gpu_draw(timeline, r, (size_t)line,
			lw_pane_part(pane, layout->label_width, y + line, layout->n_columns, 1));
	}
}

/* One of the host's lanes: @lane of all of them, of @kind where each has its own. */
static void draw_host_lane(const struct lw_timeline *timeline,
	const struct lw_timeline_layout *layout, size_t r, struct lw_pane line,
	const struct columns *columns, int lane, size_t kind)
{
	bool is_comm = layout->density == LW_TIMELINE_ALL
			       ? kind == LW_LANE_ALLREDUCE
			       : layout->density == LW_TIMELINE_ONE || lane == 1;

	if (layout->density == LW_TIMELINE_ONE)
		draw_most(line, columns, true, lw_gpu_has(&timeline->lanes.run->ranks.at[r]));
	else if (layout->density == LW_TIMELINE_TWO && lane == 1)
		draw_most(line, columns, false, false);
	else
		draw_kind(line, columns, kind);
	if (kind == LW_LANE_COMPUTE && layout->density != LW_TIMELINE_ONE &&
		timeline->lanes.ranks[r].is_waited == LW_BLOCKED_UNKNOWN)
		lw_pane_text(line, 0, 0, line.width, LW_STYLE_DIM, "? not known");
	if (is_comm && !timeline->is_on_gpu && !timeline->is_on_range &&
		(timeline->is_following || r == timeline->rank))
		mark(timeline, r, line);
}

static void draw_rank(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	size_t r, struct lw_pane pane, int y, struct columns *columns)
{
	static const char *const two[] = {"compute", "comm"};
	int n_host =
		layout->lanes_per_row - layout->nic_lines - layout->gpu_lines - layout->range_lines;
	int first = layout->gpu_lines && lw_timeline_gpu_has_compute(timeline);
	size_t kind = first ? LW_LANE_NEGOTIATE : LW_LANE_COMPUTE;

	columns->from_ns = timeline->from_ns + timeline->lanes.ranks[r].origin_ns;
	look(&timeline->lanes.ranks[r].tracks, columns);
	draw_ranges(timeline, layout, r, pane, y);
	y += layout->range_lines;
	draw_gpu(timeline, layout, r, pane, y);
	y += layout->gpu_lines;
	if (layout->nic_lines && lw_timeline_nic_is_shared(timeline, r))
		lw_pane_text(pane, layout->label_width, y + n_host, layout->n_columns, LW_STYLE_DIM,
			"shared: below all ranks");
	else if (layout->nic_lines)
		draw_nic(timeline, layout, r, pane, y + n_host, layout->nic_lines);
	for (int lane = 0; lane < n_host; lane++, kind++) {
		struct lw_pane line =
			lw_pane_part(pane, layout->label_width, y + lane, layout->n_columns, 1);

		while (kind > LW_LANE_COMPUTE && layout->density == LW_TIMELINE_ALL &&
			!timeline->lanes.is_there[kind])
			kind++;
		draw_rank_label(timeline, r, pane, y + lane,
			layout->density == LW_TIMELINE_ONE   ? NULL
			: layout->density == LW_TIMELINE_TWO ? two[lane + first]
							     : lw_lanes[kind].name,
			lane == 0 && !layout->gpu_lines && !layout->range_lines);
		draw_host_lane(timeline, layout, r, line, columns, lane + first, kind);
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
	const struct lw_tracks *tracks = timeline->lanes.tensors.tracks[tensor];
	struct lw_pane line = lw_pane_part(pane, layout->label_width, y, layout->n_columns, 1);
	enum lw_style style = row == timeline->row ? LW_STYLE_STRONG : LW_STYLE_TEXT;

	if (row == timeline->row)
		lw_pane_rune(pane, 0, y, style, lw_glyph(pane.cells, LW_GLYPH_CURSOR));
	draw_tensor_label(pane, y, layout->label_width - 2, style, run->tensors.at[tensor].name);
	if (!tracks) { /* the view's tick() makes them, a few at a time */
		lw_pane_text(line, 0, 0, line.width, LW_STYLE_DIM, "preparing ...");
		return;
	}
	columns->from_ns = timeline->from_ns + timeline->lanes.ranks[timeline->rank].origin_ns;
	look(tracks, columns);
	draw_most(line, columns, false, false);
	if ((timeline->is_following || row == timeline->row) &&
		carries(&run->ranks.at[timeline->rank], lw_timeline_batch(timeline, timeline->rank),
			tensor))
		mark(timeline, timeline->rank, line);
}

enum { RANGE_LEGEND = 27 }; /* its columns */

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
		x = 2 +
		    lw_pane_print(line, 2, 0, LW_STYLE_DIM,
			    lw_timeline_shows_nic(timeline)
				    ? " height: share of time, rate  !: sent again (': < 1 %%)  [] @: selected "
			    : layout->range_lines
				    ? " height: share of time  [] @: selected "
				    : " height: share of the column's time   [] or @: selected ");
	} else {
		for (size_t k = timeline->is_by_tensor ? LW_LANE_NEGOTIATE : LW_LANE_COMPUTE;
			k < LW_TRACKS; k++)
			if (timeline->lanes.is_there[k])
				parts[n++].lane = (enum lw_lane)k;
		x = 2 + lw_pane_print(line, 2, 0, LW_STYLE_DIM, " most of a column:  ");
		x += lw_pane_legend(line, x, 0, parts, n);
	}
	if (layout->range_lines && x + RANGE_LEGEND <= width) {
		lw_pane_rune(line, x + 1, 0, LW_STYLE_TEXT, lw_glyph(pane.cells, LW_GLYPH_BAR));
		lw_pane_rune(line, x + 16, 0, LW_STYLE_TEXT, lw_glyph(pane.cells, LW_GLYPH_WAIT));
		lw_pane_print(line, x + 2, 0, LW_STYLE_DIM, "name: a range");
		x += 17 + lw_pane_print(line, x + 17, 0, LW_STYLE_DIM, ": several ");
	}
	lw_pane_fill(line, x, 0, width - x, LW_STYLE_DIM, rule);
}

/* Where the cursor's column crosses the selected row. */
static void draw_cursor(const struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	struct lw_pane pane)
{
	size_t row = timeline->is_by_tensor ? timeline->row : timeline->rank;
	int x = lw_timeline_column(timeline, timeline->cursor_ns);
	int y = layout->first_line + (int)(row - timeline->top) * layout->row_lines;

	int on = LW_NONE; /* the only lane that it is on */

	if (timeline->is_on_gpu && timeline->gpu_line < (size_t)layout->gpu_lines)
		on = layout->range_lines + (int)timeline->gpu_line;
	if (timeline->is_on_range && layout->range_lines)
		on = (int)(timeline->range_level -
			   lw_timeline_range_base(timeline, timeline->rank, layout->range_lines));
	if (x >= 0 && x < layout->n_columns)
		for (int lane = 0; lane < layout->lanes_per_row; lane++)
			if (on == LW_NONE || lane == on)
				lw_pane_restyle(pane, layout->label_width + x, y + lane, 1,
					LW_STYLE_SELECTED);
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
	int width = is_beside ? pane.width - LW_TIMELINE_SIDE_WIDTH : pane.width;
	struct lw_pane left = lw_pane_part(pane, 0, 0, width, pane.height);

	lw_timeline_ruler_draw(timeline, &layout, left);
	draw_rows(timeline, &layout, left);
	draw_shared(timeline, &layout, left);
	if (layout.legend_line >= 0)
		draw_legend(timeline, &layout, left, width);
	for (int y = 0; is_beside && y < pane.height; y++)
		lw_pane_rune(pane, width, y, LW_STYLE_DIM, lw_glyph(pane.cells, LW_GLYPH_BAR));
	if (layout.details.height > 0)
		lw_timeline_details_draw(timeline, layout.details);
}
