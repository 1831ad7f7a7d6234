/* SPDX-License-Identifier: Apache-2.0 */
#include "packet/rows.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/err.h"
#include "packet/bin_table.h"

#define HASH_NONFATAL_OOM          1
#define uthash_nonfatal_oom(entry) ((entry)->key.zero = 1)
#include <uthash.h>

enum statement {
	ADD_CAPTURE,
	UPDATE_CAPTURE,
	SET_FILTER,
	ADD_FLOW,
	UPDATE_FLOW,
	OWN_FLOW,
	SET_OPCODE,
	ADD_GAP,
	N_STATEMENTS
};

static const char *const statement_sql[N_STATEMENTS] = {
	[ADD_CAPTURE] =
		"INSERT INTO capture(host_id, device, filter, source, link_type, snap_bytes,"
		" start_ns, n_received, n_dropped, n_cut, n_bad, n_other, n_elsewhere,"
		" clock_error_ns, problem)"
		" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, 0, 0, 0, 0, ?8)",
	[UPDATE_CAPTURE] =
		"UPDATE capture SET n_received = ?2, n_dropped = ?3, n_cut = ?4, n_bad = ?5,"
		" n_other = ?6, clock_error_ns = ?7, end_ns = ?8, problem = coalesce(?9, problem),"
		" n_elsewhere = iif(?8 IS NULL, n_elsewhere, (SELECT coalesce(sum(n_elsewhere), 0)"
		" FROM flow WHERE capture_id = ?1)) WHERE id = ?1",
	[SET_FILTER] = "UPDATE capture SET filter = ?2 WHERE id = ?1",
	[ADD_FLOW] =
		"INSERT INTO flow(capture_id, protocol, source_address, source_port,"
		" destination_address, destination_port, destination_qp, is_other, is_fragment,"
		" missing_bytes, n_elsewhere) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, 0)",
	[UPDATE_FLOW] = "UPDATE flow SET segment_bytes = ?2, missing_bytes = ?3, n_elsewhere = ?4"
			" WHERE id = ?1",
	[OWN_FLOW] = "UPDATE flow SET process_id = ?2, is_sent = ?3, peer_process_id = ?4"
		     " WHERE id = ?1",
	[SET_OPCODE] = "INSERT OR REPLACE INTO flow_opcode VALUES(?1, ?2, ?3, ?4)",
	[ADD_GAP] = "INSERT INTO capture_loss VALUES(?1, ?2, ?3, ?4)",
};

/* One direction between two ends: a flow, a connection of this run, or both. */
struct way {
	struct lw_flow_key key;
	int64_t flow_id;                /* 0 = no packet of it was stored */
	int64_t sender_id, receiver_id; /* processes of this run, 0 = none */
	uint32_t n_owners;              /* lw_packet_rows_own() less lw_packet_rows_disown() */
	uint32_t n_places;              /* indexes in the table of flows that lead here */
	UT_hash_handle hh;
};

struct lw_packet_rows {
	struct lw_store *store;
	sqlite3_stmt *own[N_STATEMENTS];
	int64_t capture_id;
	struct way *ways;
	sqlite3_stmt *add_bins;
	struct lw_bin_source bins;
	lw_vec(int64_t) flow_ids;    /* by index in the table of flows; 0 = not stored */
	lw_vec(struct way *) places; /* the same; NULL = not stored, or "other" */
};

void lw_packet_batch_free(struct lw_packet_batch *batch)
{
	lw_vec_free(&batch->bins);
	lw_vec_free(&batch->states);
	lw_vec_free(&batch->gaps);
}

static struct lw_flow_state state_of(const struct lw_flow *flow, uint32_t i)
{
	struct lw_flow_state state = {.flow = i,
		.key = flow->key,
		.source_port = flow->source_port,
		.is_other = flow->is_other,
		.is_new = !flow->is_stored,
		.segment_bytes = flow->segment_bytes,
		.missing_bytes = flow->tcp.missing_bytes,
		.n_elsewhere = flow->n_elsewhere,
		.n_opcodes = flow->n_opcodes};

	memcpy(state.opcodes, flow->opcodes, sizeof(state.opcodes));
	return state;
}

int lw_flows_states(struct lw_flow_table *table, bool only_new, struct lw_packet_batch *batch)
{
	for (uint32_t i = 0; i < table->n; i++) {
		struct lw_flow *flow = &table->flows[i];

		if (!flow->has_rows && !(flow->is_other && flow->n_elsewhere))
			continue;
		if (!flow->is_changed || (only_new && flow->is_stored))
			continue;
		if (lw_vec_push(&batch->states, state_of(flow, i)) < 0)
			return LW_ERR_NOMEM;
		flow->is_changed = false;
		flow->is_stored = true;
	}
	return LW_OK;
}

static int run(struct lw_packet_rows *rows, sqlite3_stmt *statement)
{
	int status = lw_store_step(rows->store, statement);

	return status < 0 ? status : LW_OK;
}

static int add_capture(struct lw_packet_rows *rows, const struct lw_capture_row *capture)
{
	sqlite3_stmt *add = rows->own[ADD_CAPTURE];
	int status;

	sqlite3_bind_int64(add, 1, capture->host_id);
	sqlite3_bind_text(add, 2, capture->device, -1, SQLITE_TRANSIENT);
	sqlite3_bind_text(add, 3, capture->filter, -1, SQLITE_TRANSIENT);
	sqlite3_bind_text(add, 4, capture->source, -1, SQLITE_TRANSIENT);
	sqlite3_bind_text(add, 5, capture->link_type, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int64(add, 6, capture->snap_bytes);
	sqlite3_bind_int64(add, 7, capture->start_ns);
	sqlite3_bind_text(add, 8, capture->problem, -1, SQLITE_TRANSIENT); /* NULL stays NULL */
	status = run(rows, add);
	rows->capture_id = sqlite3_last_insert_rowid(rows->store->db);
	return status;
}

int lw_packet_rows_open(struct lw_store *store, const struct lw_capture_row *capture,
	struct lw_packet_rows **ret_rows)
{
	struct lw_packet_rows *rows = calloc(1, sizeof(*rows));
	int status = LW_OK;

	if (!rows)
		return lw_fail(LW_ERR_NOMEM, "no memory");
	rows->store = store;
	for (int i = 0; i < N_STATEMENTS && status == LW_OK; i++)
		status = lw_store_prepare(store, statement_sql[i], &rows->own[i]);
	if (status == LW_OK)
		status = lw_bin_table_attach(store, &rows->bins, &rows->add_bins);
	if (status == LW_OK)
		status = add_capture(rows, capture);
	if (status < 0) {
		lw_packet_rows_close(rows);
		return status;
	}
	*ret_rows = rows;
	return LW_OK;
}

void lw_packet_rows_close(struct lw_packet_rows *rows)
{
	struct way *way, *next;

	if (!rows)
		return;
	HASH_ITER(hh, rows->ways, way, next)
	{
		HASH_DEL(rows->ways, way);
		free(way);
	}
	for (int i = 0; i < N_STATEMENTS; i++)
		sqlite3_finalize(rows->own[i]);
	sqlite3_finalize(rows->add_bins);
	lw_vec_free(&rows->flow_ids);
	lw_vec_free(&rows->places);
	free(rows);
}

/* Return: the way of @key, added if new; NULL = no memory. */
static struct way *find_way(struct lw_packet_rows *rows, const struct lw_flow_key *key)
{
	struct way *way;

	HASH_FIND(hh, rows->ways, key, sizeof(*key), way);
	if (way)
		return way;
	way = calloc(1, sizeof(*way));
	if (!way) {
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	way->key = *key;
	HASH_ADD(hh, rows->ways, key, sizeof(*key), way);
	if (way->key.zero) { /* uthash had no memory for its buckets */
		free(way);
		lw_fail(LW_ERR_NOMEM, "no memory");
		return NULL;
	}
	return way;
}

/* Nobody owns it, and no flow leads to it. */
static void drop_idle_way(struct lw_packet_rows *rows, struct way *way)
{
	if (!way || way->n_owners || way->n_places)
		return;
	HASH_DEL(rows->ways, way);
	free(way);
}

static int put_owner(struct lw_packet_rows *rows, const struct way *way)
{
	sqlite3_stmt *own = rows->own[OWN_FLOW];

	if (!way->flow_id || (!way->sender_id && !way->receiver_id))
		return LW_OK;
	sqlite3_clear_bindings(own);
	sqlite3_bind_int64(own, 1, way->flow_id);
	sqlite3_bind_int64(own, 2, way->sender_id ? way->sender_id : way->receiver_id);
	sqlite3_bind_int(own, 3, way->sender_id != 0);
	if (way->sender_id && way->receiver_id)
		sqlite3_bind_int64(own, 4, way->receiver_id);
	return run(rows, own);
}

int lw_packet_rows_own(struct lw_packet_rows *rows, const struct lw_flow_key *key,
	int64_t process_id, bool is_sent)
{
	struct way *way = find_way(rows, key);

	if (!way)
		return LW_ERR_NOMEM;
	if (is_sent)
		way->sender_id = process_id;
	else
		way->receiver_id = process_id;
	way->n_owners++;
	return put_owner(rows, way);
}

void lw_packet_rows_disown(struct lw_packet_rows *rows, const struct lw_flow_key *key)
{
	struct way *way;

	HASH_FIND(hh, rows->ways, key, sizeof(*key), way);
	if (!way || !way->n_owners || --way->n_owners)
		return;
	way->sender_id = way->receiver_id = 0;
	drop_idle_way(rows, way);
}

static int know_flow(struct lw_packet_rows *rows, const struct lw_flow_state *state)
{
	struct way *way = find_way(rows, &state->key);

	if (!way)
		return LW_ERR_NOMEM;
	way->n_places++;
	rows->places.at[state->flow] = way;
	way->flow_id = rows->flow_ids.at[state->flow];
	return put_owner(rows, way);
}

static int add_flow(struct lw_packet_rows *rows, const struct lw_flow_state *state)
{
	const struct lw_flow_key *key = &state->key;
	sqlite3_stmt *add = rows->own[ADD_FLOW];
	char source[INET6_ADDRSTRLEN] = "", destination[INET6_ADDRSTRLEN] = "", protocol[16] = "";
	int status;

	if (!state->is_other) {
		lw_address_text(key->source, source);
		lw_address_text(key->destination, destination);
	}
	if (key->protocol == IPPROTO_TCP || key->protocol == IPPROTO_UDP)
		snprintf(protocol, sizeof(protocol), "%s",
			key->is_roce                   ? "roce"
			: key->protocol == IPPROTO_TCP ? "tcp"
						       : "udp");
	else if (!state->is_other)
		snprintf(protocol, sizeof(protocol), "%d", key->protocol);
	sqlite3_clear_bindings(add);
	sqlite3_bind_int64(add, 1, rows->capture_id);
	sqlite3_bind_text(add, 2, protocol, -1, SQLITE_TRANSIENT);
	sqlite3_bind_text(add, 3, source, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int(add, 4, state->source_port);
	sqlite3_bind_text(add, 5, destination, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int(add, 6, key->destination_port);
	if (key->is_roce && !state->is_other)
		sqlite3_bind_int64(add, 7, key->destination_qp);
	sqlite3_bind_int(add, 8, state->is_other);
	sqlite3_bind_int(add, 9, key->is_fragment);
	status = run(rows, add);
	if (status == LW_OK)
		rows->flow_ids.at[state->flow] = sqlite3_last_insert_rowid(rows->store->db);
	return status < 0 || state->is_other ? status : know_flow(rows, state);
}

/* The flow that had this index so far was forgotten. */
static void leave_place(struct lw_packet_rows *rows, uint32_t flow)
{
	struct way *way = rows->places.at[flow];

	rows->places.at[flow] = NULL;
	if (!way)
		return;
	way->n_places--;
	if (way->flow_id == rows->flow_ids.at[flow])
		way->flow_id = 0;
	drop_idle_way(rows, way);
}

static int put_opcodes(
	struct lw_packet_rows *rows, int64_t flow_id, const struct lw_flow_state *state)
{
	sqlite3_stmt *set = rows->own[SET_OPCODE];
	int status = LW_OK;

	for (uint32_t i = 0; i < state->n_opcodes && status == LW_OK; i++) {
		sqlite3_bind_int64(set, 1, flow_id);
		sqlite3_bind_int(set, 2, state->opcodes[i].opcode);
		sqlite3_bind_int64(set, 3, (int64_t)state->opcodes[i].n_packets);
		sqlite3_bind_int64(set, 4, (int64_t)state->opcodes[i].payload_bytes);
		status = run(rows, set);
	}
	return status;
}

static int put_state(struct lw_packet_rows *rows, const struct lw_flow_state *state)
{
	sqlite3_stmt *update = rows->own[UPDATE_FLOW];
	int status = LW_OK;

	if (lw_vec_reserve(&rows->flow_ids, (size_t)state->flow + 1) < 0 ||
		lw_vec_reserve(&rows->places, (size_t)state->flow + 1) < 0)
		return LW_ERR_NOMEM;
	while (rows->flow_ids.n <= state->flow) {
		rows->places.at[rows->flow_ids.n] = NULL;
		rows->flow_ids.at[rows->flow_ids.n++] = 0;
	}
	if (state->is_new) {
		leave_place(rows, state->flow);
		status = add_flow(rows, state);
	}
	if (status < 0)
		return status;
	sqlite3_clear_bindings(update);
	sqlite3_bind_int64(update, 1, rows->flow_ids.at[state->flow]);
	if (state->segment_bytes && !state->is_other)
		sqlite3_bind_int64(update, 2, state->segment_bytes);
	sqlite3_bind_int64(update, 3, (int64_t)state->missing_bytes);
	sqlite3_bind_int64(update, 4, (int64_t)state->n_elsewhere);
	status = run(rows, update);
	return status < 0 ? status : put_opcodes(rows, rows->flow_ids.at[state->flow], state);
}

static int put_bins(struct lw_packet_rows *rows, const struct lw_packet_batch *batch)
{
	const struct lw_packet_bin *bin;

	lw_vec_foreach (bin, &batch->bins)
		if (bin->flow >= rows->flow_ids.n || !rows->flow_ids.at[bin->flow])
			return lw_fail(LW_ERR_STATE, "a bin of a flow that is not stored");
	rows->bins = (struct lw_bin_source){batch->bins.at, batch->bins.n, rows->flow_ids.at};
	return batch->bins.n ? run(rows, rows->add_bins) : LW_OK;
}

static int put_capture(struct lw_packet_rows *rows, const struct lw_packet_batch *batch)
{
	const struct lw_capture_counts *counts = &batch->counts;
	sqlite3_stmt *update = rows->own[UPDATE_CAPTURE];

	sqlite3_clear_bindings(update);
	sqlite3_bind_int64(update, 1, rows->capture_id);
	sqlite3_bind_int64(update, 2, (int64_t)counts->n_received);
	sqlite3_bind_int64(update, 3, (int64_t)counts->n_dropped);
	sqlite3_bind_int64(update, 4, (int64_t)counts->n_cut);
	sqlite3_bind_int64(update, 5, (int64_t)counts->n_bad);
	sqlite3_bind_int64(update, 6, (int64_t)counts->n_other);
	sqlite3_bind_int64(update, 7, counts->clock_error_ns);
	if (batch->end_ns)
		sqlite3_bind_int64(update, 8, batch->end_ns);
	if (batch->problem[0])
		sqlite3_bind_text(update, 9, batch->problem, -1, SQLITE_TRANSIENT);
	return run(rows, update);
}

int lw_packet_rows_put(struct lw_packet_rows *rows, const struct lw_packet_batch *batch)
{
	int status = LW_OK;

	for (size_t i = 0; i < batch->states.n && status == LW_OK; i++)
		status = put_state(rows, &batch->states.at[i]);
	if (status == LW_OK)
		status = put_bins(rows, batch);
	for (size_t i = 0; i < batch->gaps.n && status == LW_OK; i++) {
		sqlite3_stmt *add = rows->own[ADD_GAP];

		sqlite3_bind_int64(add, 1, rows->capture_id);
		sqlite3_bind_int64(add, 2, batch->gaps.at[i].start_ns);
		sqlite3_bind_int64(add, 3, batch->gaps.at[i].end_ns);
		sqlite3_bind_int64(add, 4, (int64_t)batch->gaps.at[i].n);
		status = run(rows, add);
	}
	return status == LW_OK ? put_capture(rows, batch) : status;
}

/* Of a capture: the last that was stored of it; is its reader gone? One that was refused has no link type. */
#define LAST                                                                                       \
	"coalesce((SELECT max(b.last_ns) FROM packet_bin b JOIN flow f ON f.id = b.flow_id"        \
	" WHERE f.capture_id = capture.id), start_ns)"
#define IS_LEFT "source = 'live' AND end_ns IS NULL AND link_type <> '' AND host_id = %1$lld"

int lw_packet_rows_end_earlier(struct lw_store *store, int64_t host_id, int64_t now_ns)
{
	char sql[1000];

	snprintf(sql, sizeof(sql),
		"INSERT INTO capture_loss SELECT id, " LAST
		", %2$lld, 0 FROM capture WHERE " IS_LEFT "; UPDATE capture SET end_ns = " LAST
		", problem = coalesce(problem,"
		" 'its reader was killed: what it had not stored is missing') WHERE " IS_LEFT,
		(long long)host_id, (long long)now_ns);
	return lw_store_exec(store, sql);
}

int lw_packet_rows_filter(struct lw_packet_rows *rows, const char *filter)
{
	sqlite3_stmt *set = rows->own[SET_FILTER];

	sqlite3_bind_int64(set, 1, rows->capture_id);
	sqlite3_bind_text(set, 2, filter, -1, SQLITE_TRANSIENT);
	return run(rows, set);
}
