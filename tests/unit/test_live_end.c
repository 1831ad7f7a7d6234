/* SPDX-License-Identifier: Apache-2.0 */
/* test_live_end.c - a job that ends on the screen: waiting for its collector, held pictures, marks, busy files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/units.h"
#include "tests/lib/grow_run.h"
#include "tests/lib/run_fixture.h"
#include "tui/live.h"

#define S  LW_NS_PER_S
#define MS LW_NS_PER_MS

#define ok(status)                                                                                 \
	do {                                                                                       \
		if ((status) < 0)                                                                  \
			fail_msg("%s", lw_error_text());                                           \
	} while (0)

struct watched {
	struct grow_run run;
	const char *paths[1];
	struct lw_data data;
	struct lw_app app;
	struct lw_live *live;
	int64_t now_ns;
	enum lw_live_collector collector;
	struct lw_live_who who;
};

static int64_t now_of(void *context)
{
	return ((struct watched *)context)->now_ns;
}

static enum lw_live_collector ask(void *context)
{
	return ((struct watched *)context)->collector;
}

static void who(void *context, struct lw_live_who *ret_who)
{
	*ret_who = ((struct watched *)context)->who;
}

static void settle(struct watched *w)
{
	lw_app_draw_all(&w->app);
	while (w->data.loader) {
		usleep(1000);
		lw_app_draw_all(&w->app);
	}
	lw_app_draw_all(&w->app);
}

static void go_to(struct watched *w, int64_t to_ns)
{
	for (; w->now_ns < to_ns; settle(w))
		w->now_ns += 200 * MS;
}

/* Two ranks are there, and nothing is recorded of them. */
static void begin_quietly(struct watched *w)
{
	struct make_run spec = make_run_job(2, 100);
	char whole[128], path[128];
	const struct lw_live_options options = {.path = w->run.path,
		.dir = "/dev/shm/lapwing-1",
		.ask = ask,
		.who = who,
		.clock_ns = now_of,
		.context = w};

	memset(w, 0, sizeof(*w));
	w->who.has_recorder = true;
	snprintf(whole, sizeof(whole), "%s", run_fixture_path("whole.lapwing"));
	snprintf(path, sizeof(path), "%s", run_fixture_path("grow.lapwing"));
	grow_run_begin(&w->run, path, whole, &spec);
	w->now_ns = S / 2;
	w->paths[0] = w->run.path;
	w->data = (struct lw_data){.paths = w->paths, .n_paths = 1};
	ok(lw_app_init(&w->app, &w->data, "run"));
	ok(lw_live_open(&options, &w->live));
	w->app.live = w->live;
	grow_run_appear(&w->run, 0);
	grow_run_appear(&w->run, 1);
}

static void begin(struct watched *w)
{
	begin_quietly(w);
	for (int64_t at_ns = S; at_ns <= 3 * S; at_ns += 200 * MS) {
		grow_run_to(&w->run, at_ns);
		go_to(w, at_ns);
	}
}

static void close_run(struct watched *w)
{
	grow_run_to(&w->run, 100 * S);
	grow_run_execute(&w->run, "DETACH whole");
	grow_run_execute(&w->run, "UPDATE process SET ended = 'exit'; UPDATE run SET closed = 1");
}

static void end(struct watched *w)
{
	lw_app_done(&w->app);
	lw_data_done(&w->data);
	lw_live_close(w->live);
	grow_run_end(&w->run);
}

static void keys(struct watched *w, const char *text)
{
	char copy[64];

	snprintf(copy, sizeof(copy), "%s", text);
	ok(lw_app_keys(&w->app, copy));
	settle(w);
}

static bool shows(struct watched *w, const char *text)
{
	char line[4 * 200 + 1];

	ok(lw_app_resize(&w->app, 160, 40));
	lw_app_draw(&w->app);
	for (int y = 0; y < w->app.cells.height; y++)
		if (strstr(lw_cells_line(&w->app.cells, y, line), text))
			return true;
	return false;
}

static void a_collector_that_takes_long_is_waited_for(void **state)
{
	struct watched w;

	(void)state;
	begin(&w);
	close_run(&w);
	go_to(&w, 100 * S);
	assert_non_null(w.app.live);
	assert_true(shows(&w, "ended; closing its file: 1 min 36 s"));
	w.collector = LW_LIVE_GONE;
	go_to(&w, 101 * S);
	assert_null(w.app.live);
	assert_int_equal(w.data.status, LW_OK);
	assert_true(shows(&w, "the job has ended: this is the whole run"));
	assert_false(w.live->is_unsealed);
	end(&w);
}

static void a_collector_that_dies_while_it_closes_the_run_is_told_of(void **state)
{
	struct watched w;

	(void)state;
	begin(&w);
	close_run(&w);
	go_to(&w, 10 * S);
	w.collector = LW_LIVE_LEFT; /* for a moment: another one goes on */
	go_to(&w, 11 * S);
	w.collector = LW_LIVE_AT_WORK;
	go_to(&w, 15 * S);
	assert_non_null(w.app.live);
	w.collector = LW_LIVE_LEFT;
	go_to(&w, 17 * S);
	assert_null(w.app.live);
	assert_true(w.live->is_unsealed);
	assert_true(shows(&w, "the collector died while it closed"));
	assert_true(shows(&w, "`lapwing salvage /dev/shm/lapwing-1`"));
	end(&w);
}

static void a_recorder_that_was_killed_is_told_of(void **state)
{
	struct watched w;

	(void)state;
	begin(&w);
	close_run(&w);
	grow_run_execute(&w.run, "UPDATE run SET exit_code = NULL");
	w.collector = LW_LIVE_GONE;
	go_to(&w, 5 * S);
	assert_null(w.app.live);
	assert_true(shows(&w, "`lapwing record` was killed before: what was recorded is kept in"));
	assert_false(shows(&w, "its command with it")); /* what that had started may have run on */
	end(&w);
}

static void a_collector_with_a_successor_and_a_recorder_that_dies_are_told_of(void **state)
{
	struct watched w;

	(void)state;
	begin(&w);
	w.live->is_recorded = true;
	w.who.collector_pid = 4711;
	go_to(&w, 5 * S);
	assert_int_equal(w.live->notes.n, 0);
	w.who.collector_pid = 4800;
	go_to(&w, 7 * S);
	assert_int_equal(w.live->notes.n, 1);
	assert_true(shows(&w, "the collector (lapwingd, pid 4711) was killed; another (pid 4800)"));
	w.who.has_recorder = false;
	go_to(&w, 10 * S);
	assert_int_equal(w.live->notes.n, 2); /* once */
	assert_true(shows(&w, "`lapwing record` was killed, and the command that it had started"));
	assert_true(shows(&w, "following"));
	end(&w);
}

static void a_command_that_failed_names_its_output(void **state)
{
	struct watched w;

	(void)state;
	begin(&w);
	w.live->options.log = "run.log";
	close_run(&w);
	grow_run_execute(&w.run, "UPDATE run SET exit_code = 5");
	w.collector = LW_LIVE_GONE;
	go_to(&w, 5 * S);
	assert_null(w.app.live);
	assert_true(shows(&w, "has ended with exit code 5; its output is in run.log"));
	end(&w);
}

static void a_held_picture_stays_until_the_user_lets_go(void **state)
{
	struct watched w;
	int32_t step;
	int64_t at_ns;

	(void)state;
	begin(&w);
	keys(&w, "<Space> <Left> <Left>");
	at_ns = lw_live_to_ns(w.live);
	close_run(&w);
	w.collector = LW_LIVE_GONE;
	go_to(&w, 8 * S);
	assert_non_null(w.app.live);
	assert_true(shows(&w, "HELD, 1.0 s back; the job has ended"));
	assert_true(shows(&w, "Space shows the whole run"));
	keys(&w, "<Left> <Right>"); /* it moves as before */
	assert_true(lw_live_to_ns(w.live) == at_ns);
	keys(&w, "2");
	assert_false(shows(&w, "nothing was read yet"));
	assert_false(shows(&w, "as of")); /* the analysis is of the whole run */
	keys(&w, "1");
	w.app.view_after = lw_view_find("ranks");
	keys(&w, "<Space>");
	assert_null(w.app.live);
	assert_int_equal(w.app.current, 0); /* that of what was held, not one that was remembered */
	step = w.app.focus.step;            /* where the picture stood */
	assert_true(step >= 0);
	assert_in_range(at_ns, w.data.analysis->run->ranks.at[0].steps.at[step].start_ns,
		w.data.analysis->run->ranks.at[0].steps.at[step].end_ns);
	end(&w);
}

static void marks_become_steps_of_the_whole_run(void **state)
{
	struct watched w;
	int32_t first;

	(void)state;
	begin(&w);
	keys(&w, "m");
	grow_run_to(&w.run, 3500 * MS);
	go_to(&w, 3500 * MS);
	keys(&w, "m");
	close_run(&w);
	w.collector = LW_LIVE_GONE;
	go_to(&w, 6 * S);
	assert_null(w.app.live);
	assert_true(shows(&w, "m goes to its marks"));
	keys(&w, "m");
	assert_true(shows(&w, "mark 1 of 2, "));
	first = w.app.focus.step;
	assert_true(first > 0);
	assert_int_equal(w.app.current, lw_view_find("timeline"));
	keys(&w, "m");
	assert_true(shows(&w, "mark 2 of 2, "));
	assert_true(w.app.focus.step > first);
	keys(&w, "m");
	assert_int_equal(w.app.focus.step, first);
	end(&w);
}

static void a_busy_file_is_tried_again(void **state)
{
	struct watched w;

	(void)state;
	begin(&w);
	close_run(&w);
	grow_run_execute(&w.run, "BEGIN IMMEDIATE"); /* somebody writes, for long */
	w.collector = LW_LIVE_GONE;
	go_to(&w, 3600 * MS);
	assert_non_null(w.app.live);
	assert_int_equal(w.data.status, LW_ERR_BUSY);
	assert_true(shows(&w, "ended; file busy: "));
	assert_false(shows(&w, "locked"));
	grow_run_execute(&w.run, "COMMIT");
	go_to(&w, 6 * S);
	assert_null(w.app.live);
	assert_int_equal(w.data.status, LW_OK);
	end(&w);
}

static void a_snapshot_is_written_beside_the_screen(void **state)
{
	char folder[] = "/tmp/lapwing-snapshot-XXXXXX", before[4096];
	struct watched w;

	(void)state;
	begin(&w);
	assert_non_null(getcwd(before, sizeof(before)));
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	keys(&w, "w");
	for (; w.live->snapshot; settle(&w))
		usleep(1000);
	assert_true(shows(&w, "written: lapwing-live-"));
	assert_int_equal(system("ls | grep -c '^lapwing-live-[0-9-]*.lapwing$' | grep -qx 1"), 0);
	assert_int_equal(system("rm lapwing-live-*.lapwing"), 0);
	/* where nothing can be written: which file, and why */
	assert_int_equal(rmdir(folder), 0);
	keys(&w, "w");
	for (; w.live->snapshot; settle(&w))
		usleep(1000);
	assert_true(shows(&w, "! no snapshot: lapwing-live-"));
	assert_true(shows(&w, "No such file or directory"));
	assert_int_equal(chdir(before), 0);
	end(&w);
}

static void views_say_of_when_their_analysis_is(void **state)
{
	struct watched w;

	(void)state;
	begin(&w);
	keys(&w, "5");
	w.live->shown_ns = w.now_ns - 12 * S;
	assert_true(shows(&w, "as of 12 s ago"));
	ok(lw_app_resize(&w.app, 40, 8));
	lw_app_draw(&w.app);
	keys(&w, "1"); /* here only the advice is of it */
	assert_true(shows(&w, "steps so far, as of 12 s ago"));
	w.live->shown_ns = w.now_ns;
	assert_false(shows(&w, "as of"));
	end(&w);
}

static void the_picture_can_be_copied(void **state)
{
	struct watched w;

	(void)state;
	begin(&w);
	keys(&w, "y");
	assert_non_null(w.app.copied);
	assert_non_null(strstr(w.app.copied, "2 of 2 ranks alive"));
	assert_true(shows(&w, "characters copied"));
	end(&w);
}

static void advice_of_few_steps_is_soon_made_anew(void **state)
{
	struct watched w;

	(void)state;
	for (int n_times = 2; n_times <= 8; n_times += 6) {
		begin(&w);
		w.live->n_analysed_steps = lw_live_n_steps(w.live) / (uint64_t)n_times;
		w.live->analysis_took_ns = S / 2; /* on a busy host */
		grow_run_to(&w.run, 3500 * MS);
		go_to(&w, 20 * S);
		assert_int_equal(w.live->analysis_began_ns > 4 * S, n_times >= 4);
		end(&w);
	}
}

static void the_remembered_view_waits_for_the_end(void **state)
{
	struct watched w;

	(void)state;
	for (int is_asked = 0; is_asked < 2; is_asked++) {
		begin(&w);
		w.app.view_after = lw_view_find("ranks");
		if (is_asked)
			keys(&w, "2 1");
		assert_int_equal(w.app.current, 0);
		close_run(&w);
		w.collector = LW_LIVE_GONE;
		go_to(&w, 6 * S);
		assert_null(w.app.live);
		assert_int_equal(w.app.current, is_asked ? 0 : lw_view_find("ranks"));
		end(&w);
	}
}

/* A plain program whose operations are NCCL's: no figure says that there was none. */
static void operations_of_nccl_are_counted_and_not_followed(void **state)
{
	struct watched w;

	(void)state;
	begin_quietly(&w);
	go_to(&w, S);
	assert_true(shows(&w, "no operation of all ranks was recorded yet"));
	for (int i = 1; i <= 3; i++)
		grow_run_execute(&w.run,
			"INSERT INTO nccl_op VALUES(1, %d, 1000, 2000, 1, 5, %d, 400, -1, NULL, 2, 3, 4, 8, 1, 2)",
			1000 + i, i);
	go_to(&w, 2 * S);
	assert_true(shows(&w, "not known: operations of NCCL are not followed live: 3 so far"));
	assert_false(shows(&w, "recorded yet"));
	assert_false(shows(&w, " 0 operations/s"));
	/* under a framework its operations are, whatever carries them */
	for (int64_t at_ns = 2 * S; at_ns <= 4 * S; at_ns += 200 * MS) {
		grow_run_to(&w.run, at_ns);
		go_to(&w, at_ns);
	}
	assert_false(shows(&w, "not followed"));
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_collector_that_takes_long_is_waited_for),
		cmocka_unit_test(a_collector_that_dies_while_it_closes_the_run_is_told_of),
		cmocka_unit_test(a_recorder_that_was_killed_is_told_of),
		cmocka_unit_test(a_collector_with_a_successor_and_a_recorder_that_dies_are_told_of),
		cmocka_unit_test(a_command_that_failed_names_its_output),
		cmocka_unit_test(a_held_picture_stays_until_the_user_lets_go),
		cmocka_unit_test(marks_become_steps_of_the_whole_run),
		cmocka_unit_test(a_busy_file_is_tried_again),
		cmocka_unit_test(a_snapshot_is_written_beside_the_screen),
		cmocka_unit_test(views_say_of_when_their_analysis_is),
		cmocka_unit_test(the_picture_can_be_copied),
		cmocka_unit_test(advice_of_few_steps_is_soon_made_anew),
		cmocka_unit_test(the_remembered_view_waits_for_the_end),
		cmocka_unit_test(operations_of_nccl_are_counted_and_not_followed),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
