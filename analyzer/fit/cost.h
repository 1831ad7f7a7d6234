/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.h - one operation's time against its bytes: affine, piecewise (OSF eq. 18), segments, table.
 *
 * Pure: sizes with mean times in, a cost out. Means, since only they add up to step times.
 * Not for: where the samples come from (fit.h).
 */
#ifndef LAPWING_ANALYZER_FIT_COST_H
#define LAPWING_ANALYZER_FIT_COST_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/fit/samples.h"

enum lw_cost_form {
	LW_COST_NONE,      /* no data */
	LW_COST_AFFINE,    /* a + b D */
	LW_COST_PIECEWISE, /* eq. 18: a1 log2 D + b1 below the threshold, a2 D + b2 from it on */
	LW_COST_SEGMENTS,  /* straight lines that meet at a few knots (fit/segments.h) */
	LW_COST_TABLE,     /* mean of each size, straight lines between them */
};

enum lw_weighting {
	LW_WEIGHT_EQUAL,    /* plain least squares: large messages decide */
	LW_WEIGHT_RELATIVE, /* 1 / t^2 of the mean of each size */
	/* 1 / t^2 of the fitted t, iterated. Like RELATIVE, but noise cannot choose its own weight:
	 * with few samples a size RELATIVE is too low by about twice the squared scatter. */
	LW_WEIGHT_FITTED,
};

struct lw_cost {
	enum lw_cost_form form;
	/* AFFINE, fitted beside every other form; TABLE uses it below its sizes */
	double a_ns, b_ns_per_byte; /* >= 0 */
	/* PIECEWISE */
	double threshold_bytes;      /* D_thresh: smallest size of the right side */
	double left_ns_per_doubling; /* a1 >= 0 */
	double left_ns;              /* b1 >= 0 */
	double right_ns_per_byte;    /* a2 > 0 */
	double right_ns;             /* b2 >= 0 */
	double jump_ns;              /* right minus left side at the threshold */
	size_t n_left_sizes, n_right_sizes;
	/* TABLE: all sizes; SEGMENTS: its knots. Owned */
	struct lw_size *table;
	size_t n_table;
	/* of the data */
	size_t n_sizes;
	double n; /* samples */
	double min_bytes, max_bytes;
	double mape_frac;  /* mean of |fit - mean| / mean over sizes, weighted by samples */
	double cross_frac; /* the same for sizes left out of the fit; NAN = not cross-validated */
	bool slope_known;  /* false: one distinct size; then a = 0, and b is its time per byte */
	const char *why;   /* static: what the data cannot say, NULL = nothing */
};

/**
 * lw_cost_fit() - fit one form.
 * @sizes: ascending, each once, mean_ns >= 0, n > 0; not modified
 * PIECEWISE needs 3 sizes on each side, SEGMENTS 6 sizes, TABLE 2 sizes; else the result is AFFINE, with why.
 * The breakpoint is searched over all sizes with independent least squares on either side.
 * Return: LW_OK or LW_ERR_NOMEM; free with lw_cost_done(). Cost O(n).
 */
int lw_cost_fit(const struct lw_size *sizes, size_t n, enum lw_cost_form form,
	enum lw_weighting weighting, struct lw_cost *ret_cost);

/**
 * lw_cost_choose() - fit the form that predicts left-out sizes best: each size alone up to 20
 * sizes, else 10 interleaved folds. A form with more parameters must be better by a tenth.
 */
int lw_cost_choose(const struct lw_size *sizes, size_t n, enum lw_weighting weighting,
	struct lw_cost *ret_cost);

void lw_cost_done(struct lw_cost *cost);

/** lw_cost_verdict() - "poor fit: held-out error 92 %"; "" = it is not, or too few sizes to tell. Return: @text. */
enum { LW_VERDICT_TEXT_BYTES = 48 };
const char *lw_cost_verdict(const struct lw_cost *cost, char text[LW_VERDICT_TEXT_BYTES]);

/**
 * lw_cost_ns() - time of one operation of @bytes, ns; 0 for no bytes, NAN without data.
 * @ret_extrapolated: may be NULL; set when @bytes is outside of the sizes that were measured
 */
double lw_cost_ns(const struct lw_cost *cost, double bytes, bool *ret_extrapolated);

/** lw_cost_of() - lw_cost_ns() in the shape of lw_cost_fn (model/osf.h); @cost: struct lw_cost. */
double lw_cost_of(double bytes, const void *cost);

const char *lw_cost_form_name(enum lw_cost_form form);

#endif /* LAPWING_ANALYZER_FIT_COST_H */
