/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interval.h - sets of time intervals: work that runs side by side is counted once.
 *
 * A set is any list of intervals until lw_intervals_unite() has made it sorted and disjoint; the other
 * functions take united sets. Intervals are half open: [start, end).
 */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_INTERVAL_H
#define LAPWING_ANALYZER_RECONSTRUCT_INTERVAL_H

#include "analyzer/run.h"

struct lw_intervals {
	struct lw_interval *at;
	size_t n, capacity;
};

/** lw_intervals_add() - append [start, end); nothing when it is empty or an end is LW_NS_UNKNOWN. */
int lw_intervals_add(struct lw_intervals *set, int64_t start_ns, int64_t end_ns);

/** lw_intervals_unite() - sort and merge what overlaps or lies at most @gap_ns apart. */
void lw_intervals_unite(struct lw_intervals *set, int64_t gap_ns);

/** lw_intervals_clip() - keep what lies within [start, end). */
void lw_intervals_clip(struct lw_intervals *set, int64_t start_ns, int64_t end_ns);

/** lw_intervals_within() - *@result gets, behind what it holds, the parts of the united @at within [start, end). */
int lw_intervals_within(const struct lw_interval *at, size_t n, int64_t start_ns, int64_t end_ns,
	struct lw_intervals *result);

/** lw_intervals_length_ns() - sum of the lengths. */
int64_t lw_intervals_length_ns(const struct lw_intervals *set);

/** lw_intervals_intersect() - *@result (emptied first; not an operand) = @a and @b. */
int lw_intervals_intersect(
	const struct lw_intervals *a, const struct lw_intervals *b, struct lw_intervals *result);

/** lw_intervals_subtract() - *@result (emptied first; not an operand) = @a without @b. */
int lw_intervals_subtract(
	const struct lw_intervals *a, const struct lw_intervals *b, struct lw_intervals *result);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_INTERVAL_H */
