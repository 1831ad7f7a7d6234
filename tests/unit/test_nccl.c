/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's operations, told of by calls and by the plugin: each once; the names of communicators. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/nccl_rig.h"

static const struct lw_ev_nccl_op *nth_op(uint32_t n)
{
	const struct lw_event *event = rig_nth(LW_EV_NCCL_OP, n);

	assert_non_null(event);
	return &event->nccl_op;
}

/* ---- names ------------------------------------------------------------------------------------------ */

/* What NCCL's own functions (2.23.4, 2.24.3, 2.28.9) gave for the same input. */
static void communicators_are_named_as_nccl_names_them(void **state)
{
	unsigned char id[LW_NCCL_ID_BYTES];
	uint64_t old = UINT64_C(0x6ee6527965713885), new = UINT64_C(0x4ebc11602720b9bf);

	(void)state;
	for (int i = 0; i < LW_NCCL_ID_BYTES; i++)
		id[i] = (unsigned char)(i * 37 + 5);
	assert_true(lw_nccl_hash_id(id, 21805) == old);
	assert_true(lw_nccl_hash_id(id, 22501) == old);
	assert_true(lw_nccl_hash_id(id, 22602) == new);
	assert_true(lw_nccl_hash_id(id, 22809) == new);
	assert_true(lw_nccl_hash_split(old, 2, 3, 22304) == UINT64_C(0x0e8351b69f9f6bd1));
	assert_true(lw_nccl_hash_split(old, 2, 3, 22403) == UINT64_C(0xa5430e8ea1915cee));
	assert_true(lw_nccl_hash_split(new, 2, 3, 22602) == UINT64_C(0x117a28551829592e));
	assert_true(lw_nccl_hash_split(new, 0, 0, 22809) == UINT64_C(0x8ff92d8fb212d857));
}

static void a_communicator_is_announced_once_when_it_is_known(void **state)
{
	struct lw_nccl_comm_facts facts = {.key = rig_key(), .parent = 7, .rank = -1};
	struct lw_nccl_comm *comm;

	(void)state;
	rig_clear();
	comm = lw_nccl_comm_seen(&facts);
	assert_int_equal(rig_n_records, 0);
	facts = (struct lw_nccl_comm_facts){.key = facts.key, .size = 4, .rank = 0};
	assert_ptr_equal(lw_nccl_comm_seen(&facts), comm);
	assert_ptr_equal(lw_nccl_comm_find(facts.key), comm);
	assert_int_equal(rig_n_records, 0); /* inside of the call that makes it, which knows how */
	facts = (struct lw_nccl_comm_facts){.key = facts.key, .rank = -1, .how = LW_COMM_SPLIT};
	assert_ptr_equal(lw_nccl_comm_seen(&facts), comm);
	assert_int_equal(rig_n_records, 1);
	assert_int_equal(rig_records[0].op, LW_COMM_SPLIT);
	assert_int_equal(rig_records[0].comm.parent, 7);
	assert_int_equal(rig_records[0].comm.size, 4);
	assert_int_equal(rig_records[0].comm.rank, 0);
	lw_nccl_comm_seen(&facts);
	lw_nccl_comm_announce(comm);
	lw_nccl_comms_flush();
	assert_int_equal(rig_n_records, 1);
}

static void one_that_nothing_was_done_with_is_announced_at_the_end(void **state)
{
	const struct lw_nccl_comm_facts facts = {.key = rig_key(), .size = 4, .rank = 0};

	(void)state;
	lw_nccl_comms_flush();
	rig_clear();
	lw_nccl_comm_seen(&facts);
	assert_int_equal(rig_n_records, 0);
	lw_nccl_comms_flush();
	assert_int_equal(rig_n_records, 1);
	assert_int_equal(rig_records[0].op, LW_COMM_OTHER);
}

static void communicators_that_ended_make_room(void **state)
{
	uint64_t n_refused;

	(void)state;
	rig_clear();
	for (uint64_t key = 1; key <= 5000; key++) {
		const struct lw_nccl_comm_facts facts = {.key = key << 40, .size = 2, .rank = 1};
		struct lw_nccl_comm *comm = lw_nccl_comm_seen(&facts);

		assert_non_null(comm);
		lw_nccl_comm_ended(comm);
	}
	for (uint64_t key = 1; key <= 5000; key++) {
		const struct lw_nccl_comm_facts facts = {.key = key << 41, .size = 2, .rank = 1};

		lw_nccl_comm_seen(&facts);
	}
	n_refused = rig_n_lost;
	assert_true(n_refused > 3500 && n_refused < 5000);
	for (uint64_t key = 1; key <= 5000; key++) /* for the tests after this */
		lw_nccl_comm_ended(lw_nccl_comm_find(key << 41));
}

/* ---- once ---------------------------------------------------------------------------------------------- */

static void a_call_that_no_plugin_has_is_written_when_it_returns(void **state)
{
	struct lw_nccl_facts facts = rig_call(rig_comm(4, false), LW_NCCL_ALLREDUCE, 64), inner;
	uint64_t handle = lw_nccl_call_begin(&facts);

	(void)state;
	assert_true(handle);
	assert_true(lw_nccl_call_current() == handle);
	inner = facts;
	inner.source = LW_NCCL_FROM_NVTX;
	assert_true(lw_nccl_call_begin(&inner) == 0); /* the same call, seen from within */
	lw_nccl_call_end(0, 0, 250);
	assert_int_equal(rig_n_ops, 0);
	lw_nccl_call_end(handle, 0, 300);
	lw_nccl_call_end(handle, 0, 400);
	assert_int_equal(rig_n_ops, 1);
	assert_int_equal(nth_op(0)->source, LW_NCCL_FROM_PRELOAD);
	assert_int_equal(nth_op(0)->flags, LW_NCCL_UNTIMED | LW_NCCL_IN_PLACE);
	assert_int_equal(rig_nth(LW_EV_NCCL_OP, 0)->t1_ns, 300);
	assert_true(lw_nccl_call_current() == 0);
}

static void a_call_that_failed_says_so(void **state)
{
	struct lw_nccl_facts facts = rig_call(rig_comm(4, true), LW_NCCL_REDUCE, 64);

	(void)state;
	lw_nccl_call_end(lw_nccl_call_begin(&facts), LW_NCCL_FAILED, 300);
	assert_int_equal(nth_op(0)->flags, LW_NCCL_UNTIMED | LW_NCCL_IN_PLACE | LW_NCCL_FAILED);
}

/* Up to v4 the plugin has only the communicator, the kind and the bytes to know a call by. */
static void the_plugin_takes_over_what_the_preload_began(void **state)
{
	struct lw_nccl_comm *comm = rig_comm(4, true);
	struct lw_nccl_facts other = rig_call(comm, LW_NCCL_ALLREDUCE, 32),
			     facts = rig_call(comm, LW_NCCL_ALLREDUCE, 64), task;
	uint64_t first, second, operation;

	(void)state;
	first = lw_nccl_call_begin(&other);
	lw_nccl_call_end(first, 0, 150);
	second = lw_nccl_call_begin(&facts);
	task = rig_task(comm, LW_NCCL_ALLREDUCE, 64);
	operation = lw_nccl_op_start(lw_nccl_handle(LW_NCCL_HANDLE_GROUP, 1), &task);
	assert_true(operation == second);
	assert_true(lw_nccl_part_begin(operation));
	assert_true(lw_nccl_op_stop(operation, 250));
	lw_nccl_call_end(second, 0, 260);
	lw_nccl_part_end(operation, 900);
	assert_int_equal(rig_n_ops, 0);
	lw_nccl_ops_flush(comm);
	assert_int_equal(rig_n_ops, 2);
	assert_int_equal(nth_op(0)->bytes, 32);
	assert_int_equal(nth_op(0)->source, LW_NCCL_FROM_PRELOAD);
	assert_int_equal(nth_op(1)->source, LW_NCCL_FROM_PLUGIN);
	assert_int_equal(nth_op(1)->flags, LW_NCCL_IN_PLACE);
	assert_int_equal(nth_op(1)->algorithm, LW_NCCL_ALGORITHM_RING);
	assert_int_equal(nth_op(1)->dtype, LW_DTYPE_FLOAT32);
	assert_int_equal(rig_nth(LW_EV_NCCL_OP, 1)->t0_ns, 100);
	assert_int_equal(rig_nth(LW_EV_NCCL_OP, 1)->t1_ns, 900);
}

static void a_call_on_another_communicator_is_not_taken_for_it(void **state)
{
	struct lw_nccl_comm *comm = rig_comm(4, true), *other = rig_comm(4, true);
	struct lw_nccl_facts elsewhere = rig_call(other, LW_NCCL_ALLREDUCE, 64), task;
	uint64_t call = lw_nccl_call_begin(&elsewhere), operation;

	(void)state;
	task = rig_task(comm, LW_NCCL_ALLREDUCE, 64);
	operation = lw_nccl_op_start(0, &task);
	assert_true(operation != call);
	lw_nccl_call_end(call, 0, 300);
	lw_nccl_op_stop(operation, 300);
	lw_nccl_ops_flush(other);
	assert_int_equal(rig_n_ops, 1);
	assert_int_equal(nth_op(0)->source, LW_NCCL_FROM_PRELOAD);
	lw_nccl_ops_flush(comm);
	assert_int_equal(rig_n_ops, 2);
}

static void a_communicator_of_one_rank_has_no_tasks_to_wait_for(void **state)
{
	struct lw_nccl_facts facts = rig_call(rig_comm(1, true), LW_NCCL_ALLREDUCE, 64);

	(void)state;
	lw_nccl_call_end(lw_nccl_call_begin(&facts), 0, 300);
	assert_int_equal(rig_n_ops, 1);
}

static void calls_of_a_group_end_with_it(void **state)
{
	struct lw_nccl_comm *comm = rig_comm(4, false);
	struct lw_nccl_facts facts = rig_call(comm, LW_NCCL_SEND, 64);

	(void)state;
	lw_nccl_group_begin();
	lw_nccl_group_begin();
	for (int i = 0; i < 3; i++)
		lw_nccl_call_end(lw_nccl_call_begin(&facts), 0, 200);
	lw_nccl_group_end(0, 400);
	assert_int_equal(rig_n_ops, 0);
	lw_nccl_group_launch();
	lw_nccl_group_end(0, 500);
	assert_int_equal(rig_n_ops, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(rig_nth(LW_EV_NCCL_OP, i)->t1_ns, 500);
		assert_true(nth_op(i)->group && nth_op(i)->group == nth_op(0)->group);
	}
	lw_nccl_group_end(0, 600); /* one too many */
	lw_nccl_call_end(lw_nccl_call_begin(&facts), 0, 700);
	assert_int_equal(nth_op(3)->group, 0);
}

/* NCCL makes an all-to-all of sends and receives: one operation all the same. */
static void what_is_made_of_sends_and_receives_is_one(void **state)
{
	struct lw_nccl_comm *comm = rig_comm(4, true);
	struct lw_nccl_facts facts = rig_call(comm, LW_NCCL_ALLTOALL, 64), task;
	uint64_t handle = lw_nccl_call_begin(&facts), inside;

	(void)state;
	inside = lw_nccl_handle(LW_NCCL_HANDLE_INSIDE, lw_nccl_handle_value(handle));
	for (int i = 0; i < 4; i++) {
		task = rig_task(comm, i % 2 ? LW_NCCL_RECV : LW_NCCL_SEND, 16);
		assert_true(lw_nccl_op_start(inside, &task) == handle);
		assert_true(lw_nccl_part_begin(handle));
	}
	lw_nccl_call_end(handle, 0, 300);
	for (int i = 0; i < 4; i++) {
		assert_true(lw_nccl_op_stop(handle, 310));
		lw_nccl_part_end(handle, 400 + i);
	}
	assert_false(lw_nccl_op_stop(handle, 320));
	lw_nccl_ops_flush(comm);
	assert_int_equal(rig_n_ops, 1);
	assert_int_equal(rig_nth(LW_EV_NCCL_OP, 0)->op, LW_NCCL_ALLTOALL);
	assert_int_equal(rig_nth(LW_EV_NCCL_OP, 0)->t1_ns, 403);
	assert_int_equal(nth_op(0)->bytes, 64);
	assert_int_equal(nth_op(0)->flags, LW_NCCL_IN_PLACE);
}

/* NCCL launches a group's tasks when it ends, in an order of its own. */
static void a_group_of_many_is_taken_over_whatever_the_order(void **state)
{
	struct lw_nccl_comm *comm = rig_comm(600, true);
	struct lw_nccl_facts facts = rig_call(comm, LW_NCCL_SEND, 64), task;

	(void)state;
	lw_nccl_group_begin();
	for (int i = 0; i < 600; i++) {
		facts.peer = i;
		lw_nccl_call_end(lw_nccl_call_begin(&facts), 0, 200);
	}
	for (int i = 0; i < 600; i++) {
		task = rig_task(comm, LW_NCCL_SEND, 64);
		task.peer = (i * 7 + 11) % 600;
		lw_nccl_op_stop(lw_nccl_op_start(0, &task), 300);
	}
	lw_nccl_group_end(0, 310);
	lw_nccl_ops_flush(comm);
	assert_int_equal(rig_n_ops, 600);
	for (uint32_t i = 0; i < 600; i++)
		assert_true(nth_op(i)->source == LW_NCCL_FROM_PLUGIN && nth_op(i)->group);
}

static void an_operation_is_written_as_soon_as_it_is_certain(void **state)
{
	struct lw_nccl_comm *comm = rig_comm(4, true);
	struct lw_nccl_facts task = rig_task(comm, LW_NCCL_ALLREDUCE, 64);
	uint64_t first = lw_nccl_op_start(0, &task), second, third, without;

	(void)state;
	assert_true(lw_nccl_part_begin(first));
	lw_nccl_op_stop(first, 210);
	lw_nccl_part_end(first, 300);
	assert_int_equal(rig_n_ops, 0); /* a second channel might still come */
	second = lw_nccl_op_start(0, &task);
	assert_true(lw_nccl_part_begin(first));
	lw_nccl_op_stop(second, 310);
	assert_true(lw_nccl_part_begin(second));
	lw_nccl_part_end(second, 400);
	assert_int_equal(rig_n_ops, 0);
	lw_nccl_part_end(first, 410);
	assert_int_equal(rig_n_ops, 1);
	assert_int_equal(rig_nth(LW_EV_NCCL_OP, 0)->t1_ns, 410);
	assert_int_equal(nth_op(0)->flags, 0);
	assert_false(lw_nccl_part_begin(first));
	/* the same where nothing is left to end: and one without parts went before it */
	without = lw_nccl_op_start(0, &task);
	lw_nccl_op_stop(without, 420);
	third = lw_nccl_op_start(0, &task);
	lw_nccl_op_stop(third, 430);
	assert_true(lw_nccl_part_begin(third));
	assert_int_equal(rig_n_ops, 1);
	lw_nccl_part_end(third, 500);
	assert_int_equal(rig_n_ops, 3);
	assert_int_equal(nth_op(1)->flags, 0);
	assert_int_equal(nth_op(2)->flags, LW_NCCL_UNTIMED);
	lw_nccl_ops_flush(comm);
	assert_int_equal(rig_n_ops, 4);
}

/* A send and a receive of one group run at once, in any order. */
static void those_of_one_group_do_not_end_each_other(void **state)
{
	struct lw_nccl_comm *comm = rig_comm(4, true);
	struct lw_nccl_facts task = rig_task(comm, LW_NCCL_SEND, 64);
	uint64_t send, receive, next;

	(void)state;
	task.group = lw_nccl_group_serial();
	send = lw_nccl_op_start(0, &task);
	task.op = LW_NCCL_RECV;
	receive = lw_nccl_op_start(0, &task);
	lw_nccl_op_stop(send, 210);
	lw_nccl_op_stop(receive, 210);
	assert_true(lw_nccl_part_begin(receive));
	lw_nccl_part_end(receive, 300);
	assert_int_equal(rig_n_ops, 0);
	assert_true(lw_nccl_part_begin(send));
	lw_nccl_part_end(send, 400);
	assert_int_equal(rig_n_ops, 0);
	task.group = lw_nccl_group_serial();
	next = lw_nccl_op_start(0, &task);
	lw_nccl_op_stop(next, 410);
	assert_true(lw_nccl_part_begin(next));
	lw_nccl_part_end(next, 500);
	assert_int_equal(rig_n_ops, 2);
	assert_int_equal(nth_op(0)->flags | nth_op(1)->flags, 0);
	lw_nccl_ops_flush(comm);
}

/* ---- the plugin as a whole ------------------------------------------------------------------------------- */

static void it_can_be_turned_off_and_on_during_a_run(void **state)
{
	struct lw_nccl_facts facts = rig_call(rig_comm(4, false), LW_NCCL_ALLREDUCE, 64);
	int mask = -1, late = -1;
	void *context, *other;

	(void)state;
	lw_nccl_plugin_missing(22101);
	assert_int_equal(rig_status, LW_HOOK_ABSENT);
	assert_non_null(strstr(rig_detail, "2.23.4"));
	assert_int_equal(
		((rig_init_v5)ncclProfiler_v5.init)(&context, rig_key(), &mask, "", 1, 2, 0, NULL),
		0);
	assert_true(mask > 0);
	lw_nccl_plugin_on(false);
	assert_int_equal(mask, 0);
	assert_true(lw_nccl_call_begin(&facts) == 0);
	((rig_init_v5)ncclProfiler_v5.init)(&other, rig_key(), &late, "", 1, 2, 0, NULL);
	assert_int_equal(late, 0);
	lw_nccl_plugin_on(true);
	assert_true(mask > 0 && late == mask);
	ncclProfiler_v5.finalize(context);
	lw_nccl_plugin_on(false);
	assert_true(mask > 0); /* NCCL may be gone: what it gave is not written to any more */
	assert_int_equal(late, 0);
	lw_nccl_plugin_on(true);
	ncclProfiler_v5.finalize(other);
}

/* ---- whose proxies ----------------------------------------------------------------------------------- */

static void *start_v5(void *context, uint64_t kind, uint64_t parent, struct lw_nccl_event_v6 *event)
{
	void *handle = NULL;

	event->type = kind;
	event->parent = (void *)(uintptr_t)parent;
	assert_int_equal(ncclProfiler_v5.start(context, &handle, event), 0);
	return handle;
}

/* A proxy of @context with @parent that started and ended. Return: the operation that its record is of. */
static uint64_t serial_of_proxy_of(int pid, void *context, uint64_t parent)
{
	struct lw_nccl_event_v6 event = {.proxy_op = {.pid = pid, .peer = 1, .n_steps = 1}};
	const struct lw_event *record;

	rig_clear();
	ncclProfiler_v5.stop(start_v5(context, LW_NCCL_PROFILE_PROXY_OP, parent, &event));
	record = rig_nth(LW_EV_NCCL_PROXY, 0);
	assert_non_null(record);
	return record->nccl_proxy.serial;
}

static uint64_t serial_of_proxy(void *context, uint64_t parent)
{
	return serial_of_proxy_of((int)getpid(), context, parent);
}

static uint64_t start_coll(void *context)
{
	struct lw_nccl_event_v6 event = {.coll = {.func = "AllReduce",
						 .count = 8,
						 .datatype = "ncclInt8",
						 .algo = "RING",
						 .proto = "LL"}};

	return (uint64_t)(uintptr_t)start_v5(context, LW_NCCL_PROFILE_COLL, 0, &event);
}

/* Ranks in containers have the same pid, count from 1 and may have their contexts at the same address. */
static void a_proxy_of_another_process_with_our_pid_is_not_ours(void **state)
{
	uint64_t handle, serial;
	void *context;
	int mask;

	(void)state;
	((rig_init_v5)ncclProfiler_v5.init)(&context, rig_key(), &mask, "", 1, 2, 0, NULL);
	handle = start_coll(context);
	serial = handle & 0xffffffffff;
	assert_true(serial_of_proxy(context, handle) == serial);
	for (int bit = 40; bit < 60; bit++) /* what another process drew */
		assert_true(serial_of_proxy(context, handle ^ UINT64_C(1) << bit) == 0);
	assert_true(serial_of_proxy(context, lw_nccl_handle(LW_NCCL_HANDLE_OP, serial)) == 0);
	assert_true(serial_of_proxy(NULL, handle) == 0);
	assert_true(serial_of_proxy_of((int)getpid() + 1, context, handle) == 0);
	rig_clear();
	ncclProfiler_v5.stop((void *)(uintptr_t)handle);
	ncclProfiler_v5.finalize(context);
	assert_int_equal(rig_n_ops, 1);
	/* of the one proxy that was its own, it has its end */
	assert_int_equal(nth_op(0)->flags, 0);
}

static void a_proxy_is_of_its_own_communicator(void **state)
{
	void *contexts[2];
	uint64_t handle;
	int mask;

	(void)state;
	for (int i = 0; i < 2; i++)
		((rig_init_v5)ncclProfiler_v5.init)(
			&contexts[i], rig_key(), &mask, "", 1, 2, 0, NULL);
	handle = start_coll(contexts[0]);
	assert_true(serial_of_proxy(contexts[1], handle) == 0);
	assert_true(serial_of_proxy(contexts[0], handle) != 0);
	for (int i = 0; i < 2; i++)
		ncclProfiler_v5.finalize(contexts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(communicators_are_named_as_nccl_names_them),
		cmocka_unit_test(a_communicator_is_announced_once_when_it_is_known),
		cmocka_unit_test(one_that_nothing_was_done_with_is_announced_at_the_end),
		cmocka_unit_test(communicators_that_ended_make_room),
		cmocka_unit_test(a_call_that_no_plugin_has_is_written_when_it_returns),
		cmocka_unit_test(a_call_that_failed_says_so),
		cmocka_unit_test(the_plugin_takes_over_what_the_preload_began),
		cmocka_unit_test(a_call_on_another_communicator_is_not_taken_for_it),
		cmocka_unit_test(a_communicator_of_one_rank_has_no_tasks_to_wait_for),
		cmocka_unit_test(calls_of_a_group_end_with_it),
		cmocka_unit_test(what_is_made_of_sends_and_receives_is_one),
		cmocka_unit_test(a_group_of_many_is_taken_over_whatever_the_order),
		cmocka_unit_test(an_operation_is_written_as_soon_as_it_is_certain),
		cmocka_unit_test(those_of_one_group_do_not_end_each_other),
		cmocka_unit_test(it_can_be_turned_off_and_on_during_a_run),
		cmocka_unit_test(a_proxy_of_another_process_with_our_pid_is_not_ours),
		cmocka_unit_test(a_proxy_is_of_its_own_communicator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
