/* SPDX-License-Identifier: Apache-2.0 */
/*
 * op_change.c - whether a way out changed, when data got through at another rate while in flight.
 *
 * In small messages they always do, and in a ring all wait for one. So operations of one size must take another time, with
 * data in flight there for most of it. Of the sizes that were run often enough before and after it the one that moved most tells.
 */
#include <stdlib.h>

#include "analyzer/network/network.h"

enum { LEAST_OPS = 4 };
#define CHANGED_FACTOR 1.25
#define MOST_FRAC      0.8

struct timed {
	int op;
	bool is_after;
	uint64_t bytes;
	double ns;
};

static int compare_timed(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	if (x->is_after != y->is_after)
		return x->is_after ? 1 : -1;
	return (x->ns > y->ns) - (x->ns < y->ns);
}

static double median_ns(const struct timed *ops, size_t n)
{
	return n % 2 ? ops[n / 2].ns : (ops[n / 2 - 1].ns + ops[n / 2].ns) / 2;
}

/* Time after by time before, of the size that moved most. 0: there is none. */
static double ratio_of(const struct timed *ops, size_t n)
{
	double ratio = 0, most_bytes = 0;

	for (size_t first = 0, next; first < n; first = next) {
		size_t after = first;

		while (after < n && ops[after].op == ops[first].op &&
			ops[after].bytes == ops[first].bytes && !ops[after].is_after)
			after++;
		for (next = after; next < n && ops[next].op == ops[first].op &&
				   ops[next].bytes == ops[first].bytes;)
			next++;
		if (after - first < LEAST_OPS || next - after < LEAST_OPS ||
			(double)ops[first].bytes * (double)(next - first) <= most_bytes)
			continue;
		most_bytes = (double)ops[first].bytes * (double)(next - first);
		ratio = median_ns(ops + after, next - after) /
			median_ns(ops + first, after - first);
	}
	return ratio;
}

/* Rank @r was in an operation, in the slower part. */
static int slow_ops_ns(
	const struct lw_run *run, int32_t r, const struct lw_net_change *change, double *ret_ns)
{
	struct lw_intervals ops;
	const struct lw_interval *op;
	int status = lw_net_ops(&run->ranks.at[r], &ops);

	*ret_ns = 0;
	lw_vec_foreach (op, &ops.at) {
		int64_t start_ns = op->start_ns, end_ns = op->end_ns;

		if (change->is_slower && start_ns < change->since_ns)
			start_ns = change->since_ns;
		if (!change->is_slower && end_ns > change->since_ns)
			end_ns = change->since_ns;
		*ret_ns += end_ns > start_ns ? (double)(end_ns - start_ns) : 0;
	}
	lw_vec_free(&ops.at);
	return status;
}

int lw_net_has_changed(
	const struct lw_run *run, int32_t r, const struct lw_net_change *change, bool *ret_has)
{
	bool is_one_clock = lw_run_is_one_clock(run);
	lw_vec(struct timed) ops = {0};
	const struct lw_group *group;
	double ratio, ops_ns;
	int status = slow_ops_ns(run, r, change, &ops_ns);

	lw_vec_foreach (group, &run->groups) {
		const struct lw_batch *batch = lw_group_batch(run, group, (size_t)r);
		struct timed one = {.op = group->op, .bytes = group->bytes};

		if (!batch || status < 0 || !lw_net_is_counted(run, group))
			continue;
		one.ns = lw_group_service_ns(run, group, is_one_clock);
		one.is_after = batch->start_ns >= change->since_ns;
		if (one.ns > 0)
			status = lw_vec_push(&ops, one);
	}
	if (ops.n)
		qsort(ops.at, ops.n, sizeof(*ops.at), compare_timed);
	ratio = ratio_of(ops.at, ops.n);
	*ret_has = change->slow_ns >= MOST_FRAC * ops_ns &&
		   (change->is_slower ? ratio >= CHANGED_FACTOR
				      : ratio > 0 && ratio <= 1 / CHANGED_FACTOR);
	lw_vec_free(&ops);
	return status;
}
