/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h - inside fit/: what a run says about each block of its steps, added up.
 *
 * Reads:  a run after match and step.   Writes: nothing.
 * Not for: statistics of it (fit.c).
 */
#ifndef LAPWING_ANALYZER_FIT_COLLECT_H
#define LAPWING_ANALYZER_FIT_COLLECT_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/fit/fit.h"
#include "analyzer/fit/samples.h"

/* Sums over one block; each mean has its own count. */
struct lw_block {
	double n_steps;                         /* steps, once for all ranks */
	double n_rank_steps, step_ns;           /* steps, once for each rank */
	double n_ready, forward_ns, overlap_ns; /* of those: with ready times */
	double n_compute, compute_ns;           /* with an end of computing */
	double n_update, update_ns;             /* with ready times and an allreduce */
	double n_batches, comm_ns, comm_bytes;  /* allreduces */
	double n_rounds, round_ns;              /* rounds that agreed something */
};

struct lw_tensor_sum {            /* of one tensor in one block */
	double n, after_first_ns; /* ready times after the first one of their rank and step */
};

struct lw_idle_rounds { /* of one rank in one block */
	double n, sum_ns;
};

struct lw_collected {
	size_t n_blocks, n_ranks, n_tensors;
	struct lw_block *blocks;
	struct lw_tensor_sum *tensor_sums;  /* [block][tensor] */
	double *tensor_bytes;               /* largest seen in a batch */
	struct lw_idle_rounds *idle_rounds; /* [block][rank] */
	struct lw_samples samples[LW_FIT_N_COSTS];
	size_t n_steps, n_groups, n_partial;
	bool is_unsized; /* of allreduces in counted steps: of some the bytes are not known */
	double other_ns; /* in counted steps, of operations that are no allreduce of all ranks */
};

/** lw_fit_has_costs() - what operations take can be told: nobody is missing for whom they may have waited, unseen. */
bool lw_fit_has_costs(const struct lw_run *run);

/** lw_fit_collect() - Return: LW_OK, LW_ERR_LIMIT (no counted step), LW_ERR_NOMEM. */
int lw_fit_collect(const struct lw_run *run, struct lw_collected *ret_collected);
void lw_collected_done(struct lw_collected *collected);

#endif /* LAPWING_ANALYZER_FIT_COLLECT_H */
