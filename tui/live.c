/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/live.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

#define LOOK_NS      (190 * LW_NS_PER_MS) /* two ticks of the screen */
#define ASK_NS       LW_NS_PER_S
#define LEFT_NS      (3 * LW_NS_PER_S / 2) /* `record` starts another collector meanwhile */
#define STILL_NS     LW_NS_PER_S           /* without news the window goes on without them */
#define REST_NS      (2 * LW_NS_PER_S)     /* between analyses, at least */
#define PLAIN_AGE_NS (5 * LW_NS_PER_S)     /* of a job whose steps are not known without one */

/* Rests between analyses, in their own lengths; while each has many times the steps of the one before, there are so few
 * of them that they may come sooner. */
enum { ANALYSIS_SHARE = 150, GROWING_SHARE = 20, GROWTH = 4 };
enum { PLAIN_OPS = 50, MAX_NOTES = 50 };

int64_t lw_live_clock_ns(const struct lw_live *live)
{
	return live->options.clock_ns ? live->options.clock_ns(live->options.context)
				      : lw_clock_ns();
}

void lw_live_note(struct lw_live *live, bool is_bad, const char *format, ...)
{
	struct lw_live_note one = {.at_ns = live->now_ns, .is_bad = is_bad};
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(one.text, sizeof(one.text), format, arguments);
	va_end(arguments);
	if (live->notes.n >= MAX_NOTES)
		memmove(live->notes.at, live->notes.at + 1,
			--live->notes.n * sizeof(*live->notes.at));
	if (lw_vec_push(&live->notes, one) < 0)
		lw_error_clear(); /* a note less */
}

void lw_live_fact(struct lw_live *live, const char *label, const char *format, ...)
{
	struct lw_live_note one = {.label = label};
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(one.text, sizeof(one.text), format, arguments);
	va_end(arguments);
	if (lw_vec_push(&live->facts, one) < 0)
		lw_error_clear();
}

/* ---- open, close -------------------------------------------------------------------------------------- */

static void read_command(struct lw_live *live)
{
	static const char sql[] =
		"SELECT iif(command <> '', command, coalesce((SELECT s.text FROM process p JOIN string s"
		" ON s.id = p.command_id ORDER BY p.id LIMIT 1), '')), command <> '' AND NOT closed FROM run";
	sqlite3_stmt *row;

	if (lw_store_prepare(live->rows.store, sql, &row) < 0) {
		lw_error_clear();
		return;
	}
	if (lw_store_step(live->rows.store, row) == 1) {
		snprintf(live->command, sizeof(live->command), "%s", lw_store_column_text(row, 0));
		live->is_recorded = sqlite3_column_int(row, 1) != 0;
	}
	sqlite3_finalize(row);
}

int lw_live_open(const struct lw_live_options *options, struct lw_live **ret_live)
{
	struct lw_live *live = calloc(1, sizeof(*live));
	int status;

	if (!live)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	live->options = *options;
	if (live->options.window_ns <= 0)
		live->options.window_ns = 10 * LW_NS_PER_S;
	live->opened_ns = live->now_ns = lw_live_clock_ns(live);
	status = lw_live_rows_open(&live->rows, options->path, &live->model);
	if (status < 0) {
		lw_live_close(live);
		return status;
	}
	if (options->log)
		lw_live_fact(live, "output", "the command's output goes to %s", options->log);
	if (options->pattern)
		lw_live_fact(live, "files",
			"this job's ranks write %zu files, and one is followed here; `lapwing tui %s`"
			" shows all ranks once the job has ended",
			options->n_files, options->pattern);
	*ret_live = live;
	return LW_OK;
}

void lw_live_close(struct lw_live *live)
{
	char path[LW_LIVE_PATH_BYTES];

	if (!live)
		return;
	lw_live_snapshot_wait(live, path);
	lw_live_rows_done(&live->rows);
	lw_live_model_done(&live->model);
	lw_live_model_done(&live->held);
	lw_vec_free(&live->told);
	lw_vec_free(&live->notes);
	lw_vec_free(&live->facts);
	lw_vec_free(&live->marks);
	free(live);
}

/* ---- looking -------------------------------------------------------------------------------------------- */

/* Of the processes whose end no note tells of, the one that ended first; LW_NONE: no such. */
static int32_t next_ended(const struct lw_live *live)
{
	int32_t next = LW_NONE;

	for (size_t i = 0; i < live->told.n; i++) {
		const struct lw_live_rank *rank = &live->model.ranks.at[i];

		if (live->told.at[i] == (uint8_t)rank->ended || !lw_live_is_rank(rank))
			continue;
		if (next == LW_NONE || rank->end_ns < live->model.ranks.at[next].end_ns)
			next = (int32_t)i;
	}
	return next;
}

/* What goes on after a process died is news too: one may think that the recording died with it. */
static const char *what_goes_on(const struct lw_live *live)
{
	const struct lw_live_rank *rank;

	if (live->left_ns || live->rows.is_closed)
		return "";
	lw_vec_foreach (rank, &live->model.ranks)
		if (rank->ended == LW_LIVE_RUNS && lw_live_is_rank(rank))
			return "; the recorder still runs and keeps what the others do";
	return "; the recorder still runs and keeps what is left";
}

static void tell_of_death(struct lw_live *live, const struct lw_live_rank *rank, const char *name)
{
	char which[LW_LIVE_NAME_BYTES] = "it";

	if (rank->rank >= 0) /* else the name says it */
		snprintf(which, sizeof(which), "pid %lld%s%s", (long long)rank->pid,
			rank->host[0] ? " on " : "", rank->host);
	lw_live_note(live, true,
		"%s died (%s was killed or crashed): what it had recorded is kept%s", name, which,
		what_goes_on(live));
	if (!live->n_died++)
		snprintf(live->first_died, sizeof(live->first_died), "%s", name);
}

static void tell_of_ends(struct lw_live *live)
{
	const uint8_t none = LW_LIVE_RUNS;
	char name[LW_LIVE_NAME_BYTES];
	int32_t i;

	while (live->told.n < live->model.ranks.n)
		if (lw_vec_push(&live->told, none) < 0)
			return;
	while ((i = next_ended(live)) != LW_NONE) {
		const struct lw_live_rank *rank = &live->model.ranks.at[i];

		live->told.at[i] = (uint8_t)rank->ended;
		lw_live_name(rank, name);
		if (rank->ended == LW_LIVE_EXITED)
			lw_live_note(live, false, "%s has ended", name);
		else if (rank->ended == LW_LIVE_DIED)
			tell_of_death(live, rank, name);
	}
}

int lw_live_look(struct lw_live *live, int64_t now_ns)
{
	int status;

	live->now_ns = live->looked_ns = now_ns;
	if (live->is_over || !live->rows.store)
		return 0;
	status = lw_live_rows_read(&live->rows, now_ns);
	if (!live->command[0])
		read_command(live);
	if (live->model.is_partial && !live->is_partial_told) {
		live->is_partial_told = true;
		lw_live_fact(live, "steps",
			"+ counts those since a minute before this screen: the job is older, and what"
			" was before is in the whole run");
	}
	tell_of_ends(live);
	if (status >= 0 && live->rows.is_closed && !live->closing_ns) {
		/* Its connection goes at once: the collector cannot make one file of it before. */
		live->closing_ns = now_ns;
		live->left_ns = live->asked_ns = 0;
		lw_live_note(live, false, "the job has ended; its collector closes the run file");
		lw_live_rows_done(&live->rows);
		status = 1;
	}
	return status;
}

int lw_live_hold(struct lw_live *live, bool is_on)
{
	int status;

	lw_live_model_done(&live->held);
	live->is_paused = false;
	live->back_ns = 0;
	if (!is_on)
		return LW_OK;
	status = lw_live_model_copy(&live->held, &live->model);
	live->held_ns = lw_live_to_ns(live);
	live->held_now_ns = live->now_ns;
	live->is_paused = status == LW_OK;
	return status;
}

int64_t lw_live_to_ns(const struct lw_live *live)
{
	int64_t newest_ns = live->model.newest_ns;

	if (live->is_paused)
		return live->held_ns - live->back_ns;
	if (!live->closing_ns && !live->is_over && live->now_ns - newest_ns > STILL_NS)
		return live->now_ns - STILL_NS;
	return newest_ns;
}

uint64_t lw_live_n_steps(const struct lw_live *live)
{
	const struct lw_live_rank *rank;
	uint64_t n = 0;

	lw_vec_foreach (rank, &live->model.ranks)
		if (rank->n_steps > n)
			n = rank->n_steps;
	return n;
}

/* ---- the collector ------------------------------------------------------------------------------------------ */

/* One that was killed has a successor before anybody misses it. */
static void ask_who(struct lw_live *live)
{
	struct lw_live_who who = {.has_recorder = true};

	if (!live->options.who)
		return;
	live->options.who(live->options.context, &who);
	if (!who.collector_pid)
		return;
	if (live->collector_pid && who.collector_pid != live->collector_pid)
		lw_live_note(live, true,
			"the collector (lapwingd, pid %lld) was killed; another (pid %lld) goes on"
			" where it was: what waited in the rings is stored",
			(long long)live->collector_pid, (long long)who.collector_pid);
	live->collector_pid = who.collector_pid;
	if (who.has_recorder || !live->is_recorded || live->has_lost_its_recorder)
		return;
	live->has_lost_its_recorder = true;
	lw_live_note(live, true,
		"`lapwing record` was killed, and the command that it had started; what that had"
		" started may run on: the collector keeps what it does");
}

static bool ask_for_collector(struct lw_app *app)
{
	struct lw_live *live = app->live;
	enum lw_live_collector how;

	if (!live->options.ask || live->now_ns - live->asked_ns < ASK_NS)
		return false;
	live->asked_ns = live->now_ns;
	how = live->options.ask(live->options.context);
	if (how == LW_LIVE_AT_WORK && live->is_left_told) {
		lw_live_note(live, false, "another collector goes on");
		live->is_left_told = false;
	}
	if (how == LW_LIVE_AT_WORK) {
		size_t n_notes = live->notes.n;

		live->left_ns = 0;
		ask_who(live);
		return live->notes.n > n_notes;
	}
	if (!live->left_ns)
		live->left_ns = live->now_ns;
	if (live->closing_ns || live->now_ns - live->left_ns < LEFT_NS)
		return false;
	if (how == LW_LIVE_GONE) { /* closed runs are seen as such: this one is not whole */
		live->closing_ns = live->now_ns;
		lw_live_rows_done(&live->rows);
		lw_live_note(live, true, "the ring directory is gone, and the run was not closed");
		return true;
	}
	if (!live->is_left_told) {
		live->is_left_told = live->was_left = true;
		lw_live_note(live, true,
			"the collector has died: nothing more is stored; `lapwing salvage %s` stores"
			" what the ranks still record",
			live->options.dir);
		lw_app_say(app, true,
			"the collector has died: `lapwing salvage %s` stores what waits in the rings",
			live->options.dir);
	}
	return true;
}

/* ---- the analysis so far --------------------------------------------------------------------------------------- */

static bool is_analysis_due(const struct lw_live *live)
{
	bool has_grown = lw_live_n_steps(live) >= GROWTH * live->n_analysed_steps;
	int64_t rest_ns = live->analysis_took_ns * (has_grown ? GROWING_SHARE : ANALYSIS_SHARE);
	uint64_t n_ops = 0;
	const struct lw_live_rank *rank;

	if (live->closing_ns || live->rows.is_behind || live->rows.n_read == live->n_analysed)
		return false;
	if (live->analysis_ended_ns &&
		live->now_ns - live->analysis_ended_ns < (rest_ns > REST_NS ? rest_ns : REST_NS))
		return false;
	lw_vec_foreach (rank, &live->model.ranks)
		n_ops += rank->n_ops;
	return lw_live_n_steps(live) >= LW_LIVE_FIRST_STEPS ||
	       (!live->model.has_batches && n_ops >= PLAIN_OPS &&
		       live->now_ns - live->model.first_ns >= PLAIN_AGE_NS);
}

/* A plain program names nothing: how many operations a step has, only the analysis finds. */
static void take_period(struct lw_live *live, const struct lw_data *data)
{
	double n = data->analysis && data->analysis->summary.n_steps
			   ? data->analysis->summary.batches_per_step.value
			   : 0;

	if (!live->model.has_batches && n >= 1 && n == (double)(uint32_t)n)
		lw_live_set_period(&live->model, (uint32_t)n);
}

static void analyse(struct lw_app *app)
{
	struct lw_live *live = app->live;
	struct lw_data *data = app->data;

	if (live->is_analysing && !data->loader) {
		live->is_analysing = false;
		live->analysis_ended_ns = live->now_ns;
		live->analysis_took_ns = live->now_ns - live->analysis_began_ns;
		if (data->status == LW_OK)
			live->shown_ns = live->analysis_began_ns;
		else if (data->status == LW_ERR_BUSY)
			data->error[0] = 0; /* the next one may find the file free */
		take_period(live, data);
	}
	if (live->is_analysing || !is_analysis_due(live))
		return;
	data->is_read_only = data->is_unfinished = true;
	if (lw_data_begin(data) < 0) {
		lw_error_clear(); /* the next time */
		return;
	}
	live->is_analysing = true;
	live->analysis_began_ns = live->now_ns;
	live->n_analysed = live->rows.n_read;
	live->n_analysed_steps = lw_live_n_steps(live);
}

bool lw_live_tick(struct lw_app *app)
{
	struct lw_live *live = app->live;
	size_t n_notes = live->notes.n;
	bool must_draw = false;
	int status = 0;

	live->now_ns = lw_live_clock_ns(live);
	if (live->is_whole)
		return false;
	if (live->now_ns - live->looked_ns >= LOOK_NS || live->rows.is_behind) {
		status = lw_live_look(live, live->now_ns);
		must_draw = true;
	}
	if (status < 0)
		lw_app_say(app, true, "%s", lw_error_text());
	must_draw |= lw_live_snapshot_poll(app);
	if (live->closing_ns)
		return lw_live_finish(app) || must_draw;
	must_draw |= ask_for_collector(app);
	if (live->notes.n > n_notes && live->notes.at[live->notes.n - 1].is_bad)
		lw_app_say(app, true, "%s", live->notes.at[live->notes.n - 1].text);
	analyse(app);
	return must_draw;
}

const char *lw_live_age(const struct lw_live *live, char text[LW_LIVE_AGE_BYTES])
{
	char age[LW_UNIT_TEXT_BYTES];

	text[0] = 0;
	if (live->shown_ns && !live->reading_ns)
		snprintf(text, LW_LIVE_AGE_BYTES, "as of %s ago",
			lw_age_format(live->now_ns - live->shown_ns, age));
	return text;
}
