/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leisure.h - who works on a run file only because nobody else does makes way for whoever opens it to write.
 *
 * The two meet at a socket that is named after the file, on this host: it vanishes with its process, leaves
 * nothing on the disk, and is no lock that could collide with SQLite's. Where they do not meet (containers with
 * networks of their own, two hosts) SQLite's locks still decide who writes.
 */
#ifndef LAPWING_SCHEMA_LEISURE_H
#define LAPWING_SCHEMA_LEISURE_H

#include <stdbool.h>

/**
 * lw_leisure_begin() - from here on this process is ended, by SIGIO, when another wants to write @path.
 * What it has not committed then is undone. For processes that do nothing else.
 * Return: LW_OK; LW_ERR_STATE: another is at it at leisure; LW_ERR_IO.
 */
int lw_leisure_begin(const char *path);

/** lw_leisure_is_busy() - some process works on @path at leisure. */
bool lw_leisure_is_busy(const char *path);

/** lw_leisure_interrupt() - end whoever works on @path at leisure, but this process; at most seconds. */
void lw_leisure_interrupt(const char *path);

#endif /* LAPWING_SCHEMA_LEISURE_H */
