/* SPDX-License-Identifier: Apache-2.0 */
/* findings.c - what a store itself says is missing: table loss, refused hooks. */
#include <stdio.h>
#include <string.h>

#include "analyzer/load/load.h"

/* The kind of a diag is static text: take it from the contract's table. */
static int add_loss(struct lw_loader *loader, sqlite3_stmt *row)
{
	int reason = sqlite3_column_int(row, 0);
	int64_t n = sqlite3_column_int64(row, 1);
	const char *kind = lw_loss_reason_name(reason), *detail = lw_store_column_text(row, 2);
	char who[48] = "";

	if (n <= 0)
		return LW_OK;
	loader->run->is_cut_off |= reason == LW_LOSS_TORN &&
				   !strncmp(detail, LW_LOSS_CUT_OFF, strlen(LW_LOSS_CUT_OFF));
	if (reason == LW_LOSS_UNENDED || reason == LW_LOSS_UNSEEN)
		loader->run->n_unended += (uint64_t)n;
	if (reason == LW_LOSS_TORN)
		loader->run->n_torn += (uint64_t)n;
	if (reason == LW_LOSS_NOT_SAMPLED)
		loader->run->n_unread += (uint64_t)n;
	else if (reason != LW_LOSS_DIED && reason != LW_LOSS_RUNNING)
		loader->run->n_lost += (uint64_t)n;
	if (sqlite3_column_type(row, 3) != SQLITE_NULL)
		snprintf(who, sizeof(who), "rank %d: ", sqlite3_column_int(row, 3));
	return lw_run_diag(loader->run, "loss", kind ? kind : "unknown reason", (uint64_t)n,
		"%s%s%s%s", who, kind ? kind : "records missing", *detail ? ": " : "", detail);
}

static int add_refused(struct lw_loader *loader, sqlite3_stmt *row)
{
	const char *detail = lw_store_column_text(row, 1);

	if (!strcmp(lw_store_column_text(row, 0), "probe")) /* no hook to a reader */
		return lw_run_diag(loader->run, "load", "no probe",
			(uint64_t)sqlite3_column_int64(row, 2),
			"a probe was asked for, and there was none%s%s", *detail ? ": " : "",
			detail);
	return lw_run_diag(loader->run, "load", "hook refused",
		(uint64_t)sqlite3_column_int64(row, 2), "hook %s is not in place%s%s",
		lw_store_column_text(row, 0), *detail ? ": " : "", detail);
}

/* The collector counts a death as a loss; a store that only says so of the process is no better off. */
static int add_death(struct lw_loader *loader, sqlite3_stmt *row)
{
	const char *kind = lw_loss_reason_name(LW_LOSS_DIED);

	return lw_run_diag(loader->run, "loss", kind, 1, "rank %d: %s: pid %d",
		sqlite3_column_int(row, 0), kind, sqlite3_column_int(row, 1));
}

int lw_load_bad_traffic(const struct lw_loader *loader)
{
	if (!loader->n_bad_traffic)
		return LW_OK;
	return lw_run_diag(loader->run, "load", "bad rows", loader->n_bad_traffic,
		"%s: rows of network counters with impossible times or counts, not used",
		loader->store->path);
}

int lw_load_findings(struct lw_loader *loader)
{
	int status = lw_load_each(loader,
		"SELECT l.reason, sum(l.n), l.detail, p.rank FROM loss l"
		" LEFT JOIN thread t ON t.id = l.thread_id"
		" LEFT JOIN process p ON p.id = coalesce(l.process_id, t.process_id)"
		" GROUP BY l.reason, l.detail, p.rank ORDER BY l.reason, p.rank, l.detail",
		add_loss);

	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT rank, pid FROM process WHERE ended = 'died' AND rank >= 0 AND NOT EXISTS(SELECT 1"
			" FROM loss l WHERE l.process_id = process.id AND l.reason = 10) ORDER BY rank, pid",
			add_death);
	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT n.text, d.text, count(DISTINCT k.process_id) FROM hook k"
			" LEFT JOIN string n ON n.id = k.name_id LEFT JOIN string d ON d.id = k.detail_id"
			" WHERE k.status = 3 GROUP BY n.text, d.text ORDER BY n.text, d.text",
			add_refused);
	return status;
}
static_assert(LW_LOSS_DIED == 10, "the query of deaths");
static_assert(LW_HOOK_REFUSED == 3, "the query of refused hooks");
