/* SPDX-License-Identifier: Apache-2.0 */
/* Of traces of GPUs that wait for their hosts: what is gained at most, where the host was, and what is said of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/advise/advise.h"
#include "analyzer/analyzer.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/gpu_run.h"

enum { MAX_RANKS = 4, STEP_US = 10000 };

/* ---- traces, in us ------------------------------------------------------------------------------------ */

struct trace {
	FILE *file;
	int rank, n_ranks, id;
};

static void begin(struct trace *trace, const char *path, int rank, int n_ranks)
{
	*trace = (struct trace){fopen(path, "w"), rank, n_ranks, 0};
	assert_non_null(trace->file);
	fprintf(trace->file,
		"{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d}, \"traceEvents\": ["
		"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"ts\":0,\"args\":{\"name\":\"python\"}}",
		rank, n_ranks);
}

static void end(struct trace *trace)
{
	fprintf(trace->file, "]}");
	assert_int_equal(fclose(trace->file), 0);
}

static void range(struct trace *trace, const char *name, int at, int us)
{
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":%d}",
		name, at, us);
}

/* Of one step, or with @s below 0 of a name alone. */
static void numbered(struct trace *trace, const char *name, int s, int at, int us)
{
	char text[64];

	snprintf(text, sizeof(text), "%s%d", name, s);
	range(trace, text, at, us);
}

static void call(struct trace *trace, const char *name, int at, int us)
{
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":%d,\"args\":{\"correlation\":%d}}",
		name, at, us, ++trace->id);
}

static void kernel(struct trace *trace, int launched, int at, int us)
{
	call(trace, "cudaLaunchKernel", launched, 3);
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":%d,\"args\":{\"device\":0,\"context\":1,\"stream\":7,\"correlation\":%d}}",
		at, us, trace->id);
}

static void copy(struct trace *trace, int called, int at, int us)
{
	call(trace, "cudaMemcpy", called, at + us + 5 - called);
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD (Pageable -> Device)\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":%d,\"args\":{\"device\":0,\"context\":1,\"stream\":7,\"bytes\":1048576,\"correlation\":%d}}",
		at, us, trace->id);
}

/* Of the pair of ranks that this one is of. */
static void allreduce(struct trace *trace, int launched, int at, int us)
{
	int pair = trace->rank / 2;

	call(trace, "cudaLaunchKernel", launched, 3);
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" REDUCE
		"\",\"pid\":0,\"tid\":20,\"ts\":%d,\"dur\":%d,\"args\":{\"device\":0,\"context\":1,\"stream\":20,\"correlation\":%d,"
		"\"Collective name\":\"allreduce\",\"In msg nelems\":1048576,\"Out msg nelems\":1048576,\"Group size\":2,\"dtype\":\"Float\","
		"\"Process Group Name\":\"%d\",\"Process Group Ranks\":\"[%d, %d]\"}}",
		at, us, trace->id, pair, 2 * pair, 2 * pair + 1);
}

/* ---- what is said of them ------------------------------------------------------------------------------ */

static struct lw_analysis *analysis;

static void check_bounds(void)
{
	const struct lw_finding *finding;

	lw_vec_foreach (finding, &analysis->advice.findings)
		if (finding->bound.most_frac > 1)
			fail_msg("%s gains %f", finding->id, finding->bound.most_frac);
}

/* Of a trace of each rank, which @write makes. */
static void analyse(int n_ranks, void (*write)(struct trace *trace))
{
	struct lw_analysis_options options = {0};
	char input[MAX_RANKS][128];
	const char *paths[MAX_RANKS], *path;

	if (analysis)
		lw_analysis_close(analysis);
	for (int r = 0; r < n_ranks; r++) {
		struct trace trace;
		char name[24];

		snprintf(name, sizeof(name), "idle%d.json", r);
		snprintf(input[r], sizeof(input[r]), "%s", run_fixture_path(name));
		paths[r] = input[r];
		begin(&trace, input[r], r, n_ranks);
		write(&trace);
		end(&trace);
	}
	lw_run_free(gpu_run_import(paths, (size_t)n_ranks));
	path = run_fixture_path("imported.lapwing");
	if (lw_analysis_open(&path, 1, &options, &analysis) < 0)
		fail_msg("%s", lw_error_text());
	check_bounds();
}

static int close_last(void **state)
{
	if (analysis)
		lw_analysis_close(analysis);
	analysis = NULL;
	return run_fixture_remove(state);
}

static const struct lw_finding *found(const char *id)
{
	static const struct lw_finding none = {.text = ""};
	const struct lw_finding *finding;

	lw_vec_foreach (finding, &analysis->advice.findings)
		if (!strcmp(finding->id, id))
			return finding;
	return &none;
}

static void assert_says(const char *id, const char *wanted)
{
	if (!strstr(found(id)->text, wanted))
		fail_msg("\"%s\" is not in \"%s\"", wanted, found(id)->text);
}

static void assert_says_not(const char *id, const char *unwanted)
{
	if (strstr(found(id)->text, unwanted))
		fail_msg("\"%s\" is in \"%s\"", unwanted, found(id)->text);
}

/* ---- gains -------------------------------------------------------------------------------------------- */

/* A step of 10 ms: 6 of kernels, an allreduce of 1.5 ms, and nothing for 2.5 ms. */
static void write_pairs(struct trace *trace)
{
	for (int s = 0; s < 12; s++) {
		int at = 1000 + STEP_US * s;

		numbered(trace, "ProfilerStep#", s, at, STEP_US - 10);
		for (int i = 0; i < 6; i++)
			kernel(trace, at + i, at + 10 + 1000 * i, 1000);
		allreduce(trace, at + 30, at + 6010, 1490);
	}
}

static void groups_that_run_side_by_side_gain_what_one_of_them_does(void **state)
{
	double one_frac;

	(void)state;
	analyse(2, write_pairs);
	one_frac = found("gpu.host")->bound.most_frac;
	assert_true(one_frac > 0.2 && one_frac < 0.25);
	analyse(4, write_pairs);
	assert_int_equal(analysis->run->ranks.n, 4);
	assert_true(fabs(found("gpu.host")->bound.most_frac - one_frac) < 1e-9);
}

/* Each rank in turn is away for 3 ms before the allreduce of its step. */
static void write_turns(struct trace *trace)
{
	for (int s = 0; s < 12; s++) {
		int at = 1000 + STEP_US * s, late = s % 2 == trace->rank ? 3000 : 0;

		numbered(trace, "ProfilerStep#", s, at, STEP_US - 10);
		kernel(trace, at, at + 10, 1000);
		kernel(trace, at + 1000 + late, at + 1010 + late, 1000);
		allreduce(trace, at + 1010 + late, at + 2010 + late, 4000 - late);
		for (int i = 0; i < 4; i++)
			kernel(trace, at + 5000, at + 6010 + 990 * i, 990);
	}
}

static void what_ranks_gain_in_turn_adds_up_and_is_said(void **state)
{
	(void)state;
	analyse(2, write_turns);
	assert_says("gpu.host",
		"at most 30.0 % less, added up over the ranks that come last in turn: 3 ms of 10.0 ms");
}

/* No step is marked: a second of copies, each of which its call waits for, with pauses; then kernels without one. */
static void write_load_then_compute(struct trace *trace)
{
	int at = 1000;

	for (int i = 0; i < 20; i++, at += 50000)
		copy(trace, at, at + 10, i % 2 ? 100 : 30000);
	for (int i = 0; i < 200; i++)
		kernel(trace, at + i, at + 10 + 1000 * i, 1000);
	at += 200000;
	copy(trace, at + 20000, at + 20010, 30000);
}

static void without_steps_nothing_counts_before_the_first_kernel_and_after_the_last(void **state)
{
	(void)state;
	analyse(2, write_load_then_compute);
	assert_int_equal(analysis->summary.n_steps, 0);
	assert_says_not("gpu.host", "a");
	assert_says_not("gpu.idle", "a");
	assert_says_not("gpu.copies", "a");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_that_run_side_by_side_gain_what_one_of_them_does),
		cmocka_unit_test(what_ranks_gain_in_turn_adds_up_and_is_said),
		cmocka_unit_test(
			without_steps_nothing_counts_before_the_first_kernel_and_after_the_last),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, close_last);
}
