/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_ranges.c - which ranges of the program's own a rank was in at a time. */
#include <stdlib.h>
#include <string.h>

#include "tui/timeline.h"

enum { MOST_SHOWN = 3, NAME_BYTES = 60 };

struct lw_timeline_ranges { /* the last answers: each takes a pass over a table, and what is said is said at every drawing */
	struct lw_timeline_range_answer {
		size_t rank;
		int64_t at_ns;
		uint32_t tid;
		char text[LW_TIMELINE_RANGES_BYTES];
	} at[2];
	size_t n, next;
};

/* Those of NCCL and Horovod are the operations themselves; those of streams repeat their threads'. */
static const char ranges_sql[] =
	"SELECT s.text FROM range r JOIN thread t ON t.id = r.thread_id JOIN string s ON s.id = r.name_id"
	" WHERE t.process_id = ?1 AND r.op IN (3, 4) AND r.start_ns <= ?2 AND r.end_ns > ?2"
	" AND (?3 = 0 OR t.tid = ?3) AND s.text NOT GLOB 'NCCL/*' AND s.text NOT GLOB 'HorovodOps/*'"
	" AND r.thread_id NOT IN (SELECT thread_id FROM kernel)"
	" ORDER BY r.start_ns DESC, r.seq DESC LIMIT 4";

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

static void ask(const struct lw_run *run, struct lw_timeline_range_answer *answer)
{
	const struct lw_rank *rank = &run->ranks.at[answer->rank];
	struct lw_store *store = run->stores.at[rank->store];
	size_t n = 0, i = 0;
	sqlite3_stmt *row;

	answer->text[0] = '\0';
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
	ask(run, answer);
	return answer->text;
}

void lw_timeline_ranges_begin(struct lw_timeline *timeline)
{
	free(timeline->ranges);
	timeline->ranges = calloc(1, sizeof(*timeline->ranges)); /* without it nothing is said */
}
