/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_verbs.c - what a post and a poll of RDMA verbs cost when they are hooked, beside the same unhooked.
 *
 *	bench_verbs [ROUNDS] [CALLS]
 *
 * On the double of libibverbs (tests/lib/fake_verbs.c), whose second device is not hooked: both do the same
 * work, a memcpy of 8 bytes. A round times CALLS posts, each with its poll, on one and then the other, then
 * polls of an empty queue. Prints one JSON line: per arm and per pair the median, 5th and 95th percentile
 * over rounds, ns a call.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <infiniband/verbs.h>

#include "base/clock.h"

#undef ibv_reg_mr

enum { MAX_ROUNDS = 5000, WARM_CALLS = 64 };
/* Between rounds, so that the collector keeps up and nothing is dropped: a drop is cheaper. */
static const int64_t round_gap_ns = 4000000;

static struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
} sides[2];
static uint64_t memory[2];
static volatile int64_t sink_ns;
static double cost_ns[MAX_ROUNDS];

static void two_clock_reads(struct side *side, int n)
{
	(void)side;
	for (int i = 0; i < n; i++) {
		sink_ns = lw_clock_ns();
		sink_ns = lw_clock_ns();
	}
}

static void post_and_poll(struct side *side, int n)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	for (int i = 0; i < n; i++) {
		if (ibv_post_send(side->qp, &side->wr, &bad) ||
			ibv_poll_cq(side->cq, 1, &wc) != 1 || wc.status) {
			fprintf(stderr, "bench_verbs: a request failed\n");
			exit(1);
		}
	}
}

static void empty_poll(struct side *side, int n)
{
	struct ibv_wc wc;

	for (int i = 0; i < n; i++)
		sink_ns = ibv_poll_cq(side->cq, 1, &wc);
}

static struct arm {
	const char *name;
	void (*run)(struct side *side, int n);
	int side, plain; /* arm it is compared with, -1 = none */
	double ns[MAX_ROUNDS];
} arms[] = {
	{"two_clock_reads", two_clock_reads, 0, -1, {0}},
	{"plain_post_and_poll", post_and_poll, 1, -1, {0}},
	{"post_and_poll", post_and_poll, 0, 1, {0}},
	{"plain_empty_poll", empty_poll, 1, -1, {0}},
	{"empty_poll", empty_poll, 0, 3, {0}},
};
enum { N_ARMS = sizeof(arms) / sizeof(arms[0]) };

static void open_side(struct side *side, struct ibv_device *device)
{
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 64, .max_recv_wr = 1, .max_send_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};

	side->cq = attr.send_cq = attr.recv_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	side->qp = ibv_create_qp(pd, &attr);
	rts.dest_qp_num = side->qp->qp_num;
	ibv_modify_qp(side->qp, &rts, IBV_QP_STATE | IBV_QP_DEST_QPN);
	side->sge = (struct ibv_sge){(uintptr_t)&memory[0], 8, mr->lkey};
	side->wr = (struct ibv_send_wr){.sg_list = &side->sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)&memory[1], mr->rkey}};
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_spread(const char *name, const char *suffix, double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), compare);
	printf(",\"%s%s\":{\"median\":%.2f,\"p5\":%.2f,\"p95\":%.2f}", name, suffix,
		(values[(n - 1) / 2] + values[n / 2]) / 2, values[n / 20], values[n - 1 - n / 20]);
}

int main(int argc, char **argv)
{
	int n_rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 400,
	    n_calls = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1000, n_devices = 0;
	struct ibv_device **list = ibv_get_device_list(&n_devices);

	if (n_rounds < 1 || n_rounds > MAX_ROUNDS || n_calls < 1 || n_calls > 20000) {
		fprintf(stderr, "usage: bench_verbs [ROUNDS 1..%d] [CALLS 1..20000]\n", MAX_ROUNDS);
		return 2;
	}
	if (n_devices != 2) {
		fprintf(stderr,
			"bench_verbs: runs on the double of libibverbs only (LD_LIBRARY_PATH)\n");
		return 1;
	}
	for (int i = 0; i < 2; i++)
		open_side(&sides[i], list[i]);
	for (int round = 0; round < n_rounds; round++) {
		nanosleep(&(struct timespec){.tv_nsec = round_gap_ns}, NULL);
		for (struct arm *arm = arms; arm < arms + N_ARMS; arm++) {
			int64_t start_ns;

			arm->run(&sides[arm->side], WARM_CALLS);
			start_ns = lw_clock_ns();
			arm->run(&sides[arm->side], n_calls);
			arm->ns[round] = (double)(lw_clock_ns() - start_ns) / n_calls;
		}
	}
	printf("{\"bench\":\"verbs\",\"n_rounds\":%d,\"n_calls\":%d", n_rounds, n_calls);
	for (struct arm *arm = arms; arm < arms + N_ARMS;
		arm++) { /* sorting below breaks up the rounds */
		if (arm->plain < 0)
			continue;
		for (int round = 0; round < n_rounds; round++)
			cost_ns[round] = arm->ns[round] - arms[arm->plain].ns[round];
		print_spread(arm->name, "_cost_ns", cost_ns, n_rounds);
	}
	for (struct arm *arm = arms; arm < arms + N_ARMS; arm++)
		print_spread(arm->name, "_ns", arm->ns, n_rounds);
	printf("}\n");
	return 0;
}
