/* SPDX-License-Identifier: Apache-2.0 */
#include "packet/bin_table.h"

#include <string.h>

#define COLUMNS                                                                                    \
	"flow_id, bin_ns, n_frames, frame_bytes, n_packets, wire_bytes, payload_bytes,"            \
	" n_retransmitted, retransmitted_bytes, repeated_bytes, n_out_of_order, n_psn_gaps,"       \
	" n_naks, n_ce, first_ns, last_ns"

#define AT(field) offsetof(struct lw_packet_bin, field)

/* Behind flow_id, in the order of COLUMNS; every field has 64 bits. */
static const size_t offsets[] = {AT(bin_ns), AT(n_frames), AT(frame_bytes), AT(n_packets),
	AT(wire_bytes), AT(payload_bytes), AT(n_retransmitted), AT(retransmitted_bytes),
	AT(repeated_bytes), AT(n_out_of_order), AT(n_psn_gaps), AT(n_naks), AT(n_ce), AT(first_ns),
	AT(last_ns)};

struct vtab {
	sqlite3_vtab base;
	const struct lw_bin_source *source;
};

struct cursor {
	sqlite3_vtab_cursor base;
	const struct lw_bin_source *source;
	size_t i;
};

static int connect(sqlite3 *db, void *data, int argc, const char *const *argv,
	sqlite3_vtab **ret_vtab, char **ret_error)
{
	int code = sqlite3_declare_vtab(db, "CREATE TABLE x(" COLUMNS ")");
	struct vtab *vtab;

	(void)argc;
	(void)argv;
	(void)ret_error;
	if (code != SQLITE_OK)
		return code;
	sqlite3_vtab_config(db, SQLITE_VTAB_DIRECTONLY);
	vtab = sqlite3_malloc(sizeof(*vtab));
	if (!vtab)
		return SQLITE_NOMEM;
	memset(vtab, 0, sizeof(*vtab));
	vtab->source = data;
	*ret_vtab = &vtab->base;
	return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *vtab)
{
	sqlite3_free(vtab);
	return SQLITE_OK;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	(void)vtab;
	info->estimatedCost = 1e5; /* always the whole batch */
	return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret_cursor)
{
	struct cursor *cursor = sqlite3_malloc(sizeof(*cursor));

	if (!cursor)
		return SQLITE_NOMEM;
	memset(cursor, 0, sizeof(*cursor));
	cursor->source = ((struct vtab *)vtab)->source;
	*ret_cursor = &cursor->base;
	return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *cursor)
{
	sqlite3_free(cursor);
	return SQLITE_OK;
}

static int filter(
	sqlite3_vtab_cursor *base, int plan, const char *name, int argc, sqlite3_value **argv)
{
	(void)plan;
	(void)name;
	(void)argc;
	(void)argv;
	((struct cursor *)base)->i = 0;
	return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base)
{
	((struct cursor *)base)->i++;
	return SQLITE_OK;
}

static int eof(sqlite3_vtab_cursor *base)
{
	const struct cursor *cursor = (const struct cursor *)base;

	return cursor->i >= cursor->source->n;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *result, int i)
{
	const struct cursor *cursor = (const struct cursor *)base;
	const struct lw_packet_bin *bin = &cursor->source->bins[cursor->i];
	int64_t value = cursor->source->flow_ids[bin->flow];

	if (i > 0)
		memcpy(&value, (const char *)bin + offsets[i - 1], sizeof(value));
	sqlite3_result_int64(result, value);
	return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
	*ret_rowid = (sqlite3_int64)((struct cursor *)base)->i;
	return SQLITE_OK;
}

/* No xCreate: exists only in this connection, nothing of it gets into the file. */
static const sqlite3_module module = {
	.xConnect = connect,
	.xBestIndex = best_index,
	.xDisconnect = disconnect,
	.xOpen = open_cursor,
	.xClose = close_cursor,
	.xFilter = filter,
	.xNext = next,
	.xEof = eof,
	.xColumn = column,
	.xRowid = rowid,
};

int lw_bin_table_attach(
	struct lw_store *store, struct lw_bin_source *source, sqlite3_stmt **ret_insert)
{
	if (sqlite3_create_module_v2(store->db, "lw_in_packet_bin", &module, source, NULL) !=
		SQLITE_OK)
		return lw_store_fail(store, store->path);
	return lw_store_prepare(store,
		"INSERT INTO packet_bin(" COLUMNS ") SELECT " COLUMNS " FROM lw_in_packet_bin",
		ret_insert);
}
