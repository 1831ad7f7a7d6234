/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/whatif.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"

void lw_whatif_recorded(const struct lw_replay *replay, struct lw_whatif_job *job)
{
	*job = (struct lw_whatif_job){.input = replay->input,
		.setting = replay->setting,
		.cost = replay->cost,
		.wire = replay->wire,
		.sim = replay->sim,
		.step_ns = replay->step_ns};
}

void lw_whatif_job_done(struct lw_whatif_job *job)
{
	free(job->ready_ns);
	if (job->owns_sim)
		lw_hvd_sim_free(job->sim);
}

/* Own arrays for @n_ranks ranks. A rank beyond the recorded ones is a recorded rank, shifted by some
 * steps, so that ranks differ from each other as much as recorded ones differ from step to step. */
static int resample(
	const struct lw_replay *replay, struct lw_whatif_job *job, uint32_t n_ranks, double frac)
{
	uint32_t n_tensors = job->input.n_tensors, n_steps = job->input.n_steps;
	uint32_t n_known = job->input.n_ranks;
	size_t n_rows = (size_t)n_steps * n_ranks;

	job->ready_ns = malloc(n_rows * ((size_t)n_tensors + 3) * sizeof(*job->ready_ns));
	if (!job->ready_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory to simulate %u ranks", n_ranks);
	job->blocked_ns = job->ready_ns + n_rows * n_tensors;
	job->tail_ns = job->blocked_ns + n_rows;
	job->step_ns = job->tail_ns + n_rows;
	for (uint32_t s = 0; s < n_steps; s++)
		for (uint32_t r = 0; r < n_ranks; r++) {
			uint32_t from_step = (s + r / n_known * 7) % n_steps;
			size_t from = (size_t)from_step * n_known + r % n_known;
			size_t to = (size_t)s * n_ranks + r;

			for (uint32_t t = 0; t < n_tensors; t++) {
				int64_t at_ns = replay->ready_ns[from * n_tensors + t];

				job->ready_ns[to * n_tensors + t] =
					at_ns < 0 ? LW_HVD_NOT_IN_STEP
						  : (int64_t)llround((double)at_ns * frac);
			}
			job->blocked_ns[to] =
				(int64_t)llround((double)replay->blocked_ns[from] * frac);
			job->tail_ns[to] = (int64_t)llround((double)replay->tail_ns[from] * frac);
		}
	job->input.n_ranks = n_ranks;
	job->input.ready_ns = job->ready_ns;
	job->input.blocked_ns = job->blocked_ns;
	job->input.tail_ns = job->tail_ns;
	if (n_ranks <= n_known)
		return LW_OK;
	job->owns_sim = lw_hvd_sim_new(n_ranks, n_tensors, &job->sim) == LW_OK;
	return job->owns_sim ? LW_OK : LW_ERR_NOMEM;
}

int lw_replay_scale(const struct lw_replay *replay, const struct lw_whatif *whatif,
	struct lw_wire_scale *ret_scale)
{
	double known = replay->input.n_ranks, n = whatif->n_ranks ? whatif->n_ranks : known;

	*ret_scale = (struct lw_wire_scale){whatif->latency_frac, 1 / whatif->bandwidth_frac};
	if (n == known)
		return LW_OK;
	if (known < 2)
		return lw_fail(LW_ERR_UNSUPPORTED,
			"a run of one rank holds no network: %.0f ranks cannot be predicted from it",
			n);
	/* ring all-reduce: 2 (N - 1) messages one after the other, 2 (N - 1) / N of the bytes on
	 * each link (Thakur et al. 2005) */
	ret_scale->latency_frac *= (n - 1) / (known - 1);
	ret_scale->volume_frac *= (n - 1) / n / ((known - 1) / known);
	return LW_OK;
}

/* Asks for more than settings of the loop and of the network. */
static bool is_job_changed(const struct lw_whatif *whatif)
{
	return whatif->n_groups > 0 || whatif->group_of || whatif->is_group_fusion_off ||
	       whatif->backward_passes > 1 || (whatif->wire_frac > 0 && whatif->wire_frac != 1) ||
	       whatif->convert_ns_per_byte > 0 || whatif->is_balanced ||
	       (whatif->layer_bytes_frac > 0 && whatif->layer_bytes_frac != 1);
}

bool lw_whatif_is_recorded(const struct lw_replay *replay, const struct lw_whatif *whatif)
{
	return !(isfinite(whatif->fusion_bytes) &&
		       (uint64_t)whatif->fusion_bytes != replay->setting.fusion_bytes) &&
	       !(isfinite(whatif->cycle_ns) &&
		       (int64_t)llround(whatif->cycle_ns) != replay->setting.cycle_ns) &&
	       (whatif->n_ranks == 0 || whatif->n_ranks == replay->input.n_ranks) &&
	       whatif->bandwidth_frac == 1 && whatif->latency_frac == 1 &&
	       whatif->compute_frac == 1 && !is_job_changed(whatif);
}

int lw_whatif_job(
	const struct lw_replay *replay, const struct lw_whatif *whatif, struct lw_whatif_job *job)
{
	uint32_t n_ranks = whatif->n_ranks ? whatif->n_ranks : replay->input.n_ranks;
	int status;

	lw_whatif_recorded(replay, job);
	if (is_job_changed(whatif))
		return lw_fail(LW_ERR_UNSUPPORTED,
			"groups, backward passes, compression, balance and layers cannot be changed yet");
	if (replay->is_ddp && (isfinite(whatif->fusion_bytes) || isfinite(whatif->cycle_ns)))
		return lw_fail(LW_ERR_UNSUPPORTED,
			"torch DDP has no fusion threshold and no cycle time: its buckets are made when the job starts");
	if (isfinite(whatif->fusion_bytes))
		job->setting.fusion_bytes = (uint64_t)whatif->fusion_bytes;
	if (isfinite(whatif->cycle_ns))
		job->setting.cycle_ns = (int64_t)llround(whatif->cycle_ns);
	status = lw_replay_scale(replay, whatif, &job->wire.scale);
	if (status < 0)
		return status;
	job->cost.round_ns *= job->wire.scale.latency_frac;
	job->cost.late_ns *= job->wire.scale.latency_frac;
	if (n_ranks == replay->input.n_ranks && whatif->compute_frac == 1)
		return LW_OK;
	return resample(replay, job, n_ranks, whatif->compute_frac);
}
