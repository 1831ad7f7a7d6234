/* SPDX-License-Identifier: Apache-2.0 */
/* doubt.c - what the interval of a prediction gets beyond its errors: other ranks, contended cores; and where it ends. */
#include "analyzer/simulate/doubt.h"

#include <math.h>

#include "analyzer/simulate/stats.h"

static const double most_doublings = 1; /* of ranks: more, either way, is called extrapolated */

void lw_doubt_ranks(double n_doublings, struct lw_prediction *prediction)
{
	if (n_doublings <= most_doublings)
		return;
	if (!prediction->is_extrapolated)
		prediction->step_ns.why =
			"more than twice or less than half the recorded ranks: what a message costs among so many others is extrapolated, and they are assumed to compute as the recorded ones do and to form a ring";
	prediction->is_extrapolated = true;
	prediction->step_ns.how = LW_ASSUMED;
}

/*
 * Where ranks wait for cores, computing depends on what else runs, and that on the setting. None of the recorded
 * wait may remain, or as much may come to it; and for each doubling of how often the loop wakes up a quarter
 * more, which covers what was measured (docs/results/cpu.md: up to 1.8 of the wait at 20 times as many rounds).
 * Where more ranks compute than there are cores, operations wait for them too: a step up to as many times as long.
 * Of more ranks on the same full cores each takes up to as many times as long as there are more.
 */
static const double more_wake_ups_frac = 0.25;

void lw_doubt_cores(const struct lw_replay *replay, struct lw_prediction *prediction)
{
	double n_more = (double)prediction->n_ranks / replay->input.n_ranks - 1;
	double wait_ns = replay->core_wait_ns * prediction->n_passes, n_doublings = 0;

	if (!(wait_ns > 0) || prediction->is_recorded)
		return;
	if (!replay->is_ddp && prediction->cycle_ns > 0)
		n_doublings = log2((double)replay->setting.cycle_ns / prediction->cycle_ns);
	prediction->error.cores_ns = wait_ns * (1 + more_wake_ups_frac * fmax(n_doublings, 0)) +
				     replay->core_crowd_frac * prediction->step_ns.value;
	prediction->step_ns.low -= wait_ns;
	prediction->step_ns.high += prediction->error.cores_ns;
	prediction->step_ns.how = LW_ASSUMED;
	if (n_more > 0)
		prediction->step_ns.high += n_more * prediction->step_ns.value;
	if (n_more != 0)
		prediction->step_ns.why =
			"the cores of this run are contended, so on the same hosts other ranks would not compute as the recorded ones do: the upper end assumes that more ranks get the less of them each";
	else if (!prediction->is_extrapolated)
		prediction->step_ns.why =
			"the cores of this run are contended: how long computing takes depends on the setting, and it is assumed to wait for cores not at all, or twice as long as now, and longer with shorter cycles";
}

void lw_doubt_gain(
	const struct lw_prediction *base, const struct lw_prediction *other, struct lw_figure *gain)
{
	double base_ns = base->step_ns.value / base->n_passes;
	double low_ns = other->step_ns.low / other->n_passes;
	double high_ns = other->step_ns.high / other->n_passes;

	if (other->n_ranks != base->n_ranks) {
		gain->low = fmin(base_ns - high_ns, gain->value);
		gain->high = base_ns - low_ns;
	} else if (other->is_extrapolated) { /* what is not known about its operations counts too */
		gain->low -= high_ns - other->step_ns.value / other->n_passes;
		gain->high += other->step_ns.value / other->n_passes - low_ns;
	}
}

double lw_least_step_ns(const struct lw_hvd_input *input, double *scratch)
{
	uint32_t n = input->n_steps - 1;
	double median_ns, low_ns, high_ns, middle_ns;

	for (uint32_t s = 0; s < n; s++) {
		double sum_ns = 0;

		for (uint32_t r = 0; r < input->n_ranks; r++) {
			size_t row = (size_t)(s + 1) * input->n_ranks + r;

			sum_ns += (double)(input->blocked_ns[row] + input->tail_ns[row]);
		}
		scratch[s] = sum_ns / input->n_ranks;
	}
	lw_stats_interval(scratch, n, &median_ns, &low_ns, &high_ns);
	middle_ns = lw_stats_middle(scratch, n);
	return isnan(low_ns) ? middle_ns : fmin(low_ns, middle_ns);
}
