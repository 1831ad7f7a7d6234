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
#include "tests/unit/trace_file.h"

enum { MAX_RANKS = 4, STEP_US = 10000 };

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
		trace_begin(&trace, input[r], r, n_ranks);
		write(&trace);
		trace_end(&trace);
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

		trace_numbered(trace, "ProfilerStep#", s, at, STEP_US - 10);
		for (int i = 0; i < 6; i++)
			trace_kernel(trace, at + i, at + 10 + 1000 * i, 1000);
		trace_allreduce(trace, at + 30, at + 6010, 1490);
	}
}

static void groups_that_run_side_by_side_gain_what_one_of_them_does(void **state)
{
	double one_frac;

	(void)state;
	analyse(2, write_pairs);
	one_frac = found("gpu.host")->bound.most_frac;
	assert_true(fabs(one_frac - 0.25) < 0.005);
	analyse(4, write_pairs);
	assert_int_equal(analysis->run->ranks.n, 4);
	assert_true(fabs(found("gpu.host")->bound.most_frac - one_frac) < 1e-9);
}

/* Each rank in turn is away for 3 ms before the allreduce of its step. */
static void write_turns(struct trace *trace)
{
	for (int s = 0; s < 12; s++) {
		int at = 1000 + STEP_US * s, late = s % 2 == trace->rank ? 3000 : 0;

		trace_numbered(trace, "ProfilerStep#", s, at, STEP_US - 10);
		trace_kernel(trace, at, at + 10, 1000);
		trace_kernel(trace, at + 1000 + late, at + 1010 + late, 1000);
		trace_allreduce(trace, at + 1010 + late, at + 2010 + late, 4000 - late);
		for (int i = 0; i < 4; i++)
			trace_kernel(trace, at + 5000, at + 6010 + 990 * i, 990);
	}
}

static void what_ranks_gain_in_turn_adds_up_and_is_said(void **state)
{
	(void)state;
	analyse(2, write_turns);
	assert_says("gpu.host",
		"at most 30.0 % less, added up over the ranks that come last in turn: 3.00 ms of 10.0 ms");
}

/* No step is marked: a second of copies, each of which its call waits for, with pauses; then kernels without one. */
static void write_load_then_compute(struct trace *trace)
{
	int at = 1000;

	for (int i = 0; i < 20; i++, at += 50000)
		trace_copy(trace, at, at + 10, i % 2 ? 100 : 30000);
	for (int i = 0; i < 200; i++)
		trace_kernel(trace, at + i, at + 10 + 1000 * i, 1000);
	at += 200000;
	trace_copy(trace, at + 20000, at + 20010, 30000);
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

/* ---- where the host was ------------------------------------------------------------------------------- */

/* What was the host doing before the kernels of step @s, for 10 ms from @at on. */
static void (*in_gap)(struct trace *trace, int s, int at);

/* A step of 21 ms, 10 of which nothing runs. */
static void write_away(struct trace *trace)
{
	for (int s = 0; s < 8; s++) {
		int at = 1000 + 21000 * s;

		trace_numbered(trace, "ProfilerStep#", s, at, 20990);
		in_gap(trace, s, at);
		for (int i = 0; i < 11; i++)
			trace_kernel(trace, at + 9990, at + 10000 + 1000 * i, 1000);
	}
}

static void analyse_away(void (*ranges)(struct trace *trace, int s, int at))
{
	in_gap = ranges;
	analyse(1, write_away);
}

/* What is said of @place, "in enumerate(DataLoader) for ", in ms. */
static double ms_said(const char *id, const char *place)
{
	const char *at = strstr(found(id)->text, place);
	double ms = NAN;
	char unit = 0;

	if (!at || sscanf(at + strlen(place), "%lf %cs", &ms, &unit) != 2)
		fail_msg("\"%s\" and milliseconds are not in \"%s\"", place, found(id)->text);
	return unit == 'u' ? ms / 1000 : ms;
}

static void check_ratio(double part, double of, double wanted)
{
	if (!(fabs(part / of - wanted) < 0.01))
		fail_msg("%g of %g is not %g", part, of, wanted);
}

static void load_and_validate(struct trace *trace, int s, int at)
{
	(void)s;
	trace_range(trace, "enumerate(DataLoader)#Iter.__next__", at, 5100);
	trace_range(trace, "validate_labels", at + 5100, 4800);
}

static void what_each_range_covers_is_added_up(void **state)
{
	double all, loader, other;

	(void)state;
	analyse_away(load_and_validate);
	all = ms_said("gpu.host", "nothing was launched, ");
	loader = ms_said("gpu.host", "it was in enumerate(DataLoader)#Iter.__next__ for ");
	other = ms_said("gpu.host", "in validate_labels for ");
	check_ratio(loader, all, 0.51);
	check_ratio(other, all, 0.48);
	assert_says("gpu.host", ", in no range for ");
	check_ratio(ms_said("gpu.host", "Look at the loader first ("), loader, 1);
	assert_says("gpu.host", " ms of the ");
}

static void three_things(struct trace *trace, int s, int at)
{
	(void)s;
	trace_range(trace, "checkpoint_save", at, 3290);
	trace_range(trace, "validate_labels", at + 3300, 3290);
	trace_range(trace, "log_metrics", at + 6600, 3290);
}

static void half_in_augment(struct trace *trace, int s, int at)
{
	(void)s;
	trace_range(trace, "augment", at, 4000);
}

static void ranges_that_cover_less_than_half_each_are_named(void **state)
{
	double all;

	(void)state;
	analyse_away(three_things);
	all = ms_said("gpu.host", "nothing was launched, ");
	check_ratio(ms_said("gpu.host", "in checkpoint_save for "), all, 0.329);
	check_ratio(ms_said("gpu.host", "in validate_labels for "), all, 0.329);
	check_ratio(ms_said("gpu.host", "in log_metrics for "), all, 0.329);
	assert_says_not("gpu.host", "loader");
	assert_says("gpu.host", "Look there first");
	analyse_away(half_in_augment);
	check_ratio(ms_said("gpu.host", "it was in augment for "),
		ms_said("gpu.host", "nothing was launched, "), 0.4);
	check_ratio(ms_said("gpu.host", "in no range for "),
		ms_said("gpu.host", "nothing was launched, "), 0.6);
	assert_says_not("gpu.host", "loader");
	assert_says("gpu.host", "Most of it no range names");
}

static void nothing(struct trace *trace, int s, int at)
{
	(void)trace, (void)s, (void)at;
}

static void loads_quickly(struct trace *trace, int s, int at)
{
	(void)s;
	trace_range(trace, "enumerate(DataLoader)#Iter.__next__", at + 15000, 240);
}

static void a_loader_is_blamed_unless_the_trace_shows_it_elsewhere(void **state)
{
	(void)state;
	analyse_away(nothing);
	assert_says("gpu.host", "the next batch of input that is not there yet");
	assert_says("gpu.host", "Look at the loader first (torch:");
	analyse_away(loads_quickly);
	assert_says("gpu.host", "it was in no range, nor in one of the loader's");
	assert_says_not("gpu.host", "Look at the loader");
}

/* Each number is a name of its own to who wrote it. */
static void shards(struct trace *trace, int s, int at)
{
	trace_numbered(trace, "read shard ", 17 * s, at, 9000);
	trace_numbered(trace, "decode_", s, at, 4000);
	trace_range(trace, "fp16", at + 9000, 800);
}

static void names_that_differ_in_digits_only_are_one(void **state)
{
	double all;

	(void)state;
	analyse_away(shards);
	all = ms_said("gpu.host", "nothing was launched, ");
	check_ratio(ms_said("gpu.host", "it was in read shard # for "), all, 0.5);
	check_ratio(ms_said("gpu.host", "in decode_# (in read shard #) for "), all, 0.4);
	check_ratio(ms_said("gpu.host", "in fp16 for "), all, 0.08);
}

/* Of DDP; NCCL's own, and those of another thread, are none of the host's. */
static void ddp_buffers(struct trace *trace, int s, int at)
{
	(void)s;
	trace_range(trace, "## forward ##", at, 9990);
	trace_range(trace, "DistributedDataParallel.forward", at + 100, 9000);
	trace_range(trace, "aten::flatten_dense_tensors", at + 100, 2000);
	trace_range(trace, "aten::unflatten_dense_tensors", at + 2100, 5000);
	for (int i = 0; i < 100; i++)
		trace_range(trace, "aten::narrow", at + 2100 + 50 * i, 45);
	trace_range(trace, "NCCL/ncclAllReduce", at + 7200, 1900);
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"another thread\",\"pid\":1,\"tid\":2,\"ts\":%d,\"dur\":9000}",
		at);
}

static void the_share_of_what_can_be_mended_is_said(void **state)
{
	double all;

	(void)state;
	analyse_away(ddp_buffers);
	all = ms_said("gpu.host", "nothing was launched, ");
	check_ratio(
		ms_said("gpu.host",
			"it was in aten::unflatten_dense_tensors (in DistributedDataParallel.forward, ## forward ##) for "),
		all, 0.5);
	check_ratio(ms_said("gpu.host", "sends before a forward pass ("), all, 0.7);
	assert_says("gpu.host", "broadcast_buffers=False");
	assert_says_not("gpu.host", "narrow");
	assert_says_not("gpu.host", "NCCL/");
	assert_says_not("gpu.host", "another thread");
	assert_says_not("gpu.host", "loader");
}

/* 45 kernels of 80 us, 120 apart, in what people put around an epoch and its steps. */
static void write_nested(struct trace *trace)
{
	trace_range(trace, "train_one_epoch", 900, 12 * STEP_US + 200);
	for (int s = 0; s < 12; s++) {
		int at = 1000 + STEP_US * s;

		trace_numbered(trace, "ProfilerStep#", s, at, STEP_US - 10);
		trace_numbered(trace, "iteration ", s, at + 1, STEP_US - 15);
		trace_range(trace, "forward", at + 2, 5000);
		trace_numbered(
			trace, "autograd::engine::evaluate_function: Mul", s, at + 5003, 2000);
		trace_range(trace, "autograd::engine::evaluate_function: Add", at + 7003, 1900);
		for (int i = 0; i < 45; i++)
			trace_kernel(trace, at + 200 * i, at + 200 * i + 20, 80);
	}
}

static void ranges_around_whole_steps_are_passed_over(void **state)
{
	(void)state;
	analyse(1, write_nested);
	assert_says("gpu.idle", "; meanwhile the host was in forward for ");
	assert_says("gpu.idle", ", in autograd::engine::evaluate_function for ");
	assert_says_not("gpu.idle", "train_one_epoch");
	assert_says_not("gpu.idle", "iteration");
	assert_says_not("gpu.idle", "ProfilerStep");
	assert_says("gpu.idle", "CUDA graphs");
}

/* ---- which finding it is ------------------------------------------------------------------------------- */

/* Twenty kernels, each of which the host waits for, and then thinks for 150 us. */
static void write_items(struct trace *trace)
{
	for (int s = 0; s < 12; s++) {
		int at = 1000 + 20 * 362 * s;

		trace_numbered(trace, "ProfilerStep#", s, at, 20 * 362 - 10);
		for (int i = 0; i < 20; i++, at += 362) {
			trace_kernel(trace, at, at + 10, 200);
			trace_range(trace, "aten::item", at + 5, 208);
			trace_call(trace, "cudaStreamSynchronize", at + 6, 206);
		}
	}
}

static void a_gpu_that_the_host_waits_for_in_each_launch_is_said(void **state)
{
	(void)state;
	analyse(1, write_items);
	assert_says("gpu.wait", "rank 0 waits until its GPU is done (cudaStreamSynchronize)");
	assert_says("gpu.wait", "nothing ran after such a wait, for 162 us on average");
	assert_says("gpu.wait", "; it waited in aten::item for ");
	assert_says("gpu.wait", ".item()");
	assert_true(found("gpu.wait")->bound.most_frac > 0.42 &&
		    found("gpu.wait")->bound.most_frac < 0.46);
	assert_says_not("gpu.idle", "a");
}

/* Five kernels of 1 ms, and half a millisecond until the next. */
static void write_long_kernels(struct trace *trace)
{
	for (int s = 0; s < 12; s++) {
		int at = 1000 + 5500 * s;

		trace_numbered(trace, "ProfilerStep#", s, at, 5490);
		for (int i = 0; i < 5; i++)
			trace_kernel(trace, at, at + 10 + 1000 * i, 1000);
	}
}

static void write_one_gap(struct trace *trace)
{
	trace_kernel(trace, 1000, 1010, 4000);
	trace_kernel(trace, 5500, 5510, 4000);
}

static void launching_less_often_is_no_remedy_where_kernels_are_long(void **state)
{
	(void)state;
	analyse(1, write_long_kernels);
	assert_says("gpu.idle", "kernels that compute take 1.00 ms each, 5 a step");
	assert_says("gpu.idle", "Look at what the host does between these launches");
	assert_says_not("gpu.idle", "CUDA graphs");
	analyse(1, write_one_gap);
	assert_says("gpu.idle", "to launch: once in what was recorded nothing ran for 500 us");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_that_run_side_by_side_gain_what_one_of_them_does),
		cmocka_unit_test(what_ranks_gain_in_turn_adds_up_and_is_said),
		cmocka_unit_test(
			without_steps_nothing_counts_before_the_first_kernel_and_after_the_last),
		cmocka_unit_test(what_each_range_covers_is_added_up),
		cmocka_unit_test(ranges_that_cover_less_than_half_each_are_named),
		cmocka_unit_test(a_loader_is_blamed_unless_the_trace_shows_it_elsewhere),
		cmocka_unit_test(names_that_differ_in_digits_only_are_one),
		cmocka_unit_test(the_share_of_what_can_be_mended_is_said),
		cmocka_unit_test(ranges_around_whole_steps_are_passed_over),
		cmocka_unit_test(a_gpu_that_the_host_waits_for_in_each_launch_is_said),
		cmocka_unit_test(launching_less_often_is_no_remedy_where_kernels_are_long),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, close_last);
}
