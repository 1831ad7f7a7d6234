/* SPDX-License-Identifier: Apache-2.0 */
/* extract_cost.c - what the loop of this run spends on rounds, copies, polls and the wire. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/extract.h"
#include "analyzer/simulate/stats.h"
#include "base/units.h"

enum {
	MIN_ROUNDS = 10,           /* idle rounds that a mean needs */
	POLL_NS = 1060000,         /* a sleep of 1 ms and Linux's timer slack */
	MIN_POLL_LATE_NS = 250000, /* half a poll is the median; noticing at once takes far less */
	MAX_OVERSLEEP_NS = 2000000,
};
/* ranks that leave an operation less than this of it apart are taken to leave it together */
static const double WORTH_LEAVING_FRAC = 0.05;
static const double MOST_SLEPT_FRAC = 0.3; /* of a cycle: a round that comes later did not sleep */

/* Least squares of y = fixed + per_byte x bytes, both >= 0. */
struct line {
	double n, x, y, xx, xy;
};

static void line_add(struct line *line, double x, double y)
{
	line->n++;
	line->x += x;
	line->y += y;
	line->xx += x * x;
	line->xy += x * y;
}

static void line_solve(const struct line *line, double *ret_fixed, double *ret_slope)
{
	double spread = line->n * line->xx - line->x * line->x;

	*ret_fixed = line->n > 0 ? line->y / line->n : 0;
	*ret_slope = 0;
	if (line->n < 3 || spread <= 1e-9 * line->n * line->xx)
		return;
	*ret_slope = (line->n * line->xy - line->x * line->y) / spread;
	if (*ret_slope < 0) {
		*ret_slope = 0;
		return;
	}
	*ret_fixed = (line->y - *ret_slope * line->x) / line->n;
	if (*ret_fixed < 0) { /* through the origin */
		*ret_fixed = 0;
		*ret_slope = line->x > 0 ? line->y / line->x : 0;
	}
}

static bool is_counted(const struct lw_run *run, const struct lw_batch *batch)
{
	return batch->step != LW_NONE && lw_extract_is_counted(run, (size_t)batch->step);
}

/* The simulator's step for each step of rank 0; its step 0 is the warm-up. */
static uint32_t *map_steps(const struct lw_run *run)
{
	size_t n = run->ranks.at[0].steps.n;
	uint32_t *input_step = calloc(n + 1, sizeof(*input_step)), next = 1;

	for (size_t s = 0; input_step && s < n; s++)
		input_step[s] = lw_extract_is_counted(run, s) ? next++ : 0;
	return input_step;
}

/* Of [@start_ns, @end_ns), mean over ranks: training threads were waiting, in Horovod's way. Spans are asked for in order of
 * time; @next: by rank, the first wait that may not have ended. */
static double waiting_frac(const struct lw_run *run, size_t *next, int64_t start_ns, int64_t end_ns)
{
	double waited_ns = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		while (next[r] < rank->waits.n && rank->waits.at[next[r]].end_ns <= start_ns)
			next[r]++;
		for (size_t w = next[r]; w < rank->waits.n && rank->waits.at[w].start_ns < end_ns;
			w++)
			waited_ns += fmin((double)rank->waits.at[w].end_ns, (double)end_ns) -
				     fmax((double)rank->waits.at[w].start_ns, (double)start_ns);
	}
	return waited_ns / ((double)(end_ns - start_ns) * (double)run->ranks.n);
}

size_t lw_extract_probe(const struct lw_run *run, size_t *next, struct lw_wire_sample *probes)
{
	const struct lw_probe_op *op;
	size_t n = 0;

	lw_vec_foreach (op, &run->probes)
		if (op->nth_in_burst > 0 && op->last_end_ns > op->last_start_ns)
			probes[n++] = (struct lw_wire_sample){op->bytes,
				(double)(op->last_end_ns - op->last_start_ns), op->idle_ns,
				op->burst,
				next ? waiting_frac(run, next, op->last_start_ns, op->last_end_ns)
				     : 0};
	return n;
}

static int take_wire(struct lw_run *run, struct lw_replay *replay)
{
	struct lw_wire_sample *samples =
		malloc((run->groups.n + run->probes.n + 1) * sizeof(*samples));
	struct lw_wire_sample *probes = samples + run->groups.n;
	uint32_t *input_step = map_steps(run);
	size_t *next = calloc(run->ranks.n, sizeof(*next));
	const struct lw_group *group;
	bool one_clock = lw_run_is_one_clock(run);
	int64_t free_ns = INT64_MIN;
	size_t n = 0, n_probes;
	int status;

	if (!samples || !input_step || !next) {
		free(samples);
		free(input_step);
		free(next);
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", run->groups.n);
	}
	replay->min_batch_bytes = UINT64_MAX;
	lw_vec_foreach (group, &run->groups) {
		int64_t idle_ns = free_ns == INT64_MIN ? INT64_MAX : group->last_start_ns - free_ns;
		double took_ns;

		if (group->n_ranks != run->ranks.n)
			continue;
		free_ns = group->last_end_ns > free_ns ? group->last_end_ns : free_ns;
		if ((group->op != LW_COLL_ALLREDUCE && group->op != LW_COLL_ADASUM) ||
			!is_counted(run, lw_group_batch(run, group, 0)))
			continue;
		took_ns = lw_group_service_ns(run, group, one_clock);
		if (took_ns <= 0 || !isfinite(took_ns))
			continue;
		samples[n++] = (struct lw_wire_sample){group->bytes, took_ns, idle_ns,
			input_step[lw_group_batch(run, group, 0)->step],
			waiting_frac(run, next, group->last_start_ns, group->last_end_ns)};
		if (group->bytes < replay->min_batch_bytes)
			replay->min_batch_bytes = group->bytes;
		if (group->bytes > replay->max_batch_bytes)
			replay->max_batch_bytes = group->bytes;
	}
	memset(next, 0, run->ranks.n * sizeof(*next));
	n_probes = lw_extract_probe(run, next, probes);
	status = lw_wire_init(&replay->wire, &(struct lw_wire_source){samples, n, probes, n_probes,
						     replay->cost.round_ns, NAN, true});
	free(samples);
	free(input_step);
	free(next);
	return status;
}

/* Copies in and out, where the transport's own time is known; else they are part of the wire's. */
static void take_copies(const struct lw_run *run, struct lw_hvd_cost *cost)
{
	struct line in = {0}, out = {0}, single_in = {0}, single_out = {0};
	double ignored;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch;

		lw_vec_foreach (batch, &run->ranks.at[r].batches) {
			bool is_fused = batch->n_members > 1;

			if (batch->wire_start_ns == LW_NS_UNKNOWN ||
				batch->wire_end_ns == LW_NS_UNKNOWN || !is_counted(run, batch))
				continue;
			line_add(is_fused ? &in : &single_in, (double)batch->bytes,
				(double)(batch->wire_start_ns -
					 lw_batch_there_ns(&run->ranks.at[r], batch)));
			line_add(is_fused ? &out : &single_out, (double)batch->bytes,
				(double)(batch->end_ns - batch->wire_end_ns));
		}
	}
	line_solve(&in, &cost->copy_in_ns, &cost->copy_in_ns_per_byte);
	line_solve(&out, &cost->copy_out_ns, &cost->copy_out_ns_per_byte);
	line_solve(&single_in, &cost->single_in_ns, &ignored);
	line_solve(&single_out, &cost->single_out_ns, &ignored);
	/* no fused batch seen: a copy each way at memory speed is not known, so it stays 0 */
}

static int64_t last_start(const struct lw_run *run, const struct lw_group *group)
{
	int64_t last_ns = INT64_MIN;

	for (size_t r = 0; r < run->ranks.n; r++)
		if (lw_group_batch(run, group, r)->start_ns > last_ns)
			last_ns = lw_group_batch(run, group, r)->start_ns;
	return last_ns;
}

static int64_t last_end(const struct lw_run *run, const struct lw_group *group)
{
	int64_t last_ns = INT64_MIN;

	for (size_t r = 0; r < run->ranks.n; r++)
		if (lw_group_batch(run, group, r)->end_ns > last_ns)
			last_ns = lw_group_batch(run, group, r)->end_ns;
	return last_ns;
}

/* What an idle round takes when one waits for nobody: least over ranks of their means. NAN = none. */
static double idle_round_ns(const struct lw_run *run)
{
	double least_ns = NAN;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_cycle *cycle;
		double n = 0, sum_ns = 0;

		lw_vec_foreach (cycle, &run->ranks.at[r].cycles) {
			n += cycle->n_unchanged;
			sum_ns += (double)cycle->unchanged_ns;
		}
		if (n >= MIN_ROUNDS)
			least_ns = fmin(least_ns, sum_ns / n);
	}
	return least_ns;
}

struct mean {
	double n, sum;
};

static void mean_add(struct mean *mean, double value)
{
	mean->n++;
	mean->sum += value;
}

static double mean_of(const struct mean *mean) /* NAN = of nothing */
{
	return mean->n > 0 ? mean->sum / mean->n : (double)NAN;
}

/* @before made the loop late, and all of @group was queued by its end: the next round was at once. */
static bool is_late(const struct lw_run *run, const struct lw_group *before,
	const struct lw_group *group, int64_t cycle_ns)
{
	int64_t end_ns = last_end(run, before);

	return end_ns - before->round_ns >= cycle_ns && group->last_ready_ns != LW_NS_UNKNOWN &&
	       group->last_ready_ns <= end_ns;
}

/* A scatter while it is filled: times, in the order of the steps. */
static int scatter_init(struct lw_hvd_scatter *scatter, size_t n, uint32_t n_steps)
{
	*scatter = (struct lw_hvd_scatter){malloc((n + 1) * sizeof(*scatter->frac)),
		calloc((size_t)n_steps + 1, sizeof(*scatter->from)), n_steps};
	return scatter->frac && scatter->from
		       ? LW_OK
		       : lw_fail(LW_ERR_NOMEM, "no memory for %zu rounds", n);
}

static void scatter_add(
	struct lw_hvd_scatter *scatter, struct mean *mean, uint32_t step, double took_ns)
{
	scatter->frac[(size_t)mean->n] = took_ns;
	scatter->from[step + 1]++;
	mean_add(mean, took_ns);
}

static void scatter_finish(struct lw_hvd_scatter *scatter, const struct mean *mean, double mean_ns)
{
	for (uint32_t s = 0; s < scatter->n_steps; s++)
		scatter->from[s + 1] += scatter->from[s];
	for (size_t i = 0; i < (size_t)mean->n; i++)
		scatter->frac[i] = fmax(scatter->frac[i], 0) / fmax(mean_ns, 1);
}

/* From the last rank's entry into a round to its first operation, from one operation to the next, and
 * from an operation to the first of a round that followed at once. */
static int take_rounds(const struct lw_run *run, int64_t cycle_ns, struct lw_replay *replay)
{
	struct mean slept = {0}, next = {0}, agreed = {0}, late = {0};
	const struct lw_group *group, *before = NULL;
	struct lw_hvd_cost *cost = &replay->cost;
	uint32_t *input_step = map_steps(run);
	bool one_clock = lw_run_is_one_clock(run);
	int status = input_step ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory for the steps");

	if (status == LW_OK)
		status = scatter_init(&cost->slept_scatter, run->groups.n, replay->input.n_steps);
	if (status == LW_OK)
		status = scatter_init(&cost->late_scatter, run->groups.n, replay->input.n_steps);
	lw_vec_foreach (group, &run->groups) {
		const struct lw_batch *batch;
		uint32_t step;

		if (status < 0 || group->n_ranks != run->ranks.n || !one_clock)
			continue;
		batch = lw_group_batch(run, group, 0);
		if (!is_counted(run, batch) || group->round_ns == LW_NS_UNKNOWN) {
			before = NULL;
			continue;
		}
		step = input_step[batch->step];
		if (batch->agreed_ns != LW_NS_UNKNOWN)
			mean_add(&agreed, (double)(batch->agreed_ns - group->round_ns));
		if (before && lw_group_batch(run, before, 0)->cycle_ns == batch->cycle_ns)
			mean_add(&next, (double)(last_start(run, group) - last_end(run, before)));
		else if (before && is_late(run, before, group, cycle_ns))
			scatter_add(&cost->late_scatter, &late, step,
				(double)(last_start(run, group) - last_end(run, before)));
		else
			scatter_add(&cost->slept_scatter, &slept, step,
				(double)(last_start(run, group) - group->round_ns));
		before = group;
	}
	free(input_step);
	if (status < 0)
		return status;
	/* fmin() and fmax() pass over what is not known */
	cost->round_ns = fmax(fmin(idle_round_ns(run), mean_of(&agreed)), 0);
	/* always late: then what a round costs otherwise does not matter */
	cost->dispatch_ns = fmax(mean_of(slept.n ? &slept : &late) - cost->round_ns, 0);
	cost->between_ns = fmax(mean_of(&next), 0);
	cost->late_ns = fmax(mean_of(&late) - cost->round_ns - cost->dispatch_ns, 0);
	scatter_finish(&cost->slept_scatter, &slept, cost->round_ns + cost->dispatch_ns);
	scatter_finish(
		&cost->late_scatter, &late, cost->round_ns + cost->late_ns + cost->dispatch_ns);
	return LW_OK;
}

/* How much longer than the cycle time two rounds lie apart: the sleep ends late. By how much decides which
 * tick catches the last tensor, 80 ticks after the first. Idle rounds are counted together, and the median of
 * such counts is taken; those that agreed something lie closer: the thread has just worked, and wakes sooner. */
static int take_oversleep(const struct lw_run *run, int64_t cycle_ns, struct lw_hvd_cost *cost)
{
	lw_vec(double) idle_ns = {0};
	struct mean busy = {0};
	int status = LW_OK;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_cycle *cycle, *before = NULL;

		lw_vec_foreach (cycle, &run->ranks.at[r].cycles) {
			double n = cycle->n_unchanged;

			if (n >= 3 && status == LW_OK) {
				double period_ns = ((double)cycle->unchanged_span_ns -
							   (double)cycle->unchanged_ns / n) /
						   (n - 1);

				status = lw_vec_push(&idle_ns, period_ns - (double)cycle_ns);
			} else if (n == 0 && before && before->n_unchanged == 0) {
				int64_t over_ns = cycle->start_ns - before->start_ns - cycle_ns;

				if (over_ns >= 0 &&
					(double)over_ns < MOST_SLEPT_FRAC * (double)cycle_ns)
					mean_add(&busy, (double)over_ns);
			}
			before = cycle;
		}
	}
	if (idle_ns.n > 0)
		cost->oversleep_ns =
			fmin(fmax(lw_stats_median(idle_ns.at, idle_ns.n), 0), MAX_OVERSLEEP_NS);
	if (busy.n >= MIN_ROUNDS)
		cost->busy_oversleep_ns =
			fmin(mean_of(&busy), MAX_OVERSLEEP_NS) - cost->oversleep_ns;
	lw_vec_free(&idle_ns);
	return status;
}

/* The training thread's poll: with hvd.synchronize() of Horovods that sleep between two looks, a step
 * resumes up to a poll after its last operation ended; others yield and notice at once. */
static int take_poll(const struct lw_run *run, struct lw_hvd_cost *cost)
{
	lw_vec(double) late_ns = {0};
	int status = LW_OK;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		for (size_t s = 0; s < rank->steps.n && status == LW_OK; s++) {
			const struct lw_step *step = &rank->steps.at[s];
			const struct lw_batch *last;

			if (!lw_extract_is_counted(run, s) || step->n_batches == 0 ||
				step->resumed_ns == LW_NS_UNKNOWN)
				continue;
			last = &rank->batches.at[step->first_batch + step->n_batches - 1];
			status = lw_vec_push(&late_ns, (double)(step->resumed_ns - last->end_ns));
		}
	}
	if (late_ns.n > 0 && lw_stats_median(late_ns.at, late_ns.n) > MIN_POLL_LATE_NS)
		cost->poll_ns = POLL_NS;
	lw_vec_free(&late_ns);
	return status;
}

/* How much before the last rank each one leaves an operation, of its time on the wire. What all ranks do by
 * turns is taken off: only the habit of a rank is meant. */
static int take_leaving(const struct lw_run *run, struct lw_replay *replay)
{
	size_t n_ranks = run->ranks.n;
	double *early_ns = calloc(n_ranks, sizeof(*early_ns)), served_ns = 0, least_ns = INFINITY;
	bool one_clock = lw_run_is_one_clock(run);
	const struct lw_group *group;
	double most_frac = 0;

	if (!early_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu ranks", n_ranks);
	lw_vec_foreach (group, &run->groups) {
		if (group->op != LW_COLL_ALLREDUCE || group->n_ranks != n_ranks ||
			!is_counted(run, lw_group_batch(run, group, 0)) || !one_clock)
			continue;
		served_ns += (double)(group->last_end_ns - group->last_start_ns);
		for (size_t r = 0; r < n_ranks; r++) {
			const struct lw_batch *batch = lw_group_batch(run, group, r);

			early_ns[r] += (double)(group->last_end_ns -
						(batch->wire_end_ns == LW_NS_UNKNOWN
								? batch->end_ns
								: batch->wire_end_ns));
		}
	}
	for (size_t r = 0; r < n_ranks; r++)
		least_ns = fmin(least_ns, early_ns[r]);
	for (size_t r = 0; r < n_ranks; r++) {
		early_ns[r] = served_ns > 0 ? fmax(early_ns[r] - least_ns, 0) / served_ns : 0;
		most_frac = fmax(most_frac, early_ns[r]);
	}
	replay->leave_frac = early_ns;
	if (most_frac > WORTH_LEAVING_FRAC && most_frac < 1)
		replay->cost.leave_frac = early_ns;
	return LW_OK;
}

int lw_extract_cost(struct lw_run *run, struct lw_replay *replay)
{
	int status = take_rounds(run, replay->setting.cycle_ns, replay);

	take_copies(run, &replay->cost);
	if (status == LW_OK)
		status = take_oversleep(run, replay->setting.cycle_ns, &replay->cost);
	if (status == LW_OK)
		status = take_poll(run, &replay->cost);
	if (status == LW_OK)
		status = take_leaving(run, replay);
	if (status == LW_OK)
		status = take_wire(run, replay);
	return status;
}
