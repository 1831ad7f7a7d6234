/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h - the only writer of a run file while it is recorded.
 *
 *	lw_writer_begin()      a transaction
 *	lw_writer_register()   rows for new processes and rings, or where an earlier collector stopped
 *	lw_writer_put()        the records of one take, and how far their rings are read now
 *	lw_writer_end_ring(), lw_writer_end_process()
 *	lw_writer_commit()     all of it, or nothing
 *
 * Rows and ring positions are in one transaction, so a killed collector loses nothing and its
 * successor stores nothing twice.
 */
#ifndef LAPWING_COLLECTOR_WRITER_H
#define LAPWING_COLLECTOR_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/drain.h"
#include "schema/store.h"

enum { LW_WRITER_HOST_ID = 1 }; /* the one host of a run file that is recorded */

struct lw_writer;

/** lw_writer_create() - a new run file at @path. @command: what is recorded, "" = not known yet. */
int lw_writer_create(const char *path, const char *created_by, const char *command,
	struct lw_writer **ret_writer);

/** lw_writer_resume() - the run file of a collector that stopped early. */
int lw_writer_resume(const char *path, struct lw_writer **ret_writer);

/** lw_writer_resume_copy() - the same, on a copy at @path of what @old_path holds. */
int lw_writer_resume_copy(const char *old_path, const char *path, struct lw_writer **ret_writer);

/** lw_writer_close() - close the file as it stands; an open transaction is undone. NULL is allowed. */
void lw_writer_close(struct lw_writer *writer);

/** lw_writer_store() - its run file, for rows that come from no ring; inside its transactions, gone when it is closed. */
struct lw_store *lw_writer_store(struct lw_writer *writer);

/** lw_writer_begin() - Return: LW_OK; LW_ERR_STATE: somebody else writes just now, try later. */
int lw_writer_begin(struct lw_writer *writer);
int lw_writer_commit(struct lw_writer *writer);

/** lw_writer_register() - give @ring and its process their rows; a known ring gets its position back. */
int lw_writer_register(struct lw_writer *writer, struct lw_ring *ring);

/** lw_writer_put() - store what @drain just took. */
int lw_writer_put(struct lw_writer *writer, struct lw_drain *drain);

/** lw_writer_end_ring() - final counts of a ring that is read to its end. */
int lw_writer_end_ring(struct lw_writer *writer, struct lw_ring *ring);

/** lw_writer_end_process() - how it ended: "exit" or "died"; NULL = it still runs. */
int lw_writer_end_process(struct lw_writer *writer, struct lw_process *process, const char *ended);

/** lw_writer_store() - its store, for rows that come from elsewhere than rings; in its transactions. */
struct lw_store *lw_writer_store(struct lw_writer *writer);

/** lw_writer_loss() - add @n to the loss row of (@process_id, @thread_id, @reason, @detail); ids 0 = none. */
int lw_writer_loss(struct lw_writer *writer, int64_t process_id, int64_t thread_id, int reason,
	uint64_t n, const char *detail);

/**
 * lw_writer_finish() - indexes, run.closed, and everything into one file (no -wal beside it).
 * @exit_code: of the recorded command; < 0 = not known
 */
int lw_writer_finish(struct lw_writer *writer, int exit_code);

#endif /* LAPWING_COLLECTOR_WRITER_H */
