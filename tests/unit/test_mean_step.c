/* SPDX-License-Identifier: Apache-2.0 */
/* The coarse and the fine model on runs that the simulator made, against what they were made of. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/model/topology.h"
#include "analyzer/simulate/mean_step.h"
#include "base/units.h"
#include "tests/unit/sim_run.h"

enum { N_TENSORS = 40 };
static const double MS = 1e6;

/* What the job of the test takes for one operation: a ring of N ranks. */
static struct truth {
	struct lw_hop hop;
	int n_ranks;
} truth;

static double true_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	(void)context;
	return truth.n_ranks < 2 ? 50e3 + (double)op->bytes
				 : lw_ring_ns((double)op->bytes, truth.n_ranks, truth.hop);
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
		.jitter_ns = LW_NS_PER_MS / 4,
		.seed = 7};

	for (uint32_t t = 0; t < N_TENSORS; t++)
		bytes[t] = 60000 + 2000 * t;
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
	truth = (struct truth){{70e3, 40}, (int)n_ranks};
	return spec;
}

struct recorded {
	struct lw_run *run;
	struct lw_replay *replay;
	struct lw_fit fit;
};

static struct recorded record(const struct sim_spec *spec)
{
	struct recorded recorded = {.run = sim_run_new(spec)};

	if (lw_replay_new(recorded.run, &recorded.replay) < 0 ||
		lw_fit_run(recorded.run, &recorded.fit) < 0)
		fail_msg("%s", lw_error_text());
	return recorded;
}

static void forget(struct recorded *recorded)
{
	lw_fit_done(&recorded->fit);
	lw_replay_free(recorded->replay);
	sim_run_free(recorded->run);
}

static struct lw_mean_step fine(const struct recorded *recorded, const struct lw_whatif *whatif)
{
	struct lw_mean_step answer;

	if (lw_fine_predict(recorded->replay, &recorded->fit, whatif, &answer) < 0)
		fail_msg("%s", lw_error_text());
	return answer;
}

static struct lw_mean_step coarse(const struct recorded *recorded, const struct lw_whatif *whatif)
{
	struct lw_mean_step answer;

	if (lw_coarse_predict(recorded->replay, &recorded->fit, whatif, &answer) < 0)
		fail_msg("%s", lw_error_text());
	return answer;
}

static void assert_near(const char *what, double predicted_ns, double true_ns, double bound_frac)
{
	print_message("%s: true %.2f ms, predicted %.2f (%+.1f %%)\n", what, true_ns / MS,
		predicted_ns / MS, 100 * (predicted_ns / true_ns - 1));
	assert_true(fabs(predicted_ns / true_ns - 1) <= bound_frac);
}

static void the_graph_predicts_other_settings_of_the_loop(void **state)
{
	static const double cycles_ms[] = {2, 5, 20, 50};
	static const uint64_t fusion[] = {0, 1 << 18, 1 << 27};
	struct sim_spec spec = spec_of(4, 5, 1 << 18);
	struct recorded recorded = record(&spec);

	(void)state;
	for (size_t c = 0; c < 4; c++)
		for (size_t q = 0; q < 3; q++) {
			struct lw_whatif whatif = LW_WHATIF_RECORDED;
			char what[64];

			whatif.fusion_bytes = (double)fusion[q];
			whatif.cycle_ns = cycles_ms[c] * MS;
			spec = spec_of(4, cycles_ms[c], fusion[q]);
			snprintf(what, sizeof(what), "Q %llu, cycle %g ms",
				(unsigned long long)fusion[q], cycles_ms[c]);
			assert_near(
				what, fine(&recorded, &whatif).step_ns, sim_median_ns(&spec), 0.01);
		}
	forget(&recorded);
}

static void the_graph_predicts_other_networks(void **state)
{
	struct sim_spec spec = spec_of(4, 5, 1 << 18);
	struct recorded recorded = record(&spec);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;

	(void)state;
	whatif.bandwidth_frac = 2;
	truth.hop.ns_per_byte /= 2;
	assert_near("twice the bandwidth", fine(&recorded, &whatif).step_ns, sim_median_ns(&spec),
		0.01);
	whatif = LW_WHATIF_RECORDED;
	whatif.bandwidth_frac = 0.25;
	truth.hop.ns_per_byte *= 8;
	assert_near("a quarter", fine(&recorded, &whatif).step_ns, sim_median_ns(&spec), 0.01);
	whatif = LW_WHATIF_RECORDED;
	whatif.n_ranks = 8; /* rounds cost 7/3 as much, like an operation without bytes */
	spec = spec_of(8, 5, 1 << 18);
	spec.cost.round_ns *= 7.0 / 3;
	assert_near("8 ranks", fine(&recorded, &whatif).step_ns, sim_median_ns(&spec), 0.01);
	whatif.n_ranks = 48; /* more than the graph holds */
	spec = spec_of(48, 5, 1 << 18);
	spec.cost.round_ns *= 47.0 / 3;
	assert_near("48 ranks", fine(&recorded, &whatif).step_ns, sim_median_ns(&spec), 0.01);
	forget(&recorded);
}

static void one_rank_has_no_network(void **state)
{
	struct sim_spec spec = spec_of(1, 5, 1 << 18);
	struct recorded recorded = record(&spec);

	(void)state;
	assert_near("one rank", fine(&recorded, &LW_WHATIF_RECORDED).step_ns, sim_median_ns(&spec),
		0.01);
	forget(&recorded);
}

static void one_size_says_nothing_of_a_link(void **state)
{
	struct sim_spec spec = spec_of(2, 5, 0);
	uint64_t equal[N_TENSORS];
	struct recorded recorded;
	struct lw_mean_step answer;

	(void)state;
	for (int t = 0; t < N_TENSORS; t++)
		equal[t] = 100000;
	spec.bytes = equal;
	recorded = record(&spec);
	answer = fine(&recorded, &LW_WHATIF_RECORDED);
	assert_true(isnan(answer.step_ns));
	assert_non_null(strstr(answer.why, "one size"));
	/* two phases need no link */
	answer = coarse(&recorded, &LW_WHATIF_RECORDED);
	assert_null(answer.why);
	assert_near("coarse, one size", answer.step_ns, sim_median_ns(&spec), 0.01);
	forget(&recorded);
}

/* It was fitted to the recorded steps, so it meets them; elsewhere it only moves the right way. */
static void two_phases_meet_the_recorded_step(void **state)
{
	static const uint32_t n_ranks[] = {2, 4};
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct sim_spec spec = spec_of(n_ranks[i], 5, 1 << 18);
		struct recorded recorded = record(&spec);
		struct lw_whatif whatif = LW_WHATIF_RECORDED;
		double recorded_ns = coarse(&recorded, &whatif).step_ns, faster_ns;

		assert_near("coarse", recorded_ns, sim_median_ns(&spec), 0.01);
		whatif.bandwidth_frac = 2;
		faster_ns = coarse(&recorded, &whatif).step_ns;
		assert_true(faster_ns < recorded_ns);
		whatif.compute_frac = 0.5;
		assert_true(coarse(&recorded, &whatif).step_ns < faster_ns);
		whatif = LW_WHATIF_RECORDED;
		whatif.n_ranks = 16;
		assert_true(coarse(&recorded, &whatif).step_ns > recorded_ns);
		forget(&recorded);
	}
}

static void sizes_beyond_the_run_are_called_extrapolated(void **state)
{
	struct sim_spec spec = spec_of(4, 5, 1 << 18);
	struct recorded recorded = record(&spec);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;

	(void)state;
	assert_false(fine(&recorded, &whatif).is_extrapolated);
	whatif.cycle_ns = 100 * MS;
	whatif.fusion_bytes = 1 << 27;
	assert_true(fine(&recorded, &whatif).is_extrapolated);
	assert_true(coarse(&recorded, &whatif).is_extrapolated);
	forget(&recorded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_graph_predicts_other_settings_of_the_loop),
		cmocka_unit_test(the_graph_predicts_other_networks),
		cmocka_unit_test(one_rank_has_no_network),
		cmocka_unit_test(one_size_says_nothing_of_a_link),
		cmocka_unit_test(two_phases_meet_the_recorded_step),
		cmocka_unit_test(sizes_beyond_the_run_are_called_extrapolated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
