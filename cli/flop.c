/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/flop.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int lw_flop_parse(const char *text, double *ret_flop)
{
	static const char prefixes[] = "kMGTPE";
	char *end;
	double flop = strtod(text, &end);
	const char *prefix = *end ? strchr(prefixes, *end) : NULL;

	if (end != text && prefix) {
		flop *= pow(1000, (double)(prefix - prefixes + 1));
		end++;
	}
	if (end == text || *end || !(flop > 0) || !isfinite(flop))
		return lw_fail(
			LW_ERR_USAGE, "%s: no number of operations, such as 4.1e9 or 312T", text);
	*ret_flop = flop;
	return LW_OK;
}

/* The last word of @line, which is cut behind it; NULL: it has none. */
static const char *last_word(char *line)
{
	static const char spaces[] = " \t,";
	size_t end = strcspn(line, "#\r\n"), start;

	while (end && strchr(spaces, line[end - 1]))
		end--;
	start = end;
	while (start && !strchr(spaces, line[start - 1]))
		start--;
	line[end] = '\0';
	return start < end ? line + start : NULL;
}

int lw_flop_read(const char *text, double *ret_flop)
{
	FILE *file;
	char line[1024];
	int n = 0, status = LW_OK;

	*ret_flop = 0;
	if (lw_flop_parse(text, ret_flop) == LW_OK)
		return LW_OK;
	file = fopen(text, "r");
	if (!file)
		return lw_fail(LW_ERR_USAGE,
			"%s: neither a number of operations, such as 4.1e9, nor a file of them",
			text);
	lw_error_clear();
	while (status == LW_OK && fgets(line, sizeof(line), file)) {
		const char *word = last_word(line);
		double flop;

		n++;
		if (!word)
			continue;
		status = lw_flop_parse(word, &flop);
		if (status < 0)
			status = lw_fail(LW_ERR_FORMAT,
				"%s: line %d ends in no number of operations", text, n);
		else
			*ret_flop += flop;
	}
	fclose(file);
	if (status == LW_OK && !(*ret_flop > 0))
		status = lw_fail(LW_ERR_FORMAT, "%s: no operations in it", text);
	return status;
}
