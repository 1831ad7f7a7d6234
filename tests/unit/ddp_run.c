/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/ddp_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/stats.h"
#include "base/random.h"

static const int64_t MS = 1000000;
static const int64_t ORIGIN_NS = INT64_C(1000000000000);

static double wire_ns(const void *context, const struct lw_hvd_op *op)
{
	const struct ddp_truth *truth = context;

	return truth->fixed_ns + truth->ns_per_byte * (double)op->bytes;
}

void ddp_truth_make(struct ddp_truth *truth, uint64_t cap_bytes)
{
	struct lw_random random = {7};

	memset(truth, 0, sizeof(*truth));
	truth->fixed_ns = 1.5e6;
	truth->ns_per_byte = 40;
	truth->setting = (struct lw_ddp_setting){200 * KIB, cap_bytes, 1, false, false, 2};
	truth->cost = (struct lw_ddp_cost){.wire_ns = wire_ns,
		.context = truth,
		.fixed_ns = truth->fixed_ns,
		.sharing = 1,
		.dispatch_ns = 0.2e6,
		.wake_ns = 0.1e6,
		.copy_ns_per_byte = 0.5};
	for (uint32_t t = 0; t < DDP_PARAMETERS; t++)
		truth->tensors[t] =
			(struct lw_hvd_tensor){t % 2 ? 280 * KIB : 16 * KIB, LW_DTYPE_FLOAT32};
	for (size_t row = 0; row < DDP_ROWS; row++) {
		int64_t at_ns = 40 * MS;

		for (uint32_t t = 0; t < DDP_PARAMETERS; t++) {
			at_ns += 5 * MS + (int64_t)lw_random_below(&random, 2 * MS);
			truth->ready_ns[row * DDP_PARAMETERS + t] = at_ns;
		}
		truth->blocked_ns[row] = at_ns + MS / 10;
	}
	truth->input = (struct lw_hvd_input){DDP_RANKS, DDP_PARAMETERS, DDP_STEPS, truth->tensors,
		truth->ready_ns, truth->blocked_ns, truth->tail_ns, NULL};
}

double ddp_truth_median_ns(const struct ddp_truth *truth)
{
	int64_t step_ns[DDP_ROWS];
	double means[DDP_STEPS];

	if (lw_ddp_sim_run(&truth->input, &truth->setting, &truth->cost, step_ns, NULL, NULL) < 0)
		abort();
	for (int s = 1; s < DDP_STEPS; s++)
		means[s - 1] = (double)(step_ns[s * DDP_RANKS] + step_ns[s * DDP_RANKS + 1]) / 2;
	return lw_stats_median(means, DDP_STEPS - 1);
}

/* ---- the run that a tracer would have recorded ------------------------------------------------------- */

struct recorder {
	struct lw_run *run;
	const struct ddp_truth *truth;
	int64_t done_ns[DDP_PARAMETERS];
	uint64_t bytes[DDP_PARAMETERS];
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
		.n_ranks = DDP_RANKS,
		.last_start_ns = INT64_MIN,
		.round_ns = LW_NS_UNKNOWN,
		.batch_of_rank = calloc(DDP_RANKS, sizeof(int32_t))};

	recorder->done_ns[op->bucket] = op->end_ns;
	recorder->bytes[op->bucket] = op->bytes;
	if (op->bucket >= recorder->n_buckets)
		recorder->n_buckets = op->bucket + 1;
	for (uint32_t r = 0; r < DDP_RANKS; r++) {
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
		struct lw_member member = {op->bucket, op->bytes,
			on_clock(recorder, r, op->queued_ns[r]), LW_NS_UNKNOWN};

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
	const struct ddp_truth *truth = recorder->truth;
	const int64_t *ready_ns =
		truth->ready_ns + (rank->steps.n * DDP_RANKS + r) * DDP_PARAMETERS;
	double now_ns = (double)(step->blocked_ns - on_clock(recorder, r, 0));

	step->first_batch = (uint32_t)rank->batches.n - recorder->n_buckets;
	step->n_batches = recorder->n_buckets;
	for (uint32_t t = 0; t < DDP_PARAMETERS; t++) {
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

	for (uint32_t r = 0; r < DDP_RANKS; r++) {
		struct lw_step step = {.start_ns = on_clock(recorder, r, start_ns[r]),
			.end_ns = on_clock(recorder, r, end_ns[r]),
			.excluded = s == 0 ? "warm-up" : NULL,
			.blocked_ns = on_clock(recorder, r, blocked_ns[r]),
			.resumed_ns = on_clock(recorder, r, resumed_ns[r])};

		record_rank(recorder, r, &step);
	}
}

struct lw_run *ddp_run_new(const struct ddp_truth *truth)
{
	static const char *const hosts[] = {"a", "b"};
	static char names[2 * DDP_PARAMETERS][24];
	struct recorder recorder = {.run = calloc(1, sizeof(struct lw_run)), .truth = truth};
	struct lw_ddp_observer observer = {record_op, record_step, &recorder};
	int64_t step_ns[DDP_ROWS];

	recorder.run->size = DDP_RANKS;
	for (uint32_t t = 0; t < 2 * DDP_PARAMETERS; t++) {
		struct lw_tensor tensor = {names[t], 0, LW_DTYPE_FLOAT32};

		snprintf(names[t], sizeof(names[t]), "%s.%u",
			t < DDP_PARAMETERS ? "bucket" : "parameter", t % DDP_PARAMETERS);
		lw_vec_push(&recorder.run->tensors, tensor);
	}
	for (uint32_t r = 0; r < DDP_RANKS; r++) {
		struct lw_rank rank = {.rank = (int32_t)r,
			.host = (char *)(uintptr_t)hosts[r],
			.framework = LW_FRAMEWORK_TORCH_DDP,
			.transport = LW_TRANSPORT_GLOO,
			.clock = truth->clock_shift_ns ? r : 0};

		for (size_t i = 0; i < sizeof(rank.setting) / sizeof(rank.setting[0]); i++)
			rank.setting[i] = NAN;
		rank.setting[LW_SETTING_BUCKET_CAP_BYTES] = (double)truth->setting.cap_bytes;
		rank.setting[LW_SETTING_FIRST_BUCKET_BYTES] = (double)truth->setting.first_bytes;
		for (uint32_t t = 0; t < DDP_PARAMETERS; t++) {
			struct lw_parameter parameter = {0, t, DDP_PARAMETERS + t,
				truth->tensors[t].bytes, LW_DTYPE_FLOAT32};

			lw_vec_push(&rank.parameters, parameter);
		}
		lw_vec_push(&recorder.run->ranks, rank);
	}
	if (lw_ddp_sim_run(&truth->input, &truth->setting, &truth->cost, step_ns, NULL, &observer) <
		0)
		abort();
	return recorder.run;
}
