/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recovery.h - what an idle link saves the next operation.
 *
 * Pure. While nothing is sent, token buckets fill, queues drain and windows open, up to a limit; the next
 * operation is that much faster. In the affine cost of OSF eq. 7 this has no place, and fitted without it
 * operations after a pause pull the fixed cost down, even below zero.
 *
 *     service = cost(D) - frac x min(idle, limit)                           0 <= frac <= 1
 *
 * A token bucket of B bytes on a link of r bytes/s has frac 1 and limit B / r.
 */
#ifndef LAPWING_ANALYZER_FIT_RECOVERY_H
#define LAPWING_ANALYZER_FIT_RECOVERY_H

#include <stddef.h>

enum { LW_RECOVERY_MOST_NS = 32000000 }; /* the longest limit that is looked for */

struct lw_recovery {
	double frac;     /* 0 = none was found */
	double limit_ns; /* a longer pause saves no more */
	double told_ns; /* pauses up to about this long were compared with shorter ones: of longer ones nothing is known */
};

struct lw_recovery_sample {
	double bytes, service_ns; /* > 0 */
	double idle_ns;           /* >= 0; the pause before it */
};

/**
 * lw_recovery_fit() - compare operations of equal size that followed pauses of different length.
 * @samples: any order; sorted by bytes in place
 * Return: frac 0 unless the saving is larger than three times its standard error.
 */
struct lw_recovery lw_recovery_fit(struct lw_recovery_sample *samples, size_t n);

/** lw_recovery_ns() - what a pause of @idle_ns saves, ns. */
static inline double lw_recovery_ns(const struct lw_recovery *recovery, double idle_ns)
{
	return recovery->frac * (idle_ns < recovery->limit_ns ? idle_ns : recovery->limit_ns);
}

#endif /* LAPWING_ANALYZER_FIT_RECOVERY_H */
