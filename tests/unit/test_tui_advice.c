/* SPDX-License-Identifier: Apache-2.0 */
/* test_tui_advice.c - the views of the model and of advice, over an analysis as the program makes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/advise/trial.h"
#include "tests/lib/run_fixture.h"
#include "tui/lines.h"
#include "tui/parts.h"
#include "tui/view.h"

enum { WIDTH = 80, HEIGHT = 21 };

struct fixture {
	const char *path;
	struct lw_data data;
	struct lw_focus focus;
	struct lw_view view;
	struct lw_cells cells;
};

static void load(struct fixture *f, const char *name, const struct make_run *spec)
{
	*f = (struct fixture){.path = run_fixture_path(name)};
	make_run_write(f->path, spec);
	f->data.paths = &f->path;
	f->data.n_paths = 1;
	assert_int_equal(lw_data_load(&f->data), LW_OK);
	assert_int_equal(lw_cells_resize(&f->cells, WIDTH, HEIGHT), LW_OK);
}

static void open_view(struct fixture *f, const struct lw_view_ops *ops)
{
	f->view = (struct lw_view){.ops = ops, .data = &f->data, .focus = &f->focus};
	f->view.state = calloc(1, ops->state_bytes);
	assert_non_null(f->view.state);
	assert_int_equal(ops->open(&f->view), LW_OK);
}

static void close_view(struct fixture *f)
{
	f->view.ops->done(&f->view);
	free(f->view.state);
	lw_data_done(&f->data);
	lw_cells_free(&f->cells);
}

static bool screen_holds(struct fixture *f, const char *text)
{
	char line[4 * WIDTH + 1];

	lw_cells_clear(&f->cells);
	f->view.ops->draw(&f->view, lw_pane_whole(&f->cells));
	for (int y = 0; y < f->cells.height; y++)
		if (strstr(lw_cells_line(&f->cells, y, line), text))
			return true;
	return false;
}

static bool press(struct fixture *f, enum lw_request request)
{
	const struct lw_input input = {request, 0, 0, HEIGHT, WIDTH};

	return f->view.ops->request(&f->view, &input);
}

static void the_model_turns_between_three_sides_and_predicts_the_last_when_shown(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct fixture f;

	(void)state;
	load(&f, "model.lapwing", &spec);
	open_view(&f, &lw_view_model);
	assert_true(screen_holds(&f, "[figures]"));
	assert_true(screen_holds(&f, "csf"));
	assert_false(f.view.ops->tick(&f.view));
	press(&f, LW_REQUEST_TURN);
	assert_true(screen_holds(&f, "[costs]"));
	assert_true(screen_holds(&f, "measured"));
	press(&f, LW_REQUEST_TURN);
	assert_true(screen_holds(&f, "..."));
	while (f.view.ops->tick(&f.view))
		;
	assert_false(screen_holds(&f, "..."));
	assert_true(screen_holds(&f, "     3r"));
	press(&f, LW_REQUEST_TURN);
	assert_true(screen_holds(&f, "[figures]"));
	close_view(&f);
}

static void a_figure_that_is_not_known_says_why(void **state)
{
	struct make_run spec = make_run_job(2, 8);
	struct fixture f;

	(void)state;
	load(&f, "plain.lapwing", &spec);
	open_view(&f, &lw_view_model);
	press(&f, LW_REQUEST_BOTTOM); /* utilisation */
	assert_true(screen_holds(&f, "not known"));
	assert_true(screen_holds(&f, "needs the operations of the forward pass"));
	close_view(&f);
}

static void the_smallest_usual_screen_has_what_was_measured_beside_the_replay(void **state)
{
	static const struct lw_view_ops *const views[] = {
		&lw_view_advice, &lw_view_grid, &lw_view_whatif};
	struct make_run spec = make_run_job(3, 8);

	(void)state;
	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		struct fixture f;

		load(&f, "measured.lapwing", &spec);
		assert_int_equal(
			lw_cells_resize(&f.cells, 80, 24 - 3), LW_OK); /* a frame's lines */
		open_view(&f, views[i]);
		while (views[i]->tick && views[i]->tick(&f.view))
			;
		if (i == 0) /* the first has four lines to copy, which go before */
			press(&f, LW_REQUEST_DOWN);
		assert_true(screen_holds(&f, " replayed "));
		assert_true(screen_holds(&f, " measured "));
		close_view(&f);
	}
}

static void advice_opens_into_its_story_and_closes(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct fixture f;

	(void)state;
	load(&f, "advice.lapwing", &spec);
	open_view(&f, &lw_view_advice);
	assert_true(screen_holds(&f, "what to change"));
	assert_true(screen_holds(&f, "recorded"));
	assert_true(press(&f, LW_REQUEST_ENTER));
	assert_false(screen_holds(&f, "what to change"));
	assert_true(f.view.ops->find(&f.view, "What the model assumes", 0));
	assert_true(screen_holds(&f, "What the model assumes"));
	assert_true(press(&f, LW_REQUEST_BACK));
	assert_true(screen_holds(&f, "what to change"));
	close_view(&f);
}

static void the_story_has_a_timeline_or_says_why_not(void **state)
{
	struct make_run spec = make_run_job(2, 30);
	struct fixture f;

	(void)state;
	spec.tick_ns = 12000000;
	spec.extra_sql = "UPDATE setting SET value = 25000000 WHERE setting = 2";
	load(&f, "cycle.lapwing", &spec);
	open_view(&f, &lw_view_advice);
	assert_false(screen_holds(&f, "replayed wire"));
	assert_true(press(&f, LW_REQUEST_ENTER));
	assert_true(screen_holds(&f, "set        HOROVOD_CYCLE_TIME="));
	assert_true(screen_holds(&f, "replayed wire"));
	assert_true(screen_holds(&f, "predicted wire"));
	assert_true(press(&f, LW_REQUEST_BACK));
	assert_true(press(&f, LW_REQUEST_BOTTOM)); /* a note */
	assert_true(press(&f, LW_REQUEST_ENTER));
	assert_false(screen_holds(&f, "predicted wire"));
	assert_true(screen_holds(&f, "no timeline is predicted"));
	close_view(&f);
}

static void what_is_cut_ends_in_dots_and_keeps_its_end(void **state)
{
	static const char text[] = "one two three four five six seven";
	struct lw_cells cells = {0};
	char line[4 * 20 + 1];
	struct lw_pane pane;

	(void)state;
	assert_int_equal(lw_cells_resize(&cells, 20, 4), LW_OK);
	pane = lw_pane_whole(&cells);
	assert_int_equal(lw_pane_fit(pane, 0, 0, 20, 4, LW_STYLE_TEXT, text, " (8)"), 2);
	assert_string_equal(lw_cells_line(&cells, 0, line), "one two three four");
	assert_string_equal(lw_cells_line(&cells, 1, line), "five six seven (8)");
	lw_cells_clear(&cells);
	assert_int_equal(lw_pane_fit(pane, 0, 0, 20, 1, LW_STYLE_TEXT, text, " (8)"), 1);
	assert_string_equal(lw_cells_line(&cells, 0, line), "one two three... (8)");
	lw_cells_clear(&cells);
	assert_int_equal(lw_pane_fit(pane, 0, 0, 20, 0, LW_STYLE_TEXT, text, ""), 0);
	assert_string_equal(lw_cells_line(&cells, 0, line), "");
	lw_cells_free(&cells);
}

static char *copied(struct fixture *f)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	assert_non_null(out);
	if (!f->view.ops->copy(&f->view, out))
		fputs("nothing", out);
	fclose(out);
	return text;
}

/* An advice as advisers make it; what is copied is what a person pastes, and nothing else. */
static void advice_copies_exactly_the_lines_to_paste(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct lw_advice_list *list;
	struct lw_advice *advice;
	struct lw_trial trial = {0};
	struct fixture f;
	char *text;

	(void)state;
	load(&f, "copy.lapwing", &spec);
	list = &f.data.analysis->advice;
	while (list->advice.n)
		free(list->advice.at[--list->advice.n].code);
	trial.prediction = list->base;
	trial.step_ns = trial.gain_ns = list->base.step_ns;
	assert_int_equal(lw_advise_add(list, lw_advise_adviser("horovod.fusion_cycle"),
				 LW_ADVICE_SET, &trial, &advice),
		LW_OK);
	lw_advise_set(advice, "HOROVOD_FUSION_THRESHOLD", "%d", 1048576);
	lw_advise_set(advice, "HOROVOD_CYCLE_TIME", "%g", 2.5);
	assert_int_equal(lw_advise_add(list, lw_advise_adviser("training.fp16"), LW_ADVICE_TRAINING,
				 &trial, &advice),
		LW_OK);
	assert_int_equal(lw_advise_code(advice, "first line\nsecond line"), LW_OK);
	open_view(&f, &lw_view_advice);
	text = copied(&f);
	assert_string_equal(
		text, "export HOROVOD_FUSION_THRESHOLD=1048576\nexport HOROVOD_CYCLE_TIME=2.5\n");
	free(text);
	assert_true(screen_holds(&f, "export HOROVOD_CYCLE_TIME=2.5"));
	press(&f, LW_REQUEST_DOWN);
	text = copied(&f);
	assert_string_equal(text, "first line\nsecond line\n");
	free(text);
	press(&f, LW_REQUEST_BOTTOM); /* a finding */
	text = copied(&f);
	assert_string_equal(text, "nothing");
	free(text);
	close_view(&f);
}

static void a_run_without_steps_says_why_there_is_no_advice(void **state)
{
	struct make_run spec = make_run_job(2, 1);
	char start[40];
	struct fixture f;

	(void)state;
	load(&f, "none.lapwing", &spec);
	open_view(&f, &lw_view_advice);
	assert_true(screen_holds(&f, "Nothing can be predicted from this run"));
	snprintf(start, sizeof(start), "%.39s", f.data.analysis->advice.why_not);
	assert_true(screen_holds(&f, start)); /* the rest may be wrapped */
	close_view(&f);
}

static void lines_scroll_no_farther_than_there_is_text(void **state)
{
	struct lw_cells cells = {0};
	struct lw_lines lines = {0};
	struct lw_pane pane;

	(void)state;
	assert_int_equal(lw_cells_resize(&cells, 20, 3), LW_OK);
	pane = lw_pane_whole(&cells);
	assert_int_equal(lw_lines_take(&lines, strdup("a\nb\n\nc\nd\n")), LW_OK);
	assert_int_equal(lines.at.n, 5);
	lw_lines_draw(&lines, pane);
	for (int i = 0; i < 9; i++)
		assert_true(lw_lines_request(&lines, LW_REQUEST_DOWN));
	assert_int_equal(lines.top, 2);
	assert_true(lw_lines_request(&lines, LW_REQUEST_PAGE_UP));
	assert_int_equal(lines.top, 0);
	assert_true(lw_lines_find(&lines, "D", 0));
	lw_lines_draw(&lines, pane);
	assert_int_equal(lines.top, 2);
	assert_false(lw_lines_find(&lines, "e", 1));
	assert_false(lw_lines_request(&lines, LW_REQUEST_SORT));
	lw_lines_done(&lines);
	lw_cells_free(&cells);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_model_turns_between_three_sides_and_predicts_the_last_when_shown),
		cmocka_unit_test(a_figure_that_is_not_known_says_why),
		cmocka_unit_test(the_story_has_a_timeline_or_says_why_not),
		cmocka_unit_test(what_is_cut_ends_in_dots_and_keeps_its_end),
		cmocka_unit_test(the_smallest_usual_screen_has_what_was_measured_beside_the_replay),
		cmocka_unit_test(advice_opens_into_its_story_and_closes),
		cmocka_unit_test(advice_copies_exactly_the_lines_to_paste),
		cmocka_unit_test(a_run_without_steps_says_why_there_is_no_advice),
		cmocka_unit_test(lines_scroll_no_farther_than_there_is_text),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
