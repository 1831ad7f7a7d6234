/* SPDX-License-Identifier: Apache-2.0 */
/* What sharing the wire costs: the range that is told holds the truth as often as it says, also with few stretches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/simulate/extract_ddp_cost.c"
#include "base/random.h"

enum { N_RUNS = 2000, MAX_STRETCHES = 40 };
static const double TRUE_SHARING = 1.5;

static double normal(struct lw_random *random)
{
	double u = 1 - lw_random_unit(random);

	return sqrt(-2 * log(u)) * cos(2 * M_PI * lw_random_unit(random));
}

/* Stretches of which a part is shared, timed with an error of 3 %. Return: how often the truth is in the range. */
static double coverage_frac(struct lw_random *random, size_t n)
{
	struct stretch room[MAX_STRETCHES];
	stretches all = {room, n, n};
	size_t n_covered = 0;

	for (int run = 0; run < N_RUNS; run++) {
		struct lw_ddp ddp = {.setting.n_threads = 2};

		for (size_t i = 0; i < n; i++) {
			double bytes = 1e6 * (1 + 9 * lw_random_unit(random));
			double time_ns = (1e6 + 10 * bytes) * (1 + 0.03 * normal(random));
			double shared_frac = 0.1 + 0.8 * lw_random_unit(random);

			room[i] = (struct stretch){bytes, time_ns * (1 - shared_frac),
				time_ns * shared_frac / TRUE_SHARING};
		}
		find_sharing(&all, &ddp);
		n_covered += ddp.sharing_low <= TRUE_SHARING && ddp.sharing_high >= TRUE_SHARING;
	}
	return (double)n_covered / N_RUNS;
}

static void the_range_holds_the_truth_as_often_as_it_says(void **state)
{
	const char *replay = getenv("LAPWING_SEED");
	struct lw_random random = {replay ? strtoull(replay, NULL, 10) : 20240611};

	(void)state;
	print_message("seed %llu\n", (unsigned long long)random.state);
	for (size_t n = MIN_STRETCHES; n <= MAX_STRETCHES; n += 16) {
		double frac = coverage_frac(&random, n);

		print_message("%zu stretches: %.1f %%\n", n, 100 * frac);
		assert_true(frac > 0.935 && frac < 0.985); /* 2000 runs: 95 % within 1.5 */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_range_holds_the_truth_as_often_as_it_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
