/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/advise/host_ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/err.h"

/* One pass over the table, whatever the rank: names and threads are few, and looked up beside it. */
static const char ranges_sql[] =
	"SELECT thread_id, start_ns, end_ns, name_id, rowid FROM range"
	" WHERE op IN (3, 4) AND end_ns > start_ns AND start_ns >= 0 AND end_ns < (1 << 58)";
static_assert(LW_MARK_RANGE == 3 && LW_MARK_NVTX_RANGE == 4, "the query of ranges");

static const char threads_sql[] =
	"SELECT id, process_id, tid FROM thread WHERE tid > 0 ORDER BY id"; /* 0: of a stream, which repeats a thread's */
static const char name_sql[] = "SELECT text FROM string WHERE id = ?1";

/* Of NCCL and Horovod they are the operations themselves, and all of a step is in the profiler's mark of it. */
static const char *const not_own[] = {"NCCL/", "HorovodOps/", "ProfilerStep#"};

struct lw_host_name {
	int64_t id;
	char *text; /* NULL: not one of the rank's own */
	UT_hash_handle hh;
};

struct thread {
	int64_t id;
	uint32_t tid;
	struct lw_host_ranges *ranges; /* of its rank */
};

struct reader { /* of one store */
	struct lw_store *store;
	lw_vec(struct thread) threads; /* by id */
	sqlite3_stmt *name;
};

static int add_threads(struct reader *reader, const struct lw_run *run, size_t store,
	const struct lw_rank *only, struct lw_host_ranges *ranges)
{
	const struct lw_rank *rank;
	sqlite3_stmt *row;
	int status = lw_store_prepare(reader->store, threads_sql, &row);

	if (status < 0)
		return status;
	while ((status = lw_store_step(reader->store, row)) == 1) {
		struct thread thread = {
			sqlite3_column_int64(row, 0), (uint32_t)sqlite3_column_int64(row, 2), NULL};

		lw_vec_foreach (rank, &run->ranks)
			if (rank->store == store && (!only || rank == only) &&
				rank->process_id == sqlite3_column_int64(row, 1))
				thread.ranges = only ? ranges : &ranges[rank - run->ranks.at];
		if (thread.ranges && lw_vec_push(&reader->threads, thread) < 0) {
			status = LW_ERR_NOMEM;
			break;
		}
	}
	sqlite3_finalize(row);
	return status;
}

static int compare_thread(const void *key, const void *at)
{
	int64_t id = *(const int64_t *)key, other = ((const struct thread *)at)->id;

	return (id > other) - (id < other);
}

/* Names are asked for once. */
static int find_name(struct reader *reader, struct lw_host_ranges *ranges, int64_t id,
	struct lw_host_name **ret_name)
{
	struct lw_host_name *name;
	const char *text = NULL;
	int status;

	HASH_FIND(hh, ranges->names, &id, sizeof(id), name);
	*ret_name = name;
	if (name)
		return LW_OK;
	name = calloc(1, sizeof(*name));
	if (!name)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	name->id = id;
	HASH_ADD(hh, ranges->names, id, sizeof(name->id), name);
	*ret_name = name;
	sqlite3_reset(reader->name);
	sqlite3_bind_int64(reader->name, 1, id);
	status = lw_store_step(reader->store, reader->name);
	if (status < 0)
		return status;
	if (status == 1)
		text = lw_store_column_text(reader->name, 0);
	for (size_t i = 0; text && i < sizeof(not_own) / sizeof(not_own[0]); i++)
		if (!strncmp(text, not_own[i], strlen(not_own[i])))
			text = NULL;
	name->text = text ? strdup(text) : NULL;
	return text && !name->text ? lw_fail(LW_ERR_NOMEM, "no memory") : LW_OK;
}

static int add_range(struct reader *reader, sqlite3_stmt *row)
{
	int64_t thread_id = sqlite3_column_int64(row, 0);
	const struct thread *thread =
		reader->threads.n ? bsearch(&thread_id, reader->threads.at, reader->threads.n,
					    sizeof(*reader->threads.at), compare_thread)
				  : NULL;
	struct lw_host_range range = {.start_ns = sqlite3_column_int64(row, 1),
		.end_ns = sqlite3_column_int64(row, 2),
		.row = sqlite3_column_int64(row, 4)};
	struct lw_host_name *name;
	int status;

	if (!thread)
		return LW_OK;
	status = find_name(reader, thread->ranges, sqlite3_column_int64(row, 3), &name);
	if (status < 0 || !name->text)
		return status;
	range.name = name->text;
	range.tid = thread->tid;
	return lw_vec_push(&thread->ranges->at, range);
}

static int read_store(const struct lw_run *run, size_t store, const struct lw_rank *only,
	struct lw_host_ranges *ranges)
{
	struct reader reader = {.store = run->stores.at[store]};
	int status = add_threads(&reader, run, store, only, ranges);
	sqlite3_stmt *row = NULL;

	if (status == LW_OK && reader.threads.n)
		status = lw_store_prepare(reader.store, name_sql, &reader.name);
	if (status == LW_OK && reader.threads.n)
		status = lw_store_prepare(reader.store, ranges_sql, &row);
	while (row && (status = lw_store_step(reader.store, row)) == 1) {
		status = add_range(&reader, row);
		if (status < 0)
			break;
	}
	sqlite3_finalize(row);
	sqlite3_finalize(reader.name);
	lw_vec_free(&reader.threads);
	return status;
}

/* By start; what holds another before it. */
static int compare_range(const void *a, const void *b)
{
	const struct lw_host_range *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

static void sort(struct lw_host_ranges *ranges)
{
	size_t i = 1;

	while (i < ranges->at.n && compare_range(&ranges->at.at[i - 1], &ranges->at.at[i]) <= 0)
		i++;
	if (i < ranges->at.n)
		qsort(ranges->at.at, ranges->at.n, sizeof(*ranges->at.at), compare_range);
}

int lw_host_ranges_load(
	const struct lw_run *run, const struct lw_rank *rank, struct lw_host_ranges *ret_ranges)
{
	int status;

	*ret_ranges = (struct lw_host_ranges){0};
	status = read_store(run, rank->store, rank, ret_ranges);
	sort(ret_ranges);
	return status;
}

int lw_host_ranges_load_all(const struct lw_run *run, struct lw_host_ranges *ret_ranges)
{
	int status = LW_OK;

	memset(ret_ranges, 0, run->ranks.n * sizeof(*ret_ranges));
	for (size_t store = 0; store < run->stores.n && status == LW_OK; store++)
		status = read_store(run, store, NULL, ret_ranges);
	for (size_t r = 0; r < run->ranks.n; r++)
		sort(&ret_ranges[r]);
	return status;
}

void lw_host_ranges_free(struct lw_host_ranges *ranges)
{
	struct lw_host_name *name, *next;

	HASH_ITER(hh, ranges->names, name, next)
	{
		HASH_DEL(ranges->names, name);
		free(name->text);
		free(name);
	}
	lw_vec_free(&ranges->at);
	lw_vec_free(&ranges->open);
}

/* Keep those that reach into [start, end). */
static int move_on(struct lw_host_ranges *ranges, int64_t start_ns, int64_t end_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < ranges->open.n; i++)
		if (ranges->open.at[i]->end_ns > start_ns)
			ranges->open.at[n++] = ranges->open.at[i];
	ranges->open.n = n;
	for (; ranges->next < ranges->at.n && ranges->at.at[ranges->next].start_ns < end_ns;
		ranges->next++)
		if (ranges->at.at[ranges->next].end_ns > start_ns &&
			lw_vec_push(&ranges->open, &ranges->at.at[ranges->next]) < 0)
			return LW_ERR_NOMEM;
	return LW_OK;
}

static int64_t length_of(const struct lw_host_range *range)
{
	return range->end_ns - range->start_ns;
}

static bool covers_most(const struct lw_host_range *range, int64_t start_ns, int64_t end_ns)
{
	int64_t from_ns = range->start_ns > start_ns ? range->start_ns : start_ns;
	int64_t to_ns = range->end_ns < end_ns ? range->end_ns : end_ns;

	return to_ns - from_ns >= (end_ns - start_ns + 1) / 2;
}

int lw_host_ranges_find(struct lw_host_ranges *ranges, int64_t start_ns, int64_t end_ns,
	uint32_t tid, struct lw_host_where *ret_where)
{
	const struct lw_host_range *in = NULL, *within = NULL, *outermost = NULL;

	*ret_where = (struct lw_host_where){0};
	if (move_on(ranges, start_ns, end_ns) < 0)
		return LW_ERR_NOMEM;
	for (size_t i = 0; i < ranges->open.n; i++) {
		const struct lw_host_range *range = ranges->open.at[i];

		/* of equal ones the later is inside */
		if (range->tid == tid && covers_most(range, start_ns, end_ns) &&
			(!in || length_of(range) <= length_of(in)))
			in = range;
	}
	for (size_t i = 0; in && i < ranges->open.n; i++) {
		const struct lw_host_range *range = ranges->open.at[i];

		if (range == in || range->tid != tid || range->start_ns > in->start_ns ||
			range->end_ns < in->end_ns)
			continue;
		if (!within || length_of(range) <= length_of(within))
			within = range;
		if (!outermost || length_of(range) > length_of(outermost))
			outermost = range;
	}
	if (in)
		*ret_where = (struct lw_host_where){in->name, within ? within->name : NULL,
			outermost && outermost != within ? outermost->name : NULL};
	return LW_OK;
}

const char *lw_host_where_text(const struct lw_host_where *where, char text[LW_HOST_WHERE_BYTES])
{
	int n;

	text[0] = '\0';
	if (!where->in)
		return text;
	n = snprintf(text, LW_HOST_WHERE_BYTES, "%.64s", where->in);
	if (where->within)
		n += snprintf(
			text + n, LW_HOST_WHERE_BYTES - (size_t)n, " (in %.50s", where->within);
	if (where->outermost)
		n += snprintf(
			text + n, LW_HOST_WHERE_BYTES - (size_t)n, ", %.50s", where->outermost);
	if (where->within)
		snprintf(text + n, LW_HOST_WHERE_BYTES - (size_t)n, ")");
	return text;
}
