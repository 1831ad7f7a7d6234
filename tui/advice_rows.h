/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advice_rows.h - the table of the advice view: findings that come before all advice, advice, the other findings, notes.
 *
 * Reads:  a list of advise/, the context of the columns.   Writes: nothing.
 */
#ifndef LAPWING_TUI_ADVICE_ROWS_H
#define LAPWING_TUI_ADVICE_ROWS_H

#include "analyzer/advise/advise.h"
#include "tui/table.h"

enum { LW_ADVICE_N_COLUMNS = 5 };
extern const struct lw_table_column lw_advice_columns[LW_ADVICE_N_COLUMNS];

/** lw_advice_row_advice() - of row @row. NULL: it is a finding. */
const struct lw_advice *lw_advice_row_advice(const struct lw_advice_list *list, size_t row);

/** lw_advice_row_finding() - of row @row. NULL: it is an advice. */
const struct lw_finding *lw_advice_row_finding(const struct lw_advice_list *list, size_t row);

/** lw_advice_row_id() - of the adviser that says it. NULL: there is no such row. */
const char *lw_advice_row_id(const struct lw_advice_list *list, size_t row);

#endif /* LAPWING_TUI_ADVICE_ROWS_H */
