/* SPDX-License-Identifier: Apache-2.0 */
/* answer_svg.c - what predict answers, as a figure: heat map, scaling curve, or the models side by side. */
#include <math.h>
#include <stdlib.h>

#include "analyzer/emit/answer.h"
#include "analyzer/emit/chart.h"
#include "analyzer/emit/svg.h"
#include "base/units.h"

enum { MAX_POINTS = LW_CURVE_MAX };
_Static_assert((int)MAX_POINTS >= (int)LW_MODELS_MAX, "as many models as points at most");

static const char unsure_title[] = "extrapolated beyond this run";

/* "recorded: 128 MiB, 5 ms, 4 ranks: 654 ms measured; the replay of it is off by +0.4 %" */
static void write_note(const struct lw_answer *answer, char text[256])
{
	const struct lw_replay *replay = answer->predictor->replay;
	char step[LW_UNIT_TEXT_BYTES];

	snprintf(text, 256,
		"Recorded: %s a step on %u rank%s (middle half of %u); replayed as recorded, off by %.1f %%.",
		lw_ns_format(answer->predictor->recorded_ns.value, step), replay->input.n_ranks,
		replay->input.n_ranks == 1 ? "" : "s", replay->n_steps, 100 * replay->error_frac);
}

static void draw_grid(const struct lw_answer *answer, FILE *out)
{
	const struct lw_grid_axis *rows = &answer->rows, *columns = &answer->columns;
	const struct lw_forecast *best = lw_answer_best(answer);
	const char *row_labels[LW_GRID_MAX], *column_labels[LW_GRID_MAX];
	double values[LW_GRID_MAX * LW_GRID_MAX];
	unsigned char marks[LW_GRID_MAX * LW_GRID_MAX];
	char note[256], title[96];
	bool is_unsure = false;

	for (size_t r = 0; r < rows->n; r++)
		row_labels[r] = rows->label[r];
	for (size_t c = 0; c < columns->n; c++)
		column_labels[c] = columns->label[c];
	for (size_t i = 0; i < answer->n_forecasts; i++) {
		const struct lw_forecast *one = &answer->forecasts[i];

		values[i] = one->prediction.step_ns.value / 1e6;
		marks[i] = (lw_answer_is_recorded_cell(answer, one) ? LW_HEAT_RECORDED : 0) |
			   (one == best ? LW_HEAT_BEST : 0) |
			   (lw_answer_is_extrapolated(answer, one) ? LW_HEAT_UNSURE : 0);
		is_unsure |= lw_answer_is_extrapolated(answer, one);
	}
	write_note(answer, note);
	snprintf(title, sizeof(title), "Predicted step, %s, %u ranks",
		lw_model_name(answer->ask.model, answer->predictor),
		answer->forecasts[0].prediction.n_ranks);
	lw_heat_draw(
		out, &(struct lw_heat){.title = title,
			     .note = note,
			     .value_title = "ms a step; darker is slower",
			     .unsure_title = is_unsure ? unsure_title : NULL,
			     .x = {.title = columns->title,
				     .labels = column_labels,
				     .n_labels = columns->n},
			     .y = {.title = rows->title, .labels = row_labels, .n_labels = rows->n},
			     .values = values,
			     .marks = marks});
}

struct curve {
	double x[MAX_POINTS], y[MAX_POINTS], low[MAX_POINTS], high[MAX_POINTS];
	double at, value; /* what was measured */
};

static struct lw_chart curve_chart(const struct curve *curve, size_t n, struct lw_series series[2])
{
	series[0] = (struct lw_series){"predicted, 95 % band", LW_SERIES_LINE, n, curve->x,
		curve->y, curve->low, curve->high};
	series[1] = (struct lw_series){
		"measured", LW_SERIES_POINTS, 1, &curve->at, &curve->value, NULL, NULL};
	return (struct lw_chart){
		.x = {.title = "ranks", .scale = LW_AXIS_LOG2}, .series = series, .n_series = 2};
}

static void draw_scaling(const struct lw_answer *answer, FILE *out)
{
	double one_ns = answer->forecasts[0].prediction.step_ns.value;
	size_t n = answer->n_forecasts < MAX_POINTS ? answer->n_forecasts : MAX_POINTS;
	struct curve step = {.at = answer->predictor->replay->input.n_ranks,
			     .value = answer->predictor->recorded_ns.value / 1e6},
		     efficiency = {
			     .at = step.at, .value = one_ns / answer->predictor->recorded_ns.value};
	struct lw_series series[2];
	struct lw_chart chart;
	char note[256];

	for (size_t i = 0; i < n; i++) {
		const struct lw_prediction *prediction = &answer->forecasts[i].prediction;
		struct lw_figure frac = lw_answer_efficiency(answer, &answer->forecasts[i]);

		step.x[i] = efficiency.x[i] = prediction->n_ranks;
		step.y[i] = prediction->step_ns.value / 1e6;
		step.low[i] = prediction->step_ns.low / 1e6;
		step.high[i] = prediction->step_ns.high / 1e6;
		efficiency.y[i] = frac.value;
		efficiency.low[i] = frac.low;
		efficiency.high[i] = frac.high;
	}
	write_note(answer, note);
	lw_svg_begin(out, 760, 640, "Predicted scaling");
	chart = curve_chart(&efficiency, n, series);
	chart.title = "Predicted scaling: efficiency";
	chart.y = (struct lw_axis){.title = "step of one rank / step", .is_frac = true};
	lw_chart_draw(out, &chart, 0, 0, 760, 310);
	chart = curve_chart(&step, n, series);
	chart.title = "Step time";
	chart.note = note;
	chart.y = (struct lw_axis){.title = "step, ms"};
	lw_chart_draw(out, &chart, 0, 310, 760, 330);
	lw_svg_end(out);
}

static void draw_models(const struct lw_answer *answer, FILE *out)
{
	size_t n = answer->n_forecasts < MAX_POINTS ? answer->n_forecasts : MAX_POINTS;
	const char *labels[MAX_POINTS];
	double said[MAX_POINTS], measured[MAX_POINTS];
	struct lw_series series[] = {
		{"predicted, not corrected", LW_SERIES_BAR, n, NULL, said, NULL, NULL},
		{"measured", LW_SERIES_LINE, n, NULL, measured, NULL, NULL}};
	struct lw_chart chart = {.title = "The recorded setting, as each model says",
		.x = {.title = "model", .labels = labels, .n_labels = n},
		.y = {.title = "step, ms"},
		.series = series,
		.n_series = 2};
	char note[256];

	for (size_t i = 0; i < n; i++) {
		const struct lw_forecast *one = &answer->forecasts[i];

		labels[i] = lw_model_name(one->model, answer->predictor);
		measured[i] = answer->predictor->recorded_ns.value / 1e6;
		said[i] = (1 + lw_answer_model_error(answer, one)) * measured[i];
	}
	write_note(answer, note);
	chart.note = note;
	lw_svg_begin(out, 760, 400, chart.title);
	lw_chart_draw(out, &chart, 0, 0, 760, 400);
	lw_svg_end(out);
}

void lw_answer_svg(const struct lw_answer *answer, FILE *out)
{
	if (answer->ask.question == LW_ASK_GRID)
		draw_grid(answer, out);
	else if (answer->ask.question == LW_ASK_SCALING)
		draw_scaling(answer, out);
	else
		draw_models(answer, out);
}
