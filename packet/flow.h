/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow.h - who sent how much to whom: packets summed by flow (one direction) and millisecond.
 *
 * Memory is fixed when the table is opened. Flows beyond its room are summed by protocol as "other";
 * nothing is dropped. A full bin goes to @emit; a receiver that cannot take it now says so, and the
 * bin grows beyond its millisecond (first_ns and last_ns tell) instead of being lost.
 *
 * With lw_flows_sum_strangers() only flows that were expected keep their milliseconds (strangers.c).
 */
#ifndef LAPWING_PACKET_FLOW_H
#define LAPWING_PACKET_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "packet/decode.h"
#include "packet/stream.h"

#define LW_BIN_NS      INT64_C(1000000)
#define LW_STRANGER_NS INT64_C(1000000000) /* a bin of a flow that is not the job's */

/* On the wire in that time: with less a stranger has no rows of its own. */
enum { LW_STRANGER_BYTES = 64 << 10 };
enum { LW_STRANGER_ROWS = 256 }; /* of strangers in that time; beyond them the rest is summed */

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
	int64_t bin_ns;                 /* start of the millisecond, or of a stranger's second */
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
	bool is_other, is_free, has_packets;
	bool is_stranger;           /* it takes a place of theirs */
	bool has_rows;              /* a bin of it was handed out */
	bool is_changed, is_stored; /* lw_flows_states(): since it, by it */
	uint32_t n_expected;        /* lw_flows_expect() less lw_flows_forget() */
	uint32_t next_free;         /* index, 0 = none */
	uint16_t mss_bytes;         /* that its own SYN offered; 0 = not seen */
	uint32_t reverse;           /* index of the other direction, LW_FLOW_NONE */
	uint32_t segment_bytes;     /* payload of a full segment; 0 = not known */
	uint32_t view;              /* it is counted where it was seen first */
	int64_t view_ns;            /* last time there */
	uint64_t n_elsewhere;       /* packets seen in other places, not counted */
	int64_t last_ns;            /* of all its packets; 0 = none */
	struct lw_tcp_stream tcp;
	struct lw_roce_stream roce;
	struct lw_flow_opcode opcodes[LW_FLOW_MAX_OPCODES];
	uint32_t n_opcodes;       /* further ones are only in the bins */
	struct lw_packet_bin bin; /* n_frames = 0: none open */
	/* strangers.c */
	struct lw_packet_bin second; /* n_frames = 0: none open */
	uint32_t n_held;             /* bins in table->held */
};

struct lw_flow_table {
	struct lw_flow *flows; /* the first LW_FLOW_N_OTHER are the "other" ones */
	uint32_t n, capacity, n_strangers;
	uint32_t first_free; /* index of a flow below n that was forgotten, 0 = none */
	uint32_t *slots;     /* index + 1 by hash, 0 = free */
	uint32_t slot_mask;
	uint64_t seed;
	uint32_t mtu_bytes; /* of the device, for flows whose start was not seen; 0 = not known */
	uint64_t n_other;   /* packets in the "other" flows for want of room */
	uint64_t n_foreign; /* TCP packets of flows that nobody expected */
	/* strangers.c; held NULL: strangers are like others */
	struct lw_packet_bin *held; /* a ring: bins of flows that may turn out to be the job's */
	uint32_t first_held, n_held;
	int64_t rows_ns; /* the latest second that strangers have rows of, and how many */
	uint32_t n_rows;
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

/**
 * lw_flows_sum_strangers() - flows that nobody expects are handed out by the second, with few bytes only
 * as a part of "other", unless they are neither TCP nor RoCE: those somebody asked for by name.
 * Their milliseconds wait for a second, in case that they are expected then.
 * Return: LW_OK or LW_ERR_NOMEM.
 */
int lw_flows_sum_strangers(struct lw_flow_table *table);

/** lw_flows_expect() - the flow of @key gets a place that strangers cannot take. As often as it is told. */
void lw_flows_expect(struct lw_flow_table *table, const struct lw_flow_key *key);

/** lw_flows_forget() - takes one lw_flows_expect() back. */
void lw_flows_forget(struct lw_flow_table *table, const struct lw_flow_key *key);

/** lw_flow_reverse() - the key of the other direction of a TCP connection. */
struct lw_flow_key lw_flow_reverse(const struct lw_flow_key *key);

/** lw_flows_add() - @packet, decoded and seen at @at_ns. */
void lw_flows_add(struct lw_flow_table *table, const struct lw_packet *packet, int64_t at_ns);

/** lw_flows_flush() - hand out open bins whose last packet came before @before_ns. Return: all were taken. */
bool lw_flows_flush(struct lw_flow_table *table, int64_t before_ns);

/**
 * lw_flows_age() - forget flows that nobody expects and that were silent since @before_ns. Their indexes
 * are given to others: no bin of theirs may be on its way to lw_packet_rows_put() but in earlier batches.
 */
void lw_flows_age(struct lw_flow_table *table, int64_t before_ns);

/* ---- between flow.c and strangers.c ------------------------------------------------------------- */

/** lw_flow_hand_out() - @bin of @flow to the receiver. Return: taken. */
bool lw_flow_hand_out(
	struct lw_flow_table *table, struct lw_flow *flow, const struct lw_packet_bin *bin);

/** lw_flow_other() - where @flow counts when it has no rows of its own. */
struct lw_flow *lw_flow_other(struct lw_flow_table *table, uint8_t protocol, bool is_roce);

/** lw_stranger_hold() - a closed bin of a flow that is not expected. */
void lw_stranger_hold(struct lw_flow_table *table, struct lw_flow *flow);

/** lw_strangers_flush() - what is older than it has to wait. Return: all was taken. */
bool lw_strangers_flush(struct lw_flow_table *table, int64_t before_ns);

#endif /* LAPWING_PACKET_FLOW_H */
