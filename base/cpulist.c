/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpulist.h"

#include <stdbool.h>
#include <stddef.h>

/* Digits, as the kernel writes them: no sign, no blanks. Return: a CPU's number is there. */
static bool read_cpu(const char **at, int *ret_cpu)
{
	int cpu = 0;

	if (**at < '0' || **at > '9')
		return false;
	for (; **at >= '0' && **at <= '9'; (*at)++) {
		cpu = 10 * cpu + (**at - '0');
		if (cpu >= LW_CPUS_MAX)
			return false;
	}
	*ret_cpu = cpu;
	return true;
}

/* Return: how many CPUs, 0 = no list. The kernel sorts them, so none comes twice. */
static int walk(const char *text, struct lw_cpuset *set)
{
	int first, last, next = 0, n = 0;

	do {
		if (!read_cpu(&text, &first))
			return 0;
		last = first;
		if (*text == '-') {
			text++;
			if (!read_cpu(&text, &last))
				return 0;
		}
		if (first < next || last < first)
			return 0;
		for (int cpu = first; cpu <= last && set; cpu++)
			set->bits[cpu / 64] |= UINT64_C(1) << (cpu % 64);
		n += last - first + 1;
		next = last + 1;
	} while (*text++ == ',');
	return text[-1] == '\0' || text[-1] == '\n' ? n : 0;
}

int lw_cpulist_add(const char *text, struct lw_cpuset *set)
{
	int n = walk(text, NULL); /* half a list adds nothing */

	return n > 0 && set ? walk(text, set) : n;
}

int lw_cpuset_count(const struct lw_cpuset *set)
{
	int n = 0;

	for (size_t i = 0; i < sizeof(set->bits) / sizeof(set->bits[0]); i++)
		n += __builtin_popcountll(set->bits[i]);
	return n;
}
