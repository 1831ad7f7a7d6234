/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_details.c - what is said of the selected collective. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "analyzer/reconstruct/volume.h"
#include "base/units.h"
#include "tui/timeline.h"

enum { N_COLLECTIVE_LINES = 5 }; /* that say_head() has of one */

/* ---- lines -------------------------------------------------------------------------------------- */

size_t lw_timeline_add(char *text, size_t n, const char *format, ...)
{
	va_list arguments;
	int more;

	if (n >= LW_TIMELINE_TEXT_BYTES)
		return n;
	va_start(arguments, format);
	more = vsnprintf(text + n, LW_TIMELINE_TEXT_BYTES - n, format, arguments);
	va_end(arguments);
	return more > 0 ? n + (size_t)more : n;
}

static void say_what(const struct lw_timeline *timeline, const struct lw_batch *batch, char *text)
{
	const struct lw_rank *rank = &timeline->lanes.run->ranks.at[timeline->rank];
	char bytes[LW_UNIT_TEXT_BYTES], number[LW_STEP_TEXT_BYTES];
	size_t n;

	n = lw_timeline_add(text, 0, "%s, %s, %u %s: ", lw_coll_name(batch->op),
		batch->flags & LW_COLL_NO_BYTES ? "size not known"
						: lw_bytes_format((double)batch->bytes, bytes),
		batch->n_members, batch->n_members == 1 ? "tensor" : "tensors");
	if (batch->step == LW_NONE)
		n = lw_timeline_add(text, n, "belongs to no step");
	else
		n = lw_timeline_add(text, n, "batch %td of step %s",
			batch - rank->batches.at - rank->steps.at[batch->step].first_batch,
			lw_rank_step_text(rank, batch->step, number));
	if (batch->step != LW_NONE && rank->steps.at[batch->step].excluded)
		n = lw_timeline_add(text, n, " (left out)");
	if (batch->flags & LW_COLL_UNFINISHED)
		n = lw_timeline_add(text, n, ", end not seen");
	if (batch->flags & LW_COLL_FAILED)
		n = lw_timeline_add(text, n, ", FAILED");
	if (timeline->n_in_column > 1)
		lw_timeline_add(text, n, "; 1 of %s%zu in this column",
			timeline->is_more_in_column ? "over " : "", timeline->n_in_column);
}

static void say_when(const struct lw_timeline *timeline, const struct lw_batch *batch, char *text)
{
	const struct lw_rank *rank = &timeline->lanes.run->ranks.at[timeline->rank];
	int64_t origin_ns = timeline->lanes.ranks[timeline->rank].origin_ns;
	char into[LW_UNIT_TEXT_BYTES], length[LW_UNIT_TEXT_BYTES];
	size_t n = lw_timeline_add(text, 0, "rank %d: starts at %.3f ms", rank->rank,
		(double)(batch->start_ns - origin_ns) / (double)LW_NS_PER_MS);

	if (batch->step != LW_NONE)
		n = lw_timeline_add(text, n, " (%s into the step)",
			lw_ns_format(
				(double)(batch->start_ns - rank->steps.at[batch->step].start_ns),
				into));
	lw_timeline_add(text, n, ", takes %s%s",
		lw_ns_format((double)(batch->end_ns - batch->start_ns), length),
		lw_timeline_ranges_text(timeline, timeline->rank, batch->start_ns, 0));
}

static void say_phases(struct lw_timeline *timeline, const struct lw_batch *batch, char *text)
{
	struct lw_phases *phases = &timeline->lanes.phases;
	const struct lw_intervals *sets[] = {
		&phases->negotiate, &phases->wait, &phases->misc, &phases->allreduce};
	static const char *const names[] = {"NEGOTIATE", "WAIT", "MISC", "ALLREDUCE"};
	char length[LW_UNIT_TEXT_BYTES];
	size_t n = 0;

	if (lw_phases_collect_members(phases, timeline->rank, batch, 0, batch->n_members) < 0) {
		lw_timeline_add(text, 0, "no memory for its phases");
		return;
	}
	for (size_t i = 0; i < 4; i++) {
		bool is_unknown = i < 2 && !phases->has_ready && batch->agreed_ns == LW_NS_UNKNOWN;

		n = lw_timeline_add(text, n, "%s%s %s", i ? "  " : "", names[i],
			is_unknown ? "?"
				   : lw_ns_format((double)lw_intervals_length_ns(sets[i]), length));
	}
	if (!phases->is_partial && timeline->lanes.is_one_clock)
		n = lw_timeline_add(text, n, " (entry %s)",
			lw_ns_format((double)lw_intervals_length_ns(&phases->entry), length));
	if (batch->wire_start_ns == LW_NS_UNKNOWN)
		lw_timeline_add(text, n, "  (copies not seen apart)");
}

static void say_rate(const struct lw_timeline *timeline, const struct lw_group *group, char *text)
{
	const struct lw_run *run = timeline->lanes.run;
	bool is_whole = group->n_ranks == group->n_wanted;
	char rate[LW_UNIT_TEXT_BYTES];
	double service_ns, algbw;
	size_t n;

	if (!is_whole) {
		lw_timeline_add(text, 0, "algbw ? busbw ?  not known: found on %u of its %u ranks",
			group->n_ranks, group->n_wanted);
		return;
	}
	service_ns = lw_group_service_ns(run, group, timeline->lanes.is_one_clock);
	if (!(service_ns > 0) || !group->bytes) {
		lw_timeline_add(text, 0, "algbw ? busbw ?  not known: %s",
			group->bytes ? "no time passed from the last start to the last end"
				     : "its size is 0 or was not recorded");
		return;
	}
	algbw = lw_group_size_bytes(run, group) / service_ns * 1e9;
	n = lw_timeline_add(text, 0, "algbw %s", lw_rate_format(algbw, rate));
	if (!isnan(lw_group_bus_factor(group)) && group->n_wanted > 1)
		n = lw_timeline_add(text, n, "  busbw %s",
			lw_rate_format(algbw * lw_group_bus_factor(group), rate));
	lw_timeline_add(text, n, "  measured, %s",
		timeline->lanes.is_one_clock ? "last start to last end"
					     : "the shortest rank's time");
}

static void say_order(const struct lw_timeline *timeline, const struct lw_group *group, char *text)
{
	const struct lw_run *run = timeline->lanes.run;
	struct lw_timeline_order order = lw_timeline_order(run, group);
	char late[LW_UNIT_TEXT_BYTES];

	if (order.why)
		lw_timeline_add(text, 0, "who was last: not known: %s", order.why);
	else if (order.first == LW_NONE)
		lw_timeline_add(text, 0, "who was last: not known: no ready times were recorded");
	else if (order.late_ns == 0)
		lw_timeline_add(text, 0, "all ranks %s at the same time",
			order.is_entry ? "entered it" : "were ready");
	else
		lw_timeline_add(text, 0, "first %s rank %d, last rank %d, %s later%s",
			order.is_entry ? "to enter" : "ready", run->ranks.at[order.first].rank,
			run->ranks.at[order.last].rank, lw_ns_format((double)order.late_ns, late),
			order.is_entry ? "" : " (all tensors queued)");
}

static void say_members(
	const struct lw_timeline *timeline, const struct lw_batch *batch, char *text)
{
	const struct lw_run *run = timeline->lanes.run;
	const struct lw_rank *rank = &run->ranks.at[timeline->rank];
	char bytes[LW_UNIT_TEXT_BYTES];
	size_t n = 0;

	if (batch->n_members == 0)
		lw_timeline_add(text, 0, "its tensors have no names");
	for (uint32_t i = 0; i < batch->n_members && n < LW_TIMELINE_TEXT_BYTES; i++) {
		const struct lw_member *member = &rank->members.at[batch->first_member + i];

		n = lw_timeline_add(text, n, "%s%s %s", i ? ", " : "",
			run->tensors.at[member->tensor].name,
			lw_bytes_format((double)member->bytes, bytes));
	}
}

/* The collective, then what crossed the network. Return: there is such a line. */
static bool say_head(struct lw_timeline *timeline, size_t line, char text[LW_TIMELINE_TEXT_BYTES])
{
	const struct lw_run *run = timeline->lanes.run;
	const struct lw_batch *batch = lw_timeline_batch(timeline, timeline->rank);

	text[0] = 0;
	if (timeline->is_on_range)
		return lw_timeline_range_line(timeline, line, text);
	if (timeline->is_on_gpu)
		return lw_timeline_gpu_line(timeline, line, text);
	if (!batch && line > 0)
		return lw_timeline_nic_say(timeline, line - 1, text);
	if (!batch) {
		const char *found = lw_timeline_ranges_found(timeline);

		if (timeline->group != LW_NONE)
			lw_timeline_add(text, 0,
				"rank %d has no record of the collective that is followed",
				run->ranks.at[timeline->rank].rank);
		else
			lw_timeline_add(text, 0, "%s",
				found ? found
				      : "no collective here: . next  , before  ] next step");
		return true;
	}
	switch (line) {
	case 0:
		say_what(timeline, batch, text);
		return true;
	case 1:
		say_when(timeline, batch, text);
		return true;
	case 2:
		say_phases(timeline, batch, text);
		return true;
	case 3:
		say_rate(timeline, &run->groups.at[timeline->group], text);
		return true;
	case 4:
		say_order(timeline, &run->groups.at[timeline->group], text);
		return true;
	default:
		line -= N_COLLECTIVE_LINES;
		return lw_timeline_nic_say(timeline, line, text) ||
		       lw_timeline_moved_line(
			       timeline, batch, line - lw_timeline_nic_n_said(timeline), text);
	}
}

/* Everything after the head: each rank, then each tensor. */
static bool say_rank(
	const struct lw_timeline *timeline, size_t r, char text[LW_TIMELINE_TEXT_BYTES])
{
	const struct lw_run *run = timeline->lanes.run;
	const struct lw_rank *rank = &run->ranks.at[r];
	const struct lw_batch *batch = lw_timeline_batch(timeline, r);
	char start[LW_UNIT_TEXT_BYTES], length[LW_UNIT_TEXT_BYTES], wire[LW_UNIT_TEXT_BYTES];
	char ready[LW_UNIT_TEXT_BYTES] = "?";
	struct lw_interval on_wire;

	if (!batch) {
		snprintf(text, LW_TIMELINE_TEXT_BYTES, "%6d  no record of it", rank->rank);
		return true;
	}
	on_wire = lw_batch_wire(batch);
	if (lw_timeline_ready_ns(rank, batch) != LW_NS_UNKNOWN)
		lw_ns_format((double)(batch->start_ns - lw_timeline_ready_ns(rank, batch)), ready);
	snprintf(start, sizeof(start), "%.3f ms",
		(double)(batch->start_ns - timeline->lanes.ranks[r].origin_ns) / 1e6);
	lw_ns_format((double)(batch->end_ns - batch->start_ns), length);
	lw_ns_format((double)(on_wire.end_ns - on_wire.start_ns), wire);
	snprintf(text, LW_TIMELINE_TEXT_BYTES, "%6d %12s %14s %10s %10s", rank->rank, ready, start,
		length, batch->wire_start_ns == LW_NS_UNKNOWN ? "?" : wire);
	return true;
}

static bool say_member(const struct lw_timeline *timeline, const struct lw_batch *batch, size_t i,
	char text[LW_TIMELINE_TEXT_BYTES])
{
	const struct lw_run *run = timeline->lanes.run;
	const struct lw_rank *rank = &run->ranks.at[timeline->rank];
	const struct lw_member *member;
	const struct lw_phase_span *span;
	char bytes[LW_UNIT_TEXT_BYTES], before[LW_UNIT_TEXT_BYTES] = "?";
	char apart[LW_UNIT_TEXT_BYTES] = "?";

	if (i >= batch->n_members)
		return false;
	member = &rank->members.at[batch->first_member + i];
	span = &timeline->lanes.phases.spans[timeline->lanes.phases.first_span[batch->group] + i];
	if (member->ready_ns != LW_NS_UNKNOWN)
		lw_ns_format((double)(batch->start_ns - member->ready_ns), before);
	if (span->last_ns != LW_NS_UNKNOWN && span->first_ns != LW_NS_UNKNOWN)
		lw_ns_format((double)(span->last_ns - span->first_ns), apart);
	snprintf(text, LW_TIMELINE_TEXT_BYTES, "%10s %12s %10s  %s",
		lw_bytes_format((double)member->bytes, bytes), before, apart,
		run->tensors.at[member->tensor].name);
	return true;
}

bool lw_timeline_details_line(
	struct lw_timeline *timeline, size_t n, char text[LW_TIMELINE_TEXT_BYTES])
{
	const struct lw_run *run = timeline->lanes.run;
	const struct lw_batch *batch = lw_timeline_batch(timeline, timeline->rank);
	static const char *const titles[] = {
		"", "  rank  queued for          start     length    on wire"};
	static const char *const member_titles[] = {
		"", "     bytes   queued for  ranks apart  tensor (on this rank)"};

	size_t n_head = N_COLLECTIVE_LINES + lw_timeline_nic_n_said(timeline), n_moved = 0;

	while (batch && lw_timeline_moved_line(timeline, batch, n_moved, text))
		n_moved++;
	n_head += n_moved;
	text[0] = 0;
	if (n < n_head || !batch || timeline->is_on_gpu || timeline->is_on_range)
		return say_head(timeline, n, text);
	n -= n_head;
	if (n < 2)
		snprintf(text, LW_TIMELINE_TEXT_BYTES, "%s", titles[n]);
	else if (n - 2 < run->ranks.n)
		return say_rank(timeline, n - 2, text);
	else if (n - 2 - run->ranks.n < 2)
		snprintf(text, LW_TIMELINE_TEXT_BYTES, "%s", member_titles[n - 2 - run->ranks.n]);
	else
		return say_member(timeline, batch, n - 4 - run->ranks.n, text);
	return true;
}

static void draw_full(struct lw_timeline *timeline, struct lw_pane pane)
{
	char text[LW_TIMELINE_TEXT_BYTES];
	size_t n = 0;

	while (lw_timeline_details_line(timeline, n, text))
		n++;
	if (timeline->details_top + (size_t)pane.height > n)
		timeline->details_top = n > (size_t)pane.height ? n - (size_t)pane.height : 0;
	for (int y = 0; y < pane.height; y++)
		if (lw_timeline_details_line(timeline, timeline->details_top + (size_t)y, text))
			lw_pane_print(pane, 1, y,
				timeline->details_top + (size_t)y == 0 ? LW_STYLE_STRONG
								       : LW_STYLE_TEXT,
				"%s", text);
	if (timeline->details_top + (size_t)pane.height < n) {
		lw_pane_rune(pane, pane.width - 12, pane.height - 1, LW_STYLE_DIM,
			lw_glyph(pane.cells, LW_GLYPH_CUT));
		lw_pane_right(pane, pane.width, pane.height - 1, 11, LW_STYLE_DIM, " more below");
	}
}

/* Beside the rows: each rank's part, as the rows show it. Return: the line after it. */
static int draw_followed(const struct lw_timeline *timeline, struct lw_pane pane, int y)
{
	const struct lw_run *run = timeline->lanes.run;
	const struct lw_group *group = &run->groups.at[timeline->group];
	char start[LW_UNIT_TEXT_BYTES], length[LW_UNIT_TEXT_BYTES];

	lw_pane_print(pane, 1, y++, LW_STYLE_DIM, "rank  on wire at     for");
	for (size_t r = 0; r < run->ranks.n && y < pane.height - 2; r++, y++) {
		const struct lw_batch *batch = lw_timeline_batch(timeline, r);
		struct lw_interval wire;

		if (!batch) {
			lw_pane_print(pane, 1, y, LW_STYLE_WARN, "%4d  no record of it",
				run->ranks.at[r].rank);
			continue;
		}
		wire = lw_batch_wire(batch);
		snprintf(start, sizeof(start), "?"); /* another clock */
		if (timeline->lanes.is_one_clock)
			lw_ns_format((double)(wire.start_ns - group->first_start_ns), start);
		lw_pane_print(pane, 1, y, LW_STYLE_TEXT, "%4d  +%-10s  %s", run->ranks.at[r].rank,
			start, lw_ns_format((double)(wire.end_ns - wire.start_ns), length));
	}
	return y;
}

void lw_timeline_details_draw(struct lw_timeline *timeline, struct lw_pane pane)
{
	const struct lw_batch *batch = timeline->is_on_gpu || timeline->is_on_range
					       ? NULL
					       : lw_timeline_batch(timeline, timeline->rank);
	int n_at_bottom = LW_TIMELINE_HEAD_LINES + lw_timeline_shows_nic(timeline);
	bool is_at_bottom = pane.height <= n_at_bottom;
	char text[LW_TIMELINE_TEXT_BYTES];
	int y = 0;

	if (timeline->is_full) {
		draw_full(timeline, pane);
		return;
	}
	for (size_t n = 0; y < pane.height && say_head(timeline, n, text); n++) {
		enum lw_style style = n == 0 ? LW_STYLE_STRONG : LW_STYLE_TEXT;

		if (is_at_bottom && batch && y + 1 == n_at_bottom)
			break;    /* its tensors' line */
		if (is_at_bottom) /* a line each */
			lw_pane_print(pane, 1, y++, style, "%s", text);
		else
			y += lw_pane_wrap(pane, 1, y, pane.width - 2, style, text);
	}
	if (!batch)
		return;
	if (timeline->is_following && !is_at_bottom)
		y = draw_followed(timeline, pane, y + 1);
	if (is_at_bottom) {
		say_members(timeline, batch, text);
		lw_pane_print(pane, 1, y, LW_STYLE_DIM, "%s", text);
		return;
	}
	for (uint32_t i = 0; i < batch->n_members && ++y < pane.height; i++) {
		const struct lw_member *member = &timeline->lanes.run->ranks.at[timeline->rank]
							  .members.at[batch->first_member + i];
		char bytes[LW_UNIT_TEXT_BYTES];

		if (y == pane.height - 1 && i + 1 < batch->n_members) {
			lw_pane_print(pane, 1, y, LW_STYLE_DIM, "and %u more: Enter",
				batch->n_members - i);
			return;
		}
		lw_pane_print(pane, 1, y, LW_STYLE_DIM, "%9s %s",
			lw_bytes_format((double)member->bytes, bytes),
			timeline->lanes.run->tensors.at[member->tensor].name);
	}
}
