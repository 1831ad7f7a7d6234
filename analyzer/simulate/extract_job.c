/* SPDX-License-Identifier: Apache-2.0 */
/* extract_job.c - the job as the simulator wants it: tensors in cache order, ready times by step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/extract.h"
#include "base/units.h"

enum {
	MIN_STEPS = 3,
	DEFAULT_FUSION_BYTES = 128 << 20, /* Horovod 0.21 and later */
	NOT_SEEN = UINT32_MAX,
};

bool lw_extract_is_counted(const struct lw_run *run, size_t step)
{
	for (size_t r = 0; r < run->ranks.n; r++)
		if (step >= run->ranks.at[r].steps.n || run->ranks.at[r].steps.at[step].excluded)
			return false;
	return true;
}

static bool is_sent(const struct lw_batch *batch)
{
	return batch->op != LW_COLL_JOIN && batch->op != LW_COLL_BARRIER &&
	       batch->op != LW_COLL_ERROR;
}

/* Only equal responses fuse, and only these operations do. */
static int32_t fuse_class(const struct lw_batch *batch)
{
	if (batch->op != LW_COLL_ALLREDUCE && batch->op != LW_COLL_ADASUM &&
		batch->op != LW_COLL_REDUCESCATTER && batch->op != LW_COLL_ALLGATHER)
		return -1;
	return lw_fuse_class(batch->op, batch->process_set, batch->dtype);
}

/* Cache bits are given out in the order of first execution, which is the same on all ranks.
 * Fills tensors and tensor_of; @input_of maps run tensors to them. */
static int find_tensors(const struct lw_run *run, struct lw_replay *replay, uint32_t *input_of)
{
	const struct lw_rank *rank = &run->ranks.at[0];
	uint32_t n = 0;

	for (size_t b = 0; b < rank->batches.n; b++) {
		const struct lw_batch *batch = &rank->batches.at[b];

		for (uint32_t m = 0; m < batch->n_members && is_sent(batch); m++) {
			const struct lw_member *member = &rank->members.at[batch->first_member + m];
			uint64_t bytes = member->bytes ? member->bytes
						       : run->tensors.at[member->tensor].bytes;

			if (input_of[member->tensor] == NOT_SEEN) {
				replay->tensor_of[n] = member->tensor;
				input_of[member->tensor] = n++;
			}
			replay->tensors[input_of[member->tensor]] = (struct lw_hvd_tensor){
				bytes, replay->is_ddp ? -1 : fuse_class(batch)};
			replay->dtypes[input_of[member->tensor]] = (uint8_t)batch->dtype;
		}
	}
	if (n == 0)
		return lw_fail(LW_ERR_LIMIT,
			"the run holds no batch of gradients, so there is nothing to replay");
	replay->input.n_tensors = n;
	return LW_OK;
}

/* One step of one rank. Return: members without a ready time. */
static uint32_t take_step(const struct lw_rank *rank, const struct lw_step *step,
	const uint32_t *input_of, struct lw_replay *replay, size_t row)
{
	int64_t *ready_ns = replay->ready_ns + row * replay->input.n_tensors;
	int64_t last_ns = 0;
	uint32_t n_unknown = 0;

	for (uint32_t t = 0; t < replay->input.n_tensors; t++)
		ready_ns[t] = LW_HVD_NOT_IN_STEP;
	for (uint32_t b = step->first_batch; b < step->first_batch + step->n_batches; b++) {
		const struct lw_batch *batch = &rank->batches.at[b];

		for (uint32_t m = 0; m < batch->n_members && is_sent(batch); m++) {
			const struct lw_member *member = &rank->members.at[batch->first_member + m];
			int64_t at_ns;

			if (member->ready_ns == LW_NS_UNKNOWN ||
				input_of[member->tensor] == NOT_SEEN) {
				n_unknown++;
				continue;
			}
			at_ns = member->ready_ns - step->start_ns;
			if (at_ns < 0) {
				at_ns = 0;
				replay->n_clamped++;
			}
			ready_ns[input_of[member->tensor]] = at_ns;
			last_ns = at_ns > last_ns ? at_ns : last_ns;
		}
	}
	replay->blocked_ns[row] =
		step->blocked_ns == LW_NS_UNKNOWN ? last_ns : step->blocked_ns - step->start_ns;
	if (replay->blocked_ns[row] < 0)
		replay->blocked_ns[row] = last_ns;
	if (step->resumed_ns != LW_NS_UNKNOWN)
		replay->tail_ns[row] = step->end_ns - step->resumed_ns;
	else if (step->n_batches > 0)
		replay->tail_ns[row] =
			step->end_ns -
			rank->batches.at[step->first_batch + step->n_batches - 1].end_ns;
	if (replay->tail_ns[row] < 0)
		replay->tail_ns[row] = 0;
	return n_unknown;
}

/* A tensor that some ranks sent in this step and others did not cannot be replayed. */
static uint32_t drop_partial(struct lw_replay *replay, uint32_t step)
{
	uint32_t n_ranks = replay->input.n_ranks, n_tensors = replay->input.n_tensors,
		 n_dropped = 0;

	for (uint32_t t = 0; t < n_tensors; t++) {
		int64_t *first = replay->ready_ns + (size_t)step * n_ranks * n_tensors + t;
		uint32_t n_has = 0;

		for (uint32_t r = 0; r < n_ranks; r++)
			n_has += first[(size_t)r * n_tensors] >= 0;
		if (n_has == 0 || n_has == n_ranks)
			continue;
		for (uint32_t r = 0; r < n_ranks; r++)
			first[(size_t)r * n_tensors] = LW_HVD_NOT_IN_STEP;
		n_dropped++;
	}
	return n_dropped;
}

static int take_steps(struct lw_run *run, struct lw_replay *replay, const uint32_t *input_of)
{
	uint32_t n_ranks = replay->input.n_ranks, n_out = 0, n_dropped = 0;
	uint64_t n_unknown = 0, n_batches = 0, n_members = 0;

	for (size_t s = 0; s < run->ranks.at[0].steps.n; s++) {
		double sum_ns = 0;

		if (!lw_extract_is_counted(run, s))
			continue;
		for (uint32_t r = 0; r < n_ranks; r++) {
			const struct lw_rank *rank = &run->ranks.at[r];
			const struct lw_step *step = &rank->steps.at[s];

			n_unknown += take_step(
				rank, step, input_of, replay, ((size_t)n_out + 1) * n_ranks + r);
			sum_ns += (double)(step->end_ns - step->start_ns);
		}
		n_dropped += drop_partial(replay, n_out + 1);
		replay->recorded_step_ns[n_out++] = sum_ns / n_ranks;
		n_batches += run->ranks.at[0].steps.at[s].n_batches;
	}
	replay->n_steps = n_out;
	replay->input.n_steps = n_out + 1;
	for (size_t i = (size_t)n_ranks * replay->input.n_tensors;
		i < (size_t)(n_out + 1) * n_ranks * replay->input.n_tensors; i++)
		n_members += replay->ready_ns[i] >= 0;
	if (n_members == 0)
		return lw_fail(LW_ERR_LIMIT,
			"no tensor has a ready time, so steps cannot be replayed under other settings");
	replay->batches_per_step = (double)n_batches / n_out;
	if (n_unknown)
		lw_run_diag(run, "simulate", "unknown_ready", n_unknown,
			"tensors without a ready time are left out of the replay");
	if (n_dropped)
		lw_run_diag(run, "simulate", "partial_tensor", n_dropped,
			"tensors that not all ranks sent in a step are left out of the replay");
	return LW_OK;
}

/* The first counted step once more in front, to bring the loop into its rhythm. */
static void double_first(struct lw_replay *replay)
{
	size_t n_ranks = replay->input.n_ranks, n_row = n_ranks * replay->input.n_tensors;

	memcpy(replay->ready_ns, replay->ready_ns + n_row, n_row * sizeof(*replay->ready_ns));
	memcpy(replay->blocked_ns, replay->blocked_ns + n_ranks, n_ranks * sizeof(int64_t));
	memcpy(replay->tail_ns, replay->tail_ns + n_ranks, n_ranks * sizeof(int64_t));
}

/* Ranks on a host, 0 where hosts differ: Horovod rounds the threshold with it. */
static uint32_t find_local_size(const struct lw_run *run)
{
	uint32_t size = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		uint32_t n = 0;

		for (size_t other = 0; other < run->ranks.n; other++)
			n += !strcmp(run->ranks.at[r].host, run->ranks.at[other].host);
		if (size && n != size)
			return 0;
		size = n;
	}
	return size;
}

static int take_setting(struct lw_run *run, struct lw_replay *replay)
{
	const struct lw_rank *rank = &run->ranks.at[0];
	double fusion_bytes = rank->setting[LW_SETTING_FUSION_BYTES];
	double cycle_ns = rank->setting[LW_SETTING_CYCLE_NS];

	if (replay->is_ddp) /* sent as they are, at once */
		return LW_OK;
	for (size_t r = 0; r < run->ranks.n; r++)
		if (run->ranks.at[r].setting_changed)
			return lw_fail(LW_ERR_LIMIT,
				"Horovod's autotuner moved the settings during the run: there is no one setting to replay");
	replay->is_setting_known = isfinite(fusion_bytes) && isfinite(cycle_ns);
	if (!replay->is_setting_known)
		lw_run_diag(run, "simulate", "unknown_setting", 1,
			"fusion threshold or cycle time was not recorded: Horovod's defaults of 128 MiB and 1 ms are assumed");
	replay->setting.fusion_bytes = isfinite(fusion_bytes) && fusion_bytes >= 0
					       ? (uint64_t)fusion_bytes
					       : DEFAULT_FUSION_BYTES;
	replay->setting.cycle_ns =
		isfinite(cycle_ns) && cycle_ns >= 0 ? (int64_t)llround(cycle_ns) : LW_NS_PER_MS;
	replay->setting.local_size = find_local_size(run);
	return LW_OK;
}

static int allocate(const struct lw_run *run, struct lw_replay *replay, size_t n_steps)
{
	size_t n_rows = (n_steps + 1) * run->ranks.n, n_tensors = run->tensors.n;

	replay->tensors = calloc(n_tensors + 1, sizeof(*replay->tensors));
	replay->tensor_of = calloc(n_tensors + 1, sizeof(*replay->tensor_of));
	replay->dtypes = calloc(n_tensors + 1, sizeof(*replay->dtypes));
	replay->group_of = calloc(n_tensors + 1, sizeof(*replay->group_of));
	replay->ready_ns = calloc(n_rows * (n_tensors + 1), sizeof(*replay->ready_ns));
	replay->blocked_ns = calloc(n_rows, sizeof(*replay->blocked_ns));
	replay->tail_ns = calloc(n_rows, sizeof(*replay->tail_ns));
	replay->step_ns = calloc(n_rows, sizeof(*replay->step_ns));
	replay->recorded_step_ns = calloc(n_steps, sizeof(*replay->recorded_step_ns));
	if (!replay->tensors || !replay->tensor_of || !replay->dtypes || !replay->group_of ||
		!replay->ready_ns || !replay->blocked_ns || !replay->tail_ns || !replay->step_ns ||
		!replay->recorded_step_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory to replay %zu steps of %zu tensors",
			n_steps, n_tensors);
	replay->input.tensors = replay->tensors;
	replay->input.ready_ns = replay->ready_ns;
	replay->input.blocked_ns = replay->blocked_ns;
	replay->input.tail_ns = replay->tail_ns;
	return LW_OK;
}

int lw_extract_job(struct lw_run *run, struct lw_replay *replay)
{
	size_t n_steps = 0;
	uint32_t *input_of;
	int status;

	if (run->ranks.n == 0)
		return lw_fail(LW_ERR_LIMIT, "the run holds no rank");
	replay->is_ddp = run->ranks.at[0].framework == LW_FRAMEWORK_TORCH_DDP;
	if (run->is_plain ||
		(run->ranks.at[0].framework != LW_FRAMEWORK_HOROVOD && !replay->is_ddp))
		return lw_fail(LW_ERR_LIMIT,
			"the run is neither a Horovod nor a torch DDP job: only their loops can be replayed");
	for (size_t s = 0; s < run->ranks.at[0].steps.n; s++)
		n_steps += lw_extract_is_counted(run, s);
	if (n_steps < MIN_STEPS)
		return lw_fail(LW_ERR_LIMIT,
			"%zu counted step%s on all ranks, at least %d are needed; record a longer run",
			n_steps, n_steps == 1 ? "" : "s", MIN_STEPS);
	replay->input.n_ranks = (uint32_t)run->ranks.n;
	input_of = malloc((run->tensors.n + 1) * sizeof(*input_of));
	status = input_of ? allocate(run, replay, n_steps) : lw_fail(LW_ERR_NOMEM, "no memory");
	if (status == LW_OK) {
		for (size_t t = 0; t < run->tensors.n; t++)
			input_of[t] = NOT_SEEN;
		status = find_tensors(run, replay, input_of);
	}
	if (status == LW_OK)
		status = take_setting(run, replay);
	if (status == LW_OK)
		status = take_steps(run, replay, input_of);
	if (status == LW_OK)
		double_first(replay);
	free(input_of);
	return status;
}
