/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ends.c - ends of TCP connections: what the hook counted and what the kernel says of the same socket, joined
 * by process and both addresses.
 *
 * What passes the hook by (io_uring, raw system calls) the kernel has: where the hook counted far less, it is the
 * kernel that counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "analyzer/load/load.h"

/* What names an end. The process is 0 where none was found for it. */
struct end_key {
	int64_t process_id;
	char local[LW_ADDRESS_BYTES], peer[LW_ADDRESS_BYTES];
	int local_port, peer_port;
};

struct by_key {
	struct end_key key;
	/* indices into run->ends, in time: ports are used again, the first socket is that of the first connection */
	lw_vec(size_t) of;
	size_t n_joined; /* so many of them have their hook */
	UT_hash_handle hh;
};

struct by_id { /* of either table of samples */
	struct {
		int64_t process_id, id; /* process_id -1: of tcp_connection */
	} key;
	size_t end;
	UT_hash_handle hh;
};

#define HOOKED_FRAC                                                                                \
	0.5 /* of what the kernel says: with less the hook does not see this socket's calls */
enum { PAST_HOOK_BYTES = 65536 };

struct lw_load_ends {
	struct lw_load_addresses *addresses;
	size_t first; /* of this store in run->ends, without queue pairs */
	struct by_key *by_key;
	struct by_id *by_id;
};

static struct end_key key_of(int64_t process_id, const struct lw_tcp_end *end)
{
	struct end_key key;

	memset(&key, 0, sizeof(key)); /* padding is compared too */
	key.process_id = process_id;
	memcpy(key.local, end->local, sizeof(key.local));
	memcpy(key.peer, end->peer, sizeof(key.peer));
	key.local_port = end->local_port;
	key.peer_port = end->peer_port;
	return key;
}

static struct by_key *find_key(
	struct lw_load_ends *ends, int64_t process_id, const struct lw_tcp_end *end)
{
	struct end_key key = key_of(process_id, end);
	struct by_key *found;

	HASH_FIND(hh, ends->by_key, &key, sizeof(key), found);
	return found;
}

static int remember_id(struct lw_load_ends *ends, int64_t process_id, int64_t id, size_t end)
{
	struct by_id *entry, key = {0};

	key.key.process_id = process_id;
	key.key.id = id;
	HASH_FIND(hh, ends->by_id, &key.key, sizeof(key.key), entry);
	if (entry) {
		entry->end = end;
		return LW_OK;
	}
	entry = malloc(sizeof(*entry));
	if (!entry)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	*entry = key;
	entry->end = end;
	HASH_ADD(hh, ends->by_id, key, sizeof(entry->key), entry);
	return LW_OK;
}

static struct lw_tcp_end *find_id(struct lw_loader *loader, int64_t process_id, int64_t id)
{
	struct by_id *entry, key = {0};

	key.key.process_id = process_id;
	key.key.id = id;
	HASH_FIND(hh, loader->ends->by_id, &key.key, sizeof(key.key), entry);
	return entry ? &loader->run->ends.at[entry->end] : NULL;
}

/* Columns: local address and port, peer's. */
static void read_addresses(struct lw_tcp_end *end, sqlite3_stmt *row, int column)
{
	snprintf(end->local, sizeof(end->local), "%s", lw_store_column_text(row, column));
	snprintf(end->peer, sizeof(end->peer), "%s", lw_store_column_text(row, column + 2));
	end->local_port = sqlite3_column_int(row, column + 1);
	end->peer_port = sqlite3_column_int(row, column + 3);
}

static int push_end(struct lw_loader *loader, struct lw_tcp_end *end)
{
	struct lw_load_ends *ends = loader->ends;
	struct by_key *entry;

	end->store = loader->store_index;
	end->peer_rank = end->peer_end = LW_NONE;
	end->rank = end->process_id ? lw_load_rank_index(loader, end->process_id) : LW_NONE;
	if (lw_vec_push(&loader->run->ends, *end) < 0)
		return LW_ERR_NOMEM;
	entry = find_key(ends, end->process_id, end);
	if (!entry) {
		entry = calloc(1, sizeof(*entry));
		if (!entry)
			return lw_fail(LW_ERR_NOMEM, "no memory");
		entry->key = key_of(end->process_id, end);
		HASH_ADD(hh, ends->by_key, key, sizeof(entry->key), entry);
	}
	return lw_vec_push(&entry->of, loader->run->ends.n - 1) < 0 ? LW_ERR_NOMEM : LW_OK;
}

/* The first connection with the key of @end that has no hook yet. Return: index into run->ends, or SIZE_MAX. */
static size_t find_unjoined(
	struct lw_loader *loader, int64_t process_id, const struct lw_tcp_end *end)
{
	struct by_key *entry = find_key(loader->ends, process_id, end);

	for (; entry && entry->n_joined < entry->of.n; entry->n_joined++)
		if (!loader->run->ends.at[entry->of.at[entry->n_joined]].socket)
			return entry->of.at[entry->n_joined];
	return SIZE_MAX;
}

static int add_connection(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_tcp_end end = {.tcp_id = sqlite3_column_int64(row, 0),
		.process_id = sqlite3_column_int64(row, 1),
		.nic = lw_load_nic_index(loader, sqlite3_column_int64(row, 2))};
	int status;

	read_addresses(&end, row, 3);
	end.namespace_key = sqlite3_column_int64(row, 7);
	if (end.nic == LW_NONE)
		end.nic = lw_load_address_nic(
			loader->ends->addresses, end.namespace_key, end.local, end.peer);
	status = push_end(loader, &end);
	return status < 0 ? status
			  : remember_id(loader->ends, -1, end.tcp_id, loader->run->ends.n - 1);
}

static int add_socket(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_tcp_end end = {.process_id = sqlite3_column_int64(row, 0),
		.socket = sqlite3_column_int64(row, 1),
		.nic = LW_NONE};
	size_t index;

	read_addresses(&end, row, 2);
	index = find_unjoined(loader, end.process_id, &end);
	if (index == SIZE_MAX)
		index = find_unjoined(loader, 0, &end);
	if (index != SIZE_MAX) {
		struct lw_tcp_end *known = &loader->run->ends.at[index];

		known->socket = end.socket;
		known->process_id = end.process_id;
		known->rank = lw_load_rank_index(loader, end.process_id);
	} else {
		int status = push_end(loader, &end);

		if (status < 0)
			return status;
		index = loader->run->ends.n - 1;
	}
	return remember_id(loader->ends, end.process_id, end.socket, index);
}

static bool is_count(int64_t value)
{
	return value >= 0 && value <= LW_LOAD_BYTES_MAX;
}

static int add_point(struct lw_loader *loader, struct lw_tcp_end *end, int64_t at_ns,
	int64_t sent_bytes, int64_t received_bytes)
{
	struct lw_curve_point point = {.at_ns = at_ns}, *last = NULL;

	if (!lw_load_is_time(at_ns) || !is_count(sent_bytes) || !is_count(received_bytes)) {
		loader->n_bad_traffic++;
		return LW_OK;
	}
	point.sent_bytes = (uint64_t)sent_bytes;
	point.received_bytes = (uint64_t)received_bytes;
	if (end->curve.n)
		last = &end->curve.at[end->curve.n - 1];
	if (last && point.sent_bytes < last->sent_bytes) /* totals never shrink */
		point.sent_bytes = last->sent_bytes;
	if (last && point.received_bytes < last->received_bytes)
		point.received_bytes = last->received_bytes;
	return lw_vec_push(&end->curve, point);
}

static int add_socket_sample(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_tcp_end *end =
		find_id(loader, sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1));

	if (!end)
		return LW_OK;
	return add_point(loader, end, sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3),
		sqlite3_column_int64(row, 4));
}

static int64_t known(sqlite3_stmt *row, int column)
{
	int64_t value = sqlite3_column_int64(row, column);

	return sqlite3_column_type(row, column) == SQLITE_NULL || value < 0 ||
			       value > LW_LOAD_TIME_MAX_NS
		       ? LW_COUNT_UNKNOWN
		       : value;
}

static int add_tcp(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_tcp_end *end = find_id(loader, -1, sqlite3_column_int64(row, 0));
	struct lw_tcp_reading reading = {.at_ns = sqlite3_column_int64(row, 1)};
	int64_t *const fields[] = {&reading.rtt_ns, &reading.min_rtt_ns, &reading.sent_bytes,
		&reading.acked_bytes, &reading.received_bytes, &reading.retransmitted_bytes,
		&reading.n_retransmits, &reading.n_segments_out, &reading.n_segments_in,
		&reading.busy_ns, &reading.rwnd_limited_ns, &reading.sndbuf_limited_ns};

	if (!end || !lw_load_is_time(reading.at_ns)) {
		loader->n_bad_traffic++;
		return LW_OK;
	}
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		*fields[i] = known(row, 2 + (int)i);
	if (lw_vec_push(&end->tcp, reading) < 0)
		return LW_ERR_NOMEM;
	if (end->socket || reading.acked_bytes < 0 || reading.received_bytes < 0)
		return LW_OK;
	/* nobody hooked it: of the handshake's or the end's one byte more nothing shows here */
	return add_point(loader, end, reading.at_ns, reading.acked_bytes, reading.received_bytes);
}

static const struct {
	const char *sql;
	int (*row)(struct lw_loader *loader, sqlite3_stmt *row);
} tables[] = {
	{"SELECT id, coalesce(process_id, 0), device_id, local_address, local_port, peer_address, peer_port,"
	 " namespace_key FROM tcp_connection ORDER BY id",
		add_connection},
	{"SELECT process_id, socket, local_address, local_port, peer_address, peer_port FROM socket"
	 " ORDER BY process_id, at_ns, socket",
		add_socket},
	{"SELECT process_id, socket, at_ns, sent_bytes, received_bytes FROM socket_sample"
	 " ORDER BY at_ns, rowid",
		add_socket_sample},
	{"SELECT connection_id, at_ns, rtt_ns, min_rtt_ns, sent_bytes, acked_bytes, received_bytes,"
	 " retransmitted_bytes, n_retransmits, n_segments_out, n_segments_in, busy_ns, rwnd_limited_ns,"
	 " sndbuf_limited_ns FROM tcp_info_sample ORDER BY at_ns, rowid",
		add_tcp},
};

static bool is_past_hook(const struct lw_tcp_end *end)
{
	const struct lw_tcp_reading *last = end->tcp.n ? &end->tcp.at[end->tcp.n - 1] : NULL;
	double hooked_bytes = lw_end_sent_bytes(end) + lw_end_received_bytes(end), bytes;

	if (!end->socket || !last || last->acked_bytes < 0 || last->received_bytes < 0)
		return false;
	/* as both know it: the hook may have come to it late */
	bytes = (double)(last->acked_bytes - end->tcp.at[0].acked_bytes) +
		(double)(last->received_bytes - end->tcp.at[0].received_bytes);
	return bytes > PAST_HOOK_BYTES && hooked_bytes < HOOKED_FRAC * bytes;
}

/* Once everything of the store is read. */
static int take_kernels_word(struct lw_loader *loader)
{
	const struct lw_tcp_reading *reading;
	int status = LW_OK;

	for (size_t i = loader->ends->first; i < loader->run->ends.n && status == LW_OK; i++) {
		struct lw_tcp_end *end = &loader->run->ends.at[i];

		if (!is_past_hook(end))
			continue;
		lw_vec_free(&end->curve);
		lw_vec_foreach (reading, &end->tcp)
			if (status == LW_OK && reading->acked_bytes >= 0 &&
				reading->received_bytes >= 0)
				status = add_point(loader, end, reading->at_ns,
					reading->acked_bytes, reading->received_bytes);
	}
	return status;
}

int lw_load_ends(struct lw_loader *loader)
{
	struct lw_load_ends ends = {.first = loader->run->ends.n};
	struct by_key *key, *next_key;
	struct by_id *id, *next_id;
	int status = lw_load_addresses_make(loader, &ends.addresses);

	loader->ends = &ends;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && status == LW_OK; i++)
		status = lw_load_each(loader, tables[i].sql, tables[i].row);
	if (status == LW_OK)
		status = take_kernels_word(loader);
	lw_load_addresses_free(ends.addresses);
	HASH_ITER(hh, ends.by_key, key, next_key)
	{
		HASH_DEL(ends.by_key, key);
		lw_vec_free(&key->of);
		free(key);
	}
	HASH_ITER(hh, ends.by_id, id, next_id)
	{
		HASH_DEL(ends.by_id, id);
		free(id);
	}
	loader->ends = NULL;
	return status;
}
