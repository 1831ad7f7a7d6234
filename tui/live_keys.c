/* SPDX-License-Identifier: Apache-2.0 */
/* live_keys.c - what keys do while the job runs: hold, move in time, mark, write a snapshot. */
#include <math.h>
#include <stdio.h>

#include "base/err.h"
#include "tui/live.h"

#define LIVE_CAN                                                                                   \
	(LW_CAN(PAUSE) | LW_CAN(MARK) | LW_CAN(SNAPSHOT) | LW_CAN(LEFT) | LW_CAN(RIGHT) |          \
		LW_CAN(PREVIOUS_STEP) | LW_CAN(NEXT_STEP) | LW_CAN(PAGE_UP) | LW_CAN(PAGE_DOWN) |  \
		LW_CAN(UP) | LW_CAN(DOWN) | LW_CAN(COPY))
#define LIVE_WORDS                                                                                 \
	{LW_REQUEST_LEFT, "", "back in time"}, {LW_REQUEST_RIGHT, "in time", "later"},             \
		{LW_REQUEST_MARK, "mark", "mark this moment"},                                     \
		{LW_REQUEST_SNAPSHOT, "snapshot", "write the run so far to a file"},               \
		{LW_REQUEST_COPY, NULL, "copy this picture as text (OSC 52)"},                     \
		{LW_REQUEST_PREVIOUS_STEP, NULL, "back in time"},                                  \
		{LW_REQUEST_NEXT_STEP, NULL, "later"},                                             \
		{LW_REQUEST_PAGE_UP, NULL, "back by a window"},                                    \
		{LW_REQUEST_PAGE_DOWN, NULL, "later by a window"},                                 \
	{                                                                                          \
		0                                                                                  \
	}

const struct lw_key_set *lw_live_keys(const struct lw_live *live)
{
	static const struct lw_key_words following[] = {
		{LW_REQUEST_PAUSE, "holds", "hold this picture"}, LIVE_WORDS};
	static const struct lw_key_words held[] = {
		{LW_REQUEST_PAUSE, "goes on", "go on with what happens now"}, LIVE_WORDS};
	static const struct lw_key_words ended[] = {
		{LW_REQUEST_PAUSE, "shows the whole run", "let go of the held picture"},
		LIVE_WORDS};
	static const struct lw_key_set sets[] = {
		{LIVE_CAN, following}, {LIVE_CAN, held}, {LIVE_CAN, ended}};

	return &sets[live->is_whole ? 2 : live->is_paused];
}

static void pause(struct lw_app *app)
{
	struct lw_live *live = app->live;

	if (live->is_whole) {
		lw_live_let_go(app);
		return;
	}
	if (live->is_paused) {
		lw_live_hold(live, false);
		lw_app_say(app, false, "following");
		return;
	}
	if (lw_live_hold(live, true) < 0) {
		lw_app_say(app, true, "%s", lw_error_text());
		return;
	}
	lw_app_say(
		app, false, "this picture is held; following goes on behind it (Space shows it)");
}

static void move_in_time(struct lw_app *app, int64_t by_ns)
{
	struct lw_live *live = app->live;
	int64_t most_ns, oldest_ns;

	if (!live->is_paused)
		pause(app);
	if (!live->is_paused)
		return;
	oldest_ns = live->held_ns - (LW_LIVE_SLOTS - 1) * LW_LIVE_SLOT_NS;
	if (oldest_ns < live->model.first_ns)
		oldest_ns = live->model.first_ns;
	most_ns = live->held_ns - oldest_ns;
	live->back_ns += by_ns;
	if (live->back_ns > most_ns)
		live->back_ns = most_ns;
	if (live->back_ns < 0)
		live->back_ns = 0;
}

static void mark(struct lw_app *app)
{
	struct lw_live *live = app->live;
	const struct lw_live_mark one = {lw_live_to_ns(live)};
	struct lw_live_figures job;
	char step[LW_UNIT_TEXT_BYTES];

	if (live->marks.n >= LW_LIVE_MAX_MARKS || lw_vec_push(&live->marks, one) < 0) {
		lw_app_say(app, true, "there are %d marks, which is all there can be",
			LW_LIVE_MAX_MARKS);
		return;
	}
	lw_live_job_figures(&live->model, one.at_ns, live->options.window_ns, &job);
	lw_app_say(app, false, "mark %zu, %.1f s after the job's first record: step %s",
		live->marks.n, (double)(one.at_ns - live->model.first_ns) * 1e-9,
		isnan(job.step_ns) ? "?" : lw_ns_format(job.step_ns, step));
}

static void snapshot(struct lw_app *app)
{
	if (app->live->closing_ns) {
		lw_app_say(app, true, "the job has ended: the run file itself is whole soon");
		return;
	}
	if (lw_live_snapshot_begin(app->live) < 0)
		lw_app_say(app, true, "no snapshot: %s", lw_error_text());
	else
		lw_live_snapshot_poll(app);
}

bool lw_live_request(struct lw_app *app, const struct lw_input *input)
{
	struct lw_live *live = app->live;
	int64_t window_ns = live->options.window_ns;
	bool is_shown = app->current == 0;

	switch ((int)input->request) {
	case LW_REQUEST_PAUSE:
		pause(app);
		return true;
	case LW_REQUEST_MARK:
		mark(app);
		return true;
	case LW_REQUEST_SNAPSHOT:
		snapshot(app);
		return true;
	case LW_REQUEST_LEFT:
	case LW_REQUEST_PREVIOUS_STEP:
		if (is_shown)
			move_in_time(app, LW_LIVE_SLOT_NS * 2);
		return is_shown;
	case LW_REQUEST_RIGHT:
	case LW_REQUEST_NEXT_STEP:
		if (is_shown)
			move_in_time(app, -LW_LIVE_SLOT_NS * 2);
		return is_shown;
	case LW_REQUEST_PAGE_UP:
	case LW_REQUEST_PAGE_DOWN:
		if (is_shown)
			move_in_time(
				app, input->request == LW_REQUEST_PAGE_UP ? window_ns : -window_ns);
		return is_shown;
	case LW_REQUEST_UP:
		live->first_row -= is_shown && live->first_row > 0;
		return is_shown;
	case LW_REQUEST_DOWN:
		live->first_row += is_shown && (size_t)live->first_row + 1 < live->model.ranks.n;
		return is_shown;
	default:
		return false;
	}
}
