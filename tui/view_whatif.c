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

enum {
	NAME_WIDTH = 17,
	VALUE_WIDTH = 13,
	LANE_NAME_WIDTH = 15,
	MANY = 4,
	MOST_TRACK = 60,
	MOST_COLUMNS = 512
};

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
	struct lw_share recorded, predicted;
	struct lw_trace recorded_trace, trace; /* n_ranks 0: none */
};

static void drop(struct state *state)
{
	lw_asker_done(&state->asker);
	lw_trace_done(&state->trace);
	lw_trace_done(&state->recorded_trace);
	state->is_open = false;
}

static void ask(struct state *state)
{
	struct lw_whatif whatif = lw_sliders_whatif(&state->sliders);
	struct lw_replay *replay = state->asker.predictor->replay;

	lw_asker_ask(&state->asker, &whatif, &state->reply);
	lw_trace_done(&state->trace);
	if (!state->reply.is_known)
		return;
	state->predicted = lw_share_of(replay, &state->reply.forecast.prediction);
	if (lw_replay_trace(replay, &whatif, state->recorded_trace.step, &state->trace) < 0)
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
	if (status == LW_OK)
		status = lw_replay_trace(predictor->replay, &LW_WHATIF_RECORDED, LW_TRACE_ORDINARY,
			&state->recorded_trace);
	if (status < 0)
		return status;
	state->recorded = lw_share_of(predictor->replay, &state->asker.base);
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

struct axis { /* of the timeline */
	int x, width;
	double whole_ns;
};

static void draw_stretch(struct lw_pane pane, const struct axis *axis, int y, enum lw_lane lane,
	int64_t from_ns, int64_t to_ns)
{
	double scale = axis->width / axis->whole_ns;
	int from = (int)floor((double)from_ns * scale), to = (int)ceil((double)to_ns * scale);

	from = from < 0 ? 0 : from;
	to = to > axis->width ? axis->width : to;
	if (to_ns > from_ns && from < to)
		lw_pane_fill(pane, axis->x + from, y, to - from, lw_lanes[lane].style,
			lw_glyph(pane.cells, lw_lanes[lane].glyph));
}

/* How much of each column [@from_ns, @to_ns) takes. */
static void occupy(const struct axis *axis, double *busy, int64_t from_ns, int64_t to_ns)
{
	double from = (double)from_ns * axis->width / axis->whole_ns;
	double to = fmin((double)to_ns * axis->width / axis->whole_ns, axis->width);

	for (int x = from > 0 ? (int)from : 0; x < to; x++)
		busy[x] += fmin(to, x + 1) - fmax(from, x);
}

/* What a column is filled by: copies, or the wire: all of it, or a height that says how much. */
static enum lw_glyph look_of(double wire, double copies, enum lw_style *ret_style)
{
	double level = fmin(wire + copies, 1) * 8;

	*ret_style = copies > wire ? LW_STYLE_MISC : LW_STYLE_ALLREDUCE;
	if (copies > wire && level >= 4)
		return LW_GLYPH_MISC;
	if (level > 7.5)
		return LW_GLYPH_ALLREDUCE;
	return LW_GLYPH_LEVEL_FIRST + (enum lw_glyph)(level > 1 ? level - 1 : 0);
}

static void draw_wire(struct lw_pane pane, const struct axis *axis, int y, const char *name,
	const struct lw_trace *trace)
{
	double wire[MOST_COLUMNS] = {0}, copies[MOST_COLUMNS] = {0};

	lw_pane_text(pane, 1, y, LANE_NAME_WIDTH - 1, LW_STYLE_DIM, name);
	for (size_t i = 0; i < trace->ops.n; i++) {
		const struct lw_trace_op *op = &trace->ops.at[i];

		occupy(axis, copies, op->start_ns, op->wire_start_ns);
		occupy(axis, wire, op->wire_start_ns, op->wire_end_ns);
		occupy(axis, copies, op->wire_end_ns, op->end_ns);
	}
	for (int x = 0; x < axis->width; x++) {
		enum lw_style style;
		enum lw_glyph glyph = look_of(wire[x], copies[x], &style);

		if (wire[x] + copies[x] > 0)
			lw_pane_rune(pane, axis->x + x, y, style, lw_glyph(pane.cells, glyph));
	}
	/* where one begins, unless it is a column wide: else a row of them looks like one */
	for (size_t i = 0; i < trace->ops.n; i++) {
		const struct lw_trace_op *op = &trace->ops.at[i];
		double scale = axis->width / axis->whole_ns;
		int from = (int)floor((double)op->start_ns * scale);

		if ((double)(op->end_ns - op->start_ns) * scale >= 2 && from >= 0 &&
			from < axis->width)
			lw_pane_rune(pane, axis->x + from, y, LW_STYLE_ALLREDUCE,
				lw_glyph(pane.cells, LW_GLYPH_BAR));
	}
}

static void draw_rank(struct lw_pane pane, const struct axis *axis, int y, uint32_t r,
	const struct lw_trace *trace)
{
	const struct lw_trace_rank *rank = &trace->ranks[r];

	lw_pane_print(pane, 1, y, LW_STYLE_DIM, "rank %u", r);
	draw_stretch(pane, axis, y, LW_LANE_COMPUTE, rank->resumed_ns, rank->end_ns);
	draw_stretch(pane, axis, y, LW_LANE_EXPOSED, rank->blocked_ns, rank->resumed_ns);
	draw_stretch(pane, axis, y, LW_LANE_COMPUTE, rank->start_ns, rank->blocked_ns);
}

static double last_ns(const struct lw_trace *trace)
{
	double ns = 0;

	for (uint32_t r = 0; r < trace->n_ranks; r++)
		ns = fmax(ns, (double)trace->ranks[r].end_ns);
	return ns;
}

/* One step over time: the wire as recorded and as predicted, then ranks as many as fit. */
static void draw_timeline(const struct state *state, struct lw_pane pane)
{
	const struct lw_trace *trace = &state->trace;
	struct axis axis = {1 + LANE_NAME_WIDTH, pane.width - LANE_NAME_WIDTH - 2, 0};
	char whole[LW_UNIT_TEXT_BYTES], text[96];
	int y = 0;

	if (axis.width > MOST_COLUMNS)
		axis.width = MOST_COLUMNS;
	if (!trace->ranks || axis.width < 10 || pane.height < 2)
		return;
	axis.whole_ns = fmax(fmax(last_ns(trace), last_ns(&state->recorded_trace)), 1);
	snprintf(text, sizeof(text),
		"one ordinary step, simulated: 0 to %s, %zu batches; low: partly busy",
		lw_ns_format(axis.whole_ns, whole), trace->ops.n);
	lw_pane_text(pane, 1, y, pane.width - 2, LW_STYLE_DIM, text);
	if (pane.width >= 100) {
		lw_pane_rune(pane, pane.width - 26, y, LW_STYLE_EXPOSED,
			lw_glyph(pane.cells, LW_GLYPH_EXPOSED));
		lw_pane_print(pane, pane.width - 24, y, LW_STYLE_DIM, "exposed: the rank waits");
	}
	y++;
	draw_wire(pane, &axis, y++, "recorded wire", &state->recorded_trace);
	draw_wire(pane, &axis, y++, "predicted wire", trace);
	for (uint32_t r = 0; r < trace->n_ranks && y < pane.height; r++) {
		if (y + 1 == pane.height && r + 1 < trace->n_ranks) {
			lw_pane_print(
				pane, 1, y, LW_STYLE_DIM, "and %u more ranks", trace->n_ranks - r);
			break;
		}
		draw_rank(pane, &axis, y++, r, trace);
	}
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	struct state *state = view->state;
	char text[LW_REPLY_TEXT_BYTES];
	bool is_roomy = pane.height >= 30;
	int y = 0;

	if (!state->is_open) {
		lw_predict_refuse(pane, state->why_not);
		return;
	}
	y += lw_pane_wrap(pane, 1, y, pane.width - 2,
		state->reply.is_known ? LW_STYLE_STRONG : LW_STYLE_BAD,
		lw_reply_step(&state->reply, text));
	y += lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_WARN,
		lw_reply_doubt(&state->asker, &state->reply, text));
	y += is_roomy;
	state->y = y;
	state->first = 0;
	/* all of them, or on a small screen those around the one that is turned */
	if (pane.height > y && (size_t)(pane.height - y) < state->sliders.n &&
		state->at >= (size_t)(pane.height - y))
		state->first = state->at - (size_t)(pane.height - y) + 1;
	for (size_t i = state->first; i < state->sliders.n && y < pane.height; i++)
		draw_slider(state, pane, y++, i);
	y += is_roomy;
	if (!state->reply.is_known) {
		lw_shares_draw(pane, y, &state->recorded, NULL);
		return;
	}
	y += lw_shares_draw(pane, y, &state->recorded, &state->predicted);
	y += is_roomy;
	draw_timeline(state, lw_pane_part(pane, 0, y, pane.width, pane.height - y));
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

const struct lw_view_ops lw_view_whatif = {
	.name = "what-if",
	.label = "what-if",
	.title = "turn a setting, the network, the ranks: the predicted step answers at once",
	.hint = "Up Down choose  Left Right turn  R as recorded  y copy lines",
	.state_bytes = sizeof(struct state),
	.open = open,
	.draw = draw,
	.request = request,
	.copy = copy,
	.done = done,
};
