/* SPDX-License-Identifier: Apache-2.0 */
/* What is predicted and advised of a run whose ranks waited for cores: less, and it says why. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/units.h"
#include "tests/unit/advise_job.h"

static const char fusion_cycle[] = "horovod.fusion_cycle";

static struct lw_run *record(struct job *job, double core_wait_frac)
{
	struct lw_advice_list list;
	struct lw_run *run;

	job_init(job, 2, 40, 20000);
	job->spec.setting.cycle_ns = 50 * LW_NS_PER_MS;
	job_advise(job, &run, &list);
	lw_advice_list_free(&list);
	run->core_wait_frac = core_wait_frac;
	return run;
}

static struct lw_prediction predict(struct lw_run *run, const struct lw_whatif *whatif)
{
	struct lw_prediction prediction;
	struct lw_replay *replay;

	assert_int_equal(lw_replay_new(run, &replay), LW_OK);
	assert_int_equal(lw_replay_predict(replay, whatif, &prediction, NULL), LW_OK);
	lw_replay_free(replay);
	return prediction;
}

static void intervals_grow_by_what_computing_waits_for_cores(void **state)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction calm, contended;
	struct job job;
	struct lw_run *run = record(&job, 0);
	double wait_ns;

	(void)state;
	whatif.cycle_ns = 5 * JOB_MS;
	calm = predict(run, &whatif);
	assert_true(calm.error.cores_ns == 0);
	run->core_wait_frac = 0.2;
	contended = predict(run, &whatif);
	wait_ns = calm.step_ns.low - contended.step_ns.low;
	assert_true(fabs(wait_ns / job_truth_ns(&job) - 0.2) < 0.01);
	/* ten times as many rounds: 3.3 doublings, a quarter each */
	assert_true(fabs(contended.error.cores_ns / wait_ns - (1 + log2(10) / 4)) < 0.01);
	assert_true(contended.step_ns.value == calm.step_ns.value);
	assert_true(
		fabs(contended.step_ns.high - calm.step_ns.high - contended.error.cores_ns) < 1);
	assert_int_equal(contended.step_ns.how, LW_ASSUMED);
	assert_non_null(strstr(contended.step_ns.why, "cores of this run are contended"));
	run->core_crowd_frac = 1; /* two ranks that compute on one core */
	calm = predict(run, &whatif);
	assert_true(fabs(calm.error.cores_ns - contended.error.cores_ns - calm.step_ns.value) < 1);
	run->core_crowd_frac = 0;
	whatif.cycle_ns = 100 * JOB_MS; /* fewer rounds: twice as long at most */
	contended = predict(run, &whatif);
	assert_true(fabs(contended.error.cores_ns - wait_ns) < 1);
	sim_run_free(run);
}

static void the_recorded_setting_is_what_it_was(void **state)
{
	struct job job;
	struct lw_run *run = record(&job, 0);
	struct lw_prediction calm = predict(run, &LW_WHATIF_RECORDED), contended;

	(void)state;
	run->core_wait_frac = 0.2;
	contended = predict(run, &LW_WHATIF_RECORDED);
	assert_memory_equal(&contended, &calm, sizeof(calm));
	sim_run_free(run);
}

static void more_ranks_on_full_cores_may_share_them(void **state)
{
	struct lw_whatif whatif = LW_WHATIF_RECORDED;
	struct lw_prediction calm, contended;
	struct job job;
	struct lw_run *run = record(&job, 0);

	(void)state;
	whatif.n_ranks = 4;
	calm = predict(run, &whatif);
	run->core_wait_frac = 0.2;
	contended = predict(run, &whatif);
	assert_true(contended.step_ns.high - calm.step_ns.high > calm.step_ns.value);
	assert_non_null(strstr(contended.step_ns.why, "would not compute as the recorded ones"));
	whatif.n_ranks = 1; /* fewer: only what was waited for */
	calm.step_ns.high = predict(run, &whatif).step_ns.high;
	run->core_wait_frac = 0;
	assert_true(fabs(calm.step_ns.high - predict(run, &whatif).step_ns.high -
			    contended.error.cores_ns) < 1);
	sim_run_free(run);
}

static const char *finding_with(const struct lw_advice_list *list, const char *text)
{
	const struct lw_finding *finding;

	lw_vec_foreach (finding, &list->findings)
		if (strstr(finding->text, text))
			return finding->text;
	return NULL;
}

static void advice_that_cores_can_eat_is_not_given_and_says_why(void **state)
{
	struct job job;
	struct lw_run *run = record(&job, 0);
	struct lw_advice_list list;
	double gain_frac, low_frac;
	const char *text;

	(void)state;
	assert_int_equal(lw_advise(run, &list), LW_OK);
	gain_frac = job_must_find(&list, fusion_cycle)->gain_frac.value;
	low_frac = job_must_find(&list, fusion_cycle)->gain_frac.low;
	assert_null(finding_with(&list, "not said"));
	lw_advice_list_free(&list);

	run->core_wait_frac = low_frac / 4; /* it gains more than that */
	assert_int_equal(lw_advise(run, &list), LW_OK);
	assert_true(job_must_find(&list, fusion_cycle)->gain_frac.low < low_frac);
	lw_advice_list_free(&list);

	run->core_wait_frac = 2 * gain_frac;
	assert_int_equal(lw_advise(run, &list), LW_OK);
	assert_null(job_find(&list, fusion_cycle));
	text = finding_with(&list, "not said");
	assert_non_null(text);
	print_message("%s\n", text);
	assert_non_null(strstr(text, fusion_cycle));
	assert_non_null(strstr(text, "cores are contended"));
	assert_non_null(finding_with(&list, "Measure it, or give the ranks more cores"));
	lw_advice_list_free(&list);
	sim_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intervals_grow_by_what_computing_waits_for_cores),
		cmocka_unit_test(the_recorded_setting_is_what_it_was),
		cmocka_unit_test(more_ranks_on_full_cores_may_share_them),
		cmocka_unit_test(advice_that_cores_can_eat_is_not_given_and_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
