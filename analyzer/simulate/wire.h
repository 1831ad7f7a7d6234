/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - what one collective costs on the wire, as the simulator asks for it.
 *
 * Reads:  samples (bytes, service time, idle time before).   Writes: nothing.
 * Not for: the forms of a cost against bytes and their choice: that is fit/cost.h, used here.
 *
 * Operations right after an idle wire are kept apart from those back to back (token buckets and
 * congestion windows make the former faster), as long as enough of them were seen about the size that
 * is asked for. No operation costs less than a coordination round, the smallest collective there is.
 *
 * The n-th operation of a simulated step costs as much more or less than the mean as that of the
 * recorded step did: where sending takes about as long as computing, it is the scatter that makes
 * queues, and with means alone steps come out too short.
 *
 * Beyond the sizes that were seen every answer is an extrapolation; lw_wire_knows() tells.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_WIRE_H
#define LAPWING_ANALYZER_SIMULATE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/fit/cost.h"
#include "analyzer/simulate/hvd_cycle.h"

struct lw_wire_sample {
	uint64_t bytes;
	double service_ns; /* from the last rank's start to the last rank's end */
	int64_t idle_ns;   /* the wire had been idle this long before */
	uint32_t step;     /* of the simulator's input; what the bootstrap draws */
};

enum {
	LW_WIRE_IDLE_NS = 1000000, /* idle for longer: the next operation is a first one */
	LW_WIRE_REPLICATES = 12,   /* fits of resampled steps: how sure the costs are */
};

/* How a what-if changes the wire; all 1 = as recorded. */
struct lw_wire_scale {
	double latency_frac; /* multiplies the part that does not depend on the size */
	double volume_frac;  /* multiplies the part that does */
};

enum lw_wire_guess {    /* for sizes that the run does not hold */
	LW_WIRE_FITTED, /* the fit, continued */
	LW_WIRE_OPTIMISTIC,
	LW_WIRE_PESSIMISTIC, /* small operations under load: LW_WIRE_LOADED times the round's cost */
};

/* Measured on Horovod over Gloo, 4 ranks on 2 cores: 2 KB back to back took 24 times as long as a
 * round of the idle loop. Taken as the bound of what small operations may cost under load. */
enum { LW_WIRE_LOADED = 32 };

struct lw_wire {
	struct lw_cost all, first, queued; /* pooled; after an idle wire; back to back */
	double latency_ns;                 /* what a coordination round costs: no operation less */
	struct lw_cost replicate[LW_WIRE_REPLICATES]; /* of all */
	/* observed over fitted, in the order of the run; of step s: from scatter_at[s] */
	double *scatter;
	uint32_t *scatter_at, n_steps;
	struct lw_wire_scale scale;
	enum lw_wire_guess guess;
	int use_replicate; /* -1 = none: the fit itself */
};

/**
 * lw_wire_init() - fit the three costs, and the pooled one to resampled steps.
 * @samples: in the order in which they ran
 * @latency_ns: cost of one round; clipped to the cost of the smallest operations
 * Return: LW_OK, LW_ERR_LIMIT (no samples) or LW_ERR_NOMEM. Free with lw_wire_done().
 */
int lw_wire_init(
	struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n, double latency_ns);
void lw_wire_done(struct lw_wire *wire);

/** lw_wire_mean_ns() - mean cost of one collective, as scaled and guessed. */
double lw_wire_mean_ns(const struct lw_wire *wire, uint64_t bytes, int64_t idle_ns);

/** lw_wire_ns() - the same with the scatter of the run, as lw_hvd_cost.wire_ns; @wire: struct lw_wire. */
double lw_wire_ns(const void *wire, const struct lw_hvd_op *op);

/** lw_wire_knows() - whether operations of about @bytes were seen. */
bool lw_wire_knows(const struct lw_wire *wire, double bytes);

#endif /* LAPWING_ANALYZER_SIMULATE_WIRE_H */
