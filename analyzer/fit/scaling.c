/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/scaling.h"

#include <math.h>

/* A cost that notes when it was asked for what the run does not hold. */
struct asked {
	const struct lw_scaling_job *job;
	bool *is_extrapolated;
};

static double asked_ns(double bytes, const void *params)
{
	const struct asked *asked = params;
	const struct lw_scaling_job *job = asked->job;
	double ns = lw_cost_ns(job->cost, bytes, NULL);
	double fixed_ns = fmin(job->latency_ns, ns);

	/* sums of members and of batches differ by rounding and padding */
	if (bytes < 0.99 * job->cost->min_bytes || bytes > 1.01 * job->cost->max_bytes)
		*asked->is_extrapolated = true;
	return fixed_ns * job->latency_frac + (ns - fixed_ns) * job->volume_frac;
}

static double fused_osf(const struct lw_scaling_job *job, struct lw_link link, double overlap_ns,
	enum lw_osf_variant variant, struct lw_fusion_slot *slots)
{
	size_t n = job->n_layers;

	if (isnan(job->fusion_bytes) || isnan(job->cycle_ns))
		return NAN;
	lw_fusion_plan(job->layers, n, job->fusion_bytes, job->cycle_ns, variant, slots);
	return lw_osf(job->compute_ns, lw_fusion_update_ns(job->layers, slots, n, link, variant),
		overlap_ns);
}

static double factor_of(const struct lw_scaling_job *job, enum lw_scaling_model model,
	struct lw_link link, struct lw_fusion_slot *slots)
{
	double overlap_ns = lw_layers_overlap_ns(job->layers, job->n_layers);

	switch (model) {
	case LW_SCALING_CSF:
		return lw_csf(job->compute_ns, lw_link_ns(link, job->bytes_per_step));
	case LW_SCALING_OSF:
		return lw_osf(job->compute_ns,
			lw_layers_update_ns(job->layers, job->n_layers, link), overlap_ns);
	case LW_SCALING_OSF_F:
		return fused_osf(job, link, overlap_ns, LW_OSF_FIFO, slots);
	case LW_SCALING_OSF_F_PAPER:
		return fused_osf(job, link, overlap_ns, LW_OSF_PAPER, slots);
	case LW_SCALING_N:
		break;
	}
	return NAN;
}

void lw_scaling(const struct lw_scaling_job *job, struct lw_fusion_slot *slots,
	struct lw_scaling ret_scaling[LW_SCALING_N])
{
	for (int model = 0; model < LW_SCALING_N; model++) {
		struct lw_scaling *answer = &ret_scaling[model];
		struct asked asked = {job, &answer->is_extrapolated};
		struct lw_link link = {asked_ns, &asked};

		*answer = (struct lw_scaling){.factor = NAN};
		if (job->n_layers == 0 || job->cost->form == LW_COST_NONE)
			continue;
		if (job->is_csf_alone && model != LW_SCALING_CSF)
			continue;
		answer->factor = factor_of(job, (enum lw_scaling_model)model, link, slots);
		if (answer->is_extrapolated && !job->cost->slope_known)
			answer->factor = NAN;
	}
}

double lw_scaling_comm_ns(
	const struct lw_scaling_job *job, struct lw_fusion_slot *slots, bool *ret_is_extrapolated)
{
	struct asked asked = {job, ret_is_extrapolated};
	struct lw_link link = {asked_ns, &asked};
	bool is_fused = !isnan(job->fusion_bytes) && !isnan(job->cycle_ns);
	double comm_ns = 0;

	*ret_is_extrapolated = false;
	if (job->n_layers == 0 || job->cost->form == LW_COST_NONE || job->is_csf_alone)
		return NAN;
	if (is_fused)
		lw_fusion_plan(job->layers, job->n_layers, job->fusion_bytes, job->cycle_ns,
			LW_OSF_FIFO, slots);
	for (size_t i = 0; i < job->n_layers; i++)
		comm_ns += lw_link_ns(link, is_fused ? slots[i].sent_bytes : job->layers[i].bytes);
	return *ret_is_extrapolated && !job->cost->slope_known ? (double)NAN : comm_ns;
}
