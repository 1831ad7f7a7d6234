/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs as graphs: rings, servers and rounds whose times can be worked out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/model/osf.h"
#include "analyzer/simulate/fine.h"
#include "base/err.h"

enum { MAX_RANKS = 16, MAX_STEPS = 200 };
static const double zeros[MAX_RANKS];
static double end_ns[MAX_STEPS * MAX_RANKS];
static const struct lw_hop hop = {20e3, 8}; /* 20 us, 1 Gbit/s */

static void assert_close(double value, double expected)
{
	if (!(fabs(value - expected) <= 1e-8 * fmax(1, fabs(expected))))
		fail_msg("%.12g is not %.12g", value, expected);
}

static void run(const struct lw_fine_job *job)
{
	if (lw_fine_run(job, end_ns) < 0)
		fail_msg("%s", lw_error_text());
}

/* One batch of one step, ready at once, and nothing but its exchange. */
static double exchange_ns(enum lw_fine_exchange exchange, uint32_t n_ranks, double bytes)
{
	const struct lw_fine_batch batch = {
		.begins_round = true, .bytes = bytes, .ready_ns = zeros};
	const struct lw_fine_job job = {.exchange = exchange,
		.n_ranks = n_ranks,
		.n_ring = n_ranks,
		.n_steps = 1,
		.compute_ns = zeros,
		.tail_ns = zeros,
		.batches = &batch,
		.n_batches = 1,
		.hop = hop};
	double last_ns = 0;

	run(&job);
	for (uint32_t r = 0; r < n_ranks; r++)
		last_ns = fmax(last_ns, end_ns[r]);
	return last_ns;
}

static void a_ring_of_messages_takes_what_the_formula_says(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 12; n++)
		for (double bytes = 4e3; bytes < 1e8; bytes *= 100) {
			double formula_ns = lw_ring_ns(bytes, (int)n, hop);

			assert_close(exchange_ns(LW_FINE_RING, n, bytes), formula_ns);
			assert_close(exchange_ns(LW_FINE_COLLECTIVE, n, bytes), formula_ns);
		}
}

static void a_server_is_as_many_times_slower_as_it_has_workers(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 12; n++) {
		double sync_ns = exchange_ns(LW_FINE_PS_SYNC, n, 1e6);

		assert_close(sync_ns, lw_ps_ns(1e6, (int)n, hop));
		/* equal workers stay side by side: one exchange is as long as when they wait */
		assert_close(exchange_ns(LW_FINE_PS_ASYNC, n, 1e6), sync_ns);
		assert_close(sync_ns - 2 * hop.latency_ns, n * 2e6 * hop.ns_per_byte);
	}
}

static void a_rank_that_comes_late_holds_up_the_ring(void **state)
{
	static const double ready_ns[] = {0, 0, 30e6, 0};
	const struct lw_fine_batch batch = {
		.begins_round = true, .bytes = 1e6, .ready_ns = ready_ns};
	struct lw_fine_job job = {.exchange = LW_FINE_RING,
		.n_ranks = 4,
		.n_ring = 4,
		.n_steps = 1,
		.compute_ns = zeros,
		.tail_ns = zeros,
		.batches = &batch,
		.n_batches = 1,
		.hop = hop};

	(void)state;
	run(&job); /* rounds are barriers */
	for (int r = 0; r < 4; r++)
		assert_close(end_ns[r], 30e6 + lw_ring_ns(1e6, 4, hop));
	job.exchange =
		LW_FINE_PS_SYNC; /* three share the link while it is away, then it is alone */
	run(&job);
	assert_close(end_ns[2], 30e6 + 2 * hop.latency_ns + 5e6 * hop.ns_per_byte);
}

/* ready at 7 ms, cycle 5 ms: the round of 10 ms; the second batch in the same round; the third ready long
 * before, but three cycles after. */
static void rounds_begin_at_ticks_and_run_one_after_the_other(void **state)
{
	static const double early_ns[] = {7e6, 6e6}, soon_ns[] = {8e6, 9e6};
	static const double tail_ns[] = {2e6, 3e6}, compute_ns[] = {12e6, 12e6};
	static const struct lw_fine_batch batches[] = {
		{0, true, 0, 1e5, early_ns, 5e5, 2e5, 0},
		{0, false, 0, 2e5, soon_ns, 1e5, 3e5, 0},
		{0, true, 15e6, 1e5, soon_ns, 5e5, 2e5, 0},
		{1, true, 15e6, 1e5, early_ns, 4e5, 0, 0},
	};
	const struct lw_fine_job job = {.exchange = LW_FINE_RING,
		.n_ranks = 2,
		.n_ring = 2,
		.n_steps = 2,
		.compute_ns = compute_ns,
		.tail_ns = tail_ns,
		.batches = batches,
		.n_batches = 4,
		.hop = hop,
		.cycle_ns = 5e6,
		.notice_ns = 5e5};
	double ring_ns = lw_ring_ns(1e5, 2, hop), round_ns = 25e6;

	(void)state;
	/* the second ends at 10 + .5 + .84 + .2 + .1 + 1.64 + .3 = 13.58 ms, before the third round */
	assert_true(13.58e6 < round_ns);
	run(&job);
	for (int r = 0; r < 2; r++)
		assert_close(end_ns[r], round_ns + 4e5 + 1e5 + ring_ns + 2e5 + 5e5 + tail_ns[r]);
	/* its round would be at 40 ms; rank 1 has it 6 ms after its step began, rank 0 7 ms */
	for (int r = 0; r < 2; r++)
		assert_close(end_ns[2 + r],
			fmax(round_ns + 15e6 + 4e5 + ring_ns + 5e5, end_ns[r] + 12e6) + tail_ns[r]);
}

static void a_busy_thread_makes_the_next_round_late(void **state)
{
	static const struct lw_fine_batch batches[] = {
		{0, true, 5e6, 1e6, zeros, 0, 0, 0}, {0, true, 5e6, 1e6, zeros, 0, 0, 0}};
	const struct lw_fine_job job = {.exchange = LW_FINE_COLLECTIVE,
		.n_ranks = 2,
		.n_ring = 64, /* two of 64 are simulated */
		.n_steps = 1,
		.compute_ns = zeros,
		.tail_ns = zeros,
		.batches = batches,
		.n_batches = 2,
		.hop = hop,
		.cycle_ns = 5e6};

	(void)state;
	run(&job);
	assert_close(end_ns[0], 2 * lw_ring_ns(1e6, 64, hop));
}

static void what_follows_a_batch_waits_for_the_training_thread(void **state)
{
	static const double compute_ns[] = {30e6, 30e6}, tail_ns[] = {1e6, 1e6};
	static const struct lw_fine_batch batches[] = {
		{0, true, 0, 1e5, zeros, 0, 0, 4e6}, {0, false, 0, 1e5, zeros, 0, 0, 5e6}};
	struct lw_fine_job job = {.exchange = LW_FINE_RING,
		.n_ranks = 2,
		.n_ring = 2,
		.n_steps = 1,
		.compute_ns = compute_ns,
		.tail_ns = tail_ns,
		.batches = batches,
		.n_batches = 2,
		.hop = hop};

	(void)state;
	run(&job);
	assert_close(end_ns[0], 30e6 + 4e6 + 5e6 + 1e6);
	job.compute_ns = zeros; /* the second is exchanged while the first is finished */
	run(&job);
	assert_close(end_ns[0], lw_ring_ns(1e5, 2, hop) + 4e6 + 5e6 + 1e6);
}

static double steps_per_s(
	enum lw_fine_exchange exchange, uint32_t n_ranks, const double *compute_ns)
{
	static struct lw_fine_batch batches[MAX_STEPS];
	struct lw_fine_job job = {.exchange = exchange,
		.n_ranks = n_ranks,
		.n_ring = n_ranks,
		.n_steps = MAX_STEPS,
		.compute_ns = compute_ns,
		.tail_ns = zeros,
		.batches = batches,
		.n_batches = MAX_STEPS,
		.hop = {0, 8}};
	double sum = 0;

	for (uint32_t s = 0; s < MAX_STEPS; s++) /* 1 MB, when all is computed */
		batches[s] = (struct lw_fine_batch){s, true, 0, 1e6, compute_ns, 0, 0, 0};
	run(&job);
	for (uint32_t r = 0; r < n_ranks; r++)
		sum += MAX_STEPS / end_ns[(MAX_STEPS - 1) * n_ranks + r] * 1e9;
	return sum;
}

static void an_asynchronous_server_serves_as_much_as_its_link_takes(void **state)
{
	static const double equal_ns[] = {40e6, 40e6, 40e6, 40e6, 40e6, 40e6, 40e6, 40e6};
	static const double apart_ns[] = {
		40e6, 41.3e6, 42.9e6, 44.1e6, 45.7e6, 47.3e6, 48.1e6, 49.9e6};
	double link_per_s = 1e9 / (1e6 * 8), asynchronous, sync;

	(void)state;
	/* alone: compute, 8 ms there, 8 ms back */
	assert_close(steps_per_s(LW_FINE_PS_ASYNC, 1, equal_ns), 1e9 / 56e6);
	/* equal workers never leave each other's side: each exchange is N times as long */
	for (uint32_t n = 2; n <= 8; n++) {
		assert_close(
			steps_per_s(LW_FINE_PS_ASYNC, n, equal_ns), n * 1e9 / (40e6 + n * 16e6));
		assert_close(
			steps_per_s(LW_FINE_PS_SYNC, n, equal_ns), n * 1e9 / (40e6 + n * 16e6));
	}
	/* unequal ones drift apart, use both directions, and nobody waits for the slowest */
	asynchronous = steps_per_s(LW_FINE_PS_ASYNC, 8, apart_ns);
	sync = steps_per_s(LW_FINE_PS_SYNC, 8, apart_ns);
	print_message(
		"8 unequal workers: %.2f steps/s asynchronous, %.2f synchronous, the link %.2f\n",
		asynchronous, sync, link_per_s);
	assert_true(asynchronous > 1.2 * sync);
	assert_true(asynchronous < link_per_s && asynchronous > 0.7 * link_per_s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring_of_messages_takes_what_the_formula_says),
		cmocka_unit_test(a_server_is_as_many_times_slower_as_it_has_workers),
		cmocka_unit_test(a_rank_that_comes_late_holds_up_the_ring),
		cmocka_unit_test(rounds_begin_at_ticks_and_run_one_after_the_other),
		cmocka_unit_test(a_busy_thread_makes_the_next_round_late),
		cmocka_unit_test(what_follows_a_batch_waits_for_the_training_thread),
		cmocka_unit_test(an_asynchronous_server_serves_as_much_as_its_link_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
