/* SPDX-License-Identifier: Apache-2.0 */
/* A job over NCCL without kernels: the rank that proxies show to be late is in the answer, in the advice and in JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analyzer.h"
#include "analyzer/emit/late_words.h"
#include "analyzer/emit/report.h"
#include "tests/lib/make_gpu.h"
#include "tests/lib/run_fixture.h"

#define PLAIN                                                                                      \
	"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM cycle;"       \
	"DELETE FROM wait; DELETE FROM setting;"
/* Rank 1 has messages ready for rank 2, which asks for them so much later. */
#define LATE(us)                                                                                   \
	"UPDATE nccl_proxy SET peer_wait_ns = 8000 * " #us " WHERE op = 1 AND thread_id = 4;"

static struct lw_analysis *analyse(const char *more)
{
	static char sql[MAKE_GPU_SQL_BYTES], all[8192];
	struct make_run spec = make_run_job(4, 12);
	struct lw_analysis_options options = {0};
	const char *path = run_fixture_path("run.lapwing");
	struct make_gpu gpu = make_gpu_job();
	struct lw_analysis *analysis;

	snprintf(all, sizeof(all), "%s%s%s%s", MAKE_GPU_NCCL_ONLY, MAKE_GPU_RING, PLAIN, more);
	spec.transport = LW_TRANSPORT_NCCL;
	spec.extra_sql = make_gpu_sql(&gpu, all, sql);
	make_run_write(path, &spec);
	if (lw_analysis_open(&path, 1, &options, &analysis) < 0)
		fail_msg("%s", lw_error_text());
	return analysis;
}

static const char *report_of(
	const struct lw_analysis *analysis, bool is_json, char *text, size_t size)
{
	FILE *out = tmpfile();

	assert_non_null(out);
	if (is_json)
		assert_int_equal(lw_report_json(analysis, out), LW_OK);
	else
		lw_report_text(analysis, &(struct lw_report_options){.rank = LW_NONE}, out);
	rewind(out);
	text[fread(text, 1, size - 1, out)] = '\0';
	fclose(out);
	return text;
}

static void a_late_rank_is_in_the_answer(void **state)
{
	static char text[1 << 20];
	struct lw_analysis *analysis = analyse(LATE(1000));
	const struct lw_finding *first = &analysis->advice.findings.at[0];
	const char *late = "rank 2, by its GPU or its host: it had not asked for what rank 1 had";

	(void)state;
	assert_true(analysis->summary.n_steps > 1);
	assert_string_equal(first->id, "gpu.late");
	assert_int_equal(first->bound.rank, 2);
	assert_ptr_equal(strstr(first->text, late), first->text);
	report_of(analysis, false, text, sizeof(text));
	assert_non_null(strstr(text, "Late rank: rank 2, by its GPU"));
	assert_true(strstr(text, "Late rank:") < strstr(text, "To change:"));
	assert_ptr_equal(strstr(analysis->brief.late, late), analysis->brief.late);
	report_of(analysis, true, text, sizeof(text));
	assert_non_null(strstr(text, "\"late\": {"));
	assert_non_null(strstr(strstr(text, "\"late\": {"), "\"by\": \"proxies\""));
	lw_analysis_close(analysis);
}

/* It stands out in what NCCL did, and costs the step nothing to speak of. */
static void what_costs_no_good_part_of_a_step_is_not(void **state)
{
	static char text[1 << 20];
	struct lw_analysis *analysis = analyse(LATE(300));

	(void)state;
	report_of(analysis, false, text, sizeof(text));
	assert_non_null(strstr(text, "  Late: rank 2"));
	assert_null(strstr(text, "Late rank:"));
	assert_string_equal(analysis->brief.late, "");
	report_of(analysis, true, text, sizeof(text));
	assert_non_null(strstr(strstr(text, "\"late\": {"), "\"rank\": null"));
	lw_analysis_close(analysis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_rank_is_in_the_answer),
		cmocka_unit_test(what_costs_no_good_part_of_a_step_is_not),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
