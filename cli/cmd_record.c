/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_record.c - `lapwing record -- CMD...`: run a command with the tracer preloaded.
 *
 * Mistakes in record's own options are found before the command starts.
 */
#include "cli/cmd.h"
#include "cli/launch.h"

int lw_cmd_record(int argc, char **argv)
{
	static const struct argp_child children[] = {{&lw_launch_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {NULL, NULL, "-- COMMAND [ARG...]",
		"Runs COMMAND, unchanged, and records what every rank of it does.\n\n"
		"  lapwing record -- mpirun -np 4 python3 train.py          one file\n"
		"  mpirun -np 4 lapwing record -- python3 train.py          one file a rank\n"
		"  LD_PRELOAD=liblapwing.so LAPWING_OUT=run.lapwing mpirun ...   without record"
		"\vReturns COMMAND's exit code, 128 + N when signal N ended it; 126 not executable,"
		" 127 not found; 1 or 2 when record itself could not start (COMMAND then has not run).",
		children, NULL, NULL};
	static struct lw_launch launch = {.verb = "record"};
	int code;

	lw_cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &launch.options);
	code = lw_launch_prepare(&launch);
	return code ? code : lw_launch_run(&launch);
}
