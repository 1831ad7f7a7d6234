/* SPDX-License-Identifier: Apache-2.0 */
/* What is advised for a DDP run that the simulator made, against the truth it was made of. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/advise/trial.h"
#include "tests/unit/ddp_run.h"
#include "tests/unit/sim_run.h"

static const char ID[] = "ddp.buckets";
static const double MIB = 1048576;

static const struct lw_advice *advice_of(const struct lw_advice_list *list)
{
	const struct lw_advice *advice;

	lw_vec_foreach (advice, &list->advice)
		if (!strcmp(advice->id, ID))
			return advice;
	return NULL;
}

static const char *finding_of(const struct lw_advice_list *list)
{
	const struct lw_finding *finding;

	lw_vec_foreach (finding, &list->findings)
		if (!strcmp(finding->id, ID))
			return finding->text;
	return "";
}

static double true_step_ns(uint64_t cap_bytes, uint64_t first_bytes, uint32_t scale)
{
	static struct ddp_truth truth;

	ddp_truth_make(&truth, cap_bytes);
	truth.setting.first_bytes = first_bytes;
	for (uint32_t t = 0; t < DDP_PARAMETERS; t++)
		truth.tensors[t].bytes *= scale;
	truth.ns_per_byte /= scale;
	return ddp_truth_median_ns(&truth);
}

/* 35 MB of gradients, so that the limits that are tried make a difference. */
enum { SCALE = 8 };

static struct lw_run *run_of(struct ddp_truth *truth, uint64_t cap_bytes)
{
	ddp_truth_make(truth, cap_bytes);
	truth->setting.first_bytes = 1 << 20;
	for (uint32_t t = 0; t < DDP_PARAMETERS; t++)
		truth->tensors[t].bytes *= SCALE;
	truth->ns_per_byte /= SCALE;
	return ddp_run_new(truth);
}

static void large_buckets_are_told_to_be_smaller(void **state)
{
	static const double caps_mib[] = {1, 2, 5, 10, 25, 50};
	double now_ns = true_step_ns(25 << 20, 1 << 20, SCALE), best_ns = now_ns, advised_ns,
	       cap_mib;
	static struct ddp_truth truth;
	const struct lw_advice *advice;
	struct lw_advice_list list;
	struct lw_run *run;
	char line[96];

	(void)state;
	run = run_of(&truth, 25 << 20);
	assert_int_equal(lw_advise(run, &list), LW_OK);
	advice = advice_of(&list);
	if (!advice) {
		fail_msg("no advice: %s", finding_of(&list));
		return;
	}
	assert_int_equal(advice->kind, LW_ADVICE_CODE);
	assert_string_equal(advice->set[0].name, "bucket_cap_mb");
	cap_mib = strtod(advice->set[0].value, NULL);
	snprintf(line, sizeof(line), "model = DistributedDataParallel(model, bucket_cap_mb=%g)",
		cap_mib);
	assert_non_null(strstr(advice->code, line));
	advised_ns = true_step_ns((uint64_t)(cap_mib * MIB),
		advice->n_sets > 1 ? strtoull(advice->set[1].value, NULL, 10) : 1 << 20, SCALE);
	for (size_t i = 0; i < sizeof(caps_mib) / sizeof(caps_mib[0]); i++)
		best_ns =
			fmin(best_ns, true_step_ns((uint64_t)(caps_mib[i] * MIB), 1 << 20, SCALE));
	printf("now %.1f ms, advised %g MiB: %.1f ms, best %.1f ms; gain %.1f %% (%.1f to %.1f)\n",
		now_ns / 1e6, cap_mib, advised_ns / 1e6, best_ns / 1e6,
		100 * advice->gain_frac.value, 100 * advice->gain_frac.low,
		100 * advice->gain_frac.high);
	assert_true(advised_ns <= 1.02 * best_ns && advised_ns < 0.9 * now_ns);
	assert_true(1 - advised_ns / now_ns >= advice->gain_frac.low);
	assert_true(1 - advised_ns / now_ns <= advice->gain_frac.high);
	lw_advice_list_free(&list);
	sim_run_free(run);
}

static void a_good_limit_stays(void **state)
{
	static struct ddp_truth truth;
	struct lw_advice_list list;
	struct lw_run *run = run_of(&truth, 1 << 20);

	(void)state;
	assert_int_equal(lw_advise(run, &list), LW_OK);
	assert_null(advice_of(&list));
	assert_non_null(strstr(finding_of(&list),
		"the recorded bucket_cap_mb=1 is as good as anything this run can tell"));
	lw_advice_list_free(&list);
	sim_run_free(run);
}

static void without_gradients_nothing_is_told(void **state)
{
	static struct ddp_truth truth;
	struct lw_advice_list list;
	struct lw_run *run = run_of(&truth, 25 << 20);

	(void)state;
	for (uint32_t r = 0; r < DDP_RANKS; r++)
		run->ranks.at[r].gradients.n = 0;
	assert_int_equal(lw_advise(run, &list), LW_OK);
	assert_null(advice_of(&list));
	assert_non_null(
		strstr(finding_of(&list), "cannot be told: when each gradient was complete"));
	lw_advice_list_free(&list);
	sim_run_free(run);
}

static void what_cannot_be_judged_is_not_called_no_faster(void **state)
{
	/* the recorded setting, one that is as good, and two of sizes that the run does not hold */
	static const double gains_ns[] = {0, 0.1e6, 25e6, -3e6};
	struct lw_advice_list list = {.base.step_ns.value = 100e6};
	char text[LW_ADVICE_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct lw_trial trial = {.gain_ns.value = gains_ns[i]};

		trial.prediction.is_recorded = i == 0;
		trial.prediction.is_extrapolated = i > 1;
		assert_int_equal(lw_vec_push(&list.tried, trial), 0);
	}
	assert_string_equal(lw_advise_none_better(&list, 0, "others", text),
		"none of 2 others is predicted to be more than 0.5 % faster; 1 more might be, by up to 25 %,"
		" but send sizes that this run does not hold: measure them");
	list.tried.n = 2;
	assert_string_equal(lw_advise_none_better(&list, 0, "others", text),
		"none of 1 others is predicted to be more than 0.5 % faster");
	lw_vec_free(&list.tried);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_buckets_are_told_to_be_smaller),
		cmocka_unit_test(a_good_limit_stays),
		cmocka_unit_test(what_cannot_be_judged_is_not_called_no_faster),
		cmocka_unit_test(without_gradients_nothing_is_told),
	};

	return cmocka_run_group_tests_name("advise_ddp", tests, NULL, NULL);
}
