/* SPDX-License-Identifier: Apache-2.0 */
/* info_network.c - what `lapwing info` says of the network: devices, connections, samplers, captures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "cli/info.h"

int lw_info_each(struct lw_store *store, const char *sql, lw_info_row_fn row, struct lw_json *json)
{
	sqlite3_stmt *rows;
	int status = lw_store_prepare(store, sql, &rows);

	if (status < 0)
		return status;
	while ((status = lw_store_step(store, rows)) == 1)
		row(rows, json);
	sqlite3_finalize(rows);
	return status;
}

void lw_info_put_int(struct lw_json *json, const char *key, sqlite3_stmt *row, int i)
{
	if (sqlite3_column_type(row, i) == SQLITE_NULL)
		lw_json_null(json, key);
	else
		lw_json_int(json, key, sqlite3_column_int64(row, i));
}

void lw_info_put_text(struct lw_json *json, const char *key, sqlite3_stmt *row, int i)
{
	lw_json_string(json, key, (const char *)sqlite3_column_text(row, i));
}

/* As v_device, packets and ranks too: counter_sample is walked once. */
#define MOVED(counter) "max(CASE c.name WHEN '" counter "' THEN x.moved END)"
static const char devices_sql[] =
	"SELECT d.kind, d.name, d.driver, coalesce(" MOVED("rx_bytes") ", 0) AS rx, coalesce(" MOVED(
		"tx_bytes") ", 0) AS tx, coalesce(sum(x.n), 0), d.speed_bytes_per_s, d.mtu_bytes,"
			    " d.namespace_key, d.addresses, d.first_ns, d.gone_ns, d.on_name,"
			    " " MOVED("rx_packets") ", " MOVED(
				    "tx_packets") ", coalesce(r.ranks, ''), h.name FROM device d"
						  " LEFT JOIN (SELECT device_id, counter_id, max(value) - min(value) AS moved, count(*) AS n"
						  " FROM counter_sample GROUP BY device_id, counter_id) x ON x.device_id = d.id"
						  " LEFT JOIN counter c ON c.id = x.counter_id"
						  " LEFT JOIN (SELECT device_id, group_concat(rank) AS ranks FROM"
						  " (SELECT DISTINCT t.device_id, p.rank FROM tcp_connection t"
						  " JOIN process p ON p.id = t.process_id WHERE p.rank IS NOT NULL"
						  " ORDER BY t.device_id, p.rank) GROUP BY device_id) r ON r.device_id = d.id"
						  " LEFT JOIN host h ON h.id = d.host_id"
						  " GROUP BY d.id ORDER BY d.kind, rx + tx DESC, d.name, d.first_ns";
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

/* Every container has an eth0. Return: ", rank 1, 10.0.0.2" or less. */
static const char *owner_text(sqlite3_stmt *row, char text[160])
{
	const char *ranks = lw_store_column_text(row, 15), *address = lw_store_column_text(row, 9);
	size_t n = 0, n_address = strcspn(address, " ");

	text[0] = '\0';
	if (*ranks)
		n = (size_t)snprintf(text, 160, ", rank%s %.60s%s", strchr(ranks, ',') ? "s" : "",
			ranks, strlen(ranks) > 60 ? ".." : "");
	if (n_address && strncmp(address, "fe80:", 5) != 0)
		snprintf(text + n, 160 - n, ", %.*s", (int)n_address, address);
	return text;
}

static void print_device(sqlite3_stmt *row, struct lw_json *json)
{
	double rx_bytes = (double)sqlite3_column_int64(row, 3);
	double tx_bytes = (double)sqlite3_column_int64(row, 4);
	const char *detail = lw_store_column_text(row, *lw_store_column_text(row, 12) ? 12 : 2);
	char in[LW_UNIT_TEXT_BYTES], out[LW_UNIT_TEXT_BYTES], speed[LW_UNIT_TEXT_BYTES] = "";
	char owner[160];

	(void)json;
	if (rx_bytes + tx_bytes <= 0 && !strcmp(lw_store_column_text(row, 0), "rdma_port") &&
		sqlite3_column_int64(row, 13) + sqlite3_column_int64(row, 14) > 0) {
		/* soft-RoCE counts packets only */
		printf("  device     %s%s%s%s: %s packets in, %s out, %s samples\n",
			lw_store_column_text(row, 1), *detail ? " (" : "", detail,
			*detail ? ")" : "", lw_store_column_text(row, 13),
			lw_store_column_text(row, 14), lw_store_column_text(row, 5));
		return;
	}
	if (rx_bytes + tx_bytes <= 0) /* hosts of containers have hundreds of these */
		return;
	if (sqlite3_column_type(row, 6) != SQLITE_NULL)
		lw_rate_format((double)sqlite3_column_int64(row, 6), speed);
	printf("  device     %s%s%s%s%s%s%s: %s in, %s out, %s samples%s\n",
		lw_store_column_text(row, 1), *detail ? " (" : "", detail, *detail ? ")" : "",
		owner_text(row, owner), *speed ? ", " : "", speed, lw_bytes_format(rx_bytes, in),
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
	if (actual_ns > 2 * period_ns) /* that much one slow look alone makes of it */
		printf("  sampler    %s looked every %s, not every %s: one look costs too much here\n",
			lw_store_column_text(row, 0), lw_ns_format((double)actual_ns, actual),
			lw_ns_exact((double)period_ns, period));
}

int lw_info_print_network(struct lw_store *store)
{
	int status = lw_info_each(store, devices_sql, print_device, NULL);

	if (status == LW_OK)
		status = lw_info_each(store, connections_sql, print_connections, NULL);
	if (status == LW_OK)
		status = lw_info_each(store, samplers_sql, print_sampler, NULL);
	if (status == LW_OK)
		status = lw_info_each(store, captures_sql, print_capture, NULL);
	return status;
}

static void put_ranks(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_array(json, "ranks");
	for (const char *at = lw_store_column_text(row, 15); *at; at += *at == ',') {
		char *end;

		lw_json_int(json, NULL, strtol(at, &end, 10));
		at = end;
	}
	lw_json_array_end(json);
}

static void put_device(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	lw_info_put_text(json, "kind", row, 0);
	lw_info_put_text(json, "name", row, 1);
	lw_info_put_text(json, "driver", row, 2);
	lw_info_put_text(json, "on", row, 12);
	lw_info_put_int(json, "rx_bytes", row, 3);
	lw_info_put_int(json, "tx_bytes", row, 4);
	lw_info_put_int(json, "n_samples", row, 5);
	lw_info_put_int(json, "speed_bytes_per_s", row, 6);
	lw_info_put_int(json, "mtu_bytes", row, 7);
	lw_info_put_int(json, "namespace", row, 8);
	lw_info_put_text(json, "addresses", row, 9);
	lw_info_put_text(json, "host", row, 16);
	put_ranks(row, json);
	lw_info_put_int(json, "first_ns", row, 10);
	lw_info_put_int(json, "gone_ns", row, 11);
	lw_json_object_end(json);
}

static void put_connections(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, "connections");
	lw_info_put_int(json, "n_own", row, 0);
	lw_info_put_int(json, "n_processes", row, 1);
	lw_info_put_int(json, "n_others", row, 2);
	lw_info_put_int(json, "n_samples", row, 3);
	lw_json_object_end(json);
}

static void put_sampler(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	lw_info_put_text(json, "name", row, 0);
	lw_info_put_int(json, "period_ns", row, 1);
	lw_info_put_int(json, "actual_period_ns", row, 2);
	lw_info_put_int(json, "n_samples", row, 3);
	lw_info_put_int(json, "n_late", row, 4);
	lw_info_put_int(json, "n_failed", row, 5);
	lw_info_put_int(json, "cpu_ns", row, 6);
	lw_json_object_end(json);
}

static void put_capture(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	lw_info_put_text(json, "device", row, 0);
	lw_info_put_text(json, "source", row, 1);
	lw_info_put_text(json, "filter", row, 2);
	lw_info_put_int(json, "n_packets", row, 3);
	lw_info_put_int(json, "n_dropped", row, 4);
	lw_info_put_int(json, "clock_error_ns", row, 5);
	lw_info_put_text(json, "problem", row, 6);
	lw_info_put_int(json, "n_not_decoded", row, 7);
	lw_info_put_int(json, "n_incomplete_intervals", row, 8);
	lw_json_object_end(json);
}

int lw_info_put_network(struct lw_store *store, struct lw_json *json)
{
	int status;

	lw_json_array(json, "devices");
	status = lw_info_each(store, devices_sql, put_device, json);
	lw_json_array_end(json);
	if (status == LW_OK)
		status = lw_info_each(store, connections_sql, put_connections, json);
	lw_json_array(json, "samplers");
	if (status == LW_OK)
		status = lw_info_each(store, samplers_sql, put_sampler, json);
	lw_json_array_end(json);
	lw_json_array(json, "captures");
	if (status == LW_OK)
		status = lw_info_each(store, captures_sql, put_capture, json);
	lw_json_array_end(json);
	return status;
}
