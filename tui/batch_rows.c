/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/batch_rows.h"

#include <math.h>
#include <stdlib.h>

#include "analyzer/emit/summary.h"
#include "analyzer/reconstruct/volume.h"
#include "tui/parts.h"

struct occurrence {
	uint64_t pattern;
	size_t group;
};

const struct lw_batch *lw_group_any_batch(
	const struct lw_run *run, const struct lw_group *group, size_t *ret_rank)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);

		if (!batch)
			continue;
		if (ret_rank)
			*ret_rank = r;
		return batch;
	}
	return NULL;
}

/* FNV-1a over what the operation is and carries. */
static uint64_t pattern_of(const struct lw_batch *batch, const struct lw_rank *rank)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	const uint64_t prime = UINT64_C(0x100000001b3);

	hash = (hash ^ (uint64_t)batch->op) * prime;
	hash = (hash ^ batch->bytes) * prime;
	for (uint32_t i = 0; i < batch->n_members; i++)
		hash = (hash ^ rank->members.at[batch->first_member + i].tensor) * prime;
	return hash;
}

static int compare_occurrences(const void *a, const void *b)
{
	const struct occurrence *x = a, *y = b;

	if (x->pattern != y->pattern)
		return (x->pattern > y->pattern) - (x->pattern < y->pattern);
	return (x->group > y->group) - (x->group < y->group);
}

static int compare_rows(const void *a, const void *b)
{
	const struct lw_batch_row *x = a, *y = b;

	if (x->start_ns < y->start_ns || x->start_ns > y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->group > y->group) - (x->group < y->group);
}

/* Adds one occurrence to the sums of @row. */
static void add(const struct lw_run *run, const struct lw_group *group, struct lw_batch_row *row)
{
	double n = 0, start_ns = 0, agreed_ns = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, group, r);
		double begin_ns;

		if (!batch || batch->step == LW_NONE)
			continue;
		begin_ns = (double)run->ranks.at[r].steps.at[batch->step].start_ns;
		n++;
		start_ns += (double)batch->start_ns - begin_ns;
		agreed_ns += lw_ns_known(batch->agreed_ns) - begin_ns;
	}
	row->n++;
	row->bytes += (double)group->bytes;
	row->start_ns += start_ns / n;
	row->agreed_ns += agreed_ns / n;
	row->wire_ns += group->n_ranks == group->n_wanted
				? lw_group_service_ns(run, group, lw_run_is_one_clock(run))
				: (double)NAN;
}

static void finish(const struct lw_run *run, struct lw_batch_row *row)
{
	const struct lw_group *group = &run->groups.at[row->group];
	double n = (double)row->n, size;

	row->bytes /= n;
	size = group->bytes ? lw_group_size_bytes(run, group) / (double)group->bytes * row->bytes
			    : 0;
	row->start_ns /= n;
	row->agreed_ns /= n;
	row->wire_ns /= n;
	row->algbw_bytes_per_s =
		row->wire_ns > 0 && size > 0 ? size / row->wire_ns * 1e9 : (double)NAN;
	row->busbw_bytes_per_s = group->n_wanted > 1
					 ? row->algbw_bytes_per_s * lw_group_bus_factor(group)
					 : (double)NAN;
}

static bool is_wanted(const struct lw_run *run, const struct lw_batch *batch, int32_t step)
{
	if (!batch || batch->step == LW_NONE)
		return false;
	return step == LW_NONE ? lw_summary_is_counted(run, (size_t)batch->step)
			       : batch->step == step;
}

int lw_batch_rows_make(
	const struct lw_run *run, int32_t step, struct lw_batch_row **ret_rows, size_t *ret_n)
{
	struct occurrence *found = calloc(run->groups.n + 1, sizeof(*found));
	struct lw_batch_row *rows;
	size_t n_found = 0, n_rows = 0;

	if (!found)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", run->groups.n);
	for (size_t g = 0; g < run->groups.n; g++) {
		size_t r = 0;
		const struct lw_batch *batch = lw_group_any_batch(run, &run->groups.at[g], &r);

		if (is_wanted(run, batch, step))
			found[n_found++] = (struct occurrence){
				step == LW_NONE ? pattern_of(batch, &run->ranks.at[r]) : g, g};
	}
	qsort(found, n_found, sizeof(*found), compare_occurrences);
	rows = calloc(n_found + 1, sizeof(*rows));
	for (size_t i = 0; i < n_found && rows; i++) {
		if (i == 0 || found[i].pattern != found[i - 1].pattern)
			rows[n_rows++].group = found[i].group;
		add(run, &run->groups.at[found[i].group], &rows[n_rows - 1]);
	}
	free(found);
	if (!rows)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", n_found);
	for (size_t i = 0; i < n_rows; i++)
		finish(run, &rows[i]);
	qsort(rows, n_rows, sizeof(*rows), compare_rows);
	*ret_rows = rows;
	*ret_n = n_rows;
	return LW_OK;
}
