/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/ddp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { NONE = -1 };

/* ---- buckets ---------------------------------------------------------------------------------- */

/* Numbers buckets as they are opened; @place: where each comes in the order of being filled. Return: how many. */
static uint32_t fill_buckets(const struct lw_hvd_tensor *tensors, uint32_t n,
	const struct lw_ddp_setting *setting, uint32_t *bucket_of, uint32_t *place)
{
	struct {
		int64_t bucket; /* open, or NONE */
		double bytes;
		bool has_first; /* one was filled: the next has the limit of the others */
	} open[LW_DDP_CLASSES];
	uint32_t n_opened = 0, n_filled = 0;

	for (int c = 0; c < LW_DDP_CLASSES; c++) {
		open[c].bucket = NONE;
		open[c].bytes = 0;
		open[c].has_first = false;
	}
	for (uint32_t t = 0; t < n; t++) {
		uint32_t c = (uint32_t)tensors[t].fuse_class % LW_DDP_CLASSES;
		uint64_t limit_bytes =
			open[c].has_first ? setting->cap_bytes : setting->first_bytes;

		if (open[c].bucket == NONE) {
			open[c].bytes = 0;
			place[n_opened] = UINT32_MAX;
			open[c].bucket = n_opened++;
		}
		bucket_of[t] = (uint32_t)open[c].bucket;
		open[c].bytes += (double)tensors[t].bytes;
		if (open[c].bytes < (double)limit_bytes * setting->wire_frac)
			continue;
		place[open[c].bucket] = n_filled++;
		open[c].bucket = NONE;
		open[c].has_first = true;
	}
	for (uint32_t b = 0; b < n_opened; b++)
		if (place[b] == UINT32_MAX)
			place[b] = n_filled++;
	return n_opened;
}

uint32_t lw_ddp_assign(const struct lw_hvd_tensor *tensors, uint32_t n,
	const struct lw_ddp_setting *setting, uint32_t *ret_bucket_of, uint32_t *scratch)
{
	uint32_t n_buckets = n;

	for (uint32_t t = 0; t < n && setting->is_fixed; t++)
		ret_bucket_of[t] = t;
	if (!setting->is_fixed)
		n_buckets = fill_buckets(tensors, n, setting, ret_bucket_of, scratch);
	for (uint32_t t = 0; t < n && !setting->is_fixed; t++)
		ret_bucket_of[t] = setting->is_static ? n_buckets - 1 - ret_bucket_of[t]
						      : scratch[ret_bucket_of[t]];
	return n_buckets;
}

/* When the last gradient of each bucket is ready, of one row; LW_HVD_NOT_IN_STEP for a bucket without any.
 * Neighbours mostly share a bucket. */
static void last_ready(const int64_t *ready_ns, uint32_t n_tensors, const uint32_t *bucket_of,
	int64_t *ret_ns, uint32_t n_buckets)
{
	int64_t last_ns = LW_HVD_NOT_IN_STEP;
	uint32_t bucket = 0;

	for (uint32_t b = 0; b < n_buckets; b++)
		ret_ns[b] = LW_HVD_NOT_IN_STEP;
	for (uint32_t t = 0; t < n_tensors; t++) {
		if (bucket_of[t] != bucket) {
			ret_ns[bucket] = last_ns > ret_ns[bucket] ? last_ns : ret_ns[bucket];
			bucket = bucket_of[t];
			last_ns = LW_HVD_NOT_IN_STEP;
		}
		last_ns = ready_ns[t] > last_ns ? ready_ns[t] : last_ns;
	}
	if (n_tensors > 0)
		ret_ns[bucket] = last_ns > ret_ns[bucket] ? last_ns : ret_ns[bucket];
}

/* The same, and no bucket before those in front of it. */
static void bucket_row(const int64_t *ready_ns, uint32_t n_tensors, const uint32_t *bucket_of,
	int64_t *ret_ns, uint32_t n_buckets)
{
	int64_t before_ns = LW_HVD_NOT_IN_STEP;

	last_ready(ready_ns, n_tensors, bucket_of, ret_ns, n_buckets);
	for (uint32_t b = 0; b < n_buckets; b++) {
		if (ret_ns[b] < 0)
			continue;
		before_ns = ret_ns[b] > before_ns ? ret_ns[b] : before_ns;
		ret_ns[b] = before_ns;
	}
}

int lw_ddp_as_buckets(const struct lw_hvd_input *input, const struct lw_ddp_setting *setting,
	struct lw_hvd_input **ret_input)
{
	size_t n = input->n_tensors, n_rows = (size_t)input->n_steps * input->n_ranks;
	struct lw_hvd_input *buckets = calloc(1,
		sizeof(*buckets) + n * sizeof(struct lw_hvd_tensor) + n_rows * n * sizeof(int64_t));
	uint32_t *bucket_of = calloc(2 * n + 1, sizeof(*bucket_of)), n_buckets;
	struct lw_hvd_tensor *tensors;
	int64_t *ready_ns;

	if (!buckets || !bucket_of) {
		free(buckets);
		free(bucket_of);
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu gradients", n);
	}
	tensors = (struct lw_hvd_tensor *)(buckets + 1);
	ready_ns = (int64_t *)(tensors + n);
	n_buckets =
		lw_ddp_assign(input->tensors, input->n_tensors, setting, bucket_of, bucket_of + n);
	for (uint32_t t = 0; t < n; t++) {
		tensors[bucket_of[t]].bytes += input->tensors[t].bytes;
		tensors[bucket_of[t]].fuse_class = -1;
	}
	for (size_t row = 0; row < n_rows; row++)
		bucket_row(input->ready_ns + row * n, input->n_tensors, bucket_of,
			ready_ns + row * n_buckets, n_buckets);
	free(bucket_of);
	*buckets = *input;
	buckets->n_tensors = n_buckets;
	buckets->tensors = tensors;
	buckets->ready_ns = ready_ns;
	buckets->group_of = NULL;
	*ret_input = buckets;
	return LW_OK;
}

/* ---- one step ---------------------------------------------------------------------------------- */

struct context {
	const struct lw_hvd_input *input;
	const struct lw_ddp_cost *cost;
	const struct lw_ddp_observer *observer;
	struct lw_hvd_totals totals;
	uint32_t n_threads, n_buckets, step;
	const uint32_t *bucket_of; /* by tensor */
	double *bytes;             /* by bucket */
	/* by rank */
	int64_t *start_ns, *blocked_ns, *resumed_ns, *end_ns, *busy_ns;
	/* by bucket that this step sends, in order */
	uint32_t n_sent, *sent;
	int64_t *done_ns;   /* by place in sent */
	int64_t *row_ns;    /* by bucket, scratch */
	int64_t *queued_ns; /* [place][rank] */
	int64_t *taken_ns;  /* likewise: when a thread took it */
	int64_t wire_free_ns;
};

/* When each bucket is queued on each rank. A bucket none of whose tensors is in the step is not sent. */
static void queue_buckets(struct context *c)
{
	uint32_t n_ranks = c->input->n_ranks, n_tensors = c->input->n_tensors;
	const int64_t *ready_ns = c->input->ready_ns + (size_t)c->step * n_ranks * n_tensors;

	c->n_sent = 0;
	for (uint32_t r = 0; r < n_ranks; r++) {
		uint32_t n = 0;

		bucket_row(ready_ns + (size_t)r * n_tensors, n_tensors, c->bucket_of, c->row_ns,
			c->n_buckets);
		for (uint32_t b = 0; b < c->n_buckets; b++) {
			if (c->row_ns[b] < 0)
				continue;
			c->sent[n] = b;
			c->queued_ns[(size_t)n * n_ranks + r] = c->start_ns[r] + c->row_ns[b];
			n++;
		}
		c->n_sent = n;
	}
}

struct running {
	uint32_t place;
	double fixed_ns, left_ns; /* to go, of its time alone: first fixed, then on the wire */
};

struct wire { /* what runs now */
	struct running at[LW_DDP_MAX_THREADS];
	uint32_t n, n_begun, n_done;
	double now_ns;
	int64_t freed_ns; /* the newest end */
};

static uint32_t n_on_wire(const struct wire *wire)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < wire->n; i++)
		n += wire->at[i].fixed_ns <= 0;
	return n;
}

/* What each of @n operations on the wire gets done in a time, of what it would get done alone. */
static double share(const struct context *c, uint32_t n)
{
	return n < 2 ? 1 : fmin(c->cost->sharing, n) / n;
}

static int64_t after(int64_t since_ns, double from_ns, double to_ns)
{
	double first_ns = fmax(from_ns, (double)since_ns);

	return to_ns > first_ns ? (int64_t)(to_ns - first_ns) : 0;
}

/* @to_ns: no operation comes onto the wire or ends before. */
static void advance(struct context *c, struct wire *wire, double to_ns)
{
	double part = share(c, n_on_wire(wire)), passed_ns = fmax(to_ns - wire->now_ns, 0);

	for (uint32_t i = 0; i < wire->n; i++) {
		if (wire->at[i].fixed_ns > 0)
			wire->at[i].fixed_ns -= passed_ns;
		else
			wire->at[i].left_ns -= passed_ns * part;
	}
	for (uint32_t r = 0; r < c->input->n_ranks && wire->n > 0; r++)
		c->busy_ns[r] += after(c->blocked_ns[r], wire->now_ns, to_ns);
	wire->now_ns = fmax(to_ns, wire->now_ns);
}

/* Which operation is the next to come onto the wire or to end. Return: when, INFINITY = none runs. */
static double next_event(const struct context *c, const struct wire *wire, uint32_t *ret_i)
{
	double part = share(c, n_on_wire(wire)), next_ns = INFINITY;

	for (uint32_t i = 0; i < wire->n; i++) {
		const struct running *op = &wire->at[i];
		double at_ns = wire->now_ns +
			       (op->fixed_ns > 0 ? op->fixed_ns : fmax(op->left_ns, 0) / part);

		if (at_ns < next_ns) {
			next_ns = at_ns;
			*ret_i = i;
		}
	}
	return next_ns;
}

/* When the last rank takes the next bucket; @wire has a free thread. */
static int64_t take_next(struct context *c, const struct wire *wire)
{
	uint32_t n_ranks = c->input->n_ranks;
	size_t row = (size_t)wire->n_begun * n_ranks;
	int64_t last_ns = INT64_MIN;

	for (uint32_t r = 0; r < n_ranks; r++) {
		int64_t at_ns = c->queued_ns[row + r] + (int64_t)llround(c->cost->dispatch_ns);

		/* all threads were busy when it was queued: the one that came free takes it */
		if (wire->n_begun >= c->n_threads && at_ns < wire->freed_ns)
			at_ns = wire->freed_ns;
		if (wire->n_begun > 0 && at_ns < c->taken_ns[row + r - n_ranks])
			at_ns = c->taken_ns[row + r - n_ranks];
		c->taken_ns[row + r] = at_ns;
		last_ns = at_ns > last_ns ? at_ns : last_ns;
	}
	return last_ns;
}

static void begin(struct context *c, struct wire *wire, int64_t at_ns)
{
	uint32_t place = wire->n_begun++;
	double bytes = c->bytes[c->sent[place]];
	struct lw_hvd_op op = {(uint64_t)llround(bytes),
		wire->n > 0               ? 0
		: at_ns > c->wire_free_ns ? at_ns - c->wire_free_ns
					  : 0,
		INT64_MAX, c->step, place};
	double alone_ns = fmax(c->cost->wire_ns(c->cost->context, &op) + c->cost->more_ns, 0);
	double fixed_ns = fmin(c->cost->fixed_ns, alone_ns);

	wire->at[wire->n++] = (struct running){place, fixed_ns, alone_ns - fixed_ns};
	if (c->totals.n_batches == 0 || op.bytes < c->totals.min_batch_bytes)
		c->totals.min_batch_bytes = op.bytes;
	if (op.bytes > c->totals.max_batch_bytes)
		c->totals.max_batch_bytes = op.bytes;
	c->totals.n_batches++;
	c->totals.bytes += op.bytes;
	lw_hvd_count_size(&c->totals, op.bytes, 0);
	c->totals.wire_ns += alone_ns;
}

static void finish(struct context *c, struct wire *wire, uint32_t i)
{
	uint32_t place = wire->at[i].place;
	size_t row = (size_t)place * c->input->n_ranks;

	c->done_ns[place] = c->wire_free_ns = wire->freed_ns = (int64_t)llround(wire->now_ns);
	wire->at[i] = wire->at[--wire->n];
	wire->n_done++;
	if (c->observer && c->observer->op) {
		uint32_t bucket = c->sent[place];
		struct lw_ddp_op op = {c->step, bucket, (uint64_t)llround(c->bytes[bucket]),
			c->queued_ns + row, c->taken_ns + row, c->done_ns[place]};

		c->observer->op(c->observer->context, &op);
	}
}

static void run_wire(struct context *c)
{
	struct wire wire = {.now_ns = -INFINITY};
	int64_t next_ns = INT64_MAX; /* known as soon as a thread is free for it */

	while (wire.n_done < c->n_sent) {
		uint32_t i = 0;
		double event_ns;

		if (next_ns == INT64_MAX && wire.n_begun < c->n_sent && wire.n < c->n_threads)
			next_ns = take_next(c, &wire);
		event_ns = next_event(c, &wire, &i);
		if (next_ns != INT64_MAX && event_ns > (double)next_ns) {
			advance(c, &wire, (double)next_ns);
			begin(c, &wire, next_ns);
			next_ns = INT64_MAX;
			continue;
		}
		if (wire.at[i].fixed_ns > 0) {
			advance(c, &wire, event_ns);
			wire.at[i].fixed_ns = 0;
		} else {
			advance(c, &wire, event_ns);
			finish(c, &wire, i);
		}
	}
}

/* finalize_backward(): waits for each bucket in order, and copies it back. */
static void end_step(struct context *c, int64_t *ret_step_ns)
{
	double frac = 1.0 / c->input->n_ranks;

	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		size_t at = (size_t)c->step * c->input->n_ranks + r;
		double now_ns = (double)c->blocked_ns[r], copied_ns = 0, exposed_ns;
		double copy_ns = c->cost->copy_ns_per_byte + c->cost->finish_ns_per_byte;
		double last_bytes = c->cost->last_bytes;

		for (uint32_t i = 0; i < c->n_sent; i++) {
			double done_ns = (double)c->done_ns[i] + c->cost->wake_ns;

			now_ns = fmax(now_ns, done_ns);
			last_bytes = c->bytes[c->sent[i]];
			if (i + 1 == c->n_sent)
				break;
			now_ns += copy_ns * last_bytes;
			copied_ns += copy_ns * last_bytes;
		}
		c->resumed_ns[r] = (int64_t)llround(now_ns);
		now_ns += (double)c->input->tail_ns[at] + copy_ns * last_bytes -
			  c->cost->copy_ns_per_byte * c->cost->last_bytes;
		c->end_ns[r] = (int64_t)llround(fmax(now_ns, (double)c->resumed_ns[r]));
		ret_step_ns[at] = c->end_ns[r] - c->start_ns[r];
		exposed_ns = (double)(c->resumed_ns[r] - c->blocked_ns[r]);
		c->totals.exposed_ns += frac * exposed_ns;
		c->totals.exposed_wire_ns += frac * (double)c->busy_ns[r];
		c->totals.exposed_copy_ns +=
			frac * fmax(fmin(copied_ns, exposed_ns - (double)c->busy_ns[r]), 0);
		c->totals.copy_ns += frac * copied_ns;
	}
	if (c->observer && c->observer->step)
		c->observer->step(c->observer->context, c->step, c->start_ns, c->blocked_ns,
			c->resumed_ns, c->end_ns);
	memcpy(c->start_ns, c->end_ns, c->input->n_ranks * sizeof(*c->start_ns));
}

static void run_step(struct context *c, int64_t *ret_step_ns)
{
	for (uint32_t r = 0; r < c->input->n_ranks; r++) {
		c->blocked_ns[r] = c->start_ns[r] +
				   c->input->blocked_ns[(size_t)c->step * c->input->n_ranks + r];
		c->busy_ns[r] = 0;
	}
	queue_buckets(c);
	run_wire(c);
	end_step(c, ret_step_ns);
}

/* Room for everything, as one block; NULL = no memory. */
static void *allocate(struct context *c, uint32_t **ret_bucket_of, uint32_t **ret_scratch)
{
	size_t n_ranks = c->input->n_ranks, n = (size_t)c->input->n_tensors + 1;
	size_t n_int64 = 5 * n_ranks + 2 * n + 2 * n * n_ranks;
	int64_t *block = calloc(
		1, n_int64 * sizeof(int64_t) + n * sizeof(double) + 3 * n * sizeof(uint32_t));

	if (!block)
		return NULL;
	c->start_ns = block;
	c->blocked_ns = block + n_ranks;
	c->resumed_ns = block + 2 * n_ranks;
	c->end_ns = block + 3 * n_ranks;
	c->busy_ns = block + 4 * n_ranks;
	c->done_ns = block + 5 * n_ranks;
	c->row_ns = c->done_ns + n;
	c->queued_ns = c->row_ns + n;
	c->taken_ns = c->queued_ns + n * n_ranks;
	c->bytes = (double *)(block + n_int64);
	c->sent = (uint32_t *)(c->bytes + n);
	*ret_bucket_of = c->sent + n;
	*ret_scratch = c->sent + 2 * n;
	return block;
}

int lw_ddp_sim_run(const struct lw_hvd_input *input, const struct lw_ddp_setting *setting,
	const struct lw_ddp_cost *cost, int64_t *ret_step_ns, struct lw_hvd_totals *ret_totals,
	const struct lw_ddp_observer *observer)
{
	struct context c = {.input = input, .cost = cost, .observer = observer};
	uint32_t *bucket_of, *scratch;
	void *block = allocate(&c, &bucket_of, &scratch);

	if (!block)
		return lw_fail(LW_ERR_NOMEM, "no memory to simulate %u ranks and %u tensors",
			input->n_ranks, input->n_tensors);
	c.n_threads = setting->n_threads < 1 ? 1 : setting->n_threads;
	if (c.n_threads > LW_DDP_MAX_THREADS)
		c.n_threads = LW_DDP_MAX_THREADS;
	c.n_buckets = lw_ddp_assign(input->tensors, input->n_tensors, setting, bucket_of, scratch);
	c.bucket_of = bucket_of;
	for (uint32_t t = 0; t < input->n_tensors; t++)
		c.bytes[bucket_of[t]] += (double)input->tensors[t].bytes;
	for (c.step = 0; c.step < input->n_steps; c.step++)
		run_step(&c, ret_step_ns);
	free(block);
	c.totals.exposed_cycle_ns =
		fmax(c.totals.exposed_ns - c.totals.exposed_wire_ns - c.totals.exposed_copy_ns, 0);
	if (ret_totals)
		*ret_totals = c.totals;
	return LW_OK;
}
