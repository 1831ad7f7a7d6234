/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doubt.h - what the interval of a prediction gets beyond its errors, and where it ends.
 *
 * Not for: errors that the replay itself shows (replay.c).
 */
#ifndef LAPWING_ANALYZER_SIMULATE_DOUBT_H
#define LAPWING_ANALYZER_SIMULATE_DOUBT_H

#include "analyzer/simulate/replay.h"

/** lw_doubt_ranks() - call @prediction extrapolated where its ranks are @n_doublings away from the recorded ones. */
void lw_doubt_ranks(double n_doublings, struct lw_prediction *prediction);

/** lw_doubt_cores() - widen @prediction by what contended cores make unsure. */
void lw_doubt_cores(const struct lw_replay *replay, struct lw_prediction *prediction);

/** lw_doubt_gain() - widen the interval of @gain by what is not known of @other, per backward pass. */
void lw_doubt_gain(const struct lw_prediction *base, const struct lw_prediction *other,
	struct lw_figure *gain);

/**
 * lw_least_step_ns() - what a step of @input's ranks takes at least, ns: their computing alone, of a mean rank, the
 * lower end of its middle. @scratch: room for as many values as steps.
 */
double lw_least_step_ns(const struct lw_hvd_input *input, double *scratch);

#endif /* LAPWING_ANALYZER_SIMULATE_DOUBT_H */
