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

static void phases_are_what_the_job_did(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run = run_fixture_analyze(&spec);
	const struct lw_step *step = &run->ranks.at[0].steps.at[2];

	(void)state;
	/* two coordination messages; nobody is late */
	assert_int_equal(step->negotiate_ns, 2 * 200000);
	assert_int_equal(step->late_ns, 0);
	/* fc.weight from 10 ms to the round at 12.5 ms; conv.weight one tick */
	assert_int_equal(step->wait_ns, 2500000 + 500000);
	assert_int_equal(step->tick_ns, 3000000);
	assert_int_equal(step->allreduce_ns, 8000000 + 3000000);
	assert_int_equal(step->misc_ns, 4 * 100000);
	assert_int_equal(step->entry_ns, 0);
	lw_run_free(run);
}

static void a_late_rank_is_negotiate_on_every_rank(void **state)
{
	struct make_run spec = make_run_job(3, 4);
	struct lw_run *run;

	(void)state;
	spec.late_ns[1] = 5000000;
	run = run_fixture_analyze(&spec);
	for (size_t r = 0; r < 3; r++) {
		const struct lw_step *step = &run->ranks.at[r].steps.at[2];

		/* 10 .. 17 ms for the first batch, 30 .. 35 ms for the second */
		assert_int_equal(step->late_ns, 7000000 + 5000000);
		assert_int_equal(step->negotiate_ns, step->late_ns + 2 * 200000);
		assert_int_equal(step->wait_ns, 2500000 + 500000);
	}
	lw_run_free(run);
}

/* The second batch is ready while the first is on the wire: it waits behind it, not for a cycle. */
static void waiting_behind_an_operation_is_no_tick(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run;
	const struct lw_step *step;

	(void)state;
	spec.wire_ns[0] = 28000000; /* batch 0 ends at 40.9 ms; conv.weight is ready at 30 ms */
	run = run_fixture_analyze(&spec);
	step = &run->ranks.at[0].steps.at[2];
	assert_int_equal(step->wait_ns, 2500000 + (40900000 - 30000000) + 500000);
	assert_int_equal(step->tick_ns, 2500000 + 500000);
	lw_run_free(run);
}

static void without_wire_records_copies_count_as_allreduce(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run;

	(void)state;
	spec.no_wire = true;
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[0].steps.at[1].misc_ns, 0);
	assert_int_equal(run->ranks.at[0].steps.at[1].allreduce_ns, 11000000 + 4 * 100000);
	assert_int_equal(run_fixture_diag(run, "wire time not seen"), 16);
	lw_run_free(run);
}

static void a_lost_record_costs_its_own_step_only(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	struct lw_run *run;

	(void)state;
	spec.has_lost = true;
	spec.lost_step = 3;
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[1].steps.at[3].tick_ns, LW_NS_UNKNOWN);
	assert_int_equal(run->ranks.at[1].steps.at[2].tick_ns, 3000000);
	assert_int_equal(run->ranks.at[1].steps.at[4].tick_ns, 3000000);
	assert_int_equal(run->ranks.at[1].steps.at[4].entry_ns, 0);
	lw_run_free(run);
}

static void one_ranks_view_negotiates_until_agreed(void **state)
{
	struct make_run spec = make_run_job(1, 4);
	struct lw_run *run;

	(void)state;
	spec.size = 4;
	spec.extra_sql = "UPDATE run SET source = 'horovod-timeline'";
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[0].steps.at[2].negotiate_ns, 2700000 + 700000);
	assert_int_equal(run->ranks.at[0].steps.at[2].wait_ns, 0);
	assert_int_equal(run_fixture_diag(run, "one rank's view"), 1);
	assert_int_equal(run->n_missing_ranks, 3);
	lw_run_free(run);
}

static void ddp_does_not_negotiate(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run;

	(void)state;
	spec.framework = LW_FRAMEWORK_TORCH_DDP;
	spec.no_cycles = true;
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[0].steps.at[2].negotiate_ns, 0);
	/* from the first ready tensor of each bucket to its start */
	assert_int_equal(run->ranks.at[0].steps.at[2].wait_ns, 2700000 + 700000);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phases_are_what_the_job_did),
		cmocka_unit_test(a_late_rank_is_negotiate_on_every_rank),
		cmocka_unit_test(waiting_behind_an_operation_is_no_tick),
		cmocka_unit_test(without_wire_records_copies_count_as_allreduce),
		cmocka_unit_test(a_lost_record_costs_its_own_step_only),
		cmocka_unit_test(one_ranks_view_negotiates_until_agreed),
		cmocka_unit_test(ddp_does_not_negotiate),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
