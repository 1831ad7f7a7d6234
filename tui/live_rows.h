/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_rows.h - new rows of a run file that its collector is writing, into the model.
 *
 * Reads: the run file, through a read-only connection of its own; each look is one short read transaction,
 * and each table is entered at the row after the last one seen, so a look costs what is new in it.
 * Writes: nothing, and holds no lock that a writer would wait for (the file is in WAL mode).
 */
#ifndef LAPWING_TUI_LIVE_ROWS_H
#define LAPWING_TUI_LIVE_ROWS_H

#include "schema/store.h"
#include "tui/live_model.h"

enum { LW_LIVE_TABLES = 8, LW_LIVE_LOOK_ROWS = 20000 /* of a table in one look */ };

struct lw_live_comm {
	int64_t key;
	int32_t size;
};

struct lw_live_rows {
	struct lw_store *store;
	struct lw_live_model *model; /* borrowed */
	sqlite3_stmt *meta[5], *newest[LW_LIVE_TABLES], *rows[LW_LIVE_TABLES];
	int64_t at[LW_LIVE_TABLES];   /* last row seen */
	lw_vec(int32_t) thread_ranks; /* by thread id: index into model->ranks, LW_NONE */
	int64_t world_key; /* communicator of all ranks that a plain program uses; 0 = not seen */
	int64_t now_ns;
	bool has_begun;  /* old rows were skipped */
	bool is_behind;  /* there is more to read at once */
	bool is_closed;  /* the collector has closed the run */
	int exit_code;   /* of the command; -1 = not known */
	uint64_t n_read; /* rows, ever */
};

/** lw_live_rows_open() - Return: LW_OK or the first error; lw_live_rows_done() in both cases. */
int lw_live_rows_open(struct lw_live_rows *rows, const char *path, struct lw_live_model *model);
void lw_live_rows_done(struct lw_live_rows *rows);

/**
 * lw_live_rows_read() - what is new. Rows of the first look that are older than a minute before the newest are
 * skipped: then model->is_partial.
 * Return: 1 there was something, 0 nothing (or the file could not be read right now), < 0 an error.
 */
int lw_live_rows_read(struct lw_live_rows *rows, int64_t now_ns);

/** lw_live_rows_sql() - what table @i is read with, for tests. NULL: past the last. */
const char *lw_live_rows_sql(int i);

#endif /* LAPWING_TUI_LIVE_ROWS_H */
