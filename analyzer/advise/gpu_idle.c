/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_idle.c - a GPU that has nothing to do because the host launches late: for launching itself takes longer than the
 * kernels, or because the host does something else for long, such as waiting for input.
 *
 * Where no kernel and no copy runs and what ends that was launched after it had begun, the GPU waited for the
 * host. Short ones are launching; in long ones the host was away. Those are told apart in which the host itself waited, for
 * the device or for gradients, or that follow such a wait and are short: it could not launch before. And those that a
 * kernel of NCCL ends: when that is launched is up to the framework, and to other ranks.
 *
 * Ranks leave an operation together: what a GPU idled before one that another rank came to later cost nobody anything. Gained
 * is at most what whoever came last idled before it; of all ranks that is added up.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/advise/gpu_span.h"
#include "analyzer/kernel_text.h"
#include "analyzer/reconstruct/interval.h"
#include "base/units.h"

enum {
	SHORT_NS =
		1000000, /* an eager framework takes 5 to 500 us from launch to launch; who is away is so for longer */
	CLOSE_NS = 10000, /* from the end of a wait to the end of what was waited for */
};
#define WORTH_FRAC 0.05 /* of a step */

enum cause { LAUNCHING, AWAY, AFTER_WAIT, N_CAUSES };

struct gap {
	int64_t start_ns, end_ns;
	const char *name; /* of what ended it; NULL: there is no gap */
};
enum { N_LONGEST = 8 };

struct idle { /* of one rank, in counted steps */
	double n[N_CAUSES], ns[N_CAUSES];
	double held_ns[N_CAUSES];    /* of ns: before operations that this rank came last to */
	double free_ns[N_CAUSES];    /* of ns: where it is not known for which operation */
	double n_kernels, kernel_ns; /* those that compute, for their mean length */
	struct gap longest[N_CAUSES][N_LONGEST]; /* longest first */
	uint64_t n_unknown;                      /* the launch was not recorded */
};

struct work { /* a kernel or a copy */
	int64_t start_ns, end_ns;
	int32_t launch;
	const char *name;
	bool is_comm;
};

struct entry { /* into an operation that nobody leaves before all have entered */
	int64_t at_ns;
	bool is_last;
};

struct walk {
	const struct lw_run *run;
	const struct lw_gpu_span *span;
	const int32_t *last;          /* of each group: index of the rank that came last, LW_NONE */
	struct lw_intervals waits;    /* of the host */
	lw_vec(struct entry) entries; /* of the rank, by time */
	int64_t busy_ns;              /* until then something ran; INT64_MIN: nothing yet */
	size_t wait;  /* the first that ends after the gap's begin, or just before */
	size_t entry; /* the first that is not before the gap's end */
	size_t hint;  /* of lw_gpu_span_has() */
	size_t first; /* step in which the counted time that @hint is in began without a break */
};

static int by_time(const void *a, const void *b)
{
	int64_t x = ((const struct entry *)a)->at_ns, y = ((const struct entry *)b)->at_ns;

	return x < y ? -1 : x > y;
}

/* Those of operations that are known of all their ranks. */
static int collect_entries(struct walk *walk)
{
	const struct lw_rank *rank = walk->span->rank;
	const struct lw_batch *batch;

	lw_vec_foreach (batch, &rank->batches) {
		int32_t last = batch->group == LW_NONE ? LW_NONE : walk->last[batch->group];
		struct entry entry = {lw_batch_wire(batch).start_ns, false};

		if (last == LW_NONE)
			continue;
		entry.is_last = &walk->run->ranks.at[last] == rank;
		if (lw_vec_push(&walk->entries, entry) < 0)
			return LW_ERR_NOMEM;
	}
	if (walk->entries.n)
		qsort(walk->entries.at, walk->entries.n, sizeof(*walk->entries.at), by_time);
	return LW_OK;
}

static int collect_waits(struct walk *walk)
{
	const struct lw_rank *rank = walk->span->rank;
	const struct lw_gpu_sync *sync;
	const struct lw_interval *wait;
	int status = LW_OK;

	lw_vec_foreach (sync, &rank->gpu.syncs)
		if (sync->op != LW_GPU_SYNC_STREAM_WAIT_EVENT)
			status |= lw_intervals_add(&walk->waits, sync->start_ns, sync->end_ns);
	lw_vec_foreach (wait, &rank->waits)
		status |= lw_intervals_add(&walk->waits, wait->start_ns, wait->end_ns);
	lw_intervals_unite(&walk->waits, 0);
	return status ? LW_ERR_NOMEM : LW_OK;
}

/* How long the host waited in the gap before @end_ns. @ret_follows: or until just before it. */
static int64_t waited_ns(struct walk *walk, int64_t end_ns, bool *ret_follows)
{
	const struct lw_intervals *waits = &walk->waits;
	int64_t ns = 0;

	while (walk->wait < waits->n && waits->at[walk->wait].end_ns < walk->busy_ns - CLOSE_NS)
		walk->wait++;
	*ret_follows = walk->wait < waits->n && waits->at[walk->wait].start_ns < walk->busy_ns;
	for (size_t i = walk->wait; i < waits->n && waits->at[i].start_ns < end_ns; i++) {
		int64_t from_ns = waits->at[i].start_ns, to_ns = waits->at[i].end_ns;

		from_ns = from_ns > walk->busy_ns ? from_ns : walk->busy_ns;
		to_ns = to_ns < end_ns ? to_ns : end_ns;
		ns += to_ns > from_ns ? to_ns - from_ns : 0;
	}
	return ns;
}

static void keep_longest(struct gap longest[N_LONGEST], struct gap gap)
{
	for (size_t i = 0; i < N_LONGEST; i++) {
		struct gap old = longest[i];

		if (old.name && old.end_ns - old.start_ns >= gap.end_ns - gap.start_ns)
			continue;
		longest[i] = gap;
		if (!old.name)
			return;
		gap = old;
	}
}

static void add_cost(struct idle *idle, struct walk *walk, enum cause cause, int64_t end_ns)
{
	double ns = (double)(end_ns - walk->busy_ns);

	while (walk->entry < walk->entries.n && walk->entries.at[walk->entry].at_ns < end_ns)
		walk->entry++;
	if (walk->entry == walk->entries.n)
		idle->free_ns[cause] += ns;
	else if (walk->entries.at[walk->entry].is_last)
		idle->held_ns[cause] += ns;
}

static void add_gap(struct idle *idle, struct walk *walk, const struct work *work)
{
	const struct lw_gpu_rank *gpu = &walk->span->rank->gpu;
	int64_t gap_ns = work->start_ns - walk->busy_ns, wait_ns;
	enum cause cause = gap_ns < SHORT_NS ? LAUNCHING : AWAY;
	bool follows;

	if (work->is_comm)
		return;
	if (work->launch == LW_NONE) {
		idle->n_unknown++;
		return;
	}
	if (gpu->launches.at[work->launch].start_ns <= walk->busy_ns)
		return; /* it waited for something on the device */
	wait_ns = waited_ns(walk, work->start_ns, &follows);
	if (2 * wait_ns >= gap_ns || (cause == LAUNCHING && follows))
		cause = AFTER_WAIT;
	idle->n[cause]++;
	idle->ns[cause] += (double)gap_ns;
	add_cost(idle, walk, cause, work->start_ns);
	keep_longest(idle->longest[cause], (struct gap){walk->busy_ns, work->start_ns, work->name});
}

/* Of kernel @k and copy @c the one that began earlier. */
static bool next_work(const struct lw_run *run, const struct lw_gpu_rank *gpu, size_t *k, size_t *c,
	struct work *ret_work)
{
	const struct lw_kernel *kernel = *k < gpu->kernels.n ? &gpu->kernels.at[*k] : NULL;
	const struct lw_copy *copy = *c < gpu->copies.n ? &gpu->copies.at[*c] : NULL;

	if (kernel && (!copy || kernel->start_ns <= copy->start_ns)) {
		*ret_work = (struct work){kernel->start_ns, kernel->end_ns, kernel->launch,
			run->gpu.names.at[kernel->name].name,
			kernel->gpu_class == LW_GPU_COMMUNICATION};
		++*k;
		return true;
	}
	if (copy) {
		*ret_work = (struct work){copy->start_ns, copy->end_ns, copy->launch,
			lw_copy_op_name(copy->op), false};
		++*c;
	}
	return copy != NULL;
}

/* What lies before counted time is none of it: between two windows of a profiler nothing idles. */
static void leave_out_pause(struct walk *walk)
{
	const struct lw_gpu_span *span = walk->span;
	const struct lw_step *steps = span->rank->steps.at;

	if (span->times == &span->rank->gpu.whole || walk->busy_ns == INT64_MIN)
		return;
	for (size_t s = walk->first; s < walk->hint; s++)
		if (steps[s].excluded || steps[s].end_ns != steps[s + 1].start_ns)
			walk->first = s + 1;
	if (walk->busy_ns < steps[walk->first].start_ns)
		walk->busy_ns = steps[walk->first].start_ns;
}

static int look(const struct lw_run *run, const struct lw_gpu_span *span, const int32_t *last,
	struct idle *idle)
{
	const struct lw_gpu_rank *gpu = &span->rank->gpu;
	struct walk walk = {.run = run, .span = span, .last = last, .busy_ns = INT64_MIN};
	size_t k = 0, c = 0, n_kernels = 0;
	struct work work;
	int status = collect_waits(&walk) | collect_entries(&walk) ? LW_ERR_NOMEM : LW_OK;

	*idle = (struct idle){0};
	while (status == LW_OK && next_work(run, gpu, &k, &c, &work)) {
		if (lw_gpu_span_has(span, work.start_ns, &walk.hint)) {
			bool computes = k > n_kernels && !work.is_comm;

			idle->n_kernels += computes;
			idle->kernel_ns += computes ? (double)(work.end_ns - work.start_ns) : 0;
			leave_out_pause(&walk);
			if (walk.busy_ns != INT64_MIN && work.start_ns > walk.busy_ns)
				add_gap(idle, &walk, &work);
		}
		n_kernels = k;
		if (work.end_ns > walk.busy_ns)
			walk.busy_ns = work.end_ns;
	}
	lw_vec_free(&walk.waits);
	lw_vec_free(&walk.entries);
	return status;
}

/* ---- all ranks ------------------------------------------------------------------------------------ */

struct found { /* of one cause, over all ranks */
	struct lw_gpu_span
		span; /* of the rank that costs the run most by it; span.rank NULL: of none */
	struct idle idle;
	double gain_ns;   /* at most, a step */
	double length_ns; /* of a step, mean of the ranks */
	uint32_t n_alike,
		n_known; /* ranks whose GPU idles so for as much of its step as is worth telling; all */
	uint64_t n_unknown;
	bool has_held; /* gain_ns: it is known who came last to operations */
};

static double cost_ns(const struct lw_gpu_span *span, const struct idle *idle, enum cause cause)
{
	return (idle->held_ns[cause] + idle->free_ns[cause]) / span->n;
}

static int search_ranks(
	const struct lw_run *run, enum cause cause, const int32_t *last, struct found *ret)
{
	const struct lw_rank *rank;
	struct lw_gpu_span span;
	double held_ns = 0, free_ns = 0, sum_ns = 0;
	struct idle idle;

	*ret = (struct found){0};
	lw_vec_foreach (rank, &run->ranks) {
		if (!lw_gpu_span(run, rank, &span))
			continue;
		if (look(run, &span, last, &idle) < 0)
			return LW_ERR_NOMEM;
		ret->n_unknown += idle.n_unknown;
		ret->n_known++;
		ret->n_alike += idle.ns[cause] >= WORTH_FRAC * span.n * span.length_ns;
		sum_ns += span.length_ns;
		held_ns += idle.held_ns[cause] / span.n;
		free_ns = fmax(free_ns, idle.free_ns[cause] / span.n);
		if (cost_ns(&span, &idle, cause) > 0 &&
			(!ret->span.rank || cost_ns(&span, &idle, cause) >
						    cost_ns(&ret->span, &ret->idle, cause))) {
			ret->span = span;
			ret->idle = idle;
		}
	}
	ret->length_ns = ret->n_known ? sum_ns / ret->n_known : 0;
	ret->has_held = held_ns > 0;
	ret->gain_ns = fmin(held_ns + free_ns, ret->length_ns);
	if (ret->gain_ns < WORTH_FRAC * ret->length_ns)
		ret->span.rank = NULL;
	return LW_OK;
}

static int search(const struct lw_run *run, enum cause cause, struct found *ret)
{
	int32_t *last = calloc(run->groups.n + 1, sizeof(*last));
	int64_t late_ns;
	int status;

	if (!last)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", run->groups.n);
	for (size_t g = 0; g < run->groups.n; g++)
		last[g] = lw_group_last(run, &run->groups.at[g], &late_ns);
	status = search_ranks(run, cause, last, ret);
	free(last);
	return status;
}

/* Of how many ranks, and what of it counts. */
static const char *others_text(const struct lw_run *run, const struct found *found, char text[192])
{
	int n = 0;

	text[0] = '\0';
	if (found->n_alike > 1)
		n = snprintf(text, 192, "; %u of %u ranks idle so for %.0f %% of a step or more",
			found->n_alike, found->n_known, 100 * WORTH_FRAC);
	if (found->has_held)
		snprintf(text + n, 192 - (size_t)n,
			"; only what a rank idles before operations that it comes last to counts");
	else if (run->size > 1)
		snprintf(text + n, 192 - (size_t)n,
			"; how much of that other ranks would be waited for instead is not known");
	return text;
}

static int find_launching(const struct lw_adviser *self, const struct lw_run *run,
	struct lw_advice_list *list, const struct found *found)
{
	const struct lw_gpu_span *span = &found->span;
	const struct idle *idle = &found->idle;
	char unit[4][LW_UNIT_TEXT_BYTES], kernels[96] = "", others[192];

	if (idle->n_kernels > 0)
		snprintf(kernels, sizeof(kernels), "; kernels that compute take %s each, %.0f %s",
			lw_ns_format(idle->kernel_ns / idle->n_kernels, unit[2]),
			idle->n_kernels / span->n, span->each);
	return lw_advise_find(list, self->id,
		"the GPU of rank %d waits for the host to launch: %.0f times %s nothing ran for %s on average, and the next kernel was launched only then, %s in all%s. Launch less often: CUDA graphs (torch.compile(mode=\"reduce-overhead\"), torch.cuda.CUDAGraph), fused optimizers (fused=True, foreach=True), a larger batch: at most %.1f %% less%s; its error is not known; recording itself makes launches slower",
		span->rank->rank, idle->n[LAUNCHING] / span->n, span->each,
		lw_ns_format(idle->ns[LAUNCHING] / idle->n[LAUNCHING], unit[0]),
		lw_ns_format(idle->ns[LAUNCHING] / span->n, unit[1]), kernels,
		100 * found->gain_ns / found->length_ns, others_text(run, found, others));
}

static int advise_launching(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	struct found found, away;
	int status = search(run, LAUNCHING, &found);

	if (status == LW_OK && found.span.rank)
		return find_launching(self, run, list, &found);
	if (status == LW_OK && found.n_unknown)
		status = search(run, AWAY, &away);
	if (status == LW_OK && found.n_unknown && !away.span.rank)
		status = lw_advise_note(list, self->id,
			"why GPUs were idle %llu times cannot be told: the calls that launched what came next were not recorded",
			(unsigned long long)found.n_unknown);
	return status;
}

static int advise_away(
	const struct lw_adviser *self, struct lw_run *run, struct lw_advice_list *list)
{
	char unit[2][LW_UNIT_TEXT_BYTES], name[LW_KERNEL_TEXT_BYTES], others[192];
	struct found found;
	int status = search(run, AWAY, &found);
	const struct lw_gpu_span *span = &found.span;
	const struct gap *longest = &found.idle.longest[AWAY][0];

	if (status < 0 || !span->rank)
		return status;
	return lw_advise_find(list, self->id,
		"the GPU of rank %d waits for a host that does something else: %.2g times %s nothing ran for %.0f ms or longer, and nothing was launched, %s in all (the longest %s, %.3f ms after the run begins, before %.80s): the next batch of input that is not there yet, other work of Python, or collecting garbage. Look at the loader first (torch: DataLoader with more num_workers, persistent_workers, prefetch_factor): at most %.1f %% less%s; its error is not known",
		span->rank->rank, found.idle.n[AWAY] / span->n, span->each, SHORT_NS / 1e6,
		lw_ns_format(found.idle.ns[AWAY] / span->n, unit[0]),
		lw_ns_format((double)(longest->end_ns - longest->start_ns), unit[1]),
		(double)(longest->start_ns - run->first_ns) / 1e6,
		lw_kernel_text(longest->name, name), 100 * found.gain_ns / found.length_ns,
		others_text(run, &found, others));
}

/* Of the rank that is named, the longest. */
static int find_places(const struct lw_run *run, enum cause cause, struct lw_idle_places *ret)
{
	struct found found;
	int status = search(run, cause, &found);

	for (size_t i = 0; status == LW_OK && found.span.rank && i < N_LONGEST; i++) {
		const struct gap *gap = &found.idle.longest[cause][i];
		struct lw_idle_place place = {found.span.rank->rank,
			lw_rank_step_at(found.span.rank, gap->start_ns),
			gap->start_ns - run->first_ns, gap->end_ns - gap->start_ns, gap->name};

		if (!gap->name)
			break;
		status = lw_vec_push(&ret->at, place);
	}
	return status;
}

static int places_of_launching(const struct lw_run *run, struct lw_idle_places *ret)
{
	return find_places(run, LAUNCHING, ret);
}

static int places_of_away(const struct lw_run *run, struct lw_idle_places *ret)
{
	return find_places(run, AWAY, ret);
}

const struct lw_adviser lw_adviser_gpu_idle = {
	.id = "gpu.idle",
	.title = "A GPU that waits for launches",
	.run = advise_launching,
	.places = places_of_launching,
	.needs_no_replay = true,
	.assumes =
		"Where nothing ran on the GPU and what came next was launched only then, it would have run at once, had it been launched before.",
	.wrong_if =
		"What was launched needs what the host computed meanwhile; or recording itself makes launching slow (compare with `record` without CUPTI).",
	.check =
		"`lapwing tui`, timeline, v and . go through kernels: each says when it was launched.",
};

const struct lw_adviser lw_adviser_gpu_host = {
	.id = "gpu.host",
	.title = "A GPU that waits for a host that does something else",
	.run = advise_away,
	.places = places_of_away,
	.needs_no_replay = true,
	.assumes =
		"Where nothing ran on the GPU and what came next was launched only then, it would have run at once, had it been launched before.",
	.wrong_if =
		"What was launched needs what the host computed meanwhile; or the host was at something that is there only while it is recorded.",
	.check =
		"`lapwing tui`, timeline, v and . go through kernels: each says when it was launched.",
};
