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
	free(table->held);
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

struct lw_flow_key lw_flow_reverse(const struct lw_flow_key *key)
{
	struct lw_flow_key reverse = *key;

	memcpy(reverse.source, key->destination, 16);
	memcpy(reverse.destination, key->source, 16);
	reverse.source_port = key->destination_port;
	reverse.destination_port = key->source_port;
	return reverse;
}

static bool has_room(const struct lw_flow_table *table)
{
	return table->first_free || table->n < table->capacity;
}

static struct lw_flow *add_flow(
	struct lw_flow_table *table, uint32_t *slot, const struct lw_flow_key *key)
{
	uint32_t i = table->first_free ? table->first_free : table->n++, other;
	struct lw_flow *flow = &table->flows[i];
	struct lw_flow_key reverse;

	table->first_free = flow->next_free;
	memset(flow, 0, sizeof(*flow));
	flow->key = *key;
	flow->reverse = LW_FLOW_NONE;
	*slot = i + 1;
	if (key->is_roce)
		return flow;
	reverse = lw_flow_reverse(key);
	other = *find_slot(table, &reverse);
	if (other && other != *slot) {
		flow->reverse = other - 1;
		table->flows[other - 1].reverse = i;
	}
	return flow;
}

/* The slots behind it that were pushed on by it move up, so that no search ends too early. */
static void remove_slot(struct lw_flow_table *table, uint32_t *slot)
{
	uint32_t mask = table->slot_mask, hole = (uint32_t)(slot - table->slots), i = hole;

	for (;;) {
		uint32_t home;

		i = (i + 1) & mask;
		if (!table->slots[i])
			break;
		home = hash(table, &table->flows[table->slots[i] - 1].key) & mask;
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		table->slots[hole] = table->slots[i];
		hole = i;
	}
	table->slots[hole] = 0;
}

static void set_stranger(struct lw_flow_table *table, struct lw_flow *flow, bool is_stranger)
{
	table->n_strangers += is_stranger;
	table->n_strangers -= flow->is_stranger;
	flow->is_stranger = is_stranger;
}

void lw_flows_expect(struct lw_flow_table *table, const struct lw_flow_key *key)
{
	uint32_t *slot = find_slot(table, key);

	if (!*slot && has_room(table))
		add_flow(table, slot, key);
	if (!*slot)
		return;
	table->flows[*slot - 1].n_expected++;
	set_stranger(table, &table->flows[*slot - 1], false);
}

void lw_flows_forget(struct lw_flow_table *table, const struct lw_flow_key *key)
{
	uint32_t slot = *find_slot(table, key);

	if (!slot || !table->flows[slot - 1].n_expected)
		return; /* there was no room for it */
	if (--table->flows[slot - 1].n_expected == 0)
		set_stranger(table, &table->flows[slot - 1], true);
}

static void drop_flow(struct lw_flow_table *table, struct lw_flow *flow)
{
	remove_slot(table, find_slot(table, &flow->key));
	if (flow->reverse != LW_FLOW_NONE)
		table->flows[flow->reverse].reverse = LW_FLOW_NONE;
	set_stranger(table, flow, false);
	memset(flow, 0, sizeof(*flow));
	flow->is_free = true;
	flow->next_free = table->first_free;
	table->first_free = (uint32_t)(flow - table->flows);
}

void lw_flows_age(struct lw_flow_table *table, int64_t before_ns)
{
	for (uint32_t i = LW_FLOW_N_OTHER; i < table->n; i++) {
		struct lw_flow *flow = &table->flows[i];

		if (!flow->is_free && !flow->n_expected && flow->last_ns < before_ns &&
			!flow->bin.n_frames && !flow->second.n_frames && !flow->n_held &&
			!(flow->has_rows && flow->is_changed))
			drop_flow(table, flow);
	}
}

struct lw_flow *lw_flow_other(struct lw_flow_table *table, uint8_t protocol, bool is_roce)
{
	return &table->flows[is_roce                   ? LW_FLOW_OTHER_ROCE
			     : protocol == IPPROTO_TCP ? LW_FLOW_OTHER_TCP
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
	if (table->n_strangers >= (table->capacity - LW_FLOW_N_OTHER) / 4 * 3 || !has_room(table)) {
		table->n_other++;
		return lw_flow_other(table, packet->protocol, packet->is_roce);
	}
	flow = add_flow(table, slot, &key);
	set_stranger(table, flow, true);
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
static bool is_seen_elsewhere(struct lw_flow_table *table, struct lw_flow *flow,
	const struct lw_packet *packet, int64_t at_ns)
{
	struct lw_flow *at = flow;

	if (!packet->view || flow->is_other)
		return false;
	if (flow->view && packet->view != flow->view && at_ns - flow->view_ns < VIEW_NS) {
		if (table->held && !flow->n_expected && !flow->has_rows) /* and perhaps never */
			at = lw_flow_other(table, packet->protocol, packet->is_roce);
		at->n_elsewhere++;
		at->is_changed = true;
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

bool lw_flow_hand_out(
	struct lw_flow_table *table, struct lw_flow *flow, const struct lw_packet_bin *bin)
{
	if (!table->emit(table->user, bin))
		return false;
	flow->has_rows = true;
	flow->is_changed = true;
	return true;
}

/* The filter lets TCP and the port of RoCE pass by itself; all else was asked for by name. */
static bool was_asked_for(const struct lw_flow_key *key)
{
	return key->protocol != IPPROTO_TCP && key->protocol != 0 && !key->is_roce &&
	       key->source_port != LW_PORT_ROCE && key->destination_port != LW_PORT_ROCE;
}

/* Return: its bin was taken. */
static bool close_bin(struct lw_flow_table *table, struct lw_flow *flow)
{
	if (table->held && !flow->n_expected && !was_asked_for(&flow->key))
		lw_stranger_hold(table, flow);
	else if (!lw_flow_hand_out(table, flow, &flow->bin))
		return false;
	flow->bin.n_frames = 0;
	return true;
}

/* The bin for @at_ns: the open one, or a new one after that was handed out. */
static struct lw_packet_bin *open_bin(
	struct lw_flow_table *table, struct lw_flow *flow, int64_t at_ns)
{
	struct lw_packet_bin *bin = &flow->bin;
	int64_t bin_ns = at_ns - (at_ns % LW_BIN_NS + LW_BIN_NS) % LW_BIN_NS;

	if (bin->n_frames && bin->bin_ns != bin_ns)
		close_bin(table, flow);
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

	table->n_foreign += !flow->n_expected && packet->protocol == IPPROTO_TCP;
	if (at_ns > flow->last_ns)
		flow->last_ns = at_ns;
	if (is_seen_elsewhere(table, flow, packet, at_ns))
		return;
	bin = open_bin(table, flow, at_ns);
	if (!flow->has_packets && !flow->is_other)
		flow->source_port = packet->source_port;
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
		if (!close_bin(table, &table->flows[i]))
			return false;
	}
	return !table->held || lw_strangers_flush(table, before_ns);
}
