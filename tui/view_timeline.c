/* SPDX-License-Identifier: Apache-2.0 */
/* view_timeline.c - ranks or tensors down, time across: what keys do. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/err.h"
#include "base/units.h"
#include "tui/app.h"
#include "tui/timeline.h"

#define BUDGET_NS (10 * LW_NS_PER_MS) /* of one tick() */

/* ---- open ---------------------------------------------------------------------------------------- */

static int32_t first_counted(const struct lw_rank *rank)
{
	for (size_t s = 0; s < rank->steps.n; s++)
		if (!rank->steps.at[s].excluded)
			return (int32_t)s;
	return rank->steps.n ? 0 : LW_TIMELINE_FIT_ALL;
}

static size_t clip(size_t at, size_t n)
{
	return at < n ? at : n > 0 ? n - 1 : 0;
}

static int take_lanes(struct lw_data *data, struct lw_lanes *lanes)
{
	struct lw_lanes *made = lw_prepared_take(&data->prepared, LW_PREPARED_LANES);

	if (!made)
		return lw_lanes_init(lanes, data->analysis->run);
	*lanes = *made;
	free(made);
	return LW_OK;
}

static int open_view(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;
	struct lw_run *run = view->data->analysis->run;
	int status;

	lw_lanes_done(&timeline->lanes);
	if (!run->ranks.n)
		return lw_fail(LW_ERR_STATE, "the run holds no rank");
	status = take_lanes(view->data, &timeline->lanes);
	timeline->rank = clip(timeline->rank, run->ranks.n);
	if (timeline->group >= (int32_t)run->groups.n)
		timeline->group = LW_NONE;
	if (!timeline->was_open) {
		timeline->group = LW_NONE;
		timeline->seen = (struct lw_focus){LW_NONE, LW_NONE, LW_NONE, LW_NONE};
		timeline->to_fit = first_counted(&run->ranks.at[timeline->rank]);
	}
	if (status == LW_OK && timeline->is_by_tensor)
		status = lw_lanes_turn(&timeline->lanes, timeline->rank);
	timeline->row = clip(timeline->row, timeline->lanes.tensors.n_order);
	timeline->was_open |= status == LW_OK;
	if (status < 0)
		lw_lanes_done(&timeline->lanes);
	return status;
}

static void done(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;

	lw_lanes_done(&timeline->lanes);
}

/* ---- where the screen is ------------------------------------------------------------------------- */

/* @step takes 80 % of the screen, the cursor stands at its start. */
static void fit_step(struct lw_timeline *timeline, int32_t s, int n_columns)
{
	const struct lw_step *step = &timeline->lanes.run->ranks.at[timeline->rank].steps.at[s];
	int64_t start_ns = step->start_ns - timeline->lanes.ranks[timeline->rank].origin_ns;

	timeline->column_ns = (step->end_ns - step->start_ns) * 5 / 4 / n_columns + 1;
	lw_timeline_clip(timeline, n_columns);
	timeline->from_ns = start_ns - timeline->column_ns * (n_columns / 10);
	timeline->cursor_ns = start_ns;
	lw_timeline_clip(timeline, n_columns);
}

/* The first collective that starts at the cursor or later. */
static void select_first(struct lw_timeline *timeline, int n_columns)
{
	timeline->group = LW_NONE;
	lw_timeline_next(timeline, 1, n_columns);
}

/* What is selected belongs to it, or the cursor stands in it. */
static int32_t step_here(const struct lw_timeline *timeline)
{
	const struct lw_batch *batch = lw_timeline_batch(timeline, timeline->rank);

	return batch && batch->step != LW_NONE ? batch->step
					       : lw_timeline_step_at(timeline, timeline->cursor_ns);
}

static void fit_pending(struct lw_timeline *timeline, int n_columns)
{
	const struct lw_rank *rank = &timeline->lanes.run->ranks.at[timeline->rank];

	if (timeline->to_fit == LW_TIMELINE_FIT_ALL) {
		timeline->column_ns = INT64_MAX;
		lw_timeline_clip(timeline, n_columns);
	} else if (timeline->to_fit >= 0 && timeline->to_fit < (int32_t)rank->steps.n) {
		fit_step(timeline, timeline->to_fit, n_columns);
		select_first(timeline, n_columns);
	}
	timeline->to_fit = LW_TIMELINE_FIT_NOTHING;
	lw_timeline_clip(timeline, n_columns);
}

static void select_tensor(struct lw_timeline *timeline, int32_t tensor)
{
	const struct lw_tensor_lanes *tensors = &timeline->lanes.tensors;

	for (size_t i = 0; timeline->is_by_tensor && i < tensors->n_order; i++)
		if ((int32_t)tensors->order[i] == tensor)
			timeline->row = i;
}

/* Another view selected something since this one was shown. */
static void follow_focus(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;
	const struct lw_focus *focus = view->focus, *seen = &timeline->seen;
	const struct lw_run *run = timeline->lanes.run;

	if (focus->rank != seen->rank && focus->rank >= 0 && focus->rank < (int32_t)run->ranks.n)
		timeline->rank = (size_t)focus->rank;
	if (timeline->is_by_tensor && lw_lanes_turn(&timeline->lanes, timeline->rank) < 0)
		timeline->is_by_tensor = false;
	if (focus->step != seen->step && focus->step >= 0)
		timeline->to_fit = focus->step;
	if (focus->tensor != seen->tensor)
		select_tensor(timeline, focus->tensor);
}

static void go_to_focus_group(struct lw_view *view, int n_columns)
{
	struct lw_timeline *timeline = view->state;
	const struct lw_run *run = timeline->lanes.run;
	const struct lw_batch *batch;
	int32_t group = view->focus->group;

	if (group == timeline->seen.group || group < 0 || group >= (int32_t)run->groups.n)
		return;
	batch = lw_group_batch(run, &run->groups.at[group], timeline->rank);
	if (!batch)
		return;
	if (batch->step != LW_NONE && batch->step != timeline->seen.step)
		fit_step(timeline, batch->step, n_columns);
	lw_timeline_go(
		timeline, (size_t)(batch - run->ranks.at[timeline->rank].batches.at), n_columns);
}

/* What the other views get to know. */
static void tell_focus(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;
	struct lw_focus *focus = view->focus;
	int32_t step = step_here(timeline);

	focus->rank = (int32_t)timeline->rank;
	if (step != LW_NONE)
		focus->step = step;
	if (timeline->group != LW_NONE)
		focus->group = timeline->group;
	if (lw_timeline_tensor(timeline) != LW_NONE)
		focus->tensor = lw_timeline_tensor(timeline);
	timeline->seen = *focus;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * LW_NS_PER_S + now.tv_nsec;
}

/* The tensors on the screen: each takes milliseconds of a long run. */
static bool tick(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;
	struct lw_tensor_lanes *tensors = &timeline->lanes.tensors;
	int64_t begin_ns = now_ns();
	bool has_made = false;

	if (!timeline->is_by_tensor || !tensors->tracks)
		return false;
	for (size_t i = timeline->top;
		i < timeline->top + timeline->n_shown && i < tensors->n_order; i++) {
		if (tensors->tracks[tensors->order[i]])
			continue;
		if (now_ns() - begin_ns >= BUDGET_NS)
			break;
		if (!lw_lanes_tensor(&timeline->lanes, tensors->order[i]))
			return false; /* no memory */
		has_made = true;
	}
	return has_made;
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	struct lw_timeline *timeline = view->state;
	struct lw_timeline_layout layout;

	follow_focus(view);
	layout = lw_timeline_lay_out(timeline, pane);
	fit_pending(timeline, layout.n_columns);
	go_to_focus_group(view, layout.n_columns);
	timeline->n_columns = layout.n_columns;
	timeline->n_shown = layout.n_shown;
	tell_focus(view);
	if (timeline->is_full)
		lw_timeline_details_draw(timeline, pane);
	else
		lw_timeline_draw(timeline, pane);
}

/* ---- keys ---------------------------------------------------------------------------------------- */

static void zoom(struct lw_timeline *timeline, bool is_closer, int n_columns)
{
	int64_t column = (timeline->cursor_ns - timeline->from_ns) / timeline->column_ns;
	int64_t before_ns = timeline->column_ns;

	if (column < 0 || column >= n_columns)
		column = n_columns / 2;
	timeline->column_ns = is_closer ? before_ns / 2 : before_ns * 2;
	lw_timeline_clip(timeline, n_columns);
	if (timeline->column_ns != before_ns)
		timeline->from_ns = timeline->cursor_ns - column * timeline->column_ns;
	lw_timeline_clip(timeline, n_columns);
}

static void move_cursor(struct lw_timeline *timeline, int64_t by_ns, int n_columns)
{
	timeline->cursor_ns += by_ns;
	lw_timeline_clip(timeline, n_columns);
	lw_timeline_show(timeline, timeline->cursor_ns, n_columns);
	lw_timeline_select_here(timeline);
}

static void page(struct lw_timeline *timeline, int by, int n_columns)
{
	int64_t span_ns = by * n_columns * timeline->column_ns;

	timeline->from_ns += span_ns;
	move_cursor(timeline, span_ns, n_columns);
}

static void go_to_step(struct lw_timeline *timeline, int by, int n_columns)
{
	const struct lw_rank *rank = &timeline->lanes.run->ranks.at[timeline->rank];
	int32_t s = step_here(timeline);
	int64_t span_ns = timeline->column_ns * n_columns, start_ns;
	const struct lw_step *step;

	if (!rank->steps.n)
		return;
	if (s == LW_NONE) /* before the first, or after the last */
		s = timeline->cursor_ns + timeline->lanes.ranks[timeline->rank].origin_ns <
				    rank->steps.at[0].start_ns
			    ? -1
			    : (int32_t)rank->steps.n;
	s += by;
	if (s < 0 || s >= (int32_t)rank->steps.n)
		return;
	step = &rank->steps.at[s];
	start_ns = step->start_ns - timeline->lanes.ranks[timeline->rank].origin_ns;
	if (span_ns > 2 * (step->end_ns - step->start_ns)) { /* many are shown: this one only */
		fit_step(timeline, s, n_columns);
	} else { /* the same zoom, the same place in the step */
		timeline->from_ns = start_ns - span_ns / 10;
		timeline->cursor_ns = start_ns;
		lw_timeline_clip(timeline, n_columns);
	}
	select_first(timeline, n_columns);
}

/* Another rank or tensor: what is followed stays selected, else the cursor's place does. */
static void move_row(struct lw_timeline *timeline, int by, size_t n_rows, int n_columns)
{
	size_t *row = timeline->is_by_tensor ? &timeline->row : &timeline->rank;
	const struct lw_batch *batch;

	if ((by < 0 && *row == 0) || (by > 0 && *row + 1 >= n_rows))
		return;
	*row = by < 0 ? *row - 1 : *row + 1;
	if (!timeline->is_following || timeline->is_by_tensor) {
		if (!timeline->is_following)
			lw_timeline_select_here(timeline);
		return;
	}
	batch = lw_timeline_batch(timeline, timeline->rank);
	if (batch)
		lw_timeline_show(timeline,
			batch->start_ns - timeline->lanes.ranks[timeline->rank].origin_ns,
			n_columns);
}

static void turn(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;
	int32_t tensor = view->focus->tensor;
	const struct lw_batch *batch = lw_timeline_batch(timeline, timeline->rank);
	const struct lw_rank *rank = &timeline->lanes.run->ranks.at[timeline->rank];
	const struct lw_tensor_lanes *tensors = &timeline->lanes.tensors;

	timeline->is_by_tensor = !timeline->is_by_tensor;
	timeline->top = 0;
	if (!timeline->is_by_tensor)
		return;
	if (lw_lanes_turn(&timeline->lanes, timeline->rank) < 0 || !tensors->n_order) {
		timeline->is_by_tensor = false;
		lw_app_say(view->app, true, "%s",
			rank->members.n ? lw_error_text() : "the run names no tensors");
		return;
	}
	if (batch && batch->n_members)
		tensor = (int32_t)rank->members.at[batch->first_member].tensor;
	timeline->row = 0;
	select_tensor(timeline, tensor);
}

static void follow(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;

	if (!timeline->is_following && timeline->group == LW_NONE) {
		lw_app_say(view->app, true, "no collective is selected: . goes to the next");
		return;
	}
	timeline->is_following = !timeline->is_following;
}

static void click(struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	const struct lw_input *input)
{
	int line = input->y - layout->first_line, x = input->x - layout->label_width;
	size_t row = timeline->top + (size_t)(line > 0 ? line / layout->row_lines : 0);

	if (line >= 0 && line < layout->n_lines && row < layout->n_rows) {
		if (timeline->is_by_tensor)
			timeline->row = row;
		else
			timeline->rank = row;
	}
	if (line >= layout->n_lines || x >= layout->n_columns)
		return;
	if (x >= 0)
		timeline->cursor_ns = timeline->from_ns + x * timeline->column_ns;
	lw_timeline_clip(timeline, layout->n_columns);
	timeline->is_following = false;
	lw_timeline_select_here(timeline);
}

/* Requests while the details are all of the screen. Return: understood. */
static bool request_details(struct lw_timeline *timeline, const struct lw_input *input)
{
	size_t by = 1;

	switch ((int)input->request) {
	case LW_REQUEST_ENTER:
	case LW_REQUEST_BACK:
		timeline->is_full = false;
		return true;
	case LW_REQUEST_PAGE_DOWN:
		by = (size_t)input->height; /* fallthrough */
	case LW_REQUEST_DOWN:
		timeline->details_top += by;
		return true;
	case LW_REQUEST_PAGE_UP:
		by = (size_t)input->height; /* fallthrough */
	case LW_REQUEST_UP:
		timeline->details_top -= timeline->details_top < by ? timeline->details_top : by;
		return true;
	case LW_REQUEST_TOP:
		timeline->details_top = 0;
		return true;
	case LW_REQUEST_BOTTOM:
		timeline->details_top = (size_t)INT32_MAX;
		return true;
	default:
		return false;
	}
}

/* Requests that move in time. Return: understood. */
static bool request_time(struct lw_view *view, enum lw_request request, int n_columns)
{
	struct lw_timeline *timeline = view->state;
	int by = request == LW_REQUEST_NEXT_ITEM ? 1 : -1;

	switch ((int)request) {
	case LW_REQUEST_LEFT:
		move_cursor(timeline, -timeline->column_ns, n_columns);
		return true;
	case LW_REQUEST_RIGHT:
		move_cursor(timeline, timeline->column_ns, n_columns);
		return true;
	case LW_REQUEST_PAGE_UP:
		page(timeline, -1, n_columns);
		return true;
	case LW_REQUEST_PAGE_DOWN:
		page(timeline, 1, n_columns);
		return true;
	case LW_REQUEST_TOP:
		move_cursor(timeline, -timeline->lanes.length_ns, n_columns);
		return true;
	case LW_REQUEST_BOTTOM:
		move_cursor(timeline, timeline->lanes.length_ns, n_columns);
		return true;
	case LW_REQUEST_NEXT_STEP:
	case LW_REQUEST_PREVIOUS_STEP:
		go_to_step(timeline, request == LW_REQUEST_NEXT_STEP ? 1 : -1, n_columns);
		return true;
	case LW_REQUEST_NEXT_ITEM:
	case LW_REQUEST_PREVIOUS_ITEM:
		if (!lw_timeline_next(timeline, by, n_columns))
			lw_app_say(view->app, true,
				by > 0 ? "no collective after this one" : "none before this one");
		return true;
	case LW_REQUEST_ZOOM_IN:
	case LW_REQUEST_ZOOM_OUT:
		zoom(timeline, request == LW_REQUEST_ZOOM_IN, n_columns);
		return true;
	case LW_REQUEST_ZOOM_ALL:
		timeline->to_fit = LW_TIMELINE_FIT_ALL;
		return true;
	default:
		return false;
	}
}

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct lw_timeline *timeline = view->state;
	struct lw_cells none = {0};
	struct lw_pane pane = {&none, 0, 0, input->width, input->height};
	struct lw_timeline_layout layout = lw_timeline_lay_out(timeline, pane);

	if (!timeline->column_ns) /* a key before the first picture */
		fit_pending(timeline, layout.n_columns);
	if (timeline->is_full && request_details(timeline, input))
		return true;
	switch ((int)input->request) {
	case LW_REQUEST_UP:
		move_row(timeline, -1, layout.n_rows, layout.n_columns);
		return true;
	case LW_REQUEST_DOWN:
		move_row(timeline, 1, layout.n_rows, layout.n_columns);
		return true;
	case LW_REQUEST_TURN:
		turn(view);
		return true;
	case LW_REQUEST_FOLLOW:
		follow(view);
		return true;
	case LW_REQUEST_SORT:
		timeline->density = (timeline->density + 1) % LW_TIMELINE_DENSITIES;
		return true;
	case LW_REQUEST_CLICK:
		click(timeline, &layout, input);
		return true;
	case LW_REQUEST_ENTER:
		timeline->is_full = true;
		return true;
	case LW_REQUEST_BACK:
		if (!timeline->is_following)
			return false;
		timeline->is_following = false;
		return true;
	default:
		return request_time(view, input->request, layout.n_columns);
	}
}

/* ---- find, copy, write --------------------------------------------------------------------------- */

/* Of the screen as it was drawn last. */
static int n_columns_of(const struct lw_view *view)
{
	int n_columns = ((const struct lw_timeline *)view->state)->n_columns;

	return n_columns > 0 ? n_columns : 1; /* not drawn yet */
}

static bool find(struct lw_view *view, const char *text, int by)
{
	struct lw_timeline *timeline = view->state;
	const struct lw_run *run = timeline->lanes.run;
	int32_t tensor;

	if (!timeline->column_ns)
		fit_pending(timeline, n_columns_of(view));
	tensor = lw_timeline_find(timeline, text, by, n_columns_of(view));
	if (tensor == LW_NONE)
		return false;
	view->focus->tensor = timeline->seen.tensor = tensor;
	select_tensor(timeline, tensor);
	lw_app_say(view->app, false, "%s", run->tensors.at[tensor].name);
	return true;
}

static bool copy(struct lw_view *view, FILE *out)
{
	struct lw_timeline *timeline = view->state;
	char text[LW_TIMELINE_TEXT_BYTES];

	if (!lw_timeline_batch(timeline, timeline->rank))
		return false;
	for (size_t n = 0; lw_timeline_details_line(timeline, n, text); n++)
		fprintf(out, "%s\n", text);
	return true;
}

static int write_csv(struct lw_view *view, FILE *out)
{
	const struct lw_timeline *timeline = view->state;

	return lw_timeline_write(timeline, timeline->from_ns,
		timeline->from_ns + timeline->column_ns * n_columns_of(view), out);
}

static const struct lw_key_words words[] = {{LW_REQUEST_NEXT_STEP, "step", "next step"},
	{LW_REQUEST_ZOOM_IN, "", "closer"}, {LW_REQUEST_ZOOM_OUT, "zoom", "farther"},
	{LW_REQUEST_NEXT_ITEM, "next", "next collective of this rank or tensor"},
	{LW_REQUEST_FOLLOW, "follow", "follow this collective over all ranks"},
	{LW_REQUEST_TURN, "tensors", "ranks down, or tensors"},
	{LW_REQUEST_ENTER, "all", "all details of this collective"},
	{LW_REQUEST_SORT, NULL, "lanes a rank: as fits, all, two, one"}, {0}};

const struct lw_view_ops lw_view_timeline = {
	.name = "timeline",
	.label = "time",
	.title = "what every rank or tensor did, when",
	.keys = {LW_CAN(UP) | LW_CAN(DOWN) | LW_CAN(LEFT) | LW_CAN(RIGHT) | LW_CAN(PAGE_UP) |
			 LW_CAN(PAGE_DOWN) | LW_CAN(TOP) | LW_CAN(BOTTOM) | LW_CAN(TURN) |
			 LW_CAN(FOLLOW) | LW_CAN(SORT) | LW_CAN(CLICK) | LW_CAN(ENTER) |
			 LW_CAN(NEXT_STEP) | LW_CAN(PREVIOUS_STEP) | LW_CAN(NEXT_ITEM) |
			 LW_CAN(PREVIOUS_ITEM) | LW_CAN(ZOOM_IN) | LW_CAN(ZOOM_OUT) |
			 LW_CAN(ZOOM_ALL),
		words},
	.state_bytes = sizeof(struct lw_timeline),
	.open = open_view,
	.draw = draw,
	.tick = tick,
	.request = request,
	.find = find,
	.copy = copy,
	.write = write_csv,
	.done = done,
};
