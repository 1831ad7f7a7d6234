/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_hook.c - what a call costs with whatever tool watches this process, beside the plain call.
 *
 *	bench_hook [ROUNDS] [CALLS]
 *
 * A round times CALLS calls of each arm, one arm after the other: two reads of the clock, the plain
 * function (PMPI_, or libc's own) and the one a tool may hook (MPI_, or the global name). Neighbours in
 * time share the machine's mood, so a cost is the difference within a round. Prints one JSON line:
 * per arm and per pair the median, 5th and 95th percentile over rounds, ns a call.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tracer/lapwing_mark.h"

enum { MAX_ROUNDS = 5000, WARM_CALLS = 64 };
/* Between rounds, so that the collector keeps up and nothing is dropped: a drop is cheaper. */
static const int64_t round_gap_ns = 4000000;

/*
 * One program for the fake library (tests/lib/fake_mpi.c, MPICH's handles) and for Open MPI, put in its
 * place by LD_LIBRARY_PATH: a handle is a word in both. The plain calls go through the global offset
 * table, so that a tool which patches the procedure linkage table (uftrace) misses them.
 */
#define PLAIN __attribute__((noplt))
int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Barrier(uintptr_t comm);
int MPI_Allreduce(
	const void *in, void *out, int count, uintptr_t type, uintptr_t op, uintptr_t comm);
PLAIN int PMPI_Barrier(uintptr_t comm);
PLAIN int PMPI_Allreduce(
	const void *in, void *out, int count, uintptr_t type, uintptr_t op, uintptr_t comm);

static uintptr_t comm_self = 0x44000001, type_int = 0x4c000405, op_sum = 0x58000003;

static int (*plain_sleep)(clockid_t, int, const struct timespec *, struct timespec *);
static ssize_t (*plain_read)(int, void *, size_t);
static int zero_fd;
static int sent, received;
static volatile int64_t sink_ns;
static double cost_ns[MAX_ROUNDS];

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Each arm is a function with a loop of its own: the call must be the compiler's direct one. */
#define ARM(name, statement)                                                                       \
	static void run_##name(int n)                                                              \
	{                                                                                          \
		for (int i = 0; i < n; i++) {                                                      \
			statement;                                                                 \
		}                                                                                  \
	}
#define ALLREDUCE(p) p##MPI_Allreduce(&sent, &received, 1, type_int, op_sum, comm_self)
ARM(two_clock_reads, sink_ns = now_ns(); sink_ns = now_ns())
ARM(plain_barrier, PMPI_Barrier(comm_self))
ARM(barrier, MPI_Barrier(comm_self))
ARM(plain_allreduce, ALLREDUCE(P))
ARM(allreduce, ALLREDUCE())
/* Refused by libc itself, without a system call. */
ARM(plain_sleep, plain_sleep(CLOCK_THREAD_CPUTIME_ID, 0, NULL, NULL))
ARM(sleep, clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, NULL, NULL))
ARM(plain_read, plain_read(zero_fd, &received, 1))
ARM(read, read(zero_fd, &received, 1))
ARM(range, lapwing_range_push("a range"); lapwing_range_pop())

static struct arm {
	const char *name;
	void (*run)(int n);
	int plain; /* arm it is compared with, -1 = none */
	double ns[MAX_ROUNDS];
} arms[] = {
	{"two_clock_reads", run_two_clock_reads, -1, {0}},
	{"plain_barrier", run_plain_barrier, -1, {0}},
	{"barrier", run_barrier, 1, {0}},
	{"plain_allreduce", run_plain_allreduce, -1, {0}},
	{"allreduce", run_allreduce, 3, {0}},
	{"plain_sleep", run_plain_sleep, -1, {0}},
	{"sleep", run_sleep, 5, {0}},
	{"plain_read", run_plain_read, -1, {0}},
	{"read", run_read, 7, {0}},
	{"range", run_range, -1, {0}},
};
enum { N_ARMS = sizeof(arms) / sizeof(arms[0]) };

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_spread(const char *name, const char *suffix, double *values, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += values[i];
	qsort(values, (size_t)n, sizeof(*values), compare);
	printf(",\"%s%s\":{\"median\":%.2f,\"p5\":%.2f,\"p95\":%.2f,\"mean\":%.2f}", name, suffix,
		(values[(n - 1) / 2] + values[n / 2]) / 2, values[n / 20], values[n - 1 - n / 20],
		sum / n);
}

static void find_handles(void)
{
	if (!dlsym(RTLD_DEFAULT, "ompi_mpi_comm_self"))
		return;
	comm_self = (uintptr_t)dlsym(RTLD_DEFAULT, "ompi_mpi_comm_self");
	type_int = (uintptr_t)dlsym(RTLD_DEFAULT, "ompi_mpi_int");
	op_sum = (uintptr_t)dlsym(RTLD_DEFAULT, "ompi_mpi_op_sum");
}

static void find_plain(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY);

	plain_sleep = libc ? dlsym(libc, "clock_nanosleep") : NULL;
	plain_read = libc ? dlsym(libc, "read") : NULL;
	zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (!plain_sleep || !plain_read || zero_fd < 0) {
		fprintf(stderr, "bench_hook: no libc.so.6 or no /dev/zero to compare with\n");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	int n_rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 400,
	    n_calls = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1000;

	if (n_rounds < 1 || n_rounds > MAX_ROUNDS || n_calls < 1 || n_calls > 20000) {
		fprintf(stderr, "usage: bench_hook [ROUNDS 1..%d] [CALLS 1..20000]\n", MAX_ROUNDS);
		return 2;
	}
	find_plain();
	find_handles();
	MPI_Init(&argc, &argv);
	for (int round = 0; round < n_rounds; round++) {
		nanosleep(&(struct timespec){.tv_nsec = round_gap_ns}, NULL);
		for (int arm = 0; arm < N_ARMS; arm++) {
			int64_t start_ns;

			arms[arm].run(WARM_CALLS);
			start_ns = now_ns();
			arms[arm].run(n_calls);
			arms[arm].ns[round] = (double)(now_ns() - start_ns) / n_calls;
		}
	}
	printf("{\"bench\":\"hook\",\"n_rounds\":%d,\"n_calls\":%d,\"has_lapwing\":%s", n_rounds,
		n_calls, lapwing_mark ? "true" : "false");
	for (int arm = 0; arm < N_ARMS; arm++) { /* sorting below breaks up the rounds */
		if (arms[arm].plain < 0)
			continue;
		for (int round = 0; round < n_rounds; round++)
			cost_ns[round] = arms[arm].ns[round] - arms[arms[arm].plain].ns[round];
		print_spread(arms[arm].name, "_cost_ns", cost_ns, n_rounds);
	}
	for (int arm = 0; arm < N_ARMS; arm++)
		print_spread(arms[arm].name, "_ns", arms[arm].ns, n_rounds);
	printf("}\n");
	MPI_Finalize();
	return 0;
}
