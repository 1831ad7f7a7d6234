/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlap.h - when the training thread of a rank was waiting. The rest of a step is its computing.
 */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_OVERLAP_H
#define LAPWING_ANALYZER_RECONSTRUCT_OVERLAP_H

#include "analyzer/reconstruct/interval.h"

enum lw_blocked {
	LW_BLOCKED_UNKNOWN, /* neither waits nor ready times were recorded */
	LW_BLOCKED_KNOWN,
	LW_BLOCKED_ASSUMED /* from the last gradient queued to the end of the operations */
};

/** lw_run_has_waits() - somewhere in the run, so a rank without any never had to wait. */
bool lw_run_has_waits(const struct lw_run *run);

/**
 * lw_blocked_collect() - fill @blocked with the waiting in step @s of a rank, united and clipped to it.
 * Return: enum lw_blocked or an error.
 */
int lw_blocked_collect(const struct lw_run *run, size_t rank_index, size_t s, bool has_waits,
	struct lw_intervals *blocked);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_OVERLAP_H */
