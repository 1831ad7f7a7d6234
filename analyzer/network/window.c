/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - bytes of one end of a connection in the steps, and while operations ran. */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

size_t lw_net_n_counted(const struct lw_rank *rank)
{
	size_t n = 0;

	for (size_t s = 0; s < rank->steps.n; s++)
		n += !rank->steps.at[s].excluded;
	return n;
}

double lw_net_window_bytes(
	const struct lw_rank *rank, const struct lw_tcp_end *end, enum lw_end_way way)
{
	const struct lw_step *step;
	size_t hint = 0;
	double bytes = 0;

	if (!lw_net_n_counted(rank))
		return lw_end_total_bytes(end, way);
	lw_vec_foreach (step, &rank->steps)
		if (!step->excluded) {
			double before = lw_end_bytes(end, step->start_ns, way, &hint);

			bytes += lw_end_bytes(end, step->end_ns, way, &hint) - before;
		}
	return bytes;
}

static int compare_start(const void *a, const void *b)
{
	const struct lw_interval *x = a, *y = b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

int lw_net_ops(const struct lw_rank *rank, struct lw_intervals *ret_ops)
{
	const struct lw_batch *batch;
	size_t n = 0;

	*ret_ops = (struct lw_intervals){0};
	lw_vec_foreach (batch, &rank->batches) {
		struct lw_interval wire = lw_batch_wire(batch);

		if (wire.end_ns > wire.start_ns && lw_vec_push(&ret_ops->at, wire) < 0)
			return LW_ERR_NOMEM;
	}
	if (!ret_ops->at.n)
		return LW_OK;
	qsort(ret_ops->at.at, ret_ops->at.n, sizeof(*ret_ops->at.at), compare_start);
	for (size_t i = 1; i < ret_ops->at.n; i++) {
		struct lw_interval *last = &ret_ops->at.at[n], next = ret_ops->at.at[i];

		if (next.start_ns > last->end_ns)
			ret_ops->at.at[++n] = next;
		else if (next.end_ns > last->end_ns)
			last->end_ns = next.end_ns;
	}
	ret_ops->at.n = n + 1;
	return LW_OK;
}

double lw_net_in_ops_bytes(
	const struct lw_tcp_end *end, const struct lw_intervals *ops, enum lw_end_way way)
{
	const struct lw_interval *op;
	size_t hint = 0;
	double bytes = 0;

	lw_vec_foreach (op, &ops->at) {
		double before = lw_end_bytes(end, op->start_ns, way, &hint);

		bytes += lw_end_bytes(end, op->end_ns, way, &hint) - before;
	}
	return bytes;
}

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double lw_net_median(double *values, size_t n)
{
	if (!n)
		return NAN;
	qsort(values, n, sizeof(*values), compare_double);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
