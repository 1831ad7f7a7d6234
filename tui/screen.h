/* SPDX-License-Identifier: Apache-2.0 */
/*
 * screen.h - a real terminal: the only file that knows ncurses.
 *
 * The terminal is given back as it was, also after a signal that ends the program or a crash.
 */
#ifndef LAPWING_TUI_SCREEN_H
#define LAPWING_TUI_SCREEN_H

#include <stdbool.h>

#include "tui/app.h"

struct lw_screen_options {
	bool is_mouse_off;
	bool is_ascii; /* else as the locale says */
	bool is_utf8;  /* of a dump: whatever the locale says */
};

/** lw_screen_is_utf8() - the locale's characters are UTF-8. Sets the locale of LC_CTYPE. */
bool lw_screen_is_utf8(void);

/** lw_screen_is_ascii() - how a screen is drawn that is printed as text: as asked, else as the locale says. */
bool lw_screen_is_ascii(const struct lw_screen_options *options);

/**
 * lw_screen_check() - before anything that takes long.
 * Return: LW_OK; LW_ERR_UNSUPPORTED: stdin or stdout is no terminal, or TERM cannot do it: says what to do.
 */
int lw_screen_check(void);

/** lw_screen_signal() - that ended lw_screen_run(); 0: none did. Who called it tidies up, and ends by it. */
int lw_screen_signal(void);

/**
 * lw_screen_run() - show @app until the user leaves, or a signal ends it, or the terminal goes away.
 * Return: LW_OK; lw_screen_check()'s error.
 */
int lw_screen_run(struct lw_app *app, const struct lw_screen_options *options);

#endif /* LAPWING_TUI_SCREEN_H */
