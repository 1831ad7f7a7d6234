/* SPDX-License-Identifier: Apache-2.0 */
/* A DDP run that the simulator made, taken apart and predicted, against the truth it was made of. */
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
#include "tests/unit/ddp_run.h"
#include "tests/unit/sim_run.h"

static const int64_t MS = 1000000;

static double wire_ns(const void *context, const struct lw_hvd_op *op)
{
	(void)context;
	return 1.5e6 + 40 * (double)op->bytes;
}

static struct lw_replay *replay_of(struct lw_run *run)
{
	struct lw_replay *replay = NULL;

	if (lw_replay_new(run, &replay) < 0)
		fail_msg("%s", lw_error_text());
	return replay;
}

static struct lw_prediction predict(
	struct lw_replay *replay, uint64_t cap_bytes, uint64_t first_bytes)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;

	whatif.bucket_cap_bytes = (double)cap_bytes;
	whatif.first_bucket_bytes = (double)first_bytes;
	if (lw_replay_predict(replay, &whatif, &prediction, NULL) < 0)
		fail_msg("%s", lw_error_text());
	return prediction;
}

/* ---- tests -------------------------------------------------------------------------------------------- */

static void a_run_is_reproduced_and_its_parts_are_found(void **state)
{
	static struct ddp_truth truth;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	ddp_truth_make(&truth, 600 * KIB);
	run = ddp_run_new(&truth);
	replay = replay_of(run);
	assert_null(replay->ddp.why_fixed);
	assert_false(replay->ddp.setting.is_static);
	assert_int_equal(replay->input.n_tensors, DDP_PARAMETERS);
	assert_string_equal(run->tensors.at[replay->tensor_of[3]].name, "parameter.3");
	assert_true(fabs(replay->ddp.setting.wire_frac - 1) < 1e-9);
	assert_true(fabs(replay->ddp.cost.dispatch_ns - 0.2e6) < 5e3);
	assert_true(fabs(replay->ddp.cost.wake_ns - 0.1e6) < 5e3);
	assert_true(fabs(replay->ddp.cost.copy_ns_per_byte - 0.5) < 0.01);
	printf("replay off by %.3f %%, fixed %.2f ms, sharing %.2f (%.2f to %.2f)\n",
		100 * replay->error_frac, replay->ddp.cost.fixed_ns / 1e6, replay->ddp.cost.sharing,
		replay->ddp.sharing_low, replay->ddp.sharing_high);
	assert_true(replay->error_frac < 0.003);
	assert_true(fabs(replay->ddp.cost.fixed_ns - truth.fixed_ns) < 0.5e6);
	lw_replay_free(replay);
	sim_run_free(run);
}

/* What @recorded_bytes says of other limits, where operations at a time get @sharing done. */
static void check_limits(uint64_t recorded_bytes, double sharing, double bound_frac)
{
	static const uint64_t caps_bytes[] = {
		100 * KIB, 300 * KIB, 600 * KIB, 1500 * KIB, 25000 * KIB};
	static struct ddp_truth truth, other;
	struct lw_replay *replay;
	struct lw_run *run;

	ddp_truth_make(&truth, recorded_bytes);
	truth.cost.sharing = sharing;
	run = ddp_run_new(&truth);
	replay = replay_of(run);
	for (size_t i = 0; i < sizeof(caps_bytes) / sizeof(caps_bytes[0]); i++) {
		struct lw_prediction found = predict(replay, caps_bytes[i], 0);
		double true_ns;

		ddp_truth_make(&other, caps_bytes[i]);
		other.cost.sharing = sharing;
		true_ns = ddp_truth_median_ns(&other);
		printf("recorded %5.0f KiB, sharing %.1f: %5.0f KiB takes %.1f ms, predicted %.1f (%.0f to %.0f)%s\n",
			(double)recorded_bytes / KIB, sharing, (double)caps_bytes[i] / KIB,
			true_ns / 1e6, found.step_ns.value / 1e6, found.step_ns.low / 1e6,
			found.step_ns.high / 1e6, found.is_extrapolated ? ", extrapolated" : "");
		assert_true(found.step_ns.low <= true_ns && true_ns <= found.step_ns.high);
		assert_int_equal(found.is_recorded, caps_bytes[i] == recorded_bytes);
		if (!found.is_extrapolated)
			assert_true(fabs(found.step_ns.value / true_ns - 1) < bound_frac);
	}
	lw_replay_free(replay);
	sim_run_free(run);
}

static void other_limits_are_predicted(void **state)
{
	(void)state;
	check_limits(300 * KIB, 1, 0.01);
	check_limits(600 * KIB, 1, 0.01);
	check_limits(300 * KIB, 1.5, 0.01);
	check_limits(25000 * KIB, 1, 0.01); /* nothing overlaps in this run */
	check_limits(25000 * KIB, 1.5, 0.03);
}

static void the_first_bucket_has_its_own_limit(void **state)
{
	static struct ddp_truth truth, other;
	struct lw_prediction found;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	ddp_truth_make(&truth, 600 * KIB);
	ddp_truth_make(&other, 600 * KIB);
	other.setting.first_bytes = 600 * KIB;
	run = ddp_run_new(&truth);
	replay = replay_of(run);
	found = predict(replay, 0, 600 * KIB);
	assert_true(fabs(found.step_ns.value / ddp_truth_median_ns(&other) - 1) < 0.01);
	assert_true(found.first_bucket_bytes == 600 * KIB && found.bucket_cap_bytes == 600 * KIB);
	assert_false(found.is_recorded);
	assert_true(predict(replay, 600 * KIB, 200 * KIB).is_recorded);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void buckets_that_are_never_rebuilt_are_recognized(void **state)
{
	static struct ddp_truth truth;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	ddp_truth_make(&truth, 600 * KIB);
	truth.setting.is_static = true;
	/* registered in the opposite order: the last is complete first */
	for (size_t row = 0; row < DDP_ROWS; row++)
		for (uint32_t t = 0; t < DDP_PARAMETERS / 2; t++) {
			int64_t *ready_ns = truth.ready_ns + row * DDP_PARAMETERS,
				kept = ready_ns[t];

			ready_ns[t] = ready_ns[DDP_PARAMETERS - 1 - t];
			ready_ns[DDP_PARAMETERS - 1 - t] = kept;
		}
	run = ddp_run_new(&truth);
	for (uint32_t r = 0; r < DDP_RANKS; r++)
		for (size_t s = 0; s < run->ranks.at[r].steps.n; s++)
			run->ranks.at[r].steps.at[s].last_ready_ns =
				run->ranks.at[r].steps.at[s].blocked_ns;
	for (uint32_t r = 0; r < DDP_RANKS; r++) { /* by time, as they are loaded */
		struct lw_rank *rank = &run->ranks.at[r];

		for (size_t i = 0; i < rank->gradients.n; i += DDP_PARAMETERS)
			for (size_t k = 0; k < DDP_PARAMETERS / 2; k++) {
				struct lw_gradient *own = rank->gradients.at + i, kept = own[k];

				own[k] = own[DDP_PARAMETERS - 1 - k];
				own[DDP_PARAMETERS - 1 - k] = kept;
			}
	}
	replay = replay_of(run);
	assert_null(replay->ddp.why_fixed);
	assert_true(replay->ddp.setting.is_static);
	assert_true(replay->error_frac < 0.003);
	lw_replay_free(replay);
	sim_run_free(run);
}

/* A communication hook that sends half: buckets are as full as without it. */
static void compressed_gradients_are_recognized(void **state)
{
	static struct ddp_truth truth, other;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	ddp_truth_make(&truth, 600 * KIB);
	ddp_truth_make(&other, 300 * KIB);
	truth.setting.wire_frac = other.setting.wire_frac = 0.5;
	for (uint32_t t = 0; t < DDP_PARAMETERS; t++)
		other.tensors[t].bytes = truth.tensors[t].bytes /= 2;
	run = ddp_run_new(&truth);
	for (uint32_t r = 0; r < DDP_RANKS; r++)
		for (uint32_t t = 0; t < DDP_PARAMETERS; t++)
			run->ranks.at[r].parameters.at[t].bytes *= 2;
	replay = replay_of(run);
	assert_null(replay->ddp.why_fixed);
	assert_true(fabs(replay->ddp.setting.wire_frac - 0.5) < 1e-9);
	assert_true(fabs(predict(replay, 300 * KIB, 0).step_ns.value / ddp_truth_median_ns(&other) -
			    1) < 0.01);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void ranks_on_two_clocks_are_reproduced(void **state)
{
	static struct ddp_truth truth;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	ddp_truth_make(&truth, 600 * KIB);
	truth.clock_shift_ns = INT64_C(987654321000);
	run = ddp_run_new(&truth);
	replay = replay_of(run);
	printf("two clocks: replay off by %.2f %%\n", 100 * replay->error_frac);
	assert_null(replay->ddp.why_fixed);
	assert_true(replay->error_frac < 0.02);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void refuses(struct lw_run *run, const char *why)
{
	struct lw_replay *replay = replay_of(run);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;

	assert_non_null(strstr(replay->ddp.why_fixed, why));
	assert_true(replay->error_frac < 0.01); /* it is replayed, bucket by bucket */
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	assert_true(prediction.is_recorded);
	whatif.bucket_cap_bytes = 1 << 20;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), LW_ERR_UNSUPPORTED);
	assert_non_null(strstr(lw_error_text(), why));
	lw_replay_free(replay);
	sim_run_free(run);
}

static void buckets_that_cannot_be_explained_stay_as_they_are(void **state)
{
	static struct ddp_truth truth;
	struct lw_run *run;

	(void)state;
	ddp_truth_make(&truth, 600 * KIB);
	run = ddp_run_new(&truth); /* older runs hold no gradients */
	run->ranks.at[1].gradients.n = 0;
	refuses(run, "when each gradient was complete is not in this run");
	run = ddp_run_new(&truth); /* one record is lost */
	run->ranks.at[0].gradients.at[5 * DDP_PARAMETERS + 3].reducer = 9;
	refuses(run, "when each gradient was complete is not in this run");
	run = ddp_run_new(&truth); /* another rule */
	run->ranks.at[0].parameters.at[4].bytes += 4;
	refuses(run, "not those that torch's rule makes");
	run = ddp_run_new(&truth);
	run->tensors.at[1].name = "ddp1.bucket.0";
	refuses(run, "several DDP models");
}

/* Buckets of 4 MB only; the probe has seen small ones. */
static void a_probe_tells_what_small_buckets_cost(void **state)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	static struct ddp_truth truth;
	struct lw_prediction prediction;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	ddp_truth_make(&truth, 25000 * KIB);
	run = ddp_run_new(&truth);
	for (uint32_t k = 0; k < 200; k++) {
		uint64_t bytes = UINT64_C(8) << 2 * (k % 10);
		int64_t ns = (int64_t)(truth.fixed_ns + truth.ns_per_byte * (double)bytes);

		struct lw_probe_op probe = {LW_COLL_ALLREDUCE, LW_TRANSPORT_GLOO, bytes,
			(int64_t)k * 1000000000, (int64_t)k * 1000000000 + ns, 0, k / 10, 1};

		lw_vec_push(&run->probes, probe);
	}
	assert_int_equal(lw_replay_new(run, &replay), 0);
	whatif.bucket_cap_bytes = 100 * KIB;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	assert_true(lw_wire_knows(&replay->wire, 100 * KIB, false));
	assert_true(fabs(lw_wire_mean_ns(&replay->wire, 100 * KIB, 0) /
				    (truth.fixed_ns + truth.ns_per_byte * 100 * KIB) -
			    1) < 0.02);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void horovod_has_no_buckets(void **state)
{
	static const uint64_t bytes[] = {100000, 100000, 100000};
	struct sim_spec spec = {.n_ranks = 2,
		.n_tensors = 3,
		.n_steps = 10,
		.bytes = bytes,
		.forward_ns = 10 * MS,
		.gap_ns = 5 * MS,
		.setting = {1 << 20, 5 * MS, 1, false},
		.cost = {.wire_ns = wire_ns, .round_ns = 100e3}};
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	run = sim_run_new(&spec);
	replay = replay_of(run);
	whatif.bucket_cap_bytes = 1 << 20;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), LW_ERR_UNSUPPORTED);
	lw_replay_free(replay);
	sim_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_reproduced_and_its_parts_are_found),
		cmocka_unit_test(other_limits_are_predicted),
		cmocka_unit_test(the_first_bucket_has_its_own_limit),
		cmocka_unit_test(buckets_that_are_never_rebuilt_are_recognized),
		cmocka_unit_test(compressed_gradients_are_recognized),
		cmocka_unit_test(ranks_on_two_clocks_are_reproduced),
		cmocka_unit_test(buckets_that_cannot_be_explained_stay_as_they_are),
		cmocka_unit_test(a_probe_tells_what_small_buckets_cost),
		cmocka_unit_test(horovod_has_no_buckets),
	};

	return cmocka_run_group_tests_name("ddp_replay", tests, NULL, NULL);
}
