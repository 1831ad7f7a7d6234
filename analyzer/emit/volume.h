/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume.h - what collectives of a mean step move, and how fast: the part of a summary that is of operations.
 *
 * Reads:  a run after match.   Writes: the summary that it is given.
 */
#ifndef LAPWING_ANALYZER_EMIT_VOLUME_H
#define LAPWING_ANALYZER_EMIT_VOLUME_H

#include "analyzer/emit/summary.h"

/** lw_volume_summarize() - batches, bytes, algbw, busbw and what a ring would send; after n_steps of @summary is known. */
void lw_volume_summarize(const struct lw_run *run, struct lw_summary *summary);

enum lw_volume_note { LW_VOLUME_BYTES, LW_VOLUME_BUSBW, LW_VOLUME_RING };

/** lw_volume_note() - what such a figure of @run is of, for behind it. */
const char *lw_volume_note(const struct lw_run *run, enum lw_volume_note what);

#endif /* LAPWING_ANALYZER_EMIT_VOLUME_H */
