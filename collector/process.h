/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - does a traced process still live? Told apart from a later one with the same pid. */
#ifndef LAPWING_COLLECTOR_PROCESS_H
#define LAPWING_COLLECTOR_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** lw_process_start_ticks() - field 22 of /proc/PID/stat. Return: ticks since boot, -1 = no such process. */
int64_t lw_process_start_ticks(pid_t pid);

/**
 * lw_process_is_alive() - is @pid still the process that started at @start_ticks (0 = not known)?
 * A zombie counts as gone.
 */
bool lw_process_is_alive(pid_t pid, int64_t start_ticks);

/** lw_thread_is_alive() - is @tid still a thread of @pid? */
bool lw_thread_is_alive(pid_t pid, pid_t tid);

/**
 * lw_process_watch() - a descriptor that becomes readable when the process ends.
 * Return: descriptor; -1 when the process is gone or the kernel cannot watch (ask is_alive then).
 */
int lw_process_watch(pid_t pid, int64_t start_ticks);

#endif /* LAPWING_COLLECTOR_PROCESS_H */
