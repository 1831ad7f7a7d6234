/* SPDX-License-Identifier: Apache-2.0 */
/* extract.h - what replay.c takes out of a run: the job's inputs and what the loop costs. */
#ifndef LAPWING_ANALYZER_SIMULATE_EXTRACT_H
#define LAPWING_ANALYZER_SIMULATE_EXTRACT_H

#include "analyzer/simulate/replay.h"

/** lw_extract_job() - tensors, ready times, settings, recorded steps. See lw_replay_new(). */
int lw_extract_job(struct lw_run *run, struct lw_replay *replay);

/** lw_extract_cost() - what rounds, copies, polls and the wire cost; after lw_extract_job(). */
int lw_extract_cost(struct lw_run *run, struct lw_replay *replay);

/** lw_extract_is_counted() - step @step counts on every rank. */
bool lw_extract_is_counted(const struct lw_run *run, size_t step);

#endif /* LAPWING_ANALYZER_SIMULATE_EXTRACT_H */
