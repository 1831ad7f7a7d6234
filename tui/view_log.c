/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_log.c - all that is lost, missing or odd in this run, and what was left out and why.
 *
 * The text of what is selected stands below the table, whole.
 */
#include <stdlib.h>
#include <string.h>

#include "tui/app.h"
#include "tui/parts.h"

enum level { BAD, ODD, NOTE, N_LEVELS };

struct entry {
	enum level level;
	const char *stage, *kind, *text; /* of the run, or static */
	uint64_t n, n_more;
};

struct rows { /* the context of the table */
	struct entry *at;
	size_t n, capacity;
};

struct state {
	struct lw_table table;
	struct rows rows;
	size_t n_of[N_LEVELS];
};

/* Findings after which figures lack something, by kind; those of stage "loss" all are. */
static const char *const bad_kinds[] = {"missing ranks", "not closed", "unmatched operation",
	"bad rows", "hook refused", "tensors without a batch", "rank without batches",
	"round not recorded", "process without a rank", "one rank's view"};

/* ---- columns ------------------------------------------------------------------------------------ */

static const char *const level_names[N_LEVELS] = {"! missing", "? odd", "  note"};
static const enum lw_style level_styles[N_LEVELS] = {LW_STYLE_BAD, LW_STYLE_WARN, LW_STYLE_TEXT};

static const struct entry *entry_of(const void *context, size_t row)
{
	const struct rows *rows = context;

	return &rows->at[row];
}

static const char *level_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)text;
	return level_names[entry_of(context, row)->level];
}

static double level_value(const void *context, size_t row)
{
	return (double)entry_of(context, row)->level;
}

static enum lw_style level_style(const void *context, size_t row)
{
	return level_styles[entry_of(context, row)->level];
}

static const char *stage_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)text;
	return entry_of(context, row)->stage;
}

static const char *kind_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)text;
	return entry_of(context, row)->kind;
}

static const char *text_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	(void)text;
	return entry_of(context, row)->text;
}

static double count_of(const void *context, size_t row, int key)
{
	(void)key;
	return (double)entry_of(context, row)->n;
}

static const struct lw_table_column columns[] = {
	{.title = "what",
		.width = 9,
		.is_left = true,
		.text = level_text,
		.value = level_value,
		.style = level_style},
	{.title = "n", .width = 5, .number = count_of, .format = lw_count_format, .csv = "n"},
	{.title = "kind", .width = 20, .is_left = true, .text = kind_text},
	{.title = "text", .width = 20, .is_left = true, .grows = true, .text = text_text},
	{.title = "stage", .width = 8, .is_left = true, .text = stage_text},
};

/* ---- rows --------------------------------------------------------------------------------------- */

static enum level level_of(const struct lw_diag *diag)
{
	if (!strcmp(diag->stage, "loss"))
		return BAD;
	for (size_t i = 0; i < sizeof(bad_kinds) / sizeof(bad_kinds[0]); i++)
		if (!strcmp(diag->kind, bad_kinds[i]))
			return BAD;
	return ODD;
}

static int add_diags(struct state *state, const struct lw_run *run)
{
	const struct lw_diag *diag;
	int status = LW_OK;

	for (enum level level = BAD; level < NOTE; level++)
		lw_vec_foreach (diag, &run->diags) {
			struct entry entry = {
				level, diag->stage, diag->kind, diag->text, diag->n, diag->n_more};

			if (level_of(diag) == level && status == LW_OK)
				status = lw_vec_push(&state->rows, entry);
		}
	return status;
}

/* How many steps each reason left out. */
static int add_excluded(struct state *state, const struct lw_run *run)
{
	size_t first = state->rows.n;

	for (size_t s = 0; s < lw_run_n_steps(run); s++) {
		const char *why = NULL;
		size_t i = first;

		for (size_t r = 0; r < run->ranks.n && !why; r++)
			why = run->ranks.at[r].steps.at[s].excluded;
		if (!why)
			continue;
		while (i < state->rows.n && strcmp(state->rows.at[i].text, why) != 0)
			i++;
		if (i == state->rows.n) {
			struct entry entry = {NOTE, "step", "steps left out", why, 0, 0};

			if (lw_vec_push(&state->rows, entry) < 0)
				return LW_ERR_NOMEM;
		}
		state->rows.at[i].n++;
	}
	return LW_OK;
}

static int open(struct lw_view *view)
{
	struct state *state = view->state;
	const struct lw_run *run = view->data->analysis->run;
	int status;

	state->rows.n = 0;
	memset(state->n_of, 0, sizeof(state->n_of));
	status = add_diags(state, run);
	if (status == LW_OK)
		status = add_excluded(state, run);
	if (status < 0)
		return status;
	for (size_t i = 0; i < state->rows.n; i++)
		state->n_of[state->rows.at[i].level]++;
	return lw_table_open(&state->table, columns, sizeof(columns) / sizeof(columns[0]),
		state->rows.n, &state->rows);
}

static void done(struct lw_view *view)
{
	struct state *state = view->state;

	lw_table_done(&state->table);
	lw_vec_free(&state->rows);
}

/* ---- drawing ------------------------------------------------------------------------------------ */

enum { HEADING_LINES = 2, LEAST_FOR_DETAILS = 10 };

static int table_lines(const struct state *state, int height)
{
	int left = height - HEADING_LINES, wanted = (int)state->table.n_rows + 1;

	if (height < LEAST_FOR_DETAILS)
		return left;
	return wanted > left - left / 3 ? left - left / 3 : wanted;
}

static void draw_heading(struct lw_view *view, struct lw_pane pane)
{
	const struct state *state = view->state;
	const struct lw_run *run = view->data->analysis->run;
	const struct lw_summary *summary = &view->data->analysis->summary;
	char text[LW_TABLE_TEXT_BYTES];

	if (state->n_of[BAD] + state->n_of[ODD] == 0)
		snprintf(text, sizeof(text), "Nothing was lost, nothing is odd.");
	else if (run->n_lost || (int32_t)run->ranks.n < run->size)
		snprintf(text, sizeof(text),
			"%llu records lost, %d of %d ranks are not in the run%s",
			(unsigned long long)run->n_lost, run->size - (int32_t)run->ranks.n,
			run->size, run->is_closed ? "" : "; the run was not closed");
	else
		snprintf(text, sizeof(text), "No record lost, no rank missing%s; %zu finding%s",
			run->is_closed ? "" : "; the run was not closed",
			state->n_of[BAD] + state->n_of[ODD],
			state->n_of[BAD] + state->n_of[ODD] == 1 ? "" : "s");
	lw_pane_heading(
		pane, &state->table, state->n_of[BAD] ? LW_STYLE_BAD : LW_STYLE_STRONG, text);
	lw_pane_print(pane, 1, 1, LW_STYLE_DIM,
		"%zu steps count, %zu left out; %llu operations matched over ranks",
		summary->n_steps, summary->n_excluded, (unsigned long long)run->groups.n);
}

static void draw_details(const struct state *state, struct lw_pane pane)
{
	size_t row = lw_table_row(&state->table);
	const struct entry *entry;
	char title[LW_TABLE_TEXT_BYTES];
	int n_lines;

	if (row == SIZE_MAX)
		return;
	entry = &state->rows.at[row];
	snprintf(title, sizeof(title), "%s: %s, %llu time%s", entry->stage, entry->kind,
		(unsigned long long)entry->n, entry->n == 1 ? "" : "s");
	lw_pane_rule(pane, 0, title);
	n_lines = lw_pane_wrap(lw_pane_part(pane, 0, 1, pane.width, pane.height - 1), 1, 0,
		pane.width - 2, level_styles[entry->level], entry->text);
	if (entry->n_more)
		lw_pane_print(pane, 1, 1 + n_lines, LW_STYLE_DIM,
			"and %llu more of this kind, whose texts were not kept",
			(unsigned long long)entry->n_more);
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	struct state *state = view->state;
	int n_lines = table_lines(state, pane.height);

	draw_heading(view, pane);
	if (!state->table.n_rows)
		return;
	lw_table_draw(&state->table, lw_pane_part(pane, 0, HEADING_LINES, pane.width, n_lines));
	draw_details(state, lw_pane_part(pane, 0, HEADING_LINES + n_lines, pane.width,
				    pane.height - HEADING_LINES - n_lines));
}

/* ---- requests ----------------------------------------------------------------------------------- */

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct state *state = view->state;
	struct lw_input inside =
		lw_input_inside(input, HEADING_LINES, table_lines(state, input->height));

	return lw_table_request(&state->table, &inside);
}

static struct lw_table *table(struct lw_view *view)
{
	return &((struct state *)view->state)->table;
}

static const struct lw_key_words words[] = {{LW_REQUEST_SORT, "sort", NULL},
	{LW_REQUEST_SEARCH, "search", NULL}, {LW_REQUEST_COPY, "copy", NULL},
	{LW_REQUEST_EXPORT, "write as CSV", NULL}, {0}};

const struct lw_view_ops lw_view_log = {
	.name = "log",
	.label = "log",
	.title = "what was lost, is missing or odd, and which steps are left out",
	.keys = {LW_TABLE_CAN, words},
	.state_bytes = sizeof(struct state),
	.open = open,
	.draw = draw,
	.request = request,
	.table = table,
	.done = done,
};
