/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_text.h - all that is known of one tensor, or one batch, in sentences. */
#ifndef LAPWING_TUI_TENSOR_TEXT_H
#define LAPWING_TUI_TENSOR_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "tui/batch_rows.h"
#include "tui/tensor_stats.h"

/** lw_tensor_print() - @index: into run->tensors; @carriers: see lw_tensor_carriers(), may be NULL. Lines are as
 * long as they come. */
void lw_tensor_print(const struct lw_run *run, uint32_t index, const struct lw_tensor_stats *stats,
	const int32_t *carriers, FILE *out);

/** lw_batch_print() - @is_pattern: @of stands for several; else for one operation of one step. */
void lw_batch_print(
	const struct lw_run *run, const struct lw_batch_row *of, bool is_pattern, FILE *out);

#endif /* LAPWING_TUI_TENSOR_TEXT_H */
