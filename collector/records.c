/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/err.h"
#include "collector/drain.h"
#include "collector/record_columns.h"
#include "collector/strings.h"

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
	const struct lw_column *column, struct value *value)
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
	case FIELD_U32_MAX:
		memcpy(&raw.u32, at, sizeof(raw.u32));
		value->number = raw.u32;
		value->type = raw.u32 != UINT32_MAX ? VALUE_INT : VALUE_NULL;
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
	const struct lw_column *columns;
};

static void column_list(const struct lw_kind_table *table, char *text, size_t text_bytes)
{
	size_t n = 0;

	for (const struct lw_column *column = table->columns; column->type; column++)
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
	column_list(&lw_kind_tables[of->kind], columns, sizeof(columns));
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
	cursor->columns = lw_kind_tables[of->kind].columns;
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
		const struct lw_kind_table *table = &lw_kind_tables[kind];
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
