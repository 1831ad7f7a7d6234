/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/closed.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"

/* What a rank does after its last wait, mean over ranks and steps but the warm-up one. */
static double mean_tail_ns(const struct lw_hvd_input *input)
{
	size_t n = (size_t)(input->n_steps - 1) * input->n_ranks;
	double sum_ns = 0;

	for (size_t row = input->n_ranks; row < n + input->n_ranks; row++)
		sum_ns += (double)input->tail_ns[row];
	return sum_ns / (double)n;
}

const char *lw_closed_unknown(const struct lw_whatif *whatif)
{
	if (whatif->n_groups > 0 || whatif->group_of || whatif->is_group_fusion_off)
		return "a closed model knows nothing of explicit groups";
	if (whatif->is_balanced)
		return "a closed model sees one mean rank, and no straggler";
	if (whatif->layer_bytes_frac > 0 && whatif->layer_bytes_frac != 1)
		return "a closed model is not told which layer is replaced";
	return NULL;
}

struct closed { /* the job that a closed model sees */
	struct lw_layer *layers;
	struct lw_fusion_slot *slots;
	struct lw_scaling_job job;
};

static void closed_done(struct closed *closed)
{
	free(closed->layers);
	free(closed->slots);
}

/* Return: lw_closed_predict()'s; closed_done() is to be called in any case. */
static int closed_init(struct closed *closed, const struct lw_replay *replay,
	const struct lw_fit *fit, const struct lw_whatif *whatif)
{
	size_t n = fit->n_layers;
	uint32_t n_passes = whatif->backward_passes > 1 ? whatif->backward_passes : 1;
	double wire_frac = whatif->wire_frac > 0 ? whatif->wire_frac : 1;
	struct lw_wire_scale scale;
	int status = lw_replay_scale(replay, whatif, &scale);

	*closed = (struct closed){calloc(n + 1, sizeof(*closed->layers)),
		calloc(n + 1, sizeof(*closed->slots)), {.n_layers = n}};
	if (status < 0)
		return status;
	if (!closed->layers || !closed->slots)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu layers", n);
	for (size_t i = 0; i < n; i++) /* as the fit does: early by chance takes no time */
		closed->layers[i] = (struct lw_layer){wire_frac * fit->layers[i].bytes,
			whatif->compute_frac * fmax(fit->layers[i].backward_ns.value, 0)};
	closed->job = (struct lw_scaling_job){.layers = closed->layers,
		.n_layers = n,
		.cost = &fit->cost[LW_FIT_COST_WIRE].cost,
		.latency_ns = replay->wire.fixed_ns,
		.latency_frac = scale.latency_frac,
		.volume_frac = scale.volume_frac,
		/* only the last pass of a step sends (papers: SF(k) = k T_comp / (k T_comp + exposed)) */
		.compute_ns =
			n_passes * whatif->compute_frac * fit->figure[LW_FIT_COMPUTE_NS].value,
		.bytes_per_step = wire_frac * fit->figure[LW_FIT_BYTES_PER_STEP].value,
		.is_csf_alone = fit->why_no_mean_step != NULL,
		.fusion_bytes =
			isfinite(whatif->fusion_bytes) ? whatif->fusion_bytes : fit->fusion_bytes,
		.cycle_ns = isfinite(whatif->cycle_ns) ? whatif->cycle_ns : fit->cycle_ns};
	return LW_OK;
}

/* Another network, and nothing tells what of a cost it changes. */
static bool is_unsure(const struct lw_scaling_job *job, const struct lw_replay *replay)
{
	return job->latency_frac != job->volume_frac && !replay->wire.is_slope_known;
}

int lw_closed_predict(const struct lw_replay *replay, const struct lw_fit *fit,
	const struct lw_whatif *whatif, struct lw_scaling ret_scaling[LW_SCALING_N],
	double *ret_compute_ns, double *ret_tail_ns)
{
	struct closed closed;
	int status = closed_init(&closed, replay, fit, whatif);

	if (status == LW_OK) {
		lw_scaling(&closed.job, closed.slots, ret_scaling);
		for (int i = 0; i < LW_SCALING_N && lw_closed_unknown(whatif); i++)
			ret_scaling[i].factor = NAN;
		for (int i = 0; i < LW_SCALING_N; i++)
			ret_scaling[i].is_extrapolated |= is_unsure(&closed.job, replay);
		*ret_compute_ns = closed.job.compute_ns;
		*ret_tail_ns = whatif->compute_frac * mean_tail_ns(&replay->input);
	}
	closed_done(&closed);
	return status;
}

int lw_closed_comm(const struct lw_replay *replay, const struct lw_fit *fit,
	const struct lw_whatif *whatif, double *ret_comm_ns, bool *ret_is_extrapolated)
{
	struct closed closed;
	int status = closed_init(&closed, replay, fit, whatif);

	if (status == LW_OK)
		*ret_comm_ns = lw_closed_unknown(whatif)
				       ? (double)NAN
				       : lw_scaling_comm_ns(
						 &closed.job, closed.slots, ret_is_extrapolated);
	if (status == LW_OK && is_unsure(&closed.job, replay))
		*ret_is_extrapolated = true;
	closed_done(&closed);
	return status;
}
