/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - what benchmarks of the analyzer and the screens share: a made-up wire, processor time, the end. */
#ifndef LAPWING_TESTS_BENCH_BENCH_H
#define LAPWING_TESTS_BENCH_BENCH_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analyzer/simulate/hvd_cycle.h"
#include "base/err.h"

/** lw_bench_wire_ns() - of a simulated job: 0.2 ms, 1 GB/s. */
static inline double lw_bench_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	(void)context;
	return 200e3 + 1.0 * (double)op->bytes;
}

/** lw_bench_cpu_ns() - processor time of this process. */
static inline double lw_bench_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/** lw_bench_die() - say what failed, and end. */
static inline _Noreturn void lw_bench_die(void)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, lw_error_text());
	exit(1);
}

#endif /* LAPWING_TESTS_BENCH_BENCH_H */
