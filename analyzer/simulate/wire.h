/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - what one collective of this run costs on the wire, against its size: a table of means.
 *
 * Reads:  samples (bytes, service time, idle time before).   Writes: nothing.
 * Not for: parameters with a meaning (alpha, beta, pieces): that is fit/. The simulator adds costs up
 * to step times, and means add up, so it uses the means of what was seen, size by size.
 *
 * Operations right after an idle wire are kept apart from those back to back (token buckets and
 * congestion windows make the former faster). Between sizes the table is linear, never falling, and
 * below the smallest one it ends at the cost of a coordination round, the smallest collective there
 * is. Beyond the sizes that were seen every answer is an extrapolation; lw_wire_knows() tells.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_WIRE_H
#define LAPWING_ANALYZER_SIMULATE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw_wire_sample {
	uint64_t bytes;
	double service_ns; /* from the last rank's start to the last rank's end */
	int64_t idle_ns;   /* the wire had been idle this long before */
};

enum {
	LW_WIRE_MAX_BINS = 256,
	LW_WIRE_IDLE_NS = 1000000, /* idle for longer: the next operation is a first one */
};

struct lw_wire_table {
	uint32_t n_bins;
	size_t n_samples;
	double bytes[LW_WIRE_MAX_BINS], service_ns[LW_WIRE_MAX_BINS], n[LW_WIRE_MAX_BINS];
};

/* How a what-if changes the wire; all 1 = as recorded. */
struct lw_wire_scale {
	double latency_frac; /* multiplies the part that does not depend on the size */
	double volume_frac;  /* multiplies the part that does */
};

enum lw_wire_guess {   /* for sizes that the run does not hold */
	LW_WIRE_TABLE, /* the table, continued */
	LW_WIRE_OPTIMISTIC,
	LW_WIRE_PESSIMISTIC, /* small operations under load: LW_WIRE_LOADED times the round's cost */
};

/* Measured on Horovod over Gloo, 4 ranks on 2 cores: 2 KB back to back took 24 times as long as a
 * round of the idle loop. Taken as the bound of what small operations may cost under load. */
enum { LW_WIRE_LOADED = 32 };

struct lw_wire {
	struct lw_wire_table all, first, queued; /* pooled; after an idle wire; back to back */
	double latency_ns; /* the size-independent part: what a coordination round costs */
	double error_frac; /* half width of the 95 % interval of a mean cost, relative */
	struct lw_wire_scale scale;
	enum lw_wire_guess guess;
};

/**
 * lw_wire_init() - build the tables.
 * @samples: sorted in place, by size
 * @latency_ns: cost of one round; clipped to what the smallest operations cost
 * Return: LW_OK or LW_ERR_LIMIT (no samples).
 */
int lw_wire_init(struct lw_wire *wire, struct lw_wire_sample *samples, size_t n, double latency_ns);

/** lw_wire_ns() - cost of one collective; has the type of lw_hvd_cost.wire_ns, @wire a struct lw_wire. */
double lw_wire_ns(const void *wire, uint64_t bytes, int64_t idle_ns);

/** lw_wire_knows() - whether operations of about @bytes were seen. */
bool lw_wire_knows(const struct lw_wire *wire, double bytes);

#endif /* LAPWING_ANALYZER_SIMULATE_WIRE_H */
