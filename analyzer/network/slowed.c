/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slowed.c - operations that ran while segments were sent again, against those of the same size that did not.
 *
 * When: between two readings of TCP_INFO the count grew; a captured millisecond is finer. Where every operation
 * was hit, the fastest tenth of their size stands for those that were not.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

#define SLOWED_FRAC 0.1 /* longer than without */
enum { BIN_NS = 1000000, LEAST_CALM = 4, LEAST_OPS = 8 };

struct resent { /* by one rank */
	lw_vec(struct lw_interval) at;
};

struct sample { /* an operation */
	int op;
	uint64_t bytes;
	double ns;
	bool is_hit;
};

static int compare_start(const void *a, const void *b)
{
	const struct lw_interval *x = a, *y = b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static int add_readings(
	struct resent *resent, const struct lw_tcp_end *end, double *sum_ns, size_t *n)
{
	for (size_t i = 1; i < end->tcp.n; i++) {
		const struct lw_tcp_reading *a = &end->tcp.at[i - 1], *b = a + 1;
		struct lw_interval when = {a->at_ns, b->at_ns};

		if (a->n_retransmits < 0 || b->n_retransmits <= a->n_retransmits)
			continue;
		if (lw_vec_push(&resent->at, when) < 0)
			return LW_ERR_NOMEM;
		*sum_ns += (double)(b->at_ns - a->at_ns);
		++*n;
	}
	return LW_OK;
}

static int add_bins(struct resent *resent, const struct lw_packet_flow *flow)
{
	const struct lw_packet_bin *bin;

	lw_vec_foreach (bin, &flow->bins) {
		struct lw_interval when = {bin->bin_ns, bin->bin_ns + BIN_NS};

		if (bin->n_retransmitted && lw_vec_push(&resent->at, when) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

/* When rank @r sent something to a rank again: by packets where these were captured. */
static int find_resent(struct lw_run *run, int32_t r, struct resent *resent)
{
	const struct lw_packet_flow *flow;
	const struct lw_tcp_end *end;
	double sum_ns = 0;
	bool is_captured = false;
	int status = LW_OK;
	size_t n = 0;

	lw_vec_foreach (flow, &run->flows) {
		if (flow->from_rank != r || flow->to_rank == LW_NONE || !flow->bins.n)
			continue;
		is_captured = true;
		if (status == LW_OK)
			status = add_bins(resent, flow);
	}
	lw_vec_foreach (end, &run->ends)
		if (!is_captured && end->rank == r && end->peer_rank != LW_NONE &&
			status == LW_OK &&
			!(end->nic != LW_NONE && run->nics.at[end->nic].is_loopback))
			status = add_readings(resent, end, &sum_ns, &n);
	if (resent->at.n)
		qsort(resent->at.at, resent->at.n, sizeof(*resent->at.at), compare_start);
	run->network.slowed.resolution_ns =
		fmax(run->network.slowed.resolution_ns, is_captured ? BIN_NS
							: n         ? sum_ns / (double)n
								    : 0);
	return status;
}

/* Intervals of one rank are short and of about one length: those that began more than a second before are over. */
static bool is_hit(const struct resent *resent, struct lw_interval when)
{
	size_t low = 0, high = resent->at.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (resent->at.at[middle].start_ns < when.end_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i-- > 0 && i + 64 > low;)
		if (resent->at.at[i].end_ns > when.start_ns)
			return true;
	return false;
}

static bool is_counted(const struct lw_run *run, const struct lw_group *group)
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

static int compare_sample(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;
	int by = (x->op > y->op) - (x->op < y->op);

	if (!by)
		by = (x->bytes > y->bytes) - (x->bytes < y->bytes);
	if (!by)
		by = (x->ns > y->ns) - (x->ns < y->ns);
	return by;
}

/* Operations of one size, the shortest first. */
static void judge(
	struct lw_net_slowed *slowed, const struct sample *samples, size_t n, double *calm_ns)
{
	double base_ns, limit_ns;
	size_t n_calm = 0;

	for (size_t i = 0; i < n; i++)
		if (!samples[i].is_hit)
			calm_ns[n_calm++] = samples[i].ns;
	if (n_calm >= LEAST_CALM) {
		base_ns = lw_net_median(calm_ns, n_calm);
		limit_ns = fmax((1 + SLOWED_FRAC) * base_ns, calm_ns[n_calm * 9 / 10]);
	} else if (n >= LEAST_OPS) {
		base_ns = samples[n / 10].ns;
		limit_ns = (1 + SLOWED_FRAC) * base_ns;
		slowed->is_fastest = true;
	} else {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		slowed->n_ops++;
		slowed->n_hit += samples[i].is_hit;
		if (!samples[i].is_hit || samples[i].ns <= limit_ns)
			continue;
		slowed->n_slowed++;
		slowed->lost_ns += samples[i].ns - base_ns;
		slowed->normal_frac += samples[i].ns / base_ns - 1;
	}
}

static int judge_all(struct lw_run *run, const struct resent *resent)
{
	struct lw_net_slowed *slowed = &run->network.slowed;
	struct sample *samples = calloc(run->groups.n + 1, sizeof(*samples));
	double *calm_ns = calloc(run->groups.n + 1, sizeof(*calm_ns));
	bool is_one_clock = lw_run_is_one_clock(run);
	const struct lw_group *group;
	size_t n = 0, first = 0;

	if (!samples || !calm_ns) {
		free(samples);
		free(calm_ns);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	lw_vec_foreach (group, &run->groups) {
		if (!is_counted(run, group))
			continue;
		samples[n] = (struct sample){group->op, group->bytes,
			lw_group_service_ns(run, group, is_one_clock), false};
		for (size_t r = 0; r < run->ranks.n && !samples[n].is_hit; r++)
			samples[n].is_hit =
				is_hit(&resent[r], lw_batch_wire(lw_group_batch(run, group, r)));
		n++;
	}
	qsort(samples, n, sizeof(*samples), compare_sample);
	for (size_t i = 1; i <= n; i++)
		if (i == n || samples[i].op != samples[first].op ||
			samples[i].bytes != samples[first].bytes) {
			judge(slowed, samples + first, i - first, calm_ns);
			first = i;
		}
	if (slowed->n_slowed)
		slowed->normal_frac /= slowed->n_slowed;
	free(samples);
	free(calm_ns);
	return LW_OK;
}

static void count(struct lw_run *run)
{
	struct lw_net_slowed *slowed = &run->network.slowed;
	const struct lw_net_link *link;
	double n_segments = 0;

	slowed->n_retransmits = slowed->frac = NAN;
	lw_vec_foreach (link, &run->network.links) {
		if (isnan(link->n_retransmits) || link->is_loopback)
			continue;
		slowed->n_retransmits = (isnan(slowed->n_retransmits) ? 0 : slowed->n_retransmits) +
					link->n_retransmits;
		n_segments += isnan(link->n_segments) ? 0 : link->n_segments;
		if (link->n_retransmits > slowed->worst_n) {
			slowed->worst_n = link->n_retransmits;
			slowed->worst_from = link->from;
			slowed->worst_to = link->to;
		}
	}
	if (n_segments > 0)
		slowed->frac = slowed->n_retransmits / n_segments;
}

int lw_net_find_slowed(struct lw_run *run)
{
	struct resent *resent = calloc(run->ranks.n + 1, sizeof(*resent));
	int status = LW_OK;
	bool has_any = false;

	if (!resent)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	count(run);
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++) {
		status = find_resent(run, (int32_t)r, &resent[r]);
		has_any |= resent[r].at.n > 0;
	}
	if (status == LW_OK && has_any)
		status = judge_all(run, resent);
	for (size_t r = 0; r < run->ranks.n; r++)
		lw_vec_free(&resent[r].at);
	free(resent);
	return status;
}
