/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/model/fusion.h"
#include "analyzer/model/grouping.h"
#include "analyzer/model/osf.h"
#include "base/err.h"

#define MS      1e6
#define N_OF(a) (sizeof(a) / sizeof((a)[0]))

/* The worked example: D[1..4] = 1, 2, 3, 4 MB, t_b[1..4] = 3, 2, 4, 1 ms, layer 4 first. */
static const struct lw_layer example[] = {
	{4e6, 1 * MS}, {3e6, 4 * MS}, {2e6, 2 * MS}, {1e6, 3 * MS}};
static const struct lw_ring example_ring = {.n_ranks = 4,
	.beta_bytes_per_s = 1e9,
	.peak_flop_per_s = 1e13,
	.element_bytes = 4,
	.delta_ns = 1 * MS};
static const struct lw_link example_link = {lw_ring_update_ns, &example_ring};
enum { N_EXAMPLE = N_OF(example) };
static const double example_compute_ns = 15 * MS;

/* Equal to @digits decimals, as printed. */
static void assert_close(double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance))
		fail_msg("%.12g is not %.12g +- %g", value, expected, tolerance);
}

static void an_update_costs_transfer_additions_and_delta(void **state)
{
	static const double expected_ms[] = {7.000075, 5.50005625, 4.0000375, 2.50001875};

	(void)state;
	for (size_t i = 0; i < N_EXAMPLE; i++)
		assert_close(lw_link_ns(example_link, example[i].bytes) / MS, expected_ms[i], 5e-9);
	assert_close(lw_link_ns(example_link, 10e6) / MS, 16.0001875, 5e-9);
}

static void nothing_to_send_costs_nothing(void **state)
{
	struct lw_ring alone = example_ring;

	(void)state;
	alone.n_ranks = 1;
	assert_true(lw_ring_update_ns(1e6, &alone) == 0);
	assert_true(lw_ring_update_ns(0, &example_ring) == 0);
	assert_true(lw_link_ns(example_link, 0) == 0);
	/* One rank: the step is the compute, whatever the layers. */
	assert_close(lw_osf(example_compute_ns,
			     lw_layers_update_ns(example, N_EXAMPLE,
				     (struct lw_link){lw_ring_update_ns, &alone}),
			     lw_layers_overlap_ns(example, N_EXAMPLE)),
		1, 1e-15);
}

static void the_example_without_fusion(void **state)
{
	static const double tau_end_ms[] = {7.000075, 12.50013125, 16.50016875, 19.0001875};
	double update_ns = lw_layers_update_ns(example, N_EXAMPLE, example_link);
	double overlap_ns = lw_layers_overlap_ns(example, N_EXAMPLE);

	(void)state;
	/* The end after each layer is the next one's tau, as the link is never idle here. */
	for (size_t i = 0; i < N_EXAMPLE; i++)
		assert_close(lw_layers_update_ns(example, i + 1, example_link) / MS, tau_end_ms[i],
			5e-9);
	assert_close(overlap_ns, 9 * MS, 0);
	assert_close(update_ns / MS, 19.0001875, 5e-9);
	assert_close(lw_osf(example_compute_ns, update_ns, overlap_ns), 0.5999955000, 5e-11);
	assert_close(lw_csf(example_compute_ns,
			     lw_link_ns(example_link, lw_layers_bytes(example, N_EXAMPLE))),
		0.4838680411, 5e-11);
}

static void every_row_of_the_fusion_table(void **state)
{
	/* Both variants; bytes in MB and in the paper's order, layer 1 first. */
	static const struct {
		double fusion_bytes, timeout_ms;
		double buffered_1e6_bytes[N_EXAMPLE], sent_1e6_bytes[N_EXAMPLE];
		size_t n_ops;
		double paper_ms, paper_osf, fifo_ms, fifo_osf;
	} rows[] = {
		{0, 10, {1, 2, 3, 4}, {1, 2, 3, 4}, 4, 28.000188, .441174038, 19.000188,
			.599995500},
		{3e6, 10, {3, 2, 3, 4}, {3, 0, 3, 4}, 3, 24.000188, .499996875, 18.000188,
			.624995117},
		{5e6, 10, {1, 5, 3, 4}, {1, 5, 0, 4}, 3, 25.000187, .483868041, 22.000188,
			.535710698},
		{7e6, 10, {3, 2, 7, 4}, {3, 0, 7, 0}, 2, 23.000188, .517238035, 21.000187,
			.555551698},
		{7e6, 2.5, {1, 5, 3, 4}, {1, 5, 0, 4}, 3, 23.000187, .517238035, 20.500187,
			.566033731},
		{1e9, 10, {10, 9, 7, 4}, {10, 0, 0, 0}, 1, 25.000187, .483868041, 25.000187,
			.483868041},
		{1e9, 1, {1, 2, 3, 4}, {1, 2, 3, 4}, 4, 22.000188, .535710698, 20.000187,
			.576918916},
	};
	double overlap_ns = lw_layers_overlap_ns(example, N_EXAMPLE);

	(void)state;
	for (size_t r = 0; r < N_OF(rows); r++) {
		for (int variant = LW_OSF_PAPER; variant <= LW_OSF_FIFO; variant++) {
			bool is_paper = variant == LW_OSF_PAPER;
			struct lw_fusion_slot slots[N_EXAMPLE];
			double update_ns;

			lw_fusion_plan(example, N_EXAMPLE, rows[r].fusion_bytes,
				rows[r].timeout_ms * MS, (enum lw_osf_variant)variant, slots);
			for (size_t i = 0; i < N_EXAMPLE; i++) {
				size_t layer = N_EXAMPLE - 1 - i;

				assert_close(slots[i].buffered_bytes,
					rows[r].buffered_1e6_bytes[layer] * 1e6, 0);
				assert_close(slots[i].sent_bytes,
					rows[r].sent_1e6_bytes[layer] * 1e6, 0);
			}
			assert_int_equal(lw_fusion_n_ops(slots, N_EXAMPLE), rows[r].n_ops);
			update_ns = lw_fusion_update_ns(example, slots, N_EXAMPLE, example_link,
				(enum lw_osf_variant)variant);
			/* printed to six and nine decimals, some of them cut, not rounded */
			assert_close(update_ns / MS, is_paper ? rows[r].paper_ms : rows[r].fifo_ms,
				0.6e-6);
			assert_close(lw_osf(example_compute_ns, update_ns, overlap_ns),
				is_paper ? rows[r].paper_osf : rows[r].fifo_osf, 0.6e-9);
		}
	}
}

static void the_example_groups_as_published(void **state)
{
	static const bool best[] = {true, false, true, true}; /* {4}, {3, 2}, {1} */
	static const bool apart[] = {true, true, true, true};
	bool is_last[N_EXAMPLE];

	(void)state;
	assert_int_equal(
		lw_group_optimal(example, N_EXAMPLE, INFINITY, example_link, is_last), LW_OK);
	assert_memory_equal(is_last, best, sizeof(best));
	assert_close(lw_group_update_ns(example, N_EXAMPLE, example_link, is_last) / MS, 18.0001875,
		5e-9);
	lw_group_mgwfbp(example, N_EXAMPLE, example_link, is_last);
	assert_memory_equal(is_last, best, sizeof(best));
	lw_group_adafusion(example, N_EXAMPLE, example_link, true, is_last);
	assert_memory_equal(is_last, best, sizeof(best));
	lw_group_adafusion(example, N_EXAMPLE, example_link, false, is_last);
	assert_memory_equal(is_last, apart, sizeof(apart));
}

struct affine {
	double a_ns, b_ns_per_byte;
};

static double affine_ns(double bytes, const void *params)
{
	const struct affine *affine = params;

	return affine->a_ns + affine->b_ns_per_byte * bytes;
}

static void the_greedy_rule_is_not_optimal(void **state)
{
	/* D[1..3] = 1, 1, 2 MB, t_b = 3, 2, 5 ms, t = 3 ms + 1 ns a byte */
	static const struct lw_layer layers[] = {{2e6, 5 * MS}, {1e6, 2 * MS}, {1e6, 3 * MS}};
	static const struct affine affine = {3 * MS, 1};
	static const struct lw_link link = {affine_ns, &affine};
	static const bool greedy[] = {false, true, true}, best[] = {true, false, true};
	bool is_last[3];

	(void)state;
	lw_group_mgwfbp(layers, 3, link, is_last);
	assert_memory_equal(is_last, greedy, sizeof(greedy));
	assert_close(lw_group_update_ns(layers, 3, link, is_last), 12 * MS, 0);
	assert_int_equal(lw_group_optimal(layers, 3, INFINITY, link, is_last), LW_OK);
	assert_memory_equal(is_last, best, sizeof(best));
	assert_close(lw_group_update_ns(layers, 3, link, is_last), 10 * MS, 0);
	assert_int_equal(lw_group_n_ops(is_last, 3), 2);
}

static void the_cap_holds_except_for_one_large_layer(void **state)
{
	bool is_last[N_EXAMPLE];
	static const bool capped[] = {true, true, true, true};

	(void)state;
	assert_int_equal(lw_group_optimal(example, N_EXAMPLE, 2.5e6, example_link, is_last), LW_OK);
	assert_memory_equal(is_last, capped, sizeof(capped));
	assert_int_equal(lw_group_optimal(example, 0, INFINITY, example_link, is_last), LW_OK);
	assert_int_equal(lw_group_n_ops(is_last, 0), 0);
}

static void ticks_hold_groups_back(void **state)
{
	static const struct {
		double cycle_ms, phase_ms, end_ms;
	} rows[] = {{0, 0, 19.0001875}, /* no ticks */
		{5, 0, 19.0001875},     /* always late: the link never idles */
		{5, 2, 21.0001875},     /* the first waits, the rest follow */
		{50, 3, 65.0001125}};   /* three at the second tick, 53 ms */
	static const bool apart[] = {true, true, true, true}, one[] = {false, false, false, true};

	(void)state;
	for (size_t r = 0; r < N_OF(rows); r++)
		assert_close(lw_group_tick_update_ns(example, N_EXAMPLE, example_link, apart,
				     rows[r].cycle_ms * MS, rows[r].phase_ms * MS) /
				     MS,
			rows[r].end_ms, 1e-8);
	/* one group, complete at 9 ms: sent at the tick of 12 */
	assert_close(
		lw_group_tick_update_ns(example, N_EXAMPLE, example_link, one, 5 * MS, 2 * MS) / MS,
		12 + 16.0001875, 1e-8);
}

static void groups_are_cut_as_horovod_cuts_them(void **state)
{
	/* split_list() of 7 in 3: 3, 2, 2 in the order of the model; the reverse is 2, 2, 3 */
	static const bool three[] = {false, true, false, true, false, false, true};
	bool is_last[7];

	(void)state;
	lw_group_contiguous(7, 3, is_last);
	assert_memory_equal(is_last, three, sizeof(three));
	for (size_t n_groups = 1; n_groups <= 9; n_groups++) {
		lw_group_contiguous(7, n_groups, is_last);
		assert_int_equal(lw_group_n_ops(is_last, 7), n_groups < 7 ? n_groups : 7);
		assert_true(is_last[6]);
	}
}

static void the_fewest_passes_that_reach_a_factor(void **state)
{
	(void)state;
	/* 15 ms of compute, 10 ms exposed: 0.6, 0.75, 0.818, 0.857 .. */
	assert_int_equal(lw_osf_passes(15, 19, 9, 0.5), 1);
	assert_int_equal(lw_osf_passes(15, 19, 9, 0.6), 1);
	assert_int_equal(lw_osf_passes(15, 19, 9, 0.75), 2);
	assert_int_equal(lw_osf_passes(15, 19, 9, 0.7501), 3);
	assert_int_equal(lw_osf_passes(15, 19, 9, 0.9), 6);
	assert_int_equal(lw_osf_passes(15, 19, 9, 1), 0);
	assert_int_equal(lw_osf_passes(15, 9, 9, 1), 1);
	assert_int_equal(lw_osf_passes(1, 1e12, 0, 0.999999), 0); /* more than an int */
}

static void ring_and_parameter_server_volumes(void **state)
{
	(void)state;
	assert_close(lw_ps_over_ring(32), 33.03, 0.005);
	assert_close(lw_ps_over_ring(32), 32.0 * 32 / 31, 1e-12);
	assert_close(lw_busbw_bytes_per_s(180.71e9, 16) / 1e9, 338.83, 0.005);
	assert_close(lw_ring_wire_bytes(100, 4), 150, 0);
	assert_close(lw_ps_wire_bytes(100, 4), 800, 0);
	assert_close(lw_ring_wire_bytes(100, 1), 0, 0);
	/* ResNet-50 in fp32 over 128 ranks: 202.859 MB each */
	assert_close(lw_ring_wire_bytes(25557032.0 * 4, 128) / 1e6, 202.859, 0.0005);
}

static void beta_comes_back_from_the_slope_of_eq_7(void **state)
{
	struct lw_ring ring = example_ring;
	double slope_ns_per_byte;

	(void)state;
	ring.peak_flop_per_s = INFINITY;
	slope_ns_per_byte = (lw_ring_update_ns(2e6, &ring) - lw_ring_update_ns(1e6, &ring)) / 1e6;
	assert_close(lw_beta_bytes_per_s(slope_ns_per_byte, 4), 1e9, 1);
	assert_true(isnan(lw_beta_bytes_per_s(0, 4)));
	assert_true(isnan(lw_beta_bytes_per_s(1, 1)));
}

static void scaling_factors_as_defined(void **state)
{
	(void)state;
	assert_close(lw_sf(9, 1.25, 8), 0.9, 1e-15); /* 9 h on one, 1.25 h on eight */
	assert_close(lw_sf_weak(300, 400), 0.75, 1e-15);
	assert_close(lw_csf(3, 1), 0.75, 1e-15);
	assert_close(lw_osf_accumulated(15, 19, 9, 1), lw_osf(15, 19, 9), 0);
	assert_close(lw_osf_accumulated(15, 19, 9, 4), 60.0 / 70, 1e-15);
}

static void compute_follows_from_operations_and_back(void **state)
{
	/* 16 GFLOP a sample, 64 samples, half of 13.45 TFLOP/s */
	double compute_ns = lw_compute_ns(16e9, 64, 0.5, 13.45e12);

	(void)state;
	assert_close(compute_ns, 3 * 64 * 16e9 / (0.5 * 13.45e12) * 1e9, 1e-3);
	assert_close(lw_backward_ns(16e9, 64, 0.5, 13.45e12), compute_ns * 2 / 3, 1e-3);
	assert_close(lw_utilisation(16e9, 64, 13.45e12, compute_ns), 0.5, 1e-12);
}

static void one_layer_of_vgg16_has_three_quarters_of_the_bytes(void **state)
{
	/* Parameters of VGG16, weights and biases of each layer, output side first. */
	static const double parameters[] = {1000 * 4096 + 1000, 4096 * 4096 + 4096,
		4096 * 25088 + 4096, 512 * 512 * 9 + 512, 512 * 512 * 9 + 512, 512 * 512 * 9 + 512,
		512 * 512 * 9 + 512, 512 * 512 * 9 + 512, 512 * 256 * 9 + 512, 256 * 256 * 9 + 256,
		256 * 256 * 9 + 256, 256 * 128 * 9 + 256, 128 * 128 * 9 + 128, 128 * 64 * 9 + 128,
		64 * 64 * 9 + 64, 64 * 3 * 9 + 64};
	static const struct lw_ring ring = {32, 25e9 / 8, 13.45e12, 4, 0};
	static const struct lw_link link = {lw_ring_update_ns, &ring};
	struct lw_layer layers[N_OF(parameters)];
	double update_ns;

	(void)state;
	for (size_t i = 0; i < N_OF(parameters); i++)
		layers[i] = (struct lw_layer){parameters[i] * 4, 0};
	assert_close(lw_layers_bytes(layers, N_OF(layers)), 138357544.0 * 4, 0);
	update_ns = lw_layers_update_ns(layers, N_OF(layers), link);
	assert_close(100 * lw_link_ns(link, layers[2].bytes) / update_ns, 74.27, 0.005);
	assert_close(update_ns / MS, 343.1, 0.05); /* at nominal 25 Gbit/s */
}

/* ---- GoogLeNet on 8 nodes, figures of other people: read where the file is, never committed ---- */

static const char trace_path[] = LAPWING_SOURCE_DIR "/../shared/samples/public/bcaffe_tmp8comm.log";
enum { N_LAYERS = 64 };

/* The last block: weight and bias are one layer. Layers output side first. */
static bool read_trace(struct lw_layer *layers, double *comm_ns)
{
	FILE *file = fopen(trace_path, "r");
	char line[256];

	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		const char *fields = strstr(line, "] [");
		int id;
		double n_floats, backward_us, comm_us;
		struct lw_layer *layer;

		if (!fields || sscanf(fields, "] [%d, %lf, %lf, %lf", &id, &n_floats, &backward_us,
				       &comm_us) != 4)
			continue;
		assert_in_range(id, 0, 2 * N_LAYERS - 1);
		layer = &layers[N_LAYERS - 1 - id / 2];
		if (id % 2 == 0) {
			*layer = (struct lw_layer){0, backward_us * 1e3};
			comm_ns[N_LAYERS - 1 - id / 2] = 0;
		}
		layer->bytes += n_floats * 4;
		comm_ns[N_LAYERS - 1 - id / 2] += comm_us * 1e3;
	}
	fclose(file);
	return true;
}

/* The measured cost of the layer with these bytes: a table as a cost function, in call order. */
struct replayed {
	const double *comm_ns;
	size_t next;
};

static double replayed_ns(double bytes, const void *params)
{
	struct replayed *const *replayed = params;

	(void)bytes;
	return (*replayed)->comm_ns[(*replayed)->next++];
}

static void a_measured_trace_gives_the_published_figures(void **state)
{
	static const struct affine affine = {1264.4e3, 3.8068};
	static const struct lw_link link = {affine_ns, &affine};
	struct lw_layer layers[N_LAYERS];
	struct lw_fusion_slot slots[N_LAYERS];
	double comm_ns[N_LAYERS], backward_ns = 0, compute_ns, overlap_ns, update_ns;
	struct replayed replayed = {comm_ns, 0}, *replayed_at = &replayed;
	bool is_last[N_LAYERS];

	(void)state;
	if (!read_trace(layers, comm_ns)) {
		print_message("%s: not here; its figures were not compared\n", trace_path);
		skip();
	}
	for (size_t i = 0; i < N_LAYERS; i++)
		backward_ns += layers[i].backward_ns;
	assert_close(backward_ns / MS, 205.334, 0.0005);
	assert_close(lw_layers_bytes(layers, N_LAYERS), 53516544, 0);
	compute_ns = 1.5 * backward_ns;
	overlap_ns = lw_layers_overlap_ns(layers, N_LAYERS);

	update_ns =
		lw_layers_update_ns(layers, N_LAYERS, (struct lw_link){replayed_ns, &replayed_at});
	assert_close(update_ns / MS, 310.738, 0.0005);
	assert_close(lw_osf(compute_ns, update_ns, overlap_ns), .7442, 5e-5);
	update_ns = lw_layers_update_ns(layers, N_LAYERS, link);
	assert_close(update_ns / MS, 284.646, 0.01);
	assert_close(lw_osf(compute_ns, update_ns, overlap_ns), .7943, 5e-5);
	update_ns = overlap_ns + lw_link_ns(link, lw_layers_bytes(layers, N_LAYERS));
	assert_close(update_ns / MS, 409.864, 0.01);
	assert_close(lw_osf(compute_ns, update_ns, overlap_ns), .6004, 5e-5);

	lw_group_mgwfbp(layers, N_LAYERS, link, is_last);
	update_ns = lw_group_update_ns(layers, N_LAYERS, link, is_last);
	assert_int_equal(lw_group_n_ops(is_last, N_LAYERS), 6);
	assert_close(update_ns / MS, 215.006, 0.01);
	assert_close(lw_osf(compute_ns, update_ns, overlap_ns), .9681, 5e-5);
	assert_int_equal(lw_group_optimal(layers, N_LAYERS, INFINITY, link, is_last), LW_OK);
	update_ns = lw_group_update_ns(layers, N_LAYERS, link, is_last);
	assert_int_equal(lw_group_n_ops(is_last, N_LAYERS), 7);
	assert_close(update_ns / MS, 212.577, 0.01);
	assert_close(lw_osf(compute_ns, update_ns, overlap_ns), .9756, 5e-5);

	lw_fusion_plan(layers, N_LAYERS, 64 << 20, 5 * MS, LW_OSF_PAPER, slots);
	assert_int_equal(lw_fusion_n_ops(slots, N_LAYERS), 8);
	assert_close(lw_fusion_update_ns(layers, slots, N_LAYERS, link, LW_OSF_PAPER) / MS, 285.673,
		0.01);
	lw_fusion_plan(layers, N_LAYERS, 64 << 20, 5 * MS, LW_OSF_FIFO, slots);
	assert_close(lw_fusion_update_ns(layers, slots, N_LAYERS, link, LW_OSF_FIFO) / MS, 261.712,
		0.01);
	/* The two artefacts: a buffer smaller than any layer should be no fusion at all. */
	lw_fusion_plan(layers, N_LAYERS, 1024, 1 * MS, LW_OSF_PAPER, slots);
	assert_close(
		lw_fusion_update_ns(layers, slots, N_LAYERS, link, LW_OSF_PAPER) / MS, 345.9, 0.05);
	lw_fusion_plan(layers, N_LAYERS, 1024, 1 * MS, LW_OSF_FIFO, slots);
	assert_close(lw_fusion_update_ns(layers, slots, N_LAYERS, link, LW_OSF_FIFO) / MS, 284.646,
		0.01);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_update_costs_transfer_additions_and_delta),
		cmocka_unit_test(nothing_to_send_costs_nothing),
		cmocka_unit_test(the_example_without_fusion),
		cmocka_unit_test(every_row_of_the_fusion_table),
		cmocka_unit_test(the_example_groups_as_published),
		cmocka_unit_test(the_greedy_rule_is_not_optimal),
		cmocka_unit_test(the_cap_holds_except_for_one_large_layer),
		cmocka_unit_test(ticks_hold_groups_back),
		cmocka_unit_test(groups_are_cut_as_horovod_cuts_them),
		cmocka_unit_test(the_fewest_passes_that_reach_a_factor),
		cmocka_unit_test(ring_and_parameter_server_volumes),
		cmocka_unit_test(beta_comes_back_from_the_slope_of_eq_7),
		cmocka_unit_test(scaling_factors_as_defined),
		cmocka_unit_test(compute_follows_from_operations_and_back),
		cmocka_unit_test(one_layer_of_vgg16_has_three_quarters_of_the_bytes),
		cmocka_unit_test(a_measured_trace_gives_the_published_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
