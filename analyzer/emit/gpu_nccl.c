/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_nccl.c - operations of NCCL by kind, algorithm and protocol, and what bandwidth they reached. */
#include <math.h>
#include <stdlib.h>

#include "analyzer/emit/gpu.h"
#include "analyzer/reconstruct/nccl_served.h"

struct sums { /* of one row */
	uint64_t n_kernels, n_services, n_sized;
	double bytes, kernel_ns, service_ns, service_bytes, bus_bytes;
	bool is_bus_unknown, has_unmatched;
};

struct rows {
	lw_vec(struct lw_gpu_nccl) at;
	lw_vec(struct sums) sums; /* of each */
};

/* Return: index of the row, or an error. */
static int32_t row_of(struct rows *rows, int op, int algorithm, int protocol)
{
	struct lw_gpu_nccl row = {.op = op, .algorithm = algorithm, .protocol = protocol};

	for (size_t i = 0; i < rows->at.n; i++)
		if (rows->at.at[i].op == op && rows->at.at[i].algorithm == algorithm &&
			rows->at.at[i].protocol == protocol)
			return (int32_t)i;
	if (lw_vec_push(&rows->sums, ((struct sums){0})) < 0 || lw_vec_push(&rows->at, row) < 0)
		return LW_ERR_NOMEM;
	return (int32_t)rows->at.n - 1;
}

/* @is_first: its kernel was not that of the call before, of the same group of calls. */
static int add_call(struct rows *rows, const struct lw_nccl_call *call, bool is_first)
{
	int32_t row = row_of(rows, call->op, call->algorithm, call->protocol);
	bool is_sized = !(call->flags & LW_NCCL_NO_BYTES);
	struct sums *sums;

	if (row < 0)
		return row;
	sums = &rows->sums.at[row];
	rows->at.at[row].n++;
	sums->n_sized += is_sized;
	sums->bytes += is_sized ? (double)call->bytes : 0;
	if (call->kernel == LW_NONE || call->kernel_start_ns == LW_NS_UNKNOWN)
		return LW_OK;
	rows->at.at[row].n_timed++;
	if (!is_first)
		return LW_OK;
	sums->n_kernels++;
	sums->kernel_ns += (double)(call->kernel_end_ns - call->kernel_start_ns);
	return LW_OK;
}

static int add_served(struct rows *rows, const struct lw_nccl_served *served)
{
	int32_t row = row_of(rows, served->op, served->algorithm, served->protocol);
	double size = served->size_bytes;
	double factor = lw_nccl_bus_factor(served->op, served->n_ranks);
	struct sums *sums;

	if (row < 0)
		return row;
	sums = &rows->sums.at[row];
	sums->n_services++;
	sums->service_ns += served->service_ns;
	sums->service_bytes += size;
	sums->bus_bytes += isnan(factor) ? 0 : size * factor;
	sums->is_bus_unknown |= isnan(factor);
	sums->has_unmatched |= !served->is_matched;
	return LW_OK;
}

static void finish_row(struct lw_gpu_nccl *row, const struct sums *sums)
{
	row->is_matched = row->n_timed && !sums->has_unmatched;
	row->bytes = sums->n_sized
			     ? lw_summary_exact(sums->bytes / (double)sums->n_sized, LW_MEASURED)
			     : lw_summary_unknown("their sizes were not recorded");
	row->kernel_ns = row->service_ns = row->algbw_bytes_per_s = row->busbw_bytes_per_s =
		lw_summary_unknown("no kernel was recorded that belongs to these operations");
	if (sums->n_kernels)
		row->kernel_ns =
			lw_summary_exact(sums->kernel_ns / (double)sums->n_kernels, LW_MEASURED);
	if (!(sums->service_ns > 0))
		return;
	row->service_ns =
		lw_summary_exact(sums->service_ns / (double)sums->n_services, LW_MEASURED);
	row->algbw_bytes_per_s = row->busbw_bytes_per_s = lw_summary_unknown(
		row->op == LW_NCCL_BARRIER
			? "a barrier moves nothing"
			: "how many ranks took part is not known, or how much was moved");
	if (!(sums->service_bytes > 0))
		return;
	row->algbw_bytes_per_s =
		lw_summary_exact(sums->service_bytes / sums->service_ns * 1e9, LW_MEASURED);
	if (!sums->is_bus_unknown)
		row->busbw_bytes_per_s =
			lw_summary_exact(sums->bus_bytes / sums->service_ns * 1e9, LW_MEASURED);
}

static double total_ns(const struct lw_gpu_nccl *row)
{
	return isnan(row->kernel_ns.value) ? 0 : row->kernel_ns.value * (double)row->n_timed;
}

static int by_time(const void *a, const void *b)
{
	const struct lw_gpu_nccl *x = a, *y = b;

	if (total_ns(x) < total_ns(y) || total_ns(x) > total_ns(y))
		return total_ns(x) > total_ns(y) ? -1 : 1;
	if (x->op != y->op)
		return x->op - y->op;
	return x->algorithm != y->algorithm ? x->algorithm - y->algorithm
					    : x->protocol - y->protocol;
}

/* Calls of one kind in a group count each; sends and receives that one kernel serves may be one all-to-all. */
static int add_calls(struct rows *rows, const struct lw_run *run, const struct lw_rank *rank)
{
	int32_t kernel = LW_NONE;
	int status = LW_OK;

	for (size_t i = 0; i < rank->gpu.nccl_ops.n && status == LW_OK; i++) {
		const struct lw_nccl_call *call = &rank->gpu.nccl_ops.at[i];
		struct lw_nccl_call all;
		size_t n;

		if (!lw_nccl_is_counted(rank, call))
			continue;
		n = lw_nccl_together(run, rank, call, &all);
		if (all.op != call->op) {
			status = add_call(rows, &all, true);
			i += n - 1;
		} else {
			status = add_call(rows, call, call->kernel != kernel);
		}
		kernel = call->kernel;
	}
	return status;
}

int lw_gpu_sum_nccl(const struct lw_run *run, struct lw_gpu_summary *summary)
{
	struct lw_nccl_services services = {0};
	const struct lw_nccl_served *served;
	const struct lw_rank *rank;
	struct rows rows = {0};
	int status = lw_nccl_services(run, &services);

	lw_vec_foreach (rank, &run->ranks)
		if (status == LW_OK)
			status = add_calls(&rows, run, rank);
	lw_vec_foreach (served, &services.at)
		if (status == LW_OK)
			status = add_served(&rows, served);
	for (size_t i = 0; i < rows.at.n; i++)
		finish_row(&rows.at.at[i], &rows.sums.at[i]);
	if (rows.at.n > 1)
		qsort(rows.at.at, rows.at.n, sizeof(*rows.at.at), by_time);
	for (size_t i = 0; i < rows.at.n && status == LW_OK; i++)
		status = lw_vec_push(&summary->nccl, rows.at.at[i]);
	lw_vec_free(&rows.at);
	lw_vec_free(&rows.sums);
	lw_vec_free(&services.at);
	return status;
}
