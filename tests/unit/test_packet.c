/* SPDX-License-Identifier: Apache-2.0 */
/* Packets decoded: what each link, IP version and option does to ports and payload, and what lies do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "packet/decode.h"
#include "tests/lib/packets.h"

static struct lw_packet decode(const struct bytes *b, int link, enum lw_packet_status expected)
{
	struct lw_packet packet;

	assert_int_equal(lw_packet_decode(link, b->at, b->n, b->n_wire, &packet), expected);
	return packet;
}

static const struct segment usual = {.seq = 1000,
	.flags = 16,
	.payload_bytes = 1448,
	.id = 5,
	.from = 1,
	.to = 2,
	.from_port = 40000,
	.to_port = 80};

static void an_ethernet_frame_gives_both_ends_and_its_payload(void **state)
{
	struct bytes b = tcp_frame(&usual);
	struct lw_packet packet = decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK);

	(void)state;
	assert_int_equal(packet.source[15], 1);
	assert_int_equal(packet.source[11], 0xff);
	assert_int_equal(packet.destination[15], 2);
	assert_int_equal(packet.source_port, 40000);
	assert_int_equal(packet.destination_port, 80);
	assert_int_equal(packet.payload_bytes, 1448);
	assert_int_equal(packet.frame_bytes, 14 + 40 + 1448);
	assert_int_equal(packet.header_bytes, 54);
	assert_int_equal(packet.tcp.seq, 1000);
	assert_true(packet.has_ip_id);
	assert_int_equal(packet.ip_id, 5);
}

static void padding_of_a_short_frame_is_no_payload(void **state)
{
	struct segment ack = usual;
	struct bytes b;

	(void)state;
	ack.payload_bytes = 0;
	b = tcp_frame(&ack);
	put_zeros(&b, 6);
	assert_int_equal(decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK).payload_bytes, 0);
	assert_int_equal(decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK).frame_bytes, 60);
}

static void vlan_tags_are_skipped_and_endless_ones_refused(void **state)
{
	for (int n_tags = 1; n_tags < 7; n_tags++) {
		struct bytes b = {{0}, 0, 0};

		put_ethernet(&b, 0x88a8);
		for (int i = 1; i < n_tags; i++)
			put32(&b, 0x00018100);
		put32(&b, 0x00010800);
		put_ipv4(&b, 6, 20 + 10, 1, 1, 2);
		put_tcp(&b, &(struct segment){.payload_bytes = 10});
		if (n_tags > 4)
			decode(&b, LW_LINK_ETHERNET, LW_PACKET_BAD);
		else
			assert_int_equal(
				decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK).payload_bytes, 10);
	}
	(void)state;
}

static void cooked_links_tell_the_interface_and_count_an_ethernet_header(void **state)
{
	struct bytes b = {{0}, 0, 0}, c = {{0}, 0, 0};
	struct lw_packet packet;

	(void)state;
	put16(&b, 0x0800); /* SLL2 */
	put16(&b, 0);
	put32(&b, 7); /* interface */
	put16(&b, 1);
	put8(&b, 4); /* outgoing */
	put8(&b, 6);
	put_zeros(&b, 8);
	put_ipv4(&b, 6, 20 + 100, 1, 1, 2);
	put_tcp(&b, &(struct segment){.payload_bytes = 100});
	packet = decode(&b, LW_LINK_SLL2, LW_PACKET_OK);
	assert_int_equal(packet.view, 7 << 4 | 5);
	assert_int_equal(packet.frame_bytes, 14 + 40 + 100);
	put16(&c, 4); /* SLL */
	put16(&c, 1);
	put_zeros(&c, 10);
	put16(&c, 0x0800);
	put_ipv4(&c, 6, 20 + 100, 1, 1, 2);
	put_tcp(&c, &(struct segment){.payload_bytes = 100});
	packet = decode(&c, LW_LINK_SLL, LW_PACKET_OK);
	assert_int_equal(packet.view, 5);
	assert_int_equal(packet.frame_bytes, 14 + 40 + 100);
}

static void ipv6_extension_headers_are_walked_to_the_ports(void **state)
{
	struct bytes b = {{0}, 0, 0};
	struct lw_packet packet;

	(void)state;
	put_ipv6(&b, 0, 8 + 24 + 12 + 20 + 77);
	put8(&b, 43); /* hop by hop, then routing */
	put8(&b, 0);
	put_zeros(&b, 6);
	put8(&b, 51); /* routing, then authentication */
	put8(&b, 2);
	put_zeros(&b, 22);
	put8(&b, 6); /* authentication of 12 bytes, then TCP */
	put8(&b, 1);
	put_zeros(&b, 10);
	put_tcp(&b, &(struct segment){.from_port = 5, .payload_bytes = 77});
	packet = decode(&b, LW_LINK_RAW, LW_PACKET_OK);
	assert_int_equal(packet.source_port, 5);
	assert_int_equal(packet.payload_bytes, 77);
	assert_int_equal(packet.source[0], 0xfd);
}

static void a_chain_of_headers_without_end_is_refused(void **state)
{
	struct bytes b = {{0}, 0, 0};

	(void)state;
	put_ipv6(&b, 60, 400);
	for (int i = 0; i < 50; i++) {
		put8(&b, 60);
		put_zeros(&b, 7);
	}
	decode(&b, LW_LINK_IPV6, LW_PACKET_BAD);
}

static void later_fragments_have_no_ports(void **state)
{
	struct bytes b = {{0}, 0, 0}, c = {{0}, 0, 0};
	struct lw_packet packet;

	(void)state;
	put_ipv4(&b, 17, 400, 1, 1, 2);
	b.at[6] = 0x20;
	b.at[7] = 0x10; /* offset 128, more come */
	b.n_wire += 400;
	packet = decode(&b, LW_LINK_RAW, LW_PACKET_OK);
	assert_true(packet.is_fragment);
	assert_int_equal(packet.source_port, 0);
	assert_int_equal(packet.payload_bytes, 400);
	put_ipv6(&c, 44, 8 + 400);
	put8(&c, 17);
	put8(&c, 0);
	put16(&c, 0x0101);
	put32(&c, 99);
	c.n_wire += 400;
	packet = decode(&c, LW_LINK_RAW, LW_PACKET_OK);
	assert_true(packet.is_fragment);
	assert_int_equal(packet.protocol, 17);
}

static void big_tcp_has_no_length_and_ends_with_its_frame(void **state)
{
	struct segment big = usual;
	struct bytes b;

	(void)state;
	big.payload_bytes = 180000;
	b = tcp_frame(&big);
	assert_int_equal(decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK).payload_bytes, 180000);
}

static void lengths_that_lie_are_refused(void **state)
{
	struct bytes b = tcp_frame(&usual);

	(void)state;
	b.at[14 + 2] = 0xff; /* IP: longer than the frame */
	decode(&b, LW_LINK_ETHERNET, LW_PACKET_BAD);
	b = tcp_frame(&usual);
	b.at[14] = 0x44; /* IP: a header of 16 bytes */
	decode(&b, LW_LINK_ETHERNET, LW_PACKET_BAD);
	b = tcp_frame(&usual);
	b.at[14 + 20 + 12] = 0x40; /* TCP: a header of 16 bytes */
	decode(&b, LW_LINK_ETHERNET, LW_PACKET_BAD);
	b = tcp_frame(&(struct segment){.payload_bytes = 3});
	b.at[14 + 20 + 12] = 0xf0; /* TCP: a header longer than the packet */
	decode(&b, LW_LINK_ETHERNET, LW_PACKET_BAD);
	b = tcp_frame(&usual);
	b.n_wire = b.n; /* the file says that nothing was left out */
	decode(&b, LW_LINK_ETHERNET, LW_PACKET_BAD);
}

static void every_cut_is_noticed_and_none_is_read_past(void **state)
{
	struct bytes b = tcp_frame(&usual);

	(void)state;
	for (uint32_t n = 0; n < b.n; n++) {
		struct bytes cut = {.n = n, .n_wire = b.n_wire};
		struct lw_packet packet;

		memcpy(cut.at, b.at, n);
		assert_int_equal(lw_packet_decode(LW_LINK_ETHERNET, cut.at, n, b.n_wire, &packet),
			LW_PACKET_CUT);
		assert_int_equal(packet.frame_bytes, b.n_wire);
	}
}

static void options_of_a_syn_offer_a_segment_size(void **state)
{
	static const uint8_t lies[][8] = {{2, 0, 5, 180}, {2, 1, 5, 180}, {2, 9, 5, 180},
		{2, 3, 5, 180}, {1, 1, 1, 2}, {0, 2, 4, 5}};
	struct segment syn = {.flags = 2, .mss_bytes = 1460};
	struct bytes b = tcp_frame(&syn);

	(void)state;
	assert_int_equal(decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK).tcp.mss_bytes, 1460);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		memcpy(b.at + b.n - 4, lies[i], 4);
		assert_int_equal(decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK).tcp.mss_bytes, 0);
	}
}

static void roce_gives_queue_pair_number_and_payload(void **state)
{
	struct bytes b = roce_frame(1, 2, 10, 0x123456, 0xabcdef, 16, 1021); /* WRITE ONLY */
	struct lw_packet packet = decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK);

	(void)state;
	assert_true(packet.is_roce);
	assert_int_equal(packet.roce.destination_qp, 0x123456);
	assert_int_equal(packet.roce.psn, 0xabcdef);
	assert_int_equal(packet.roce.opcode, 10);
	assert_int_equal(packet.payload_bytes, 1021);
	b = roce_frame(1, 2, 17, 5, 6, 4, 0);
	b.at[14 + 20 + 8 + 12] = 0x60; /* refused: a number is missing */
	assert_true(decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK).roce.is_nak);
	b.at[14 + 20 + 8 + 12] = 0x1f;
	assert_false(decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK).roce.is_nak);
	b = roce_frame(1, 2, 0x64, 5, 6, 8, 256); /* UD SEND ONLY */
	assert_int_equal(decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK).payload_bytes, 256);
	b = roce_frame(1, 2, 0x81, 5, 0, 16, 0);
	assert_int_equal(decode(&b, LW_LINK_ETHERNET, LW_PACKET_OK).payload_bytes, 0);
}

static void what_is_not_ip_is_nobodys(void **state)
{
	struct bytes b = {{0}, 0, 0};

	(void)state;
	put_ethernet(&b, 0x0806);
	put_zeros(&b, 46);
	decode(&b, LW_LINK_ETHERNET, LW_PACKET_OTHER);
	decode(&b, 9999, LW_PACKET_OTHER);
	assert_false(lw_packet_knows_link(9999));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ethernet_frame_gives_both_ends_and_its_payload),
		cmocka_unit_test(padding_of_a_short_frame_is_no_payload),
		cmocka_unit_test(vlan_tags_are_skipped_and_endless_ones_refused),
		cmocka_unit_test(cooked_links_tell_the_interface_and_count_an_ethernet_header),
		cmocka_unit_test(ipv6_extension_headers_are_walked_to_the_ports),
		cmocka_unit_test(a_chain_of_headers_without_end_is_refused),
		cmocka_unit_test(later_fragments_have_no_ports),
		cmocka_unit_test(big_tcp_has_no_length_and_ends_with_its_frame),
		cmocka_unit_test(lengths_that_lie_are_refused),
		cmocka_unit_test(every_cut_is_noticed_and_none_is_read_past),
		cmocka_unit_test(options_of_a_syn_offer_a_segment_size),
		cmocka_unit_test(roce_gives_queue_pair_number_and_payload),
		cmocka_unit_test(what_is_not_ip_is_nobodys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
