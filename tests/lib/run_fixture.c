/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/run_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char folder[] = "/tmp/lapwing-run-XXXXXX";

int run_fixture_make(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

int run_fixture_remove(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

const char *run_fixture_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

struct lw_run *run_fixture_load(const struct make_run *spec)
{
	const char *path = run_fixture_path("run.lapwing");
	struct lw_run *run;

	make_run_write(path, spec);
	assert_int_equal(lw_run_load(&path, 1, LW_STORE_WRITE, &run), LW_OK);
	return run;
}

struct lw_run *run_fixture_analyze(const struct make_run *spec)
{
	struct lw_run *run = run_fixture_load(spec);

	assert_int_equal(lw_run_match(run), LW_OK);
	assert_int_equal(lw_run_steps(run), LW_OK);
	assert_int_equal(lw_run_phases(run), LW_OK);
	assert_int_equal(lw_run_overlap(run), LW_OK);
	return run;
}

uint64_t run_fixture_diag(const struct lw_run *run, const char *kind)
{
	const struct lw_diag *diag;
	uint64_t n = 0;

	lw_vec_foreach (diag, &run->diags)
		if (!strcmp(diag->kind, kind))
			n += diag->n;
	return n;
}
