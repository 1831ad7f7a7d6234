/* SPDX-License-Identifier: Apache-2.0 */
#include "packet/stream.h"

#include <string.h>

/* Farther than any window: another connection with the same ports whose SYN was not seen. */
#define MAX_JUMP (INT32_C(1) << 30)

enum { PSN_MASK = 0xffffff, PSN_HALF = 0x800000 };

static void start(struct lw_tcp_stream *stream, const struct lw_packet *packet, int64_t at_ns)
{
	uint32_t seq = packet->tcp.seq;

	stream->missing_bytes = 0;
	stream->n_holes = 0;
	stream->has_any = true;
	stream->start_seq = seq;
	/* above 2^32, so that a step back never goes below 0 */
	stream->first = stream->next = (UINT64_C(1) << 32) + seq;
	stream->before =
		(struct lw_tcp_hole){0, stream->first, at_ns, packet->ip_id, packet->has_ip_id};
}

static void add_hole(struct lw_tcp_stream *stream, struct lw_tcp_hole hole)
{
	if (stream->n_holes == LW_MAX_HOLES) {
		memmove(stream->holes, stream->holes + 1,
			(LW_MAX_HOLES - 1) * sizeof(stream->holes[0]));
		stream->n_holes--;
	}
	stream->holes[stream->n_holes++] = hole;
	stream->missing_bytes += hole.end - hole.start;
}

/* Takes [start, end) out of hole @i, which may leave nothing of it, less, or two. */
static void shrink_hole(
	struct lw_tcp_stream *stream, uint32_t i, uint64_t start_seq, uint64_t end_seq)
{
	struct lw_tcp_hole *hole = &stream->holes[i];
	struct lw_tcp_hole rest = *hole;

	rest.start = end_seq;
	hole->end = start_seq;
	if (hole->end > hole->start && rest.end > rest.start) {
		if (stream->n_holes < LW_MAX_HOLES) {
			memmove(hole + 2, hole + 1, (stream->n_holes - i - 1) * sizeof(*hole));
			hole[1] = rest;
			stream->n_holes++;
		} /* else the rest stays missing without being remembered */
	} else if (rest.end > rest.start) {
		*hole = rest;
	} else if (hole->end <= hole->start) {
		memmove(hole, hole + 1, (stream->n_holes - i - 1) * sizeof(*hole));
		stream->n_holes--;
	}
}

/* A sender numbers its packets: one with a lower id than the one that jumped ahead left before it. */
static bool was_overtaken(
	const struct lw_tcp_hole *hole, const struct lw_packet *packet, int64_t at_ns)
{
	if (hole->has_ip_id && packet->has_ip_id)
		return (int16_t)(uint16_t)(packet->ip_id - hole->ip_id) < 0;
	return at_ns - hole->at_ns < LW_REORDER_NS;
}

/* Fills what of the holes lies in [@start, @end). Return: sequence numbers filled. */
static uint64_t fill_holes(struct lw_tcp_stream *stream, uint64_t start_seq, uint64_t end_seq,
	const struct lw_packet *packet, int64_t at_ns, bool *ret_was_overtaken)
{
	uint64_t n_filled = 0;

	for (uint32_t i = stream->n_holes; i-- > 0;) {
		struct lw_tcp_hole *hole = &stream->holes[i];
		uint64_t from = start_seq > hole->start ? start_seq : hole->start;
		uint64_t to = end_seq < hole->end ? end_seq : hole->end;

		if (from >= to)
			continue;
		n_filled += to - from;
		*ret_was_overtaken = was_overtaken(hole, packet, at_ns);
		shrink_hole(stream, i, from, to);
	}
	stream->missing_bytes -= n_filled;
	return n_filled;
}

static uint32_t at_most(uint64_t n, uint32_t limit)
{
	return n < limit ? (uint32_t)n : limit;
}

/* What lies before all that was seen, up to @end_seq or there. What it leaves out is a hole then.
 * Return: sequence numbers of it. */
static uint64_t extend_back(struct lw_tcp_stream *stream, uint64_t start_seq, uint64_t end_seq)
{
	struct lw_tcp_hole *before = &stream->before, rest = *before;

	if (start_seq >= stream->first)
		return 0;
	rest.start = end_seq < stream->first ? end_seq : stream->first;
	if (rest.start < rest.end)
		add_hole(stream, rest);
	stream->first = before->end = start_seq;
	return rest.start - start_seq;
}

/* A segment that begins before what is next: sent again, overtaken, or both. */
static void add_old(struct lw_tcp_stream *stream, uint64_t seq, uint64_t end,
	const struct lw_packet *packet, int64_t at_ns, struct lw_tcp_news *news)
{
	uint64_t old_end = end < stream->next ? end : stream->next, n_old = old_end - seq, n_new;
	bool is_late = false;

	if (seq < stream->first)
		is_late = was_overtaken(&stream->before, packet, at_ns);
	n_new = extend_back(stream, seq, old_end);
	n_new += fill_holes(stream, seq, old_end, packet, at_ns, &is_late);
	if (is_late)
		news->is_out_of_order = true;
	if (!is_late || n_new < n_old)
		news->is_retransmitted = true;
	news->repeated_bytes = at_most(n_old - n_new, packet->payload_bytes);
	if (news->is_retransmitted)
		news->retransmitted_bytes =
			at_most(n_old - (is_late ? n_new : 0), packet->payload_bytes);
}

struct lw_tcp_news lw_tcp_stream_add(
	struct lw_tcp_stream *stream, const struct lw_packet *packet, int64_t at_ns)
{
	uint8_t flags = packet->tcp.flags;
	uint32_t length = packet->payload_bytes + !!(flags & LW_TCP_SYN) + !!(flags & LW_TCP_FIN);
	struct lw_tcp_news news = {0};
	uint64_t seq, end;
	int32_t ahead;

	if (!length || flags & LW_TCP_RST)
		return news;
	ahead = (int32_t)(packet->tcp.seq - (uint32_t)stream->next);
	if (!stream->has_any || ahead > MAX_JUMP || ahead < -MAX_JUMP ||
		(flags & LW_TCP_SYN && packet->tcp.seq != stream->start_seq)) {
		start(stream, packet, at_ns);
		ahead = 0;
	}
	seq = stream->next + (uint64_t)(int64_t)ahead;
	end = seq + length;
	if (seq > stream->next)
		add_hole(stream, (struct lw_tcp_hole){stream->next, seq, at_ns, packet->ip_id,
					 packet->has_ip_id});
	else if (seq < stream->next)
		add_old(stream, seq, end, packet, at_ns, &news);
	if (end > stream->next)
		stream->next = end;
	return news;
}

/* ---- RoCE -------------------------------------------------------------------------------------------- */

enum roce_role { ROLE_REQUEST, ROLE_READ_REQUEST, ROLE_RESPONSE_FIRST, ROLE_RESPONSE, ROLE_NONE };

static enum roce_role role_of(uint8_t opcode)
{
	uint8_t service = opcode >> 5, operation = opcode & 31;

	/* reliable and unreliable connections and XRC number their packets for one peer */
	if (service != 0 && service != 1 && service != 5)
		return ROLE_NONE;
	switch (operation) {
	case 12:
		return ROLE_READ_REQUEST;
	case 13:
	case 16:
		return ROLE_RESPONSE_FIRST;
	case 14:
	case 15:
		return ROLE_RESPONSE;
	case 17: /* one acknowledgement stands for several, and repeats the number of its request */
	case 18:
		return ROLE_NONE;
	default:
		return ROLE_REQUEST;
	}
}

static struct lw_psn_news add_psn(struct lw_psn_stream *stream, uint32_t psn)
{
	struct lw_psn_news news = {false, false};
	uint32_t ahead = (psn - stream->next) & PSN_MASK;

	if (!stream->has_any || (ahead && ahead < PSN_HALF && stream->may_jump))
		ahead = 0;
	if (ahead >= PSN_HALF) {
		news.is_repeated = true;
		return news;
	}
	news.is_gap = ahead > 0;
	stream->has_any = true;
	stream->may_jump = false;
	stream->next = (psn + 1) & PSN_MASK;
	return news;
}

struct lw_psn_news lw_roce_stream_add(struct lw_roce_stream *stream, const struct lw_packet *packet)
{
	enum roce_role role = role_of(packet->roce.opcode);
	struct lw_psn_news news = {false, false};

	switch (role) {
	case ROLE_NONE:
		break;
	case ROLE_RESPONSE_FIRST:
		stream->responses.may_jump = true; /* the requests in between took the others */
		news = add_psn(&stream->responses, packet->roce.psn);
		break;
	case ROLE_RESPONSE:
		news = add_psn(&stream->responses, packet->roce.psn);
		break;
	case ROLE_REQUEST:
	case ROLE_READ_REQUEST:
		news = add_psn(&stream->requests, packet->roce.psn);
		stream->requests.may_jump |= role == ROLE_READ_REQUEST && !news.is_repeated;
		break;
	}
	return news;
}
