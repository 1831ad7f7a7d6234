/* SPDX-License-Identifier: Apache-2.0 */
/* Of traces of two ranks without a framework: who is said to be late and why, and whose idle GPU costs anything. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analyzer.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/gpu_run.h"

/*
 * A step of 10 ms, in us from its mark: a kernel of 1000 from 50 on, then as many of 10 as @n_gaps says of the rank, each
 * launched when the GPU has had nothing for 285; then the allreduce, which all leave at 6050; then a kernel of 1000.
 */
struct job {
	int n_steps;
	int n_gaps[2];
	int slow_us[2]; /* the first kernel takes longer by this */
	int load_us[2]; /* a range of that length in each step, with another around it; 0: none */
	bool has_pairs; /* ranks 2 and 3 do what 0 and 1 do, in operations of their own */
};

#define ALLREDUCE_ARGS(group, first, second)                                                       \
	",\"Collective name\":\"allreduce\",\"In msg nelems\":1048576,\"Out msg nelems\":1048576," \
	"\"Group size\":2,\"dtype\":\"Float\",\"Process Group Name\":\"" #group                    \
	"\",\"Process Group Ranks\":\"[" #first ", " #second "]\""

#define RANGE(name, ts, dur)                                                                       \
	",{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"" name                              \
	"\",\"pid\":1,\"tid\":1,\"ts\":" ts ",\"dur\":" dur "}"

/* A kernel, and the call that launched it. */
static void write_kernel(FILE *file, int rank, int id, const char *name, int stream,
	int launched_us, int start_us, int end_us)
{
	bool is_comm = stream != 7;

	fprintf(file,
		",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":3,\"args\":{\"correlation\":%d}}",
		launched_us, id);
	fprintf(file,
		",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"pid\":0,\"tid\":%d,\"ts\":%d,\"dur\":%d,\"args\":{\"device\":0,\"context\":1,\"stream\":%d,\"correlation\":%d%s}}",
		name, stream, start_us, end_us - start_us, stream, id,
		!is_comm   ? ""
		: rank < 2 ? ALLREDUCE_ARGS(0, 0, 1)
			   : ALLREDUCE_ARGS(1, 2, 3));
}

static void write_rank(const struct job *job, int rank, const char *path)
{
	FILE *file = fopen(path, "w");
	int id = 0;

	assert_non_null(file);
	fprintf(file,
		"{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d}, \"traceEvents\": [",
		rank, job->has_pairs ? 4 : 2);
	for (int s = 0; s < job->n_steps; s++) {
		int t = 1000 + 10000 * s, at = t + 1050 + job->slow_us[rank % 2];

		fprintf(file,
			"%s{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":9990}",
			s ? "," : "", 10 + s, t);
		if (job->load_us[rank % 2])
			fprintf(file, RANGE("load", "%d", "%d") RANGE("get_batch", "%d", "%d"),
				t + 5, job->load_us[rank % 2], t + 5, job->load_us[rank % 2] + 800);
		write_kernel(file, rank, ++id, "gemm", 7, t + 10, t + 50, at);
		for (int i = 0; i < job->n_gaps[rank % 2]; i++, at += 295)
			write_kernel(file, rank, ++id, "small", 7, at + 280, at + 285, at + 295);
		write_kernel(file, rank, ++id, REDUCE, 20, at - 20, at, t + 6050);
		write_kernel(file, rank, ++id, "gemm", 7, at - 10, t + 6050, t + 7050);
	}
	fprintf(file, "]}");
	assert_int_equal(fclose(file), 0);
}

static struct lw_analysis *analyse(const struct job *job)
{
	char input[4][128];
	const char *paths[] = {input[0], input[1], input[2], input[3]};

	for (int r = 0; r < (job->has_pairs ? 4 : 2); r++) {
		char name[24];

		snprintf(name, sizeof(name), "late%d.json", r);
		snprintf(input[r], sizeof(input[r]), "%s", run_fixture_path(name));
		write_rank(job, r, input[r]);
	}
	return gpu_run_analyse(paths, job->has_pairs ? 4 : 2);
}

/* Rank 1 comes 6 x 295 us later; 1.71 ms of that its GPU had nothing. Rank 0 waits, and idled 4 x 285 us before. */
static void the_rank_that_is_waited_for_is_the_one_to_mend(void **state)
{
	struct job job = {.n_steps = 6, .n_gaps = {4, 10}};
	struct lw_analysis *analysis = analyse(&job);
	const char *text = gpu_run_finding(analysis, "gpu.idle");

	(void)state;
	gpu_run_says(text, "the GPU of rank 1 waits for the host to launch: 10 times a step");
	gpu_run_says(text, "285 us on average");
	gpu_run_says(text, "2.85 ms in all");
	/* 12 that compute: 2 of 1 ms, 10 of 10 us; the allreduce does not count */
	gpu_run_says(text, "kernels that compute take 175 us each, 12 a step");
	gpu_run_says(text, "at most 28.5 % less; 2 of 2 ranks idle so");
	lw_analysis_close(analysis);

	/* both come at once: whoever it is, it is said once */
	job.n_gaps[0] = 10;
	analysis = analyse(&job);
	gpu_run_says(gpu_run_finding(analysis, "gpu.idle"), "at most 28.5 % less");
	assert_string_equal(gpu_run_finding(analysis, "ranks.late"), "");
	lw_analysis_close(analysis);
}

static void idle_time_of_who_waits_for_others_costs_nothing(void **state)
{
	struct job job = {.n_steps = 6, .n_gaps = {4, 0}, .slow_us = {0, 3000}};
	struct lw_analysis *analysis = analyse(&job);

	(void)state;
	assert_string_equal(gpu_run_finding(analysis, "gpu.idle"), "");
	/* 3000 less 4 x 295; 2 ms of kernels and the 3 ms more */
	gpu_run_says(gpu_run_finding(analysis, "ranks.late"),
		"rank 1 comes last to an operation in 100 % of 5 steps, then 1.82 ms after the first");
	gpu_run_says(
		gpu_run_finding(analysis, "ranks.late"), "it computes longer: look at its share");
	lw_analysis_close(analysis);
}

static void a_late_host_is_no_slow_gpu(void **state)
{
	struct job job = {.n_steps = 6, .n_gaps = {4, 10}};
	struct lw_analysis *analysis = analyse(&job);
	const char *text = gpu_run_report(analysis);

	(void)state;
	gpu_run_says(text,
		"Late rank: rank 1 comes last to an operation in 100 % of 5 steps, then 1.77 ms after the first");
	gpu_run_says(text,
		"it computes no longer, but had nothing to compute for longer: look at its host");
	gpu_run_says(text, "Waited for, a step: rank 1 1.77 ms (1 operation)");
	gpu_run_says_not(text, "computes longest");
	assert_true(analysis->summary.stragglers.at[0].is_persistent);
	/* what can be done comes before why no setting was tried, which is no matter of Horovod */
	assert_int_equal(
		strncmp(strstr(text, "To change: ") + 11, "the host is away: the GPU of", 28), 0);
	assert_string_equal(analysis->advice.findings.at[0].id, "ranks.late");
	assert_string_equal(gpu_run_finding(analysis, "horovod.fusion_cycle"), "");
	gpu_run_says(gpu_run_finding(analysis, "ddp.buckets"), "a profiler's trace holds neither");
	gpu_run_says_not(text, "neither a Horovod nor");
	/* by what name the profiler knows the steps */
	gpu_run_says(text, "step 0 is ProfilerStep#10 of the trace");
	assert_int_equal(analysis->run->ranks.at[0].steps.at[3].mark, 13);
	lw_analysis_close(analysis);
}

static void of_groups_of_fewer_ranks_it_is_said_too(void **state)
{
	struct job job = {.n_steps = 6, .n_gaps = {4, 10}, .has_pairs = true};
	struct lw_analysis *analysis = analyse(&job);

	(void)state;
	assert_int_equal(analysis->run->ranks.n, 4);
	gpu_run_says(gpu_run_report(analysis),
		"Waited for, a step: rank 1 1.77 ms (1 operation), rank 3 1.77 ms (1 operation)");
	gpu_run_says_not(gpu_run_report(analysis), "Late rank:"); /* two alike: nobody is the one */
	gpu_run_says(gpu_run_finding(analysis, "gpu.idle"), "the GPU of rank 1 waits for the host");
	lw_analysis_close(analysis);
}

/* Of two within each other the inner, that is nothing else; one that is as long on all ranks is none. */
static void a_range_that_is_longer_on_the_late_rank_is_named(void **state)
{
	struct job job = {.n_steps = 6, .n_gaps = {4, 10}, .load_us = {30, 1500}};
	struct lw_analysis *analysis = analyse(&job);
	char text[LW_LATE_RANGE_BYTES];

	(void)state;
	gpu_run_says(gpu_run_finding(analysis, "ranks.late"),
		"and its copies; its range \"load\" takes 1.50 ms a step, on no other rank more than 30.0 us");
	gpu_run_says(gpu_run_report(analysis), "mean 30.0 us on rank 0, 1.50 ms on rank 1");
	/* it is not longer by half of this, and of the other rank none is */
	assert_string_equal(lw_advise_late_range_text(analysis->run, 1, 4e6, text), "");
	assert_string_equal(lw_advise_late_range_text(analysis->run, 0, 1e6, text), "");
	lw_analysis_close(analysis);
	job.load_us[0] = 1500;
	analysis = analyse(&job);
	gpu_run_says_not(gpu_run_finding(analysis, "ranks.late"), "its range");
	gpu_run_says_not(gpu_run_report(analysis), "ms on rank 1");
	lw_analysis_close(analysis);
}

static void one_step_shows_nothing_that_persists(void **state)
{
	struct job job = {.n_steps = 1, .n_gaps = {4, 10}};
	struct lw_analysis *analysis = analyse(&job);
	const char *text = gpu_run_report(analysis);

	(void)state;
	assert_int_equal(analysis->summary.n_steps, 1);
	assert_int_equal(analysis->summary.stragglers.n, 1);
	assert_false(analysis->summary.stragglers.at[0].is_persistent);
	gpu_run_says(text, "rank 1 comes last to an operation in the one step that counts");
	gpu_run_says_not(text, "persistent");
	gpu_run_says_not(text, "100 % of");
	lw_analysis_close(analysis);
}

static void places_are_given_the_longest_first(void **state)
{
	struct job job = {.n_steps = 6, .n_gaps = {4, 10}};
	struct lw_analysis *analysis = analyse(&job);
	struct lw_idle_places places = {0};

	(void)state;
	assert_int_equal(lw_advise_adviser("gpu.idle")->places(analysis->run, &places), LW_OK);
	assert_int_equal(places.at.n, 8);
	assert_int_equal(places.at.at[0].rank, 1);
	assert_int_equal(places.at.at[0].step, 0);
	assert_int_equal(places.at.at[0].length_ns, 285000);
	assert_string_equal(places.at.at[0].next, "small");
	lw_vec_free(&places.at);
	assert_int_equal(lw_advise_adviser("gpu.host")->places(analysis->run, &places), LW_OK);
	assert_int_equal(places.at.n, 5); /* from step to step */
	assert_int_equal(places.at.at[4].length_ns, 3000000);
	lw_vec_free(&places.at);
	lw_analysis_close(analysis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rank_that_is_waited_for_is_the_one_to_mend),
		cmocka_unit_test(idle_time_of_who_waits_for_others_costs_nothing),
		cmocka_unit_test(a_late_host_is_no_slow_gpu),
		cmocka_unit_test(of_groups_of_fewer_ranks_it_is_said_too),
		cmocka_unit_test(a_range_that_is_longer_on_the_late_rank_is_named),
		cmocka_unit_test(one_step_shows_nothing_that_persists),
		cmocka_unit_test(places_are_given_the_longest_first),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
