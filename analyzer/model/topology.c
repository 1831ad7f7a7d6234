/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/topology.h"

#include <math.h>

#include "analyzer/model/osf.h"

double lw_ring_ns(double bytes, int n_ranks, struct lw_hop hop)
{
	if (n_ranks < 2 || bytes <= 0)
		return 0;
	return 2 * (n_ranks - 1) * hop.latency_ns +
	       lw_ring_wire_bytes(bytes, n_ranks) * hop.ns_per_byte;
}

double lw_ps_ns(double bytes, int n_workers, struct lw_hop hop)
{
	if (n_workers < 1 || bytes <= 0)
		return 0;
	return 2 * hop.latency_ns + lw_ps_wire_bytes(bytes, n_workers) * hop.ns_per_byte;
}

double lw_efficiency(double throughput_1, double throughput_n, int n_ranks)
{
	return throughput_n / (n_ranks * throughput_1);
}

struct lw_hop lw_slowest_hop(const struct lw_topology *topology)
{
	const struct lw_hop *intra = &topology->intra, *inter = &topology->inter;

	if (topology->n_hosts < 2)
		return *intra;
	if (topology->n_per_host < 2)
		return *inter;
	return (struct lw_hop){fmax(intra->latency_ns, inter->latency_ns),
		fmax(intra->ns_per_byte, inter->ns_per_byte)};
}

double lw_flat_ring_ns(double bytes, const struct lw_topology *topology)
{
	return lw_ring_ns(
		bytes, topology->n_hosts * topology->n_per_host, lw_slowest_hop(topology));
}

double lw_torus_ns(double bytes, const struct lw_topology *topology)
{
	return lw_ring_ns(bytes, topology->n_per_host, topology->intra) +
	       lw_ring_ns(bytes / topology->n_per_host, topology->n_hosts, topology->inter);
}

double lw_hierarchical_ns(double bytes, const struct lw_topology *topology)
{
	return lw_torus_ns(bytes, topology) +
	       2 * fmax(bytes, 0) / topology->n_per_host * topology->copy_ns_per_byte;
}

struct lw_volume lw_flat_ring_volume(double bytes, const struct lw_topology *topology)
{
	double sent_bytes = lw_ring_wire_bytes(bytes, topology->n_hosts * topology->n_per_host);

	return topology->n_hosts < 2 ? (struct lw_volume){sent_bytes, 0}
				     : (struct lw_volume){0, sent_bytes};
}

struct lw_volume lw_torus_volume(double bytes, const struct lw_topology *topology)
{
	return (struct lw_volume){lw_ring_wire_bytes(bytes, topology->n_per_host),
		lw_ring_wire_bytes(bytes / topology->n_per_host, topology->n_hosts)};
}
