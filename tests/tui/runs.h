/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h - the runs that screens are tested with. */
#ifndef LAPWING_TESTS_TUI_RUNS_H
#define LAPWING_TESTS_TUI_RUNS_H

#include <stdbool.h>

#include "tests/lib/make_run.h"

/** tui_run() - Return: there is a run of that name. */
bool tui_run(const char *name, struct make_run *ret_spec);

#endif /* LAPWING_TESTS_TUI_RUNS_H */
