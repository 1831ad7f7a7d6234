/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h - what a view is: a private state, static functions, and one ops table at the end of its file.
 *
 * Reads:  struct lw_data.   Writes: a pane. Drawing reads no files and computes nothing that could be kept;
 * what takes long is done in open(), once for each analysis; what takes longer than a redraw may, in prepare.h.
 * A new view is a file view_<name>.c, a row in view.c's table, and a row of digits in keys.c. Its ops table says which
 * requests it understands: hints, help and which keys reach it follow from that (hint.c).
 */
#ifndef LAPWING_TUI_VIEW_H
#define LAPWING_TUI_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include "tui/cells.h"
#include "tui/data.h"
#include "tui/keys.h"

struct lw_app;
struct lw_table; /* table.h */

/* What was selected last, so that one view goes on where another was. LW_NONE: nothing. */
struct lw_focus {
	int32_t step;   /* index into the steps of a rank */
	int32_t rank;   /* index into run->ranks */
	int32_t group;  /* index into run->groups */
	int32_t tensor; /* index into run->tensors */
	bool has_at;    /* the timeline goes to at_ns once, of its ruler */
	int64_t at_ns;
};

#define LW_FOCUS_NONE ((struct lw_focus){LW_NONE, LW_NONE, LW_NONE, LW_NONE, false, 0})

struct lw_input {
	enum lw_request request;
	int x, y;          /* of a click, in the pane that draw() got */
	int height, width; /* of that pane */
};

struct lw_view {
	const struct lw_view_ops *ops;
	struct lw_data *data;
	struct lw_focus *focus;
	struct lw_app *app;
	void *state;         /* ops->state_bytes, zeroed before the first open() */
	unsigned generation; /* of the data that it was opened with; 0: never */
};

struct lw_view_ops {
	const char *name;  /* "overview": in commands and options */
	const char *label; /* "over": on a narrow screen */
	const char *title; /* one line, for help */
	struct lw_key_set keys;
	size_t state_bytes;
	/* An analysis is there, or another one: make what draw() shows, keep what the user selected where that
	 * still exists. Return: LW_OK or an error, which is shown in its place. NULL: nothing to make */
	int (*open)(struct lw_view *view);
	/* @pane is all of it; data->analysis is not NULL unless needs_no_analysis */
	void (*draw)(struct lw_view *view, struct lw_pane pane);
	/* Go on with what open() began and no single draw() could wait for, some 10 ms of it at a time. Called
	 * while this view is shown and open. Return: it did something: draw, and call again. May be NULL */
	bool (*tick)(struct lw_view *view);
	/* One of keys.requests. Return: there was something to do; else the program may have a use for it */
	bool (*request)(struct lw_view *view, const struct lw_input *input);
	/* Return: the list that is shown: `/` searches it, `y` copies its row, `e` writes it. NULL: there is none
	 * now. May be NULL; what follows goes before it */
	struct lw_table *(*table)(struct lw_view *view);
	/* Select the next (@by 1) or last (-1) line that holds @text, capitals alike; @by 0: this one counts too.
	 * Return: found. May be NULL */
	bool (*find)(struct lw_view *view, const char *text, int by);
	/* What `y` copies. May be NULL. Return: there is something; else lw_fail() may have said why not */
	bool (*copy)(struct lw_view *view, FILE *out);
	/* What `e` writes as CSV. NULL, and no table: it writes the screen as text */
	int (*write)(struct lw_view *view, FILE *out);
	void (*done)(struct lw_view *view); /* free what the state owns. May be NULL */
	/* What the last line offers now, where that is not always keys.words. NULL: it is */
	const struct lw_key_words *(*words)(const struct lw_view *view);
	bool needs_no_analysis;
};

extern const struct lw_view_ops lw_view_overview, lw_view_timeline, lw_view_phases, lw_view_tensors,
	lw_view_ranks, lw_view_network, lw_view_model, lw_view_advice, lw_view_grid, lw_view_whatif,
	lw_view_log;

/** lw_views() - all of them, in the order of their digits. */
extern const struct lw_view_ops *const lw_views[LW_VIEW_COUNT];

/** lw_view_find() - by the start of its name. Return: its index, -1: none or several. */
int lw_view_find(const char *name);

#endif /* LAPWING_TUI_VIEW_H */
