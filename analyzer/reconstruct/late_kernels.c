/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late_kernels.c - of a run without a framework that has kernels: who came late to an operation, and whose doing that was.
 *
 * All leave an operation together, so who was shortest in it came last, by the difference. Who had waited for others in an
 * operation before, one that the first to come had no part in, was made late by them: groups of fewer ranks pass lateness on.
 * So operations of a step are gone through in order, and what a rank had waited, more than the first had, since both last left
 * an operation together, is not its own doing. Where a step begins nobody owes anybody anything.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/reconstruct/late.h"

enum { NO_PART = -1 };

struct walk { /* through the operations of a step; all by rank */
	const struct lw_run *run;
	size_t step;
	uint32_t *at; /* how many of its operations are behind it */
	int64_t *waited_ns;
	int64_t *
		met_ns; /* [rank][other]: waited_ns of rank when both last left an operation together */
	bool has_met;     /* some of it is not 0 */
	int32_t *made_by; /* for whom it waited last; LW_NONE */
	int64_t *late_ns; /* of the operation at hand, against the first; NO_PART */
	int64_t *own_ns;  /* of that its own doing */
	void (*see)(struct walk *walk, const struct lw_group *group);
	void *context;
};

static const struct lw_batch *part_of(
	const struct lw_run *run, const struct lw_group *group, size_t r)
{
	return lw_group_batch(run, group, r);
}

static int64_t wire_ns(const struct lw_batch *batch)
{
	struct lw_interval wire = lw_batch_wire(batch);

	return wire.end_ns - wire.start_ns;
}

/* How much later than the first each rank came. Return: false: not known. */
static bool fill_late(const struct lw_run *run, const struct lw_group *group, int64_t *late_ns)
{
	int64_t longest_ns = 0;

	if (group->n_ranks < group->n_wanted || group->n_ranks < 2 || !lw_group_waits(group->op))
		return false;
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = part_of(run, group, r);

		late_ns[r] = NO_PART;
		if (!batch)
			continue;
		if (!lw_gpu_has(&run->ranks.at[r]) || batch->wire_start_ns == LW_NS_UNKNOWN)
			return false;
		late_ns[r] = wire_ns(batch);
		longest_ns = late_ns[r] > longest_ns ? late_ns[r] : longest_ns;
	}
	for (size_t r = 0; r < run->ranks.n; r++)
		if (late_ns[r] != NO_PART)
			late_ns[r] = longest_ns - late_ns[r];
	return true;
}

/* ---- in order ----------------------------------------------------------------------------------------- */

static const struct lw_step *step_of(const struct walk *walk, size_t r)
{
	const struct lw_rank *rank = &walk->run->ranks.at[r];

	return walk->step < rank->steps.n ? &rank->steps.at[walk->step] : NULL;
}

/* The next of rank @r; NULL: none is left. */
static const struct lw_batch *next_of(const struct walk *walk, size_t r)
{
	const struct lw_step *step = step_of(walk, r);

	if (!step || walk->at[r] >= step->n_batches)
		return NULL;
	return &walk->run->ranks.at[r].batches.at[step->first_batch + walk->at[r]];
}

/* Nobody has anything before @group that is not behind it. */
static bool is_next(const struct walk *walk, const struct lw_group *group)
{
	for (size_t r = 0; r < walk->run->ranks.n; r++) {
		const struct lw_batch *batch = part_of(walk->run, group, r);
		const struct lw_batch *next = next_of(walk, r);

		if (batch && next && batch > next && batch->step == next->step)
			return false;
	}
	return true;
}

static void fill_own(struct walk *walk)
{
	size_t n = walk->run->ranks.n, first = n;

	for (size_t r = 0; r < n; r++)
		if (walk->late_ns[r] != NO_PART &&
			(first == n || walk->late_ns[r] < walk->late_ns[first]))
			first = r;
	for (size_t r = 0; r < n; r++) {
		int64_t late_ns = walk->late_ns[r], more_ns;

		walk->own_ns[r] = late_ns;
		if (late_ns == NO_PART)
			continue;
		more_ns = walk->waited_ns[r] - walk->met_ns[r * n + first] -
			  (walk->waited_ns[first] - walk->met_ns[first * n + r]);
		if (more_ns > 0)
			walk->own_ns[r] = more_ns < late_ns ? late_ns - more_ns : 0;
	}
}

/* Whose doing it is that @r comes late: its own, or that of whom it waited for. */
static int32_t root_of(const struct walk *walk, size_t r)
{
	return 2 * walk->own_ns[r] >= walk->late_ns[r] ? (int32_t)r : walk->made_by[r];
}

static size_t last_of(const struct walk *walk)
{
	size_t last = 0;

	for (size_t r = 1; r < walk->run->ranks.n; r++)
		if (walk->late_ns[r] > walk->late_ns[last])
			last = r;
	return last;
}

/* Nobody owes anybody anything. */
static void forget(struct walk *walk)
{
	size_t n = walk->run->ranks.n;

	memset(walk->waited_ns, 0, n * sizeof(*walk->waited_ns));
	if (walk->has_met)
		memset(walk->met_ns, 0, n * n * sizeof(*walk->met_ns));
	walk->has_met = false;
}

/* What each waited in it is added; of those that leave it together it counts against others only. */
static void meet(struct walk *walk)
{
	size_t n = walk->run->ranks.n;

	for (size_t r = 0; r < n; r++)
		for (size_t other = 0; other < n && walk->late_ns[r] != NO_PART; other++)
			if (walk->late_ns[other] != NO_PART)
				walk->met_ns[r * n + other] = walk->waited_ns[r];
	walk->has_met = true;
}

static void leave(struct walk *walk, const struct lw_group *group)
{
	size_t n = walk->run->ranks.n, last = last_of(walk);
	int32_t root = root_of(walk, last);

	for (size_t r = 0; r < n; r++) {
		int64_t waited_ns = walk->late_ns[last] - walk->late_ns[r];

		if (walk->late_ns[r] == NO_PART)
			continue;
		walk->waited_ns[r] += waited_ns;
		if (waited_ns >= LW_LATE_RESOLUTION_NS)
			walk->made_by[r] = root;
	}
	if (group->n_ranks == n)
		forget(walk);
	else
		meet(walk);
}

/* Sends, broadcasts, operations with records missing: all of it may be waiting, for nobody knows whom. */
static void leave_unknown(struct walk *walk, size_t r, const struct lw_batch *batch)
{
	walk->waited_ns[r] += wire_ns(batch);
	walk->made_by[r] = LW_NONE;
}

static void pass(struct walk *walk, const struct lw_group *group)
{
	bool is_known = fill_late(walk->run, group, walk->late_ns);

	if (is_known) {
		fill_own(walk);
		walk->see(walk, group);
		leave(walk, group);
	}
	for (size_t r = 0; r < walk->run->ranks.n; r++) {
		const struct lw_batch *batch = part_of(walk->run, group, r);

		if (!batch || batch != next_of(walk, r))
			continue;
		if (!is_known)
			leave_unknown(walk, r, batch);
		walk->at[r]++;
	}
}

/* As far as rank @r comes before it has to wait. Return: it came further. */
static bool go_on(struct walk *walk, size_t r)
{
	const struct lw_batch *next;
	bool has_gone = false;

	while ((next = next_of(walk, r))) {
		if (next->group == LW_NONE) {
			leave_unknown(walk, r, next);
			walk->at[r]++;
		} else if (is_next(walk, &walk->run->groups.at[next->group])) {
			pass(walk, &walk->run->groups.at[next->group]);
		} else {
			break;
		}
		has_gone = true;
	}
	return has_gone;
}

/* Ranks that have operations in different orders (of several streams) hold each other up: the first one goes on. */
static bool force(struct walk *walk)
{
	for (size_t r = 0; r < walk->run->ranks.n; r++)
		if (next_of(walk, r)) {
			walk->at[r]++;
			return true;
		}
	return false;
}

static void walk_step(struct walk *walk, size_t s)
{
	size_t n = walk->run->ranks.n;
	bool has_gone = true;

	walk->step = s;
	memset(walk->at, 0, n * sizeof(*walk->at));
	forget(walk);
	for (size_t r = 0; r < n; r++)
		walk->made_by[r] = LW_NONE;
	while (has_gone) {
		has_gone = false;
		for (size_t r = 0; r < n; r++)
			has_gone |= go_on(walk, r);
		has_gone = has_gone || force(walk);
	}
}

static bool make_walk(struct walk *walk, const struct lw_run *run)
{
	size_t n = run->ranks.n;

	*walk = (struct walk){.run = run,
		.at = calloc(n + 1, sizeof(*walk->at)),
		.waited_ns = calloc(n + 1, sizeof(*walk->waited_ns)),
		.met_ns = calloc(n * n + 1, sizeof(*walk->met_ns)),
		.made_by = calloc(n + 1, sizeof(*walk->made_by)),
		.late_ns = calloc(n + 1, sizeof(*walk->late_ns)),
		.own_ns = calloc(n + 1, sizeof(*walk->own_ns))};
	return walk->at && walk->waited_ns && walk->met_ns && walk->made_by && walk->late_ns &&
	       walk->own_ns;
}

static void end_walk(struct walk *walk)
{
	free(walk->at);
	free(walk->waited_ns);
	free(walk->met_ns);
	free(walk->made_by);
	free(walk->late_ns);
	free(walk->own_ns);
}

/* ---- what is asked ------------------------------------------------------------------------------------ */

struct latest {
	int64_t most_ns, *of_it_ns; /* of the operation with the most of all; NO_PART */
	int64_t *most_of_rank_ns;   /* NO_PART: it had a part in none */
};

static void see_latest(struct walk *walk, const struct lw_group *group)
{
	struct latest *latest = walk->context;
	size_t n = walk->run->ranks.n;
	int64_t most_ns = NO_PART;

	(void)group;
	for (size_t r = 0; r < n; r++) {
		int64_t own_ns = walk->own_ns[r];

		most_ns = own_ns > most_ns ? own_ns : most_ns;
		if (own_ns > latest->most_of_rank_ns[r])
			latest->most_of_rank_ns[r] = own_ns;
	}
	if (most_ns <= latest->most_ns)
		return;
	latest->most_ns = most_ns;
	memcpy(latest->of_it_ns, walk->own_ns, n * sizeof(*walk->own_ns));
}

bool lw_kernels_late(const struct lw_run *run, size_t s, int64_t *late_ns)
{
	int64_t *scratch = calloc(run->ranks.n + 1, sizeof(*scratch));
	struct latest latest = {NO_PART, late_ns, scratch};
	struct walk walk;
	bool is_known = make_walk(&walk, run) && scratch;

	for (size_t r = 0; r < run->ranks.n && is_known; r++)
		late_ns[r] = scratch[r] = NO_PART;
	walk.see = see_latest;
	walk.context = &latest;
	if (is_known)
		walk_step(&walk, s);
	for (size_t r = 0; r < run->ranks.n && is_known; r++) {
		if (late_ns[r] == NO_PART)
			late_ns[r] = scratch[r];
		is_known = late_ns[r] != NO_PART;
	}
	end_walk(&walk);
	free(scratch);
	return is_known;
}

int32_t lw_group_last(const struct lw_run *run, const struct lw_group *group, int64_t *ret_ns)
{
	int64_t longest_ns = -1, shortest_ns = INT64_MAX;
	int32_t last = LW_NONE;

	if (group->n_ranks < group->n_wanted || group->n_ranks < 2 || !lw_group_waits(group->op))
		return LW_NONE;
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = part_of(run, group, r);

		if (!batch)
			continue;
		if (!lw_gpu_has(&run->ranks.at[r]) || batch->wire_start_ns == LW_NS_UNKNOWN)
			return LW_NONE;
		if (wire_ns(batch) > longest_ns)
			longest_ns = wire_ns(batch);
		if (wire_ns(batch) < shortest_ns) {
			shortest_ns = wire_ns(batch);
			last = (int32_t)r;
		}
	}
	*ret_ns = longest_ns - shortest_ns;
	return last;
}

struct waited {
	double *ns, *n; /* by rank: sums */
	bool is_known;
};

/* Of those that came last together each counts that came so by its own doing, or whom it had waited for. */
static void see_waited(struct walk *walk, const struct lw_group *group)
{
	struct waited *waited = walk->context;
	size_t n = walk->run->ranks.n;
	int64_t late_ns = walk->late_ns[last_of(walk)];

	(void)group;
	waited->is_known = true;
	for (size_t root = 0; root < n && late_ns > 0; root++) {
		bool is_waited_for = false;

		for (size_t r = 0; r < n && !is_waited_for; r++)
			is_waited_for =
				walk->late_ns[r] != NO_PART &&
				late_ns - walk->late_ns[r] <
					(late_ns < LW_LATE_RESOLUTION_NS ? 1
									 : LW_LATE_RESOLUTION_NS) &&
				root_of(walk, r) == (int32_t)root;
		if (!is_waited_for)
			continue;
		waited->ns[root] += (double)late_ns;
		waited->n[root]++;
	}
}

bool lw_run_waited(const struct lw_run *run, double *ns, double *n)
{
	struct waited waited = {ns, n, false};
	struct walk walk;
	bool has_room = make_walk(&walk, run);
	double n_steps = 0;

	memset(ns, 0, run->ranks.n * sizeof(*ns));
	memset(n, 0, run->ranks.n * sizeof(*n));
	walk.see = see_waited;
	walk.context = &waited;
	for (size_t s = 0; has_room && run->ranks.n && s < run->ranks.at[0].steps.n; s++) {
		if (run->ranks.at[0].steps.at[s].excluded)
			continue;
		n_steps++;
		walk_step(&walk, s);
	}
	end_walk(&walk);
	for (size_t r = 0; r < run->ranks.n && waited.is_known; r++) {
		ns[r] /= n_steps;
		n[r] /= n_steps;
	}
	return waited.is_known;
}
