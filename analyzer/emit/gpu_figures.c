/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_figures.c - means of GPU times over the steps that count, or all of them where no step was found. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/gpu.h"

static const struct {
	size_t times_offset, figure_offset;
} figures[] = {
#define X(name)                                                                                    \
	{offsetof(struct lw_gpu_times, name##_ns), offsetof(struct lw_gpu_rank_figures, name##_ns)},
	LW_GPU_FIGURES(X)
#undef X
};
enum { N_FIGURES = sizeof(figures) / sizeof(figures[0]) };

static int64_t ns_of(const struct lw_gpu_times *times, size_t i)
{
	return *(const int64_t *)((const char *)times + figures[i].times_offset);
}

static struct lw_figure *figure_of(struct lw_gpu_rank_figures *rank, size_t i)
{
	return (struct lw_figure *)((char *)rank + figures[i].figure_offset);
}

static bool is_used(const struct lw_run *run, const struct lw_rank *rank, size_t s)
{
	return lw_summary_is_counted(run, s) && rank->steps.at[s].gpu.compute_ns != LW_NS_UNKNOWN;
}

/* What is said of lost overlap is at most so: another kernel might have been in the way. */
static void mark_lost(const struct lw_rank *rank, struct lw_gpu_rank_figures *out)
{
	struct lw_figure *lost = &out->sync_lost_ns;

	if (!rank->gpu.has_syncs) {
		*lost = lw_summary_unknown(
			"waits for the device and calls that launch were not recorded");
		return;
	}
	lost->how = LW_ASSUMED;
	if (!isnan(lost->value))
		lost->low = 0;
}

/* @values: room for all steps of the rank */
static void summarize_steps(const struct lw_run *run, const struct lw_rank *rank, double *values,
	struct lw_gpu_rank_figures *out)
{
	double length_ns = 0;

	for (size_t s = 0; s < rank->steps.n; s++)
		if (is_used(run, rank, s)) {
			out->n_steps++;
			length_ns +=
				(double)(rank->steps.at[s].end_ns - rank->steps.at[s].start_ns);
		}
	out->whole_ns = out->n_steps ? length_ns / (double)out->n_steps : (double)NAN;
	for (size_t i = 0; i < N_FIGURES; i++) {
		size_t n = 0;

		for (size_t s = 0; s < rank->steps.n; s++)
			if (is_used(run, rank, s))
				values[n++] = lw_summary_known(ns_of(&rank->steps.at[s].gpu, i));
		*figure_of(out, i) = lw_summary_mean(values, n, "its kernels tell nothing of it");
	}
}

static void summarize_whole(
	const struct lw_run *run, const struct lw_rank *rank, struct lw_gpu_rank_figures *out)
{
	int64_t last_ns = INT64_MIN;
	const struct lw_kernel *kernel;

	lw_vec_foreach (kernel, &rank->gpu.kernels)
		last_ns = kernel->end_ns > last_ns ? kernel->end_ns : last_ns;
	out->whole_ns = (double)(last_ns - rank->gpu.kernels.at[0].start_ns);
	out->comm_sum_ns = lw_summary_known(rank->gpu.whole.comm_sum_ns);
	for (size_t i = 0; i < N_FIGURES; i++) {
		double ns = lw_summary_known(ns_of(&rank->gpu.whole, i));

		*figure_of(out, i) = isnan(ns)
					     ? lw_summary_unknown("its kernels tell nothing of it")
					     : lw_summary_exact(ns, LW_MEASURED);
	}
	if (lw_gpu_is_part(run, rank))
		out->idle_ns = out->exposed_ns = lw_summary_unknown(
			"records of kernels are missing: what looks idle may have been computing");
}

static int summarize_ranks(const struct lw_run *run, struct lw_gpu_summary *summary)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks) {
		struct lw_gpu_rank_figures out = {.rank = rank->rank, .comm_sum_ns = NAN},
					   recorded = out;
		double *values;

		if (!lw_gpu_has(rank))
			continue;
		values = calloc(rank->steps.n + 1, sizeof(*values));
		if (!values)
			return lw_fail(LW_ERR_NOMEM, "no memory for %zu steps", rank->steps.n);
		summarize_steps(run, rank, values, &out);
		free(values);
		summarize_whole(run, rank, &recorded);
		if (!out.n_steps)
			out = recorded;
		mark_lost(rank, &out);
		mark_lost(rank, &recorded);
		if (lw_vec_push(&summary->ranks, out) < 0 ||
			lw_vec_push(&summary->recorded, recorded) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

static int by_total(const void *a, const void *b)
{
	const struct lw_gpu_name *const *x = a, *const *y = b;

	if ((*x)->total_ns != (*y)->total_ns)
		return (*x)->total_ns > (*y)->total_ns ? -1 : 1;
	return strcmp((*x)->name, (*y)->name);
}

static int sort_kernels(const struct lw_run *run, struct lw_gpu_summary *summary)
{
	const struct lw_gpu_name *name;

	lw_vec_foreach (name, &run->gpu.names)
		if (name->n && lw_vec_push(&summary->kernels, name) < 0)
			return LW_ERR_NOMEM;
	if (summary->kernels.n > 1)
		qsort(summary->kernels.at, summary->kernels.n, sizeof(*summary->kernels.at),
			by_total);
	return LW_OK;
}

int lw_gpu_sum_ranks(const struct lw_run *run, struct lw_gpu_summary *ret_summary)
{
	*ret_summary = (struct lw_gpu_summary){0};
	return summarize_ranks(run, ret_summary);
}

int lw_gpu_summarize(const struct lw_run *run, struct lw_gpu_summary *ret_summary)
{
	int status = lw_gpu_sum_ranks(run, ret_summary);

	if (status == LW_OK)
		status = sort_kernels(run, ret_summary);
	if (status == LW_OK)
		status = lw_gpu_sum_nccl(run, ret_summary);
	return status;
}

void lw_gpu_summary_done(struct lw_gpu_summary *summary)
{
	lw_vec_free(&summary->ranks);
	lw_vec_free(&summary->recorded);
	lw_vec_free(&summary->nccl);
	lw_vec_free(&summary->kernels);
}
