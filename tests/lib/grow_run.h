/* SPDX-License-Identifier: Apache-2.0 */
/* grow_run.h - a whole run, from which rows move into one that is being written, as a collector writes it. */
#ifndef LAPWING_TESTS_LIB_GROW_RUN_H
#define LAPWING_TESTS_LIB_GROW_RUN_H

#include "schema/store.h"
#include "tests/lib/make_run.h"

struct grow_run {
	char path[128];
	struct lw_store *writer;
	int64_t at_ns; /* all records up to then are there */
};

/** grow_run_begin() - @path: the run that grows, empty; @whole: made by @spec. Fails the test on any error. */
void grow_run_begin(
	struct grow_run *grow, const char *path, const char *whole, const struct make_run *spec);
void grow_run_end(struct grow_run *grow);

void grow_run_execute(struct grow_run *grow, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** grow_run_appear() - the process of @rank starts. */
void grow_run_appear(struct grow_run *grow, int rank);

/** grow_run_to() - what happened until @to_ns, in one transaction. */
void grow_run_to(struct grow_run *grow, int64_t to_ns);

#endif /* LAPWING_TESTS_LIB_GROW_RUN_H */
