/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/emit/answer.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "analyzer/advise/trial.h"
#include "analyzer/emit/quality.h"
#include "analyzer/simulate/whatif.h"
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

/* What is already there, or has no room, is not added. */
static void add_to(struct lw_grid_axis *axis, double value)
{
	size_t i = axis->n;

	for (size_t k = 0; k < axis->n; k++)
		if (axis->at[k] == value)
			return;
	if (axis->n == LW_GRID_MAX || !isfinite(value))
		return;
	for (; i > 0 && axis->at[i - 1] > value; i--)
		axis->at[i] = axis->at[i - 1];
	axis->at[i] = value;
	axis->n++;
}

static size_t index_of(const struct lw_grid_axis *axis, double value)
{
	for (size_t i = 0; i < axis->n; i++)
		if (axis->at[i] == value)
			return i;
	return SIZE_MAX;
}

/* @unit: of the labels; 0: they are sizes. */
static void label_axis(struct lw_grid_axis *axis, const char *title, double recorded, double unit)
{
	axis->title = title;
	axis->recorded = index_of(axis, recorded);
	for (size_t i = 0; i < axis->n; i++)
		if (unit > 0)
			snprintf(
				axis->label[i], sizeof(axis->label[i]), "%.4g", axis->at[i] / unit);
		else
			lw_bytes_format(axis->at[i], axis->label[i]);
}

static void recorded_setting(const struct lw_replay *replay, double *ret_row, double *ret_column)
{
	*ret_row = (double)(replay->is_ddp ? replay->ddp.setting.cap_bytes
					   : replay->setting.fusion_bytes);
	*ret_column = replay->is_ddp ? (double)replay->ddp.setting.first_bytes
				     : (double)replay->setting.cycle_ns;
}

/* What @whatif sets of the two axes; NAN: it leaves it as recorded. */
static void asked_setting(
	bool is_ddp, const struct lw_whatif *whatif, double *ret_row, double *ret_column)
{
	*ret_row = is_ddp ? whatif->bucket_cap_bytes : whatif->fusion_bytes;
	*ret_column = is_ddp ? whatif->first_bucket_bytes : whatif->cycle_ns;
	if (is_ddp && !(*ret_row > 0))
		*ret_row = NAN;
	if (!(*ret_column > 0))
		*ret_column = NAN;
}

/* The recorded setting, and whatever an advice sets. */
static void add_settings(struct lw_answer *answer)
{
	const struct lw_advice_list *list = answer->ask.advice;
	const struct lw_replay *replay = answer->predictor->replay;
	double row, column;

	recorded_setting(replay, &row, &column);
	add_to(&answer->rows, row);
	add_to(&answer->columns, column);
	for (size_t i = 0; list && i < list->advice.n; i++) {
		asked_setting(replay->is_ddp, &list->advice.at[i].whatif, &row, &column);
		add_to(&answer->rows, row);
		add_to(&answer->columns, column);
	}
}

/* The cell of the first advice that sets nothing else; advice is for the recorded job alone. */
static void find_advised(struct lw_answer *answer)
{
	const struct lw_advice_list *list = answer->ask.advice;
	const struct lw_replay *replay = answer->predictor->replay;

	if (!list || !lw_whatif_is_recorded(replay, &answer->ask.whatif))
		return;
	for (size_t i = 0; i < list->advice.n; i++) {
		struct lw_whatif whatif = list->advice.at[i].whatif, rest = whatif;
		double row, column, recorded_row, recorded_column;

		asked_setting(replay->is_ddp, &whatif, &row, &column);
		recorded_setting(replay, &recorded_row, &recorded_column);
		rest.fusion_bytes = LW_WHATIF_RECORDED.fusion_bytes;
		rest.cycle_ns = LW_WHATIF_RECORDED.cycle_ns;
		rest.bucket_cap_bytes = rest.first_bucket_bytes = 0;
		if ((isnan(row) && isnan(column)) || !lw_whatif_is_recorded(replay, &rest))
			continue;
		answer->is_advised = true;
		answer->advised =
			index_of(&answer->rows, isnan(row) ? recorded_row : row) *
				answer->columns.n +
			index_of(&answer->columns, isnan(column) ? recorded_column : column);
		return;
	}
}

/* Limits up to the first that holds a whole step; torch's own are 25 MiB, and 1 MiB of the first. */
static void add_limits(struct lw_answer *answer)
{
	static const double mib[] = {0.25, 1, 2, 4, 8, 16, 25, 50, 100};
	double step_bytes = lw_advise_step_bytes(answer->predictor->replay);
	size_t n = 0;

	do {
		add_to(&answer->rows, mib[n] * 1048576);
		add_to(&answer->columns, mib[n] * 1048576);
	} while (mib[n++] * 1048576 < step_bytes && n < sizeof(mib) / sizeof(mib[0]));
}

/* What the adviser tries first, and the usual cycles where it tries none so short. */
static void add_cycles(struct lw_answer *answer)
{
	static const double usual_ms[] = {0.5, 1, 2.5, 5, 10, 20, 50};
	struct lw_advise_grid grid;

	lw_advise_grid(answer->predictor->replay, &grid);
	for (size_t i = 0; i < sizeof(usual_ms) / sizeof(usual_ms[0]); i++)
		add_to(&answer->columns, usual_ms[i] * 1e6);
	for (size_t i = 0; i < grid.n_cycle; i++)
		add_to(&answer->columns, grid.cycle_ns[i]);
	for (size_t i = 0; i < grid.n_fusion; i++)
		add_to(&answer->rows, grid.fusion_bytes[i]);
}

static int choose_grid(struct lw_answer *answer)
{
	const struct lw_replay *replay = answer->predictor->replay;
	double row, column;

	if (replay->is_ddp && replay->ddp.why_fixed)
		return lw_fail(LW_ERR_UNSUPPORTED, "--grid: %s", replay->ddp.why_fixed);
	add_settings(answer); /* first: what matters most has room */
	if (replay->is_ddp)
		add_limits(answer);
	else
		add_cycles(answer);
	recorded_setting(replay, &row, &column);
	label_axis(&answer->rows, replay->is_ddp ? "bucket limit" : "fusion threshold", row, 0);
	label_axis(&answer->columns, replay->is_ddp ? "first bucket in MiB" : "cycle time in ms",
		column, replay->is_ddp ? 1048576 : 1e6);
	find_advised(answer);
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

	*ret_answer = (struct lw_answer){.predictor = predictor, .ask = *ask, .advised = SIZE_MAX};
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

/* The least goes first, whatever is faster. */
static int doubt_of(const struct lw_answer *answer, const struct lw_forecast *one)
{
	return 2 * lw_answer_is_extrapolated(answer, one) + lw_answer_is_short(answer, one);
}

const struct lw_forecast *lw_answer_best(const struct lw_answer *answer)
{
	const struct lw_forecast *best = NULL;

	if (answer->is_advised &&
		isfinite(answer->forecasts[answer->advised].prediction.step_ns.value))
		return &answer->forecasts[answer->advised];
	for (size_t i = 0; i < answer->n_forecasts; i++) {
		const struct lw_forecast *one = &answer->forecasts[i];
		int doubt;

		if (isnan(one->prediction.step_ns.value))
			continue;
		doubt = doubt_of(answer, one);
		if (!best || doubt < doubt_of(answer, best) ||
			(doubt == doubt_of(answer, best) &&
				one->prediction.step_ns.value < best->prediction.step_ns.value))
			best = one;
	}
	return best;
}

bool lw_answer_is_advised(const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	return answer->is_advised && forecast == &answer->forecasts[answer->advised];
}

bool lw_answer_is_recorded_cell(const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	size_t i = (size_t)(forecast - answer->forecasts);

	return i / answer->columns.n == answer->rows.recorded &&
	       i % answer->columns.n == answer->columns.recorded;
}

bool lw_answer_is_same(const struct lw_prediction *a, const struct lw_prediction *b)
{
	return a->n_ranks == b->n_ranks && a->step_ns.value == b->step_ns.value &&
	       a->totals.n_batches == b->totals.n_batches &&
	       a->totals.min_batch_bytes == b->totals.min_batch_bytes &&
	       a->totals.max_batch_bytes == b->totals.max_batch_bytes &&
	       a->totals.exposed_ns == b->totals.exposed_ns;
}

static bool is_as_recorded(const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	size_t recorded = answer->rows.recorded * answer->columns.n + answer->columns.recorded;

	return answer->ask.question == LW_ASK_GRID && lw_answer_is_made(answer, recorded) &&
	       !answer->forecasts[recorded].prediction.is_extrapolated &&
	       lw_answer_is_same(&answer->forecasts[recorded].prediction, &forecast->prediction);
}

bool lw_answer_is_extrapolated(const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	return forecast->prediction.is_extrapolated && !is_as_recorded(answer, forecast);
}

bool lw_answer_is_short(const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	const struct lw_replay *replay = answer->predictor->replay;

	return answer->ask.question == LW_ASK_GRID && !replay->is_ddp &&
	       !lw_answer_is_advised(answer, forecast) &&
	       forecast->prediction.cycle_ns < lw_advise_least_cycle_ns(replay);
}

char lw_answer_mark(const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	if (lw_answer_is_recorded_cell(answer, forecast))
		return 'r';
	if (forecast->prediction.is_extrapolated)
		return is_as_recorded(answer, forecast) ? '=' : 'x';
	return lw_answer_is_short(answer, forecast) ? 'c' : ' ';
}

const char *lw_answer_short_text(const struct lw_answer *answer, char text[LW_SHORT_TEXT_BYTES])
{
	const struct lw_replay *replay = answer->predictor->replay;
	char round[LW_UNIT_TEXT_BYTES], least[LW_UNIT_TEXT_BYTES];

	snprintf(text, LW_SHORT_TEXT_BYTES,
		"the loop would do little but coordinate, %s a round: cycles under %s were not tried for advice",
		lw_ns_format(replay->cost.round_ns, round),
		lw_ns_format(lw_advise_least_cycle_ns(replay), least));
	return text;
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
	else if (prediction->is_extrapolated && replay->probe == LW_FIT_PROBE_NONE)
		snprintf(text, LW_WOULD_TELL_BYTES, "a run of this setting");
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
