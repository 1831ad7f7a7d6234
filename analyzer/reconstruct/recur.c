/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/reconstruct/recur.h"

#include <stdlib.h>

#include <uthash.h>

#include "analyzer/reconstruct/metric.h"

enum {
	PERIOD_SAMPLE = 4096, /* operations looked at to find a period: the newest ones */
	MIN_RECURRENCES = 2,
};

struct name { /* one tensor within one process set (or communicator) */
	struct {
		int64_t set;
		int64_t tensor;
	} key;
	uint32_t n;        /* times it was carried */
	size_t last_group; /* the last time */
	int32_t last_step; /* newest iteration that holds it */
	bool is_gradient;
	UT_hash_handle hh;
};

struct set { /* iterations are counted per process set: sets run at their own pace */
	int64_t key;
	int32_t step;
	uint64_t bytes;
};

struct recur {
	struct lw_run *run;
	struct name *names;
	lw_vec(struct set) sets;
};

/* Operations that carry gradients; broadcasts, gathers and barriers never do. */
static bool is_gradient_op(int op)
{
	return op == LW_COLL_ALLREDUCE || op == LW_COLL_ADASUM || op == LW_COLL_REDUCESCATTER;
}

/* Any rank's batch of a group: all of them carry the same tensors. */
static const struct lw_batch *batch_of(
	const struct lw_run *run, const struct lw_group *group, const struct lw_rank **ret_rank)
{
	size_t r = 0;

	while (group->batch_of_rank[r] == LW_NONE)
		r++;
	*ret_rank = &run->ranks.at[r];
	return &run->ranks.at[r].batches.at[group->batch_of_rank[r]];
}

static struct name *find_name(struct recur *recur, int64_t set, int64_t tensor)
{
	struct name *name, key = {0};

	key.key.set = set;
	key.key.tensor = tensor;
	HASH_FIND(hh, recur->names, &key.key, sizeof(key.key), name);
	if (name)
		return name;
	name = calloc(1, sizeof(*name));
	if (!name) {
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	name->key = key.key;
	name->last_step = LW_NONE;
	HASH_ADD(hh, recur->names, key, sizeof(name->key), name);
	return name;
}

static int count_names(struct recur *recur)
{
	const struct lw_group *group;

	lw_vec_foreach (group, &recur->run->groups) {
		const struct lw_rank *rank;
		const struct lw_batch *batch = batch_of(recur->run, group, &rank);

		if (!is_gradient_op(group->op))
			continue;
		for (uint32_t i = 0; i < batch->n_members; i++) {
			struct name *name = find_name(recur, batch->process_set,
				rank->members.at[batch->first_member + i].tensor);

			if (!name)
				return LW_ERR_NOMEM;
			name->n++;
			name->last_group = (size_t)(group - recur->run->groups.at);
		}
	}
	return LW_OK;
}

static int compare_count(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* How often most of what was carried recurs; of two counts with equal weight the larger. */
static int find_common_count(struct recur *recur, uint32_t *ret_common)
{
	lw_vec(uint32_t) counts = {0};
	const struct name *name;
	uint64_t best = 0;
	size_t first = 0;

	for (name = recur->names; name; name = name->hh.next)
		if (lw_vec_push(&counts, name->n) < 0)
			return LW_ERR_NOMEM;
	if (counts.n)
		qsort(counts.at, counts.n, sizeof(*counts.at), compare_count);
	for (size_t i = 0; i < counts.n; i++) {
		uint64_t weight;

		if (counts.at[i] != counts.at[first])
			first = i;
		weight = (uint64_t)counts.at[i] * (i - first + 1);
		if (weight >= best) {
			best = weight;
			*ret_common = counts.at[i];
		}
	}
	lw_vec_free(&counts);
	return LW_OK;
}

/*
 * The gradient set: names that were carried about as often as most carried tensors were. A metric that is
 * averaged once an epoch, or twice a step, does not mark the beginning of a step. Once more than most: as
 * before the first step. What an unfinished last step holds, which comes after all that is carried as often as most,
 * does not count: else steps would change their numbers with where the records of a running job end.
 */
static int choose_gradients(struct recur *recur, bool *ret_found)
{
	uint32_t common = 0, tolerance;
	size_t end = 0; /* of the last step that is whole */
	struct name *name;

	*ret_found = false;
	if (find_common_count(recur, &common) < 0)
		return LW_ERR_NOMEM;
	tolerance = common / 10 > 2 ? common / 10 : 2;
	for (name = recur->names; name; name = name->hh.next)
		if (name->n == common && name->last_group > end)
			end = name->last_group;
	for (name = recur->names; name; name = name->hh.next) {
		name->is_gradient = name->n >= MIN_RECURRENCES && name->n + tolerance >= common &&
				    name->n <= common + 1 + (name->last_group > end);
		*ret_found |= name->is_gradient;
	}
	return LW_OK;
}

static struct set *find_set(struct recur *recur, int64_t key)
{
	struct set *set, fresh = {.key = key, .step = LW_NONE};

	lw_vec_foreach (set, &recur->sets)
		if (set->key == key)
			return set;
	return lw_vec_push(&recur->sets, fresh) < 0 ? NULL : &recur->sets.at[recur->sets.n - 1];
}

static int number_by_name(struct recur *recur, int32_t *step_of_group, int32_t *ret_n)
{
	for (size_t g = 0; g < recur->run->groups.n; g++) {
		const struct lw_rank *rank;
		const struct lw_batch *batch =
			batch_of(recur->run, &recur->run->groups.at[g], &rank);
		struct set *set = find_set(recur, batch->process_set);
		bool has_gradient = false, recurs = false;

		if (!set)
			return LW_ERR_NOMEM;
		step_of_group[g] = LW_NONE;
		if (!is_gradient_op(batch->op))
			continue;
		for (uint32_t i = 0; i < batch->n_members; i++) {
			const struct name *name = find_name(
				recur, set->key, rank->members.at[batch->first_member + i].tensor);

			if (!name)
				return LW_ERR_NOMEM;
			if (!name->is_gradient)
				continue;
			has_gradient = true;
			recurs |= name->last_step == set->step;
		}
		if (!has_gradient)
			continue;
		if (recurs || set->step == LW_NONE)
			set->step++;
		for (uint32_t i = 0; i < batch->n_members; i++)
			find_name(recur, set->key, rank->members.at[batch->first_member + i].tensor)
				->last_step = set->step;
		step_of_group[g] = set->step;
		if (set->step >= *ret_n)
			*ret_n = set->step + 1;
	}
	return LW_OK;
}

/* ---- nothing is named: periods of the sequence ---------------------------------------------------- */

struct operation {
	size_t group;
	uint64_t kind;  /* what must be equal one period later */
	int64_t gap_ns; /* idle time before it */
};
typedef lw_vec(struct operation) operations;

/* @ret_has_rank: which ranks each set has, sets x ranks. The caller frees it. */
static int sum_sets(struct recur *recur, bool **ret_has_rank)
{
	size_t n_ranks = recur->run->ranks.n;
	const struct lw_group *group;
	const struct lw_rank *rank;

	recur->sets.n = 0;
	lw_vec_foreach (group, &recur->run->groups) {
		struct set *of = find_set(recur, batch_of(recur->run, group, &rank)->comm_key);

		if (!of)
			return LW_ERR_NOMEM;
		of->bytes += group->bytes + 1;
	}
	*ret_has_rank = calloc(recur->sets.n * n_ranks + 1, sizeof(**ret_has_rank));
	if (!*ret_has_rank)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	lw_vec_foreach (group, &recur->run->groups) {
		size_t set =
			(size_t)(find_set(recur, batch_of(recur->run, group, &rank)->comm_key) -
				 recur->sets.at);

		for (size_t r = 0; r < n_ranks; r++)
			(*ret_has_rank)[set * n_ranks + r] |= group->batch_of_rank[r] != LW_NONE;
	}
	return LW_OK;
}

/* Of the communicators that share no rank with those before, the one that moves most bytes; its ranks are @covered then.
 * NULL: there is none. */
static const struct set *next_main_set(
	const struct recur *recur, const bool *has_rank, bool *covered)
{
	size_t n_ranks = recur->run->ranks.n;
	const struct set *set, *best = NULL;

	lw_vec_foreach (set, &recur->sets) {
		const bool *has = has_rank + (size_t)(set - recur->sets.at) * n_ranks;
		bool is_apart = true;

		for (size_t r = 0; r < n_ranks; r++)
			is_apart &= !has[r] || !covered[r];
		if (is_apart && (!best || set->bytes > best->bytes))
			best = set;
	}
	for (size_t r = 0; best && r < n_ranks; r++)
		covered[r] |= has_rank[(size_t)(best - recur->sets.at) * n_ranks + r];
	return best;
}

static int collect_operations(struct recur *recur, int64_t key, operations *list)
{
	struct lw_run *run = recur->run;
	int64_t last_end_ns = LW_NS_UNKNOWN;

	for (size_t g = 0; g < run->groups.n; g++) {
		const struct lw_group *group = &run->groups.at[g];
		const struct lw_rank *rank;
		const struct lw_batch *batch = batch_of(run, group, &rank);
		struct operation operation = {.group = g};

		if (batch->comm_key != key || (!run->is_plain && !is_gradient_op(group->op)))
			continue;
		operation.kind = (group->op == LW_COLL_ALLREDUCE ? group->bytes * 64 : 0) +
				 (uint64_t)group->op;
		if (last_end_ns != LW_NS_UNKNOWN)
			operation.gap_ns = group->last_start_ns - last_end_ns;
		last_end_ns = group->last_end_ns;
		if (lw_vec_push(list, operation) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

/* Shortest period that holds for 95 % of the sample; 0 = none. */
static size_t find_period(const operations *list, size_t first)
{
	size_t n = list->n - first;

	for (size_t period = 1; period * (MIN_RECURRENCES + 1) <= n; period++) {
		size_t n_same = 0;

		for (size_t i = first; i + period < list->n; i++)
			n_same += list->at[i].kind == list->at[i + period].kind;
		if (n_same * 20 >= (n - period) * 19)
			return period;
	}
	return 0;
}

/* Computing happens between steps: a step begins after the longest idle time of a period. */
static size_t find_offset(const operations *list, size_t first, size_t period)
{
	size_t best = 0;
	double best_ns = -1;

	for (size_t offset = 0; offset < period; offset++) {
		double sum_ns = 0;
		size_t n = 0;

		for (size_t i = first + offset; i < list->n; i += period, n++)
			sum_ns += (double)list->at[i].gap_ns;
		if (n && sum_ns / (double)n > best_ns) {
			best_ns = sum_ns / (double)n;
			best = offset;
		}
	}
	return first + best;
}

static int number_set(struct recur *recur, int64_t key, int32_t *step_of_group, int32_t *ret_n)
{
	operations list = {0};
	int status = collect_operations(recur, key, &list);
	size_t first = list.n > PERIOD_SAMPLE ? list.n - PERIOD_SAMPLE : 0, period, begin;

	if (status == LW_OK && list.n > 0) {
		period = find_period(&list, first + (list.n - first) / 4);
		if (period) {
			begin = find_offset(&list, first, period) % period;
			for (size_t i = begin; i < list.n; i++)
				step_of_group[list.at[i].group] = (int32_t)((i - begin) / period);
			*ret_n = (int32_t)((list.n - begin + period - 1) / period);
		}
	}
	lw_vec_free(&list);
	return status;
}

/* Ranks that the main communicator has not got are in steps of their own one: the first with the first, and so on. */
static int number_by_period(struct recur *recur, int32_t *step_of_group, int32_t *ret_n)
{
	bool *covered = calloc(recur->run->ranks.n + 1, sizeof(*covered)), *has_rank = NULL;
	int status = covered ? sum_sets(recur, &has_rank) : lw_fail(LW_ERR_NOMEM, "no memory");
	const struct set *set;

	for (size_t g = 0; g < recur->run->groups.n; g++)
		step_of_group[g] = LW_NONE;
	while (status == LW_OK && (set = next_main_set(recur, has_rank, covered))) {
		int32_t n = 0;

		status = number_set(recur, set->key, step_of_group, &n);
		*ret_n = n > *ret_n ? n : *ret_n;
	}
	free(has_rank);
	free(covered);
	return status;
}

/* Tensors that wait for the gradients' results are taken out of the set, and the steps counted anew. */
static int drop_metrics(struct recur *recur, int32_t *step_of_group, int32_t *ret_n)
{
	bool *is_metric = calloc(recur->run->tensors.n + 1, sizeof(*is_metric)), found;
	struct name *name;
	int status;

	if (!is_metric)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	status = lw_metric_find(recur->run, step_of_group, *ret_n, is_metric, &found);
	if (status == LW_OK && found) {
		for (name = recur->names; name; name = name->hh.next) {
			name->last_step = LW_NONE;
			name->is_gradient &= !is_metric[name->key.tensor];
		}
		recur->sets.n = 0;
		*ret_n = 0;
		status = number_by_name(recur, step_of_group, ret_n);
	}
	free(is_metric);
	return status;
}

int lw_recur_find(struct lw_run *run, int32_t *step_of_group, int32_t *ret_n)
{
	struct recur recur = {.run = run};
	struct name *name, *next;
	int status = LW_OK;
	bool by_name = false;

	*ret_n = 0;
	if (!run->is_plain) {
		status = count_names(&recur);
		if (status == LW_OK)
			status = choose_gradients(&recur, &by_name);
	}
	if (status == LW_OK)
		status = by_name ? number_by_name(&recur, step_of_group, ret_n)
				 : number_by_period(&recur, step_of_group, ret_n);
	if (status == LW_OK && by_name)
		status = drop_metrics(&recur, step_of_group, ret_n);
	HASH_ITER(hh, recur.names, name, next)
	{
		HASH_DEL(recur.names, name);
		free(name);
	}
	lw_vec_free(&recur.sets);
	return status;
}
