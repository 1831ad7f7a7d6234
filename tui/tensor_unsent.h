/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_unsent.h - tensors that no step sends as such: parameters of DDP, which go in buckets; broadcasts.
 *
 * Reads:  a run after overlap, and its replay.   Writes: nothing.
 */
#ifndef LAPWING_TUI_TENSOR_UNSENT_H
#define LAPWING_TUI_TENSOR_UNSENT_H

#include "analyzer/simulate/replay.h"
#include "tui/tensor_stats.h"

/** lw_tensor_unsent() - what is known of those in @stats, [run->tensors.n], that have n 0: how large they are, and when
 * their gradient is complete. Return: LW_OK, LW_ERR_NOMEM. */
int lw_tensor_unsent(const struct lw_run *run, struct lw_tensor_stats *stats);

/**
 * lw_tensor_carriers() - in which bucket each parameter of DDP goes: as torch's rule says, where that gives the buckets
 * that the run sent.
 * @replay: NULL: not known
 * @ret_carriers: index into run->tensors by tensor, LW_NONE: none, or not known; freed by the caller. NULL where there is
 * not one. Return: LW_OK, LW_ERR_NOMEM.
 */
int lw_tensor_carriers(
	const struct lw_run *run, const struct lw_replay *replay, int32_t **ret_carriers);

#endif /* LAPWING_TUI_TENSOR_UNSENT_H */
