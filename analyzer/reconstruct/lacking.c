/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lacking.c - steps of which records of GPU work are missing: what is left of them is another step.
 *
 * Two kinds show: launches that have no kernel, and in traces that are known to be damaged, long stretches in which nothing
 * was launched and nothing ran. The latter may be a program that loads its input; nobody knows, so it does not count.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/reconstruct/step.h"

enum { STRETCH_DIVISOR = 5 }; /* of the step's length: so long without anything is suspicious */

static const char lacks_kernels[] =
	"launches in it have no kernel: records of its GPU work are missing";
static const char lacks_next_kernels[] =
	"its end was not seen: what was launched after it has no kernel";
static const char is_torn[] =
	"nothing was launched in a long part of it, and records of the trace are lost";

bool lw_step_is_lacking(const struct lw_step *step)
{
	return step->excluded == lacks_kernels || step->excluded == lacks_next_kernels ||
	       step->excluded == is_torn;
}

static void exclude(struct lw_run *run, size_t s, const char *why)
{
	struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		if (s < rank->steps.n && !rank->steps.at[s].excluded)
			rank->steps.at[s].excluded = why;
}

/* The step before one whose first launches lack their kernels ends nobody knows when. */
static int find_lacking(struct lw_run *run, const struct lw_rank *rank)
{
	struct lw_gpu_launched *of_step = calloc(rank->steps.n + 1, sizeof(*of_step));
	const struct lw_gpu_launch *launch;

	if (!of_step)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	lw_vec_foreach (launch, &rank->gpu.launches) {
		int32_t step = launch->device_ns == LW_NS_UNKNOWN
				       ? LW_NONE
				       : lw_rank_step_at(rank, launch->device_ns);

		if (step != LW_NONE)
			lw_gpu_launched_add(&of_step[step], launch);
	}
	for (size_t s = 0; s < rank->steps.n; s++)
		if (lw_gpu_launched_is_part(&of_step[s]))
			exclude(run, s, lacks_kernels);
	for (size_t s = 1; s < rank->steps.n; s++)
		if (lw_gpu_launched_is_part(&of_step[s]) && of_step[s].is_first_lacking)
			exclude(run, s - 1, lacks_next_kernels);
	free(of_step);
	return LW_OK;
}

/* The longest stretch of each step in which neither a call was made nor a kernel ran. */
static void find_torn(struct lw_run *run, const struct lw_rank *rank)
{
	const struct lw_gpu_launch *launch = rank->gpu.launches.at,
				   *last_launch = launch + rank->gpu.launches.n;
	const struct lw_kernel *kernel = rank->gpu.kernels.at,
			       *last_kernel = kernel + rank->gpu.kernels.n;

	for (size_t s = 0; s < rank->steps.n; s++) {
		const struct lw_step *step = &rank->steps.at[s];
		int64_t reached_ns = step->start_ns, longest_ns = 0;

		while (reached_ns < step->end_ns) {
			bool is_kernel =
				launch == last_launch ||
				(kernel < last_kernel && kernel->start_ns < launch->start_ns);
			bool is_any = kernel < last_kernel || launch < last_launch;
			int64_t start_ns = !is_any     ? step->end_ns
					   : is_kernel ? kernel->start_ns
						       : launch->start_ns;
			int64_t end_ns = !is_any     ? step->end_ns
					 : is_kernel ? kernel->end_ns
						     : launch->end_ns;

			if (start_ns > step->end_ns)
				start_ns = end_ns = step->end_ns;
			else if (is_any && is_kernel)
				kernel++;
			else if (is_any)
				launch++;
			if (start_ns - reached_ns > longest_ns)
				longest_ns = start_ns - reached_ns;
			if (end_ns > reached_ns)
				reached_ns = end_ns;
		}
		if (longest_ns > (step->end_ns - step->start_ns) / STRETCH_DIVISOR)
			exclude(run, s, is_torn);
	}
}

int lw_step_lacking(struct lw_run *run)
{
	const struct lw_rank *rank;
	int status = LW_OK;

	lw_vec_foreach (rank, &run->ranks) {
		if (!lw_gpu_has(rank))
			continue;
		if (status == LW_OK && rank->gpu.launched.n_lacking)
			status = find_lacking(run, rank);
		if (run->is_profile && run->n_torn)
			find_torn(run, rank);
	}
	return status;
}
