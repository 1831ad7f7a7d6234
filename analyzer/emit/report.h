/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - the report of an analysis, for people and for programs (docs/schema/report.json). */
#ifndef LAPWING_ANALYZER_EMIT_REPORT_H
#define LAPWING_ANALYZER_EMIT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzer/analyzer.h"

struct lw_json;

struct lw_report_options {
	bool with_steps; /* a line a step */
	int32_t rank;    /* only this rank's lines, LW_NONE = all */
};

/** lw_report_text() - at most 80 columns, plain text. */
void lw_report_text(
	const struct lw_analysis *analysis, const struct lw_report_options *options, FILE *out);

/** lw_network_text() - the section "Network": who sent what to whom, links, what was nobody's. Nothing recorded: nothing. */
void lw_network_text(const struct lw_analysis *analysis, FILE *out);

/** lw_network_json() - the same as keys of an open object. */
void lw_network_json(struct lw_json *json, const struct lw_analysis *analysis);

/** lw_reach_text() - how much of the links allreduces reach, and what the run shows of why not more; "" = not known. Return: @text. */
const char *lw_reach_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES]);

/** lw_caused_text() - of one enum lw_net_cause: how much there was, and what operations lost to it. Return: @text. */
const char *lw_caused_text(const struct lw_run *run, int cause, char text[LW_NET_WORDS_BYTES]);

/** lw_resent_text() - how much was sent again, and what operations lost to it; "" = not known. Return: @text. */
const char *lw_resent_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES]);

/** lw_net_op_text() - what was sent while operations of one kind and size ran, or why that is not known. Return: @text. */
const char *lw_net_op_text(
	const struct lw_run *run, const struct lw_net_op *op, char text[LW_NET_WORDS_BYTES]);

/** lw_slowed_text() - all causes in a line, the one that cost most first; "" = nothing was slowed. Return: @text. */
const char *lw_slowed_text(const struct lw_run *run, char text[LW_NET_WORDS_BYTES]);

/** lw_capacity_name() - "plateau". */
const char *lw_capacity_name(enum lw_capacity_from from);

/** lw_report_json() - Return: LW_OK, LW_ERR_NOMEM or LW_ERR_IO. */
int lw_report_json(const struct lw_analysis *analysis, FILE *out);

/** lw_json_figure() - {"value", "low", "high", "how"}; numbers that cannot be known are null. */
void lw_json_figure(struct lw_json *json, const char *key, struct lw_figure figure);

/** lw_json_why() - for an array "diag": a row that says why @figure, or its interval, is null; or none. */
void lw_json_why(struct lw_json *json, const char *name, struct lw_figure figure);

/** lw_json_diags() - all findings about the data of @run, into an open array "diag". */
void lw_json_diags(struct lw_json *json, const struct lw_run *run);

/** lw_how_name() - "measured", "fitted", "predicted", "assumed". */
const char *lw_how_name(enum lw_how how);

#endif /* LAPWING_ANALYZER_EMIT_REPORT_H */
