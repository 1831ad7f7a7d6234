/* SPDX-License-Identifier: Apache-2.0 */
/* Groups, passes, compression, balance and layers: predicted from one run, against the simulated truth. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/simulate/regroup.h"
#include "analyzer/simulate/replay.h"
#include "analyzer/simulate/stats.h"
#include "base/units.h"
#include "tests/unit/sim_run.h"

enum { N_TENSORS = 40, MAX_STEPS = 64 };
static const double MS = 1e6;

static double true_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	(void)context;
	return 400e3 + 60.0 * (double)op->bytes; /* 0.4 ms and 16.7 MB/s */
}

static struct sim_spec spec_of(uint32_t n_ranks)
{
	static uint64_t bytes[N_TENSORS];

	for (uint32_t t = 0; t < N_TENSORS; t++)
		bytes[t] = 60000 + 2000 * t;
	return (struct sim_spec){.n_ranks = n_ranks,
		.n_tensors = N_TENSORS,
		.n_steps = 25,
		.bytes = bytes,
		.forward_ns = 60 * LW_NS_PER_MS,
		.gap_ns = 6 * LW_NS_PER_MS,
		.jitter_ns = LW_NS_PER_MS,
		.setting = {.fusion_bytes = 1 << 27, .cycle_ns = 5 * LW_NS_PER_MS, .local_size = 1},
		.cost = {.wire_ns = true_wire_ns,
			.round_ns = 300e3,
			.oversleep_ns = 80e3,
			.dispatch_ns = 30e3,
			.between_ns = 20e3,
			.copy_in_ns_per_byte = 0.1,
			.copy_out_ns_per_byte = 0.1},
		.seed = 7};
}

static struct lw_replay *replay_of(struct lw_run *run)
{
	struct lw_replay *replay = NULL;

	if (lw_replay_new(run, &replay) < 0)
		fail_msg("%s", lw_error_text());
	return replay;
}

/* Median step, over steps 1.., mean over ranks. */
static double median_of(const struct lw_hvd_input *input, const struct sim_spec *spec,
	struct lw_hvd_totals *ret_totals)
{
	int64_t step_ns[MAX_STEPS * 8];
	double means_ns[MAX_STEPS] = {0};
	struct lw_hvd_sim *sim;

	assert_int_equal(lw_hvd_sim_new(input->n_ranks, input->n_tensors, &sim), 0);
	assert_int_equal(
		lw_hvd_sim_run(sim, input, &spec->setting, &spec->cost, step_ns, ret_totals, NULL),
		0);
	for (uint32_t s = 1; s < input->n_steps; s++)
		for (uint32_t r = 0; r < input->n_ranks; r++)
			means_ns[s - 1] += (double)step_ns[s * input->n_ranks + r] / input->n_ranks;
	lw_hvd_sim_free(sim);
	return lw_stats_median(means_ns, input->n_steps - 1);
}

static int64_t *rows_of(struct lw_hvd_input *input)
{
	return (int64_t *)(uintptr_t)input->ready_ns;
}

/* The job with group @group_of[t] queued together, by hand. */
static void group_rows(struct lw_hvd_input *input, const int32_t *group_of)
{
	for (size_t row = 0; row < (size_t)input->n_steps * input->n_ranks; row++) {
		int64_t *ready_ns = rows_of(input) + row * input->n_tensors;
		int64_t last_ns[N_TENSORS] = {0};

		for (uint32_t t = 0; t < input->n_tensors; t++)
			if (ready_ns[t] > last_ns[group_of[t]])
				last_ns[group_of[t]] = ready_ns[t];
		for (uint32_t t = 0; t < input->n_tensors; t++)
			ready_ns[t] = last_ns[group_of[t]];
	}
}

static void gradients_are_split_as_horovod_splits_them(void **state)
{
	struct sim_spec spec = spec_of(2);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	uint32_t from[N_TENSORS], n_in[N_TENSORS] = {0};
	int32_t group_of[N_TENSORS];

	(void)state;
	/* 40 in 7: five groups of 6, then two of 5, in the order of registration; ready in reverse */
	assert_int_equal(lw_regroup(replay, 7, NULL, from, group_of), 0);
	for (uint32_t i = 0; i < N_TENSORS; i++) {
		int32_t expected = i < 10 ? 6 - (int32_t)i / 5 : 4 - ((int32_t)i - 10) / 6;

		assert_int_equal(group_of[i], expected);
		n_in[group_of[i]]++;
	}
	assert_int_equal(n_in[0], 6);
	assert_int_equal(n_in[6], 5);
	/* the first group to be complete comes first, listed as registered */
	assert_int_equal(replay->tensor_of[from[0]], 4);
	assert_int_equal(replay->tensor_of[from[4]], 0);
	assert_int_equal(replay->tensor_of[from[5]], 9);
	assert_int_equal(replay->tensor_of[from[39]], 34);
	/* more groups than gradients: each its own */
	assert_int_equal(lw_regroup(replay, 100, NULL, from, group_of), 0);
	for (uint32_t i = 0; i < N_TENSORS; i++)
		assert_int_equal(from[i], i);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void groups_are_sent_when_their_last_tensor_is_ready(void **state)
{
	struct sim_spec spec = spec_of(4);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);

	(void)state;
	for (uint32_t n_groups = 1; n_groups <= 10; n_groups += 3) {
		struct lw_whatif whatif = LW_WHATIF_RECORDED;
		struct lw_hvd_input *input = sim_job(&spec);
		struct lw_prediction prediction, listed;
		int32_t group_of[N_TENSORS];
		struct lw_hvd_totals totals;
		double truth_ns;

		for (uint32_t t = 0; t < N_TENSORS;
			t++) /* 40 = 1 x 40, 4 x 10, 5 of 6 + 2 of 5, 10 x 4 */
			group_of[t] = n_groups == 7 ? (t < 10 ? (int32_t)t / 5
							      : 2 + (int32_t)(t - 10) / 6)
						    : (int32_t)(t / (N_TENSORS / n_groups));
		group_rows(input, group_of);
		truth_ns = median_of(input, &spec, &totals);
		whatif.n_groups = n_groups;
		assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
		print_message("%u groups: true %.2f ms, predicted %.2f\n", n_groups, truth_ns / MS,
			prediction.step_ns.value / MS);
		assert_true(fabs(prediction.step_ns.value / truth_ns - 1) < 0.01);
		assert_int_equal(prediction.totals.n_batches, totals.n_batches);
		assert_false(prediction.is_recorded);
		/* the same groups as a list: recorded tensors come in the order of becoming ready */
		whatif.n_groups = 0;
		whatif.group_of = group_of;
		assert_int_equal(lw_replay_predict(replay, &whatif, &listed, NULL), 0);
		assert_true(listed.step_ns.value == prediction.step_ns.value);
		free(input);
	}
	lw_replay_free(replay);
	sim_run_free(run);
}

static void passes_before_the_last_compute_alone(void **state)
{
	struct sim_spec spec = spec_of(2);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	struct lw_hvd_input *input = sim_job(&spec);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction base, prediction;
	double base_ns[MAX_STEPS], other_ns[MAX_STEPS], truth_ns;
	uint32_t n_rows = spec.n_steps * spec.n_ranks;
	struct lw_figure gain;

	(void)state;
	for (uint32_t row = 0; row < n_rows; row++) { /* three passes as one long one */
		int64_t *blocked_ns = (int64_t *)(uintptr_t)input->blocked_ns;
		int64_t more_ns = 2 * blocked_ns[row];

		for (uint32_t t = 0; t < N_TENSORS; t++)
			rows_of(input)[row * N_TENSORS + t] += more_ns;
		blocked_ns[row] += more_ns;
	}
	truth_ns = median_of(input, &spec, NULL);
	whatif.backward_passes = 3;
	assert_int_equal(lw_replay_predict(replay, &LW_WHATIF_RECORDED, &base, base_ns), 0);
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, other_ns), 0);
	gain = lw_replay_gain(replay, &base, base_ns, &prediction, other_ns);
	print_message("3 passes: true %.2f ms, predicted %.2f, per pass %.2f less than one alone\n",
		truth_ns / MS, prediction.step_ns.value / MS, gain.value / MS);
	assert_int_equal(base.n_passes, 1);
	assert_int_equal(prediction.n_passes, 3);
	assert_true(fabs(prediction.step_ns.value / truth_ns - 1) < 0.01);
	/* per pass: two thirds of what is exposed are saved */
	assert_true(fabs(gain.value - (base.step_ns.value - prediction.step_ns.value / 3)) <
		    0.001 * base.step_ns.value);
	assert_true(gain.value > 0);
	free(input);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void half_the_bytes_are_sent_and_conversion_is_paid(void **state)
{
	struct sim_spec spec = spec_of(4);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	struct lw_hvd_input *input = sim_job(&spec);
	struct lw_hvd_tensor *tensors = (struct lw_hvd_tensor *)(uintptr_t)input->tensors;
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	double truth_ns;

	(void)state;
	for (uint32_t t = 0; t < N_TENSORS; t++)
		tensors[t].bytes /= 2;
	truth_ns = median_of(input, &spec, NULL);
	whatif.wire_frac = 0.5;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	print_message("fp16 for nothing: true %.2f ms, predicted %.2f\n", truth_ns / MS,
		prediction.step_ns.value / MS);
	assert_true(fabs(prediction.step_ns.value / truth_ns - 1) < 0.01);
	assert_int_equal(prediction.totals.bytes,
		replay->input.n_steps * (60000 + 1000 * (N_TENSORS - 1)) / 2 * N_TENSORS);

	/* 4 ns a byte, half of it before: 120 us for the first tensor, then 4 us more for each */
	whatif.convert_ns_per_byte = 4;
	for (uint32_t row = 0; row < spec.n_steps * spec.n_ranks; row++) {
		int64_t later_ns = 0;

		for (uint32_t t = 0; t < N_TENSORS; t++) {
			later_ns += 2 * (int64_t)spec.bytes[t];
			rows_of(input)[row * N_TENSORS + t] += later_ns;
		}
		((int64_t *)(uintptr_t)input->blocked_ns)[row] += later_ns;
	}
	spec.cost.finish_ns_per_byte = 4; /* of a sent byte */
	truth_ns = median_of(input, &spec, NULL);
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	print_message("fp16 at 4 ns a byte: true %.2f ms, predicted %.2f\n", truth_ns / MS,
		prediction.step_ns.value / MS);
	assert_true(fabs(prediction.step_ns.value / truth_ns - 1) < 0.01);
	free(input);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void conversion_waits_for_the_whole_group(void **state)
{
	struct sim_spec spec = spec_of(2);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	struct lw_hvd_input *input = sim_job(&spec);
	struct lw_hvd_tensor *tensors = (struct lw_hvd_tensor *)(uintptr_t)input->tensors;
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	int32_t group_of[N_TENSORS];
	double truth_ns;

	(void)state;
	for (uint32_t row = 0; row < spec.n_steps * spec.n_ranks; row++) {
		int64_t later_ns = 0, group_ns = 0;

		for (uint32_t t = 0; t < N_TENSORS; t++) {
			group_ns += 2 * (int64_t)spec.bytes[t];
			if (t % 10 == 9) {
				later_ns += group_ns;
				group_ns = 0;
			}
			rows_of(input)[row * N_TENSORS + t] += later_ns;
		}
		((int64_t *)(uintptr_t)input->blocked_ns)[row] += later_ns;
	}
	for (uint32_t t = 0; t < N_TENSORS; t++) {
		group_of[t] = (int32_t)t / 10;
		tensors[t].bytes /= 2;
	}
	group_rows(input, group_of);
	spec.cost.finish_ns_per_byte = 4;
	truth_ns = median_of(input, &spec, NULL);
	whatif.n_groups = 4;
	whatif.wire_frac = 0.5;
	whatif.convert_ns_per_byte = 4;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	print_message("fp16 in 4 groups: true %.2f ms, predicted %.2f\n", truth_ns / MS,
		prediction.step_ns.value / MS);
	assert_true(fabs(prediction.step_ns.value / truth_ns - 1) < 0.01);
	free(input);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void without_its_straggler_a_job_runs_as_one_that_never_had_it(void **state)
{
	for (uint32_t n_ranks = 1; n_ranks <= 4; n_ranks++) {
		struct sim_spec spec = spec_of(n_ranks);
		struct lw_whatif whatif = LW_WHATIF_RECORDED;
		struct lw_prediction prediction;
		struct lw_replay *replay;
		struct lw_run *run;
		double late_ns, truth_ns = sim_median_ns(&spec);

		spec.late_ns = n_ranks > 1 ? 150 * LW_NS_PER_MS : 0;
		late_ns = sim_median_ns(&spec);
		run = sim_run_new(&spec);
		replay = replay_of(run);
		whatif.is_balanced = true;
		assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
		print_message("%u ranks: %.2f ms with a straggler, %.2f without, predicted %.2f\n",
			n_ranks, late_ns / MS, truth_ns / MS, prediction.step_ns.value / MS);
		assert_true(fabs(prediction.step_ns.value / truth_ns - 1) < 0.03);
		lw_replay_free(replay);
		sim_run_free(run);
	}
	(void)state;
}

static void a_replaced_layer_sends_other_bytes(void **state)
{
	struct sim_spec spec = spec_of(2);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;

	(void)state;
	whatif.layer = 39;
	whatif.layer_bytes_frac = 0.25;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	assert_int_equal(prediction.totals.bytes,
		replay->input.n_steps *
			((60000 + 1000 * (N_TENSORS - 1)) * N_TENSORS - 138000 * 3 / 4));
	whatif.layer = N_TENSORS;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), LW_ERR_UNSUPPORTED);
	assert_non_null(strstr(lw_error_text(), "no tensor 40"));
	lw_replay_free(replay);
	sim_run_free(run);
}

static void what_cannot_be_asked_is_refused_in_words(void **state)
{
	struct sim_spec spec = spec_of(2);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay;
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;

	(void)state;
	for (size_t r = 0; r < run->ranks.n; r++)
		for (size_t b = 0; b < run->ranks.at[r].batches.n; b++)
			run->ranks.at[r].batches.at[b].dtype = LW_DTYPE_FLOAT16;
	replay = replay_of(run);
	whatif.wire_frac = 0.5;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), LW_ERR_UNSUPPORTED);
	assert_non_null(strstr(lw_error_text(), "nothing to compress"));
	lw_replay_free(replay);

	for (size_t r = 0; r < run->ranks.n; r++)
		run->ranks.at[r].framework = LW_FRAMEWORK_TORCH_DDP;
	replay = replay_of(run);
	whatif = LW_WHATIF_RECORDED;
	whatif.n_groups = 4;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), LW_ERR_UNSUPPORTED);
	assert_non_null(strstr(lw_error_text(), "explicit groups"));
	lw_replay_free(replay);
	sim_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_are_split_as_horovod_splits_them),
		cmocka_unit_test(groups_are_sent_when_their_last_tensor_is_ready),
		cmocka_unit_test(passes_before_the_last_compute_alone),
		cmocka_unit_test(half_the_bytes_are_sent_and_conversion_is_paid),
		cmocka_unit_test(conversion_waits_for_the_whole_group),
		cmocka_unit_test(without_its_straggler_a_job_runs_as_one_that_never_had_it),
		cmocka_unit_test(a_replaced_layer_sends_other_bytes),
		cmocka_unit_test(what_cannot_be_asked_is_refused_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
