/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/tensor_stats.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/emit/summary.h"
#include "analyzer/reconstruct/phase.h"
#include "tui/batch_rows.h"
#include "tui/parts.h"
#include "tui/tensor_unsent.h"
#include "tui/timeline.h"
#include "tui/track.h"

struct making {
	struct lw_run *run;
	struct lw_phases phases;
	struct lw_tensor_stats *stats;
	double *whole_ns;    /* by tensor: queued to end; exposed_frac is of it */
	uint64_t *n_spreads; /* by tensor: operations of which the order of ranks is known */
	uint32_t *n_last;    /* by tensor, rank */
	/* of the rank at hand: when its training thread waited; of one whose kernels are known, when these computed */
	struct lw_track track;
	bool is_of_kernels;
};

/* ---- one rank's view ---------------------------------------------------------------------------- */

static void add_exposed(
	struct making *making, const struct lw_batch *batch, int64_t ready_ns, uint32_t tensor)
{
	int64_t whole_ns, in_it_ns;

	if (!making->track.stretches.n || ready_ns == LW_NS_UNKNOWN || ready_ns >= batch->end_ns) {
		making->whole_ns[tensor] = NAN;
		return;
	}
	whole_ns = batch->end_ns - ready_ns;
	lw_track_columns(&making->track, ready_ns, whole_ns, 1, &in_it_ns);
	making->whole_ns[tensor] += (double)whole_ns;
	making->stats[tensor].exposed_frac +=
		(double)(making->is_of_kernels ? whole_ns - in_it_ns : in_it_ns);
}

static int add_member(struct making *making, size_t r, const struct lw_step *step,
	const struct lw_batch *batch, uint32_t i)
{
	const struct lw_rank *rank = &making->run->ranks.at[r];
	const struct lw_member *member = &rank->members.at[batch->first_member + i];
	struct lw_tensor_stats *stats = &making->stats[member->tensor];
	struct lw_phases *phases = &making->phases;
	int status = lw_phases_collect_members(phases, r, batch, i, 1);
	bool is_known = phases->has_ready;

	if (member->bytes &&
		(!(stats->least_bytes > 0) || (double)member->bytes < stats->least_bytes))
		stats->least_bytes = (double)member->bytes;
	if ((double)member->bytes > stats->most_bytes)
		stats->most_bytes = (double)member->bytes;
	stats->n++;
	stats->mates += batch->n_members - 1;
	stats->bytes += member->bytes ? (double)member->bytes : (double)NAN;
	stats->ready_ns += lw_ns_known(member->ready_ns) - (double)step->start_ns;
	stats->negotiate_ns +=
		is_known ? (double)lw_intervals_length_ns(&phases->negotiate) : (double)NAN;
	stats->wait_ns += is_known ? (double)lw_intervals_length_ns(&phases->wait) : (double)NAN;
	stats->late_ns += is_known && !phases->is_partial
				  ? (double)lw_intervals_length_ns(&phases->late)
				  : (double)NAN;
	stats->allreduce_ns += (double)lw_intervals_length_ns(&phases->allreduce);
	stats->entry_ns +=
		phases->is_partial ? (double)NAN : (double)lw_intervals_length_ns(&phases->entry);
	stats->misc_ns += (double)lw_intervals_length_ns(&phases->misc);
	add_exposed(making, batch, member->ready_ns, member->tensor);
	return status;
}

static int add_step(struct making *making, size_t r, size_t s)
{
	const struct lw_rank *rank = &making->run->ranks.at[r];
	const struct lw_step *step = &rank->steps.at[s];
	int status = LW_OK;

	for (uint32_t b = 0; b < step->n_batches && status == LW_OK; b++) {
		const struct lw_batch *batch = &rank->batches.at[step->first_batch + b];

		for (uint32_t i = 0; i < batch->n_members && status == LW_OK; i++)
			status = add_member(making, r, step, batch, i);
	}
	return status;
}

static void clear_track(struct making *making)
{
	lw_vec_free(&making->track.stretches);
	making->track.total_ns = 0;
}

static int add_rank(struct making *making, size_t r)
{
	const struct lw_rank *rank = &making->run->ranks.at[r];
	const struct lw_interval *at = rank->waits.at;
	size_t n = rank->waits.n;
	int status = LW_OK;

	clear_track(making);
	making->is_of_kernels = lw_gpu_has(rank);
	if (making->is_of_kernels) {
		at = rank->gpu.busy[LW_GPU_COMPUTE].at;
		n = rank->gpu.busy[LW_GPU_COMPUTE].n;
	}
	for (size_t i = 0; i < n && status == LW_OK; i++)
		status = lw_track_add(&making->track, at[i].start_ns, at[i].end_ns);
	for (size_t s = 0; s < rank->steps.n && status == LW_OK; s++)
		if (lw_summary_is_counted(making->run, s))
			status = add_step(making, r, s);
	return status;
}

/* ---- over the ranks ----------------------------------------------------------------------------- */

/* Across clocks nobody knows who queued it last, but lengths of kernels tell who entered it last. */
static void add_entry(struct making *making, const struct lw_group *group)
{
	const struct lw_run *run = making->run;
	const struct lw_timeline_order order = lw_timeline_order(run, group);
	size_t r = 0;
	const struct lw_batch *batch = lw_group_any_batch(run, group, &r);

	if (!order.is_entry || order.first == LW_NONE)
		return;
	for (uint32_t i = 0; i < batch->n_members; i++) {
		uint32_t tensor = run->ranks.at[r].members.at[batch->first_member + i].tensor;

		making->n_spreads[tensor]++;
		making->n_last[(size_t)tensor * run->ranks.n + (size_t)order.last] +=
			order.late_ns > 0;
		making->stats[tensor].spread_ns += (double)order.late_ns;
		making->stats[tensor].is_entry = true;
	}
}

/* Who queued the @i-th tensor of @group last. */
static void add_last(struct making *making, const struct lw_group *group, uint32_t i)
{
	const struct lw_run *run = making->run;
	int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
	size_t last = 0;
	uint32_t tensor = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);
		const struct lw_member *member;

		if (!batch)
			continue;
		member = &run->ranks.at[r].members.at[batch->first_member + i];
		tensor = member->tensor;
		if (member->ready_ns < first_ns)
			first_ns = member->ready_ns;
		if (member->ready_ns > last_ns) {
			last_ns = member->ready_ns;
			last = r;
		}
	}
	making->n_spreads[tensor]++;
	making->n_last[(size_t)tensor * run->ranks.n + last] += last_ns > first_ns;
	making->stats[tensor].spread_ns += (double)(last_ns - first_ns);
}

static bool is_step_counted(const struct lw_run *run, const struct lw_group *group)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);

		if (batch)
			return batch->step != LW_NONE &&
			       lw_summary_is_counted(run, (size_t)batch->step);
	}
	return false;
}

static void add_groups(struct making *making)
{
	const struct lw_run *run = making->run;
	bool is_one_clock = lw_run_is_one_clock(run);

	for (size_t g = 0; g < run->groups.n && run->ranks.n > 1; g++) {
		const struct lw_group *group = &run->groups.at[g];
		const struct lw_phase_span *spans =
			making->phases.spans + making->phases.first_span[g];
		const struct lw_batch *batch = lw_group_batch(run, group, 0);

		if (group->n_ranks < 2 || !is_step_counted(run, group))
			continue;
		if (!is_one_clock)
			add_entry(making, group);
		if (!batch || !is_one_clock)
			continue;
		for (uint32_t i = 0; i < batch->n_members; i++)
			if (spans[i].last_ns != LW_NS_UNKNOWN)
				add_last(making, group, i);
	}
}

/* ---- means -------------------------------------------------------------------------------------- */

static void finish(struct making *making, size_t t)
{
	struct lw_tensor_stats *stats = &making->stats[t];
	const uint32_t *n_last = making->n_last + t * making->run->ranks.n;
	double *sums[] = {&stats->bytes, &stats->ready_ns, &stats->negotiate_ns, &stats->late_ns,
		&stats->wait_ns, &stats->allreduce_ns, &stats->entry_ns, &stats->misc_ns,
		&stats->mates};
	uint64_t n_spreads = making->n_spreads[t];

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		*sums[i] = stats->n ? *sums[i] / (double)stats->n : (double)NAN;
	stats->exposed_frac =
		making->whole_ns[t] > 0 ? stats->exposed_frac / making->whole_ns[t] : (double)NAN;
	stats->last_rank = LW_NONE;
	stats->spread_ns = n_spreads ? stats->spread_ns / (double)n_spreads : (double)NAN;
	stats->last_frac = NAN;
	for (size_t r = 0; r < making->run->ranks.n && n_spreads; r++)
		if (stats->last_rank == LW_NONE || n_last[r] > n_last[stats->last_rank])
			stats->last_rank = (int32_t)r;
	if (n_spreads)
		stats->last_frac = (double)n_last[stats->last_rank] / (double)n_spreads;
	if (stats->last_frac == 0)
		stats->last_rank = LW_NONE;
}

int lw_tensor_stats_make(struct lw_run *run, struct lw_tensor_stats **ret_stats)
{
	size_t n = run->tensors.n + 1;
	struct making making = {.run = run,
		.stats = calloc(n, sizeof(*making.stats)),
		.whole_ns = calloc(n, sizeof(*making.whole_ns)),
		.n_spreads = calloc(n, sizeof(*making.n_spreads)),
		.n_last = calloc(n * (run->ranks.n + 1), sizeof(*making.n_last))};
	int status = lw_phases_init(&making.phases, run);

	if (!making.stats || !making.whole_ns || !making.n_spreads || !making.n_last)
		status = lw_fail(LW_ERR_NOMEM, "no memory for %zu tensors", run->tensors.n);
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++)
		status = add_rank(&making, r);
	if (status == LW_OK)
		add_groups(&making);
	for (size_t t = 0; t < run->tensors.n && status == LW_OK; t++)
		finish(&making, t);
	if (status == LW_OK)
		status = lw_tensor_unsent(run, making.stats);
	lw_phases_done(&making.phases);
	free(making.whole_ns);
	free(making.n_spreads);
	free(making.n_last);
	clear_track(&making);
	if (status < 0)
		free(making.stats);
	else
		*ret_stats = making.stats;
	return status;
}
