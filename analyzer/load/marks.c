/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marks.c - marks and ranges of the program, its libraries and profilers: table range, summed up by name.
 *
 * Of the processes that are no rank, too: of a program that nobody gave a rank they may be all that is known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"
#include "base/units.h"

/* What streams of a profiler's trace repeat of the threads' ranges is not counted twice. */
static const char names_sql[] =
	"SELECT r.op, coalesce(s.text, ''), count(*), total(r.end_ns - r.start_ns),"
	" max(r.end_ns - r.start_ns), p.id, count(DISTINCT p.id) FROM range r"
	" JOIN thread t ON t.id = r.thread_id JOIN process p ON p.id = t.process_id"
	" LEFT JOIN string s ON s.id = r.name_id"
	" WHERE r.op > 1 AND r.start_ns >= 0 AND r.end_ns >= r.start_ns AND r.end_ns < (1 << 58)"
	" AND NOT (t.tid = 0 AND 'kineto' = (SELECT source FROM run))"
	" GROUP BY r.op, s.text ORDER BY 4 DESC, 3 DESC, 2 LIMIT 1000";

/* From mark to mark of a process. */
static const char steps_sql[] =
	"SELECT count(*), count(ns), avg(ns), min(ns), max(ns) FROM"
	" (SELECT r.start_ns - lag(r.start_ns) OVER (PARTITION BY t.process_id ORDER BY r.start_ns, r.seq) AS ns"
	" FROM range r JOIN thread t ON t.id = r.thread_id WHERE r.op = 1 AND r.start_ns BETWEEN 0 AND (1 << 58))";

static int add_name(struct lw_loader *loader, sqlite3_stmt *row)
{
	const struct lw_rank *rank = lw_load_rank_of_process(loader, sqlite3_column_int64(row, 5));
	struct lw_marks *marks = &loader->run->marks;
	struct lw_mark_name one = {.op = sqlite3_column_int(row, 0),
		.n = (uint64_t)sqlite3_column_int64(row, 2),
		.total_ns = sqlite3_column_double(row, 3),
		.longest_ns = sqlite3_column_int64(row, 4),
		.longest_rank = rank ? rank->rank : LW_NONE,
		.n_processes = (uint32_t)sqlite3_column_int(row, 6)};
	const char *text = lw_store_column_text(row, 1);
	struct lw_mark_name *old;

	lw_vec_foreach (old, &marks->names) {
		if (loader->store_index == 0 || old->op != one.op || strcmp(old->name, text) != 0)
			continue;
		old->n += one.n;
		old->total_ns += one.total_ns;
		old->n_processes += one.n_processes;
		if (one.longest_ns > old->longest_ns) {
			old->longest_ns = one.longest_ns;
			old->longest_rank = one.longest_rank;
		}
		return LW_OK;
	}
	one.name = strdup(text);
	if (one.name && lw_vec_push(&marks->names, one) == LW_OK)
		return LW_OK;
	free(one.name);
	return lw_fail(LW_ERR_NOMEM, "no memory");
}

static int add_steps(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_marks *marks = &loader->run->marks;
	uint64_t n = (uint64_t)sqlite3_column_int64(row, 1), before = marks->n_gaps;

	marks->n_steps += (uint64_t)sqlite3_column_int64(row, 0);
	if (!n)
		return LW_OK;
	marks->n_gaps += n;
	marks->mean_gap_ns += (sqlite3_column_double(row, 2) - marks->mean_gap_ns) * (double)n /
			      (double)marks->n_gaps;
	if (!before || sqlite3_column_double(row, 3) < marks->shortest_gap_ns)
		marks->shortest_gap_ns = sqlite3_column_double(row, 3);
	if (sqlite3_column_double(row, 4) > marks->longest_gap_ns)
		marks->longest_gap_ns = sqlite3_column_double(row, 4);
	return LW_OK;
}

static int add_processes(struct lw_loader *loader, sqlite3_stmt *row)
{
	loader->run->marks.n_processes += (uint32_t)sqlite3_column_int(row, 0);
	return LW_OK;
}

static int by_total(const void *a, const void *b)
{
	const struct lw_mark_name *x = a, *y = b;

	if (x->total_ns > y->total_ns || x->total_ns < y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	if (x->n != y->n)
		return x->n > y->n ? -1 : 1;
	return x->op != y->op ? x->op - y->op : strcmp(x->name, y->name);
}

int lw_load_marks(struct lw_loader *loader)
{
	struct lw_marks *marks = &loader->run->marks;
	int status = lw_load_each(loader, "SELECT count(*) FROM process", add_processes);

	if (status == LW_OK && !loader->run->is_import) /* of a timeline they are its activities */
		status = lw_load_each(loader, names_sql, add_name);
	if (status == LW_OK)
		status = lw_load_each(loader, steps_sql, add_steps);
	if (marks->names.n > 1)
		qsort(marks->names.at, marks->names.n, sizeof(*marks->names.at), by_total);
	return status;
}
static_assert(LW_MARK_STEP == 1, "the queries of marks");

void lw_load_marks_words(struct lw_run *run)
{
	struct lw_marks *marks = &run->marks;
	const struct lw_rank *rank;
	char mean[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES], high[LW_UNIT_TEXT_BYTES];

	lw_vec_foreach (rank, &run->ranks)
		if (rank->batches.n || rank->collectives.n)
			return;
	if (run->is_import || (!marks->n_steps && !marks->names.n))
		return;
	if (marks->n_gaps)
		snprintf(marks->why, sizeof(marks->why),
			"From one step mark to the next %s (mean of %llu, all processes together, %s to %s). How much of it is communication is not known: no collective operation was recorded.",
			lw_ns_format(marks->mean_gap_ns, mean), (unsigned long long)marks->n_gaps,
			lw_ns_format(marks->shortest_gap_ns, low),
			lw_ns_format(marks->longest_gap_ns, high));
	else
		snprintf(marks->why, sizeof(marks->why),
			"No step is known: no collective operation was recorded, and %s.",
			marks->n_steps ? "one step mark bounds none"
				       : "no step was marked (lapwing_mark_step)");
}

void lw_load_marks_free(struct lw_run *run)
{
	struct lw_mark_name *name;

	lw_vec_foreach (name, &run->marks.names)
		free(name->name);
	lw_vec_free(&run->marks.names);
}
