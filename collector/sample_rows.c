/* SPDX-License-Identifier: Apache-2.0 */
/* sample_rows.c - readings wait here until a transaction of the collector's takes them along. */
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "collector/sample_tcp.h"
#include "schema/event.h"

enum { LOSS_TEXT_BYTES = 200 };

enum statement {
	ADD_COUNTER,
	PUT_DEVICE,
	ADD_SAMPLE,
	ADD_BREAK,
	PUT_CONNECTION,
	ADD_TCP,
	ADD_CPU,
	ADD_CORES,
	PUT_SAMPLER,
	N_STATEMENTS
};

#define COMMA_NAME(column) ", " #column
#define COMMA_MARK(column) ", ?"

static const char *const statement_sql[N_STATEMENTS] = {
	[ADD_COUNTER] = "INSERT INTO counter(name, unit, is_gauge) VALUES(?1, ?2, ?3)"
			" ON CONFLICT(name) DO UPDATE SET unit = unit RETURNING id",
	[PUT_DEVICE] =
		"INSERT INTO device(id, host_id, kind, name, number, namespace_key, on_name, mtu_bytes,"
		" speed_bytes_per_s, addresses, driver, is_loopback, first_ns, gone_ns)"
		" VALUES(?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
		" ON CONFLICT(id) DO UPDATE SET on_name = excluded.on_name, mtu_bytes = excluded.mtu_bytes,"
		" speed_bytes_per_s = excluded.speed_bytes_per_s, addresses = excluded.addresses,"
		" driver = excluded.driver, gone_ns = excluded.gone_ns",
	[ADD_SAMPLE] = "INSERT INTO counter_sample(device_id, counter_id, at_ns, value)"
		       " VALUES(?1, ?2, ?3, ?4)",
	[ADD_BREAK] = "INSERT INTO counter_break(device_id, counter_id, at_ns, kind)"
		      " VALUES(?1, ?2, ?3, ?4)",
	[PUT_CONNECTION] =
		"INSERT INTO tcp_connection(id, host_id, process_id, inode_key, namespace_key, local_address,"
		" local_port, peer_address, peer_port, device_id, first_ns, last_ns, is_ended)"
		" VALUES(?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
		" ON CONFLICT(id) DO UPDATE SET process_id = excluded.process_id,"
		" device_id = excluded.device_id, last_ns = excluded.last_ns,"
		" is_ended = excluded.is_ended",
	[ADD_TCP] = "INSERT INTO tcp_info_sample(connection_id, at_ns" LW_TCP_COLUMNS(
		COMMA_NAME) ") VALUES(?, ?" LW_TCP_COLUMNS(COMMA_MARK) ")",
	[ADD_CPU] =
		"INSERT INTO cpu_sample(process_id, thread_id, at_ns, user_ns, system_ns,"
		" waited_ns, n_voluntary, n_involuntary) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
	[ADD_CORES] =
		"INSERT INTO cores(process_id, at_ns, n_online, allowed, n_allowed, quota_frac)"
		" VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
	[PUT_SAMPLER] =
		"INSERT INTO sampler(name, period_ns, actual_period_ns, n_samples,"
		" n_late, n_failed, cpu_ns, longest_ns) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
		" ON CONFLICT(name) DO UPDATE SET period_ns = ?2, actual_period_ns = ?3,"
		" n_samples = n_samples + ?4, n_late = n_late + ?5, n_failed = n_failed + ?6,"
		" cpu_ns = cpu_ns + ?7, longest_ns = max(longest_ns, ?8)",
};

struct registered {
	char name[64], unit[16];
	bool is_gauge;
	int64_t id; /* its row; 0 = not stored yet */
};

struct broken {
	struct lw_counter_row row;
	bool is_wrap;
};

struct trouble {
	char text[LOSS_TEXT_BYTES];
	uint64_t n; /* not stored yet */
};

struct lw_readings {
	struct lw_writer *writer;
	struct lw_store *store;
	sqlite3_stmt *own[N_STATEMENTS];
	struct registered counters[LW_COUNTERS_MAX];
	int n_counters;
	int64_t last_device_id, last_connection_id;
	lw_vec(struct lw_counter_row) samples;
	lw_vec(struct broken) breaks;
	lw_vec(struct lw_tcp_row) tcp;
	lw_vec(struct lw_tcp_connection_row) connections;
	lw_vec(struct lw_cpu_row) cpu;
	lw_vec(struct lw_cores_row) cores;
	struct trouble troubles[LW_TROUBLES_MAX];
	size_t n_troubles;
	uint64_t n_dropped; /* rows, not told yet */
};

int lw_readings_open(struct lw_writer *writer, struct lw_readings **ret_rows)
{
	struct lw_readings *rows = calloc(1, sizeof(*rows));
	int status = LW_OK;

	if (!rows)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	rows->writer = writer;
	rows->store = lw_writer_store(writer);
	for (int i = 0; i < N_STATEMENTS && status == LW_OK; i++)
		status = lw_store_prepare(rows->store, statement_sql[i], &rows->own[i]);
	/* A collector that goes on with a file gives the next numbers; what was in between nobody saw. */
	if (status == LW_OK)
		status = lw_store_exec(rows->store,
			"UPDATE device SET gone_ns = coalesce((SELECT max(at_ns) FROM counter_sample"
			" WHERE device_id = device.id), first_ns) WHERE gone_ns IS NULL");
	if (status == LW_OK)
		status = lw_store_int(rows->store, "SELECT coalesce(max(id), 0) FROM device",
			&rows->last_device_id);
	if (status == LW_OK)
		status =
			lw_store_int(rows->store, "SELECT coalesce(max(id), 0) FROM tcp_connection",
				&rows->last_connection_id);
	if (status < 0) {
		lw_readings_close(rows);
		return status;
	}
	*ret_rows = rows;
	return LW_OK;
}

void lw_readings_close(struct lw_readings *rows)
{
	if (!rows)
		return;
	for (int i = 0; i < N_STATEMENTS; i++)
		sqlite3_finalize(rows->own[i]);
	lw_vec_free(&rows->samples);
	lw_vec_free(&rows->breaks);
	lw_vec_free(&rows->tcp);
	lw_vec_free(&rows->connections);
	lw_vec_free(&rows->cpu);
	lw_vec_free(&rows->cores);
	free(rows);
}

/* ---- taken in ------------------------------------------------------------------------------------------ */

int lw_readings_counter(struct lw_readings *rows, const struct lw_counter *counter)
{
	struct registered *added = &rows->counters[rows->n_counters];

	for (int i = 0; i < rows->n_counters; i++)
		if (!strcmp(rows->counters[i].name, counter->name))
			return i;
	if (rows->n_counters == LW_COUNTERS_MAX)
		return -1;
	snprintf(added->name, sizeof(added->name), "%s", counter->name);
	snprintf(added->unit, sizeof(added->unit), "%s", counter->unit);
	added->is_gauge = counter->is_gauge;
	return rows->n_counters++;
}

int64_t lw_readings_next_device(struct lw_readings *rows)
{
	return ++rows->last_device_id;
}

int64_t lw_readings_next_connection(struct lw_readings *rows)
{
	return ++rows->last_connection_id;
}

/* While somebody else locks the file rows wait, up to a limit. */
#define add_or_drop(rows, list, row)                                                               \
	do {                                                                                       \
		if ((list)->n >= LW_ROWS_MAX || lw_vec_push((list), (row)) < 0)                    \
			(rows)->n_dropped++;                                                       \
	} while (0)

void lw_readings_add_counter(struct lw_readings *rows, const struct lw_counter_row *row)
{
	add_or_drop(rows, &rows->samples, *row);
}

void lw_readings_add_break(struct lw_readings *rows, const struct lw_counter_row *row, bool is_wrap)
{
	const struct broken broken = {*row, is_wrap};

	add_or_drop(rows, &rows->breaks, broken);
}

void lw_readings_add_tcp(struct lw_readings *rows, const struct lw_tcp_row *row)
{
	add_or_drop(rows, &rows->tcp, *row);
}

void lw_readings_add_connection(struct lw_readings *rows, const struct lw_tcp_connection_row *row)
{
	add_or_drop(rows, &rows->connections, *row);
}

void lw_readings_add_cpu(struct lw_readings *rows, const struct lw_cpu_row *row)
{
	add_or_drop(rows, &rows->cpu, *row);
}

void lw_readings_add_cores(struct lw_readings *rows, const struct lw_cores_row *row)
{
	add_or_drop(rows, &rows->cores, *row);
}

void lw_readings_add_trouble(struct lw_readings *rows, const char *text)
{
	size_t i;

	for (i = 0; i < rows->n_troubles &&
		    strncmp(rows->troubles[i].text, text, LOSS_TEXT_BYTES - 1) != 0;
		i++)
		;
	if (i == LW_TROUBLES_MAX) /* the last of them stands for all that are different again */
		i = LW_TROUBLES_MAX - 1;
	else if (i == rows->n_troubles)
		snprintf(rows->troubles[rows->n_troubles++].text, LOSS_TEXT_BYTES, "%s",
			i == LW_TROUBLES_MAX - 1 ? "and others" : text);
	rows->troubles[i].n++;
}

size_t lw_readings_waiting(const struct lw_readings *rows)
{
	return rows->samples.n + rows->breaks.n + rows->tcp.n + rows->connections.n + rows->cpu.n +
	       rows->cores.n;
}

/* ---- given out -------------------------------------------------------------------------------------------- */

static int run(struct lw_readings *rows, sqlite3_stmt *statement)
{
	int status = lw_store_step(rows->store, statement);

	return status < 0 ? status : LW_OK;
}

/* NULL where @value is the "not known" of its field. */
static void bind_known(sqlite3_stmt *statement, int i, int64_t value, int64_t unknown)
{
	if (value == unknown)
		sqlite3_bind_null(statement, i);
	else
		sqlite3_bind_int64(statement, i, value);
}

static void bind_text(sqlite3_stmt *statement, int i, const char *text, bool is_empty_known)
{
	if (*text || is_empty_known)
		sqlite3_bind_text(statement, i, text, -1, SQLITE_TRANSIENT);
	else
		sqlite3_bind_null(statement, i);
}

static int store_counters(struct lw_readings *rows)
{
	sqlite3_stmt *add = rows->own[ADD_COUNTER];

	for (int i = rows->n_counters - 1; i >= 0 && !rows->counters[i].id; i--) {
		int status;

		sqlite3_bind_text(add, 1, rows->counters[i].name, -1, SQLITE_STATIC);
		sqlite3_bind_text(add, 2, rows->counters[i].unit, -1, SQLITE_STATIC);
		sqlite3_bind_int(add, 3, rows->counters[i].is_gauge);
		status = lw_store_step(rows->store, add);
		if (status < 0)
			return status;
		rows->counters[i].id = sqlite3_column_int64(add, 0);
		sqlite3_reset(add);
	}
	return LW_OK;
}

static int store_device(struct lw_readings *rows, struct lw_device *device)
{
	static const char *const kinds[] = {"nic", "rdma_port", "softnet", "gpu"};
	sqlite3_stmt *put = rows->own[PUT_DEVICE];
	int status;

	sqlite3_bind_int64(put, 1, device->id);
	sqlite3_bind_text(put, 2, kinds[device->kind], -1, SQLITE_STATIC);
	sqlite3_bind_text(put, 3, device->name, -1, SQLITE_TRANSIENT);
	bind_known(
		put, 4, device->number, device->kind == LW_DEVICE_GPU ? -1 : 0); /* these from 0 */
	bind_known(put, 5, (int64_t)device->namespace_key, 0);
	bind_text(put, 6, device->on_name, false);
	bind_known(put, 7, device->mtu_bytes, -1);
	bind_known(put, 8, device->speed_bytes_per_s, -1);
	bind_text(put, 9, device->addresses, true);
	bind_text(put, 10, device->driver, false);
	sqlite3_bind_int(put, 11, device->is_loopback);
	sqlite3_bind_int64(put, 12, device->first_ns);
	bind_known(put, 13, device->gone_ns, 0);
	status = run(rows, put);
	device->is_dirty = status < 0;
	return status;
}

static int store_samples(struct lw_readings *rows)
{
	sqlite3_stmt *add = rows->own[ADD_SAMPLE], *add_break = rows->own[ADD_BREAK];
	struct lw_counter_row *row;
	struct broken *broken;
	int status = LW_OK;

	lw_vec_foreach (row, &rows->samples) {
		sqlite3_bind_int64(add, 1, row->device_id);
		sqlite3_bind_int64(add, 2, rows->counters[row->counter].id);
		sqlite3_bind_int64(add, 3, row->at_ns);
		sqlite3_bind_int64(add, 4, row->value);
		status = run(rows, add);
		if (status < 0)
			return status;
	}
	lw_vec_foreach (broken, &rows->breaks) {
		sqlite3_bind_int64(add_break, 1, broken->row.device_id);
		sqlite3_bind_int64(add_break, 2, rows->counters[broken->row.counter].id);
		sqlite3_bind_int64(add_break, 3, broken->row.at_ns);
		sqlite3_bind_text(
			add_break, 4, broken->is_wrap ? "wrap" : "reset", -1, SQLITE_STATIC);
		status = run(rows, add_break);
		if (status < 0)
			return status;
	}
	return status;
}

static void bind_address(sqlite3_stmt *statement, int i, const uint8_t address[16])
{
	char text[INET6_ADDRSTRLEN];

	lw_address_text(address, text);
	sqlite3_bind_text(statement, i, text, -1, SQLITE_TRANSIENT);
}

static int store_tcp(struct lw_readings *rows)
{
	sqlite3_stmt *put = rows->own[PUT_CONNECTION], *add = rows->own[ADD_TCP];
	struct lw_tcp_connection_row *one;
	struct lw_tcp_row *row;
	int status = LW_OK;

	lw_vec_foreach (one, &rows->connections) {
		sqlite3_bind_int64(put, 1, one->id);
		bind_known(put, 2, one->process_id, 0);
		sqlite3_bind_int64(put, 3, (int64_t)one->inode);
		sqlite3_bind_int64(put, 4, (int64_t)one->namespace_key);
		bind_address(put, 5, one->local);
		sqlite3_bind_int(put, 6, one->local_port);
		bind_address(put, 7, one->peer);
		sqlite3_bind_int(put, 8, one->peer_port);
		bind_known(put, 9, one->device_id, 0);
		sqlite3_bind_int64(put, 10, one->first_ns);
		sqlite3_bind_int64(put, 11, one->last_ns);
		sqlite3_bind_int(put, 12, one->has_ended);
		status = run(rows, put);
		if (status < 0)
			return status;
	}
	lw_vec_foreach (row, &rows->tcp) {
		int i = 3;

		sqlite3_bind_int64(add, 1, row->connection_id);
		sqlite3_bind_int64(add, 2, row->at_ns);
#define X(column) bind_known(add, i++, row->values.column, -1);
		LW_TCP_COLUMNS(X)
#undef X
		status = run(rows, add);
		if (status < 0)
			return status;
	}
	return status;
}

static int store_cpu(struct lw_readings *rows)
{
	sqlite3_stmt *add = rows->own[ADD_CPU], *add_cores = rows->own[ADD_CORES];
	struct lw_cores_row *cores;
	struct lw_cpu_row *row;
	int status = LW_OK;

	lw_vec_foreach (row, &rows->cpu) {
		sqlite3_bind_int64(add, 1, row->process_id);
		bind_known(add, 2, row->thread_id, -1);
		sqlite3_bind_int64(add, 3, row->at_ns);
		sqlite3_bind_int64(add, 4, row->user_ns);
		sqlite3_bind_int64(add, 5, row->system_ns);
		bind_known(add, 6, row->waited_ns, -1);
		bind_known(add, 7, row->n_voluntary, -1);
		bind_known(add, 8, row->n_involuntary, -1);
		status = run(rows, add);
		if (status < 0)
			return status;
	}
	lw_vec_foreach (cores, &rows->cores) {
		sqlite3_bind_int64(add_cores, 1, cores->process_id);
		sqlite3_bind_int64(add_cores, 2, cores->at_ns);
		sqlite3_bind_int(add_cores, 3, cores->cores.n_online);
		sqlite3_bind_text(add_cores, 4, cores->cores.allowed, -1, SQLITE_TRANSIENT);
		sqlite3_bind_int(add_cores, 5, cores->cores.n_allowed);
		if (cores->cores.quota_cores > 0)
			sqlite3_bind_double(add_cores, 6, cores->cores.quota_cores);
		else
			sqlite3_bind_null(add_cores, 6);
		status = run(rows, add_cores);
		if (status < 0)
			return status;
	}
	return status;
}

static int store_troubles(struct lw_readings *rows)
{
	int status = LW_OK;

	if (rows->n_dropped)
		status = lw_writer_loss(rows->writer, 0, 0, LW_LOSS_NOT_SAMPLED, rows->n_dropped,
			"samples that waited for too long for the run file");
	for (size_t i = 0; i < rows->n_troubles && status == LW_OK; i++) {
		if (!rows->troubles[i].n)
			continue;
		status = lw_writer_loss(rows->writer, 0, 0, LW_LOSS_NOT_SAMPLED,
			rows->troubles[i].n, rows->troubles[i].text);
		rows->troubles[i].n = 0;
	}
	rows->n_dropped = 0;
	return status;
}

int lw_readings_store(struct lw_readings *rows, struct lw_device **devices, size_t n_devices)
{
	int status = store_counters(rows);

	for (size_t i = 0; i < n_devices && status == LW_OK; i++)
		if (devices[i]->is_dirty)
			status = store_device(rows, devices[i]);
	if (status == LW_OK)
		status = store_samples(rows);
	if (status == LW_OK)
		status = store_tcp(rows);
	if (status == LW_OK)
		status = store_cpu(rows);
	if (status == LW_OK)
		status = store_troubles(rows);
	rows->samples.n = rows->breaks.n = rows->tcp.n = rows->connections.n = rows->cpu.n =
		rows->cores.n = 0;
	return status;
}

int lw_readings_store_sampler(struct lw_readings *rows, const struct lw_sampler_row *row)
{
	sqlite3_stmt *put = rows->own[PUT_SAMPLER];

	sqlite3_bind_text(put, 1, row->name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(put, 2, row->period_ns);
	sqlite3_bind_int64(put, 3, row->actual_period_ns);
	sqlite3_bind_int64(put, 4, (int64_t)row->n_samples);
	sqlite3_bind_int64(put, 5, (int64_t)row->n_late);
	sqlite3_bind_int64(put, 6, (int64_t)row->n_failed);
	sqlite3_bind_int64(put, 7, row->cpu_ns);
	sqlite3_bind_int64(put, 8, row->longest_ns);
	return run(rows, put);
}
