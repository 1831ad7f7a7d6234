/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_model.c - the model of the run: its figures, the costs of operations, and how it scales.
 *
 * Three sides, `t` turns: parameters with intervals; one cost against what was measured, size by size;
 * efficiency over ranks, predicted piece by piece when it is first shown.
 */
#include <math.h>
#include <string.h>

#include "analyzer/emit/report.h"
#include "base/units.h"
#include "tui/model_sides.h"
#include "tui/parts.h"

enum { DETAIL_LINES = 4, SMALL = 12 };

/* ---- figures ------------------------------------------------------------------------------------ */

/* What people compare first, then what it is made of. */
static const enum lw_fit_figure figure_order[] = {LW_FIT_CSF, LW_FIT_OSF, LW_FIT_OSF_F,
	LW_FIT_OSF_F_PAPER, LW_FIT_OSF_MEASURED, LW_FIT_ALPHA_NS, LW_FIT_BETA_BYTES_PER_S,
	LW_FIT_SLOPE_NS_PER_BYTE, LW_FIT_STEP_NS, LW_FIT_COMPUTE_NS, LW_FIT_FORWARD_NS,
	LW_FIT_OVERLAP_NS, LW_FIT_COMM_NS, LW_FIT_UPDATE_NS, LW_FIT_BYTES_PER_STEP,
	LW_FIT_BATCHES_PER_STEP, LW_FIT_ROUND_NS, LW_FIT_IDLE_ROUND_NS, LW_FIT_UTILISATION_FRAC};
_Static_assert(sizeof(figure_order) / sizeof(figure_order[0]) == LW_FIT_N_FIGURES, "all of them");

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), n_end = strlen(end);

	return n >= n_end && !strcmp(text + n - n_end, end);
}

/* The unit is the suffix of its name. */
static void format_value(const char *name, double value, char text[LW_UNIT_TEXT_BYTES])
{
	if (!isfinite(value))
		snprintf(text, LW_UNIT_TEXT_BYTES, "?");
	else if (ends_with(name, "_bytes_per_s"))
		lw_rate_format(value, text);
	else if (ends_with(name, "_ns_per_byte"))
		snprintf(text, LW_UNIT_TEXT_BYTES, "%.3g ns/B", value);
	else if (ends_with(name, "_ns"))
		lw_ns_format(value, text);
	else if (!strncmp(name, "bytes_", 6))
		lw_bytes_format(value, text);
	else
		snprintf(text, LW_UNIT_TEXT_BYTES, value < 10 ? "%.3f" : "%.1f", value);
}

static const struct lw_figure *figure_of(const void *context, size_t row)
{
	const struct lw_model_state *state = context;

	return &state->analysis->fit.figure[figure_order[row]];
}

/* It stands, but not for everything: why is told below the table. */
static bool has_caveat(const struct lw_figure *figure)
{
	return isfinite(figure->value) && figure->why;
}

static const char *name_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)context;
	(void)text;
	return lw_fit_figure_name(figure_order[row]);
}

static const char *value_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_figure *figure = figure_of(context, row);
	char value[LW_UNIT_TEXT_BYTES];

	format_value(lw_fit_figure_name(figure_order[row]), figure->value, value);
	snprintf(text, LW_TABLE_TEXT_BYTES, "%s%s", has_caveat(figure) ? "! " : "", value);
	return text;
}

static double value_value(const void *context, size_t row)
{
	return figure_of(context, row)->value;
}

static const char *interval_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_figure *figure = figure_of(context, row);
	const char *name = lw_fit_figure_name(figure_order[row]);
	char low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];

	if (!isfinite(figure->low) || !isfinite(figure->high))
		return isfinite(figure->value) ? "no interval" : "";
	format_value(name, figure->low, low);
	format_value(name, figure->high, high);
	snprintf(text, LW_TABLE_TEXT_BYTES, "%s - %s", low, high);
	return text;
}

static const char *how_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_figure *figure = figure_of(context, row);

	(void)text;
	return isfinite(figure->value) ? lw_how_name(figure->how) : "not known";
}

static const char *note_of(const struct lw_model_state *state, size_t row)
{
	return lw_fit_figure_note(state->analysis->run, figure_order[row]);
}

static const char *what_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)text;
	return note_of(context, row);
}

static enum lw_style value_style(const void *context, size_t row)
{
	const struct lw_figure *figure = figure_of(context, row);

	return !isfinite(figure->value) ? LW_STYLE_DIM
	       : has_caveat(figure)     ? LW_STYLE_WARN
					: LW_STYLE_STRONG;
}

static const struct lw_table_column figure_columns[] = {
	{"figure", 17, .is_left = true, .text = name_text},
	{"value", 11, .text = value_text, .value = value_value, .style = value_style},
	{"95 %", 21, .text = interval_text},
	{"how", 9, .is_left = true, .text = how_text},
	{"what it is", 0, .is_left = true, .text = what_text},
};

/* What the replay of the recorded setting misses: how far to believe what is predicted. */
static int draw_replay(const struct lw_model_state *state, struct lw_pane pane, int y)
{
	const struct lw_advice_list *list = &state->analysis->advice;
	const struct lw_replay *replay = list->replay;
	char bias[LW_UNIT_TEXT_BYTES], step[LW_UNIT_TEXT_BYTES], text[LW_ADVICE_TEXT_BYTES + 16];

	if (!replay) {
		snprintf(text, sizeof(text), "no replay: %s",
			list->why_not[0]        ? list->why_not
			: list->baseline_ns.why ? list->baseline_ns.why
						: "why is not known");
		return lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_WARN, text);
	}
	snprintf(text, sizeof(text),
		"replayed as recorded, a step of %s (measured, middle half) is off by %.1f %%: %s too %s",
		lw_ns_format(replay->recorded_ns, step), 100 * replay->error_frac,
		lw_ns_format(fabs(replay->bias_ns), bias), replay->bias_ns > 0 ? "short" : "long");
	if (pane.height < SMALL) {
		lw_pane_text(pane, 1, y, pane.width - 2, LW_STYLE_TEXT, text);
		return 1;
	}
	return lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_TEXT, text);
}

static void draw_figures(struct lw_model_state *state, struct lw_pane pane)
{
	int y = draw_replay(state, pane, 0), lines;
	char why[LW_TABLE_TEXT_BYTES];
	size_t row;

	if (!state->analysis->has_fit) {
		lw_pane_wrap(pane, 1, y + 1, pane.width - 2, LW_STYLE_WARN,
			"Nothing was fitted: no step of this run counts on all its ranks. Record "
			"more steps, or see view log for why they do not count.");
		return;
	}
	lines = pane.height - y - DETAIL_LINES;
	if (lines > (int)LW_FIT_N_FIGURES + 1)
		lines = LW_FIT_N_FIGURES + 1;
	if (lines < 3)
		lines = pane.height - y;
	lw_table_draw(&state->figures, lw_pane_part(pane, 0, y, pane.width, lines));
	y += lines;
	row = lw_table_row(&state->figures);
	if (row == SIZE_MAX || y >= pane.height)
		return;
	lw_pane_fill(pane, 0, y++, pane.width, LW_STYLE_DIM, lw_glyph(pane.cells, LW_GLYPH_LINE));
	y += lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_TEXT, note_of(state, row));
	if (!figure_of(state, row)->why)
		return;
	snprintf(why, sizeof(why), "%s%s", has_caveat(figure_of(state, row)) ? "! " : "",
		figure_of(state, row)->why);
	lw_pane_fit(pane, 1, y, pane.width - 2, pane.height - y, LW_STYLE_WARN, why, "");
}

/* ---- the view ----------------------------------------------------------------------------------- */

static int open(struct lw_view *view)
{
	struct lw_model_state *state = view->state;
	int status;

	state->analysis = view->data->analysis;
	lw_model_scaling_drop(state);
	status = lw_table_open(&state->figures, figure_columns,
		sizeof(figure_columns) / sizeof(figure_columns[0]),
		state->analysis->has_fit ? LW_FIT_N_FIGURES : 0, state);
	if (status == LW_OK)
		status = lw_model_costs_open(state);
	return status;
}

static void done(struct lw_view *view)
{
	struct lw_model_state *state = view->state;

	lw_model_scaling_drop(state);
	lw_table_done(&state->figures);
	lw_table_done(&state->costs);
}

static struct lw_table *table_of(struct lw_model_state *state)
{
	return state->side == LW_MODEL_COSTS ? &state->costs : &state->figures;
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	static void (*const draws[LW_MODEL_SIDES])(struct lw_model_state *, struct lw_pane) = {
		draw_figures, lw_model_costs_draw, lw_model_scaling_draw};
	static const char *const names[LW_MODEL_SIDES] = {"figures", "costs", "scaling"};
	struct lw_model_state *state = view->state;
	char place[LW_TABLE_TEXT_BYTES];
	int x = 1;

	for (int i = 0; i < LW_MODEL_SIDES; i++) {
		bool is_shown = i == (int)state->side;

		x += lw_pane_print(pane, x, 0, is_shown ? LW_STYLE_TAB : LW_STYLE_DIM,
			is_shown ? "[%s]" : " %s ", names[i]);
	}
	if (state->side == LW_MODEL_SCALING && state->is_open &&
		state->n_made < state->scaling.n_forecasts)
		lw_pane_print(pane, x + 2, 0, LW_STYLE_WARN, "predicting: %zu of %zu",
			state->n_made, state->scaling.n_forecasts);
	if (state->side != LW_MODEL_SCALING && table_of(state)->n_rows)
		lw_pane_right(pane, pane.width - 1, 0, pane.width - x - 2, LW_STYLE_DIM,
			lw_table_place(table_of(state), place));
	draws[state->side](state, lw_pane_part(pane, 0, 1, pane.width, pane.height - 1));
}

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct lw_model_state *state = view->state;
	struct lw_input inner = *input;

	inner.y -= 1;
	inner.height -= 1 + DETAIL_LINES;
	if (input->request == LW_REQUEST_TURN) {
		state->side = (enum lw_model_side)((state->side + 1) % LW_MODEL_SIDES);
		return true;
	}
	if (state->side == LW_MODEL_COSTS)
		return lw_model_costs_request(state, &inner);
	if (state->side == LW_MODEL_SCALING)
		return lw_model_scaling_request(state, input->request);
	inner.y -= 1; /* what the replay misses */
	return lw_table_request(&state->figures, &inner);
}

static bool find(struct lw_view *view, const char *text, int by)
{
	struct lw_model_state *state = view->state;

	/* scaling is no list: what would be found is not shown */
	return state->side != LW_MODEL_SCALING && lw_table_find(table_of(state), text, by);
}

static bool copy(struct lw_view *view, FILE *out)
{
	struct lw_model_state *state = view->state;

	return state->side != LW_MODEL_SCALING && lw_table_copy(table_of(state), out);
}

/* Unlike the screen: plain numbers. */
static int write_figures(const struct lw_model_state *state, FILE *out)
{
	fprintf(out, "figure,value,low,high,how,what\n");
	for (size_t row = 0; row < state->figures.n_rows; row++) {
		const struct lw_figure *figure = figure_of(state, row);
		const double values[] = {figure->value, figure->low, figure->high};

		fprintf(out, "%s", lw_fit_figure_name(figure_order[row]));
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
			fprintf(out, isfinite(values[i]) ? ",%.9g" : ",", values[i]);
		fprintf(out, ",%s,\"%s%s%s\"\n",
			isfinite(figure->value) ? lw_how_name(figure->how) : "not known",
			note_of(state, row), figure->why ? "; " : "",
			figure->why ? figure->why : "");
	}
	return ferror(out) ? lw_fail(LW_ERR_IO, "cannot write") : LW_OK;
}

static int write(struct lw_view *view, FILE *out)
{
	struct lw_model_state *state = view->state;

	if (state->side == LW_MODEL_FIGURES)
		return write_figures(state, out);
	if (state->side == LW_MODEL_COSTS)
		return lw_model_costs_write(state, out);
	while (lw_model_scaling_tick(view))
		;
	if (!state->is_open)
		return lw_fail(LW_ERR_UNSUPPORTED, "%s", state->why_not);
	return lw_model_scaling_write(state, out);
}

static const struct lw_key_words words[] = {{LW_REQUEST_TURN, "figures, costs, scaling", NULL},
	{LW_REQUEST_PAGE_DOWN, "more sizes", "a screen down; costs: more sizes"},
	{LW_REQUEST_SORT, "sort", NULL}, {LW_REQUEST_EXPORT, "CSV", NULL}, {0}};

const struct lw_view_ops lw_view_model = {
	.name = "model",
	.label = "model",
	.title = "parameters with intervals, fitted costs with residuals, scaling",
	.keys = {LW_TABLE_CAN | LW_CAN(TURN), words},
	.state_bytes = sizeof(struct lw_model_state),
	.open = open,
	.draw = draw,
	.tick = lw_model_scaling_tick,
	.request = request,
	.find = find,
	.copy = copy,
	.write = write,
	.done = done,
};
