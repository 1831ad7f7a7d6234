/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse.c - sending only the largest gradients: below which density it pays, and what it could bring.
 *
 * Neither Horovod nor torch sends sparse gradients by themselves, and what the selection costs is not in
 * a run, so this is a finding: a bound to hold a library's promise against. Formulas: model/sparse.h.
 */
#include <math.h>
#include <stdio.h>

#include "analyzer/advise/trial.h"
#include "analyzer/fit/fit.h"
#include "analyzer/model/sparse.h"

static const double ELEMENT_BYTES = 4;

/* alpha and beta of a flat ring that costs what this run measured: 2 (N - 1) alpha + 2 (N - 1) / N D beta.
 * Return: false when the run cannot tell them apart. */
static bool find_hop(const struct lw_replay *replay, struct lw_hop *ret_hop)
{
	const struct lw_cost *cost = &replay->wire.all;
	double n = replay->input.n_ranks, fixed_ns = cost->a_ns, slope = cost->b_ns_per_byte;

	if (cost->form == LW_COST_PIECEWISE) {
		fixed_ns = cost->right_ns;
		slope = cost->right_ns_per_byte;
	}
	*ret_hop = (struct lw_hop){fixed_ns / (2 * (n - 1)), slope * n / (2 * (n - 1))};
	return cost->slope_known && slope > 0;
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	static const double densities_frac[] = {0.001, 0.01};
	const struct lw_replay *replay = list->replay;
	struct lw_sparse_job job = {.n_elements = lw_advise_step_bytes(replay) / ELEMENT_BYTES,
		.element_bytes = ELEMENT_BYTES};
	double n_ranks = replay->input.n_ranks;
	struct lw_trial trial = {0};
	struct lw_hop hop;
	char gain[128], hitopk[96] = "";
	int n_hosts, n_per_host, status = LW_OK;

	if (n_ranks < 2)
		return LW_OK;
	if (!find_hop(replay, &hop))
		return lw_advise_note(list, self->id,
			"below which density top-k pays cannot be told: the operations of this run are of one size, so latency and bandwidth are not told apart%s%s",
			replay->probe == LW_FIT_PROBE_NONE
				? ""
				: ". `lapwing record --probe` measures both",
			replay->probe == LW_FIT_PROBE_SCRIPT ? LW_FIT_TORCH_PROBE : "");
	lw_advise_hosts(run, &n_hosts, &n_per_host);
	job.topology = (struct lw_topology){
		n_per_host ? n_hosts : (int)n_ranks, n_per_host ? n_per_host : 1, hop, hop, 0};
	for (size_t i = 2; i-- > 0 && status == LW_OK;) {
		struct lw_whatif whatif = LW_WHATIF_RECORDED;

		/* N density of a ring's volume: each rank takes 2 k items of N - 1 others, not 2 (N - 1) / N d */
		whatif.bandwidth_frac = fmax(1 / (n_ranks * densities_frac[i]), 1);
		status = lw_advise_try(list, self->id, &whatif, &trial, "top-k, density %g %%",
			100 * densities_frac[i]);
	}
	if (status < 0)
		return status;
	if (n_hosts > 1 && n_per_host > 1)
		snprintf(hitopk, sizeof(hitopk), ", HiTopKComm against the torus %.3g %%",
			100 * lw_sparse_break_even_frac(LW_SPARSE_HITOPK, &job));
	return (lw_advise_is_sure(list, &trial) ? lw_advise_find : lw_advise_note)(list, self->id,
		"sparse gradients are sent faster than dense ones below a density of: top-k %.3g %%, gTop-k %.3g %%%s. At 0.1 %% and with a selection for nothing top-k takes the step %s; it needs a library, changes what is trained, and its selection costs time that is not counted here",
		100 * lw_sparse_break_even_frac(LW_SPARSE_TOPK, &job),
		100 * lw_sparse_break_even_frac(LW_SPARSE_GTOPK, &job), hitopk,
		lw_advise_gain_text(list, &trial, gain));
}

const struct lw_adviser lw_adviser_sparse = {
	.id = "training.sparse",
	.title = "Only the largest gradients",
	.run = advise,
	.assumes =
		"Gradients are of 4 bytes and are sent with an index of 4; all of a step in one exchange; latency and bandwidth of a hop follow from what a ring of this run's cost would need. Selection costs nothing.",
	.wrong_if =
		"The selection is slow (about 0.2 to 0.5 ns x d log2 d on GPUs); the collective is no ring; different ranks choose different gradients, as they do: then the sum is denser than each part.",
	.check =
		"Take the library's own figure for the selection, add it, and run `lapwing record` with it.",
};
