/* SPDX-License-Identifier: Apache-2.0 */
/*
 * straggler.c - the rank that others wait for, and what it costs them.
 *
 * A rank is late in a step when its last gradient came last, counted from the start of its own step: then
 * it is its computing that took longer, not the step before that ended later.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/advise/trial.h"
#include "analyzer/simulate/stats.h"
#include "base/units.h"

static const double WORTH_TELLING_FRAC = 0.02; /* of the step, as in the report */
static const double MOST_STEPS_FRAC = 0.75;    /* last in as many: one rank is to blame */

struct late {
	uint32_t rank;     /* index into run->ranks: last most often */
	double steps_frac; /* how often */
	double late_ns;    /* behind the median rank, mean over steps: it, or whoever came last */
	bool is_persistent;
	/* persistent: the last of all others behind the median rank, mean over steps: that stays */
	double others_ns;
};

static double last_ready_ns(const struct lw_replay *replay, uint32_t step, uint32_t rank)
{
	const struct lw_hvd_input *input = &replay->input;
	const int64_t *ready_ns =
		input->ready_ns + ((size_t)step * input->n_ranks + rank) * input->n_tensors;
	int64_t last_ns = 0;

	for (uint32_t t = 0; t < input->n_tensors; t++)
		last_ns = ready_ns[t] > last_ns ? ready_ns[t] : last_ns;
	return (double)last_ns;
}

struct arrivals { /* of one step, by rank, and sorted */
	double *came_ns, *sorted_ns;
	double median_ns;
	uint32_t last;
};

static void find_arrivals(const struct lw_replay *replay, uint32_t step, struct arrivals *arrivals)
{
	uint32_t n_ranks = replay->input.n_ranks;

	arrivals->last = 0;
	for (uint32_t r = 0; r < n_ranks; r++) {
		arrivals->came_ns[r] = arrivals->sorted_ns[r] = last_ready_ns(replay, step, r);
		if (arrivals->came_ns[r] > arrivals->came_ns[arrivals->last])
			arrivals->last = r;
	}
	qsort(arrivals->sorted_ns, n_ranks, sizeof(double), lw_stats_ascending);
	arrivals->median_ns = arrivals->sorted_ns[(n_ranks - 1) / 2];
}

static int find_late(const struct lw_replay *replay, struct late *ret_late)
{
	uint32_t n_ranks = replay->input.n_ranks, n_steps = replay->input.n_steps - 1;
	double *scratch = calloc((size_t)n_ranks * 4, sizeof(*scratch));
	double *late_ns = scratch + (size_t)2 * n_ranks, *n_last = late_ns + n_ranks;
	struct arrivals arrivals = {.came_ns = scratch, .sorted_ns = scratch + n_ranks};
	double last_ns = 0;

	if (!scratch)
		return lw_fail(LW_ERR_NOMEM, "no memory for %u ranks", n_ranks);
	*ret_late = (struct late){0};
	for (uint32_t s = 1; s <= n_steps; s++) {
		find_arrivals(replay, s, &arrivals);
		n_last[arrivals.last]++;
		last_ns += arrivals.came_ns[arrivals.last] - arrivals.median_ns;
		for (uint32_t r = 0; r < n_ranks; r++)
			late_ns[r] += arrivals.came_ns[r] - arrivals.median_ns;
	}
	for (uint32_t r = 0; r < n_ranks; r++)
		if (n_last[r] > n_last[ret_late->rank])
			ret_late->rank = r;
	ret_late->steps_frac = n_last[ret_late->rank] / n_steps;
	ret_late->is_persistent = ret_late->steps_frac >= MOST_STEPS_FRAC;
	ret_late->late_ns = (ret_late->is_persistent ? late_ns[ret_late->rank] : last_ns) / n_steps;
	for (uint32_t s = 1; s <= n_steps && ret_late->is_persistent && n_ranks > 2; s++) {
		double others_ns = 0;

		find_arrivals(replay, s, &arrivals);
		for (uint32_t r = 0; r < n_ranks; r++)
			if (r != ret_late->rank)
				others_ns = fmax(others_ns, arrivals.came_ns[r]);
		ret_late->others_ns += fmax(others_ns - arrivals.median_ns, 0) / n_steps;
	}
	free(scratch);
	return LW_OK;
}

/* The one that others are compared with: of two, the other one. */
static const char *median_name(const struct lw_run *run)
{
	return run->ranks.n == 2 ? "other rank" : "median rank";
}

static void describe(const struct lw_run *run, const struct late *late, char text[384])
{
	const struct lw_rank *rank = &run->ranks.at[late->rank];
	char by[LW_UNIT_TEXT_BYTES];

	lw_ns_format(late->late_ns, by);
	if (late->is_persistent)
		snprintf(text, 384,
			"rank %d (host %.64s) has its last gradient later than all others in %.0f %% of the steps, on average %s after the %s: look at what is different there (clock, other processes, its data)",
			rank->rank, rank->host, 100 * late->steps_frac, by, median_name(run));
	else
		snprintf(text, 384,
			"whichever rank is last has its last gradient %s after the %s, mean of all steps, and ranks take turns in it (rank %d most often, %.0f %%): look at what differs from step to step (data, collecting garbage, other jobs)",
			by, median_name(run), rank->rank, 100 * late->steps_frac);
}

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	const struct lw_replay *replay = list->replay;
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_advice *advice;
	struct lw_trial trial;
	struct late late = {0};
	char text[384], gain[128];
	int status;

	if (replay->input.n_ranks < 2)
		return LW_OK;
	status = find_late(replay, &late);
	whatif.is_balanced = true;
	if (status == LW_OK)
		status = lw_advise_try(
			list, self->id, &whatif, &trial, "every rank as the median rank");
	if (status < 0)
		return status;
	/* all ranks alike is more than one rank less: what the others differ by may stay */
	trial.step_ns.value += late.others_ns / 2;
	trial.step_ns.high += late.others_ns;
	trial.gain_ns.value -= late.others_ns / 2;
	trial.gain_ns.low -= late.others_ns;
	describe(run, &late, text);
	if (late.late_ns < WORTH_TELLING_FRAC * list->base.step_ns.value)
		return lw_advise_note(list, self->id,
			"no rank is late by %.0f %% of the step or more", 100 * WORTH_TELLING_FRAC);
	if (!lw_advise_is_sure(list, &trial))
		return lw_advise_find(list, self->id,
			"%s. Without it the step would come %s: less than the error of saying so",
			text, lw_advise_gain_text(list, &trial, gain));
	if (lw_advise_add(list, self, LW_ADVICE_WHAT_IF, &trial, &advice) < 0)
		return LW_ERR_NOMEM;
	if (late.is_persistent)
		snprintf(advice->lead, sizeof(advice->lead), "Late rank %d: without it",
			run->ranks.at[late.rank].rank);
	else
		snprintf(advice->lead, sizeof(advice->lead),
			"Ranks are late in turns: if none were");
	snprintf(advice->why, sizeof(advice->why),
		"%s. If %s as the %s of each step, the step would come %s", text,
		late.is_persistent ? "it were" : "every rank were",
		run->ranks.n == 2 ? "faster one" : "median rank",
		lw_advise_gain_text(list, &trial, gain));
	return LW_OK;
}

const struct lw_adviser lw_adviser_straggler = {
	.id = "ranks.straggler",
	.title = "If no rank were late",
	.run = advise,
	.assumes =
		"In each step every rank computes as the median rank of that step did; the network stays as it is. Where it is one rank that is late, what the others differ by is taken off the lower end of the gain, half of it off the value.",
	.wrong_if =
		"The late rank has more work, which others would have to take over; or it is late because its network is slow, which is not in its ready times.",
	.check =
		"Record with the late rank on another host: if another rank is late then, it was the host.",
};
