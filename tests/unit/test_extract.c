/* SPDX-License-Identifier: Apache-2.0 */
/* What is taken out of a run for the replay, and what is refused, or said in a diag, instead. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/simulate/forecast.h"
#include "base/units.h"
#include "tests/unit/sim_run.h"

enum { N_TENSORS = 12 };

static double true_wire_ns(const void *context, const struct lw_hvd_op *op)
{
	(void)context;
	return 400e3 + 60.0 * (double)op->bytes;
}

static struct lw_run *run_of(uint32_t n_ranks)
{
	static uint64_t bytes[N_TENSORS];
	struct sim_spec spec = {.n_ranks = n_ranks,
		.n_tensors = N_TENSORS,
		.n_steps = 12,
		.bytes = bytes,
		.forward_ns = 20 * LW_NS_PER_MS,
		.gap_ns = 6 * LW_NS_PER_MS,
		.jitter_ns = LW_NS_PER_MS,
		.setting = {.fusion_bytes = 1 << 27, .cycle_ns = 5 * LW_NS_PER_MS},
		.cost = {.wire_ns = true_wire_ns, .round_ns = 300e3},
		.seed = 3};

	for (uint32_t t = 0; t < N_TENSORS; t++)
		bytes[t] = 60000 + 2000 * t;
	return sim_run_new(&spec);
}

static struct lw_replay *replay_of(struct lw_run *run)
{
	struct lw_replay *replay = NULL;

	if (lw_replay_new(run, &replay) < 0)
		fail_msg("%s", lw_error_text());
	return replay;
}

static void assert_refused(struct lw_run *run, const char *word)
{
	struct lw_replay *replay;

	assert_int_equal(lw_replay_new(run, &replay), LW_ERR_LIMIT);
	print_message("refused: %s\n", lw_error_text());
	assert_non_null(strstr(lw_error_text(), word));
}

static uint64_t diag_of(const struct lw_run *run, const char *kind)
{
	const struct lw_diag *diag;

	lw_vec_foreach (diag, &run->diags)
		if (!strcmp(diag->kind, kind))
			return diag->n;
	return 0;
}

/* Members of counted steps of one rank, of one tensor. */
static void change_members(
	struct lw_run *run, size_t rank, uint32_t tensor, void (*change)(struct lw_member *))
{
	struct lw_member *member;

	lw_vec_foreach (member, &run->ranks.at[rank].members)
		if (member->tensor == tensor)
			change(member);
}

static void forget_ready(struct lw_member *member)
{
	member->ready_ns = LW_NS_UNKNOWN;
}

static void double_bytes(struct lw_member *member)
{
	static uint32_t n;

	member->bytes *= 1 + n++ % 2;
}

static void several_process_sets_are_refused(void **state)
{
	struct lw_run *run = run_of(2);

	(void)state;
	/* one in the set-up is none in the steps */
	run->ranks.at[0].batches.at[0].process_set = 1;
	lw_replay_free(replay_of(run));
	run->ranks.at[0].batches.at[run->ranks.at[0].batches.n - 1].process_set = 2;
	assert_refused(run, "process set 2 beside the global one");
	for (size_t r = 0; r < run->ranks.n; r++)
		for (size_t b = 0; b < run->ranks.at[r].batches.n; b++)
			run->ranks.at[r].batches.at[b].process_set = 3;
	assert_refused(run, "everything in process set 3, nothing in the global one");
	sim_run_free(run);
}

static void ranks_that_came_and_went_are_refused(void **state)
{
	struct lw_run *run = run_of(2);
	struct lw_batch *batch;

	(void)state;
	lw_vec_foreach (batch, &run->ranks.at[1].batches)
		batch->step--; /* the k-th step of one is the k+1-th of the other */
	assert_refused(run, "other operations on other ranks");
	sim_run_free(run);
	run = run_of(2);
	run->n_duplicate_ranks = 1;
	assert_refused(run, "elastic");
	sim_run_free(run);
}

static void missing_ranks_cannot_be_added_to(void **state)
{
	struct lw_run *run = run_of(2);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;

	(void)state;
	run->n_missing_ranks = 2;
	replay = replay_of(run);
	whatif.n_ranks = 8;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), LW_ERR_UNSUPPORTED);
	assert_non_null(strstr(lw_error_text(), "2 ranks of the job are not in this run"));
	whatif = LW_WHATIF_RECORDED;
	whatif.cycle_ns = 1e6;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), 0);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void a_tensor_of_some_ranks_alone_is_refused_or_left_out(void **state)
{
	struct lw_run *run = run_of(2);
	struct lw_replay *replay;

	(void)state;
	change_members(run, 1, 3, forget_ready);
	assert_refused(run, "by some ranks and not by others");
	sim_run_free(run);
	run = run_of(2);
	/* once, in the last step: too little to matter */
	run->ranks.at[1].members.at[run->ranks.at[1].members.n - 1].ready_ns = LW_NS_UNKNOWN;
	replay = replay_of(run);
	assert_int_equal(diag_of(run, "partial_tensor"), 1);
	assert_int_equal(diag_of(run, "unknown_ready"), 1);
	assert_int_equal(diag_of(run, "changing_steps"), 1);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void tensors_that_change_their_size_are_refused(void **state)
{
	struct lw_run *run = run_of(2);

	(void)state;
	for (size_t r = 0; r < 2; r++)
		change_members(run, r, 5, double_bytes);
	assert_refused(run, "change their size");
	sim_run_free(run);
}

/* Every other step leaves out the tensor that is ready last: the steps are replayed as they were. */
static void tensors_may_come_and_go(void **state)
{
	struct lw_run *run = run_of(2);
	struct lw_replay *replay;
	struct lw_prediction prediction;

	(void)state;
	for (size_t r = 0; r < run->ranks.n; r++) {
		struct lw_batch *batch;

		lw_vec_foreach (batch, &run->ranks.at[r].batches) {
			struct lw_member *last =
				&run->ranks.at[r]
					 .members.at[batch->first_member + batch->n_members - 1];

			if (last->tensor == N_TENSORS - 1 && batch->step % 2)
				batch->n_members--;
		}
	}
	replay = replay_of(run);
	assert_int_equal(diag_of(run, "changing_steps"), 1);
	assert_int_equal(lw_replay_predict(replay, &LW_WHATIF_RECORDED, &prediction, NULL), 0);
	/* steps 1, 3, ... 11 send 11 tensors, the first of them twice over, steps 2, 4, ... 10 all 12 */
	assert_int_equal(prediction.totals.bytes, 12 * (60000 * 12 + 2000 * 66) - 7 * 82000);
	lw_replay_free(replay);
	sim_run_free(run);
}

/* Under another name in every other step: the run then holds a tensor more than any of its steps sends. */
static void rename_in_every_other_step(struct lw_run *run, uint32_t tensor)
{
	struct lw_tensor other = run->tensors.at[tensor];
	uint32_t renamed = (uint32_t)run->tensors.n;

	other.name = "another";
	assert_int_equal(lw_vec_push(&run->tensors, other), LW_OK);
	for (size_t r = 0; r < run->ranks.n; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];
		const struct lw_batch *batch;

		lw_vec_foreach (batch, &rank->batches)
			for (uint32_t m = 0; m < batch->n_members && batch->step % 2; m++)
				if (rank->members.at[batch->first_member + m].tensor == tensor)
					rank->members.at[batch->first_member + m].tensor = renamed;
	}
}

static void models_of_one_mean_step_say_nothing_of_tensors_that_come_and_go(void **state)
{
	struct lw_run *run = run_of(2);
	struct lw_predictor *predictor;
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_forecast forecast;
	size_t n_models, n_known = 0;
	const struct lw_model *models = lw_models(&n_models);

	(void)state;
	rename_in_every_other_step(run, N_TENSORS - 1);
	assert_int_equal(lw_predictor_new(run, &predictor), LW_OK);
	assert_false(isnan(predictor->fit.figure[LW_FIT_CSF].value));
	for (size_t i = LW_FIT_OSF; i <= LW_FIT_OSF_F_PAPER; i++) {
		const struct lw_figure *figure = &predictor->fit.figure[i];

		assert_true(isnan(figure->value) && isnan(figure->low) && isnan(figure->high));
		assert_non_null(strstr(figure->why, "come and go"));
	}
	/* the twin, which replays each step; csf, which sums up bytes; and coarse, which was measured */
	for (size_t i = 0; i < n_models; i++) {
		const struct lw_figure *step_ns = &forecast.prediction.step_ns;

		assert_int_equal(
			lw_forecast(predictor, &models[i], &LW_WHATIF_RECORDED, &forecast), LW_OK);
		print_message("%s: %.3f ms, %s\n", models[i].name, step_ns->value / 1e6,
			step_ns->why ? step_ns->why : "known");
		n_known += !isnan(step_ns->value);
		assert_true(!isnan(step_ns->value) || strstr(step_ns->why, "come and go"));
	}
	assert_int_equal(n_known, 3);
	whatif.bandwidth_frac = 2; /* to coarse, a ratio of sums over the layers */
	assert_int_equal(
		lw_forecast(predictor, lw_model_find("coarse"), &whatif, &forecast), LW_OK);
	assert_true(isnan(forecast.prediction.step_ns.value));
	assert_non_null(strstr(forecast.prediction.step_ns.why, "come and go"));
	assert_true(isnan(forecast.scaling[LW_SCALING_OSF].value));
	assert_non_null(strstr(forecast.scaling[LW_SCALING_OSF].why, "come and go"));
	lw_predictor_free(predictor);
	sim_run_free(run);
}

static void recorded_groups_are_found_by_their_names(void **state)
{
	static const char *const names[N_TENSORS] = {"allreduce.fc_1of2",
		"grouped_allreduce.a_1of3", "grouped_allreduce.a_2of3", "grouped_allreduce.a_3of3",
		"grouped_allreduce.b_1of2", "grouped_allreduce.b_2of2", "allreduce.w",
		"allreduce.w_2of", "allreduce.w_x1of2", "allreduce.w_3of2", "allreduce.w_1of1",
		"allreduce.fc_2of2"};
	struct lw_run *run = run_of(2);
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction prediction;
	struct lw_replay *replay;

	(void)state;
	for (uint32_t t = 0; t < N_TENSORS; t++)
		run->tensors.at[t].name = names[t];
	replay = replay_of(run);
	assert_int_equal(replay->n_groups, 3);
	for (uint32_t t = 0; t < N_TENSORS; t++) {
		static const int32_t expected[N_TENSORS] = {
			0, 1, 1, 1, 2, 2, -1, -1, -1, -1, -1, 0};

		assert_int_equal(replay->group_of[t], expected[replay->tensor_of[t]]);
	}
	/* queued together, when the last of them is ready */
	for (uint32_t row = 0; row < replay->input.n_steps * 2; row++) {
		const int64_t *ready_ns = replay->ready_ns + row * N_TENSORS;

		assert_int_equal(ready_ns[0], ready_ns[11]);
		assert_int_equal(ready_ns[1], ready_ns[3]);
		assert_true(ready_ns[3] < ready_ns[5] && ready_ns[5] < ready_ns[6]);
	}
	whatif.n_groups = 2;
	assert_int_equal(lw_replay_predict(replay, &whatif, &prediction, NULL), LW_ERR_UNSUPPORTED);
	assert_non_null(strstr(lw_error_text(), "sends 3 explicit groups"));
	lw_replay_free(replay);
	sim_run_free(run);
}

static void a_full_cache_is_said(void **state)
{
	struct lw_run *run = run_of(2);
	struct lw_replay *replay = replay_of(run);

	(void)state;
	assert_false(replay->setting.is_uncached);
	lw_replay_free(replay);
	run->ranks.at[0].setting[LW_SETTING_CACHE_CAPACITY] = N_TENSORS - 1;
	replay = replay_of(run);
	assert_true(replay->setting.is_uncached);
	assert_int_equal(diag_of(run, "cache_overflow"), N_TENSORS);
	lw_replay_free(replay);
	run->ranks.at[0].setting[LW_SETTING_CACHE_CAPACITY] = N_TENSORS;
	replay = replay_of(run);
	assert_false(replay->setting.is_uncached);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void settings_of_groups_and_of_gpus_are_taken(void **state)
{
	struct lw_run *run = run_of(2);
	struct lw_replay *replay;

	(void)state;
	run->ranks.at[0].setting[LW_SETTING_DISABLE_GROUP_FUSION] = 1;
	for (size_t r = 0; r < 2; r++)
		run->ranks.at[r].transport = LW_TRANSPORT_NCCL;
	for (size_t r = 0; r < 2; r++)
		for (size_t m = 0; m < run->ranks.at[r].members.n; m++)
			run->ranks.at[r].members.at[m].bytes -= 3;
	replay = replay_of(run);
	assert_true(replay->setting.is_group_fusion_off);
	assert_int_equal(diag_of(run, "asynchronous"), 1);
	for (uint32_t t = 0; t < N_TENSORS; t++) /* 60000 - 3 and so on, to 16 bytes */
		assert_int_equal(replay->tensors[t].bytes, 60000 + 2000 * replay->tensor_of[t]);
	lw_replay_free(replay);
	run->ranks.at[0].setting[LW_SETTING_BATCH_D2D_MEMCOPIES] = 0;
	replay = replay_of(run);
	assert_int_equal(replay->tensors[0].bytes, 60000 - 3);
	lw_replay_free(replay);
	sim_run_free(run);
}

static void one_step_is_too_few(void **state)
{
	struct lw_run *run = run_of(2);

	(void)state;
	for (size_t r = 0; r < 2; r++)
		for (size_t s = 2; s < run->ranks.at[r].steps.n; s++)
			run->ranks.at[r].steps.at[s].excluded = "warm-up";
	assert_refused(run, "1 counted step on all ranks");
	assert_refused(run, "of 12 the others are left out, step 6 as \"warm-up\"");
	sim_run_free(run);
}

static void a_run_without_steps_says_why(void **state)
{
	struct lw_run *run = run_of(2);

	(void)state;
	for (size_t r = 0; r < 2; r++)
		run->ranks.at[r].steps.n = 0;
	assert_int_equal(lw_run_diag(run, "step", LW_STEP_NONE, 1, "no operation recurs"), 0);
	assert_refused(run, "no step was found: no operation recurs");
	sim_run_free(run);
}

static void one_rank_crosses_no_network(void **state)
{
	struct lw_run *run = run_of(1);

	(void)state;
	lw_replay_free(replay_of(run));
	assert_int_equal(diag_of(run, "one_rank"), 1);
	sim_run_free(run);
	run = run_of(2);
	lw_replay_free(replay_of(run));
	assert_int_equal(diag_of(run, "one_rank"), 0);
	sim_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several_process_sets_are_refused),
		cmocka_unit_test(ranks_that_came_and_went_are_refused),
		cmocka_unit_test(missing_ranks_cannot_be_added_to),
		cmocka_unit_test(a_tensor_of_some_ranks_alone_is_refused_or_left_out),
		cmocka_unit_test(tensors_that_change_their_size_are_refused),
		cmocka_unit_test(tensors_may_come_and_go),
		cmocka_unit_test(models_of_one_mean_step_say_nothing_of_tensors_that_come_and_go),
		cmocka_unit_test(recorded_groups_are_found_by_their_names),
		cmocka_unit_test(a_full_cache_is_said),
		cmocka_unit_test(settings_of_groups_and_of_gpus_are_taken),
		cmocka_unit_test(one_step_is_too_few),
		cmocka_unit_test(a_run_without_steps_says_why),
		cmocka_unit_test(one_rank_crosses_no_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
