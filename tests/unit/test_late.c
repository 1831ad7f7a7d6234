/* SPDX-License-Identifier: Apache-2.0 */
/* Who is late by its own computing, who only got the gradients later; and a slow link said where people look first. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analyzer.h"
#include "analyzer/emit/advice.h"
#include "analyzer/emit/report.h"
#include "base/units.h"
#include "tests/lib/run_fixture.h"
#include "tests/unit/net_run.h"

#define NO_FRAMEWORK                                                                               \
	"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM cycle;"       \
	"DELETE FROM wait; DELETE FROM setting;"

static struct lw_analysis *analyse(const struct make_run *spec)
{
	struct lw_analysis_options options = {0};
	const char *path = run_fixture_path("run.lapwing");
	struct lw_analysis *analysis;

	make_run_write(path, spec);
	assert_int_equal(lw_analysis_open(&path, 1, &options, &analysis), LW_OK);
	return analysis;
}

/* Written by @write, cut to the size of @text. */
static void print(const struct lw_analysis *analysis,
	void (*write)(const struct lw_analysis *analysis, FILE *out), char *text, size_t size)
{
	FILE *out = tmpfile();
	size_t n;

	assert_non_null(out);
	write(analysis, out);
	rewind(out);
	n = fread(text, 1, size - 1, out);
	text[n] = '\0';
	for (char *at = text; *at; at++) /* where lines are broken is not what is asked */
		if (*at == '\n' && at[1] == ' ')
			memmove(at, at + 2, strlen(at + 2) + 1);
	fclose(out);
}

static void write_report(const struct lw_analysis *analysis, FILE *out)
{
	lw_report_text(analysis, &(struct lw_report_options){.rank = LW_NONE}, out);
}

static void write_advice(const struct lw_analysis *analysis, FILE *out)
{
	lw_advice_text(&analysis->advice, analysis->run, out);
}

static const char *finding(const struct lw_analysis *analysis, const char *id)
{
	const struct lw_finding *finding;

	lw_vec_foreach (finding, &analysis->advice.findings)
		if (!strcmp(finding->id, id))
			return finding->text;
	return "";
}

/* Rank 2 hands its gradients over 5 ms after the others in every step, as it gets them 5 ms later. */
#define RESUMES_LATER "UPDATE wait SET end_ns = end_ns + 5000000 WHERE thread_id = 5;"

static void who_resumes_later_is_not_late(void **state)
{
	struct make_run spec = make_run_job(3, 20);
	struct lw_analysis *analysis;

	(void)state;
	spec.late_ns[2] = 5000000;
	spec.extra_sql = RESUMES_LATER;
	analysis = analyse(&spec);
	assert_int_equal(analysis->summary.stragglers.n, 0);
	assert_non_null(strstr(finding(analysis, "ranks.straggler"), "no rank is late"));
	lw_analysis_close(analysis);
}

static void report_and_advice_name_the_same_rank(void **state)
{
	struct make_run spec = make_run_job(3, 20);
	struct lw_analysis *analysis;
	const struct lw_straggler *late;
	const struct lw_advice *advice;
	bool is_said = false;

	(void)state;
	spec.late_ns[2] = 5000000; /* of its input: it had them when the others had */
	spec.late_ns[1] = 4000000; /* rank 1 computes longest, and is never the last */
	spec.extra_sql = RESUMES_LATER;
	analysis = analyse(&spec);
	assert_int_equal(analysis->summary.stragglers.n, 1);
	late = &analysis->summary.stragglers.at[0];
	assert_int_equal(late->rank, 1);
	assert_true(late->is_persistent && fabs(late->last_ns - 4e6) < 1e5);
	lw_vec_foreach (advice, &analysis->advice.advice)
		is_said |= !strcmp(advice->id, "ranks.straggler") &&
			   strstr(advice->why, "rank 1 (host ") &&
			   strstr(advice->why, "in 100 % of the steps");
	assert_true(is_said || strstr(finding(analysis, "ranks.straggler"), "rank 1 (host "));
	lw_analysis_close(analysis);
}

/* A plain program: rank 1 leaves every operation 5 ms after the others, and so enters the next one later. */
static void of_a_plain_program_too(void **state)
{
	struct make_run spec = make_run_job(2, 12);
	struct lw_analysis *analysis;

	(void)state;
	spec.extra_sql = NO_FRAMEWORK
		"UPDATE collective SET start_ns = start_ns + 5000000, end_ns = end_ns + 5000000"
		" WHERE thread_id IN (SELECT id FROM thread WHERE process_id = 2);";
	analysis = analyse(&spec);
	assert_true(analysis->summary.n_steps > 0);
	assert_int_equal(analysis->summary.stragglers.n, 0);
	lw_analysis_close(analysis);

	spec.extra_sql =
		NO_FRAMEWORK "UPDATE collective SET start_ns = start_ns + 2000000"
			     " WHERE thread_id IN (SELECT id FROM thread WHERE process_id = 2);";
	analysis = analyse(&spec);
	assert_int_equal(analysis->summary.stragglers.n, 1);
	assert_int_equal(analysis->summary.stragglers.at[0].rank, 1);
	lw_analysis_close(analysis);
}

/* The way out of rank 1 of a ring is slow: rank 2, which receives it, leaves last. */
static void a_slow_link_is_what_is_said_first(void **state)
{
	struct make_run spec = make_run_job(4, 26);
	struct lw_analysis *analysis;
	struct lw_brief brief;
	const char *path = run_fixture_path("run.lapwing");
	char text[16384], sql[65536];
	const char *slow;

	(void)state;
	net_run_begin(4);
	for (int r = 0; r < 4; r++) {
		net_run_add_link(r, (r + 1) % 4, 60e6, 1e3, r == 1 ? 100 : 33);
		net_run_add_nic_bytes(r, 62.7e6, 62.7e6);
	}
	snprintf(sql, sizeof(sql), "%s%s", net_run_sql(), RESUMES_LATER);
	spec.first_ns = 10 * LW_NS_PER_MS;
	spec.late_ns[2] = 5000000;
	spec.extra_sql = sql;
	analysis = analyse(&spec);

	print(analysis, write_report, text, sizeof(text));
	slow = strstr(text, "Slow link: rank 1 sends to rank 2 at ");
	assert_non_null(slow);
	assert_true(slow < strstr(text, "To change:"));
	assert_non_null(strstr(text, "at the others' rate"));
	assert_null(strstr(text, "Late rank"));

	print(analysis, write_advice, text, sizeof(text));
	assert_int_equal(strncmp(text, "network.slow_link: Slow link: rank 1 ", 37), 0);
	print(analysis, write_report, text, sizeof(text)); /* said once as what holds all up */
	assert_null(strstr(strstr(text, "To change:"), "Slow link"));

	assert_int_equal(lw_brief_load(&path, 1, &brief), LW_OK);
	assert_string_equal(brief.slow_link, lw_net_slow_text(analysis->run, text));
	assert_int_equal(strncmp(brief.slow_link, "rank 1 ", 7), 0);
	lw_brief_done(&brief);
	lw_analysis_close(analysis);
}

/* A server of sends and receives has no steps, and links all the same. */
static void a_slow_link_needs_no_step(void **state)
{
	struct make_run spec = make_run_job(4, 26);
	struct lw_analysis *analysis;
	char text[16384], sql[65536];

	(void)state;
	net_run_begin(4);
	for (int r = 0; r < 4; r++) {
		net_run_add_link(r, (r + 1) % 4, 60e6, 1e3, r == 1 ? 100 : 33);
		net_run_add_nic_bytes(r, 62.7e6, 62.7e6);
	}
	snprintf(sql, sizeof(sql), "%s%s", net_run_sql(), NO_FRAMEWORK "DELETE FROM collective;");
	spec.first_ns = 10 * LW_NS_PER_MS;
	spec.extra_sql = sql;
	analysis = analyse(&spec);
	print(analysis, write_report, text, sizeof(text));
	assert_non_null(strstr(text, "No training step was found"));
	assert_non_null(strstr(text, "Slow link: rank 1 sends to rank 2 at "));
	assert_null(strstr(text, "of a step take")); /* there is none that it could cost */
	lw_analysis_close(analysis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_resumes_later_is_not_late),
		cmocka_unit_test(report_and_advice_name_the_same_rank),
		cmocka_unit_test(of_a_plain_program_too),
		cmocka_unit_test(a_slow_link_is_what_is_said_first),
		cmocka_unit_test(a_slow_link_needs_no_step),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
