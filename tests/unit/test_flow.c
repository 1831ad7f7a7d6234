/* SPDX-License-Identifier: Apache-2.0 */
/* Flows: what was sent again, out of order or never seen, over wraps; bins; bounded memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "packet/flow.h"
#include "tests/lib/packets.h"

struct totals {
	struct lw_packet_bin all;
	uint64_t n_bins, n_refusals;
	bool is_full;
	int64_t last_bin_ns;
};

static bool add_up(void *user, const struct lw_packet_bin *bin)
{
	struct totals *t = user;

	if (t->is_full) {
		t->n_refusals++;
		return false;
	}
	t->n_bins++;
	t->last_bin_ns = bin->bin_ns;
	t->all.n_frames += bin->n_frames;
	t->all.n_packets += bin->n_packets;
	t->all.wire_bytes += bin->wire_bytes;
	t->all.payload_bytes += bin->payload_bytes;
	t->all.n_retransmitted += bin->n_retransmitted;
	t->all.retransmitted_bytes += bin->retransmitted_bytes;
	t->all.repeated_bytes += bin->repeated_bytes;
	t->all.n_out_of_order += bin->n_out_of_order;
	t->all.n_psn_gaps += bin->n_psn_gaps;
	return true;
}

static void add(struct lw_flow_table *table, const struct bytes *b, int64_t at_ns)
{
	struct lw_packet packet;

	assert_int_equal(
		lw_packet_decode(LW_LINK_ETHERNET, b->at, b->n, b->n_wire, &packet), LW_PACKET_OK);
	lw_flows_add(table, &packet, at_ns);
}

static void add_tcp(
	struct lw_flow_table *table, uint32_t seq, uint32_t n, uint32_t id, int64_t at_ns)
{
	struct bytes b = tcp_frame(&(struct segment){.seq = seq,
		.flags = 16,
		.payload_bytes = n,
		.id = id,
		.from = 1,
		.to = 2,
		.from_port = 7,
		.to_port = 8});

	add(table, &b, at_ns);
}

static struct lw_flow *only_flow(struct lw_flow_table *table)
{
	assert_int_equal(table->n, LW_FLOW_N_OTHER + 1);
	return &table->flows[LW_FLOW_N_OTHER];
}

static void a_stream_is_counted_once_over_many_wraps(void **state)
{
	struct totals t = {0};
	struct lw_flow_table table;
	uint32_t seq = 0xfffffff0;
	uint64_t sent_bytes = 0;

	(void)state;
	assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
	for (int i = 0; i < 300000; i++, seq += 60000, sent_bytes += 60000)
		add_tcp(&table, seq, 60000, (uint32_t)i & 0xffff, i * INT64_C(1000));
	lw_flows_flush(&table, INT64_MAX);
	assert_int_equal(t.all.payload_bytes, sent_bytes);
	assert_int_equal(t.all.repeated_bytes, 0);
	assert_int_equal(t.all.n_retransmitted, 0);
	assert_int_equal(only_flow(&table)->tcp.missing_bytes, 0);
	assert_int_equal(t.n_bins, 300);
	lw_flows_close(&table);
}

static void a_segment_seen_twice_was_sent_again(void **state)
{
	struct totals t = {0};
	struct lw_flow_table table;

	(void)state;
	assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
	table.mtu_bytes = 1040;
	add_tcp(&table, 0, 1000, 1, 0);
	add_tcp(&table, 1000, 1000, 2, 10);
	add_tcp(&table, 0, 1000, 3, 5000000);
	add_tcp(&table, 1500, 1000, 4, 5000100); /* half of it is new */
	lw_flows_flush(&table, INT64_MAX);
	assert_int_equal(t.all.n_retransmitted, 2);
	assert_int_equal(t.all.retransmitted_bytes, 1500);
	assert_int_equal(t.all.payload_bytes - t.all.repeated_bytes, 2500);
	assert_int_equal(t.all.n_out_of_order, 0);
	lw_flows_close(&table);
}

static void a_hole_is_filled_late_or_again_and_the_ip_id_tells(void **state)
{
	for (int is_late = 0; is_late < 2; is_late++) {
		struct totals t = {0};
		struct lw_flow_table table;

		assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
		add_tcp(&table, 0, 1000, 1, 0);
		add_tcp(&table, 2000, 1000, 3, 10);
		assert_int_equal(only_flow(&table)->tcp.missing_bytes, 1000);
		add_tcp(&table, 1000, 1000, is_late ? 2 : 4, 20);
		lw_flows_flush(&table, INT64_MAX);
		assert_int_equal(only_flow(&table)->tcp.missing_bytes, 0);
		assert_int_equal(t.all.n_out_of_order, is_late);
		assert_int_equal(t.all.n_retransmitted, !is_late);
		assert_int_equal(t.all.retransmitted_bytes, is_late ? 0 : 1000);
		assert_int_equal(t.all.repeated_bytes, 0);
		lw_flows_close(&table);
	}
	(void)state;
}

static void without_ip_ids_time_tells(void **state)
{
	struct totals t = {0};
	struct lw_flow_table table;

	(void)state;
	assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
	add_tcp(&table, 0, 100, 0, 0);
	add_tcp(&table, 200, 100, 0, 0);
	add_tcp(&table, 100, 100, 0, LW_REORDER_NS - 1);
	add_tcp(&table, 400, 100, 0, LW_REORDER_NS);
	add_tcp(&table, 300, 100, 0, 3 * LW_REORDER_NS);
	lw_flows_flush(&table, INT64_MAX);
	assert_int_equal(t.all.n_out_of_order, 1);
	assert_int_equal(t.all.n_retransmitted, 1);
	lw_flows_close(&table);
}

/* Any order, any repetition: what was seen once and what never came add up to the stream. */
static void seen_once_and_missing_add_up_to_the_stream(void **state)
{
	unsigned int seed = 20240611;

	(void)state;
	for (int round = 0; round < 200; round++) {
		enum { N = 200, BYTES = 100 };
		struct totals t = {0};
		struct lw_flow_table table;
		uint32_t start_seq = (uint32_t)rand_r(&seed) * 2u;

		assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
		/* half of the time the capture begins in the middle */
		add_tcp(&table, start_seq + round % 2 * N * BYTES / 4, BYTES, 0, 0);
		for (int i = 0; i < 3 * N; i++) {
			uint32_t near = (uint32_t)(i / 4 + rand_r(&seed) % 20);

			add_tcp(&table, start_seq + near * BYTES / 2, BYTES, (uint32_t)i & 0xff, i);
		}
		lw_flows_flush(&table, INT64_MAX);
		if (t.all.payload_bytes - t.all.repeated_bytes +
				only_flow(&table)->tcp.missing_bytes !=
			only_flow(&table)->tcp.next - only_flow(&table)->tcp.first)
			fail_msg("round %d of seed 20240611", round);
		lw_flows_close(&table);
	}
}

/* A capture that begins in the middle: what comes from before it is new, whatever comes first. */
static void what_lies_before_the_first_one_seen_is_new_and_late(void **state)
{
	static const uint32_t order[] = {5000, 2000, 3000, 4000};

	for (int is_late = 0; is_late < 2; is_late++) {
		struct totals t = {0};
		struct lw_flow_table table;

		assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
		for (uint32_t i = 0; i < 4; i++) {
			/* sent before the one at 5000, or after it */
			add_tcp(&table, order[i], 1000, is_late ? order[i] / 1000 : 10 + i, i);
			if (i == 1)
				assert_int_equal(only_flow(&table)->tcp.missing_bytes, 2000);
		}
		lw_flows_flush(&table, INT64_MAX);
		assert_int_equal(t.all.repeated_bytes, 0);
		assert_int_equal(t.all.n_out_of_order, is_late ? 3 : 0);
		assert_int_equal(t.all.n_retransmitted, is_late ? 0 : 3);
		assert_int_equal(t.all.retransmitted_bytes, is_late ? 0 : 3000);
		assert_int_equal(only_flow(&table)->tcp.missing_bytes, 0);
		assert_int_equal(only_flow(&table)->tcp.next - only_flow(&table)->tcp.first, 4000);
		lw_flows_close(&table);
	}
	(void)state;
}

static void a_new_connection_with_old_ports_starts_over(void **state)
{
	struct totals t = {0};
	struct lw_flow_table table;
	struct segment syn = {
		.flags = 2, .mss_bytes = 1460, .from = 1, .to = 2, .from_port = 7, .to_port = 8};
	struct bytes b;

	(void)state;
	assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
	for (uint32_t i = 0; i < 3; i++) {
		syn.seq = 5000 - 1000 * i;
		b = tcp_frame(&syn);
		add(&table, &b, i * 100000);
		add_tcp(&table, syn.seq + 1, 700, 1, i * 100000 + 10);
	}
	add(&table, &b, 300000); /* this SYN was seen before: sent again */
	lw_flows_flush(&table, INT64_MAX);
	assert_int_equal(t.all.payload_bytes, 2100);
	assert_int_equal(t.all.repeated_bytes, 0);
	assert_int_equal(t.all.n_retransmitted, 1);
	lw_flows_close(&table);
}

static void merged_packets_count_as_many_by_the_segment_size(void **state)
{
	struct totals t = {0};
	struct lw_flow_table table;
	struct segment there = {
		.flags = 2, .mss_bytes = 8960, .from = 1, .to = 2, .from_port = 7, .to_port = 8};
	struct segment back = {
		.flags = 18, .mss_bytes = 1460, .from = 2, .to = 1, .from_port = 8, .to_port = 7};
	struct bytes b = tcp_frame(&there), c = tcp_frame(&back);

	(void)state;
	assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
	add(&table, &b, 0);
	add(&table, &c, 1);
	lw_flows_flush(&table, INT64_MAX);
	t = (struct totals){0};
	add_tcp(&table, 1, 14600, 1, 10);
	add_tcp(&table, 14601, 1461, 2, 11);
	lw_flows_flush(&table, INT64_MAX);
	assert_int_equal(t.all.n_frames, 2);
	assert_int_equal(t.all.n_packets, 12);
	assert_int_equal(t.all.wire_bytes, 14600 + 1461 + 12 * 54);
	lw_flows_close(&table);
}

static void beyond_the_room_flows_are_summed_and_expected_ones_still_get_in(void **state)
{
	static const struct lw_flow_key key = {.protocol = 6,
		.source = {[10] = 0xff, 0xff, 10, 0, 0, 200},
		.source_port = 70,
		.destination = {[10] = 0xff, 0xff, 10, 0, 0, 201},
		.destination_port = 71};
	struct lw_flow_key reverse = lw_flow_reverse(&key);
	struct totals t = {0};
	struct lw_flow_table table;
	struct bytes b;

	(void)state;
	assert_int_equal(lw_flows_open(&table, 1000, add_up, &t), 0);
	for (uint32_t i = 0; i < 100000; i++) {
		b = tcp_frame(&(struct segment){.flags = 16,
			.payload_bytes = 10,
			.from = i / 50000 + 5,
			.to = 2,
			.from_port = i % 50000 + 1,
			.to_port = 9});
		add(&table, &b, i);
	}
	assert_int_equal(table.n, LW_FLOW_N_OTHER + 750);
	lw_flows_expect(&table, &key);
	lw_flows_expect(&table, &reverse);
	b = tcp_frame(&(struct segment){.flags = 16,
		.payload_bytes = 10,
		.from = 201,
		.to = 200,
		.from_port = 71,
		.to_port = 70});
	add(&table, &b, 100000);
	assert_int_equal(table.n, LW_FLOW_N_OTHER + 752);
	assert_int_equal(table.flows[LW_FLOW_N_OTHER + 751].bin.payload_bytes, 10);
	lw_flows_flush(&table, INT64_MAX);
	assert_int_equal(t.all.payload_bytes, 1000010);
	assert_int_equal(table.n_other, 99250);
	lw_flows_close(&table);
}

static void bins_that_nobody_takes_grow_and_lose_nothing(void **state)
{
	struct totals t = {.is_full = true};
	struct lw_flow_table table;

	(void)state;
	assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
	for (uint32_t i = 0; i < 50; i++)
		add_tcp(&table, i * 10, 10, i, i * INT64_C(1000000));
	assert_true(t.n_refusals > 0);
	assert_int_equal(only_flow(&table)->bin.bin_ns, 0);
	assert_int_equal(only_flow(&table)->bin.last_ns, 49000000);
	t.is_full = false;
	lw_flows_flush(&table, INT64_MAX);
	assert_int_equal(t.n_bins, 1);
	assert_int_equal(t.all.payload_bytes, 500);
	lw_flows_close(&table);
}

static void a_packet_seen_at_two_interfaces_counts_once(void **state)
{
	struct totals t = {0};
	struct lw_flow_table table;
	struct lw_packet packet = {.protocol = 6, .payload_bytes = 100, .frame_bytes = 154};

	(void)state;
	assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
	for (uint32_t i = 0; i < 10; i++) {
		packet.tcp.seq = i * 100;
		for (packet.view = 1; packet.view <= 3; packet.view++)
			lw_flows_add(&table, &packet, i);
	}
	assert_int_equal(only_flow(&table)->n_elsewhere, 20);
	packet.view = 2; /* the first interface went quiet: a bond failed over */
	packet.tcp.seq = 1000;
	lw_flows_add(&table, &packet, 2000000000);
	lw_flows_flush(&table, INT64_MAX);
	assert_int_equal(t.all.payload_bytes, 1100);
	assert_int_equal(t.all.n_retransmitted, 0);
	lw_flows_close(&table);
}

static void psn_gaps_and_repeats_are_found_over_a_wrap_and_reads_are_none(void **state)
{
	static const struct {
		uint32_t opcode, psn;
		bool is_gap, is_repeat;
	} script[] = {{6, 0xfffffe, false, false}, {7, 0xffffff, false, false},
		{7, 0, false, false}, {7, 2, true, false}, {7, 1, false, true},
		{8, 3, false, false},
		{17, 0x500, false, false}, /* an acknowledgement numbers nothing */
		{12, 4, false, false}, {10, 9, false, false}, /* a READ of five packets */
		{10, 12, true, false}, {13, 0x700, false, false}, {14, 0x701, false, false},
		{15, 0x703, true, false}, {16, 0x900, false, false}, {0x64, 5, false, false}};
	struct totals t = {0};
	struct lw_flow_table table;
	uint64_t n_gaps = 0, n_repeats = 0;

	(void)state;
	assert_int_equal(lw_flows_open(&table, 64, add_up, &t), 0);
	for (size_t i = 0; i < sizeof(script) / sizeof(script[0]); i++) {
		uint8_t opcode = (uint8_t)script[i].opcode;
		struct bytes b = roce_frame(
			1, 2, opcode, 17, script[i].psn, lw_roce_header_bytes(opcode), 256);

		add(&table, &b, (int64_t)i);
		lw_flows_flush(&table, INT64_MAX);
		n_gaps += script[i].is_gap;
		n_repeats += script[i].is_repeat;
		assert_int_equal(t.all.n_psn_gaps, n_gaps);
		assert_int_equal(t.all.n_retransmitted, n_repeats);
	}
	assert_int_equal(only_flow(&table)->key.destination_qp, 17);
	lw_flows_close(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_is_counted_once_over_many_wraps),
		cmocka_unit_test(a_segment_seen_twice_was_sent_again),
		cmocka_unit_test(a_hole_is_filled_late_or_again_and_the_ip_id_tells),
		cmocka_unit_test(without_ip_ids_time_tells),
		cmocka_unit_test(seen_once_and_missing_add_up_to_the_stream),
		cmocka_unit_test(what_lies_before_the_first_one_seen_is_new_and_late),
		cmocka_unit_test(a_new_connection_with_old_ports_starts_over),
		cmocka_unit_test(merged_packets_count_as_many_by_the_segment_size),
		cmocka_unit_test(beyond_the_room_flows_are_summed_and_expected_ones_still_get_in),
		cmocka_unit_test(bins_that_nobody_takes_grow_and_lose_nothing),
		cmocka_unit_test(a_packet_seen_at_two_interfaces_counts_once),
		cmocka_unit_test(psn_gaps_and_repeats_are_found_over_a_wrap_and_reads_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
