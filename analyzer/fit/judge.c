/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/judge.h"

#include <string.h>

/* Of the cost that most stands on; others are small, or nobody's. */
int lw_fit_judge(struct lw_run *run, const struct lw_fit *fit)
{
	const struct lw_cost *cost = &fit->cost[LW_FIT_COST_WIRE].cost;
	char verdict[LW_VERDICT_TEXT_BYTES];

	lw_run_diag_reset(run, "fit");
	if (!*lw_cost_verdict(cost, verdict))
		return LW_OK;
	return lw_run_diag(run, "fit", "poor fit", 1,
		"cost of allreduce: %s: fitted to the other sizes, those left out are missed by as much on average; what is said of sizes that this run does not hold (scaling, other thresholds) is no better",
		verdict + strlen("poor fit: "));
}

/* Frameworks tell gradients apart from what else they move, and it is little. */
static const char *why_no_scaling(const struct lw_run *run, const struct lw_collected *data)
{
	static const double much_frac = 0.1;
	double allreduce_ns = 0;

	for (size_t b = 0; b < data->n_blocks; b++)
		allreduce_ns += data->blocks[b].comm_ns;
	return run->is_plain && data->other_ns > much_frac * (data->other_ns + allreduce_ns)
		       ? LW_FIT_OTHER_OPS
		       : NULL;
}

/* A framework's gradients are all there, many times each, and it is told what of them a fit misses. Of a run without one
 * nobody knows what an allreduce was for: a few of them, or some that no line goes through, say nothing of a link. */
static const char *why_no_line(const struct lw_run *run, const struct lw_fit *fit)
{
	const struct lw_cost *cost = &fit->cost[LW_FIT_COST_WIRE].cost;
	char verdict[LW_VERDICT_TEXT_BYTES];

	if (fit->is_unsized)
		return LW_FIT_UNSIZED;
	if (!run->is_plain)
		return NULL;
	if (fit->why_no_scaling)
		return fit->why_no_scaling;
	if (cost->form != LW_COST_NONE && cost->n < LW_FIT_LEAST_OPS)
		return LW_FIT_TOO_FEW;
	return *lw_cost_verdict(cost, verdict) ? LW_FIT_POOR : NULL;
}

void lw_fit_doubt(const struct lw_run *run, const struct lw_collected *data, struct lw_fit *fit)
{
	fit->is_unsized = data->is_unsized;
	fit->why_no_scaling = why_no_scaling(run, data);
	fit->why_no_line = why_no_line(run, fit);
}
