/* SPDX-License-Identifier: Apache-2.0 */
/* mark.h - open ranges, of which every thread has one stack, shared by mark.c and hook_nvtx.c. */
#ifndef LAPWING_TRACER_MARK_H
#define LAPWING_TRACER_MARK_H

#include "tracer/tracer.h"

/** lw_mark_record() - one MARK record. @t1_ns: equal to @t0_ns for an instant */
void lw_mark_record(enum lw_mark_op op, int64_t t0_ns, int64_t t1_ns, uint64_t name, int64_t value);

/** lw_ranges_push() - open a range now. Return: how many of its domain were open. */
int lw_ranges_push(const void *domain, uint64_t name, int64_t value);

/**
 * lw_ranges_pop() - close the innermost range of @domain and record it as @op.
 * Return: how many of its domain are still open; -1 = none was.
 */
int lw_ranges_pop(const void *domain, enum lw_mark_op op);

/** lw_ranges_flush() - the process ends: ranges of any thread that are open are counted as lost. */
void lw_ranges_flush(void);

/** lw_ranges_forget() - in a forked child: those of other threads are its parent's. */
void lw_ranges_forget(void);

/** lw_nvtx_count_started() - ranges that were started by an id and not ended, as far as their ends would be recorded. */
int64_t lw_nvtx_count_started(void);

#endif /* LAPWING_TRACER_MARK_H */
