/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/volume.h"

#include <math.h>

#include "analyzer/reconstruct/volume.h"

struct sums { /* over the operations of counted steps; per_*: each as often as a rank of the run has a part in it */
	double n, per_rank, given_bytes, ring_bytes;
	double size_bytes, bus_bytes, service_ns;
	bool is_bus_unknown, is_size_unknown;
};

/* The step of a group, LW_NONE when it is outside of all. */
static int32_t step_of(const struct lw_run *run, const struct lw_group *group)
{
	for (size_t r = 0; r < run->ranks.n; r++)
		if (group->batch_of_rank[r] != LW_NONE)
			return run->ranks.at[r].batches.at[group->batch_of_rank[r]].step;
	return LW_NONE;
}

static bool is_counted(const struct lw_run *run, const struct lw_group *group)
{
	int32_t step = step_of(run, group);

	return step != LW_NONE && lw_summary_is_counted(run, (size_t)step);
}

/* No rank that has it knows its size. */
static bool is_unsized(const struct lw_run *run, const struct lw_group *group)
{
	for (size_t r = 0; r < run->ranks.n && !group->bytes; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);

		if (batch && batch->flags & LW_COLL_NO_BYTES)
			return true;
	}
	return false;
}

/* What each of its ranks sends where they form a ring; of an all-to-all, to all the others. */
static double ring_bytes(const struct lw_group *group, double size_bytes)
{
	double n = group->n_wanted;

	if (group->op == LW_COLL_BROADCAST ||
		group->op == LW_COLL_REDUCE) /* one has nobody behind it */
		return n > 1 ? size_bytes * (n - 1) / n : 0;
	return size_bytes * lw_group_bus_factor(group);
}

static void add(const struct lw_run *run, const struct lw_group *group, bool is_one_clock,
	struct sums *sums)
{
	double share = (double)group->n_ranks / (double)run->ranks.n;
	double size = lw_group_size_bytes(run, group), factor = lw_group_bus_factor(group);

	sums->n++;
	sums->per_rank += share;
	sums->service_ns += lw_group_service_ns(run, group, is_one_clock);
	sums->is_size_unknown |= is_unsized(run, group);
	if (!(size > 0)) /* a barrier */
		return;
	sums->given_bytes += share * lw_group_given_bytes(run, group);
	sums->size_bytes += size;
	sums->is_bus_unknown |= isnan(factor);
	sums->bus_bytes += size * factor;
	sums->ring_bytes += share * ring_bytes(group, size);
}

static void deliver(const struct lw_run *run, const struct sums *sums, struct lw_summary *summary)
{
	static const char no_factor[] = "some operation is of a kind that has no such factor";
	double n_steps = (double)summary->n_steps;

	summary->batches_per_step = lw_summary_exact(sums->per_rank / n_steps, LW_MEASURED);
	summary->bytes_per_step = lw_summary_exact(sums->given_bytes / n_steps, LW_MEASURED);
	summary->expected_bytes_per_step =
		sums->is_bus_unknown ? lw_summary_unknown(no_factor)
				     : lw_summary_exact(sums->ring_bytes / n_steps, LW_ASSUMED);
	if (sums->is_size_unknown) {
		summary->bytes_per_step = summary->expected_bytes_per_step =
			summary->algbw_bytes_per_s = summary->busbw_bytes_per_s =
				lw_summary_unknown("of some operations the size was not recorded");
		return;
	}
	if (!(sums->service_ns > 0) || run->n_missing_ranks) {
		summary->algbw_bytes_per_s = summary->busbw_bytes_per_s = lw_summary_unknown(
			sums->n > 0 ? "a rank is missing: nobody knows when the last one entered"
				    : "no collective operation was recorded in the steps");
		return;
	}
	summary->algbw_bytes_per_s =
		lw_summary_exact(sums->size_bytes / sums->service_ns * 1e9, LW_MEASURED);
	summary->busbw_bytes_per_s =
		sums->is_bus_unknown
			? lw_summary_unknown(no_factor)
			: lw_summary_exact(sums->bus_bytes / sums->service_ns * 1e9, LW_MEASURED);
}

void lw_volume_summarize(const struct lw_run *run, struct lw_summary *summary)
{
	bool is_one_clock = lw_run_is_one_clock(run);
	const struct lw_group *group;
	struct sums sums = {0};

	summary->batches_per_step = summary->bytes_per_step = summary->algbw_bytes_per_s =
		summary->busbw_bytes_per_s = summary->expected_bytes_per_step =
			lw_summary_unknown("no step was found that counts");
	if (!summary->n_steps)
		return;
	lw_vec_foreach (group, &run->groups)
		if (is_counted(run, group))
			add(run, group, is_one_clock, &sums);
	deliver(run, &sums, summary);
}

/* Everything that is moved is allreduced by all ranks. */
static bool is_of_one_kind(const struct lw_run *run)
{
	const struct lw_group *group;

	lw_vec_foreach (group, &run->groups)
		if (group->bytes && is_counted(run, group) &&
			(group->op != LW_COLL_ALLREDUCE || (int32_t)group->n_wanted != run->size))
			return false;
	return true;
}

const char *lw_volume_note(const struct lw_run *run, enum lw_volume_note what)
{
	static const char *const notes[][2] = {
		[LW_VOLUME_BYTES] = {"handed over by each rank", "of gradients, each rank"},
		[LW_VOLUME_BUSBW] = {"algbw x the factor of each operation and its group",
			"algbw x 2(N-1)/N"},
		[LW_VOLUME_RING] = {"by each operation and the ranks of its group",
			"2(N-1)/N of the bytes"},
	};

	if (what == LW_VOLUME_BYTES)
		return notes[what][run->ranks.n && run->ranks.at[0].framework];
	return notes[what][is_of_one_kind(run)];
}
