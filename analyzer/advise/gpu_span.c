/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/advise/gpu_span.h"

#include <math.h>

bool lw_gpu_span(const struct lw_run *run, const struct lw_rank *rank, struct lw_gpu_span *ret_span)
{
	struct lw_gpu_span span = {
		rank, &rank->gpu.whole, 1, 0, INT64_MIN, INT64_MIN, "in what was recorded"};
	const struct lw_kernel *kernel;
	const struct lw_step *step;
	double sum_ns = 0, n = 0;

	if (!lw_gpu_has(rank))
		return false;
	lw_vec_foreach (step, &rank->steps)
		if (!step->excluded) {
			sum_ns += (double)(step->end_ns - step->start_ns);
			n++;
		}
	if (rank->gpu.n_steps && n > 0) {
		span.times = &rank->gpu.sum;
		span.n = (double)rank->gpu.n_steps;
		span.length_ns = sum_ns / n;
		span.each = "a step";
	} else if (lw_gpu_is_part(run, rank)) {
		return false; /* much of what ran is not recorded */
	} else {
		span.first_ns = rank->gpu.kernels.at[0].start_ns;
		lw_vec_foreach (kernel, &rank->gpu.kernels)
			if (kernel->end_ns > span.last_ns)
				span.last_ns = kernel->end_ns;
		span.length_ns = (double)(span.last_ns - span.first_ns);
	}
	*ret_span = span;
	return span.length_ns > 0 && span.times->compute_ns != LW_NS_UNKNOWN;
}

bool lw_gpu_span_has(const struct lw_gpu_span *span, int64_t at_ns, size_t *hint)
{
	const struct lw_rank *rank = span->rank;

	if (span->times == &rank->gpu.whole)
		return at_ns >= span->first_ns && at_ns < span->last_ns;
	while (*hint < rank->steps.n && rank->steps.at[*hint].end_ns <= at_ns)
		++*hint;
	return *hint < rank->steps.n && rank->steps.at[*hint].start_ns <= at_ns &&
	       !rank->steps.at[*hint].excluded;
}

double lw_gpu_span_frac(const struct lw_gpu_span *span, double ns)
{
	return fmin(ns / span->n / span->length_ns, 1);
}
