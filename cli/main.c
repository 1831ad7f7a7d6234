/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the lapwing program: finds the verb and hands over. One row a verb, by the order of use. */
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"

const char *argp_program_version = "lapwing " LAPWING_VERSION;

static const struct lw_command commands[] = {
	{"record", "run a command and record what every rank of it does", lw_cmd_record},
	{"live", "follow a job while it runs", lw_cmd_live},
	{"report", "say where the step time goes", lw_cmd_report},
	{"advise", "say what to change, and how much it gains", lw_cmd_advise},
	{"predict", "say how long a step takes under another setting", lw_cmd_predict},
	{"tui", "show a run in the terminal", lw_cmd_tui},
	{"doctor", "say which hooks can see a command, before it runs", lw_cmd_doctor},
	{"import",
		"make a run file from traces of PyTorch's profiler, a Horovod timeline, a capture",
		lw_cmd_import},
	{"info", "say what is in a run file", lw_cmd_info},
	{"salvage", "finish the run of a collector that died", lw_cmd_salvage},
	{"analyze", NULL, lw_cmd_analyze},
	{"settle", NULL, lw_cmd_settle},
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(void)
{
	printf("Usage: lapwing VERB [OPTION...]\n\n"
	       "Where does the step time of a data-parallel training job go, and what should be changed?\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (commands[i].summary)
			printf("  %-10s %s\n", commands[i].name, commands[i].summary);
	printf("\n`lapwing help VERB` lists the options of a verb.\n"
	       "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 done but data is incomplete; `record` returns the\n"
	       "command's own.\n");
}

static const struct lw_command *find(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

/* The verb that @name was probably meant to be: shares its first two letters. */
static const struct lw_command *guess(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (commands[i].summary && strlen(name) >= 2 && !strncmp(commands[i].name, name, 2))
			return &commands[i];
	return NULL;
}

static int help(int argc, char **argv)
{
	char option[] = "--help", *verb[] = {argc > 2 ? argv[2] : NULL, option, NULL};
	const struct lw_command *command = verb[0] ? find(verb[0]) : NULL;

	if (command)
		return command->run(2, verb);
	if (verb[0]) {
		lw_cli_say("no verb '%s' (see `lapwing --help`)", verb[0]);
		return LW_EXIT_USAGE;
	}
	print_help();
	return LW_EXIT_OK;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	const struct lw_command *command = find(name);

	lw_cli_expect_children();
	if (command)
		return command->run(argc - 1, argv + 1);
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		puts(argp_program_version);
		return LW_EXIT_OK;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "-?") ||
		!strcmp(name, "help"))
		return help(argc, argv);
	command = guess(name);
	if (!*name)
		lw_cli_say("which verb? (see `lapwing --help`)");
	else if (command)
		lw_cli_say("no verb '%s'; did you mean `lapwing %s`?", name, command->name);
	else
		lw_cli_say("no verb '%s' (see `lapwing --help`)", name);
	return LW_EXIT_USAGE;
}
