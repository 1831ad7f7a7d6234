/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "schema/leisure.h"
#include "schema/migrations.h" /* generated: lw_migrations[] */

enum { N_MIGRATIONS = sizeof(lw_migrations) / sizeof(lw_migrations[0]), COPY_PAGES = 256 };

/* Built when a run is closed: an index costs a loading collector more than the row itself. */
static const char indexes_sql[] =
	"CREATE INDEX IF NOT EXISTS i_ready_object ON ready(object, at_ns);"
	"CREATE INDEX IF NOT EXISTS i_batch_tensor ON batch_tensor(batch, thread_id);"
	"CREATE INDEX IF NOT EXISTS i_batch ON batch(start_ns);"
	"CREATE INDEX IF NOT EXISTS i_collective ON collective(thread_id, start_ns);"
	"CREATE INDEX IF NOT EXISTS i_counter_sample ON counter_sample(device_id, counter_id, at_ns);"
	"CREATE INDEX IF NOT EXISTS i_tcp_info_sample ON tcp_info_sample(connection_id, at_ns);";

int lw_store_schema_version(void)
{
	return N_MIGRATIONS;
}

/* What else somebody may take for a run, by how it begins. Return: "" = it does not look like that. */
static const char *import_hint(const char *path)
{
	static const char packets[] = ", but packets: `lapwing import` makes a run of them";
	static const char timeline[] =
		"; if it is a timeline, or a profiler's trace, `lapwing import` makes a run of it";
	static const struct {
		const char *begin, *hint;
	} kinds[] = {
		{"\xa1\xb2\xc3\xd4", packets}, {"\xd4\xc3\xb2\xa1", packets},
		{"\xa1\xb2\x3c\x4d", packets}, {"\x4d\x3c\xb2\xa1", packets},
		{"\x0a\x0d\x0d\x0a", packets}, {"[", timeline}, {"{", timeline},
		{"\x1f\x8b", timeline}, /* gzip */
	};
	char head[4] = "";
	FILE *file = fopen(path, "rbe");
	size_t n = file ? fread(head, 1, sizeof(head), file) : 0;

	if (file)
		fclose(file);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (n == sizeof(head) && !memcmp(head, kinds[i].begin, strlen(kinds[i].begin)))
			return kinds[i].hint;
	return "";
}

int lw_store_fail(struct lw_store *store, const char *what)
{
	int code = sqlite3_errcode(store->db) & 0xff;
	enum lw_status status = code == SQLITE_NOMEM                              ? LW_ERR_NOMEM
				: code == SQLITE_NOTADB || code == SQLITE_CORRUPT ? LW_ERR_FORMAT
				: code == SQLITE_BUSY || code == SQLITE_LOCKED    ? LW_ERR_BUSY
										  : LW_ERR_IO;
	const char *text = sqlite3_errmsg(store->db);

	if (code == SQLITE_NOTADB)
		return lw_fail(status, "%s: not a lapwing run (not an SQLite file%s)", what,
			import_hint(store->path));
	else if (code == SQLITE_CORRUPT)
		text = "damaged: the file is cut short or overwritten";
	else if (code == SQLITE_FULL)
		text = "the disk is full";
	return lw_fail(status, "%s: %s", what, text);
}

int lw_store_exec(struct lw_store *store, const char *sql)
{
	if (sqlite3_exec(store->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return lw_store_fail(store, store->path);
	return LW_OK;
}

int lw_store_prepare(struct lw_store *store, const char *sql, sqlite3_stmt **ret_statement)
{
	if (sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret_statement,
		    NULL) != SQLITE_OK)
		return lw_store_fail(store, store->path);
	return LW_OK;
}

int lw_store_step(struct lw_store *store, sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement), status = 0;

	if (code == SQLITE_ROW)
		return 1;
	if (code != SQLITE_DONE)
		status = lw_store_fail(store, store->path);
	sqlite3_reset(statement);
	return status;
}

int lw_store_int(struct lw_store *store, const char *sql, int64_t *ret_value)
{
	sqlite3_stmt *statement;
	int status = lw_store_prepare(store, sql, &statement);

	if (status < 0)
		return status;
	status = lw_store_step(store, statement);
	if (status == 1)
		*ret_value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	if (status == 0)
		return lw_fail(LW_ERR_FORMAT, "%s: no row for: %s", store->path, sql);
	return status < 0 ? status : LW_OK;
}

const char *lw_store_column_text(sqlite3_stmt *statement, int i)
{
	const char *text = (const char *)sqlite3_column_text(statement, i);

	return text ? text : "";
}

int64_t lw_store_string(struct lw_store *store, const char *text)
{
	int64_t id = 0;
	int status;

	if (!store->string_insert) {
		status = lw_store_prepare(store, "INSERT OR IGNORE INTO string(text) VALUES(?1)",
			&store->string_insert);
		if (status == LW_OK)
			status = lw_store_prepare(store, "SELECT id FROM string WHERE text = ?1",
				&store->string_select);
		if (status < 0)
			return status;
	}
	sqlite3_bind_text(store->string_select, 1, text, -1, SQLITE_STATIC);
	status = lw_store_step(store, store->string_select);
	if (status == 1)
		id = sqlite3_column_int64(store->string_select, 0);
	sqlite3_reset(store->string_select);
	if (status != 0)
		return status < 0 ? status : id;
	sqlite3_bind_text(store->string_insert, 1, text, -1, SQLITE_STATIC);
	status = lw_store_step(store, store->string_insert);
	return status < 0 ? status : sqlite3_last_insert_rowid(store->db);
}

int lw_store_build_indexes(struct lw_store *store)
{
	return lw_store_exec(store, indexes_sql);
}

static int set_journal(struct lw_store *store, const char *mode, bool *ret_is_set)
{
	char sql[64];
	sqlite3_stmt *row;
	int status;

	snprintf(sql, sizeof(sql), "PRAGMA journal_mode = %s", mode);
	status = lw_store_prepare(store, sql, &row);
	if (status < 0)
		return status;
	*ret_is_set =
		sqlite3_step(row) == SQLITE_ROW && !strcmp(lw_store_column_text(row, 0), mode);
	sqlite3_finalize(row);
	return LW_OK;
}

int lw_store_set_journal(struct lw_store *store, const char *mode, bool *ret_is_set)
{
	int status;

	*ret_is_set = false;
	if (strcmp(mode, "delete"))
		return set_journal(store, mode, ret_is_set);
	/* or SQLite lets go between removing the -wal and saying so in the file: who reads then makes a new one */
	status = lw_store_exec(store, "PRAGMA locking_mode = EXCLUSIVE");
	if (status < 0)
		return status;
	status = set_journal(store, mode, ret_is_set);
	/* the lock goes with the next read */
	lw_store_exec(store, "PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema");
	return status;
}

int lw_store_seal(struct lw_store *store)
{
	/* often: one who looks again and again is there most of the time */
	const struct timespec pause = {.tv_nsec = 5000000};
	int status = lw_store_exec(store, "PRAGMA wal_checkpoint(TRUNCATE)");
	bool is_sealed = false;

	for (int i = 0; i < 200 && !is_sealed && status == LW_OK; i++) {
		if (i)
			nanosleep(&pause, NULL);
		status = lw_store_set_journal(store, "delete", &is_sealed);
	}
	return status;
}

/* Migrations from @version on, each in its own transaction together with its version number. */
static int migrate(struct lw_store *store, int64_t version)
{
	while (version < N_MIGRATIONS) {
		int64_t found = version;
		char done[64];
		int status = lw_store_exec(store, "BEGIN IMMEDIATE");

		if (status == LW_OK) /* while this waited another program may have done it */
			status = lw_store_int(store, "PRAGMA user_version", &found);
		if (status == LW_OK && found == version) {
			snprintf(done, sizeof(done), "PRAGMA user_version = %d", (int)version + 1);
			status = lw_store_exec(store, lw_migrations[version]);
			if (status == LW_OK)
				status = lw_store_exec(store, done);
			found++;
		}
		if (status == LW_OK)
			status = lw_store_exec(store, "COMMIT");
		if (status < 0) {
			sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
			return lw_cause(status, "schema migration %d", (int)version + 1);
		}
		version = found;
	}
	return LW_OK;
}

/* A file that was opened: is it ours, and do we know its schema? @ret_version: 0 = empty database. */
static int check_identity(struct lw_store *store, int64_t *ret_version)
{
	int64_t application_id = 0, n_tables = 0;
	int status = lw_store_int(store, "PRAGMA application_id", &application_id);

	if (status == LW_OK)
		status = lw_store_int(store, "PRAGMA user_version", ret_version);
	if (status == LW_OK)
		status = lw_store_int(store, "SELECT count(*) FROM sqlite_schema", &n_tables);
	if (status < 0)
		return status;
	if (application_id != LW_STORE_APPLICATION_ID)
		return lw_fail(LW_ERR_FORMAT, "%s: not a lapwing run (%s)", store->path,
			n_tables ? "an SQLite file of another program" : "an empty database");
	if (*ret_version > N_MIGRATIONS)
		return lw_fail(LW_ERR_UNSUPPORTED,
			"%s: made by a newer lapwing (schema %d, this program knows %d): update lapwing",
			store->path, (int)*ret_version, N_MIGRATIONS);
	return LW_OK;
}

static int open_db(struct lw_store *store, const char *path, int flags)
{
	if (sqlite3_open_v2(path, &store->db, flags, NULL) != SQLITE_OK) {
		/* SQLite says "unable to open database file"; the system knows why. */
		int reason = sqlite3_system_errno(store->db);

		if (sqlite3_errcode(store->db) == SQLITE_CANTOPEN && reason)
			return lw_fail(LW_ERR_IO, "%s: %s%s", path, strerror(reason),
				reason == ENOENT && flags & SQLITE_OPEN_CREATE
					? " (its folder does not exist)"
					: "");
		return lw_store_fail(store, path);
	}
	sqlite3_extended_result_codes(store->db, 1);
	sqlite3_busy_timeout(store->db, 5000);
	/* A run may come from a stranger: no SQL hidden in its schema may call anything with effects. */
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	return LW_OK;
}

static void remove_sides(const char *path)
{
	static const char *const ends[] = {"-shm", "-wal", "-journal"};
	char side[4200];

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		snprintf(side, sizeof(side), "%s%s", path, ends[i]);
		unlink(side);
	}
}

/* Can a file be made or written there? Asked of the system: SQLite would try read-only as well, and then
 * report what is wrong with that. Return: LW_OK or LW_ERR_IO. */
static int check_writable(const char *path)
{
	int fd;

	if (path[0] == ':') /* SQLite's ":memory:" */
		return LW_OK;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return lw_fail(LW_ERR_IO, "%s: %s%s", path, strerror(errno),
			errno == ENOENT ? " (its folder does not exist)" : "");
	close(fd);
	return LW_OK;
}

static int create(struct lw_store *store, const char *path)
{
	struct stat st;
	int status;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return lw_fail(LW_ERR_IO, "%s: is a folder, not a run file", path);
	if (stat(path, &st) == 0 && st.st_size > 0) {
		struct lw_store old = {.path = store->path};
		int64_t version = 0;

		/* Only a file of our own may be replaced: a mistyped -o must not cost a thesis. */
		status = open_db(&old, path, SQLITE_OPEN_READONLY);
		if (status == LW_OK)
			status = check_identity(&old, &version);
		sqlite3_close(old.db);
		if (status < 0 && status != LW_ERR_UNSUPPORTED)
			return lw_fail(LW_ERR_FORMAT,
				"%s: exists and is not a lapwing run: not replaced", path);
		if (unlink(path) < 0)
			return lw_fail(LW_ERR_IO, "%s: %s", path, strerror(errno));
		remove_sides(path);
	}
	status = check_writable(path);
	if (status == LW_OK)
		status = open_db(store, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
	if (status == LW_OK) {
		char sql[160];

		/* The identity first: a file whose maker is killed here may be replaced by the next. */
		snprintf(sql, sizeof(sql),
			"PRAGMA page_size = 8192; PRAGMA application_id = %d;"
			"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
			LW_STORE_APPLICATION_ID);
		status = lw_store_exec(store, sql);
	}
	if (status == LW_OK)
		status = migrate(store, 0);
	if (status < 0 && store->db && path[0] != ':') { /* half a file helps nobody */
		sqlite3_close(store->db);
		store->db = NULL;
		unlink(path);
		remove_sides(path);
	}
	return status;
}

int lw_store_copy_told(struct lw_store *into, struct lw_store *from,
	bool (*progress)(void *context, double done_frac), void *context)
{
	sqlite3_backup *backup = sqlite3_backup_init(into->db, "main", from->db, "main");
	int code = backup ? SQLITE_OK : SQLITE_ERROR, n_pages;
	bool is_wanted = true;

	while (code == SQLITE_OK && is_wanted) {
		code = sqlite3_backup_step(backup, progress ? COPY_PAGES : -1);
		n_pages = sqlite3_backup_pagecount(backup);
		if (progress && n_pages > 0)
			is_wanted = progress(context,
				1 - (double)sqlite3_backup_remaining(backup) / (double)n_pages);
	}
	if (!backup || sqlite3_backup_finish(backup) != SQLITE_OK)
		return lw_store_fail(into, from->path);
	if (!is_wanted && code != SQLITE_DONE)
		return lw_fail(LW_ERR_STATE, "%s: the copy was given up", from->path);
	return code == SQLITE_DONE
		       ? LW_OK
		       : lw_fail(LW_ERR_BUSY, "%s: is being written: try again", from->path);
}

int lw_store_copy(struct lw_store *into, struct lw_store *from)
{
	return lw_store_copy_told(into, from, NULL, NULL);
}

/* An older run that may not be written: its copy in memory is migrated instead. */
static int migrate_copy(struct lw_store *store, int64_t version)
{
	struct lw_store file = {.path = store->path, .db = store->db};
	int status = open_db(store, ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);

	if (status == LW_OK)
		status = lw_store_copy(store, &file);
	sqlite3_close(file.db);
	return status == LW_OK ? migrate(store, version) : status;
}

static int open_existing(struct lw_store *store, const char *path, enum lw_store_mode mode)
{
	int64_t version = 0;
	struct stat st;
	int status;

	if (stat(path, &st) < 0 || access(path, R_OK) < 0)
		return lw_fail(LW_ERR_IO, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return lw_fail(LW_ERR_IO, "%s: is a folder, not a run file", path);
	store->is_read_only = mode == LW_STORE_READ || access(path, W_OK) < 0;
	status = open_db(
		store, path, store->is_read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
	if (status == LW_OK)
		status = check_identity(store, &version);
	if (status < 0) {
		/* WAL needs to write beside the file; on read-only media read the file as it stands. */
		char uri[4200];

		if (status == LW_ERR_UNSUPPORTED || !store->is_read_only ||
			status == LW_ERR_FORMAT || status == LW_ERR_BUSY)
			return status;
		sqlite3_close(store->db);
		store->db = NULL;
		snprintf(uri, sizeof(uri), "file:%s?immutable=1", path);
		status = open_db(store, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
		if (status == LW_OK)
			status = check_identity(store, &version);
		if (status < 0)
			return status;
	}
	if (version == N_MIGRATIONS)
		return LW_OK;
	return store->is_read_only ? migrate_copy(store, version) : migrate(store, version);
}

int lw_store_open(const char *path, enum lw_store_mode mode, struct lw_store **ret_store)
{
	struct lw_store *store = calloc(1, sizeof(*store));
	int status;

	if (!store || !(store->path = strdup(path))) {
		free(store);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	if (mode != LW_STORE_READ)
		lw_leisure_interrupt(path);
	status = mode == LW_STORE_CREATE ? create(store, path) : open_existing(store, path, mode);
	if (status < 0) {
		lw_store_close(store);
		return status;
	}
	*ret_store = store;
	return LW_OK;
}

void lw_store_close(struct lw_store *store)
{
	if (!store)
		return;
	sqlite3_finalize(store->string_insert);
	sqlite3_finalize(store->string_select);
	sqlite3_close(store->db);
	free(store->path);
	free(store);
}
