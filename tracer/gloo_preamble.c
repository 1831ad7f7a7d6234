/* SPDX-License-Identifier: Apache-2.0 */
/* gloo_preamble.c - see gloo_preamble.h; layout from gloo/transport/tcp/pair.h, struct Op. */
#include "tracer/gloo_preamble.h"

#include <string.h>

enum { WORD_NBYTES, WORD_OPCODE, WORD_SLOT, WORD_OFFSET, WORD_LENGTH, WORD_ROFFSET };

#define MESSAGE_MAX_BYTES (UINT64_C(1) << 40)
#define SLOT_PREFIX_MAX   15 /* gloo/types.h has 8 kinds of collective in the top byte */

static bool is_plausible(const uint64_t *words)
{
	uint64_t payload_bytes = words[WORD_NBYTES] - LW_PREAMBLE_BYTES;

	if (words[WORD_NBYTES] < LW_PREAMBLE_BYTES || words[WORD_NBYTES] > MESSAGE_MAX_BYTES ||
		words[WORD_SLOT] >> 56 > SLOT_PREFIX_MAX)
		return false;
	switch (words[WORD_OPCODE]) {
	case LW_PREAMBLE_SEND_BUFFER:
		return words[WORD_LENGTH] == payload_bytes;
	case LW_PREAMBLE_SEND_UNBOUND_BUFFER:
		return words[WORD_LENGTH] == 0 || words[WORD_LENGTH] == payload_bytes;
	case LW_PREAMBLE_NOTIFY_SEND_READY:
	case LW_PREAMBLE_NOTIFY_RECV_READY:
		return payload_bytes == 0;
	}
	return false;
}

static enum lw_preamble_progress end_message(struct lw_preamble_stream *stream)
{
	stream->n_header_bytes = 0;
	stream->n_messages++;
	return LW_PREAMBLE_MESSAGE;
}

enum lw_preamble_progress lw_preamble_feed(
	struct lw_preamble_stream *stream, const void *data, size_t n, size_t *ret_used)
{
	size_t part;

	*ret_used = n;
	if (stream->is_garbage)
		return LW_PREAMBLE_GARBAGE;
	if (!n)
		return LW_PREAMBLE_MORE;
	if (!stream->is_started) {
		stream->is_started = true;
		if (n == LW_PREAMBLE_GREETING_BYTES)
			return LW_PREAMBLE_MORE;
	}
	if (stream->n_header_bytes < LW_PREAMBLE_BYTES) {
		part = LW_PREAMBLE_BYTES - stream->n_header_bytes;
		if (part > n)
			part = n;
		memcpy((char *)stream->words + stream->n_header_bytes, data, part);
		stream->n_header_bytes += (uint32_t)part;
		*ret_used = part;
		if (stream->n_header_bytes < LW_PREAMBLE_BYTES)
			return LW_PREAMBLE_MORE;
		if (!is_plausible(stream->words)) {
			stream->is_garbage = true;
			return LW_PREAMBLE_GARBAGE;
		}
		stream->remaining_bytes = lw_preamble_payload_bytes(stream);
		return stream->remaining_bytes ? LW_PREAMBLE_HEADER : end_message(stream);
	}
	part = n < stream->remaining_bytes ? n : (size_t)stream->remaining_bytes;
	stream->remaining_bytes -= part;
	*ret_used = part;
	return stream->remaining_bytes ? LW_PREAMBLE_MORE : end_message(stream);
}
