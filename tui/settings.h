/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - what the screens remember from one time to the next: $XDG_CONFIG_HOME/lapwing/tui, else
 * ~/.config/lapwing/tui. A line each: "view=timeline". What is not understood is left out, and a folder that cannot be
 * written is no error.
 */
#ifndef LAPWING_TUI_SETTINGS_H
#define LAPWING_TUI_SETTINGS_H

#include <stdbool.h>

struct lw_settings {
	int view; /* index, -1: none remembered */
};

void lw_settings_read(struct lw_settings *ret_settings);

/** lw_settings_write() - Return: written. */
bool lw_settings_write(const struct lw_settings *settings);

#endif /* LAPWING_TUI_SETTINGS_H */
