/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hint.c - which keys do something in what is shown: one answer for the last line, for help and for keys.
 *
 * A view names what it understands (lw_view_ops.keys); what the program understands everywhere is added here.
 */
#include <stdio.h>
#include <string.h>

#include "tui/app.h"
#include "tui/live.h"

#define OF_PROGRAM                                                                                 \
	(LW_CAN(QUIT) | LW_CAN(HELP) | LW_CAN(REDRAW) | LW_CAN(NEXT_VIEW) |                        \
		LW_CAN(PREVIOUS_VIEW) | LW_CAN(COMMAND) | LW_CAN(BACK) | LW_CAN(CLICK) |           \
		((LW_CAN(VIEW) << LW_VIEW_COUNT) - LW_CAN(VIEW)))
#define OF_SEARCH (LW_CAN(SEARCH) | LW_CAN(FIND_NEXT) | LW_CAN(FIND_PREVIOUS))
#define OF_LIVE   (LW_CAN(PAUSE) | LW_CAN(MARK) | LW_CAN(SNAPSHOT))

static const struct lw_key_words help_words[] = {{LW_REQUEST_BACK, "back", NULL},
	{LW_REQUEST_UP, "", NULL}, {LW_REQUEST_DOWN, "", NULL}, {LW_REQUEST_PAGE_UP, "", NULL},
	{LW_REQUEST_PAGE_DOWN, "more", NULL}, {0}};

static const struct lw_key_set help_keys = {LW_CAN(UP) | LW_CAN(DOWN) | LW_CAN(PAGE_UP) |
						    LW_CAN(PAGE_DOWN) | LW_CAN(TOP) |
						    LW_CAN(BOTTOM),
	help_words};

/* While the job runs, the overview is of its last seconds. */
static bool is_live_at(const struct lw_app *app, int view)
{
	return app->live && view == 0;
}

bool lw_app_is_live_shown(const struct lw_app *app)
{
	return is_live_at(app, app->current) && app->mode != LW_APP_HELP;
}

static const struct lw_key_set *keys_of(const struct lw_app *app, int view)
{
	return is_live_at(app, view) ? lw_live_keys(app->live) : &lw_views[view]->keys;
}

/* Of what is shown now. */
static const struct lw_key_words *words_of(const struct lw_app *app)
{
	const struct lw_view *view = &app->views[app->current];

	if (app->mode == LW_APP_HELP)
		return help_words;
	if (view->ops->words && !is_live_at(app, app->current) &&
		view->generation == app->data->generation + 1)
		return view->ops->words(view);
	return keys_of(app, app->current)->words;
}

uint64_t lw_app_can(const struct lw_app *app, int view)
{
	const struct lw_view_ops *ops = lw_views[view];
	uint64_t can = OF_PROGRAM | LW_CAN(EXPORT) | keys_of(app, view)->requests;

	if (app->live)
		can |= OF_LIVE;
	else if (app->past)
		can |= LW_CAN(MARK); /* goes through those that were set while it ran */
	if (is_live_at(app, view))
		return can;
	if (ops->find || ops->table)
		can |= OF_SEARCH;
	if (ops->copy || ops->table)
		can |= LW_CAN(COPY);
	return can;
}

bool lw_app_can_here(const struct lw_app *app, enum lw_request request)
{
	uint64_t can = app->mode == LW_APP_HELP ? OF_PROGRAM | help_keys.requests
						: lw_app_can(app, app->current);

	return can >> request & 1;
}

const char *lw_app_words(const struct lw_app *app, enum lw_request request)
{
	const struct lw_key_words *words = keys_of(app, app->current)->words;

	for (; words && words->request; words++)
		if (words->request == request)
			return words->help                     ? words->help
			       : words->hint && words->hint[0] ? words->hint
							       : NULL;
	return NULL;
}

void lw_app_refuse(struct lw_app *app, uint32_t key)
{
	enum lw_request request = lw_key_request(key);
	char name[LW_KEY_NAME_BYTES], where[LW_APP_LINE_BYTES] = "";
	size_t n = 0;

	lw_key_name(key, name);
	if (request == LW_REQUEST_NONE) {
		lw_app_say(app, true, "%s does nothing: ? lists the keys", name);
		return;
	}
	for (int i = 0; i < LW_VIEW_COUNT && app->mode != LW_APP_HELP; i++)
		if (lw_app_can(app, i) >> request & 1)
			n += (size_t)snprintf(where + n, sizeof(where) - n, "%s%s", n ? ", " : "",
				app->cells.width >= LW_APP_WIDE ? lw_views[i]->name
								: lw_views[i]->label);
	if (LW_CAN(NONE) << request & OF_LIVE)
		lw_app_say(app, true,
			"%s does nothing here (only while a job runs: `lapwing live`)", name);
	else if (n)
		lw_app_say(app, true, "%s does nothing here (in %s)", name, where);
	else
		lw_app_say(app, true, "%s does nothing here", name);
}

/* As many hints as there is room for, each whole. */
int lw_hint_draw(const struct lw_app *app, struct lw_pane pane, int y)
{
	const struct lw_key_words *words = words_of(app);
	static const char all_arrows[] = "Left Right Up Down ";
	char text[LW_APP_LINE_BYTES] = "", name[LW_KEY_NAME_BYTES];
	size_t n = 0;
	int x = 1;

	for (; words && words->request; words++) {
		if (!words->hint)
			continue;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ",
			lw_key_name(lw_key_of(words->request), name));
		if (!words->hint[0])
			continue; /* the next key is of the same hint */
		if (!strcmp(text, all_arrows))
			n = (size_t)snprintf(text, sizeof(text), "arrows ");
		snprintf(text + n, sizeof(text) - n, "%s", words->hint);
		if (x + lw_text_width(text) > pane.width)
			return x;
		x += lw_pane_print(pane, x, y, LW_STYLE_TITLE, "%s", text) + 2;
		n = 0;
	}
	return x;
}

/* While the job runs, what views show is of some moment: which one is said beside whatever else is said. */
void lw_hint_draw_age(const struct lw_app *app, struct lw_pane all, int y)
{
	char text[LW_LIVE_AGE_BYTES];
	int width = lw_text_width(lw_live_age(app->live, text));

	if (!width)
		return;
	lw_pane_fill(all, all.width - width - 3, y, width + 3, LW_STYLE_TITLE, ' ');
	lw_pane_right(all, all.width - 1, y, width, LW_STYLE_TITLE, text);
}
