/* SPDX-License-Identifier: Apache-2.0 */
/* model_scaling.c - efficiency over ranks, predicted piece by piece when it is first shown. */
#include <math.h>

#include "base/clock.h"
#include "base/units.h"
#include "tui/model_sides.h"

enum { BUDGET_NS = 10000000, LEAST_BAR = 12 };

void lw_model_scaling_drop(struct lw_model_state *state)
{
	lw_answer_done(&state->scaling);
	state->scaling = (struct lw_answer){0};
	state->is_asked = state->is_open = false;
	state->n_made = 0;
	state->why_not[0] = 0;
}

/* When it is first shown: the predictor takes its time. */
static void ask_scaling(struct lw_view *view)
{
	struct lw_model_state *state = view->state;
	struct lw_ask question = {.question = LW_ASK_SCALING, .whatif = LW_WHATIF_RECORDED};
	struct lw_predictor *predictor = lw_data_predictor(view->data);
	size_t n_models;

	state->is_asked = true;
	if (!predictor) {
		snprintf(
			state->why_not, sizeof(state->why_not), "%s", view->data->why_no_predictor);
		return;
	}
	question.model = lw_models(&n_models);
	if (lw_answer_begin(predictor, &question, &state->scaling) < 0) {
		snprintf(state->why_not, sizeof(state->why_not), "%s", lw_error_text());
		lw_error_clear();
		return;
	}
	state->is_open = true;
}

bool lw_model_scaling_tick(struct lw_view *view)
{
	struct lw_model_state *state = view->state;
	int64_t begin_ns = lw_clock_ns();

	if (state->side != LW_MODEL_SCALING)
		return false;
	if (!state->is_asked) {
		ask_scaling(view);
		return true;
	}
	if (!state->is_open || state->n_made == state->scaling.n_forecasts)
		return false;
	do {
		if (lw_answer_one(&state->scaling, state->n_made++) < 0 && !state->why_not[0])
			snprintf(state->why_not, sizeof(state->why_not), "%s", lw_error_text());
	} while (
		state->n_made < state->scaling.n_forecasts && lw_clock_ns() - begin_ns < BUDGET_NS);
	lw_error_clear();
	return true;
}

/* Efficiency from 0 to 1: certain up to the low end, then the interval, the value marked. */
static void draw_band(struct lw_pane pane, int x, int y, int width, const struct lw_figure *frac)
{
	int low, high, at;

	if (width < LEAST_BAR || !isfinite(frac->value))
		return;
	low = (int)lround(width * (isfinite(frac->low) ? frac->low : frac->value));
	high = (int)lround(width * (isfinite(frac->high) ? frac->high : frac->value));
	at = (int)lround(width * frac->value);
	low = low > width ? width : low;
	high = high > width ? width : high;
	lw_pane_fill(pane, x, y, low, LW_STYLE_COMPUTE, lw_glyph(pane.cells, LW_GLYPH_COMPUTE));
	lw_pane_fill(pane, x + low, y, high - low, LW_STYLE_NEGOTIATE,
		lw_glyph(pane.cells, LW_GLYPH_NEGOTIATE));
	lw_pane_rune(pane, x + (at < width ? at : width - 1), y, LW_STYLE_STRONG,
		lw_glyph(pane.cells, LW_GLYPH_BAR));
}

static void draw_ranks(const struct lw_model_state *state, struct lw_pane pane, int y, size_t i)
{
	const struct lw_forecast *one = &state->scaling.forecasts[i];
	struct lw_figure frac = lw_answer_efficiency(&state->scaling, one);
	char step[LW_UNIT_TEXT_BYTES], range[32] = "", percent[16] = "?", times[16] = "?";
	int x;

	if (!lw_answer_is_made(&state->scaling, i)) {
		lw_pane_print(pane, 1, y, LW_STYLE_DIM, "%6u  ...", state->scaling.curve[i]);
		return;
	}
	if (isfinite(frac.low) && i > 0)
		snprintf(range, sizeof(range), "%.1f - %.1f %%", 100 * frac.low, 100 * frac.high);
	if (isnan(one->prediction.step_ns.value)) {
		lw_pane_print(pane, 1, y, LW_STYLE_DIM, "%6u  not known", state->scaling.curve[i]);
		return;
	}
	if (isfinite(frac.value)) {
		snprintf(percent, sizeof(percent), "%.1f %%", 100 * frac.value);
		snprintf(times, sizeof(times), "%.2f", frac.value * one->prediction.n_ranks);
	}
	x = 1 + lw_pane_print(pane, 1, y,
			one->prediction.is_recorded ? LW_STYLE_STRONG : LW_STYLE_TEXT,
			"%6u%c %8s %9s %15s %6s  ", one->prediction.n_ranks,
			one->prediction.is_recorded       ? 'r'
			: one->prediction.is_extrapolated ? 'x'
							  : ' ',
			lw_ns_format(one->prediction.step_ns.value, step), percent, range, times);
	draw_band(pane, x, y, pane.width - x - 1, &frac);
}

void lw_model_scaling_draw(struct lw_model_state *state, struct lw_pane pane)
{
	const struct lw_answer *answer = &state->scaling;
	int y = 0, n_notes = pane.height > 7 ? 3 : 0;

	if (!state->is_asked) {
		lw_pane_print(pane, 1, 0, LW_STYLE_DIM, "...");
		return;
	}
	if (!state->is_open) {
		lw_predict_refuse(pane, state->why_not);
		return;
	}
	lw_pane_print(pane, 1, y++, LW_STYLE_DIM, "%6s  %8s %9s %15s %6s  %s", "ranks", "step",
		"efficient", "95 %", "faster", "0 to 100 %; light: 95 %");
	if (state->top_rank >= answer->n_curve)
		state->top_rank = answer->n_curve - 1;
	for (size_t i = state->top_rank; i < answer->n_curve && y < pane.height - n_notes; i++)
		draw_ranks(state, pane, y++, i);
	if (state->top_rank > 0)
		lw_pane_rune(pane, pane.width - 1, 1, LW_STYLE_STRONG,
			lw_glyph(pane.cells, LW_GLYPH_UP));
	if (state->top_rank + (size_t)(y - 1) < answer->n_curve)
		lw_pane_rune(pane, pane.width - 1, y - 1, LW_STYLE_STRONG,
			lw_glyph(pane.cells, LW_GLYPH_DOWN));
	if (state->n_made == answer->n_forecasts && state->why_not[0])
		y += lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_WARN, state->why_not);
	lw_pane_wrap(pane, 1, y + (y + 3 < pane.height), pane.width - 2, LW_STYLE_DIM,
		"predicted; efficiency: the step of one rank, which sends nothing, over that of N "
		"ranks in a ring with as much to do each as recorded. r recorded  x extrapolated");
}

bool lw_model_scaling_request(struct lw_model_state *state, enum lw_request request)
{
	if (request == LW_REQUEST_DOWN)
		state->top_rank += state->top_rank + 1 < state->scaling.n_curve;
	else if (request == LW_REQUEST_UP)
		state->top_rank -= state->top_rank > 0;
	else
		return false;
	return true;
}

int lw_model_scaling_write(const struct lw_model_state *state, FILE *out)
{
	const struct lw_answer *answer = &state->scaling;

	fprintf(out, "ranks,step_ns,low_ns,high_ns,efficiency_frac,low_frac,high_frac\n");
	for (size_t i = 0; i < answer->n_forecasts; i++) {
		const struct lw_figure *ns = &answer->forecasts[i].prediction.step_ns;
		struct lw_figure frac = lw_answer_efficiency(answer, &answer->forecasts[i]);

		fprintf(out, "%u,%.0f,%.0f,%.0f,%.4f,%.4f,%.4f\n", answer->curve[i], ns->value,
			ns->low, ns->high, frac.value, frac.low, frac.high);
	}
	return ferror(out) ? lw_fail(LW_ERR_IO, "cannot write") : LW_OK;
}
