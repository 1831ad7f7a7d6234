/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - flows and bins as rows of a run file, for the collector and the importer alike.
 *
 * A table of flows belongs to whoever reads packets; the rows to whoever owns the store. Between them
 * goes a batch: plain copies.
 */
#ifndef LAPWING_PACKET_ROWS_H
#define LAPWING_PACKET_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "packet/flow.h"
#include "schema/store.h"

struct lw_flow_state { /* a flow as it stands */
	uint32_t flow;
	struct lw_flow_key key;
	uint16_t source_port;
	bool is_other;
	bool is_new; /* its index was no flow's so far, or another's that was forgotten */
	uint32_t segment_bytes;
	uint64_t missing_bytes, n_elsewhere;
	uint32_t n_opcodes;
	struct lw_flow_opcode opcodes[LW_FLOW_MAX_OPCODES];
};

struct lw_capture_gap { /* packets that were not seen */
	int64_t start_ns, end_ns;
	uint64_t n; /* 0 = not known */
};

struct lw_capture_counts {
	uint64_t n_received, n_dropped, n_cut, n_bad, n_other;
	int64_t clock_error_ns;
};

struct lw_packet_batch {
	lw_vec(struct lw_packet_bin) bins;
	lw_vec(struct lw_flow_state) states; /* flows that are new or have changed */
	lw_vec(struct lw_capture_gap) gaps;
	struct lw_capture_counts counts; /* so far */
	int64_t end_ns;                  /* 0 = it goes on */
	char problem[400];               /* "" = nothing */
};

void lw_packet_batch_free(struct lw_packet_batch *batch);

/**
 * lw_flows_states() - append the flows of @table that have bins and changed since the last call.
 * @only_new: those that were never appended, no others
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_flows_states(struct lw_flow_table *table, bool only_new, struct lw_packet_batch *batch);

struct lw_packet_rows;

struct lw_capture_row {
	int64_t host_id;
	const char *device, *filter, *source, *link_type;
	uint32_t snap_bytes;
	int64_t start_ns;
	const char *problem; /* NULL = nothing */
};

/**
 * lw_packet_rows_open() - add the row of a capture to @store, which must be in a transaction.
 * Return: LW_OK or the store's error. *@ret_rows is freed with lw_packet_rows_close().
 */
int lw_packet_rows_open(struct lw_store *store, const struct lw_capture_row *capture,
	struct lw_packet_rows **ret_rows);
void lw_packet_rows_close(struct lw_packet_rows *rows);

/**
 * lw_packet_rows_end_earlier() - end the captures of @host_id whose reader ended without a word (it was
 * killed): at the last bin that they stored; until @now_ns packets are missing. In a transaction.
 */
int lw_packet_rows_end_earlier(struct lw_store *store, int64_t host_id, int64_t now_ns);

/** lw_packet_rows_put() - store @batch. Its bins may name flows whose state came with an earlier one. */
int lw_packet_rows_put(struct lw_packet_rows *rows, const struct lw_packet_batch *batch);

/** lw_packet_rows_filter() - another filter expression is in force. */
int lw_packet_rows_filter(struct lw_packet_rows *rows, const char *filter);

/**
 * lw_packet_rows_own() - say whose the flow of @key is: @process_id sends it, or receives it. Its packets
 * may come before or after. A flow with both ends in this run has a peer_process_id too.
 * Return: LW_OK or the store's error.
 */
int lw_packet_rows_own(struct lw_packet_rows *rows, const struct lw_flow_key *key,
	int64_t process_id, bool is_sent);

/** lw_packet_rows_disown() - takes one lw_packet_rows_own() back; what is stored stays. */
void lw_packet_rows_disown(struct lw_packet_rows *rows, const struct lw_flow_key *key);

#endif /* LAPWING_PACKET_ROWS_H */
