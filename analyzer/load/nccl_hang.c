/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_hang.c - operations of NCCL that were never carried to an end: who waited, and which ranks never called them.
 *
 * All ranks of a communicator call the same collectives in the same order: who has made fewer calls than the one that
 * somebody waits in, has not called it. One that all had called, and that was on its way when the process ended, is a hang
 * only when it was so for long.
 */
#include <stdio.h>
#include <string.h>

#include "analyzer/load/load.h"
#include "base/units.h"

enum {
	MAX_COMMS = 8, /* looked at, of each rank */
	LIST_BYTES = 96,
};
static const int64_t long_ns = 1000000000;

struct hang { /* of one communicator */
	int64_t comm_key;
	const struct lw_nccl_call *call; /* of the first rank that waited */
	uint64_t place;                  /* calls that came before it there */
	const struct lw_rank *rank;
	int64_t longest_ns;
	uint32_t n_waited, n_never;
	char waited[LIST_BYTES], never[LIST_BYTES];
};

static bool is_collective(const struct lw_nccl_call *call)
{
	return call->op != LW_NCCL_SEND && call->op != LW_NCCL_RECV;
}

/* The first call on @comm_key that did not end; NULL. @ret_n: calls before it, or all. */
static const struct lw_nccl_call *find_unfinished(
	const struct lw_rank *rank, int64_t comm_key, uint64_t *ret_n)
{
	const struct lw_nccl_call *call;

	*ret_n = 0;
	lw_vec_foreach (call, &rank->gpu.nccl_ops) {
		if (call->comm_key != comm_key || !is_collective(call))
			continue;
		if (call->flags & LW_NCCL_UNFINISHED)
			return call;
		++*ret_n;
	}
	return NULL;
}

static bool is_member(const struct lw_run *run, size_t r, int64_t comm_key)
{
	const struct lw_nccl_comm_rank *member;

	lw_vec_foreach (member, &run->gpu.nccl_comm_ranks)
		if (member->comm_key == comm_key && member->rank == (int32_t)r)
			return true;
	return false;
}

static void add_to_list(char list[LIST_BYTES], uint32_t n, int32_t rank)
{
	size_t at = strlen(list);

	if (at < LIST_BYTES - 20)
		snprintf(list + at, LIST_BYTES - at, "%s%d", n ? ", " : "", rank);
	else if (list[at - 1] != '.')
		snprintf(list + at, LIST_BYTES - at, ", ...");
}

static void see_ranks(const struct lw_run *run, struct hang *hang)
{
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];
		uint64_t n;
		const struct lw_nccl_call *call = find_unfinished(rank, hang->comm_key, &n);

		if (call && n == hang->place) {
			add_to_list(hang->waited, hang->n_waited++, rank->rank);
			if (rank->end_ns - call->start_ns > hang->longest_ns)
				hang->longest_ns = rank->end_ns - call->start_ns;
		} else if (n <= hang->place && (n || is_member(run, r, hang->comm_key))) {
			add_to_list(hang->never, hang->n_never++, rank->rank);
		}
	}
}

static int say(struct lw_run *run, const struct hang *hang)
{
	const struct lw_nccl_call *call = hang->call;
	const char *op = lw_nccl_op_name(call->op);
	char bytes[LW_UNIT_TEXT_BYTES], waited[LW_UNIT_TEXT_BYTES], size[48] = "", never[160];

	if (!(call->flags & LW_NCCL_NO_BYTES))
		snprintf(size, sizeof(size), " of %s", lw_bytes_format((double)call->bytes, bytes));
	if (hang->n_never)
		snprintf(never, sizeof(never), "rank%s %s %s", hang->n_never == 1 ? "" : "s",
			hang->never,
			run->n_lost > run->n_unended ? "have no record of it" : "never called it");
	else
		snprintf(never, sizeof(never), "no rank in the run is known not to have called it");
	return lw_run_diag(run, "load", LW_LOAD_NCCL_HANG, hang->n_waited,
		"rank%s %s called %s%s %.3f s after the run began, and it had not ended when the process did, %s later; %s",
		hang->n_waited == 1 ? "" : "s", hang->waited, op, size,
		(double)lw_run_since_ns(run, hang->rank, call->start_ns) / 1e9,
		lw_ns_format((double)hang->longest_ns, waited), never);
}

static int look_at(struct lw_run *run, size_t r, int64_t comm_key)
{
	struct hang hang = {.comm_key = comm_key, .rank = &run->ranks.at[r]};
	uint64_t n;

	hang.call = find_unfinished(hang.rank, comm_key, &hang.place);
	for (size_t before = 0; before < r; before++) /* said when that was looked at */
		if (find_unfinished(&run->ranks.at[before], comm_key, &n) && n == hang.place)
			return LW_OK;
	see_ranks(run, &hang);
	if (!hang.n_never && hang.longest_ns < long_ns)
		return LW_OK;
	run->n_hung_ranks += hang.n_waited;
	if (hang.longest_ns > run->hung_ns)
		run->hung_ns = hang.longest_ns;
	return say(run, &hang);
}

int lw_load_nccl_hangs(struct lw_run *run)
{
	int status = LW_OK;

	for (size_t r = 0; r < run->ranks.n && status == LW_OK; r++) {
		int64_t seen[MAX_COMMS];
		const struct lw_nccl_call *call;
		size_t n = 0;

		lw_vec_foreach (call, &run->ranks.at[r].gpu.nccl_ops) {
			size_t i = 0;

			if (!(call->flags & LW_NCCL_UNFINISHED) || !is_collective(call))
				continue;
			while (i < n && seen[i] != call->comm_key)
				i++;
			if (i < n)
				continue;
			if (n == MAX_COMMS || status < 0)
				break;
			seen[n++] = call->comm_key;
			status = look_at(run, r, call->comm_key);
		}
	}
	return status;
}
