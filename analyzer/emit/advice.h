/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advice.h - the advice of a run, as text and as JSON.
 *
 * Reads:  a list of advise/.   Writes: a file.
 */
#ifndef LAPWING_ANALYZER_EMIT_ADVICE_H
#define LAPWING_ANALYZER_EMIT_ADVICE_H

#include <stdio.h>

#include "analyzer/advise/advise.h"
#include "analyzer/emit/json.h"

/**
 * lw_advice_text() - all of it, in lines of less than 80 columns (lines of code excepted), and what is
 * missing in @run, of which @list is.
 */
void lw_advice_text(const struct lw_advice_list *list, const struct lw_run *run, FILE *out);

/**
 * lw_advice_explain_text() - the whole story of adviser @id: what it advises or finds, the numbers it
 * stands on, what was tried, what the model assumes, what could make it wrong, how to check it, and what
 * is missing in @run.
 * @id has to be one that lw_advise_spoke() knows.
 */
void lw_advice_explain_text(
	const struct lw_advice_list *list, const struct lw_run *run, const char *id, FILE *out);

/** lw_advice_json() - everything but "diag", into the open object of `advise --json`. */
void lw_advice_json(struct lw_json *json, const struct lw_advice_list *list);

/** lw_advice_explain_json() - the object "explain" of @id. Return: LW_OK or LW_ERR_NOMEM. */
int lw_advice_explain_json(struct lw_json *json, const struct lw_advice_list *list,
	const struct lw_run *run, const char *id);

#endif /* LAPWING_ANALYZER_EMIT_ADVICE_H */
