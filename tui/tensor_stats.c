/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/tensor_stats.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/emit/summary.h"
#include "analyzer/reconstruct/phase.h"
#include "tui/batch_rows.h"
#include "tui/parts.h"
#include "tui/tensor_unsent.h"

struct making {
	struct lw_run *run;
	struct lw_phases phases;
	struct lw_tensor_stats *stats;
	double *whole_ns;    /* by tensor: queued to end; exposed_frac is of it */
	uint64_t *n_spreads; /* by tensor: operations of which the order of ranks is known */
	uint32_t *n_last;    /* by tensor, rank */
	int64_t *waited_ns;  /* before each wait of the rank at hand */
};

/* ---- one rank's view ---------------------------------------------------------------------------- */

/* Time that the training thread of @rank has waited before @at_ns. */
static int64_t waited_ns(const struct making *making, const struct lw_rank *rank, int64_t at_ns)
{
	size_t low = 0, high = rank->waits.n;
	const struct lw_interval *wait;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (rank->waits.at[middle].start_ns < at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return 0;
	wait = &rank->waits.at[low - 1];
	return making->waited_ns[low - 1] + (at_ns < wait->end_ns ? at_ns : wait->end_ns) -
	       wait->start_ns;
}

static void add_exposed(struct making *making, const struct lw_rank *rank,
	const struct lw_batch *batch, int64_t ready_ns, uint32_t tensor)
{
	if (rank->waits.n == 0 || ready_ns == LW_NS_UNKNOWN || ready_ns >= batch->end_ns) {
		making->whole_ns[tensor] = NAN;
		return;
	}
	making->whole_ns[tensor] += (double)(batch->end_ns - ready_ns);
	making->stats[tensor].exposed_frac += (double)(waited_ns(making, rank, batch->end_ns) -
						       waited_ns(making, rank, ready_ns));
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
	add_exposed(making, rank, batch, member->ready_ns, member->tensor);
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

static int add_rank(struct making *making, size_t r)
{
	const struct lw_rank *rank = &making->run->ranks.at[r];
	int64_t sum_ns = 0;
	int status = LW_OK;

	free(making->waited_ns);
	making->waited_ns = malloc((rank->waits.n + 1) * sizeof(*making->waited_ns));
	if (!making->waited_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t i = 0; i < rank->waits.n; i++) {
		making->waited_ns[i] = sum_ns;
		sum_ns += rank->waits.at[i].end_ns - rank->waits.at[i].start_ns;
	}
	for (size_t s = 0; s < rank->steps.n && status == LW_OK; s++)
		if (lw_summary_is_counted(making->run, s))
			status = add_step(making, r, s);
	return status;
}

/* ---- over the ranks ----------------------------------------------------------------------------- */

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

	for (size_t g = 0; g < run->groups.n && run->ranks.n > 1; g++) {
		const struct lw_group *group = &run->groups.at[g];
		const struct lw_phase_span *spans =
			making->phases.spans + making->phases.first_span[g];
		const struct lw_batch *batch = lw_group_batch(run, group, 0);

		if (!batch || group->n_ranks < 2 || !is_step_counted(run, group))
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
	free(making.waited_ns);
	if (status < 0)
		free(making.stats);
	else
		*ret_stats = making.stats;
	return status;
}
