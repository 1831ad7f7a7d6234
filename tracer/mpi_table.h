/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_table.h - a fixed table from MPI handles to slots, without locks.
 *
 * A handle may lie in 16 places: two buckets of 8, each one cache line of keys. So a look-up costs at
 * most two lines, a removal leaves no trace, and a table is full only when both buckets are (two random
 * choices keep buckets level: in practice above nine tenths of all slots are usable).
 * The caller owns what it stores per slot: fill it between claim and publish.
 */
#ifndef LAPWING_TRACER_MPI_TABLE_H
#define LAPWING_TRACER_MPI_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

enum { LW_TABLE_WAYS = 8, LW_TABLE_PROBES = 16 };
static const uintptr_t LW_TABLE_CLAIMED = 1; /* no MPI has a handle of this value */

struct lw_table {
	_Atomic uintptr_t *keys; /* n_buckets x LW_TABLE_WAYS, 0 = free; 64-byte aligned */
	uint32_t n_buckets;      /* a power of two */
};

/* The @probe-th slot in which @key may lie. */
static inline uint32_t lw_table_slot(const struct lw_table *table, uintptr_t key, uint32_t probe)
{
	uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15); /* Knuth's multiplicative hash */
	uint32_t bucket = (uint32_t)(probe < LW_TABLE_WAYS ? hash >> 40 : hash >> 20);

	return (bucket & (table->n_buckets - 1)) * LW_TABLE_WAYS + (probe & (LW_TABLE_WAYS - 1));
}

/**
 * lw_table_find() - slot of @key, -1 = none. @probe: where to go on (start with 0); set to where the next
 * search for another slot of the same key goes on.
 */
static inline int32_t lw_table_find(const struct lw_table *table, uintptr_t key, uint32_t *probe)
{
	while (*probe < LW_TABLE_PROBES) {
		uint32_t slot = lw_table_slot(table, key, (*probe)++);

		/* pairs with the release in lw_table_publish */
		if (atomic_load_explicit(&table->keys[slot], memory_order_acquire) == key)
			return (int32_t)slot;
	}
	return -1;
}

/** lw_table_claim() - a free slot for @key, not to be found before lw_table_publish(); -1 = full. */
static inline int32_t lw_table_claim(const struct lw_table *table, uintptr_t key)
{
	for (uint32_t probe = 0; probe < LW_TABLE_PROBES; probe++) {
		/* way by way in both buckets in turn, which keeps them level */
		uint32_t at = probe / 2 + (probe & 1) * LW_TABLE_WAYS;
		uint32_t slot = lw_table_slot(table, key, at);
		uintptr_t is_free = 0;

		/* pairs with the release in lw_table_remove: the last owner is done with the slot */
		if (atomic_load_explicit(&table->keys[slot], memory_order_relaxed) == 0 &&
			atomic_compare_exchange_strong_explicit(&table->keys[slot], &is_free,
				LW_TABLE_CLAIMED, memory_order_acquire, memory_order_relaxed))
			return (int32_t)slot;
	}
	return -1;
}

static inline void lw_table_publish(const struct lw_table *table, int32_t slot, uintptr_t key)
{
	/* pairs with the acquire in lw_table_find */
	atomic_store_explicit(&table->keys[slot], key, memory_order_release);
}

static inline void lw_table_remove(const struct lw_table *table, int32_t slot)
{
	/* pairs with the acquire in lw_table_claim */
	atomic_store_explicit(&table->keys[slot], 0, memory_order_release);
}

#endif /* LAPWING_TRACER_MPI_TABLE_H */
