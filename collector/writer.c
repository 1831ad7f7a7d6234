/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "collector/strings.h"
#include "collector/writer_rows.h"

static const char *const statement_sql[N_STATEMENTS] = {
	[FIND_PROCESS] = "SELECT id, ended IS NOT NULL, coalesce(end_ns, 0) FROM process"
			 " WHERE pid = ?1 AND start_key = ?2",
	[ADD_PROCESS] = "INSERT INTO process(host_id, pid, start_key, ppid, framework, transport,"
			" start_ns) VALUES(1, ?1, ?2, 0, 0, 0, ?3)",
	/* What a later record does not know stays as an earlier one had it. */
	[UPDATE_PROCESS] =
		"UPDATE process SET rank = coalesce(?2, rank), size = coalesce(?3, size),"
		" local_rank = coalesce(?4, local_rank), local_size = coalesce(?5, local_size),"
		" framework = iif(?6, ?6, framework), transport = iif(?7, ?7, transport),"
		" command_id = coalesce(?8, command_id), ppid = ?9 WHERE id = ?1",
	[SEEN_PROCESS] = "UPDATE process SET end_ns = ?2 WHERE id = ?1",
	[END_PROCESS] = "UPDATE process SET ended = ?2 WHERE id = ?1",
	[FIND_THREAD] = "SELECT id, position, n_pushed, n_stored, n_lost FROM thread"
			" WHERE process_id = ?1 AND tid = ?2 AND serial = ?3 AND start_ns = ?4",
	[ADD_THREAD] = "INSERT INTO thread(process_id, tid, serial, start_ns, role, n_pushed,"
		       " n_stored, n_lost) VALUES(?1, ?2, ?3, ?4, 0, 0, 0, 0)",
	[UPDATE_THREAD] = "UPDATE thread SET role = ?2, name_id = coalesce(?3, name_id)"
			  " WHERE id = ?1",
	[COUNT_THREAD] = "UPDATE thread SET position = ?2, n_stored = ?3, n_lost = ?4,"
			 " n_pushed = ?3 + ?4 WHERE id = ?1",
	[ADD_TO_LOSS] = "UPDATE loss SET n = n + ?4 WHERE process_id IS ?1 AND thread_id IS ?2"
			" AND reason = ?3 AND detail = ?5",
	[ADD_LOSS] = "INSERT INTO loss(process_id, thread_id, reason, n, detail)"
		     " VALUES(?1, ?2, ?3, ?4, ?5)",
};

static int64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * LW_NS_PER_S + now.tv_nsec;
}

static void read_line(const char *path, char *text, int text_bytes)
{
	FILE *file = fopen(path, "re");

	if (!file || !fgets(text, text_bytes, file))
		text[0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (file)
		fclose(file);
}

int lw_writer_run(struct lw_writer *writer, sqlite3_stmt *statement)
{
	int status = lw_store_step(writer->store, statement);

	return status < 0 ? status : LW_OK;
}

static int open_writer(struct lw_store *store, struct lw_writer **ret_writer)
{
	struct lw_writer *writer = calloc(1, sizeof(*writer));
	int status;

	if (!writer) {
		lw_store_close(store);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	writer->store = store;
	writer->source.host_id = LW_WRITER_HOST_ID;
	writer->source.strings = lw_string_map_new();
	status = writer->source.strings ? LW_OK : LW_ERR_NOMEM;
	if (status == LW_OK)
		status = lw_records_attach(store->db, &writer->source, writer->insert);
	for (int i = 0; i < N_STATEMENTS && status == LW_OK; i++)
		status = lw_store_prepare(store, statement_sql[i], &writer->own[i]);
	if (status < 0) {
		lw_writer_close(writer);
		return status;
	}
	*ret_writer = writer;
	return LW_OK;
}

/* The two rows every run has: what was recorded, and where. */
static int add_run(struct lw_writer *writer, const char *created_by, const char *command)
{
	char host[256] = "localhost", boot[64];
	sqlite3_stmt *add;
	int status = lw_store_prepare(writer->store,
		"INSERT INTO run(id, created_by, source, command, created_realtime_ns, closed)"
		" VALUES(1, ?1, 'trace', ?2, ?3, 0)",
		&add);

	if (status < 0)
		return status;
	sqlite3_bind_text(add, 1, created_by, -1, SQLITE_STATIC);
	sqlite3_bind_text(add, 2, command, -1, SQLITE_STATIC);
	sqlite3_bind_int64(add, 3, realtime_ns());
	status = lw_writer_run(writer, add);
	sqlite3_finalize(add);
	if (status == LW_OK)
		status = lw_store_prepare(writer->store,
			"INSERT INTO host(id, name, boot_id, clock) VALUES(1, ?1, ?2, 'monotonic')",
			&add);
	if (status < 0)
		return status;
	gethostname(host, sizeof(host) - 1);
	read_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	sqlite3_bind_text(add, 1, host, -1, SQLITE_STATIC);
	sqlite3_bind_text(add, 2, boot, -1, SQLITE_STATIC);
	status = lw_writer_run(writer, add);
	sqlite3_finalize(add);
	return status;
}

int lw_writer_create(const char *path, const char *created_by, const char *command,
	struct lw_writer **ret_writer)
{
	struct lw_store *store;
	struct lw_writer *writer;
	int status = lw_store_open(path, LW_STORE_CREATE, &store);

	if (status == LW_OK)
		status = open_writer(store, &writer);
	if (status < 0)
		return status;
	status = lw_writer_begin(writer);
	if (status == LW_OK)
		status = add_run(writer, created_by, command);
	if (status == LW_OK)
		status = lw_writer_commit(writer);
	if (status < 0) {
		lw_writer_close(writer);
		return status;
	}
	*ret_writer = writer;
	return LW_OK;
}

/* The ids of the texts that are in the file already. */
static int load_strings(struct lw_writer *writer)
{
	sqlite3_stmt *row;
	int status = lw_store_prepare(writer->store, "SELECT id, text FROM string", &row);

	if (status < 0)
		return status;
	while ((status = lw_store_step(writer->store, row)) == 1) {
		const char *text = lw_store_column_text(row, 1);

		status = lw_string_map_add(writer->source.strings, lw_string_id(text, strlen(text)),
			sqlite3_column_int64(row, 0));
		if (status < 0)
			break;
	}
	sqlite3_finalize(row);
	return status;
}

int lw_writer_resume(const char *path, struct lw_writer **ret_writer)
{
	struct lw_store *store;
	struct lw_writer *writer;
	int status = lw_store_open(path, LW_STORE_WRITE, &store);

	if (status < 0)
		return status;
	if (store->is_read_only) {
		lw_store_close(store);
		return lw_fail(LW_ERR_IO, "%s: cannot be written", path);
	}
	status = open_writer(store, &writer);
	if (status < 0)
		return status;
	status = load_strings(writer);
	if (status == LW_OK)
		status = lw_store_exec(store,
			"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
			"UPDATE run SET closed = 0;");
	if (status < 0) {
		lw_writer_close(writer);
		return status;
	}
	*ret_writer = writer;
	return LW_OK;
}

int lw_writer_resume_copy(const char *old_path, const char *path, struct lw_writer **ret_writer)
{
	struct lw_store *old = NULL, *new = NULL;
	int status = lw_store_open(old_path, LW_STORE_READ, &old);

	if (status == LW_OK)
		status = lw_store_open(path, LW_STORE_CREATE, &new);
	if (status == LW_OK)
		status = lw_store_copy(new, old);
	lw_store_close(old);
	lw_store_close(new);
	return status == LW_OK ? lw_writer_resume(path, ret_writer) : status;
}

void lw_writer_close(struct lw_writer *writer)
{
	if (!writer)
		return;
	for (int i = 0; i < N_STATEMENTS; i++)
		sqlite3_finalize(writer->own[i]);
	for (int kind = 0; kind < LW_EV_COUNT; kind++)
		sqlite3_finalize(writer->insert[kind]);
	lw_store_close(writer->store); /* before its source: the virtual tables read from that */
	lw_string_map_free(writer->source.strings);
	free(writer);
}

struct lw_store *lw_writer_store(struct lw_writer *writer)
{
	return writer->store;
}

int lw_writer_begin(struct lw_writer *writer)
{
	int code;

	if (writer->in_transaction)
		return LW_OK;
	code = sqlite3_exec(writer->store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	if ((code & 0xff) == SQLITE_BUSY)
		return lw_fail(
			LW_ERR_STATE, "%s: another program is writing to it", writer->store->path);
	if (code != SQLITE_OK)
		return lw_store_fail(writer->store, writer->store->path);
	writer->in_transaction = true;
	return LW_OK;
}

int lw_writer_commit(struct lw_writer *writer)
{
	int status = lw_store_exec(writer->store, "COMMIT");

	if (status == LW_OK)
		writer->in_transaction = false;
	return status;
}

static int register_process(struct lw_writer *writer, struct lw_process *process, int64_t start_ns)
{
	sqlite3_stmt *find = writer->own[FIND_PROCESS], *add = writer->own[ADD_PROCESS];
	int status;

	sqlite3_bind_int64(find, 1, process->pid);
	sqlite3_bind_int64(find, 2, process->start_ticks);
	status = lw_store_step(writer->store, find);
	if (status == 1) {
		process->process_id = sqlite3_column_int64(find, 0);
		process->is_ended = sqlite3_column_int(find, 1);
		process->last_ns = sqlite3_column_int64(find, 2);
		sqlite3_reset(find);
		return LW_OK;
	}
	if (status < 0)
		return status;
	sqlite3_bind_int64(add, 1, process->pid);
	sqlite3_bind_int64(add, 2, process->start_ticks);
	sqlite3_bind_int64(add, 3, start_ns);
	status = lw_writer_run(writer, add);
	process->process_id = sqlite3_last_insert_rowid(writer->store->db);
	return status;
}

/* A ring whose thread row exists: an earlier collector was killed; go on where its last commit was. */
static int resume_ring(struct lw_writer *writer, struct lw_ring *ring, sqlite3_stmt *row)
{
	uint64_t position = (uint64_t)sqlite3_column_int64(row, 1);
	uint64_t n_pushed = (uint64_t)sqlite3_column_int64(row, 2);

	ring->thread_id = sqlite3_column_int64(row, 0);
	ring->n_stored = (uint64_t)sqlite3_column_int64(row, 3);
	ring->n_lost = (uint64_t)sqlite3_column_int64(row, 4);
	sqlite3_reset(row);
	ring->n_ring_full = n_pushed - position;
	if (position < ring->position) {
		uint64_t n = ring->position - position;

		ring->n_lost += n;
		return lw_writer_loss(writer, ring->process->process_id, ring->thread_id,
			LW_LOSS_TAKEN, n, ring->name);
	}
	ring->position = position;
	return LW_OK;
}

int lw_writer_register(struct lw_writer *writer, struct lw_ring *ring)
{
	sqlite3_stmt *find = writer->own[FIND_THREAD], *add = writer->own[ADD_THREAD];
	int status = LW_OK;

	if (!ring->process->process_id)
		status = register_process(writer, ring->process, ring->created_ns);
	if (status < 0)
		return status;
	for (int i = 0; i < 2; i++) {
		sqlite3_stmt *statement = i ? add : find;

		sqlite3_bind_int64(statement, 1, ring->process->process_id);
		sqlite3_bind_int64(statement, 2, ring->tid);
		sqlite3_bind_int64(statement, 3, ring->serial);
		sqlite3_bind_int64(statement, 4, ring->created_ns);
	}
	status = lw_store_step(writer->store, find);
	if (status == 1)
		return resume_ring(writer, ring, find);
	if (status == LW_OK)
		status = lw_writer_run(writer, add);
	if (status < 0)
		return status;
	ring->thread_id = sqlite3_last_insert_rowid(writer->store->db);
	if (!ring->position)
		return LW_OK;
	/* Somebody took records of this ring, but not into this file. */
	ring->n_lost = ring->position;
	return lw_writer_loss(writer, ring->process->process_id, ring->thread_id, LW_LOSS_TAKEN,
		ring->position, ring->name);
}

int lw_writer_loss(struct lw_writer *writer, int64_t process_id, int64_t thread_id, int reason,
	uint64_t n, const char *detail)
{
	for (int i = 0; i < 2; i++) {
		sqlite3_stmt *statement = writer->own[i ? ADD_LOSS : ADD_TO_LOSS];
		int status;

		sqlite3_clear_bindings(statement);
		if (process_id)
			sqlite3_bind_int64(statement, 1, process_id);
		if (thread_id)
			sqlite3_bind_int64(statement, 2, thread_id);
		sqlite3_bind_int(statement, 3, reason);
		sqlite3_bind_int64(statement, 4, (int64_t)n);
		sqlite3_bind_text(statement, 5, detail, -1, SQLITE_TRANSIENT);
		status = lw_writer_run(writer, statement);
		if (status < 0 || sqlite3_changes(writer->store->db) > 0)
			return status;
	}
	return LW_OK;
}

int lw_writer_end_process(struct lw_writer *writer, struct lw_process *process, const char *ended)
{
	sqlite3_stmt *end = writer->own[END_PROCESS];
	int reason = ended ? LW_LOSS_DIED : LW_LOSS_RUNNING, status = LW_OK;
	char detail[32];

	if (ended) {
		sqlite3_bind_int64(end, 1, process->process_id);
		sqlite3_bind_text(end, 2, ended, -1, SQLITE_STATIC);
		status = lw_writer_run(writer, end);
	}
	if (status < 0 || (ended && strcmp(ended, "died")))
		return status;
	snprintf(detail, sizeof(detail), "pid %u", process->pid);
	return lw_writer_loss(writer, process->process_id, 0, reason, 1, detail);
}

int lw_writer_finish(struct lw_writer *writer, int exit_code)
{
	char sql[400], code[16] = "exit_code";
	int status = lw_store_build_indexes(writer->store);

	if (exit_code >= 0)
		snprintf(code, sizeof(code), "%d", exit_code);
	snprintf(sql, sizeof(sql),
		"UPDATE run SET closed = 1, exit_code = %s, command = iif(command <> '', command,"
		" coalesce((SELECT s.text FROM process p JOIN string s ON s.id = p.command_id"
		" ORDER BY p.rank, p.id LIMIT 1), ''))",
		code);
	if (status == LW_OK)
		status = lw_store_exec(writer->store, sql);
	return status == LW_OK ? lw_store_seal(writer->store) : status;
}
