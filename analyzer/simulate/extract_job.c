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
	DEFAULT_CACHE_CAPACITY = 1024,    /* responses */
	D2D_PADDING = 16, /* bytes to which a GPU build rounds what it copies in one kernel */
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

/* What a tensor takes of the fusion buffer. */
static uint64_t padded(const struct lw_run *run, const struct lw_replay *replay, uint64_t bytes)
{
	const struct lw_rank *rank = &run->ranks.at[0];

	if (replay->is_ddp || rank->transport != LW_TRANSPORT_NCCL ||
		rank->setting[LW_SETTING_BATCH_D2D_MEMCOPIES] == 0)
		return bytes;
	return (bytes + D2D_PADDING - 1) / D2D_PADDING * D2D_PADDING;
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
			replay->tensors[input_of[member->tensor]] =
				(struct lw_hvd_tensor){padded(run, replay, bytes),
					replay->is_ddp ? -1 : fuse_class(batch)};
			replay->dtypes[input_of[member->tensor]] = (uint8_t)batch->dtype;
		}
	}
	if (n == 0)
		return lw_fail(LW_ERR_LIMIT,
			"the run holds no batch of gradients, so there is nothing to replay");
	replay->input.n_tensors = n;
	return LW_OK;
}

struct taken {                                    /* out of all counted steps */
	uint64_t n_unknown, n_dropped, n_resized; /* members */
	double bytes, dropped_bytes, resized_bytes;
	int64_t *group_ready_ns; /* scratch, by explicit group */
};

/* A group is queued as one, though the times of its tensors were taken one after the other. */
static void queue_groups(const struct lw_replay *replay, int64_t *ready_ns, int64_t *group_ready_ns)
{
	for (uint32_t g = 0; g < replay->n_groups; g++)
		group_ready_ns[g] = 0;
	for (uint32_t t = 0; t < replay->input.n_tensors; t++) {
		int32_t group = replay->group_of[t];

		if (group >= 0 && ready_ns[t] > group_ready_ns[group])
			group_ready_ns[group] = ready_ns[t];
	}
	for (uint32_t t = 0; t < replay->input.n_tensors; t++)
		if (replay->group_of[t] >= 0 && ready_ns[t] >= 0)
			ready_ns[t] = group_ready_ns[replay->group_of[t]];
}

/* One step of one rank. */
static void take_step(const struct lw_run *run, const struct lw_rank *rank,
	const struct lw_step *step, const uint32_t *input_of, struct lw_replay *replay, size_t row,
	struct taken *taken)
{
	int64_t *ready_ns = replay->ready_ns + row * replay->input.n_tensors;
	int64_t last_ns = 0;

	for (uint32_t t = 0; t < replay->input.n_tensors; t++)
		ready_ns[t] = LW_HVD_NOT_IN_STEP;
	for (uint32_t b = step->first_batch; b < step->first_batch + step->n_batches; b++) {
		const struct lw_batch *batch = &rank->batches.at[b];

		for (uint32_t m = 0; m < batch->n_members && is_sent(batch); m++) {
			const struct lw_member *member = &rank->members.at[batch->first_member + m];
			int64_t at_ns;

			if (member->ready_ns == LW_NS_UNKNOWN ||
				input_of[member->tensor] == NOT_SEEN) {
				taken->n_unknown++;
				continue;
			}
			taken->bytes += (double)member->bytes;
			if (member->bytes &&
				padded(run, replay, member->bytes) !=
					replay->tensors[input_of[member->tensor]].bytes) {
				taken->n_resized++;
				taken->resized_bytes += (double)member->bytes;
			}
			at_ns = lw_member_there_ns(rank, member) - step->start_ns;
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
	/* the host waits for a device that still computes */
	if (replay->blocked_ns[row] < 0 || (lw_gpu_has(rank) && replay->blocked_ns[row] < last_ns))
		replay->blocked_ns[row] = last_ns;
	if (step->resumed_ns != LW_NS_UNKNOWN)
		replay->tail_ns[row] = step->end_ns - step->resumed_ns;
	else if (step->n_batches > 0)
		replay->tail_ns[row] =
			step->end_ns -
			rank->batches.at[step->first_batch + step->n_batches - 1].end_ns;
	if (replay->tail_ns[row] < 0)
		replay->tail_ns[row] = 0;
	queue_groups(replay, ready_ns, taken->group_ready_ns);
}

/* A tensor that some ranks sent in this step and others did not cannot be replayed. */
static void drop_partial(struct lw_replay *replay, uint32_t step, struct taken *taken)
{
	uint32_t n_ranks = replay->input.n_ranks, n_tensors = replay->input.n_tensors;

	for (uint32_t t = 0; t < n_tensors; t++) {
		int64_t *first = replay->ready_ns + (size_t)step * n_ranks * n_tensors + t;
		uint32_t n_has = 0;

		for (uint32_t r = 0; r < n_ranks; r++)
			n_has += first[(size_t)r * n_tensors] >= 0;
		if (n_has == 0 || n_has == n_ranks)
			continue;
		for (uint32_t r = 0; r < n_ranks; r++)
			first[(size_t)r * n_tensors] = LW_HVD_NOT_IN_STEP;
		taken->n_dropped++;
		taken->dropped_bytes += (double)n_has * (double)replay->tensors[t].bytes;
	}
}

/* What a replay without, or with another size of, would not be the job any more. */
static const double too_much_frac = 0.01;

static int check_taken(struct lw_run *run, const struct taken *taken)
{
	if (taken->dropped_bytes > too_much_frac * taken->bytes)
		return lw_fail(LW_ERR_LIMIT,
			"%.3g %% of the gradients' bytes were sent by some ranks and not by others (uneven data, hvd.join), or have no ready time there: such steps cannot be replayed",
			100 * taken->dropped_bytes / taken->bytes);
	if (taken->resized_bytes > too_much_frac * taken->bytes)
		return lw_fail(LW_ERR_LIMIT,
			"%.3g %% of the gradients' bytes are of tensors that change their size from step to step: such steps cannot be replayed",
			100 * taken->resized_bytes / taken->bytes);
	if (taken->n_unknown)
		lw_run_diag(run, "simulate", "unknown_ready", taken->n_unknown,
			"tensors without a ready time are left out of the replay");
	if (taken->n_dropped)
		lw_run_diag(run, "simulate", "partial_tensor", taken->n_dropped,
			"tensors that not all ranks sent in a step are left out of the replay");
	if (taken->n_resized)
		lw_run_diag(run, "simulate", "resized_tensor", taken->n_resized,
			"tensors had another size in some steps; the replay gives them their last one");
	return LW_OK;
}

/* Steps of a changing model are replayed as they were: what is predicted is of their mix. */
static void find_changing(struct lw_run *run, const struct lw_replay *replay)
{
	const struct lw_hvd_input *input = &replay->input;
	uint32_t n_changing = 0;

	for (uint32_t t = 0; t < input->n_tensors; t++) {
		uint32_t n_in = 0;

		for (uint32_t s = 1; s < input->n_steps; s++)
			n_in += input->ready_ns[(size_t)s * input->n_ranks * input->n_tensors +
						t] >= 0;
		n_changing += n_in > 0 && n_in < replay->n_steps;
	}
	if (n_changing)
		lw_run_diag(run, "simulate", "changing_steps", n_changing,
			"tensors are sent in some counted steps and not in others: a predicted step is the mean of the middle half of such different ones");
}

/* Without room for all, the least recently used response makes place for each new one: then a step's
 * tensors, which come in about the same order every time, all miss. */
static void find_cache(struct lw_run *run, struct lw_replay *replay)
{
	double capacity = run->ranks.at[0].setting[LW_SETTING_CACHE_CAPACITY];
	uint32_t n_cached = 0;

	for (uint32_t t = 0; t < replay->input.n_tensors; t++)
		n_cached += lw_fuse_class_op(replay->tensors[t].fuse_class) != 0;
	capacity = isfinite(capacity) ? capacity : DEFAULT_CACHE_CAPACITY;
	replay->setting.is_uncached = !replay->is_ddp && n_cached > capacity;
	if (replay->setting.is_uncached && capacity > 0)
		lw_run_diag(run, "simulate", "cache_overflow", n_cached,
			"tensors are more than the %g responses that Horovod's cache holds: every step negotiates all of them anew, and the replay's rounds cost what this run's did; set HOROVOD_CACHE_CAPACITY above their number",
			capacity);
}

static int take_steps(struct lw_run *run, struct lw_replay *replay, const uint32_t *input_of)
{
	uint32_t n_ranks = replay->input.n_ranks, n_out = 0;
	uint64_t n_batches = 0, n_members = 0;
	struct taken taken = {
		.group_ready_ns = calloc(replay->n_groups + 1, sizeof(*taken.group_ready_ns))};
	int status;

	if (!taken.group_ready_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory for %u groups", replay->n_groups);
	for (size_t s = 0; s < run->ranks.at[0].steps.n; s++) {
		double sum_ns = 0;

		if (!lw_extract_is_counted(run, s))
			continue;
		for (uint32_t r = 0; r < n_ranks; r++) {
			const struct lw_rank *rank = &run->ranks.at[r];
			const struct lw_step *step = &rank->steps.at[s];

			take_step(run, rank, step, input_of, replay,
				((size_t)n_out + 1) * n_ranks + r, &taken);
			sum_ns += (double)(step->end_ns - step->start_ns);
		}
		drop_partial(replay, n_out + 1, &taken);
		replay->recorded_step_ns[n_out++] = sum_ns / n_ranks;
		n_batches += run->ranks.at[0].steps.at[s].n_batches;
	}
	replay->n_steps = n_out;
	replay->input.n_steps = n_out + 1;
	replay->batches_per_step = (double)n_batches / n_out;
	free(taken.group_ready_ns);
	status = check_taken(run, &taken);
	if (status < 0)
		return status;
	for (size_t i = (size_t)n_ranks * replay->input.n_tensors;
		i < (size_t)(n_out + 1) * n_ranks * replay->input.n_tensors; i++)
		n_members += replay->ready_ns[i] >= 0;
	if (n_members == 0)
		return lw_fail(LW_ERR_LIMIT,
			"no tensor has a ready time, so steps cannot be replayed under other settings");
	find_changing(run, replay);
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
	replay->setting.is_group_fusion_off = rank->setting[LW_SETTING_DISABLE_GROUP_FUSION] > 0;
	find_cache(run, replay);
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

/* Of step @step, on the first rank that leaves it out; NULL = it counts. */
static const char *why_excluded(const struct lw_run *run, size_t step)
{
	for (size_t r = 0; r < run->ranks.n; r++)
		if (step < run->ranks.at[r].steps.n && run->ranks.at[r].steps.at[step].excluded)
			return run->ranks.at[r].steps.at[step].excluded;
	return NULL;
}

/* Too few. Where there are steps enough, a longer run would not mend it. */
static int refuse_steps(const struct lw_run *run, size_t n_counted)
{
	size_t n = run->ranks.at[0].steps.n, middle = n / 2;
	const char *plural = n_counted == 1 ? "" : "s";

	if (run->size == 1)
		return lw_fail(LW_ERR_LIMIT,
			"a job of one rank sends nothing that could be replayed; record it with two ranks or more");
	if (n == 0 && lw_run_diag_text(run, LW_STEP_NONE))
		return lw_fail(
			LW_ERR_LIMIT, "no step was found: %s", lw_run_diag_text(run, LW_STEP_NONE));
	if (n > 2 * MIN_STEPS && why_excluded(run, middle))
		return lw_fail(LW_ERR_LIMIT,
			"%zu counted step%s on all ranks, at least %d are needed; of %zu the others are left out, step %zu as \"%s\" (`lapwing report --steps` has them all)",
			n_counted, plural, MIN_STEPS, n, middle, why_excluded(run, middle));
	return lw_fail(LW_ERR_LIMIT,
		"%zu counted step%s on all ranks, at least %d are needed; record a longer run",
		n_counted, plural, MIN_STEPS);
}

/* Whether it is a job whose loop the simulator knows. */
static int check_job(struct lw_run *run, const struct lw_replay *replay)
{
	if (run->groups.n == 0 && lw_run_diag_text(run, LW_STEP_NONE))
		return lw_fail(LW_ERR_LIMIT, "there is nothing to replay: %s",
			lw_run_diag_text(run, LW_STEP_NONE));
	if (run->is_profile)
		return lw_fail(LW_ERR_LIMIT,
			"a profiler's trace holds neither when gradients were ready for a DDP reducer nor what Horovod coordinated: there is nothing to replay; `lapwing record` of Horovod, or of DDP over Gloo, has both");
	if (run->is_plain && run->ranks.at[0].framework == LW_FRAMEWORK_TORCH_DDP)
		return lw_fail(LW_ERR_LIMIT,
			"this torch DDP job's operations do not say which bucket they are (over NCCL they never do; over Gloo they do): there is nothing to replay");
	if (run->is_plain ||
		(run->ranks.at[0].framework != LW_FRAMEWORK_HOROVOD && !replay->is_ddp))
		return lw_fail(LW_ERR_LIMIT,
			"the run is neither a Horovod nor a torch DDP job: only their loops can be replayed");
	if (run->size > 1 || run->is_import)
		return LW_OK;
	return lw_run_diag(run, "simulate", "one_rank", 1,
		"this job has one rank: its operations cross no network, so nothing that is said of other bandwidths, latencies or sizes of them is of a network; record it with two ranks or more");
}

int lw_extract_job(struct lw_run *run, struct lw_replay *replay)
{
	size_t n_steps = 0;
	uint32_t *input_of;
	int status;

	if (run->ranks.n == 0)
		return lw_fail(LW_ERR_LIMIT, "the run holds no rank");
	replay->is_ddp = run->ranks.at[0].framework == LW_FRAMEWORK_TORCH_DDP;
	replay->probe = lw_fit_probe(run);
	status = check_job(run, replay);
	if (status < 0)
		return status;
	for (size_t s = 0; s < run->ranks.at[0].steps.n; s++)
		n_steps += lw_extract_is_counted(run, s);
	if (n_steps < MIN_STEPS)
		return refuse_steps(run, n_steps);
	status = lw_extract_check(run, replay);
	if (status < 0)
		return status;
	replay->input.n_ranks = (uint32_t)run->ranks.n;
	replay->n_missing_ranks = run->is_import ? 0 : run->n_missing_ranks;
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
		lw_extract_groups(run, replay);
	if (status == LW_OK)
		status = take_steps(run, replay, input_of);
	if (status == LW_OK)
		double_first(replay);
	free(input_of);
	return status;
}
