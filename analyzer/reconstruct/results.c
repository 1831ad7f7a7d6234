/* SPDX-License-Identifier: Apache-2.0 */
/*
 * results.c - tables step, phase, overlap and diag: rebuilt each time, in one transaction, in the same order.
 *
 * A file that cannot be written, or that its collector still writes, is left as it is.
 */
#include "analyzer/run.h"

static void bind(sqlite3_stmt *statement, int i, int64_t value_ns)
{
	if (value_ns == LW_NS_UNKNOWN)
		sqlite3_bind_null(statement, i);
	else
		sqlite3_bind_int64(statement, i, value_ns);
}

static int insert(struct lw_store *store, sqlite3_stmt *statement)
{
	int status = lw_store_step(store, statement);

	sqlite3_reset(statement);
	return status;
}

static int store_steps(struct lw_store *store, const struct lw_rank *rank)
{
	sqlite3_stmt *insert_step, *insert_overlap = NULL;
	int status = lw_store_prepare(store,
		"INSERT OR REPLACE INTO step(rank, step, start_ns, end_ns, excluded) VALUES(?1, ?2, ?3, ?4, ?5)",
		&insert_step);

	if (status == LW_OK)
		status = lw_store_prepare(store,
			"INSERT OR REPLACE INTO overlap(rank, step, compute_ns, comm_ns, hidden_ns, exposed_ns,"
			" idle_ns, negotiate_ns, wait_ns, allreduce_ns, misc_ns)"
			" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
			&insert_overlap);
	for (size_t s = 0; s < rank->steps.n && status == LW_OK; s++) {
		const struct lw_step *step = &rank->steps.at[s];
		const int64_t values_ns[] = {step->compute_ns, step->comm_ns, step->hidden_ns,
			step->exposed_ns, step->idle_ns, step->negotiate_ns, step->wait_ns,
			step->allreduce_ns, step->misc_ns};

		if (!step->n_batches && !lw_gpu_has(rank))
			continue;
		sqlite3_bind_int(insert_step, 1, rank->rank);
		sqlite3_bind_int64(insert_step, 2, (int64_t)s);
		sqlite3_bind_int64(insert_step, 3, step->start_ns);
		sqlite3_bind_int64(insert_step, 4, step->end_ns);
		sqlite3_bind_text(insert_step, 5, step->excluded, -1, SQLITE_STATIC);
		status = insert(store, insert_step);
		if (status < 0)
			break;
		sqlite3_bind_int(insert_overlap, 1, rank->rank);
		sqlite3_bind_int64(insert_overlap, 2, (int64_t)s);
		for (int i = 0; i < (int)(sizeof(values_ns) / sizeof(values_ns[0])); i++)
			bind(insert_overlap, i + 3, values_ns[i]);
		status = insert(store, insert_overlap);
	}
	sqlite3_finalize(insert_step);
	sqlite3_finalize(insert_overlap);
	return status;
}

static int store_phases(struct lw_run *run, struct lw_store *store, const struct lw_rank *rank)
{
	sqlite3_stmt *statement;
	const struct lw_batch *batch;
	int status = lw_store_prepare(store,
		"INSERT OR REPLACE INTO phase(rank, step, batch, op, bytes, n_tensors, first_ready_ns,"
		" last_ready_ns, agreed_ns, start_ns, wire_start_ns, wire_end_ns, end_ns, last_rank)"
		" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
		&statement);

	if (status < 0)
		return status;
	lw_vec_foreach (batch, &rank->batches) {
		const struct lw_group *group = &run->groups.at[batch->group];

		sqlite3_bind_int(statement, 1, rank->rank);
		sqlite3_bind_int(statement, 2, batch->step);
		sqlite3_bind_int64(statement, 3, (int64_t)batch->serial);
		sqlite3_bind_int(statement, 4, batch->op);
		sqlite3_bind_int64(statement, 5, (int64_t)batch->bytes);
		sqlite3_bind_int64(statement, 6, batch->n_members);
		bind(statement, 7, group->first_ready_ns);
		bind(statement, 8, group->last_ready_ns);
		bind(statement, 9, batch->agreed_ns);
		sqlite3_bind_int64(statement, 10, batch->start_ns);
		bind(statement, 11, batch->wire_start_ns);
		bind(statement, 12, batch->wire_end_ns);
		sqlite3_bind_int64(statement, 13, batch->end_ns);
		if (group->last_rank == LW_NONE || group->n_ranks < 2)
			sqlite3_bind_null(statement, 14);
		else
			sqlite3_bind_int(statement, 14, run->ranks.at[group->last_rank].rank);
		status = insert(store, statement);
		if (status < 0)
			break;
	}
	sqlite3_finalize(statement);
	return status;
}

static int store_diags(struct lw_run *run, struct lw_store *store)
{
	sqlite3_stmt *statement;
	const struct lw_diag *diag;
	int status = lw_store_prepare(
		store, "INSERT INTO diag(stage, kind, n, text) VALUES(?1, ?2, ?3, ?4)", &statement);

	if (status < 0)
		return status;
	lw_vec_foreach (diag, &run->diags) {
		sqlite3_bind_text(statement, 1, diag->stage, -1, SQLITE_STATIC);
		sqlite3_bind_text(statement, 2, diag->kind, -1, SQLITE_STATIC);
		sqlite3_bind_int64(statement, 3, (int64_t)diag->n);
		sqlite3_bind_text(statement, 4, diag->text, -1, SQLITE_STATIC);
		status = insert(store, statement);
		if (status < 0)
			break;
	}
	sqlite3_finalize(statement);
	return status;
}

static int store_one(struct lw_run *run, size_t index)
{
	struct lw_store *store = run->stores.at[index];
	const struct lw_rank *rank;
	int status =
		lw_store_exec(store, "BEGIN IMMEDIATE;"
				     "DELETE FROM step; DELETE FROM phase; DELETE FROM overlap;"
				     "DELETE FROM diag WHERE stage IN"
				     " ('load', 'loss', 'match', 'step', 'phase', 'overlap')");

	lw_vec_foreach (rank, &run->ranks) {
		if (rank->store != index)
			continue;
		if (status == LW_OK)
			status = store_steps(store, rank);
		if (status == LW_OK)
			status = store_phases(run, store, rank);
	}
	if (status == LW_OK)
		status = store_diags(run, store);
	return lw_run_end_results(store, status);
}

int lw_run_store_results(struct lw_run *run)
{
	for (size_t i = 0; i < run->stores.n; i++) {
		int status = lw_run_may_store(run, i) ? store_one(run, i) : LW_OK;

		if (status < 0)
			return status;
	}
	return LW_OK;
}
