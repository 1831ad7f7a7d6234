/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - the help screen, made of the tables of keys, commands and views. */
#include <stdio.h>

#include "tui/app.h"

enum { INDENT = 24 };

struct writer {
	struct lw_pane pane;
	int y;
};

static void write_line(struct writer *w, const char *left, const char *right)
{
	int n_lines = lw_pane_wrap(
		w->pane, 1 + INDENT, w->y, w->pane.width - 2 - INDENT, LW_STYLE_TEXT, right);

	lw_pane_text(w->pane, 1, w->y, INDENT - 2, LW_STYLE_STRONG, left);
	w->y += n_lines > 0 ? n_lines : 1;
}

/* Those that do something here; keys of one request stand on one line: "Up k". */
static void write_keys(struct writer *w, const struct lw_app *app)
{
	size_t n;
	const struct lw_key_row *rows = lw_keys(&n);
	uint64_t can = lw_app_can(app, app->current);

	for (size_t i = 0; i < n; i++) {
		const char *words = lw_app_words(app, rows[i].request);
		char keys[64] = "", name[LW_KEY_NAME_BYTES];
		size_t end = 0;

		if (!rows[i].help || !(can >> rows[i].request & 1))
			continue;
		for (size_t k = i; k < n && (k == i || !rows[k].help); k++)
			end += (size_t)snprintf(keys + end, sizeof(keys) - end, "%s%s",
				k == i ? "" : " ", lw_key_name(rows[k].key, name));
		write_line(w, keys, words ? words : rows[i].help);
	}
}

int lw_help_draw(const struct lw_app *app, struct lw_pane pane, int top)
{
	const struct lw_view_ops *ops = app->views[app->current].ops;
	struct writer w = {pane, -top};
	const char *help, *name;

	write_line(&w, ops->name, ops->title);
	w.y++;
	lw_pane_print(pane, 1, w.y++, LW_STYLE_STRONG, "Keys that do something here");
	write_keys(&w, app);
	w.y++;
	lw_pane_print(pane, 1, w.y++, LW_STYLE_STRONG,
		"Commands (after a colon; the start of a word is enough)");
	for (size_t i = 0; (name = lw_app_command_help(i, &help)); i++)
		write_line(&w, name, help);
	w.y++;
	lw_pane_print(pane, 1, w.y++, LW_STYLE_STRONG, "Views");
	for (int i = 0; i < LW_VIEW_COUNT; i++)
		write_line(&w, lw_views[i]->name, lw_views[i]->title);
	w.y++;
	lw_pane_print(pane, 1, w.y++, LW_STYLE_STRONG, "Times");
	for (int i = 0; i < LW_LANE_COUNT; i++) {
		lw_pane_rune(
			pane, 1, w.y, lw_lanes[i].style, lw_glyph(pane.cells, lw_lanes[i].glyph));
		lw_pane_print(pane, 3, w.y++, LW_STYLE_TEXT, "%s", lw_lanes[i].name);
	}
	return w.y + top;
}
