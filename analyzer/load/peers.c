/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.c - whose the other end of a connection is, and whose packets a captured flow carries: by addresses.
 *
 * An end is joined to the one with the same addresses the other way round; every host has loopback addresses, which
 * join within it only. Packets of RoCE name the queue pair that they go to and not the one that they come from, so
 * there one number fewer is compared.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"

enum { ANY_PORT = -1 };

struct name { /* an end of a rank, or one that is looked for; then its peer_port may be ANY_PORT */
	bool is_rdma;
	int64_t scope; /* clock of its host where all hosts have that address; else 0 */
	const char *local, *peer;
	int64_t local_port, peer_port;
	int32_t rank, end; /* index into run->ends */
};

struct lw_load_names {
	size_t n;
	struct name *own, *mirrored; /* by compare_name(); the same ends as their peers name them */
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
		by = compare_number(x->scope, y->scope);
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

static int64_t scope_of(const char *address, int64_t clock)
{
	return !strncmp(address, "127.", 4) || !strcmp(address, "::1") ? clock : 0;
}

static const struct name *find(const struct name *names, size_t n, const struct name *wanted)
{
	static const struct name none = {.rank = LW_NONE, .end = LW_NONE};
	const struct name *found =
		n ? bsearch(wanted, names, n, sizeof(*names), compare_name) : NULL;

	return found ? found : &none;
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
		int64_t scope = scope_of(end->local, run->ranks.at[end->rank].clock);
		int32_t index = (int32_t)(end - run->ends.at);

		names->own[names->n] = (struct name){end->is_rdma, scope, end->local, end->peer,
			end->local_port, end->peer_port, end->rank, index};
		names->mirrored[names->n++] = (struct name){end->is_rdma, scope, end->peer,
			end->local, end->peer_port, end->local_port, end->rank, index};
	}
	qsort(names->own, names->n, sizeof(*names->own), compare_name);
	qsort(names->mirrored, names->n, sizeof(*names->mirrored), compare_name);
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
			.peer_port = end->local_port};
		const struct name *found;

		if (end->rank == LW_NONE)
			continue;
		wanted.scope = scope_of(end->local, run->ranks.at[end->rank].clock);
		found = find(names->own, names->n, &wanted);
		end->peer_rank = found->rank;
		end->peer_end = found->end;
	}
}

void lw_load_flow_ranks(const struct lw_load_names *names, struct lw_packet_flow *flow)
{
	const struct name to = {.is_rdma = flow->is_roce,
		.scope = scope_of(flow->destination, flow->clock),
		.local = flow->destination,
		.peer = flow->source,
		.local_port = flow->is_roce ? flow->destination_qp : flow->destination_port,
		.peer_port = flow->is_roce ? ANY_PORT : flow->source_port};

	if (flow->to_rank == LW_NONE)
		flow->to_rank = find(names->own, names->n, &to)->rank;
	if (flow->from_rank == LW_NONE) /* the end whose peer has that name */
		flow->from_rank = find(names->mirrored, names->n, &to)->rank;
}
