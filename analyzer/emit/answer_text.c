/* SPDX-License-Identifier: Apache-2.0 */
/* answer_text.c - what predict answers, as text of less than 80 columns. */
#include <math.h>
#include <stdarg.h>

#include "analyzer/emit/answer.h"
#include "analyzer/emit/quality.h"
#include "analyzer/emit/report.h"
#include "analyzer/emit/wrap.h"
#include "base/units.h"

enum { LABEL_WIDTH = 11, TITLE_AT = 35 };

static void say(FILE *out, const char *label, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* "label      text", wrapped under itself. */
static void say(FILE *out, const char *label, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(out, "%-*s", LABEL_WIDTH, label);
	lw_print_wrapped(out, LABEL_WIDTH, LABEL_WIDTH, text);
}

static void say_recorded(const struct lw_answer *answer, FILE *out)
{
	const struct lw_replay *replay = answer->predictor->replay;
	struct lw_prediction recorded = {.fusion_bytes = (double)replay->setting.fusion_bytes,
		.cycle_ns = (double)replay->setting.cycle_ns,
		.bucket_cap_bytes = (double)replay->ddp.setting.cap_bytes,
		.first_bucket_bytes = (double)replay->ddp.setting.first_bytes,
		.n_ranks = replay->input.n_ranks};
	char setting[LW_SETTING_TEXT_BYTES], step[LW_UNIT_TEXT_BYTES];

	say(out, replay->is_ddp || replay->is_setting_known ? "recorded" : "assumed",
		"%s: %s a step, measured (middle half of %u%s)",
		lw_answer_setting(answer, &recorded, &LW_WHATIF_RECORDED, setting),
		lw_ns_format(answer->predictor->recorded_ns.value, step), replay->n_steps,
		lw_run_diag_text(answer->predictor->run, LW_STEP_TWO_LENGTHS)
			? ", which are of two lengths"
			: "");
}

/* "132 ms a step (95 %: 130 ms to 135 ms), 3.1 % less" */
static void write_step(const struct lw_forecast *forecast, char text[160])
{
	const struct lw_prediction *prediction = &forecast->prediction;
	const struct lw_figure *step_ns = &prediction->step_ns;
	char step[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];
	size_t n;

	if (isnan(step_ns->value)) {
		snprintf(text, 160, "not known");
		return;
	}
	n = (size_t)snprintf(text, 160, "%s a step", lw_ns_format(step_ns->value, step));
	if (isfinite(step_ns->low))
		n += (size_t)snprintf(text + n, 160 - n, " (95 %%: %s to %s)",
			lw_ns_format(step_ns->low, low), lw_ns_format(step_ns->high, high));
	if (!prediction->is_recorded && isfinite(forecast->gain_frac))
		snprintf(text + n, 160 - n, ", %.1f %% %s%s", 100 * fabs(forecast->gain_frac),
			forecast->gain_frac < 0 ? "more" : "less",
			prediction->n_passes > 1 ? " for each pass" : "");
}

/* What the model says of the recorded setting, and what that means for the rest. */
static void say_sure(const struct lw_answer *answer, const struct lw_forecast *forecast, FILE *out)
{
	static const char *const where[] = {
		"", " at the best setting", " on most ranks", " of the first of them"};
	const struct lw_replay *replay = answer->predictor->replay;
	const char *model = lw_model_name(forecast->model, answer->predictor);
	double error_frac = lw_answer_model_error(answer, forecast);
	double adds_ns = lw_answer_replay_adds_ns(forecast);
	char base[LW_UNIT_TEXT_BYTES], half[LW_UNIT_TEXT_BYTES], adds[LW_UNIT_TEXT_BYTES];
	const struct lw_figure *step_ns = &forecast->prediction.step_ns;

	if (!forecast->model->is_corrected) {
		if (isfinite(error_frac))
			say(out, "baseline",
				"%s says %s of the recorded setting, %.1f %% %s than measured; changes are against that",
				model, lw_ns_format(forecast->base_ns.value, base),
				100 * fabs(error_frac), error_frac < 0 ? "less" : "more");
		else
			say(out, "baseline", "%s says nothing of the recorded setting", model);
		say(out, "how sure", "%s; not corrected by what it misses of the recorded setting",
			forecast->model->title);
		return;
	}
	say(out, "how sure",
		"replayed as recorded, a step comes out %s too %s (%.1f %%): predictions are corrected by that, and intervals wider for it, by %s of the +-%s%s",
		lw_ns_format(fabs(replay->bias_ns), base), error_frac < 0 ? "short" : "long",
		100 * fabs(error_frac), lw_ns_format(adds_ns, adds),
		lw_ns_format((step_ns->high - step_ns->low) / 2, half),
		where[answer->ask.question]);
}

static void say_unsure(
	const struct lw_answer *answer, const struct lw_forecast *forecast, FILE *out)
{
	const struct lw_prediction *prediction = &forecast->prediction;
	char text[LW_WOULD_TELL_BYTES];

	if (prediction->step_ns.why)
		say(out, "note", "%s%s", prediction->is_extrapolated ? "extrapolated: " : "",
			prediction->step_ns.why);
	if (prediction->is_extrapolated && answer->predictor->replay->n_missing_ranks > 0)
		say(out, "note",
			"%u ranks of the job are not in this run: costs are those of the others",
			answer->predictor->replay->n_missing_ranks);
	if (lw_answer_would_tell(answer, forecast, text)[0])
		say(out, "would tell", "%s", text);
}

static void say_scaling(const struct lw_forecast *forecast, FILE *out)
{
	static const char *const titles[] = {"CSF", "OSF", "OSF_f"};
	char text[160];
	size_t n = 0;

	for (size_t i = 0; i <= LW_SCALING_OSF_F; i++) {
		double factor = forecast->scaling[i].value;

		n += (size_t)snprintf(text + n, sizeof(text) - n,
			isnan(factor) ? "%s not known  " : "%s %.3f  ", titles[i], factor);
	}
	say(out, "scaling", "%s (closed models, on the costs of this run)", text);
}

static void print_one(const struct lw_answer *answer, FILE *out)
{
	const struct lw_forecast *forecast = answer->forecasts;
	const struct lw_prediction *prediction = &forecast->prediction;
	char setting[LW_SETTING_TEXT_BYTES], step[160];

	write_step(forecast, step);
	say(out, lw_how_name(prediction->step_ns.how), "%s: %s",
		lw_answer_setting(answer, prediction, &forecast->whatif, setting), step);
	say_sure(answer, forecast, out);
	say_unsure(answer, forecast, out);
	say_scaling(forecast, out);
}

/* ---- tables ------------------------------------------------------------------------------------ */

/* One unit for a whole table, so that numbers can be compared: at most 5 characters. */
struct unit {
	const char *name;
	double ns;
	int decimals;
};

static struct unit unit_of(const struct lw_answer *answer)
{
	double most_ns = 0;

	for (size_t i = 0; i < answer->n_forecasts; i++)
		most_ns = fmax(most_ns, answer->forecasts[i].prediction.step_ns.value);
	if (most_ns >= 99999.5e6)
		return (struct unit){"s", 1e9, most_ns < 999.95e9 ? 1 : 0};
	return (struct unit){"ms", 1e6,
		most_ns < 9.9995e6   ? 3
		: most_ns < 99.995e6 ? 2
		: most_ns < 999.95e6 ? 1
				     : 0};
}

static void print_cell(const struct lw_answer *answer, const struct unit *unit, size_t i, FILE *out)
{
	const struct lw_forecast *forecast = &answer->forecasts[i];
	char best = forecast == lw_answer_best(answer) ? '*' : ' ';

	if (isnan(forecast->prediction.step_ns.value))
		fprintf(out, "%c%5s ", best, "?");
	else
		fprintf(out, "%c%5.*f%c", best, unit->decimals,
			forecast->prediction.step_ns.value / unit->ns,
			lw_answer_mark(answer, forecast));
}

/* The first that is, NULL = none. */
static const struct lw_forecast *any_that(const struct lw_answer *answer,
	bool (*is)(const struct lw_answer *, const struct lw_forecast *))
{
	for (size_t i = 0; i < answer->n_forecasts; i++)
		if (is(answer, &answer->forecasts[i]))
			return &answer->forecasts[i];
	return NULL;
}

static void say_best(const struct lw_answer *answer, const struct lw_forecast *best, FILE *out)
{
	char setting[LW_SETTING_TEXT_BYTES], step[160];
	const struct lw_figure *step_ns = &best->prediction.step_ns;
	bool is_recorded = lw_answer_is_recorded_cell(answer, best);
	bool is_advised = lw_answer_is_advised(answer, best);

	write_step(best, step);
	say(out, is_advised ? "* advised" : "* best", "%s: %s%s",
		lw_answer_setting(answer, &best->prediction, &best->whatif, setting), step,
		is_recorded                           ? "; it is the recorded one"
		: is_advised                          ? ""
		: step_ns->high > best->base_ns.value ? "; that is no more than its error"
						      : "");
}

static bool is_elsewhere(const struct lw_whatif *whatif)
{
	return whatif->n_ranks || whatif->bandwidth_frac != 1 || whatif->latency_frac != 1;
}

/* As many columns as a line holds, and the others below them. */
enum { ROW_WIDTH = 9, COLUMN_WIDTH = 7, MOST_COLUMNS = (79 - ROW_WIDTH) / COLUMN_WIDTH };

static void print_cells(const struct lw_answer *answer, FILE *out)
{
	const struct lw_grid_axis *rows = &answer->rows, *columns = &answer->columns;
	struct unit unit = unit_of(answer);

	fprintf(out, "\npredicted step in %s; rows: %s, columns: %s\n", unit.name, rows->title,
		columns->title);
	for (size_t from = 0; from < columns->n; from += MOST_COLUMNS) {
		size_t to = from + MOST_COLUMNS < columns->n ? from + MOST_COLUMNS : columns->n;

		fprintf(out, "\n%*s", ROW_WIDTH, "");
		for (size_t c = from; c < to; c++)
			fprintf(out, "%6s ", columns->label[c]);
		fprintf(out, "\n");
		for (size_t r = 0; r < rows->n; r++) {
			fprintf(out, "%-*s", ROW_WIDTH, rows->label[r]);
			for (size_t c = from; c < to; c++)
				print_cell(answer, &unit, r * columns->n + c, out);
			fprintf(out, "\n");
		}
	}
	fprintf(out, "\n");
}

static bool is_marked_same(const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	return lw_answer_mark(answer, forecast) == '=';
}

static bool is_marked_short(const struct lw_answer *answer, const struct lw_forecast *forecast)
{
	return lw_answer_mark(answer, forecast) == 'c';
}

static void print_grid(const struct lw_answer *answer, FILE *out)
{
	const struct lw_forecast *best = lw_answer_best(answer);
	const struct lw_forecast *unsure = any_that(answer, lw_answer_is_extrapolated);
	char text[LW_WOULD_TELL_BYTES], why[LW_SHORT_TEXT_BYTES];

	print_cells(answer, out);
	if (best)
		say_best(answer, best, out);
	say(out, "r recorded", "where this run stands");
	if (any_that(answer, is_marked_same))
		say(out, "= same", "sends what the recorded setting sends");
	if (unsure)
		say(out, "x unsure", "extrapolated: they %s",
			is_elsewhere(&answer->ask.whatif)
				? "are of another network, or other ranks, than this run can tell of"
				: "send operations of sizes that this run does not hold");
	if (any_that(answer, is_marked_short))
		say(out, "c cycle", "%s", lw_answer_short_text(answer, why));
	say_sure(answer, best ? best : answer->forecasts, out);
	if (unsure)
		say(out, "would tell", "%s", lw_answer_would_tell(answer, unsure, text));
}

static void print_scaling(const struct lw_answer *answer, FILE *out)
{
	const struct lw_forecast *last = &answer->forecasts[answer->n_forecasts - 1];
	const struct lw_forecast *unsure = any_that(answer, lw_answer_is_extrapolated);

	fprintf(out, "\n%7s %10s %21s %11s %15s %9s\n", "ranks", "step", "95 %", "efficiency",
		"95 %", "speed-up");
	for (size_t i = 0; i < answer->n_forecasts; i++) {
		const struct lw_forecast *one = &answer->forecasts[i];
		struct lw_figure step_ns = one->prediction.step_ns;
		struct lw_figure efficiency = lw_answer_efficiency(answer, one);
		char step[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];
		char step_range[2 * LW_UNIT_TEXT_BYTES + 8] = "", frac_range[32] = "";

		if (isfinite(step_ns.low))
			snprintf(step_range, sizeof(step_range), "%s - %s",
				lw_ns_format(step_ns.low, low), lw_ns_format(step_ns.high, high));
		if (isfinite(efficiency.low) && i > 0)
			snprintf(frac_range, sizeof(frac_range), "%.1f - %.1f %%",
				100 * efficiency.low, 100 * efficiency.high);
		fprintf(out, "%6u%c %10s %21s %9.1f %% %15s %9.2f\n", one->prediction.n_ranks,
			one->prediction.is_recorded       ? 'r'
			: one->prediction.is_extrapolated ? 'x'
							  : ' ',
			isnan(step_ns.value) ? "not known" : lw_ns_format(step_ns.value, step),
			step_range, 100 * efficiency.value, frac_range,
			efficiency.value * one->prediction.n_ranks);
	}
	fprintf(out, "\n");
	say(out, "efficiency",
		"the step of one rank, which sends nothing, over that of N; each rank has as much to do as recorded");
	say_sure(answer, last, out);
	say_unsure(answer, unsure ? unsure : last, out);
}

static void print_models(const struct lw_answer *answer, FILE *out)
{
	bool is_recorded = answer->forecasts[0].prediction.is_recorded;
	char setting[LW_SETTING_TEXT_BYTES];

	if (!is_recorded)
		say(out, "asked", "%s",
			lw_answer_setting(answer, &answer->forecasts[0].prediction,
				&answer->ask.whatif, setting));
	fprintf(out, "\n%-10s %12s %8s", "model", "as recorded", "error");
	fprintf(out, is_recorded ? "\n" : " %12s %9s\n", "asked", "change");
	for (size_t i = 0; i < answer->n_forecasts; i++) {
		const struct lw_forecast *one = &answer->forecasts[i];
		double error_frac = lw_answer_model_error(answer, one);
		char base[LW_UNIT_TEXT_BYTES], step[LW_UNIT_TEXT_BYTES];

		fprintf(out, "%-10s ", lw_model_name(one->model, answer->predictor));
		if (isfinite(error_frac))
			fprintf(out, "%12s %+6.1f %%",
				lw_ns_format(
					(1 + error_frac) * answer->predictor->recorded_ns.value,
					base),
				100 * error_frac);
		else
			fprintf(out, "%12s %8s", "not known", "");
		if (!is_recorded && isfinite(one->prediction.step_ns.value))
			fprintf(out, " %12s %+7.1f %%",
				lw_ns_format(one->prediction.step_ns.value, step),
				-100 * one->gain_frac);
		else if (!is_recorded)
			fprintf(out, " %12s %9s", "not known", "");
		fprintf(out, is_recorded ? "   " : "\n");
		if (is_recorded)
			lw_print_wrapped(out, TITLE_AT, TITLE_AT, one->model->title);
	}
	fprintf(out, "\n");
	say(out, "error", "of the recorded setting, against the measured step%s",
		is_recorded ? "" : "; changes are against what the same model says of it");
	say_sure(answer, answer->forecasts, out);
	say_unsure(answer, answer->forecasts, out);
}

void lw_answer_text(const struct lw_answer *answer, FILE *out)
{
	static void (*const print[])(const struct lw_answer *, FILE *) = {
		print_one, print_grid, print_scaling, print_models};

	say_recorded(answer, out);
	print[answer->ask.question](answer, out);
	lw_quality_text(answer->predictor->run, out);
}
