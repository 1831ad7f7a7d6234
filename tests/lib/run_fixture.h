/* SPDX-License-Identifier: Apache-2.0 */
/* run_fixture.h - a folder for run files, and a run that went through the stages, for analyzer tests. */
#ifndef LAPWING_TESTS_LIB_RUN_FIXTURE_H
#define LAPWING_TESTS_LIB_RUN_FIXTURE_H

#include "analyzer/run.h"
#include "tests/lib/make_run.h"

int run_fixture_make(void **state);
int run_fixture_remove(void **state);

/** run_fixture_path() - a file in the folder; valid until the next call with the same @name length. */
const char *run_fixture_path(const char *name);

/** run_fixture_load() - write @spec, load it. */
struct lw_run *run_fixture_load(const struct make_run *spec);

/** run_fixture_analyze() - write @spec, load it, run every stage. */
struct lw_run *run_fixture_analyze(const struct make_run *spec);

/** run_fixture_diag() - how often @kind was found; 0 = never. */
uint64_t run_fixture_diag(const struct lw_run *run, const char *kind);

#endif /* LAPWING_TESTS_LIB_RUN_FIXTURE_H */
