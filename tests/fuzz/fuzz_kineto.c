/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a profiler's trace: refused, or a run whose figures hold together. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/analyzer.h"
#include "analyzer/import/import.h"
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void demand(bool holds)
{
	if (!holds)
		abort();
}

static void check_times(const struct lw_gpu_times *times, int64_t length_ns)
{
	if (times->compute_ns == LW_NS_UNKNOWN)
		return;
	demand(times->compute_ns >= 0 && times->exposed_ns >= 0 && times->hidden_ns >= 0);
	demand(times->hidden_ns + times->exposed_ns == times->comm_ns);
	demand(times->idle_ns >= 0 && times->sync_lost_ns >= 0);
	demand(length_ns < 0 ||
		times->compute_ns + times->exposed_ns + times->idle_ns == length_ns);
	demand(times->comm_sum_ns >= times->comm_ns || times->comm_ns == 0 || length_ns >= 0);
}

static void check_rank(const struct lw_rank *rank)
{
	const struct lw_gpu_rank *gpu = &rank->gpu;
	const struct lw_nccl_call *op;
	const struct lw_kernel *kernel;
	const struct lw_step *step;

	check_times(&gpu->whole, -1);
	check_times(&gpu->sum, -1);
	lw_vec_foreach (step, &rank->steps)
		check_times(&step->gpu, step->end_ns - step->start_ns);
	for (int i = 0; i < LW_GPU_N_CLASSES; i++)
		for (size_t k = 1; k < gpu->busy[i].n; k++)
			demand(gpu->busy[i].at[k].start_ns > gpu->busy[i].at[k - 1].end_ns);
	lw_vec_foreach (kernel, &gpu->kernels) {
		demand(kernel->end_ns >= kernel->start_ns && kernel->stream < gpu->streams.n);
		demand(kernel->launch < (int64_t)gpu->launches.n);
		demand(kernel->nccl_op < (int64_t)gpu->nccl_ops.n);
	}
	lw_vec_foreach (op, &gpu->nccl_ops)
		demand(op->kernel < (int64_t)gpu->kernels.n &&
			op->batch < (int64_t)rank->batches.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	int fd = memfd_create("trace", 0);
	struct lw_import_summary summary;
	const struct lw_rank *rank;
	char input[64], output[64];
	const char *path = input;
	struct lw_run *run;

	demand(fd >= 0 && write(fd, data, n) == (ssize_t)n);
	snprintf(input, sizeof(input), "/proc/self/fd/%d", fd);
	snprintf(output, sizeof(output), "/dev/shm/fuzz_kineto.%d", (int)getpid());
	if (lw_import(&path, 1, "kineto", output, NULL, NULL, &summary) == LW_OK) {
		path = output;
		demand(lw_run_reconstruct(&path, 1, LW_STORE_READ, NULL, &run) == LW_OK);
		lw_vec_foreach (rank, &run->ranks)
			check_rank(rank);
		lw_run_free(run);
	} else {
		demand(lw_error_text()[0]);
	}
	unlink(output);
	close(fd);
	return 0;
}
