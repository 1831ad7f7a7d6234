/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_ranks.c - who is slow: a line a rank, those that come late in words, and a map of rank x step.
 *
 * `t` changes what the map shows. The rank selected in the table and the step of the focus are marked in it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/emit/late_words.h"
#include "analyzer/gpu_words.h"
#include "tui/app.h"
#include "tui/heatmap.h"
#include "tui/parts.h"
#include "tui/rank_stats.h"

enum measure { LATE, STEP, COMPUTE, EXPOSED, N_MEASURES };

struct rows { /* the context of the table */
	const struct lw_run *run;
	const struct lw_summary *summary;
	const struct lw_rank_stats *stats;
};

struct state {
	struct lw_table table;
	struct rows rows;
	struct lw_rank_stats *stats;
	struct lw_heatmap map;
	enum measure measure;
	double *late_ns, *values_ns; /* ranks x steps */
	bool *is_out;                /* by step */
	int32_t *labels;             /* by rank */
	int32_t seen_rank;
	char words[LW_APP_MESSAGE_BYTES]; /* who is late */
};

static const struct {
	const char *name, *title;
} measures[N_MEASURES] = {
	[LATE] = {"late", "late after the first rank"},
	[STEP] = {"step", "length of the step"},
	[COMPUTE] = {"compute", "compute"},
	[EXPOSED] = {"exposed", "exposed communication"},
};

/* ---- columns ------------------------------------------------------------------------------------ */

static double summary_figure(const void *context, size_t row, int key)
{
	const struct rows *rows = context;
	const char *rank = (const char *)&rows->summary->ranks.at[row];

	return ((const struct lw_figure *)(rank + key))->value;
}

static double statistic(const void *context, size_t row, int key)
{
	const struct rows *rows = context;

	return *(const double *)((const char *)&rows->stats[row] + key);
}

static const struct lw_straggler *straggler_of(const struct rows *rows, size_t row)
{
	const struct lw_straggler *straggler;

	lw_vec_foreach (straggler, &rows->summary->stragglers)
		if (straggler->rank == rows->run->ranks.at[row].rank)
			return straggler;
	return NULL;
}

static const char *rank_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct rows *rows = context;

	snprintf(text, LW_TABLE_TEXT_BYTES, "%s%d", straggler_of(rows, row) ? "! " : "",
		rows->run->ranks.at[row].rank);
	return text;
}

static double rank_value(const void *context, size_t row)
{
	const struct rows *rows = context;

	return rows->run->ranks.at[row].rank;
}

static enum lw_style rank_style(const void *context, size_t row)
{
	const struct lw_straggler *straggler = straggler_of(context, row);

	return !straggler ? LW_STYLE_TEXT : straggler->is_persistent ? LW_STYLE_BAD : LW_STYLE_WARN;
}

static const char *verdict_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct rows *rows = context;
	const struct lw_straggler *straggler = straggler_of(rows, row);

	(void)text;
	if (rows->run->ranks.at[row].died)
		return "ended without saying so";
	if (!straggler)
		return "";
	return rows->summary->n_steps == 1 ? "in one step"
	       : straggler->is_persistent  ? "persistent"
					   : "takes turns";
}

static const char *host_text(const void *context, size_t row, char text[LW_TABLE_TEXT_BYTES])
{
	const struct rows *rows = context;

	(void)text;
	return rows->run->ranks.at[row].host;
}

#define SUMMARY(text, member)                                                                      \
	{                                                                                          \
		.title = (text), .width = 7, .number = summary_figure,                             \
		.key = (int)offsetof(struct lw_rank_summary, member##_ns), .format = lw_ns_format, \
		.csv = #member "_ns"                                                               \
	}
#define STATISTIC(text, columns, member, how)                                                      \
	{                                                                                          \
		.title = (text), .width = (columns), .number = statistic,                          \
		.key = (int)offsetof(struct lw_rank_stats, member), .format = (how),               \
		.csv = #member                                                                     \
	}

static const struct lw_table_column columns[] = {
	{.title = "rank",
		.width = 5,
		.text = rank_text,
		.value = rank_value,
		.style = rank_style,
		.csv = "rank"},
	SUMMARY("step", step),
	SUMMARY("compute", compute),
	SUMMARY("exposed", exposed),
	SUMMARY("idle", idle),
	SUMMARY("hidden", hidden),
	STATISTIC("late", 7, late_ns, lw_ns_format),
	STATISTIC("last in", 7, last_frac, lw_percent_format),
	STATISTIC("sent/st.", 8, sent_bytes_per_step, lw_bytes_format),
	{.title = "verdict",
		.width = 11,
		.is_left = true,
		.grows = true,
		.text = verdict_text,
		.style = rank_style},
	{.title = "host", .width = 12, .is_left = true, .text = host_text},
};

/* ---- what is shown ------------------------------------------------------------------------------ */

static void describe(struct state *state)
{
	const struct lw_summary *summary = state->rows.summary;
	const struct lw_run *run = state->rows.run;
	const struct lw_straggler *straggler;
	size_t n = 0, size = sizeof(state->words);
	char late[LW_UNIT_TEXT_BYTES];
	struct lw_late found;

	state->words[0] = 0;
	lw_late_find(run, summary, &found);
	if (summary->n_steps && lw_late_is_beside(&found)) { /* what no step tells */
		snprintf(state->words, size, "! Late rank: %.480s", found.text);
		return;
	}
	if (run->ranks.n < 2)
		snprintf(state->words, size, "%s rank is in the run: who is late is not known.",
			run->ranks.n ? "One" : "No");
	else if (!summary->n_steps)
		snprintf(state->words, size, "No step that counts: who is late is not known.");
	else if (isnan(state->stats[0].late_ns))
		snprintf(state->words, size,
			run->is_plain && run->gpu.has_kernels
				? "Who is late is not known: no operation that ranks leave together has its kernels recorded on all of them."
				: "Who is late is not known: no ready times.");
	else if (!summary->stragglers.n)
		snprintf(state->words, size,
			"No rank is late: none is 2 %% of a step behind on average and often last.");
	lw_vec_foreach (straggler, &summary->stragglers) {
		if (n < size && summary->n_steps == 1)
			n += (size_t)snprintf(state->words + n, size - n,
				"! rank %d is last in the one step that counts, by %s",
				straggler->rank, lw_ns_or_unknown(straggler->last_ns, late));
		else if (n < size)
			n += (size_t)snprintf(state->words + n, size - n,
				"%srank %d %s: last in %.0f %% of the steps, then by %s",
				n ? "; " : "! ", straggler->rank,
				straggler->is_persistent ? "is late, persistent"
							 : "takes turns with others",
				100 * straggler->steps_frac,
				lw_ns_or_unknown(straggler->last_ns, late));
	}
}

static double measure_ns(const struct state *state, enum measure measure, size_t r, size_t s)
{
	const struct lw_run *run = state->rows.run;
	const struct lw_step *step = &run->ranks.at[r].steps.at[s];

	switch (measure) {
	case LATE:
		return state->late_ns[r * lw_run_n_steps(run) + s];
	case STEP:
		return (double)(step->end_ns - step->start_ns);
	case COMPUTE:
		return lw_ns_known(step->compute_ns);
	case EXPOSED:
	case N_MEASURES:
		break;
	}
	return lw_ns_known(step->exposed_ns);
}

static void fill_map(struct state *state)
{
	size_t n_steps = state->map.n_columns;

	for (size_t r = 0; r < state->map.n_rows; r++)
		for (size_t s = 0; s < n_steps; s++)
			state->values_ns[r * n_steps + s] = measure_ns(state, state->measure, r, s);
	lw_heatmap_scale(&state->map, state->measure == LATE);
}

static void release(struct state *state)
{
	free(state->stats);
	free(state->late_ns);
	free(state->values_ns);
	free(state->is_out);
	free(state->labels);
	state->stats = NULL;
	state->late_ns = state->values_ns = NULL;
	state->is_out = NULL;
	state->labels = NULL;
}

static int make(struct state *state, const struct lw_run *run)
{
	size_t n_steps = lw_run_n_steps(run), n = run->ranks.n * n_steps + 1;
	int status;

	state->late_ns = malloc(n * sizeof(*state->late_ns));
	state->values_ns = malloc(n * sizeof(*state->values_ns));
	state->is_out = calloc(n_steps + 1, sizeof(*state->is_out));
	state->labels = calloc(run->ranks.n + 1, sizeof(*state->labels));
	if (!state->late_ns || !state->values_ns || !state->is_out || !state->labels)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu steps", n_steps);
	for (size_t s = 0; s < n_steps; s++)
		state->is_out[s] = !lw_summary_is_counted(run, s);
	for (size_t r = 0; r < run->ranks.n; r++)
		state->labels[r] = run->ranks.at[r].rank;
	status = lw_rank_late_ns(run, state->late_ns);
	return status < 0 ? status : lw_rank_stats_make(run, state->late_ns, &state->stats);
}

static int open(struct lw_view *view)
{
	struct state *state = view->state;
	const struct lw_analysis *analysis = view->data->analysis;
	const struct lw_run *run = analysis->run;
	int status;

	release(state);
	status = make(state, run);
	if (status < 0)
		return status;
	state->rows = (struct rows){run, &analysis->summary, state->stats};
	state->map = (struct lw_heatmap){.n_rows = run->ranks.n,
		.n_columns = lw_run_n_steps(run),
		.values = state->values_ns,
		.is_out = state->is_out,
		.labels = state->labels,
		.row_name = "rank",
		.column_name = "step",
		.row = SIZE_MAX,
		.column = SIZE_MAX};
	state->seen_rank = LW_NONE;
	fill_map(state);
	describe(state);
	return lw_table_open(&state->table, columns, sizeof(columns) / sizeof(columns[0]),
		run->ranks.n, &state->rows);
}

static void done(struct lw_view *view)
{
	struct state *state = view->state;

	release(state);
	lw_table_done(&state->table);
}

/* ---- drawing ------------------------------------------------------------------------------------ */

static const char *format_ns(double ns, char *text)
{
	return lw_ns_format(ns, text);
}

enum { LEAST_FOR_MAP = 12 };

struct panes {
	struct lw_pane table, map;
};

/* The map gets what the table does not need, and most where there are many ranks. */
static struct panes split(const struct state *state, struct lw_pane pane, int n_words)
{
	int top = 1 + n_words, left = pane.height - top;
	int n_ranks = (int)(state->table.n_rows < 1000 ? state->table.n_rows : 1000);
	int n_lines = n_ranks + 1, wanted = n_ranks + LW_HEATMAP_TOP_LINES + 1;

	if (pane.height < LEAST_FOR_MAP)
		n_lines = left;
	else if (n_lines + wanted > left && n_lines > left * 2 / 5)
		n_lines = left - wanted > left * 2 / 5 ? left - wanted : left * 2 / 5;
	return (struct panes){lw_pane_part(pane, 0, top, pane.width, n_lines),
		lw_pane_part(pane, 0, top + n_lines, pane.width, left - n_lines)};
}

static int words_lines(const struct state *state, int width, int height)
{
	int n = (lw_text_width(state->words) + width - 3) / (width > 2 ? width - 2 : 1);

	return n < 2 || height < LEAST_FOR_MAP ? 1 : 2;
}

static void follow(struct lw_view *view)
{
	struct state *state = view->state;
	int32_t rank = view->focus->rank;

	if (rank != state->seen_rank && rank >= 0)
		lw_table_select(&state->table, (size_t)rank);
	lw_table_mark(&state->table, rank);
	state->seen_rank = rank;
	state->map.row = lw_table_row(&state->table);
	state->map.column = view->focus->step == LW_NONE ? SIZE_MAX : (size_t)view->focus->step;
}

static void draw_words(const struct state *state, struct lw_pane pane)
{
	enum lw_style style = state->words[0] == '!' ? LW_STYLE_WARN : LW_STYLE_DIM;

	lw_pane_wrap(pane, 1, 0, pane.width - 2, style, state->words);
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	struct state *state = view->state;
	const struct lw_summary *summary = state->rows.summary;
	int n_words = words_lines(state, pane.width, pane.height);
	struct panes panes = split(state, pane, n_words);
	char text[LW_TABLE_TEXT_BYTES];

	follow(view);
	snprintf(text, sizeof(text), "Ranks: mean of %zu step%s%s%s%s", summary->n_steps,
		summary->n_steps == 1 ? "" : "s",
		lw_gpu_is_time(state->rows.run) ? ", compute on the GPU" : "",
		summary->exposed_ns.how == LW_ASSUMED ? ", exposed at most (assumed)" : "",
		state->rows.run->n_missing_ranks ? "; ranks are missing, see the log" : "");
	lw_pane_heading(pane, &state->table, LW_STYLE_STRONG, text);
	draw_words(state, lw_pane_part(pane, 0, 1, pane.width, n_words));
	if (!state->table.n_rows) {
		lw_pane_print(pane, 1, 3, LW_STYLE_WARN, "No rank is in the run.");
		return;
	}
	lw_table_draw(&state->table, panes.table);
	snprintf(text, sizeof(text),
		state->map.n_columns ? "%s, rank x step  (t another measure)"
				     : "%s: no step was found",
		measures[state->measure].title);
	if (!panes.map.height)
		return;
	lw_pane_rule(panes.map, 0, text);
	if (state->map.n_columns)
		lw_heatmap_draw(&state->map,
			lw_pane_part(panes.map, 0, 1, panes.map.width, panes.map.height - 1),
			measures[state->measure].name, format_ns);
}

/* ---- requests ----------------------------------------------------------------------------------- */

static void click_map(struct lw_view *view, const struct lw_input *input, struct panes panes)
{
	struct state *state = view->state;
	size_t row, column;
	struct lw_pane map = lw_pane_part(panes.map, 0, 1, panes.map.width, panes.map.height - 1);

	if (!lw_heatmap_at(&state->map, map, input->x, input->y - map.y, &row, &column))
		return;
	lw_table_select(&state->table, row);
	view->focus->step = (int32_t)column;
}

static void zoom(struct state *state, int by, struct lw_pane map)
{
	unsigned closest = lw_heatmap_closest(&state->map, map.width, map.height - 1);

	if (by > 0)
		state->map.zoom += state->map.zoom < closest;
	else
		state->map.zoom -= state->map.zoom > 0;
}

static void enter(struct lw_view *view)
{
	struct state *state = view->state;
	size_t row = lw_table_row(&state->table);

	if (row == SIZE_MAX)
		return;
	view->focus->rank = state->seen_rank = (int32_t)row;
	lw_app_say(view->app, false, "rank %d is selected, in all views",
		state->rows.run->ranks.at[row].rank);
}

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct state *state = view->state;
	struct lw_cells cells = {.width = input->width, .height = input->height};
	struct panes panes = split(
		state, lw_pane_whole(&cells), words_lines(state, input->width, input->height));
	struct lw_input inside = lw_input_inside(input, panes.table.y, panes.table.height);

	switch ((int)input->request) {
	case LW_REQUEST_TURN:
		state->measure = (state->measure + 1) % N_MEASURES;
		fill_map(state);
		return true;
	case LW_REQUEST_ENTER:
		enter(view);
		return true;
	case LW_REQUEST_NEXT_STEP:
	case LW_REQUEST_PREVIOUS_STEP:
		lw_focus_move(view->focus, state->rows.run,
			input->request == LW_REQUEST_NEXT_STEP ? 1 : -1);
		return true;
	case LW_REQUEST_ZOOM_IN:
	case LW_REQUEST_ZOOM_OUT:
		zoom(state, input->request == LW_REQUEST_ZOOM_IN ? 1 : -1, panes.map);
		return true;
	case LW_REQUEST_ZOOM_ALL:
		state->map.zoom = 0;
		view->focus->step = LW_NONE;
		return true;
	case LW_REQUEST_CLICK:
		if (input->y >= panes.map.y) {
			click_map(view, input, panes);
			return true;
		}
		break;
	default:
		break;
	}
	return lw_table_request(&state->table, &inside);
}

static struct lw_table *table(struct lw_view *view)
{
	return &((struct state *)view->state)->table;
}

static const struct lw_key_words words[] = {
	{LW_REQUEST_TURN, "map of late/step/compute/exposed", NULL},
	{LW_REQUEST_PREVIOUS_STEP, "", NULL}, {LW_REQUEST_NEXT_STEP, "step", NULL},
	{LW_REQUEST_ZOOM_IN, "closer", NULL}, {LW_REQUEST_SORT, "sort", NULL},
	{LW_REQUEST_ENTER, NULL, "select this rank, in all views"},
	{LW_REQUEST_ZOOM_ALL, NULL, "all steps in the map"}, {0}};

const struct lw_view_ops lw_view_ranks = {
	.name = "ranks",
	.label = "rank",
	.title = "a line a rank, who is late, and a map of rank x step",
	.keys = {LW_TABLE_CAN | LW_CAN(TURN) | LW_CAN(ENTER) | LW_CAN(ZOOM_IN) | LW_CAN(ZOOM_OUT) |
			 LW_CAN(NEXT_STEP) | LW_CAN(PREVIOUS_STEP) | LW_CAN(ZOOM_ALL),
		words},
	.state_bytes = sizeof(struct state),
	.open = open,
	.draw = draw,
	.request = request,
	.table = table,
	.done = done,
};
