/* SPDX-License-Identifier: Apache-2.0 */
/* test_mpi_table.c - the table from MPI handles to slots: against a plain array, to the brim, and by threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tracer/mpi_table.h"

enum { N_BUCKETS = 64, N_SLOTS = N_BUCKETS * LW_TABLE_WAYS };

static _Atomic uintptr_t keys[N_SLOTS] __attribute__((aligned(64)));
static uint64_t values[N_SLOTS];
static const struct lw_table table = {keys, N_BUCKETS};

static void clear(void)
{
	for (int i = 0; i < N_SLOTS; i++)
		atomic_store(&keys[i], 0);
}

static int32_t find(uintptr_t key)
{
	uint32_t probe = 0;

	return lw_table_find(&table, key, &probe);
}

static int32_t insert(uintptr_t key, uint64_t value)
{
	int32_t slot = lw_table_claim(&table, key);

	if (slot >= 0) {
		values[slot] = value;
		lw_table_publish(&table, slot, key);
	}
	return slot;
}

/* Like an allocator's: 16-byte steps from a base; and like MPICH's: small integers. */
static uintptr_t handle(uint32_t i)
{
	return i & 1 ? 0x98000000u + i : UINT64_C(0x55d0c0a04280) + (uintptr_t)i * 176;
}

static uint64_t next_random(uint64_t *state) /* xorshift64 */
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void finds_what_was_put_in_and_nothing_else(void **state)
{
	enum { N_HANDLES = 300, N_STEPS = 200000 };
	static uint64_t present[N_HANDLES]; /* value, 0 = not in the table */
	uint64_t seed = 20240607;

	(void)state;
	clear();
	printf("seed %llu\n", (unsigned long long)seed);
	for (uint64_t step = 1; step <= N_STEPS; step++) {
		uint32_t i = (uint32_t)(next_random(&seed) % N_HANDLES);
		int32_t slot = find(handle(i));

		assert_int_equal(slot >= 0, present[i] != 0);
		if (slot >= 0) {
			assert_int_equal(values[slot], present[i]);
			lw_table_remove(&table, slot);
			present[i] = 0;
		} else {
			assert_true(insert(handle(i), step) >= 0);
			present[i] = step;
		}
	}
}

static void says_when_it_is_full_and_only_near_the_brim(void **state)
{
	int n = 0;

	(void)state;
	clear();
	for (uint32_t i = 0; insert(handle(i), i) >= 0; i++)
		n++;
	printf("%d of %d slots before the first refusal\n", n, N_SLOTS);
	assert_true(n > N_SLOTS * 8 / 10);
	for (uint32_t i = 0; i < (uint32_t)n; i++)
		assert_true(find(handle(i)) >= 0);
	for (uint32_t i = 0; i < (uint32_t)n; i++)
		lw_table_remove(&table, find(handle(i)));
	for (int i = 0; i < N_SLOTS; i++)
		assert_int_equal(atomic_load(&keys[i]), 0);
}

static void finds_every_slot_of_a_key_that_is_in_twice(void **state)
{
	uint32_t probe = 0;
	int32_t first, second;

	(void)state;
	clear();
	insert(handle(7), 1);
	insert(handle(7), 2);
	first = lw_table_find(&table, handle(7), &probe);
	second = lw_table_find(&table, handle(7), &probe);
	assert_true(first >= 0 && second >= 0 && first != second);
	assert_int_equal(values[first] + values[second], 3);
	assert_int_equal(lw_table_find(&table, handle(7), &probe), -1);
}

enum { N_THREADS = 4, N_OWN = 60 };

static void *churn(
	void *number) /* each thread has handles of its own, as each request has one owner */
{
	uint32_t base = (uint32_t)(uintptr_t)number * N_OWN;
	long n_wrong = 0;

	for (uint64_t round = 1; round <= 3000; round++) {
		for (uint32_t i = 0; i < N_OWN; i++)
			n_wrong += insert(handle(base + i), round * 1000 + base + i) < 0;
		for (uint32_t i = 0; i < N_OWN; i++) {
			int32_t slot = find(handle(base + i));

			n_wrong += slot < 0 || values[slot] != round * 1000 + base + i;
			if (slot >= 0)
				lw_table_remove(&table, slot);
		}
	}
	return (void *)n_wrong;
}

static void threads_do_not_meet_in_a_slot(void **state)
{
	pthread_t threads[N_THREADS];

	(void)state;
	clear();
	for (uintptr_t i = 0; i < N_THREADS; i++)
		pthread_create(&threads[i], NULL, churn, (void *)i);
	for (int i = 0; i < N_THREADS; i++) {
		void *n_wrong;

		pthread_join(threads[i], &n_wrong);
		assert_null(n_wrong);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_was_put_in_and_nothing_else),
		cmocka_unit_test(says_when_it_is_full_and_only_near_the_brim),
		cmocka_unit_test(finds_every_slot_of_a_key_that_is_in_twice),
		cmocka_unit_test(threads_do_not_meet_in_a_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
