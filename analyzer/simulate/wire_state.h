/* SPDX-License-Identifier: Apache-2.0 */
/* wire_state.h - what wire.c, that answers, and wire_fit.c, that fits, share. */
#ifndef LAPWING_ANALYZER_SIMULATE_WIRE_STATE_H
#define LAPWING_ANALYZER_SIMULATE_WIRE_STATE_H

#include "analyzer/simulate/wire.h"

static const double REACH_BELOW = 0.7; /* "about the size": down to this fraction */
static const double REACH_ABOVE = 1.5; /* and up to this one */
enum { LW_WIRE_MEMO_BITS = 9 };

/* The class of @bytes: half octaves. */
int lw_wire_size_of(double bytes);

/* A probe is a sweep: all between its ends is known. */
bool lw_wire_is_probed(const struct lw_cost *probe, double bytes);

bool lw_wire_tells_slope(const struct lw_cost *cost);

/* Mean cost as recorded, and as guessed where it was not. @computing_ns: from its start until training threads wait. */
double lw_wire_recorded_ns(
	const struct lw_wire *wire, uint64_t bytes, int64_t idle_ns, double computing_ns);

/* What a pause saved an operation of @bytes. */
static inline double lw_wire_pause_saves_ns(
	const struct lw_wire *wire, double bytes, int64_t idle_ns)
{
	double ns = lw_recovery_ns(&wire->recovery, (double)idle_ns);
	double most_ns = wire->saved_ns_per_byte * bytes;

	return ns < most_ns ? ns : most_ns;
}

#endif /* LAPWING_ANALYZER_SIMULATE_WIRE_STATE_H */
