/* SPDX-License-Identifier: Apache-2.0 */
/* test_tui_keys.c - what help and hints promise is what the keys of each view do, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/tui/runs.h"
#include "tui/app.h"

struct opened {
	char path[64];
	const char *paths[1];
	struct lw_data data;
	struct lw_app app;
};

static void open_run(struct opened *o, const char *name)
{
	struct make_run spec;

	*o = (struct opened){0};
	assert_true(tui_run(name, &spec));
	snprintf(o->path, sizeof(o->path), "/tmp/lapwing-keys-%d", getpid());
	unlink(o->path);
	make_run_write(o->path, &spec);
	o->paths[0] = o->path;
	o->data = (struct lw_data){.paths = o->paths, .n_paths = 1};
	assert_int_equal(lw_data_load(&o->data), LW_OK);
	assert_int_equal(lw_app_init(&o->app, &o->data, "run"), LW_OK);
	assert_int_equal(lw_app_resize(&o->app, 120, 40), LW_OK);
}

static void close_run(struct opened *o)
{
	lw_app_done(&o->app);
	lw_data_done(&o->data);
	unlink(o->path);
}

static void press(struct opened *o, const char *keys)
{
	char text[128];

	snprintf(text, sizeof(text), "%s", keys);
	assert_int_equal(lw_app_keys(&o->app, text), LW_OK);
}

static const char *bottom(struct opened *o)
{
	static char text[4 * 120 + 1];

	lw_app_draw(&o->app);
	return lw_cells_line(&o->app.cells, o->app.cells.height - 1, text);
}

enum { FIRST = LW_REQUEST_ENTER, END = LW_REQUEST_VIEW, N_PLACES = 5 };

/* Where in a view a request may have something to do: as it opens, turned, with details. */
static const char *const places[N_PLACES] = {"", "t", "t t", "<Enter>", "<Down>"};

/* Views are asked directly: nothing stands before them. Each time from the beginning, of the same analysis. */
static bool understands(struct opened *run, int view, enum lw_request request, const char *place)
{
	struct opened o = {0};
	const struct lw_input input = {request, 30, 4, 37, 120};
	bool is_understood;
	char keys[128];

	assert_int_equal(lw_app_init(&o.app, &run->data, "run"), LW_OK);
	assert_int_equal(lw_app_resize(&o.app, 120, 40), LW_OK);
	lw_app_show(&o.app, view);
	lw_app_draw_all(&o.app);
	snprintf(keys, sizeof(keys), "%s", place);
	if (keys[0])
		press(&o, keys);
	lw_app_show(&o.app, view);
	is_understood = lw_views[view]->request(&o.app.views[view], &input);
	lw_app_done(&o.app);
	return is_understood;
}

static void test_views_understand_what_they_promise_and_nothing_else(void **state)
{
	struct opened o;

	(void)state;
	open_run(&o, "slow_rank");
	for (int view = 0; view < LW_VIEW_COUNT; view++)
		for (int request = FIRST; request < END; request++) {
			bool is_promised = lw_views[view]->keys.requests >> request & 1;
			bool is_understood = false;

			for (int i = 0; i < N_PLACES && is_understood != true; i++)
				is_understood =
					understands(&o, view, (enum lw_request)request, places[i]);
			if (is_promised != is_understood)
				fail_msg("%s: key %u is %spromised and %sunderstood",
					lw_views[view]->name, lw_key_of((enum lw_request)request),
					is_promised ? "" : "not ", is_understood ? "" : "not ");
		}
	close_run(&o);
}

static void test_hints_and_words_are_of_keys_that_do_something(void **state)
{
	struct opened o;

	(void)state;
	open_run(&o, "slow_rank");
	for (int view = 0; view < LW_VIEW_COUNT; view++) {
		const struct lw_key_words *words = lw_views[view]->keys.words;

		for (; words && words->request; words++) {
			assert_true(lw_app_can(&o.app, view) >> words->request & 1);
			assert_int_not_equal(lw_key_of(words->request), LW_KEY_NONE);
		}
	}
	close_run(&o);
}

static bool help_has(struct opened *o, const char *start)
{
	char text[4 * 120 + 1];
	bool has = false;

	assert_int_equal(lw_app_resize(&o->app, 120, 200), LW_OK);
	press(o, "?");
	for (int y = 0; y < o->app.cells.height; y++)
		has |= !strncmp(lw_cells_line(&o->app.cells, y, text), start, strlen(start));
	press(o, "?");
	assert_int_equal(lw_app_resize(&o->app, 120, 40), LW_OK);
	return has;
}

static void test_help_lists_what_works_in_the_view(void **state)
{
	struct opened o;

	(void)state;
	open_run(&o, "slow_rank");
	press(&o, "2");
	assert_true(help_has(&o, " f      "));
	assert_false(help_has(&o, " R      "));
	assert_false(help_has(&o, " m      "));
	press(&o, "0");
	assert_true(help_has(&o, " R      "));
	assert_false(help_has(&o, " f      "));
	assert_false(help_has(&o, " /      "));
	close_run(&o);
}

static void test_a_key_that_does_nothing_says_where_it_does_something(void **state)
{
	struct opened o;

	(void)state;
	open_run(&o, "slow_rank");
	press(&o, "f");
	assert_string_equal(bottom(&o), " ! f does nothing here (in timeline)");
	press(&o, "x");
	assert_string_equal(bottom(&o), " ! x does nothing: ? lists the keys");
	press(&o, "w");
	assert_non_null(strstr(bottom(&o), "w does nothing here (only while a job runs"));
	press(&o, "4 f");
	assert_non_null(strstr(bottom(&o), "f does nothing here (in timeline)"));
	press(&o, "? s");
	assert_string_equal(bottom(&o), " ! s does nothing here");
	press(&o, "? 7 t t s"); /* sorting is of its other sides */
	assert_string_equal(bottom(&o), " ! s does nothing here now");
	close_run(&o);
}

static void test_a_click_on_a_line_of_the_overview_opens_what_it_is_about(void **state)
{
	static const struct {
		const char *line, *view;
	} lines[] = {{"      1 ", "timeline"}, {"Slowest rank", "ranks"}, {"Advice:", "advice"},
		{"Quality:", "log"}};
	char text[4 * 120 + 1];
	struct opened o;

	(void)state;
	open_run(&o, "slow_rank");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		press(&o, "1");
		for (int y = 0; y < o.app.cells.height && o.app.current == 0; y++)
			if (strstr(lw_cells_line(&o.app.cells, y, text), lines[i].line))
				lw_app_key(&o.app, LW_KEY_CLICK, 5, y);
		assert_string_equal(lw_views[o.app.current]->name, lines[i].view);
	}
	assert_int_equal(o.app.focus.rank, 1);
	close_run(&o);
}

static void test_the_view_that_is_shown_has_its_name_on_the_narrowest_screen(void **state)
{
	char text[4 * 120 + 1], wanted[32];
	struct opened o;

	(void)state;
	open_run(&o, "slow_rank");
	assert_int_equal(lw_app_resize(&o.app, 40, 8), LW_OK);
	for (int view = 0; view < LW_VIEW_COUNT; view++) {
		const char *at;

		lw_app_show(&o.app, view);
		lw_app_draw(&o.app);
		snprintf(wanted, sizeof(wanted), "[%c%s]",
			(char)lw_key_of(LW_REQUEST_VIEW + (enum lw_request)view),
			lw_views[view]->label);
		o.app.cells.is_ascii = true; /* one byte a column */
		lw_app_draw(&o.app);
		at = strstr(lw_cells_line(&o.app.cells, 1, text), wanted);
		assert_non_null(at);
		if (view + 1 == LW_VIEW_COUNT)
			continue;
		lw_app_key(&o.app, LW_KEY_CLICK, (int)(at - text + (long)strlen(wanted)), 1);
		assert_int_equal(o.app.current, view + 1);
	}
	close_run(&o);
}

static void test_a_search_begins_with_what_is_selected(void **state)
{
	struct opened o;
	char first[4 * 120 + 1], text[4 * 120 + 1];

	(void)state;
	open_run(&o, "slow_rank");
	press(&o, "4 /fc <Enter>");
	snprintf(first, sizeof(first), "%s", lw_cells_line(&o.app.cells, 2, text));
	press(&o, ":search <Space> fc <Enter>");
	assert_string_equal(lw_cells_line(&o.app.cells, 2, text), first);
	press(&o, "n");
	assert_string_not_equal(lw_cells_line(&o.app.cells, 2, text), first);
	press(&o, ":search <Space> nowhere <Enter>");
	assert_string_equal(bottom(&o), " ! 'nowhere' is not here");
	close_run(&o);
}

static void test_what_cannot_be_copied_or_written_is_said(void **state)
{
	struct opened o;

	(void)state;
	open_run(&o, "empty");
	press(&o, "4 y");
	assert_string_equal(bottom(&o), " ! there is nothing to copy: nothing is selected");
	assert_null(o.app.copied);
	press(&o, ":write <Space> /dev/null/x.csv <Enter>"); /* below what is no folder */
	assert_string_equal(bottom(&o), " ! cannot write /dev/null/x.csv: Not a directory");
	press(&o, "n");
	assert_string_equal(bottom(&o), " ! nothing was searched for yet: / begins");
	press(&o, ":help <Enter>");
	assert_int_equal(o.app.mode, LW_APP_HELP);
	close_run(&o);
}

static void check_lines_offered(const char *run, bool have_lines)
{
	struct opened o;

	open_run(&o, run);
	press(&o, "8");
	assert_true(o.data.analysis->advice.advice.n > 0);
	for (size_t i = 0; i < o.data.analysis->advice.advice.n; i++) {
		assert_int_equal(strstr(bottom(&o), "y copy lines") != NULL, have_lines);
		press(&o, "y");
		if (!have_lines)
			assert_string_equal(
				bottom(&o), " ! there is nothing to copy: no setting does this");
		assert_int_equal(o.app.copied != NULL, have_lines);
		press(&o, "<Down>");
	}
	close_run(&o);
}

static void test_only_advice_with_lines_offers_to_copy_them(void **state)
{
	(void)state;
	check_lines_offered("slow_rank", false); /* other hardware, and what if no rank were late */
	check_lines_offered("long_cycle", true);
}

static void test_details_of_the_timeline_say_how_they_are_closed(void **state)
{
	struct opened o;

	(void)state;
	open_run(&o, "slow_rank");
	press(&o, "2");
	assert_null(strstr(bottom(&o), "Esc"));
	press(&o, "<Enter>");
	assert_non_null(strstr(bottom(&o), "Esc closes the details"));
	press(&o, "<Esc>");
	assert_null(strstr(bottom(&o), "Esc"));
	close_run(&o);
}

static void test_the_narrowest_screen_says_where_help_is(void **state)
{
	struct opened o;

	(void)state;
	open_run(&o, "slow_rank");
	assert_int_equal(lw_app_resize(&o.app, 40, 8), LW_OK);
	for (int view = 0; view < LW_VIEW_COUNT; view++) {
		lw_app_show(&o.app, view);
		assert_non_null(strstr(bottom(&o), "? help"));
	}
	press(&o, "<F1>");
	assert_int_equal(o.app.mode, LW_APP_HELP);
	press(&o, "<F1>");
	assert_int_equal(o.app.mode, LW_APP_VIEW);
	close_run(&o);
}

static void test_the_selected_step_is_marked_where_the_cursor_left_it(void **state)
{
	char text[4 * 120 + 1];
	struct opened o;
	int n_marks = 0;

	(void)state;
	open_run(&o, "slow_rank");
	press(&o, "3 :step <Space> 4 <Enter> s");
	lw_app_draw(&o.app);
	for (int y = 4; y < o.app.cells.height - 4; y++) {
		const char *line = lw_cells_line(&o.app.cells, y, text);

		if (line[0] != '*')
			continue;
		n_marks++;
		assert_int_equal(strtol(line + 1, NULL, 10), 4);
	}
	assert_int_equal(n_marks, 1);
	close_run(&o);
}

static void test_the_timeline_is_written_with_the_times_that_it_shows(void **state)
{
	char line[4 * 120 + 1], wanted[64], *text = NULL;
	const char *at = NULL;
	struct opened o;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	(void)state;
	open_run(&o, "slow_rank");
	press(&o, "2 . . <Enter>");
	for (int y = 0; y < o.app.cells.height && !at; y++)
		at = strstr(lw_cells_line(&o.app.cells, y, line), "rank 0: starts at ");
	assert_non_null(at);
	snprintf(wanted, sizeof(wanted), ",%.0f,",
		1e6 * strtod(at + strlen("rank 0: starts at "), NULL));
	assert_int_equal(lw_app_write(&o.app, out), LW_OK);
	fclose(out);
	assert_non_null(strstr(text, ",shown_start_ns,shown_end_ns,step_mark\n"));
	assert_non_null(strstr(text, wanted));
	free(text);
	close_run(&o);
	/* with the numbers of their marks, where steps have any */
	out = open_memstream(&text, &n);
	open_run(&o, "ranges");
	press(&o, "2 ]");
	assert_int_equal(lw_app_write(&o.app, out), LW_OK);
	fclose(out);
	assert_non_null(strstr(text, "\n0,2,0,"));
	assert_non_null(strstr(text, ",102\n"));
	free(text);
	close_run(&o);
}

static void test_nothing_is_written_before_the_run_is_read(void **state)
{
	struct opened o = {0};

	(void)state;
	assert_int_equal(lw_app_init(&o.app, &o.data, "run"), LW_OK);
	assert_int_equal(lw_app_resize(&o.app, 120, 40), LW_OK);
	press(&o, "4 e");
	assert_string_equal(bottom(&o), " ! there is nothing to write yet");
	assert_int_not_equal(access("lapwing-tensors.csv", F_OK), 0);
	press(&o, "<Down> y /x <Enter>");
	assert_string_equal(bottom(&o), " ! 'x' is not here");
	lw_app_done(&o.app);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_views_understand_what_they_promise_and_nothing_else),
		cmocka_unit_test(test_hints_and_words_are_of_keys_that_do_something),
		cmocka_unit_test(test_help_lists_what_works_in_the_view),
		cmocka_unit_test(test_a_key_that_does_nothing_says_where_it_does_something),
		cmocka_unit_test(test_a_click_on_a_line_of_the_overview_opens_what_it_is_about),
		cmocka_unit_test(test_the_view_that_is_shown_has_its_name_on_the_narrowest_screen),
		cmocka_unit_test(test_a_search_begins_with_what_is_selected),
		cmocka_unit_test(test_what_cannot_be_copied_or_written_is_said),
		cmocka_unit_test(test_only_advice_with_lines_offers_to_copy_them),
		cmocka_unit_test(test_details_of_the_timeline_say_how_they_are_closed),
		cmocka_unit_test(test_the_narrowest_screen_says_where_help_is),
		cmocka_unit_test(test_the_selected_step_is_marked_where_the_cursor_left_it),
		cmocka_unit_test(test_the_timeline_is_written_with_the_times_that_it_shows),
		cmocka_unit_test(test_nothing_is_written_before_the_run_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
