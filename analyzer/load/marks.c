/* SPDX-License-Identifier: Apache-2.0 */
/*
 * marks.c - marks and ranges of the program, its libraries and profilers: table range, summed up by name.
 *
 * Of the processes that are no rank, too: of a program that nobody gave a rank they may be all that is known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "analyzer/load/load.h"
#include "base/str.h"
#include "base/units.h"

/* What streams of a profiler's trace repeat of the threads' ranges is not counted twice. */
static const char threads_sql[] =
	"SELECT t.id, p.id FROM thread t JOIN process p ON p.id = t.process_id"
	" WHERE NOT (t.tid = 0 AND 'kineto' = (SELECT source FROM run)) ORDER BY t.id";

/* Summed up here: there may be millions, and SQLite would sort them all. */
static const char ranges_sql[] =
	"SELECT thread_id, op, name_id, start_ns, end_ns FROM range"
	" WHERE op > 1 AND start_ns >= 0 AND end_ns >= start_ns AND end_ns < (1 << 58)";
static const char name_sql[] = "SELECT text FROM string WHERE id = ?1";
static const char no_names_sql[] =
	"SELECT NOT EXISTS (SELECT 1 FROM string WHERE id = ?1 AND text <> '')";

/* From mark to mark of a process. */
static const char steps_sql[] =
	"SELECT count(*), count(ns), avg(ns), min(ns), max(ns) FROM"
	" (SELECT r.start_ns - lag(r.start_ns) OVER (PARTITION BY t.process_id ORDER BY r.start_ns, r.seq) AS ns"
	" FROM range r JOIN thread t ON t.id = r.thread_id WHERE r.op = 1 AND r.start_ns BETWEEN 0 AND (1 << 58))";

enum {
	MAX_NAMES = 1000,
	MOST_SUMS = 100000 /* of a store: names in processes */
};
#define NO_NAME INT64_MIN

struct key { /* no padding: hashed as bytes */
	int64_t name_id, process_id, op;
};

struct sum {
	struct key key;
	uint64_t n;
	double total_ns;
	int64_t longest_ns;
	UT_hash_handle hh;
};

struct thread {
	int64_t id, process_id;
};

struct sums {
	lw_vec(struct thread) threads; /* by id */
	struct sum *first;
};

static int compare_thread(const void *key, const void *at)
{
	int64_t id = *(const int64_t *)key, other = ((const struct thread *)at)->id;

	return (id > other) - (id < other);
}

static int add_thread(struct sums *sums, sqlite3_stmt *row)
{
	struct thread thread = {sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1)};

	return lw_vec_push(&sums->threads, thread);
}

static int add_range(struct sums *sums, sqlite3_stmt *row)
{
	int64_t thread_id = sqlite3_column_int64(row, 0);
	int64_t length_ns = sqlite3_column_int64(row, 4) - sqlite3_column_int64(row, 3);
	const struct thread *thread =
		sums->threads.n ? bsearch(&thread_id, sums->threads.at, sums->threads.n,
					  sizeof(*sums->threads.at), compare_thread)
				: NULL;
	struct key key = {.op = sqlite3_column_int64(row, 1),
		.name_id = sqlite3_column_type(row, 2) == SQLITE_NULL
				   ? NO_NAME
				   : sqlite3_column_int64(row, 2)};
	struct sum *sum;

	if (!thread)
		return LW_OK;
	key.process_id = thread->process_id;
	HASH_FIND(hh, sums->first, &key, sizeof(key), sum);
	if (!sum) {
		sum = calloc(1, sizeof(*sum));
		if (!sum)
			return lw_fail(LW_ERR_NOMEM, "no memory");
		*sum = (struct sum){.key = key, .longest_ns = -1};
		HASH_ADD(hh, sums->first, key, sizeof(sum->key), sum);
	}
	sum->n++;
	sum->total_ns += (double)length_ns;
	if (length_ns > sum->longest_ns)
		sum->longest_ns = length_ns;
	return LW_OK;
}

static int each(struct lw_loader *loader, struct sums *sums, const char *sql,
	int (*add)(struct sums *sums, sqlite3_stmt *row))
{
	sqlite3_stmt *row;
	int status = lw_store_prepare(loader->store, sql, &row);

	if (status < 0)
		return status;
	while ((status = lw_store_step(loader->store, row)) == 1) {
		status = add(sums, row);
		if (status < 0)
			break;
	}
	sqlite3_finalize(row);
	return status;
}

/* One name next to the other, in the order of processes. */
static int by_name(const struct sum *a, const struct sum *b)
{
	const struct key *x = &a->key, *y = &b->key;

	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	if (x->name_id != y->name_id)
		return x->name_id < y->name_id ? -1 : 1;
	return (x->process_id > y->process_id) - (x->process_id < y->process_id);
}

static int by_length(const struct sum *a, const struct sum *b)
{
	if (a->total_ns > b->total_ns || a->total_ns < b->total_ns)
		return a->total_ns > b->total_ns ? -1 : 1;
	if (a->n != b->n)
		return a->n > b->n ? -1 : 1;
	return by_name(a, b);
}

/* An empty text, or one that never arrived, is no name either. */
static int find_unnamed(struct lw_loader *loader, struct sums *sums)
{
	sqlite3_stmt *row;
	int status = lw_store_prepare(loader->store, no_names_sql, &row);

	for (struct sum *sum = sums->first; sum && status >= 0; sum = sum->hh.next) {
		sqlite3_reset(row);
		sqlite3_bind_int64(row, 1, sum->key.name_id);
		status = lw_store_step(loader->store, row);
		if (status == 1 && sqlite3_column_int(row, 0))
			sum->key.name_id = NO_NAME;
	}
	sqlite3_finalize(row);
	return status < 0 ? status : LW_OK;
}

/* Of one name in one process; see unite_names(). */
static int add_name(struct lw_loader *loader, const struct sum *sum, const char *text)
{
	const struct lw_rank *rank = lw_load_rank_of_process(loader, sum->key.process_id);
	struct lw_marks *marks = &loader->run->marks;
	struct lw_mark_name one = {.name = strdup(text),
		.op = (int)sum->key.op,
		.n = sum->n,
		.total_ns = sum->total_ns,
		.longest_ns = sum->longest_ns,
		.longest_rank = rank ? rank->rank : LW_NONE};
	struct lw_mark_process by = {
		one.longest_rank, loader->store_index, sum->key.process_id, one.n, one.total_ns};

	if (!one.name || lw_vec_push(&marks->names, one) < 0) {
		free(one.name);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	return lw_vec_push(&marks->names.at[marks->names.n - 1].by_process, by);
}

static int add_names(struct lw_loader *loader, const struct sums *sums)
{
	const struct sum *sum = sums->first;
	sqlite3_stmt *name;
	int status = lw_store_prepare(loader->store, name_sql, &name);

	for (int i = 0; sum && i < MOST_SUMS && status >= 0; i++, sum = sum->hh.next) {
		sqlite3_reset(name);
		sqlite3_bind_int64(name, 1, sum->key.name_id);
		status = lw_store_step(loader->store, name);
		if (status >= 0)
			status = add_name(
				loader, sum, status == 1 ? lw_store_column_text(name, 0) : "");
	}
	sqlite3_finalize(name);
	return status;
}

static int add_ranges(struct lw_loader *loader)
{
	struct sums sums = {0};
	struct sum *sum, *next;
	int status = each(loader, &sums, threads_sql, add_thread);

	if (status == LW_OK)
		status = each(loader, &sums, ranges_sql, add_range);
	if (status == LW_OK)
		status = find_unnamed(loader, &sums);
	if (status == LW_OK) {
		HASH_SORT(sums.first, by_length);
		status = add_names(loader, &sums);
	}
	HASH_ITER(hh, sums.first, sum, next)
	{
		HASH_DEL(sums.first, sum);
		free(sum);
	}
	lw_vec_free(&sums.threads);
	return status;
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

/* ---- of all stores ------------------------------------------------------------------------------------ */

struct named {
	char *masked;
	struct lw_mark_name *of; /* of one process */
};

static int by_masked(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	const struct lw_mark_process *p = x->of->by_process.at, *q = y->of->by_process.at;
	int order = x->of->op != y->of->op ? x->of->op - y->of->op : strcmp(x->masked, y->masked);

	if (order)
		return order;
	if (p->store != q->store)
		return p->store < q->store ? -1 : 1;
	if (p->process_id != q->process_id)
		return p->process_id < q->process_id ? -1 : 1;
	return strcmp(x->of->name, y->of->name);
}

static void free_name(struct lw_mark_name *name)
{
	free(name->name);
	lw_vec_free(&name->by_process);
}

/* @from, of one process, to @to. */
static int unite(struct lw_mark_name *to, struct lw_mark_name *from)
{
	struct lw_mark_process *last = &to->by_process.at[to->by_process.n - 1];
	const struct lw_mark_process *by = from->by_process.at;

	to->n += from->n;
	to->total_ns += from->total_ns;
	if (from->longest_ns > to->longest_ns) {
		to->longest_ns = from->longest_ns;
		to->longest_rank = from->longest_rank;
	}
	if (last->store != by->store || last->process_id != by->process_id)
		return lw_vec_push(&to->by_process, *by);
	last->n += by->n;
	last->total_ns += by->total_ns;
	return LW_OK;
}

/* Those that are equal but for digits: one each, to @united, with '#' for numbers that differ. */
static int unite_sorted(struct named *named, size_t n, struct lw_mark_name *united, size_t *ret_n)
{
	size_t first = 0;
	int status = LW_OK;

	*ret_n = 0;
	for (size_t i = 0; i < n && status == LW_OK; i++) {
		struct lw_mark_name *to = *ret_n ? &united[*ret_n - 1] : NULL;

		if (!to || to->op != named[i].of->op ||
			strcmp(named[first].masked, named[i].masked) != 0) {
			united[(*ret_n)++] = *named[i].of;
			*named[i].of = (struct lw_mark_name){0};
			first = i;
			continue;
		}
		if (strcmp(to->name, named[i].of->name) != 0)
			lw_str_mask_digits(to->name);
		status = unite(to, named[i].of);
	}
	return status;
}

static int unite_names(struct lw_marks *marks)
{
	size_t n = marks->names.n, n_united = 0;
	struct named *named = calloc(n + 1, sizeof(*named));
	struct lw_mark_name *united = calloc(n + 1, sizeof(*united));
	int status = named && united ? LW_OK : LW_ERR_NOMEM;

	for (size_t i = 0; i < n && status == LW_OK; i++) {
		named[i] = (struct named){strdup(marks->names.at[i].name), &marks->names.at[i]};
		status = named[i].masked ? LW_OK : LW_ERR_NOMEM;
		if (status == LW_OK)
			lw_str_mask_digits(named[i].masked);
	}
	if (status == LW_OK) {
		qsort(named, n, sizeof(*named), by_masked);
		status = unite_sorted(named, n, united, &n_united);
		for (size_t i = 0; i < n; i++)
			free_name(&marks->names.at[i]);
		if (n_united)
			qsort(united, n_united, sizeof(*united), by_total);
		marks->names.n = 0;
		for (size_t i = 0; i < n_united; i++) {
			united[i].n_processes = (uint32_t)united[i].by_process.n;
			if (i < MAX_NAMES)
				marks->names.at[marks->names.n++] = united[i];
			else
				free_name(&united[i]);
		}
	}
	for (size_t i = 0; named && i < n; i++)
		free(named[i].masked);
	free(named);
	free(united);
	return status < 0 ? lw_fail(LW_ERR_NOMEM, "no memory for %zu names", n) : LW_OK;
}

int lw_load_marks(struct lw_loader *loader)
{
	int status = lw_load_each(loader, "SELECT count(*) FROM process", add_processes);

	if (status == LW_OK && !loader->run->is_import) /* of a timeline they are its activities */
		status = add_ranges(loader);
	if (status == LW_OK)
		status = lw_load_each(loader, steps_sql, add_steps);
	return status;
}
static_assert(LW_MARK_STEP == 1, "the queries of marks");

static void write_words(struct lw_run *run)
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

int lw_load_marks_done(struct lw_run *run)
{
	int status = unite_names(&run->marks);

	write_words(run);
	return status;
}

void lw_load_marks_free(struct lw_run *run)
{
	struct lw_mark_name *name;

	lw_vec_foreach (name, &run->marks.names)
		free_name(name);
	lw_vec_free(&run->marks.names);
}
