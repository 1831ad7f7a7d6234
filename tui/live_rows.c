/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/live_rows.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "schema/event.h"

enum { NONE = -1, BUSY_MS = 20, MAX_THREAD_ID = 1 << 20 };

#define HISTORY_NS                                                                                 \
	(60 * LW_NS_PER_S) /* before the newest row, when the job is older than this screen */

enum meta { RUN, PROCESSES, THREADS, WORLD, NCCL_OPS };

static const char *const meta_sql[] = {
	[RUN] = "SELECT closed, exit_code FROM run",
	[PROCESSES] =
		"SELECT p.id, pid, start_ns, end_ns, rank, size, framework, transport, ended, h.name"
		" FROM process p LEFT JOIN host h ON h.id = p.host_id",
	[THREADS] = "SELECT id, process_id, n_stored, n_lost FROM thread",
	/* the first communicator of all ranks; its rows are few */
	[WORLD] = "SELECT c.key FROM comm c JOIN process p ON p.id = c.process_id"
		  " WHERE c.size = p.size ORDER BY c.rowid LIMIT 1",
	[NCCL_OPS] = "SELECT max(rowid) FROM nccl_op",
};

static bool is_time(const struct lw_live_rows *rows, int64_t start_ns, int64_t end_ns)
{
	return start_ns > 0 && end_ns >= start_ns && end_ns <= rows->now_ns + LW_NS_PER_S;
}

/* Of a process; 0: not known, or none of this host's clock. */
static int64_t time_of(const struct lw_live_rows *rows, sqlite3_stmt *row, int i)
{
	int64_t at_ns = sqlite3_column_int64(row, i);

	return is_time(rows, at_ns, at_ns) ? at_ns : 0;
}

/* ---- one row of each table; column 0 is the thread or process --------------------------------------- */

static struct lw_live_rank *rank_of_thread(struct lw_live_rows *rows, sqlite3_stmt *row)
{
	int64_t id = sqlite3_column_int64(row, 0);
	int32_t rank =
		id >= 0 && (uint64_t)id < rows->thread_ranks.n ? rows->thread_ranks.at[id] : NONE;

	return rank == NONE ? NULL : &rows->model->ranks.at[rank];
}

static int see_ready(struct lw_live_rows *rows, sqlite3_stmt *row)
{
	struct lw_live_rank *rank = rank_of_thread(rows, row);
	int64_t at_ns = sqlite3_column_int64(row, 1);

	if (rank && is_time(rows, at_ns, at_ns))
		lw_live_see_ready(rows->model, rank, (uint64_t)sqlite3_column_int64(row, 2),
			sqlite3_column_int64(row, 3), at_ns);
	return LW_OK;
}

static int see_member(struct lw_live_rows *rows, sqlite3_stmt *row)
{
	struct lw_live_rank *rank = rank_of_thread(rows, row);
	const struct lw_live_member member = {
		.at_ns = sqlite3_column_int64(row, 1),
		.serial = sqlite3_column_int64(row, 2),
		.name_id = sqlite3_column_int64(row, 3),
		.object = (uint64_t)sqlite3_column_int64(row, 4),
		.bytes = (uint64_t)sqlite3_column_int64(row, 5),
	};

	return rank && is_time(rows, member.at_ns, member.at_ns)
		       ? lw_live_see_member(rows->model, rank, &member)
		       : LW_OK;
}

static int see_batch(struct lw_live_rows *rows, sqlite3_stmt *row)
{
	struct lw_live_rank *rank = rank_of_thread(rows, row);
	int64_t end_ns = sqlite3_column_int64(row, 1);

	if (rank && is_time(rows, end_ns, end_ns))
		lw_live_see_batch(rows->model, rank, sqlite3_column_int64(row, 2), end_ns,
			sqlite3_column_int64(row, 3));
	return LW_OK;
}

/* Only of programs without a framework: under one, operations are its batches. */
static int see_collective(struct lw_live_rows *rows, sqlite3_stmt *row)
{
	struct lw_live_rank *rank = rank_of_thread(rows, row);
	int64_t start_ns = sqlite3_column_int64(row, 1), end_ns = sqlite3_column_int64(row, 2);
	int64_t flags = sqlite3_column_int64(row, 4);

	if (rank && !rank->framework && !(flags & LW_COLL_CONTROL) &&
		is_time(rows, start_ns, end_ns))
		lw_live_see_collective(rows->model, rank, start_ns, end_ns,
			(flags & LW_COLL_NONBLOCKING) != 0,
			rows->world_key && sqlite3_column_int64(row, 3) == rows->world_key);
	return LW_OK;
}

static int see_wait(struct lw_live_rows *rows, sqlite3_stmt *row)
{
	struct lw_live_rank *rank = rank_of_thread(rows, row);
	int64_t start_ns = sqlite3_column_int64(row, 1), end_ns = sqlite3_column_int64(row, 2);

	if (rank && is_time(rows, start_ns, end_ns))
		lw_live_see_wait(rows->model, rank, start_ns, end_ns);
	return LW_OK;
}

static int see_resume(struct lw_live_rows *rows, sqlite3_stmt *row)
{
	struct lw_live_rank *rank = rank_of_thread(rows, row);
	int64_t at_ns = sqlite3_column_int64(row, 1);

	if (rank && is_time(rows, at_ns, at_ns))
		lw_live_see_resume(rows->model, rank, at_ns);
	return LW_OK;
}

static int see_mark(struct lw_live_rows *rows, sqlite3_stmt *row)
{
	struct lw_live_rank *rank = rank_of_thread(rows, row);
	int64_t at_ns = sqlite3_column_int64(row, 1);

	if (rank && is_time(rows, at_ns, at_ns))
		lw_live_see_mark(rows->model, rank, at_ns);
	return LW_OK;
}

static int see_traffic(struct lw_live_rows *rows, sqlite3_stmt *row)
{
	struct lw_live_rank *rank = lw_live_rank_of(rows->model, sqlite3_column_int64(row, 0));
	int64_t at_ns = sqlite3_column_int64(row, 1);

	return rank && is_time(rows, at_ns, at_ns)
		       ? lw_live_see_traffic(rows->model, rank, sqlite3_column_int64(row, 2), at_ns,
				 sqlite3_column_int64(row, 3), sqlite3_column_int64(row, 4))
		       : LW_OK;
}

/* In the order in which they are read: who resumed, what is ready, who carries it, that it ran, who waited for it. */
#define NEW_ROWS " WHERE rowid > ?1 AND rowid <= ?2"

static const struct {
	const char *name, *time, *sql;
	int (*see)(struct lw_live_rows *rows, sqlite3_stmt *row);
} tables[LW_LIVE_TABLES] = {
	{"wait", "end_ns", "SELECT thread_id, end_ns FROM wait" NEW_ROWS, see_resume},
	{"ready", "at_ns", "SELECT thread_id, at_ns, object, name_id FROM ready" NEW_ROWS,
		see_ready},
	{"batch_tensor", "at_ns",
		"SELECT thread_id, at_ns, batch, name_id, object, bytes FROM batch_tensor" NEW_ROWS,
		see_member},
	{"batch", "end_ns", "SELECT thread_id, end_ns, batch, process_set FROM batch" NEW_ROWS,
		see_batch},
	{"collective", "end_ns",
		"SELECT thread_id, start_ns, end_ns, comm_key, flags FROM collective" NEW_ROWS,
		see_collective},
	{"wait", "end_ns", "SELECT thread_id, start_ns, end_ns FROM wait" NEW_ROWS, see_wait},
	{"range", "end_ns", "SELECT thread_id, start_ns FROM range" NEW_ROWS " AND op = 1",
		see_mark},
	{"socket_sample", "at_ns",
		"SELECT process_id, at_ns, socket, sent_bytes, received_bytes FROM socket_sample" NEW_ROWS,
		see_traffic},
};
enum { COLLECTIVE = 4 };
_Static_assert(LW_MARK_STEP == 1, "the SQL of table range has it as a number");

const char *lw_live_rows_sql(int i)
{
	return i >= 0 && i < LW_LIVE_TABLES ? tables[i].sql : NULL;
}

/* ---- open, close ---------------------------------------------------------------------------------------- */

int lw_live_rows_open(struct lw_live_rows *rows, const char *path, struct lw_live_model *model)
{
	int status;

	*rows = (struct lw_live_rows){.model = model, .exit_code = -1};
	status = lw_store_open(path, LW_STORE_READ, &rows->store);
	if (status < 0)
		return status;
	sqlite3_busy_timeout(rows->store->db, BUSY_MS); /* who looks again soon need not wait */
	for (size_t i = 0; i < sizeof(meta_sql) / sizeof(meta_sql[0]) && status == LW_OK; i++)
		status = lw_store_prepare(rows->store, meta_sql[i], &rows->meta[i]);
	for (int i = 0; i < LW_LIVE_TABLES && status == LW_OK; i++) {
		char sql[80];

		snprintf(sql, sizeof(sql), "SELECT max(rowid) FROM %s", tables[i].name);
		status = lw_store_prepare(rows->store, sql, &rows->newest[i]);
		if (status == LW_OK)
			status = lw_store_prepare(rows->store, tables[i].sql, &rows->rows[i]);
	}
	return status;
}

void lw_live_rows_done(struct lw_live_rows *rows)
{
	for (size_t i = 0; i < sizeof(meta_sql) / sizeof(meta_sql[0]); i++)
		sqlite3_finalize(rows->meta[i]);
	for (int i = 0; i < LW_LIVE_TABLES; i++) {
		sqlite3_finalize(rows->newest[i]);
		sqlite3_finalize(rows->rows[i]);
	}
	lw_store_close(rows->store);
	rows->store = NULL;
	memset(rows->meta, 0, sizeof(rows->meta));
	memset(rows->newest, 0, sizeof(rows->newest));
	memset(rows->rows, 0, sizeof(rows->rows));
	lw_vec_free(&rows->thread_ranks);
}

/* ---- processes and threads: few rows, all of them each time ------------------------------------------------ */

static int32_t known(sqlite3_stmt *row, int i)
{
	return sqlite3_column_type(row, i) == SQLITE_NULL ? NONE : sqlite3_column_int(row, i);
}

static int read_processes(struct lw_live_rows *rows)
{
	sqlite3_stmt *row = rows->meta[PROCESSES];
	int status;

	while ((status = lw_store_step(rows->store, row)) == 1) {
		const char *ended = lw_store_column_text(row, 8);
		const struct lw_live_process process = {
			.process_id = sqlite3_column_int64(row, 0),
			.pid = sqlite3_column_int64(row, 1),
			.start_ns = time_of(rows, row, 2),
			.end_ns = time_of(rows, row, 3),
			.rank = known(row, 4),
			.size = known(row, 5),
			.framework = sqlite3_column_int(row, 6),
			.transport = sqlite3_column_int(row, 7),
			.host = (const char *)sqlite3_column_text(row, 9),
			.ended = !*ended                  ? LW_LIVE_RUNS
				 : !strcmp(ended, "died") ? LW_LIVE_DIED
							  : LW_LIVE_EXITED,
		};

		status = lw_live_see_process(rows->model, &process);
		if (status < 0)
			break;
	}
	sqlite3_reset(row);
	return status;
}

static int note_thread(struct lw_live_rows *rows, int64_t thread_id, int32_t rank)
{
	const int32_t none = NONE;

	if (thread_id < 0 || thread_id > MAX_THREAD_ID)
		return LW_OK;
	while (rows->thread_ranks.n <= (size_t)thread_id)
		if (lw_vec_push(&rows->thread_ranks, none) < 0)
			return LW_ERR_NOMEM;
	rows->thread_ranks.at[thread_id] = rank;
	return LW_OK;
}

static int read_threads(struct lw_live_rows *rows)
{
	struct lw_live_model *model = rows->model;
	sqlite3_stmt *row = rows->meta[THREADS];
	lw_vec(uint64_t) counts = {0}; /* stored, lost; by rank */
	int status = lw_vec_reserve(&counts, 2 * model->ranks.n + 2);

	if (status < 0)
		return status;
	memset(counts.at, 0, counts.capacity * sizeof(*counts.at));
	while (status >= 0 && (status = lw_store_step(rows->store, row)) == 1) {
		struct lw_live_rank *rank = lw_live_rank_of(model, sqlite3_column_int64(row, 1));
		size_t i = rank ? (size_t)(rank - model->ranks.at) : 0;

		if (!rank)
			continue;
		counts.at[2 * i] += (uint64_t)sqlite3_column_int64(row, 2);
		counts.at[2 * i + 1] += (uint64_t)sqlite3_column_int64(row, 3);
		status = note_thread(rows, sqlite3_column_int64(row, 0), (int32_t)i);
	}
	sqlite3_reset(row);
	for (size_t i = 0; i < model->ranks.n; i++)
		lw_live_see_counts(model, &model->ranks.at[i], model->newest_ns, counts.at[2 * i],
			counts.at[2 * i + 1]);
	lw_vec_free(&counts);
	return status;
}

/* First column of a statement's only row. @ret_value: stays when there is no row or it is NULL. */
static int read_value(struct lw_live_rows *rows, sqlite3_stmt *row, int64_t *ret_value)
{
	int status = lw_store_step(rows->store, row);

	if (status == 1 && sqlite3_column_type(row, 0) != SQLITE_NULL)
		*ret_value = sqlite3_column_int64(row, 0);
	sqlite3_reset(row);
	return status < 0 ? status : LW_OK;
}

static int read_run(struct lw_live_rows *rows)
{
	sqlite3_stmt *row = rows->meta[RUN];
	int status = lw_store_step(rows->store, row);

	if (status == 1) {
		rows->is_closed = sqlite3_column_int(row, 0) != 0;
		rows->exit_code = known(row, 1);
	}
	sqlite3_reset(row);
	return status < 0 ? status : LW_OK;
}

/* ---- tables that grow ---------------------------------------------------------------------------------------- */

/* Time of the first row from @rowid on; 0: none. */
static int read_time(struct lw_live_rows *rows, int table, int64_t rowid, int64_t *ret_ns)
{
	sqlite3_stmt *row;
	char sql[160];
	int status;

	*ret_ns = 0;
	snprintf(sql, sizeof(sql), "SELECT %s FROM %s WHERE rowid >= %lld ORDER BY rowid LIMIT 1",
		tables[table].time, tables[table].name, (long long)rowid);
	status = lw_store_prepare(rows->store, sql, &row);
	if (status < 0)
		return status;
	status = read_value(rows, row, ret_ns);
	sqlite3_finalize(row);
	return status;
}

/* Rows come nearly in the order of their times: halving finds where the last minute begins. */
static int skip_old(struct lw_live_rows *rows, int table, int64_t newest, int64_t from_ns)
{
	int64_t low = 0, high = newest, at_ns;
	int status = LW_OK;

	while (low < high && status == LW_OK) {
		int64_t middle = low + (high - low) / 2;

		status = read_time(rows, table, middle + 1, &at_ns);
		if (at_ns && at_ns < from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	rows->at[table] = low;
	rows->model->is_partial |= low > 0;
	return status;
}

static int begin(struct lw_live_rows *rows)
{
	int64_t newest[LW_LIVE_TABLES] = {0}, newest_ns = 0, at_ns;
	int status = LW_OK;

	for (int i = 0; i < LW_LIVE_TABLES && status == LW_OK; i++) {
		status = read_value(rows, rows->newest[i], &newest[i]);
		if (status == LW_OK && newest[i])
			status = read_time(rows, i, newest[i], &at_ns);
		if (newest[i] && at_ns > newest_ns && at_ns <= rows->now_ns)
			newest_ns = at_ns;
	}
	for (int i = 0; i < LW_LIVE_TABLES && status == LW_OK; i++)
		status = skip_old(rows, i, newest[i], newest_ns - HISTORY_NS);
	rows->has_begun = status == LW_OK;
	return status;
}

/* Return: 1 there were rows, 0, or an error. */
static int read_table(struct lw_live_rows *rows, int table)
{
	sqlite3_stmt *row = rows->rows[table];
	int64_t newest = 0, until;
	int status = read_value(rows, rows->newest[table], &newest);

	if (status < 0 || newest <= rows->at[table])
		return status;
	until = newest;
	if (until - rows->at[table] > LW_LIVE_LOOK_ROWS)
		until = rows->at[table] + LW_LIVE_LOOK_ROWS;
	if (table == COLLECTIVE && rows->model->has_batches)
		until = newest; /* nothing of it is used */
	sqlite3_bind_int64(row, 1, rows->at[table]);
	sqlite3_bind_int64(row, 2, until);
	while (!(table == COLLECTIVE && rows->model->has_batches) &&
		(status = lw_store_step(rows->store, row)) == 1) {
		status = tables[table].see(rows, row);
		if (status < 0)
			break;
	}
	sqlite3_reset(row);
	if (status < 0)
		return status;
	rows->n_read += (uint64_t)(until - rows->at[table]);
	rows->at[table] = until;
	rows->is_behind |= until < newest;
	return 1;
}

static int read_all(struct lw_live_rows *rows)
{
	int has_news = 0, status = read_run(rows);

	if (status == LW_OK)
		status = read_processes(rows);
	if (status == LW_OK)
		status = read_threads(rows);
	if (status == LW_OK && !rows->model->has_batches && !rows->world_key)
		status = read_value(rows, rows->meta[WORLD], &rows->world_key);
	if (status >= 0)
		status = read_value(rows, rows->meta[NCCL_OPS], &rows->model->n_nccl_ops);
	if (status == LW_OK && !rows->has_begun)
		status = begin(rows);
	rows->is_behind = false;
	for (int i = 0; i < LW_LIVE_TABLES && status >= 0; i++) {
		status = read_table(rows, i);
		has_news |= status == 1;
	}
	return status < 0 ? status : has_news;
}

int lw_live_rows_read(struct lw_live_rows *rows, int64_t now_ns)
{
	int status = lw_store_exec(rows->store, "BEGIN"), code;

	rows->now_ns = now_ns;
	if (status == LW_OK)
		status = read_all(rows);
	code = sqlite3_errcode(rows->store->db) & 0xff;
	sqlite3_exec(rows->store->db, "COMMIT", NULL, NULL, NULL);
	if (status < 0 && (code == SQLITE_BUSY || code == SQLITE_LOCKED)) {
		lw_error_clear();
		return 0; /* its journal is being changed: the next look */
	}
	return status;
}
