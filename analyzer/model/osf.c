/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/osf.h"

#include <limits.h>
#include <math.h>

static const double ns_per_s = 1e9;

double lw_link_ns(struct lw_link link, double bytes)
{
	return bytes > 0 ? link.cost_ns(bytes, link.params) : 0;
}

double lw_ring_update_ns(double bytes, const void *params)
{
	const struct lw_ring *ring = params;
	double n = ring->n_ranks;
	double transfer_s, additions_s;

	if (ring->n_ranks < 2 || bytes <= 0)
		return 0;
	/* 2 (N - 1) steps of D / N bytes; N - 1 of them add D / s / N elements. */
	transfer_s = 2 * (n - 1) / (ring->beta_bytes_per_s * n) * bytes;
	additions_s = (n - 1) / (n * ring->peak_flop_per_s * ring->element_bytes) * bytes;
	return (transfer_s + additions_s) * ns_per_s + ring->delta_ns;
}

double lw_ring_wire_bytes(double bytes, int n_ranks)
{
	return n_ranks < 2 ? 0 : 2 * bytes * (n_ranks - 1) / n_ranks;
}

double lw_ps_wire_bytes(double bytes, int n_ranks)
{
	return 2 * bytes * n_ranks;
}

double lw_ps_over_ring(int n_ranks)
{
	return lw_ps_wire_bytes(1, n_ranks) / lw_ring_wire_bytes(1, n_ranks);
}

double lw_busbw_bytes_per_s(double algbw_bytes_per_s, int n_ranks)
{
	return lw_ring_wire_bytes(algbw_bytes_per_s, n_ranks);
}

double lw_beta_bytes_per_s(double slope_ns_per_byte, int n_ranks)
{
	if (!(slope_ns_per_byte > 0) || n_ranks < 2)
		return NAN;
	return lw_ring_wire_bytes(1, n_ranks) / slope_ns_per_byte * ns_per_s;
}

double lw_sf(double t_1_ns, double t_n_ns, int n_ranks)
{
	return t_1_ns / (t_n_ns * n_ranks);
}

double lw_sf_weak(double step_1_ns, double step_n_ns)
{
	return step_1_ns / step_n_ns;
}

double lw_csf(double compute_ns, double comm_ns)
{
	return compute_ns / (compute_ns + comm_ns);
}

double lw_osf(double compute_ns, double update_ns, double overlap_ns)
{
	return compute_ns / (compute_ns + update_ns - overlap_ns);
}

double lw_osf_accumulated(double compute_ns, double update_ns, double overlap_ns, int n_passes)
{
	/* Only the last of the passes overlaps with the exchange. */
	return lw_osf(n_passes * compute_ns, update_ns, overlap_ns);
}

int lw_osf_passes(double compute_ns, double update_ns, double overlap_ns, double target)
{
	double exposed_ns = update_ns - overlap_ns, passes;

	if (exposed_ns <= 0)
		return 1;
	passes = ceil(target * exposed_ns / ((1 - target) * compute_ns));
	if (target >= 1 || !(passes < INT_MAX))
		return 0;
	/* rounding may leave the quotient a hair above a whole number */
	if (passes > 1 &&
		lw_osf_accumulated(compute_ns, update_ns, overlap_ns, (int)passes - 1) >= target)
		passes--;
	return (int)fmax(passes, 1);
}

double lw_backward_ns(double flop, double n_samples, double utilisation, double peak_flop_per_s)
{
	return 2 * n_samples * flop / (utilisation * peak_flop_per_s) * ns_per_s;
}

double lw_compute_ns(double flop_sum, double n_samples, double utilisation, double peak_flop_per_s)
{
	/* Eq. 4: the backward pass is taken as twice the forward pass. */
	return 1.5 * lw_backward_ns(flop_sum, n_samples, utilisation, peak_flop_per_s);
}

double lw_utilisation(double flop_sum, double n_samples, double peak_flop_per_s, double compute_ns)
{
	return lw_compute_ns(flop_sum, n_samples, 1, peak_flop_per_s) / compute_ns;
}

double lw_layers_bytes(const struct lw_layer *layers, size_t n)
{
	double bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += layers[i].bytes;
	return bytes;
}

double lw_layers_overlap_ns(const struct lw_layer *layers, size_t n)
{
	double overlap_ns = 0;

	for (size_t i = 1; i < n; i++)
		overlap_ns += layers[i].backward_ns;
	return overlap_ns;
}

double lw_layers_update_ns(const struct lw_layer *layers, size_t n, struct lw_link link)
{
	double done_ns = 0, end_ns = 0;

	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			done_ns += layers[i].backward_ns;
		/* tau(i), then its all-reduce */
		end_ns = fmax(end_ns, done_ns) + lw_link_ns(link, layers[i].bytes);
	}
	return end_ns;
}
