/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/err.h"
#include "collector/drain.h"
#include "collector/strings.h"

enum field_type {
	FIELD_END,
	FIELD_HOST, /* not of the record: its host, process, thread */
	FIELD_PROCESS,
	FIELD_THREAD,
	FIELD_U16,
	FIELD_U16_MAX, /* NULL when UINT16_MAX */
	FIELD_U8,
	FIELD_U32,
	FIELD_U32_ZERO, /* NULL when 0 */
	FIELD_I32,
	FIELD_64,       /* amounts (checked to fit), times, and opaque keys bit by bit */
	FIELD_64_ZERO,  /* NULL when 0 */
	FIELD_64_MAX,   /* NULL when UINT64_MAX */
	FIELD_DOUBLE,   /* checked to be a number */
	FIELD_US_TO_NS, /* uint32 microseconds */
	FIELD_STRING,   /* text id: row in table string, NULL when 0 or never arrived */
	FIELD_ADDRESS,  /* 16 bytes: IPv6, or IPv4 mapped into it, as text */
	FIELD_GID,      /* the same, NULL when all zero */
};

struct column {
	const char *name;
	enum field_type type;
	size_t offset; /* in struct lw_event */
};

enum { MAX_COLUMNS = 14 };

struct kind_table {
	const char *name;
	struct column columns[MAX_COLUMNS];
};

#define OF(column, type, field)                                                                    \
	{                                                                                          \
		column, type, offsetof(struct lw_event, field)                                     \
	}
#define HOST                                                                                       \
	{                                                                                          \
		"host_id", FIELD_HOST, 0                                                           \
	}
#define PROCESS                                                                                    \
	{                                                                                          \
		"process_id", FIELD_PROCESS, 0                                                     \
	}
#define THREAD     {"thread_id", FIELD_THREAD, 0}, OF("seq", FIELD_U32, seq)
#define AT         OF("at_ns", FIELD_64, t0_ns)
#define SPAN       OF("start_ns", FIELD_64, t0_ns), OF("end_ns", FIELD_64, t1_ns)
#define OP(column) OF(column, FIELD_U16, op)

static const struct kind_table tables[LW_EV_COUNT] = {
	[LW_EV_CLOCK] = {"clock_sample", {HOST, OF("monotonic_ns", FIELD_64, t0_ns),
						 OF("realtime_ns", FIELD_64, clock.realtime_ns)}},
	[LW_EV_COMM] = {"comm",
		{PROCESS, OF("key", FIELD_64, comm.comm),
			OF("parent_key", FIELD_64_ZERO, comm.parent),
			OF("size", FIELD_I32, comm.size), OF("rank", FIELD_I32, comm.rank),
			OF("serial", FIELD_U32, comm.serial), OP("how"),
			OF("transport", FIELD_U16, comm.transport), AT}},
	[LW_EV_COLLECTIVE] = {"collective",
		{THREAD, SPAN, OP("op"), OF("comm_key", FIELD_64, collective.comm),
			OF("sent_bytes", FIELD_64, collective.sent_bytes),
			OF("received_bytes", FIELD_64, collective.received_bytes),
			OF("root", FIELD_I32, collective.root),
			OF("flags", FIELD_U16, collective.flags),
			OF("transport", FIELD_U16, collective.transport)}},
	[LW_EV_MESSAGE] = {"message",
		{THREAD, SPAN, OP("op"), OF("comm_key", FIELD_64, message.comm),
			OF("bytes", FIELD_64, message.bytes), OF("peer", FIELD_I32, message.peer),
			OF("tag", FIELD_I32, message.tag), OF("flags", FIELD_U16, message.flags)}},
	[LW_EV_READY] = {"ready", {THREAD, AT, OF("object", FIELD_64, ready.object),
					  OF("name_id", FIELD_STRING, ready.name),
					  OF("bytes", FIELD_64, ready.bytes)}},
	[LW_EV_CYCLE] = {"cycle",
		{THREAD, SPAN, OP("op"), OF("in_bits", FIELD_64, cycle.in_bits),
			OF("out_bits", FIELD_64, cycle.out_bits),
			OF("n_words", FIELD_U32, cycle.n_words),
			OF("n_unchanged", FIELD_U32, cycle.n_unchanged),
			OF("unchanged_ns", FIELD_64, cycle.unchanged_ns),
			OF("unchanged_span_ns", FIELD_64, cycle.unchanged_span_ns)}},
	[LW_EV_BATCH] = {"batch",
		{THREAD, SPAN, OP("op"), OF("batch", FIELD_64, batch.batch),
			OF("n_tensors", FIELD_U32, batch.n_tensors),
			OF("bytes", FIELD_64, batch.bytes),
			OF("fusion_bytes", FIELD_64_MAX, batch.fusion_bytes),
			OF("process_set", FIELD_I32, batch.process_set),
			OF("dtype", FIELD_U16, batch.dtype), OF("flags", FIELD_U16, batch.flags),
			OF("framework", FIELD_U16, batch.framework)}},
	[LW_EV_BATCH_TENSOR] = {"batch_tensor",
		{THREAD, AT, OF("batch", FIELD_64, batch_tensor.batch), OP("position"),
			OF("name_id", FIELD_STRING, batch_tensor.name),
			OF("object", FIELD_64, batch_tensor.object),
			OF("bytes", FIELD_64, batch_tensor.bytes),
			OF("dtype", FIELD_U16, batch_tensor.dtype)}},
	[LW_EV_SETTING] = {"setting",
		{PROCESS, AT, OP("setting"), OF("value", FIELD_DOUBLE, setting.value),
			OF("source", FIELD_U32, setting.source)}},
	[LW_EV_WAIT] = {"wait", {THREAD, SPAN, OP("op")}},
	[LW_EV_SOCKET] = {"socket", {PROCESS, OF("socket", FIELD_U32, socket.socket), AT,
					    OF("local_address", FIELD_ADDRESS, socket.local),
					    OF("local_port", FIELD_U16, socket.local_port),
					    OF("peer_address", FIELD_ADDRESS, socket.peer),
					    OF("peer_port", FIELD_U16, socket.peer_port)}},
	[LW_EV_SOCKET_BYTES] = {"socket_sample",
		{PROCESS, OF("socket", FIELD_U32, socket_bytes.socket), AT, OP("why"),
			OF("sent_bytes", FIELD_64, socket_bytes.sent_bytes),
			OF("received_bytes", FIELD_64, socket_bytes.received_bytes),
			OF("n_sends", FIELD_U32, socket_bytes.n_sends),
			OF("n_receives", FIELD_U32, socket_bytes.n_receives)}},
	[LW_EV_TCP_INFO] = {"tcp_sample",
		{PROCESS, OF("socket", FIELD_U32, tcp_info.socket), AT, OP("why"),
			OF("rtt_ns", FIELD_US_TO_NS, tcp_info.rtt_us),
			OF("acked_bytes", FIELD_64, tcp_info.acked_bytes),
			OF("received_bytes", FIELD_64, tcp_info.received_bytes),
			OF("delivery_bytes_per_s", FIELD_64, tcp_info.delivery_bytes_per_s),
			OF("n_retransmits", FIELD_U32, tcp_info.n_retransmits),
			OF("congestion_window_segments", FIELD_U32,
				tcp_info.congestion_window_segments)}},
	[LW_EV_GLOO_MESSAGE] = {"gloo_message",
		{THREAD, AT, OF("socket", FIELD_U32, gloo_message.socket), OP("opcode"),
			OF("slot", FIELD_64, gloo_message.slot),
			OF("bytes", FIELD_64, gloo_message.bytes),
			OF("is_sent", FIELD_64, gloo_message.is_sent)}},
	[LW_EV_MARK] = {"range", {THREAD, SPAN, OP("op"), OF("name_id", FIELD_STRING, mark.name),
					 OF("value", FIELD_64, mark.value)}},
	[LW_EV_HOOK] = {"hook", {PROCESS, AT, OF("name_id", FIELD_STRING, hook.name), OP("status"),
					OF("n_slots", FIELD_U32, hook.n_slots),
					OF("detail_id", FIELD_STRING, hook.detail)}},
	[LW_EV_PARAMETER] = {"parameter", {PROCESS, AT, OF("reducer", FIELD_U32, parameter.reducer),
						  OF("position", FIELD_U32, parameter.position),
						  OF("bytes", FIELD_64, parameter.bytes),
						  OF("dtype", FIELD_U16, parameter.dtype)}},
	[LW_EV_GRADIENT] = {"gradient", {THREAD, AT, OF("reducer", FIELD_U32, gradient.reducer),
						OF("position", FIELD_U32, gradient.position)}},
	[LW_EV_PROBE] = {"probe",
		{THREAD, SPAN, OP("op"), OF("bytes", FIELD_64, probe.bytes),
			OF("number", FIELD_U32, probe.number), OF("burst", FIELD_U32, probe.burst),
			OF("position", FIELD_U32, probe.position),
			OF("transport", FIELD_U16, probe.transport)}},
	[LW_EV_RDMA_PORT] = {"rdma_port",
		{PROCESS, AT, OF("port", FIELD_U32, rdma_port.port),
			OF("device_id", FIELD_STRING, rdma_port.device),
			OF("number", FIELD_U8, rdma_port.number),
			OF("gid_index", FIELD_U8, rdma_port.gid_index),
			OF("gid", FIELD_GID, rdma_port.gid), OF("lid", FIELD_U16, rdma_port.lid)}},
	[LW_EV_RDMA_QP] = {"rdma_qp",
		{PROCESS, AT, OP("op"), OF("qp", FIELD_U32, rdma_qp.qp),
			OF("number", FIELD_U32, rdma_qp.number), OF("type", FIELD_U8, rdma_qp.type),
			OF("flags", FIELD_U8, rdma_qp.flags),
			OF("port", FIELD_U32_ZERO, rdma_qp.port),
			OF("peer_number", FIELD_U32_ZERO, rdma_qp.peer_number),
			OF("peer_gid", FIELD_GID, rdma_qp.peer_gid),
			OF("peer_lid", FIELD_U16, rdma_qp.peer_lid),
			OF("n_unused_receives", FIELD_U32, rdma_qp.n_unused_receives)}},
	[LW_EV_RDMA_WORK] = {"rdma_work",
		{THREAD, SPAN, OP("op"), OF("qp", FIELD_U32_ZERO, rdma_work.qp),
			OF("peer_number", FIELD_U32_ZERO, rdma_work.peer_number),
			OF("bytes", FIELD_64, rdma_work.bytes),
			OF("n_sge", FIELD_U16, rdma_work.n_sge),
			OF("status", FIELD_U16_MAX, rdma_work.status),
			OF("flags", FIELD_U16, rdma_work.flags)}},
	[LW_EV_RDMA_MEMORY] = {"rdma_memory",
		{PROCESS, AT, OF("n_registered", FIELD_U32, rdma_memory.n_registered),
			OF("registered_bytes", FIELD_64, rdma_memory.registered_bytes),
			OF("n_registrations", FIELD_U32, rdma_memory.n_registrations),
			OF("n_deregistrations", FIELD_U32, rdma_memory.n_deregistrations),
			OF("n_dmabufs", FIELD_U32, rdma_memory.n_dmabufs),
			OF("register_ns", FIELD_64, rdma_memory.register_ns)}},
};

/* A column's value, before it becomes a result. */
struct value {
	enum { VALUE_NULL, VALUE_INT, VALUE_DOUBLE, VALUE_TEXT } type;
	int64_t number;
	double real;
	char text[INET6_ADDRSTRLEN];
};

static int64_t string_row(
	const struct lw_record_source *source, const struct lw_record *record, uint64_t id)
{
	int64_t row_id = id ? lw_string_map_find(source->strings, id) : 0;

	if (id && !row_id)
		record->ring->n_new[LW_LOSS_UNMATCHED_STRING]++;
	return row_id;
}

static inline void load(const struct lw_record_source *source, const struct lw_record *record,
	const struct column *column, struct value *value)
{
	const char *at = (const char *)record->event + column->offset;
	union {
		uint16_t u16;
		uint32_t u32;
		int32_t i32;
		uint64_t u64;
	} raw;

	value->type = VALUE_INT;
	switch (column->type) {
	case FIELD_END:
		break;
	case FIELD_HOST:
		value->number = source->host_id;
		break;
	case FIELD_PROCESS:
		value->number = record->ring->process->process_id;
		break;
	case FIELD_THREAD:
		value->number = record->ring->thread_id;
		break;
	case FIELD_U16:
		memcpy(&raw.u16, at, sizeof(raw.u16));
		value->number = raw.u16;
		break;
	case FIELD_U16_MAX:
		memcpy(&raw.u16, at, sizeof(raw.u16));
		value->number = raw.u16;
		value->type = raw.u16 != UINT16_MAX ? VALUE_INT : VALUE_NULL;
		break;
	case FIELD_U8:
		value->number = *(const uint8_t *)at;
		break;
	case FIELD_U32_ZERO:
		memcpy(&raw.u32, at, sizeof(raw.u32));
		value->number = raw.u32;
		value->type = raw.u32 ? VALUE_INT : VALUE_NULL;
		break;
	case FIELD_U32:
		memcpy(&raw.u32, at, sizeof(raw.u32));
		value->number = raw.u32;
		break;
	case FIELD_I32:
		memcpy(&raw.i32, at, sizeof(raw.i32));
		value->number = raw.i32;
		break;
	case FIELD_64:
		memcpy(&value->number, at, sizeof(value->number));
		break;
	case FIELD_64_ZERO:
		memcpy(&value->number, at, sizeof(value->number));
		value->type = value->number ? VALUE_INT : VALUE_NULL;
		break;
	case FIELD_64_MAX:
		memcpy(&value->number, at, sizeof(value->number));
		value->type = value->number != -1 ? VALUE_INT : VALUE_NULL;
		break;
	case FIELD_DOUBLE:
		memcpy(&value->real, at, sizeof(value->real));
		value->type = VALUE_DOUBLE;
		break;
	case FIELD_US_TO_NS:
		memcpy(&raw.u32, at, sizeof(raw.u32));
		value->number = raw.u32 * INT64_C(1000);
		break;
	case FIELD_STRING:
		memcpy(&raw.u64, at, sizeof(raw.u64));
		value->number = string_row(source, record, raw.u64);
		value->type = value->number ? VALUE_INT : VALUE_NULL;
		break;
	case FIELD_ADDRESS:
		lw_address_text((const uint8_t *)at, value->text);
		value->type = VALUE_TEXT;
		break;
	case FIELD_GID:
		lw_address_text((const uint8_t *)at, value->text);
		value->type = memcmp(at, &(uint8_t[16]){0}, 16) ? VALUE_TEXT : VALUE_NULL;
		break;
	}
}

/* ---- one virtual table per kind: SELECT * FROM lw_in_<table> gives the batch's records ---------- */

struct table_of_kind {
	struct lw_record_source *source;
	int kind;
};

struct vtab {
	sqlite3_vtab base;
	struct table_of_kind of;
};

struct cursor {
	sqlite3_vtab_cursor base;
	const struct lw_record *at, *end;
	const struct lw_record_source *source;
	const struct column *columns;
};

static void column_list(const struct kind_table *table, char *text, size_t text_bytes)
{
	size_t n = 0;

	for (const struct column *column = table->columns; column->type; column++)
		n += (size_t)snprintf(
			text + n, text_bytes - n, "%s%s", n ? ", " : "", column->name);
}

static int vtab_connect(sqlite3 *db, void *data, int argc, const char *const *argv,
	sqlite3_vtab **ret_vtab, char **ret_error)
{
	const struct table_of_kind *of = data;
	char columns[400], sql[500];
	struct vtab *vtab;
	int code;

	(void)argc;
	(void)argv;
	(void)ret_error;
	column_list(&tables[of->kind], columns, sizeof(columns));
	snprintf(sql, sizeof(sql), "CREATE TABLE x(%s)", columns);
	code = sqlite3_declare_vtab(db, sql);
	if (code != SQLITE_OK)
		return code;
	sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
	vtab = sqlite3_malloc(sizeof(*vtab));
	if (!vtab)
		return SQLITE_NOMEM;
	memset(vtab, 0, sizeof(*vtab));
	vtab->of = *of;
	*ret_vtab = &vtab->base;
	return SQLITE_OK;
}

static int vtab_disconnect(sqlite3_vtab *vtab)
{
	sqlite3_free(vtab);
	return SQLITE_OK;
}

static int vtab_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	(void)vtab;
	info->estimatedCost = LW_TAKE_MAX_RECORDS; /* always the whole batch */
	return SQLITE_OK;
}

static int vtab_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret_cursor)
{
	struct cursor *cursor = sqlite3_malloc(sizeof(*cursor));

	(void)vtab;
	if (!cursor)
		return SQLITE_NOMEM;
	memset(cursor, 0, sizeof(*cursor));
	*ret_cursor = &cursor->base;
	return SQLITE_OK;
}

static int vtab_close(sqlite3_vtab_cursor *cursor)
{
	sqlite3_free(cursor);
	return SQLITE_OK;
}

static int vtab_filter(
	sqlite3_vtab_cursor *base, int plan, const char *name, int argc, sqlite3_value **argv)
{
	struct cursor *cursor = (struct cursor *)base;
	const struct table_of_kind *of = &((struct vtab *)base->pVtab)->of;

	(void)plan;
	(void)name;
	(void)argc;
	(void)argv;
	cursor->source = of->source;
	cursor->columns = tables[of->kind].columns;
	cursor->at = of->source->of_kind[of->kind].at;
	cursor->end = cursor->at + of->source->of_kind[of->kind].n;
	return SQLITE_OK;
}

static int vtab_next(sqlite3_vtab_cursor *base)
{
	((struct cursor *)base)->at++;
	return SQLITE_OK;
}

static int vtab_eof(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	return cursor->at >= cursor->end;
}

static int vtab_column(sqlite3_vtab_cursor *base, sqlite3_context *result, int i)
{
	struct cursor *cursor = (struct cursor *)base;
	struct value value;

	load(cursor->source, cursor->at, &cursor->columns[i], &value);
	switch (value.type) {
	case VALUE_INT:
		sqlite3_result_int64(result, value.number);
		break;
	case VALUE_DOUBLE:
		sqlite3_result_double(result, value.real);
		break;
	case VALUE_TEXT:
		sqlite3_result_text(result, value.text, -1, SQLITE_TRANSIENT);
		break;
	case VALUE_NULL:
		break; /* a result is NULL until it is set */
	}
	return SQLITE_OK;
}

static int vtab_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
	*ret_rowid = (sqlite3_int64)(uintptr_t)((struct cursor *)base)->at;
	return SQLITE_OK;
}

/* No xCreate: eponymous, exists only in this connection, nothing of it gets into the file. */
static const sqlite3_module module = {
	.xConnect = vtab_connect,
	.xBestIndex = vtab_best_index,
	.xDisconnect = vtab_disconnect,
	.xOpen = vtab_open,
	.xClose = vtab_close,
	.xFilter = vtab_filter,
	.xNext = vtab_next,
	.xEof = vtab_eof,
	.xColumn = vtab_column,
	.xRowid = vtab_rowid,
};

int lw_records_attach(
	sqlite3 *db, struct lw_record_source *source, sqlite3_stmt *ret_insert[LW_EV_COUNT])
{
	for (int kind = 0; kind < LW_EV_COUNT; kind++) {
		const struct kind_table *table = &tables[kind];
		struct table_of_kind *of;
		char columns[400], name[64], sql[1000];

		ret_insert[kind] = NULL;
		if (!table->name)
			continue;
		of = malloc(sizeof(*of));
		if (!of)
			return lw_fail(LW_ERR_NOMEM, "no memory");
		*of = (struct table_of_kind){source, kind};
		column_list(table, columns, sizeof(columns));
		snprintf(name, sizeof(name), "lw_in_%s", table->name);
		snprintf(sql, sizeof(sql), "INSERT INTO %s(%s) SELECT %s FROM %s", table->name,
			columns, columns, name);
		if (sqlite3_create_module_v2(db, name, &module, of, free) != SQLITE_OK ||
			sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT,
				&ret_insert[kind], NULL) != SQLITE_OK)
			return lw_fail(LW_ERR_IO, "table %s: %s", table->name, sqlite3_errmsg(db));
	}
	return LW_OK;
}
