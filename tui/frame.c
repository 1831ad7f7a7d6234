/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - what is around every view: the lines with the job and the views' names, and the last line. */
#include <stdio.h>

#include "tui/app.h"
#include "tui/live.h"

enum { MOST_MESSAGE_LINES = 3, SMALL_HEIGHT = 14, LEAST_FOR_BOTH = 60 /* columns */ };

/* Where the name of each view stands on the second line; also for clicks. Return: columns. */
static int tab_text(const struct lw_app *app, int view, char text[32])
{
	const struct lw_view_ops *ops = lw_views[view];
	size_t n;
	const struct lw_key_row *rows = lw_keys(&n);
	char key = ' ';

	for (size_t i = 0; i < n; i++)
		if (rows[i].request == LW_REQUEST_VIEW + (enum lw_request)view)
			key = (char)rows[i].key;
	snprintf(text, 32, "%c%s", key, app->cells.width >= LW_APP_WIDE ? ops->name : ops->label);
	return lw_text_width(text);
}

/* The first name on the second line, so that the one that is shown is there too. */
static int first_tab(const struct lw_app *app)
{
	int first = app->current, width = 2; /* brackets */
	char text[32];

	for (int i = app->current + (app->current + 1 < LW_VIEW_COUNT); i >= 0; i--) {
		width += tab_text(app, i, text) + 1;
		if (width > app->cells.width)
			break;
		if (i < first)
			first = i;
	}
	return first;
}

void lw_frame_draw_top(struct lw_app *app, struct lw_pane all)
{
	const struct lw_brief *brief = lw_data_brief(app->data);
	char tab[32];
	int x = 0;

	lw_pane_fill(all, 0, 0, all.width, LW_STYLE_TITLE, ' ');
	x = lw_pane_print(all, 1, 0, LW_STYLE_TITLE, "lapwing  %s", app->name) + 3;
	if (brief)
		lw_pane_text(all, x, 0, all.width - x - 1, LW_STYLE_TITLE, brief->job);
	x = 0;
	for (int i = first_tab(app); i < LW_VIEW_COUNT; i++) {
		int width = tab_text(app, i, tab);

		if (i == app->current) /* brackets: not by style alone */
			lw_pane_print(all, x, 1, LW_STYLE_TAB, "[%s]", tab);
		else
			lw_pane_text(all, x + 1, 1, width, LW_STYLE_DIM, tab);
		x += width + 1;
	}
	if (first_tab(app) > 0 && first_tab(app) < app->current)
		lw_pane_rune(all, 0, 1, LW_STYLE_DIM, lw_glyph(all.cells, LW_GLYPH_CUT));
}

/* A message is gone with the next key: a long one may stand on what is above the last line until then. */
static void draw_message(const struct lw_app *app, struct lw_pane all)
{
	int width = all.width - 2, y = all.height - 1, n;
	int most = all.height < SMALL_HEIGHT ? MOST_MESSAGE_LINES - 1 : MOST_MESSAGE_LINES;
	enum lw_style style = app->is_error ? LW_STYLE_BAD : LW_STYLE_TITLE;
	char text[LW_APP_MESSAGE_BYTES + 2];

	snprintf(text, sizeof(text), "%s%s", app->is_error ? "! " : "", app->message);
	n = lw_pane_wrap(lw_pane_part(all, 0, 0, width, 0), 0, 0, width, style, text);
	if (n > most)
		n = most;
	for (int i = 0; i < n; i++)
		lw_pane_fill(all, 0, y - i, all.width, LW_STYLE_TITLE, ' ');
	lw_pane_wrap(lw_pane_part(all, 1, y - n + 1, width, n), 0, 0, width, style, text);
}

/* Those of the view, and at the right those of every view; how to leave goes first where there is no room. */
static void draw_hints(struct lw_app *app, struct lw_pane all, int y)
{
	static const char both[] = "? help  q leave", help[] = "? help";
	int least = (int)(all.width >= LEAST_FOR_BOTH ? sizeof(both) : sizeof(help));
	int x = lw_hint_draw(app, lw_pane_part(all, 0, 0, all.width - least - 1, all.height), y);
	bool has_both = x + (int)sizeof(both) - 1 <= all.width;

	lw_pane_right(
		all, all.width - 1, y, (int)sizeof(both), LW_STYLE_TITLE, has_both ? both : help);
}

void lw_frame_draw_bottom(struct lw_app *app, struct lw_pane all)
{
	int y = all.height - 1;

	lw_pane_fill(all, 0, y, all.width, LW_STYLE_TITLE, ' ');
	if (app->mode == LW_APP_SEARCH || app->mode == LW_APP_COMMAND) {
		int width = lw_text_width(app->line), left = all.width - 3;
		const char *shown = app->line;

		for (; width > left && *shown; width = lw_text_width(shown)) {
			shown++; /* the end is what is typed */
			while ((*shown & 0xc0) == 0x80)
				shown++;
		}
		lw_pane_print(all, 0, y, LW_STYLE_TITLE, "%c%s_",
			app->mode == LW_APP_SEARCH ? '/' : ':', shown);
	} else if (app->message[0]) {
		draw_message(app, all);
	} else if (app->data->stage && !lw_app_is_live_shown(app)) {
		lw_pane_print(all, 1, y, LW_STYLE_TITLE, "%s ...", app->data->stage);
	} else {
		draw_hints(app, all, y);
	}
	if (app->live && app->mode == LW_APP_VIEW && !lw_app_is_live_shown(app))
		lw_hint_draw_age(app, all, y);
}

bool lw_frame_click(struct lw_app *app, int x, int y)
{
	int at = 0;

	if (y != 1)
		return false;
	for (int i = first_tab(app); i < LW_VIEW_COUNT; i++) {
		char tab[32];
		int width = tab_text(app, i, tab);

		if (x >= at && x <= at + width) {
			lw_app_show(app, i);
			return true;
		}
		at += width + 1;
	}
	return true;
}
