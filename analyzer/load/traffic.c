/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traffic.c - TCP connections: how much each rank has sent and received, in all and over time.
 *
 * Samples are totals of one connection; their differences, in the order of time, make the cumulative
 * curve of the rank.
 */
#include <stdlib.h>

#include <uthash.h>

#include "analyzer/load/load.h"

struct lw_load_connection {
	struct {
		int64_t process_id, socket;
	} key;
	uint64_t sent_bytes, received_bytes, acked_bytes, tcp_received_bytes;
	UT_hash_handle hh;
};

static struct lw_load_connection *find(
	struct lw_loader *loader, struct lw_rank *rank, sqlite3_stmt *row)
{
	struct lw_load_connection *connection, key = {0};

	key.key.process_id = sqlite3_column_int64(row, 0);
	key.key.socket = sqlite3_column_int64(row, 1);
	HASH_FIND(hh, loader->connections, &key.key, sizeof(key.key), connection);
	if (connection)
		return connection;
	connection = calloc(1, sizeof(*connection));
	if (!connection)
		return NULL;
	connection->key = key.key;
	HASH_ADD(hh, loader->connections, key, sizeof(connection->key), connection);
	rank->n_sockets++;
	return connection;
}

/* Totals never shrink; a sample that says so is from another order of writing, not from the network. */
static uint64_t grow(uint64_t *total, int64_t sample)
{
	uint64_t value = sample < 0 ? 0 : (uint64_t)sample, delta = 0;

	if (value > *total) {
		delta = value - *total;
		*total = value;
	}
	return delta;
}

static int add_sample(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_process(loader, sqlite3_column_int64(row, 0));
	struct lw_traffic traffic = {.at_ns = sqlite3_column_int64(row, 2)};
	struct lw_load_connection *connection;

	if (!rank || traffic.at_ns < 0)
		return LW_OK;
	connection = find(loader, rank, row);
	if (!connection)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	rank->sent_bytes += grow(&connection->sent_bytes, sqlite3_column_int64(row, 3));
	rank->received_bytes += grow(&connection->received_bytes, sqlite3_column_int64(row, 4));
	traffic.sent_bytes = rank->sent_bytes;
	traffic.received_bytes = rank->received_bytes;
	return lw_vec_push(&rank->traffic, traffic);
}

static int add_tcp(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_rank *rank = lw_load_rank_of_process(loader, sqlite3_column_int64(row, 0));
	struct lw_load_connection *connection;

	if (!rank)
		return LW_OK;
	connection = find(loader, rank, row);
	if (!connection)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	rank->tcp_acked_bytes += grow(&connection->acked_bytes, sqlite3_column_int64(row, 2));
	rank->tcp_received_bytes +=
		grow(&connection->tcp_received_bytes, sqlite3_column_int64(row, 3));
	return LW_OK;
}

int lw_load_traffic(struct lw_loader *loader)
{
	struct lw_load_connection *connection, *next;
	int status = lw_load_each(loader,
		"SELECT process_id, socket, at_ns, sent_bytes, received_bytes FROM socket_sample"
		" ORDER BY at_ns, rowid",
		add_sample);

	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT process_id, socket, acked_bytes, received_bytes FROM tcp_sample"
			" ORDER BY at_ns, rowid",
			add_tcp);
	HASH_ITER(hh, loader->connections, connection, next)
	{
		HASH_DEL(loader->connections, connection);
		free(connection);
	}
	return status;
}
