/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_analyze.c - `lapwing analyze RUN`: what `record` does at the end, for the collector of a job that was started
 * with the variables alone. Not listed: whoever opens a run analyses it anyway.
 */
#include "cli/cmd.h"
#include "cli/finish.h"

static error_t parse(int key, char *argument, struct argp_state *state)
{
	const char **path = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (*path)
			argp_error(state, "one run at a time");
		*path = argument;
		return 0;
	case ARGP_KEY_END:
		if (!*path)
			argp_error(state, "which run file?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int lw_cmd_analyze(int argc, char **argv)
{
	static const struct argp argp = {NULL, parse, "RUN",
		"Stores the analysis of a run in its file, at low priority, unless the file holds only some of the"
		" job's ranks. Ends as soon as somebody else opens the run.",
		NULL, NULL, NULL};
	const char *path = NULL;

	lw_cli_parse(&argp, argc, argv, 0, &path);
	return lw_finish_here(path, 19); /* nobody waits */
}
