/* SPDX-License-Identifier: Apache-2.0 */
/* info_marks.c - the part of `lapwing info` on marks and ranges: how many of each name. */
#include "base/units.h"
#include "cli/info.h"
#include "schema/event.h"

static const char *const kinds[] = {"?", "step", "mark", "range", "NVTX range", "NVTX mark"};

static const char marks_sql[] =
	"SELECT r.op, s.text, count(*), total(r.end_ns - r.start_ns), count(DISTINCT t.process_id)"
	" FROM range r JOIN thread t ON t.id = r.thread_id LEFT JOIN string s ON s.id = r.name_id"
	" GROUP BY r.op, s.text ORDER BY r.op != 1, 4 DESC, 3 DESC, 2 LIMIT 20";

static const char *kind_of(sqlite3_stmt *row)
{
	int op = sqlite3_column_int(row, 0);

	return kinds[op > 0 && op <= LW_MARK_NVTX_POINT ? op : 0];
}

static bool is_range(sqlite3_stmt *row)
{
	int op = sqlite3_column_int(row, 0);

	return op == LW_MARK_RANGE || op == LW_MARK_NVTX_RANGE;
}

static void print_mark(sqlite3_stmt *row, struct lw_json *json)
{
	char text[LW_UNIT_TEXT_BYTES], name[1100];

	(void)json;
	snprintf(name, sizeof(name), "%s", lw_store_column_text(row, 1));
	for (char *at = name; *at; at++)
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			*at = '?';
	printf("  marks      %-10s %s%s%s x", kind_of(row), name, *name ? ": " : "",
		lw_store_column_text(row, 2));
	if (is_range(row))
		printf(", %s", lw_ns_format(sqlite3_column_double(row, 3), text));
	printf(", in %s process(es)\n", lw_store_column_text(row, 4));
}

int lw_info_print_marks(struct lw_store *store)
{
	return lw_info_each(store, marks_sql, print_mark, NULL);
}

static void put_mark(sqlite3_stmt *row, struct lw_json *json)
{
	lw_json_object(json, NULL);
	lw_json_string(json, "kind", kind_of(row));
	lw_info_put_text(json, "name", row, 1);
	lw_info_put_int(json, "n", row, 2);
	if (is_range(row))
		lw_json_double(json, "total_ns", sqlite3_column_double(row, 3));
	else
		lw_json_null(json, "total_ns");
	lw_info_put_int(json, "n_processes", row, 4);
	lw_json_object_end(json);
}

int lw_info_put_marks(struct lw_store *store, struct lw_json *json)
{
	int status;

	lw_json_array(json, "marks");
	status = lw_info_each(store, marks_sql, put_mark, json);
	lw_json_array_end(json);
	return status;
}
