/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_state.h - inside the twin of Horovod's loop: what hvd_cycle.c and hvd_fuse.c share. */
#ifndef LAPWING_ANALYZER_SIMULATE_HVD_STATE_H
#define LAPWING_ANALYZER_SIMULATE_HVD_STATE_H

#include "analyzer/simulate/hvd_cycle.h"

struct done { /* sums over the operations of a step, up to the end of one */
	int64_t start_ns, wire_start_ns, wire_end_ns, end_ns; /* of this one */
	int64_t wire_ns, copy_ns;                             /* of all before it */
};

struct lw_hvd_sim {
	uint32_t n_ranks, n_tensors;
	/* by rank */
	int64_t *start_ns; /* of this step */
	int64_t *blocked_ns, *resumed_ns, *end_ns;
	/* where ranks leave operations apart: entered this round, left the last operation or round */
	int64_t *entered_ns, *left_ns;
	/* by tensor */
	int64_t *last_ready_ns; /* over ranks, absolute; INT64_MAX = not in this step */
	uint32_t *order;        /* all tensors, ascending last_ready_ns */
	uint32_t *agreed;       /* of this round; while they are fused, what is left of them */
	uint32_t *members;      /* of one batch */
	uint32_t *skipped;
	uint64_t *agreed_bits;
	struct done *done; /* by operation of this step */
};

struct lw_hvd_context { /* what one run looks at */
	struct lw_hvd_sim *sim;
	const struct lw_hvd_input *input;
	const struct lw_hvd_setting *setting;
	const struct lw_hvd_cost *cost;
	const struct lw_hvd_observer *observer;
	struct lw_hvd_totals totals;
	uint64_t fusion_bytes;
	int64_t oversleep_ns, busy_oversleep_ns;
	/* the loop, in step on all ranks */
	int64_t enter_ns;     /* of this round */
	int64_t free_ns;      /* the loop's thread has nothing to do from here on */
	int64_t wire_free_ns; /* end of the last operation on the wire */
	bool was_idle;        /* the last round agreed on nothing, and cost what idle ones do */
	bool was_busy;        /* it ran operations */
	bool is_late;         /* this round followed operations without a sleep */
	double round_frac;    /* what this round takes, of the mean */
	/* of this step */
	uint32_t step, n_ops;          /* operations so far */
	int64_t waiting_from_ns;       /* training threads, mean over ranks */
	uint32_t n_slept, n_late;      /* rounds that agreed something, after a sleep and without */
	uint32_t n_in_step, n_pending; /* tensors; those not yet agreed are the last in order */
};

/** lw_hvd_take_batch() - Horovod's greedy fusion with look-ahead: the head takes what fits; one that does not is
 * skipped as long as the batch and all skipped ones together would still fit. Takes one batch out of
 * agreed[@from..@to). Return: where what is left of it begins. */
uint32_t lw_hvd_take_batch(
	struct lw_hvd_context *c, uint32_t from, uint32_t to, uint32_t *ret_n, uint64_t *ret_bytes);

/** lw_hvd_gather_group() - Brings the tensors of the group of agreed[@from] to the front of agreed[@from..@to), in order.
 * Return: the end of them. */
uint32_t lw_hvd_gather_group(struct lw_hvd_context *c, uint32_t from, uint32_t to);

#endif /* LAPWING_ANALYZER_SIMULATE_HVD_STATE_H */
