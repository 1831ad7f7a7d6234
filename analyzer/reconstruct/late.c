/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late.c - what a rank computed in a step before its last gradient was queued: whoever needs most is late by its own doing.
 *
 * Counted from when the rank resumed, without what it waited since: a rank that left the step before last, as it receives
 * over a slow link, begins later and is no late rank. Lengths, not times: they compare across clocks.
 *
 * Of a run without a framework that has kernels: who was shortest in an operation came last to it, by the difference.
 */
#include <string.h>

#include "analyzer/run.h"

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

/* Of an operation whose kernels are known, how much later than the first each rank came: all leave together, so who came
 * later was there for less. The one that came last waited for nobody. */
static bool fill_kernels(const struct lw_run *run, const struct lw_group *group, int64_t *ns)
{
	int64_t longest_ns = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);
		struct lw_interval wire = lw_batch_wire(batch);

		if (!lw_gpu_has(&run->ranks.at[r]) || batch->wire_start_ns == LW_NS_UNKNOWN)
			return false;
		ns[r] = wire.end_ns - wire.start_ns;
		longest_ns = ns[r] > longest_ns ? ns[r] : longest_ns;
	}
	for (size_t r = 0; r < run->ranks.n; r++)
		ns[r] = longest_ns - ns[r];
	return true;
}

static bool fill_entries(const struct lw_run *run, const struct lw_group *group, int64_t *ns)
{
	if (group->n_ranks != run->ranks.n)
		return false;
	if (run->gpu.has_kernels)
		return lw_group_waits(group->op) && fill_kernels(run, group, ns);
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
		return widest_entry(run, s, computed);
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		if (s >= rank->steps.n || rank->steps.at[s].last_ready_ns == LW_NS_UNKNOWN)
			return false;
		computed[r] = computed_ns(rank, began_ns(rank, s), rank->steps.at[s].last_ready_ns);
	}
	return true;
}

/* ---- who is waited for ---------------------------------------------------------------------------- */

int32_t lw_group_last(const struct lw_run *run, const struct lw_group *group, int64_t *ret_ns)
{
	int64_t longest_ns = -1, shortest_ns = INT64_MAX;
	int32_t last = LW_NONE;

	if (group->n_ranks < group->n_wanted || group->n_ranks < 2 || !lw_group_waits(group->op))
		return LW_NONE;
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);
		struct lw_interval wire;

		if (!batch)
			continue;
		if (!lw_gpu_has(&run->ranks.at[r]) || batch->wire_start_ns == LW_NS_UNKNOWN)
			return LW_NONE;
		wire = lw_batch_wire(batch);
		if (wire.end_ns - wire.start_ns > longest_ns)
			longest_ns = wire.end_ns - wire.start_ns;
		if (wire.end_ns - wire.start_ns < shortest_ns) {
			shortest_ns = wire.end_ns - wire.start_ns;
			last = (int32_t)r;
		}
	}
	*ret_ns = longest_ns - shortest_ns;
	return last;
}

bool lw_run_waited(const struct lw_run *run, double *ns, double *n)
{
	double n_steps = 0;
	bool is_known = false;

	memset(ns, 0, run->ranks.n * sizeof(*ns));
	memset(n, 0, run->ranks.n * sizeof(*n));
	for (size_t s = 0; run->ranks.n && s < run->ranks.at[0].steps.n; s++)
		n_steps += !run->ranks.at[0].steps.at[s].excluded;
	for (size_t g = 0; g < run->groups.n && n_steps > 0; g++) {
		const struct lw_group *group = &run->groups.at[g];
		int64_t late_ns;
		int32_t r = lw_group_last(run, group, &late_ns), step;

		step = r == LW_NONE ? LW_NONE : lw_group_batch(run, group, (size_t)r)->step;
		if (step == LW_NONE || run->ranks.at[r].steps.at[step].excluded)
			continue;
		is_known = true;
		if (late_ns <= 0)
			continue;
		ns[r] += (double)late_ns / n_steps;
		n[r]++;
	}
	for (size_t r = 0; r < run->ranks.n && is_known; r++)
		n[r] /= n_steps;
	return is_known;
}
