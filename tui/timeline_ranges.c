/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_ranges.c - which ranges of the program's own a rank was in at a time. */
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
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

/* Marks, too; the one after a time, or the one before. */
#define FIND_SQL(compare, order)                                                                   \
	"SELECT r.start_ns, r.end_ns, t.tid, s.text, r.op FROM range r"                            \
	" JOIN thread t ON t.id = r.thread_id JOIN string s ON s.id = r.name_id"                   \
	" WHERE t.process_id = ?1 AND r.op > 1 AND r.start_ns " compare " ?2"                      \
	" AND instr(lower(s.text), lower(?3)) > 0 AND t.tid > 0 ORDER BY r.start_ns " order        \
	", r.seq " order " LIMIT 1"
static const char next_sql[] = FIND_SQL(">", ""), before_sql[] = FIND_SQL("<", "DESC");

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

/* Return: there is one. @ret_at_ns: its start. */
static bool find(const struct lw_timeline *timeline, const char *text, int by, int64_t from_ns,
	int64_t *ret_at_ns)
{
	const struct lw_run *run = timeline->lanes.run;
	const struct lw_rank *rank = &run->ranks.at[timeline->rank];
	int64_t origin_ns = timeline->lanes.ranks[timeline->rank].origin_ns, start_ns, end_ns;
	char *found = timeline->ranges->found, length[LW_UNIT_TEXT_BYTES];
	bool is_found = false;
	sqlite3_stmt *row;

	if (lw_store_prepare(run->stores.at[rank->store], by > 0 ? next_sql : before_sql, &row) < 0)
		return false;
	sqlite3_bind_int64(row, 1, rank->process_id);
	sqlite3_bind_int64(row, 2, from_ns);
	sqlite3_bind_text(row, 3, text, -1, SQLITE_TRANSIENT);
	if (lw_store_step(run->stores.at[rank->store], row) == 1) {
		start_ns = sqlite3_column_int64(row, 0);
		end_ns = sqlite3_column_int64(row, 1);
		is_found = end_ns >= start_ns;
		*ret_at_ns = start_ns - origin_ns;
		snprintf(found, LW_TIMELINE_TEXT_BYTES,
			"range \"%.100s\", thread %lld, from %.3f ms on for %s",
			lw_store_column_text(row, 3), (long long)sqlite3_column_int64(row, 2),
			(double)(start_ns - origin_ns) / (double)LW_NS_PER_MS,
			lw_ns_format((double)(end_ns - start_ns), length));
	}
	sqlite3_finalize(row);
	return is_found;
}

const char *lw_timeline_ranges_find(
	struct lw_timeline *timeline, const char *text, int by, int n_columns)
{
	int64_t at_ns, cursor_ns;

	if (!timeline->ranges || !timeline->lanes.run->marks.names.n)
		return NULL;
	cursor_ns = timeline->cursor_ns + timeline->lanes.ranks[timeline->rank].origin_ns;
	/* after the last, the first */
	if (!find(timeline, text, by, cursor_ns, &at_ns) &&
		!find(timeline, text, by, by > 0 ? INT64_MIN : INT64_MAX, &at_ns))
		return NULL;
	lw_timeline_move_to(timeline, at_ns, n_columns);
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
