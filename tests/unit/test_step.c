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

#include "analyzer/reconstruct/step.h"
#include "base/random.h"
#include "tests/lib/run_fixture.h"

static void a_step_ends_when_the_training_thread_resumes(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	struct lw_run *run = run_fixture_analyze(&spec);

	(void)state;
	for (size_t r = 0; r < 2; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		assert_int_equal(rank->steps.n, 6);
		for (size_t s = 0; s < 6; s++) {
			const struct lw_step *step = &rank->steps.at[s];

			assert_int_equal(step->n_batches, 2);
			assert_int_equal(step->first_batch, 2 * s);
			assert_int_equal(step->end_ns, step->resumed_ns);
			assert_int_equal(step->end_ns,
				spec.first_ns + ((int64_t)s + 1) * make_run_step_ns(&spec));
			assert_int_equal(step->blocked_ns, step->last_ready_ns + spec.block_ns);
			if (s)
				assert_int_equal(step->start_ns, step[-1].end_ns);
		}
	}
	lw_run_free(run);
}

static void without_waits_a_step_ends_with_its_last_operation(void **state)
{
	struct make_run spec = make_run_job(2, 5);
	struct lw_run *run;

	(void)state;
	spec.no_waits = true;
	run = run_fixture_analyze(&spec);
	for (size_t s = 1; s < 5; s++) {
		const struct lw_step *step = &run->ranks.at[0].steps.at[s];

		assert_int_equal(step->end_ns, run->ranks.at[0].batches.at[2 * s + 1].end_ns);
		assert_int_equal(step->end_ns - step->start_ns, make_run_step_ns(&spec));
		assert_int_equal(step->resumed_ns, LW_NS_UNKNOWN);
	}
	lw_run_free(run);
}

static void the_first_step_and_broadcasts_do_not_count(void **state)
{
	struct make_run spec = make_run_job(2, 5);
	struct lw_run *run;

	(void)state;
	spec.n_broadcasts = 4;
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[0].steps.n, 5);
	assert_int_equal(run->ranks.at[0].batches.at[3].step, LW_NONE);
	assert_int_equal(run->ranks.at[0].batches.at[4].step, 0);
	assert_non_null(run->ranks.at[0].steps.at[0].excluded);
	for (size_t s = 1; s < 5; s++)
		assert_null(run->ranks.at[0].steps.at[s].excluded);
	lw_run_free(run);
}

static void an_average_once_in_four_steps_starts_no_step(void **state)
{
	struct make_run spec = make_run_job(2, 16);
	struct lw_run *run;

	(void)state;
	spec.has_metric = true;
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[0].steps.n, 16);
	assert_int_equal(run->ranks.at[0].steps.at[4].n_batches, 2);
	/* it belongs to the step that it precedes */
	assert_int_equal(run->ranks.at[0].steps.at[5].n_batches, 3);
	assert_int_equal(
		run->ranks.at[0].steps.at[5].end_ns - run->ranks.at[0].steps.at[5].start_ns,
		make_run_step_ns(&spec));
	lw_run_free(run);
}

/* It waits for the gradients' results, so it does not say when the last gradient was ready. */
static void a_loss_averaged_after_the_gradients_is_no_gradient(void **state)
{
	struct make_run spec = make_run_job(2, 10);
	struct lw_run *run;

	(void)state;
	spec.has_tail_metric = true;
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[1].steps.n, 10);
	for (size_t s = 1; s < 10; s++) {
		const struct lw_step *step = &run->ranks.at[1].steps.at[s];

		/* the average at the end of the step before, then the two gradient batches */
		assert_int_equal(step->n_batches, 3);
		assert_int_equal(step->end_ns - step->start_ns, make_run_step_ns(&spec) + 3000000);
		assert_int_equal(step->blocked_ns, step->last_ready_ns + spec.block_ns);
		assert_int_equal(step->last_ready_ns - step->start_ns, 3000000 + 30000000);
		assert_int_equal(step->compute_ns, 2002000 + 30050000);
	}
	lw_run_free(run);
}

/* While a job runs, what is there ends anywhere: what was step 3 stays step 3, also where a name was carried once before. */
static void steps_keep_their_numbers_wherever_the_records_end(void **state)
{
	static const struct make_tensor tensors[] = {
		{"a", 4000, 5000000, 0}, {"b", 4000000, 20000000, 1}, {"c", 4000000, 21000000, 1}};

	(void)state;
	for (int n_batches = 12; n_batches <= 24; n_batches++) {
		struct make_run spec = make_run_job(2, 24);
		struct lw_run *run;
		char sql[512];

		spec.tensors = tensors;
		spec.n_broadcasts = 1; /* which becomes an average of the first tensor */
		snprintf(sql, sizeof(sql),
			"DELETE FROM batch WHERE batch > %d; DELETE FROM batch_tensor WHERE batch > %d;"
			"UPDATE batch SET op = (SELECT op FROM batch WHERE batch = 3) WHERE batch = 1;"
			"UPDATE batch_tensor SET name_id = (SELECT name_id FROM batch_tensor WHERE"
			" batch = 2 LIMIT 1) WHERE batch = 1",
			n_batches, n_batches);
		spec.extra_sql = sql;
		run = run_fixture_analyze(&spec);
		assert_int_equal(run->ranks.at[0].batches.at[8].step, 4);
		lw_run_free(run);
	}
}

static void an_unfinished_last_step_does_not_count(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"DELETE FROM batch WHERE batch = 12; DELETE FROM batch_tensor WHERE batch = 12";
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[0].steps.n, 6);
	assert_string_equal(
		run->ranks.at[0].steps.at[5].excluded, "incomplete: the run ended inside it");
	assert_null(run->ranks.at[0].steps.at[4].excluded);
	lw_run_free(run);
}

static void a_step_with_a_hole_does_not_count_on_any_rank(void **state)
{
	struct make_run spec = make_run_job(3, 6);
	struct lw_run *run;

	(void)state;
	spec.has_lost = true;
	spec.lost_rank = 2;
	spec.lost_step = 3;
	run = run_fixture_analyze(&spec);
	for (size_t r = 0; r < 3; r++) {
		assert_string_equal(
			run->ranks.at[r].steps.at[3].excluded, "records of a rank are missing");
		assert_null(run->ranks.at[r].steps.at[2].excluded);
		assert_null(run->ranks.at[r].steps.at[4].excluded);
	}
	lw_run_free(run);
}

static void an_evaluation_between_steps_is_a_pause(void **state)
{
	struct make_run spec = make_run_job(2, 12);
	struct lw_run *run;
	char sql[1024];
	/* everything from step 8 on happens 2 s later */
	long long from_ns = spec.first_ns + 8 * make_run_step_ns(&spec) + 1;

	(void)state;
	snprintf(sql, sizeof(sql),
		"UPDATE batch SET start_ns = start_ns + 2000000000, end_ns = end_ns + 2000000000 WHERE start_ns > %lld;"
		"UPDATE wait SET start_ns = start_ns + 2000000000, end_ns = end_ns + 2000000000 WHERE start_ns > %lld;"
		"UPDATE cycle SET start_ns = start_ns + 2000000000, end_ns = end_ns + 2000000000 WHERE start_ns > %lld;"
		"UPDATE collective SET start_ns = start_ns + 2000000000, end_ns = end_ns + 2000000000 WHERE start_ns > %lld;"
		"UPDATE ready SET at_ns = at_ns + 2000000000 WHERE at_ns > %lld",
		from_ns, from_ns, from_ns, from_ns, from_ns);
	spec.extra_sql = sql;
	run = run_fixture_analyze(&spec);
	assert_string_equal(run->ranks.at[0].steps.at[8].excluded,
		"pause: no gradient for longer than two steps");
	assert_null(run->ranks.at[0].steps.at[7].excluded);
	assert_null(run->ranks.at[0].steps.at[9].excluded);
	lw_run_free(run);
}

static void step_marks_win(void **state)
{
	struct make_run spec = make_run_job(2, 6);
	int64_t step_ns = make_run_step_ns(&spec);
	struct lw_run *run;
	char sql[2048] = "";
	size_t n = 0;

	(void)state;
	/* two iterations to a step of the user's, each begun 1 ms before the first gradient */
	for (int i = 0; i < 4; i++)
		for (int rank = 0; rank < 2; rank++)
			n += (size_t)snprintf(sql + n, sizeof(sql) - n,
				"INSERT INTO range VALUES(%d, %d, %lld, %lld, 1, NULL, %d);",
				2 * rank + 1, 5000 + i,
				(long long)(spec.first_ns + 9000000 + 2 * i * step_ns),
				(long long)(spec.first_ns + 9000000 + 2 * i * step_ns), i);
	spec.extra_sql = sql;
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[0].steps.n, 3);
	for (size_t s = 0; s < 3; s++) {
		assert_int_equal(run->ranks.at[1].steps.at[s].n_batches, 4);
		assert_int_equal(
			run->ranks.at[1].steps.at[s].end_ns - run->ranks.at[1].steps.at[s].start_ns,
			2 * step_ns);
	}
	lw_run_free(run);
}

/* A plain program has no names: the period of its operations is the step. */
static void a_period_of_collectives_is_a_step(void **state)
{
	struct make_run spec = make_run_job(2, 10);
	struct lw_run *run;

	(void)state;
	spec.extra_sql = "DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"
			 "DELETE FROM cycle; DELETE FROM wait; UPDATE process SET framework = 0";
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.at[0].steps.n, 10);
	for (size_t s = 1; s < 9; s++) {
		const struct lw_step *step = &run->ranks.at[0].steps.at[s];

		assert_int_equal(step->n_batches, 2);
		assert_int_equal(step->end_ns - step->start_ns, make_run_step_ns(&spec));
		/* blocking calls: their time is exposed, the rest is compute */
		assert_int_equal(step->exposed_ns, spec.wire_ns[0] + spec.wire_ns[1]);
		assert_int_equal(
			step->compute_ns + step->exposed_ns, step->end_ns - step->start_ns);
		assert_int_equal(step->negotiate_ns, LW_NS_UNKNOWN);
	}
	lw_run_free(run);
}

static void a_job_of_one_step_keeps_it(void **state)
{
	struct make_run spec = make_run_job(2, 2);
	struct lw_run *run = run_fixture_analyze(&spec);

	(void)state;
	assert_int_equal(run->ranks.at[0].steps.n, 2);
	assert_null(run->ranks.at[0].steps.at[1].excluded);
	lw_run_free(run);
}

/* ---- steps of two lengths ---------------------------------------------------------------------------- */

/* Whether steps of these lengths, in ms, are said to be of two. */
static bool are_of_two(const double *lengths_ms, size_t n, const char **ret_text)
{
	struct lw_run run = {0};
	struct lw_rank rank = {0};
	bool is_found;

	for (size_t s = 0; s < n; s++)
		assert_int_equal(
			lw_vec_push(&rank.steps,
				((struct lw_step){.end_ns = (int64_t)(1e6 * lengths_ms[s])})),
			LW_OK);
	assert_int_equal(lw_vec_push(&run.ranks, rank), LW_OK);
	assert_int_equal(lw_step_lengths(&run), LW_OK);
	is_found = lw_run_diag_text(&run, LW_STEP_TWO_LENGTHS) != NULL;
	if (ret_text && is_found)
		*ret_text = strdup(run.diags.at[0].text);
	lw_run_diag_reset(&run, "step");
	lw_vec_free(&run.diags);
	lw_vec_free(&run.ranks.at[0].steps);
	lw_vec_free(&run.ranks);
	return is_found;
}

static void steps_of_two_lengths_are_told(void **state)
{
	double first_shorter[17], in_turn[17], rare[17], near[17];
	const char *text = "";

	(void)state;
	for (size_t s = 0; s < 17; s++) {
		first_shorter[s] = (s < 7 ? 800 : 1500) + (double)(s * 5 % 17);
		in_turn[s] = (s % 2 ? 800 : 1500) + (double)(s * 5 % 17);
		rare[s] = (s % 6 == 5 ? 1500 : 800) + (double)(s * 5 % 17); /* 2 of 17 */
		near[s] = (s < 7 ? 800 : 860) + (double)(s % 3);
	}
	assert_true(are_of_two(first_shorter, 17, &text));
	print_message("%s\n", text);
	assert_non_null(strstr(text, "7 steps take about 808 ms, 10 about 1.51 s"));
	free((char *)(uintptr_t)text);
	first_shorter[3] = 1100; /* one between them changes nothing */
	assert_true(are_of_two(first_shorter, 17, NULL));
	assert_false(are_of_two(rare, 17, NULL));
	assert_false(are_of_two(near, 17, NULL));
	assert_true(are_of_two(in_turn, 17, NULL));
	assert_false(are_of_two(in_turn, 7, NULL)); /* too few to tell */
}

/* A tick that catches the last tensor or not, a busy machine, one long step: no two lengths. */
static void scatter_about_one_length_is_not_two(void **state)
{
	struct lw_random random = {1};
	size_t n_found = 0;

	(void)state;
	for (size_t run = 0; run < 3000; run++) {
		double lengths_ms[17];

		for (size_t s = 0; s < 17; s++) {
			double unit = lw_random_unit(&random);

			lengths_ms[s] = run % 3 == 0   ? 1000 + 200 * lw_random_normal(&random)
					: run % 3 == 1 ? 500 + 1000 * unit
						       : 500 - 300 * log(1 - unit);
		}
		n_found += are_of_two(lengths_ms, 17, NULL);
	}
	print_message("%zu of 3000 runs of one length are said to be of two\n", n_found);
	assert_true(n_found <= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_ends_when_the_training_thread_resumes),
		cmocka_unit_test(without_waits_a_step_ends_with_its_last_operation),
		cmocka_unit_test(the_first_step_and_broadcasts_do_not_count),
		cmocka_unit_test(an_average_once_in_four_steps_starts_no_step),
		cmocka_unit_test(a_loss_averaged_after_the_gradients_is_no_gradient),
		cmocka_unit_test(steps_keep_their_numbers_wherever_the_records_end),
		cmocka_unit_test(an_unfinished_last_step_does_not_count),
		cmocka_unit_test(a_step_with_a_hole_does_not_count_on_any_rank),
		cmocka_unit_test(an_evaluation_between_steps_is_a_pause),
		cmocka_unit_test(step_marks_win),
		cmocka_unit_test(a_period_of_collectives_is_a_step),
		cmocka_unit_test(a_job_of_one_step_keeps_it),
		cmocka_unit_test(steps_of_two_lengths_are_told),
		cmocka_unit_test(scatter_about_one_length_is_not_two),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
