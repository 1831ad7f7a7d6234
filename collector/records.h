/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h - a batch of records, grouped by kind, and how each kind becomes rows of a table.
 *
 * One row per kind says which table and which field goes into which column. SQLite reads the batch
 * itself, through a virtual table per kind (lw_in_<table>), so a batch is one INSERT ... SELECT per
 * kind: twice the speed of a prepared INSERT per row (tests/bench/bench_store).
 */
#ifndef LAPWING_COLLECTOR_RECORDS_H
#define LAPWING_COLLECTOR_RECORDS_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/event.h"

struct lw_ring; /* collector/drain.h */

struct lw_record {
	const struct lw_event *event; /* a private copy, checked */
	struct lw_ring *ring;         /* where it came from: its process and thread */
};

/* The records of one kind, in ring order. */
struct lw_record_list {
	const struct lw_record *at;
	size_t n;
};

struct lw_string_map; /* collector/strings.h */

/* What the virtual tables read from; the writer fills it in before it runs the statements. */
struct lw_record_source {
	struct lw_record_list of_kind[LW_EV_COUNT];
	struct lw_string_map *strings;
	int64_t host_id;
};

/**
 * lw_records_attach() - make the virtual tables in @db read @source, which must outlive @db.
 * @ret_insert: by kind, the statement that stores all its records; NULL for kinds that are not rows
 * of a table (PROCESS, STRING, THREAD, LOSS). The caller finalizes them.
 * Return: LW_OK or LW_ERR_IO.
 */
int lw_records_attach(
	sqlite3 *db, struct lw_record_source *source, sqlite3_stmt *ret_insert[LW_EV_COUNT]);

#endif /* LAPWING_COLLECTOR_RECORDS_H */
