/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_phases.c - the phases and the overlap in figures: a line a step, a rank or a tensor.
 *
 * `t` turns between the three. A figure of a step is the mean over its ranks, that of a rank belongs to the selected
 * step or is the mean of all that count, that of a tensor is the mean over steps and ranks (tensor_stats.h).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/gpu_words.h"
#include "tui/app.h"
#include "tui/parts.h"
#include "tui/phase_rows.h"
#include "tui/tensor_stats.h"

enum side { BY_STEP, BY_RANK, BY_TENSOR, N_SIDES };

struct state {
	struct lw_table tables[N_SIDES];
	struct lw_phase_rows rows[N_SIDES];
	enum side side;
	int32_t shown_step; /* what BY_RANK holds */
	struct lw_focus seen;
	bool has_tensors, was_sorted;
};

/* ---- columns ------------------------------------------------------------------------------------ */

/* A tensor that no step sends has no phases, which is another thing than not to know them. */
static const char *no_figure(const void *context, size_t row)
{
	const struct lw_phase_rows *rows = context;

	return rows->stats && !rows->stats[row].n ? "-" : "?";
}

static double figure(const void *context, size_t row, int key)
{
	const struct lw_phase_rows *rows = context;

	return rows->figures_ns[row][key];
}

static const char *step_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_phase_rows *rows = context;

	snprintf(text, LW_TABLE_TEXT_BYTES, "%zu%s", row,
		lw_summary_is_counted(rows->run, row) ? " " : "x");
	return text;
}

static double row_number(const void *context, size_t row)
{
	(void)context;
	return (double)row;
}

static enum lw_style step_style(const void *context, size_t row)
{
	const struct lw_phase_rows *rows = context;

	return lw_summary_is_counted(rows->run, row) ? LW_STYLE_TEXT : LW_STYLE_DIM;
}

static const char *excluded_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_phase_rows *rows = context;
	const char *why = NULL;

	(void)text;
	for (size_t r = 0; r < rows->run->ranks.n && !why; r++)
		why = rows->run->ranks.at[r].steps.at[row].excluded;
	return why ? why : "";
}

static const char *rank_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_phase_rows *rows = context;

	snprintf(text, LW_TABLE_TEXT_BYTES, "%d", rows->run->ranks.at[row].rank);
	return text;
}

static const char *host_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_phase_rows *rows = context;

	(void)text;
	return rows->run->ranks.at[row].host;
}

static const char *tensor_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_phase_rows *rows = context;

	(void)text;
	return rows->run->tensors.at[row].name;
}

static double tensor_bytes(const void *context, size_t row, int key)
{
	const struct lw_phase_rows *rows = context;

	(void)key;
	return rows->stats[row].bytes;
}

static void draw_parts(const struct lw_phase_rows *rows, size_t row, struct lw_pane cell,
	const enum lw_phase_figure *figures, const enum lw_lane *lanes, size_t n)
{
	struct lw_bar_part parts[4];
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		double ns = rows->figures_ns[row][figures[i]];

		parts[i] = (struct lw_bar_part){lanes[i], isnan(ns) ? 0 : ns};
		sum += isnan(ns) ? 0 : ns;
	}
	/* an excluded step may be longer than all that count */
	lw_pane_bar(cell, 0, 0, cell.width, parts, n, fmax(rows->whole_ns, sum));
	if (sum > rows->whole_ns * 1.0001)
		lw_pane_rune(
			cell, cell.width - 1, 0, LW_STYLE_WARN, lw_glyph(cell.cells, LW_GLYPH_CUT));
	if (!(sum > 0))
		lw_pane_print(cell, 0, 0, LW_STYLE_DIM, "%s", no_figure(rows, row));
}

static const enum lw_lane overlap_lanes[] = {LW_LANE_COMPUTE, LW_LANE_EXPOSED, LW_LANE_IDLE};
static const enum lw_lane phase_lanes[] = {
	LW_LANE_NEGOTIATE, LW_LANE_WAIT, LW_LANE_ALLREDUCE, LW_LANE_MISC};

static void draw_overlap(const void *context, size_t row, struct lw_pane cell)
{
	static const enum lw_phase_figure figures[] = {
		LW_PHASE_COMPUTE, LW_PHASE_EXPOSED, LW_PHASE_IDLE};

	draw_parts(context, row, cell, figures, overlap_lanes, 3);
}

static void draw_phases(const void *context, size_t row, struct lw_pane cell)
{
	static const enum lw_phase_figure figures[] = {
		LW_PHASE_NEGOTIATE, LW_PHASE_WAIT, LW_PHASE_ALLREDUCE, LW_PHASE_MISC};

	draw_parts(context, row, cell, figures, phase_lanes, 4);
}

#define NS(text, columns, figure_key, name)                                                        \
	{                                                                                          \
		.title = (text), .width = (columns), .number = figure, .key = (figure_key),        \
		.format = lw_ns_format, .csv = (name), .unknown = no_figure                        \
	}
#define OVERLAP_COLUMNS                                                                            \
	NS("step", 7, LW_PHASE_STEP, "step_ns"),                                                   \
		{.title = "parts",                                                                 \
			.width = 8,                                                                \
			.is_left = true,                                                           \
			.grows = true,                                                             \
			.draw = draw_overlap},                                                     \
		NS("exposed", 7, LW_PHASE_EXPOSED, "exposed_ns"),                                  \
		NS("NEGOTIATE", 9, LW_PHASE_NEGOTIATE, "negotiate_ns"),                            \
		NS("WAIT", 7, LW_PHASE_WAIT, "wait_ns"),                                           \
		NS("ALLREDUCE", 9, LW_PHASE_ALLREDUCE, "allreduce_ns"),                            \
		NS("MISC", 7, LW_PHASE_MISC, "misc_ns"), NS("late", 7, LW_PHASE_LATE, "late_ns"),  \
		NS("cycle", 7, LW_PHASE_TICK, "cycle_wait_ns"),                                    \
		NS("entry", 7, LW_PHASE_ENTRY, "entry_ns"),                                        \
		NS("compute", 7, LW_PHASE_COMPUTE, "compute_ns"),                                  \
		NS("idle", 7, LW_PHASE_IDLE, "idle_ns")

static const struct lw_table_column step_columns[] = {
	{.title = "no.",
		.width = 6,
		.text = step_text,
		.value = row_number,
		.style = step_style,
		.csv = "step"},
	OVERLAP_COLUMNS,
	{.title = "left out",
		.width = 20,
		.is_left = true,
		.text = excluded_text,
		.style = step_style},
};

static const struct lw_table_column rank_columns[] = {
	{.title = "rank", .width = 5, .text = rank_text, .value = row_number},
	OVERLAP_COLUMNS,
	{.title = "host", .width = 12, .is_left = true, .text = host_text},
};

enum { ALLREDUCE_COLUMN = 3 };

static const struct lw_table_column tensor_columns[] = {
	{.title = "tensor", .width = 18, .is_left = true, .grows = true, .text = tensor_text},
	NS("NEGOTIATE", 9, LW_PHASE_NEGOTIATE, "negotiate_ns"),
	NS("WAIT", 7, LW_PHASE_WAIT, "wait_ns"),
	NS("ALLREDUCE", 9, LW_PHASE_ALLREDUCE, "allreduce_ns"),
	NS("MISC", 7, LW_PHASE_MISC, "misc_ns"),
	{.title = "queued to done",
		.width = 14,
		.is_left = true,
		.grows = true,
		.draw = draw_phases},
	NS("late", 7, LW_PHASE_LATE, "late_ns"),
	NS("entry", 7, LW_PHASE_ENTRY, "entry_ns"),
	{.title = "bytes",
		.width = 8,
		.number = tensor_bytes,
		.format = lw_bytes_format,
		.csv = "bytes"},
};

static const struct {
	const struct lw_table_column *columns;
	size_t n_columns;
	const enum lw_lane *lanes;
	size_t n_lanes;
	const char *notes[2];
} sides[N_SIDES] = {
#define N(array) (sizeof(array) / sizeof((array)[0]))
	[BY_STEP] = {step_columns, N(step_columns), overlap_lanes, 3,
		{"late: of NEGOTIATE, a rank has not queued it.  cycle: of WAIT, nothing runs.",
			"entry: of ALLREDUCE, a rank has not entered.  Phases overlap: do not add them."}},
	[BY_RANK] = {rank_columns, N(rank_columns), overlap_lanes, 3,
		{"late: of NEGOTIATE, a rank has not queued it.  cycle: of WAIT, nothing runs.",
			"entry: of ALLREDUCE, a rank has not entered.  Phases overlap: do not add them."}},
	[BY_TENSOR] = {tensor_columns, N(tensor_columns), phase_lanes, 4,
		{"late: of NEGOTIATE, a rank has not queued it yet.",
			"entry: of ALLREDUCE, a rank has not entered the collective yet."}},
};

/* ---- rows --------------------------------------------------------------------------------------- */

static int open_side(struct state *state, const struct lw_run *run, enum side side, size_t n_rows)
{
	struct lw_phase_rows *rows = &state->rows[side];
	double(*figures_ns)[LW_PHASE_COUNT] = calloc(n_rows + 1, sizeof(*figures_ns));

	if (!figures_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu rows", n_rows);
	free(rows->figures_ns);
	free(rows->stats);
	*rows = (struct lw_phase_rows){.run = run, .figures_ns = figures_ns};
	return LW_OK;
}

static int open_table(struct state *state, enum side side, size_t n_rows)
{
	return lw_table_open(&state->tables[side], sides[side].columns, sides[side].n_columns,
		n_rows, &state->rows[side]);
}

/* Only when they are looked at: all records of the run are gone through. */
static int open_tensors(struct state *state, struct lw_data *data)
{
	struct lw_run *run = data->analysis->run;
	struct lw_phase_rows *rows = &state->rows[BY_TENSOR];
	int status;

	if (state->has_tensors)
		return LW_OK;
	status = open_side(state, run, BY_TENSOR, run->tensors.n);
	if (status == LW_OK)
		status = lw_prepared_tensors(&data->prepared, run, &rows->stats);
	if (status == LW_OK) {
		lw_phase_rows_fill_tensors(rows);
		if (!state->was_sorted) { /* those that take longest on the wire */
			state->tables[BY_TENSOR].sort = ALLREDUCE_COLUMN;
			state->tables[BY_TENSOR].is_sorted = true;
			state->tables[BY_TENSOR].is_descending = state->was_sorted = true;
		}
		status = open_table(state, BY_TENSOR, run->tensors.n);
	}
	state->has_tensors = status == LW_OK;
	return status;
}

static int open(struct lw_view *view)
{
	struct state *state = view->state;
	struct lw_run *run = view->data->analysis->run;
	int status = open_side(state, run, BY_STEP, lw_run_n_steps(run));

	if (status == LW_OK)
		status = open_side(state, run, BY_RANK, run->ranks.n);
	if (status < 0)
		return status;
	lw_phase_rows_fill_steps(&state->rows[BY_STEP], lw_run_n_steps(run));
	lw_phase_rows_fill_ranks(&state->rows[BY_RANK], LW_NONE);
	state->shown_step = LW_NONE;
	state->has_tensors = false;
	state->seen = LW_FOCUS_NONE;
	status = open_table(state, BY_STEP, lw_run_n_steps(run));
	if (status == LW_OK)
		status = open_table(state, BY_RANK, run->ranks.n);
	if (status == LW_OK && state->side == BY_TENSOR)
		status = open_tensors(state, view->data);
	return status;
}

static void done(struct lw_view *view)
{
	struct state *state = view->state;

	for (int i = 0; i < N_SIDES; i++) {
		lw_table_done(&state->tables[i]);
		free(state->rows[i].figures_ns);
		free(state->rows[i].stats);
	}
}

/* ---- drawing ------------------------------------------------------------------------------------ */

/* What was selected elsewhere is selected here too. */
static void follow(struct lw_view *view)
{
	struct state *state = view->state;
	const struct lw_focus *focus = view->focus;
	const int32_t now[N_SIDES] = {focus->step, focus->rank, focus->tensor};
	const int32_t before[N_SIDES] = {state->seen.step, state->seen.rank, state->seen.tensor};

	for (int i = 0; i < N_SIDES; i++) {
		lw_table_mark(&state->tables[i], now[i]);
		if (now[i] != before[i] && now[i] >= 0)
			lw_table_select(&state->tables[i], (size_t)now[i]);
	}
	state->seen = *focus;
	if (focus->step != state->shown_step &&
		focus->step < (int32_t)lw_run_n_steps(view->data->analysis->run)) {
		lw_phase_rows_fill_ranks(&state->rows[BY_RANK], focus->step);
		state->shown_step = focus->step;
	}
}

static void draw_heading(struct lw_view *view, struct lw_pane pane)
{
	const struct state *state = view->state;
	const struct lw_run *run = view->data->analysis->run;
	const struct lw_summary *summary = &view->data->analysis->summary;
	struct lw_bar_part parts[4];
	char text[LW_TABLE_TEXT_BYTES], number[LW_STEP_TEXT_BYTES];
	int x;

	if (state->side == BY_STEP)
		snprintf(text, sizeof(text), "By step: mean of %zu rank%s.  x: left out of means%s",
			run->ranks.n, run->ranks.n == 1 ? "" : "s",
			state->seen.step == LW_NONE ? "" : "  *: selected");
	else if (state->side == BY_RANK && state->shown_step != LW_NONE)
		snprintf(text, sizeof(text), "By rank: step %s%s  ([ ] another, a the mean)",
			lw_rank_step_text(&run->ranks.at[0], state->shown_step, number),
			lw_summary_is_counted(run, (size_t)state->shown_step)
				? ""
				: ", left out of means");
	else if (state->side == BY_RANK)
		snprintf(text, sizeof(text), "By rank: mean of %zu step%s  ([ ] one of them)",
			summary->n_steps, summary->n_steps == 1 ? "" : "s");
	else
		snprintf(text, sizeof(text), "By tensor: mean over %zu step%s and %zu rank%s",
			summary->n_steps, summary->n_steps == 1 ? "" : "s", run->ranks.n,
			run->ranks.n == 1 ? "" : "s");
	lw_pane_heading(pane, &state->tables[state->side], LW_STYLE_STRONG, text);
	for (size_t i = 0; i < sides[state->side].n_lanes; i++)
		parts[i] = (struct lw_bar_part){sides[state->side].lanes[i], 0};
	x = 1 + lw_pane_legend(pane, 1, 1, parts, sides[state->side].n_lanes);
	if (state->side == BY_TENSOR)
		return;
	if (isnan(summary->exposed_ns.value))
		lw_pane_print(pane, x, 1, LW_STYLE_WARN, "exposed ?: %s",
			summary->exposed_ns.why ? summary->exposed_ns.why : "");
	else if (summary->exposed_ns.how == LW_ASSUMED)
		lw_pane_print(
			pane, x, 1, LW_STYLE_WARN, "exposed: at most (assumed, no waits recorded)");
	else if (lw_gpu_is_time(run))
		lw_pane_print(pane, x, 1, LW_STYLE_DIM, "compute: when kernels on the GPU do");
}

enum { HEADING_LINES = 2, NOTE_LINES = 3, LEAST_FOR_NOTES = 16 };

static int table_lines(int height)
{
	return height - HEADING_LINES - (height >= LEAST_FOR_NOTES ? NOTE_LINES : 0);
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	struct state *state = view->state;
	const struct lw_marks *marks = &view->data->analysis->run->marks;
	int n_lines = table_lines(pane.height);

	follow(view);
	draw_heading(view, pane);
	if (!state->tables[state->side].n_rows) {
		lw_pane_wrap(pane, 1, 3, pane.width - 2, LW_STYLE_WARN,
			state->side == BY_STEP
				? (*marks->why ? marks->why
					       : "No training step was found: no gradient came twice.")
				: "Nothing of this kind is in the run.");
		return;
	}
	lw_table_draw(&state->tables[state->side],
		lw_pane_part(pane, 0, HEADING_LINES, pane.width, n_lines));
	if (pane.height < LEAST_FOR_NOTES)
		return;
	for (int i = 0; i < 2; i++)
		lw_pane_text(pane, 1, pane.height - 2 + i, pane.width - 2, LW_STYLE_DIM,
			sides[state->side].notes[i]);
}

/* ---- requests ----------------------------------------------------------------------------------- */

static void turn(struct lw_view *view)
{
	struct state *state = view->state;

	state->side = (state->side + 1) % N_SIDES;
	if (state->side == BY_TENSOR && open_tensors(state, view->data) < 0) {
		lw_app_say(view->app, true, "%s", lw_error_text());
		state->side = BY_STEP;
	}
}

static void enter(struct lw_view *view)
{
	struct state *state = view->state;
	const struct lw_run *run = view->data->analysis->run;
	size_t row = lw_table_row(&state->tables[state->side]);

	if (row == SIZE_MAX)
		return;
	if (state->side == BY_STEP) {
		view->focus->step = (int32_t)row;
		lw_app_show(view->app, lw_view_find("timeline"));
	} else if (state->side == BY_RANK) {
		view->focus->rank = (int32_t)row;
		lw_app_say(view->app, false, "rank %d is selected, in all views",
			run->ranks.at[row].rank);
	} else {
		view->focus->tensor = (int32_t)row;
		lw_app_say(view->app, false, "%s is selected, in all views",
			run->tensors.at[row].name);
	}
}

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct state *state = view->state;
	struct lw_input inside = lw_input_inside(input, HEADING_LINES, table_lines(input->height));

	switch ((int)input->request) {
	case LW_REQUEST_TURN:
		turn(view);
		return true;
	case LW_REQUEST_ENTER:
		enter(view);
		return true;
	case LW_REQUEST_NEXT_STEP:
	case LW_REQUEST_PREVIOUS_STEP:
		lw_focus_move(view->focus, view->data->analysis->run,
			input->request == LW_REQUEST_NEXT_STEP ? 1 : -1);
		return true;
	case LW_REQUEST_ZOOM_ALL:
		view->focus->step = LW_NONE;
		return true;
	default:
		return lw_table_request(&state->tables[state->side], &inside);
	}
}

static struct lw_table *table(struct lw_view *view)
{
	struct state *state = view->state;

	return &state->tables[state->side];
}

static const struct lw_key_words words[] = {{LW_REQUEST_TURN, "step/rank/tensor", NULL},
	{LW_REQUEST_SORT, "sort", NULL}, {LW_REQUEST_LEFT, "", NULL},
	{LW_REQUEST_RIGHT, "columns", NULL},
	{LW_REQUEST_ENTER, "show", "a step: in the timeline; else select it in all views"},
	{LW_REQUEST_ZOOM_ALL, NULL, "the mean of all steps"}, {0}};

const struct lw_view_ops lw_view_phases = {
	.name = "phases",
	.label = "phase",
	.title = "NEGOTIATE, WAIT, ALLREDUCE, MISC and what was exposed: by step, rank, tensor",
	.keys = {LW_TABLE_CAN | LW_CAN(TURN) | LW_CAN(ENTER) | LW_CAN(NEXT_STEP) |
			 LW_CAN(PREVIOUS_STEP) | LW_CAN(ZOOM_ALL),
		words},
	.state_bytes = sizeof(struct state),
	.open = open,
	.draw = draw,
	.request = request,
	.table = table,
	.done = done,
};
