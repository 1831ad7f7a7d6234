/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counter.h - two readings of a counter that only counts up: how much was counted between them.
 *
 * It may have wrapped (its highest value, then 0) or begun anew (driver reloaded, device reset). Both
 * look the same: it fell. A wrap is taken where the step over the top is short and nothing else of the
 * same device fell with it.
 */
#ifndef LAPWING_COLLECTOR_COUNTER_H
#define LAPWING_COLLECTOR_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

enum lw_counter_change {
	LW_COUNTER_SAME,
	LW_COUNTER_GREW,
	LW_COUNTER_WRAPPED,
	LW_COUNTER_RESET, /* or a reading that cannot follow the one before it */
};

/**
 * lw_counter_step() - from reading @before to reading @now of a counter of @bits (1 to 64).
 * @is_alone: no other counter of its device fell between these readings
 * *@ret_delta: counts between; after a reset those since it, or 0 when even that cannot be.
 */
enum lw_counter_change lw_counter_step(
	unsigned bits, uint64_t before, uint64_t now, bool is_alone, uint64_t *ret_delta);

/** lw_counter_first() - a first reading times @scale as the store has it: 62 bits. */
int64_t lw_counter_first(uint64_t reading, unsigned scale);

/** lw_counter_add() - @total + @delta * @scale, at most INT64_MAX. */
int64_t lw_counter_add(int64_t total, uint64_t delta, unsigned scale);

#endif /* LAPWING_COLLECTOR_COUNTER_H */
