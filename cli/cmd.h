/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd.h - what every verb of the lapwing program shares.
 *
 * A verb is one file cli/cmd_<verb>.c and one row in main.c's table. It reads its options with argp,
 * prints results on stdout and one line per error on stderr, and returns an enum lw_exit.
 */
#ifndef LAPWING_CLI_CMD_H
#define LAPWING_CLI_CMD_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct lw_command {
	const char *name;
	const char *summary;               /* one line of `lapwing --help`; NULL: not listed */
	int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit code */
};

/** lw_cli_fail() - print "lapwing: <lw_error_text()>" on stderr. Return: the exit code of @status. */
int lw_cli_fail(int status);

/** lw_cli_run_exit() - LW_EXIT_OK, or LW_EXIT_INCOMPLETE when the run lost or misses something. */
struct lw_run;
int lw_cli_run_exit(const struct lw_run *run);

/** lw_cli_say() - print "lapwing: <text>" and a newline on stderr. */
void lw_cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * lw_cli_expect_children() - SIGCHLD as wait() needs it: a caller may have left it ignored, and then the kernel
 * forgets children as they end. lw_cli_as_called(): in a child, before it becomes another's command.
 */
void lw_cli_expect_children(void);
void lw_cli_as_called(void);

/** lw_cli_stage() - "<stage> ..." in place of the stage before, on a terminal; NULL: wipe it. */
void lw_cli_stage(const char *stage);

/**
 * lw_cli_parse() - argp_parse() for a verb: messages say "lapwing VERB", a mistake exits with
 * LW_EXIT_USAGE, options stop at the first argument only when @flags holds ARGP_IN_ORDER.
 */
void lw_cli_parse(const struct argp *argp, int argc, char **argv, unsigned int flags, void *input);

/** lw_cli_size() - read "120x40", of --size; else exit with LW_EXIT_USAGE. */
void lw_cli_size(const char *text, struct argp_state *state, int *ret_width, int *ret_height);

/*
 * What verbs have in common, as children of their argp. The verb's parser hands the structs on:
 * case ARGP_KEY_INIT: state->child_inputs[0] = &options->runs; a verb without one is handed on whole.
 */
struct lw_cli_json {        /* --json, --json-schema */
	const char *schema; /* to be set before parsing */
	bool is_wanted;
};

struct lw_cli_runs { /* the same, and RUN... */
	struct lw_cli_json json;
	const char *const *paths; /* one or more */
	size_t n_paths;
};

extern const struct argp lw_cli_json_argp, lw_cli_runs_argp;

int lw_cmd_advise(int argc, char **argv);
int lw_cmd_analyze(int argc, char **argv);
int lw_cmd_doctor(int argc, char **argv);
int lw_cmd_import(int argc, char **argv);
int lw_cmd_info(int argc, char **argv);
int lw_cmd_live(int argc, char **argv);
int lw_cmd_predict(int argc, char **argv);
int lw_cmd_record(int argc, char **argv);
int lw_cmd_report(int argc, char **argv);
int lw_cmd_salvage(int argc, char **argv);
int lw_cmd_settle(int argc, char **argv);
int lw_cmd_tui(int argc, char **argv);

#endif /* LAPWING_CLI_CMD_H */
