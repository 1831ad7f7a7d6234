/* SPDX-License-Identifier: Apache-2.0 */
/* cmd.c - errors and options, the same way for every verb. */
#include "cli/cmd.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analyzer/run.h"

int lw_cli_fail(int status)
{
	lw_cli_say("%s", lw_error_text());
	return status == LW_ERR_USAGE ? LW_EXIT_USAGE : LW_EXIT_FAILED;
}

int lw_cli_run_exit(const struct lw_run *run)
{
	/* a timeline is one rank's view: of it nothing is missing */
	bool is_missing = run->n_missing_ranks && !run->is_import;
	bool is_incomplete = run->n_lost || run->n_unread || is_missing || run->n_duplicate_ranks ||
			     !run->is_closed;

	for (size_t r = 0; r < run->ranks.n; r++)
		is_incomplete |= run->ranks.at[r].died;
	return is_incomplete ? LW_EXIT_INCOMPLETE : LW_EXIT_OK;
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

static struct sigaction called; /* what there was for SIGCHLD */

void lw_cli_expect_children(void)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};

	sigaction(SIGCHLD, &usual, &called);
}

void lw_cli_as_called(void)
{
	sigaction(SIGCHLD, &called, NULL);
}

void lw_cli_stage(const char *stage)
{
	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, stage ? "\r\033[K%s ..." : "\r\033[K", stage);
	fflush(stderr);
}

enum { KEY_SCHEMA = 0x1000 }; /* clear of the keys of verbs */

static error_t parse_json(int key, char *argument, struct argp_state *state)
{
	struct lw_cli_json *json = state->input;

	(void)argument;
	switch (key) {
	case 'j':
		json->is_wanted = true;
		return 0;
	case KEY_SCHEMA:
		fputs(json->schema, stdout);
		exit(LW_EXIT_OK);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_runs(int key, char *argument, struct argp_state *state)
{
	struct lw_cli_runs *runs = state->input;

	(void)argument;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &runs->json;
		return 0;
	case ARGP_KEY_ARGS:
		runs->paths = (const char *const *)state->argv + state->next;
		runs->n_paths = (size_t)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which run file?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option json_options[] = {{"json", 'j', NULL, 0, "print JSON", 0},
	{"json-schema", KEY_SCHEMA, NULL, 0, "print the JSON Schema of --json and end", 0}, {0}};
static const struct argp_child runs_children[] = {{&lw_cli_json_argp, 0, NULL, 0}, {0}};

const struct argp lw_cli_json_argp = {json_options, parse_json, NULL, NULL, NULL, NULL, NULL};
const struct argp lw_cli_runs_argp = {NULL, parse_runs, "RUN...", NULL, runs_children, NULL, NULL};

void lw_cli_parse(const struct argp *argp, int argc, char **argv, unsigned int flags, void *input)
{
	char name[64];

	/* argp prints argv[0] in front of usage lines, and exits with argp_err_exit_status */
	snprintf(name, sizeof(name), "lapwing %s", argv[0]);
	argv[0] = name;
	argp_err_exit_status = LW_EXIT_USAGE;
	argp_parse(argp, argc, argv, flags, NULL, input);
}

void lw_cli_size(const char *text, struct argp_state *state, int *ret_width, int *ret_height)
{
	char end;

	if (sscanf(text, "%dx%d%c", ret_width, ret_height, &end) != 2 || *ret_width < 1 ||
		*ret_height < 1 || *ret_width > 1000 || *ret_height > 1000)
		argp_error(state, "--size %s: columns x lines are wanted, as 120x40", text);
}
