/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/fit/line.h"
#include "analyzer/fit/segments.h"
#include "base/err.h"

enum { MIN_SIDE_SIZES = 3, MIN_TABLE_SIZES = 2, MAX_ITERATIONS = 30 };

const char *lw_cost_form_name(enum lw_cost_form form)
{
	static const char *const names[] = {"none", "affine", "piecewise", "segments", "table"};

	return names[form];
}

/* Beyond the last row of the table: on along the line to it from a row of at most half its size. The affine fit
 * weighs errors relatively, so small sizes bend it away from what the last byte costs. */
static double beyond_ns(const struct lw_cost *cost, double bytes)
{
	const struct lw_size *table = cost->table, *last = &table[cost->n_table - 1];
	size_t from = cost->n_table;
	double slope;

	for (size_t i = 0; i < cost->n_table && table[i].bytes <= last->bytes / 2; i++)
		from = i;
	if (from == cost->n_table)
		return fmax(cost->a_ns + cost->b_ns_per_byte * bytes, last->mean_ns);
	slope = fmax((last->mean_ns - table[from].mean_ns) / (last->bytes - table[from].bytes), 0);
	return last->mean_ns + slope * (bytes - last->bytes);
}

/* Between two rows of the table; below it the affine fit, never above the first row. */
static double table_ns(const struct lw_cost *cost, double bytes)
{
	const struct lw_size *table = cost->table;
	double affine_ns = cost->a_ns + cost->b_ns_per_byte * bytes;
	size_t low = 0, high = cost->n_table - 1;

	if (bytes <= table[low].bytes)
		return bytes == table[low].bytes ? table[low].mean_ns
						 : fmin(affine_ns, table[low].mean_ns);
	if (bytes >= table[high].bytes)
		return beyond_ns(cost, bytes);
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (table[middle].bytes <= bytes)
			low = middle;
		else
			high = middle;
	}
	return table[low].mean_ns + (table[high].mean_ns - table[low].mean_ns) *
					    (bytes - table[low].bytes) /
					    (table[high].bytes - table[low].bytes);
}

/* Outside of the knots the first or the last line goes on. */
static double segments_ns(const struct lw_cost *cost, double bytes)
{
	const struct lw_size *knot = cost->table;
	size_t k = 0;

	while (k + 2 < cost->n_table && bytes >= knot[k + 1].bytes)
		k++;
	return fmax(knot[k].mean_ns + (knot[k + 1].mean_ns - knot[k].mean_ns) *
					      (bytes - knot[k].bytes) /
					      (knot[k + 1].bytes - knot[k].bytes),
		0);
}

static double form_ns(const struct lw_cost *cost, double bytes)
{
	switch (cost->form) {
	case LW_COST_NONE:
		return NAN;
	case LW_COST_AFFINE:
		return cost->a_ns + cost->b_ns_per_byte * bytes;
	case LW_COST_PIECEWISE:
		if (bytes < cost->threshold_bytes)
			return cost->left_ns + cost->left_ns_per_doubling * log2(fmax(bytes, 1));
		return cost->right_ns + cost->right_ns_per_byte * bytes;
	case LW_COST_SEGMENTS:
		return segments_ns(cost, bytes);
	case LW_COST_TABLE:
		return table_ns(cost, bytes);
	}
	return NAN;
}

double lw_cost_ns(const struct lw_cost *cost, double bytes, bool *ret_extrapolated)
{
	if (ret_extrapolated)
		*ret_extrapolated =
			bytes > 0 && !(bytes >= cost->min_bytes && bytes <= cost->max_bytes);
	return bytes > 0 ? form_ns(cost, bytes) : 0;
}

double lw_cost_of(double bytes, const void *cost)
{
	return lw_cost_ns(cost, bytes, NULL);
}

void lw_cost_done(struct lw_cost *cost)
{
	free(cost->table);
	*cost = (struct lw_cost){0};
}

/* Weights for @weighting = 1 / t^2 of @ns; a hundredth of the mean is the floor for tiny times. */
static double relative_weight(double ns, double floor_ns, double n)
{
	double base_ns = fmax(ns, floor_ns);

	return base_ns > 0 ? n / (base_ns * base_ns) : n;
}

static void fit_affine(
	const struct lw_size *sizes, const double *weights, size_t n, struct lw_cost *cost)
{
	struct lw_line_sums sums = {0};
	struct lw_line line;

	for (size_t i = 0; i < n; i++)
		lw_line_add(&sums, sizes[i].bytes, sizes[i].mean_ns, weights[i]);
	line = lw_line_fit(&sums);
	cost->form = LW_COST_AFFINE;
	cost->a_ns = line.a;
	cost->b_ns_per_byte = line.b;
}

/* Eq. 18: the best split of @sizes. Return: false when no split has 3 sizes and a slope per side. */
static bool fit_piecewise(const struct lw_size *sizes, const double *weights, size_t n,
	struct lw_line_sums *right_of, struct lw_cost *cost)
{
	struct lw_line_sums left = {0};
	double best = INFINITY;

	/* right_of[i]: sums of the sizes from i on */
	right_of[n] = (struct lw_line_sums){0};
	for (size_t i = n; i-- > 0;) {
		right_of[i] = right_of[i + 1];
		lw_line_add(&right_of[i], sizes[i].bytes, sizes[i].mean_ns, weights[i]);
	}
	for (size_t i = 0; i + MIN_SIDE_SIZES <= n; i++) {
		if (i >= MIN_SIDE_SIZES) {
			struct lw_line slow = lw_line_fit(&left), fast = lw_line_fit(&right_of[i]);

			if (fast.b > 0 && slow.residual + fast.residual < best) {
				best = slow.residual + fast.residual;
				cost->form = LW_COST_PIECEWISE;
				cost->threshold_bytes = sizes[i].bytes;
				cost->left_ns_per_doubling = slow.b;
				cost->left_ns = slow.a;
				cost->right_ns_per_byte = fast.b;
				cost->right_ns = fast.a;
				cost->n_left_sizes = i;
				cost->n_right_sizes = n - i;
				cost->jump_ns = fast.a + fast.b * sizes[i].bytes - slow.a -
						slow.b * log2(sizes[i].bytes);
			}
		}
		lw_line_add(&left, log2(fmax(sizes[i].bytes, 1)), sizes[i].mean_ns, weights[i]);
	}
	return isfinite(best);
}

static double mean_ns(const struct lw_size *sizes, size_t n)
{
	double sum_ns = 0, sum_n = 0;

	for (size_t i = 0; i < n; i++) {
		sum_ns += sizes[i].n * sizes[i].mean_ns;
		sum_n += sizes[i].n;
	}
	return sum_ns / sum_n;
}

static bool fit_segments(
	const struct lw_size *sizes, const double *weights, size_t n, struct lw_cost *cost)
{
	if (n < LW_SEGMENTS_MIN_SIZES) {
		cost->why = "too few sizes for several segments";
		return false;
	}
	cost->n_table = lw_segments_fit(sizes, weights, n, cost->table);
	cost->form = LW_COST_SEGMENTS;
	return true;
}

/* Fit with the weights as they are, then, if FITTED, again with those of the fit until it rests. */
static int fit_weighted(const struct lw_size *sizes, size_t n, enum lw_cost_form form,
	enum lw_weighting weighting, struct lw_cost *cost)
{
	double *weights = calloc(n, sizeof(*weights));
	struct lw_line_sums *right_of = calloc(n + 1, sizeof(*right_of));
	double floor_ns = mean_ns(sizes, n) / 100;
	bool is_piecewise = form == LW_COST_PIECEWISE, is_segments = form == LW_COST_SEGMENTS;

	if (is_segments)
		cost->table = calloc(LW_SEGMENTS_MAX_KNOTS, sizeof(*cost->table));
	if (!weights || !right_of || (is_segments && !cost->table)) {
		free(weights);
		free(right_of);
		lw_cost_done(cost);
		return lw_fail(LW_ERR_NOMEM, "no memory to fit %zu sizes", n);
	}
	for (size_t i = 0; i < n; i++)
		weights[i] = weighting == LW_WEIGHT_EQUAL
				     ? sizes[i].n
				     : relative_weight(sizes[i].mean_ns, floor_ns, sizes[i].n);
	for (int round = 0; round < MAX_ITERATIONS; round++) {
		double change = 0;

		fit_affine(sizes, weights, n, cost); /* beside every other form */
		if (is_piecewise && !fit_piecewise(sizes, weights, n, right_of, cost)) {
			is_piecewise = false;
			cost->why = "too few sizes, or no growth, for two pieces";
		}
		is_segments = is_segments && fit_segments(sizes, weights, n, cost);
		if (weighting != LW_WEIGHT_FITTED)
			break;
		for (size_t i = 0; i < n; i++) {
			double weight = relative_weight(
				form_ns(cost, sizes[i].bytes), floor_ns, sizes[i].n);

			change = fmax(change, fabs(weight / weights[i] - 1));
			weights[i] = weight;
		}
		if (change < 1e-9)
			break;
	}
	free(weights);
	free(right_of);
	return LW_OK;
}

static double mape_frac(const struct lw_cost *cost, const struct lw_size *sizes, size_t n)
{
	double sum = 0, sum_n = 0;

	for (size_t i = 0; i < n; i++) {
		if (!(sizes[i].mean_ns > 0))
			continue;
		sum += sizes[i].n * fabs(form_ns(cost, sizes[i].bytes) / sizes[i].mean_ns - 1);
		sum_n += sizes[i].n;
	}
	return sum_n > 0 ? sum / sum_n : (double)NAN;
}

int lw_cost_fit(const struct lw_size *sizes, size_t n, enum lw_cost_form form,
	enum lw_weighting weighting, struct lw_cost *ret_cost)
{
	struct lw_cost cost = {.n_sizes = n, .cross_frac = NAN, .mape_frac = NAN};
	int status = LW_OK;

	if (n == 0 || form == LW_COST_NONE) {
		cost.why = "no operation of this kind was measured";
		cost.n_sizes = 0;
		*ret_cost = cost;
		return LW_OK;
	}
	cost.min_bytes = sizes[0].bytes;
	cost.max_bytes = sizes[n - 1].bytes;
	cost.slope_known = n > 1;
	for (size_t i = 0; i < n; i++)
		cost.n += sizes[i].n;
	if (n == 1) {
		cost.form = LW_COST_AFFINE;
		cost.b_ns_per_byte = sizes[0].mean_ns / sizes[0].bytes;
		cost.why =
			"one distinct size only: fixed cost and time per byte cannot be told apart";
	} else {
		status = fit_weighted(sizes, n, form, weighting, &cost);
	}
	if (status == LW_OK && form == LW_COST_TABLE && n >= MIN_TABLE_SIZES) {
		cost.form = LW_COST_TABLE;
		cost.table = calloc(n, sizeof(*cost.table));
		if (!cost.table)
			return lw_fail(LW_ERR_NOMEM, "no memory for a table of %zu sizes", n);
		cost.n_table = n;
		memcpy(cost.table, sizes, n * sizeof(*cost.table));
	}
	if (status < 0)
		return status;
	cost.mape_frac = mape_frac(&cost, sizes, n);
	*ret_cost = cost;
	return LW_OK;
}
