/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_whatif.c - what one prediction costs, and a search over many settings.
 *
 *	bench_whatif [REPEATS]
 *
 * A run as the tracer leaves it, of a job that the simulator made: the 161 tensors of ResNet-50,
 * 100 counted steps, 8 ranks; then the exact grouping of 2000 tensors. Times are CPU time of the one
 * thread, memory is the largest resident set after so many settings. Prints one JSON line.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "analyzer/advise/advise.h"
#include "analyzer/fit/cost.h"
#include "analyzer/model/grouping.h"
#include "analyzer/simulate/replay.h"
#include "base/units.h"
#include "tests/bench/bench.h"
#include "tests/unit/sim_run.h"

enum {
	N_TENSORS = 161,
	N_STEPS = 100,
	N_RANKS = 8,
	N_SETTINGS = 400,
	N_FEW = 10,
	MAX_REPEATS = 1000
};
enum { N_GROUPED = 2000 };

static uint64_t bytes[N_TENSORS]; /* in the order in which they become ready: last layer first */

static void add(uint32_t *n, uint64_t parameters)
{
	bytes[N_TENSORS - 1 - (*n)++] = 4 * parameters;
}

static void fill_resnet50(void)
{
	static const uint64_t blocks[] = {3, 4, 6, 3};
	uint64_t before = 64;
	uint32_t n = 0;

	add(&n, 7 * 7 * 3 * 64);
	add(&n, 64);
	add(&n, 64);
	for (uint64_t stage = 0, width = 64; stage < 4; stage++, width *= 2)
		for (uint64_t block = 0; block < blocks[stage]; block++) {
			uint64_t parameters[] = {before * width, width, width, width * width * 9,
				width, width, width * width * 4, width * 4, width * 4,
				before * width * 4, width * 4, width * 4};

			for (size_t i = 0; i < (block == 0 ? 12u : 9u); i++)
				add(&n, parameters[i]);
			before = width * 4;
		}
	add(&n, 2048 * 1000);
	add(&n, 1000);
}

static int ascending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void print_figure(const char *name, double *values, size_t n)
{
	qsort(values, n, sizeof(*values), ascending);
	printf(",\"%s\":{\"median\":%.0f,\"low\":%.0f,\"high\":%.0f}", name, values[n / 2],
		values[0], values[n - 1]);
}

static void predict(struct lw_replay *replay, const struct lw_whatif *whatif, double *step_ns)
{
	struct lw_prediction prediction;

	if (lw_replay_predict(replay, whatif, &prediction, step_ns) < 0)
		lw_bench_die();
}

/* The simulation alone: a prediction also repeats it with resampled costs, for its interval. */
static void simulate(struct lw_replay *replay)
{
	struct lw_hvd_cost cost = replay->cost;

	cost.wire_ns = lw_wire_ns;
	cost.context = &replay->wire;
	if (lw_hvd_sim_run(replay->sim, &replay->input, &replay->setting, &cost, replay->step_ns,
		    NULL, NULL) < 0)
		lw_bench_die();
}

static long peak_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* Every adviser, as `lapwing advise` asks them; the replay is made anew. */
static void advise(struct lw_run *run)
{
	struct lw_advice_list list = {0};
	double start_ns = lw_bench_cpu_ns();

	if (lw_advise(run, &list) < 0)
		lw_bench_die();
	printf(",\"advise_ns\":%.0f,\"n_advise_trials\":%zu", lw_bench_cpu_ns() - start_ns,
		list.tried.n);
	lw_advice_list_free(&list);
}

/* The exact grouping, at a fitted cost: a table, the slowest form. No cap, so no start is skipped. */
static void group(double *took_ns, size_t n_repeats)
{
	static struct lw_layer layers[N_GROUPED];
	static bool is_last[N_GROUPED];
	struct lw_size sizes[16];
	struct lw_cost cost;
	struct lw_link link = {lw_cost_of, &cost};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		sizes[i] = (struct lw_size){1024 << i, 100e3 + pow(1024 << i, 1.05), 1};
	if (lw_cost_fit(sizes, sizeof(sizes) / sizeof(sizes[0]), LW_COST_TABLE, LW_WEIGHT_RELATIVE,
		    &cost) < 0)
		lw_bench_die();
	for (size_t i = 0; i < N_GROUPED; i++)
		layers[i] = (struct lw_layer){(double)bytes[i % N_TENSORS], 1e5};
	for (size_t i = 0; i < n_repeats; i++) {
		double start_ns = lw_bench_cpu_ns();

		if (lw_group_optimal(layers, N_GROUPED, INFINITY, link, is_last) < 0)
			lw_bench_die();
		took_ns[i] = lw_bench_cpu_ns() - start_ns;
	}
	lw_cost_done(&cost);
}

static const struct {
	const char *name;
	struct lw_whatif whatif;
} cases[] = {
	{"threshold_ns", {.fusion_bytes = 1 << 22, .cycle_ns = NAN}},
	{"threshold_0_ns", {.fusion_bytes = 0, .cycle_ns = NAN}},
	{"cycle_1ms_ns", {.fusion_bytes = NAN, .cycle_ns = 1e6}},
	{"ranks_16_ns", {.fusion_bytes = NAN, .cycle_ns = NAN, .n_ranks = 16}},
};

int main(int argc, char **argv)
{
	size_t n_repeats = argc > 1 ? strtoul(argv[1], NULL, 10) : 21;
	struct sim_spec spec = {.n_ranks = N_RANKS,
		.n_tensors = N_TENSORS,
		.n_steps = N_STEPS + 1,
		.bytes = bytes,
		.forward_ns = 60 * LW_NS_PER_MS,
		.gap_ns = LW_NS_PER_MS / 2,
		.jitter_ns = LW_NS_PER_MS / 2,
		.setting = {.fusion_bytes = 1 << 26, .cycle_ns = 5 * LW_NS_PER_MS},
		.cost = {.wire_ns = lw_bench_wire_ns,
			.round_ns = 100e3,
			.oversleep_ns = 60e3,
			.dispatch_ns = 30e3,
			.between_ns = 20e3,
			.copy_in_ns_per_byte = 0.1,
			.copy_out_ns_per_byte = 0.1,
			.poll_ns = 1060e3},
		.seed = 1};
	double took_ns[MAX_REPEATS], step_ns[N_STEPS], start_ns;
	struct lw_replay *replay;
	struct lw_run *run;

	if (n_repeats == 0 || n_repeats > MAX_REPEATS) {
		fprintf(stderr, "usage: bench_whatif [REPEATS], 1 to %d\n", MAX_REPEATS);
		return 2;
	}
	fill_resnet50();
	run = sim_run_new(&spec);
	start_ns = lw_bench_cpu_ns();
	if (lw_replay_new(run, &replay) < 0)
		lw_bench_die();
	printf("{\"n_tensors\":%d,\"n_steps\":%d,\"n_ranks\":%d,\"n_repeats\":%zu,\"new_ns\":%.0f",
		N_TENSORS, N_STEPS, N_RANKS, n_repeats, lw_bench_cpu_ns() - start_ns);
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct lw_whatif whatif = cases[c].whatif;

		whatif.bandwidth_frac = whatif.latency_frac = whatif.compute_frac = 1;
		for (size_t i = 0; i < n_repeats; i++) {
			start_ns = lw_bench_cpu_ns();
			predict(replay, &whatif, step_ns);
			took_ns[i] = lw_bench_cpu_ns() - start_ns;
		}
		print_figure(cases[c].name, took_ns, n_repeats);
	}
	for (size_t i = 0; i < n_repeats; i++) {
		start_ns = lw_bench_cpu_ns();
		simulate(replay);
		took_ns[i] = lw_bench_cpu_ns() - start_ns;
	}
	print_figure("simulation_ns", took_ns, n_repeats);
	start_ns = lw_bench_cpu_ns();
	for (int i = 0; i < N_SETTINGS; i++) { /* 20 thresholds, 20 cycle times */
		struct lw_whatif whatif = LW_WHATIF_RECORDED;

		whatif.fusion_bytes = i / 20 ? 65536 * pow(1.5, i / 20) : 0;
		whatif.cycle_ns = 5e5 * pow(1.25, i % 20);
		predict(replay, &whatif, step_ns);
		if (i + 1 == N_FEW)
			printf(",\"peak_10_kib\":%ld", peak_kib());
	}
	printf(",\"peak_400_kib\":%ld", peak_kib());
	printf(",\"settings_400_ns\":%.0f", lw_bench_cpu_ns() - start_ns);
	group(took_ns, n_repeats);
	print_figure("group_2000_ns", took_ns, n_repeats);
	advise(run);
	printf("}\n");
	lw_replay_free(replay);
	sim_run_free(run);
	return 0;
}
