/* SPDX-License-Identifier: Apache-2.0 */
/* test_tui_unsent.c - what is said of tensors that no step sends as such: in which bucket, how large, when complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "tests/unit/ddp_run.h"
#include "tests/unit/sim_run.h"
#include "tui/tensor_columns.h"
#include "tui/tensor_text.h"
#include "tui/tensor_unsent.h"

static struct lw_tensor_stats *stats_of(const struct lw_run *run)
{
	struct lw_tensor_stats *stats = calloc(run->tensors.n, sizeof(*stats));

	assert_non_null(stats);
	for (size_t t = 0; t < run->tensors.n; t++)
		stats[t] = (struct lw_tensor_stats){.n = t < DDP_PARAMETERS,
			.bytes = NAN,
			.ready_ns = NAN,
			.spread_ns = NAN,
			.last_rank = LW_NONE,
			.last_frac = NAN};
	assert_int_equal(lw_tensor_unsent(run, stats), LW_OK);
	return stats;
}

static void parameters_go_in_the_buckets_that_the_run_sent(void **state)
{
	static struct ddp_truth truth;
	uint32_t bucket_of[DDP_PARAMETERS], scratch[DDP_PARAMETERS];
	struct lw_replay *replay = NULL;
	int32_t *carriers;
	struct lw_run *run;
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	(void)state;
	ddp_truth_make(&truth, 600 * KIB);
	run = ddp_run_new(&truth);
	assert_int_equal(lw_replay_new(run, &replay), LW_OK);
	assert_int_equal(lw_tensor_carriers(run, NULL, &carriers), LW_OK);
	assert_null(carriers);
	assert_int_equal(lw_tensor_carriers(run, replay, &carriers), LW_OK);
	assert_non_null(carriers);
	lw_ddp_assign(truth.tensors, DDP_PARAMETERS, &truth.setting, bucket_of, scratch);
	for (size_t t = 0; t < DDP_PARAMETERS; t++) {
		assert_int_equal(carriers[t], LW_NONE); /* a bucket */
		assert_int_equal(carriers[DDP_PARAMETERS + t], bucket_of[t]);
	}
	lw_tensor_print(run, 0, &(struct lw_tensor_stats){.n = 1}, carriers, out);
	fclose(out);
	assert_non_null(strstr(text, "Holds parameter.0 ("));
	free(text);
	replay->ddp.why_fixed = "another rule";
	free(carriers);
	assert_int_equal(lw_tensor_carriers(run, replay, &carriers), LW_OK);
	assert_null(carriers); /* not known is not said */
	lw_replay_free(replay);
	sim_run_free(run);
}

static void a_parameter_has_its_size_and_when_its_gradient_is_complete(void **state)
{
	static struct ddp_truth truth;
	struct lw_tensor_stats *stats;
	struct lw_run *run;

	(void)state;
	ddp_truth_make(&truth, 600 * KIB);
	run = ddp_run_new(&truth);
	run->tensors.at[DDP_PARAMETERS].bytes = 4096;
	stats = stats_of(run);
	assert_true(stats[DDP_PARAMETERS].bytes == 4096);
	assert_true(isnan(stats[0].ready_ns)); /* what is sent is left alone */
	for (size_t t = 0; t < DDP_PARAMETERS; t++) {
		double sum_ns = 0;

		for (size_t row = DDP_RANKS; row < DDP_ROWS; row++)
			sum_ns += (double)truth.ready_ns[row * DDP_PARAMETERS + t];
		assert_true(fabs(stats[DDP_PARAMETERS + t].ready_ns -
				    sum_ns / (DDP_ROWS - DDP_RANKS)) < 1);
	}
	free(stats);
	sim_run_free(run);
}

static void what_does_not_apply_is_no_question_mark(void **state)
{
	static struct ddp_truth truth;
	struct lw_tensor_rows rows = {0};
	struct lw_table table = {0};
	char text[LW_TABLE_TEXT_BYTES];

	(void)state;
	ddp_truth_make(&truth, 600 * KIB);
	rows.run = ddp_run_new(&truth);
	rows.stats = stats_of(rows.run);
	assert_int_equal(lw_table_open(&table, lw_tensor_columns, lw_tensor_n_columns,
				 rows.run->tensors.n, &rows),
		LW_OK);
	for (size_t c = 3; c < 5; c++) { /* spread, last rank */
		assert_string_equal(lw_table_text(&table, c, 0, text), "?");
		assert_string_equal(lw_table_text(&table, c, DDP_PARAMETERS, text), "-");
	}
	lw_table_done(&table);
	free(rows.stats);
	sim_run_free((struct lw_run *)(uintptr_t)rows.run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_go_in_the_buckets_that_the_run_sent),
		cmocka_unit_test(a_parameter_has_its_size_and_when_its_gradient_is_complete),
		cmocka_unit_test(what_does_not_apply_is_no_question_mark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
