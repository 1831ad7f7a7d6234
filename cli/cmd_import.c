/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_import.c - `lapwing import FILE...`: another tool's trace becomes a run file. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/emit/json.h"
#include "analyzer/import/import.h"
#include "base/units.h"
#include "base/vec.h"
#include "cli/cmd.h"
#include "cli/finish.h"
#include "generated/schema_import.h"

static const char run_suffix[] = ".lapwing";

struct options {
	struct lw_cli_json json;
	const char *format;
	lw_vec(const char *) inputs;
	char *output;
};

struct progress {
	bool is_shown; /* stderr is a terminal */
	int shown_percent;
};

static volatile sig_atomic_t is_interrupted;

static void on_signal(int number)
{
	(void)number;
	is_interrupted = 1;
}

static int on_progress(void *context, double done_frac)
{
	struct progress *progress = context;
	int percent = (int)(done_frac * 100);

	if (is_interrupted)
		return lw_fail(LW_ERR_STATE, "interrupted: nothing was written");
	if (progress->is_shown && percent != progress->shown_percent) {
		progress->shown_percent = percent;
		fprintf(stderr, "\rlapwing: importing %3d %%", percent);
	}
	return LW_OK;
}

/* "dir/trace.json", "dir/trace.json.gz", "dir/trace/" -> "trace.lapwing", in the current folder. NULL: no memory. */
static char *default_output(const char *input)
{
	static const char packed[] = ".gz";
	size_t n_path = strlen(input), n;
	const char *name, *dot;
	char *output;

	while (n_path > 1 && input[n_path - 1] == '/')
		n_path--;
	name = memrchr(input, '/', n_path) ? (const char *)memrchr(input, '/', n_path) + 1 : input;
	n = n_path - (size_t)(name - input);
	if (n > sizeof(packed) && !memcmp(name + n - 3, packed, 3))
		n -= 3;
	dot = memrchr(name, '.', n);
	if (dot && dot > name)
		n = (size_t)(dot - name);
	return asprintf(&output, "%.*s%s", (int)n, name, run_suffix) < 0 ? NULL : output;
}

/* "48 operations of NCCL on 5 MiB" */
static const char *nccl_text(const struct lw_import_summary *summary, char text[128])
{
	uint64_t n_sized = summary->n_nccl_ops - summary->n_nccl_unsized;
	char bytes[LW_UNIT_TEXT_BYTES];
	int n = snprintf(text, 128, "%" PRIu64 " operation%s of NCCL", summary->n_nccl_ops,
		summary->n_nccl_ops == 1 ? "" : "s");

	if (n_sized)
		n += snprintf(text + n, 128 - (size_t)n, " on %s",
			lw_bytes_format((double)summary->bytes, bytes));
	if (n_sized && summary->n_nccl_unsized)
		snprintf(text + n, 128 - (size_t)n, " (%" PRIu64 " of unknown size not in it)",
			summary->n_nccl_unsized);
	else if (summary->n_nccl_unsized)
		snprintf(text + n, 128 - (size_t)n, " of unknown size");
	return text;
}

static void print_profile(const struct options *options, const struct lw_import_summary *summary)
{
	char duration[LW_UNIT_TEXT_BYTES], nccl[128];

	printf("%s: %" PRIu64 " rank%s in %s, %" PRIu64 " ranges, %" PRIu64 " kernels, %" PRIu64
	       " copies, %s, %" PRIu64 " step%s (%s)\n",
		options->output, summary->n_ranks, summary->n_ranks == 1 ? "" : "s",
		lw_ns_format((double)summary->duration_ns, duration), summary->n_ranges,
		summary->n_kernels, summary->n_copies, nccl_text(summary, nccl), summary->n_steps,
		summary->n_steps == 1 ? "" : "s", summary->format);
}

static void print_text(const struct options *options, const struct lw_import_summary *summary)
{
	char duration[LW_UNIT_TEXT_BYTES], bytes[LW_UNIT_TEXT_BYTES];

	if (summary->is_truncated)
		printf("CUT OFF: a file stops in its middle; what came after that is missing\n");
	if (!strcmp(summary->format, lw_kineto_importer.name))
		print_profile(options, summary);
	else if (summary->n_packets)
		printf("%s: %" PRIu64 " packets of %" PRIu64 " flows in %s, %s of payload (%s)\n",
			options->output, summary->n_packets, summary->n_flows,
			lw_ns_format((double)summary->duration_ns, duration),
			lw_bytes_format((double)summary->bytes, bytes), summary->format);
	else
		printf("%s: %" PRIu64 " operations on %" PRIu64
		       " tensors in %s, %s allreduced or moved, seen from"
		       " rank 0 (%s)\n",
			options->output, summary->n_batches, summary->n_tensors,
			lw_ns_format((double)summary->duration_ns, duration),
			lw_bytes_format((double)summary->bytes, bytes), summary->format);
	if (summary->n_job_ranks > summary->n_ranks)
		printf("  MISSING: %" PRIu64 " of the job's %" PRIu64
		       " ranks: import the traces of all of them together\n",
			summary->n_job_ranks - summary->n_ranks, summary->n_job_ranks);
	if (summary->n_elsewhere)
		printf("  %" PRIu64
		       " packet(s) of these were seen at another interface too, and count once\n",
			summary->n_elsewhere);
	if (summary->n_unfinished)
		printf("  %" PRIu64 " operation(s) had not ended when the file stops\n",
			summary->n_unfinished);
	if (summary->n_without_kernel)
		printf("  MISSING: %" PRIu64
		       " launches have no kernel: records of GPU work are missing, and steps that lack many do not count\n",
			summary->n_without_kernel);
	if (summary->n_bad)
		printf("  INCOMPLETE: %" PRIu64 " record(s) could not be used; %s%s\n",
			summary->n_bad, summary->n_bad > 1 ? "the first: " : "", summary->problem);
}

static int print_json(const struct options *options, const struct lw_import_summary *summary)
{
	struct lw_json *json = lw_json_open();

	if (!json)
		return LW_ERR_NOMEM;
	lw_json_object(json, NULL);
	lw_json_string(json, "lapwing", "import");
	lw_json_int(json, "schema_version", 1);
	lw_json_string(json, "input", options->inputs.at[0]);
	lw_json_array(json, "inputs");
	for (size_t i = 0; i < options->inputs.n; i++)
		lw_json_string(json, NULL, options->inputs.at[i]);
	lw_json_array_end(json);
	lw_json_string(json, "output", options->output);
	lw_json_string(json, "format", summary->format);
	lw_json_int(json, "n_records", (int64_t)summary->n_records);
	lw_json_int(json, "n_ranks", (int64_t)summary->n_ranks);
	lw_json_int(json, "n_job_ranks", (int64_t)summary->n_job_ranks);
	lw_json_int(json, "n_tensors", (int64_t)summary->n_tensors);
	lw_json_int(json, "n_batches", (int64_t)summary->n_batches);
	lw_json_int(json, "n_collectives", (int64_t)summary->n_collectives);
	lw_json_int(json, "n_ready", (int64_t)summary->n_ready);
	lw_json_int(json, "n_ranges", (int64_t)summary->n_ranges);
	lw_json_int(json, "n_kernels", (int64_t)summary->n_kernels);
	lw_json_int(json, "n_copies", (int64_t)summary->n_copies);
	lw_json_int(json, "n_launches", (int64_t)summary->n_launches);
	lw_json_int(json, "n_without_kernel", (int64_t)summary->n_without_kernel);
	lw_json_int(json, "n_syncs", (int64_t)summary->n_syncs);
	lw_json_int(json, "n_nccl_ops", (int64_t)summary->n_nccl_ops);
	lw_json_int(json, "n_nccl_unsized", (int64_t)summary->n_nccl_unsized);
	lw_json_int(json, "n_steps", (int64_t)summary->n_steps);
	lw_json_int(json, "n_unused", (int64_t)summary->n_unused);
	lw_json_int(json, "n_packets", (int64_t)summary->n_packets);
	lw_json_int(json, "n_elsewhere", (int64_t)summary->n_elsewhere);
	lw_json_int(json, "n_flows", (int64_t)summary->n_flows);
	lw_json_int(json, "n_unfinished", (int64_t)summary->n_unfinished);
	lw_json_int(json, "bytes", (int64_t)summary->bytes);
	lw_json_int(json, "duration_ns", summary->duration_ns);
	lw_json_int(json, "n_bad", (int64_t)summary->n_bad);
	lw_json_bool(json, "truncated", summary->is_truncated);
	lw_json_string(json, "problem", summary->problem[0] ? summary->problem : NULL);
	lw_json_object_end(json);
	return lw_json_close(json, stdout);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'f':
		options->format = argument;
		return 0;
	case 'o':
		free(options->output);
		options->output = strdup(argument);
		return options->output ? 0 : ENOMEM;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->json;
		return 0;
	case ARGP_KEY_ARG:
		return lw_vec_push(&options->inputs, argument) < 0 ? ENOMEM : 0;
	case ARGP_KEY_END:
		if (!options->inputs.n)
			argp_error(state, "which file?");
		if (options->inputs.n > 1 && !options->output)
			argp_error(state, "several files make one run: call it, with -o RUN");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The formats, from the importers' own table. The caller frees what is new. */
static char *help_filter(int key, const char *text, void *input)
{
	const struct lw_importer *const *importers;
	char *help = NULL;
	size_t n, n_bytes;
	FILE *out;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)(uintptr_t)text;
	out = open_memstream(&help, &n_bytes);
	if (!out)
		return (char *)(uintptr_t)text;
	fputs("Formats:\n", out);
	importers = lw_importers(&n);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "  %-18s %s\n", importers[i]->name, importers[i]->reads);
	fprintf(out, "\n%s", text);
	fclose(out);
	return help;
}

int lw_cmd_import(int argc, char **argv)
{
	static const struct argp_option argp_options[] = {
		{"from", 'f', "FORMAT", 0, "what FILE is (default: recognised by its beginning)",
			0},
		{"output", 'o', "RUN", 0,
			"the run file to make (default: FILE's name with .lapwing; needed with several)",
			0},
		{0}};
	static const struct argp_child children[] = {{&lw_cli_json_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {argp_options, parse, "FILE...",
		"Makes a run file from a trace that another tool wrote. Several files, of one rank each, make one run; a"
		" folder stands for the traces in it."
		"\vExit codes: 0 complete, 1 not imported (nothing is left behind), 2 wrong usage, 3 imported but"
		" FILE is cut off or damaged. Operations that had not ended when FILE stops are kept and marked.",
		children, help_filter, NULL};
	struct options options = {.json.schema = schema_import};
	struct lw_import_summary summary;
	struct progress progress = {isatty(STDERR_FILENO), -1};
	struct sigaction action = {.sa_handler = on_signal};
	int status, code;

	lw_cli_parse(&argp, argc, argv, 0, &options);
	if (!options.output)
		options.output = default_output(options.inputs.at[0]);
	if (!options.output)
		return lw_cli_fail(lw_fail(LW_ERR_NOMEM, "no memory"));
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	status = lw_import(options.inputs.at, options.inputs.n, options.format, options.output,
		on_progress, &progress, &summary);
	if (progress.shown_percent >= 0)
		fprintf(stderr, "\r\033[K");
	if (status == LW_OK && options.json.is_wanted)
		status = print_json(&options, &summary);
	else if (status == LW_OK)
		print_text(&options, &summary);
	code = status < 0 ? lw_cli_fail(status) : summary.n_bad ? LW_EXIT_INCOMPLETE : LW_EXIT_OK;
	if (status == LW_OK)
		lw_finish_apart("import", options.output, false);
	free(options.output);
	lw_vec_free(&options.inputs);
	return code;
}
