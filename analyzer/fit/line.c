/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/line.h"

void lw_line_add(struct lw_line_sums *sums, double x, double y, double w)
{
	long double wide_w = w;

	sums->w += wide_w;
	sums->wx += wide_w * x;
	sums->wy += wide_w * y;
	sums->wxx += wide_w * x * x;
	sums->wxy += wide_w * x * y;
	sums->wyy += wide_w * y * y;
}

static struct lw_line line_at(const struct lw_line_sums *s, long double a, long double b)
{
	long double residual = s->wyy - 2 * a * s->wy - 2 * b * s->wxy + a * a * s->w +
			       2 * a * b * s->wx + b * b * s->wxx;

	return (struct lw_line){(double)a, (double)b, residual > 0 ? (double)residual : 0};
}

struct lw_line lw_line_fit(const struct lw_line_sums *s)
{
	long double determinant = s->w * s->wxx - s->wx * s->wx;
	struct lw_line level = line_at(s, s->wy > 0 ? s->wy / s->w : 0, 0);
	struct lw_line through_zero;
	long double a, b;

	/* One distinct x leaves rounding only: 1e-15 is a spread of 3e-8 of the mean. */
	if (determinant <= 1e-15L * s->w * s->wxx)
		return level;
	b = (s->w * s->wxy - s->wx * s->wy) / determinant;
	a = (s->wy - b * s->wx) / s->w;
	if (a >= 0 && b >= 0)
		return line_at(s, a, b);
	through_zero = line_at(s, 0, s->wxy > 0 ? s->wxy / s->wxx : 0);
	return through_zero.residual < level.residual ? through_zero : level;
}
