/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - open, create and migrate a run file (SQLite), and typed helpers over its statements.
 *
 * The schema is sql/NNNN_*.sql, append-only; PRAGMA user_version is the number applied and
 * application_id says "a lapwing run". A newer file is refused in words. One connection belongs to
 * one thread.
 */
#ifndef LAPWING_SCHEMA_STORE_H
#define LAPWING_SCHEMA_STORE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

enum { LW_STORE_APPLICATION_ID = 0x4c505747 }; /* "LPWG" */

enum lw_store_mode {
	LW_STORE_CREATE, /* make a new file; an existing lapwing run is replaced, anything else refused */
	LW_STORE_WRITE, /* an existing run, to add results; older schemas are migrated */
	LW_STORE_READ, /* an existing run, read only; works on read-only media and while it is written.
			* Of one with an older schema a migrated copy in memory is read. */
};

struct lw_store {
	sqlite3 *db;
	char *path;
	bool is_read_only;
	sqlite3_stmt *string_insert, *string_select; /* of lw_store_string() */
};

/**
 * lw_store_open() - open @path as @mode says.
 * WRITE falls back to READ, with is_read_only set, when the file or its folder cannot be written.
 * Unless to READ, who works on it at leisure (leisure.h) is ended first.
 * Return: LW_OK; LW_ERR_IO (missing, folder missing, no permission), LW_ERR_FORMAT (not a lapwing
 * run, or damaged), LW_ERR_UNSUPPORTED (made by a newer lapwing), LW_ERR_NOMEM. *@ret_store is
 * written only on success; free it with lw_store_close().
 */
int lw_store_open(const char *path, enum lw_store_mode mode, struct lw_store **ret_store);

/**
 * lw_store_copy() - @into's database becomes what @from's is, or an error: LW_ERR_BUSY when another process
 * keeps writing @from.
 */
int lw_store_copy(struct lw_store *into, struct lw_store *from);

/**
 * lw_store_copy_told() - the same, in parts, telling @progress after each. Only within a read transaction of @from
 * are they parts of the same moment, while somebody writes. @progress says false: no more, LW_ERR_STATE.
 */
int lw_store_copy_told(struct lw_store *into, struct lw_store *from,
	bool (*progress)(void *context, double done_frac), void *context);

/** lw_store_close() - finalize and close; NULL is allowed. */
void lw_store_close(struct lw_store *store);

/** lw_store_exec() - run @sql (may hold several statements). Return: LW_OK or the mapped error. */
int lw_store_exec(struct lw_store *store, const char *sql);

/** lw_store_prepare() - compile one statement; the caller finalizes it. */
int lw_store_prepare(struct lw_store *store, const char *sql, sqlite3_stmt **ret_statement);

/**
 * lw_store_step() - advance a statement.
 * Return: 1 a row is there, 0 done, < 0 error. After 0 or an error the statement is reset.
 */
int lw_store_step(struct lw_store *store, sqlite3_stmt *statement);

/** lw_store_string() - the id of @text in table string, added if new. Return: id > 0 or error < 0. */
int64_t lw_store_string(struct lw_store *store, const char *text);

/** lw_store_int() - first column of the first row of @sql. Return: LW_OK, LW_ERR_FORMAT when no row. */
int lw_store_int(struct lw_store *store, const char *sql, int64_t *ret_value);

/** lw_store_column_text() - column @i as text, "" for NULL; valid until the next step. */
const char *lw_store_column_text(sqlite3_stmt *statement, int i);

/** lw_store_fail() - map the connection's last error to a status, with @what in front. */
int lw_store_fail(struct lw_store *store, const char *what);

/** lw_store_build_indexes() - the indexes a closed run has (built once, after loading). */
int lw_store_build_indexes(struct lw_store *store);

/**
 * lw_store_seal() - everything into one file, without a -wal beside it.
 * Refused while somebody reads, and most read only for a moment: asks again for a second. With a reader
 * that stays the file is complete too, in WAL mode. Return: LW_OK or the mapped error.
 */
int lw_store_seal(struct lw_store *store);

/**
 * lw_store_set_journal() - "wal": readers never wait for a writer, but there are files beside; "delete": one file.
 * Refused, *@ret_is_set is then false, while somebody else has the file open. Return: LW_OK or the mapped error.
 */
int lw_store_set_journal(struct lw_store *store, const char *mode, bool *ret_is_set);

/** lw_store_schema_version() - the newest schema this program knows. */
int lw_store_schema_version(void);

/* Names of contract enums, as the store and the screens print them; NULL for numbers unknown here. */
const char *lw_coll_name(int op);
const char *lw_rdma_op_name(int op);
const char *lw_copy_op_name(int op);
const char *lw_gpu_sync_op_name(int op);
const char *lw_launch_op_name(int op);
const char *lw_nccl_op_name(int op);
const char *lw_nccl_algorithm_name(int algorithm);
const char *lw_nccl_protocol_name(int protocol);
const char *lw_setting_name(int setting);
const char *lw_loss_reason_name(int reason);
const char *lw_dtype_name(int dtype);
int lw_dtype_bytes(int dtype); /* 0 = unknown */
const char *lw_event_kind_name(int kind);
const char *lw_framework_name(int framework); /* "horovod", "torch_ddp", "" */
const char *lw_transport_name(int transport); /* "mpi", "gloo", "nccl", "" */

#endif /* LAPWING_SCHEMA_STORE_H */
