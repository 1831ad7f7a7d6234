/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a probe, put together over ranks and files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/lib/run_fixture.h"

static void probe_operations_join_over_all_ranks(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	struct lw_run *run, *plain = run_fixture_analyze(&spec);

	(void)state;
	/* thread, seq, start, end, op, bytes, number, burst, position, transport; rank 1 comes later */
	spec.extra_sql =
		"INSERT INTO probe VALUES(2, 0, 1000, 5000, 1, 8, 0, 0, 0, 2), (4, 0, 3000, 5500, 1, 8, 0, 0, 0, 2),"
		" (4, 1, 5600, 7000, 1, 64, 1, 0, 1, 2), (2, 1, 5100, 6900, 1, 64, 1, 0, 1, 2),"
		" (2, 2, 9000, 9900, 1, 64, 2, 1, 0, 2), (4, 2, 9100, 9950, 1, 64, 3, 1, 0, 2),"
		" (2, 3, 9900, 9990, 1, 512, 4, 2, 0, 2), (4, 3, 9910, 9980, 1, 512, 4, 2, 0, 2),"
		" (2, 4, 9995, 9999, 1, 512, 5, 2, 1, 2), (4, 4, 9996, 9998, 1, 64, 5, 2, 1, 2)";
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->probes.n, 3);
	assert_int_equal(run->probes.at[0].bytes, 8);
	assert_int_equal(run->probes.at[0].last_start_ns, 3000);
	assert_int_equal(run->probes.at[0].last_end_ns, 5500);
	assert_true(run->probes.at[0].idle_ns == INT64_MAX);
	assert_int_equal(run->probes.at[1].last_start_ns, 5600);
	assert_int_equal(run->probes.at[1].last_end_ns, 7000);
	assert_int_equal(run->probes.at[1].idle_ns, 100);
	assert_int_equal(run->probes.at[1].nth_in_burst, 1);
	assert_int_equal(run->probes.at[2].bytes, 512);
	assert_int_equal(run->probes.at[0].burst, 0);
	assert_int_equal(run->probes.at[2].burst, 1); /* as they come: burst 1 is not whole */
	assert_true(run->probes.at[2].idle_ns == INT64_MAX); /* what was before it is not known */
	assert_int_equal(run_fixture_diag(run, "probe not whole"), 3); /* 2 and 3; 5: other sizes */
	/* and nothing else changed */
	assert_int_equal(run->groups.n, plain->groups.n);
	for (size_t r = 0; r < 2; r++) {
		assert_int_equal(run->ranks.at[r].steps.n, plain->ranks.at[r].steps.n);
		assert_int_equal(run->ranks.at[r].batches.n, plain->ranks.at[r].batches.n);
		assert_int_equal(run->ranks.at[r].collectives.n, plain->ranks.at[r].collectives.n);
	}
	lw_run_free(run);
	lw_run_free(plain);
}

static void probes_across_clocks_take_the_rank_that_came_last(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"INSERT INTO host VALUES(2, 'node2', 'boot-2', 'monotonic'); UPDATE process SET host_id = 2 WHERE id = 2;"
		"INSERT INTO probe VALUES(2, 0, 1000, 5000, 1, 8, 0, 0, 0, 1), (4, 0, 900300, 900550, 1, 8, 0, 0, 0, 1),"
		" (2, 1, 5500, 5600, 1, 8, 1, 0, 1, 1), (4, 1, 900560, 901000, 1, 8, 1, 0, 1, 1)";
	run = run_fixture_load(&spec);
	assert_int_equal(run->probes.n, 2);
	assert_int_equal(run->probes.at[0].last_end_ns - run->probes.at[0].last_start_ns, 250);
	assert_int_equal(run->probes.at[1].last_end_ns - run->probes.at[1].last_start_ns, 100);
	assert_int_equal(run->probes.at[1].idle_ns, 500);
	lw_run_free(run);
}

/* A job of its own measured the sizes: its processes are no ranks of the run, their operations count. */
static void a_probe_beside_the_run_belongs_to_its_ranks(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	char first[128], second[128];
	const char *paths[] = {first, second};
	struct lw_run *run;

	(void)state;
	snprintf(first, sizeof(first), "%s", run_fixture_path("run.lapwing"));
	snprintf(second, sizeof(second), "%s", run_fixture_path("probe.lapwing"));
	spec.extra_sql =
		"INSERT INTO probe VALUES(2, 0, 10, 50, 1, 8, 0, 0, 0, 2), (4, 0, 30, 55, 1, 8, 0, 0, 0, 2)";
	make_run_write(first, &spec);
	spec.extra_sql =
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM collective; DELETE FROM ready;"
		"DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting;"
		"INSERT INTO probe VALUES(2, 0, 70, 90, 1, 64, 0, 0, 0, 2), (4, 0, 75, 95, 1, 64, 0, 0, 0, 2)";
	make_run_write(second, &spec);
	assert_int_equal(lw_run_load(paths, 2, LW_STORE_READ, &run), LW_OK);
	assert_int_equal(run->ranks.n, 2);
	assert_int_equal(run->ranks.at[1].batches.n, 6);
	assert_int_equal(run->diags.n, 0);
	assert_int_equal(run->probes.n, 2);
	assert_int_equal(run->probes.at[0].bytes, 8);
	assert_int_equal(run->probes.at[1].bytes, 64);
	assert_int_equal(run->probes.at[1].last_end_ns - run->probes.at[1].last_start_ns, 20);
	assert_true(run->probes.at[1].idle_ns == INT64_MAX); /* not after the other one's last */
	lw_run_free(run);
}

/* What a file calls its bursts is used as an index later on. */
static void bursts_of_any_number_are_counted_as_they_come(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"INSERT INTO probe VALUES(2, 0, 10, 50, 1, 8, 0, 4294967295, 0, 2), (4, 0, 30, 55, 1, 8, 0, 4294967295, 0, 2),"
		" (2, 1, 60, 70, 1, 8, 1, 4294967295, 4000000000, 2), (4, 1, 61, 70, 1, 8, 1, 4294967295, 4000000000, 2),"
		" (2, 2, 80, 90, 1, 8, 2, 2000000000, 0, 2), (4, 2, 81, 90, 1, 8, 2, 2000000000, 0, 2),"
		" (2, 3, 91, 92, 1, 8, 3, -1, 0, 2), (4, 3, 91, 92, 1, 8, 3, 4294967296, 0, 2),"
		" (2, 4, 93, 94, 1, 8, -4, 3, 0, 2), (4, 4, 93, 94, 1, 8, 4, 3, 4294967296, 2)";
	run = run_fixture_load(&spec);
	assert_int_equal(run->probes.n, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(run->probes.at[i].burst, i / 2);
		assert_int_equal(run->probes.at[i].nth_in_burst, i % 2);
	}
	assert_int_equal(run_fixture_diag(run, "bad rows"), 4);
	lw_run_free(run);
}

static const char *const no_batches =
	"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM collective; DELETE FROM ready;"
	"DELETE FROM cycle; DELETE FROM wait; DELETE FROM setting;";

/* A run and a probe beside it, which differ in the rows of table probe only. */
static struct lw_run *load_two(const char *hosts, const char *first_rows, const char *second_rows)
{
	struct make_run spec = make_run_job(2, 3);
	char first[128], second[128], sql[1024];
	const char *paths[] = {first, second};
	struct lw_run *run;

	snprintf(first, sizeof(first), "%s", run_fixture_path("run.lapwing"));
	snprintf(second, sizeof(second), "%s", run_fixture_path("probe.lapwing"));
	spec.extra_sql = sql;
	snprintf(sql, sizeof(sql), "%s INSERT INTO probe VALUES%s", hosts, first_rows);
	make_run_write(first, &spec);
	snprintf(sql, sizeof(sql), "%s%s INSERT INTO probe VALUES%s", hosts, no_batches,
		second_rows);
	make_run_write(second, &spec);
	assert_int_equal(lw_run_load(paths, 2, LW_STORE_READ, &run), LW_OK);
	return run;
}

/* Rank 1 lost what it recorded of the first of two probes, all of the same sizes. */
static void a_probe_that_a_rank_lost_is_not_taken_for_the_next(void **state)
{
	struct lw_run *run = load_two("", "(2, 0, 10, 50, 1, 8, 0, 0, 0, 2)",
		"(2, 0, 70, 90, 1, 8, 0, 0, 0, 2), (4, 0, 75, 95, 1, 8, 0, 0, 0, 2)");

	(void)state;
	assert_int_equal(run->probes.n, 1);
	assert_int_equal(run->probes.at[0].last_start_ns, 75);
	assert_int_equal(run->probes.at[0].last_end_ns, 95);
	assert_int_equal(run_fixture_diag(run, "probe not whole"), 1);
	lw_run_free(run);
}

static void operations_that_never_ran_together_are_not_one(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"INSERT INTO probe VALUES(2, 0, 10, 50, 1, 8, 0, 0, 0, 1), (4, 0, 51, 90, 1, 8, 0, 0, 0, 1),"
		" (2, 1, 60, 110, 1, 8, 1, 0, 1, 1), (4, 1, 100, 120, 1, 8, 1, 0, 1, 1)";
	run = run_fixture_load(&spec);
	assert_int_equal(run->probes.n, 1);
	assert_int_equal(run->probes.at[0].last_start_ns, 100);
	assert_int_equal(run_fixture_diag(run, "probe not whole"), 1);
	lw_run_free(run);
}

/* Their times do not compare, so nothing says which one was lost. */
static void across_clocks_a_lost_probe_leaves_none(void **state)
{
	static const char *const two_hosts =
		"INSERT INTO host VALUES(2, 'node2', 'boot-2', 'monotonic'); UPDATE process SET host_id = 2 WHERE id = 2;";
	static const char *const both =
		"(2, 0, 70, 90, 1, 8, 0, 0, 0, 2), (4, 0, 907, 909, 1, 8, 0, 0, 0, 2)";
	struct lw_run *run = load_two(two_hosts, "(2, 0, 10, 50, 1, 8, 0, 0, 0, 2)", both);

	(void)state;
	assert_int_equal(run->probes.n, 0);
	assert_int_equal(run_fixture_diag(run, "probe not whole"), 1);
	lw_run_free(run);
	run = load_two(two_hosts,
		"(2, 0, 10, 50, 1, 8, 0, 0, 0, 2), (4, 0, 901, 904, 1, 8, 0, 0, 0, 2)", both);
	assert_int_equal(run->probes.n, 2);
	assert_int_equal(run->probes.at[1].last_end_ns, 909);
	lw_run_free(run);
}

static void a_probe_without_a_rank_says_nothing(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	struct lw_run *run;

	(void)state;
	spec.size = 3;
	spec.extra_sql =
		"INSERT INTO probe VALUES(2, 0, 10, 50, 1, 8, 0, 0, 0, 1), (4, 0, 30, 55, 1, 8, 0, 0, 0, 1)";
	run = run_fixture_load(&spec);
	assert_int_equal(run->probes.n, 0);
	assert_int_equal(run_fixture_diag(run, "probe not whole"), 1);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probe_operations_join_over_all_ranks),
		cmocka_unit_test(probes_across_clocks_take_the_rank_that_came_last),
		cmocka_unit_test(a_probe_beside_the_run_belongs_to_its_ranks),
		cmocka_unit_test(bursts_of_any_number_are_counted_as_they_come),
		cmocka_unit_test(a_probe_that_a_rank_lost_is_not_taken_for_the_next),
		cmocka_unit_test(operations_that_never_ran_together_are_not_one),
		cmocka_unit_test(across_clocks_a_lost_probe_leaves_none),
		cmocka_unit_test(a_probe_without_a_rank_says_nothing),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
