/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flows.c - captured packets: whose they are, sums of every flow, and the milliseconds of those that ranks send or receive.
 *
 * Several captures see the same packets: each recording of a host has its own, and both ends of a connection may
 * have one. Of those of one flow one counts: one of its own job, for others sum it coarsely; of these that at its
 * sender, which misses no packet that was lost on the way; of several there, the one that ran longest. So of what captures
 * did not keep apart, on one host at one time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/load/load.h"
#include "base/units.h"

/* A longer one is the sum of a time in which nobody knew yet whose flow it was: of no use but as a sum. */
#define MAX_BIN_NS (10 * LW_NS_PER_MS)

enum { MAX_CAPTURES = 1024 }; /* of one flow that are compared */

static int64_t time_of(sqlite3_stmt *row, int column)
{
	int64_t at_ns = sqlite3_column_int64(row, column);

	return sqlite3_column_type(row, column) == SQLITE_NULL || !lw_load_is_time(at_ns)
		       ? LW_NS_UNKNOWN
		       : at_ns;
}

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
		.missing_bytes = sqlite3_column_int64(row, 10),
		.destination_qp = sqlite3_column_int64(row, 11),
		.capture_id = sqlite3_column_int64(row, 12),
		.capture_start_ns = time_of(row, 13),
		.capture_end_ns = time_of(row, 14),
		.first_ns = LW_NS_UNKNOWN,
		.last_ns = LW_NS_UNKNOWN,
		.clock = lw_load_clock(loader->store, lw_store_column_text(row, 15),
			lw_store_column_text(row, 16)),
		.is_whole = sqlite3_column_int(row, 17) != 0};

	if (flow.protocol && flow.source && flow.destination &&
		lw_vec_push(&loader->run->flows, flow) == LW_OK) {
		struct lw_packet_flow *added = &loader->run->flows.at[loader->run->flows.n - 1];

		added->is_roce = !strcmp(added->protocol, "roce");
		lw_load_flow_ranks(loader->names, added);
		return LW_OK;
	}
	free(flow.protocol);
	free(flow.source);
	free(flow.destination);
	return lw_fail(LW_ERR_NOMEM, "no memory");
}

/* ---- seen by several captures --------------------------------------------------------------------- */

/*
 * The same for every capture of it. Senders of RoCE choose source ports freely. What captures of one host each left of a
 * protocol may be the same packets, whatever their devices: which they were nobody knows.
 */
static int compare_identity(const struct lw_packet_flow *x, const struct lw_packet_flow *y)
{
	int by = x->is_other - y->is_other;

	if (!by && x->is_other)
		by = (x->clock > y->clock) - (x->clock < y->clock);
	if (!by)
		by = strcmp(x->protocol, y->protocol);
	if (!by)
		by = strcmp(x->source, y->source);
	if (!by)
		by = strcmp(x->destination, y->destination);
	if (!by)
		by = (x->destination_port > y->destination_port) -
		     (x->destination_port < y->destination_port);
	if (!by)
		by = (x->destination_qp > y->destination_qp) -
		     (x->destination_qp < y->destination_qp);
	if (!by && !x->is_roce)
		by = (x->source_port > y->source_port) - (x->source_port < y->source_port);
	return by;
}

static bool is_at_sender(const struct lw_run *run, const struct lw_packet_flow *flow)
{
	return flow->from_rank != LW_NONE && run->ranks.at[flow->from_rank].clock == flow->clock;
}

struct seen { /* a flow, and how good its capture is */
	struct lw_packet_flow *flow;
	bool is_at_sender;
	int64_t ns;
};

static int compare_seen(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;
	int by = compare_identity(x->flow, y->flow);

	if (!by)
		by = y->flow->is_whole - x->flow->is_whole;
	if (!by)
		by = y->is_at_sender - x->is_at_sender;
	if (!by)
		by = (y->ns > x->ns) - (y->ns < x->ns);
	if (!by)
		by = (x->flow > y->flow) - (x->flow < y->flow);
	return by;
}

/* One that did not say when it ended still ran, or died. */
static int64_t end_of(const struct lw_packet_flow *flow)
{
	return flow->capture_end_ns == LW_NS_UNKNOWN ? INT64_MAX : flow->capture_end_ns;
}

/* Captures of one host that followed each other saw other packets. */
static bool is_same_time(const struct lw_packet_flow *x, const struct lw_packet_flow *y)
{
	return x->clock != y->clock ||
	       (x->capture_start_ns < end_of(y) && y->capture_start_ns < end_of(x));
}

static bool is_same_capture(const struct lw_packet_flow *x, const struct lw_packet_flow *y)
{
	return x->store == y->store && x->capture_id == y->capture_id;
}

/* Of the better ones that count: a job has few captures. @by_clock: on its own clock. */
static bool is_repeat(const struct seen *first, const struct seen *one, bool by_clock)
{
	for (size_t i = 0; first < one && i < MAX_CAPTURES; first++, i++) {
		const struct lw_packet_flow *flow = first->flow;
		bool counts = by_clock ? !flow->is_clock_repeat && flow->clock == one->flow->clock
				       : !flow->is_repeat;

		if (counts && is_same_time(flow, one->flow) && !is_same_capture(flow, one->flow))
			return true;
	}
	return false;
}

static size_t mark_repeats(struct seen *seen, size_t n)
{
	size_t first = 0, n_repeats = 0;

	for (size_t i = 1; i < n; i++) {
		if (compare_identity(seen[first].flow, seen[i].flow))
			first = i;
		seen[i].flow->is_clock_repeat = is_repeat(&seen[first], &seen[i], true);
		seen[i].flow->is_repeat = is_repeat(&seen[first], &seen[i], false);
		n_repeats += seen[i].flow->is_repeat && !seen[i].flow->is_other;
	}
	return n_repeats;
}

static int64_t lasted_ns(const struct lw_packet_flow *flow)
{
	return flow->capture_start_ns == LW_NS_UNKNOWN ? 0 : end_of(flow) - flow->capture_start_ns;
}

static int find_repeats(struct lw_run *run)
{
	struct seen *seen = calloc(run->flows.n + 1, sizeof(*seen));
	struct lw_packet_flow *flow;
	size_t n = 0, n_repeats;

	if (!seen)
		return lw_fail(LW_ERR_NOMEM, "no memory for %zu flows", run->flows.n);
	lw_vec_foreach (flow, &run->flows)
		seen[n++] = (struct seen){flow, is_at_sender(run, flow), lasted_ns(flow)};
	qsort(seen, n, sizeof(*seen), compare_seen);
	n_repeats = mark_repeats(seen, n);
	free(seen);
	if (!n_repeats)
		return LW_OK;
	return lw_run_diag(run, "load", "captured several times", n_repeats,
		"packets of the same flows were captured several times (each recording with --pcap captures"
		" its whole host): each flow is counted once, as its sender's host saw it");
}

/* ---- milliseconds ------------------------------------------------------------------------------------ */

static uint64_t count(sqlite3_stmt *row, int column)
{
	int64_t value = sqlite3_column_int64(row, column);

	return value > 0 && value <= LW_LOAD_BYTES_MAX ? (uint64_t)value : 0;
}

/* A repeat is of use where it shows a rank's packets on the rank's clock, or in its own recording. */
static bool needs_bins(const struct lw_run *run, const struct lw_packet_flow *flow)
{
	const int32_t ends[] = {flow->from_rank, flow->to_rank};

	for (size_t i = 0; i < 2; i++)
		if (ends[i] != LW_NONE &&
			(!flow->is_repeat || run->ranks.at[ends[i]].store == flow->store ||
				(!flow->is_clock_repeat &&
					run->ranks.at[ends[i]].clock == flow->clock)))
			return true;
	return false;
}

/* Imported packets have the time of day. Times that contradict themselves are damage: a sum stays one. */
static void see_times(struct lw_packet_flow *flow, int64_t first_ns, int64_t last_ns)
{
	if (first_ns < 0 || last_ns < first_ns || last_ns - first_ns > LW_LOAD_TIME_MAX_NS)
		return;
	if (flow->first_ns == LW_NS_UNKNOWN || first_ns < flow->first_ns)
		flow->first_ns = first_ns;
	if (flow->last_ns == LW_NS_UNKNOWN || last_ns > flow->last_ns)
		flow->last_ns = last_ns;
}

/* Rows come by flow, in the order of its rows, then by time. */
static int add_bin(struct lw_loader *loader, sqlite3_stmt *row)
{
	struct lw_packet_bin bin = {sqlite3_column_int64(row, 1), count(row, 5), count(row, 6),
		count(row, 8), count(row, 9), count(row, 10)};
	struct lw_packet_flow *flow;
	uint64_t index = count(row, 0);

	if (!index || loader->first_flow + index > loader->run->flows.n || bin.bin_ns < 0) {
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
	flow->n_psn_gaps += bin.n_psn_gaps;
	flow->n_naks += bin.n_naks;
	see_times(flow, sqlite3_column_int64(row, 12), sqlite3_column_int64(row, 13));
	/* times of imported files are of another clock, beyond any uptime: their sums are all that is of use */
	if (!needs_bins(loader->run, flow) || !lw_load_is_time(bin.bin_ns) ||
		count(row, 11) > MAX_BIN_NS)
		return LW_OK;
	return lw_vec_push(&flow->bins, bin);
}

static const char flows_sql[] =
	"SELECT f.id, f.protocol, f.source_address, f.source_port, f.destination_address,"
	" f.destination_port, coalesce(f.process_id, 0), f.is_sent, coalesce(f.peer_process_id, 0),"
	" f.is_other, f.missing_bytes, coalesce(f.destination_qp, 0), f.capture_id,"
	" c.start_ns, c.end_ns, h.boot_id, h.clock, f.process_id IS NOT NULL OR c.source = 'file' FROM flow f"
	" LEFT JOIN capture c ON c.id = f.capture_id LEFT JOIN host h ON h.id = c.host_id ORDER BY f.id";

static const char bins_sql[] =
	"SELECT f.n, b.bin_ns, b.n_frames, b.frame_bytes, b.n_packets, b.wire_bytes, b.payload_bytes,"
	" b.repeated_bytes, b.n_retransmitted, b.n_psn_gaps, b.n_naks, b.last_ns - b.bin_ns,"
	" b.first_ns, b.last_ns FROM packet_bin b JOIN"
	" (SELECT id, row_number() OVER (ORDER BY id) AS n FROM flow) f ON f.id = b.flow_id"
	" ORDER BY f.n, b.bin_ns";

int lw_load_flows(struct lw_run *run, const struct lw_load_names *names)
{
	size_t *first_flows = calloc(run->stores.n + 1, sizeof(*first_flows));
	int status = first_flows ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory");

	for (size_t i = 0; i < run->stores.n && status == LW_OK; i++) {
		struct lw_loader loader = {
			.run = run, .store = run->stores.at[i], .store_index = i, .names = names};

		first_flows[i] = run->flows.n;
		status = lw_load_each(&loader, flows_sql, add_flow);
	}
	if (status == LW_OK)
		status = find_repeats(run);
	for (size_t i = 0; i < run->stores.n && status == LW_OK; i++) {
		struct lw_loader loader = {.run = run,
			.store = run->stores.at[i],
			.store_index = i,
			.first_flow = first_flows[i]};

		status = lw_load_each(&loader, bins_sql, add_bin);
		if (status == LW_OK)
			status = lw_load_bad_traffic(&loader);
	}
	free(first_flows);
	return status;
}
