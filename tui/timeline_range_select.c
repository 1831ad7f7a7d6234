/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_range_select.c - which of the program's ranges the cursor is on. */
#include <string.h>

#include "tui/timeline.h"

static const struct lw_range_rank *ranges_of(const struct lw_timeline *timeline)
{
	return &timeline->lanes.ranges.ranks[timeline->rank];
}

static int64_t origin_ns(const struct lw_timeline *timeline)
{
	return timeline->lanes.ranks[timeline->rank].origin_ns;
}

const struct lw_range_bar *lw_timeline_bar(const struct lw_timeline *timeline)
{
	const struct lw_range_rank *rank = ranges_of(timeline);

	return timeline->bar.is_there && timeline->range_level < rank->n_levels &&
			       timeline->bar.index < rank->levels[timeline->range_level].n
		       ? &rank->levels[timeline->range_level].at[timeline->bar.index]
		       : NULL;
}

static void take(struct lw_timeline *timeline, size_t d, size_t index)
{
	timeline->range_level = d;
	timeline->bar = (struct lw_timeline_bar){true, index};
	timeline->n_in_column = 1;
	timeline->is_more_in_column = false;
	timeline->details_top = 0;
}

static void go(struct lw_timeline *timeline, size_t d, size_t index, int n_columns)
{
	take(timeline, d, index);
	timeline->cursor_ns =
		ranges_of(timeline)->levels[d].at[index].start_ns - origin_ns(timeline);
	lw_timeline_show(timeline, timeline->cursor_ns, n_columns);
}

/* How many of @level start before @at_ns. */
static size_t n_begun(const lw_range_level *level, int64_t at_ns)
{
	size_t i = lw_range_at(level, at_ns);

	return i < level->n && level->at[i].start_ns < at_ns ? i + 1 : i;
}

void lw_timeline_range_here(struct lw_timeline *timeline)
{
	const struct lw_range_rank *rank = ranges_of(timeline);
	int64_t from_ns = lw_timeline_column_start(timeline) + origin_ns(timeline), most_ns = 0;
	int64_t to_ns = from_ns + timeline->column_ns;
	const lw_range_level *level;
	size_t first, end;

	timeline->bar.is_there = false;
	timeline->n_in_column = 0;
	timeline->is_more_in_column = false;
	timeline->details_top = 0;
	if (timeline->range_level >= rank->n_levels)
		return;
	level = &rank->levels[timeline->range_level];
	first = lw_range_at(level, from_ns);
	end = n_begun(level, to_ns);
	for (size_t i = first; i < end; i++) {
		const struct lw_range_bar *bar = &level->at[i];
		int64_t start_ns = bar->start_ns > from_ns ? bar->start_ns : from_ns;
		int64_t end_ns = bar->end_ns < to_ns ? bar->end_ns : to_ns;

		if (end_ns - start_ns <= most_ns)
			continue;
		most_ns = end_ns - start_ns;
		timeline->bar = (struct lw_timeline_bar){true, i};
	}
	timeline->n_in_column = end > first ? end - first : 0;
}

void lw_timeline_range_enter(struct lw_timeline *timeline)
{
	timeline->is_on_range = false; /* the level that the screen would show first */
	timeline->range_level = lw_timeline_range_base(timeline, timeline->rank, 1);
	timeline->is_on_range = true;
	lw_timeline_range_here(timeline);
}

bool lw_timeline_range_next(struct lw_timeline *timeline, int by, int n_columns)
{
	const struct lw_range_rank *rank = ranges_of(timeline);
	const struct lw_range_bar *bar = lw_timeline_bar(timeline);
	const lw_range_level *level;
	size_t next;

	if (timeline->range_level >= rank->n_levels)
		return false;
	level = &rank->levels[timeline->range_level];
	next = bar ? timeline->bar.index + (by > 0)
		   : n_begun(level, timeline->cursor_ns + origin_ns(timeline));
	if (by < 0 && next-- == 0)
		return false;
	if (next >= level->n)
		return false;
	go(timeline, timeline->range_level, next, n_columns);
	return true;
}

bool lw_timeline_range_move(struct lw_timeline *timeline, int by, int n_columns)
{
	const struct lw_range_rank *rank = ranges_of(timeline);
	const struct lw_range_bar *bar = lw_timeline_bar(timeline);
	size_t d = timeline->range_level + (size_t)by, i;

	if (!bar || d >= rank->n_levels) /* above the first it is larger than any */
		return false;
	i = lw_range_at(&rank->levels[d], bar->start_ns);
	if (i == rank->levels[d].n || rank->levels[d].at[i].start_ns >= bar->end_ns)
		return false;
	if (by < 0)
		take(timeline, d, i); /* the cursor is in it */
	else
		go(timeline, d, i, n_columns);
	return true;
}

/* ---- find --------------------------------------------------------------------------------------- */

struct place { /* in the order of starts, outer ranges first */
	int64_t start_ns;
	size_t d, index;
};

static bool is_before(const struct place *a, const struct place *b)
{
	return a->start_ns < b->start_ns || (a->start_ns == b->start_ns && a->d < b->d);
}

/* The first of level @d behind @from, or before it, whose name holds @text. Equal names are one pointer. */
static bool scan(const struct lw_range_rank *rank, size_t d, const struct place *from,
	const char *text, int by, struct place *ret_place)
{
	const lw_range_level *level = &rank->levels[d];
	const char *name = NULL;
	bool is_match = false;
	size_t i = n_begun(level, from->start_ns);

	/* one that starts at once is behind it, where it lies deeper */
	if (i < level->n && level->at[i].start_ns == from->start_ns &&
		(by > 0 ? d <= from->d : d < from->d))
		i++;
	for (i -= by < 0; i < level->n; i += (size_t)by) {
		if (level->at[i].name != name) {
			name = level->at[i].name;
			is_match = strcasestr(name, text) != NULL;
		}
		if (is_match) {
			*ret_place = (struct place){level->at[i].start_ns, d, i};
			return true;
		}
	}
	return false;
}

static bool find(const struct lw_range_rank *rank, const struct place *from, const char *text,
	int by, struct place *ret_place)
{
	bool is_found = false;

	for (size_t d = 0; d < rank->n_levels; d++) {
		struct place place;

		if (!scan(rank, d, from, text, by, &place) ||
			(is_found && is_before(&place, ret_place) != (by > 0)))
			continue;
		*ret_place = place;
		is_found = true;
	}
	return is_found;
}

const char *lw_timeline_range_find(
	struct lw_timeline *timeline, const char *text, int by, int n_columns)
{
	const struct lw_range_rank *rank = ranges_of(timeline);
	const struct lw_range_bar *bar = lw_timeline_bar(timeline);
	struct place from = {timeline->cursor_ns + origin_ns(timeline), 0, 0}, place;
	struct place edge = {by > 0 ? INT64_MIN : INT64_MAX, 0, 0};

	by = by < 0 ? -1 : 1;
	if (bar)
		from = (struct place){bar->start_ns, timeline->range_level, timeline->bar.index};
	/* after the last, the first */
	if (!find(rank, &from, text, by, &place) && !find(rank, &edge, text, by, &place))
		return NULL;
	go(timeline, place.d, place.index, n_columns);
	return rank->levels[place.d].at[place.index].name;
}
