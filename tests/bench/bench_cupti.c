/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_cupti.c - what a record of CUPTI's costs to read, and what the other hooks pay to say what it is for.
 *
 *	bench_cupti [ROUNDS]
 *
 * Records: a buffer of 4 MiB as a training step leaves it (a launch, its kernel; every eighth a copy), parsed,
 * beside a walk that reads the kind of each and copies 64 bytes. Enter and leave: around a call that does
 * nothing, with CUPTI off, beside the same call without them. Prints one JSON line: per arm the median, 5th and
 * 95th percentile over rounds, ns a record or a call.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tracer/cupti.h"
#include "tracer/cupti_layout.h"
#include "tracer/cupti_records.h"

enum { BUFFER_BYTES = 4 << 20, MAX_ROUNDS = 5000, N_CALLS = 20000 };
enum { KERNEL_BYTES = 216, COPY_BYTES = 96 }; /* of CUDA 13 */

_Atomic bool lw_cupti_is_attached; /* false: what a job without a GPU pays */

void lw_cupti_push(enum lw_launch_for made_for, uint64_t serial)
{
	(void)made_for;
	(void)serial;
}

void lw_cupti_pop(enum lw_launch_for made_for)
{
	(void)made_for;
}

static uint8_t buffer[BUFFER_BYTES];
static size_t n_used, n_records;
static struct lw_cupti_parser parser;
static volatile uint64_t sink;

static uint8_t *append(uint32_t kind, size_t n_bytes)
{
	uint8_t *record = buffer + n_used;

	memcpy(record, &kind, sizeof(kind));
	n_used += n_bytes;
	n_records++;
	return record;
}

static void put(uint8_t *record, size_t offset, uint64_t value, size_t n_bytes)
{
	memcpy(record + offset, &value, n_bytes);
}

static void fill(void)
{
	for (uint32_t i = 1; n_used + LW_CUPTI_API_BYTES + KERNEL_BYTES + COPY_BYTES < BUFFER_BYTES;
		i++) {
		uint8_t *record = append(LW_CUPTI_KIND_RUNTIME, LW_CUPTI_API_BYTES);

		put(record, LW_CUPTI_API_CALL, i % 8 ? 211 : 41, 4);
		put(record, LW_CUPTI_API_START, 1000 + i, 8);
		put(record, LW_CUPTI_API_END, 2000 + i, 8);
		put(record, LW_CUPTI_API_CORRELATION, i, 4);
		if (i % 8) {
			record = append(LW_CUPTI_KIND_CONCURRENT_KERNEL, KERNEL_BYTES);
			put(record, LW_CUPTI_KERNEL_START, 3000 + i, 8);
			put(record, LW_CUPTI_KERNEL_END, 4000 + i, 8);
			put(record, LW_CUPTI_KERNEL_CORRELATION, i, 4);
		} else {
			record = append(LW_CUPTI_KIND_MEMCPY, COPY_BYTES);
			record[LW_CUPTI_COPY_KIND] = 1;
			put(record, LW_CUPTI_COPY_START, 3000 + i, 8);
			put(record, LW_CUPTI_COPY_END, 4000 + i, 8);
			put(record, LW_CUPTI_COPY_CORRELATION, i, 4);
		}
	}
}

/* As cuptiActivityGetNextRecord steps: by the size of the kind. */
static size_t bytes_of(const uint8_t *record)
{
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	return kind == LW_CUPTI_KIND_CONCURRENT_KERNEL ? KERNEL_BYTES
	       : kind == LW_CUPTI_KIND_MEMCPY          ? COPY_BYTES
						       : LW_CUPTI_API_BYTES;
}

static size_t parse(void)
{
	struct lw_cupti_record record;
	uint64_t sum = 0;

	memset(parser.launched, 0, sizeof(parser.launched));
	for (size_t at = 0; at < n_used; at += bytes_of(buffer + at)) {
		if (lw_cupti_parse(&parser, buffer + at, bytes_of(buffer + at), &record) !=
			LW_CUPTI_IS_EVENT)
			abort();
		sum += (uint64_t)record.event.t1_ns;
	}
	sink = sum;
	return n_records;
}

static size_t walk(void)
{
	struct lw_event event;
	uint64_t sum = 0;

	for (size_t at = 0; at < n_used; at += bytes_of(buffer + at)) {
		memcpy(&event, buffer + at, LW_CUPTI_API_BYTES);
		sum += (uint64_t)event.t1_ns;
	}
	sink = sum;
	return n_records;
}

static __attribute__((noinline)) void call(uint64_t serial)
{
	sink = serial;
	__asm__ volatile("" ::: "memory");
}

static size_t plain_calls(void)
{
	for (uint64_t i = 0; i < N_CALLS; i++)
		call(i);
	return N_CALLS;
}

static size_t told_calls(void)
{
	for (uint64_t i = 0; i < N_CALLS; i++) {
		lw_cupti_enter(LW_LAUNCH_FOR_NCCL_OP, i);
		call(i);
		lw_cupti_leave(LW_LAUNCH_FOR_NCCL_OP);
	}
	return N_CALLS;
}

static struct arm {
	const char *name;
	size_t (*run)(void);
	double ns[MAX_ROUNDS];
} arms[] = {{"walk", walk, {0}}, {"parse", parse, {0}}, {"call", plain_calls, {0}},
	{"told_call", told_calls, {0}}};
enum { N_ARMS = sizeof(arms) / sizeof(arms[0]) };

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int n_rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 300;

	if (n_rounds < 1 || n_rounds > MAX_ROUNDS) {
		fprintf(stderr, "usage: bench_cupti [ROUNDS 1..%d]\n", MAX_ROUNDS);
		return 2;
	}
	fill();
	for (int round = 0; round < n_rounds; round++)
		for (struct arm *arm = arms; arm < arms + N_ARMS; arm++) {
			int64_t start_ns = lw_clock_ns();
			size_t n = arm->run();

			arm->ns[round] = (double)(lw_clock_ns() - start_ns) / (double)n;
		}
	printf("{\"bench\":\"cupti\",\"n_rounds\":%d,\"n_records\":%zu", n_rounds, n_records);
	for (struct arm *arm = arms; arm < arms + N_ARMS; arm++) {
		qsort(arm->ns, (size_t)n_rounds, sizeof(double), compare);
		printf(",\"%s_ns\":{\"median\":%.2f,\"p5\":%.2f,\"p95\":%.2f}", arm->name,
			arm->ns[n_rounds / 2], arm->ns[n_rounds / 20],
			arm->ns[n_rounds - 1 - n_rounds / 20]);
	}
	printf("}\n");
	return 0;
}
