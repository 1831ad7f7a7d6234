/* SPDX-License-Identifier: Apache-2.0 */
/* test_tui_table.c - lists of rows: sorted, scrolled, searched, drawn at any width, written as CSV. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "base/err.h"
#include "tui/table.h"

struct item {
	const char *name;
	double size;
};

static const struct item items[] = {
	{"beta", 2e6}, {"alpha", NAN}, {"a \"b\", c", 5e6}, {"delta", 1e6}, {"gamma", NAN}};
enum { N_ITEMS = sizeof(items) / sizeof(items[0]), N_COLUMNS = 4 };

static const char *name_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct item *all = context;

	(void)text;
	return all[row % N_ITEMS].name;
}

static double size_of(const void *context, size_t row, int key)
{
	const struct item *all = context;

	return all[row % N_ITEMS].size * key;
}

static const char *row_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)context;
	snprintf(text, LW_TABLE_TEXT_BYTES, "row %zu", row);
	return text;
}

static void draw_bar(const void *context, size_t row, struct lw_pane cell)
{
	(void)context;
	(void)row;
	lw_pane_fill(cell, 0, 0, cell.width, LW_STYLE_COMPUTE, '#');
}

static const struct lw_table_column columns[N_COLUMNS] = {
	{.title = "name", .width = 8, .is_left = true, .text = name_text},
	{.title = "size",
		.width = 8,
		.number = size_of,
		.key = 1,
		.format = lw_ns_format,
		.csv = "size_ns"},
	{.title = "bar", .width = 4, .is_left = true, .grows = true, .draw = draw_bar},
	{.title = "row", .width = 6, .text = row_text},
};

static void open_table(struct lw_table *table, size_t n_rows)
{
	assert_int_equal(lw_table_open(table, columns, N_COLUMNS, n_rows, items), LW_OK);
}

static void press(struct lw_table *table, enum lw_request request, int x, int y, int height)
{
	const struct lw_input input = {request, x, y, height, 40};

	assert_true(lw_table_request(table, &input));
}

static const char *line(const struct lw_cells *cells, int y)
{
	static char text[4 * 512 + 1];

	return lw_cells_line(cells, y, text);
}

static void check_order(const struct lw_table *table, const size_t expected[N_ITEMS])
{
	for (size_t i = 0; i < N_ITEMS; i++)
		assert_int_equal(table->order[i], expected[i]);
}

static void unknown_numbers_are_sorted_last_both_ways(void **state)
{
	struct lw_table table = {0};

	(void)state;
	open_table(&table, N_ITEMS);
	press(&table, LW_REQUEST_SORT, 0, 0, 10); /* by name */
	check_order(&table, (const size_t[]){2, 1, 0, 3, 4});
	press(&table, LW_REQUEST_SORT, 0, 0, 10); /* by size, largest first */
	check_order(&table, (const size_t[]){2, 0, 3, 1, 4});
	press(&table, LW_REQUEST_SORT_REVERSE, 0, 0, 10);
	check_order(&table, (const size_t[]){3, 0, 2, 1, 4});
	press(&table, LW_REQUEST_SORT, 0, 0, 10); /* a bar is no order: by row's text */
	assert_int_equal(table.sort, 3);
	press(&table, LW_REQUEST_SORT, 0, 0, 10);
	assert_false(table.is_sorted);
	check_order(&table, (const size_t[]){0, 1, 2, 3, 4});
	lw_table_done(&table);
}

static void sorting_goes_to_the_top_and_new_rows_keep_what_is_selected(void **state)
{
	struct lw_table table = {0};

	(void)state;
	open_table(&table, N_ITEMS);
	lw_table_select(&table, 3);
	press(&table, LW_REQUEST_SORT, 0, 0, 10);
	assert_int_equal(table.at, 0);
	lw_table_select(&table, 4);
	open_table(&table, N_ITEMS); /* a new analysis */
	assert_int_equal(lw_table_row(&table), 4);
	assert_true(table.is_sorted);
	open_table(&table, 2);
	assert_true(lw_table_row(&table) < 2);
	open_table(&table, 0);
	assert_int_equal(lw_table_row(&table), SIZE_MAX);
	press(&table, LW_REQUEST_DOWN, 0, 0, 10);
	press(&table, LW_REQUEST_BOTTOM, 0, 0, 10);
	assert_int_equal(table.at, 0);
	lw_table_done(&table);
}

static void a_table_with_fewer_columns_forgets_an_order_that_is_gone(void **state)
{
	struct lw_table table = {.sort = 3, .is_sorted = true};

	(void)state;
	assert_int_equal(lw_table_open(&table, columns, 2, N_ITEMS, items), LW_OK);
	assert_false(table.is_sorted);
	lw_table_done(&table);
}

static void moving_scrolls_and_stops_at_the_ends(void **state)
{
	struct lw_cells cells = {0};
	struct lw_table table = {0};
	char text[LW_TABLE_TEXT_BYTES];

	(void)state;
	assert_int_equal(lw_cells_resize(&cells, 40, 6), LW_OK);
	open_table(&table, 100);
	press(&table, LW_REQUEST_UP, 0, 0, 6);
	assert_int_equal(table.at, 0);
	press(&table, LW_REQUEST_PAGE_DOWN, 0, 0, 6);
	assert_int_equal(table.at, 5);
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_int_equal(table.top, 1);
	press(&table, LW_REQUEST_BOTTOM, 0, 0, 6);
	press(&table, LW_REQUEST_DOWN, 0, 0, 6);
	assert_int_equal(table.at, 99);
	assert_string_equal(lw_table_place(&table, text), "100 of 100");
	lw_cells_clear(&cells);
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_int_equal(table.top, 95);
	assert_non_null(strstr(line(&cells, 5), "row 99"));
	press(&table, LW_REQUEST_CLICK, 3, 2, 6);
	assert_int_equal(table.at, 96);
	press(&table, LW_REQUEST_TOP, 0, 0, 6);
	assert_int_equal(table.at, 0);
	lw_table_done(&table);
	lw_cells_free(&cells);
}

static void a_click_on_a_title_sorts_by_it_and_again_turns_it_round(void **state)
{
	struct lw_table table = {0};

	(void)state;
	open_table(&table, N_ITEMS);
	press(&table, LW_REQUEST_CLICK, 14, 0, 10); /* "size" ends at 18 */
	assert_true(table.is_sorted && table.sort == 1 && table.is_descending);
	press(&table, LW_REQUEST_CLICK, 14, 0, 10);
	assert_false(table.is_descending);
	press(&table, LW_REQUEST_CLICK, 22, 0, 10); /* the bar */
	assert_int_equal(table.sort, 1);
	lw_table_done(&table);
}

static void columns_scroll_no_further_than_the_last_one(void **state)
{
	struct lw_cells cells = {.is_ascii = true};
	struct lw_table table = {0};

	(void)state;
	assert_int_equal(lw_cells_resize(&cells, 26, 6), LW_OK);
	open_table(&table, N_ITEMS);
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_string_equal(line(&cells, 0), " name          size  bar ~");
	for (int i = 0; i < 9; i++)
		press(&table, LW_REQUEST_RIGHT, 0, 0, 4);
	lw_cells_clear(&cells);
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_int_equal(table.first_column, 1);
	assert_string_equal(line(&cells, 0), " name    ~ bar         row");
	assert_string_equal(line(&cells, 1), ">beta      #######   row 0");
	table.first_column = 0;
	press(&table, LW_REQUEST_SORT, 0, 0, 4);
	press(&table, LW_REQUEST_SORT, 0, 0, 4);
	press(&table, LW_REQUEST_SORT, 0, 0, 4); /* by a column that is not shown: it comes */
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_int_equal(table.sort, 3);
	assert_int_equal(table.first_column, 1);
	assert_int_equal(lw_cells_resize(&cells, 60, 4), LW_OK); /* now all fit */
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_int_equal(table.first_column, 0);
	assert_non_null(strstr(line(&cells, 2), "?")); /* alpha's size */
	lw_table_done(&table);
	lw_cells_free(&cells);
}

static void rows_that_do_not_fit_are_told_by_a_sign_that_covers_no_figure(void **state)
{
	struct lw_cells cells = {.is_ascii = true};
	struct lw_table table = {0};

	(void)state;
	assert_int_equal(lw_cells_resize(&cells, 36, 4), LW_OK);
	open_table(&table, 9);
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_string_equal(line(&cells, 1), ">beta       2.00 ms  ######   row 0");
	assert_string_equal(line(&cells, 3), " a \"b\", c   5.00 ms  ######   row 2v");
	press(&table, LW_REQUEST_BOTTOM, 0, 0, 4);
	lw_cells_clear(&cells);
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_int_equal(line(&cells, 1)[35], '^');
	assert_int_equal(line(&cells, 3)[35], 0);
	press(&table, LW_REQUEST_UP, 0, 0, 4);
	lw_cells_clear(&cells);
	open_table(&table, 3);
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_string_equal(line(&cells, 3), " a \"b\", c   5.00 ms  #######   row 2");
	lw_table_done(&table);
	lw_cells_free(&cells);
}

static void what_is_marked_stays_so_wherever_the_cursor_is(void **state)
{
	struct lw_cells cells = {.is_ascii = true};
	struct lw_table table = {0};

	(void)state;
	assert_int_equal(lw_cells_resize(&cells, 40, 6), LW_OK);
	open_table(&table, N_ITEMS);
	lw_table_mark(&table, 3);
	press(&table, LW_REQUEST_SORT_REVERSE, 0, 0, 6); /* by name, last first */
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_non_null(strstr(line(&cells, 1), ">gamma"));
	assert_non_null(strstr(line(&cells, 2), "*delta"));
	press(&table, LW_REQUEST_DOWN, 0, 0, 6);
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_non_null(strstr(line(&cells, 2), ">delta"));
	lw_table_mark(&table, -1);
	press(&table, LW_REQUEST_UP, 0, 0, 6);
	lw_cells_clear(&cells);
	lw_table_draw(&table, lw_pane_whole(&cells));
	assert_non_null(strstr(line(&cells, 2), " delta"));
	lw_table_done(&table);
	lw_cells_free(&cells);
}

static void the_first_order_is_one_that_changes_something(void **state)
{
	static const struct lw_table_column by_row[] = {
		{.title = "row", .width = 6, .text = row_text},
		{.title = "size", .width = 8, .number = size_of, .key = 1}};
	struct lw_table table = {0};

	(void)state;
	assert_int_equal(lw_table_open(&table, by_row, 2, N_ITEMS, items), LW_OK);
	press(&table, LW_REQUEST_SORT, 0, 0, 10);
	assert_true(table.is_sorted && table.sort == 1);
	press(&table, LW_REQUEST_SORT, 0, 0, 10);
	assert_false(table.is_sorted);
	lw_table_done(&table);
}

static void no_size_is_too_small_or_too_odd(void **state)
{
	(void)state;
	for (int width = 1; width < 130; width += 1 + width / 20)
		for (int height = 1; height < 8; height++) {
			struct lw_cells cells = {0};
			struct lw_table table = {0};

			assert_int_equal(lw_cells_resize(&cells, width, height), LW_OK);
			open_table(&table, N_ITEMS);
			press(&table, LW_REQUEST_RIGHT, 0, 0, height);
			press(&table, LW_REQUEST_PAGE_DOWN, 0, 0, height);
			lw_table_draw(&table, lw_pane_whole(&cells));
			lw_table_draw(&table, lw_pane_part(lw_pane_whole(&cells), 0, 1, width, -3));
			press(&table, LW_REQUEST_CLICK, width - 1, 0, height);
			lw_table_done(&table);
			lw_cells_free(&cells);
		}
}

static void searching_wraps_and_ignores_capitals(void **state)
{
	struct lw_table table = {0};

	(void)state;
	open_table(&table, N_ITEMS);
	assert_true(lw_table_find(&table, "BETA", 0)); /* this one counts too */
	assert_int_equal(table.at, 0);
	assert_true(lw_table_find(&table, "ta", 1));
	assert_int_equal(table.at, 3);
	assert_true(lw_table_find(&table, "ta", 1));
	assert_int_equal(table.at, 0);
	assert_true(lw_table_find(&table, "ta", -1));
	assert_int_equal(table.at, 3);
	assert_true(lw_table_find(&table, "row 1", 1)); /* in any column */
	assert_int_equal(table.at, 1);
	assert_false(lw_table_find(&table, "omega", 1));
	assert_int_equal(table.at, 1);
	open_table(&table, 0);
	assert_false(lw_table_find(&table, "beta", 1));
	assert_false(lw_table_find(&table, "beta", -1));
	lw_table_done(&table);
}

static void check_written(int (*write)(const struct lw_table *table, FILE *out),
	struct lw_table *table, const char *expected)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	assert_non_null(out);
	assert_int_equal(write(table, out), LW_OK);
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
}

static int copy(const struct lw_table *table, FILE *out)
{
	return lw_table_copy(table, out) ? LW_OK : LW_ERR_IO;
}

static void csv_has_numbers_quotes_and_no_bars(void **state)
{
	struct lw_table table = {0};

	(void)state;
	open_table(&table, N_ITEMS);
	check_written(lw_table_write, &table,
		"name,size_ns,row\n"
		"beta,2000000,row 0\n"
		"alpha,,row 1\n"
		"\"a \"\"b\"\", c\",5000000,row 2\n"
		"delta,1000000,row 3\n"
		"gamma,,row 4\n");
	press(&table, LW_REQUEST_SORT, 0, 0, 10);
	press(&table, LW_REQUEST_SORT, 0, 0, 10); /* as sorted */
	check_written(copy, &table, "a \"b\", c\t5.00 ms\trow 2");
	lw_table_done(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown_numbers_are_sorted_last_both_ways),
		cmocka_unit_test(sorting_goes_to_the_top_and_new_rows_keep_what_is_selected),
		cmocka_unit_test(a_table_with_fewer_columns_forgets_an_order_that_is_gone),
		cmocka_unit_test(moving_scrolls_and_stops_at_the_ends),
		cmocka_unit_test(a_click_on_a_title_sorts_by_it_and_again_turns_it_round),
		cmocka_unit_test(columns_scroll_no_further_than_the_last_one),
		cmocka_unit_test(rows_that_do_not_fit_are_told_by_a_sign_that_covers_no_figure),
		cmocka_unit_test(what_is_marked_stays_so_wherever_the_cursor_is),
		cmocka_unit_test(the_first_order_is_one_that_changes_something),
		cmocka_unit_test(no_size_is_too_small_or_too_odd),
		cmocka_unit_test(searching_wraps_and_ignores_capitals),
		cmocka_unit_test(csv_has_numbers_quotes_and_no_bars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
