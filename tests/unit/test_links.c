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

enum { N_STEPS = 30, LAST_MS = 1000, EVERY_MS = 100 };

static char sql[262144];
static int n_sockets;

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
	size_t at = strlen(sql);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sql + at, sizeof(sql) - at, format, arguments);
	va_end(arguments);
	assert_true(strlen(sql) + 1 < sizeof(sql));
}

static void begin(int n_ranks)
{
	sql[0] = '\0';
	n_sockets = 0;
	add("INSERT INTO counter VALUES(1, 'tx_bytes', 'bytes'), (2, 'rx_bytes', 'bytes'), (3, 'tx_packets', 'packets'), (4, 'rx_packets', 'packets'), (5, 'rx_dropped', 'packets');");
	for (int r = 0; r < n_ranks; r++)
		add("INSERT INTO device VALUES(%d, 1, 'nic', 'eth%d', 2, %d, NULL, 1500, NULL, '10.0.0.%d', 'veth', 0, 0, NULL);",
			r + 1, r, r + 1, r + 1);
}

/* One end on rank @from, as hooked and as the kernel says: it sends @bytes evenly over a second, with something in flight
 * for @busy_ms of each 100 ms, and the segments @n_resent in the interval @resent_at. */
static void add_end(int from, int to, int local_port, int peer_port, double bytes,
	double received_bytes, int busy_ms, int resent_at, int n_resent)
{
	int id = ++n_sockets;

	add("INSERT INTO socket VALUES(%d, %d, %d, 0, '10.0.0.%d', %d, '10.0.0.%d', %d);"
	    "INSERT INTO tcp_connection VALUES(%d, 1, %d, %d, 1, '10.0.0.%d', %d, '10.0.0.%d', %d, %d, 0, 2000000000, 1);",
		id, from + 1, id, from + 1, local_port, to + 1, peer_port, id, from + 1, id,
		from + 1, local_port, to + 1, peer_port, from + 1);
	for (int ms = 0; ms <= LAST_MS; ms += EVERY_MS) {
		double part = ms / (double)LAST_MS;
		int64_t at_ns = ms * LW_NS_PER_MS;

		add("INSERT INTO socket_sample VALUES(%d, %d, %lld, 1, %.0f, %.0f, 1, 1);"
		    "INSERT INTO tcp_info_sample VALUES(%d, %lld, 200000, 100000, %.0f, %.0f, %.0f, 0, %d, %.0f, %.0f, 0, %lld, 0, 0, 10, 0);",
			from + 1, id, (long long)at_ns, bytes * part, received_bytes * part, id,
			(long long)at_ns, bytes * part, bytes * part, received_bytes * part,
			ms > resent_at * EVERY_MS ? n_resent : 0, bytes * part / 1448,
			received_bytes * part / 1448,
			(long long)(ms / EVERY_MS * busy_ms * LW_NS_PER_MS));
	}
}

static void add_link(int from, int to, double bytes, double back_bytes, int busy_ms)
{
	int port = 40000 + from * 100 + to;

	add_end(from, to, port, 5000 + from, bytes, back_bytes, busy_ms, 0, 0);
	add_end(to, from, 5000 + from, port, back_bytes, bytes, 0, 0, 0);
}

/* What the device of a rank counted over that second. */
static void add_nic_bytes(int rank, double tx_bytes, double rx_bytes)
{
	for (int ms = 0; ms <= LAST_MS; ms += EVERY_MS) {
		double part = ms / (double)LAST_MS;

		for (int counter = 1; counter <= 4; counter++)
			add("INSERT INTO counter_sample VALUES(%d, %d, %lld, %.0f);", rank + 1,
				counter, (long long)(ms * LW_NS_PER_MS),
				(counter == 1          ? tx_bytes
					: counter == 2 ? rx_bytes
					: counter == 3 ? tx_bytes / 1514
						       : rx_bytes / 1514) *
					part);
	}
}

static struct lw_run *analyze(int n_ranks)
{
	struct make_run spec = make_run_job(n_ranks, N_STEPS);
	struct lw_run *run;

	spec.first_ns = 10 * LW_NS_PER_MS;
	spec.extra_sql = sql;
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_run_network(run), LW_OK);
	return run;
}

/* Allreduced in the first second, as far as the made-up traffic shall match it: bytes a step times steps. */
static double wanted_bytes(const struct lw_run *run)
{
	return run->network.op_bytes;
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
	begin(4);
	for (int r = 0; r < 4; r++)
		add_link(r, (r * 3 + 3) % 4, 60e6, 3e3, 50); /* 0 3 0 .. would be two small ones */
	run = analyze(4);
	assert_int_not_equal(run->network.algorithm, LW_ALGORITHM_RING);
	lw_run_free(run);

	begin(4);
	add_link(0, 2, 60e6, 3e3, 50);
	add_link(2, 1, 60e6, 3e3, 50);
	add_link(1, 3, 60e6, 3e3, 50);
	add_link(3, 0, 60e6, 3e3, 50);
	run = analyze(4);
	assert_algorithm(run, LW_ALGORITHM_RING);
	assert_near(run->network.ranks.at[2].expected_bytes, 1.5 * wanted_bytes(run), 1e-9);
	assert_false(run->network.ranks.at[0].is_hot);
	assert_int_equal(run->network.slow_rank, LW_NONE);
	lw_run_free(run);
}

static void exchange(int a, int b, double bytes)
{
	add_link(a, b, bytes, bytes, 50);
}

static void a_server_is_named_and_hot(void **state)
{
	struct lw_run *run;

	(void)state;
	begin(4);
	for (int r = 0; r < 4; r++)
		if (r != 1)
			exchange(1, r, 40e6);
	run = analyze(4);
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
	begin(4);
	exchange(0, 1, 40e6);
	exchange(1, 2, 40e6);
	exchange(2, 3, 40e6);
	run = analyze(4);
	assert_algorithm(run, LW_ALGORITHM_TREE);
	lw_run_free(run);

	begin(4);
	exchange(0, 1, 40e6);
	exchange(2, 3, 40e6);
	exchange(0, 2, 20e6);
	exchange(1, 3, 20e6);
	run = analyze(4);
	assert_algorithm(run, LW_ALGORITHM_HALVING);
	lw_run_free(run);

	begin(4);
	for (int a = 0; a < 4; a++)
		for (int b = a + 1; b < 4; b++)
			exchange(a, b, 20e6);
	run = analyze(4);
	assert_algorithm(run, LW_ALGORITHM_DIRECT);
	lw_run_free(run);

	begin(6); /* 3 x 2: circles of three, and pairs */
	for (int r = 0; r < 6; r++)
		add_link(r, r / 3 * 3 + (r + 1) % 3, 80e6, 1e3, 50);
	for (int r = 0; r < 3; r++)
		exchange(r, r + 3, 20e6);
	run = analyze(6);
	assert_algorithm(run, LW_ALGORITHM_TORUS);
	lw_run_free(run);
}

static void two_ranks_tell_nothing_apart(void **state)
{
	struct lw_run *run;

	(void)state;
	begin(2);
	exchange(0, 1, 40e6);
	run = analyze(2);
	assert_algorithm(run, LW_ALGORITHM_PAIR);
	lw_run_free(run);
}

static void without_traffic_it_says_why(void **state)
{
	struct lw_run *run;

	(void)state;
	begin(4);
	run = analyze(4);
	assert_algorithm(run, LW_ALGORITHM_UNKNOWN);
	assert_non_null(strstr(run->network.evidence, "they share memory"));
	lw_run_free(run);

	begin(4);
	for (int r = 0; r < 4; r++)
		add_link(r, (r + 1) % 4, 500, 500, 1);
	run = analyze(4);
	assert_algorithm(run, LW_ALGORITHM_UNKNOWN);
	assert_non_null(strstr(run->network.evidence, "too little traffic"));
	lw_run_free(run);
}

static void what_a_nic_moved_beyond_the_job_is_nobodys(void **state)
{
	const struct lw_net_account *account;
	struct lw_run *run;
	double headers = 40e6 / 1448 * 66;

	(void)state;
	begin(2);
	exchange(0, 1, 40e6);
	add_nic_bytes(0, 40e6 + headers + 7e6, 40e6 + headers);
	add_nic_bytes(1, 40e6 + headers, 40e6 + headers);
	/* 5 MB of the rest are of an NFS client of the kernel, which is no process of the job */
	add("INSERT INTO tcp_connection VALUES(99, 1, NULL, 99, 1, '10.0.0.1', 800, '10.0.0.9', 2049, 1, 0, 1, 1);"
	    "INSERT INTO tcp_info_sample VALUES(99, 0, 1, 1, 1000, 1000, 1000, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0),"
	    " (99, 1000000000, 1, 1, 5001000, 5001000, 1000, 0, 0, 9, 9, 0, 0, 0, 0, 1, 0);");
	run = analyze(2);
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

static void input_of_a_rank_is_told_from_gradients(void **state)
{
	const struct lw_net_account *account;
	struct lw_run *run;

	(void)state;
	begin(2);
	exchange(0, 1, 40e6);
	add_end(0, 8, 41000, 9000, 1e3, 25e6, 0, 0, 0);
	add_nic_bytes(0, 50e6, 80e6);
	run = analyze(2);
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
	begin(4);
	for (int r = 0; r < 4; r++) {
		add_link(r, (r + 1) % 4, 10e6, 1e3, r == 2 ? 100 : 33);
		add_nic_bytes(r, 10e6 * 1514 / 1448, 10e6 * 1514 / 1448);
	}
	run = analyze(4);
	assert_int_equal(run->network.slow_rank, 2);
	assert_int_equal(run->network.ranks.at[2].capacity_from, LW_CAPACITY_PLATEAU);
	assert_near(run->network.ranks.at[2].capacity_bytes_per_s, 10e6 * 1514 / 1448, 0.001);
	assert_int_equal(run->network.ranks.at[0].capacity_from, LW_CAPACITY_BUSY);
	assert_near(run->network.others_bytes_per_s, 10e6 * 1514 / 1448 / 0.33, 0.001);
	lw_run_free(run);
}

static void a_counter_of_drops_that_grew_is_shown(void **state)
{
	struct lw_run *run;

	(void)state;
	begin(2);
	exchange(0, 1, 40e6);
	add("INSERT INTO counter_sample VALUES(2, 5, 0, 7), (2, 5, 500000000, 1007), (1, 5, 0, 3), (1, 5, 500000000, 5);");
	run = analyze(2);
	assert_int_equal(run->network.troubles.n, 1);
	assert_string_equal(run->network.troubles.at[0].counter, "rx_dropped");
	assert_near(run->network.troubles.at[0].n, 1000, 1e-9);
	lw_run_free(run);
}

static void impossible_rows_are_counted_and_not_used(void **state)
{
	struct lw_run *run;

	(void)state;
	begin(2);
	exchange(0, 1, 40e6);
	add("INSERT INTO counter_sample VALUES(77, 1, 0, 7), (1, 1, -5, 7), (1, 1, 5, -7);"
	    "INSERT INTO tcp_info_sample(connection_id, at_ns) VALUES(555, 1), (1, -1);"
	    "INSERT INTO packet_bin VALUES(3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);");
	run = analyze(2);
	assert_int_equal(run_fixture_diag(run, "bad rows"), 5);
	assert_algorithm(run, LW_ALGORITHM_PAIR);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_circle_of_links_is_a_ring),
		cmocka_unit_test(a_server_is_named_and_hot),
		cmocka_unit_test(other_patterns_have_their_names),
		cmocka_unit_test(two_ranks_tell_nothing_apart),
		cmocka_unit_test(without_traffic_it_says_why),
		cmocka_unit_test(what_a_nic_moved_beyond_the_job_is_nobodys),
		cmocka_unit_test(input_of_a_rank_is_told_from_gradients),
		cmocka_unit_test(the_rank_whose_link_is_busy_all_the_time_is_slow),
		cmocka_unit_test(a_counter_of_drops_that_grew_is_shown),
		cmocka_unit_test(impossible_rows_are_counted_and_not_used),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
