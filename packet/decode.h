/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - one captured packet: who sent what to whom, from its headers alone.
 *
 * Ethernet (with VLAN tags), Linux cooked (SLL, SLL2), loopback and raw IP; IPv4 and IPv6 with
 * extension headers and fragments; TCP, UDP, and RoCEv2 (UDP 4791) down to its transport header.
 * Nothing of a payload is looked at. No byte is believed: every length is held against what was
 * captured and against what was on the wire.
 */
#ifndef LAPWING_PACKET_DECODE_H
#define LAPWING_PACKET_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a packet that decoding needs: SLL2, two VLAN tags, IPv6 with one extension header, TCP
 * with all its options. A longer chain of headers is counted as cut. */
enum { LW_PACKET_SNAP_BYTES = 20 + 8 + 40 + 8 + 60 };

enum { LW_PORT_ROCE = 4791 };

/* DLT_ numbers of libpcap, which this file does without. */
enum lw_link_type {
	LW_LINK_NULL = 0,
	LW_LINK_ETHERNET = 1,
	LW_LINK_RAW = 12,
	LW_LINK_LOOP = 108,
	LW_LINK_SLL = 113,
	LW_LINK_RAW_FILE = 101, /* LINKTYPE_RAW, as a file may have it */
	LW_LINK_IPV4 = 228,
	LW_LINK_IPV6 = 229,
	LW_LINK_SLL2 = 276,
};

enum lw_packet_status {
	LW_PACKET_OK,
	LW_PACKET_OTHER, /* not IP: no flow of ours */
	LW_PACKET_CUT,   /* more headers than were captured */
	LW_PACKET_BAD,   /* headers that contradict themselves or the packet */
};

enum { LW_TCP_FIN = 1, LW_TCP_SYN = 2, LW_TCP_RST = 4, LW_TCP_ACK = 16 };

struct lw_packet {
	uint8_t source[16], destination[16];    /* IPv6, or IPv4 mapped into it */
	uint16_t source_port, destination_port; /* 0 where there is none */
	uint8_t protocol;                       /* IPPROTO_* */
	bool is_fragment; /* not the first one: its ports are not known, they are 0 */
	bool is_ce;       /* the network marked it: congestion experienced (ECN) */
	bool has_ip_id;   /* IPv4 with an id that is not 0 */
	uint16_t ip_id;
	uint32_t view;        /* through which interface and way it was seen; 0 = always the same */
	uint32_t frame_bytes; /* as seen, with its link header; cooked ones count 14 for that */
	uint32_t header_bytes;  /* before the payload, of each packet that this one stands for */
	uint32_t payload_bytes; /* of TCP, UDP or RoCE; without padding and checksums behind it */
	struct {
		uint32_t seq;
		uint8_t flags;         /* LW_TCP_* */
		uint8_t options_bytes; /* of this segment */
		uint16_t mss_bytes;    /* option of a SYN, 0 = none */
	} tcp;
	bool is_roce;
	struct {
		uint32_t destination_qp, psn; /* 24 bits each */
		uint8_t opcode;
		bool is_nak; /* an acknowledgement that refuses: a packet was missing, or not ready */
	} roce;
};

/**
 * lw_packet_decode() - decode @n_captured bytes of a packet of @n_wire bytes.
 * @link_type: DLT_ of the capture
 * Return: what became of it; *@ret_packet holds as much as could be decoded, and frame_bytes always.
 */
enum lw_packet_status lw_packet_decode(int link_type, const uint8_t *bytes, uint32_t n_captured,
	uint32_t n_wire, struct lw_packet *ret_packet);

/** lw_packet_knows_link() - can packets of this DLT_ be decoded? */
bool lw_packet_knows_link(int link_type);

/** lw_roce_header_bytes() - of the extended headers behind the BTH that @opcode brings. */
uint32_t lw_roce_header_bytes(uint8_t opcode);

#endif /* LAPWING_PACKET_DECODE_H */
