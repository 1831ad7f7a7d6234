/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "analyzer/fit/recovery.h"
#include "base/random.h"

enum { N = 400 };
static const double MS = 1e6;

/* Operations on a link of 12.5 MB/s whose bucket holds @bucket_ns of it, with 2 % of noise. */
static void make(struct lw_recovery_sample *samples, double bucket_ns, double least_idle_ns)
{
	struct lw_random random = {5};

	for (size_t i = 0; i < N; i++) {
		double bytes = 100000 * (double)(1 + i % 4);
		double idle_ns =
			least_idle_ns + 6 * MS * lw_random_unit(&random) * lw_random_unit(&random);

		samples[i] = (struct lw_recovery_sample){bytes,
			0.3 * MS + bytes * 80 * (0.98 + 0.04 * lw_random_unit(&random)) -
				fmin(idle_ns, bucket_ns),
			idle_ns};
	}
}

static void a_token_bucket_is_found(void **state)
{
	struct lw_recovery_sample samples[N];
	struct lw_recovery recovery;

	(void)state;
	make(samples, 2.6 * MS, 0);
	recovery = lw_recovery_fit(samples, N);
	print_message(
		"saves %.2f of pauses up to %.2f ms\n", recovery.frac, recovery.limit_ns / MS);
	assert_true(fabs(recovery.frac - 1) < 0.15);
	assert_true(recovery.limit_ns >= 2 * MS && recovery.limit_ns <= 3 * MS);
	assert_true(fabs(lw_recovery_ns(&recovery, 1 * MS) - 1 * MS) < 0.15 * MS);
	assert_true(fabs(lw_recovery_ns(&recovery, 100 * MS) - 2.6 * MS) < 0.4 * MS);
}

static void a_link_without_a_bucket_saves_nothing(void **state)
{
	struct lw_recovery_sample samples[N];

	(void)state;
	make(samples, 0, 0);
	assert_true(lw_recovery_fit(samples, N).frac == 0);
}

static void pauses_beyond_the_bucket_cannot_tell(void **state)
{
	struct lw_recovery_sample samples[N];

	(void)state;
	make(samples, 2.6 * MS, 40 * MS);
	assert_true(lw_recovery_fit(samples, N).frac == 0);
}

static void few_samples_or_one_of_each_size_cannot_tell(void **state)
{
	struct lw_recovery_sample samples[N];

	(void)state;
	make(samples, 2.6 * MS, 0);
	assert_true(lw_recovery_fit(samples, 4).frac == 0);
	make(samples, 2.6 * MS, 0);
	for (size_t i = 0; i < N; i++)
		samples[i].bytes += (double)i;
	assert_true(lw_recovery_fit(samples, N).frac == 0);
	assert_true(lw_recovery_fit(samples, 0).frac == 0);
}

static void what_pauses_were_compared_is_told(void **state)
{
	struct lw_recovery_sample samples[N];

	(void)state;
	for (size_t i = 0; i < N; i++) /* one size after 130 ms each, the other at once */
		samples[i] = (struct lw_recovery_sample){
			i % 4 ? 300000 : 100000, 20 * MS, i % 4 ? 0.3 * MS : 130 * MS};
	assert_true(lw_recovery_fit(samples, N).told_ns == 0);
	for (size_t i = 0; i < N; i++)
		samples[i] = (struct lw_recovery_sample){
			i % 2 ? 300000 : 100000, 20 * MS, i % 4 < 2 ? 0.3 * MS : 130 * MS};
	assert_true(lw_recovery_fit(samples, N).told_ns == 130 * MS);
	make(samples, 3 * MS, 0);
	assert_true(lw_recovery_fit(samples, N).told_ns > 3 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_bucket_is_found),
		cmocka_unit_test(a_link_without_a_bucket_saves_nothing),
		cmocka_unit_test(pauses_beyond_the_bucket_cannot_tell),
		cmocka_unit_test(few_samples_or_one_of_each_size_cannot_tell),
		cmocka_unit_test(what_pauses_were_compared_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
