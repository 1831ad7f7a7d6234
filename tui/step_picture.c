/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/step_picture.h"

#include <math.h>
#include <stdio.h>

#include "base/units.h"

enum { NAME_WIDTH = 18, LEAST_WIDTH = 10, MOST_COLUMNS = 512, ROOMY = 8 };

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

/* What it is: one step, whose lengths are not the mean's. Return: columns. */
static int draw_heading(
	struct lw_pane pane, const struct lw_trace *replayed, const struct lw_trace *predicted)
{
	char ns[2][LW_UNIT_TEXT_BYTES], passes[48] = "", text[192];

	if (predicted->n_passes > 1)
		snprintf(passes, sizeof(passes), " for %u passes", predicted->n_passes);
	snprintf(text, sizeof(text), "ordinary step: %s, predicted %s%s; %zu batches, then %zu",
		lw_ns_format(replayed->length_ns, ns[0]), lw_ns_format(predicted->length_ns, ns[1]),
		passes, replayed->ops.n, predicted->ops.n);
	return lw_pane_text(pane, 1, 0, pane.width - 2, LW_STYLE_DIM, text);
}

/* What its glyphs are, those first that say it least themselves, as many as fit. */
static void draw_legend(struct lw_pane pane, int x, int y)
{
	const struct {
		enum lw_glyph glyph;
		enum lw_style style;
		const char *text;
	} looks[] = {{lw_lanes[LW_LANE_EXPOSED].glyph, lw_lanes[LW_LANE_EXPOSED].style, "waits"},
		{LW_GLYPH_BAR, LW_STYLE_ALLREDUCE, "begins"},
		{LW_GLYPH_LEVEL_FIRST + 3, LW_STYLE_ALLREDUCE, "partly busy"},
		{LW_GLYPH_ALLREDUCE, LW_STYLE_ALLREDUCE, "wire"},
		{LW_GLYPH_MISC, LW_STYLE_MISC, "copies"},
		{lw_lanes[LW_LANE_COMPUTE].glyph, lw_lanes[LW_LANE_COMPUTE].style, "computes"}};

	for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
		if (x + 2 + lw_text_width(looks[i].text) > pane.width)
			return;
		lw_pane_rune(pane, x, y, looks[i].style, lw_glyph(pane.cells, looks[i].glyph));
		x += 4 + lw_pane_print(pane, x + 2, y, LW_STYLE_DIM, "%s", looks[i].text);
	}
}

int lw_step_picture(struct lw_pane pane, const struct lw_run *run, const struct lw_trace *replayed,
	const struct lw_trace *predicted)
{
	struct axis axis = {1 + NAME_WIDTH, pane.width - NAME_WIDTH - 2, 0};
	bool has_legend = pane.height >= ROOMY;
	int x, y = 1, most = pane.height - has_legend;

	if (axis.width > MOST_COLUMNS)
		axis.width = MOST_COLUMNS;
	if (axis.width < LEAST_WIDTH || pane.height < 2)
		return 0;
	axis.whole_ns = fmax(fmax(last_ns(predicted), last_ns(replayed)), 1);
	x = 3 + draw_heading(pane, replayed, predicted);
	if (!has_legend)
		draw_legend(pane, x, 0);
	draw_wire(pane, &axis, y++, "replayed wire", replayed);
	draw_wire(pane, &axis, y++, "predicted wire", predicted);
	for (uint32_t r = 0; r < predicted->n_ranks && y < most; r++) {
		bool has_both = r < replayed->n_ranks; /* more ranks may be predicted */

		if (y + 1 + has_both + (r + 1 < predicted->n_ranks) > most) {
			lw_pane_print(pane, 1, y++, LW_STYLE_DIM, "and %u%s rank%s",
				predicted->n_ranks - r, r ? " more" : "",
				predicted->n_ranks - r == 1 ? "" : "s");
			break;
		}
		if (has_both)
			draw_rank(pane, &axis, y++, r, run, "replayed", replayed);
		draw_rank(pane, &axis, y++, r, run, "predicted", predicted);
	}
	if (has_legend)
		draw_legend(pane, 1, y++);
	return y < pane.height ? y : pane.height;
}
