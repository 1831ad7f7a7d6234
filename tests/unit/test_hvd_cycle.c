/* SPDX-License-Identifier: Apache-2.0 */
/* The twin of Horovod's loop: cases computed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/hvd_job.h"

static void one_rank_waits_for_the_tick_then_for_the_wire(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 1, 2, 1);
	*ready(&job, 0, 0, 0) = 7 * MS;
	*ready(&job, 0, 0, 1) = 9 * MS;
	job.blocked_ns[0] = 9 * MS;
	job.tail_ns[0] = 1 * MS;
	job.line = (struct line){2 * MS, 1};
	job_run(&job);
	/* rounds at 5, 10: both tensors in one batch; 10 + 2 ms + 2000 ns; tail 1 ms */
	assert_int_equal(job.seen.n, 1);
	assert_int_equal(job.seen.batch[0].start_ns, 10 * MS);
	assert_int_equal(job.step_ns[0], 13 * MS + 2000);
	assert_int_equal(job.totals.n_rounds, 2);
	assert_true(job.totals.exposed_ns == 3 * MS + 2000);
	assert_true(job.totals.exposed_wire_ns == 2 * MS + 2000);
	assert_true(job.totals.exposed_cycle_ns == 1 * MS);
}

static void a_late_tensor_holds_back_the_others_rank(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 2, 2, 1);
	*ready(&job, 0, 0, 0) = *ready(&job, 0, 1, 0) = 1 * MS;
	*ready(&job, 0, 0, 1) = 2 * MS;
	*ready(&job, 0, 1, 1) = 17 * MS;
	job.blocked_ns[0] = 2 * MS;
	job.blocked_ns[1] = 17 * MS;
	job.line = (struct line){1 * MS, 0};
	job_run(&job);
	/* tensor 0 at the tick of 5 ms; tensor 1 when the slow rank has it, at the tick of 20 ms */
	assert_int_equal(job.seen.n, 2);
	assert_int_equal(job.seen.batch[0].start_ns, 5 * MS);
	assert_int_equal(job.seen.batch[1].start_ns, 20 * MS);
	assert_int_equal(job.step_ns[0], 21 * MS);
	assert_int_equal(job.step_ns[1], 21 * MS);
}

static void threshold_zero_fuses_nothing(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 1, 3, 1);
	job.setting.fusion_bytes = 0;
	job.setting.local_size = 2;
	job.line = (struct line){1 * MS, 0};
	job.cost.between_ns = 10 * US;
	job_run(&job);
	assert_int_equal(job.seen.n, 3);
	/* one round, then the three operations follow each other on the same thread */
	assert_int_equal(job.seen.batch[0].start_ns, 5 * MS);
	assert_int_equal(job.seen.batch[2].start_ns, 7 * MS + 20 * US);
	assert_int_equal(job.step_ns[0], 8 * MS + 20 * US);
}

static void threshold_is_rounded_up_by_the_local_size(void **state)
{
	struct job job;

	(void)state;
	/* measured with Horovod 0.28.1: 2000 -> 2048 carries 5 x 400 B, 1024 carries 2 x 400 B */
	assert_int_equal(lw_hvd_effective_bytes(2000, 2), 2048);
	assert_int_equal(lw_hvd_effective_bytes(1024, 2), 1024);
	assert_int_equal(lw_hvd_effective_bytes(0, 2), 0);
	assert_int_equal(lw_hvd_effective_bytes(2000, 0), 2000);
	assert_int_equal(lw_hvd_effective_bytes(UINT64_MAX, 2), UINT64_MAX);
	job_init(&job, 1, 12, 1);
	for (uint32_t t = 0; t < 12; t++)
		job.tensors[t].bytes = 400;
	job.setting.local_size = 2;
	job.setting.fusion_bytes = 2000;
	job_run(&job);
	assert_int_equal(job.seen.n, 3);
	assert_int_equal(job.seen.batch[0].n_members, 5);
	assert_int_equal(job.seen.batch[2].n_members, 2);
}

static void fusion_looks_ahead_while_the_skipped_would_fit(void **state)
{
	struct job job;

	(void)state;
	/* classes 0 1 0 1: both pairs fuse although they alternate */
	job_init(&job, 1, 4, 1);
	job.tensors[1].fuse_class = job.tensors[3].fuse_class = 1;
	job_run(&job);
	assert_int_equal(job.seen.n, 2);
	assert_int_equal(job.seen.batch[0].members[1], 2);
	assert_int_equal(job.seen.batch[1].members[0], 1);
	assert_int_equal(job.seen.batch[1].members[1], 3);

	/* 600, 500 (does not fit 1024), 400 (would): 600 + 500 > 1024, so looking ahead stops */
	job_init(&job, 1, 3, 1);
	job.setting.fusion_bytes = 1024;
	job.tensors[0].bytes = 600;
	job.tensors[1].bytes = 500;
	job.tensors[2].bytes = 400;
	job_run(&job);
	assert_int_equal(job.seen.n, 2);
	assert_int_equal(job.seen.batch[0].n_members, 1);
	assert_int_equal(job.seen.batch[1].n_members, 2);

	/* a tensor above the threshold goes alone, and so does one whose class never fuses */
	job_init(&job, 1, 4, 1);
	job.setting.fusion_bytes = 1024;
	job.tensors[0].bytes = 5000;
	job.tensors[1].bytes = job.tensors[3].bytes = 100;
	job.tensors[2].fuse_class = -1;
	job.tensors[2].bytes = 10;
	job_run(&job);
	assert_int_equal(job.seen.n, 3);
	assert_int_equal(job.seen.batch[0].bytes, 5000);
	assert_int_equal(job.seen.batch[1].bytes, 200);
	assert_int_equal(job.seen.batch[2].bytes, 10);
}

/* As measured with Open MPI on 3 ranks: who leaves an operation of 1.23 s 0.4 s before the last rank enters the
 * round of the small one behind it as early, and so the round after that, when its step has just begun. That
 * round agrees on nothing, and a cycle is lost. */
static void a_rank_that_leaves_early_spoils_the_next_round(void **state)
{
	static const double leave_frac[] = {0.33, 0};
	struct job job;

	(void)state;
	for (int is_apart = 0; is_apart < 2; is_apart++) {
		job_init(&job, 2, 2, 4);
		job.setting.cycle_ns = 250 * MS;
		job.line = (struct line){0, 1000};
		job.tensors[0].bytes = 1230000;
		job.tensors[1].bytes = 10;
		for (uint32_t s = 0; s < 4; s++)
			for (uint32_t r = 0; r < 2; r++) {
				*ready(&job, s, r, 0) = 100 * MS;
				*ready(&job, s, r, 1) = 270 * MS;
				job.blocked_ns[s * 2 + r] = 280 * MS;
			}
		job.cost.leave_frac = is_apart ? leave_frac : NULL;
		job_run(&job);
		assert_in_range((uint64_t)job.step_ns[3 * 2 + 1], (is_apart ? 1725 : 1475) * MS,
			(is_apart ? 1740 : 1490) * MS);
	}
}

static void a_running_operation_delays_the_next_round(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 1, 3, 1);
	*ready(&job, 0, 0, 0) = 1 * MS;
	*ready(&job, 0, 0, 1) = 6 * MS;
	*ready(&job, 0, 0, 2) = 18 * MS;
	job.blocked_ns[0] = 18 * MS;
	job.line = (struct line){12 * MS, 0};
	job.cost.oversleep_ns = 60 * US;
	job_run(&job);
	/* round at 5.06 runs to 17.06; due 10.06: no sleep, the next begins at 17.06 with tensor 1 only,
	 * and ends at 29.06; due again before that: tensor 2 at once */
	assert_int_equal(job.seen.n, 3);
	assert_int_equal(job.seen.batch[0].start_ns, 5 * MS + 60 * US);
	assert_int_equal(job.seen.batch[1].start_ns, 17 * MS + 60 * US);
	assert_int_equal(job.seen.batch[2].start_ns, 29 * MS + 60 * US);
}

static void a_round_right_after_an_operation_may_cost_more(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 1, 2, 1);
	*ready(&job, 0, 0, 0) = 1 * MS;
	*ready(&job, 0, 0, 1) = 6 * MS;
	job.blocked_ns[0] = 6 * MS;
	job.line = (struct line){12 * MS, 0};
	job.cost.round_ns = 100 * US;
	job.cost.late_ns = 1 * MS;
	job_run(&job);
	/* the first round slept and costs 0.1 ms; the second follows at 17.1 ms and costs 1.1 ms */
	assert_int_equal(job.seen.batch[0].start_ns, 5 * MS + 100 * US);
	assert_int_equal(job.seen.batch[1].start_ns, 18 * MS + 200 * US);

	/* an operation shorter than the cycle: the loop sleeps again, and nothing is late */
	job.line = (struct line){1 * MS, 0};
	job_run(&job);
	assert_int_equal(job.seen.batch[1].start_ns, 10 * MS + 100 * US);
}

static void idle_rounds_keep_their_period(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 2, 1, 1);
	*ready(&job, 0, 0, 0) = 1000 * MS + 1;
	*ready(&job, 0, 1, 0) = 900 * MS;
	job.blocked_ns[0] = job.blocked_ns[1] = 1000 * MS + 1;
	job.cost.oversleep_ns = 1 * MS;
	job.cost.round_ns = 100 * US;
	job_run(&job);
	/* period 6 ms: rounds at 6, 12, ... 996, 1002; its cost is paid once, it does not add up */
	assert_int_equal(job.seen.batch[0].agreed_ns, 1002 * MS + 100 * US);
	assert_int_equal(job.totals.n_rounds, 167);

	/* a cycle shorter than a round: rounds follow each other without a sleep */
	job.setting.cycle_ns = 0;
	job.cost.round_ns = 300 * US;
	job_run(&job);
	assert_in_range(
		job.seen.batch[0].agreed_ns, 1000 * MS + 1 + 300 * US, 1000 * MS + 1 + 600 * US);
	assert_in_range(job.totals.n_rounds, 3330, 3340);
}

static void the_training_thread_notices_at_its_next_poll(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 1, 1, 2);
	job.blocked_ns[0] = job.blocked_ns[1] = 2 * MS;
	job.line = (struct line){1 * MS + 300 * US, 0};
	job.cost.poll_ns = 1 * MS;
	job_run(&job);
	/* done at 6.3 ms; polls at 2, 3, ... 7 */
	assert_int_equal(job.step_ns[0], 7 * MS);
	assert_true(job.totals.exposed_poll_ns > 0);
	/* second step: begins at 7, ready at once, tick 10, done 11.3, polls at 9, 10, 11, 12 */
	assert_int_equal(job.step_ns[1], 5 * MS);

	/* work that ended before the thread asks costs nothing */
	job.blocked_ns[0] = 9 * MS;
	job_run(&job);
	assert_int_equal(job.step_ns[0], 9 * MS);
}

static void copies_are_paid_by_fused_batches_only(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 1, 2, 1);
	job.cost.copy_in_ns = 100 * US;
	job.cost.copy_in_ns_per_byte = 10;
	job.cost.copy_out_ns = 50 * US;
	job.cost.single_in_ns = 1 * US;
	job.line = (struct line){1 * MS, 0};
	job_run(&job);
	assert_int_equal(job.step_ns[0], 5 * MS + 120 * US + 1 * MS + 50 * US);
	job.setting.fusion_bytes = 0;
	job_run(&job);
	assert_int_equal(job.step_ns[0], 5 * MS + 2 * MS + 2 * US);
}

static void a_step_may_leave_a_tensor_out(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 1, 2, 2);
	*ready(&job, 0, 0, 1) = LW_HVD_NOT_IN_STEP;
	job_run(&job);
	assert_int_equal(job.seen.n, 2);
	assert_int_equal(job.seen.batch[0].n_members, 1);
	assert_int_equal(job.seen.batch[1].n_members, 2);
}

static void groups_may_be_kept_apart(void **state)
{
	static const int32_t group_of[] = {7, LW_HVD_NO_GROUP, 3, 7, 3};
	struct job job;

	(void)state;
	job_init(&job, 1, 5, 1);
	job.input.group_of = group_of;
	job_run(&job);
	assert_int_equal(job.seen.n, 1); /* Horovod's default: groups are fused with anything */
	job.setting.is_group_fusion_off = true;
	job_run(&job);
	/* in the order of each one's first bit: 0 and 3, 1 on its own, 2 and 4 */
	assert_int_equal(job.seen.n, 3);
	assert_int_equal(job.seen.batch[0].n_members, 2);
	assert_int_equal(job.seen.batch[0].members[1], 3);
	assert_int_equal(job.seen.batch[1].n_members, 1);
	assert_int_equal(job.seen.batch[1].members[0], 1);
	assert_int_equal(job.seen.batch[2].members[1], 4);
	/* the threshold splits a group */
	job.setting.fusion_bytes = 1500;
	job_run(&job);
	assert_int_equal(job.seen.n, 5);
	/* and without groups every tensor is one */
	job.input.group_of = NULL;
	job.setting.fusion_bytes = 1 << 20;
	job_run(&job);
	assert_int_equal(job.seen.n, 5);
}

static void without_a_cache_tensors_fuse_in_the_order_of_becoming_ready(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 1, 4, 1);
	job.setting.fusion_bytes = 2000;
	for (uint32_t t = 0; t < 4; t++)
		*ready(&job, 0, 0, t) = (4 - t) * MS;
	job.blocked_ns[0] = 4 * MS;
	job_run(&job);
	assert_int_equal(job.seen.batch[0].members[0], 0);
	job.setting.is_uncached = true;
	job_run(&job);
	assert_int_equal(job.seen.n, 2);
	assert_int_equal(job.seen.batch[0].members[0], 3);
	assert_int_equal(job.seen.batch[0].members[1], 2);
	assert_int_equal(job.seen.batch[1].members[0], 1);
}

static void decompression_of_one_batch_overlaps_the_next(void **state)
{
	struct job job;

	(void)state;
	job_init(&job, 1, 2, 1);
	job.setting.fusion_bytes = 0;
	job.line = (struct line){4 * MS, 0};
	job.cost.finish_ns_per_byte = 1000; /* 1 ms a tensor */
	job_run(&job);
	/* done at 9 and 13 ms: 9 to 10 the first, 13 to 14 the second */
	assert_int_equal(job.step_ns[0], 14 * MS);
	assert_true(job.totals.exposed_ns == 14 * MS);
	job.cost.finish_ns_per_byte =
		5000; /* longer than the operation: now it is what takes the time */
	job_run(&job);
	assert_int_equal(job.step_ns[0], 19 * MS);
	/* what was done before it asks is still to be converted */
	job.blocked_ns[0] = 20 * MS;
	job_run(&job);
	assert_int_equal(job.step_ns[0], 30 * MS);
}

static void too_large_an_input_is_refused(void **state)
{
	struct job job;
	struct lw_hvd_sim *sim;

	(void)state;
	job_init(&job, 2, 2, 1);
	assert_int_equal(lw_hvd_sim_new(1, 2, &sim), 0);
	assert_true(lw_hvd_sim_run(
			    sim, &job.input, &job.setting, &job.cost, job.step_ns, NULL, NULL) < 0);
	lw_hvd_sim_free(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_rank_waits_for_the_tick_then_for_the_wire),
		cmocka_unit_test(a_late_tensor_holds_back_the_others_rank),
		cmocka_unit_test(threshold_zero_fuses_nothing),
		cmocka_unit_test(threshold_is_rounded_up_by_the_local_size),
		cmocka_unit_test(fusion_looks_ahead_while_the_skipped_would_fit),
		cmocka_unit_test(a_rank_that_leaves_early_spoils_the_next_round),
		cmocka_unit_test(a_running_operation_delays_the_next_round),
		cmocka_unit_test(a_round_right_after_an_operation_may_cost_more),
		cmocka_unit_test(idle_rounds_keep_their_period),
		cmocka_unit_test(the_training_thread_notices_at_its_next_poll),
		cmocka_unit_test(copies_are_paid_by_fused_batches_only),
		cmocka_unit_test(a_step_may_leave_a_tensor_out),
		cmocka_unit_test(groups_may_be_kept_apart),
		cmocka_unit_test(without_a_cache_tensors_fuse_in_the_order_of_becoming_ready),
		cmocka_unit_test(decompression_of_one_batch_overlaps_the_next),
		cmocka_unit_test(too_large_an_input_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
