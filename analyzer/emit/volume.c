/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/volume.h"

#include <math.h>

#include "analyzer/reconstruct/nccl_served.h"
#include "analyzer/reconstruct/volume.h"

struct sums { /* over the operations of counted steps; per_*: each as often as a rank of the run has a part in it */
	double n, n_unmatched, per_rank, given_bytes, ring_bytes;
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
	sums->is_size_unknown |= lw_group_is_unsized(run, group);
	if (!(size > 0)) /* a barrier: its time is none in which something moved */
		return;
	sums->service_ns += lw_group_service_ns(run, group, is_one_clock);
	sums->given_bytes += share * lw_group_given_bytes(run, group);
	sums->size_bytes += size;
	sums->is_bus_unknown |= isnan(factor);
	sums->bus_bytes += size * factor;
	sums->ring_bytes += share * ring_bytes(group, size);
}

/* Sends and receives, and what nothing names, are matched with nobody: each counts where it ran. A send sends its bytes, in
 * a ring or not. */
static void add_unmatched(const struct lw_run *run, const struct lw_rank *rank, struct sums *sums)
{
	double share = 1 / (double)run->ranks.n;

	for (size_t i = 0; i < rank->gpu.nccl_ops.n;) {
		const struct lw_nccl_call *call = &rank->gpu.nccl_ops.at[i];
		struct lw_nccl_call all;
		int32_t step = lw_rank_step_at(
			rank, call->kernel == LW_NONE ? call->start_ns : call->kernel_start_ns);

		i += lw_nccl_together(run, rank, call, &all);
		if (call->batch != LW_NONE || step == LW_NONE ||
			!lw_summary_is_counted(run, (size_t)step))
			continue;
		sums->n_unmatched++;
		sums->per_rank += share;
		sums->is_size_unknown |= (all.flags & LW_NCCL_NO_BYTES) != 0;
		if (all.op == LW_NCCL_RECV)
			continue;
		sums->given_bytes += share * (double)all.bytes;
		sums->ring_bytes += share * (double)all.bytes;
	}
}

/* Why there is no bandwidth although bytes were moved in a known time, or none were. */
static const char *why_no_rate(const struct lw_run *run, const struct sums *sums)
{
	if (sums->n > 0 && run->n_missing_ranks)
		return "a rank is missing: nobody knows when the last one entered";
	if (sums->n_unmatched > 0)
		return "sends and receives only: nobody knows when the peer came";
	return sums->n > 0 ? "the operations of the steps move nothing"
			   : "no collective operation was recorded in the steps";
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
		summary->algbw_bytes_per_s = summary->busbw_bytes_per_s =
			lw_summary_unknown(why_no_rate(run, sums));
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
	const struct lw_rank *rank;
	struct sums sums = {0};

	summary->batches_per_step = summary->bytes_per_step = summary->algbw_bytes_per_s =
		summary->busbw_bytes_per_s = summary->expected_bytes_per_step =
			lw_summary_unknown("no step was found that counts");
	if (!summary->n_steps)
		return;
	lw_vec_foreach (group, &run->groups)
		if (is_counted(run, group))
			add(run, group, is_one_clock, &sums);
	lw_vec_foreach (rank, &run->ranks)
		if (run->is_plain)
			add_unmatched(run, rank, &sums);
	deliver(run, &sums, summary);
}

/* Everything that is moved is allreduced by all ranks. */
static bool is_of_one_kind(const struct lw_run *run)
{
	const struct lw_nccl_call *call;
	const struct lw_group *group;
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		lw_vec_foreach (call, &rank->gpu.nccl_ops)
			if (run->is_plain && call->batch == LW_NONE)
				return false;
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
