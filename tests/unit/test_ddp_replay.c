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
#include "analyzer/simulate/stats.h"
#include "base/random.h"
#include "tests/unit/sim_run.h"

enum { N_STEPS = 21, N_RANKS = 2, N_PARAMETERS = 30, N_ROWS = N_STEPS * N_RANKS, KB = 1024 };
static const int64_t MS = 1000000;
static const int64_t ORIGIN_NS = INT64_C(1000000000000);

struct truth {
	double fixed_ns, ns_per_byte;
	struct lw_ddp_setting setting;
	struct lw_ddp_cost cost;
	int64_t clock_shift_ns; /* of rank 1 */
	struct lw_hvd_tensor tensors[N_PARAMETERS];
	int64_t ready_ns[N_ROWS * N_PARAMETERS], blocked_ns[N_ROWS], tail_ns[N_ROWS];
	struct lw_hvd_input input;
};

static double wire_ns(const void *context, const struct lw_hvd_op *op)
{
	const struct truth *truth = context;

	return truth->fixed_ns + truth->ns_per_byte * (double)op->bytes;
}

/* 4.5 MB of gradients, one each 6 ms; the wire takes 40 ns a byte. */
static void make_truth(struct truth *truth, uint64_t cap_bytes)
{
	struct lw_random random = {7};

	memset(truth, 0, sizeof(*truth));
	truth->fixed_ns = 1.5e6;
	truth->ns_per_byte = 40;
	truth->setting = (struct lw_ddp_setting){200 * KB, cap_bytes, 1, false, false, 2};
	truth->cost = (struct lw_ddp_cost){.wire_ns = wire_ns,
		.context = truth,
		.fixed_ns = truth->fixed_ns,
		.sharing = 1,
		.dispatch_ns = 0.2e6,
		.wake_ns = 0.1e6,
		.copy_ns_per_byte = 0.5};
	for (uint32_t t = 0; t < N_PARAMETERS; t++)
		truth->tensors[t] =
			(struct lw_hvd_tensor){t % 2 ? 280 * KB : 16 * KB, LW_DTYPE_FLOAT32};
	for (size_t row = 0; row < N_ROWS; row++) {
		int64_t at_ns = 40 * MS;

		for (uint32_t t = 0; t < N_PARAMETERS; t++) {
			at_ns += 5 * MS + (int64_t)lw_random_below(&random, 2 * MS);
			truth->ready_ns[row * N_PARAMETERS + t] = at_ns;
		}
		truth->blocked_ns[row] = at_ns + MS / 10;
	}
	truth->input = (struct lw_hvd_input){N_RANKS, N_PARAMETERS, N_STEPS, truth->tensors,
		truth->ready_ns, truth->blocked_ns, truth->tail_ns, NULL};
}

static double median_ns(const struct truth *truth)
{
	int64_t step_ns[N_ROWS];
	double means[N_STEPS];

	assert_int_equal(
		lw_ddp_sim_run(&truth->input, &truth->setting, &truth->cost, step_ns, NULL, NULL),
		0);
	for (int s = 1; s < N_STEPS; s++)
		means[s - 1] = (double)(step_ns[s * N_RANKS] + step_ns[s * N_RANKS + 1]) / 2;
	return lw_stats_median(means, N_STEPS - 1);
}

/* ---- the run that a tracer would have recorded ------------------------------------------------------- */

struct recorder {
	struct lw_run *run;
	const struct truth *truth;
	int64_t done_ns[N_PARAMETERS];
	uint64_t bytes[N_PARAMETERS];
	uint32_t n_buckets;
};

static int64_t on_clock(const struct recorder *recorder, uint32_t rank, int64_t at_ns)
{
	return ORIGIN_NS + at_ns + (rank ? recorder->truth->clock_shift_ns : 0);
}

static void record_op(void *context, const struct lw_ddp_op *op)
{
	struct recorder *recorder = context;
	struct lw_group group = {.op = LW_COLL_ALLREDUCE,
		.bytes = op->bytes,
		.n_ranks = N_RANKS,
		.last_start_ns = INT64_MIN,
		.round_ns = LW_NS_UNKNOWN,
		.batch_of_rank = calloc(N_RANKS, sizeof(int32_t))};

	recorder->done_ns[op->bucket] = op->end_ns;
	recorder->bytes[op->bucket] = op->bytes;
	if (op->bucket >= recorder->n_buckets)
		recorder->n_buckets = op->bucket + 1;
	for (uint32_t r = 0; r < N_RANKS; r++) {
		struct lw_rank *rank = &recorder->run->ranks.at[r];
		struct lw_batch one = {.op = LW_COLL_ALLREDUCE,
			.bytes = op->bytes,
			.start_ns = on_clock(recorder, r, op->start_ns[r]),
			.end_ns = on_clock(recorder, r, op->end_ns),
			.wire_start_ns = on_clock(recorder, r, op->start_ns[r]),
			.wire_end_ns = on_clock(recorder, r, op->end_ns),
			.first_member = (uint32_t)rank->members.n,
			.n_members = 1,
			.dtype = LW_DTYPE_FLOAT32,
			.thread_id = r * 10 + op->bucket % 2,
			.step = (int32_t)op->step,
			.group = (int32_t)recorder->run->groups.n};
		struct lw_member member = {
			op->bucket, op->bytes, on_clock(recorder, r, op->queued_ns[r])};

		lw_vec_push(&rank->members, member);
		group.batch_of_rank[r] = (int32_t)rank->batches.n;
		if (one.start_ns > group.last_start_ns)
			group.last_start_ns = one.start_ns;
		lw_vec_push(&rank->batches, one);
	}
	group.last_end_ns = on_clock(recorder, 0, op->end_ns);
	lw_vec_push(&recorder->run->groups, group);
}

static void record_rank(struct recorder *recorder, uint32_t r, struct lw_step *step)
{
	struct lw_rank *rank = &recorder->run->ranks.at[r];
	const struct truth *truth = recorder->truth;
	const int64_t *ready_ns = truth->ready_ns + (rank->steps.n * N_RANKS + r) * N_PARAMETERS;
	double now_ns = (double)(step->blocked_ns - on_clock(recorder, r, 0));

	step->first_batch = (uint32_t)rank->batches.n - recorder->n_buckets;
	step->n_batches = recorder->n_buckets;
	for (uint32_t t = 0; t < N_PARAMETERS; t++) {
		struct lw_gradient gradient = {step->start_ns + ready_ns[t], 0, t};

		lw_vec_push(&rank->gradients, gradient);
		step->last_ready_ns = gradient.at_ns;
	}
	for (uint32_t b = 0; b < recorder->n_buckets; b++) {
		struct lw_interval wait;

		wait.start_ns = on_clock(recorder, r, (int64_t)llround(now_ns));
		now_ns = fmax(now_ns, (double)recorder->done_ns[b] + truth->cost.wake_ns);
		wait.end_ns = on_clock(recorder, r, (int64_t)llround(now_ns));
		now_ns += truth->cost.copy_ns_per_byte * (double)recorder->bytes[b];
		if (wait.end_ns > step->resumed_ns)
			wait.end_ns = step->resumed_ns;
		lw_vec_push(&rank->waits, wait);
	}
	lw_vec_push(&rank->steps, *step);
}

static void record_step(void *context, uint32_t s, const int64_t *start_ns,
	const int64_t *blocked_ns, const int64_t *resumed_ns, const int64_t *end_ns)
{
	struct recorder *recorder = context;

	for (uint32_t r = 0; r < N_RANKS; r++) {
		struct lw_step step = {.start_ns = on_clock(recorder, r, start_ns[r]),
			.end_ns = on_clock(recorder, r, end_ns[r]),
			.excluded = s == 0 ? "warm-up" : NULL,
			.blocked_ns = on_clock(recorder, r, blocked_ns[r]),
			.resumed_ns = on_clock(recorder, r, resumed_ns[r])};

		record_rank(recorder, r, &step);
	}
}

static struct lw_run *record(const struct truth *truth)
{
	static const char *const hosts[] = {"a", "b"};
	static char names[2 * N_PARAMETERS][24];
	struct recorder recorder = {.run = calloc(1, sizeof(struct lw_run)), .truth = truth};
	struct lw_ddp_observer observer = {record_op, record_step, &recorder};
	int64_t step_ns[N_ROWS];

	recorder.run->size = N_RANKS;
	for (uint32_t t = 0; t < 2 * N_PARAMETERS; t++) {
		struct lw_tensor tensor = {names[t], 0, LW_DTYPE_FLOAT32};

		snprintf(names[t], sizeof(names[t]), "%s.%u",
			t < N_PARAMETERS ? "bucket" : "parameter", t % N_PARAMETERS);
		lw_vec_push(&recorder.run->tensors, tensor);
	}
	for (uint32_t r = 0; r < N_RANKS; r++) {
		struct lw_rank rank = {.rank = (int32_t)r,
			.host = (char *)(uintptr_t)hosts[r],
			.framework = LW_FRAMEWORK_TORCH_DDP,
			.transport = LW_TRANSPORT_GLOO,
			.clock = truth->clock_shift_ns ? r : 0};

		for (size_t i = 0; i < sizeof(rank.setting) / sizeof(rank.setting[0]); i++)
			rank.setting[i] = NAN;
		rank.setting[LW_SETTING_BUCKET_CAP_BYTES] = (double)truth->setting.cap_bytes;
		rank.setting[LW_SETTING_FIRST_BUCKET_BYTES] = (double)truth->setting.first_bytes;
		for (uint32_t t = 0; t < N_PARAMETERS; t++) {
			struct lw_parameter parameter = {
				0, t, N_PARAMETERS + t, truth->tensors[t].bytes, LW_DTYPE_FLOAT32};

			lw_vec_push(&rank.parameters, parameter);
		}
		lw_vec_push(&recorder.run->ranks, rank);
	}
	assert_int_equal(lw_ddp_sim_run(&truth->input, &truth->setting, &truth->cost, step_ns, NULL,
				 &observer),
		0);
	return recorder.run;
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
	static struct truth truth;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	make_truth(&truth, 600 * KB);
	run = record(&truth);
	replay = replay_of(run);
	assert_null(replay->ddp.why_fixed);
	assert_false(replay->ddp.setting.is_static);
	assert_int_equal(replay->input.n_tensors, N_PARAMETERS);
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
	static const uint64_t caps_bytes[] = {100 * KB, 300 * KB, 600 * KB, 1500 * KB, 25000 * KB};
	static struct truth truth, other;
	struct lw_replay *replay;
	struct lw_run *run;

	make_truth(&truth, recorded_bytes);
	truth.cost.sharing = sharing;
	run = record(&truth);
	replay = replay_of(run);
	for (size_t i = 0; i < sizeof(caps_bytes) / sizeof(caps_bytes[0]); i++) {
		struct lw_prediction found = predict(replay, caps_bytes[i], 0);
		double true_ns;

		make_truth(&other, caps_bytes[i]);
		other.cost.sharing = sharing;
		true_ns = median_ns(&other);
		printf("recorded %5.0f KiB, sharing %.1f: %5.0f KiB takes %.1f ms, predicted %.1f (%.0f to %.0f)%s\n",
			(double)recorded_bytes / KB, sharing, (double)caps_bytes[i] / KB,
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
	check_limits(300 * KB, 1, 0.01);
	check_limits(600 * KB, 1, 0.01);
	check_limits(300 * KB, 1.5, 0.01);
	check_limits(25000 * KB, 1, 0.01); /* nothing overlaps in this run */
	check_limits(25000 * KB, 1.5, 0.03);
}

static void the_first_bucket_has_its_own_limit(void **state)
{
	static struct truth truth, other;
	struct lw_prediction found;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	make_truth(&truth, 600 * KB);
	make_truth(&other, 600 * KB);
	other.setting.first_bytes = 600 * KB;
	run = record(&truth);
	replay = replay_of(run);
	found = predict(replay, 0, 600 * KB);
	assert_true(fabs(found.step_ns.value / median_ns(&other) - 1) < 0.01);
	assert_true(found.first_bucket_bytes == 600 * KB && found.bucket_cap_bytes == 600 * KB);
	assert_false(found.is_recorded);
	assert_true(predict(replay, 600 * KB, 200 * KB).is_recorded);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void buckets_that_are_never_rebuilt_are_recognized(void **state)
{
	static struct truth truth;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	make_truth(&truth, 600 * KB);
	truth.setting.is_static = true;
	/* registered in the opposite order: the last is complete first */
	for (size_t row = 0; row < N_ROWS; row++)
		for (uint32_t t = 0; t < N_PARAMETERS / 2; t++) {
			int64_t *ready_ns = truth.ready_ns + row * N_PARAMETERS, kept = ready_ns[t];

			ready_ns[t] = ready_ns[N_PARAMETERS - 1 - t];
			ready_ns[N_PARAMETERS - 1 - t] = kept;
		}
	run = record(&truth);
	for (uint32_t r = 0; r < N_RANKS; r++)
		for (size_t s = 0; s < run->ranks.at[r].steps.n; s++)
			run->ranks.at[r].steps.at[s].last_ready_ns =
				run->ranks.at[r].steps.at[s].blocked_ns;
	for (uint32_t r = 0; r < N_RANKS; r++) { /* by time, as they are loaded */
		struct lw_rank *rank = &run->ranks.at[r];

		for (size_t i = 0; i < rank->gradients.n; i += N_PARAMETERS)
			for (size_t k = 0; k < N_PARAMETERS / 2; k++) {
				struct lw_gradient *own = rank->gradients.at + i, kept = own[k];

				own[k] = own[N_PARAMETERS - 1 - k];
				own[N_PARAMETERS - 1 - k] = kept;
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
	static struct truth truth, other;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	make_truth(&truth, 600 * KB);
	make_truth(&other, 300 * KB);
	truth.setting.wire_frac = other.setting.wire_frac = 0.5;
	for (uint32_t t = 0; t < N_PARAMETERS; t++)
		other.tensors[t].bytes = truth.tensors[t].bytes /= 2;
	run = record(&truth);
	for (uint32_t r = 0; r < N_RANKS; r++)
		for (uint32_t t = 0; t < N_PARAMETERS; t++)
			run->ranks.at[r].parameters.at[t].bytes *= 2;
	replay = replay_of(run);
	assert_null(replay->ddp.why_fixed);
	assert_true(fabs(replay->ddp.setting.wire_frac - 0.5) < 1e-9);
	assert_true(
		fabs(predict(replay, 300 * KB, 0).step_ns.value / median_ns(&other) - 1) < 0.01);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void ranks_on_two_clocks_are_reproduced(void **state)
{
	static struct truth truth;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	make_truth(&truth, 600 * KB);
	truth.clock_shift_ns = INT64_C(987654321000);
	run = record(&truth);
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
	static struct truth truth;
	struct lw_run *run;

	(void)state;
	make_truth(&truth, 600 * KB);
	run = record(&truth); /* older runs hold no gradients */
	run->ranks.at[1].gradients.n = 0;
	refuses(run, "when each gradient was complete is not in this run");
	run = record(&truth); /* one record is lost */
	run->ranks.at[0].gradients.at[5 * N_PARAMETERS + 3].reducer = 9;
	refuses(run, "when each gradient was complete is not in this run");
	run = record(&truth); /* another rule */
	run->ranks.at[0].parameters.at[4].bytes += 4;
	refuses(run, "not those that torch's rule makes");
	run = record(&truth);
	run->tensors.at[1].name = "ddp1.bucket.0";
	refuses(run, "several DDP models");
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
	static struct truth truth;
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;
	struct lw_run *run;

	(void)state;
	make_truth(&truth, 600 * KB);
	spec.cost.context = &truth;
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
		cmocka_unit_test(horovod_has_no_buckets),
	};

	return cmocka_run_group_tests_name("ddp_replay", tests, NULL, NULL);
}
