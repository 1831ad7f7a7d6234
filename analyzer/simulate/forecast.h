/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forecast.h - what a chosen model says of a setting: the replay and the closed models, one call.
 *
 * Reads:  a run after match and step.   Writes: nothing; findings become diags of the run.
 * A model is one row of forecast.c's table. Not for: which setting is best (advise/).
 */
#ifndef LAPWING_ANALYZER_SIMULATE_FORECAST_H
#define LAPWING_ANALYZER_SIMULATE_FORECAST_H

#include "analyzer/fit/fit.h"
#include "analyzer/fit/scaling.h"
#include "analyzer/simulate/replay.h"

enum { LW_MODELS_MAX = 16 };

struct lw_predictor {
	struct lw_run *run;
	struct lw_replay *replay;
	struct lw_fit fit;
	struct lw_figure recorded_ns; /* mean of the middle half of the recorded steps, measured */
	/* what each model says of the recorded setting, by its row; asked for when first needed */
	struct lw_figure base_ns[LW_MODELS_MAX];
	bool has_base[LW_MODELS_MAX];
	bool is_borrowed; /* replay and fit belong to somebody else */
};

struct lw_forecast;

struct lw_model {
	const char *name;
	const char *title; /* what it is, one line */
	int (*predict)(const struct lw_model *self, struct lw_predictor *predictor,
		const struct lw_whatif *whatif, struct lw_forecast *forecast);
	enum lw_scaling_model factor; /* closed models: which one gives the step */
	bool is_corrected;            /* by what it missed of the recorded setting */
};

struct lw_forecast {
	const struct lw_model *model;
	struct lw_whatif whatif;
	struct lw_prediction prediction;
	struct lw_figure scaling[LW_SCALING_N];
	struct lw_figure base_ns; /* what the same model says of the recorded setting */
	double gain_frac;         /* 1 - step / base, of one backward pass */
};

/** lw_models() - all of them, the default first. */
const struct lw_model *lw_models(size_t *ret_n);

/** lw_model_find() - by name. NULL: there is none. */
const struct lw_model *lw_model_find(const char *name);

/** lw_model_name() - of @model for this job: the replay of a torch DDP job is not one of Horovod's loop. */
const char *lw_model_name(const struct lw_model *model, const struct lw_predictor *predictor);

/** lw_predictor_new() - replay and fit @run. Return: LW_OK or the errors of both. */
int lw_predictor_new(struct lw_run *run, struct lw_predictor **ret_predictor);

/**
 * lw_predictor_borrow() - the same of a replay and a fit of @run that are there already.
 * @replay, @fit: must outlive it; nobody else may predict from @replay at the same time
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_predictor_borrow(struct lw_run *run, struct lw_replay *replay, const struct lw_fit *fit,
	struct lw_predictor **ret_predictor);
void lw_predictor_free(struct lw_predictor *predictor);

/**
 * lw_forecast() - the step that @model says of @whatif, and the scaling factors there.
 * Return: LW_OK or lw_replay_predict()'s errors.
 */
int lw_forecast(struct lw_predictor *predictor, const struct lw_model *model,
	const struct lw_whatif *whatif, struct lw_forecast *ret_forecast);

#endif /* LAPWING_ANALYZER_SIMULATE_FORECAST_H */
