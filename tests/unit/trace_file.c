/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/trace_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/gpu_run.h"

void trace_begin(struct trace *trace, const char *path, int rank, int n_ranks)
{
	*trace = (struct trace){fopen(path, "w"), rank, n_ranks, 0};
	assert_non_null(trace->file);
	fprintf(trace->file,
		"{\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d}, \"traceEvents\": ["
		"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"ts\":0,\"args\":{\"name\":\"python\"}}",
		rank, n_ranks);
}

void trace_end(struct trace *trace)
{
	fprintf(trace->file, "]}");
	assert_int_equal(fclose(trace->file), 0);
}

void trace_range(struct trace *trace, const char *name, int at, int us)
{
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":%d}",
		name, at, us);
}

void trace_numbered(struct trace *trace, const char *name, int s, int at, int us)
{
	char text[64];

	snprintf(text, sizeof(text), "%s%d", name, s);
	trace_range(trace, text, at, us);
}

void trace_call(struct trace *trace, const char *name, int at, int us)
{
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":%d,\"args\":{\"correlation\":%d}}",
		name, at, us, ++trace->id);
}

void trace_kernel(struct trace *trace, int launched, int at, int us)
{
	trace_call(trace, "cudaLaunchKernel", launched, 3);
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":%d,\"args\":{\"device\":0,\"context\":1,\"stream\":7,\"correlation\":%d}}",
		at, us, trace->id);
}

void trace_copy(struct trace *trace, int called, int at, int us)
{
	trace_call(trace, "cudaMemcpy", called, at + us + 5 - called);
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD (Pageable -> Device)\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":%d,\"args\":{\"device\":0,\"context\":1,\"stream\":7,\"bytes\":1048576,\"correlation\":%d}}",
		at, us, trace->id);
}

/* Of the pair of ranks that this one is of. */
void trace_allreduce(struct trace *trace, int launched, int at, int us)
{
	int pair = trace->rank / 2;

	trace_call(trace, "cudaLaunchKernel", launched, 3);
	fprintf(trace->file,
		",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" REDUCE
		"\",\"pid\":0,\"tid\":20,\"ts\":%d,\"dur\":%d,\"args\":{\"device\":0,\"context\":1,\"stream\":20,\"correlation\":%d,"
		"\"Collective name\":\"allreduce\",\"In msg nelems\":1048576,\"Out msg nelems\":1048576,\"Group size\":2,\"dtype\":\"Float\","
		"\"Process Group Name\":\"%d\",\"Process Group Ranks\":\"[%d, %d]\"}}",
		at, us, trace->id, pair, 2 * pair, 2 * pair + 1);
}
