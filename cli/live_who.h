/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_who.h - who collects a ring directory, and whether the recorder that started it still lives.
 *
 * The collector holds a lock on DIR/lock; the kernel says which process that is.
 */
#ifndef LAPWING_CLI_LIVE_WHO_H
#define LAPWING_CLI_LIVE_WHO_H

#include "tui/live.h"

/** lw_live_who_collects() - Return: *@ret; collector_pid 0: nobody, or the kernel does not say. */
struct lw_live_who *lw_live_who_collects(const char *dir, struct lw_live_who *ret);

#endif /* LAPWING_CLI_LIVE_WHO_H */
