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

int lw_closed_predict(const struct lw_replay *replay, const struct lw_fit *fit,
	const struct lw_whatif *whatif, struct lw_scaling ret_scaling[LW_SCALING_N],
	double *ret_compute_ns, double *ret_tail_ns)
{
	size_t n = fit->n_layers;
	struct lw_layer *layers = calloc(n + 1, sizeof(*layers));
	struct lw_fusion_slot *slots = calloc(n + 1, sizeof(*slots));
	struct lw_scaling_job job = {.layers = layers,
		.n_layers = n,
		.cost = &fit->cost[LW_FIT_COST_WIRE].cost,
		.latency_ns = replay->wire.latency_ns,
		.compute_ns = whatif->compute_frac * fit->figure[LW_FIT_COMPUTE_NS].value,
		.bytes_per_step = fit->figure[LW_FIT_BYTES_PER_STEP].value,
		.fusion_bytes =
			isfinite(whatif->fusion_bytes) ? whatif->fusion_bytes : fit->fusion_bytes,
		.cycle_ns = isfinite(whatif->cycle_ns) ? whatif->cycle_ns : fit->cycle_ns};
	struct lw_wire_scale scale;
	int status = lw_replay_scale(replay, whatif, &scale);

	if (status == LW_OK && (!layers || !slots))
		status = lw_fail(LW_ERR_NOMEM, "no memory for %zu layers", n);
	if (status == LW_OK) {
		for (size_t i = 0; i < n; i++) /* as the fit does: early by chance takes no time */
			layers[i] = (struct lw_layer){fit->layers[i].bytes,
				whatif->compute_frac * fmax(fit->layers[i].backward_ns.value, 0)};
		job.latency_frac = scale.latency_frac;
		job.volume_frac = scale.volume_frac;
		lw_scaling(&job, slots, ret_scaling);
		*ret_compute_ns = job.compute_ns;
		*ret_tail_ns = whatif->compute_frac * mean_tail_ns(&replay->input);
	}
	free(layers);
	free(slots);
	return status;
}
