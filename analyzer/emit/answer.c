/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/answer.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "analyzer/emit/quality.h"
#include "base/units.h"

enum { MAX_RANKS = 65536 };

static void add_ranks(struct lw_answer *answer, uint32_t n_ranks)
{
	size_t i = answer->n_curve;

	for (size_t k = 0; k < answer->n_curve; k++)
		if (answer->curve[k] == n_ranks)
			return;
	for (; i > 0 && answer->curve[i - 1] > n_ranks; i--)
		answer->curve[i] = answer->curve[i - 1];
	answer->curve[i] = n_ranks;
	answer->n_curve++;
}

/* 1, 2, 4, ..., the recorded number where it belongs, and the last one that was asked for. */
static void choose_ranks(struct lw_answer *answer)
{
	uint32_t recorded = answer->predictor->replay->input.n_ranks;
	uint32_t asked = answer->ask.whatif.n_ranks, last = asked;

	if (last == 0)
		last = recorded > 16 ? 4 * recorded : 64;
	last = last < MAX_RANKS ? last : MAX_RANKS;
	for (uint32_t ranks = 1; ranks <= last; ranks *= 2)
		add_ranks(answer, ranks);
	if (recorded <= last)
		add_ranks(answer, recorded);
	if (asked)
		add_ranks(answer, last);
}

static void add_value(struct lw_grid_axis *axis, double value, double unit)
{
	size_t i = axis->n++;

	axis->at[i] = value;
	if (unit > 0)
		snprintf(axis->label[i], sizeof(axis->label[i]), "%.4g", value / unit);
	else
		lw_bytes_format(value, axis->label[i]);
}

/* @values ascend; the recorded one is added in its place. @unit: of the labels; 0: they are sizes. */
static void set_axis(struct lw_grid_axis *axis, const char *title, const double *values, size_t n,
	double recorded, double unit)
{
	bool has_recorded = false;

	*axis = (struct lw_grid_axis){.title = title};
	for (size_t i = 0; i <= n && axis->n < LW_GRID_MAX; i++) {
		if (!has_recorded && (i == n || values[i] >= recorded)) {
			axis->recorded = axis->n;
			add_value(axis, recorded, unit);
			has_recorded = true;
		}
		if (i < n && values[i] != recorded)
			add_value(axis, values[i], unit);
	}
}

/* Limits up to the first that holds a whole step; torch's own are 25 MiB, and 1 MiB of the first. */
static void set_bucket_axes(const struct lw_replay *replay, struct lw_answer *answer)
{
	static const double mib[] = {0.25, 1, 2, 4, 8, 16, 25, 50, 100};
	double bytes[sizeof(mib) / sizeof(mib[0])], step_bytes = 0;
	size_t n = 0;

	for (uint32_t t = 0; t < replay->input.n_tensors; t++)
		step_bytes += (double)replay->tensors[t].bytes;
	do
		bytes[n] = mib[n] * 1048576;
	while (bytes[n++] < step_bytes && n < sizeof(mib) / sizeof(mib[0]));
	set_axis(&answer->rows, "bucket limit", bytes, n, (double)replay->ddp.setting.cap_bytes, 0);
	set_axis(&answer->columns, "first bucket in MiB", bytes, n,
		(double)replay->ddp.setting.first_bytes, 1048576);
}

static int choose_grid(struct lw_answer *answer)
{
	const struct lw_replay *replay = answer->predictor->replay;
	struct lw_advise_grid grid;

	if (replay->is_ddp && replay->ddp.why_fixed)
		return lw_fail(LW_ERR_UNSUPPORTED, "--grid: %s", replay->ddp.why_fixed);
	if (replay->is_ddp) {
		set_bucket_axes(replay, answer);
		return LW_OK;
	}
	lw_advise_grid(replay, &grid);
	set_axis(&answer->rows, "fusion threshold", grid.fusion_bytes, grid.n_fusion,
		(double)replay->setting.fusion_bytes, 0);
	set_axis(&answer->columns, "cycle time in ms", grid.cycle_ns, grid.n_cycle,
		(double)replay->setting.cycle_ns, 1e6);
	return LW_OK;
}

static int choose_settings(struct lw_answer *answer)
{
	int status = LW_OK;

	answer->n_forecasts = 1;
	switch (answer->ask.question) {
	case LW_ASK_ONE:
		break;
	case LW_ASK_GRID:
		status = choose_grid(answer);
		answer->n_forecasts = answer->rows.n * answer->columns.n;
		break;
	case LW_ASK_SCALING:
		choose_ranks(answer);
		answer->n_forecasts = answer->n_curve;
		break;
	case LW_ASK_MODELS:
		lw_models(&answer->n_forecasts);
		break;
	}
	return status;
}

bool lw_answer_is_made(const struct lw_answer *answer, size_t i)
{
	return answer->forecasts[i].model != NULL;
}

int lw_answer_one(struct lw_answer *answer, size_t i)
{
	const struct lw_model *model = answer->ask.model;
	struct lw_whatif whatif = answer->ask.whatif;
	size_t n_models;
	int status;

	if (lw_answer_is_made(answer, i))
		return LW_OK;
	if (answer->ask.question == LW_ASK_GRID) {
		double row = answer->rows.at[i / answer->columns.n];
		double column = answer->columns.at[i % answer->columns.n];
		bool is_ddp = answer->predictor->replay->is_ddp;

		*(is_ddp ? &whatif.bucket_cap_bytes : &whatif.fusion_bytes) = row;
		*(is_ddp ? &whatif.first_bucket_bytes : &whatif.cycle_ns) = column;
	} else if (answer->ask.question == LW_ASK_SCALING) {
		whatif.n_ranks = answer->curve[i];
	} else if (answer->ask.question == LW_ASK_MODELS) {
		model = &lw_models(&n_models)[i];
	}
	status = lw_forecast(answer->predictor, model, &whatif, &answer->forecasts[i]);
	if (status < 0)
		answer->forecasts[i].prediction.step_ns.value = NAN;
	return status;
}

int lw_answer_begin(
	struct lw_predictor *predictor, const struct lw_ask *ask, struct lw_answer *ret_answer)
{
	int status;

	*ret_answer = (struct lw_answer){.predictor = predictor, .ask = *ask};
	status = choose_settings(ret_answer);
	if (status < 0)
		return status;
	ret_answer->forecasts = calloc(ret_answer->n_forecasts, sizeof(*ret_answer->forecasts));
	if (!ret_answer->forecasts)
		return lw_fail(
			LW_ERR_NOMEM, "no memory for %zu predictions", ret_answer->n_forecasts);
	for (size_t i = 0; i < ret_answer->n_forecasts; i++)
		ret_answer->forecasts[i].prediction.step_ns.value = NAN;
	return LW_OK;
}

int lw_answer(
	struct lw_predictor *predictor, const struct lw_ask *ask, struct lw_answer *ret_answer)
{
	int status = lw_answer_begin(predictor, ask, ret_answer);

	for (size_t i = 0; status == LW_OK && i < ret_answer->n_forecasts; i++) {
		if (ask->progress)
			ask->progress(i, ret_answer->n_forecasts);
		status = lw_answer_one(ret_answer, i);
	}
	return status;
}

void lw_answer_done(struct lw_answer *answer)
{
	free(answer->forecasts);
}

const struct lw_forecast *lw_answer_best(const struct lw_answer *answer)
{
	const struct lw_forecast *best = NULL;

	for (size_t i = 0; i < answer->n_forecasts; i++) {
		const struct lw_forecast *one = &answer->forecasts[i];
		bool is_unsure = one->prediction.is_extrapolated;

		if (isnan(one->prediction.step_ns.value))
			continue;
		if (!best || (best->prediction.is_extrapolated && !is_unsure) ||
			(best->prediction.is_extrapolated == is_unsure &&
				one->prediction.step_ns.value < best->prediction.step_ns.value))
			best = one;
	}
	return best;
}

bool lw_answer_is_recorded_cell(const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	size_t i = (size_t)(forecast - answer->forecasts);

	return i / answer->columns.n == answer->rows.recorded &&
	       i % answer->columns.n == answer->columns.recorded;
}

struct lw_figure lw_answer_efficiency(
	const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	const struct lw_figure *step_ns = &forecast->prediction.step_ns;
	double one_ns = answer->forecasts[0].prediction.step_ns.value;

	if (forecast == answer->forecasts) /* of one rank: by definition */
		return (struct lw_figure){1, 1, 1, LW_ASSUMED, NULL};
	/* what is wrong of one rank is wrong of all by much the same, so it is left out; no step is
	 * shorter than that of one rank, which sends nothing */
	return (struct lw_figure){one_ns / step_ns->value, one_ns / step_ns->high,
		step_ns->low < one_ns ? 1 : one_ns / step_ns->low, step_ns->how, step_ns->why};
}

double lw_answer_model_error(const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	double measured_ns = answer->predictor->recorded_ns.value;
	double base_ns = forecast->base_ns.value;

	if (forecast->model->is_corrected)
		base_ns -= answer->predictor->replay->bias_ns;
	return base_ns / measured_ns - 1;
}

double lw_answer_replay_adds_ns(const struct lw_forecast *forecast)
{
	const struct lw_prediction_error *error = &forecast->prediction.error;
	double others = pow(error->steps_ns, 2) + pow(error->costs_ns, 2) +
			pow(error->settings_ns, 2) + pow(error->ranks_ns, 2);

	return sqrt(others + pow(error->replay_ns, 2)) - sqrt(others);
}

const char *lw_answer_would_tell(const struct lw_answer *answer, const struct lw_forecast *forecast,
	char text[LW_WOULD_TELL_BYTES])
{
	const struct lw_prediction *prediction = &forecast->prediction;
	const struct lw_replay *replay = answer->predictor->replay;
	bool is_one = replay->min_batch_bytes == replay->max_batch_bytes;
	char least[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES];

	text[0] = '\0';
	if (prediction->n_ranks != replay->input.n_ranks)
		snprintf(text, LW_WOULD_TELL_BYTES, "a run on %u rank%s", prediction->n_ranks,
			prediction->n_ranks == 1 ? "" : "s");
	else if (prediction->is_extrapolated && replay->is_ddp)
		snprintf(text, LW_WOULD_TELL_BYTES, "a run with bucket_cap_mb=%g",
			prediction->bucket_cap_bytes / 1048576);
	else if (prediction->is_extrapolated && answer->predictor->run->probes.n > 0)
		snprintf(text, LW_WOULD_TELL_BYTES,
			"a run of this setting: the probe of this one does not reach so far, or not while training threads wait");
	else if (prediction->is_extrapolated)
		snprintf(text, LW_WOULD_TELL_BYTES,
			"a run recorded with `lapwing record --probe`, which also measures operations of other sizes: this one holds %s%s%s",
			lw_bytes_format((double)replay->min_batch_bytes, least),
			is_one ? " alone" : " to ",
			is_one ? "" : lw_bytes_format((double)replay->max_batch_bytes, most));
	return text;
}

static void append(char text[LW_SETTING_TEXT_BYTES], size_t *n, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void append(char text[LW_SETTING_TEXT_BYTES], size_t *n, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (*n < LW_SETTING_TEXT_BYTES)
		*n += (size_t)vsnprintf(text + *n, LW_SETTING_TEXT_BYTES - *n, format, args);
	va_end(args);
}

const char *lw_answer_setting(const struct lw_answer *answer,
	const struct lw_prediction *prediction, const struct lw_whatif *whatif,
	char text[LW_SETTING_TEXT_BYTES])
{
	const struct {
		const char *name;
		double frac;
	} fracs[] = {{"bandwidth", whatif->bandwidth_frac}, {"latency", whatif->latency_frac},
		{"compute", whatif->compute_frac}};
	const struct lw_replay *replay = answer->predictor->replay;
	char bytes[LW_UNIT_TEXT_BYTES], first[LW_UNIT_TEXT_BYTES], ranks[LW_RANKS_TEXT_BYTES];
	size_t n = 0;

	if (replay->is_ddp && replay->ddp.why_fixed)
		append(text, &n, "buckets as recorded");
	else if (replay->is_ddp)
		append(text, &n, "buckets of %s, the first of %s",
			lw_bytes_format(prediction->bucket_cap_bytes, bytes),
			lw_bytes_format(prediction->first_bucket_bytes, first));
	else
		append(text, &n, "fusion threshold %s, cycle %g ms",
			lw_bytes_format(prediction->fusion_bytes, bytes),
			prediction->cycle_ns / 1e6);
	append(text, &n, ", %s",
		lw_quality_ranks(answer->predictor->run, prediction->n_ranks, ranks));
	for (size_t i = 0; i < sizeof(fracs) / sizeof(fracs[0]); i++)
		if (fracs[i].frac != 1)
			append(text, &n, ", %s %g of the recorded", fracs[i].name, fracs[i].frac);
	if (whatif->n_groups > 0)
		append(text, &n, ", %u explicit group%s", whatif->n_groups,
			whatif->n_groups == 1 ? "" : "s");
	if (prediction->n_passes > 1)
		append(text, &n, ", %u backward passes a step", prediction->n_passes);
	if (whatif->wire_frac > 0 && whatif->wire_frac != 1)
		append(text, &n, ", gradients sent in %g bits", 32 * whatif->wire_frac);
	if (whatif->is_balanced)
		append(text, &n, ", no straggler");
	return text;
}
