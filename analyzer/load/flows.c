/* SPDX-License-Identifier: Apache-2.0 */
/* flows.c - captured packets: sums of every flow, and the milliseconds of those that ranks send or receive. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"
#include "base/units.h"

/* A longer one is the sum of a time in which nobody knew yet whose flow it was: of no use but as a sum. */
#define MAX_BIN_NS (10 * LW_NS_PER_MS)

static int add_flow(struct lw_loader *loader, sqlite3_stmt *row)
{
	int32_t own = lw_load_rank_index(loader, sqlite3_column_int64(row, 6));
	int32_t peer = lw_load_rank_index(loader, sqlite3_column_int64(row, 8));
	bool is_sent = sqlite3_column_int(row, 7) != 0;
	struct lw_packet_flow flow = {.store = loader->store_index,
		.protocol = strdup(lw_store_column_text(row, 1)),
		.source = strdup(lw_store_column_text(row, 2)),
		.source_port = sqlite3_column_int(row, 3),
		.destination = strdup(lw_store_column_text(row, 4)),
		.destination_port = sqlite3_column_int(row, 5),
		.from_rank = is_sent ? own : peer,
		.to_rank = is_sent ? peer : own,
		.is_other = sqlite3_column_int(row, 9) != 0,
		.missing_bytes = sqlite3_column_int64(row, 10)};

	if (flow.protocol && flow.source && flow.destination &&
		lw_vec_push(&loader->run->flows, flow) == LW_OK)
		return LW_OK;
	free(flow.protocol);
	free(flow.source);
	free(flow.destination);
	return lw_fail(LW_ERR_NOMEM, "no memory");
}

static uint64_t count(sqlite3_stmt *row, int column)
{
	int64_t value = sqlite3_column_int64(row, column);

	return value > 0 && value <= LW_LOAD_BYTES_MAX ? (uint64_t)value : 0;
}

/* Rows come by flow, in the order of its rows, then by time. */
static int add_bin(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_packet_bin bin = {
		sqlite3_column_int64(row, 1), count(row, 5), count(row, 6), count(row, 8)};
	struct lw_packet_flow *flow;
	uint64_t index = count(row, 0);

	if (!index || loader->first_flow + index > loader->run->flows.n ||
		!lw_load_is_time(bin.bin_ns)) {
		loader->n_bad_traffic++;
		return LW_OK;
	}
	flow = &loader->run->flows.at[loader->first_flow + index - 1];
	flow->n_frames += count(row, 2);
	flow->frame_bytes += count(row, 3);
	flow->n_packets += count(row, 4);
	flow->wire_bytes += bin.wire_bytes;
	flow->payload_bytes += bin.payload_bytes;
	flow->repeated_bytes += count(row, 7);
	flow->n_retransmitted += bin.n_retransmitted;
	if ((flow->from_rank == LW_NONE && flow->to_rank == LW_NONE) || count(row, 9) > MAX_BIN_NS)
		return LW_OK;
	return lw_vec_push(&flow->bins, bin);
}

int lw_load_flows(struct lw_loader *loader)
{
	int status;

	loader->first_flow = loader->run->flows.n;
	status = lw_load_each(loader,
		"SELECT id, protocol, source_address, source_port, destination_address, destination_port,"
		" coalesce(process_id, 0), is_sent, coalesce(peer_process_id, 0), is_other, missing_bytes"
		" FROM flow ORDER BY id",
		add_flow);
	if (status == LW_OK)
		status = lw_load_each(loader,
			"SELECT f.n, b.bin_ns, b.n_frames, b.frame_bytes, b.n_packets, b.wire_bytes,"
			" b.payload_bytes, b.repeated_bytes, b.n_retransmitted, b.last_ns - b.bin_ns FROM packet_bin b JOIN"
			" (SELECT id, row_number() OVER (ORDER BY id) AS n FROM flow) f ON f.id = b.flow_id"
			" ORDER BY f.n, b.bin_ns",
			add_bin);
	return status;
}
