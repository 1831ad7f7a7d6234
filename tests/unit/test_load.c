/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/run_fixture.h"

static void ready_joins_its_batch_by_object(void **state)
{
	struct make_run spec = make_run_job(2, 4);
	struct lw_run *run = run_fixture_load(&spec);

	(void)state;
	assert_int_equal(run->ranks.n, 2);
	assert_int_equal(run->size, 2);
	assert_int_equal(run->tensors.n, 3);
	for (size_t r = 0; r < 2; r++) {
		const struct lw_rank *rank = &run->ranks.at[r];

		assert_int_equal(rank->batches.n, 8);
		assert_int_equal(rank->members.n, 12);
		for (size_t i = 0; i < rank->members.n; i++)
			assert_true(rank->members.at[i].ready_ns > 0);
		assert_int_equal(rank->members.at[0].ready_ns, spec.first_ns + 10000000);
		assert_int_equal(rank->batches.at[0].bytes, 4004000);
		assert_string_equal(
			run->tensors.at[rank->members.at[1].tensor].name, "allreduce.fc.bias");
	}
	assert_int_equal(run->diags.n, 0);
	lw_run_free(run);
}

static void ready_with_a_name_joins_without_an_object(void **state)
{
	struct make_run spec = make_run_job(1, 3);
	struct lw_run *run;

	(void)state;
	spec.no_objects = true;
	run = run_fixture_load(&spec);
	for (size_t i = 0; i < run->ranks.at[0].members.n; i++)
		assert_true(run->ranks.at[0].members.at[i].ready_ns > 0);
	lw_run_free(run);
}

/* Objects are reused: one whose batch was lost must not lend its old time to a later step. */
static void a_ready_left_over_from_a_lost_batch_is_not_used(void **state)
{
	struct make_run spec = make_run_job(1, 4);
	struct lw_run *run;
	const struct lw_rank *rank;

	(void)state;
	spec.extra_sql =
		"DELETE FROM batch_tensor WHERE object = 1000 AND batch = 3;"
		"UPDATE batch_tensor SET object = 2000 WHERE object = 1000 AND batch = 5;"
		"UPDATE ready SET object = 2000 WHERE object = 1000 AND at_ns ="
		" (SELECT at_ns FROM ready WHERE object = 1000 ORDER BY at_ns LIMIT 1 OFFSET 2);"
		"DELETE FROM ready WHERE at_ns = (SELECT max(at_ns) FROM ready WHERE object = 1000)";
	run = run_fixture_load(&spec);
	rank = &run->ranks.at[0];
	assert_true(rank->members.at[rank->batches.at[4].first_member].ready_ns > 0);
	assert_int_equal(
		rank->members.at[rank->batches.at[6].first_member].ready_ns, LW_NS_UNKNOWN);
	assert_int_equal(run_fixture_diag(run, "no ready time"), 1);
	lw_run_free(run);
}

static void the_wire_is_the_collective_inside_the_batch(void **state)
{
	struct make_run spec = make_run_job(2, 2);
	struct lw_run *run = run_fixture_load(&spec);
	const struct lw_batch *batch = &run->ranks.at[1].batches.at[0];

	(void)state;
	assert_int_equal(batch->wire_start_ns, batch->start_ns + spec.copy_ns);
	assert_int_equal(batch->wire_end_ns, batch->end_ns - spec.copy_ns);
	assert_int_equal(run->ranks.at[1].collectives.at[0].batch, 0);
	lw_run_free(run);
}

static void control_collectives_are_no_wire_time(void **state)
{
	struct make_run spec = make_run_job(1, 2);
	struct lw_run *run;

	(void)state;
	spec.extra_sql = "UPDATE collective SET flags = 8"; /* LW_COLL_CONTROL */
	run = run_fixture_load(&spec);
	assert_int_equal(run->ranks.at[0].batches.at[0].wire_start_ns, LW_NS_UNKNOWN);
	assert_false(run->is_plain);
	lw_run_free(run);
}

static void agreed_is_the_end_of_the_round_before(void **state)
{
	struct make_run spec = make_run_job(2, 2);
	struct lw_run *run = run_fixture_load(&spec);
	const struct lw_batch *batch = &run->ranks.at[0].batches.at[1];

	(void)state;
	assert_int_equal(batch->agreed_ns, batch->start_ns);
	assert_int_equal(batch->cycle_ns, batch->start_ns - spec.coordination_ns);
	lw_run_free(run);
}

static void a_round_older_than_the_ready_time_is_not_believed(void **state)
{
	struct make_run spec = make_run_job(1, 3);
	struct lw_run *run;

	(void)state;
	/* only the very first round is left */
	spec.extra_sql = "DELETE FROM cycle WHERE start_ns > (SELECT min(start_ns) FROM cycle)";
	run = run_fixture_load(&spec);
	assert_int_not_equal(run->ranks.at[0].batches.at[0].agreed_ns, LW_NS_UNKNOWN);
	assert_int_equal(run->ranks.at[0].batches.at[1].agreed_ns, LW_NS_UNKNOWN);
	assert_int_equal(run_fixture_diag(run, "round not recorded"), 5);
	lw_run_free(run);
}

static void stores_of_several_ranks_become_one_run(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	char first[128], second[128];
	const char *paths[] = {first, second};
	struct lw_run *run;

	(void)state;
	snprintf(first, sizeof(first), "%s", run_fixture_path("rank0.lapwing"));
	snprintf(second, sizeof(second), "%s", run_fixture_path("rank1.lapwing"));
	spec.extra_sql =
		"DELETE FROM thread WHERE process_id = 2; DELETE FROM process WHERE id = 2;"
		"DELETE FROM batch WHERE thread_id > 2; DELETE FROM collective WHERE thread_id > 2;"
		"DELETE FROM batch_tensor WHERE thread_id > 2; DELETE FROM ready WHERE thread_id > 2;"
		"DELETE FROM cycle WHERE thread_id > 2; DELETE FROM wait WHERE thread_id > 2";
	make_run_write(first, &spec);
	spec.extra_sql =
		"DELETE FROM thread WHERE process_id = 1; DELETE FROM process WHERE id = 1;"
		"DELETE FROM batch WHERE thread_id < 3; DELETE FROM collective WHERE thread_id < 3;"
		"DELETE FROM batch_tensor WHERE thread_id < 3; DELETE FROM ready WHERE thread_id < 3;"
		"DELETE FROM cycle WHERE thread_id < 3; DELETE FROM wait WHERE thread_id < 3";
	make_run_write(second, &spec);
	assert_int_equal(lw_run_load(paths, 2, LW_STORE_READ, &run), LW_OK);
	assert_int_equal(run->ranks.n, 2);
	assert_int_equal(run->ranks.at[1].store, 1);
	assert_int_equal(run->ranks.at[1].members.n, 9);
	assert_int_equal(run->tensors.n, 3);
	assert_int_equal(run->n_missing_ranks, 0);
	assert_int_equal(run->diags.n, 0);
	lw_run_free(run);
	/* the same file twice: every rank is there twice, and is used once */
	paths[1] = first;
	assert_int_equal(lw_run_load(paths, 2, LW_STORE_READ, &run), LW_OK);
	assert_int_equal(run->ranks.n, 1);
	assert_int_equal(run->ranks.at[0].batches.n, 6);
	assert_int_equal(run_fixture_diag(run, "duplicate rank"), 1);
	assert_int_equal(run->n_missing_ranks, 1);
	assert_int_equal(run_fixture_diag(run, "missing ranks"), 1);
	lw_run_free(run);
}

#define GRADIENT(at)                                                                               \
	"INSERT INTO ready SELECT id, 999, " at ", 1000, 1, 0 FROM thread WHERE role = 1;"
#define ENDS_AT(at) "UPDATE process SET end_ns = " at ";"

/* A gradient that no operation carried, and how long the rank was there afterwards. */
static void who_waits_in_vain_and_ends_by_itself_has_hung(void **state)
{
	static const struct {
		const char *sql;
		uint32_t n_hung;
		double hung_s;
	} cases[] = {
		/* killed: its end is not known, nor is it said to have hung */
		{GRADIENT(
			 "10000000000") "INSERT INTO ready SELECT id, 998, 10500000000, 1000, 1, 0 FROM thread WHERE role = 1;"
					"UPDATE process SET ended = 'died';",
			0, 0},
		{GRADIENT("10000000000") ENDS_AT("69500000000"), 2, 59.5},
		{GRADIENT("10000000000") ENDS_AT("10900000000"), 0, 0}, /* at once */
		{ENDS_AT("69500000000"), 0, 0},                         /* nothing is left */
		/* a loop that exchanges none */
		{GRADIENT("10000000000") GRADIENT("11000000000") ENDS_AT("69500000000"), 0, 0},
		/* it paused for as long before */
		{GRADIENT("10000000000") ENDS_AT(
			 "69500000000") "UPDATE batch SET start_ns = 9000000000, end_ns = 9500000000"
					" WHERE batch = (SELECT max(batch) FROM batch);",
			2, 59.5},
		{GRADIENT("40000000000") ENDS_AT(
			 "69500000000") "UPDATE batch SET start_ns = 39000000000, end_ns = 39500000000"
					" WHERE batch = (SELECT max(batch) FROM batch);",
			0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct make_run spec = make_run_job(2, 3);
		struct lw_run *run;

		spec.extra_sql = cases[i].sql;
		run = run_fixture_load(&spec);
		assert_int_equal(run->n_hung_ranks, cases[i].n_hung);
		assert_int_equal(run->hung_ns, (int64_t)(cases[i].hung_s * 1e9));
		assert_int_equal(
			run_fixture_diag(run, "unfinished operation"), i ? cases[i].n_hung : 2);
		assert_true(cases[i].n_hung || !run->diags.n ||
			    !strstr(run->diags.at[run->diags.n - 1].text, "for another"));
		lw_run_free(run);
	}
}

static void write_job(const char *path, int n_ranks, const char *sql)
{
	struct make_run spec = make_run_job(n_ranks, 3);

	spec.extra_sql = sql;
	make_run_write(path, &spec);
}

/* What a second file is changed to, beside the first of two ranks, and why it is refused. */
static void files_of_different_jobs_are_refused(void **state)
{
#define ONLY_RANK_1                                                                                \
	"DELETE FROM thread WHERE process_id = 1; DELETE FROM process WHERE id = 1;"               \
	"DELETE FROM batch WHERE thread_id < 3; DELETE FROM collective WHERE thread_id < 3;"
#define ONLY_RANK_0                                                                                \
	"DELETE FROM thread WHERE process_id = 2; DELETE FROM process WHERE id = 2;"               \
	"DELETE FROM batch WHERE thread_id > 2; DELETE FROM collective WHERE thread_id > 2;"
#define ENDED "UPDATE process SET end_ns = start_ns + 1000000000;"
#define LATER                                                                                      \
	ENDED "UPDATE process SET start_ns = start_ns + 2000000000, end_ns = end_ns + 2000000000;"
	static const struct {
		const char *first_sql, *second_sql, *why; /* NULL: they are of one job */
	} cases[] = {
		{ONLY_RANK_0, ONLY_RANK_1, NULL},
		{ONLY_RANK_0, ONLY_RANK_1 "UPDATE process SET size = 3",
			"of 2 ranks, the other of 3"},
		{ONLY_RANK_0, ONLY_RANK_1 "UPDATE process SET size = NULL", NULL},
		{"", "UPDATE process SET start_ns = start_ns + 1",
			"rank 0 is another process in each"},
		{"", "UPDATE host SET boot_id = 'another boot'",
			"rank 0 is another process in each"},
		{"", "", NULL},
		{ONLY_RANK_0 ENDED, ONLY_RANK_1 LATER, "one had ended when the other began"},
		{ONLY_RANK_0 ENDED, ONLY_RANK_1 LATER "UPDATE host SET boot_id = 'another host'",
			NULL},
		{ONLY_RANK_0 ENDED, ONLY_RANK_1 ENDED, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char first[128], second[128];
		const char *paths[] = {first, second};
		struct lw_run *run = NULL;

		snprintf(first, sizeof(first), "%s", run_fixture_path("jobA.lapwing"));
		snprintf(second, sizeof(second), "%s", run_fixture_path("jobB.lapwing"));
		write_job(first, 2, cases[i].first_sql);
		write_job(second, 2, cases[i].second_sql);
		if (cases[i].why) {
			assert_int_equal(lw_run_load(paths, 2, LW_STORE_READ, &run), LW_ERR_USAGE);
			assert_non_null(strstr(lw_error_text(), cases[i].why));
			assert_non_null(strstr(lw_error_text(), "jobA.lapwing and "));
			lw_error_clear();
		} else {
			assert_int_equal(lw_run_load(paths, 2, LW_STORE_READ, &run), LW_OK);
			lw_run_free(run);
		}
	}
}

static void a_rank_without_operations_is_missing(void **state)
{
	struct make_run spec = make_run_job(3, 3);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"DELETE FROM batch WHERE thread_id > 4; DELETE FROM collective WHERE thread_id > 4;"
		"DELETE FROM batch_tensor WHERE thread_id > 4";
	run = run_fixture_load(&spec);
	assert_int_equal(run->ranks.n, 2);
	assert_int_equal(run->size, 3);
	assert_int_equal(run->n_missing_ranks, 1);
	assert_non_null(strstr(run->diags.at[0].text, "(rank 2)"));
	lw_run_free(run);
}

static void of_an_imported_timeline_the_other_ranks_are_missing_where_it_says_how_many(void **state)
{
	struct make_run spec = make_run_job(1, 3);
	struct lw_run *run;

	(void)state;
	spec.extra_sql = "UPDATE run SET source = 'horovod_timeline'; UPDATE process SET size = 2";
	run = run_fixture_load(&spec);
	assert_true(run->is_size_known);
	assert_int_equal(run->n_missing_ranks, 1);
	assert_int_equal(run_fixture_diag(run, "one rank's view"), 1);
	lw_run_free(run);
	spec.extra_sql =
		"UPDATE run SET source = 'horovod_timeline'; UPDATE process SET size = NULL";
	run = run_fixture_load(&spec);
	assert_false(run->is_size_known);
	assert_int_equal(run->n_missing_ranks, 0);
	lw_run_free(run);
	spec.extra_sql = "UPDATE process SET size = NULL, rank = NULL"; /* nobody launched it */
	run = run_fixture_load(&spec);
	assert_true(run->is_size_known);
	lw_run_free(run);
}

static bool has_finding(const struct lw_run *run, const char *text, uint64_t n)
{
	const struct lw_diag *diag;

	lw_vec_foreach (diag, &run->diags)
		if (!strcmp(diag->text, text))
			return diag->n == n;
	return false;
}

static void losses_and_refused_hooks_are_findings(void **state)
{
	struct make_run spec = make_run_job(2, 2);
	struct lw_run *run;

	(void)state;
	spec.is_open = true;
	spec.extra_sql =
		"INSERT INTO loss VALUES(1, 1, 1, 40, ''); INSERT INTO loss VALUES(2, NULL, 1, 2, '');"
		"INSERT INTO loss VALUES(2, NULL, 10, 1, '');"
		"INSERT INTO string VALUES(50, 'horovod.entries'), (51, 'unknown layout'), (52, 'mpi.calls');"
		"INSERT INTO hook VALUES(1, 5, 50, 3, 0, 51), (1, 6, 52, 3, 0, 51)";
	run = run_fixture_load(&spec);
	assert_int_equal(run->n_lost, 42);
	assert_int_equal(run_fixture_diag(run, "ring full"), 42);
	assert_int_equal(run_fixture_diag(run, "hook refused"), 2);
	assert_true(has_finding(run, "rank 0: ring full", 40));
	assert_true(has_finding(run, "rank 1: ring full", 2));
	assert_true(has_finding(run, "hook horovod.entries is not in place: unknown layout", 1));
	assert_true(has_finding(run, "hook mpi.calls is not in place: unknown layout", 1));
	assert_int_equal(run_fixture_diag(run, "not closed"), 1);
	assert_int_equal(
		run_fixture_diag(run, "process ended without saying so (killed or crashed)"), 1);
	assert_false(run->is_closed);
	lw_run_free(run);
}

static void findings_merge_by_text_and_beyond_eight_into_one(void **state)
{
	struct make_run spec = make_run_job(1, 2);
	struct lw_run *run = run_fixture_load(&spec);

	(void)state;
	for (int pass = 0; pass < 2; pass++)
		for (int r = 0; r < 8; r++)
			assert_int_equal(lw_run_diag(run, "load", "late", 10, "rank %d", r), LW_OK);
	assert_int_equal(run->diags.n, 8);
	assert_true(has_finding(run, "rank 7", 20));
	for (int r = 8; r < 11; r++)
		assert_int_equal(lw_run_diag(run, "load", "late", 5, "rank %d", r), LW_OK);
	assert_int_equal(lw_run_diag(run, "load", "late", 1, "rank 0"), LW_OK);
	assert_int_equal(lw_run_diag(run, "load", "other", 1, "rank 8"), LW_OK);
	assert_int_equal(run->diags.n, 10);
	assert_true(has_finding(run, "rank 0", 21));
	assert_true(has_finding(run, "and 3 more", 15));
	lw_run_free(run);
}

static void impossible_rows_are_counted_and_left_out(void **state)
{
	struct make_run spec = make_run_job(1, 2);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"INSERT INTO wait VALUES(1, 900, 100, 50, 1), (1, 901, -5, 50, 1), (99, 902, 1, 2, 1);"
		"INSERT INTO wait VALUES(1, 903, 5, 9223372036854775807, 1);"
		"INSERT INTO ready VALUES(1, 904, -9223372036854775807, 5, NULL, 0)";
	run = run_fixture_load(&spec);
	assert_int_equal(run->ranks.at[0].waits.n, 2);
	assert_int_equal(run_fixture_diag(run, "bad rows"), 5);
	lw_run_free(run);
}

static void numbers_from_a_stranger_are_not_trusted(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"UPDATE process SET framework = 65535, transport = -7;"
		"UPDATE process SET start_ns = -9223372036854775807, end_ns = 9223372036854775807"
		" WHERE id = 1; UPDATE process SET rank = 2147483647 WHERE id = 2";
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.n, 1);
	assert_int_equal(run->ranks.at[0].framework, 0);
	assert_int_equal(run->ranks.at[0].transport, 0);
	assert_int_equal(run->first_ns, 0);
	assert_true(run->last_ns > 0 && run->last_ns < INT64_C(1) << 58);
	assert_int_equal(run_fixture_diag(run, "process without a rank"), 1);
	lw_run_free(run);
}

static void collectives_stand_for_batches_where_there_is_no_framework(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	struct lw_run *run;

	(void)state;
	spec.extra_sql = "DELETE FROM batch; DELETE FROM batch_tensor; DELETE FROM ready;"
			 "DELETE FROM cycle; DELETE FROM wait; UPDATE process SET framework = 0";
	run = run_fixture_load(&spec);
	assert_true(run->is_plain);
	assert_int_equal(run->ranks.at[0].batches.n, 6);
	assert_int_equal(run->ranks.at[0].batches.at[0].bytes, 4004000);
	assert_int_equal(run->ranks.at[0].batches.at[0].wire_start_ns,
		run->ranks.at[0].batches.at[0].start_ns);
	assert_string_equal(run->tensors.at[0].name, "allreduce of 4004000 bytes");
	lw_run_free(run);
}

static void socket_totals_never_shrink_and_add_up(void **state)
{
	struct make_run spec = make_run_job(1, 2);
	struct lw_run *run;
	const struct lw_rank *rank;

	(void)state;
	spec.extra_sql =
		"INSERT INTO socket_sample VALUES(1, 1, 100, 1, 1000, 10, 1, 1), (1, 2, 150, 1, 500, 5, 1, 1),"
		" (1, 1, 200, 1, 3000, 30, 1, 1), (1, 1, 200, 3, 2000, 30, 1, 1), (1, 2, 900, 3, 700, 5, 1, 1);"
		"INSERT INTO tcp_sample VALUES(1, 1, 900, 3, 1, 2900, 31, 0, 0, 10)";
	run = run_fixture_load(&spec);
	rank = &run->ranks.at[0];
	assert_int_equal(rank->n_sockets, 2);
	assert_int_equal(rank->sent_bytes, 3700);
	assert_int_equal(rank->received_bytes, 35);
	assert_int_equal(rank->tcp_acked_bytes, 2900);
	assert_int_equal(rank->traffic.n, 5);
	assert_int_equal(rank->traffic.at[1].sent_bytes, 1500);
	assert_int_equal(rank->traffic.at[4].sent_bytes, 3700);
	lw_run_free(run);
}

static void the_wire_of_a_batch_needs_both_ends(void **state)
{
	struct lw_batch batch = {
		.start_ns = 10, .end_ns = 90, .wire_start_ns = 20, .wire_end_ns = 70};

	(void)state;
	assert_int_equal(lw_batch_wire(&batch).start_ns, 20);
	assert_int_equal(lw_batch_wire(&batch).end_ns, 70);
	batch.wire_end_ns = LW_NS_UNKNOWN;
	assert_int_equal(lw_batch_wire(&batch).start_ns, 10);
	assert_int_equal(lw_batch_wire(&batch).end_ns, 90);
}

static void an_empty_run_loads(void **state)
{
	struct make_run spec = make_run_job(1, 1);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"DELETE FROM process; DELETE FROM thread; DELETE FROM batch; DELETE FROM wait;"
		"DELETE FROM collective; DELETE FROM batch_tensor; DELETE FROM ready;"
		"DELETE FROM cycle";
	run = run_fixture_analyze(&spec);
	assert_int_equal(run->ranks.n, 0);
	assert_int_equal(run->first_ns, run->last_ns);
	assert_int_equal(run_fixture_diag(run, "no steps"), 1);
	lw_run_free(run);
}

static void parameters_and_gradients_come_in_order_to_their_ranks(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	struct lw_run *run;

	(void)state;
	spec.extra_sql =
		"INSERT INTO parameter VALUES(1, 5, 0, 1, 64, 8), (1, 5, 0, 0, 4096, 8), (2, 6, 1, 0, -5, 8);"
		"INSERT INTO gradient VALUES(1, 900, 70, 0, 0), (1, 901, 60, 0, 1), (1, 902, -60, 0, 1)";
	run = run_fixture_load(&spec);
	assert_int_equal(run->ranks.at[0].parameters.n, 2);
	assert_int_equal(run->ranks.at[0].parameters.at[0].bytes, 4096);
	assert_int_equal(run->ranks.at[0].parameters.at[1].position, 1);
	assert_int_equal(run->ranks.at[1].parameters.at[0].reducer, 1);
	assert_int_equal(run->ranks.at[1].parameters.at[0].bytes, 0);
	assert_string_equal(
		run->tensors.at[run->ranks.at[0].parameters.at[1].tensor].name, "parameter.1");
	assert_string_equal(
		run->tensors.at[run->ranks.at[1].parameters.at[0].tensor].name, "ddp1.parameter.0");
	assert_int_equal(run->ranks.at[0].gradients.n, 2);
	assert_int_equal(run->ranks.at[0].gradients.at[0].at_ns, 60);
	assert_int_equal(run->ranks.at[0].gradients.at[1].position, 0);
	assert_int_equal(run_fixture_diag(run, "bad rows"), 2);
	lw_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ready_joins_its_batch_by_object),
		cmocka_unit_test(ready_with_a_name_joins_without_an_object),
		cmocka_unit_test(a_ready_left_over_from_a_lost_batch_is_not_used),
		cmocka_unit_test(parameters_and_gradients_come_in_order_to_their_ranks),
		cmocka_unit_test(the_wire_is_the_collective_inside_the_batch),
		cmocka_unit_test(control_collectives_are_no_wire_time),
		cmocka_unit_test(agreed_is_the_end_of_the_round_before),
		cmocka_unit_test(a_round_older_than_the_ready_time_is_not_believed),
		cmocka_unit_test(stores_of_several_ranks_become_one_run),
		cmocka_unit_test(who_waits_in_vain_and_ends_by_itself_has_hung),
		cmocka_unit_test(
			of_an_imported_timeline_the_other_ranks_are_missing_where_it_says_how_many),
		cmocka_unit_test(files_of_different_jobs_are_refused),
		cmocka_unit_test(a_rank_without_operations_is_missing),
		cmocka_unit_test(losses_and_refused_hooks_are_findings),
		cmocka_unit_test(findings_merge_by_text_and_beyond_eight_into_one),
		cmocka_unit_test(impossible_rows_are_counted_and_left_out),
		cmocka_unit_test(numbers_from_a_stranger_are_not_trusted),
		cmocka_unit_test(collectives_stand_for_batches_where_there_is_no_framework),
		cmocka_unit_test(socket_totals_never_shrink_and_add_up),
		cmocka_unit_test(the_wire_of_a_batch_needs_both_ends),
		cmocka_unit_test(an_empty_run_loads),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
