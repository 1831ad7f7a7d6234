/* SPDX-License-Identifier: Apache-2.0 */
/* test_live.c - a run that grows, step by step: what the live model says at each moment. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/units.h"
#include "tests/lib/grow_run.h"
#include "tests/lib/run_fixture.h"
#include "tui/live.h"

#define S         LW_NS_PER_S
#define MS        LW_NS_PER_MS
#define WINDOW_NS (10 * S)

#define ok(status)                                                                                 \
	do {                                                                                       \
		if ((status) < 0)                                                                  \
			fail_msg("%s", lw_error_text());                                           \
	} while (0)

struct growing {
	struct grow_run run;
	struct lw_live *live;
};

#define execute(g, ...) grow_run_execute(&(g)->run, __VA_ARGS__)

static void begin(struct growing *g, const struct make_run *spec)
{
	char whole[128], path[128];
	const struct lw_live_options options = {.path = g->run.path, .window_ns = WINDOW_NS};

	snprintf(whole, sizeof(whole), "%s", run_fixture_path("whole.lapwing"));
	snprintf(path, sizeof(path), "%s", run_fixture_path("grow.lapwing"));
	grow_run_begin(&g->run, path, whole, spec);
	ok(lw_live_open(&options, &g->live));
}

static void appear(struct growing *g, int rank)
{
	grow_run_appear(&g->run, rank);
}

/* One transaction of the collector, then one look. */
static void grow_to(struct growing *g, int64_t to_ns)
{
	grow_run_to(&g->run, to_ns);
	ok(lw_live_look(g->live, to_ns));
}

static void end(struct growing *g)
{
	lw_live_close(g->live);
	grow_run_end(&g->run);
}

static struct lw_live_figures figures_of(struct growing *g, int rank)
{
	struct lw_live_figures figures;

	return *lw_live_rank_figures(&g->live->model, &g->live->model.ranks.at[rank],
		lw_live_to_ns(g->live), WINDOW_NS, &figures);
}

static void steps_and_exposed_time_follow_the_rows_that_appear(void **state)
{
	struct make_run spec = make_run_job(2, 100);
	double step_ns = (double)make_run_step_ns(&spec);
	int64_t wait_ns = make_run_step_ns(&spec) - spec.tensors[2].ready_ns - spec.block_ns;
	struct growing g;

	(void)state;
	begin(&g, &spec);
	ok(lw_live_look(g.live, S / 2));
	assert_int_equal(g.live->model.ranks.n, 0);
	appear(&g, 0);
	appear(&g, 1);
	for (int64_t at_ns = S; at_ns <= 3 * S; at_ns += 100 * MS) {
		grow_to(&g, at_ns);
		assert_false(g.live->model.is_partial);
		/* as many steps as whole ones lie between operations of the largest tensor */
		assert_in_range(lw_live_n_steps(g.live) + 2,
			(uint64_t)((double)(at_ns - S) / step_ns),
			(uint64_t)((double)(at_ns - S) / step_ns) + 2);
	}
	for (int rank = 0; rank < 2; rank++) {
		struct lw_live_figures f = figures_of(&g, rank);

		assert_true(fabs(f.step_ns - step_ns) < 0.001 * step_ns);
		assert_true(fabs(f.steps_per_s - 1e9 / step_ns) < 1.5);
		/* of the time since the first step began, as in a report; all of the wait but the time
		 * from the last operation's end to resuming */
		assert_true(
			fabs(f.exposed_frac - (double)(wait_ns - spec.resume_ns) / step_ns) < 0.02);
	}
	end(&g);
}

static void the_window_forgets_what_is_older(void **state)
{
	struct make_run spec = make_run_job(1, 60);
	double step_ns = (double)make_run_step_ns(&spec);
	struct lw_live_figures f;
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	for (int64_t at_ns = S; at_ns <= 4 * S; at_ns += 200 * MS)
		grow_to(&g, at_ns);
	assert_true(figures_of(&g, 0).n_steps >= 58);
	/* the job computes without a record for long: the window goes on */
	ok(lw_live_look(g.live, 20 * S));
	f = figures_of(&g, 0);
	assert_int_equal(f.n_steps, 0);
	assert_true(isnan(f.step_ns) && f.exposed_frac == 0 && f.ops_per_s == 0);
	/* looking back, it is all there */
	ok(lw_live_hold(g.live, true));
	assert_true(g.live->held_ns > 18 * S && g.live->held_ns <= 20 * S);
	g.live->back_ns = g.live->held_ns - 3 * S;
	f = figures_of(&g, 0);
	assert_true(fabs(f.step_ns - step_ns) < 0.001 * step_ns && f.n_steps > 40);
	end(&g);
}

static void the_series_shows_a_step_over_all_of_its_time(void **state)
{
	struct make_run spec = make_run_job(1, 6);
	struct growing g;
	double values[16];

	(void)state;
	spec.scale = 30; /* steps of about a second */
	begin(&g, &spec);
	appear(&g, 0);
	for (int64_t at_ns = 30 * S; at_ns <= 37 * S; at_ns += 250 * MS)
		grow_to(&g, at_ns);
	lw_live_step_series(&g.live->model, lw_live_to_ns(g.live), 12, values);
	for (int i = 0; i < 8; i++)
		assert_true(fabs(values[i] - (double)make_run_step_ns(&spec)) < 1e6);
	end(&g);
}

static void the_late_rank_is_named_with_how_late_it_is(void **state)
{
	struct make_run spec = make_run_job(3, 40);
	struct growing g;

	(void)state;
	spec.late_ns[2] = 7 * MS;
	begin(&g, &spec);
	for (int rank = 0; rank < 3; rank++)
		appear(&g, rank);
	for (int64_t at_ns = S; at_ns <= 3 * S; at_ns += 130 * MS)
		grow_to(&g, at_ns);
	assert_null(g.live->model.why_not_late);
	assert_true(fabs(figures_of(&g, 2).late_ns - 7e6) < 1);
	assert_true(figures_of(&g, 2).last_frac == 1);
	assert_true(figures_of(&g, 0).late_ns == 0 && figures_of(&g, 1).last_frac == 0);
	end(&g);
}

/* Rank 2 has its gradients ready 7 ms after the others, as it gets them 7 ms later: it computes no longer. */
static void who_resumes_later_is_not_late(void **state)
{
	struct make_run spec = make_run_job(3, 40);
	struct growing g;

	(void)state;
	spec.late_ns[2] = 7 * MS;
	spec.extra_sql = "UPDATE wait SET end_ns = end_ns + 7000000 WHERE thread_id = 5;";
	begin(&g, &spec);
	for (int rank = 0; rank < 3; rank++)
		appear(&g, rank);
	for (int64_t at_ns = S; at_ns <= 3 * S; at_ns += 130 * MS)
		grow_to(&g, at_ns);
	assert_true(figures_of(&g, 2).n_late > 20);
	assert_true(figures_of(&g, 2).late_ns == 0 && figures_of(&g, 2).last_frac == 0);
	end(&g);
	/* and where nobody knows when it resumed, nothing is said */
	spec.extra_sql = NULL;
	spec.no_waits = true;
	begin(&g, &spec);
	for (int rank = 0; rank < 3; rank++)
		appear(&g, rank);
	grow_to(&g, 2 * S);
	assert_true(isnan(figures_of(&g, 2).late_ns));
	assert_string_equal(g.live->model.why_not_late, "when ranks resumed was not recorded");
	end(&g);
}

static void a_rank_that_appears_late_is_taken_in(void **state)
{
	struct make_run spec = make_run_job(2, 60);
	struct growing g;

	(void)state;
	spec.late_ns[1] = 3 * MS;
	begin(&g, &spec);
	appear(&g, 0);
	grow_to(&g, 1500 * MS);
	assert_string_equal(g.live->model.why_not_late, "not all ranks are seen here");
	assert_true(isnan(figures_of(&g, 0).late_ns));
	appear(&g, 1);
	grow_to(&g, 3 * S);
	assert_int_equal(g.live->model.ranks.n, 2);
	assert_true(fabs(figures_of(&g, 1).late_ns - 3e6) < 1);
	assert_true(figures_of(&g, 1).n_steps > 20);
	end(&g);
}

static void a_rank_that_dies_is_told_of_once(void **state)
{
	struct make_run spec = make_run_job(2, 60);
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	appear(&g, 1);
	grow_to(&g, 2 * S);
	assert_int_equal(g.live->notes.n, 0);
	execute(&g, "UPDATE process SET ended = 'died', end_ns = %lld WHERE rank = 1",
		(long long)(2 * S));
	grow_to(&g, 2200 * MS);
	grow_to(&g, 2400 * MS);
	assert_int_equal(g.live->notes.n, 1);
	assert_true(g.live->notes.at[0].is_bad);
	assert_non_null(strstr(g.live->notes.at[0].text, "rank 1 died"));
	assert_non_null(strstr(g.live->notes.at[0].text, "on node1 was killed or crashed"));
	assert_non_null(strstr(g.live->notes.at[0].text, "the recorder still runs"));
	/* what it had is kept, and rates are over its life */
	assert_true(figures_of(&g, 1).n_steps > 5);
	end(&g);
}

static void a_process_without_a_rank_is_named_by_what_is_known(void **state)
{
	struct make_run spec = make_run_job(2, 60);
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	appear(&g, 1);
	execute(&g, "UPDATE process SET rank = NULL, pid = 4711 WHERE id = 2");
	grow_to(&g, 2 * S);
	execute(&g, "UPDATE process SET ended = 'died' WHERE id = 2");
	grow_to(&g, 2200 * MS);
	assert_int_equal(g.live->notes.n, 1);
	assert_non_null(
		strstr(g.live->notes.at[0].text, "process 4711 on node1 (no rank known yet) died"));
	assert_null(strstr(g.live->notes.at[0].text, "-1"));
	end(&g);
}

static void a_closed_run_is_let_go_at_once(void **state)
{
	struct make_run spec = make_run_job(2, 20);
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	appear(&g, 1);
	grow_to(&g, 2 * S);
	execute(&g, "DETACH whole");
	execute(&g, "UPDATE run SET closed = 1, exit_code = 3");
	ok(lw_live_look(g.live, 3 * S));
	assert_true(g.live->closing_ns > 0);
	assert_null(g.live->rows.store);
	assert_int_equal(g.live->rows.exit_code, 3);
	/* nobody reads: it can become one file */
	ok(lw_store_seal(g.run.writer));
	end(&g);
}

static void looking_never_holds_up_the_writer(void **state)
{
	struct make_run spec = make_run_job(2, 20);
	int64_t is_busy = 1;
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	sqlite3_busy_timeout(g.run.writer->db, 0);
	execute(&g, "BEGIN IMMEDIATE");
	ok(lw_live_look(g.live, S)); /* in the middle of a transaction */
	execute(&g, "COMMIT");
	ok(lw_store_int(g.run.writer, "PRAGMA wal_checkpoint(TRUNCATE)", &is_busy));
	assert_int_equal(is_busy, 0);
	ok(lw_live_look(g.live, 2 * S));
	assert_true(g.live->rows.store->is_read_only);
	end(&g);
}

static void new_rows_are_found_without_a_scan(void **state)
{
	struct make_run spec = make_run_job(1, 2);
	struct growing g;

	(void)state;
	begin(&g, &spec);
	for (int i = 0; lw_live_rows_sql(i); i++) {
		char sql[512];
		sqlite3_stmt *row;

		snprintf(sql, sizeof(sql), "EXPLAIN QUERY PLAN %s", lw_live_rows_sql(i));
		ok(lw_store_prepare(g.run.writer, sql, &row));
		assert_int_equal(lw_store_step(g.run.writer, row), 1);
		assert_non_null(strstr(lw_store_column_text(row, 3),
			"USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"));
		sqlite3_finalize(row);
	}
	end(&g);
}

/* A job of an hour is attached to: its last minute is read, and that says so. */
static void of_a_long_run_only_the_last_minute_is_read(void **state)
{
	struct make_run spec = make_run_job(1, 100);
	struct growing g;

	(void)state;
	spec.scale = 60; /* steps of about two seconds and a half */
	begin(&g, &spec);
	appear(&g, 0);
	grow_to(&g, 250 * S);
	assert_true(g.live->model.is_partial);
	assert_int_equal(g.live->facts.n, 1); /* the plus before its steps is explained */
	assert_string_equal(g.live->facts.at[0].label, "steps");
	assert_in_range(lw_live_n_steps(g.live), 15, 30);
	assert_true(fabs(figures_of(&g, 0).step_ns - (double)make_run_step_ns(&spec)) < 1e6);
	end(&g);
}

static void marks_of_the_user_win(void **state)
{
	struct make_run spec = make_run_job(1, 60);
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	grow_to(&g, 1500 * MS);
	for (int i = 0; i < 4; i++)
		execute(&g, "INSERT INTO range VALUES(1, %d, %lld, %lld, 1, NULL, %d)", 9000 + i,
			(long long)(1500 * MS + i * 100 * MS),
			(long long)(1500 * MS + i * 100 * MS), i);
	ok(lw_live_look(g.live, 1900 * MS));
	assert_int_equal(g.live->model.ranks.at[0].n_steps, 3);
	assert_int_equal(g.live->model.ranks.at[0].step_ns, 100 * MS);
	end(&g);
}

/* Held anywhere: a share is of time that is known, and counts are of what was there by then. */
static void a_held_picture_says_nothing_of_what_is_not_known(void **state)
{
	struct make_run spec = make_run_job(1, 100);
	double step_ns = (double)make_run_step_ns(&spec), most = 0;
	struct lw_live_figures f;
	int n_known = 0;
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	grow_to(&g, 2 * S);
	ok(lw_live_hold(g.live, true));
	for (g.live->back_ns = 0; g.live->held_ns - g.live->back_ns > S / 4;
		g.live->back_ns += 10 * MS) {
		int64_t to_ns = lw_live_to_ns(g.live);

		f = figures_of(&g, 0);
		assert_int_equal(isnan(f.exposed_frac), f.why_not_exposed != NULL);
		assert_false(to_ns < S - S / 4 && !isnan(f.exposed_frac));
		if (isnan(f.exposed_frac))
			continue;
		most = fmax(most, f.exposed_frac);
		n_known++;
		assert_true(fabs(f.steps_per_s - 1e9 / step_ns) < 0.15e9 / step_ns);
	}
	assert_true(n_known > 50 && most < 0.5);
	end(&g);
}

static void steps_of_before_the_first_mark_are_not_counted_with_marks(void **state)
{
	struct make_run spec = make_run_job(1, 60);
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	grow_to(&g, 1500 * MS);
	assert_true(figures_of(&g, 0).n_steps > 5);
	for (int i = 0; i < 3; i++)
		execute(&g, "INSERT INTO range VALUES(1, %d, %lld, %lld, 1, NULL, %d)", 9000 + i,
			(long long)(1500 * MS + i * MS), (long long)(1500 * MS + i * MS), i);
	ok(lw_live_look(g.live, 1900 * MS));
	assert_int_equal(g.live->model.ranks.at[0].n_steps, 2);
	/* what the picture takes back from the total is never more than that */
	assert_int_equal(figures_of(&g, 0).n_steps, 2);
	assert_int_equal(figures_of(&g, 0).step_ns, MS);
	end(&g);
}

static void times_that_cannot_be_are_not_known(void **state)
{
	static const char *const times[] = {"-9223372036854775807", "9223372036854775807"};
	struct make_run spec = make_run_job(2, 60);
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	appear(&g, 1);
	grow_to(&g, 1200 * MS);
	for (int i = 0; i < 2; i++) {
		execute(&g, "UPDATE process SET start_ns = %s, end_ns = %s WHERE rank = 1",
			times[i], times[i]);
		grow_to(&g, (1300 + 100 * i) * MS);
		assert_int_equal(g.live->model.ranks.at[1].start_ns, 0);
		assert_true(g.live->model.first_ns > 0);
		assert_in_range(g.live->model.newest_ns, S, 2 * S);
		assert_in_range(g.live->model.ranks.at[1].end_ns, S, 2 * S);
	}
	end(&g);
}

static void traffic_is_spread_over_the_time_since_the_sample_before(void **state)
{
	struct make_run spec = make_run_job(1, 100);
	struct lw_live_figures f;
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	grow_to(&g, 2 * S);
	for (int i = 0; i <= 4; i++)
		execute(&g, "INSERT INTO socket_sample VALUES(1, 7, %lld, 1, %d, %d, 1, 1)",
			(long long)(S + i * S / 2), i * 1000000, i * 500000);
	ok(lw_live_look(g.live, 3 * S + 1));
	lw_live_rank_figures(&g.live->model, &g.live->model.ranks.at[0], 3 * S + S / 4, S, &f);
	assert_true(fabs(f.sent_bytes_per_s - 2e6) < 1e6);
	assert_true(fabs(f.received_bytes_per_s * 2 - f.sent_bytes_per_s) < 1);
	end(&g);
}

static void traffic_that_no_socket_carries_is_not_called_none(void **state)
{
	struct make_run spec = make_run_job(2, 100);
	struct lw_live_figures job;
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	appear(&g, 1);
	grow_to(&g, 2 * S);
	for (int i = 0; i < 4; i++) /* connections of the launcher, on which nothing happens */
		execute(&g, "INSERT INTO socket_sample VALUES(%d, 7, %lld, 1, 500, 500, 1, 1)",
			1 + i % 2, (long long)(1 * S + i * S / 4));
	ok(lw_live_look(g.live, 2 * S + 1));
	lw_live_job_figures(&g.live->model, 2 * S, 3 * S / 4, &job);
	assert_true(job.ops_per_s > 0);
	assert_true(isnan(job.sent_bytes_per_s) && isnan(job.received_bytes_per_s));
	end(&g);
}

static void when_all_ranks_have_died_their_last_seconds_stay_known(void **state)
{
	struct make_run spec = make_run_job(2, 100);
	struct lw_live_figures before, after;
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	appear(&g, 1);
	grow_to(&g, 2 * S);
	lw_live_job_figures(&g.live->model, 2 * S, WINDOW_NS, &before);
	execute(&g, "UPDATE process SET ended = 'died', end_ns = %lld", (long long)(2 * S));
	grow_to(&g, 2200 * MS);
	lw_live_job_figures(&g.live->model, 2 * S, WINDOW_NS, &after);
	assert_true(
		before.exposed_frac > 0 && fabs(after.exposed_frac - before.exposed_frac) < 0.02);
	/* once they are out of the window, there is nothing to say of it */
	lw_live_job_figures(&g.live->model, 30 * S, WINDOW_NS, &after);
	assert_true(isnan(after.exposed_frac));
	end(&g);
}

static void a_snapshot_is_a_run_file_of_what_is_known(void **state)
{
	struct make_run spec = make_run_job(2, 20);
	struct lw_store *copy;
	int64_t n_copied = 0, n = 0;
	struct growing g;
	char path[LW_LIVE_PATH_BYTES];

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	appear(&g, 1);
	grow_to(&g, 1300 * MS);
	execute(&g, "BEGIN IMMEDIATE; DELETE FROM batch"); /* not committed */
	ok(lw_live_snapshot_begin(g.live));
	assert_int_equal(lw_live_snapshot_begin(g.live), LW_ERR_STATE); /* one at a time */
	ok(lw_live_snapshot_wait(g.live, path));
	execute(&g, "ROLLBACK");
	ok(lw_store_open(path, LW_STORE_READ, &copy));
	ok(lw_store_int(copy, "SELECT count(*) FROM batch", &n_copied));
	ok(lw_store_int(g.run.writer, "SELECT count(*) FROM main.batch", &n));
	assert_true(n > 0 && n == n_copied);
	lw_store_close(copy);
	unlink(path);
	end(&g);
}

static void keys_that_the_hints_promise_are_those_that_work(void **state)
{
	struct make_run spec = make_run_job(2, 100);
	struct lw_data data = {0};
	struct lw_app app = {0};
	struct growing g;

	(void)state;
	begin(&g, &spec);
	appear(&g, 0);
	grow_to(&g, 2 * S);
	ok(lw_app_init(&app, &data, "job"));
	app.live = g.live;
	for (int request = LW_REQUEST_PAUSE; request < LW_REQUEST_VIEW; request++) {
		const struct lw_input input = {(enum lw_request)request, 0, 0, 20, 80};
		bool is_promised = lw_live_keys(g.live)->requests >> request & 1;

		/* one writes a file here, the other is the program's: both have tests */
		if (request != LW_REQUEST_SNAPSHOT && request != LW_REQUEST_COPY)
			assert_int_equal(lw_live_request(&app, &input), is_promised);
	}
	for (const struct lw_key_words *words = lw_live_keys(g.live)->words; words->request;
		words++)
		assert_true(lw_app_can(&app, 0) >> words->request & 1);
	assert_false(lw_app_can(&app, 0) & (LW_CAN(SEARCH) | LW_CAN(SORT)));
	assert_true(lw_app_can(&app, 1) & LW_CAN(PAUSE)); /* in every view */
	app.live = NULL;
	lw_app_done(&app);
	end(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_and_exposed_time_follow_the_rows_that_appear),
		cmocka_unit_test(the_window_forgets_what_is_older),
		cmocka_unit_test(the_series_shows_a_step_over_all_of_its_time),
		cmocka_unit_test(the_late_rank_is_named_with_how_late_it_is),
		cmocka_unit_test(who_resumes_later_is_not_late),
		cmocka_unit_test(a_rank_that_appears_late_is_taken_in),
		cmocka_unit_test(a_rank_that_dies_is_told_of_once),
		cmocka_unit_test(a_process_without_a_rank_is_named_by_what_is_known),
		cmocka_unit_test(a_closed_run_is_let_go_at_once),
		cmocka_unit_test(looking_never_holds_up_the_writer),
		cmocka_unit_test(new_rows_are_found_without_a_scan),
		cmocka_unit_test(of_a_long_run_only_the_last_minute_is_read),
		cmocka_unit_test(marks_of_the_user_win),
		cmocka_unit_test(a_held_picture_says_nothing_of_what_is_not_known),
		cmocka_unit_test(steps_of_before_the_first_mark_are_not_counted_with_marks),
		cmocka_unit_test(times_that_cannot_be_are_not_known),
		cmocka_unit_test(traffic_is_spread_over_the_time_since_the_sample_before),
		cmocka_unit_test(traffic_that_no_socket_carries_is_not_called_none),
		cmocka_unit_test(when_all_ranks_have_died_their_last_seconds_stay_known),
		cmocka_unit_test(a_snapshot_is_a_run_file_of_what_is_known),
		cmocka_unit_test(keys_that_the_hints_promise_are_those_that_work),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
