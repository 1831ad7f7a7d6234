/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h - one producer, one consumer, 64-byte records, in a shared file.
 *
 * Each traced thread has its own ring file RING_DIR/<pid>.<tid>.<serial>.ring. The producer writes
 * the record, then publishes it by storing head; so whatever a reader sees below head is whole, also
 * after kill -9 of the producer (the file outlives it) or of the consumer (tail is in the file too).
 * Full ring: the record is dropped and counted, never waited for.
 *
 *	pushed = popped + lost            (once drained; a property test)
 *	seq of a record = pushes so far   (so a gap in seq shows where records were lost)
 */
#ifndef LAPWING_SCHEMA_RING_H
#define LAPWING_SCHEMA_RING_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "schema/event.h"

#define LW_RING_MAGIC UINT64_C(0x31676e6972776c) /* "lwring1" */
enum { LW_RING_HEADER_BYTES = 4096, LW_RING_MIN_RECORDS = 64, LW_RING_MAX_RECORDS = 1 << 22 };

struct lw_ring_header {
	/* Set once before the file gets its final name; never changed after. */
	uint64_t magic;
	uint32_t event_version;
	uint32_t n_records; /* a power of two */
	uint32_t pid, tid;
	uint32_t serial; /* of this ring within its process, from 0 */
	uint32_t reserved;
	int64_t process_start_ticks; /* field 22 of /proc/PID/stat: tells a reused pid */
	int64_t created_ns;          /* CLOCK_MONOTONIC */

	alignas(64) _Atomic uint64_t head; /* records published; producer only */
	_Atomic uint64_t lost;             /* records dropped because full; producer only */
	_Atomic uint32_t closed;           /* 1: the thread or process ended in order */
	alignas(64) _Atomic uint64_t tail; /* records consumed; consumer only */
};
static_assert(sizeof(struct lw_ring_header) <= LW_RING_HEADER_BYTES, "header fits its page");

static inline size_t lw_ring_file_bytes(uint32_t n_records)
{
	return LW_RING_HEADER_BYTES + (size_t)n_records * LW_EVENT_BYTES;
}

static inline struct lw_event *lw_ring_records(struct lw_ring_header *ring)
{
	return (struct lw_event *)((char *)ring + LW_RING_HEADER_BYTES);
}

/** lw_ring_init() - lay out an empty ring in zeroed memory of lw_ring_file_bytes(n_records). */
static inline void lw_ring_init(struct lw_ring_header *ring, uint32_t n_records, uint32_t pid,
	uint32_t tid, uint32_t serial)
{
	ring->event_version = LW_EVENT_VERSION;
	ring->n_records = n_records;
	ring->pid = pid;
	ring->tid = tid;
	ring->serial = serial;
	ring->magic = LW_RING_MAGIC;
}

/**
 * lw_ring_push() - producer: append a copy of *@event; its seq is set here.
 * Wait-free, async-signal-safe unless it interrupts itself (the tracer's guard prevents that).
 * Return: true, or false when the ring was full and the loss was counted.
 */
static inline bool lw_ring_push(struct lw_ring_header *ring, const struct lw_event *event)
{
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	/* pairs with the release in lw_ring_advance: the slot is free before it is written again */
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	uint64_t lost = atomic_load_explicit(&ring->lost, memory_order_relaxed);
	struct lw_event *slot;

	if (head - tail >= ring->n_records) {
		atomic_store_explicit(&ring->lost, lost + 1, memory_order_relaxed);
		return false;
	}
	slot = lw_ring_records(ring) + (head & (ring->n_records - 1));
	*slot = *event;
	slot->seq = (uint32_t)(head + lost);
	/* pairs with the acquire in lw_ring_available */
	atomic_store_explicit(&ring->head, head + 1, memory_order_release);
	return true;
}

/**
 * lw_ring_available() - consumer: how many records wait, and where the first run of them lies.
 * @ret_first: first record; @ret_n_contiguous of them follow each other in memory
 * A head that cannot be (corrupt file) gives 0 and sets *@ret_corrupt.
 * Return: records waiting, at most n_records.
 */
static inline uint64_t lw_ring_available(struct lw_ring_header *ring, uint32_t n_records,
	struct lw_event **ret_first, uint64_t *ret_n_contiguous, bool *ret_corrupt)
{
	/* pairs with the release in lw_ring_push */
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint64_t n = head - tail, at = tail & (n_records - 1);

	*ret_corrupt = n > n_records;
	if (*ret_corrupt)
		n = 0;
	*ret_first = lw_ring_records(ring) + at;
	*ret_n_contiguous = n < n_records - at ? n : n_records - at;
	return n;
}

/** lw_ring_advance() - consumer: @n records are safely stored; their slots may be reused. */
static inline void lw_ring_advance(struct lw_ring_header *ring, uint64_t n)
{
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	/* pairs with the acquire in lw_ring_push */
	atomic_store_explicit(&ring->tail, tail + n, memory_order_release);
}

#endif /* LAPWING_SCHEMA_RING_H */
