/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tracer/gloo_preamble.h"

/* splitmix64 */
static uint64_t mix(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

struct seen {
	uint64_t n_headers, n_messages, payload_bytes, slot_sum;
	bool is_garbage;
};

static size_t put_message(uint8_t *at, uint64_t opcode, uint64_t slot, uint64_t payload_bytes)
{
	uint64_t words[6] = {LW_PREAMBLE_BYTES + payload_bytes, opcode, slot, 0,
		opcode == LW_PREAMBLE_SEND_BUFFER ? payload_bytes : 0, 0};

	memcpy(at, words, sizeof(words));
	memset(at + sizeof(words), 0xa5, payload_bytes);
	return sizeof(words) + payload_bytes;
}

static void feed(
	struct lw_preamble_stream *stream, const uint8_t *data, size_t n, struct seen *seen)
{
	while (n) {
		size_t used;

		switch (lw_preamble_feed(stream, data, n, &used)) {
		case LW_PREAMBLE_MORE:
			break;
		case LW_PREAMBLE_HEADER:
			seen->n_headers++;
			break;
		case LW_PREAMBLE_MESSAGE:
			seen->n_messages++;
			seen->payload_bytes += lw_preamble_payload_bytes(stream);
			seen->slot_sum += lw_preamble_slot(stream);
			break;
		case LW_PREAMBLE_GARBAGE:
			seen->is_garbage = true;
			return;
		}
		assert_true(used >= 1 && used <= n);
		data += used;
		n -= used;
	}
}

static void a_message_comes_whole_or_in_two_parts(void **state)
{
	uint8_t data[4096];
	size_t n = put_message(data, LW_PREAMBLE_SEND_UNBOUND_BUFFER, UINT64_C(4) << 56 | 7, 1000);
	struct lw_preamble_stream whole = {0}, parts = {0};
	struct seen seen = {0};

	(void)state;
	feed(&whole, data, n, &seen);
	feed(&parts, data, LW_PREAMBLE_BYTES, &seen);
	assert_int_equal(seen.n_headers, 2);
	assert_int_equal(seen.n_messages, 1);
	feed(&parts, data + LW_PREAMBLE_BYTES, 999, &seen);
	assert_int_equal(seen.n_messages, 1);
	feed(&parts, data + LW_PREAMBLE_BYTES + 999, 1, &seen);
	assert_int_equal(seen.n_messages, 2);
	assert_int_equal(seen.payload_bytes, 2000);
	assert_int_equal(lw_preamble_opcode(&parts), LW_PREAMBLE_SEND_UNBOUND_BUFFER);
	assert_true(lw_preamble_slot(&parts) == (UINT64_C(4) << 56 | 7));
}

static void a_notice_has_no_payload(void **state)
{
	uint8_t data[LW_PREAMBLE_BYTES];
	struct lw_preamble_stream stream = {0};
	struct seen seen = {0};

	(void)state;
	feed(&stream, data, put_message(data, LW_PREAMBLE_NOTIFY_RECV_READY, 3, 0), &seen);
	assert_int_equal(seen.n_headers, 0);
	assert_int_equal(seen.n_messages, 1);
}

static void the_greeting_is_passed_over_once(void **state)
{
	uint8_t data[256] = {0};
	size_t n = put_message(data, LW_PREAMBLE_SEND_UNBOUND_BUFFER, 1, 8);
	struct lw_preamble_stream stream = {0};
	struct seen seen = {0};

	(void)state;
	feed(&stream, (const uint8_t *)"\1\0\0\0\0\0\0", LW_PREAMBLE_GREETING_BYTES, &seen);
	feed(&stream, data, LW_PREAMBLE_BYTES, &seen);
	feed(&stream, data + LW_PREAMBLE_BYTES, n - LW_PREAMBLE_BYTES, &seen); /* 8 bytes again */
	assert_false(seen.is_garbage);
	assert_int_equal(seen.n_messages, 1);
}

static void what_is_not_gloo_is_left_alone_for_good(void **state)
{
	static const char text[] =
		"GET /scope/key HTTP/1.1\r\nHost: 198.18.0.1:8080\r\nAccept: */*\r\n";
	struct lw_preamble_stream stream = {0};
	struct seen seen = {0};
	uint8_t data[LW_PREAMBLE_BYTES];
	size_t used;

	(void)state;
	feed(&stream, (const uint8_t *)text, sizeof(text) - 1, &seen);
	assert_true(seen.is_garbage);
	assert_int_equal(seen.n_messages, 0);
	put_message(data, LW_PREAMBLE_NOTIFY_RECV_READY, 3, 0);
	assert_int_equal(lw_preamble_feed(&stream, data, sizeof(data), &used), LW_PREAMBLE_GARBAGE);
}

static void impossible_headers_are_refused(void **state)
{
	static const uint64_t bad[][6] = {
		{47, 1, 0, 0, 0, 0},                    /* shorter than itself */
		{0, 1, 0, 0, 0, 0},                     /* the same, wrapping */
		{UINT64_MAX, 1, 0, 0, 0, 0},            /* absurd length */
		{100, 4, 0, 0, 0, 0},                   /* no such opcode */
		{100, 3, 0, 0, 0, 0},                   /* a notice with a payload */
		{100, 0, 0, 0, 51, 0},                  /* length contradicts nbytes */
		{100, 1, UINT64_C(0x7f) << 56, 0, 0, 0} /* no such kind of collective */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct lw_preamble_stream stream = {0};
		size_t used;

		assert_int_equal(lw_preamble_feed(&stream, bad[i], sizeof(bad[i]), &used),
			LW_PREAMBLE_GARBAGE);
	}
}

/* However the bytes are cut, the same messages come out. */
static void any_cut_gives_the_same_messages(void **state)
{
	static uint8_t data[1 << 20];
	const char *replay = getenv("LAPWING_SEED");
	uint64_t seed = replay ? strtoull(replay, NULL, 10) : 20240607;
	size_t n = 0, n_messages = 0;
	struct seen whole = {0};
	struct lw_preamble_stream stream = {0};

	(void)state;
	printf("seed %llu\n", (unsigned long long)seed);
	while (n < sizeof(data) - 70000) {
		uint64_t opcode = mix(&seed) % 4;
		uint64_t payload_bytes =
			opcode > 1 ? 0 : mix(&seed) % (mix(&seed) % 8 ? 300 : 60000);

		n += put_message(data + n, opcode, mix(&seed) >> 8, payload_bytes);
		n_messages++;
	}
	feed(&stream, data, n, &whole);
	assert_int_equal(whole.n_messages, n_messages);
	for (int round = 0; round < 200; round++) {
		struct lw_preamble_stream again = {.is_started = true};
		struct seen seen = {0};

		for (size_t at = 0; at < n;) {
			size_t part = 1 + mix(&seed) % (mix(&seed) % 2 ? 60 : 9000);

			part = part < n - at ? part : n - at;
			feed(&again, data + at, part, &seen);
			at += part;
		}
		assert_memory_equal(&seen, &whole, sizeof(seen));
	}
	printf("%zu messages, 200 ways of cutting %zu bytes\n", n_messages, n);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_comes_whole_or_in_two_parts),
		cmocka_unit_test(a_notice_has_no_payload),
		cmocka_unit_test(the_greeting_is_passed_over_once),
		cmocka_unit_test(what_is_not_gloo_is_left_alone_for_good),
		cmocka_unit_test(impossible_headers_are_refused),
		cmocka_unit_test(any_cut_gives_the_same_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
