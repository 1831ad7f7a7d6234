/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_info.c - `lapwing info RUN...`: what is in a run file, straight from its tables. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "analyzer/emit/json.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/info.h"
#include "generated/schema_info.h"
#include "schema/event.h"
#include "schema/leisure.h"
#include "schema/store.h"

/* Tables whose rows are events, in the order in which they are shown. */
static const char *const event_tables[] = {"collective", "message", "ready", "cycle", "batch",
	"batch_tensor", "wait", "range", "socket", "socket_sample", "tcp_sample", "gloo_message",
	"comm", "setting", "hook", "probe", "flow", "packet_bin", "capture_loss", "rdma_port",
	"rdma_qp", "rdma_work", "rdma_memory", "kernel", "copy", "gpu_sync", "launch",
	"gpu_overhead", "nccl_op", "nccl_proxy", "nccl_net"};
enum { N_EVENT_TABLES = sizeof(event_tables) / sizeof(event_tables[0]) };

static const char *const hook_status_names[] = {"?", "active", "absent", "refused"};

struct summary {
	struct lw_store *store;
	char *command, *created_by, *source;
	int64_t created_realtime_ns, exit_code, schema, size_bytes, duration_ns, n_lost, n_losses;
	bool is_closed, has_exit_code;
	struct { /* each rank does the same */
		int64_t n_operations, n_sizes, min_bytes, max_bytes, duration_ns;
	} probe;
	int64_t n_rows[N_EVENT_TABLES];
};

static int read_run_row(struct summary *s)
{
	sqlite3_stmt *row;
	int status = lw_store_prepare(s->store,
		"SELECT created_by, source, command, created_realtime_ns, closed, exit_code FROM run",
		&row);

	if (status < 0)
		return status;
	status = lw_store_step(s->store, row);
	if (status == 1) {
		s->created_by = strdup(lw_store_column_text(row, 0));
		s->source = strdup(lw_store_column_text(row, 1));
		s->command = strdup(lw_store_column_text(row, 2));
		s->created_realtime_ns = sqlite3_column_int64(row, 3);
		s->is_closed = sqlite3_column_int(row, 4);
		s->has_exit_code = sqlite3_column_type(row, 5) != SQLITE_NULL;
		s->exit_code = sqlite3_column_int64(row, 5);
	}
	sqlite3_finalize(row);
	if (status == 0)
		return lw_fail(LW_ERR_FORMAT, "%s: damaged: table run is empty", s->store->path);
	if (status == 1 && (!s->created_by || !s->source || !s->command))
		return lw_fail(LW_ERR_NOMEM, "no memory");
	return status < 0 ? status : LW_OK;
}

static int read_probe(struct summary *s)
{
	sqlite3_stmt *row;
	int status = lw_store_prepare(s->store,
		"SELECT count(DISTINCT number), count(DISTINCT bytes), coalesce(min(bytes), 0),"
		" coalesce(max(bytes), 0), coalesce(max(end_ns) - min(start_ns), 0) FROM probe",
		&row);

	if (status < 0)
		return status;
	status = lw_store_step(s->store, row);
	if (status == 1) {
		s->probe.n_operations = sqlite3_column_int64(row, 0);
		s->probe.n_sizes = sqlite3_column_int64(row, 1);
		s->probe.min_bytes = sqlite3_column_int64(row, 2);
		s->probe.max_bytes = sqlite3_column_int64(row, 3);
		s->probe.duration_ns = sqlite3_column_int64(row, 4);
	}
	sqlite3_finalize(row);
	return status < 0 ? status : LW_OK;
}

static int read_summary(struct summary *s)
{
	struct stat st;
	int status = read_run_row(s);

	if (status == LW_OK)
		status = lw_store_int(s->store, "PRAGMA user_version", &s->schema);
	if (status == LW_OK)
		status = lw_store_int(s->store,
			/* of one that was killed the last that was seen, of itself or its connections */
			"SELECT coalesce((SELECT max(ns) FROM (SELECT max(max(coalesce(end_ns, start_ns)),"
			" coalesce(max(seen_ns), 0)) - min(start_ns) AS ns FROM process LEFT JOIN"
			" (SELECT process_id, max(last_ns) AS seen_ns FROM tcp_connection GROUP BY process_id)"
			" ON process_id = process.id GROUP BY host_id)),"
			" (SELECT max(last_ns) - min(first_ns) FROM packet_bin),"
			" (SELECT max(at_ns) - min(at_ns) FROM counter_sample), 0)",
			&s->duration_ns);
	if (status == LW_OK)
		status = lw_store_int(s->store,
			"SELECT (SELECT coalesce(sum(n_lost), 0) FROM thread)", &s->n_lost);
	if (status == LW_OK)
		status = lw_store_int(s->store,
			"SELECT (SELECT count(*) FROM loss) + (SELECT count(*) FROM capture"
			" WHERE n_dropped OR problem IS NOT NULL OR n_cut + n_bad)",
			&s->n_losses);
	if (status == LW_OK)
		status = read_probe(s);
	for (size_t i = 0; i < N_EVENT_TABLES && status == LW_OK; i++) {
		char sql[64];

		snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", event_tables[i]);
		status = lw_store_int(s->store, sql, &s->n_rows[i]);
	}
	if (stat(s->store->path, &st) == 0)
		s->size_bytes = st.st_size;
	return status;
}

static const char processes_sql[] =
	"SELECT p.pid, p.rank, p.size, p.local_rank, p.local_size, h.name, p.framework, p.transport, s.text,"
	" p.start_ns, p.end_ns, p.ended, coalesce(sum(t.n_stored), 0), coalesce(sum(t.n_lost), 0)"
	" FROM process p LEFT JOIN host h ON h.id = p.host_id LEFT JOIN string s ON s.id = p.command_id"
	" LEFT JOIN thread t ON t.process_id = p.id GROUP BY p.id ORDER BY p.rank IS NULL, p.rank, p.pid";
static const char hooks_sql[] =
	"SELECT n.text, k.status, count(DISTINCT k.process_id), max(k.n_slots), d.text"
	" FROM hook k LEFT JOIN string n ON n.id = k.name_id LEFT JOIN string d ON d.id = k.detail_id"
	" GROUP BY n.text, k.status, d.text ORDER BY n.text, k.status, d.text";
static const char losses_sql[] = "SELECT reason, sum(n), detail, min(process_id) FROM loss"
				 " GROUP BY reason, detail ORDER BY reason, detail";

static void print_process(sqlite3_stmt *row, struct lw_json *json)
{
	const char *framework = lw_framework_name(sqlite3_column_int(row, 6));
	const char *transport = lw_transport_name(sqlite3_column_int(row, 7));
	char rank[48] = "no rank", duration[LW_UNIT_TEXT_BYTES] = "?";
	char host[300] = ""; /* other tools' traces name none */

	(void)json;
	if (sqlite3_column_type(row, 1) != SQLITE_NULL)
		snprintf(rank, sizeof(rank), "rank %d of %s", sqlite3_column_int(row, 1),
			*lw_store_column_text(row, 2) ? lw_store_column_text(row, 2) : "?");
	if (sqlite3_column_type(row, 10) != SQLITE_NULL)
		lw_ns_format((double)(sqlite3_column_int64(row, 10) - sqlite3_column_int64(row, 9)),
			duration);
	if (strcmp(lw_store_column_text(row, 5), "unknown") != 0)
		snprintf(host, sizeof(host), " on %s", lw_store_column_text(row, 5));
	printf("  process    %s, pid %s%s%s%s%s%s, %s, %s, %s events, %s lost\n", rank,
		lw_store_column_text(row, 0), host, *framework ? ", " : "", framework,
		*transport ? " over " : "", transport, duration,
		*lw_store_column_text(row, 11) ? lw_store_column_text(row, 11) : "end not recorded",
		lw_store_column_text(row, 12), lw_store_column_text(row, 13));
}

static const char *hook_status(sqlite3_stmt *row)
{
	int status = sqlite3_column_int(row, 1);

	return hook_status_names[status > 0 && status <= LW_HOOK_REFUSED ? status : 0];
}

static void print_hook(sqlite3_stmt *row, struct lw_json *json)
{
	const char *detail = lw_store_column_text(row, 4);

	(void)json;
	printf("  hook       %-20s %-8s in %s process(es), %s function(s)%s%s\n",
		lw_store_column_text(row, 0), hook_status(row), lw_store_column_text(row, 2),
		lw_store_column_text(row, 3), *detail ? ": " : "", detail);
}

static const char *loss_reason(sqlite3_stmt *row)
{
	const char *name = lw_loss_reason_name(sqlite3_column_int(row, 0));

	return name ? name : "unknown reason";
}

static void print_loss(sqlite3_stmt *row, struct lw_json *json)
{
	const char *detail = lw_store_column_text(row, 2);

	(void)json;
	printf("  loss       %s x %s%s%s\n", lw_store_column_text(row, 1), loss_reason(row),
		*detail ? ": " : "", detail);
}

static void print_probe(const struct summary *s)
{
	char min[LW_UNIT_TEXT_BYTES], max[LW_UNIT_TEXT_BYTES], duration[LW_UNIT_TEXT_BYTES];

	if (s->probe.n_operations)
		printf("  probe      %lld collectives of %lld sizes, %s to %s, in %s before the"
		       " job's own (record --probe)\n",
			(long long)s->probe.n_operations, (long long)s->probe.n_sizes,
			lw_bytes_format((double)s->probe.min_bytes, min),
			lw_bytes_format((double)s->probe.max_bytes, max),
			lw_ns_format((double)s->probe.duration_ns, duration));
}

static int print_text(struct summary *s)
{
	char text[LW_UNIT_TEXT_BYTES], when[32] = "?";
	time_t seconds = (time_t)(s->created_realtime_ns / LW_NS_PER_S);
	struct tm tm;
	int status;

	if (gmtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%s\n  command    %s\n  recorded   %s UTC", s->store->path,
		*s->command ? s->command : "(not known)", when);
	printf(", %s, by %s (%s)\n", lw_ns_format((double)s->duration_ns, text), s->created_by,
		s->source);
	printf("  file       %s, schema %d\n", lw_bytes_format((double)s->size_bytes, text),
		(int)s->schema);
	if (s->is_closed)
		printf("  state      complete%s\n",
			lw_leisure_is_busy(s->store->path) ? "; is being analysed" : "");
	else
		printf("  state      NOT CLOSED: still being written, or its collector died"
		       " (`lapwing salvage` finishes it)\n");
	print_probe(s);
	status = lw_info_each(s->store, processes_sql, print_process, NULL);
	if (status == LW_OK)
		status = lw_info_each(s->store, hooks_sql, print_hook, NULL);
	if (status == LW_OK)
		status = lw_info_print_gpus(s->store);
	if (status == LW_OK)
		status = lw_info_print_marks(s->store);
	if (status == LW_OK)
		status = lw_info_print_network(s->store);
	for (size_t i = 0; i < N_EVENT_TABLES; i++)
		if (s->n_rows[i])
			printf("  rows       %-14s %lld\n", event_tables[i],
				(long long)s->n_rows[i]);
	printf("  lost       %lld event(s)\n", (long long)s->n_lost);
	if (status == LW_OK)
		status = lw_info_each(s->store, losses_sql, print_loss, NULL);
	return status;
}

static void put_process(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	lw_info_put_int(json, "pid", row, 0);
	lw_info_put_int(json, "rank", row, 1);
	lw_info_put_int(json, "size", row, 2);
	lw_info_put_int(json, "local_rank", row, 3);
	lw_info_put_int(json, "local_size", row, 4);
	lw_info_put_text(json, "host", row, 5);
	lw_json_string(json, "framework", lw_framework_name(sqlite3_column_int(row, 6)));
	lw_json_string(json, "transport", lw_transport_name(sqlite3_column_int(row, 7)));
	lw_info_put_text(json, "command", row, 8);
	lw_info_put_int(json, "start_ns", row, 9);
	lw_info_put_int(json, "end_ns", row, 10);
	lw_info_put_text(json, "ended", row, 11);
	lw_info_put_int(json, "n_events", row, 12);
	lw_info_put_int(json, "n_lost", row, 13);
	lw_json_object_end(json);
}

static void put_hook(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	lw_info_put_text(json, "name", row, 0);
	lw_json_string(json, "status", hook_status(row));
	lw_info_put_int(json, "n_processes", row, 2);
	lw_info_put_int(json, "n_slots", row, 3);
	lw_info_put_text(json, "detail", row, 4);
	lw_json_object_end(json);
}

static void put_loss(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	lw_json_string(json, "reason", loss_reason(row));
	lw_info_put_int(json, "n", row, 1);
	lw_info_put_text(json, "detail", row, 2);
	lw_json_object_end(json);
}

static int put_json(struct summary *s, struct lw_json *json)
{
	int status;

	lw_json_object(json, NULL);
	lw_json_string(json, "path", s->store->path);
	lw_json_int(json, "size_bytes", s->size_bytes);
	lw_json_int(json, "schema", s->schema);
	lw_json_string(json, "created_by", s->created_by);
	lw_json_string(json, "source", s->source);
	lw_json_string(json, "command", s->command);
	lw_json_int(json, "created_realtime_ns", s->created_realtime_ns);
	lw_json_int(json, "duration_ns", s->duration_ns);
	lw_json_bool(json, "closed", s->is_closed);
	if (s->has_exit_code)
		lw_json_int(json, "exit_code", s->exit_code);
	else
		lw_json_null(json, "exit_code");
	lw_json_object(json, "probe");
	lw_json_int(json, "n_operations", s->probe.n_operations);
	lw_json_int(json, "n_sizes", s->probe.n_sizes);
	lw_json_int(json, "min_bytes", s->probe.min_bytes);
	lw_json_int(json, "max_bytes", s->probe.max_bytes);
	lw_json_int(json, "duration_ns", s->probe.duration_ns);
	lw_json_object_end(json);
	lw_json_array(json, "processes");
	status = lw_info_each(s->store, processes_sql, put_process, json);
	lw_json_array_end(json);
	lw_json_array(json, "hooks");
	if (status == LW_OK)
		status = lw_info_each(s->store, hooks_sql, put_hook, json);
	lw_json_array_end(json);
	if (status == LW_OK)
		status = lw_info_put_gpus(s->store, json);
	if (status == LW_OK)
		status = lw_info_put_marks(s->store, json);
	if (status == LW_OK)
		status = lw_info_put_network(s->store, json);
	lw_json_object(json, "rows");
	for (size_t i = 0; i < N_EVENT_TABLES; i++)
		lw_json_int(json, event_tables[i], s->n_rows[i]);
	lw_json_object_end(json);
	lw_json_int(json, "n_lost", s->n_lost);
	lw_json_array(json, "loss");
	if (status == LW_OK)
		status = lw_info_each(s->store, losses_sql, put_loss, json);
	lw_json_array_end(json);
	lw_json_object_end(json);
	return status;
}

/* Return: an exit code. */
static int show(const char *path, struct lw_json *json)
{
	struct summary s = {0};
	int status = lw_store_open(path, LW_STORE_READ, &s.store), code = LW_EXIT_OK;

	if (status == LW_OK)
		status = read_summary(&s);
	if (status == LW_OK)
		status = json ? put_json(&s, json) : print_text(&s);
	if (status < 0)
		code = lw_cli_fail(status);
	else if (!s.is_closed || s.n_losses)
		code = LW_EXIT_INCOMPLETE;
	lw_store_close(s.store);
	free(s.command);
	free(s.created_by);
	free(s.source);
	return code;
}

int lw_cmd_info(int argc, char **argv)
{
	static const struct argp_child children[] = {{&lw_cli_runs_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {NULL, NULL, NULL,
		"Says what is in a run file: host, processes, hooks, devices, rows of each table, what was lost."
		"\vExit codes: 0 complete, 3 not closed or something was lost, 1 not readable.",
		children, NULL, NULL};
	struct lw_cli_runs runs = {.json.schema = schema_info};
	struct lw_json *json = NULL;
	int code = LW_EXIT_OK;

	lw_cli_parse(&argp, argc, argv, 0, &runs);
	if (runs.json.is_wanted) {
		json = lw_json_open();
		if (!json)
			return lw_cli_fail(LW_ERR_NOMEM);
		lw_json_object(json, NULL);
		lw_json_string(json, "lapwing", "info");
		lw_json_int(json, "schema_version", 1);
		lw_json_array(json, "runs");
	}
	for (size_t i = 0; i < runs.n_paths; i++) {
		int one = show(runs.paths[i], json);

		/* failed is worse than incomplete */
		if (code != LW_EXIT_FAILED && one != LW_EXIT_OK)
			code = one;
	}
	if (json) {
		int status;

		lw_json_array_end(json);
		lw_json_object_end(json);
		status = lw_json_close(json, stdout);
		if (status < 0)
			code = lw_cli_fail(status);
	}
	return code;
}
