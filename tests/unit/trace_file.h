/* SPDX-License-Identifier: Apache-2.0 */
/* trace_file.h - a profiler's trace of one rank, written event by event; all times in us. */
#ifndef LAPWING_TESTS_UNIT_TRACE_FILE_H
#define LAPWING_TESTS_UNIT_TRACE_FILE_H

#include <stdio.h>

struct trace {
	FILE *file;
	int rank, n_ranks, id;
};

void trace_begin(struct trace *trace, const char *path, int rank, int n_ranks);
void trace_end(struct trace *trace);

void trace_range(struct trace *trace, const char *name, int at, int us);

/** trace_numbered() - the same, @s after its name. */
void trace_numbered(struct trace *trace, const char *name, int s, int at, int us);

/** trace_call() - of the runtime of CUDA, by the thread that ranges are of. */
void trace_call(struct trace *trace, const char *name, int at, int us);

void trace_kernel(struct trace *trace, int launched, int at, int us);

/** trace_copy() - from the host, for which its call waits. */
void trace_copy(struct trace *trace, int called, int at, int us);

/** trace_allreduce() - of the pair of ranks that this one is of. */
void trace_allreduce(struct trace *trace, int launched, int at, int us);

#endif /* LAPWING_TESTS_UNIT_TRACE_FILE_H */
