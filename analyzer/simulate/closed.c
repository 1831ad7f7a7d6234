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
	struct lw_wire_scale scale;
	int status = lw_replay_scale(replay, whatif, &scale);

	*closed = (struct closed){calloc(n + 1, sizeof(*closed->layers)),
		calloc(n + 1, sizeof(*closed->slots)), {.n_layers = n}};
	if (status < 0)
		return status;
	if (!closed->layers || !closed->slots)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu layers", n);
	for (size_t i = 0; i < n; i++) /* as the fit does: early by chance takes no time */
		closed->layers[i] = (struct lw_layer){fit->layers[i].bytes,
			whatif->compute_frac * fmax(fit->layers[i].backward_ns.value, 0)};
	closed->job = (struct lw_scaling_job){.layers = closed->layers,
		.n_layers = n,
		.cost = &fit->cost[LW_FIT_COST_WIRE].cost,
		.latency_ns = replay->wire.latency_ns,
		.latency_frac = scale.latency_frac,
		.volume_frac = scale.volume_frac,
		.compute_ns = whatif->compute_frac * fit->figure[LW_FIT_COMPUTE_NS].value,
		.bytes_per_step = fit->figure[LW_FIT_BYTES_PER_STEP].value,
		.fusion_bytes =
			isfinite(whatif->fusion_bytes) ? whatif->fusion_bytes : fit->fusion_bytes,
		.cycle_ns = isfinite(whatif->cycle_ns) ? whatif->cycle_ns : fit->cycle_ns};
	return LW_OK;
}

int lw_closed_predict(const struct lw_replay *replay, const struct lw_fit *fit,
	const struct lw_whatif *whatif, struct lw_scaling ret_scaling[LW_SCALING_N],
	double *ret_compute_ns, double *ret_tail_ns)
{
	struct closed closed;
	int status = closed_init(&closed, replay, fit, whatif);

	if (status == LW_OK) {
		lw_scaling(&closed.job, closed.slots, ret_scaling);
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
		*ret_comm_ns = lw_scaling_comm_ns(&closed.job, closed.slots, ret_is_extrapolated);
	closed_done(&closed);
	return status;
}
