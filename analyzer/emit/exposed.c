/* SPDX-License-Identifier: Apache-2.0 */
/* exposed.c - what a mean step is made of, from the summary of its ranks. */
#include <math.h>

#include "analyzer/emit/summary.h"

static struct lw_exposed exposed_of(const struct lw_rank_summary *rank)
{
	double entry_ns = isnan(rank->exposed_entry_ns.value) ? 0 : rank->exposed_entry_ns.value;

	return (struct lw_exposed){
		{
			[LW_EXPOSED_COMPUTE] = rank->compute_ns.value,
			[LW_EXPOSED_AGREE] = rank->exposed_negotiate_ns.value + entry_ns,
			[LW_EXPOSED_WAIT] = rank->exposed_wait_ns.value,
			[LW_EXPOSED_WIRE] = rank->exposed_allreduce_ns.value - entry_ns,
			[LW_EXPOSED_MISC] = rank->exposed_misc_ns.value,
			[LW_EXPOSED_IDLE] = rank->idle_ns.value,
		},
		isnan(rank->exposed_entry_ns.value)};
}

struct lw_exposed lw_summary_exposed(
	const struct lw_summary *summary, const struct lw_rank_summary *rank)
{
	struct lw_exposed mean = {.has_waits = false};

	if (rank)
		return exposed_of(rank);
	for (size_t r = 0; r < summary->ranks.n; r++)
		mean.has_waits |= exposed_of(&summary->ranks.at[r]).has_waits;
	for (int i = 0; i < LW_EXPOSED_PARTS; i++) {
		double sum_ns = 0, n = 0;

		for (size_t r = 0; r < summary->ranks.n; r++) {
			double ns = exposed_of(&summary->ranks.at[r]).part_ns[i];

			sum_ns += isnan(ns) ? 0 : ns;
			n += !isnan(ns);
		}
		mean.part_ns[i] = n > 0 ? sum_ns / n : (double)NAN;
	}
	return mean;
}
