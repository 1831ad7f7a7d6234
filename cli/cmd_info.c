/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_info.c - `lapwing info RUN...`: what is in a run file, straight from its tables. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "analyzer/emit/json.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "generated/schema_info.h"
#include "schema/event.h"
#include "schema/leisure.h"
#include "schema/store.h"

/* Tables whose rows are events, in the order in which they are shown. */
static const char *const event_tables[] = {"collective", "message", "ready", "cycle", "batch",
	"batch_tensor", "wait", "range", "socket", "socket_sample", "tcp_sample", "gloo_message",
	"comm", "setting", "hook", "probe", "flow", "packet_bin", "capture_loss", "rdma_port",
	"rdma_qp", "rdma_work", "rdma_memory"};
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
			"SELECT coalesce(max(coalesce(end_ns, start_ns)) - min(start_ns), 0) FROM process",
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

/* Calls @row for every row of @sql. */
static int each(struct summary *s, const char *sql,
	void (*row)(sqlite3_stmt *row, struct lw_json *json), struct lw_json *json)
{
	sqlite3_stmt *rows;
	int status = lw_store_prepare(s->store, sql, &rows);

	if (status < 0)
		return status;
	while ((status = lw_store_step(s->store, rows)) == 1)
		row(rows, json);
	sqlite3_finalize(rows);
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

static const char devices_sql[] =
	"SELECT kind, name, driver, coalesce(rx_bytes, 0), coalesce(tx_bytes, 0), n_samples,"
	" speed_bytes_per_s, mtu_bytes, namespace_key, addresses, first_ns, gone_ns, on_name FROM v_device"
	" ORDER BY kind, coalesce(rx_bytes, 0) + coalesce(tx_bytes, 0) DESC, name, first_ns";
static const char samplers_sql[] =
	"SELECT name, period_ns, actual_period_ns, n_samples, n_late, n_failed, cpu_ns FROM sampler"
	" ORDER BY name";
static const char connections_sql[] =
	"SELECT count(*) FILTER (WHERE process_id IS NOT NULL), count(DISTINCT process_id),"
	" count(*) FILTER (WHERE process_id IS NULL), (SELECT count(*) FROM tcp_info_sample)"
	" FROM tcp_connection";
static const char captures_sql[] =
	"SELECT device, source, filter, n_received, n_dropped, clock_error_ns, problem, n_cut + n_bad,"
	" (SELECT count(*) FROM capture_loss l WHERE l.capture_id = c.id AND l.n) FROM capture c ORDER BY id";

static void print_process(sqlite3_stmt *row, struct lw_json *json)
{
	const char *framework = lw_framework_name(sqlite3_column_int(row, 6));
	const char *transport = lw_transport_name(sqlite3_column_int(row, 7));
	char rank[48] = "no rank", duration[LW_UNIT_TEXT_BYTES] = "?";

	(void)json;
	if (sqlite3_column_type(row, 1) != SQLITE_NULL)
		snprintf(rank, sizeof(rank), "rank %d of %s", sqlite3_column_int(row, 1),
			*lw_store_column_text(row, 2) ? lw_store_column_text(row, 2) : "?");
	if (sqlite3_column_type(row, 10) != SQLITE_NULL)
		lw_ns_format((double)(sqlite3_column_int64(row, 10) - sqlite3_column_int64(row, 9)),
			duration);
	printf("  process    %s, pid %s on %s%s%s%s%s, %s, %s, %s events, %s lost\n", rank,
		lw_store_column_text(row, 0), lw_store_column_text(row, 5), *framework ? ", " : "",
		framework, *transport ? " over " : "", transport, duration,
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

static void print_capture(sqlite3_stmt *row, struct lw_json *json)
{
	const char *filter = lw_store_column_text(row, 2), *problem = lw_store_column_text(row, 6);
	char error[LW_UNIT_TEXT_BYTES];

	(void)json;
	printf("  capture    %s%s%s%s: %s packets, times within %s of the clock",
		lw_store_column_text(row, 0), *filter ? " (" : "", filter, *filter ? ")" : "",
		lw_store_column_text(row, 3), lw_ns_format(sqlite3_column_double(row, 5), error));
	if (sqlite3_column_int64(row, 4))
		printf("; INCOMPLETE: %s dropped in %s interval(s)", lw_store_column_text(row, 4),
			lw_store_column_text(row, 8));
	if (sqlite3_column_int64(row, 7))
		printf("; %s not decoded", lw_store_column_text(row, 7));
	printf("%s%s\n", *problem ? "; " : "", problem);
}

static void print_device(sqlite3_stmt *row, struct lw_json *json)
{
	double rx_bytes = (double)sqlite3_column_int64(row, 3);
	double tx_bytes = (double)sqlite3_column_int64(row, 4);
	const char *detail = lw_store_column_text(row, *lw_store_column_text(row, 12) ? 12 : 2);
	char in[LW_UNIT_TEXT_BYTES], out[LW_UNIT_TEXT_BYTES], speed[LW_UNIT_TEXT_BYTES] = "";

	(void)json;
	if (rx_bytes + tx_bytes <= 0) /* hosts of containers have hundreds of these */
		return;
	if (sqlite3_column_type(row, 6) != SQLITE_NULL)
		lw_rate_format((double)sqlite3_column_int64(row, 6), speed);
	printf("  device     %s%s%s%s%s%s: %s in, %s out, %s samples%s\n",
		lw_store_column_text(row, 1), *detail ? " (" : "", detail, *detail ? ")" : "",
		*speed ? ", " : "", speed, lw_bytes_format(rx_bytes, in),
		lw_bytes_format(tx_bytes, out), lw_store_column_text(row, 5),
		sqlite3_column_type(row, 11) != SQLITE_NULL ? ", gone before the end" : "");
}

static void print_connections(sqlite3_stmt *row, struct lw_json *json)
{
	(void)json;
	if (sqlite3_column_int64(row, 0) + sqlite3_column_int64(row, 2))
		printf("  tcp        %s connections of %s process(es), %s of others, %s samples\n",
			lw_store_column_text(row, 0), lw_store_column_text(row, 1),
			lw_store_column_text(row, 2), lw_store_column_text(row, 3));
}

static void print_sampler(sqlite3_stmt *row, struct lw_json *json)
{
	int64_t period_ns = sqlite3_column_int64(row, 1), actual_ns = sqlite3_column_int64(row, 2);
	char period[LW_UNIT_TEXT_BYTES], actual[LW_UNIT_TEXT_BYTES];

	(void)json;
	if (actual_ns > period_ns)
		printf("  sampler    %s looked every %s, not every %s: one look costs too much here\n",
			lw_store_column_text(row, 0), lw_ns_format((double)actual_ns, actual),
			lw_ns_format((double)period_ns, period));
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
	status = each(s, processes_sql, print_process, NULL);
	if (status == LW_OK)
		status = each(s, hooks_sql, print_hook, NULL);
	if (status == LW_OK)
		status = each(s, devices_sql, print_device, NULL);
	if (status == LW_OK)
		status = each(s, connections_sql, print_connections, NULL);
	if (status == LW_OK)
		status = each(s, samplers_sql, print_sampler, NULL);
	if (status == LW_OK)
		status = each(s, captures_sql, print_capture, NULL);
	for (size_t i = 0; i < N_EVENT_TABLES; i++)
		if (s->n_rows[i])
			printf("  rows       %-14s %lld\n", event_tables[i],
				(long long)s->n_rows[i]);
	printf("  lost       %lld event(s)\n", (long long)s->n_lost);
	if (status == LW_OK)
		status = each(s, losses_sql, print_loss, NULL);
	return status;
}

/* Column @i as an integer, null where the store has NULL. */
static void put_int(struct lw_json *json, const char *key, sqlite3_stmt *row, int i)
{
	if (sqlite3_column_type(row, i) == SQLITE_NULL)
		lw_json_null(json, key);
	else
		lw_json_int(json, key, sqlite3_column_int64(row, i));
}

static void put_text(struct lw_json *json, const char *key, sqlite3_stmt *row, int i)
{
	lw_json_string(json, key, (const char *)sqlite3_column_text(row, i));
}

static void put_process(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	put_int(json, "pid", row, 0);
	put_int(json, "rank", row, 1);
	put_int(json, "size", row, 2);
	put_int(json, "local_rank", row, 3);
	put_int(json, "local_size", row, 4);
	put_text(json, "host", row, 5);
	lw_json_string(json, "framework", lw_framework_name(sqlite3_column_int(row, 6)));
	lw_json_string(json, "transport", lw_transport_name(sqlite3_column_int(row, 7)));
	put_text(json, "command", row, 8);
	put_int(json, "start_ns", row, 9);
	put_int(json, "end_ns", row, 10);
	put_text(json, "ended", row, 11);
	put_int(json, "n_events", row, 12);
	put_int(json, "n_lost", row, 13);
	lw_json_object_end(json);
}

static void put_hook(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	put_text(json, "name", row, 0);
	lw_json_string(json, "status", hook_status(row));
	put_int(json, "n_processes", row, 2);
	put_int(json, "n_slots", row, 3);
	put_text(json, "detail", row, 4);
	lw_json_object_end(json);
}

static void put_loss(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	lw_json_string(json, "reason", loss_reason(row));
	put_int(json, "n", row, 1);
	put_text(json, "detail", row, 2);
	lw_json_object_end(json);
}

static void put_device(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	put_text(json, "kind", row, 0);
	put_text(json, "name", row, 1);
	put_text(json, "driver", row, 2);
	put_text(json, "on", row, 12);
	put_int(json, "rx_bytes", row, 3);
	put_int(json, "tx_bytes", row, 4);
	put_int(json, "n_samples", row, 5);
	put_int(json, "speed_bytes_per_s", row, 6);
	put_int(json, "mtu_bytes", row, 7);
	put_int(json, "namespace", row, 8);
	put_text(json, "addresses", row, 9);
	put_int(json, "first_ns", row, 10);
	put_int(json, "gone_ns", row, 11);
	lw_json_object_end(json);
}

static void put_connections(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, "connections");
	put_int(json, "n_own", row, 0);
	put_int(json, "n_processes", row, 1);
	put_int(json, "n_others", row, 2);
	put_int(json, "n_samples", row, 3);
	lw_json_object_end(json);
}

static void put_sampler(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	put_text(json, "name", row, 0);
	put_int(json, "period_ns", row, 1);
	put_int(json, "actual_period_ns", row, 2);
	put_int(json, "n_samples", row, 3);
	put_int(json, "n_late", row, 4);
	put_int(json, "n_failed", row, 5);
	put_int(json, "cpu_ns", row, 6);
	lw_json_object_end(json);
}

static void put_capture(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	put_text(json, "device", row, 0);
	put_text(json, "source", row, 1);
	put_text(json, "filter", row, 2);
	put_int(json, "n_packets", row, 3);
	put_int(json, "n_dropped", row, 4);
	put_int(json, "clock_error_ns", row, 5);
	put_text(json, "problem", row, 6);
	put_int(json, "n_not_decoded", row, 7);
	put_int(json, "n_incomplete_intervals", row, 8);
	lw_json_object_end(json);
}

static int put_network(struct summary *s, struct lw_json *json)
{
	int status;

	lw_json_array(json, "devices");
	status = each(s, devices_sql, put_device, json);
	lw_json_array_end(json);
	if (status == LW_OK)
		status = each(s, connections_sql, put_connections, json);
	lw_json_array(json, "samplers");
	if (status == LW_OK)
		status = each(s, samplers_sql, put_sampler, json);
	lw_json_array_end(json);
	lw_json_array(json, "captures");
	if (status == LW_OK)
		status = each(s, captures_sql, put_capture, json);
	lw_json_array_end(json);
	return status;
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
	status = each(s, processes_sql, put_process, json);
	lw_json_array_end(json);
	lw_json_array(json, "hooks");
	if (status == LW_OK)
		status = each(s, hooks_sql, put_hook, json);
	lw_json_array_end(json);
	if (status == LW_OK)
		status = put_network(s, json);
	lw_json_object(json, "rows");
	for (size_t i = 0; i < N_EVENT_TABLES; i++)
		lw_json_int(json, event_tables[i], s->n_rows[i]);
	lw_json_object_end(json);
	lw_json_int(json, "n_lost", s->n_lost);
	lw_json_array(json, "loss");
	if (status == LW_OK)
		status = each(s, losses_sql, put_loss, json);
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
