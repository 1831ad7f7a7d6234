/* SPDX-License-Identifier: Apache-2.0 */
/* What an end of a connection is joined with: its NIC, the other end, the kernel's count where the hook has none. */
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
#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"

static void an_end_without_a_device_has_the_nic_of_its_address(void **state)
{
	const struct lw_tcp_end *end;
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add(
		"UPDATE tcp_connection SET device_id = NULL, namespace_key = process_id;"
		/* the same address in another namespace is another's */
		"UPDATE device SET addresses = 'fe80::1 10.0.0.1' WHERE id = 1;"
		"INSERT INTO device SELECT 9, host_id, kind, name, number, 77, on_name, mtu_bytes,"
		" speed_bytes_per_s, addresses, driver, is_loopback, first_ns, gone_ns FROM device WHERE id = 1;");
	run = net_run_analyze(2);
	assert_int_equal(run->ends.n, 2);
	lw_vec_foreach (end, &run->ends)
		assert_int_equal(end->nic, end->rank);
	assert_int_equal(run->nics.at[0].ranks.n, 1);
	assert_int_equal(run->nics.at[1].ranks.at[0], 1);
	assert_int_equal(run->nics.at[2].ranks.n, 0);
	lw_run_free(run);
}

static void within_a_namespace_it_is_the_loopback(void **state)
{
	struct lw_run *run;

	(void)state;
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add(
		"UPDATE device SET namespace_key = 1;"
		"UPDATE tcp_connection SET device_id = NULL;"
		"INSERT INTO device VALUES(9, 1, 'nic', 'lo', 1, 1, NULL, 65536, NULL, '127.0.0.1 ::1', NULL, 1, 0, NULL);");
	run = net_run_analyze(2);
	assert_int_equal(run->ends.at[0].nic, 2);
	assert_true(run->network.links.at[0].is_loopback);
	lw_run_free(run);
}

/* By io_uring: the hook knows the socket and none of its bytes. */
static void what_passes_the_hook_by_is_counted_by_the_kernel(void **state)
{
	struct lw_run *run;

	(void)state;
	for (int has_rows = 0; has_rows <= 1; has_rows++) {
		net_run_begin(2);
		net_run_exchange(0, 1, 40e6);
		net_run_add(has_rows ? "UPDATE socket_sample SET sent_bytes = sent_bytes / 1000,"
				       " received_bytes = received_bytes / 1000;"
				     : "DELETE FROM socket_sample;");
		run = net_run_analyze(2);
		assert_int_equal(run->network.links.n, 2);
		assert_true(fabs(run->network.links.at[0].run_bytes - 40e6) < 1);
		assert_int_equal(run->network.algorithm, LW_ALGORITHM_PAIR);
		lw_run_free(run);
	}
	/* the hook's word stands where it counts most of it: it is the finer one */
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add("UPDATE socket_sample SET sent_bytes = sent_bytes * 0.9;");
	run = net_run_analyze(2);
	assert_true(fabs(run->network.links.at[0].run_bytes - 36e6) < 1);
	lw_run_free(run);
}

/* Every container has 127.0.0.1, and two jobs there the same ports. */
static void loopbacks_of_two_namespaces_are_two(void **state)
{
	const struct lw_tcp_end *end;
	struct lw_run *run;

	(void)state;
	for (int swapped = 0; swapped <= 1; swapped++) { /* no order of rows may tell them apart */
		int first = swapped ? 2 : 0;

		net_run_begin(4);
		net_run_exchange(first, first + 1, 40e6);
		net_run_exchange(2 - first, 3 - first, 40e6);
		net_run_add(
			"UPDATE tcp_connection SET local_address = '127.0.0.1', peer_address = '127.0.0.1',"
			" namespace_key = 1 + (process_id > 2), local_port = iif(process_id %% 2, 40000, 5000),"
			" peer_port = iif(process_id %% 2, 5000, 40000);"
			"UPDATE socket SET local_address = '127.0.0.1', peer_address = '127.0.0.1',"
			" local_port = iif(process_id %% 2, 40000, 5000), peer_port = iif(process_id %% 2, 5000, 40000);");
		run = net_run_analyze(4);
		assert_int_equal(run->ends.n, 4);
		lw_vec_foreach (end, &run->ends)
			assert_int_equal(end->peer_rank, end->rank ^ 1);
		lw_run_free(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_end_without_a_device_has_the_nic_of_its_address),
		cmocka_unit_test(within_a_namespace_it_is_the_loopback),
		cmocka_unit_test(what_passes_the_hook_by_is_counted_by_the_kernel),
		cmocka_unit_test(loopbacks_of_two_namespaces_are_two),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
