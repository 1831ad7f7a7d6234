/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - what one collective costs on the wire, as the simulator asks for it.
 *
 * Reads:  samples (bytes, service time, idle time before) of the run and of its probe.   Writes: nothing.
 * Not for: the forms of a cost against bytes and their choice: that is fit/cost.h, used here.
 *
 * A cost is that of operations back to back, less what the pause before one saves (fit/recovery.h). No
 * operation costs less than a coordination round, the smallest collective there is.
 *
 * Two loads: while training threads compute, and while they wait. Horovod's wait yields in a loop, and
 * where cores are few that slows every message down (4 ranks on 2 cores: 2 KB in 4.6 ms, then in 7.4 ms).
 * Sizes that the run holds under a load cost what they cost there. Others cost what the probe measured,
 * times what the run took over what the probe took at the nearest sizes that both know; without a probe
 * what they cost under the other load, plus what the loads differ by where both are known; else the fit
 * of the run is continued.
 *
 * The n-th operation of a simulated step costs as much more or less than the mean as that of the
 * recorded step did, in proportion to the smaller of the two: where sending takes about as long as computing, it is the scatter that makes
 * queues, and with means alone steps come out too short.
 *
 * Where all operations are of about one size, and no probe holds others, nothing tells how much of their
 * cost grows with the bytes. It lies between none and all of it: the bounds for other sizes, and for these
 * on another network. The guess is their geometric mean: off by the same factor either way.
 *
 * Beyond the sizes that were seen every answer is an extrapolation; lw_wire_knows() tells.
 */
#ifndef LAPWING_ANALYZER_SIMULATE_WIRE_H
#define LAPWING_ANALYZER_SIMULATE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/fit/cost.h"
#include "analyzer/fit/recovery.h"
#include "analyzer/simulate/hvd_cycle.h"

struct lw_wire_sample {
	uint64_t bytes;
	double service_ns;   /* from the last rank's start to the last rank's end */
	int64_t idle_ns;     /* the wire had been idle this long before */
	uint32_t step;       /* of the simulator's input; what the bootstrap draws */
	double waiting_frac; /* of service_ns, mean over ranks: training threads were waiting */
};

enum lw_wire_load { LW_WIRE_COMPUTING, LW_WIRE_WAITING, LW_WIRE_N_LOADS };

enum { LW_WIRE_REPLICATES = 12 }; /* fits of resampled steps: how sure the costs are */

struct lw_wire_source {
	const struct lw_wire_sample *samples; /* of the run, in the order in which they ran */
	size_t n;
	const struct lw_wire_sample *probes; /* of the probe, likewise; step: its burst */
	size_t n_probes;                     /* 0 = no probe */
	double latency_ns; /* cost of one round; clipped to the cost of the smallest operations */
	double fixed_ns; /* of an operation, where it is known otherwise; NAN: what the fit says */
	bool has_pauses; /* idle_ns of samples and of questions is the wire's: apart where its effect is not told */
};

/* How a what-if changes the wire; all 1 = as recorded. Of a cost a + b D, a is the one part and b D the
 * other; a is no less than a round. */
struct lw_wire_scale {
	double latency_frac; /* multiplies the part that does not depend on the size */
	double volume_frac;  /* multiplies the part that does */
};

enum lw_wire_guess {    /* for sizes that the run does not hold */
	LW_WIRE_FITTED, /* the fit, continued; of one size: the middle of what it may be */
	LW_WIRE_OPTIMISTIC,
	LW_WIRE_PESSIMISTIC, /* LW_WIRE_LOADED rounds, or what the next larger known size costs */
};

/* Measured on Horovod over Gloo, 4 ranks on 2 cores: 2 KB back to back took 24 times as long as a
 * round of the idle loop. Taken as the bound of what small operations may cost under load. */
enum { LW_WIRE_LOADED = 32 };

enum { LW_WIRE_SIZES = 96 }; /* half octaves of bytes */

struct lw_wire_costs { /* back to back, under one load; LW_COST_NONE = never seen */
	struct lw_cost run, probe;
	double run_frac[2]; /* run over probe at the smallest and at the largest sizes of the run */
	bool is_known
		[LW_WIRE_SIZES]; /* the run holds enough of about this size; [i]: 2^(i/2) bytes */
};

struct lw_wire_memo { /* what was found of one size, under each load */
	uint64_t bytes;
	double ns[LW_WIRE_N_LOADS];
	bool is_known[LW_WIRE_N_LOADS];
	double above_ns;    /* cost of the next larger size that the run holds */
	double paused_frac; /* a pessimist's, > 1 where it was seen after a pause alone */
	double held_frac; /* bytes over the size that stands for them; 1 where the slope is known */
};

struct lw_wire {
	struct lw_wire_costs of[LW_WIRE_N_LOADS];
	struct lw_cost all, probe; /* the same under both loads together */
	bool is_known[LW_WIRE_SIZES];
	bool is_known_paused[LW_WIRE_SIZES]; /* after a pause of more than LW_FIT_IDLE_NS */
	bool is_pause_assumed; /* some sizes were seen after pauses alone that nothing tells about */
	double saved_ns_per_byte; /* then a pause saves no more than this for each byte; else INFINITY */
	struct lw_recovery recovery;
	double latency_ns;   /* what a coordination round costs: no operation less */
	bool is_slope_known; /* run or probe hold sizes that tell a fixed cost from one of bytes */
	double fixed_ns;     /* what an operation costs whatever its size: at least a round */
	struct lw_cost replicate[LW_WIRE_REPLICATES];       /* of all */
	struct lw_cost probe_replicate[LW_WIRE_REPLICATES]; /* of probe */
	struct lw_hvd_scatter scatter;                      /* observed over fitted; owned */
	double *scatter_of_ns;                              /* what was fitted for each of it */
	struct lw_wire_memo *memo; /* of the sizes asked last; owned, so not for several threads */
	struct lw_wire_scale scale;
	enum lw_wire_guess guess;
	double cost_frac; /* all costs are multiplied by it; 1 */
};

/**
 * lw_wire_init() - fit the costs, also to resampled steps and bursts.
 * Return: LW_OK, LW_ERR_LIMIT (no samples of the run) or LW_ERR_NOMEM. Free with lw_wire_done().
 */
int lw_wire_init(struct lw_wire *wire, const struct lw_wire_source *source);
void lw_wire_done(struct lw_wire *wire);

/** lw_wire_mean_ns() - mean cost of one collective, as scaled and guessed; training threads compute. */
double lw_wire_mean_ns(const struct lw_wire *wire, uint64_t bytes, int64_t idle_ns);

/** lw_wire_replicate_frac() - cost of @bytes in replicate @k over that of the fit. */
double lw_wire_replicate_frac(const struct lw_wire *wire, double bytes, int k);

/** lw_wire_ns() - the same with the scatter of the run, as lw_hvd_cost.wire_ns; @wire: struct lw_wire. */
double lw_wire_ns(const void *wire, const struct lw_hvd_op *op);

/** lw_wire_is_split() - how a what-if changes costs depends on what of them is fixed, and that is not known. */
bool lw_wire_is_split(const struct lw_wire *wire);

/** lw_wire_knows() - operations of about @bytes were seen under every load there is, in run or probe; @is_paused: asked of
 * one after a pause, which may have been seen only so. */
bool lw_wire_knows(const struct lw_wire *wire, double bytes, bool is_paused);

#endif /* LAPWING_ANALYZER_SIMULATE_WIRE_H */
