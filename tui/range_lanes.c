/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/range_lanes.h"

#include <stdlib.h>

#include <uthash.h>

#include "base/err.h"

struct candidate { /* a thread that has ranges */
	uint32_t tid;
	bool is_caller;
	int64_t covered_ns, reach_ns;
	UT_hash_handle hh;
};

static const char tid_sql[] = "SELECT tid FROM thread WHERE id = ?1";

size_t lw_range_at(const lw_range_level *level, int64_t at_ns)
{
	size_t low = 0, high = level->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (level->at[middle].end_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- whose -------------------------------------------------------------------------------------- */

static struct candidate *find(struct candidate *candidates, uint32_t tid)
{
	struct candidate *candidate;

	HASH_FIND(hh, candidates, &tid, sizeof(tid), candidate);
	return candidate;
}

static int add_covered(const struct lw_host_ranges *ranges, struct candidate **candidates)
{
	const struct lw_host_range *range;
	struct candidate *candidate = NULL;

	lw_vec_foreach (range, &ranges->at) {
		int64_t from_ns = range->start_ns;

		if (!candidate || candidate->tid != range->tid)
			candidate = find(*candidates, range->tid);
		if (!candidate) {
			candidate = calloc(1, sizeof(*candidate));
			if (!candidate)
				return lw_fail(LW_ERR_NOMEM, "no memory for the ranges' threads");
			candidate->tid = range->tid;
			candidate->reach_ns = INT64_MIN;
			HASH_ADD(hh, *candidates, tid, sizeof(candidate->tid), candidate);
		}
		if (from_ns < candidate->reach_ns)
			from_ns = candidate->reach_ns;
		if (range->end_ns > from_ns) {
			candidate->covered_ns += range->end_ns - from_ns;
			candidate->reach_ns = range->end_ns;
		}
	}
	return LW_OK;
}

static void add_caller(struct candidate *candidates, struct lw_store *store, int64_t thread_id)
{
	struct candidate *candidate;
	sqlite3_stmt *row;

	if (lw_store_prepare(store, tid_sql, &row) < 0)
		return;
	sqlite3_bind_int64(row, 1, thread_id);
	if (lw_store_step(store, row) == 1) {
		candidate = find(candidates, (uint32_t)sqlite3_column_int64(row, 0));
		if (candidate)
			candidate->is_caller = true;
	}
	sqlite3_finalize(row);
}

static void add_callers(
	const struct lw_run *run, const struct lw_rank *rank, struct candidate *candidates)
{
	struct lw_store *store = run->stores.at[rank->store];
	const struct lw_gpu_launch *launch;
	const struct lw_nccl_call *call;
	struct candidate *candidate = NULL;
	int64_t thread_id = rank->training_thread_id;

	if (thread_id)
		add_caller(candidates, store, thread_id);
	lw_vec_foreach (launch, &rank->gpu.launches) {
		if (!candidate || candidate->tid != launch->tid)
			candidate = find(candidates, launch->tid);
		if (candidate)
			candidate->is_caller = true;
	}
	lw_vec_foreach (call, &rank->gpu.nccl_ops) {
		if (call->thread_id != thread_id)
			add_caller(candidates, store, call->thread_id);
		thread_id = call->thread_id;
	}
}

/* Return: LW_OK or LW_ERR_NOMEM. @ret_tid: meaningless without ranges. */
static int choose_thread(const struct lw_run *run, const struct lw_rank *rank,
	const struct lw_host_ranges *ranges, uint32_t *ret_tid)
{
	struct candidate *candidates = NULL, *candidate, *next;
	const struct candidate *best = NULL;
	int status = add_covered(ranges, &candidates);

	if (status == LW_OK && candidates)
		add_callers(run, rank, candidates);
	HASH_ITER(hh, candidates, candidate, next)
	{
		if (!best || candidate->is_caller > best->is_caller ||
			(candidate->is_caller == best->is_caller &&
				candidate->covered_ns > best->covered_ns))
			best = candidate;
	}
	*ret_tid = best ? best->tid : 0;
	HASH_ITER(hh, candidates, candidate, next)
	{
		HASH_DEL(candidates, candidate);
		free(candidate);
	}
	return status;
}

/* ---- levels ------------------------------------------------------------------------------------- */

/* The first level that is free: below all that have not ended, where ranges nest. Those that overlap without holding one another
 * (NVTX allows it) take no more levels than are open at once. */
static int add_levels(struct lw_range_rank *rank, const struct lw_host_ranges *ranges)
{
	const struct lw_host_range *range;

	lw_vec_foreach (range, &ranges->at) {
		struct lw_range_bar bar = {range->start_ns, range->end_ns, range->row, range->name};
		size_t d = 0;

		if (range->tid != rank->tid)
			continue;
		while (d < rank->n_levels &&
			rank->levels[d].at[rank->levels[d].n - 1].end_ns > range->start_ns)
			d++;
		if (d == LW_RANGE_MAX_LEVELS) {
			rank->n_deeper++;
			continue;
		}
		if (lw_vec_push(&rank->levels[d], bar) < 0)
			return LW_ERR_NOMEM;
		if (d == rank->n_levels)
			rank->n_levels++;
	}
	return LW_OK;
}

int lw_range_lanes_init(struct lw_range_lanes *lanes, const struct lw_run *run)
{
	struct lw_host_ranges *ranges = calloc(run->ranks.n + 1, sizeof(*ranges));
	int status;

	*lanes = (struct lw_range_lanes){.n_ranks = run->ranks.n};
	lanes->ranks = calloc(run->ranks.n + 1, sizeof(*lanes->ranks));
	status = ranges && lanes->ranks ? lw_host_ranges_load_all(run, ranges)
					: lw_fail(LW_ERR_NOMEM, "no memory for ranges");
	for (size_t r = 0; ranges && lanes->ranks && r < run->ranks.n; r++) {
		struct lw_range_rank *rank = &lanes->ranks[r];

		if (status == LW_OK)
			status = choose_thread(run, &run->ranks.at[r], &ranges[r], &rank->tid);
		if (status == LW_OK)
			status = add_levels(rank, &ranges[r]);
		lw_vec_free(&ranges[r].at);
		rank->names = ranges[r];
		if (rank->n_levels > lanes->most_levels)
			lanes->most_levels = rank->n_levels;
	}
	free(ranges);
	return status;
}

void lw_range_lanes_done(struct lw_range_lanes *lanes)
{
	for (size_t r = 0; lanes->ranks && r < lanes->n_ranks; r++) {
		for (size_t d = 0; d < lanes->ranks[r].n_levels; d++)
			lw_vec_free(&lanes->ranks[r].levels[d]);
		lw_host_ranges_free(&lanes->ranks[r].names);
	}
	free(lanes->ranks);
	*lanes = (struct lw_range_lanes){0};
}
