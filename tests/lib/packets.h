/* SPDX-License-Identifier: Apache-2.0 */
/* packets.h - packets made by hand for tests of the decoder: headers with real checks of length only. */
#ifndef LAPWING_TESTS_LIB_PACKETS_H
#define LAPWING_TESTS_LIB_PACKETS_H

#include <stdint.h>
#include <string.h>

struct bytes {
	uint8_t at[512];
	uint32_t n;
	uint32_t n_wire; /* payload that is not there comes on top */
};

static inline void put(struct bytes *b, const void *at, uint32_t n)
{
	memcpy(b->at + b->n, at, n);
	b->n += n;
	b->n_wire += n;
}

static inline void put8(struct bytes *b, uint32_t value)
{
	put(b, (const uint8_t[]){(uint8_t)value}, 1);
}

static inline void put16(struct bytes *b, uint32_t value)
{
	put(b, (const uint8_t[]){(uint8_t)(value >> 8), (uint8_t)value}, 2);
}

static inline void put32(struct bytes *b, uint32_t value)
{
	put16(b, value >> 16);
	put16(b, value & 0xffff);
}

static inline void put_zeros(struct bytes *b, uint32_t n)
{
	while (n--)
		put8(b, 0);
}

static inline void put_ethernet(struct bytes *b, uint32_t type)
{
	put_zeros(b, 12);
	put16(b, type);
}

/* 10.0.0.@from to 10.0.0.@to; @n: bytes behind this header */
static inline void put_ipv4(
	struct bytes *b, uint32_t protocol, uint32_t n, uint32_t id, uint32_t from, uint32_t to)
{
	put16(b, 0x4500);
	put16(b, 20 + n > 65535 ? 0 : 20 + n);
	put16(b, id);
	put16(b, 0x4000);
	put8(b, 64);
	put8(b, protocol);
	put16(b, 0);
	put32(b, 0x0a000000 + from);
	put32(b, 0x0a000000 + to);
}

static inline void put_ipv6(struct bytes *b, uint32_t next, uint32_t n)
{
	put32(b, 0x60000000);
	put16(b, n);
	put8(b, next);
	put8(b, 64);
	put32(b, 0xfd000000);
	put_zeros(b, 11);
	put8(b, 1);
	put32(b, 0xfd000000);
	put_zeros(b, 11);
	put8(b, 2);
}

struct segment {
	uint32_t seq, flags, payload_bytes, mss_bytes, id, from, to, from_port, to_port;
};

static inline void put_tcp(struct bytes *b, const struct segment *s)
{
	put16(b, s->from_port);
	put16(b, s->to_port);
	put32(b, s->seq);
	put32(b, 0);
	put8(b, s->mss_bytes ? 0x60 : 0x50);
	put8(b, s->flags);
	put_zeros(b, 6);
	if (s->mss_bytes) {
		put16(b, 0x0204);
		put16(b, s->mss_bytes);
	}
	b->n_wire += s->payload_bytes;
}

static inline struct bytes tcp_frame(const struct segment *s)
{
	struct bytes b = {{0}, 0, 0};

	put_ethernet(&b, 0x0800);
	put_ipv4(&b, 6, 20 + (s->mss_bytes ? 4 : 0) + s->payload_bytes, s->id, s->from, s->to);
	put_tcp(&b, s);
	return b;
}

/* A RoCEv2 packet of 10.0.0.@from to 10.0.0.@to; @n_extended: bytes of headers behind the BTH */
static inline struct bytes roce_frame(uint32_t from, uint32_t to, uint32_t opcode, uint32_t qp,
	uint32_t psn, uint32_t n_extended, uint32_t payload_bytes)
{
	uint32_t pad = -payload_bytes & 3, n = 8 + 12 + n_extended + payload_bytes + pad + 4;
	struct bytes b = {{0}, 0, 0};

	put_ethernet(&b, 0x0800);
	put_ipv4(&b, 17, n, 7, from, to);
	put16(&b, 49152);
	put16(&b, 4791);
	put16(&b, n);
	put16(&b, 0);
	put8(&b, opcode);
	put8(&b, pad << 4);
	put16(&b, 0xffff);
	put32(&b, qp);
	put32(&b, psn);
	put_zeros(&b, n_extended);
	b.n_wire += payload_bytes + pad + 4;
	return b;
}

#endif /* LAPWING_TESTS_LIB_PACKETS_H */
