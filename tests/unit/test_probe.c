/* SPDX-License-Identifier: Apache-2.0 */
/* A probe's schedule on several ranks, and how Horovod's ranks agree on one; the tracer is stubbed out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "tracer/hook_horovod.h"
#include "tracer/probe.c" /* its state is forgotten between the cases */

static uint32_t live = 1;
const volatile uint32_t *lw_live = &live;
_Thread_local struct lw_hvd_tls lw_hvd_tls;
_Thread_local struct lw_tls lw_tls;
int64_t lw_probe_budget_ns;

static const char *refused;
static uint32_t n_recorded, n_hidden;

void lw_record(const struct lw_event *event)
{
	assert_int_equal(event->kind, LW_EV_PROBE);
	assert_int_equal(event->probe.number, n_recorded);
	n_recorded++;
}

void lw_hook_report(
	const char *name, enum lw_hook_status status, uint32_t n_slots, const char *detail)
{
	(void)n_slots;
	assert_string_equal(name, "probe");
	assert_int_equal(status, LW_HOOK_REFUSED);
	refused = detail;
}

void lw_sockets_flush(enum lw_sample_why why)
{
	(void)why;
}

void lw_mpi_hide(const void *frame)
{
	(void)frame;
	n_hidden++;
}

void lw_mpi_show(void)
{
}

/* ---- the schedule --------------------------------------------------------------------------------- */

enum { MAX_RANKS = 5, MAX_OPERATIONS = 4000 };
static const int64_t pause_ns = 5000000;

struct network {
	double latency_ns, ns_per_byte, noise_frac;
	struct lw_random random;
	int n_ranks;
};

struct outcome {
	uint32_t n_operations, n_of_size[LW_PROBE_N_SIZES], n_bursts[LW_PROBE_N_SIZES];
	int64_t elapsed_ns;
};

/* Every rank has a schedule of its own; they may talk through the AND alone. */
static struct outcome run_ranks(struct network *network, int64_t budget_ns)
{
	struct lw_probe_schedule ranks[MAX_RANKS];
	struct outcome outcome = {0};
	double now_ns = 0;

	for (int r = 0; r < network->n_ranks; r++)
		lw_probe_start(&ranks[r], budget_ns);
	while (!ranks[0].is_over) {
		uint32_t size = ranks[0].size;
		uint64_t agreed = UINT64_MAX;
		double took_ns;

		assert_true(outcome.n_operations++ < MAX_OPERATIONS);
		outcome.n_of_size[size]++;
		outcome.n_bursts[size] += !ranks[0].position;
		now_ns += ranks[0].position ? 0 : (double)pause_ns;
		for (int r = 0; r < network->n_ranks; r++)
			agreed &= lw_probe_vote(&ranks[r], (int64_t)now_ns);
		/* as measured: small operations scatter widely, large ones by few per cent */
		took_ns = network->latency_ns *
				  (1 + network->noise_frac *
						  (2 * lw_random_unit(&network->random) - 1)) +
			  network->ns_per_byte * lw_probe_sizes[size].bytes *
				  (0.97 + 0.06 * lw_random_unit(&network->random));
		now_ns += took_ns;
		for (int r = 0; r < network->n_ranks; r++) {
			/* each waited for the last one: none measured the same */
			int64_t own_ns =
				(int64_t)(took_ns + 1e6 * lw_random_unit(&network->random) *
							    network->noise_frac);

			lw_probe_done(&ranks[r], agreed, own_ns);
			assert_int_equal(ranks[r].is_over, ranks[0].is_over);
			assert_int_equal(ranks[r].size, ranks[0].size);
			assert_int_equal(ranks[r].number, outcome.n_operations);
			assert_int_equal(ranks[r].burst, ranks[0].burst);
			assert_int_equal(ranks[r].position, ranks[0].position);
		}
	}
	outcome.elapsed_ns = (int64_t)now_ns;
	return outcome;
}

/* 4 ranks over 100 Mbit/s: small operations are repeated, and large ones leave time for it. */
static void a_slow_network_repeats_small_sizes_most(void **state)
{
	struct network network = {4000000, 120, 0.9, {1}, 4};
	struct outcome outcome = run_ranks(&network, INT64_C(5000000000));

	(void)state;
	for (uint32_t size = 0; size < 7; size++) {
		print_message("%u bytes: %u operations in %u bursts\n", lw_probe_sizes[size].bytes,
			outcome.n_of_size[size], outcome.n_bursts[size]);
		assert_true(outcome.n_bursts[size] >= (size < 6 ? 8 : 4));
	}
	assert_true(outcome.n_bursts[7] >= 2);
	assert_true(outcome.n_bursts[8] >= 1);    /* 2 MiB: 0.25 s each */
	assert_int_equal(outcome.n_bursts[9], 0); /* 8 MiB: 1 s, more than its share */
	assert_true(outcome.elapsed_ns <= INT64_C(5000000000));
}

static void a_fast_network_ends_early(void **state)
{
	struct network network = {5000, 0.1, 0.1, {1}, 2};
	struct outcome outcome = run_ranks(&network, INT64_C(60000000000));

	(void)state;
	for (uint32_t size = 0; size < LW_PROBE_N_SIZES; size++)
		assert_int_equal(outcome.n_bursts[size], LW_PROBE_N_PASSES);
	assert_true(outcome.elapsed_ns < INT64_C(3000000000));
}

static void one_impatient_rank_ends_it_for_all(void **state)
{
	struct lw_probe_schedule patient, impatient;
	uint64_t agreed;
	int n = 0;

	(void)state;
	lw_probe_start(&patient, INT64_C(100000000000));
	lw_probe_start(&impatient, 10000000);
	for (int64_t now_ns = 0; !patient.is_over; now_ns += 1000000) {
		assert_true(n++ < 20);
		assert_int_equal(patient.size, impatient.size);
		agreed = lw_probe_vote(&patient, now_ns) & lw_probe_vote(&impatient, now_ns);
		lw_probe_done(&patient, agreed, 1000000);
		lw_probe_done(&impatient, agreed, 1000000);
	}
	assert_true(impatient.is_over);
}

/* Whatever the network is like, all ranks do the same, it ends, and in time but for one operation. */
static void any_network_ends_in_time_on_all_ranks_alike(void **state)
{
	const char *replay = getenv("LAPWING_SEED");
	struct lw_random random = {replay ? strtoull(replay, NULL, 10) : 20240611};

	(void)state;
	print_message("seed %llu\n", (unsigned long long)random.state);
	for (int i = 0; i < 300; i++) {
		struct network network = {
			.random = {lw_random_next(&random)}, .noise_frac = lw_random_unit(&random)};
		int64_t budget_ns = (int64_t)(1e8 + 1e10 * lw_random_unit(&random));
		struct outcome outcome;
		double largest_ns = 0;

		network.n_ranks = 1 + (int)(lw_random_unit(&random) * MAX_RANKS);
		network.latency_ns = 1e3 + 3e7 * lw_random_unit(&random) * lw_random_unit(&random);
		network.ns_per_byte =
			0.05 + 300 * lw_random_unit(&random) * lw_random_unit(&random);
		outcome = run_ranks(&network, budget_ns);
		for (uint32_t size = 0; size < LW_PROBE_N_SIZES; size++)
			if (outcome.n_of_size[size])
				largest_ns =
					(network.latency_ns +
						network.ns_per_byte * lw_probe_sizes[size].bytes) *
					(1 + network.noise_frac);
		assert_true((double)outcome.elapsed_ns <=
			    (double)budget_ns + 2 * largest_ns + 2 * (double)pause_ns);
	}
}

/* ---- agreeing on one ------------------------------------------------------------------------------ */

static struct lw_hvd_vector responses = {"", "", ""};
static int n_ranks = 2;
static uint32_t n_carried;

static int job_size(void)
{
	return n_ranks;
}

static const struct lw_hvd_vector *responses_of(const void *list)
{
	(void)list;
	return &responses;
}

static uint64_t real_and(void *controller, void *words, void *count, void *d, void *e)
{
	const struct lw_hvd_vector *vector = words;

	(void)d;
	(void)e;
	assert_ptr_equal(controller, &n_ranks);
	assert_int_equal(vector->end - vector->begin, 8 * (intptr_t)count);
	n_carried++;
	return 0;
}

static struct lw_hvd_extension extension = {.call = {.size = job_size, .responses = responses_of}};
static struct lw_hvd_slot slot = {
	.real = real_and, .extension = &extension, .transport = LW_TRANSPORT_GLOO};

/* The first round of a thread: what others have in it is ANDed. Return: what Horovod sees. */
static uint64_t first_round(uint64_t own, uint64_t others)
{
	struct lw_hvd_vector words = {
		(const char *)&own, (const char *)(&own + 1), (const char *)(&own + 1)};

	lw_hvd_tls = (struct lw_hvd_tls){.may_ask_probe = true};
	refused = NULL;
	n_carried = n_recorded = 0;
	lw_hvd_probe_ask(&slot, &n_ranks, &words);
	own &= others;
	lw_hvd_probe_answer(&words);
	return own;
}

static const uint64_t PEER_ASKS = UINT64_C(0xff) << 56 | 7, PEER_DOES_NOT = 7;

static void nothing_is_sent_unless_it_is_asked_for(void **state)
{
	(void)state;
	lw_probe_budget_ns = 0;
	assert_int_equal(first_round(5, PEER_ASKS), 5);
	lw_hvd_probe_at_responses(&n_ranks, NULL);
	lw_hvd_probe_thread_ends();
	assert_int_equal(n_carried, 0);
	assert_null(refused);
}

/* One probe a process: the order of the tests below matters, each uses it up in another way. */
static void forget_claim(void)
{
	lw_probe_release();
	is_claimed = false;
	lw_probe_budget_ns = 50000000;
}

static void a_rank_that_is_not_asked_stops_all_and_changes_nothing(void **state)
{
	(void)state;
	forget_claim();
	assert_int_equal(first_round(7, PEER_DOES_NOT), 7);
	assert_non_null(strstr(refused, "not every rank"));
	responses.end = responses.begin + 1;
	lw_hvd_probe_at_responses(&n_ranks, NULL);
	assert_int_equal(n_carried, 0);
	/* nor does a word that is in use */
	forget_claim();
	assert_int_equal(first_round(UINT64_C(1) << 60 | 7, UINT64_MAX), UINT64_C(1) << 60 | 7);
	assert_non_null(refused);
}

static void all_asked_probe_once_when_the_first_work_is_agreed(void **state)
{
	(void)state;
	forget_claim();
	assert_int_equal(first_round(7, PEER_ASKS), 7);
	assert_null(refused);
	responses.end = responses.begin;
	lw_hvd_probe_at_responses(&n_ranks, NULL);
	assert_int_equal(n_carried, 0); /* nobody has anything yet */
	responses.end = responses.begin + 1;
	lw_hvd_probe_at_responses(&responses, NULL);
	assert_int_equal(n_carried, 0); /* another process set's controller */
	lw_hvd_probe_at_responses(&n_ranks, NULL);
	assert_true(n_carried > 10);
	assert_int_equal(n_recorded, n_carried);
	assert_true(n_hidden > 0);
	lw_hvd_probe_at_responses(&n_ranks, NULL);
	assert_int_equal(n_recorded, n_carried);
	lw_hvd_probe_thread_ends();
	assert_null(refused);
	/* the same process again, as elastic jobs do */
	assert_int_equal(first_round(7, PEER_ASKS), 7);
	lw_hvd_probe_at_responses(&n_ranks, NULL);
	assert_int_equal(n_carried, 0);
}

static void what_hinders_a_probe_is_said(void **state)
{
	(void)state;
	forget_claim();
	n_ranks = 1;
	first_round(7, PEER_ASKS);
	assert_non_null(strstr(refused, "one rank"));
	n_ranks = 2;
	forget_claim();
	lw_hvd_tls = (struct lw_hvd_tls){.may_ask_probe = true};
	lw_hvd_probe_thread_ends();
	assert_non_null(strstr(refused, "response cache"));
	forget_claim();
	first_round(7, PEER_ASKS);
	lw_hvd_probe_thread_ends();
	assert_non_null(strstr(refused, "before its first"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_network_repeats_small_sizes_most),
		cmocka_unit_test(a_fast_network_ends_early),
		cmocka_unit_test(one_impatient_rank_ends_it_for_all),
		cmocka_unit_test(any_network_ends_in_time_on_all_ranks_alike),
		cmocka_unit_test(nothing_is_sent_unless_it_is_asked_for),
		cmocka_unit_test(a_rank_that_is_not_asked_stops_all_and_changes_nothing),
		cmocka_unit_test(all_asked_probe_once_when_the_first_work_is_agreed),
		cmocka_unit_test(what_hinders_a_probe_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
