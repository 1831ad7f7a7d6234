/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/fine.h"

#include <stdbool.h>
#include <stdlib.h>

#include "analyzer/model/osf.h"
#include "analyzer/simulate/dag.h"
#include "base/err.h"

struct builder {
	const struct lw_fine_job *job;
	struct lw_dag *dag;
	uint32_t delay, tick, server_out, server_in;
	uint32_t last_round; /* begin of it; LW_DAG_NONE = none yet */
	/* by rank: resources */
	uint32_t *out, *in, *compute, *thread;
	/* by rank: operations */
	uint32_t *start;          /* its step begins when this ends */
	uint32_t *computed;       /* all of its step so far, that the training thread does */
	uint32_t *noticed;        /* its training thread knows that all of the step is exchanged */
	uint32_t *free;           /* its thread has nothing more to do */
	uint32_t *entered, *done; /* of this batch */
	uint32_t *sent;           /* of this and the last step of a ring: [2][rank] */
};

enum { N_ARRAYS = 12 };

static bool is_server(const struct lw_fine_job *job)
{
	return job->exchange == LW_FINE_PS_SYNC || job->exchange == LW_FINE_PS_ASYNC;
}

double lw_fine_n_ops(const struct lw_fine_job *job)
{
	double n_ranks = job->n_ranks, messages = is_server(job) ? 2 : 0;

	if (job->exchange == LW_FINE_RING)
		messages = 2 * (n_ranks - 1);
	return n_ranks * ((double)job->n_batches * (2 * messages + 4) + 3.0 * job->n_steps);
}

static uint32_t delay_after(struct builder *b, uint32_t before, double ns)
{
	uint32_t op = lw_dag_op(b->dag, b->delay, ns);

	lw_dag_after(b->dag, op, before);
	return op;
}

static uint32_t message(struct builder *b, uint32_t before, uint32_t out, uint32_t in, double bytes)
{
	uint32_t latency = delay_after(b, before, b->job->hop.latency_ns);
	uint32_t flow = lw_dag_flow(b->dag, out, in, bytes);

	lw_dag_after(b->dag, flow, latency);
	return flow;
}

/* done: when a rank has sent and received its last part. */
static void add_ring(struct builder *b, double bytes)
{
	uint32_t n = b->job->n_ranks, *sent = b->sent, *before = b->sent + n;

	for (uint32_t k = 0; k < 2 * (n - 1); k++) {
		uint32_t *spare = before;

		before = sent;
		sent = spare;
		for (uint32_t r = 0; r < n; r++) {
			uint32_t next = (r + 1) % n, last = (r + n - 1) % n;

			sent[r] = message(b, k == 0 ? b->entered[r] : before[last], b->out[r],
				b->in[next], bytes / n);
			if (k > 0)
				lw_dag_after(b->dag, sent[r], before[r]);
		}
	}
	for (uint32_t r = 0; r < n; r++) {
		if (n < 2) {
			b->done[r] = b->entered[r];
			continue;
		}
		b->done[r] = delay_after(b, sent[r], 0);
		lw_dag_after(b->dag, b->done[r], sent[(r + n - 1) % n]);
	}
}

static void add_collective(struct builder *b, double bytes)
{
	int n_ring = (int)b->job->n_ring;
	uint32_t together = delay_after(b, LW_DAG_NONE, 2 * (n_ring - 1) * b->job->hop.latency_ns);
	uint32_t flow = lw_dag_op(b->dag, b->out[0], lw_ring_wire_bytes(bytes, n_ring));

	lw_dag_after(b->dag, flow, together);
	for (uint32_t r = 0; r < b->job->n_ranks; r++) {
		lw_dag_after(b->dag, together, b->entered[r]);
		b->done[r] = flow;
	}
}

static void add_server(struct builder *b, double bytes)
{
	bool is_sync = b->job->exchange == LW_FINE_PS_SYNC;
	uint32_t all_pushed = is_sync ? delay_after(b, LW_DAG_NONE, 0) : LW_DAG_NONE;

	for (uint32_t r = 0; r < b->job->n_ranks; r++) {
		uint32_t pushed = message(b, b->entered[r], b->out[r], b->server_in, bytes);

		if (is_sync)
			lw_dag_after(b->dag, all_pushed, pushed);
		b->done[r] =
			message(b, is_sync ? all_pushed : pushed, b->server_out, b->in[r], bytes);
	}
}

/* Return: the begin of the round that agrees on @batch. */
static uint32_t add_round(struct builder *b, const struct lw_fine_batch *batch)
{
	bool is_first = b->last_round == LW_DAG_NONE;
	uint32_t begun = lw_dag_op(b->dag, is_first ? b->tick : b->delay, 0);

	if (!is_first)
		lw_dag_after(b->dag, begun, delay_after(b, b->last_round, batch->since_ns));
	for (uint32_t r = 0; r < b->job->n_ranks; r++) {
		lw_dag_after(b->dag, begun, b->entered[r]);
		lw_dag_after(b->dag, begun, b->free[r]);
	}
	return b->last_round = begun;
}

static uint32_t on_thread(struct builder *b, uint32_t rank, uint32_t before, double ns)
{
	uint32_t op = lw_dag_op(b->dag, b->thread[rank], ns);

	lw_dag_after(b->dag, op, before);
	return op;
}

static void add_batch(struct builder *b, const struct lw_fine_batch *batch, uint32_t *round)
{
	const struct lw_fine_job *job = b->job;

	for (uint32_t r = 0; r < job->n_ranks; r++)
		b->entered[r] = delay_after(b, b->start[r], batch->ready_ns[r]);
	if (is_server(job)) {
		add_server(b, batch->bytes);
	} else {
		if (batch->begins_round || *round == LW_DAG_NONE)
			*round = add_round(b, batch);
		for (uint32_t r = 0; r < job->n_ranks; r++) {
			uint32_t copied = on_thread(b, r, *round, batch->in_ns);

			lw_dag_after(b->dag, copied, b->entered[r]);
			lw_dag_after(b->dag, copied, b->free[r]);
			b->entered[r] = copied;
		}
		if (job->exchange == LW_FINE_RING)
			add_ring(b, batch->bytes);
		else
			add_collective(b, batch->bytes);
		for (uint32_t r = 0; r < job->n_ranks; r++)
			b->free[r] = b->done[r] = on_thread(b, r, b->done[r], batch->out_ns);
	}
	for (uint32_t r = 0; r < job->n_ranks; r++) {
		lw_dag_after(b->dag, b->noticed[r], b->done[r]);
		if (batch->finish_ns > 0) {
			uint32_t finished = lw_dag_op(b->dag, b->compute[r], batch->finish_ns);

			lw_dag_after(b->dag, finished, b->computed[r]);
			lw_dag_after(b->dag, finished, b->done[r]);
			b->computed[r] = finished;
		}
	}
}

/* @ends: [step][rank], the operations with which steps end. */
static void add_steps(struct builder *b, uint32_t *ends)
{
	const struct lw_fine_job *job = b->job;
	uint32_t round = LW_DAG_NONE, n = job->n_ranks;
	size_t at = 0;

	for (uint32_t s = 0; s < job->n_steps; s++) {
		for (uint32_t r = 0; r < n; r++) {
			uint32_t computed = lw_dag_op(b->dag, b->compute[r], job->compute_ns[r]);

			lw_dag_after(b->dag, computed, b->start[r]);
			b->noticed[r] = delay_after(b, LW_DAG_NONE, job->notice_ns);
		}
		for (; at < job->n_batches && job->batches[at].step == s; at++)
			add_batch(b, &job->batches[at], &round);
		for (uint32_t r = 0; r < n; r++) {
			uint32_t tail = lw_dag_op(b->dag, b->compute[r], job->tail_ns[r]);

			lw_dag_after(b->dag, tail, b->computed[r]);
			lw_dag_after(b->dag, tail, b->noticed[r]);
			ends[(size_t)s * n + r] = b->start[r] = tail;
		}
	}
}

static void add_resources(struct builder *b)
{
	double rate = b->job->hop.ns_per_byte > 0 ? 1 / b->job->hop.ns_per_byte : 1e18;

	b->delay = lw_dag_resource(b->dag, LW_DAG_DELAY, 0);
	b->tick = lw_dag_resource(b->dag, LW_DAG_TICK, b->job->cycle_ns);
	b->server_out = lw_dag_resource(b->dag, LW_DAG_LINK, rate);
	b->server_in = lw_dag_resource(b->dag, LW_DAG_LINK, rate);
	b->last_round = LW_DAG_NONE;
	for (uint32_t r = 0; r < b->job->n_ranks; r++) {
		b->out[r] = lw_dag_resource(b->dag, LW_DAG_LINK, rate);
		b->in[r] = lw_dag_resource(b->dag, LW_DAG_LINK, rate);
		b->compute[r] = lw_dag_resource(b->dag, LW_DAG_FIFO, 0);
		b->thread[r] = lw_dag_resource(b->dag, LW_DAG_FIFO, 0);
		b->start[r] = b->free[r] = LW_DAG_NONE;
	}
}

int lw_fine_run(const struct lw_fine_job *job, double *ret_end_ns)
{
	size_t n = job->n_ranks, n_ends = job->n_steps * n;
	uint32_t *arrays = calloc(N_ARRAYS * n + n_ends + 1, sizeof(*arrays));
	struct builder b = {.job = job, .dag = lw_dag_new()};
	uint32_t *ends = arrays + N_ARRAYS * n;
	int status = LW_OK;

	if (!arrays || !b.dag)
		status = lw_fail(LW_ERR_NOMEM, "no memory for a job of %zu ranks", n);
	if (status == LW_OK) {
		uint32_t **const parts[] = {&b.out, &b.in, &b.compute, &b.thread, &b.start,
			&b.computed, &b.noticed, &b.free, &b.entered, &b.done, &b.sent};

		for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
			*parts[i] = arrays + i * n;
		add_resources(&b);
		add_steps(&b, ends);
		status = lw_dag_run(b.dag);
	}
	for (size_t i = 0; status == LW_OK && i < n_ends; i++)
		ret_end_ns[i] = lw_dag_end_ns(b.dag, ends[i]);
	lw_dag_free(b.dag);
	free(arrays);
	return status;
}
