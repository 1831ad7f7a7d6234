/* SPDX-License-Identifier: Apache-2.0 */
/* The bookkeeping of Horovod's background thread, with the rest of the tracer stubbed out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tracer/cupti.h"
#include "tracer/hook_horovod.h"

static struct lw_event told[64];
static uint32_t n_told;
static bool is_hooked;
static uint32_t live = 1;

const volatile uint32_t *lw_live = &live;
_Atomic bool lw_cupti_is_attached;
struct lw_hvd_extension lw_hvd_extensions[LW_HVD_MAX_EXTENSIONS];
_Atomic uint32_t lw_hvd_n_extensions = 1;

void lw_record(const struct lw_event *event)
{
	assert_true(n_told < 64);
	told[n_told++] = *event;
}

void lw_cupti_pop(enum lw_launch_for made_for)
{
	(void)made_for;
}

bool lw_horovod_is_hooked(void)
{
	return is_hooked;
}

bool lw_activate(enum lw_framework framework, enum lw_transport transport)
{
	(void)framework;
	(void)transport;
	return true;
}

void lw_place_confirmed(int32_t rank, int32_t size)
{
	(void)rank;
	(void)size;
}

void lw_thread_role(enum lw_thread_role role)
{
	(void)role;
}

void lw_hook_report(
	const char *name, enum lw_hook_status status, uint32_t n_slots, const char *detail)
{
	(void)name;
	(void)status;
	(void)n_slots;
	(void)detail;
}

uint32_t lw_hvd_slots_in_place(const struct lw_hvd_extension *extension, enum lw_hvd_group group)
{
	(void)extension;
	(void)group;
	return 0;
}

void lw_hvd_settings_start(struct lw_hvd_extension *extension)
{
	(void)extension;
}

void lw_hvd_settings_check(struct lw_hvd_extension *extension, void *controller)
{
	(void)extension;
	(void)controller;
}

void lw_hvd_wait_ends(void)
{
}

void lw_hvd_probe_ask(
	const struct lw_hvd_slot *slot, void *controller, const struct lw_hvd_vector *words)
{
	(void)slot;
	(void)controller;
	(void)words;
}

void lw_hvd_probe_answer(const struct lw_hvd_vector *words)
{
	(void)words;
}

void lw_hvd_probe_at_responses(void *controller, const void *list)
{
	(void)controller;
	(void)list;
}

void lw_hvd_probe_thread_ends(void)
{
}

static int start_anew(void **state)
{
	(void)state;
	lw_horovod_flush();
	n_told = 0;
	is_hooked = false;
	return 0;
}

static void rounds_seen_on_the_wire_are_told_when_they_change(void **state)
{
	(void)state;
	lw_horovod_band(0x1f, 7, 1, 100, 110);
	lw_horovod_band(0x1f, 7, 1, 200, 230);
	lw_horovod_band(0x1f, 7, 1, 300, 305);
	lw_horovod_band(0x1f, 0x1f, 1, 400, 410);
	assert_int_equal(n_told, 2);
	assert_int_equal(told[0].cycle.n_unchanged, 0);
	assert_int_equal(told[1].cycle.out_bits, 0x1f);
	assert_int_equal(told[1].cycle.n_unchanged, 2);
	assert_int_equal(told[1].cycle.unchanged_ns, 35);
	assert_int_equal(told[1].cycle.unchanged_span_ns, 105);
}

static void rounds_that_agree_on_work_are_told_each(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		lw_horovod_band(0x1f, 0x1f, 1, 100 * i, 100 * i + 10);
	assert_int_equal(n_told, 3);
}

static void a_second_of_silence_is_broken(void **state)
{
	const int64_t second_ns = 1000000000;

	(void)state;
	for (int64_t at_ns = 0; at_ns <= 5 * second_ns; at_ns += second_ns / 10)
		lw_horovod_band(7, 7, 1, at_ns, at_ns + 10);
	assert_in_range(n_told, 5, 6);
}

static void the_flush_tells_the_counted_rounds(void **state)
{
	(void)state;
	lw_horovod_band(0xf, 7, 1, 100, 110);
	for (int i = 2; i < 6; i++)
		lw_horovod_band(0xf, 7, 1, 100 * i, 100 * i + 10);
	lw_horovod_flush();
	assert_int_equal(n_told, 2);
	assert_int_equal(told[1].t0_ns, 500);
	assert_int_equal(told[1].cycle.n_unchanged, 3);
	assert_int_equal(told[1].cycle.unchanged_ns, 30);
	lw_horovod_flush();
	assert_int_equal(n_told, 2);
}

static void a_hooked_horovod_is_not_told_twice(void **state)
{
	(void)state;
	is_hooked = true;
	lw_horovod_band(0xff, 7, 1, 100, 110);
	assert_int_equal(n_told, 0);
}

static const struct lw_event batch = {.kind = LW_EV_BATCH, .op = LW_COLL_ALLREDUCE, .t0_ns = 1},
			     wire = {.kind = LW_EV_COLLECTIVE, .op = LW_COLL_ALLREDUCE, .t0_ns = 2};

static void what_an_exception_left_is_told_as_failed_innermost_first(void **state)
{
	(void)state;
	lw_hvd_open(LW_HVD_OPEN_BATCH, &batch, 1000);
	lw_hvd_open(LW_HVD_OPEN_WIRE, &wire, 900);
	lw_hvd_close_thrown(1000);
	assert_int_equal(n_told, 2);
	assert_int_equal(told[0].kind, LW_EV_COLLECTIVE);
	assert_int_equal(told[0].collective.flags, LW_COLL_FAILED);
	assert_int_equal(told[1].batch.flags, LW_COLL_FAILED);
	assert_true(told[0].t1_ns <= told[1].t1_ns);
	lw_hvd_close_thrown(UINTPTR_MAX);
	assert_int_equal(n_told, 2);
}

static void what_a_caller_opened_goes_on(void **state)
{
	(void)state;
	lw_hvd_open(LW_HVD_OPEN_BATCH, &batch, 1000);
	lw_hvd_close_thrown(800); /* called from inside it: the stack grows down */
	assert_int_equal(n_told, 0);
	assert_true(lw_hvd_is_open(LW_HVD_OPEN_BATCH));
	lw_hvd_close(LW_HVD_OPEN_BATCH, &batch);
	assert_int_equal(n_told, 1);
	assert_int_equal(told[0].batch.flags, 0);
}

static void what_is_open_at_the_end_is_unfinished(void **state)
{
	(void)state;
	lw_hvd_open(LW_HVD_OPEN_BATCH, &batch, 1000);
	lw_horovod_flush();
	assert_int_equal(n_told, 1);
	assert_int_equal(told[0].batch.flags, LW_COLL_UNFINISHED);
	assert_true(told[0].t1_ns > told[0].t0_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			rounds_seen_on_the_wire_are_told_when_they_change, start_anew),
		cmocka_unit_test_setup(rounds_that_agree_on_work_are_told_each, start_anew),
		cmocka_unit_test_setup(a_second_of_silence_is_broken, start_anew),
		cmocka_unit_test_setup(the_flush_tells_the_counted_rounds, start_anew),
		cmocka_unit_test_setup(a_hooked_horovod_is_not_told_twice, start_anew),
		cmocka_unit_test_setup(
			what_an_exception_left_is_told_as_failed_innermost_first, start_anew),
		cmocka_unit_test_setup(what_a_caller_opened_goes_on, start_anew),
		cmocka_unit_test_setup(what_is_open_at_the_end_is_unfinished, start_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
