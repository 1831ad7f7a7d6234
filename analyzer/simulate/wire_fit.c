/* SPDX-License-Identifier: Apache-2.0 */
/* wire_fit.c - what operations cost, fitted to those of a run and of its probe. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/fit/fit.h"
#include "analyzer/simulate/stats.h"
#include "analyzer/simulate/wire_state.h"
#include "base/err.h"
#include "base/random.h"

/* "about the size", in half octaves: one beside; and between two sizes that are no farther apart than a
 * factor of 4 the cost cannot bend much */
enum { BESIDE_SIZES = 1, BETWEEN_SIZES = 4 };
/* operations that make a size known: less than half of what one a step gives, and no more than 8 */
static const double LEAST_SIZE_SAMPLES = 3, MOST_SIZE_SAMPLES = 8, SIZE_SAMPLES_A_STEP = 0.4;
static const double WORTH_TELLING_FRAC = 0.1; /* of an operation: what a pause may have saved */
static const double MOST_SCATTER_FRAC =
	10; /* an operation that took longer says nothing of others */
/* a job in which the same operation takes more or less than this of what the probe saw is another job */
static const double LEAST_RUN_FRAC = 0.5;
static const double MOST_RUN_FRAC = 2;
enum { MIN_LOAD_SAMPLES = 8, N_ALIKE = 8 };

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

static int fitting_init(struct fitting *f, const struct lw_wire *wire,
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
			samples[i].service_ns + lw_wire_pause_saves_ns(wire,
							(double)samples[i].bytes,
							samples[i].idle_ns),
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
	int status = fitting_init(&f, wire, samples, n);

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
	status = fitting_init(&f, wire, scratch, n_under);
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
		double expected_ns = lw_wire_recorded_ns(wire, samples[i].bytes, samples[i].idle_ns,
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
			n_of_size[lw_wire_size_of((double)source->samples[i].bytes)]++;
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
			!lw_wire_is_probed(&wire->of[load].probe, bytes))
			continue;
		run_ns += sample->service_ns + lw_wire_pause_saves_ns(wire, bytes, sample->idle_ns);
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

/* What a byte takes on the wire, by the largest operations. */
static double rate_ns_per_byte(const struct lw_wire_source *source)
{
	uint64_t most_bytes = 1;
	double ns = 0, n = 0;

	for (size_t i = 0; i < source->n; i++)
		if (source->samples[i].bytes > most_bytes)
			most_bytes = source->samples[i].bytes;
	for (size_t i = 0; i < source->n; i++)
		if (source->samples[i].bytes == most_bytes) {
			ns += source->samples[i].service_ns;
			n++;
		}
	return n > 0 ? ns / n / (double)most_bytes : 0;
}

/* A pause that nothing of the same size tells about, and that may have saved a good part of the operation: no more
 * than its bytes take. */
static bool is_untold(
	const struct lw_wire *wire, const struct lw_wire_sample *sample, double ns_per_byte)
{
	double idle_ns = (double)sample->idle_ns;
	double saved_ns =
		fmin(fmin(idle_ns, LW_RECOVERY_MOST_NS), ns_per_byte * (double)sample->bytes);

	return sample->idle_ns > LW_FIT_IDLE_NS && idle_ns > 2 * wire->recovery.told_ns &&
	       saved_ns > WORTH_TELLING_FRAC * sample->service_ns;
}

/*
 * What a pause saves is told by operations of one size after pauses that differ. A run may hold none: the first of each
 * step after a long one, all others, of other sizes, at once after another. Then the first say nothing of what
 * their sizes cost without a pause, and do not make them known, where most are others, the largest among them.
 * @ret_left: what is left when some were left out; free() it.
 */
static int leave_out_paused(const struct lw_wire *wire, const struct lw_wire_source *source,
	struct lw_wire_source *ret_source, struct lw_wire_sample **ret_left)
{
	uint64_t most_bytes = 0, left_out_bytes = 0;
	double ns_per_byte = rate_ns_per_byte(source);
	size_t n = 0;

	if (!source->has_pauses)
		return LW_OK;
	*ret_left = malloc((source->n + 1) * sizeof(**ret_left));
	if (!*ret_left)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", source->n);
	for (size_t i = 0; i < source->n; i++) {
		const struct lw_wire_sample *sample = &source->samples[i];
		uint64_t *most =
			is_untold(wire, sample, ns_per_byte) ? &left_out_bytes : &most_bytes;

		if (sample->bytes > *most)
			*most = sample->bytes;
		if (most == &most_bytes)
			(*ret_left)[n++] = *sample;
	}
	if (n < MIN_LOAD_SAMPLES || 2 * n <= source->n || n == source->n ||
		most_bytes < left_out_bytes)
		return LW_OK;
	ret_source->samples = *ret_left;
	ret_source->n = n;
	return LW_OK;
}

/* Then a long pause is taken to save what the largest operations after one took less than the costs of the others
 * say. */
static int assume_recovery(struct lw_wire *wire, const struct lw_wire_source *source,
	const struct lw_wire_source *queued)
{
	double most_bytes = 0, saved_ns = 0, n = 0, ns_per_byte = rate_ns_per_byte(source);
	struct lw_recovery *recovery = &wire->recovery;
	struct lw_cost cost = {0};
	struct fitting f;
	int status = fitting_init(&f, wire, queued->samples, queued->n);

	if (status == LW_OK)
		status = fit_weighted(&f, NULL, LW_COST_NONE, &cost);
	fitting_done(&f);
	for (size_t i = 0; i < source->n; i++)
		if (is_untold(wire, &source->samples[i], ns_per_byte))
			most_bytes = fmax(most_bytes, (double)source->samples[i].bytes);
	for (size_t i = 0; i < source->n && status == LW_OK; i++) {
		const struct lw_wire_sample *sample = &source->samples[i];

		if (!is_untold(wire, sample, ns_per_byte) ||
			(double)sample->bytes < REACH_BELOW * most_bytes)
			continue;
		saved_ns += lw_cost_ns(&cost, (double)sample->bytes, NULL) - sample->service_ns;
		n++;
	}
	lw_cost_done(&cost);
	wire->is_pause_assumed = true;
	wire->saved_ns_per_byte = ns_per_byte;
	saved_ns = n > 0 ? saved_ns / n : 0;
	if (saved_ns > recovery->frac * recovery->limit_ns) {
		recovery->frac = recovery->frac > 0 ? recovery->frac : 1; /* a token bucket's */
		recovery->limit_ns = saved_ns / recovery->frac;
	}
	return status;
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
	struct lw_wire_source queued = *source;
	struct lw_wire_sample *left_out = NULL;
	uint32_t n_steps = 0;
	int status;

	memset(wire, 0, sizeof(*wire));
	wire->cost_frac = 1;
	wire->saved_ns_per_byte = INFINITY;
	wire->scale = (struct lw_wire_scale){1, 1};
	if (source->n == 0)
		return lw_fail(LW_ERR_LIMIT, "no collective was timed on all ranks");
	for (size_t i = 0; i < source->n; i++)
		if (samples[i].step >= n_steps)
			n_steps = samples[i].step + 1;
	status = fit_recovery(wire, samples, source->n);
	if (status == LW_OK)
		status = leave_out_paused(wire, source, &queued, &left_out);
	if (status == LW_OK && queued.n < source->n)
		status = assume_recovery(wire, source, &queued);
	if (status == LW_OK)
		status = fit_all(
			wire, samples, source->n, LW_COST_NONE, &wire->all, wire->replicate);
	if (status == LW_OK && source->n_probes > 0)
		status = fit_all(wire, source->probes, source->n_probes, LW_COST_TABLE,
			&wire->probe, wire->probe_replicate);
	if (status == LW_OK)
		status = fit_loads(wire, source);
	if (status == LW_OK) {
		for (enum lw_wire_load load = 0; load < LW_WIRE_N_LOADS; load++)
			find_known(&queued, load, wire->of[load].is_known);
		find_known(&queued, LW_WIRE_N_LOADS, wire->is_known);
		if (queued.n < source->n)
			find_known(source, LW_WIRE_N_LOADS, wire->is_known_paused);
		compare_with_probe(wire, &queued);
	}
	free(left_out);
	if (status < 0)
		return status;
	wire->latency_ns = fmin(
		source->latency_ns, lw_cost_ns(&wire->all, fmax(wire->all.min_bytes, 1), NULL));
	if (wire->probe.form != LW_COST_NONE)
		wire->latency_ns = fmin(wire->latency_ns,
			lw_cost_ns(&wire->probe, fmax(wire->probe.min_bytes, 1), NULL));
	wire->is_slope_known = isfinite(source->fixed_ns) || lw_wire_tells_slope(&wire->all) ||
			       lw_wire_tells_slope(&wire->probe);
	wire->fixed_ns = fmax(isfinite(source->fixed_ns)        ? source->fixed_ns
			      : lw_wire_tells_slope(&wire->all) ? wire->all.a_ns
								: wire->probe.a_ns,
		wire->latency_ns);
	wire->memo = calloc(1 << LW_WIRE_MEMO_BITS, sizeof(*wire->memo));
	if (!wire->memo)
		return lw_fail(LW_ERR_NOMEM, "no memory for costs");
	wire->memo[0].bytes = 1; /* the place of 0, which nothing is known of yet */
	return keep_scatter(wire, samples, source->n, n_steps);
}
