/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of which records of GPU work are missing: their steps do not count, and everybody is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analyzer.h"
#include "analyzer/emit/report.h"
#include "analyzer/import/import.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/gpu_run.h"

enum { N_KERNELS = 60, STEP_US = 10000, FIRST_US = 1000, LOAD_US = 3000, EVERY_US = 100 };

struct job { /* of one rank: in each step it loads for 3 ms, then launches 60 kernels in 6 ms */
	int n_steps;
	int lost_from_us, lost_to_us; /* kernels launched in between are not in the trace */
	bool without_launches;        /* nor are their launches */
	const char *extra;            /* further events */
	bool is_cut;
};

static struct lw_import_summary summary;

static void write_trace(const struct job *job, const char *path)
{
	FILE *file = fopen(path, "w");
	int id = 0;

	assert_non_null(file);
	fprintf(file,
		"{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 0, \"world_size\": 1}, \"traceEvents\": [{\"ph\":\"M\"}");
	for (int s = 0; s < job->n_steps; s++)
		fprintf(file,
			",\n{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":%d}",
			s, FIRST_US + s * STEP_US, STEP_US - 10);
	for (int s = 0; s < job->n_steps; s++)
		for (int k = 0; k < N_KERNELS; k++) {
			int at_us = FIRST_US + s * STEP_US + LOAD_US + k * EVERY_US;
			bool is_lost = at_us >= job->lost_from_us && at_us < job->lost_to_us;

			id++;
			if (!is_lost || !job->without_launches)
				fprintf(file,
					",\n{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":5,\"args\":{\"correlation\":%d}}",
					at_us, id);
			if (!is_lost)
				fprintf(file,
					",\n{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":80,\"args\":{\"device\":0,\"context\":1,\"stream\":7,\"correlation\":%d}}",
					at_us + 10, id);
		}
	fprintf(file, "%s", job->extra ? job->extra : "");
	fprintf(file, job->is_cut ? ",\n{\"ph\":\"X\",\"cat" : "]}");
	assert_int_equal(fclose(file), 0);
}

static struct lw_analysis *analyse(const struct job *job)
{
	struct lw_analysis_options options = {0};
	char input[128], output[128];
	const char *in = input, *path = output;
	struct lw_analysis *analysis;

	snprintf(input, sizeof(input), "%s", run_fixture_path("rank0.json"));
	snprintf(output, sizeof(output), "%s", run_fixture_path("missing.lapwing"));
	write_trace(job, input);
	remove(output);
	if (lw_import(&in, 1, NULL, path, NULL, NULL, &summary) < 0 ||
		lw_analysis_open(&path, 1, &options, &analysis) < 0)
		fail_msg("%s", lw_error_text());
	return analysis;
}

static const char *report(const struct lw_analysis *analysis)
{
	static char text[16384];
	FILE *out = tmpfile();

	assert_non_null(out);
	lw_report_text(analysis, &(struct lw_report_options){.rank = LW_NONE}, out);
	rewind(out);
	text[fread(text, 1, sizeof(text) - 1, out)] = '\0';
	for (char *at = text; *at; at++)
		if (*at == '\n' && at[1] == ' ')
			memmove(at, at + 2, strlen(at + 2) + 1);
	fclose(out);
	return text;
}

static void assert_says(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("\"%s\" is not in \"%s\"", wanted, text);
}

static void assert_excluded(const struct lw_analysis *analysis, size_t step, const char *why)
{
	const char *found = analysis->run->ranks.at[0].steps.at[step].excluded;

	if (!why && found)
		fail_msg("step %zu: %s", step, found);
	if (why && (!found || !strstr(found, why)))
		fail_msg("step %zu: %s", step, found ? found : "it counts");
}

static int64_t length_us(const struct lw_analysis *analysis, size_t step)
{
	const struct lw_step *of = &analysis->run->ranks.at[0].steps.at[step];

	return (of->end_ns - of->start_ns) / 1000;
}

static void a_whole_trace_lacks_nothing(void **state)
{
	struct lw_analysis *analysis = analyse(&(struct job){.n_steps = 5});

	(void)state;
	assert_int_equal(summary.n_without_kernel, 0);
	assert_int_equal(analysis->run->ranks.at[0].gpu.launched.n, 5 * N_KERNELS);
	assert_int_equal(analysis->run->ranks.at[0].gpu.launched.n_lacking, 0);
	for (size_t s = 0; s < 4; s++) {
		assert_excluded(analysis, s, NULL);
		assert_int_equal(length_us(analysis, s), STEP_US);
	}
	assert_null(strstr(report(analysis), "missing"));
	lw_analysis_close(analysis);
}

/* The buffer was full in the middle of step 2. */
static void steps_that_lack_kernels_do_not_count(void **state)
{
	struct lw_analysis *analysis = analyse(&(struct job){.n_steps = 5,
		.lost_from_us = FIRST_US + 2 * STEP_US + LOAD_US + 3000,
		.lost_to_us = FIRST_US + 5 * STEP_US});
	const char *text = report(analysis);

	(void)state;
	assert_int_equal(summary.n_without_kernel, 150);
	assert_excluded(analysis, 0, NULL);
	/* step 3 begins where nothing is left to tell: so nobody knows when 2 ends; 1 ends with its first kernel */
	assert_excluded(analysis, 1, NULL);
	for (size_t s = 2; s < 5; s++)
		assert_excluded(analysis, s, "launches in it have no kernel");
	assert_says(text, "GPU records are missing: 150 of 300 launches of kernels have no kernel");
	assert_says(text, "A step takes 10.0 ms (middle half of 2");
	assert_says(text, "Idle GPU: for 5.20 ms of the mean 10.0 ms (52 %)");
	assert_says(text, "rank 0: 150 of 300 launches of kernels have no kernel, the first ");
	lw_analysis_close(analysis);
}

/* CUPTI began in the middle of step 2: what is left of it begins there, and step 1 ends nobody knows when. */
static void a_step_without_its_first_kernels_ends_no_other(void **state)
{
	struct lw_analysis *analysis = analyse(&(struct job){.n_steps = 6,
		.lost_from_us = FIRST_US + 2 * STEP_US,
		.lost_to_us = FIRST_US + 2 * STEP_US + LOAD_US + 3000});

	(void)state;
	assert_excluded(analysis, 0, NULL);
	assert_excluded(analysis, 1, "its end was not seen");
	assert_excluded(analysis, 2, "launches in it have no kernel");
	assert_excluded(analysis, 3, NULL);
	assert_excluded(analysis, 4, NULL);
	assert_int_equal(length_us(analysis, 3), STEP_US);
	assert_says(report(analysis), "A step takes 10.0 ms (middle half of 3");
	lw_analysis_close(analysis);
}

/* One in 60, which a step may do without, and calls that have no kernel by nature. */
static void a_single_launch_is_said_and_no_more(void **state)
{
	struct lw_analysis *analysis = analyse(&(struct job){.n_steps = 4,
		.lost_from_us = FIRST_US + STEP_US + LOAD_US + 100,
		.lost_to_us = FIRST_US + STEP_US + LOAD_US + 101,
		.extra = "," CALL("cudaLaunchCooperativeKernel", 9001, 15000, 2) "," CALL(
			"cudaGraphLaunch", 9002, 15010, 2) "," CALL("cudaMemsetAsync", 9003, 15020,
			2)});
	const char *text = report(analysis);

	(void)state;
	assert_int_equal(summary.n_without_kernel, 1);
	for (size_t s = 0; s < 3; s++)
		assert_excluded(analysis, s, NULL);
	assert_null(strstr(text, "GPU records are missing"));
	assert_says(text, "1 of 240 launches of kernels have no kernel");
	lw_analysis_close(analysis);
}

/* Of a file that is cut launches are gone as well: no step is known to be whole, and nothing is said to be idle. */
static void a_torn_trace_may_leave_no_step(void **state)
{
	struct lw_analysis *analysis = analyse(&(struct job){.n_steps = 3,
		.lost_from_us = FIRST_US + LOAD_US + 3000,
		.lost_to_us = FIRST_US + 2 * STEP_US + LOAD_US + 3000,
		.without_launches = true,
		.extra = "," CALL("cudaLaunchKernelExC", 9001, 4000, 2) "," KERNEL(
			REDUCE, 9001, 20, 4100, 50),
		.is_cut = true});
	const char *text = report(analysis);

	(void)state;
	for (size_t s = 0; s < 3; s++)
		assert_excluded(analysis, s, "records of the trace are lost");
	assert_int_equal(analysis->summary.n_steps, 0);
	assert_says(text, "Cut off: ");
	assert_says(text,
		"How long a step takes is not known: of each, records of GPU work are missing");
	assert_null(strstr(text, "A step takes"));
	assert_null(strstr(text, "Idle GPU"));
	assert_null(strstr(text, "% less"));
	lw_analysis_close(analysis);
}

/* Loading lies in front of the first kernel of a step: of the last of the window it is not seen. */
static void the_last_step_of_a_window_is_cut(void **state)
{
	struct lw_analysis *analysis = analyse(&(struct job){.n_steps = 3});

	(void)state;
	assert_int_equal(length_us(analysis, 2), STEP_US - LOAD_US - 20);
	assert_excluded(analysis, 1, NULL);
	assert_excluded(analysis, 2, "its end was not seen: the profiler's window ended first");
	assert_says(report(analysis), "A step takes 10.0 ms (middle half of 2");
	lw_analysis_close(analysis);
	analysis = analyse(&(struct job){.n_steps = 1});
	assert_excluded(analysis, 0, NULL);
	assert_says(report(analysis), "what lies between is missing from the 1 step counted");
	lw_analysis_close(analysis);
}

#define SIZED(c, ts)                                                                               \
	"," CALL("cudaLaunchKernelExC", c, ts, 2) "," EVENT("kernel", REDUCE, 20, ts, 50,          \
		"\"device\":0,\"context\":1,\"stream\":20,\"correlation\":" #c                     \
		",\"Collective name\":\"allreduce\",\"In msg nelems\":1024,\"Out msg nelems\":1024,\"dtype\":\"Float\",\"Group size\":1")
#define UNSIZED(c, ts) "," CALL("cudaLaunchKernelExC", c, ts, 2) "," KERNEL(REDUCE, c, 20, ts, 50)

static void an_operation_of_unknown_size_ends_no_run(void **state)
{
	struct lw_analysis *analysis = analyse(&(struct job){
		.n_steps = 3, .extra = SIZED(9001, 5000) SIZED(9002, 15000) UNSIZED(9003, 25000)});

	(void)state;
	assert_int_equal(analysis->run->ranks.at[0].batches.n, 3);
	assert_excluded(analysis, 2, "its end was not seen");
	lw_analysis_close(analysis);
	/* one operation fewer still tells that it was cut */
	analysis = analyse(&(struct job){.n_steps = 3,
		.extra = SIZED(9001, 5000) UNSIZED(9002, 15000) SIZED(9003, 15500)
			SIZED(9004, 25000)});
	assert_excluded(analysis, 2, "incomplete: the run ended inside it");
	lw_analysis_close(analysis);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_trace_lacks_nothing),
		cmocka_unit_test(steps_that_lack_kernels_do_not_count),
		cmocka_unit_test(a_step_without_its_first_kernels_ends_no_other),
		cmocka_unit_test(a_single_launch_is_said_and_no_more),
		cmocka_unit_test(a_torn_trace_may_leave_no_step),
		cmocka_unit_test(the_last_step_of_a_window_is_cut),
		cmocka_unit_test(an_operation_of_unknown_size_ends_no_run),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
