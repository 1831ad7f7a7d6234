/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scaling.c - how the step would grow with more ranks, and what it depends on around here.
 *
 * Each rank keeps its batch (weak scaling), so the recorded step over the predicted one is the
 * throughput of a rank against that of now.
 */
#include <math.h>
#include <stdio.h>

#include "analyzer/advise/trial.h"
#include "base/units.h"

enum { MAX_RANKS = 512, N_DOUBLINGS = 4 };

static int advise_ranks(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	uint32_t n_known = list->replay->input.n_ranks;
	double base_ns = list->base.step_ns.value;
	char text[LW_ADVICE_TEXT_BYTES], step[LW_UNIT_TEXT_BYTES];
	struct lw_trial first = {0};
	int status = LW_OK, n = 0;

	if (n_known < 2 && run->n_missing_ranks)
		return lw_advise_find(list, self->id,
			"one rank of %d is in this run, which tells nothing of the network between them: give the files of all ranks to see how it scales",
			run->size);
	if (n_known < 2)
		return lw_advise_find(list, self->id,
			"a run of one rank holds no network: record one of two ranks to see how it scales");
	for (uint32_t i = 1; i <= N_DOUBLINGS && status == LW_OK && n_known << i <= MAX_RANKS;
		i++) {
		struct lw_whatif whatif = LW_WHATIF_RECORDED;
		struct lw_trial trial;

		whatif.n_ranks = n_known << i;
		status = lw_advise_try(list, self->id, &whatif, &trial, "%u ranks", whatif.n_ranks);
		if (status < 0)
			break;
		if (i == 1)
			first = trial;
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			"%s%u ranks: %s a step, %.0f %% of today's throughput a rank (%.0f to %.0f)",
			n ? "; " : "", whatif.n_ranks, lw_ns_format(trial.step_ns.value, step),
			100 * base_ns / trial.step_ns.value, 100 * base_ns / trial.step_ns.high,
			100 * base_ns / trial.step_ns.low);
	}
	if (status < 0 || n == 0)
		return status;
	if (first.prediction.is_extrapolated && !list->replay->wire.is_slope_known)
		return lw_advise_cannot_tell(list, self->id, &first, first.label);
	return lw_advise_note(
		list, self->id, "with the same batch a rank and links as fast as now: %s", text);
}

/* d(step) for a change of a tenth; the cycle is none of DDP's. */
static int advise_sensitivity(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	double cycle_ns = round(0.9 * (double)list->replay->setting.cycle_ns);
	const struct {
		const char *label;
		struct lw_whatif whatif;
	} changes[] = {
		{"bandwidth +10 %", {.bandwidth_frac = 1.1, .latency_frac = 1, .compute_frac = 1}},
		{"latency -10 %", {.bandwidth_frac = 1, .latency_frac = 0.9, .compute_frac = 1}},
		{"computing -10 %", {.bandwidth_frac = 1, .latency_frac = 1, .compute_frac = 0.9}},
		{"cycle time -10 %", {.bandwidth_frac = 1, .latency_frac = 1, .compute_frac = 1}},
	};
	int status = LW_OK;

	(void)run;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]) && status == LW_OK; i++) {
		struct lw_whatif whatif = changes[i].whatif;
		bool is_cycle = i == sizeof(changes) / sizeof(changes[0]) - 1;

		if (is_cycle && (list->replay->is_ddp || cycle_ns < 1))
			continue;
		whatif.fusion_bytes = NAN;
		whatif.cycle_ns = is_cycle ? cycle_ns : (double)NAN;
		status = lw_advise_try(list, self->id, &whatif, NULL, "%s", changes[i].label);
	}
	return status;
}

const struct lw_adviser lw_adviser_ranks = {
	.id = "scaling.ranks",
	.title = "More ranks",
	.run = advise_ranks,
	.assumes =
		"A ring: what an operation costs whatever its size grows with 2 (N - 1) messages, the rest with 2 (N - 1) / N of the bytes. New links are as fast as the recorded ones, new ranks compute as the recorded ones do.",
	.wrong_if =
		"New ranks share links, cores or a switch where the recorded ones did not; there are more stragglers; the algorithm is no ring.",
	.check = "Record the job with twice the ranks.",
};

const struct lw_adviser lw_adviser_sensitivity = {
	.id = "sensitivity",
	.title = "What the step depends on",
	.run = advise_sensitivity,
	.assumes = "One thing changes by a tenth, and nothing else with it.",
	.wrong_if = "The change is not small: then ask `lapwing predict`.",
	.check = "Compare two runs that differ in one of them.",
};
