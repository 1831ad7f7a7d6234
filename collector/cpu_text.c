/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/cpu_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpulist.h"

/* A number without sign or blanks before it. Return: it is there and fits. */
static bool read_number(const char **at, uint64_t *ret_value)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	errno = 0;
	*ret_value = strtoull(*at, &end, 10);
	*at = end;
	return errno == 0;
}

bool lw_cpu_parse_stat(const char *text, uint64_t *ret_user_ticks, uint64_t *ret_system_ticks)
{
	/* The command in parentheses may hold anything, parentheses too; utime is field 14. */
	const char *at = strrchr(text, ')');

	for (int field = 2; at && field < 14; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return false;
	at++;
	if (!read_number(&at, ret_user_ticks) || *at++ != ' ')
		return false;
	return read_number(&at, ret_system_ticks) && *at == ' ';
}

int64_t lw_cpu_parse_schedstat(const char *text)
{
	uint64_t ran_ns, waited_ns;

	if (!read_number(&text, &ran_ns) || *text++ != ' ' || !read_number(&text, &waited_ns) ||
		*text != ' ' || waited_ns > INT64_MAX)
		return -1;
	/* all zero: compiled in, but switched off */
	return ran_ns || waited_ns ? (int64_t)waited_ns : -1;
}

int64_t lw_cpu_parse_number(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t value;

	if (!at)
		return -1;
	at += strlen(key);
	at += strspn(at, " \t");
	return read_number(&at, &value) && *at == '\n' && value <= INT64_MAX ? (int64_t)value : -1;
}

int lw_cpu_parse_allowed(const char *text, char *list, size_t list_bytes)
{
	static const char key[] = "\nCpus_allowed_list:";
	const char *at = strstr(text, key);
	size_t n;

	if (!at)
		return 0;
	at += strlen(key);
	at += strspn(at, " \t");
	n = strcspn(at, "\n");
	if (at[n] != '\n' || n >= list_bytes)
		return 0;
	memcpy(list, at, n);
	list[n] = '\0';
	return lw_cpulist_add(list, NULL);
}

double lw_cpu_parse_max(const char *text)
{
	uint64_t quota, period;

	/* "max", and version 1's "-1": no limit */
	if (!read_number(&text, &quota) || *text++ != ' ' || !read_number(&text, &period))
		return 0;
	if (quota == 0 || period == 0 || quota / period >= LW_CPUS_MAX)
		return 0;
	return (double)quota / (double)period;
}

static bool has_controller(const char *list, size_t n, const char *controller)
{
	size_t n_wanted = strlen(controller), n_word;

	for (; n > 0; list += n_word + 1, n -= n_word + 1) {
		n_word = 0;
		while (n_word < n && list[n_word] != ',')
			n_word++;
		if (n_word == n_wanted && !memcmp(list, controller, n_word))
			return true;
		if (n_word == n)
			return false;
	}
	return n_wanted == 0;
}

bool lw_cpu_parse_group(const char *text, const char *controller, char *path, size_t path_bytes)
{
	while (*text) {
		size_t n_line = strcspn(text, "\n");
		const char *first = memchr(text, ':', n_line), *second = NULL;

		if (first)
			second = memchr(first + 1, ':', n_line - (size_t)(first + 1 - text));
		if (second && text[n_line] == '\n' &&
			has_controller(first + 1, (size_t)(second - first - 1), controller)) {
			size_t n = n_line - (size_t)(second + 1 - text);

			if (n == 0 || second[1] != '/' || n >= path_bytes)
				return false;
			memcpy(path, second + 1, n);
			path[n] = '\0';
			return !strstr(path, "/..");
		}
		text += n_line + (text[n_line] == '\n');
	}
	return false;
}
