/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/fit.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/fit/bootstrap.h"
#include "analyzer/fit/collect.h"
#include "analyzer/fit/judge.h"
#include "analyzer/fit/scaling.h"
#include "analyzer/model/osf.h"
#include "base/err.h"

enum { N_REPLICATES = 1000, SEED = 1 };

/* Where the values of one resample stand: figures, then a and b of each cost, then the layers. */
enum { FIRST_COST = LW_FIT_N_FIGURES, FIRST_LAYER = FIRST_COST + 2 * LW_FIT_N_COSTS };

struct fitting {
	const struct lw_collected *data;
	struct lw_fit *fit;
	/* scratch */
	struct lw_size *sizes;
	struct lw_layer *layers;
	struct lw_fusion_slot *slots;
};

/* ---- statistics of one resample ---------------------------------------------------------------- */

static double ratio(double sum, double n)
{
	return n > 0 ? sum / n : (double)NAN;
}

static void means_of_blocks(const struct fitting *f, const double *weights, double *values)
{
	struct lw_block sum = {0};

	for (size_t b = 0; b < f->data->n_blocks; b++) {
		const double *from = (const double *)&f->data->blocks[b];
		double *to = (double *)&sum;

		for (size_t i = 0; i < sizeof(sum) / sizeof(double); i++)
			to[i] += weights[b] * from[i];
	}
	values[LW_FIT_STEP_NS] = ratio(sum.step_ns, sum.n_rank_steps);
	values[LW_FIT_FORWARD_NS] = ratio(sum.forward_ns, sum.n_ready);
	values[LW_FIT_OVERLAP_NS] = ratio(sum.overlap_ns, sum.n_ready);
	values[LW_FIT_COMPUTE_NS] = ratio(sum.compute_ns, sum.n_compute);
	values[LW_FIT_UPDATE_NS] = ratio(sum.update_ns, sum.n_update);
	values[LW_FIT_ROUND_NS] = ratio(sum.round_ns, sum.n_rounds);
	values[LW_FIT_COMM_NS] = values[LW_FIT_BYTES_PER_STEP] = NAN;
	values[LW_FIT_BATCHES_PER_STEP] = NAN;
	if (sum.n_batches > 0) {
		values[LW_FIT_COMM_NS] = sum.comm_ns / sum.n_steps;
		values[LW_FIT_BYTES_PER_STEP] = sum.comm_bytes / sum.n_steps;
		values[LW_FIT_BATCHES_PER_STEP] = sum.n_batches / sum.n_steps;
	}
	values[LW_FIT_OSF_MEASURED] = lw_osf(
		values[LW_FIT_COMPUTE_NS], values[LW_FIT_UPDATE_NS], values[LW_FIT_OVERLAP_NS]);
	values[LW_FIT_UTILISATION_FRAC] = NAN;
}

/* A round is a barrier: on the rank that comes last on average, least of it is waiting. */
static double idle_round_ns(const struct lw_collected *data, const double *weights)
{
	double least_ns = INFINITY;

	for (size_t r = 0; r < data->n_ranks; r++) {
		double n = 0, sum_ns = 0;

		for (size_t b = 0; b < data->n_blocks; b++) {
			n += weights[b] * data->idle_rounds[b * data->n_ranks + r].n;
			sum_ns += weights[b] * data->idle_rounds[b * data->n_ranks + r].sum_ns;
		}
		if (n == 0)
			return NAN;
		least_ns = fmin(least_ns, sum_ns / n);
	}
	return isfinite(least_ns) ? least_ns : (double)NAN;
}

static double after_first_ns(
	const struct lw_collected *data, const double *weights, uint32_t tensor)
{
	double n = 0, sum_ns = 0;

	for (size_t b = 0; b < data->n_blocks; b++) {
		const struct lw_tensor_sum *sum = &data->tensor_sums[b * data->n_tensors + tensor];

		n += weights[b] * sum->n;
		sum_ns += weights[b] * sum->after_first_ns;
	}
	return ratio(sum_ns, n);
}

/* t_backward: differences of mean ready times, in the order of the whole run. */
static void take_layers(const struct fitting *f, const double *weights, double *values)
{
	double before_ns = NAN;

	for (size_t i = 0; i < f->fit->n_layers; i++) {
		double ready_ns = after_first_ns(f->data, weights, f->fit->layers[i].tensor);

		values[i] = i == 0 ? 0 : ready_ns - before_ns;
		before_ns = ready_ns;
		f->layers[i].bytes = f->fit->layers[i].bytes;
		/* a tensor that a resample has not, or early by chance, takes no time there */
		f->layers[i].backward_ns = values[i] > 0 ? values[i] : 0;
	}
}

static void scaling(
	const struct fitting *f, const struct lw_cost *cost, double *values, bool *ret_extrapolated)
{
	const struct lw_scaling_job job = {.layers = f->layers,
		.n_layers = f->fit->n_layers,
		.cost = cost,
		.latency_frac = 1,
		.volume_frac = 1,
		.compute_ns = values[LW_FIT_COMPUTE_NS],
		.bytes_per_step = values[LW_FIT_BYTES_PER_STEP],
		.is_csf_alone = f->fit->why_no_mean_step != NULL,
		.fusion_bytes = f->fit->fusion_bytes,
		.cycle_ns = f->fit->cycle_ns};
	struct lw_scaling answer[LW_SCALING_N];

	lw_scaling(&job, f->slots, answer);
	for (size_t i = 0; i < LW_SCALING_N; i++) {
		values[LW_FIT_CSF + i] = answer[i].factor;
		ret_extrapolated[LW_FIT_CSF + i] = answer[i].is_extrapolated;
	}
}
static_assert((int)LW_FIT_OSF - (int)LW_FIT_CSF == LW_SCALING_OSF &&
		      (int)LW_FIT_OSF_F - (int)LW_FIT_CSF == LW_SCALING_OSF_F &&
		      (int)LW_FIT_OSF_F_PAPER - (int)LW_FIT_CSF == LW_SCALING_OSF_F_PAPER,
	"the order of lw_scaling()");

static int take_costs(
	const struct fitting *f, const double *weights, double *values, struct lw_cost *ret_wire)
{
	for (size_t k = 0; k < LW_FIT_N_COSTS; k++) {
		size_t n = lw_samples_weigh(&f->data->samples[k], weights, f->sizes);
		double *line = &values[FIRST_COST + 2 * k];
		struct lw_cost cost;
		int status;

		status = lw_cost_fit(f->sizes, n, LW_COST_AFFINE, LW_WEIGHT_FITTED, &cost);
		if (status == LW_OK && k == LW_FIT_COST_WIRE)
			status = lw_cost_fit(
				f->sizes, n, f->fit->cost[k].cost.form, LW_WEIGHT_FITTED, ret_wire);
		if (status < 0)
			return status;
		line[0] = cost.slope_known ? cost.a_ns : (double)NAN;
		line[1] = cost.slope_known ? cost.b_ns_per_byte : (double)NAN;
	}
	return LW_OK;
}

static int resample(
	const struct fitting *f, const double *weights, double *values, bool *ret_is_extrapolated)
{
	struct lw_cost wire = {0};
	int status;

	means_of_blocks(f, weights, values);
	values[LW_FIT_IDLE_ROUND_NS] = idle_round_ns(f->data, weights);
	take_layers(f, weights, &values[FIRST_LAYER]);
	status = take_costs(f, weights, values, &wire);
	if (status < 0)
		return status;
	values[LW_FIT_ALPHA_NS] = values[FIRST_COST + 2 * LW_FIT_COST_WIRE];
	values[LW_FIT_SLOPE_NS_PER_BYTE] = values[FIRST_COST + 2 * LW_FIT_COST_WIRE + 1];
	values[LW_FIT_BETA_BYTES_PER_S] =
		lw_beta_bytes_per_s(values[LW_FIT_SLOPE_NS_PER_BYTE], f->fit->n_ranks);
	scaling(f, &wire, values, ret_is_extrapolated);
	lw_cost_done(&wire);
	return LW_OK;
}

static int statistics(const double *weights, size_t n_blocks, double *ret_values, void *context)
{
	bool ignored[LW_FIT_N_FIGURES] = {false};

	(void)n_blocks;
	return resample(context, weights, ret_values, ignored);
}

/* ---- the fit ----------------------------------------------------------------------------------- */

struct placed {
	uint32_t tensor;
	double after_first_ns;
};

static int by_ready(const void *left, const void *right)
{
	const struct placed *a = left, *b = right;

	if (a->after_first_ns != b->after_first_ns)
		return a->after_first_ns < b->after_first_ns ? -1 : 1;
	return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

/* The tensors with ready times, in the order in which they become ready on average. */
static int order_layers(const struct lw_collected *data, const double *ones, struct lw_fit *fit)
{
	struct placed *placed = calloc(data->n_tensors + 1, sizeof(*placed));
	size_t n = 0;

	fit->layers = calloc(data->n_tensors + 1, sizeof(*fit->layers));
	if (!placed || !fit->layers) {
		free(placed);
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu tensors", data->n_tensors);
	}
	for (uint32_t t = 0; t < data->n_tensors; t++) {
		double ns = after_first_ns(data, ones, t);

		if (!isnan(ns))
			placed[n++] = (struct placed){t, ns};
	}
	qsort(placed, n, sizeof(*placed), by_ready);
	for (size_t i = 0; i < n; i++)
		fit->layers[i] = (struct lw_fit_layer){
			.tensor = placed[i].tensor, .bytes = data->tensor_bytes[placed[i].tensor]};
	fit->n_layers = n;
	free(placed);
	return LW_OK;
}

/* Members and batches of one step differ by padding, which is less. */
static const double apart_frac = 0.01;

/* Every layer is sent once in the step that the models see: together they are what a step sends, or that step
 * is none of the run. Decided once: a resample of steps does not change what the layers are. */
static const char *why_no_mean_step(
	const struct lw_run *run, const struct fitting *f, const double *ones)
{
	double values[LW_FIT_N_FIGURES], layers_bytes = 0, sent_bytes;

	means_of_blocks(f, ones, values);
	sent_bytes = values[LW_FIT_BYTES_PER_STEP];
	for (size_t i = 0; i < f->fit->n_layers; i++)
		layers_bytes += f->fit->layers[i].bytes;
	if (f->fit->n_layers == 0 || isnan(sent_bytes)) /* there are other words for that */
		return NULL;
	if (fabs(layers_bytes - sent_bytes) <= apart_frac * sent_bytes)
		return NULL;
	return run->is_plain && layers_bytes < sent_bytes ? LW_FIT_NO_NAMES : LW_FIT_NO_MEAN_STEP;
}

static int choose_costs(const struct fitting *f)
{
	for (size_t k = 0; k < LW_FIT_N_COSTS; k++) {
		size_t n = lw_samples_weigh(&f->data->samples[k], NULL, f->sizes);
		bool is_wire = k <= LW_FIT_COST_REDUCESCATTER;
		struct lw_cost *cost = &f->fit->cost[k].cost;
		int status =
			is_wire ? lw_cost_choose(f->sizes, n, LW_WEIGHT_FITTED, cost)
				: lw_cost_fit(f->sizes, n, LW_COST_AFFINE, LW_WEIGHT_FITTED, cost);

		if (status < 0)
			return status;
		f->fit->cost[k].sizes = malloc((n + 1) * sizeof(*f->sizes));
		if (!f->fit->cost[k].sizes)
			return LW_ERR_NOMEM;
		memcpy(f->fit->cost[k].sizes, f->sizes, n * sizeof(*f->sizes));
		f->fit->cost[k].n_sizes = n;
	}
	return LW_OK;
}

/* The setting in force; what the framework rounded it to, where that was seen. */
static void read_setting(const struct lw_run *run, struct lw_fit *fit)
{
	const double *setting = run->ranks.at[0].setting;

	fit->fusion_bytes = setting[LW_SETTING_FUSION_EFFECTIVE_BYTES];
	if (isnan(fit->fusion_bytes))
		fit->fusion_bytes = setting[LW_SETTING_FUSION_BYTES];
	fit->cycle_ns = setting[LW_SETTING_CYCLE_NS];
}

static const char *missing_text(enum lw_fit_figure figure)
{
	static const char *const texts[] = {
#define X(name, text, note, missing) missing,
		LW_FIT_FIGURES(X)
#undef X
	};

	return texts[figure];
}

static struct lw_figure not_negative(struct lw_figure figure, const char *missing)
{
	if (isnan(figure.value)) {
		figure.low = figure.high = NAN;
		figure.why = missing;
	}
	if (figure.low < 0)
		figure.low = 0;
	return figure;
}

/* It rests on what operations took. */
static bool is_of_costs(enum lw_fit_figure figure)
{
	return figure == LW_FIT_COMM_NS || figure == LW_FIT_BYTES_PER_STEP ||
	       figure == LW_FIT_BATCHES_PER_STEP || figure == LW_FIT_ALPHA_NS ||
	       figure == LW_FIT_SLOPE_NS_PER_BYTE || figure == LW_FIT_BETA_BYTES_PER_S ||
	       (figure >= LW_FIT_CSF && figure <= LW_FIT_OSF_MEASURED);
}

/* It rests on how costs grow with size. */
static bool is_of_line(enum lw_fit_figure figure, const struct lw_fit *fit)
{
	if (figure >= LW_FIT_CSF && figure <= LW_FIT_OSF_F_PAPER)
		return !fit->why_no_scaling; /* which says more */
	return figure == LW_FIT_ALPHA_NS || figure == LW_FIT_SLOPE_NS_PER_BYTE ||
	       figure == LW_FIT_BETA_BYTES_PER_S ||
	       (figure == LW_FIT_BYTES_PER_STEP && fit->is_unsized);
}

static struct lw_figure unknown(enum lw_how how, const char *why)
{
	return (struct lw_figure){NAN, NAN, NAN, how, why};
}

static void deliver(
	struct lw_fit *fit, const struct lw_figure *figures, const bool *is_extrapolated)
{
	static const enum lw_fit_figure measured[] = {LW_FIT_STEP_NS, LW_FIT_FORWARD_NS,
		LW_FIT_OVERLAP_NS, LW_FIT_COMPUTE_NS, LW_FIT_COMM_NS, LW_FIT_UPDATE_NS,
		LW_FIT_BYTES_PER_STEP, LW_FIT_BATCHES_PER_STEP, LW_FIT_ROUND_NS,
		LW_FIT_IDLE_ROUND_NS, LW_FIT_OSF_MEASURED};

	for (size_t i = 0; i < LW_FIT_N_FIGURES; i++) {
		bool is_of_mean_step = i >= LW_FIT_OSF && i <= LW_FIT_OSF_F_PAPER;
		const char *missing = is_of_mean_step && fit->why_no_mean_step
					      ? fit->why_no_mean_step
					      : missing_text((enum lw_fit_figure)i);

		fit->figure[i] = not_negative(figures[i], missing);
		if (is_extrapolated[i] && !isnan(figures[i].value))
			fit->figure[i].why = LW_FIT_NOT_HELD;
		if (i >= LW_FIT_CSF && i <= LW_FIT_OSF_MEASURED && fit->why_no_scaling)
			fit->figure[i] = unknown(figures[i].how, fit->why_no_scaling);
		if (is_of_line((enum lw_fit_figure)i, fit) && fit->why_no_line)
			fit->figure[i] = unknown(figures[i].how, fit->why_no_line);
		if (is_of_costs((enum lw_fit_figure)i) && fit->why_no_costs)
			fit->figure[i] = unknown(figures[i].how, fit->why_no_costs);
	}
	for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++)
		fit->figure[measured[i]].how = LW_MEASURED;
	for (size_t k = 0; k < LW_FIT_N_COSTS; k++) {
		const struct lw_figure *line = &figures[FIRST_COST + 2 * k];
		const char *why = fit->cost[k].cost.why;

		fit->cost[k].a_ns = not_negative(line[0], why);
		fit->cost[k].b_ns_per_byte = not_negative(line[1], why);
	}
	for (size_t i = 0; i < fit->n_layers; i++) {
		fit->layers[i].backward_ns = not_negative(figures[FIRST_LAYER + i], NULL);
		fit->layers[i].backward_ns.how = LW_MEASURED;
	}
}

enum lw_fit_probe lw_fit_probe(const struct lw_run *run)
{
	const struct lw_rank *rank = run->ranks.n ? &run->ranks.at[0] : NULL;

	if (!rank || run->is_import || run->is_profile ||
		(rank->transport != LW_TRANSPORT_MPI && rank->transport != LW_TRANSPORT_GLOO))
		return LW_FIT_PROBE_NONE;
	return rank->framework == LW_FRAMEWORK_TORCH_DDP ? LW_FIT_PROBE_SCRIPT : LW_FIT_PROBE_CAN;
}

const char *lw_fit_why(enum lw_fit_probe probe, const char *why)
{
	static const char *const texts[][3] = {
		{LW_FIT_NO_SIZES, LW_FIT_NO_SIZES LW_FIT_PROBE_TELLS,
			LW_FIT_NO_SIZES LW_FIT_PROBE_TELLS LW_FIT_TORCH_PROBE},
		{LW_FIT_NO_MODEL, LW_FIT_NO_MODEL LW_FIT_PROBE_HOLDS,
			LW_FIT_NO_MODEL LW_FIT_PROBE_HOLDS LW_FIT_TORCH_PROBE},
		{LW_FIT_NOT_HELD, LW_FIT_NOT_HELD LW_FIT_PROBE_WOULD,
			LW_FIT_NOT_HELD LW_FIT_PROBE_WOULD LW_FIT_TORCH_PROBE},
	};

	for (size_t i = 0; why && i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!strcmp(why, texts[i][0]))
			return texts[i][probe];
	return why;
}

static int fit_all(const struct lw_run *run, struct fitting *f)
{
	struct lw_fit *fit = f->fit;
	bool is_extrapolated[LW_FIT_N_FIGURES] = {false};
	double *ones = calloc(f->data->n_blocks, sizeof(*ones)), *values = NULL;
	struct lw_figure *figures = NULL;
	size_t n_values, n_sizes = 1;
	int status = LW_ERR_NOMEM;

	for (size_t k = 0; k < LW_FIT_N_COSTS; k++)
		if (f->data->samples[k].n_sizes > n_sizes)
			n_sizes = f->data->samples[k].n_sizes;
	for (size_t b = 0; ones && b < f->data->n_blocks; b++)
		ones[b] = 1;
	if (!ones || order_layers(f->data, ones, fit) < 0)
		goto out;
	n_values = FIRST_LAYER + fit->n_layers;
	f->sizes = calloc(n_sizes, sizeof(*f->sizes));
	f->layers = calloc(fit->n_layers + 1, sizeof(*f->layers));
	f->slots = calloc(fit->n_layers + 1, sizeof(*f->slots));
	figures = calloc(n_values, sizeof(*figures));
	values = calloc(n_values, sizeof(*values));
	if (!f->sizes || !f->layers || !f->slots || !figures || !values)
		goto out;
	read_setting(run, fit);
	fit->why_no_mean_step = why_no_mean_step(run, f, ones);
	status = choose_costs(f);
	if (status == LW_OK)
		lw_fit_doubt(run, f->data, fit);
	if (status == LW_OK)
		status = resample(f, ones, values, is_extrapolated);
	if (status == LW_OK)
		status = lw_bootstrap(
			f->data->n_blocks, N_REPLICATES, SEED, statistics, f, n_values, figures);
	if (status == LW_OK)
		deliver(fit, figures, is_extrapolated);
	for (size_t i = 0; i < LW_FIT_N_FIGURES && status == LW_OK; i++)
		fit->figure[i].why = lw_fit_why(lw_fit_probe(run), fit->figure[i].why);
out:
	free(ones);
	free(values);
	free(figures);
	free(f->sizes);
	free(f->layers);
	free(f->slots);
	return status == LW_ERR_NOMEM ? lw_fail(status, "no memory to fit the run") : status;
}

int lw_fit_run(struct lw_run *run, struct lw_fit *ret_fit)
{
	struct lw_collected data;
	struct lw_fit fit = {0};
	struct fitting f = {.data = &data, .fit = &fit};
	int status = lw_fit_collect(run, &data);

	if (status < 0)
		return status;
	fit.n_steps = data.n_steps;
	fit.n_groups = data.n_groups;
	fit.n_partial = data.n_partial;
	fit.why_no_costs = lw_fit_has_costs(run) ? NULL : LW_FIT_RANK_MISSING;
	fit.n_ranks = run->size > 0 ? run->size : (int32_t)run->ranks.n;
	status = fit_all(run, &f);
	if (status == LW_OK)
		status = lw_fit_judge(run, &fit);
	lw_collected_done(&data);
	if (status < 0)
		lw_fit_done(&fit);
	else
		*ret_fit = fit;
	return status;
}

void lw_fit_done(struct lw_fit *fit)
{
	for (size_t k = 0; k < LW_FIT_N_COSTS; k++) {
		lw_cost_done(&fit->cost[k].cost);
		free(fit->cost[k].sizes);
	}
	free(fit->layers);
	*fit = (struct lw_fit){0};
}
