/* SPDX-License-Identifier: Apache-2.0 */
/*
 * whatif.h - what a what-if makes of the recorded job: the input of one simulation.
 *
 * Reads:  a replay.   Writes: nothing.   Not for: running it, or what its result means (replay.c).
 */
#ifndef LAPWING_ANALYZER_SIMULATE_WHATIF_H
#define LAPWING_ANALYZER_SIMULATE_WHATIF_H

#include "analyzer/simulate/replay.h"

struct lw_whatif_job {
	struct lw_hvd_input input;
	struct lw_hvd_setting setting;
	struct lw_hvd_cost cost; /* without wire_ns and context */
	bool is_ddp;             /* then ddp and ddp_cost instead of sim, setting and cost */
	struct lw_ddp_setting ddp;
	struct lw_ddp_cost ddp_cost;
	struct lw_wire wire;    /* a view: the replay's own arrays */
	struct lw_hvd_sim *sim; /* the replay's, or its own for more ranks */
	int64_t *step_ns;       /* [n_steps][n_ranks], scratch */
	/* owned, where the job differs from the recorded one; else NULL and false */
	struct lw_hvd_tensor *tensors;
	int32_t *group_of;
	int64_t *ready_ns; /* all rows */
	bool owns_sim;
};

/** lw_whatif_recorded() - the recorded job; nothing in it is owned. */
void lw_whatif_recorded(const struct lw_replay *replay, struct lw_whatif_job *ret_job);

/** lw_whatif_is_recorded() - whether @whatif asks for what was recorded. */
bool lw_whatif_is_recorded(const struct lw_replay *replay, const struct lw_whatif *whatif);

/** lw_whatif_assumes() - what no run could tell of @whatif, or this one of any, as a static text; NULL: nothing. */
const char *lw_whatif_assumes(const struct lw_replay *replay, const struct lw_whatif *whatif);

/**
 * lw_whatif_job() - the job under @whatif.
 * Return: LW_OK or lw_replay_predict()'s errors; lw_whatif_job_done() is to be called in any case.
 */
int lw_whatif_job(const struct lw_replay *replay, const struct lw_whatif *whatif,
	struct lw_whatif_job *ret_job);
void lw_whatif_job_done(struct lw_whatif_job *job);

#endif /* LAPWING_ANALYZER_SIMULATE_WHATIF_H */
