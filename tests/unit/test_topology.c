/* SPDX-License-Identifier: Apache-2.0 */
/* Rings, servers, tori and sparse exchanges against published and worked figures. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/model/osf.h"
#include "analyzer/model/sparse.h"
#include "analyzer/model/topology.h"

/* ResNet-50 in fp32 on 16 hosts of 8 devices: the example of MSTopK. */
static const double elements = 25557032, bytes = 25557032.0 * 4;
/* 10 us and 10 GB/s in a host; 50 us and 25 Gbit/s between hosts, shared by 8 ranks */
static const struct lw_topology cloud = {.n_hosts = 16,
	.n_per_host = 8,
	.intra = {10e3, 0.1},
	.inter = {50e3, 8 * 0.32},
	.copy_ns_per_byte = 0.1};

static void assert_close(double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance))
		fail_msg("%.12g is not %.12g +- %g", value, expected, tolerance);
}

static void a_ring_pays_every_message_and_its_share_of_bytes(void **state)
{
	static const struct lw_hop hop = {1e3, 2};

	(void)state;
	assert_close(lw_ring_ns(4e6, 4, hop), 6 * 1e3 + 1.5 * 4e6 * 2, 1e-6);
	assert_true(lw_ring_ns(4e6, 1, hop) == 0);
	assert_true(lw_ring_ns(0, 4, hop) == 0);
	/* eq. 7 without additions is the same ring: beta is the rate, delta all latencies */
	assert_close(lw_ring_ns(4e6, 4, hop),
		lw_ring_update_ns(4e6, &(struct lw_ring){4, 0.5e9, INFINITY, 4, 6e3}), 1e-6);
}

static void a_server_is_the_bottleneck_that_grows_with_the_workers(void **state)
{
	static const struct lw_hop hop = {0, 1};

	(void)state;
	assert_close(lw_ps_ns(1e6, 32, hop) / lw_ring_ns(1e6, 32, hop), 33.03, 0.005);
	assert_close(lw_ps_ns(1e6, 32, hop) / lw_ring_ns(1e6, 32, hop), lw_ps_over_ring(32), 1e-9);
	assert_close(lw_ps_ns(1e6, 8, hop) / lw_ps_ns(1e6, 4, hop), 2, 1e-12);
	assert_close(lw_ps_ns(1e6, 3, (struct lw_hop){5e3, 1}), 2 * 5e3 + 6e6, 1e-6);
	assert_true(lw_ps_ns(0, 3, hop) == 0 && lw_ps_ns(1e6, 0, hop) == 0);
}

static void efficiency_as_published_for_tianhe(void **state)
{
	(void)state;
	/* 32 GPUs: speedups of 31.10 (ring) and 24.96 (server) */
	assert_close(lw_efficiency(1, 0.972 * 32, 32), 0.972, 1e-12);
	assert_close(lw_efficiency(100, 2496, 32), 0.78, 1e-12);
	assert_close(lw_efficiency(100, 400, 4), lw_sf_weak(1 / 100.0, 1 / 100.0), 1e-12);
}

static void volumes_of_ring_and_torus_as_published(void **state)
{
	struct lw_volume ring = lw_flat_ring_volume(bytes, &cloud);
	struct lw_volume torus = lw_torus_volume(bytes, &cloud);

	(void)state;
	assert_close(ring.inter_bytes / 1e6, 202.859, 0.0005);
	assert_true(ring.intra_bytes == 0);
	assert_close(torus.inter_bytes / 1e6, 23.960, 0.0005);
	assert_close(torus.intra_bytes / 1e6, 178.899, 0.0005);
}

static void a_torus_adds_up_its_three_phases(void **state)
{
	double expected_ns =
		2 * 7 * 10e3 + 178.899224e6 * 0.1 + 2 * 15 * 50e3 + 23.9597175e6 * 2.56;
	struct lw_topology one_host = cloud, flat = cloud;

	(void)state;
	assert_close(lw_torus_ns(bytes, &cloud), expected_ns, 1);
	assert_close(lw_hierarchical_ns(bytes, &cloud) - lw_torus_ns(bytes, &cloud),
		2 * bytes / 8 * 0.1, 1e-3);
	/* one row or one column of the torus is a ring */
	one_host.n_hosts = 1;
	assert_close(lw_torus_ns(bytes, &one_host), lw_ring_ns(bytes, 8, cloud.intra), 1e-3);
	assert_close(lw_torus_ns(bytes, &one_host), lw_flat_ring_ns(bytes, &one_host), 1e-3);
	flat.n_per_host = 1;
	assert_close(lw_torus_ns(bytes, &flat), lw_ring_ns(bytes, 16, cloud.inter), 1e-3);
	assert_close(lw_torus_ns(bytes, &flat), lw_flat_ring_ns(bytes, &flat), 1e-3);
	assert_true(lw_hierarchical_ns(0, &cloud) == 0);
}

static void a_flat_ring_is_as_slow_as_its_slowest_hop(void **state)
{
	struct lw_topology topology = cloud;

	(void)state;
	topology.inter = (struct lw_hop){5e3, 0.32}; /* fewer ns a message than in the host */
	assert_close(lw_flat_ring_ns(bytes, &topology), 2 * 127 * 10e3 + 202.859e6 * 0.32, 2e3);
}

static struct lw_sparse_job job_of(double latency_ns, double select_ns)
{
	struct lw_sparse_job job = {cloud, elements, 4, select_ns};

	job.topology.intra.latency_ns = job.topology.inter.latency_ns = latency_ns;
	return job;
}

static void sparse_volumes_as_published(void **state)
{
	static const struct {
		double density_frac, hitopk_1e6_bytes, topk_1e6_bytes;
	} rows[] = {{0.001, 0.3834, 25.966}, {0.01, 3.8336, 259.66}, {0.05, 19.168, NAN},
		{0.0625, 23.960, NAN}};
	struct lw_sparse_job job = job_of(0, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		double hitopk_bytes =
			lw_sparse_volume(LW_SPARSE_HITOPK, &job, rows[i].density_frac).inter_bytes;
		double topk_bytes =
			lw_sparse_volume(LW_SPARSE_TOPK, &job, rows[i].density_frac).inter_bytes;

		assert_close(hitopk_bytes / 1e6 / rows[i].hitopk_1e6_bytes, 1, 2e-4);
		if (!isnan(rows[i].topk_1e6_bytes))
			assert_close(topk_bytes / 1e6 / rows[i].topk_1e6_bytes, 1, 2e-4);
	}
	/* 2 k items, 7 rounds of the tree over 128 ranks */
	assert_close(lw_sparse_volume(LW_SPARSE_GTOPK, &job, 0.001).inter_bytes,
		2 * 0.001 * bytes * 7, 1);
	assert_close(
		lw_sparse_volume(LW_SPARSE_HITOPK, &job, 0.001).intra_bytes / 1e6, 178.899, 0.0005);
	job.topology.n_hosts = 1;
	assert_true(lw_sparse_volume(LW_SPARSE_TOPK, &job, 0.01).inter_bytes == 0);
	assert_close(lw_sparse_volume(LW_SPARSE_TOPK, &job, 0.01).intra_bytes, 7 * 0.02 * bytes, 1);
}

static void sparse_times_as_their_formulas(void **state)
{
	struct lw_sparse_job job = {cloud, elements, 4, 4.99671953e-1};
	double k = 0.001 * elements;

	(void)state;
	assert_close(lw_sparse_ns(LW_SPARSE_TOPK, &job, 0.001),
		50e3 * 7 + 2 * 127 * k * 4 * 2.56 + lw_select_ns(elements, job.select_ns), 1);
	assert_close(lw_sparse_ns(LW_SPARSE_GTOPK, &job, 0.001),
		50e3 * 7 + 2 * k * 7 * 4 * 2.56 + lw_select_ns(elements, job.select_ns), 1);
	assert_close(lw_sparse_ns(LW_SPARSE_HITOPK, &job, 0.001),
		14 * 10e3 + 2 * 7.0 / 8 * bytes * 0.1 + lw_select_ns(elements / 8, job.select_ns) +
			15 * 50e3 + 2 * 15 * k / 8 * 4 * 2.56,
		1);
	job.topology.intra =
		(struct lw_hop){60e3, 3}; /* slower than between hosts: then it sets the pace */
	assert_close(lw_sparse_ns(LW_SPARSE_TOPK, &job, 0.001),
		60e3 * 7 + 2 * 127 * k * 4 * 3 + lw_select_ns(elements, job.select_ns), 1);
	assert_close(lw_sparse_ns(LW_SPARSE_GTOPK, &job, 0.001),
		60e3 * 7 + 2 * k * 7 * 4 * 3 + lw_select_ns(elements, job.select_ns), 1);
	job.topology.n_per_host = 1; /* nothing is sent within a host */
	assert_close(lw_sparse_ns(LW_SPARSE_TOPK, &job, 0.001),
		50e3 * 4 + 2 * 15 * k * 4 * 2.56 + lw_select_ns(elements, job.select_ns), 1);
	/* V100, ResNet-50: 0.5 ns x 25.6e6 x log2 = 0.31 s */
	assert_close(lw_select_ns(elements, job.select_ns) / 1e6, 314.2, 0.1);
	assert_true(lw_select_ns(1, 1) == 0);
}

static void sparse_breaks_even_where_its_bytes_equal_the_dense_ones(void **state)
{
	struct lw_sparse_job job = job_of(0, 0);

	(void)state;
	job.topology.inter.ns_per_byte = 0.32;
	assert_close(lw_sparse_break_even_frac(LW_SPARSE_TOPK, &job), 1 / 128.0, 1e-12);
	assert_close(lw_sparse_break_even_frac(LW_SPARSE_GTOPK, &job), 127 / (128.0 * 7), 1e-12);
	assert_close(lw_sparse_break_even_frac(LW_SPARSE_HITOPK, &job), 1 / 16.0, 1e-12);
	for (int how = LW_SPARSE_TOPK; how <= LW_SPARSE_HITOPK; how++) {
		struct lw_sparse_job costly = job_of(10e3, 0.2);
		double dense_ns = how == LW_SPARSE_HITOPK
					  ? lw_torus_ns(bytes, &costly.topology)
					  : lw_flat_ring_ns(bytes, &costly.topology);
		double frac = lw_sparse_break_even_frac((enum lw_sparse)how, &costly);

		assert_true(frac > 0 && frac < 1);
		assert_close(lw_sparse_ns((enum lw_sparse)how, &costly, frac), dense_ns, 1);
		costly.select_ns = 100; /* selecting takes longer than sending all of it */
		assert_true(lw_sparse_break_even_frac((enum lw_sparse)how, &costly) == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring_pays_every_message_and_its_share_of_bytes),
		cmocka_unit_test(a_server_is_the_bottleneck_that_grows_with_the_workers),
		cmocka_unit_test(efficiency_as_published_for_tianhe),
		cmocka_unit_test(volumes_of_ring_and_torus_as_published),
		cmocka_unit_test(a_torus_adds_up_its_three_phases),
		cmocka_unit_test(a_flat_ring_is_as_slow_as_its_slowest_hop),
		cmocka_unit_test(sparse_volumes_as_published),
		cmocka_unit_test(sparse_times_as_their_formulas),
		cmocka_unit_test(sparse_breaks_even_where_its_bytes_equal_the_dense_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
