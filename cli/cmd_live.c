/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_live.c - `lapwing live [--attach DIR | -- CMD...]`: a job on the screen while it runs.
 *
 * Leaving the screen leaves the job alone.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/launch.h"
#include "cli/leave.h"
#include "cli/live_find.h"
#include "cli/live_own.h"
#include "cli/live_who.h"
#include "schema/rundir.h"
#include "tui/chooser.h"
#include "tui/live.h"
#include "tui/screen.h"
#include "tui/settings.h"

enum {
	KEY_ATTACH = 0x100,
	KEY_WINDOW,
	KEY_DUMP,
	KEY_AFTER,
	KEY_SIZE,
	KEY_KEYS,
	KEY_ASCII,
	KEY_UTF8,
	KEY_NO_MOUSE
};

struct options {
	struct lw_launch launch;
	const char *attach, *keys;
	int64_t window_ns, after_ns;
	bool is_dump;
	int width, height;
	struct lw_screen_options screen;
};

/* One job, from finding it to leaving it. */
struct watch {
	struct options options;
	struct lw_job job;
	struct lw_data data;
	struct lw_app app;
	struct lw_live *live;
	struct lw_job_files files; /* of the job, if it has more than this one */
	size_t n_left;             /* ring directories that nobody collects */
	const char *paths[1];
	struct lw_own own; /* command; log "": somebody else's job */
};

static void sleep_ms(int64_t ms)
{
	const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * LW_NS_PER_MS};

	nanosleep(&pause, NULL);
}

/* ---- options ------------------------------------------------------------------------------------------------- */

static int64_t seconds_of(const char *argument, const char *option, double least, double most,
	struct argp_state *state)
{
	char *end;
	double seconds = strtod(argument, &end);

	if (*end || end == argument || !(seconds >= least && seconds <= most))
		argp_error(state, "--%s %s: seconds from %g to %g", option, argument, least, most);
	return (int64_t)(seconds * (double)LW_NS_PER_S);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->launch.options;
		return 0;
	case KEY_ATTACH:
		options->attach = argument;
		return 0;
	case KEY_WINDOW:
		options->window_ns = seconds_of(argument, "window", 1, 600, state);
		return 0;
	case KEY_DUMP:
		options->is_dump = true;
		return 0;
	case KEY_AFTER:
		options->after_ns = seconds_of(argument, "after", 0, 86400, state);
		return 0;
	case KEY_SIZE:
		lw_cli_size(argument, state, &options->width, &options->height);
		return 0;
	case KEY_KEYS:
		options->keys = argument;
		return 0;
	case KEY_UTF8:
		options->screen.is_utf8 = true;
		return 0;
	case KEY_ASCII:
		options->screen.is_ascii = true;
		return 0;
	case KEY_NO_MOUSE:
		options->screen.is_mouse_off = true;
		return 0;
	case ARGP_KEY_END:
		if (options->attach && options->launch.options.command)
			argp_error(state, "--attach DIR or -- COMMAND, not both");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- following it ------------------------------------------------------------------------------------------------- */

static enum lw_live_collector ask(void *context)
{
	const struct watch *w = context;
	struct lw_rundir rundir;

	if (lw_rundir_look(w->job.dir, &rundir) < 0) {
		lw_error_clear();
		return LW_LIVE_GONE;
	}
	return rundir.is_collected ? LW_LIVE_AT_WORK : LW_LIVE_LEFT;
}

static void who(void *context, struct lw_live_who *ret_who)
{
	const struct watch *w = context;

	lw_live_who_collects(w->job.dir, ret_who);
}

static int open_live(struct watch *w)
{
	const struct lw_live_options live = {.path = w->job.path,
		.dir = w->job.dir,
		.log = w->own.log[0] ? w->own.log : NULL,
		.pattern = w->files.n > 1 ? w->files.pattern : NULL,
		.n_files = w->files.n,
		.window_ns = w->options.window_ns,
		.ask = ask,
		.who = who,
		.context = w};
	const char *slash = strrchr(w->job.path, '/');
	int status = lw_live_open(&live, &w->live);

	if (status < 0)
		return status;
	w->paths[0] = w->job.path;
	w->data.paths = w->paths;
	w->data.n_paths = 1;
	w->app.name = slash ? slash + 1 : w->job.path;
	w->app.live = w->live;
	return LW_OK;
}

/* ---- which job ----------------------------------------------------------------------------------------------------- */

static int find_again(void *context, lw_job_list *ret_jobs)
{
	struct watch *w = context;

	return lw_live_find_jobs(&w->n_left, ret_jobs);
}

/* Of several, by the list; what is wrong with one of them is told there. */
static int open_chosen(void *context, const struct lw_job *job)
{
	struct watch *w = context;

	w->job = *job;
	lw_chooser_files(w->app.chooser, (size_t)w->app.chooser->chosen, &w->files);
	return open_live(w);
}

static int dump_list(struct watch *w)
{
	int status;

	w->app.cells.is_ascii = w->options.screen.is_ascii;
	status = lw_app_resize(&w->app, w->options.width, w->options.height);
	if (status < 0)
		return status;
	lw_app_draw_all(&w->app); /* asks for the time, too */
	return lw_app_write_screen(&w->app, stdout);
}

/* Return: 0, or 1 + the exit code of the program. */
static int choose(struct watch *w)
{
	struct lw_chooser chooser = {
		.chosen = -1, .find = find_again, .open = open_chosen, .context = w};
	lw_job_list jobs = {0};
	int status = lw_live_find_jobs(&w->n_left, &jobs), code = 0;

	if (status == LW_OK)
		status = lw_chooser_take(&chooser, &jobs);
	lw_vec_free(&jobs);
	w->app.chooser = &chooser;
	if (status == LW_OK && chooser.jobs.n == 0) {
		code = 1 + lw_live_say_no_job(w->n_left);
	} else if (status == LW_OK && lw_chooser_n_jobs(&chooser) == 1) {
		chooser.chosen = (int)lw_chooser_files(&chooser, 0, &w->files)->followed;
		status = open_chosen(w, &chooser.jobs.at[chooser.chosen]);
	} else if (status == LW_OK && w->options.is_dump) {
		status = dump_list(w);
		code = 1;
	} else if (status == LW_OK) {
		status = lw_screen_run(&w->app, &w->options.screen);
		w->app.is_over = false;
		code = w->live ? 0 : 1; /* left without choosing */
	}
	w->app.chooser = NULL;
	lw_vec_free(&chooser.jobs);
	return status < 0 ? 1 + lw_cli_fail(lw_cause(status, "live")) : code;
}

/* Other ranks of the job may have files of their own. */
static int attach(struct watch *w)
{
	struct lw_chooser chooser = {.chosen = -1};
	lw_job_list jobs = {0};
	int status = lw_live_await_run(w->options.attach, &w->job);

	if (status < 0)
		return status;
	if (lw_live_find_jobs(&w->n_left, &jobs) < 0 || lw_chooser_take(&chooser, &jobs) < 0)
		lw_error_clear(); /* then it is not said */
	for (size_t i = 0; i < chooser.jobs.n; i++)
		if (!strcmp(chooser.jobs.at[i].path, w->job.path))
			lw_chooser_files(&chooser, i, &w->files);
	lw_vec_free(&jobs);
	lw_vec_free(&chooser.jobs);
	return open_live(w);
}

/* ---- on the screen, or as text ----------------------------------------------------------------------------------------- */

/* While the job runs the overview is what there is to see. The view that was remembered is for the whole run, unless the
 * user has asked for another one meanwhile; what was looked at last is remembered, but not that a job was watched. */
static int show(struct watch *w)
{
	struct lw_settings settings;
	int status;

	lw_settings_read(&settings);
	w->app.is_nic_hidden = settings.is_nic_hidden;
	w->app.view_after = settings.view > 0 ? settings.view : 0;
	status = lw_screen_run(&w->app, &w->options.screen);
	settings.view = w->app.current;
	settings.is_nic_hidden = w->app.is_nic_hidden;
	if (status == LW_OK && (!w->app.live || w->app.current != 0))
		lw_settings_write(&settings);
	return status;
}

/* As text, once the job was followed for a while; a job that ends before is waited for. */
static int dump(struct watch *w)
{
	int64_t until_ns = lw_clock_ns() + w->options.after_ns;
	char *keys = strdup(w->options.keys ? w->options.keys : "");
	int status;

	w->app.cells.is_ascii = lw_screen_is_ascii(&w->options.screen);
	status = lw_app_resize(&w->app, w->options.width, w->options.height);
	do {
		lw_app_tick(&w->app);
		if (lw_clock_ns() < until_ns)
			sleep_ms(100);
	} while (lw_clock_ns() < until_ns && w->app.live);
	if (status == LW_OK) {
		lw_app_draw(&w->app);
		status = keys ? lw_app_keys(&w->app, keys) : lw_fail(LW_ERR_NOMEM, "no memory");
		for (; w->app.live && w->live->snapshot; sleep_ms(20))
			lw_app_tick(&w->app);
		lw_app_draw(&w->app);
	}
	if (status == LW_OK)
		status = lw_app_write_screen(&w->app, stdout);
	free(keys);
	return status;
}

/* ---- leaving it ----------------------------------------------------------------------------------------------------- */

static void end_snapshot(struct watch *w)
{
	char path[LW_LIVE_PATH_BYTES];

	if (!w->live->snapshot)
		return;
	lw_cli_say("a snapshot is still being written ...");
	if (lw_live_snapshot_wait(w->live, path) < 0)
		lw_cli_fail(lw_cause(LW_ERR_IO, "no snapshot"));
	else
		lw_cli_say("written: %s", path);
}

/* Return: the job goes on without the screen. */
static bool say_where_it_goes_on(struct watch *w)
{
	if (w->own.log[0])
		lw_cli_say("the command's output is in %s", w->own.log);
	if (!w->app.live || w->live->closing_ns || w->live->is_left_told ||
		(w->own.log[0] && lw_own_has_ended(&w->own, false)))
		return false;
	lw_cli_say("the job goes on, into %s: `lapwing live --attach %s` follows it again",
		w->job.path, w->job.dir);
	return true;
}

/* Of a command that has ended it is the command's, whatever became of its recording. */
static int exit_code(struct watch *w, int otherwise)
{
	return w->own.log[0] && lw_own_has_ended(&w->own, false) ? w->own.code : otherwise;
}

/* A command that still runs is left alone. */
static int leave(struct watch *w)
{
	end_snapshot(w);
	if (say_where_it_goes_on(w))
		return LW_EXIT_OK;
	if (w->live->is_unsealed) {
		lw_cli_say(
			"the collector died while it closed %s: `lapwing salvage %s` finishes that",
			w->job.path, w->job.dir);
		return exit_code(w, LW_EXIT_INCOMPLETE);
	}
	if (w->app.live && w->live->is_left_told) {
		lw_cli_say(
			"the collector has died; what the ranks still record waits in their rings:"
			" `lapwing salvage %s`",
			w->job.dir);
		return exit_code(w, LW_EXIT_INCOMPLETE);
	}
	if (w->own.log[0]) {
		if (!lw_own_has_ended(&w->own, false) && isatty(STDERR_FILENO))
			lw_cli_say("the recorder still closes %s, or stores its analysis ...",
				w->job.path);
		lw_own_has_ended(&w->own, true);
		return w->own.code;
	}
	return w->data.analysis ? lw_cli_run_exit(w->data.analysis->run) : LW_EXIT_OK;
}

/* By the signal that ended the screen, or because nobody waits for the analysis; of a job that runs nothing is written. */
static _Noreturn void leave_at_once(struct watch *w, int code)
{
	bool is_written = w->data.loader && !w->data.is_read_only;

	lw_live_snapshot_drop(w->live);
	lw_leave_now(w->data.paths, is_written ? w->data.n_paths : 0, lw_screen_signal(), code);
}

/* Return: 0: it is followed; or 1 + the exit code of the program. */
static int find(struct watch *w)
{
	int status, code;

	if (w->options.launch.options.command) {
		code = lw_own_start(&w->own, &w->options.launch, &w->job);
		if (code)
			return code;
		status = open_live(w);
		if (status < 0)
			say_where_it_goes_on(w);
	} else if (!w->options.attach) {
		return choose(w);
	} else {
		status = attach(w);
	}
	return status < 0 ? 1 + lw_cli_fail(lw_cause(status, "live")) : 0;
}

int lw_cmd_live(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"attach", KEY_ATTACH, "DIR", 0,
			"the job whose rings are in DIR (`lapwing salvage` lists them)", 0},
		{"window", KEY_WINDOW, "SECONDS", 0, "that figures are over (10)", 0},
		{"dump", KEY_DUMP, NULL, 0, "print the screen as text and leave", 0},
		{"after", KEY_AFTER, "SECONDS", 0, "of --dump: follow for so long first (2)", 0},
		{"size", KEY_SIZE, "WxH", 0, "of --dump: columns and lines (80x24)", 0},
		{"keys", KEY_KEYS, "KEYS", 0,
			"of --dump: press these at the end, blanks between them", 0},
		{"ascii", KEY_ASCII, NULL, 0, "draw with ASCII characters only", 0},
		{"utf8", KEY_UTF8, NULL, 0, "of --dump: UTF-8, whatever the locale says", 0},
		{"no-mouse", KEY_NO_MOUSE, NULL, 0, "leave the mouse to the terminal", 0}, {0}};
	static const struct argp_child children[] = {
		{&lw_launch_argp, 0, "As for `record`:", 1}, {0}};
	static const struct argp argp = {argp_options, parse, "[-- COMMAND [ARG...]]",
		"Follows a job of this host while it runs: COMMAND, recorded as `record` does it; the one in DIR;"
		" else the one that is being recorded, or a list of them. When it ends, the screen shows the"
		" whole run as `lapwing tui` does.\n\n"
		"COMMAND reads nothing and writes to RUN.log. Leaving the screen leaves the job alone."
		"\vReturns COMMAND's exit code when it has ended; else 0 done, 1 failed, 2 wrong usage, 3 the run"
		" that ended lost or misses data.",
		children, NULL, NULL};
	static struct watch w = {.options = {.launch.verb = "live",
					 .launch.options.is_command_optional = true,
					 .window_ns = 10 * LW_NS_PER_S,
					 .after_ns = 2 * LW_NS_PER_S,
					 .width = 80,
					 .height = 24}};
	int status, code;

	lw_cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &w.options);
	status = lw_app_init(&w.app, &w.data, "");
	if (status < 0)
		return lw_cli_fail(status);
	if (!w.options.is_dump)
		status = lw_screen_check();
	if (status < 0) {
		lw_app_done(&w.app);
		return lw_cli_fail(status);
	}
	code = find(&w);
	if (code) {
		lw_app_done(&w.app);
		if (lw_screen_signal())
			lw_leave_now(NULL, 0, lw_screen_signal(), LW_EXIT_OK);
		return code - 1;
	}
	status = w.options.is_dump ? dump(&w) : show(&w);
	if (lw_screen_signal()) {
		say_where_it_goes_on(&w); /* Ctrl-C is for the screen: the job does not get it */
		leave_at_once(&w, LW_EXIT_OK);
	}
	code = status < 0 ? lw_cli_fail(lw_cause(status, "live")) : LW_EXIT_OK;
	if (status == LW_OK)
		code = leave(&w);
	else if (w.own.log[0])
		leave(&w); /* says where the job is */
	fflush(stdout);
	if (status == LW_OK && w.data.loader)
		leave_at_once(&w, code); /* who leaves does not wait for the analysis */
	lw_app_done(&w.app);
	lw_data_done(&w.data);
	lw_live_close(w.live);
	return code;
}
