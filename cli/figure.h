/* SPDX-License-Identifier: Apache-2.0 */
/* figure.h - findings and exit codes as every verb with results prints them. */
#ifndef LAPWING_CLI_FIGURE_H
#define LAPWING_CLI_FIGURE_H

#include "analyzer/emit/json.h"
#include "analyzer/run.h"

/** lw_cli_put_diags() - all findings about the data of @run, into an open array "diag". */
void lw_cli_put_diags(struct lw_json *json, const struct lw_run *run);

/** lw_cli_run_exit() - LW_EXIT_OK, or LW_EXIT_INCOMPLETE when the run lost or misses something. */
int lw_cli_run_exit(const struct lw_run *run);

#endif /* LAPWING_CLI_FIGURE_H */
