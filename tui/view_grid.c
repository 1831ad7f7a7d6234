/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_grid.c - the predicted step over thresholds and cycle times, or over limits of DDP's buckets.
 *
 * Cells are predicted piece by piece between two pictures, that of the cursor first. What the cursor is on
 * is asked once more, with all that can be said of one setting.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "tui/predict.h"

enum { LABEL_WIDTH = 10, LEAST_CELL = 7, MOST_CELL = 12, PANEL_LINES = 9, BUDGET_NS = 10000000 };

struct state {
	struct lw_answer answer;
	struct lw_asker asker;
	bool is_open;
	char why_not[LW_REPLY_TEXT_BYTES];
	size_t row, column; /* the cursor */
	bool has_cursor;    /* else it goes to the recorded cell */
	struct lw_reply reply;
	struct lw_share measured, replayed, selected;
	size_t n_made;
	/* of the last picture, for clicks and for what does not fit */
	size_t top, left;
	int cell_width;
};

static void drop(struct state *state)
{
	lw_answer_done(&state->answer);
	lw_asker_done(&state->asker);
	state->answer = (struct lw_answer){0};
	state->is_open = false;
	state->n_made = 0;
}

/* The cell that the cursor is on. */
static void ask(struct state *state)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	const struct lw_replay *replay = state->answer.predictor->replay;
	double row = state->answer.rows.at[state->row];
	double column = state->answer.columns.at[state->column];

	*(replay->is_ddp ? &whatif.bucket_cap_bytes : &whatif.fusion_bytes) = row;
	*(replay->is_ddp ? &whatif.first_bucket_bytes : &whatif.cycle_ns) = column;
	lw_asker_ask(&state->asker, &whatif, &state->reply);
	if (state->reply.is_known)
		state->selected = lw_share_of(replay, &state->reply.forecast.prediction);
}

static int open(struct lw_view *view)
{
	struct state *state = view->state;
	struct lw_ask question = {.question = LW_ASK_GRID, .whatif = LW_WHATIF_RECORDED};
	struct lw_predictor *predictor;
	size_t n_models;
	int status;

	drop(state);
	state->why_not[0] = 0;
	predictor = lw_data_predictor(view->data);
	if (!predictor) {
		snprintf(
			state->why_not, sizeof(state->why_not), "%s", view->data->why_no_predictor);
		return LW_OK;
	}
	question.model = lw_models(&n_models);
	question.advice = &view->data->analysis->advice;
	status = lw_answer_begin(predictor, &question, &state->answer);
	if (status == LW_ERR_UNSUPPORTED) {
		snprintf(state->why_not, sizeof(state->why_not), "%s", lw_error_text());
		lw_error_clear();
		return LW_OK;
	}
	if (status == LW_OK)
		status = lw_asker_open(&state->asker, predictor);
	if (status < 0)
		return status;
	state->is_open = true;
	state->measured = lw_share_measured(&view->data->analysis->summary);
	state->replayed = lw_share_of(predictor->replay, &state->asker.base);
	if (!state->has_cursor || state->row >= state->answer.rows.n ||
		state->column >= state->answer.columns.n) {
		state->row = state->answer.rows.recorded;
		state->column = state->answer.columns.recorded;
	}
	/* first of all: others are compared with it */
	if (lw_answer_one(&state->answer, state->answer.rows.recorded * state->answer.columns.n +
						  state->answer.columns.recorded) < 0)
		lw_error_clear();
	ask(state);
	return LW_OK;
}

static void done(struct lw_view *view)
{
	drop(view->state);
}

static bool tick(struct lw_view *view)
{
	struct state *state = view->state;
	int64_t begin_ns = lw_clock_ns();

	if (!state->is_open || state->n_made == state->answer.n_forecasts)
		return false;
	do {
		/* one that cannot be predicted stays unknown, and is shown so */
		if (lw_answer_one(&state->answer, state->n_made++) < 0)
			lw_error_clear();
	} while (state->n_made < state->answer.n_forecasts && lw_clock_ns() - begin_ns < BUDGET_NS);
	return true;
}

/* ---- drawing ------------------------------------------------------------------------------------ */

struct scale { /* as heat.c: at least a tenth of the fastest, at most as much again */
	double least_ns, span_ns;
	const char *unit;
	double unit_ns;
	int decimals;
};

static struct scale scale_of(const struct lw_answer *answer)
{
	double least_ns = INFINITY, most_ns = 0;
	struct scale scale = {.unit = "ms", .unit_ns = 1e6};

	for (size_t i = 0; i < answer->n_forecasts; i++) {
		double ns = answer->forecasts[i].prediction.step_ns.value;

		if (!isfinite(ns))
			continue;
		least_ns = fmin(least_ns, ns);
		most_ns = fmax(most_ns, ns);
	}
	scale.least_ns = least_ns;
	scale.span_ns = fmin(fmax(most_ns - least_ns, 0.1 * least_ns), least_ns);
	if (most_ns >= 99999.5e6) {
		scale.unit = "s";
		scale.unit_ns = 1e9;
	}
	scale.decimals = most_ns < 9.9995e6    ? 3
			 : most_ns < 99.995e6  ? 2
			 : most_ns < 999.95e6  ? 1
			 : most_ns >= 999.95e9 ? 0
			 : most_ns >= 1e11     ? 1
					       : 0;
	return scale;
}

static void draw_cell(const struct state *state, struct lw_pane pane, int x, int y, size_t i,
	const struct scale *scale, const struct lw_forecast *best)
{
	const struct lw_forecast *one = &state->answer.forecasts[i];
	bool is_at = i == state->row * state->answer.columns.n + state->column;
	double ns = one->prediction.step_ns.value;
	int width = state->cell_width - 1;
	enum lw_style style = LW_STYLE_DIM;
	char number[32] = "...", text[64];

	if (lw_answer_is_made(&state->answer, i)) {
		snprintf(number, sizeof(number), "?");
		if (isfinite(ns)) {
			snprintf(number, sizeof(number), "%s%.*f", one == best ? "*" : "",
				scale->decimals, ns / scale->unit_ns);
			style = lw_heat_style((ns - scale->least_ns) / scale->span_ns);
		}
	}
	snprintf(text, sizeof(text), "%*s%c", width - 1, number,
		lw_answer_mark(&state->answer, one));
	lw_pane_text(pane, x, y, width, style, text);
	if (!is_at)
		return;
	lw_pane_restyle(pane, x, y, width, LW_STYLE_SELECTED);
	lw_pane_rune(pane, x - 1, y, LW_STYLE_SELECTED, '[');
	lw_pane_rune(pane, x + width, y, LW_STYLE_SELECTED, ']');
}

/* The first that is shown of @n, so that @at is, when @room fit. */
static size_t first_shown(size_t before, size_t at, size_t n, size_t room)
{
	size_t first = before;

	if (room == 0)
		room = 1;
	if (at < first)
		first = at;
	if (at >= first + room)
		first = at - room + 1;
	return first + room > n ? (n > room ? n - room : 0) : first;
}

/* What the numbers are; first that not all are on the screen: one that one does not see might be the one to look for. */
static void draw_title(const struct state *state, struct lw_pane pane, const char *unit,
	size_t n_columns, size_t n_rows)
{
	const struct lw_grid_axis *rows = &state->answer.rows, *columns = &state->answer.columns;
	char text[192] = "";
	int n = 0;

	if (columns->n > n_columns)
		n = snprintf(text, sizeof(text), "columns %zu-%zu of %zu, ", state->left + 1,
			state->left + n_columns, columns->n);
	if (rows->n > n_rows)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "rows %zu-%zu of %zu, ",
			state->top + 1, state->top + n_rows, rows->n);
	snprintf(text + n, sizeof(text) - (size_t)n, "predicted step in %s, rows: %s, columns: %s",
		unit, rows->title, columns->title);
	lw_pane_text(pane, 1, 0, pane.width - 2, LW_STYLE_TEXT, text);
}

static void draw_grid(struct state *state, struct lw_pane pane)
{
	const struct lw_answer *answer = &state->answer;
	const struct lw_grid_axis *rows = &answer->rows, *columns = &answer->columns;
	const struct lw_forecast *best =
		state->n_made == answer->n_forecasts ? lw_answer_best(answer) : NULL;
	struct scale scale = scale_of(answer);
	int room = pane.width - LABEL_WIDTH - 2, width = room / (int)columns->n;
	size_t n_columns, n_rows = pane.height > 2 ? (size_t)pane.height - 2 : 1;

	state->cell_width = width < LEAST_CELL ? LEAST_CELL : width > MOST_CELL ? MOST_CELL : width;
	n_columns = room > state->cell_width ? (size_t)(room / state->cell_width) : 1;
	state->left = first_shown(state->left, state->column, columns->n, n_columns);
	state->top = first_shown(state->top, state->row, rows->n, n_rows);
	if (state->n_made < answer->n_forecasts)
		lw_pane_print(pane, 1, 0, LW_STYLE_WARN, "predicting: %zu of %zu", state->n_made,
			answer->n_forecasts);
	else
		draw_title(state, pane, scale.unit, n_columns, n_rows);
	for (size_t c = state->left; c < columns->n && c < state->left + n_columns; c++)
		lw_pane_right(pane,
			LABEL_WIDTH + 1 + ((int)(c - state->left) + 1) * state->cell_width, 1,
			state->cell_width - 1, c == state->column ? LW_STYLE_STRONG : LW_STYLE_DIM,
			columns->label[c]);
	for (size_t r = state->top; r < rows->n && r < state->top + n_rows; r++) {
		int y = 2 + (int)(r - state->top);

		lw_pane_text(pane, 1, y, LABEL_WIDTH - 1,
			r == state->row ? LW_STYLE_STRONG : LW_STYLE_DIM, rows->label[r]);
		for (size_t c = state->left; c < columns->n && c < state->left + n_columns; c++)
			draw_cell(state, pane,
				LABEL_WIDTH + 2 + (int)(c - state->left) * state->cell_width, y,
				r * columns->n + c, &scale, best);
	}
}

static const struct lw_forecast *cell_of(const struct state *state)
{
	return &state->answer.forecasts[state->row * state->answer.columns.n + state->column];
}

static bool is_short(const struct state *state)
{
	const struct lw_forecast *one = cell_of(state);

	return lw_answer_is_made(&state->answer, (size_t)(one - state->answer.forecasts)) &&
	       lw_answer_is_short(&state->answer, one) &&
	       !lw_answer_is_recorded_cell(&state->answer, one);
}

static const char *short_text(const struct lw_answer *answer, char text[LW_REPLY_TEXT_BYTES])
{
	char why[LW_SHORT_TEXT_BYTES];

	snprintf(text, LW_REPLY_TEXT_BYTES, "c %s", lw_answer_short_text(answer, why));
	return text;
}

static void draw_panel(const struct state *state, struct lw_pane pane)
{
	struct lw_shares shares = {.replayed = &state->replayed, .predicted = &state->selected};
	char text[LW_REPLY_TEXT_BYTES];
	int y = 0;

	lw_pane_fill(pane, 0, y++, pane.width, LW_STYLE_DIM, lw_glyph(pane.cells, LW_GLYPH_LINE));
	y += lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_TEXT,
		lw_reply_setting(&state->asker, &state->reply, text));
	y += lw_pane_wrap(
		pane, 1, y, pane.width - 2, LW_STYLE_STRONG, lw_reply_step(&state->reply, text));
	lw_reply_doubt(&state->asker, &state->reply, text);
	lw_shares_room(&shares, &state->measured,
		pane.height - y -
			lw_pane_wrap(lw_pane_part(pane, 0, 0, 0, 0), 0, 0, pane.width - 2,
				LW_STYLE_WARN, text));
	if (state->reply.is_known)
		y += lw_shares_draw(pane, y, &shares);
	y += lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_WARN, text);
	if (is_short(state))
		y += lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_WARN,
			short_text(&state->answer, text));
	lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_DIM, lw_asker_sure(&state->asker, text));
}

/* The signs that are there; the panel says what one means where the cursor is. */
static void draw_legend(const struct state *state, struct lw_pane pane, int y)
{
	const struct lw_answer *answer = &state->answer;
	const struct lw_replay *replay = answer->predictor->replay;
	bool is_known = replay->is_ddp || replay->is_setting_known, is_there[128] = {false};
	const struct {
		char mark;
		const char *text;
	} marks[] = {{'x', "x extrapolated"}, {'c', "c short cycle"}, {'=', "= sends the same"}};
	char text[160];
	int n = snprintf(text, sizeof(text), "r %s   * %s",
		is_known ? "recorded" : "assumed default, as the run does not say",
		answer->is_advised ? "advised" : "best of the known");

	for (size_t i = 0; i < answer->n_forecasts; i++)
		if (lw_answer_is_made(answer, i))
			is_there[(int)lw_answer_mark(answer, &answer->forecasts[i])] = true;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (is_there[(int)marks[i].mark])
			n += snprintf(text + n, sizeof(text) - (size_t)n, "   %s", marks[i].text);
	snprintf(text + n, sizeof(text) - (size_t)n, "   light: short steps");
	lw_pane_text(pane, 1, y, pane.width - 2, is_known ? LW_STYLE_DIM : LW_STYLE_WARN, text);
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	struct state *state = view->state;
	int grid_lines;

	if (!state->is_open) {
		lw_predict_refuse(pane, state->why_not);
		return;
	}
	grid_lines = (int)state->answer.rows.n + 2;
	if (grid_lines > pane.height - PANEL_LINES - 1)
		grid_lines = pane.height - PANEL_LINES - 1;
	if (grid_lines < pane.height / 2 + 1) /* a small screen: half of it, and what fits below */
		grid_lines = pane.height / 2 + 1;
	if (grid_lines > (int)state->answer.rows.n + 2)
		grid_lines = (int)state->answer.rows.n + 2;
	draw_grid(state, lw_pane_part(pane, 0, 0, pane.width, grid_lines));
	draw_legend(state, pane, grid_lines);
	draw_panel(state,
		lw_pane_part(pane, 0, grid_lines + 1, pane.width, pane.height - grid_lines - 1));
}

/* ---- requests ----------------------------------------------------------------------------------- */

static void click(struct state *state, const struct lw_input *input)
{
	long column = input->x - LABEL_WIDTH - 1, row = input->y - 2;

	if (column < 0 || row < 0 || state->cell_width <= 0)
		return;
	column = column / state->cell_width + (long)state->left;
	row += (long)state->top;
	if (column >= (long)state->answer.columns.n || row >= (long)state->answer.rows.n)
		return;
	state->column = (size_t)column;
	state->row = (size_t)row;
}

static void go_to_best(struct state *state)
{
	const struct lw_forecast *best = lw_answer_best(&state->answer);
	size_t i = best ? (size_t)(best - state->answer.forecasts) : 0;

	if (!best)
		return;
	state->row = i / state->answer.columns.n;
	state->column = i % state->answer.columns.n;
}

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct state *state = view->state;
	size_t last_row, last_column;

	if (!state->is_open)
		return false;
	last_row = state->answer.rows.n - 1;
	last_column = state->answer.columns.n - 1;
	switch ((int)input->request) {
	case LW_REQUEST_UP:
		state->row -= state->row > 0;
		break;
	case LW_REQUEST_DOWN:
		state->row += state->row < last_row;
		break;
	case LW_REQUEST_LEFT:
		state->column -= state->column > 0;
		break;
	case LW_REQUEST_RIGHT:
		state->column += state->column < last_column;
		break;
	case LW_REQUEST_TOP:
		state->row = 0;
		break;
	case LW_REQUEST_BOTTOM:
		state->row = last_row;
		break;
	case LW_REQUEST_RESET:
		state->row = state->answer.rows.recorded;
		state->column = state->answer.columns.recorded;
		break;
	case LW_REQUEST_ENTER:
		go_to_best(state);
		break;
	case LW_REQUEST_CLICK:
		click(state, input);
		break;
	default:
		return false;
	}
	state->has_cursor = true;
	ask(state);
	return true;
}

static bool copy(struct lw_view *view, FILE *out)
{
	struct state *state = view->state;

	if (!state->is_open || !state->reply.is_known)
		return false;
	lw_whatif_lines(state->answer.predictor->replay, &state->reply.forecast.whatif, out);
	return true;
}

static int write(struct lw_view *view, FILE *out)
{
	struct state *state = view->state;
	const struct lw_answer *answer = &state->answer;

	if (!state->is_open)
		return lw_fail(LW_ERR_UNSUPPORTED, "%s", state->why_not);
	while (tick(view))
		;
	fprintf(out,
		"%s,step_ns,low_ns,high_ns,gain_frac,exposed_ns,exposed_wire_ns,exposed_copy_ns,exposed_cycle_ns,exposed_poll_ns,is_recorded,is_extrapolated\n",
		answer->predictor->replay->is_ddp ? "bucket_cap_bytes,first_bucket_bytes"
						  : "fusion_bytes,cycle_ns");
	for (size_t i = 0; i < answer->n_forecasts; i++) {
		const struct lw_forecast *one = &answer->forecasts[i];
		const struct lw_prediction *prediction = &one->prediction;
		const struct lw_hvd_totals *totals = &prediction->totals;
		double n = answer->predictor->replay->input.n_steps;

		fprintf(out, "%.0f,%.0f,%.17g,%.17g,%.17g,%.6g,%.0f,%.0f,%.0f,%.0f,%.0f,%d,%d\n",
			answer->rows.at[i / answer->columns.n],
			answer->columns.at[i % answer->columns.n], prediction->step_ns.value,
			prediction->step_ns.low, prediction->step_ns.high, one->gain_frac,
			totals->exposed_ns / n, totals->exposed_wire_ns / n,
			totals->exposed_copy_ns / n, totals->exposed_cycle_ns / n,
			totals->exposed_poll_ns / n, lw_answer_is_recorded_cell(answer, one),
			prediction->is_extrapolated);
	}
	return ferror(out) ? lw_fail(LW_ERR_IO, "cannot write") : LW_OK;
}

static const struct lw_key_words words[] = {{LW_REQUEST_LEFT, "", NULL},
	{LW_REQUEST_RIGHT, "", NULL}, {LW_REQUEST_UP, "", NULL},
	{LW_REQUEST_DOWN, "ask a cell", NULL},
	{LW_REQUEST_ENTER, "best", "to the cell marked *: what is advised, or the best"},
	{LW_REQUEST_RESET, "recorded", NULL}, {LW_REQUEST_COPY, "copy lines", NULL},
	{LW_REQUEST_EXPORT, "CSV", NULL}, {0}};

const struct lw_view_ops lw_view_grid = {
	.name = "grid",
	.label = "grid",
	.title = "the predicted step over fusion thresholds and cycle times",
	.keys = {LW_CAN(UP) | LW_CAN(DOWN) | LW_CAN(LEFT) | LW_CAN(RIGHT) | LW_CAN(TOP) |
			 LW_CAN(BOTTOM) | LW_CAN(RESET) | LW_CAN(ENTER) | LW_CAN(CLICK),
		words},
	.state_bytes = sizeof(struct state),
	.open = open,
	.draw = draw,
	.tick = tick,
	.request = request,
	.copy = copy,
	.write = write,
	.done = done,
};
