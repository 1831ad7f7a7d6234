/* SPDX-License-Identifier: Apache-2.0 */
#include "packet/decode.h"

#include <netinet/in.h>
#include <string.h>

#include "base/address.h"

enum { ETHERNET_BYTES = 14, IPV4_BYTES = 20, IPV6_BYTES = 40, TCP_BYTES = 20, UDP_BYTES = 8 };
enum { MAX_VLAN_TAGS = 4, MAX_EXTENSIONS = 8 };
enum { ETHERTYPE_IPV4 = 0x0800, ETHERTYPE_IPV6 = 0x86dd };
enum { ECN_MASK = 3, ECN_CE = 3 };

/* What is left of the packet: @n bytes are there, @n_wire were sent. */
struct cursor {
	const uint8_t *at;
	uint32_t n, n_wire;
};

static uint16_t be16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t be24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

static uint32_t be32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | be24(at + 1);
}

static void skip(struct cursor *c, uint32_t n)
{
	c->at += n < c->n ? n : c->n;
	c->n -= n < c->n ? n : c->n;
	c->n_wire -= n < c->n_wire ? n : c->n_wire;
}

/* Are @n bytes there? What is missing here was cut by the capture, or was never sent. */
static enum lw_packet_status need(const struct cursor *c, uint32_t n)
{
	if (c->n >= n)
		return LW_PACKET_OK;
	return c->n_wire >= n ? LW_PACKET_CUT : LW_PACKET_BAD;
}

/* ---- link layer ---------------------------------------------------------------------------------- */

/* Skips VLAN tags. *@type: the Ethernet type, of the inmost packet in the end. */
static enum lw_packet_status skip_vlan(struct cursor *c, uint16_t *type)
{
	for (int i = 0; *type == 0x8100 || *type == 0x88a8 || *type == 0x9100; i++) {
		enum lw_packet_status status = need(c, 4);

		if (status)
			return status;
		if (i == MAX_VLAN_TAGS)
			return LW_PACKET_BAD;
		*type = be16(c->at + 2);
		skip(c, 4);
	}
	return LW_PACKET_OK;
}

/* Return: the Ethernet type that the first half-byte of an IP header means, 0 = none. */
static uint16_t type_of_ip(const struct cursor *c)
{
	return c->n && c->at[0] >> 4 == 4   ? ETHERTYPE_IPV4
	       : c->n && c->at[0] >> 4 == 6 ? ETHERTYPE_IPV6
					    : 0;
}

/* Loopback headers hold an AF_ of the capturing system in either byte order: the IP version decides. */
static enum lw_packet_status skip_raw(struct cursor *c, uint32_t n, uint16_t *type)
{
	enum lw_packet_status status = need(c, n);

	skip(c, n);
	*type = type_of_ip(c);
	return status;
}

static const struct link {
	int type;
	uint8_t header_bytes;
	int8_t type_at;         /* offset of its Ethernet type, -1 = the IP version says it */
	bool is_cooked;         /* no Ethernet header, but there was one on the wire */
	int8_t view_at, way_at; /* offsets of interface index and packet type, -1 = none */
} links[] = {
	{LW_LINK_ETHERNET, ETHERNET_BYTES, 12, false, -1, -1},
	{LW_LINK_SLL, 16, 14, true, -1, 1},
	{LW_LINK_SLL2, 20, 0, true, 4, 10},
	{LW_LINK_NULL, 4, -1, false, -1, -1},
	{LW_LINK_LOOP, 4, -1, false, -1, -1},
	{LW_LINK_RAW, 0, -1, false, -1, -1},
	{LW_LINK_RAW_FILE, 0, -1, false, -1, -1},
	{LW_LINK_IPV4, 0, -1, false, -1, -1},
	{LW_LINK_IPV6, 0, -1, false, -1, -1},
};

static const struct link *find_link(int type)
{
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		if (links[i].type == type)
			return &links[i];
	return NULL;
}

bool lw_packet_knows_link(int link_type)
{
	return find_link(link_type) != NULL;
}

static enum lw_packet_status skip_link(
	const struct link *link, struct cursor *c, uint16_t *type, struct lw_packet *packet)
{
	enum lw_packet_status status;

	if (link->is_cooked) /* frames count as long as their interface counts them */
		packet->frame_bytes = c->n_wire > link->header_bytes
					      ? c->n_wire - link->header_bytes + ETHERNET_BYTES
					      : 0;
	if (link->type_at < 0)
		return skip_raw(c, link->header_bytes, type);
	status = need(c, link->header_bytes);
	if (status)
		return status;
	*type = be16(c->at + link->type_at);
	/* 1 more than the interface and the way, so that 0 stays "not known" */
	if (link->way_at >= 0)
		packet->view = (c->at[link->way_at] & 7u) + 1;
	if (link->view_at >= 0)
		packet->view |= be32(c->at + link->view_at) << 4;
	skip(c, link->header_bytes);
	return skip_vlan(c, type);
}

/* ---- IP -------------------------------------------------------------------------------------------- */

/* The packet ends where its IP header says; what the link layer put behind it is no payload. A length
 * of 0 is one that does not fit (BIG TCP): then it ends with the frame. Longer than the frame: a lie. */
static enum lw_packet_status set_end(struct cursor *c, uint32_t n, uint32_t header_bytes)
{
	if (n == 0)
		return LW_PACKET_OK;
	if (n < header_bytes || n > c->n_wire)
		return LW_PACKET_BAD;
	c->n_wire = n;
	if (c->n > n)
		c->n = n;
	return LW_PACKET_OK;
}

static enum lw_packet_status skip_ipv4(struct cursor *c, struct lw_packet *packet)
{
	enum lw_packet_status status = need(c, IPV4_BYTES);
	uint32_t header_bytes;
	uint16_t fragment;

	if (status)
		return status;
	header_bytes = (c->at[0] & 15u) * 4;
	if (c->at[0] >> 4 != 4 || header_bytes < IPV4_BYTES)
		return LW_PACKET_BAD;
	status = set_end(c, be16(c->at + 2), header_bytes);
	if (status)
		return status;
	fragment = be16(c->at + 6);
	packet->is_ce = (c->at[1] & ECN_MASK) == ECN_CE;
	packet->ip_id = be16(c->at + 4);
	packet->has_ip_id = packet->ip_id != 0;
	packet->is_fragment = (fragment & 0x1fff) != 0;
	packet->protocol = c->at[9];
	lw_address_map(c->at + 12, packet->source);
	lw_address_map(c->at + 16, packet->destination);
	status = need(c, header_bytes);
	skip(c, header_bytes);
	return status;
}

/* The extension headers that may stand before TCP or UDP. Return: its length in bytes, 0 = none. */
static uint32_t extension_bytes(uint8_t kind, const uint8_t *at)
{
	switch (kind) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
	case 135: /* mobility */
	case 139: /* HIP */
	case 140: /* shim6 */
		return (at[1] + 1u) * 8;
	case IPPROTO_FRAGMENT:
		return 8;
	case IPPROTO_AH:
		return (at[1] + 2u) * 4;
	default:
		return 0;
	}
}

static enum lw_packet_status skip_ipv6(struct cursor *c, struct lw_packet *packet)
{
	enum lw_packet_status status = need(c, IPV6_BYTES);
	uint32_t n;

	if (status)
		return status;
	if (c->at[0] >> 4 != 6)
		return LW_PACKET_BAD;
	n = be16(c->at + 4); /* 0: a jumbogram, or none behind it */
	packet->is_ce = (c->at[1] >> 4 & ECN_MASK) == ECN_CE;
	packet->protocol = c->at[6];
	memcpy(packet->source, c->at + 8, 16);
	memcpy(packet->destination, c->at + 24, 16);
	status = set_end(c, n ? n + IPV6_BYTES : 0, IPV6_BYTES);
	if (status)
		return status;
	skip(c, IPV6_BYTES);
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		uint8_t kind = packet->protocol;

		if (kind != IPPROTO_AH && !extension_bytes(kind, (const uint8_t[2]){0, 0}))
			return LW_PACKET_OK;
		status = need(c, 8);
		if (status)
			return status;
		n = extension_bytes(kind, c->at);
		packet->protocol = c->at[0];
		if (kind == IPPROTO_FRAGMENT)
			packet->is_fragment = (be16(c->at + 2) & 0xfff8) != 0;
		status = need(c, n);
		skip(c, n);
		if (status || packet->is_fragment)
			return status;
	}
	return LW_PACKET_BAD; /* a chain without an end */
}

/* ---- TCP, UDP, RoCE ------------------------------------------------------------------------------ */

/* The segment size that a SYN offers. Options that lie about their length end the search. */
static uint16_t find_mss(const uint8_t *at, uint32_t n)
{
	for (uint32_t i = 0; i < n && at[i] != 0;) {
		uint32_t length;

		if (at[i] == 1) {
			i++;
			continue;
		}
		if (i + 1 >= n)
			break;
		length = at[i + 1];
		if (length < 2 || i + length > n)
			break;
		if (at[i] == 2 && length == 4)
			return be16(at + i + 2);
		i += length;
	}
	return 0;
}

static enum lw_packet_status decode_tcp(struct cursor *c, struct lw_packet *packet)
{
	enum lw_packet_status status = need(c, TCP_BYTES);
	uint32_t header_bytes, n_options;

	if (status)
		return status;
	header_bytes = (c->at[12] >> 4) * 4u;
	if (header_bytes < TCP_BYTES || header_bytes > c->n_wire)
		return LW_PACKET_BAD;
	packet->source_port = be16(c->at);
	packet->destination_port = be16(c->at + 2);
	packet->tcp.seq = be32(c->at + 4);
	packet->tcp.flags = c->at[13];
	packet->tcp.options_bytes = (uint8_t)(header_bytes - TCP_BYTES);
	n_options = (c->n < header_bytes ? c->n : header_bytes) - TCP_BYTES;
	if (packet->tcp.flags & LW_TCP_SYN)
		packet->tcp.mss_bytes = find_mss(c->at + TCP_BYTES, n_options);
	skip(c, header_bytes); /* of options only the segment size is read: cut ones do no harm */
	return LW_PACKET_OK;
}

/* Of the headers behind the BTH, by the lower 5 bits of the opcode (IBA 9.2.1); 0xff = reserved. */
static const uint8_t roce_extended_bytes[32] = {
	[3] = 4,   /* SEND LAST with immediate */
	[5] = 4,   /* SEND ONLY with immediate */
	[6] = 16,  /* WRITE FIRST: RETH */
	[9] = 4,   /* WRITE LAST with immediate */
	[10] = 16, /* WRITE ONLY */
	[11] = 20, /* WRITE ONLY with immediate */
	[12] = 16, /* READ request */
	[13] = 4,  /* READ response first: AETH */
	[15] = 4,
	[16] = 4,
	[17] = 4,  /* acknowledge */
	[18] = 12, /* atomic acknowledge */
	[19] = 28, /* compare and swap */
	[20] = 28, /* fetch and add */
	[22] = 4,  /* SEND LAST with invalidate */
	[23] = 4,  /* SEND ONLY with invalidate */
};
enum { ROCE_ACK = 17, ROCE_CNP = 0x81, BTH_BYTES = 12, ICRC_BYTES = 4, CNP_BYTES = 16 };

uint32_t lw_roce_header_bytes(uint8_t opcode)
{
	uint32_t service = opcode >> 5, extra = 0;

	if (opcode == ROCE_CNP)
		return CNP_BYTES;
	if (service == 3) /* unreliable datagram: DETH */
		extra = 8;
	else if (service == 2) /* reliable datagram: RDETH and DETH */
		extra = 12;
	else if (service == 5) /* XRC: XRCETH */
		extra = 4;
	return roce_extended_bytes[opcode & 31] + extra;
}

static void decode_roce(struct cursor *c, struct lw_packet *packet)
{
	uint32_t headers_bytes, pad_bytes;

	if (c->n < BTH_BYTES || c->n_wire < BTH_BYTES + ICRC_BYTES)
		return; /* UDP to this port, but no RoCE */
	packet->is_roce = true;
	packet->roce.opcode = c->at[0];
	packet->roce.destination_qp = be24(c->at + 5);
	packet->roce.psn = be24(c->at + 9);
	headers_bytes = BTH_BYTES + lw_roce_header_bytes(c->at[0]);
	pad_bytes = c->at[1] >> 4 & 3;
	/* AETH: the two bits behind the first are 0 for an acknowledgement, anything else refuses */
	if ((c->at[0] & 31) == ROCE_ACK && c->at[0] >> 5 != 3 && c->n > BTH_BYTES)
		packet->roce.is_nak = (c->at[BTH_BYTES] >> 5 & 3) != 0;
	packet->payload_bytes = c->n_wire > headers_bytes + ICRC_BYTES + pad_bytes
					? c->n_wire - headers_bytes - ICRC_BYTES - pad_bytes
					: 0;
}

static enum lw_packet_status decode_udp(struct cursor *c, struct lw_packet *packet)
{
	enum lw_packet_status status = need(c, UDP_BYTES);
	uint32_t n;

	if (status)
		return status;
	packet->source_port = be16(c->at);
	packet->destination_port = be16(c->at + 2);
	/* Of a first fragment, or of several merged into one, the rest of the packet is what counts. */
	n = be16(c->at + 4);
	if (n && n < UDP_BYTES)
		return LW_PACKET_BAD;
	skip(c, UDP_BYTES);
	packet->payload_bytes = c->n_wire;
	if (packet->destination_port == LW_PORT_ROCE)
		decode_roce(c, packet);
	return LW_PACKET_OK;
}

/* ---- all of it -------------------------------------------------------------------------------------- */

static enum lw_packet_status decode_transport(struct cursor *c, struct lw_packet *packet)
{
	enum lw_packet_status status = LW_PACKET_OK;

	packet->payload_bytes = c->n_wire;
	if (packet->is_fragment)
		return LW_PACKET_OK;
	if (packet->protocol == IPPROTO_TCP) {
		status = decode_tcp(c, packet);
		packet->payload_bytes = status ? 0 : c->n_wire;
	} else if (packet->protocol == IPPROTO_UDP) {
		status = decode_udp(c, packet);
	}
	return status;
}

enum lw_packet_status lw_packet_decode(int link_type, const uint8_t *bytes, uint32_t n_captured,
	uint32_t n_wire, struct lw_packet *ret_packet)
{
	const struct link *link = find_link(link_type);
	struct cursor c = {bytes, n_captured, n_wire};
	enum lw_packet_status status;
	uint16_t type = 0;

	memset(ret_packet, 0, sizeof(*ret_packet));
	if (c.n > c.n_wire) /* a file that lies */
		c.n_wire = c.n;
	ret_packet->frame_bytes = c.n_wire;
	if (!link)
		return LW_PACKET_OTHER;
	status = skip_link(link, &c, &type, ret_packet);
	if (status)
		return status;
	if (type == ETHERTYPE_IPV4)
		status = skip_ipv4(&c, ret_packet);
	else if (type == ETHERTYPE_IPV6)
		status = skip_ipv6(&c, ret_packet);
	else
		return LW_PACKET_OTHER;
	if (status == LW_PACKET_OK)
		status = decode_transport(&c, ret_packet);
	if (status)
		return status;
	/* All that is neither payload nor padding: what each packet of a merged one had. */
	ret_packet->header_bytes = ret_packet->frame_bytes > ret_packet->payload_bytes
					   ? ret_packet->frame_bytes - ret_packet->payload_bytes
					   : 0;
	return LW_PACKET_OK;
}
