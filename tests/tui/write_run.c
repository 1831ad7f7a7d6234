/* SPDX-License-Identifier: Apache-2.0 */
/* write_run.c - NAME FILE: one of the runs of runs.c, as its collector leaves it, for tests of programs. */
#include <stdio.h>

#include "tests/tui/runs.h"

int main(int argc, char **argv)
{
	struct make_run spec;

	if (argc != 3 || !tui_run(argv[1], &spec)) {
		fprintf(stderr, "usage: tui_write_run NAME FILE (NAME: see tests/tui/runs.c)\n");
		return 2;
	}
	make_run_write(argv[2], &spec);
	return 0;
}
