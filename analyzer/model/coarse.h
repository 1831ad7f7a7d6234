/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coarse.h - step time from two phases, compute and network, that overlap by a p-norm.
 *
 * Pure functions. Nothing is known about layers, batches or links: how much of the shorter phase hides
 * behind the longer one is one number, the power. Its fit is fit/coarse.h.
 * Not for: what the fusion buffer or the cycle do to a step; osf.h, fusion.h and simulate/ hold that.
 *
 * Source: Qiao et al., Pollux, OSDI 2021 (petuum/adaptdl, goodput.py). The coarse-grained class of
 * models: Li, Paolieri, Golubchik, Lin, Yan, TPDS 33(11), 2022.
 */
#ifndef LAPWING_ANALYZER_MODEL_COARSE_H
#define LAPWING_ANALYZER_MODEL_COARSE_H

/* Bounds of the power: 1 = one phase after the other, 10 = nearly the longer one alone. */
#define LW_PNORM_MIN_POWER 1.0
#define LW_PNORM_MAX_POWER 10.0

struct lw_coarse {
	double compute_ns, compute_ns_per_sample; /* T_comp = a + b samples */
	double inter_ns, inter_ns_per_rank;       /* T_net = a + b (R - 2) over several hosts */
	double intra_ns, intra_ns_per_rank;       /* the same on one host */
	double power;                             /* gamma */
};

struct lw_coarse_setting {
	int n_hosts, n_ranks;    /* >= 1 */
	double samples_per_rank; /* local batch size, > 0 */
};

/**
 * lw_pnorm() - (a^power + b^power)^(1 / power), a and b >= 0; power 1 is their sum, INFINITY the larger.
 */
double lw_pnorm(double a, double b, double power);

/** lw_coarse_compute_ns() - T_comp. */
double lw_coarse_compute_ns(
	const struct lw_coarse *coarse, const struct lw_coarse_setting *setting);

/** lw_coarse_network_ns() - T_net; 0 for one rank. */
double lw_coarse_network_ns(
	const struct lw_coarse *coarse, const struct lw_coarse_setting *setting);

/** lw_coarse_step_ns() - T_step = (T_comp^gamma + T_net^gamma)^(1 / gamma). */
double lw_coarse_step_ns(const struct lw_coarse *coarse, const struct lw_coarse_setting *setting);

#endif /* LAPWING_ANALYZER_MODEL_COARSE_H */
