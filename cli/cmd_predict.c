/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_predict.c - `lapwing predict RUN...`: the step time under another setting, by a chosen model. */
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzer/analyzer.h"
#include "analyzer/emit/answer.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "generated/schema_predict.h"

enum {
	KEY_RANKS = 0x100,
	KEY_BANDWIDTH,
	KEY_LATENCY,
	KEY_COMPUTE,
	KEY_GROUPS,
	KEY_PASSES,
	KEY_COMPRESS,
	KEY_BALANCED,
	KEY_BUCKET_CAP,
	KEY_FIRST_BUCKET,
	KEY_MODEL,
	KEY_GRID,
	KEY_SCALING,
	KEY_PLOT
};

static const double MIB = 1048576;

struct options {
	struct lw_ask ask;
	const char *plot; /* file, "-" = the terminal, NULL = none */
	struct lw_cli_runs runs;
};

/* Beyond these the simulator's integers end, or nothing is sent at all. */
static const struct range {
	double least, most;
} CYCLE_MS = {1e-3, 1e6}, BUCKET_MIB = {1e-6, 1 << 20}, FRAC = {1e-6, 1e6};
static const double MOST_FUSION_BYTES = 0x1p50;

static double number(const char *argument, struct argp_state *state, const char *option,
	const struct range *range)
{
	char *end;
	double value = strtod(argument, &end);

	if (end == argument || *end || !(value >= range->least && value <= range->most))
		argp_error(state, "--%s '%s' is not a number from %.7g to %.7g", option, argument,
			range->least, range->most);
	return value;
}

static uint32_t count(
	const char *argument, struct argp_state *state, const char *option, uint32_t most)
{
	char *end;
	unsigned long value = strtoul(argument, &end, 10);

	if (*argument < '0' || *argument > '9' || *end || value == 0 || value > most)
		argp_error(state, "--%s '%s' is not a whole number from 1 to %u", option, argument,
			most);
	return (uint32_t)value;
}

/* "hvd_cycle, osf_fifo, ..." */
static const char *model_names(void)
{
	static char names[512];
	const struct lw_model *models;
	size_t n_models, n = 0;

	models = lw_models(&n_models);
	for (size_t i = 0; i < n_models && n < sizeof(names); i++)
		n += (size_t)snprintf(
			names + n, sizeof(names) - n, "%s%s", i ? ", " : "", models[i].name);
	return names;
}

/* What is drawn to a file is SVG: another suffix would promise what the file does not hold. */
static void check_plot(const char *path, struct argp_state *state)
{
	const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');

	if (dot && strcasecmp(dot, ".svg") && strcmp(path, "-"))
		argp_error(state,
			"--plot '%s': files are drawn as SVG, so the name has to end in .svg; - draws in the terminal",
			path);
}

static void ask_for(enum lw_question question, struct argp_state *state)
{
	struct options *options = state->input;

	if (options->ask.question != LW_ASK_ONE && options->ask.question != question)
		argp_error(state, "one of --grid, --scaling and --model all at a time");
	options->ask.question = question;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;
	struct lw_whatif *whatif = &options->ask.whatif;
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
		if (whatif->fusion_bytes > MOST_FUSION_BYTES)
			argp_error(state, "--fusion-bytes '%s' is more than 1048576 GiB", argument);
		return 0;
	case 'c':
		whatif->cycle_ns = 1e6 * number(argument, state, "cycle-ms", &CYCLE_MS);
		return 0;
	case KEY_RANKS:
		whatif->n_ranks = count(argument, state, "ranks", 65536);
		return 0;
	case KEY_BANDWIDTH:
		whatif->bandwidth_frac = number(argument, state, "bandwidth-frac", &FRAC);
		return 0;
	case KEY_LATENCY:
		whatif->latency_frac = number(argument, state, "latency-frac", &FRAC);
		return 0;
	case KEY_COMPUTE:
		whatif->compute_frac = number(argument, state, "compute-frac", &FRAC);
		return 0;
	case KEY_GROUPS:
		whatif->n_groups = count(argument, state, "num-groups", 1000000);
		return 0;
	case KEY_PASSES:
		whatif->backward_passes = count(argument, state, "backward-passes", 1000);
		return 0;
	case KEY_COMPRESS:
		if (strcmp(argument, "fp16"))
			argp_error(state, "--compress '%s': fp16 is what there is", argument);
		whatif->wire_frac = 0.5;
		whatif->convert_ns_per_byte = NAN; /* as a copy */
		return 0;
	case KEY_BALANCED:
		whatif->is_balanced = true;
		return 0;
	case KEY_BUCKET_CAP:
		whatif->bucket_cap_bytes =
			MIB * number(argument, state, "bucket-cap-mb", &BUCKET_MIB);
		return 0;
	case KEY_FIRST_BUCKET:
		whatif->first_bucket_bytes =
			MIB * number(argument, state, "first-bucket-mb", &BUCKET_MIB);
		return 0;
	case KEY_MODEL:
		options->ask.model = lw_model_find(argument);
		if (!strcmp(argument, "all"))
			ask_for(LW_ASK_MODELS, state);
		else if (!options->ask.model)
			argp_error(
				state, "no model '%s': all, or one of %s", argument, model_names());
		return 0;
	case KEY_GRID:
		ask_for(LW_ASK_GRID, state);
		return 0;
	case KEY_SCALING:
		ask_for(LW_ASK_SCALING, state);
		return 0;
	case KEY_PLOT:
		options->plot = argument;
		check_plot(argument, state);
		return 0;
	case ARGP_KEY_END:
		if (options->ask.question == LW_ASK_GRID &&
			(!isnan(whatif->fusion_bytes) || !isnan(whatif->cycle_ns) ||
				whatif->bucket_cap_bytes > 0 || whatif->first_bucket_bytes > 0))
			argp_error(state,
				"--grid tries thresholds, cycles and buckets itself: leave them out");
		if (options->plot && options->ask.question == LW_ASK_ONE)
			argp_error(state, "--plot draws --grid, --scaling or --model all");
		if (options->plot && !strcmp(options->plot, "-") && options->runs.json.is_wanted)
			argp_error(state, "--plot - is text: not with --json");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The models, from their own table. The caller frees what is new. */
static char *help_filter(int key, const char *text, void *input)
{
	const struct lw_model *models;
	char *help = NULL;
	size_t n, n_bytes;
	FILE *out;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)(uintptr_t)text;
	out = open_memstream(&help, &n_bytes);
	if (!out)
		return (char *)(uintptr_t)text;
	fputs("Models:\n", out);
	models = lw_models(&n);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "  %-10s %s%s\n", models[i].name, models[i].title,
			i ? "" : " (default)");
	fprintf(out, "\n%s", text);
	fclose(out);
	return help;
}

static void show_progress(size_t n_done, size_t n)
{
	char stage[64];

	snprintf(stage, sizeof(stage), "predicting %zu of %zu", n_done + 1, n);
	lw_cli_stage(n > 1 ? stage : "predicting");
}

static int write_svg(const struct lw_answer *answer, const char *path)
{
	FILE *out = fopen(path, "we");
	bool is_bad;

	if (!out)
		return lw_fail(LW_ERR_IO, "--plot %s: %m", path);
	lw_answer_svg(answer, out);
	is_bad = ferror(out);
	if (fclose(out) || is_bad)
		return lw_fail(LW_ERR_IO, "--plot %s: %m", path);
	return LW_OK;
}

static int show(const struct options *options, const struct lw_answer *answer)
{
	bool is_drawn = options->plot && !strcmp(options->plot, "-");

	if (options->plot && !is_drawn) {
		int status = write_svg(answer, options->plot);

		if (status < 0)
			return status;
	}
	if (options->runs.json.is_wanted)
		return lw_answer_json(answer, stdout);
	lw_answer_text(answer, stdout);
	if (is_drawn)
		lw_answer_chart(answer, !strcmp(nl_langinfo(CODESET), "UTF-8"), stdout);
	else if (options->plot)
		printf("%-11s%s\n", "plot", options->plot);
	return LW_OK;
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
		{"num-groups", KEY_GROUPS, "G", 0,
			"explicit groups, as hvd.DistributedOptimizer(groups=G) makes them", 0},
		{"backward-passes", KEY_PASSES, "K", 0,
			"send gradients once in K backward passes; a step is then K passes", 0},
		{"compress", KEY_COMPRESS, "fp16", 0, "send gradients as 16-bit floats", 0},
		{"balanced", KEY_BALANCED, NULL, 0,
			"no straggler: in each step every rank as the median rank", 0},
		{"bucket-cap-mb", KEY_BUCKET_CAP, "X", 0,
			"torch DDP: bucket_cap_mb, in MiB as there", 0},
		{"first-bucket-mb", KEY_FIRST_BUCKET, "X", 0,
			"torch DDP: limit of the first bucket, in MiB", 0},
		{"model", KEY_MODEL, "NAME", 0,
			"what to predict with, listed below; all: every one, side by side", 0},
		{"grid", KEY_GRID, NULL, 0,
			"a table over thresholds and cycle times; of torch DDP over limits of its buckets",
			0},
		{"scaling", KEY_SCALING, NULL, 0,
			"a table over 1, 2, 4, ... ranks, to 64 or --ranks", 0},
		{"plot", KEY_PLOT, "FILE.svg", 0,
			"draw the grid, the scaling curve or the models; - draws in the terminal",
			0},
		{0}};

	static const struct argp_child children[] = {{&lw_cli_runs_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {argp_options, parse, NULL,
		"Predicts the step time of a recorded Horovod or torch DDP job under other settings. What is not given"
		" stays as recorded."
		"\vExit codes: 0 done, 1 failed or not predictable, 3 done, but the run lost or misses data.",
		children, help_filter, NULL};
	size_t n_models;
	struct options options = {.ask = {.model = lw_models(&n_models),
					  .whatif = LW_WHATIF_RECORDED,
					  .progress = show_progress},
		.runs.json.schema = schema_predict};
	struct lw_predictor *predictor = NULL;
	struct lw_advice_list advice = {0};
	struct lw_answer answer = {0};
	struct lw_run *run = NULL;
	int status, code;

	lw_cli_parse(&argp, argc, argv, 0, &options);
	setlocale(LC_CTYPE, ""); /* what the terminal can show */
	status = lw_run_reconstruct(
		options.runs.paths, options.runs.n_paths, LW_STORE_WRITE, lw_cli_stage, &run);
	if (status == LW_OK)
		status = lw_predictor_new(run, &predictor);
	if (status == LW_OK && options.ask.question == LW_ASK_GRID) {
		lw_cli_stage("advising");
		status = lw_advise(run, &advice);
		options.ask.advice = &advice;
	}
	if (status == LW_OK)
		status = lw_answer(predictor, &options.ask, &answer);
	lw_cli_stage(NULL);
	if (status == LW_OK)
		status = show(&options, &answer);
	code = status < 0 ? lw_cli_fail(status) : lw_cli_run_exit(run);
	lw_answer_done(&answer);
	lw_advice_list_free(&advice);
	lw_predictor_free(predictor);
	lw_run_free(run);
	return code;
}
