/* SPDX-License-Identifier: Apache-2.0 */
/* cpulist.h - lists of CPUs as the kernel writes them, "0-3,8", and sets of them. */
#ifndef LAPWING_BASE_CPULIST_H
#define LAPWING_BASE_CPULIST_H

#include <stdint.h>

enum { LW_CPUS_MAX = 8192 }; /* the most that Linux is built for */

struct lw_cpuset {
	uint64_t bits[LW_CPUS_MAX / 64];
};

/** lw_cpulist_add() - add the CPUs of @text to @set, which may be NULL. Return: how many @text names; 0 = it is no such list. */
int lw_cpulist_add(const char *text, struct lw_cpuset *set);

int lw_cpuset_count(const struct lw_cpuset *set);

#endif /* LAPWING_BASE_CPULIST_H */
