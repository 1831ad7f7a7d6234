/* SPDX-License-Identifier: Apache-2.0 */
/* test_stats.c - medians, middles, and how far they would be off in another run. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/simulate/stats.h"

static void medians_and_their_intervals(void **state)
{
	double values[101], median, low, high;

	(void)state;
	for (int i = 0; i < 101; i++)
		values[i] = (i * 37) % 101;
	lw_stats_interval(values, 101, &median, &low, &high);
	assert_true(median == 50);
	/* binomial: order statistics 41 and 61 of 101 bound the median at 95 % */
	assert_true(low >= 36 && low <= 44 && high >= 56 && high <= 64);
	values[0] = 7;
	lw_stats_interval(values, 1, &median, &low, &high);
	assert_true(median == 7 && isnan(low) && isnan(high));
	values[0] = 1;
	values[1] = 2;
	lw_stats_interval(values, 2, &median, &low, &high);
	assert_true(median == 1.5 && low == 1 && high == 2);
}

static void the_median_of_a_long_series_is_of_all_its_values(void **state)
{
	enum { N = 1025 };
	double values[N], median, low, high;

	(void)state;
	for (int i = 0; i < N;
		i++) /* every third, which thinning the series would keep, is large */
		values[i] = i % 3 ? i : 10000 + i;
	lw_stats_interval(values, N, &median, &low, &high);
	print_message("median of %d values: %g (%g to %g)\n", N, median, low, high);
	assert_true(median == lw_stats_median(values, N));
	assert_true(low < median && median < high);
}

/* Three in five take 24, the others 27: the middle lies between, and no resample's median does. */
static void what_is_said_of_steps_lies_inside_its_interval(void **state)
{
	double values[100], middle, low, high;

	(void)state;
	for (int i = 0; i < 100; i++)
		values[i] = i % 5 < 3 ? 24 : 27;
	lw_stats_step(values, 100, &middle, &low, &high);
	print_message("%g (%g to %g)\n", middle, low, high);
	assert_true(middle > 24.5 && middle < 25);
	assert_true(low < middle - 0.2 && high > middle + 0.2);
	assert_true(low >= 24 && high <= 27);
	lw_stats_step(values, 1, &middle, &low, &high);
	assert_true(middle == 24 && isnan(low) && isnan(high));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(medians_and_their_intervals),
		cmocka_unit_test(the_median_of_a_long_series_is_of_all_its_values),
		cmocka_unit_test(what_is_said_of_steps_lies_inside_its_interval),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
