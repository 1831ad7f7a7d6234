/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_nvtx.c - what a range of NVTX and a call of NCCL cost with whatever tool watches this process.
 *
 *	bench_nvtx [ROUNDS] [CALLS]
 *
 * A round times CALLS of each arm, one arm after the other: two looks at the clock, a range that nobody takes, ranges of a
 * user, of torch's emit_nvtx and of NCCL (with its payload), and ncclSend of a library that does nothing, by its address and
 * by its name, which a tool may interpose. Prints one JSON line: per arm median, 5th and 95th percentile over rounds, ns.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/e2e/programs/nvtx_double.h"
#include "tests/lib/stub_nccl.h"
#include "tracer/lapwing_mark.h"

enum { ROUNDS_MAX = 5000, WARM_CALLS = 64 };
static const struct timespec round_gap = {
	.tv_nsec = 4000000}; /* for the collector to keep up: a drop is cheaper */

static struct nvtx_copy nvtx;
static const void *mine, *nccl, *mine_text, *nccl_text;
static ncclResult_t (*plain_send)(
	const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
static ncclComm_t comm;
static volatile int64_t sink_ns;
static unsigned long n_ranges;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void clocks(void)
{
	sink_ns = now_ns();
	sink_ns -= now_ns();
}

static void push_pop(const void *domain, const void *text, const void *payload)
{
	const struct nvtx_attributes attributes = {.version = 2,
		.size = sizeof(attributes),
		.message_type = 3,
		.message = text,
		.payload_type = payload ? (int32_t)0xDFBD0009 : 0,
		.n_payloads = 1,
		.payload = (int64_t)(intptr_t)payload};

	NVTX_CALL(int (*)(const void *, const void *), nvtx.core2[4], domain, &attributes);
	NVTX_CALL(int (*)(const void *), nvtx.core2[5], domain);
}

static void range_not_taken(void)
{
	nvtx_not_taken();
	nvtx_not_taken();
}

static void range(void)
{
	push_pop(mine, mine_text, NULL);
}

static void range_of_torch(void)
{
	char text[100];

	snprintf(text, sizeof(text), "aten::convolution_backward, seq = %lu, op_id = %lu", n_ranges,
		2 * n_ranges);
	n_ranges++;
	NVTX_CALL(int (*)(const char *), nvtx.core[9], text);
	NVTX_CALL(int (*)(void), nvtx.core[11]);
}

static void text_of_torch(void) /* what of it is not NVTX */
{
	char text[100];

	snprintf(text, sizeof(text), "aten::convolution_backward, seq = %lu, op_id = %lu", n_ranges,
		2 * n_ranges);
	sink_ns = text[20];
}

static void range_of_nccl(void)
{
	const struct {
		uint64_t comm, bytes;
		int root;
	} values = {STUB_NCCL_NVTX_NAME, 4096, -1};
	const struct {
		uint64_t schema;
		size_t n_bytes;
		const void *data;
	} payload = {1 << 24, sizeof(values), &values};

	push_pop(nccl, nccl_text, &payload);
}

static void send_plain(void)
{
	plain_send(NULL, 1024, 7, 0, comm, NULL);
}

static void send_by_name(void)
{
	ncclSend(NULL, 1024, 7, 0, comm, NULL);
}

static const struct arm {
	const char *name;
	void (*run)(void);
} arms[] = {{"two_clocks", clocks}, {"range_not_taken", range_not_taken}, {"range", range},
	{"text_of_torch", text_of_torch}, {"range_of_torch", range_of_torch},
	{"range_of_nccl", range_of_nccl}, {"send_plain", send_plain},
	{"send_by_name", send_by_name}};
enum { N_ARMS = sizeof(arms) / sizeof(arms[0]) };
static double cost_ns[N_ARMS][ROUNDS_MAX];

static int by_value(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void prepare(void)
{
	static const struct {
		uint64_t flags, type;
		const char *name, *description;
		uint64_t detail, offset;
		const void *semantics, *reserved;
	} entries[] = {{0, 18, "NCCL communicator ID", NULL, 0, 0, NULL, NULL},
		{0, 22, "Message size [bytes]", NULL, 0, 8, NULL, NULL},
		{0, 5, "Root", NULL, 0, 16, NULL, NULL}};
	const struct {
		uint64_t fields;
		const char *name;
		uint64_t type, flags;
		const void *entries;
		size_t n, n_bytes, pack;
		uint64_t id;
	} schema = {
		1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 8, NULL, 1, 0, entries, 3, 24, 0, 1 << 24};
	void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
	ncclUniqueId id;

	nvtx_load(&nvtx, NVTX_N_PAYLOAD, 0x0103);
	lapwing_mark_step(1);
	mine = NVTX_CALL(const void *(*)(const char *), nvtx.core2[12], "mine");
	nccl = NVTX_CALL(const void *(*)(const char *), nvtx.core2[12], "NCCL");
	mine_text = NVTX_CALL(
		const void *(*)(const void *, const char *), nvtx.core2[10], mine, "batch");
	nccl_text = NVTX_CALL(
		const void *(*)(const void *, const char *), nvtx.core2[10], nccl, "ncclAllReduce");
	NVTX_CALL(uint64_t(*)(const void *, const void *), nvtx.payload[0], nccl, &schema);
	plain_send = library ? (__typeof__(plain_send))(uintptr_t)dlsym(library, "ncclSend") : NULL;
	ncclGetUniqueId(&id);
	ncclCommInitRank(&comm, 2, id, 0);
}

int main(int argc, char **argv)
{
	int n_rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 200;
	int n_calls = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 100;

	if (n_rounds < 1 || n_rounds > ROUNDS_MAX || n_calls < 1)
		return 2;
	prepare();
	if (!plain_send)
		return 1;
	for (int round = 0; round < n_rounds; round++) {
		for (int arm = 0; arm < N_ARMS; arm++) {
			int64_t t0_ns;

			for (int i = 0; i < WARM_CALLS; i++)
				arms[arm].run();
			t0_ns = now_ns();
			for (int i = 0; i < n_calls; i++)
				arms[arm].run();
			cost_ns[arm][round] = (double)(now_ns() - t0_ns) / n_calls;
		}
		nanosleep(&round_gap, NULL);
	}
	printf("{\"n_rounds\": %d, \"n_calls\": %d", n_rounds, n_calls);
	for (int arm = 0; arm < N_ARMS; arm++) {
		qsort(cost_ns[arm], (size_t)n_rounds, sizeof(double), by_value);
		printf(", \"%s\": {\"median\": %.1f, \"p5\": %.1f, \"p95\": %.1f}", arms[arm].name,
			cost_ns[arm][n_rounds / 2], cost_ns[arm][n_rounds / 20],
			cost_ns[arm][n_rounds - 1 - n_rounds / 20]);
	}
	printf("}\n");
	return 0;
}
