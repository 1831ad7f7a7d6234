/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overview_words.h - who is late, and what the recording lacks, in a line each.
 *
 * Reads:  a brief.   Writes: nothing.
 */
#ifndef LAPWING_TUI_OVERVIEW_WORDS_H
#define LAPWING_TUI_OVERVIEW_WORDS_H

#include <stdbool.h>

#include "analyzer/emit/brief.h"

enum { LW_OVERVIEW_LINE_BYTES = 256, LW_OVERVIEW_LATE_BYTES = LW_ADVICE_TEXT_BYTES + 16 };

/** lw_overview_late() - "73 % by 226 ms": in how many steps it was last, and how long it then came after the first.
 * Return: @text. */
const char *lw_overview_late(const struct lw_straggler *late, char text[LW_OVERVIEW_LINE_BYTES]);

/** lw_overview_slowest() - one rank is named only if it is last in most steps: which of several is last is chance. What the steps do
 * not tell (brief->late) comes before that.
 * Return: @text. */
const char *lw_overview_slowest(const struct lw_brief *brief, char text[LW_OVERVIEW_LATE_BYTES]);

/** lw_overview_quality() - what was lost, is missing, died. @ret_is_bad: not all is there. Return: @text. */
const char *lw_overview_quality(
	const struct lw_brief *brief, bool *ret_is_bad, char text[LW_OVERVIEW_LINE_BYTES]);

#endif /* LAPWING_TUI_OVERVIEW_WORDS_H */
