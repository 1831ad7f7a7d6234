/* SPDX-License-Identifier: Apache-2.0 */
/* step.h - what step.c, exclude.c and lengths.c share. */
#ifndef LAPWING_ANALYZER_RECONSTRUCT_STEP_H
#define LAPWING_ANALYZER_RECONSTRUCT_STEP_H

#include "analyzer/run.h"

/** lw_step_exclude() - say of every step whether it counts, and why not. The same on all ranks. */
int lw_step_exclude(struct lw_run *run);

/** lw_step_lengths() - a diag where the counted steps fall into two lengths. */
int lw_step_lengths(struct lw_run *run);

/** lw_step_lacking() - leave out steps of which records of GPU work are missing. (lacking.c) Return: LW_OK or an error. */
int lw_step_lacking(struct lw_run *run);

/** lw_step_is_lacking() - that is why @step is left out. */
bool lw_step_is_lacking(const struct lw_step *step);

#endif /* LAPWING_ANALYZER_RECONSTRUCT_STEP_H */
