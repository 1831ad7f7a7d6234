/* SPDX-License-Identifier: Apache-2.0 */
/* A figure of `report --json` that is not known has a row in "diag" that says why, in whatever run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <yajl/yajl_tree.h>

#include "analyzer/emit/report.h"
#include "tests/lib/make_gpu.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/kineto_job.h"

static size_t n_nulls;

static yajl_val member(yajl_val object, const char *key)
{
	const char *path[] = {key, NULL};

	return yajl_tree_get(object, path, yajl_t_any);
}

/* "gpu.ranks.sync_lost_ns: why", or "....low and .high: why". */
static bool has_reason(yajl_val diags, const char *path)
{
	for (size_t i = 0; i < diags->u.array.len; i++) {
		const char *kind = YAJL_GET_STRING(member(diags->u.array.values[i], "kind"));
		const char *text = YAJL_GET_STRING(member(diags->u.array.values[i], "text"));
		size_t n = strlen(path);

		if (!strcmp(kind, "not known") && !strncmp(text, path, n) &&
			(!strncmp(text + n, ": ", 2) || !strncmp(text + n, ".low", 4)) &&
			strlen(text) > n + 10)
			return true;
	}
	return false;
}

static void walk(yajl_val value, const char *path, yajl_val diags)
{
	char inner[256];

	if (YAJL_IS_ARRAY(value))
		for (size_t i = 0; i < value->u.array.len; i++)
			walk(value->u.array.values[i], path, diags);
	if (!YAJL_IS_OBJECT(value))
		return;
	if (member(value, "how") && member(value, "value")) {
		bool is_null = YAJL_IS_NULL(member(value, "value"));

		n_nulls += is_null;
		if ((is_null || YAJL_IS_NULL(member(value, "low"))) && !has_reason(diags, path))
			fail_msg("%s is null, and nothing says why", path);
		return;
	}
	for (size_t i = 0; i < value->u.object.len; i++) {
		snprintf(inner, sizeof(inner), "%s%s%s", path, *path ? "." : "",
			value->u.object.keys[i]);
		if (!strncmp(inner, "run.", 4))
			memmove(inner, inner + 4, strlen(inner + 4) + 1);
		walk(value->u.object.values[i], strcmp(inner, "run") ? inner : "", diags);
	}
}

static void check(struct lw_analysis *analysis)
{
	char *text = NULL, why[200] = "";
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	yajl_val report;

	assert_int_equal(lw_report_json(analysis, out), LW_OK);
	fclose(out);
	report = yajl_tree_parse(text, why, sizeof(why));
	if (!report)
		fail_msg("%s", why);
	walk(report, "", member(report, "diag"));
	yajl_tree_free(report);
	free(text);
	lw_analysis_close(analysis);
}

static void check_run(const struct make_run *spec)
{
	const struct lw_analysis_options options = {.is_read_only = true};
	char run[128];
	const char *path = run;
	struct lw_analysis *analysis;

	snprintf(run, sizeof(run), "%s", run_fixture_path("run.lapwing"));
	make_run_write(run, spec);
	assert_int_equal(lw_analysis_open(&path, 1, &options, &analysis), LW_OK);
	check(analysis);
}

static void of_jobs_of_frameworks(void **state)
{
	struct make_run spec = make_run_job(2, 6);

	(void)state;
	check_run(&spec);
	spec.n_steps = 2; /* the first is left out */
	check_run(&spec);
	spec = make_run_job(2, 6);
	spec.size = 3;
	spec.has_lost = true;
	spec.lost_rank = 1;
	spec.lost_step = 3;
	check_run(&spec);
	spec = make_run_job(2, 6);
	spec.framework = LW_FRAMEWORK_TORCH_DDP;
	spec.transport = LW_TRANSPORT_GLOO;
	spec.no_cycles = spec.no_waits = true;
	spec.extra_sql = "DELETE FROM setting";
	check_run(&spec);
	spec.extra_sql = "DELETE FROM setting; DELETE FROM ready";
	check_run(&spec);
}

static void of_programs_without_one(void **state)
{
	struct make_run spec = make_run_job(2, 6);

	(void)state;
	spec.framework = LW_FRAMEWORK_NONE;
	spec.extra_sql = "DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"
			 "DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting";
	check_run(&spec);
	spec = make_run_job(1, 1);
	spec.extra_sql = "DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"
			 "DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting;"
			 "DELETE FROM collective";
	check_run(&spec);
}

static void of_jobs_on_gpus(void **state)
{
	static char sql[MAKE_GPU_SQL_BYTES];
	static const char *const more[] = {NULL, "DELETE FROM gpu_sync; DELETE FROM launch;",
		"DELETE FROM kernel; DELETE FROM copy; DELETE FROM gpu_sync; DELETE FROM launch;",
		"UPDATE nccl_op SET flags = 32, bytes = 0;",
		"DELETE FROM kernel WHERE thread_id > 2;", MAKE_GPU_COUNTERS};

	(void)state;
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		struct make_run spec = make_run_job(2, 6);
		struct make_gpu gpu = make_gpu_job();

		spec.transport = LW_TRANSPORT_NCCL;
		gpu.stall_ns = 6000000;
		gpu.launch_ns = 50000;
		spec.extra_sql = make_gpu_sql(&gpu, more[i], sql);
		check_run(&spec);
	}
}

static void of_traces(void **state)
{
	static const struct kineto_op buckets[] = {{"allreduce", ALLREDUCE, MI, MI, 0, 100},
		{"allreduce", ALLREDUCE, MI / 2, MI / 2, 0, 0}},
				      sends[] = {{"send", ALLTOALL_NAME, MI, MI, 0, 0},
					      {"barrier", ALLREDUCE, 1, 1, 0, 0}};
	const struct kineto_job jobs[] = {{2, 6, 2, buckets, 2, .is_unsized = false},
		{2, 6, 1, buckets, 2, .is_unsized = false},
		{2, 6, 2, buckets, 2, .is_unsized = true},
		{2, 1, 2, buckets, 2, .is_unsized = false},
		{2, 6, 2, sends, 2, .is_unsized = false},
		{2, 6, 2, sends + 1, 1, .is_unsized = false}};

	(void)state;
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		check(kineto_job_analyze(&jobs[i]));
	assert_true(n_nulls > 100); /* the walk finds them */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_jobs_of_frameworks),
		cmocka_unit_test(of_programs_without_one),
		cmocka_unit_test(of_jobs_on_gpus),
		cmocka_unit_test(of_traces),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
