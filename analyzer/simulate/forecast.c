/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/forecast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/closed.h"
#include "analyzer/simulate/mean_step.h"
#include "analyzer/simulate/stats.h"
#include "analyzer/simulate/whatif.h"

/* The fit's own for the recorded setting; for another one a value without an interval. */
static struct lw_figure scaling_figure(const struct lw_predictor *predictor,
	enum lw_scaling_model model, const struct lw_whatif *whatif,
	const struct lw_scaling *scaling, bool is_recorded)
{
	struct lw_figure figure = {scaling->factor, NAN, NAN, LW_PREDICTED, NULL};

	if (is_recorded)
		return predictor->fit.figure[LW_FIT_CSF + model];
	if (lw_closed_unknown(whatif))
		figure.why = lw_closed_unknown(whatif);
	else if (isnan(figure.value) && predictor->fit.why_no_mean_step)
		figure.why = predictor->fit.why_no_mean_step;
	else if (isnan(figure.value))
		figure.why = model < LW_SCALING_OSF_F
				     ? lw_fit_why(predictor->replay->probe, LW_FIT_NO_MODEL)
				     : LW_FIT_NO_MODEL_Q;
	else
		figure.why = scaling->is_extrapolated
				     ? "the model sends operations of sizes that this run does not"
				       " hold, and a closed model gives no interval"
				     : "a closed model gives no interval";
	return figure;
}

/* Every model takes the costs of operations from the ranks that are there. */
static void note_missing(const struct lw_predictor *predictor, struct lw_prediction *prediction)
{
	if (predictor->replay->n_missing_ranks == 0 || isnan(prediction->step_ns.value))
		return;
	prediction->step_ns.how = LW_ASSUMED;
	prediction->step_ns.why = lw_whatif_assumes(predictor->replay, &LW_WHATIF_RECORDED);
}

/* The factors, and with them the step of a closed model: T_comp / factor, and what follows it. */
static int predict_closed(const struct lw_model *self, struct lw_predictor *predictor,
	const struct lw_whatif *whatif, struct lw_forecast *forecast)
{
	struct lw_prediction *prediction = &forecast->prediction;
	bool is_same_ranks = prediction->n_ranks == predictor->replay->input.n_ranks;
	struct lw_scaling scaling[LW_SCALING_N];
	double compute_ns = NAN, tail_ns = NAN;
	int status = lw_closed_predict(
		predictor->replay, &predictor->fit, whatif, scaling, &compute_ns, &tail_ns);

	if (status < 0)
		return status;
	prediction->is_extrapolated = scaling[self->factor].is_extrapolated;
	prediction->step_ns =
		scaling_figure(predictor, self->factor, whatif, &scaling[self->factor], false);
	prediction->step_ns.value = compute_ns / scaling[self->factor].factor + tail_ns;
	if (prediction->is_extrapolated || !is_same_ranks)
		prediction->step_ns.how = LW_ASSUMED;
	note_missing(predictor, prediction);
	return LW_OK;
}

static int deliver_mean(int status, const struct lw_mean_step *answer,
	const struct lw_predictor *predictor, struct lw_prediction *prediction)
{
	if (status < 0)
		return status;
	prediction->is_extrapolated = answer->is_extrapolated;
	prediction->step_ns = (struct lw_figure){answer->step_ns, NAN, NAN, LW_PREDICTED,
		answer->why ? answer->why : "one mean step gives no interval"};
	if (answer->is_extrapolated || prediction->n_ranks != predictor->replay->input.n_ranks)
		prediction->step_ns.how = LW_ASSUMED;
	note_missing(predictor, prediction);
	return LW_OK;
}

static int predict_coarse(const struct lw_model *self, struct lw_predictor *predictor,
	const struct lw_whatif *whatif, struct lw_forecast *forecast)
{
	struct lw_mean_step answer;
	int status = lw_coarse_predict(predictor->replay, &predictor->fit, whatif, &answer);

	(void)self;
	return deliver_mean(status, &answer, predictor, &forecast->prediction);
}

static int predict_fine(const struct lw_model *self, struct lw_predictor *predictor,
	const struct lw_whatif *whatif, struct lw_forecast *forecast)
{
	struct lw_mean_step answer;
	int status = lw_fine_predict(predictor->replay, &predictor->fit, whatif, &answer);

	(void)self;
	return deliver_mean(status, &answer, predictor, &forecast->prediction);
}

static const struct lw_model models[] = {
	{"hvd_cycle", "the twin of the framework's own loop", NULL, 0, true},
	{"osf_fifo", "OSF eq. 11, the link a queue", predict_closed, LW_SCALING_OSF_F, false},
	{"osf_paper", "OSF eq. 11 to 16 as printed", predict_closed, LW_SCALING_OSF_F_PAPER, false},
	{"osf", "OSF eq. 3, each gradient its own all-reduce", predict_closed, LW_SCALING_OSF,
		false},
	{"csf", "OSF eq. 2, one all-reduce after all computing", predict_closed, LW_SCALING_CSF,
		false},
	{"coarse", "compute and network as one p-norm", predict_coarse, 0, false},
	{"fine", "each message of a mean step over shared links", predict_fine, 0, false},
};
#define N_MODELS (sizeof(models) / sizeof(models[0]))
_Static_assert(N_MODELS <= LW_MODELS_MAX, "base_ns has a place for every model");

const struct lw_model *lw_models(size_t *ret_n)
{
	*ret_n = N_MODELS;
	return models;
}

const struct lw_model *lw_model_find(const char *name)
{
	for (size_t i = 0; i < N_MODELS; i++)
		if (!strcmp(name, models[i].name))
			return &models[i];
	return NULL;
}

const char *lw_model_name(const struct lw_model *model, const struct lw_predictor *predictor)
{
	return model == models && predictor->replay->is_ddp ? "ddp" : model->name;
}

/* Everything of a forecast but what is relative to the base. */
static int ask(struct lw_predictor *predictor, const struct lw_model *model,
	const struct lw_whatif *whatif, struct lw_forecast *forecast)
{
	struct lw_scaling scaling[LW_SCALING_N];
	double compute_ns, tail_ns;
	int status;

	*forecast = (struct lw_forecast){.model = model, .whatif = *whatif, .gain_frac = NAN};
	status = lw_replay_predict(predictor->replay, whatif, &forecast->prediction, NULL);
	if (status == LW_OK)
		status = lw_closed_predict(
			predictor->replay, &predictor->fit, whatif, scaling, &compute_ns, &tail_ns);
	if (status < 0)
		return status;
	for (size_t i = 0; i < LW_SCALING_N; i++)
		forecast->scaling[i] = scaling_figure(predictor, (enum lw_scaling_model)i, whatif,
			&scaling[i], forecast->prediction.is_recorded);
	return model->predict ? model->predict(model, predictor, whatif, forecast) : LW_OK;
}

int lw_forecast(struct lw_predictor *predictor, const struct lw_model *model,
	const struct lw_whatif *whatif, struct lw_forecast *ret_forecast)
{
	size_t row = (size_t)(model - models);
	int status = LW_OK;

	if (!predictor->has_base[row]) {
		status = ask(predictor, model, &LW_WHATIF_RECORDED, ret_forecast);
		if (status < 0)
			return status;
		predictor->base_ns[row] = ret_forecast->prediction.step_ns;
		predictor->has_base[row] = true;
	}
	status = ask(predictor, model, whatif, ret_forecast);
	ret_forecast->base_ns = predictor->base_ns[row];
	ret_forecast->gain_frac = 1 - ret_forecast->prediction.step_ns.value /
					      ret_forecast->prediction.n_passes /
					      ret_forecast->base_ns.value;
	return status;
}

int lw_predictor_new(struct lw_run *run, struct lw_predictor **ret_predictor)
{
	struct lw_predictor *predictor = calloc(1, sizeof(*predictor));
	int status = predictor ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory");

	if (status < 0)
		return status;
	predictor->run = run;
	status = lw_replay_new(run, &predictor->replay);
	if (status == LW_OK)
		status = lw_fit_run(run, &predictor->fit);
	if (status < 0) {
		lw_predictor_free(predictor);
		return status;
	}
	predictor->recorded_ns = lw_replay_recorded(predictor->replay);
	*ret_predictor = predictor;
	return LW_OK;
}

int lw_predictor_borrow(struct lw_run *run, struct lw_replay *replay, const struct lw_fit *fit,
	struct lw_predictor **ret_predictor)
{
	struct lw_predictor *predictor = calloc(1, sizeof(*predictor));

	if (!predictor)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	*predictor = (struct lw_predictor){.run = run,
		.replay = replay,
		.fit = *fit,
		.recorded_ns = lw_replay_recorded(replay),
		.is_borrowed = true};
	*ret_predictor = predictor;
	return LW_OK;
}

void lw_predictor_free(struct lw_predictor *predictor)
{
	if (!predictor)
		return;
	if (!predictor->is_borrowed) {
		lw_fit_done(&predictor->fit);
		lw_replay_free(predictor->replay);
	}
	free(predictor);
}
