/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[1024];

int lw_fail(enum lw_status status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error_text, sizeof(error_text), format, args);
	va_end(args);
	return status;
}

int lw_cause(int status, const char *format, ...)
{
	char where[512], old[sizeof(error_text)];
	va_list args;

	va_start(args, format);
	vsnprintf(where, sizeof(where), format, args);
	va_end(args);
	memcpy(old, error_text, sizeof(old));
	/* A chain longer than the buffer loses its innermost end, never its terminator. */
	if (snprintf(error_text, sizeof(error_text), "%s: %s", where, old) < 0)
		error_text[0] = '\0';
	return status;
}

const char *lw_error_text(void)
{
	return error_text;
}

void lw_error_clear(void)
{
	error_text[0] = '\0';
}
