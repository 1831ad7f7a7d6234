/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_columns.h - inside the view tensors: the columns of its tables, a row a tensor or a batch.
 *
 * Their context is a struct lw_tensor_rows.
 */
#ifndef LAPWING_TUI_TENSOR_COLUMNS_H
#define LAPWING_TUI_TENSOR_COLUMNS_H

#include "tui/batch_rows.h"
#include "tui/table.h"
#include "tui/tensor_stats.h"

struct lw_tensor_rows {
	const struct lw_run *run;
	struct lw_tensor_stats *stats; /* by tensor; NULL: the rows are batches */
	struct lw_batch_row *batches;
	int32_t *carriers; /* by tensor, see lw_tensor_carriers() */
};

enum { LW_TENSOR_READY_COLUMN = 2 };

/* carried: those of tensors, and in which each goes */
extern const struct lw_table_column lw_tensor_columns[], lw_carried_columns[], lw_batch_columns[];
extern const size_t lw_tensor_n_columns, lw_carried_n_columns, lw_batch_n_columns;

#endif /* LAPWING_TUI_TENSOR_COLUMNS_H */
