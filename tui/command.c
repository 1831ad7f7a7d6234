/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - what can be typed after a colon, and writing what is shown. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "tui/app.h"

int lw_app_write_screen(const struct lw_app *app, FILE *out)
{
	char *line = malloc((size_t)app->cells.width * 4 + 1);

	if (!line)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	for (int y = 0; y < app->cells.height; y++)
		fprintf(out, "%s\n", lw_cells_line(&app->cells, y, line));
	free(line);
	return ferror(out) ? lw_fail(LW_ERR_IO, "cannot write: %s", strerror(errno)) : LW_OK;
}

static bool has_csv(const struct lw_view_ops *ops)
{
	return ops->write || ops->table;
}

/* A name that nothing has yet: lapwing-ranks.csv, lapwing-ranks-2.csv, .. */
static void free_name(const struct lw_view_ops *ops, char path[LW_APP_LINE_BYTES])
{
	const char *extension = has_csv(ops) ? "csv" : "txt";

	snprintf(path, LW_APP_LINE_BYTES, "lapwing-%s.%s", ops->name, extension);
	for (int i = 2; i < 1000 && access(path, F_OK) == 0; i++)
		snprintf(path, LW_APP_LINE_BYTES, "lapwing-%s-%d.%s", ops->name, i, extension);
}

void lw_app_export(struct lw_app *app, const char *path)
{
	struct lw_view *view = &app->views[app->current];
	char made_up[LW_APP_LINE_BYTES];
	int status;
	FILE *out;

	lw_app_draw(app); /* opens the view, if it was not shown yet */
	if (!app->data->analysis && has_csv(view->ops)) {
		lw_app_say(app, true, "there is nothing to write yet");
		return;
	}
	if (!*path) {
		free_name(view->ops, made_up);
		path = made_up;
	}
	out = fopen(path, "wx"); /* nothing is overwritten */
	if (!out) {
		lw_app_say(app, true, "cannot write %s: %s", path, strerror(errno));
		return;
	}
	status = lw_app_write(app, out);
	if (fclose(out) != 0 && status == LW_OK)
		status = lw_fail(LW_ERR_IO, "%s", strerror(errno));
	if (status < 0)
		lw_app_say(app, true, "cannot write %s: %s", path, lw_error_text());
	else
		lw_app_say(app, false, "written: %s", path);
}

static void command_quit(struct lw_app *app, const char *argument)
{
	(void)argument;
	app->is_over = true;
}

static void command_help(struct lw_app *app, const char *argument)
{
	(void)argument;
	app->mode = LW_APP_HELP;
	app->help_top = 0;
}

static void command_view(struct lw_app *app, const char *argument)
{
	int view = lw_view_find(argument);

	if (view < 0)
		lw_app_say(app, true, "no view '%s': :help lists them", argument);
	else
		lw_app_show(app, view);
}

static bool read_number(struct lw_app *app, const char *text, long *ret_number)
{
	char *end;

	errno = 0;
	*ret_number = strtol(text, &end, 10);
	if (end != text && !*end && !errno)
		return true;
	lw_app_say(app, true, "'%s' is not a number", text);
	return false;
}

/* "#22": the step whose mark says so. Else what was given. */
static bool read_step(
	struct lw_app *app, const struct lw_run *run, const char *text, long *ret_step)
{
	if (!read_number(app, text + (*text == '#'), ret_step))
		return false;
	if (*text != '#')
		return true;
	for (size_t s = 0; run && run->ranks.n && s < run->ranks.at[0].steps.n; s++)
		if (run->ranks.at[0].steps.at[s].mark == *ret_step) {
			*ret_step = (long)s;
			return true;
		}
	lw_app_say(app, true, "no step has the mark %s", text);
	return false;
}

static void command_step(struct lw_app *app, const char *argument)
{
	long step;
	char text[LW_STEP_TEXT_BYTES];
	const struct lw_run *run = app->data->analysis ? app->data->analysis->run : NULL;
	size_t n = run && run->ranks.n ? run->ranks.at[0].steps.n : 0;

	if (!read_step(app, run, argument, &step))
		return;
	if (step < 0 || (size_t)step >= n) {
		if (n)
			lw_app_say(app, true, "no step %ld: there are 0 to %zu", step, n - 1);
		else
			lw_app_say(app, true, "no steps were found in this run");
		return;
	}
	app->focus.step = (int32_t)step;
	lw_app_say(
		app, false, "step %s", lw_rank_step_text(&run->ranks.at[0], (int32_t)step, text));
}

/* Where texts say that something is, and the timeline's ruler does. */
static void command_at(struct lw_app *app, const char *argument)
{
	char *end;
	double at_ms = strtod(argument, &end);

	end += strspn(end, " ");
	if (end == argument || (*end && strcmp(end, "ms") != 0) || !(at_ms >= 0 && at_ms < 1e12)) {
		lw_app_say(app, true, "'%s' is no time in ms", argument);
		return;
	}
	app->focus.has_at = true;
	app->focus.at_ns = (int64_t)(at_ms * 1e6 + 0.5);
	lw_app_show(app, lw_view_find("timeline"));
}

static void command_rank(struct lw_app *app, const char *argument)
{
	const struct lw_run *run = app->data->analysis ? app->data->analysis->run : NULL;
	long rank;

	if (!read_number(app, argument, &rank))
		return;
	for (size_t r = 0; run && r < run->ranks.n; r++)
		if (run->ranks.at[r].rank == rank) {
			app->focus.rank = (int32_t)r;
			lw_app_say(app, false, "rank %ld", rank);
			return;
		}
	lw_app_say(app, true, "no rank %ld in this run", rank);
}

static void command_write(struct lw_app *app, const char *argument)
{
	lw_app_export(app, argument);
}

static void command_search(struct lw_app *app, const char *argument)
{
	lw_app_search(app, argument);
}

static const struct {
	const char *name, *argument; /* NULL: takes none */
	void (*run)(struct lw_app *app, const char *argument);
	const char *help;
} commands[] = {
	{"view", "NAME", command_view, "show a view"},
	{"step", "N", command_step, "select a step, in all views; #N: by its mark"},
	{"at", "MS", command_at, "go to a time in the timeline"},
	{"rank", "N", command_rank, "select a rank, in all views"},
	{"search", "TEXT", command_search, "as / does"},
	{"write", "[FILE]", command_write, "write what is shown: CSV of a table, else the screen"},
	{"help", NULL, command_help, "keys and commands"},
	{"quit", NULL, command_quit, "leave"},
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

const char *lw_app_command_help(size_t n, const char **ret_help)
{
	static char names[N_COMMANDS][32];

	if (n >= N_COMMANDS)
		return NULL;
	snprintf(names[n], sizeof(names[n]), ":%s%s%s", commands[n].name,
		commands[n].argument ? " " : "", commands[n].argument ? commands[n].argument : "");
	*ret_help = commands[n].help;
	return names[n];
}

void lw_app_command(struct lw_app *app, const char *line)
{
	char word[LW_APP_LINE_BYTES];
	const char *argument;
	size_t n;

	line += strspn(line, " ");
	n = strcspn(line, " ");
	argument = line + n + strspn(line + n, " ");
	if (n == 0)
		return;
	snprintf(word, sizeof(word), "%.*s", (int)n, line);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strncmp(commands[i].name, word, n) != 0)
			continue;
		if (commands[i].argument && commands[i].argument[0] != '[' && !*argument)
			lw_app_say(
				app, true, ":%s needs %s", commands[i].name, commands[i].argument);
		else
			commands[i].run(app, argument);
		return;
	}
	if (lw_view_find(word) >= 0)
		lw_app_show(app, lw_view_find(word));
	else
		lw_app_say(app, true, "no command '%s': :help lists them", word);
}
