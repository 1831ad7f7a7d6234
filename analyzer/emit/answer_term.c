/* SPDX-License-Identifier: Apache-2.0 */
/* answer_term.c - what predict answers, as a figure in a terminal of 80 columns. */
#include <math.h>

#include "analyzer/emit/answer.h"
#include "base/units.h"

enum { LABEL_WIDTH = 11, CELL_WIDTH = 7, BAR_WIDTH = 50, N_SHADES = 5 };

struct look { /* one character each, as UTF-8 or ASCII */
	const char *shades[N_SHADES];
	const char *sure, *band; /* of a bar: up to the low end; from there to the high end */
	const char *mark;        /* where the value itself lies */
};

static const struct look blocks = {
	{" ", "\u2591", "\u2592", "\u2593", "\u2588"}, "\u2588", "\u2592", "\u2502"};
static const struct look ascii = {{" ", ".", ":", "=", "#"}, "#", "=", "|"};

static void repeat(const char *character, int n, FILE *out)
{
	while (n-- > 0)
		fputs(character, out);
}

struct range {
	double least_ns, most_ns;
};

static struct range range_of(const struct lw_answer *answer)
{
	struct range range = {INFINITY, 0};

	for (size_t i = 0; i < answer->n_forecasts; i++) {
		double step_ns = answer->forecasts[i].prediction.step_ns.value;

		if (!isfinite(step_ns))
			continue;
		range.least_ns = fmin(range.least_ns, step_ns);
		range.most_ns = fmax(range.most_ns, step_ns);
	}
	return range;
}

/* Darker is slower; the scale is that of heat.c. */
static void draw_grid(const struct lw_answer *answer, const struct look *look, FILE *out)
{
	const struct lw_grid_axis *rows = &answer->rows, *columns = &answer->columns;
	const struct lw_forecast *best = lw_answer_best(answer), *one = answer->forecasts;
	struct range range = range_of(answer);
	double span_ns =
		fmin(fmax(range.most_ns - range.least_ns, 0.1 * range.least_ns), range.least_ns);
	char text[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES];

	fprintf(out, "\n%*s", LABEL_WIDTH, "");
	for (size_t c = 0; c < columns->n; c++)
		fprintf(out, " %-*s", CELL_WIDTH - 1, columns->label[c]);
	fprintf(out, "\n");
	for (size_t r = 0; r < rows->n; r++) {
		fprintf(out, "%-*s", LABEL_WIDTH, rows->label[r]);
		for (size_t c = 0; c < columns->n; c++, one++) {
			double frac = (one->prediction.step_ns.value - range.least_ns) / span_ns;

			fputc(' ', out);
			if (isfinite(frac))
				repeat(look->shades[(int)fmin(frac * N_SHADES, N_SHADES - 1)],
					CELL_WIDTH - 3, out);
			else
				repeat("?", CELL_WIDTH - 3, out);
			fputs(one == best ? "*" : " ", out);
			fputc(lw_answer_mark(answer, one), out);
		}
		fprintf(out, "\n");
	}
	fprintf(out, "\n%*s", LABEL_WIDTH + 1, "");
	for (int s = 0; s < N_SHADES; s++)
		repeat(look->shades[s], CELL_WIDTH - 3, out);
	fprintf(out, " %s to %s a step%s\n", lw_ns_format(range.least_ns, text),
		lw_ns_format(range.least_ns + span_ns, most),
		range.most_ns > 2 * range.least_ns ? " and more" : "");
}

/* @value, @low, @high: of the width; no interval: NAN. @mark: a column to mark, of the width. */
static void draw_bar(
	const struct look *look, double value, double low, double high, double mark, FILE *out)
{
	int to = (int)lround(BAR_WIDTH * (isfinite(low) ? low : value));
	int band_to = (int)lround(BAR_WIDTH * (isfinite(high) ? high : value));
	int mark_at = isfinite(mark) ? (int)fmin(round(BAR_WIDTH * mark), BAR_WIDTH - 1) : -1;

	for (int i = 0; i < BAR_WIDTH; i++)
		fputs(i == mark_at    ? look->mark
			: i < to      ? look->sure
			: i < band_to ? look->band
				      : " ",
			out);
}

static void draw_scaling(const struct lw_answer *answer, const struct look *look, FILE *out)
{
	fprintf(out, "\n%7s  %-*s%*s\n", "ranks", BAR_WIDTH / 2, "efficiency: 0 %", BAR_WIDTH / 2,
		"100 %");
	for (size_t i = 0; i < answer->n_forecasts; i++) {
		const struct lw_forecast *one = &answer->forecasts[i];
		struct lw_figure efficiency = lw_answer_efficiency(answer, one);

		fprintf(out, "%6u%c  ", one->prediction.n_ranks,
			one->prediction.is_recorded       ? 'r'
			: one->prediction.is_extrapolated ? 'x'
							  : ' ');
		draw_bar(look, efficiency.value, efficiency.low, efficiency.high,
			i > 0 ? efficiency.value : (double)NAN, out);
		fprintf(out, " %5.1f %%\n", 100 * efficiency.value);
	}
	fprintf(out, "\n%9s", "");
	repeat(look->band, 3, out);
	fprintf(out, " 95 %% interval, %s the prediction\n", look->mark);
}

static void draw_models(const struct lw_answer *answer, const struct look *look, FILE *out)
{
	double measured_ns = answer->predictor->recorded_ns.value, most_frac = 1;

	for (size_t i = 0; i < answer->n_forecasts; i++)
		most_frac =
			fmax(most_frac, 1 + lw_answer_model_error(answer, &answer->forecasts[i]));
	fprintf(out, "\n");
	for (size_t i = 0; i < answer->n_forecasts; i++) {
		const struct lw_forecast *one = &answer->forecasts[i];
		double frac = 1 + lw_answer_model_error(answer, one);
		char step[LW_UNIT_TEXT_BYTES];

		fprintf(out, "%-*s", LABEL_WIDTH, lw_model_name(one->model, answer->predictor));
		draw_bar(look, isfinite(frac) ? frac / most_frac : 0, NAN, NAN, 1 / most_frac, out);
		fprintf(out, " %s\n",
			isfinite(frac) ? lw_ns_format(frac * measured_ns, step) : "?");
	}
	fprintf(out, "\n%*s%s the measured step\n", LABEL_WIDTH, "", look->mark);
}

void lw_answer_chart(const struct lw_answer *answer, bool is_utf8, FILE *out)
{
	const struct look *look = is_utf8 ? &blocks : &ascii;

	if (answer->ask.question == LW_ASK_GRID)
		draw_grid(answer, look, out);
	else if (answer->ask.question == LW_ASK_SCALING)
		draw_scaling(answer, look, out);
	else
		draw_models(answer, look, out);
}
