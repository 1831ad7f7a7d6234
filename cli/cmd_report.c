/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_report.c - `lapwing report RUN...`: how long a step is, what of it is exposed, what to change. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/analyzer.h"
#include "analyzer/emit/report.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/flop.h"
#include "generated/schema_report.h"

enum { KEY_BASELINE = 0x100, KEY_FLOP, KEY_PEAK };

struct options {
	const char *baseline, *flop, *peak;
	struct lw_report_options report;
	struct lw_cli_runs runs;
};

/* A step time ("117ms"), or a run of one rank whose step is taken. */
static int read_baseline(const char *text, double *ret_step_ns)
{
	struct lw_analysis_options options = {0};
	struct lw_analysis *analysis;
	int64_t ns;
	int status;

	if (lw_ns_parse(text, &ns) == LW_OK) {
		if (strspn(text, "0123456789. ") == strlen(text))
			return lw_fail(LW_ERR_USAGE,
				"--baseline %s: of which unit? A time is written as 117ms or 0.117s",
				text);
		*ret_step_ns = (double)ns;
		return LW_OK;
	}
	status = lw_analysis_open(&text, 1, &options, &analysis);
	if (status < 0)
		return lw_cause(status, "--baseline (neither a time nor a run)");
	if (!analysis->summary.n_steps)
		status = lw_fail(LW_ERR_LIMIT,
			"--baseline %s: no step was found in it (Horovod on one rank reduces nothing): give its step time, as 117ms",
			text);
	else if (analysis->run->size != 1)
		status = lw_fail(LW_ERR_LIMIT,
			"--baseline %s: a run of %d ranks; one of 1 is needed", text,
			analysis->run->size);
	else
		*ret_step_ns = analysis->summary.step_ns.value;
	lw_analysis_close(analysis);
	return status;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;
	char *end;
	long rank;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->runs;
		return 0;
	case 's':
		options->report.with_steps = true;
		return 0;
	case 'r':
		rank = strtol(argument, &end, 10);
		if (*end || end == argument || rank < 0 || rank > INT32_MAX)
			argp_error(state, "--rank %s: not a rank", argument);
		options->report.rank = (int32_t)rank;
		return 0;
	case KEY_BASELINE:
		options->baseline = argument;
		return 0;
	case KEY_FLOP:
		options->flop = argument;
		return 0;
	case KEY_PEAK:
		options->peak = argument;
		return 0;
	case ARGP_KEY_END:
		if (!options->flop != !options->peak)
			argp_error(state, "--flop and --peak-flop belong together");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool has_rank(const struct lw_run *run, int32_t wanted)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		if (rank->rank == wanted)
			return true;
	return false;
}

int lw_cmd_report(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"steps", 's', NULL, 0, "a line for every step", 0},
		{"rank", 'r', "R", 0, "only this rank's lines", 0},
		{"baseline", KEY_BASELINE, "RUN|TIME", 0,
			"the same job on one rank: its step time (117ms), or its run file if it has steps (Horovod on one rank reduces nothing, so it has none)",
			0},
		{"flop", KEY_FLOP, "N|FILE", 0,
			"floating-point operations of the forward pass of one rank's step (4.1e9, 1.2T), or a file of lines \"layer operations\"",
			0},
		{"peak-flop", KEY_PEAK, "RATE", 0,
			"operations a second that the device can do (67T): with --flop, which part of that it reaches",
			0},
		{0}};
	static const struct argp_child children[] = {{&lw_cli_runs_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {argp_options, parse, NULL,
		"Says where the step time of a run goes. Several files (one per rank or host) are one run."
		"\vExit codes: 0 done, 1 failed, 2 wrong usage, 3 done, but the run lost or misses data.",
		children, NULL, NULL};
	struct options options = {.report.rank = LW_NONE, .runs.json.schema = schema_report};
	struct lw_analysis_options analysis_options = {.progress = lw_cli_stage};
	struct lw_analysis *analysis;
	int status = LW_OK;

	lw_cli_parse(&argp, argc, argv, 0, &options);
	if (options.baseline)
		status = read_baseline(options.baseline, &analysis_options.baseline_step_ns);
	if (status == LW_OK && options.flop)
		status = lw_flop_read(options.flop, &analysis_options.forward_flop);
	if (status == LW_OK && options.peak)
		status = lw_flop_parse(options.peak, &analysis_options.peak_flop_per_s);
	if (status == LW_OK)
		status = lw_analysis_open(
			options.runs.paths, options.runs.n_paths, &analysis_options, &analysis);
	lw_cli_stage(NULL);
	if (status < 0)
		return lw_cli_fail(status);
	if (options.report.rank != LW_NONE && !has_rank(analysis->run, options.report.rank))
		status = lw_fail(LW_ERR_USAGE, "--rank %d: not in the run", options.report.rank);
	else if (options.runs.json.is_wanted)
		status = lw_report_json(analysis, stdout);
	else
		lw_report_text(analysis, &options.report, stdout);
	if (status == LW_OK)
		status = lw_cli_run_exit(analysis->run);
	lw_analysis_close(analysis);
	return status < 0 ? lw_cli_fail(status) : status;
}
