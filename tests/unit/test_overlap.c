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

static void computing_ends_with_the_first_wait_after_the_last_gradient(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run = run_fixture_analyze(&spec);
	const struct lw_step *step = &run->ranks.at[0].steps.at[2];

	(void)state;
	assert_int_equal(step->compute_ns, 30050000);
	/* 10 .. 20.9 ms and 30 .. 33.9 ms */
	assert_int_equal(step->comm_ns, 14800000);
	assert_int_equal(step->exposed_ns, 33900000 - 30050000);
	assert_int_equal(step->hidden_ns, step->comm_ns - step->exposed_ns);
	assert_int_equal(step->idle_ns, spec.resume_ns);
	assert_int_equal(step->exposed_allreduce_ns, 3000000);
	assert_int_equal(step->exposed_misc_ns, 200000);
	assert_int_equal(step->exposed_wait_ns, 450000);
	assert_int_equal(step->exposed_negotiate_ns, 200000);
	lw_run_free(run);
}

static void waiting_for_a_late_rank_is_exposed_on_the_others_only(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run;
	const struct lw_step *fast, *slow;

	(void)state;
	spec.late_ns[1] = 5000000;
	run = run_fixture_analyze(&spec);
	fast = &run->ranks.at[0].steps.at[2];
	slow = &run->ranks.at[1].steps.at[2];
	assert_int_equal(fast->exposed_ns, 8850000);
	assert_int_equal(fast->exposed_negotiate_ns, 5150000);
	assert_int_equal(slow->exposed_ns, 3850000);
	assert_int_equal(slow->exposed_negotiate_ns, 200000);
	assert_int_equal(slow->comm_ns, 14800000);
	assert_int_equal(fast->comm_ns, 24800000);
	lw_run_free(run);
}

static void without_waits_exposed_is_bounded_and_said_so(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run;
	const struct lw_step *step;

	(void)state;
	spec.no_waits = true;
	run = run_fixture_analyze(&spec);
	step = &run->ranks.at[0].steps.at[2];
	assert_true(step->is_blocked_assumed);
	assert_int_equal(step->exposed_ns, 3900000 + spec.resume_ns - spec.resume_ns);
	assert_true(run_fixture_diag(run, "exposed time assumed") > 0);
	lw_run_free(run);
}

static void without_waits_and_ready_times_nothing_is_claimed(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run;
	const struct lw_step *step;

	(void)state;
	spec.no_waits = true;
	spec.extra_sql = "DELETE FROM ready";
	run = run_fixture_analyze(&spec);
	step = &run->ranks.at[0].steps.at[2];
	assert_int_equal(step->exposed_ns, LW_NS_UNKNOWN);
	assert_int_equal(step->compute_ns, LW_NS_UNKNOWN);
	assert_true(step->comm_ns > 0);
	assert_true(run_fixture_diag(run, "exposed time not known") > 0);
	lw_run_free(run);
}

static void nonblocking_calls_of_a_plain_program_hide_nobody_knows_what(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run;

	(void)state;
	spec.extra_sql = "DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"
			 "DELETE FROM cycle; DELETE FROM wait; UPDATE process SET framework = 0;"
			 "UPDATE collective SET flags = 1";
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[0].steps.at[2].exposed_ns, LW_NS_UNKNOWN);
	lw_run_free(run);
}

static void results_are_rebuilt_to_the_same_rows(void **state)
{
	struct make_run spec = make_run_job(2, 5);
	struct lw_run *run = run_fixture_analyze(&spec);
	const char *path = run_fixture_path("run.lapwing");
	int64_t n[3], sum[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(lw_run_store_results(run), LW_OK);
		assert_int_equal(
			lw_store_int(run->stores.at[0], "SELECT count(*) FROM step", &n[0]), LW_OK);
		assert_int_equal(
			lw_store_int(run->stores.at[0], "SELECT count(*) FROM phase", &n[1]),
			LW_OK);
		assert_int_equal(
			lw_store_int(run->stores.at[0], "SELECT count(*) FROM overlap", &n[2]),
			LW_OK);
		assert_int_equal(
			lw_store_int(run->stores.at[0],
				"SELECT sum(compute_ns + exposed_ns + idle_ns) FROM overlap",
				&sum[i]),
			LW_OK);
	}
	assert_int_equal(n[0], 10);
	assert_int_equal(n[1], 20);
	assert_int_equal(n[2], 10);
	assert_int_equal(sum[0], sum[1]);
	lw_run_free(run);
	/* a run that is still being written is its collector's alone */
	spec.is_open = true;
	make_run_write(path, &spec);
	assert_int_equal(lw_run_load(&path, 1, LW_STORE_WRITE, &run), LW_OK);
	assert_int_equal(lw_run_match(run), LW_OK);
	assert_int_equal(lw_run_steps(run), LW_OK);
	assert_int_equal(lw_run_store_results(run), LW_OK);
	assert_int_equal(
		lw_store_int(run->stores.at[0], "SELECT count(*) FROM step", &n[0]), LW_OK);
	assert_int_equal(n[0], 0);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(computing_ends_with_the_first_wait_after_the_last_gradient),
		cmocka_unit_test(waiting_for_a_late_rank_is_exposed_on_the_others_only),
		cmocka_unit_test(without_waits_exposed_is_bounded_and_said_so),
		cmocka_unit_test(without_waits_and_ready_times_nothing_is_claimed),
		cmocka_unit_test(nonblocking_calls_of_a_plain_program_hide_nobody_knows_what),
		cmocka_unit_test(results_are_rebuilt_to_the_same_rows),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
