/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_layout.c - where things are in the timeline: which lanes have room, rows, details. */
#include "tui/timeline.h"

enum { SIDE_FROM = 120 }; /* details beside the rows on screens as wide as this */

static int n_lanes_there(const struct lw_timeline *timeline)
{
	int n = 0;

	for (size_t k = 0; k < LW_TRACKS; k++)
		n += k == LW_LANE_COMPUTE || timeline->lanes.is_there[k];
	return n;
}

/* The first of these with which all ranks are on the screen, else the last. */
static const struct shape {
	enum lw_timeline_density density;
	int nic_lines;
} shapes[] = {{LW_TIMELINE_ALL, 2}, {LW_TIMELINE_ALL, 1}, {LW_TIMELINE_TWO, 2},
	{LW_TIMELINE_TWO, 1}, {LW_TIMELINE_ALL, 0}, {LW_TIMELINE_TWO, 0}, {LW_TIMELINE_ONE, 2},
	{LW_TIMELINE_ONE, 1}, {LW_TIMELINE_ONE, 0}};

/* Return: all ranks are on the screen. */
static bool take_shape(const struct lw_timeline *timeline, const struct shape *shape,
	bool is_shared_selected, struct lw_timeline_layout *layout)
{
	/* that of computing is one of the GPU's, where these are shown */
	int n_gpu = lw_timeline_gpu_n_lines(timeline, shape->density);
	int n_less = n_gpu && lw_timeline_gpu_has_compute(timeline);
	const int n_lanes[] = {[LW_TIMELINE_ALL] = n_lanes_there(timeline) - n_less,
		[LW_TIMELINE_TWO] = 2 - n_less,
		[LW_TIMELINE_ONE] = 1};
	bool has_own = shape->density != LW_TIMELINE_ONE && shape->nic_lines &&
		       lw_timeline_nic_count(timeline, false);
	size_t n_shared = shape->nic_lines ? lw_timeline_nic_count(timeline, true) : 0;

	if (is_shared_selected && n_shared)
		n_shared = lw_timeline_nic_is_shared(timeline, timeline->rank);
	layout->density = shape->density;
	layout->nic_lines = has_own ? shape->nic_lines : 0;
	layout->shared_lines = n_shared ? shape->nic_lines : 0;
	layout->is_shared_selected = is_shared_selected;
	layout->gpu_lines = n_gpu;
	/* who asks for ranges gets a line of them at least, and the ranks that fit */
	layout->range_lines = timeline->ranges_shown == LW_TIMELINE_RANGES_SHOWN &&
			      lw_timeline_shows_ranges(timeline);
	layout->lanes_per_row =
		n_lanes[shape->density] + layout->nic_lines + n_gpu + layout->range_lines;
	return layout->n_rows * (size_t)layout->lanes_per_row +
		       n_shared * (size_t)layout->shared_lines <=
	       (size_t)(layout->n_lines > 0 ? layout->n_lines : 0);
}

static void choose_shape(const struct lw_timeline *timeline, struct lw_timeline_layout *layout)
{
	/* who asks for streams gets them, and the ranks that fit */
	enum lw_timeline_density only = timeline->density == LW_TIMELINE_FITTING &&
							lw_timeline_shows_gpu(timeline) &&
							timeline->gpu == LW_TIMELINE_GPU_STREAMS
						? LW_TIMELINE_ALL
						: timeline->density;

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		if ((only != LW_TIMELINE_FITTING && only != shapes[i].density) ||
			(shapes[i].nic_lines && !lw_timeline_shows_nic(timeline)))
			continue;
		if (take_shape(timeline, &shapes[i], false, layout) ||
			take_shape(timeline, &shapes[i], true, layout))
			break;
	}
	layout->n_lines -=
		layout->shared_lines *
		(layout->is_shared_selected ? 1 : (int)lw_timeline_nic_count(timeline, true));
}

/* Ranges within ranges have what the other lanes leave, but the blanks between ranks. */
static void add_range_lines(
	const struct lw_timeline *timeline, struct lw_timeline_layout *layout, int n_ranks)
{
	size_t most = timeline->lanes.ranges.most_levels;

	if (!lw_timeline_shows_ranges(timeline) || layout->density == LW_TIMELINE_ONE)
		return;
	most = most < LW_TIMELINE_RANGE_LINES ? most : LW_TIMELINE_RANGE_LINES;
	while (layout->range_lines < (int)most &&
		n_ranks * (layout->lanes_per_row + 2) <= layout->n_lines + 1) {
		layout->range_lines++;
		layout->lanes_per_row++;
	}
}

static void place_rows(const struct lw_timeline *timeline, struct lw_timeline_layout *layout)
{
	const struct lw_run *run = timeline->lanes.run;
	int n;

	if (timeline->is_by_tensor) {
		layout->n_rows = timeline->lanes.tensors.n_order;
		layout->lanes_per_row = layout->row_lines = 1;
		layout->label_width = layout->n_columns / 4 < 26 ? layout->n_columns / 4 : 26;
	} else {
		layout->n_rows = run->ranks.n;
		choose_shape(timeline, layout);
		n = (int)layout->n_rows;
		add_range_lines(timeline, layout, n);
		layout->row_lines = layout->lanes_per_row +
				    (layout->lanes_per_row > 1 &&
					    n * (layout->lanes_per_row + 1) <= layout->n_lines + 1);
		layout->label_width = 2 + lw_timeline_n_digits(run->size);
		if (layout->density != LW_TIMELINE_ONE)
			layout->label_width += LW_TIMELINE_NAME_WIDTH;
	}
	layout->n_columns -= layout->label_width;
	if (layout->n_columns > LW_TIMELINE_MAX_COLUMNS)
		layout->n_columns = LW_TIMELINE_MAX_COLUMNS;
	if (layout->n_columns < 1)
		layout->n_columns = 1;
	layout->n_shown = (size_t)((layout->n_lines + layout->row_lines - layout->lanes_per_row) /
				   layout->row_lines);
	if (layout->n_shown < 1)
		layout->n_shown = 1;
}

struct lw_timeline_layout lw_timeline_lay_out(
	const struct lw_timeline *timeline, struct lw_pane pane)
{
	struct lw_timeline_layout layout = {.n_columns = pane.width, .legend_line = -1};
	int height = pane.height;
	int head_lines = LW_TIMELINE_HEAD_LINES + lw_timeline_shows_nic(timeline);

	layout.header_lines = height >= 8 ? 3 : 2;
	if (pane.width >= SIDE_FROM && height > head_lines) {
		layout.n_columns = pane.width - LW_TIMELINE_SIDE_WIDTH;
		layout.details = lw_pane_part(
			pane, layout.n_columns + 1, 0, LW_TIMELINE_SIDE_WIDTH - 1, pane.height);
	} else if (height >= 18) {
		height -= head_lines;
	} else if (height >= 12) {
		height -= 3;
	}
	if (height < pane.height)
		layout.details = lw_pane_part(pane, 0, height, pane.width, pane.height - height);
	if (height >= 8)
		layout.legend_line = --height;
	layout.first_line = layout.header_lines;
	layout.n_lines = height - layout.header_lines;
	place_rows(timeline, &layout);
	return layout;
}
