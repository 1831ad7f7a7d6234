/* SPDX-License-Identifier: Apache-2.0 */
/* play_live.h - lines of a case that follow a job: its rows, its collector and the clock are all made up. */
#ifndef LAPWING_TESTS_TUI_PLAY_LIVE_H
#define LAPWING_TESTS_TUI_PLAY_LIVE_H

#include "tests/lib/grow_run.h"
#include "tui/chooser.h"
#include "tui/live.h"

struct live_player {
	struct grow_run run;
	char whole_path[128];
	struct lw_app *app;
	struct lw_live *live;
	struct lw_chooser chooser;
	int64_t now_ns;
	enum lw_live_collector collector;
	int n_ranks;
	bool is_open;
};

/** play_live_begin() - @app and its data are initialised and know of no run. Return: LW_OK or the first error. */
int play_live_begin(struct live_player *p, struct lw_app *app, const char *path, const char *whole,
	const struct make_run *spec);
void play_live_end(struct live_player *p);

/** play_live_line() - Return: understood. */
bool play_live_line(struct live_player *p, const char *line);

/** play_live_settle() - what threads do is waited for: screens depend on the clock of the case alone. */
void play_live_settle(struct live_player *p);

/** play_chooser() - a list of jobs. */
void play_chooser(struct live_player *p, struct lw_app *app);

#endif /* LAPWING_TESTS_TUI_PLAY_LIVE_H */
