/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe_schedule.h - which collective of a probe comes next, decided alike on all ranks.
 *
 * Pure. Each operation of a probe is a bit-wise AND over all ranks, and its first word carries the votes of
 * every rank: is there time left, and does another operation of each size fit? What all agree on comes
 * back, and from that alone every rank chooses the same next operation. No rank can be left behind.
 *
 * Sizes take turns, a burst each, in another order in every pass: what changes with time (a cold cache,
 * a neighbour's traffic) does not look like an effect of the size. The first of a burst finds an idle
 * wire, the others follow at once, since the cost under load is what is wanted.
 */
#ifndef LAPWING_TRACER_PROBE_SCHEDULE_H
#define LAPWING_TRACER_PROBE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	LW_PROBE_N_SIZES = 11,  /* a prime: any stride visits all of them */
	LW_PROBE_N_PASSES = 24, /* at most: a fast network does not need all the time it is given */
	LW_PROBE_MAX_BYTES = 32 << 20,
};

struct lw_probe_size {
	uint32_t bytes; /* a multiple of 8 */
	uint32_t n_burst;
};
extern const struct lw_probe_size lw_probe_sizes[LW_PROBE_N_SIZES];

struct lw_probe_schedule {
	int64_t budget_ns;
	/* the same on all ranks */
	bool is_over;
	uint32_t size;            /* of the next operation, index into lw_probe_sizes */
	uint32_t number;          /* operations so far */
	uint32_t burst, position; /* of the next operation; its place in the burst */
	uint32_t pass, turn;
	/* of this rank */
	int64_t spent_ns[LW_PROBE_N_SIZES];
	uint32_t n_done[LW_PROBE_N_SIZES];
};

void lw_probe_start(struct lw_probe_schedule *schedule, int64_t budget_ns);

/** lw_probe_vote() - the first word of the next operation. @elapsed_ns: since the probe began */
uint64_t lw_probe_vote(const struct lw_probe_schedule *schedule, int64_t elapsed_ns);

/** lw_probe_done() - the operation is over. @agreed: its first word now; @took_ns: on this rank */
void lw_probe_done(struct lw_probe_schedule *schedule, uint64_t agreed, int64_t took_ns);

#endif /* LAPWING_TRACER_PROBE_SCHEDULE_H */
