/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - middles of steps and their bootstrap intervals, the same for the same numbers. */
#ifndef LAPWING_ANALYZER_SIMULATE_STATS_H
#define LAPWING_ANALYZER_SIMULATE_STATS_H

#include <stddef.h>

enum { LW_STATS_MAX = 512 }; /* of longer series this many are kept, for resampling only */

/** lw_stats_ascending() - for qsort() of doubles, none of them NAN. */
int lw_stats_ascending(const void *a, const void *b);

/** lw_stats_median() - of @n values, @values is sorted in place; NAN when @n is 0. */
double lw_stats_median(double *values, size_t n);

/**
 * lw_stats_middle() - the mean of the middle half of @n values, sorted in place; NAN when @n is 0.
 * Where steps are alike it is their median. Where they alternate between two lengths, as they do when
 * ticks catch the last tensor in every other step, it lies between, and the median is either by chance.
 */
double lw_stats_middle(double *values, size_t n);

/**
 * lw_stats_step() - what one says of @n steps: their middle, and its interval, widened to hold that of their
 * median: where they alternate a run may show either. @values is not modified.
 */
void lw_stats_step(
	const double *values, size_t n, double *ret_middle, double *ret_low, double *ret_high);

/**
 * lw_stats_interval() - median of @values (not modified) and its 95 % percentile interval from 200
 * resamples (Efron and Tibshirani 1993). One value, or none: the interval is not known, NAN. All are
 * NAN when there is no memory for a copy.
 */
void lw_stats_interval(
	const double *values, size_t n, double *ret_median, double *ret_low, double *ret_high);

#endif /* LAPWING_ANALYZER_SIMULATE_STATS_H */
