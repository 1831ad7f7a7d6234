/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_select.c - which collective the cursor is on, and where the screen has to be to show it. */
#include <stdlib.h>
#include <string.h>

#include "tui/timeline.h"

enum { LEAST_COLUMN_NS = 1000, MAX_LOOKS = 4096 };

static const struct lw_rank *rank_of(const struct lw_timeline *timeline)
{
	return &timeline->lanes.run->ranks.at[timeline->rank];
}

static int64_t origin_ns(const struct lw_timeline *timeline)
{
	return timeline->lanes.ranks[timeline->rank].origin_ns;
}

int64_t lw_timeline_column_start(const struct lw_timeline *timeline)
{
	int64_t apart_ns = timeline->cursor_ns - timeline->from_ns;
	int64_t into_ns = apart_ns % timeline->column_ns;

	return timeline->cursor_ns - into_ns - (into_ns < 0 ? timeline->column_ns : 0);
}

int32_t lw_timeline_tensor(const struct lw_timeline *timeline)
{
	const struct lw_tensor_lanes *tensors = &timeline->lanes.tensors;

	return timeline->is_by_tensor && timeline->row < tensors->n_order
		       ? (int32_t)tensors->order[timeline->row]
		       : LW_NONE;
}

const struct lw_batch *lw_timeline_batch(const struct lw_timeline *timeline, size_t rank)
{
	const struct lw_run *run = timeline->lanes.run;

	return timeline->group == LW_NONE
		       ? NULL
		       : lw_group_batch(run, &run->groups.at[timeline->group], rank);
}

int32_t lw_timeline_step_at(const struct lw_timeline *timeline, int64_t at_ns)
{
	return lw_rank_step_at(rank_of(timeline), at_ns + origin_ns(timeline));
}

/* How many batches of the selected rank start before @at_ns on its clock. */
static size_t n_started(const struct lw_rank *rank, int64_t at_ns)
{
	size_t low = 0, high = rank->batches.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->batches.at[middle].start_ns < at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* When this rank began to wait with @batch: its first tensor queued, or its start. */
static int64_t begin_ns(const struct lw_rank *rank, const struct lw_batch *batch)
{
	int64_t first_ns = batch->start_ns;

	for (uint32_t i = 0; i < batch->n_members; i++) {
		int64_t ready_ns = rank->members.at[batch->first_member + i].ready_ns;

		if (ready_ns != LW_NS_UNKNOWN && ready_ns < first_ns)
			first_ns = ready_ns;
	}
	return first_ns;
}

/* Of @n batches, the first one up to which one ends at @at_ns or later. */
static size_t first_reaching(const int64_t *reach_ns, size_t n, int64_t at_ns)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (reach_ns[middle] < at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How many that began before the column, which are @n, are in it: those of an age ago are not looked at. */
static size_t n_reaching_in(struct lw_timeline *timeline, size_t n, int64_t from_ns)
{
	const struct lw_rank *rank = rank_of(timeline);
	size_t first =
		first_reaching(timeline->lanes.ranks[timeline->rank].reach_ns, n, from_ns + 1);
	size_t n_in = 0;

	timeline->is_more_in_column = n - first > MAX_LOOKS;
	if (timeline->is_more_in_column)
		first = n - MAX_LOOKS;
	for (size_t i = first; i < n; i++)
		n_in += rank->batches.at[i].end_ns > from_ns;
	return n_in;
}

/* Of a rank: the operation that takes most of the column; else the next one, where it has begun to wait. */
static int32_t select_batch(struct lw_timeline *timeline)
{
	const struct lw_rank *rank = rank_of(timeline);
	const int64_t *reach_ns = timeline->lanes.ranks[timeline->rank].reach_ns;
	int64_t from_ns = lw_timeline_column_start(timeline) + origin_ns(timeline), most_ns = -1;
	int64_t to_ns = from_ns + timeline->column_ns;
	size_t first = n_started(rank, from_ns), end = n_started(rank, to_ns);
	int32_t best = LW_NONE;

	timeline->n_in_column = end - first + n_reaching_in(timeline, first, from_ns);
	/* of those that began before the column, the one that ends last, or the first that takes all of it */
	if (first > 0 && reach_ns[first - 1] > from_ns) {
		int64_t reach = reach_ns[first - 1] < to_ns ? reach_ns[first - 1] : to_ns;

		best = (int32_t)first_reaching(reach_ns, first, reach);
		most_ns = reach - from_ns;
	}
	for (size_t i = first; i < end; i++) {
		const struct lw_batch *batch = &rank->batches.at[i];
		int64_t end_ns = batch->end_ns < to_ns ? batch->end_ns : to_ns;

		if (end_ns - batch->start_ns > most_ns) {
			most_ns = end_ns - batch->start_ns;
			best = (int32_t)i;
		}
	}
	for (size_t i = end; best == LW_NONE && i < rank->batches.n && i < end + 8; i++)
		if (begin_ns(rank, &rank->batches.at[i]) < to_ns)
			best = (int32_t)i;
	return best;
}

/* Of a tensor: the first of its operations that ends after the cursor's column begins. */
static size_t occurrence_at(const struct lw_timeline *timeline, int64_t at_ns)
{
	const struct lw_tensor_lanes *tensors = &timeline->lanes.tensors;
	const struct lw_rank *rank = rank_of(timeline);
	size_t t = tensors->order[timeline->row];
	size_t low = tensors->first[t], high = tensors->first[t + 1];

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank->batches.at[tensors->occurrences[middle].batch].end_ns <= at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int32_t select_occurrence(struct lw_timeline *timeline)
{
	const struct lw_tensor_lanes *tensors = &timeline->lanes.tensors;
	const struct lw_rank *rank = rank_of(timeline);
	int64_t from_ns = lw_timeline_column_start(timeline) + origin_ns(timeline);
	size_t t = tensors->order[timeline->row], at = occurrence_at(timeline, from_ns);
	size_t last = occurrence_at(timeline, from_ns + timeline->column_ns);
	const struct lw_batch *batch;

	timeline->n_in_column = 0;
	timeline->is_more_in_column = false;
	if (at == tensors->first[t + 1])
		return LW_NONE;
	batch = &rank->batches.at[tensors->occurrences[at].batch];
	timeline->n_in_column = last - at;
	if (last < tensors->first[t + 1] &&
		rank->batches.at[tensors->occurrences[last].batch].start_ns <
			from_ns + timeline->column_ns)
		timeline->n_in_column++;
	return begin_ns(rank, batch) < from_ns + timeline->column_ns
		       ? (int32_t)tensors->occurrences[at].batch
		       : LW_NONE;
}

void lw_timeline_select_here(struct lw_timeline *timeline)
{
	const struct lw_rank *rank = rank_of(timeline);
	int32_t batch = lw_timeline_tensor(timeline) == LW_NONE ? select_batch(timeline)
								: select_occurrence(timeline);

	timeline->group = batch == LW_NONE ? LW_NONE : rank->batches.at[batch].group;
	timeline->details_top = 0;
}

void lw_timeline_select_any(struct lw_timeline *timeline)
{
	if (timeline->is_on_range)
		lw_timeline_range_here(timeline);
	else if (timeline->is_on_gpu)
		lw_timeline_gpu_select_here(timeline);
	else
		lw_timeline_select_here(timeline);
}

/* ---- the screen --------------------------------------------------------------------------------- */

void lw_timeline_clip(struct lw_timeline *timeline, int n_columns)
{
	int64_t length_ns = timeline->lanes.length_ns, all_ns = length_ns / n_columns + 1;

	if (all_ns < LEAST_COLUMN_NS)
		all_ns = LEAST_COLUMN_NS;
	if (timeline->column_ns >= all_ns) {
		timeline->column_ns = all_ns;
		timeline->from_ns = 0;
	}
	if (timeline->column_ns < LEAST_COLUMN_NS)
		timeline->column_ns = LEAST_COLUMN_NS;
	if (timeline->cursor_ns >= length_ns)
		timeline->cursor_ns = length_ns - 1;
	if (timeline->cursor_ns < 0)
		timeline->cursor_ns = 0;
	if (timeline->from_ns > length_ns - timeline->column_ns)
		timeline->from_ns = length_ns - timeline->column_ns;
	if (timeline->from_ns < -timeline->column_ns * (n_columns / 4))
		timeline->from_ns = -timeline->column_ns * (n_columns / 4);
}

void lw_timeline_show(struct lw_timeline *timeline, int64_t at_ns, int n_columns)
{
	int64_t span_ns = timeline->column_ns * n_columns;

	if (at_ns < timeline->from_ns)
		timeline->from_ns = at_ns - span_ns / 4;
	else if (at_ns >= timeline->from_ns + span_ns)
		timeline->from_ns = at_ns - span_ns + span_ns / 4;
	lw_timeline_clip(timeline, n_columns);
}

void lw_timeline_move_to(struct lw_timeline *timeline, int64_t at_ns, int n_columns)
{
	timeline->cursor_ns = at_ns;
	lw_timeline_clip(timeline, n_columns);
	lw_timeline_show(timeline, timeline->cursor_ns, n_columns);
	lw_timeline_select_any(timeline);
}

void lw_timeline_go(struct lw_timeline *timeline, size_t index, int n_columns)
{
	const struct lw_batch *batch = &rank_of(timeline)->batches.at[index];

	timeline->cursor_ns = batch->start_ns - origin_ns(timeline);
	lw_timeline_show(timeline, timeline->cursor_ns, n_columns);
	timeline->group = batch->group;
	timeline->n_in_column = 1;
	timeline->is_more_in_column = false;
	timeline->details_top = 0;
}

static bool next_occurrence(struct lw_timeline *timeline, int by, int n_columns, int64_t at_ns)
{
	const struct lw_tensor_lanes *tensors = &timeline->lanes.tensors;
	const struct lw_batch *selected = lw_timeline_batch(timeline, timeline->rank);
	size_t t = tensors->order[timeline->row];
	size_t at = occurrence_at(timeline, selected ? selected->start_ns : at_ns);

	if (by > 0 && selected && at < tensors->first[t + 1] &&
		&rank_of(timeline)->batches.at[tensors->occurrences[at].batch] == selected)
		at++;
	if (by < 0 && at-- == tensors->first[t])
		return false;
	if (at >= tensors->first[t + 1])
		return false;
	lw_timeline_go(timeline, tensors->occurrences[at].batch, n_columns);
	return true;
}

bool lw_timeline_next(struct lw_timeline *timeline, int by, int n_columns)
{
	const struct lw_rank *rank = rank_of(timeline);
	const struct lw_batch *selected = lw_timeline_batch(timeline, timeline->rank);
	int64_t at_ns = timeline->cursor_ns + origin_ns(timeline);
	size_t next;

	if (lw_timeline_tensor(timeline) != LW_NONE)
		return next_occurrence(timeline, by, n_columns, at_ns);
	if (selected)
		next = (size_t)(selected - rank->batches.at) + (by > 0 ? 1 : 0);
	else
		next = n_started(rank, at_ns);
	if (by < 0 && next-- == 0)
		return false;
	if (next >= rank->batches.n)
		return false;
	lw_timeline_go(timeline, next, n_columns);
	return true;
}

/* ---- find --------------------------------------------------------------------------------------- */

/* Which tensors have names that hold @text, capitals alike. NULL: none, or no memory. */
static bool *match_tensors(const struct lw_run *run, const char *text)
{
	bool *is_match = calloc(run->tensors.n + 1, sizeof(*is_match)), any = false;

	for (size_t t = 0; is_match && t < run->tensors.n; t++) {
		is_match[t] = strcasestr(run->tensors.at[t].name, text) != NULL;
		any |= is_match[t];
	}
	if (any)
		return is_match;
	free(is_match);
	return NULL;
}

/* The tensor that matches in @batch, LW_NONE. */
static int32_t match_of(
	const struct lw_rank *rank, const struct lw_batch *batch, const bool *is_match)
{
	for (uint32_t i = 0; i < batch->n_members; i++) {
		uint32_t tensor = rank->members.at[batch->first_member + i].tensor;

		if (is_match[tensor])
			return (int32_t)tensor;
	}
	return LW_NONE;
}

int32_t lw_timeline_find(struct lw_timeline *timeline, const char *text, int by, int n_columns)
{
	const struct lw_rank *rank = rank_of(timeline);
	const struct lw_batch *batch = lw_timeline_batch(timeline, timeline->rank);
	bool *is_match = match_tensors(timeline->lanes.run, text);
	size_t n = rank->batches.n, at = n_started(rank, timeline->cursor_ns + origin_ns(timeline));
	int32_t tensor = LW_NONE;

	if (batch)
		at = (size_t)(batch - rank->batches.at) + n + (size_t)by;
	for (size_t i = 0; is_match && i < n && tensor == LW_NONE; i++) {
		size_t b = by < 0 ? (at + n - i) % n : (at + i) % n; /* after the last, the first */

		tensor = match_of(rank, &rank->batches.at[b], is_match);
		if (tensor != LW_NONE)
			lw_timeline_go(timeline, b, n_columns);
	}
	free(is_match);
	return tensor;
}

/* @step takes 80 % of the screen, the cursor stands at its start. */
void lw_timeline_fit_step(struct lw_timeline *timeline, int32_t s, int n_columns)
{
	const struct lw_step *step = &timeline->lanes.run->ranks.at[timeline->rank].steps.at[s];
	int64_t start_ns = step->start_ns - timeline->lanes.ranks[timeline->rank].origin_ns;

	timeline->column_ns = (step->end_ns - step->start_ns) * 5 / 4 / n_columns + 1;
	lw_timeline_clip(timeline, n_columns);
	timeline->from_ns = start_ns - timeline->column_ns * (n_columns / 10);
	timeline->cursor_ns = start_ns;
	lw_timeline_clip(timeline, n_columns);
}

/* The first collective that starts at the cursor or later; on a GPU or a range also what is there. */
void lw_timeline_select_first(struct lw_timeline *timeline, int n_columns)
{
	timeline->group = LW_NONE;
	lw_timeline_next(timeline, 1, n_columns);
	if (timeline->is_on_gpu || timeline->is_on_range)
		lw_timeline_select_any(timeline);
}

/* What is selected belongs to it, or the cursor stands in it. */
int32_t lw_timeline_step_here(const struct lw_timeline *timeline)
{
	const struct lw_batch *batch = lw_timeline_batch(timeline, timeline->rank);

	return batch && batch->step != LW_NONE ? batch->step
					       : lw_timeline_step_at(timeline, timeline->cursor_ns);
}

void lw_timeline_fit_pending(struct lw_timeline *timeline, int n_columns)
{
	const struct lw_rank *rank = &timeline->lanes.run->ranks.at[timeline->rank];

	if (timeline->to_fit == LW_TIMELINE_FIT_ALL) {
		timeline->column_ns = INT64_MAX;
		lw_timeline_clip(timeline, n_columns);
	} else if (timeline->to_fit >= 0 && timeline->to_fit < (int32_t)rank->steps.n) {
		lw_timeline_fit_step(timeline, timeline->to_fit, n_columns);
		lw_timeline_select_first(timeline, n_columns);
	}
	timeline->to_fit = LW_TIMELINE_FIT_NOTHING;
	lw_timeline_clip(timeline, n_columns);
}

void lw_timeline_select_tensor(struct lw_timeline *timeline, int32_t tensor)
{
	const struct lw_tensor_lanes *tensors = &timeline->lanes.tensors;

	for (size_t i = 0; timeline->is_by_tensor && i < tensors->n_order; i++)
		if ((int32_t)tensors->order[i] == tensor)
			timeline->row = i;
}
