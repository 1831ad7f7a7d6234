/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.c - allreduces against the links: how much of what the slowest way out carries they reach, and why not all.
 *
 * An allreduce of D bytes makes rank r send share(r) D, by the algorithm that the traffic looks like (algorithm.c). So
 * s seconds a byte, as fitted or as they took on average, are share(r) / s bytes/s out of rank r, and headers. The
 * way out of which this is the largest part holds the others up.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/fit/fit.h"
#include "analyzer/network/network.h"

#define LOW_FRAC    0.8 /* below: it is asked why */
#define REASON_FRAC 0.2 /* from this on it is a reason */
#define MOST_FRAC   1.1 /* of a capacity: more than that refutes it */

struct allreduces { /* of the counted steps */
	double n, bytes, sum_ns;
	double union_ns; /* where several run at once, once */
};

static int add_up(const struct lw_run *run, struct allreduces *all)
{
	bool is_one_clock = lw_run_is_one_clock(run);
	struct lw_intervals when = {0};
	const struct lw_group *group;
	int status = LW_OK;

	*all = (struct allreduces){0};
	lw_vec_foreach (group, &run->groups) {
		struct lw_interval one = {group->last_start_ns, group->last_end_ns};
		double ns;

		if (group->op != LW_COLL_ALLREDUCE || !lw_net_is_counted(run, group))
			continue;
		ns = lw_group_service_ns(run, group, is_one_clock);
		if (ns <= 0)
			continue;
		all->n++;
		all->bytes += (double)group->bytes;
		all->sum_ns += ns;
		if (is_one_clock && status == LW_OK)
			status = lw_vec_push(&when.at, one);
	}
	lw_net_merge(&when);
	for (size_t i = 0; i < when.at.n; i++)
		all->union_ns += (double)(when.at.at[i].end_ns - when.at.at[i].start_ns);
	if (!is_one_clock)
		all->union_ns = all->sum_ns;
	lw_vec_free(&when.at);
	return status;
}

/* Of the capacity of its way out, what rank @r, and others of that NIC, send at @ns_per_byte. */
static double frac_of(const struct lw_network *net, size_t r, double ns_per_byte)
{
	const struct lw_net_rank *rank = &net->ranks.at[r];

	return rank->expected_bytes * rank->nic_share / net->op_bytes * rank->wire_factor /
	       ns_per_byte * 1e9 / rank->capacity_bytes_per_s;
}

/* NAN: in none. */
static double in_ops_ns(const struct lw_run *run, int32_t r)
{
	struct lw_intervals ops;
	double ns = 0;

	if (lw_net_ops(&run->ranks.at[r], &ops) == LW_OK)
		for (size_t i = 0; i < ops.at.n; i++)
			ns += (double)(ops.at.at[i].end_ns - ops.at.at[i].start_ns);
	lw_vec_free(&ops.at);
	return ns > 0 ? ns : (double)NAN;
}

/* The links that window and buffer held back most, of their senders' time in operations: all others wait for them. */
static int find_held(const struct lw_run *run, struct lw_net_reach *reach)
{
	double *ops_ns = calloc(run->ranks.n + 1, sizeof(*ops_ns)); /* 0 = not asked yet */
	double *window = &reach->reason[LW_REASON_WINDOW],
	       *buffer = &reach->reason[LW_REASON_BUFFER];
	const struct lw_net_link *link;

	if (!ops_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	lw_vec_foreach (link, &run->network.links) {
		double ns;

		if (!lw_net_is_edge(run, link) || link->is_loopback)
			continue;
		if (ops_ns[link->from] == 0)
			ops_ns[link->from] = in_ops_ns(run, link->from);
		ns = link->busy_ns / ops_ns[link->from];
		*window = fmax(*window, link->rwnd_limited_frac * ns);
		*buffer = fmax(*buffer, link->sndbuf_limited_frac * ns);
	}
	free(ops_ns);
	return LW_OK;
}

static int find_reasons(
	const struct lw_run *run, const struct allreduces *all, struct lw_net_reach *reach)
{
	double busy_ns = run->network.ranks.at[reach->rank].busy_ns;

	for (int i = 0; i < LW_N_REASONS; i++)
		reach->reason[i] = NAN;
	if (find_held(run, reach) < 0)
		return LW_ERR_NOMEM;
	reach->reason[LW_REASON_LATENCY] = reach->alpha_ns * all->n / all->sum_ns;
	reach->reason[LW_REASON_SLOWED] = run->network.slowed.lost_ns / all->sum_ns;
	reach->reason[LW_REASON_CORES] = run->core_wait_frac;
	reach->reason[LW_REASON_IDLE] = 1 - busy_ns / in_ops_ns(run, reach->rank);
	for (int i = 0; i < LW_N_REASONS; i++)
		if (lw_net_is_low(reach) && reach->reason[i] >= REASON_FRAC)
			reach->reasons |= 1U << i;
	return LW_OK;
}

bool lw_net_is_low(const struct lw_net_reach *reach)
{
	return reach->rank != LW_NONE && reach->mean_frac < LOW_FRAC;
}

int lw_run_reach(struct lw_run *run, const struct lw_fit *fit)
{
	struct lw_network *net = &run->network;
	struct lw_net_reach *reach = &net->reach;
	double slope_ns = fit ? fit->figure[LW_FIT_SLOPE_NS_PER_BYTE].value : (double)NAN;
	struct allreduces all;
	double most = 0;
	bool has_changed = false; /* a mean over before and after is of neither */
	int status = add_up(run, &all);

	*reach = (struct lw_net_reach){.rank = LW_NONE, .fitted_frac = NAN, .mean_frac = NAN};
	if (status < 0 || all.n < 1 || !(net->off_frac <= LW_NET_OFF_FRAC))
		return status;
	for (size_t r = 0; r < net->ranks.n; r++) {
		struct lw_net_rank *rank = &net->ranks.at[r];
		double frac = frac_of(net, r, all.union_ns / all.bytes);

		has_changed |= rank->capacity_since_ns != LW_NS_UNKNOWN;
		rank->fitted_bytes_per_s =
			rank->expected_bytes / net->op_bytes * rank->wire_factor / slope_ns * 1e9;
		if (!(frac > most))
			continue;
		most = frac;
		reach->rank = (int32_t)r;
	}
	if (reach->rank == LW_NONE || has_changed || most > MOST_FRAC) {
		reach->rank = LW_NONE;
		return LW_OK;
	}
	reach->mean_frac = most;
	reach->fitted_frac = frac_of(net, (size_t)reach->rank, slope_ns);
	if (reach->fitted_frac > MOST_FRAC)
		reach->fitted_frac = NAN;
	reach->mean_bytes = all.bytes / all.n;
	reach->mean_ns = all.sum_ns / all.n;
	reach->alpha_ns = fit ? fit->figure[LW_FIT_ALPHA_NS].value : (double)NAN;
	return find_reasons(run, &all, reach);
}
