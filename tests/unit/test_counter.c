/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of counters that wrap, begin anew and lie; texts of files that may hold anything. */
#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "collector/counter.h"
#include "collector/sample_ethtool.h"
#include "collector/sample_tcp.h"
#include "collector/tcp_diag.h"

struct step {
	unsigned bits;
	uint64_t before, now;
	bool is_alone;
	enum lw_counter_change change;
	uint64_t delta;
};

static void every_step_is_told(void **state)
{
	static const struct step steps[] = {
		{64, 5, 5, true, LW_COUNTER_SAME, 0},
		{64, 5, 105, true, LW_COUNTER_GREW, 100},
		{64, 0, 1, true, LW_COUNTER_GREW, 1},
		/* the top of 64 and of 32 bits */
		{64, UINT64_MAX - 9, 90, true, LW_COUNTER_WRAPPED, 100},
		{32, UINT32_MAX - 9, 90, true, LW_COUNTER_WRAPPED, 100},
		{32, UINT32_MAX, 0, true, LW_COUNTER_WRAPPED, 1},
		/* a driver keeps 32 bits behind 64 */
		{64, UINT32_MAX - 9, 90, true, LW_COUNTER_WRAPPED, 100},
		/* other counters fell with it: the device began anew */
		{32, UINT32_MAX - 9, 90, false, LW_COUNTER_RESET, 90},
		{64, UINT64_MAX - 9, 90, false, LW_COUNTER_RESET, 90},
		/* far from any top */
		{64, 1000000, 40, true, LW_COUNTER_RESET, 40},
		{64, 1000000, 0, true, LW_COUNTER_RESET, 0},
		{32, 1u << 30, 7, true, LW_COUNTER_RESET, 7},
		/* over the top, but by more than a look can miss */
		{32, 0x80000001u, 0x60000000u, true, LW_COUNTER_RESET, 0x60000000u},
		/* nothing counts that fast: garbage, and back again */
		{64, 5, UINT64_MAX, true, LW_COUNTER_RESET, 0},
		{64, 5, UINT64_C(1) << 60, true, LW_COUNTER_RESET, 0},
		{64, UINT64_C(1) << 60, 6, true, LW_COUNTER_RESET, 6},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		const struct step *step = &steps[i];
		uint64_t delta;

		print_message("step %zu: %u bits, %llu to %llu\n", i, step->bits,
			(unsigned long long)step->before, (unsigned long long)step->now);
		assert_int_equal(lw_counter_step(step->bits, step->before, step->now,
					 step->is_alone, &delta),
			step->change);
		assert_true(delta == step->delta);
	}
}

/* However a counter of 32 bits is read, the store's value is what was counted. */
static void a_wrapping_counter_adds_up(void **state)
{
	struct lw_random random = {20261130};
	uint64_t counted = 0, before = 0, delta;
	int64_t total = 0;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t now;

		counted += lw_random_next(&random) >> (34 + lw_random_below(&random, 30));
		now = counted & UINT32_MAX;
		assert_int_not_equal(
			lw_counter_step(32, before, now, true, &delta), LW_COUNTER_RESET);
		total = lw_counter_add(total, delta, 4);
		before = now;
	}
	print_message("seed 20261130: %llu counted\n", (unsigned long long)counted);
	assert_true(counted > UINT64_C(100) << 32);
	assert_int_equal(total, counted * 4);
}

static void values_stay_in_the_store_s_range(void **state)
{
	(void)state;
	assert_int_equal(lw_counter_first(1000, 4), 4000);
	assert_true(lw_counter_first(UINT64_MAX, 1) >= 0);
	assert_true(lw_counter_first(UINT64_MAX, 4) >= 0);
	assert_int_equal(lw_counter_add(INT64_MAX - 1, 5, 1), INT64_MAX);
	assert_int_equal(lw_counter_add(0, UINT64_MAX, 4), INT64_MAX);
	assert_int_equal(lw_counter_add(7, 5, 4), 27);
}

static void only_numbers_are_numbers(void **state)
{
	static const char *const bad[] = {"", " ", "\n", "-1", "+1", "0x10", "1 2", "1.5", "N/A",
		"18446744073709551616", "99999999999999999999999", "12\n34", "\xff\xfe"};
	uint64_t value = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(lw_sysfs_number(bad[i], strlen(bad[i]), &value), LW_ERR_FORMAT);
	assert_int_equal(lw_sysfs_number("1\0002", 3, &value), LW_ERR_FORMAT);
	assert_int_equal(value, 77);
	assert_int_equal(lw_sysfs_number("18446744073709551615\n", 21, &value), LW_OK);
	assert_true(value == UINT64_MAX);
	assert_int_equal(lw_sysfs_number(" 42 \n", 5, &value), LW_OK);
	assert_int_equal(value, 42);
	assert_int_equal(lw_owner_inode("socket:[4026]"), 4026);
	assert_int_equal(lw_owner_inode("socket:[4026"), 0);
	assert_int_equal(lw_owner_inode("socket:[]"), 0);
	assert_int_equal(lw_owner_inode("/dev/null"), 0);
	assert_int_equal(lw_owner_inode("anon_inode:[eventpoll]"), 0);
}

static void rates_of_ports_are_read(void **state)
{
	int64_t rate = -1;

	(void)state;
	assert_int_equal(lw_sysfs_rate("100 Gb/sec (4X EDR)", 19, &rate), LW_OK);
	assert_int_equal(rate, INT64_C(12500000000));
	assert_int_equal(lw_sysfs_rate("2.5 Gb/sec (1X SDR)", 19, &rate), LW_OK);
	assert_int_equal(rate, 312500000);
	assert_int_equal(lw_sysfs_rate("fast", 4, &rate), LW_ERR_FORMAT);
	assert_int_equal(lw_sysfs_rate("0 Gb/sec", 8, &rate), LW_ERR_FORMAT);
	assert_int_equal(lw_sysfs_rate("100 Gb", 6, &rate), LW_ERR_FORMAT);
}

static void softnet_is_summed_over_cpus(void **state)
{
	static const char two[] = "0df210bc 00000160 00000017 00000000\n"
				  "0d59b50b 00000001 00000011 00000000\n";
	uint32_t sum;

	(void)state;
	assert_int_equal(lw_softnet_sum(two, strlen(two), 0, &sum), LW_OK);
	assert_int_equal(sum, 0x0df210bcu + 0x0d59b50bu);
	assert_int_equal(lw_softnet_sum(two, strlen(two), 1, &sum), LW_OK);
	assert_int_equal(sum, 0x161);
	assert_int_equal(lw_softnet_sum("ffffffff\n00000002\n", 18, 0, &sum), LW_OK);
	assert_int_equal(sum, 1); /* as a counter of 32 bits */
	assert_int_equal(lw_softnet_sum(two, strlen(two), 9, &sum), LW_ERR_FORMAT);
	assert_int_equal(lw_softnet_sum("", 0, 0, &sum), LW_ERR_FORMAT);
	assert_int_equal(lw_softnet_sum("zzz\n", 4, 0, &sum), LW_ERR_FORMAT);
}

static void drivers_names_get_the_store_s(void **state)
{
	static const char *const known[][2] = {{"rx_prio3_pause", "rx_pfc_pause_prio3"},
		{"tx_prio7_pause_duration", "tx_pfc_pause_prio7_ns"},
		{"rx_pfc_ena_frames_pri5", "rx_pfc_pause_prio5"},
		{"tx_priority_2_xoff.nic", "tx_pfc_pause_prio2"},
		{"rx_queue_12_drops", "rx_queue12_dropped"}, {"rx_ecn_mark", "rx_ecn_mark"},
		{"bw_in_allowance_exceeded", "bw_in_allowance_exceeded"}};
	static const char *const unknown[] = {"", "rx_prio_pause", "rx_prio3_paus",
		"rx_prio3_pauses", "xrx_prio3_pause", "rx_queue_9999999999_drops",
		"rx_queue_64_drops", "#", "rx_prio#_pause"};
	char name[48], full[32];

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_true(lw_ethtool_match(
				    known[i][0], strlen(known[i][0]), name, sizeof(name)) >= 0);
		assert_string_equal(name, known[i][1]);
	}
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		assert_int_equal(
			lw_ethtool_match(unknown[i], strlen(unknown[i]), name, sizeof(name)), -1);
	memset(full, 'x', sizeof(full)); /* of full length: not terminated */
	assert_int_equal(lw_ethtool_match(full, sizeof(full), name, sizeof(name)), -1);
}

/* ---- what the kernel says of a connection -------------------------------------------------------------- */

static size_t make_message(char *buffer, uint16_t type, uint8_t family, size_t info_bytes)
{
	struct nlmsghdr *head = (struct nlmsghdr *)buffer;
	struct inet_diag_msg *body = NLMSG_DATA(head);
	struct rtattr *attribute = (struct rtattr *)(body + 1);

	memset(buffer, 0, 1024);
	body->idiag_family = family;
	body->idiag_inode = 99;
	body->id.idiag_sport = 0x0102;
	body->id.idiag_cookie[0] = 7;
	body->id.idiag_cookie[1] = 1;
	attribute->rta_type = INET_DIAG_INFO;
	attribute->rta_len = (unsigned short)RTA_LENGTH(info_bytes);
	for (size_t i = 0; i < info_bytes; i++)
		((unsigned char *)RTA_DATA(attribute))[i] = i % 4 ? 0 : 1;
	head->nlmsg_type = type;
	head->nlmsg_len = (uint32_t)(NLMSG_LENGTH(sizeof(*body)) + RTA_SPACE(info_bytes));
	return head->nlmsg_len;
}

static void an_older_kernel_leaves_columns_unknown(void **state)
{
	_Alignas(8) char buffer[1024];
	struct lw_tcp_seen seen;
	int64_t n_known = -1;

	(void)state;
	for (size_t n = 0; n < 300; n += 4) {
		int64_t n_now = 0;

		make_message(buffer, SOCK_DIAG_BY_FAMILY, 2, n);
		assert_int_equal(lw_tcp_parse((struct nlmsghdr *)buffer, &seen), LW_OK);
		assert_true(seen.cookie == (UINT64_C(1) << 32 | 7) && seen.inode == 99);
#define X(column) n_now += seen.values.column >= 0;
		LW_TCP_COLUMNS(X)
#undef X
		assert_true(n_now >= n_known);
		n_known = n_now;
	}
	assert_int_equal(n_known, 15);
	make_message(buffer, SOCK_DIAG_BY_FAMILY, 2, 72); /* Linux 2.6's ends before bytes_acked */
	assert_int_equal(lw_tcp_parse((struct nlmsghdr *)buffer, &seen), LW_OK);
	assert_true(seen.values.rtt_ns >= 0 && seen.values.acked_bytes == -1);
}

static void a_message_cut_short_is_refused_or_read_within(void **state)
{
	_Alignas(8) char buffer[1024];
	struct lw_tcp_seen seen;
	size_t n = make_message(buffer, SOCK_DIAG_BY_FAMILY, 10, 232);

	(void)state;
	for (size_t cut = sizeof(struct nlmsghdr); cut < n; cut++) {
		((struct nlmsghdr *)buffer)->nlmsg_len = (uint32_t)cut;
		if (lw_tcp_parse((struct nlmsghdr *)buffer, &seen) == LW_OK)
			assert_false(seen.has_values);
	}
	make_message(buffer, SOCK_DIAG_BY_FAMILY, 1, 232); /* AF_UNIX */
	assert_int_equal(lw_tcp_parse((struct nlmsghdr *)buffer, &seen), LW_ERR_FORMAT);
	make_message(buffer, NLMSG_ERROR, 2, 232);
	assert_int_equal(lw_tcp_parse((struct nlmsghdr *)buffer, &seen), LW_ERR_FORMAT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_step_is_told),
		cmocka_unit_test(a_wrapping_counter_adds_up),
		cmocka_unit_test(values_stay_in_the_store_s_range),
		cmocka_unit_test(only_numbers_are_numbers),
		cmocka_unit_test(rates_of_ports_are_read),
		cmocka_unit_test(softnet_is_summed_over_cpus),
		cmocka_unit_test(drivers_names_get_the_store_s),
		cmocka_unit_test(an_older_kernel_leaves_columns_unknown),
		cmocka_unit_test(a_message_cut_short_is_refused_or_read_within),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
