/* SPDX-License-Identifier: Apache-2.0 */
/* The twin of Horovod's loop: properties over random jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/hvd_job.h"

static uint64_t seed = 20240611;

static uint64_t draw(uint64_t *random, uint64_t n) /* 0 <= result < n */
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random % n;
}

static void draw_job(struct job *job, uint64_t *random)
{
	uint32_t n_ranks = 1 + (uint32_t)draw(random, MAX_RANKS);
	uint32_t n_tensors = 1 + (uint32_t)draw(random, MAX_TENSORS);
	uint32_t n_steps = 1 + (uint32_t)draw(random, MAX_STEPS);

	job_init(job, n_ranks, n_tensors, n_steps);
	for (uint32_t t = 0; t < n_tensors; t++) {
		job->tensors[t].bytes = 1 + draw(random, UINT64_C(1) << (4 + draw(random, 20)));
		job->tensors[t].fuse_class = (int32_t)draw(random, 3) - (draw(random, 8) == 0);
	}
	for (uint32_t s = 0; s < n_steps; s++)
		for (uint32_t r = 0; r < n_ranks; r++) {
			int64_t last_ns = 0;

			for (uint32_t t = 0; t < n_tensors; t++) {
				*ready(job, s, r, t) = (int64_t)draw(random, 200 * MS);
				if (*ready(job, s, r, t) > last_ns)
					last_ns = *ready(job, s, r, t);
			}
			job->blocked_ns[s * n_ranks + r] = last_ns + (int64_t)draw(random, MS);
			job->tail_ns[s * n_ranks + r] = (int64_t)draw(random, 3 * MS);
		}
	job->setting.fusion_bytes = draw(random, 2) ? draw(random, 1 << 22) : 0;
	job->setting.cycle_ns = (int64_t)draw(random, 30 * MS);
	job->setting.local_size = (uint32_t)draw(random, 3);
	job->line = (struct line){(double)draw(random, 3 * MS), (double)draw(random, 100)};
	job->cost.round_ns = (double)draw(random, MS);
	job->cost.oversleep_ns = (double)draw(random, 100 * US);
	job->cost.late_ns = (double)draw(random, MS);
	job->cost.poll_ns = (double)draw(random, 2 * MS);
	job->cost.between_ns = (double)draw(random, 50 * US);
	job->cost.copy_in_ns_per_byte = (double)draw(random, 2);
}

static void a_step_is_never_shorter_than_its_critical_path(void **state)
{
	uint64_t random = seed;
	static struct job job;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < 1000; i++) {
		uint64_t bytes = 0;
		uint32_t n_members = 0;
		double wire_ns = 0;

		draw_job(&job, &random);
		job_run(&job);
		for (uint32_t b = 0; b < job.seen.n; b++) {
			bytes += job.seen.batch[b].bytes;
			n_members += job.seen.batch[b].n_members;
			wire_ns += line_ns(
				&job.line, &(struct lw_hvd_op){.bytes = job.seen.batch[b].bytes});
		}
		/* every tensor was sent once a step, and no byte was lost */
		assert_int_equal(n_members, job.input.n_tensors * job.input.n_steps);
		assert_int_equal(bytes, job.totals.bytes);
		for (uint32_t t = 0; t < job.input.n_tensors; t++)
			bytes -= job.tensors[t].bytes * job.input.n_steps;
		assert_int_equal(bytes, 0);
		assert_true(job.totals.wire_ns > wire_ns - 1e-3 * wire_ns - job.seen.n &&
			    job.totals.wire_ns < wire_ns + 1e-3 * wire_ns + job.seen.n);
		for (uint32_t s = 0; s < job.input.n_steps; s++)
			for (uint32_t r = 0; r < job.input.n_ranks; r++)
				assert_true(job.step_ns[s * job.input.n_ranks + r] >=
					    job.blocked_ns[s * job.input.n_ranks + r] +
						    job.tail_ns[s * job.input.n_ranks + r]);
		assert_true(job.totals.exposed_wire_ns + job.totals.exposed_copy_ns +
				    job.totals.exposed_poll_ns + job.totals.exposed_cycle_ns <=
			    job.totals.exposed_ns * (1 + 1e-9) + 1);
		assert_true(job.totals.exposed_cycle_ns >= -1);
	}
}

static void a_batch_holds_no_more_than_the_threshold(void **state)
{
	uint64_t random = seed + 1;
	static struct job job;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed + 1);
	for (int i = 0; i < 1000; i++) {
		draw_job(&job, &random);
		job_run(&job);
		for (uint32_t b = 0; b < job.seen.n; b++)
			assert_true(job.seen.batch[b].n_members == 1 ||
				    job.seen.batch[b].bytes <=
					    lw_hvd_effective_bytes(job.setting.fusion_bytes,
						    job.setting.local_size));
	}
}

/* With one tensor a step nothing can be batched otherwise: the order and the plan are fixed. The
 * loop never sleeps (cycle 0), as a shorter operation may otherwise just miss a tick. */
static void more_bandwidth_is_never_slower_under_a_fixed_plan(void **state)
{
	uint64_t random = seed + 2;
	static struct job job;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed + 2);
	for (int i = 0; i < 1000; i++) {
		int64_t slow_ns = 0, fast_ns = 0;

		draw_job(&job, &random);
		job.input.n_tensors = 1;
		job.input.n_steps = 1;
		job.setting.cycle_ns = 0;
		job.cost.oversleep_ns = 0;
		job_run(&job);
		slow_ns = job.step_ns[0];
		job.line.ns_per_byte /= 2;
		job_run(&job);
		fast_ns = job.step_ns[0];
		assert_true(fast_ns <= slow_ns);
	}
}

static void two_runs_give_the_same_bytes(void **state)
{
	uint64_t random = seed + 3;
	static struct job job;
	static int64_t first_ns[MAX_STEPS * MAX_RANKS];
	struct lw_hvd_totals totals;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed + 3);
	for (int i = 0; i < 200; i++) {
		draw_job(&job, &random);
		job_run(&job);
		memcpy(first_ns, job.step_ns, sizeof(first_ns));
		totals = job.totals;
		memset(job.step_ns, 0xff, sizeof(job.step_ns));
		job_run(&job);
		assert_memory_equal(first_ns, job.step_ns,
			job.input.n_steps * job.input.n_ranks * sizeof(*first_ns));
		assert_memory_equal(&totals, &job.totals, sizeof(totals));
	}
}

/* The stride over idle rounds against the rule itself, turned round by round. */
static void striding_over_idle_rounds_changes_nothing(void **state)
{
	uint64_t random = seed + 4;
	static struct job job;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed + 4);
	for (int i = 0; i < 500; i++) {
		int64_t round_ns, due_ns = 0, ready_ns = (int64_t)draw(&random, 300 * MS);
		double oversleep_ns = (double)draw(&random, 100 * US);

		job_init(&job, 1, 1, 1);
		job.setting.cycle_ns = (int64_t)draw(&random, 3 * MS);
		job.cost.round_ns = (double)(1000 + draw(&random, 2 * MS));
		job.cost.oversleep_ns = oversleep_ns;
		*ready(&job, 0, 0, 0) = job.blocked_ns[0] = ready_ns;
		job_run(&job);
		for (round_ns = 0;;) { /* the rule itself, round by round */
			due_ns = job.seen.n ? round_ns + job.setting.cycle_ns : 0;
			if (round_ns > 0 && (double)round_ns + job.cost.round_ns >= (double)due_ns)
				round_ns += (int64_t)job.cost.round_ns;
			else if (round_ns == 0 && job.setting.cycle_ns == 0)
				round_ns = 1000;
			else
				round_ns = due_ns + (int64_t)oversleep_ns;
			if (round_ns >= ready_ns)
				break;
		}
		assert_int_equal(
			job.seen.batch[0].agreed_ns, round_ns + (int64_t)job.cost.round_ns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_is_never_shorter_than_its_critical_path),
		cmocka_unit_test(a_batch_holds_no_more_than_the_threshold),
		cmocka_unit_test(more_bandwidth_is_never_slower_under_a_fixed_plan),
		cmocka_unit_test(two_runs_give_the_same_bytes),
		cmocka_unit_test(striding_over_idle_rounds_changes_nothing),
	};
	const char *chosen = getenv("LAPWING_SEED");

	if (chosen)
		seed = strtoull(chosen, NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
