/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of ranks that have operations in groups of fewer than all: whose doing it is that somebody comes late. */
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
#include "tests/unit/gpu_run.h"

enum { N_RANKS = 4, MOST_OPS = 6, N_STEPS = 6, STEP_US = 10000, WIRE_US = 30 };
#define ALL 0xfu /* ranks, a bit each */

/* What a step does: each rank computes, and then has an allreduce with the others of its group, which all leave together. */
struct op {
	unsigned group;
	int compute_us[N_RANKS];
};

struct job {
	struct op ops[MOST_OPS]; /* ends at one without a group */
	unsigned has_trace;      /* 0 = all */
	int n_steps;             /* 0 = N_STEPS */
	int begins_us[N_RANKS];  /* later, its step, and its trace */
};

struct trace {
	FILE *file;
	int id;
};

static void write_kernel(struct trace *trace, const char *name, int stream, int start_us,
	int end_us, const char *args)
{
	trace->id++;
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":1,\"args\":{\"correlation\":%d}}"
		",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,\"tid\":%d,\"ts\":%d,\"dur\":%d,\"args\":{\"device\":0,\"context\":1,\"stream\":%d,\"correlation\":%d%s}}",
		start_us - 5, trace->id, name, stream, start_us, end_us - start_us, stream,
		trace->id, args);
}

static const char *group_args(unsigned group)
{
	static char text[256];
	char ranks[32] = "";
	int n = 0;

	for (int r = 0; r < N_RANKS; r++)
		if (group & 1u << r)
			snprintf(ranks + strlen(ranks), sizeof(ranks) - strlen(ranks), "%s%d",
				n++ ? ", " : "", r);
	snprintf(text, sizeof(text),
		",\"Collective name\":\"allreduce\",\"In msg nelems\":1048576,\"Out msg nelems\":1048576,\"Group size\":%d,\"dtype\":\"Float\",\"Process Group Name\":\"%u\",\"Process Group Ranks\":\"[%s]\"",
		n, group, ranks);
	return text;
}

/* One step from @mark_us on; @traces: one a rank, without a file: none. */
static void write_step(const struct job *job, int mark_us, struct trace *traces)
{
	int at_us[N_RANKS];

	for (int r = 0; r < N_RANKS; r++)
		at_us[r] = mark_us + 10 + job->begins_us[r];
	for (const struct op *op = job->ops; op->group; op++) {
		int end_us = 0;

		for (int r = 0; r < N_RANKS; r++) {
			int from_us = at_us[r];

			if (!(op->group & 1u << r))
				continue;
			at_us[r] += op->compute_us[r];
			end_us = at_us[r] + WIRE_US > end_us ? at_us[r] + WIRE_US : end_us;
			if (traces[r].file && op->compute_us[r])
				write_kernel(&traces[r], "gemm", 7, from_us, at_us[r], "");
		}
		for (int r = 0; r < N_RANKS; r++) {
			if (!(op->group & 1u << r))
				continue;
			if (traces[r].file)
				write_kernel(&traces[r], REDUCE, 20, at_us[r], end_us,
					group_args(op->group));
			at_us[r] = end_us;
		}
	}
}

static struct lw_analysis *analyse(const struct job *job)
{
	struct trace traces[N_RANKS] = {0};
	char input[N_RANKS][128];
	const char *paths[N_RANKS];
	int n_steps = job->n_steps ? job->n_steps : N_STEPS;
	size_t n = 0;

	for (int r = 0; r < N_RANKS; r++) {
		char name[24];

		if (job->has_trace && !(job->has_trace & 1u << r))
			continue;
		snprintf(name, sizeof(name), "groups%d.json", r);
		snprintf(input[r], sizeof(input[r]), "%s", run_fixture_path(name));
		paths[n++] = input[r];
		traces[r].file = fopen(input[r], "w");
		assert_non_null(traces[r].file);
		fprintf(traces[r].file,
			"{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d}, \"traceEvents\": [{}",
			r, N_RANKS);
		for (int s = 0; s < n_steps; s++)
			fprintf(traces[r].file,
				",{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":%d}",
				s, 1000 + s * STEP_US + job->begins_us[r],
				STEP_US - 10 - job->begins_us[r]);
	}
	for (int s = 0; s < n_steps; s++)
		write_step(job, 1000 + s * STEP_US, traces);
	for (int r = 0; r < N_RANKS; r++)
		if (traces[r].file) {
			fprintf(traces[r].file, "]}");
			assert_int_equal(fclose(traces[r].file), 0);
		}
	return gpu_run_analyse(paths, n);
}

/* Who is persistently late, as the answer, the advice and the list of JSON have it; LW_NONE: nobody. */
static int32_t late_rank(const struct lw_analysis *analysis)
{
	const char *said = strstr(gpu_run_report(analysis), "Late rank: rank ");
	const char *found = gpu_run_finding(analysis, "ranks.late");
	const struct lw_straggler *straggler;
	int32_t rank = LW_NONE, listed = LW_NONE;

	if (said)
		assert_int_equal(sscanf(said, "Late rank: rank %d", &rank), 1);
	if (*found) {
		assert_int_equal(found[5] - '0', rank);
		assert_int_equal(analysis->advice.findings.at[0].bound.rank, rank);
	} else {
		assert_int_equal(rank, LW_NONE);
	}
	lw_vec_foreach (straggler, &analysis->summary.stragglers)
		listed = straggler->is_persistent ? straggler->rank : listed;
	assert_int_equal(listed, rank);
	return rank;
}

/* Rank 3 computes 1 ms longer than all; rank 2 waits for it in their pair, then both come late to the operation of all. */
#define HYBRID(skew_us)                                                                            \
	{                                                                                          \
		{0x3, {6000, 6000}}, {0xc, {0, 0, 6000, 7000}},                                    \
		{                                                                                  \
			ALL,                                                                       \
			{                                                                          \
				10, 10, 10, 10 + (skew_us)                                         \
			}                                                                          \
		}                                                                                  \
	}

static void who_was_held_up_in_its_group_is_not_the_late_one(void **state)
{
	const int skews_us[] = {0, 3, -3};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct job job = {.ops = HYBRID(skews_us[i])};
		struct lw_analysis *analysis = analyse(&job);
		const char *text = gpu_run_report(analysis);

		assert_int_equal(late_rank(analysis), 3);
		gpu_run_says(text, "then 1.00 ms after");
		gpu_run_says(text, "it computes longer: look at its share");
		gpu_run_says(text, "Waited for, a step: rank 3 2.00 ms (2 operations)");
		gpu_run_says_not(strstr(text, "Waited for, a step:"), "(2 operations),");
		lw_analysis_close(analysis);
	}
}

/* Rank 3 is in no operation with rank 0, which waits for rank 2, which waited for rank 3. */
static void lateness_is_followed_over_groups(void **state)
{
	struct job job = {
		.ops = {{0x3, {6000, 6000}}, {0xc, {0, 0, 6000, 7000}}, {0x5, {10, 0, 10, 0}}}};
	struct lw_analysis *analysis = analyse(&job);

	(void)state;
	assert_int_equal(late_rank(analysis), 3);
	gpu_run_says(gpu_run_report(analysis), "Waited for, a step: rank 3 2.00 ms (2 operations)");
	lw_analysis_close(analysis);
}

static void late_in_groups_only_is_late_too(void **state)
{
	struct job job = {.ops = {{0x3, {2000, 2000}}, {0xc, {0, 0, 2000, 2400}},
				  {0x5, {2000, 0, 1600, 0}}, {0xa, {0, 2000, 0, 2000}}}};
	struct lw_analysis *analysis = analyse(&job);

	(void)state;
	assert_int_equal(late_rank(analysis), 3);
	gpu_run_says(gpu_run_report(analysis), "then 400 us after the first");
	/* nothing is replayed; how long a step takes is known all the same */
	assert_null(analysis->advice.replay);
	assert_true(fabs(analysis->advice.baseline_ns.value - analysis->summary.step_ns.value) < 1);
	lw_analysis_close(analysis);
}

/* A pair leaves its operation together: who comes late to the pair's next one does so by itself. */
static void who_waited_can_be_late_itself_after_that(void **state)
{
	struct job job = {.ops = {{0x3, {1000, 1500}}, {0xc, {0, 0, 1000, 1000}},
				  {0x3, {2000, 1000}}, {0xc, {0, 0, 1000, 1000}}}};
	struct lw_analysis *analysis = analyse(&job);

	(void)state;
	assert_int_equal(late_rank(analysis), 0);
	gpu_run_says(gpu_run_report(analysis),
		"Waited for, a step: rank 0 1.00 ms (1 operation), rank 1 500 us (1 operation)");
	lw_analysis_close(analysis);
}

static void of_two_that_come_together_neither_is_the_late_one(void **state)
{
	struct job job = {.ops = {{ALL, {5000, 5000, 6000, 6003}}}};
	struct lw_analysis *analysis = analyse(&job);

	(void)state;
	assert_int_equal(late_rank(analysis), LW_NONE);
	gpu_run_says(gpu_run_report(analysis),
		"Waited for, a step: rank 2 1.00 ms (1 operation), rank 3 1.00 ms (1 operation)");
	lw_analysis_close(analysis);

	job.ops[0].compute_us[3] = 6010;
	analysis = analyse(&job);
	assert_int_equal(late_rank(analysis), 3);
	lw_analysis_close(analysis);
}

/* Rank 3, whom all wait for, was not recorded: of the others rank 2 came last. */
static void who_is_missing_may_be_the_one_that_all_wait_for(void **state)
{
	struct job job = {
		.ops = {{ALL, {5000, 5000, 6000, 8000}}, {0x3, {100, 1100}}}, .has_trace = 0x7};
	struct lw_analysis *analysis = analyse(&job);

	(void)state;
	assert_int_equal(analysis->run->n_missing_ranks, 1);
	gpu_run_says(gpu_run_report(analysis),
		"Late rank: not known: 1 of the job's 4 ranks is not in the run, and may be what all wait for.");
	gpu_run_says_not(gpu_run_report(analysis), "Late rank: rank");
	gpu_run_says(gpu_run_finding(analysis, "ranks.late"), "1 of the job's 4 ranks is not in");
	gpu_run_says(analysis->brief.late, "1 of the job's 4 ranks is not in");
	lw_analysis_close(analysis);
}

/* Each rank takes 5.00 ms to the operation; rank 3 began 2 ms after the others, for whatever reason there was before that. */
static void who_began_late_is_not_told_to_look_at_its_step(void **state)
{
	struct job job = {.ops = {{ALL, {5000, 5100, 4900, 5000}}, {ALL, {1000, 1000, 1000, 1000}}},
		.n_steps = 1,
		.begins_us = {0, 0, 0, 2000}};
	struct lw_analysis *analysis = analyse(&job);
	const char *text = gpu_run_report(analysis);

	(void)state;
	gpu_run_says(text, "Late rank: rank 3 comes last to an operation in the one step that");
	gpu_run_says(text,
		"from where its step begins it takes 5.00 ms to the first operation, the others 4.90 ms to 5.10 ms: it began late, before what was recorded.");
	gpu_run_says_not(text, "look at its host");
	gpu_run_says(
		text, "(of 1 step; what was recorded of it is 7.98 ms to 9.98 ms long, by rank)");
	lw_analysis_close(analysis);

	/* its first operation takes it as much longer: it is in the step */
	job.begins_us[3] = 0;
	job.ops[0].compute_us[3] = 7000;
	analysis = analyse(&job);
	text = gpu_run_report(analysis);
	gpu_run_says(text, "Late rank: rank 3 comes last");
	gpu_run_says_not(text, "it began late");
	gpu_run_says_not(text, "what was recorded of it");
	lw_analysis_close(analysis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_was_held_up_in_its_group_is_not_the_late_one),
		cmocka_unit_test(lateness_is_followed_over_groups),
		cmocka_unit_test(late_in_groups_only_is_late_too),
		cmocka_unit_test(who_waited_can_be_late_itself_after_that),
		cmocka_unit_test(of_two_that_come_together_neither_is_the_late_one),
		cmocka_unit_test(who_began_late_is_not_told_to_look_at_its_step),
		cmocka_unit_test(who_is_missing_may_be_the_one_that_all_wait_for),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
