/* SPDX-License-Identifier: Apache-2.0 */
/* What ways out carry and how much of it is used: of shapes in which a rate is no capacity, or a NIC not a rank's alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/network/network.h"
#include "base/units.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"

#define WIRE (1 + 66.0 / 1448)
enum { LAST_MS = 1000, EVERY_MS = 50, N_TICKS = LAST_MS / EVERY_MS };

static int n_flows;

static void begin(int n_ranks)
{
	net_run_begin(n_ranks);
	n_flows = 0;
}

/* Ranks 0 and 1 on a host, 2 and 3 on another; "eth0" and "eth2" are the hosts', devices 2 and 4 their loopbacks. */
static void begin_two_hosts(void)
{
	begin(4);
	net_run_add(
		"INSERT INTO host VALUES(2, 'node2', 'boot-1', 'monotonic');"
		"UPDATE process SET host_id = 2 WHERE id > 2; UPDATE device SET host_id = 2 WHERE id > 2;"
		"UPDATE device SET is_loopback = 1, name = 'lo' WHERE id IN (2, 4);");
}

/* What one end sends, by @device: in flight in the ticks that @busy has a '9' for, again and again, evenly in these. */
static void add_end(int from, int to, int port, int peer_port, int device, double bytes,
	double received_bytes, const char *busy)
{
	int id = 500 + n_flows++, n_busy = 0;
	double sent = 0;
	int64_t busy_ns = 0;

	for (int i = 0; i < N_TICKS; i++)
		n_busy += busy[(size_t)i % strlen(busy)] == '9';
	net_run_add(
		"INSERT INTO socket VALUES(%d, %d, %d, 0, '10.0.0.%d', %d, '10.0.0.%d', %d);"
		"INSERT INTO tcp_connection VALUES(%d, 1, %d, %d, 1, '10.0.0.%d', %d, '10.0.0.%d', %d, %d, 0, 2000000000, 1);",
		id, from + 1, id, from + 1, port, to + 1, peer_port, id, from + 1, id, from + 1,
		port, to + 1, peer_port, device);
	for (int i = 0; i <= N_TICKS; i++) {
		long long at_ns = (long long)i * EVERY_MS * LW_NS_PER_MS;
		double received = received_bytes * i / N_TICKS;

		net_run_add(
			"INSERT INTO socket_sample VALUES(%d, %d, %lld, 1, %.0f, %.0f, 1, 1);"
			"INSERT INTO tcp_info_sample VALUES(%d, %lld, 200000, 100000, %.0f, %.0f, %.0f, 0, 0, %.0f, %.0f, 0, %lld, 0, 0, 10, 0);",
			from + 1, id, at_ns, sent, received, id, at_ns, sent, sent, received,
			sent / 1448, received / 1448, (long long)busy_ns);
		if (busy[(size_t)i % strlen(busy)] == '9') {
			sent += bytes / n_busy;
			busy_ns += EVERY_MS * LW_NS_PER_MS;
		}
	}
}

/* Both ends of a connection; the way back is hardly ever in flight. */
static void add_way(int from, int to, int port, int device, int back_device, double bytes,
	double back_bytes, const char *busy)
{
	add_end(from, to, 40000 + port, 5000 + port, device, bytes, back_bytes, busy);
	add_end(to, from, 5000 + port, 40000 + port, back_device, back_bytes, bytes,
		back_bytes > 1e6 ? busy : "90000000000000000000");
}

/* Payload and headers of @bytes, in frames of one segment. */
static void add_nic(int device, const double bytes[N_TICKS])
{
	double sent = 0;

	for (int i = 0; i <= N_TICKS; i++) {
		for (int counter = 1; counter <= 4; counter++)
			net_run_add("INSERT INTO counter_sample VALUES(%d, %d, %lld, %.0f);",
				device, counter, (long long)i * EVERY_MS * LW_NS_PER_MS,
				counter < 3 ? sent * WIRE : sent / 1448);
		sent += i < N_TICKS ? bytes[i] : 0;
	}
}

static void assert_near(double value, double wanted, double frac)
{
	if (!(fabs(value - wanted) <= frac * fabs(wanted)))
		fail_msg("%.6g instead of %.6g", value, wanted);
}

/* A ring over two hosts of two ranks. The coordinator's small messages leave by NICs that some ranks use for nothing else. */
static void control_traffic_is_no_way_out(void **state)
{
	static const int nic_of[] = {1, 1, 3, 3}, lo_of[] = {2, 2, 4, 4};
	struct lw_run *run;

	(void)state;
	begin_two_hosts();
	for (int r = 0; r < 4; r++) {
		int to = (r + 1) % 4;
		bool is_near = r / 2 == to / 2;

		add_way(r, to, r, is_near ? lo_of[r] : nic_of[r], is_near ? lo_of[to] : nic_of[to],
			120e6, 2e3, "9");
	}
	for (int to = 1; to < 4;
		to++) { /* 2 MB each way, with data in flight for a tenth of the time */
		add_end(0, to, 42000 + to, 7000 + to, to < 2 ? 2 : 1, 2e6, 2e6, "9000000000");
		add_end(to, 0, 7000 + to, 42000 + to, to < 2 ? 2 : 3, 2e6, 2e6, "9000000000");
	}
	run = net_run_analyze(4);
	for (size_t l = 0; l < run->network.links.n;
		l++) /* of a loopback nothing is known, not that it carries nothing */
		assert_false(run->network.links.at[l].capacity_bytes_per_s <= 0);
	assert_int_equal(run->network.slow_rank, LW_NONE);
	assert_int_equal(run->network.ranks.at[0].nic, LW_NONE);
	assert_true(isnan(run->network.ranks.at[0].capacity_bytes_per_s));
	assert_true(isnan(run->network.ranks.at[2].used_frac));
	assert_near(run->network.ranks.at[1].capacity_bytes_per_s, 120e6 * WIRE, 0.01);
	assert_near(run->network.ranks.at[1].used_frac, 1, 0.05);
	lw_run_free(run);
}

/* Rank 3 was not recorded: what ranks 0 and 2 exchange with it is nobody's, and small messages are all that is left. */
static void a_rank_whose_neighbour_was_not_recorded_is_not_slow(void **state)
{
	struct lw_run *run;

	(void)state;
	begin(3);
	for (int r = 0; r < 2; r++)
		add_way(r, r + 1, r, r + 1, r + 2, 60e6, 2e3, "9");
	add_end(2, 3, 40002, 5002, 3, 60e6, 2e3, "9");
	add_end(0, 3, 5003, 40003, 1, 2e3, 60e6, "90000000000000000000");
	add_way(2, 0, 9, 3, 1, 3e6, 3e6, "90");
	run = net_run_analyze(3);
	assert_int_equal(run->network.slow_rank, LW_NONE);
	assert_true(isnan(run->network.ranks.at[2].capacity_bytes_per_s));
	lw_run_free(run);
}

/* Halving: one partner, then the other, never both. */
static void of_connections_that_take_turns_the_rate_is_not_added_up(void **state)
{
	struct lw_run *run;

	(void)state;
	begin(4);
	for (int r = 0; r < 4; r++)
		for (int k = 0; k < 2; k++) {
			int to = r ^ (k + 1), port = r < to ? r * 4 + to : to * 4 + r;
			const char *busy = k ? "00000000009999999999" : "99999999990000000000";

			add_end(r, to, r < to ? 40000 + port : 5000 + port,
				r < to ? 5000 + port : 40000 + port, r + 1, 100e6, 100e6, busy);
		}
	run = net_run_analyze(4);
	assert_near(run->network.ranks.at[0].capacity_bytes_per_s, 200e6 * WIRE, 0.01);
	assert_near(run->network.ranks.at[0].busy_ns, 1e9, 0.01);
	lw_run_free(run);
}

/* Six ranks, each to each; two of them on one NIC, which carries what any other does. */
static void ranks_that_share_a_nic_are_not_slow_for_it(void **state)
{
	struct lw_run *run;

	(void)state;
	begin(6);
	net_run_add(
		"INSERT INTO host VALUES(2, 'node2', 'boot-1', 'monotonic'), (3, 'node3', 'boot-1', 'monotonic'),"
		" (4, 'node4', 'boot-1', 'monotonic'), (5, 'node5', 'boot-1', 'monotonic');"
		"UPDATE process SET host_id = id - 1 WHERE id > 2;");
	for (int from = 0; from < 6; from++)
		for (int to = 0; to < 6; to++) {
			int port = from < to ? from * 8 + to : to * 8 + from;
			double bytes = from < 2 ? 10e6 : 20e6;

			if (from != to)
				add_end(from, to, from < to ? 40000 + port : 5000 + port,
					from < to ? 5000 + port : 40000 + port,
					from < 2 ? 1 : from + 1, bytes, bytes, "9");
		}
	run = net_run_analyze(6);
	assert_int_equal(run->network.slow_rank, LW_NONE);
	assert_int_equal(run->network.ranks.at[0].n_sharing, 2);
	assert_int_equal(run->network.ranks.at[5].n_sharing, 1);
	assert_near(run->network.ranks.at[0].capacity_bytes_per_s, 100e6 * WIRE, 0.01);
	assert_near(run->network.ranks.at[0].nic_share, 2, 0.01);
	assert_near(run->network.ranks.at[0].used_frac, 1, 0.05);
	assert_near(run->network.links.at[29].used_frac, 0.2, 0.05);
	lw_run_free(run);
}

/* Two ranks of each host, half of their bytes on the loopback: the NIC is full of those of both. */
static void a_nic_is_as_full_as_its_counters_say(void **state)
{
	static const int nic_of[] = {1, 1, 3, 3};
	double bytes[N_TICKS];
	struct lw_run *run;

	(void)state;
	begin_two_hosts();
	for (int i = 0; i < N_TICKS; i++)
		bytes[i] = 4 * 60e6 / N_TICKS;
	for (int from = 0; from < 4; from++)
		for (int to = 0; to < 4; to++) {
			int port = from < to ? from * 8 + to : to * 8 + from;

			if (from != to)
				add_end(from, to, from < to ? 40000 + port : 5000 + port,
					from < to ? 5000 + port : 40000 + port,
					nic_of[from] + (from / 2 == to / 2), 60e6, 60e6, "9");
		}
	add_nic(1, bytes);
	add_nic(3, bytes);
	run = net_run_analyze(4);
	for (int r = 0; r < 4; r++) {
		assert_int_equal(run->network.ranks.at[r].capacity_from, LW_CAPACITY_PLATEAU);
		assert_near(run->network.ranks.at[r].used_frac, 1, 0.05);
		assert_near(run->network.ranks.at[r].nic_share, 4.0 / 3, 0.01);
	}
	lw_run_free(run);
}

static void of_two_nics_each_has_what_leaves_by_it(void **state)
{
	double bytes[N_TICKS];
	struct lw_run *run;

	(void)state;
	begin(4);
	for (int i = 0; i < N_TICKS; i++)
		bytes[i] = 55e6 / N_TICKS;
	for (int k = 0; k < 2; k++)
		add_way(0, 1, k, 1 + k, 3 + k, 55e6, 55e6, "9");
	for (int device = 1; device <= 4; device++)
		add_nic(device, bytes);
	run = net_run_analyze(2);
	assert_near(run->network.ranks.at[0].used_frac, 1, 0.05);
	assert_near(run->network.ranks.at[0].nic_share, 0.5, 0.01);
	assert_true(isnan(run->network.links.at[0].capacity_bytes_per_s)); /* of two ways out */
	lw_run_free(run);
}

/* A timer ran for four tenths of a second: data in flight, and none got through. */
static void what_gets_nowhere_is_no_rate(void **state)
{
	struct lw_run *run;

	(void)state;
	begin(2);
	add_way(0, 1, 0, 1, 2, 60e6, 60e6, "99999900000000999999");
	net_run_add("UPDATE tcp_info_sample SET busy_ns = at_ns WHERE connection_id = 500;");
	run = net_run_analyze(2);
	assert_near(run->network.ranks.at[0].capacity_bytes_per_s, 60e6 * WIRE / 0.6, 0.01);
	assert_near(run->network.ranks.at[0].busy_ns, 1e9, 0.01);
	assert_int_equal(run->network.slow_rank, LW_NONE);
	lw_run_free(run);
}

/* What begins from @since_ns on takes four times as long. */
static void slow_operations(struct lw_run *run, int64_t since_ns)
{
	struct lw_group *group;

	lw_vec_foreach (group, &run->groups) {
		if (group->last_start_ns < since_ns)
			continue;
		group->last_end_ns += 3 * (group->last_end_ns - group->last_start_ns);
		for (size_t r = 0; r < run->ranks.n; r++)
			run->ranks.at[r].batches.at[group->batch_of_rank[r]].wire_end_ns =
				group->last_end_ns;
	}
}

/* Of what leaves rank 2. */
static void scale_busy(struct lw_run *run, double factor)
{
	struct lw_tcp_reading *reading;
	struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends)
		lw_vec_foreach (reading, &end->tcp)
			if (end->rank == 2 && end->peer_rank == 3)
				reading->busy_ns = (int64_t)((double)reading->busy_ns * factor);
}

/* From the middle on a quarter, which the NIC says where it is read; else the connection does, if operations of one size say
 * so too: their messages may be smaller. */
static void of_a_way_out_that_changed_the_present_is_said(void **state)
{
	double bytes[N_TICKS];
	char text[LW_NET_CHANGED_BYTES], words[LW_NET_WORDS_BYTES];
	struct lw_run *run;

	(void)state;
	for (int has_nic = 0; has_nic < 2; has_nic++) {
		begin(4);
		for (int r = 0; r < 4; r++)
			add_way(r, (r + 1) % 4, r, r + 1, (r + 1) % 4 + 1, 50e6, 1e3,
				r == 2 ? "9" : "90000");
		for (int i = 0; i < N_TICKS; i++)
			bytes[i] = i < N_TICKS / 2 ? 4e6 : 1e6;
		for (int i = 0, sum = 0; i <= N_TICKS; sum += i < N_TICKS ? (int)bytes[i] : 0, i++)
			net_run_add(
				"UPDATE tcp_info_sample SET sent_bytes = %d, acked_bytes = %d, n_segments_out = %d WHERE connection_id = 504 AND at_ns = %lld;"
				"UPDATE socket_sample SET sent_bytes = %d WHERE socket = 504 AND at_ns = %lld;",
				sum, sum, sum / 1448, (long long)i * EVERY_MS * LW_NS_PER_MS, sum,
				(long long)i * EVERY_MS * LW_NS_PER_MS);
		if (has_nic)
			add_nic(3, bytes);
		run = net_run_analyze(4);
		assert_int_equal(run->network.slow_rank, 2);
		assert_int_equal(run->network.ranks.at[2].capacity_from,
			has_nic ? LW_CAPACITY_PLATEAU : LW_CAPACITY_BUSY);
		if (!has_nic) {
			assert_near(
				run->network.ranks.at[2].capacity_bytes_per_s, 80e6 * WIRE, 0.01);
			assert_int_equal(run->network.ranks.at[2].capacity_since_ns, LW_NS_UNKNOWN);
			assert_string_equal(lw_ways_changed_text(run, words), "");
			slow_operations(run, LAST_MS / 2 * LW_NS_PER_MS);
			/* in flight for less of their time: others hold them up */
			scale_busy(run, 0.5);
			assert_int_equal(lw_run_network(run), LW_OK);
			assert_int_equal(run->network.ranks.at[2].capacity_since_ns, LW_NS_UNKNOWN);
			scale_busy(run, 2);
			assert_int_equal(lw_run_network(run), LW_OK);
		}
		assert_near(run->network.ranks.at[2].capacity_bytes_per_s, 20e6 * WIRE, 0.01);
		assert_near(
			run->network.ranks.at[2].capacity_before_bytes_per_s, 80e6 * WIRE, 0.01);
		assert_int_equal(
			run->network.ranks.at[2].capacity_since_ns, LAST_MS / 2 * LW_NS_PER_MS);
		assert_near(run->network.ranks.at[2].used_frac, 1, 0.05);
		assert_non_null(strstr(lw_capacity_changed_text(run, 2, text), "before)"));
		assert_string_equal(lw_capacity_changed_text(run, 1, text), "");
		assert_non_null(strstr(lw_ways_changed_text(run, words), "of rank 2 (eth2)"));
		lw_run_free(run);
	}
}

/* Ranks 1 to 3 send to rank 0 together, which takes them all the longer, and get it back one after the other. */
static void a_server_is_what_holds_workers_up(void **state)
{
	static const char *const from_server[] = {
		"00000000009990000000", "00000000000009990000", "00000000000000009999"};
	char text[LW_NET_WORDS_BYTES];
	struct lw_run *run;

	(void)state;
	begin(4);
	for (int r = 1; r < 4; r++) {
		add_end(r, 0, 40000 + r, 5000 + r, r + 1, 20e6, 20e6,
			r == 2 ? "99999999990000000000" : "99990000000000000000");
		add_end(0, r, 5000 + r, 40000 + r, 1, 20e6, 20e6, from_server[r - 1]);
	}
	run = net_run_analyze(4);
	assert_int_equal(run->network.algorithm, LW_ALGORITHM_STAR);
	assert_int_equal(run->network.slow_rank, LW_NONE);
	assert_int_equal(run->network.server.rank, 0);
	assert_near(run->network.server.in_frac, 1, 0.01);
	assert_near(run->network.server.out_frac, 0.4, 0.01);
	assert_true(lw_net_is_server_full(&run->network.server));
	assert_non_null(strstr(lw_server_text(run, text), "eth0 of rank 0"));
	lw_run_free(run);

	begin(4); /* a ring has none */
	for (int r = 0; r < 4; r++)
		add_way(r, (r + 1) % 4, r, r + 1, (r + 1) % 4 + 1, 50e6, 1e3, "9");
	run = net_run_analyze(4);
	assert_int_equal(run->network.server.rank, LW_NONE);
	assert_string_equal(lw_server_text(run, text), "");
	lw_run_free(run);
}

/* Half of what rank 2's NIC sends is another process's: its own rate is no capacity of it. */
static void a_nic_with_somebody_elses_traffic_is_not_called_slow(void **state)
{
	double bytes[N_TICKS];
	struct lw_run *run;

	(void)state;
	for (int other = 0; other < 2; other++) {
		begin(4);
		for (int r = 0; r < 4; r++)
			add_way(r, (r + 1) % 4, r, r + 1, (r + 1) % 4 + 1, 50e6, 1e3,
				r == 2 ? "99999999990000000000" : "99000000000000000000");
		for (int i = 0; i < N_TICKS; i++)
			bytes[i] = 50e6 * (1 + other) / N_TICKS * (0.5 + i % 2);
		add_nic(3, bytes);
		run = net_run_analyze(4);
		assert_int_equal(run->network.slow_rank, other ? LW_NONE : 2);
		lw_run_free(run);
	}
}

static struct lw_net_level level_of(const double *values, size_t n)
{
	struct lw_net_rate rates[64];

	for (size_t i = 0; i < n; i++)
		rates[i] = (struct lw_net_rate){(int64_t)i, values[i]};
	return lw_net_level_of(rates, n, 0.1, 1.25);
}

static void rates_agree_or_changed_once_or_tell_nothing(void **state)
{
	double values[64];
	struct lw_net_level level;

	(void)state;
	for (size_t i = 0; i < 64; i++)
		values[i] = 100 + (double)(i % 3);
	assert_true(isnan(level_of(values, 3).bytes_per_s));
	level = level_of(values, 64);
	assert_near(level.bytes_per_s, 101, 1e-9);
	assert_true(isnan(level.before_bytes_per_s) && level.since_ns == LW_NS_UNKNOWN);
	for (size_t i = 50; i < 64;
		i++) /* fewer than a quarter: the middle half would not show it */
		values[i] = 40 + (double)(i % 3);
	level = level_of(values, 64);
	assert_near(level.bytes_per_s, 41, 1e-9);
	assert_near(level.before_bytes_per_s, 101, 1e-9);
	assert_int_equal(level.since_ns, 50);
	level = level_of(values, 53); /* three at the end are no change */
	assert_near(level.bytes_per_s, 101, 1e-9);
	assert_int_equal(level.since_ns, LW_NS_UNKNOWN);
	for (size_t i = 0; i < 64; i++)
		values[i] = 20.0 * (double)(i % 5);
	assert_true(isnan(level_of(values, 64).bytes_per_s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control_traffic_is_no_way_out),
		cmocka_unit_test(a_rank_whose_neighbour_was_not_recorded_is_not_slow),
		cmocka_unit_test(of_connections_that_take_turns_the_rate_is_not_added_up),
		cmocka_unit_test(ranks_that_share_a_nic_are_not_slow_for_it),
		cmocka_unit_test(a_nic_is_as_full_as_its_counters_say),
		cmocka_unit_test(of_two_nics_each_has_what_leaves_by_it),
		cmocka_unit_test(what_gets_nowhere_is_no_rate),
		cmocka_unit_test(of_a_way_out_that_changed_the_present_is_said),
		cmocka_unit_test(a_server_is_what_holds_workers_up),
		cmocka_unit_test(a_nic_with_somebody_elses_traffic_is_not_called_slow),
		cmocka_unit_test(rates_agree_or_changed_once_or_tell_nothing),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
