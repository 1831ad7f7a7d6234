/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/step_picture.h"

#include <math.h>
#include <stdio.h>

#include "base/units.h"

enum { NAME_WIDTH = 18, LEAST_WIDTH = 10, MOST_COLUMNS = 512 };

struct axis { /* of the timeline */
	int x, width;
	double whole_ns;
};

static void draw_stretch(struct lw_pane pane, const struct axis *axis, int y, enum lw_lane lane,
	int64_t from_ns, int64_t to_ns)
{
	double scale = axis->width / axis->whole_ns;
	int from = (int)floor((double)from_ns * scale), to = (int)ceil((double)to_ns * scale);

	from = from < 0 ? 0 : from;
	to = to > axis->width ? axis->width : to;
	if (to_ns > from_ns && from < to)
		lw_pane_fill(pane, axis->x + from, y, to - from, lw_lanes[lane].style,
			lw_glyph(pane.cells, lw_lanes[lane].glyph));
}

/* How much of each column [@from_ns, @to_ns) takes. */
static void occupy(const struct axis *axis, double *busy, int64_t from_ns, int64_t to_ns)
{
	double from = (double)from_ns * axis->width / axis->whole_ns;
	double to = fmin((double)to_ns * axis->width / axis->whole_ns, axis->width);

	for (int x = from > 0 ? (int)from : 0; x < to; x++)
		busy[x] += fmin(to, x + 1) - fmax(from, x);
}

/* What a column is filled by: copies, or the wire: all of it, or a height that says how much. */
static enum lw_glyph look_of(double wire, double copies, enum lw_style *ret_style)
{
	double level = fmin(wire + copies, 1) * 8;

	*ret_style = copies > wire ? LW_STYLE_MISC : LW_STYLE_ALLREDUCE;
	if (copies > wire && level >= 4)
		return LW_GLYPH_MISC;
	if (level > 7.5)
		return LW_GLYPH_ALLREDUCE;
	return LW_GLYPH_LEVEL_FIRST + (enum lw_glyph)(level > 1 ? level - 1 : 0);
}

static void draw_wire(struct lw_pane pane, const struct axis *axis, int y, const char *name,
	const struct lw_trace *trace)
{
	double wire[MOST_COLUMNS] = {0}, copies[MOST_COLUMNS] = {0};

	lw_pane_text(pane, 1, y, NAME_WIDTH - 1, LW_STYLE_DIM, name);
	for (size_t i = 0; i < trace->ops.n; i++) {
		const struct lw_trace_op *op = &trace->ops.at[i];

		occupy(axis, copies, op->start_ns, op->wire_start_ns);
		occupy(axis, wire, op->wire_start_ns, op->wire_end_ns);
		occupy(axis, copies, op->wire_end_ns, op->end_ns);
	}
	for (int x = 0; x < axis->width; x++) {
		enum lw_style style;
		enum lw_glyph glyph = look_of(wire[x], copies[x], &style);

		if (wire[x] + copies[x] > 0)
			lw_pane_rune(pane, axis->x + x, y, style, lw_glyph(pane.cells, glyph));
	}
	/* where one begins, unless it is a column wide: else a row of them looks like one */
	for (size_t i = 0; i < trace->ops.n; i++) {
		const struct lw_trace_op *op = &trace->ops.at[i];
		double scale = axis->width / axis->whole_ns;
		int from = (int)floor((double)op->start_ns * scale);

		if ((double)(op->end_ns - op->start_ns) * scale >= 2 && from >= 0 &&
			from < axis->width)
			lw_pane_rune(pane, axis->x + from, y, LW_STYLE_ALLREDUCE,
				lw_glyph(pane.cells, LW_GLYPH_BAR));
	}
}

/* The traces are in the order of the run's ranks, which need not begin at 0; what is added has no number yet. */
static void draw_rank(struct lw_pane pane, const struct axis *axis, int y, uint32_t r,
	const struct lw_run *run, const char *name, const struct lw_trace *trace)
{
	const struct lw_trace_rank *rank = &trace->ranks[r];

	if (r < run->ranks.n)
		lw_pane_print(pane, 1, y, LW_STYLE_DIM, "rank %d %s", run->ranks.at[r].rank, name);
	else
		lw_pane_print(pane, 1, y, LW_STYLE_DIM, "added %zu %s", r + 1 - run->ranks.n, name);
	draw_stretch(pane, axis, y, LW_LANE_COMPUTE, rank->resumed_ns, rank->end_ns);
	draw_stretch(pane, axis, y, LW_LANE_EXPOSED, rank->blocked_ns, rank->resumed_ns);
	draw_stretch(pane, axis, y, LW_LANE_COMPUTE, rank->start_ns, rank->blocked_ns);
}

static double last_ns(const struct lw_trace *trace)
{
	double ns = 0;

	for (uint32_t r = 0; r < trace->n_ranks; r++)
		ns = fmax(ns, (double)trace->ranks[r].end_ns);
	return ns;
}

/* What it is, and which glyph is no batch: shorter words leave room for that on a narrow screen. */
static void draw_heading(struct lw_pane pane, const struct axis *axis,
	const struct lw_trace *replayed, const struct lw_trace *predicted)
{
	static const struct {
		int least_width;
		const char *what, *exposed;
	} headings[] = {
		{120, "one ordinary step, ", "exposed: the rank waits"},
		{0, "one step, ", "exposed"},
	};
	size_t i = pane.width < headings[0].least_width;
	int x = pane.width - 3 - lw_text_width(headings[i].exposed);
	char whole[LW_UNIT_TEXT_BYTES], passes[48] = "", text[192];

	if (predicted->n_passes > 1)
		snprintf(passes, sizeof(passes), ", of %u passes", predicted->n_passes);
	snprintf(text, sizeof(text), "%s0 to %s; %zu batches, predicted %zu%s; low: partly busy",
		headings[i].what, lw_ns_format(axis->whole_ns, whole), replayed->ops.n,
		predicted->ops.n, passes);
	lw_pane_text(pane, 1, 0, x - 2, LW_STYLE_DIM, text);
	lw_pane_rune(pane, x, 0, LW_STYLE_EXPOSED,
		lw_glyph(pane.cells, lw_lanes[LW_LANE_EXPOSED].glyph));
	lw_pane_print(pane, x + 2, 0, LW_STYLE_DIM, "%s", headings[i].exposed);
}

int lw_step_picture(struct lw_pane pane, const struct lw_run *run, const struct lw_trace *replayed,
	const struct lw_trace *predicted)
{
	struct axis axis = {1 + NAME_WIDTH, pane.width - NAME_WIDTH - 2, 0};
	int y = 1;

	if (axis.width > MOST_COLUMNS)
		axis.width = MOST_COLUMNS;
	if (axis.width < LEAST_WIDTH || pane.height < 2)
		return 0;
	axis.whole_ns = fmax(fmax(last_ns(predicted), last_ns(replayed)), 1);
	draw_heading(pane, &axis, replayed, predicted);
	draw_wire(pane, &axis, y++, "replayed wire", replayed);
	draw_wire(pane, &axis, y++, "predicted wire", predicted);
	for (uint32_t r = 0; r < predicted->n_ranks && y < pane.height; r++) {
		bool has_both = r < replayed->n_ranks; /* more ranks may be predicted */

		if (y + 1 + has_both + (r + 1 < predicted->n_ranks) > pane.height) {
			lw_pane_print(pane, 1, y++, LW_STYLE_DIM, "and %u%s rank%s",
				predicted->n_ranks - r, r ? " more" : "",
				predicted->n_ranks - r == 1 ? "" : "s");
			break;
		}
		if (has_both)
			draw_rank(pane, &axis, y++, r, run, "replayed", replayed);
		draw_rank(pane, &axis, y++, r, run, "predicted", predicted);
	}
	return y < pane.height ? y : pane.height;
}
