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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_stored_is_read_back),
		cmocka_unit_test(of_other_files_nothing_is_read_back),
		cmocka_unit_test(the_parts_of_exposed_time_add_up_and_entry_is_agreeing),
		cmocka_unit_test(a_run_that_is_still_written_gets_no_results),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
