/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the clock of all stored times. (The tracer, which may not include base, has its own.) */
#ifndef LAPWING_BASE_CLOCK_H
#define LAPWING_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "base/units.h"

/** lw_clock_id_ns() - one of this host's clocks, or of this thread's, ns. */
static inline int64_t lw_clock_id_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return now.tv_sec * LW_NS_PER_S + now.tv_nsec;
}

/** lw_clock_ns() - CLOCK_MONOTONIC of this host, ns. */
static inline int64_t lw_clock_ns(void)
{
	return lw_clock_id_ns(CLOCK_MONOTONIC);
}

#endif /* LAPWING_BASE_CLOCK_H */
