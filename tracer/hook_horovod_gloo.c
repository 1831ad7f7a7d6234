/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_horovod_gloo.c - the wire time of a batch when Gloo carries it: COLLECTIVE records.
 *
 * Gloo is linked into Horovod's extension without exported names, but Horovod's own thin classes over
 * it (GlooAlgorithms<T>) have exported vtables: from here to there is exactly the time on the wire,
 * without the copies into and out of the fusion buffer.
 */
#include <stdio.h>
#include <string.h>

#include "tracer/hook_horovod.h"

/* The same on all ranks: a process set has one id everywhere, and ids are not used again. */
static uint64_t comm_of(struct lw_hvd_process_set *set)
{
	struct lw_event event = {.kind = LW_EV_COMM};
	char text[64];
	int n;

	if (set->comm)
		return set->comm;
	n = snprintf(text, sizeof(text), "horovod gloo %d of %d", set->id, set->size);
	set->comm = lw_string_id(text, (uint64_t)n);
	event.op = set->id ? LW_COMM_CREATE : LW_COMM_WORLD;
	event.t0_ns = event.t1_ns = lw_now_ns();
	event.comm.comm = set->comm;
	event.comm.size = set->size;
	event.comm.rank = set->rank;
	event.comm.serial = (uint32_t)set->id;
	event.comm.transport = LW_TRANSPORT_GLOO;
	lw_record(&event);
	return set->comm;
}

/* One call, whatever it is. @sent_bytes: UINT64_MAX = sizes not known */
static uint64_t on_wire(const struct lw_hvd_slot *slot, enum lw_coll op, uint64_t sent_bytes,
	uint64_t received_bytes, int32_t root, void *a, void *b, void *c, void *d, void *e)
{
	struct lw_hvd_process_set *set =
		lw_hvd_process_set(slot->extension, lw_hvd_tls.process_set);
	struct lw_event event = {.kind = LW_EV_COLLECTIVE, .op = (uint16_t)op};
	uint64_t result;

	event.collective.comm = set ? comm_of(set) : 0;
	event.collective.root = root;
	event.collective.transport = LW_TRANSPORT_GLOO;
	if (sent_bytes == UINT64_MAX) {
		event.collective.flags = LW_COLL_NO_BYTES;
	} else {
		event.collective.sent_bytes = sent_bytes;
		event.collective.received_bytes = received_bytes;
	}
	event.t0_ns = lw_now_ns();
	lw_hvd_open(LW_HVD_OPEN_WIRE, &event, (uintptr_t)__builtin_frame_address(0));
	result = slot->real(a, b, c, d, e);
	event.t1_ns = lw_now_ns();
	lw_hvd_close(LW_HVD_OPEN_WIRE, &event);
	return result;
}

static bool is_watched(void)
{
	return lw_is_live() && lw_hvd_is_open(LW_HVD_OPEN_BATCH);
}

/* Sum of @n counts of @width bytes each (int or int64_t). */
static uint64_t sum(const char *counts, size_t n, size_t width)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t count = 0;

		memcpy(&count, counts + i * width, width);
		total += width == 4 ? (uint64_t)(int32_t)count : (uint64_t)count;
	}
	return total;
}

/* void Allreduce(void *buffer, int num_elements[, ReduceOp]) */
uint64_t lw_hvd_on_gloo_allreduce(
	const struct lw_hvd_slot *slot, void *self, void *buffer, void *n, void *d, void *e)
{
	uint64_t bytes = (uint64_t)(uint32_t)(uintptr_t)n * slot->detail;

	if (!is_watched())
		return slot->real(self, buffer, n, d, e);
	return on_wire(slot, LW_COLL_ALLREDUCE, bytes, bytes, -1, self, buffer, n, d, e);
}

/* void Allgather(void *in, void *out, int *recvcounts, int *displacements) */
uint64_t lw_hvd_on_gloo_allgather(
	const struct lw_hvd_slot *slot, void *self, void *in, void *out, void *counts, void *e)
{
	struct lw_hvd_process_set *set;
	uint64_t sent_bytes = UINT64_MAX, received_bytes = 0;

	if (!is_watched())
		return slot->real(self, in, out, counts, e);
	set = lw_hvd_process_set(slot->extension, lw_hvd_tls.process_set);
	if (set) {
		sent_bytes = sum((const char *)counts + 4 * (size_t)set->rank, 1, 4) * slot->detail;
		received_bytes = sum(counts, (size_t)set->size, 4) * slot->detail;
	}
	return on_wire(
		slot, LW_COLL_ALLGATHER, sent_bytes, received_bytes, -1, self, in, out, counts, e);
}

/* void Broadcast(void *buffer, int num_elements, int root) */
uint64_t lw_hvd_on_gloo_broadcast(
	const struct lw_hvd_slot *slot, void *self, void *buffer, void *n, void *root, void *e)
{
	struct lw_hvd_process_set *set;
	uint64_t bytes = (uint64_t)(uint32_t)(uintptr_t)n * slot->detail;
	int32_t root_rank = (int32_t)(intptr_t)root;
	bool is_root;

	if (!is_watched())
		return slot->real(self, buffer, n, root, e);
	set = lw_hvd_process_set(slot->extension, lw_hvd_tls.process_set);
	is_root = set && set->rank == root_rank;
	return on_wire(slot, LW_COLL_BROADCAST, !set || is_root ? bytes : 0,
		!set || !is_root ? bytes : 0, root_rank, self, buffer, n, root, e);
}

/* void Alltoall(void *in, void *out, vector<int64_t> &sendcounts, vector<int64_t> &recvcounts) */
uint64_t lw_hvd_on_gloo_alltoall(const struct lw_hvd_slot *slot, void *self, void *in, void *out,
	void *sends, void *receives)
{
	const struct lw_hvd_vector *send = sends, *receive = receives;

	if (!is_watched())
		return slot->real(self, in, out, sends, receives);
	return on_wire(slot, LW_COLL_ALLTOALL,
		sum(send->begin, (size_t)(send->end - send->begin) / 8, 8) * slot->detail,
		sum(receive->begin, (size_t)(receive->end - receive->begin) / 8, 8) * slot->detail,
		-1, self, in, out, sends, receives);
}

/* void Reducescatter(void *buffer, vector<int> &recvcounts) */
uint64_t lw_hvd_on_gloo_reducescatter(
	const struct lw_hvd_slot *slot, void *self, void *buffer, void *counts, void *d, void *e)
{
	const struct lw_hvd_vector *count = counts;
	struct lw_hvd_process_set *set;
	size_t n = (size_t)(count->end - count->begin) / 4;
	uint64_t own_bytes = 0;

	if (!is_watched())
		return slot->real(self, buffer, counts, d, e);
	set = lw_hvd_process_set(slot->extension, lw_hvd_tls.process_set);
	if (set && (size_t)set->rank < n)
		own_bytes = sum(count->begin + 4 * set->rank, 1, 4) * slot->detail;
	return on_wire(slot, LW_COLL_REDUCESCATTER, sum(count->begin, n, 4) * slot->detail,
		own_bytes, -1, self, buffer, counts, d, e);
}
