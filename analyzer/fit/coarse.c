/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fit/coarse.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"

enum { N_STARTS = 24, MAX_STEPS = 300, N_BISECTIONS = 60, SEED = 1 };

/* In the order of struct lw_coarse; the power last. */
enum { COMPUTE, PER_SAMPLE, INTER, INTER_SLOPE, INTRA, INTRA_SLOPE, POWER, N_PARAMETERS };

struct problem {
	const struct lw_coarse_sample *samples;
	size_t n;
	bool is_free[N_PARAMETERS];
	double low[N_PARAMETERS], high[N_PARAMETERS];
	/* About what each is for, ns: starts are drawn up to it. */
	double scale[N_PARAMETERS];
};

struct normal { /* half the gradient and the curvature of the sum of squares */
	double squares;
	double gradient[N_PARAMETERS];
	double curvature[N_PARAMETERS][N_PARAMETERS];
};

static struct lw_coarse model_of(const double *p)
{
	return (struct lw_coarse){p[COMPUTE], p[PER_SAMPLE], p[INTER], p[INTER_SLOPE], p[INTRA],
		p[INTRA_SLOPE], p[POWER]};
}

/* ln(modelled / measured) */
static double residual(const struct lw_coarse *model, const struct lw_coarse_sample *sample)
{
	return log(fmax(lw_coarse_step_ns(model, &sample->setting), 1e-300) / sample->step_ns);
}

/* Derivatives of ln T with T = M S^(1/g), M the longer phase, S = (C/M)^g + (N/M)^g. */
static void derive(
	const struct lw_coarse *model, const struct lw_coarse_setting *setting, double *ret_row)
{
	double compute_ns = lw_coarse_compute_ns(model, setting);
	double network_ns = lw_coarse_network_ns(model, setting);
	double longer_ns = fmax(fmax(compute_ns, network_ns), 1e-300), power = model->power;
	double c = compute_ns / longer_ns, n = network_ns / longer_ns;
	double sum = pow(c, power) + pow(n, power);
	double by_compute = pow(c, power - 1) / sum / longer_ns;
	double by_network = pow(n, power - 1) / sum / longer_ns;
	double logs = (c > 0 ? pow(c, power) * log(c) : 0) + (n > 0 ? pow(n, power) * log(n) : 0);
	int network = setting->n_hosts > 1 ? INTER : INTRA;

	memset(ret_row, 0, N_PARAMETERS * sizeof(*ret_row));
	ret_row[COMPUTE] = by_compute;
	ret_row[PER_SAMPLE] = by_compute * setting->samples_per_rank;
	if (setting->n_ranks < 2)
		return;
	ret_row[network] = by_network;
	ret_row[network + 1] = by_network * (setting->n_ranks - 2);
	ret_row[POWER] = logs / (power * sum) - log(sum) / (power * power);
}

static double squares_of(const struct problem *problem, const double *p)
{
	struct lw_coarse model = model_of(p);
	double squares = 0;

	for (size_t i = 0; i < problem->n; i++) {
		double off = residual(&model, &problem->samples[i]);

		squares += off * off;
	}
	return squares;
}

static void normal_of(const struct problem *problem, const double *p, struct normal *ret_normal)
{
	struct lw_coarse model = model_of(p);

	memset(ret_normal, 0, sizeof(*ret_normal));
	for (size_t i = 0; i < problem->n; i++) {
		double off = residual(&model, &problem->samples[i]), row[N_PARAMETERS];

		derive(&model, &problem->samples[i].setting, row);
		ret_normal->squares += off * off;
		for (int j = 0; j < N_PARAMETERS; j++) {
			ret_normal->gradient[j] += off * row[j];
			for (int k = 0; k < N_PARAMETERS; k++)
				ret_normal->curvature[j][k] += row[j] * row[k];
		}
	}
}

/* At a bound, and only that bound holds it back. */
static bool is_held(
	const struct problem *problem, const struct normal *normal, const double *p, int j)
{
	return !problem->is_free[j] || (p[j] <= problem->low[j] && normal->gradient[j] > 0) ||
	       (p[j] >= problem->high[j] && normal->gradient[j] < 0);
}

/* Solves (curvature + damping x its diagonal) step = -gradient for what is not held, by elimination: the
 * matrix is positive definite, so no pivot is searched. */
static void damped_step(
	const struct normal *normal, const bool *held, double damping, double *ret_step)
{
	double rows[N_PARAMETERS][N_PARAMETERS + 1];
	int at[N_PARAMETERS], n = 0;

	memset(ret_step, 0, N_PARAMETERS * sizeof(*ret_step));
	for (int j = 0; j < N_PARAMETERS; j++)
		if (!held[j] && normal->curvature[j][j] > 0)
			at[n++] = j;
	for (int j = 0; j < n; j++) { /* scaled by the diagonal: parameters differ by 1e9 */
		double scale_j = sqrt(normal->curvature[at[j]][at[j]]);

		for (int k = 0; k < n; k++)
			rows[j][k] = normal->curvature[at[j]][at[k]] /
				     (scale_j * sqrt(normal->curvature[at[k]][at[k]]));
		rows[j][j] += damping;
		rows[j][n] = -normal->gradient[at[j]] / scale_j;
	}
	for (int j = 0; j < n; j++)
		for (int k = j + 1; k < n; k++) {
			double times = rows[k][j] / rows[j][j];

			for (int l = j; l <= n; l++)
				rows[k][l] -= times * rows[j][l];
		}
	for (int j = n - 1; j >= 0; j--) {
		for (int k = j + 1; k < n; k++)
			rows[j][n] -= rows[j][k] * rows[k][n];
		rows[j][n] /= rows[j][j];
		ret_step[at[j]] = rows[j][n] / sqrt(normal->curvature[at[j]][at[j]]);
	}
}

/* From @p down to a minimum, in place. Return: the sum of squares there. */
static double descend(const struct problem *problem, double *p)
{
	double damping = 1e-3;
	struct normal normal;

	normal_of(problem, p, &normal);
	for (int i = 0; i < MAX_STEPS && damping < 1e12; i++) {
		double step[N_PARAMETERS], tried[N_PARAMETERS], squares, saved;
		bool held[N_PARAMETERS];

		for (int j = 0; j < N_PARAMETERS; j++)
			held[j] = is_held(problem, &normal, p, j);
		damped_step(&normal, held, damping, step);
		for (int j = 0; j < N_PARAMETERS; j++)
			tried[j] = fmin(fmax(p[j] + step[j], problem->low[j]), problem->high[j]);
		squares = squares_of(problem, tried);
		saved = normal.squares - squares;
		if (!(saved > 0)) {
			damping *= 5;
			continue;
		}
		memcpy(p, tried, sizeof(tried));
		damping = fmax(damping / 5, 1e-9);
		normal_of(problem, p, &normal);
		if (saved < 1e-12 * normal.squares)
			break;
	}
	return normal.squares;
}

/* Distinct values, up to two, of what a slope multiplies. */
struct distinct {
	int n;
	double value;
};

static void see(struct distinct *distinct, double value)
{
	if (distinct->n == 0)
		*distinct = (struct distinct){1, value};
	else if (value != distinct->value)
		distinct->n = 2;
}

static void know(const struct lw_coarse_sample *samples, size_t n, struct lw_coarse_fit *fit)
{
	struct distinct batches = {0}, inter = {0}, intra = {0};

	for (size_t i = 0; i < n; i++) {
		const struct lw_coarse_setting *setting = &samples[i].setting;

		see(&batches, setting->samples_per_rank);
		if (setting->n_ranks > 1)
			see(setting->n_hosts > 1 ? &inter : &intra, setting->n_ranks);
	}
	fit->knows_per_sample = batches.n > 1;
	fit->knows_inter = inter.n > 0;
	fit->knows_inter_slope = inter.n > 1;
	fit->knows_intra = intra.n > 0;
	fit->knows_intra_slope = intra.n > 1;
	fit->knows_power = (inter.n > 0 || intra.n > 0) && batches.n > 1;
}

static void problem_init(struct problem *problem, const struct lw_coarse_sample *samples, size_t n,
	const struct lw_coarse_fit *fit)
{
	const bool is_free[N_PARAMETERS] = {true, fit->knows_per_sample, fit->knows_inter,
		fit->knows_inter_slope, fit->knows_intra, fit->knows_intra_slope, fit->knows_power};
	double step_ns = 0, samples_per_rank = 0, n_ranks = 0;

	*problem = (struct problem){.samples = samples, .n = n};
	for (size_t i = 0; i < n; i++) {
		step_ns += samples[i].step_ns / (double)n;
		samples_per_rank += samples[i].setting.samples_per_rank / (double)n;
		n_ranks += samples[i].setting.n_ranks / (double)n;
	}
	memcpy(problem->is_free, is_free, sizeof(is_free));
	for (int j = 0; j < POWER; j++) {
		problem->high[j] = INFINITY;
		problem->scale[j] = step_ns;
	}
	problem->scale[PER_SAMPLE] /= samples_per_rank;
	problem->scale[INTER_SLOPE] /= n_ranks;
	problem->scale[INTRA_SLOPE] /= n_ranks;
	problem->low[POWER] = LW_PNORM_MIN_POWER;
	problem->high[POWER] = LW_PNORM_MAX_POWER;
}

static void measure(const struct lw_coarse_sample *samples, size_t n, struct lw_coarse_fit *fit)
{
	double squares = 0, sum_frac = 0;

	fit->max_frac = 0;
	for (size_t i = 0; i < n; i++) {
		double off = residual(&fit->model, &samples[i]);
		double off_frac = fabs(
			lw_coarse_step_ns(&fit->model, &samples[i].setting) / samples[i].step_ns -
			1);

		squares += off * off;
		sum_frac += off_frac;
		fit->max_frac = fmax(fit->max_frac, off_frac);
	}
	fit->rmsle = sqrt(squares / (double)n);
	fit->mape_frac = sum_frac / (double)n;
}

int lw_coarse_fit(const struct lw_coarse_sample *samples, size_t n, struct lw_coarse_fit *ret_fit)
{
	struct lw_random random = {SEED};
	struct lw_coarse_fit fit = {0};
	double least = INFINITY;
	struct problem problem;

	if (n == 0)
		return lw_fail(LW_ERR_LIMIT, "no step time to fit the coarse model to");
	for (size_t i = 0; i < n; i++)
		if (!(samples[i].step_ns > 0) || !(samples[i].setting.samples_per_rank > 0) ||
			samples[i].setting.n_ranks < 1 || samples[i].setting.n_hosts < 1)
			return lw_fail(LW_ERR_LIMIT,
				"step time %zu: times, samples, ranks and hosts must be above 0",
				i + 1);
	know(samples, n, &fit);
	problem_init(&problem, samples, n, &fit);
	for (int start = 0; start < N_STARTS; start++) {
		double p[N_PARAMETERS] = {0}, squares;

		p[POWER] = 1;
		for (int j = 0; j < N_PARAMETERS; j++)
			if (problem.is_free[j])
				p[j] = j == POWER ? 1 + 4 * lw_random_unit(&random)
						  : lw_random_unit(&random) * problem.scale[j];
		squares = descend(&problem, p);
		if (squares < least) {
			least = squares;
			fit.model = model_of(p);
		}
	}
	measure(samples, n, &fit);
	*ret_fit = fit;
	return LW_OK;
}

static double power_squares(const double *compute_ns, const double *network_ns,
	const double *step_ns, size_t n, double power)
{
	double squares = 0;

	for (size_t i = 0; i < n; i++) {
		double off = log(lw_pnorm(compute_ns[i], network_ns[i], power) / step_ns[i]);

		squares += off * off;
	}
	return squares;
}

double lw_pnorm_fit_power(
	const double *compute_ns, const double *network_ns, const double *step_ns, size_t n)
{
	/* ln T falls with the power everywhere, and nearly straight in its inverse: one minimum, found by
	 * golden section in 1 / power. */
	static const double golden = 0.6180339887498949;
	double low = 1 / LW_PNORM_MAX_POWER, high = 1 / LW_PNORM_MIN_POWER;

	for (int i = 0; i < N_BISECTIONS; i++) {
		double left = high - golden * (high - low), right = low + golden * (high - low);

		if (power_squares(compute_ns, network_ns, step_ns, n, 1 / left) <
			power_squares(compute_ns, network_ns, step_ns, n, 1 / right))
			high = right;
		else
			low = left;
	}
	return 2 / (low + high);
}
