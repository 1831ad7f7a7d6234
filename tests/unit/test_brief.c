/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analyzer.h"
#include "tests/lib/run_fixture.h"
#include "tui/overview_words.h"

static struct lw_analysis *analyse(const struct make_run *spec, const char **path)
{
	struct lw_analysis_options options = {0};
	struct lw_analysis *analysis;

	*path = run_fixture_path("run.lapwing");
	make_run_write(*path, spec);
	assert_int_equal(lw_analysis_open(path, 1, &options, &analysis), LW_OK);
	return analysis;
}

static void assert_same(struct lw_figure a, struct lw_figure b)
{
	const double values[][2] = {{a.value, b.value}, {a.low, b.low}, {a.high, b.high}};

	for (int i = 0; i < 3; i++)
		assert_true(values[i][0] == values[i][1] ||
			    (values[i][0] != values[i][0] && values[i][1] != values[i][1]));
	assert_int_equal(a.how, b.how);
	assert_string_equal(a.why ? a.why : "", b.why ? b.why : "");
}

static void what_was_stored_is_read_back(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct lw_analysis *analysis;
	struct lw_brief brief;
	const char *path;

	(void)state;
	spec.late_ns[2] = 5000000;
	analysis = analyse(&spec, &path);
	assert_int_equal(lw_brief_load(&path, 1, &brief), LW_OK);
#define X(name) assert_same(analysis->summary.name, brief.summary.name);
	LW_SUMMARY_FIGURES(X)
#undef X
	assert_int_equal(brief.summary.ranks.n, 3);
	for (size_t r = 0; r < 3; r++) {
		assert_int_equal(
			brief.summary.ranks.at[r].rank, analysis->summary.ranks.at[r].rank);
		assert_same(
			brief.summary.ranks.at[r].step_ns, analysis->summary.ranks.at[r].step_ns);
#define X(name)                                                                                    \
	assert_same(brief.summary.ranks.at[r].name##_ns, analysis->summary.ranks.at[r].name##_ns);
		LW_RANK_FIGURES(X)
#undef X
	}
	assert_int_equal(brief.summary.stragglers.n, 1);
	assert_int_equal(brief.summary.stragglers.at[0].rank, 2);
	assert_true(brief.summary.stragglers.at[0].is_persistent);
	assert_true(brief.summary.stragglers.at[0].steps_frac == 1);
	assert_same(
		brief.summary.stragglers.at[0].late_ns, analysis->summary.stragglers.at[0].late_ns);
	assert_string_equal(brief.job, analysis->brief.job);
	assert_string_equal(brief.advice, analysis->brief.advice);
	assert_true(brief.is_closed);
	assert_true(brief.is_size_known);
	assert_true(analysis->brief.n_advice > 0);
	assert_int_equal(brief.n_advice, analysis->brief.n_advice);
	assert_int_equal(brief.is_advised, analysis->brief.is_advised);
	assert_int_equal(brief.n_steps, 7);
	for (size_t s = 0; s < 7; s++)
		assert_true(brief.step_ns[s] == analysis->brief.step_ns[s]);
	lw_brief_done(&brief);
	lw_analysis_close(analysis);
}

static void of_other_files_nothing_is_read_back(void **state)
{
	struct make_run spec = make_run_job(2, 5);
	const char *path, *paths[2];
	struct lw_brief brief;

	(void)state;
	lw_analysis_close(analyse(&spec, &path));
	paths[0] = paths[1] = path;
	assert_int_equal(lw_brief_load(paths, 2, &brief), LW_ERR_STATE);
	lw_brief_done(&brief);
	make_run_write(path, &spec); /* never analysed */
	assert_int_equal(lw_brief_load(paths, 1, &brief), LW_ERR_STATE);
	lw_brief_done(&brief);
	paths[0] = "/nowhere/run.lapwing";
	assert_int_equal(lw_brief_load(paths, 1, &brief), LW_ERR_IO);
	lw_brief_done(&brief);
}

static void a_run_that_is_still_written_gets_no_results(void **state)
{
	static const char *const tables[] = {
		"step", "phase", "overlap", "fit", "advice", "prediction", "diag", "summary"};
	struct make_run spec = make_run_job(2, 8);
	struct lw_store *store;
	const char *path;

	(void)state;
	spec.is_open = true;
	lw_analysis_close(analyse(&spec, &path));
	assert_int_equal(lw_store_open(path, LW_STORE_READ, &store), LW_OK);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		char sql[64];
		int64_t n = -1;

		snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", tables[i]);
		assert_int_equal(lw_store_int(store, sql, &n), LW_OK);
		if (n)
			fail_msg("%d rows in table %s", (int)n, tables[i]);
	}
	lw_store_close(store);
}

/* What report and overview both show: parts of the exposed time, entry with agreeing. */
static void the_parts_of_exposed_time_add_up_and_entry_is_agreeing(void **state)
{
	struct make_run spec = make_run_job(3, 8);
	struct lw_analysis *analysis;
	const struct lw_summary *summary;
	double mean_agree_ns = 0;
	const char *path;

	(void)state;
	spec.late_ns[2] = 5000000;
	/* ranks 0 and 1 are in the last collective while rank 2 is not yet */
	spec.extra_sql = "UPDATE collective SET start_ns = start_ns + 1000000"
			 " WHERE thread_id > 4 AND end_ns - start_ns > 2000000";
	analysis = analyse(&spec, &path);
	summary = &analysis->summary;
	assert_true(summary->ranks.at[0].exposed_entry_ns.value > 0);
	for (size_t r = 0; r < 3; r++) {
		const struct lw_rank_summary *rank = &summary->ranks.at[r];
		struct lw_exposed exposed = lw_summary_exposed(summary, rank);
		double sum_ns = 0;

		for (int i = LW_EXPOSED_AGREE; i <= LW_EXPOSED_MISC; i++)
			sum_ns += exposed.part_ns[i];
		assert_true(fabs(sum_ns - rank->exposed_ns.value) < 1);
		assert_true(
			fabs(exposed.part_ns[LW_EXPOSED_AGREE] - rank->exposed_negotiate_ns.value -
				rank->exposed_entry_ns.value) < 1);
		mean_agree_ns += exposed.part_ns[LW_EXPOSED_AGREE] / 3;
	}
	assert_true(fabs(lw_summary_exposed(summary, NULL).part_ns[LW_EXPOSED_AGREE] -
			    mean_agree_ns) < 1);
	lw_analysis_close(analysis);
}

/* One step in four takes four times as long: most steps take less than the mean. */
static void the_mean_is_of_the_same_steps_as_all_else_and_most_steps_take_another_time(void **state)
{
	struct make_run spec = make_run_job(2, 16);
	struct lw_analysis *analysis;
	struct lw_summary summary;
	double ranks_ns = 0;
	const char *path;

	(void)state;
	analysis = analyse(&spec, &path);
	for (size_t r = 0; r < 2; r++)
		for (size_t s = 0; s < analysis->run->ranks.at[r].steps.n; s += 4) {
			struct lw_step *step = &analysis->run->ranks.at[r].steps.at[s];

			step->end_ns += 3 * (step->end_ns - step->start_ns);
		}
	assert_int_equal(lw_summarize(analysis->run, NULL, 0, &summary), LW_OK);
	for (size_t r = 0; r < 2; r++)
		ranks_ns += summary.ranks.at[r].step_ns.value / 2;
	assert_true(fabs(summary.mean_step_ns.value / ranks_ns - 1) < 1e-9);
	assert_true(fabs(summary.exposed_ns.value / summary.mean_step_ns.value /
				    summary.exposed_frac.value -
			    1) < 1e-9);
	assert_true(summary.step_ns.value < 0.8 * summary.mean_step_ns.value);
	lw_summary_done(&summary);
	lw_analysis_close(analysis);
}

static struct lw_straggler straggler(int32_t rank, double steps_frac, double last_ns)
{
	return (struct lw_straggler){.rank = rank,
		.steps_frac = steps_frac,
		.last_ns = last_ns,
		.is_persistent = steps_frac >= 0.75};
}

static void nobody_is_the_slowest_where_ranks_take_turns(void **state)
{
	struct lw_summary summary = {0};
	struct lw_rank_summary rank = {0};
	char text[LW_OVERVIEW_LINE_BYTES];

	(void)state;
	for (int r = 0; r < 2; r++)
		assert_int_equal(lw_vec_push(&summary.ranks, rank), LW_OK);
	assert_string_equal(
		lw_overview_slowest(&summary, text), "Slowest rank: not known, no step was found");
	summary.n_steps = 9;
	assert_string_equal(lw_overview_slowest(&summary, text), "Slowest rank: none stands out");
	assert_int_equal(lw_vec_push(&summary.stragglers, straggler(0, 0.44, 4e6)), LW_OK);
	assert_int_equal(lw_vec_push(&summary.stragglers, straggler(1, 0.56, 2e6)), LW_OK);
	assert_string_equal(lw_overview_slowest(&summary, text),
		"Slowest rank: ranks take turns: 1 last in 56 % by 2.00 ms, 0 in 44 % by 4.00 ms");
	summary.stragglers.at[1] = straggler(1, 1, 31.8e6);
	assert_string_equal(lw_overview_slowest(&summary, text),
		"Slowest rank: 1, last in 100 % of the steps, then 31.8 ms after the first");
	summary.n_steps = 1; /* which is no share of several */
	assert_string_equal(lw_overview_slowest(&summary, text),
		"Late rank: 1, last in the one step that counts, 31.8 ms after the first");
	lw_summary_done(&summary);
}

/* In every second step by 5 ms: when it is late by all of it, not by the half that the mean of all steps says. */
static void how_late_a_rank_is_when_it_is_late(void **state)
{
	struct make_run spec = make_run_job(2, 17);
	struct lw_analysis *analysis;
	struct lw_summary summary;
	const char *path;

	(void)state;
	spec.late_ns[1] = 5000000;
	analysis = analyse(&spec, &path);
	for (size_t s = 0; s < analysis->run->ranks.at[1].steps.n; s += 2)
		analysis->run->ranks.at[1].steps.at[s].last_ready_ns -= 10000000;
	assert_int_equal(lw_summarize(analysis->run, NULL, 0, &summary), LW_OK);
	assert_int_equal(summary.stragglers.n, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct lw_straggler *late = &summary.stragglers.at[i];

		assert_false(late->is_persistent);
		assert_true(fabs(late->last_ns - 5e6) < 1e5);
		assert_true(fabs(late->steps_frac * late->last_ns - late->late_ns.value) < 1e5);
	}
	lw_summary_done(&summary);
	lw_analysis_close(analysis);
}

static void the_quality_names_ranks_that_died_or_hung(void **state)
{
	struct make_run spec = make_run_job(2, 8);
	struct lw_analysis *analysis;
	char text[LW_OVERVIEW_LINE_BYTES];
	struct lw_brief brief;
	const char *path;
	bool is_bad;

	(void)state;
	/* one of them after it had waited in vain */
	spec.extra_sql =
		"UPDATE process SET ended = 'died'; UPDATE process SET ended = 'exit', end_ns = 90000000000 WHERE id = 1;"
		"INSERT INTO ready SELECT id, 999, 10000000000, 1000, 1, 0 FROM thread WHERE role = 1 AND process_id = 1;";
	analysis = analyse(&spec, &path);
	assert_int_equal(lw_brief_load(&path, 1, &brief), LW_OK);
	assert_int_equal(brief.n_died, 1);
	assert_int_equal(brief.n_hung, 1);
	assert_non_null(
		strstr(lw_overview_quality(&brief, &is_bad, text), "1 rank DIED, 1 rank HUNG, "));
	assert_true(is_bad);
	lw_brief_done(&brief);
	lw_analysis_close(analysis);
}

static void the_advice_begins_with_what_gains_most_and_tells_what_can_be_set_apart(void **state)
{
	struct lw_advice set = {.id = "a", .title = "Threshold", .kind = LW_ADVICE_SET};
	struct lw_advice late = {.id = "b",
		.title = "If no rank were late",
		.lead = "Late rank 1: without it",
		.kind = LW_ADVICE_WHAT_IF};
	struct lw_advice wire = {.id = "c", .title = "More bandwidth", .kind = LW_ADVICE_HARDWARE};
	char text[LW_ADVICE_TEXT_BYTES];
	struct lw_advice_list list = {0};

	(void)state;
	set.gain_frac = (struct lw_figure){0.055, 0.01, 0.1, LW_PREDICTED, NULL};
	set.set[set.n_sets++] = (struct lw_advice_set){"HOROVOD_CYCLE_TIME", "1"};
	late.gain_frac = (struct lw_figure){0.77, 0.75, 0.8, LW_PREDICTED, NULL};
	wire.gain_frac = (struct lw_figure){0.9, 0.8, 0.95, LW_PREDICTED, NULL};
	assert_int_equal(lw_vec_push(&list.advice, set), LW_OK);
	assert_int_equal(lw_vec_push(&list.advice, wire), LW_OK);
	assert_int_equal(lw_vec_push(&list.advice, late), LW_OK);
	assert_string_equal(lw_advise_headline(&list, text),
		"Late rank 1: without it 77.0 % less (75.0 to 80.0); to set: HOROVOD_CYCLE_TIME=1, 5.5 % less (1.0 to 10.0)");
	assert_string_equal(lw_advise_lines(&list, text, sizeof(text)),
		"1 Threshold: 5.5 % less (1.0 to 10.0), set: HOROVOD_CYCLE_TIME=1\n"
		"2 More bandwidth: 90.0 % less (80.0 to 95.0), hardware\n"
		"3 If no rank were late: 77.0 % less (75.0 to 80.0), what-if");
	list.advice.at[0].gain_frac.value = 0.8; /* then it is what there is to say */
	assert_int_equal(
		strncmp(lw_advise_headline(&list, text), "set HOROVOD_CYCLE_TIME=1", 24), 0);
	lw_vec_free(&list.advice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_mean_is_of_the_same_steps_as_all_else_and_most_steps_take_another_time),
		cmocka_unit_test(nobody_is_the_slowest_where_ranks_take_turns),
		cmocka_unit_test(how_late_a_rank_is_when_it_is_late),
		cmocka_unit_test(the_quality_names_ranks_that_died_or_hung),
		cmocka_unit_test(
			the_advice_begins_with_what_gains_most_and_tells_what_can_be_set_apart),
		cmocka_unit_test(what_was_stored_is_read_back),
		cmocka_unit_test(of_other_files_nothing_is_read_back),
		cmocka_unit_test(the_parts_of_exposed_time_add_up_and_entry_is_agreeing),
		cmocka_unit_test(a_run_that_is_still_written_gets_no_results),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
