/* SPDX-License-Identifier: Apache-2.0 */
/* The graph simulator against what can be worked out by hand or by another way. LAPWING_SEED=n. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/simulate/dag.h"
#include "base/err.h"
#include "base/random.h"

enum { N_INSTANCES = 500, MAX_OPS = 60 };

static uint64_t seed_base(void)
{
	const char *text = getenv("LAPWING_SEED");

	return text ? strtoull(text, NULL, 10) : 1;
}

static void assert_close(double value, double expected)
{
	if (!(fabs(value - expected) <= 1e-9 * fmax(1, fabs(expected))))
		fail_msg("%.12g is not %.12g", value, expected);
}

static void run(struct lw_dag *dag)
{
	if (lw_dag_run(dag) < 0)
		fail_msg("%s", lw_error_text());
}

static void two_flows_share_a_link(void **state)
{
	struct lw_dag *dag = lw_dag_new();
	uint32_t link = lw_dag_resource(dag, LW_DAG_LINK, 2);
	uint32_t small = lw_dag_op(dag, link, 100), large = lw_dag_op(dag, link, 300);

	(void)state;
	run(dag);
	assert_close(lw_dag_end_ns(dag, small), 100); /* at 1 byte a ns */
	assert_close(lw_dag_end_ns(dag, large), 200); /* the last 200 bytes alone */
	assert_close(lw_dag_makespan_ns(dag), 200);
	lw_dag_free(dag);
}

static void a_flow_that_comes_later_slows_the_first(void **state)
{
	struct lw_dag *dag = lw_dag_new();
	uint32_t link = lw_dag_resource(dag, LW_DAG_LINK, 1);
	uint32_t delay = lw_dag_resource(dag, LW_DAG_DELAY, 0);
	uint32_t late = lw_dag_op(dag, delay, 50);
	uint32_t first = lw_dag_op(dag, link, 100), second = lw_dag_op(dag, link, 300);

	(void)state;
	lw_dag_after(dag, second, late);
	lw_dag_after(dag, first, LW_DAG_NONE);
	run(dag);
	assert_close(lw_dag_end_ns(dag, first), 150); /* 50 alone, 50 at half the rate */
	assert_close(lw_dag_end_ns(dag, second), 400);
	lw_dag_free(dag);
}

static void a_flow_gets_the_lesser_of_its_two_shares(void **state)
{
	struct lw_dag *dag = lw_dag_new();
	uint32_t out = lw_dag_resource(dag, LW_DAG_LINK, 1);
	uint32_t wide = lw_dag_resource(dag, LW_DAG_LINK, 100);
	uint32_t narrow = lw_dag_resource(dag, LW_DAG_LINK, 0.25);
	uint32_t to_wide = lw_dag_flow(dag, out, wide, 100);
	uint32_t to_narrow = lw_dag_flow(dag, out, narrow, 100);

	(void)state;
	run(dag);
	assert_close(lw_dag_end_ns(dag, to_wide), 200);   /* half of the way out */
	assert_close(lw_dag_end_ns(dag, to_narrow), 400); /* the way in */
	lw_dag_free(dag);
}

static void a_device_serves_one_at_a_time_in_order(void **state)
{
	struct lw_dag *dag = lw_dag_new();
	uint32_t device = lw_dag_resource(dag, LW_DAG_FIFO, 0);
	uint32_t delay = lw_dag_resource(dag, LW_DAG_DELAY, 0);
	uint32_t soon = lw_dag_op(dag, delay, 5), sooner = lw_dag_op(dag, delay, 3);
	uint32_t third = lw_dag_op(dag, device, 7), second = lw_dag_op(dag, device, 11);
	uint32_t first = lw_dag_op(dag, device, 10);

	(void)state;
	lw_dag_after(dag, third, soon);
	lw_dag_after(dag, second, sooner);
	run(dag);
	assert_close(lw_dag_end_ns(dag, first), 10);
	assert_close(lw_dag_end_ns(dag, second), 21);
	assert_close(lw_dag_end_ns(dag, third), 28);
	lw_dag_free(dag);
}

static void ticks_end_at_multiples_of_their_period(void **state)
{
	static const double ready_ns[] = {0, 1, 5, 5.5, 20}, end_ns[] = {2, 7, 7, 12, 22};
	struct lw_dag *dag = lw_dag_new();
	uint32_t tick = lw_dag_resource(dag, LW_DAG_TICK, 5);
	uint32_t always = lw_dag_resource(dag, LW_DAG_TICK, 0);
	uint32_t delay = lw_dag_resource(dag, LW_DAG_DELAY, 0);
	uint32_t ops[5], at_once[5];

	(void)state;
	for (int i = 0; i < 5; i++) {
		uint32_t before = lw_dag_op(dag, delay, ready_ns[i]);

		ops[i] = lw_dag_op(dag, tick, 2);
		at_once[i] = lw_dag_op(dag, always, 2);
		lw_dag_after(dag, ops[i], before);
		lw_dag_after(dag, at_once[i], before);
	}
	run(dag);
	for (int i = 0; i < 5; i++) {
		assert_close(lw_dag_end_ns(dag, ops[i]), end_ns[i]);
		assert_close(lw_dag_end_ns(dag, at_once[i]), ready_ns[i] + 2);
	}
	lw_dag_free(dag);
}

static void nothing_takes_no_time_and_a_circle_is_refused(void **state)
{
	struct lw_dag *dag = lw_dag_new();
	uint32_t link, a, b;

	(void)state;
	run(dag);
	assert_true(lw_dag_makespan_ns(dag) == 0);
	lw_dag_free(dag);
	dag = lw_dag_new();
	link = lw_dag_resource(dag, LW_DAG_LINK, 1);
	a = lw_dag_op(dag, link, 0);
	b = lw_dag_op(dag, link, 0);
	lw_dag_after(dag, b, a);
	assert_int_equal(lw_dag_n(dag), 2);
	run(dag);
	assert_true(lw_dag_end_ns(dag, b) == 0);
	lw_dag_free(dag);
	dag = lw_dag_new();
	link = lw_dag_resource(dag, LW_DAG_LINK, 1);
	a = lw_dag_op(dag, link, 1);
	b = lw_dag_op(dag, link, 1);
	lw_dag_after(dag, b, a);
	lw_dag_after(dag, a, b);
	assert_int_equal(lw_dag_run(dag), LW_ERR_STATE);
	assert_non_null(strstr(lw_error_text(), "2 operations wait"));
	lw_dag_free(dag);
}

static int ascending(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* n flows from time 0: the i-th smallest ends when all have had its bytes or less. */
static void equal_shares_as_worked_out(void **state)
{
	(void)state;
	for (uint64_t k = 0; k < N_INSTANCES; k++) {
		struct lw_random random = {seed_base() + k};
		size_t n = 1 + lw_random_below(&random, MAX_OPS);
		struct lw_dag *dag = lw_dag_new();
		double rate = 0.01 + lw_random_unit(&random), bytes[MAX_OPS], ends_ns[MAX_OPS];
		uint32_t link = lw_dag_resource(dag, LW_DAG_LINK, rate);
		double end_ns = 0;

		for (size_t i = 0; i < n; i++) /* whole numbers: some are equal */
			lw_dag_op(dag, link, bytes[i] = 1 + (double)lw_random_below(&random, 100));
		run(dag);
		for (uint32_t i = 0; i < n; i++)
			ends_ns[i] = lw_dag_end_ns(dag, i);
		qsort(bytes, n, sizeof(*bytes), ascending);
		qsort(ends_ns, n, sizeof(*ends_ns), ascending);
		for (size_t i = 0; i < n; i++) {
			end_ns += (double)(n - i) * (bytes[i] - (i ? bytes[i - 1] : 0)) / rate;
			assert_close(ends_ns[i], end_ns);
		}
		lw_dag_free(dag);
	}
}

/* Nobody shares: each operation ends its work after the last it waits for. */
static void without_sharing_it_is_the_longest_path(void **state)
{
	(void)state;
	for (uint64_t k = 0; k < N_INSTANCES; k++) {
		struct lw_random random = {seed_base() + k};
		size_t n = 1 + lw_random_below(&random, MAX_OPS);
		struct lw_dag *dag = lw_dag_new();
		uint32_t delay = lw_dag_resource(dag, LW_DAG_DELAY, 0);
		double end_ns[MAX_OPS];

		for (uint32_t i = 0; i < n; i++) {
			double work_ns = 1000 * lw_random_unit(&random), start_ns = 0;
			uint32_t op, before;

			/* every third has a link for itself, at 1 byte a ns */
			op = i % 3 ? lw_dag_op(dag, delay, work_ns)
				   : lw_dag_op(dag, lw_dag_resource(dag, LW_DAG_LINK, 1), work_ns);
			for (size_t edges = lw_random_below(&random, 4); i > 0 && edges-- > 0;) {
				before = (uint32_t)lw_random_below(&random, i);
				lw_dag_after(dag, op, before);
				start_ns = fmax(start_ns, end_ns[before]);
			}
			end_ns[i] = start_ns + work_ns;
		}
		run(dag);
		for (uint32_t i = 0; i < n; i++)
			assert_close(lw_dag_end_ns(dag, i), end_ns[i]);
		lw_dag_free(dag);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_flows_share_a_link),
		cmocka_unit_test(a_flow_that_comes_later_slows_the_first),
		cmocka_unit_test(a_flow_gets_the_lesser_of_its_two_shares),
		cmocka_unit_test(a_device_serves_one_at_a_time_in_order),
		cmocka_unit_test(ticks_end_at_multiples_of_their_period),
		cmocka_unit_test(nothing_takes_no_time_and_a_circle_is_refused),
		cmocka_unit_test(equal_shares_as_worked_out),
		cmocka_unit_test(without_sharing_it_is_the_longest_path),
	};

	print_message("seeds from %llu\n", (unsigned long long)seed_base());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
