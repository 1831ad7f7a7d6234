/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse.h - what sending only the largest gradients costs, and below which density it pays.
 *
 * Pure functions. k = density x d of the d gradients are sent, each with its index: 2 k items of the size
 * of an element. Formulas as the group of MSTopK publishes them (hclhkbu/gtopkssgd; Shi et al., MLSys
 * 2021, arXiv 2010.10458). log2 N is not rounded, so for N that is no power of two it is between whole
 * numbers of rounds.
 * Not for: what sparsity does to convergence, or which k gradients are the largest.
 */
#ifndef LAPWING_ANALYZER_MODEL_SPARSE_H
#define LAPWING_ANALYZER_MODEL_SPARSE_H

#include "analyzer/model/topology.h"

enum lw_sparse {
	/* every rank gathers the k items of all others over a flat ring: alpha log2 N + 2 (N-1) k e beta */
	LW_SPARSE_TOPK,
	/* a tree that keeps k items at each joint: alpha log2 N + 2 k log2 N e beta */
	LW_SPARSE_GTOPK,
	/* HiTopKComm: dense reduce-scatter in the host, top-k of each rank's share d / n between hosts,
	 * dense all-gather in the host: 2 (n-1) alpha1 + 2 (n-1)/n d e beta1 + (m-1) alpha2 +
	 * 2 (m-1) density d/n e beta2, and the selection out of d / n */
	LW_SPARSE_HITOPK,
};

struct lw_sparse_job {
	struct lw_topology topology;
	double n_elements;    /* d >= 1 */
	double element_bytes; /* e, of a gradient and of its index */
	/* s: selecting among x elements takes s x log2 x; 0.219 ns on a P102-100, 0.500 ns on a V100
	 * (hclhkbu/MG-WFBP); 0 leaves it out */
	double select_ns;
};

/** lw_select_ns() - s x log2 x; 0 for x < 2. */
double lw_select_ns(double n_elements, double select_ns);

/** lw_sparse_ns() - selection and exchange at @density_frac in [0, 1]. */
double lw_sparse_ns(enum lw_sparse how, const struct lw_sparse_job *job, double density_frac);

/** lw_sparse_volume() - what one rank sends; flat ones on one host are intra, else inter. */
struct lw_volume lw_sparse_volume(
	enum lw_sparse how, const struct lw_sparse_job *job, double density_frac);

/**
 * lw_sparse_break_even_frac() - the density at which @how takes as long as the dense all-reduce that it
 * replaces: the flat ring, for HiTopKComm the torus. Below it, it is faster.
 * Without latencies and selection: 1 / N, (N - 1) / (N log2 N), 1 / m.
 * Return: in [0, 1]; 0 = never faster, as the selection or the latencies alone cost more.
 */
double lw_sparse_break_even_frac(enum lw_sparse how, const struct lw_sparse_job *job);

#endif /* LAPWING_ANALYZER_MODEL_SPARSE_H */
