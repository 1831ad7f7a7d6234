/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - who sent how much to whom: connections added up by link and by rank.
 *
 * What a rank reads of its peer (RDMA READ) goes from the peer to it, and only it knows of that.
 */
#include "analyzer/network/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- links --------------------------------------------------------------------------------------- */

static int compare_link(const void *a, const void *b)
{
	const struct lw_net_link *x = a, *y = b;
	int by = (x->from > y->from) - (x->from < y->from);

	return by ? by : (x->to > y->to) - (x->to < y->to);
}

struct lw_net_link *lw_net_link_of(struct lw_run *run, int32_t from, int32_t to)
{
	const struct lw_net_link wanted = {.from = from, .to = to};
	struct lw_network *net = &run->network;

	return net->links.n
		       ? bsearch(&wanted, net->links.at, net->links.n, sizeof(wanted), compare_link)
		       : NULL;
}

bool lw_net_is_edge(const struct lw_run *run, const struct lw_net_link *link)
{
	return link->step_bytes > 0 && link->step_bytes >= run->network.edge_bytes;
}

static double last_known(const struct lw_tcp_end *end, size_t offset)
{
	for (size_t i = end->tcp.n; i-- > 0;) {
		int64_t value =
			*(const int64_t *)(const void *)((const char *)&end->tcp.at[i] + offset);

		if (value != LW_COUNT_UNKNOWN)
			return (double)value;
	}
	return NAN;
}
#define LAST(end, field) last_known((end), offsetof(struct lw_tcp_reading, field))

static void add(double *sum, double value)
{
	if (!isnan(value))
		*sum = (isnan(*sum) ? 0 : *sum) + value;
}

/* Median of its readings; of several connections, of the one that carried most. */
static int add_rtt(struct lw_net_link *link, const struct lw_tcp_end *end)
{
	double *rtts_ns = calloc(end->tcp.n + 1, sizeof(*rtts_ns));
	const struct lw_tcp_reading *reading;
	size_t n = 0;

	if (!rtts_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	lw_vec_foreach (reading, &end->tcp)
		if (reading->rtt_ns > 0)
			rtts_ns[n++] = (double)reading->rtt_ns;
	if (n && (isnan(link->rtt_ns) || lw_end_sent_bytes(end) > link->rtt_bytes)) {
		link->rtt_ns = lw_net_median(rtts_ns, n);
		link->rtt_bytes = lw_end_sent_bytes(end);
	}
	free(rtts_ns);
	return LW_OK;
}

/* Sums first; fractions are divided when all ends are in. */
static int add_end(const struct lw_run *run, struct lw_net_link *link, const struct lw_tcp_end *end)
{
	const struct lw_rank *rank = &run->ranks.at[end->rank];

	link->step_bytes += lw_net_window_bytes(rank, end, LW_END_SENT);
	link->run_bytes += lw_end_sent_bytes(end);
	link->is_loopback |= end->nic != LW_NONE && run->nics.at[end->nic].is_loopback;
	if (end->is_rdma) {
		link->rdma_step_bytes += lw_net_window_bytes(rank, end, LW_END_SENT);
		link->rdma_bytes += lw_end_sent_bytes(end);
	}
	add(&link->acked_bytes, LAST(end, acked_bytes));
	add(&link->n_retransmits, LAST(end, n_retransmits));
	add(&link->n_segments, LAST(end, n_segments_out));
	add(&link->busy_ns, LAST(end, busy_ns));
	add(&link->rwnd_limited_frac, LAST(end, rwnd_limited_ns));
	add(&link->sndbuf_limited_frac, LAST(end, sndbuf_limited_ns));
	if (!isnan(LAST(end, min_rtt_ns)))
		link->min_rtt_ns = fmin(link->min_rtt_ns, LAST(end, min_rtt_ns));
	return add_rtt(link, end);
}

static bool has_read(const struct lw_tcp_end *end)
{
	return lw_net_is_between_ranks(end) && lw_end_total_bytes(end, LW_END_READ) > 0;
}

static void add_read(
	const struct lw_run *run, struct lw_net_link *link, const struct lw_tcp_end *end)
{
	double bytes = lw_end_total_bytes(end, LW_END_READ);
	double step_bytes = lw_net_window_bytes(&run->ranks.at[end->rank], end, LW_END_READ);

	link->step_bytes += step_bytes;
	link->rdma_step_bytes += step_bytes;
	link->run_bytes += bytes;
	link->rdma_bytes += bytes;
}

/* RDMA's own loss is seen in packets only. Who refuses a packet says so on the way back. */
static void add_flow(struct lw_run *run, const struct lw_packet_flow *flow)
{
	struct lw_net_link *link = lw_net_link_of(run, flow->from_rank, flow->to_rank);
	struct lw_net_link *back = lw_net_link_of(run, flow->to_rank, flow->from_rank);

	if (link)
		add(&link->packet_bytes, (double)flow->payload_bytes -
						 (double)flow->repeated_bytes +
						 (double)flow->missing_bytes);
	if (link && flow->is_roce) {
		add(&link->n_retransmits, (double)flow->n_retransmitted);
		add(&link->n_segments, (double)flow->n_packets);
		add(&link->n_psn_gaps, (double)flow->n_psn_gaps);
	}
	if (back && flow->is_roce)
		add(&back->n_naks, (double)flow->n_naks);
}

static int add_link(struct lw_run *run, int32_t from, int32_t to)
{
	struct lw_net_link link = {.from = from,
		.to = to,
		.acked_bytes = NAN,
		.busy_bytes_per_s = NAN,
		.busy_ns = NAN,
		.rwnd_limited_frac = NAN,
		.sndbuf_limited_frac = NAN,
		.rtt_ns = NAN,
		.min_rtt_ns = NAN,
		.n_retransmits = NAN,
		.n_segments = NAN,
		.n_psn_gaps = NAN,
		.n_naks = NAN,
		.packet_bytes = NAN,
		.capacity_bytes_per_s = NAN,
		.used_frac = NAN};

	return lw_vec_push(&run->network.links, link);
}

static void divide(struct lw_net_link *link, size_t n_steps)
{
	link->step_bytes /= n_steps ? (double)n_steps : 1;
	link->rdma_step_bytes /= n_steps ? (double)n_steps : 1;
	if (link->busy_ns > 0) {
		link->busy_bytes_per_s = link->acked_bytes / link->busy_ns * 1e9;
		link->rwnd_limited_frac /= link->busy_ns;
		link->sndbuf_limited_frac /= link->busy_ns;
	} else {
		link->rwnd_limited_frac = link->sndbuf_limited_frac = NAN;
	}
}

static void merge_links(struct lw_run *run)
{
	struct lw_network *net = &run->network;
	size_t n = 0;

	if (!net->links.n)
		return;
	qsort(net->links.at, net->links.n, sizeof(*net->links.at), compare_link);
	for (size_t i = 1; i < net->links.n; i++)
		if (compare_link(&net->links.at[n], &net->links.at[i]))
			net->links.at[++n] = net->links.at[i];
	net->links.n = n + 1;
}

/* Of @ops what lies in counted steps; all of it without steps. */
static int counted_ops(const struct lw_rank *rank, struct lw_intervals *ret_ops)
{
	struct lw_intervals all;
	const struct lw_step *step;
	int status = lw_net_ops(rank, ret_ops);
	size_t i = 0;

	if (status < 0 || !lw_net_n_counted(rank))
		return status;
	all = *ret_ops;
	*ret_ops = (struct lw_intervals){0};
	lw_vec_foreach (step, &rank->steps) {
		while (i < all.at.n && all.at.at[i].end_ns <= step->start_ns)
			i++;
		for (size_t k = i; k < all.at.n && all.at.at[k].start_ns < step->end_ns; k++) {
			struct lw_interval op = all.at.at[k];

			op.start_ns = op.start_ns > step->start_ns ? op.start_ns : step->start_ns;
			op.end_ns = op.end_ns < step->end_ns ? op.end_ns : step->end_ns;
			if (!step->excluded && status == LW_OK)
				status = lw_vec_push(&ret_ops->at, op);
		}
	}
	lw_vec_free(&all.at);
	return status;
}

static int add_rank(struct lw_run *run, int32_t r)
{
	const struct lw_rank *rank = &run->ranks.at[r];
	struct lw_net_rank one = {.in_ops_frac = NAN,
		.expected_bytes = NAN,
		.capacity_bytes_per_s = NAN,
		.at_most_bytes_per_s = NAN,
		.used_frac = NAN,
		.busy_ns = NAN,
		.wire_factor = 1,
		.nic_share = 1,
		.capacity_before_bytes_per_s = NAN,
		.capacity_since_ns = LW_NS_UNKNOWN,
		.fitted_bytes_per_s = NAN,
		.nic = LW_NONE};
	double in_ops = 0, all = 0;
	const struct lw_tcp_end *end;
	struct lw_intervals ops;
	int status = counted_ops(rank, &ops);

	lw_vec_foreach (end, &run->ends) {
		if (end->rank != r)
			continue;
		if (lw_net_is_between_ranks(end)) {
			in_ops += lw_net_in_ops_bytes(end, &ops, LW_END_SENT);
			all += lw_net_window_bytes(rank, end, LW_END_SENT);
		} else if (end->peer_rank == LW_NONE) {
			one.other_sent_bytes += lw_end_sent_bytes(end);
			one.other_received_bytes += lw_end_received_bytes(end);
		}
	}
	if (all > 0 && ops.at.n)
		one.in_ops_frac = fmin(1, in_ops / all);
	lw_vec_free(&ops.at);
	return status < 0 ? status : lw_vec_push(&run->network.ranks, one);
}

int lw_net_find_links(struct lw_run *run)
{
	struct lw_network *net = &run->network;
	const struct lw_packet_flow *flow;
	struct lw_tcp_end *end;
	struct lw_net_link *link;
	int status = LW_OK;

	net->n_steps = run->ranks.n ? lw_net_n_counted(&run->ranks.at[0]) : 0;
	lw_vec_foreach (end, &run->ends)
		if (lw_net_is_between_ranks(end) && status == LW_OK) {
			status = add_link(run, end->rank, end->peer_rank);
			if (status == LW_OK && has_read(end))
				status = add_link(run, end->peer_rank, end->rank);
		}
	merge_links(run);
	lw_vec_foreach (end, &run->ends) {
		if (lw_net_is_between_ranks(end) && status == LW_OK)
			status = add_end(run, lw_net_link_of(run, end->rank, end->peer_rank), end);
		if (has_read(end) && status == LW_OK)
			add_read(run, lw_net_link_of(run, end->peer_rank, end->rank), end);
	}
	lw_vec_foreach (link, &net->links) {
		divide(link, net->n_steps);
		net->edge_bytes = fmax(net->edge_bytes, LW_NET_EDGE_FRAC * link->step_bytes);
	}
	lw_vec_foreach (flow, &run->flows)
		if (!flow->is_repeat && flow->from_rank != LW_NONE && flow->to_rank != LW_NONE)
			add_flow(run, flow);
	for (size_t r = 0; r < run->ranks.n && run->ends.n && status == LW_OK; r++)
		status = add_rank(run, (int32_t)r);
	if (status < 0 || !net->ranks.n)
		return status;
	lw_vec_foreach (link, &net->links) {
		bool is_edge = lw_net_is_edge(run, link);

		net->ranks.at[link->from].sent_bytes += link->step_bytes;
		net->ranks.at[link->to].received_bytes += link->step_bytes;
		net->ranks.at[link->from].n_out += is_edge;
		net->ranks.at[link->to].n_in += is_edge;
	}
	return LW_OK;
}

/* ---- all of it ------------------------------------------------------------------------------------- */

static void forget(struct lw_network *net)
{
	struct lw_net_account *account;

	lw_vec_foreach (account, &net->accounts)
		lw_vec_free(&account->candidates);
	lw_vec_free(&net->links);
	lw_vec_free(&net->ranks);
	lw_vec_free(&net->accounts);
	lw_vec_free(&net->troubles);
	lw_vec_free(&net->ops);
	*net = (struct lw_network){.op_bytes = NAN,
		.off_frac = NAN,
		.hub = LW_NONE,
		.slow_rank = LW_NONE,
		.slow_to = LW_NONE,
		.others_bytes_per_s = NAN,
		.server = {.rank = LW_NONE, .in_frac = NAN, .out_frac = NAN},
		.slowed = {.worst_from = LW_NONE, .worst_to = LW_NONE, .worst_frac = NAN},
		.reach = {.rank = LW_NONE, .fitted_frac = NAN, .mean_frac = NAN}};
}

int lw_run_network(struct lw_run *run)
{
	static int (*const parts[])(struct lw_run *) = {lw_net_find_links, lw_net_find_captured,
		lw_net_account, lw_net_find_gone, lw_net_find_algorithm, lw_net_find_capacity,
		lw_net_find_slow, lw_net_find_ops, lw_net_find_slowed};
	int status = LW_OK;

	forget(&run->network);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && status == LW_OK; i++)
		status = parts[i](run);
	return status;
}
