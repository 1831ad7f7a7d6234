/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mean_step.h - the coarse and the fine model on the mean step of a recorded run.
 *
 * Reads:  a replay, a fit.   Writes: nothing.
 * Both give one step time without an interval, and neither is corrected by the run.
 * Not for: distributions, which take every step as it was (replay.h).
 */
#ifndef LAPWING_ANALYZER_SIMULATE_MEAN_STEP_H
#define LAPWING_ANALYZER_SIMULATE_MEAN_STEP_H

#include "analyzer/fit/fit.h"
#include "analyzer/simulate/replay.h"

struct lw_mean_step {
	double step_ns; /* NAN = cannot be known, and why */
	bool is_extrapolated;
	const char *why; /* static; NULL = known */
};

/**
 * lw_coarse_predict() - two phases and a power (model/coarse.h): T_comp is that of the job under @whatif;
 * T_comm is the mean sum of the recorded operations, changed as @whatif changes the sum of OSF_f's
 * fusion plan; the power is the one that explains the recorded steps best. What follows the last wait
 * is added.
 * Return: LW_OK, LW_ERR_NOMEM, or lw_replay_predict()'s errors.
 */
int lw_coarse_predict(const struct lw_replay *replay, const struct lw_fit *fit,
	const struct lw_whatif *whatif, struct lw_mean_step *ret_answer);

/**
 * lw_fine_predict() - a graph (fine.h) of six mean steps, the first left out: each rank's mean ready times,
 * each operation as the messages of a ring over links whose latency and rate are those of the affine fit
 * (as one message each where that would be more than 400 000 operations). Which tensors share an operation
 * and which operations a round is what the twin of Horovod's loop does with these six steps.
 * Return: as above.
 */
int lw_fine_predict(const struct lw_replay *replay, const struct lw_fit *fit,
	const struct lw_whatif *whatif, struct lw_mean_step *ret_answer);

#endif /* LAPWING_ANALYZER_SIMULATE_MEAN_STEP_H */
