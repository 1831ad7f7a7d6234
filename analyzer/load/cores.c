/* SPDX-License-Identifier: Apache-2.0 */
/* cores.c - what each rank may use of its host's cores, and the CPU time of it and of its training thread. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"
#include "base/cpulist.h"

static int add_limit(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_process(loader, sqlite3_column_int64(row, 0));
	const char *cpus = lw_store_column_text(row, 1);
	double quota_cores = sqlite3_column_double(row, 2);

	if (!rank || !lw_cpulist_add(cpus, NULL))
		return LW_OK;
	free(rank->cpus); /* an earlier one: before it was bound */
	rank->cpus = strdup(cpus);
	rank->quota_cores = quota_cores > 0 && quota_cores < LW_CPUS_MAX ? quota_cores : 0;
	return rank->cpus ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory");
}

static bool is_time(int64_t ns)
{
	return ns >= 0 && ns <= LW_LOAD_TIME_MAX_NS;
}

static int add_sample(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_process(loader, sqlite3_column_int64(row, 0));
	bool is_process = sqlite3_column_type(row, 1) == SQLITE_NULL;
	int64_t user_ns = sqlite3_column_int64(row, 3), system_ns = sqlite3_column_int64(row, 4);
	struct lw_cpu_sample sample = {sqlite3_column_int64(row, 2), 0, LW_NS_UNKNOWN};

	if (!rank || !(is_process || sqlite3_column_int64(row, 1) == rank->training_thread_id))
		return LW_OK;
	if (sqlite3_column_type(row, 5) != SQLITE_NULL)
		sample.waited_ns = sqlite3_column_int64(row, 5);
	if (!is_time(sample.at_ns) || !is_time(user_ns) || !is_time(system_ns) ||
		(sample.waited_ns != LW_NS_UNKNOWN && !is_time(sample.waited_ns))) {
		loader->n_bad_rows++;
		return LW_OK;
	}
	sample.used_ns = user_ns + system_ns;
	return is_process ? lw_vec_push(&rank->cpu, sample)
			  : lw_vec_push(&rank->training_cpu, sample);
}

int lw_load_cores(struct lw_loader *loader)
{
	int status = lw_load_each(loader,
		"SELECT process_id, allowed, quota_frac FROM cores ORDER BY at_ns, rowid",
		add_limit);

	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT process_id, thread_id, at_ns, user_ns, system_ns, waited_ns"
			" FROM cpu_sample ORDER BY at_ns, rowid",
			add_sample);
	return status;
}
