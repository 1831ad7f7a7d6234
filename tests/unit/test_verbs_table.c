/* SPDX-License-Identifier: Apache-2.0 */
/* Work requests from post to completion, without libibverbs: what is matched with what, and many threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer/hook_verbs.h"
#include "tracer/verbs_match.h"

static uint32_t live = 1;
const volatile uint32_t *lw_live = &live;
_Thread_local struct lw_tls lw_tls;

enum { MAX_RECORDS = 4096 };
static struct lw_event records[MAX_RECORDS]; /* of RDMA_WORK, the first ones */
static _Atomic uint32_t n_records;
static _Atomic uint64_t n_recorded_bytes, n_lost;
static uint32_t n_refusals;             /* of the hook */
static enum lw_loss_reason lost_reason; /* the last one */
static _Atomic uint32_t n_unused;       /* receives, of the queue pair that ended last */

void lw_record(const struct lw_event *event)
{
	uint32_t at;

	if (event->kind == LW_EV_RDMA_QP && event->op == LW_RDMA_QP_ENDED)
		atomic_store(&n_unused, event->rdma_qp.n_unused_receives);
	if (event->kind != LW_EV_RDMA_WORK)
		return;
	at = atomic_fetch_add(&n_records, 1);
	if (at < MAX_RECORDS)
		records[at] = *event;
	atomic_fetch_add(&n_recorded_bytes, event->rdma_work.bytes);
}

void lw_loss(enum lw_loss_reason reason, uint64_t n, const char *where)
{
	(void)where;
	lost_reason = reason;
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
	(void)name, (void)n_slots, (void)detail;
	n_refusals += status == LW_HOOK_REFUSED;
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
	qp = lw_qp_created(&facts, lw_now_ns());
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

/* Thread A's post is refused, and what thread B posted behind it is taken and completes. */
static void post_two_of_which_the_first_is_refused(
	struct lw_qp *qp, enum lw_queue queue, uint64_t wr_id, bool is_polled)
{
	const struct lw_work works[2] = {
		{.queue = (uint8_t)queue, .op = LW_RDMA_RECV, .wr_id = 1000000 + wr_id},
		{.queue = (uint8_t)queue, .op = LW_RDMA_RECV, .wr_id = wr_id}};
	struct lw_post calls[2];
	bool is_in;

	for (int i = 0; i < 2; i++) {
		lw_post_begin(&calls[i]);
		is_in = lw_qp_enter(qp);
		lw_work_post(qp, is_in, &works[i], &calls[i]);
		lw_qp_leave(qp, is_in);
	}
	lw_post_end(qp, queue, &calls[1], 0);
	lw_post_end(qp, queue, &calls[0], 1);
	if (is_polled)
		poll(qp, queue, wr_id, 0);
}

static void what_is_refused_in_the_middle_leaves_no_trace(void **state)
{
	(void)state;
	for (enum lw_queue queue = LW_QUEUE_SEND; queue <= LW_QUEUE_RECV; queue++) {
		struct lw_qp *qp = make_qp(0, 0);
		uint32_t n_before = lw_verbs_tables->n_works;

		for (uint64_t i = 0; i < 1000; i++)
			post_two_of_which_the_first_is_refused(qp, queue, i, true);
		assert_int_equal(n_records, 1000);
		for (uint32_t i = 0; i < 1000; i++)
			assert_int_equal(records[i].rdma_work.flags & LW_RDMA_UNTIMED, 0);
		assert_int_equal(qp->lists[queue].n, 0);
		assert_true(lw_verbs_tables->n_works <= n_before + 8);
		lw_qp_ended(qp);
		assert_int_equal(n_unused, 0);
	}
}

/* They are neither searched through, nor left unused when the queue pair ends. */
static void what_is_refused_hides_nothing_behind_it(void **state)
{
	struct lw_qp *qp = make_qp(0, 0);

	(void)state;
	for (uint64_t i = 0; i < 600; i++)
		post_two_of_which_the_first_is_refused(qp, LW_QUEUE_RECV, i, false);
	poll(qp, LW_QUEUE_RECV, 250, 0);
	lw_qp_ended(qp);
	assert_int_equal(n_unused, 599);
}

/* All of the pool, but @n_left, for as long as a test needs it. */
static uint32_t *empty_pool(uint32_t n_left, uint32_t *ret_n)
{
	uint32_t *taken = calloc(LW_WORKS_MAX, sizeof(*taken)), n = 0;

	assert_non_null(taken);
	while ((taken[n] = lw_work_take_any()))
		n++;
	while (n_left--)
		lw_work_give_any(taken[--n]);
	*ret_n = n;
	return taken;
}

static void fill_pool(uint32_t *taken, uint32_t n)
{
	while (n)
		lw_work_give_any(taken[--n]);
	free(taken);
}

/* As hook_verbs_wr.c does it. */
static void add_to_batch(struct lw_qp *qp, uint64_t wr_id, uint64_t bytes, bool is_signalled)
{
	struct lw_work *work = lw_batch_add(qp, is_signalled);

	if (work) {
		work->op = LW_RDMA_SEND;
		work->wr_id = wr_id;
		work->flags = is_signalled ? 0 : LW_RDMA_UNSIGNALLED;
	}
	work = lw_batch_last(qp);
	if (work)
		work->bytes += bytes;
}

static void post_batch(struct lw_qp *qp, bool is_refused)
{
	uint32_t n = qp->batch.list.n + qp->batch.n_untracked;
	struct lw_post call;

	lw_post_begin(&call);
	lw_batch_post(qp, &call);
	lw_post_end(qp, LW_QUEUE_SEND, &call, is_refused ? n : 0);
}

static void a_batch_without_room_keeps_the_bytes_of_others_away(void **state)
{
	struct lw_qp *qp = make_qp(0, 0);
	uint32_t n, *taken = empty_pool(1, &n);

	(void)state;
	add_to_batch(qp, 1, 100, true);
	add_to_batch(qp, 2, 900, true);
	add_to_batch(qp, 3, 900, false);
	post_batch(qp, false);
	poll(qp, LW_QUEUE_SEND, 1, 0);
	poll(qp, LW_QUEUE_SEND, 2, 0);
	add_to_batch(qp, 4, 900, true);
	post_batch(qp, true);
	fill_pool(taken, n);
	lw_verbs_flush();
	assert_int_equal(n_records, 1);
	expect(0, 100, 0, 0);
	assert_int_equal(n_lost, 2);
	assert_int_equal(qp->n_untracked[LW_QUEUE_SEND], 0);
	lw_qp_ended(qp);
}

/* A completion is expected only of what asked for one. */
static void posts_without_room_are_awaited_if_they_complete(void **state)
{
	struct lw_qp *qp = make_qp(0, 0);
	uint32_t n, *taken = empty_pool(0, &n);

	(void)state;
	post(qp, LW_QUEUE_SEND, 1, false, 0);
	post(qp, LW_QUEUE_SEND, 2, true, 0);
	post(qp, LW_QUEUE_SEND, 3, true, 1);
	post(qp, LW_QUEUE_RECV, 4, true, 0);
	fill_pool(taken, n);
	poll(qp, LW_QUEUE_SEND, 2, 0);
	poll(qp, LW_QUEUE_RECV, 4, 0);
	post(qp, LW_QUEUE_SEND, 5, true, 0);
	poll(qp, LW_QUEUE_SEND, 99, 0); /* not of the one that was not followed: that is over */
	lw_verbs_flush();
	assert_int_equal(n_lost, 3);
	assert_int_equal(n_records, 2);
	expect(0, 77, 0, LW_RDMA_UNTIMED);
	expect(1, 15, 0, 0);
	lw_qp_ended(qp);
}

static void what_nobody_can_look_at_any_more_is_counted(void **state)
{
	struct lw_qp *qp = make_qp(0, 0);

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		post(qp, LW_QUEUE_SEND, i, true, 0);
	atomic_store(&qp->is_held, 1); /* by a thread that no longer runs */
	lw_qp_flush(qp);
	assert_int_equal(n_lost, 3);
	assert_int_equal(lost_reason, LW_LOSS_UNENDED);
	atomic_store(&qp->is_held, 0);
	lw_qp_flush(qp);
	assert_int_equal(n_records, 3);
	lw_qp_ended(qp);
}

/* First of all tests: no tables are mapped. */
static void a_process_without_memory_says_so_and_its_child_too(void **state)
{
	const struct rlimit none = {0, 0};
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		setrlimit(RLIMIT_AS, &none);
		for (int i = 0; i < 3; i++)
			if (lw_verbs_begin())
				_exit(1);
		live = 0; /* as in a forked child */
		lw_verbs_begin();
		_exit(n_refusals == 2 ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void a_forked_child_tells_its_first_loss_at_once(void **state)
{
	int status;
	pid_t child;

	(void)state;
	assert_true(lw_verbs_begin());
	lw_verbs_lose(LW_LOSS_UNSEEN, 1); /* the first perhaps, and not the last */
	atomic_store(&n_lost, 0);
	lw_verbs_lose(LW_LOSS_UNSEEN, 1);
	assert_int_equal(n_lost, 0);
	child = fork();
	if (child == 0) {
		lw_verbs_lose(LW_LOSS_UNSEEN, 7);
		_exit(n_lost == 7 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	lw_verbs_flush();
}

/* Two hooks may see one being made; an older one of the same number has ended unseen. */
static void a_queue_pair_is_made_once(void **state)
{
	const struct lw_qp_facts facts = {.context = 0x3000, .number = 1};
	int64_t start_ns = lw_now_ns();
	struct lw_qp *qp = lw_qp_created(&facts, start_ns);
	uint32_t serial = qp->serial;

	(void)state;
	assert_ptr_equal(lw_qp_created(&facts, start_ns), qp);
	assert_int_equal(qp->serial, serial);
	qp = lw_qp_created(&facts, lw_now_ns());
	assert_int_equal(qp->serial, serial + 1);
	lw_qp_ended(qp);
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
		struct lw_qp *qp = lw_qp_created(&facts, lw_now_ns());

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
		cmocka_unit_test(a_process_without_memory_says_so_and_its_child_too),
		cmocka_unit_test(a_later_completion_ends_what_asked_for_none),
		cmocka_unit_test(whether_all_is_signalled_is_learned_only_where_nothing_asks),
		cmocka_unit_test(completions_may_come_here_out_of_order),
		cmocka_unit_test(what_is_refused_leaves_no_trace),
		cmocka_unit_test(what_is_refused_in_the_middle_leaves_no_trace),
		cmocka_unit_test(what_is_refused_hides_nothing_behind_it),
		cmocka_unit_test(a_batch_without_room_keeps_the_bytes_of_others_away),
		cmocka_unit_test(posts_without_room_are_awaited_if_they_complete),
		cmocka_unit_test(what_nobody_can_look_at_any_more_is_counted),
		cmocka_unit_test(a_forked_child_tells_its_first_loss_at_once),
		cmocka_unit_test(a_queue_pair_is_made_once),
		cmocka_unit_test(failures_are_put_on_the_right_queue),
		cmocka_unit_test(a_completion_of_an_ended_queue_pair_is_counted),
		cmocka_unit_test(receives_of_a_shared_queue_are_found_by_their_id),
		cmocka_unit_test(threads_that_share_a_queue_pair_lose_nothing),
		cmocka_unit_test(queue_pairs_come_and_go_in_several_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
