/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apart.h - threads beside the one that owns the terminal.
 *
 * Signals that ask for something are the terminal's; those of a crash stay with whoever crashes, and are handled on a
 * stack of their own: it may be the stack that ran out. screen.c then gives the terminal back.
 */
#ifndef LAPWING_TUI_APART_H
#define LAPWING_TUI_APART_H

#include <pthread.h>

/** lw_apart_begin() - @work(@context) in a thread; @what it is for, for the error. Return: LW_OK, LW_ERR_IO, LW_ERR_NOMEM. */
int lw_apart_begin(
	pthread_t *ret_thread, void *(*work)(void *context), void *context, const char *what);

/** lw_apart_crash_stack() - for the thread that calls: once, lives as long as it. No memory: goes without. */
void lw_apart_crash_stack(void);

#endif /* LAPWING_TUI_APART_H */
