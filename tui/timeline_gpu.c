/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_gpu.c - the lanes of what a rank's GPUs did: by kind of work, or by stream. */
#include <stdio.h>
#include <stdlib.h>

#include "tui/timeline.h"

/* How each kind looks: as what it is of on the lanes of the host. */
static const struct {
	const char *label;
	enum lw_lane lane;
} looks[LW_GPU_N_CLASSES] = {
	[LW_GPU_COMPUTE] = {"GPU comp", LW_LANE_COMPUTE},
	[LW_GPU_COMMUNICATION] = {"GPU comm", LW_LANE_ALLREDUCE},
	[LW_GPU_COPY] = {"GPU copy", LW_LANE_MISC},
};

bool lw_timeline_shows_gpu(const struct lw_timeline *timeline)
{
	return timeline->lanes.gpu.is_there && timeline->gpu != LW_TIMELINE_GPU_HIDDEN &&
	       !timeline->is_by_tensor;
}

bool lw_timeline_gpu_has_compute(const struct lw_timeline *timeline)
{
	return lw_timeline_shows_gpu(timeline) && timeline->gpu == LW_TIMELINE_GPU_KINDS;
}

int lw_timeline_gpu_n_lines(const struct lw_timeline *timeline, enum lw_timeline_density density)
{
	const struct lw_gpu_lanes *lanes = &timeline->lanes.gpu;
	int n = 0;

	if (!lw_timeline_shows_gpu(timeline) || density == LW_TIMELINE_ONE)
		return 0;
	if (timeline->gpu == LW_TIMELINE_GPU_STREAMS) {
		if (density == LW_TIMELINE_TWO)
			return 0;
		return lanes->most_streams < LW_TIMELINE_MAX_STREAMS ? (int)lanes->most_streams
								     : LW_TIMELINE_MAX_STREAMS;
	}
	for (int i = 0; i < LW_GPU_N_CLASSES; i++)
		n += i == LW_GPU_COMPUTE || lanes->has[i];
	return density == LW_TIMELINE_TWO && n > 2 ? 2 : n;
}

int lw_timeline_gpu_class(const struct lw_timeline *timeline, size_t line)
{
	size_t n = 0;

	if (timeline->gpu == LW_TIMELINE_GPU_STREAMS)
		return LW_NONE;
	for (int i = 0; i < LW_GPU_N_CLASSES; i++)
		if ((i == LW_GPU_COMPUTE || timeline->lanes.gpu.has[i]) && n++ == line)
			return i;
	return LW_NONE;
}

const char *lw_timeline_gpu_label(
	const struct lw_timeline *timeline, size_t r, size_t line, char text[LW_UNIT_TEXT_BYTES])
{
	const struct lw_gpu_rank *gpu = &timeline->lanes.run->ranks.at[r].gpu;
	int gpu_class = lw_timeline_gpu_class(timeline, line);

	text[0] = 0;
	if (gpu_class == LW_GPU_COMPUTE && !gpu->kernels.n)
		snprintf(text, LW_UNIT_TEXT_BYTES, "compute"); /* by its thread */
	else if (gpu_class != LW_NONE)
		snprintf(text, LW_UNIT_TEXT_BYTES, "%s", looks[gpu_class].label);
	else if (line < gpu->streams.n && gpu->devices.n > 1)
		snprintf(text, LW_UNIT_TEXT_BYTES, "%u str %u", gpu->streams.at[line].device,
			gpu->streams.at[line].stream);
	else if (line < gpu->streams.n)
		snprintf(text, LW_UNIT_TEXT_BYTES, "stream %u", gpu->streams.at[line].stream);
	return text;
}

/* How much of each column, in eighths; a little is still something. */
static void draw_track(struct lw_pane pane, const struct lw_track *track, int64_t from_ns,
	int64_t column_ns, enum lw_lane lane)
{
	int64_t occupied[LW_TIMELINE_MAX_COLUMNS];
	int n = pane.width < LW_TIMELINE_MAX_COLUMNS ? pane.width : LW_TIMELINE_MAX_COLUMNS;

	lw_track_columns(track, from_ns, column_ns, n, occupied);
	for (int x = 0; x < n; x++) {
		int level = (int)(occupied[x] * 8 / column_ns);

		if (occupied[x] > 0)
			lw_pane_rune(pane, x, 0, lw_lanes[lane].style,
				lw_glyph(pane.cells,
					level >= 7 ? LW_GLYPH_LEVEL_LAST
						   : LW_GLYPH_LEVEL_FIRST + (enum lw_glyph)level));
	}
}

/* Of a stream, what takes most of a column of all that ran on it. */
static void draw_stream(
	struct lw_pane pane, const struct lw_gpu_tracks *tracks, int64_t from_ns, int64_t column_ns)
{
	static const int kinds[] = {LW_GPU_COMMUNICATION, LW_GPU_COMPUTE, LW_GPU_COPY};
	int64_t(*occupied)[LW_TIMELINE_MAX_COLUMNS] = calloc(LW_GPU_N_CLASSES, sizeof(*occupied));
	int n = pane.width < LW_TIMELINE_MAX_COLUMNS ? pane.width : LW_TIMELINE_MAX_COLUMNS;

	for (int i = 0; occupied && i < LW_GPU_N_CLASSES; i++)
		lw_track_columns(&tracks->of[i], from_ns, column_ns, n, occupied[i]);
	for (int x = 0; occupied && x < n; x++) {
		int most = LW_NONE;
		enum lw_glyph glyph;

		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (occupied[kinds[i]][x] > (most == LW_NONE ? 0 : occupied[most][x]))
				most = kinds[i];
		if (most == LW_NONE)
			continue;
		/* where the stream is idle for most of it: as high as what it has */
		glyph = occupied[most][x] < column_ns / 2
				? LW_GLYPH_LEVEL_FIRST +
					  (enum lw_glyph)(occupied[most][x] * 8 / column_ns)
				: lw_lanes[looks[most].lane].glyph;
		lw_pane_rune(
			pane, x, 0, lw_lanes[looks[most].lane].style, lw_glyph(pane.cells, glyph));
	}
	free(occupied);
}

void lw_timeline_gpu_draw(
	const struct lw_timeline *timeline, size_t r, size_t line, struct lw_pane pane)
{
	const struct lw_rank_lanes *rank = &timeline->lanes.ranks[r];
	const struct lw_gpu_rank_lanes *gpu = &timeline->lanes.gpu.ranks[r];
	int64_t from_ns = timeline->from_ns + rank->origin_ns;
	int gpu_class = lw_timeline_gpu_class(timeline, line);
	struct lw_interval span;

	if (gpu_class == LW_GPU_COMPUTE && rank->is_waited == LW_BLOCKED_UNKNOWN)
		lw_pane_text(pane, 0, 0, pane.width, LW_STYLE_DIM, "? not known");
	else if (gpu_class == LW_GPU_COMPUTE && !timeline->lanes.run->ranks.at[r].gpu.kernels.n)
		draw_track(pane, &rank->tracks.of[LW_LANE_COMPUTE], from_ns, timeline->column_ns,
			LW_LANE_COMPUTE);
	else if (gpu_class != LW_NONE)
		draw_track(pane, &gpu->all.of[gpu_class], from_ns, timeline->column_ns,
			looks[gpu_class].lane);
	else if (line < gpu->n_streams)
		draw_stream(pane, &gpu->streams[line], from_ns, timeline->column_ns);
	if (timeline->is_on_gpu && r == timeline->rank && line == timeline->gpu_line &&
		lw_timeline_item_span(timeline, &span))
		lw_timeline_mark(timeline, pane, span);
}
