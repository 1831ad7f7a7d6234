/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/collect.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"

enum { MAX_BLOCKS = 200, NOT_COUNTED = -1 };

struct collecting {
	const struct lw_run *run;
	struct lw_collected *into;
	int32_t *block_of_step; /* NOT_COUNTED */
	size_t n_run_steps;
	lw_vec(struct lw_sample) lists[LW_FIT_N_COSTS];
};

/* A step counts when it does on every rank: the same index is the same iteration. */
static bool is_counted(const struct lw_run *run, size_t step)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		if (step >= rank->steps.n || rank->steps.at[step].excluded)
			return false;
	}
	return run->ranks.n > 0;
}

static int32_t block_of(const struct collecting *c, int32_t step)
{
	if (step < 0 || (size_t)step >= c->n_run_steps)
		return NOT_COUNTED;
	return c->block_of_step[step];
}

/* Neighbouring steps share a block only in runs with more steps than blocks. */
static int assign_blocks(struct collecting *c)
{
	const struct lw_run *run = c->run;
	size_t n_counted = 0, n_per_block, place = 0;

	c->n_run_steps = run->ranks.n ? run->ranks.at[0].steps.n : 0;
	c->block_of_step = calloc(c->n_run_steps + 1, sizeof(*c->block_of_step));
	if (!c->block_of_step)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu steps", c->n_run_steps);
	for (size_t s = 0; s < c->n_run_steps; s++)
		n_counted += is_counted(run, s);
	if (n_counted == 0)
		return lw_fail(LW_ERR_LIMIT, "no step of the run counts on all its ranks: nothing "
					     "to fit, record more steps");
	n_per_block = (n_counted + MAX_BLOCKS - 1) / MAX_BLOCKS;
	for (size_t s = 0; s < c->n_run_steps; s++) {
		c->block_of_step[s] = NOT_COUNTED;
		if (is_counted(run, s))
			c->block_of_step[s] = (int32_t)(place++ / n_per_block);
	}
	c->into->n_steps = n_counted;
	c->into->n_blocks = (n_counted + n_per_block - 1) / n_per_block;
	c->into->n_ranks = run->ranks.n;
	c->into->n_tensors = run->tensors.n;
	return LW_OK;
}

static int add_sample(
	struct collecting *c, enum lw_fit_cost_kind kind, uint64_t bytes, double ns, int32_t block)
{
	struct lw_sample sample = {(double)bytes, ns, (uint32_t)block};

	return bytes > 0 && ns >= 0 ? lw_vec_push(&c->lists[kind], sample) : LW_OK;
}

/* ---- steps: lengths and ready times ------------------------------------------------------------ */

/* When the gradient was there: on the device's own clock where that is known, else when it was queued. */
static int64_t computed_ns(const struct lw_rank *rank, const struct lw_member *member)
{
	return lw_gpu_has(rank) && member->computed_ns != LW_NS_UNKNOWN ? member->computed_ns
									: member->ready_ns;
}

/* First and last of the gradients of @step; both LW_NS_UNKNOWN: none is known. */
static struct lw_interval backward_of(const struct lw_rank *rank, const struct lw_step *step)
{
	struct lw_interval span = {LW_NS_UNKNOWN, LW_NS_UNKNOWN};

	if (!lw_gpu_has(rank))
		return (struct lw_interval){step->first_ready_ns, step->last_ready_ns};
	for (uint32_t b = 0; b < step->n_batches; b++) {
		const struct lw_batch *batch = &rank->batches.at[step->first_batch + b];

		for (uint32_t m = 0; m < batch->n_members && batch->op == LW_COLL_ALLREDUCE; m++) {
			int64_t at_ns =
				computed_ns(rank, &rank->members.at[batch->first_member + m]);

			if (at_ns == LW_NS_UNKNOWN)
				continue;
			if (span.start_ns == LW_NS_UNKNOWN || at_ns < span.start_ns)
				span.start_ns = at_ns;
			if (at_ns > span.end_ns)
				span.end_ns = at_ns;
		}
	}
	return span;
}

/* Ready times of the tensors that this step sent, against the first of them. */
static void take_ready(struct collecting *c, const struct lw_rank *rank, const struct lw_step *step,
	int64_t first_ns, struct lw_tensor_sum *sums)
{
	for (uint32_t b = 0; b < step->n_batches; b++) {
		const struct lw_batch *batch = &rank->batches.at[step->first_batch + b];

		if (batch->op != LW_COLL_ALLREDUCE)
			continue;
		for (uint32_t m = 0; m < batch->n_members; m++) {
			const struct lw_member *member = &rank->members.at[batch->first_member + m];
			int64_t at_ns = computed_ns(rank, member);

			if ((double)member->bytes > c->into->tensor_bytes[member->tensor])
				c->into->tensor_bytes[member->tensor] = (double)member->bytes;
			if (at_ns == LW_NS_UNKNOWN)
				continue;
			sums[member->tensor].n++;
			sums[member->tensor].after_first_ns += (double)(at_ns - first_ns);
		}
	}
}

static int64_t last_allreduce_end(const struct lw_rank *rank, const struct lw_step *step)
{
	int64_t last_ns = LW_NS_UNKNOWN;

	for (uint32_t b = 0; b < step->n_batches; b++) {
		const struct lw_batch *batch = &rank->batches.at[step->first_batch + b];
		int64_t end_ns =
			batch->wire_end_ns != LW_NS_UNKNOWN ? batch->wire_end_ns : batch->end_ns;

		if (batch->op == LW_COLL_ALLREDUCE && end_ns > last_ns)
			last_ns = end_ns;
	}
	return last_ns;
}

static void take_step(struct collecting *c, const struct lw_rank *rank, size_t s)
{
	const struct lw_step *step = &rank->steps.at[s];
	size_t b = (size_t)c->block_of_step[s];
	struct lw_block *block = &c->into->blocks[b];
	struct lw_interval backward = backward_of(rank, step);
	int64_t done_ns = step->blocked_ns, end_ns;

	block->n_rank_steps++;
	block->step_ns += (double)(step->end_ns - step->start_ns);
	/* Where no wait was seen, computing ends with the last gradient. On a GPU an optimizer computes behind it, and the
	 * host's delays leave gaps that no network fills: all that is no exposed communication. */
	if (done_ns == LW_NS_UNKNOWN)
		done_ns = step->last_ready_ns;
	if (lw_gpu_has(rank) && step->exposed_ns != LW_NS_UNKNOWN)
		done_ns = step->end_ns - step->exposed_ns;
	if (done_ns != LW_NS_UNKNOWN) {
		block->n_compute++;
		block->compute_ns += (double)(done_ns - step->start_ns);
	}
	if (backward.start_ns == LW_NS_UNKNOWN || backward.end_ns == LW_NS_UNKNOWN)
		return;
	block->n_ready++;
	block->forward_ns += (double)(backward.start_ns - step->start_ns);
	block->overlap_ns += (double)(backward.end_ns - backward.start_ns);
	take_ready(c, rank, step, backward.start_ns, &c->into->tensor_sums[b * c->into->n_tensors]);
	end_ns = last_allreduce_end(rank, step);
	if (end_ns != LW_NS_UNKNOWN) {
		block->n_update++;
		block->update_ns += (double)(end_ns - backward.start_ns);
	}
}

/* ---- operations -------------------------------------------------------------------------------- */

/* A round that agreed this group: from the last rank's entry to when the ranks knew, their mean. */
static void take_round(
	const struct lw_run *run, const struct lw_group *group, struct lw_block *block)
{
	double sum_ns = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);

		if (batch->agreed_ns == LW_NS_UNKNOWN || batch->agreed_ns < group->round_ns)
			return;
		sum_ns += (double)(batch->agreed_ns - group->round_ns);
	}
	block->n_rounds++;
	block->round_ns += sum_ns / (double)run->ranks.n;
}

static const enum lw_fit_cost_kind none = LW_FIT_N_COSTS;

static enum lw_fit_cost_kind kind_of(int op)
{
	switch (op) {
	case LW_COLL_ALLREDUCE:
		return LW_FIT_COST_WIRE;
	case LW_COLL_ALLGATHER:
		return LW_FIT_COST_ALLGATHER;
	case LW_COLL_BROADCAST:
		return LW_FIT_COST_BROADCAST;
	case LW_COLL_ALLTOALL:
		return LW_FIT_COST_ALLTOALL;
	case LW_COLL_REDUCESCATTER:
		return LW_FIT_COST_REDUCESCATTER;
	default:
		return none;
	}
}

bool lw_fit_has_costs(const struct lw_run *run)
{
	return !run->n_missing_ranks || !run->is_plain; /* a framework agrees before */
}

/* What the models of a step do not know of. */
static void take_other(struct collecting *c, const struct lw_group *group, bool is_one_clock)
{
	for (size_t r = 0; r < c->run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(c->run, group, r);

		if (!batch)
			continue;
		if (block_of(c, batch->step) != NOT_COUNTED)
			c->into->other_ns += lw_group_service_ns(c->run, group, is_one_clock);
		return;
	}
}

/* The wire before an operation is idle since the latest end of all that began earlier. */
static int take_groups(struct collecting *c)
{
	const struct lw_run *run = c->run;
	bool one_clock = lw_run_is_one_clock(run);
	int64_t free_ns = INT64_MIN, round_ns = LW_NS_UNKNOWN;
	const struct lw_group *group;
	int status = LW_OK;

	lw_vec_foreach (group, &run->groups) {
		bool is_queued =
			free_ns != INT64_MIN && group->last_start_ns <= free_ns + LW_FIT_IDLE_NS;
		enum lw_fit_cost_kind kind = kind_of(group->op);
		struct lw_block *block;
		int32_t b;
		double ns;

		if (group->last_end_ns > free_ns)
			free_ns = group->last_end_ns;
		if (kind != LW_FIT_COST_WIRE || group->n_ranks != run->ranks.n)
			take_other(c, group, one_clock);
		if (kind == none)
			continue;
		if (group->n_ranks != run->ranks.n) {
			c->into->n_partial += kind == LW_FIT_COST_WIRE;
			continue;
		}
		b = block_of(c, lw_group_batch(run, group, 0)->step);
		ns = lw_group_service_ns(run, group, one_clock);
		if (b == NOT_COUNTED || ns <= 0)
			continue;
		if (kind != LW_FIT_COST_WIRE) {
			status = add_sample(c, kind, group->bytes, ns, b);
			if (status < 0)
				return status;
			continue;
		}
		block = &c->into->blocks[b];
		c->into->is_unsized |= lw_group_is_unsized(run, group);
		block->n_batches++;
		block->comm_ns += ns;
		block->comm_bytes += (double)group->bytes;
		c->into->n_groups++;
		if (one_clock && group->round_ns != LW_NS_UNKNOWN && group->round_ns != round_ns)
			take_round(run, group, block);
		round_ns = group->round_ns;
		status = add_sample(c, LW_FIT_COST_WIRE, group->bytes, ns, b);
		if (status == LW_OK)
			status = add_sample(c, is_queued ? LW_FIT_COST_QUEUED : LW_FIT_COST_FIRST,
				group->bytes, ns, b);
		if (status < 0)
			return status;
	}
	return LW_OK;
}

/* Of the probe: all back to back ones; and for the wire, sizes that no step sent. After take_groups().
 * Its bursts are dealt out to the blocks, so that they are resampled too. */
static int take_probes(struct collecting *c)
{
	double min_bytes = INFINITY, max_bytes = 0;
	const struct lw_probe_op *op;
	const struct lw_sample *sample;
	int status = LW_OK;

	lw_vec_foreach (sample, &c->lists[LW_FIT_COST_WIRE]) {
		min_bytes = fmin(min_bytes, sample->bytes);
		max_bytes = fmax(max_bytes, sample->bytes);
	}
	lw_vec_foreach (op, &c->run->probes) {
		double ns = (double)(op->last_end_ns - op->last_start_ns);
		int32_t b = (int32_t)(op->burst % c->into->n_blocks);

		if (op->nth_in_burst == 0 || op->op != LW_COLL_ALLREDUCE || ns <= 0)
			continue;
		if (status == LW_OK)
			status = add_sample(c, LW_FIT_COST_PROBE, op->bytes, ns, b);
		if (status == LW_OK && max_bytes > 0 &&
			((double)op->bytes < min_bytes || (double)op->bytes > max_bytes))
			status = add_sample(c, LW_FIT_COST_WIRE, op->bytes, ns, b);
	}
	return status;
}

/* What an operation takes before and after its wire: copies, set-up. */
static int take_copies(struct collecting *c, const struct lw_rank *rank)
{
	const struct lw_batch *batch;
	int status = LW_OK;

	lw_vec_foreach (batch, &rank->batches) {
		bool is_fused = batch->n_members > 1;
		int32_t b = block_of(c, batch->step);

		if (b == NOT_COUNTED || batch->op != LW_COLL_ALLREDUCE ||
			batch->wire_start_ns == LW_NS_UNKNOWN ||
			batch->wire_end_ns == LW_NS_UNKNOWN)
			continue;
		status = add_sample(c, is_fused ? LW_FIT_COST_COPY_IN : LW_FIT_COST_SINGLE_IN,
			batch->bytes,
			(double)(batch->wire_start_ns - lw_batch_there_ns(rank, batch)), b);
		if (status == LW_OK)
			status = add_sample(c,
				is_fused ? LW_FIT_COST_COPY_OUT : LW_FIT_COST_SINGLE_OUT,
				batch->bytes, (double)(batch->end_ns - batch->wire_end_ns), b);
		if (status < 0)
			return status;
	}
	return LW_OK;
}

/* Rounds that changed nothing, in the block of the step in which their record was written. */
static void take_idle_rounds(struct collecting *c, size_t r)
{
	const struct lw_rank *rank = &c->run->ranks.at[r];
	const struct lw_cycle *cycle;
	size_t s = 0;

	lw_vec_foreach (cycle, &rank->cycles) {
		struct lw_idle_rounds *rounds;
		int32_t b;

		while (s < rank->steps.n && rank->steps.at[s].end_ns <= cycle->start_ns)
			s++;
		b = s < rank->steps.n && rank->steps.at[s].start_ns <= cycle->start_ns
			    ? block_of(c, (int32_t)s)
			    : NOT_COUNTED;
		if (b == NOT_COUNTED || cycle->op != LW_CYCLE_AND || cycle->n_unchanged == 0)
			continue;
		rounds = &c->into->idle_rounds[(size_t)b * c->into->n_ranks + r];
		rounds->n += cycle->n_unchanged;
		rounds->sum_ns += (double)cycle->unchanged_ns;
	}
}

static int collect_all(struct collecting *c)
{
	struct lw_collected *into = c->into;
	int status = assign_blocks(c);

	if (status < 0)
		return status;
	into->blocks = calloc(into->n_blocks, sizeof(*into->blocks));
	into->tensor_sums =
		calloc(into->n_blocks * into->n_tensors + 1, sizeof(*into->tensor_sums));
	into->tensor_bytes = calloc(into->n_tensors + 1, sizeof(*into->tensor_bytes));
	into->idle_rounds = calloc(into->n_blocks * into->n_ranks, sizeof(*into->idle_rounds));
	if (!into->blocks || !into->tensor_sums || !into->tensor_bytes || !into->idle_rounds)
		return lw_fail(LW_ERR_NOMEM, "no memory to fit %zu steps", into->n_steps);
	for (size_t s = 0; s < c->n_run_steps; s++)
		if (c->block_of_step[s] != NOT_COUNTED)
			into->blocks[c->block_of_step[s]].n_steps++;
	for (size_t r = 0; r < into->n_ranks && status == LW_OK; r++) {
		const struct lw_rank *rank = &c->run->ranks.at[r];

		for (size_t s = 0; s < c->n_run_steps; s++)
			if (c->block_of_step[s] != NOT_COUNTED)
				take_step(c, rank, s);
		take_idle_rounds(c, r);
		status = take_copies(c, rank);
	}
	if (status == LW_OK && lw_fit_has_costs(c->run))
		status = take_groups(c);
	if (status == LW_OK)
		status = take_probes(c);
	for (size_t k = 0; k < LW_FIT_N_COSTS && status == LW_OK; k++)
		status = lw_samples_init(&into->samples[k], c->lists[k].at, c->lists[k].n);
	return status;
}

int lw_fit_collect(const struct lw_run *run, struct lw_collected *ret_collected)
{
	struct lw_collected collected = {0};
	struct collecting c = {.run = run, .into = &collected};
	int status = collect_all(&c);

	free(c.block_of_step);
	for (size_t k = 0; k < LW_FIT_N_COSTS; k++)
		lw_vec_free(&c.lists[k]);
	if (status < 0)
		lw_collected_done(&collected);
	else
		*ret_collected = collected;
	return status;
}

void lw_collected_done(struct lw_collected *collected)
{
	free(collected->blocks);
	free(collected->tensor_sums);
	free(collected->tensor_bytes);
	free(collected->idle_rounds);
	for (size_t k = 0; k < LW_FIT_N_COSTS; k++)
		lw_samples_done(&collected->samples[k]);
	*collected = (struct lw_collected){0};
}
