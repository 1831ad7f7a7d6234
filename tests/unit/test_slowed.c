/* SPDX-License-Identifier: Apache-2.0 */
/* What slowed operations: each cause, and how much of a link they reach. */
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

/* ---- causes ------------------------------------------------------------------------------------------ */

static void each_cause_of_tcp_is_told_with_its_link_and_what_it_cost(void **state)
{
	static const struct {
		int cause;
		struct lw_tcp_reading step;
		double amount;
	} kinds[] = {
		{LW_CAUSE_RESENT, {.n_retransmits = 2}, 2},
		{LW_CAUSE_WINDOW, {.rwnd_limited_ns = 6000000}, 6e6},
		{LW_CAUSE_BUFFER, {.sndbuf_limited_ns = 6000000}, 6e6},
		{LW_CAUSE_QUEUE, {.rtt_ns = 5000000}, SLOW_JOB_CALM_NS + SLOW_JOB_LOST_NS},
	};

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct lw_run *run = slow_job_make();
		const struct lw_net_caused *caused;
		uint32_t n;

		slow_job_set_ops(run, slow_job_is_late);
		slow_job_set_readings(run, 1, 2, slow_job_is_late, kinds[k].step);
		n = slow_job_count_of(run, slow_job_is_late);
		caused = slow_job_judged(run, kinds[k].cause);
		slow_job_assert_slowed(caused, n, LW_AGAINST_CALM);
		assert_int_equal(caused->n_hit, n);
		assert_int_equal(caused->n_alone, n);
		assert_int_equal(caused->from, 1);
		assert_int_equal(caused->to, 2);
		slow_job_assert_near(
			caused->worst_amount, kinds[k].amount * (double)(run->groups.n - 30));
		slow_job_assert_near(
			caused->normal_frac, (double)SLOW_JOB_LOST_NS / SLOW_JOB_CALM_NS);
		for (int c = 0; c < LW_N_CAUSES; c++)
			if (c != kinds[k].cause)
				assert_int_equal(run->network.slowed.by[c].n_hit, 0);
		assert_int_equal(run->network.slowed.n_slowed, n);
		lw_run_free(run);
	}
}

static void a_cause_without_slower_operations_slows_nothing(void **state)
{
	static const struct lw_tcp_reading all = {.n_retransmits = 1,
		.rwnd_limited_ns = 4000000,
		.sndbuf_limited_ns = 4000000,
		.rtt_ns = 5000000};
	struct lw_run *run = slow_job_make();

	(void)state;
	slow_job_set_ops(run, slow_job_is_none);
	slow_job_set_readings(run, 0, 1, slow_job_is_late, all);
	slow_job_judged(run, LW_CAUSE_RESENT);
	for (int c = LW_CAUSE_RESENT; c <= LW_CAUSE_QUEUE; c++) {
		assert_int_equal(run->network.slowed.by[c].n_compared,
			slow_job_count_of(run, slow_job_is_late));
		assert_int_equal(run->network.slowed.by[c].n_slowed, 0);
	}
	assert_int_equal(run->network.slowed.n_slowed, 0);
	slow_job_assert_near(run->network.slowed.lost_ns, 0);
	lw_run_free(run);
}

static void without_any_cause_slow_operations_have_none(void **state)
{
	struct lw_run *run = slow_job_make();

	(void)state;
	slow_job_set_ops(run, slow_job_is_late);
	for (int32_t r = 0; r < SLOW_JOB_RANKS; r++)
		slow_job_set_readings(run, r, (r + 1) % SLOW_JOB_RANKS, slow_job_is_none,
			(struct lw_tcp_reading){0});
	slow_job_judged(run, LW_CAUSE_RESENT);
	assert_int_equal(run->network.slowed.n_ops, 0);
	assert_int_equal(run->network.slowed.n_slowed, 0);
	lw_run_free(run);
}

static void of_several_causes_an_operation_counts_once(void **state)
{
	struct lw_run *run = slow_job_make();
	const struct lw_net_slowed *slowed = &run->network.slowed;
	uint32_t n, n_both;

	(void)state;
	slow_job_set_ops(run, slow_job_is_late); /* those with both take longer */
	for (size_t i = 0; i < run->groups.n; i++)
		if (slow_job_is_some_late(i))
			slow_job_set_op(run, i, 1 << 20, SLOW_JOB_CALM_NS + 2 * SLOW_JOB_LOST_NS);
	slow_job_set_readings(
		run, 0, 1, slow_job_is_late, (struct lw_tcp_reading){.rwnd_limited_ns = 7000000});
	slow_job_set_readings(
		run, 1, 2, slow_job_is_some_late, (struct lw_tcp_reading){.n_retransmits = 1});
	n = slow_job_count_of(run, slow_job_is_late);
	n_both = slow_job_count_of(run, slow_job_is_some_late);
	slow_job_judged(run, LW_CAUSE_RESENT);
	assert_int_equal(slowed->by[LW_CAUSE_WINDOW].n_slowed, n);
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_slowed, n_both);
	slow_job_assert_near(slowed->by[LW_CAUSE_RESENT].lost_ns, 2.0 * n_both * SLOW_JOB_LOST_NS);
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_alone, 0);
	assert_int_equal(slowed->by[LW_CAUSE_WINDOW].n_alone, n - n_both);
	slow_job_assert_near(
		slowed->by[LW_CAUSE_WINDOW].lost_alone_ns, (double)(n - n_both) * SLOW_JOB_LOST_NS);
	assert_int_equal(slowed->n_slowed, n);
	slow_job_assert_near(slowed->lost_ns, (double)(n + n_both) * SLOW_JOB_LOST_NS);
	lw_run_free(run);
}

/* Segments were sent again in some of those, which took no longer than the others of them. */
static void what_adds_nothing_to_another_cause_is_not_one(void **state)
{
	struct lw_run *run = slow_job_make();
	const struct lw_net_slowed *slowed = &run->network.slowed;
	uint32_t n;

	(void)state;
	slow_job_set_ops(run, slow_job_is_late);
	slow_job_set_readings(
		run, 0, 1, slow_job_is_late, (struct lw_tcp_reading){.rwnd_limited_ns = 7000000});
	slow_job_set_readings(
		run, 1, 2, slow_job_is_some_late, (struct lw_tcp_reading){.n_retransmits = 1});
	n = slow_job_count_of(run, slow_job_is_late);
	slow_job_judged(run, LW_CAUSE_RESENT);
	slow_job_assert_slowed(&slowed->by[LW_CAUSE_WINDOW], n, LW_AGAINST_CALM);
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_compared,
		slow_job_count_of(run, slow_job_is_some_late));
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_slowed, 0);
	assert_int_equal(slowed->n_slowed, n);
	slow_job_assert_near(slowed->lost_ns, (double)n * SLOW_JOB_LOST_NS);
	lw_run_free(run);
}

/* Readings are coarse: some operations that the window held up show segments sent again alone. */
static void what_tcp_itself_counts_is_to_blame_beside_others(void **state)
{
	struct lw_run *run = slow_job_make();
	const struct lw_net_slowed *slowed = &run->network.slowed;

	(void)state;
	slow_job_set_ops(run, slow_job_is_late);
	slow_job_set_readings(run, 0, 1, slow_job_is_some_late,
		(struct lw_tcp_reading){.rwnd_limited_ns = 7000000});
	slow_job_set_readings(
		run, 1, 2, slow_job_is_late, (struct lw_tcp_reading){.n_retransmits = 1});
	slow_job_judged(run, LW_CAUSE_WINDOW);
	slow_job_assert_slowed(&slowed->by[LW_CAUSE_WINDOW],
		slow_job_count_of(run, slow_job_is_some_late), LW_AGAINST_CALM);
	assert_int_equal(slowed->n_slowed, slow_job_count_of(run, slow_job_is_late));
	lw_run_free(run);
}

static bool is_some_late_seen(size_t i)
{
	return slow_job_is_late(i) && i % 3;
}

/* A third of those that were held up, a sixth of those that seem not to have been. */
static void what_readings_miss_does_not_hide_the_rest(void **state)
{
	struct lw_run *run = slow_job_make();

	(void)state;
	slow_job_set_ops(run, slow_job_is_late);
	slow_job_set_readings(
		run, 0, 1, is_some_late_seen, (struct lw_tcp_reading){.rwnd_limited_ns = 3000000});
	slow_job_assert_slowed(slow_job_judged(run, LW_CAUSE_WINDOW),
		slow_job_count_of(run, is_some_late_seen), LW_AGAINST_CALM);
	lw_run_free(run);
}

/* Held back for 1 of 8 ms in flight, or for a moment of a long pause, is how TCP always is. */
static void a_moment_of_a_full_window_is_not_held_back(void **state)
{
	struct lw_run *run = slow_job_make();

	(void)state;
	slow_job_set_ops(run, slow_job_is_late);
	slow_job_set_readings(
		run, 0, 1, slow_job_is_late, (struct lw_tcp_reading){.rwnd_limited_ns = 1000000});
	assert_int_equal(slow_job_judged(run, LW_CAUSE_WINDOW)->n_hit, 0);
	lw_run_free(run);
}

/* ---- queues and devices -------------------------------------------------------------------------------- */

static void a_queue_that_is_always_full_is_no_cause(void **state)
{
	struct lw_run *run = slow_job_make();
	struct lw_tcp_end *end;

	(void)state;
	slow_job_set_ops(run, slow_job_is_late);
	slow_job_set_readings(
		run, 0, 1, slow_job_is_any, (struct lw_tcp_reading){.rtt_ns = 40000000});
	assert_int_equal(slow_job_judged(run, LW_CAUSE_QUEUE)->n_hit, 0);
	end = slow_job_end_of(
		run, 0, 1); /* round trips that go up and down by half of it neither */
	for (size_t i = 0; i < end->tcp.n; i++)
		end->tcp.at[i].rtt_ns = i % 2 ? 20000000 + (int64_t)(i % 7) * 3000000 : 20000000;
	assert_int_equal(slow_job_judged(run, LW_CAUSE_QUEUE)->n_slowed, 0);
	lw_run_free(run);
}

/* Some operations of those with a queue took long, most did not: not the queue. */
static void a_queue_that_slows_few_is_no_cause(void **state)
{
	struct lw_run *run = slow_job_make();

	(void)state;
	for (size_t i = 0; i < run->groups.n; i++)
		slow_job_set_op(run, i, 1 << 20,
			SLOW_JOB_CALM_NS + (i >= 30 && i % 4 == 0 ? SLOW_JOB_LOST_NS : 0));
	slow_job_set_readings(
		run, 0, 1, slow_job_is_late, (struct lw_tcp_reading){.rtt_ns = 5000000});
	assert_int_equal(slow_job_judged(run, LW_CAUSE_QUEUE)->n_hit,
		slow_job_count_of(run, slow_job_is_late));
	assert_int_equal(run->network.slowed.by[LW_CAUSE_QUEUE].n_slowed, 0);
	lw_run_free(run);
}

static void pauses_that_a_nic_counted_are_of_its_ranks(void **state)
{
	struct lw_run *run = slow_job_make();
	const struct lw_net_caused *caused;
	uint32_t n;

	(void)state;
	slow_job_set_ops(run, slow_job_is_late);
	slow_job_add_counter(run, 1, "rx_pfc_pause_prio3", slow_job_is_late);
	n = slow_job_count_of(run, slow_job_is_late);
	caused = slow_job_judged(run, LW_CAUSE_DEVICE);
	slow_job_assert_slowed(caused, n, LW_AGAINST_CALM);
	assert_string_equal(caused->counter, "rx_pfc_pause_prio3");
	assert_int_equal(caused->nic, 1);
	slow_job_assert_near(caused->amount, 7.0 * (double)(run->groups.n - 30));
	lw_run_free(run);
}

static void what_a_nic_counts_that_no_rank_uses_touches_none(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(SLOW_JOB_RANKS);
	for (int r = 0; r < SLOW_JOB_RANKS; r++)
		net_run_add_link(r, (r + 1) % SLOW_JOB_RANKS, 60e6, 1e3, 50);
	net_run_add(
		"INSERT INTO device VALUES(9, 1, 'nic', 'nfs0', 9, 1, NULL, 1500, NULL, '10.7.0.1', 'mlx5_core', 0, 0, NULL),"
		" (10, 1, 'rdma_port', 'mlx5_0/1', NULL, 1, NULL, 4096, NULL, '', 'mlx5_core', 0, 0, NULL);"
		"INSERT INTO counter_sample VALUES(9, 1, 0, 0), (10, 1, 0, 0);");
	run = net_run_analyze(SLOW_JOB_RANKS);
	slow_job_set_ops(run, slow_job_is_late);
	for (size_t i = 0; i < run->nics.n; i++)
		if (!strcmp(run->nics.at[i].name, "nfs0"))
			slow_job_add_counter(run, i, "rx_dropped_phy", slow_job_is_late);
	assert_int_equal(slow_job_judged(run, LW_CAUSE_DEVICE)->n_hit, 0);
	/* but the port of something that posts past libibverbs is used by all ranks of its host, as far as is known */
	for (size_t i = 0; i < run->nics.n; i++)
		if (!strcmp(run->nics.at[i].kind, "rdma_port"))
			slow_job_add_counter(run, i, "rp_cnp_handled", slow_job_is_late);
	/* whichever recording of the host stands for it */
	for (size_t i = 0; i < run->nics.n; i++)
		if (!strcmp(run->nics.at[i].kind, "rdma_port"))
			run->nics.at[i].store = 1;
	slow_job_assert_slowed(slow_job_judged(run, LW_CAUSE_DEVICE),
		slow_job_count_of(run, slow_job_is_late), LW_AGAINST_CALM);
	assert_string_equal(run->network.slowed.by[LW_CAUSE_DEVICE].counter, "rp_cnp_handled");
	lw_run_free(run);
}

/* ---- what they reach ------------------------------------------------------------------------------------- */

/* A ring of three: 4/3 of the bytes. 5 ms for 1 MiB are 280 MB/s, and headers. */
static void operations_are_held_against_the_slowest_way_out(void **state)
{
	struct lw_run *run = slow_job_make();
	struct lw_fit fit = {0};
	struct lw_network *net = &run->network;
	double wire = 1 + 66.0 / 1448, mean_bytes_per_s = 4.0 / 3 * (1 << 20) / 5e-3 * wire;

	(void)state;
	slow_job_set_ops(run, slow_job_is_none);
	for (size_t i = 0; i < LW_FIT_N_FIGURES; i++)
		fit.figure[i].value = NAN;
	fit.figure[LW_FIT_ALPHA_NS].value = 1e6;
	fit.figure[LW_FIT_SLOPE_NS_PER_BYTE].value = 4e6 / (1 << 20);
	assert_int_equal(lw_run_network(run), LW_OK);
	net->off_frac = 0.1;
	for (size_t r = 0; r < SLOW_JOB_RANKS; r++)
		net->ranks.at[r].capacity_bytes_per_s = r == 1 ? 400e6 : 900e6;
	assert_int_equal(lw_run_reach(run, &fit), LW_OK);
	assert_int_equal(net->reach.rank, 1);
	slow_job_assert_near(net->reach.mean_frac, mean_bytes_per_s / 400e6);
	slow_job_assert_near(net->reach.fitted_frac, mean_bytes_per_s * 5 / 4 / 400e6);
	slow_job_assert_near(net->ranks.at[2].fitted_bytes_per_s, mean_bytes_per_s * 5 / 4);
	assert_true(lw_net_is_low(&net->reach));
	slow_job_assert_near(net->reach.reason[LW_REASON_LATENCY], 0.2);
	assert_int_equal(net->reach.reasons & (1U << LW_REASON_LATENCY | 1U << LW_REASON_WINDOW),
		1U << LW_REASON_LATENCY);
	fit.figure[LW_FIT_SLOPE_NS_PER_BYTE].value = 3.5e6 / (1 << 20) * mean_bytes_per_s / 400e6;
	assert_int_equal(lw_run_reach(run, &fit), LW_OK); /* more than it carries */
	assert_int_equal(net->reach.rank, 1);
	assert_true(isnan(net->reach.fitted_frac));
	fit.figure[LW_FIT_SLOPE_NS_PER_BYTE].value = 4e6 / (1 << 20);
	net->ranks.at[1].nic_share = 1.5; /* others send by that NIC too */
	assert_int_equal(lw_run_reach(run, &fit), LW_OK);
	slow_job_assert_near(net->reach.mean_frac, 1.5 * mean_bytes_per_s / 400e6);
	net->ranks.at[1].nic_share = 1.6; /* more than it carries: so it does not */
	assert_int_equal(lw_run_reach(run, &fit), LW_OK);
	assert_int_equal(net->reach.rank, LW_NONE);
	net->ranks.at[1].nic_share = 1;
	net->ranks.at[2].capacity_since_ns = 1; /* the mean is of before and after */
	assert_int_equal(lw_run_reach(run, &fit), LW_OK);
	assert_int_equal(net->reach.rank, LW_NONE);
	net->ranks.at[2].capacity_since_ns = LW_NS_UNKNOWN;
	/* nothing is a reason of what is not low, and without a fit the mean is known still */
	net->ranks.at[1].capacity_bytes_per_s = 300e6;
	assert_int_equal(lw_run_reach(run, &fit), LW_OK);
	assert_false(lw_net_is_low(&net->reach));
	assert_int_equal(net->reach.reasons, 0);
	assert_int_equal(lw_run_reach(run, NULL), LW_OK);
	assert_true(isnan(net->reach.fitted_frac));
	lw_run_free(run);
}

static void a_window_is_a_reason_where_it_held_tcp_back(void **state)
{
	struct lw_run *run = slow_job_make();
	struct lw_network *net = &run->network;

	(void)state;
	slow_job_set_ops(run, slow_job_is_none);
	slow_job_set_readings(
		run, 1, 2, slow_job_is_any, (struct lw_tcp_reading){.rwnd_limited_ns = 4000000});
	assert_int_equal(lw_run_network(run), LW_OK);
	net->off_frac = 0.1;
	for (size_t r = 0; r < SLOW_JOB_RANKS; r++)
		net->ranks.at[r].capacity_bytes_per_s = r == 1 ? 500e6 : 900e6;
	assert_int_equal(lw_run_reach(run, NULL), LW_OK);
	assert_int_equal(net->reach.rank, 1);
	slow_job_assert_near(net->reach.reason[LW_REASON_WINDOW], 0.8);
	assert_true(net->reach.reasons & 1U << LW_REASON_WINDOW);
	assert_false(net->reach.reasons & 1U << LW_REASON_BUFFER);
	net->ranks.at[2].capacity_bytes_per_s = NAN; /* then the others */
	net->ranks.at[1].capacity_bytes_per_s = NAN;
	assert_int_equal(lw_run_reach(run, NULL), LW_OK);
	assert_int_equal(net->reach.rank, 0);
	net->off_frac = 0.5; /* other bytes than those of that algorithm */
	assert_int_equal(lw_run_reach(run, NULL), LW_OK);
	assert_int_equal(net->reach.rank, LW_NONE);
	net->off_frac = 0.1;
	net->ranks.at[0].capacity_bytes_per_s = NAN;
	assert_int_equal(lw_run_reach(run, NULL), LW_OK);
	assert_int_equal(net->reach.rank, LW_NONE);
	assert_false(lw_net_is_low(&net->reach));
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_cause_of_tcp_is_told_with_its_link_and_what_it_cost),
		cmocka_unit_test(a_cause_without_slower_operations_slows_nothing),
		cmocka_unit_test(without_any_cause_slow_operations_have_none),
		cmocka_unit_test(of_several_causes_an_operation_counts_once),
		cmocka_unit_test(what_adds_nothing_to_another_cause_is_not_one),
		cmocka_unit_test(what_tcp_itself_counts_is_to_blame_beside_others),
		cmocka_unit_test(what_readings_miss_does_not_hide_the_rest),
		cmocka_unit_test(a_moment_of_a_full_window_is_not_held_back),
		cmocka_unit_test(a_queue_that_is_always_full_is_no_cause),
		cmocka_unit_test(a_queue_that_slows_few_is_no_cause),
		cmocka_unit_test(pauses_that_a_nic_counted_are_of_its_ranks),
		cmocka_unit_test(what_a_nic_counts_that_no_rank_uses_touches_none),
		cmocka_unit_test(operations_are_held_against_the_slowest_way_out),
		cmocka_unit_test(a_window_is_a_reason_where_it_held_tcp_back),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
