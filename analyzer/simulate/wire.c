/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/stats.h"
#include "base/err.h"

static const double REACH_BELOW = 0.7; /* "about the size": down to this fraction */
static const double REACH_ABOVE = 1.5; /* and up to this one */
/* how far the cost of operations beyond the largest may be off */
static const double OPTIMISTIC_FRAC = 0.85;
static const double PESSIMISTIC_FRAC = 1.15;
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

/* @is_table: the sizes are as they were chosen to be; else the form that predicts best. */
static int fit_weighted(
	struct fitting *f, const double *weights, bool is_table, struct lw_cost *ret_cost)
{
	size_t n_sizes = lw_samples_weigh(&f->added, weights, f->sizes);

	return is_table ? lw_cost_fit(f->sizes, n_sizes, LW_COST_TABLE, LW_WEIGHT_FITTED, ret_cost)
			: lw_cost_choose(f->sizes, n_sizes, LW_WEIGHT_FITTED, ret_cost);
}

/* The cost and LW_WIRE_REPLICATES more of resampled blocks; the same draws for as many blocks. */
static int fit(
	struct fitting *f, bool is_table, struct lw_cost *ret_cost, struct lw_cost *replicate)
{
	uint64_t random = 1;
	int status = fit_weighted(f, NULL, is_table, ret_cost);

	for (int k = 0; k < LW_WIRE_REPLICATES && status == LW_OK; k++) {
		memset(f->weights, 0, f->n_blocks * sizeof(*f->weights));
		for (uint32_t b = 0; b < f->n_blocks; b++)
			f->weights[lw_stats_random(&random) % f->n_blocks]++;
		status = fit_weighted(f, f->weights, is_table, &replicate[k]);
	}
	return status;
}

static int fit_all(struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n,
	bool is_table, struct lw_cost *ret_cost, struct lw_cost *replicate)
{
	struct fitting f;
	int status = fitting_init(&f, &wire->recovery, samples, n);

	if (status == LW_OK)
		status = fit(&f, is_table, ret_cost, replicate);
	fitting_done(&f);
	return status;
}

/* ---- asking ------------------------------------------------------------------------------------- */

static bool reaches(const struct lw_cost *cost, double bytes)
{
	return cost->form != LW_COST_NONE && bytes >= cost->min_bytes * REACH_BELOW &&
	       bytes <= cost->max_bytes * REACH_ABOVE;
}

bool lw_wire_knows(const struct lw_wire *wire, double bytes)
{
	return reaches(&wire->all, bytes) || reaches(&wire->probe, bytes);
}

/* Back to back. Of the fit, or of replicate @k when it is not negative. */
static double queued_ns(const struct lw_wire *wire, double bytes, int k)
{
	const struct lw_cost *run = k < 0 ? &wire->all : &wire->replicate[k];
	const struct lw_cost *probe = k < 0 ? &wire->probe : &wire->probe_replicate[k];

	if (reaches(&wire->all, bytes) || probe->form == LW_COST_NONE)
		return lw_cost_ns(run->form == LW_COST_NONE ? &wire->all : run, bytes, NULL);
	return lw_cost_ns(probe, bytes, NULL) * wire->run_frac[bytes > wire->all.max_bytes];
}

static double recorded_ns(const struct lw_wire *wire, double bytes, int64_t idle_ns)
{
	return fmax(queued_ns(wire, bytes, wire->use_replicate) -
			    lw_recovery_ns(&wire->recovery, (double)idle_ns),
		wire->latency_ns);
}

double lw_wire_mean_ns(const struct lw_wire *wire, uint64_t bytes, int64_t idle_ns)
{
	double cost_ns = recorded_ns(wire, (double)bytes, idle_ns);

	cost_ns = wire->latency_ns * wire->scale.latency_frac +
		  (cost_ns - wire->latency_ns) * wire->scale.volume_frac;
	if (wire->guess == LW_WIRE_FITTED || lw_wire_knows(wire, (double)bytes))
		return cost_ns;
	if ((double)bytes > wire->all.max_bytes)
		return cost_ns *
		       (wire->guess == LW_WIRE_OPTIMISTIC ? OPTIMISTIC_FRAC : PESSIMISTIC_FRAC);
	if (wire->guess == LW_WIRE_PESSIMISTIC)
		return fmax(cost_ns, LW_WIRE_LOADED * wire->latency_ns);
	return cost_ns;
}

double lw_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	const struct lw_wire *wire = context;

	return lw_wire_mean_ns(wire, op->bytes, op->idle_ns) *
	       lw_hvd_scatter_of(&wire->scatter, op->step, op->nth);
}

/* ---- making ------------------------------------------------------------------------------------- */

/* @samples are in the order of the run, hence of its steps. */
static int keep_scatter(
	struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n, uint32_t n_steps)
{
	double sum_ns = 0, fitted_ns = 0;

	wire->scatter = (struct lw_hvd_scatter){malloc(n * sizeof(*wire->scatter.frac)),
		calloc((size_t)n_steps + 1, sizeof(*wire->scatter.from)), n_steps};
	if (!wire->scatter.frac || !wire->scatter.from)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", n);
	for (size_t i = 0; i < n; i++) {
		double expected_ns =
			recorded_ns(wire, (double)samples[i].bytes, samples[i].idle_ns);

		sum_ns += samples[i].service_ns;
		fitted_ns += expected_ns;
		wire->scatter.frac[i] = expected_ns > 0 ? samples[i].service_ns / expected_ns : 1;
		wire->scatter.from[samples[i].step + 1]++;
	}
	for (uint32_t s = 0; s < n_steps; s++)
		wire->scatter.from[s + 1] += wire->scatter.from[s];
	for (size_t i = 0; i < n; i++) /* scatter only: the sum is the fit's affair */
		wire->scatter.frac[i] *= fitted_ns / sum_ns;
	return LW_OK;
}

/* The run over the probe, mean over what the run sent within REACH of its smallest or largest size. */
static double run_frac(const struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n,
	double edge_bytes)
{
	double run_ns = 0, probe_ns = 0;

	for (size_t i = 0; i < n; i++) {
		double bytes = (double)samples[i].bytes;

		if (bytes < edge_bytes * REACH_BELOW || bytes > edge_bytes * REACH_ABOVE)
			continue;
		run_ns += samples[i].service_ns +
			  lw_recovery_ns(&wire->recovery, (double)samples[i].idle_ns);
		probe_ns += lw_cost_ns(&wire->probe, bytes, NULL);
	}
	return probe_ns > 0 ? fmin(fmax(run_ns / probe_ns, LEAST_RUN_FRAC), MOST_RUN_FRAC) : 1;
}

void lw_wire_done(struct lw_wire *wire)
{
	lw_cost_done(&wire->all);
	lw_cost_done(&wire->probe);
	free(wire->scatter.frac);
	free(wire->scatter.from);
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
	wire->use_replicate = -1;
	wire->scale = (struct lw_wire_scale){1, 1};
	if (source->n == 0)
		return lw_fail(LW_ERR_LIMIT, "no collective was timed on all ranks");
	for (size_t i = 0; i < source->n; i++)
		if (samples[i].step >= n_steps)
			n_steps = samples[i].step + 1;
	status = fit_recovery(wire, samples, source->n);
	if (status == LW_OK)
		status = fit_all(wire, samples, source->n, false, &wire->all, wire->replicate);
	if (status == LW_OK && source->n_probes > 0)
		status = fit_all(wire, source->probes, source->n_probes, true, &wire->probe,
			wire->probe_replicate);
	if (status < 0)
		return status;
	wire->run_frac[0] = run_frac(wire, samples, source->n, wire->all.min_bytes);
	wire->run_frac[1] = run_frac(wire, samples, source->n, wire->all.max_bytes);
	wire->latency_ns = fmin(
		source->latency_ns, lw_cost_ns(&wire->all, fmax(wire->all.min_bytes, 1), NULL));
	if (wire->probe.form != LW_COST_NONE)
		wire->latency_ns = fmin(wire->latency_ns,
			lw_cost_ns(&wire->probe, fmax(wire->probe.min_bytes, 1), NULL));
	return keep_scatter(wire, samples, source->n, n_steps);
}
