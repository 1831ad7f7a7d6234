/* SPDX-License-Identifier: Apache-2.0 */
/* What operations that something touched are compared with, and which of several causes is to blame. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/report.h"
#include "analyzer/fit/fit.h"
#include "base/units.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"
#include "tests/unit/slow_job.h"

static bool is_third_size(size_t i)
{
	return i % 3 == 2;
}

/* ---- what they are compared with ------------------------------------------------------------------------ */

/* 1 ms and 1 ns a byte; all operations of 3 MB are touched, and cost 3 ms more. */
static void where_no_operation_of_a_size_is_calm_a_fitted_cost_stands_for_them(void **state)
{
	struct lw_run *run = slow_job_make();
	const struct lw_net_caused *caused;
	uint32_t n;

	(void)state;
	for (size_t i = 0; i < run->groups.n; i++) {
		uint64_t bytes = (i % 3 + 1) * 1000000;

		slow_job_set_op(run, i, bytes,
			LW_NS_PER_MS + (int64_t)bytes + (is_third_size(i) ? SLOW_JOB_LOST_NS : 0));
	}
	n = slow_job_count_of(run, is_third_size);
	slow_job_set_readings(
		run, 2, 0, is_third_size, (struct lw_tcp_reading){.rwnd_limited_ns = 6000000});
	caused = slow_job_judged(run, LW_CAUSE_WINDOW);
	slow_job_assert_slowed(caused, n, LW_AGAINST_FIT);
	slow_job_set_readings(run, 2, 0, is_third_size, (struct lw_tcp_reading){.rtt_ns = 6000000});
	caused = slow_job_judged(run, LW_CAUSE_QUEUE); /* large operations fill queues */
	assert_int_equal(caused->n_hit, n);
	assert_int_equal(caused->n_slowed, 0);
	lw_run_free(run);
}

/* The fastest of them were touched too: they are the lower end of how times scatter, not times without it. */
static void what_touched_all_cannot_be_told(void **state)
{
	static const struct lw_tcp_reading steps[] = {
		{.n_retransmits = 1}, {.rwnd_limited_ns = 5000000}};
	static const int kinds[] = {LW_CAUSE_RESENT, LW_CAUSE_WINDOW};

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct lw_run *run = slow_job_make();
		const struct lw_net_caused *caused;
		char text[LW_NET_WORDS_BYTES];

		slow_job_set_ops(run, slow_job_is_late);
		slow_job_set_readings(run, 2, 0, slow_job_is_any, steps[k]);
		caused = slow_job_judged(run, kinds[k]);
		assert_int_equal(caused->n_hit, slow_job_count_of(run, slow_job_is_any));
		assert_int_equal(caused->n_compared, 0);
		assert_int_equal(caused->n_slowed, 0);
		assert_int_equal(run->network.slowed.n_hit, caused->n_hit);
		assert_int_equal(run->network.slowed.n_compared, 0);
		assert_int_equal(run->network.slowed.n_slowed, 0);
		assert_non_null(strstr(lw_caused_text(run, kinds[k], text),
			"too few of their kind without: what it cost cannot be told"));
		lw_run_free(run);
	}
}

static bool is_few_late(size_t i)
{
	return slow_job_is_late(i) && i % 7 == 0;
}

/* The window holds all late ones up alike; in three of them segments were sent again. */
static void too_few_to_tell_are_not_blamed(void **state)
{
	struct lw_run *run = slow_job_make();
	char text[LW_NET_WORDS_BYTES];
	const struct lw_net_slowed *slowed = &run->network.slowed;

	(void)state;
	slow_job_set_ops(run, slow_job_is_late);
	slow_job_set_readings(
		run, 0, 1, slow_job_is_late, (struct lw_tcp_reading){.rwnd_limited_ns = 7000000});
	slow_job_set_readings(run, 1, 2, is_few_late, (struct lw_tcp_reading){.n_retransmits = 1});
	slow_job_judged(run, LW_CAUSE_RESENT);
	assert_true(slow_job_count_of(run, is_few_late) > 0);
	assert_int_equal(
		slowed->by[LW_CAUSE_RESENT].n_compared, slow_job_count_of(run, is_few_late));
	assert_int_equal(
		slowed->by[LW_CAUSE_RESENT].n_unclear, slow_job_count_of(run, is_few_late));
	assert_non_null(strstr(lw_resent_text(run, text), "of them slow, but not by this"));
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_slowed, 0);
	slow_job_assert_slowed(&slowed->by[LW_CAUSE_WINDOW],
		slow_job_count_of(run, slow_job_is_late), LW_AGAINST_CALM);
	lw_run_free(run);
}

/* Neither is ever without the other, and TCP counts neither: both, and each says that something else did too. */
static void what_always_comes_together_is_said_of_both(void **state)
{
	struct lw_run *run = slow_job_make();
	const struct lw_net_slowed *slowed = &run->network.slowed;
	uint32_t n;

	(void)state;
	slow_job_set_ops(run, slow_job_is_late);
	slow_job_set_readings(
		run, 1, 2, slow_job_is_late, (struct lw_tcp_reading){.n_retransmits = 1});
	slow_job_add_counter(run, 1, "rx_dropped", slow_job_is_late);
	n = slow_job_count_of(run, slow_job_is_late);
	slow_job_judged(run, LW_CAUSE_RESENT);
	slow_job_assert_slowed(&slowed->by[LW_CAUSE_RESENT], n, LW_AGAINST_CALM);
	slow_job_assert_slowed(&slowed->by[LW_CAUSE_DEVICE], n, LW_AGAINST_CALM);
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_alone, 0);
	slow_job_assert_near(slowed->lost_ns, (double)n * SLOW_JOB_LOST_NS);
	lw_run_free(run);
}

static void of_what_always_comes_together_tcps_own_account_is_to_blame(void **state)
{
	struct lw_run *run = slow_job_make();
	const struct lw_net_slowed *slowed = &run->network.slowed;
	uint32_t n;

	(void)state;
	slow_job_set_ops(run, slow_job_is_late);
	slow_job_set_readings(
		run, 0, 1, slow_job_is_late, (struct lw_tcp_reading){.rwnd_limited_ns = 7000000});
	slow_job_set_readings(
		run, 1, 2, slow_job_is_late, (struct lw_tcp_reading){.n_retransmits = 1});
	n = slow_job_count_of(run, slow_job_is_late);
	slow_job_judged(run, LW_CAUSE_WINDOW);
	slow_job_assert_slowed(&slowed->by[LW_CAUSE_WINDOW], n, LW_AGAINST_CALM);
	assert_int_equal(slowed->by[LW_CAUSE_WINDOW].n_alone, n);
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_slowed, 0);
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_unclear, n);
	lw_run_free(run);
}

static void few_that_two_causes_touched_tell_nothing_of_either(void **state)
{
	struct lw_run *run = slow_job_make();
	const struct lw_net_slowed *slowed = &run->network.slowed;

	(void)state;
	slow_job_set_ops(run, is_few_late);
	slow_job_set_readings(run, 1, 2, is_few_late, (struct lw_tcp_reading){.n_retransmits = 1});
	slow_job_add_counter(run, 1, "rx_dropped", is_few_late);
	slow_job_judged(run, LW_CAUSE_RESENT);
	assert_int_equal(slowed->n_compared, slow_job_count_of(run, is_few_late));
	assert_int_equal(slowed->n_slowed, 0);
	assert_int_equal(
		slowed->by[LW_CAUSE_DEVICE].n_unclear, slow_job_count_of(run, is_few_late));
	lw_run_free(run);
}

/* ---- packets ---------------------------------------------------------------------------------------------- */

static void add_capture_of_link_1(int capture, double bytes)
{
	net_run_add_capture(capture, 0, 2000000000);
	net_run_add(
		"INSERT INTO flow VALUES(%d, %d, 'tcp', '10.0.0.2', 40102, '10.0.0.3', 5001, NULL, 2, 1, NULL, 0, 0, 1448, 0, 0);"
		"WITH RECURSIVE ms(at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM ms WHERE at < 999)"
		" INSERT INTO packet_bin SELECT %d, at * 1000000, 1, 1, 1, 1, %.0f, at %% 100 = 7, 0, 0, 0, 0, 0, 0, at * 1000000, at * 1000000 FROM ms;",
		capture, capture, capture, bytes / 1000);
}

static struct lw_run *make_captured_job(int n_captures, double bytes)
{
	struct lw_run *run;

	net_run_begin(SLOW_JOB_RANKS);
	for (int r = 0; r < SLOW_JOB_RANKS; r++)
		net_run_add_link(r, (r + 1) % SLOW_JOB_RANKS, 60e6, 1e3, 50);
	for (int i = 1; i <= n_captures; i++)
		add_capture_of_link_1(i, bytes);
	run = net_run_analyze(SLOW_JOB_RANKS);
	slow_job_set_ops(run, slow_job_is_none);
	slow_job_set_readings(
		run, 1, 2, slow_job_is_late, (struct lw_tcp_reading){.n_retransmits = 1});
	return run;
}

static void packets_that_several_captures_saw_count_once(void **state)
{
	(void)state;
	for (int n_captures = 1; n_captures <= 2; n_captures++) {
		struct lw_run *run = make_captured_job(n_captures, 60e6);
		const struct lw_net_caused *caused = slow_job_judged(run, LW_CAUSE_RESENT);

		assert_true(caused->is_by_packets);
		slow_job_assert_near(caused->amount, 10);
		slow_job_assert_near(caused->worst_amount, 10);
		lw_run_free(run);
	}
}

/* One connection of several, another device: where most was not captured TCP's own readings count. */
static void of_a_link_that_was_captured_in_part_tcp_tells(void **state)
{
	struct lw_run *run = make_captured_job(1, 6e6);
	const struct lw_net_caused *caused = slow_job_judged(run, LW_CAUSE_RESENT);

	(void)state;
	assert_false(caused->is_by_packets);
	slow_job_assert_near(caused->amount, (double)(run->groups.n - 30));
	assert_int_equal(caused->n_hit, slow_job_count_of(run, slow_job_is_late));
	lw_run_free(run);
}

/* What was dropped is in no packet that was captured: then what the kernel counted beyond those tells. */
static void where_packets_were_dropped_tcp_tells(void **state)
{
	struct lw_run *run = make_captured_job(1, 60e6);
	struct lw_capture_gap gap = {.start_ns = run->groups.at[35].last_start_ns,
		.end_ns = run->groups.at[39].last_end_ns,
		.clock = run->ranks.at[1].clock,
		.n = 5};
	uint32_t n_hit = slow_job_judged(run, LW_CAUSE_RESENT)->n_hit;

	(void)state;
	assert_int_equal(lw_vec_push(&run->capture_gaps, gap), 0);
	slow_job_assert_near(slow_job_judged(run, LW_CAUSE_RESENT)->amount, 10 + 5);
	assert_int_equal(run->network.slowed.by[LW_CAUSE_RESENT].n_hit, n_hit + 5);
	run->capture_gaps.at[0].clock++; /* another host's */
	slow_job_assert_near(slow_job_judged(run, LW_CAUSE_RESENT)->amount, 10);
	lw_run_free(run);
}

static void another_number_of_packets_than_tcp_counts_is_said(void **state)
{
	struct lw_run *run = make_captured_job(1, 60e6);
	char text[LW_NET_WORDS_BYTES], wanted[80];

	(void)state;
	slow_job_judged(run, LW_CAUSE_RESENT);
	snprintf(wanted, sizeof(wanted), "%zu segments by TCP, 10 by captured packets",
		run->groups.n - 30);
	assert_non_null(strstr(lw_resent_text(run, text), wanted));
	slow_job_set_readings(run, 1, 2, slow_job_is_none, (struct lw_tcp_reading){0});
	slow_job_judged(run, LW_CAUSE_RESENT);
	assert_non_null(strstr(lw_resent_text(run, text), "0 segments by TCP, 10 by captured"));
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			where_no_operation_of_a_size_is_calm_a_fitted_cost_stands_for_them),
		cmocka_unit_test(what_touched_all_cannot_be_told),
		cmocka_unit_test(too_few_to_tell_are_not_blamed),
		cmocka_unit_test(what_always_comes_together_is_said_of_both),
		cmocka_unit_test(of_what_always_comes_together_tcps_own_account_is_to_blame),
		cmocka_unit_test(few_that_two_causes_touched_tell_nothing_of_either),
		cmocka_unit_test(packets_that_several_captures_saw_count_once),
		cmocka_unit_test(of_a_link_that_was_captured_in_part_tcp_tells),
		cmocka_unit_test(where_packets_were_dropped_tcp_tells),
		cmocka_unit_test(another_number_of_packets_than_tcp_counts_is_said),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
