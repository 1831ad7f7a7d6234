/* SPDX-License-Identifier: Apache-2.0 */
/* cmd.c - errors and options, the same way for every verb. */
#include "cli/cmd.h"

#include <stdarg.h>
#include <stdio.h>

int lw_cli_fail(int status)
{
	lw_cli_say("%s", lw_error_text());
	return status == LW_ERR_USAGE ? LW_EXIT_USAGE : LW_EXIT_FAILED;
}

void lw_cli_say(const char *format, ...)
{
	char line[2048]; /* one write: lines of several ranks must not mix */
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "lapwing: %s\n", line);
}

void lw_cli_parse(const struct argp *argp, int argc, char **argv, unsigned int flags, void *input)
{
	char name[64];

	/* argp prints argv[0] in front of usage lines, and exits with argp_err_exit_status */
	snprintf(name, sizeof(name), "lapwing %s", argv[0]);
	argv[0] = name;
	argp_err_exit_status = LW_EXIT_USAGE;
	argp_parse(argp, argc, argv, flags, NULL, input);
}
