/* SPDX-License-Identifier: Apache-2.0 */
/* test_tui_model.c - figures of the model's costs fit their columns, and rows that differ look different. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "tui/cost_plot.h"
#include "tui/model_sides.h"

static const char *line(const struct lw_cells *cells, int y)
{
	static char text[4 * 512 + 1];

	return lw_cells_line(cells, y, text);
}

static void sizes_that_print_alike_are_told_to_the_byte(void **state)
{
	struct lw_size sizes[] = {{.bytes = 1000, .n = 3, .mean_ns = 1e6},
		{.bytes = 1048576, .n = 3, .mean_ns = 1e6},
		{.bytes = 1050000, .n = 3, .mean_ns = 1e6},
		{.bytes = 2097152, .n = 3, .mean_ns = 10}};
	struct lw_fit_cost fitted = {
		.cost = {.form = LW_COST_AFFINE, .a_ns = 1e6, .slope_known = true},
		.sizes = sizes,
		.n_sizes = 4};
	struct lw_cells cells = {.is_ascii = true};

	(void)state;
	assert_int_equal(lw_cells_resize(&cells, 46, 6), LW_OK);
	assert_int_equal(lw_cost_sizes(lw_pane_whole(&cells), &fitted, 0), 5);
	assert_string_equal(line(&cells, 1), "     1000 B      3  1.00 ms  1.00 ms   +0.0%");
	assert_non_null(strstr(line(&cells, 2), "  1048576 B"));
	assert_non_null(strstr(line(&cells, 3), "  1050000 B"));
	assert_non_null(strstr(line(&cells, 4), "      2 MiB"));
	assert_non_null(strstr(line(&cells, 4), "  > 100x")); /* 1 ms fitted, 10 ns measured */
	lw_cells_free(&cells);
}

static void how_far_off_a_fit_is_fits_its_column(void **state)
{
	static const struct {
		double frac;
		const char *text, *signed_text;
	} cases[] = {{0, "0.0 %", "+0.0%"}, {-0.123, "-12.3 %", "-12.3%"},
		{9.99, "999.0 %", "+999.0%"}, {9.999, "1000 %", "+1000%"},
		{49.653, "4965 %", "+4965%"}, {1e9, "> 100x", "> 100x"}};
	char text[LW_UNIT_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(lw_off_format(cases[i].frac, false, text), cases[i].text);
		assert_true(strlen(text) <= 7);
		assert_string_equal(lw_off_format(cases[i].frac, true, text), cases[i].signed_text);
		assert_true(strlen(text) <= 7);
	}
}

static void costs_of_a_byte_are_never_cut(void **state)
{
	static const struct {
		double low, value, high;
		const char *text;
	} cases[] = {{0, 3.94e-05, 0.00123, "up to 0.0012"}, {0, 1e-5, 2e-5, "below 0.001"},
		{0.1, 0.122, 0.14, "0.122 +-0.02"}, {119, 121, 123, "121 +-2"},
		{12000, 12345, 12690, "12345 +-345"}};
	struct lw_analysis *analysis = calloc(1, sizeof(*analysis));
	struct lw_model_state model = {.analysis = analysis};
	struct lw_fit_cost *cost;
	struct lw_cells cells = {.is_ascii = true};

	(void)state;
	assert_non_null(analysis);
	analysis->has_fit = true;
	cost = &analysis->fit.cost[0];
	cost->cost.form = LW_COST_AFFINE;
	assert_int_equal(lw_cells_resize(&cells, 80, 24), LW_OK);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cost->b_ns_per_byte = (struct lw_figure){
			.value = cases[i].value, .low = cases[i].low, .high = cases[i].high};
		assert_int_equal(lw_model_costs_open(&model), LW_OK);
		lw_cells_clear(&cells);
		lw_model_costs_draw(&model, lw_pane_whole(&cells));
		assert_non_null(strstr(line(&cells, 1), cases[i].text));
	}
	lw_table_done(&model.costs);
	lw_cells_free(&cells);
	free(analysis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_that_print_alike_are_told_to_the_byte),
		cmocka_unit_test(how_far_off_a_fit_is_fits_its_column),
		cmocka_unit_test(costs_of_a_byte_are_never_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
