/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/sparse.h"

#include <math.h>

double lw_select_ns(double n_elements, double select_ns)
{
	return n_elements < 2 ? 0 : select_ns * n_elements * log2(n_elements);
}

static int n_ranks_of(const struct lw_sparse_job *job)
{
	return job->topology.n_hosts * job->topology.n_per_host;
}

struct lw_volume lw_sparse_volume(
	enum lw_sparse how, const struct lw_sparse_job *job, double density_frac)
{
	const struct lw_topology *topology = &job->topology;
	double dense_bytes = job->n_elements * job->element_bytes;
	double sparse_bytes = 2 * density_frac * dense_bytes; /* values and indices */
	struct lw_volume volume = {0, 0};

	switch (how) {
	case LW_SPARSE_TOPK:
		volume.inter_bytes = (n_ranks_of(job) - 1) * sparse_bytes;
		break;
	case LW_SPARSE_GTOPK:
		volume.inter_bytes = log2(n_ranks_of(job)) * sparse_bytes;
		break;
	case LW_SPARSE_HITOPK:
		volume.intra_bytes = lw_torus_volume(dense_bytes, topology).intra_bytes;
		volume.inter_bytes = (topology->n_hosts - 1) * sparse_bytes / topology->n_per_host;
		return volume;
	}
	if (topology->n_hosts < 2)
		volume = (struct lw_volume){volume.inter_bytes, 0};
	return volume;
}

double lw_sparse_ns(enum lw_sparse how, const struct lw_sparse_job *job, double density_frac)
{
	const struct lw_topology *topology = &job->topology;
	struct lw_volume volume = lw_sparse_volume(how, job, density_frac);
	struct lw_hop hop = lw_slowest_hop(topology);

	if (how == LW_SPARSE_HITOPK)
		return lw_select_ns(job->n_elements / topology->n_per_host, job->select_ns) +
		       2 * (topology->n_per_host - 1) * topology->intra.latency_ns +
		       volume.intra_bytes * topology->intra.ns_per_byte +
		       (topology->n_hosts - 1) * topology->inter.latency_ns +
		       volume.inter_bytes * topology->inter.ns_per_byte;
	return lw_select_ns(job->n_elements, job->select_ns) +
	       log2(n_ranks_of(job)) * hop.latency_ns +
	       (volume.intra_bytes + volume.inter_bytes) * hop.ns_per_byte;
}

double lw_sparse_break_even_frac(enum lw_sparse how, const struct lw_sparse_job *job)
{
	double dense_bytes = job->n_elements * job->element_bytes;
	double dense_ns = how == LW_SPARSE_HITOPK ? lw_torus_ns(dense_bytes, &job->topology)
						  : lw_flat_ring_ns(dense_bytes, &job->topology);
	double nothing_ns = lw_sparse_ns(how, job, 0);
	double slope_ns = lw_sparse_ns(how, job, 1) - nothing_ns; /* the cost is a line */

	if (dense_ns <= nothing_ns)
		return 0;
	return fmin((dense_ns - nothing_ns) / slope_ns, 1);
}
