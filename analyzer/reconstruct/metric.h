/* SPDX-License-Identifier: Apache-2.0 */
/* metric.h - which tensors are averaged every step but are no gradients: a loss, an accuracy. */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_METRIC_H
#define LAPWING_ANALYZER_RECONSTRUCT_METRIC_H

#include "analyzer/run.h"

/**
 * lw_metric_find() - tensors that are queued only after the training thread has waited for the others.
 * @step_of_group: as lw_recur_find() numbers them by name
 * @is_metric: run->tensors.n entries; receives true for those
 *
 * Such a tensor depends on the gradients' results, so it must not say where the gradients of a step end.
 * Needs waits and ready times; without them nothing is found.
 */
int lw_metric_find(struct lw_run *run, const int32_t *step_of_group, int32_t n_steps,
	bool *is_metric, bool *ret_found);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_METRIC_H */
