/* SPDX-License-Identifier: Apache-2.0 */
/* Runs made in memory from known parameters, which the fit must find again. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/fit/fit.h"
#include "analyzer/model/fusion.h"
#include "analyzer/model/osf.h"
#include "base/err.h"
#include "base/random.h"

#define US      1000.0
#define MS      1e6
#define N_OF(a) (sizeof(a) / sizeof((a)[0]))

enum { N_RANKS = 3, N_TENSORS = 6, MAX_GROUPS = 400 };

static const uint64_t tensor_bytes[N_TENSORS] = {400000, 90000, 20000, 300000, 5000, 60000};
static const double backward_us[N_TENSORS] = {0, 900, 2500, 400, 6000, 1200};
static const double forward_us = 10000;
static const double update_gap_us = 2000; /* from the end of the last operation to the next step */

/* Which tensors share a batch: the index of its last one. Two ways, in turn. */
static const int ends_even[] = {0, 2, 5, LW_NONE}, ends_odd[] = {1, 3, 4, 5};

struct making {
	size_t n_steps;
	double first_ns, queued_ns,
		ns_per_byte; /* cost of an operation; the first after an idle wire */
	double scatter;      /* of each operation, relative */
	uint64_t seed;
	bool one_batch; /* all tensors of a step in one */
	bool no_ready;
	size_t excluded_step; /* its operations take ten times as long; SIZE_MAX = none */
	size_t partial_step;  /* its first operation is missing on one rank; SIZE_MAX = none */
};

struct made {
	struct lw_run run;
	int32_t slots[MAX_GROUPS * N_RANKS];
};

static double round_us = 300, idle_round_us = 200;
static double copy_in_us = 20, copy_out_us = 10, copy_ns_per_byte = 0.25, single_us = 5;

/* One operation on all ranks; rank 0 is the last to come. Return: when it ended, ns. */
static int64_t make_operation(struct made *made, const struct making *making, size_t step,
	int first, int last, int64_t ready_ns, int64_t free_ns, struct lw_random *random)
{
	struct lw_run *run = &made->run;
	int64_t agreed_ns = ready_ns + (int64_t)(round_us * US);
	int64_t start_ns = agreed_ns + (int64_t)(100 * US);
	bool is_fused = last > first;
	bool is_partial = step == making->partial_step && first == 0;
	struct lw_group group = {.op = LW_COLL_ALLREDUCE,
		.n_ranks = is_partial ? N_RANKS - 1 : N_RANKS,
		.n_wanted = N_RANKS,
		.round_ns = ready_ns,
		.batch_of_rank = &made->slots[run->groups.n * N_RANKS]};
	double ns, copy_ns;

	if (start_ns < free_ns + (int64_t)(40 * US))
		start_ns = free_ns + (int64_t)(40 * US);
	for (int t = first; t <= last; t++)
		group.bytes += tensor_bytes[t];
	ns = start_ns - free_ns > LW_FIT_IDLE_NS ? making->first_ns : making->queued_ns;
	ns += making->ns_per_byte * (double)group.bytes;
	ns *= 1 + making->scatter * lw_random_normal(random);
	if (step == making->excluded_step)
		ns *= 10;
	copy_ns = copy_ns_per_byte * (double)group.bytes;
	group.last_start_ns = start_ns;
	group.first_start_ns = start_ns - (N_RANKS - 1) * (int64_t)(50 * US);
	group.last_end_ns = start_ns + (int64_t)ns;
	for (int r = 0; r < N_RANKS; r++) {
		struct lw_rank *rank = &run->ranks.at[r];
		struct lw_batch batch = {.op = LW_COLL_ALLREDUCE,
			.bytes = group.bytes,
			.agreed_ns = agreed_ns,
			.cycle_ns = ready_ns,
			.first_member = (uint32_t)rank->members.n,
			.n_members = (uint32_t)(last - first + 1),
			.step = (int32_t)step,
			.group = (int32_t)run->groups.n};

		group.batch_of_rank[r] = LW_NONE;
		if (is_partial && r == N_RANKS - 1)
			continue;
		batch.wire_start_ns = start_ns - r * (int64_t)(50 * US);
		batch.wire_end_ns = group.last_end_ns;
		batch.start_ns = batch.wire_start_ns -
				 (int64_t)(is_fused ? copy_in_us * US + copy_ns : single_us * US);
		batch.end_ns = batch.wire_end_ns +
			       (int64_t)(is_fused ? copy_out_us * US + copy_ns : single_us * US);
		for (int t = first; t <= last; t++) {
			struct lw_member member = {.tensor = (uint32_t)t,
				.bytes = tensor_bytes[t],
				.ready_ns = rank->steps.at[step].first_ready_ns};

			for (int before = 1; before <= t; before++)
				member.ready_ns += (int64_t)(backward_us[before] * US);
			if (making->no_ready)
				member.ready_ns = LW_NS_UNKNOWN;
			assert_int_equal(lw_vec_push(&rank->members, member), LW_OK);
		}
		group.batch_of_rank[r] = (int32_t)rank->batches.n;
		assert_int_equal(lw_vec_push(&rank->batches, batch), LW_OK);
	}
	assert_int_equal(lw_vec_push(&run->groups, group), LW_OK);
	return group.last_end_ns;
}

/* One step on all ranks. Return: when it ended, ns. */
static int64_t make_step(struct made *made, const struct making *making, size_t s, int64_t begin_ns,
	int64_t free_ns, struct lw_random *random)
{
	const int *ends = s % 2 ? ends_odd : ends_even;
	static const int all[] = {N_TENSORS - 1, LW_NONE};
	uint32_t first_batch[N_RANKS];
	int64_t ready_ns = begin_ns + (int64_t)(forward_us * US), end_ns;
	int first = 0;

	for (int r = 0; r < N_RANKS; r++) {
		struct lw_rank *rank = &made->run.ranks.at[r];
		struct lw_step step = {.start_ns = begin_ns,
			.first_ready_ns = ready_ns,
			.excluded = s == making->excluded_step ? "warm-up" : NULL,
			.blocked_ns = LW_NS_UNKNOWN};
		struct lw_cycle cycle = {.start_ns = begin_ns + 1000,
			.end_ns = begin_ns + 300000,
			.op = LW_CYCLE_AND,
			.n_unchanged = 10,
			.unchanged_ns = (int64_t)(10 * (idle_round_us + 70 * r) * US)};

		first_batch[r] = (uint32_t)rank->batches.n;
		assert_int_equal(lw_vec_push(&rank->steps, step), LW_OK);
		assert_int_equal(lw_vec_push(&rank->cycles, cycle), LW_OK);
	}
	if (making->one_batch)
		ends = all;
	for (int i = 0, t = 0; first < N_TENSORS; i++) {
		int last = ends[i];

		for (; t < last; t++)
			ready_ns += (int64_t)(backward_us[t + 1] * US);
		free_ns = make_operation(made, making, s, first, last, ready_ns, free_ns, random);
		first = last + 1;
	}
	end_ns = free_ns + (int64_t)(update_gap_us * US);
	for (int r = 0; r < N_RANKS; r++) {
		struct lw_rank *rank = &made->run.ranks.at[r];
		struct lw_step *step = &rank->steps.at[s];

		step->end_ns = end_ns;
		step->first_batch = first_batch[r];
		step->n_batches = (uint32_t)rank->batches.n - first_batch[r];
		step->last_ready_ns = ready_ns;
		if (making->no_ready)
			step->first_ready_ns = step->last_ready_ns = LW_NS_UNKNOWN;
	}
	return end_ns;
}

static void make_run(struct made *made, const struct making *making)
{
	static const char *const names[N_TENSORS] = {
		"fc.weight", "fc.bias", "c3", "c2", "c1.bias", "c1"};
	struct lw_random random = {making->seed};
	int64_t begin_ns = 5000000000, free_ns;

	memset(made, 0, sizeof(*made));
	made->run.size = N_RANKS;
	for (int t = 0; t < N_TENSORS; t++) {
		struct lw_tensor tensor = {names[t], tensor_bytes[t], LW_DTYPE_FLOAT32};

		assert_int_equal(lw_vec_push(&made->run.tensors, tensor), LW_OK);
	}
	for (int r = 0; r < N_RANKS; r++) {
		struct lw_rank rank = {.rank = r};

		for (size_t i = 0; i < N_OF(rank.setting); i++)
			rank.setting[i] = NAN;
		rank.setting[LW_SETTING_FUSION_BYTES] = 350000;
		rank.setting[LW_SETTING_CYCLE_NS] = 2 * MS;
		assert_int_equal(lw_vec_push(&made->run.ranks, rank), LW_OK);
	}
	for (size_t s = 0; s < making->n_steps; s++) {
		free_ns = begin_ns - (int64_t)(update_gap_us * US);
		begin_ns = make_step(made, making, s, begin_ns, s ? free_ns : 0, &random);
	}
}

static void free_run(struct made *made)
{
	for (size_t r = 0; r < made->run.ranks.n; r++) {
		struct lw_rank *rank = &made->run.ranks.at[r];

		lw_vec_free(&rank->batches);
		lw_vec_free(&rank->members);
		lw_vec_free(&rank->steps);
		lw_vec_free(&rank->cycles);
	}
	lw_vec_free(&made->run.ranks);
	lw_vec_free(&made->run.tensors);
	lw_vec_free(&made->run.groups);
}

static const struct making exact = {.n_steps = 20,
	.first_ns = 2.5 * MS,
	.queued_ns = 2.5 * MS,
	.ns_per_byte = 20,
	.seed = 1,
	.excluded_step = SIZE_MAX,
	.partial_step = SIZE_MAX};

static void assert_close(double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance))
		fail_msg("%.12g is not %.12g +- %g", value, expected, tolerance);
}

static void assert_holds(struct lw_figure figure, double truth)
{
	if (!(figure.low <= truth && truth <= figure.high))
		fail_msg("[%.9g, %.9g] does not hold %.9g", figure.low, figure.high, truth);
}

static void a_run_without_noise_gives_its_parameters_back(void **state)
{
	struct made made;
	struct lw_fit fit;
	double overlap_ns = 0;

	(void)state;
	make_run(&made, &exact);
	assert_int_equal(lw_fit_run(&made.run, &fit), LW_OK);
	assert_int_equal(fit.n_steps, 20);
	assert_int_equal(fit.n_groups, 70);
	assert_int_equal(fit.n_ranks, N_RANKS);
	assert_close(fit.figure[LW_FIT_ALPHA_NS].value, 2.5 * MS, 2);
	assert_close(fit.figure[LW_FIT_SLOPE_NS_PER_BYTE].value, 20, 1e-4);
	/* 2 (N - 1) / (N k), N = 3 */
	assert_close(fit.figure[LW_FIT_BETA_BYTES_PER_S].value, 4.0 / 3 / 20 * 1e9, 1e3);
	assert_close(fit.figure[LW_FIT_FORWARD_NS].value, forward_us * US, 0);
	assert_close(fit.figure[LW_FIT_ROUND_NS].value, round_us * US, 1e-6);
	assert_close(fit.figure[LW_FIT_IDLE_ROUND_NS].value, idle_round_us * US, 1e-6);
	assert_close(fit.figure[LW_FIT_BYTES_PER_STEP].value, 875000, 1e-6);
	assert_close(fit.figure[LW_FIT_BATCHES_PER_STEP].value, 3.5, 0);
	assert_close(fit.figure[LW_FIT_COMM_NS].value, 3.5 * 2.5 * MS + 20 * 875000.0, 4);
	assert_true(isnan(fit.figure[LW_FIT_UTILISATION_FRAC].value));
	assert_non_null(fit.figure[LW_FIT_UTILISATION_FRAC].why);

	assert_int_equal(fit.n_layers, N_TENSORS);
	for (size_t i = 0; i < N_TENSORS; i++) {
		assert_int_equal(fit.layers[i].tensor, i);
		assert_close(fit.layers[i].bytes, (double)tensor_bytes[i], 0);
		assert_close(fit.layers[i].backward_ns.value, backward_us[i] * US, 1e-3);
		overlap_ns += backward_us[i] * US;
	}
	assert_close(fit.figure[LW_FIT_OVERLAP_NS].value, overlap_ns, 1e-3);
	assert_close(fit.figure[LW_FIT_COMPUTE_NS].value, forward_us * US + overlap_ns, 1e-3);

	assert_close(fit.cost[LW_FIT_COST_COPY_IN].a_ns.value, copy_in_us * US, 1);
	assert_close(fit.cost[LW_FIT_COST_COPY_IN].b_ns_per_byte.value, copy_ns_per_byte, 1e-4);
	assert_close(fit.cost[LW_FIT_COST_COPY_OUT].a_ns.value, copy_out_us * US, 1);
	assert_close(fit.cost[LW_FIT_COST_SINGLE_IN].a_ns.value, single_us * US, 1);
	assert_close(fit.cost[LW_FIT_COST_SINGLE_IN].b_ns_per_byte.value, 0, 1e-9);
	lw_fit_done(&fit);
	free_run(&made);
}

static double known_ns(double bytes, const void *params)
{
	(void)params;
	return 2.5 * MS + 20 * bytes;
}

static void scaling_factors_are_those_of_the_model(void **state)
{
	static const struct lw_link link = {known_ns, NULL};
	struct lw_layer layers[N_TENSORS];
	struct lw_fusion_slot slots[N_TENSORS];
	struct made made;
	struct lw_fit fit;
	double overlap_ns, compute_ns;

	(void)state;
	for (size_t i = 0; i < N_TENSORS; i++)
		layers[i] = (struct lw_layer){(double)tensor_bytes[i], backward_us[i] * US};
	overlap_ns = lw_layers_overlap_ns(layers, N_TENSORS);
	compute_ns = forward_us * US + overlap_ns;
	make_run(&made, &exact);
	assert_int_equal(lw_fit_run(&made.run, &fit), LW_OK);
	assert_close(
		fit.figure[LW_FIT_CSF].value, lw_csf(compute_ns, known_ns(875000, NULL)), 1e-6);
	assert_close(fit.figure[LW_FIT_OSF].value,
		lw_osf(compute_ns, lw_layers_update_ns(layers, N_TENSORS, link), overlap_ns), 1e-6);
	lw_fusion_plan(layers, N_TENSORS, 350000, 2 * MS, LW_OSF_FIFO, slots);
	assert_close(fit.figure[LW_FIT_OSF_F].value,
		lw_osf(compute_ns, lw_fusion_update_ns(layers, slots, N_TENSORS, link, LW_OSF_FIFO),
			overlap_ns),
		1e-6);
	lw_fusion_plan(layers, N_TENSORS, 350000, 2 * MS, LW_OSF_PAPER, slots);
	assert_close(fit.figure[LW_FIT_OSF_F_PAPER].value,
		lw_osf(compute_ns,
			lw_fusion_update_ns(layers, slots, N_TENSORS, link, LW_OSF_PAPER),
			overlap_ns),
		1e-6);
	/* One operation of all bytes is larger than any of the run: said, not hidden. */
	assert_non_null(strstr(fit.figure[LW_FIT_CSF].why, "extrapolated"));
	/* T_iter = T_comp + T_update - T_overlap is the step without the gap after it. */
	assert_close(compute_ns / fit.figure[LW_FIT_OSF_MEASURED].value,
		fit.figure[LW_FIT_STEP_NS].value - update_gap_us * US, 10);
	lw_fit_done(&fit);
	free_run(&made);
}

static void intervals_hold_the_truth_under_noise(void **state)
{
	struct making noisy = exact;
	struct made made;
	struct lw_fit fit;

	(void)state;
	noisy.n_steps = 60;
	noisy.scatter = 0.1;
	make_run(&made, &noisy);
	assert_int_equal(lw_fit_run(&made.run, &fit), LW_OK);
	assert_holds(fit.figure[LW_FIT_ALPHA_NS], 2.5 * MS);
	assert_holds(fit.figure[LW_FIT_SLOPE_NS_PER_BYTE], 20);
	assert_holds(fit.figure[LW_FIT_BETA_BYTES_PER_S], 4.0 / 3 / 20 * 1e9);
	assert_holds(fit.figure[LW_FIT_COMM_NS], 3.5 * 2.5 * MS + 20 * 875000.0);
	assert_true(fit.figure[LW_FIT_ALPHA_NS].high - fit.figure[LW_FIT_ALPHA_NS].low < 0.6 * MS);
	lw_fit_done(&fit);
	free_run(&made);
}

static void first_after_idle_is_kept_apart(void **state)
{
	struct making two = exact;
	struct made made;
	struct lw_fit fit;

	(void)state;
	two.first_ns = 0.5 * MS;
	two.queued_ns = 3 * MS;
	make_run(&made, &two);
	assert_int_equal(lw_fit_run(&made.run, &fit), LW_OK);
	assert_true(fit.cost[LW_FIT_COST_FIRST].cost.n >= 20);
	assert_true(fit.cost[LW_FIT_COST_QUEUED].cost.n >= 20);
	assert_close(fit.cost[LW_FIT_COST_FIRST].cost.n + fit.cost[LW_FIT_COST_QUEUED].cost.n,
		fit.cost[LW_FIT_COST_WIRE].cost.n, 0);
	assert_close(fit.cost[LW_FIT_COST_FIRST].a_ns.value, 0.5 * MS, 5);
	assert_close(fit.cost[LW_FIT_COST_QUEUED].a_ns.value, 3 * MS, 5);
	assert_close(fit.cost[LW_FIT_COST_QUEUED].b_ns_per_byte.value, 20, 1e-3);
	lw_fit_done(&fit);
	free_run(&made);
}

static void excluded_steps_and_partial_operations_do_not_count(void **state)
{
	struct making odd = exact;
	struct made made;
	struct lw_fit fit;

	(void)state;
	odd.excluded_step = 0;
	odd.partial_step = 4;
	make_run(&made, &odd);
	assert_int_equal(lw_fit_run(&made.run, &fit), LW_OK);
	assert_int_equal(fit.n_steps, 19);
	assert_int_equal(fit.n_partial, 1);
	assert_int_equal(fit.n_groups, 70 - 3 - 1);
	assert_close(fit.figure[LW_FIT_ALPHA_NS].value, 2.5 * MS, 2);
	lw_fit_done(&fit);
	free_run(&made);
}

static void what_the_data_cannot_say_is_missing_with_a_reason(void **state)
{
	struct making one = exact;
	struct made made;
	struct lw_fit fit;
	static const enum lw_fit_figure missing[] = {
		LW_FIT_ALPHA_NS, LW_FIT_SLOPE_NS_PER_BYTE, LW_FIT_BETA_BYTES_PER_S, LW_FIT_OSF};
	static const enum lw_fit_figure without_ready[] = {LW_FIT_FORWARD_NS, LW_FIT_OVERLAP_NS,
		LW_FIT_COMPUTE_NS, LW_FIT_UPDATE_NS, LW_FIT_CSF, LW_FIT_OSF, LW_FIT_OSF_F,
		LW_FIT_OSF_MEASURED};

	(void)state;
	one.one_batch = true;
	make_run(&made, &one);
	assert_int_equal(lw_fit_run(&made.run, &fit), LW_OK);
	for (size_t i = 0; i < N_OF(missing); i++) {
		assert_true(isnan(fit.figure[missing[i]].value));
		assert_non_null(fit.figure[missing[i]].why);
	}
	/* The one size that was measured is the one that CSF asks for. */
	assert_false(isnan(fit.figure[LW_FIT_CSF].value));
	lw_fit_done(&fit);
	free_run(&made);

	one = exact;
	one.no_ready = true;
	make_run(&made, &one);
	assert_int_equal(lw_fit_run(&made.run, &fit), LW_OK);
	assert_int_equal(fit.n_layers, 0);
	for (size_t i = 0; i < N_OF(without_ready); i++) {
		assert_true(isnan(fit.figure[without_ready[i]].value));
		assert_non_null(fit.figure[without_ready[i]].why);
	}
	assert_close(fit.figure[LW_FIT_ALPHA_NS].value, 2.5 * MS, 2);
	lw_fit_done(&fit);

	/* No step counts at all: an error that says what to do. */
	for (int r = 0; r < N_RANKS; r++)
		for (size_t s = 0; s < made.run.ranks.at[r].steps.n; s++)
			made.run.ranks.at[r].steps.at[s].excluded = "warm-up";
	assert_int_equal(lw_fit_run(&made.run, &fit), LW_ERR_LIMIT);
	assert_non_null(strstr(lw_error_text(), "record more steps"));
	free_run(&made);
}

/* Table fit as text. Return: length. */
static size_t read_table(struct lw_store *store, char *text, size_t text_bytes)
{
	sqlite3_stmt *row;
	size_t n = 0;

	assert_int_equal(lw_store_prepare(store, "SELECT * FROM fit ORDER BY rowid", &row), LW_OK);
	while (lw_store_step(store, row) == 1) {
		for (int i = 0; i < 6; i++)
			n += (size_t)snprintf(
				&text[n], text_bytes - n, "%s|", lw_store_column_text(row, i));
		assert_true(n < text_bytes);
	}
	sqlite3_finalize(row);
	return n;
}

static void the_table_is_the_same_for_the_same_run(void **state)
{
	static char once[65536], again[65536];
	char path[64];
	struct making noisy = exact;
	struct lw_store *store;
	int64_t n;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/lapwing-test-fit-%d.lapwing", (int)getpid());
	noisy.scatter = 0.1;
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), LW_OK);
	assert_int_equal(
		lw_store_exec(store, "INSERT INTO run VALUES(1, 'test', 'trace', '', 0, 1, NULL)"),
		LW_OK);
	for (int time = 0; time < 2; time++) {
		struct made made;
		struct lw_fit fit;

		make_run(&made, &noisy);
		assert_int_equal(lw_vec_push(&made.run.stores, store), LW_OK);
		assert_int_equal(lw_fit_run(&made.run, &fit), LW_OK);
		assert_int_equal(lw_fit_store(&made.run, &fit), LW_OK);
		assert_true(read_table(store, time ? again : once, sizeof(once)) > 1000);
		lw_fit_done(&fit);
		lw_vec_free(&made.run.stores);
		free_run(&made);
	}
	assert_string_equal(once, again);
	assert_non_null(strstr(once, "backward_ns[4] c1.bias|"));
	assert_int_equal(lw_store_int(store,
				 "SELECT count(*) FROM fit WHERE value IS NULL AND note = ''", &n),
		LW_OK);
	assert_int_equal(n, 0);
	assert_int_equal(
		lw_store_int(store,
			"SELECT value BETWEEN low AND high FROM fit WHERE name = 'alpha_ns'", &n),
		LW_OK);
	assert_int_equal(n, 1);
	lw_store_close(store);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_without_noise_gives_its_parameters_back),
		cmocka_unit_test(scaling_factors_are_those_of_the_model),
		cmocka_unit_test(intervals_hold_the_truth_under_noise),
		cmocka_unit_test(first_after_idle_is_kept_apart),
		cmocka_unit_test(excluded_steps_and_partial_operations_do_not_count),
		cmocka_unit_test(what_the_data_cannot_say_is_missing_with_a_reason),
		cmocka_unit_test(the_table_is_the_same_for_the_same_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
