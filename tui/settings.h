/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - what the screens remember from one time to the next: $XDG_CONFIG_HOME/lapwing/tui, else
 * ~/.config/lapwing/tui. A line each: "view=timeline", "nic=hidden". What is not understood is left out, and a folder that cannot be
 * written is no error.
 */
#ifndef LAPWING_TUI_SETTINGS_H
#define LAPWING_TUI_SETTINGS_H

#include <stdbool.h>

struct lw_settings {
	int view;           /* index, -1: none remembered */
	bool is_nic_hidden; /* the timeline's lanes of what crossed the network */
};

void lw_settings_read(struct lw_settings *ret_settings);

/** lw_settings_write() - Return: LW_OK (also where no view is to be remembered) or LW_ERR_IO. */
int lw_settings_write(const struct lw_settings *settings);

#endif /* LAPWING_TUI_SETTINGS_H */
