/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prepare.h - what views show that takes a while to make of a large run: made by the thread that analyses it, so
 * that no view keeps the user waiting when it is shown first.
 *
 * Reads:  a run after overlap.   Writes: nothing.
 * Each thing belongs to the view that takes it. A view that finds nothing to take makes it itself.
 */
#ifndef LAPWING_TUI_PREPARE_H
#define LAPWING_TUI_PREPARE_H

#include "analyzer/run.h"
#include "tui/tensor_stats.h"

enum lw_prepared_kind {
	LW_PREPARED_LANES,       /* struct lw_lanes */
	LW_PREPARED_TENSORS,     /* see lw_prepared_tensors() */
	LW_PREPARED_BATCHES,     /* struct lw_batch_list, of LW_NONE */
	LW_PREPARED_CONNECTIONS, /* struct lw_connections */
	LW_PREPARED_COUNT
};

struct lw_prepared {
	void *of[LW_PREPARED_COUNT]; /* NULL: not made, or taken */
};

/** lw_prepare() - all of it. What fails is left out. @progress: told what is being made. */
void lw_prepare(
	struct lw_run *run, struct lw_prepared *prepared, void (*progress)(const char *stage));

/** lw_prepared_take() - Return: the caller's from now on, to free with free() when its inside is freed; or NULL. */
void *lw_prepared_take(struct lw_prepared *prepared, enum lw_prepared_kind kind);

/**
 * lw_prepared_tensors() - a copy of the statistics of all tensors, made now where they were not, freed by the caller.
 * Return: as lw_tensor_stats_make().
 */
int lw_prepared_tensors(
	struct lw_prepared *prepared, struct lw_run *run, struct lw_tensor_stats **ret_stats);

/** lw_prepared_done() - free what nobody took. The run may be gone. */
void lw_prepared_done(struct lw_prepared *prepared);

#endif /* LAPWING_TUI_PREPARE_H */
