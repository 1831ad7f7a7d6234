/* SPDX-License-Identifier: Apache-2.0 */
/* DDP: which gradients a bucket holds, and steps whose length follows by hand. LAPWING_SEED=n. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/simulate/ddp.h"
#include "base/random.h"

enum { MAX = 64 };
static const int64_t MS = 1000000;

static double ten_ns_a_byte(const void *context, const struct lw_hvd_op *op)
{
	(void)context;
	return 10.0 * (double)op->bytes;
}

struct job {
	struct lw_hvd_tensor tensors[MAX];
	int64_t ready_ns[MAX * MAX], blocked_ns[MAX], tail_ns[MAX], step_ns[MAX];
	struct lw_hvd_input input;
	struct lw_ddp_setting setting;
	struct lw_ddp_cost cost;
	struct lw_hvd_totals totals;
};

/* @ready_ms: [rank][tensor], one step; blocked when the last is ready. */
static void make_job(struct job *job, uint32_t n_ranks, uint32_t n, const uint64_t *bytes,
	const int64_t *ready_ms)
{
	memset(job, 0, sizeof(*job));
	for (uint32_t t = 0; t < n; t++)
		job->tensors[t].bytes = bytes[t];
	for (uint32_t i = 0; i < n_ranks * n; i++) {
		int64_t at_ns = ready_ms[i] < 0 ? LW_HVD_NOT_IN_STEP : ready_ms[i] * MS;

		job->ready_ns[i] = at_ns;
		if (at_ns > job->blocked_ns[i / n])
			job->blocked_ns[i / n] = at_ns;
	}
	job->input = (struct lw_hvd_input){
		n_ranks, n, 1, job->tensors, job->ready_ns, job->blocked_ns, job->tail_ns, NULL};
	job->setting = (struct lw_ddp_setting){1 << 20, 25 << 20, 1, false, true, 2};
	job->cost = (struct lw_ddp_cost){.wire_ns = ten_ns_a_byte, .sharing = 1};
}

static int64_t run(struct job *job)
{
	assert_int_equal(lw_ddp_sim_run(&job->input, &job->setting, &job->cost, job->step_ns,
				 &job->totals, NULL),
		0);
	return job->step_ns[0];
}

static void assert_buckets(const uint64_t *bytes, const int32_t *classes, uint32_t n,
	const struct lw_ddp_setting *setting, const uint32_t *expected)
{
	struct lw_hvd_tensor tensors[MAX] = {{0}};
	uint32_t bucket_of[MAX], scratch[MAX];

	for (uint32_t t = 0; t < n; t++)
		tensors[t] = (struct lw_hvd_tensor){bytes[t], classes ? classes[t] : 0};
	lw_ddp_assign(tensors, n, setting, bucket_of, scratch);
	assert_memory_equal(bucket_of, expected, n * sizeof(*expected));
}

static void a_bucket_is_full_at_its_limit_or_above(void **state)
{
	static const uint64_t bytes[] = {60, 40, 150, 60, 200, 1};
	struct lw_ddp_setting setting = {100, 200, 1, false, false, 2};

	(void)state;
	assert_buckets(bytes, NULL, 6, &setting, (const uint32_t[]){0, 0, 1, 1, 2, 3});
	setting.is_static = true; /* made in order of registration, the last is sent first */
	assert_buckets(bytes, NULL, 6, &setting, (const uint32_t[]){3, 3, 2, 2, 1, 0});
	setting = (struct lw_ddp_setting){100, 200, 0.5, false, false, 2}; /* half is sent */
	assert_buckets(bytes, NULL, 6, &setting, (const uint32_t[]){0, 1, 1, 2, 2, 3});
	setting = (struct lw_ddp_setting){100, 200, 1, false, true, 2};
	assert_buckets(bytes, NULL, 6, &setting, (const uint32_t[]){0, 1, 2, 3, 4, 5});
}

static void types_do_not_share_a_bucket(void **state)
{
	static const uint64_t bytes[] = {60, 60, 60, 60, 100, 100};
	static const int32_t classes[] = {8, 7, 8, 7, 8, 7};
	struct lw_ddp_setting setting = {100, 200, 1, false, false, 2};

	(void)state;
	/* each type has a first bucket; those that stay open come last */
	assert_buckets(bytes, classes, 6, &setting, (const uint32_t[]){0, 1, 0, 1, 2, 3});
}

static void a_lone_bucket_takes_what_it_takes(void **state)
{
	static const uint64_t bytes[] = {1000000};
	static const int64_t ready_ms[] = {20, 30};
	struct job job;

	(void)state;
	make_job(&job, 2, 1, bytes, ready_ms);
	assert_int_equal(run(&job), 40 * MS); /* when the last rank has it */
	job.cost.dispatch_ns = 2e6;
	job.cost.wake_ns = 3e6;
	job.tail_ns[0] = 5 * MS;
	assert_int_equal(run(&job), 50 * MS);
	assert_int_equal(job.step_ns[1], 45 * MS);
}

static void two_operations_share_the_wire(void **state)
{
	static const uint64_t bytes[] = {2000000, 1000000};
	static const int64_t ready_ms[] = {10, 20};
	struct job job;

	(void)state;
	make_job(&job, 1, 2, bytes, ready_ms);
	/* 10 ms alone, then 20 ms together in which each gets 10 ms done: both end at 40 */
	assert_int_equal(run(&job), 40 * MS);
	job.cost.sharing = 2; /* do not get into each other's way */
	assert_int_equal(run(&job), 30 * MS);
	job.cost.sharing = 1;
	job.setting.n_threads = 1;
	assert_int_equal(run(&job), 40 * MS);
	assert_int_equal(job.totals.n_batches, 2);
	assert_int_equal(job.totals.bytes, 3000000);
	assert_true(fabs(job.totals.exposed_ns - 20e6) < 1);
	assert_true(fabs(job.totals.exposed_wire_ns - 20e6) < 1);
}

static void the_third_bucket_waits_for_a_thread(void **state)
{
	static const uint64_t bytes[] = {3000000, 1000000, 1000000};
	static const int64_t ready_ms[] = {0, 0, 0};
	struct job job;

	(void)state;
	make_job(&job, 1, 3, bytes, ready_ms);
	job.cost.sharing = 2;
	/* 1 done at 10, 2 runs from there to 20; 0 ends at 30 */
	assert_int_equal(run(&job), 30 * MS);
	job.setting.n_threads = 1;
	assert_int_equal(run(&job), 50 * MS);
	/* three get as much done as two did: the short ones end at 15, when the long one has 20 left */
	job.setting.n_threads = 3;
	assert_int_equal(run(&job), 35 * MS);
	job.cost.sharing = 3;
	assert_int_equal(run(&job), 30 * MS);
}

static void buckets_are_queued_in_order(void **state)
{
	static const uint64_t bytes[] = {1000000, 1000000};
	static const int64_t ready_ms[] = {50, 10};
	struct job job;

	(void)state;
	make_job(&job, 1, 2, bytes, ready_ms);
	/* the second is ready early and waits for the first: both start at 50 */
	assert_int_equal(run(&job), 70 * MS);
}

static void one_bucket_waits_for_its_last_gradient(void **state)
{
	static const uint64_t bytes[] = {600000, 400000, 1000000};
	static const int64_t ready_ms[] = {10, 40, 40};
	struct job job;

	(void)state;
	make_job(&job, 1, 3, bytes, ready_ms);
	job.setting = (struct lw_ddp_setting){1000000, 1000000, 1, false, false, 2};
	assert_int_equal(run(&job), 60 * MS);
	job.setting.first_bytes = 600000; /* two buckets: {0}, {1, 2}; 6 ms of one are hidden */
	job.setting.cap_bytes = 2000000;
	assert_int_equal(run(&job), 54 * MS);
}

static void buckets_are_copied_back_one_after_the_other(void **state)
{
	static const uint64_t bytes[] = {1000000, 1000000};
	static const int64_t ready_ms[] = {0, 10};
	struct job job;

	(void)state;
	make_job(&job, 1, 2, bytes, ready_ms);
	job.cost.copy_ns_per_byte = 3;
	job.cost.last_bytes = 1000000;
	/* the first is done at 10, copied until 13; the second is done at 20, its copy is in what
	 * comes next as it was */
	assert_int_equal(run(&job), 20 * MS);
	job.cost.last_bytes = 0;
	assert_int_equal(run(&job), 23 * MS);
	job.cost.copy_ns_per_byte = 15; /* copying the first takes longer than sending the second */
	job.cost.last_bytes = 1000000;
	assert_int_equal(run(&job), 25 * MS);
}

static void a_tensor_that_is_not_in_the_step_is_not_waited_for(void **state)
{
	static const uint64_t bytes[] = {500000, 500000, 1000000};
	static const int64_t ready_ms[] = {5, -1, -1};
	struct job job;

	(void)state;
	make_job(&job, 1, 3, bytes, ready_ms);
	job.setting = (struct lw_ddp_setting){1000000, 1000000, 1, false, false, 2};
	assert_int_equal(run(&job), 15 * MS); /* its place in the bucket is sent nevertheless */
	assert_int_equal(job.totals.n_batches, 1);
}

/* Whatever the buckets: no step is shorter than its computing, nor than the wire needs for all bytes;
 * and on a link that one operation fills it is no longer than all of that in a row. */
static void steps_keep_within_their_bounds(void **state)
{
	const char *text = getenv("LAPWING_SEED");
	struct lw_random random = {text ? strtoull(text, NULL, 10) : 1};

	(void)state;
	printf("seed %llu\n", (unsigned long long)random.state);
	for (int i = 0; i < 3000; i++) {
		uint32_t n = 1 + (uint32_t)(lw_random_below(&random, 12));
		uint32_t n_ranks = 1 + (uint32_t)(lw_random_below(&random, 3));
		double sum_bytes = 0, wire_ns;
		int64_t ready_ms[MAX], last_ms = 0, at_ms = 0;
		uint64_t bytes[MAX];
		struct job job;

		for (uint32_t t = 0; t < n; t++) {
			bytes[t] = lw_random_below(&random, 900000) + 1;
			sum_bytes += (double)bytes[t];
			at_ms += (int64_t)(lw_random_below(&random, 8));
			for (uint32_t r = 0; r < n_ranks; r++) {
				ready_ms[r * n + t] =
					at_ms + (int64_t)(lw_random_below(&random, 4));
				if (ready_ms[r * n + t] > last_ms)
					last_ms = ready_ms[r * n + t];
			}
		}
		make_job(&job, n_ranks, n, bytes, ready_ms);
		job.setting = (struct lw_ddp_setting){lw_random_below(&random, 1000000),
			lw_random_below(&random, 3000000), 1, lw_random_below(&random, 2), false,
			1 + (uint32_t)(lw_random_below(&random, 3))};
		run(&job);
		wire_ns = 10 * sum_bytes;
		for (uint32_t r = 0; r < n_ranks; r++) {
			double step_ns = (double)job.step_ns[r];

			assert_true(step_ns >= (double)(last_ms * MS));
			assert_true(step_ns >= wire_ns - 10);
			assert_true(step_ns <= (double)(last_ms * MS) + wire_ns + 100);
		}
		assert_true(fabs(job.totals.wire_ns - wire_ns) < 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_is_full_at_its_limit_or_above),
		cmocka_unit_test(types_do_not_share_a_bucket),
		cmocka_unit_test(a_lone_bucket_takes_what_it_takes),
		cmocka_unit_test(two_operations_share_the_wire),
		cmocka_unit_test(the_third_bucket_waits_for_a_thread),
		cmocka_unit_test(buckets_are_queued_in_order),
		cmocka_unit_test(one_bucket_waits_for_its_last_gradient),
		cmocka_unit_test(buckets_are_copied_back_one_after_the_other),
		cmocka_unit_test(a_tensor_that_is_not_in_the_step_is_not_waited_for),
		cmocka_unit_test(steps_keep_within_their_bounds),
	};

	return cmocka_run_group_tests_name("ddp", tests, NULL, NULL);
}
