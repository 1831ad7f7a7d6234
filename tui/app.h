/* SPDX-License-Identifier: Apache-2.0 */
/*
 * app.h - the program between keys and cells: which view is shown, prompts, messages, help.
 *
 * Knows no terminal: screen.c hands it keys and shows its cells; tests and `--dump` do the same.
 *
 *	lw_app_init() .. lw_app_resize() .. [lw_app_key() | lw_app_tick()] .. lw_app_draw() .. lw_app_done()
 */
#ifndef LAPWING_TUI_APP_H
#define LAPWING_TUI_APP_H

#include "tui/view.h"

enum { LW_APP_LINE_BYTES = 256, LW_APP_MESSAGE_BYTES = 512, LW_APP_WIDE = 100 /* columns */ };

enum lw_app_mode { LW_APP_VIEW, LW_APP_HELP, LW_APP_SEARCH, LW_APP_COMMAND };

struct lw_live;    /* live.h */
struct lw_chooser; /* chooser.h */

struct lw_app {
	struct lw_data *data;
	struct lw_live *live;       /* NULL: after the run */
	struct lw_live *past;       /* the job that was followed to its end; NULL: none was */
	struct lw_chooser *chooser; /* NULL: it is clear which job; else all of the screen is its */
	struct lw_cells cells;
	struct lw_view views[LW_VIEW_COUNT];
	int current;
	int view_after; /* that the end of a job shows, unless the user chose one while it ran; 0 = stay */
	struct lw_focus focus;
	enum lw_app_mode mode;
	char line[LW_APP_LINE_BYTES];   /* what is typed in a prompt */
	char sought[LW_APP_LINE_BYTES]; /* what was searched last */
	char message[LW_APP_MESSAGE_BYTES];
	bool is_error;      /* the message is one */
	bool is_nic_hidden; /* of the timeline; remembered */
	int help_top;       /* first line of help on the screen */
	char *copied;       /* for the terminal's clipboard: screen.c takes it. Owned */
	const char *name;   /* of the run, for the title */
	bool is_over;       /* the user left */
	bool must_redraw;   /* the terminal is to be drawn from nothing */
};

/** lw_app_init() - @data is borrowed; it may still be read. Return: LW_OK, LW_ERR_NOMEM. */
int lw_app_init(struct lw_app *app, struct lw_data *data, const char *name);
void lw_app_done(struct lw_app *app);

/** lw_app_resize() - Return: LW_OK, LW_ERR_NOMEM: as before. */
int lw_app_resize(struct lw_app *app, int width, int height);

/** lw_app_key() - @x, @y: of a click, else ignored. */
void lw_app_key(struct lw_app *app, uint32_t key, int x, int y);

/** lw_app_keys() - keys as scripts write them, blanks between: "2 <Down> /fc <Enter>"; what is not in <> is typed
 * letter by letter. Draws after each. @keys is cut up. Return: LW_OK, LW_ERR_USAGE: no such key. */
int lw_app_keys(struct lw_app *app, char *keys);

/** lw_app_tick() - time has passed. Return: there is something to draw, and more may follow at once. */
bool lw_app_tick(struct lw_app *app);

/** lw_app_draw() - fill the cells. */
void lw_app_draw(struct lw_app *app);

/** lw_app_draw_all() - as often as the program would until the view has all that it shows. */
void lw_app_draw_all(struct lw_app *app);

/** lw_app_show() - switch to a view, by index. */
void lw_app_show(struct lw_app *app, int view);

/** lw_app_say() - a message on the last line until the next key. */
void lw_app_say(struct lw_app *app, bool is_error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** lw_app_search() - select what holds @text, from what is selected on. */
void lw_app_search(struct lw_app *app, const char *text);

/** lw_app_can() - hint.c: the set of requests that do something in a view, or in the program that shows it. */
uint64_t lw_app_can(const struct lw_app *app, int view);

/** lw_app_can_here() - in what is on the screen. */
bool lw_app_can_here(const struct lw_app *app, enum lw_request request);

/** lw_app_words() - what a request does in the view that is shown. NULL: what the key table says. */
const char *lw_app_words(const struct lw_app *app, enum lw_request request);

/** lw_app_refuse() - say that @key does nothing here, and where it does something. */
void lw_app_refuse(struct lw_app *app, uint32_t key);

/** lw_app_is_live_shown() - the overview is that of the running job. */
bool lw_app_is_live_shown(const struct lw_app *app);

/** lw_frame_draw_top() - frame.c: the job, and the names of the views. */
void lw_frame_draw_top(struct lw_app *app, struct lw_pane all);

/** lw_frame_draw_bottom() - what is typed, or was said, or is being made, or the keys that matter most. */
void lw_frame_draw_bottom(struct lw_app *app, struct lw_pane all);

/** lw_frame_click() - show the view whose name is at (@x, @y). Return: it is a place of names. */
bool lw_frame_click(struct lw_app *app, int x, int y);

/** lw_hint_draw() - the keys that matter most here, on line @y. Return: the column after them. */
int lw_hint_draw(const struct lw_app *app, struct lw_pane pane, int y);

/** lw_hint_draw_age() - of which moment of a running job the view is, at the right end of line @y. */
void lw_hint_draw_age(const struct lw_app *app, struct lw_pane pane, int y);

/** lw_app_command() - what was typed after `:`; the answer is a message. */
void lw_app_command(struct lw_app *app, const char *line);

/** lw_app_commands() - "quit", "leave", .. for help; NULL after the last. */
const char *lw_app_command_help(size_t n, const char **ret_help);

/** lw_app_export() - what is shown, to @path; "" makes up a name here. */
void lw_app_export(struct lw_app *app, const char *path);

/** lw_app_write() - what is shown: as CSV where the view can, else the screen. Return: LW_OK or an error. */
int lw_app_write(struct lw_app *app, FILE *out);

/** lw_app_write_screen() - the cells as text. Return: LW_OK or LW_ERR_IO. */
int lw_app_write_screen(const struct lw_app *app, FILE *out);

/** lw_help_draw() - help.c: keys and commands, from line @top. Return: all its lines. */
int lw_help_draw(const struct lw_app *app, struct lw_pane pane, int top);

#endif /* LAPWING_TUI_APP_H */
