/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace.c - the step that a what-if is shown by: whole, in order, and as long as what is predicted. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/simulate/trace.h"
#include "base/units.h"
#include "tests/unit/ddp_run.h"
#include "tests/unit/sim_run.h"

enum { N_TENSORS = 20, TENSOR_BYTES = 100000 };

static double wire_ns(const void *context, const struct lw_hvd_op *op)
{
	(void)context;
	return 400e3 + 60.0 * (double)op->bytes;
}

static struct lw_run *make_horovod_run(void)
{
	static uint64_t bytes[N_TENSORS];
	struct sim_spec spec = {.n_ranks = 3,
		.n_tensors = N_TENSORS,
		.n_steps = 20,
		.bytes = bytes,
		.forward_ns = 60 * LW_NS_PER_MS,
		.gap_ns = 6 * LW_NS_PER_MS,
		.jitter_ns = LW_NS_PER_MS,
		.seed = 7,
		.setting = {.fusion_bytes = 1 << 20, .cycle_ns = 5 * LW_NS_PER_MS, .local_size = 1},
		.cost = {.wire_ns = wire_ns, .round_ns = 300e3, .poll_ns = 1060e3}};

	for (uint32_t t = 0; t < N_TENSORS; t++)
		bytes[t] = TENSOR_BYTES;
	return sim_run_new(&spec);
}

static void check(struct lw_replay *replay, const struct lw_whatif *whatif, uint64_t bytes)
{
	uint32_t n = lw_replay_n(replay);
	double *ns = calloc(n + 1, sizeof(*ns)), sum_ns = 0;
	struct lw_prediction prediction;
	struct lw_trace trace;
	uint64_t sum_bytes = 0;

	assert_non_null(ns);
	assert_int_equal(lw_replay_predict(replay, whatif, &prediction, ns), LW_OK);
	assert_int_equal(
		lw_replay_trace(replay, whatif, lw_trace_ordinary(ns, ns, n), &trace), LW_OK);
	free(ns);
	assert_int_equal(trace.n_ranks, prediction.n_ranks);
	assert_true(trace.step < lw_replay_n(replay));
	assert_true(
		fabs((trace.length_ns + replay->bias_ns) / prediction.step_ns.value - 1) < 0.03);
	for (uint32_t r = 0; r < trace.n_ranks; r++) {
		const struct lw_trace_rank *rank = &trace.ranks[r];

		assert_true(rank->start_ns >= 0);
		assert_true(rank->start_ns <= rank->blocked_ns);
		assert_true(rank->blocked_ns <= rank->resumed_ns);
		assert_true(rank->resumed_ns <= rank->end_ns);
		sum_ns += (double)(rank->end_ns - rank->start_ns);
	}
	assert_true(fabs(sum_ns / trace.n_ranks - trace.length_ns) < 1);
	for (size_t i = 0; i < trace.ops.n; i++) {
		const struct lw_trace_op *op = &trace.ops.at[i];

		assert_true(i == 0 || op->start_ns >= op[-1].start_ns);
		assert_true(op->start_ns <= op->wire_start_ns);
		assert_true(op->wire_start_ns <= op->wire_end_ns);
		assert_true(op->wire_end_ns <= op->end_ns);
		sum_bytes += op->bytes;
	}
	assert_int_equal(sum_bytes, bytes);
	lw_trace_done(&trace);
}

static void a_step_of_horovod_is_whole_and_as_long_as_predicted(void **state)
{
	struct lw_run *run = make_horovod_run();
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_replay *replay;

	(void)state;
	assert_int_equal(lw_replay_new(run, &replay), LW_OK);
	check(replay, &whatif, (uint64_t)N_TENSORS * TENSOR_BYTES);
	whatif.fusion_bytes = 0;
	whatif.cycle_ns = 20e6;
	check(replay, &whatif, (uint64_t)N_TENSORS * TENSOR_BYTES);
	whatif.n_ranks = 8;
	whatif.compute_frac = 0.5;
	check(replay, &whatif, (uint64_t)N_TENSORS * TENSOR_BYTES);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void a_step_of_ddp_is_whole_too(void **state)
{
	static struct ddp_truth truth;
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_replay *replay;
	struct lw_run *run;
	uint64_t bytes = 0;

	(void)state;
	ddp_truth_make(&truth, 1024 * KIB);
	run = ddp_run_new(&truth);
	for (int p = 0; p < DDP_PARAMETERS; p++)
		bytes += truth.tensors[p].bytes;
	assert_int_equal(lw_replay_new(run, &replay), LW_OK);
	check(replay, &whatif, bytes);
	whatif.bucket_cap_bytes = 256 * KIB;
	check(replay, &whatif, bytes);
	lw_replay_free(replay);
	sim_run_free(run);
}

/* Ready times differ from step to step, so it is the same step only where the ranks begin to wait alike. */
static void a_step_that_is_asked_for_is_the_one_that_is_traced(void **state)
{
	struct lw_run *run = make_horovod_run();
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_trace trace, other;
	struct lw_replay *replay;
	uint32_t n;

	(void)state;
	assert_int_equal(lw_replay_new(run, &replay), LW_OK);
	n = lw_replay_n(replay);
	whatif.latency_frac = 0.5;
	for (uint32_t s = 0; s < n; s += 5) {
		assert_int_equal(lw_replay_trace(replay, &LW_WHATIF_RECORDED, s, &trace), LW_OK);
		assert_int_equal(lw_replay_trace(replay, &whatif, s, &other), LW_OK);
		assert_int_equal(trace.step, s);
		assert_int_equal(other.step, s);
		for (uint32_t r = 0; r < trace.n_ranks; r++)
			assert_int_equal(trace.ranks[r].blocked_ns - trace.ranks[r].start_ns,
				other.ranks[r].blocked_ns - other.ranks[r].start_ns);
		lw_trace_done(&trace);
		lw_trace_done(&other);
	}
	whatif.backward_passes = 3;
	assert_int_equal(lw_replay_trace(replay, &whatif, n - 1, &trace), LW_OK);
	assert_int_equal(trace.n_passes, 3);
	lw_trace_done(&trace);
	assert_int_equal(lw_replay_trace(replay, &whatif, n, &trace), LW_ERR_UNSUPPORTED);
	assert_null(trace.ranks);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void what_cannot_be_predicted_cannot_be_traced(void **state)
{
	struct lw_run *run = make_horovod_run();
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_replay *replay;
	struct lw_trace trace;

	(void)state;
	assert_int_equal(lw_replay_new(run, &replay), LW_OK);
	whatif.bucket_cap_bytes = 1 << 20;
	assert_int_equal(lw_replay_trace(replay, &whatif, 0, &trace), LW_ERR_UNSUPPORTED);
	assert_null(trace.ranks);
	lw_trace_done(&trace);
	lw_replay_free(replay);
	sim_run_free(run);
}

/* Step 0 is the most ordinary as recorded, but the other setting makes it much shorter than most. */
static void an_ordinary_step_is_so_under_both_settings(void **state)
{
	const double base_ns[] = {100, 104, 96, 160, 103}, other_ns[] = {20, 62, 58, 60, 90};

	(void)state;
	assert_int_equal(lw_trace_ordinary(base_ns, other_ns, 5), 1);
	assert_int_equal(lw_trace_ordinary(base_ns, base_ns, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ordinary_step_is_so_under_both_settings),
		cmocka_unit_test(a_step_of_horovod_is_whole_and_as_long_as_predicted),
		cmocka_unit_test(a_step_of_ddp_is_whole_too),
		cmocka_unit_test(a_step_that_is_asked_for_is_the_one_that_is_traced),
		cmocka_unit_test(what_cannot_be_predicted_cannot_be_traced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
