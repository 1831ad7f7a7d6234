/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chooser.h - several jobs run on this host: which one is to be followed?
 *
 * Reads: the run file of each job, once a second.   Writes: nothing. Whoever opens it finds the jobs; the program's
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
	int64_t started_ns; /* CLOCK_REALTIME; 0 = not known yet */
	int n_ranks;        /* seen so far */
	int size;           /* of the job; 0 = not known yet */
	int rank;           /* the lowest one seen; -1 = none yet */
	bool has_ended;     /* it was being recorded, and is no more */
	/* A job may be recorded into a file a rank: which of the list is the first of this one's */
	size_t leader;
};
typedef lw_vec(struct lw_job) lw_job_list;

/* Of a job: all its files, in one line of the list. */
struct lw_job_files {
	size_t n, n_ended;
	int n_ranks;
	size_t followed; /* the one that can be: of the lowest rank that runs */
	char pattern
		[LW_JOB_PATH_BYTES]; /* for a shell, if they are more than one: "/a/run-*.lapwing" */
};

struct lw_chooser {
	lw_job_list jobs; /* run files; those of one job are one line */
	size_t at;        /* the first file of the job that the cursor is on */
	size_t top;       /* first line on the screen, in jobs */
	int chosen;       /* index into jobs, -1: none yet */
	bool is_help;
	char message[LW_JOB_TEXT_BYTES]; /* until the next key */
	int64_t now_ns, looked_ns;       /* CLOCK_REALTIME: that ages are as of; of the last look */
	/* What is being recorded now, into an empty list. NULL: nobody looks again */
	int (*find)(void *context, lw_job_list *ret_jobs);
	/* Follow that one; what is wrong with it is shown, and another may be chosen. NULL: whoever asked does it */
	int (*open)(void *context, const struct lw_job *job);
	void *context;
};

/** lw_job_read() - fill in what @job->path says of it. Return: LW_OK or the first error. */
int lw_job_read(struct lw_job *job);

/** lw_chooser_take() - what is being recorded now: others have ended, what is new comes last. Return: LW_OK, LW_ERR_NOMEM. */
int lw_chooser_take(struct lw_chooser *chooser, const lw_job_list *jobs);

/** lw_chooser_tick() - look again, once a second. Return: draw. */
bool lw_chooser_tick(struct lw_chooser *chooser);

/** lw_chooser_n_jobs() - lines of the list. */
size_t lw_chooser_n_jobs(const struct lw_chooser *chooser);

/** lw_chooser_files() - of the job that file @i is of. Return: *@ret. */
struct lw_job_files *lw_chooser_files(
	const struct lw_chooser *chooser, size_t i, struct lw_job_files *ret);

void lw_chooser_draw(struct lw_chooser *chooser, struct lw_pane pane);

/** lw_chooser_key() - @y: line of a click. Return: it is over; see chosen. */
bool lw_chooser_key(struct lw_chooser *chooser, uint32_t key, int y, int height);

#endif /* LAPWING_TUI_CHOOSER_H */
