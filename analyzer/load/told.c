/* SPDX-License-Identifier: Apache-2.0 */
/* told.c - who told of GPUs and NCCL, and who could not: table hook, and what a run was imported from. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"

/* Several stores may say the same. */
static int add(struct lw_run *run, const char *name, const char *detail, int status, int64_t n)
{
	struct lw_told told = {.status = status, .n_processes = n > 0 ? (uint32_t)n : 0}, *old;

	lw_vec_foreach (old, &run->told)
		if (old->status == status && !strcmp(old->name, name) &&
			!strcmp(old->detail, detail)) {
			old->n_processes += told.n_processes;
			return LW_OK;
		}
	told.name = strdup(name);
	told.detail = strdup(detail);
	if (told.name && told.detail && lw_vec_push(&run->told, told) == LW_OK)
		return LW_OK;
	free(told.name);
	free(told.detail);
	return lw_fail(LW_ERR_NOMEM, "no memory");
}

static int add_hook(struct lw_loader *loader, sqlite3_stmt *row)
{
	return add(loader->run, lw_store_column_text(row, 0), lw_store_column_text(row, 1),
		sqlite3_column_int(row, 2), sqlite3_column_int64(row, 3));
}

static int by_name(const void *a, const void *b)
{
	const struct lw_told *x = a, *y = b;
	int by = strcmp(x->name, y->name);

	if (by)
		return by;
	return x->status != y->status ? (x->status > y->status) - (x->status < y->status)
				      : strcmp(x->detail, y->detail);
}

int lw_load_told(struct lw_loader *loader)
{
	int status = lw_load_each(loader,
		"SELECT n.text, coalesce(d.text, ''), k.status, count(DISTINCT k.process_id) FROM hook k"
		" JOIN string n ON n.id = k.name_id LEFT JOIN string d ON d.id = k.detail_id"
		" WHERE n.text GLOB 'cupti*' OR n.text GLOB 'cuda*' OR n.text GLOB 'nccl*'"
		" OR n.text GLOB 'nvtx*' OR n.text GLOB 'nvml*'"
		" GROUP BY n.text, k.status, d.text ORDER BY n.text, k.status, d.text",
		add_hook);

	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT source, '', 1, (SELECT count(*) FROM process) FROM run"
			" WHERE source NOT IN ('trace', 'pcap', 'horovod_timeline')",
			add_hook);
	if (loader->run->told.n > 1)
		qsort(loader->run->told.at, loader->run->told.n, sizeof(*loader->run->told.at),
			by_name);
	return status;
}
static_assert(LW_HOOK_ACTIVE == 1, "the query of importers");
