/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queues.c - RDMA queue pairs as ends of connections: their addresses and numbers on the wire stand for those of a
 * socket, their completed requests for its bytes.
 *
 * What a rank reads of its peer (RDMA READ) is received by it; the peer knows nothing of it and has sent nothing, as it
 * knows nothing of what is written into it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "analyzer/load/load.h"

enum { DEFAULT_MTU_BYTES = 1024 };

struct lw_load_queue {
	struct {
		int64_t process_id, qp;
	} key;
	size_t end; /* index into run->ends */
	UT_hash_handle hh;
};

static struct lw_load_queue *find(struct lw_loader *loader, int64_t process_id, int64_t qp)
{
	struct lw_load_queue *found, key = {0};

	key.key.process_id = process_id;
	key.key.qp = qp;
	HASH_FIND(hh, loader->queues, &key.key, sizeof(key.key), found);
	return found;
}

/* Datagram queue pairs do not say their port (@name is ""): it is known where there is only one. */
static int32_t find_port(const struct lw_run *run, size_t store, const char *name)
{
	int32_t only = LW_NONE;
	size_t n = 0;

	for (size_t i = 0; i < run->nics.n; i++) {
		if (run->nics.at[i].store != store ||
			strcmp(run->nics.at[i].kind, "rdma_port") != 0)
			continue;
		if (!strcmp(run->nics.at[i].name, name))
			return (int32_t)i;
		only = (int32_t)i;
		n++;
	}
	return !*name && n == 1 ? only : LW_NONE;
}

static uint32_t mtu_bytes(uint32_t flags)
{
	uint32_t mtu = (flags & LW_RDMA_QP_MTU) >> LW_RDMA_QP_MTU_SHIFT;

	return mtu ? 128u << mtu : DEFAULT_MTU_BYTES;
}

static void read_end(struct lw_loader *loader, sqlite3_stmt *row, struct lw_tcp_end *end)
{
	snprintf(end->local, sizeof(end->local), "%s", lw_store_column_text(row, 3));
	snprintf(end->peer, sizeof(end->peer), "%s", lw_store_column_text(row, 4));
	end->local_port = sqlite3_column_int(row, 2);
	end->peer_port = sqlite3_column_int(row, 5);
	end->rdma.is_infiniband = sqlite3_column_int(row, 8) != 0;
	end->rdma.mtu_bytes = mtu_bytes((uint32_t)sqlite3_column_int(row, 7));
	end->nic = find_port(loader->run, loader->store_index, lw_store_column_text(row, 6));
}

/* The last connection of a queue pair is the one that it is known by. */
static int add_queue(struct lw_loader *loader, sqlite3_stmt *row)
{
	int64_t process_id = sqlite3_column_int64(row, 0), qp = sqlite3_column_int64(row, 1);
	struct lw_load_queue *queue = find(loader, process_id, qp);
	struct lw_tcp_end end = {.store = loader->store_index,
		.process_id = process_id,
		.rank = lw_load_rank_index(loader, process_id),
		.peer_rank = LW_NONE,
		.peer_end = LW_NONE,
		.is_rdma = true};

	if (queue) {
		read_end(loader, row, &loader->run->ends.at[queue->end]);
		return LW_OK;
	}
	read_end(loader, row, &end);
	queue = calloc(1, sizeof(*queue));
	if (!queue || lw_vec_push(&loader->run->ends, end) < 0) {
		free(queue);
		return lw_fail(LW_ERR_NOMEM, "no memory");
	}
	queue->key.process_id = process_id;
	queue->key.qp = qp;
	queue->end = loader->run->ends.n - 1;
	HASH_ADD(hh, loader->queues, key, sizeof(queue->key), queue);
	return LW_OK;
}

enum { ADDRESS_BYTES = 16, IMMEDIATE_BYTES = 4, ATOMIC_BYTES = 28 };

/* What each kind of request moves, and its headers once a message; those that are not here stay in the device. */
static const struct {
	bool is_sent, is_received, is_read;
	uint8_t header_bytes;
} kinds[] = {
	[LW_RDMA_SEND] = {.is_sent = true},
	[LW_RDMA_SEND_IMM] = {.is_sent = true, .header_bytes = IMMEDIATE_BYTES},
	[LW_RDMA_SEND_INV] = {.is_sent = true, .header_bytes = IMMEDIATE_BYTES},
	[LW_RDMA_WRITE] = {.is_sent = true, .header_bytes = ADDRESS_BYTES},
	[LW_RDMA_WRITE_IMM] = {.is_sent = true, .header_bytes = ADDRESS_BYTES + IMMEDIATE_BYTES},
	[LW_RDMA_READ] = {.is_received = true, .is_read = true, .header_bytes = ADDRESS_BYTES},
	[LW_RDMA_CMP_SWAP] = {.is_sent = true, .header_bytes = ATOMIC_BYTES},
	[LW_RDMA_FETCH_ADD] = {.is_sent = true, .header_bytes = ATOMIC_BYTES},
	[LW_RDMA_ATOMIC_WRITE] = {.is_sent = true, .header_bytes = ADDRESS_BYTES},
	[LW_RDMA_TSO] = {.is_sent = true},
	[LW_RDMA_OTHER] = {.is_sent = true},
	[LW_RDMA_RECV] = {.is_received = true},
	[LW_RDMA_RECV_WRITE_IMM] = {.is_received = true},
};

static void count_packets(struct lw_tcp_end *end, int op, uint64_t bytes)
{
	uint64_t n_packets = bytes ? (bytes + end->rdma.mtu_bytes - 1) / end->rdma.mtu_bytes : 1;

	if (kinds[op].is_read)
		end->rdma.n_read_packets += n_packets;
	else if (kinds[op].is_received) {
		end->rdma.n_received++;
		end->rdma.n_received_packets += n_packets;
	}
	if (kinds[op].is_sent || kinds[op].is_read) {
		end->rdma.n_messages++;
		end->rdma.more_header_bytes += kinds[op].header_bytes;
		end->rdma.n_packets += kinds[op].is_read ? 1 : n_packets;
	}
}

/* Rows come by their ends. */
static int add_work(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_load_queue *queue =
		find(loader, sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1));
	int op = sqlite3_column_int(row, 2);
	int64_t bytes = sqlite3_column_int64(row, 3);
	struct lw_curve_point point = {.at_ns = sqlite3_column_int64(row, 5)};
	struct lw_curve_point first = {.at_ns = sqlite3_column_int64(row, 4)}, last;
	struct lw_tcp_end *end;

	if (!queue || op < 0 || (size_t)op >= sizeof(kinds) / sizeof(kinds[0]))
		return LW_OK;
	if (!lw_load_is_time(point.at_ns) || !lw_load_is_time(first.at_ns) ||
		first.at_ns > point.at_ns || bytes < 0 || bytes > LW_LOAD_BYTES_MAX) {
		loader->n_bad_traffic++;
		return LW_OK;
	}
	end = &loader->run->ends.at[queue->end];
	if (sqlite3_column_type(row, 6) == SQLITE_NULL) {
		end->rdma.unfinished_bytes +=
			kinds[op].is_sent || kinds[op].is_read ? (uint64_t)bytes : 0;
		return LW_OK;
	}
	if (!end->curve.n && lw_vec_push(&end->curve, first) < 0)
		return LW_ERR_NOMEM;
	count_packets(end, op, (uint64_t)bytes);
	last = end->curve.at[end->curve.n - 1];
	first.sent_bytes = last.sent_bytes;
	first.received_bytes = last.received_bytes;
	first.read_bytes = last.read_bytes;
	/* nothing moved between the last completion and this request */
	if (first.at_ns > last.at_ns && lw_vec_push(&end->curve, first) < 0)
		return LW_ERR_NOMEM;
	point.sent_bytes = last.sent_bytes + (kinds[op].is_sent ? (uint64_t)bytes : 0);
	point.received_bytes = last.received_bytes + (kinds[op].is_received ? (uint64_t)bytes : 0);
	point.read_bytes = last.read_bytes + (kinds[op].is_read ? (uint64_t)bytes : 0);
	return lw_vec_push(&end->curve, point);
}

int lw_load_queues(struct lw_loader *loader)
{
	struct lw_load_queue *queue, *next;
	int status = lw_load_each(loader,
		"SELECT q.process_id, q.qp, q.number, coalesce(o.gid, 'lid ' || o.lid, ''),"
		" coalesce(q.peer_gid, 'lid ' || q.peer_lid), coalesce(q.peer_number, 0),"
		" coalesce(s.text || '/' || o.number, ''), q.flags, coalesce(o.lid, q.peer_lid)"
		" FROM rdma_qp q LEFT JOIN rdma_port o ON o.process_id = q.process_id AND o.port = q.port"
		" LEFT JOIN string s ON s.id = o.device_id WHERE q.op = 2 ORDER BY q.at_ns, q.rowid",
		add_queue);

	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT t.process_id, w.qp, w.op, w.bytes, w.start_ns, w.end_ns, w.status FROM rdma_work w"
			" JOIN thread t ON t.id = w.thread_id WHERE w.qp IS NOT NULL AND coalesce(w.status, 0) = 0"
			" ORDER BY w.end_ns, w.rowid",
			add_work);
	HASH_ITER(hh, loader->queues, queue, next)
	{
		HASH_DEL(loader->queues, queue);
		free(queue);
	}
	return status;
}
