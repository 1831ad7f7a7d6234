/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_keys.c - what keys and clicks do in the timeline: zoom, pan, go, turn, follow. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "tui/app.h"
#include "tui/timeline.h"

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
	lw_timeline_move_to(timeline, timeline->cursor_ns + by_ns, n_columns);
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
	int32_t s = lw_timeline_step_here(timeline);
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
		lw_timeline_fit_step(timeline, s, n_columns);
	} else { /* the same zoom, the same place in the step */
		timeline->from_ns = start_ns - span_ns / 10;
		timeline->cursor_ns = start_ns;
		lw_timeline_clip(timeline, n_columns);
	}
	if (timeline->is_on_gpu || timeline->is_on_range)
		lw_timeline_select_any(timeline);
	else
		lw_timeline_select_first(timeline, n_columns);
}

/* Between lanes of a rank's GPUs, then to the next rank. Return: there was one. */
static bool move_lane(struct lw_timeline *timeline, int by, size_t n_rows)
{
	size_t n = (size_t)timeline->gpu_lines, line = timeline->gpu_line + (size_t)by;

	if (n && timeline->gpu_line >= n) /* on no lane so far */
		line = by > 0 ? 0 : n - 1;
	if (line >= n) {
		size_t rank = timeline->rank + (size_t)by;

		if (rank >= n_rows)
			return false;
		timeline->rank = rank;
		line = by > 0 || !n ? 0 : n - 1;
	}
	timeline->gpu_line = line;
	lw_timeline_gpu_select_here(timeline);
	return true;
}

/* Another rank or tensor: what is followed stays selected, else the cursor's place does. */
static void move_row(struct lw_timeline *timeline, int by, size_t n_rows, int n_columns)
{
	size_t *row = timeline->is_by_tensor ? &timeline->row : &timeline->rank;
	const struct lw_batch *batch;

	if (timeline->is_on_range && lw_timeline_range_move(timeline, by, n_columns))
		return;
	if (timeline->is_on_gpu && !timeline->is_by_tensor) {
		move_lane(timeline, by, n_rows);
		return;
	}
	if ((by < 0 && *row == 0) || (by > 0 && *row + 1 >= n_rows))
		return;
	*row = by < 0 ? *row - 1 : *row + 1;
	if (!timeline->is_following || timeline->is_by_tensor) {
		if (timeline->is_on_range)
			lw_timeline_range_enter(timeline);
		else if (!timeline->is_following)
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
	timeline->is_on_gpu = timeline->is_on_range = false;
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
	lw_timeline_select_tensor(timeline, tensor);
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

static void turn_nic(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;

	if (!lw_timeline_has_nic(timeline)) {
		lw_app_say(view->app, true, "what ranks sent was not recorded");
		return;
	}
	timeline->is_nic_hidden = view->app->is_nic_hidden = !timeline->is_nic_hidden;
	if (timeline->is_by_tensor)
		lw_app_say(view->app, false, "NIC lanes: %s where ranks are down",
			timeline->is_nic_hidden ? "not shown" : "shown");
}

static void turn_gpu(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;

	if (!timeline->lanes.gpu.is_there) {
		lw_app_say(view->app, true, "no kernel or copy of a GPU was recorded");
		return;
	}
	timeline->gpu = (timeline->gpu + 1) % LW_TIMELINE_GPU_MODES;
	lw_timeline_gpu_follow(timeline);
	timeline->is_on_gpu &= timeline->gpu != LW_TIMELINE_GPU_HIDDEN;
	lw_app_say(view->app, false, "GPU lanes: %s%s",
		timeline->gpu == LW_TIMELINE_GPU_KINDS     ? "by kind of work"
		: timeline->gpu == LW_TIMELINE_GPU_STREAMS ? "by stream"
							   : "not shown",
		timeline->is_by_tensor ? ", where ranks are down" : "");
}

static void turn_ranges(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;
	bool is_shown =
		timeline->ranges_shown == LW_TIMELINE_RANGES_SHOWN || timeline->range_lines > 0;

	if (!timeline->lanes.ranges.most_levels) {
		lw_app_say(view->app, true, "no range of the program was recorded");
		return;
	}
	timeline->ranges_shown = is_shown ? LW_TIMELINE_RANGES_HIDDEN : LW_TIMELINE_RANGES_SHOWN;
	timeline->is_on_range &= !is_shown;
	lw_app_say(view->app, false, "the program's ranges: %s%s", is_shown ? "not shown" : "shown",
		timeline->is_by_tensor ? ", where ranks are down" : "");
}

/* Collectives, kernels and copies, ranges: those that there are. */
static void turn_selected(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;
	bool has_gpu = timeline->lanes.gpu.is_there,
	     has_ranges = timeline->lanes.ranges.most_levels > 0;
	bool is_on_gpu = has_gpu && !timeline->is_on_gpu && !timeline->is_on_range;

	if ((!has_gpu && !has_ranges) || timeline->is_by_tensor) {
		lw_app_say(view->app, true, "%s",
			timeline->is_by_tensor
				? "kernels are where ranks are down: t turns"
				: "no kernel or copy of a GPU was recorded, and no range");
		return;
	}
	timeline->is_on_range = has_ranges && !timeline->is_on_range && !is_on_gpu;
	timeline->is_on_gpu = is_on_gpu;
	timeline->is_following = false;
	if (timeline->is_on_range) {
		timeline->ranges_shown = LW_TIMELINE_RANGES_SHOWN;
		lw_timeline_range_enter(timeline);
		return;
	}
	if (is_on_gpu && timeline->gpu == LW_TIMELINE_GPU_HIDDEN)
		timeline->gpu = LW_TIMELINE_GPU_KINDS;
	lw_timeline_select_any(timeline);
	/* rather a lane on which there is something */
	for (size_t i = 0, line = timeline->gpu_line;
		timeline->is_on_gpu && !timeline->item.is_there && i <= (size_t)timeline->gpu_lines;
		i++) {
		timeline->gpu_line = i < (size_t)timeline->gpu_lines ? i : line;
		lw_timeline_select_any(timeline);
	}
}

static void click(struct lw_timeline *timeline, const struct lw_timeline_layout *layout,
	const struct lw_input *input)
{
	int line = input->y - layout->first_line, x = input->x - layout->label_width;
	size_t row = timeline->top + (size_t)(line > 0 ? line / layout->row_lines : 0);
	int lane = line > 0 ? line % layout->row_lines : 0;

	if (line >= 0 && line < layout->n_lines && row < layout->n_rows) {
		if (timeline->is_by_tensor)
			timeline->row = row;
		else
			timeline->rank = row;
		timeline->is_on_range = lane < layout->range_lines;
		if (timeline->is_on_range)
			timeline->range_level = (size_t)lane + lw_timeline_range_base(timeline, row,
								       layout->range_lines);
		lane -= layout->range_lines;
		timeline->is_on_gpu = lane >= 0 && lane < layout->gpu_lines;
		if (timeline->is_on_gpu)
			timeline->gpu_line = (size_t)lane;
	}
	if (line >= layout->n_lines || x >= layout->n_columns)
		return;
	if (x >= 0)
		timeline->cursor_ns = timeline->from_ns + x * timeline->column_ns;
	lw_timeline_clip(timeline, layout->n_columns);
	timeline->is_following = false;
	lw_timeline_select_any(timeline);
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

static void next_item(struct lw_view *view, int by, int n_columns)
{
	struct lw_timeline *timeline = view->state;

	if (timeline->is_on_range) {
		if (!lw_timeline_range_next(timeline, by, n_columns))
			lw_app_say(view->app, true,
				by > 0 ? "no range after this one" : "none before this one");
		return;
	}
	if (timeline->is_on_gpu && !lw_timeline_gpu_next(timeline, by, n_columns))
		lw_app_say(view->app, true,
			by > 0 ? "no kernel or copy after this one" : "none before this one");
	else if (!timeline->is_on_gpu && !lw_timeline_next(timeline, by, n_columns))
		lw_app_say(view->app, true,
			by > 0 ? "no collective after this one" : "none before this one");
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
		next_item(view, by, n_columns);
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

bool lw_timeline_request(struct lw_view *view, const struct lw_input *input)
{
	struct lw_timeline *timeline = view->state;
	struct lw_cells none = {0};
	struct lw_pane pane = {&none, 0, 0, input->width, input->height};
	struct lw_timeline_layout layout = lw_timeline_lay_out(timeline, pane);

	timeline->gpu_lines = layout.gpu_lines;
	timeline->range_lines = layout.range_lines;
	if (!timeline->column_ns) /* a key before the first picture */
		lw_timeline_fit_pending(timeline, layout.n_columns);
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
	case LW_REQUEST_NIC:
		turn_nic(view);
		return true;
	case LW_REQUEST_GPU:
		turn_gpu(view);
		return true;
	case LW_REQUEST_KERNELS:
		turn_selected(view);
		return true;
	case LW_REQUEST_RANGES:
		turn_ranges(view);
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
		if (!timeline->is_following && !timeline->is_on_gpu && !timeline->is_on_range)
			return false;
		timeline->is_following = timeline->is_on_gpu = timeline->is_on_range = false;
		return true;
	default:
		return request_time(view, input->request, layout.n_columns);
	}
}
