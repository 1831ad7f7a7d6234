/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/app.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tui/chooser.h"
#include "tui/live.h"
#include "tui/table.h"

enum { TOP_LINES = 2, BOTTOM_LINES = 1, LEAST_WIDTH = 40, LEAST_HEIGHT = 8 };

int lw_app_init(struct lw_app *app, struct lw_data *data, const char *name)
{
	*app = (struct lw_app){.data = data,
		.name = name,
		.focus = LW_FOCUS_NONE,
		.cells.is_ascii = app->cells.is_ascii};
	for (int i = 0; i < LW_VIEW_COUNT; i++) {
		struct lw_view *view = &app->views[i];

		*view = (struct lw_view){lw_views[i], data, &app->focus, app, NULL, 0};
		view->state = calloc(1, view->ops->state_bytes + 1);
		if (!view->state)
			return lw_fail(LW_ERR_NOMEM, "no memory for views");
	}
	return lw_app_resize(app, 80, 24);
}

void lw_app_done(struct lw_app *app)
{
	for (int i = 0; i < LW_VIEW_COUNT; i++) {
		struct lw_view *view = &app->views[i];

		if (view->state && view->ops->done)
			view->ops->done(view);
		free(view->state);
		view->state = NULL;
	}
	free(app->copied);
	lw_cells_free(&app->cells);
}

int lw_app_resize(struct lw_app *app, int width, int height)
{
	return lw_cells_resize(&app->cells, width, height);
}

void lw_app_say(struct lw_app *app, bool is_error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(app->message, sizeof(app->message), format, arguments);
	va_end(arguments);
	app->is_error = is_error;
}

void lw_app_show(struct lw_app *app, int view)
{
	app->current = view;
	app->view_after = 0;
	app->mode = LW_APP_VIEW;
}

/* ---- drawing ------------------------------------------------------------------------------------ */

static struct lw_pane body_of(struct lw_app *app)
{
	struct lw_pane all = lw_pane_whole(&app->cells);

	return lw_pane_part(all, 0, TOP_LINES, all.width, all.height - TOP_LINES - BOTTOM_LINES);
}

/* Opens a view that has not seen this analysis. Return: it can be drawn. */
static bool open_view(struct lw_app *app, struct lw_view *view, struct lw_pane pane)
{
	const struct lw_data *data = app->data;
	int status = LW_OK;

	if (!data->analysis && !view->ops->needs_no_analysis) {
		if (data->error[0])
			lw_pane_wrap(pane, 1, 1, pane.width - 2, LW_STYLE_BAD, data->error);
		else
			lw_pane_print(pane, 1, 1, LW_STYLE_DIM, "%s ...",
				data->stage ? data->stage : "nothing was read yet");
		return false;
	}
	if (view->generation != data->generation + 1 && view->ops->open)
		status = view->ops->open(view);
	if (status < 0) {
		lw_pane_wrap(pane, 1, 1, pane.width - 2, LW_STYLE_BAD, lw_error_text());
		return false;
	}
	view->generation = data->generation + 1;
	return true;
}

void lw_app_draw(struct lw_app *app)
{
	struct lw_pane all = lw_pane_whole(&app->cells), body = body_of(app);
	struct lw_view *view = &app->views[app->current];

	lw_cells_clear(&app->cells);
	if (app->chooser) {
		lw_chooser_draw(app->chooser, all);
		return;
	}
	if (all.width < LEAST_WIDTH || all.height < LEAST_HEIGHT) {
		lw_pane_print(
			all, 0, 0, LW_STYLE_TEXT, "%d x %d is too small:", all.width, all.height);
		lw_pane_print(
			all, 0, 1, LW_STYLE_TEXT, "at least %d x %d", LEAST_WIDTH, LEAST_HEIGHT);
		return;
	}
	lw_frame_draw_top(app, all);
	if (app->mode == LW_APP_HELP) {
		int n_lines = lw_help_draw(app, body, app->help_top);

		if (app->help_top > n_lines - body.height)
			app->help_top = n_lines > body.height ? n_lines - body.height : 0;
	} else if (lw_app_is_live_shown(app)) {
		lw_live_draw(app, body);
	} else if (open_view(app, view, body)) {
		view->ops->draw(view, body);
	}
	lw_frame_draw_bottom(app, all);
}

bool lw_app_tick(struct lw_app *app)
{
	struct lw_view *view = &app->views[app->current];
	bool is_changed = lw_data_poll(app->data);

	if (app->chooser)
		return lw_chooser_tick(app->chooser);
	if (app->live)
		is_changed |= lw_live_tick(app);
	if (app->mode != LW_APP_HELP && view->ops->tick &&
		view->generation == app->data->generation + 1)
		is_changed |= view->ops->tick(view);
	return is_changed;
}

void lw_app_draw_all(struct lw_app *app)
{
	lw_app_draw(app);
	while (lw_app_tick(app))
		lw_app_draw(app);
}

/* ---- keys --------------------------------------------------------------------------------------- */

/* The list of a view that is open. NULL: there is none. */
static struct lw_table *table_of(struct lw_view *view)
{
	return view->ops->table ? view->ops->table(view) : NULL;
}

static bool is_open(const struct lw_view *view)
{
	return view->generation == view->data->generation + 1;
}

static bool find_in(struct lw_view *view, const char *text, int by)
{
	struct lw_table *table;

	if (view->ops->find)
		return view->ops->find(view, text, by);
	table = table_of(view);
	return table && lw_table_find(table, text, by);
}

static void find(struct lw_app *app, int by)
{
	struct lw_view *view = &app->views[app->current];

	if (!app->sought[0])
		lw_app_say(app, true, "nothing was searched for yet: / begins");
	else if (!lw_app_can_here(app, LW_REQUEST_SEARCH))
		lw_app_refuse(app, '/');
	else if (!is_open(view) || !find_in(view, app->sought, by))
		lw_app_say(app, true, "'%s' is not here", app->sought);
}

void lw_app_search(struct lw_app *app, const char *text)
{
	snprintf(app->sought, sizeof(app->sought), "%s", text);
	find(app, 0);
}

static bool copy_of(struct lw_view *view, FILE *out)
{
	const struct lw_table *table;

	if (view->ops->copy)
		return view->ops->copy(view, out);
	table = table_of(view);
	return table && lw_table_copy(table, out);
}

static void copy(struct lw_app *app)
{
	struct lw_view *view = &app->views[app->current];
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	bool is_copied;

	lw_error_clear();
	is_copied = out && (lw_app_is_live_shown(app) ? lw_app_write_screen(app, out) == LW_OK
						      : is_open(view) && copy_of(view, out));
	if (out)
		fclose(out);
	if (!is_copied) {
		free(text);
		lw_app_say(app, true, "there is nothing to copy: %s",
			*lw_error_text() ? lw_error_text() : "nothing is selected");
		lw_error_clear();
		return;
	}
	free(app->copied);
	app->copied = text;
	lw_app_say(app, false, "%zu characters copied, if this terminal lets programs do that", n);
}

int lw_app_write(struct lw_app *app, FILE *out)
{
	struct lw_view *view = &app->views[app->current];
	const struct lw_table *table = is_open(view) && !view->ops->write ? table_of(view) : NULL;

	if (is_open(view) && view->ops->write)
		return view->ops->write(view, out);
	return table ? lw_table_write(table, out) : lw_app_write_screen(app, out);
}

static void prompt(struct lw_app *app, enum lw_app_mode mode)
{
	app->mode = mode;
	app->line[0] = 0;
}

static void type(struct lw_app *app, uint32_t key)
{
	size_t n = strlen(app->line);
	enum lw_app_mode mode = app->mode;

	if (key == LW_KEY_ESCAPE || (key == LW_KEY_BACKSPACE && n == 0)) {
		app->mode = LW_APP_VIEW;
	} else if (key == LW_KEY_BACKSPACE) {
		while (n > 0 && (app->line[--n] & 0xc0) == 0x80)
			;
		app->line[n] = 0;
	} else if (key == LW_KEY_CTRL_U) {
		app->line[0] = 0;
	} else if (key == LW_KEY_ENTER) {
		app->mode = LW_APP_VIEW;
		if (mode == LW_APP_COMMAND) {
			lw_app_command(app, app->line);
		} else if (app->line[0]) {
			lw_app_search(app, app->line);
		}
	} else if (key >= 0x20 && key < LW_KEY_FIRST && n + 5 < sizeof(app->line)) {
		struct lw_cells one = {.width = 1, .height = 1, .at = &(struct lw_cell){key, 0}};

		lw_cells_line(&one, 0, app->line + n);
		if (key == ' ')
			memcpy(app->line + n, " ", 2);
	}
}

static bool scroll_help(struct lw_app *app, enum lw_request request)
{
	int page = body_of(app).height - 1, by;

	by = request == LW_REQUEST_UP          ? -1
	     : request == LW_REQUEST_DOWN      ? 1
	     : request == LW_REQUEST_PAGE_UP   ? -page
	     : request == LW_REQUEST_PAGE_DOWN ? page
	     : request == LW_REQUEST_TOP       ? -app->help_top
	     : request == LW_REQUEST_BOTTOM    ? INT16_MAX /* drawing clips it */
					       : 0;
	app->help_top += by;
	if (app->help_top < 0)
		app->help_top = 0;
	return by != 0;
}

static bool own_request(struct lw_app *app, enum lw_request request)
{
	if (request >= LW_REQUEST_VIEW && request <= LW_REQUEST_LAST_VIEW) {
		lw_app_show(app, (int)(request - LW_REQUEST_VIEW));
		return true;
	}
	switch ((int)request) {
	case LW_REQUEST_QUIT:
		app->is_over = true;
		return true;
	case LW_REQUEST_HELP:
		app->mode = app->mode == LW_APP_HELP ? LW_APP_VIEW : LW_APP_HELP;
		app->help_top = 0;
		return true;
	case LW_REQUEST_REDRAW:
		app->must_redraw = true;
		return true;
	case LW_REQUEST_NEXT_VIEW:
		lw_app_show(app, (app->current + 1) % LW_VIEW_COUNT);
		return true;
	case LW_REQUEST_PREVIOUS_VIEW:
		lw_app_show(app, (app->current + LW_VIEW_COUNT - 1) % LW_VIEW_COUNT);
		return true;
	case LW_REQUEST_SEARCH:
		prompt(app, LW_APP_SEARCH);
		return true;
	case LW_REQUEST_COMMAND:
		prompt(app, LW_APP_COMMAND);
		return true;
	case LW_REQUEST_FIND_NEXT:
		find(app, 1);
		return true;
	case LW_REQUEST_FIND_PREVIOUS:
		find(app, -1);
		return true;
	case LW_REQUEST_COPY:
		copy(app);
		return true;
	case LW_REQUEST_MARK:
		if (!app->live && app->past)
			lw_live_go_to_mark(app);
		return !app->live;
	case LW_REQUEST_EXPORT:
		lw_app_export(app, "");
		return true;
	default:
		return false;
	}
}

/* The view that is shown, or what of the program stands before it. */
static void request(struct lw_app *app, uint32_t key, const struct lw_input *input)
{
	struct lw_view *view = &app->views[app->current];
	struct lw_pane nowhere = lw_pane_part(body_of(app), 0, 0, 0, 0);
	/* several keys may come between two pictures, and views open when they are drawn */
	bool is_ready = is_open(view) || (!app->live && open_view(app, view, nowhere));

	if (own_request(app, input->request))
		return;
	if (app->live && lw_live_request(app, input))
		return;
	if (is_ready && view->ops->request && view->ops->request(view, input))
		return;
	if (input->request == LW_REQUEST_BACK)
		lw_app_show(app, 0);
	else if (is_ready && input->request != LW_REQUEST_CLICK && !app->message[0])
		lw_app_say(app, true, "%s does nothing here now",
			lw_key_name(key, (char[LW_KEY_NAME_BYTES]){0}));
}

void lw_app_key(struct lw_app *app, uint32_t key, int x, int y)
{
	struct lw_pane body = body_of(app);
	struct lw_input input = {lw_key_request(key), x, y - TOP_LINES, body.height, body.width};

	app->message[0] = 0;
	if (app->chooser)
		app->is_over = lw_chooser_key(app->chooser, key, y, app->cells.height);
	else if (app->mode == LW_APP_SEARCH || app->mode == LW_APP_COMMAND)
		type(app, key);
	else if (key == LW_KEY_NONE)
		return;
	else if (input.request == LW_REQUEST_CLICK && lw_frame_click(app, x, y))
		return;
	else if (!lw_app_can_here(app, input.request))
		lw_app_refuse(app, key);
	else if (app->mode != LW_APP_HELP)
		request(app, key, &input);
	else if (input.request == LW_REQUEST_BACK)
		app->mode = LW_APP_VIEW;
	else if (!scroll_help(app, input.request))
		own_request(app, input.request);
}

int lw_app_keys(struct lw_app *app, char *keys)
{
	char *word;

	while ((word = strsep(&keys, " "))) {
		uint32_t key = lw_key_named(word);

		if (key == LW_KEY_NONE && word[0] == '<')
			return lw_fail(LW_ERR_USAGE, "no key '%s'", word);
		if (key != LW_KEY_NONE)
			lw_app_key(app, key, 0, 0);
		else
			for (; *word; word++)
				lw_app_key(app, (unsigned char)*word, 0, 0);
		lw_app_draw_all(app);
	}
	return LW_OK;
}
