/* SPDX-License-Identifier: Apache-2.0 */
/*
 * golden_predict.c - what predict prints and draws, for forecasts that are made up here: the figures of
 * the simulator are tested elsewhere, and may change without a word changing.
 *
 * tests/golden/predict/CASE.{txt,json,svg}. LAPWING_UPDATE_GOLDEN=1 writes them anew: read the
 * difference before it is committed, and look at the figures.
 */
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

static struct lw_replay replay;
static struct lw_run run;
static struct lw_predictor predictor;

static void make_predictor(double bias_ns)
{
	replay = (struct lw_replay){.input = {.n_ranks = 4},
		.probe = LW_FIT_PROBE_CAN,
		.n_steps = 23,
		.setting = {.fusion_bytes = 128 << 20, .cycle_ns = 5000000},
		.is_setting_known = true,
		.recorded_ns = 100e6,
		.min_batch_bytes = 64 << 10,
		.max_batch_bytes = 16 << 20,
		.bias_ns = bias_ns,
		.error_frac = fabs(bias_ns) / 100e6};
	run = (struct lw_run){.size = 4, .is_closed = true};
	predictor = (struct lw_predictor){.run = &run,
		.replay = &replay,
		.recorded_ns = {100e6, 99e6, 101.5e6, LW_MEASURED, NULL}};
}

/* A forecast whose figures follow from its step time. */
static struct lw_forecast make_forecast(
	const char *model, double step_ns, double fusion_bytes, double cycle_ns, uint32_t n_ranks)
{
	struct lw_forecast forecast = {.model = lw_model_find(model),
		.whatif = LW_WHATIF_RECORDED,
		.base_ns = {100e6, 99e6, 101e6, LW_PREDICTED, NULL},
		.gain_frac = 1 - step_ns / 100e6};
	struct lw_prediction *prediction = &forecast.prediction;

	prediction->step_ns =
		(struct lw_figure){step_ns, 0.96 * step_ns, 1.05 * step_ns, LW_PREDICTED, NULL};
	prediction->fusion_bytes = fusion_bytes;
	prediction->cycle_ns = cycle_ns;
	prediction->n_ranks = n_ranks;
	prediction->n_passes = 1;
	prediction->is_recorded = n_ranks == 4 && fusion_bytes == 128 << 20 && cycle_ns == 5e6;
	prediction->error = (struct lw_prediction_error){1e6, 2e6, 0.5e6, 3e6, 0, 0, 0};
	forecast.scaling[LW_SCALING_CSF] = (struct lw_figure){0.5, 0.4, 0.6, LW_FITTED, NULL};
	forecast.scaling[LW_SCALING_OSF] = (struct lw_figure){
		0.75, NAN, NAN, LW_PREDICTED, "a closed model gives no interval"};
	forecast.scaling[LW_SCALING_OSF_F] =
		(struct lw_figure){NAN, NAN, NAN, LW_PREDICTED, LW_FIT_NO_MODEL_Q};
	return forecast;
}

static void extrapolate(struct lw_forecast *forecast)
{
	forecast->prediction.is_extrapolated = true;
	forecast->prediction.step_ns.how = LW_ASSUMED;
	forecast->prediction.step_ns.why =
		"it sends operations of sizes that this run does not hold: their cost under load is not known";
}

/* ---- comparing ---------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	assert_non_null(text);
	if (!file)
		fail_msg("%s is missing: LAPWING_UPDATE_GOLDEN=1 makes it", path);
	assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
	fclose(file);
	return text;
}

static void check(const char *got, const char *name)
{
	char path[256], *expected;

	snprintf(path, sizeof(path), "%s/tests/golden/predict/%s", LAPWING_SOURCE_DIR, name);
	if (getenv("LAPWING_UPDATE_GOLDEN")) {
		FILE *file = fopen(path, "w");

		assert_non_null(file);
		assert_true(fputs(got, file) >= 0);
		assert_int_equal(fclose(file), 0);
	}
	expected = read_file(path);
	if (strcmp(got, expected))
		fail_msg("%s differs; got:\n%s", path, got);
	free(expected);
}

static void has_at_most_79_columns(const char *text)
{
	int at = 0;

	for (; *text; text++) {
		at = *text == '\n' ? 0 : at + ((*text & 0xc0) != 0x80);
		assert_true(at <= 79);
	}
}

enum kind { TEXT = 1, JSON = 2, FIGURE = 4 };

static void compare(const struct lw_answer *answer, const char *name, unsigned int kinds)
{
	char file[64], *got;
	size_t n;

	for (unsigned int kind = TEXT; kind <= FIGURE; kind *= 2) {
		FILE *out = open_memstream(&got, &n);

		assert_non_null(out);
		if (kinds & kind & TEXT) {
			lw_answer_text(answer, out);
			if (kinds & FIGURE) {
				lw_answer_chart(answer, true, out);
				lw_answer_chart(answer, false, out);
			}
		} else if (kinds & kind & JSON) {
			assert_int_equal(lw_answer_json(answer, out), LW_OK);
		} else if (kinds & kind & FIGURE) {
			lw_answer_svg(answer, out);
		}
		fclose(out);
		snprintf(file, sizeof(file), "%s.%s", name,
			kind == TEXT   ? "txt"
			: kind == JSON ? "json"
				       : "svg");
		if (kinds & kind & TEXT)
			has_at_most_79_columns(got);
		if (kinds & kind)
			check(got, file);
		free(got);
	}
}

/* ---- cases -------------------------------------------------------------------------------------- */

static struct lw_answer make_answer(
	enum lw_question question, struct lw_forecast *forecasts, size_t n)
{
	return (struct lw_answer){.predictor = &predictor,
		.ask = {.question = question,
			.model = forecasts->model,
			.whatif = LW_WHATIF_RECORDED},
		.forecasts = forecasts,
		.n_forecasts = n};
}

static void one_setting_with_its_error_and_what_would_tell(void **state)
{
	struct lw_forecast forecast = make_forecast("hvd_cycle", 91e6, 65536, 1e6, 4);
	struct lw_answer answer = make_answer(LW_ASK_ONE, &forecast, 1);

	(void)state;
	make_predictor(-2.1e6);
	extrapolate(&forecast);
	forecast.prediction.error.sizes_ns = 1.5e6;
	forecast.whatif.bandwidth_frac = 2;
	compare(&answer, "one", TEXT | JSON);
}

static void a_model_that_is_not_corrected_shows_its_baseline(void **state)
{
	struct lw_forecast forecast = make_forecast("osf_fifo", 80e6, 65536, 1e6, 8);
	struct lw_answer answer = make_answer(LW_ASK_ONE, &forecast, 1);

	(void)state;
	make_predictor(-2.1e6);
	forecast.base_ns.value = 88e6;
	forecast.gain_frac = 1 - 80.0 / 88;
	forecast.prediction.step_ns.low = forecast.prediction.step_ns.high = NAN;
	forecast.prediction.step_ns.how = LW_ASSUMED;
	forecast.prediction.step_ns.why = "a closed model gives no interval";
	compare(&answer, "baseline", TEXT | JSON);
}

/* Nine cycle times are as many as there can be on Horovod's and the recorded one. */
static void a_grid_marks_recorded_best_and_extrapolated(void **state)
{
	static const double mib[] = {0, 1.0 / 16, 0.25, 97.65625 / 1024, 1, 128};
	static const double cycle_ms[] = {0.25, 0.5, 1, 2.5, 3.333333, 5, 10, 20, 50};
	struct lw_forecast forecasts[54];
	struct lw_answer answer;

	(void)state;
	make_predictor(1.3e6);
	for (size_t q = 0; q < 6; q++)
		for (size_t c = 0; c < 9; c++) {
			double step_ns = 92.5e6 + 2e6 * (q < 4 ? 4.0 - (double)q : 0) +
					 1e6 * fabs(cycle_ms[c] - 2.5) * (c > 7 ? 6 : 1);
			struct lw_forecast *one = &forecasts[q * 9 + c];

			*one = make_forecast(
				"hvd_cycle", step_ns, mib[q] * 1048576, cycle_ms[c] * 1e6, 4);
			if (q == 0)
				extrapolate(one);
		}
	forecasts[8].prediction.step_ns = (struct lw_figure){NAN, NAN, NAN, LW_PREDICTED, "x"};
	answer = make_answer(LW_ASK_GRID, forecasts, 54);
	answer.rows = (struct lw_grid_axis){.title = "fusion threshold", .n = 6, .recorded = 5};
	answer.columns = (struct lw_grid_axis){.title = "cycle time in ms", .n = 9, .recorded = 5};
	for (size_t q = 0; q < 6; q++)
		lw_bytes_format(mib[q] * 1048576, answer.rows.label[q]);
	for (size_t c = 0; c < 9; c++)
		snprintf(answer.columns.label[c], LW_UNIT_TEXT_BYTES, "%.4g", cycle_ms[c]);
	compare(&answer, "grid", TEXT | FIGURE);
}

static void a_scaling_curve_has_a_band_and_its_efficiency(void **state)
{
	static const uint32_t n_ranks[] = {1, 2, 4, 8, 16, 32, 64};
	struct lw_forecast forecasts[7];
	struct lw_answer answer;

	(void)state;
	make_predictor(1.3e6);
	for (size_t i = 0; i < 7; i++) {
		forecasts[i] = make_forecast(
			"hvd_cycle", 80e6 + 10e6 * (double)i, 128 << 20, 5e6, n_ranks[i]);
		if (n_ranks[i] != 4) {
			forecasts[i].prediction.step_ns.how = LW_ASSUMED;
			forecasts[i].prediction.step_ns.why =
				"other ranks are assumed to compute as the recorded ones do and to form a ring";
		}
	}
	answer = make_answer(LW_ASK_SCALING, forecasts, 7);
	compare(&answer, "scaling", TEXT | JSON | FIGURE);
}

static void all_models_stand_beside_the_measured_step(void **state)
{
	static const char *const names[] = {"hvd_cycle", "osf_fifo", "osf_paper", "csf"};
	static const double base_ns[] = {100e6, 93e6, 131.5e6, NAN};
	struct lw_forecast forecasts[4];
	struct lw_answer answer;

	(void)state;
	make_predictor(1.3e6);
	for (size_t i = 0; i < 4; i++) {
		forecasts[i] = make_forecast(names[i], base_ns[i], 128 << 20, 5e6, 4);
		forecasts[i].base_ns.value = base_ns[i];
		forecasts[i].gain_frac = 0;
	}
	answer = make_answer(LW_ASK_MODELS, forecasts, 4);
	compare(&answer, "models", TEXT | FIGURE);
	for (size_t i = 0; i < 4; i++) {
		forecasts[i] = make_forecast(names[i], 0.9 * base_ns[i], 128 << 20, 1e6, 4);
		forecasts[i].base_ns.value = base_ns[i];
		forecasts[i].gain_frac = 0.1;
	}
	compare(&answer, "models_asked", TEXT);
}

/* What is odd of the run comes with every answer, and its steps are of part of the ranks. */
static void a_run_that_is_not_whole_says_so(void **state)
{
	char missing[] =
		"2 of 6 ranks are not in the run, or recorded no operation (rank 4, 5): give the run files of all hosts";
	char lengths[] = "11 steps take about 80 ms, 12 about 150 ms";
	char advice[] = "not for predict to say";
	struct lw_diag diags[] = {
		{"load", "missing ranks", 2, missing, 0},
		{"step", LW_STEP_TWO_LENGTHS, 23, lengths, 0},
		{"advise", "no_advice", 1, advice, 0},
	};
	struct lw_rank ranks[4] = {0};
	struct lw_forecast forecast = make_forecast("hvd_cycle", 91e6, 65536, 1e6, 4);
	struct lw_answer answer = make_answer(LW_ASK_ONE, &forecast, 1);

	(void)state;
	make_predictor(-2.1e6);
	run.size = 6;
	run.n_lost = 5000;
	run.ranks.at = ranks;
	run.ranks.n = 4;
	run.diags.at = diags;
	run.diags.n = 3;
	compare(&answer, "not_whole", TEXT | JSON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_setting_with_its_error_and_what_would_tell),
		cmocka_unit_test(a_model_that_is_not_corrected_shows_its_baseline),
		cmocka_unit_test(a_grid_marks_recorded_best_and_extrapolated),
		cmocka_unit_test(a_scaling_curve_has_a_band_and_its_efficiency),
		cmocka_unit_test(all_models_stand_beside_the_measured_step),
		cmocka_unit_test(a_run_that_is_not_whole_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
