/* SPDX-License-Identifier: Apache-2.0 */
/* The samplers over a tree of files that looks like sysfs: devices that lie, go, come back and change names. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/units.h"
#include "collector/sample.h"
#include "collector/sampler.h"

/* So long that no look can be too dear: the time is this file's. */
#define PERIOD_NS (60 * LW_NS_PER_S)

static char root[64];
static const struct lw_drain drain; /* no rings */
static struct lw_writer *writer;
static struct lw_samplers *samplers;
static int64_t now_ns;

static void put_bytes(const char *path, const void *bytes, size_t n)
{
	char whole[256];
	int fd;

	snprintf(whole, sizeof(whole), "%s/%s", root, path);
	for (char *at = whole + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(whole, 0755);
		*at = '/';
	}
	fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

static void put(const char *path, const char *text)
{
	put_bytes(path, text, strlen(text));
}

static void put_number(const char *path, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)value);
	put(path, text);
}

/* @command, in the tree's root. */
static void shell(const char *command)
{
	char whole[300];

	snprintf(whole, sizeof(whole), "cd %s && %s", root, command);
	assert_int_equal(system(whole), 0);
}

static int setup(void **state)
{
	const struct lw_sample_options options = {PERIOD_NS, root};

	(void)state;
	strcpy(root, "/tmp/lapwing-sysfs-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	put("class/net/nic0/ifindex", "7\n");
	put("class/net/nic0/mtu", "9000\n");
	put("class/net/nic0/speed", "25000\n");
	put_number("class/net/nic0/statistics/rx_bytes", 1000);
	put_number("class/net/nic0/statistics/tx_bytes", 2000);
	assert_int_equal(lw_writer_create(":memory:", "test", "", &writer), LW_OK);
	assert_int_equal(lw_samplers_open(&options, &drain, writer, &samplers), LW_OK);
	now_ns = lw_clock_ns();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	lw_samplers_close(samplers);
	lw_writer_close(writer);
	shell("rm -rf \"$PWD\"");
	return 0;
}

/* @n_periods later. */
static void look(int n_periods)
{
	for (int i = 0; i < n_periods; i++)
		lw_samplers_run(samplers, now_ns += PERIOD_NS);
}

static void store(void)
{
	assert_int_equal(lw_writer_begin(writer), LW_OK);
	assert_int_equal(lw_samplers_store(samplers), LW_OK);
	assert_int_equal(lw_writer_commit(writer), LW_OK);
}

static int64_t ask(const char *sql)
{
	int64_t value = -1;

	assert_int_equal(lw_store_int(lw_writer_store(writer), sql, &value), LW_OK);
	return value;
}

#define OF(device, counter)                                                                        \
	" FROM counter_sample x JOIN device d ON d.id = x.device_id JOIN counter c"                \
	" ON c.id = x.counter_id WHERE d.name = '" device "' AND c.name = '" counter "'"

static void a_row_comes_only_where_a_value_changed(void **state)
{
	(void)state;
	look(5);
	put_number("class/net/nic0/statistics/rx_bytes", 1500);
	look(5);
	store();
	/* first, last before the change, change */
	assert_int_equal(ask("SELECT count(*)" OF("nic0", "rx_bytes")), 3);
	assert_int_equal(ask("SELECT max(value) - min(value)" OF("nic0", "rx_bytes")), 500);
	assert_int_equal(ask("SELECT count(DISTINCT at_ns)" OF("nic0", "rx_bytes")), 3);
	assert_int_equal(ask("SELECT count(*)" OF("nic0", "tx_bytes")), 1);
	assert_int_equal(lw_writer_begin(writer), LW_OK);
	assert_int_equal(lw_samplers_finish(samplers, now_ns), LW_OK);
	assert_int_equal(lw_writer_commit(writer), LW_OK);
	assert_int_equal(ask("SELECT count(*)" OF("nic0", "rx_bytes")), 4);
	assert_int_equal(ask("SELECT count(*)" OF("nic0", "tx_bytes")), 2);
	assert_int_equal(
		ask("SELECT speed_bytes_per_s FROM device WHERE name = 'nic0'"), 3125000000);
	assert_int_equal(ask("SELECT mtu_bytes FROM device WHERE name = 'nic0'"), 9000);
	assert_int_equal(ask("SELECT count(*) FROM loss"), 0);
}

static void wraps_go_on_upwards_and_resets_are_told(void **state)
{
	(void)state;
	put_number("class/net/nic0/statistics/rx_bytes", UINT32_MAX - 99);
	look(2);
	put_number("class/net/nic0/statistics/rx_bytes", 400);
	look(2);
	store();
	assert_int_equal(ask("SELECT max(value) - min(value)" OF("nic0", "rx_bytes")), 500);
	assert_int_equal(ask("SELECT count(*) FROM counter_break WHERE kind = 'wrap'"), 1);
	/* the driver is loaded anew: all of them fall */
	put_number("class/net/nic0/statistics/rx_bytes", 20);
	put_number("class/net/nic0/statistics/tx_bytes", 10);
	look(2);
	store();
	assert_int_equal(ask("SELECT max(value) - min(value)" OF("nic0", "rx_bytes")), 520);
	assert_int_equal(ask("SELECT max(value) - min(value)" OF("nic0", "tx_bytes")), 10);
	assert_int_equal(ask("SELECT count(*) FROM counter_break WHERE kind = 'reset'"), 2);
}

static void words_of_infiniband_are_bytes(void **state)
{
	(void)state;
	put_number("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", 1000);
	put_number("class/infiniband/mlx5_0/ports/1/counters/port_xmit_packets", 10);
	put_number("class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", 0);
	put("class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
	put("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "nic0\n");
	put_number("class/infiniband/rxe0/ports/1/hw_counters/sent_pkts", 5); /* has no counters/ */
	look(1);
	put_number("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", 1250);
	put_number("class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", 3);
	put_number("class/infiniband/rxe0/ports/1/hw_counters/sent_pkts", 9);
	look(1);
	store();
	assert_int_equal(ask("SELECT min(value)" OF("mlx5_0/1", "tx_bytes")), 4000);
	assert_int_equal(ask("SELECT max(value)" OF("mlx5_0/1", "tx_bytes")), 5000);
	assert_int_equal(ask("SELECT max(value)" OF("mlx5_0/1", "out_of_sequence")), 3);
	assert_int_equal(ask("SELECT max(value)" OF("rxe0/1", "tx_packets")), 9);
	assert_int_equal(
		ask("SELECT count(*) FROM device WHERE kind = 'rdma_port' AND on_name = 'nic0'"
		    " AND speed_bytes_per_s = 12500000000"),
		1);
	assert_int_equal(ask("SELECT count(*) FROM loss"), 0);
}

static void files_that_hold_no_number_are_losses(void **state)
{
	static char huge[1 << 16];
	const unsigned char binary[] = {0xff, 0, 0x80, 10, 0};

	(void)state;
	memset(huge, '7', sizeof(huge));
	put("class/net/nic0/statistics/rx_errors", "garbage\n");
	put("class/net/nic0/statistics/tx_errors", "");
	put_bytes("class/net/nic0/statistics/rx_dropped", huge, sizeof(huge));
	put_bytes("class/net/nic0/statistics/tx_dropped", binary, sizeof(binary));
	shell("mkdir class/net/nic0/statistics/rx_crc_errors");
	shell("mkfifo class/net/nic0/statistics/rx_packets");
	shell("ln -s /dev/zero class/net/nic0/statistics/tx_packets");
	look(3);
	store();
	assert_int_equal(ask("SELECT count(*) FROM loss"), 7);
	assert_int_equal(ask("SELECT min(n) = 3 AND max(n) = 3 FROM loss"), 1);
	assert_int_equal(ask("SELECT n_failed FROM sampler WHERE name = 'nic'"), 21);
	assert_int_equal(ask("SELECT count(*)" OF("nic0", "rx_bytes")), 1); /* the others go on */
}

static void a_device_that_goes_and_comes_back_is_two(void **state)
{
	(void)state;
	look(2);
	shell("mv class/net/nic0 away");
	look(2);
	store();
	assert_int_equal(
		ask("SELECT count(*) FROM device WHERE name = 'nic0' AND gone_ns IS NOT NULL"), 1);
	assert_int_equal(ask("SELECT count(*)" OF("nic0", "tx_bytes")), 2); /* first and last */
	shell("mv away class/net/nic0");
	put_number("class/net/nic0/statistics/tx_bytes", 3);
	look(2);
	store();
	assert_int_equal(ask("SELECT count(*) FROM device WHERE name = 'nic0'"), 2);
	assert_int_equal(
		ask("SELECT count(*) FROM device WHERE name = 'nic0' AND gone_ns IS NULL"), 1);
	assert_int_equal(ask("SELECT count(*) FROM counter_break"), 0);
}

static void a_renamed_device_is_another_from_then_on(void **state)
{
	(void)state;
	look(2);
	shell("mv class/net/nic0 class/net/fast0");
	put_number("class/net/fast0/statistics/rx_bytes", 1800);
	look(2);
	store();
	assert_int_equal(
		ask("SELECT count(*) FROM device WHERE name = 'nic0' AND gone_ns IS NOT NULL"), 1);
	assert_int_equal(
		ask("SELECT count(*) FROM device WHERE name = 'fast0' AND gone_ns IS NULL"), 1);
	assert_int_equal(ask("SELECT max(value)" OF("fast0", "rx_bytes")), 1800);
	assert_int_equal(ask("SELECT max(value)" OF("nic0", "rx_bytes")), 1000);
}

static void hundreds_of_devices_are_bounded_and_told(void **state)
{
	char path[64];

	(void)state;
	for (int i = 0; i < 400; i++) {
		snprintf(path, sizeof(path), "class/net/v%d/statistics/rx_bytes", i);
		put_number(path, 5);
		snprintf(path, sizeof(path), "class/net/v%d/ifindex", i);
		put_number(path, 100 + (uint64_t)i);
	}
	put_number("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", 1000);
	look(10);
	store();
	assert_int_equal(ask("SELECT count(*) FROM device WHERE kind = 'nic'"), LW_DEVICES_MAX);
	assert_int_equal(ask("SELECT count(*) FROM loss"), 1);
	assert_int_equal(ask("SELECT n FROM loss WHERE detail LIKE '%256 network interfaces%'"),
		10); /* listings */
	/* they do not crowd out what there is few of */
	assert_int_equal(ask("SELECT count(*) FROM device WHERE kind = 'rdma_port'"), 1);
	assert_int_equal(ask("SELECT count(*) FROM device WHERE kind = 'softnet'"), 1);
}

static void folders_without_a_number_are_told_apart_by_their_names(void **state)
{
	(void)state;
	put_number("class/net/one/statistics/rx_bytes", 1);
	put_number("class/net/two/statistics/rx_bytes", 2);
	look(50);
	store();
	assert_int_equal(ask("SELECT count(*) FROM device WHERE kind = 'nic'"), 3);
	assert_int_equal(ask("SELECT count(*) FROM device WHERE gone_ns IS NOT NULL"), 0);
}

static void counters_that_a_port_does_not_have_are_no_loss(void **state)
{
	(void)state;
	put("class/infiniband/mlx4_0/ports/1/counters/port_xmit_data", "N/A (no PMA)\n");
	put_number("class/infiniband/mlx4_0/ports/1/counters/port_rcv_data", 3);
	look(30);
	store();
	assert_int_equal(ask("SELECT max(value)" OF("mlx4_0/1", "rx_bytes")), 12);
	assert_int_equal(ask("SELECT count(*) FROM loss"), 0);
}

static void ports_that_cannot_be_listed_are_told(void **state)
{
	(void)state;
	put("class/infiniband", "no folder\n");
	look(1);
	store();
	assert_int_equal(
		ask("SELECT count(*) FROM loss WHERE detail LIKE 'class/infiniband: %'"), 1);
	shell("rm class/infiniband");
	put("class/infiniband/mlx5_0/ports", "no folder\n");
	look(10);
	store();
	assert_int_equal(
		ask("SELECT count(*) FROM loss WHERE detail LIKE 'class/infiniband/mlx5_0/ports: %'"),
		1);
}

static void a_cpu_that_rests_takes_nothing_from_the_sum(void **state)
{
	const struct lw_counter counter = {
		"dropped", "softnet_dropped_here", "packets", 32, 1, false};
	const uint64_t sums[] = {1000, 1010, 400, 400, 1010, 1020}; /* one of two CPUs offline */
	struct lw_device *device;

	(void)state;
	device = lw_device_find(samplers, LW_DEVICE_SOFTNET, 0, 0, "here");
	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
		lw_device_read(samplers, device, &counter, sums[i]);
		lw_device_commit(samplers, device, now_ns += PERIOD_NS);
	}
	store();
	assert_int_equal(
		ask("SELECT max(value) - min(value)" OF("here", "softnet_dropped_here")), 20);
	assert_int_equal(ask("SELECT count(*) FROM counter_break"), 0);
}

static void the_same_long_trouble_is_one_row(void **state)
{
	char text[300];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 5; i++)
		lw_readings_add_trouble(samplers->rows, text);
	for (int i = 0; i < 2 * LW_TROUBLES_MAX; i++) {
		snprintf(text, sizeof(text), "number %d", i);
		lw_readings_add_trouble(samplers->rows, text);
	}
	store();
	assert_int_equal(ask("SELECT max(n) FROM loss WHERE detail LIKE 'xxx%'"), 5);
	assert_int_equal(ask("SELECT count(*) FROM loss"), LW_TROUBLES_MAX);
	assert_int_equal(ask("SELECT sum(n) FROM loss"), 5 + 2 * LW_TROUBLES_MAX);
}

static void a_successor_goes_on_with_other_devices(void **state)
{
	const struct lw_sample_options options = {PERIOD_NS, root};

	(void)state;
	look(2);
	store();
	look(1);
	store();
	assert_int_equal(ask("SELECT n_samples FROM sampler WHERE name = 'nic'"), 3);
	lw_samplers_close(samplers); /* killed: no last rows */
	put_number("class/net/nic0/statistics/rx_bytes", 30);
	assert_int_equal(lw_samplers_open(&options, &drain, writer, &samplers), LW_OK);
	now_ns = lw_clock_ns();
	look(2);
	store();
	assert_int_equal(ask("SELECT count(*) FROM device WHERE name = 'nic0'"), 2);
	assert_int_equal(
		ask("SELECT count(*) FROM device WHERE name = 'nic0' AND gone_ns IS NULL"), 1);
	assert_int_equal(ask("SELECT count(DISTINCT c.id)" OF("nic0", "rx_bytes")), 1);
	assert_int_equal(ask("SELECT count(*) FROM counter_break"), 0);
	/* what the one before it counted stays */
	assert_int_equal(ask("SELECT n_samples FROM sampler WHERE name = 'nic'"), 5);
}

static void no_root_at_all_is_told(void **state)
{
	(void)state;
	shell("rm -r class");
	look(2);
	store();
	assert_int_equal(ask("SELECT count(*) FROM loss WHERE detail LIKE '%class/net%'"), 1);
}

static void periods_are_checked(void **state)
{
	static const char *const bad[] = {"", "x", "-1", "0.5", "60001", "1e9", "nan", "100ms"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(lw_sample_period_ns(bad[i]), -1);
	assert_int_equal(lw_sample_period_ns("0"), 0);
	assert_int_equal(lw_sample_period_ns("12.5"), 12500000);
	assert_int_equal(lw_sample_period_ns("60000"), LW_SAMPLE_MAX_NS);
}

int main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		ONE(a_row_comes_only_where_a_value_changed),
		ONE(wraps_go_on_upwards_and_resets_are_told),
		ONE(words_of_infiniband_are_bytes),
		ONE(files_that_hold_no_number_are_losses),
		ONE(a_device_that_goes_and_comes_back_is_two),
		ONE(a_renamed_device_is_another_from_then_on),
		ONE(hundreds_of_devices_are_bounded_and_told),
		ONE(folders_without_a_number_are_told_apart_by_their_names),
		ONE(counters_that_a_port_does_not_have_are_no_loss),
		ONE(ports_that_cannot_be_listed_are_told),
		ONE(a_cpu_that_rests_takes_nothing_from_the_sum),
		ONE(the_same_long_trouble_is_one_row),
		ONE(a_successor_goes_on_with_other_devices),
		ONE(no_root_at_all_is_told),
		cmocka_unit_test(periods_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
