/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quality.h - what is missing or odd in a run, in words, the same in every verb.
 *
 * Reads:  a run's diags.   Writes: a file.   Not for: JSON (lw_json_diags() of report.h).
 */
#ifndef LAPWING_ANALYZER_EMIT_QUALITY_H
#define LAPWING_ANALYZER_EMIT_QUALITY_H

#include <stdio.h>

#include "analyzer/run.h"

/** lw_quality_counts() - the section's title, how many steps there are, and what became of the marks that bound them. */
void lw_quality_counts(const struct lw_run *run, size_t n_steps, size_t n_excluded, FILE *out);

/** lw_quality_diags() - a paragraph for every diag of @run, in lines of less than 80 columns. */
void lw_quality_diags(const struct lw_run *run, FILE *out);

/**
 * lw_quality_text() - the same under a title, after what was answered; nothing of a run that lacks nothing.
 * Without what the advisers say of themselves: that is their answer.
 */
void lw_quality_text(const struct lw_run *run, FILE *out);

/** lw_quality_cores() - a line for each host: cores, what the ranks used of them, how long computing waited for one. */
void lw_quality_cores(const struct lw_run *run, FILE *out);

/** lw_quality_ranks() - "4 ranks", of a run that does not hold all "1 of 3 ranks". Return: @text. */
enum { LW_RANKS_TEXT_BYTES = 48 };
const char *lw_quality_ranks(
	const struct lw_run *run, uint32_t n_ranks, char text[LW_RANKS_TEXT_BYTES]);

#endif /* LAPWING_ANALYZER_EMIT_QUALITY_H */
