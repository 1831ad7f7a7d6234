/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_advice.c - what to change, how much it would gain, and how sure that is; Enter: the whole story.
 *
 * Advice comes first, in its own order, then findings: what was looked for and why there is nothing to
 * advise. The story is the text of `advise --explain`, under one step as replayed and as predicted: what it
 * consists of, and over time.
 */
#include <math.h>
#include <stdlib.h>

#include "analyzer/advise/trial.h"
#include "analyzer/emit/advice.h"
#include "base/units.h"
#include "tui/advice_rows.h"
#include "tui/lines.h"
#include "tui/parts.h"
#include "tui/predict.h"
#include "tui/step_picture.h"
#include "tui/table.h"

enum {
	MOST_COPY_LINES = 3,
	MOST_WHY_LINES = 2,
	MOST_TOP_LINES = 3,
	LEAST_STORY = 8,
	ROOMY = 30,
	PICTURE_LINES = 6
};

struct state {
	const struct lw_advice_list *list; /* of the analysis that was opened */
	const struct lw_run *run;
	struct lw_table table;
	bool is_story;
	struct lw_lines story;
	int list_y; /* where the list begins on the screen */
	struct lw_share measured, replayed;
	struct lw_trace replayed_trace, predicted_trace; /* of the story; n_ranks 0: none */
	char why_no_trace[LW_REPLY_TEXT_BYTES];
};

/* ---- opening ------------------------------------------------------------------------------------ */

static void drop_traces(struct state *state)
{
	lw_trace_done(&state->replayed_trace);
	lw_trace_done(&state->predicted_trace);
	state->why_no_trace[0] = 0;
}

static int ordinary_step(
	const struct lw_advice_list *list, const struct lw_whatif *whatif, uint32_t *ret_step)
{
	uint32_t n = lw_replay_n(list->replay);
	double *other_ns = malloc((n + 1) * sizeof(*other_ns));
	struct lw_prediction prediction;
	int status = other_ns ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory for %u steps", n);

	if (status == LW_OK)
		status = lw_replay_predict(list->replay, whatif, &prediction, other_ns);
	if (status == LW_OK)
		*ret_step = lw_trace_ordinary(list->base_ns, other_ns, n);
	free(other_ns);
	return status;
}

/* One step as recorded and as advised. What has none says so in words. */
static void trace(struct state *state, size_t row)
{
	const struct lw_advice_list *list = state->list;
	const struct lw_advice *advice = lw_advice_row_advice(list, row);
	struct lw_trace *replayed = &state->replayed_trace;
	uint32_t step = 0;
	int status;

	lw_trace_done(&state->predicted_trace);
	state->why_no_trace[0] = 0;
	if (!list->replay)
		return;
	if (!advice) {
		snprintf(state->why_no_trace, sizeof(state->why_no_trace),
			"No setting is advised here, so no timeline is predicted. What the step consists of is above; %s.",
			lw_advise_n_tried(list, lw_advice_row_id(list, row))
				? "what was tried, and what it would take, is below"
				: "this stands on what was measured, nothing was simulated for it");
		return;
	}
	lw_trace_done(replayed);
	status = ordinary_step(list, &advice->whatif, &step);
	if (status == LW_OK)
		status = lw_replay_trace(list->replay, &LW_WHATIF_RECORDED, step, replayed);
	if (status == LW_OK)
		status = lw_replay_trace(
			list->replay, &advice->whatif, step, &state->predicted_trace);
	if (status < 0) {
		drop_traces(state);
		snprintf(state->why_no_trace, sizeof(state->why_no_trace),
			"No timeline is predicted: %s", lw_error_text());
		lw_error_clear();
	}
}

static int open_story(struct state *state, const struct lw_run *run)
{
	size_t row = lw_table_row(&state->table), n;
	char *text = NULL;
	FILE *out;

	lw_lines_done(&state->story);
	if (row == SIZE_MAX)
		return LW_OK;
	trace(state, row);
	out = open_memstream(&text, &n);
	if (!out)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	lw_advice_explain_text(state->list, run, lw_advice_row_id(state->list, row), out);
	if (fclose(out) != 0) {
		free(text);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	return lw_lines_take(&state->story, text);
}

static int open(struct lw_view *view)
{
	struct state *state = view->state;
	int status;

	drop_traces(state); /* of another analysis */
	state->list = &view->data->analysis->advice;
	state->run = view->data->analysis->run;
	if (state->list->replay)
		state->replayed = lw_share_of(state->list->replay, &state->list->base);
	state->measured = lw_share_measured(&view->data->analysis->summary);
	status = lw_table_open(&state->table, lw_advice_columns, LW_ADVICE_N_COLUMNS,
		state->list->advice.n + state->list->findings.n, state->list);
	if (status == LW_OK && state->is_story)
		status = open_story(state, view->data->analysis->run);
	return status;
}

static void done(struct lw_view *view)
{
	struct state *state = view->state;

	drop_traces(state);
	lw_table_done(&state->table);
	lw_lines_done(&state->story);
}

/* ---- drawing ------------------------------------------------------------------------------------ */

/* @lines: of the pane that nothing else needs. Return: lines. */
static int draw_bars(const struct state *state, struct lw_pane pane, size_t row, int lines)
{
	const struct lw_advice *advice = lw_advice_row_advice(state->list, row);
	struct lw_shares shares = {.replayed = &state->replayed};
	struct lw_share predicted;

	if (!state->list->replay)
		return 0;
	lw_shares_room(&shares, &state->measured, lines);
	if (advice) {
		predicted = lw_share_of(state->list->replay, &advice->prediction);
		lw_share_resize(&predicted, advice->step_ns.value);
		shares.predicted = &predicted;
	}
	return lw_shares_draw(pane, 0, &shares);
}

/* As `y` copies them. */
static void write_lines(const struct lw_advice *advice, FILE *out)
{
	bool has_sets = !advice->code || advice->kind == LW_ADVICE_SET;

	for (uint32_t i = 0; has_sets && i < advice->n_sets; i++)
		fprintf(out, "export %s=%s\n", advice->set[i].name, advice->set[i].value);
	if (advice->code)
		fprintf(out, "%s\n", advice->code);
}

/* Return: lines. */
static int draw_lines_to_copy(const struct lw_advice *advice, struct lw_pane pane, int y)
{
	struct lw_lines lines = {0};
	char *text = NULL;
	size_t n, n_shown = 0;
	FILE *out = open_memstream(&text, &n);

	if (!out)
		return 0;
	write_lines(advice, out);
	if (fclose(out) != 0 || lw_lines_take(&lines, text) < 0) {
		lw_lines_done(&lines);
		return 0;
	}
	n = lines.at.n <= MOST_COPY_LINES + 1 ? lines.at.n : MOST_COPY_LINES;
	for (; n_shown < n; n_shown++)
		lw_pane_text(pane, 3, y + (int)n_shown, pane.width - 4, LW_STYLE_GOOD,
			lines.at.at[n_shown]);
	if (n_shown < lines.at.n)
		lw_pane_print(pane, 3, y + (int)n_shown++, LW_STYLE_DIM,
			"and %zu more lines: Enter shows them, y copies all", lines.at.n - n);
	lw_lines_done(&lines);
	return (int)n_shown;
}

/* Return: lines that the lines to copy and the reason need; the story has the rest of a longer one. */
static int words_of(const struct lw_advice *advice, struct lw_pane pane)
{
	struct lw_pane nowhere = lw_pane_part(pane, 0, 0, 0, 0);
	int n_why = lw_pane_wrap(nowhere, 0, 0, pane.width - 2, LW_STYLE_TEXT, advice->why);

	return draw_lines_to_copy(advice, nowhere, 0) +
	       (n_why < MOST_WHY_LINES ? n_why : MOST_WHY_LINES);
}

/* Of the selected line: the words that the list had no room for. */
static void draw_detail(const struct state *state, struct lw_pane pane, size_t row)
{
	const struct lw_advice *advice = lw_advice_row_advice(state->list, row);
	const struct lw_finding *finding = lw_advice_row_finding(state->list, row);
	char place[LW_TABLE_TEXT_BYTES];
	int y = 0;

	lw_pane_fill(pane, 0, y, pane.width, LW_STYLE_DIM, lw_glyph(pane.cells, LW_GLYPH_LINE));
	snprintf(place, sizeof(place), " %zu of %zu ", state->table.at + 1, state->table.n_rows);
	lw_pane_right(pane, pane.width - 1, y++, pane.width - 2, LW_STYLE_DIM, place);
	if (finding) {
		lw_pane_print(pane, 1, y++, LW_STYLE_DIM, "%s", finding->id);
		y += lw_pane_fit(pane, 1, y, pane.width - 2, pane.height - y, LW_STYLE_TEXT,
			finding->text, "");
		y++;
		draw_bars(state, lw_pane_part(pane, 0, y, pane.width, pane.height - y), row,
			pane.height - y);
		return;
	}
	y += draw_bars(state, lw_pane_part(pane, 0, y, pane.width, pane.height - y), row,
		pane.height - y - words_of(advice, pane));
	y += draw_lines_to_copy(advice, pane, y);
	y += lw_pane_fit(
		pane, 1, y, pane.width - 2, pane.height - y, LW_STYLE_TEXT, advice->why, "");
	lw_pane_fit(pane, 1, y, pane.width - 2, pane.height - y, LW_STYLE_DIM, advice->sure, "");
}

/* No line at all: the adviser's reason, and the way out of it. */
static void draw_nothing(const struct state *state, struct lw_pane pane)
{
	if (!state->list->replay)
		lw_predict_refuse(pane, state->list->why_not[0] ? state->list->why_not
								: state->list->baseline_ns.why);
	else
		lw_pane_wrap(pane, 1, 1, pane.width - 2, LW_STYLE_TEXT,
			"No adviser has anything to say of this run: nothing that was tried is "
			"predicted to gain more than its own error.");
}

/* On the line below the list: which rows these are, and in what order. */
static void draw_order(const struct state *state, struct lw_pane pane, int y, size_t n_shown)
{
	size_t n = state->table.n_rows;
	char text[128] = " ";
	int at = 1;

	if (n > n_shown)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "rows %zu-%zu of %zu ",
			state->table.top + 1, state->table.top + n_shown, n);
	if (state->list->advice.n > 1 && !state->table.is_sorted)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			"%seasiest to do first, of a kind what surely gains most ",
			at > 1 ? "- " : "");
	if (at > 1)
		lw_pane_right(pane, pane.width - 2, y, pane.width - 4, LW_STYLE_DIM, text);
}

static void draw_list(struct state *state, struct lw_pane pane)
{
	size_t row = lw_table_row(&state->table);
	int list_lines = (int)state->table.n_rows + 1, most = pane.height - 12, y = 0;
	char top[LW_ADVICE_TEXT_BYTES];

	if (row == SIZE_MAX || (!state->list->replay && state->table.n_rows == 1)) {
		draw_nothing(state, pane);
		return;
	}
	if (state->list->replay) {
		lw_advise_headline(state->list, top);
		if (pane.height > 20) /* a small screen shows how it begins */
			y += lw_pane_fit(pane, 1, y, pane.width - 2,
				pane.height >= ROOMY ? pane.height : MOST_TOP_LINES,
				LW_STYLE_STRONG, top, "");
		else
			lw_pane_text(pane, 1, y++, pane.width - 2, LW_STYLE_STRONG, top);
		state->list_y = y;
	} else if (state->list->why_not[0]) {
		y += lw_pane_wrap(pane, 1, y, pane.width - 2, LW_STYLE_WARN, state->list->why_not);
	}
	if (list_lines > most - y)
		list_lines = most - y > 3 ? most - y : 3;
	lw_table_draw(&state->table, lw_pane_part(pane, 0, y, pane.width, list_lines));
	y += list_lines;
	draw_detail(state, lw_pane_part(pane, 0, y, pane.width, pane.height - y), row);
	draw_order(state, pane, y, (size_t)list_lines - 1);
}

/* Over the text: what the step consists of, and the step over time. Return: lines. */
static int draw_pictures(const struct state *state, struct lw_pane pane, size_t row)
{
	int y = draw_bars(state, pane, row, pane.height - PICTURE_LINES);

	if (state->why_no_trace[0] && y < pane.height)
		y += lw_pane_fit(pane, 1, y, pane.width - 2, pane.height - y, LW_STYLE_DIM,
			state->why_no_trace, "");
	else if (state->predicted_trace.ranks && y + LW_STEP_PICTURE_LEAST <= pane.height)
		y += lw_step_picture(lw_pane_part(pane, 0, y, pane.width, pane.height - y),
			state->run, &state->replayed_trace, &state->predicted_trace);
	return y;
}

static void draw_story(struct state *state, struct lw_pane pane)
{
	size_t row = lw_table_row(&state->table);
	int most = pane.height - LEAST_STORY - 1, y = 0;

	if (most > pane.height / 2 + 1)
		most = pane.height / 2 + 1;
	if (row != SIZE_MAX && most >= LEAST_STORY) {
		y = draw_pictures(state, lw_pane_part(pane, 0, 0, pane.width, most), row);
		lw_pane_fill(pane, 0, y++, pane.width, LW_STYLE_DIM,
			lw_glyph(pane.cells, LW_GLYPH_LINE));
	}
	lw_lines_draw(&state->story, lw_pane_part(pane, 0, y, pane.width, pane.height - y));
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	struct state *state = view->state;

	if (state->is_story && state->story.at.n)
		draw_story(state, pane);
	else
		draw_list(state, pane);
}

/* ---- requests ----------------------------------------------------------------------------------- */

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct state *state = view->state;
	struct lw_input inner = *input;

	if (state->is_story) {
		if (input->request == LW_REQUEST_BACK || input->request == LW_REQUEST_ENTER)
			state->is_story = false;
		else
			return lw_lines_request(&state->story, input->request);
		return true;
	}
	if (input->request == LW_REQUEST_ENTER) {
		if (open_story(state, view->data->analysis->run) < 0)
			lw_error_clear();
		state->is_story = state->story.at.n > 0;
		state->story.top = 0;
		return true;
	}
	inner.y -= state->list_y;
	inner.height = inner.height > 14 ? inner.height - 12 : 3;
	return lw_table_request(&state->table, &inner);
}

static bool find(struct lw_view *view, const char *text, int by)
{
	struct state *state = view->state;

	return state->is_story ? lw_lines_find(&state->story, text, by)
			       : lw_table_find(&state->table, text, by);
}

/* The selected advice, if it has lines to set. NULL: there are none to copy. */
static const struct lw_advice *to_copy(const struct state *state)
{
	size_t row = lw_table_row(&state->table);
	const struct lw_advice *advice =
		row == SIZE_MAX ? NULL : lw_advice_row_advice(state->list, row);

	return advice && (advice->n_sets || advice->code) ? advice : NULL;
}

static bool copy(struct lw_view *view, FILE *out)
{
	struct state *state = view->state;
	const struct lw_advice *advice = to_copy(state);

	if (!advice) {
		if (lw_table_row(&state->table) != SIZE_MAX)
			lw_fail(LW_ERR_STATE, "no setting does this");
		return false;
	}
	write_lines(advice, out);
	return true;
}

static int write(struct lw_view *view, FILE *out)
{
	struct state *state = view->state;

	return lw_table_write(&state->table, out);
}

#define WORDS(copy_hint)                                                                           \
	{                                                                                          \
		{LW_REQUEST_ENTER, "story", "the whole story of this advice"},                     \
			{LW_REQUEST_LEFT, "", NULL},                                               \
			{LW_REQUEST_RIGHT, "in it", "columns; in the story: sideways"},            \
			{LW_REQUEST_COPY, copy_hint, "copy the lines to set (OSC 52)"},            \
			{LW_REQUEST_BACK, "back", NULL}, {LW_REQUEST_EXPORT, "CSV", NULL},         \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}
static const struct lw_key_words words[] = WORDS("copy lines"), without_lines[] = WORDS(NULL);

static const struct lw_key_words *words_now(const struct lw_view *view)
{
	return to_copy(view->state) ? words : without_lines;
}

const struct lw_view_ops lw_view_advice = {
	.name = "advice",
	.label = "advice",
	.title = "what to change, what it would gain, and the lines to paste",
	.keys = {LW_TABLE_CAN | LW_CAN(ENTER), words},
	.state_bytes = sizeof(struct state),
	.open = open,
	.draw = draw,
	.request = request,
	.find = find,
	.copy = copy,
	.words = words_now,
	.write = write,
	.done = done,
};
