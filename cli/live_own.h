/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_own.h - `lapwing live -- COMMAND`: the command is recorded by a process of its own.
 *
 * Leaving the screen leaves it alone. Its output goes to RUN.log, as the screen is taken.
 */
#ifndef LAPWING_CLI_LIVE_OWN_H
#define LAPWING_CLI_LIVE_OWN_H

#include "cli/launch.h"
#include "tui/chooser.h"

struct lw_own {
	pid_t recorder; /* 0: none, or it has ended */
	int code;       /* then: the command's, as `record` gives it */
	char log[PATH_MAX + 8];
};

/** lw_own_start() - Return: 0 and which job it is, or 1 + the exit code of the program, which has said why. */
int lw_own_start(struct lw_own *own, struct lw_launch *launch, struct lw_job *ret_job);

/** lw_own_has_ended() - @must_wait: until it has. */
bool lw_own_has_ended(struct lw_own *own, bool must_wait);

#endif /* LAPWING_CLI_LIVE_OWN_H */
