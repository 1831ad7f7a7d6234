/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extract_ddp_cost.c - what a torch DDP run spends on the wire, on threads, and on copying back.
 *
 * Operations overlap, and how they then divide the wire among themselves is not seen. What they get
 * done together is: in a stretch of time in which at least one runs all the time,
 *
 *	time with one + sharing x time with more = fixed + per_byte x bytes of the stretch
 *
 * The fixed cost is paid once, by the one that begins it: those of others hide behind it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/extract.h"
#include "base/vec.h"

enum {
	GLOO_THREADS = 2,    /* torch starts so many for each network device */
	MIN_STRETCHES = 8,   /* with operations that overlap, to tell what sharing costs */
	N_FITTED = 3,        /* fixed, per byte, sharing */
	SHARING_STEPS = 100, /* of the search, between 1 and the number of threads */
};
static const double OVERLAPPED_FRAC = 0.02; /* of a stretch: less does not tell */
static const double MODEL_FRAC = 0.003;     /* the model is not truer than this */
static const double ONE_SIZE_FRAC = 1.5;    /* largest over smallest stretch: less is one size */

struct op {
	uint64_t bytes;
	int64_t start_ns, end_ns; /* on one clock */
	int64_t idle_ns;          /* nothing ran before, for so long */
	uint32_t step, stretch;
};
typedef lw_vec(struct op) ops;

struct stretch {
	double bytes;
	double alone_ns, shared_ns; /* one operation ran, more did */
};
typedef lw_vec(struct stretch) stretches;

struct edge { /* an operation begins or ends */
	int64_t at_ns;
	uint32_t op;
	bool is_end;
};

static int by_time(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return (x->op > y->op) - (x->op < y->op);
}

/* Cuts the time into stretches. @edges: room for two an operation. */
static int cut(const ops *all, struct edge *edges, stretches *ret_stretches)
{
	int64_t now_ns = 0, freed_ns = INT64_MIN;
	struct stretch none = {0, 0, 0}, *stretch = NULL;
	uint32_t n_running = 0;

	for (uint32_t i = 0; i < all->n; i++) {
		edges[2 * i] = (struct edge){all->at[i].start_ns, i, false};
		edges[2 * i + 1] = (struct edge){all->at[i].end_ns, i, true};
	}
	qsort(edges, 2 * all->n, sizeof(*edges), by_time);
	for (size_t e = 0; e < 2 * all->n; e++) {
		struct op *op = &all->at[edges[e].op];
		double passed_ns = (double)(edges[e].at_ns - now_ns);

		if (n_running == 1)
			stretch->alone_ns += passed_ns;
		else if (n_running > 1)
			stretch->shared_ns += passed_ns;
		now_ns = edges[e].at_ns;
		if (edges[e].is_end) {
			freed_ns = now_ns;
			n_running--;
			continue;
		}
		if (n_running == 0) {
			if (lw_vec_push(ret_stretches, none) < 0)
				return LW_ERR_NOMEM;
			stretch = &ret_stretches->at[ret_stretches->n - 1];
			op->idle_ns = freed_ns == INT64_MIN ? INT64_MAX : now_ns - freed_ns;
		}
		op->stretch = (uint32_t)(ret_stretches->n - 1);
		stretch->bytes += (double)op->bytes;
		n_running++;
	}
	return LW_OK;
}

/* ---- the operations of counted steps ------------------------------------------------------------------ */

/* From the last rank's start to the last end; or, on the clock of @rank, as that rank saw it. */
static int collect(const struct lw_run *run, size_t rank, bool one_clock, ops *ret_ops)
{
	const struct lw_group *group;
	uint32_t *input_step = calloc(run->ranks.at[0].steps.n + 1, sizeof(*input_step)), next = 1;
	int status = LW_OK;

	if (!input_step)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (size_t s = 0; s < run->ranks.at[0].steps.n; s++)
		input_step[s] = lw_extract_is_counted(run, s) ? next++ : 0;
	ret_ops->n = 0;
	lw_vec_foreach (group, &run->groups) {
		struct op op = {.bytes = group->bytes};

		if (status < 0 || group->n_ranks != run->ranks.n ||
			group->op != LW_COLL_ALLREDUCE ||
			lw_group_batch(run, group, 0)->step == LW_NONE)
			continue;
		op.step = input_step[lw_group_batch(run, group, 0)->step];
		op.start_ns = one_clock ? group->last_start_ns
					: lw_batch_wire(lw_group_batch(run, group, rank)).start_ns;
		op.end_ns = one_clock ? group->last_end_ns
				      : lw_batch_wire(lw_group_batch(run, group, rank)).end_ns;
		if (op.step > 0 && op.end_ns > op.start_ns)
			status = lw_vec_push(ret_ops, op);
	}
	free(input_step);
	return status;
}

/* Across clocks they are told as one rank saw them: the one that was in them for the shortest time, since it
 * came last and waited for nobody. */
static int collect_all(const struct lw_run *run, ops *ret_ops)
{
	bool one_clock = lw_run_is_one_clock(run);
	double least_ns = INFINITY;
	ops own = {0};
	int status = LW_OK;

	for (size_t r = 0; r < (one_clock ? 1 : run->ranks.n) && status == LW_OK; r++) {
		double sum_ns = 0;

		status = collect(run, r, one_clock, &own);
		for (size_t i = 0; i < own.n; i++)
			sum_ns += (double)(own.at[i].end_ns - own.at[i].start_ns);
		if (status == LW_OK && own.n > 0 && sum_ns < least_ns) {
			ops swapped = *ret_ops;

			least_ns = sum_ns;
			*ret_ops = own;
			own = swapped;
		}
	}
	lw_vec_free(&own);
	return status;
}

/* ---- sharing ------------------------------------------------------------------------------------------- */

struct line {
	double fixed_ns, ns_per_byte; /* both >= 0 */
	double misfit;                /* mean square of relative errors */
};

static double served_ns(const struct stretch *stretch, double sharing)
{
	return stretch->alone_ns + sharing * stretch->shared_ns;
}

/* Weighted by 1 / time^2: what counts is how far off a stretch is in relation to itself. */
static struct line fit_line(const stretches *all, double sharing)
{
	double w = 0, x = 0, y = 0, xx = 0, xy = 0, spread;
	struct line line = {0, 0, 0};

	for (size_t i = 0; i < all->n; i++) {
		double t = served_ns(&all->at[i], sharing), bytes = all->at[i].bytes;
		double weight = 1 / (t * t);

		w += weight;
		x += weight * bytes;
		y += weight * t;
		xx += weight * bytes * bytes;
		xy += weight * bytes * t;
	}
	spread = w * xx - x * x;
	if (spread > 1e-6 * w * xx) {
		line.ns_per_byte = fmax((w * xy - x * y) / spread, 0);
		line.fixed_ns = (y - line.ns_per_byte * x) / w;
	}
	if (line.fixed_ns <= 0)
		line = (struct line){0, xx > 0 ? xy / xx : 0, 0};
	for (size_t i = 0; i < all->n; i++) {
		double fitted_ns = line.fixed_ns + line.ns_per_byte * all->at[i].bytes;

		line.misfit += pow(fitted_ns / served_ns(&all->at[i], sharing) - 1, 2);
	}
	line.misfit /= (double)all->n;
	return line;
}

/* F(1, k), k >= 1: above it in 5 % of all cases. */
static double f_95(size_t k)
{
	static const double to_10[] = {161, 18.5, 10.1, 7.71, 6.61, 5.99, 5.59, 5.32, 5.12, 4.96};

	if (k <= sizeof(to_10) / sizeof(to_10[0]))
		return to_10[k - 1];
	return k <= 20 ? 4.4 : k <= 30 ? 4.2 : 4;
}

/* The least misfit, and the range in which it is not worse than chance explains (F test, 95 %). */
static struct line find_sharing(const stretches *all, struct lw_ddp *ddp)
{
	double most = ddp->setting.n_threads, limit;
	struct line best = fit_line(all, 1), lines[SHARING_STEPS + 1];
	size_t n_overlapped = 0, n_free;

	ddp->cost.sharing = ddp->sharing_low = 1;
	ddp->sharing_high = most;
	for (size_t i = 0; i < all->n; i++)
		n_overlapped += all->at[i].shared_ns > OVERLAPPED_FRAC * all->at[i].alone_ns;
	if (n_overlapped < MIN_STRETCHES || most <= 1)
		return best;
	for (int k = 0; k <= SHARING_STEPS; k++) {
		lines[k] = fit_line(all, 1 + (most - 1) * k / SHARING_STEPS);
		if (lines[k].misfit < best.misfit) {
			best = lines[k];
			ddp->cost.sharing = 1 + (most - 1) * k / SHARING_STEPS;
		}
	}
	n_free = all->n - N_FITTED;
	limit = best.misfit * (1 + f_95(n_free) / (double)n_free) + MODEL_FRAC * MODEL_FRAC;
	ddp->sharing_low = ddp->sharing_high = ddp->cost.sharing;
	for (int k = 0; k <= SHARING_STEPS; k++) {
		double sharing = 1 + (most - 1) * k / SHARING_STEPS;

		if (lines[k].misfit > limit)
			continue;
		ddp->sharing_low = fmin(ddp->sharing_low, sharing);
		ddp->sharing_high = fmax(ddp->sharing_high, sharing);
	}
	if (ddp->sharing_low <= 1 && ddp->sharing_high >= most) { /* any would do */
		ddp->cost.sharing = 1;
		return fit_line(all, 1);
	}
	return best;
}

/* ---- threads, waking, copying --------------------------------------------------------------------------- */

static uint32_t count_threads(const struct lw_run *run)
{
	uint32_t most = GLOO_THREADS;

	for (size_t r = 0; r < run->ranks.n; r++) {
		int64_t seen[LW_DDP_MAX_THREADS];
		const struct lw_batch *batch;
		uint32_t n = 0;

		lw_vec_foreach (batch, &run->ranks.at[r].batches) {
			uint32_t i = 0;

			while (i < n && seen[i] != batch->thread_id)
				i++;
			if (i == n && n < LW_DDP_MAX_THREADS)
				seen[n++] = batch->thread_id;
		}
		most = n > most ? n : most;
	}
	return most;
}

struct mean {
	double n, sum;
};

static double mean_of(const struct mean *mean) /* 0 = of nothing, and never less */
{
	return mean->n > 0 ? fmax(mean->sum / mean->n, 0) : 0;
}

struct seen { /* of one step of one rank */
	const struct lw_rank *rank;
	const struct lw_step *step;
	const int64_t *ready_ns;      /* of the replay */
	const struct lw_batch **sent; /* in the order of being queued */
	uint32_t n;
};

static int64_t ready_of(const struct lw_rank *rank, const struct lw_batch *batch)
{
	return batch->n_members ? rank->members.at[batch->first_member].ready_ns : LW_NS_UNKNOWN;
}

/* Return: false when it cannot be told which bucket is which. */
static bool sort_sent(struct seen *seen)
{
	seen->n = 0;
	for (uint32_t b = 0; b < seen->step->n_batches; b++) {
		const struct lw_batch *batch = &seen->rank->batches.at[seen->step->first_batch + b];
		int64_t at_ns = ready_of(seen->rank, batch);
		uint32_t i = seen->n;

		if (batch->op != LW_COLL_ALLREDUCE)
			continue;
		if (at_ns == LW_NS_UNKNOWN)
			return false;
		for (; i > 0 && ready_of(seen->rank, seen->sent[i - 1]) > at_ns; i--)
			seen->sent[i] = seen->sent[i - 1];
		seen->sent[i] = batch;
		seen->n++;
	}
	return true;
}

/* From a bucket's last gradient to its start on the wire, where a thread was free for it. */
static void take_dispatch(const struct lw_replay *replay, const uint32_t *bucket_of,
	const struct seen *seen, struct mean *dispatch)
{
	for (uint32_t k = 0; k < seen->n; k++) {
		int64_t ready_ns = INT64_MIN;
		uint32_t n_running = 0;

		for (uint32_t t = 0; t < replay->input.n_tensors; t++)
			if (bucket_of[t] == k && seen->ready_ns[t] > ready_ns)
				ready_ns = seen->ready_ns[t];
		if (ready_ns < 0)
			continue;
		ready_ns += seen->step->start_ns;
		for (uint32_t before = 0; before < k; before++)
			n_running += seen->sent[before]->end_ns > ready_ns;
		if (n_running >= replay->ddp.setting.n_threads)
			continue;
		dispatch->n++;
		dispatch->sum += (double)(lw_batch_wire(seen->sent[k]).start_ns - ready_ns);
	}
}

/* The waits at the end of the backward pass: one a bucket, its copy between it and the next. */
static void take_waits(const struct seen *seen, struct mean *wake, struct mean *copy)
{
	const struct lw_rank *rank = seen->rank;
	size_t first = 0, high = rank->waits.n, n = 0;
	int64_t last_end_ns = INT64_MIN;

	if (seen->step->blocked_ns == LW_NS_UNKNOWN || seen->step->resumed_ns == LW_NS_UNKNOWN)
		return;
	while (first < high) {
		size_t middle = first + (high - first) / 2;

		if (rank->waits.at[middle].start_ns < seen->step->blocked_ns)
			first = middle + 1;
		else
			high = middle;
	}
	while (first + n < rank->waits.n &&
		rank->waits.at[first + n].end_ns <= seen->step->resumed_ns)
		n++;
	for (uint32_t k = 0; k < seen->n; k++)
		if (lw_batch_wire(seen->sent[k]).end_ns > last_end_ns)
			last_end_ns = lw_batch_wire(seen->sent[k]).end_ns;
	if (seen->n > 0 && last_end_ns > seen->step->blocked_ns) {
		wake->n++;
		wake->sum += (double)(seen->step->resumed_ns - last_end_ns);
	}
	for (uint32_t k = 0; n == seen->n && k + 1 < seen->n; k++) {
		copy->n += (double)seen->sent[k]->bytes;
		copy->sum += (double)(rank->waits.at[first + k + 1].start_ns -
				      rank->waits.at[first + k].end_ns);
	}
}

static int take_threads(const struct lw_run *run, struct lw_replay *replay)
{
	uint32_t n_ranks = replay->input.n_ranks, n = replay->input.n_tensors, n_out = 0;
	uint32_t *bucket_of = calloc((size_t)n + 1, sizeof(*bucket_of));
	uint32_t *scratch = calloc((size_t)n + 1, sizeof(*scratch));
	const struct lw_batch **sent = NULL;
	struct mean dispatch = {0}, wake = {0}, copy = {0};
	size_t most = 1;

	for (size_t r = 0; r < run->ranks.n; r++)
		most = run->ranks.at[r].batches.n > most ? run->ranks.at[r].batches.n : most;
	sent = calloc(most, sizeof(*sent));
	if (!bucket_of || !scratch || !sent) {
		free(bucket_of);
		free(scratch);
		free(sent);
		return lw_fail(LW_ERR_NOMEM, "no memory for %u gradients", n);
	}
	lw_ddp_assign(replay->tensors, n, &replay->ddp.setting, bucket_of, scratch);
	for (size_t s = 0; s < run->ranks.at[0].steps.n; s++) {
		if (!lw_extract_is_counted(run, s))
			continue;
		n_out++;
		for (uint32_t r = 0; r < n_ranks; r++) {
			struct seen seen = {.rank = &run->ranks.at[r],
				.step = &run->ranks.at[r].steps.at[s],
				.ready_ns = replay->ready_ns + ((size_t)n_out * n_ranks + r) * n,
				.sent = sent};

			if (!sort_sent(&seen))
				continue;
			take_dispatch(replay, bucket_of, &seen, &dispatch);
			take_waits(&seen, &wake, &copy);
			if (seen.n > 0)
				replay->ddp.cost.last_bytes = (double)sent[seen.n - 1]->bytes;
		}
	}
	replay->ddp.cost.dispatch_ns = mean_of(&dispatch);
	replay->ddp.cost.wake_ns = mean_of(&wake);
	replay->ddp.cost.copy_ns_per_byte = mean_of(&copy);
	replay->cost.copy_in_ns_per_byte = replay->cost.copy_out_ns_per_byte = mean_of(&copy);
	free(bucket_of);
	free(scratch);
	free(sent);
	return LW_OK;
}

/* Stretches of different bytes tell a fixed cost from one of bytes. */
static bool tells_slope(const stretches *cuts)
{
	const struct stretch *stretch;
	double least = INFINITY, most = 0;

	lw_vec_foreach (stretch, cuts) {
		least = fmin(least, stretch->bytes);
		most = fmax(most, stretch->bytes);
	}
	return most > ONE_SIZE_FRAC * least;
}

/* What each operation takes alone: its share of its stretch, as the line says. */
static int take_wire(const struct lw_run *run, const ops *all, const stretches *cuts,
	const struct line *line, struct lw_replay *replay)
{
	struct lw_wire_sample *samples = malloc((all->n + run->probes.n + 1) * sizeof(*samples));
	int status;

	if (!samples)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", all->n);
	replay->min_batch_bytes = UINT64_MAX;
	for (size_t i = 0; i < all->n; i++) {
		const struct op *op = &all->at[i];
		const struct stretch *stretch = &cuts->at[op->stretch];
		double fitted_ns = line->fixed_ns + line->ns_per_byte * stretch->bytes;
		double observed_frac =
			served_ns(stretch, replay->ddp.cost.sharing) / fmax(fitted_ns, 1);

		samples[i] = (struct lw_wire_sample){op->bytes,
			observed_frac * (line->fixed_ns + line->ns_per_byte * (double)op->bytes),
			op->idle_ns, op->step, 0};
		if (op->bytes < replay->min_batch_bytes)
			replay->min_batch_bytes = op->bytes;
		if (op->bytes > replay->max_batch_bytes)
			replay->max_batch_bytes = op->bytes;
	}
	status = lw_wire_init(
		&replay->wire, &(struct lw_wire_source){samples, all->n, samples + all->n,
				       lw_extract_probe(run, NULL, samples + all->n), 0,
				       tells_slope(cuts) ? line->fixed_ns : (double)NAN, false});
	free(samples);
	return status;
}

int lw_extract_ddp_cost(const struct lw_run *run, struct lw_replay *replay)
{
	struct edge *edges = NULL;
	stretches cuts = {0};
	ops all = {0};
	int status;

	replay->ddp.setting.n_threads = count_threads(run);
	status = collect_all(run, &all);
	if (status == LW_OK && all.n == 0)
		status = lw_fail(LW_ERR_LIMIT, "no all-reduce was timed on all ranks");
	if (status == LW_OK) {
		edges = malloc(2 * all.n * sizeof(*edges));
		status = edges ? cut(&all, edges, &cuts)
			       : lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", all.n);
	}
	if (status == LW_OK)
		status = take_threads(run, replay);
	if (status == LW_OK) {
		struct line line = find_sharing(&cuts, &replay->ddp);

		replay->ddp.cost.fixed_ns = line.fixed_ns;
		status = take_wire(run, &all, &cuts, &line, replay);
	}
	free(edges);
	lw_vec_free(&cuts);
	lw_vec_free(&all);
	return status;
}
