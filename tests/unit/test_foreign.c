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
	net_run_sample_every(5);
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

/* Everything after the beginning of step k of @steps comes later by what @shift says of k. */
static void shift_steps(const char *shift)
{
	static const char *const times[][2] = {{"collective", "start_ns"}, {"collective", "end_ns"},
		{"batch", "start_ns"}, {"batch", "end_ns"}, {"batch_tensor", "at_ns"},
		{"ready", "at_ns"}, {"cycle", "start_ns"}, {"cycle", "end_ns"},
		{"wait", "start_ns"}, {"wait", "end_ns"}};

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		net_run_add("UPDATE %s SET %s = %s + (SELECT %s FROM (SELECT (%s - 10000001) / "
			    "34300000 AS k)) WHERE %s > 10000001;",
			times[i][0], times[i][1], times[i][1], shift, times[i][1], times[i][1]);
}

static void steps_that_took_longer_are_the_evidence(void **state)
{
	(void)state;
	/* steps 8 to 15 take 15 ms more, while others send */
	make(30e3, 284, 679);
	shift_steps("15000000 * min(8, max(0, k - 7))");
	advise(net_run_analyze(2));
	assert_says(said, "8 steps with much of it took 49.3 ms, 16 with little 34.3 ms (medians)");
	make(30e3, 0, 1000);
	advise(net_run_analyze(2));
	assert_says(said, "what that cost cannot be told: 25 steps had much of it, 0 little");
}

enum { LAST_UNEVEN_MS = 2900, STEP_BYTES = 2000000 };

/* What the job has sent by @ms: 2 MB at the end of each step, of which every second computes @more_ms longer. */
static double uneven_bytes(double ms, double more_ms)
{
	double bytes = 0;

	for (int k = 0; k < 26; k++) {
		double end_ms = 10 + (k + 1) * 34.3 + more_ms * ((k + 1) / 2), part;

		part = (ms - (end_ms - 24)) / 23;
		bytes += STEP_BYTES * (part < 0 ? 0 : part > 1 ? 1 : part);
	}
	return bytes;
}

static void make_uneven(double more_ms, double others_per_ms, int every_ms, int nic_every_ms)
{
	char shift[64];

	net_run_begin(2);
	for (int r = 0; r < 2; r++) {
		net_run_add(
			"INSERT INTO socket VALUES(%d, %d, %d, 0, '10.0.0.%d', %d, '10.0.0.%d', %d);"
			"INSERT INTO tcp_connection VALUES(%d, 1, %d, %d, 1, '10.0.0.%d', %d, '10.0.0.%d', %d, %d, 0, 2900000000, 1);",
			r + 1, r + 1, r + 1, r + 1, r ? 5000 : 40000, 2 - r, r ? 40000 : 5000,
			r + 1, r + 1, r + 1, r + 1, r ? 5000 : 40000, 2 - r, r ? 40000 : 5000,
			r + 1);
		for (int ms = 0; ms <= LAST_UNEVEN_MS; ms += every_ms) {
			double sent = uneven_bytes(ms, more_ms);

			net_run_add(
				"INSERT INTO tcp_info_sample VALUES(%d, %d000000, 200000, 100000, %.0f, %.0f, %.0f, 0, 0, %.0f, %.0f, 0, 0, 0, 0, 10, 0);",
				r + 1, ms, sent, sent, sent, sent / 1448, sent / 1448);
			net_run_add(
				"INSERT INTO socket_sample VALUES(%d, %d, %d000000, 1, %.0f, %.0f, 1, 1);",
				r + 1, r + 1, ms, sent, sent);
		}
		for (int ms = 0; ms <= LAST_UNEVEN_MS; ms += nic_every_ms) {
			double in = uneven_bytes(ms, more_ms) * (1 + 66.0 / 1448);
			double out = in + (r ? 0 : others_per_ms * ms);

			net_run_add(
				"INSERT INTO counter_sample VALUES(%d, 1, %d000000, %.0f), (%d, 2, %d000000, %.0f), (%d, 3, %d000000, %.0f), (%d, 4, %d000000, %.0f);",
				r + 1, ms, out, r + 1, ms, in, r + 1, ms, out / 1514, r + 1, ms,
				in / 1514);
		}
	}
	snprintf(shift, sizeof(shift), "%.0f * ((k + 1) / 2)", more_ms * 1e6);
	shift_steps(shift);
}

/* Long steps get more of what a counter that is read every 100 ms is taken to have moved meanwhile. */
static void steps_shorter_than_some_readings_are_not_compared(void **state)
{
	(void)state;
	make_uneven(30, 10e3, 5, 100);
	advise(net_run_analyze(2));
	assert_says(said, "of what eth0 (rank 0, 10.0.0.1 on node1) sent during the steps");
	assert_says(said, "what moved was read every 100 ms, and steps are too short for that");
	assert_null(strstr(said, "took"));
}

/* In them even others have a larger part of the bytes. */
static void steps_that_are_long_by_themselves_are_not_those_of_others(void **state)
{
	(void)state;
	make_uneven(150, 5e3, 5, 5);
	advise(net_run_analyze(2));
	assert_says(said, "what that cost cannot be told: 0 steps had much of it, 0 little");
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
		cmocka_unit_test(steps_shorter_than_some_readings_are_not_compared),
		cmocka_unit_test(steps_that_are_long_by_themselves_are_not_those_of_others),
		cmocka_unit_test(little_of_others_is_not_worth_a_word),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
