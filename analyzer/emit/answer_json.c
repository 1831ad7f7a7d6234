/* SPDX-License-Identifier: Apache-2.0 */
/* answer_json.c - what predict answers, as docs/schema/predict.json says. */
#include <math.h>

#include "analyzer/emit/answer.h"
#include "analyzer/emit/json.h"
#include "analyzer/emit/report.h"

/* Of what the interval is made; a model without one has none. */
static void put_error(struct lw_json *json, const struct lw_forecast *forecast)
{
	const struct lw_prediction_error *error = &forecast->prediction.error;

	if (!forecast->model->is_corrected) {
		lw_json_null(json, "error_ns");
		return;
	}
	lw_json_object(json, "error_ns");
	lw_json_double(json, "steps", error->steps_ns);
	lw_json_double(json, "replay", error->replay_ns);
	lw_json_double(json, "costs", error->costs_ns);
	lw_json_double(json, "settings", error->settings_ns);
	lw_json_double(json, "ranks", error->ranks_ns);
	lw_json_double(json, "sizes", error->sizes_ns);
	if (error->cores_ns > 0)
		lw_json_double(json, "cores", error->cores_ns);
	lw_json_double(json, "replay_adds", lw_answer_replay_adds_ns(forecast));
	lw_json_object_end(json);
}

static void put_result(
	struct lw_json *json, const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	const struct lw_prediction *prediction = &forecast->prediction;
	const struct lw_whatif *whatif = &forecast->whatif;
	char would_tell[LW_WOULD_TELL_BYTES];
	const struct {
		const char *name, *path;
		struct lw_figure figure;
	} factors[] = {
		{"sf", "scaling.sf",
			{NAN, NAN, NAN, LW_PREDICTED,
				"needs the step time of one rank: see report --baseline"}},
		{"csf", "scaling.csf", forecast->scaling[LW_SCALING_CSF]},
		{"osf", "scaling.osf", forecast->scaling[LW_SCALING_OSF]},
		{"osf_f", "scaling.osf_f", forecast->scaling[LW_SCALING_OSF_F]},
	};
	const size_t n_factors = sizeof(factors) / sizeof(factors[0]);

	lw_json_object(json, NULL);
	lw_json_string(json, "lapwing", "predict");
	lw_json_int(json, "schema_version", 1);
	lw_json_string(json, "model", lw_model_name(forecast->model, answer->predictor));
	lw_json_object(json, "setting");
	lw_json_double(json, "fusion_bytes", prediction->fusion_bytes);
	lw_json_double(json, "cycle_ns", prediction->cycle_ns);
	if (answer->predictor->replay->is_ddp) {
		lw_json_double(json, "bucket_cap_bytes", prediction->bucket_cap_bytes);
		lw_json_double(json, "first_bucket_bytes", prediction->first_bucket_bytes);
	}
	lw_json_int(json, "n_ranks", prediction->n_ranks);
	lw_json_double(json, "bandwidth_frac", whatif->bandwidth_frac);
	lw_json_double(json, "latency_frac", whatif->latency_frac);
	lw_json_double(json, "compute_frac", whatif->compute_frac);
	lw_json_int(json, "n_groups", whatif->n_groups);
	lw_json_int(json, "n_passes", prediction->n_passes);
	lw_json_double(json, "wire_frac", whatif->wire_frac > 0 ? whatif->wire_frac : 1);
	lw_json_bool(json, "is_balanced", whatif->is_balanced);
	lw_json_object_end(json);
	lw_json_figure(json, "recorded_step_ns", answer->predictor->recorded_ns);
	lw_json_figure(json, "baseline_step_ns", forecast->base_ns);
	lw_json_double(json, "recorded_error_frac", lw_answer_model_error(answer, forecast));
	lw_json_figure(json, "step_ns", prediction->step_ns);
	put_error(json, forecast);
	lw_json_double(json, "gain_frac", forecast->gain_frac);
	lw_json_bool(json, "is_recorded", prediction->is_recorded);
	lw_json_bool(json, "is_extrapolated", prediction->is_extrapolated);
	lw_json_string(json, "note", prediction->step_ns.why ? prediction->step_ns.why : "");
	lw_json_string(json, "would_tell", lw_answer_would_tell(answer, forecast, would_tell));
	if (answer->ask.question == LW_ASK_SCALING)
		lw_json_figure(json, "efficiency", lw_answer_efficiency(answer, forecast));
	lw_json_object(json, "scaling");
	for (size_t i = 0; i < n_factors; i++)
		lw_json_figure(json, factors[i].name, factors[i].figure);
	lw_json_object_end(json);
	lw_json_object(json, "replay");
	lw_json_int(json, "n_steps", answer->predictor->replay->n_steps);
	lw_json_double(json, "error_frac", answer->predictor->replay->error_frac);
	lw_json_double(json, "bias_ns", answer->predictor->replay->bias_ns);
	lw_json_object_end(json);
	lw_json_array(json, "diag");
	lw_json_diags(json, answer->predictor->run);
	lw_json_why(json, "step_ns", prediction->step_ns);
	for (size_t i = 0; i < n_factors; i++)
		lw_json_why(json, factors[i].path, factors[i].figure);
	lw_json_array_end(json);
	lw_json_object_end(json);
}

int lw_answer_json(const struct lw_answer *answer, FILE *out)
{
	struct lw_json *json = lw_json_open();

	if (!json)
		return LW_ERR_NOMEM;
	if (answer->ask.question != LW_ASK_ONE)
		lw_json_array(json, NULL);
	for (size_t i = 0; i < answer->n_forecasts; i++)
		put_result(json, answer, &answer->forecasts[i]);
	if (answer->ask.question != LW_ASK_ONE)
		lw_json_array_end(json);
	return lw_json_close(json, out);
}
