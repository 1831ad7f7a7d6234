/* SPDX-License-Identifier: Apache-2.0 */
/* writer_rows.h - what the files of the writer share: writer.c has the run file and who is in it, writer_put.c the records. */
#ifndef LAPWING_COLLECTOR_WRITER_ROWS_H
#define LAPWING_COLLECTOR_WRITER_ROWS_H

#include "collector/records.h"
#include "collector/writer.h"

enum lw_writer_statement {
	FIND_PROCESS,
	ADD_PROCESS,
	UPDATE_PROCESS,
	SEEN_PROCESS,
	END_PROCESS,
	FIND_THREAD,
	ADD_THREAD,
	UPDATE_THREAD,
	COUNT_THREAD,
	ADD_TO_LOSS,
	ADD_LOSS,
	N_STATEMENTS
};

struct lw_writer {
	struct lw_store *store;
	struct lw_record_source source;
	sqlite3_stmt *insert[LW_EV_COUNT];
	sqlite3_stmt *own[N_STATEMENTS];
	bool in_transaction;
};

/** lw_writer_run() - run @statement to its end and make it ready for the next use. Return: LW_OK or the store's error. */
int lw_writer_run(struct lw_writer *writer, sqlite3_stmt *statement);

#endif /* LAPWING_COLLECTOR_WRITER_ROWS_H */
