/* SPDX-License-Identifier: Apache-2.0 */
/* view_live.c - the overview while the job runs: its last seconds, rank by rank, and what to do about them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "tui/live_picture.h"

enum { MAX_COLUMNS = 1024, CELL_BYTES = 64, NARROW = 60, WIDE = 76 /* columns */ };
enum { ADVICE_BYTES = LW_ADVICE_TEXT_BYTES + 200 };
enum { FEW_ADVICE_LINES = 3, MOST_ADVICE_LINES = 4 }; /* that the table leaves room for */

/* Which line everything is on; a small screen has no room for all of it. */
struct layout {
	int step_y, exposed_y, traffic_y;
	bool is_brief; /* one line for step and exposed, none for traffic */
	int table_y, n_table_lines;
	int late_y, advice_y, n_advice_lines, notes_y;
	int text_x; /* of what is behind a label */
};

static const struct head {
	int n_lines, traffic_y; /* with blank lines, without, as brief as can be */
} heads[] = {{6, 4}, {4, 3}, {2, 0}};
enum { N_HEADS = sizeof(heads) / sizeof(heads[0]) };

#define NEWS_NS (5 * LW_NS_PER_S) /* an analysis is of now for so long */

static const double late_frac = 0.02; /* of a step: what is less is no news (docs/phases.md) */
static const double persistent_frac = 0.75; /* last in at least so many */
static const double other_frac = 0.2;       /* so much longer or shorter is another step */

/* ---- gathering -------------------------------------------------------------------------------------------- */

static void insert(struct lw_live_picture *picture, const struct lw_live_rank *rank)
{
	size_t at = picture->n_ranks;

	if (at >= LW_LIVE_PICTURE_RANKS)
		return;
	for (; at > 0 && picture->ranks[at - 1]->rank > rank->rank; at--)
		picture->ranks[at] = picture->ranks[at - 1];
	picture->ranks[at] = rank;
	picture->n_ranks++;
}

static void find_latest(struct lw_live_picture *picture)
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

static void gather(struct lw_live_picture *picture, const struct lw_live *live)
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

static void draw_job(const struct lw_live_picture *picture, struct lw_pane pane)
{
	const struct lw_live *live = picture->live;
	char right[160], age[LW_UNIT_TEXT_BYTES], state[CELL_BYTES], died[32] = "";
	bool is_bad = picture->n_died || live->is_left_told;
	int64_t end_ns = live->is_paused ? picture->to_ns : picture->now_ns;
	int width;

	if (picture->n_died)
		snprintf(died, sizeof(died), ", %zu DIED", picture->n_died);
	snprintf(right, sizeof(right),
		pane.width < NARROW ? "%s  %zu/%zu alive%s  %s"
				    : "%s  %zu of %zu ranks alive%s  %s",
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

static void draw_marks(
	const struct lw_live_picture *picture, struct lw_pane pane, int x, int y, int n_columns)
{
	int64_t last = picture->to_ns / LW_LIVE_SLOT_NS;

	for (size_t i = 0; i < picture->live->marks.n; i++) {
		int64_t back = last - picture->live->marks.at[i].at_ns / LW_LIVE_SLOT_NS;

		if (back >= 0 && back < n_columns)
			lw_pane_print(pane, x + n_columns - 1 - (int)back, y, LW_STYLE_WARN, "%zu",
				i + 1);
	}
}

/* The last seconds, as many as there are columns for and the job is old. */
static void draw_steps(
	const struct lw_live_picture *picture, struct lw_pane pane, int x, int y, bool has_marks)
{
	double values[MAX_COLUMNS], span_s;
	double age_s = (double)(picture->to_ns - picture->model->first_ns) * 1e-9;
	char span[CELL_BYTES];
	int n = pane.width - x - 12, width;

	if (n > MAX_COLUMNS)
		n = MAX_COLUMNS;
	if (n < 8 || !picture->model->first_ns)
		return;
	span_s = fmin(n * (double)LW_LIVE_SLOT_NS * 1e-9, fmax(age_s, 1));
	width = snprintf(span, sizeof(span), "last %.0f s", span_s);
	lw_live_step_series(picture->model, picture->to_ns, (size_t)n, values);
	lw_pane_spark(pane, x, y, n, LW_STYLE_ALLREDUCE, values, (size_t)n);
	lw_pane_text(pane, x + n + 1, y, width, LW_STYLE_DIM, span);
	if (has_marks)
		draw_marks(picture, pane, x, y + 1, n);
}

static void draw_step(
	const struct lw_live_picture *picture, const struct layout *layout, struct lw_pane pane)
{
	int x = layout->text_x, y = layout->step_y;
	char step[LW_UNIT_TEXT_BYTES];

	lw_pane_print(pane, 1, y, LW_STYLE_DIM, "step");
	lw_pane_print(
		pane, x, y, LW_STYLE_STRONG, "%s", lw_ns_or_unknown(picture->job.step_ns, step));
	if (isnan(picture->job.step_ns))
		lw_pane_print(pane, x + 3, y, LW_STYLE_DIM, "%s",
			lw_live_is_nccl(picture->model) ? "operations of NCCL are not followed live"
			: picture->model->has_batches || !picture->job.n_steps
				? "no step ended in this window"
				: "a plain program's steps are found by the analysis");
	else if (picture->job.steps_per_s > 0)
		lw_pane_print(pane, x + 9, y, LW_STYLE_DIM, "%.3g/s", picture->job.steps_per_s);
	if (!layout->is_brief)
		draw_steps(picture, pane, isnan(picture->job.step_ns) ? 44 : 30, y,
			layout->exposed_y > y + 1);
}

static uint64_t count_lost(const struct lw_live_picture *picture)
{
	uint64_t n_lost = 0;

	for (size_t i = 0; i < picture->n_ranks; i++)
		n_lost += picture->ranks[i]->n_lost;
	return n_lost;
}

static void draw_exposed(
	const struct lw_live_picture *picture, const struct layout *layout, struct lw_pane pane)
{
	double frac = picture->job.exposed_frac;
	const struct lw_bar_part parts[] = {{LW_LANE_EXPOSED, frac}, {LW_LANE_COMPUTE, 1 - frac}};
	int x = layout->text_x, y = layout->exposed_y;

	lw_pane_print(pane, 1, y, LW_STYLE_DIM, "exposed");
	if (isnan(frac)) {
		lw_pane_print(
			pane, x, y, LW_STYLE_DIM, "? not known: %s", picture->job.why_not_exposed);
		return;
	}
	lw_pane_print(pane, x, y, LW_STYLE_STRONG, "%.1f %%", 100 * frac);
	if (pane.width < NARROW)
		return;
	lw_pane_bar(pane, 19, y, pane.width - 44, parts, 2, 1);
	lw_pane_legend(pane, pane.width - 23, y, parts, 2);
}

/* Step, exposed share and what was lost, on one line. */
static void draw_brief(const struct lw_live_picture *picture, struct lw_pane pane)
{
	double frac = picture->job.exposed_frac;
	uint64_t n_lost = count_lost(picture);
	char step[LW_UNIT_TEXT_BYTES], exposed[CELL_BYTES] = "?";
	int x = 6;

	if (!isnan(frac))
		snprintf(exposed, sizeof(exposed), "%.1f %%", 100 * frac);
	lw_pane_print(pane, 1, 1, LW_STYLE_DIM, "step");
	x += lw_pane_print(pane, x, 1, LW_STYLE_STRONG, "%s  exposed %s",
		lw_ns_or_unknown(picture->job.step_ns, step), exposed);
	if (n_lost)
		lw_pane_print(
			pane, x, 1, LW_STYLE_BAD, "  %llu lost !", (unsigned long long)n_lost);
}

/* Sockets are looked at; where operations go on and nothing goes through them, it goes where nobody looks. */
static bool is_traffic_elsewhere(const struct lw_live_picture *picture)
{
	bool has_sockets = false;

	for (size_t i = 0; i < picture->n_ranks; i++)
		has_sockets |= picture->ranks[i]->has_traffic;
	return has_sockets && isnan(picture->job.sent_bytes_per_s);
}

static void draw_traffic(
	const struct lw_live_picture *picture, const struct layout *layout, struct lw_pane pane)
{
	char sent[LW_UNIT_TEXT_BYTES], received[LW_UNIT_TEXT_BYTES], lost[CELL_BYTES];
	uint64_t n_lost = count_lost(picture);
	enum lw_style lost_style = n_lost ? LW_STYLE_BAD : LW_STYLE_TEXT;
	int x = layout->text_x, y = layout->traffic_y;

	snprintf(lost, sizeof(lost), "dropped %llu%s", (unsigned long long)n_lost,
		n_lost ? " !" : "");
	lw_pane_print(pane, 1, y, LW_STYLE_DIM, "traffic");
	if (pane.width < WIDE) /* what must not be cut comes first */
		x += lw_pane_print(pane, x, y, lost_style, "%s", lost) + 2;
	if (is_traffic_elsewhere(picture))
		x += lw_pane_print(pane, x, y, LW_STYLE_TEXT, "not seen: nothing on sockets");
	else
		x += lw_pane_print(pane, x, y, LW_STYLE_TEXT, "sent %s  received %s",
			lw_rate_or_unknown(picture->job.sent_bytes_per_s, sent),
			lw_rate_or_unknown(picture->job.received_bytes_per_s, received));
	if (pane.width < WIDE)
		return;
	if (!isnan(picture->job.ops_per_s))
		x += lw_pane_print(
			pane, x, y, LW_STYLE_TEXT, "  %.3g operations/s", picture->job.ops_per_s);
	lw_pane_print(pane, x, y, lost_style, "  %s", lost);
}

/* ---- the foot --------------------------------------------------------------------------------------------------- */

static void draw_late(
	const struct lw_live_picture *picture, const struct layout *layout, struct lw_pane pane)
{
	const struct lw_live_model *model = picture->model;
	const struct lw_live_figures *late = &picture->latest_figures;
	char text[LW_UNIT_TEXT_BYTES], name[LW_LIVE_NAME_BYTES];
	const struct lw_live_figures *any = picture->latest ? late : &picture->job;
	const char *what = model->late_step ? "step" : "operation",
		   *s = any->n_late == 1 ? "" : "s";
	int x = layout->text_x, y = layout->late_y;

	lw_pane_print(pane, 1, y, LW_STYLE_DIM, "late");
	if (picture->latest)
		lw_pane_print(pane, x, y, LW_STYLE_WARN,
			"%s, by %s; longest in %.0f %% of %llu %s%s%s",
			lw_live_name(picture->latest, name), lw_ns_or_unknown(late->late_ns, text),
			100 * late->last_frac, (unsigned long long)late->n_late, what, s,
			late->last_frac >= persistent_frac ? "" : ": they take turns");
	else if (picture->job.n_late)
		lw_pane_print(pane, x, y, LW_STYLE_TEXT,
			"nobody by more than 2 %% of a step (of %llu %s%s)",
			(unsigned long long)picture->job.n_late, what, s);
	else if (lw_live_is_nccl(model))
		lw_pane_print(pane, x, y, LW_STYLE_DIM,
			"not known: operations of NCCL are not followed live: %lld so far",
			(long long)model->n_nccl_ops);
	else
		lw_pane_print(pane, x, y, LW_STYLE_DIM, "not known: %s",
			model->why_not_late ? model->why_not_late
			: model->n_groups   ? "no operation in this window"
					    : "no operation of all ranks was recorded yet");
}

/* Of which part of the job an advice is, and how that differs from what stands above it. */
static void tell_of_what(const struct lw_analysis *analysis, const struct lw_live_picture *picture,
	char *text, size_t n_bytes)
{
	double then_ns = analysis->summary.step_ns.value, now_ns = picture->job.step_ns;
	char age[LW_LIVE_AGE_BYTES] = "", then[LW_UNIT_TEXT_BYTES], now[LW_UNIT_TEXT_BYTES];
	size_t n;

	if (picture->live->now_ns - picture->live->shown_ns > NEWS_NS)
		lw_live_age(picture->live, age);
	n = (size_t)snprintf(text, n_bytes, " (from %zu steps so far%s%s",
		analysis->summary.n_steps, age[0] ? ", " : "", age);
	if (fabs(now_ns - then_ns) > other_frac * then_ns)
		n += (size_t)snprintf(text + n, n_bytes - n,
			": their mean step took %s, one takes %s now", lw_ns_format(then_ns, then),
			lw_ns_format(now_ns, now));
	snprintf(text + n, n_bytes - n, ")");
}

static void write_advice(
	const struct lw_app *app, const struct lw_live_picture *picture, char text[ADVICE_BYTES])
{
	const struct lw_analysis *analysis = app->data->analysis;
	uint64_t n_steps = lw_live_n_steps(picture->live);
	int n_more = n_steps < LW_LIVE_FIRST_STEPS ? (int)(LW_LIVE_FIRST_STEPS - n_steps) : 0;
	char line[LW_ADVICE_TEXT_BYTES], what[ADVICE_BYTES - LW_ADVICE_TEXT_BYTES];

	if (!analysis && picture->live->closing_ns)
		snprintf(text, ADVICE_BYTES, "of the whole run, once its file is closed");
	else if (!analysis && n_more)
		snprintf(
			text, ADVICE_BYTES, "after %d more step%s", n_more, n_more == 1 ? "" : "s");
	else if (!analysis)
		snprintf(text, ADVICE_BYTES, "%s",
			app->data->error[0] ? app->data->error
					    : "the steps so far are being analysed");
	else if (!analysis->summary.n_steps)
		snprintf(text, ADVICE_BYTES, "after more steps: none of the %zu so far counts yet",
			analysis->summary.n_excluded);
	else {
		tell_of_what(analysis, picture, what, sizeof(what));
		snprintf(text, ADVICE_BYTES, "%s%s", lw_advise_top_line(&analysis->advice, line),
			what);
	}
}

static void draw_advice(const struct lw_app *app, const struct layout *layout, struct lw_pane pane,
	const char *text)
{
	int x = layout->text_x, n = layout->n_advice_lines;
	struct lw_pane part = lw_pane_part(pane, x, layout->advice_y, pane.width - x - 1, n);
	enum lw_style style = app->data->analysis ? LW_STYLE_STRONG : LW_STYLE_TEXT;

	lw_pane_print(pane, 1, layout->advice_y, LW_STYLE_DIM, "advice");
	lw_pane_wrap(part, 0, 0, part.width, style, text);
}

/* On the clock that the first line shows: how old the job was. */
static void draw_note_time(
	const struct lw_live *live, int64_t at_ns, struct lw_pane pane, int x, int y)
{
	int64_t first_ns = live->model.first_ns ? live->model.first_ns : at_ns;
	long long s = at_ns > first_ns ? (at_ns - first_ns) / LW_NS_PER_S : 0;
	char text[CELL_BYTES];

	if (s < 3600)
		snprintf(text, sizeof(text), "at %lld:%02lld", s / 60, s % 60);
	else
		snprintf(text, sizeof(text), "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
	lw_pane_text(pane, 1, y, x - 2, LW_STYLE_DIM, text);
}

static void draw_notes(const struct lw_live *live, const struct layout *layout, struct lw_pane pane)
{
	int x = layout->text_x, y = layout->notes_y, width = pane.width - x - 1;
	const struct lw_live_note *fact;

	for (size_t i = live->notes.n; i-- > 0 && y < pane.height;) {
		const struct lw_live_note *note = &live->notes.at[i];

		draw_note_time(live, note->at_ns, pane, x, y);
		y += lw_pane_wrap(lw_pane_part(pane, x, y, width, pane.height - y), 0, 0, width,
			note->is_bad ? LW_STYLE_BAD : LW_STYLE_DIM, note->text);
	}
	lw_vec_foreach (fact, &live->facts) {
		if (y >= pane.height)
			return;
		lw_pane_text(pane, 1, y, x - 2, LW_STYLE_DIM, fact->label);
		y += lw_pane_wrap(lw_pane_part(pane, x, y, width, pane.height - y), 0, 0, width,
			LW_STYLE_DIM, fact->text);
	}
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

/* The least of the table that is worth its lines: titles, and two ranks or one and how many there are. */
static int least_table(const struct lw_live_picture *picture)
{
	return 1 + (picture->n_ranks > 2 ? 2 : (int)picture->n_ranks);
}

static const struct head *choose_head(
	const struct lw_live_picture *picture, int height, int n_advice_lines)
{
	int n_foot = 1 + (n_advice_lines < FEW_ADVICE_LINES ? n_advice_lines : FEW_ADVICE_LINES);
	int i = 0;

	while (i + 1 < N_HEADS && heads[i].n_lines + least_table(picture) + n_foot > height)
		i++;
	return &heads[i];
}

static struct layout lay_out(
	const struct lw_live_picture *picture, struct lw_pane pane, int text_x, int n_advice_lines)
{
	const struct head *head = choose_head(picture, pane.height, n_advice_lines);
	int n_advice = n_advice_lines < MOST_ADVICE_LINES ? n_advice_lines : MOST_ADVICE_LINES;
	bool has_gap = head == heads,
	     has_notes = has_gap && picture->live->notes.n + picture->live->facts.n > 0;
	int most = pane.height - head->n_lines - 1, n = 1 + (int)picture->n_ranks, y;
	struct layout layout = {.step_y = 1,
		.exposed_y = has_gap ? 3 : 2,
		.traffic_y = head->traffic_y,
		.is_brief = !head->traffic_y,
		.table_y = head->n_lines,
		.text_x = text_x};

	if (n > most - n_advice - has_notes)
		n = most - n_advice - has_notes;
	if (n < least_table(picture))
		n = least_table(picture);
	layout.n_table_lines = n < most ? n : 0; /* one line of advice is worth more */
	y = head->n_lines + layout.n_table_lines;
	has_gap &= y + 2 + n_advice_lines <= pane.height;
	layout.late_y = y + has_gap;
	layout.advice_y = layout.late_y + 1;
	most = pane.height - layout.advice_y - has_notes;
	layout.n_advice_lines = n_advice_lines < most ? n_advice_lines : most;
	layout.notes_y = layout.advice_y + layout.n_advice_lines;
	return layout;
}

void lw_live_draw(struct lw_app *app, struct lw_pane pane)
{
	int text_x = pane.width < NARROW ? 9 : 10, width = pane.width - text_x - 1;
	struct lw_live_picture picture;
	struct layout layout;
	char advice[ADVICE_BYTES];

	gather(&picture, app->live);
	write_advice(app, &picture, advice);
	layout = lay_out(&picture, pane, text_x,
		lw_pane_wrap(
			lw_pane_part(pane, 0, 0, width, 0), 0, 0, width, LW_STYLE_TEXT, advice));
	draw_job(&picture, pane);
	if (layout.is_brief) {
		draw_brief(&picture, pane);
	} else {
		draw_step(&picture, &layout, pane);
		draw_exposed(&picture, &layout, pane);
		draw_traffic(&picture, &layout, pane);
	}
	lw_live_draw_table(
		&picture, pane, layout.table_y, layout.n_table_lines, app->live->first_row);
	draw_late(&picture, &layout, pane);
	draw_advice(app, &layout, pane, advice);
	draw_notes(app->live, &layout, pane);
}
