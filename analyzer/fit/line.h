/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line.h - weighted least squares of y = a + b x with a >= 0 and b >= 0, from sums.
 *
 * Pure. The constraint is part of the minimum, not a cut made after it: where the free optimum
 * leaves the quadrant, the best point of its border is taken.
 */
#ifndef LAPWING_ANALYZER_FIT_LINE_H
#define LAPWING_ANALYZER_FIT_LINE_H

/* Extended, since squares of sizes up to 2^40 bytes are subtracted from one another. */
struct lw_line_sums {
	long double w, wx, wy, wxx, wxy, wyy;
};

struct lw_line {
	double a, b;
	double residual; /* weighted sum of squares */
};

/** lw_line_add() - one observation of weight @w >= 0. */
void lw_line_add(struct lw_line_sums *sums, double x, double y, double w);

/** lw_line_fit() - the best line; with one distinct x it is level (b = 0). @sums->w > 0. */
struct lw_line lw_line_fit(const struct lw_line_sums *sums);

#endif /* LAPWING_ANALYZER_FIT_LINE_H */
