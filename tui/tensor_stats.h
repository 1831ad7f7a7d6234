/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_stats.h - what the views say of one tensor: means over the counted steps and ranks.
 *
 * Reads:  a run after overlap.   Writes: nothing. Figures that cannot be known are NAN.
 */
#ifndef LAPWING_TUI_TENSOR_STATS_H
#define LAPWING_TUI_TENSOR_STATS_H

#include "analyzer/run.h"

struct lw_tensor_stats {
	uint64_t n;   /* times that some rank sent it in a counted step; 0: never */
	double bytes; /* NAN: not known */
	double least_bytes,
		most_bytes; /* of its operations: those without a name share their kind's */
	double ready_ns; /* queued, after the step began on that rank; n 0: its gradient complete */
	double spread_ns; /* last rank's moment of queueing, or entering, after the first's */
	bool is_entry; /* ranks are on different clocks: spread and last are of entering, as kernels tell */
	int32_t last_rank; /* index of who queued it last most often; LW_NONE: nobody, or not known */
	double last_frac; /* of its operations; 0: no rank is ever later; NAN: not known */
	double negotiate_ns, late_ns, wait_ns, allreduce_ns, entry_ns, misc_ns;
	double mates; /* other tensors in its batch */
	double exposed_frac; /* of the time from queued to the operation's end no kernel of the rank computes; without
			      * kernels: its training thread waits */
};

/** lw_tensor_stats_make() - one for each of run->tensors, freed by the caller. Return: LW_OK, LW_ERR_NOMEM. */
int lw_tensor_stats_make(struct lw_run *run, struct lw_tensor_stats **ret_stats);

#endif /* LAPWING_TUI_TENSOR_STATS_H */
