/* SPDX-License-Identifier: Apache-2.0 */
/* kineto_job.h - traces of PyTorch's profiler of made-up jobs: in each step a kernel computes, then operations follow. */
#ifndef LAPWING_TESTS_UNIT_KINETO_JOB_H
#define LAPWING_TESTS_UNIT_KINETO_JOB_H

#include "analyzer/analyzer.h"

enum { KINETO_MAX_RANKS = 4, MI = 1 << 20, STEP_US = 10000, COMPUTE_US = 4000, KERNEL_US = 700 };

struct kineto_op { /* of floats, as PyTorch's profiler tells it */
	const char *name, *kernel;
	int in, out; /* elements; in < 0: not told */
	int apart;   /* of the ranks of a group of two; 0 = all ranks are one */
	int late_us; /* by which the last rank enters it later, and is in it for shorter */
};

struct kineto_job {
	int n_ranks, n_steps, n_files;
	const struct kineto_op *ops;
	int n_ops;
	bool is_unsized;
	bool is_annotated; /* annotations of the host say what an operation is, as older versions have them */
	int comm_device; /* operations run on this GPU, computing on GPU 0 */
	bool no_launches; /* of operations: what tells which kernel is whose are their times and names */
};

/** kineto_job_analyze() - write the traces of @job, import and analyse them. */
struct lw_analysis *kineto_job_analyze(const struct kineto_job *job);

#define ALLTOALL_NAME "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
#define ALLGATHER     "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define REDUCESCATTER                                                                              \
	"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define ALLREDUCE "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

#endif /* LAPWING_TESTS_UNIT_KINETO_JOB_H */
