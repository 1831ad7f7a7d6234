/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "schema/event.h"
#include "schema/store.h"

static char folder[] = "/tmp/lapwing-store-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/run.lapwing", folder);
	return 0;
}

static int remove_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void a_new_run_opens_again(void **state)
{
	struct lw_store *store;
	int64_t value, id;

	(void)state;
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), LW_OK);
	id = lw_store_string(store, "layer1.weight");
	assert_true(id > 0);
	assert_int_equal(lw_store_string(store, "layer1.weight"), id);
	assert_int_equal(lw_store_build_indexes(store), LW_OK);
	lw_store_close(store);
	assert_int_equal(lw_store_open(path, LW_STORE_READ, &store), LW_OK);
	assert_int_equal(lw_store_int(store, "SELECT count(*) FROM string", &value), LW_OK);
	assert_int_equal(value, 1);
	assert_int_equal(lw_store_int(store, "PRAGMA user_version", &value), LW_OK);
	assert_int_equal(value, lw_store_schema_version());
	lw_store_close(store);
}

static void a_missing_run_is_an_error(void **state)
{
	struct lw_store *store;

	(void)state;
	assert_int_equal(lw_store_open("/no/such/run", LW_STORE_READ, &store), LW_ERR_IO);
	assert_non_null(strstr(lw_error_text(), "No such file"));
	assert_int_equal(lw_store_open("/no/such/run", LW_STORE_CREATE, &store), LW_ERR_IO);
}

static void a_foreign_file_is_refused_and_never_replaced(void **state)
{
	struct lw_store *store;
	struct stat st;

	(void)state;
	write_file("chapter one: it was a dark and stormy night, and nobody had made a backup\n");
	assert_int_equal(lw_store_open(path, LW_STORE_READ, &store), LW_ERR_FORMAT);
	assert_non_null(strstr(lw_error_text(), "not a lapwing run"));
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), LW_ERR_FORMAT);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 50);
	unlink(path);
}

static void a_newer_run_is_refused_in_words(void **state)
{
	struct lw_store *store;

	(void)state;
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), LW_OK);
	assert_int_equal(lw_store_exec(store, "PRAGMA user_version = 999"), LW_OK);
	lw_store_close(store);
	assert_int_equal(lw_store_open(path, LW_STORE_READ, &store), LW_ERR_UNSUPPORTED);
	assert_non_null(strstr(lw_error_text(), "newer lapwing"));
	unlink(path);
}

/* As the first release wrote it: only its migration, with one text. */
static void make_older(void)
{
	FILE *file = fopen(LAPWING_SOURCE_DIR "/schema/sql/0001_init.sql", "r");
	char sql[32768], rest[120];
	sqlite3 *db;

	assert_non_null(file);
	sql[fread(sql, 1, sizeof(sql) - 1, file)] = '\0';
	fclose(file);
	unlink(path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	snprintf(rest, sizeof(rest),
		"PRAGMA application_id = %d; PRAGMA user_version = 1;"
		"INSERT INTO string VALUES(1, 'layer1.weight')",
		LW_STORE_APPLICATION_ID);
	assert_int_equal(sqlite3_exec(db, rest, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int64_t value_of(struct lw_store *store, const char *sql)
{
	int64_t value = -1;

	assert_int_equal(lw_store_int(store, sql, &value), LW_OK);
	return value;
}

static void an_older_run_is_read_without_being_changed(void **state)
{
	struct stat before, after;
	struct lw_store *store;

	(void)state;
	make_older();
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(lw_store_open(path, LW_STORE_READ, &store), LW_OK);
	assert_true(store->is_read_only);
	assert_int_equal(value_of(store, "SELECT count(*) FROM string"), 1);
	assert_int_equal(value_of(store, "SELECT count(*) FROM probe"), 0);
	lw_store_close(store);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	assert_int_equal(before.st_size, after.st_size);
}

static void a_copy_of_a_run_that_is_being_written_is_none(void **state)
{
	struct lw_store *from, *into;
	sqlite3 *writer;

	(void)state;
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &from), LW_OK);
	assert_int_equal(lw_store_open(":memory:", LW_STORE_CREATE, &into), LW_OK);
	assert_int_equal(lw_store_exec(from, "PRAGMA journal_mode = DELETE"), LW_OK);
	assert_int_equal(sqlite3_open(path, &writer), SQLITE_OK);
	assert_int_equal(sqlite3_exec(writer, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_busy_timeout(from->db, 0);
	assert_int_equal(lw_store_copy(into, from), LW_ERR_BUSY);
	print_message("%s\n", lw_error_text());
	assert_non_null(strstr(lw_error_text(), path));
	assert_null(strstr(lw_error_text(), "not an error"));
	assert_int_equal(sqlite3_exec(writer, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(lw_store_copy(into, from), LW_OK);
	sqlite3_close(writer);
	lw_store_close(into);
	lw_store_close(from);
}

static void a_file_that_another_program_holds_is_busy_and_not_broken(void **state)
{
	struct lw_store *holder, *store;

	(void)state;
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &holder), LW_OK);
	assert_int_equal(lw_store_open(path, LW_STORE_WRITE, &store), LW_OK);
	sqlite3_busy_timeout(store->db, 0);
	assert_int_equal(lw_store_exec(holder, "BEGIN IMMEDIATE"), LW_OK);
	assert_int_equal(lw_store_exec(store, "BEGIN IMMEDIATE"), LW_ERR_BUSY);
	assert_int_equal(lw_store_exec(holder, "COMMIT"), LW_OK);
	assert_int_equal(lw_store_exec(store, "BEGIN IMMEDIATE; COMMIT"), LW_OK);
	lw_store_close(store);
	lw_store_close(holder);
	unlink(path);
}

static bool note_progress(void *context, double done_frac)
{
	double *last = context;

	assert_true(done_frac >= last[0] && done_frac <= 1);
	last[0] = done_frac;
	last[1]++;
	return true;
}

static bool give_up(void *context, double done_frac)
{
	(void)context;
	return done_frac < 0;
}

/* Many parts, what was written since is in none of them. */
static void a_copy_in_parts_is_of_one_moment(void **state)
{
	struct lw_store *from, *writer, *into;
	double told[2] = {0};

	(void)state;
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &writer), LW_OK);
	assert_int_equal(lw_store_exec(writer,
				 "CREATE TABLE t(x); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"
				 " SELECT i + 1 FROM n WHERE i < 1000)"
				 " INSERT INTO t SELECT randomblob(8000) FROM n"),
		LW_OK);
	assert_int_equal(lw_store_open(path, LW_STORE_READ, &from), LW_OK);
	assert_int_equal(lw_store_exec(from, "BEGIN; SELECT count(*) FROM t"), LW_OK);
	assert_int_equal(lw_store_exec(writer, "DELETE FROM t"), LW_OK);
	assert_int_equal(lw_store_open(":memory:", LW_STORE_CREATE, &into), LW_OK);
	assert_int_equal(lw_store_copy_told(into, from, note_progress, told), LW_OK);
	assert_int_equal(value_of(into, "SELECT count(*) FROM t"), 1000);
	assert_true(told[0] == 1 && told[1] > 2);
	assert_int_equal(lw_store_copy_told(into, from, give_up, NULL), LW_ERR_STATE);
	lw_store_close(into);
	lw_store_close(from);
	lw_store_close(writer);
	unlink(path);
}

/* Opened, read and closed again and again, in a process of its own as locks are by process. */
static pid_t read_all_the_time(void)
{
	pid_t reader = fork();
	char uri[80];

	if (reader)
		return reader;
	snprintf(uri, sizeof(uri), "file:%s?mode=ro", path);
	while (getppid() != 1) {
		sqlite3 *db;

		if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) ==
			SQLITE_OK)
			sqlite3_exec(db, "SELECT count(*) FROM string", NULL, NULL, NULL);
		sqlite3_close(db);
	}
	_exit(0);
}

static void a_sealed_run_is_one_file_though_somebody_reads_all_the_time(void **state)
{
	struct lw_store *store;
	char wal[80];
	pid_t reader;
	bool is_set;

	(void)state;
	snprintf(wal, sizeof(wal), "%s-wal", path);
	reader =
		read_all_the_time(); /* before the run is open here: SQLite does not survive a fork */
	assert_true(reader > 0);
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), LW_OK);
	for (int i = 0; i < 12; i++) {
		do
			assert_int_equal(lw_store_set_journal(store, "delete", &is_set), LW_OK);
		while (!is_set);
		assert_int_equal(access(wal, F_OK), -1);
		do
			assert_int_equal(lw_store_set_journal(store, "wal", &is_set), LW_OK);
		while (!is_set);
		assert_int_equal(lw_store_exec(store, "INSERT INTO string (text) VALUES"
						      " (hex(randomblob(50000)))"),
			LW_OK);
	}
	kill(reader, SIGKILL);
	assert_int_equal(waitpid(reader, NULL, 0), reader);
	lw_store_close(store);
}

static void an_older_run_is_migrated_when_results_are_added(void **state)
{
	struct lw_store *store;

	(void)state;
	make_older();
	assert_int_equal(lw_store_open(path, LW_STORE_WRITE, &store), LW_OK);
	lw_store_close(store);
	assert_int_equal(lw_store_open(path, LW_STORE_READ, &store), LW_OK);
	assert_int_equal(value_of(store, "PRAGMA user_version"), lw_store_schema_version());
	assert_int_equal(value_of(store, "SELECT count(*) FROM probe"), 0);
	assert_int_equal(value_of(store, "SELECT count(*) FROM string"), 1);
	lw_store_close(store);
}

static void operations_of_nccl_have_their_names_in_sql(void **state)
{
	char sql[200], want[32];
	struct lw_store *store;
	int64_t n;

	(void)state;
	assert_true(lw_store_schema_version() >= 11);
	assert_int_equal(lw_store_open(":memory:", LW_STORE_CREATE, &store), LW_OK);
	assert_int_equal(
		lw_store_exec(store,
			"INSERT INTO thread(id, process_id, tid, serial, role, n_pushed, n_stored, n_lost)"
			" VALUES(1, 1, 1, 0, 1, 0, 0, 0);"
			"INSERT INTO process(id, host_id, pid, ppid, rank, size, framework, transport, start_ns)"
			" VALUES(1, 1, 1, 1, 0, 1, 0, 3, 0)"),
		LW_OK);
	for (int op = 1; lw_nccl_op_name(op); op++) {
		snprintf(sql, sizeof(sql),
			"INSERT INTO nccl_op VALUES(1, %d, 0, 1, %d, 0, %d, 64, -1, NULL, %d, %d, 0, 0, %d, 2)",
			op, op, op, op <= LW_NCCL_ALGORITHM_PAT ? op : 0,
			op <= LW_NCCL_PROTOCOL_SIMPLE ? op : 0, op == 2 ? LW_NCCL_NO_BYTES : 0);
		assert_int_equal(lw_store_exec(store, sql), LW_OK);
		snprintf(want, sizeof(want), "%s", lw_nccl_op_name(op));
		snprintf(sql, sizeof(sql),
			"SELECT count(*) FROM v_nccl_op WHERE op = %d AND op_name = '%s' AND told_by = 'plugin'",
			op, want);
		assert_int_equal(value_of(store, sql), 1);
	}
	for (int i = 1; i <= LW_NCCL_ALGORITHM_PAT; i++) {
		snprintf(sql, sizeof(sql),
			"SELECT count(*) FROM v_nccl_op WHERE algorithm = %d AND algorithm_name = '%s'",
			i, lw_nccl_algorithm_name(i));
		assert_int_equal(value_of(store, sql), 1);
	}
	for (int i = 1; i <= LW_NCCL_PROTOCOL_SIMPLE; i++) {
		snprintf(sql, sizeof(sql),
			"SELECT count(*) FROM v_nccl_op WHERE protocol = %d AND protocol_name = '%s'",
			i, lw_nccl_protocol_name(i));
		assert_int_equal(value_of(store, sql), 1);
	}
	assert_int_equal(
		lw_store_int(store, "SELECT count(*) FROM v_nccl_op WHERE bytes IS NULL", &n),
		LW_OK);
	assert_int_equal(n, 1);
	lw_store_close(store);
}

static void programs_that_migrate_a_run_at_once_agree(void **state)
{
	enum { N_PROGRAMS = 8, N_TIMES = 10 };

	(void)state;
	for (int time = 0; time < N_TIMES; time++) {
		int n_failed = 0;

		make_older();
		for (int i = 0; i < N_PROGRAMS; i++)
			if (fork() == 0) {
				struct lw_store *store;
				int status = lw_store_open(path, LW_STORE_WRITE, &store);

				if (status < 0)
					fprintf(stderr, "%s\n", lw_error_text());
				_exit(status < 0);
			}
		for (int i = 0; i < N_PROGRAMS; i++) {
			int status;

			assert_true(wait(&status) > 0);
			n_failed += status != 0;
		}
		assert_int_equal(n_failed, 0);
	}
}

static void a_truncated_run_is_an_error(void **state)
{
	struct lw_store *store;
	int status;

	(void)state;
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), LW_OK);
	lw_store_close(store);
	assert_int_equal(truncate(path, 5000), 0);
	status = lw_store_open(path, LW_STORE_READ, &store);
	assert_int_equal(status, LW_ERR_FORMAT);
	assert_non_null(strstr(lw_error_text(), "damaged"));
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_run_opens_again),
		cmocka_unit_test(a_missing_run_is_an_error),
		cmocka_unit_test(a_foreign_file_is_refused_and_never_replaced),
		cmocka_unit_test(a_newer_run_is_refused_in_words),
		cmocka_unit_test(an_older_run_is_read_without_being_changed),
		cmocka_unit_test(a_copy_of_a_run_that_is_being_written_is_none),
		cmocka_unit_test(a_file_that_another_program_holds_is_busy_and_not_broken),
		cmocka_unit_test(a_copy_in_parts_is_of_one_moment),
		cmocka_unit_test(a_sealed_run_is_one_file_though_somebody_reads_all_the_time),
		cmocka_unit_test(an_older_run_is_migrated_when_results_are_added),
		cmocka_unit_test(operations_of_nccl_have_their_names_in_sql),
		cmocka_unit_test(programs_that_migrate_a_run_at_once_agree),
		cmocka_unit_test(a_truncated_run_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
