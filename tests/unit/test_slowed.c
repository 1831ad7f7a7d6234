/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What slowed operations, and how much of a link they reach: a job whose operations and readings are set here, one
 * every 20 ms, a reading at its start and one at its end.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/fit/fit.h"
#include "base/units.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"

enum { N_RANKS = 3, EVERY_NS = 20 * LW_NS_PER_MS, CALM_NS = 5 * LW_NS_PER_MS };
enum { LOST_NS = 3 * LW_NS_PER_MS };

/* ---- the job --------------------------------------------------------------------------------------- */

static struct lw_run *make_job(void)
{
	net_run_begin(N_RANKS);
	for (int r = 0; r < N_RANKS; r++)
		net_run_add_link(r, (r + 1) % N_RANKS, 60e6, 1e3, 50);
	return net_run_analyze(N_RANKS);
}

static void set_op(struct lw_run *run, size_t i, uint64_t bytes, int64_t ns)
{
	struct lw_group *group = &run->groups.at[i];

	group->op = LW_COLL_ALLREDUCE;
	group->bytes = bytes;
	group->first_start_ns = group->last_start_ns = (int64_t)(i + 1) * EVERY_NS;
	group->last_end_ns = group->last_start_ns + ns;
	for (size_t r = 0; r < run->ranks.n; r++) {
		struct lw_batch *batch = &run->ranks.at[r].batches.at[group->batch_of_rank[r]];

		batch->bytes = bytes;
		batch->wire_start_ns = group->last_start_ns;
		batch->wire_end_ns = group->last_end_ns;
	}
}

/* Of the first @n operations every one, of one size; those that @is_slow takes longer. */
static void set_ops(struct lw_run *run, bool (*is_slow)(size_t i))
{
	for (size_t i = 0; i < run->groups.n; i++)
		set_op(run, i, 1 << 20, CALM_NS + (is_slow(i) ? LOST_NS : 0));
}

static bool is_counted(const struct lw_run *run, size_t i)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_batch *batch = lw_group_batch(run, &run->groups.at[i], r);

		if (!batch || batch->step < 0 || run->ranks.at[r].steps.at[batch->step].excluded)
			return false;
	}
	return true;
}

static uint32_t count_of(const struct lw_run *run, bool (*is_it)(size_t i))
{
	uint32_t n = 0;

	for (size_t i = 0; i < run->groups.n; i++)
		n += is_counted(run, i) && is_it(i);
	return n;
}

static bool is_late(size_t i)
{
	return i >= 30;
}

static bool is_some_late(size_t i)
{
	return i >= 30 && i % 2;
}

static bool is_any(size_t i)
{
	(void)i;
	return true;
}

static bool is_none(size_t i)
{
	(void)i;
	return false;
}

static bool is_third_size(size_t i)
{
	return i % 3 == 2;
}

static struct lw_tcp_end *end_of(struct lw_run *run, int32_t from, int32_t to)
{
	struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends)
		if (end->rank == from && end->peer_rank == to)
			return end;
	fail_msg("no end from %d to %d", from, to);
	return NULL;
}

/* The readings of @end anew: TCP is busy while an operation runs, and @step is added in those that @is_it. */
static void set_readings(struct lw_run *run, int32_t from, int32_t to, bool (*is_it)(size_t i),
	struct lw_tcp_reading step)
{
	struct lw_tcp_end *end = end_of(run, from, to);
	struct lw_tcp_reading now = {.rtt_ns = 200000, .min_rtt_ns = 100000};

	end->tcp.n = 0;
	for (size_t i = 0; i < run->groups.n; i++) {
		const struct lw_group *group = &run->groups.at[i];
		bool is_here = is_it(i);

		now.at_ns = group->last_start_ns;
		lw_vec_push(&end->tcp, now);
		now.at_ns = group->last_end_ns;
		now.busy_ns += group->last_end_ns - group->last_start_ns;
		now.rtt_ns = is_here && step.rtt_ns ? step.rtt_ns : 200000;
		now.n_retransmits += is_here ? step.n_retransmits : 0;
		now.rwnd_limited_ns += is_here ? step.rwnd_limited_ns : 0;
		now.sndbuf_limited_ns += is_here ? step.sndbuf_limited_ns : 0;
		lw_vec_push(&end->tcp, now);
	}
}

/* A counter of a device, read like that. */
static void add_counter(struct lw_run *run, size_t nic, const char *name, bool (*is_it)(size_t i))
{
	struct lw_nic_series series = {.name = strdup(name)};
	int64_t value = 0;

	for (size_t i = 0; i < run->groups.n; i++) {
		struct lw_reading reading = {run->groups.at[i].last_start_ns, value};

		lw_vec_push(&series.readings, reading);
		value += is_it(i) ? 7 : 0;
		reading = (struct lw_reading){run->groups.at[i].last_end_ns, value};
		lw_vec_push(&series.readings, reading);
	}
	lw_vec_push(&run->nics.at[nic].series, series);
}

static const struct lw_net_caused *judged(struct lw_run *run, int cause)
{
	assert_int_equal(lw_run_network(run), LW_OK);
	return &run->network.slowed.by[cause];
}

static void assert_near(double value, double wanted)
{
	if (!(fabs(value - wanted) <= 0.001 * fabs(wanted)))
		fail_msg("%.6g instead of %.6g", value, wanted);
}

static void assert_slowed(const struct lw_net_caused *caused, uint32_t n, int against)
{
	assert_int_equal(caused->n_slowed, n);
	assert_near(caused->lost_ns, (double)n * LOST_NS);
	assert_int_equal(caused->against, against);
}

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
		{LW_CAUSE_QUEUE, {.rtt_ns = 5000000}, CALM_NS + LOST_NS},
	};

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct lw_run *run = make_job();
		const struct lw_net_caused *caused;
		uint32_t n;

		set_ops(run, is_late);
		set_readings(run, 1, 2, is_late, kinds[k].step);
		n = count_of(run, is_late);
		caused = judged(run, kinds[k].cause);
		assert_slowed(caused, n, LW_AGAINST_CALM);
		assert_int_equal(caused->n_hit, n);
		assert_int_equal(caused->n_alone, n);
		assert_int_equal(caused->from, 1);
		assert_int_equal(caused->to, 2);
		assert_near(caused->worst_amount, kinds[k].amount * (double)(run->groups.n - 30));
		assert_near(caused->normal_frac, (double)LOST_NS / CALM_NS);
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
	struct lw_run *run = make_job();

	(void)state;
	set_ops(run, is_none);
	set_readings(run, 0, 1, is_late, all);
	judged(run, LW_CAUSE_RESENT);
	for (int c = LW_CAUSE_RESENT; c <= LW_CAUSE_QUEUE; c++) {
		assert_int_equal(run->network.slowed.by[c].n_compared, count_of(run, is_late));
		assert_int_equal(run->network.slowed.by[c].n_slowed, 0);
	}
	assert_int_equal(run->network.slowed.n_slowed, 0);
	assert_near(run->network.slowed.lost_ns, 0);
	lw_run_free(run);
}

static void without_any_cause_slow_operations_have_none(void **state)
{
	struct lw_run *run = make_job();

	(void)state;
	set_ops(run, is_late);
	for (int32_t r = 0; r < N_RANKS; r++)
		set_readings(run, r, (r + 1) % N_RANKS, is_none, (struct lw_tcp_reading){0});
	judged(run, LW_CAUSE_RESENT);
	assert_int_equal(run->network.slowed.n_ops, 0);
	assert_int_equal(run->network.slowed.n_slowed, 0);
	lw_run_free(run);
}

static void of_several_causes_an_operation_counts_once(void **state)
{
	struct lw_run *run = make_job();
	const struct lw_net_slowed *slowed = &run->network.slowed;
	uint32_t n, n_both;

	(void)state;
	set_ops(run, is_late); /* those with both take longer */
	for (size_t i = 0; i < run->groups.n; i++)
		if (is_some_late(i))
			set_op(run, i, 1 << 20, CALM_NS + 2 * LOST_NS);
	set_readings(run, 0, 1, is_late, (struct lw_tcp_reading){.rwnd_limited_ns = 7000000});
	set_readings(run, 1, 2, is_some_late, (struct lw_tcp_reading){.n_retransmits = 1});
	n = count_of(run, is_late);
	n_both = count_of(run, is_some_late);
	judged(run, LW_CAUSE_RESENT);
	assert_int_equal(slowed->by[LW_CAUSE_WINDOW].n_slowed, n);
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_slowed, n_both);
	assert_near(slowed->by[LW_CAUSE_RESENT].lost_ns, 2.0 * n_both * LOST_NS);
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_alone, 0);
	assert_int_equal(slowed->by[LW_CAUSE_WINDOW].n_alone, n - n_both);
	assert_near(slowed->by[LW_CAUSE_WINDOW].lost_alone_ns, (double)(n - n_both) * LOST_NS);
	assert_int_equal(slowed->n_slowed, n);
	assert_near(slowed->lost_ns, (double)(n + n_both) * LOST_NS);
	lw_run_free(run);
}

/* Segments were sent again in some of those, which took no longer than the others of them. */
static void what_adds_nothing_to_another_cause_is_not_one(void **state)
{
	struct lw_run *run = make_job();
	const struct lw_net_slowed *slowed = &run->network.slowed;
	uint32_t n;

	(void)state;
	set_ops(run, is_late);
	set_readings(run, 0, 1, is_late, (struct lw_tcp_reading){.rwnd_limited_ns = 7000000});
	set_readings(run, 1, 2, is_some_late, (struct lw_tcp_reading){.n_retransmits = 1});
	n = count_of(run, is_late);
	judged(run, LW_CAUSE_RESENT);
	assert_slowed(&slowed->by[LW_CAUSE_WINDOW], n, LW_AGAINST_CALM);
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_compared, count_of(run, is_some_late));
	assert_int_equal(slowed->by[LW_CAUSE_RESENT].n_slowed, 0);
	assert_int_equal(slowed->n_slowed, n);
	assert_near(slowed->lost_ns, (double)n * LOST_NS);
	lw_run_free(run);
}

/* Readings are coarse: some operations that the window held up show segments sent again alone. */
static void what_tcp_itself_counts_is_to_blame_beside_others(void **state)
{
	struct lw_run *run = make_job();
	const struct lw_net_slowed *slowed = &run->network.slowed;

	(void)state;
	set_ops(run, is_late);
	set_readings(run, 0, 1, is_some_late, (struct lw_tcp_reading){.rwnd_limited_ns = 7000000});
	set_readings(run, 1, 2, is_late, (struct lw_tcp_reading){.n_retransmits = 1});
	judged(run, LW_CAUSE_WINDOW);
	assert_slowed(&slowed->by[LW_CAUSE_WINDOW], count_of(run, is_some_late), LW_AGAINST_CALM);
	assert_int_equal(slowed->n_slowed, count_of(run, is_late));
	lw_run_free(run);
}

static bool is_some_late_seen(size_t i)
{
	return is_late(i) && i % 3;
}

/* A third of those that were held up, a sixth of those that seem not to have been. */
static void what_readings_miss_does_not_hide_the_rest(void **state)
{
	struct lw_run *run = make_job();

	(void)state;
	set_ops(run, is_late);
	set_readings(
		run, 0, 1, is_some_late_seen, (struct lw_tcp_reading){.rwnd_limited_ns = 3000000});
	assert_slowed(
		judged(run, LW_CAUSE_WINDOW), count_of(run, is_some_late_seen), LW_AGAINST_CALM);
	lw_run_free(run);
}

/* Held back for 1 of 8 ms in flight, or for a moment of a long pause, is how TCP always is. */
static void a_moment_of_a_full_window_is_not_held_back(void **state)
{
	struct lw_run *run = make_job();

	(void)state;
	set_ops(run, is_late);
	set_readings(run, 0, 1, is_late, (struct lw_tcp_reading){.rwnd_limited_ns = 1000000});
	assert_int_equal(judged(run, LW_CAUSE_WINDOW)->n_hit, 0);
	lw_run_free(run);
}

/* ---- queues and devices -------------------------------------------------------------------------------- */

static void a_queue_that_is_always_full_is_no_cause(void **state)
{
	struct lw_run *run = make_job();
	struct lw_tcp_end *end;

	(void)state;
	set_ops(run, is_late);
	set_readings(run, 0, 1, is_any, (struct lw_tcp_reading){.rtt_ns = 40000000});
	assert_int_equal(judged(run, LW_CAUSE_QUEUE)->n_hit, 0);
	end = end_of(run, 0, 1); /* round trips that go up and down by half of it neither */
	for (size_t i = 0; i < end->tcp.n; i++)
		end->tcp.at[i].rtt_ns = i % 2 ? 20000000 + (int64_t)(i % 7) * 3000000 : 20000000;
	assert_int_equal(judged(run, LW_CAUSE_QUEUE)->n_slowed, 0);
	lw_run_free(run);
}

/* Some operations of those with a queue took long, most did not: not the queue. */
static void a_queue_that_slows_few_is_no_cause(void **state)
{
	struct lw_run *run = make_job();

	(void)state;
	for (size_t i = 0; i < run->groups.n; i++)
		set_op(run, i, 1 << 20, CALM_NS + (i >= 30 && i % 4 == 0 ? LOST_NS : 0));
	set_readings(run, 0, 1, is_late, (struct lw_tcp_reading){.rtt_ns = 5000000});
	assert_int_equal(judged(run, LW_CAUSE_QUEUE)->n_hit, count_of(run, is_late));
	assert_int_equal(run->network.slowed.by[LW_CAUSE_QUEUE].n_slowed, 0);
	lw_run_free(run);
}

static void pauses_that_a_nic_counted_are_of_its_ranks(void **state)
{
	struct lw_run *run = make_job();
	const struct lw_net_caused *caused;
	uint32_t n;

	(void)state;
	set_ops(run, is_late);
	add_counter(run, 1, "rx_pfc_pause_prio3", is_late);
	n = count_of(run, is_late);
	caused = judged(run, LW_CAUSE_DEVICE);
	assert_slowed(caused, n, LW_AGAINST_CALM);
	assert_string_equal(caused->counter, "rx_pfc_pause_prio3");
	assert_int_equal(caused->nic, 1);
	assert_near(caused->amount, 7.0 * (double)(run->groups.n - 30));
	lw_run_free(run);
}

static void what_a_nic_counts_that_no_rank_uses_touches_none(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(N_RANKS);
	for (int r = 0; r < N_RANKS; r++)
		net_run_add_link(r, (r + 1) % N_RANKS, 60e6, 1e3, 50);
	net_run_add(
		"INSERT INTO device VALUES(9, 1, 'nic', 'nfs0', 9, 1, NULL, 1500, NULL, '10.7.0.1', 'mlx5_core', 0, 0, NULL),"
		" (10, 1, 'rdma_port', 'mlx5_0/1', NULL, 1, NULL, 4096, NULL, '', 'mlx5_core', 0, 0, NULL);"
		"INSERT INTO counter_sample VALUES(9, 1, 0, 0), (10, 1, 0, 0);");
	run = net_run_analyze(N_RANKS);
	set_ops(run, is_late);
	for (size_t i = 0; i < run->nics.n; i++)
		if (!strcmp(run->nics.at[i].name, "nfs0"))
			add_counter(run, i, "rx_dropped_phy", is_late);
	assert_int_equal(judged(run, LW_CAUSE_DEVICE)->n_hit, 0);
	/* but the port of something that posts past libibverbs is used by all ranks of its host, as far as is known */
	for (size_t i = 0; i < run->nics.n; i++)
		if (!strcmp(run->nics.at[i].kind, "rdma_port"))
			add_counter(run, i, "rp_cnp_handled", is_late);
	assert_slowed(judged(run, LW_CAUSE_DEVICE), count_of(run, is_late), LW_AGAINST_CALM);
	assert_string_equal(run->network.slowed.by[LW_CAUSE_DEVICE].counter, "rp_cnp_handled");
	lw_run_free(run);
}

/* ---- what they are compared with ------------------------------------------------------------------------ */

/* 1 ms and 1 ns a byte; all operations of 3 MB are touched, and cost 3 ms more. */
static void where_no_operation_of_a_size_is_calm_a_fitted_cost_stands_for_them(void **state)
{
	struct lw_run *run = make_job();
	const struct lw_net_caused *caused;
	uint32_t n;

	(void)state;
	for (size_t i = 0; i < run->groups.n; i++) {
		uint64_t bytes = (i % 3 + 1) * 1000000;

		set_op(run, i, bytes,
			LW_NS_PER_MS + (int64_t)bytes + (is_third_size(i) ? LOST_NS : 0));
	}
	n = count_of(run, is_third_size);
	set_readings(run, 2, 0, is_third_size, (struct lw_tcp_reading){.rwnd_limited_ns = 6000000});
	caused = judged(run, LW_CAUSE_WINDOW);
	assert_slowed(caused, n, LW_AGAINST_FIT);
	set_readings(run, 2, 0, is_third_size, (struct lw_tcp_reading){.rtt_ns = 6000000});
	caused = judged(run, LW_CAUSE_QUEUE); /* large operations fill queues */
	assert_int_equal(caused->n_hit, n);
	assert_int_equal(caused->n_slowed, 0);
	lw_run_free(run);
}

static void where_all_are_touched_the_fastest_stand_for_events_and_nothing_for_what_lasts(
	void **state)
{
	struct lw_run *run = make_job();
	struct lw_tcp_reading *reading;

	(void)state;
	set_ops(run, is_late);
	set_readings(run, 2, 0, is_any, (struct lw_tcp_reading){.n_retransmits = 1});
	assert_slowed(judged(run, LW_CAUSE_RESENT), count_of(run, is_late), LW_AGAINST_FASTEST);
	lw_vec_foreach (reading, &end_of(run, 2, 0)->tcp) /* one in a million: by mistake */
		reading->n_segments_out = reading->n_retransmits * 1000000;
	assert_int_equal(judged(run, LW_CAUSE_RESENT)->n_compared, 0);
	set_readings(run, 2, 0, is_any, (struct lw_tcp_reading){.rwnd_limited_ns = 5000000});
	assert_int_equal(judged(run, LW_CAUSE_WINDOW)->n_hit, count_of(run, is_any));
	assert_int_equal(run->network.slowed.by[LW_CAUSE_WINDOW].n_compared, 0);
	assert_int_equal(run->network.slowed.n_slowed, 0);
	lw_run_free(run);
}

/* ---- what they reach ------------------------------------------------------------------------------------- */

/* A ring of three: 4/3 of the bytes. 5 ms for 1 MiB are 280 MB/s, and headers. */
static void operations_are_held_against_the_slowest_way_out(void **state)
{
	struct lw_run *run = make_job();
	struct lw_fit fit = {0};
	struct lw_network *net = &run->network;
	double wire = 1 + 66.0 / 1448, mean_bytes_per_s = 4.0 / 3 * (1 << 20) / 5e-3 * wire;

	(void)state;
	set_ops(run, is_none);
	for (size_t i = 0; i < LW_FIT_N_FIGURES; i++)
		fit.figure[i].value = NAN;
	fit.figure[LW_FIT_ALPHA_NS].value = 1e6;
	fit.figure[LW_FIT_SLOPE_NS_PER_BYTE].value = 4e6 / (1 << 20);
	assert_int_equal(lw_run_network(run), LW_OK);
	net->off_frac = 0.1;
	for (size_t r = 0; r < N_RANKS; r++)
		net->ranks.at[r].capacity_bytes_per_s = r == 1 ? 400e6 : 900e6;
	assert_int_equal(lw_run_reach(run, &fit), LW_OK);
	assert_int_equal(net->reach.rank, 1);
	assert_near(net->reach.mean_frac, mean_bytes_per_s / 400e6);
	assert_near(net->reach.fitted_frac, mean_bytes_per_s * 5 / 4 / 400e6);
	assert_near(net->ranks.at[2].fitted_bytes_per_s, mean_bytes_per_s * 5 / 4);
	assert_true(lw_net_is_low(&net->reach));
	assert_near(net->reach.reason[LW_REASON_LATENCY], 0.2);
	assert_int_equal(net->reach.reasons & (1U << LW_REASON_LATENCY | 1U << LW_REASON_WINDOW),
		1U << LW_REASON_LATENCY);
	net->ranks.at[1].nic_share = 1.5; /* others send by that NIC too */
	assert_int_equal(lw_run_reach(run, &fit), LW_OK);
	assert_near(net->reach.mean_frac, 1.5 * mean_bytes_per_s / 400e6);
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
	struct lw_run *run = make_job();
	struct lw_network *net = &run->network;

	(void)state;
	set_ops(run, is_none);
	set_readings(run, 1, 2, is_any, (struct lw_tcp_reading){.rwnd_limited_ns = 4000000});
	assert_int_equal(lw_run_network(run), LW_OK);
	net->off_frac = 0.1;
	for (size_t r = 0; r < N_RANKS; r++)
		net->ranks.at[r].capacity_bytes_per_s = r == 1 ? 500e6 : 900e6;
	assert_int_equal(lw_run_reach(run, NULL), LW_OK);
	assert_int_equal(net->reach.rank, 1);
	assert_near(net->reach.reason[LW_REASON_WINDOW], 0.8);
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
		cmocka_unit_test(
			where_no_operation_of_a_size_is_calm_a_fitted_cost_stands_for_them),
		cmocka_unit_test(
			where_all_are_touched_the_fastest_stand_for_events_and_nothing_for_what_lasts),
		cmocka_unit_test(operations_are_held_against_the_slowest_way_out),
		cmocka_unit_test(a_window_is_a_reason_where_it_held_tcp_back),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
