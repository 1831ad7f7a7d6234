/* SPDX-License-Identifier: Apache-2.0 */
/* Were there cores enough? From samples made up here, of steps whose waits are known. */
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
#include "tests/lib/run_fixture.h"

enum { N_STEPS = 120 }; /* of about 34 ms: four seconds */

/* What each rank's samples grow by, in cores. */
struct load {
	double process_used, process_waited, training_used, training_waited;
};

static char sql[65536];

static void add_samples(int rank, const struct load *load, int n, double every_s)
{
	size_t at = strlen(sql);

	for (int i = 0; i < n; i++) {
		double t_ns = i * every_s * 1e9;

		at += (size_t)snprintf(sql + at, sizeof(sql) - at,
			"INSERT INTO cpu_sample SELECT %d, NULL, %.0f, %.0f, 0, %.0f, NULL, NULL;"
			"INSERT INTO cpu_sample SELECT %d, (SELECT id FROM thread WHERE process_id = %d AND role = 1), %.0f, %.0f, 0, %.0f, 1, 1;",
			rank + 1, t_ns, t_ns * load->process_used, t_ns * load->process_waited,
			rank + 1, rank + 1, t_ns, t_ns * load->training_used,
			t_ns * load->training_waited);
	}
	assert_true(at < sizeof(sql));
}

static void add_cores(int rank, const char *allowed, const char *quota)
{
	size_t at = strlen(sql);

	snprintf(sql + at, sizeof(sql) - at, "INSERT INTO cores VALUES(%d, %d, 8, '%s', 2, %s);",
		rank + 1, rank, allowed, quota);
}

static struct lw_run *analyze(int framework)
{
	struct make_run spec = make_run_job(2, N_STEPS);
	struct lw_run *run;

	spec.framework = framework;
	spec.extra_sql = sql;
	run = run_fixture_analyze(&spec);
	assert_int_equal(lw_run_cores(run), LW_OK);
	assert_int_equal(run->cores.n, 1);
	sql[0] = '\0';
	return run;
}

static double blocked_frac(const struct lw_run *run)
{
	const struct lw_step *step = &run->ranks.at[0].steps.at[2];

	return 1 - (double)step->compute_ns / (double)(step->end_ns - step->start_ns);
}

static void assert_near(double value, double wanted)
{
	if (!(fabs(value - wanted) < 0.005))
		fail_msg("%.4f instead of %.4f", value, wanted);
}

static void a_thread_that_computes_and_waits_for_cores_is_contended(void **state)
{
	/* never asleep: what is not yielding is computing, 30 % of it without a core */
	const struct load busy = {1, 0.4, 0.7, 0.3}, calm = {0.98, 0.02, 0.99, 0.01};
	struct lw_run *run;
	double blocked;

	(void)state;
	add_cores(0, "0-1", "NULL");
	add_cores(1, "0-1", "NULL");
	add_samples(0, &busy, 12, 0.5);
	add_samples(1, &calm, 12, 0.5);
	run = analyze(LW_FRAMEWORK_HOROVOD);
	blocked = blocked_frac(run);
	assert_true(blocked > 0.05 && blocked < 0.5);
	assert_near(run->ranks.at[0].used_cores, 1);
	assert_near(run->ranks.at[0].waited_cores, 0.4);
	assert_near(run->ranks.at[0].core_wait_frac, 0.3 * (1 - blocked));
	assert_near(run->ranks.at[1].core_wait_frac, 0.01 * (1 - blocked));
	assert_near(run->cores.at[0].n_cores, 2);
	assert_near(run->cores.at[0].used_cores, 1.98);
	assert_int_equal(run->cores.at[0].n_known, 2);
	assert_true(run->cores.at[0].contended_frac > 0);
	assert_near(run->core_wait_frac, 0.3 * (1 - blocked));
	assert_int_equal(run->cores.at[0].n_bound, 2);
	assert_true(run->core_crowd_frac == 0);
	assert_int_equal(run_fixture_diag(run, LW_CORES_CONTENDED), 1);
	assert_non_null(strstr(lw_run_diag_text(run, LW_CORES_CONTENDED), "used 1.98 of 2 cores"));
	/* asked again it says the same once */
	assert_int_equal(lw_run_cores(run), LW_OK);
	assert_int_equal(run_fixture_diag(run, LW_CORES_CONTENDED), 1);
	lw_run_free(run);
}

static void waiting_that_yields_is_no_computing(void **state)
{
	/* asleep but for its waits, which yield and mostly find no core: a job of timers on few cores */
	struct lw_run *run;
	struct load timers = {0.3, 0.5, 0, 0};
	double blocked;

	(void)state;
	run = analyze(LW_FRAMEWORK_HOROVOD);
	blocked = blocked_frac(run);
	lw_run_free(run);
	timers.training_used = 0.3 * blocked;
	timers.training_waited = 0.7 * blocked;
	add_cores(0, "0", "NULL");
	add_samples(0, &timers, 12, 0.5);
	add_samples(1, &timers, 12, 0.5);
	run = analyze(LW_FRAMEWORK_HOROVOD);
	assert_near(run->ranks.at[0].core_wait_frac, 0);
	assert_true(run->cores.at[0].contended_frac == 0);
	assert_true(run->core_wait_frac == 0);
	assert_int_equal(run_fixture_diag(run, LW_CORES_CONTENDED), 0);
	lw_run_free(run);
	/* of others waits sleep: what ran then computed */
	add_samples(0, &timers, 12, 0.5);
	run = analyze(LW_FRAMEWORK_TORCH_DDP);
	assert_near(run->ranks.at[0].core_wait_frac, 0.7 * blocked);
	assert_int_equal(
		run_fixture_diag(run, LW_CORES_CONTENDED), 0); /* it slept through the rest */
	lw_run_free(run);
}

static void who_sleeps_while_computing_computes_elsewhere(void **state)
{
	/* a tenth of a core, and as much without one: many short turns of a thread that a GPU works for */
	struct load gpu = {0.3, 0.5, 0, 0};
	struct lw_run *run = analyze(LW_FRAMEWORK_HOROVOD);
	double blocked = blocked_frac(run);

	(void)state;
	lw_run_free(run);
	gpu.training_used = 0.1 + blocked / 2;
	gpu.training_waited = 0.1 + blocked / 2;
	add_samples(0, &gpu, 12, 0.5);
	run = analyze(LW_FRAMEWORK_HOROVOD);
	assert_near(run->ranks.at[0].core_wait_frac, 0.1);
	assert_false(run->ranks.at[0].is_cpu_bound);
	assert_true(run->cores.at[0].contended_frac == 0 && run->core_wait_frac == 0);
	assert_int_equal(run_fixture_diag(run, LW_CORES_CONTENDED), 0);
	lw_run_free(run);
}

static void without_samples_nothing_is_said(void **state)
{
	struct lw_run *run = analyze(LW_FRAMEWORK_HOROVOD);
	const struct load busy = {1, 0.4, 0.7, 0.3};

	(void)state;
	assert_true(isnan(run->cores.at[0].n_cores) && isnan(run->cores.at[0].used_cores));
	assert_true(isnan(run->cores.at[0].core_wait_frac) && run->cores.at[0].contended_frac == 0);
	assert_true(run->core_wait_frac == 0);
	lw_run_free(run);
	/* half a second of the steps is too little to tell */
	add_cores(0, "0-1", "NULL");
	add_samples(0, &busy, 2, 0.5);
	run = analyze(LW_FRAMEWORK_HOROVOD);
	assert_near(run->cores.at[0].n_cores, 2);
	assert_true(isnan(run->cores.at[0].used_cores) && run->cores.at[0].contended_frac == 0);
	lw_run_free(run);
	/* one sample */
	add_samples(0, &busy, 1, 0.5);
	run = analyze(LW_FRAMEWORK_HOROVOD);
	assert_true(isnan(run->ranks.at[0].used_cores));
	lw_run_free(run);
	/* a kernel that does not count waits */
	add_samples(0, &busy, 12, 0.5);
	strcat(sql, "UPDATE cpu_sample SET waited_ns = NULL;");
	run = analyze(LW_FRAMEWORK_HOROVOD);
	assert_near(run->ranks.at[0].used_cores, 1);
	assert_true(isnan(run->ranks.at[0].core_wait_frac) && isnan(run->ranks.at[0].waited_cores));
	assert_true(run->cores.at[0].contended_frac == 0);
	lw_run_free(run);
}

static void cores_are_those_that_all_ranks_may_use_together(void **state)
{
	struct lw_run *run;

	(void)state;
	add_cores(0, "0-7", "NULL");
	add_cores(0, "0-1", "NULL"); /* bound later */
	add_cores(1, "2,3", "NULL");
	run = analyze(LW_FRAMEWORK_HOROVOD);
	assert_near(run->cores.at[0].n_cores, 4);
	lw_run_free(run);
	add_cores(0, "0-7", "2.5");
	add_cores(1, "0-7", "2.5");
	run = analyze(LW_FRAMEWORK_HOROVOD);
	assert_near(run->cores.at[0].n_cores, 2.5);
	lw_run_free(run);
	add_cores(0, "0-1", "64");
	run = analyze(LW_FRAMEWORK_HOROVOD);
	assert_near(run->cores.at[0].n_cores, 2);
	lw_run_free(run);
}

static void rows_that_cannot_be_are_left_out(void **state)
{
	const struct load busy = {1, 0.4, 0.7, 0.3};
	struct lw_run *run;

	(void)state;
	add_cores(0, "3-1", "NULL");
	add_cores(1, "0-1", "1e300");
	add_samples(0, &busy, 12, 0.5);
	strcat(sql,
		"INSERT INTO cpu_sample VALUES(1, NULL, -5, 0, 0, 0, 0, 0);"
		"INSERT INTO cpu_sample VALUES(1, NULL, 9223372036854775807, 0, 0, 0, 0, 0);"
		"INSERT INTO cpu_sample VALUES(1, NULL, 5, 9223372036854775807, 9223372036854775807, 0, 0, 0);"
		"INSERT INTO cpu_sample VALUES(1, NULL, 5, 0, 0, -7, 0, 0);"
		"INSERT INTO cpu_sample VALUES(999, NULL, 5, 0, 0, 0, 0, 0);"
		"INSERT INTO cores VALUES(999, 0, 8, '0-1', 2, NULL);");
	run = analyze(LW_FRAMEWORK_HOROVOD);
	assert_near(run->cores.at[0].n_cores, 2);
	assert_near(run->ranks.at[0].used_cores, 1);
	assert_int_equal(run_fixture_diag(run, "bad rows"), 4);
	lw_run_free(run);
	/* totals that shrink are of nobody */
	add_samples(0, &busy, 12, 0.5);
	strcat(sql,
		"UPDATE cpu_sample SET user_ns = 9000000000 - user_ns, waited_ns = 9000000000 - waited_ns;");
	run = analyze(LW_FRAMEWORK_HOROVOD);
	assert_true(isnan(run->ranks.at[0].used_cores) && isnan(run->ranks.at[0].core_wait_frac));
	assert_true(run->cores.at[0].contended_frac == 0);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_computes_and_waits_for_cores_is_contended),
		cmocka_unit_test(waiting_that_yields_is_no_computing),
		cmocka_unit_test(who_sleeps_while_computing_computes_elsewhere),
		cmocka_unit_test(without_samples_nothing_is_said),
		cmocka_unit_test(cores_are_those_that_all_ranks_may_use_together),
		cmocka_unit_test(rows_that_cannot_be_are_left_out),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
