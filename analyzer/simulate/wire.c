/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/wire.h"

#include <math.h>

#include "analyzer/simulate/wire_state.h"

/* how far the cost of operations beyond the largest may be off */
static const double OPTIMISTIC_FRAC = 0.85;
static const double PESSIMISTIC_FRAC = 1.15;
/* and that of small ones, seen under one load only: what of their fixed cost waiting threads may add */
static const double PESSIMISTIC_LOAD_FRAC = 0.6;
/* loads differ by no more than this */
static const double LEAST_LOAD_FRAC = 0.4;
static const double MOST_LOAD_FRAC = 2.5;
/* largest over smallest size: less is one size */
static const double ONE_SIZE_FRAC = 1.5;

int lw_wire_size_of(double bytes)
{
	int size = bytes > 1 ? (int)floor(2 * log2(bytes)) : 0;

	return size < LW_WIRE_SIZES ? size : LW_WIRE_SIZES - 1;
}

bool lw_wire_is_probed(const struct lw_cost *probe, double bytes)
{
	return probe->form != LW_COST_NONE && bytes >= probe->min_bytes * REACH_BELOW &&
	       bytes <= probe->max_bytes * REACH_ABOVE;
}

static bool is_run(const struct lw_wire_costs *of, double bytes)
{
	return of->run.form != LW_COST_NONE && of->is_known[lw_wire_size_of(bytes)];
}

static bool is_seen(const struct lw_wire_costs *of)
{
	return of->run.form != LW_COST_NONE || of->probe.form != LW_COST_NONE;
}

static bool knows(const struct lw_wire *wire, enum lw_wire_load load, double bytes)
{
	const struct lw_wire_costs *of = &wire->of[load];

	if (!is_seen(&wire->of[LW_WIRE_COMPUTING]) || !is_seen(&wire->of[LW_WIRE_WAITING]))
		return wire->is_known[lw_wire_size_of(bytes)] ||
		       lw_wire_is_probed(&wire->probe, bytes);
	return is_run(of, bytes) || lw_wire_is_probed(&of->probe, bytes);
}

bool lw_wire_tells_slope(const struct lw_cost *cost)
{
	return cost->slope_known && cost->max_bytes > ONE_SIZE_FRAC * cost->min_bytes;
}

/* What stands for @bytes: where the slope is not known nothing but what the run holds. */
static double held_bytes(const struct lw_wire *wire, double bytes)
{
	if (wire->is_slope_known)
		return bytes;
	return fmin(fmax(bytes, wire->all.min_bytes), wire->all.max_bytes);
}

bool lw_wire_is_split(const struct lw_wire *wire)
{
	return !wire->is_slope_known && wire->scale.latency_frac != wire->scale.volume_frac;
}

bool lw_wire_knows(const struct lw_wire *wire, double bytes, bool is_paused)
{
	if (fabs(held_bytes(wire, bytes) - bytes) >= 1) /* sizes are asked for as means */
		return false;
	if (is_paused && wire->is_known_paused[lw_wire_size_of(bytes)])
		return true;
	return knows(wire, LW_WIRE_COMPUTING, bytes) && knows(wire, LW_WIRE_WAITING, bytes);
}

/* Run over probe, between what it is at the ends of the run. */
static double run_frac_at(const struct lw_wire_costs *of, double bytes)
{
	double low = of->run.min_bytes, high = of->run.max_bytes, place;

	if (of->run.form == LW_COST_NONE || bytes >= high)
		return of->run_frac[1];
	if (bytes <= low)
		return of->run_frac[0];
	place = log(bytes / low) / log(high / low);
	return of->run_frac[0] + place * (of->run_frac[1] - of->run_frac[0]);
}

/* What was measured under this load about this size, NAN = nothing. */
static double seen_ns(const struct lw_wire_costs *of, double bytes)
{
	double high = of->run.max_bytes, ns;

	if (is_run(of, bytes))
		return lw_cost_ns(&of->run, bytes, NULL);
	if (!lw_wire_is_probed(&of->probe, bytes))
		return NAN;
	ns = lw_cost_ns(&of->probe, bytes, NULL);
	/* what a job adds to its largest operations it adds to larger ones: it is time of cores, not of bytes */
	if (of->run.form != LW_COST_NONE && bytes > high)
		return ns + (of->run_frac[1] - 1) * lw_cost_ns(&of->probe, high, NULL);
	return ns * run_frac_at(of, bytes);
}

/* The size nearest to @bytes that this load knows. */
static double nearest_bytes(const struct lw_wire_costs *of, double bytes)
{
	double low = of->run.form == LW_COST_NONE ? of->probe.min_bytes : of->run.min_bytes;

	if (of->probe.form != LW_COST_NONE && of->probe.min_bytes < low)
		low = of->probe.min_bytes;
	return fmin(fmax(bytes, low), fmax(of->run.max_bytes, of->probe.max_bytes));
}

static double loaded_ns(const struct lw_wire *wire, enum lw_wire_load load, double bytes)
{
	const struct lw_wire_costs *of = &wire->of[load], *other = &wire->of[!load];
	double ns = seen_ns(of, bytes), other_ns = seen_ns(other, bytes), edge_ns;

	if (isfinite(ns))
		return ns;
	if (!isfinite(other_ns)) {
		bool by_probe = lw_wire_tells_slope(&wire->probe) &&
				(lw_wire_is_probed(&wire->probe, bytes) ||
					!lw_wire_tells_slope(&wire->all));

		return lw_cost_ns(by_probe && !wire->is_known[lw_wire_size_of(bytes)] ? &wire->probe
										      : &wire->all,
			bytes, NULL);
	}
	if (!is_seen(of))
		return other_ns;
	edge_ns = seen_ns(of, nearest_bytes(of, bytes)) - seen_ns(other, nearest_bytes(of, bytes));
	if (!isfinite(edge_ns))
		return other_ns;
	return fmin(
		fmax(other_ns + edge_ns, LEAST_LOAD_FRAC * other_ns), MOST_LOAD_FRAC * other_ns);
}

/* The cost of the next larger size that the run holds: no smaller one takes longer. */
static double known_above_ns(const struct lw_wire *wire, double bytes)
{
	for (int size = lw_wire_size_of(bytes) + 1; size < LW_WIRE_SIZES; size++)
		if (wire->is_known[size])
			return lw_cost_ns(&wire->all, pow(2, (size + 1) / 2.0), NULL);
	return lw_cost_ns(&wire->all, wire->all.max_bytes, NULL);
}

/* fmin() and fmax() of what is never NAN: calls into the library that a prediction makes 50 000 times. */
static inline double least(double a, double b)
{
	return a < b ? a : b;
}

static inline double most(double a, double b)
{
	return a > b ? a : b;
}

/* A cost of @ns as scaled, when @fixed_ns of it do not depend on the size. */
static double split_ns(const struct lw_wire *wire, double fixed_ns, double ns)
{
	double of_it_ns = least(fixed_ns, ns);

	return of_it_ns * wire->scale.latency_frac + (ns - of_it_ns) * wire->scale.volume_frac;
}

double lw_wire_replicate_frac(const struct lw_wire *wire, double bytes, int k)
{
	bool of_run = wire->is_known[lw_wire_size_of(bytes)] || wire->probe.form == LW_COST_NONE;
	const struct lw_cost *fitted = of_run ? &wire->all : &wire->probe;
	const struct lw_cost *replicate = of_run ? &wire->replicate[k] : &wire->probe_replicate[k];
	double fitted_ns = lw_cost_ns(fitted, bytes, NULL), scaled_ns, fixed_ns;

	if (replicate->form == LW_COST_NONE || !(fitted_ns > 0))
		return 1;
	/* which part is fixed is as unsure as the whole */
	fixed_ns = wire->fixed_ns + replicate->a_ns - fitted->a_ns;
	scaled_ns = split_ns(wire, wire->fixed_ns, fitted_ns);
	if (!(scaled_ns > 0))
		return 1;
	return split_ns(
		       wire, most(fixed_ns, wire->latency_ns), lw_cost_ns(replicate, bytes, NULL)) /
	       scaled_ns;
}

/* What is fitted does not change from one question to the next, and few sizes come up again and again. */
static const struct lw_wire_memo *recall(const struct lw_wire *wire, uint64_t bytes)
{
	struct lw_wire_memo *memo =
		&wire->memo[bytes * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LW_WIRE_MEMO_BITS)];
	double held;

	if (memo->bytes == bytes)
		return memo;
	memo->bytes = bytes;
	held = held_bytes(wire, (double)bytes);
	for (enum lw_wire_load load = 0; load < LW_WIRE_N_LOADS; load++) {
		memo->ns[load] = loaded_ns(wire, load, held);
		memo->is_known[load] = knows(wire, load, held);
	}
	memo->above_ns = known_above_ns(wire, held);
	/* seen after a pause alone: what it costs without one is taken from other sizes */
	memo->paused_frac = wire->is_known_paused[lw_wire_size_of(held)] ? PESSIMISTIC_FRAC : 1;
	memo->held_frac = bytes > 0 ? (double)bytes / held : 0;
	return memo;
}

/* Mean cost as recorded, and as guessed where it was not. @computing_ns: from its start until training
 * threads wait. */
double lw_wire_recorded_ns(
	const struct lw_wire *wire, uint64_t bytes, int64_t idle_ns, double computing_ns)
{
	const struct lw_wire_memo *seen = recall(wire, bytes);
	double ns = seen->ns[LW_WIRE_COMPUTING];
	bool is_known = seen->is_known[LW_WIRE_COMPUTING];

	if (computing_ns < ns) {
		double waiting_ns = seen->ns[LW_WIRE_WAITING];

		is_known = is_known && seen->is_known[LW_WIRE_WAITING];
		if (wire->guess == LW_WIRE_PESSIMISTIC && !seen->is_known[LW_WIRE_WAITING])
			waiting_ns += PESSIMISTIC_LOAD_FRAC * wire->all.a_ns;
		ns = computing_ns <= 0 ? waiting_ns
				       : ns + (1 - computing_ns / ns) * (waiting_ns - ns);
	}
	if (!is_known && (double)bytes > wire->all.max_bytes && wire->guess != LW_WIRE_FITTED)
		ns *= wire->guess == LW_WIRE_OPTIMISTIC ? OPTIMISTIC_FRAC : PESSIMISTIC_FRAC;
	else if (!is_known && wire->guess == LW_WIRE_OPTIMISTIC && seen->paused_frac > 1)
		ns -= least(wire->recovery.frac * wire->recovery.limit_ns,
			wire->saved_ns_per_byte * (double)bytes); /* as after a pause */
	else if (!is_known && wire->guess == LW_WIRE_PESSIMISTIC)
		ns = most(ns, least(most(LW_WIRE_LOADED * wire->latency_ns, seen->paused_frac * ns),
				      seen->above_ns));
	return most(wire->cost_frac * ns - lw_wire_pause_saves_ns(wire, (double)bytes, idle_ns),
		wire->latency_ns);
}

/* A cost of @ns of the one size that is known: nothing of it grows with the bytes, or all but a round. */
static double either_ns(const struct lw_wire *wire, uint64_t bytes, double ns)
{
	double rated_ns = (ns - wire->latency_ns) * recall(wire, bytes)->held_frac;
	double fixed_ns = ns * wire->scale.latency_frac;

	rated_ns = wire->latency_ns * wire->scale.latency_frac + rated_ns * wire->scale.volume_frac;
	if (fixed_ns == rated_ns)
		return fixed_ns;
	if (wire->guess == LW_WIRE_FITTED)
		return sqrt(fixed_ns * rated_ns);
	return wire->guess == LW_WIRE_OPTIMISTIC ? least(fixed_ns, rated_ns)
						 : most(fixed_ns, rated_ns);
}

static double scaled_ns(const struct lw_wire *wire, uint64_t bytes, double ns)
{
	return wire->is_slope_known ? split_ns(wire, wire->fixed_ns, ns)
				    : either_ns(wire, bytes, ns);
}

double lw_wire_mean_ns(const struct lw_wire *wire, uint64_t bytes, int64_t idle_ns)
{
	return scaled_ns(wire, bytes, lw_wire_recorded_ns(wire, bytes, idle_ns, INFINITY));
}

double lw_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	const struct lw_wire *wire = context;
	double mean_ns = scaled_ns(wire, op->bytes,
		lw_wire_recorded_ns(wire, op->bytes, op->idle_ns, (double)op->computing_ns));
	const double *frac = lw_hvd_scatter_at(&wire->scatter, op->step, op->nth);

	if (!frac)
		return mean_ns;
	/* a small operation may take twice its mean: that says nothing of a large one */
	return mean_ns +
	       (*frac - 1) * least(mean_ns, wire->scatter_of_ns[frac - wire->scatter.frac]);
}
