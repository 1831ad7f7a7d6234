/* SPDX-License-Identifier: Apache-2.0 */
/* test_chart.c - figures say what they were given: escaped, in its place, with gaps where nothing is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/chart.h"
#include "analyzer/emit/svg.h"

static char *svg;
static size_t svg_bytes;

static FILE *begin(void)
{
	FILE *out = open_memstream(&svg, &svg_bytes);

	assert_non_null(out);
	return out;
}

static size_t count(const char *part)
{
	size_t n = 0;

	for (const char *at = svg; (at = strstr(at, part)); at += strlen(part))
		n++;
	return n;
}

static void draw(const struct lw_chart *chart)
{
	FILE *out = begin();

	lw_svg_begin(out, 400, 300, chart->title);
	lw_chart_draw(out, chart, 0, 0, 400, 300);
	lw_svg_end(out);
	fclose(out);
}

static void text_is_escaped_and_stays_utf8(void **state)
{
	FILE *out = begin();
	struct lw_svg_font font = {.size_px = 10};

	(void)state;
	lw_svg_begin(out, 10, 10, "a<b>&\"c\"");
	lw_svg_text(out, 1, 2, &font, "</svg>\x01 \xc3\xa9 \xff \xed\xa0\x80 \xe2\x82");
	lw_svg_end(out);
	fclose(out);
	assert_int_equal(count("<title>a&lt;b&gt;&amp;\"c\"</title>"), 1);
	assert_int_equal(count("&lt;/svg&gt;? \xc3\xa9 ? ??\? ?\?<"), 1);
	assert_int_equal(count("</svg>"), 1);
	free(svg);
}

static void a_gap_splits_the_line_and_its_band(void **state)
{
	const double x[] = {1, 2, 4, 8, 16}, y[] = {1, 2, NAN, 3, 4};
	const double low[] = {0.5, 1, 1, 2, 3}, high[] = {2, 3, 3, 4, 5};
	const struct lw_series series = {"s", LW_SERIES_LINE, 5, x, y, low, high};
	const struct lw_chart chart = {
		"t", NULL, {.title = "x", .scale = LW_AXIS_LOG2}, {.title = "y"}, &series, 1};

	(void)state;
	draw(&chart);
	assert_int_equal(count("<polyline"), 2);
	assert_int_equal(count("fill-opacity"), 2); /* bands */
	assert_int_equal(count("<polygon"), 2 + 4); /* and a mark a point */
	free(svg);
}

static void a_band_that_is_not_known_is_not_drawn(void **state)
{
	const double y[] = {1, 2}, low[] = {1, NAN}, high[] = {1, 3};
	const struct lw_series series = {"s", LW_SERIES_LINE, 2, NULL, y, low, high};
	const struct lw_chart chart = {"t", NULL, {.title = "x"}, {.title = "y"}, &series, 1};

	(void)state;
	draw(&chart);
	assert_int_equal(count("<polyline"), 1);
	assert_int_equal(count("fill-opacity"), 0);
	free(svg);
}

/* Where the only bar of a chart with these values ends: its top and its height. */
static void bar_box(double value, double other, double *ret_top, double *ret_height)
{
	static const char *const labels[] = {"a", "b"};
	const double y[] = {value, other};
	const struct lw_series series = {"s", LW_SERIES_BAR, 2, NULL, y, NULL, NULL};
	const struct lw_chart chart = {"t", NULL, {.title = "", .labels = labels, .n_labels = 2},
		{.title = ""}, &series, 1};
	const char *at;

	draw(&chart);
	at = strstr(svg, "url(#hatch0)"); /* the fill stands last: walk back to the element */
	assert_non_null(at);
	while (strncmp(at, "<rect", 5))
		at--;
	assert_int_equal(sscanf(at, "<rect x=\"%*f\" y=\"%lf\" width=\"%*f\" height=\"%lf\"",
				 ret_top, ret_height),
		2);
	free(svg);
}

static void a_bar_is_as_high_as_its_value(void **state)
{
	double top, height, half_top, half_height, down_top, down_height;

	(void)state;
	bar_box(10, 10, &top, &height);
	bar_box(5, 10, &half_top, &half_height);
	assert_true(fabs(half_height - height / 2) < 0.11);
	assert_true(fabs(half_top - (top + height / 2)) < 0.11);
	bar_box(-10, 10, &down_top, &down_height);
	assert_true(fabs(down_height - height / 2) < 0.11); /* twice the range */
	assert_true(down_top > top + height / 3);           /* from zero downwards */
}

static void a_logarithm_leaves_out_what_it_cannot_show(void **state)
{
	const double x[] = {0, 1, 1024}, y[] = {1, 0, 1000};
	const struct lw_series series = {"s", LW_SERIES_POINTS, 3, x, y, NULL, NULL};
	const struct lw_chart chart = {"t", NULL, {.title = "x", .scale = LW_AXIS_LOG2},
		{.title = "y", .scale = LW_AXIS_LOG10}, &series, 1};

	(void)state;
	draw(&chart);
	assert_int_equal(count("<polygon"), 1);
	assert_int_equal(count("nan"), 0);
	assert_int_equal(count("inf"), 0);
	free(svg);
}

static void an_empty_chart_is_still_a_figure(void **state)
{
	const double y[] = {NAN};
	const struct lw_series series = {"s", LW_SERIES_LINE, 1, NULL, y, y, y};
	const struct lw_chart chart = {
		"t", NULL, {.title = "x"}, {.title = "y", .scale = LW_AXIS_LOG10}, &series, 1};

	(void)state;
	draw(&chart);
	assert_int_equal(count("nan"), 0);
	assert_int_equal(count("</svg>"), 1);
	free(svg);
}

static void axis_ticks_are_round_and_hold_zero(void **state)
{
	const double y[] = {3.3, 97};
	const struct lw_series series = {"s", LW_SERIES_POINTS, 2, NULL, y, NULL, NULL};
	const struct lw_chart chart = {"t", NULL, {.title = "x"}, {.title = "y"}, &series, 1};

	(void)state;
	draw(&chart);
	assert_int_equal(count(">0</text>"), 2); /* x begins there too */
	assert_int_equal(count(">20</text>"), 1);
	assert_int_equal(count(">100</text>"), 1);
	assert_int_equal(count(">-0</text>"), 0);
	free(svg);
}

static void a_heat_map_marks_its_cells_and_knows_what_it_does_not(void **state)
{
	static const char *const columns[] = {"1", "5"}, *const rows[] = {"0 B", "64 KiB"};
	const double values[] = {10, 12.34, NAN, 1000};
	const unsigned char marks[] = {LW_HEAT_BEST, LW_HEAT_RECORDED, 0, LW_HEAT_UNSURE};
	const struct lw_heat heat = {"t", NULL, "ms", "extrapolated",
		{.title = "cycle", .labels = columns, .n_labels = 2},
		{.title = "threshold", .labels = rows, .n_labels = 2}, values, marks};
	FILE *out = begin();

	(void)state;
	lw_heat_draw(out, &heat);
	fclose(out);
	assert_int_equal(count(">best</text>"), 1);
	assert_int_equal(count(">recorded</text>"), 1);
	assert_int_equal(count(">not known</text>"), 1);
	assert_int_equal(count(">12</text>"), 1);
	assert_int_equal(count(">1000</text>"), 1);
	assert_int_equal(count("20 and more"), 1); /* the scale is cut at twice the least */
	assert_int_equal(count("extrapolated"), 1);
	free(svg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_escaped_and_stays_utf8),
		cmocka_unit_test(a_gap_splits_the_line_and_its_band),
		cmocka_unit_test(a_band_that_is_not_known_is_not_drawn),
		cmocka_unit_test(a_bar_is_as_high_as_its_value),
		cmocka_unit_test(a_logarithm_leaves_out_what_it_cannot_show),
		cmocka_unit_test(an_empty_chart_is_still_a_figure),
		cmocka_unit_test(axis_ticks_are_round_and_hold_zero),
		cmocka_unit_test(a_heat_map_marks_its_cells_and_knows_what_it_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
