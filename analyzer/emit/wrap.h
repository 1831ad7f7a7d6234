/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.h - paragraphs that fit a terminal of 80 columns. */
#ifndef LAPWING_ANALYZER_EMIT_WRAP_H
#define LAPWING_ANALYZER_EMIT_WRAP_H

#include <stdio.h>

/**
 * lw_print_wrapped() - @text in lines of less than 80 columns, and a newline. The first begins in column
 * @at, the others in @indent. A word that is longer than a line gets one of its own.
 */
void lw_print_wrapped(FILE *out, int indent, int at, const char *text);

#endif /* LAPWING_ANALYZER_EMIT_WRAP_H */
