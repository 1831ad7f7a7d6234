/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mix.h - records as a real Horovod run makes them, for tests and benchmarks: per step 24 tensors are
 * READY and later BATCH_TENSOR, in 6 batches, with their collectives, control rounds and waits.
 */
#ifndef LAPWING_TESTS_LIB_MIX_H
#define LAPWING_TESTS_LIB_MIX_H

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "schema/event.h"

enum { LW_MIX_TENSORS = 24, LW_MIX_PER_STEP = 74 };

/* One letter a record of a step: Ready, Collective, cYcle, batch_Tensor, Batch, Wait. */
static const char lw_mix_step[] = "RRRRRRYC"
				  "RRRRRRYC"
				  "TTTTCB"
				  "RRRRRRYC"
				  "TTTTCB"
				  "RRRRRRYC"
				  "TTTTCBW"
				  "TTTTCBW"
				  "TTTTCBWW"
				  "TTTTCBWW";

static inline int64_t lw_mix_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline uint64_t lw_mix_name(uint64_t tensor, char text[64])
{
	int n = snprintf(text, 64, "allreduce.layer%u.%u.conv%u.weight",
		(unsigned)(tensor / 8 % 4 + 1), (unsigned)(tensor / 2 % 4),
		(unsigned)(tensor % 2 + 1));

	return lw_string_id(text, (uint64_t)n);
}

/* The @i-th record of the mix, at @t0_ns. */
static inline struct lw_event lw_mix_event(uint64_t i, int64_t t0_ns)
{
	uint64_t step = i / LW_MIX_PER_STEP, at = i % LW_MIX_PER_STEP, tensor = i % LW_MIX_TENSORS;
	static uint64_t names[LW_MIX_TENSORS];
	struct lw_event event = {.t0_ns = t0_ns, .t1_ns = t0_ns};
	char text[64];

	if (!names[tensor])
		names[tensor] = lw_mix_name(tensor, text);
	switch (lw_mix_step[at]) {
	case 'R':
		event.kind = LW_EV_READY;
		event.ready = (struct lw_ev_ready){
			.object = UINT64_C(0x7f3a4c001000) + tensor * 4096 + step % 8 * 64};
		break;
	case 'Y':
		event.kind = LW_EV_CYCLE;
		event.op = LW_CYCLE_AND;
		event.t1_ns += 61234;
		event.cycle = (struct lw_ev_cycle){.in_bits = UINT64_C(0x7f87) << at,
			.out_bits = UINT64_C(7) << at,
			.n_words = 2,
			.n_unchanged = 3,
			.unchanged_ns = 183702,
			.unchanged_span_ns = 3012345};
		break;
	case 'C':
		event.kind = LW_EV_COLLECTIVE;
		event.op = LW_COLL_ALLREDUCE;
		event.t1_ns += 1234567;
		event.collective = (struct lw_ev_collective){.comm = UINT64_C(0x9e3779b97f4a7c15),
			.sent_bytes = 262144 + at * 4096,
			.received_bytes = 262144 + at * 4096,
			.root = -1,
			.transport = LW_TRANSPORT_MPI};
		break;
	case 'T':
		event.kind = LW_EV_BATCH_TENSOR;
		event.op = (uint16_t)(at % 4);
		event.batch_tensor = (struct lw_ev_batch_tensor){.batch = step * 6 + at / 12,
			.name = names[tensor],
			.object = UINT64_C(0x7f3a4c001000) + tensor * 4096 + step % 8 * 64,
			.bytes = 65536 + tensor * 1024,
			.dtype = LW_DTYPE_FLOAT32};
		break;
	case 'B':
		event.kind = LW_EV_BATCH;
		event.op = LW_COLL_ALLREDUCE;
		event.t1_ns += 1534567;
		event.batch = (struct lw_ev_batch){.batch = step * 6 + at / 12,
			.bytes = 262144 + at * 4096,
			.fusion_bytes = 134217728,
			.n_tensors = 4,
			.dtype = LW_DTYPE_FLOAT32,
			.framework = LW_FRAMEWORK_HOROVOD};
		break;
	default:
		event.kind = LW_EV_WAIT;
		event.op = LW_WAIT_POLL_SLEEP;
		event.t1_ns += 1060000;
		break;
	}
	return event;
}

/* Defines @text before its first use. @push: appends one record. */
static inline void lw_mix_push_text(void (*push)(void *ring, const struct lw_event *event),
	void *ring, const char *text, int64_t t0_ns)
{
	size_t n = strlen(text);
	struct lw_event event = {.t0_ns = t0_ns, .t1_ns = t0_ns, .kind = LW_EV_STRING};

	event.string.id = lw_string_id(text, n);
	event.string.n_bytes = (uint16_t)n;
	for (size_t at = 0; at < n || at == 0; at += LW_STRING_PART_BYTES, event.op++) {
		memset(event.string.text, 0, sizeof(event.string.text));
		memcpy(event.string.text, text + at,
			n - at < LW_STRING_PART_BYTES ? n - at : LW_STRING_PART_BYTES);
		push(ring, &event);
	}
}

#endif /* LAPWING_TESTS_LIB_MIX_H */
