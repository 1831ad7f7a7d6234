/* SPDX-License-Identifier: Apache-2.0 */
#include "packet/flow.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/address.h"
#include "base/err.h"

/* After this time without a packet a flow is counted at another interface (a bond that failed over). */
#define VIEW_NS INT64_C(1000000000)

enum { IPV4_TCP_BYTES = 20 + 20, IPV6_TCP_BYTES = 40 + 20 };

_Static_assert(sizeof(struct lw_flow_key) == 44, "compared as bytes");

/* ---- the table ------------------------------------------------------------------------------------ */

int lw_flows_open(struct lw_flow_table *table, uint32_t capacity,
	bool (*emit)(void *user, const struct lw_packet_bin *bin), void *user)
{
	uint32_t n_slots = 16;

	memset(table, 0, sizeof(*table));
	capacity += LW_FLOW_N_OTHER;
	while (n_slots < 2 * capacity)
		n_slots *= 2;
	/* Zeroed memory that nobody touches takes no room: a small job has a small table. */
	table->flows = calloc(capacity, sizeof(*table->flows));
	table->slots = calloc(n_slots, sizeof(*table->slots));
	if (!table->flows || !table->slots) {
		lw_flows_close(table);
		return lw_fail(LW_ERR_NOMEM, "no memory for %u flows", capacity);
	}
	table->capacity = capacity;
	table->slot_mask = n_slots - 1;
	table->emit = emit;
	table->user = user;
	/* Whoever sends packets must not be able to choose where they fall. */
	if (getrandom(&table->seed, sizeof(table->seed), GRND_NONBLOCK) < 0)
		table->seed = (uint64_t)(uintptr_t)table->flows;
	for (int i = 0; i < LW_FLOW_N_OTHER; i++) {
		struct lw_flow *flow = &table->flows[table->n++];

		flow->is_other = true;
		flow->reverse = LW_FLOW_NONE;
		flow->key.is_roce = i == LW_FLOW_OTHER_ROCE;
		flow->key.protocol = i == LW_FLOW_OTHER_TCP    ? IPPROTO_TCP
				     : i == LW_FLOW_OTHER_ROCE ? IPPROTO_UDP
							       : 0;
	}
	return LW_OK;
}

void lw_flows_close(struct lw_flow_table *table)
{
	free(table->flows);
	free(table->slots);
	memset(table, 0, sizeof(*table));
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	return x;
}

static uint32_t hash(const struct lw_flow_table *table, const struct lw_flow_key *key)
{
	uint64_t x = table->seed, words[6] = {0};

	memcpy(words, key, sizeof(*key));
	for (int i = 0; i < 6; i++)
		x = mix(x ^ words[i]) + UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(x ^ x >> 32);
}

/* Return: the slot of @key, or the free one where it belongs. There is always a free one. */
static uint32_t *find_slot(const struct lw_flow_table *table, const struct lw_flow_key *key)
{
	uint32_t i = hash(table, key) & table->slot_mask;

	while (table->slots[i] && memcmp(&table->flows[table->slots[i] - 1].key, key, sizeof(*key)))
		i = (i + 1) & table->slot_mask;
	return &table->slots[i];
}

static void reverse_key(const struct lw_flow_key *key, struct lw_flow_key *ret_reverse)
{
	*ret_reverse = *key;
	memcpy(ret_reverse->source, key->destination, 16);
	memcpy(ret_reverse->destination, key->source, 16);
	ret_reverse->source_port = key->destination_port;
	ret_reverse->destination_port = key->source_port;
}

static struct lw_flow *add_flow(
	struct lw_flow_table *table, uint32_t *slot, const struct lw_flow_key *key)
{
	struct lw_flow *flow = &table->flows[table->n];
	struct lw_flow_key reverse;
	uint32_t other;

	flow->key = *key;
	flow->source_port = key->source_port;
	flow->reverse = LW_FLOW_NONE;
	*slot = ++table->n;
	if (key->is_roce)
		return flow;
	reverse_key(key, &reverse);
	other = *find_slot(table, &reverse);
	if (other && other != *slot) {
		flow->reverse = other - 1;
		table->flows[other - 1].reverse = *slot - 1;
	}
	return flow;
}

void lw_flows_expect(struct lw_flow_table *table, const uint8_t local[16], uint16_t local_port,
	const uint8_t peer[16], uint16_t peer_port)
{
	struct lw_flow_key key = {
		.protocol = IPPROTO_TCP, .source_port = local_port, .destination_port = peer_port};
	struct lw_flow_key reverse;

	memcpy(key.source, local, 16);
	memcpy(key.destination, peer, 16);
	reverse_key(&key, &reverse);
	for (int i = 0; i < 2; i++) {
		uint32_t *slot = find_slot(table, i ? &reverse : &key);

		if (!*slot && table->n < table->capacity)
			add_flow(table, slot, i ? &reverse : &key);
		if (*slot)
			table->flows[*slot - 1].is_expected = true;
	}
}

static struct lw_flow *other_flow(struct lw_flow_table *table, const struct lw_packet *packet)
{
	table->n_other++;
	return &table->flows[packet->is_roce                   ? LW_FLOW_OTHER_ROCE
			     : packet->protocol == IPPROTO_TCP ? LW_FLOW_OTHER_TCP
							       : LW_FLOW_OTHER_REST];
}

static struct lw_flow *find_flow(struct lw_flow_table *table, const struct lw_packet *packet)
{
	struct lw_flow_key key = {.destination_qp = packet->roce.destination_qp,
		.source_port = packet->is_roce ? 0 : packet->source_port,
		.destination_port = packet->destination_port,
		.protocol = packet->protocol,
		.is_roce = packet->is_roce,
		.is_fragment = packet->is_fragment};
	struct lw_flow *flow;
	uint32_t *slot;

	memcpy(key.source, packet->source, 16);
	memcpy(key.destination, packet->destination, 16);
	slot = find_slot(table, &key);
	if (*slot)
		return &table->flows[*slot - 1];
	if (table->n_strangers >= (table->capacity - LW_FLOW_N_OTHER) / 4 * 3 ||
		table->n >= table->capacity)
		return other_flow(table, packet);
	table->n_strangers++;
	flow = add_flow(table, slot, &key);
	flow->source_port = packet->source_port;
	return flow;
}

/* ---- one packet -------------------------------------------------------------------------------------- */

/* Payload of a full segment with @options_bytes: what both ends offered, else what the device takes. */
static uint32_t find_segment(const struct lw_flow_table *table, const struct lw_flow *flow,
	const struct lw_packet *packet)
{
	uint32_t mss_bytes = flow->mss_bytes, headers_bytes;
	uint32_t other = flow->reverse == LW_FLOW_NONE ? 0 : table->flows[flow->reverse].mss_bytes;

	if (other && (!mss_bytes || other < mss_bytes))
		mss_bytes = other;
	headers_bytes = lw_address_is_v4(packet->source) ? IPV4_TCP_BYTES : IPV6_TCP_BYTES;
	if (!mss_bytes && table->mtu_bytes > headers_bytes)
		mss_bytes = table->mtu_bytes - headers_bytes;
	return mss_bytes > packet->tcp.options_bytes ? mss_bytes - packet->tcp.options_bytes : 0;
}

/* Is it the same packet at another interface (a bridge and its port, both ends of a veth)? */
static bool is_seen_elsewhere(struct lw_flow *flow, const struct lw_packet *packet, int64_t at_ns)
{
	if (!packet->view || flow->is_other)
		return false;
	if (flow->view && packet->view != flow->view && at_ns - flow->view_ns < VIEW_NS) {
		flow->n_elsewhere++;
		flow->is_changed = true;
		return true;
	}
	flow->view = packet->view;
	flow->view_ns = at_ns;
	return false;
}

static uint64_t n_segments(uint64_t bytes, uint32_t segment_bytes)
{
	return segment_bytes && bytes > segment_bytes ? (bytes + segment_bytes - 1) / segment_bytes
						      : 1;
}

static void add_tcp(struct lw_flow_table *table, struct lw_flow *flow,
	const struct lw_packet *packet, int64_t at_ns, struct lw_packet_bin *bin)
{
	struct lw_tcp_news news = {0};
	uint64_t n;

	if (packet->tcp.mss_bytes && !flow->is_other)
		flow->mss_bytes = packet->tcp.mss_bytes;
	if (packet->payload_bytes)
		flow->segment_bytes = find_segment(table, flow, packet);
	n = n_segments(packet->payload_bytes, flow->segment_bytes);
	bin->n_packets += n;
	bin->wire_bytes += packet->frame_bytes + (n - 1) * packet->header_bytes;
	if (!flow->is_other)
		news = lw_tcp_stream_add(&flow->tcp, packet, at_ns);
	if (news.is_retransmitted)
		bin->n_retransmitted += n_segments(news.retransmitted_bytes, flow->segment_bytes);
	bin->retransmitted_bytes += news.retransmitted_bytes;
	bin->repeated_bytes += news.repeated_bytes;
	bin->n_out_of_order += news.is_out_of_order;
}

static void add_roce(
	struct lw_flow *flow, const struct lw_packet *packet, struct lw_packet_bin *bin)
{
	struct lw_psn_news news;
	uint32_t i = 0;

	bin->n_naks += packet->roce.is_nak;
	if (flow->is_other)
		return;
	news = lw_roce_stream_add(&flow->roce, packet);
	bin->n_psn_gaps += news.is_gap;
	bin->n_retransmitted += news.is_repeated;
	bin->retransmitted_bytes += news.is_repeated ? packet->payload_bytes : 0;
	bin->repeated_bytes += news.is_repeated ? packet->payload_bytes : 0;
	while (i < flow->n_opcodes && flow->opcodes[i].opcode != packet->roce.opcode)
		i++;
	if (i == LW_FLOW_MAX_OPCODES)
		return;
	flow->n_opcodes += i == flow->n_opcodes;
	flow->opcodes[i].opcode = packet->roce.opcode;
	flow->opcodes[i].n_packets++;
	flow->opcodes[i].payload_bytes += packet->payload_bytes;
}

/* The bin for @at_ns: the open one, or a new one after that was handed out. */
static struct lw_packet_bin *open_bin(
	struct lw_flow_table *table, struct lw_flow *flow, int64_t at_ns)
{
	struct lw_packet_bin *bin = &flow->bin;
	int64_t bin_ns = at_ns - (at_ns % LW_BIN_NS + LW_BIN_NS) % LW_BIN_NS;

	if (bin->n_frames && bin->bin_ns != bin_ns && table->emit(table->user, bin))
		bin->n_frames = 0;
	if (!bin->n_frames)
		*bin = (struct lw_packet_bin){.flow = (uint32_t)(flow - table->flows),
			.bin_ns = bin_ns,
			.first_ns = at_ns,
			.last_ns = at_ns};
	if (at_ns < bin->first_ns) {
		bin->first_ns = at_ns;
		bin->bin_ns = bin_ns < bin->bin_ns ? bin_ns : bin->bin_ns;
	}
	if (at_ns > bin->last_ns)
		bin->last_ns = at_ns;
	return bin;
}

void lw_flows_add(struct lw_flow_table *table, const struct lw_packet *packet, int64_t at_ns)
{
	struct lw_flow *flow = find_flow(table, packet);
	struct lw_packet_bin *bin;

	table->n_foreign += !flow->is_expected && packet->protocol == IPPROTO_TCP;
	if (is_seen_elsewhere(flow, packet, at_ns))
		return;
	bin = open_bin(table, flow, at_ns);
	flow->has_packets = true;
	flow->is_changed = true;
	bin->n_frames++;
	bin->frame_bytes += packet->frame_bytes;
	bin->payload_bytes += packet->payload_bytes;
	bin->n_ce += packet->is_ce;
	if (packet->protocol == IPPROTO_TCP && !packet->is_fragment) {
		add_tcp(table, flow, packet, at_ns, bin);
		return;
	}
	bin->n_packets++;
	bin->wire_bytes += packet->frame_bytes;
	if (packet->is_roce)
		add_roce(flow, packet, bin);
}

bool lw_flows_flush(struct lw_flow_table *table, int64_t before_ns)
{
	for (uint32_t i = 0; i < table->n; i++) {
		struct lw_packet_bin *bin = &table->flows[i].bin;

		if (!bin->n_frames || bin->last_ns >= before_ns)
			continue;
		if (!table->emit(table->user, bin))
			return false;
		bin->n_frames = 0;
	}
	return true;
}
