/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_nic.c - the lane of what a rank sent and received, and what is said of it at the cursor. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "tui/timeline.h"

#define SATURATED_FRAC 0.9
#define MISSING_FRAC   0.1    /* of a column in which packets were dropped: it shows no rate */
#define SEGMENT_BYTES  1448.0 /* of one that was sent again, about */
#define MANY_FRAC      0.01   /* of the bytes sent: as many sent again are marked louder */
enum {
	LABEL_WIDTH = 9,
	AGAIN_BYTES = 64,
	AGAIN_EVERY = 6, /* columns from mark to mark of segments sent again: those show no rate */
	LEVELS = LW_GLYPH_LEVEL_LAST - LW_GLYPH_LEVEL_FIRST
};

static const struct {
	const char *label, *name;
} sources[LW_NIC_SOURCES] = {
	[LW_NIC_PACKETS] = {"pcap", "captured packets"},
	[LW_NIC_COUNTERS] = {"NIC", "NIC"},
	[LW_NIC_TCP] = {"TCP", "TCP sockets"},
	[LW_NIC_RDMA] = {"RDMA", "RDMA requests"},
};

static const char *label_of(const struct lw_timeline *timeline, const struct lw_nic_lane *lane)
{
	return lane->nic == LW_NONE ? sources[lane->source].label
				    : timeline->lanes.run->nics.at[lane->nic].name;
}

bool lw_timeline_has_nic(const struct lw_timeline *timeline)
{
	return timeline->lanes.nic.lanes.n > 0;
}

bool lw_timeline_shows_nic(const struct lw_timeline *timeline)
{
	return lw_timeline_has_nic(timeline) && !timeline->is_nic_hidden && !timeline->is_by_tensor;
}

/* "100ms", ".1s": as little as says it. */
static void print_resolution(int64_t ns, int width, char text[LW_UNIT_TEXT_BYTES])
{
	double ms = (double)ns / (double)LW_NS_PER_MS;

	if (ns < LW_NS_PER_MS)
		snprintf(text, LW_UNIT_TEXT_BYTES, "<1ms");
	else
		snprintf(text, LW_UNIT_TEXT_BYTES, ms < 999.5 ? "%.0fms" : "%.1fs",
			ms < 999.5 ? ms : ms / 1000);
	if (lw_text_width(text) > width) /* 100 ms and more: tenths of a second will do */
		snprintf(text, LW_UNIT_TEXT_BYTES, "%.1fs", ms / 1000);
}

/* Of two lines each names its direction, the first also the source, the second how often it looked. */
static void print_label(const struct lw_timeline *timeline, const struct lw_nic_lane *lane,
	int line, int n_lines, char text[2 * LW_UNIT_TEXT_BYTES])
{
	const char *label = label_of(timeline, lane);
	char resolution[LW_UNIT_TEXT_BYTES];

	print_resolution(lane->resolution_ns, n_lines > 1 ? 6 : 4, resolution);
	if (n_lines == 1)
		snprintf(text, 2 * LW_UNIT_TEXT_BYTES, "%.*s %s",
			LABEL_WIDTH - 1 - lw_text_width(resolution), label, resolution);
	else if (line == 0)
		snprintf(text, 2 * LW_UNIT_TEXT_BYTES, "%.*s out", LABEL_WIDTH - 4, label);
	else
		snprintf(text, 2 * LW_UNIT_TEXT_BYTES, "%s in", resolution);
}

/* How much of [start, end) the source looked at; none where a good part of it is missing. */
static int64_t known_ns(const struct lw_nic_lane *lane, int64_t start_ns, int64_t end_ns)
{
	if (start_ns < lane->known_from_ns)
		start_ns = lane->known_from_ns;
	if (end_ns > lane->known_to_ns)
		end_ns = lane->known_to_ns;
	if (end_ns <= start_ns || (double)lw_nic_gap_ns(lane, start_ns, end_ns) >=
					  MISSING_FRAC * (double)(end_ns - start_ns))
		return 0;
	return end_ns - start_ns;
}

struct rates {
	double out[LW_TIMELINE_MAX_COLUMNS], in[LW_TIMELINE_MAX_COLUMNS],
		again[LW_TIMELINE_MAX_COLUMNS], unused[LW_TIMELINE_MAX_COLUMNS];
};

static void draw_rate(struct lw_pane line, int x, double frac, bool is_capacity, bool is_again)
{
	bool is_most = frac >= SATURATED_FRAC;
	int level = (int)(frac * (LEVELS + 1));
	enum lw_style style = is_most && is_capacity ? LW_STYLE_BAD
			      : is_again             ? LW_STYLE_WARN
						     : LW_STYLE_GOOD;

	/* the full block is kept for what is saturated */
	level = is_most ? LEVELS : level < LEVELS ? level : LEVELS - 1;
	if (frac > 0)
		lw_pane_rune(line, x, 0, style,
			lw_glyph(line.cells, LW_GLYPH_LEVEL_FIRST + (enum lw_glyph)level));
}

/* Of the columns that one mark stands for: some sent again, or many. */
static uint32_t again_mark(const struct rates *rates, int x, int n_columns)
{
	double n = 0, bytes = 0;

	for (int i = x; i < x + AGAIN_EVERY && i < n_columns && i < LW_TIMELINE_MAX_COLUMNS; i++) {
		n += rates->again[i];
		bytes += rates->out[i];
	}
	return n * SEGMENT_BYTES >= MANY_FRAC * bytes ? '!' : '\'';
}

/* What fills a line, the most that counts as full in red. */
struct scale {
	double out, in;
	bool is_out_capacity, is_in_capacity;
};

/* The way out's capacity says nothing of the way in: unless the driver tells that of both, the most that came in is full
 * where it is more. */
static struct scale scale_of(const struct lw_timeline *timeline, size_t r)
{
	const struct lw_nic_lane *lane = lw_nic_lane_of(&timeline->lanes.nic, r);
	enum lw_capacity_from from;
	double full = lw_nic_full(&timeline->lanes.nic, timeline->lanes.run, r, &from);
	struct scale scale = {full, full, from != LW_CAPACITY_NONE, from == LW_CAPACITY_SPEED};

	if (lane && scale.is_out_capacity && !scale.is_in_capacity)
		scale.in = fmax(full, lane->most_in_bytes_per_s);
	return scale;
}

enum line { BOTH, OUT, IN };

static double height(const struct rates *rates, int x, enum line which, double per_s,
	const struct scale *scale, bool *ret_is_capacity)
{
	double out = scale->out > 0 ? rates->out[x] * per_s / scale->out : 0;
	double in = scale->in > 0 ? rates->in[x] * per_s / scale->in : 0;
	bool is_in = which == IN || (which == BOTH && in > out);

	*ret_is_capacity = is_in ? scale->is_in_capacity : scale->is_out_capacity;
	return is_in ? in : out;
}

static void draw_line(const struct lw_nic_lane *lane, const struct rates *rates, enum line which,
	const struct scale *scale, int64_t from_ns, int64_t column_ns, struct lw_pane line)
{
	int next_mark = 0;

	for (int x = 0; x < line.width && x < LW_TIMELINE_MAX_COLUMNS; x++) {
		int64_t start_ns = from_ns + column_ns * x;
		int64_t looked_ns = known_ns(lane, start_ns, start_ns + column_ns);
		bool is_again = which != IN && rates->again[x] > 0, is_capacity;
		double frac;

		if (!looked_ns) {
			lw_pane_rune(line, x, 0, LW_STYLE_DIM, '?');
			continue;
		}
		frac = height(rates, x, which, 1e9 / (double)looked_ns, scale, &is_capacity);
		draw_rate(line, x, frac, is_capacity, is_again);
		if (is_again && x >= next_mark) {
			lw_pane_rune(line, x, 0, LW_STYLE_WARN, again_mark(rates, x, line.width));
			next_mark = x + AGAIN_EVERY;
		}
	}
}

bool lw_timeline_nic_is_shared(const struct lw_timeline *timeline, size_t r)
{
	const struct lw_nic_lane *lane = lw_nic_lane_of(&timeline->lanes.nic, r);

	return lane && lane->n_ranks > 1;
}

size_t lw_timeline_nic_count(const struct lw_timeline *timeline, bool is_shared)
{
	const struct lw_nic_lane *lane;
	size_t n = 0;

	lw_vec_foreach (lane, &timeline->lanes.nic.lanes)
		n += (lane->n_ranks > 1) == is_shared;
	return n;
}

void lw_timeline_nic_label(const struct lw_timeline *timeline, size_t r, int line, int n_lines,
	char text[2 * LW_UNIT_TEXT_BYTES])
{
	const struct lw_nic_lane *lane = lw_nic_lane_of(&timeline->lanes.nic, r);

	snprintf(text, 2 * LW_UNIT_TEXT_BYTES, "%s", line == 0 ? "NIC" : "");
	if (lane)
		print_label(timeline, lane, line, n_lines, text);
}

void lw_timeline_nic_draw(
	const struct lw_timeline *timeline, size_t r, struct lw_pane lines, int n_lines)
{
	const struct lw_nic_lane *lane = lw_nic_lane_of(&timeline->lanes.nic, r);
	struct scale scale = scale_of(timeline, r);
	int64_t from_ns = timeline->from_ns + timeline->lanes.ranks[r].origin_ns;
	struct rates *rates;

	if (!lane) {
		lw_pane_text(lines, 0, 0, lines.width, LW_STYLE_DIM, "? not recorded");
		return;
	}
	rates = malloc(sizeof(*rates));
	if (!rates)
		return;
	lw_nic_curve_columns(
		&lane->moved, from_ns, timeline->column_ns, lines.width, rates->out, rates->in);
	lw_nic_curve_columns(&lane->again, from_ns, timeline->column_ns, lines.width, rates->again,
		rates->unused);
	draw_line(lane, rates, n_lines > 1 ? OUT : BOTH, &scale, from_ns, timeline->column_ns,
		lw_pane_part(lines, 0, 0, lines.width, 1));
	if (n_lines > 1)
		draw_line(lane, rates, IN, &scale, from_ns, timeline->column_ns,
			lw_pane_part(lines, 0, 1, lines.width, 1));
	free(rates);
}

/* ---- details ------------------------------------------------------------------------------------ */

struct at_cursor {
	double out, in, again; /* in the cursor's column */
	int64_t looked_ns;
	bool is_gap;
};

static struct at_cursor look(const struct lw_timeline *timeline, const struct lw_nic_lane *lane)
{
	int64_t from_ns = lw_timeline_column_start(timeline) +
			  timeline->lanes.ranks[timeline->rank].origin_ns;
	struct at_cursor at;
	double unused;

	lw_nic_curve_columns(&lane->moved, from_ns, timeline->column_ns, 1, &at.out, &at.in);
	lw_nic_curve_columns(&lane->again, from_ns, timeline->column_ns, 1, &at.again, &unused);
	at.looked_ns = known_ns(lane, from_ns, from_ns + timeline->column_ns);
	at.is_gap = lw_nic_gap_ns(lane, from_ns, from_ns + timeline->column_ns) > 0;
	return at;
}

/* Of a reading that is longer than the column nobody knows how many fell into it. */
static const char *again_text(double n, char text[AGAIN_BYTES])
{
	char count[AGAIN_BYTES - 16] = "";

	if (n >= 1)
		snprintf(count, sizeof(count), " %.0f", n);
	snprintf(
		text, AGAIN_BYTES, "%s%s%s", n > 0 ? ", !" : "", count, n > 0 ? " sent again" : "");
	return text;
}

static void say_rates(
	const struct lw_timeline *timeline, const struct lw_nic_lane *lane, char *text)
{
	struct at_cursor at = look(timeline, lane);
	char rate[3][LW_UNIT_TEXT_BYTES], every[LW_UNIT_TEXT_BYTES], again[AGAIN_BYTES];
	const struct lw_run *run = timeline->lanes.run;
	enum lw_capacity_from from;
	double full = lw_nic_full(&timeline->lanes.nic, run, timeline->rank, &from);
	double per_s = at.looked_ns ? 1e9 / (double)at.looked_ns : 0;
	/* lanes are looked at in columns, the cursor at one look: that may be more than any column */
	double most = from == LW_CAPACITY_NONE ? fmax(full, fmax(at.out, at.in) * per_s) : full;
	bool is_both = from == LW_CAPACITY_NONE || from == LW_CAPACITY_SPEED;
	int n = snprintf(text, LW_TIMELINE_TEXT_BYTES, "%.32s, %s%s: ", label_of(timeline, lane),
		lw_ns_exact((double)lane->resolution_ns, every), again_text(at.again, again));

	if (!at.looked_ns)
		snprintf(text + n, LW_TIMELINE_TEXT_BYTES - (size_t)n, "%s",
			at.is_gap ? "incomplete here: packets were dropped" : "not looked at here");
	else if (full > 0 && is_both)
		snprintf(text + n, LW_TIMELINE_TEXT_BYTES - (size_t)n,
			"out %s %.0f %%, in %s %.0f %% of %s %s",
			lw_rate_format(at.out * per_s, rate[0]), 100 * at.out * per_s / most,
			lw_rate_format(at.in * per_s, rate[1]), 100 * at.in * per_s / most,
			from != LW_CAPACITY_NONE ? "capacity" : "the most seen,",
			lw_rate_format(most, rate[2]));
	else if (full > 0)
		snprintf(text + n, LW_TIMELINE_TEXT_BYTES - (size_t)n,
			"out %s %.0f %% of capacity %s, in %s",
			lw_rate_format(at.out * per_s, rate[0]), 100 * at.out * per_s / full,
			lw_rate_format(full, rate[2]), lw_rate_format(at.in * per_s, rate[1]));
	else
		snprintf(text + n, LW_TIMELINE_TEXT_BYTES - (size_t)n, "nothing moved");
}

/* What a full lane is. */
static const char *const full_words[] = {
	[LW_CAPACITY_NONE] = "capacity not known: full is the most that any rank's lane shows",
	[LW_CAPACITY_PLATEAU] =
		"capacity of the way out: the NIC's rate whenever TCP was busy throughout",
	[LW_CAPACITY_BUSY] =
		"capacity of the way out: the mean rate while something was in flight, at least",
	[LW_CAPACITY_SPEED] = "capacity: what the driver says",
};

static void say_bytes(
	const struct lw_timeline *timeline, const struct lw_nic_lane *lane, char *text)
{
	struct at_cursor at = look(timeline, lane);
	const struct lw_run *run = timeline->lanes.run;
	char out[LW_UNIT_TEXT_BYTES], in[LW_UNIT_TEXT_BYTES], shared[64] = "";
	enum lw_capacity_from from;

	lw_nic_full(&timeline->lanes.nic, run, timeline->rank, &from);
	if (lane->n_ranks > 1)
		snprintf(shared, sizeof(shared), "; shared by %zu ranks", lane->n_ranks);
	snprintf(text, LW_TIMELINE_TEXT_BYTES, "%s, this column: out %s, in %s%s; %s",
		sources[lane->source].name, lw_bytes_format(at.out, out),
		lw_bytes_format(at.in, in), shared, full_words[from]);
}

size_t lw_timeline_nic_n_said(const struct lw_timeline *timeline)
{
	if (!lw_timeline_shows_nic(timeline))
		return 0;
	return lw_nic_lane_of(&timeline->lanes.nic, timeline->rank) ? 2 : 1;
}

bool lw_timeline_nic_say(
	const struct lw_timeline *timeline, size_t n, char text[LW_TIMELINE_TEXT_BYTES])
{
	const struct lw_nic_lane *lane = lw_nic_lane_of(&timeline->lanes.nic, timeline->rank);

	text[0] = 0;
	if (n >= lw_timeline_nic_n_said(timeline))
		return false;
	if (!lane)
		snprintf(text, LW_TIMELINE_TEXT_BYTES, "what rank %d sent was not recorded",
			timeline->lanes.run->ranks.at[timeline->rank].rank);
	else if (n == 0)
		say_rates(timeline, lane, text);
	else
		say_bytes(timeline, lane, text);
	return true;
}
