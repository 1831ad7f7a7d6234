/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_nccl.c - what NCCL's profiler plugin costs a collective, beside a plugin that does nothing.
 *
 *	bench_nccl [ROUNDS] [CALLS]
 *
 * Makes the calls that NCCL 2.28 (version 5 of the interface) makes for an allreduce over two channels, each with a
 * proxy operation to send and one to receive, of two steps: to the plugin of the tracer that is preloaded, and to one
 * in this program whose functions return at once. A round times CALLS collectives of one and then the other, and
 * apart what of them NCCL's calling thread makes. Prints one JSON line: median, 5th and 95th percentile over rounds,
 * ns a collective.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tracer/nccl_abi.h"

enum { MAX_ROUNDS = 5000, WARM_CALLS = 64, N_CHANNELS = 2, N_STEPS = 2 };
/* Between rounds, so that the collector keeps up and nothing is dropped: a drop is cheaper. */
static const int64_t round_gap_ns = 4000000;

struct table {
	const char *name;
	int (*init)(void **context, uint64_t hash, int *mask, const char *name, int n_nodes,
		int n_ranks, int rank, void (*log)(void));
	int (*start)(void *context, void **handle, void *event);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *arguments);
	int (*finalize)(void *context);
};

static int no_init(void **context, uint64_t hash, int *mask, const char *name, int n_nodes,
	int n_ranks, int rank, void (*log)(void))
{
	(void)hash, (void)name, (void)n_nodes, (void)n_ranks, (void)rank, (void)log;
	*context = context;
	*mask = 0xfff;
	return 0;
}

static int no_start(void *context, void **handle, void *event)
{
	(void)event;
	*handle = context;
	return 0;
}

static int no_stop(void *handle)
{
	(void)handle;
	return 0;
}

static int no_state(void *handle, int state, void *arguments)
{
	(void)handle, (void)state, (void)arguments;
	return 0;
}

static const struct table nothing = {"nothing", no_init, no_start, no_stop, no_state, no_stop};

static int own_pid; /* asked once, as NCCL does */

static struct side {
	const struct table *table;
	void *context;
	int mask;
} sides[2];

static void *start(struct side *side, uint64_t type, void *parent, struct lw_nccl_event_v6 *event)
{
	void *handle = NULL;

	event->type = type;
	event->parent = parent;
	side->table->start(side->context, &handle, event);
	return handle;
}

/* The calling thread's part. Return: handle of the collective's event. */
static void *enqueue(struct side *side)
{
	struct lw_nccl_event_v6 group = {.group_api = {.depth = 1}}, launch = {0}, plan = {0};
	struct lw_nccl_event_v6 api = {
		.coll_api = {.func = "AllReduce", .count = 1024, .datatype = "ncclFloat32"}};
	struct lw_nccl_event_v6 coll = {.coll = {.func = "AllReduce",
						.count = 1024,
						.datatype = "ncclFloat32",
						.n_channels = N_CHANNELS,
						.algo = "RING",
						.proto = "SIMPLE"}};
	void *group_api = start(side, LW_NCCL_PROFILE_GROUP_API, NULL, &group);
	void *coll_api = start(side, LW_NCCL_PROFILE_COLL_API, group_api, &api), *launched, *task;

	side->table->state(group_api, LW_NCCL_STATE_GROUP_START_API_STOP, NULL);
	side->table->stop(coll_api);
	side->table->state(group_api, LW_NCCL_STATE_GROUP_END_API_START, NULL);
	launched = start(side, LW_NCCL_PROFILE_KERNEL_LAUNCH, group_api, &launch);
	side->table->stop(launched);
	coll.coll.parent_group = start(side, LW_NCCL_PROFILE_GROUP, NULL, &plan);
	task = start(side, LW_NCCL_PROFILE_COLL, coll_api, &coll);
	side->table->stop(task);
	side->table->stop(coll.coll.parent_group);
	side->table->stop(group_api);
	return task;
}

/* The proxy thread's part. */
static void move(struct side *side, void *task)
{
	static const int states[2][3] = {
		{LW_NCCL_STATE_STEP_RECV_WAIT, LW_NCCL_STATE_STEP_RECV_FLUSH_WAIT,
			LW_NCCL_STATE_STEP_RECV_GPU_WAIT},
		{LW_NCCL_STATE_STEP_SEND_GPU_WAIT, LW_NCCL_STATE_STEP_SEND_PEER_WAIT,
			LW_NCCL_STATE_STEP_SEND_WAIT}};
	union lw_nccl_state_arguments arguments = {.proxy = {.transferred_bytes = 2048}};
	void *proxies[2 * N_CHANNELS];

	for (int i = 0; i < 2 * N_CHANNELS; i++) {
		struct lw_nccl_event_v6 event = {.proxy_op = {.pid = own_pid,
							 .channel = (uint8_t)(i / 2),
							 .peer = 1,
							 .n_steps = N_STEPS,
							 .is_send = i % 2}};

		proxies[i] = start(side, LW_NCCL_PROFILE_PROXY_OP, task, &event);
		side->table->state(proxies[i], LW_NCCL_STATE_OP_IN_PROGRESS, &arguments);
	}
	for (int i = 0; i < 2 * N_CHANNELS; i++) {
		for (int k = 0; k < N_STEPS; k++) {
			struct lw_nccl_event_v6 event = {.proxy_step = {.step = k}};
			void *step = start(side, LW_NCCL_PROFILE_PROXY_STEP, proxies[i], &event);

			for (int s = 0; s < 3; s++)
				side->table->state(step, states[i % 2][s], &arguments);
			side->table->stop(step);
		}
		side->table->stop(proxies[i]);
	}
}

static void collectives(struct side *side, int n)
{
	for (int i = 0; i < n; i++)
		move(side, enqueue(side));
}

static void only_enqueue(struct side *side, int n)
{
	for (int i = 0; i < n; i++)
		enqueue(side);
}

static volatile int64_t sink_ns;
static void two_clock_reads(struct side *side, int n)
{
	(void)side;
	for (int i = 0; i < n; i++) {
		sink_ns = lw_clock_ns();
		sink_ns = lw_clock_ns();
	}
}

static double cost_ns[MAX_ROUNDS];
static struct arm {
	const char *name;
	void (*run)(struct side *side, int n);
	int side, plain; /* arm it is compared with, -1 = none */
	double ns[MAX_ROUNDS];
} arms[] = {
	{"two_clock_reads", two_clock_reads, 0, -1, {0}},
	{"nothing_collective", collectives, 1, -1, {0}},
	{"collective", collectives, 0, 1, {0}},
	{"nothing_enqueue", only_enqueue, 1, -1, {0}},
	{"enqueue", only_enqueue, 0, 3, {0}},
};
enum { N_ARMS = sizeof(arms) / sizeof(arms[0]) };

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
	    n_calls = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 200;

	if (n_rounds < 1 || n_rounds > MAX_ROUNDS || n_calls < 1 || n_calls > 2000) {
		fprintf(stderr, "usage: bench_nccl [ROUNDS 1..%d] [CALLS 1..2000]\n", MAX_ROUNDS);
		return 2;
	}
	sides[0].table = dlsym(RTLD_DEFAULT, "ncclProfiler_v5");
	sides[1].table = &nothing;
	own_pid = (int)getpid();
	if (!sides[0].table) {
		fprintf(stderr, "bench_nccl: no plugin here: `lapwing record -- bench_nccl`\n");
		return 1;
	}
	for (int i = 0; i < 2; i++)
		sides[i].table->init(&sides[i].context, 7, &sides[i].mask, "", 1, 2, 0, NULL);
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
	for (int i = 0; i < 2; i++)
		sides[i].table->finalize(sides[i].context);
	printf("{\"bench\":\"nccl\",\"n_rounds\":%d,\"n_calls\":%d", n_rounds, n_calls);
	for (struct arm *arm = arms; arm < arms + N_ARMS; arm++) {
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
