/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of the network: from connections, counters and packets made up here, of a job whose steps are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/units.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"

/* What each step of make_run_job() allreduces: its three tensors. */
static double wanted_bytes(const struct lw_run *run)
{
	double bytes = 4000000 + 4000 + 400000;

	assert_true(fabs(run->network.op_bytes - bytes) < 1e-9 * bytes);
	return bytes;
}

static void assert_near(double value, double wanted, double frac)
{
	if (!(fabs(value - wanted) <= frac * fabs(wanted)))
		fail_msg("%.6g instead of %.6g", value, wanted);
}

static void assert_algorithm(struct lw_run *run, enum lw_algorithm wanted)
{
	if (run->network.algorithm != wanted)
		fail_msg("%s instead of %s: %s", lw_algorithm_name(run->network.algorithm),
			lw_algorithm_name(wanted), run->network.evidence);
}

static void a_circle_of_links_is_a_ring(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(4);
	for (int r = 0; r < 4; r++)
		net_run_add_link(
			r, (r * 3 + 3) % 4, 60e6, 3e3, 50); /* 0 3 0 .. would be two small ones */
	run = net_run_analyze(4);
	assert_int_not_equal(run->network.algorithm, LW_ALGORITHM_RING);
	lw_run_free(run);

	net_run_begin(4);
	net_run_add_link(0, 2, 60e6, 3e3, 50);
	net_run_add_link(2, 1, 60e6, 3e3, 50);
	net_run_add_link(1, 3, 60e6, 3e3, 50);
	net_run_add_link(3, 0, 60e6, 3e3, 50);
	run = net_run_analyze(4);
	assert_algorithm(run, LW_ALGORITHM_RING);
	assert_near(run->network.ranks.at[2].expected_bytes, 1.5 * wanted_bytes(run), 1e-9);
	assert_false(run->network.ranks.at[0].is_hot);
	assert_int_equal(run->network.slow_rank, LW_NONE);
	lw_run_free(run);
}

static void a_server_is_named_and_hot(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(4);
	for (int r = 0; r < 4; r++)
		if (r != 1)
			net_run_exchange(1, r, 40e6);
	run = net_run_analyze(4);
	assert_algorithm(run, LW_ALGORITHM_STAR);
	assert_int_equal(run->network.hub, 1);
	assert_true(run->network.ranks.at[1].is_hot);
	assert_false(run->network.ranks.at[0].is_hot);
	assert_near(run->network.ranks.at[1].expected_bytes, 3 * wanted_bytes(run), 1e-9);
	lw_run_free(run);
}

static void other_patterns_have_their_names(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(4);
	net_run_exchange(0, 1, 40e6);
	net_run_exchange(1, 2, 40e6);
	net_run_exchange(2, 3, 40e6);
	run = net_run_analyze(4);
	assert_algorithm(run, LW_ALGORITHM_TREE);
	lw_run_free(run);

	net_run_begin(4);
	net_run_exchange(0, 1, 40e6);
	net_run_exchange(2, 3, 40e6);
	net_run_exchange(0, 2, 20e6);
	net_run_exchange(1, 3, 20e6);
	run = net_run_analyze(4);
	assert_algorithm(run, LW_ALGORITHM_HALVING);
	lw_run_free(run);

	net_run_begin(4);
	for (int a = 0; a < 4; a++)
		for (int b = a + 1; b < 4; b++)
			net_run_exchange(a, b, 20e6);
	run = net_run_analyze(4);
	assert_algorithm(run, LW_ALGORITHM_DIRECT);
	lw_run_free(run);

	net_run_begin(6); /* 3 x 2: circles of three, and pairs */
	for (int r = 0; r < 6; r++)
		net_run_add_link(r, r / 3 * 3 + (r + 1) % 3, 80e6, 1e3, 50);
	for (int r = 0; r < 3; r++)
		net_run_exchange(r, r + 3, 20e6);
	run = net_run_analyze(6);
	assert_algorithm(run, LW_ALGORITHM_TORUS);
	lw_run_free(run);
}

/* Hub and two workers on one host, a worker on another: the hub is also the one rank of its host that talks to others. */
static void a_server_on_the_host_of_workers_is_a_server(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(4);
	for (int r = 1; r < 4; r++)
		net_run_exchange(0, r, 40e6);
	net_run_add("INSERT INTO host VALUES(2, 'node2', 'boot-1', 'monotonic');"
		    "UPDATE process SET host_id = 2 WHERE rank = 3;");
	run = net_run_analyze(4);
	assert_string_not_equal(run->ranks.at[0].host, run->ranks.at[3].host);
	assert_algorithm(run, LW_ALGORITHM_STAR);
	assert_int_equal(run->network.hub, 0);
	lw_run_free(run);
}

/* Bytes of four ranks' allreduces: what a ring in both directions, and doubling, send of them by each link. */
static void four_links_both_ways(double factor)
{
	net_run_begin(4);
	for (int r = 0; r < 4; r++)
		net_run_exchange(r, (r + 1) % 4, factor / 2);
}

/* Nothing is said of "what that takes" where a part that shows was for something else. */
static void other_collectives_count_by_what_they_move(void **state)
{
	static const struct {
		const char *sql;
		bool is_known;
	} cases[] = {
		{"UPDATE batch SET op = 3 WHERE bytes = 4000", true},    /* 0.1 % */
		{"UPDATE batch SET op = 3 WHERE bytes = 400000", false}, /* 9 % */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lw_run *run;

		net_run_begin(4);
		for (int r = 0; r < 4; r++)
			net_run_add_link(r, (r + 1) % 4, 60e6, 3e3, 50);
		net_run_add("%s", cases[i].sql);
		run = net_run_analyze(4);
		assert_algorithm(run, LW_ALGORITHM_RING);
		assert_int_equal(!isnan(run->network.op_bytes), cases[i].is_known);
		assert_int_equal(
			!!strstr(run->network.evidence, "of what that takes"), cases[i].is_known);
		lw_run_free(run);
	}
}

static void the_same_links_are_told_apart_by_bytes(void **state)
{
	struct lw_run *run;
	double run_bytes;

	(void)state;
	four_links_both_ways(80e6);
	run = net_run_analyze(4); /* of a second's even traffic, the part in the steps */
	run_bytes = 80e6 * wanted_bytes(run) / run->network.ranks.at[0].sent_bytes;
	lw_run_free(run);

	four_links_both_ways(1.5 * run_bytes);
	run = net_run_analyze(4);
	assert_algorithm(run, LW_ALGORITHM_RING);
	assert_non_null(strstr(run->network.evidence, "both neighbours of one circle"));
	assert_true(run->network.off_frac < 0.01);
	lw_run_free(run);

	four_links_both_ways(2 * run_bytes);
	run = net_run_analyze(4);
	assert_algorithm(run, LW_ALGORITHM_DOUBLING);
	assert_true(run->network.off_frac < 0.01);
	lw_run_free(run);

	four_links_both_ways(80e6); /* nobody knows how much they had to move */
	net_run_add("UPDATE collective SET op = 4; UPDATE batch SET op = 4;");
	run = net_run_analyze(4);
	assert_true(isnan(run->network.op_bytes));
	assert_algorithm(run, LW_ALGORITHM_UNKNOWN);
	assert_non_null(strstr(run->network.evidence, "a ring in both directions, or doubling"));
	lw_run_free(run);

	net_run_begin(6);
	for (int r = 0; r < 6; r++)
		net_run_exchange(r, (r + 1) % 6, 20e6);
	run = net_run_analyze(6);
	assert_algorithm(run, LW_ALGORITHM_RING);
	lw_run_free(run);
}

/* Who is inside of one tree is a leaf of the other. */
static void two_trees_are_found(void **state)
{
	static const int edges[][2] = {{0, 4}, {4, 2}, {4, 6}, {2, 1}, {2, 3}, {6, 5}, {6, 7},
		{0, 3}, {3, 1}, {3, 5}, {1, 7}, {1, 2}, {5, 4}, {5, 6}};
	struct lw_run *run;

	(void)state;
	net_run_begin(8);
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
		net_run_exchange(edges[i][0], edges[i][1], 20e6);
	run = net_run_analyze(8);
	assert_algorithm(run, LW_ALGORITHM_TREE);
	assert_non_null(strstr(run->network.evidence, "two trees"));
	lw_run_free(run);
}

static void two_ranks_tell_nothing_apart(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	run = net_run_analyze(2);
	assert_algorithm(run, LW_ALGORITHM_PAIR);
	lw_run_free(run);
}

static void without_traffic_it_says_why(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(4);
	run = net_run_analyze(4);
	assert_algorithm(run, LW_ALGORITHM_UNKNOWN);
	assert_non_null(strstr(run->network.evidence, "they share memory"));
	lw_run_free(run);

	net_run_begin(2); /* who uploads something is not behind NAT for that; nor if all do */
	for (int r = 0; r < 2; r++) {
		net_run_add_end(r, 8, 40000 + r, 443, 48e6, 1e5, 50, 0, 0);
		run = net_run_analyze(2);
		assert_non_null(strstr(run->network.evidence, "they share memory"));
		assert_null(strstr(run->network.evidence, "NAT"));
		lw_run_free(run);
	}

	net_run_begin(4);
	for (int r = 0; r < 4; r++)
		net_run_add_link(r, (r + 1) % 4, 500, 500, 1);
	run = net_run_analyze(4);
	assert_algorithm(run, LW_ALGORITHM_UNKNOWN);
	assert_non_null(strstr(run->network.evidence, "too little traffic"));
	assert_non_null(strstr(run->network.evidence, " a step"));
	lw_run_free(run);

	net_run_add(
		"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM wait;"
		"DELETE FROM collective; DELETE FROM cycle;");
	run = net_run_analyze(4); /* without steps */
	assert_non_null(strstr(run->network.evidence, "B in the whole run"));
	lw_run_free(run);
}

static void what_a_nic_moved_beyond_the_job_is_nobodys(void **state)
{
	const struct lw_net_account *account;
	struct lw_run *run;
	double headers = 40e6 / 1448 * 66;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add_nic_bytes(0, 40e6 + headers + 7e6, 40e6 + headers);
	net_run_add_nic_bytes(1, 40e6 + headers, 40e6 + headers);
	/* 5 MB of the rest are of an NFS client of the kernel, which is no process of the job */
	net_run_add(
		"INSERT INTO tcp_connection VALUES(99, 1, NULL, 99, 1, '10.0.0.1', 800, '10.0.0.9', 2049, 1, 0, 1, 1);"
		"INSERT INTO tcp_info_sample VALUES(99, 0, 1, 1, 1000, 1000, 1000, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0),"
		" (99, 1000000000, 1, 1, 5001000, 5001000, 1000, 0, 0, 9, 9, 0, 0, 0, 0, 1, 0);");
	run = net_run_analyze(2);
	assert_int_equal(run->network.accounts.n, 2);
	account = &run->network.accounts.at[0];
	assert_true(account->is_packet_counted);
	assert_near(account->other_tx_bytes, 7e6, 0.001);
	assert_true(account->other_rx_bytes < 0.0001 * 40e6);
	assert_int_equal(account->candidates.n, 1);
	assert_true(account->candidates.at[0].is_storage);
	assert_false(account->candidates.at[0].is_job);
	assert_near(account->candidates.at[0].out_bytes, 5e6, 1e-9);
	assert_non_null(strstr(account->candidates.at[0].text, "port 2049 (NFS) at 10.0.0.9"));
	assert_int_equal(run->network.accounts.at[1].candidates.n, 0);
	assert_true(run->network.accounts.at[1].other_tx_bytes < 0.0001 * 40e6);
	lw_run_free(run);
}

static void what_the_job_sent_before_its_nic_was_read_is_not_held_against_it(void **state)
{
	const struct lw_net_account *account;
	struct lw_run *run;
	double headers = 40e6 / 1448 * 66;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add_nic_bytes(0, 40e6 + headers + 7e6, 40e6 + headers);
	net_run_add("DELETE FROM counter_sample WHERE at_ns < 300000000;");
	run = net_run_analyze(2);
	account = &run->network.accounts.at[0];
	assert_near(account->job_tx_bytes, 0.7 * 40e6, 1e-6);
	assert_near(account->other_tx_bytes, 0.7 * 7e6, 0.001);
	assert_true(account->other_rx_bytes < 0.0001 * 40e6);
	lw_run_free(run);
}

static void input_of_a_rank_is_told_from_gradients(void **state)
{
	const struct lw_net_account *account;
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add_end(0, 8, 41000, 9000, 1e3, 25e6, 0, 0, 0);
	net_run_add_nic_bytes(0, 50e6, 80e6);
	run = net_run_analyze(2);
	account = &run->network.accounts.at[0];
	assert_int_equal(account->candidates.n, 1);
	assert_true(account->candidates.at[0].is_job && account->candidates.at[0].is_storage);
	assert_true(account->candidates.at[0].outside_frac > 0.05);
	assert_near(run->network.ranks.at[0].other_received_bytes, 25e6, 1e-9);
	assert_near(run->network.ranks.at[0].received_bytes,
		run->network.ranks.at[1].received_bytes, 1e-6);
	lw_run_free(run);
}

static void the_rank_whose_link_is_busy_all_the_time_is_slow(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(4);
	for (int r = 0; r < 4; r++) {
		net_run_add_link(r, (r + 1) % 4, 10e6, 1e3, r == 2 ? 100 : 33);
		net_run_add_nic_bytes(r, 10e6 * 1514 / 1448, 10e6 * 1514 / 1448);
	}
	run = net_run_analyze(4);
	assert_int_equal(run->network.slow_rank, 2);
	assert_int_equal(run->network.ranks.at[2].capacity_from, LW_CAPACITY_PLATEAU);
	assert_near(run->network.ranks.at[2].capacity_bytes_per_s, 10e6 * 1514 / 1448, 0.001);
	assert_int_equal(run->network.ranks.at[0].capacity_from, LW_CAPACITY_BUSY);
	assert_near(run->network.others_bytes_per_s, 10e6 * 1514 / 1448 / 0.33, 0.001);
	lw_run_free(run);
}

static void a_port_used_again_is_counted_once(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_add_link(0, 1, 40e6, 40e6, 50);
	net_run_add_link(0, 1, 20e6, 20e6, 50);
	run = net_run_analyze(2);
	assert_int_equal(run->ends.n, 4);
	assert_near(run->network.links.at[0].run_bytes, 60e6, 1e-9);
	assert_near(run->network.links.at[0].acked_bytes, 60e6, 1e-9);
	lw_run_free(run);
}

static void a_counter_of_drops_that_grew_is_shown(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add(
		"INSERT INTO counter_sample VALUES(2, 5, 0, 7), (2, 5, 500000000, 1007), (1, 5, 0, 3), (1, 5, 500000000, 5);");
	run = net_run_analyze(2);
	assert_int_equal(run->network.troubles.n, 1);
	assert_string_equal(run->network.troubles.at[0].counter, "rx_dropped");
	assert_near(run->network.troubles.at[0].n, 1000, 1e-9);
	lw_run_free(run);
}

static void impossible_rows_are_counted_and_not_used(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add(
		"INSERT INTO counter_sample VALUES(77, 1, 0, 7), (1, 1, -5, 7), (1, 1, 5, -7);"
		"INSERT INTO tcp_info_sample(connection_id, at_ns) VALUES(555, 1), (1, -1);"
		"INSERT INTO packet_bin VALUES(3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);");
	run = net_run_analyze(2);
	assert_int_equal(run_fixture_diag(run, "bad rows"), 5);
	assert_algorithm(run, LW_ALGORITHM_PAIR);
	lw_run_free(run);
}

/* The last of three connections carried most, and none half. */
static void the_round_trip_of_a_link_is_that_of_what_carried_most(void **state)
{
	static const double bytes[] = {30e6, 30e6, 50e6};
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	for (int i = 0; i < 3; i++) {
		net_run_add_end(0, 1, 40000 + i, 5000, bytes[i], 1e3, 50, 0, 0);
		net_run_add_end(1, 0, 5000, 40000 + i, 1e3, bytes[i], 50, 0, 0);
		net_run_add("UPDATE tcp_info_sample SET rtt_ns = %d WHERE connection_id = %d;",
			(i + 1) * 1000000, 2 * i + 1);
	}
	run = net_run_analyze(2);
	assert_near(run->network.links.at[0].rtt_ns, 3e6, 1e-9);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_circle_of_links_is_a_ring),
		cmocka_unit_test(a_server_is_named_and_hot),
		cmocka_unit_test(other_patterns_have_their_names),
		cmocka_unit_test(a_server_on_the_host_of_workers_is_a_server),
		cmocka_unit_test(other_collectives_count_by_what_they_move),
		cmocka_unit_test(the_same_links_are_told_apart_by_bytes),
		cmocka_unit_test(two_trees_are_found),
		cmocka_unit_test(two_ranks_tell_nothing_apart),
		cmocka_unit_test(without_traffic_it_says_why),
		cmocka_unit_test(what_a_nic_moved_beyond_the_job_is_nobodys),
		cmocka_unit_test(what_the_job_sent_before_its_nic_was_read_is_not_held_against_it),
		cmocka_unit_test(input_of_a_rank_is_told_from_gradients),
		cmocka_unit_test(the_rank_whose_link_is_busy_all_the_time_is_slow),
		cmocka_unit_test(a_port_used_again_is_counted_once),
		cmocka_unit_test(a_counter_of_drops_that_grew_is_shown),
		cmocka_unit_test(the_round_trip_of_a_link_is_that_of_what_carried_most),
		cmocka_unit_test(impossible_rows_are_counted_and_not_used),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
