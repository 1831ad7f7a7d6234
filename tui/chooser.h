/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chooser.h - several jobs run on this host: which one is to be followed?
 *
 * Reads: the run file of each job, once.   Writes: nothing. Whoever opens it finds the jobs; the program's
 * whole screen is the chooser's while app->chooser is set, and is over when one was chosen or nobody wants to.
 */
#ifndef LAPWING_TUI_CHOOSER_H
#define LAPWING_TUI_CHOOSER_H

#include "base/vec.h"
#include "tui/cells.h"

enum { LW_JOB_TEXT_BYTES = 256, LW_JOB_PATH_BYTES = 4096 };

struct lw_job { /* that is being recorded on this host */
	char dir[LW_JOB_TEXT_BYTES], path[LW_JOB_PATH_BYTES]; /* ring directory, run file */
	char command[LW_JOB_TEXT_BYTES];                      /* "" = not known yet */
	int64_t pid;        /* of its first process; 0 = none yet */
	int64_t started_ns; /* CLOCK_REALTIME */
	int n_ranks;        /* seen so far */
	int size;           /* of the job; 0 = not known yet */
};

struct lw_chooser {
	lw_vec(struct lw_job) jobs;
	size_t at;
	int chosen; /* index into jobs, -1: none yet */
};

/** lw_job_read() - fill in what @job->path says of it. Return: LW_OK or the first error. */
int lw_job_read(struct lw_job *job);

void lw_chooser_draw(const struct lw_chooser *chooser, struct lw_pane pane);

/** lw_chooser_key() - @y: line of a click. Return: it is over; see chosen. */
bool lw_chooser_key(struct lw_chooser *chooser, uint32_t key, int y);

#endif /* LAPWING_TUI_CHOOSER_H */
