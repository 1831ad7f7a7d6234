/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_text.h - what /proc and the control groups say of cores and CPU time, from their text.
 *
 * Text only, no files: what cannot be read is "not known", never a guess. The text may be cut short
 * anywhere, and a process may have any name.
 */
#ifndef LAPWING_COLLECTOR_CPU_TEXT_H
#define LAPWING_COLLECTOR_CPU_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** lw_cpu_parse_stat() - of /proc/PID/stat: ticks in user and system mode. Return: the text has both. */
bool lw_cpu_parse_stat(const char *text, uint64_t *ret_user_ticks, uint64_t *ret_system_ticks);

/** lw_cpu_parse_schedstat() - of /proc/PID/schedstat: ns ready to run without a core. Return: -1 = not known. */
int64_t lw_cpu_parse_schedstat(const char *text);

/** lw_cpu_parse_number() - of /proc/PID/status: the number behind @key ("\nThreads:"). Return: -1 = none. */
int64_t lw_cpu_parse_number(const char *text, const char *key);

/** lw_cpu_parse_allowed() - of /proc/PID/status: the list of allowed CPUs, in @list. Return: how many, 0 = not known. */
int lw_cpu_parse_allowed(const char *text, char *list, size_t list_bytes);

/** lw_cpu_parse_max() - of cpu.max: "200000 100000" is 2 cores. Return: 0 = no limit. */
double lw_cpu_parse_max(const char *text);

/** lw_cpu_parse_group() - the path in a line of /proc/PID/cgroup whose controllers hold @controller, "" = version 2.
 * Return: it is in @text, whole and without "..". */
bool lw_cpu_parse_group(const char *text, const char *controller, char *path, size_t path_bytes);

#endif /* LAPWING_COLLECTOR_CPU_TEXT_H */
