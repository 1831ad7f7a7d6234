/* SPDX-License-Identifier: Apache-2.0 */
/* recur.h - which training iteration each group belongs to, from what recurs. */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_RECUR_H
#define LAPWING_ANALYZER_RECONSTRUCT_RECUR_H

#include "analyzer/run.h"

/**
 * lw_recur_find() - number the iterations.
 * @step_of_group: run->groups.n entries; receives the iteration of each group that belongs to the
 * gradient set, LW_NONE for the others (broadcasts of parameters, metric averages)
 * @ret_n: iterations found, 0 when nothing recurs
 *
 * By name where tensors have names that recur: an iteration starts when a tensor that it already holds
 * comes again. Otherwise by the shortest period of the sequence of operations.
 */
int lw_recur_find(struct lw_run *run, int32_t *step_of_group, int32_t *ret_n);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_RECUR_H */
