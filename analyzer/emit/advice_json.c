/* SPDX-License-Identifier: Apache-2.0 */
/* advice_json.c - advice for other programs: docs/schema/advise.json. */
#include <math.h>
#include <string.h>

#include "analyzer/advise/trial.h"
#include "analyzer/emit/advice.h"
#include "analyzer/emit/report.h"

static void put_advice(struct lw_json *json, const struct lw_advice *advice)
{
	lw_json_object(json, NULL);
	lw_json_string(json, "id", advice->id);
	lw_json_string(json, "title", advice->title);
	lw_json_string(json, "kind", lw_advice_kind_name(advice->kind));
	lw_json_string(json, "why", advice->why);
	lw_json_string(json, "sure", advice->sure);
	lw_json_object(json, "set");
	for (uint32_t i = 0; i < advice->n_sets; i++)
		lw_json_string(json, advice->set[i].name, advice->set[i].value);
	lw_json_object_end(json);
	lw_json_string(json, "code", advice->code);
	lw_json_figure(json, "step_ns", advice->step_ns);
	lw_json_figure(json, "gain_frac", advice->gain_frac);
	lw_json_object_end(json);
}

static void put_trial(
	struct lw_json *json, const struct lw_advice_list *list, const struct lw_trial *trial)
{
	lw_json_object(json, NULL);
	lw_json_string(json, "label", trial->label);
	lw_json_int(json, "n_ranks", trial->prediction.n_ranks);
	lw_json_int(json, "n_passes", trial->prediction.n_passes);
	lw_json_bool(json, "is_recorded", trial->prediction.is_recorded);
	lw_json_bool(json, "is_extrapolated", trial->prediction.is_extrapolated);
	lw_json_figure(json, "step_ns", trial->step_ns);
	lw_json_figure(json, "gain_frac", lw_advise_gain_frac(list, trial));
	lw_json_object_end(json);
}

static void put_trials(
	struct lw_json *json, const struct lw_advice_list *list, const char *key, const char *id)
{
	const struct lw_trial *trial;

	lw_json_array(json, key);
	lw_vec_foreach (trial, &list->tried)
		if (!strcmp(trial->id, id))
			put_trial(json, list, trial);
	lw_json_array_end(json);
}

static void put_int_or_null(struct lw_json *json, const char *key, bool is_known, int64_t value)
{
	if (is_known)
		lw_json_int(json, key, value);
	else
		lw_json_null(json, key);
}

static void put_bound(struct lw_json *json, const struct lw_finding *finding)
{
	const struct lw_bound *bound = &finding->bound;
	bool has_place = bound->at_ns != LW_NS_UNKNOWN;

	if (isnan(bound->most_frac))
		lw_json_null(json, "at_most_frac");
	else
		lw_json_figure(json, "at_most_frac",
			(struct lw_figure){
				bound->most_frac, 0, bound->most_frac, LW_ASSUMED, NULL});
	put_int_or_null(json, "rank", bound->rank != LW_NONE, bound->rank);
	put_int_or_null(json, "step", finding->step != LW_NONE, finding->step);
	put_int_or_null(json, "step_mark", finding->mark >= 0, finding->mark);
	put_int_or_null(json, "at_ns", has_place, finding->since_ns);
	put_int_or_null(json, "length_ns", has_place, bound->length_ns);
}

static void put_findings(struct lw_json *json, const struct lw_advice_list *list, const char *id)
{
	const struct lw_finding *finding;

	lw_json_array(json, "findings");
	lw_vec_foreach (finding, &list->findings) {
		if (id && strcmp(finding->id, id))
			continue;
		lw_json_object(json, NULL);
		lw_json_string(json, "id", finding->id);
		lw_json_string(json, "text", finding->text);
		lw_json_bool(json, "is_minor", finding->is_minor);
		put_bound(json, finding);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
}

static void put_replay(struct lw_json *json, const struct lw_advice_list *list)
{
	const struct lw_trial *trial, *standard = lw_advise_default(list);
	int64_t n_settings = 0;

	lw_vec_foreach (trial, &list->tried)
		n_settings += !strcmp(trial->id, "horovod.fusion_cycle");
	lw_json_object(json, "replay");
	lw_json_int(json, "n_steps", list->replay->n_steps);
	lw_json_double(json, "error_frac", list->replay->error_frac);
	lw_json_double(json, "bias_ns", list->replay->bias_ns);
	lw_json_int(json, "n_settings", n_settings);
	lw_json_object_end(json);
	if (!standard) {
		lw_json_null(json, "defaults");
		return;
	}
	lw_json_object(json, "defaults");
	lw_json_double(json, "fusion_bytes", standard->prediction.fusion_bytes);
	lw_json_double(json, "cycle_ns", standard->prediction.cycle_ns);
	lw_json_bool(json, "is_recorded", standard->prediction.is_recorded);
	lw_json_figure(json, "step_ns", standard->step_ns);
	lw_json_figure(json, "gain_frac", lw_advise_gain_frac(list, standard));
	lw_json_object_end(json);
}

void lw_advice_json(struct lw_json *json, const struct lw_advice_list *list)
{
	const struct lw_advice *advice;

	lw_json_object(json, "baseline");
	lw_json_figure(json, "step_ns", list->baseline_ns);
	lw_json_object_end(json);
	lw_json_array(json, "advice");
	lw_vec_foreach (advice, &list->advice)
		put_advice(json, advice);
	lw_json_array_end(json);
	put_findings(json, list, NULL);
	put_trials(json, list, "sensitivities", "sensitivity");
	put_trials(json, list, "scaling", "scaling.ranks");
	if (list->replay) {
		put_replay(json, list);
	} else {
		lw_json_null(json, "replay");
		lw_json_null(json, "defaults");
	}
}

static int put_places(
	struct lw_json *json, const struct lw_run *run, const struct lw_adviser *adviser)
{
	struct lw_idle_places places = {0};
	const struct lw_idle_place *place;
	int status = adviser->places ? adviser->places(run, &places) : LW_OK;

	lw_json_array(json, "places");
	lw_vec_foreach (place, &places.at) {
		lw_json_object(json, NULL);
		lw_json_int(json, "rank", place->rank);
		put_int_or_null(json, "step", place->step != LW_NONE, place->step);
		put_int_or_null(json, "step_mark", place->mark >= 0, place->mark);
		lw_json_int(json, "at_ns", place->at_ns);
		put_int_or_null(json, "into_step_ns", place->step != LW_NONE, place->into_ns);
		lw_json_int(json, "length_ns", place->length_ns);
		lw_json_string(json, "before", place->next);
		lw_json_string(json, "host_in", *place->host ? place->host : NULL);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
	lw_vec_free(&places.at);
	return status;
}

int lw_advice_explain_json(struct lw_json *json, const struct lw_advice_list *list,
	const struct lw_run *run, const char *id)
{
	const struct lw_adviser *adviser = lw_advise_adviser(id);
	int status;

	lw_json_object(json, "explain");
	lw_json_string(json, "id", id);
	lw_json_string(json, "title", adviser->title);
	put_findings(json, list, id);
	put_trials(json, list, "tried", id);
	lw_json_string(json, "assumes", adviser->assumes);
	lw_json_string(json, "wrong_if", adviser->wrong_if);
	lw_json_string(json, "check", adviser->check);
	status = put_places(json, run, adviser);
	lw_json_object_end(json);
	return status;
}
