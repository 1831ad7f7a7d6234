/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exclude.c - which steps count. A step is left out on all ranks or on none, always with its reason.
 */
#include <stdlib.h>

#include "analyzer/reconstruct/step.h"

enum { MAX_WARM_UP_FRAC_DIVISOR = 4 }; /* at most a quarter of the steps is warm-up by length */
static const double much_longer = 2.0;

static void exclude(struct lw_run *run, size_t s, const char *why)
{
	struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		if (!rank->steps.at[s].excluded)
			rank->steps.at[s].excluded = why;
}

static int compare_ns(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Of the job: the mean over ranks would hide a rank that does nothing, the longest is what counts. */
static int64_t length_ns(const struct lw_run *run, size_t s)
{
	int64_t longest_ns = 0;
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks) {
		const struct lw_step *step = &rank->steps.at[s];

		if (step->n_batches && step->end_ns - step->start_ns > longest_ns)
			longest_ns = step->end_ns - step->start_ns;
	}
	return longest_ns;
}

/* The slow path of the framework's response cache was taken while this step's tensors were negotiated. */
static bool is_uncached(const struct lw_rank *rank, const struct lw_step *step)
{
	const struct lw_cycle *cycle;

	if (step->first_ready_ns == LW_NS_UNKNOWN)
		return false;
	lw_vec_foreach (cycle, &rank->cycles) {
		if (cycle->start_ns > step->end_ns)
			break;
		if (cycle->op == LW_CYCLE_RESPONSES && cycle->n_words &&
			cycle->start_ns >= step->first_ready_ns)
			return true;
	}
	return false;
}

/* Between a mark that ends a step and the next that begins one: evaluation, or a profiler that was off. */
static void exclude_ended(struct lw_run *run, size_t n)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		for (size_t s = 0; s < n && s < rank->step_values.n; s++)
			if (rank->step_values.at[s] < 0 &&
				rank->steps.at[s].start_ns == rank->step_marks.at[s])
				exclude(run, s, "pause: between the end of a step and the next");
}

static void exclude_warm_up(struct lw_run *run, const int64_t *lengths_ns, int64_t median_ns)
{
	const struct lw_rank *rank = &run->ranks.at[0];
	size_t n = rank->steps.n, s = 0, limit = n / MAX_WARM_UP_FRAC_DIVISOR;

	if (run->is_profile && rank->step_marks.n >= 2)
		; /* a profiler begins behind a warm-up of its own, and marks where its first step does */
	else if (rank->step_marks.n < 2 || run->is_plain)
		exclude(run, 0, "warm-up: nobody saw where the first step begins");
	else
		exclude(run, 0, "warm-up: the first step");
	/* With the cache off every step is like that: then it says nothing. */
	if (n > 2 && !is_uncached(rank, &rank->steps.at[n - 2]))
		for (s = 0; s + 1 < n && s <= limit && is_uncached(rank, &rank->steps.at[s]); s++)
			exclude(run, s, "warm-up: tensors are not in the response cache yet");
	for (s = 0; s <= limit && s + 1 < n; s++) {
		if ((double)lengths_ns[s] > much_longer * (double)median_ns)
			exclude(run, s, "warm-up: much longer than the median step");
		else if (s > 0)
			break;
	}
}

/* A pause is a long time before the first gradient of a step: evaluation, a checkpoint, a debugger. */
static bool is_pause(const struct lw_run *run, size_t s, int64_t median_ns)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks) {
		const struct lw_step *step = &rank->steps.at[s];

		if (step->first_ready_ns == LW_NS_UNKNOWN ||
			(double)(step->first_ready_ns - step->start_ns) <
				much_longer * (double)median_ns)
			return false;
	}
	return true;
}

/* The last step, when it carries less than the one before: the run ended inside it. */
static bool is_unfinished(const struct lw_run *run, size_t s)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks) {
		uint64_t bytes[2] = {0, 0}, n[2] = {0, 0};
		bool is_sized = true; /* else the numbers of operations alone compare */

		for (int i = 0; i < 2; i++) {
			const struct lw_step *step = &rank->steps.at[s - (size_t)i];

			for (uint32_t b = 0; b < step->n_batches; b++) {
				const struct lw_batch *batch =
					&rank->batches.at[step->first_batch + b];

				bytes[i] += batch->bytes;
				n[i] += batch->n_members;
				is_sized &= !(batch->flags & LW_COLL_NO_BYTES);
			}
		}
		if ((is_sized && bytes[0] < bytes[1]) || n[0] < n[1])
			return true;
	}
	return false;
}

static void exclude_holes(struct lw_run *run)
{
	const struct lw_group *group;
	const struct lw_rank *rank;

	lw_vec_foreach (group, &run->groups) {
		uint32_t n_here = group->n_wanted;

		if (group->n_wanted == (uint32_t)run->size)
			n_here = (uint32_t)run->ranks.n;
		if (group->n_ranks >= n_here)
			continue;
		for (size_t r = 0; r < run->ranks.n; r++) {
			rank = &run->ranks.at[r];
			if (group->batch_of_rank[r] != LW_NONE &&
				rank->batches.at[group->batch_of_rank[r]].step != LW_NONE)
				exclude(run, (size_t)rank->batches.at[group->batch_of_rank[r]].step,
					"records of a rank are missing");
		}
	}
	lw_vec_foreach (rank, &run->ranks)
		for (size_t s = 0; s < rank->steps.n; s++)
			if (rank->batches.n && !rank->steps.at[s].n_batches)
				exclude(run, s, "records of a rank are missing");
}

/* A profiler's window ends in the middle of what comes before the next step's first kernel, such as loading its input. */
static bool is_window_end(const struct lw_run *run, size_t s)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		if (run->is_profile && lw_gpu_has(rank) && s + 1 < rank->step_values.n &&
			rank->step_values.at[s + 1] < 0 && rank->step_values.at[s] >= 0)
			return true;
	return false;
}

static int exclude_window_ends(struct lw_run *run, size_t n)
{
	const struct lw_step *steps = run->ranks.at[0].steps.at;
	size_t n_ends = 0, n_others = 0;

	for (size_t s = 0; s < n; s++)
		if (!steps[s].excluded)
			*(is_window_end(run, s) ? &n_ends : &n_others) += 1;
	for (size_t s = 0; s < n && n_others; s++)
		if (is_window_end(run, s))
			exclude(run, s, "its end was not seen: the profiler's window ended first");
	if (n_others || !n_ends)
		return LW_OK;
	return lw_run_diag(run, "step", "end not seen", n_ends,
		"the profiler's window ended before the first kernel of the next step: what lies between is missing from the %zu step%s counted, which may be longer and idle for longer",
		n_ends, n_ends == 1 ? "" : "s");
}

/* A run so short that nothing is left: better the last whole step than none, and said so. */
static int keep_one(struct lw_run *run)
{
	struct lw_rank *rank = &run->ranks.at[0];
	size_t n = rank->steps.n, s, n_kept = 0;

	for (s = 0; s < n; s++)
		n_kept += !rank->steps.at[s].excluded;
	if (n_kept)
		return LW_OK;
	for (s = n; s > 0 && lw_step_is_lacking(&rank->steps.at[s - 1]); s--)
		;
	if (!s--)
		return LW_OK;
	if (s > 0 && s == n - 1 && !lw_step_is_lacking(&rank->steps.at[s - 1]) &&
		is_unfinished(run, s))
		s--;
	lw_vec_foreach (rank, &run->ranks)
		rank->steps.at[s].excluded = NULL;
	return lw_run_diag(run, "step", "few steps", 1,
		"only %zu step(s), all of them warm-up or incomplete: one is used nevertheless", n);
}

int lw_step_exclude(struct lw_run *run)
{
	size_t n = run->ranks.n ? run->ranks.at[0].steps.n : 0;
	int64_t *lengths_ns, *sorted_ns, median_ns;
	int status;

	if (!n)
		return LW_OK;
	status = lw_step_lacking(run);
	if (status < 0)
		return status;
	lengths_ns = calloc(2 * n, sizeof(*lengths_ns));
	if (!lengths_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	sorted_ns = lengths_ns + n;
	for (size_t s = 0; s < n; s++)
		sorted_ns[s] = lengths_ns[s] = length_ns(run, s);
	/* The median of the newer half: warm-up must not judge itself. */
	qsort(sorted_ns + n / 2, n - n / 2, sizeof(*sorted_ns), compare_ns);
	median_ns = sorted_ns[n / 2 + (n - n / 2) / 2];
	exclude_ended(run, n);
	exclude_warm_up(run, lengths_ns, median_ns);
	if (n > 1 && is_unfinished(run, n - 1))
		exclude(run, n - 1, "incomplete: the run ended inside it");
	exclude_holes(run);
	for (size_t s = 0; s < n; s++)
		if (is_pause(run, s, median_ns))
			exclude(run, s, "pause: no gradient for longer than two steps");
	free(lengths_ns);
	status = exclude_window_ends(run, n);
	return status == LW_OK ? keep_one(run) : status;
}
