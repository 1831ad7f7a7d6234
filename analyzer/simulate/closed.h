/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closed.h - the closed models (CSF, OSF, OSF_f) on the fit of a run, under another setting.
 *
 * Reads:  a fit, and the replay for what a what-if changes.   Writes: nothing.
 * They see one mean step: compute until the training thread waits, gradients ready in order, one link
 * with the fitted cost of this run. No rounds, no ticks: the timeout of OSF_f is the cycle time.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_CLOSED_H
#define LAPWING_ANALYZER_SIMULATE_CLOSED_H

#include "analyzer/fit/fit.h"
#include "analyzer/fit/scaling.h"
#include "analyzer/simulate/replay.h"

/** lw_closed_unknown() - what of @whatif the closed models do not know, as a static text; NULL: nothing. */
const char *lw_closed_unknown(const struct lw_whatif *whatif);

/**
 * lw_closed_predict() - the factors under @whatif; as recorded they are those of the fit. NAN for
 * what lw_closed_unknown() names.
 * @ret_compute_ns: T_comp
 * @ret_tail_ns: what comes in a step after T_comp and what is exposed: a step is T_comp / factor + tail
 * Return: LW_OK, LW_ERR_NOMEM, or lw_replay_scale()'s errors.
 */
int lw_closed_predict(const struct lw_replay *replay, const struct lw_fit *fit,
	const struct lw_whatif *whatif, struct lw_scaling ret_scaling[LW_SCALING_N],
	double *ret_compute_ns, double *ret_tail_ns);

/**
 * lw_closed_comm() - lw_scaling_comm_ns() under @whatif.
 * Return: as above.
 */
int lw_closed_comm(const struct lw_replay *replay, const struct lw_fit *fit,
	const struct lw_whatif *whatif, double *ret_comm_ns, bool *ret_is_extrapolated);

#endif /* LAPWING_ANALYZER_SIMULATE_CLOSED_H */
