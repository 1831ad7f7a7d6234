/* SPDX-License-Identifier: Apache-2.0 */
/* Advice: never worse than doing nothing, never below its own error, and plain where it cannot tell. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/advise/advise.h"
#include "analyzer/advise/trial.h"
#include "analyzer/emit/advice.h"
#include "base/units.h"
#include "tests/unit/advise_job.h"

static const char fusion_cycle[] = "horovod.fusion_cycle";

static double truth_ns(const struct job *job, const struct lw_advice *advice)
{
	struct job other = *job;

	if (advice) {
		other.spec.setting.fusion_bytes = strtoull(advice->set[0].value, NULL, 10);
		other.spec.setting.cycle_ns =
			(int64_t)llround(strtod(advice->set[1].value, NULL) * JOB_MS);
	}
	return job_truth_ns(&other);
}

static void a_cycle_that_is_too_long_is_found(void **state)
{
	struct job job;
	struct lw_run *run;
	struct lw_advice_list list;
	const struct lw_advice *advice;
	char line[LW_ADVICE_TEXT_BYTES];
	double before_ns, after_ns;

	(void)state;
	job_init(&job, 2, 40, 20000);
	job.spec.setting.cycle_ns = 50 * LW_NS_PER_MS;
	job_advise(&job, &run, &list);
	advice = job_must_find(&list, fusion_cycle);
	print_message("%s\n%s\n%s\n", lw_advise_top_line(&list, line), advice->why, advice->sure);
	assert_string_equal(advice->set[1].name, "HOROVOD_CYCLE_TIME");
	assert_true(strtod(advice->set[1].value, NULL) < 25);
	assert_non_null(strstr(advice->why, "tensors wait for the cycle"));
	before_ns = truth_ns(&job, NULL);
	after_ns = truth_ns(&job, advice);
	assert_true(fabs(1 - after_ns / before_ns - advice->gain_frac.value) < 0.02);
	lw_advice_list_free(&list);
	sim_run_free(run);
}

/* Steps that differ by more than they take: no other setting makes a step shorter than none, nor is that said. */
static void a_gain_is_no_more_than_the_step_and_one_that_may_be_anything_is_not_told(void **state)
{
	struct job job;
	struct lw_run *run;
	struct lw_advice_list list;
	struct lw_trial trial = {0};
	struct lw_prediction other;
	struct lw_figure gain;
	uint32_t n;

	(void)state;
	job_init(&job, 2, 40, 20000);
	job_advise(&job, &run, &list);
	other = list.base;
	other.is_recorded = false;
	n = lw_replay_n(list.replay);
	for (uint32_t s = 0; s < n; s++)
		list.other_ns[s] = list.base_ns[s] * (s % 2 ? 20 : 0.01);
	gain = lw_replay_gain(list.replay, &list.base, list.base_ns, &other, list.other_ns);
	print_message("gain %g (%g to %g) of %g\n", gain.value, gain.low, gain.high,
		list.base.step_ns.value);
	assert_true(gain.low < -list.base.step_ns.value);
	assert_true(gain.high <= list.base.step_ns.value && gain.high >= gain.value);
	trial.gain_ns = gain;
	assert_true(lw_advise_is_blind(&list, &trial));
	trial.gain_ns.low = 0.01 * gain.high;
	assert_false(lw_advise_is_blind(&list, &trial));
	lw_advice_list_free(&list);
	sim_run_free(run);
}

/* As `advise` says it and as `predict` does: one interval, and its fast end leaves time to compute. */
static void other_ranks_gain_what_their_step_says(void **state)
{
	static const uint32_t n_ranks[] = {4, 8, 64};
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_advice_list list;
	struct lw_trial trial;
	struct lw_run *run;
	struct job job;

	(void)state;
	job_init(&job, 2, 40, 20000);
	job_advise(&job, &run, &list);
	for (size_t i = 0; i < sizeof(n_ranks) / sizeof(n_ranks[0]); i++) {
		double base_ns = list.base.step_ns.value;

		whatif.n_ranks = n_ranks[i];
		assert_int_equal(lw_advise_try(&list, "x", &whatif, &trial, "x"), LW_OK);
		assert_true(fabs(base_ns - trial.gain_ns.low - trial.step_ns.high) < 1);
		assert_true(fabs(base_ns - trial.gain_ns.high - trial.step_ns.low) < 1);
		assert_true(trial.step_ns.low >= (double)job.spec.forward_ns);
	}
	lw_advice_list_free(&list);
	sim_run_free(run);
}

/* A tenth more bandwidth cannot make a step longer: where the error is larger than the change no sign is given. */
static void a_change_within_the_error_has_no_sign(void **state)
{
	struct lw_advice_list list;
	struct lw_run *run;
	char *text = NULL;
	size_t n = 0;
	struct job job;
	FILE *out = open_memstream(&text, &n);

	(void)state;
	job_init(&job, 2, 40, 20000);
	job_advise(&job, &run, &list);
	lw_advice_text(&list, run, out);
	fclose(out);
	for (size_t i = 0; i < list.tried.n; i++) {
		struct lw_trial *trial = &list.tried.at[i];
		bool is_small = trial->gain_ns.low <= 0 && trial->gain_ns.high >= 0;
		const char *line;

		if (strcmp(trial->id, "sensitivity"))
			continue;
		line = strstr(text, trial->label);
		assert_non_null(line);
		line = strstr(line, is_small ? "within its error" : "% less");
		assert_non_null(line);
		assert_null(memchr(strstr(text, trial->label), '\n',
			(size_t)(line - strstr(text, trial->label))));
	}
	assert_non_null(strstr(text, "within its error (95 %: "));
	for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
		assert_true(end - line < 80);
	free(text);
	lw_advice_list_free(&list);
	sim_run_free(run);
}

/* Groupings are the advisers' scratch, which the next trial overwrites: a what-if that is kept needs its own. */
static void what_a_trial_asked_can_be_asked_again(void **state)
{
	struct lw_run *run;
	struct lw_advice_list list;
	struct job job;
	size_t n_groupings = 0;

	(void)state;
	job_init(&job, 4, 60, 4000);
	job.link.fixed_ns = 2 * JOB_MS;
	job.spec.setting.cycle_ns = 50 * LW_NS_PER_MS;
	job_advise(&job, &run, &list);
	assert_true(list.advice.n > 1);
	for (size_t i = 0; i < list.tried.n; i++) {
		const struct lw_trial *trial = &list.tried.at[i];
		struct lw_prediction again;

		n_groupings += trial->whatif.group_of != NULL;
		assert_int_equal(
			lw_replay_predict(list.replay, &trial->whatif, &again, NULL), LW_OK);
		assert_true(again.step_ns.value == trial->prediction.step_ns.value);
	}
	assert_true(n_groupings > 1);
	for (size_t i = 0; i < list.advice.n; i++) {
		const struct lw_advice *advice = &list.advice.at[i];
		struct lw_prediction again;

		assert_int_equal(
			lw_replay_predict(list.replay, &advice->whatif, &again, NULL), LW_OK);
		assert_true(again.totals.exposed_ns == advice->prediction.totals.exposed_ns);
		assert_int_equal(again.n_passes, advice->prediction.n_passes);
	}
	lw_advice_list_free(&list);
	sim_run_free(run);
}

static void many_small_operations_are_found(void **state)
{
	struct job job;
	struct lw_run *run;
	struct lw_advice_list list;
	const struct lw_advice *advice;

	(void)state;
	job_init(&job, 4, 100, 4000);
	for (uint32_t t = 0; t < 100; t += 10)
		job.bytes[t] = 40000; /* two sizes tell a fixed cost from a rate */
	job.link.fixed_ns = 4 * JOB_MS;
	job.spec.setting.fusion_bytes = 0;
	job_advise(&job, &run, &list);
	advice = job_must_find(&list, fusion_cycle);
	print_message("%s\n", advice->why);
	assert_non_null(strstr(advice->why, "many small operations"));
	assert_true(strtod(advice->set[0].value, NULL) >= 8000);
	assert_true(truth_ns(&job, advice) < 0.9 * truth_ns(&job, NULL));
	lw_advice_list_free(&list);
	sim_run_free(run);
}

static void a_good_setting_is_left_alone_in_plain_words(void **state)
{
	struct job job;
	struct lw_run *run;
	struct lw_advice_list list;
	char line[LW_ADVICE_TEXT_BYTES];

	(void)state;
	job_init(&job, 2, 40, 20000);
	job.spec.setting.cycle_ns = 2 * LW_NS_PER_MS;
	job_advise(&job, &run, &list);
	print_message("%s\n", lw_advise_top_line(&list, line));
	assert_null(job_find(&list, fusion_cycle));
	assert_true(list.findings.n >= 1);
	assert_non_null(strstr(line, "the recorded setting (fusion threshold"));
	assert_non_null(strstr(line, "is as good as anything this run can tell"));
	assert_non_null(strstr(line, "cycle 2 ms"));
	lw_advice_list_free(&list);
	run->ranks.at[0].setting[LW_SETTING_FUSION_BYTES] = NAN; /* as in an imported timeline */
	assert_int_equal(lw_advise(run, &list), LW_OK);
	print_message("%s\n", list.findings.at[0].text);
	assert_non_null(strstr(list.findings.at[0].text, "the assumed default (fusion threshold"));
	lw_advice_list_free(&list);
	sim_run_free(run);
}

/* Whatever the job: what is advised is predicted and truly not slower, and its gain is above its
 * error. The truth is the simulator with the true costs and other ready times. */
static void advice_is_never_worse_than_doing_nothing(void **state)
{
	static const double cycles_ms[] = {1, 5, 20, 50};
	static const uint64_t fusion[] = {0, 1 << 16, 1 << 20, 128 << 20};
	uint32_t n_advised = 0, n_silent = 0;

	(void)state;
	for (uint32_t i = 0; i < 32; i++) {
		struct job job;
		struct lw_run *run;
		struct lw_advice_list list;
		const struct lw_trial *row;
		const struct lw_advice *advice;

		job_init(&job, 1u << (i % 3), 20 + i, (uint64_t)1000 << (i % 8));
		job.spec.setting = (struct lw_hvd_setting){
			fusion[i % 4], (int64_t)(cycles_ms[i / 8] * JOB_MS), 1, false, false};
		job.spec.seed = i + 100;
		job_advise(&job, &run, &list);
		lw_vec_foreach (row, &list.tried)
			assert_true(row->prediction.step_ns.low <= row->prediction.step_ns.value &&
				    row->prediction.step_ns.value <= row->prediction.step_ns.high);
		for (size_t k = 0; k < list.advice.n; k++) {
			assert_true(list.advice.at[k].gain_frac.low > 0);
			assert_true(k == 0 || list.advice.at[k].kind >= list.advice.at[k - 1].kind);
		}
		advice = job_find(&list, fusion_cycle);
		if (!advice) {
			n_silent++;
		} else {
			double before_ns, after_ns;

			n_advised++;
			assert_true(advice->step_ns.value < list.baseline_ns.value);
			job.spec.seed = i + 1000;
			before_ns = truth_ns(&job, NULL);
			after_ns = truth_ns(&job, advice);
			if (after_ns > before_ns * 1.003)
				fail_msg("case %u: %s=%s %s=%s makes %.2f ms of %.2f ms", i,
					advice->set[0].name, advice->set[0].value,
					advice->set[1].name, advice->set[1].value,
					after_ns / JOB_MS, before_ns / JOB_MS);
		}
		lw_advice_list_free(&list);
		sim_run_free(run);
	}
	print_message("%u jobs advised, %u left alone\n", n_advised, n_silent);
	assert_true(n_advised > 0 && n_silent > 0);
}

static void one_size_of_operation_is_called_too_little(void **state)
{
	struct job job;
	struct lw_run *run;
	struct lw_advice_list list;
	const struct lw_finding *finding;
	bool says_so = false;

	(void)state;
	job_init(&job, 2, 30, 4000);
	job.spec.forward_ns = LW_NS_PER_MS;
	job.spec.gap_ns = 1000;
	job.spec.jitter_ns = 100;
	job_advise(&job, &run, &list); /* everything in one operation */
	lw_vec_foreach (finding, &list.findings)
		says_so = says_so || strstr(finding->text, "HOROVOD_FUSION_THRESHOLD=30000");
	assert_true(says_so);
	lw_advice_list_free(&list);
	sim_run_free(run);
}

static void no_replay_means_no_advice_and_the_reason(void **state)
{
	struct job job;
	struct lw_run *run;
	struct lw_advice_list list;
	char line[LW_ADVICE_TEXT_BYTES];

	(void)state;
	job_init(&job, 2, 4, 4000);
	job.spec.n_steps = 2;
	job_advise(&job, &run, &list);
	assert_int_equal(list.advice.n, 0);
	assert_true(list.baseline_ns.value > 0 && isnan(list.baseline_ns.low)); /* of one step */
	assert_non_null(strstr(lw_advise_top_line(&list, line), "1 counted step"));
	assert_int_equal(run->diags.n, 1);
	assert_string_equal(run->diags.at[0].kind, "no_advice");
	assert_int_equal(lw_advise_store(run, &list), 0); /* no store: nothing to do */
	lw_advice_list_free(&list);
	sim_run_free(run);
}

static void results_are_stored_and_the_same_each_time(void **state)
{
	char path[] = "/tmp/lapwing-advise-XXXXXX";
	struct job job;
	struct lw_run *run;
	struct lw_advice_list list;
	struct lw_store *store;
	int64_t n_rows[2], n_advice[2], sum[2];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(lw_store_open(path, LW_STORE_CREATE, &store), 0);
	assert_int_equal(
		lw_store_exec(store, "INSERT INTO run VALUES(1, 'test', 'trace', '', 0, 1, NULL)"),
		0);
	job_init(&job, 2, 40, 20000);
	job.spec.setting.cycle_ns = 50 * LW_NS_PER_MS;
	for (int i = 0; i < 2; i++) {
		job_advise(&job, &run, &list);
		assert_int_equal(lw_vec_push(&run->stores, store), 0);
		assert_int_equal(lw_advise_store(run, &list), 0);
		assert_int_equal(
			lw_store_int(store, "SELECT count(*) FROM prediction", &n_rows[i]), 0);
		assert_int_equal(n_rows[i], list.tried.n);
		lw_store_int(store, "SELECT count(*) FROM advice WHERE id = 'horovod.fusion_cycle'",
			&n_advice[i]);
		lw_store_int(store,
			"SELECT CAST(sum(step_ns + low_ns + high_ns) AS INTEGER) FROM prediction",
			&sum[i]);
		lw_vec_free(&run->stores);
		lw_advice_list_free(&list);
		sim_run_free(run);
	}
	assert_int_equal(n_advice[0], 1);
	assert_int_equal(n_advice[1], 1);
	assert_int_equal(n_rows[0], n_rows[1]);
	assert_int_equal(sum[0], sum[1]);
	lw_store_close(store);
	remove(path);
}

static void a_search_over_a_large_job_tries_thresholds_and_cycles(void **state)
{
	struct job job;
	struct lw_run *run;
	struct lw_advice_list list;
	size_t n_recorded = 0;

	(void)state;
	job_init(&job, 4, 200, 20000);
	job.spec.n_steps = 31;
	job.spec.bytes = job.bytes;
	job.spec.cost.context = &job.link;
	run = sim_run_new(&job.spec);
	assert_int_equal(lw_advise(run, &list), 0);
	assert_true(list.tried.n >= 20);
	for (size_t i = 0; i < list.tried.n; i++)
		n_recorded += list.tried.at[i].prediction.is_recorded &&
			      !strcmp(list.tried.at[i].id, fusion_cycle);
	assert_int_equal(n_recorded, 1);
	lw_advice_list_free(&list);
	sim_run_free(run);
}

/* One rank tells nothing of the network; whose other ranks were recorded too need not record again. */
static void one_rank_of_several_is_not_asked_for_another_run(void **state)
{
	const struct lw_finding *finding;
	struct lw_advice_list list;
	struct lw_run *run;
	const char *said;
	struct job job;

	(void)state;
	for (int n_missing = 0; n_missing <= 2; n_missing += 2) {
		job_init(&job, 1, 10, 4000);
		job_advise(&job, &run, &list);
		lw_advice_list_free(&list);
		run->size = 1 + n_missing;
		run->n_missing_ranks = (uint32_t)n_missing;
		assert_int_equal(lw_advise(run, &list), LW_OK);
		said = "";
		lw_vec_foreach (finding, &list.findings)
			if (!strcmp(finding->id, "scaling.ranks"))
				said = finding->text;
		assert_non_null(strstr(said, n_missing ? "one rank of 3" : "a run of one rank"));
		assert_int_equal(!strstr(said, "record one of two"), n_missing > 0);
		lw_advice_list_free(&list);
		sim_run_free(run);
	}
}

/* What goes by NCCL is not what a probe would measure, and there is none of an imported trace. */
static void a_probe_is_named_only_where_there_can_be_one(void **state)
{
	static const struct {
		int framework, transport;
		bool is_profile;
		enum lw_fit_probe probe;
	} of[] = {
		{LW_FRAMEWORK_HOROVOD, LW_TRANSPORT_GLOO, false, LW_FIT_PROBE_CAN},
		{LW_FRAMEWORK_NONE, LW_TRANSPORT_MPI, false, LW_FIT_PROBE_CAN},
		{LW_FRAMEWORK_TORCH_DDP, LW_TRANSPORT_GLOO, false, LW_FIT_PROBE_SCRIPT},
		{LW_FRAMEWORK_HOROVOD, LW_TRANSPORT_NCCL, false, LW_FIT_PROBE_NONE},
		{LW_FRAMEWORK_NONE, LW_TRANSPORT_NONE, false, LW_FIT_PROBE_NONE},
		{LW_FRAMEWORK_TORCH_DDP, LW_TRANSPORT_GLOO, true, LW_FIT_PROBE_NONE},
	};
	struct lw_replay replay = {0};
	struct job job;
	struct lw_run *run;
	struct lw_advice_list list;

	(void)state;
	job_init(&job, 4, 40, 50000);
	job_advise(&job, &run, &list);
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		bool can = of[i].probe != LW_FIT_PROBE_NONE;

		run->ranks.at[0].framework = of[i].framework;
		run->ranks.at[0].transport = of[i].transport;
		run->is_profile = of[i].is_profile;
		replay.probe = lw_fit_probe(run);
		assert_int_equal(replay.probe, of[i].probe);
		assert_int_equal(
			strstr(lw_fit_why(replay.probe, LW_FIT_NO_SIZES), "--probe") != NULL, can);
		assert_int_equal(strstr(lw_advise_probe_tells(&replay), "--probe") != NULL, can);
		assert_int_equal(strstr(lw_fit_why(replay.probe, LW_FIT_NO_MODEL),
					 "lapwing_probe.run()") != NULL,
			of[i].probe == LW_FIT_PROBE_SCRIPT);
	}
	lw_advice_list_free(&list);
	sim_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_gain_is_no_more_than_the_step_and_one_that_may_be_anything_is_not_told),
		cmocka_unit_test(a_cycle_that_is_too_long_is_found),
		cmocka_unit_test(other_ranks_gain_what_their_step_says),
		cmocka_unit_test(a_change_within_the_error_has_no_sign),
		cmocka_unit_test(what_a_trial_asked_can_be_asked_again),
		cmocka_unit_test(many_small_operations_are_found),
		cmocka_unit_test(a_good_setting_is_left_alone_in_plain_words),
		cmocka_unit_test(advice_is_never_worse_than_doing_nothing),
		cmocka_unit_test(one_size_of_operation_is_called_too_little),
		cmocka_unit_test(no_replay_means_no_advice_and_the_reason),
		cmocka_unit_test(results_are_stored_and_the_same_each_time),
		cmocka_unit_test(a_search_over_a_large_job_tries_thresholds_and_cycles),
		cmocka_unit_test(one_rank_of_several_is_not_asked_for_another_run),
		cmocka_unit_test(a_probe_is_named_only_where_there_can_be_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
