/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - who sent how much to whom: connections joined end to end, and added up by link and by rank.
 *
 * An end is joined to the one with the same addresses the other way round. Addresses that several namespaces
 * use at once (loopbacks) join within one host only.
 */
#include "analyzer/network/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the other end ------------------------------------------------------------------------------- */

struct name {
	const char *local, *peer;
	int local_port, peer_port;
	const struct lw_tcp_end *end;
};

static int compare_name(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int by = strcmp(x->local, y->local);

	if (!by)
		by = strcmp(x->peer, y->peer);
	if (!by)
		by = (x->local_port > y->local_port) - (x->local_port < y->local_port);
	if (!by)
		by = (x->peer_port > y->peer_port) - (x->peer_port < y->peer_port);
	return by;
}

static int32_t rank_of(const struct name *names, size_t n, const struct name *wanted)
{
	const struct name *found = bsearch(wanted, names, n, sizeof(*names), compare_name);

	return found ? found->end->rank : LW_NONE;
}

int lw_net_find_peers(struct lw_run *run)
{
	struct name *names = calloc(run->ends.n + 1, sizeof(*names));
	struct lw_packet_flow *flow;
	struct lw_tcp_end *end;
	size_t n = 0;

	if (!names)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu connections", run->ends.n);
	lw_vec_foreach (end, &run->ends)
		if (end->rank != LW_NONE)
			names[n++] = (struct name){
				end->local, end->peer, end->local_port, end->peer_port, end};
	qsort(names, n, sizeof(*names), compare_name);
	lw_vec_foreach (end, &run->ends)
		end->peer_rank = rank_of(names, n,
			&(struct name){
				end->peer, end->local, end->peer_port, end->local_port, NULL});
	lw_vec_foreach (flow, &run->flows) {
		if (flow->from_rank == LW_NONE)
			flow->from_rank = rank_of(names, n,
				&(struct name){flow->source, flow->destination, flow->source_port,
					flow->destination_port, NULL});
		if (flow->to_rank == LW_NONE)
			flow->to_rank = rank_of(names, n,
				&(struct name){flow->destination, flow->source,
					flow->destination_port, flow->source_port, NULL});
	}
	free(names);
	return LW_OK;
}

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

static bool is_between_ranks(const struct lw_tcp_end *end)
{
	return end->rank != LW_NONE && end->peer_rank != LW_NONE && end->rank != end->peer_rank;
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

/* Median of its readings; of several connections, of the one that carried more than the others. */
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
	if (n && (isnan(link->rtt_ns) || 2 * lw_end_sent_bytes(end) > link->run_bytes))
		link->rtt_ns = lw_net_median(rtts_ns, n);
	free(rtts_ns);
	return LW_OK;
}

/* Sums first; fractions are divided when all ends are in. */
static int add_end(const struct lw_run *run, struct lw_net_link *link, const struct lw_tcp_end *end)
{
	const struct lw_rank *rank = &run->ranks.at[end->rank];

	link->step_bytes += lw_net_window_bytes(rank, end, true);
	link->run_bytes += lw_end_sent_bytes(end);
	link->is_loopback |= end->nic != LW_NONE && run->nics.at[end->nic].is_loopback;
	link->rdma_bytes += end->is_rdma ? lw_end_sent_bytes(end) : 0;
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
		.packet_bytes = NAN};

	return lw_vec_push(&run->network.links, link);
}

static void divide(struct lw_net_link *link, size_t n_steps)
{
	link->step_bytes /= n_steps ? (double)n_steps : 1;
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

static int add_rank(struct lw_run *run, int32_t r)
{
	const struct lw_rank *rank = &run->ranks.at[r];
	struct lw_net_rank one = {.in_ops_frac = NAN,
		.expected_bytes = NAN,
		.capacity_bytes_per_s = NAN,
		.used_frac = NAN,
		.busy_ns = NAN,
		.wire_factor = 1,
		.fitted_bytes_per_s = NAN,
		.nic = LW_NONE};
	double in_ops = 0, all = 0;
	const struct lw_tcp_end *end;
	struct lw_intervals ops;
	int status = lw_net_ops(rank, &ops);

	lw_vec_foreach (end, &run->ends) {
		if (end->rank != r)
			continue;
		if (is_between_ranks(end)) {
			in_ops += lw_net_in_ops_bytes(end, &ops, true);
			all += lw_end_sent_bytes(end);
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
		if (is_between_ranks(end) && status == LW_OK)
			status = add_link(run, end->rank, end->peer_rank);
	merge_links(run);
	lw_vec_foreach (end, &run->ends)
		if (is_between_ranks(end) && status == LW_OK)
			status = add_end(run, lw_net_link_of(run, end->rank, end->peer_rank), end);
	lw_vec_foreach (link, &net->links) {
		divide(link, net->n_steps);
		net->edge_bytes = fmax(net->edge_bytes, LW_NET_EDGE_FRAC * link->step_bytes);
	}
	lw_vec_foreach (flow, &run->flows) {
		if (flow->from_rank == LW_NONE || flow->to_rank == LW_NONE)
			continue;
		link = lw_net_link_of(run, flow->from_rank, flow->to_rank);
		if (link)
			add(&link->packet_bytes, (double)flow->payload_bytes -
							 (double)flow->repeated_bytes +
							 (double)flow->missing_bytes);
	}
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
		.others_bytes_per_s = NAN,
		.slowed = {.worst_from = LW_NONE, .worst_to = LW_NONE},
		.reach = {.rank = LW_NONE, .fitted_frac = NAN, .mean_frac = NAN}};
}

int lw_run_network(struct lw_run *run)
{
	static int (*const parts[])(struct lw_run *) = {lw_net_find_peers, lw_net_find_links,
		lw_net_account, lw_net_find_capacity, lw_net_find_algorithm, lw_net_find_ops,
		lw_net_find_slowed};
	int status = LW_OK;

	forget(&run->network);
	lw_run_diag_reset(run, "network");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && status == LW_OK; i++)
		status = parts[i](run);
	return status;
}
