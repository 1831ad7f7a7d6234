/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/hvd_cycle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/fit/fit.h"
#include "analyzer/simulate/hvd_state.h"
#include "base/err.h"

enum { MIN_PERIOD_NS = 1000 }; /* a loop with cycle time 0 cannot turn faster than this */

void lw_hvd_sim_free(struct lw_hvd_sim *sim)
{
	if (!sim)
		return;
	free(sim->start_ns);
	free(sim->last_ready_ns);
	free(sim->order);
	free(sim->agreed_bits);
	free(sim->done);
	free(sim);
}

int lw_hvd_sim_new(uint32_t n_ranks, uint32_t n_tensors, struct lw_hvd_sim **ret_sim)
{
	struct lw_hvd_sim *sim = calloc(1, sizeof(*sim));

	if (sim) {
		sim->n_ranks = n_ranks;
		sim->n_tensors = n_tensors;
		sim->start_ns = calloc((size_t)n_ranks * 6 + 1, sizeof(*sim->start_ns));
		sim->last_ready_ns = calloc((size_t)n_tensors + 1, sizeof(*sim->last_ready_ns));
		sim->order = calloc((size_t)n_tensors * 4 + 1, sizeof(*sim->order));
		sim->agreed_bits = calloc((size_t)n_tensors / 64 + 1, sizeof(*sim->agreed_bits));
		sim->done = calloc((size_t)n_tensors + 1, sizeof(*sim->done));
	}
	if (!sim || !sim->start_ns || !sim->last_ready_ns || !sim->order || !sim->agreed_bits ||
		!sim->done) {
		lw_hvd_sim_free(sim);
		return lw_fail(LW_ERR_NOMEM, "no memory to simulate %u ranks and %u tensors",
			n_ranks, n_tensors);
	}
	sim->blocked_ns = sim->start_ns + n_ranks;
	sim->resumed_ns = sim->start_ns + (size_t)2 * n_ranks;
	sim->end_ns = sim->start_ns + (size_t)3 * n_ranks;
	sim->entered_ns = sim->start_ns + (size_t)4 * n_ranks;
	sim->left_ns = sim->start_ns + (size_t)5 * n_ranks;
	sim->agreed = sim->order + n_tensors;
	sim->members = sim->order + (size_t)2 * n_tensors;
	sim->skipped = sim->order + (size_t)3 * n_tensors;
	*ret_sim = sim;
	return LW_OK;
}

static int64_t rounded(double ns) /* of a time >= 0 */
{
	return (int64_t)(ns + 0.5);
}

static const int64_t *step_ready(const struct lw_hvd_context *c, uint32_t rank)
{
	size_t row = (size_t)c->step * c->input->n_ranks + rank;

	return c->input->ready_ns + row * c->input->n_tensors;
}

/* Fills last_ready_ns, and order, from that of the step before, which is nearly this one's: insertion
 * is linear then. */
static void collect_pending(struct lw_hvd_context *c)
{
	struct lw_hvd_sim *sim = c->sim;
	const int64_t *ready_ns = step_ready(c, 0);
	uint32_t n_tensors = c->input->n_tensors, n_ranks = c->input->n_ranks;
	int64_t *last_ns = sim->last_ready_ns;

	for (uint32_t t = 0; t < n_tensors; t++) {
		const int64_t *of_rank_ns = ready_ns + t;
		int64_t last_of_ns = sim->start_ns[0] + *of_rank_ns;

		/* all ranks of one tensor, so that the latest stays in a register */
		for (uint32_t r = 1; r < n_ranks; r++) {
			int64_t at_ns = sim->start_ns[r] + *(of_rank_ns += n_tensors);

			last_of_ns = at_ns > last_of_ns ? at_ns : last_of_ns;
		}
		last_ns[t] = ready_ns[t] < 0 ? INT64_MAX : last_of_ns;
	}
	c->n_in_step = n_tensors;
	for (uint32_t k = 0; k < n_tensors; k++) {
		uint32_t t = sim->order[k], i = k;
		int64_t at_ns = last_ns[t];

		for (; i > 0 && last_ns[sim->order[i - 1]] > at_ns; i--)
			sim->order[i] = sim->order[i - 1];
		sim->order[i] = t;
		c->n_in_step -= at_ns == INT64_MAX;
	}
	c->n_pending = c->n_in_step;
}

static int64_t first_pending_ns(const struct lw_hvd_context *c)
{
	return c->sim->last_ready_ns[c->sim->order[c->n_in_step - c->n_pending]];
}

/* When a rank enters the round after the one that it entered at @enter_ns. */
static int64_t next_round_ns(const struct lw_hvd_context *c, int64_t enter_ns, int64_t free_ns)
{
	int64_t due_ns = enter_ns + c->setting->cycle_ns;
	int64_t over_ns = c->was_busy ? c->busy_oversleep_ns : c->oversleep_ns;
	int64_t next_ns = free_ns >= due_ns ? free_ns : due_ns + over_ns;

	return next_ns < enter_ns + MIN_PERIOD_NS ? enter_ns + MIN_PERIOD_NS : next_ns;
}

/* The same for each rank by itself. @ret_stride_ns: by how much all moved, 0 = not all by the same.
 * Return: when the last one enters. */
static int64_t next_round_apart(struct lw_hvd_context *c, int64_t *ret_stride_ns)
{
	struct lw_hvd_sim *sim = c->sim;
	int64_t last_ns = INT64_MIN;

	c->is_late = false;
	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		int64_t next_ns = next_round_ns(c, sim->entered_ns[r], sim->left_ns[r]);
		int64_t stride_ns = next_ns - sim->entered_ns[r];

		if (r == 0)
			*ret_stride_ns = stride_ns;
		else if (stride_ns != *ret_stride_ns)
			*ret_stride_ns = 0;
		if (next_ns > last_ns) {
			last_ns = next_ns;
			c->is_late = c->was_busy && next_ns == sim->left_ns[r];
		}
		sim->entered_ns[r] = next_ns;
	}
	return last_ns;
}

/* All ranks enter. Rounds that agree on nothing, because no tensor is queued everywhere yet, follow each
 * other at equal distance once one of them did: they are taken in one stride. */
static void enter_round(struct lw_hvd_context *c)
{
	int64_t needed_ns = first_pending_ns(c), next_ns, stride_ns = 0;

	if (c->cost->leave_frac) {
		next_ns = next_round_apart(c, &stride_ns);
	} else {
		next_ns = next_round_ns(c, c->enter_ns, c->free_ns);
		c->is_late = c->was_busy && next_ns == c->free_ns;
		stride_ns = next_ns - c->enter_ns;
	}
	if (c->was_idle && needed_ns > next_ns && stride_ns > 0) {
		int64_t n_rounds = (needed_ns - 1 - next_ns) / stride_ns;

		next_ns += n_rounds * stride_ns;
		c->totals.n_rounds += (uint64_t)n_rounds;
		for (uint32_t r = 0; c->cost->leave_frac && r < c->input->n_ranks; r++)
			c->sim->entered_ns[r] += n_rounds * stride_ns;
	}
	c->totals.n_rounds++;
	c->enter_ns = next_ns;
}

const double *lw_hvd_scatter_at(const struct lw_hvd_scatter *scatter, uint32_t step, uint32_t nth)
{
	uint32_t n;

	if (step >= scatter->n_steps)
		return NULL;
	n = scatter->from[step + 1] - scatter->from[step];
	if (n == 0)
		return NULL;
	return &scatter->frac[scatter->from[step] +
			      (nth < n ? nth : nth % n)]; /* dividing is slow */
}

/* Return: when the round ends. */
static int64_t turn_round(struct lw_hvd_context *c, uint32_t n_agreed)
{
	const struct lw_hvd_cost *cost = c->cost;
	double cost_ns = cost->round_ns + (c->is_late ? cost->late_ns : 0);

	c->round_frac = 1;
	if (n_agreed > 0) {
		const double *frac =
			c->is_late ? lw_hvd_scatter_at(&cost->late_scatter, c->step, c->n_late++)
				   : lw_hvd_scatter_at(&cost->slept_scatter, c->step, c->n_slept++);

		if (frac)
			c->round_frac = *frac;
	}
	c->free_ns = c->enter_ns + rounded(cost_ns * c->round_frac);
	for (uint32_t r = 0; c->cost->leave_frac && r < c->input->n_ranks; r++)
		c->sim->left_ns[r] = c->free_ns;
	return c->free_ns;
}

/* Of the first @n pending tensors those that every rank had when it entered, to the front. Return: how many. */
static uint32_t had_by_all(struct lw_hvd_context *c, uint32_t *first, uint32_t n)
{
	struct lw_hvd_sim *sim = c->sim;
	uint32_t n_had = 0, n_left = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t r = 0;

		while (r < c->input->n_ranks &&
			sim->start_ns[r] + step_ready(c, r)[first[i]] <= sim->entered_ns[r])
			r++;
		if (r == c->input->n_ranks)
			first[n_had++] = first[i];
		else
			sim->skipped[n_left++] = first[i];
	}
	memcpy(first + n_had, sim->skipped, n_left * sizeof(*first));
	return n_had;
}

/* Moves what this round agrees from pending to agreed, in the order of fusion. Return: how many. */
static uint32_t take_agreed(struct lw_hvd_context *c)
{
	struct lw_hvd_sim *sim = c->sim;
	uint32_t *first = sim->order + c->n_in_step - c->n_pending;
	uint32_t n_words = c->input->n_tensors / 64 + 1, n = 0, n_agreed = 0;

	while (n < c->n_pending && sim->last_ready_ns[first[n]] <= c->enter_ns)
		n++;
	if (c->cost->leave_frac)
		n = had_by_all(c, first, n);
	c->n_pending -= n;
	if (c->setting->is_uncached) {
		memcpy(sim->agreed, first, n * sizeof(*first));
		return n;
	}
	if (n == 0)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		sim->agreed_bits[first[i] / 64] |= UINT64_C(1) << (first[i] % 64);
	for (uint32_t w = 0; w < n_words; w++)
		for (; sim->agreed_bits[w]; sim->agreed_bits[w] &= sim->agreed_bits[w] - 1)
			sim->agreed[n_agreed++] =
				w * 64 + (uint32_t)__builtin_ctzll(sim->agreed_bits[w]);
	return n_agreed;
}

void lw_hvd_count_size(struct lw_hvd_totals *totals, uint64_t bytes, int64_t idle_ns)
{
	int class = bytes ? 63 - __builtin_clzll(bytes) : 0;

	if (class >= LW_HVD_SIZE_CLASSES)
		class = LW_HVD_SIZE_CLASSES - 1;
	if (idle_ns > LW_FIT_IDLE_NS)
		class += LW_HVD_SIZE_CLASSES;
	totals->of_size[class].n_batches++;
	totals->of_size[class].bytes += bytes;
}

static void count_batch(struct lw_hvd_context *c, uint32_t n, const struct lw_hvd_op *op,
	int64_t agreed_ns, const struct done *done)
{
	struct lw_hvd_totals *totals = &c->totals;
	uint64_t bytes = op->bytes;
	int64_t waited_ns = 0;

	if (totals->n_batches == 0 || bytes < totals->min_batch_bytes)
		totals->min_batch_bytes = bytes;
	if (bytes > totals->max_batch_bytes)
		totals->max_batch_bytes = bytes;
	totals->n_batches++;
	totals->bytes += bytes;
	lw_hvd_count_size(totals, bytes, op->idle_ns);
	for (uint32_t i = 0; i < n; i++)
		waited_ns += agreed_ns - c->sim->last_ready_ns[c->sim->members[i]];
	totals->agree_ns += (double)waited_ns;
	totals->behind_ns += (double)n * (double)(done->start_ns - agreed_ns);
}

/* How much before the last one rank @r leaves an operation. */
static int64_t leaves_early_ns(const struct lw_hvd_context *c, uint32_t r, const struct done *done)
{
	return c->cost->leave_frac ? rounded(c->cost->leave_frac[r] *
					     (double)(done->wire_end_ns - done->wire_start_ns))
				   : 0;
}

/* Runs one batch. */
static void run_batch(struct lw_hvd_context *c, uint32_t n, uint64_t bytes, int64_t agreed_ns)
{
	const struct lw_hvd_cost *cost = c->cost;
	bool is_fused = n > 1;
	double in_ns = is_fused ? cost->copy_in_ns + cost->copy_in_ns_per_byte * (double)bytes
				: cost->single_in_ns;
	double out_ns = is_fused ? cost->copy_out_ns + cost->copy_out_ns_per_byte * (double)bytes
				 : cost->single_out_ns;
	struct done *done = &c->sim->done[c->n_ops];
	struct lw_hvd_op op = {bytes, 0, 0, c->step, c->n_ops};

	done->start_ns = c->free_ns;
	done->wire_start_ns = c->free_ns + rounded(in_ns);
	if (done->wire_start_ns > c->wire_free_ns)
		op.idle_ns = done->wire_start_ns - c->wire_free_ns;
	op.computing_ns = c->waiting_from_ns - done->wire_start_ns;
	done->wire_end_ns = done->wire_start_ns + rounded(cost->wire_ns(cost->context, &op));
	done->end_ns = done->wire_end_ns + rounded(out_ns);
	done->wire_ns = done->copy_ns = 0;
	if (c->n_ops > 0) {
		const struct done *before = done - 1;

		done->wire_ns = before->wire_ns + before->wire_end_ns - before->wire_start_ns;
		done->copy_ns = before->copy_ns + before->wire_start_ns - before->start_ns +
				before->end_ns - before->wire_end_ns;
	}
	c->n_ops++;
	c->wire_free_ns = done->wire_end_ns;
	c->free_ns = done->end_ns;
	for (uint32_t r = 0; c->cost->leave_frac && r < c->input->n_ranks; r++)
		c->sim->left_ns[r] = done->end_ns - leaves_early_ns(c, r, done);
	count_batch(c, n, &op, agreed_ns, done);
	if (c->observer && c->observer->batch) {
		struct lw_hvd_batch batch = {c->step, bytes, n, c->sim->members, c->enter_ns,
			agreed_ns, done->start_ns, done->wire_start_ns, done->wire_end_ns,
			done->end_ns};

		c->observer->batch(c->observer->context, &batch);
	}
}

/* hvd.synchronize(): the training thread looks at once, then every poll_ns. */
static int64_t noticed_ns(const struct lw_hvd_cost *cost, int64_t blocked_ns, int64_t done_ns)
{
	if (done_ns <= blocked_ns)
		return blocked_ns;
	if (cost->poll_ns <= 0)
		return done_ns;
	return blocked_ns +
	       rounded(ceil((double)(done_ns - blocked_ns) / cost->poll_ns) * cost->poll_ns);
}

/* With decompression the training thread waits for one batch after the other; else for the last. */
static void finish_batch(struct lw_hvd_context *c, uint64_t bytes)
{
	int64_t finish_ns = rounded(c->cost->finish_ns_per_byte * (double)bytes);

	for (uint32_t r = 0; r < c->input->n_ranks; r++)
		c->sim->resumed_ns[r] =
			noticed_ns(c->cost, c->sim->resumed_ns[r], c->free_ns) + finish_ns;
}

static void run_round(struct lw_hvd_context *c, uint32_t n_agreed, int64_t agreed_ns)
{
	int64_t before_ns = rounded(c->cost->dispatch_ns * c->round_frac);
	uint32_t from = 0;

	while (from < n_agreed) {
		uint32_t to = n_agreed;

		if (c->setting->is_group_fusion_off)
			to = lw_hvd_gather_group(c, from, n_agreed);
		while (from < to) {
			uint32_t n;
			uint64_t bytes;

			c->free_ns += before_ns;
			before_ns = rounded(c->cost->between_ns);
			from = lw_hvd_take_batch(c, from, to, &n, &bytes);
			run_batch(c, n, bytes, agreed_ns);
			if (c->cost->finish_ns_per_byte > 0)
				finish_batch(c, bytes);
		}
	}
}

static double part(int64_t from_ns, int64_t to_ns, int64_t since_ns) /* of it, after since_ns */
{
	int64_t first_ns = from_ns > since_ns ? from_ns : since_ns;

	return to_ns > first_ns ? (double)(to_ns - first_ns) : 0;
}

/* What operations did after the training thread of a rank was blocked at @blocked_ns. */
static void count_exposed(struct lw_hvd_context *c, int64_t blocked_ns, int64_t resumed_ns)
{
	struct lw_hvd_totals *totals = &c->totals;
	const struct done *done = c->sim->done, *last = &done[c->n_ops - 1];
	double share = 1.0 / c->input->n_ranks, wire_ns, copy_ns;
	uint32_t low = 0, high = c->n_ops - 1;

	if (c->n_ops == 0 || last->end_ns <= blocked_ns) {
		totals->exposed_poll_ns += share * (double)(resumed_ns - blocked_ns);
		return;
	}
	while (low < high) { /* the first that ends later */
		uint32_t middle = low + (high - low) / 2;

		if (done[middle].end_ns <= blocked_ns)
			low = middle + 1;
		else
			high = middle;
	}
	wire_ns = part(done[low].wire_start_ns, done[low].wire_end_ns, blocked_ns);
	copy_ns = part(done[low].start_ns, done[low].wire_start_ns, blocked_ns) +
		  part(done[low].wire_end_ns, done[low].end_ns, blocked_ns);
	if (low + 1 < c->n_ops) {
		wire_ns += (double)(last->wire_ns - done[low + 1].wire_ns + last->wire_end_ns -
				    last->wire_start_ns);
		copy_ns += (double)(last->copy_ns - done[low + 1].copy_ns + last->wire_start_ns -
				    last->start_ns + last->end_ns - last->wire_end_ns);
	}
	totals->exposed_wire_ns += share * wire_ns;
	totals->exposed_copy_ns += share * copy_ns;
	totals->exposed_poll_ns += share * fmax((double)(resumed_ns - last->end_ns), 0);
	totals->exposed_cycle_ns +=
		share * ((double)(last->end_ns - blocked_ns) - wire_ns - copy_ns);
}

static void end_step(struct lw_hvd_context *c, int64_t *ret_step_ns)
{
	struct lw_hvd_sim *sim = c->sim;
	const struct done *last = c->n_ops ? &sim->done[c->n_ops - 1] : NULL;

	if (last) {
		c->totals.wire_ns +=
			(double)(last->wire_ns + last->wire_end_ns - last->wire_start_ns);
		c->totals.copy_ns += (double)(last->copy_ns + last->wire_start_ns - last->start_ns +
					      last->end_ns - last->wire_end_ns);
	}
	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		size_t at = (size_t)c->step * c->input->n_ranks + r;

		if (last && !(c->cost->finish_ns_per_byte > 0))
			sim->resumed_ns[r] = noticed_ns(c->cost, sim->blocked_ns[r],
				last->end_ns - leaves_early_ns(c, r, last));
		sim->end_ns[r] = sim->resumed_ns[r] + c->input->tail_ns[at];
		ret_step_ns[at] = sim->end_ns[r] - sim->start_ns[r];
		if (sim->resumed_ns[r] == sim->blocked_ns[r])
			continue;
		c->totals.exposed_ns +=
			(double)(sim->resumed_ns[r] - sim->blocked_ns[r]) / c->input->n_ranks;
		count_exposed(c, sim->blocked_ns[r], sim->resumed_ns[r]);
	}
	if (c->observer && c->observer->step)
		c->observer->step(c->observer->context, c->step, sim->start_ns, sim->blocked_ns,
			sim->resumed_ns, sim->end_ns);
	memcpy(sim->start_ns, sim->end_ns, c->input->n_ranks * sizeof(*sim->start_ns));
}

static void run_step(struct lw_hvd_context *c, int64_t *ret_step_ns)
{
	struct lw_hvd_sim *sim = c->sim;
	const int64_t *blocked_ns = c->input->blocked_ns + (size_t)c->step * c->input->n_ranks;

	collect_pending(c);
	c->n_ops = c->n_slept = c->n_late = 0;
	c->waiting_from_ns = 0;
	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		sim->resumed_ns[r] = sim->blocked_ns[r] = sim->start_ns[r] + blocked_ns[r];
		c->waiting_from_ns += sim->blocked_ns[r] / c->input->n_ranks;
	}
	while (c->n_pending > 0) {
		uint32_t n_agreed;
		int64_t agreed_ns;

		enter_round(c);
		n_agreed = take_agreed(c);
		agreed_ns = turn_round(c, n_agreed);
		c->was_idle = n_agreed == 0 && !c->was_busy;
		c->was_busy = n_agreed > 0;
		run_round(c, n_agreed, agreed_ns);
	}
	end_step(c, ret_step_ns);
}

int lw_hvd_sim_run(struct lw_hvd_sim *sim, const struct lw_hvd_input *input,
	const struct lw_hvd_setting *setting, const struct lw_hvd_cost *cost, int64_t *ret_step_ns,
	struct lw_hvd_totals *ret_totals, const struct lw_hvd_observer *observer)
{
	struct lw_hvd_context c = {.sim = sim,
		.input = input,
		.setting = setting,
		.cost = cost,
		.observer = observer,
		.oversleep_ns = rounded(cost->oversleep_ns),
		.busy_oversleep_ns = rounded(cost->oversleep_ns + cost->busy_oversleep_ns)};

	if (input->n_ranks == 0 || input->n_ranks > sim->n_ranks ||
		input->n_tensors > sim->n_tensors)
		return lw_fail(LW_ERR_LIMIT,
			"%u ranks and %u tensors do not fit a simulation of %u and %u",
			input->n_ranks, input->n_tensors, sim->n_ranks, sim->n_tensors);
	c.fusion_bytes = lw_hvd_effective_bytes(setting->fusion_bytes, setting->local_size);
	for (uint32_t r = 0; r < input->n_ranks; r++)
		sim->start_ns[r] = sim->entered_ns[r] = sim->left_ns[r] = 0;
	for (uint32_t t = 0; t < input->n_tensors; t++)
		sim->order[t] = t;
	for (c.step = 0; c.step < input->n_steps; c.step++)
		run_step(&c, ret_step_ns);
	if (ret_totals)
		*ret_totals = c.totals;
	return LW_OK;
}
