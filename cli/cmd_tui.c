/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_tui.c - `lapwing tui RUN...`: a run on the screen; --dump: one screen as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/cmd.h"
#include "cli/leave.h"
#include "schema/store.h"
#include "tui/app.h"
#include "tui/screen.h"
#include "tui/settings.h"

enum { KEY_DUMP = 0x100, KEY_SIZE, KEY_KEYS, KEY_VIEW, KEY_ASCII, KEY_UTF8, KEY_NO_MOUSE };

struct options {
	const char *view, *keys;
	bool is_dump;
	int width, height;
	struct lw_screen_options screen;
	const char *const *paths;
	size_t n_paths;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case KEY_DUMP:
		options->is_dump = true;
		/* fall through */
	case KEY_VIEW:
		if (lw_view_find(argument) < 0)
			argp_error(state, "no view '%s': see --help", argument);
		options->view = argument;
		return 0;
	case KEY_SIZE:
		lw_cli_size(argument, state, &options->width, &options->height);
		return 0;
	case KEY_KEYS:
		options->keys = argument;
		return 0;
	case KEY_ASCII:
		options->screen.is_ascii = true;
		return 0;
	case KEY_UTF8:
		options->screen.is_utf8 = true;
		return 0;
	case KEY_NO_MOUSE:
		options->screen.is_mouse_off = true;
		return 0;
	case ARGP_KEY_ARGS:
		options->paths = (const char *const *)state->argv + state->next;
		options->n_paths = (size_t)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which run? (a file that `lapwing record` wrote)");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int dump(struct lw_app *app, const struct options *options)
{
	char *keys = strdup(options->keys ? options->keys : "");
	int status;

	app->cells.is_ascii = lw_screen_is_ascii(&options->screen);
	status = lw_app_resize(app, options->width, options->height);
	if (status == LW_OK) {
		lw_app_show(app, lw_view_find(options->view));
		lw_app_draw_all(app);
		status = keys ? lw_app_keys(app, keys) : lw_fail(LW_ERR_NOMEM, "no memory");
	}
	if (status == LW_OK)
		status = lw_app_write_screen(app, stdout);
	free(keys);
	return status;
}

static int show(struct lw_app *app, const struct options *options)
{
	struct lw_settings settings;
	int status;

	lw_settings_read(&settings);
	if (options->view)
		settings.view = lw_view_find(options->view);
	app->is_nic_hidden = settings.is_nic_hidden;
	if (settings.view >= 0)
		lw_app_show(app, settings.view);
	status = lw_screen_run(app, &options->screen);
	settings.view = app->current;
	settings.is_nic_hidden = app->is_nic_hidden;
	if (status == LW_OK && lw_settings_write(&settings) < 0) {
		lw_cli_say("the view is not remembered: %s", lw_error_text());
		lw_error_clear();
	}
	return status;
}

/* What cannot be read is said before the screen changes. */
static int check_readable(const struct options *options)
{
	for (size_t i = 0; i < options->n_paths; i++) {
		struct lw_store *store;
		int status = lw_store_open(options->paths[i], LW_STORE_READ, &store);

		if (status < 0)
			return status;
		lw_store_close(store);
	}
	return LW_OK;
}

static const char *name_of(const struct options *options, char name[128])
{
	const char *slash = strrchr(options->paths[0], '/');

	snprintf(name, 128, options->n_paths > 1 ? "%s and %zu more" : "%s",
		slash ? slash + 1 : options->paths[0], options->n_paths - 1);
	return name;
}

int lw_cmd_tui(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"view", KEY_VIEW, "VIEW", 0, "begin with this view", 0},
		{"dump", KEY_DUMP, "VIEW", 0, "print this view as text and end", 0},
		{"size", KEY_SIZE, "WxH", 0, "of --dump: columns and lines (80x24)", 0},
		{"keys", KEY_KEYS, "KEYS", 0,
			"of --dump: press these first, blanks between them: \"<Down> <Enter> s\"",
			0},
		{"ascii", KEY_ASCII, NULL, 0, "draw with ASCII characters only", 0},
		{"utf8", KEY_UTF8, NULL, 0, "of --dump: UTF-8, whatever the locale says", 0},
		{"no-mouse", KEY_NO_MOUSE, NULL, 0, "leave the mouse to the terminal", 0}, {0}};
	static const struct argp argp = {argp_options, parse, "RUN...",
		"Shows a run in the terminal. Several files (one per rank or host) are one run. ? lists the keys."
		"\vViews: overview, timeline, phases, tensors, ranks, network, model, advice, grid, what-if, log.\n"
		"Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done, but the run lost or misses data.",
		NULL, NULL, NULL};
	struct options options = {.width = 80, .height = 24};
	struct lw_data data = {0};
	struct lw_app app = {0};
	char name[128];
	int status;

	lw_cli_parse(&argp, argc, argv, 0, &options);
	data.paths = options.paths;
	data.n_paths = options.n_paths;
	status = check_readable(&options);
	if (status == LW_OK)
		status = options.is_dump ? lw_data_load(&data) : lw_screen_check();
	if (status == LW_OK && !options.is_dump)
		status = lw_data_begin(&data);
	if (status == LW_OK)
		status = lw_app_init(&app, &data, name_of(&options, name));
	if (status == LW_OK)
		status = options.is_dump ? dump(&app, &options) : show(&app, &options);
	if (status == LW_OK && data.loader) /* who leaves does not wait for the analysis */
		lw_leave_now(data.paths, data.n_paths, lw_screen_signal(), LW_LEAVE_CODE_OF_RUN);
	if (status == LW_OK && data.analysis)
		status = lw_cli_run_exit(data.analysis->run);
	lw_app_done(&app);
	lw_data_done(&data);
	if (lw_screen_signal())
		lw_leave_now(NULL, 0, lw_screen_signal(), LW_EXIT_OK);
	return status < 0 ? lw_cli_fail(status) : status;
}
