/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_proxy.c - what NCCL's proxies moved and waited for, and what carried it: tied to operations, peers and connections.
 *
 * A proxy is of the operation with its serial in the same process; its peer is a rank of that operation's communicator, and
 * table comm says which rank of the job that is. What carried it is the queue pair or the socket of the same process with
 * its number, and so the NIC and the rank at the other end. Rows of one operation, peer and direction become one: so many
 * as there are operations, whatever the channels.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"

enum {
	LOOK_BACK = 32
}; /* rows of an operation are written one after the other, among those of few others */
#define MESSAGES_MAX (INT64_C(1) << 32)

static bool is_amount(int64_t value, int64_t most)
{
	return value >= 0 && value <= most;
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static struct lw_nccl_proxy *like_proxy(struct lw_gpu_rank *gpu, const struct lw_nccl_proxy *proxy)
{
	size_t n = gpu->nccl_proxies.n;

	for (size_t i = n; i > 0 && i + LOOK_BACK > n; i--) {
		struct lw_nccl_proxy *known = &gpu->nccl_proxies.at[i - 1];

		if (known->serial == proxy->serial && known->comm_peer == proxy->comm_peer &&
			known->is_send == proxy->is_send)
			return known;
	}
	return NULL;
}

static void add_up(struct lw_nccl_proxy *sum, const struct lw_nccl_proxy *proxy)
{
	sum->n_proxies += proxy->n_proxies;
	sum->n_messages += proxy->n_messages;
	sum->bytes += proxy->bytes;
	sum->start_ns = proxy->start_ns < sum->start_ns ? proxy->start_ns : sum->start_ns;
	sum->end_ns = proxy->end_ns > sum->end_ns ? proxy->end_ns : sum->end_ns;
	sum->gpu_ns += proxy->gpu_ns;
	sum->peer_ns += proxy->peer_ns;
	sum->wire_ns += proxy->wire_ns;
}

static int add_proxy(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	int64_t bytes = sqlite3_column_int64(row, 5), n_messages = sqlite3_column_int64(row, 7);
	int64_t gpu_ns = sqlite3_column_int64(row, 8), peer_ns = sqlite3_column_int64(row, 9),
		wire_ns = sqlite3_column_int64(row, 10);
	int op = sqlite3_column_int(row, 3);
	struct lw_nccl_proxy proxy = {.serial = (uint64_t)sqlite3_column_int64(row, 4),
		.op = LW_NONE,
		.comm_peer = sqlite3_column_int(row, 6),
		.peer = LW_NONE,
		.n_proxies = 1,
		.is_send = op == LW_MESSAGE_SEND,
		.n_messages = (uint64_t)n_messages,
		.bytes = (uint64_t)bytes,
		.gpu_ns = (double)gpu_ns,
		.peer_ns = (double)peer_ns,
		.wire_ns = (double)wire_ns};
	struct lw_nccl_proxy *known;

	if (!rank || !lw_load_interval_of(loader, row, 1, &proxy.start_ns, &proxy.end_ns))
		return LW_OK;
	if ((op != LW_MESSAGE_SEND && op != LW_MESSAGE_RECV) ||
		!is_amount(bytes, LW_LOAD_BYTES_MAX) || !is_amount(n_messages, MESSAGES_MAX) ||
		!is_amount(gpu_ns, LW_LOAD_TIME_MAX_NS) ||
		!is_amount(peer_ns, LW_LOAD_TIME_MAX_NS) ||
		!is_amount(wire_ns, LW_LOAD_TIME_MAX_NS)) {
		loader->n_bad_rows++;
		return LW_OK;
	}
	known = like_proxy(&rank->gpu, &proxy);
	if (!known)
		return lw_vec_push(&rank->gpu.nccl_proxies, proxy);
	add_up(known, &proxy);
	return LW_OK;
}

static int add_carrier(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_row(loader, row);
	int64_t bytes = sqlite3_column_int64(row, 5), n = sqlite3_column_int64(row, 7), start_ns,
		end_ns;
	struct lw_nccl_carrier carrier = {.serial = (uint64_t)sqlite3_column_int64(row, 4),
		.op = LW_NONE,
		.end = LW_NONE,
		.kind = sqlite3_column_int(row, 3),
		.number = (uint32_t)sqlite3_column_int64(row, 6),
		.n = (uint64_t)n,
		.bytes = (uint64_t)bytes};
	size_t n_known;

	if (!rank || !lw_load_interval_of(loader, row, 1, &start_ns, &end_ns))
		return LW_OK;
	if ((carrier.kind != LW_NCCL_NET_QP && carrier.kind != LW_NCCL_NET_SOCKET) ||
		!is_amount(bytes, LW_LOAD_BYTES_MAX) || !is_amount(n, MESSAGES_MAX)) {
		loader->n_bad_rows++;
		return LW_OK;
	}
	n_known = rank->gpu.nccl_carriers.n;
	for (size_t i = n_known; i > 0 && i + LOOK_BACK > n_known; i--) {
		struct lw_nccl_carrier *known = &rank->gpu.nccl_carriers.at[i - 1];

		if (known->serial != carrier.serial || known->kind != carrier.kind ||
			known->number != carrier.number)
			continue;
		known->n += carrier.n;
		known->bytes += carrier.bytes;
		return LW_OK;
	}
	return lw_vec_push(&rank->gpu.nccl_carriers, carrier);
}

static int add_place(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_nccl_comm_rank place = {.comm_key = sqlite3_column_int64(row, 1),
		.comm_rank = sqlite3_column_int(row, 2),
		.rank = lw_load_rank_index(loader, sqlite3_column_int64(row, 0)),
		.size = sqlite3_column_int(row, 3)};

	if (place.rank == LW_NONE || place.comm_rank < 0)
		return LW_OK;
	return lw_vec_push(&loader->run->gpu.nccl_comm_ranks, place);
}

static int add_version(struct lw_loader *loader, sqlite3_stmt *row)
{
	int32_t r = lw_load_rank_index(loader, sqlite3_column_int64(row, 0));

	if (r != LW_NONE)
		loader->run->ranks.at[r].gpu.nccl_plugin = sqlite3_column_int(row, 1);
	return LW_OK;
}

static int compare_place(const void *a, const void *b)
{
	const struct lw_nccl_comm_rank *x = a, *y = b;

	if (x->comm_key != y->comm_key)
		return x->comm_key < y->comm_key ? -1 : 1;
	return (x->comm_rank > y->comm_rank) - (x->comm_rank < y->comm_rank);
}

int lw_load_nccl_proxies(struct lw_loader *loader)
{
	int status = lw_load_each(loader,
		"SELECT thread_id, start_ns, end_ns, op, serial, bytes, peer, n_steps, gpu_wait_ns, peer_wait_ns,"
		" wire_ns FROM nccl_proxy",
		add_proxy);

	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT thread_id, start_ns, end_ns, op, serial, bytes, number, n FROM nccl_net",
			add_carrier);
	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT DISTINCT process_id, key, rank, size FROM comm WHERE transport = 3 ORDER BY 1, 2, 3",
			add_place);
	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT k.process_id, max(CAST(substr(d.text, 2) AS INTEGER)) FROM hook k"
			" JOIN string n ON n.id = k.name_id JOIN string d ON d.id = k.detail_id"
			" WHERE n.text = 'nccl_plugin' AND d.text GLOB 'v[0-9]*' GROUP BY 1",
			add_version);
	if (status == LW_OK && loader->run->gpu.nccl_comm_ranks.n)
		qsort(loader->run->gpu.nccl_comm_ranks.at, loader->run->gpu.nccl_comm_ranks.n,
			sizeof(*loader->run->gpu.nccl_comm_ranks.at), compare_place);
	return status;
}

/* ---- what belongs together --------------------------------------------------------------------------- */

struct served { /* an operation by its serial */
	uint64_t serial;
	int32_t op;
};

static int compare_served(const void *a, const void *b)
{
	const struct served *x = a, *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return (x->op > y->op) - (x->op < y->op);
}

static int32_t op_of(const struct served *served, size_t n, uint64_t serial)
{
	size_t low;

	lw_vec_bisect(low, n, i, served[i].serial < serial);
	return serial && low < n && served[low].serial == serial ? served[low].op : LW_NONE;
}

/* Ranks of a communicator that a rank of the job has twice: not known. */
static int32_t rank_of(const struct lw_run *run, int64_t comm_key, int32_t comm_rank)
{
	const struct lw_nccl_comm_rank wanted = {
		.comm_key = comm_key, .comm_rank = comm_rank, .rank = LW_NONE};
	const struct lw_nccl_comm_rank *all = run->gpu.nccl_comm_ranks.at, *place;
	size_t n = run->gpu.nccl_comm_ranks.n, i;

	if (!n)
		return LW_NONE;
	place = bsearch(&wanted, all, n, sizeof(*all), compare_place);
	if (!place)
		return LW_NONE;
	i = (size_t)(place - all);
	if ((i > 0 && !compare_place(&all[i - 1], place) && all[i - 1].rank != place->rank) ||
		(i + 1 < n && !compare_place(&all[i + 1], place) && all[i + 1].rank != place->rank))
		return LW_NONE;
	return place->rank;
}

static int compare_proxy(const void *a, const void *b)
{
	const struct lw_nccl_proxy *x = a, *y = b;

	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	if (x->is_send != y->is_send)
		return x->is_send ? -1 : 1;
	if (x->comm_peer != y->comm_peer)
		return x->comm_peer < y->comm_peer ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static int compare_carrier(const void *a, const void *b)
{
	const struct lw_nccl_carrier *x = a, *y = b;

	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

struct numbered { /* an end of this rank's process */
	uint32_t kind, number;
	int32_t end;
};

static int compare_numbered(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* A number that two queue pairs of the process had, one after the other, is neither's: they may have different peers. */
static int32_t end_of(const struct numbered *ends, size_t n, const struct lw_nccl_carrier *carrier)
{
	size_t low;
	struct numbered wanted = {(uint32_t)carrier->kind, carrier->number, LW_NONE};

	lw_vec_bisect(low, n, i, compare_numbered(&ends[i], &wanted) < 0);
	if (!carrier->number || low >= n || ends[low].kind != wanted.kind ||
		ends[low].number != wanted.number)
		return LW_NONE;
	if (low + 1 < n && ends[low + 1].kind == wanted.kind &&
		ends[low + 1].number == wanted.number)
		return LW_NONE;
	return ends[low].end;
}

static int find_ends(const struct lw_run *run, struct lw_rank *rank)
{
	lw_vec(struct numbered) ends = {0};
	struct lw_nccl_carrier *carrier;
	int status = LW_OK;

	for (size_t i = 0; i < run->ends.n && i < INT32_MAX && status == LW_OK; i++) {
		const struct lw_tcp_end *end = &run->ends.at[i];
		struct numbered numbered = {end->is_rdma ? LW_NCCL_NET_QP : LW_NCCL_NET_SOCKET,
			end->is_rdma ? (uint32_t)end->local_port : (uint32_t)end->socket,
			(int32_t)i};

		if (end->store == rank->store && end->process_id == rank->process_id &&
			numbered.number)
			status = lw_vec_push(&ends, numbered);
	}
	if (ends.n)
		qsort(ends.at, ends.n, sizeof(*ends.at), compare_numbered);
	lw_vec_foreach (carrier, &rank->gpu.nccl_carriers)
		carrier->end = end_of(ends.at, ends.n, carrier);
	lw_vec_free(&ends);
	return status;
}

/* Rows of an operation that lay too far apart to be found while they were read. */
static void unite(struct lw_gpu_rank *gpu)
{
	size_t n = 0;

	for (size_t i = 0; i < gpu->nccl_proxies.n; i++) {
		const struct lw_nccl_proxy *proxy = &gpu->nccl_proxies.at[i];
		struct lw_nccl_proxy *last = n ? &gpu->nccl_proxies.at[n - 1] : NULL;

		if (last && last->op == proxy->op && last->is_send == proxy->is_send &&
			last->comm_peer == proxy->comm_peer && last->serial == proxy->serial)
			add_up(last, proxy);
		else
			gpu->nccl_proxies.at[n++] = *proxy;
	}
	gpu->nccl_proxies.n = n;
}

int lw_load_nccl_join(struct lw_run *run, struct lw_rank *rank)
{
	struct lw_gpu_rank *gpu = &rank->gpu;
	size_t n = gpu->nccl_ops.n;
	struct lw_nccl_carrier *carrier;
	struct lw_nccl_proxy *proxy;
	struct served *served;

	if (!gpu->nccl_proxies.n && !gpu->nccl_carriers.n)
		return LW_OK;
	served = malloc((n + 1) * sizeof(*served));
	if (!served)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu operations", n);
	for (size_t i = 0; i < n; i++)
		served[i] = (struct served){gpu->nccl_ops.at[i].serial, (int32_t)i};
	if (n)
		qsort(served, n, sizeof(*served), compare_served);
	lw_vec_foreach (proxy, &gpu->nccl_proxies) {
		proxy->op = op_of(served, n, proxy->serial);
		if (proxy->op != LW_NONE)
			proxy->peer = rank_of(
				run, gpu->nccl_ops.at[proxy->op].comm_key, proxy->comm_peer);
	}
	lw_vec_foreach (carrier, &gpu->nccl_carriers)
		carrier->op = op_of(served, n, carrier->serial);
	free(served);
	if (gpu->nccl_proxies.n)
		qsort(gpu->nccl_proxies.at, gpu->nccl_proxies.n, sizeof(*gpu->nccl_proxies.at),
			compare_proxy);
	if (gpu->nccl_carriers.n)
		qsort(gpu->nccl_carriers.at, gpu->nccl_carriers.n, sizeof(*gpu->nccl_carriers.at),
			compare_carrier);
	unite(gpu);
	return find_ends(run, rank);
}
