/* SPDX-License-Identifier: Apache-2.0 */
/* A job over NCCL without kernels: what its proxies show of a late rank and a slow link, in the answer and the advice too; and what not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analyzer.h"
#include "analyzer/emit/gpu.h"
#include "analyzer/emit/report.h"
#include "analyzer/reconstruct/nccl_links.h"
#include "tests/lib/make_gpu.h"
#include "tests/lib/run_fixture.h"

#define PLAIN                                                                                      \
	"DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready; DELETE FROM cycle;"       \
	"DELETE FROM wait; DELETE FROM setting;"
/* Rank 1 has messages ready for rank 2, which asks for them so much later. */
#define LATE(us)                                                                                   \
	"UPDATE nccl_proxy SET peer_wait_ns = 8000 * " #us " WHERE op = 1 AND thread_id = 4;"

static struct lw_analysis *analyse_ranks(int n_ranks, const char *more)
{
	static char sql[MAKE_GPU_SQL_BYTES], all[8192];
	struct make_run spec = make_run_job(n_ranks, 12);
	struct lw_analysis_options options = {0};
	const char *path = run_fixture_path("run.lapwing");
	struct make_gpu gpu = make_gpu_job();
	struct lw_analysis *analysis;

	snprintf(all, sizeof(all), "%s%s%s%s", MAKE_GPU_NCCL_ONLY, MAKE_GPU_RING, PLAIN, more);
	spec.transport = LW_TRANSPORT_NCCL;
	spec.extra_sql = make_gpu_sql(&gpu, all, sql);
	make_run_write(path, &spec);
	if (lw_analysis_open(&path, 1, &options, &analysis) < 0)
		fail_msg("%s", lw_error_text());
	return analysis;
}

static struct lw_analysis *analyse(const char *more)
{
	return analyse_ranks(4, more);
}

static const char *report_of(
	const struct lw_analysis *analysis, bool is_json, char *text, size_t size)
{
	FILE *out = tmpfile();

	assert_non_null(out);
	if (is_json)
		assert_int_equal(lw_report_json(analysis, out), LW_OK);
	else
		lw_report_text(analysis, &(struct lw_report_options){.rank = LW_NONE}, out);
	rewind(out);
	text[fread(text, 1, size - 1, out)] = '\0';
	fclose(out);
	for (char *at = text; *at && !is_json;
		at++) /* where lines are broken is not what is asked */
		if (*at == '\n' && at[1] == ' ' && at[2] == ' ' && at[3] != ' ')
			memmove(at, at + 2, strlen(at + 2) + 1);
	return text;
}

static void a_late_rank_is_in_the_answer(void **state)
{
	static char text[1 << 20];
	struct lw_analysis *analysis = analyse(LATE(1000));
	const struct lw_finding *first = &analysis->advice.findings.at[0];
	const char *late = "rank 2, by its GPU or its host: it had not asked for what rank 1 had";

	(void)state;
	assert_true(analysis->summary.n_steps > 1);
	assert_string_equal(first->id, "gpu.late");
	assert_int_equal(first->bound.rank, 2);
	assert_ptr_equal(strstr(first->text, late), first->text);
	report_of(analysis, false, text, sizeof(text));
	assert_non_null(strstr(text, "Late rank: rank 2, by its GPU"));
	assert_true(strstr(text, "Late rank:") < strstr(text, "To change:"));
	assert_ptr_equal(strstr(analysis->brief.late, late), analysis->brief.late);
	report_of(analysis, true, text, sizeof(text));
	assert_non_null(strstr(text, "\"late\": {"));
	assert_non_null(strstr(strstr(text, "\"late\": {"), "\"by\": \"proxies\""));
	lw_analysis_close(analysis);
}

/* It stands out in what NCCL did, and costs the step nothing to speak of. */
static void what_costs_no_good_part_of_a_step_is_not(void **state)
{
	static char text[1 << 20];
	struct lw_analysis *analysis = analyse(LATE(300));

	(void)state;
	report_of(analysis, false, text, sizeof(text));
	assert_non_null(strstr(text, "Late: rank 2 had not asked"));
	assert_null(strstr(text, "Late rank:"));
	assert_string_equal(analysis->brief.late, "");
	report_of(analysis, true, text, sizeof(text));
	assert_non_null(strstr(strstr(text, "\"late\": {"), "\"rank\": null"));
	lw_analysis_close(analysis);
}

#define PLUGIN(version)                                                                            \
	"INSERT INTO string VALUES(5102, 'nccl_plugin'), (5104, '" version                         \
	"'); INSERT INTO hook SELECT id, start_ns, 5102, 1, 0, 5104 FROM process;"
#define NOBODY_ASKS "UPDATE nccl_proxy SET peer_wait_ns = 0 WHERE op = 1;"

static void what_nccl_does_not_tell_is_not_known(void **state)
{
	const struct {
		const char *sql, *why; /* NULL: it is known */
	} cases[] = {
		{PLUGIN("v4"), NULL},
		{PLUGIN("v3"), "NCCL tells of it from 2.27 on; before that it is in network"},
		{PLUGIN("v6") NOBODY_ASKS, "as over sockets, where nobody asks"},
		{NOBODY_ASKS, "as over sockets, where nobody asks"},
	};
	static char text[1 << 20];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lw_analysis *analysis = analyse(cases[i].sql);

		report_of(analysis, false, text, sizeof(text));
		assert_int_equal(strstr(text, "MiB      32   5.00 us        ?") != NULL,
			cases[i].why != NULL);
		if (cases[i].why)
			assert_non_null(strstr(text, cases[i].why));
		else
			assert_null(strstr(text, "Where unasked is"));
		report_of(analysis, true, text, sizeof(text));
		assert_int_equal(strstr(text, "gpu.proxies.links.sent.peer_wait_ns") != NULL,
			cases[i].why != NULL);
		lw_analysis_close(analysis);
	}
}

/* Rank 0 is alone in the last operation, which never ends: what the others say of those before is compared still. */
static void an_operation_more_at_one_end_costs_no_link_its_evidence(void **state)
{
	struct lw_analysis *analysis = analyse(
		"DELETE FROM nccl_proxy WHERE thread_id <> 2 AND serial = (SELECT max(serial) FROM nccl_op);"
		"UPDATE nccl_op SET flags = 2 WHERE thread_id = 2 AND serial = (SELECT max(serial) FROM nccl_op);");
	struct lw_nccl_links links;
	const struct lw_nccl_link *link;

	(void)state;
	assert_int_equal(lw_nccl_links(analysis->run, &links), LW_OK);
	assert_int_equal(links.at.n, 4);
	lw_vec_foreach (link, &links.at) {
		assert_null(link->why);
		assert_true(link->both.n_messages > 0);
	}
	lw_nccl_links_done(&links);
	lw_analysis_close(analysis);
}

#define BETWEEN_TWO "UPDATE nccl_proxy SET peer = CASE thread_id WHEN 2 THEN 2 ELSE 3 END;"
#define SLOW(us)                                                                                   \
	"UPDATE nccl_proxy SET wire_ns = 8000 * " #us " WHERE op = 1 AND thread_id = 2;"           \
	"UPDATE nccl_proxy SET peer_wait_ns = 8000 * " #us " WHERE op = 2 AND thread_id = 4;"

static void of_two_ranks_one_direction_is_compared_with_the_other(void **state)
{
	static char text[1 << 20];
	struct lw_analysis *analysis = analyse_ranks(2, BETWEEN_TWO SLOW(3000));

	(void)state;
	report_of(analysis, false, text, sizeof(text));
	assert_non_null(strstr(text,
		"Slow: from rank 0 to rank 1 a message (64 KiB) was on the network for up to 3.00 ms, the other way, between the same two, for no more than 20.0 us ("));
	/* all on one host: no cable is to blame */
	assert_string_equal(analysis->advice.findings.at[0].id, "gpu.link");
	assert_null(strstr(analysis->advice.findings.at[0].text, "cables"));
	assert_non_null(strstr(analysis->advice.findings.at[0].text, "it does not leave the host"));
	lw_analysis_close(analysis);

	analysis = analyse_ranks(2, BETWEEN_TWO SLOW(50));
	report_of(analysis, false, text, sizeof(text));
	assert_null(strstr(text, "Slow:"));
	lw_analysis_close(analysis);

	analysis = analyse_ranks(2,
		BETWEEN_TWO SLOW(
			3000) "INSERT INTO host VALUES(2, 'node2', 'boot-2', 'monotonic'); UPDATE process SET host_id = 2 WHERE id = 2;");
	assert_non_null(strstr(analysis->advice.findings.at[0].text, "cables"));
	lw_analysis_close(analysis);
}

static void means_of_messages_are_no_digits_without_end(void **state)
{
	static char text[1 << 20];
	/* of three channels' proxies one a run: 32 a step, and 2/11 of 8 more */
	struct lw_analysis *analysis = analyse(
		"INSERT INTO nccl_proxy SELECT thread_id, seq + 900000, start_ns, end_ns, op, serial, bytes, peer, 7, 1, 0, 0, 0"
		" FROM nccl_proxy WHERE channel = 0 AND serial = 7;");

	(void)state;
	report_of(analysis, false, text, sizeof(text));
	assert_non_null(strstr(text, " 32.1 "));
	assert_null(strstr(text, " 32.09"));
	lw_analysis_close(analysis);
}

/* Rank 0 sends to 19 others. */
static void links_of_one_rank_that_are_not_shown_are_counted(void **state)
{
	static char sql[MAKE_GPU_SQL_BYTES], text[1 << 16];
	struct make_run spec = make_run_job(20, 4);
	struct make_gpu gpu = make_gpu_job();
	FILE *out = fmemopen(text, sizeof(text), "w");
	struct lw_run *run;

	(void)state;
	assert_non_null(out);
	spec.transport = LW_TRANSPORT_NCCL;
	spec.extra_sql = make_gpu_sql(&gpu,
		"INSERT INTO comm(process_id, key, parent_key, size, rank, serial, how, transport, at_ns)"
		" SELECT DISTINCT t.process_id, o.comm_key, NULL, 20, t.process_id - 1, 0, 1, 3, 0 FROM nccl_op o JOIN thread t ON t.id = o.thread_id;"
		"INSERT INTO nccl_proxy SELECT o.thread_id, 1000000 + 32 * o.seq + p.id, o.start_ns, o.end_ns, 1, o.serial, 65536, p.id - 1, 0, 1, 0, 0, 0"
		" FROM nccl_op o JOIN process p ON p.id > 1 WHERE o.thread_id = 2;",
		sql);
	run = run_fixture_analyze(&spec);
	lw_gpu_text(run, 0, out);
	fclose(out);
	assert_non_null(strstr(text, "\n  ... and 3 more links (--json has all)"));
	out = fmemopen(text, sizeof(text), "w");
	lw_gpu_text(run, 1, out);
	fclose(out);
	assert_null(strstr(text, "more link"));
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_rank_is_in_the_answer),
		cmocka_unit_test(what_costs_no_good_part_of_a_step_is_not),
		cmocka_unit_test(what_nccl_does_not_tell_is_not_known),
		cmocka_unit_test(an_operation_more_at_one_end_costs_no_link_its_evidence),
		cmocka_unit_test(of_two_ranks_one_direction_is_compared_with_the_other),
		cmocka_unit_test(links_of_one_rank_that_are_not_shown_are_counted),
		cmocka_unit_test(means_of_messages_are_no_digits_without_end),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
