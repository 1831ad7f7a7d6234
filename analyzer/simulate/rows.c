/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct group {              /* of one row */
	uint32_t n_missing; /* members that are not ready yet */
	double convert_ns;  /* of all its members */
	int64_t ready_ns;
};

struct filling {
	const struct lw_rows *rows;
	uint32_t n_known, n_steps, n_tensors; /* of the replay */
	uint32_t *median_rank;                /* by step, when balanced */
	uint32_t *order;                      /* tensors, ascending ready time of the row before */
	struct group *groups;                 /* [n_tensors] */
};

static int64_t scaled(int64_t ns, double frac) /* of a time >= 0 */
{
	return (int64_t)((double)ns * frac + 0.5);
}

struct load { /* what a rank does in a step when it waits for nobody */
	int64_t busy_ns;
	uint32_t rank;
};

static int lighter(const void *a, const void *b)
{
	const struct load *x = a, *y = b;

	if (x->busy_ns != y->busy_ns)
		return x->busy_ns < y->busy_ns ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Of an even number of ranks the quicker of the two in the middle: of two ranks one may be late. */
static int find_median_ranks(struct filling *f)
{
	const struct lw_replay *replay = f->rows->replay;
	struct load *loads = malloc(f->n_known * sizeof(*loads));

	if (!loads)
		return lw_fail(LW_ERR_NOMEM, "no memory for %u ranks", f->n_known);
	for (uint32_t s = 0; s < f->n_steps; s++) {
		for (uint32_t r = 0; r < f->n_known; r++) {
			size_t row = (size_t)s * f->n_known + r;

			loads[r] = (struct load){replay->blocked_ns[row] + replay->tail_ns[row], r};
		}
		qsort(loads, f->n_known, sizeof(*loads), lighter);
		f->median_rank[s] = loads[(f->n_known - 1) / 2].rank;
	}
	free(loads);
	return LW_OK;
}

/* The recorded row that step @s of rank @r of the new job is, @later steps later. */
static size_t source(const struct filling *f, uint32_t s, uint32_t r, uint32_t later)
{
	uint32_t shift = f->rows->is_balanced ? 0 : r / f->n_known * 7;
	uint32_t step = (uint32_t)(((uint64_t)s + shift + later) % f->n_steps);
	uint32_t rank = f->rows->is_balanced ? f->median_rank[step] : r % f->n_known;

	return (size_t)step * f->n_known + rank;
}

static int64_t passes_ns(const struct filling *f, uint32_t s, uint32_t r)
{
	const struct lw_replay *replay = f->rows->replay;
	int64_t sum_ns = 0;

	for (uint32_t pass = 1; pass < f->rows->n_passes; pass++)
		sum_ns += replay->blocked_ns[source(f, s, r, pass)];
	return scaled(sum_ns, f->rows->compute_frac);
}

static void sort_row(struct filling *f, const int64_t *ready_ns)
{
	for (uint32_t k = 0; k < f->n_tensors; k++) {
		uint32_t t = f->order[k], i = k;

		for (; i > 0 && ready_ns[f->order[i - 1]] > ready_ns[t]; i--)
			f->order[i] = f->order[i - 1];
		f->order[i] = t;
	}
}

/* Tensors are converted one after the other, each when it is ready, those of a group when its last is;
 * what comes later is later by that. Return: all of it. */
static int64_t convert(struct filling *f, int64_t *ready_ns)
{
	const struct lw_rows *rows = f->rows;
	double later_ns = 0;

	sort_row(f, ready_ns);
	for (uint32_t t = 0; t < f->n_tensors && rows->group_of; t++)
		f->groups[t] = (struct group){0, 0, 0};
	for (uint32_t t = 0; t < f->n_tensors && rows->group_of; t++)
		if (ready_ns[t] >= 0 && rows->group_of[t] >= 0) {
			f->groups[rows->group_of[t]].n_missing++;
			f->groups[rows->group_of[t]].convert_ns += rows->convert_ns[t];
		}
	for (uint32_t k = 0; k < f->n_tensors; k++) {
		uint32_t t = f->order[k];
		int32_t group = rows->group_of ? rows->group_of[t] : LW_HVD_NO_GROUP;

		if (ready_ns[t] < 0)
			continue;
		if (group < 0)
			later_ns += rows->convert_ns[t];
		else if (--f->groups[group].n_missing == 0)
			later_ns += f->groups[group].convert_ns;
		ready_ns[t] += (int64_t)(later_ns + 0.5);
	}
	return (int64_t)(later_ns + 0.5);
}

/* A group is queued when the last of its tensors is ready. */
static void queue_groups(struct filling *f, int64_t *ready_ns)
{
	const int32_t *group_of = f->rows->group_of;

	for (uint32_t t = 0; t < f->n_tensors; t++)
		f->groups[t].ready_ns = -1;
	for (uint32_t t = 0; t < f->n_tensors; t++)
		if (group_of[t] >= 0 && ready_ns[t] > f->groups[group_of[t]].ready_ns)
			f->groups[group_of[t]].ready_ns = ready_ns[t];
	for (uint32_t t = 0; t < f->n_tensors; t++)
		if (group_of[t] >= 0 && ready_ns[t] >= 0)
			ready_ns[t] = f->groups[group_of[t]].ready_ns;
}

static void fill_row(struct filling *f, uint32_t s, uint32_t r, int64_t *ready_ns,
	int64_t *ret_blocked_ns, int64_t *ret_tail_ns)
{
	const struct lw_rows *rows = f->rows;
	const struct lw_replay *replay = rows->replay;
	size_t row = source(f, s, r, 0);
	const int64_t *recorded_ns = replay->ready_ns + row * f->n_tensors;
	int64_t before_ns = passes_ns(f, s, r), convert_ns = 0;

	if (!rows->from && before_ns == 0 && rows->compute_frac == 1)
		memcpy(ready_ns, recorded_ns, f->n_tensors * sizeof(*ready_ns));
	else
		for (uint32_t t = 0; t < f->n_tensors; t++) {
			int64_t at_ns = recorded_ns[rows->from ? rows->from[t] : t];

			ready_ns[t] = at_ns < 0 ? LW_HVD_NOT_IN_STEP
						: before_ns + scaled(at_ns, rows->compute_frac);
		}
	if (rows->convert_ns)
		convert_ns = convert(f, ready_ns);
	if (rows->group_of)
		queue_groups(f, ready_ns);
	*ret_blocked_ns =
		before_ns + convert_ns + scaled(replay->blocked_ns[row], rows->compute_frac);
	*ret_tail_ns = scaled(replay->tail_ns[row], rows->compute_frac);
}

int lw_rows_fill(const struct lw_rows *rows, int64_t *ret_ready_ns, int64_t *ret_blocked_ns,
	int64_t *ret_tail_ns)
{
	const struct lw_hvd_input *recorded = &rows->replay->input;
	struct filling f = {.rows = rows,
		.n_known = recorded->n_ranks,
		.n_steps = recorded->n_steps,
		.n_tensors = recorded->n_tensors};
	int status = LW_OK;

	f.median_rank = calloc(f.n_steps, sizeof(*f.median_rank));
	f.order = malloc((f.n_tensors + 1) * sizeof(*f.order));
	f.groups = malloc((f.n_tensors + 1) * sizeof(*f.groups));
	if (!f.median_rank || !f.order || !f.groups)
		status = lw_fail(LW_ERR_NOMEM, "no memory for %u steps and %u tensors", f.n_steps,
			f.n_tensors);
	if (status == LW_OK && rows->is_balanced)
		status = find_median_ranks(&f);
	for (uint32_t t = 0; t < f.n_tensors && status == LW_OK; t++)
		f.order[t] = t;
	for (uint32_t s = 0; s < f.n_steps && status == LW_OK; s++)
		for (uint32_t r = 0; r < rows->n_ranks; r++) {
			size_t to = (size_t)s * rows->n_ranks + r;

			fill_row(&f, s, r, ret_ready_ns + to * f.n_tensors, &ret_blocked_ns[to],
				&ret_tail_ns[to]);
		}
	free(f.median_rank);
	free(f.order);
	free(f.groups);
	return status;
}
