/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_tensors.c - a line a tensor; `t`: a line a batch, as they recur, or those of the selected step.
 *
 * Enter opens what is selected in the lower half, Esc closes it.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/gpu_words.h"
#include "tui/app.h"
#include "tui/parts.h"
#include "tui/tensor_columns.h"
#include "tui/tensor_text.h"
#include "tui/tensor_unsent.h"

enum side { TENSORS, PATTERNS, OF_STEP, N_SIDES };

struct state {
	struct lw_table tables[N_SIDES];
	struct lw_tensor_rows rows[N_SIDES];
	enum side side;
	bool is_made[N_SIDES];
	bool has_details, was_open;
	int32_t shown_step; /* of OF_STEP */
	int32_t seen_tensor;
	int details_top; /* line */
};

/* ---- rows --------------------------------------------------------------------------------------- */

/* Of all steps they may be there already, made by the analysing thread. */
static int make_batches(
	struct lw_view *view, enum side side, struct lw_batch_row **ret_rows, size_t *ret_n)
{
	const struct state *state = view->state;
	struct lw_batch_list *list = NULL;

	if (side == PATTERNS)
		list = lw_prepared_take(&view->data->prepared, LW_PREPARED_BATCHES);
	if (!list)
		return lw_batch_rows_make(view->data->analysis->run,
			side == OF_STEP ? state->shown_step : LW_NONE, ret_rows, ret_n);
	*ret_rows = list->at;
	*ret_n = list->n;
	free(list);
	return LW_OK;
}

static int open_side(struct lw_view *view, enum side side)
{
	struct state *state = view->state;
	struct lw_tensor_rows *rows = &state->rows[side];
	struct lw_run *run = view->data->analysis->run;
	bool is_tensors = side == TENSORS;
	size_t n = run->tensors.n;
	int status;

	if (state->is_made[side])
		return LW_OK;
	free(rows->stats);
	free(rows->batches);
	free(rows->carriers);
	*rows = (struct lw_tensor_rows){.run = run};
	status = is_tensors ? lw_prepared_tensors(&view->data->prepared, run, &rows->stats)
			    : make_batches(view, side, &rows->batches, &n);
	if (status == LW_OK && is_tensors)
		status = lw_tensor_carriers(
			run, view->data->analysis->advice.replay, &rows->carriers);
	if (status == LW_OK)
		status = !is_tensors      ? lw_table_open(&state->tables[side], lw_batch_columns,
						    lw_batch_n_columns, n, rows)
			 : rows->carriers ? lw_table_open(&state->tables[side], lw_carried_columns,
						    lw_carried_n_columns, n, rows)
					  : lw_table_open(&state->tables[side], lw_tensor_columns,
						    lw_tensor_n_columns, n, rows);
	state->is_made[side] = status == LW_OK;
	return status;
}

/* The selected step, else the first that counts. */
static int32_t wanted_step(const struct lw_view *view)
{
	const struct lw_run *run = view->data->analysis->run;
	size_t n = lw_run_n_steps(run);

	if (view->focus->step != LW_NONE && (size_t)view->focus->step < n)
		return view->focus->step;
	for (size_t s = 0; s < n; s++)
		if (lw_summary_is_counted(run, s))
			return (int32_t)s;
	return 0;
}

static int open(struct lw_view *view)
{
	struct state *state = view->state;

	if (!state->was_open) { /* as the gradients come */
		state->tables[TENSORS].sort = LW_TENSOR_READY_COLUMN;
		state->tables[TENSORS].is_sorted = state->was_open = true;
	}
	memset(state->is_made, 0, sizeof(state->is_made));
	state->shown_step = wanted_step(view);
	state->seen_tensor = LW_NONE;
	return open_side(view, state->side);
}

static void done(struct lw_view *view)
{
	struct state *state = view->state;

	for (int i = 0; i < N_SIDES; i++) {
		lw_table_done(&state->tables[i]);
		free(state->rows[i].stats);
		free(state->rows[i].batches);
		free(state->rows[i].carriers);
	}
}

static int follow(struct lw_view *view)
{
	struct state *state = view->state;

	if (state->shown_step != wanted_step(view)) {
		state->shown_step = wanted_step(view);
		state->is_made[OF_STEP] = false;
	}
	if (open_side(view, state->side) < 0)
		return LW_ERR_NOMEM;
	if (state->side == TENSORS && view->focus->tensor != state->seen_tensor &&
		view->focus->tensor >= 0)
		lw_table_select(&state->tables[TENSORS], (size_t)view->focus->tensor);
	lw_table_mark(&state->tables[TENSORS], view->focus->tensor);
	state->seen_tensor = view->focus->tensor;
	return LW_OK;
}

/* ---- details ------------------------------------------------------------------------------------ */

static void draw_details(struct state *state, struct lw_pane pane)
{
	struct lw_pane inside;
	int n_lines;
	const struct lw_tensor_rows *rows = &state->rows[state->side];
	size_t row = lw_table_row(&state->tables[state->side]), n = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &n);

	lw_pane_rule(pane, 0, "details  (PageDown more, Esc closes)");
	if (!out || row == SIZE_MAX) {
		if (out)
			fclose(out);
		free(text);
		return;
	}
	if (state->side == TENSORS)
		lw_tensor_print(rows->run, (uint32_t)row, &rows->stats[row], rows->carriers, out);
	else
		lw_batch_print(rows->run, &rows->batches[row], state->side == PATTERNS, out);
	fclose(out);
	inside = lw_pane_part(pane, 0, 1, pane.width, pane.height - 1);
	/* first only to learn how many lines it takes */
	n_lines = lw_pane_wrap(lw_pane_part(inside, 0, 0, inside.width, 0), 1, 0, inside.width - 2,
		LW_STYLE_TEXT, text);
	if (state->details_top > n_lines - inside.height)
		state->details_top = n_lines > inside.height ? n_lines - inside.height : 0;
	lw_pane_wrap(inside, 1, -state->details_top, inside.width - 2, LW_STYLE_TEXT, text);
	if (n_lines - state->details_top > inside.height)
		lw_pane_right(pane, pane.width - 1, pane.height - 1, 8, LW_STYLE_WARN, " more ..");
	free(text);
}

/* ---- drawing ------------------------------------------------------------------------------------ */

enum { HEADING_LINES = 2, LEAST_FOR_DETAILS = 9, LEAST_FOR_HALVES = 12 };

static int table_lines(const struct state *state, int height)
{
	int n_lines = height - HEADING_LINES;

	if (state->has_details && height < LEAST_FOR_DETAILS)
		return 0; /* they name what is selected */
	if (state->has_details && height < LEAST_FOR_HALVES)
		return 2; /* titles, and what is selected */
	return state->has_details ? n_lines - n_lines / 2 : n_lines;
}

static void describe_tensors(
	const struct state *state, size_t n_steps, char text[LW_TABLE_TEXT_BYTES])
{
	const struct lw_tensor_rows *rows = &state->rows[TENSORS];
	size_t n_ranks = rows->run->ranks.n, n_unsent = 0;
	int n;

	for (size_t t = 0; t < rows->run->tensors.n; t++)
		n_unsent += rows->stats[t].n == 0;
	n = snprintf(text, LW_TABLE_TEXT_BYTES, "Tensors: mean of %zu step%s, %zu rank%s", n_steps,
		n_steps == 1 ? "" : "s", n_ranks, n_ranks == 1 ? "" : "s");
	if (n_unsent) /* parameters of DDP go in buckets; broadcasts come before the first step */
		snprintf(text + n, LW_TABLE_TEXT_BYTES - (size_t)n, "; %zu not sent as such (-)",
			n_unsent);
}

static void draw_heading(struct lw_view *view, struct lw_pane pane)
{
	static const char *const notes[N_SIDES] = {
		[TENSORS] = "ready: queued after the step began; spread: last rank after the first",
		[PATTERNS] = "agreed, start: after the step began; wire: last rank in to last out",
		[OF_STEP] = "agreed, start: after the step began; wire: last rank in to last out",
	};
	const struct state *state = view->state;
	const struct lw_summary *summary = &view->data->analysis->summary;
	const struct lw_run *run = view->data->analysis->run;
	const char *note = notes[state->side];
	char text[LW_TABLE_TEXT_BYTES];

	if (state->side == TENSORS && state->rows[TENSORS].carriers)
		note = "ready: queued (a parameter: complete) after the step began; goes in: bucket";
	else if (state->side == TENSORS && lw_gpu_is_time(run) && !lw_run_is_one_clock(run))
		note = "ready: its data was there; spread, last rank: who entered it, by lengths of kernels";
	if (state->side == TENSORS)
		describe_tensors(state, summary->n_steps, text);
	else if (state->side == PATTERNS)
		snprintf(text, sizeof(text), "Batches as they recur: mean of %zu step%s",
			summary->n_steps, summary->n_steps == 1 ? "" : "s");
	else
		snprintf(text, sizeof(text),
			lw_run_n_steps(run) ? "Batches of step %d%s  ([ ] another step)"
					    : "Batches of a step: no step was found",
			state->shown_step,
			lw_summary_is_counted(run, (size_t)state->shown_step)
				? ""
				: ", left out of means");
	lw_pane_heading(pane, &state->tables[state->side], LW_STYLE_STRONG, text);
	lw_pane_text(pane, 1, 1, pane.width - 2, LW_STYLE_DIM, note);
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	struct state *state = view->state;
	int n_lines = table_lines(state, pane.height);

	if (follow(view) < 0) {
		lw_pane_wrap(pane, 1, 1, pane.width - 2, LW_STYLE_BAD, lw_error_text());
		return;
	}
	draw_heading(view, pane);
	if (!state->tables[state->side].n_rows) {
		lw_pane_wrap(pane, 1, 3, pane.width - 2, LW_STYLE_WARN,
			state->side == TENSORS
				? "No tensor is known by name: the program is no Horovod or DDP job, or nothing was recorded."
				: "No operation of a step that counts is in the run.");
		return;
	}
	lw_table_draw(&state->tables[state->side],
		lw_pane_part(pane, 0, HEADING_LINES, pane.width, n_lines));
	if (state->has_details)
		draw_details(state, lw_pane_part(pane, 0, HEADING_LINES + n_lines, pane.width,
					    pane.height - HEADING_LINES - n_lines));
}

/* ---- requests ----------------------------------------------------------------------------------- */

static void enter(struct lw_view *view)
{
	struct state *state = view->state;
	size_t row = lw_table_row(&state->tables[state->side]);

	if (row == SIZE_MAX)
		return;
	state->has_details = true;
	if (state->side == TENSORS)
		view->focus->tensor = state->seen_tensor = (int32_t)row;
	else
		view->focus->group = (int32_t)state->rows[state->side].batches[row].group;
}

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct state *state = view->state;
	struct lw_input inside =
		lw_input_inside(input, HEADING_LINES, table_lines(state, input->height));
	int page;

	switch ((int)input->request) {
	case LW_REQUEST_TURN:
		state->side = (state->side + 1) % N_SIDES;
		return true;
	case LW_REQUEST_ENTER:
		enter(view);
		return true;
	case LW_REQUEST_BACK:
		if (!state->has_details)
			return false;
		state->has_details = false;
		return true;
	case LW_REQUEST_PAGE_DOWN:
	case LW_REQUEST_PAGE_UP:
		if (!state->has_details)
			break;
		page = input->height - HEADING_LINES - inside.height - 2;
		state->details_top += input->request == LW_REQUEST_PAGE_DOWN ? page : -page;
		if (state->details_top < 0)
			state->details_top = 0;
		return true;
	case LW_REQUEST_NEXT_STEP:
	case LW_REQUEST_PREVIOUS_STEP:
		if (view->focus->step == LW_NONE)
			view->focus->step = state->shown_step;
		lw_focus_move(view->focus, view->data->analysis->run,
			input->request == LW_REQUEST_NEXT_STEP ? 1 : -1);
		return true;
	case LW_REQUEST_ZOOM_ALL:
		view->focus->step = LW_NONE;
		return true;
	default:
		break;
	}
	state->details_top = 0;
	return state->is_made[state->side] &&
	       lw_table_request(&state->tables[state->side], &inside);
}

static struct lw_table *table(struct lw_view *view)
{
	struct state *state = view->state;

	return state->is_made[state->side] ? &state->tables[state->side] : NULL;
}

static const struct lw_key_words words[] = {{LW_REQUEST_TURN, "tensors/batches/of a step", NULL},
	{LW_REQUEST_ENTER, "details", NULL}, {LW_REQUEST_SORT, "sort", NULL},
	{LW_REQUEST_SEARCH, "search", NULL}, {LW_REQUEST_ZOOM_ALL, NULL, "select no step"}, {0}};

const struct lw_view_ops lw_view_tensors = {
	.name = "tensors",
	.label = "tensor",
	.title = "tensors and batches: when they are ready, who is last, what they cost",
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
