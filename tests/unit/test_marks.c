/* SPDX-License-Identifier: Apache-2.0 */
/* Marks and ranges are summed up by name as SQL would, the most first and no more than there is use for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/run_fixture.h"

/* Two ranks of two threads: marks, ranges of the program and of NVTX, without a name, of an unknown thread, impossible. */
static const char made_up[] =
	"INSERT INTO string VALUES(7001, 'a'), (7002, 'b'), (7003, 'c'), (7004, '');"
	"WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < 4999)"
	" INSERT INTO range SELECT n % 4 + 1, 50000 + n, 1000 * n, 1000 * n + n * 7919 % 997, 2 + n % 4,"
	" CASE n % 11 WHEN 0 THEN NULL WHEN 1 THEN 7004 WHEN 2 THEN 7999 ELSE 7001 + n % 3 END, n FROM i;"
	"INSERT INTO range VALUES(1, 1, -5, 5, 3, 7001, 0), (1, 2, 9, 8, 3, 7001, 0), (1, 3, 1, 1 << 59, 3, 7001, 0),"
	" (77, 4, 10, 20, 3, 7001, 0), (1, 5, 10, 20, 1, NULL, 0), (3, 6, 100, 90100, 3, 7001, 0);";

static const char wanted_sql[] =
	"SELECT r.op, coalesce(s.text, ''), count(*), total(r.end_ns - r.start_ns),"
	" max(r.end_ns - r.start_ns), p.rank, count(DISTINCT p.id) FROM range r"
	" JOIN thread t ON t.id = r.thread_id JOIN process p ON p.id = t.process_id"
	" LEFT JOIN string s ON s.id = r.name_id"
	" WHERE r.op > 1 AND r.start_ns >= 0 AND r.end_ns >= r.start_ns AND r.end_ns < (1 << 58)"
	" GROUP BY r.op, 2 ORDER BY 4 DESC, 3 DESC, 1, 2";

static void names_are_summed_up_as_sql_does(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	const struct lw_mark_name *name;
	struct lw_run *run;
	sqlite3_stmt *row;
	size_t n = 0;

	(void)state;
	spec.extra_sql = made_up;
	run = run_fixture_load(&spec);
	assert_int_equal(lw_store_prepare(run->stores.at[0], wanted_sql, &row), LW_OK);
	for (; lw_store_step(run->stores.at[0], row) == 1; n++) {
		assert_true(n < run->marks.names.n);
		name = &run->marks.names.at[n];
		assert_int_equal(name->op, sqlite3_column_int(row, 0));
		assert_string_equal(name->name, lw_store_column_text(row, 1));
		assert_int_equal(name->n, sqlite3_column_int64(row, 2));
		assert_true(name->total_ns == sqlite3_column_double(row, 3));
		assert_int_equal(name->longest_ns, sqlite3_column_int64(row, 4));
		assert_int_equal(name->n_processes, sqlite3_column_int(row, 6));
		if (!strcmp(name->name, "a") && name->op == 3)
			assert_int_equal(name->longest_rank, 1);
	}
	sqlite3_finalize(row);
	assert_int_equal(n, 4 * 4);
	assert_int_equal(run->marks.names.n, n);
	assert_int_equal(run->marks.n_steps, 1);
	lw_run_free(run);
}

static void of_very_many_names_those_that_took_most_are_kept(void **state)
{
	struct make_run spec = make_run_job(1, 4);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < 2999)"
		" INSERT INTO string SELECT 8000 + n, 'name ' || char(97 + n / 1000, 97 + n / 100 % 10, 97 + n / 10 % 10, 97 + n % 10) FROM i;"
		"INSERT INTO range SELECT 1, id, 1000, 1000 + id, 3, id, 0 FROM string WHERE id BETWEEN 8000 AND 10999;";
	run = run_fixture_load(&spec);
	assert_int_equal(run->marks.names.n, 1000);
	assert_string_equal(run->marks.names.at[0].name, "name cjjj");
	assert_string_equal(run->marks.names.at[999].name, "name caaa");
	lw_run_free(run);
}

/* Not cut off before they are one, and the next. */
static void names_that_count_are_one_however_many(void **state)
{
	struct make_run spec = make_run_job(1, 4);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < 2999)"
		" INSERT INTO string SELECT 8000 + n, 'step #' || n FROM i;"
		"INSERT INTO string VALUES(20000, 'fp16');"
		"INSERT INTO range SELECT 1, id, 1000, 2000, 3, id, 0 FROM string WHERE id BETWEEN 8000 AND 10999;"
		"INSERT INTO range VALUES(1, 20000, 1000, 1001, 3, 20000, 0);";
	run = run_fixture_load(&spec);
	assert_int_equal(run->marks.names.n, 2);
	assert_string_equal(run->marks.names.at[0].name, "step #");
	assert_int_equal(run->marks.names.at[0].n, 3000);
	assert_int_equal(run->marks.names.at[0].n_processes, 1);
	assert_string_equal(run->marks.names.at[1].name, "fp16");
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_summed_up_as_sql_does),
		cmocka_unit_test(of_very_many_names_those_that_took_most_are_kept),
		cmocka_unit_test(names_that_count_are_one_however_many),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
