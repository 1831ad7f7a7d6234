/* SPDX-License-Identifier: Apache-2.0 */
/* mark.h - the stack of open ranges that mark.c and hook_nvtx.c both keep, one of each per thread. */
#ifndef LAPWING_TRACER_MARK_H
#define LAPWING_TRACER_MARK_H

#include "tracer/tracer.h"

enum { LW_RANGES_MAX = 32 };

struct lw_range {
	const void *domain; /* ranges of one domain nest among themselves only */
	int64_t t0_ns;      /* 0: the process was not live then, so the end is not recorded */
	uint64_t name;      /* string id */
	int64_t value;
};

struct lw_ranges {
	uint32_t n_open;     /* of open[] */
	uint32_t n_overflow; /* pushed on top of a full stack: counted as lost, popped in silence */
	struct lw_range open[LW_RANGES_MAX];
};

/** lw_mark_record() - one MARK record. @t1_ns: equal to @t0_ns for an instant */
void lw_mark_record(enum lw_mark_op op, int64_t t0_ns, int64_t t1_ns, uint64_t name, int64_t value);

/** lw_ranges_push() - open a range now. Return: how many of its domain were open. */
int lw_ranges_push(struct lw_ranges *ranges, const void *domain, uint64_t name, int64_t value);

/**
 * lw_ranges_pop() - close the innermost range of @domain and record it as @op.
 * Return: how many of its domain are still open; -1 = none was.
 */
int lw_ranges_pop(struct lw_ranges *ranges, const void *domain, enum lw_mark_op op);

#endif /* LAPWING_TRACER_MARK_H */
