/* SPDX-License-Identifier: Apache-2.0 */
/* live_find.h - the jobs that are being recorded on this host, found by their ring directories. */
#ifndef LAPWING_CLI_LIVE_FIND_H
#define LAPWING_CLI_LIVE_FIND_H

#include "tui/chooser.h"

/**
 * lw_live_find_jobs() - all of this user, one for each run file. @ret_n_left: directories that nobody collects.
 * Return: LW_OK or an error.
 */
int lw_live_find_jobs(size_t *ret_n_left, lw_job_list *ret_jobs);

/** lw_live_await_run() - the run file of a directory that somebody collects. Return: LW_OK or an error. */
int lw_live_await_run(const char *dir, struct lw_job *job);

/** lw_live_say_no_job() - Return: the exit code of the program. */
int lw_live_say_no_job(size_t n_left);

#endif /* LAPWING_CLI_LIVE_FIND_H */
