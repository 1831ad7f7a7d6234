/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_parts.h - of the ranges of a rank those that tell parts of a step apart, by names that do not count.
 *
 * A loop's range, or "iteration 17", is around whole steps: all of a step lies in it. And what a program numbers is one thing
 * to who reads of it: names that differ in digits only are one, "iteration #".
 *
 * Reads:  a run after gpu; ranges of host_ranges.h.   Writes: nothing.
 */
#ifndef LAPWING_ANALYZER_ADVISE_HOST_PARTS_H
#define LAPWING_ANALYZER_ADVISE_HOST_PARTS_H

#include <uthash.h>

#include "analyzer/advise/host_ranges.h"

struct lw_host_part {      /* a name */
	const char *name;  /* of the ranges */
	char *masked;      /* lw_str_mask_digits() */
	const char *shown; /* masked where there are others that differ in digits only, else name */
	struct lw_host_part *of; /* the first of those */
	uint64_t n, n_wide;      /* of the first: ranges of all of those; around whole steps */
	UT_hash_handle hh;
};

/**
 * lw_host_parts() - @ranges of @rank are those of parts of steps then, and their names as they are shown.
 * @ret_parts: names that ranges point to; to be freed after them, in any case
 * @ret_n_wide: how many ranges were around whole steps
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_host_parts(const struct lw_run *run, const struct lw_rank *rank,
	struct lw_host_ranges *ranges, struct lw_host_part **ret_parts, uint64_t *ret_n_wide);
void lw_host_parts_free(struct lw_host_part **parts);

#endif /* LAPWING_ANALYZER_ADVISE_HOST_PARTS_H */
