/* SPDX-License-Identifier: Apache-2.0 */
/*
 * straggler.c - the rank that others wait for, and what it costs them.
 *
 * A rank is late in a step when it computed longest before its last gradient came, as the report counts it
 * (lw_run_computed()): not when the step before ended later for it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/advise/gpu_span.h"
#include "analyzer/advise/trial.h"
#include "analyzer/reconstruct/nccl_words.h"
#include "analyzer/simulate/stats.h"
#include "base/units.h"

static const double WORTH_TELLING_FRAC = 0.02; /* of the step, as in the report */
static const double MOST_STEPS_FRAC = 0.75;    /* last in as many: one rank is to blame */

enum { LATE_TEXT_BYTES = 640 };

struct late {
	uint32_t rank;     /* index into run->ranks: last most often */
	double steps_frac; /* how often */
	double late_ns;    /* behind the median rank, mean over steps: it, or whoever came last */
	double n_steps;    /* that count */
	double first_ns;   /* behind the first, mean of the steps that it was last in */
	bool is_persistent;
	/* persistent: the last of all others behind the median rank, mean over steps: that stays */
	double others_ns;
};

struct arrivals { /* of one step, by rank, and sorted */
	int64_t *computed_ns;
	double *came_ns, *sorted_ns;
	double median_ns, last_ns; /* last: of who came last, alone or not */
	int32_t last;              /* LW_NONE: several, together */
};

/* Return: step @s counts, and what ranks computed in it is known. */
static bool find_arrivals(const struct lw_run *run, size_t s, struct arrivals *arrivals)
{
	size_t n_ranks = run->ranks.n;

	for (size_t r = 0; r < n_ranks; r++)
		if (s >= run->ranks.at[r].steps.n || run->ranks.at[r].steps.at[s].excluded)
			return false;
	if (!lw_run_computed(run, s, arrivals->computed_ns))
		return false;
	arrivals->last = lw_run_last(run, arrivals->computed_ns);
	for (uint32_t r = 0; r < n_ranks; r++)
		arrivals->came_ns[r] = arrivals->sorted_ns[r] = (double)arrivals->computed_ns[r];
	qsort(arrivals->sorted_ns, n_ranks, sizeof(double), lw_stats_ascending);
	arrivals->median_ns = arrivals->sorted_ns[(n_ranks - 1) / 2];
	arrivals->last_ns = arrivals->sorted_ns[n_ranks - 1];
	return true;
}

/* Behind the median rank in a step: the last of all but @rank, mean. */
static double others_ns(const struct lw_run *run, uint32_t rank, struct arrivals *arrivals)
{
	double sum_ns = 0, n = 0;

	for (size_t s = 0; s < run->ranks.at[0].steps.n && run->ranks.n > 2; s++) {
		double latest_ns = 0;

		if (!find_arrivals(run, s, arrivals))
			continue;
		n++;
		for (uint32_t r = 0; r < run->ranks.n; r++)
			if (r != rank)
				latest_ns = fmax(latest_ns, arrivals->came_ns[r]);
		sum_ns += fmax(latest_ns - arrivals->median_ns, 0);
	}
	return n > 0 ? sum_ns / n : 0;
}

static void compare(const struct lw_run *run, struct arrivals *arrivals, double *late_ns,
	double *n_last, double *first_ns, struct late *late)
{
	double last_ns = 0, n_steps = 0;

	for (size_t s = 0; s < run->ranks.at[0].steps.n; s++) {
		if (!find_arrivals(run, s, arrivals))
			continue;
		n_steps++;
		if (arrivals->last != LW_NONE) {
			n_last[arrivals->last]++;
			first_ns[arrivals->last] += arrivals->last_ns - arrivals->sorted_ns[0];
		}
		last_ns += arrivals->last_ns - arrivals->median_ns;
		for (uint32_t r = 0; r < run->ranks.n; r++)
			late_ns[r] += arrivals->came_ns[r] - arrivals->median_ns;
	}
	if (!(n_steps > 0))
		return;
	for (uint32_t r = 0; r < run->ranks.n; r++)
		if (n_last[r] > n_last[late->rank])
			late->rank = r;
	late->n_steps = n_steps;
	if (n_last[late->rank] > 0)
		late->first_ns = first_ns[late->rank] / n_last[late->rank];
	late->steps_frac = n_last[late->rank] / n_steps;
	late->is_persistent = late->steps_frac >= MOST_STEPS_FRAC;
	late->late_ns = (late->is_persistent ? late_ns[late->rank] : last_ns) / n_steps;
	if (late->is_persistent)
		late->others_ns = others_ns(run, late->rank, arrivals);
}

static int find_late(const struct lw_run *run, struct late *ret_late)
{
	size_t n_ranks = run->ranks.n;
	double *scratch = calloc(n_ranks * 5, sizeof(*scratch));
	struct arrivals arrivals = {.computed_ns = calloc(n_ranks, sizeof(int64_t)),
		.came_ns = scratch,
		.sorted_ns = scratch + n_ranks};
	bool has_room = scratch && arrivals.computed_ns;

	*ret_late = (struct late){0};
	if (has_room)
		compare(run, &arrivals, scratch + 2 * n_ranks, scratch + 3 * n_ranks,
			scratch + 4 * n_ranks, ret_late);
	free(arrivals.computed_ns);
	free(scratch);
	return has_room ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory for %zu ranks", n_ranks);
}

/* The one that others are compared with: of two, the other one. */
static const char *median_name(const struct lw_run *run)
{
	return run->ranks.n == 2 ? "other rank" : "median rank";
}

static void describe(const struct lw_run *run, const struct late *late, char text[LATE_TEXT_BYTES])
{
	const struct lw_rank *rank = &run->ranks.at[late->rank];
	char by[LW_UNIT_TEXT_BYTES], missing[LW_MISSING_TEXT_BYTES], range[LW_LATE_RANGE_BYTES];
	size_t n;

	lw_ns_format(late->late_ns, by);
	if (late->is_persistent)
		snprintf(text, LATE_TEXT_BYTES,
			"rank %d (host %.64s) has its last gradient later than all others in %.0f %% of the steps, on average %s after the %s: %s",
			rank->rank, rank->host, 100 * late->steps_frac, by, median_name(run),
			*lw_advise_late_range_text(run, rank->rank, late->late_ns, range)
				? range
				: "look at what is different there (clock, other processes, its data)");
	else
		snprintf(text, LATE_TEXT_BYTES,
			"whichever rank is last has its last gradient %s after the %s, mean of all steps, and ranks take turns in it (rank %d most often, %.0f %%): look at what differs from step to step (data, collecting garbage, other jobs)",
			by, median_name(run), rank->rank, 100 * late->steps_frac);
	n = strlen(text);
	if (run->n_missing_ranks)
		snprintf(text + n, LATE_TEXT_BYTES - n, "; %s", lw_run_missing_text(run, missing));
}

/* ---- by kernels, where nothing is replayed ------------------------------------------------------------ */

struct gpus { /* of a step, mean: of the late rank, and of the others */
	double compute_ns, least_compute_ns, most_compute_ns;
	double idle_ns, least_idle_ns, most_idle_ns;
	double step_ns; /* mean of all */
};

/* Return: false: of some rank it is not known. */
static bool look_at_gpus(const struct lw_run *run, uint32_t late, struct gpus *ret)
{
	struct gpus gpus = {.least_compute_ns = INFINITY, .least_idle_ns = INFINITY};
	struct lw_gpu_span span;

	for (uint32_t r = 0; r < run->ranks.n; r++) {
		double compute_ns, idle_ns;

		if (!lw_gpu_span(run, &run->ranks.at[r], &span))
			return false;
		compute_ns = (double)span.times->compute_ns / span.n;
		idle_ns = (double)span.times->idle_ns / span.n;
		gpus.step_ns += span.length_ns / (double)run->ranks.n;
		if (r == late) {
			gpus.compute_ns = compute_ns;
			gpus.idle_ns = idle_ns;
			continue;
		}
		gpus.least_compute_ns = fmin(gpus.least_compute_ns, compute_ns);
		gpus.most_compute_ns = fmax(gpus.most_compute_ns, compute_ns);
		gpus.least_idle_ns = fmin(gpus.least_idle_ns, idle_ns);
		gpus.most_idle_ns = fmax(gpus.most_idle_ns, idle_ns);
	}
	*ret = gpus;
	return true;
}

/* "1.03 ms to 1.13 ms", or one of them. */
static const char *range_text(double least_ns, double most_ns, char text[72])
{
	char low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];

	lw_ns_format(least_ns, low);
	lw_ns_format(most_ns, high);
	if (strcmp(low, high) != 0)
		snprintf(text, 72, "%s to %s", low, high);
	else
		snprintf(text, 72, "%s", low);
	return text;
}

/* From where the one step that counts begins to the first operation that was recorded: of a late rank, and of others. */
struct start {
	double ns, least_ns, most_ns;
};

/* Return: @rank comes late to that operation, and had begun its step late: before it, it needs no longer than others. */
static bool began_late(const struct lw_run *run, const struct late *late, struct start *ret_start)
{
	struct start start = {0, INFINITY, 0};
	const struct lw_group *group;
	int64_t late_ns;

	if (late->n_steps > 1 || !run->ranks.at[late->rank].batches.n ||
		run->ranks.at[late->rank].batches.at[0].group == LW_NONE)
		return false;
	group = &run->groups.at[run->ranks.at[late->rank].batches.at[0].group];
	if (lw_group_last(run, group, &late_ns) != (int32_t)late->rank ||
		(double)late_ns < late->first_ns / 2)
		return false;
	for (uint32_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);
		double ns;

		if (!batch)
			continue;
		if (batch != run->ranks.at[r].batches.at || batch->step == LW_NONE)
			return false;
		ns = (double)(lw_batch_wire(batch).start_ns -
			      run->ranks.at[r].steps.at[batch->step].start_ns);
		if (r == late->rank) {
			start.ns = ns;
			continue;
		}
		start.least_ns = fmin(start.least_ns, ns);
		start.most_ns = fmax(start.most_ns, ns);
	}
	*ret_start = start;
	return start.ns <= start.most_ns;
}

/* What makes it late: half of the lateness at least is there. */
static const char *cause_text(const struct gpus *gpus, double late_ns)
{
	if (gpus->compute_ns - gpus->most_compute_ns >= late_ns / 2)
		return "it computes longer: look at its share of the work and its clock";
	if (gpus->compute_ns - gpus->most_compute_ns >= late_ns / 4)
		return "it computes longer, which is a part of it";
	if (gpus->idle_ns - gpus->most_idle_ns >= late_ns / 2)
		return "it computes no longer, but had nothing to compute for longer: look at its host (launching, input) and its copies";
	return "it computes no longer; what it waits for is not known from its kernels: look at its host (launching, input)";
}

int32_t lw_advise_late_text(const struct lw_run *run, char text[LW_ADVICE_TEXT_BYTES])
{
	char by[LW_UNIT_TEXT_BYTES], own[2][LW_UNIT_TEXT_BYTES], others[2][72], steps[64];
	char cause[256], range[LW_LATE_RANGE_BYTES];
	struct late late = {0};
	struct start start;
	struct gpus gpus;

	text[0] = '\0';
	if (!run->is_plain || !run->gpu.has_kernels || run->ranks.n < 2 || run->n_missing_ranks)
		return LW_NONE;
	if (find_late(run, &late) < 0)
		lw_error_clear();
	if (!late.is_persistent || !look_at_gpus(run, late.rank, &gpus) ||
		late.first_ns * late.steps_frac < WORTH_TELLING_FRAC * gpus.step_ns)
		return LW_NONE;
	if (late.n_steps > 1)
		snprintf(steps, sizeof(steps), "in %.0f %% of %.0f steps", 100 * late.steps_frac,
			late.n_steps);
	else
		snprintf(steps, sizeof(steps), "in the one step that counts");
	if (began_late(run, &late, &start))
		snprintf(cause, sizeof(cause),
			"from where its step begins it takes %s to the first operation, the others %s: it began late, before what was recorded",
			lw_ns_format(start.ns, own[0]),
			range_text(start.least_ns, start.most_ns, others[0]));
	else
		snprintf(cause, sizeof(cause), "%s", cause_text(&gpus, late.first_ns));
	snprintf(text, LW_ADVICE_TEXT_BYTES,
		"rank %d comes last to an operation %s, then %s after the first, and the others wait for it. A step, its GPU computes %s (the others' %s) and is idle %s (%s): %s%s%s",
		run->ranks.at[late.rank].rank, steps, lw_ns_format(late.first_ns, by),
		lw_ns_format(gpus.compute_ns, own[0]),
		range_text(gpus.least_compute_ns, gpus.most_compute_ns, others[0]),
		lw_ns_format(gpus.idle_ns, own[1]),
		range_text(gpus.least_idle_ns, gpus.most_idle_ns, others[1]), cause,
		*lw_advise_late_range_text(run, run->ranks.at[late.rank].rank, late.first_ns, range)
			? "; "
			: "",
		range);
	return run->ranks.at[late.rank].rank;
}

/* What is said of @rank comes before every advice. */
static int lead(struct lw_advice_list *list, const char *id, int32_t rank, const char *text)
{
	int status = lw_advise_lead(list, id, "%s", text);

	if (status == LW_OK)
		list->findings.at[list->findings.n - 1].bound.rank = rank;
	return status;
}

static int advise_late(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	char text[LW_ADVICE_TEXT_BYTES], missing[LW_MISSING_TEXT_BYTES];
	int32_t rank;

	if (run->n_missing_ranks && run->ranks.n > 1 && run->is_plain)
		return lw_advise_find(list, self->id, "who is late is not known: %s",
			lw_run_missing_text(run, missing));
	rank = lw_advise_late_text(run, text);
	return rank == LW_NONE ? LW_OK : lead(list, self->id, rank, text);
}

const struct lw_adviser lw_adviser_late = {
	.id = "ranks.late",
	.title = "A rank that the others wait for",
	.run = advise_late,
	.needs_no_replay = true,
	.assumes =
		"All ranks leave an operation together: whose kernel is the shortest came last, by what the longest is longer. Of each step it is the operation that ranks come to most unevenly.",
	.wrong_if =
		"NCCL's kernels end at different times, or an operation has kernels of several channels' lengths.",
	.check =
		"Record with the late rank on another GPU and host: if another rank is late then, it was the machine.",
};

/* ---- by NCCL's proxies -------------------------------------------------------------------------------- */

static int advise_proxies(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	char late[LW_ADVICE_TEXT_BYTES], text[LW_GPU_TEXT_BYTES];
	int32_t rank;

	if (run->n_missing_ranks || lw_advise_late_text(run, late) != LW_NONE)
		return LW_OK; /* said by ranks.late */
	rank = lw_nccl_late_rank(run, text);
	return rank == LW_NONE ? LW_OK : lead(list, self->id, rank, text);
}

const struct lw_adviser lw_adviser_gpu_late = {
	.id = "gpu.late",
	.title = "A rank that NCCL's data waits for",
	.run = advise_proxies,
	.needs_no_replay = true,
	.assumes =
		"What a message waits for between its sender's having it and its receiver's asking for it, beyond what the receiver says that it waited, is the receiver's coming late.",
	.wrong_if =
		"NCCL's proxy threads of that rank had no core: then its GPU has come, and nobody asks; see cores in `lapwing report`.",
	.check =
		"Record with that rank on another GPU and host: if another rank is late then, it was the machine.",
};

static int advise(const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_advice *advice;
	struct lw_trial trial;
	struct late late = {0};
	char text[LATE_TEXT_BYTES], gain[128];
	int status;

	if (run->ranks.n < 2)
		return LW_OK;
	status = find_late(run, &late);
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
		snprintf(advice->lead, sizeof(advice->lead),
			run->n_missing_ranks ? "Last of the ranks in the run, %d: without it"
					     : "Late rank %d: without it",
			run->ranks.at[late.rank].rank);
	else
		snprintf(advice->lead, sizeof(advice->lead),
			"Ranks are late in turns: if none were,");
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
	.wrong_if = "The late rank has more work, which others would have to take over.",
	.check =
		"Record with the late rank on another host: if another rank is late then, it was the host.",
};
