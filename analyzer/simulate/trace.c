/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/stats.h"
#include "analyzer/simulate/whatif.h"
#include "base/err.h"

struct tracing {
	struct lw_trace *trace;
	uint32_t step; /* of the input: one more than the replay's, the first one warms up */
	int status;
};

static void add_op(struct tracing *t, struct lw_trace_op op)
{
	if (lw_vec_push(&t->trace->ops, op) < 0)
		t->status = LW_ERR_NOMEM;
}

static void take_batch(void *context, const struct lw_hvd_batch *batch)
{
	struct tracing *t = context;

	if (batch->step == t->step)
		add_op(t, (struct lw_trace_op){batch->bytes, batch->n_members, batch->start_ns,
				  batch->wire_start_ns, batch->wire_end_ns, batch->end_ns});
}

static void take_op(void *context, const struct lw_ddp_op *op)
{
	struct tracing *t = context;
	int64_t start_ns = op->start_ns[0];

	if (op->step != t->step)
		return;
	for (uint32_t r = 1; r < t->trace->n_ranks; r++)
		if (op->start_ns[r] > start_ns)
			start_ns = op->start_ns[r];
	add_op(t, (struct lw_trace_op){op->bytes, 0, start_ns, start_ns, op->end_ns, op->end_ns});
}

static void take_step(void *context, uint32_t step, const int64_t *start_ns,
	const int64_t *blocked_ns, const int64_t *resumed_ns, const int64_t *end_ns)
{
	struct tracing *t = context;

	if (step != t->step)
		return;
	for (uint32_t r = 0; r < t->trace->n_ranks; r++)
		t->trace->ranks[r] = (struct lw_trace_rank){
			start_ns[r], blocked_ns[r], resumed_ns[r], end_ns[r]};
}

static int run(struct lw_whatif_job *job, struct tracing *t)
{
	const struct lw_hvd_observer hvd = {take_batch, take_step, t};
	const struct lw_ddp_observer ddp = {take_op, take_step, t};

	job->cost.wire_ns = job->ddp_cost.wire_ns = lw_wire_ns;
	job->cost.context = job->ddp_cost.context = &job->wire;
	if (job->is_ddp)
		return lw_ddp_sim_run(&job->input, &job->ddp, &job->ddp_cost, job->step_ns, NULL,
			t ? &ddp : NULL);
	return lw_hvd_sim_run(job->sim, &job->input, &job->setting, &job->cost, job->step_ns, NULL,
		t ? &hvd : NULL);
}

static double length_ns(const struct lw_whatif_job *job, uint32_t step)
{
	double sum_ns = 0;

	for (uint32_t r = 0; r < job->input.n_ranks; r++)
		sum_ns += (double)job->step_ns[(size_t)step * job->input.n_ranks + r];
	return sum_ns / job->input.n_ranks;
}

static double middle_of(const double *ns, double *scratch, uint32_t n)
{
	memcpy(scratch, ns, n * sizeof(*scratch));
	return lw_stats_middle(scratch, n);
}

uint32_t lw_trace_ordinary(const double *base_ns, const double *other_ns, uint32_t n)
{
	double *scratch = malloc((n + 1) * sizeof(*scratch)), base, other, least = INFINITY;
	uint32_t nearest = 0;

	if (!scratch)
		return 0;
	base = middle_of(base_ns, scratch, n);
	other = middle_of(other_ns, scratch, n);
	free(scratch);
	for (uint32_t s = 0; s < n; s++) {
		double off = fmax(fabs(base_ns[s] / base - 1), fabs(other_ns[s] / other - 1));

		if (off < least) {
			least = off;
			nearest = s;
		}
	}
	return nearest;
}

static int by_start(const void *a, const void *b)
{
	const struct lw_trace_op *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Times from the beginning of the job to that of the step. */
static void shift(struct lw_trace *trace)
{
	int64_t first_ns = trace->ranks[0].start_ns;

	for (uint32_t r = 1; r < trace->n_ranks; r++)
		if (trace->ranks[r].start_ns < first_ns)
			first_ns = trace->ranks[r].start_ns;
	for (uint32_t r = 0; r < trace->n_ranks; r++) {
		trace->ranks[r].start_ns -= first_ns;
		trace->ranks[r].blocked_ns -= first_ns;
		trace->ranks[r].resumed_ns -= first_ns;
		trace->ranks[r].end_ns -= first_ns;
	}
	for (size_t i = 0; i < trace->ops.n; i++) {
		trace->ops.at[i].start_ns -= first_ns;
		trace->ops.at[i].wire_start_ns -= first_ns;
		trace->ops.at[i].wire_end_ns -= first_ns;
		trace->ops.at[i].end_ns -= first_ns;
	}
}

int lw_replay_trace(struct lw_replay *replay, const struct lw_whatif *whatif, uint32_t step,
	struct lw_trace *ret_trace)
{
	struct lw_whatif_job job = {0};
	struct tracing t = {.trace = ret_trace};
	int status = lw_whatif_job(replay, whatif, &job);

	*ret_trace = (struct lw_trace){.n_ranks = job.input.n_ranks,
		.n_passes = whatif->backward_passes > 1 ? whatif->backward_passes : 1};
	if (status == LW_OK)
		status = run(&job, NULL);
	if (status < 0)
		goto done;
	if (step + 1 >= job.input.n_steps) {
		status = lw_fail(LW_ERR_UNSUPPORTED, "step %u is not replayed: %u are", step,
			job.input.n_steps - 1);
		goto done;
	}
	t.step = step + 1;
	ret_trace->ranks = calloc(ret_trace->n_ranks, sizeof(*ret_trace->ranks));
	if (!ret_trace->ranks) {
		status = lw_fail(LW_ERR_NOMEM, "no memory to trace a step");
		goto done;
	}
	ret_trace->step = t.step - 1;
	ret_trace->length_ns = length_ns(&job, t.step);
	job.input.n_steps = t.step + 1; /* those that follow change nothing */
	status = run(&job, &t);
	if (status == LW_OK)
		status = t.status;
	if (status == LW_OK) {
		shift(ret_trace);
		if (ret_trace->ops.n)
			qsort(ret_trace->ops.at, ret_trace->ops.n, sizeof(*ret_trace->ops.at),
				by_start);
	}
done:
	if (status < 0)
		lw_trace_done(ret_trace);
	lw_whatif_job_done(&job);
	return status;
}

void lw_trace_done(struct lw_trace *trace)
{
	free(trace->ranks);
	lw_vec_free(&trace->ops);
	trace->ranks = NULL;
	trace->n_ranks = 0;
}
