/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slowed.c - operations that ran while segments were sent again, against those of the same size that did not.
 *
 * When: between two readings of TCP_INFO, or of the RDMA port's counters, the count grew; a captured millisecond is
 * finer. Where every operation was hit, the fastest tenth of their size stands for those that were not.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Packets of @r that were sent again, were missing, or were refused by who sends @flow to it. */
static uint64_t n_troubles(
	const struct lw_packet_flow *flow, const struct lw_packet_bin *bin, int32_t r)
{
	return flow->from_rank == r ? bin->n_retransmitted + bin->n_psn_gaps : bin->n_naks;
}

static int add_bins(struct resent *resent, const struct lw_packet_flow *flow, int32_t r)
{
	const struct lw_packet_bin *bin;

	lw_vec_foreach (bin, &flow->bins) {
		struct lw_interval when = {bin->bin_ns, bin->bin_ns + BIN_NS};

		if (n_troubles(flow, bin, r) && lw_vec_push(&resent->at, when) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

/* What RDMA ports count when packets have to be sent again; in packets, all of the port. */
static const char *const resent_counters[] = {"packet_seq_err", "local_ack_timeout_err",
	"implied_nak_seq_err", "rnr_nak_retry_err", "retransmitted_packets", "rcvd_seq_err",
	"rcvd_rnr_err"};
enum { N_RESENT_COUNTERS = sizeof(resent_counters) / sizeof(resent_counters[0]) };

static int add_counters(struct resent *resent, const struct lw_nic *nic, double *sum_ns, size_t *n)
{
	for (size_t c = 0; c < N_RESENT_COUNTERS; c++) {
		const struct lw_nic_series *series = lw_net_series(nic, resent_counters[c]);

		for (size_t i = 1; series && i < series->readings.n; i++) {
			const struct lw_reading *a = &series->readings.at[i - 1], *b = a + 1;
			struct lw_interval when = {a->at_ns, b->at_ns};

			if (b->value <= a->value)
				continue;
			if (lw_vec_push(&resent->at, when) < 0)
				return LW_ERR_NOMEM;
			*sum_ns += (double)(b->at_ns - a->at_ns);
			++*n;
		}
	}
	return LW_OK;
}

static bool is_of_rank(const struct lw_tcp_end *end, int32_t r)
{
	return end->rank == r && end->peer_rank != LW_NONE && end->peer_rank != r;
}

struct found { /* while the ends of a rank are looked at */
	struct resent *resent;
	bool is_captured[2]; /* TCP, RDMA */
	bool *has_port;      /* by NIC: its counters are in */
	double sum_ns;
	size_t n;
};

static int find_in_flows(const struct lw_run *run, int32_t r, struct found *found)
{
	const struct lw_packet_flow *flow;

	lw_vec_foreach (flow, &run->flows) {
		if ((flow->from_rank != r && flow->to_rank != r) || flow->from_rank == LW_NONE ||
			flow->to_rank == LW_NONE || !flow->bins.n ||
			flow->clock != run->ranks.at[r].clock)
			continue;
		found->is_captured[flow->is_roce] |= flow->from_rank == r;
		if (add_bins(found->resent, flow, r) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

static int find_in_readings(const struct lw_run *run, int32_t r, struct found *found)
{
	const struct lw_tcp_end *end;
	int status = LW_OK;

	lw_vec_foreach (end, &run->ends) {
		const struct lw_nic *nic = end->nic == LW_NONE ? NULL : &run->nics.at[end->nic];

		if (found->is_captured[end->is_rdma] || !is_of_rank(end, r) || status < 0 ||
			(nic && nic->is_loopback))
			continue;
		if (!end->is_rdma)
			status = add_readings(found->resent, end, &found->sum_ns, &found->n);
		else if (nic && !found->has_port[end->nic])
			status = add_counters(found->resent, nic, &found->sum_ns, &found->n);
		if (nic)
			found->has_port[end->nic] = true;
	}
	return status;
}

/* When rank @r sent something to a rank again: by packets where these were captured. */
static int find_resent(struct lw_run *run, int32_t r, struct resent *resent)
{
	struct found found = {
		.resent = resent, .has_port = calloc(run->nics.n + 1, sizeof(*found.has_port))};
	int status = found.has_port ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory");
	bool is_captured;

	if (status == LW_OK)
		status = find_in_flows(run, r, &found);
	if (status == LW_OK)
		status = find_in_readings(run, r, &found);
	free(found.has_port);
	is_captured = found.is_captured[0] || found.is_captured[1];
	if (resent->at.n)
		qsort(resent->at.at, resent->at.n, sizeof(*resent->at.at), compare_start);
	run->network.slowed.resolution_ns =
		fmax(run->network.slowed.resolution_ns, found.n ? found.sum_ns / (double)found.n
							: is_captured ? BIN_NS
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

/* RDMA without a capture: by the ports that ranks send by, which do not say to whom. */
static void count_ports(struct lw_run *run, bool *has_port)
{
	struct lw_net_slowed *slowed = &run->network.slowed;
	const struct lw_tcp_end *end;
	double n = 0, n_packets = 0;
	bool is_counted = false;

	lw_vec_foreach (end, &run->ends) {
		const struct lw_nic *nic = end->nic == LW_NONE ? NULL : &run->nics.at[end->nic];

		if (!end->is_rdma || !nic || end->rank == LW_NONE || !is_of_rank(end, end->rank) ||
			has_port[end->nic])
			continue;
		has_port[end->nic] = true;
		for (size_t c = 0; c < N_RESENT_COUNTERS; c++) {
			double growth = lw_net_growth(nic, resent_counters[c]);

			is_counted |= !isnan(growth);
			n += isnan(growth) ? 0 : growth;
		}
		n_packets += fmax(0, lw_net_growth(nic, "tx_packets"));
	}
	if (!is_counted)
		return;
	slowed->is_by_port = true;
	slowed->n_retransmits = n;
	slowed->frac = n_packets > 0 ? n / n_packets : (double)NAN;
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

/* Most went by RDMA, and its packets were not captured: TCP, if there is any, tells nothing of it. */
static bool is_rdma_unseen(const struct lw_run *run)
{
	const struct lw_net_link *link;
	double bytes = 0, rdma_bytes = 0;

	lw_vec_foreach (link, &run->network.links) {
		if (!isnan(link->n_psn_gaps))
			return false;
		bytes += link->run_bytes;
		rdma_bytes += link->rdma_bytes;
	}
	return rdma_bytes > bytes / 2;
}

int lw_net_find_slowed(struct lw_run *run)
{
	struct resent *resent = calloc(run->ranks.n + 1, sizeof(*resent));
	bool *has_port = calloc(run->nics.n + 1, sizeof(*has_port));
	bool has_any = false;
	int status = LW_OK;

	if (!resent || !has_port) {
		free(resent);
		free(has_port);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	count(run);
	if (is_rdma_unseen(run))
		count_ports(run, has_port);
	free(has_port);
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
