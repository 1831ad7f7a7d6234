/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/grow_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"

static const struct {
	const char *name, *time;
} tables[] = {{"ready", "at_ns"}, {"batch_tensor", "at_ns"}, {"batch", "end_ns"},
	{"collective", "end_ns"}, {"wait", "end_ns"}, {"range", "end_ns"}, {"socket", "at_ns"},
	{"socket_sample", "at_ns"}, {"tcp_sample", "at_ns"}, {"cycle", "end_ns"},
	{"setting", "at_ns"}};

#define ok(status)                                                                                 \
	do {                                                                                       \
		if ((status) < 0)                                                                  \
			fail_msg("%s", lw_error_text());                                           \
	} while (0)

void grow_run_execute(struct grow_run *grow, const char *format, ...)
{
	char sql[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sql, sizeof(sql), format, arguments);
	va_end(arguments);
	ok(lw_store_exec(grow->writer, sql));
}

void grow_run_begin(
	struct grow_run *grow, const char *path, const char *whole, const struct make_run *spec)
{
	snprintf(grow->path, sizeof(grow->path), "%s", path);
	unlink(whole);
	unlink(path);
	make_run_write(whole, spec);
	ok(lw_store_open(path, LW_STORE_CREATE, &grow->writer));
	grow_run_execute(grow, "ATTACH '%s' AS whole", whole);
	grow_run_execute(grow,
		"INSERT INTO run SELECT * FROM whole.run; UPDATE run SET closed = 0;"
		"INSERT INTO host SELECT * FROM whole.host; INSERT INTO string SELECT * FROM whole.string");
	grow->at_ns = 0;
}

void grow_run_end(struct grow_run *grow)
{
	lw_store_close(grow->writer);
	grow->writer = NULL;
}

void grow_run_appear(struct grow_run *grow, int rank)
{
	grow_run_execute(grow,
		"INSERT INTO process SELECT * FROM whole.process WHERE rank = %d;"
		"UPDATE process SET ended = NULL WHERE rank = %d;"
		"INSERT INTO thread SELECT * FROM whole.thread WHERE process_id = %d",
		rank, rank, rank + 1);
}

void grow_run_to(struct grow_run *grow, int64_t to_ns)
{
	grow_run_execute(grow, "BEGIN");
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		grow_run_execute(grow,
			"INSERT INTO main.%s SELECT * FROM whole.%s WHERE %s > %lld AND %s <= %lld"
			" ORDER BY rowid",
			tables[i].name, tables[i].name, tables[i].time, (long long)grow->at_ns,
			tables[i].time, (long long)to_ns);
	grow_run_execute(grow, "COMMIT");
	grow->at_ns = to_ns;
}
