/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology.h - what one all-reduce costs over a ring, a parameter server, a 2D torus.
 *
 * Pure functions. Volumes of ring and server are in osf.h. A cost here has two terms: what does not
 * depend on the bytes, one latency a message after the other, and what each link carries over its rate.
 * Not for: links that several flows share over time; simulate/dag.h simulates those.
 *
 * A hop's rate is what ONE rank gets while all ranks do the same. Where the n ranks of a host share one
 * network card, the inter hop of a torus has n times the card's ns_per_byte; a flat ring crosses
 * each card with one flow each way, and has the card alone.
 */
#ifndef LAPWING_ANALYZER_MODEL_TOPOLOGY_H
#define LAPWING_ANALYZER_MODEL_TOPOLOGY_H

struct lw_hop {
	double latency_ns;  /* alpha: fixed cost of one message, >= 0 */
	double ns_per_byte; /* beta: inverse rate, >= 0 */
};

struct lw_topology {
	int n_hosts;             /* m >= 1 */
	int n_per_host;          /* n >= 1; N = m n */
	struct lw_hop intra;     /* between ranks of one host */
	struct lw_hop inter;     /* between hosts */
	double copy_ns_per_byte; /* device to host memory, one way; only of lw_hierarchical_ns() */
};

struct lw_volume { /* sent by one rank in one all-reduce, bytes */
	double intra_bytes, inter_bytes;
};

/**
 * lw_ring_ns() - 2 (N - 1) alpha + 2 (N - 1) / N D beta: N - 1 steps of reduce-scatter and N - 1 of
 * all-gather, D / N bytes each (Zhang, Ran, Lai, Liu: Ring Allreduce against parameter server on Tianhe;
 * Thakur, Rabenseifner, Gropp 2005). One rank or no bytes: 0.
 */
double lw_ring_ns(double bytes, int n_ranks, struct lw_hop hop);

/**
 * lw_ps_ns() - one server, synchronous: 2 alpha + 2 N D beta. N workers push at once over the server's
 * link, then pull at once (same source; the latencies of one direction overlap). No worker: 0.
 */
double lw_ps_ns(double bytes, int n_workers, struct lw_hop hop);

/** lw_efficiency() - throughput of N ranks over N times that of one (same source): the SF of eq. 1. */
double lw_efficiency(double throughput_1, double throughput_n, int n_ranks);

/** lw_slowest_hop() - of a flat exchange through all hosts: the slower latency and the slower time a byte in use. */
struct lw_hop lw_slowest_hop(const struct lw_topology *topology);

/** lw_flat_ring_ns() - one ring through all hosts: every step takes as long as its slowest hop. */
double lw_flat_ring_ns(double bytes, const struct lw_topology *topology);

/**
 * lw_torus_ns() - 2DTAR (Shi et al., MLSys 2021, arXiv 2010.10458), HOROVOD_TORUS_ALLREDUCE:
 * reduce-scatter in the host, all-reduce of D / n between hosts, all-gather in the host:
 * 2 (n-1) alpha1 + 2 (n-1)/n D beta1 + 2 (m-1) alpha2 + 2 (m-1)/m D/n beta2.
 */
double lw_torus_ns(double bytes, const struct lw_topology *topology);

/**
 * lw_hierarchical_ns() - HOROVOD_HIERARCHICAL_ALLREDUCE: the same steps, but the shares of D / n cross
 * the network from host memory, so each is copied there and back.
 */
double lw_hierarchical_ns(double bytes, const struct lw_topology *topology);

/** lw_flat_ring_volume(), lw_torus_volume() - a flat ring on one host is intra, else inter. */
struct lw_volume lw_flat_ring_volume(double bytes, const struct lw_topology *topology);
struct lw_volume lw_torus_volume(double bytes, const struct lw_topology *topology);

#endif /* LAPWING_ANALYZER_MODEL_TOPOLOGY_H */
