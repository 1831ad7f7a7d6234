/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/simulate/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/simulate/stats.h"
#include "base/err.h"

enum { MIN_CLASS_SAMPLES = 8 };
static const double REACH_BELOW = 0.7; /* "about the size": down to this fraction */
static const double REACH_ABOVE = 1.5; /* and up to this one */
/* how far the cost of operations beyond the largest may be off */
static const double OPTIMISTIC_FRAC = 0.85;
static const double PESSIMISTIC_FRAC = 1.15;

enum class { ALL, FIRST, QUEUED };

static bool is_in_class(const struct lw_wire_sample *sample, enum class class)
{
	bool is_first = sample->idle_ns > LW_WIRE_IDLE_NS;

	return class == ALL || (class == FIRST) == is_first;
}

struct fitting {
	const struct lw_wire_sample *samples;
	size_t n;
	struct lw_sample *scratch; /* [n] */
	struct lw_size *sizes;     /* [n] */
	double *weights;           /* [n_blocks] */
	uint32_t n_blocks;
};

static int fit_weighted(struct fitting *f, const struct lw_samples *added, const double *weights,
	struct lw_cost *ret_cost)
{
	size_t n_sizes = lw_samples_weigh(added, weights, f->sizes);

	return lw_cost_choose(f->sizes, n_sizes, LW_WEIGHT_FITTED, ret_cost);
}

/* Resampled steps; the same draws for the same number of steps. */
static int fit_replicates(struct fitting *f, const struct lw_samples *added, struct lw_wire *wire)
{
	uint64_t random = 1;
	int status = LW_OK;

	for (int k = 0; k < LW_WIRE_REPLICATES && status == LW_OK; k++) {
		memset(f->weights, 0, f->n_blocks * sizeof(*f->weights));
		for (uint32_t b = 0; b < f->n_blocks; b++)
			f->weights[lw_stats_random(&random) % f->n_blocks]++;
		status = fit_weighted(f, added, f->weights, &wire->replicate[k]);
	}
	return status;
}

static int fit_class(
	struct fitting *f, enum class class, struct lw_wire *wire, struct lw_cost *ret_cost)
{
	struct lw_samples added = {0};
	size_t n = 0;
	int status;

	for (size_t i = 0; i < f->n; i++)
		if (is_in_class(&f->samples[i], class))
			f->scratch[n++] = (struct lw_sample){(double)f->samples[i].bytes,
				f->samples[i].service_ns, f->samples[i].step};
	if (n == 0)
		return LW_OK;
	status = lw_samples_init(&added, f->scratch, n);
	if (status < 0)
		return status;
	status = fit_weighted(f, &added, NULL, ret_cost);
	if (status == LW_OK && class == ALL)
		status = fit_replicates(f, &added, wire);
	lw_samples_done(&added);
	return status;
}

static bool reaches(const struct lw_cost *cost, double bytes)
{
	return bytes >= cost->min_bytes * REACH_BELOW && bytes <= cost->max_bytes * REACH_ABOVE;
}

static double recorded_ns(const struct lw_wire *wire, double bytes, int64_t idle_ns)
{
	const struct lw_cost *cost = idle_ns > LW_WIRE_IDLE_NS ? &wire->first : &wire->queued;
	double cost_ns;

	if (cost->n < MIN_CLASS_SAMPLES || !reaches(cost, bytes))
		cost = &wire->all;
	cost_ns = lw_cost_ns(cost, bytes, NULL);
	if (wire->use_replicate >= 0) {
		const struct lw_cost *replicate = &wire->replicate[wire->use_replicate];
		double fitted_ns = lw_cost_ns(&wire->all, bytes, NULL);

		if (fitted_ns > 0 && replicate->form != LW_COST_NONE)
			cost_ns *= lw_cost_ns(replicate, bytes, NULL) / fitted_ns;
	}
	return fmax(cost_ns, wire->latency_ns);
}

bool lw_wire_knows(const struct lw_wire *wire, double bytes)
{
	return reaches(&wire->all, bytes);
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
	double mean_ns = lw_wire_mean_ns(wire, op->bytes, op->idle_ns);
	uint32_t n;

	if (op->step >= wire->n_steps)
		return mean_ns;
	n = wire->scatter_at[op->step + 1] - wire->scatter_at[op->step];
	return n ? mean_ns * wire->scatter[wire->scatter_at[op->step] + op->nth % n] : mean_ns;
}

/* @samples are in the order of the run, hence of its steps. */
static int keep_scatter(
	struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n, uint32_t n_steps)
{
	double sum_ns = 0, fitted_ns = 0;

	wire->scatter = malloc(n * sizeof(*wire->scatter));
	wire->scatter_at = calloc((size_t)n_steps + 1, sizeof(*wire->scatter_at));
	if (!wire->scatter || !wire->scatter_at)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", n);
	wire->n_steps = n_steps;
	for (size_t i = 0; i < n; i++) {
		double expected_ns =
			recorded_ns(wire, (double)samples[i].bytes, samples[i].idle_ns);

		sum_ns += samples[i].service_ns;
		fitted_ns += expected_ns;
		wire->scatter[i] = expected_ns > 0 ? samples[i].service_ns / expected_ns : 1;
		wire->scatter_at[samples[i].step + 1]++;
	}
	for (uint32_t s = 0; s < n_steps; s++)
		wire->scatter_at[s + 1] += wire->scatter_at[s];
	for (size_t i = 0; i < n; i++) /* scatter only: the sum is the fit's affair */
		wire->scatter[i] *= fitted_ns / sum_ns;
	return LW_OK;
}

void lw_wire_done(struct lw_wire *wire)
{
	lw_cost_done(&wire->all);
	lw_cost_done(&wire->first);
	lw_cost_done(&wire->queued);
	free(wire->scatter);
	free(wire->scatter_at);
	for (int k = 0; k < LW_WIRE_REPLICATES; k++)
		lw_cost_done(&wire->replicate[k]);
}

int lw_wire_init(
	struct lw_wire *wire, const struct lw_wire_sample *samples, size_t n, double latency_ns)
{
	struct fitting f = {.samples = samples, .n = n};
	int status = LW_OK;

	memset(wire, 0, sizeof(*wire));
	if (n == 0)
		return lw_fail(LW_ERR_LIMIT, "no collective was timed on all ranks");
	for (size_t i = 0; i < n; i++)
		if (samples[i].step >= f.n_blocks)
			f.n_blocks = samples[i].step + 1;
	f.scratch = malloc(n * sizeof(*f.scratch));
	f.sizes = malloc(n * sizeof(*f.sizes));
	f.weights = malloc(f.n_blocks * sizeof(*f.weights));
	if (!f.scratch || !f.sizes || !f.weights)
		status = lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", n);
	if (status == LW_OK)
		status = fit_class(&f, ALL, wire, &wire->all);
	if (status == LW_OK)
		status = fit_class(&f, FIRST, wire, &wire->first);
	if (status == LW_OK)
		status = fit_class(&f, QUEUED, wire, &wire->queued);
	free(f.scratch);
	free(f.sizes);
	free(f.weights);
	wire->use_replicate = -1;
	wire->scale = (struct lw_wire_scale){1, 1};
	wire->latency_ns =
		fmin(latency_ns, lw_cost_ns(&wire->all, fmax(wire->all.min_bytes, 1), NULL));
	return status == LW_OK ? keep_scatter(wire, samples, n, f.n_blocks) : status;
}
