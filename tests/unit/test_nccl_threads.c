/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's threads and ours: the user's, proxies', and one that ends a communicator under them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "tests/lib/nccl_rig.h"

/* ---- many threads ----------------------------------------------------------------------------------------- */

enum { N_THREADS = 4, N_EACH = 20000 };
static _Atomic uint64_t handed[N_THREADS][64]; /* operations for the proxy of that thread */
static _Atomic bool is_over;
static struct lw_nccl_comm *comms[N_THREADS];

static _Atomic int at[N_THREADS];

/* No thread runs far ahead: one that is not scheduled for thousands of operations finds its call gone. */
static void keep_step(unsigned number, int i)
{
	atomic_store(&at[number], i);
	for (int other = 0; other < N_THREADS; other++)
		while (atomic_load(&at[other]) < i - 64)
			sched_yield();
}

static void *user(void *argument)
{
	unsigned number = (unsigned)(uintptr_t)argument;

	for (int i = 0; i < N_EACH; i++) {
		struct lw_nccl_facts task = rig_task(comms[number], LW_NCCL_ALLREDUCE, (uint64_t)i);
		struct lw_nccl_facts call = rig_call(comms[number], LW_NCCL_ALLREDUCE, (uint64_t)i);
		uint64_t begun = i % 3 ? 0 : lw_nccl_call_begin(&call);
		uint64_t handle = lw_nccl_op_start(0, &task);

		keep_step(number, i);
		atomic_exchange(&handed[number][i % 64], handle);
		lw_nccl_op_stop(handle, 300);
		lw_nccl_call_end(begun, 0, 310);
	}
	atomic_store(&at[number], N_EACH);
	return NULL;
}

static void *proxy(void *argument)
{
	unsigned number = (unsigned)(uintptr_t)argument;

	while (!atomic_load(&is_over)) {
		for (int i = 0; i < 64; i++) {
			uint64_t handle = atomic_exchange(&handed[number][i], 0);

			if (handle && lw_nccl_part_begin(handle))
				lw_nccl_part_end(handle, 400);
		}
	}
	return NULL;
}

static void threads_lose_and_double_nothing(void **state)
{
	pthread_t users[N_THREADS], proxies[N_THREADS];

	(void)state;
	for (int i = 0; i < N_THREADS; i++)
		comms[i] = rig_comm(4, true);
	for (uintptr_t i = 0; i < N_THREADS; i++) {
		pthread_create(&users[i], NULL, user, (void *)i);
		pthread_create(&proxies[i], NULL, proxy, (void *)i);
	}
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(users[i], NULL);
	atomic_store(&is_over, true);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(proxies[i], NULL);
	lw_nccl_ops_flush(NULL);
	assert_int_equal(rig_n_ops + rig_n_lost, N_THREADS * N_EACH);
}

/* ---- a communicator that ends under its threads ---------------------------------------------------------- */

enum { N_ENDS = 300 };
static _Atomic(void *) context;
static _Atomic(void *) task_handle;

static void *start_event(uint64_t type, void *parent, struct lw_nccl_event_v6 *event)
{
	void *handle = NULL;

	event->type = type;
	event->parent = parent;
	assert_int_equal(ncclProfiler_v5.start(atomic_load(&context), &handle, event), 0);
	return handle;
}

static void *enqueue_forever(void *unused)
{
	while (!atomic_load(&is_over)) {
		struct lw_nccl_event_v6 coll = {.coll = {.func = "AllReduce",
							.count = 8,
							.datatype = "ncclInt8",
							.algo = "RING",
							.proto = "LL"}};
		void *handle = start_event(LW_NCCL_PROFILE_COLL, NULL, &coll);

		atomic_store(&task_handle, handle);
		ncclProfiler_v5.stop(handle);
	}
	return unused;
}

static void *move_forever(void *unused)
{
	union lw_nccl_state_arguments arguments = {.proxy = {.transferred_bytes = 16}};

	while (!atomic_load(&is_over)) {
		struct lw_nccl_net_ib data = {.type = 1, .qp = {.number = 7, .bytes = 16}};
		struct lw_nccl_event_v6 op = {.proxy_op = {.pid = (int)getpid(), .n_steps = 1}},
					step = {.proxy_step = {.step = 0}},
					net = {.net_plugin = {LW_NCCL_NET_ID_IB, &data}};
		void *proxy = start_event(LW_NCCL_PROFILE_PROXY_OP, atomic_load(&task_handle), &op);
		void *moving = start_event(LW_NCCL_PROFILE_PROXY_STEP, proxy, &step);
		void *request = start_event(LW_NCCL_PROFILE_NET_PLUGIN, moving, &net);

		ncclProfiler_v5.state(moving, LW_NCCL_STATE_STEP_SEND_WAIT, &arguments);
		ncclProfiler_v5.stop(request);
		ncclProfiler_v5.stop(moving);
		ncclProfiler_v5.stop(proxy);
	}
	return unused;
}

static void a_communicator_may_end_under_its_threads(void **state)
{
	pthread_t threads[3];
	int mask = 0;

	(void)state;
	rig_clear();
	atomic_store(&is_over, false);
	for (int i = 0; i < N_ENDS; i++) {
		void *made;

		((rig_init_v5)ncclProfiler_v5.init)(&made, rig_key(), &mask, "", 1, 2, 0, NULL);
		atomic_store(&context, made);
		if (i == 0) {
			pthread_create(&threads[0], NULL, enqueue_forever, NULL);
			pthread_create(&threads[1], NULL, move_forever, NULL);
			pthread_create(&threads[2], NULL, move_forever, NULL);
		}
		for (uint64_t n = rig_n_ops + 20; rig_n_ops < n && rig_n_records < 1000000;)
			sched_yield();
		ncclProfiler_v5.finalize(made);
	}
	atomic_store(&is_over, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	lw_nccl_flush();
	/* the rig has looked at each record, and at no serial coming twice */
	assert_true(rig_n_ops >= N_ENDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_lose_and_double_nothing),
		cmocka_unit_test(a_communicator_may_end_under_its_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
