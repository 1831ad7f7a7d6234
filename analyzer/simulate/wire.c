/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/stats.h"
#include "base/err.h"
#include "base/random.h"

static const double REACH_BELOW = 0.7; /* "about the size": down to this fraction */
static const double REACH_ABOVE = 1.5; /* and up to this one */
/* "about the size", in half octaves: one beside; and between two sizes that are no farther apart than a
 * factor of 4 the cost cannot bend much */
enum { BESIDE_SIZES = 1, BETWEEN_SIZES = 4 };
/* operations that make a size known: less than half of what one a step gives, and no more than 8 */
static const double LEAST_SIZE_SAMPLES = 3, MOST_SIZE_SAMPLES = 8, SIZE_SAMPLES_A_STEP = 0.4;
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
enum { MIN_LOAD_SAMPLES = 8, N_ALIKE = 8, MEMO_BITS = 9 };
static const double MOST_SCATTER_FRAC =
	10; /* an operation that took longer says nothing of others */
/* a job in which the same operation takes more or less than this of what the probe saw is another job */
static const double LEAST_RUN_FRAC = 0.5;
static const double MOST_RUN_FRAC = 2;

/* ---- fitting ------------------------------------------------------------------------------------ */

static int fit_recovery(struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n)
{
	struct lw_recovery_sample *of = malloc(n * sizeof(*of));

	if (!of)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", n);
	for (size_t i = 0; i < n; i++)
		of[i] = (struct lw_recovery_sample){(double)samples[i].bytes, samples[i].service_ns,
			(double)samples[i].idle_ns};
	wire->recovery = lw_recovery_fit(of, n);
	free(of);
	return LW_OK;
}

struct fitting {
	struct lw_samples added;
	struct lw_size *sizes; /* [n] */
	double *weights;       /* [n_blocks]: steps or bursts */
	uint32_t n_blocks;
};

static void fitting_done(struct fitting *f)
{
	lw_samples_done(&f->added);
	free(f->sizes);
	free(f->weights);
}

static int fitting_init(struct fitting *f, const struct lw_recovery *recovery,
	const struct lw_wire_sample *samples, size_t n)
{
	struct lw_sample *of = malloc(n * sizeof(*of));
	int status;

	*f = (struct fitting){.sizes = malloc(n * sizeof(*f->sizes))};
	for (size_t i = 0; i < n; i++)
		if (samples[i].step >= f->n_blocks)
			f->n_blocks = samples[i].step + 1;
	f->weights = malloc(f->n_blocks * sizeof(*f->weights));
	if (!of || !f->sizes || !f->weights) {
		free(of);
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", n);
	}
	for (size_t i = 0; i < n; i++)
		of[i] = (struct lw_sample){(double)samples[i].bytes,
			samples[i].service_ns +
				lw_recovery_ns(recovery, (double)samples[i].idle_ns),
			samples[i].step};
	status = lw_samples_init(&f->added, of, n);
	free(of);
	return status;
}

/* @form: LW_COST_NONE = the one that predicts best. */
static int fit_weighted(
	struct fitting *f, const double *weights, enum lw_cost_form form, struct lw_cost *ret_cost)
{
	size_t n_sizes = lw_samples_weigh(&f->added, weights, f->sizes);

	return form == LW_COST_NONE
		       ? lw_cost_choose(f->sizes, n_sizes, LW_WEIGHT_FITTED, ret_cost)
		       : lw_cost_fit(f->sizes, n_sizes, form, LW_WEIGHT_FITTED, ret_cost);
}

/* The cost and LW_WIRE_REPLICATES more of resampled blocks; the same draws for as many blocks. */
static int fit(struct fitting *f, enum lw_cost_form form, struct lw_cost *ret_cost,
	struct lw_cost *replicate)
{
	struct lw_random random = {1};
	int status = fit_weighted(f, NULL, form, ret_cost);

	for (int k = 0; k < LW_WIRE_REPLICATES && status == LW_OK; k++) {
		memset(f->weights, 0, f->n_blocks * sizeof(*f->weights));
		for (uint32_t b = 0; b < f->n_blocks; b++)
			f->weights[lw_random_below(&random, f->n_blocks)]++;
		status = fit_weighted(
			f, f->weights, form == LW_COST_NONE ? ret_cost->form : form, &replicate[k]);
	}
	return status;
}

static int fit_all(struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n,
	enum lw_cost_form form, struct lw_cost *ret_cost, struct lw_cost *replicate)
{
	struct fitting f;
	int status = fitting_init(&f, &wire->recovery, samples, n);

	if (status == LW_OK)
		status = fit(&f, form, ret_cost, replicate);
	fitting_done(&f);
	return status;
}

static enum lw_wire_load load_of(const struct lw_wire_sample *sample)
{
	return sample->waiting_frac > 0.5 ? LW_WIRE_WAITING : LW_WIRE_COMPUTING;
}

/* Only those under @load; @scratch: [n]. Too few: LW_COST_NONE. */
static int fit_load(struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n,
	enum lw_wire_load load, enum lw_cost_form form, struct lw_wire_sample *scratch,
	struct lw_cost *ret_cost)
{
	struct fitting f;
	size_t n_under = 0;
	int status;

	for (size_t i = 0; i < n; i++)
		if (load_of(&samples[i]) == load)
			scratch[n_under++] = samples[i];
	if (n_under < MIN_LOAD_SAMPLES)
		return LW_OK;
	status = fitting_init(&f, &wire->recovery, scratch, n_under);
	if (status == LW_OK)
		status = fit_weighted(&f, NULL, form, ret_cost);
	fitting_done(&f);
	return status;
}

static int fit_loads(struct lw_wire *wire, const struct lw_wire_source *source)
{
	size_t n_most = source->n > source->n_probes ? source->n : source->n_probes;
	struct lw_wire_sample *scratch = malloc((n_most + 1) * sizeof(*scratch));
	int status =
		scratch ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", n_most);

	for (enum lw_wire_load load = 0; load < LW_WIRE_N_LOADS && status == LW_OK; load++) {
		struct lw_wire_costs *of = &wire->of[load];

		status = fit_load(
			wire, source->samples, source->n, load, LW_COST_NONE, scratch, &of->run);
		if (status == LW_OK)
			status = fit_load(wire, source->probes, source->n_probes, load,
				LW_COST_TABLE, scratch, &of->probe);
	}
	free(scratch);
	return status;
}

/* ---- asking ------------------------------------------------------------------------------------- */

static int size_of(double bytes)
{
	int size = bytes > 1 ? (int)floor(2 * log2(bytes)) : 0;

	return size < LW_WIRE_SIZES ? size : LW_WIRE_SIZES - 1;
}

/* A probe is a sweep: all between its ends is known. */
static bool is_probed(const struct lw_cost *probe, double bytes)
{
	return probe->form != LW_COST_NONE && bytes >= probe->min_bytes * REACH_BELOW &&
	       bytes <= probe->max_bytes * REACH_ABOVE;
}

static bool is_run(const struct lw_wire_costs *of, double bytes)
{
	return of->run.form != LW_COST_NONE && of->is_known[size_of(bytes)];
}

static bool is_seen(const struct lw_wire_costs *of)
{
	return of->run.form != LW_COST_NONE || of->probe.form != LW_COST_NONE;
}

static bool knows(const struct lw_wire *wire, enum lw_wire_load load, double bytes)
{
	const struct lw_wire_costs *of = &wire->of[load];

	if (!is_seen(&wire->of[LW_WIRE_COMPUTING]) || !is_seen(&wire->of[LW_WIRE_WAITING]))
		return wire->is_known[size_of(bytes)] || is_probed(&wire->probe, bytes);
	return is_run(of, bytes) || is_probed(&of->probe, bytes);
}

static bool tells_slope(const struct lw_cost *cost)
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

bool lw_wire_knows(const struct lw_wire *wire, double bytes)
{
	if (fabs(held_bytes(wire, bytes) - bytes) >= 1) /* sizes are asked for as means */
		return false;
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
	if (is_run(of, bytes))
		return lw_cost_ns(&of->run, bytes, NULL);
	if (is_probed(&of->probe, bytes))
		return lw_cost_ns(&of->probe, bytes, NULL) * run_frac_at(of, bytes);
	return NAN;
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
		bool by_probe = tells_slope(&wire->probe) &&
				(is_probed(&wire->probe, bytes) || !tells_slope(&wire->all));

		return lw_cost_ns(
			by_probe && !wire->is_known[size_of(bytes)] ? &wire->probe : &wire->all,
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
	for (int size = size_of(bytes) + 1; size < LW_WIRE_SIZES; size++)
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
	bool of_run = wire->is_known[size_of(bytes)] || wire->probe.form == LW_COST_NONE;
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
		&wire->memo[bytes * UINT64_C(0x9e3779b97f4a7c15) >> (64 - MEMO_BITS)];
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
	memo->held_frac = bytes > 0 ? (double)bytes / held : 0;
	return memo;
}

/* Mean cost as recorded, and as guessed where it was not. @computing_ns: from its start until training
 * threads wait. */
static double recorded_ns(
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
	else if (!is_known && wire->guess == LW_WIRE_PESSIMISTIC)
		ns = most(ns, least(LW_WIRE_LOADED * wire->latency_ns, seen->above_ns));
	return most(wire->cost_frac * ns - lw_recovery_ns(&wire->recovery, (double)idle_ns),
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
	return scaled_ns(wire, bytes, recorded_ns(wire, bytes, idle_ns, INFINITY));
}

double lw_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	const struct lw_wire *wire = context;
	double mean_ns = scaled_ns(wire, op->bytes,
		recorded_ns(wire, op->bytes, op->idle_ns, (double)op->computing_ns));
	const double *frac = lw_hvd_scatter_at(&wire->scatter, op->step, op->nth);

	if (!frac)
		return mean_ns;
	/* a small operation may take twice its mean: that says nothing of a large one */
	return mean_ns +
	       (*frac - 1) * least(mean_ns, wire->scatter_of_ns[frac - wire->scatter.frac]);
}

/* ---- making ------------------------------------------------------------------------------------- */

/* @samples are in the order of the run, hence of its steps. */
static int keep_scatter(
	struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n, uint32_t n_steps)
{

	wire->scatter = (struct lw_hvd_scatter){malloc(n * sizeof(*wire->scatter.frac)),
		calloc((size_t)n_steps + 1, sizeof(*wire->scatter.from)), n_steps};
	wire->scatter_of_ns = malloc(n * sizeof(*wire->scatter_of_ns));
	if (!wire->scatter.frac || !wire->scatter.from || !wire->scatter_of_ns)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", n);
	for (size_t i = 0; i < n; i++) {
		double expected_ns = recorded_ns(wire, samples[i].bytes, samples[i].idle_ns,
			samples[i].service_ns * (1 - samples[i].waiting_frac));

		wire->scatter_of_ns[i] = expected_ns;
		wire->scatter.frac[i] = expected_ns > 0 ? fmin(samples[i].service_ns / expected_ns,
								  MOST_SCATTER_FRAC)
							: 1;
		wire->scatter.from[samples[i].step + 1]++;
	}
	for (uint32_t s = 0; s < n_steps; s++)
		wire->scatter.from[s + 1] += wire->scatter.from[s];
	return LW_OK;
}

/* Which sizes the run holds, under @load or, LW_WIRE_N_LOADS, in all. */
static void find_known(const struct lw_wire_source *source, enum lw_wire_load load,
	bool ret_is_known[LW_WIRE_SIZES])
{
	uint32_t n_of_size[LW_WIRE_SIZES] = {0}, n_steps = 0;
	double n_needed;
	int before = -1;

	for (size_t i = 0; i < source->n; i++)
		if (load == LW_WIRE_N_LOADS || load_of(&source->samples[i]) == load)
			n_of_size[size_of((double)source->samples[i].bytes)]++;
	for (size_t i = 0; i < source->n; i++)
		n_steps = source->samples[i].step > n_steps ? source->samples[i].step : n_steps;
	n_needed = fmin(fmax(SIZE_SAMPLES_A_STEP * n_steps, LEAST_SIZE_SAMPLES), MOST_SIZE_SAMPLES);
	for (int size = 0; size < LW_WIRE_SIZES; size++) {
		int from = size - BESIDE_SIZES, to = size + BESIDE_SIZES;

		if (n_of_size[size] < n_needed)
			continue;
		if (before >= 0 && size - before <= BETWEEN_SIZES)
			from = before;
		for (int i = from > 0 ? from : 0; i <= to && i < LW_WIRE_SIZES; i++)
			ret_is_known[i] = true;
		before = size;
	}
}

/* The run over the probe, mean over what the run sent within REACH of its smallest or largest size. */
static double run_frac(const struct lw_wire *wire, const struct lw_wire_source *source,
	enum lw_wire_load load, double edge_bytes)
{
	double run_ns = 0, probe_ns = 0, n = 0;

	for (size_t i = 0; i < source->n; i++) {
		const struct lw_wire_sample *sample = &source->samples[i];
		double bytes = (double)sample->bytes;

		if (load_of(sample) != load || bytes < edge_bytes * REACH_BELOW ||
			bytes > edge_bytes * REACH_ABOVE ||
			!is_probed(&wire->of[load].probe, bytes))
			continue;
		run_ns += sample->service_ns +
			  lw_recovery_ns(&wire->recovery, (double)sample->idle_ns);
		probe_ns += lw_cost_ns(&wire->of[load].probe, bytes, NULL);
		n++;
	}
	if (n == 0)
		return 1;
	run_ns += N_ALIKE * probe_ns / n; /* few operations say little against "the same" */
	probe_ns += N_ALIKE * probe_ns / n;
	return fmin(fmax(run_ns / probe_ns, LEAST_RUN_FRAC), MOST_RUN_FRAC);
}

static void compare_with_probe(struct lw_wire *wire, const struct lw_wire_source *source)
{
	for (enum lw_wire_load load = 0; load < LW_WIRE_N_LOADS; load++) {
		struct lw_wire_costs *of = &wire->of[load];
		bool is_both = of->run.form != LW_COST_NONE && of->probe.form != LW_COST_NONE;

		of->run_frac[0] = is_both ? run_frac(wire, source, load, of->run.min_bytes) : 1;
		of->run_frac[1] = is_both ? run_frac(wire, source, load, of->run.max_bytes) : 1;
	}
}

void lw_wire_done(struct lw_wire *wire)
{
	lw_cost_done(&wire->all);
	lw_cost_done(&wire->probe);
	for (enum lw_wire_load load = 0; load < LW_WIRE_N_LOADS; load++) {
		lw_cost_done(&wire->of[load].run);
		lw_cost_done(&wire->of[load].probe);
	}
	free(wire->scatter.frac);
	free(wire->scatter.from);
	free(wire->scatter_of_ns);
	free(wire->memo);
	for (int k = 0; k < LW_WIRE_REPLICATES; k++) {
		lw_cost_done(&wire->replicate[k]);
		lw_cost_done(&wire->probe_replicate[k]);
	}
}

int lw_wire_init(struct lw_wire *wire, const struct lw_wire_source *source)
{
	const struct lw_wire_sample *samples = source->samples;
	uint32_t n_steps = 0;
	int status;

	memset(wire, 0, sizeof(*wire));
	wire->cost_frac = 1;
	wire->scale = (struct lw_wire_scale){1, 1};
	if (source->n == 0)
		return lw_fail(LW_ERR_LIMIT, "no collective was timed on all ranks");
	for (size_t i = 0; i < source->n; i++)
		if (samples[i].step >= n_steps)
			n_steps = samples[i].step + 1;
	status = fit_recovery(wire, samples, source->n);
	if (status == LW_OK)
		status = fit_all(
			wire, samples, source->n, LW_COST_NONE, &wire->all, wire->replicate);
	if (status == LW_OK && source->n_probes > 0)
		status = fit_all(wire, source->probes, source->n_probes, LW_COST_TABLE,
			&wire->probe, wire->probe_replicate);
	if (status == LW_OK)
		status = fit_loads(wire, source);
	if (status < 0)
		return status;
	for (enum lw_wire_load load = 0; load < LW_WIRE_N_LOADS; load++)
		find_known(source, load, wire->of[load].is_known);
	find_known(source, LW_WIRE_N_LOADS, wire->is_known);
	compare_with_probe(wire, source);
	wire->latency_ns = fmin(
		source->latency_ns, lw_cost_ns(&wire->all, fmax(wire->all.min_bytes, 1), NULL));
	if (wire->probe.form != LW_COST_NONE)
		wire->latency_ns = fmin(wire->latency_ns,
			lw_cost_ns(&wire->probe, fmax(wire->probe.min_bytes, 1), NULL));
	wire->is_slope_known =
		isfinite(source->fixed_ns) || tells_slope(&wire->all) || tells_slope(&wire->probe);
	wire->fixed_ns = fmax(isfinite(source->fixed_ns) ? source->fixed_ns
			      : tells_slope(&wire->all)  ? wire->all.a_ns
							 : wire->probe.a_ns,
		wire->latency_ns);
	wire->memo = calloc(1 << MEMO_BITS, sizeof(*wire->memo));
	if (!wire->memo)
		return lw_fail(LW_ERR_NOMEM, "no memory for costs");
	wire->memo[0].bytes = 1; /* the place of 0, which nothing is known of yet */
	return keep_scatter(wire, samples, source->n, n_steps);
}
