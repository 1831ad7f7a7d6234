/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h - status codes and the text of what went wrong.
 *
 * Functions that can fail return LW_OK (0) or a negative enum lw_status. Whoever detects an error
 * describes it once with lw_fail(); callers pass the code on, and may add where they were with
 * lw_cause(). Library code never prints: programs print lw_error_text() as one line.
 */
#ifndef LAPWING_BASE_ERR_H
#define LAPWING_BASE_ERR_H

enum lw_status {
	LW_OK = 0,
	LW_ERR_IO = -1,          /* the system refused: file, disk, permission */
	LW_ERR_FORMAT = -2,      /* the input is not what it should be */
	LW_ERR_NOMEM = -3,       /* no memory */
	LW_ERR_LIMIT = -4,       /* too few or too many, out of range */
	LW_ERR_STATE = -5,       /* not possible now */
	LW_ERR_UNSUPPORTED = -6, /* understood, but not available here */
	LW_ERR_USAGE = -7,       /* the user asked for something that makes no sense */
	LW_ERR_BUSY = -8,        /* another program has it right now: later it may work */
};

/* Exit codes of every program (docs: "exit codes"). `record` returns the child's own instead. */
enum lw_exit {
	LW_EXIT_OK = 0,
	LW_EXIT_FAILED = 1,
	LW_EXIT_USAGE = 2,
	LW_EXIT_INCOMPLETE = 3, /* done, but data was lost or missing */
};

/** lw_fail() - start a new error: replaces this thread's text. Return: @status. */
int lw_fail(enum lw_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** lw_cause() - put "where" in front of this thread's text ("where: text"). Return: @status. */
int lw_cause(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** lw_error_text() - this thread's text, "" when none. Owned by the thread, valid to the next error. */
const char *lw_error_text(void);

/** lw_error_clear() - forget this thread's text. */
void lw_error_clear(void);

#endif /* LAPWING_BASE_ERR_H */
