/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_places.h - where the host was in many stretches of time: what each of its ranges covers of them, added up.
 *
 * At each instant it was in the innermost range of its thread, those aside that lie within another and cover less than a
 * tenth of the stretch; time in no range is kept as such. What is told adds up to the whole: a place of little time counts
 * with the one around it.
 *
 * Reads:  table range.   Writes: nothing.
 */
#ifndef LAPWING_ANALYZER_ADVISE_HOST_PLACES_H
#define LAPWING_ANALYZER_ADVISE_HOST_PLACES_H

#include "analyzer/advise/host_parts.h"

struct lw_host_place { /* ranges of one name within those of one place */
	struct lw_host_place_key {
		struct lw_host_place *within; /* NULL: in none */
		const char *name;
	} key;
	double ns;       /* with it as the innermost */
	double shown_ns; /* and with those of little time within it */
	int depth;       /* 0: in none */
	bool is_loader, in_ddp_forward, is_ddp_buffers; /* or within such a one */
	UT_hash_handle hh;
};

struct lw_host_places {
	struct lw_host_ranges ranges; /* of parts of steps */
	struct lw_host_part *parts;   /* their names */
	uint64_t n_wide;              /* ranges around whole steps, which are not among them */
	struct lw_host_place *at;     /* a hash */
	double none_ns;               /* in no range */
	bool has_loader;              /* a range of the process is a loader's, wherever it was */
	lw_vec(const struct lw_host_range *) open;
};

enum { LW_HOST_SAID_BYTES = 640 };

struct lw_host_said {
	/* "in A (in B) for 12 ms, in C for 3 ms, in other ranges for 1 ms, in no range for 2 ms"; "" = in no range at all */
	char text[LW_HOST_SAID_BYTES];
	double all_ns, known_ns;           /* in stretches; in ranges */
	double loader_ns, ddp_ns, most_ns; /* most: of the place with the most */
	bool is_most_ddp;                  /* that is where DDP makes up its buffers */
};

/** lw_host_places_load() - the ranges of @rank, nothing added up yet. Return: LW_OK or an error; free in any case. */
int lw_host_places_load(
	const struct lw_run *run, const struct lw_rank *rank, struct lw_host_places *ret_places);
void lw_host_places_free(struct lw_host_places *places);

/** lw_host_places_add() - a stretch of thread @tid, right after lw_host_ranges_find() of it. Return: LW_OK or LW_ERR_NOMEM. */
int lw_host_places_add(
	struct lw_host_places *places, int64_t start_ns, int64_t end_ns, uint32_t tid);

/**
 * lw_host_places_tell() - where most of the time was.
 * @n: what sums are divided by, such as steps
 * @by_part: only the outermost ranges are named, such as forward, backward, optimizer
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_host_places_tell(
	struct lw_host_places *places, double n, bool by_part, struct lw_host_said *ret_said);

#endif /* LAPWING_ANALYZER_ADVISE_HOST_PLACES_H */
