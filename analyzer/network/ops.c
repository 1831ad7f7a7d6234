/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.c - bytes on the wire by operation: what each rank sent to ranks while an operation of a size ran.
 *
 * From captured milliseconds of links that were captured, else from samples of connections, in proportion between two of
 * them. Operations that run at once share what was sent meanwhile by their sizes.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

enum { BIN_NS = 1000000 };
#define RESOLVED_FACTOR 5 /* of shorter ones half may be what lies beside them */

struct running { /* an operation of the rank that is looked at */
	struct lw_interval wire;
	int op;
	uint64_t bytes;
	double share_before; /* struct sweep, when it began */
};

struct sender {                                 /* of one rank: what it sent to ranks by a moment */
	lw_vec(const struct lw_tcp_end *) ends; /* of links that were not captured */
	size_t *hints;
	lw_vec(struct lw_packet_bin) bins; /* payload added up so far */
	bool is_sampled;                   /* of links that belong to a pattern */
	double resolution_ns;
};

/* ---- what was sent ----------------------------------------------------------------------------- */

static int compare_bin(const void *a, const void *b)
{
	const struct lw_packet_bin *x = a, *y = b;

	return (x->bin_ns > y->bin_ns) - (x->bin_ns < y->bin_ns);
}

static int add_flows(
	struct lw_run *run, const struct lw_net_index *index, int32_t r, struct sender *sender)
{
	const struct lw_packet_bin *bin;

	for (size_t i = index->first_flow[r]; i < index->first_flow[r + 1]; i++) {
		const struct lw_packet_flow *flow = index->flows[i];
		const struct lw_net_link *link;

		if (flow->from_rank != r || !lw_net_shows(run, flow, r))
			continue;
		link = lw_net_link_of(run, r, flow->to_rank);
		if (!link || !link->is_captured[flow->is_roce])
			continue;
		lw_vec_foreach (bin, &flow->bins)
			if (lw_vec_push(&sender->bins, *bin) < 0)
				return LW_ERR_NOMEM;
	}
	if (!sender->bins.n)
		return LW_OK;
	qsort(sender->bins.at, sender->bins.n, sizeof(*sender->bins.at), compare_bin);
	for (size_t i = 1; i < sender->bins.n; i++)
		sender->bins.at[i].payload_bytes += sender->bins.at[i - 1].payload_bytes;
	return LW_OK;
}

/* Median time between two samples of which the later has more. NAN: there are none. */
static int find_spacing(const struct lw_tcp_end *const *ends, size_t n, double *ret_ns)
{
	lw_vec(double) spacings_ns = {0};
	int status = LW_OK;

	for (size_t i = 0; i < n && status == LW_OK; i++) {
		const struct lw_curve_point *at = ends[i]->curve.at;

		for (size_t p = 1; p < ends[i]->curve.n && status == LW_OK; p++)
			if (lw_net_is_between_ranks(ends[i]) &&
				at[p].sent_bytes > at[p - 1].sent_bytes)
				status = lw_vec_push(
					&spacings_ns, (double)(at[p].at_ns - at[p - 1].at_ns));
	}
	*ret_ns = lw_net_median(spacings_ns.at, spacings_ns.n);
	lw_vec_free(&spacings_ns);
	return status;
}

/* What of a rank's bytes went in its operations is by samples: where those are coarser it is not known. */
static int check_in_ops(struct lw_run *run, const struct lw_net_index *index, int32_t r)
{
	const struct lw_interval *op;
	struct lw_intervals ops;
	double spacing_ns, ops_ns = 0;
	int status = lw_net_ops(&run->ranks.at[r], &ops);

	if (status == LW_OK)
		status = find_spacing(index->ends + index->first_end[r],
			index->first_end[r + 1] - index->first_end[r], &spacing_ns);
	lw_vec_foreach (op, &ops.at)
		ops_ns += (double)(op->end_ns - op->start_ns);
	if (status == LW_OK && ops_ns < RESOLVED_FACTOR * spacing_ns * (double)ops.at.n)
		run->network.ranks.at[r].in_ops_frac = NAN;
	lw_vec_free(&ops.at);
	return status;
}

static int make_sender(
	struct lw_run *run, const struct lw_net_index *index, int32_t r, struct sender *sender)
{
	int status = add_flows(run, index, r, sender);

	for (size_t i = index->first_end[r]; i < index->first_end[r + 1]; i++) {
		const struct lw_tcp_end *end = index->ends[i];
		const struct lw_net_link *link;

		if (status < 0 || !lw_net_is_between_ranks(end) || !end->curve.n)
			continue;
		link = lw_net_link_of(run, r, end->peer_rank);
		if (!link || link->is_captured[end->is_rdma])
			continue;
		status = lw_vec_push(&sender->ends, end);
		sender->is_sampled |= lw_net_is_edge(run, link);
	}
	sender->resolution_ns = BIN_NS;
	if (status == LW_OK && (sender->is_sampled || !sender->bins.n))
		status = find_spacing(sender->ends.at, sender->ends.n, &sender->resolution_ns);
	sender->hints = calloc(sender->ends.n + 1, sizeof(*sender->hints));
	return sender->hints ? status : lw_fail(LW_ERR_NOMEM, "no memory");
}

/* Bins hold what was sent up to their end; within one in proportion. */
static double captured_bytes(const struct sender *sender, int64_t at_ns)
{
	size_t low = 0, high = sender->bins.n;
	double before, part;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sender->bins.at[middle].bin_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return 0;
	before = low > 1 ? (double)sender->bins.at[low - 2].payload_bytes : 0;
	part = fmin(1, (double)(at_ns - sender->bins.at[low - 1].bin_ns) / BIN_NS);
	return before + ((double)sender->bins.at[low - 1].payload_bytes - before) * part;
}

static double bytes_by(struct sender *sender, int64_t at_ns)
{
	double bytes = captured_bytes(sender, at_ns);

	for (size_t i = 0; i < sender->ends.n; i++)
		bytes += lw_end_bytes(sender->ends.at[i], at_ns, LW_END_SENT, &sender->hints[i]);
	return bytes;
}

/* ---- shared by what ran ------------------------------------------------------------------------ */

struct sweep {         /* over the beginnings and ends of a rank's operations */
	double share;  /* bytes sent so far for one byte of whatever ran */
	double active; /* bytes of what runs */
	double sent;   /* at at_ns */
};

static int compare_start(const void *a, const void *b)
{
	const struct running *x = a, *y = b;

	return (x->wire.start_ns > y->wire.start_ns) - (x->wire.start_ns < y->wire.start_ns);
}

static int compare_end(const void *a, const void *b)
{
	const struct running *x = *(struct running *const *)a, *y = *(struct running *const *)b;

	return (x->wire.end_ns > y->wire.end_ns) - (x->wire.end_ns < y->wire.end_ns);
}

static void sweep_to(struct sweep *sweep, struct sender *sender, int64_t at_ns)
{
	double sent = bytes_by(sender, at_ns);

	if (sweep->active > 0)
		sweep->share += (sent - sweep->sent) / sweep->active;
	sweep->sent = sent;
}

static int add_op(struct lw_network *net, const struct sender *sender, const struct running *one,
	double share)
{
	struct lw_net_op op = {.op = one->op,
		.bytes = one->bytes,
		.n = 1,
		.sent_bytes = (share - one->share_before) * (double)one->bytes,
		.expected_bytes = NAN,
		.mean_ns = (double)(one->wire.end_ns - one->wire.start_ns),
		.resolution_ns = sender->resolution_ns};

	return lw_vec_push(&net->ops, op);
}

/* @by_end: room for @n. Both ways ascending; what ends when another begins ends first. */
static int share(struct lw_network *net, struct sender *sender, struct running *all, size_t n,
	struct running **by_end)
{
	struct sweep sweep = {0};
	size_t next = 0, n_running = 0;
	int status = LW_OK;

	for (size_t i = 0; i < n; i++)
		by_end[i] = &all[i];
	qsort(by_end, n, sizeof(*by_end), compare_end);
	for (size_t i = 0; i < n && status == LW_OK; i++) {
		struct running *ends = by_end[i];

		for (; next < n && all[next].wire.start_ns < ends->wire.end_ns; next++) {
			sweep_to(&sweep, sender, all[next].wire.start_ns);
			all[next].share_before = sweep.share;
			sweep.active += (double)all[next].bytes;
			n_running++;
		}
		sweep_to(&sweep, sender, ends->wire.end_ns);
		status = add_op(net, sender, ends, sweep.share);
		sweep.active = --n_running ? sweep.active - (double)ends->bytes : 0;
	}
	return status;
}

/* ---- rows -------------------------------------------------------------------------------------- */

static int compare_size(const void *a, const void *b)
{
	const struct lw_net_op *x = a, *y = b;
	int by = (x->op > y->op) - (x->op < y->op);

	return by ? by : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void add_up(struct lw_net_op *sum, const struct lw_net_op *op)
{
	sum->n += op->n;
	sum->sent_bytes += op->sent_bytes;
	sum->mean_ns += op->mean_ns;
	if (!(sum->resolution_ns >= op->resolution_ns))
		sum->resolution_ns = op->resolution_ns;
}

/* One row of all of a kind and size. */
static void merge(struct lw_network *net)
{
	size_t n = 0;

	if (!net->ops.n)
		return;
	qsort(net->ops.at, net->ops.n, sizeof(*net->ops.at), compare_size);
	for (size_t i = 1; i < net->ops.n; i++)
		if (compare_size(&net->ops.at[n], &net->ops.at[i]))
			net->ops.at[++n] = net->ops.at[i];
		else
			add_up(&net->ops.at[n], &net->ops.at[i]);
	net->ops.n = n + 1;
}

static bool is_in_steps(
	const struct lw_run *run, const struct lw_rank *rank, const struct lw_batch *batch)
{
	return !run->network.n_steps || (batch->step >= 0 && !rank->steps.at[batch->step].excluded);
}

/* Return: it sent while operations ran, 0: it did not, or an error. */
static int look_at(struct lw_run *run, const struct lw_net_index *index, int32_t r)
{
	const struct lw_rank *rank = &run->ranks.at[r];
	lw_vec(struct running) all = {0};
	const struct lw_batch *batch;
	struct sender sender = {0};
	struct running **by_end = NULL;
	int status = make_sender(run, index, r, &sender);
	bool has_any;

	lw_vec_foreach (batch, &rank->batches) {
		struct running one = {lw_batch_wire(batch), batch->op, batch->bytes, 0};

		if (status == LW_OK && one.bytes && one.wire.end_ns > one.wire.start_ns &&
			is_in_steps(run, rank, batch))
			status = lw_vec_push(&all, one);
	}
	has_any = all.n && (sender.ends.n || sender.bins.n);
	if (status == LW_OK && has_any) {
		qsort(all.at, all.n, sizeof(*all.at), compare_start);
		run->network.are_ops_captured &= sender.bins.n && !sender.is_sampled;
		by_end = calloc(all.n, sizeof(struct running *));
		status = by_end ? share(&run->network, &sender, all.at, all.n, by_end)
				: lw_fail(LW_ERR_NOMEM, "no memory");
		merge(&run->network);
	}
	free(by_end);
	lw_vec_free(&all);
	lw_vec_free(&sender.ends);
	lw_vec_free(&sender.bins);
	free(sender.hints);
	return status < 0 ? status : has_any;
}

static int compare_sent(const void *a, const void *b)
{
	const struct lw_net_op *x = a, *y = b;

	return (y->sent_bytes > x->sent_bytes) - (y->sent_bytes < x->sent_bytes);
}

/* Those beyond LW_NET_OPS_MAX, by kind: they have no size. */
static void join_others(struct lw_network *net)
{
	size_t n = LW_NET_OPS_MAX;

	for (size_t i = LW_NET_OPS_MAX; i < net->ops.n; i++) {
		struct lw_net_op *op = &net->ops.at[i];
		size_t same = LW_NET_OPS_MAX;

		while (same < n && net->ops.at[same].op != op->op)
			same++;
		if (same < n) {
			add_up(&net->ops.at[same], op);
			continue;
		}
		op->bytes = 0;
		net->ops.at[n++] = *op;
	}
	if (net->ops.n > n)
		net->ops.n = n;
}

int lw_net_find_ops(struct lw_run *run)
{
	struct lw_network *net = &run->network;
	const struct lw_net_rank *rank;
	struct lw_net_op *op;
	double mean = 0; /* what a rank sends of an allreduce of one byte */
	struct lw_net_index index;
	uint32_t n_ranks = 0;
	int status;

	if (!net->links.n)
		return LW_OK;
	net->are_ops_captured = true;
	status = lw_net_index_make(run, &index);
	for (size_t r = 0; r < run->ranks.n && status >= 0; r++) {
		status = check_in_ops(run, &index, (int32_t)r);
		if (status == LW_OK)
			status = look_at(run, &index, (int32_t)r);
		n_ranks += status > 0;
	}
	lw_net_index_free(&index);
	if (net->ops.n)
		qsort(net->ops.at, net->ops.n, sizeof(*net->ops.at), compare_sent);
	join_others(net);
	lw_vec_foreach (rank, &net->ranks)
		mean += rank->expected_bytes / net->op_bytes / (double)net->ranks.n;
	lw_vec_foreach (op, &net->ops) {
		op->sent_bytes /= (double)op->n;
		op->mean_ns /= (double)op->n;
		op->n = (op->n + n_ranks - 1) / n_ranks;
		if (!(op->mean_ns >= RESOLVED_FACTOR * op->resolution_ns))
			op->sent_bytes = NAN;
		if (op->op == LW_COLL_ALLREDUCE && op->bytes)
			op->expected_bytes = mean * (double)op->bytes;
	}
	return status < 0 ? status : LW_OK;
}
