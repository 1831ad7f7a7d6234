/* SPDX-License-Identifier: Apache-2.0 */
/* captures.c - what captures of packets miss: ended early, packets dropped or not decoded, nothing of the job in them. */
#include <stdio.h>
#include <string.h>

#include "analyzer/load/load.h"

static const char captures_sql[] =
	"SELECT c.device, c.source = 'live', c.n_received, c.n_dropped, c.n_cut + c.n_bad, c.problem,"
	" EXISTS(SELECT 1 FROM flow f WHERE f.capture_id = c.id AND f.process_id IS NOT NULL),"
	" EXISTS(SELECT 1 FROM socket_sample WHERE sent_bytes > 0),"
	" (SELECT group_concat(name, ', ') FROM (SELECT DISTINCT d.name FROM tcp_connection t"
	"  JOIN device d ON d.id = t.device_id WHERE t.process_id IS NOT NULL ORDER BY d.name LIMIT 4))"
	" FROM capture c ORDER BY c.id";

enum column {
	DEVICE,
	IS_LIVE,
	N_RECEIVED,
	N_DROPPED,
	N_UNDECODED,
	PROBLEM,
	HAS_JOB,
	JOB_SENDS,
	JOB_DEVICES
};

static int add_missing(struct lw_loader *loader, const char *who, uint64_t n, const char *what)
{
	loader->run->n_unread++;
	return lw_run_diag(loader->run, "loss", "packets not captured", n, "%s%s", who, what);
}

static int add_capture(struct lw_loader *loader, sqlite3_stmt *row)
{
	const char *device = lw_store_column_text(row, DEVICE);
	const char *problem = lw_store_column_text(row, PROBLEM);
	const char *devices = lw_store_column_text(row, JOB_DEVICES);
	bool is_live = sqlite3_column_int(row, IS_LIVE) != 0;
	int64_t n_dropped = sqlite3_column_int64(row, N_DROPPED);
	int64_t n_undecoded = sqlite3_column_int64(row, N_UNDECODED);
	char who[300];
	int status = LW_OK;

	if (!strncmp(problem, device, strlen(device)) &&
		!strncmp(problem + strlen(device), ": ", 2))
		problem += strlen(device) + 2; /* who says it too */
	snprintf(who, sizeof(who), "%s%.255s: ", is_live ? "--pcap of " : "", device);
	if (*problem)
		status = add_missing(loader, who, 1, problem);
	if (status == LW_OK && n_dropped > 0)
		status = add_missing(loader, who, (uint64_t)n_dropped,
			"packets that the kernel had no room for are in no flow");
	if (status == LW_OK && n_undecoded > 0)
		status = add_missing(loader, who, (uint64_t)n_undecoded,
			"packets whose headers are cut or contradict themselves are in no flow");
	if (status < 0 || !is_live || sqlite3_column_int(row, HAS_JOB) ||
		!sqlite3_column_int(row, JOB_SENDS))
		return status;
	return lw_run_diag(loader->run, "load", "capture without the job", 1,
		"%snone of its %lld packets is of a recorded process%s%s", who,
		(long long)sqlite3_column_int64(row, N_RECEIVED),
		*devices ? ", whose connections go by " : "", devices);
}

int lw_load_captures(struct lw_loader *loader)
{
	return lw_load_each(loader, captures_sql, add_capture);
}
