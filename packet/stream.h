/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - what is new, sent again, out of order or missing in one direction of a connection.
 *
 * TCP by its sequence numbers, counted in 64 bits across their wraps; RoCE by its packet sequence
 * numbers (PSN, 24 bits). Both see what passed the tap, no more: a gap can be a loss before the tap
 * or a packet that the capture itself missed.
 */
#ifndef LAPWING_PACKET_STREAM_H
#define LAPWING_PACKET_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "packet/decode.h"

/* Without an IP id a late segment counts as reordered up to here, as sent again later: less than a
 * retransmission timeout, more than a network reorders (Wireshark draws the same line). */
#define LW_REORDER_NS INT64_C(3000000)

enum { LW_MAX_HOLES = 32 };

struct lw_tcp_hole {
	uint64_t start, end; /* sequence numbers that were jumped over */
	int64_t at_ns;       /* by a segment of this time */
	uint16_t ip_id;      /* and this IP id */
	bool has_ip_id;
};

struct lw_tcp_stream {
	bool has_any;
	uint32_t start_seq;        /* of the SYN or of the first segment seen */
	uint64_t first, next;      /* all that was seen lies in between */
	struct lw_tcp_hole before; /* all that lies before what was seen first */
	uint64_t missing_bytes;    /* in holes that nothing has filled */
	uint32_t n_holes;
	struct lw_tcp_hole
		holes[LW_MAX_HOLES]; /* oldest first; when full the oldest is forgotten */
};

/* What one segment brought. Sequence numbers of SYN and FIN count as no bytes. */
struct lw_tcp_news {
	bool is_retransmitted, is_out_of_order;
	uint32_t retransmitted_bytes; /* payload sent again, as far as can be told */
	uint32_t repeated_bytes;      /* payload that had been seen before */
};

/** lw_tcp_stream_add() - @packet is the next TCP segment of its direction, seen at @at_ns. */
struct lw_tcp_news lw_tcp_stream_add(
	struct lw_tcp_stream *stream, const struct lw_packet *packet, int64_t at_ns);

struct lw_psn_stream {
	bool has_any, may_jump; /* a READ request takes as many numbers as its answer has packets */
	uint32_t next;
};

struct lw_psn_news {
	bool is_gap, is_repeated;
};

/* Requests and answers of a queue pair count apart. */
struct lw_roce_stream {
	struct lw_psn_stream requests, responses;
};

/** lw_roce_stream_add() - @packet is the next RoCE packet to its queue pair from this source. */
struct lw_psn_news lw_roce_stream_add(
	struct lw_roce_stream *stream, const struct lw_packet *packet);

#endif /* LAPWING_PACKET_STREAM_H */
