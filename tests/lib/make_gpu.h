/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_gpu.h - the GPU side of a made-up run (make_run.h): kernels, copies, waits, launches, operations of NCCL.
 *
 * They follow from what the run has. On the stream of computing, one kernel ends at each moment at which a tensor was
 * ready; it began gap_ns after the kernel before it, or after its rank resumed, and was launched launch_ns before that.
 * On comm_stream, one kernel runs while a batch was on the wire, and is that of one operation. A rank waits for its
 * device where it waits for its gradients, and has told the stream of computing to wait for them, too. A copy to the device ends when the first kernel of a step begins.
 */
#ifndef LAPWING_TESTS_LIB_MAKE_GPU_H
#define LAPWING_TESTS_LIB_MAKE_GPU_H

#include <stdbool.h>
#include <stdint.h>

enum { MAKE_GPU_COMPUTE_STREAM = 7, MAKE_GPU_COMM_STREAM = 20, MAKE_GPU_SQL_BYTES = 8192 };

struct make_gpu {
	int64_t gap_ns, launch_ns;
	int comm_stream;
	int64_t copy_ns, copy_bytes;
	bool is_copy_blocking; /* the call of the copy returns when it is done */
	bool no_launches, no_nccl;
	/* the host waits for the device as long, when the last but one tensor was ready, before it launches the next */
	int64_t stall_ns;
	bool has_two_protocols; /* every other operation runs as LL128, in half the time */
	int nccl_source;        /* enum lw_nccl_source */
};

/** make_gpu_job() - what is usual: nothing to be advised on. */
struct make_gpu make_gpu_job(void);

/** make_gpu_sql() - for extra_sql of a run of at most MAKE_RUN_MAX ranks, before @more. Return: @sql. */
const char *make_gpu_sql(
	const struct make_gpu *gpu, const char *more, char sql[MAKE_GPU_SQL_BYTES]);

#endif /* LAPWING_TESTS_LIB_MAKE_GPU_H */
