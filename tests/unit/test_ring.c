/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "schema/ring.h"

enum { N = LW_RING_MIN_RECORDS };

static int make_ring(void **state)
{
	struct lw_ring_header *ring = aligned_alloc(LW_RING_HEADER_BYTES, LW_RING_HEADER_BYTES * 2);

	static_assert(
		LW_RING_HEADER_BYTES + N * LW_EVENT_BYTES <= LW_RING_HEADER_BYTES * 2, "fits");
	if (!ring)
		return -1;
	memset(ring, 0, lw_ring_file_bytes(N));
	lw_ring_init(ring, N, 1, 2, 3);
	*state = ring;
	return 0;
}

static int free_ring(void **state)
{
	free(*state);
	return 0;
}

static bool push(struct lw_ring_header *ring, int64_t number)
{
	struct lw_event event = {.t0_ns = number, .t1_ns = number, .kind = LW_EV_WAIT, .op = 1};

	return lw_ring_push(ring, &event);
}

/* Takes what lies together; checks its numbers and seqs. Return: how many. */
static uint64_t pop(struct lw_ring_header *ring, int64_t number, uint32_t seq)
{
	struct lw_event *first;
	uint64_t n;
	bool is_corrupt;

	lw_ring_available(ring, N, &first, &n, &is_corrupt);
	assert_false(is_corrupt);
	for (uint64_t i = 0; i < n; i++) {
		assert_int_equal(first[i].t0_ns, number + (int64_t)i);
		assert_int_equal(first[i].seq, (uint32_t)(seq + i));
	}
	lw_ring_advance(ring, n);
	return n;
}

static void records_come_out_in_the_order_they_went_in(void **state)
{
	for (int64_t i = 0; i < 10; i++)
		assert_true(push(*state, i));
	assert_int_equal(pop(*state, 0, 0), 10);
	assert_int_equal(pop(*state, 0, 0), 0);
}

static void a_full_ring_counts_the_loss_and_seq_shows_where(void **state)
{
	struct lw_ring_header *ring = *state;

	for (int64_t i = 0; i < N; i++)
		assert_true(push(ring, i));
	for (int64_t i = 0; i < 7; i++)
		assert_false(push(ring, N + i));
	assert_int_equal(atomic_load(&ring->lost), 7);
	assert_int_equal(pop(ring, 0, 0), N);
	assert_true(push(ring, 1000));
	assert_int_equal(pop(ring, 1000, N + 7), 1);
	assert_int_equal(atomic_load(&ring->head) + atomic_load(&ring->lost), N + 8);
}

static void records_wrap_around_the_end(void **state)
{
	int64_t pushed = 0;
	uint64_t popped = 0;

	while (pushed < 10 * N) {
		for (int i = 0; i < 13; i++)
			assert_true(push(*state, pushed++));
		/* up to two runs: before and after the end of the memory */
		popped += pop(*state, (int64_t)popped, (uint32_t)popped);
		popped += pop(*state, (int64_t)popped, (uint32_t)popped);
		assert_int_equal(popped, pushed);
	}
}

static void counts_wrap_at_32_bits_of_seq(void **state)
{
	struct lw_ring_header *ring = *state;

	atomic_store(&ring->head, UINT32_MAX - 2);
	atomic_store(&ring->tail, UINT32_MAX - 2);
	for (int64_t i = 0; i < 6; i++)
		assert_true(push(ring, i));
	assert_int_equal(pop(ring, 0, UINT32_MAX - 2) + pop(ring, 3, 0), 6);
}

static void an_impossible_head_is_reported_not_followed(void **state)
{
	struct lw_ring_header *ring = *state;
	struct lw_event *first;
	uint64_t n;
	bool is_corrupt;

	atomic_store(&ring->head, N + 1);
	assert_int_equal(lw_ring_available(ring, N, &first, &n, &is_corrupt), 0);
	assert_true(is_corrupt);
	assert_int_equal(n, 0);
	atomic_store(&ring->head, 3);
	atomic_store(&ring->tail, 4);
	assert_int_equal(lw_ring_available(ring, N, &first, &n, &is_corrupt), 0);
	assert_true(is_corrupt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			records_come_out_in_the_order_they_went_in, make_ring, free_ring),
		cmocka_unit_test_setup_teardown(
			a_full_ring_counts_the_loss_and_seq_shows_where, make_ring, free_ring),
		cmocka_unit_test_setup_teardown(records_wrap_around_the_end, make_ring, free_ring),
		cmocka_unit_test_setup_teardown(
			counts_wrap_at_32_bits_of_seq, make_ring, free_ring),
		cmocka_unit_test_setup_teardown(
			an_impossible_head_is_reported_not_followed, make_ring, free_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
