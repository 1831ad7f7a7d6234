/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge.h - inside fit/: whether what was fitted is worth saying.
 *
 * Reads:  a run, what was collected of it, its fitted costs.   Writes: why_no_* of the fit; findings.
 */
#ifndef LAPWING_ANALYZER_FIT_JUDGE_H
#define LAPWING_ANALYZER_FIT_JUDGE_H

#include "analyzer/fit/collect.h"

/** lw_fit_doubt() - after the costs were chosen: which figures of @fit cannot be told, and why. */
void lw_fit_doubt(const struct lw_run *run, const struct lw_collected *data, struct lw_fit *fit);

/** lw_fit_judge() - a poor fit is a finding. Return: LW_OK or LW_ERR_NOMEM. */
int lw_fit_judge(struct lw_run *run, const struct lw_fit *fit);

#endif /* LAPWING_ANALYZER_FIT_JUDGE_H */
