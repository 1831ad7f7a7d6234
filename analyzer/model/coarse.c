/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/coarse.h"

#include <math.h>

double lw_pnorm(double a, double b, double power)
{
	double larger = fmax(a, b), smaller = fmin(a, b);

	if (larger <= 0)
		return 0;
	/* by their ratio: powers of nanoseconds overflow */
	return larger * pow(1 + pow(smaller / larger, power), 1 / power);
}

double lw_coarse_compute_ns(const struct lw_coarse *coarse, const struct lw_coarse_setting *setting)
{
	return coarse->compute_ns + coarse->compute_ns_per_sample * setting->samples_per_rank;
}

double lw_coarse_network_ns(const struct lw_coarse *coarse, const struct lw_coarse_setting *setting)
{
	if (setting->n_ranks < 2)
		return 0;
	if (setting->n_hosts > 1)
		return coarse->inter_ns + coarse->inter_ns_per_rank * (setting->n_ranks - 2);
	return coarse->intra_ns + coarse->intra_ns_per_rank * (setting->n_ranks - 2);
}

double lw_coarse_step_ns(const struct lw_coarse *coarse, const struct lw_coarse_setting *setting)
{
	return lw_pnorm(lw_coarse_compute_ns(coarse, setting),
		lw_coarse_network_ns(coarse, setting), coarse->power);
}
