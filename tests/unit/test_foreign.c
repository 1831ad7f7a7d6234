/* SPDX-License-Identifier: Apache-2.0 */
/* What is advised of others' traffic on the NIC of a rank. */
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

#define HEADERS (40e6 / 1448 * 66)

static char said[LW_ADVICE_TEXT_BYTES];

static const char *advise(struct lw_run *run)
{
	struct lw_advice_list list;
	const struct lw_finding *finding;

	said[0] = '\0';
	assert_int_equal(lw_advise(run, &list), LW_OK);
	lw_vec_foreach (finding, &list.findings)
		if (!strcmp(finding->id, "network.foreign"))
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

/* Rank 1's NIC, read every 5 ms, sends @per_ms of others from @from_ms to @to_ms. */
static void make(double per_ms, int from_ms, int to_ms)
{
	net_run_begin(2);
	net_run_exchange(0, 1, 40e6);
	net_run_add_nic_bytes(0, 40e6 + HEADERS, 40e6 + HEADERS);
	for (int ms = 0; ms <= 1000; ms += 5) {
		double job = (40e6 + HEADERS) * ms / 1000;
		int n_ms = (ms < to_ms ? ms : to_ms) - from_ms;

		net_run_add(
			"INSERT INTO counter_sample VALUES(2, 1, %d000000, %.0f), (2, 2, %d000000, %.0f), (2, 3, %d000000, %d), (2, 4, %d000000, %d);",
			ms, job + per_ms * (n_ms > 0 ? n_ms : 0), ms, job, ms, 28 * ms, ms,
			28 * ms);
	}
}

static void others_on_a_ranks_nic_are_told(void **state)
{
	(void)state;
	make(30e3, 300, 600);
	advise(net_run_analyze(2));
	assert_says(said,
		"of what eth1 (rank 1, 10.0.0.2 on node1) sent during the steps is not the job's");
	assert_says(said, "not TCP (UDP), or too short to be listed");
	assert_says(said, "took no longer than");
}

static void who_is_known_is_named(void **state)
{
	(void)state;
	make(30e3, 300, 600);
	net_run_add(
		"INSERT INTO tcp_connection VALUES(99, 1, NULL, 99, 2, '10.0.0.2', 800, '10.0.0.9', 2049, 2, 0, 1, 1);"
		"INSERT INTO tcp_info_sample VALUES(99, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0),"
		" (99, 900000000, 1, 1, 8500000, 8500000, 1000, 0, 0, 9, 9, 0, 0, 0, 0, 1, 0);");
	advise(net_run_analyze(2));
	assert_says(said, "most of it is another process, port 2049 (NFS) at 10.0.0.9");
}

static void steps_that_took_longer_are_the_evidence(void **state)
{
	struct lw_run *run;

	(void)state;
	make(30e3, 300, 600);
	run = net_run_analyze(2);
	run->network.accounts.at[1].foreign.with_ns *= 1.3;
	advise(run);
	assert_says(said, "steps with much of it took 44.");
	assert_says(said, "with little 34.");
	make(30e3, 0, 1000);
	advise(net_run_analyze(2));
	assert_says(said, "what that cost cannot be told: 25 steps had much of it, 0 little");
}

static void little_of_others_is_not_worth_a_word(void **state)
{
	(void)state;
	make(1e3, 0, 1000);
	assert_string_equal(advise(net_run_analyze(2)), "");
	make(0, 0, 1000);
	assert_string_equal(advise(net_run_analyze(2)), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_on_a_ranks_nic_are_told),
		cmocka_unit_test(who_is_known_is_named),
		cmocka_unit_test(steps_that_took_longer_are_the_evidence),
		cmocka_unit_test(little_of_others_is_not_worth_a_word),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
