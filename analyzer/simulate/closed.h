/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closed.h - the closed models (CSF, OSF, OSF_f) on the inputs of a replay.
 *
 * Reads:  a replay.   Writes: nothing.
 * They see one mean step: compute until the training thread waits, gradients ready in order, one link
 * with the costs of this run. No rounds, no ticks: the timeout of OSF_f is the cycle time.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_CLOSED_H
#define LAPWING_ANALYZER_SIMULATE_CLOSED_H

#include "analyzer/simulate/replay.h"

enum lw_closed_model { LW_CLOSED_CSF, LW_CLOSED_OSF_PAPER, LW_CLOSED_OSF_FIFO };

struct lw_closed {
	double step_ns;         /* of the model asked for */
	double csf, osf, osf_f; /* eq. 2, 3, 11; osf_f is that of the fifo variant */
};

/** lw_closed_predict() - Return: LW_OK, LW_ERR_NOMEM, or lw_replay_predict()'s errors. */
int lw_closed_predict(const struct lw_replay *replay, const struct lw_whatif *whatif,
	enum lw_closed_model model, struct lw_closed *ret_closed);

#endif /* LAPWING_ANALYZER_SIMULATE_CLOSED_H */
