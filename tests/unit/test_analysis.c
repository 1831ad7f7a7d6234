/* SPDX-License-Identifier: Apache-2.0 */
/* test_analysis.c - all stages from one call: what a growing run is left as. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/analyzer.h"
#include "tests/lib/run_fixture.h"

static int64_t rows_in(struct lw_store *store, const char *sql)
{
	int64_t n = -1;

	assert_int_equal(lw_store_int(store, sql, &n), LW_OK);
	return n;
}

/* The collector is in the middle of a transaction: who only reads neither waits for it nor stores anything. */
static void a_growing_run_is_analysed_without_writing_into_it(void **state)
{
	const struct lw_analysis_options options = {.is_read_only = true};
	const char *path = run_fixture_path("growing.lapwing");
	struct make_run spec = make_run_job(2, 12);
	struct lw_analysis *analysis;
	struct lw_store *collector;

	(void)state;
	spec.is_open = true;
	make_run_write(path, &spec);
	assert_int_equal(lw_store_open(path, LW_STORE_WRITE, &collector), LW_OK);
	assert_int_equal(lw_store_exec(collector, "BEGIN IMMEDIATE"), LW_OK);
	assert_int_equal(lw_analysis_open(&path, 1, &options, &analysis), LW_OK);
	assert_false(analysis->run->is_closed);
	assert_int_equal(analysis->summary.n_steps + analysis->summary.n_excluded, 12);
	assert_int_equal(rows_in(collector, "SELECT count(*) FROM step"), 0);
	assert_int_equal(rows_in(collector, "SELECT count(*) FROM fit"), 0);
	assert_int_equal(rows_in(collector, "SELECT count(*) FROM prediction"), 0);
	assert_int_equal(rows_in(collector, "SELECT count(*) FROM advice"), 0);
	lw_analysis_close(analysis);
	assert_int_equal(lw_store_exec(collector, "COMMIT"), LW_OK);
	lw_store_close(collector);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_growing_run_is_analysed_without_writing_into_it),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
