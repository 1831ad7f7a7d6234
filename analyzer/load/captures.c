/* SPDX-License-Identifier: Apache-2.0 */
/* captures.c - what captures of packets miss: ended early, packets dropped (and when) or not decoded, nothing of the job in them. */
#include <stdio.h>
#include <string.h>

#include "analyzer/load/load.h"
#include "base/units.h"

static const char captures_sql[] =
	"SELECT c.device, c.source = 'live', c.n_received, c.n_dropped, c.n_cut + c.n_bad, c.problem,"
	" EXISTS(SELECT 1 FROM flow f WHERE f.capture_id = c.id AND f.process_id IS NOT NULL),"
	" EXISTS(SELECT 1 FROM socket_sample WHERE sent_bytes > 0),"
	" (SELECT group_concat(name, ', ') FROM (SELECT DISTINCT d.name FROM tcp_connection t"
	"  JOIN device d ON d.id = t.device_id WHERE t.process_id IS NOT NULL ORDER BY d.name LIMIT 4)),"
	" l.n, coalesce(l.ns, 0), coalesce(l.first_ns - c.start_ns, 0)"
	" FROM capture c LEFT JOIN (SELECT capture_id, count(*) AS n, sum(end_ns - start_ns) AS ns,"
	" min(start_ns) AS first_ns FROM capture_loss WHERE n AND end_ns >= start_ns GROUP BY capture_id) l"
	" ON l.capture_id = c.id ORDER BY c.id";

static const char gaps_sql[] =
	"SELECT l.capture_id, l.start_ns, l.end_ns, l.n, c.device, h.boot_id, h.clock FROM capture_loss l"
	" JOIN capture c ON c.id = l.capture_id LEFT JOIN host h ON h.id = c.host_id"
	" ORDER BY l.capture_id, l.start_ns, l.end_ns";

enum column {
	DEVICE,
	IS_LIVE,
	N_RECEIVED,
	N_DROPPED,
	N_UNDECODED,
	PROBLEM,
	HAS_JOB,
	JOB_SENDS,
	JOB_DEVICES,
	N_GAPS,
	GAPS_NS,
	FIRST_GAP_NS
};

static int add_gap(struct lw_loader *loader, sqlite3_stmt *row)
{
	int64_t n = sqlite3_column_int64(row, 3);
	struct lw_capture_gap gap = {.store = loader->store_index,
		.capture_id = sqlite3_column_int64(row, 0),
		.start_ns = sqlite3_column_int64(row, 1),
		.end_ns = sqlite3_column_int64(row, 2),
		.n = n > 0 ? (uint64_t)n : 0,
		.clock = lw_load_clock(
			loader->store, lw_store_column_text(row, 5), lw_store_column_text(row, 6))};

	if (!lw_load_is_time(gap.start_ns) || !lw_load_is_time(gap.end_ns) ||
		gap.end_ns < gap.start_ns) {
		loader->n_bad_traffic++;
		return LW_OK;
	}
	snprintf(gap.device, sizeof(gap.device), "%s", lw_store_column_text(row, 4));
	return lw_vec_push(&loader->run->capture_gaps, gap);
}

static int add_missing(struct lw_loader *loader, const char *who, uint64_t n, const char *what)
{
	loader->run->n_unread++;
	return lw_run_diag(loader->run, "loss", "packets not captured", n, "%s%s", who, what);
}

/* Packets that the kernel had no room for: when. */
static int add_dropped(struct lw_loader *loader, const char *who, sqlite3_stmt *row)
{
	int64_t n_gaps = sqlite3_column_int64(row, N_GAPS);
	char when[120] = "", in_all[LW_UNIT_TEXT_BYTES], first[LW_UNIT_TEXT_BYTES], text[240];

	if (n_gaps > 0)
		snprintf(when, sizeof(when),
			"; it is incomplete in %lld interval%s, %s in all, from %s after its start on",
			(long long)n_gaps, n_gaps == 1 ? "" : "s",
			lw_ns_format(sqlite3_column_double(row, GAPS_NS), in_all),
			lw_ns_format(sqlite3_column_double(row, FIRST_GAP_NS), first));
	snprintf(text, sizeof(text), "packets that the kernel had no room for are in no flow%s",
		when);
	return add_missing(loader, who, (uint64_t)sqlite3_column_int64(row, N_DROPPED), text);
}

static int add_capture(struct lw_loader *loader, sqlite3_stmt *row)
{
	const char *device = lw_store_column_text(row, DEVICE);
	const char *problem = lw_store_column_text(row, PROBLEM);
	const char *devices = lw_store_column_text(row, JOB_DEVICES);
	bool is_live = sqlite3_column_int(row, IS_LIVE) != 0;
	int64_t n_undecoded = sqlite3_column_int64(row, N_UNDECODED);
	char who[300];
	int status = LW_OK;

	if (!strncmp(problem, device, strlen(device)) &&
		!strncmp(problem + strlen(device), ": ", 2))
		problem += strlen(device) + 2; /* who says it too */
	snprintf(who, sizeof(who), "%s%.255s: ", is_live ? "--pcap of " : "", device);
	if (*problem)
		status = add_missing(loader, who, 1, problem);
	if (status == LW_OK && sqlite3_column_int64(row, N_DROPPED) > 0)
		status = add_dropped(loader, who, row);
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
	int status = lw_load_each(loader, captures_sql, add_capture);

	return status == LW_OK ? lw_load_each(loader, gaps_sql, add_gap) : status;
}
