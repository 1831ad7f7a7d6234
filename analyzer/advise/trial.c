/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/advise/trial.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/fit/fit.h"
#include "base/units.h"

static const double MIN_CYCLE_ROUNDS = 8; /* a cycle of fewer rounds' cost would only coordinate */
static const double MIN_CYCLE_NS = 250000;
static const double MIN_GAIN_FRAC = 0.005; /* less than repeats of the same job differ by */

int lw_advise_base(struct lw_advice_list *list)
{
	size_t n = lw_replay_n(list->replay);

	list->base_ns = malloc(2 * n * sizeof(*list->base_ns));
	if (!list->base_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory to compare %zu steps", n);
	list->other_ns = list->base_ns + n;
	return lw_replay_predict(list->replay, &LW_WHATIF_RECORDED, &list->base, list->base_ns);
}

/* Advisers use their grouping again for the next trial: a trial has its own. */
static int keep_whatif(
	struct lw_advice_list *list, const struct lw_whatif *whatif, struct lw_trial *trial)
{
	size_t n_bytes = list->replay->input.n_tensors * sizeof(*whatif->group_of);
	int32_t *group_of;

	trial->whatif = *whatif;
	if (!whatif->group_of)
		return LW_OK;
	group_of = malloc(n_bytes + 1);
	if (!group_of || lw_vec_push(&list->groupings, group_of) < 0) {
		free(group_of);
		return lw_fail(LW_ERR_NOMEM, "no memory for a grouping");
	}
	trial->whatif.group_of = memcpy(group_of, whatif->group_of, n_bytes);
	return LW_OK;
}

int lw_advise_try(struct lw_advice_list *list, const char *id, const struct lw_whatif *whatif,
	struct lw_trial *ret_trial, const char *label, ...)
{
	struct lw_trial trial = {.id = id};
	const struct lw_prediction *prediction = &trial.prediction;
	va_list arguments;
	int status = lw_replay_predict(list->replay, whatif, &trial.prediction, list->other_ns);

	if (status == LW_OK)
		status = keep_whatif(list, whatif, &trial);
	if (status < 0)
		return status;
	va_start(arguments, label);
	vsnprintf(trial.label, sizeof(trial.label), label, arguments);
	va_end(arguments);
	trial.step_ns = prediction->step_ns;
	trial.step_ns.value /= prediction->n_passes;
	trial.step_ns.low /= prediction->n_passes;
	trial.step_ns.high /= prediction->n_passes;
	trial.gain_ns = lw_replay_gain(
		list->replay, &list->base, list->base_ns, prediction, list->other_ns);
	trial.gain_ns.how = prediction->step_ns.how;
	trial.gain_ns.why = prediction->step_ns.why;
	if (prediction->is_recorded)
		trial.gain_ns.low = trial.gain_ns.high = 0;
	if (ret_trial)
		*ret_trial = trial;
	return lw_vec_push(&list->tried, trial);
}

double lw_advise_least_cycle_ns(const struct lw_replay *replay)
{
	double least_ns = fmax(MIN_CYCLE_ROUNDS * replay->cost.round_ns, MIN_CYCLE_NS);

	return fmin(least_ns, (double)replay->setting.cycle_ns);
}

double lw_advise_step_bytes(const struct lw_replay *replay)
{
	double bytes = 0;

	for (uint32_t t = 0; t < replay->input.n_tensors; t++)
		bytes += (double)replay->tensors[t].bytes;
	return bytes;
}

void lw_advise_hosts(const struct lw_run *run, int *ret_n_hosts, int *ret_n_per_host)
{
	int n_hosts = 0, n_per_host = 0;

	for (size_t r = 0; r < run->ranks.n; r++) {
		bool is_first = true;
		int n = 0;

		for (size_t other = 0; other < run->ranks.n; other++)
			if (!strcmp(run->ranks.at[other].host, run->ranks.at[r].host)) {
				is_first = is_first && other >= r;
				n++;
			}
		n_hosts += is_first;
		n_per_host = r == 0 || n == n_per_host ? n : -1;
	}
	*ret_n_hosts = n_hosts;
	*ret_n_per_host = n_per_host > 0 ? n_per_host : 0;
}

double lw_advise_nearly_ns(const struct lw_advice_list *list)
{
	static const double nearly_frac = 0.005;

	return nearly_frac * list->base.step_ns.value;
}

bool lw_advise_is_sure(const struct lw_advice_list *list, const struct lw_trial *trial)
{
	return trial->gain_ns.low > MIN_GAIN_FRAC * list->base.step_ns.value;
}

const char *lw_advise_none_better(const struct lw_advice_list *list, size_t first, const char *what,
	char text[LW_ADVICE_TEXT_BYTES])
{
	double most_frac = 0;
	size_t n_others = list->tried.n - first - 1, n_perhaps = 0, n;

	for (size_t i = first; i < list->tried.n; i++) {
		const struct lw_trial *trial = &list->tried.at[i];
		double gain_frac = trial->gain_ns.value / list->base.step_ns.value;

		if (!trial->prediction.is_extrapolated || !(gain_frac > MIN_GAIN_FRAC))
			continue;
		most_frac = gain_frac > most_frac ? gain_frac : most_frac;
		n_perhaps++;
	}
	n = (size_t)snprintf(text, LW_ADVICE_TEXT_BYTES,
		"none of %zu %s is predicted to be more than %g %% faster", n_others - n_perhaps,
		what, 100 * MIN_GAIN_FRAC);
	if (n_perhaps)
		snprintf(text + n, LW_ADVICE_TEXT_BYTES - n,
			"; %zu more might be, by up to %.0f %%, but send sizes that this run does not hold: measure them",
			n_perhaps, 100 * most_frac);
	return text;
}

bool lw_advise_is_blind(const struct lw_advice_list *list, const struct lw_trial *trial)
{
	const struct lw_figure *gain = &trial->gain_ns;

	return gain->low < 0 && gain->high > 0 && gain->high - gain->low > list->base.step_ns.value;
}

bool lw_advise_is_eaten(const struct lw_advice_list *list, const struct lw_trial *trial)
{
	double cores_ns = trial->prediction.error.cores_ns / trial->prediction.n_passes;

	return !lw_advise_is_sure(list, trial) &&
	       trial->gain_ns.low + cores_ns > MIN_GAIN_FRAC * list->base.step_ns.value;
}

const char *lw_advise_probe_tells(const struct lw_replay *replay)
{
	static const char *const texts[] = {"",
		". A run recorded with `lapwing record --probe` would tell",
		". A run recorded with `lapwing record --probe` would tell" LW_FIT_TORCH_PROBE};

	return texts[replay->probe];
}

int lw_advise_cannot_tell(
	struct lw_advice_list *list, const char *id, const struct lw_trial *trial, const char *what)
{
	char least[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES], bytes[LW_UNIT_TEXT_BYTES];

	return lw_advise_find(list, id,
		"what %s would bring cannot be told: a step of %s to %s. All operations of this run carry about %s, so what of their cost grows with the bytes is not known%s",
		what, lw_ns_format(trial->step_ns.low, least),
		lw_ns_format(trial->step_ns.high, most),
		lw_bytes_format((double)list->replay->max_batch_bytes, bytes),
		lw_advise_probe_tells(list->replay));
}

struct lw_figure lw_advise_gain_frac(
	const struct lw_advice_list *list, const struct lw_trial *trial)
{
	double base_ns = list->base.step_ns.value;
	struct lw_figure gain = trial->gain_ns;

	gain.value /= base_ns;
	gain.low /= base_ns;
	gain.high /= base_ns;
	return gain;
}

int lw_advise_add(struct lw_advice_list *list, const struct lw_adviser *self,
	enum lw_advice_kind kind, const struct lw_trial *trial, struct lw_advice **ret_advice)
{
	const struct lw_prediction *prediction = &trial->prediction;
	struct lw_advice advice = {.id = self->id,
		.title = self->title,
		.kind = kind,
		.prediction = *prediction,
		.whatif = trial->whatif};

	snprintf(advice.sure, sizeof(advice.sure),
		"replayed over %u steps; the replay of the %s was off by %.1f %%%s%s",
		list->replay->n_steps,
		list->replay->is_setting_known || list->replay->is_ddp ? "recorded setting"
								       : "assumed default",
		100 * list->replay->error_frac,
		prediction->is_extrapolated ? "; extrapolated: "
		: prediction->step_ns.why   ? "; "
					    : "",
		prediction->step_ns.why ? prediction->step_ns.why : "");
	advice.step_ns = trial->step_ns;
	advice.gain_frac = lw_advise_gain_frac(list, trial);
	if (lw_vec_push(&list->advice, advice) < 0)
		return LW_ERR_NOMEM;
	*ret_advice = &list->advice.at[list->advice.n - 1];
	return LW_OK;
}

void lw_advise_set(struct lw_advice *advice, const char *name, const char *format, ...)
{
	struct lw_advice_set *set = &advice->set[advice->n_sets++];
	va_list arguments;

	set->name = name;
	va_start(arguments, format);
	vsnprintf(set->value, sizeof(set->value), format, arguments);
	va_end(arguments);
}

int lw_advise_code(struct lw_advice *advice, const char *format, ...)
{
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vasprintf(&advice->code, format, arguments);
	va_end(arguments);
	if (n >= 0)
		return LW_OK;
	advice->code = NULL;
	return lw_fail(LW_ERR_NOMEM, "no memory for the lines of an advice");
}

const char *lw_advise_gain_text(
	const struct lw_advice_list *list, const struct lw_trial *trial, char text[128])
{
	char from[LW_UNIT_TEXT_BYTES], to[LW_UNIT_TEXT_BYTES];
	double base_ns = list->base.step_ns.value;

	bool is_more = trial->gain_ns.value < 0;
	double low_ns = is_more ? -trial->gain_ns.high : trial->gain_ns.low;
	double high_ns = is_more ? -trial->gain_ns.low : trial->gain_ns.high;

	snprintf(text, 128, "from %s to %s, %.1f %% %s (%.1f to %.1f)", lw_ns_format(base_ns, from),
		lw_ns_format(trial->step_ns.value, to), 100 * fabs(trial->gain_ns.value) / base_ns,
		is_more ? "more" : "less", 100 * low_ns / base_ns, 100 * high_ns / base_ns);
	return text;
}
