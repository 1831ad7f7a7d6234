/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prop_reconstruct.c - what must hold for every run: parts add up exactly, the order in which rows arrive
 * does not matter, a lost record is one finding, and longer times scale every figure alike.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/run_fixture.h"

enum { N_CASES = 40, MAX_TENSORS = 12 };

static uint64_t state;

static int64_t random_below(int64_t n)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (int64_t)((z ^ (z >> 31)) % (uint64_t)n);
}

static struct make_tensor tensors[MAX_TENSORS];
static char names[MAX_TENSORS][16];

static struct make_run random_job(int min_ranks)
{
	struct make_run spec =
		make_run_job(min_ranks + (int)random_below(4), 4 + (int)random_below(8));
	int64_t at_ns = 0;
	int batch = 0;

	spec.tensors = tensors;
	spec.n_tensors = 1 + (int)random_below(MAX_TENSORS);
	for (int t = 0; t < spec.n_tensors; t++) {
		snprintf(names[t], sizeof(names[t]), "grad.%d", t);
		at_ns += 1 + random_below(20000000);
		batch += t > 0 && random_below(2);
		tensors[t] = (struct make_tensor){
			names[t], 4 + 4 * (uint64_t)random_below(1000000), at_ns, batch};
	}
	for (int b = 0; b < MAKE_RUN_MAX; b++)
		spec.wire_ns[b] = 1 + random_below(30000000);
	for (int r = 0; r < spec.n_ranks; r++)
		spec.late_ns[r] = random_below(3) ? 0 : random_below(10000000);
	spec.tick_ns = random_below(5000000);
	spec.coordination_ns = 1 + random_below(300000);
	spec.copy_ns = random_below(200000);
	spec.resume_ns = random_below(1000000);
	/* the thread waits before its last operation is done */
	spec.block_ns = random_below(spec.coordination_ns);
	spec.n_broadcasts = (int)random_below(3);
	spec.has_metric = random_below(3) == 0;
	spec.no_waits = random_below(4) == 0;
	spec.has_tail_metric = !spec.no_waits && !spec.has_metric && random_below(4) == 0;
	spec.no_cycles = random_below(5) == 0;
	spec.no_wire = random_below(5) == 0;
	return spec;
}

static void seed(void)
{
	const char *text = getenv("LAPWING_SEED");

	state = text ? strtoull(text, NULL, 0) : 20261129;
	print_message("seed %llu (LAPWING_SEED replays)\n", (unsigned long long)state);
}

static void check_parts(const struct lw_step *step)
{
	int64_t step_ns = step->end_ns - step->start_ns;
	const int64_t parts_ns[] = {step->compute_ns, step->hidden_ns, step->exposed_ns,
		step->idle_ns, step->comm_ns, step->negotiate_ns, step->wait_ns, step->allreduce_ns,
		step->misc_ns, step->late_ns, step->tick_ns, step->entry_ns};

	for (size_t i = 0; i < sizeof(parts_ns) / sizeof(parts_ns[0]); i++)
		assert_true(parts_ns[i] >= 0 && parts_ns[i] <= step_ns);
	assert_int_equal(step->compute_ns + step->exposed_ns + step->idle_ns, step_ns);
	assert_int_equal(step->hidden_ns + step->exposed_ns, step->comm_ns);
	assert_int_equal(step->exposed_allreduce_ns + step->exposed_misc_ns +
				 step->exposed_wait_ns + step->exposed_negotiate_ns,
		step->exposed_ns);
	assert_true(step->exposed_entry_ns <= step->exposed_allreduce_ns);
	assert_true(step->late_ns <= step->negotiate_ns);
	assert_true(step->tick_ns <= step->wait_ns);
	assert_true(step->entry_ns <= step->allreduce_ns);
}

static void the_parts_of_every_step_add_up(void **unused)
{
	(void)unused;
	seed();
	for (int i = 0; i < N_CASES; i++) {
		struct make_run spec = random_job(1);
		struct lw_run *run = run_fixture_analyze(&spec);

		for (size_t r = 0; r < run->ranks.n; r++) {
			assert_int_equal(run->ranks.at[r].steps.n, spec.n_steps);
			for (size_t s = 0; s < run->ranks.at[r].steps.n; s++) {
				const struct lw_step *step = &run->ranks.at[r].steps.at[s];

				check_parts(step);
				if (s)
					assert_int_equal(step->start_ns, step[-1].end_ns);
				if (s && !spec.has_tail_metric)
					assert_int_equal(step->end_ns - step->start_ns,
						make_run_step_ns(&spec));
			}
		}
		lw_run_free(run);
	}
}

static void check_same_steps(const struct lw_run *a, const struct lw_run *b, int64_t scale)
{
	assert_int_equal(a->groups.n, b->groups.n);
	assert_int_equal(a->ranks.n, b->ranks.n);
	for (size_t r = 0; r < a->ranks.n; r++) {
		assert_int_equal(a->ranks.at[r].steps.n, b->ranks.at[r].steps.n);
		for (size_t s = 0; s < a->ranks.at[r].steps.n; s++) {
			const struct lw_step *x = &a->ranks.at[r].steps.at[s];
			const struct lw_step *y = &b->ranks.at[r].steps.at[s];

			assert_int_equal(x->n_batches, y->n_batches);
			assert_ptr_equal(x->excluded, y->excluded);
			assert_int_equal(x->compute_ns * scale, y->compute_ns);
			assert_int_equal(x->comm_ns * scale, y->comm_ns);
			assert_int_equal(x->hidden_ns * scale, y->hidden_ns);
			assert_int_equal(x->exposed_ns * scale, y->exposed_ns);
			assert_int_equal(x->idle_ns * scale, y->idle_ns);
			assert_int_equal(x->negotiate_ns * scale, y->negotiate_ns);
			assert_int_equal(x->wait_ns * scale, y->wait_ns);
			assert_int_equal(x->allreduce_ns * scale, y->allreduce_ns);
			assert_int_equal(x->misc_ns * scale, y->misc_ns);
			assert_int_equal(x->tick_ns * scale, y->tick_ns);
		}
	}
}

static void rows_in_any_order_give_the_same(void **unused)
{
	(void)unused;
	seed();
	for (int i = 0; i < N_CASES; i++) {
		struct make_run spec = random_job(2);
		struct lw_run *in_order = run_fixture_analyze(&spec), *shuffled;

		spec.shuffle_seed = 1 + (uint64_t)random_below(1000000);
		shuffled = run_fixture_analyze(&spec);
		check_same_steps(in_order, shuffled, 1);
		for (size_t g = 0; g < in_order->groups.n; g++)
			assert_memory_equal(in_order->groups.at[g].batch_of_rank,
				shuffled->groups.at[g].batch_of_rank,
				in_order->ranks.n * sizeof(int32_t));
		lw_run_free(in_order);
		lw_run_free(shuffled);
	}
}

static void a_lost_record_is_one_finding(void **unused)
{
	(void)unused;
	seed();
	for (int i = 0; i < N_CASES; i++) {
		struct make_run spec = random_job(2);
		struct lw_run *whole = run_fixture_analyze(&spec), *run;
		const struct lw_group *group;
		size_t n_holes = 0;

		spec.has_lost = true;
		spec.lost_rank = random_below(spec.n_ranks);
		spec.lost_step = random_below(spec.n_steps);
		spec.lost_batch = random_below(tensors[spec.n_tensors - 1].batch + 1);
		run = run_fixture_analyze(&spec);
		assert_int_equal(run_fixture_diag(run, "unmatched operation"), 1);
		assert_int_equal(run->groups.n, whole->groups.n);
		lw_vec_foreach (group, &run->groups)
			n_holes += group->n_ranks < run->ranks.n;
		assert_int_equal(n_holes, 1);
		assert_non_null(run->ranks.at[0].steps.at[spec.lost_step].excluded);
		lw_run_free(whole);
		lw_run_free(run);
	}
}

static void longer_times_scale_every_figure(void **unused)
{
	(void)unused;
	seed();
	for (int i = 0; i < N_CASES; i++) {
		struct make_run spec = random_job(1);
		struct lw_run *run = run_fixture_analyze(&spec), *scaled;

		spec.scale = 2 + random_below(9);
		scaled = run_fixture_analyze(&spec);
		check_same_steps(run, scaled, spec.scale);
		lw_run_free(run);
		lw_run_free(scaled);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_parts_of_every_step_add_up),
		cmocka_unit_test(rows_in_any_order_give_the_same),
		cmocka_unit_test(a_lost_record_is_one_finding),
		cmocka_unit_test(longer_times_scale_every_figure),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
