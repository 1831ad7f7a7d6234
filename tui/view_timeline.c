/* SPDX-License-Identifier: Apache-2.0 */
/* view_timeline.c - ranks or tensors down, time across. Keys: timeline_keys.c; drawing: timeline_draw.c. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzer/kernel_text.h"
#include "base/clock.h"
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
		return lw_fail(LW_ERR_STATE, "the run holds no rank%s",
			run->marks.names.n || run->marks.n_processes
				? ", whose lanes are drawn here: its marks and ranges are in `lapwing report` and SQL (v_range)"
				: "");
	lw_timeline_ranges_begin(timeline);
	status = take_lanes(view->data, &timeline->lanes);
	timeline->rank = clip(timeline->rank, run->ranks.n);
	if (timeline->group >= (int32_t)run->groups.n)
		timeline->group = LW_NONE;
	if (!timeline->was_open) {
		timeline->group = LW_NONE;
		timeline->seen = LW_FOCUS_NONE;
		timeline->to_fit = first_counted(&run->ranks.at[timeline->rank]);
	}
	if (status == LW_OK && timeline->is_by_tensor)
		status = lw_lanes_turn(&timeline->lanes, timeline->rank);
	timeline->row = clip(timeline->row, timeline->lanes.tensors.n_order);
	timeline->item.is_there = false; /* of another analysis */
	timeline->is_on_gpu &= timeline->lanes.gpu.is_there;
	timeline->bar.is_there = false;
	timeline->is_on_range &= timeline->lanes.ranges.most_levels > 0;
	timeline->was_open |= status == LW_OK;
	if (status < 0)
		lw_lanes_done(&timeline->lanes);
	return status;
}

static void done(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;

	free(timeline->ranges);
	timeline->ranges = NULL;
	lw_lanes_done(&timeline->lanes);
}

/* ---- what other views selected --------------------------------------------------------------------- */

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
		lw_timeline_select_tensor(timeline, focus->tensor);
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
		lw_timeline_fit_step(timeline, batch->step, n_columns);
	lw_timeline_go(
		timeline, (size_t)(batch - run->ranks.at[timeline->rank].batches.at), n_columns);
}

/* A time that was asked for (`:at`). */
static void go_to_focus_time(struct lw_view *view, int n_columns)
{
	if (!view->focus->has_at)
		return;
	view->focus->has_at = false;
	lw_timeline_move_to(view->state, view->focus->at_ns, n_columns);
}

/* What the other views get to know. */
static void tell_focus(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;
	struct lw_focus *focus = view->focus;
	int32_t step = lw_timeline_step_here(timeline);

	focus->rank = (int32_t)timeline->rank;
	if (step != LW_NONE)
		focus->step = step;
	if (timeline->group != LW_NONE)
		focus->group = timeline->group;
	if (lw_timeline_tensor(timeline) != LW_NONE)
		focus->tensor = lw_timeline_tensor(timeline);
	timeline->seen = *focus;
}

/* The tensors on the screen: each takes milliseconds of a long run. */
static bool tick(struct lw_view *view)
{
	struct lw_timeline *timeline = view->state;
	struct lw_tensor_lanes *tensors = &timeline->lanes.tensors;
	int64_t begin_ns = lw_clock_ns();
	bool has_made = false;

	if (!timeline->is_by_tensor || !tensors->tracks)
		return false;
	for (size_t i = timeline->top;
		i < timeline->top + timeline->n_shown && i < tensors->n_order; i++) {
		if (tensors->tracks[tensors->order[i]])
			continue;
		if (lw_clock_ns() - begin_ns >= BUDGET_NS)
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
	timeline->is_nic_hidden = view->app && view->app->is_nic_hidden;
	layout = lw_timeline_lay_out(timeline, pane);
	lw_timeline_fit_pending(timeline, layout.n_columns);
	go_to_focus_group(view, layout.n_columns);
	go_to_focus_time(view, layout.n_columns);
	timeline->n_columns = layout.n_columns;
	timeline->gpu_lines = layout.gpu_lines;
	timeline->range_lines = layout.range_lines;
	timeline->n_shown = layout.n_shown;
	tell_focus(view);
	if (timeline->is_full)
		lw_timeline_details_draw(timeline, pane);
	else
		lw_timeline_draw(timeline, pane);
}

/* ---- find, copy, write --------------------------------------------------------------------------- */

/* Of the screen as it was drawn last. */
static int n_columns_of(const struct lw_view *view)
{
	int n_columns = ((const struct lw_timeline *)view->state)->n_columns;

	return n_columns > 0 ? n_columns : 1; /* not drawn yet */
}

/* Where kernels are selected, or nothing else is of that name. */
static bool find_kernel(struct lw_view *view, const char *text, int by)
{
	struct lw_timeline *timeline = view->state;
	const char *name = lw_timeline_shows_gpu(timeline)
				   ? lw_timeline_gpu_find(timeline, text, by, n_columns_of(view))
				   : NULL;
	char read[LW_KERNEL_TEXT_BYTES];

	if (!name)
		return false;
	timeline->is_on_gpu = true;
	lw_app_say(view->app, false, "%s", lw_kernel_text(name, read));
	return true;
}

/* Where nothing that is drawn has that name: marks, and ranges of other threads. */
static bool find_range(struct lw_view *view, const char *text, int by)
{
	struct lw_timeline *timeline = view->state;
	const char *found = timeline->is_on_range
				    ? lw_timeline_range_find(timeline, text, by, n_columns_of(view))
				    : NULL;

	if (!found)
		found = lw_timeline_ranges_find(timeline, text, by, n_columns_of(view));

	if (found)
		lw_app_say(view->app, false, "%s", found);
	return found != NULL;
}

static bool find(struct lw_view *view, const char *text, int by)
{
	struct lw_timeline *timeline = view->state;
	const struct lw_run *run = timeline->lanes.run;
	int32_t tensor;

	if (!timeline->column_ns)
		lw_timeline_fit_pending(timeline, n_columns_of(view));
	if (timeline->is_on_range)
		return find_range(view, text, by);
	if (timeline->is_on_gpu)
		return find_kernel(view, text, by) || find_range(view, text, by);
	tensor = lw_timeline_find(timeline, text, by, n_columns_of(view));
	if (tensor == LW_NONE)
		return find_kernel(view, text, by) || find_range(view, text, by);
	view->focus->tensor = timeline->seen.tensor = tensor;
	lw_timeline_select_tensor(timeline, tensor);
	lw_app_say(view->app, false, "%s", run->tensors.at[tensor].name);
	return true;
}

static bool copy(struct lw_view *view, FILE *out)
{
	struct lw_timeline *timeline = view->state;
	char text[LW_TIMELINE_TEXT_BYTES];

	if (!timeline->is_on_gpu && !timeline->is_on_range &&
		!lw_timeline_batch(timeline, timeline->rank))
		return false;
	for (size_t n = 0; lw_timeline_details_line(timeline, n, text); n++)
		fprintf(out, "%s\n", text);
	return true;
}

static int write_csv(struct lw_view *view, FILE *out)
{
	const struct lw_timeline *timeline = view->state;
	int64_t to_ns = timeline->from_ns + timeline->column_ns * n_columns_of(view);

	if (timeline->is_on_range)
		return lw_timeline_range_write(timeline, timeline->from_ns, to_ns, out);
	if (timeline->is_on_gpu)
		return lw_timeline_gpu_write(timeline, timeline->from_ns, to_ns, out);
	return lw_timeline_write(timeline, timeline->from_ns, to_ns, out);
}

/* Before and after what `v` goes to. */
#define ROWS_BEFORE                                                                                \
	{LW_REQUEST_NEXT_STEP, "step", "next step"}, {LW_REQUEST_ZOOM_IN, "", "closer"},           \
		{LW_REQUEST_ZOOM_OUT, "zoom", "farther"},                                          \
	{                                                                                          \
		LW_REQUEST_NEXT_ITEM, "next", "next collective of this rank or tensor"             \
	}
#define ROWS_AFTER                                                                                 \
	{LW_REQUEST_FOLLOW, "follow", "follow this collective over all ranks"},                    \
		{LW_REQUEST_TURN, "tensors", "ranks down, or tensors"},                            \
		{LW_REQUEST_ENTER, "all", "all details of this collective"},                       \
		{LW_REQUEST_SORT, NULL, "lanes a rank: as fits, all, two, one"},                   \
	{                                                                                          \
		0                                                                                  \
	}
#define ROWS_ON_GPU                                                                                \
	{LW_REQUEST_PREVIOUS_ITEM, "", NULL},                                                      \
		{LW_REQUEST_NEXT_ITEM, "next", "next kernel or copy of this lane"},                \
		{LW_REQUEST_UP, "", "the lane above, or the rank"},                                \
		{LW_REQUEST_DOWN, "lane", "the lane below, or the rank"},                          \
		{LW_REQUEST_NEXT_STEP, "step", "next step"}, {LW_REQUEST_ZOOM_IN, "", "closer"},   \
		{LW_REQUEST_ZOOM_OUT, "zoom", "farther"}, {LW_REQUEST_GPU, "streams", NULL},       \
		{LW_REQUEST_EXPORT, NULL, "write the screen's kernels and copies as CSV"},         \
	{                                                                                          \
		0                                                                                  \
	}

static const struct lw_key_words words[] = {ROWS_BEFORE, ROWS_AFTER};
static const struct lw_key_words words_beside_gpu[] = {
	ROWS_BEFORE, {LW_REQUEST_KERNELS, "kernels", NULL}, ROWS_AFTER};
static const struct lw_key_words words_beside_ranges[] = {
	ROWS_BEFORE, {LW_REQUEST_KERNELS, "ranges", NULL}, ROWS_AFTER};
static const struct lw_key_words words_on_gpu[] = {
	{LW_REQUEST_KERNELS, "collectives", NULL}, ROWS_ON_GPU};
static const struct lw_key_words words_on_gpu_beside_ranges[] = {
	{LW_REQUEST_KERNELS, "ranges", NULL}, ROWS_ON_GPU};

static const struct lw_key_words words_on_range[] = {{LW_REQUEST_KERNELS, "collectives", NULL},
	{LW_REQUEST_PREVIOUS_ITEM, "", NULL},
	{LW_REQUEST_NEXT_ITEM, "next", "next range of this depth"},
	{LW_REQUEST_UP, "", "the range around, or the rank above"},
	{LW_REQUEST_DOWN, "out, in", "the first range inside, or the rank below"},
	{LW_REQUEST_NEXT_STEP, "step", "next step"}, {LW_REQUEST_ZOOM_IN, "", "closer"},
	{LW_REQUEST_ZOOM_OUT, "zoom", "farther"}, {LW_REQUEST_RANGES, "hide", NULL},
	{LW_REQUEST_ENTER, "all", "all details of this range"},
	{LW_REQUEST_EXPORT, NULL, "write the screen's ranges as CSV"}, {0}};

static const struct lw_key_words words_of_details[] = {
	{LW_REQUEST_BACK, "closes the details", NULL}, {LW_REQUEST_UP, "", NULL},
	{LW_REQUEST_DOWN, "more", NULL}, {LW_REQUEST_NEXT_ITEM, "next", NULL},
	{LW_REQUEST_COPY, "copy", NULL}, {0}};

static const struct lw_key_words *words_now(const struct lw_view *view)
{
	const struct lw_timeline *timeline = view->state;

	return timeline->is_full       ? words_of_details
	       : timeline->is_on_range ? words_on_range
	       : timeline->is_on_gpu && timeline->lanes.ranges.most_levels
		       ? words_on_gpu_beside_ranges
	       : timeline->is_on_gpu                                           ? words_on_gpu
	       : lw_timeline_shows_gpu(timeline)                               ? words_beside_gpu
	       : timeline->lanes.ranges.most_levels && !timeline->is_by_tensor ? words_beside_ranges
									       : words;
}

const struct lw_view_ops lw_view_timeline = {
	.name = "timeline",
	.label = "time",
	.title = "what every rank or tensor did, when",
	.keys = {LW_CAN(UP) | LW_CAN(DOWN) | LW_CAN(LEFT) | LW_CAN(RIGHT) | LW_CAN(PAGE_UP) |
			 LW_CAN(PAGE_DOWN) | LW_CAN(TOP) | LW_CAN(BOTTOM) | LW_CAN(TURN) |
			 LW_CAN(FOLLOW) | LW_CAN(NIC) | LW_CAN(GPU) | LW_CAN(KERNELS) |
			 LW_CAN(RANGES) | LW_CAN(SORT) | LW_CAN(CLICK) | LW_CAN(ENTER) |
			 LW_CAN(NEXT_STEP) | LW_CAN(PREVIOUS_STEP) | LW_CAN(NEXT_ITEM) |
			 LW_CAN(PREVIOUS_ITEM) | LW_CAN(ZOOM_IN) | LW_CAN(ZOOM_OUT) |
			 LW_CAN(ZOOM_ALL),
		words},
	.state_bytes = sizeof(struct lw_timeline),
	.open = open_view,
	.draw = draw,
	.tick = tick,
	.request = lw_timeline_request,
	.find = find,
	.copy = copy,
	.words = words_now,
	.write = write_csv,
	.done = done,
};
