/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late.c - what a rank computed in a step before its last gradient was queued: whoever needs most is late by its own doing.
 *
 * Counted from when the rank resumed, without what it waited since: a rank that left the step before last, as it receives
 * over a slow link, begins later and is no late rank. Lengths, not times: they compare across clocks.
 * What the kernels of a run without a framework tell is in late_kernels.c.
 */
#include "analyzer/reconstruct/late.h"

#include <stdio.h>

/* Index of the first wait that starts after @at_ns. */
static size_t first_wait_after(const struct lw_rank *rank, int64_t at_ns)
{
	size_t low = 0, high = rank->waits.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->waits.at[middle].start_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Of [from, to), what it did not wait. One more wait counts that began before, as it may last beyond @from_ns; none that
 * goes on at @to_ns: another thread computed meanwhile. */
static int64_t computed_ns(const struct lw_rank *rank, int64_t from_ns, int64_t to_ns)
{
	size_t i = first_wait_after(rank, from_ns);
	int64_t done_ns = from_ns, ns = 0;

	for (i = i ? i - 1 : 0; i < rank->waits.n && rank->waits.at[i].start_ns < to_ns; i++) {
		const struct lw_interval *wait = &rank->waits.at[i];

		if (wait->end_ns > to_ns)
			continue;
		if (wait->start_ns > done_ns)
			ns += wait->start_ns - done_ns;
		if (wait->end_ns > done_ns)
			done_ns = wait->end_ns;
	}
	return to_ns > done_ns ? ns + to_ns - done_ns : ns;
}

/* With marks a step begins at its mark; what is between resuming and that is computing too. */
static int64_t began_ns(const struct lw_rank *rank, size_t s)
{
	int64_t began_ns = rank->steps.at[s].start_ns;

	if (s && rank->steps.at[s - 1].resumed_ns != LW_NS_UNKNOWN &&
		rank->steps.at[s - 1].resumed_ns < began_ns)
		began_ns = rank->steps.at[s - 1].resumed_ns;
	return began_ns;
}

/* ---- without ready times ------------------------------------------------------------------------- */

/* Before rank @r entered @group: since its operation before. LW_NS_UNKNOWN: that is its first. */
static int64_t before_entry_ns(const struct lw_run *run, const struct lw_group *group, size_t r)
{
	const struct lw_rank *rank = &run->ranks.at[r];
	int32_t index = group->batch_of_rank[r];
	const struct lw_batch *batch = &rank->batches.at[index];

	if (!index)
		return LW_NS_UNKNOWN;
	return batch[-1].end_ns < batch->start_ns ? batch->start_ns - batch[-1].end_ns : 0;
}

static bool fill_entries(const struct lw_run *run, const struct lw_group *group, int64_t *ns)
{
	if (group->n_ranks != run->ranks.n)
		return false;
	for (size_t r = 0; r < run->ranks.n; r++) {
		ns[r] = before_entry_ns(run, group, r);
		if (ns[r] == LW_NS_UNKNOWN)
			return false;
	}
	return true;
}

static int64_t spread_ns(const int64_t *ns, size_t n)
{
	int64_t least = INT64_MAX, most = INT64_MIN;

	for (size_t r = 0; r < n; r++) {
		least = ns[r] < least ? ns[r] : least;
		most = ns[r] > most ? ns[r] : most;
	}
	return most - least;
}

/* Of the operation of step @s before which ranks computed most differently. */
static bool widest_entry(const struct lw_run *run, size_t s, int64_t *computed_ns)
{
	const struct lw_step *step = &run->ranks.at[0].steps.at[s];
	const struct lw_group *widest = NULL;
	int64_t widest_ns = -1;

	for (uint32_t i = 0; i < step->n_batches; i++) {
		int32_t at = run->ranks.at[0].batches.at[step->first_batch + i].group;
		int64_t ns;

		if (at == LW_NONE || !fill_entries(run, &run->groups.at[at], computed_ns))
			continue;
		ns = spread_ns(computed_ns, run->ranks.n);
		if (ns > widest_ns) {
			widest_ns = ns;
			widest = &run->groups.at[at];
		}
	}
	return widest && fill_entries(run, widest, computed_ns);
}

bool lw_run_computed(const struct lw_run *run, size_t s, int64_t *computed)
{
	if (run->is_plain)
		return run->gpu.has_kernels ? lw_kernels_late(run, s, computed)
					    : widest_entry(run, s, computed);
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		if (s >= rank->steps.n || rank->steps.at[s].last_ready_ns == LW_NS_UNKNOWN)
			return false;
		computed[r] = computed_ns(rank, began_ns(rank, s), rank->steps.at[s].last_ready_ns);
	}
	return true;
}

const char *lw_run_missing_text(const struct lw_run *run, char text[LW_MISSING_TEXT_BYTES])
{
	snprintf(text, LW_MISSING_TEXT_BYTES,
		"%u of the job's %d ranks %s not in the run, and may be what all wait for",
		run->n_missing_ranks, run->size, run->n_missing_ranks == 1 ? "is" : "are");
	return text;
}

/* ---- who is last ---------------------------------------------------------------------------------- */

int32_t lw_run_last(const struct lw_run *run, const int64_t *computed_ns)
{
	int64_t resolution_ns =
		run->is_plain && run->gpu.has_kernels ? LW_LATE_RESOLUTION_NS : INT64_MIN;
	int32_t last = 0;

	for (int32_t r = 1; r < (int32_t)run->ranks.n; r++)
		last = computed_ns[r] > computed_ns[last] ? r : last;
	for (int32_t r = 0; r < (int32_t)run->ranks.n; r++)
		if (r != last && computed_ns[last] - computed_ns[r] < resolution_ns)
			return LW_NONE;
	return last;
}
