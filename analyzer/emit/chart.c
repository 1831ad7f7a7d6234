/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/svg.h"

/* Okabe and Ito's colours (2008), told apart by people of all kinds of colour vision; yellow is left
 * out, since it vanishes on white. Lines differ by dash and mark as well, areas by hatch. */
static const char *const colours[] = {
	"#0072b2", "#d55e00", "#009e73", "#000000", "#cc79a7", "#e69f00", "#56b4e9"};
static const char *const dashes[] = {NULL, "7 3", "2 2", "9 3 2 3", "4 4", "12 4", "1 3"};
enum { N_LOOKS = 7 };

static const char grid_colour[] = "#dddddd";
static const struct lw_svg_style grid_style = {.stroke = grid_colour, .width_px = 1};
static const struct lw_svg_style axis_style = {.stroke = "#444444", .width_px = 1};

enum { MAX_TICKS = 64 };

struct scale { /* of one axis: values to pixels */
	const struct lw_axis *axis;
	double from, to; /* in the unit of the scale: log2 of a value, for instance */
	double from_px, to_px;
	double ticks[MAX_TICKS]; /* values */
	size_t n_ticks;
};

static double unit_of(const struct lw_axis *axis, double value)
{
	return axis->scale == LW_AXIS_LOG2    ? log2(value)
	       : axis->scale == LW_AXIS_LOG10 ? log10(value)
					      : value;
}

/* NAN where the axis has no place for @value. */
static double pixel(const struct scale *scale, double value)
{
	double unit = unit_of(scale->axis, value);

	if (!isfinite(unit))
		return NAN;
	return scale->from_px +
	       (unit - scale->from) / (scale->to - scale->from) * (scale->to_px - scale->from_px);
}

static void add_tick(struct scale *scale, double value)
{
	double unit = unit_of(scale->axis, value), slack = 1e-9 * (scale->to - scale->from);

	if (unit >= scale->from - slack && unit <= scale->to + slack && scale->n_ticks < MAX_TICKS)
		scale->ticks[scale->n_ticks++] = value;
}

/* 1, 2 or 5 times a power of ten, about @span / 5. */
static double nice_step(double span)
{
	double raw = span / 5, power = pow(10, floor(log10(raw))), digit = raw / power;

	return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

/* @least, @most: of the values that will be drawn. @is_value: an axis that holds its zero. */
static void set_scale(struct scale *scale, double least, double most, bool is_value)
{
	if (scale->axis->labels) {
		scale->from = -0.5;
		scale->to = (double)scale->axis->n_labels - 0.5;
		for (size_t i = 0; i < scale->axis->n_labels; i++)
			add_tick(scale, (double)i);
		return;
	}
	if (least > most) /* nothing to draw */
		least = most = 1;
	if (scale->axis->scale == LW_AXIS_LINEAR) {
		double step;

		least = is_value ? fmin(least, 0) : least;
		most = is_value ? fmax(most, 0) : most;
		most += most > least ? 0 : 1;
		step = nice_step(most - least);
		scale->from = is_value ? step * floor(least / step) : least;
		scale->to = is_value ? step * ceil(most / step) : most;
		for (double tick = ceil(scale->from / step - 1e-9);
			tick * step <= scale->to + 1e-9 * step; tick++)
			add_tick(scale, tick * step + 0.0); /* never -0 */
		return;
	}
	scale->from = floor(unit_of(scale->axis, least) + 1e-9);
	scale->to = fmax(ceil(unit_of(scale->axis, most) - 1e-9), scale->from + 1);
	for (double unit = scale->from; unit <= scale->to; unit++) {
		if (scale->axis->scale == LW_AXIS_LOG2) {
			add_tick(scale, exp2(unit));
			continue;
		}
		add_tick(scale, pow(10, unit));
		if (scale->to - scale->from <= 2) {
			add_tick(scale, 2 * pow(10, unit));
			add_tick(scale, 5 * pow(10, unit));
		}
	}
}

static void widen(double value, const struct lw_axis *axis, double *least, double *most)
{
	if (!isfinite(value) || !isfinite(unit_of(axis, value)))
		return;
	*least = fmin(*least, value);
	*most = fmax(*most, value);
}

static double x_of(const struct lw_series *series, size_t i)
{
	return series->x ? series->x[i] : (double)i;
}

/* How high the stacks below the @k-th series reach at its @i-th point. */
static double base_of(const struct lw_chart *chart, size_t k, size_t i)
{
	double base = 0;

	for (size_t below = 0; below < k; below++) {
		const struct lw_series *series = &chart->series[below];

		if (series->kind == LW_SERIES_STACK && i < series->n && isfinite(series->y[i]))
			base += series->y[i];
	}
	return base;
}

static void find_ranges(const struct lw_chart *chart, double x[2], double y[2])
{
	x[0] = y[0] = INFINITY;
	x[1] = y[1] = -INFINITY;
	for (size_t k = 0; k < chart->n_series; k++) {
		const struct lw_series *series = &chart->series[k];

		for (size_t i = 0; i < series->n; i++) {
			double base = series->kind == LW_SERIES_STACK ? base_of(chart, k, i) : 0;

			widen(x_of(series, i), &chart->x, &x[0], &x[1]);
			widen(base + series->y[i], &chart->y, &y[0], &y[1]);
			if (series->low)
				widen(series->low[i], &chart->y, &y[0], &y[1]);
			if (series->high)
				widen(series->high[i], &chart->y, &y[0], &y[1]);
		}
	}
}

static void write_tick(const struct lw_axis *axis, double value, char text[64])
{
	if (axis->labels)
		snprintf(text, 64, "%s", axis->labels[(size_t)value]);
	else if (axis->is_frac)
		snprintf(text, 64, "%.6g %%", 100 * value);
	else
		snprintf(text, 64, "%.6g", value);
}

static void draw_x_axis(FILE *out, const struct scale *x, double top, double bottom)
{
	const struct lw_svg_font font = {.size_px = 11, .anchor = LW_SVG_MIDDLE};
	double last_px = -INFINITY;

	for (size_t i = 0; i < x->n_ticks; i++) {
		double at = pixel(x, x->ticks[i]), half;
		char text[64];

		write_tick(x->axis, x->ticks[i], text);
		half = lw_svg_text_px(text, font.size_px) / 2;
		if (!x->axis->labels)
			lw_svg_line(out, at, top, at, bottom, &grid_style);
		lw_svg_line(out, at, bottom, at, bottom + 4, &axis_style);
		if (at - half < last_px + 2) /* no room: the tick alone */
			continue;
		lw_svg_text(out, at, bottom + 16, &font, "%s", text);
		last_px = at + half;
	}
	lw_svg_text(out, (x->from_px + x->to_px) / 2, bottom + 34,
		&(struct lw_svg_font){.size_px = 12, .anchor = LW_SVG_MIDDLE}, "%s",
		x->axis->title);
}

static void draw_y_axis(FILE *out, const struct scale *y, double left, double right, double title_x)
{
	const struct lw_svg_font font = {.size_px = 11, .anchor = LW_SVG_RIGHT};

	for (size_t i = 0; i < y->n_ticks; i++) {
		double at = pixel(y, y->ticks[i]);
		char text[64];

		write_tick(y->axis, y->ticks[i], text);
		lw_svg_line(out, left, at, right, at, &grid_style);
		lw_svg_line(out, left - 4, at, left, at, &axis_style);
		lw_svg_text(out, left - 7, at + 4, &font, "%s", text);
	}
	lw_svg_text(out, title_x, (y->from_px + y->to_px) / 2,
		&(struct lw_svg_font){.size_px = 12, .anchor = LW_SVG_MIDDLE, .is_upright = true},
		"%s", y->axis->title);
}

static bool is_bar(const struct lw_series *series)
{
	return series->kind == LW_SERIES_BAR || series->kind == LW_SERIES_STACK;
}

static struct lw_svg_style area_style(size_t look, char fill[24])
{
	snprintf(fill, 24, "url(#hatch%zu)", look);
	return (struct lw_svg_style){.fill = fill, .stroke = colours[look], .width_px = 1};
}

static void draw_legend(FILE *out, const struct lw_chart *chart, double x, double y, double right)
{
	const struct lw_svg_font font = {.size_px = 11};
	double at = x;

	for (size_t k = 0; k < chart->n_series && chart->n_series > 1; k++) {
		const struct lw_series *series = &chart->series[k];
		double wide = 44 + lw_svg_text_px(series->name, font.size_px);
		const struct lw_svg_style line = {
			.stroke = colours[k % N_LOOKS], .width_px = 2, .dash = dashes[k % N_LOOKS]};
		char fill[24];
		const struct lw_svg_style area = area_style(k % N_LOOKS, fill);

		if (at > x && at + wide > right) {
			at = x;
			y += 16;
		}
		if (is_bar(series))
			lw_svg_rect(out, at + 8, y - 9, 16, 10, &area);
		else
			lw_svg_mark(out, k, at + 14, y - 4, colours[k % N_LOOKS]);
		if (series->kind == LW_SERIES_LINE)
			lw_svg_line(out, at, y - 4, at + 28, y - 4, &line);
		lw_svg_text(out, at + 33, y, &font, "%s", series->name);
		at += wide;
	}
}

/* Rows that draw_legend() takes. */
static size_t legend_rows(const struct lw_chart *chart, double width)
{
	size_t n_rows = chart->n_series > 1;
	double at = 0;

	for (size_t k = 0; k < chart->n_series && chart->n_series > 1; k++) {
		double wide = 44 + lw_svg_text_px(chart->series[k].name, 11);

		if (at > 0 && at + wide > width) {
			at = 0;
			n_rows++;
		}
		at += wide;
	}
	return n_rows;
}

static void draw_whisker(
	FILE *out, const struct lw_series *series, size_t i, const struct scale *y, double at_px)
{
	static const struct lw_svg_style style = {.stroke = "#222222", .width_px = 1.2};
	double low_px, high_px;

	if (!series->low || !series->high)
		return;
	low_px = pixel(y, series->low[i]);
	high_px = pixel(y, series->high[i]);
	if (!isfinite(low_px) || !isfinite(high_px))
		return;
	lw_svg_line(out, at_px, low_px, at_px, high_px, &style);
	lw_svg_line(out, at_px - 3, low_px, at_px + 3, low_px, &style);
	lw_svg_line(out, at_px - 3, high_px, at_px + 3, high_px, &style);
}

static double edge_px(const struct scale *y, const double *edge, size_t i)
{
	return edge ? pixel(y, edge[i]) : (double)NAN;
}

/* Runs of points that are all there: a polygon between low and high, a line through y. */
static void draw_line(FILE *out, const struct lw_series *series, const struct scale *x,
	const struct scale *y, size_t look)
{
	const struct lw_svg_style band = {.fill = colours[look % N_LOOKS], .opacity = 0.18};
	const struct lw_svg_style line = {
		.stroke = colours[look % N_LOOKS], .width_px = 2, .dash = dashes[look % N_LOOKS]};
	double *px = calloc(5 * series->n + 1, sizeof(*px)), *py, *mid;
	size_t n = 0;

	if (!px) /* the figure stays without this line; its legend shows that one is missing */
		return;
	py = px + 2 * series->n;
	mid = py + 2 * series->n;
	for (size_t i = 0; i <= series->n; i++) {
		double at = i < series->n ? pixel(x, x_of(series, i)) : (double)NAN;
		double value = i < series->n ? pixel(y, series->y[i]) : (double)NAN;
		bool has_band = n > 0;

		if (isfinite(at) && isfinite(value)) {
			px[n] = at;
			mid[n++] = value;
			continue;
		}
		for (size_t k = 0; k < n; k++) { /* there, and back along the lower edge */
			double high = edge_px(y, series->high, i - n + k);
			double low = edge_px(y, series->low, i - n + k);

			has_band = has_band && isfinite(high) && isfinite(low);
			px[2 * n - 1 - k] = px[k];
			py[k] = high;
			py[2 * n - 1 - k] = low;
		}
		if (has_band)
			lw_svg_path(out, px, py, 2 * n, true, &band);
		if (n > 1)
			lw_svg_path(out, px, mid, n, false, &line);
		n = 0;
	}
	free(px);
}

static void draw_series(FILE *out, const struct lw_chart *chart, size_t k, const struct scale *x,
	const struct scale *y, double group_px)
{
	const struct lw_series *series = &chart->series[k];
	size_t n_bars = 0, nth = 0;
	char fill[24];
	const struct lw_svg_style area = area_style(k % N_LOOKS, fill);

	for (size_t other = 0; other < chart->n_series; other++) {
		if (chart->series[other].kind != LW_SERIES_BAR)
			continue;
		nth += other < k;
		n_bars++;
	}
	if (series->kind == LW_SERIES_LINE)
		draw_line(out, series, x, y, k);
	for (size_t i = 0; i < series->n; i++) {
		double base = series->kind == LW_SERIES_STACK ? base_of(chart, k, i) : 0;
		double at = pixel(x, x_of(series, i)), top = pixel(y, base + series->y[i]);
		double bottom = pixel(y, base), wide = 0.7 * group_px;

		if (!isfinite(at) || !isfinite(top))
			continue;
		bottom = isfinite(bottom) ? bottom : y->from_px; /* a logarithm has no zero */
		if (series->kind == LW_SERIES_BAR) {
			wide /= (double)n_bars;
			at += wide * ((double)nth - ((double)n_bars - 1) / 2);
		}
		if (is_bar(series))
			lw_svg_rect(out, at - wide / 2, fmin(top, bottom), wide, fabs(bottom - top),
				&area);
		else
			lw_svg_mark(out, k, at, top, colours[k % N_LOOKS]);
		if (series->kind != LW_SERIES_LINE)
			draw_whisker(out, series, i, y, at);
	}
}

void lw_chart_draw(
	FILE *out, const struct lw_chart *chart, double x, double y, double width, double height)
{
	double left = x + 74, right = x + width - 18, bottom = y + height - 44;
	double top = y + 38 + 16 * (double)legend_rows(chart, right - left), groups;
	struct scale xs = {.axis = &chart->x, .from_px = left, .to_px = right};
	struct scale ys = {.axis = &chart->y, .from_px = bottom, .to_px = top};
	double x_range[2], y_range[2];

	if (chart->note)
		ys.from_px = bottom -= 18;
	find_ranges(chart, x_range, y_range);
	set_scale(&xs, x_range[0], x_range[1], false);
	set_scale(&ys, y_range[0], y_range[1], true);
	groups = chart->x.labels ? (double)chart->x.n_labels : (double)xs.n_ticks;
	for (size_t k = 0; k < chart->n_series; k++)
		if (is_bar(&chart->series[k]))
			lw_svg_hatch(out, k % N_LOOKS, colours[k % N_LOOKS], "white");
	lw_svg_text(out, x + 12, y + 22, &(struct lw_svg_font){.size_px = 14, .is_bold = true},
		"%s", chart->title);
	draw_legend(out, chart, left, y + 42, right);
	draw_x_axis(out, &xs, top, bottom);
	draw_y_axis(out, &ys, left, right, x + 16);
	for (size_t k = 0; k < chart->n_series; k++)
		draw_series(out, chart, k, &xs, &ys, (right - left) / fmax(groups, 1));
	lw_svg_line(out, left, bottom, right, bottom, &axis_style);
	lw_svg_line(out, left, top, left, bottom, &axis_style);
	if (chart->note)
		lw_svg_text(out, x + 12, y + height - 8,
			&(struct lw_svg_font){.size_px = 11, .fill = "#444444"}, "%s", chart->note);
}
