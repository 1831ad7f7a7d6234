/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - how an importer writes the raw tables of a new run. */
#ifndef LAPWING_ANALYZER_IMPORT_ROWS_H
#define LAPWING_ANALYZER_IMPORT_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "schema/store.h"

#define LW_ROW_NULL INT64_MIN /* a column that is NULL */

/* Event tables, whose columns are all integers. X(NAME, table, number of columns, columns) */
#define LW_ROW_TABLES(X)                                                                           \
	X(COLLECTIVE, "collective", 11,                                                            \
		"thread_id, seq, start_ns, end_ns, op, comm_key, sent_bytes, received_bytes,"      \
		" root, flags, transport")                                                         \
	X(READY, "ready", 6, "thread_id, seq, at_ns, object, name_id, bytes")                      \
	X(CYCLE, "cycle", 11,                                                                      \
		"thread_id, seq, start_ns, end_ns, op, in_bits, out_bits, n_words, n_unchanged,"   \
		" unchanged_ns, unchanged_span_ns")                                                \
	X(BATCH, "batch", 13,                                                                      \
		"thread_id, seq, start_ns, end_ns, op, batch, n_tensors, bytes, fusion_bytes,"     \
		" process_set, dtype, flags, framework")                                           \
	X(BATCH_TENSOR, "batch_tensor", 9,                                                         \
		"thread_id, seq, at_ns, batch, position, name_id, object, bytes, dtype")           \
	X(RANGE, "range", 7, "thread_id, seq, start_ns, end_ns, op, name_id, value")               \
	X(CLOCK_SAMPLE, "clock_sample", 3, "host_id, monotonic_ns, realtime_ns")                   \
	X(COMM, "comm", 8, "process_id, key, size, rank, serial, how, transport, at_ns")           \
	X(GPU, "gpu", 9,                                                                           \
		"process_id, at_ns, device, name_id, memory_bytes, n_multiprocessors, clock_khz,"  \
		" major, minor")                                                                   \
	X(KERNEL, "kernel", 11,                                                                    \
		"thread_id, seq, start_ns, end_ns, name_id, device, context, stream, correlation," \
		" graph, flags")                                                                   \
	X(COPY, "copy", 12,                                                                        \
		"thread_id, seq, start_ns, end_ns, op, bytes, device, context, stream,"            \
		" correlation, peer_device, flags")                                                \
	X(GPU_SYNC, "gpu_sync", 8,                                                                 \
		"thread_id, seq, start_ns, end_ns, op, context, stream, correlation")              \
	X(LAUNCH, "launch", 11,                                                                    \
		"thread_id, seq, start_ns, end_ns, op, name_id, correlation, tid, made_for,"       \
		" for_serial, result")                                                             \
	X(GPU_OVERHEAD, "gpu_overhead", 5, "thread_id, seq, start_ns, end_ns, name_id")            \
	X(NCCL_OP, "nccl_op", 16,                                                                  \
		"thread_id, seq, start_ns, end_ns, op, comm_key, serial, bytes, peer,"             \
		" group_serial, algorithm, protocol, n_channels, dtype, flags, source")

enum lw_row_table {
#define X(name, table, n_columns, columns) LW_ROW_##name,
	LW_ROW_TABLES(X)
#undef X
		LW_ROW_N_TABLES
};

struct lw_import_rows {
	struct lw_store *store;
	sqlite3_stmt *insert[LW_ROW_N_TABLES];
};

int lw_rows_open(struct lw_import_rows *rows, struct lw_store *store);
void lw_rows_close(struct lw_import_rows *rows);

/**
 * lw_rows_insert() - add one row to @table; @values are all its columns, in the order of LW_ROW_TABLES.
 * Return: LW_OK or the store's error.
 */
int lw_rows_insert(
	struct lw_import_rows *rows, enum lw_row_table table, const int64_t *values, size_t n);

/* lw_row(rows, LW_ROW_READY, thread, seq, ...) */
#define lw_row(rows, table, ...)                                                                   \
	lw_rows_insert((rows), (table), (const int64_t[]){__VA_ARGS__},                            \
		sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/** lw_rows_host() - the one host of an import; @clock says what its times count from. */
int lw_rows_host(struct lw_import_rows *rows, int64_t host_id, const char *name, const char *clock);

struct lw_row_process { /* an imported process has one thread, with the same id */
	int64_t id, host_id;
	int64_t rank, size;                         /* LW_ROW_NULL = not known */
	int framework, transport;                   /* enum lw_framework, enum lw_transport */
	int role;                                   /* enum lw_thread_role */
	int64_t start_ns, end_ns, n_stored, n_lost; /* n_stored: events of its thread */
	int64_t pid, tid;                           /* 0 = not known */
};

/** lw_rows_process() - a process and its thread. */
int lw_rows_process(struct lw_import_rows *rows, const struct lw_row_process *process);

struct lw_row_thread { /* a further one; no process has its id */
	int64_t id, process_id;
	int64_t tid;               /* 0 = not known */
	int role;                  /* enum lw_thread_role */
	int64_t name_id, n_stored; /* LW_ROW_NULL = none; events of it */
};

/** lw_rows_thread() - a thread of a process. */
int lw_rows_thread(struct lw_import_rows *rows, const struct lw_row_thread *thread);

/** lw_rows_loss() - @n things are missing; nothing is written when @n is 0. */
int lw_rows_loss(struct lw_import_rows *rows, int64_t process_id, int reason, uint64_t n,
	const char *detail);

#endif /* LAPWING_ANALYZER_IMPORT_ROWS_H */
