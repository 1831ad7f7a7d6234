/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/gpu_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

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
