/* SPDX-License-Identifier: Apache-2.0 */
/* marks.h - what is said of marks and ranges that the program made, or libraries and profilers in it. */
#ifndef LAPWING_ANALYZER_EMIT_MARKS_H
#define LAPWING_ANALYZER_EMIT_MARKS_H

#include <stdio.h>

#include "analyzer/run.h"

struct lw_json;

/** lw_marks_text() - the report's section: marks and ranges by name. Nothing recorded: nothing. */
void lw_marks_text(const struct lw_run *run, FILE *out);

/** lw_marks_are_all() - neither operations nor kernels were recorded: what can be told of steps is what their marks say. */
bool lw_marks_are_all(const struct lw_run *run);

/** lw_marks_json() - the same as keys of an open object. */
void lw_marks_json(struct lw_json *json, const struct lw_run *run);

#endif /* LAPWING_ANALYZER_EMIT_MARKS_H */
