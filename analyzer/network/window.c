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

bool lw_net_is_counted(const struct lw_run *run, const struct lw_group *group)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);

		if (!batch)
			return false;
		if (run->network.n_steps &&
			(batch->step < 0 || run->ranks.at[r].steps.at[batch->step].excluded))
			return false;
	}
	return group->bytes > 0;
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

void lw_net_merge(struct lw_intervals *intervals)
{
	size_t n = 0;

	if (!intervals->at.n)
		return;
	qsort(intervals->at.at, intervals->at.n, sizeof(*intervals->at.at), compare_start);
	for (size_t i = 1; i < intervals->at.n; i++) {
		struct lw_interval *last = &intervals->at.at[n], next = intervals->at.at[i];

		if (next.start_ns > last->end_ns)
			intervals->at.at[++n] = next;
		else if (next.end_ns > last->end_ns)
			last->end_ns = next.end_ns;
	}
	intervals->at.n = n + 1;
}

int lw_net_ops(const struct lw_rank *rank, struct lw_intervals *ret_ops)
{
	const struct lw_batch *batch;

	*ret_ops = (struct lw_intervals){0};
	lw_vec_foreach (batch, &rank->batches) {
		struct lw_interval wire = lw_batch_wire(batch);

		if (wire.end_ns > wire.start_ns && lw_vec_push(&ret_ops->at, wire) < 0)
			return LW_ERR_NOMEM;
	}
	lw_net_merge(ret_ops);
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
