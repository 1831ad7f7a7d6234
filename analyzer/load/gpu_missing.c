/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_missing.c - launches of kernels whose kernels are not in the run.
 *
 * The host's calls and the device's work are recorded apart: a profiler's buffer was full, CUPTI began late, a trace was cut
 * or damaged, a process was killed before its buffers were read. What is left looks like a GPU with nothing to do. Some
 * calls have no kernel by nature (a graph that is being captured, a call that failed, functions that CUPTI tells of
 * twice): a function none of whose launches has one says nothing.
 */
#include <stdlib.h>

#include "analyzer/load/load.h"

enum {
	PART_DIVISOR = 50, /* one of so many: a step without them is another step */
	LEAST_IN_A_ROW = 16,
};

void lw_gpu_launched_add(struct lw_gpu_launched *launched, const struct lw_gpu_launch *launch)
{
	if (launch->device_ns == LW_NS_UNKNOWN)
		return;
	if (!launched->n++)
		launched->is_first_lacking = launch->lacks_kernel;
	launched->n_lacking += launch->lacks_kernel;
	launched->in_a_row = launch->lacks_kernel ? launched->in_a_row + 1 : 0;
	if (launched->in_a_row > launched->most_in_a_row)
		launched->most_in_a_row = launched->in_a_row;
}

bool lw_gpu_launched_is_part(const struct lw_gpu_launched *launched)
{
	return launched->n_lacking && (launched->n_lacking * PART_DIVISOR >= launched->n ||
					      launched->most_in_a_row >= LEAST_IN_A_ROW);
}

bool lw_gpu_is_part(const struct lw_run *run, const struct lw_rank *rank)
{
	return lw_gpu_launched_is_part(&rank->gpu.launched) || (run->is_profile && run->n_torn);
}

static int compare_correlation(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool is_of_kernel(const struct lw_gpu_launch *launch)
{
	return launch->op == LW_LAUNCH_KERNEL && !launch->result && launch->correlation;
}

/* Launches whose correlation no kernel has; @n_with: by name, the last is of those without: room for how many have one. */
static void look_up(struct lw_gpu_rank *gpu, const uint32_t *with, size_t n_names, uint64_t *n_with)
{
	const struct lw_kernel *kernel;
	struct lw_gpu_launch *launch;

	lw_vec_foreach (launch, &gpu->launches) {
		size_t name = launch->name < n_names ? launch->name : n_names;

		if (!is_of_kernel(launch))
			continue;
		launch->lacks_kernel = !bsearch(&launch->correlation, with, gpu->kernels.n,
			sizeof(*with), compare_correlation);
		n_with[name] += !launch->lacks_kernel;
	}
	lw_vec_foreach (launch, &gpu->launches)
		launch->lacks_kernel &= n_with[launch->name < n_names ? launch->name : n_names] > 0;
	lw_vec_foreach (kernel, &gpu->kernels)
		if (kernel->launch != LW_NONE) {
			launch = &gpu->launches.at[kernel->launch];
			if (is_of_kernel(launch) && launch->device_ns == LW_NS_UNKNOWN)
				launch->device_ns = kernel->start_ns;
		}
}

/* What lacks its kernel ran after what was launched before it. */
static void place(struct lw_gpu_rank *gpu)
{
	int64_t reached_ns = LW_NS_UNKNOWN;
	struct lw_gpu_launch *launch;

	gpu->launched = (struct lw_gpu_launched){0};
	lw_vec_foreach (launch, &gpu->launches) {
		if (launch->lacks_kernel)
			launch->device_ns =
				launch->start_ns > reached_ns ? launch->start_ns : reached_ns;
		if (launch->device_ns > reached_ns)
			reached_ns = launch->device_ns;
		lw_gpu_launched_add(&gpu->launched, launch);
	}
}

static int say(struct lw_run *run, const struct lw_rank *rank)
{
	const struct lw_gpu_launched *launched = &rank->gpu.launched;
	int64_t first_ns = LW_NS_UNKNOWN, last_ns = LW_NS_UNKNOWN;
	const struct lw_gpu_launch *launch;

	lw_vec_foreach (launch, &rank->gpu.launches) {
		if (!launch->lacks_kernel)
			continue;
		first_ns = first_ns == LW_NS_UNKNOWN ? launch->start_ns : first_ns;
		last_ns = launch->start_ns;
	}
	return lw_run_diag(run, "load", LW_LOAD_LACKS_KERNELS, launched->n_lacking,
		"rank %d: %llu of %llu launches of kernels have no kernel, the first %.3f ms and the last %.3f ms after it began: records of its GPU work are missing, and where they are, it looks idle",
		rank->rank, (unsigned long long)launched->n_lacking,
		(unsigned long long)launched->n, (double)(first_ns - rank->start_ns) / 1e6,
		(double)(last_ns - rank->start_ns) / 1e6);
}

int lw_load_gpu_missing(struct lw_run *run, struct lw_rank *rank)
{
	struct lw_gpu_rank *gpu = &rank->gpu;
	uint32_t *with = malloc((gpu->kernels.n + 1) * sizeof(*with));
	uint64_t *n_with = calloc(run->gpu.names.n + 1, sizeof(*n_with));
	struct lw_gpu_launch *launch;

	if (!with || !n_with) {
		free(with);
		free(n_with);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	lw_vec_foreach (launch, &gpu->launches) {
		launch->lacks_kernel = false;
		launch->device_ns = LW_NS_UNKNOWN;
	}
	for (size_t i = 0; i < gpu->kernels.n; i++)
		with[i] = gpu->kernels.at[i].correlation;
	if (gpu->kernels.n) {
		qsort(with, gpu->kernels.n, sizeof(*with), compare_correlation);
		look_up(gpu, with, run->gpu.names.n, n_with);
		place(gpu);
	}
	free(with);
	free(n_with);
	return gpu->launched.n_lacking ? say(run, rank) : LW_OK;
}
