/* SPDX-License-Identifier: Apache-2.0 */
/* report_answer.h - the first paragraphs of the report. */
#ifndef LAPWING_ANALYZER_EMIT_REPORT_ANSWER_H
#define LAPWING_ANALYZER_EMIT_REPORT_ANSWER_H

#include <stdio.h>

#include "analyzer/emit/report.h"

/** lw_report_answer() - what the job is, and what people ask first, in lines of less than 80 columns. */
void lw_report_answer(FILE *out, const struct lw_analysis *analysis);

/** lw_report_is_late_by_kernels() - who is late is told by kernels: nobody then knows what its host did before. */
bool lw_report_is_late_by_kernels(const struct lw_run *run);

/** lw_report_is_silent() - no operation between ranks was recorded, nor anything waited for: there are no phases. */
bool lw_report_is_silent(const struct lw_run *run, const struct lw_summary *summary);

#endif /* LAPWING_ANALYZER_EMIT_REPORT_ANSWER_H */
