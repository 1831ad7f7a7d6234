/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/dag.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/vec.h"

/* A flow with less than this left is over: sums of shares do not hit zero. */
static const double OVER_FRAC = 1e-12, OVER_NS = 1e-6;

struct op {
	uint32_t resource, other; /* other: second link of a flow, LW_DAG_NONE */
	uint32_t n_before;        /* operations that it still waits for */
	uint32_t next;            /* in the queue of a FIFO */
	double work, left;        /* left: of a flow, bytes */
	double rate;              /* of an active flow, bytes per ns */
	double end_ns;
};

struct edge {
	uint32_t before, after;
};

struct resource {
	enum lw_dag_kind kind;
	double figure;
	uint32_t n_active;   /* flows; 1 = a busy FIFO */
	uint32_t head, tail; /* who waits for a FIFO */
};

struct timed {
	double at_ns;
	uint32_t op;
};

struct lw_dag {
	lw_vec(struct op) ops;
	lw_vec(struct edge) edges;
	lw_vec(struct resource) resources;
	int status;
	/* while it runs */
	double now_ns;
	uint32_t *after_at, *after; /* who waits for op i: after[after_at[i] .. after_at[i + 1]) */
	uint32_t *ready;            /* to begin now */
	uint32_t *active;           /* flows */
	struct timed *heap;         /* what ends at a known time, a binary heap */
	size_t n_ready, n_active, n_heap, n_ended;
};

struct lw_dag *lw_dag_new(void)
{
	return calloc(1, sizeof(struct lw_dag));
}

static void scratch_free(struct lw_dag *dag)
{
	free(dag->after_at);
	free(dag->after);
	free(dag->ready);
	free(dag->active);
	free(dag->heap);
	dag->after_at = dag->after = dag->ready = dag->active = NULL;
	dag->heap = NULL;
}

void lw_dag_free(struct lw_dag *dag)
{
	if (!dag)
		return;
	lw_vec_free(&dag->ops);
	lw_vec_free(&dag->edges);
	lw_vec_free(&dag->resources);
	scratch_free(dag);
	free(dag);
}

uint32_t lw_dag_resource(struct lw_dag *dag, enum lw_dag_kind kind, double figure)
{
	struct resource resource = {kind, figure, 0, LW_DAG_NONE, LW_DAG_NONE};

	if (lw_vec_push(&dag->resources, resource) < 0)
		dag->status = LW_ERR_NOMEM;
	return (uint32_t)dag->resources.n - 1;
}

uint32_t lw_dag_flow(struct lw_dag *dag, uint32_t out_link, uint32_t in_link, double bytes)
{
	struct op op = {.resource = out_link, .other = in_link, .next = LW_DAG_NONE, .work = bytes};

	if (lw_vec_push(&dag->ops, op) < 0)
		dag->status = LW_ERR_NOMEM;
	return (uint32_t)dag->ops.n - 1;
}

uint32_t lw_dag_op(struct lw_dag *dag, uint32_t resource, double work)
{
	return lw_dag_flow(dag, resource, LW_DAG_NONE, work);
}

void lw_dag_after(struct lw_dag *dag, uint32_t op, uint32_t before)
{
	struct edge edge = {before, op};

	if (before != LW_DAG_NONE && lw_vec_push(&dag->edges, edge) < 0)
		dag->status = LW_ERR_NOMEM;
}

uint32_t lw_dag_n(const struct lw_dag *dag)
{
	return (uint32_t)dag->ops.n;
}

double lw_dag_end_ns(const struct lw_dag *dag, uint32_t op)
{
	return dag->ops.at[op].end_ns;
}

double lw_dag_makespan_ns(const struct lw_dag *dag)
{
	double last_ns = 0;

	for (size_t i = 0; i < dag->ops.n; i++)
		last_ns = fmax(last_ns, dag->ops.at[i].end_ns);
	return last_ns;
}

/* ---- a heap by time, then by number ------------------------------------------------------------- */

static bool is_sooner(const struct timed *a, const struct timed *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->op < b->op;
}

static void heap_push(struct lw_dag *dag, double at_ns, uint32_t op)
{
	struct timed timed = {at_ns, op};
	size_t i = dag->n_heap++;

	for (; i > 0 && is_sooner(&timed, &dag->heap[(i - 1) / 2]); i = (i - 1) / 2)
		dag->heap[i] = dag->heap[(i - 1) / 2];
	dag->heap[i] = timed;
}

static uint32_t heap_pop(struct lw_dag *dag)
{
	uint32_t first = dag->heap[0].op;
	struct timed last = dag->heap[--dag->n_heap];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < dag->n_heap; i = child) {
		if (child + 1 < dag->n_heap && is_sooner(&dag->heap[child + 1], &dag->heap[child]))
			child++;
		if (!is_sooner(&dag->heap[child], &last))
			break;
		dag->heap[i] = dag->heap[child];
	}
	dag->heap[i] = last;
	return first;
}

/* ---- running ------------------------------------------------------------------------------------- */

static void fifo_serve(struct lw_dag *dag, struct resource *fifo, uint32_t op)
{
	fifo->n_active = 1;
	heap_push(dag, dag->now_ns + dag->ops.at[op].work, op);
}

static void fifo_append(struct lw_dag *dag, struct resource *fifo, uint32_t op)
{
	if (fifo->head == LW_DAG_NONE)
		fifo->head = op;
	else
		dag->ops.at[fifo->tail].next = op;
	fifo->tail = op;
}

static void begin(struct lw_dag *dag, uint32_t number)
{
	struct op *op = &dag->ops.at[number];
	struct resource *resource = &dag->resources.at[op->resource];
	double tick_ns = dag->now_ns;

	switch (resource->kind) {
	case LW_DAG_DELAY:
		heap_push(dag, dag->now_ns + op->work, number);
		return;
	case LW_DAG_FIFO:
		if (resource->n_active)
			fifo_append(dag, resource, number);
		else
			fifo_serve(dag, resource, number);
		return;
	case LW_DAG_TICK:
		if (resource->figure > 0)
			tick_ns = ceil(dag->now_ns / resource->figure) * resource->figure;
		heap_push(dag, tick_ns + op->work, number);
		return;
	case LW_DAG_LINK:
		op->left = op->work;
		resource->n_active++;
		if (op->other != LW_DAG_NONE)
			dag->resources.at[op->other].n_active++;
		dag->active[dag->n_active++] = number;
		return;
	}
}

static void end(struct lw_dag *dag, uint32_t number)
{
	struct op *op = &dag->ops.at[number];
	struct resource *resource = &dag->resources.at[op->resource];

	op->end_ns = dag->now_ns;
	dag->n_ended++;
	if (resource->kind == LW_DAG_LINK) {
		resource->n_active--;
		if (op->other != LW_DAG_NONE)
			dag->resources.at[op->other].n_active--;
	} else if (resource->kind == LW_DAG_FIFO) {
		uint32_t next = resource->head;

		resource->n_active = 0;
		if (next != LW_DAG_NONE) {
			resource->head = dag->ops.at[next].next;
			fifo_serve(dag, resource, next);
		}
	}
	for (uint32_t i = dag->after_at[number]; i < dag->after_at[number + 1]; i++)
		if (--dag->ops.at[dag->after[i]].n_before == 0)
			dag->ready[dag->n_ready++] = dag->after[i];
}

static double share(const struct resource *link)
{
	return link->figure / link->n_active;
}

/* How long until the first active flow is over; INFINITY without one. */
static double flows_ns(struct lw_dag *dag)
{
	double least_ns = INFINITY;

	for (size_t i = 0; i < dag->n_active; i++) {
		struct op *op = &dag->ops.at[dag->active[i]];

		op->rate = share(&dag->resources.at[op->resource]);
		if (op->other != LW_DAG_NONE)
			op->rate = fmin(op->rate, share(&dag->resources.at[op->other]));
		least_ns = fmin(least_ns, op->left / op->rate);
	}
	return least_ns;
}

static int ascending(const void *left, const void *right)
{
	const uint32_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* Flows go on for @passed_ns; those that are over end. @is_first: at least one is, whatever is left. */
static void flow(struct lw_dag *dag, double passed_ns, double first_ns)
{
	size_t n = dag->n_active;

	dag->n_active = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t number = dag->active[i];
		struct op *op = &dag->ops.at[number];
		bool is_over = op->left / op->rate <= first_ns && first_ns <= passed_ns;

		op->left -= op->rate * passed_ns;
		if (is_over || op->left <= OVER_FRAC * op->work + OVER_NS * op->rate)
			end(dag, number);
		else
			dag->active[dag->n_active++] = number;
	}
}

static void advance(struct lw_dag *dag)
{
	double first_ns = flows_ns(dag), passed_ns = first_ns;

	if (dag->n_heap > 0 && dag->heap[0].at_ns - dag->now_ns < passed_ns)
		passed_ns = dag->heap[0].at_ns - dag->now_ns;
	/* the heap's own time, not now + the difference, which rounds */
	dag->now_ns = passed_ns < first_ns ? dag->heap[0].at_ns : dag->now_ns + passed_ns;
	flow(dag, passed_ns, first_ns);
	while (dag->n_heap > 0 && dag->heap[0].at_ns <= dag->now_ns)
		end(dag, heap_pop(dag));
	qsort(dag->ready, dag->n_ready, sizeof(*dag->ready), ascending);
}

static int prepare(struct lw_dag *dag)
{
	size_t n = dag->ops.n;
	struct edge *edge;

	dag->after_at = calloc(n + 2, sizeof(*dag->after_at));
	dag->after = calloc(dag->edges.n + 1, sizeof(*dag->after));
	dag->ready = calloc(n + 1, sizeof(*dag->ready));
	dag->active = calloc(n + 1, sizeof(*dag->active));
	dag->heap = calloc(n + 1, sizeof(*dag->heap));
	if (dag->status < 0 || !dag->after_at || !dag->after || !dag->ready || !dag->active ||
		!dag->heap)
		return lw_fail(LW_ERR_NOMEM, "no memory for a graph of %zu operations", n);
	/* counted one place ahead, so that filling moves each start to where it belongs */
	lw_vec_foreach (edge, &dag->edges) {
		dag->after_at[edge->before + 2]++;
		dag->ops.at[edge->after].n_before++;
	}
	for (size_t i = 1; i <= n; i++)
		dag->after_at[i + 1] += dag->after_at[i];
	lw_vec_foreach (edge, &dag->edges)
		dag->after[dag->after_at[edge->before + 1]++] = edge->after;
	for (uint32_t i = 0; i < n; i++)
		if (dag->ops.at[i].n_before == 0)
			dag->ready[dag->n_ready++] = i;
	return LW_OK;
}

int lw_dag_run(struct lw_dag *dag)
{
	int status = prepare(dag);

	while (status == LW_OK) {
		size_t n = dag->n_ready;

		dag->n_ready =
			0; /* what begins here ends later: nothing joins the list meanwhile */
		for (size_t i = 0; i < n; i++)
			begin(dag, dag->ready[i]);
		if (dag->n_active == 0 && dag->n_heap == 0)
			break;
		advance(dag);
	}
	if (status == LW_OK && dag->n_ended < dag->ops.n)
		status = lw_fail(LW_ERR_STATE, "%zu operations wait for each other in a circle",
			dag->ops.n - dag->n_ended);
	scratch_free(dag);
	return status;
}
