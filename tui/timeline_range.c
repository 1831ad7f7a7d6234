/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_range.c - the lanes of the program's ranges: bars with their names, those within others below them. */
#include "tui/timeline.h"

enum { LEAST_NAME = 4 }; /* columns that a name is worth being cut to */

bool lw_timeline_shows_ranges(const struct lw_timeline *timeline)
{
	return timeline->lanes.ranges.most_levels > 0 && !timeline->is_by_tensor &&
	       timeline->ranges_shown != LW_TIMELINE_RANGES_HIDDEN;
}

/* What of the screen the run is on, on the clock of rank @r. */
static struct lw_interval screen_of(const struct lw_timeline *timeline, size_t r)
{
	int64_t origin_ns = timeline->lanes.ranks[r].origin_ns;
	int64_t to_ns = timeline->from_ns + timeline->column_ns * timeline->n_columns;

	if (to_ns > timeline->lanes.length_ns)
		to_ns = timeline->lanes.length_ns;
	return (struct lw_interval){
		(timeline->from_ns > 0 ? timeline->from_ns : 0) + origin_ns, to_ns + origin_ns};
}

size_t lw_timeline_range_base(const struct lw_timeline *timeline, size_t r, int n_lines)
{
	const struct lw_range_rank *rank = &timeline->lanes.ranges.ranks[r];
	struct lw_interval screen = screen_of(timeline, r);
	size_t base = 0;

	while (base + 1 < rank->n_levels) {
		const lw_range_level *level = &rank->levels[base];
		size_t i = lw_range_at(level, screen.start_ns);

		if (i == level->n || level->at[i].start_ns > screen.start_ns ||
			level->at[i].end_ns < screen.end_ns)
			break;
		base++;
	}
	if (!timeline->is_on_range || r != timeline->rank)
		return base;
	/* what is selected is on the screen */
	if (timeline->range_level < base)
		return timeline->range_level;
	if (timeline->range_level >= base + (size_t)n_lines)
		return timeline->range_level + 1 - (size_t)n_lines;
	return base;
}

/* A bar from column @x to @last. */
static void draw_bar(struct lw_pane line, int x, int last, bool begins, bool ends, const char *name)
{
	uint32_t edge = lw_glyph(line.cells, LW_GLYPH_BAR);
	int at = x + begins, width;

	ends &= last > x;
	width = last - ends - at + 1;
	lw_pane_fill(line, x, 0, last - x + 1, LW_STYLE_DIM, lw_glyph(line.cells, LW_GLYPH_LINE));
	if (begins)
		lw_pane_rune(line, x, 0, LW_STYLE_TEXT, edge);
	if (ends)
		lw_pane_rune(line, last, 0, LW_STYLE_TEXT, edge);
	if (width > 0 && (width >= LEAST_NAME || lw_text_width(name) <= width))
		lw_pane_text(line, at, 0, width, LW_STYLE_STRONG, name);
}

/* Column of @at_ns, which is on the screen or to the right of it. */
static int column_of(int64_t at_ns, int64_t from_ns, int64_t column_ns, int width)
{
	int64_t column = (at_ns - from_ns) / column_ns;

	return column < width ? (int)column : width;
}

/* Several within a column are a dot: a column takes a search, however many there are. */
static void draw_level(
	struct lw_pane line, const lw_range_level *level, int64_t from_ns, int64_t column_ns)
{
	int width = line.width;

	for (int x = 0; x < width;) {
		int64_t at_ns = from_ns + column_ns * x;
		size_t i = lw_range_at(level, at_ns);
		int last, next;
		bool begins;

		/* what only ends here makes room for the one that begins */
		if (i + 1 < level->n && level->at[i].start_ns < at_ns &&
			column_of(level->at[i + 1].start_ns, from_ns, column_ns, width) == x)
			i++;
		if (i == level->n ||
			column_of(level->at[i].start_ns, from_ns, column_ns, width) == width)
			return;
		begins = level->at[i].start_ns >= at_ns;
		if (begins)
			x = column_of(level->at[i].start_ns, from_ns, column_ns, width);
		last = column_of(level->at[i].end_ns - 1, from_ns, column_ns, width);
		next = i + 1 < level->n
			       ? column_of(level->at[i + 1].start_ns, from_ns, column_ns, width)
			       : width;
		if (next == x) {
			lw_pane_rune(line, x, 0, LW_STYLE_DIM, lw_glyph(line.cells, LW_GLYPH_WAIT));
			last = x;
		} else if (next <= last + 1) { /* the edge of the next one ends it */
			last = next - 1;
			draw_bar(line, x, last, begins, false, level->at[i].name);
		} else {
			draw_bar(line, x, last < width ? last : width - 1, begins, last < width,
				level->at[i].name);
		}
		x = last + 1;
	}
}

void lw_timeline_range_draw(
	const struct lw_timeline *timeline, size_t r, int line, int n_lines, struct lw_pane pane)
{
	const struct lw_range_rank *rank = &timeline->lanes.ranges.ranks[r];
	int64_t origin_ns = timeline->lanes.ranks[r].origin_ns;
	size_t d = lw_timeline_range_base(timeline, r, n_lines) + (size_t)line;
	const struct lw_range_bar *bar = lw_timeline_bar(timeline);

	if (!rank->n_levels && line == 0)
		lw_pane_text(pane, 0, 0, pane.width, LW_STYLE_DIM, "none recorded");
	if (d >= rank->n_levels)
		return;
	draw_level(pane, &rank->levels[d], timeline->from_ns + origin_ns, timeline->column_ns);
	if (timeline->is_on_range && r == timeline->rank && d == timeline->range_level && bar)
		lw_timeline_mark(timeline, pane,
			(struct lw_interval){bar->start_ns - origin_ns, bar->end_ns - origin_ns});
}
