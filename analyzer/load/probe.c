/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c - the operations of `record --probe`, put together over all ranks.
 *
 * Reads:  what rows.c took from table probe.   Writes: run->probes.
 * Not for: what they say about the network; fit and simulate know.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"

static int compare_number(const void *a, const void *b)
{
	const struct lw_load_probe *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

struct span { /* all that one process recorded of its probe */
	struct lw_load_probe *rows;
	size_t n;
	int64_t clock, start_ns, end_ns;
	size_t rank; /* index into run->ranks */
};
typedef lw_vec(struct span) spans;

static int compare_span(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->clock != y->clock)
		return x->clock < y->clock ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static int find_spans(const struct lw_run *run, struct lw_load_probes *probes, spans *ret_spans)
{
	int status = LW_OK;

	for (size_t r = 0; r < run->ranks.n; r++) {
		struct lw_load_probe *row;
		uint64_t source = UINT64_MAX;

		lw_vec_foreach (row, &probes[r].rows) {
			struct span *last;

			if (row->number >> 32 != source) {
				struct span next = {row, 0, run->ranks.at[r].clock, row->start_ns,
					row->end_ns, r};

				status = lw_vec_push(ret_spans, next);
				if (status < 0)
					return status;
				source = row->number >> 32;
			}
			last = &ret_spans->at[ret_spans->n - 1];
			last->n++;
			last->start_ns =
				row->start_ns < last->start_ns ? row->start_ns : last->start_ns;
			last->end_ns = row->end_ns > last->end_ns ? row->end_ns : last->end_ns;
		}
	}
	if (ret_spans->n)
		qsort(ret_spans->at, ret_spans->n, sizeof(*ret_spans->at), compare_span);
	return status;
}

/* Puts the probe of every row into the upper half of its number. A process that lost the rows of one probe must not
 * have its next one taken for it: on one clock the spans of one probe overlap, as no rank leaves an
 * operation before all have entered it. Across clocks the k-th of each is the same, if all have as many.
 * Return: whether they have, or an error. */
static int number_probes(const struct lw_run *run, struct lw_load_probes *probes)
{
	uint64_t *seen = calloc(run->ranks.n + 1, sizeof(*seen)); /* by rank: its last probe + 1 */
	uint64_t probe = 0, n_wanted = 0;
	int64_t end_ns = 0;
	spans all = {0};
	int status = seen ? find_spans(run, probes, &all) : lw_fail(LW_ERR_NOMEM, "no memory");
	bool is_equal = true;

	for (size_t i = 0; i < all.n && status == LW_OK; i++) {
		struct span *span = &all.at[i];

		if (i == 0 || span->clock != span[-1].clock) {
			n_wanted = n_wanted ? n_wanted : i ? probe + 1 : 0;
			is_equal &= !n_wanted || probe + 1 == n_wanted;
			memset(seen, 0, run->ranks.n * sizeof(*seen));
			probe = 0;
			end_ns = span->end_ns;
		} else if (span->start_ns > end_ns || seen[span->rank] == probe + 1) {
			probe++;
			end_ns = span->end_ns;
		}
		end_ns = span->end_ns > end_ns ? span->end_ns : end_ns;
		seen[span->rank] = probe + 1;
		for (size_t k = 0; k < span->n; k++)
			span->rows[k].number = probe << 32 | (uint32_t)span->rows[k].number;
	}
	is_equal &= !n_wanted || probe + 1 == n_wanted;
	lw_vec_free(&all);
	free(seen);
	return status < 0 ? status : is_equal;
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

/* Steps over operation @number on every rank. Return: all have it, and mean the same by it: on one clock
 * there is a moment at which all were in it. */
static bool take(struct cursor *cursor, uint64_t number, bool is_one_clock)
{
	const struct lw_load_probe *first = NULL;
	int64_t last_start_ns = INT64_MIN, first_end_ns = INT64_MAX;
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
		if (probe->start_ns > last_start_ns)
			last_start_ns = probe->start_ns;
		if (probe->end_ns < first_end_ns)
			first_end_ns = probe->end_ns;
	}
	return is_whole && (!is_one_clock || last_start_ns <= first_end_ns);
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
	}
	if (is_after)
		joined.idle_ns =
			joined.last_start_ns > free_ns ? joined.last_start_ns - free_ns : 0;
	return joined;
}

/* Bursts are counted as they come, and what is in them: a file may hold any number, and they are used as indices. */
static void number_burst(
	const struct lw_run *run, bool is_new, uint32_t position, struct lw_probe_op *joined)
{
	const struct lw_probe_op *before =
		run->probes.n ? &run->probes.at[run->probes.n - 1] : NULL;

	joined->burst = before ? before->burst + is_new : 0;
	if (position > 0)
		joined->nth_in_burst = before && !is_new ? before->nth_in_burst + 1 : 1;
}

int lw_load_match_probes(struct lw_run *run, struct lw_load_probes *probes)
{
	struct cursor cursor = {.probes = probes, .n_ranks = run->ranks.n};
	bool is_one_clock = lw_run_is_one_clock(run);
	uint64_t number = 0, last_number = 0;
	uint32_t n_broken = 0, last_burst = 0;
	int status = number_probes(run, probes);

	if (status < 0)
		return status;
	if (status == 0)
		return lw_run_diag(run, "load", "probe not whole", 1,
			"not all hosts recorded as many probes: which belong together is not known, none is used");
	status = LW_OK;
	for (size_t r = 0; r < run->ranks.n; r++)
		if (probes[r].rows.n)
			qsort(probes[r].rows.at, probes[r].rows.n, sizeof(*probes[r].rows.at),
				compare_number);
	cursor.at = calloc(run->ranks.n + 1, sizeof(*cursor.at));
	if (!cursor.at)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	while (status == LW_OK && next_number(&cursor, &number)) {
		const struct lw_load_probe *own;
		struct lw_probe_op joined;

		/* what a rank that is not in the run did is not known */
		if (!take(&cursor, number, is_one_clock) || run->ranks.n != (size_t)run->size) {
			n_broken++;
			continue;
		}
		own = &probes[0].rows.at[cursor.at[0] - 1];
		joined = join(&cursor, is_one_clock, run->probes.n && last_number + 1 == number);
		number_burst(run, own->burst != last_burst || number >> 32 != last_number >> 32,
			own->position, &joined);
		status = lw_vec_push(&run->probes, joined);
		last_number = number;
		last_burst = own->burst;
	}
	free(cursor.at);
	if (status == LW_OK && n_broken)
		status = lw_run_diag(run, "load", "probe not whole", n_broken,
			"%u operation(s) of the probe were not recorded on all ranks: not used",
			n_broken);
	return status;
}
