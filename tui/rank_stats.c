/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/rank_stats.h"

#include <math.h>
#include <stdlib.h>

#include "tui/parts.h"

size_t lw_counted_steps(const struct lw_run *run, size_t *ret_first, size_t *ret_last)
{
	size_t n = 0;

	for (size_t s = 0; s < lw_run_n_steps(run); s++) {
		if (!lw_summary_is_counted(run, s))
			continue;
		if (n++ == 0)
			*ret_first = s;
		*ret_last = s;
	}
	return n;
}

int lw_rank_late_ns(const struct lw_run *run, double *late_ns)
{
	size_t n_ranks = run->ranks.n, n_steps = lw_run_n_steps(run);
	int64_t *computed_ns = calloc(n_ranks + 1, sizeof(*computed_ns));

	if (!computed_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t s = 0; s < n_steps; s++) {
		/* alone, nobody is late */
		bool is_known = n_ranks > 1 && lw_run_computed(run, s, computed_ns);
		int64_t first_ns = INT64_MAX;

		for (size_t r = 0; r < n_ranks && is_known; r++)
			first_ns = computed_ns[r] < first_ns ? computed_ns[r] : first_ns;
		for (size_t r = 0; r < n_ranks; r++)
			late_ns[r * n_steps + s] =
				is_known ? (double)(computed_ns[r] - first_ns) : (double)NAN;
	}
	free(computed_ns);
	return LW_OK;
}

/* @computed_ns: room, one a rank. */
static void add_late(const struct lw_run *run, const double *late_ns, int64_t *computed_ns,
	struct lw_rank_stats *stats)
{
	size_t n_steps = lw_run_n_steps(run), n = 0;

	for (size_t s = 0; s < n_steps; s++) {
		bool is_known = run->ranks.n > 1;
		int32_t last;

		if (!lw_summary_is_counted(run, s))
			continue;
		n++;
		for (size_t r = 0; r < run->ranks.n; r++) {
			double ns = late_ns[r * n_steps + s];

			stats[r].late_ns += ns;
			is_known &= !isnan(ns);
			computed_ns[r] = isnan(ns) ? 0 : (int64_t)ns;
		}
		last = is_known ? lw_run_last(run, computed_ns) : LW_NONE;
		if (last != LW_NONE) /* where all are alike nobody is */
			stats[last].last_frac += computed_ns[last] > 0;
	}
	for (size_t r = 0; r < run->ranks.n; r++) {
		stats[r].late_ns = n ? stats[r].late_ns / (double)n : (double)NAN;
		stats[r].last_frac =
			isnan(stats[r].late_ns) ? (double)NAN : stats[r].last_frac / (double)n;
	}
}

static void add_sent(const struct lw_run *run, struct lw_rank_stats *stats)
{
	size_t first = 0, last = 0, n = lw_counted_steps(run, &first, &last);

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		stats[r].sent_bytes_per_step = NAN;
		if (n && rank->traffic.n >= 2)
			stats[r].sent_bytes_per_step =
				(lw_rank_sent_bytes(rank, rank->steps.at[last].end_ns) -
					lw_rank_sent_bytes(rank, rank->steps.at[first].start_ns)) /
				(double)(last - first + 1);
	}
}

int lw_rank_stats_make(
	const struct lw_run *run, const double *late_ns, struct lw_rank_stats **ret_stats)
{
	struct lw_rank_stats *stats = calloc(run->ranks.n + 1, sizeof(*stats));
	int64_t *computed_ns = calloc(run->ranks.n + 1, sizeof(*computed_ns));

	if (!stats || !computed_ns) {
		free(stats);
		free(computed_ns);
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu ranks", run->ranks.n);
	}
	add_late(run, late_ns, computed_ns, stats);
	free(computed_ns);
	add_sent(run, stats);
	*ret_stats = stats;
	return LW_OK;
}
