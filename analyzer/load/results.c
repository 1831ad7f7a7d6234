/* SPDX-License-Identifier: Apache-2.0 */
/* results.c - which store results go into, and that they go there whole or not at all. */
#include "analyzer/run.h"

bool lw_run_may_store(const struct lw_run *run, size_t index)
{
	struct lw_store *store = run->stores.at[index];
	int64_t closed = 0;

	if (store->is_read_only)
		return false;
	if (lw_store_int(store, "SELECT closed FROM run", &closed) < 0)
		lw_error_clear(); /* then it is not closed */
	return closed != 0;
}

int lw_run_begin_results(struct lw_run *run, const char *sql, struct lw_store **ret_store)
{
	for (size_t i = 0; i < run->stores.n; i++) {
		int status;

		if (!lw_run_may_store(run, i))
			continue;
		*ret_store = run->stores.at[i];
		status = lw_store_exec(*ret_store, "BEGIN IMMEDIATE");
		if (status < 0)
			return status;
		status = lw_store_exec(*ret_store, sql);
		return status < 0 ? lw_run_end_results(*ret_store, status) : 1;
	}
	return 0;
}

int lw_run_end_results(struct lw_store *store, int status)
{
	if (status == LW_OK)
		status = lw_store_exec(store, "COMMIT");
	if (status < 0)
		sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
	return status;
}

int lw_run_settle(struct lw_run *run)
{
	int status = LW_OK;
	bool is_set;

	for (size_t i = 0; i < run->stores.n && status == LW_OK; i++)
		if (lw_run_may_store(run, i))
			status = lw_store_set_journal(run->stores.at[i], "delete", &is_set);
	return status;
}
