/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_advise.c - `lapwing advise RUN...`: what to change, how much it gains, how sure that is. */
#include <stdbool.h>
#include <stdio.h>

#include "analyzer/advise/advise.h"
#include "analyzer/analyzer.h"
#include "analyzer/emit/advice.h"
#include "analyzer/emit/report.h"
#include "cli/cmd.h"
#include "generated/schema_advise.h"

enum { KEY_EXPLAIN = 0x100 };

struct options {
	const char *explain;
	struct lw_cli_runs runs;
};

static int print_text(
	const struct options *options, struct lw_run *run, const struct lw_advice_list *list)
{
	if (options->explain)
		lw_advice_explain_text(list, run, options->explain, stdout);
	else
		lw_advice_text(list, run, stdout);
	return lw_cli_run_exit(run);
}

static int print_json(
	const struct options *options, struct lw_run *run, const struct lw_advice_list *list)
{
	struct lw_json *json = lw_json_open();
	int status = LW_OK, closed;

	if (!json)
		return lw_cli_fail(LW_ERR_NOMEM);
	lw_json_object(json, NULL);
	lw_json_string(json, "lapwing", "advise");
	lw_json_int(json, "schema_version", 1);
	lw_advice_json(json, list);
	if (options->explain)
		status = lw_advice_explain_json(json, list, run, options->explain);
	lw_json_array(json, "diag");
	lw_json_diags(json, run);
	lw_json_array_end(json);
	lw_json_object_end(json);
	closed = lw_json_close(json, stdout);
	status = status < 0 ? status : closed;
	return status < 0 ? lw_cli_fail(status) : lw_cli_run_exit(run);
}

static int print(
	const struct options *options, struct lw_run *run, const struct lw_advice_list *list)
{
	char ids[LW_ADVICE_TEXT_BYTES];

	if (options->explain && !lw_advise_spoke(list, options->explain)) {
		lw_advise_ids(list, ids);
		lw_cli_say("%s '%s' for this run: %s%s",
			lw_advise_adviser(options->explain) ? "nothing to say on" : "no advice",
			options->explain, *ids ? "there is " : "no adviser said anything", ids);
		return LW_EXIT_USAGE;
	}
	return options->runs.json.is_wanted ? print_json(options, run, list)
					    : print_text(options, run, list);
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
			"only adviser ID, its whole story: the numbers it stands on, all that was tried, what"
			" is assumed, what could make it wrong, how to check it",
			0},
		{0}};
	static const struct argp_child children[] = {{&lw_cli_runs_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {argp_options, parse, NULL,
		"Says what to change in a Horovod or torch DDP job, from one recorded run: replays its steps"
		" under other settings, groups, networks and ranks, and advises what is faster by more than"
		" the error of saying so."
		"\vExit codes: 0 done, also when there is nothing to advise; 1 failed; 3 done, but the run"
		" lost or misses data.",
		children, NULL, NULL};
	struct options options = {.runs.json.schema = schema_advise};
	struct lw_advice_list list = {0};
	struct lw_run *run = NULL;
	int status, code;

	lw_cli_parse(&argp, argc, argv, 0, &options);
	status = lw_run_reconstruct(
		options.runs.paths, options.runs.n_paths, LW_STORE_WRITE, NULL, &run);
	if (status == LW_OK)
		status = lw_advise(run, &list);
	if (status == LW_OK)
		status = lw_advise_store(run, &list);
	if (status < 0)
		code = lw_cli_fail(status);
	else
		code = print(&options, run, &list);
	lw_advice_list_free(&list);
	lw_run_free(run);
	return code;
}
