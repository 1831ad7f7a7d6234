/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/advise/gpu_gaps.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/reconstruct/interval.h"

enum {
	CLOSE_NS = 10000, /* from the end of a wait to the end of what was waited for */
	WAKE_NS = 100000, /* so long after it a call that waited for it may come back */
	MANY_SYNCS = 16,  /* that begin in other threads after the one that a gap follows */
};

struct work { /* a kernel or a copy */
	int64_t start_ns, end_ns;
	int32_t launch;
	const char *name;
	bool is_comm;
};

struct entry { /* into an operation that nobody leaves before all have entered */
	int64_t at_ns;
	int32_t group;
	bool is_last;
};

struct walk {
	const struct lw_run *run;
	const struct lw_gpu_span *span;
	const struct lw_gaps_asked *asked;
	struct lw_intervals waits;    /* of the host */
	lw_vec(struct entry) entries; /* of the rank, by time */
	int64_t busy_ns;              /* until then something ran; INT64_MIN: nothing yet */
	size_t wait;  /* the first that ends after the gap's begin, or just before */
	size_t sync;  /* the first wait for the device that does not begin before the gap */
	int32_t told; /* the last of those whose place is known */
	size_t entry; /* the first that is not before the gap's end */
	size_t hint;  /* of lw_gpu_span_has() */
	size_t first; /* step in which the counted time that @hint is in began without a break */
	size_t seen;  /* step before which all breaks are known */
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
		int32_t last = batch->group == LW_NONE ? LW_NONE : walk->asked->last[batch->group];
		struct entry entry = {lw_batch_wire(batch).start_ns, batch->group, false};

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

static void keep_longest(struct lw_gap longest[LW_GAP_N_LONGEST], struct lw_gap gap)
{
	for (size_t i = 0; i < LW_GAP_N_LONGEST; i++) {
		struct lw_gap old = longest[i];

		if (old.name && old.end_ns - old.start_ns >= gap.end_ns - gap.start_ns)
			continue;
		longest[i] = gap;
		if (!old.name)
			return;
		gap = old;
	}
}

static void add_cost(
	struct lw_gpu_idle *idle, struct walk *walk, enum lw_gap_cause cause, int64_t end_ns)
{
	double ns = (double)(end_ns - walk->busy_ns);
	const struct entry *entry;

	while (walk->entry < walk->entries.n && walk->entries.at[walk->entry].at_ns < end_ns)
		walk->entry++;
	if (walk->entry == walk->entries.n) {
		idle->free_ns[cause] += ns;
		return;
	}
	entry = &walk->entries.at[walk->entry];
	if (!entry->is_last)
		return;
	idle->held_ns[cause] += ns;
	if (walk->asked->held_ns && cause == walk->asked->cause)
		walk->asked->held_ns[entry->group] += ns / walk->span->n;
}

/* Where the thread that launched what ended the gap was meanwhile, or while it waited before. */
static int add_place(struct walk *walk, enum lw_gap_cause cause, struct lw_gap *gap, uint32_t tid)
{
	struct lw_host_places *places = walk->asked->places;
	int64_t start_ns = gap->start_ns, end_ns = gap->end_ns;
	int status;

	if (!places || cause != walk->asked->cause)
		return LW_OK;
	if (gap->sync != LW_NONE) {
		if (gap->sync == walk->told)
			return LW_OK;
		walk->told = gap->sync;
		start_ns = walk->span->rank->gpu.syncs.at[gap->sync].start_ns;
		end_ns = walk->span->rank->gpu.syncs.at[gap->sync].end_ns;
	}
	status = lw_host_ranges_find(&places->ranges, start_ns, end_ns, tid, &gap->where);
	if (status == LW_OK)
		status = lw_host_places_add(places, start_ns, end_ns, tid);
	return status;
}

/* The wait for the device after which thread @tid launched what ended the gap before @end_ns; LW_NONE. */
static int32_t sync_before(struct walk *walk, int64_t end_ns, uint32_t tid)
{
	const struct lw_gpu_rank *gpu = &walk->span->rank->gpu;

	while (walk->sync < gpu->syncs.n && gpu->syncs.at[walk->sync].start_ns < walk->busy_ns)
		walk->sync++;
	for (size_t i = walk->sync; i > 0 && i + MANY_SYNCS > walk->sync; i--) {
		const struct lw_gpu_sync *sync = &gpu->syncs.at[i - 1];

		if (sync->op != LW_GPU_SYNC_STREAM_WAIT_EVENT && sync->tid == tid &&
			sync->end_ns >= walk->busy_ns - CLOSE_NS &&
			sync->end_ns <= walk->busy_ns + WAKE_NS && sync->end_ns <= end_ns)
			return (int32_t)(i - 1);
	}
	return LW_NONE;
}

static int add_gap(struct lw_gpu_idle *idle, struct walk *walk, const struct work *work)
{
	const struct lw_gpu_launch *launch;
	int64_t gap_ns = work->start_ns - walk->busy_ns, wait_ns;
	enum lw_gap_cause cause = gap_ns < LW_GAP_SHORT_NS ? LW_GAP_LAUNCHING : LW_GAP_AWAY;
	struct lw_gap gap = {walk->busy_ns, work->start_ns, work->name, {0}, LW_NONE};
	bool follows;

	if (work->is_comm)
		return LW_OK;
	if (work->launch == LW_NONE) {
		idle->n_unknown++;
		return LW_OK;
	}
	launch = &walk->span->rank->gpu.launches.at[work->launch];
	if (launch->start_ns <= walk->busy_ns)
		return LW_OK; /* it waited for something on the device */
	wait_ns = waited_ns(walk, work->start_ns, &follows);
	if (2 * wait_ns >= gap_ns || (cause == LW_GAP_LAUNCHING && follows)) {
		gap.sync = sync_before(walk, launch->start_ns, launch->tid);
		cause = gap.sync == LW_NONE ? LW_GAP_AFTER_WAIT : LW_GAP_AFTER_SYNC;
	}
	idle->n[cause]++;
	idle->ns[cause] += (double)gap_ns;
	add_cost(idle, walk, cause, work->start_ns);
	if (add_place(walk, cause, &gap, launch->tid) < 0)
		return LW_ERR_NOMEM;
	keep_longest(idle->longest[cause], gap);
	return LW_OK;
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

/* What lies before counted time is none of it: between two windows of a profiler, and before the first kernel, nothing
 * idles. */
static void leave_out_pause(struct walk *walk)
{
	const struct lw_gpu_span *span = walk->span;
	const struct lw_step *steps = span->rank->steps.at;
	int64_t from_ns = span->first_ns;

	if (walk->busy_ns == INT64_MIN)
		return;
	if (span->times != &span->rank->gpu.whole) {
		for (; walk->seen < walk->hint; walk->seen++)
			if (steps[walk->seen].excluded ||
				steps[walk->seen].end_ns != steps[walk->seen + 1].start_ns)
				walk->first = walk->seen + 1;
		from_ns = steps[walk->first].start_ns;
	}
	if (walk->busy_ns < from_ns)
		walk->busy_ns = from_ns;
}

int lw_gpu_gaps(const struct lw_run *run, const struct lw_gpu_span *span,
	const struct lw_gaps_asked *asked, struct lw_gpu_idle *idle)
{
	const struct lw_gpu_rank *gpu = &span->rank->gpu;
	struct walk walk = {
		.run = run, .span = span, .asked = asked, .busy_ns = INT64_MIN, .told = LW_NONE};
	size_t k = 0, c = 0, n_kernels = 0;
	struct work work;
	int status = collect_waits(&walk) | collect_entries(&walk) ? LW_ERR_NOMEM : LW_OK;

	*idle = (struct lw_gpu_idle){0};
	while (status == LW_OK && next_work(run, gpu, &k, &c, &work)) {
		/* the gap before the first kernel of a step is of the step before, which it ends */
		if (lw_gpu_span_has(span, work.start_ns - 1, &walk.hint)) {
			bool computes = k > n_kernels && !work.is_comm;

			idle->n_kernels += computes;
			idle->kernel_ns += computes ? (double)(work.end_ns - work.start_ns) : 0;
			leave_out_pause(&walk);
			if (walk.busy_ns != INT64_MIN && work.start_ns > walk.busy_ns)
				status = add_gap(idle, &walk, &work);
		}
		n_kernels = k;
		if (work.end_ns > walk.busy_ns)
			walk.busy_ns = work.end_ns;
	}
	lw_vec_free(&walk.waits);
	lw_vec_free(&walk.entries);
	return status;
}
