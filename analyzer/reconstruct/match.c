/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.c - the same operation on all its ranks.
 *
 * All members of a process set (or communicator) execute the same operations in the same order. So the
 * sequences of the ranks are laid side by side like the lines of two files in a diff: equal means the
 * same operation on the same tensor names and, where the ranks share a clock and the operation
 * synchronizes, that the two really overlap in time (nobody leaves an allreduce before the last one has
 * entered). A record that one rank lacks leaves a hole and a diag; what follows does not shift.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/run.h"

enum {
	WINDOW_SAME_CLOCK = 32, /* how far to look for the place where two sequences meet again */
	WINDOW_OTHER_CLOCK = 1024, /* times do not help there */
};

struct node { /* a group in the making */
	uint64_t hash;
	int op;
	int64_t clock, max_start_ns, min_end_ns, key;
	size_t slot; /* row of the slots table */
	uint32_t n_ranks;
};
typedef lw_vec(struct node) nodes;

struct item { /* one batch of the rank that is being added */
	uint64_t hash;
	int32_t batch;
};
typedef lw_vec(struct item) items;

struct matcher {
	struct lw_run *run;
	lw_vec(int32_t) slots;  /* n groups x n ranks */
	lw_vec(int64_t) keys;   /* process sets or communicators */
	nodes merged, previous; /* of the key in work */
	nodes all;
	items items;
};

static int64_t key_of(const struct lw_run *run, const struct lw_batch *batch)
{
	return run->is_plain ? batch->comm_key : batch->process_set;
}

static uint64_t hash_of(const struct lw_rank *rank, const struct lw_batch *batch)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)batch->op;

	for (uint32_t i = 0; i < batch->n_members; i++)
		hash = (hash ^ rank->members.at[batch->first_member + i].tensor) *
		       UINT64_C(0x100000001b3);
	return hash * UINT64_C(0x9e3779b97f4a7c15);
}

static bool is_same(const struct node *node, const struct item *item, const struct lw_rank *rank)
{
	const struct lw_batch *batch = &rank->batches.at[item->batch];

	if (node->hash != item->hash)
		return false;
	if (node->clock != rank->clock || !lw_group_waits(node->op))
		return true;
	return node->max_start_ns <= batch->end_ns && batch->start_ns <= node->min_end_ns;
}

static int emit_node(struct matcher *matcher, const struct node *node)
{
	return lw_vec_push(&matcher->merged, *node);
}

/* A batch that no rank before this one had. */
static int emit_new(
	struct matcher *matcher, const struct item *item, size_t rank_index, int64_t key)
{
	const struct lw_rank *rank = &matcher->run->ranks.at[rank_index];
	const struct lw_batch *batch = &rank->batches.at[item->batch];
	struct node node = {.hash = item->hash,
		.op = batch->op,
		.clock = rank->clock,
		.max_start_ns = batch->start_ns,
		.min_end_ns = batch->end_ns,
		.key = key,
		.slot = matcher->slots.n,
		.n_ranks = 1};

	for (size_t i = 0; i < matcher->run->ranks.n; i++)
		if (lw_vec_push(&matcher->slots, i == rank_index ? item->batch : LW_NONE) < 0)
			return LW_ERR_NOMEM;
	return lw_vec_push(&matcher->merged, node);
}

static int emit_joined(
	struct matcher *matcher, const struct node *old, const struct item *item, size_t rank_index)
{
	const struct lw_rank *rank = &matcher->run->ranks.at[rank_index];
	const struct lw_batch *batch = &rank->batches.at[item->batch];
	struct node node = *old;

	if (node.clock == rank->clock) {
		if (batch->start_ns > node.max_start_ns)
			node.max_start_ns = batch->start_ns;
		if (batch->end_ns < node.min_end_ns)
			node.min_end_ns = batch->end_ns;
	}
	node.n_ranks++;
	matcher->slots.at[node.slot + rank_index] = item->batch;
	return lw_vec_push(&matcher->merged, node);
}

/*
 * How many nodes (*@ret_a) and items (*@ret_b) to leave unmatched until the sequences meet again: the
 * fewest in sum. Where they never meet within the window: one, the earlier where the clock tells.
 */
static void find_meeting(const struct matcher *matcher, size_t i, size_t j,
	const struct lw_rank *rank, size_t *ret_a, size_t *ret_b)
{
	const struct node *node = &matcher->previous.at[i];
	const struct lw_batch *batch = &rank->batches.at[matcher->items.at[j].batch];
	size_t window = node->clock == rank->clock ? WINDOW_SAME_CLOCK : WINDOW_OTHER_CLOCK;

	for (size_t d = 1; d <= window; d++)
		for (size_t b = 0; b <= d; b++)
			if (i + d - b < matcher->previous.n && j + b < matcher->items.n &&
				is_same(&matcher->previous.at[i + d - b], &matcher->items.at[j + b],
					rank)) {
				*ret_a = d - b;
				*ret_b = b;
				return;
			}
	*ret_a = *ret_b = 1;
	if (node->clock == rank->clock) {
		*ret_a = node->max_start_ns <= batch->start_ns;
		*ret_b = !*ret_a;
	}
}

static int merge_rank(struct matcher *matcher, size_t rank_index, int64_t key)
{
	const struct lw_rank *rank = &matcher->run->ranks.at[rank_index];
	nodes swap = matcher->previous;
	size_t i = 0, j = 0;
	int status = LW_OK;

	matcher->previous = matcher->merged;
	matcher->merged = swap;
	matcher->merged.n = 0;
	while (status == LW_OK && (i < matcher->previous.n || j < matcher->items.n)) {
		size_t a = 1, b = 1;

		if (i == matcher->previous.n) {
			status = emit_new(matcher, &matcher->items.at[j++], rank_index, key);
			continue;
		}
		if (j == matcher->items.n) {
			status = emit_node(matcher, &matcher->previous.at[i++]);
			continue;
		}
		if (is_same(&matcher->previous.at[i], &matcher->items.at[j], rank)) {
			status = emit_joined(matcher, &matcher->previous.at[i++],
				&matcher->items.at[j++], rank_index);
			continue;
		}
		find_meeting(matcher, i, j, rank, &a, &b);
		while (a-- && status == LW_OK)
			status = emit_node(matcher, &matcher->previous.at[i++]);
		while (b-- && status == LW_OK)
			status = emit_new(matcher, &matcher->items.at[j++], rank_index, key);
	}
	return status;
}

static int collect_keys(struct matcher *matcher)
{
	const struct lw_rank *rank;
	const struct lw_batch *batch;

	lw_vec_foreach (rank, &matcher->run->ranks) {
		lw_vec_foreach (batch, &rank->batches) {
			int64_t key = key_of(matcher->run, batch);
			size_t i = 0;

			while (i < matcher->keys.n && matcher->keys.at[i] != key)
				i++;
			if (i == matcher->keys.n && lw_vec_push(&matcher->keys, key) < 0)
				return LW_ERR_NOMEM;
		}
	}
	return LW_OK;
}

/* Which rank lacks what is one finding; the first example names it. */
static int report_hole(struct matcher *matcher, const struct node *node, const bool *takes_part)
{
	struct lw_run *run = matcher->run;
	size_t missing = 0, present = 0, n_op;
	const struct lw_batch *batch;
	const char *name = "", *op;

	while (missing < run->ranks.n &&
		(!takes_part[missing] || matcher->slots.at[node->slot + missing] != LW_NONE))
		missing++;
	while (matcher->slots.at[node->slot + present] == LW_NONE)
		present++;
	batch = &run->ranks.at[present].batches.at[matcher->slots.at[node->slot + present]];
	if (batch->n_members)
		name = run->tensors
			       .at[run->ranks.at[present].members.at[batch->first_member].tensor]
			       .name;
	op = lw_coll_name(batch->op);
	op = op ? op : "operation";
	n_op = strlen(op);
	/* without a framework an operation's name begins with what it is */
	if (!strncmp(name, op, n_op) && (!name[n_op] || name[n_op] == ' '))
		name += n_op + (name[n_op] == ' ');
	return lw_run_diag(run, "match", "unmatched operation", 1,
		"rank %d has no record of an operation that rank %d has: %s%s%s",
		run->ranks.at[missing].rank, run->ranks.at[present].rank, op, *name ? " " : "",
		name);
}

/* A run that is still growing has not got the newest operations of every rank: that is no hole. */
static int64_t growing_edge_ns(const struct lw_run *run)
{
	const struct lw_rank *rank;
	int64_t edge_ns = INT64_MAX;

	if (run->is_closed)
		return edge_ns;
	lw_vec_foreach (rank, &run->ranks) {
		int64_t end_ns = rank->batches.n ? rank->batches.at[rank->batches.n - 1].end_ns : 0;

		if (end_ns < edge_ns)
			edge_ns = end_ns;
	}
	return edge_ns;
}

static int match_key(struct matcher *matcher, int64_t key)
{
	struct lw_run *run = matcher->run;
	bool *takes_part = calloc(run->ranks.n + 1, sizeof(*takes_part));
	int64_t edge_ns = growing_edge_ns(run);
	uint32_t n_taking_part = 0;
	const struct node *node;
	int status = takes_part ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory");

	matcher->merged.n = matcher->previous.n = 0;
	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		matcher->items.n = 0;
		for (size_t i = 0; i < rank->batches.n && status == LW_OK; i++) {
			struct item item = {hash_of(rank, &rank->batches.at[i]), (int32_t)i};

			if (key_of(run, &rank->batches.at[i]) == key)
				status = lw_vec_push(&matcher->items, item);
		}
		takes_part[r] = matcher->items.n > 0;
		n_taking_part += takes_part[r];
		if (status == LW_OK && takes_part[r])
			status = merge_rank(matcher, r, key);
	}
	lw_vec_foreach (node, &matcher->merged) {
		if (status < 0)
			break;
		if (node->n_ranks < n_taking_part && node->max_start_ns < edge_ns)
			status = report_hole(matcher, node, takes_part);
		if (status == LW_OK)
			status = lw_vec_push(&matcher->all, *node);
	}
	free(takes_part);
	return status;
}

/* ---- from nodes to groups ------------------------------------------------------------------------ */

static int compare_node(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	if (x->max_start_ns != y->max_start_ns)
		return x->max_start_ns < y->max_start_ns ? -1 : 1;
	return (x->slot > y->slot) - (x->slot < y->slot);
}

static void see_ready(struct lw_group *group, const struct lw_rank *rank, size_t rank_index,
	const struct lw_batch *batch)
{
	int64_t last_ns = LW_NS_UNKNOWN;

	for (uint32_t i = 0; i < batch->n_members; i++) {
		int64_t ready_ns = rank->members.at[batch->first_member + i].ready_ns;

		if (ready_ns == LW_NS_UNKNOWN)
			continue;
		if (group->first_ready_ns == LW_NS_UNKNOWN || ready_ns < group->first_ready_ns) {
			group->first_ready_ns = ready_ns;
			group->first_rank = (int32_t)rank_index;
		}
		if (ready_ns > last_ns)
			last_ns = ready_ns;
	}
	if (last_ns > group->last_ready_ns) {
		group->last_ready_ns = last_ns;
		group->last_rank = (int32_t)rank_index;
	}
}

/* Across clocks the rank that was in the operation for the shortest time came last: it waited for nobody. Only of kernels,
 * whose ends the device tells. */
static void see_shortest(const struct lw_run *run, struct lw_group *group)
{
	int64_t shortest_ns = INT64_MAX, longest_ns = INT64_MIN;
	int32_t first = LW_NONE, last = LW_NONE;

	for (size_t r = 0; r < run->ranks.n && lw_group_waits(group->op); r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);
		struct lw_interval wire;

		if (!batch || !lw_gpu_has(&run->ranks.at[r]) ||
			batch->wire_start_ns == LW_NS_UNKNOWN)
			continue;
		wire = lw_batch_wire(batch);
		if (wire.end_ns - wire.start_ns < shortest_ns) {
			shortest_ns = wire.end_ns - wire.start_ns;
			last = (int32_t)r;
		}
		if (wire.end_ns - wire.start_ns > longest_ns) {
			longest_ns = wire.end_ns - wire.start_ns;
			first = (int32_t)r;
		}
	}
	if (last == LW_NONE)
		return;
	group->first_rank = first;
	group->last_rank = last;
}

/* Times of ranks on another clock than the first one's say nothing here: left out. */
static void fill_group(struct lw_run *run, struct lw_group *group)
{
	int64_t clock = 0;
	uint32_t n_other = 0; /* ranks on another clock */
	bool has_round = true;

	group->first_ready_ns = group->last_ready_ns = group->round_ns = LW_NS_UNKNOWN;
	group->first_rank = group->last_rank = LW_NONE;
	group->first_start_ns = INT64_MAX;
	group->last_start_ns = group->last_end_ns = LW_NS_UNKNOWN;
	for (size_t r = 0; r < run->ranks.n; r++) {
		struct lw_rank *rank = &run->ranks.at[r];
		struct lw_batch *batch;
		int64_t start_ns, end_ns;

		if (group->batch_of_rank[r] == LW_NONE)
			continue;
		batch = &rank->batches.at[group->batch_of_rank[r]];
		batch->group = (int32_t)(group - run->groups.at);
		if (batch->bytes > group->bytes)
			group->bytes = batch->bytes;
		if (!clock)
			clock = rank->clock;
		n_other += clock != rank->clock;
		if (clock != rank->clock)
			continue;
		start_ns = batch->wire_start_ns != LW_NS_UNKNOWN ? batch->wire_start_ns
								 : batch->start_ns;
		end_ns = batch->wire_end_ns != LW_NS_UNKNOWN ? batch->wire_end_ns : batch->end_ns;
		if (start_ns < group->first_start_ns)
			group->first_start_ns = start_ns;
		if (start_ns > group->last_start_ns)
			group->last_start_ns = start_ns;
		if (end_ns > group->last_end_ns)
			group->last_end_ns = end_ns;
		has_round &= batch->cycle_ns != LW_NS_UNKNOWN;
		if (batch->cycle_ns > group->round_ns)
			group->round_ns = batch->cycle_ns;
		see_ready(group, rank, r, batch);
	}
	if (!has_round)
		group->round_ns = LW_NS_UNKNOWN;
	if (n_other)
		see_shortest(run, group);
}

static int build_groups(struct matcher *matcher)
{
	struct lw_run *run = matcher->run;
	size_t n_ranks = run->ranks.n;
	const struct node *node;
	int32_t *slots = malloc((matcher->slots.n + 1) * sizeof(*slots));

	if (!slots)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	free(run->batch_slots);
	run->batch_slots = slots;
	run->groups.n = 0;
	if (matcher->all.n)
		qsort(matcher->all.at, matcher->all.n, sizeof(*matcher->all.at), compare_node);
	lw_vec_foreach (node, &matcher->all) {
		struct lw_group group = {.op = node->op,
			.n_ranks = node->n_ranks,
			.n_wanted = node->n_ranks,
			.batch_of_rank = slots};

		/* Key 0 of a framework is everybody, and so is the only communicator of a plain run. */
		if (node->key == 0 || matcher->keys.n == 1)
			group.n_wanted = (uint32_t)run->size;
		if (group.n_wanted < node->n_ranks)
			group.n_wanted = node->n_ranks;
		memcpy(slots, matcher->slots.at + node->slot, n_ranks * sizeof(*slots));
		slots += n_ranks;
		if (lw_vec_push(&run->groups, group) < 0)
			return LW_ERR_NOMEM;
		fill_group(run, &run->groups.at[run->groups.n - 1]);
	}
	return LW_OK;
}

static int check_clocks(struct lw_run *run)
{
	const struct lw_rank *rank;
	uint64_t n_other = 0;

	lw_vec_foreach (rank, &run->ranks)
		n_other += rank->clock != run->ranks.at[0].clock;
	if (!n_other)
		return LW_OK;
	return lw_run_diag(run, "match", "clocks not aligned", n_other,
		run->is_profile
			? "every profiler's trace counts as a clock of its own: ranks are compared by how long they were in operations, not by times"
			: "ranks on different hosts: times are compared within the first host only");
}

int lw_run_match(struct lw_run *run)
{
	struct matcher matcher = {.run = run};
	int status;

	lw_run_diag_reset(run, "match");
	status = collect_keys(&matcher);
	for (size_t i = 0; i < matcher.keys.n && status == LW_OK; i++)
		status = match_key(&matcher, matcher.keys.at[i]);
	if (status == LW_OK)
		status = build_groups(&matcher);
	if (status == LW_OK)
		status = check_clocks(run);
	lw_vec_free(&matcher.slots);
	lw_vec_free(&matcher.keys);
	lw_vec_free(&matcher.merged);
	lw_vec_free(&matcher.previous);
	lw_vec_free(&matcher.all);
	lw_vec_free(&matcher.items);
	return status;
}
