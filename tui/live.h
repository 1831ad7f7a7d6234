/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - a job that still runs: followed from its growing run file, until it is a run like others.
 *
 * Reads: the run file (live_rows.h), and asks whoever opened it how the collector is.   Writes: snapshots.
 * The program's ticks drive it: five times a second it looks for new rows; the whole analysis of data.h is
 * repeated, read only, so rarely that it costs less than 1 % of a core.
 *
 *	live.c       looking at rows, the collector, the analysis so far
 *	live_end.c   the run is closed: wait until it is one file, analyse it as `lapwing tui` does, and, once the user
 *	             lets go of a held picture, app->live becomes NULL and app->past is what the marks are in
 */
#ifndef LAPWING_TUI_LIVE_H
#define LAPWING_TUI_LIVE_H

#include "tui/app.h"
#include "tui/live_rows.h"

enum lw_live_collector {
	LW_LIVE_AT_WORK,
	LW_LIVE_LEFT, /* the ring directory is there, nobody collects it */
	LW_LIVE_GONE, /* no ring directory any more: all was stored */
};

enum {
	LW_LIVE_NOTE_BYTES = 240,
	LW_LIVE_AGE_BYTES = 48,
	LW_LIVE_END_BYTES = 64,
	LW_LIVE_MAX_MARKS = 99,
	LW_LIVE_FIRST_STEPS = 5
};

struct lw_live_who {
	int64_t collector_pid; /* 0 = not known */
	bool has_recorder; /* `lapwing record` or live started it and still lives, or that is not known */
};

struct lw_live_options {
	const char *path, *dir; /* run file, ring directory; borrowed */
	const char *log;        /* where the command's output goes; NULL: elsewhere */
	const char *
		pattern; /* of the files that the job's ranks have each for itself; NULL: this one is all */
	size_t n_files;    /* that it means */
	int64_t window_ns; /* that figures are over */
	/* How is the collector? NULL: at work until the run is closed. */
	enum lw_live_collector (*ask)(void *context);
	/* Who collects, asked while somebody does. May be NULL */
	void (*who)(void *context, struct lw_live_who *ret_who);
	/* CLOCK_MONOTONIC; NULL: the real one */
	int64_t (*clock_ns)(void *context);
	void *context;
};

struct lw_live_mark {
	int64_t at_ns;
};

struct lw_live_note { /* something happened */
	int64_t at_ns;
	bool is_bad;
	const char *label; /* of a fact, which has no time; static */
	char text[LW_LIVE_NOTE_BYTES];
};

struct lw_live {
	struct lw_live_options options;
	struct lw_live_model model;
	struct lw_live_rows rows;
	char command[256];
	int64_t now_ns, looked_ns, asked_ns, opened_ns;
	int64_t left_ns;    /* since then nobody collects; 0 = somebody does */
	int64_t closing_ns; /* since then the run is closed, and being sealed; 0 = not */
	int64_t reading_ns; /* since then it is analysed as a whole; 0 = not */
	int64_t retry_ns;   /* another program held the file: not before then */
	int n_retries;
	bool is_over;  /* nothing more will come */
	bool is_whole; /* the analysis of the whole run is there, or the word why not */
	bool is_left_told, was_left, is_partial_told;
	int64_t collector_pid;      /* as it was asked last; 0 = not known */
	bool has_lost_its_recorder; /* while the job ran, and a note tells of it */
	bool is_recorded;           /* by `lapwing record`, which knows how the command ended */
	bool is_unsealed;           /* the collector died while it closed the run file */
	int n_died;
	char first_died[LW_LIVE_NAME_BYTES];
	lw_vec(uint8_t)
		told; /* by rank of the model: its enum lw_live_ended that a note tells of */
	lw_vec(struct lw_live_note) notes;
	lw_vec(struct lw_live_note) facts; /* that are so all the time */
	lw_vec(struct lw_live_mark) marks;
	size_t next_mark; /* that lw_live_go_to_mark() goes to */
	/* the picture */
	bool is_paused;
	struct lw_live_model
		held; /* a copy: what is late in coming does not change a held picture */
	int64_t held_ns, held_now_ns, back_ns; /* the window ends at held_ns - back_ns */
	int first_row;
	/* the analysis in the background */
	bool is_analysing;
	int64_t analysis_began_ns, analysis_ended_ns, analysis_took_ns;
	int64_t shown_ns; /* when the analysis that is shown read its rows; 0 = none is */
	uint64_t n_analysed, n_analysed_steps; /* rows and steps that the newest one had */
	struct lw_live_snapshot *snapshot;     /* being written; NULL: none */
};

/** lw_live_open() - Return: LW_OK or the first error. Free with lw_live_close(). */
int lw_live_open(const struct lw_live_options *options, struct lw_live **ret_live);
void lw_live_close(struct lw_live *live);

/** lw_live_look() - read what is new at @now_ns. Return: 1 there was something, 0, < 0 an error. */
int lw_live_look(struct lw_live *live, int64_t now_ns);

/** lw_live_hold() - hold the picture as it is, or (@is_on: false) go on. Return: LW_OK, LW_ERR_NOMEM. */
int lw_live_hold(struct lw_live *live, bool is_on);

/** lw_live_to_ns() - where the window on the screen ends. */
int64_t lw_live_to_ns(const struct lw_live *live);

/** lw_live_n_steps() - of the rank that has most, since the screen looks. */
uint64_t lw_live_n_steps(const struct lw_live *live);

/** lw_live_tick() - time has passed. Sets app->live to NULL when the job is over. Return: draw. */
bool lw_live_tick(struct lw_app *app);

int64_t lw_live_clock_ns(const struct lw_live *live);
void lw_live_note(struct lw_live *live, bool is_bad, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** lw_live_fact() - something that is so all the time, under a @label of at most 7 characters, which has to stay. */
void lw_live_fact(struct lw_live *live, const char *label, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** lw_live_age() - for status lines: how old the analysis is that views show. Return: @text, "" = not old. */
const char *lw_live_age(const struct lw_live *live, char text[LW_LIVE_AGE_BYTES]);

/* ---- live_end.c ---- */

/** lw_live_finish() - a tick, once the run is closed. Return: draw. */
bool lw_live_finish(struct lw_app *app);

/** lw_live_let_go() - of the picture: the whole run is shown, from where the user was in time. */
void lw_live_let_go(struct lw_app *app);

/** lw_live_go_to_mark() - after the job: select the step of the next mark, and show it. */
void lw_live_go_to_mark(struct lw_app *app);

/** lw_live_end_text() - what happens now that the job has ended. Return: @text. */
const char *lw_live_end_text(const struct lw_live *live, char text[LW_LIVE_END_BYTES]);

/* ---- live_snapshot.c: what is known so far, as a run file, written by a thread ---- */

enum { LW_LIVE_PATH_BYTES = 64 };

/** lw_live_snapshot_begin() - here, with a name that nothing has. Return: LW_OK; LW_ERR_STATE: one is being written. */
int lw_live_snapshot_begin(struct lw_live *live);

/** lw_live_snapshot_poll() - says how far it is, and how it ended. Return: draw. */
bool lw_live_snapshot_poll(struct lw_app *app);

/** lw_live_snapshot_wait() - Return: LW_OK or its error; LW_OK too when none is being written. */
int lw_live_snapshot_wait(struct lw_live *live, char path[LW_LIVE_PATH_BYTES]);

/** lw_live_snapshot_drop() - one that is being written is no more wanted, and leaves no file. NULL is allowed. */
void lw_live_snapshot_drop(struct lw_live *live);

/** lw_live_draw() - view_live.c: the overview while the job runs. */
void lw_live_draw(struct lw_app *app, struct lw_pane pane);

/** lw_live_request() - pause, move, mark, snapshot. Return: understood. */
bool lw_live_request(struct lw_app *app, const struct lw_input *input);

/** lw_live_keys() - what lw_live_request() understands while the job's overview is shown. */
const struct lw_key_set *lw_live_keys(const struct lw_live *live);

#endif /* LAPWING_TUI_LIVE_H */
