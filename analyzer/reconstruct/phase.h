/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phase.h - the phases of one step of one rank as sets of intervals. docs/phases.md has them in words.
 */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_PHASE_H
#define LAPWING_ANALYZER_RECONSTRUCT_PHASE_H

#include "analyzer/reconstruct/interval.h"

struct lw_phase_span {             /* one tensor of one group: first and last rank that queued it */
	int64_t first_ns, last_ns; /* LW_NS_UNKNOWN: not known, or not for all its ranks */
};

struct lw_phases {
	struct lw_run *run;
	struct lw_phase_span *spans; /* of all members of all groups */
	size_t *first_span;          /* by group */
	/* of the step collected last, united and clipped to it */
	struct lw_intervals negotiate, wait, allreduce, misc;
	struct lw_intervals late, tick, entry; /* parts of negotiate, wait and allreduce */
	struct lw_intervals
		comm; /* from this rank's own ready times to the ends: what it may hide */
	struct lw_intervals running, scratch;
	bool is_one_clock;
	bool has_ready;  /* a ready time was known in it */
	bool is_partial; /* a rank of one of its operations is not in the run, or one is not matched: nobody knows who was last */
};

/** lw_phases_init() - prepare for lw_phases_collect(). lw_phases_done() frees, also after an error. */
int lw_phases_init(struct lw_phases *phases, struct lw_run *run);
void lw_phases_done(struct lw_phases *phases);

/** lw_phases_collect() - fill the sets with step @s of rank @rank_index. */
int lw_phases_collect(struct lw_phases *phases, size_t rank_index, size_t s);

/**
 * lw_phases_collect_members() - fill the sets with what @n tensors of @batch, from the @first, went through,
 * not clipped to a step. @batch has a group.
 */
int lw_phases_collect_members(struct lw_phases *phases, size_t rank_index,
	const struct lw_batch *batch, uint32_t first, uint32_t n);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_PHASE_H */
