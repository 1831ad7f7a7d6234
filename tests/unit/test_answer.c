/* SPDX-License-Identifier: Apache-2.0 */
/* test_answer.c - which settings a question asks for, and figures that agree with each other. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/answer.h"
#include "tests/lib/run_fixture.h"

struct fixture {
	struct lw_run *run;
	struct lw_predictor *predictor;
	struct lw_answer answer;
};

static void open_job(struct fixture *f, int n_ranks, int framework)
{
	struct make_run spec = make_run_job(n_ranks, 8);

	if (framework)
		spec.framework = framework;
	f->run = run_fixture_analyze(&spec);
	assert_int_equal(lw_predictor_new(f->run, &f->predictor), LW_OK);
}

static void ask(struct fixture *f, enum lw_question question, uint32_t n_ranks)
{
	size_t n_models;
	struct lw_ask one = {
		.question = question, .model = lw_models(&n_models), .whatif = LW_WHATIF_RECORDED};

	one.whatif.n_ranks = n_ranks;
	assert_int_equal(lw_answer(f->predictor, &one, &f->answer), LW_OK);
}

static void close_job(struct fixture *f)
{
	lw_answer_done(&f->answer);
	lw_predictor_free(f->predictor);
	lw_run_free(f->run);
}

static void check_ranks(struct fixture *f, uint32_t last, const uint32_t *expected, size_t n)
{
	ask(f, LW_ASK_SCALING, last);
	assert_int_equal(f->answer.n_forecasts, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(f->answer.forecasts[i].prediction.n_ranks, expected[i]);
	lw_answer_done(&f->answer);
	f->answer = (struct lw_answer){0};
}

static void a_curve_holds_powers_of_two_and_the_recorded_ranks(void **state)
{
	static const uint32_t to_64[] = {1, 2, 3, 4, 8, 16, 32, 64}, two[] = {1, 2, 4, 8};
	static const uint32_t to_7[] = {1, 2, 3, 4, 7};
	struct fixture f = {0};

	(void)state;
	open_job(&f, 3, 0);
	check_ranks(&f, 0, to_64, 8);
	check_ranks(&f, 3, to_64, 3);
	check_ranks(&f, 2, to_64, 2);
	check_ranks(&f, 7, to_7, 5);
	check_ranks(&f, 1, to_64, 1);
	close_job(&f);
	f = (struct fixture){0};
	open_job(&f, 2, 0);
	check_ranks(&f, 8, two, 4);
	close_job(&f);
}

static void efficiency_is_one_rank_over_n_and_lies_in_its_band(void **state)
{
	struct fixture f = {0};

	(void)state;
	open_job(&f, 2, 0);
	ask(&f, LW_ASK_SCALING, 16);
	for (size_t i = 0; i < f.answer.n_forecasts; i++) {
		const struct lw_forecast *one = &f.answer.forecasts[i];
		struct lw_figure efficiency = lw_answer_efficiency(&f.answer, one);
		double expected = f.answer.forecasts[0].prediction.step_ns.value /
				  one->prediction.step_ns.value;

		assert_true(fabs(efficiency.value - expected) < 1e-12);
		assert_true(efficiency.low <= efficiency.value);
		assert_true(efficiency.value <= efficiency.high && efficiency.high <= 1);
	}
	assert_true(lw_answer_efficiency(&f.answer, &f.answer.forecasts[4]).value < 1);
	close_job(&f);
}

static void the_recorded_setting_is_one_cell_and_is_what_was_measured(void **state)
{
	const struct lw_forecast *best;
	struct fixture f = {0};
	size_t n_recorded = 0;

	(void)state;
	open_job(&f, 3, 0);
	ask(&f, LW_ASK_GRID, 0);
	assert_int_equal(f.answer.n_forecasts, f.answer.rows.n * f.answer.columns.n);
	best = lw_answer_best(&f.answer);
	for (size_t i = 0; i < f.answer.n_forecasts; i++) {
		const struct lw_forecast *one = &f.answer.forecasts[i];

		if (lw_answer_is_recorded_cell(&f.answer, one)) {
			n_recorded++;
			assert_true(one->prediction.is_recorded);
			assert_true(fabs(one->prediction.step_ns.value -
					    f.predictor->recorded_ns.value) < 1);
		}
		if (!one->prediction.is_extrapolated)
			assert_true(
				one->prediction.step_ns.value >= best->prediction.step_ns.value);
	}
	assert_int_equal(n_recorded, 1);
	close_job(&f);
}

/* With other ranks no cell is the recorded setting, but its threshold and cycle time still are. */
static void a_grid_on_other_ranks_still_shows_where_the_job_stands(void **state)
{
	struct fixture f = {0};
	size_t n_recorded = 0;

	(void)state;
	open_job(&f, 2, 0);
	ask(&f, LW_ASK_GRID, 8);
	for (size_t i = 0; i < f.answer.n_forecasts; i++) {
		n_recorded += lw_answer_is_recorded_cell(&f.answer, &f.answer.forecasts[i]);
		assert_false(f.answer.forecasts[i].prediction.is_recorded);
	}
	assert_int_equal(n_recorded, 1);
	close_job(&f);
}

static void the_error_of_the_replay_is_shown_before_its_correction(void **state)
{
	const struct lw_forecast *one;
	struct fixture f = {0};

	(void)state;
	open_job(&f, 2, 0);
	ask(&f, LW_ASK_MODELS, 0);
	one = f.answer.forecasts;
	assert_true(one->model->is_corrected);
	assert_true(fabs(lw_answer_model_error(&f.answer, one) +
			    f.predictor->replay->bias_ns / f.predictor->recorded_ns.value) < 1e-9);
	for (size_t i = 1; i < f.answer.n_forecasts; i++) {
		double error = lw_answer_model_error(&f.answer, &f.answer.forecasts[i]);
		double said_ns = f.answer.forecasts[i].base_ns.value;

		assert_true(isnan(said_ns) ||
			    fabs((1 + error) * f.predictor->recorded_ns.value - said_ns) < 1);
	}
	close_job(&f);
}

static void the_interval_is_not_narrower_than_what_it_is_made_of(void **state)
{
	struct fixture f = {0};

	(void)state;
	open_job(&f, 2, 0);
	ask(&f, LW_ASK_GRID, 0);
	for (size_t i = 0; i < f.answer.n_forecasts; i++) {
		const struct lw_prediction *one = &f.answer.forecasts[i].prediction;
		double parts_ns = sqrt(pow(one->error.replay_ns, 2) + pow(one->error.costs_ns, 2) +
				       pow(one->error.settings_ns, 2));
		double adds_ns = lw_answer_replay_adds_ns(&f.answer.forecasts[i]);

		assert_true(one->step_ns.high - one->step_ns.value >= parts_ns - 1);
		assert_true(adds_ns >= 0 && adds_ns <= one->error.replay_ns + 1);
		assert_true(one->error.settings_ns > 0); /* repeats differ too */
	}
	close_job(&f);
}

static void what_is_assumed_names_the_run_that_would_tell(void **state)
{
	struct fixture f = {0};
	struct lw_forecast forecast;
	char text[LW_WOULD_TELL_BYTES];

	(void)state;
	open_job(&f, 2, 0);
	ask(&f, LW_ASK_ONE, 0);
	forecast = f.answer.forecasts[0];
	assert_string_equal(lw_answer_would_tell(&f.answer, &forecast, text), "");
	forecast.prediction.n_ranks = 8;
	assert_non_null(strstr(lw_answer_would_tell(&f.answer, &forecast, text), "8 ranks"));
	forecast.prediction.is_extrapolated = true; /* a probe of 2 ranks says nothing of 8 */
	assert_non_null(strstr(lw_answer_would_tell(&f.answer, &forecast, text), "8 ranks"));
	forecast.prediction.n_ranks = 2;
	assert_non_null(strstr(lw_answer_would_tell(&f.answer, &forecast, text), "--probe"));
	close_job(&f);
}

static void check_axis(const struct lw_grid_axis *axis, double recorded)
{
	assert_true(axis->n >= 2);
	assert_true(axis->at[axis->recorded] == recorded);
	for (size_t i = 1; i < axis->n; i++)
		assert_true(axis->at[i] > axis->at[i - 1]);
}

/* The buckets of the run stand for its gradients: what is asked is which limits are tried. */
static void a_torch_ddp_grid_is_over_limits_of_its_buckets(void **state)
{
	struct fixture f = {0};
	struct lw_ddp *ddp;

	(void)state;
	open_job(&f, 2, LW_FRAMEWORK_TORCH_DDP);
	ddp = &f.predictor->replay->ddp;
	ddp->why_fixed = NULL;
	ddp->setting.is_fixed = false;
	ddp->setting.cap_bytes = 3 << 20;
	ddp->setting.first_bytes = 1 << 20;
	ask(&f, LW_ASK_GRID, 0);
	check_axis(&f.answer.rows, 3 << 20);
	check_axis(&f.answer.columns, 1 << 20);
	for (size_t i = 0; i < f.answer.n_forecasts; i++) {
		const struct lw_prediction *one = &f.answer.forecasts[i].prediction;

		assert_true(one->bucket_cap_bytes == f.answer.rows.at[i / f.answer.columns.n]);
		assert_true(one->first_bucket_bytes == f.answer.columns.at[i % f.answer.columns.n]);
		assert_int_equal(one->is_recorded,
			lw_answer_is_recorded_cell(&f.answer, &f.answer.forecasts[i]));
	}
	close_job(&f);
}

static bool holds(const struct lw_grid_axis *axis, double value)
{
	for (size_t i = 0; i < axis->n; i++)
		if (axis->at[i] == value)
			return true;
	return false;
}

/* A loop whose rounds cost so much that the adviser tries few cycles: what can be asked for is in the grid all the same. */
static void a_grid_holds_the_usual_cycles_the_recorded_one_and_what_is_advised(void **state)
{
	static const double usual_ms[] = {0.5, 1, 2.5, 5, 10, 20, 50};
	struct lw_advice_list list = {0};
	const struct lw_forecast *best;
	struct lw_advice advice = {.kind = LW_ADVICE_SET, .whatif = LW_WHATIF_RECORDED};
	struct fixture f = {0};
	size_t n_models, n_short = 0;
	struct lw_ask one = {.question = LW_ASK_GRID,
		.model = lw_models(&n_models),
		.whatif = LW_WHATIF_RECORDED,
		.advice = &list};

	(void)state;
	open_job(&f, 2, 0);
	f.predictor->replay->cost.round_ns = 2e6; /* 8 of them: 16 ms */
	f.predictor->replay->setting.cycle_ns = 50000000;
	advice.whatif.fusion_bytes = 3 << 20;
	advice.whatif.cycle_ns = 7.1e6;
	assert_int_equal(lw_vec_push(&list.advice, advice), LW_OK);
	assert_int_equal(lw_answer(f.predictor, &one, &f.answer), LW_OK);
	for (size_t i = 0; i < sizeof(usual_ms) / sizeof(usual_ms[0]); i++)
		assert_true(holds(&f.answer.columns, usual_ms[i] * 1e6));
	assert_true(holds(&f.answer.columns, 7.1e6));
	assert_true(holds(&f.answer.rows, 3 << 20));
	assert_true(f.answer.columns.at[f.answer.columns.recorded] == 50e6);
	best = lw_answer_best(&f.answer);
	assert_true(best->whatif.fusion_bytes == 3 << 20 && best->whatif.cycle_ns == 7.1e6);
	assert_false(lw_answer_is_short(&f.answer, best));
	for (size_t i = 0; i < f.answer.n_forecasts; i++)
		n_short += lw_answer_is_short(&f.answer, &f.answer.forecasts[i]);
	assert_int_equal(n_short, 6 * f.answer.rows.n - 1); /* 0.5 to 10 and 7.1 ms */
	lw_answer_done(&f.answer);
	one.whatif.bandwidth_frac = 2; /* advice is of another network */
	assert_int_equal(lw_answer(f.predictor, &one, &f.answer), LW_OK);
	assert_false(f.answer.is_advised);
	assert_false(lw_answer_is_short(&f.answer, lw_answer_best(&f.answer)));
	lw_vec_free(&list.advice);
	close_job(&f);
}

/* A threshold that holds a whole step sends what a larger one sends. */
static void a_setting_that_sends_the_same_is_as_known_as_the_recorded_one(void **state)
{
	struct lw_forecast *recorded, *other;
	struct fixture f = {0};
	size_t at;

	(void)state;
	open_job(&f, 2, 0);
	ask(&f, LW_ASK_GRID, 0);
	at = f.answer.rows.recorded * f.answer.columns.n + f.answer.columns.recorded;
	recorded = other = &f.answer.forecasts[at];
	assert_int_equal(lw_answer_mark(&f.answer, recorded), 'r');
	for (size_t i = f.answer.columns.recorded; i < f.answer.n_forecasts;
		i += f.answer.columns.n)
		if (i != at &&
			lw_answer_is_same(&f.answer.forecasts[i].prediction, &recorded->prediction))
			other = &f.answer.forecasts[i];
	assert_ptr_not_equal(other, recorded);
	other->prediction.is_extrapolated = true;
	assert_int_equal(lw_answer_mark(&f.answer, other), '=');
	assert_false(lw_answer_is_extrapolated(&f.answer, other));
	other->prediction.totals.n_batches++;
	assert_int_equal(lw_answer_mark(&f.answer, other), 'x');
	close_job(&f);
}

static void a_torch_ddp_job_whose_buckets_are_fixed_has_no_grid(void **state)
{
	struct fixture f = {0};
	size_t n_models;
	const struct lw_ask one = {.question = LW_ASK_GRID,
		.model = lw_models(&n_models),
		.whatif = LW_WHATIF_RECORDED};

	(void)state;
	open_job(&f, 2, LW_FRAMEWORK_TORCH_DDP);
	assert_int_equal(lw_answer(f.predictor, &one, &f.answer), LW_ERR_UNSUPPORTED);
	close_job(&f);
}

static void a_grid_made_one_by_one_is_the_grid_made_at_once(void **state)
{
	struct fixture f = {0};
	struct lw_answer answer;

	(void)state;
	open_job(&f, 3, 0);
	ask(&f, LW_ASK_GRID, 0);
	assert_int_equal(lw_answer_begin(f.predictor, &f.answer.ask, &answer), LW_OK);
	assert_int_equal(answer.n_forecasts, f.answer.n_forecasts);
	assert_null(lw_answer_best(&answer));
	for (size_t i = answer.n_forecasts; i-- > 0;) {
		assert_false(lw_answer_is_made(&answer, i));
		assert_int_equal(lw_answer_one(&answer, i), LW_OK);
		assert_true(lw_answer_is_made(&answer, i));
		assert_true(answer.forecasts[i].prediction.step_ns.value ==
			    f.answer.forecasts[i].prediction.step_ns.value);
	}
	assert_int_equal(lw_answer_best(&answer) - answer.forecasts,
		lw_answer_best(&f.answer) - f.answer.forecasts);
	lw_answer_done(&answer);
	close_job(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_grid_made_one_by_one_is_the_grid_made_at_once),
		cmocka_unit_test(a_curve_holds_powers_of_two_and_the_recorded_ranks),
		cmocka_unit_test(efficiency_is_one_rank_over_n_and_lies_in_its_band),
		cmocka_unit_test(the_recorded_setting_is_one_cell_and_is_what_was_measured),
		cmocka_unit_test(a_grid_on_other_ranks_still_shows_where_the_job_stands),
		cmocka_unit_test(the_error_of_the_replay_is_shown_before_its_correction),
		cmocka_unit_test(the_interval_is_not_narrower_than_what_it_is_made_of),
		cmocka_unit_test(what_is_assumed_names_the_run_that_would_tell),
		cmocka_unit_test(
			a_grid_holds_the_usual_cycles_the_recorded_one_and_what_is_advised),
		cmocka_unit_test(a_setting_that_sends_the_same_is_as_known_as_the_recorded_one),
		cmocka_unit_test(a_torch_ddp_grid_is_over_limits_of_its_buckets),
		cmocka_unit_test(a_torch_ddp_job_whose_buckets_are_fixed_has_no_grid),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
