/* SPDX-License-Identifier: Apache-2.0 */
/* Whose way out is slow, where it may be another way as well, and what is said of it. */
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

#define WIRE (1514.0 / 1448)

static char said[LW_NET_WORDS_BYTES];

static void assert_says(const struct lw_run *run, const char *wanted)
{
	lw_net_slow_text(run, said);
	if (!strstr(said, wanted))
		fail_msg("\"%s\" is not in \"%s\"", wanted, said);
}

/* Ranks 0 and 1 have one NIC, on node1. */
static void share_a_nic(void)
{
	net_run_add(
		"UPDATE tcp_connection SET device_id = 1 WHERE process_id = 2;"
		"INSERT INTO host VALUES(2, 'node2', 'boot-1', 'monotonic'), (3, 'node3', 'boot-1', 'monotonic');"
		"UPDATE process SET host_id = id - 1 WHERE id > 2; UPDATE device SET host_id = id - 1 WHERE id > 2;");
}

static void of_one_receiver_both_ways_are_named(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(4);
	for (int r = 0; r < 4; r++) {
		net_run_add_link(r, (r + 1) % 4, 60e6, 1e3, r == 2 ? 100 : 33);
		net_run_add_nic_bytes(r, 60e6 * WIRE, 60e6 * WIRE);
	}
	run = net_run_analyze(4);
	assert_int_equal(run->network.slow_rank, 2);
	assert_int_equal(run->network.slow_to, 3);
	assert_says(run,
		"rank 2 sends to rank 3 at 62.7 MB/s, the others at 190 MB/s at least (median): the way out of the one (host node1, eth2) or into the other (host node1) is slow");
	lw_run_free(run);
}

/* What window and buffer held back may be what it would have carried more. */
static void who_is_held_back_may_not_be_slow(void **state)
{
	struct lw_run *run;

	(void)state;
	for (int has_nic = 0; has_nic < 2; has_nic++)
		for (int held = 0; held < 2; held++) {
			net_run_begin(4);
			for (int r = 0; r < 4; r++) {
				net_run_add_link(r, (r + 1) % 4, 60e6, 1e3, r == 2 ? 100 : 40);
				if (has_nic)
					net_run_add_nic_bytes(r, 60e6 * WIRE, 60e6 * WIRE);
			}
			if (held)
				net_run_add(
					"UPDATE tcp_info_sample SET rwnd_limited_ns = busy_ns * 45 / 100 WHERE connection_id = 5;");
			run = net_run_analyze(4);
			assert_int_equal(run->network.ranks.at[2].capacity_from,
				has_nic ? LW_CAPACITY_PLATEAU : LW_CAPACITY_BUSY);
			assert_int_equal(run->network.slow_rank, held ? LW_NONE : 2);
			lw_run_free(run);
		}
}

/* 80 MB of others come in at rank 2, to whom rank 1 sends. */
static void where_others_data_come_in_too_no_sender_is_slow(void **state)
{
	struct lw_run *run;

	(void)state;
	for (int others = 0; others < 2; others++) {
		net_run_begin(3);
		for (int r = 0; r < 3; r++) {
			net_run_add_link(r, (r + 1) % 3, 40e6, 1e3, r == 1 ? 100 : 33);
			net_run_add_nic_bytes(
				r, 40e6 * WIRE, 40e6 * WIRE + (r == 2 ? others * 80e6 : 0));
		}
		run = net_run_analyze(3);
		assert_int_equal(run->network.slow_rank, others ? LW_NONE : 1);
		lw_run_free(run);
	}
	/* likewise what it gets of who is no rank */
	net_run_begin(3);
	for (int r = 0; r < 3; r++)
		net_run_add_link(r, (r + 1) % 3, 40e6, 1e3, r == 1 ? 100 : 33);
	net_run_add_end(2, 9, 40900, 2049, 1e3, 80e6, 1, 0, 0);
	run = net_run_analyze(3);
	assert_int_equal(run->network.slow_rank, LW_NONE);
	lw_run_free(run);
}

/* A ring 0-2-1-3-0: both 2 and 3 send into the NIC of 0 and 1, which carries as much as theirs. */
static void data_meet_at_a_nic_not_at_a_rank(void **state)
{
	static const int to[] = {2, 3, 1, 0};
	struct lw_run *run;

	(void)state;
	net_run_begin(4);
	for (int r = 0; r < 4; r++)
		net_run_add_link(r, to[r], 60e6, 1e3, 100);
	net_run_add_nic_bytes(0, 120e6 * WIRE, 120e6 * WIRE);
	net_run_add_nic_bytes(2, 60e6 * WIRE, 60e6 * WIRE);
	net_run_add_nic_bytes(3, 60e6 * WIRE, 60e6 * WIRE);
	share_a_nic();
	run = net_run_analyze(4);
	assert_int_equal(run->network.ranks.at[0].n_sharing, 2);
	assert_int_equal(run->network.slow_rank, LW_NONE);
	lw_run_free(run);
}

/* The step's bytes there are those of both ranks. */
static void what_it_costs_is_of_all_that_send_there(void **state)
{
	double bytes = 0;
	char text[64], unit[LW_UNIT_TEXT_BYTES];
	struct lw_run *run;

	(void)state;
	net_run_begin(4);
	for (int a = 0; a < 4; a++)
		for (int b = 0; b < 4; b++)
			if (a / 2 != b / 2 || a > 1)
				if (a != b)
					net_run_add_end(a, b,
						a < b ? 40000 + a * 10 + b : 6000 + b * 10 + a,
						a < b ? 6000 + a * 10 + b : 40000 + b * 10 + a,
						20e6, 20e6, a < 2 ? 100 : 10, 0, 0);
	share_a_nic();
	run = net_run_analyze(4);
	assert_int_equal(run->network.slow_rank, 0);
	assert_int_equal(run->network.slow_to, LW_NONE);
	assert_says(
		run, "rank 0 (host node1) sends by eth0 (shared with 1 more rank) at 83.6 MB/s");
	for (size_t i = 0; i < run->network.links.n; i++)
		bytes +=
			run->network.links.at[i].from < 2 ? run->network.links.at[i].step_bytes : 0;
	snprintf(text, sizeof(text), "the %s of a step take at most",
		lw_bytes_format(bytes * run->network.ranks.at[0].wire_factor, unit));
	assert_says(run, text);
	lw_run_free(run);
}

/* A ring in both directions. Slow is what comes into rank 1, of both neighbours; or what leaves rank 0, to both. */
static void the_way_in_is_not_the_way_out(void **state)
{
	struct lw_run *run;

	(void)state;
	for (int out = 0; out < 2; out++) {
		net_run_begin(5);
		for (int r = 0; r < 5; r++)
			for (int k = 0; k < 2; k++) {
				int to = (r + (k ? 4 : 1)) % 5;
				bool is_slow = out ? r == 0 : to == 1;

				net_run_add_end(r, to, k ? 5000 + to : 40000 + r,
					k ? 40000 + to : 5000 + r, 20e6, 20e6, is_slow ? 90 : 20, 0,
					0);
			}
		run = net_run_analyze(5);
		assert_int_equal(run->network.slow_rank, out ? 0 : LW_NONE);
		assert_int_equal(run->network.slow_to, LW_NONE);
		lw_run_free(run);
	}
}

/* Workers meet at their server. One that is in flight for so long that the others are none most of that time is slow itself. */
static void a_worker_is_slow_that_sends_alone_and_slowly(void **state)
{
	static const int busy_ms[] = {60, 12, 10};
	struct lw_run *run;

	(void)state;
	for (int i = 0; i < 3; i++) {
		net_run_begin(4);
		for (int r = 1; r < 4; r++) {
			net_run_add_end(r, 0, 40000 + r, 5000 + r, 10e6, 10e6,
				r == 2 ? busy_ms[i] : 5, 0, 0);
			net_run_add_end(0, r, 5000 + r, 40000 + r, 10e6, 10e6, 5, 0, 0);
		}
		run = net_run_analyze(4);
		assert_int_equal(run->network.algorithm, LW_ALGORITHM_STAR);
		assert_int_equal(run->network.slow_rank, i ? LW_NONE : 2);
		if (!i)
			assert_says(run, "rank 2 (host node1) sends by eth2 at 17.4 MB/s");
		assert_int_equal(run->network.slow_to, LW_NONE); /* others come in faster there */
		lw_run_free(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_one_receiver_both_ways_are_named),
		cmocka_unit_test(who_is_held_back_may_not_be_slow),
		cmocka_unit_test(where_others_data_come_in_too_no_sender_is_slow),
		cmocka_unit_test(data_meet_at_a_nic_not_at_a_rank),
		cmocka_unit_test(what_it_costs_is_of_all_that_send_there),
		cmocka_unit_test(the_way_in_is_not_the_way_out),
		cmocka_unit_test(a_worker_is_slow_that_sends_alone_and_slowly),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
