/* SPDX-License-Identifier: Apache-2.0 */
/* What is advised of links, and that nothing is where nothing bears it out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/advise/advise.h"
#include "base/err.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"

static char said[LW_ADVICE_TEXT_BYTES];

/* What @id says of the rows so far, "" = nothing. */
static const char *advise(int n_ranks, const char *id)
{
	struct lw_run *run = net_run_analyze(n_ranks);
	struct lw_advice_list list;
	const struct lw_finding *finding;

	said[0] = '\0';
	assert_int_equal(lw_advise(run, &list), LW_OK);
	lw_vec_foreach (finding, &list.findings)
		if (!strcmp(finding->id, id))
			strcpy(said, finding->text);
	lw_advice_list_free(&list);
	lw_run_free(run);
	return said;
}

static void assert_says(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("\"%s\" is not in \"%s\"", wanted, text);
}

static void make_ring(int busy_ms_of_rank_2)
{
	net_run_begin(4);
	for (int r = 0; r < 4; r++) {
		net_run_add_link(r, (r + 1) % 4, 60e6, 1e3, r == 2 ? busy_ms_of_rank_2 : 33);
		net_run_add_nic_bytes(r, 62.7e6, 62.7e6);
	}
}

static void a_slow_link_is_named_and_an_even_ring_is_not(void **state)
{
	(void)state;
	make_ring(33);
	assert_string_equal(advise(4, "network.slow_link"), "");
	make_ring(100);
	assert_says(
		advise(4, "network.slow_link"), "Slow link: rank 2 sends to rank 3 at 62.7 MB/s");
	assert_says(said,
		"the others at 190 MB/s at least (median): the way out of the one (host node1, eth2) or into the other");
	assert_says(said, "Look at the NICs of both hosts");
	assert_null(strstr(said, "leave the host out"));
	/* neighbours that answer with small messages, at what a round trip takes */
	net_run_begin(4);
	for (int r = 0; r < 4; r++) {
		int to = (r + 1) % 4;

		net_run_add_end(r, to, 40000 + r, 5000 + r, 60e6, 2e6, 50, 0, 0);
		net_run_add_end(to, r, 5000 + r, 40000 + r, 2e6, 60e6, 10, 0, 0);
	}
	assert_string_equal(advise(4, "network.slow_link"), "");
}

static void a_server_is_said_and_no_slow_link_of_a_worker(void **state)
{
	(void)state;
	net_run_begin(4);
	for (int r = 1; r < 4; r++) {
		net_run_add_end(r, 0, 40000 + r, 5000 + r, 40e6, 40e6, r == 2 ? 80 : 40, 0, 0);
		net_run_add_end(0, r, 5000 + r, 40000 + r, 40e6, 40e6, 40, 0, 0);
	}
	assert_says(advise(4, "network.slow_link"), "goes in and out by eth0 of rank 0");
}

static void a_link_that_is_slow_one_way_is_asymmetric(void **state)
{
	(void)state;
	net_run_begin(2);
	net_run_add_end(0, 1, 40000, 5000, 60e6, 60e6, 80, 0, 0);
	net_run_add_end(1, 0, 5000, 40000, 60e6, 60e6, 40, 0, 0);
	assert_says(advise(2, "network.slow_link"),
		"asymmetric: from rank 0 (host node1, eth0) to 1 data moves at 78.4 MB/s, the other way at 157 MB/s at least");
	net_run_begin(2);
	net_run_exchange(0, 1, 60e6);
	assert_string_equal(advise(2, "network.slow_link"), "");
	for (int is_both = 0; is_both < 2;
		is_both++) { /* of two pairs one: slow both ways is not asymmetric */
		net_run_begin(6);
		for (int r = 0; r < 6; r++) {
			int to = r ^ 1;
			bool is_slow = r == 0 || (is_both && r == 1);

			net_run_add_end(r, to, r < to ? 40000 + r : 5000 + to,
				r < to ? 5000 + r : 40000 + to, 60e6, 60e6,
				is_slow  ? 90
				: r == 1 ? 30
					 : 40,
				0, 0);
		}
		advise(6, "network.slow_link");
		if (is_both)
			assert_says(said, "Slow link: rank 0 sends to rank 1 at");
		else
			assert_says(said,
				"to 1 data moves at 69.7 MB/s, the other way at 209 MB/s at least");
	}
}

static void lost_packets_are_said_with_what_they_cost(void **state)
{
	(void)state;
	net_run_begin(2);
	net_run_add_end(0, 1, 40000, 5000, 60e6, 60e6, 50, 4, 900);
	net_run_add_end(1, 0, 5000, 40000, 60e6, 60e6, 50, 0, 0);
	assert_says(advise(2, "network.loss"),
		"most from rank 0 to 1 (900, 2.17 % of what goes there)");
	assert_says(said, "1.09 % of the segments");
	net_run_begin(2); /* all the time: no operation stands for those without */
	net_run_add_end(0, 1, 40000, 5000, 60e6, 60e6, 50, 0, 0);
	net_run_add_end(1, 0, 5000, 40000, 60e6, 60e6, 50, 0, 0);
	net_run_add("UPDATE tcp_info_sample SET n_retransmits = at_ns / 1000000;");
	assert_says(advise(2, "network.loss"), "what it cost cannot be told");
	net_run_begin(2); /* on a loopback nothing is */
	net_run_add_end(0, 1, 40000, 5000, 60e6, 60e6, 50, 4, 900);
	net_run_add_end(1, 0, 5000, 40000, 60e6, 60e6, 50, 0, 0);
	net_run_add("UPDATE device SET is_loopback = 1;");
	assert_string_equal(advise(2, "network.loss"), "");
	net_run_begin(2);
	net_run_add_end(0, 1, 40000, 5000, 60e6, 60e6, 50, 4, 9);
	net_run_add_end(1, 0, 5000, 40000, 60e6, 60e6, 50, 0, 0);
	assert_string_equal(advise(2, "network.loss"), "");
}

static void what_held_tcp_back_is_said_with_what_sets_it(void **state)
{
	(void)state;
	for (int held_ms = 30; held_ms <= 90; held_ms += 60) {
		bool is_much = held_ms > 50;

		net_run_begin(2);
		net_run_exchange(0, 1, 60e6); /* busy for half of the time */
		net_run_add(
			"UPDATE tcp_info_sample SET rwnd_limited_ns = busy_ns * %d / 100 WHERE connection_id = 1;",
			held_ms);
		advise(2, "network.held");
		if (!is_much) {
			assert_string_equal(said, "");
			continue;
		}
		assert_says(said,
			"the receiver's window held back what rank 0 sends to rank 1 for 90 % of the time with data in flight (450 ms)");
		assert_says(
			said, "at the receiver (host node1): raise the third of net.ipv4.tcp_rmem");
		net_run_add(
			"UPDATE tcp_info_sample SET rwnd_limited_ns = 0, sndbuf_limited_ns = busy_ns * 6 / 10 WHERE connection_id = 1;"
			"UPDATE process SET transport = 1;");
		assert_says(advise(2, "network.held"), "the send buffer held back");
		assert_says(said,
			"net.ipv4.tcp_wmem (and OMPI_MCA_btl_tcp_sndbuf=0, where Open MPI sets a size)");
	}
}

static void make_cards(const char *address, long long idle_bytes)
{
	net_run_begin(2);
	net_run_exchange(0, 1, 60e6);
	net_run_add_nic_bytes(0, 62.7e6, 62.7e6);
	net_run_add_nic_bytes(1, 62.7e6, 62.7e6);
	net_run_add(
		"UPDATE device SET driver = 'mlx5_core', speed_bytes_per_s = 125000000;"
		"UPDATE process SET transport = 2;"
		"INSERT INTO device VALUES(9, 1, 'nic', 'ib0', 9, 1, NULL, 1500, 12500000000, '%s', 'mlx5_core', 0, 0, NULL);"
		"INSERT INTO counter_sample VALUES(9, 1, 0, 0), (9, 1, 1000000000, %lld);",
		address, idle_bytes);
}

static void an_idle_faster_interface_is_named_with_the_variable(void **state)
{
	(void)state;
	make_cards("192.168.7.1", 1000);
	net_run_add("UPDATE device SET namespace_key = 1;");
	assert_says(advise(2, "network.interface"),
		"rank 0 sends by eth0 (125 MB/s) while ib0 (12.5 GB/s, address 192.168.7.1)");
	assert_says(said, "set HOROVOD_GLOO_IFACE=ib0");
	make_cards("", 1000); /* no address: it cannot be used */
	net_run_add("UPDATE device SET namespace_key = 1;");
	assert_string_equal(advise(2, "network.interface"), "");
	make_cards("192.168.7.1", 60000000); /* not idle */
	net_run_add("UPDATE device SET namespace_key = 1;");
	assert_string_equal(advise(2, "network.interface"), "");
	make_cards("192.168.7.1", 1000); /* a veth's speed is made up */
	net_run_add("UPDATE device SET driver = 'veth';");
	assert_string_equal(advise(2, "network.interface"), "");
}

static void jumbo_frames_are_for_links_that_are_full(void **state)
{
	static const char physical[] =
		"UPDATE device SET driver = 'mlx5_core', speed_bytes_per_s = 125000000;";

	(void)state;
	for (int busy_ms = 90; busy_ms <= 100; busy_ms += 10) {
		net_run_begin(2);
		for (int r = 0; r < 2; r++) {
			net_run_add_end(r, 1 - r, r ? 5000 : 40000, r ? 40000 : 5000, 60e6, 60e6,
				busy_ms, 0, 0);
			net_run_add_nic_bytes(r, 62.7e6, 62.7e6);
		}
		net_run_add("%s", physical);
		if (busy_ms < 95) /* it carries that at least: nobody knows how full it is */
			assert_string_equal(advise(2, "network.frames"), "");
	}
	assert_says(advise(2, "network.frames"), "ip link set eth0 mtu 9000");
	net_run_add("UPDATE device SET mtu_bytes = 9000;");
	assert_string_equal(advise(2, "network.frames"), "");
	net_run_begin(2);
	for (int r = 0; r < 2; r++)
		net_run_add_end(r, 1 - r, r ? 5000 : 40000, r ? 40000 : 5000, 60e6, 60e6, 20, 0, 0);
	net_run_add("%s", physical);
	assert_string_equal(advise(2, "network.frames"), "");
}

static void without_samples_nothing_is_said(void **state)
{
	static const char *const ids[] = {"network.slow_link", "network.loss", "network.held",
		"network.interface", "network.frames"};

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		net_run_begin(2);
		assert_string_equal(advise(2, ids[i]), "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_link_is_named_and_an_even_ring_is_not),
		cmocka_unit_test(a_server_is_said_and_no_slow_link_of_a_worker),
		cmocka_unit_test(a_link_that_is_slow_one_way_is_asymmetric),
		cmocka_unit_test(lost_packets_are_said_with_what_they_cost),
		cmocka_unit_test(what_held_tcp_back_is_said_with_what_sets_it),
		cmocka_unit_test(an_idle_faster_interface_is_named_with_the_variable),
		cmocka_unit_test(jumbo_frames_are_for_links_that_are_full),
		cmocka_unit_test(without_samples_nothing_is_said),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
