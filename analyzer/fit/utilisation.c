/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utilisation.c - c of OSF eq. 5: what computing would take at the device's peak rate, over what it takes.
 *
 * No trace holds the operations of a model, nor what its device could do: both are the user's. Computing is the union of
 * compute kernels where these were recorded, else what the host says (the figure compute_ns).
 */
#include <math.h>

#include "analyzer/fit/fit.h"
#include "analyzer/model/osf.h"

/* Half of a 95 % interval of a mean, in its standard errors. */
static const double normal_95 = 1.96;

/* Mean over counted steps of all ranks; NAN: no kernels. *@ret_error: half of its interval. */
static double kernels_ns(const struct lw_run *run, double *ret_error)
{
	double n = 0, sum = 0, squares = 0, mean, variance;
	const struct lw_rank *rank;
	const struct lw_step *step;

	lw_vec_foreach (rank, &run->ranks)
		lw_vec_foreach (step, &rank->steps) {
			double ns = (double)step->gpu.compute_ns;

			if (step->excluded || step->gpu.compute_ns == LW_NS_UNKNOWN)
				continue;
			n++;
			sum += ns;
			squares += ns * ns;
		}
	mean = n > 0 ? sum / n : (double)NAN;
	variance = n > 1 ? fmax((squares - n * mean * mean) / (n - 1), 0) : (double)NAN;
	*ret_error = normal_95 * sqrt(variance / n);
	return mean;
}

void lw_fit_utilisation(
	const struct lw_run *run, double forward_flop, double peak_flop_per_s, struct lw_fit *fit)
{
	struct lw_figure *figure = &fit->figure[LW_FIT_UTILISATION_FRAC];
	const struct lw_figure *compute = &fit->figure[LW_FIT_COMPUTE_NS];
	double error, ns = run->gpu.has_kernels ? kernels_ns(run, &error) : compute->value;
	double low_ns = compute->low, high_ns = compute->high;

	if (run->gpu.has_kernels) {
		low_ns = ns - error;
		high_ns = ns + error;
	}
	if (!(ns > 0))
		return;
	*figure = (struct lw_figure){.value = lw_utilisation(forward_flop, 1, peak_flop_per_s, ns),
		.low = lw_utilisation(forward_flop, 1, peak_flop_per_s, high_ns),
		.high = low_ns > 0 ? lw_utilisation(forward_flop, 1, peak_flop_per_s, low_ns)
				   : (double)NAN,
		.how = LW_FITTED};
	if (!(figure->value <= 1))
		figure->why =
			"more than the peak rate: the operations or the rate are not those of this job";
}
