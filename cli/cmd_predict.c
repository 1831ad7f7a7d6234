/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_predict.c - `lapwing predict RUN...`: the step time under another setting, by a chosen model. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/advise/advise.h"
#include "analyzer/analyzer.h"
#include "analyzer/emit/report.h"
#include "analyzer/simulate/closed.h"
#include "analyzer/simulate/replay.h"
#include "analyzer/simulate/stats.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/figure.h"
#include "generated/schema_predict.h"

enum { KEY_RANKS = 0x100, KEY_BANDWIDTH, KEY_LATENCY, KEY_COMPUTE, KEY_MODEL, KEY_GRID };

#define MODELS "hvd_cycle, osf_fifo, osf_paper, osf, csf"
static const char *const model_names[] = {"hvd_cycle", "osf_fifo", "osf_paper", "osf", "csf"};
enum model { HVD_CYCLE, OSF_FIFO, OSF_PAPER, OSF, CSF, N_MODELS };

struct options {
	bool is_grid;
	enum model model;
	struct lw_whatif whatif;
	struct lw_cli_runs runs;
};

struct result {
	struct lw_prediction prediction;
	struct lw_figure scaling[LW_SCALING_N];
	double gain_frac;
};

struct predictor {
	const struct options *options;
	struct lw_run *run;
	struct lw_replay *replay;
	struct lw_fit fit;
	struct lw_figure recorded_ns; /* measured */
	double base_ns;               /* what the model says of the recorded setting */
};

static const enum lw_scaling_model closed_models[] = {[OSF_FIFO] = LW_SCALING_OSF_F,
	[OSF_PAPER] = LW_SCALING_OSF_F_PAPER,
	[OSF] = LW_SCALING_OSF,
	[CSF] = LW_SCALING_CSF};

/* The fit's own for the recorded setting; for another one a value without an interval. */
static struct lw_figure scaling_figure(const struct predictor *predictor,
	enum lw_scaling_model model, const struct lw_scaling *scaling, bool is_recorded)
{
	struct lw_figure figure = {scaling->factor, NAN, NAN, LW_PREDICTED, NULL};

	if (is_recorded)
		return predictor->fit.figure[LW_FIT_CSF + model];
	if (isnan(figure.value))
		figure.why = model < LW_SCALING_OSF_F ? LW_FIT_NO_MODEL : LW_FIT_NO_MODEL_Q;
	else
		figure.why = scaling->is_extrapolated
				     ? "the model sends operations of sizes that this run does not"
				       " hold, and a closed model gives no interval"
				     : "a closed model gives no interval";
	return figure;
}

static int predict(
	struct predictor *predictor, const struct lw_whatif *whatif, struct result *result)
{
	enum model model = predictor->options->model;
	struct lw_prediction *prediction = &result->prediction;
	struct lw_scaling scaling[LW_SCALING_N];
	double compute_ns = NAN, tail_ns = NAN;
	int status = lw_replay_predict(predictor->replay, whatif, prediction, NULL);

	if (status == LW_OK)
		status = lw_closed_predict(
			predictor->replay, &predictor->fit, whatif, scaling, &compute_ns, &tail_ns);
	if (status < 0)
		return status;
	for (size_t i = 0; i < LW_SCALING_N; i++)
		result->scaling[i] = scaling_figure(
			predictor, (enum lw_scaling_model)i, &scaling[i], prediction->is_recorded);
	if (model != HVD_CYCLE) {
		enum lw_scaling_model closed = closed_models[model];
		bool is_same_ranks = prediction->n_ranks == predictor->replay->input.n_ranks;

		prediction->is_extrapolated = scaling[closed].is_extrapolated;
		prediction->step_ns = scaling_figure(predictor, closed, &scaling[closed], false);
		prediction->step_ns.value = compute_ns / scaling[closed].factor + tail_ns;
		if (prediction->is_extrapolated || !is_same_ranks)
			prediction->step_ns.how = LW_ASSUMED;
	}
	result->gain_frac = 1 - prediction->step_ns.value / predictor->base_ns;
	return LW_OK;
}

/* ---- text ------------------------------------------------------------------------------------- */

static void write_setting(
	const struct predictor *predictor, const struct lw_prediction *prediction, char text[128])
{
	const char *plural = prediction->n_ranks == 1 ? "" : "s";
	char bytes[LW_UNIT_TEXT_BYTES];

	if (predictor->replay->is_ddp)
		snprintf(text, 128, "buckets as recorded, %u rank%s", prediction->n_ranks, plural);
	else
		snprintf(text, 128, "fusion threshold %s, cycle %g ms, %u rank%s",
			lw_bytes_format(prediction->fusion_bytes, bytes),
			prediction->cycle_ns / 1e6, prediction->n_ranks, plural);
}

static const char *model_name(const struct predictor *predictor)
{
	if (predictor->options->model == HVD_CYCLE && predictor->replay->is_ddp)
		return "ddp";
	return model_names[predictor->options->model];
}

static void print_frac(const char *name, double frac)
{
	if (frac != 1)
		printf(", %s %g of the recorded", name, frac);
}

static void print_head(const struct predictor *predictor)
{
	const struct lw_replay *replay = predictor->replay;
	struct lw_prediction recorded = {.fusion_bytes = (double)replay->setting.fusion_bytes,
		.cycle_ns = (double)replay->setting.cycle_ns,
		.n_ranks = replay->input.n_ranks};
	char setting[128], step[LW_UNIT_TEXT_BYTES];

	write_setting(predictor, &recorded, setting);
	printf("%-10s %s: %s a step, measured (median of %u)\n",
		replay->is_ddp || replay->is_setting_known ? "recorded" : "assumed", setting,
		lw_ns_format(predictor->recorded_ns.value, step), replay->n_steps);
}

static void print_sure(const struct predictor *predictor)
{
	const struct lw_replay *replay = predictor->replay;
	char bias[LW_UNIT_TEXT_BYTES];

	if (predictor->options->model != HVD_CYCLE) {
		printf("how sure   a closed model without rounds and ticks; it is not corrected by the run\n");
		return;
	}
	printf("how sure   replayed as recorded, the model is off by %.1f %% (%s%s a step), which is added to"
	       " every prediction\n",
		100 * replay->error_frac, replay->bias_ns < 0 ? "-" : "+",
		lw_ns_format(fabs(replay->bias_ns), bias));
}

static const char *const scaling_titles[] = {"CSF", "OSF", "OSF_f"};

static void print_one(const struct predictor *predictor, const struct result *result)
{
	const struct lw_prediction *prediction = &result->prediction;
	const struct lw_whatif *whatif = &predictor->options->whatif;
	char setting[128], step[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES],
		high[LW_UNIT_TEXT_BYTES];

	write_setting(predictor, prediction, setting);
	printf("%-10s %s", lw_how_name(prediction->step_ns.how), setting);
	print_frac("bandwidth", whatif->bandwidth_frac);
	print_frac("latency", whatif->latency_frac);
	print_frac("compute", whatif->compute_frac);
	if (isnan(prediction->step_ns.value))
		printf(": not known");
	else
		printf(": %s a step", lw_ns_format(prediction->step_ns.value, step));
	if (isfinite(prediction->step_ns.low))
		printf(" (95 %%: %s to %s)", lw_ns_format(prediction->step_ns.low, low),
			lw_ns_format(prediction->step_ns.high, high));
	if (!prediction->is_recorded && isfinite(result->gain_frac))
		printf(", %.1f %% %s", 100 * fabs(result->gain_frac),
			result->gain_frac < 0 ? "more" : "less");
	printf("\n");
	print_sure(predictor);
	if (prediction->step_ns.why)
		printf("note       %s%s\n", prediction->is_extrapolated ? "extrapolated: " : "",
			prediction->step_ns.why);
	printf("scaling   ");
	for (size_t i = 0; i <= LW_SCALING_OSF_F; i++)
		if (isnan(result->scaling[i].value))
			printf(" %s not known ", scaling_titles[i]);
		else
			printf(" %s %.3f ", scaling_titles[i], result->scaling[i].value);
	printf("(closed models, on the costs of this run)\n");
}

static void print_grid(const struct predictor *predictor, const struct lw_advise_grid *grid,
	const struct result *results)
{
	bool any = false;

	print_head(predictor);
	printf("\npredicted step in ms; columns: cycle in ms; x = extrapolated\n%-12s",
		"threshold");
	for (size_t c = 0; c < grid->n_cycle; c++)
		printf("%11g ", grid->cycle_ns[c] / 1e6);
	printf("\n");
	for (size_t q = 0; q < grid->n_fusion; q++) {
		char bytes[LW_UNIT_TEXT_BYTES];

		printf("%-12s", lw_bytes_format(grid->fusion_bytes[q], bytes));
		for (size_t c = 0; c < grid->n_cycle; c++, results++) {
			if (isnan(results->prediction.step_ns.value))
				printf("%11s ", "not known");
			else
				printf("%11.1f%c", results->prediction.step_ns.value / 1e6,
					results->prediction.is_extrapolated ? 'x' : ' ');
			any = any || results->prediction.is_extrapolated;
		}
		printf("\n");
	}
	printf("\n");
	print_sure(predictor);
	if (any)
		printf("note       x: such settings send operations of sizes that this run does not hold\n");
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void put_result(
	struct lw_json *json, const struct predictor *predictor, const struct result *result)
{
	const struct lw_prediction *prediction = &result->prediction;
	const struct lw_whatif *whatif = &predictor->options->whatif;
	const struct {
		const char *name, *path;
		struct lw_figure figure;
	} factors[] = {
		{"sf", "scaling.sf",
			{NAN, NAN, NAN, LW_PREDICTED,
				"needs the step time of one rank: see report --baseline"}},
		{"csf", "scaling.csf", result->scaling[LW_SCALING_CSF]},
		{"osf", "scaling.osf", result->scaling[LW_SCALING_OSF]},
		{"osf_f", "scaling.osf_f", result->scaling[LW_SCALING_OSF_F]},
	};
	const size_t n_factors = sizeof(factors) / sizeof(factors[0]);

	lw_json_object(json, NULL);
	lw_json_string(json, "lapwing", "predict");
	lw_json_int(json, "schema_version", 1);
	lw_json_string(json, "model", model_name(predictor));
	lw_json_object(json, "setting");
	lw_json_double(json, "fusion_bytes", prediction->fusion_bytes);
	lw_json_double(json, "cycle_ns", prediction->cycle_ns);
	lw_json_int(json, "n_ranks", prediction->n_ranks);
	lw_json_double(json, "bandwidth_frac", whatif->bandwidth_frac);
	lw_json_double(json, "latency_frac", whatif->latency_frac);
	lw_json_double(json, "compute_frac", whatif->compute_frac);
	lw_json_object_end(json);
	lw_json_figure(json, "recorded_step_ns", predictor->recorded_ns);
	lw_json_figure(json, "step_ns", prediction->step_ns);
	lw_json_double(json, "gain_frac", result->gain_frac);
	lw_json_bool(json, "is_recorded", prediction->is_recorded);
	lw_json_bool(json, "is_extrapolated", prediction->is_extrapolated);
	lw_json_string(json, "note", prediction->step_ns.why ? prediction->step_ns.why : "");
	lw_json_object(json, "scaling");
	for (size_t i = 0; i < n_factors; i++)
		lw_json_figure(json, factors[i].name, factors[i].figure);
	lw_json_object_end(json);
	lw_json_object(json, "replay");
	lw_json_int(json, "n_steps", predictor->replay->n_steps);
	lw_json_double(json, "error_frac", predictor->replay->error_frac);
	lw_json_double(json, "bias_ns", predictor->replay->bias_ns);
	lw_json_object_end(json);
	lw_json_array(json, "diag");
	lw_cli_put_diags(json, predictor->run);
	lw_json_why(json, "step_ns", prediction->step_ns);
	for (size_t i = 0; i < n_factors; i++)
		lw_json_why(json, factors[i].path, factors[i].figure);
	lw_json_array_end(json);
	lw_json_object_end(json);
}

static int print_json(const struct predictor *predictor, const struct result *results, size_t n)
{
	struct lw_json *json = lw_json_open();

	if (!json)
		return LW_ERR_NOMEM;
	if (predictor->options->is_grid)
		lw_json_array(json, NULL);
	for (size_t i = 0; i < n; i++)
		put_result(json, predictor, &results[i]);
	if (predictor->options->is_grid)
		lw_json_array_end(json);
	return lw_json_close(json, stdout);
}

/* Return: a status. */
static int answer(struct predictor *predictor)
{
	const struct options *options = predictor->options;
	struct lw_advise_grid grid = {.n_fusion = 1, .n_cycle = 1};
	struct result *results;
	size_t n;
	int status = LW_OK;

	if (options->is_grid && predictor->replay->is_ddp)
		return lw_fail(LW_ERR_UNSUPPORTED,
			"--grid is over fusion thresholds and cycle times; a torch DDP job has neither");
	if (options->is_grid)
		lw_advise_grid(predictor->replay, &grid);
	n = grid.n_fusion * grid.n_cycle;
	results = calloc(n, sizeof(*results));
	if (!results)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu predictions", n);
	for (size_t i = 0; i < n && status == LW_OK; i++) {
		struct lw_whatif whatif = options->whatif;

		if (options->is_grid) {
			whatif.fusion_bytes = grid.fusion_bytes[i / grid.n_cycle];
			whatif.cycle_ns = grid.cycle_ns[i % grid.n_cycle];
		}
		status = predict(predictor, &whatif, &results[i]);
	}
	if (status == LW_OK && options->runs.json.is_wanted) {
		status = print_json(predictor, results, n);
	} else if (status == LW_OK && options->is_grid) {
		print_grid(predictor, &grid, results);
	} else if (status == LW_OK) {
		print_head(predictor);
		print_one(predictor, results);
	}
	free(results);
	return status;
}

/* The measured step, and what the chosen model says of the recorded setting. */
static int prepare(struct predictor *predictor)
{
	struct result result = {0};
	int status = lw_replay_new(predictor->run, &predictor->replay);

	if (status == LW_OK)
		status = lw_fit_run(predictor->run, &predictor->fit);
	if (status < 0)
		return status;
	predictor->recorded_ns.how = LW_MEASURED;
	lw_stats_interval(predictor->replay->recorded_step_ns, predictor->replay->n_steps,
		&predictor->recorded_ns.value, &predictor->recorded_ns.low,
		&predictor->recorded_ns.high);
	predictor->base_ns = predictor->recorded_ns.value;
	status = predict(predictor, &LW_WHATIF_RECORDED, &result);
	predictor->base_ns = result.prediction.step_ns.value;
	return status;
}

/* ---- options ---------------------------------------------------------------------------------- */

static double positive(const char *argument, struct argp_state *state, const char *option)
{
	char *end;
	double value = strtod(argument, &end);

	if (end == argument || *end || !(value > 0) || !isfinite(value))
		argp_error(state, "--%s '%s' is not a number above 0", option, argument);
	return value;
}

static enum model model_of(const char *argument, struct argp_state *state)
{
	for (int i = 0; i < N_MODELS; i++)
		if (!strcmp(argument, model_names[i]))
			return (enum model)i;
	argp_error(state, "no model '%s': one of " MODELS, argument);
	return HVD_CYCLE;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;
	struct lw_whatif *whatif = &options->whatif;
	uint64_t bytes;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->runs;
		return 0;
	case 'q':
		if (lw_bytes_parse(argument, &bytes) < 0)
			argp_error(state, "--fusion-bytes %s", lw_error_text());
		else
			whatif->fusion_bytes = (double)bytes;
		return 0;
	case 'c':
		whatif->cycle_ns = 1e6 * positive(argument, state, "cycle-ms");
		return 0;
	case KEY_RANKS:
		whatif->n_ranks = (uint32_t)fmin(positive(argument, state, "ranks"), 65536);
		if (whatif->n_ranks == 0)
			argp_error(state, "--ranks '%s' is less than one", argument);
		return 0;
	case KEY_BANDWIDTH:
		whatif->bandwidth_frac = positive(argument, state, "bandwidth-frac");
		return 0;
	case KEY_LATENCY:
		whatif->latency_frac = positive(argument, state, "latency-frac");
		return 0;
	case KEY_COMPUTE:
		whatif->compute_frac = positive(argument, state, "compute-frac");
		return 0;
	case KEY_MODEL:
		options->model = model_of(argument, state);
		return 0;
	case KEY_GRID:
		options->is_grid = true;
		return 0;
	case ARGP_KEY_END:
		if (options->is_grid &&
			(!isnan(options->whatif.fusion_bytes) || !isnan(options->whatif.cycle_ns)))
			argp_error(state,
				"--grid tries thresholds and cycles itself: leave out --fusion-bytes and --cycle-ms");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int lw_cmd_predict(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"fusion-bytes", 'q', "Q", 0, "fusion threshold: 0, 64k, 1MiB, 134217728", 0},
		{"cycle-ms", 'c', "C", 0, "cycle time in ms", 0},
		{"ranks", KEY_RANKS, "N", 0, "number of ranks; the others are assumed to be alike",
			0},
		{"bandwidth-frac", KEY_BANDWIDTH, "X", 0, "bandwidth, of the recorded (2 = twice)",
			0},
		{"latency-frac", KEY_LATENCY, "X", 0, "fixed cost of an operation, of the recorded",
			0},
		{"compute-frac", KEY_COMPUTE, "X", 0, "time to compute, of the recorded", 0},
		{"model", KEY_MODEL, "NAME", 0,
			"one of " MODELS "; default hvd_cycle, the twin of Horovod's loop", 0},
		{"grid", KEY_GRID, NULL, 0, "a table over thresholds and cycle times", 0}, {0}};
	static const struct argp_child children[] = {{&lw_cli_runs_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {argp_options, parse, NULL,
		"Predicts the step time of a recorded Horovod or torch DDP job under other settings. What is not given"
		" stays as recorded."
		"\vExit codes: 0 done, 1 failed or not predictable, 3 done, but the run lost or misses data.",
		children, NULL, NULL};
	struct options options = {.whatif = LW_WHATIF_RECORDED, .runs.json.schema = schema_predict};
	struct predictor predictor = {.options = &options};
	int status, code;

	lw_cli_parse(&argp, argc, argv, 0, &options);
	status = lw_run_reconstruct(options.runs.paths, options.runs.n_paths, NULL, &predictor.run);
	if (status == LW_OK)
		status = prepare(&predictor);
	if (status == LW_OK)
		status = answer(&predictor);
	code = status < 0 ? lw_cli_fail(status) : lw_cli_run_exit(predictor.run);
	lw_fit_done(&predictor.fit);
	lw_replay_free(predictor.replay);
	lw_run_free(predictor.run);
	return code;
}
