/* SPDX-License-Identifier: Apache-2.0 */
/* flow_rows.h - columns of a table of captured flows, and its rows. */
#ifndef LAPWING_TUI_FLOW_ROWS_H
#define LAPWING_TUI_FLOW_ROWS_H

#include "analyzer/run.h"
#include "tui/table.h"

struct lw_flow_rows { /* the context of the columns */
	const struct lw_run *run;
	size_t *at; /* of run->flows, most payload first */
	size_t n;
};

extern const struct lw_table_column lw_flow_columns[];
extern const size_t lw_flow_n_columns;

/** lw_flow_rows_make() - of all flows that count, in place of what was there. Return: LW_OK, LW_ERR_NOMEM. */
int lw_flow_rows_make(const struct lw_run *run, struct lw_flow_rows *rows);
void lw_flow_rows_done(struct lw_flow_rows *rows);

#endif /* LAPWING_TUI_FLOW_ROWS_H */
