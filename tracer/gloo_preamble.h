/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo_preamble.h - finds Gloo's messages in one direction of a TCP connection.
 *
 * Gloo puts 48 bytes before every message: six little-endian 64-bit words, nbytes (preamble included),
 * opcode, slot, offset, length, roffset; the same in all versions since 2019. Bytes may come in any
 * pieces: a header cut in two, header and payload in one call, a payload over many calls.
 *
 * Pure: no clock, no memory of its own, no I/O. Not for: deciding which connections are Gloo's.
 */
#ifndef LAPWING_TRACER_GLOO_PREAMBLE_H
#define LAPWING_TRACER_GLOO_PREAMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LW_PREAMBLE_BYTES = 48, LW_PREAMBLE_GREETING_BYTES = 8 };

enum lw_preamble_opcode {
	LW_PREAMBLE_SEND_BUFFER = 0,
	LW_PREAMBLE_SEND_UNBOUND_BUFFER = 1,
	LW_PREAMBLE_NOTIFY_SEND_READY = 2,
	LW_PREAMBLE_NOTIFY_RECV_READY = 3
};

enum lw_preamble_progress {
	LW_PREAMBLE_MORE = 0, /* all bytes used, no message ended */
	LW_PREAMBLE_HEADER,   /* a message with a payload begins: its header is complete */
	LW_PREAMBLE_MESSAGE,  /* a message is complete */
	LW_PREAMBLE_GARBAGE   /* not Gloo's: this direction must not be fed again */
};

/* State of one direction; all zero = nothing seen yet. */
struct lw_preamble_stream {
	uint64_t words[LW_PREAMBLE_BYTES / 8]; /* the header, as far as it came */
	uint64_t remaining_bytes;              /* of the payload that is under way */
	uint64_t n_messages;                   /* complete so far */
	uint32_t n_header_bytes;               /* of words[] that are there, 0 to 48 */
	bool is_garbage;
	bool is_started; /* false until the first byte: the greeting may still come */
};

/** lw_preamble_opcode(), lw_preamble_slot(), lw_preamble_payload_bytes() - of the current message. */
static inline uint64_t lw_preamble_opcode(const struct lw_preamble_stream *stream)
{
	return stream->words[1];
}

static inline uint64_t lw_preamble_slot(const struct lw_preamble_stream *stream)
{
	return stream->words[2];
}

static inline uint64_t lw_preamble_payload_bytes(const struct lw_preamble_stream *stream)
{
	return stream->words[0] - LW_PREAMBLE_BYTES;
}

/**
 * lw_preamble_feed() - look at the next bytes of the connection.
 * @data: @n bytes as sent or received by one call; never written
 * @ret_used: bytes of them consumed, at least 1 unless n is 0; call again with the rest
 *
 * A first call of exactly 8 bytes is Gloo's greeting (the sequence number of newer versions) and is
 * passed over. Cost O(1) for each piece: payload is counted, not read.
 */
enum lw_preamble_progress lw_preamble_feed(
	struct lw_preamble_stream *stream, const void *data, size_t n, size_t *ret_used);

#endif /* LAPWING_TRACER_GLOO_PREAMBLE_H */
