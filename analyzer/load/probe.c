/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - the operations of `record --probe`, put together over all ranks.
 *
 * Reads:  what rows.c took from table probe.   Writes: run->probes.
 * Not for: what they say about the network; fit and simulate know.
 */
#include <stdlib.h>

#include "analyzer/load/load.h"

static int compare_number(const void *a, const void *b)
{
	const struct lw_load_probe *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static bool is_one_clock(const struct lw_run *run)
{
	const struct lw_rank *rank;

	lw_vec_foreach (rank, &run->ranks)
		if (rank->clock != run->ranks.at[0].clock)
			return false;
	return true;
}

struct cursor {                        /* where each rank is in its own list */
	struct lw_load_probes *probes; /* by index of rank */
	size_t *at;                    /* [n_ranks] */
	size_t n_ranks;
};

/* The next operation that any rank has. Return: false at the end of all lists. */
static bool next_number(const struct cursor *cursor, uint64_t *ret_number)
{
	bool is_found = false;

	for (size_t r = 0; r < cursor->n_ranks; r++) {
		const struct lw_load_probes *own = &cursor->probes[r];

		if (cursor->at[r] < own->rows.n &&
			(!is_found || own->rows.at[cursor->at[r]].number < *ret_number)) {
			*ret_number = own->rows.at[cursor->at[r]].number;
			is_found = true;
		}
	}
	return is_found;
}

/* Steps over operation @number on every rank. Return: all have it, and mean the same by it. */
static bool take(struct cursor *cursor, uint64_t number)
{
	const struct lw_load_probe *first = NULL;
	bool is_whole = true;

	for (size_t r = 0; r < cursor->n_ranks; r++) {
		const struct lw_load_probes *own = &cursor->probes[r];
		const struct lw_load_probe *probe = own->rows.at + cursor->at[r];

		if (cursor->at[r] >= own->rows.n || probe->number != number) {
			is_whole = false;
			continue;
		}
		cursor->at[r]++;
		first = first ? first : probe;
		is_whole &= probe->bytes && probe->bytes == first->bytes && probe->op == first->op;
	}
	return is_whole;
}

/* The operation that every rank has just stepped over. @is_after: it follows run->probes' last one */
static struct lw_probe_op join(const struct cursor *cursor, bool is_one_clock, bool is_after)
{
	struct lw_probe_op joined = {.idle_ns = INT64_MAX};
	int64_t shortest_ns = INT64_MAX, free_ns = INT64_MIN;

	for (size_t r = 0; r < cursor->n_ranks; r++) {
		const struct lw_load_probe *probe = &cursor->probes[r].rows.at[cursor->at[r] - 1];
		int64_t took_ns = probe->end_ns - probe->start_ns;

		if (is_one_clock) {
			if (r == 0 || probe->start_ns > joined.last_start_ns)
				joined.last_start_ns = probe->start_ns;
			if (r == 0 || probe->end_ns > joined.last_end_ns)
				joined.last_end_ns = probe->end_ns;
			if (is_after && probe[-1].end_ns > free_ns)
				free_ns = probe[-1].end_ns;
		} else if (took_ns < shortest_ns) {
			shortest_ns = took_ns;
			joined.last_start_ns = probe->start_ns;
			joined.last_end_ns = probe->end_ns;
			free_ns = is_after ? probe[-1].end_ns : INT64_MIN;
		}
		joined.op = probe->op;
		joined.transport = probe->transport;
		joined.bytes = probe->bytes;
		joined.burst = probe->burst;
		joined.nth_in_burst = probe->position;
	}
	if (is_after)
		joined.idle_ns =
			joined.last_start_ns > free_ns ? joined.last_start_ns - free_ns : 0;
	return joined;
}

int lw_load_match_probes(struct lw_run *run, struct lw_load_probes *probes)
{
	struct cursor cursor = {.probes = probes, .n_ranks = run->ranks.n};
	bool one_clock = is_one_clock(run);
	uint64_t number = 0, last_number = 0;
	uint32_t n_broken = 0;
	int status = LW_OK;

	for (size_t r = 0; r < run->ranks.n; r++)
		if (probes[r].rows.n)
			qsort(probes[r].rows.at, probes[r].rows.n, sizeof(*probes[r].rows.at),
				compare_number);
	cursor.at = calloc(run->ranks.n + 1, sizeof(*cursor.at));
	if (!cursor.at)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	while (status == LW_OK && next_number(&cursor, &number)) {
		struct lw_probe_op joined;

		/* what a rank that is not in the run did is not known */
		if (!take(&cursor, number) || run->ranks.n != (size_t)run->size) {
			n_broken++;
			continue;
		}
		joined = join(&cursor, one_clock, run->probes.n && last_number + 1 == number);
		status = lw_vec_push(&run->probes, joined);
		last_number = number;
	}
	free(cursor.at);
	if (status == LW_OK && n_broken)
		status = lw_run_diag(run, "load", "probe not whole", n_broken,
			"%u operation(s) of the probe were not recorded on all ranks: not used",
			n_broken);
	return status;
}
