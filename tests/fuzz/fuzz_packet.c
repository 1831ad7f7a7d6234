/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any packets, cut anywhere: no byte is read past, every packet is counted once, sums hold.
 *
 * Input: link type (index), room of the table (its high bits: strangers are summed; flows come and
 * go), then packets: bytes captured, further bytes on the wire (2), time passed since the one before
 * it (in 1/16 ms), the bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "packet/flow.h"
#include "packet/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct sums {
	uint64_t n_frames, payload_bytes, repeated_bytes, retransmitted_bytes;
	uint64_t n_elsewhere; /* of flows that were forgotten */
};

static bool add_up(void *user, const struct lw_packet_bin *bin)
{
	struct sums *sums = user;

	if (!bin->n_frames || bin->first_ns > bin->last_ns || bin->bin_ns > bin->first_ns ||
		bin->bin_ns % LW_BIN_NS || bin->n_packets < bin->n_frames ||
		bin->repeated_bytes > bin->payload_bytes ||
		bin->retransmitted_bytes > bin->payload_bytes || bin->wire_bytes < bin->frame_bytes)
		abort();
	sums->n_frames += bin->n_frames;
	sums->payload_bytes += bin->payload_bytes;
	sums->repeated_bytes += bin->repeated_bytes;
	return true;
}

/* Return: it was decoded and went to a flow, or @flows was told that it is seen elsewhere. */
static bool add_packet(struct lw_flow_table *flows, int link, const uint8_t *bytes,
	uint32_t n_captured, uint32_t n_wire, int64_t at_ns)
{
	uint8_t *exact = malloc(n_captured ? n_captured : 1); /* so that one byte too far is seen */
	enum lw_packet_status status;
	struct lw_packet packet;

	if (!exact)
		abort();
	memcpy(exact, bytes, n_captured);
	status = lw_packet_decode(link, exact, n_captured, n_wire, &packet);
	free(exact);
	if (status != LW_PACKET_OK)
		return false;
	if (packet.payload_bytes > n_wire || packet.header_bytes > packet.frame_bytes)
		abort();
	lw_flows_add(flows, &packet, at_ns);
	return true;
}

static uint64_t count_elsewhere(const struct lw_flow_table *flows)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < flows->n; i++)
		n += flows->flows[i].n_elsewhere;
	return n;
}

/* Flows become the job's and are given back; what is silent is forgotten. */
static void come_and_go(struct lw_flow_table *flows, int64_t at_ns, struct sums *sums)
{
	struct lw_packet_batch batch = {.end_ns = 0};
	struct lw_flow *last = &flows->flows[flows->n - 1];

	if (!last->is_other && !last->is_free) {
		struct lw_flow_key key = last->key;

		if (at_ns % 3 == 0)
			lw_flows_expect(flows, &key);
		else
			lw_flows_forget(flows, &key);
	}
	lw_flows_flush(flows, at_ns - LW_BIN_NS);
	if (lw_flows_states(flows, false, &batch) < 0)
		abort();
	lw_packet_batch_free(&batch);
	sums->n_elsewhere += count_elsewhere(flows);
	lw_flows_age(flows, at_ns - 4 * LW_BIN_NS);
	sums->n_elsewhere -= count_elsewhere(flows);
}

static void check_flows(
	const struct lw_flow_table *flows, uint64_t n_added, const struct sums *sums)
{
	for (uint32_t i = 0; i < flows->n; i++) {
		const struct lw_tcp_stream *stream = &flows->flows[i].tcp;
		uint64_t n_in_holes = 0;

		if (stream->n_holes > LW_MAX_HOLES ||
			stream->missing_bytes > stream->next - stream->first)
			abort();
		for (uint32_t k = 0; k < stream->n_holes; k++) {
			const struct lw_tcp_hole *hole = &stream->holes[k];

			if (hole->start >= hole->end || hole->end > stream->next)
				abort();
			n_in_holes += hole->end - hole->start;
		}
		if (n_in_holes > stream->missing_bytes)
			abort();
	}
	if (flows->n > flows->capacity ||
		sums->n_frames + sums->n_elsewhere + count_elsewhere(flows) != n_added)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const int links[] = {LW_LINK_ETHERNET, LW_LINK_SLL2, LW_LINK_SLL, LW_LINK_RAW,
		LW_LINK_NULL, LW_LINK_LOOP, LW_LINK_IPV4, LW_LINK_IPV6};
	struct lw_flow_table flows;
	struct sums sums = {0};
	uint64_t n_added = 0;
	int64_t at_ns = 0;
	int link;

	if (n < 2 || lw_flows_open(&flows, 4u + data[1] % 64, add_up, &sums) < 0)
		return 0;
	if (data[1] & 0x40 && lw_flows_sum_strangers(&flows) < 0)
		abort();
	link = links[data[0] % (sizeof(links) / sizeof(links[0]))];
	for (size_t at = 2; at + 4 <= n;) {
		uint32_t n_captured = data[at], n_wire;

		at_ns += (int8_t)data[at + 3] * (LW_BIN_NS / 16);
		n_wire = (uint32_t)data[at + 1] << 8 | data[at + 2];
		at += 4;
		n_captured = n_captured < n - at ? n_captured : (uint32_t)(n - at);
		n_added +=
			add_packet(&flows, link, data + at, n_captured, n_captured + n_wire, at_ns);
		at += n_captured;
		if (data[1] & 0x80)
			come_and_go(&flows, at_ns, &sums);
	}
	if (!lw_flows_flush(&flows, INT64_MAX))
		abort();
	check_flows(&flows, n_added, &sums);
	lw_flows_close(&flows);
	return 0;
}
