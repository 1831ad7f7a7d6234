/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_cases_full.c - of verbs_cases: queues that are held (in state SQD) or full, long lists, many queue
 * pairs, many threads.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/e2e/programs/verbs_cases.h"

static void hold(struct ibv_qp *ends[2], int n, uint32_t n_bytes)
{
	struct ibv_sge sge;
	struct ibv_send_wr *bad;

	rig_state(ends[0], IBV_QPS_SQD);
	for (int i = 0; i < n; i++) {
		struct ibv_send_wr wr = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, n_bytes);

		wr.send_flags = IBV_SEND_SIGNALED;
		must(ibv_post_send(ends[0], &wr, &bad) == 0);
		rig_account(ends[0]->qp_num, OP_WRITE, NO_STATUS, n_bytes);
	}
}

void case_destroyed(void)
{
	struct ibv_qp *ends[2];

	rig_pair(&rig, NULL, ends);
	for (int i = 0; i < 9; i++)
		rig_post_recv(&rig, ends[0], 0, 4096);
	hold(ends, 5, 700);
	end_pair(ends);
}

void case_reset(void)
{
	struct ibv_qp *ends[2];
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	rig_pair(&rig, NULL, ends);
	hold(ends, 4, 600);
	rig_state(ends[0], IBV_QPS_RESET);
	rig_connect(&rig, ends[0], ends[1]->qp_num);
	wr = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 11);
	wr.send_flags = IBV_SEND_SIGNALED;
	rig_post_send(ends[0], &wr);
	rig_poll(&rig, 1, NULL);
	end_pair(ends);
}

void case_exit(void)
{
	struct ibv_qp *ends[2];

	rig_pair(&rig, NULL, ends);
	hold(ends, 3, 500);
	rig_print_account();
	exit(0);
}

/* A full queue, a list that fits in part, and an errno that stays. */
void case_full(void)
{
	enum { N = 1000 };
	static struct ibv_send_wr list[N];
	struct ibv_qp *ends[2];
	struct ibv_sge sge;
	struct ibv_send_wr *bad = NULL, *first_bad;
	int result, n;

	rig_pair(&rig, NULL, ends);
	rig_state(ends[0], IBV_QPS_SQD);
	for (int i = 0; i < N; i++) {
		list[i] = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 10);
		list[i].wr_id = (uint64_t)i;
		list[i].send_flags = IBV_SEND_SIGNALED;
		list[i].next = i < N - 1 ? &list[i + 1] : NULL;
	}
	errno = 77;
	result = ibv_post_send(ends[0], list, &bad);
	must(abs(result) == ENOMEM && bad);
	first_bad = bad;
	n = (int)(bad - list); /* a real device takes more than it was asked to */
	must(n >= RIG_DEPTH && n < N && (n == RIG_DEPTH || rig_is_real(&rig)));
	result = ibv_post_send(ends[0], first_bad, &bad);
	must(abs(result) == ENOMEM && bad == first_bad);
	if (!rig_is_real(&rig)) { /* refused before it is looked at; librxe looks */
		list[0].num_sge = 100000;
		list[0].next = NULL;
		must(ibv_post_send(ends[0], list, &bad) == EINVAL && bad == list);
	}
	must(errno == 77);
	for (int i = 0; i < n; i++)
		rig_account(ends[0]->qp_num, OP_WRITE, 0, 10);
	rig_state(ends[0], IBV_QPS_RTS);
	if (rig_is_real(&rig)) /* rxe goes on when it is rung */
		must(ibv_post_send(ends[0], first_bad, &bad) != 0 && bad == first_bad);
	rig_poll(&rig, n, NULL);
	errno = 77;
	must(ibv_poll_cq(rig.cq, 1, NULL) == 0 && errno == 77);
	end_pair(ends);
}

/* One post of @n writes, of which the last has a completion; the first @n_account are in the account. */
static void post_list(int n, int n_account)
{
	struct ibv_qp_init_attr attr = {.send_cq = rig.cq,
		.recv_cq = rig.cq,
		.cap = {.max_send_wr = (uint32_t)n + 1, .max_recv_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = v.ibv_create_qp(rig.pd, &attr);
	struct ibv_send_wr *list = calloc((size_t)n, sizeof(*list)), *bad;
	struct ibv_sge sge;

	must(qp && list);
	rig_connect(&rig, qp, qp->qp_num);
	for (int i = 0; i < n; i++) {
		list[i] = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 4);
		list[i].next = i < n - 1 ? &list[i + 1] : NULL;
		if (i < n_account)
			rig_account(qp->qp_num, OP_WRITE, 0, 4);
	}
	list[n - 1].send_flags = IBV_SEND_SIGNALED;
	list[n - 1].wr_id = 9;
	must(ibv_post_send(qp, list, &bad) == 0);
	rig_poll(&rig, 1, NULL);
	list[n - 1].wr_id = 10;
	rig_post_send(qp, &list[n - 1]);
	rig_poll(&rig, 1, NULL);
	must(v.ibv_destroy_qp(qp) == 0);
	free(list);
}

void case_list(void)
{
	int n = rig_is_real(&rig) ? 2000 : 10000;

	post_list(n, n);
}

/* Longer than what is followed of one list. */
void case_long_list(void) /* double: a queue of 70000 */
{
	post_list(70000, 65536);
}

static void many(int n)
{
	struct ibv_qp_init_attr attr = {.send_cq = rig.cq,
		.recv_cq = rig.cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp **qps = calloc((size_t)n, sizeof(struct ibv_qp *));
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	struct ibv_send_wr *bad;
	struct ibv_sge sge;

	for (int i = 0; i < n; i++) {
		struct ibv_send_wr wr = rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 3);

		qps[i] = v.ibv_create_qp(rig.pd, &attr);
		must(qps[i]);
		rts.dest_qp_num = qps[i]->qp_num;
		must(v.ibv_modify_qp(qps[i], &rts, IBV_QP_STATE | IBV_QP_DEST_QPN) == 0);
		wr.send_flags = IBV_SEND_SIGNALED;
		must(ibv_post_send(qps[i], &wr, &bad) == 0);
		rig_poll(&rig, 1, NULL);
	}
	for (int i = 0; i < n; i++)
		must(v.ibv_destroy_qp(qps[i]) == 0);
	printf("many %d\n", n);
	free(qps);
}

void case_many(void) /* double */
{
	many(100000);
}

void case_too_many(void) /* double */
{
	many(140000);
}

/* Threads post on one queue pair and poll one completion queue, while its receives are shared too. */
enum { N_THREADS = 4 };
static struct ibv_qp *shared[2];
static int n_each;
static _Atomic int n_polled;

static void *post_many(void *argument)
{
	struct ibv_sge sge;
	struct ibv_send_wr *bad;

	for (int i = 0; i < n_each;) {
		struct ibv_send_wr wr =
			rig_wr(&rig, &sge, IBV_WR_RDMA_WRITE, 1 + (uint32_t)i % 100);

		wr.wr_id = (uint64_t)(uintptr_t)argument << 32 | (uint64_t)i;
		wr.send_flags = i % 4 == 3 ? IBV_SEND_SIGNALED : 0;
		if (ibv_post_send(shared[(uintptr_t)argument % 2], &wr, &bad) == 0) {
			rig_account(shared[(uintptr_t)argument % 2]->qp_num, OP_WRITE, 0,
				1 + (uint64_t)i % 100);
			i++;
		} else {
			sched_yield(); /* the queue is full: let the others poll */
		}
	}
	return NULL;
}

static void *poll_many(void *unused)
{
	struct ibv_wc wc[7];

	while (n_polled < N_THREADS * n_each / 4) {
		int n = ibv_poll_cq(rig.cq, 7, wc);

		for (int i = 0; i < n; i++)
			must(wc[i].status == IBV_WC_SUCCESS);
		n_polled += n;
	}
	return unused;
}

void case_threads(void)
{
	pthread_t threads[N_THREADS + 2];

	n_each = rig_is_real(&rig) ? 400 : 3000;
	rig_pair(&rig, NULL, shared);
	for (uintptr_t i = 0; i < N_THREADS + 2; i++)
		must(pthread_create(&threads[i], NULL, i < N_THREADS ? post_many : poll_many,
			     (void *)i) == 0);
	for (int i = 0; i < N_THREADS + 2; i++)
		pthread_join(threads[i], NULL);
	end_pair(shared);
}
