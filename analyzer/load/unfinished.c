/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unfinished.c - a rank that ended in the middle of an operation: killed, or after it had waited for it in vain.
 *
 * An operation is recorded when it ends: of one that never did there are its gradients, handed over after the last
 * one ended, and the readings of connections that were still there. Who was not killed has waited if nothing more was
 * handed over for a second, and for longer than the job had been without an operation before; a gradient that
 * comes twice is one of a loop that exchanges none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"
#include "base/units.h"

static int64_t last_end_ns(const struct lw_rank *rank)
{
	const struct lw_batch *batch;
	int64_t end_ns = rank->last_failed_ns;

	lw_vec_foreach (batch, &rank->batches)
		end_ns = batch->end_ns > end_ns ? batch->end_ns : end_ns;
	return end_ns;
}

/* The last time that one of its connections was found. */
static int64_t last_seen_ns(const struct lw_run *run, size_t rank)
{
	const struct lw_tcp_end *end;
	int64_t at_ns = LW_NS_UNKNOWN;

	lw_vec_foreach (end, &run->ends)
		if (end->rank == (int32_t)rank && end->tcp.n &&
			end->tcp.at[end->tcp.n - 1].at_ns > at_ns)
			at_ns = end->tcp.at[end->tcp.n - 1].at_ns;
	return at_ns;
}

enum { HANG_NS = 1000000000, HANG_FACTOR = 3, LEAST_UNACKED_BYTES = 16384 };

struct unfinished {
	int64_t end_ns;            /* of the last operation */
	int64_t first_ns, last_ns; /* its gradients were handed over */
	size_t n;
	int64_t there_ns; /* the rank was there until then */
};

/* Between operations, the longest of those that ended. */
static int64_t longest_pause_ns(const struct lw_rank *rank)
{
	const struct lw_batch *batch;
	int64_t end_ns = LW_NS_UNKNOWN, longest_ns = 0;

	lw_vec_foreach (batch, &rank->batches) {
		if (end_ns != LW_NS_UNKNOWN && batch->start_ns - end_ns > longest_ns)
			longest_ns = batch->start_ns - end_ns;
		end_ns = batch->end_ns > end_ns ? batch->end_ns : end_ns;
	}
	return longest_ns;
}

static int compare_gradient(const void *a, const void *b)
{
	const struct lw_ready *x = a, *y = b;

	return x->tensor != y->tensor ? (x->tensor > y->tensor) - (x->tensor < y->tensor)
				      : (x->object > y->object) - (x->object < y->object);
}

static int find_twice(const struct lw_ready *readies, size_t n, bool *ret_is)
{
	struct lw_ready *sorted = malloc((n + 1) * sizeof(*sorted));

	*ret_is = false;
	if (!sorted)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	memcpy(sorted, readies, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_gradient);
	for (size_t i = 1; i < n; i++)
		*ret_is |= !compare_gradient(&sorted[i - 1], &sorted[i]);
	free(sorted);
	return LW_OK;
}

static int find_hung(const struct lw_rank *rank, const struct unfinished *one, bool *ret_has)
{
	int64_t waited_ns = one->there_ns - one->last_ns;
	bool is_twice;
	int status = LW_OK;

	*ret_has = waited_ns >= HANG_NS && waited_ns / HANG_FACTOR >= longest_pause_ns(rank);
	if (*ret_has) {
		status = find_twice(&rank->readies.at[rank->readies.n - one->n], one->n, &is_twice);
		*ret_has = status == LW_OK && !is_twice;
	}
	return status;
}

/* What @rank sent and nobody took, of the connection with most of it. "" = nothing. */
static void unacked_text(const struct lw_run *run, size_t rank, char *text, size_t n)
{
	const struct lw_tcp_end *end, *worst = NULL;
	char unit[LW_UNIT_TEXT_BYTES];
	int64_t most_bytes = LEAST_UNACKED_BYTES;

	text[0] = 0;
	lw_vec_foreach (end, &run->ends) {
		const struct lw_tcp_reading *last =
			end->tcp.n ? &end->tcp.at[end->tcp.n - 1] : NULL;

		if (end->rank != (int32_t)rank || end->peer_rank == LW_NONE || !last ||
			last->sent_bytes < 0 || last->acked_bytes < 0 ||
			last->retransmitted_bytes < 0 ||
			last->sent_bytes - last->retransmitted_bytes - last->acked_bytes <
				most_bytes)
			continue;
		most_bytes = last->sent_bytes - last->retransmitted_bytes - last->acked_bytes;
		worst = end;
	}
	if (worst)
		snprintf(text, n, "; %s to rank %d were never acknowledged",
			lw_bytes_format((double)most_bytes, unit),
			run->ranks.at[worst->peer_rank].rank);
}

static int say(struct lw_run *run, size_t r, const struct unfinished *one)
{
	const struct lw_rank *rank = &run->ranks.at[r];
	char ended[LW_UNIT_TEXT_BYTES], since[LW_UNIT_TEXT_BYTES], there[LW_UNIT_TEXT_BYTES];
	char after[96] = "", unacked[96];

	if (one->there_ns > one->last_ns)
		snprintf(after, sizeof(after), "; %s for another %s",
			rank->died ? "its connections were there" : "it was there",
			lw_ns_format((double)(one->there_ns - one->first_ns), there));
	unacked_text(run, r, unacked, sizeof(unacked));
	return lw_run_diag(run, "load", "unfinished operation", 1,
		"rank %d %s: its last operation to end did so %s after its start, and of the %zu gradient%s that it handed over from %s on none was carried to an end%s%s",
		rank->rank, rank->died ? "was killed" : "waited in vain",
		lw_ns_format((double)(one->end_ns - rank->start_ns), ended), one->n,
		one->n == 1 ? "" : "s",
		lw_ns_format((double)(one->first_ns - rank->start_ns), since), after, unacked);
}

int lw_load_unfinished(struct lw_run *run)
{
	int status = LW_OK;

	for (size_t r = 0; r < run->ranks.n && !run->is_import && status == LW_OK; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];
		struct unfinished one = {
			.end_ns = last_end_ns(rank), .there_ns = last_seen_ns(run, r)};
		size_t first = rank->readies.n;
		bool is_hung;

		while (first > 0 && rank->readies.at[first - 1].at_ns > one.end_ns)
			first--;
		if (one.end_ns == LW_NS_UNKNOWN || first == rank->readies.n)
			continue;
		one.first_ns = rank->readies.at[first].at_ns;
		one.last_ns = rank->readies.at[rank->readies.n - 1].at_ns;
		one.n = rank->readies.n - first;
		if (one.there_ns < one.last_ns) /* or not known */
			one.there_ns = one.last_ns;
		if (!rank->died && rank->end_ns > one.there_ns)
			one.there_ns = rank->end_ns;
		status = find_hung(rank, &one, &is_hung);
		if (is_hung) {
			run->n_hung_ranks++;
			if (one.there_ns - one.last_ns > run->hung_ns)
				run->hung_ns = one.there_ns - one.last_ns;
		}
		if (status == LW_OK && (is_hung || rank->died))
			status = say(run, r, &one);
	}
	return status == LW_OK && !run->is_import ? lw_load_nccl_hangs(run) : status;
}
