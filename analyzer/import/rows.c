/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/import/rows.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static const struct {
	const char *name;
	size_t n_columns;
	const char *columns;
} tables[] = {
#define X(name, table, n_columns, columns) {table, n_columns, columns},
	LW_ROW_TABLES(X)
#undef X
};

int lw_rows_open(struct lw_import_rows *rows, struct lw_store *store)
{
	memset(rows, 0, sizeof(*rows));
	rows->store = store;
	for (int i = 0; i < LW_ROW_N_TABLES; i++) {
		char sql[320];
		int n = snprintf(sql, sizeof(sql), "INSERT INTO %s(%s) VALUES(?", tables[i].name,
			tables[i].columns);
		int status;

		for (size_t column = 1; column < tables[i].n_columns; column++)
			n += snprintf(sql + n, sizeof(sql) - (size_t)n, ",?");
		snprintf(sql + n, sizeof(sql) - (size_t)n, ")");
		status = lw_store_prepare(store, sql, &rows->insert[i]);
		if (status < 0) {
			lw_rows_close(rows);
			return status;
		}
	}
	return LW_OK;
}

void lw_rows_close(struct lw_import_rows *rows)
{
	for (int i = 0; i < LW_ROW_N_TABLES; i++) {
		sqlite3_finalize(rows->insert[i]);
		rows->insert[i] = NULL;
	}
}

int lw_rows_insert(
	struct lw_import_rows *rows, enum lw_row_table table, const int64_t *values, size_t n)
{
	sqlite3_stmt *insert = rows->insert[table];

	assert(n == tables[table].n_columns);
	for (size_t i = 0; i < n; i++) {
		if (values[i] == LW_ROW_NULL)
			sqlite3_bind_null(insert, (int)i + 1);
		else
			sqlite3_bind_int64(insert, (int)i + 1, values[i]);
	}
	return lw_store_step(rows->store, insert);
}

/* Runs @sql, made by sqlite3_mprintf(), and frees it. */
static int run(struct lw_import_rows *rows, char *sql)
{
	int status = sql ? lw_store_exec(rows->store, sql) : lw_fail(LW_ERR_NOMEM, "no memory");

	sqlite3_free(sql);
	return status;
}

int lw_rows_host(struct lw_import_rows *rows, int64_t host_id, const char *name, const char *clock)
{
	return run(
		rows, sqlite3_mprintf(
			      "INSERT INTO host(id, name, boot_id, clock) VALUES(%lld, %Q, '', %Q)",
			      (long long)host_id, name, clock));
}

static const char *or_null(int64_t value, char text[24])
{
	if (value == LW_ROW_NULL)
		return "NULL";
	snprintf(text, 24, "%lld", (long long)value);
	return text;
}

int lw_rows_process(struct lw_import_rows *rows, const struct lw_row_process *process)
{
	char rank[24], size[24];
	int status = run(rows,
		sqlite3_mprintf(
			"INSERT INTO process(id, host_id, pid, ppid, rank, size, framework, transport,"
			" start_ns, end_ns) VALUES(%lld, %lld, %lld, 0, %s, %s, %d, %d, %lld, %lld)",
			(long long)process->id, (long long)process->host_id,
			(long long)process->pid, or_null(process->rank, rank),
			or_null(process->size, size), process->framework, process->transport,
			(long long)process->start_ns, (long long)process->end_ns));

	if (status < 0)
		return status;
	return run(rows,
		sqlite3_mprintf(
			"INSERT INTO thread(id, process_id, tid, serial, role, n_pushed, n_stored, n_lost)"
			" VALUES(%lld, %lld, %lld, 0, %d, %lld, %lld, %lld)",
			(long long)process->id, (long long)process->id, (long long)process->tid,
			process->role, (long long)(process->n_stored + process->n_lost),
			(long long)process->n_stored, (long long)process->n_lost));
}

int lw_rows_thread(struct lw_import_rows *rows, const struct lw_row_thread *thread)
{
	char name[24];

	return run(rows,
		sqlite3_mprintf("INSERT INTO thread(id, process_id, tid, serial, role, name_id,"
				" n_pushed, n_stored, n_lost)"
				" VALUES(%lld, %lld, %lld, 0, %d, %s, %lld, %lld, 0)",
			(long long)thread->id, (long long)thread->process_id,
			(long long)thread->tid, thread->role, or_null(thread->name_id, name),
			(long long)thread->n_stored, (long long)thread->n_stored));
}

int lw_rows_loss(
	struct lw_import_rows *rows, int64_t process_id, int reason, uint64_t n, const char *detail)
{
	if (n == 0)
		return LW_OK;
	return run(
		rows, sqlite3_mprintf("INSERT INTO loss(process_id, thread_id, reason, n, detail)"
				      " VALUES(%lld, %lld, %d, %lld, %Q)",
			      (long long)process_id, (long long)process_id, reason, (long long)n,
			      detail));
}
