/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.c - bytes on the wire by operation: what each rank sent to ranks while an operation of a size ran.
 *
 * From captured milliseconds where the rank's flows were captured, else from samples of its connections, in proportion
 * between two of them. Operations that run at once share what was sent meanwhile by their sizes.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/network/network.h"

enum { BIN_NS = 1000000, MAX_AT_ONCE = 64 };

struct running { /* an operation of the rank that is looked at */
	struct lw_interval wire;
	int op;
	uint64_t bytes;
};

struct sender { /* of one rank: what it sent to ranks by a moment */
	lw_vec(const struct lw_tcp_end *) ends;
	size_t *hints;
	lw_vec(struct lw_packet_bin) bins; /* payload added up so far; empty: not captured */
};

static int compare_bin(const void *a, const void *b)
{
	const struct lw_packet_bin *x = a, *y = b;

	return (x->bin_ns > y->bin_ns) - (x->bin_ns < y->bin_ns);
}

static int add_flows(const struct lw_run *run, int32_t r, struct sender *sender)
{
	const struct lw_packet_flow *flow;
	const struct lw_packet_bin *bin;

	lw_vec_foreach (flow, &run->flows) {
		if (flow->is_repeat || flow->from_rank != r || flow->to_rank == LW_NONE ||
			flow->to_rank == r || flow->clock != run->ranks.at[r].clock)
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

static int make_sender(const struct lw_run *run, int32_t r, struct sender *sender)
{
	const struct lw_tcp_end *end;
	int status = add_flows(run, r, sender);

	lw_vec_foreach (end, &run->ends)
		if (status == LW_OK && end->rank == r && end->peer_rank != LW_NONE &&
			end->peer_rank != r && end->curve.n)
			status = lw_vec_push(&sender->ends, end);
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
	double bytes = 0;

	if (sender->bins.n)
		return captured_bytes(sender, at_ns);
	for (size_t i = 0; i < sender->ends.n; i++)
		bytes += lw_end_bytes(sender->ends.at[i], at_ns, LW_END_SENT, &sender->hints[i]);
	return bytes;
}

static struct lw_net_op *find_op(struct lw_network *net, const struct running *running)
{
	struct lw_net_op new = {.op = running->op, .bytes = running->bytes, .expected_bytes = NAN};
	struct lw_net_op *op;

	lw_vec_foreach (op, &net->ops)
		if (op->op == running->op && op->bytes == running->bytes)
			return op;
	if (net->ops.n >= LW_NET_OPS_MAX) /* the rest together */
		return &net->ops.at[net->ops.n - 1];
	return lw_vec_push(&net->ops, new) < 0 ? NULL : &net->ops.at[net->ops.n - 1];
}

static int compare_running(const void *a, const void *b)
{
	const struct running *x = a, *y = b;

	return (x->wire.start_ns > y->wire.start_ns) - (x->wire.start_ns < y->wire.start_ns);
}

/* Until the next of them begins or one of @active ends. */
static int64_t next_moment(const struct running *all, size_t n, size_t next,
	const struct running *const *active, size_t n_active)
{
	int64_t at_ns = next < n ? all[next].wire.start_ns : INT64_MAX;

	for (size_t i = 0; i < n_active; i++)
		if (active[i]->wire.end_ns < at_ns)
			at_ns = active[i]->wire.end_ns;
	return at_ns;
}

static int share(struct lw_network *net, struct sender *sender, const struct running *all, size_t n)
{
	const struct running *active[MAX_AT_ONCE];
	size_t n_active = 0, next = 0;
	int64_t at_ns = 0;

	while (next < n || n_active) {
		int64_t until_ns = next_moment(all, n, next, active, n_active);
		double sent = n_active ? bytes_by(sender, at_ns) : 0, sum_bytes = 0;
		size_t n_kept = 0;

		sent = n_active ? bytes_by(sender, until_ns) - sent : 0;
		for (size_t i = 0; i < n_active; i++)
			sum_bytes += (double)active[i]->bytes;
		for (size_t i = 0; i < n_active; i++) {
			struct lw_net_op *op = find_op(net, active[i]);

			if (!op)
				return LW_ERR_NOMEM;
			op->sent_bytes += sent * (double)active[i]->bytes / sum_bytes;
			if (active[i]->wire.end_ns > until_ns)
				active[n_kept++] = active[i];
			else
				op->n++;
		}
		n_active = n_kept;
		for (; next < n && all[next].wire.start_ns <= until_ns; next++)
			if (n_active < MAX_AT_ONCE)
				active[n_active++] = &all[next];
		at_ns = until_ns;
	}
	return LW_OK;
}

static bool is_in_steps(
	const struct lw_run *run, const struct lw_rank *rank, const struct lw_batch *batch)
{
	return !run->network.n_steps || (batch->step >= 0 && !rank->steps.at[batch->step].excluded);
}

static int look_at(struct lw_run *run, int32_t r)
{
	const struct lw_rank *rank = &run->ranks.at[r];
	lw_vec(struct running) all = {0};
	const struct lw_batch *batch;
	struct sender sender = {0};
	int status = make_sender(run, r, &sender);

	lw_vec_foreach (batch, &rank->batches) {
		struct running one = {lw_batch_wire(batch), batch->op, batch->bytes};

		if (status == LW_OK && one.bytes && one.wire.end_ns > one.wire.start_ns &&
			is_in_steps(run, rank, batch))
			status = lw_vec_push(&all, one);
	}
	if (status == LW_OK && all.n && (sender.ends.n || sender.bins.n)) {
		qsort(all.at, all.n, sizeof(*all.at), compare_running);
		run->network.are_ops_captured &= sender.bins.n > 0;
		status = share(&run->network, &sender, all.at, all.n);
	}
	lw_vec_free(&all);
	lw_vec_free(&sender.ends);
	lw_vec_free(&sender.bins);
	free(sender.hints);
	return status;
}

static int compare_op(const void *a, const void *b)
{
	const struct lw_net_op *x = a, *y = b;

	return (y->sent_bytes > x->sent_bytes) - (y->sent_bytes < x->sent_bytes);
}

int lw_net_find_ops(struct lw_run *run)
{
	struct lw_network *net = &run->network;
	const struct lw_net_rank *rank;
	struct lw_net_op *op;
	double mean = 0; /* what a rank sends of an allreduce of one byte */
	int status = LW_OK;

	if (!net->links.n)
		return LW_OK;
	net->are_ops_captured = true;
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++)
		status = look_at(run, (int32_t)r);
	if (net->ops.n)
		qsort(net->ops.at, net->ops.n, sizeof(*net->ops.at), compare_op);
	lw_vec_foreach (rank, &net->ranks)
		mean += rank->expected_bytes / net->op_bytes / (double)net->ranks.n;
	lw_vec_foreach (op, &net->ops) {
		op->sent_bytes /= op->n ? (double)op->n : 1;
		op->n = (uint32_t)(op->n / run->ranks.n);
		if (op->op == LW_COLL_ALLREDUCE)
			op->expected_bytes = mean * (double)op->bytes;
	}
	return status;
}
