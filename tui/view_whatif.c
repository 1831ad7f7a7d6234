/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_whatif.c - sliders, and the step that the simulator predicts for what they say, at once.
 *
 * Every key that turns one asks for a prediction and for a trace of its most ordinary step; drawing asks
 * for nothing.
 */
#include <math.h>
#include <string.h>

#include "analyzer/simulate/trace.h"
#include "base/units.h"
#include "tui/predict.h"
#include "tui/sliders.h"
#include "tui/step_picture.h"

enum { NAME_WIDTH = 17, VALUE_WIDTH = 13, MANY = 4, MOST_TRACK = 60 };

struct state {
	struct lw_asker asker;
	bool is_open;
	char why_not[LW_REPLY_TEXT_BYTES];
	struct lw_sliders sliders;
	size_t at;
	/* of the last picture, for clicks */
	int y;        /* of the first slider that is shown */
	size_t first; /* which one that is */
	int track_width;
	struct lw_reply reply;
	struct lw_share measured, replayed, predicted;
	struct lw_trace replayed_trace, trace; /* n_ranks 0: none */
};

static void drop(struct state *state)
{
	lw_asker_done(&state->asker);
	lw_trace_done(&state->trace);
	lw_trace_done(&state->replayed_trace);
	state->is_open = false;
}

static void ask(struct state *state)
{
	struct lw_whatif whatif = lw_sliders_whatif(&state->sliders);
	struct lw_replay *replay = state->asker.predictor->replay;
	uint32_t step;

	lw_asker_ask(&state->asker, &whatif, &state->reply);
	lw_trace_done(&state->trace);
	if (!state->reply.is_known)
		return;
	state->predicted = lw_share_of(replay, &state->reply.forecast.prediction);
	step = lw_trace_ordinary(state->asker.base_ns, state->asker.other_ns, lw_replay_n(replay));
	if (step != state->replayed_trace.step || !state->replayed_trace.ranks) {
		lw_trace_done(&state->replayed_trace);
		if (lw_replay_trace(replay, &LW_WHATIF_RECORDED, step, &state->replayed_trace) < 0)
			lw_error_clear();
	}
	if (lw_replay_trace(replay, &whatif, step, &state->trace) < 0)
		lw_error_clear();
}

static int open(struct lw_view *view)
{
	struct state *state = view->state;
	struct lw_predictor *predictor = lw_data_predictor(view->data);
	struct lw_sliders before = state->sliders;
	int status;

	drop(state);
	if (!predictor) {
		snprintf(
			state->why_not, sizeof(state->why_not), "%s", view->data->why_no_predictor);
		return LW_OK;
	}
	status = lw_asker_open(&state->asker, predictor);
	if (status < 0)
		return status;
	state->measured = lw_share_measured(&view->data->analysis->summary);
	state->replayed = lw_share_of(predictor->replay, &state->asker.base);
	lw_sliders_make(predictor->replay, &state->sliders);
	lw_sliders_keep(&state->sliders, &before);
	if (state->at >= state->sliders.n)
		state->at = 0;
	state->is_open = true;
	ask(state);
	return LW_OK;
}

static void done(struct lw_view *view)
{
	drop(view->state);
}

/* ---- drawing ------------------------------------------------------------------------------------ */

enum { TRACK_X = 2 + NAME_WIDTH + VALUE_WIDTH };

static void draw_slider(struct state *state, struct lw_pane pane, int y, size_t i)
{
	const struct lw_slider *slider = &state->sliders.of[i];
	bool is_at = i == state->at, is_recorded = slider->at == slider->recorded;
	int x = TRACK_X, width = pane.width - x - 14;
	char text[LW_SLIDER_TEXT_BYTES];

	lw_pane_text(pane, 2, y, NAME_WIDTH, is_at ? LW_STYLE_STRONG : LW_STYLE_TEXT,
		lw_slider_name(slider));
	lw_pane_text(pane, 2 + NAME_WIDTH, y, VALUE_WIDTH, LW_STYLE_STRONG,
		lw_slider_text(slider, text));
	if (width > MOST_TRACK)
		width = MOST_TRACK;
	state->track_width = width;
	if (width >= 8 && slider->n > 1) {
		double scale = (double)(width - 1) / (double)(slider->n - 1);

		lw_pane_fill(pane, x, y, width, LW_STYLE_DIM, lw_glyph(pane.cells, LW_GLYPH_LINE));
		lw_pane_rune(pane, x + (int)lround((double)slider->recorded * scale), y,
			LW_STYLE_DIM, 'r');
		lw_pane_rune(pane, x + (int)lround((double)slider->at * scale), y, LW_STYLE_STRONG,
			is_recorded ? 'R' : 'O');
	}
	lw_pane_print(pane, x + (width >= 8 ? width + 1 : 0), y,
		is_recorded ? LW_STYLE_DIM : LW_STYLE_WARN, "%s",
		!is_recorded         ? "changed"
		: slider->is_assumed ? "assumed"
				     : "as recorded");
	if (is_at) {
		lw_pane_restyle(pane, 0, y, pane.width, LW_STYLE_SELECTED);
		lw_pane_rune(pane, 0, y, LW_STYLE_SELECTED, lw_glyph(pane.cells, LW_GLYPH_CURSOR));
	}
}

/* Those that fit, and signs that there are more. */
static void draw_sliders(struct state *state, struct lw_pane pane, int *y)
{
	size_t end = state->first;

	for (; end < state->sliders.n && *y < pane.height; end++)
		draw_slider(state, pane, (*y)++, end);
	if (state->first > 0)
		lw_pane_rune(pane, pane.width - 1, state->y, LW_STYLE_STRONG,
			lw_glyph(pane.cells, LW_GLYPH_UP));
	if (end < state->sliders.n)
		lw_pane_rune(pane, pane.width - 1, *y - 1, LW_STYLE_STRONG,
			lw_glyph(pane.cells, LW_GLYPH_DOWN));
}

enum {
	LEAST_SLIDERS = 2, /* are seen, whatever there is to say above them */
	PICTURE_LINES = 6  /* of the step over time: with one rank */
};

static void draw(struct lw_view *view, struct lw_pane pane)
{
	struct state *state = view->state;
	char text[LW_REPLY_TEXT_BYTES];
	bool is_roomy = pane.height >= 30;
	struct lw_pane top = lw_pane_part(pane, 0, 0, pane.width, pane.height - LEAST_SLIDERS);
	struct lw_shares shares = {.replayed = &state->replayed,
		.predicted = state->reply.is_known ? &state->predicted : NULL};
	int y = 0;

	if (!state->is_open) {
		lw_predict_refuse(pane, state->why_not);
		return;
	}
	y += lw_pane_wrap(top, 1, y, top.width - 2,
		state->reply.is_known ? LW_STYLE_STRONG : LW_STYLE_BAD,
		lw_reply_step(&state->reply, text));
	y += lw_pane_wrap(top, 1, y, top.width - 2, LW_STYLE_WARN,
		lw_reply_doubt(&state->asker, &state->reply, text));
	y = y < top.height ? y : top.height;
	y += is_roomy;
	state->y = y;
	state->first = 0;
	/* all of them, or on a small screen those around the one that is turned */
	if (pane.height > y && (size_t)(pane.height - y) < state->sliders.n &&
		state->at >= (size_t)(pane.height - y))
		state->first = state->at - (size_t)(pane.height - y) + 1;
	draw_sliders(state, pane, &y);
	y += is_roomy;
	lw_shares_room(&shares, &state->measured, pane.height - y - PICTURE_LINES);
	y += lw_shares_draw(pane, y, &shares);
	y += is_roomy;
	if (state->reply.is_known && state->trace.ranks)
		lw_step_picture(lw_pane_part(pane, 0, y, pane.width, pane.height - y),
			view->data->analysis->run, &state->replayed_trace, &state->trace);
}

/* ---- requests ----------------------------------------------------------------------------------- */

static bool turn(struct state *state, int by)
{
	if (state->at < state->sliders.n && lw_slider_turn(&state->sliders.of[state->at], by))
		ask(state);
	return true;
}

/* On a slider: choose it; on its track: turn it to there. */
static bool click(struct state *state, const struct lw_input *input)
{
	long row = input->y - state->y + (long)state->first;
	int x = input->x - TRACK_X;
	struct lw_slider *slider;

	if (input->y < state->y || row >= (long)state->sliders.n)
		return true;
	state->at = (size_t)row;
	slider = &state->sliders.of[state->at];
	if (x >= 0 && x < state->track_width && state->track_width > 1)
		turn(state, (int)lround((double)x * (double)(slider->n - 1) /
					(state->track_width - 1)) -
				    (int)slider->at);
	return true;
}

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct state *state = view->state;
	size_t last = state->sliders.n ? state->sliders.n - 1 : 0;

	if (!state->is_open)
		return false;
	switch ((int)input->request) {
	case LW_REQUEST_UP:
		state->at -= state->at > 0;
		return true;
	case LW_REQUEST_DOWN:
		state->at += state->at < last;
		return true;
	case LW_REQUEST_TOP:
		state->at = 0;
		return true;
	case LW_REQUEST_BOTTOM:
		state->at = last;
		return true;
	case LW_REQUEST_LEFT:
	case LW_REQUEST_ZOOM_OUT:
		return turn(state, -1);
	case LW_REQUEST_RIGHT:
	case LW_REQUEST_ZOOM_IN:
		return turn(state, 1);
	case LW_REQUEST_PAGE_UP:
		return turn(state, MANY);
	case LW_REQUEST_PAGE_DOWN:
		return turn(state, -MANY);
	case LW_REQUEST_CLICK:
		return click(state, input);
	case LW_REQUEST_RESET:
		lw_sliders_reset(&state->sliders);
		ask(state);
		return true;
	default:
		return false;
	}
}

static bool copy(struct lw_view *view, FILE *out)
{
	struct state *state = view->state;

	if (!state->is_open)
		return false;
	lw_whatif_lines(state->asker.predictor->replay, &state->reply.forecast.whatif, out);
	return true;
}

static const struct lw_key_words words[] = {{LW_REQUEST_UP, "", NULL},
	{LW_REQUEST_DOWN, "choose", NULL}, {LW_REQUEST_LEFT, "", "less"},
	{LW_REQUEST_RIGHT, "turn", "more"}, {LW_REQUEST_PAGE_UP, NULL, "much more"},
	{LW_REQUEST_PAGE_DOWN, NULL, "much less"}, {LW_REQUEST_RESET, "as recorded", NULL},
	{LW_REQUEST_COPY, "copy lines", NULL}, {0}};

const struct lw_view_ops lw_view_whatif = {
	.name = "what-if",
	.label = "what-if",
	.title = "turn a setting, the network, the ranks: the predicted step answers at once",
	.keys = {LW_CAN(UP) | LW_CAN(DOWN) | LW_CAN(LEFT) | LW_CAN(RIGHT) | LW_CAN(PAGE_UP) |
			 LW_CAN(PAGE_DOWN) | LW_CAN(TOP) | LW_CAN(BOTTOM) | LW_CAN(ZOOM_IN) |
			 LW_CAN(ZOOM_OUT) | LW_CAN(RESET) | LW_CAN(CLICK),
		words},
	.state_bytes = sizeof(struct state),
	.open = open,
	.draw = draw,
	.request = request,
	.copy = copy,
	.done = done,
};
