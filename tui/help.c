/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - the help screen, made of the tables of keys, commands and views. */
#include <stdio.h>
#include <string.h>

#include "tui/app.h"

enum { INDENT = 24 };

struct writer {
	struct lw_pane pane;
	int y;
};

static void write_line(
	struct writer *w, enum lw_style style, const char *left, int indent, const char *right)
{
	lw_pane_text(w->pane, 1, w->y, indent - 2, style, left);
	lw_pane_text(w->pane, 1 + indent, w->y, w->pane.width - 1 - indent, LW_STYLE_TEXT, right);
	w->y++;
}

/* Keys of one request stand on one line: "Up k". */
static void write_keys(struct writer *w, const char *view)
{
	size_t n;
	const struct lw_key_row *rows = lw_keys(&n);

	for (size_t i = 0; i < n; i++) {
		char keys[64] = "", name[LW_KEY_NAME_BYTES];
		size_t end = 0;

		if (!rows[i].help || (rows[i].view && strcmp(rows[i].view, view) != 0))
			continue;
		for (size_t k = i; k < n && (k == i || !rows[k].help); k++)
			end += (size_t)snprintf(keys + end, sizeof(keys) - end, "%s%s",
				k == i ? "" : " ", lw_key_name(rows[k].key, name));
		write_line(w, LW_STYLE_STRONG, keys, INDENT, rows[i].help);
	}
}

int lw_help_draw(const struct lw_app *app, struct lw_pane pane, int top)
{
	const struct lw_view_ops *ops = app->views[app->current].ops;
	struct writer w = {pane, -top};
	const char *help, *name;

	lw_pane_print(pane, 1, w.y++, LW_STYLE_STRONG, "%s: %s", ops->name, ops->title);
	lw_pane_print(pane, 1, w.y++, LW_STYLE_DIM, "%s", ops->hint);
	w.y++;
	lw_pane_print(pane, 1, w.y++, LW_STYLE_STRONG, "Keys");
	write_keys(&w, ops->name);
	w.y++;
	lw_pane_print(pane, 1, w.y++, LW_STYLE_STRONG,
		"Commands (after a colon; the start of a word is enough)");
	for (size_t i = 0; (name = lw_app_command_help(i, &help)); i++)
		write_line(&w, LW_STYLE_STRONG, name, INDENT, help);
	w.y++;
	lw_pane_print(pane, 1, w.y++, LW_STYLE_STRONG, "Views");
	for (int i = 0; i < LW_VIEW_COUNT; i++)
		write_line(&w, LW_STYLE_STRONG, lw_views[i]->name, INDENT, lw_views[i]->title);
	w.y++;
	lw_pane_print(pane, 1, w.y++, LW_STYLE_STRONG, "Times");
	for (int i = 0; i < LW_LANE_COUNT; i++) {
		if (i == LW_LANE_GPU) /* no record of it yet */
			continue;
		lw_pane_rune(
			pane, 1, w.y, lw_lanes[i].style, lw_glyph(pane.cells, lw_lanes[i].glyph));
		lw_pane_print(pane, 3, w.y++, LW_STYLE_TEXT, "%s", lw_lanes[i].name);
	}
	return w.y + top;
}
