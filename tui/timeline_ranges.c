/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_ranges.c - which ranges of the program's own a rank was in at a time. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "schema/event.h"
#include "tui/timeline.h"

enum { MOST_SHOWN = 3, NAME_BYTES = 60 };

struct lw_timeline_ranges { /* the last answers: some take a pass over a table, and what is said is said at every drawing */
	struct lw_timeline_range_answer {
		size_t rank;
		int64_t at_ns;
		uint32_t tid;
		char text[LW_TIMELINE_RANGES_BYTES];
	} at[2];
	size_t n, next;
	char found[LW_TIMELINE_TEXT_BYTES]; /* the last that was searched for, "" = none; */
	size_t found_rank;                  /* where the cursor then went */
	int64_t found_ns;
};

/* Those of NCCL and Horovod are the operations themselves; those of streams repeat their threads'. */
static const char ranges_sql[] =
	"SELECT s.text FROM range r JOIN thread t ON t.id = r.thread_id JOIN string s ON s.id = r.name_id"
	" WHERE t.process_id = ?1 AND r.op IN (3, 4) AND r.start_ns <= ?2 AND r.end_ns > ?2"
	" AND (?3 = 0 OR t.tid = ?3) AND s.text NOT GLOB 'NCCL/*' AND s.text NOT GLOB 'HorovodOps/*'"
	" AND t.tid > 0 ORDER BY r.start_ns DESC, r.seq DESC LIMIT 4";

/* Marks, too. Names are few: they are looked at first. */
static const char find_sql[] =
	"SELECT t.process_id, r.start_ns, r.end_ns, t.tid, s.text, r.op FROM range r"
	" JOIN thread t ON t.id = r.thread_id JOIN string s ON s.id = r.name_id"
	" WHERE r.op > 1 AND r.end_ns >= r.start_ns AND t.tid > 0"
	" AND r.name_id IN (SELECT id FROM string WHERE instr(lower(text), lower(?1)) > 0)";

static size_t add_name(char *text, size_t n, size_t i, const char *name)
{
	size_t size = LW_TIMELINE_RANGES_BYTES;

	if (n >= size)
		return n;
	if (i == MOST_SHOWN)
		return n + (size_t)snprintf(text + n, size - n, ", ...");
	return n + (size_t)snprintf(text + n, size - n, "%s\"%.*s\"",
			   i ? ", " : "; in the program's range ", NAME_BYTES, name);
}

/* Of the thread that the lane is of: nothing has to be read. */
static void look(const struct lw_range_rank *lanes, struct lw_timeline_range_answer *answer)
{
	size_t n = 0, i = 0;

	for (size_t d = lanes->n_levels; d-- > 0 && i <= MOST_SHOWN;) {
		size_t at = lw_range_at(&lanes->levels[d], answer->at_ns);

		if (at < lanes->levels[d].n && lanes->levels[d].at[at].start_ns <= answer->at_ns)
			n = add_name(answer->text, n, i++, lanes->levels[d].at[at].name);
	}
}

static void ask(const struct lw_run *run, const struct lw_range_rank *lanes,
	struct lw_timeline_range_answer *answer)
{
	const struct lw_rank *rank = &run->ranks.at[answer->rank];
	struct lw_store *store = run->stores.at[rank->store];
	size_t n = 0, i = 0;
	sqlite3_stmt *row;

	answer->text[0] = '\0';
	if (!lanes->n_deeper && (!lanes->n_levels || !answer->tid || answer->tid == lanes->tid)) {
		look(lanes, answer);
		return;
	}
	if (lw_store_prepare(store, ranges_sql, &row) < 0)
		return;
	sqlite3_bind_int64(row, 1, rank->process_id);
	sqlite3_bind_int64(row, 2, answer->at_ns);
	sqlite3_bind_int64(row, 3, answer->tid);
	while (lw_store_step(store, row) == 1)
		n = add_name(answer->text, n, i++, lw_store_column_text(row, 0));
	sqlite3_finalize(row);
}

const char *lw_timeline_ranges_text(
	const struct lw_timeline *timeline, size_t rank, int64_t at_ns, uint32_t tid)
{
	struct lw_timeline_ranges *ranges = timeline->ranges;
	const struct lw_run *run = timeline->lanes.run;
	struct lw_timeline_range_answer *answer;

	if (!ranges || !run->marks.names.n)
		return "";
	for (size_t i = 0; i < ranges->n; i++) {
		answer = &ranges->at[i];
		if (answer->rank == rank && answer->at_ns == at_ns && answer->tid == tid)
			return answer->text;
	}
	answer = &ranges->at[ranges->next];
	ranges->next = !ranges->next;
	ranges->n += ranges->n < 2;
	answer->rank = rank;
	answer->at_ns = at_ns;
	answer->tid = tid;
	ask(run, &timeline->lanes.ranges.ranks[rank], answer);
	return answer->text;
}

/* ---- find --------------------------------------------------------------------------------------- */

struct found { /* a range, or a mark */
	bool is_there;
	size_t rank;
	int64_t at_ns, length_ns; /* on the timeline */
	int64_t tid;
	bool is_mark;
	char name[101];
};

struct search {
	const struct lw_timeline *timeline;
	int by;
	struct found best, last; /* the next one, and where there is none, the first of all */
};

/* By time, and of one time by rank. */
static bool is_after(const struct found *a, int64_t at_ns, size_t rank)
{
	return a->at_ns > at_ns || (a->at_ns == at_ns && a->rank > rank);
}

/* The nearest to the cursor on the side of @by; what begins at it is the next one of a new search. */
static bool is_ahead(const struct search *search, const struct found *one)
{
	const struct lw_timeline *timeline = search->timeline;

	if (search->by == 0)
		return one->at_ns >= timeline->cursor_ns;
	if (search->by > 0)
		return is_after(one, timeline->cursor_ns, timeline->rank);
	return one->at_ns < timeline->cursor_ns ||
	       (one->at_ns == timeline->cursor_ns && one->rank < timeline->rank);
}

static void keep_if_nearer(const struct search *search, const struct found *one, struct found *best)
{
	bool is_later = best->is_there && is_after(one, best->at_ns, best->rank);

	if (!best->is_there || (search->by < 0 ? is_later : is_after(best, one->at_ns, one->rank)))
		*best = *one;
}

/* Return: run->ranks.n, of no rank. */
static size_t rank_of_process(const struct lw_run *run, size_t store, int64_t process_id)
{
	size_t r = 0;

	while (r < run->ranks.n && ((size_t)run->ranks.at[r].store != store ||
					   run->ranks.at[r].process_id != process_id))
		r++;
	return r;
}

/* Of one store, a pass over its ranges. */
static void search_store(struct search *search, size_t store, const char *text)
{
	const struct lw_run *run = search->timeline->lanes.run;
	struct found one = {.is_there = true, .rank = run->ranks.n};
	int64_t process_id = 0;
	sqlite3_stmt *row;

	if (lw_store_prepare(run->stores.at[store], find_sql, &row) < 0)
		return;
	sqlite3_bind_text(row, 1, text, -1, SQLITE_TRANSIENT);
	while (lw_store_step(run->stores.at[store], row) == 1) {
		int64_t start_ns = sqlite3_column_int64(row, 1), op = sqlite3_column_int64(row, 5);

		if (one.rank == run->ranks.n || process_id != sqlite3_column_int64(row, 0)) {
			process_id = sqlite3_column_int64(row, 0);
			one.rank = rank_of_process(run, store, process_id);
		}
		if (one.rank == run->ranks.n)
			continue;
		one.at_ns = start_ns - search->timeline->lanes.ranks[one.rank].origin_ns;
		one.length_ns = sqlite3_column_int64(row, 2) - start_ns;
		one.tid = sqlite3_column_int64(row, 3);
		one.is_mark = op == LW_MARK_POINT || op == LW_MARK_NVTX_POINT;
		snprintf(one.name, sizeof(one.name), "%.100s", lw_store_column_text(row, 4));
		if (is_ahead(search, &one))
			keep_if_nearer(search, &one, &search->best);
		keep_if_nearer(search, &one, &search->last);
	}
	sqlite3_finalize(row);
}

static void say_found(const struct lw_run *run, const struct found *found, char *text)
{
	double at_ms = (double)found->at_ns / (double)LW_NS_PER_MS;
	int rank = run->ranks.at[found->rank].rank;
	char length[LW_UNIT_TEXT_BYTES];

	if (found->is_mark)
		snprintf(text, LW_TIMELINE_TEXT_BYTES,
			"mark \"%s\", rank %d, thread %lld, at %.3f ms", found->name, rank,
			(long long)found->tid, at_ms);
	else
		snprintf(text, LW_TIMELINE_TEXT_BYTES,
			"range \"%s\", rank %d, thread %lld, from %.3f ms on for %s", found->name,
			rank, (long long)found->tid, at_ms,
			lw_ns_format((double)found->length_ns, length));
}

const char *lw_timeline_ranges_find(
	struct lw_timeline *timeline, const char *text, int by, int n_columns)
{
	const struct lw_run *run = timeline->lanes.run;
	struct search search = {.timeline = timeline, .by = by};

	if (!timeline->ranges || !run->marks.names.n)
		return NULL;
	for (size_t i = 0; i < run->stores.n; i++)
		search_store(&search, i, text);
	if (!search.best.is_there)
		search.best = search.last; /* after the last, the first */
	if (!search.best.is_there)
		return NULL;
	timeline->rank = search.best.rank;
	if (timeline->is_by_tensor && lw_lanes_turn(&timeline->lanes, timeline->rank) < 0)
		timeline->is_by_tensor = false;
	say_found(run, &search.best, timeline->ranges->found);
	lw_timeline_move_to(timeline, search.best.at_ns, n_columns);
	timeline->ranges->found_rank = timeline->rank;
	timeline->ranges->found_ns = timeline->cursor_ns;
	return timeline->ranges->found;
}

const char *lw_timeline_ranges_found(const struct lw_timeline *timeline)
{
	const struct lw_timeline_ranges *ranges = timeline->ranges;

	return ranges && *ranges->found && ranges->found_rank == timeline->rank &&
			       ranges->found_ns == timeline->cursor_ns
		       ? ranges->found
		       : NULL;
}

void lw_timeline_ranges_begin(struct lw_timeline *timeline)
{
	free(timeline->ranges);
	timeline->ranges = calloc(1, sizeof(*timeline->ranges)); /* without it nothing is said */
}
