/* SPDX-License-Identifier: Apache-2.0 */
/* info_gpu.c - the part of `lapwing info` on GPUs that processes use. */
#include "base/units.h"
#include "cli/info.h"

static const char gpus_sql[] =
	"SELECT p.pid, p.rank, g.device, n.text, c.text, g.memory_bytes, g.n_multiprocessors,"
	" g.clock_khz, g.major, g.minor FROM gpu g LEFT JOIN process p ON p.id = g.process_id"
	" LEFT JOIN string n ON n.id = g.name_id LEFT JOIN string c ON c.id = g.pci_id"
	" GROUP BY g.process_id, g.device ORDER BY p.rank IS NULL, p.rank, p.pid, g.device";

static void print_gpu(sqlite3_stmt *row, struct lw_json *json)
{
	const char *name = lw_store_column_text(row, 3), *pci = lw_store_column_text(row, 4);
	char memory[LW_UNIT_TEXT_BYTES];

	(void)json;
	printf("  GPU        %d of %s %s: %s", sqlite3_column_int(row, 2),
		sqlite3_column_type(row, 1) != SQLITE_NULL ? "rank" : "pid",
		lw_store_column_text(row, sqlite3_column_type(row, 1) != SQLITE_NULL ? 1 : 0),
		*name ? name : "name not known");
	if (sqlite3_column_int64(row, 5) > 0)
		printf(", %s", lw_bytes_format((double)sqlite3_column_int64(row, 5), memory));
	printf(", %d multiprocessors, compute capability %d.%d%s%s\n", sqlite3_column_int(row, 6),
		sqlite3_column_int(row, 8), sqlite3_column_int(row, 9), *pci ? ", " : "", pci);
}

static void put_gpu(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	lw_info_put_int(json, "pid", row, 0);
	lw_info_put_int(json, "rank", row, 1);
	lw_info_put_int(json, "device", row, 2);
	lw_info_put_text(json, "name", row, 3);
	lw_info_put_text(json, "pci", row, 4);
	lw_info_put_int(json, "memory_bytes", row, 5);
	lw_info_put_int(json, "n_multiprocessors", row, 6);
	lw_info_put_int(json, "clock_khz", row, 7);
	lw_info_put_int(json, "major", row, 8);
	lw_info_put_int(json, "minor", row, 9);
	lw_json_object_end(json);
}

int lw_info_print_gpus(struct lw_store *store)
{
	return lw_info_each(store, gpus_sql, print_gpu, NULL);
}

int lw_info_put_gpus(struct lw_store *store, struct lw_json *json)
{
	int status;

	lw_json_array(json, "gpus");
	status = lw_info_each(store, gpus_sql, put_gpu, json);
	lw_json_array_end(json);
	return status;
}
