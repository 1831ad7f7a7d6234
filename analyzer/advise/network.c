/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - what another network would bring: more bandwidth, lower latency.
 *
 * Not settings but answers: whether to look at the network at all. Twice the bandwidth (half the
 * latency) is what is claimed; the further ones show where it stops helping.
 */
#include <math.h>
#include <stdio.h>

#include "analyzer/advise/trial.h"

struct step_up {
	double bandwidth_frac, latency_frac;
	const char *label;
};

static int ask(const struct lw_adviser *self, struct lw_advice_list *list,
	const struct step_up *steps, size_t n, const char *what)
{
	struct lw_trial first = {0}, last = {0};
	struct lw_advice *advice;
	char gain[128];
	int status = LW_OK;

	if (list->replay->input.n_ranks < 2)
		return LW_OK;
	for (size_t i = 0; i < n && status == LW_OK; i++) {
		struct lw_whatif whatif = LW_WHATIF_RECORDED;

		whatif.bandwidth_frac = steps[i].bandwidth_frac;
		whatif.latency_frac = steps[i].latency_frac;
		status = lw_advise_try(
			list, self->id, &whatif, i ? &last : &first, "%s", steps[i].label);
	}
	if (status < 0)
		return status;
	if (first.prediction.is_extrapolated && !list->replay->wire.is_slope_known)
		return lw_advise_cannot_tell(list, self->id, &first, steps[0].label);
	if (!lw_advise_is_sure(list, &first))
		return lw_advise_note(list, self->id,
			"%s would bring no more than this run can tell (the step %s); %s would bring it %s",
			steps[0].label, lw_advise_gain_text(list, &first, gain), steps[n - 1].label,
			lw_advise_gain_text(list, &last, (char[128]){0}));
	if (lw_advise_add(list, self, LW_ADVICE_HARDWARE, &first, &advice) < 0)
		return LW_ERR_NOMEM;
	snprintf(advice->why, sizeof(advice->why), "%s: with %s the step comes %s; with %s %s",
		what, steps[0].label, lw_advise_gain_text(list, &first, gain), steps[n - 1].label,
		lw_advise_gain_text(list, &last, (char[128]){0}));
	return LW_OK;
}

static int advise_bandwidth(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	static const struct step_up steps[] = {{2, 1, "twice the bandwidth"},
		{4, 1, "4 times the bandwidth"}, {10, 1, "10 times the bandwidth"}};

	(void)run;
	return ask(self, list, steps, sizeof(steps) / sizeof(steps[0]),
		"time on the wire that grows with the bytes is exposed");
}

static int advise_latency(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	static const struct step_up steps[] = {
		{1, 0.5, "half the latency"}, {1, 0.1, "a tenth of the latency"}};

	(void)run;
	return ask(self, list, steps, sizeof(steps) / sizeof(steps[0]),
		"what every round and operation costs, however small, is exposed");
}

const struct lw_adviser lw_adviser_bandwidth = {
	.id = "network.bandwidth",
	.title = "More bandwidth",
	.run = advise_bandwidth,
	.assumes =
		"The part of an operation's cost that grows with its size is bandwidth, and shrinks with it; what it costs whatever its size does not.",
	.wrong_if =
		"The limit is not the link: a core that copies or sums, a window of TCP, a switch that others share.",
	.check =
		"Record the job on the faster network; or on a slower one (tc tbf), and see whether `lapwing predict --bandwidth-frac` of this run says the same.",
};

const struct lw_adviser lw_adviser_latency = {
	.id = "network.latency",
	.title = "Lower latency",
	.run = advise_latency,
	.assumes =
		"What a coordination round costs is latency, and so is what an operation costs whatever its size; both shrink with it.",
	.wrong_if =
		"Scheduling and system calls are a part of it: another network does not change those.",
	.check = "Compare `lapwing report` of the job on both networks.",
};
