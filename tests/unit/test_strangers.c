/* SPDX-License-Identifier: Apache-2.0 */
/* Flows that are not the job's: few rows, no byte lost, no place kept; and how one becomes the job's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/units.h"
#include "packet/flow.h"
#include "packet/rows.h"
#include "tests/lib/packets.h"

#define MS LW_NS_PER_MS
#define S  LW_NS_PER_S

struct taken {
	struct lw_flow_table table;
	lw_vec(struct lw_packet_bin) bins;
	bool is_full;
};

static bool take(void *user, const struct lw_packet_bin *bin)
{
	struct taken *t = user;

	return !t->is_full && lw_vec_push(&t->bins, *bin) == 0;
}

static void start(struct taken *t, uint32_t n)
{
	*t = (struct taken){.is_full = false};
	assert_int_equal(lw_flows_open(&t->table, n, take, t), 0);
	assert_int_equal(lw_flows_sum_strangers(&t->table), 0);
}

static void end(struct taken *t)
{
	lw_flows_close(&t->table);
	lw_vec_free(&t->bins);
}

static void add(struct taken *t, const struct bytes *b, int64_t at_ns)
{
	struct lw_packet packet;

	assert_int_equal(
		lw_packet_decode(LW_LINK_ETHERNET, b->at, b->n, b->n_wire, &packet), LW_PACKET_OK);
	lw_flows_add(&t->table, &packet, at_ns);
}

/* A segment from port @port; each flow's next one. */
static void add_tcp(struct taken *t, uint32_t port, uint32_t n, int64_t at_ns)
{
	static uint32_t seqs[65536];
	struct bytes b = tcp_frame(&(struct segment){.seq = seqs[port],
		.flags = 16,
		.payload_bytes = n,
		.from = 1,
		.to = 2,
		.from_port = port,
		.to_port = 80});

	seqs[port] += n;
	add(t, &b, at_ns);
}

static struct lw_flow_key key_of(uint16_t port)
{
	return (struct lw_flow_key){.protocol = 6,
		.source = {[10] = 0xff, 0xff, 10, 0, 0, 1},
		.source_port = port,
		.destination = {[10] = 0xff, 0xff, 10, 0, 0, 2},
		.destination_port = 80};
}

static uint64_t payload_of(const struct taken *t, bool of_others)
{
	const struct lw_packet_bin *bin;
	uint64_t n = 0;

	lw_vec_foreach (bin, &t->bins)
		if (t->table.flows[bin->flow].is_other == of_others)
			n += bin->payload_bytes;
	return n;
}

/* One that moves much beside 500 that move little, each in every ms, over 5 s. */
static void strangers_make_few_rows_and_lose_no_byte(void **state)
{
	struct taken t;
	const struct lw_packet_bin *bin;
	uint64_t large_bytes = 0, small_bytes = 0;

	(void)state;
	start(&t, 1000);
	for (int64_t ms = 0; ms < 5000; ms++) {
		add_tcp(&t, 1, 1000, ms * MS);
		large_bytes += 1000;
		for (uint32_t i = 0; i < 5; i++, small_bytes += 100)
			add_tcp(&t, 2 + ((uint32_t)ms * 5 + i) % 500, 100, ms * MS + 10);
		if (ms % 100 == 99)
			assert_true(lw_flows_flush(&t.table, (ms - 100) * MS));
	}
	assert_true(lw_flows_flush(&t.table, INT64_MAX));
	assert_int_equal(t.bins.n, 5 + 5);
	assert_int_equal(payload_of(&t, false), large_bytes);
	assert_int_equal(payload_of(&t, true), small_bytes);
	lw_vec_foreach (bin, &t.bins) {
		assert_int_equal(bin->bin_ns % S, 0);
		assert_true(bin->first_ns >= bin->bin_ns && bin->last_ns < bin->bin_ns + S);
	}
	end(&t);
}

/* Each of 1000 moves as much as deserves a row. */
static void rows_of_strangers_are_bounded_whatever_they_do(void **state)
{
	struct taken t;

	(void)state;
	start(&t, 4000);
	for (int64_t ms = 0; ms < 3000; ms++) {
		for (uint32_t i = 0; i < 1000; i++)
			add_tcp(&t, 1 + i, 100, ms * MS + i);
		if (ms % 100 == 99)
			assert_true(lw_flows_flush(&t.table, (ms - 100) * MS));
	}
	assert_true(lw_flows_flush(&t.table, INT64_MAX));
	assert_int_equal(t.bins.n, 3 * (LW_STRANGER_ROWS + 1));
	assert_int_equal(payload_of(&t, false) + payload_of(&t, true), 3000 * 1000 * 100);
	end(&t);
}

static void a_flow_becomes_the_jobs_with_what_it_sent_in_the_second_before(void **state)
{
	const struct lw_flow_key key = key_of(7);
	struct taken t;
	const struct lw_packet_bin *bin;
	size_t n_short = 0, n_long = 0;

	(void)state;
	start(&t, 1000);
	for (int64_t ms = 0; ms < 4000; ms++) {
		add_tcp(&t, 7, 100, ms * MS);
		if (ms == 2500)
			lw_flows_expect(&t.table, &key);
		if (ms % 100 == 99)
			assert_true(lw_flows_flush(&t.table, (ms - 100) * MS));
	}
	assert_true(lw_flows_flush(&t.table, INT64_MAX));
	lw_vec_foreach (bin, &t.bins) {
		assert_int_equal(t.table.flows[bin->flow].key.source_port, 7);
		if (bin->bin_ns == bin->first_ns && bin->first_ns == bin->last_ns)
			n_short++;
		else
			n_long++;
	}
	/* of the time before that second there are sums */
	assert_true(n_short >= 2400 && n_short <= 2700 && n_long >= 1 && n_long <= 2);
	assert_int_equal(payload_of(&t, false), 400000);
	end(&t);
}

static void what_is_neither_tcp_nor_roce_was_asked_for(void **state)
{
	struct taken t;

	(void)state;
	start(&t, 1000);
	for (int64_t ms = 0; ms < 100; ms++) {
		struct bytes b = {{0}, 0, 0}, roce = roce_frame(8, 9, 4, 1, (uint32_t)ms, 0, 64);

		put_ethernet(&b, 0x0800);
		put_ipv4(&b, 17, 20, 1, 9, 2);
		put32(&b, 49152u << 16 | 53);
		put32(&b, 20u << 16);
		put_zeros(&b, 12);
		add(&t, &b, ms * MS);
		add(&t, &roce, ms * MS);
	}
	assert_true(lw_flows_flush(&t.table, INT64_MAX));
	assert_int_equal(t.bins.n, 100 + 1);
	end(&t);
}

static void a_receiver_that_takes_nothing_loses_nothing(void **state)
{
	const struct lw_flow_key key = key_of(3);
	struct taken t;
	const struct lw_packet_bin *bin;
	uint64_t n = 0;

	(void)state;
	start(&t, 100);
	lw_flows_expect(&t.table, &key);
	t.is_full = true;
	for (int64_t ms = 0; ms < 8000; ms++) {
		for (uint32_t i = 0; i < 6; i++)
			add_tcp(&t, 1 + i, 100 * i, ms * MS);
		if (ms % 100 == 99)
			lw_flows_flush(&t.table, (ms - 100) * MS);
	}
	t.is_full = false;
	assert_true(lw_flows_flush(&t.table, INT64_MAX));
	lw_vec_foreach (bin, &t.bins)
		n += bin->payload_bytes;
	assert_int_equal(n, 8000 * 1500);
	end(&t);
}

/* A batch goes where a writer would take it. */
static size_t take_batch(struct taken *t)
{
	struct lw_packet_batch batch = {.end_ns = 0};
	size_t n_new = 0;

	assert_int_equal(lw_flows_states(&t->table, false, &batch), 0);
	for (size_t i = 0; i < batch.states.n; i++)
		n_new += batch.states.at[i].is_new && !batch.states.at[i].is_other;
	lw_packet_batch_free(&batch);
	return n_new;
}

static void strangers_that_are_silent_give_their_places_back(void **state)
{
	struct taken t;

	(void)state;
	start(&t, 1000);
	for (uint32_t i = 0; i < 60000; i++) { /* 100 new ones a second, each twice */
		add_tcp(&t, 1 + i, 10, i * 10 * MS);
		add_tcp(&t, 1 + i, 10, i * 10 * MS + 10);
		if (i % 10)
			continue;
		lw_flows_flush(&t.table, i * 10 * MS - 100 * MS);
		take_batch(&t);
		lw_flows_age(&t.table, i * 10 * MS - 5 * S);
	}
	assert_int_equal(t.table.n_other, 0);
	assert_true(t.table.n < 700);
	assert_true(lw_flows_flush(&t.table, INT64_MAX));
	assert_int_equal(payload_of(&t, true), 60000 * 20);
	end(&t);
}

static void what_still_waits_is_not_forgotten(void **state)
{
	const struct lw_packet_bin *bin;
	struct taken t;

	(void)state;
	start(&t, 1000);
	for (int64_t ms = 0; ms < 6000; ms++) {
		add_tcp(&t, 1 + (uint32_t)(ms / 100), 10, ms * MS);
		if (ms % 10)
			continue;
		lw_flows_flush(&t.table, ms * MS - ms % 7 * 100 * MS);
		take_batch(&t);
		lw_flows_age(&t.table, ms * MS + 1);
	}
	assert_true(lw_flows_flush(&t.table, INT64_MAX));
	assert_int_equal(payload_of(&t, true), 60000);
	lw_vec_foreach (bin, &t.bins)
		assert_int_equal(bin->flow, LW_FLOW_OTHER_TCP);
	end(&t);
}

/* A job that opens one connection after the other, and more at a time than there are in the end. */
static void connections_of_the_job_give_theirs_back_when_they_are_closed(void **state)
{
	struct taken t;
	size_t n_new = 0;

	(void)state;
	start(&t, 1000);
	for (uint32_t i = 0; i < 60000; i++) {
		struct lw_flow_key key = key_of((uint16_t)(1 + i)), reverse = lw_flow_reverse(&key);

		lw_flows_expect(&t.table, &key);
		lw_flows_expect(&t.table, &reverse);
		add_tcp(&t, 1 + i, 10, i * 10 * MS);
		if (i >= 100) {
			key = key_of((uint16_t)(1 + i - 100));
			reverse = lw_flow_reverse(&key);
			lw_flows_forget(&t.table, &key);
			lw_flows_forget(&t.table, &reverse);
		}
		if (i % 10)
			continue;
		lw_flows_flush(&t.table, i * 10 * MS - 20 * MS);
		n_new += take_batch(&t);
		lw_flows_age(&t.table, i * 10 * MS - S);
	}
	assert_true(lw_flows_flush(&t.table, INT64_MAX));
	n_new += take_batch(&t);
	assert_int_equal(n_new, 60000);
	assert_int_equal(payload_of(&t, true), 0);
	assert_int_equal(t.table.n_other, 0);
	assert_true(t.table.n < 700);
	end(&t);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Whatever comes and goes, a key that is there is found, and only once. */
static void places_are_found_again_whatever_was_given_back(void **state)
{
	unsigned int seed = 20241130;
	int last_s[200] = {0};
	struct taken t;

	(void)state;
	start(&t, 300);
	for (int s = 1; s < 3000; s++) {
		int ports[300];
		uint32_t n = 0;

		for (int i = 0; i < 20; i++) {
			int port = rand_r(&seed) % 200;

			add_tcp(&t, (uint32_t)port + 1, 10, s * S);
			last_s[port] = s;
		}
		assert_true(lw_flows_flush(&t.table, INT64_MAX));
		take_batch(&t);
		lw_flows_age(&t.table, (s - rand_r(&seed) % 8) * S);
		for (uint32_t i = LW_FLOW_N_OTHER; i < t.table.n; i++)
			if (!t.table.flows[i].is_free)
				ports[n++] = t.table.flows[i].key.source_port;
		qsort(ports, n, sizeof(ports[0]), compare);
		for (uint32_t i = 1; i < n; i++)
			assert_true(ports[i - 1] < ports[i]);
		assert_int_equal(t.table.n_strangers, n);
		/* those of this second at least were not forgotten */
		for (uint32_t i = 0, at = 0; i < 200; i++) {
			while (at < n && ports[at] < (int)i + 1)
				at++;
			if (last_s[i] == s)
				assert_true(at < n && ports[at] == (int)i + 1);
		}
	}
	assert_int_equal(t.table.n_other, 0);
	end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strangers_make_few_rows_and_lose_no_byte),
		cmocka_unit_test(rows_of_strangers_are_bounded_whatever_they_do),
		cmocka_unit_test(a_flow_becomes_the_jobs_with_what_it_sent_in_the_second_before),
		cmocka_unit_test(what_is_neither_tcp_nor_roce_was_asked_for),
		cmocka_unit_test(a_receiver_that_takes_nothing_loses_nothing),
		cmocka_unit_test(strangers_that_are_silent_give_their_places_back),
		cmocka_unit_test(what_still_waits_is_not_forgotten),
		cmocka_unit_test(connections_of_the_job_give_theirs_back_when_they_are_closed),
		cmocka_unit_test(places_are_found_again_whatever_was_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
