/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow.h - who sent how much to whom: packets summed by flow (one direction) and millisecond.
 *
 * Memory is fixed when the table is opened. Flows beyond its room are summed by protocol as "other";
 * nothing is dropped. A full bin goes to @emit; a receiver that cannot take it now says so, and the
 * bin grows beyond its millisecond (first_ns and last_ns tell) instead of being lost.
 */
#ifndef LAPWING_PACKET_FLOW_H
#define LAPWING_PACKET_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "packet/decode.h"
#include "packet/stream.h"

#define LW_BIN_NS INT64_C(1000000)

enum { LW_FLOWS_DEFAULT = 8192 };
enum { LW_FLOW_OTHER_TCP, LW_FLOW_OTHER_ROCE, LW_FLOW_OTHER_REST, LW_FLOW_N_OTHER };
enum { LW_FLOW_MAX_OPCODES = 12 };
enum { LW_FLOW_NONE = UINT32_MAX };

struct lw_flow_key { /* without padding: compared as bytes */
	uint8_t source[16], destination[16];
	uint32_t destination_qp; /* RoCE, else 0 */
	uint16_t source_port;    /* 0 for RoCE, where senders choose it freely */
	uint16_t destination_port;
	uint8_t protocol, is_roce, is_fragment, zero;
};

struct lw_packet_bin {
	uint32_t flow;                  /* index in the table */
	int64_t bin_ns;                 /* start of the millisecond */
	int64_t first_ns, last_ns;      /* of its packets */
	uint64_t n_frames, frame_bytes; /* as seen at the tap: merged by the host (GSO, GRO) */
	uint64_t n_packets,
		wire_bytes; /* as on the wire: merged ones divided by the segment size */
	uint64_t payload_bytes;
	uint64_t n_retransmitted, retransmitted_bytes;
	uint64_t repeated_bytes; /* payload that this capture had seen before */
	uint64_t n_out_of_order, n_psn_gaps, n_naks, n_ce;
};

struct lw_flow_opcode {
	uint8_t opcode;
	uint64_t n_packets, payload_bytes;
};

struct lw_flow {
	struct lw_flow_key key;
	uint16_t source_port; /* of its first packet */
	bool is_other, has_packets;
	bool is_expected;           /* lw_flows_expect() */
	bool is_changed, is_stored; /* lw_flows_states(): since it, by it */
	uint16_t mss_bytes;         /* that its own SYN offered; 0 = not seen */
	uint32_t reverse;           /* index of the other direction, LW_FLOW_NONE */
	uint32_t segment_bytes;     /* payload of a full segment; 0 = not known */
	uint32_t view;              /* it is counted where it was seen first */
	int64_t view_ns;            /* last time there */
	uint64_t n_elsewhere;       /* packets seen in other places, not counted */
	struct lw_tcp_stream tcp;
	struct lw_roce_stream roce;
	struct lw_flow_opcode opcodes[LW_FLOW_MAX_OPCODES];
	uint32_t n_opcodes;       /* further ones are only in the bins */
	struct lw_packet_bin bin; /* n_frames = 0: none open */
};

struct lw_flow_table {
	struct lw_flow *flows; /* the first LW_FLOW_N_OTHER are the "other" ones */
	uint32_t n, capacity, n_strangers;
	uint32_t *slots; /* index + 1 by hash, 0 = free */
	uint32_t slot_mask;
	uint64_t seed;
	uint32_t mtu_bytes; /* of the device, for flows whose start was not seen; 0 = not known */
	uint64_t n_other;   /* packets in the "other" flows for want of room */
	uint64_t n_foreign; /* TCP packets of flows that nobody expected */
	/* Return: taken. Then the bin is closed. */
	bool (*emit)(void *user, const struct lw_packet_bin *bin);
	void *user;
};

/**
 * lw_flows_open() - room for @capacity flows, of which a quarter is kept for lw_flows_expect().
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_flows_open(struct lw_flow_table *table, uint32_t capacity,
	bool (*emit)(void *user, const struct lw_packet_bin *bin), void *user);
void lw_flows_close(struct lw_flow_table *table);

/** lw_flows_expect() - both directions of a TCP connection get a place that strangers cannot take. */
void lw_flows_expect(struct lw_flow_table *table, const uint8_t local[16], uint16_t local_port,
	const uint8_t peer[16], uint16_t peer_port);

/** lw_flows_add() - @packet, decoded and seen at @at_ns. */
void lw_flows_add(struct lw_flow_table *table, const struct lw_packet *packet, int64_t at_ns);

/** lw_flows_flush() - hand out open bins whose last packet came before @before_ns. Return: all were taken. */
bool lw_flows_flush(struct lw_flow_table *table, int64_t before_ns);

#endif /* LAPWING_PACKET_FLOW_H */
