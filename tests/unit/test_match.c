/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/run_fixture.h"

static struct lw_run *match(const struct make_run *spec)
{
	struct lw_run *run = run_fixture_load(spec);

	assert_int_equal(lw_run_match(run), LW_OK);
	return run;
}

static void every_operation_meets_itself_on_all_ranks(void **state)
{
	struct make_run spec = make_run_job(4, 5);
	struct lw_run *run;

	(void)state;
	spec.n_broadcasts = 3;
	run = match(&spec);
	assert_int_equal(run->groups.n, 3 + 2 * 5);
	for (size_t g = 0; g < run->groups.n; g++) {
		assert_int_equal(run->groups.at[g].n_ranks, 4);
		assert_int_equal(run->groups.at[g].n_wanted, 4);
		for (size_t r = 0; r < 4; r++)
			assert_int_equal(run->groups.at[g].batch_of_rank[r], g);
	}
	assert_int_equal(run->diags.n, 0);
	lw_run_free(run);
}

static void first_and_last_ready_name_their_ranks(void **state)
{
	struct make_run spec = make_run_job(3, 3);
	struct lw_run *run;

	(void)state;
	spec.late_ns[0] = 1000000;
	spec.late_ns[2] = 5000000;
	run = match(&spec);
	for (size_t g = 0; g < run->groups.n; g++) {
		assert_int_equal(run->groups.at[g].first_rank, 1);
		assert_int_equal(run->groups.at[g].last_rank, 2);
	}
	assert_int_equal(run->groups.at[0].first_ready_ns, spec.first_ns + 10000000);
	assert_int_equal(run->groups.at[0].last_ready_ns, spec.first_ns + 17000000);
	lw_run_free(run);
}

/* Batches of the same name every step: only their times tell one from the next. */
static void a_lost_record_leaves_one_hole_and_shifts_nothing(void **state)
{
	static const struct make_tensor one[] = {{"allreduce.all", 1000, 10000000, 0}};
	struct make_run spec = make_run_job(3, 6);
	struct lw_run *run;

	(void)state;
	spec.tensors = one;
	spec.n_tensors = 1;
	spec.has_lost = true;
	spec.lost_rank = 1;
	spec.lost_step = 2;
	run = match(&spec);
	assert_int_equal(run->groups.n, 6);
	assert_int_equal(run_fixture_diag(run, "unmatched operation"), 1);
	for (size_t g = 0; g < 6; g++) {
		const struct lw_group *group = &run->groups.at[g];

		assert_int_equal(group->n_ranks, g == 2 ? 2 : 3);
		assert_int_equal(group->batch_of_rank[0], g);
		assert_int_equal(group->batch_of_rank[1], g == 2 ? (size_t)-1 : g > 2 ? g - 1 : g);
	}
	lw_run_free(run);
}

static void the_first_rank_may_be_the_one_that_lacks_it(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run;

	(void)state;
	spec.has_lost = true;
	spec.lost_step = 1;
	spec.lost_batch = 1;
	run = match(&spec);
	assert_int_equal(run->groups.n, 8);
	assert_int_equal(run->groups.at[3].batch_of_rank[0], LW_NONE);
	assert_int_equal(run->groups.at[3].batch_of_rank[1], 3);
	assert_int_equal(run->groups.at[4].batch_of_rank[0], 3);
	assert_int_equal(run->diags.n, 1);
	lw_run_free(run);
}

static void ranks_on_other_clocks_are_matched_by_name(void **state)
{
	struct make_run spec = make_run_job(2, 5);
	struct lw_run *run;

	(void)state;
	spec.has_lost = true;
	spec.lost_rank = 1;
	spec.lost_step = 2;
	/* rank 1 ran on another host, whose clock is three hours ahead */
	spec.extra_sql =
		"INSERT INTO host VALUES(2, 'node2', 'boot-2', 'monotonic');"
		"UPDATE process SET host_id = 2 WHERE id = 2;"
		"UPDATE batch SET start_ns = start_ns + 10800000000000, end_ns = end_ns + 10800000000000"
		" WHERE thread_id > 2";
	run = match(&spec);
	assert_int_equal(run->groups.n, 10);
	assert_int_equal(run_fixture_diag(run, "unmatched operation"), 1);
	assert_int_equal(run_fixture_diag(run, "clocks not aligned"), 1);
	assert_int_equal(run->groups.at[4].batch_of_rank[1], LW_NONE);
	assert_int_equal(run->groups.at[9].batch_of_rank[1], 8);
	lw_run_free(run);
}

static void a_growing_run_has_no_holes_at_its_edge(void **state)
{
	struct make_run spec = make_run_job(2, 5);
	struct lw_run *run;

	(void)state;
	spec.is_open = true;
	spec.extra_sql =
		"DELETE FROM batch WHERE thread_id = 4 AND start_ns >="
		" (SELECT start_ns FROM batch WHERE thread_id = 4 ORDER BY start_ns LIMIT 1 OFFSET 7)";
	run = match(&spec);
	assert_int_equal(run->ranks.at[1].batches.n, 7);
	assert_int_equal(run_fixture_diag(run, "unmatched operation"), 0);
	lw_run_free(run);
}

static void process_sets_are_matched_among_their_own_ranks(void **state)
{
	struct make_run spec = make_run_job(3, 4);
	struct lw_run *run;

	(void)state;
	spec.extra_sql = "UPDATE batch SET process_set = 1 WHERE n_tensors = 1;"
			 "DELETE FROM batch WHERE n_tensors = 1 AND thread_id > 4";
	run = match(&spec);
	assert_int_equal(run->groups.n, 8);
	assert_int_equal(run_fixture_diag(run, "unmatched operation"), 0);
	assert_int_equal(run->groups.at[1].n_ranks, 2);
	assert_int_equal(run->groups.at[1].n_wanted, 2);
	assert_int_equal(run->groups.at[0].n_ranks, 3);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_meets_itself_on_all_ranks),
		cmocka_unit_test(first_and_last_ready_name_their_ranks),
		cmocka_unit_test(a_lost_record_leaves_one_hole_and_shifts_nothing),
		cmocka_unit_test(the_first_rank_may_be_the_one_that_lacks_it),
		cmocka_unit_test(ranks_on_other_clocks_are_matched_by_name),
		cmocka_unit_test(a_growing_run_has_no_holes_at_its_edge),
		cmocka_unit_test(process_sets_are_matched_among_their_own_ranks),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
