/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline's lanes of ranges: whose they are, what columns show, and keys go through all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/run_fixture.h"
#include "tui/timeline.h"

enum { COLUMNS = 120 };

/* On thread 100 of rank 0 ranges that nest as they fall, some of which overlap without holding one another. */
static const char made_up[] =
	"INSERT INTO string VALUES(7001, 'a'), (7002, 'b'), (7003, 'needle'), (7004, 'other'), (7005, 'NCCL/x');"
	"WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < 3999)"
	" INSERT INTO range SELECT 1, 50000 + n, 500000000 + n * 50000, 500000000 + n * 50000 + 1 + n * 7919 % 97 * 4001,"
	" 3 + n % 2, CASE WHEN n % 500 = 77 THEN 7003 ELSE 7001 + n % 2 END, n FROM i;"
	/* the loader's cover more, but it calls nothing */
	"INSERT INTO range VALUES(2, 1, 0, 900000000, 3, 7004, 0), (1, 2, 0, 900000000, 3, 7005, 0);";

struct fixture {
	struct lw_run *run;
	struct lw_timeline timeline;
};

static void begin(struct fixture *f, const char *sql)
{
	struct make_run spec = make_run_job(2, 8);

	spec.extra_sql = sql;
	f->run = run_fixture_analyze(&spec);
	f->timeline = (struct lw_timeline){
		.group = LW_NONE, .is_on_range = true, .n_columns = COLUMNS, .range_lines = 1};
	assert_int_equal(lw_lanes_init(&f->timeline.lanes, f->run), LW_OK);
	f->timeline.column_ns = f->timeline.lanes.length_ns / COLUMNS + 1;
}

static void end(struct fixture *f)
{
	lw_lanes_done(&f->timeline.lanes);
	lw_run_free(f->run);
}

static void they_are_of_the_thread_that_calls(void **state)
{
	const struct lw_range_rank *rank;
	struct fixture f;

	(void)state;
	begin(&f, made_up);
	rank = &f.timeline.lanes.ranges.ranks[0];
	assert_int_equal(rank->tid, 100);
	assert_true(rank->n_levels > 3);
	assert_int_equal(f.timeline.lanes.ranges.ranks[1].n_levels, 0);
	end(&f);
	/* where it has none, of whose cover most */
	begin(&f, "INSERT INTO string VALUES(7004, 'other');"
		  "INSERT INTO range VALUES(2, 1, 0, 900000000, 3, 7004, 0);");
	rank = &f.timeline.lanes.ranges.ranks[0];
	assert_int_equal(rank->n_levels, 1);
	assert_string_equal(rank->levels[0].at[0].name, "other");
	assert_int_not_equal(rank->tid, 100);
	end(&f);
}

static void each_is_on_one_level_on_which_none_overlaps(void **state)
{
	const struct lw_range_rank *rank;
	struct fixture f;
	size_t n = 0;

	(void)state;
	begin(&f, made_up);
	rank = &f.timeline.lanes.ranges.ranks[0];
	for (size_t d = 0; d < rank->n_levels; d++) {
		n += rank->levels[d].n;
		assert_true(rank->levels[d].n > 0);
		for (size_t i = 1; i < rank->levels[d].n; i++)
			assert_true(
				rank->levels[d].at[i - 1].end_ns <= rank->levels[d].at[i].start_ns);
		for (size_t i = 0; d > 0 && i < rank->levels[d].n;
			i++) { /* below one that is open */
			const struct lw_range_bar *bar = &rank->levels[d].at[i];
			size_t above = lw_range_at(&rank->levels[d - 1], bar->start_ns);

			assert_true(above < rank->levels[d - 1].n);
			assert_true(rank->levels[d - 1].at[above].start_ns <= bar->start_ns);
		}
	}
	assert_int_equal(n, 4000);
	assert_int_equal(rank->n_deeper, 0);
	end(&f);
}

static void deeper_than_there_are_levels_is_counted(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f,
		"INSERT INTO string VALUES(7001, 'a');"
		"WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < 69)"
		" INSERT INTO range SELECT 1, 50000 + n, 500000000 + n, 600000000 - n, 3, 7001, n FROM i;");
	assert_int_equal(f.timeline.lanes.ranges.ranks[0].n_levels, LW_RANGE_MAX_LEVELS);
	assert_int_equal(f.timeline.lanes.ranges.ranks[0].n_deeper, 70 - LW_RANGE_MAX_LEVELS);
	end(&f);
}

/* How many of @level are in [from, to), and how many begin there. */
static size_t walk(const lw_range_level *level, int64_t from_ns, int64_t to_ns, size_t *ret_begun)
{
	size_t n = 0;

	*ret_begun = 0;
	for (size_t i = 0; i < level->n; i++) {
		n += level->at[i].start_ns < to_ns && level->at[i].end_ns > from_ns;
		*ret_begun += level->at[i].start_ns >= from_ns && level->at[i].start_ns < to_ns;
	}
	return n;
}

static void a_column_shows_what_a_walk_finds(void **state)
{
	struct lw_cells cells = {.is_ascii = true};
	struct fixture f;
	const lw_range_level *level;

	(void)state;
	begin(&f, made_up);
	assert_int_equal(lw_cells_resize(&cells, COLUMNS, 1), LW_OK);
	for (int zoom = 0; zoom < 12; zoom++) {
		struct lw_timeline *timeline = &f.timeline;
		int64_t from_ns = timeline->from_ns + timeline->lanes.ranks[0].origin_ns;

		timeline->range_level = 1;
		level = &timeline->lanes.ranges.ranks[0].levels[1];
		lw_cells_clear(&cells);
		lw_timeline_range_draw(timeline, 0, 0, 1, lw_pane_whole(&cells));
		for (int x = 0; x < COLUMNS; x++, from_ns += timeline->column_ns) {
			size_t n_begun;
			size_t n = walk(level, from_ns, from_ns + timeline->column_ns, &n_begun);
			uint32_t rune = cells.at[x].rune;

			if ((n == 0) != (rune == ' '))
				fail_msg("zoom %d, column %d: %zu ranges, '%c'", zoom, x, n,
					(int)rune);
			if (n_begun == 1)
				assert_int_equal(rune, '|');
			if (n_begun > 1)
				assert_int_equal(rune, '.');
		}
		timeline->column_ns = timeline->column_ns / 2 + 1;
		timeline->from_ns = 550000000 - timeline->lanes.ranks[0].origin_ns;
	}
	lw_cells_free(&cells);
	end(&f);
}

static void what_holds_all_of_the_screen_is_above_it(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f,
		"INSERT INTO string VALUES(7001, 'a');"
		"INSERT INTO range VALUES(1, 1, 0, 5000000000, 3, 7001, 0), (1, 2, 550000000, 560000000, 3, 7001, 0),"
		" (1, 3, 551000000, 552000000, 3, 7001, 0), (1, 4, 553000000, 554000000, 3, 7001, 0);");
	f.timeline.is_on_range = false;
	assert_int_equal(lw_timeline_range_base(&f.timeline, 0, 1), 1);
	f.timeline.from_ns = 550500000 - f.timeline.lanes.ranks[0].origin_ns;
	f.timeline.column_ns = 5000000 / COLUMNS;
	assert_int_equal(lw_timeline_range_base(&f.timeline, 0, 1), 2);
	f.timeline.from_ns = 551200000 - f.timeline.lanes.ranks[0].origin_ns;
	f.timeline.column_ns = 100000 / COLUMNS;
	assert_int_equal(lw_timeline_range_base(&f.timeline, 0, 1), 2); /* the last there is */
	f.timeline.is_on_range = true; /* what is selected is shown */
	f.timeline.range_level = 0;
	assert_int_equal(lw_timeline_range_base(&f.timeline, 0, 2), 0);
	f.timeline.range_level = 2;
	assert_int_equal(lw_timeline_range_base(&f.timeline, 0, 2), 2);
	end(&f);
}

static void keys_go_through_a_level_and_into_ranges_and_out(void **state)
{
	struct fixture f;
	struct lw_timeline *timeline = &f.timeline;
	const struct lw_range_rank *rank;
	const struct lw_range_bar *outer;
	size_t n = 1;

	(void)state;
	begin(&f, made_up);
	rank = &timeline->lanes.ranges.ranks[0];
	timeline->range_level = 1;
	timeline->cursor_ns = 0;
	assert_true(lw_timeline_range_next(timeline, 1, COLUMNS));
	assert_ptr_equal(lw_timeline_bar(timeline), &rank->levels[1].at[0]);
	while (lw_timeline_range_next(timeline, 1, COLUMNS))
		n++;
	assert_int_equal(n, rank->levels[1].n);
	while (lw_timeline_range_next(timeline, -1, COLUMNS))
		n--;
	assert_int_equal(n, 1);
	assert_true(lw_timeline_range_move(timeline, -1, COLUMNS));
	outer = lw_timeline_bar(timeline);
	assert_int_equal(timeline->range_level, 0);
	assert_true(outer->start_ns <= rank->levels[1].at[0].start_ns);
	assert_false(lw_timeline_range_move(timeline, -1, COLUMNS));
	assert_true(lw_timeline_range_move(timeline, 1, COLUMNS));
	assert_true(lw_timeline_bar(timeline)->start_ns < outer->end_ns);
	/* a rank without any */
	timeline->rank = 1;
	lw_timeline_range_enter(timeline);
	assert_null(lw_timeline_bar(timeline));
	assert_false(lw_timeline_range_next(timeline, 1, COLUMNS));
	assert_false(lw_timeline_range_move(timeline, 1, COLUMNS));
	assert_null(lw_timeline_range_find(timeline, "needle", 1, COLUMNS));
	end(&f);
}

static void a_search_finds_each_once_in_the_order_of_time(void **state)
{
	struct fixture f;
	struct lw_timeline *timeline = &f.timeline;
	int64_t at_ns[9];

	(void)state;
	begin(&f, made_up);
	for (int i = 0; i < 9; i++) {
		assert_string_equal(lw_timeline_range_find(timeline, "NEED", 1, COLUMNS), "needle");
		at_ns[i] = lw_timeline_bar(timeline)->start_ns;
		assert_true(i == 0 || i == 8 || at_ns[i] > at_ns[i - 1]);
	}
	assert_int_equal(at_ns[0], 500000000 + 77 * 50000);
	assert_int_equal(at_ns[7], 500000000 + (7 * 500 + 77) * 50000);
	assert_int_equal(at_ns[8], at_ns[0]); /* after the last the first */
	for (int i = 7; i > 0; i--) {
		assert_non_null(lw_timeline_range_find(timeline, "NEED", -1, COLUMNS));
		assert_int_equal(lw_timeline_bar(timeline)->start_ns, at_ns[i]);
	}
	assert_null(lw_timeline_range_find(timeline, "NCCL", 1, COLUMNS));
	assert_null(lw_timeline_range_find(timeline, "other", 1, COLUMNS));
	end(&f);
}

static void the_csv_has_those_of_the_screen(void **state)
{
	struct fixture f;
	size_t n_bytes, n_lines = 0, n = 0, n_begun;
	const struct lw_range_rank *rank;
	char *csv = NULL;
	FILE *out;

	(void)state;
	begin(&f, made_up);
	rank = &f.timeline.lanes.ranges.ranks[0];
	out = open_memstream(&csv, &n_bytes);
	assert_int_equal(lw_timeline_range_write(&f.timeline,
				 550000000 - f.timeline.lanes.ranks[0].origin_ns,
				 551000000 - f.timeline.lanes.ranks[0].origin_ns, out),
		LW_OK);
	fclose(out);
	for (const char *at = csv; (at = strchr(at, '\n')); at++)
		n_lines++;
	for (size_t d = 0; d < rank->n_levels; d++)
		n += walk(&rank->levels[d], 550000000, 551000000, &n_begun);
	assert_int_equal(n_lines, n + 1);
	assert_true(n > 20);
	free(csv);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_are_of_the_thread_that_calls),
		cmocka_unit_test(each_is_on_one_level_on_which_none_overlaps),
		cmocka_unit_test(deeper_than_there_are_levels_is_counted),
		cmocka_unit_test(a_column_shows_what_a_walk_finds),
		cmocka_unit_test(what_holds_all_of_the_screen_is_above_it),
		cmocka_unit_test(keys_go_through_a_level_and_into_ranges_and_out),
		cmocka_unit_test(a_search_finds_each_once_in_the_order_of_time),
		cmocka_unit_test(the_csv_has_those_of_the_screen),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
