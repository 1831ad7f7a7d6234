/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.h - what `predict` was asked, and the forecasts that answer it, as text, JSON and figures.
 *
 * Reads:  a predictor.   Writes: nothing.
 * Not for: the forecasts themselves (simulate/forecast.h), or advice (advise/).
 */
#ifndef LAPWING_ANALYZER_EMIT_ANSWER_H
#define LAPWING_ANALYZER_EMIT_ANSWER_H

#include <stdio.h>

#include "analyzer/advise/advise.h"
#include "analyzer/simulate/forecast.h"
#include "base/units.h"

enum lw_question {
	LW_ASK_ONE,     /* one setting */
	LW_ASK_GRID,    /* thresholds and cycle times; of torch DDP: limits of its buckets */
	LW_ASK_SCALING, /* 1, 2, 4, ... ranks, and as many as were recorded */
	LW_ASK_MODELS,  /* one setting, by every model */
};

enum { LW_CURVE_MAX = 20 }; /* 1 to 65536, the recorded number, the last one asked for */

struct lw_ask {
	enum lw_question question;
	const struct lw_model *model; /* not of LW_ASK_MODELS */
	/* what all settings share; of LW_ASK_SCALING n_ranks is where to stop, 0 = 64, or 4 times as
	 * many as were recorded if that is more */
	struct lw_whatif whatif;
	/* of LW_ASK_GRID: its axes hold what this advises, which is its best; NULL: nothing was advised */
	const struct lw_advice_list *advice;
	void (*progress)(size_t n_done, size_t n); /* called before each setting; may be NULL */
};

enum { LW_GRID_MAX = 24 };

struct lw_grid_axis {
	const char *title; /* "cycle time in ms", static */
	double at[LW_GRID_MAX];
	char label[LW_GRID_MAX][LW_UNIT_TEXT_BYTES];
	size_t n, recorded; /* at[recorded]: as recorded */
};

struct lw_answer {
	struct lw_predictor *predictor;
	struct lw_ask ask;
	struct lw_grid_axis rows, columns; /* LW_ASK_GRID only */
	bool is_advised;                   /* of the grid: one of its cells is, this one */
	size_t advised;
	uint32_t curve[LW_CURVE_MAX]; /* LW_ASK_SCALING only: numbers of ranks, ascending */
	size_t n_curve;
	struct lw_forecast *forecasts; /* of the grid: row by row */
	size_t n_forecasts;
};

/**
 * lw_answer() - forecast every setting of @ask.
 * @predictor: must outlive the answer
 * Return: LW_OK, LW_ERR_UNSUPPORTED (a grid of a DDP job whose buckets are fixed), LW_ERR_NOMEM or
 * lw_forecast()'s errors; lw_answer_done() is to be called in any case.
 */
int lw_answer(
	struct lw_predictor *predictor, const struct lw_ask *ask, struct lw_answer *ret_answer);
void lw_answer_done(struct lw_answer *answer);

/**
 * lw_answer_begin() - the same without the forecasts: each is not known (NAN) until lw_answer_one() made it.
 * For who cannot wait for all of them. Return: as lw_answer().
 */
int lw_answer_begin(
	struct lw_predictor *predictor, const struct lw_ask *ask, struct lw_answer *ret_answer);

/** lw_answer_one() - make the @i-th forecast, unless it was made. Return: LW_OK or lw_forecast()'s errors. */
int lw_answer_one(struct lw_answer *answer, size_t i);

/** lw_answer_is_made() - whether the @i-th forecast was. */
bool lw_answer_is_made(const struct lw_answer *answer, size_t i);

/**
 * lw_answer_best() - of a grid: what is advised; else the fastest forecast, those that are not extrapolated first, and
 * of these those that could be advised.
 */
const struct lw_forecast *lw_answer_best(const struct lw_answer *answer);

/** lw_answer_is_recorded_cell() - of a grid: row and column are the recorded ones. */
bool lw_answer_is_recorded_cell(const struct lw_answer *answer, const struct lw_forecast *forecast);

/** lw_answer_is_advised() - it is the cell that is advised. */
bool lw_answer_is_advised(const struct lw_answer *answer, const struct lw_forecast *forecast);

/** lw_answer_is_extrapolated() - and it does not send what the recorded setting does. */
bool lw_answer_is_extrapolated(const struct lw_answer *answer, const struct lw_forecast *forecast);

/** lw_answer_is_short() - its cycle leaves little time for anything but coordination: nobody tried whether to advise it. */
bool lw_answer_is_short(const struct lw_answer *answer, const struct lw_forecast *forecast);

/** lw_answer_mark() - of a cell: 'r' recorded, '=' sends the same, 'x' extrapolated, 'c' short, ' ' none of these. */
char lw_answer_mark(const struct lw_answer *answer, const struct lw_forecast *forecast);

/** lw_answer_short_text() - why no 'c' is advised. Return: @text. */
enum { LW_SHORT_TEXT_BYTES = 192 };
const char *lw_answer_short_text(const struct lw_answer *answer, char text[LW_SHORT_TEXT_BYTES]);

/** lw_answer_is_same() - both settings send the same operations, and take as long. */
bool lw_answer_is_same(const struct lw_prediction *a, const struct lw_prediction *b);

/** lw_answer_efficiency() - of a scaling curve: step of one rank over that of @forecast. */
struct lw_figure lw_answer_efficiency(
	const struct lw_answer *answer, const struct lw_forecast *forecast);

/**
 * lw_answer_model_error() - what the model says of the recorded setting, less the measured step, of
 * the latter; before the correction where there is one.
 */
double lw_answer_model_error(const struct lw_answer *answer, const struct lw_forecast *forecast);

/** lw_answer_replay_adds_ns() - how much narrower half the interval would be without the replay's error. */
double lw_answer_replay_adds_ns(const struct lw_forecast *forecast);

/** lw_answer_would_tell() - which run would measure what @forecast assumes, "" = none. Return: @text. */
enum { LW_WOULD_TELL_BYTES = 256 };
const char *lw_answer_would_tell(const struct lw_answer *answer, const struct lw_forecast *forecast,
	char text[LW_WOULD_TELL_BYTES]);

/** lw_answer_setting() - "fusion threshold 64 MiB, cycle 5 ms, 4 ranks", and what else was asked. */
enum { LW_SETTING_TEXT_BYTES = 384 };
const char *lw_answer_setting(const struct lw_answer *answer,
	const struct lw_prediction *prediction, const struct lw_whatif *whatif,
	char text[LW_SETTING_TEXT_BYTES]);

/** lw_answer_text() - for people, less than 80 columns. */
void lw_answer_text(const struct lw_answer *answer, FILE *out);

/** lw_answer_json() - docs/schema/predict.json. Return: LW_OK, LW_ERR_NOMEM or LW_ERR_IO. */
int lw_answer_json(const struct lw_answer *answer, FILE *out);

/** lw_answer_svg() - a figure of a grid, a scaling curve or the models. Errors stay in @out. */
void lw_answer_svg(const struct lw_answer *answer, FILE *out);

/** lw_answer_chart() - the same for a terminal; @is_utf8: blocks, else ASCII. */
void lw_answer_chart(const struct lw_answer *answer, bool is_utf8, FILE *out);

#endif /* LAPWING_ANALYZER_EMIT_ANSWER_H */
