/* SPDX-License-Identifier: Apache-2.0 */
/* test_tui_whatif.c - sliders, the grid that fills between pictures, and what is copied of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/run_fixture.h"
#include "tui/predict.h"
#include "tui/sliders.h"

enum { WIDTH = 100, HEIGHT = 36 };

struct fixture {
	struct lw_analysis analysis;
	struct lw_data data;
	struct lw_focus focus;
	struct lw_view view;
	struct lw_cells cells;
};

static void open_view(struct fixture *f, const struct lw_view_ops *ops, const struct make_run *spec)
{
	*f = (struct fixture){.data = {.generation = 1}};
	f->analysis.run = run_fixture_analyze(spec);
	f->data.analysis = &f->analysis;
	f->view = (struct lw_view){.ops = ops, .data = &f->data, .focus = &f->focus};
	f->view.state = calloc(1, ops->state_bytes);
	assert_non_null(f->view.state);
	assert_int_equal(lw_cells_resize(&f->cells, WIDTH, HEIGHT), LW_OK);
	assert_int_equal(ops->open(&f->view), LW_OK);
}

static void close_view(struct fixture *f)
{
	f->view.ops->done(&f->view);
	free(f->view.state);
	lw_predictor_free(f->data.predictor);
	lw_run_free(f->analysis.run);
	lw_cells_free(&f->cells);
}

static bool screen_holds(struct fixture *f, const char *text)
{
	char line[4 * WIDTH + 1];

	lw_cells_clear(&f->cells);
	f->view.ops->draw(&f->view, lw_pane_whole(&f->cells));
	for (int y = 0; y < HEIGHT; y++)
		if (strstr(lw_cells_line(&f->cells, y, line), text))
			return true;
	return false;
}

static void press(struct fixture *f, enum lw_request request)
{
	const struct lw_input input = {request, 0, 0, HEIGHT, WIDTH};

	assert_true(f->view.ops->request(&f->view, &input));
}

static char *text_of(struct fixture *f, bool is_copy)
{
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	assert_non_null(out);
	if (is_copy)
		assert_true(f->view.ops->copy(&f->view, out));
	else
		assert_int_equal(f->view.ops->write(&f->view, out), LW_OK);
	fclose(out);
	return text;
}

static struct lw_replay *replay_of(struct fixture *f)
{
	struct lw_predictor *predictor = lw_data_predictor(&f->data);

	assert_non_null(predictor);
	return predictor->replay;
}

static void a_slider_never_leaves_its_range_and_resets_to_what_was_recorded(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct lw_sliders sliders;
	struct fixture f;

	(void)state;
	open_view(&f, &lw_view_whatif, &spec);
	lw_sliders_make(replay_of(&f), &sliders);
	assert_true(sliders.n >= 6);
	for (size_t i = 0; i < sliders.n; i++) {
		struct lw_slider *slider = &sliders.of[i];

		assert_true(slider->n > 1 && slider->n <= LW_SLIDER_VALUES);
		assert_int_equal(slider->at, slider->recorded);
		for (size_t v = 1; v < slider->n; v++)
			assert_true(slider->values[v] > slider->values[v - 1]);
		while (lw_slider_turn(slider, -3))
			assert_true(slider->at < slider->n);
		assert_int_equal(slider->at, 0);
		while (lw_slider_turn(slider, 3))
			assert_true(slider->at < slider->n);
		assert_int_equal(slider->at, slider->n - 1);
		assert_false(lw_slider_turn(slider, 1));
	}
	lw_sliders_reset(&sliders);
	for (size_t i = 0; i < sliders.n; i++)
		assert_int_equal(sliders.of[i].at, sliders.of[i].recorded);
	close_view(&f);
}

static void sliders_as_recorded_ask_for_nothing_and_others_for_what_they_show(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct lw_sliders sliders, again;
	struct lw_prediction recorded, asked;
	struct lw_whatif whatif;
	struct fixture f;

	(void)state;
	open_view(&f, &lw_view_whatif, &spec);
	lw_sliders_make(replay_of(&f), &sliders);
	whatif = lw_sliders_whatif(&sliders);
	assert_int_equal(
		lw_replay_predict(replay_of(&f), &LW_WHATIF_RECORDED, &recorded, NULL), LW_OK);
	assert_int_equal(lw_replay_predict(replay_of(&f), &whatif, &asked, NULL), LW_OK);
	assert_true(asked.is_recorded);
	assert_true(asked.step_ns.value == recorded.step_ns.value);
	for (size_t i = 0; i < sliders.n; i++)
		if (!lw_slider_turn(&sliders.of[i], 1))
			assert_true(lw_slider_turn(&sliders.of[i], -1));
	whatif = lw_sliders_whatif(&sliders);
	assert_true(isfinite(whatif.fusion_bytes) && isfinite(whatif.cycle_ns));
	assert_true(whatif.n_ranks > 3);
	assert_true(whatif.bandwidth_frac > 1 && whatif.latency_frac > 1);
	assert_true(whatif.compute_frac > 1);
	assert_true(whatif.is_balanced);
	lw_sliders_make(replay_of(&f), &again);
	lw_sliders_keep(&again, &sliders);
	for (size_t i = 0; i < sliders.n; i++)
		assert_int_equal(again.of[i].at, sliders.of[i].at);
	close_view(&f);
}

static void what_if_answers_each_key_and_copies_what_to_set(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct fixture f;
	char *before, *after;

	(void)state;
	open_view(&f, &lw_view_whatif, &spec);
	assert_true(screen_holds(&f, "as recorded"));
	assert_false(screen_holds(&f, "changed"));
	before = text_of(&f, true);
	assert_non_null(strstr(before, "export HOROVOD_FUSION_THRESHOLD="));
	press(&f, LW_REQUEST_DOWN);
	press(&f, LW_REQUEST_RIGHT);
	assert_true(screen_holds(&f, "changed"));
	after = text_of(&f, true);
	assert_string_not_equal(before, after);
	free(after);
	press(&f, LW_REQUEST_RESET);
	assert_false(screen_holds(&f, "changed"));
	after = text_of(&f, true);
	assert_string_equal(before, after);
	free(after);
	free(before);
	close_view(&f);
}

static void the_grid_fills_between_pictures(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct fixture f;
	int n_ticks = 0;

	(void)state;
	open_view(&f, &lw_view_grid, &spec);
	assert_true(screen_holds(&f, "..."));
	assert_true(screen_holds(&f, "predicting: 0 of"));
	while (f.view.ops->tick(&f.view))
		assert_true(++n_ticks < 10000);
	assert_true(n_ticks > 0);
	assert_false(screen_holds(&f, "..."));
	assert_true(screen_holds(&f, "predicted step in ms"));
	close_view(&f);
}

/* The one row that says so, with what the recorded setting is predicted to take. */
static void the_grid_holds_the_recorded_step_once(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct lw_prediction recorded;
	struct fixture f;
	char *text, *rest, *line;
	int n_recorded = 0, n_lines = 0;

	(void)state;
	open_view(&f, &lw_view_grid, &spec);
	assert_int_equal(
		lw_replay_predict(replay_of(&f), &LW_WHATIF_RECORDED, &recorded, NULL), LW_OK);
	rest = text = text_of(&f, false);
	strsep(&rest, "\n"); /* titles */
	while ((line = strsep(&rest, "\n")) && *line) {
		double fusion_bytes, cycle_ns, step_ns;
		size_t n = strlen(line);

		n_lines++;
		assert_int_equal(
			sscanf(line, "%lf,%lf,%lf,", &fusion_bytes, &cycle_ns, &step_ns), 3);
		assert_true(step_ns > 0);
		if (line[n - 3] != '1')
			continue;
		n_recorded++;
		assert_true(step_ns == recorded.step_ns.value);
		assert_true(fusion_bytes == recorded.fusion_bytes);
		assert_true(cycle_ns == recorded.cycle_ns);
	}
	assert_int_equal(n_recorded, 1);
	assert_true(n_lines > 10);
	free(text);
	close_view(&f);
}

static void the_cursor_of_the_grid_stays_on_it(void **state)
{
	static const enum lw_request sides[] = {
		LW_REQUEST_UP, LW_REQUEST_LEFT, LW_REQUEST_DOWN, LW_REQUEST_RIGHT};
	struct make_run spec = make_run_job(2, 8);
	struct fixture f;
	char *lines;

	(void)state;
	open_view(&f, &lw_view_grid, &spec);
	for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
		for (int n = 0; n < 30; n++)
			press(&f, sides[i]);
	press(&f, LW_REQUEST_TOP);
	lines = text_of(&f, true);
	assert_non_null(strstr(lines, "export HOROVOD_FUSION_THRESHOLD=0\n"));
	assert_non_null(strstr(lines, "export HOROVOD_CYCLE_TIME=50\n"));
	free(lines);
	press(&f, LW_REQUEST_RESET);
	assert_true(screen_holds(&f, "the recorded setting replayed"));
	close_view(&f);
}

static void a_run_without_steps_says_why_nothing_is_predicted(void **state)
{
	static const struct lw_view_ops *const views[] = {&lw_view_grid, &lw_view_whatif};
	struct make_run spec = make_run_job(2, 1);

	(void)state;
	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		struct fixture f;

		open_view(&f, views[i], &spec);
		assert_true(screen_holds(&f, "Nothing can be predicted from this run"));
		assert_true(f.data.why_no_predictor[0]);
		assert_false(f.view.ops->tick && f.view.ops->tick(&f.view));
		close_view(&f);
	}
}

/* A file may hold ranks 4 to 7 only: those are the names, not their places in the file. */
static void the_picture_of_a_step_names_ranks_by_their_numbers(void **state)
{
	struct make_run spec = make_run_job(2, 20);
	struct fixture f;

	(void)state;
	open_view(&f, &lw_view_whatif, &spec);
	assert_true(screen_holds(&f, "rank 0 replayed"));
	f.analysis.run->ranks.at[0].rank = 4;
	f.analysis.run->ranks.at[1].rank = 6;
	assert_false(screen_holds(&f, "rank 0 replayed"));
	assert_true(screen_holds(&f, "rank 4 replayed") && screen_holds(&f, "rank 6 predicted"));
	assert_true(screen_holds(&f, "▒ waits")); /* also on a screen as narrow as this */
	close_view(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_picture_of_a_step_names_ranks_by_their_numbers),
		cmocka_unit_test(a_slider_never_leaves_its_range_and_resets_to_what_was_recorded),
		cmocka_unit_test(sliders_as_recorded_ask_for_nothing_and_others_for_what_they_show),
		cmocka_unit_test(what_if_answers_each_key_and_copies_what_to_set),
		cmocka_unit_test(the_grid_fills_between_pictures),
		cmocka_unit_test(the_grid_holds_the_recorded_step_once),
		cmocka_unit_test(the_cursor_of_the_grid_stays_on_it),
		cmocka_unit_test(a_run_without_steps_says_why_nothing_is_predicted),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
