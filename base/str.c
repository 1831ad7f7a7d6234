/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

static int append(char *path, size_t path_bytes, size_t *n, const char *text)
{
	size_t length = strlen(text);

	if (*n + length >= path_bytes)
		return lw_fail(LW_ERR_LIMIT, "output name longer than %zu bytes", path_bytes - 1);
	memcpy(path + *n, text, length + 1);
	*n += length;
	return LW_OK;
}

/* %q{NAME}: @at stands on 'q'. @ret_end: the closing brace. */
static int environment(const char *at, const char **ret_end, const char **ret_text)
{
	char name[128];
	const char *end = at[1] == '{' ? strchr(at, '}') : NULL;
	size_t length = end ? (size_t)(end - at - 2) : 0;

	if (!end || !length || length >= sizeof(name))
		return lw_fail(LW_ERR_USAGE, "output name: write %%q{NAME}");
	memcpy(name, at + 2, length);
	name[length] = '\0';
	*ret_text = getenv(name);
	if (!*ret_text)
		return lw_fail(
			LW_ERR_USAGE, "output name: environment variable %s is not set", name);
	*ret_end = end;
	return LW_OK;
}

int lw_path_expand(const char *pattern, int rank, char *path, size_t path_bytes)
{
	size_t n = 0;

	if (!path_bytes)
		return lw_fail(LW_ERR_LIMIT, "output name: no room");
	path[0] = '\0';
	for (const char *at = pattern; *at; at++) {
		char text[256] = {*at, '\0'};
		const char *value = text;
		int status = LW_OK;

		if (*at == '%') {
			at++;
			switch (*at) {
			case '%':
				break;
			case 'h':
				if (gethostname(text, sizeof(text)) < 0)
					strcpy(text, "localhost");
				text[sizeof(text) - 1] = '\0';
				break;
			case 'p':
				snprintf(text, sizeof(text), "%d", (int)getpid());
				break;
			case 'r':
				if (rank < 0)
					return lw_fail(LW_ERR_USAGE,
						"output name: %%r, but no launcher has set a rank here (start lapwing under mpirun, horovodrun or torchrun)");
				snprintf(text, sizeof(text), "%d", rank);
				break;
			case 'q':
				status = environment(at, &at, &value);
				break;
			default:
				return lw_fail(LW_ERR_USAGE,
					"output name: unknown escape %%%c (known: %%h %%p %%r %%q{NAME} %%%%)",
					*at ? *at : ' ');
			}
		}
		if (status == LW_OK)
			status = append(path, path_bytes, &n, value);
		if (status < 0)
			return status;
	}
	return LW_OK;
}

char *lw_str_mask_digits(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		bool is_digit = *from >= '0' && *from <= '9';

		if (!is_digit)
			*to++ = *from;
		else if (to == text || to[-1] != '#')
			*to++ = '#';
	}
	*to = '\0';
	return text;
}
