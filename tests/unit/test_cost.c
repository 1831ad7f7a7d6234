/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/fit/bootstrap.h"
#include "analyzer/fit/cost.h"
#include "analyzer/fit/samples.h"
#include "base/err.h"
#include "base/random.h"

#define N_OF(a) (sizeof(a) / sizeof((a)[0]))
enum { MAX_SIZES = 300 };

static void assert_close(double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance))
		fail_msg("%.12g is not %.12g +- %g", value, expected, tolerance);
}

/* The sizes of an OSU run: powers of two to 8 KiB, then every 4 KiB to 1 MiB. */
static size_t osu_sizes(struct lw_size *sizes)
{
	size_t n = 0;

	for (double bytes = 4; bytes < 12288; bytes *= 2)
		sizes[n++] = (struct lw_size){bytes, 0, 1};
	for (double bytes = 12288; bytes <= 1048576; bytes += 4096)
		sizes[n++] = (struct lw_size){bytes, 0, 1};
	return n;
}

/* Eq. 18 with coefficients as measured on a 10 Gbit/s cluster, ns and bytes. */
static const struct lw_cost known = {.form = LW_COST_PIECEWISE,
	.threshold_bytes = 12288,
	.left_ns_per_doubling = 6127.39,
	.left_ns = 44672.1,
	.right_ns_per_byte = 3.21653,
	.right_ns = 844077};

static void exact_lines_come_back_under_every_weighting(void **state)
{
	(void)state;
	for (int weighting = LW_WEIGHT_EQUAL; weighting <= LW_WEIGHT_FITTED; weighting++) {
		struct lw_size sizes[MAX_SIZES];
		size_t n = osu_sizes(sizes);
		struct lw_cost cost;

		for (size_t i = 0; i < n; i++)
			sizes[i].mean_ns = 50000 + 2.5 * sizes[i].bytes;
		assert_int_equal(
			lw_cost_fit(sizes, n, LW_COST_AFFINE, (enum lw_weighting)weighting, &cost),
			LW_OK);
		assert_close(cost.a_ns, 50000, 1e-4);
		assert_close(cost.b_ns_per_byte, 2.5, 1e-9);
		assert_close(cost.mape_frac, 0, 1e-9);
		assert_true(cost.slope_known);
		assert_null(cost.why);
		lw_cost_done(&cost);
	}
}

static void exact_pieces_come_back_with_their_threshold(void **state)
{
	(void)state;
	for (int weighting = LW_WEIGHT_EQUAL; weighting <= LW_WEIGHT_FITTED; weighting++) {
		struct lw_size sizes[MAX_SIZES];
		size_t n = osu_sizes(sizes);
		struct lw_cost cost;

		for (size_t i = 0; i < n; i++)
			sizes[i].mean_ns = lw_cost_of(sizes[i].bytes, &known);
		assert_int_equal(lw_cost_fit(sizes, n, LW_COST_PIECEWISE,
					 (enum lw_weighting)weighting, &cost),
			LW_OK);
		assert_int_equal(cost.form, LW_COST_PIECEWISE);
		assert_close(cost.threshold_bytes, known.threshold_bytes, 0);
		assert_close(cost.left_ns_per_doubling, known.left_ns_per_doubling, 1e-3);
		assert_close(cost.left_ns, known.left_ns, 1e-2);
		assert_close(cost.right_ns_per_byte, known.right_ns_per_byte, 1e-6);
		assert_close(cost.right_ns, known.right_ns, 1e-1);
		assert_close(cost.jump_ns,
			known.right_ns + known.right_ns_per_byte * 12288 - known.left_ns -
				known.left_ns_per_doubling * log2(12288),
			0.1);
		assert_int_equal(cost.n_left_sizes, 12);
		assert_int_equal(cost.n_right_sizes, n - 12);
		lw_cost_done(&cost);
	}
}

static void small_noise_moves_the_pieces_little(void **state)
{
	struct lw_random random = {7};
	struct lw_size sizes[MAX_SIZES];
	size_t n = osu_sizes(sizes);
	struct lw_cost cost;

	(void)state;
	for (size_t i = 0; i < n; i++)
		sizes[i].mean_ns =
			lw_cost_of(sizes[i].bytes, &known) * (1 + 0.02 * lw_random_normal(&random));
	assert_int_equal(
		lw_cost_fit(sizes, n, LW_COST_PIECEWISE, LW_WEIGHT_RELATIVE, &cost), LW_OK);
	assert_close(cost.threshold_bytes, known.threshold_bytes, 0);
	assert_close(cost.right_ns_per_byte / known.right_ns_per_byte, 1, 0.01);
	assert_close(cost.right_ns / known.right_ns, 1, 0.02);
	assert_close(cost.left_ns_per_doubling / known.left_ns_per_doubling, 1, 0.1);
	assert_close(cost.mape_frac, 0.016, 0.004); /* 0.02 sqrt(2 / pi) */
	lw_cost_done(&cost);
}

static void intercept_and_slope_stay_in_the_quadrant_at_the_optimum(void **state)
{
	/* Falling below zero at 0 bytes: the best line through the origin, not a cut intercept. */
	struct lw_size steep[] = {{1000, 100, 1}, {2000, 1200, 1}, {3000, 2300, 1}};
	struct lw_size falling[] = {{1000, 300, 1}, {2000, 200, 1}, {3000, 100, 1}};
	struct lw_cost cost;

	(void)state;
	assert_int_equal(lw_cost_fit(steep, 3, LW_COST_AFFINE, LW_WEIGHT_EQUAL, &cost), LW_OK);
	assert_true(cost.a_ns == 0);
	/* sum(x t) / sum(x^2) */
	assert_close(cost.b_ns_per_byte, (0.1 + 2.4 + 6.9) / 14, 1e-12);
	assert_int_equal(lw_cost_fit(falling, 3, LW_COST_AFFINE, LW_WEIGHT_EQUAL, &cost), LW_OK);
	assert_close(cost.a_ns, 200, 1e-9);
	assert_true(cost.b_ns_per_byte == 0);
}

static void one_size_says_that_it_knows_no_slope(void **state)
{
	struct lw_size one[] = {{4096, 8192, 30}};
	struct lw_cost cost;
	bool is_extrapolated;

	(void)state;
	assert_int_equal(lw_cost_choose(one, 1, LW_WEIGHT_FITTED, &cost), LW_OK);
	assert_false(cost.slope_known);
	assert_non_null(cost.why);
	assert_close(lw_cost_ns(&cost, 4096, &is_extrapolated), 8192, 1e-9);
	assert_false(is_extrapolated);
	lw_cost_ns(&cost, 4097, &is_extrapolated);
	assert_true(is_extrapolated);
	assert_int_equal(lw_cost_choose(NULL, 0, LW_WEIGHT_FITTED, &cost), LW_OK);
	assert_int_equal(cost.form, LW_COST_NONE);
	assert_true(isnan(lw_cost_ns(&cost, 1, &is_extrapolated)));
	assert_true(is_extrapolated);
	assert_true(lw_cost_ns(&cost, 0, &is_extrapolated) == 0);
	assert_false(is_extrapolated);
}

static void too_few_sizes_for_two_pieces_give_one_line(void **state)
{
	struct lw_size sizes[5];
	struct lw_cost cost;

	(void)state;
	for (size_t i = 0; i < N_OF(sizes); i++)
		sizes[i] = (struct lw_size){1000.0 * (double)(i + 1), 10.0 * (double)(i + 1), 1};
	assert_int_equal(
		lw_cost_fit(sizes, N_OF(sizes), LW_COST_PIECEWISE, LW_WEIGHT_RELATIVE, &cost),
		LW_OK);
	assert_int_equal(cost.form, LW_COST_AFFINE);
	assert_non_null(cost.why);
}

static void a_table_interpolates_and_marks_what_is_outside(void **state)
{
	struct lw_size sizes[] = {{1000, 500, 3}, {2000, 900, 1}, {4000, 900, 2}};
	struct lw_cost cost;
	bool is_extrapolated;

	(void)state;
	assert_int_equal(lw_cost_fit(sizes, 3, LW_COST_TABLE, LW_WEIGHT_RELATIVE, &cost), LW_OK);
	assert_close(lw_cost_ns(&cost, 1000, &is_extrapolated), 500, 0);
	assert_close(lw_cost_ns(&cost, 1500, &is_extrapolated), 700, 1e-9);
	assert_close(lw_cost_ns(&cost, 3000, &is_extrapolated), 900, 1e-9);
	assert_close(lw_cost_ns(&cost, 4000, &is_extrapolated), 900, 0);
	assert_false(is_extrapolated);
	assert_true(lw_cost_ns(&cost, 8000, &is_extrapolated) >= 900);
	assert_true(is_extrapolated);
	assert_true(lw_cost_ns(&cost, 10, &is_extrapolated) <= 500);
	assert_true(is_extrapolated);
	lw_cost_done(&cost);
}

static void cross_validation_takes_the_form_that_made_the_data(void **state)
{
	static const struct lw_cost line = {
		.form = LW_COST_AFFINE, .a_ns = 60000, .b_ns_per_byte = 2};
	struct lw_random random = {11};
	struct lw_size sizes[MAX_SIZES];
	size_t n = osu_sizes(sizes);
	struct lw_cost cost;

	(void)state;
	for (size_t i = 0; i < n; i++)
		sizes[i].mean_ns =
			lw_cost_of(sizes[i].bytes, &line) * (1 + 0.05 * lw_random_normal(&random));
	assert_int_equal(lw_cost_choose(sizes, n, LW_WEIGHT_FITTED, &cost), LW_OK);
	assert_int_equal(cost.form, LW_COST_AFFINE);
	lw_cost_done(&cost);

	for (size_t i = 0; i < n; i++)
		sizes[i].mean_ns =
			lw_cost_of(sizes[i].bytes, &known) * (1 + 0.05 * lw_random_normal(&random));
	assert_int_equal(lw_cost_choose(sizes, n, LW_WEIGHT_FITTED, &cost), LW_OK);
	assert_int_equal(cost.form, LW_COST_PIECEWISE);
	lw_cost_done(&cost);

	/* A slow start, a fast middle, a slow end: three lines that meet. */
	for (size_t i = 0; i < n; i++) {
		double bytes = sizes[i].bytes;

		sizes[i].mean_ns =
			(1e5 + 8 * fmin(bytes, 65536) + 0.2 * fmax(fmin(bytes, 524288) - 65536, 0) +
				4 * fmax(bytes - 524288, 0)) *
			(1 + 0.03 * lw_random_normal(&random));
	}
	assert_int_equal(lw_cost_choose(sizes, n, LW_WEIGHT_FITTED, &cost), LW_OK);
	print_message("%s, %zu knots, left out sizes off by %.1f %%\n",
		lw_cost_form_name(cost.form), cost.n_table, 100 * cost.cross_frac);
	assert_int_equal(cost.form, LW_COST_SEGMENTS);
	assert_true(cost.n_table >= 4);
	assert_true(fabs(lw_cost_ns(&cost, 300000, NULL) / (1e5 + 8 * 65536 + 0.2 * 234464) - 1) <
		    0.03);
	assert_true(fabs(lw_cost_ns(&cost, 2097152, NULL) /
				    (1e5 + 8 * 65536 + 0.2 * 458752 + 4 * 1572864) -
			    1) < 0.05);
	lw_cost_done(&cost);

	/* Three algorithm switches: no two pieces describe that. */
	for (size_t i = 0; i < n; i++)
		sizes[i].mean_ns = 1e5 * (1 + floor(sizes[i].bytes / 262144) +
						 10 * (sizes[i].bytes > 600000)) +
				   sizes[i].bytes * 0.1;
	assert_int_equal(lw_cost_choose(sizes, n, LW_WEIGHT_FITTED, &cost), LW_OK);
	assert_int_equal(cost.form, LW_COST_TABLE);
	assert_true(cost.cross_frac < 0.1);
	lw_cost_done(&cost);
}

static void fitted_weights_do_not_follow_the_noise(void **state)
{
	/* One sample a size, scatter of 40 %: RELATIVE believes the low ones. */
	struct lw_random random = {3};
	struct lw_size sizes[MAX_SIZES];
	struct lw_cost relative, fitted;

	(void)state;
	for (size_t i = 0; i < MAX_SIZES; i++) {
		double bytes = 4096 * (double)(i + 1);
		double noise = exp(0.4 * lw_random_normal(&random) - 0.08);

		sizes[i] = (struct lw_size){bytes, (2e5 + 2 * bytes) * noise, 1};
	}
	assert_int_equal(
		lw_cost_fit(sizes, MAX_SIZES, LW_COST_AFFINE, LW_WEIGHT_RELATIVE, &relative),
		LW_OK);
	assert_int_equal(
		lw_cost_fit(sizes, MAX_SIZES, LW_COST_AFFINE, LW_WEIGHT_FITTED, &fitted), LW_OK);
	print_message("slope of 2: relative %.3f, fitted %.3f\n", relative.b_ns_per_byte,
		fitted.b_ns_per_byte);
	assert_true(relative.b_ns_per_byte < 1.7);
	assert_close(fitted.b_ns_per_byte, 2, 0.15);
}

static void samples_add_up_by_size_and_block(void **state)
{
	struct lw_sample list[] = {{200, 7, 1}, {100, 1, 0}, {100, 3, 0}, {100, 8, 1}};
	static const double only_second[] = {0, 2};
	struct lw_samples samples;
	struct lw_size sizes[4];

	(void)state;
	assert_int_equal(lw_samples_init(&samples, list, N_OF(list)), LW_OK);
	assert_int_equal(samples.n_sizes, 2);
	assert_int_equal(samples.n_rows, 3);
	assert_int_equal(lw_samples_weigh(&samples, NULL, sizes), 2);
	assert_close(sizes[0].mean_ns, 4, 1e-12);
	assert_close(sizes[0].n, 3, 0);
	assert_int_equal(lw_samples_weigh(&samples, only_second, sizes), 2);
	assert_close(sizes[0].mean_ns, 8, 0);
	assert_close(sizes[0].n, 2, 0);
	assert_close(sizes[1].n, 2, 0);
	lw_samples_done(&samples);
}

/* ---- the interval covers --------------------------------------------------------------------- */

struct coverage_case {
	struct lw_samples samples;
	struct lw_size *sizes;
};

static int line_of_blocks(const double *weights, size_t n_blocks, double *ret_values, void *context)
{
	struct coverage_case *one = context;
	size_t n = lw_samples_weigh(&one->samples, weights, one->sizes);
	struct lw_cost cost;

	(void)n_blocks;
	assert_int_equal(
		lw_cost_fit(one->sizes, n, LW_COST_AFFINE, LW_WEIGHT_FITTED, &cost), LW_OK);
	ret_values[0] = cost.a_ns;
	ret_values[1] = cost.b_ns_per_byte;
	return LW_OK;
}

static void the_interval_holds_the_truth_in_95_of_100_runs(void **state)
{
	enum { N_RUNS = 1000, N_STEPS = 40, N_PER_STEP = 6, N_REPLICATES = 400, SEED = 20 };
	static const double sizes_bytes[] = {2e3, 5e4, 2e5, 8e5, 3e6};
	const double a_ns = 3e5, b_ns_per_byte = 1.2;
	size_t n_held[2] = {0};

	(void)state;
	for (uint64_t run = 0; run < N_RUNS; run++) {
		struct lw_random random = {SEED + run};
		struct lw_sample list[N_STEPS * N_PER_STEP];
		struct lw_size sizes[N_OF(sizes_bytes)];
		struct coverage_case one = {.sizes = sizes};
		struct lw_figure figures[2];

		/* Scatter of 25 % an operation, and of 10 % shared by a step. */
		for (uint32_t step = 0; step < N_STEPS; step++) {
			double shared = 1 + 0.1 * lw_random_normal(&random);

			for (size_t i = 0; i < N_PER_STEP; i++) {
				double bytes =
					sizes_bytes[lw_random_below(&random, N_OF(sizes_bytes))];
				double noise = exp(0.25 * lw_random_normal(&random) - 0.03125);

				list[step * N_PER_STEP + i] = (struct lw_sample){bytes,
					(a_ns + b_ns_per_byte * bytes) * shared * noise, step};
			}
		}
		assert_int_equal(lw_samples_init(&one.samples, list, N_OF(list)), LW_OK);
		assert_int_equal(
			lw_bootstrap(N_STEPS, N_REPLICATES, run, line_of_blocks, &one, 2, figures),
			LW_OK);
		n_held[0] += figures[0].low <= a_ns && a_ns <= figures[0].high;
		n_held[1] += figures[1].low <= b_ns_per_byte && b_ns_per_byte <= figures[1].high;
		lw_samples_done(&one.samples);
	}
	print_message("alpha held in %.1f %%, slope in %.1f %% of %d runs (seed %d)\n",
		100.0 * (double)n_held[0] / N_RUNS, 100.0 * (double)n_held[1] / N_RUNS, N_RUNS,
		SEED);
	/* the standard error of a share of 95 % is 0.7 % here */
	for (size_t i = 0; i < 2; i++)
		assert_in_range(n_held[i], 0.93 * N_RUNS, 0.97 * N_RUNS);
}

static int mean_of_blocks(const double *weights, size_t n_blocks, double *ret_values, void *context)
{
	const double *values = context;
	double sum = 0, n = 0;

	for (size_t b = 0; b < n_blocks; b++) {
		sum += weights[b] * values[b];
		n += weights[b];
	}
	ret_values[0] = sum / n;
	return LW_OK;
}

static void the_bootstrap_repeats_itself_and_admits_what_it_cannot_say(void **state)
{
	double values[] = {3, 5, 4, 6, 5, 4, 3, 5, 6, 4, 5, 4};
	struct lw_figure once, again, few, one;

	(void)state;
	assert_int_equal(lw_bootstrap(12, 500, 9, mean_of_blocks, values, 1, &once), LW_OK);
	assert_int_equal(lw_bootstrap(12, 500, 9, mean_of_blocks, values, 1, &again), LW_OK);
	assert_true(once.value == again.value && once.low == again.low && once.high == again.high);
	assert_close(once.value, 4.5, 1e-12);
	assert_true(once.low < 4.5 && once.high > 4.5);
	/* mean of 3 and 5: Student's interval is 4 +- 12.706 sqrt(2) / sqrt(2) */
	assert_int_equal(lw_bootstrap(2, 4000, 9, mean_of_blocks, values, 1, &few), LW_OK);
	assert_close(few.high - few.low, 2 * 12.706, 1);
	assert_int_equal(lw_bootstrap(1, 500, 9, mean_of_blocks, values, 1, &one), LW_OK);
	assert_close(one.value, 3, 0);
	assert_true(isnan(one.low) && isnan(one.high));
	assert_non_null(one.why);
}

/* ---- figures of other people: read where the files are, never committed ------------------------ */

#define PUBLIC LAPWING_SOURCE_DIR "/../shared/samples/public/"

/* An OSU table: "bytes us", or "ranks,bytes us". Return: sizes, 0 = the file is not here. */
static size_t read_osu(const char *path, struct lw_size *sizes)
{
	FILE *file = fopen(path, "r");
	char line[128];
	size_t n = 0;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		const char *comma = strchr(line, ',');
		double bytes, us;

		if (line[0] == '#' || sscanf(comma ? comma + 1 : line, "%lf %lf", &bytes, &us) != 2)
			continue;
		assert_in_range(n, 0, MAX_SIZES - 1);
		sizes[n++] = (struct lw_size){bytes, us * 1e3, 1};
	}
	fclose(file);
	return n;
}

static void assert_within_1_percent(double value, double expected)
{
	assert_close(value / expected, 1, 0.01);
}

static void published_tables_give_the_published_coefficients(void **state)
{
	static const struct {
		const char *path;
		double plain_us, plain_us_per_byte, plain_mape;
		double relative_us, relative_us_per_byte, relative_mape;
		double a1, b1, a2, b2, threshold_bytes, mape; /* us */
	} rows[] = {
		{PUBLIC "bcaffe_allreduce2.log", 102.16, 1.659933e-3, 0.105, 39.90, 1.825860e-3,
			0.078, 2.24255, 21.9998, 1.66769e-3, 100.772, 12288, 0.036},
		{PUBLIC "bcaffe_allreduce4.log", 224.72, 2.065492e-3, 0.213, 58.90, 2.457901e-3,
			0.115, 1.06815, 45.1286, 2.1684e-3, 179.159, 12288, 0.056},
		{PUBLIC "bcaffe_allreduce8.log", 710.71, 3.507793e-3, 0.398, 93.07, 4.702668e-3,
			0.201, 6.12739, 44.6721, 3.21653e-3, 844.077, 12288, 0.075},
	};
	size_t n_missing = 0;

	(void)state;
	for (size_t r = 0; r < N_OF(rows); r++) {
		struct lw_size sizes[MAX_SIZES];
		size_t n = read_osu(rows[r].path, sizes);
		struct lw_cost cost;

		if (n == 0) {
			print_message("%s: not here; it was not compared\n", rows[r].path);
			n_missing++;
			continue;
		}
		assert_int_equal(n, 266);
		lw_cost_fit(sizes, n, LW_COST_AFFINE, LW_WEIGHT_EQUAL, &cost);
		assert_within_1_percent(cost.a_ns / 1e3, rows[r].plain_us);
		assert_within_1_percent(cost.b_ns_per_byte / 1e3, rows[r].plain_us_per_byte);
		assert_close(cost.mape_frac, rows[r].plain_mape, 0.0006);
		lw_cost_fit(sizes, n, LW_COST_AFFINE, LW_WEIGHT_RELATIVE, &cost);
		assert_within_1_percent(cost.a_ns / 1e3, rows[r].relative_us);
		assert_within_1_percent(cost.b_ns_per_byte / 1e3, rows[r].relative_us_per_byte);
		assert_close(cost.mape_frac, rows[r].relative_mape, 0.0006);
		lw_cost_fit(sizes, n, LW_COST_PIECEWISE, LW_WEIGHT_RELATIVE, &cost);
		assert_close(cost.threshold_bytes, rows[r].threshold_bytes, 0);
		assert_within_1_percent(cost.left_ns_per_doubling / 1e3, rows[r].a1);
		assert_within_1_percent(cost.left_ns / 1e3, rows[r].b1);
		assert_within_1_percent(cost.right_ns_per_byte / 1e3, rows[r].a2);
		assert_within_1_percent(cost.right_ns / 1e3, rows[r].b2);
		assert_close(cost.mape_frac, rows[r].mape, 0.0006);
		lw_cost_choose(sizes, n, LW_WEIGHT_FITTED, &cost);
		print_message("%s: chosen %s, MAPE %.3f, on left-out sizes %.3f\n",
			strrchr(rows[r].path, '/') + 1, lw_cost_form_name(cost.form),
			cost.mape_frac, cost.cross_frac);
		assert_int_not_equal(cost.form, LW_COST_AFFINE);
		lw_cost_done(&cost);
	}
	if (n_missing)
		skip();
}

static void the_googlenet_trace_gives_the_published_line(void **state)
{
	enum { N_LAYERS = 64 };
	static const char path[] = PUBLIC "bcaffe_tmp8comm.log";
	struct lw_sample list[N_LAYERS] = {{0}};
	struct lw_size sizes[N_LAYERS];
	struct lw_samples samples;
	struct lw_cost cost;
	char line[256];
	FILE *file = fopen(path, "r");

	(void)state;
	if (!file) {
		print_message("%s: not here; it was not compared\n", path);
		skip();
	}
	while (fgets(line, sizeof(line), file)) {
		const char *fields = strstr(line, "] [");
		int id;
		double n_floats, backward_us, comm_us;

		if (!fields || sscanf(fields, "] [%d, %lf, %lf, %lf", &id, &n_floats, &backward_us,
				       &comm_us) != 4)
			continue;
		assert_in_range(id, 0, 2 * N_LAYERS - 1);
		if (id % 2 == 0)
			list[id / 2] = (struct lw_sample){0};
		list[id / 2].bytes += n_floats * 4;
		list[id / 2].ns += comm_us * 1e3;
	}
	fclose(file);
	/* Each layer is one observation: no means, so that the weights are 1 / t^2 of each. */
	for (uint32_t i = 0; i < N_LAYERS; i++)
		sizes[i] = (struct lw_size){list[i].bytes, list[i].ns, 1};
	assert_int_equal(
		lw_cost_fit(sizes, N_LAYERS, LW_COST_AFFINE, LW_WEIGHT_RELATIVE, &cost), LW_OK);
	assert_within_1_percent(cost.a_ns / 1e3, 1264.4);
	assert_within_1_percent(cost.b_ns_per_byte, 3.8068);
	assert_close(cost.mape_frac, 0.184, 0.0006);
	/* Means of the layers with equal sizes give nearly the same. */
	assert_int_equal(lw_samples_init(&samples, list, N_LAYERS), LW_OK);
	assert_int_equal(lw_cost_fit(sizes, lw_samples_weigh(&samples, NULL, sizes), LW_COST_AFFINE,
				 LW_WEIGHT_RELATIVE, &cost),
		LW_OK);
	assert_close(cost.b_ns_per_byte / 3.8068, 1, 0.05);
	lw_samples_done(&samples);
}

static void a_fit_that_misses_left_out_sizes_is_called_poor(void **state)
{
	struct lw_cost cost = {.form = LW_COST_AFFINE, .cross_frac = 0.92};
	char text[LW_VERDICT_TEXT_BYTES];

	(void)state;
	assert_string_equal(lw_cost_verdict(&cost, text), "poor fit: held-out error 92 %");
	cost.cross_frac = 0.29;
	assert_string_equal(lw_cost_verdict(&cost, text), "");
	cost.cross_frac = NAN;
	assert_string_equal(lw_cost_verdict(&cost, text), "");
	cost = (struct lw_cost){.form = LW_COST_NONE, .cross_frac = 0.92};
	assert_string_equal(lw_cost_verdict(&cost, text), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fit_that_misses_left_out_sizes_is_called_poor),
		cmocka_unit_test(exact_lines_come_back_under_every_weighting),
		cmocka_unit_test(exact_pieces_come_back_with_their_threshold),
		cmocka_unit_test(small_noise_moves_the_pieces_little),
		cmocka_unit_test(intercept_and_slope_stay_in_the_quadrant_at_the_optimum),
		cmocka_unit_test(one_size_says_that_it_knows_no_slope),
		cmocka_unit_test(too_few_sizes_for_two_pieces_give_one_line),
		cmocka_unit_test(a_table_interpolates_and_marks_what_is_outside),
		cmocka_unit_test(cross_validation_takes_the_form_that_made_the_data),
		cmocka_unit_test(fitted_weights_do_not_follow_the_noise),
		cmocka_unit_test(samples_add_up_by_size_and_block),
		cmocka_unit_test(the_interval_holds_the_truth_in_95_of_100_runs),
		cmocka_unit_test(the_bootstrap_repeats_itself_and_admits_what_it_cannot_say),
		cmocka_unit_test(published_tables_give_the_published_coefficients),
		cmocka_unit_test(the_googlenet_trace_gives_the_published_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
