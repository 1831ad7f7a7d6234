/* SPDX-License-Identifier: Apache-2.0 */
/* Other networks and other ranks, from runs that tell a fixed cost from one of bytes, and from others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/simulate/replay.h"
#include "base/units.h"
#include "tests/unit/sim_run.h"

enum { N_TENSORS = 40 };
static const double MS = 1e6;

struct link {
	double fixed_ns, ns_per_byte;
};

static double link_ns(const void *context, const struct lw_hvd_op *op)
{
	const struct link *link = context;

	return link->fixed_ns + link->ns_per_byte * (double)op->bytes;
}

/* Not fused: an operation a tensor, of @bytes, every fourth of @more_bytes. */
static struct sim_spec spec_of(
	uint32_t n_ranks, uint64_t bytes, uint64_t more_bytes, const struct link *link)
{
	static uint64_t of_tensor[N_TENSORS];

	for (uint32_t t = 0; t < N_TENSORS; t++)
		of_tensor[t] = t % 4 ? bytes : more_bytes;
	return (struct sim_spec){.n_ranks = n_ranks,
		.n_tensors = N_TENSORS,
		.n_steps = 25,
		.bytes = of_tensor,
		.forward_ns = 20 * LW_NS_PER_MS,
		.gap_ns = LW_NS_PER_MS,
		.jitter_ns = LW_NS_PER_MS / 2,
		.setting = {.fusion_bytes = 0, .cycle_ns = 5 * LW_NS_PER_MS, .local_size = 1},
		.cost = {.wire_ns = link_ns,
			.context = link,
			.round_ns = 300e3,
			.dispatch_ns = 30e3,
			.between_ns = 20e3},
		.seed = 7};
}

static struct lw_replay *replay_of(struct lw_run *run)
{
	struct lw_replay *replay = NULL;

	if (lw_replay_new(run, &replay) < 0)
		fail_msg("%s", lw_error_text());
	return replay;
}

static struct lw_prediction predict(
	struct lw_replay *replay, const struct lw_whatif *whatif, const char *what, double true_ns)
{
	struct lw_prediction prediction;

	assert_int_equal(lw_replay_predict(replay, whatif, &prediction, NULL), 0);
	print_message("%s: true %.1f ms, predicted %.1f (%.1f to %.1f)%s\n", what, true_ns / MS,
		prediction.step_ns.value / MS, prediction.step_ns.low / MS,
		prediction.step_ns.high / MS, prediction.is_extrapolated ? " x" : "");
	return prediction;
}

static bool covers(const struct lw_prediction *prediction, double true_ns)
{
	return prediction->step_ns.low <= true_ns && true_ns <= prediction->step_ns.high;
}

/* Operations of 4.4 and 8 ms, 4 of it fixed: far more than a round, and no bandwidth shortens it. */
static void bandwidth_scales_bytes_and_latency_what_is_fixed(void **state)
{
	const struct link link = {4 * MS, 40}, wider = {4 * MS, 20}, nearer = {2 * MS, 40};
	struct sim_spec spec = spec_of(2, 10000, 100000, &link), truth = spec;
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	double true_ns;

	(void)state;
	truth.cost.context = &wider;
	true_ns = sim_median_ns(&truth);
	whatif.bandwidth_frac = 2;
	prediction = predict(replay, &whatif, "twice the bandwidth", true_ns);
	assert_true(fabs(prediction.step_ns.value / true_ns - 1) < 0.02);
	assert_false(prediction.is_extrapolated);
	truth.cost.context = &nearer;
	truth.cost.round_ns /= 2;
	true_ns = sim_median_ns(&truth);
	whatif = LW_WHATIF_RECORDED;
	whatif.latency_frac = 0.5;
	prediction = predict(replay, &whatif, "half the latency", true_ns);
	assert_true(fabs(prediction.step_ns.value / true_ns - 1) < 0.02);
	lw_replay_free(replay);
	sim_run_free(run);
}

/* 2 KB in 4.7 ms, all of them: two links that no run of this job can tell apart. */
static void one_size_tells_neither_bandwidth_nor_latency_nor_ranks(void **state)
{
	const struct link links[] = {{4.7 * MS, 0}, {0.3 * MS, 2200}};
	static const struct {
		const char *what;
		double bandwidth_frac, latency_frac;
		uint32_t n_ranks;
	} asked[] = {{"twice the bandwidth", 2, 1, 0}, {"half the latency", 1, 0.5, 0},
		{"8 ranks", 1, 1, 8}};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct sim_spec spec = spec_of(4, 2000, 2000, &links[i]);
		struct lw_run *run = sim_run_new(&spec);
		struct lw_replay *replay = replay_of(run);
		struct lw_prediction now;

		assert_false(replay->wire.is_slope_known);
		assert_int_equal(lw_replay_predict(replay, &LW_WHATIF_RECORDED, &now, NULL), 0);
		assert_false(now.is_extrapolated);
		for (size_t k = 0; k < sizeof(asked) / sizeof(asked[0]); k++) {
			uint32_t n = asked[k].n_ranks ? asked[k].n_ranks : 4;
			double latency_frac = asked[k].latency_frac * (n - 1) / 3;
			double volume_frac = (n - 1.0) / n / 0.75 / asked[k].bandwidth_frac;
			struct link scaled = {links[i].fixed_ns * latency_frac,
				links[i].ns_per_byte * volume_frac};
			struct sim_spec truth = spec;
			struct lw_whatif whatif = LW_WHATIF_RECORDED;
			struct lw_prediction prediction;
			double true_ns;

			truth.cost.context = &scaled;
			truth.cost.round_ns *= latency_frac;
			truth.n_ranks = n;
			true_ns = sim_median_ns(&truth);
			whatif.bandwidth_frac = asked[k].bandwidth_frac;
			whatif.latency_frac = asked[k].latency_frac;
			whatif.n_ranks = asked[k].n_ranks;
			prediction = predict(replay, &whatif, asked[k].what, true_ns);
			assert_true(prediction.is_extrapolated);
			assert_int_equal(prediction.step_ns.how, LW_ASSUMED);
			assert_non_null(strstr(prediction.step_ns.why, "of one size"));
			assert_true(covers(&prediction, true_ns));
		}
		lw_replay_free(replay);
		sim_run_free(run);
	}
}

/* All fused: from nothing more than one of them to as much as all. */
static void one_size_does_not_tell_what_others_cost(void **state)
{
	const struct link links[] = {{4.7 * MS, 0}, {0.3 * MS, 2200}};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct sim_spec spec = spec_of(4, 2000, 2000, &links[i]), truth = spec;
		struct lw_run *run = sim_run_new(&spec);
		struct lw_replay *replay = replay_of(run);
		struct lw_whatif whatif = LW_WHATIF_RECORDED;
		struct lw_prediction prediction;
		double true_ns;

		truth.setting.fusion_bytes = 128 << 20;
		true_ns = sim_median_ns(&truth);
		whatif.fusion_bytes = 128 << 20;
		prediction = predict(replay, &whatif, "fused", true_ns);
		assert_true(prediction.is_extrapolated);
		assert_true(covers(&prediction, true_ns));
		lw_replay_free(replay);
		sim_run_free(run);
	}
}

/* The same job with a probe beside it, of the link that it has. */
static void a_probe_tells_the_fixed_cost_of_one_size(void **state)
{
	const struct link link = {4.7 * MS, 20}, wider = {4.7 * MS, 10};
	struct sim_spec spec = spec_of(4, 2000, 2000, &link), truth = spec;
	struct lw_run *run = sim_run_new(&spec);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;
	double true_ns;

	(void)state;
	for (uint32_t k = 0; k < 200; k++) {
		uint64_t bytes = UINT64_C(8) << 2 * (k % 8);
		int64_t start_ns = -(int64_t)(200 - k) * LW_NS_PER_S;
		struct lw_hvd_op op = {.bytes = bytes};
		struct lw_probe_op probe = {LW_COLL_ALLREDUCE, LW_TRANSPORT_GLOO, bytes, start_ns,
			start_ns + (int64_t)link_ns(&link, &op), 0, k / 8, 1};

		lw_vec_push(&run->probes, probe);
	}
	replay = replay_of(run);
	assert_true(replay->wire.is_slope_known);
	truth.cost.context = &wider;
	true_ns = sim_median_ns(&truth);
	whatif.bandwidth_frac = 2;
	prediction = predict(replay, &whatif, "twice the bandwidth, probed", true_ns);
	assert_true(fabs(prediction.step_ns.value / true_ns - 1) < 0.02);
	assert_false(prediction.is_extrapolated);
	lw_replay_free(replay);
	sim_run_free(run);
}

/* A ring of more ranks, on more cores or on the same ones: then every message waits for more processes. */
static void other_ranks_are_covered_whether_they_share_cores_or_not(void **state)
{
	static const uint32_t others[] = {2, 3, 6, 8};
	const struct link link = {2 * MS, 40};
	struct sim_spec spec = spec_of(4, 10000, 100000, &link);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		for (int is_shared = 0; is_shared < 2; is_shared++) {
			double n = others[i], latency_frac = (n - 1) / 3;
			struct lw_whatif whatif = LW_WHATIF_RECORDED;
			struct lw_prediction prediction;
			struct sim_spec truth = spec;
			struct link scaled;
			double true_ns;

			latency_frac *= is_shared ? n / 4 : 1;
			scaled = (struct link){link.fixed_ns * latency_frac,
				link.ns_per_byte * (n - 1) / n / 0.75};
			truth.cost.context = &scaled;
			truth.cost.round_ns *= latency_frac;
			truth.n_ranks = whatif.n_ranks = others[i];
			true_ns = sim_median_ns(&truth);
			prediction = predict(replay, &whatif,
				is_shared ? "other ranks, same cores" : "other ranks", true_ns);
			assert_true(covers(&prediction, true_ns));
			assert_true(prediction.error.ranks_ns > 0);
		}
	lw_replay_free(replay);
	sim_run_free(run);
}

static void the_band_of_more_ranks_is_wider_and_far_ones_are_marked(void **state)
{
	const struct link link = {2 * MS, 40};
	struct sim_spec spec = spec_of(4, 10000, 100000, &link);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_replay *replay = replay_of(run);
	double width_ns = 0;

	(void)state;
	for (uint32_t n = 1; n <= 64; n++) {
		struct lw_whatif whatif = LW_WHATIF_RECORDED;
		struct lw_prediction prediction;

		if (n > 10 && n % 8)
			continue;
		whatif.n_ranks = n;
		assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
		assert_int_equal(prediction.is_extrapolated, n < 2 || n > 8);
		if (prediction.is_extrapolated)
			assert_non_null(strstr(prediction.step_ns.why, "ranks"));
		if (n < 4)
			continue;
		assert_true(prediction.step_ns.high - prediction.step_ns.low > width_ns);
		width_ns = prediction.step_ns.high - prediction.step_ns.low;
	}
	lw_replay_free(replay);
	sim_run_free(run);
}

/* Nobody knows when a rank came that is not in the run: what operations cost is taken from the others. */
static void of_missing_ranks_every_prediction_is_assumed(void **state)
{
	const struct link link = {2 * MS, 40};
	struct sim_spec spec = spec_of(4, 10000, 100000, &link);
	struct lw_run *run = sim_run_new(&spec);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;

	(void)state;
	run->size = 6;
	run->n_missing_ranks = 2;
	replay = replay_of(run);
	for (int i = 0; i < 3; i++) {
		whatif.cycle_ns = i == 1 ? 10 * MS : (double)NAN;
		whatif.bandwidth_frac = i == 2 ? 2 : 1;
		assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
		assert_int_equal(prediction.step_ns.how, LW_ASSUMED);
		assert_non_null(strstr(prediction.step_ns.why, "ranks of this job are not in"));
	}
	whatif.fusion_bytes = 128 << 20;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	assert_int_equal(prediction.step_ns.how, LW_ASSUMED);
	lw_replay_free(replay);
	sim_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bandwidth_scales_bytes_and_latency_what_is_fixed),
		cmocka_unit_test(one_size_tells_neither_bandwidth_nor_latency_nor_ranks),
		cmocka_unit_test(one_size_does_not_tell_what_others_cost),
		cmocka_unit_test(a_probe_tells_the_fixed_cost_of_one_size),
		cmocka_unit_test(other_ranks_are_covered_whether_they_share_cores_or_not),
		cmocka_unit_test(of_missing_ranks_every_prediction_is_assumed),
		cmocka_unit_test(the_band_of_more_ranks_is_wider_and_far_ones_are_marked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
