/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler of GPUs over a double of libnvidia-ml.so.1: counters, gauges, reasons, old drivers, lost and hanging GPUs. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/units.h"
#include "collector/nvml.h"
#include "collector/sampler.h"
#include "tests/lib/fake_nvml.h"

static const struct lw_drain drain; /* no rings */
static struct lw_writer *writer;
static struct lw_samplers *samplers;
static struct fake_nvml *fake;

static int setup(void **state)
{
	const struct lw_sample_options options = {60 * LW_NS_PER_S, "/nowhere"};
	void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY);
	struct fake_nvml *(*get)(void) =
		library ? (struct fake_nvml * (*)(void))(uintptr_t)dlsym(library, "fake_nvml_state")
			: NULL;

	(void)state;
	assert_non_null(get);
	fake = get();
	memset(fake, 0, sizeof(*fake));
	fake->n_gpus = 2;
	for (int i = 0; i < 2; i++) {
		fake->gpus[i].busy_percent = 50;
		fake->gpus[i].clock_mhz = 1980;
		fake->gpus[i].used_bytes = 1000;
	}
	assert_int_equal(lw_writer_create(":memory:", "test", "", &writer), LW_OK);
	assert_int_equal(lw_samplers_open(&options, &drain, writer, &samplers), LW_OK);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake->hang_s = 0;
	lw_samplers_close(samplers);
	lw_writer_close(writer);
	return 0;
}

/* Takes the look that is whole, and waits for the next one: it is there when the next take() comes. */
static void take(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	samplers->now_ns = lw_clock_ns();
	lw_sample_nvml(samplers);
	for (int i = 0; i < 5000 && lw_nvml_busy_ns(samplers->nvml); i++)
		nanosleep(&pause, NULL);
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

/* @what over the values of @counter of GPU @number. */
static int64_t of(const char *what, const char *counter, int number)
{
	char sql[400];

	snprintf(sql, sizeof(sql),
		"SELECT coalesce(%s, -1) FROM counter_sample x JOIN device d ON d.id = x.device_id"
		" JOIN counter c ON c.id = x.counter_id WHERE c.name = '%s' AND d.number = %d",
		what, counter, number);
	return ask(sql);
}

static void gpus_are_devices_and_their_counters_grow(void **state)
{
	(void)state;
	fake->gpus[1].nvlink_tx_kib = 7;
	take();
	fake->gpus[1].nvlink_tx_kib = 10;
	fake->gpus[1].pcie_rx_bytes = 300;
	take();
	take();
	store();
	assert_int_equal(
		ask("SELECT count(*) FROM device WHERE kind = 'gpu' AND name = 'Fake GPU'"), 2);
	assert_int_equal(ask("SELECT count(*) FROM device WHERE on_name = '0000:3c:00.0'"), 1);
	assert_int_equal(of("max(value) - min(value)", "nvlink_tx_bytes", 1), 3 * 1024);
	assert_int_equal(of("max(value) - min(value)", "pcie_rx_bytes", 1), 300);
	assert_int_equal(of("max(value) - min(value)", "nvlink_tx_bytes", 0), 0);
	assert_int_equal(ask("SELECT count(*) FROM loss"), 0);
	assert_int_equal(ask("SELECT sum(n_failed) FROM sampler WHERE name = 'nvml'"), 0);
}

static void gauges_fall_without_a_break(void **state)
{
	(void)state;
	take();
	fake->gpus[0].busy_percent = 10;
	fake->gpus[0].clock_mhz = 1200;
	fake->gpus[0].used_bytes = 400;
	take();
	take();
	store();
	assert_int_equal(of("max(value)", "gpu_busy_ppm", 0), 500000);
	assert_int_equal(of("min(value)", "gpu_busy_ppm", 0), 100000);
	assert_int_equal(of("min(value)", "sm_clock_khz", 0), 1200000);
	assert_int_equal(of("min(value)", "gpu_memory_used_bytes", 0), 400);
	assert_int_equal(ask("SELECT count(*) FROM counter_break"), 0);
	assert_int_equal(ask("SELECT is_gauge FROM counter WHERE name = 'sm_clock_khz'"), 1);
	assert_int_equal(ask("SELECT is_gauge FROM counter WHERE name = 'energy_mj'"), 0);
}

/* PCIe bytes are counted in 32 bits: over their top while a gauge falls is no reset. */
static void a_gauge_that_falls_does_not_make_a_wrap_a_reset(void **state)
{
	(void)state;
	fake->gpus[0].pcie_tx_bytes = UINT32_MAX - 5;
	take();
	fake->gpus[0].pcie_tx_bytes = 5;
	fake->gpus[0].busy_percent = 10;
	take();
	take();
	store();
	assert_int_equal(of("max(value) - min(value)", "pcie_tx_bytes", 0), 11);
	assert_int_equal(ask("SELECT count(*) FROM counter_break WHERE kind = 'wrap'"), 1);
}

static void reasons_are_the_time_that_they_were_seen(void **state)
{
	const struct timespec pause = {.tv_nsec = 20000000};

	(void)state;
	fake->gpus[0].reasons = 0x4 | 0x1; /* power; idle is no reason to tell of */
	take();
	nanosleep(&pause, NULL);
	take();
	nanosleep(&pause, NULL);
	take();
	take();
	store();
	assert_in_range(
		of("max(value) - min(value)", "clocks_sw_power_ns", 0), 20000000, 5 * LW_NS_PER_S);
	assert_int_equal(of("max(value)", "clocks_hw_thermal_ns", 0), 0);
	assert_int_equal(of("max(value)", "clocks_sw_power_ns", 1), 0);
}

static void an_old_driver_has_what_it_has(void **state)
{
	(void)state;
	fake->is_old = 1;
	fake->gpus[0].nvlink_rx_kib = 4;
	take();
	fake->gpus[0].nvlink_rx_kib = 8;
	take();
	take();
	store();
	assert_int_equal(of("max(value) - min(value)", "nvlink_rx_bytes", 0), 4 * 1024);
	assert_int_equal(of("count(*)", "pcie_tx_bytes", 0), 0);
	assert_int_equal(of("count(*)", "energy_mj", 0), 0);
	assert_int_equal(ask("SELECT count(*) FROM loss"), 0);
}

static void what_is_not_there_is_not_asked_again(void **state)
{
	unsigned long after_first, per_look_later;

	(void)state;
	fake->is_old = 1;
	take();
	take();
	after_first = fake->n_calls;
	take();
	take();
	per_look_later = (fake->n_calls - after_first) / 2;
	/* five functions and two fields that answer; the first look asked for five more */
	assert_in_range(per_look_later, 1, 2 * 11);
}

static void a_lost_gpu_ends_and_is_said_once(void **state)
{
	(void)state;
	take();
	fake->gpus[1].is_lost = 1;
	for (int i = 0; i < 5; i++)
		take();
	store();
	assert_int_equal(ask("SELECT count(*) FROM loss"), 1);
	assert_int_equal(ask("SELECT sum(n) FROM loss"), 1);
	assert_int_equal(
		ask("SELECT count(*) FROM loss WHERE detail LIKE 'GPU 0000:3c:00.0%lost'"), 1);
	assert_int_equal(
		ask("SELECT count(*) FROM device WHERE gone_ns IS NOT NULL AND number = 1"), 1);
	assert_int_equal(
		ask("SELECT count(*) FROM device WHERE gone_ns IS NULL AND number = 0"), 1);
}

static void no_driver_is_said_once(void **state)
{
	(void)state;
	fake->init_result = 9;
	for (int i = 0; i < 5; i++)
		take();
	store();
	assert_int_equal(ask("SELECT count(*) FROM device"), 0);
	assert_int_equal(ask("SELECT sum(n) FROM loss"), 1);
	assert_int_equal(
		ask("SELECT count(*) FROM loss WHERE detail LIKE '%Driver Not Loaded'"), 1);
}

static void a_hanging_gpu_does_not_hold_the_collector_up(void **state)
{
	const struct timespec pause = {.tv_nsec = 50000000}; /* for the thread to be in there */
	int64_t start_ns = lw_clock_ns();

	(void)state;
	fake->hang_s = 3;
	samplers->now_ns = start_ns;
	for (int i = 0; i < 3; i++) {
		lw_sample_nvml(samplers);
		nanosleep(&pause, NULL);
	}
	assert_true(lw_nvml_busy_ns(samplers->nvml) > 0);
	assert_true(lw_clock_ns() - start_ns < LW_NS_PER_S);
	assert_int_equal(samplers->devices.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			gpus_are_devices_and_their_counters_grow, setup, teardown),
		cmocka_unit_test_setup_teardown(gauges_fall_without_a_break, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_gauge_that_falls_does_not_make_a_wrap_a_reset, setup, teardown),
		cmocka_unit_test_setup_teardown(
			reasons_are_the_time_that_they_were_seen, setup, teardown),
		cmocka_unit_test_setup_teardown(an_old_driver_has_what_it_has, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_not_there_is_not_asked_again, setup, teardown),
		cmocka_unit_test_setup_teardown(a_lost_gpu_ends_and_is_said_once, setup, teardown),
		cmocka_unit_test_setup_teardown(no_driver_is_said_once, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_hanging_gpu_does_not_hold_the_collector_up, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
