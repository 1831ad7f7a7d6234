/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - what the screens remember from one time to the next: $XDG_CONFIG_HOME/lapwing/tui, else
 * ~/.config/lapwing/tui. A line each: "view=timeline". What is not understood is left out, and a folder that cannot be
 * written is no error.
 */
#ifndef LAPWING_TUI_SETTINGS_H
#define LAPWING_TUI_SETTINGS_H

struct lw_settings {
	int view; /* index, -1: none remembered */
};

void lw_settings_read(struct lw_settings *ret_settings);

/** lw_settings_write() - Return: LW_OK (also where there is nothing to remember) or LW_ERR_IO. */
int lw_settings_write(const struct lw_settings *settings);

#endif /* LAPWING_TUI_SETTINGS_H */
