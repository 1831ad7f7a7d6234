/* SPDX-License-Identifier: Apache-2.0 */
/* on_nics.c - what the accounts of all NICs look up: the ends on each, and when each rank was in an operation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/network/network.h"

struct lw_net_op_times {
	struct lw_intervals ops;
	int64_t *before_ns; /* of each: in operations before it */
	bool is_made;
};

void lw_net_on_nics_free(const struct lw_run *run, struct lw_net_on_nics *on)
{
	for (size_t r = 0; on->times && r < run->ranks.n; r++) {
		lw_vec_free(&on->times[r].ops.at);
		free(on->times[r].before_ns);
	}
	free(on->times);
	free(on->ends);
	free(on->first);
	free(on->used);
	free(on->ports);
	*on = (struct lw_net_on_nics){0};
}

int lw_net_on_nics_make(const struct lw_run *run, struct lw_net_on_nics *ret_on)
{
	struct lw_net_on_nics on = {.ends = calloc(run->ends.n + 1, sizeof(*on.ends)),
		.first = calloc(run->nics.n + 2, sizeof(*on.first)),
		.used = calloc(run->nics.n + 1, sizeof(*on.used)),
		.ports = calloc(run->nics.n + 1, sizeof(*on.ports)),
		.times = calloc(run->ranks.n + 1, sizeof(*on.times))};
	const struct lw_tcp_end *end;

	*ret_on = on;
	if (!on.ends || !on.first || !on.used || !on.ports || !on.times)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	/* counted one further on, so that filling in moves each to where its NIC's begin */
	lw_vec_foreach (end, &run->ends)
		if (end->nic != LW_NONE)
			on.first[end->nic + 2]++;
	for (size_t i = 2; i < run->nics.n + 2; i++)
		on.first[i] += on.first[i - 1];
	lw_vec_foreach (end, &run->ends)
		if (end->nic != LW_NONE)
			on.ends[on.first[end->nic + 1]++] = (size_t)(end - run->ends.at);
	for (size_t i = 0; i < run->nics.n; i++) {
		if (run->nics.at[i].ranks.n)
			ret_on->used[ret_on->n_used++] = i;
		if (run->nics.at[i].same_as == (int32_t)i &&
			!strcmp(run->nics.at[i].kind, "rdma_port"))
			ret_on->ports[ret_on->n_ports++] = i;
	}
	return LW_OK;
}

/* ---- inside of operations ---------------------------------------------------------------------------- */

static int make_times(const struct lw_rank *rank, struct lw_net_op_times *times)
{
	int64_t sum_ns = 0;
	int status = lw_net_ops(rank, &times->ops);

	times->is_made = true;
	times->before_ns = calloc(times->ops.at.n + 1, sizeof(*times->before_ns));
	if (status < 0 || !times->before_ns)
		return status < 0 ? status : lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t i = 0; i < times->ops.at.n; i++) {
		times->before_ns[i] = sum_ns;
		sum_ns += times->ops.at.at[i].end_ns - times->ops.at.at[i].start_ns;
	}
	return LW_OK;
}

/* In operations before @at_ns. */
static int64_t ops_ns(const struct lw_net_op_times *times, int64_t at_ns)
{
	const struct lw_interval *ops = times->ops.at.at;
	size_t low = 0, high = times->ops.at.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ops[middle].start_ns < at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return 0;
	if (ops[low - 1].end_ns < at_ns)
		at_ns = ops[low - 1].end_ns;
	return times->before_ns[low - 1] + at_ns - ops[low - 1].start_ns;
}

int lw_net_outside_bytes(const struct lw_run *run, const struct lw_net_on_nics *on,
	const struct lw_tcp_end *end, double bytes, double *ret_bytes)
{
	struct lw_net_op_times *times = &on->times[end->rank];
	double in_bytes = 0;
	int status = times->is_made ? LW_OK : make_times(&run->ranks.at[end->rank], times);

	*ret_bytes = NAN;
	if (status < 0 || !times->ops.at.n)
		return status;
	for (size_t i = 1; i < end->curve.n; i++) {
		const struct lw_curve_point *a = &end->curve.at[i - 1], *b = a + 1;
		double moved = (double)(b->sent_bytes - a->sent_bytes) +
			       (double)(b->received_bytes - a->received_bytes);

		if (moved > 0 && b->at_ns > a->at_ns)
			in_bytes += moved *
				    (double)(ops_ns(times, b->at_ns) - ops_ns(times, a->at_ns)) /
				    (double)(b->at_ns - a->at_ns);
	}
	*ret_bytes = fmax(0, bytes - in_bytes);
	return LW_OK;
}
