/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_gpu_select.c - which kernel or copy the cursor is on. */
#include <string.h>

#include "analyzer/kernel_text.h"
#include "tui/timeline.h"

enum { MAX_LOOKS = 4096 };

static const struct lw_gpu_rank *gpu_of(const struct lw_timeline *timeline)
{
	return &timeline->lanes.run->ranks.at[timeline->rank].gpu;
}

static int64_t origin_ns(const struct lw_timeline *timeline)
{
	return timeline->lanes.ranks[timeline->rank].origin_ns;
}

static struct lw_interval span_of(const struct lw_gpu_rank *gpu, struct lw_timeline_item item)
{
	if (item.is_copy)
		return (struct lw_interval){
			gpu->copies.at[item.index].start_ns, gpu->copies.at[item.index].end_ns};
	return (struct lw_interval){
		gpu->kernels.at[item.index].start_ns, gpu->kernels.at[item.index].end_ns};
}

static bool is_valid(const struct lw_gpu_rank *gpu, struct lw_timeline_item item)
{
	return item.is_there && item.index < (item.is_copy ? gpu->copies.n : gpu->kernels.n);
}

bool lw_timeline_item_span(const struct lw_timeline *timeline, struct lw_interval *ret_span)
{
	if (!is_valid(gpu_of(timeline), timeline->item))
		return false;
	*ret_span = span_of(gpu_of(timeline), timeline->item);
	ret_span->start_ns -= origin_ns(timeline);
	ret_span->end_ns -= origin_ns(timeline);
	return true;
}

/* Where no lane is drawn, any is meant. */
static bool is_on_line(const struct lw_timeline *timeline, struct lw_timeline_item item)
{
	const struct lw_gpu_rank *gpu = gpu_of(timeline);
	int gpu_class = lw_timeline_gpu_class(timeline, timeline->gpu_line);

	if (timeline->gpu_line >= (size_t)timeline->gpu_lines)
		return true;
	if (timeline->gpu == LW_TIMELINE_GPU_STREAMS)
		return timeline->gpu_line == (item.is_copy ? gpu->copies.at[item.index].stream
							   : gpu->kernels.at[item.index].stream);
	return gpu_class ==
	       (item.is_copy ? (int)LW_GPU_COPY : (int)gpu->kernels.at[item.index].gpu_class);
}

void lw_timeline_gpu_follow(struct lw_timeline *timeline)
{
	const struct lw_gpu_rank *gpu = gpu_of(timeline);
	const struct lw_timeline_item *item = &timeline->item;
	int gpu_class;

	timeline->gpu_line = 0;
	if (!is_valid(gpu, *item))
		return;
	if (timeline->gpu == LW_TIMELINE_GPU_STREAMS) {
		timeline->gpu_line = item->is_copy ? gpu->copies.at[item->index].stream
						   : gpu->kernels.at[item->index].stream;
		return;
	}
	gpu_class = item->is_copy ? (int)LW_GPU_COPY : (int)gpu->kernels.at[item->index].gpu_class;
	while (timeline->gpu_line < LW_GPU_N_CLASSES &&
		lw_timeline_gpu_class(timeline, timeline->gpu_line) != gpu_class)
		timeline->gpu_line++;
}

/* How many kernels, or copies, begin before @at_ns. */
static size_t n_begun(const struct lw_gpu_rank *gpu, bool is_copy, int64_t at_ns)
{
	size_t low = 0, high = is_copy ? gpu->copies.n : gpu->kernels.n;

	while (low < high) {
		struct lw_timeline_item item = {true, is_copy, low + (high - low) / 2};

		if (span_of(gpu, item).start_ns < at_ns)
			low = item.index + 1;
		else
			high = item.index;
	}
	return low;
}

/* What of one kind takes most of [from, to): of those that began before, only so many are looked at. */
static void look(const struct lw_timeline *timeline, bool is_copy, int64_t from_ns, int64_t to_ns,
	struct lw_timeline_item *best, int64_t *most_ns, size_t *n_in)
{
	const struct lw_gpu_rank *gpu = gpu_of(timeline);
	size_t end = n_begun(gpu, is_copy, to_ns), first = n_begun(gpu, is_copy, from_ns);

	first -= first < MAX_LOOKS ? first : MAX_LOOKS;
	for (size_t i = first; i < end; i++) {
		struct lw_timeline_item item = {true, is_copy, i};
		struct lw_interval span = span_of(gpu, item);
		int64_t start_ns = span.start_ns > from_ns ? span.start_ns : from_ns;
		int64_t end_ns = span.end_ns < to_ns ? span.end_ns : to_ns;

		if (end_ns < start_ns || (end_ns == start_ns && span.end_ns <= from_ns) ||
			!is_on_line(timeline, item))
			continue;
		++*n_in;
		if (end_ns - start_ns > *most_ns) {
			*most_ns = end_ns - start_ns;
			*best = item;
		}
	}
}

void lw_timeline_gpu_select_here(struct lw_timeline *timeline)
{
	int64_t from_ns = lw_timeline_column_start(timeline) + origin_ns(timeline), most_ns = -1;

	timeline->item.is_there = false;
	timeline->n_in_column = 0;
	timeline->is_more_in_column = false;
	timeline->details_top = 0;
	for (int is_copy = 0; is_copy < 2; is_copy++)
		look(timeline, is_copy, from_ns, from_ns + timeline->column_ns, &timeline->item,
			&most_ns, &timeline->n_in_column);
}

static void go(struct lw_timeline *timeline, struct lw_timeline_item item, int n_columns)
{
	timeline->item = item;
	timeline->cursor_ns = span_of(gpu_of(timeline), item).start_ns - origin_ns(timeline);
	lw_timeline_show(timeline, timeline->cursor_ns, n_columns);
	timeline->n_in_column = 1;
	timeline->is_more_in_column = false;
	timeline->details_top = 0;
}

typedef bool (*accept_fn)(
	const struct lw_timeline *timeline, struct lw_timeline_item item, const void *context);

static bool accept_any(
	const struct lw_timeline *timeline, struct lw_timeline_item item, const void *context)
{
	(void)timeline;
	(void)item;
	(void)context;
	return true;
}

/* Of kernels or copies the first on the lane from @at on, or down from it, that is accepted. Return: there is one. */
static bool scan(const struct lw_timeline *timeline, struct lw_timeline_item at, int by,
	accept_fn accept, const void *context, struct lw_timeline_item *ret_item)
{
	const struct lw_gpu_rank *gpu = gpu_of(timeline);
	size_t n = at.is_copy ? gpu->copies.n : gpu->kernels.n;

	for (; at.index < n; at.index += (size_t)by) /* below 0 it is larger than any */
		if (is_on_line(timeline, at) && accept(timeline, at, context)) {
			*ret_item = at;
			return true;
		}
	return false;
}

/* The next one in either, that which begins first. */
static bool advance(const struct lw_timeline *timeline, int by, int64_t from_ns,
	bool is_selected_skipped, accept_fn accept, const void *context,
	struct lw_timeline_item *ret_item)
{
	const struct lw_gpu_rank *gpu = gpu_of(timeline);
	struct lw_timeline_item found[2];
	bool has[2];

	for (int is_copy = 0; is_copy < 2; is_copy++) {
		/* of those that begin at once kernels are before copies */
		bool is_after = is_selected_skipped && timeline->item.is_copy && !is_copy;
		struct lw_timeline_item at = {
			true, is_copy, n_begun(gpu, is_copy, from_ns + is_after)};

		if (is_selected_skipped && timeline->item.is_copy == (bool)is_copy)
			at.index = timeline->item.index + (by > 0 ? 1 : 0);
		at.index -= by < 0;
		has[is_copy] = scan(timeline, at, by, accept, context, &found[is_copy]);
	}
	if (!has[0] && !has[1])
		return false;
	if (has[0] && has[1]) {
		bool is_kernel_first =
			span_of(gpu, found[0]).start_ns <= span_of(gpu, found[1]).start_ns;

		*ret_item = found[is_kernel_first == (by > 0) ? 0 : 1];
	} else {
		*ret_item = found[has[0] ? 0 : 1];
	}
	return true;
}

bool lw_timeline_gpu_next(struct lw_timeline *timeline, int by, int n_columns)
{
	bool has = is_valid(gpu_of(timeline), timeline->item);
	int64_t from_ns = has ? span_of(gpu_of(timeline), timeline->item).start_ns
			      : timeline->cursor_ns + origin_ns(timeline);
	struct lw_timeline_item item;

	if (!advance(timeline, by, from_ns, has, accept_any, NULL, &item))
		return false;
	go(timeline, item, n_columns);
	return true;
}

/* ---- find --------------------------------------------------------------------------------------- */

static const char *name_of(const struct lw_timeline *timeline, struct lw_timeline_item item)
{
	const struct lw_gpu_rank *gpu = gpu_of(timeline);

	return item.is_copy
		       ? lw_copy_op_name(gpu->copies.at[item.index].op)
		       : timeline->lanes.run->gpu.names.at[gpu->kernels.at[item.index].name].name;
}

struct wanted {
	const bool *is_match; /* by name of a kernel */
	const char *text;
};

static bool accept_name(
	const struct lw_timeline *timeline, struct lw_timeline_item item, const void *context)
{
	const struct wanted *wanted = context;

	if (!item.is_copy)
		return wanted->is_match[gpu_of(timeline)->kernels.at[item.index].name];
	return strcasestr(name_of(timeline, item), wanted->text) != NULL;
}

const char *lw_timeline_gpu_find(
	struct lw_timeline *timeline, const char *text, int by, int n_columns)
{
	const struct lw_run *run = timeline->lanes.run;
	bool has = is_valid(gpu_of(timeline), timeline->item);
	bool *is_match = calloc(run->gpu.names.n + 1, sizeof(*is_match)), is_found;
	int64_t from_ns = has ? span_of(gpu_of(timeline), timeline->item).start_ns
			      : timeline->cursor_ns + origin_ns(timeline);
	struct wanted wanted = {is_match, text};
	struct lw_timeline_item item;
	char read[LW_KERNEL_TEXT_BYTES];

	if (!is_match)
		return NULL;
	for (size_t i = 0; i < run->gpu.names.n; i++)
		is_match[i] = strcasestr(run->gpu.names.at[i].name, text) ||
			      strcasestr(lw_kernel_text(run->gpu.names.at[i].name, read), text);
	by = by < 0 ? -1 : 1;
	timeline->gpu_line = (size_t)timeline->gpu_lines; /* on any lane */
	is_found = advance(timeline, by, from_ns, has, accept_name, &wanted, &item) ||
		   /* after the last, the first */
		   advance(timeline, by, by > 0 ? INT64_MIN : INT64_MAX, false, accept_name,
			   &wanted, &item);
	free(is_match);
	if (!is_found) {
		lw_timeline_gpu_follow(timeline);
		return NULL;
	}
	go(timeline, item, n_columns);
	lw_timeline_gpu_follow(timeline);
	return name_of(timeline, item);
}
