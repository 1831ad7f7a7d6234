/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_end.c - from a job that has ended to the run that it left.
 *
 *	closed by its collector -> sealed (one file; nobody collects) -> analysed as a whole -> let go of
 *
 * The last picture stays until then, and a held one until the user lets go of it.
 */
#include <stdio.h>

#include "base/err.h"
#include "tui/live.h"

#define ASK_NS   (200 * LW_NS_PER_MS)
#define LEFT_NS  (3 * LW_NS_PER_S / 2) /* `record` starts another collector meanwhile */
#define RETRY_NS (LW_NS_PER_S / 2)

enum { MAX_BUSY = 3, TIMELINE = 1 };

const char *lw_live_end_text(const struct lw_live *live, char text[LW_LIVE_END_BYTES])
{
	const char *what = live->retry_ns     ? "ended; file busy: "
			   : live->reading_ns ? "ended; reading it: "
					      : "ended; closing its file: ";
	int64_t since_ns = live->reading_ns ? live->reading_ns : live->closing_ns;
	char age[LW_UNIT_TEXT_BYTES];

	if (live->is_whole)
		snprintf(text, LW_LIVE_END_BYTES, "the job has ended");
	else
		snprintf(text, LW_LIVE_END_BYTES, "%s%s", what,
			lw_age_format(live->now_ns - since_ns, age));
	return text;
}

/* The collector has nothing more to do with the run, or lives no more. */
static bool is_sealed(struct lw_live *live)
{
	enum lw_live_collector how;

	if (!live->options.ask)
		return true;
	if (live->now_ns - live->asked_ns < ASK_NS)
		return false;
	live->asked_ns = live->now_ns;
	how = live->options.ask(live->options.context);
	if (how == LW_LIVE_GONE)
		return true;
	if (how == LW_LIVE_AT_WORK) { /* however long it takes */
		live->left_ns = 0;
		return false;
	}
	if (!live->left_ns)
		live->left_ns = live->now_ns;
	if (live->now_ns - live->left_ns < LEFT_NS)
		return false;
	live->is_unsealed = true;
	return true;
}

/* It writes down how the command ended before it lets the collector end: nobody did, and no collector died. */
static bool is_recorder_killed(const struct lw_live *live)
{
	return live->is_recorded && live->rows.is_closed && live->rows.exit_code < 0 &&
	       !live->was_left;
}

static void say_end(struct lw_app *app)
{
	struct lw_live *live = app->live;
	const char *path = live->options.path;

	if (live->is_unsealed)
		lw_app_say(app, true,
			"the collector died while it closed the run: `lapwing salvage %s` finishes %s",
			live->options.dir, path);
	else if (is_recorder_killed(live))
		lw_app_say(app, true,
			"the job has ended; `lapwing record` was killed before: what was recorded is kept"
			" in %s",
			path);
	else if (live->n_died)
		lw_app_say(app, true,
			"the job has ended; %s died%s: what was recorded is kept in %s",
			live->first_died, live->n_died > 1 ? " first, others after it" : "", path);
	else if (live->notes.n && live->notes.at[live->notes.n - 1].is_bad)
		lw_app_say(
			app, true, "the job has ended; %s", live->notes.at[live->notes.n - 1].text);
	else if (live->rows.exit_code > 0)
		lw_app_say(app, true,
			"the job has ended with exit code %d%s%s: this is the whole run, %s",
			live->rows.exit_code, live->options.log ? "; its output is in " : "",
			live->options.log ? live->options.log : "", path);
	else if (app->data->is_read_only)
		lw_app_say(app, true,
			"the job has ended: this is the whole run, %s; another program holds it: no"
			" results are stored",
			path);
	else if (live->options.pattern)
		lw_app_say(app, false,
			"the job has ended: this is %s, one of %zu files; `lapwing tui %s` shows all"
			" ranks",
			path, live->options.n_files, live->options.pattern);
	else
		lw_app_say(app, false, "the job has ended: this is the whole run%s, %s",
			live->marks.n ? "; m goes to its marks" : "", path);
}

static void begin_reading(struct lw_app *app)
{
	struct lw_live *live = app->live;

	live->retry_ns = 0;
	if (lw_data_begin(app->data) == LW_OK)
		return;
	lw_app_say(app, true, "%s", lw_error_text());
	live->retry_ns = live->now_ns + LW_NS_PER_S; /* no memory, no thread: both may come back */
}

/* Return: it will be tried again. */
static bool retry(struct lw_live *live, struct lw_data *data)
{
	if (data->analysis || data->status != LW_ERR_BUSY)
		return false;
	data->error[0] = 0;
	live->retry_ns = live->now_ns + RETRY_NS;
	/* Somebody who does not let go of it: what is in it can be shown all the same. */
	if (++live->n_retries >= MAX_BUSY)
		data->is_read_only = true;
	return true;
}

bool lw_live_finish(struct lw_app *app)
{
	struct lw_live *live = app->live;
	struct lw_data *data = app->data;

	if (!live->reading_ns) {
		if (data->analysis)
			lw_data_forget(data); /* its connection, too */
		if (data->loader || live->snapshot || !is_sealed(live))
			return false;
		live->is_over = true;
		live->reading_ns = live->now_ns;
		data->is_read_only = false;
		data->is_unfinished = true;
		begin_reading(app);
		return true;
	}
	if (data->loader)
		return false;
	if (live->retry_ns) {
		if (live->now_ns >= live->retry_ns)
			begin_reading(app);
		return false; /* true would be asked again at once */
	}
	if (retry(live, data))
		return false;
	live->is_whole = true;
	if (!live->is_paused)
		lw_live_let_go(app);
	else
		lw_app_say(app, live->n_died > 0,
			"the job has ended; this picture is held: Space shows the whole run");
	return true;
}

/* ---- what it leaves to the views ----------------------------------------------------------------------- */

/* The step of the selected rank at @at_ns. LW_NONE: none. */
static int32_t step_at(const struct lw_app *app, int64_t at_ns)
{
	const struct lw_run *run = app->data->analysis ? app->data->analysis->run : NULL;
	size_t r = app->focus.rank > 0 ? (size_t)app->focus.rank : 0;

	if (!run || r >= run->ranks.n)
		return LW_NONE;
	for (size_t s = 0; s < run->ranks.at[r].steps.n; s++)
		if (at_ns < run->ranks.at[r].steps.at[s].end_ns)
			return at_ns >= run->ranks.at[r].steps.at[s].start_ns ? (int32_t)s
									      : LW_NONE;
	return LW_NONE;
}

void lw_live_let_go(struct lw_app *app)
{
	struct lw_live *live = app->live;
	bool was_held = live->is_paused;
	int32_t step = was_held ? step_at(app, lw_live_to_ns(live)) : LW_NONE;

	if (step != LW_NONE)
		app->focus.step = step;
	say_end(app);
	lw_live_hold(live, false);
	app->live = NULL;
	app->past = live;
	if (app->current == 0 && app->view_after > 0 &&
		!was_held) /* who looks at it goes on there */
		lw_app_show(app, app->view_after);
	app->view_after = 0;
}

void lw_live_go_to_mark(struct lw_app *app)
{
	struct lw_live *live = app->past;
	const struct lw_live_mark *mark;
	double after_s;
	int32_t step;

	if (!live || !live->marks.n) {
		lw_app_say(app, true, "no moment was marked while the job ran");
		return;
	}
	mark = &live->marks.at[live->next_mark % live->marks.n];
	live->next_mark = live->next_mark % live->marks.n + 1;
	after_s = (double)(mark->at_ns - live->model.first_ns) * 1e-9;
	step = step_at(app, mark->at_ns);
	if (step == LW_NONE) {
		lw_app_say(app, true,
			"mark %zu of %zu, %.1f s after the job's first record: in no step",
			live->next_mark, live->marks.n, after_s);
		return;
	}
	app->focus.step = step;
	if (app->current == 0)
		lw_app_show(app, TIMELINE);
	lw_app_say(app, false, "mark %zu of %zu, %.1f s after the job's first record: step %d",
		live->next_mark, live->marks.n, after_s, step);
}
