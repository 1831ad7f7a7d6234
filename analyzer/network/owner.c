/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c - whose a device is, in words: every container has an eth0. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/run.h"

enum { MAX_RANKS = 3 };

__attribute__((format(printf, 3, 4))) static void append(
	char text[LW_OWNER_TEXT_BYTES], size_t *n, const char *format, ...)
{
	va_list arguments;
	int added;

	va_start(arguments, format);
	added = vsnprintf(text + *n, LW_OWNER_TEXT_BYTES - *n, format, arguments);
	va_end(arguments);
	*n += added > 0 ? (size_t)added : 0;
	if (*n >= LW_OWNER_TEXT_BYTES)
		*n = LW_OWNER_TEXT_BYTES - 1;
}

/* The first that it did not make up itself. */
static int address_of(const struct lw_nic *nic, const char **ret_address)
{
	for (const char *at = nic->addresses; *at;) {
		int n = (int)strcspn(at, " ");

		if (n && strncmp(at, "fe80:", 5) != 0) {
			*ret_address = at;
			return n;
		}
		at += n + (at[n] == ' ');
	}
	return 0;
}

const char *lw_nic_owner_text(
	const struct lw_run *run, const struct lw_nic *nic, char text[LW_OWNER_TEXT_BYTES])
{
	const struct lw_nic *shown = &run->nics.at[nic->same_as];
	const char *address = "";
	int n_address = address_of(nic, &address);
	size_t n = 0, n_ranks = shown->ranks.n;

	text[0] = '\0';
	append(text, &n, "%s", n_ranks ? n_ranks > 1 ? "ranks" : "rank" : "no rank");
	for (size_t i = 0; i < n_ranks && i < MAX_RANKS; i++)
		append(text, &n, "%s %d", i ? "," : "", run->ranks.at[shown->ranks.at[i]].rank);
	if (n_ranks > MAX_RANKS)
		append(text, &n, " and %zu more", n_ranks - MAX_RANKS);
	if (n_address)
		append(text, &n, ", %.*s", n_address, address);
	if (*nic->host)
		append(text, &n, " on %.64s", nic->host);
	return text;
}
