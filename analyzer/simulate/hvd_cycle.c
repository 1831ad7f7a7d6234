/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/hvd_cycle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum {
	DOUBLE_BYTES = 8,
	ATOMIC_UNIT = 64,     /* elements; Horovod rounds the threshold to it */
	MIN_PERIOD_NS = 1000, /* a loop with cycle time 0 cannot turn faster than this */
};

struct lw_hvd_sim {
	uint32_t n_ranks, n_tensors;
	/* by rank */
	int64_t *start_ns; /* of this step */
	int64_t *enter_ns; /* of this round */
	int64_t *next_ns;  /* of the next round, while looking ahead */
	int64_t *free_ns;  /* the loop's thread has nothing to do from here on */
	int64_t *done_ns;  /* last operation of this step finished */
	int64_t *op_start_ns, *op_wire_ns, *op_end_ns;
	int64_t *blocked_ns, *resumed_ns, *end_ns;
	double *hidden_wire_ns, *hidden_copy_ns; /* after blocked: on the wire, around it */
	/* by tensor */
	int64_t *last_ready_ns; /* over ranks, absolute */
	uint32_t *pending;      /* tensors of this step, ascending last_ready_ns */
	uint32_t *agreed;       /* of this round, ascending cache bit */
	uint32_t *members;      /* of one batch */
	uint32_t *skipped;
	uint64_t *agreed_bits;
};

struct context { /* what one run looks at */
	struct lw_hvd_sim *sim;
	const struct lw_hvd_input *input;
	const struct lw_hvd_cost *cost;
	const struct lw_hvd_observer *observer;
	struct lw_hvd_totals totals;
	uint64_t fusion_bytes;
	int64_t cycle_ns;
	int64_t wire_free_ns; /* end of the last operation on the wire */
	uint32_t step, n_ops; /* operations of this step so far */
	bool was_idle;        /* the last round agreed on nothing, and cost what idle ones do */
	bool was_busy;        /* it ran operations */
};

void lw_hvd_sim_free(struct lw_hvd_sim *sim)
{
	if (!sim)
		return;
	free(sim->start_ns);
	free(sim->hidden_wire_ns);
	free(sim->last_ready_ns);
	free(sim->pending);
	free(sim->agreed_bits);
	free(sim);
}

int lw_hvd_sim_new(uint32_t n_ranks, uint32_t n_tensors, struct lw_hvd_sim **ret_sim)
{
	struct lw_hvd_sim *sim = calloc(1, sizeof(*sim));
	int64_t **by_rank[] = {&sim->start_ns, &sim->enter_ns, &sim->next_ns, &sim->free_ns,
		&sim->done_ns, &sim->op_start_ns, &sim->op_wire_ns, &sim->op_end_ns,
		&sim->blocked_ns, &sim->resumed_ns, &sim->end_ns};
	size_t n_by_rank = sizeof(by_rank) / sizeof(by_rank[0]);
	int64_t *ranks = calloc((size_t)n_ranks * n_by_rank + 1, sizeof(*ranks));
	double *hidden = calloc((size_t)n_ranks * 2 + 1, sizeof(*hidden));
	int64_t *last = calloc((size_t)n_tensors + 1, sizeof(*last));
	uint32_t *lists = calloc((size_t)n_tensors * 4 + 1, sizeof(*lists));
	uint64_t *bits = calloc((size_t)n_tensors / 64 + 1, sizeof(*bits));

	if (!sim || !ranks || !hidden || !last || !lists || !bits) {
		free(sim);
		free(ranks);
		free(hidden);
		free(last);
		free(lists);
		free(bits);
		return lw_fail(LW_ERR_NOMEM, "no memory to simulate %u ranks and %u tensors",
			n_ranks, n_tensors);
	}
	sim->n_ranks = n_ranks;
	sim->n_tensors = n_tensors;
	for (size_t i = 0; i < n_by_rank; i++)
		*by_rank[i] = ranks + i * n_ranks;
	sim->hidden_wire_ns = hidden;
	sim->hidden_copy_ns = hidden + n_ranks;
	sim->last_ready_ns = last;
	sim->pending = lists;
	sim->agreed = lists + n_tensors;
	sim->members = lists + (size_t)2 * n_tensors;
	sim->skipped = lists + (size_t)3 * n_tensors;
	sim->agreed_bits = bits;
	*ret_sim = sim;
	return LW_OK;
}

uint64_t lw_hvd_effective_bytes(uint64_t fusion_bytes, uint32_t local_size)
{
	uint64_t unit_bytes = (uint64_t)local_size * DOUBLE_BYTES * ATOMIC_UNIT;

	if (unit_bytes == 0 || fusion_bytes > UINT64_MAX - unit_bytes)
		return fusion_bytes;
	return (fusion_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

static const int64_t *step_ready(const struct context *c, uint32_t rank)
{
	size_t row = (size_t)c->step * c->input->n_ranks + rank;

	return c->input->ready_ns + row * c->input->n_tensors;
}

/* Fills sim->pending and last_ready_ns. The order of the step before is nearly this one's, and
 * insertion is linear then. Return: tensors of this step. */
static uint32_t collect_pending(struct context *c)
{
	struct lw_hvd_sim *sim = c->sim;
	uint32_t n = 0;

	for (uint32_t t = 0; t < c->input->n_tensors; t++)
		sim->last_ready_ns[t] = INT64_MIN;
	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		const int64_t *ready_ns = step_ready(c, r);

		for (uint32_t t = 0; t < c->input->n_tensors; t++) {
			int64_t at_ns = sim->start_ns[r] + ready_ns[t];

			if (ready_ns[t] >= 0 && at_ns > sim->last_ready_ns[t])
				sim->last_ready_ns[t] = at_ns;
		}
	}
	for (uint32_t t = 0; t < c->input->n_tensors; t++) {
		uint32_t i = n;

		if (sim->last_ready_ns[t] == INT64_MIN)
			continue;
		for (; i > 0 && sim->last_ready_ns[sim->pending[i - 1]] > sim->last_ready_ns[t];
			i--)
			sim->pending[i] = sim->pending[i - 1];
		sim->pending[i] = t;
		n++;
	}
	return n;
}

/* When each rank enters the round after the one it entered at sim->enter_ns. */
static void next_round(const struct context *c, int64_t *ret_enter_ns)
{
	const struct lw_hvd_sim *sim = c->sim;

	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		int64_t due_ns = sim->enter_ns[r] + c->cycle_ns;

		ret_enter_ns[r] = sim->free_ns[r] >= due_ns
					  ? sim->free_ns[r]
					  : due_ns + (int64_t)llround(c->cost->oversleep_ns);
		if (ret_enter_ns[r] < sim->enter_ns[r] + MIN_PERIOD_NS)
			ret_enter_ns[r] = sim->enter_ns[r] + MIN_PERIOD_NS;
	}
}

static int64_t latest(const int64_t *at_ns, uint32_t n)
{
	int64_t last_ns = at_ns[0];

	for (uint32_t i = 1; i < n; i++)
		last_ns = at_ns[i] > last_ns ? at_ns[i] : last_ns;
	return last_ns;
}

/* The rank that enters last did not sleep: the loop is late. */
static bool is_late(const struct context *c)
{
	const struct lw_hvd_sim *sim = c->sim;
	uint32_t last = 0;

	for (uint32_t r = 1; r < c->input->n_ranks; r++)
		if (sim->next_ns[r] > sim->next_ns[last])
			last = r;
	return sim->next_ns[last] == sim->free_ns[last];
}

/* All ranks enter and agree. Return: when the round ends, on all of them. */
static int64_t turn_round(struct context *c)
{
	struct lw_hvd_sim *sim = c->sim;
	double cost_ns = c->cost->round_ns + (c->was_busy && is_late(c) ? c->cost->late_ns : 0);
	int64_t end_ns;

	memcpy(sim->enter_ns, sim->next_ns, c->input->n_ranks * sizeof(*sim->enter_ns));
	end_ns = latest(sim->enter_ns, c->input->n_ranks) + (int64_t)llround(cost_ns);
	for (uint32_t r = 0; r < c->input->n_ranks; r++)
		sim->free_ns[r] = end_ns;
	c->totals.n_rounds++;
	return end_ns;
}

/* Rounds that agree on nothing, because no tensor is queued everywhere before @needed_ns, follow each
 * other at equal distance once one of them did: take them in one stride. */
static void skip_idle_rounds(struct context *c, int64_t needed_ns)
{
	struct lw_hvd_sim *sim = c->sim;
	int64_t stride_ns = sim->next_ns[0] - sim->enter_ns[0];
	int64_t last_ns = latest(sim->next_ns, c->input->n_ranks);
	int64_t n_rounds;

	for (uint32_t r = 1; r < c->input->n_ranks; r++)
		if (sim->next_ns[r] - sim->enter_ns[r] != stride_ns)
			return;
	n_rounds = (needed_ns - 1 - last_ns) / stride_ns;
	if (n_rounds <= 0)
		return;
	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		sim->next_ns[r] += n_rounds * stride_ns;
		sim->enter_ns[r] += n_rounds * stride_ns;
		sim->free_ns[r] += n_rounds * stride_ns;
	}
	c->totals.n_rounds += (uint64_t)n_rounds;
}

static bool is_agreed(const struct context *c, uint32_t tensor)
{
	const struct lw_hvd_sim *sim = c->sim;

	for (uint32_t r = 0; r < c->input->n_ranks; r++)
		if (sim->start_ns[r] + step_ready(c, r)[tensor] > sim->enter_ns[r])
			return false;
	return true;
}

/* Moves what this round agrees from sim->pending to sim->agreed. Return: how many. */
static uint32_t take_agreed(struct context *c, uint32_t *n_pending)
{
	struct lw_hvd_sim *sim = c->sim;
	int64_t last_ns = latest(sim->enter_ns, c->input->n_ranks);
	uint32_t n_words = c->input->n_tensors / 64 + 1, n_kept = 0, n_agreed = 0, i;

	for (i = 0; i < *n_pending && sim->last_ready_ns[sim->pending[i]] <= last_ns; i++) {
		uint32_t t = sim->pending[i];

		if (is_agreed(c, t)) {
			sim->agreed_bits[t / 64] |= UINT64_C(1) << (t % 64);
			n_agreed++;
		} else {
			sim->pending[n_kept++] = t;
		}
	}
	if (n_agreed == 0)
		return 0;
	memmove(sim->pending + n_kept, sim->pending + i, (*n_pending - i) * sizeof(*sim->pending));
	*n_pending -= n_agreed;
	n_agreed = 0;
	for (uint32_t w = 0; w < n_words; w++)
		for (; sim->agreed_bits[w]; sim->agreed_bits[w] &= sim->agreed_bits[w] - 1)
			sim->agreed[n_agreed++] =
				w * 64 + (uint32_t)__builtin_ctzll(sim->agreed_bits[w]);
	return n_agreed;
}

/* Horovod's greedy fusion with look-ahead: the head takes what fits behind it; one that does not is
 * skipped as long as the batch and all skipped ones together would still fit. Takes one batch off
 * the front of sim->agreed. Return: tensors left there. */
static uint32_t take_batch(
	struct context *c, uint32_t n_agreed, uint32_t *ret_n, uint64_t *ret_bytes)
{
	struct lw_hvd_sim *sim = c->sim;
	const struct lw_hvd_tensor *tensors = c->input->tensors;
	uint32_t head = sim->agreed[0], n = 0, n_skipped = 0, i;
	uint64_t bytes = tensors[head].bytes, skipped_bytes = 0;

	sim->members[n++] = head;
	for (i = 1; i < n_agreed && tensors[head].fuse_class >= 0; i++) {
		const struct lw_hvd_tensor *next = &tensors[sim->agreed[i]];

		if (next->fuse_class == tensors[head].fuse_class &&
			bytes + next->bytes <= c->fusion_bytes) {
			bytes += next->bytes;
			sim->members[n++] = sim->agreed[i];
			continue;
		}
		skipped_bytes += next->bytes;
		if (bytes + skipped_bytes > c->fusion_bytes)
			break;
		sim->skipped[n_skipped++] = sim->agreed[i];
	}
	memmove(sim->agreed + n_skipped, sim->agreed + i, (n_agreed - i) * sizeof(*sim->agreed));
	memcpy(sim->agreed, sim->skipped, n_skipped * sizeof(*sim->agreed));
	*ret_n = n;
	*ret_bytes = bytes;
	return n_agreed - n;
}

static int64_t after(int64_t since_ns, int64_t from_ns, int64_t to_ns)
{
	int64_t first_ns = from_ns > since_ns ? from_ns : since_ns;

	return to_ns > first_ns ? to_ns - first_ns : 0;
}

static void count_batch(struct context *c, uint32_t n, uint64_t bytes, int64_t agreed_ns,
	int64_t wire_start_ns, int64_t wire_end_ns)
{
	struct lw_hvd_sim *sim = c->sim;
	struct lw_hvd_totals *totals = &c->totals;
	double share = 1.0 / c->input->n_ranks;

	if (totals->n_batches == 0 || bytes < totals->min_batch_bytes)
		totals->min_batch_bytes = bytes;
	if (bytes > totals->max_batch_bytes)
		totals->max_batch_bytes = bytes;
	totals->n_batches++;
	totals->bytes += bytes;
	totals->wire_ns += (double)(wire_end_ns - wire_start_ns);
	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		int64_t blocked_ns = sim->blocked_ns[r];

		totals->copy_ns += share * (double)(sim->op_wire_ns[r] - sim->op_start_ns[r] +
						    sim->op_end_ns[r] - wire_end_ns);
		sim->hidden_wire_ns[r] +=
			(double)after(blocked_ns, sim->op_wire_ns[r], wire_end_ns);
		sim->hidden_copy_ns[r] +=
			(double)(after(blocked_ns, sim->op_start_ns[r], sim->op_wire_ns[r]) +
				 after(blocked_ns, wire_end_ns, sim->op_end_ns[r]));
	}
	for (uint32_t i = 0; i < n; i++) {
		totals->agree_ns += (double)(agreed_ns - sim->last_ready_ns[sim->members[i]]);
		totals->behind_ns +=
			(double)(latest(sim->op_start_ns, c->input->n_ranks) - agreed_ns);
	}
}

/* Runs one batch on all ranks. */
static void run_batch(struct context *c, uint32_t n, uint64_t bytes, int64_t agreed_ns)
{
	struct lw_hvd_sim *sim = c->sim;
	const struct lw_hvd_cost *cost = c->cost;
	double in_ns = n > 1 ? cost->copy_in_ns + cost->copy_in_ns_per_byte * (double)bytes
			     : cost->single_in_ns;
	double out_ns = n > 1 ? cost->copy_out_ns + cost->copy_out_ns_per_byte * (double)bytes
			      : cost->single_out_ns;
	int64_t wire_start_ns, wire_end_ns;
	struct lw_hvd_op op;

	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		sim->op_start_ns[r] = sim->free_ns[r];
		sim->op_wire_ns[r] = sim->free_ns[r] + (int64_t)llround(in_ns);
	}
	wire_start_ns = latest(sim->op_wire_ns, c->input->n_ranks);
	op = (struct lw_hvd_op){bytes,
		wire_start_ns > c->wire_free_ns ? wire_start_ns - c->wire_free_ns : 0, c->step,
		c->n_ops++};
	wire_end_ns = wire_start_ns + (int64_t)llround(cost->wire_ns(cost->context, &op));
	c->wire_free_ns = wire_end_ns;
	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		sim->op_end_ns[r] = wire_end_ns + (int64_t)llround(out_ns);
		sim->done_ns[r] = sim->op_end_ns[r];
		sim->free_ns[r] = sim->op_end_ns[r];
	}
	count_batch(c, n, bytes, agreed_ns, wire_start_ns, wire_end_ns);
	if (c->observer && c->observer->batch) {
		struct lw_hvd_batch batch = {c->step, bytes, n, sim->members, agreed_ns,
			sim->enter_ns, sim->op_start_ns, sim->op_wire_ns, sim->op_end_ns,
			wire_end_ns};

		c->observer->batch(c->observer->context, &batch);
	}
}

static void run_round(struct context *c, uint32_t n_agreed, int64_t agreed_ns)
{
	struct lw_hvd_sim *sim = c->sim;
	double before_ns = c->cost->dispatch_ns;

	while (n_agreed > 0) {
		uint32_t n;
		uint64_t bytes;

		for (uint32_t r = 0; r < c->input->n_ranks; r++)
			sim->free_ns[r] += (int64_t)llround(before_ns);
		before_ns = c->cost->between_ns;
		n_agreed = take_batch(c, n_agreed, &n, &bytes);
		run_batch(c, n, bytes, agreed_ns);
	}
}

/* hvd.synchronize(): the training thread looks at once, then every poll_ns. */
static int64_t noticed_ns(const struct lw_hvd_cost *cost, int64_t blocked_ns, int64_t done_ns)
{
	if (done_ns <= blocked_ns)
		return blocked_ns;
	if (cost->poll_ns <= 0)
		return done_ns;
	return blocked_ns + (int64_t)llround(ceil((double)(done_ns - blocked_ns) / cost->poll_ns) *
					     cost->poll_ns);
}

static void end_step(struct context *c, int64_t *ret_step_ns)
{
	struct lw_hvd_sim *sim = c->sim;
	double share = 1.0 / c->input->n_ranks;

	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		size_t at = (size_t)c->step * c->input->n_ranks + r;
		int64_t blocked_ns = sim->blocked_ns[r], done_ns = sim->done_ns[r], exposed_ns;

		sim->resumed_ns[r] = noticed_ns(c->cost, blocked_ns, done_ns);
		sim->end_ns[r] = sim->resumed_ns[r] + c->input->tail_ns[at];
		ret_step_ns[at] = sim->end_ns[r] - sim->start_ns[r];
		exposed_ns = sim->resumed_ns[r] - blocked_ns;
		c->totals.exposed_ns += share * (double)exposed_ns;
		if (exposed_ns == 0)
			continue;
		c->totals.exposed_wire_ns += share * sim->hidden_wire_ns[r];
		c->totals.exposed_copy_ns += share * sim->hidden_copy_ns[r];
		c->totals.exposed_poll_ns += share * (double)(sim->resumed_ns[r] - done_ns);
		c->totals.exposed_cycle_ns +=
			share * ((double)(done_ns - blocked_ns) - sim->hidden_wire_ns[r] -
					sim->hidden_copy_ns[r]);
	}
	if (c->observer && c->observer->step)
		c->observer->step(c->observer->context, c->step, sim->start_ns, sim->blocked_ns,
			sim->resumed_ns, sim->end_ns);
	memcpy(sim->start_ns, sim->end_ns, c->input->n_ranks * sizeof(*sim->start_ns));
}

static void run_step(struct context *c, int64_t *ret_step_ns)
{
	struct lw_hvd_sim *sim = c->sim;
	uint32_t n_pending = collect_pending(c);

	c->n_ops = 0;
	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		size_t at = (size_t)c->step * c->input->n_ranks + r;

		sim->blocked_ns[r] = sim->start_ns[r] + c->input->blocked_ns[at];
		sim->done_ns[r] = sim->start_ns[r];
		sim->hidden_wire_ns[r] = sim->hidden_copy_ns[r] = 0;
	}
	while (n_pending > 0) {
		int64_t agreed_ns;
		uint32_t n_agreed;

		next_round(c, sim->next_ns);
		if (c->was_idle)
			skip_idle_rounds(c, sim->last_ready_ns[sim->pending[0]]);
		agreed_ns = turn_round(c);
		n_agreed = take_agreed(c, &n_pending);
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
	struct context c = {.sim = sim, .input = input, .cost = cost, .observer = observer};

	if (input->n_ranks == 0 || input->n_ranks > sim->n_ranks ||
		input->n_tensors > sim->n_tensors)
		return lw_fail(LW_ERR_LIMIT,
			"%u ranks and %u tensors do not fit a simulation of %u and %u",
			input->n_ranks, input->n_tensors, sim->n_ranks, sim->n_tensors);
	c.fusion_bytes = lw_hvd_effective_bytes(setting->fusion_bytes, setting->local_size);
	c.cycle_ns = setting->cycle_ns;
	for (uint32_t r = 0; r < input->n_ranks; r++)
		sim->start_ns[r] = sim->enter_ns[r] = sim->free_ns[r] = 0;
	for (c.step = 0; c.step < input->n_steps; c.step++)
		run_step(&c, ret_step_ns);
	if (ret_totals)
		*ret_totals = c.totals;
	return LW_OK;
}
