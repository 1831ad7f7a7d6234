/* SPDX-License-Identifier: Apache-2.0 */
/* The coarse model and its fit: on its own formula, on made-up steps, on published measurements. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/fit/coarse.h"
#include "base/err.h"
#include "base/random.h"

enum { MAX_SAMPLES = 2048 };
static struct lw_coarse_sample samples[MAX_SAMPLES];

static const struct lw_coarse truth = {30e6, 1.1e6, 110e6, 3e6, 20e6, 5e6, 2.5};

static void assert_close(double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance))
		fail_msg("%.12g is not %.12g +- %g", value, expected, tolerance);
}

static void the_norm_lies_between_the_larger_and_the_sum(void **state)
{
	struct lw_random random = {1};

	(void)state;
	assert_close(lw_pnorm(3, 4, 1), 7, 1e-12);
	assert_close(lw_pnorm(3, 4, 2), 5, 1e-12);
	assert_close(lw_pnorm(3, 4, INFINITY), 4, 0);
	assert_close(lw_pnorm(4e300, 3e300, 2), 5e300, 1e288); /* its square overflows */
	assert_true(lw_pnorm(0, 0, 3) == 0);
	assert_true(lw_pnorm(0, 5, 3) == 5);
	for (int i = 0; i < 1000; i++) {
		double a = 1e9 * lw_random_unit(&random), b = 1e9 * lw_random_unit(&random);
		double power = 1 + 9 * lw_random_unit(&random), norm = lw_pnorm(a, b, power);

		assert_true(norm >= fmax(a, b) && norm <= (a + b) * (1 + 1e-12));
		assert_true(norm <= lw_pnorm(a, b, fmax(1, power - 0.5)));
		assert_true(norm == lw_pnorm(b, a, power));
	}
}

static void phases_follow_ranks_hosts_and_samples(void **state)
{
	static const struct lw_coarse_setting one = {1, 1, 10}, host = {1, 4, 10},
					      hosts = {2, 8, 100};

	(void)state;
	assert_close(lw_coarse_compute_ns(&truth, &one), 41e6, 1e-3);
	assert_true(lw_coarse_network_ns(&truth, &one) == 0);
	assert_close(lw_coarse_step_ns(&truth, &one), 41e6, 1e-3);
	assert_close(lw_coarse_network_ns(&truth, &host), 30e6, 1e-3);
	assert_close(lw_coarse_network_ns(&truth, &hosts), 128e6, 1e-3);
	assert_close(lw_coarse_step_ns(&truth, &hosts), lw_pnorm(140e6, 128e6, 2.5), 1e-3);
}

/* A grid of settings at @coarse's own step times. Return: how many. */
static size_t exact_samples(const struct lw_coarse *coarse)
{
	static const int hosts[] = {1, 1, 1, 2, 4, 8, 16}, ranks[] = {1, 2, 4, 4, 16, 16, 64};
	size_t n = 0;

	for (size_t h = 0; h < sizeof(hosts) / sizeof(hosts[0]); h++)
		for (double batch = 8; batch <= 512; batch *= 2) {
			samples[n].setting = (struct lw_coarse_setting){hosts[h], ranks[h], batch};
			samples[n].step_ns = lw_coarse_step_ns(coarse, &samples[n].setting);
			n++;
		}
	return n;
}

static void assert_recovered(const struct lw_coarse *fitted, const struct lw_coarse *expected)
{
	const double *got = (const double *)fitted, *wanted = (const double *)expected;

	for (size_t i = 0; i < sizeof(*fitted) / sizeof(double); i++)
		assert_close(got[i], wanted[i], 1e-3 * fmax(wanted[i], 1e-3 * 110e6));
}

static void exact_steps_give_their_parameters_back(void **state)
{
	static const struct lw_coarse others[] = {
		{30e6, 1.1e6, 110e6, 3e6, 20e6, 5e6, 2.5},
		{5e6, 0.1e6, 900e6, 0, 0, 30e6, 1}, /* on three bounds */
		{200e3, 3e3, 4e6, 50e3, 1e6, 20e3, 6},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		size_t n = exact_samples(&others[i]);
		struct lw_coarse_fit fit;

		assert_int_equal(lw_coarse_fit(samples, n, &fit), LW_OK);
		print_message("case %zu: rmsle %.3g, power %.5f\n", i, fit.rmsle, fit.model.power);
		assert_true(fit.rmsle < 1e-6);
		if (i != 1)
			assert_recovered(&fit.model, &others[i]);
		assert_true(fit.knows_power && fit.knows_inter_slope && fit.knows_intra_slope);
	}
}

static void what_the_samples_cannot_tell_is_said(void **state)
{
	struct lw_coarse_fit fit;
	size_t n = 0;

	(void)state;
	for (double batch = 8; batch <= 512; batch *= 2) { /* one host, one size of it */
		samples[n].setting = (struct lw_coarse_setting){1, 4, batch};
		samples[n].step_ns = lw_coarse_step_ns(&truth, &samples[n].setting);
		n++;
	}
	assert_int_equal(lw_coarse_fit(samples, n, &fit), LW_OK);
	assert_true(fit.knows_per_sample && fit.knows_intra && fit.knows_power);
	assert_false(fit.knows_inter || fit.knows_inter_slope || fit.knows_intra_slope);
	assert_true(fit.model.inter_ns == 0 && fit.model.intra_ns_per_rank == 0);
	assert_true(fit.mape_frac < 1e-3);
	assert_int_equal(lw_coarse_fit(samples, 1, &fit), LW_OK);
	assert_false(fit.knows_per_sample || fit.knows_power);
	assert_true(fit.model.power == 1 && fit.mape_frac < 1e-6);

	assert_int_equal(lw_coarse_fit(samples, 0, &fit), LW_ERR_LIMIT);
	samples[1].step_ns = 0;
	assert_int_equal(lw_coarse_fit(samples, n, &fit), LW_ERR_LIMIT);
	assert_non_null(strstr(lw_error_text(), "step time 2"));
}

static void one_power_explains_steps_of_two_phases(void **state)
{
	double compute_ns[20], network_ns[20], step_ns[20];
	struct lw_random random = {3};

	(void)state;
	for (int i = 0; i < 20; i++) {
		compute_ns[i] = 100e6 * (1 + 0.2 * lw_random_unit(&random));
		network_ns[i] = 70e6 * (1 + 0.2 * lw_random_unit(&random));
		step_ns[i] = lw_pnorm(compute_ns[i], network_ns[i], 3.25);
	}
	assert_close(lw_pnorm_fit_power(compute_ns, network_ns, step_ns, 20), 3.25, 1e-6);
	for (int i = 0; i < 20; i++) /* longer than both together, then shorter than either */
		step_ns[i] = 2 * (compute_ns[i] + network_ns[i]);
	assert_close(lw_pnorm_fit_power(compute_ns, network_ns, step_ns, 20), 1, 1e-6);
	for (int i = 0; i < 20; i++)
		step_ns[i] = 0.5 * compute_ns[i];
	assert_close(lw_pnorm_fit_power(compute_ns, network_ns, step_ns, 20), 10, 1e-4);
}

/* ---- files: hosts,ranks,samples,seconds[,..], or a placement "1244" (ranks on each host) for the first two */

/* Appends the rows of @path to samples. Return: their new number; @n when the file is not here. */
static size_t read_steps(const char *path, size_t n)
{
	FILE *file = fopen(path, "r");
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		struct lw_coarse_setting setting = {0};
		double step_s;

		if (sscanf(line, "%d,%d,%lf,%lf", &setting.n_hosts, &setting.n_ranks,
			    &setting.samples_per_rank, &step_s) != 4)
			continue;
		if (strstr(path, "placements")) {
			double second, third;

			assert_int_equal(sscanf(line, "%*[0-9],%lf,%lf", &second, &third), 2);
			setting = (struct lw_coarse_setting){0, 0, second};
			step_s = third;
			for (const char *digit = line; *digit != ','; digit++) {
				setting.n_hosts++;
				setting.n_ranks += *digit - '0';
			}
		}
		assert_in_range(n, 0, MAX_SAMPLES - 1);
		samples[n++] = (struct lw_coarse_sample){setting, step_s * 1e9};
	}
	if (file)
		fclose(file);
	return n;
}

static void print_fit(const char *what, size_t n, const struct lw_coarse_fit *fit)
{
	const struct lw_coarse *model = &fit->model;

	print_message(
		"%s: %zu steps, MAPE %.4f, max %.3f, RMSLE %.4f, power %.2f; ms: compute %.3g +"
		" %.3g a sample, between hosts %.3g + %.3g a rank, in a host %.3g + %.3g\n",
		what, n, fit->mape_frac, fit->max_frac, fit->rmsle, model->power,
		model->compute_ns / 1e6, model->compute_ns_per_sample / 1e6, model->inter_ns / 1e6,
		model->inter_ns_per_rank / 1e6, model->intra_ns / 1e6,
		model->intra_ns_per_rank / 1e6);
}

static void made_up_steps_are_explained_up_to_their_noise(void **state)
{
	size_t n = read_steps(LAPWING_SOURCE_DIR "/tests/data/coarse/made_up.csv", 0);
	struct lw_coarse_fit fit;

	(void)state;
	assert_int_equal(n, 50);
	assert_int_equal(lw_coarse_fit(samples, n, &fit), LW_OK);
	print_fit("made up", n, &fit);
	assert_true(fit.rmsle < 0.035); /* the noise is 0.03 */
	assert_close(fit.model.compute_ns_per_sample, 1.1e6, 0.1e6);
	assert_close(fit.model.inter_ns, 110e6, 20e6);
	assert_close(fit.model.power, 2.5, 1);
}

#define PUBLIC LAPWING_SOURCE_DIR "/../shared/samples/public/pollux_"

static void published_steps_are_explained_as_well_as_by_others(void **state)
{
	/* what a refit of the same model by the same measure reached, rounded to three decimals */
	static const struct {
		const char *name;
		size_t n_steps;
		double mape_frac;
	} rows[] = {{"imagenet", 288, .074}, {"cifar10", 329, .078}, {"yolov3", 108, .074}};
	size_t n_missing = 0;

	(void)state;
	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		struct lw_coarse_fit fit;
		char path[512];
		size_t n;

		snprintf(path, sizeof(path), PUBLIC "%s_scalability.csv", rows[r].name);
		n = read_steps(path, 0);
		if (n == 0) {
			print_message("%s: not here; it was not compared\n", path);
			n_missing++;
			continue;
		}
		assert_int_equal(n, rows[r].n_steps);
		assert_int_equal(lw_coarse_fit(samples, n, &fit), LW_OK);
		print_fit(rows[r].name, n, &fit);
		assert_true(fit.mape_frac < rows[r].mape_frac + 0.0005);
		assert_false(fit.knows_intra); /* all of them over several hosts */

		snprintf(path, sizeof(path), PUBLIC "%s_placements.csv", rows[r].name);
		n = read_steps(path, n);
		assert_true(n > rows[r].n_steps);
		assert_int_equal(lw_coarse_fit(samples, n, &fit), LW_OK);
		print_fit("  with 1 to 16 ranks on 1 to 4 hosts", n, &fit);
		assert_true(fit.knows_intra_slope);
	}
	if (n_missing)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_norm_lies_between_the_larger_and_the_sum),
		cmocka_unit_test(phases_follow_ranks_hosts_and_samples),
		cmocka_unit_test(exact_steps_give_their_parameters_back),
		cmocka_unit_test(what_the_samples_cannot_tell_is_said),
		cmocka_unit_test(one_power_explains_steps_of_two_phases),
		cmocka_unit_test(made_up_steps_are_explained_up_to_their_noise),
		cmocka_unit_test(published_steps_are_explained_as_well_as_by_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
