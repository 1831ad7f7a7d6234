/* SPDX-License-Identifier: Apache-2.0 */
/* Replay: a run that the simulator made, taken apart and predicted, against the truth it was made of. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/simulate/closed.h"
#include "analyzer/simulate/replay.h"
#include "base/units.h"
#include "tests/unit/sim_run.h"

enum { N_TENSORS = 40 };
static const double MS = 1e6;

static double true_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	(void)context;
	return 400e3 + 60.0 * (double)op->bytes; /* 0.4 ms and 16.7 MB/s */
}

static struct sim_spec spec_of(uint32_t n_ranks, double cycle_ms, uint64_t fusion_bytes)
{
	static uint64_t bytes[N_TENSORS];
	struct sim_spec spec = {.n_ranks = n_ranks,
		.n_tensors = N_TENSORS,
		.n_steps = 25,
		.bytes = bytes,
		.forward_ns = 60 * LW_NS_PER_MS,
		.gap_ns = 6 * LW_NS_PER_MS,
		.jitter_ns = LW_NS_PER_MS,
		.seed = 7};

	for (uint32_t t = 0; t < N_TENSORS; t++)
		bytes[t] = 100000;
	spec.setting = (struct lw_hvd_setting){.fusion_bytes = fusion_bytes,
		.cycle_ns = (int64_t)(cycle_ms * MS),
		.local_size = 1};
	spec.cost = (struct lw_hvd_cost){.wire_ns = true_wire_ns,
		.round_ns = 300e3,
		.oversleep_ns = 80e3,
		.dispatch_ns = 30e3,
		.between_ns = 20e3,
		.copy_in_ns = 10e3,
		.copy_in_ns_per_byte = 0.1,
		.copy_out_ns = 5e3,
		.copy_out_ns_per_byte = 0.1,
		.poll_ns = 1060e3};
	return spec;
}

static struct lw_replay *replay_of(struct lw_run *run)
{
	struct lw_replay *replay = NULL;

	if (lw_replay_new(run, &replay) < 0)
		fail_msg("%s", lw_error_text());
	return replay;
}

static void the_recorded_setting_is_reproduced(void **state)
{
	static const struct {
		uint32_t n_ranks;
		double cycle_ms;
		uint64_t fusion_bytes;
	} cases[] = {
		{1, 5, 1 << 27}, {2, 1, 1 << 27}, {2, 20, 1 << 20}, {4, 5, 0}, {4, 50, 300000}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sim_spec spec =
			spec_of(cases[i].n_ranks, cases[i].cycle_ms, cases[i].fusion_bytes);
		struct lw_run *run = sim_run_new(&spec);
		struct lw_replay *replay = replay_of(run);
		struct lw_prediction prediction;

		assert_int_equal(
			lw_replay_predict(replay, &LW_WHATIF_RECORDED, &prediction, NULL), 0);
		print_message(
			"%u ranks, Q %llu, cycle %g ms: recorded %.3f ms, replay off by %+.3f ms\n",
			cases[i].n_ranks, (unsigned long long)cases[i].fusion_bytes,
			cases[i].cycle_ms, replay->recorded_ns / MS, replay->bias_ns / MS);
		assert_true(replay->error_frac < 0.01);
		assert_true(prediction.is_recorded);
		assert_false(prediction.is_extrapolated);
		assert_true(fabs(prediction.step_ns.value / replay->recorded_ns - 1) < 0.005);
		assert_true(prediction.step_ns.low <= prediction.step_ns.value);
		assert_true(prediction.step_ns.high >= prediction.step_ns.value);
		lw_replay_free(replay);
		sim_run_free(run);
	}
}

static void costs_of_the_loop_are_found_again(void **state)
{
	struct sim_spec spec = spec_of(4, 5, 300000);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	const struct lw_hvd_cost *cost = &replay->cost;

	(void)state;
	assert_true(fabs(cost->round_ns - 300e3) < 1e3);
	assert_true(fabs(cost->oversleep_ns - 80e3) < 1e3);
	assert_true(fabs(cost->dispatch_ns - 30e3) < 1e3);
	assert_true(fabs(cost->poll_ns - 1060e3) < 1e3);
	assert_true(fabs(lw_wire_mean_ns(&replay->wire, 100000, 0) / 6.4e6 - 1) < 0.01);
	assert_true(fabs(lw_wire_mean_ns(&replay->wire, 200000, INT64_MAX) / 12.4e6 - 1) < 0.01);
	lw_replay_free(replay);
	sim_run_free(run);
}

/* The truth is the simulator with the true costs; the prediction knows only the run. */
static void other_settings_are_predicted_from_one_run(void **state)
{
	static const double cycles_ms[] = {2, 5, 20, 50};
	static const uint64_t fusion[] = {0, 1 << 18, 1 << 27};
	struct sim_spec spec = spec_of(4, 5, 1 << 27);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);

	(void)state;
	for (size_t c = 0; c < 4; c++)
		for (size_t q = 0; q < 3; q++) {
			struct lw_whatif whatif = LW_WHATIF_RECORDED;
			struct lw_prediction prediction;
			double truth_ns;

			whatif.fusion_bytes = (double)fusion[q];
			whatif.cycle_ns = cycles_ms[c] * MS;
			assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
			spec = spec_of(4, cycles_ms[c], fusion[q]);
			truth_ns = sim_median_ns(&spec);
			print_message(
				"Q %9llu cycle %4g ms: true %.2f ms, predicted %.2f (%.2f to %.2f)%s\n",
				(unsigned long long)fusion[q], cycles_ms[c], truth_ns / MS,
				prediction.step_ns.value / MS, prediction.step_ns.low / MS,
				prediction.step_ns.high / MS,
				prediction.is_extrapolated ? ", extrapolated" : "");
			assert_true(fabs(prediction.step_ns.value / truth_ns - 1) < 0.02);
		}
	lw_replay_free(replay);
	sim_run_free(run);
}

static void unseen_small_operations_are_called_extrapolated(void **state)
{
	static uint64_t bytes[N_TENSORS];
	struct sim_spec spec = spec_of(2, 50, 1 << 27);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	for (uint32_t t = 0; t < N_TENSORS; t++)
		bytes[t] = 2000;
	spec.bytes = bytes;
	spec.forward_ns = LW_NS_PER_MS;
	spec.gap_ns = 1000;
	spec.jitter_ns = 100;
	run = sim_run_new(&spec); /* all 40 in one batch of 80 kB */
	replay = replay_of(run);
	whatif.fusion_bytes = 0;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	assert_true(prediction.is_extrapolated);
	assert_int_equal(prediction.step_ns.how, LW_ASSUMED);
	assert_non_null(strstr(prediction.step_ns.why, "sizes that this run does not hold"));
	spec.setting.fusion_bytes = 0;
	assert_in_range((uint64_t)sim_median_ns(&spec), (uint64_t)prediction.step_ns.low,
		(uint64_t)prediction.step_ns.high);
	/* the bound: 40 operations, each 32 times a round's cost, but less than the known 80 kB: 5.2 ms */
	assert_true(prediction.step_ns.high > 40 * 0.9 * 5.2e6);
	assert_true(prediction.step_ns.high < 40 * 1.2 * 5.2e6 + 60e6);
	lw_replay_free(replay);
	sim_run_free(run);
}

/* The same job with a probe beside it: what small operations cost is known then, while threads compute. */
static double bucket_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	(void)context;
	return 300e3 + 256.0 * (double)op->bytes - fmin((double)op->idle_ns, 4 * MS);
}

/* The first operation of each step follows a long pause and is the only one of its size: what it took says
 * nothing of such operations one after the other. */
static void a_size_seen_after_pauses_alone_is_not_known_without(void **state)
{
	struct sim_spec spec = spec_of(2, 5, 1 << 27);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;
	struct lw_run *run;
	double truth_ns;

	(void)state;
	spec.forward_ns = 130 * LW_NS_PER_MS;
	spec.gap_ns = 5 * LW_NS_PER_MS;
	spec.cost.wire_ns = bucket_wire_ns;
	run = sim_run_new(&spec);
	replay = replay_of(run);
	assert_true(replay->error_frac < 0.01);
	assert_int_equal(replay->min_batch_bytes, 100000);
	whatif.fusion_bytes = 0;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	spec.setting.fusion_bytes = 0;
	truth_ns = sim_median_ns(&spec);
	print_message("without fusion %.1f ms (%.1f to %.1f), truly %.1f ms\n",
		prediction.step_ns.value / MS, prediction.step_ns.low / MS,
		prediction.step_ns.high / MS, truth_ns / MS);
	assert_true(prediction.is_extrapolated);
	assert_true(fabs(prediction.step_ns.value / truth_ns - 1) < 0.03);
	assert_true(truth_ns > prediction.step_ns.low && truth_ns < prediction.step_ns.high);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void add_probes(struct lw_run *run, uint32_t n_sizes)
{
	for (uint32_t k = 0; k < 25 * n_sizes; k++) {
		uint64_t size_bytes = UINT64_C(8) << 2 * (k % n_sizes);
		int64_t start_ns = -(int64_t)(25 * n_sizes - k) * LW_NS_PER_S;
		struct lw_hvd_op op = {.bytes = size_bytes};
		struct lw_probe_op probe = {LW_COLL_ALLREDUCE, LW_TRANSPORT_GLOO, size_bytes,
			start_ns, start_ns + (int64_t)true_wire_ns(NULL, &op), 0, k / n_sizes, 1};

		lw_vec_push(&run->probes, probe);
	}
}

static double loaded_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	return true_wire_ns(context, op) + 0.6 * MS; /* while the job runs, cores are late */
}

/* In the job each operation takes 0.6 ms more than in the probe, whatever its size: of small ones that is a lot, and
 * says nothing of what the bytes of large ones take. */
static void what_a_job_adds_to_small_operations_is_no_rate_of_large_ones(void **state)
{
	static uint64_t bytes[N_TENSORS];
	struct sim_spec spec = spec_of(2, 1, 0);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;
	struct lw_run *run;
	double true_ns;

	(void)state;
	for (uint32_t t = 0; t < N_TENSORS; t++)
		bytes[t] = 4000 + 4000 * (t % 2);
	spec.bytes = bytes;
	spec.gap_ns = 3 * LW_NS_PER_MS;
	spec.cost.wire_ns = loaded_wire_ns;
	run = sim_run_new(&spec);
	add_probes(run, 9);
	replay = replay_of(run);
	whatif.fusion_bytes = 1 << 27;
	whatif.n_groups = 1;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	true_ns = (double)replay->blocked_ns[0] +
		  loaded_wire_ns(NULL, &(struct lw_hvd_op){.bytes = 240000});
	print_message("one operation of 240 kB: at least %.2f ms, predicted %.2f (%.2f to %.2f)\n",
		true_ns / MS, prediction.step_ns.value / MS, prediction.step_ns.low / MS,
		prediction.step_ns.high / MS);
	assert_true(prediction.step_ns.value > true_ns);
	assert_true(prediction.step_ns.value < true_ns + 4 * MS);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void a_probe_tells_what_unseen_operations_cost(void **state)
{
	static uint64_t bytes[N_TENSORS];
	struct sim_spec spec = spec_of(2, 50, 1 << 27);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;
	struct lw_run *run;
	double true_ns;

	(void)state;
	for (uint32_t t = 0; t < N_TENSORS; t++)
		bytes[t] = 2000;
	spec.bytes = bytes;
	spec.forward_ns = LW_NS_PER_MS;
	spec.gap_ns = 1000;
	spec.jitter_ns = 100;
	run = sim_run_new(&spec);
	add_probes(run, 8);
	replay = replay_of(run);
	whatif.fusion_bytes = 0;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	spec.setting.fusion_bytes = 0;
	true_ns = sim_median_ns(&spec);
	print_message("Q 0 with a probe: true %.2f ms, predicted %.2f (%.2f to %.2f)\n",
		true_ns / MS, prediction.step_ns.value / MS, prediction.step_ns.low / MS,
		prediction.step_ns.high / MS);
	assert_true(fabs(prediction.step_ns.value / true_ns - 1) < 0.03);
	assert_true(prediction.step_ns.low <= true_ns && true_ns <= prediction.step_ns.high);
	lw_replay_free(replay);
	sim_run_free(run);
}

/* 40 B take 0.1 or 2 ms, by chance; all others what the link takes. */
static double jumpy_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	if (op->bytes < 1000)
		return op->step % 3 ? 100e3 : 2e6;
	return true_wire_ns(context, op);
}

static void small_operations_that_jump_say_nothing_of_large_ones(void **state)
{
	static uint64_t bytes[N_TENSORS];
	struct sim_spec spec = spec_of(2, 5, 1 << 27);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;
	struct lw_run *run;
	double true_ns;

	(void)state;
	for (uint32_t t = 0; t < N_TENSORS; t++)
		bytes[t] = t ? 100000 : 40;
	spec.bytes = bytes;
	spec.cost.wire_ns = jumpy_wire_ns;
	run = sim_run_new(&spec); /* the small one goes alone, first in each step */
	replay = replay_of(run);
	for (double cycle_ms = 50; cycle_ms <= 200; cycle_ms *= 2) {
		whatif.cycle_ns = cycle_ms * MS;
		assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
		spec.setting.cycle_ns = (int64_t)whatif.cycle_ns;
		true_ns = sim_median_ns(&spec);
		print_message("cycle %3.0f ms: true %.2f ms, predicted %.2f ms\n", cycle_ms,
			true_ns / MS, prediction.step_ns.value / MS);
		assert_true(fabs(prediction.step_ns.value / true_ns - 1) < 0.02);
	}
	lw_replay_free(replay);
	sim_run_free(run);
}

static void a_faster_network_and_more_ranks_move_the_right_way(void **state)
{
	struct sim_spec spec = spec_of(2, 5, 1 << 27);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction now, then;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	spec.gap_ns = LW_NS_PER_MS;
	run = sim_run_new(&spec);
	replay = replay_of(run);
	lw_replay_predict(replay, &LW_WHATIF_RECORDED, &now, NULL);
	whatif.bandwidth_frac = 10;
	assert_int_equal(lw_replay_predict(replay, &whatif, &then, NULL), 0);
	assert_true(then.step_ns.value < now.step_ns.value * 0.7);
	assert_false(then.is_recorded);
	whatif = LW_WHATIF_RECORDED;
	whatif.n_ranks = 8;
	assert_int_equal(lw_replay_predict(replay, &whatif, &then, NULL), 0);
	assert_int_equal(then.n_ranks, 8);
	assert_true(then.step_ns.value > now.step_ns.value * 1.3);
	assert_int_equal(then.step_ns.how, LW_ASSUMED);
	whatif.n_ranks = 1; /* no network: what is left is compute, cycles and polls */
	assert_int_equal(lw_replay_predict(replay, &whatif, &then, NULL), 0);
	assert_true(then.step_ns.value < now.step_ns.value * 0.7);
	whatif = LW_WHATIF_RECORDED;
	whatif.compute_frac = 2;
	assert_int_equal(lw_replay_predict(replay, &whatif, &then, NULL), 0);
	assert_true(then.step_ns.value > now.step_ns.value * 1.2);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void one_rank_cannot_tell_about_more(void **state)
{
	struct sim_spec spec = spec_of(1, 5, 1 << 27);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;

	(void)state;
	whatif.n_ranks = 4;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), LW_ERR_UNSUPPORTED);
	assert_non_null(strstr(lw_error_text(), "one rank"));
	lw_replay_free(replay);
	sim_run_free(run);
}

static void runs_that_cannot_be_replayed_say_why(void **state)
{
	struct sim_spec spec = spec_of(2, 5, 1 << 27);
	struct lw_run *run;
	struct lw_replay *replay;
	struct lw_member *member;
	struct lw_step *step;

	(void)state;
	run = sim_run_new(&spec);
	run->ranks.at[0].setting_changed = true;
	assert_int_equal(lw_replay_new(run, &replay), LW_ERR_LIMIT);
	assert_non_null(strstr(lw_error_text(), "autotuner"));
	run->ranks.at[0].setting_changed = false;

	for (size_t r = 0; r < run->ranks.n; r++)
		lw_vec_foreach (member, &run->ranks.at[r].members)
			member->ready_ns = LW_NS_UNKNOWN;
	assert_int_equal(lw_replay_new(run, &replay), LW_ERR_LIMIT);
	assert_non_null(strstr(lw_error_text(), "ready time"));

	lw_vec_foreach (step, &run->ranks.at[1].steps)
		step->excluded = "warm-up";
	assert_int_equal(lw_replay_new(run, &replay), LW_ERR_LIMIT);
	assert_non_null(strstr(lw_error_text(), "0 counted steps"));

	run->ranks.at[0].framework = LW_FRAMEWORK_NONE;
	assert_int_equal(lw_replay_new(run, &replay), LW_ERR_LIMIT);
	assert_non_null(strstr(lw_error_text(), "neither a Horovod nor"));
	sim_run_free(run);
}

/* Buckets are sent alone and in order when every rank has them: no fusion, no rounds. */
static void a_ddp_run_is_replayed_with_its_buckets(void **state)
{
	struct sim_spec spec = spec_of(2, 0, 0);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;
	struct lw_run *run;
	double truth_ns;

	(void)state;
	spec.cost = (struct lw_hvd_cost){.wire_ns = true_wire_ns};
	run = sim_run_new(&spec);
	for (size_t r = 0; r < run->ranks.n; r++) {
		run->ranks.at[r].framework = LW_FRAMEWORK_TORCH_DDP;
		run->ranks.at[r].setting[LW_SETTING_FUSION_BYTES] = NAN;
		run->ranks.at[r].setting[LW_SETTING_CYCLE_NS] = NAN;
		lw_vec_free(&run->ranks.at[r].cycles);
	}
	replay = replay_of(run);
	truth_ns = sim_median_ns(&spec);
	print_message(
		"ddp: true %.3f ms, replay off by %+.3f ms\n", truth_ns / MS, replay->bias_ns / MS);
	assert_true(replay->is_ddp);
	assert_true(fabs(replay->bias_ns) < 0.005 * truth_ns);
	whatif.bandwidth_frac = 2;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	assert_true(prediction.step_ns.value < truth_ns);
	whatif = LW_WHATIF_RECORDED;
	whatif.cycle_ns = 5 * MS;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), LW_ERR_UNSUPPORTED);
	assert_non_null(strstr(lw_error_text(), "no cycle time"));
	lw_replay_free(replay);
	sim_run_free(run);
}

static void the_same_run_gives_the_same_figures(void **state)
{
	struct sim_spec spec = spec_of(2, 5, 1 << 20);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *one = replay_of(run), *two = replay_of(run);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction first, second;

	(void)state;
	whatif.cycle_ns = 20 * MS;
	lw_replay_predict(one, &whatif, &first, NULL);
	lw_replay_predict(one, &LW_WHATIF_RECORDED, &second, NULL);
	lw_replay_predict(two, &whatif, &second, NULL);
	assert_memory_equal(&first.step_ns.value, &second.step_ns.value, 3 * sizeof(double));
	lw_replay_free(one);
	lw_replay_free(two);
	sim_run_free(run);
}

/* report takes the factors from the fit, predict from the closed models: one answer for one setting. */
static void closed_models_give_the_fits_own_factors_for_the_recorded_setting(void **state)
{
	struct sim_spec spec = spec_of(4, 5, 300000);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_scaling scaling[LW_SCALING_N], faster[LW_SCALING_N];
	double compute_ns, tail_ns;
	struct lw_fit fit;

	(void)state;
	assert_int_equal(lw_fit_run(run, &fit), LW_OK);
	assert_int_equal(lw_closed_predict(
				 replay, &fit, &LW_WHATIF_RECORDED, scaling, &compute_ns, &tail_ns),
		LW_OK);
	whatif.bandwidth_frac = 2;
	assert_int_equal(
		lw_closed_predict(replay, &fit, &whatif, faster, &compute_ns, &tail_ns), LW_OK);
	for (size_t i = 0; i < LW_SCALING_N; i++) {
		double fitted = fit.figure[LW_FIT_CSF + i].value;

		print_message("%s: fit %.6f, closed %.6f, at twice the bandwidth %.6f\n",
			lw_fit_figure_name((enum lw_fit_figure)(LW_FIT_CSF + i)), fitted,
			scaling[i].factor, faster[i].factor);
		assert_true(fabs(scaling[i].factor / fitted - 1) < 1e-9);
		assert_true(faster[i].factor > fitted && faster[i].factor <= 1);
	}
	assert_true(compute_ns == fit.figure[LW_FIT_COMPUTE_NS].value);
	lw_fit_done(&fit);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void a_bound_is_never_below_what_is_computed(void **state)
{
	struct sim_spec spec = spec_of(2, 5, 1 << 27);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	struct lw_prediction prediction;

	(void)state;
	replay->residual_ns = 10 * replay->recorded_ns; /* a run that its replay hardly knows */
	assert_int_equal(lw_replay_predict(replay, &LW_WHATIF_RECORDED, &prediction, NULL), 0);
	assert_true(prediction.step_ns.low > 60 * MS); /* forward alone */
	assert_true(prediction.step_ns.low < prediction.step_ns.value);
	lw_replay_free(replay);
	sim_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_recorded_setting_is_reproduced),
		cmocka_unit_test(costs_of_the_loop_are_found_again),
		cmocka_unit_test(other_settings_are_predicted_from_one_run),
		cmocka_unit_test(unseen_small_operations_are_called_extrapolated),
		cmocka_unit_test(a_size_seen_after_pauses_alone_is_not_known_without),
		cmocka_unit_test(a_probe_tells_what_unseen_operations_cost),
		cmocka_unit_test(what_a_job_adds_to_small_operations_is_no_rate_of_large_ones),
		cmocka_unit_test(small_operations_that_jump_say_nothing_of_large_ones),
		cmocka_unit_test(a_faster_network_and_more_ranks_move_the_right_way),
		cmocka_unit_test(one_rank_cannot_tell_about_more),
		cmocka_unit_test(runs_that_cannot_be_replayed_say_why),
		cmocka_unit_test(a_ddp_run_is_replayed_with_its_buckets),
		cmocka_unit_test(the_same_run_gives_the_same_figures),
		cmocka_unit_test(closed_models_give_the_fits_own_factors_for_the_recorded_setting),
		cmocka_unit_test(a_bound_is_never_below_what_is_computed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
