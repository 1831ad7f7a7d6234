/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/segments.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { MIN_SEGMENT_SIZES = 2 }; /* beyond the knot itself */
static const double WORTH_FRAC = 2.0 / 3;

struct spline { /* unknown: ns at each knot; normal equations are tridiagonal */
	size_t at[LW_SEGMENTS_MAX_KNOTS], n; /* indices into sizes, ascending */
	double ns[LW_SEGMENTS_MAX_KNOTS];
};

static size_t segment_of(const struct spline *spline, size_t size)
{
	size_t i = 0;

	while (i + 2 < spline->n && size >= spline->at[i + 1])
		i++;
	return i;
}

static double frac_of(
	const struct lw_size *sizes, const struct spline *spline, size_t segment, size_t size)
{
	double from = sizes[spline->at[segment]].bytes, to = sizes[spline->at[segment + 1]].bytes;

	return (sizes[size].bytes - from) / (to - from);
}

static void solve(
	const struct lw_size *sizes, const double *weights, size_t n, struct spline *spline)
{
	double diagonal[LW_SEGMENTS_MAX_KNOTS] = {0}, above[LW_SEGMENTS_MAX_KNOTS] = {0};
	double right[LW_SEGMENTS_MAX_KNOTS] = {0};

	for (size_t i = 0; i < n; i++) {
		size_t s = segment_of(spline, i);
		double frac = frac_of(sizes, spline, s, i), y = weights[i] * sizes[i].mean_ns;

		diagonal[s] += weights[i] * (1 - frac) * (1 - frac);
		above[s] += weights[i] * (1 - frac) * frac;
		diagonal[s + 1] += weights[i] * frac * frac;
		right[s] += y * (1 - frac);
		right[s + 1] += y * frac;
	}
	for (size_t k = 1; k < spline->n; k++) {
		double by = above[k - 1] / diagonal[k - 1];

		diagonal[k] -= by * above[k - 1];
		right[k] -= by * right[k - 1];
	}
	for (size_t k = spline->n; k-- > 0;) {
		double next = k + 1 < spline->n ? above[k] * spline->ns[k + 1] : 0;

		spline->ns[k] = (right[k] - next) / diagonal[k];
	}
	for (size_t k = 0; k < spline->n; k++) /* more bytes never take less time */
		spline->ns[k] = fmax(spline->ns[k], k ? spline->ns[k - 1] : 0);
}

static double residual(
	const struct lw_size *sizes, const double *weights, size_t n, const struct spline *spline)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		size_t s = segment_of(spline, i);
		double frac = frac_of(sizes, spline, s, i);
		double off = spline->ns[s] + frac * (spline->ns[s + 1] - spline->ns[s]) -
			     sizes[i].mean_ns;

		sum += weights[i] * off * off;
	}
	return sum;
}

/* With one knot more, at size @at. Return: false where a segment would hold too few sizes. */
static bool insert(const struct spline *spline, size_t at, struct spline *ret_spline)
{
	size_t k = 0;

	*ret_spline = *spline;
	while (spline->at[k] < at)
		k++;
	if (spline->at[k] < at + MIN_SEGMENT_SIZES || at < spline->at[k - 1] + MIN_SEGMENT_SIZES)
		return false;
	memmove(ret_spline->at + k + 1, ret_spline->at + k,
		(spline->n - k) * sizeof(ret_spline->at[0]));
	ret_spline->at[k] = at;
	ret_spline->n++;
	return true;
}

size_t lw_segments_fit(const struct lw_size *sizes, const double *weights, size_t n,
	struct lw_size ret_knots[LW_SEGMENTS_MAX_KNOTS])
{
	struct spline spline = {.at = {0, n - 1}, .n = 2};
	double least;

	solve(sizes, weights, n, &spline);
	least = residual(sizes, weights, n, &spline);
	while (spline.n < LW_SEGMENTS_MAX_KNOTS) {
		struct spline best = {.n = 0}, tried;
		double best_residual = WORTH_FRAC * least;

		for (size_t at = 1; at + 1 < n; at++) {
			double left;

			if (!insert(&spline, at, &tried))
				continue;
			solve(sizes, weights, n, &tried);
			left = residual(sizes, weights, n, &tried);
			if (left < best_residual) {
				best_residual = left;
				best = tried;
			}
		}
		if (best.n == 0)
			break;
		spline = best;
		least = best_residual;
	}
	for (size_t k = 0; k < spline.n; k++)
		ret_knots[k] = (struct lw_size){
			sizes[spline.at[k]].bytes, spline.ns[k], sizes[spline.at[k]].n};
	return spline.n;
}
