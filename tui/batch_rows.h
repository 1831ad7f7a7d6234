/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_rows.h - operations as lines: those of one step, or the patterns that recur over the counted steps.
 *
 * A pattern is an operation that carries the same tensors in the same order. Times are means over its ranks and
 * occurrences; NAN where they cannot be known.
 */
#ifndef LAPWING_TUI_BATCH_ROWS_H
#define LAPWING_TUI_BATCH_ROWS_H

#include "analyzer/run.h"

struct lw_batch_row {
	size_t group; /* into run->groups: it, or its first occurrence */
	uint64_t n;   /* occurrences */
	double bytes;
	double agreed_ns, start_ns; /* after the step began */
	double wire_ns;             /* last rank's start to the last end (lw_group_service_ns) */
	double algbw_bytes_per_s, busbw_bytes_per_s;
};

struct lw_batch_list {
	struct lw_batch_row *at;
	size_t n;
};

/**
 * lw_batch_rows_make() - @step: its operations; LW_NONE: patterns of all counted steps. By start.
 * Return: LW_OK, LW_ERR_NOMEM. *@ret_rows is freed by the caller.
 */
int lw_batch_rows_make(
	const struct lw_run *run, int32_t step, struct lw_batch_row **ret_rows, size_t *ret_n);

/** lw_group_any_batch() - of the first rank that has it. @ret_rank: its index; may be NULL. */
const struct lw_batch *lw_group_any_batch(
	const struct lw_run *run, const struct lw_group *group, size_t *ret_rank);

#endif /* LAPWING_TUI_BATCH_ROWS_H */
