/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_advise.c - `lapwing advise RUN...`: what to change, how much it gains, how sure that is. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/advise/advise.h"
#include "analyzer/analyzer.h"
#include "analyzer/emit/json.h"
#include "analyzer/emit/report.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "generated/schema_advise.h"

enum { KEY_EXPLAIN = 0x100 };

struct options {
	const char *explain;
	struct lw_cli_runs runs;
};

static void print_settings(const struct lw_advice_list *list)
{
	const struct lw_grid_row *row;

	printf("\n%-14s %-10s %10s %23s %10s\n", "threshold", "cycle", "step", "95 %", "gain");
	lw_vec_foreach (row, &list->tried) {
		const struct lw_prediction *prediction = &row->prediction;
		char bytes[LW_UNIT_TEXT_BYTES], step[LW_UNIT_TEXT_BYTES], low[LW_UNIT_TEXT_BYTES];
		char high[LW_UNIT_TEXT_BYTES], gain[LW_UNIT_TEXT_BYTES];

		printf("%-14s %-7.4g ms %10s %10s - %10s %10s%s%s\n",
			lw_bytes_format(prediction->fusion_bytes, bytes),
			prediction->cycle_ns / 1e6, lw_ns_format(prediction->step_ns.value, step),
			lw_ns_format(prediction->step_ns.low, low),
			lw_ns_format(prediction->step_ns.high, high),
			lw_ns_format(row->gain_ns.value, gain),
			prediction->is_recorded ? "  as recorded" : "",
			prediction->is_extrapolated ? "  extrapolated" : "");
	}
}

static void print_advice(const struct lw_advice *advice, const struct lw_advice_list *list)
{
	char step[LW_UNIT_TEXT_BYTES], now[LW_UNIT_TEXT_BYTES];

	printf("%s (%s)\n", advice->title, advice->id);
	for (uint32_t i = 0; i < advice->n_sets; i++)
		printf("  set        %s=%s\n", advice->set[i].name, advice->set[i].value);
	printf("  step       %s instead of %s: %.1f %% less (95 %%: %.1f to %.1f)\n",
		lw_ns_format(advice->step_ns.value, step),
		lw_ns_format(list->baseline_ns.value, now), 100 * advice->gain_frac.value,
		100 * advice->gain_frac.low, 100 * advice->gain_frac.high);
	printf("  why        %s\n", advice->why);
	printf("  how sure   %s\n", advice->sure);
}

static int print_text(
	const struct options *options, struct lw_run *run, const struct lw_advice_list *list)
{
	bool is_known = !options->explain;

	for (size_t i = 0; i < list->advice.n; i++) {
		const struct lw_advice *advice = &list->advice.at[i];

		if (options->explain && strcmp(options->explain, advice->id))
			continue;
		is_known = true;
		print_advice(advice, list);
	}
	for (size_t i = 0; i < list->findings.n; i++) {
		const struct lw_finding *finding = &list->findings.at[i];

		if (options->explain && strcmp(options->explain, finding->id))
			continue;
		is_known = true;
		printf("%s: %s\n", finding->id, finding->text);
	}
	if (!is_known) {
		lw_cli_say(
			"no advice '%s' for this run (see `lapwing advise RUN`)", options->explain);
		return LW_EXIT_USAGE;
	}
	if (options->explain && list->tried.n)
		print_settings(list);
	return lw_cli_run_exit(run);
}

static void put_advice(struct lw_json *json, const struct lw_advice *advice)
{
	lw_json_object(json, NULL);
	lw_json_string(json, "id", advice->id);
	lw_json_string(json, "title", advice->title);
	lw_json_string(json, "why", advice->why);
	lw_json_string(json, "sure", advice->sure);
	lw_json_object(json, "set");
	for (uint32_t i = 0; i < advice->n_sets; i++)
		lw_json_string(json, advice->set[i].name, advice->set[i].value);
	lw_json_object_end(json);
	lw_json_figure(json, "step_ns", advice->step_ns);
	lw_json_figure(json, "gain_frac", advice->gain_frac);
	lw_json_object_end(json);
}

static int print_json(struct lw_run *run, const struct lw_advice_list *list)
{
	struct lw_json *json = lw_json_open();
	int status;

	if (!json)
		return lw_cli_fail(LW_ERR_NOMEM);
	lw_json_object(json, NULL);
	lw_json_string(json, "lapwing", "advise");
	lw_json_int(json, "schema_version", 1);
	lw_json_object(json, "baseline");
	lw_json_figure(json, "step_ns", list->baseline_ns);
	lw_json_object_end(json);
	lw_json_array(json, "advice");
	for (size_t i = 0; i < list->advice.n; i++)
		put_advice(json, &list->advice.at[i]);
	lw_json_array_end(json);
	lw_json_array(json, "findings");
	for (size_t i = 0; i < list->findings.n; i++) {
		lw_json_object(json, NULL);
		lw_json_string(json, "id", list->findings.at[i].id);
		lw_json_string(json, "text", list->findings.at[i].text);
		lw_json_object_end(json);
	}
	lw_json_array_end(json);
	if (list->replay) {
		lw_json_object(json, "replay");
		lw_json_int(json, "n_steps", list->replay->n_steps);
		lw_json_double(json, "error_frac", list->replay->error_frac);
		lw_json_double(json, "bias_ns", list->replay->bias_ns);
		lw_json_int(json, "n_settings", (int64_t)list->tried.n);
		lw_json_object_end(json);
	} else {
		lw_json_null(json, "replay");
	}
	lw_json_array(json, "diag");
	lw_json_diags(json, run);
	lw_json_array_end(json);
	lw_json_object_end(json);
	status = lw_json_close(json, stdout);
	return status < 0 ? lw_cli_fail(status) : lw_cli_run_exit(run);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->runs;
		return 0;
	case KEY_EXPLAIN:
		options->explain = argument;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int lw_cmd_advise(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"explain", KEY_EXPLAIN, "ID", 0,
			"only advice ID, with every setting that was tried", 0},
		{0}};
	static const struct argp_child children[] = {{&lw_cli_runs_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {argp_options, parse, NULL,
		"Says what to change in a Horovod job, from one recorded run: replays its steps under other"
		" fusion thresholds and cycle times, and advises what is faster by more than the error of"
		" saying so."
		"\vExit codes: 0 done, also when there is nothing to advise; 1 failed; 3 done, but the run"
		" lost or misses data.",
		children, NULL, NULL};
	struct options options = {.runs.json.schema = schema_advise};
	struct lw_advice_list list = {0};
	struct lw_run *run = NULL;
	int status, code;

	lw_cli_parse(&argp, argc, argv, 0, &options);
	status = lw_run_reconstruct(options.runs.paths, options.runs.n_paths, NULL, &run);
	if (status == LW_OK)
		status = lw_advise(run, &list);
	if (status == LW_OK)
		status = lw_advise_store(run, &list);
	if (status < 0)
		code = lw_cli_fail(status);
	else
		code = options.runs.json.is_wanted ? print_json(run, &list)
						   : print_text(&options, run, &list);
	lw_advice_list_free(&list);
	lw_run_free(run);
	return code;
}
