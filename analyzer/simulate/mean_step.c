/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/mean_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/fit/coarse.h"
#include "analyzer/simulate/closed.h"
#include "analyzer/simulate/fine.h"
#include "analyzer/simulate/whatif.h"
#include "base/vec.h"

enum {
	N_STEPS = 6, /* of the fine model; the first finds its place between rounds */
	MAX_OPS = 400000,
	MAX_RANKS = 32, /* in the graph; the twin holds them all, and rounds begin with its last */
};

/* ---- the mean step ------------------------------------------------------------------------------ */

/* Mean over the steps but the warm-up one; NAN: in none of them. */
static double mean_of(const int64_t *ns, size_t first, size_t stride, uint32_t n_steps)
{
	double sum_ns = 0, n = 0;

	for (uint32_t s = 1; s < n_steps; s++) {
		int64_t at_ns = ns[first + s * stride];

		if (at_ns == LW_HVD_NOT_IN_STEP)
			continue;
		sum_ns += (double)at_ns;
		n++;
	}
	return n > 0 ? sum_ns / n : (double)NAN;
}

static bool is_usual(const struct lw_hvd_input *input, uint32_t tensor)
{
	uint32_t n = 0;

	for (uint32_t s = 1; s < input->n_steps; s++)
		n += input->ready_ns[(size_t)s * input->n_ranks * input->n_tensors + tensor] !=
		     LW_HVD_NOT_IN_STEP;
	return 2 * n >= input->n_steps - 1;
}

/* N_STEPS times the mean step of @input: one block, free() it. NULL without memory. */
static struct lw_hvd_input *mean_input(const struct lw_hvd_input *input)
{
	size_t n_ranks = input->n_ranks, n_tensors = input->n_tensors, n_rows = N_STEPS * n_ranks;
	struct lw_hvd_input *mean =
		calloc(1, sizeof(*mean) + n_rows * (n_tensors + 2) * sizeof(int64_t));
	int64_t *ready_ns, *blocked_ns, *tail_ns;

	if (!mean)
		return NULL;
	ready_ns = (int64_t *)(mean + 1);
	blocked_ns = ready_ns + n_rows * n_tensors;
	tail_ns = blocked_ns + n_rows;
	for (size_t r = 0; r < n_ranks; r++) {
		for (uint32_t t = 0; t < n_tensors; t++)
			ready_ns[r * n_tensors + t] =
				is_usual(input, t)
					? llround(mean_of(input->ready_ns, r * n_tensors + t,
						  n_ranks * n_tensors, input->n_steps))
					: LW_HVD_NOT_IN_STEP;
		blocked_ns[r] = llround(mean_of(input->blocked_ns, r, n_ranks, input->n_steps));
		tail_ns[r] = llround(mean_of(input->tail_ns, r, n_ranks, input->n_steps));
	}
	for (size_t s = 1; s < N_STEPS; s++) {
		memcpy(ready_ns + s * n_ranks * n_tensors, ready_ns,
			n_ranks * n_tensors * sizeof(*ready_ns));
		memcpy(blocked_ns + s * n_ranks, blocked_ns, n_ranks * sizeof(*blocked_ns));
		memcpy(tail_ns + s * n_ranks, tail_ns, n_ranks * sizeof(*tail_ns));
	}
	*mean = *input;
	mean->n_steps = N_STEPS;
	mean->ready_ns = ready_ns;
	mean->blocked_ns = blocked_ns;
	mean->tail_ns = tail_ns;
	return mean;
}

/* ---- fine ---------------------------------------------------------------------------------------- */

struct wire {                       /* what an operation takes, to the twin as to the graph */
	const struct lw_cost *cost; /* of a run of one rank: there is no ring */
	struct lw_hop hop;
	int n_ranks;
};

static double wire_ns(const void *context, const struct lw_hvd_op *op)
{
	const struct wire *wire = context;

	return wire->n_ranks < 2 ? lw_cost_ns(wire->cost, (double)op->bytes, NULL)
				 : lw_ring_ns((double)op->bytes, wire->n_ranks, wire->hop);
}

struct watcher { /* of the twin: notes its batches as those of a graph */
	const struct lw_hvd_input *input;
	const struct wire *wire;
	lw_vec(struct lw_fine_batch) batches;
	double finish_ns_per_byte;
	double *ready_ns; /* [batch][n_ranks], room for every tensor of every step on its own */
	uint32_t n_ranks; /* in the graph */
	int64_t round_ns, agreed_ns, end_ns; /* of the batch before */
	bool is_extrapolated;
	int status;
};

static void watch(void *context, const struct lw_hvd_batch *batch)
{
	struct watcher *watcher = context;
	const struct lw_hvd_input *input = watcher->input;
	bool begins_round = watcher->batches.n == 0 || batch->agreed_ns != watcher->agreed_ns;
	double *ready_ns = watcher->ready_ns + watcher->batches.n * watcher->n_ranks;
	struct lw_fine_batch noted = {.step = batch->step,
		.begins_round = begins_round,
		.bytes = (double)batch->bytes,
		.ready_ns = ready_ns,
		.in_ns = (double)(batch->wire_start_ns -
				  (begins_round ? batch->round_ns : watcher->end_ns)),
		.out_ns = (double)(batch->end_ns - batch->wire_end_ns),
		.finish_ns = watcher->finish_ns_per_byte * (double)batch->bytes};

	/* a round that was late waits for the thread alone; else it keeps its distance */
	if (begins_round && batch->round_ns > watcher->end_ns)
		noted.since_ns = (double)(batch->round_ns - watcher->round_ns);
	if (watcher->wire->n_ranks < 2)
		noted.in_ns += (double)(batch->wire_end_ns - batch->wire_start_ns);
	for (uint32_t r = 0; r < watcher->n_ranks; r++) {
		const int64_t *of_rank = input->ready_ns + (size_t)r * input->n_tensors;

		ready_ns[r] = 0;
		for (uint32_t m = 0; m < batch->n_members; m++)
			ready_ns[r] = fmax(ready_ns[r], (double)of_rank[batch->members[m]]);
	}
	if ((double)batch->bytes < 0.99 * watcher->wire->cost->min_bytes ||
		(double)batch->bytes > 1.01 * watcher->wire->cost->max_bytes)
		watcher->is_extrapolated = true;
	watcher->round_ns = batch->round_ns;
	watcher->agreed_ns = batch->agreed_ns;
	watcher->end_ns = batch->end_ns;
	if (watcher->status == LW_OK)
		watcher->status = lw_vec_push(&watcher->batches, noted);
}

/* Mean over ranks and all steps but the first. */
static int run_graph(const struct lw_fine_job *job, double *ret_step_ns)
{
	uint32_t n = job->n_ranks;
	double *end_ns = calloc((size_t)N_STEPS * n, sizeof(*end_ns)), sum_ns = 0;
	int status = end_ns ? lw_fine_run(job, end_ns)
			    : lw_fail(LW_ERR_NOMEM, "no memory for %u ranks", n);

	for (uint32_t r = 0; status == LW_OK && r < n; r++)
		sum_ns += end_ns[(size_t)(N_STEPS - 1) * n + r] - end_ns[r];
	free(end_ns);
	*ret_step_ns = sum_ns / ((N_STEPS - 1) * (double)n);
	return status;
}

/* What the graph of the batches that the twin formed takes. */
static int fine_step(const struct lw_hvd_input *mean, const struct lw_whatif_job *job,
	const struct watcher *watcher, double *ret_step_ns)
{
	uint32_t n = watcher->n_ranks;
	struct lw_fine_job fine = {.exchange = LW_FINE_RING,
		.n_ranks = n,
		.n_ring = mean->n_ranks,
		.n_steps = N_STEPS,
		.batches = watcher->batches.at,
		.n_batches = watcher->batches.n,
		.hop = watcher->wire->hop,
		.cycle_ns = (double)job->setting.cycle_ns,
		.notice_ns = job->cost.poll_ns / 2};
	double *of_rank = calloc(2 * (size_t)n, sizeof(*of_rank));
	int status;

	if (!of_rank)
		return lw_fail(LW_ERR_NOMEM, "no memory for %u ranks", n);
	for (uint32_t r = 0; r < n; r++) {
		of_rank[r] = (double)mean->blocked_ns[r];
		of_rank[n + r] = (double)mean->tail_ns[r];
	}
	fine.compute_ns = of_rank;
	fine.tail_ns = of_rank + n;
	if (n < mean->n_ranks || lw_fine_n_ops(&fine) > MAX_OPS)
		fine.exchange = LW_FINE_COLLECTIVE;
	status = run_graph(&fine, ret_step_ns);
	free(of_rank);
	return status;
}

/* The link of the affine fit: its fixed cost is 2 (N - 1) messages, its slope 2 (N - 1) / N bytes a byte. */
static struct lw_hop fitted_hop(
	const struct lw_fit *fit, uint32_t n_ranks, const struct lw_whatif *whatif)
{
	const struct lw_fit_cost *cost = &fit->cost[LW_FIT_COST_WIRE];
	double n = n_ranks;

	if (n_ranks < 2)
		return (struct lw_hop){0, 0};
	return (struct lw_hop){whatif->latency_frac * cost->a_ns.value / (2 * (n - 1)),
		cost->b_ns_per_byte.value / (2 * (n - 1) / n) / whatif->bandwidth_frac};
}

int lw_fine_predict(const struct lw_replay *replay, const struct lw_fit *fit,
	const struct lw_whatif *whatif, struct lw_mean_step *ret_answer)
{
	struct lw_mean_step answer = {.step_ns = NAN};
	struct lw_hvd_input *mean = NULL;
	struct lw_whatif_job job = {0};
	struct watcher watcher = {.status = LW_OK};
	struct wire wire = {.cost = &fit->cost[LW_FIT_COST_WIRE].cost};
	const struct lw_hvd_observer observer = {.batch = watch, .context = &watcher};
	struct lw_hvd_input *buckets = NULL; /* of torch DDP */
	int64_t *step_ns = NULL;
	int status = lw_whatif_job(replay, whatif, &job);

	if (status == LW_OK && job.is_ddp)
		status = lw_ddp_as_buckets(&job.input, &job.ddp, &buckets);
	if (status < 0)
		goto done;
	if (buckets)
		job.input = *buckets;
	wire.n_ranks = (int)job.input.n_ranks;
	wire.hop = fitted_hop(fit, replay->input.n_ranks, whatif);
	if (!isfinite(wire.hop.latency_ns) || !isfinite(wire.hop.ns_per_byte)) {
		answer.why = lw_fit_why(replay->probe, LW_FIT_NO_SIZES);
		goto done;
	}
	if (fit->why_no_mean_step) {
		answer.why = fit->why_no_mean_step;
		goto done;
	}
	mean = mean_input(&job.input);
	watcher.input = mean;
	watcher.wire = &wire;
	watcher.n_ranks = job.input.n_ranks < MAX_RANKS ? job.input.n_ranks : MAX_RANKS;
	watcher.ready_ns = calloc(
		(size_t)N_STEPS * job.input.n_tensors * watcher.n_ranks, sizeof(*watcher.ready_ns));
	step_ns = calloc((size_t)N_STEPS * job.input.n_ranks, sizeof(*step_ns));
	if (!mean || !watcher.ready_ns || !step_ns) {
		status = lw_fail(LW_ERR_NOMEM, "no memory for a mean step");
		goto done;
	}
	watcher.finish_ns_per_byte = job.cost.finish_ns_per_byte;
	job.cost.slept_scatter = job.cost.late_scatter = (struct lw_hvd_scatter){0}; /* means */
	job.cost.wire_ns = wire_ns;
	job.cost.context = &wire;
	status = lw_hvd_sim_run(job.sim, mean, &job.setting, &job.cost, step_ns, NULL, &observer);
	if (status == LW_OK)
		status = watcher.status;
	if (status == LW_OK)
		status = fine_step(mean, &job, &watcher, &answer.step_ns);
	answer.is_extrapolated = watcher.is_extrapolated;
done:
	if (status == LW_OK)
		*ret_answer = answer;
	free(buckets);
	free(mean);
	free(step_ns);
	free(watcher.ready_ns);
	lw_vec_free(&watcher.batches);
	lw_whatif_job_done(&job);
	return status;
}

/* ---- coarse -------------------------------------------------------------------------------------- */

static double mean_over_ranks(const int64_t *ns, uint32_t n_ranks)
{
	double sum_ns = 0;

	for (uint32_t r = 0; r < n_ranks; r++)
		sum_ns += (double)ns[r];
	return sum_ns / n_ranks;
}

/* The power that explains the recorded steps, each with its own compute and the mean of the network. */
static int recorded_power(const struct lw_replay *replay, double comm_ns, double *ret_power)
{
	uint32_t n = replay->n_steps, n_ranks = replay->input.n_ranks;
	double *compute_ns = calloc(3 * (size_t)n, sizeof(*compute_ns));
	double *network_ns = compute_ns + n, *step_ns = compute_ns + 2 * (size_t)n;

	if (!compute_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory for %u steps", n);
	for (uint32_t s = 0; s < n; s++) {
		size_t row = (size_t)(s + 1) * n_ranks;
		double tail_ns = mean_over_ranks(replay->tail_ns + row, n_ranks);

		compute_ns[s] = fmax(mean_over_ranks(replay->blocked_ns + row, n_ranks), 1);
		network_ns[s] = comm_ns;
		step_ns[s] = fmax(replay->recorded_step_ns[s] - tail_ns, 1);
	}
	*ret_power = lw_pnorm_fit_power(compute_ns, network_ns, step_ns, n);
	free(compute_ns);
	return LW_OK;
}

int lw_coarse_predict(const struct lw_replay *replay, const struct lw_fit *fit,
	const struct lw_whatif *whatif, struct lw_mean_step *ret_answer)
{
	struct lw_mean_step answer = {.step_ns = NAN};
	double comm_ns = fit->figure[LW_FIT_COMM_NS].value, recorded_ns = 0, asked_ns = 0,
	       power = 1;
	double compute_ns = 0, tail_ns = 0;
	struct lw_whatif_job job = {0};
	bool ignored;
	int status = lw_whatif_job(replay, whatif, &job);

	if (status == LW_OK)
		status = lw_closed_comm(replay, fit, &LW_WHATIF_RECORDED, &recorded_ns, &ignored);
	if (status == LW_OK)
		status = lw_closed_comm(replay, fit, whatif, &asked_ns, &answer.is_extrapolated);
	if (status == LW_OK)
		status = recorded_power(replay, comm_ns, &power);
	if (status < 0)
		goto done;
	for (uint32_t s = 1; s < job.input.n_steps; s++) {
		size_t row = (size_t)s * job.input.n_ranks;

		compute_ns += mean_over_ranks(job.input.blocked_ns + row, job.input.n_ranks);
		tail_ns += mean_over_ranks(job.input.tail_ns + row, job.input.n_ranks);
	}
	compute_ns /= job.input.n_steps - 1;
	tail_ns /= job.input.n_steps - 1;
	/* what was recorded needs no ratio; without one nothing else can be said */
	if (!lw_whatif_is_recorded(replay, whatif) && recorded_ns != 0)
		comm_ns *= asked_ns / recorded_ns;
	answer.step_ns = lw_pnorm(compute_ns, comm_ns, power) + tail_ns;
	if (isnan(answer.step_ns) || isnan(comm_ns))
		answer = (struct lw_mean_step){.step_ns = NAN,
			.why = lw_closed_unknown(whatif) ? lw_closed_unknown(whatif)
			       : fit->why_no_mean_step
				       ? fit->why_no_mean_step
				       : lw_fit_why(replay->probe, LW_FIT_NO_MODEL)};
	*ret_answer = answer;
done:
	lw_whatif_job_done(&job);
	return status;
}
