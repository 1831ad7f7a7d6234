/* SPDX-License-Identifier: Apache-2.0 */
/* view_overview.c - how long a step is, what of it is exposed, who is slow, what to change: on one screen. */
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "tui/app.h"
#include "tui/overview_words.h"
#include "tui/parts.h"

enum {
	MOST_ADVICE_LINES = 4, /* beside ranks that would fill the screen */
	ADVICE_FROM = 9,
	LEAST_TOP_LINES = 10, /* the step, its parts, the first ranks */
	BAR_FROM = 59,        /* column of the ranks' bars */
	LATE_WIDTH = 17,
	MOST_SLOWEST_LINES = 2,
};

struct overview {
	size_t rank, top;          /* selected; first on the screen */
	int ranks_y, n_rank_lines; /* where they stand, for clicks */
	int slowest_y, advice_y, quality_y;
};

/* Names of their own where a part is not the phase whose lane it has. */
static const struct {
	const char *name;
	enum lw_lane lane;
} looks[LW_EXPOSED_PARTS] = {
	[LW_EXPOSED_COMPUTE] = {"compute", LW_LANE_COMPUTE},
	[LW_EXPOSED_AGREE] = {"agree", LW_LANE_NEGOTIATE},
	[LW_EXPOSED_WAIT] = {"WAIT", LW_LANE_WAIT},
	[LW_EXPOSED_WIRE] = {"wire", LW_LANE_ALLREDUCE},
	[LW_EXPOSED_MISC] = {"MISC", LW_LANE_MISC},
	[LW_EXPOSED_IDLE] = {"idle", LW_LANE_IDLE},
};

static const char *name_of(int part, bool has_waits)
{
	return part == LW_EXPOSED_WIRE && has_waits ? "wire or waiting" : looks[part].name;
}

/* Of one rank, or the mean of all where @rank is NULL. Unknown parts are not there. Return: their sum. */
static double parts_of(const struct lw_summary *summary, const struct lw_rank_summary *rank,
	struct lw_bar_part parts[LW_EXPOSED_PARTS])
{
	struct lw_exposed exposed = lw_summary_exposed(summary, rank);
	double sum_ns = 0;

	for (int i = 0; i < LW_EXPOSED_PARTS; i++) {
		double ns = isfinite(exposed.part_ns[i]) ? exposed.part_ns[i] : 0;

		parts[i] = (struct lw_bar_part){looks[i].lane, ns};
		sum_ns += ns;
	}
	return sum_ns;
}

/* ---- drawing ------------------------------------------------------------------------------------ */

/* The mean, as of all that stands below it; and what most steps take, where that is another time. */
static void draw_length(const struct lw_summary *summary, struct lw_pane pane)
{
	static const double other_frac = 0.02;
	const struct lw_figure *mean = &summary->mean_step_ns;
	double most_ns = summary->step_ns.value;
	bool is_skewed = fabs(most_ns - mean->value) > other_frac * mean->value;
	char step[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];
	char text[160];
	int n, ends[2];
	int x = 1 + lw_pane_print(pane, 1, 0, LW_STYLE_STRONG, "A step takes %s",
			    lw_ns_or_unknown(mean->value, step));

	if (is_skewed)
		x += lw_pane_print(pane, x, 0, LW_STYLE_STRONG, ", most take %s",
			lw_ns_or_unknown(most_ns, step));
	if (isnan(mean->low))
		n = snprintf(text, sizeof(text), "no interval");
	else
		n = snprintf(text, sizeof(text), "%s 95 %%: %s to %s", is_skewed ? "mean" : "mean,",
			lw_ns_or_unknown(mean->low, low), lw_ns_or_unknown(mean->high, high));
	ends[1] = n;
	n += snprintf(text + n, sizeof(text) - (size_t)n, "; %zu step%s", summary->n_steps,
		summary->n_steps == 1 ? "" : "s");
	ends[0] = n;
	snprintf(text + n, sizeof(text) - (size_t)n, ", %zu left out", summary->n_excluded);
	for (int i = 0; i < 2 && x + 3 + lw_text_width(text) > pane.width; i++)
		text[ends[i]] = 0; /* rather less than cut in a word */
	lw_pane_print(pane, x + 2, 0, LW_STYLE_DIM, "%s", text);
}

static void draw_step(const struct lw_summary *summary, struct lw_pane pane)
{
	char step[LW_UNIT_TEXT_BYTES];
	const struct lw_figure *exposed = &summary->exposed_frac;

	if (!isfinite(summary->mean_step_ns.value)) {
		lw_pane_wrap(pane, 1, 0, pane.width - 2, LW_STYLE_WARN,
			summary->step_ns.why ? summary->step_ns.why : "no step was found");
		return;
	}
	draw_length(summary, pane);
	if (isfinite(exposed->value))
		lw_pane_print(pane, 1, 1, exposed->value > 0.3 ? LW_STYLE_WARN : LW_STYLE_STRONG,
			"Exposed communication: %s%.0f %% of the mean step, %s that no computing hides",
			summary->exposed_ns.how == LW_ASSUMED ? "at most " : "",
			100 * exposed->value, lw_ns_or_unknown(summary->exposed_ns.value, step));
	else
		lw_pane_print(pane, 1, 1, LW_STYLE_DIM, "Exposed communication: not known (%s)",
			summary->exposed_ns.why ? summary->exposed_ns.why
						: "no waits were recorded");
}

/* Return: lines. */
static int draw_bar(const struct lw_brief *brief, struct lw_pane pane, int y)
{
	const struct lw_summary *summary = &brief->summary;
	struct lw_bar_part parts[LW_EXPOSED_PARTS];
	double whole_ns = parts_of(summary, NULL, parts);
	/* it was not recorded when ranks wait */
	bool is_bound = summary->exposed_ns.how == LW_ASSUMED;
	bool has_waits = lw_summary_exposed(summary, NULL).has_waits;
	int x = 1, lines = 2;

	if (!(whole_ns > 0))
		return 0;
	lw_pane_bar(pane, 1, y, pane.width - 2, parts, LW_EXPOSED_PARTS, whole_ns);
	for (int i = 0; i < LW_EXPOSED_PARTS; i++) {
		const struct lw_lane_look *look = &lw_lanes[looks[i].lane];
		/* what follows computing is what is exposed, by what went on then */
		const char *lead = i != 1 ? "" : is_bound ? "exposed, at most: " : "exposed: ";
		char number[LW_UNIT_TEXT_BYTES], text[64];
		/* waiting for slower ranks is then in what follows, if there is any */
		bool is_unsaid = i == LW_EXPOSED_AGREE && has_waits && !(parts[i].amount > 0);
		int width;

		snprintf(text, sizeof(text), "%s%s %s%s",
			brief->is_gpu_time && i == LW_EXPOSED_COMPUTE ? "GPU " : "",
			name_of(i, has_waits),
			is_bound && i == LW_EXPOSED_COMPUTE ? "at least " : "",
			lw_ns_or_unknown(is_unsaid ? (double)NAN : parts[i].amount, number));
		width = 2 + lw_text_width(text);
		if (x > 1 && x + lw_text_width(lead) + width > pane.width - 1) {
			x = 1;
			lines++;
		}
		x += lw_pane_print(pane, x, y + lines - 1, LW_STYLE_DIM, "%s", lead);
		lw_pane_rune(
			pane, x, y + lines - 1, look->style, lw_glyph(pane.cells, look->glyph));
		lw_pane_print(pane, x + 2, y + lines - 1, LW_STYLE_TEXT, "%s", text);
		x += width + 3;
	}
	return lines;
}

static void draw_steps(const struct lw_brief *brief, struct lw_pane pane, int y)
{
	char least[LW_UNIT_TEXT_BYTES], most[LW_UNIT_TEXT_BYTES], text[96], label[48] = "Steps";
	double least_ns = INFINITY, most_ns = -INFINITY;
	int width, x;

	if (brief->n_steps < 2)
		return;
	for (size_t s = 0; s < brief->n_steps; s++) {
		least_ns = fmin(least_ns, brief->step_ns[s]);
		most_ns = fmax(most_ns, brief->step_ns[s]);
	}
	snprintf(text, sizeof(text), "%s to %s", lw_ns_or_unknown(least_ns, least),
		lw_ns_or_unknown(most_ns, most));
	width = pane.width - 5 - lw_text_width(text) - lw_text_width(label);
	if (width > 0 && brief->n_steps > (size_t)width) { /* what one sees are not single steps */
		width -= (int)sizeof(", longest of 99") - 1;
		width = width > 1 ? width : 1;
		snprintf(label, sizeof(label), "Steps, longest of %zu",
			(brief->n_steps + (size_t)width - 1) / (size_t)width);
	}
	x = 2 + lw_pane_print(pane, 1, y, LW_STYLE_DIM, "%s", label);
	width = pane.width - x - 3 - lw_text_width(text);
	width = lw_pane_spark(pane, x, y, width, LW_STYLE_TEXT, brief->step_ns, brief->n_steps);
	lw_pane_print(pane, x + width + 2, y, LW_STYLE_DIM, "%s", text);
}

static const struct lw_straggler *straggler_of(const struct lw_summary *summary, int32_t rank)
{
	for (size_t i = 0; i < summary->stragglers.n; i++)
		if (summary->stragglers.at[i].rank == rank)
			return &summary->stragglers.at[i];
	return NULL;
}

static void draw_rank(const struct lw_summary *summary, size_t r, struct lw_pane pane, int y,
	bool is_selected, double whole_ns)
{
	const struct lw_rank_summary *rank = &summary->ranks.at[r];
	const struct lw_straggler *late = straggler_of(summary, rank->rank);
	const double figures[] = {
		rank->step_ns.value, rank->compute_ns.value, rank->exposed_ns.value};
	struct lw_bar_part parts[LW_EXPOSED_PARTS];
	char text[LW_OVERVIEW_LINE_BYTES];

	lw_pane_print(pane, 1, y, LW_STYLE_TEXT, "%6d", rank->rank);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		lw_pane_right(pane, 18 + 11 * (int)i, y, 10, LW_STYLE_TEXT,
			lw_ns_or_unknown(figures[i], text));
	}
	lw_pane_right(pane, BAR_FROM - 1, y, LATE_WIDTH, LW_STYLE_WARN,
		late ? lw_overview_late(late, text) : "-");
	if (is_selected) {
		lw_pane_restyle(pane, 0, y, BAR_FROM - 1, LW_STYLE_SELECTED);
		lw_pane_rune(pane, 0, y, LW_STYLE_SELECTED, lw_glyph(pane.cells, LW_GLYPH_CURSOR));
	}
	parts_of(summary, rank, parts);
	lw_pane_bar(
		pane, BAR_FROM, y, pane.width - BAR_FROM - 1, parts, LW_EXPOSED_PARTS, whole_ns);
}

static void draw_ranks(struct overview *o, const struct lw_summary *summary, struct lw_pane pane)
{
	size_t n_lines = pane.height > 1 ? (size_t)(pane.height - 1) : 0;
	double whole_ns = 0;

	o->n_rank_lines = (int)n_lines;
	for (size_t r = 0; r < summary->ranks.n; r++)
		whole_ns = fmax(whole_ns, summary->ranks.at[r].step_ns.value);
	lw_pane_print(pane, 1, 0, LW_STYLE_DIM,
		"  rank       step    compute    exposed     last in steps");
	if (summary->ranks.n > n_lines)
		lw_pane_print(
			pane, BAR_FROM, 0, LW_STYLE_DIM, "%zu ranks: Up, Down", summary->ranks.n);
	if (o->rank < o->top)
		o->top = o->rank;
	if (n_lines && o->rank >= o->top + n_lines)
		o->top = o->rank - n_lines + 1;
	if (o->top + n_lines > summary->ranks.n) /* the screen has grown */
		o->top = summary->ranks.n > n_lines ? summary->ranks.n - n_lines : 0;
	for (size_t i = 0; i < n_lines && o->top + i < summary->ranks.n; i++)
		draw_rank(summary, o->top + i, pane, 1 + (int)i, o->top + i == o->rank, whole_ns);
}

/* Return: lines. */
static int draw_slowest(const struct lw_brief *brief, struct lw_pane pane, int y, int lines)
{
	bool is_late = brief->summary.stragglers.n || *brief->late;
	char text[LW_OVERVIEW_LATE_BYTES];

	return lw_pane_fit(pane, 1, y, pane.width - 2, lines,
		is_late ? LW_STYLE_WARN : LW_STYLE_TEXT, lw_overview_slowest(brief, text), "");
}

/* Return: lines. */
static int draw_slow_link(const struct lw_brief *brief, struct lw_pane pane, int y, int lines)
{
	char text[LW_NET_WORDS_BYTES + 16];

	if (!*brief->slow_link)
		return 0;
	snprintf(text, sizeof(text), "Slow link: %s", brief->slow_link);
	return lw_pane_fit(pane, 1, y, pane.width - 2, lines, LW_STYLE_WARN, text, "");
}

/* And that there are others: a line that looks like all of it would hide them. Return: lines. */
static int draw_advice(const struct lw_brief *brief, struct lw_pane pane, int lines)
{
	char end[64] = "";

	if (brief->n_advice > 1)
		snprintf(end, sizeof(end), " (8 shows all %llu)",
			(unsigned long long)brief->n_advice);
	else if (brief->n_advice && !brief->is_advised)
		snprintf(end, sizeof(end), " (8 tells more)");
	else if (brief->n_more)
		snprintf(end, sizeof(end), " (8 tells %llu more)",
			(unsigned long long)brief->n_more);
	if (lines * pane.width < 3 * lw_text_width(end))
		snprintf(end, sizeof(end), " (8)");
	return lw_pane_fit(pane, 0, 0, pane.width, lines, LW_STYLE_TEXT, brief->advice, end);
}

/* Every advice, and what is found beside, in a line, if there is room for all. Return: lines. */
static int draw_lines(const struct lw_brief *brief, struct lw_pane pane, int y, int room)
{
	const char *line = brief->lines;
	int n = 0, n_lines = *line != 0;

	for (const char *end = line; (end = strchr(end, '\n')); end++)
		n_lines++;
	if (n_lines < 2 || n_lines > room)
		return 0;
	while (*line && n < room) {
		char text[LW_ADVICE_TEXT_BYTES];
		size_t n_bytes = strcspn(line, "\n");

		snprintf(text, sizeof(text), "%.*s", (int)n_bytes, line);
		lw_pane_text(pane, ADVICE_FROM, y + n++, pane.width - ADVICE_FROM - 1, LW_STYLE_DIM,
			text);
		line += n_bytes + (line[n_bytes] == '\n');
	}
	return n;
}

static void draw_nothing(const struct lw_data *data, struct lw_pane pane)
{
	if (data->error[0])
		lw_pane_wrap(pane, 1, 1, pane.width - 2, LW_STYLE_BAD, data->error);
	else
		lw_pane_print(pane, 1, 1, LW_STYLE_DIM, "%s%s%s ...", data->facts,
			data->facts[0] ? ": " : "", data->stage ? data->stage : "reading");
}

struct below { /* lines below the ranks, the last is the quality */
	int n_link, n_slowest, n_advice, n_lines;
};

/* What ranks leave free, some lines in any case. @y: where the ranks begin. */
static struct below lines_below(const struct lw_brief *brief, const struct lw_pane *pane, int y)
{
	struct lw_pane none = lw_pane_part(*pane, 0, 0, pane->width, 0);
	int room = pane->height - 2, free = room - y - (int)brief->summary.ranks.n - 1;
	struct below below;
	int lines = free;

	if (lines < MOST_ADVICE_LINES)
		lines = MOST_ADVICE_LINES;
	if (lines > room - LEAST_TOP_LINES)
		lines = room - LEAST_TOP_LINES;
	if (lines > room - y)
		lines = room - y;
	below.n_advice = draw_advice(brief,
		lw_pane_part(*pane, 0, 0, pane->width - ADVICE_FROM - 1, 0), lines > 1 ? lines : 1);
	free -= below.n_advice;
	below.n_link = draw_slow_link(brief, none, 0, free > 0 ? MOST_SLOWEST_LINES : 1);
	free -= below.n_link;
	below.n_slowest = draw_slowest(brief, none, 0, free > 0 ? MOST_SLOWEST_LINES : 1);
	free -= below.n_slowest - 1;
	below.n_lines = draw_lines(brief, none, 0, free - 1);
	return below;
}

static void draw(struct lw_view *view, struct lw_pane pane)
{
	struct overview *o = view->state;
	const struct lw_brief *brief = lw_data_brief(view->data);
	struct lw_pane top = lw_pane_part(pane, 0, 0, pane.width, pane.height - 3);
	char quality[LW_OVERVIEW_LINE_BYTES];
	struct below below;
	int y = 2, bottom;
	bool is_bad;

	if (!brief) {
		draw_nothing(view->data, pane);
		return;
	}
	draw_step(&brief->summary, top);
	y += draw_bar(brief, top, y);
	if (pane.height > 16)
		y++;
	draw_steps(brief, top, y++);
	if (pane.height > 16)
		y++;
	below = lines_below(brief, &pane, y);
	bottom = pane.height - 1 - below.n_link - below.n_slowest - below.n_advice - below.n_lines;
	if (view->focus->rank >= 0 && (size_t)view->focus->rank < brief->summary.ranks.n)
		o->rank = (size_t)view->focus->rank; /* selected elsewhere */
	o->ranks_y = y + 1;
	o->slowest_y = bottom;
	o->advice_y = bottom + below.n_link + below.n_slowest;
	o->quality_y = pane.height - 1;
	draw_ranks(o, &brief->summary, lw_pane_part(top, 0, y, pane.width, bottom - y));
	draw_slow_link(brief, pane, bottom, below.n_link);
	bottom += below.n_link;
	draw_slowest(brief, pane, bottom, below.n_slowest);
	bottom += below.n_slowest;
	lw_pane_print(pane, 1, bottom, LW_STYLE_STRONG, "Advice:");
	draw_advice(brief,
		lw_pane_part(
			pane, ADVICE_FROM, bottom, pane.width - ADVICE_FROM - 1, below.n_advice),
		below.n_advice);
	draw_lines(brief, pane, bottom + below.n_advice, below.n_lines);
	lw_overview_quality(brief, &is_bad, quality);
	lw_pane_text(pane, 1, pane.height - 1, pane.width - 2,
		is_bad ? LW_STYLE_WARN : LW_STYLE_DIM, quality);
}

/* ---- requests ------------------------------------------------------------------------------------ */

static void select_rank(struct lw_view *view, long rank)
{
	struct overview *o = view->state;
	const struct lw_brief *brief = lw_data_brief(view->data);
	long n = brief ? (long)brief->summary.ranks.n : 0;

	rank = rank >= n ? n - 1 : rank;
	o->rank = rank > 0 ? (size_t)rank : 0;
	view->focus->rank = n > 0 ? (int32_t)o->rank : LW_NONE;
}

/* On a rank: as Enter; on one of the last lines: the view that tells more. */
static void click(struct lw_view *view, int y)
{
	const struct overview *o = view->state;
	const struct lw_brief *brief = lw_data_brief(view->data);
	size_t rank = o->top + (size_t)(y - o->ranks_y);
	const char *to = y < o->slowest_y   ? "timeline"
			 : y < o->advice_y  ? "ranks"
			 : y < o->quality_y ? "advice"
					    : "log";

	if (!brief)
		return;
	if (y < o->slowest_y) {
		if (y < o->ranks_y || y >= o->ranks_y + o->n_rank_lines ||
			rank >= brief->summary.ranks.n)
			return;
		select_rank(view, (long)rank);
	}
	lw_app_show(view->app, lw_view_find(to));
}

static bool request(struct lw_view *view, const struct lw_input *input)
{
	struct overview *o = view->state;
	long at = (long)o->rank, page = 5;

	switch ((int)input->request) {
	case LW_REQUEST_UP:
		select_rank(view, at - 1);
		return true;
	case LW_REQUEST_DOWN:
		select_rank(view, at + 1);
		return true;
	case LW_REQUEST_PAGE_UP:
		select_rank(view, at - page);
		return true;
	case LW_REQUEST_PAGE_DOWN:
		select_rank(view, at + page);
		return true;
	case LW_REQUEST_TOP:
		select_rank(view, 0);
		return true;
	case LW_REQUEST_BOTTOM:
		select_rank(view, INT32_MAX);
		return true;
	case LW_REQUEST_CLICK:
		click(view, input->y);
		return true;
	case LW_REQUEST_ENTER:
		select_rank(view, at);
		lw_app_show(view->app, lw_view_find("timeline"));
		return true;
	default:
		return false;
	}
}

static bool copy(struct lw_view *view, FILE *out)
{
	const struct lw_brief *brief = lw_data_brief(view->data);

	if (brief)
		fputs(brief->advice, out);
	return brief != NULL;
}

static const struct lw_key_words words[] = {{LW_REQUEST_ENTER, "timeline of this rank", NULL},
	{LW_REQUEST_VIEW + 1, "timeline", NULL}, {LW_REQUEST_VIEW + 4, "ranks", NULL},
	{LW_REQUEST_VIEW + 7, "advice", NULL},
	{LW_REQUEST_CLICK, NULL, "a rank: as Enter; advice, quality: its view"},
	{LW_REQUEST_COPY, NULL, "copy the advice (OSC 52)"}, {0}};

const struct lw_view_ops lw_view_overview = {
	.name = "overview",
	.label = "over",
	.title = "how long a step is, what of it is exposed, who is slow, what to change",
	.keys = {LW_CAN(UP) | LW_CAN(DOWN) | LW_CAN(PAGE_UP) | LW_CAN(PAGE_DOWN) | LW_CAN(TOP) |
			 LW_CAN(BOTTOM) | LW_CAN(ENTER) | LW_CAN(CLICK),
		words},
	.state_bytes = sizeof(struct overview),
	.draw = draw,
	.request = request,
	.copy = copy,
	.needs_no_analysis = true,
};
