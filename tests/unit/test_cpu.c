/* SPDX-License-Identifier: Apache-2.0 */
/* Cores and CPU times: what is read from /proc, from whatever stands there; and rows of a process that works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/cpulist.h"
#include "base/err.h"
#include "base/units.h"
#include "collector/cpu_text.h"
#include "collector/sample.h"
#include "collector/sampler.h"

static void lists_of_cpus_are_counted_and_anything_else_is_none(void **state)
{
	static const char *const bad[] = {"", "-1", "1-", "a", "0-3,", ",0", "3-0", "0,0", "0-3,2",
		"0 1", " 0", "8192", "0-8192", "99999999999999999999", "0-3x", "0--1", "+1"};
	static const struct {
		const char *text;
		int n;
	} good[] = {{"0", 1}, {"0-3,8", 5}, {"0-1\n", 2}, {"5,7,9", 3}, {"0-8191", 8192}};
	struct lw_cpuset set = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (lw_cpulist_add(bad[i], &set))
			fail_msg("'%s' was taken for a list", bad[i]);
	assert_int_equal(lw_cpuset_count(&set), 0); /* half a list adds nothing */
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(lw_cpulist_add(good[i].text, NULL), good[i].n);
	lw_cpulist_add("0-3,8", &set);
	lw_cpulist_add("2-5", &set);
	assert_int_equal(lw_cpuset_count(&set), 7);
}

static void cpu_times_are_found_behind_any_name_of_a_process(void **state)
{
	static const char rest[] = " S 1 2 3 4 5 6 7 8 9 10 777 42 0 0 20 0 5 0 123 4 5\n";
	static const char *const names[] = {
		"python3", "a) S 9 9 9 9 9 9 9 9 9 9 9 9 9", "))", "", " "};
	char text[256];
	uint64_t user = 0, system = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(text, sizeof(text), "12 (%s)%s", names[i], rest);
		assert_true(lw_cpu_parse_stat(text, &user, &system));
		assert_int_equal(user, 777);
		assert_int_equal(system, 42);
	}
	/* cut short anywhere up to the blank behind the system time: nothing */
	snprintf(text, sizeof(text), "12 (x)%s", rest);
	for (size_t n = 0; n <= (size_t)(strstr(text, " 42 ") - text) + 3; n++) {
		char part[256];

		snprintf(part, sizeof(part), "%.*s", (int)n, text);
		if (lw_cpu_parse_stat(part, &user, &system))
			fail_msg("'%s' has both times?", part);
	}
	assert_false(lw_cpu_parse_stat("1 (x) S 1 2 3 4 5 6 7 8 9 10 -7 42 0", &user, &system));
	assert_false(lw_cpu_parse_stat(
		"1 (x) S 1 2 3 4 5 6 7 8 9 10 99999999999999999999999 42 0", &user, &system));
}

static void the_wait_for_a_core_is_known_or_not(void **state)
{
	(void)state;
	assert_int_equal(lw_cpu_parse_schedstat("78307 47039 2\n"), 47039);
	assert_int_equal(lw_cpu_parse_schedstat("78307 0 2\n"), 0);
	assert_int_equal(lw_cpu_parse_schedstat("0 0 0\n"), -1); /* switched off */
	assert_int_equal(lw_cpu_parse_schedstat(""), -1);
	assert_int_equal(lw_cpu_parse_schedstat("78307"), -1);
	assert_int_equal(lw_cpu_parse_schedstat("78307 47039"), -1);
	assert_int_equal(lw_cpu_parse_schedstat("1 -2 3\n"), -1);
	assert_int_equal(lw_cpu_parse_schedstat("1 18446744073709551615 3\n"), -1);
}

static void numbers_and_lists_of_a_status_are_read_whole(void **state)
{
	static const char text[] =
		"Name:\tx\nThreads:\t17\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1,4\n"
		"voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t5\n";
	char list[16], tiny[4], part[sizeof(text)];

	(void)state;
	assert_int_equal(lw_cpu_parse_number(text, "\nvoluntary_ctxt_switches:"), 150);
	assert_int_equal(lw_cpu_parse_number(text, "\nnonvoluntary_ctxt_switches:"), 5);
	assert_int_equal(lw_cpu_parse_number(text, "\nnone:"), -1);
	assert_int_equal(lw_cpu_parse_number("\nThreads:\t-4\n", "\nThreads:"), -1);
	assert_int_equal(lw_cpu_parse_number("\nThreads:\t4", "\nThreads:"), -1); /* cut */
	assert_int_equal(lw_cpu_parse_allowed(text, list, sizeof(list)), 3);
	assert_string_equal(list, "0-1,4");
	assert_int_equal(lw_cpu_parse_allowed(text, tiny, sizeof(tiny)), 0);
	for (size_t n = 0; n < sizeof(text); n++) { /* cut short: all of the list or nothing */
		int n_cpus;

		snprintf(part, sizeof(part), "%.*s", (int)n, text);
		n_cpus = lw_cpu_parse_allowed(part, list, sizeof(list));
		assert_true(n_cpus == 0 || n_cpus == 3);
	}
}

static void quotas_of_groups_are_cores(void **state)
{
	static const char groups[] =
		"9:name=systemd:/\n5:cpuset:/a\n4:cpu,cpuacct:/job/1\n0::/user.slice/x\n";
	char path[64];

	(void)state;
	assert_true(lw_cpu_parse_max("200000 100000\n") > 1.999 &&
		    lw_cpu_parse_max("200000 100000") < 2.001);
	assert_true(lw_cpu_parse_max("50000 100000\n") > 0.499);
	assert_true(lw_cpu_parse_max("max 100000\n") == 0);
	assert_true(lw_cpu_parse_max("-1 100000\n") == 0);
	assert_true(lw_cpu_parse_max("100000 0\n") == 0);
	assert_true(lw_cpu_parse_max("100000") == 0);
	assert_true(lw_cpu_parse_max("18446744073709551615 1") == 0);
	assert_true(lw_cpu_parse_max("") == 0);
	assert_true(lw_cpu_parse_group(groups, "", path, sizeof(path)));
	assert_string_equal(path, "/user.slice/x");
	assert_true(lw_cpu_parse_group(groups, "cpu", path, sizeof(path)));
	assert_string_equal(path, "/job/1");
	assert_true(lw_cpu_parse_group(groups, "cpuacct", path, sizeof(path)));
	assert_false(lw_cpu_parse_group(groups, "memory", path, sizeof(path)));
	assert_false(lw_cpu_parse_group("4:cpu:/a/../../etc\n", "cpu", path, sizeof(path)));
	assert_false(lw_cpu_parse_group("4:cpu:relative\n", "cpu", path, sizeof(path)));
	assert_false(lw_cpu_parse_group("4:cpu:/cut", "cpu", path, sizeof(path)));
	assert_false(lw_cpu_parse_group("4:cpu", "cpu", path, sizeof(path)));
	assert_false(lw_cpu_parse_group("4:cpu:/123456789", "cpu", path, 10));
}

static uint64_t mix(uint64_t *state) /* splitmix64 */
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static void no_text_makes_it_read_what_is_not_there(void **state)
{
	static const char letters[] = "0123456789 ():-,/\n\tcpuS.\x80";
	const char *replay = getenv("LAPWING_SEED");
	uint64_t seed = replay ? strtoull(replay, NULL, 10) : 20261130;
	char text[96], out[32];
	uint64_t user, system;

	(void)state;
	printf("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < 20000; i++) {
		size_t n = mix(&seed) % (sizeof(text) - 1);

		for (size_t k = 0; k < n; k++)
			text[k] = letters[mix(&seed) % (sizeof(letters) - 1)];
		text[n] = '\0';
		lw_cpu_parse_stat(text, &user, &system);
		assert_true(lw_cpu_parse_schedstat(text) >= -1);
		assert_true(lw_cpu_parse_number(text, "\n") >= -1);
		assert_true(lw_cpu_parse_max(text) >= 0);
		assert_true(lw_cpulist_add(text, NULL) >= 0);
		if (lw_cpu_parse_group(text, i % 2 ? "cpu" : "", out, sizeof(out)))
			assert_true(out[0] == '/' && strlen(out) < sizeof(out));
	}
}

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int64_t ask(struct lw_writer *writer, const char *sql)
{
	int64_t value = -1;

	assert_int_equal(lw_store_int(lw_writer_store(writer), sql, &value), LW_OK);
	return value;
}

/* Until there are @n samples of both: on a busy machine one that took too long to read is left out. */
static void sample(struct lw_samplers *samplers, struct lw_writer *writer, int64_t n)
{
	static int64_t now_ns;
	int64_t n_rows = 0;

	if (!now_ns)
		now_ns = lw_clock_ns();
	for (int i = 0; i < 1000 && n_rows < n; i++) {
		lw_samplers_run(samplers, now_ns += LW_SAMPLE_MAX_NS); /* however dear it was */
		assert_int_equal(lw_writer_begin(writer), LW_OK);
		assert_int_equal(lw_samplers_store(samplers), LW_OK);
		assert_int_equal(lw_writer_commit(writer), LW_OK);
		n_rows = ask(writer,
			"SELECT min(sum(thread_id IS NULL AND process_id = 7), sum(thread_id IS 3)) FROM cpu_sample");
	}
	assert_true(n_rows >= n);
}

static void a_process_that_works_gets_rows_that_grow(void **state)
{
	const struct lw_sample_options nothing_else = {0, NULL};
	struct lw_process process = {.pid = (uint32_t)getpid(), .process_id = 7};
	struct lw_ring ring = {.pid = (uint32_t)getpid(),
		.tid = (uint32_t)gettid(),
		.thread_id = 3,
		.process = &process};
	struct lw_ring gone = {.pid = INT32_MAX, .tid = INT32_MAX, .thread_id = 4};
	struct lw_process gone_process = {.pid = INT32_MAX, .process_id = 8};
	struct lw_drain drain = {0};
	struct lw_samplers *samplers;
	struct lw_writer *writer;
	double from_s = seconds(CLOCK_THREAD_CPUTIME_ID);

	(void)state;
	gone.process = &gone_process;
	assert_int_equal(lw_writer_create(":memory:", "test", "", &writer), LW_OK);
	assert_int_equal(lw_samplers_open(&nothing_else, &drain, writer, &samplers), LW_OK);
	assert_int_equal(lw_vec_push(&drain.rings, &ring), LW_OK);
	assert_int_equal(lw_vec_push(&drain.rings, &gone), LW_OK);
	sample(samplers, writer, 1);
	while (seconds(CLOCK_THREAD_CPUTIME_ID) - from_s < 0.1)
		;
	sample(samplers, writer, ask(writer, "SELECT count(*) FROM cpu_sample") + 1);
	lw_samplers_process_ended(samplers, &process);
	lw_samplers_process_ended(samplers, &process);
	assert_int_equal(
		ask(writer, "SELECT count(*) FROM cores WHERE process_id = 7 AND n_allowed > 0"),
		1);
	assert_int_equal(ask(writer, "SELECT count(*) FROM cpu_sample WHERE process_id = 8"), 0);
	/* of 100 ms, in ticks */
	assert_true(ask(writer, "SELECT max(user_ns + system_ns) - min(user_ns + system_ns)"
				" FROM cpu_sample WHERE thread_id = 3") >= 50000000);
	/* no network was wanted, and none was looked at */
	assert_int_equal(ask(writer, "SELECT count(*) FROM device"), 0);
	assert_int_equal(ask(writer, "SELECT count(*) FROM sampler WHERE name = 'cpu'"), 1);
	assert_int_equal(ask(writer, "SELECT count(*) FROM sampler"), 1);
	lw_samplers_close(samplers);
	lw_vec_free(&drain.rings);
	lw_writer_close(writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_cpus_are_counted_and_anything_else_is_none),
		cmocka_unit_test(cpu_times_are_found_behind_any_name_of_a_process),
		cmocka_unit_test(the_wait_for_a_core_is_known_or_not),
		cmocka_unit_test(numbers_and_lists_of_a_status_are_read_whole),
		cmocka_unit_test(quotas_of_groups_are_cores),
		cmocka_unit_test(no_text_makes_it_read_what_is_not_there),
		cmocka_unit_test(a_process_that_works_gets_rows_that_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
