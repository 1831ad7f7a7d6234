/* SPDX-License-Identifier: Apache-2.0 */
/* view_live.c - the overview while the job runs: its last seconds, rank by rank, and what to do about them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "tui/live.h"

enum { MAX_RANKS = 1024, MAX_COLUMNS = 1024, HEAD_LINES = 7, FOOT_LINES = 6, CELL_BYTES = 64 };

#define QUIET_NS (3 * LW_NS_PER_S / 2) /* without a record */

static const double late_frac = 0.02; /* of a step: what is less is no news (docs/phases.md) */
static const double persistent_frac = 0.75; /* last in at least so many */

/* What one picture is made of. */
struct picture {
	const struct lw_live *live;
	const struct lw_live_model *model; /* of it, or as it was when the picture was held */
	int64_t to_ns, now_ns;
	struct lw_live_figures job;
	const struct lw_live_rank *ranks[MAX_RANKS]; /* by number */
	size_t n_ranks, n_alive, n_died;
	const struct lw_live_rank *latest; /* NULL: nobody is late */
	struct lw_live_figures latest_figures;
};

/* ---- gathering -------------------------------------------------------------------------------------------- */

static void insert(struct picture *picture, const struct lw_live_rank *rank)
{
	size_t at = picture->n_ranks;

	if (at >= MAX_RANKS)
		return;
	for (; at > 0 && picture->ranks[at - 1]->rank > rank->rank; at--)
		picture->ranks[at] = picture->ranks[at - 1];
	picture->ranks[at] = rank;
	picture->n_ranks++;
}

static void find_latest(struct picture *picture)
{
	double least_ns = isnan(picture->job.step_ns) ? (double)LW_NS_PER_MS
						      : late_frac * picture->job.step_ns;

	for (size_t i = 0; i < picture->n_ranks; i++) {
		struct lw_live_figures one;

		lw_live_rank_figures(picture->model, picture->ranks[i], picture->to_ns,
			picture->live->options.window_ns, &one);
		if (!(one.late_ns > least_ns))
			continue;
		least_ns = one.late_ns;
		picture->latest = picture->ranks[i];
		picture->latest_figures = one;
	}
}

static void gather(struct picture *picture, const struct lw_live *live)
{
	const struct lw_live_rank *rank;

	memset(picture, 0, sizeof(*picture));
	picture->live = live;
	picture->model = live->is_paused ? &live->held : &live->model;
	picture->to_ns = lw_live_to_ns(live);
	picture->now_ns = live->is_paused ? live->held_now_ns : live->now_ns;
	lw_live_job_figures(picture->model, picture->to_ns, live->options.window_ns, &picture->job);
	lw_vec_foreach (rank, &picture->model->ranks) {
		if (!lw_live_is_rank(rank))
			continue;
		insert(picture, rank);
		picture->n_alive += rank->ended == LW_LIVE_RUNS;
		picture->n_died += rank->ended == LW_LIVE_DIED;
	}
	find_latest(picture);
}

/* ---- the head ------------------------------------------------------------------------------------------------ */

static const char *state_text(const struct lw_live *live, char text[CELL_BYTES])
{
	double back_s = (double)(live->held_ns - lw_live_to_ns(live)) * 1e-9;

	if (live->is_paused && live->closing_ns)
		snprintf(text, CELL_BYTES, "HELD, %.1f s back; the job has ended", back_s);
	else if (live->is_paused && back_s > 0)
		snprintf(text, CELL_BYTES, "HELD, %.1f s back", back_s);
	else if (live->is_paused)
		snprintf(text, CELL_BYTES, "HELD");
	else if (live->closing_ns)
		lw_live_end_text(live, text);
	else if (live->is_left_told)
		snprintf(text, CELL_BYTES, "NO COLLECTOR");
	else
		snprintf(text, CELL_BYTES, live->rows.is_behind ? "catching up" : "following");
	return text;
}

static void draw_job(const struct picture *picture, struct lw_pane pane)
{
	const struct lw_live *live = picture->live;
	char right[160], age[LW_UNIT_TEXT_BYTES], state[CELL_BYTES], died[32] = "";
	bool is_bad = picture->n_died || live->is_left_told;
	int64_t end_ns = live->is_paused ? picture->to_ns : picture->now_ns;
	int width;

	if (picture->n_died)
		snprintf(died, sizeof(died), ", %zu DIED", picture->n_died);
	snprintf(right, sizeof(right), "%s  %zu of %zu ranks alive%s  %s",
		lw_age_format(
			picture->model->first_ns ? end_ns - picture->model->first_ns : 0, age),
		picture->n_alive, picture->n_ranks, died, state_text(live, state));
	width = lw_text_width(right);
	lw_pane_text(pane, 1, 0, pane.width - width - 4, LW_STYLE_STRONG,
		live->command[0] ? live->command : "nothing was recorded yet");
	lw_pane_right(pane, pane.width - 1, 0, pane.width - 2,
		is_bad            ? LW_STYLE_BAD
		: live->is_paused ? LW_STYLE_WARN
				  : LW_STYLE_GOOD,
		right);
}

static void draw_marks(const struct picture *picture, struct lw_pane pane, int x, int n_columns)
{
	int64_t last = picture->to_ns / LW_LIVE_SLOT_NS;

	for (size_t i = 0; i < picture->live->marks.n; i++) {
		int64_t back = last - picture->live->marks.at[i].at_ns / LW_LIVE_SLOT_NS;

		if (back >= 0 && back < n_columns)
			lw_pane_print(pane, x + n_columns - 1 - (int)back, 2, LW_STYLE_WARN, "%zu",
				i + 1);
	}
}

static void draw_step(const struct picture *picture, struct lw_pane pane)
{
	double values[MAX_COLUMNS];
	char step[LW_UNIT_TEXT_BYTES], span[CELL_BYTES];
	int x = 30, n, span_width;

	lw_pane_print(pane, 1, 1, LW_STYLE_DIM, "step");
	lw_pane_print(
		pane, 10, 1, LW_STYLE_STRONG, "%s", lw_ns_or_unknown(picture->job.step_ns, step));
	if (isnan(picture->job.step_ns)) {
		lw_pane_print(pane, 13, 1, LW_STYLE_DIM, "%s",
			picture->model->has_batches || !picture->job.n_steps
				? "no step ended in this window"
				: "a plain program's steps are found by the analysis");
		x = 44;
	} else if (picture->job.steps_per_s > 0) {
		lw_pane_print(pane, 19, 1, LW_STYLE_DIM, "%.3g/s", picture->job.steps_per_s);
	}
	n = pane.width - x - 12;
	if (n > MAX_COLUMNS)
		n = MAX_COLUMNS;
	if (n < 8)
		return;
	span_width =
		snprintf(span, sizeof(span), "last %.0f s", n * (double)LW_LIVE_SLOT_NS * 1e-9);
	lw_live_step_series(picture->model, picture->to_ns, (size_t)n, values);
	lw_pane_spark(pane, x, 1, n, LW_STYLE_ALLREDUCE, values, (size_t)n);
	lw_pane_text(pane, x + n + 1, 1, span_width, LW_STYLE_DIM, span);
	draw_marks(picture, pane, x, n);
}

static void draw_exposed(const struct picture *picture, struct lw_pane pane)
{
	double frac = picture->job.exposed_frac;
	const struct lw_bar_part parts[] = {{LW_LANE_EXPOSED, frac}, {LW_LANE_COMPUTE, 1 - frac}};

	lw_pane_print(pane, 1, 3, LW_STYLE_DIM, "exposed");
	if (isnan(frac)) {
		lw_pane_print(
			pane, 10, 3, LW_STYLE_DIM, "? not known: %s", picture->job.why_not_exposed);
		return;
	}
	lw_pane_print(pane, 10, 3, LW_STYLE_STRONG, "%.1f %%", 100 * frac);
	lw_pane_bar(pane, 19, 3, pane.width - 44, parts, 2, 1);
	lw_pane_legend(pane, pane.width - 23, 3, parts, 2);
}

static void draw_traffic(const struct picture *picture, struct lw_pane pane)
{
	char sent[LW_UNIT_TEXT_BYTES], received[LW_UNIT_TEXT_BYTES];
	uint64_t n_lost = 0;
	int x;

	for (size_t i = 0; i < picture->n_ranks; i++)
		n_lost += picture->ranks[i]->n_lost;
	lw_pane_print(pane, 1, 4, LW_STYLE_DIM, "traffic");
	x = 10 + lw_pane_print(pane, 10, 4, LW_STYLE_TEXT, "sent %s  received %s",
			 lw_rate_or_unknown(picture->job.sent_bytes_per_s, sent),
			 lw_rate_or_unknown(picture->job.received_bytes_per_s, received));
	if (!isnan(picture->job.ops_per_s))
		x += lw_pane_print(
			pane, x, 4, LW_STYLE_TEXT, "  %.3g operations/s", picture->job.ops_per_s);
	lw_pane_print(pane, x, 4, n_lost ? LW_STYLE_BAD : LW_STYLE_TEXT, "  dropped %llu%s",
		(unsigned long long)n_lost, n_lost ? " !" : "");
}

/* ---- the ranks ------------------------------------------------------------------------------------------------- */

struct row {
	const struct picture *picture;
	const struct lw_live_rank *rank;
	struct lw_live_figures figures;
	struct lw_live_figures later; /* after the window: of a picture that is held */
};

/* What is wrong with it stands before its number, where the state has no room, too. */
static void cell_rank(const struct row *row, char text[CELL_BYTES])
{
	const char *sign = row->rank->ended == LW_LIVE_DIED ? "x" : row->rank->n_lost ? "!" : "";

	if (row->rank->rank >= 0)
		snprintf(text, CELL_BYTES, "%s%d", sign, row->rank->rank);
	else
		snprintf(text, CELL_BYTES, "%s?", sign);
}

static void cell_steps(const struct row *row, char text[CELL_BYTES])
{
	snprintf(text, CELL_BYTES, "%s%llu", row->picture->model->is_partial ? "+" : "",
		(unsigned long long)(row->rank->n_steps - row->later.n_steps));
}

static void cell_step(const struct row *row, char text[CELL_BYTES])
{
	lw_ns_or_unknown(row->figures.step_ns, text);
}

static void cell_exposed(const struct row *row, char text[CELL_BYTES])
{
	if (isnan(row->figures.exposed_frac))
		snprintf(text, CELL_BYTES, "?");
	else
		snprintf(text, CELL_BYTES, "%.1f %%", 100 * row->figures.exposed_frac);
}

static void cell_late(const struct row *row, char text[CELL_BYTES])
{
	lw_ns_or_unknown(row->figures.late_ns, text);
}

static void cell_sent(const struct row *row, char text[CELL_BYTES])
{
	lw_rate_or_unknown(row->figures.sent_bytes_per_s, text);
}

static void cell_received(const struct row *row, char text[CELL_BYTES])
{
	lw_rate_or_unknown(row->figures.received_bytes_per_s, text);
}

static void cell_ops(const struct row *row, char text[CELL_BYTES])
{
	if (isnan(row->figures.ops_per_s))
		snprintf(text, CELL_BYTES, "?");
	else
		snprintf(text, CELL_BYTES, "%.3g", row->figures.ops_per_s);
}

static void cell_dropped(const struct row *row, char text[CELL_BYTES])
{
	snprintf(text, CELL_BYTES, "%llu",
		(unsigned long long)(row->rank->n_lost - row->later.n_lost));
}

static void cell_state(const struct row *row, char text[CELL_BYTES])
{
	const struct lw_live *live = row->picture->live;
	int64_t quiet_ns = row->picture->now_ns - row->rank->end_ns;
	bool has_ended = row->rank->ended != LW_LIVE_RUNS &&
			 !(row->picture->live->back_ns && row->rank->end_ns > row->picture->to_ns);
	int n;

	if (has_ended)
		n = snprintf(text, CELL_BYTES, "%s",
			row->rank->ended == LW_LIVE_DIED ? "DIED" : "ended");
	else if (!live->closing_ns && !live->back_ns && quiet_ns > QUIET_NS)
		n = snprintf(text, CELL_BYTES, "quiet %lld s", (long long)(quiet_ns / LW_NS_PER_S));
	else if (row->rank == row->picture->latest)
		n = snprintf(text, CELL_BYTES, "runs, late");
	else
		n = snprintf(text, CELL_BYTES, "runs");
	if (row->rank->n_lost)
		n += snprintf(text + n, CELL_BYTES - (size_t)n, ", lossy");
	if (row->rank->rank < 0)
		snprintf(text + n, CELL_BYTES - (size_t)n, ", pid %lld", (long long)row->rank->pid);
}

static const struct {
	const char *title;
	int width, from_width; /* shown on screens at least so wide */
	void (*text)(const struct row *row, char text[CELL_BYTES]);
} columns[] = {
	{"rank", 5, 0, cell_rank}, {"steps", 7, 0, cell_steps}, {"step", 9, 0, cell_step},
	{"exposed", 9, 0, cell_exposed}, {"late by", 9, 0, cell_late}, {"sent", 11, 72, cell_sent},
	{"received", 11, 72, cell_received}, {"operations/s", 14, 110, cell_ops},
	{"dropped", 9, 90, cell_dropped},
	{"state", 13, 60, cell_state}, /* the last one is to the left */
};
enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static enum lw_style row_style(const struct row *row)
{
	if (row->rank->ended == LW_LIVE_DIED || row->rank->n_lost)
		return LW_STYLE_BAD;
	if (row->rank->ended == LW_LIVE_EXITED)
		return LW_STYLE_DIM;
	return row->rank == row->picture->latest ? LW_STYLE_WARN : LW_STYLE_TEXT;
}

static void draw_row(struct lw_pane pane, int y, const struct row *row)
{
	int x = 0;

	for (int i = 0; i < N_COLUMNS; i++) {
		char text[CELL_BYTES];
		enum lw_style style = row ? row_style(row) : LW_STYLE_DIM;

		if (pane.width < columns[i].from_width)
			continue;
		if (row)
			columns[i].text(row, text);
		else
			snprintf(text, sizeof(text), "%s", columns[i].title);
		x += columns[i].width;
		if (i == N_COLUMNS - 1)
			lw_pane_text(pane, x - columns[i].width + 2, y,
				pane.width - x + columns[i].width - 3, style, text);
		else
			lw_pane_right(pane, x, y, columns[i].width, style, text);
	}
}

/* Return: the line after them. */
static int draw_ranks(const struct picture *picture, struct lw_pane pane, int first_row)
{
	int n = (int)picture->n_ranks, room = pane.height - HEAD_LINES - FOOT_LINES, y = HEAD_LINES;

	if (!n) {
		lw_pane_print(pane, 1, HEAD_LINES - 1, LW_STYLE_DIM,
			"no rank yet: no operation of MPI, Horovod or Gloo, and no mark was recorded");
		return y;
	}
	draw_row(pane, HEAD_LINES - 1, NULL);
	if (room < 1)
		room = 1;
	if (first_row > n - room)
		first_row = n > room ? n - room : 0;
	for (int i = first_row; i < n && i < first_row + room; i++, y++) {
		struct row row = {.picture = picture, .rank = picture->ranks[i]};

		lw_live_rank_figures(picture->model, row.rank, picture->to_ns,
			picture->live->options.window_ns, &row.figures);
		if (picture->to_ns < picture->model->newest_ns)
			lw_live_rank_figures(picture->model, row.rank, picture->model->newest_ns,
				picture->model->newest_ns - picture->to_ns, &row.later);
		draw_row(pane, y, &row);
	}
	if (n > room)
		lw_pane_print(pane, 1, y++, LW_STYLE_DIM, "ranks %d to %d of %d (Up, Down)",
			first_row + 1, first_row + room, n);
	return y;
}

/* ---- the foot --------------------------------------------------------------------------------------------------- */

static void draw_late(const struct picture *picture, struct lw_pane pane, int y)
{
	const struct lw_live_model *model = picture->model;
	const struct lw_live_figures *late = &picture->latest_figures;
	char text[LW_UNIT_TEXT_BYTES], name[LW_LIVE_NAME_BYTES];

	lw_pane_print(pane, 1, y, LW_STYLE_DIM, "late");
	if (picture->latest)
		lw_pane_print(pane, 10, y, LW_STYLE_WARN, "%s, by %s; last in %.0f %% of %llu %s%s",
			lw_live_name(picture->latest, name), lw_ns_or_unknown(late->late_ns, text),
			100 * late->last_frac, (unsigned long long)late->n_late,
			model->late_step ? "steps" : "operations",
			late->last_frac >= persistent_frac ? "" : ": they take turns");
	else if (picture->job.n_late)
		lw_pane_print(pane, 10, y, LW_STYLE_TEXT,
			"nobody by more than 2 %% of a step (of %llu %s)",
			(unsigned long long)picture->job.n_late,
			model->late_step ? "steps" : "operations");
	else
		lw_pane_print(pane, 10, y, LW_STYLE_DIM, "not known: %s",
			model->why_not_late ? model->why_not_late
			: model->n_groups   ? "no operation in this window"
					    : "no operation of all ranks was recorded yet");
}

/* Return: lines. */
static int draw_advice(
	const struct lw_app *app, const struct picture *picture, struct lw_pane pane, int y)
{
	const struct lw_analysis *analysis = app->data->analysis;
	uint64_t n_steps = lw_live_n_steps(picture->live);
	char line[LW_ADVICE_TEXT_BYTES], text[LW_ADVICE_TEXT_BYTES + 64];
	int lines;

	lw_pane_print(pane, 1, y, LW_STYLE_DIM, "advice");
	if (!analysis && picture->live->closing_ns)
		snprintf(text, sizeof(text), "of the whole run, once its file is closed");
	else if (!analysis && n_steps < LW_LIVE_FIRST_STEPS)
		snprintf(text, sizeof(text), "after %d more steps",
			(int)(LW_LIVE_FIRST_STEPS - n_steps));
	else if (!analysis)
		snprintf(text, sizeof(text), "%s",
			app->data->error[0] ? app->data->error
					    : "the steps so far are being analysed");
	else if (!analysis->summary.n_steps)
		snprintf(text, sizeof(text), "after more steps: none of the %zu so far counts yet",
			analysis->summary.n_excluded);
	else
		snprintf(text, sizeof(text), "%s (from %zu steps so far)",
			lw_advise_top_line(&analysis->advice, line), analysis->summary.n_steps);
	lines = lw_pane_wrap(lw_pane_part(pane, 10, y, pane.width - 11, pane.height - y - 1), 0, 0,
		pane.width - 11, analysis ? LW_STYLE_STRONG : LW_STYLE_TEXT, text);
	return lines < pane.height - y - 1 ? lines : pane.height - y - 1;
}

static void draw_notes(const struct lw_live *live, int64_t now_ns, struct lw_pane pane, int y)
{
	for (size_t i = live->notes.n; i-- > 0 && y < pane.height;) {
		const struct lw_live_note *note = &live->notes.at[i];
		enum lw_style style = note->is_bad ? LW_STYLE_BAD : LW_STYLE_DIM;
		char age[LW_UNIT_TEXT_BYTES];

		lw_pane_print(
			pane, 1, y, LW_STYLE_DIM, "%s", lw_age_format(now_ns - note->at_ns, age));
		y += lw_pane_wrap(lw_pane_part(pane, 10, y, pane.width - 11, pane.height - y), 0, 0,
			pane.width - 11, style, note->text);
	}
}

void lw_live_draw(struct lw_app *app, struct lw_pane pane)
{
	struct picture picture;
	int y;

	gather(&picture, app->live);
	draw_job(&picture, pane);
	draw_step(&picture, pane);
	draw_exposed(&picture, pane);
	draw_traffic(&picture, pane);
	y = draw_ranks(&picture, pane, app->live->first_row);
	if (y + FOOT_LINES <= pane.height)
		y++;
	draw_late(&picture, pane, y++);
	y += draw_advice(app, &picture, pane, y);
	draw_notes(app->live, picture.now_ns, pane, y);
}
