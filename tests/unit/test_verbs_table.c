/* SPDX-License-Identifier: Apache-2.0 */
/* Work requests from post to completion, without libibverbs: what is matched with what, and many threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "tracer/hook_verbs.h"

static uint32_t live = 1;
const volatile uint32_t *lw_live = &live;
_Thread_local struct lw_tls lw_tls;

enum { MAX_RECORDS = 4096 };
static struct lw_event records[MAX_RECORDS]; /* of RDMA_WORK, the first ones */
static _Atomic uint32_t n_records;
static _Atomic uint64_t n_recorded_bytes, n_lost;

void lw_record(const struct lw_event *event)
{
	uint32_t at;

	if (event->kind != LW_EV_RDMA_WORK)
		return;
	at = atomic_fetch_add(&n_records, 1);
	if (at < MAX_RECORDS)
		records[at] = *event;
	atomic_fetch_add(&n_recorded_bytes, event->rdma_work.bytes);
}

void lw_loss(enum lw_loss_reason reason, uint64_t n, const char *where)
{
	(void)reason, (void)where;
	atomic_fetch_add(&n_lost, n);
}

bool lw_activate(enum lw_framework framework, enum lw_transport transport)
{
	(void)framework, (void)transport;
	return true;
}

bool lw_hook_wanted(const char *name)
{
	(void)name;
	return true;
}

void lw_hook_report(
	const char *name, enum lw_hook_status status, uint32_t n_slots, const char *detail)
{
	(void)name, (void)status, (void)n_slots, (void)detail;
}

uint64_t lw_string_z(const char *text)
{
	return text ? 1 : 0;
}

void lw_verbs_report(void)
{
}

void lw_verbs_memory_record(void)
{
}

/* ---- one queue pair -------------------------------------------------------------------------------- */

enum { UNKNOWN = 0x80 }; /* among the flags: whether all is signalled */
static uint32_t next_number = 1;

static struct lw_qp *make_qp(uint8_t flags, uintptr_t srq)
{
	const struct lw_qp_facts facts = {.context = 0x1000,
		.number = next_number++,
		.send_cq = 0x10,
		.recv_cq = 0x10,
		.srq = srq,
		.type = 2,
		.flags = flags,
		.is_signalling_known = !(flags & UNKNOWN)};
	struct lw_qp *qp;

	assert_true(lw_verbs_begin());
	qp = lw_qp_created(&facts);
	assert_non_null(qp);
	atomic_store(&n_records, 0);
	atomic_store(&n_recorded_bytes, 0);
	atomic_store(&n_lost, 0);
	return qp;
}

/* Posts one request; @n_refused 1: and the device does not take it. */
static void post(struct lw_qp *qp, enum lw_queue queue, uint64_t wr_id, bool is_signalled,
	uint32_t n_refused)
{
	const struct lw_work work = {.queue = (uint8_t)queue,
		.op = queue == LW_QUEUE_SEND ? LW_RDMA_WRITE : LW_RDMA_RECV,
		.flags = is_signalled ? 0 : LW_RDMA_UNSIGNALLED,
		.wr_id = wr_id,
		.bytes = queue == LW_QUEUE_SEND ? 10 + wr_id : 0};
	struct lw_post call;
	bool is_in;

	lw_post_begin(&call);
	is_in = lw_qp_enter(qp);
	lw_work_post(qp, is_in, &work, &call);
	lw_qp_leave(qp, is_in);
	lw_post_end(qp, queue, &call, n_refused);
}

static void poll(struct lw_qp *qp, enum lw_queue queue, uint64_t wr_id, uint16_t status)
{
	const struct lw_completion completion = {.wr_id = wr_id,
		.bytes = queue == LW_QUEUE_RECV ? 77 : 0,
		.at_ns = lw_now_ns(),
		.op = LW_RDMA_RECV,
		.status = status,
		.queue = status ? LW_QUEUE_UNKNOWN : queue,
		.cq = 0x10};

	lw_work_complete(qp, &completion);
}

static void expect(uint32_t at, uint64_t bytes, uint16_t status, uint16_t flags)
{
	assert_true(at < n_records);
	assert_int_equal(records[at].rdma_work.bytes, bytes);
	assert_int_equal(records[at].rdma_work.status, status);
	assert_int_equal(records[at].rdma_work.flags, flags);
}

static void a_later_completion_ends_what_asked_for_none(void **state)
{
	struct lw_qp *qp = make_qp(0, 0);

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		post(qp, LW_QUEUE_SEND, i, false, 0);
	post(qp, LW_QUEUE_SEND, 3, true, 0);
	post(qp, LW_QUEUE_SEND, 4, false, 0);
	poll(qp, LW_QUEUE_SEND, 3, 0);
	assert_int_equal(n_records, 4);
	for (uint32_t i = 0; i < 3; i++)
		expect(i, 10 + i, 0, LW_RDMA_UNSIGNALLED);
	expect(3, 13, 0, 0);
	lw_qp_ended(qp);
	assert_int_equal(n_records, 5);
	expect(4, 14, LW_RDMA_NO_STATUS, LW_RDMA_UNSIGNALLED | LW_RDMA_UNFINISHED);
	assert_int_equal(n_lost, 0);
}

static void whether_all_is_signalled_is_learned_only_where_nothing_asks(void **state)
{
	struct lw_qp *qp = make_qp(UNKNOWN, 0);

	(void)state;
	for (int i = 0; i < 4; i++) /* one id for all */
		post(qp, LW_QUEUE_SEND, 0, i % 2, 0);
	poll(qp, LW_QUEUE_SEND, 0, 0);
	assert_int_equal(n_records, 2);
	expect(0, 10, 0, LW_RDMA_UNSIGNALLED);
	poll(qp, LW_QUEUE_SEND, 0, 0);
	assert_int_equal(n_records, 4);
	for (int i = 0; i < 2; i++)
		post(qp, LW_QUEUE_SEND, 0, false, 0);
	poll(qp, LW_QUEUE_SEND, 0, 0);
	assert_int_equal(n_records, 5);
	expect(4, 10, 0, 0);
	assert_true(qp->flags & LW_RDMA_QP_SIGNAL_ALL);
	lw_qp_ended(qp);
}

static void completions_may_come_here_out_of_order(void **state)
{
	struct lw_qp *qp = make_qp(0, 0);

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		post(qp, LW_QUEUE_SEND, i, i % 2, 0);
	poll(qp, LW_QUEUE_SEND, 3, 0); /* ends 0 and 2 too, and leaves 1 */
	poll(qp, LW_QUEUE_SEND, 1, 0);
	assert_int_equal(n_records, 4);
	expect(3, 11, 0, 0);
	lw_qp_ended(qp);
	assert_int_equal(n_records, 4);
}

static void what_is_refused_leaves_no_trace(void **state)
{
	struct lw_qp *qp = make_qp(0, 0);

	(void)state;
	post(qp, LW_QUEUE_SEND, 1, true, 0);
	for (int i = 0; i < 1000; i++)
		post(qp, LW_QUEUE_SEND, 2, false, 1);
	post(qp, LW_QUEUE_SEND, 2, true, 0);
	poll(qp, LW_QUEUE_SEND, 1, 0);
	poll(qp, LW_QUEUE_SEND, 2, 0);
	lw_qp_ended(qp);
	assert_int_equal(n_records, 2);
	assert_int_equal(n_recorded_bytes, 23);
}

static void failures_are_put_on_the_right_queue(void **state)
{
	struct lw_qp *qp = make_qp(0, 0);

	(void)state;
	post(qp, LW_QUEUE_RECV, 5, true, 0);
	post(qp, LW_QUEUE_SEND, 1, false, 0);
	post(qp, LW_QUEUE_SEND, 2, false, 0);
	poll(qp, LW_QUEUE_SEND, 2, 10); /* so 1 was done */
	expect(0, 11, 0, LW_RDMA_UNSIGNALLED);
	expect(1, 12, 10, LW_RDMA_UNSIGNALLED);
	poll(qp, LW_QUEUE_RECV, 5, 5);
	assert_int_equal(records[2].op, LW_RDMA_RECV);
	poll(qp, LW_QUEUE_SEND, 99, 0); /* nothing is left to complete */
	assert_int_equal(n_records, 3);
	lw_verbs_flush();
	assert_int_equal(n_lost, 1);
	lw_qp_ended(qp);
}

static void a_completion_of_an_ended_queue_pair_is_counted(void **state)
{
	struct lw_qp *qp = make_qp(0, 0);

	(void)state;
	lw_qp_ended(qp);
	assert_null(lw_qp_find(0x1000, next_number - 1));
	poll(NULL, LW_QUEUE_SEND, 1, 0);
	lw_verbs_flush();
	assert_int_equal(n_lost, 1);
	assert_int_equal(n_records, 0);
}

static void receives_of_a_shared_queue_are_found_by_their_id(void **state)
{
	const struct lw_qp_facts facts = {.context = 0x2000, .number = LW_SRQ_NUMBER};
	struct lw_qp *shared, *qp = make_qp(LW_RDMA_QP_SRQ, 0x2000);

	(void)state;
	shared = lw_qp_get(&facts);
	for (uint64_t i = 0; i < 10; i++)
		post(shared, LW_QUEUE_RECV, i, true, 0);
	for (uint64_t i = 10; i-- > 0;)
		poll(qp, LW_QUEUE_RECV, i, 0);
	poll(qp, LW_QUEUE_RECV, 0, 0); /* one that was not seen to be posted */
	assert_int_equal(n_records, 11);
	expect(9, 77, 0, 0);
	expect(10, 77, 0, LW_RDMA_UNTIMED);
	assert_int_equal(records[0].rdma_work.qp, qp->serial);
	lw_qp_ended(qp);
	lw_qp_ended(shared);
}

/* ---- many ------------------------------------------------------------------------------------------ */

enum { N_THREADS = 4, N_EACH = 5000 };

/* Every thread posts and completes its own requests on the one queue pair, and refuses some. */
static void *use(void *argument)
{
	struct lw_qp *qp = argument;
	uint64_t own = (uint64_t)(uintptr_t)&argument << 16;

	for (uint64_t i = 0; i < N_EACH; i++) {
		post(qp, LW_QUEUE_SEND, own + i, true, i % 5 == 0);
		post(qp, LW_QUEUE_RECV, own + i, true, 0);
		if (i % 5)
			poll(qp, LW_QUEUE_SEND, own + i, 0);
		poll(qp, LW_QUEUE_RECV, own + i, 0);
	}
	return NULL;
}

static void threads_that_share_a_queue_pair_lose_nothing(void **state)
{
	struct lw_qp *qp = make_qp(0, 0);
	pthread_t threads[N_THREADS];

	(void)state;
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use, qp), 0);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	lw_qp_flush(qp);
	assert_int_equal(n_lost, 0);
	assert_int_equal(n_records, N_THREADS * (N_EACH * 4 / 5 + N_EACH));
	lw_qp_ended(qp);
	assert_int_equal(n_records, N_THREADS * (N_EACH * 4 / 5 + N_EACH));
}

static void *churn(void *argument)
{
	const struct lw_qp_facts facts = {
		.context = (uintptr_t)argument, .number = 7, .is_signalling_known = true};

	for (int i = 0; i < 3000; i++) {
		struct lw_qp *qp = lw_qp_created(&facts);

		if (!qp)
			continue; /* the short lock was not to be had: counted */
		post(qp, LW_QUEUE_SEND, 1, true, 0);
		poll(qp, LW_QUEUE_SEND, 1, 0);
		lw_qp_ended(qp);
	}
	return NULL;
}

static void queue_pairs_come_and_go_in_several_threads(void **state)
{
	pthread_t threads[N_THREADS];
	uint32_t n_before;

	(void)state;
	lw_qp_ended(make_qp(0, 0));
	n_before = lw_verbs_tables->n_qps;
	for (uintptr_t i = 0; i < N_THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, churn, (void *)(i * 4096 + 4096)), 0);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	lw_verbs_flush();
	assert_true(n_records <= N_THREADS * 3000 && n_records + n_lost >= N_THREADS * 3000);
	assert_true(lw_verbs_tables->n_qps <= n_before + 2 * N_THREADS + n_lost);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_later_completion_ends_what_asked_for_none),
		cmocka_unit_test(whether_all_is_signalled_is_learned_only_where_nothing_asks),
		cmocka_unit_test(completions_may_come_here_out_of_order),
		cmocka_unit_test(what_is_refused_leaves_no_trace),
		cmocka_unit_test(failures_are_put_on_the_right_queue),
		cmocka_unit_test(a_completion_of_an_ended_queue_pair_is_counted),
		cmocka_unit_test(receives_of_a_shared_queue_are_found_by_their_id),
		cmocka_unit_test(threads_that_share_a_queue_pair_lose_nothing),
		cmocka_unit_test(queue_pairs_come_and_go_in_several_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
