/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prop_ring.c - a producer and a consumer thread over one ring, with seeded bursts and pauses:
 * pushed = popped + lost, records in order, none torn, seq gaps = lost. Also the test of the TSan preset.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "schema/ring.h"

enum { N_CASES = 60, N_PUSHES = 20000 };

struct game {
	struct lw_ring_header *ring;
	uint32_t n_records;
	uint64_t seed;
	uint64_t n_refused; /* the producer's count */
	_Atomic int is_done;
};

static uint64_t next(uint64_t *state) /* xorshift64* */
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

/* Every word of the record says the same number: a torn one shows. */
static struct lw_event numbered(uint64_t number)
{
	struct lw_event event = {.t0_ns = (int64_t)number,
		.t1_ns = (int64_t)number,
		.kind = LW_EV_WAIT,
		.op = (uint16_t)number};

	for (size_t i = 0; i < 5; i++)
		event.arg[i] = number;
	return event;
}

static void *produce(void *data)
{
	struct game *game = data;
	uint64_t random = game->seed | 1;

	for (uint64_t i = 0; i < N_PUSHES;) {
		uint64_t burst = next(&random) % (2 * game->n_records);

		for (; burst && i < N_PUSHES; burst--, i++) {
			struct lw_event event = numbered(i);

			game->n_refused += !lw_ring_push(game->ring, &event);
		}
		if (next(&random) % 4 == 0)
			sched_yield();
	}
	atomic_store(&game->is_done, 1);
	return NULL;
}

/* Return: NULL, or what is wrong. */
static const char *consume(struct game *game, uint64_t *ret_n_popped)
{
	uint64_t random = ~game->seed | 1, n_popped = 0, n_lost = 0;

	for (;;) {
		bool was_done = atomic_load(&game->is_done), is_corrupt;
		struct lw_event *first;
		uint64_t n, n_all = lw_ring_available(
				    game->ring, game->n_records, &first, &n, &is_corrupt);

		if (is_corrupt)
			return "head out of range";
		if (n_all && next(&random) % 2)
			n = 1 + next(&random) % n; /* not always everything */
		for (uint64_t i = 0; i < n; i++, n_popped++) {
			const struct lw_event *event = &first[i];
			uint64_t number = (uint64_t)event->t0_ns;

			if (event->seq != number)
				return "seq is not the count of pushes";
			if (number < n_popped + n_lost)
				return "out of order";
			n_lost = number - n_popped;
			for (size_t k = 0; k < 5; k++)
				if (event->arg[k] != number)
					return "torn";
			if (event->t1_ns != event->t0_ns || event->op != (uint16_t)number)
				return "torn";
		}
		lw_ring_advance(game->ring, n);
		*ret_n_popped = n_popped;
		if (!n_all && was_done)
			return NULL;
		if (!n_all)
			sched_yield();
	}
}

static void pushed_is_popped_plus_lost_and_nothing_is_torn(void **state)
{
	const char *text = getenv("LAPWING_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 20240;
	uint64_t total_popped = 0, total_lost = 0;

	(void)state;
	for (int i = 0; i < N_CASES;
		i++, seed = seed * 6364136223846793005u + 1442695040888963407u) {
		struct game game = {.n_records = 64u << (seed >> 33) % 4, .seed = seed};
		uint64_t n_popped = 0;
		const char *wrong;
		pthread_t producer;
		size_t n_bytes = lw_ring_file_bytes(game.n_records);

		game.ring = aligned_alloc(LW_RING_HEADER_BYTES, (n_bytes + 4095) / 4096 * 4096);
		assert_non_null(game.ring);
		memset(game.ring, 0, n_bytes);
		lw_ring_init(game.ring, game.n_records, 1, 1, 0);
		assert_int_equal(pthread_create(&producer, NULL, produce, &game), 0);
		wrong = consume(&game, &n_popped);
		pthread_join(producer, NULL);
		if (!wrong && n_popped + game.n_refused != N_PUSHES)
			wrong = "pushed is not popped + lost";
		if (!wrong && game.n_refused != atomic_load(&game.ring->lost))
			wrong = "lost is not what was refused";
		if (wrong)
			fail_msg("%s; LAPWING_SEED=%llu", wrong, (unsigned long long)seed);
		total_popped += n_popped;
		total_lost += game.n_refused;
		free(game.ring);
	}
	print_message("%llu popped, %llu lost, %d cases\n", (unsigned long long)total_popped,
		(unsigned long long)total_lost, N_CASES);
	assert_true(total_popped > 0 && total_lost > 0); /* both paths were taken */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pushed_is_popped_plus_lost_and_nothing_is_torn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
