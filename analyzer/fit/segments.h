/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segments.h - inside fit/: time against bytes as straight lines that meet at a few knots.
 *
 * For costs with several regimes (eager and rendezvous, a change of algorithm, a socket buffer that is
 * full), which eq. 18 with its one threshold cannot follow and a table would take the noise of.
 */
#ifndef LAPWING_ANALYZER_FIT_SEGMENTS_H
#define LAPWING_ANALYZER_FIT_SEGMENTS_H

#include <stddef.h>

#include "analyzer/fit/samples.h"

enum { LW_SEGMENTS_MAX_KNOTS = 6, LW_SEGMENTS_MIN_SIZES = 6 };

/**
 * lw_segments_fit() - weighted least squares of a linear spline; knots are the first and last size and those
 * inner ones that lower the residual most, one after the other, while each lowers it by a third.
 * @sizes: ascending, n >= LW_SEGMENTS_MIN_SIZES; @weights: of each size
 * @ret_knots: LW_SEGMENTS_MAX_KNOTS; bytes, and ns that never fall
 * Return: knots, at least 2.
 */
size_t lw_segments_fit(const struct lw_size *sizes, const double *weights, size_t n,
	struct lw_size ret_knots[LW_SEGMENTS_MAX_KNOTS]);

#endif /* LAPWING_ANALYZER_FIT_SEGMENTS_H */
