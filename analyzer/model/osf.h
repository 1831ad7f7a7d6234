/* SPDX-License-Identifier: Apache-2.0 */
/*
 * osf.h - the OSF scaling model without fusion, and the volumes of ring and parameter server.
 *
 * Reads and writes nothing: pure functions over numbers. Fusion is fusion.h, grouping is grouping.h.
 * Not for: Horovod's real loop (ticks, look-ahead, negotiation); simulate/ replays that.
 *
 * Source, where not said otherwise: Liu, Miao, Wu, Li, He, Wu, Zhang, Yang, Tyson, Xie, WWW 2022,
 * doi 10.1145/3485447.3511981, called "OSF" below; equation numbers are theirs. docs/model.md has
 * all formulas in one place.
 *
 * Layers stand in the order in which their gradients become ready: index 0 is the paper's layer n
 * (output side), index n - 1 is its layer 1. Times are ns, measured from the end of the backward
 * pass of index 0; sizes are bytes; both double, since these are model values, not stamps.
 */
#ifndef LAPWING_ANALYZER_MODEL_OSF_H
#define LAPWING_ANALYZER_MODEL_OSF_H

#include <stddef.h>

/* Time of one all-reduce of @bytes, ns, >= 0. @params belongs to the function. */
typedef double (*lw_cost_fn)(double bytes, const void *params);

struct lw_link {
	lw_cost_fn cost_ns;
	const void *params;
};

struct lw_layer {
	double bytes;       /* D(i): its gradient, >= 0 */
	double backward_ns; /* t_backward(i), >= 0; that of index 0 is outside of every overlap */
};

/* Eq. 7 with its four parameters; the params of lw_ring_update_ns(). */
struct lw_ring {
	int n_ranks;             /* N >= 1 */
	double beta_bytes_per_s; /* between neighbours of the ring, effective, > 0 */
	double peak_flop_per_s;  /* pi > 0; INFINITY leaves the additions out */
	double element_bytes;    /* s > 0 */
	double delta_ns;         /* fixed cost of one all-reduce, >= 0 */
};

/** lw_link_ns() - t_update(@bytes) over @link; 0 for @bytes <= 0, never the fixed cost (eq. 18). */
double lw_link_ns(struct lw_link link, double bytes);

/** lw_ring_update_ns() - eq. 7 as a lw_cost_fn; @ring is a struct lw_ring. One rank: 0. */
double lw_ring_update_ns(double bytes, const void *ring);

/**
 * lw_ring_wire_bytes() - what each rank sends in one ring all-reduce of @bytes: 2 D (N - 1) / N
 * (Zhang, Ran, Lai, Liu: Ring Allreduce against parameter server on Tianhe, eq. 1).
 */
double lw_ring_wire_bytes(double bytes, int n_ranks);

/** lw_ps_wire_bytes() - through the one server of a parameter server, in and out: 2 N D (same). */
double lw_ps_wire_bytes(double bytes, int n_ranks);

/** lw_ps_over_ring() - time of one server over time of a ring, equal links: N^2 / (N - 1); N >= 2. */
double lw_ps_over_ring(int n_ranks);

/** lw_busbw_bytes_per_s() - algbw times 2 (N - 1) / N, as nccl-tests defines it. */
double lw_busbw_bytes_per_s(double algbw_bytes_per_s, int n_ranks);

/**
 * lw_beta_bytes_per_s() - the effective beta of a fitted slope k (ns per byte): 2 (N - 1) / (N k),
 * eq. 7 without its additions, which are 1e-5 of it and cannot be told apart. NAN for k <= 0, N < 2.
 */
double lw_beta_bytes_per_s(double slope_ns_per_byte, int n_ranks);

/** lw_sf() - eq. 1 for a fixed amount of work: T_1 / (T_N N). */
double lw_sf(double t_1_ns, double t_n_ns, int n_ranks);

/** lw_sf_weak() - eq. 1 for a fixed batch per rank: step time of 1 rank over step time of N. */
double lw_sf_weak(double step_1_ns, double step_n_ns);

/** lw_csf() - eq. 2: T_comp / (T_comp + T_comm); T_comm is ONE all-reduce of all gradients. */
double lw_csf(double compute_ns, double comm_ns);

/** lw_osf() - eq. 3, and eq. 11 with the T_update of a fusion plan. */
double lw_osf(double compute_ns, double update_ns, double overlap_ns);

/** lw_osf_accumulated() - eq. 3 with one exchange every @n_passes backward passes, >= 1. */
double lw_osf_accumulated(double compute_ns, double update_ns, double overlap_ns, int n_passes);

/**
 * lw_osf_passes() - the fewest backward passes an exchange (Horovod's backward_passes_per_step) with which
 * lw_osf_accumulated() reaches @target: k >= target E / ((1 - target) T_comp), E = T_update - T_overlap.
 * Return: >= 1; 0 = no number reaches it (@target >= 1 and something is exposed, or beyond INT_MAX).
 */
int lw_osf_passes(double compute_ns, double update_ns, double overlap_ns, double target);

/** lw_backward_ns() - eq. 6: 2 M C / (c pi). @flop: C, of one sample; @utilisation: c in (0, 1]. */
double lw_backward_ns(double flop, double n_samples, double utilisation, double peak_flop_per_s);

/** lw_compute_ns() - eq. 5: 3 M sum(C) / (c pi), forward and backward. */
double lw_compute_ns(double flop_sum, double n_samples, double utilisation, double peak_flop_per_s);

/** lw_utilisation() - c: what eq. 5 gives for c = 1 over the measured T_comp. */
double lw_utilisation(double flop_sum, double n_samples, double peak_flop_per_s, double compute_ns);

/** lw_layers_bytes() - sum of D. */
double lw_layers_bytes(const struct lw_layer *layers, size_t n);

/** lw_layers_overlap_ns() - eq. 10: the backward passes of all layers but index 0. */
double lw_layers_overlap_ns(const struct lw_layer *layers, size_t n);

/** lw_layers_update_ns() - eq. 8 and 9: T_update, each layer its own all-reduce. 0 for no layer. */
double lw_layers_update_ns(const struct lw_layer *layers, size_t n, struct lw_link link);

#endif /* LAPWING_ANALYZER_MODEL_OSF_H */
