/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.c - whose the other end of a connection is, and whose packets a captured flow carries: by addresses.
 *
 * An end is joined to the one with the same addresses the other way round. Every network namespace has loopback
 * addresses, which join within it only; of private ones, which many hosts may have, the nearest. Packets of RoCE name
 * the queue pair that they go to and not the one that they come from, so there one number fewer is compared.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"

enum { ANY_PORT = -1 };

struct name { /* an end of a rank, or one that is looked for; then its peer_port may be ANY_PORT */
	bool is_rdma;
	const char *local, *peer;
	int64_t local_port, peer_port;
	int64_t clock, namespace_key; /* of its host; 0 = not known */
	int32_t rank, end;            /* index into run->ends */
};

struct lw_load_names {
	size_t n_own, n_mirrored; /* of their names each once */
	struct name *own,
		*mirrored; /* by compare_place(); the same ends as their peers name them */
};

static int compare_number(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int compare_name(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int by = compare_number(x->is_rdma, y->is_rdma);

	if (!by)
		by = strcmp(x->local, y->local);
	if (!by)
		by = strcmp(x->peer, y->peer);
	if (!by)
		by = compare_number(x->local_port, y->local_port);
	if (!by && x->peer_port != ANY_PORT && y->peer_port != ANY_PORT)
		by = compare_number(x->peer_port, y->peer_port);
	return by;
}

static int compare_place(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int by = compare_name(a, b);

	if (!by)
		by = compare_number(x->clock, y->clock);
	return by ? by : compare_number(x->namespace_key, y->namespace_key);
}

static int compare_order(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int by = compare_place(a, b);

	return by ? by : compare_number(x->end, y->end);
}

/* The first of each place stays: ports are used again. */
static size_t sort(struct name *names, size_t n)
{
	size_t n_kept = 0;

	qsort(names, n, sizeof(*names), compare_order);
	for (size_t i = 0; i < n; i++)
		if (!n_kept || compare_place(&names[n_kept - 1], &names[i]))
			names[n_kept++] = names[i];
	return n_kept;
}

/* Return: how near the place of @name is to that of @wanted, -1 = they cannot be meant. */
static int nearness(const struct name *name, const struct name *wanted)
{
	bool is_loopback = !strncmp(name->local, "127.", 4) || !strcmp(name->local, "::1");
	bool is_there = name->clock == wanted->clock;
	bool is_known = name->namespace_key && wanted->namespace_key;
	bool is_inside = is_there && name->namespace_key == wanted->namespace_key;

	if (is_loopback && (!is_there || (is_known && !is_inside)))
		return -1;
	return is_there + (is_known && is_inside);
}

static const struct name *find(const struct name *names, size_t n, const struct name *wanted)
{
	static const struct name none = {.rank = LW_NONE, .end = LW_NONE};
	const struct name *at = n ? bsearch(wanted, names, n, sizeof(*names), compare_name) : NULL;
	const struct name *found = &none;
	int nearest = -1;

	while (at && at > names && !compare_name(wanted, at - 1))
		at--;
	for (; at && at < names + n && !compare_name(wanted, at); at++)
		if (nearness(at, wanted) > nearest) {
			nearest = nearness(at, wanted);
			found = at;
		}
	return found;
}

void lw_load_names_free(struct lw_load_names *names)
{
	if (!names)
		return;
	free(names->own);
	free(names->mirrored);
	free(names);
}

int lw_load_names_make(const struct lw_run *run, struct lw_load_names **ret_names)
{
	struct lw_load_names *names = calloc(1, sizeof(*names));
	const struct lw_tcp_end *end;
	size_t n = 0;

	if (names) {
		names->own = calloc(run->ends.n + 1, sizeof(*names->own));
		names->mirrored = calloc(run->ends.n + 1, sizeof(*names->mirrored));
	}
	if (!names || !names->own || !names->mirrored) {
		lw_load_names_free(names);
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu connections", run->ends.n);
	}
	lw_vec_foreach (end, &run->ends) {
		if (end->rank == LW_NONE)
			continue;
		int64_t clock = run->ranks.at[end->rank].clock;
		int32_t index = (int32_t)(end - run->ends.at);

		names->own[n] = (struct name){end->is_rdma, end->local, end->peer, end->local_port,
			end->peer_port, clock, end->namespace_key, end->rank, index};
		names->mirrored[n++] =
			(struct name){end->is_rdma, end->peer, end->local, end->peer_port,
				end->local_port, clock, end->namespace_key, end->rank, index};
	}
	names->n_own = sort(names->own, n);
	names->n_mirrored = sort(names->mirrored, n);
	*ret_names = names;
	return LW_OK;
}

void lw_load_peers(struct lw_run *run, const struct lw_load_names *names)
{
	struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends) {
		struct name wanted = {.is_rdma = end->is_rdma,
			.local = end->peer,
			.peer = end->local,
			.local_port = end->peer_port,
			.peer_port = end->local_port,
			.namespace_key = end->namespace_key};
		const struct name *found;

		if (end->rank == LW_NONE)
			continue;
		wanted.clock = run->ranks.at[end->rank].clock;
		found = find(names->own, names->n_own, &wanted);
		end->peer_rank = found->rank;
		end->peer_end = found->end;
	}
}

void lw_load_flow_ranks(const struct lw_load_names *names, struct lw_packet_flow *flow)
{
	const struct name to = {.is_rdma = flow->is_roce,
		.clock = flow->clock,
		.local = flow->destination,
		.peer = flow->source,
		.local_port = flow->is_roce ? flow->destination_qp : flow->destination_port,
		.peer_port = flow->is_roce ? ANY_PORT : flow->source_port};

	if (flow->to_rank == LW_NONE)
		flow->to_rank = find(names->own, names->n_own, &to)->rank;
	if (flow->from_rank == LW_NONE) /* the end whose peer has that name */
		flow->from_rank = find(names->mirrored, names->n_mirrored, &to)->rank;
}
