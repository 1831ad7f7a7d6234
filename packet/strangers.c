/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strangers.c - flows that are not the job's: a row a second for those that move much, one for all the rest.
 *
 * A capture sees a whole host. What others do on it is told as coarsely as it can matter to the job,
 * so that the file neither fills with it nor says who talked to whom at which millisecond. A
 * connection of the job is announced a little after its first packets: bins wait for a second before
 * they are summed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "packet/flow.h"

enum { MAX_HELD = 1 << 14 }; /* beyond it the oldest wait no longer */

/* Bins of one second are closed after it at the latest by this time. */
#define SETTLED_NS (LW_STRANGER_NS / 5)

static int64_t second_of(int64_t at_ns)
{
	return at_ns - (at_ns % LW_STRANGER_NS + LW_STRANGER_NS) % LW_STRANGER_NS;
}

int lw_flows_sum_strangers(struct lw_flow_table *table)
{
	table->held = calloc(MAX_HELD, sizeof(*table->held));
	return table->held ? LW_OK : lw_fail(LW_ERR_NOMEM, "no memory for bins");
}

/* ---- seconds --------------------------------------------------------------------------------------- */

static bool close_second(struct lw_flow_table *table, struct lw_flow *flow);

/* Adds @bin to the second of @flow. A late one counts in the one that is open: seconds only go on. */
static void add_to_second(
	struct lw_flow_table *table, struct lw_flow *flow, const struct lw_packet_bin *bin)
{
	struct lw_packet_bin *sum = &flow->second;

	if (sum->n_frames && second_of(bin->first_ns) > second_of(sum->last_ns))
		close_second(table, flow); /* if it is not taken it goes on growing */
	if (!sum->n_frames)
		*sum = (struct lw_packet_bin){.flow = (uint32_t)(flow - table->flows),
			.bin_ns = second_of(bin->first_ns),
			.first_ns = bin->first_ns,
			.last_ns = bin->last_ns};
	if (bin->first_ns < sum->first_ns) {
		sum->first_ns = bin->first_ns;
		sum->bin_ns = second_of(bin->first_ns);
	}
	if (bin->last_ns > sum->last_ns)
		sum->last_ns = bin->last_ns;
	sum->n_frames += bin->n_frames;
	sum->frame_bytes += bin->frame_bytes;
	sum->n_packets += bin->n_packets;
	sum->wire_bytes += bin->wire_bytes;
	sum->payload_bytes += bin->payload_bytes;
	sum->n_retransmitted += bin->n_retransmitted;
	sum->retransmitted_bytes += bin->retransmitted_bytes;
	sum->repeated_bytes += bin->repeated_bytes;
	sum->n_out_of_order += bin->n_out_of_order;
	sum->n_psn_gaps += bin->n_psn_gaps;
	sum->n_naks += bin->n_naks;
	sum->n_ce += bin->n_ce;
}

static bool is_worth_a_row(struct lw_flow_table *table, const struct lw_flow *flow)
{
	if (flow->is_other || flow->n_expected)
		return true;
	if (flow->second.bin_ns > table->rows_ns) {
		table->rows_ns = flow->second.bin_ns;
		table->n_rows = 0;
	}
	return flow->second.wire_bytes >= LW_STRANGER_BYTES && table->n_rows < LW_STRANGER_ROWS;
}

/* Return: taken, as a row of its own or as a part of the rest. */
static bool close_second(struct lw_flow_table *table, struct lw_flow *flow)
{
	if (is_worth_a_row(table, flow)) {
		if (!lw_flow_hand_out(table, flow, &flow->second))
			return false;
		table->n_rows += !flow->is_other;
	} else {
		add_to_second(table, lw_flow_other(table, flow->key.protocol, flow->key.is_roce),
			&flow->second);
	}
	flow->second.n_frames = 0;
	return true;
}

/* ---- bins that wait --------------------------------------------------------------------------------- */

/* The oldest: whose is it by now? Return: gone from the ring. */
static bool release_one(struct lw_flow_table *table, bool must)
{
	struct lw_packet_bin *bin = &table->held[table->first_held];
	struct lw_flow *flow = &table->flows[bin->flow];

	if (!flow->n_expected)
		add_to_second(table, flow, bin);
	else if (!lw_flow_hand_out(table, flow, bin)) {
		if (!must)
			return false;
		add_to_second(table, flow, bin);
	}
	flow->n_held--;
	table->first_held = (table->first_held + 1) % MAX_HELD;
	table->n_held--;
	return true;
}

void lw_stranger_hold(struct lw_flow_table *table, struct lw_flow *flow)
{
	if (flow->is_other) { /* it will never be the job's */
		add_to_second(table, flow, &flow->bin);
		return;
	}
	if (table->n_held == MAX_HELD)
		release_one(table, true);
	table->held[(table->first_held + table->n_held++) % MAX_HELD] = flow->bin;
	flow->n_held++;
}

static bool is_over(const struct lw_flow *flow, int64_t before_ns)
{
	return flow->second.n_frames && second_of(flow->second.last_ns) < before_ns;
}

bool lw_strangers_flush(struct lw_flow_table *table, int64_t before_ns)
{
	bool is_last = before_ns == INT64_MAX;
	int64_t held_ns = is_last ? INT64_MAX : before_ns - LW_STRANGER_NS;
	int64_t over_ns = is_last ? INT64_MAX : held_ns - LW_STRANGER_NS - SETTLED_NS;

	while (table->n_held && table->held[table->first_held].last_ns < held_ns)
		if (!release_one(table, false))
			return false;
	for (uint32_t i = LW_FLOW_N_OTHER; i < table->n; i++)
		if (is_over(&table->flows[i], over_ns) && !close_second(table, &table->flows[i]))
			return false;
	for (uint32_t i = 0; i < LW_FLOW_N_OTHER; i++) /* these last: the others go in here */
		if (is_over(&table->flows[i], over_ns) && !close_second(table, &table->flows[i]))
			return false;
	return true;
}
