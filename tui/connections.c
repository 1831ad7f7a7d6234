/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/connections.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char connections_sql[] =
	"WITH end AS MATERIALIZED (SELECT k.process_id, k.socket, p.rank, k.local_address, k.local_port,"
	" k.peer_address, k.peer_port FROM socket k JOIN process p ON p.id = k.process_id),"
	" sample AS MATERIALIZED (SELECT process_id, socket, max(sent_bytes) AS sent_bytes,"
	" max(received_bytes) AS received_bytes FROM socket_sample GROUP BY process_id, socket),"
	" tcp AS MATERIALIZED (SELECT process_id, socket, max(acked_bytes) AS acked_bytes,"
	" max(n_retransmits) AS n_retransmits, avg(rtt_ns) AS rtt_ns,"
	" avg(delivery_bytes_per_s) AS delivery_bytes_per_s FROM tcp_sample"
	" GROUP BY process_id, socket)"
	" SELECT e.rank, e.local_address, e.local_port, e.peer_address, e.peer_port, e.process_id,"
	" s.sent_bytes, s.received_bytes, t.acked_bytes, t.n_retransmits, t.rtt_ns,"
	" t.delivery_bytes_per_s, e.socket FROM end e"
	" LEFT JOIN sample s ON s.process_id = e.process_id AND s.socket = e.socket"
	" LEFT JOIN tcp t ON t.process_id = e.process_id AND t.socket = e.socket"
	" GROUP BY e.process_id, e.socket";

static double number(sqlite3_stmt *row, int column)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? (double)NAN
							       : sqlite3_column_double(row, column);
}

static int32_t rank_number(sqlite3_stmt *row, int column)
{
	return sqlite3_column_type(row, column) == SQLITE_NULL ? LW_NONE
							       : sqlite3_column_int(row, column);
}

/* By store, process and socket. */
static int compare_end(const void *a, const void *b)
{
	const struct lw_tcp_end *x = *(const struct lw_tcp_end *const *)a;
	const struct lw_tcp_end *y = *(const struct lw_tcp_end *const *)b;

	if (x->store != y->store)
		return x->store < y->store ? -1 : 1;
	if (x->process_id != y->process_id)
		return x->process_id < y->process_id ? -1 : 1;
	return (x->socket > y->socket) - (x->socket < y->socket);
}

struct ends { /* of hooked sockets, by compare_end() */
	const struct lw_tcp_end **at;
	size_t n;
};

static int sort_ends(const struct lw_run *run, struct ends *ret_ends)
{
	const struct lw_tcp_end *end;

	ret_ends->n = 0;
	ret_ends->at = calloc(run->ends.n + 1, sizeof(const struct lw_tcp_end *));
	if (!ret_ends->at)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu connections", run->ends.n);
	lw_vec_foreach (end, &run->ends)
		if (end->socket)
			ret_ends->at[ret_ends->n++] = end;
	qsort(ret_ends->at, ret_ends->n, sizeof(const struct lw_tcp_end *), compare_end);
	return LW_OK;
}

static const struct lw_tcp_end *end_of(
	const struct ends *ends, size_t store, int64_t process_id, int64_t socket)
{
	const struct lw_tcp_end wanted = {
		.store = store, .process_id = process_id, .socket = socket};
	const struct lw_tcp_end *key = &wanted;
	const struct lw_tcp_end *const *found =
		ends->n ? bsearch(&key, ends->at, ends->n, sizeof(key), compare_end) : NULL;

	return found ? *found : NULL;
}

/* What the collector asked the kernel, where the hook did not. */
static void add_tcp_info(const struct lw_tcp_end *end, struct lw_connection *connection)
{
	const struct lw_tcp_reading *last = end->tcp.n ? &end->tcp.at[end->tcp.n - 1] : NULL;
	const struct lw_tcp_reading *reading;
	double sum_ns = 0, n = 0;

	if (!last || !isnan(connection->acked_bytes))
		return;
	lw_vec_foreach (reading, &end->tcp) {
		n += reading->rtt_ns > 0;
		sum_ns += reading->rtt_ns > 0 ? (double)reading->rtt_ns : 0;
	}
	connection->rtt_ns = n > 0 ? sum_ns / n : (double)NAN;
	connection->acked_bytes = last->acked_bytes < 0 ? (double)NAN : (double)last->acked_bytes;
	connection->n_retransmits =
		last->n_retransmits < 0 ? (double)NAN : (double)last->n_retransmits;
}

static void add_end(
	const struct lw_run *run, const struct lw_tcp_end *end, struct lw_connection *connection)
{
	if (!end)
		return;
	if (end->peer_rank != LW_NONE)
		connection->peer_rank = run->ranks.at[end->peer_rank].rank;
	add_tcp_info(end, connection);
}

static int load_store(const struct lw_run *run, size_t index, const struct ends *ends,
	struct lw_connections *connections)
{
	struct lw_store *store = run->stores.at[index];
	sqlite3_stmt *row = NULL;
	int status = lw_store_prepare(store, connections_sql, &row);

	while (status == LW_OK && (status = lw_store_step(store, row)) == 1) {
		struct lw_connection connection = {.rank = rank_number(row, 0),
			.peer_rank = LW_NONE,
			.sent_bytes = number(row, 6),
			.received_bytes = number(row, 7),
			.acked_bytes = number(row, 8),
			.n_retransmits = number(row, 9),
			.rtt_ns = number(row, 10),
			.delivery_bytes_per_s = number(row, 11)};

		add_end(run,
			end_of(ends, index, sqlite3_column_int64(row, 5),
				sqlite3_column_int64(row, 12)),
			&connection);
		snprintf(connection.local, sizeof(connection.local), "%s:%d",
			lw_store_column_text(row, 1), sqlite3_column_int(row, 2));
		snprintf(connection.peer, sizeof(connection.peer), "%s:%d",
			lw_store_column_text(row, 3), sqlite3_column_int(row, 4));
		status = lw_vec_push(connections, connection);
	}
	sqlite3_finalize(row);
	return status;
}

/* Those that no hook saw: of the collector alone, and queue pairs, which are told by their device's address and their
 * number on the wire. */
static int add_others(const struct lw_run *run, struct lw_connections *connections)
{
	const struct lw_tcp_end *end;

	lw_vec_foreach (end, &run->ends) {
		const char *between = end->is_rdma ? " qp " : ":";
		struct lw_connection connection = {.peer_rank = LW_NONE,
			.sent_bytes = lw_end_sent_bytes(end),
			.received_bytes = lw_end_received_bytes(end),
			.acked_bytes = NAN,
			.n_retransmits = NAN,
			.rtt_ns = NAN,
			.delivery_bytes_per_s = NAN};

		if (end->rank == LW_NONE || (!end->is_rdma && end->socket))
			continue;
		connection.rank = run->ranks.at[end->rank].rank;
		add_end(run, end, &connection);
		snprintf(connection.local, sizeof(connection.local), "%s%s%d", end->local, between,
			end->local_port);
		snprintf(connection.peer, sizeof(connection.peer), "%s%s%d", end->peer, between,
			end->peer_port);
		if (lw_vec_push(connections, connection) < 0)
			return LW_ERR_NOMEM;
	}
	return LW_OK;
}

static int compare(const void *a, const void *b)
{
	const struct lw_connection *x = a, *y = b;
	double sent_x = isnan(x->sent_bytes) ? -1 : x->sent_bytes;
	double sent_y = isnan(y->sent_bytes) ? -1 : y->sent_bytes;

	if (sent_x < sent_y || sent_x > sent_y)
		return sent_x > sent_y ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

int lw_connections_load(const struct lw_run *run, struct lw_connections *ret_connections)
{
	struct ends ends;
	int status = sort_ends(run, &ends);

	*ret_connections = (struct lw_connections){0};
	for (size_t i = 0; i < run->stores.n && status == LW_OK; i++)
		status = load_store(run, i, &ends, ret_connections);
	free(ends.at);
	if (status == LW_OK)
		status = add_others(run, ret_connections);
	if (status < 0) {
		lw_vec_free(ret_connections);
		return status;
	}
	if (ret_connections->n)
		qsort(ret_connections->at, ret_connections->n, sizeof(*ret_connections->at),
			compare);
	return LW_OK;
}

/* Sent by @at_ns, from sample *@i on, which only moves forward. */
static double sent_by(const struct lw_rank *rank, int64_t at_ns, size_t *i)
{
	const struct lw_traffic *before, *after;

	while (*i + 1 < rank->traffic.n && rank->traffic.at[*i + 1].at_ns <= at_ns)
		(*i)++;
	before = &rank->traffic.at[*i];
	if (at_ns < before->at_ns || *i + 1 >= rank->traffic.n)
		return (double)before->sent_bytes;
	after = before + 1;
	return (double)before->sent_bytes + (double)(after->sent_bytes - before->sent_bytes) *
						    (double)(at_ns - before->at_ns) /
						    (double)(after->at_ns - before->at_ns);
}

void lw_traffic_rates(
	const struct lw_run *run, const struct lw_rank *rank, size_t n, double *rates_bytes_per_s)
{
	int64_t span_ns = run->last_ns - run->first_ns;
	double before = 0;
	size_t i = 0;

	for (size_t k = 0; k <= n; k++) {
		int64_t at_ns = run->first_ns + (int64_t)((double)span_ns * (double)k / (double)n);
		bool is_known =
			rank->traffic.n >= 2 && at_ns >= rank->traffic.at[0].at_ns && span_ns > 0;
		double sent = rank->traffic.n ? sent_by(rank, at_ns, &i) : 0;

		if (k > 0)
			rates_bytes_per_s[k - 1] =
				is_known ? (sent - before) * (double)n / (double)span_ns * 1e9
					 : (double)NAN;
		before = sent;
	}
}
