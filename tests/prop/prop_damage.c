/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prop_damage.c - a run file whose numbers are damaged is read, or refused in words; it breaks nothing.
 *
 * Its worth shows under the sanitizers: presets asan and fuzz run it too.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/report.h"
#include "schema/store.h"
#include "tests/lib/run_fixture.h"

enum { N_CASES = 60, MAX_DAMAGE = 6 };

static const char *const columns[][2] = {{"process", "rank"}, {"process", "size"},
	{"process", "framework"}, {"process", "transport"}, {"process", "start_ns"},
	{"thread", "process_id"}, {"collective", "start_ns"}, {"collective", "end_ns"},
	{"collective", "op"}, {"collective", "sent_bytes"}, {"collective", "flags"},
	{"collective", "comm_key"}, {"ready", "at_ns"}, {"ready", "object"}, {"cycle", "start_ns"},
	{"cycle", "end_ns"}, {"cycle", "op"}, {"batch", "start_ns"}, {"batch", "end_ns"},
	{"batch", "op"}, {"batch", "batch"}, {"batch", "bytes"}, {"batch", "fusion_bytes"},
	{"batch", "process_set"}, {"batch", "thread_id"}, {"batch_tensor", "batch"},
	{"batch_tensor", "position"}, {"batch_tensor", "name_id"}, {"batch_tensor", "bytes"},
	{"batch_tensor", "dtype"}, {"setting", "setting"}, {"setting", "value"},
	{"wait", "start_ns"}, {"wait", "end_ns"}};
static const int64_t values[] = {0, -1, 1, INT32_MAX, INT32_MIN, INT64_C(1) << 31, INT64_C(1) << 62,
	INT64_MAX, INT64_MIN, 65535, 12345};

static uint64_t state;

static size_t random_below(size_t n)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % n;
}

static void damage(char *sql, size_t size)
{
	size_t n = 0, n_updates = 1 + random_below(MAX_DAMAGE);

	while (n_updates--) {
		size_t column = random_below(sizeof(columns) / sizeof(columns[0]));

		n += (size_t)snprintf(sql + n, size - n,
			"UPDATE OR IGNORE %s SET %s = %" PRId64 " WHERE rowid %% %zu = 0;",
			columns[column][0], columns[column][1],
			values[random_below(sizeof(values) / sizeof(values[0]))],
			1 + random_below(7));
	}
}

static void damaged_numbers_break_nothing(void **unused)
{
	const struct lw_report_options report = {.with_steps = true, .rank = LW_NONE};
	const struct lw_analysis_options options = {0};
	const char *text = getenv("LAPWING_SEED");
	FILE *out = fopen("/dev/null", "w");
	size_t n_read = 0;

	(void)unused;
	state = text ? strtoull(text, NULL, 0) : 7;
	print_message("seed %" PRIu64 " (LAPWING_SEED replays)\n", state);
	assert_non_null(out);
	for (int i = 0; i < N_CASES; i++) {
		struct make_run spec = make_run_job(1 + (int)random_below(3), 6);
		const char *path = run_fixture_path("run.lapwing");
		struct lw_analysis *analysis;
		char sql[1024];

		spec.n_broadcasts = 1;
		if (random_below(4) == 0)
			spec.framework = LW_FRAMEWORK_TORCH_DDP;
		damage(sql, sizeof(sql));
		spec.extra_sql = sql;
		make_run_write(path, &spec);
		if (lw_analysis_open(&path, 1, &options, &analysis) < 0) {
			assert_true(*lw_error_text() != '\0');
			continue;
		}
		n_read++;
		lw_report_text(analysis, &report, out);
		assert_int_equal(lw_report_json(analysis, out), LW_OK);
		lw_analysis_close(analysis);
	}
	fclose(out);
	print_message("%zu of %d damaged runs were read\n", n_read, N_CASES);
	assert_true(n_read > N_CASES / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_numbers_break_nothing)};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
