/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/gpu_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/emit/report.h"
#include "analyzer/import/import.h"
#include "tests/lib/run_fixture.h"

#define DATA LAPWING_SOURCE_DIR "/tests/data/kineto/"

struct lw_run *gpu_run_import(const char *const *paths, size_t n_paths)
{
	char output[128];
	const char *path = output;
	struct lw_import_summary summary;
	struct lw_run *run;

	snprintf(output, sizeof(output), "%s", run_fixture_path("imported.lapwing"));
	if (lw_import(paths, n_paths, NULL, path, NULL, NULL, &summary) < 0 ||
		lw_run_reconstruct(&path, 1, LW_STORE_WRITE, NULL, &run) < 0)
		fail_msg("%s", lw_error_text());
	return run;
}

struct lw_run *gpu_run_two_ranks(void)
{
	const char *paths[] = {DATA "rank0.json", DATA "rank1.json"};

	return gpu_run_import(paths, 2);
}

void gpu_run_count_all(struct lw_run *run)
{
	struct lw_rank *rank;
	struct lw_step *step;

	lw_vec_foreach (rank, &run->ranks)
		lw_vec_foreach (step, &rank->steps)
			step->excluded = NULL;
}

struct lw_run *gpu_run_of_events(const char *events)
{
	char input[128];
	const char *path = input;
	FILE *file;

	snprintf(input, sizeof(input), "%s", run_fixture_path("rank0.json"));
	file = fopen(path, "w");

	assert_non_null(file);
	fprintf(file,
		"{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 0, \"world_size\": 1}, \"traceEvents\": [%s]}",
		events);
	assert_int_equal(fclose(file), 0);
	return gpu_run_import(&path, 1);
}

struct lw_analysis *gpu_run_analyse(const char *const *paths, size_t n_paths)
{
	struct lw_analysis_options options = {0};
	struct lw_analysis *analysis;
	char output[128];
	const char *path = output;

	lw_run_free(gpu_run_import(paths, n_paths));
	snprintf(output, sizeof(output), "%s", run_fixture_path("imported.lapwing"));
	if (lw_analysis_open(&path, 1, &options, &analysis) < 0)
		fail_msg("%s", lw_error_text());
	return analysis;
}

const char *gpu_run_report(const struct lw_analysis *analysis)
{
	static char text[16384];
	FILE *out = tmpfile();

	assert_non_null(out);
	lw_report_text(
		analysis, &(struct lw_report_options){.rank = LW_NONE, .with_steps = true}, out);
	rewind(out);
	text[fread(text, 1, sizeof(text) - 1, out)] = '\0';
	for (char *at = text; *at; at++)
		if (*at == '\n' && at[1] == ' ')
			memmove(at, at + 2, strlen(at + 2) + 1);
	fclose(out);
	return text;
}

const char *gpu_run_finding(const struct lw_analysis *analysis, const char *id)
{
	const struct lw_finding *finding;

	lw_vec_foreach (finding, &analysis->advice.findings)
		if (!strcmp(finding->id, id))
			return finding->text;
	return "";
}

void gpu_run_says(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("\"%s\" is not in \"%s\"", wanted, text);
}

void gpu_run_says_not(const char *text, const char *unwanted)
{
	if (strstr(text, unwanted))
		fail_msg("\"%s\" is in \"%s\"", unwanted, text);
}
