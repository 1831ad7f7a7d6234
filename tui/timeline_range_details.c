/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_range_details.c - what is said of the selected range of the program's, and those of the screen as CSV. */
#include <errno.h>
#include <string.h>

#include "analyzer/reconstruct/interval.h"
#include "base/units.h"
#include "tui/timeline.h"

enum { NAME_BYTES = 60 };

static const char row_sql[] = "SELECT op, value FROM range WHERE rowid = ?1";

static void say_what(const struct lw_timeline *timeline, const struct lw_range_bar *bar, char *text)
{
	const struct lw_run *run = timeline->lanes.run;
	struct lw_store *store = run->stores.at[run->ranks.at[timeline->rank].store];
	size_t n = lw_timeline_add(text, 0, "%.200s: ", bar->name);
	sqlite3_stmt *row;

	if (lw_store_prepare(store, row_sql, &row) == LW_OK) {
		sqlite3_bind_int64(row, 1, bar->row);
		if (lw_store_step(store, row) == 1) {
			n = lw_timeline_add(text, n, "%s",
				sqlite3_column_int(row, 0) == LW_MARK_NVTX_RANGE ? "NVTX range"
										 : "range");
			if (sqlite3_column_int64(row, 1))
				n = lw_timeline_add(text, n, ", value %lld",
					(long long)sqlite3_column_int64(row, 1));
		}
		sqlite3_finalize(row);
	}
	if (timeline->n_in_column > 1)
		lw_timeline_add(text, n, "; 1 of %zu in this column", timeline->n_in_column);
}

static void say_when(const struct lw_timeline *timeline, const struct lw_range_bar *bar, char *text)
{
	const struct lw_rank *rank = &timeline->lanes.run->ranks.at[timeline->rank];
	int64_t from_ns = bar->start_ns - timeline->lanes.ranks[timeline->rank].origin_ns;
	int32_t step = lw_timeline_step_at(timeline, from_ns);
	char into[LW_UNIT_TEXT_BYTES], length[LW_UNIT_TEXT_BYTES], number[LW_STEP_TEXT_BYTES];
	size_t n = lw_timeline_add(text, 0, "rank %d, thread %u: starts at %.3f ms", rank->rank,
		timeline->lanes.ranges.ranks[timeline->rank].tid,
		(double)from_ns / (double)LW_NS_PER_MS);

	if (step != LW_NONE)
		n = lw_timeline_add(text, n, " (%s into step %s)",
			lw_ns_format((double)(bar->start_ns - rank->steps.at[step].start_ns), into),
			lw_rank_step_text(rank, step, number));
	lw_timeline_add(
		text, n, ", takes %s", lw_ns_format((double)(bar->end_ns - bar->start_ns), length));
}

/* Of the rank's GPUs, whoever launched what they did. */
static bool say_gpu(const struct lw_timeline *timeline, const struct lw_range_bar *bar, char *text)
{
	const struct lw_gpu_rank *gpu = &timeline->lanes.run->ranks.at[timeline->rank].gpu;
	struct lw_intervals compute = {0}, comm = {0}, exposed = {0};
	char unit[3][LW_UNIT_TEXT_BYTES];
	int64_t length_ns = bar->end_ns - bar->start_ns, compute_ns, exposed_ns;
	int status;

	if (!gpu->kernels.n)
		return false;
	status = lw_intervals_within(gpu->busy[LW_GPU_COMPUTE].at, gpu->busy[LW_GPU_COMPUTE].n,
		bar->start_ns, bar->end_ns, &compute);
	status |= lw_intervals_within(gpu->busy[LW_GPU_COMMUNICATION].at,
		gpu->busy[LW_GPU_COMMUNICATION].n, bar->start_ns, bar->end_ns, &comm);
	status |= lw_intervals_subtract(&comm, &compute, &exposed);
	compute_ns = lw_intervals_length_ns(&compute);
	exposed_ns = lw_intervals_length_ns(&exposed);
	lw_vec_free(&compute);
	lw_vec_free(&comm);
	lw_vec_free(&exposed);
	if (status != LW_OK)
		return false;
	lw_timeline_add(text, 0,
		"while it lasts the GPU computes for %s, only communicates for %s, neither for %s",
		lw_ns_format((double)compute_ns, unit[0]),
		lw_ns_format((double)exposed_ns, unit[1]),
		lw_ns_format((double)(length_ns - compute_ns - exposed_ns), unit[2]));
	return true;
}

static void say_around(
	const struct lw_timeline *timeline, const struct lw_range_bar *bar, char *text)
{
	const struct lw_range_rank *rank = &timeline->lanes.ranges.ranks[timeline->rank];
	size_t n = 0;

	for (size_t d = timeline->range_level; d-- > 0;) {
		const lw_range_level *level = &rank->levels[d];
		size_t i = lw_range_at(level, bar->start_ns);

		/* ranges may overlap without holding one another */
		if (i < level->n && level->at[i].start_ns <= bar->start_ns &&
			level->at[i].end_ns >= bar->end_ns)
			n = lw_timeline_add(text, n, "%s\"%.*s\"", n ? ", " : "inside of ",
				NAME_BYTES, level->at[i].name);
	}
	if (!n)
		lw_timeline_add(text, 0, "inside of no other range of its thread");
}

static void say_inside(
	const struct lw_timeline *timeline, const struct lw_range_bar *bar, char *text)
{
	const struct lw_range_rank *rank = &timeline->lanes.ranges.ranks[timeline->rank];
	const lw_range_level *level = &rank->levels[timeline->range_level + 1];
	char length[LW_UNIT_TEXT_BYTES];
	size_t first = 0, end = 0, n;

	if (timeline->range_level + 1 < rank->n_levels) {
		first = lw_range_at(level, bar->start_ns);
		end = lw_range_at(level, bar->end_ns);
	}
	if (first == end) {
		if (timeline->range_level + 1 == LW_RANGE_MAX_LEVELS && rank->n_deeper)
			lw_timeline_add(text, 0, "deeper ranges are not shown: %llu of this thread",
				(unsigned long long)rank->n_deeper);
		else
			lw_timeline_add(text, 0, "no range inside");
		return;
	}
	n = lw_timeline_add(text, 0, "%zu inside: ", end - first);
	for (size_t i = first; i < end && n < LW_TIMELINE_TEXT_BYTES; i++)
		n = lw_timeline_add(text, n, "%s%.*s %s", i > first ? ", " : "", NAME_BYTES,
			level->at[i].name,
			lw_ns_format(
				(double)(level->at[i].end_ns - level->at[i].start_ns), length));
}

bool lw_timeline_range_line(
	const struct lw_timeline *timeline, size_t n, char text[LW_TIMELINE_TEXT_BYTES])
{
	const struct lw_range_bar *bar = lw_timeline_bar(timeline);

	text[0] = 0;
	if (!bar) {
		if (n == 0)
			snprintf(text, LW_TIMELINE_TEXT_BYTES,
				"no range here: . next  , before  Up, Down another rank  v collectives");
		return n == 0;
	}
	if (n >= 2 && !timeline->lanes.run->ranks.at[timeline->rank].gpu.kernels.n)
		n++; /* nothing of a GPU */
	switch (n) {
	case 0:
		say_what(timeline, bar, text);
		return true;
	case 1:
		say_when(timeline, bar, text);
		return true;
	case 2:
		if (!say_gpu(timeline, bar, text))
			lw_timeline_add(text, 0, "no memory for what its GPU did");
		return true;
	case 3:
		say_around(timeline, bar, text);
		return true;
	case 4:
		say_inside(timeline, bar, text);
		return true;
	default:
		return false;
	}
}

int lw_timeline_range_write(
	const struct lw_timeline *timeline, int64_t from_ns, int64_t to_ns, FILE *out)
{
	const struct lw_run *run = timeline->lanes.run;

	fputs("rank,thread,depth,name,start_ns,end_ns,shown_start_ns,shown_end_ns\n", out);
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_range_rank *rank = &timeline->lanes.ranges.ranks[r];
		int64_t origin_ns = timeline->lanes.ranks[r].origin_ns;

		for (size_t d = 0; d < rank->n_levels; d++) {
			const lw_range_level *level = &rank->levels[d];

			for (size_t i = lw_range_at(level, from_ns + origin_ns);
				i < level->n && level->at[i].start_ns < to_ns + origin_ns; i++) {
				const struct lw_range_bar *bar = &level->at[i];

				fprintf(out, "%d,%u,%zu", run->ranks.at[r].rank, rank->tid, d);
				lw_timeline_write_text(out, bar->name);
				fprintf(out, ",%lld,%lld,%lld,%lld\n", (long long)bar->start_ns,
					(long long)bar->end_ns,
					(long long)(bar->start_ns - origin_ns),
					(long long)(bar->end_ns - origin_ns));
			}
		}
	}
	return ferror(out) ? lw_fail(LW_ERR_IO, "cannot write: %s", strerror(errno)) : LW_OK;
}
