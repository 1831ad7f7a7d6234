/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leave.h - end at once, in the middle of an analysis that a thread is at, and leave the run as one file.
 *
 * The process becomes another program, `lapwing settle`: its threads are no more, their locks are free, what they
 * had not committed is undone, and what an interrupted analysis had left beside the file goes.
 */
#ifndef LAPWING_CLI_LEAVE_H
#define LAPWING_CLI_LEAVE_H

#include <stddef.h>

enum { LW_LEAVE_CODE_OF_RUN = -1 }; /* LW_EXIT_INCOMPLETE if the files say so of themselves */

/** lw_leave_now() - @paths: runs that are written, none: @n_paths is 0. @signal: end by it; 0: with exit code @code. */
_Noreturn void lw_leave_now(const char *const *paths, size_t n_paths, int signal, int code);

#endif /* LAPWING_CLI_LEAVE_H */
