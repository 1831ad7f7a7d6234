/* SPDX-License-Identifier: Apache-2.0 */
/* What the report's section on the network says of devices: whose, and of how many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/report.h"
#include "base/err.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"

static char *text;

/* Lines are joined: where they break is of no matter here. */
static void make_text(struct lw_run *run)
{
	const struct lw_analysis analysis = {.run = run};
	size_t n_bytes, kept = 0;
	FILE *out;

	free(text);
	out = open_memstream(&text, &n_bytes);
	assert_non_null(out);
	lw_network_text(&analysis, out);
	fclose(out);
	for (size_t i = 0; i < n_bytes; i++)
		if (!(text[i] == ' ' && kept && text[kept - 1] == ' '))
			text[kept++] = text[i] == '\n' ? ' ' : text[i];
	text[kept] = '\0';
	lw_run_free(run);
}

static void assert_says(const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("\"%s\" is not in \"%s\"", wanted, text);
}

static int count(const char *wanted)
{
	int n = 0;

	for (const char *at = text; (at = strstr(at, wanted)); at++)
		n++;
	return n;
}

static void a_device_is_named_with_its_owner(void **state)
{
	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add_nic_bytes(1, 60e6, 60e6);
	net_run_add("UPDATE device SET name = 'eth0', addresses = 'fe80::1 ' || addresses;"
		    "INSERT INTO counter_sample VALUES(2, 5, 0, 7), (2, 5, 500000000, 1007);");
	make_text(net_run_analyze(2));
	assert_says("eth0 (rank 1, 10.0.0.2 on node1) rx_dropped grew by 1000");
	assert_says("eth0 (rank 1, 10.0.0.2 on node1) 34.7 MiB of 114 MiB is not of the job's");
	assert_says(
		"on no TCP connection that was seen: not TCP (UDP), or too short to be listed rank");
	net_run_add(
		"INSERT INTO sampler VALUES('tcp_list', 5000000000, 40000000000, 2, 0, 0, 9, 9);");
	make_text(net_run_analyze(2));
	assert_says("not TCP (UDP), or too short to be listed (every 40.0 s)");
}

static void who_is_no_rank_may_be_one_that_was_not_recorded(void **state)
{
	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add_end(0, 8, 41000, 5003, 1e3, 25e6, 0, 0, 0);
	net_run_add_nic_bytes(0, 50e6, 80e6);
	make_text(net_run_analyze(2));
	assert_says("rank 0, port 5003 at 10.0.0.9: 23.8 MiB in");
	assert_says("(no rank has the other end)");
	net_run_add("UPDATE process SET size = 3;");
	make_text(net_run_analyze(2));
	assert_says("(perhaps a rank that was not recorded)");
	assert_int_equal(count("not gradients"), 0);
}

static void of_many_devices_the_worst_are_printed(void **state)
{
	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	for (int i = 0; i < 40; i++)
		net_run_add(
			"INSERT INTO device VALUES(%d, 1, 'nic', 'veth%d', 2, 99, NULL, 1500, NULL, '10.2.0.%d', 'veth', 0, 0, NULL);"
			"INSERT INTO counter_sample VALUES(%d, 1, 0, 0), (%d, 1, 1000000000, %d), (%d, 2, 0, 0), (%d, 2, 1000000000, 0),"
			" (%d, 5, 0, 0), (%d, 5, 1000000000, %d);",
			10 + i, i, i, 10 + i, 10 + i, 1000000 + i, 10 + i, 10 + i, 10 + i, 10 + i,
			1000 + i);
	make_text(net_run_analyze(2));
	assert_int_equal(count("is not of the job's connections"), 16);
	assert_int_equal(count("rx_dropped grew by"), 16);
	assert_says("veth39 (no rank, 10.2.0.39 on node1) rx_dropped grew by 1039");
	assert_says("... and 24 more NICs with traffic of others");
	assert_says("... and 24 more counters of errors");
}

/* 20 MB/s since the middle, and 80 before it: wherever the rate is printed. */
static void a_way_out_that_changed_has_a_line(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	run = net_run_analyze(2);
	run->network.ranks.at[1].capacity_bytes_per_s = 20e6;
	run->network.ranks.at[1].capacity_from = LW_CAPACITY_BUSY;
	run->network.ranks.at[1].capacity_before_bytes_per_s = 80e6;
	run->network.ranks.at[1].capacity_since_ns = run->ranks.at[1].start_ns + 500000000;
	make_text(run);
	assert_says(
		"ways out changed of rank 1 (eth1) at least 20 MB/s since 500 ms after its start (80 MB/s before)");
}

static void gradients_on_the_loopback_have_no_unknown_nic(void **state)
{
	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add("UPDATE device SET is_loopback = 1, name = 'lo';");
	make_text(net_run_analyze(2));
	assert_int_equal(count(" loopback ?"), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_is_named_with_its_owner),
		cmocka_unit_test(who_is_no_rank_may_be_one_that_was_not_recorded),
		cmocka_unit_test(of_many_devices_the_worst_are_printed),
		cmocka_unit_test(a_way_out_that_changed_has_a_line),
		cmocka_unit_test(gradients_on_the_loopback_have_no_unknown_nic),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
