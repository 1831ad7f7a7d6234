/* SPDX-License-Identifier: Apache-2.0 */
/* heat.c - heat maps: a cell a value, its number in it, darker for more. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "analyzer/emit/chart.h"
#include "analyzer/emit/svg.h"

enum { CELL_WIDTH = 78, CELL_HEIGHT = 38, LEFT = 104, TOP = 62, BELOW = 108, N_STEPS = 40 };

/* The scale ends at this many times the least value, else one bad row hides the others, and not below
 * that, else a grid of equals looks as if it were not. */
static const double most_times = 2, least_times = 1.1;

struct shade {
	double least, most;
	bool is_cut;  /* values above most exist */
	int decimals; /* four significant digits of the largest value */
};

/* From pale yellow over green-blue to dark blue; lightness falls all the way, so grey print works. */
static void colour_of(double frac, char text[8], bool *ret_is_dark)
{
	static const double stops[][3] = {
		{255, 250, 205}, {110, 195, 190}, {35, 110, 170}, {8, 30, 90}};
	double at = fmin(fmax(frac, 0), 1) * 3;
	size_t i = at >= 3 ? 2 : (size_t)at;
	unsigned int rgb[3];

	for (size_t c = 0; c < 3; c++)
		rgb[c] = (unsigned int)lround(
			stops[i][c] + (at - (double)i) * (stops[i + 1][c] - stops[i][c]));
	snprintf(text, 8, "#%02x%02x%02x", rgb[0] & 255, rgb[1] & 255, rgb[2] & 255);
	*ret_is_dark = 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] < 140;
}

static struct shade shade_of(const struct lw_heat *heat, size_t n)
{
	struct shade shade = {INFINITY, -INFINITY, false, 0};

	for (size_t i = 0; i < n; i++) {
		if (!isfinite(heat->values[i]))
			continue;
		shade.least = fmin(shade.least, heat->values[i]);
		shade.most = fmax(shade.most, heat->values[i]);
	}
	shade.decimals = shade.most >= 999.5   ? 0
			 : shade.most >= 99.95 ? 1
			 : shade.most >= 9.995 ? 2
					       : 3;
	shade.is_cut = shade.most > most_times * shade.least;
	shade.most = fmin(fmax(shade.most, least_times * shade.least), most_times * shade.least);
	return shade;
}

static double frac_of(const struct shade *shade, double value)
{
	return shade->most > shade->least ? (value - shade->least) / (shade->most - shade->least)
					  : 0;
}

static void write_value(const struct shade *shade, double value, char text[32])
{
	if (isfinite(value))
		snprintf(text, 32, "%.*f", shade->decimals, value);
	else
		snprintf(text, 32, "not known");
}

static void draw_cell(
	FILE *out, const struct lw_heat *heat, const struct shade *shade, size_t row, size_t column)
{
	static const char *const tags[] = {"", "recorded", "best", "recorded, best"};
	size_t i = row * heat->x.n_labels + column;
	double x = LEFT + CELL_WIDTH * (double)column, y = TOP + CELL_HEIGHT * (double)row;
	unsigned int tag = heat->marks[i] & (LW_HEAT_RECORDED | LW_HEAT_BEST);
	struct lw_svg_style cell = {.stroke = "white", .width_px = 1};
	struct lw_svg_font font = {.size_px = 12, .anchor = LW_SVG_MIDDLE, .is_bold = tag != 0};
	char colour[8], value[32];
	bool is_dark = false;

	cell.fill = "#eeeeee";
	if (isfinite(heat->values[i])) {
		colour_of(frac_of(shade, heat->values[i]), colour, &is_dark);
		cell.fill = colour;
	}
	write_value(shade, heat->values[i], value);
	font.fill = is_dark ? "white" : "black";
	lw_svg_rect(out, x, y, CELL_WIDTH, CELL_HEIGHT, &cell);
	if (heat->marks[i] & LW_HEAT_UNSURE) { /* corners only: the number stays readable */
		const struct lw_svg_style stroke = {.stroke = font.fill, .width_px = 1};

		for (double d = 5; d <= 15; d += 5) {
			lw_svg_line(out, x + 1, y + d, x + d, y + 1, &stroke);
			lw_svg_line(out, x + CELL_WIDTH - d, y + CELL_HEIGHT - 1,
				x + CELL_WIDTH - 1, y + CELL_HEIGHT - d, &stroke);
		}
	}
	if (tag) { /* black in white: stands out on every colour */
		const struct lw_svg_style outer = {.stroke = "black", .width_px = 2.5};
		const struct lw_svg_style inner = {.stroke = "white",
			.width_px = 1,
			.dash = tag & LW_HEAT_BEST ? NULL : "3 3"};

		lw_svg_rect(out, x + 2, y + 2, CELL_WIDTH - 4, CELL_HEIGHT - 4, &outer);
		lw_svg_rect(out, x + 4, y + 4, CELL_WIDTH - 8, CELL_HEIGHT - 8, &inner);
		font.size_px = tag == 3 ? 8.5 : 9.5;
		lw_svg_text(out, x + CELL_WIDTH / 2.0, y + 31, &font, "%s", tags[tag]);
		font.size_px = 12;
	}
	lw_svg_text(out, x + CELL_WIDTH / 2.0, y + (tag ? 18 : 24), &font, "%s", value);
}

static void draw_labels(FILE *out, const struct lw_heat *heat)
{
	const struct lw_svg_font above = {.size_px = 11, .anchor = LW_SVG_MIDDLE};
	const struct lw_svg_font beside = {.size_px = 11, .anchor = LW_SVG_RIGHT};
	const struct lw_svg_font title = {.size_px = 12, .anchor = LW_SVG_MIDDLE};
	const struct lw_svg_font upright = {
		.size_px = 12, .anchor = LW_SVG_MIDDLE, .is_upright = true};
	double bottom = TOP + CELL_HEIGHT * (double)heat->y.n_labels;

	for (size_t c = 0; c < heat->x.n_labels; c++)
		lw_svg_text(out, LEFT + CELL_WIDTH * ((double)c + 0.5), bottom + 16, &above, "%s",
			heat->x.labels[c]);
	for (size_t r = 0; r < heat->y.n_labels; r++)
		lw_svg_text(out, LEFT - 8, TOP + CELL_HEIGHT * ((double)r + 0.5) + 4, &beside, "%s",
			heat->y.labels[r]);
	lw_svg_text(out, LEFT + CELL_WIDTH * (double)heat->x.n_labels / 2, bottom + 34, &title,
		"%s", heat->x.title);
	lw_svg_text(out, 18, (TOP + bottom) / 2, &upright, "%s", heat->y.title);
}

/* The scale, and what the hatched corners mean. */
static void draw_legend(FILE *out, const struct lw_heat *heat, const struct shade *shade, double y)
{
	const struct lw_svg_font font = {.size_px = 11};
	char least[32], most[32], text[64], colour[8];
	double x = LEFT, wide = 4;
	bool is_dark;

	write_value(shade, shade->least, least);
	write_value(shade, shade->most, most);
	x += lw_svg_text_px(least, 11) + 6;
	lw_svg_text(out, LEFT, y + 11, &font, "%s", least);
	for (int i = 0; i < N_STEPS; i++) {
		struct lw_svg_style step = {.fill = colour};

		colour_of((i + 0.5) / N_STEPS, colour, &is_dark);
		lw_svg_rect(out, x + wide * i, y, wide + 0.3, 14, &step);
	}
	x += wide * N_STEPS + 6;
	snprintf(text, sizeof(text), "%s%s", most, shade->is_cut ? " and more" : "");
	lw_svg_text(out, x, y + 11, &font, "%s", text);
	if (!heat->unsure_title)
		return;
	x += lw_svg_text_px(text, 11) + 28;
	for (double d = 5; d <= 15; d += 5)
		lw_svg_line(out, x + 1, y + d, x + d, y + 1,
			&(struct lw_svg_style){.stroke = "black", .width_px = 1});
	lw_svg_text(out, x + 20, y + 11, &font, "%s", heat->unsure_title);
}

void lw_heat_draw(FILE *out, const struct lw_heat *heat)
{
	size_t n_rows = heat->y.n_labels, n_columns = heat->x.n_labels;
	double below = TOP + CELL_HEIGHT * (double)n_rows;
	double width = fmax(LEFT + CELL_WIDTH * (double)n_columns + 24, 640);
	struct shade shade = shade_of(heat, n_rows * n_columns);

	lw_svg_begin(out, width, below + BELOW, heat->title);
	lw_svg_text(out, 12, 24, &(struct lw_svg_font){.size_px = 14, .is_bold = true}, "%s",
		heat->title);
	lw_svg_text(out, 12, 44, &(struct lw_svg_font){.size_px = 12}, "%s", heat->value_title);
	for (size_t r = 0; r < n_rows; r++)
		for (size_t c = 0; c < n_columns; c++)
			draw_cell(out, heat, &shade, r, c);
	draw_labels(out, heat);
	draw_legend(out, heat, &shade, below + 52);
	if (heat->note)
		lw_svg_text(out, 12, below + BELOW - 12,
			&(struct lw_svg_font){.size_px = 11, .fill = "#444444"}, "%s", heat->note);
	lw_svg_end(out);
}
