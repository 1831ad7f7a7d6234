/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.h - what `predict` was asked, and the forecasts that answer it, as text and JSON.
 *
 * Reads:  a predictor.   Writes: nothing.
 * Not for: the forecasts themselves (simulate/forecast.h), or advice (advise/).
 */
#ifndef LAPWING_ANALYZER_EMIT_ANSWER_H
#define LAPWING_ANALYZER_EMIT_ANSWER_H

#include <stdio.h>

#include "analyzer/advise/advise.h"
#include "analyzer/simulate/forecast.h"

enum lw_question {
	LW_ASK_ONE,  /* one setting */
	LW_ASK_GRID, /* thresholds and cycle times: lw_advise_grid() */
};

struct lw_answer {
	struct lw_predictor *predictor;
	enum lw_question question;
	const struct lw_model *model;
	struct lw_whatif whatif;       /* what was asked; of the grid, what all settings share */
	struct lw_advise_grid grid;    /* LW_ASK_GRID only */
	struct lw_forecast *forecasts; /* of the grid: by threshold, then cycle */
	size_t n_forecasts;
};

/**
 * lw_answer() - ask @model for every setting of @question.
 * @predictor: must outlive the answer
 * Return: LW_OK, LW_ERR_UNSUPPORTED (a grid of a DDP job), LW_ERR_NOMEM or lw_forecast()'s errors;
 * lw_answer_done() is to be called in any case.
 */
int lw_answer(struct lw_predictor *predictor, enum lw_question question,
	const struct lw_model *model, const struct lw_whatif *whatif, struct lw_answer *ret_answer);
void lw_answer_done(struct lw_answer *answer);

/** lw_answer_text() - for people. */
void lw_answer_text(const struct lw_answer *answer, FILE *out);

/** lw_answer_json() - docs/schema/predict.json. Return: LW_OK, LW_ERR_NOMEM or LW_ERR_IO. */
int lw_answer_json(const struct lw_answer *answer, FILE *out);

#endif /* LAPWING_ANALYZER_EMIT_ANSWER_H */
