/* SPDX-License-Identifier: Apache-2.0 */
/* test_chooser.c - the list of jobs is of now: new ones come, ended ones are marked, ages are true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/units.h"
#include "tests/lib/run_fixture.h"
#include "tui/chooser.h"
#include "tui/keys.h"

static struct lw_job job(const char *dir, int64_t started_ns)
{
	struct lw_job job = {.started_ns = started_ns};

	snprintf(job.dir, sizeof(job.dir), "%s", dir);
	snprintf(job.command, sizeof(job.command), "train %s", dir);
	return job;
}

static void take(struct lw_chooser *chooser, size_t n, const struct lw_job *jobs)
{
	lw_job_list list = {0};

	for (size_t i = 0; i < n; i++)
		assert_int_equal(lw_vec_push(&list, jobs[i]), LW_OK);
	assert_int_equal(lw_chooser_take(chooser, &list), LW_OK);
	lw_vec_free(&list);
}

static const char *line(struct lw_chooser *chooser, int y)
{
	static char text[4 * 100 + 1];
	struct lw_cells cells = {0};

	assert_int_equal(lw_cells_resize(&cells, 100, 12), LW_OK);
	lw_chooser_draw(chooser, lw_pane_whole(&cells));
	lw_cells_line(&cells, y, text);
	lw_cells_free(&cells);
	return text;
}

static void jobs_come_and_go_and_the_choice_stays(void **state)
{
	const struct lw_job first[] = {job("a", 100 * LW_NS_PER_S), job("b", 200 * LW_NS_PER_S)};
	const struct lw_job then[] = {job("new", 250 * LW_NS_PER_S), job("b", 200 * LW_NS_PER_S)};
	struct lw_chooser chooser = {.chosen = -1, .now_ns = 300 * LW_NS_PER_S};

	(void)state;
	take(&chooser, 2, first);
	lw_chooser_key(&chooser, LW_KEY_DOWN, 0, 12);
	take(&chooser, 2, then);
	assert_int_equal(chooser.jobs.n, 3);
	assert_true(chooser.jobs.at[0].has_ended && !chooser.jobs.at[1].has_ended);
	assert_non_null(
		strstr(line(&chooser, 0), "2 jobs are being recorded on this host, 1 has ended"));
	assert_non_null(strstr(line(&chooser, 3), "ended"));
	assert_non_null(strstr(line(&chooser, 5), "1 min 40 s"));
	assert_non_null(strstr(line(&chooser, 7), "train new"));
	assert_true(lw_chooser_key(&chooser, LW_KEY_ENTER, 0, 12));
	assert_string_equal(chooser.jobs.at[chooser.chosen].dir, "b");
	lw_vec_free(&chooser.jobs);
}

static void an_age_that_is_not_known_is_not_made_up(void **state)
{
	const struct lw_job jobs[] = {job("beginning", 0), job("of the future", 900 * LW_NS_PER_S)};
	const struct lw_job now_known = job("beginning", 299 * LW_NS_PER_S);
	struct lw_chooser chooser = {.chosen = -1, .now_ns = 300 * LW_NS_PER_S};

	(void)state;
	take(&chooser, 2, jobs);
	assert_non_null(strstr(line(&chooser, 3), " ? "));
	assert_non_null(strstr(line(&chooser, 5), " ? "));
	take(&chooser, 1, &now_known);
	assert_non_null(strstr(line(&chooser, 3), " 1 s "));
	take(&chooser, 1, jobs); /* a look at its file that came to nothing */
	assert_non_null(strstr(line(&chooser, 3), " 1 s "));
	lw_vec_free(&chooser.jobs);
}

static struct lw_job file_of(int rank, int size, const char *command, int64_t started_ns)
{
	struct lw_job job = {.rank = rank, .size = size, .n_ranks = 1, .started_ns = started_ns};

	snprintf(job.dir, sizeof(job.dir), "%s-%d-%lld", command, rank, (long long)started_ns);
	snprintf(job.path, sizeof(job.path), "/home/ada/run-%d.lapwing", rank);
	snprintf(job.command, sizeof(job.command), "%s", command);
	return job;
}

static void the_files_of_one_job_are_one_line(void **state)
{
	const struct lw_job jobs[] = {file_of(10, 12, "train", 100 * LW_NS_PER_S),
		file_of(0, 2, "other", 101 * LW_NS_PER_S),
		file_of(2, 12, "train", 101 * LW_NS_PER_S),
		file_of(0, 12, "train", 102 * LW_NS_PER_S),
		/* another one of the same command: its rank 0, and much later */
		file_of(0, 12, "train", 103 * LW_NS_PER_S),
		file_of(1, 12, "train", 200 * LW_NS_PER_S)};
	struct lw_chooser chooser = {.chosen = -1, .now_ns = 300 * LW_NS_PER_S};
	struct lw_job_files files;

	(void)state;
	take(&chooser, 6, jobs);
	assert_int_equal(lw_chooser_n_jobs(&chooser), 4);
	assert_non_null(strstr(line(&chooser, 0), "4 jobs are being recorded"));
	assert_non_null(strstr(line(&chooser, 3), "3 of 12"));
	assert_non_null(strstr(
		line(&chooser, 4), "3 files, rank 0's is followed: /home/ada/run-*.lapwing"));
	assert_non_null(strstr(line(&chooser, 5), "other"));
	assert_int_equal(lw_chooser_files(&chooser, 2, &files)->n, 3);
	assert_string_equal(files.pattern, "/home/ada/run-*.lapwing");
	assert_int_equal(lw_chooser_files(&chooser, 1, &files)->n, 1);
	assert_string_equal(files.pattern, "/home/ada/run-0.lapwing");
	/* one of its files is done, and rank 0's is: the lowest that still runs is followed */
	take(&chooser, 3, jobs);
	assert_true(chooser.jobs.at[3].has_ended);
	assert_null(strstr(line(&chooser, 3), "ended"));
	assert_true(lw_chooser_key(&chooser, LW_KEY_ENTER, 0, 12));
	assert_int_equal(chooser.jobs.at[chooser.chosen].rank, 2);
	lw_vec_free(&chooser.jobs);
}

static void lines_stay_while_the_cursor_moves_among_them(void **state)
{
	struct lw_job jobs[9];
	struct lw_chooser chooser = {.chosen = -1, .now_ns = 300 * LW_NS_PER_S};

	(void)state;
	for (int i = 0; i < 9; i++)
		jobs[i] = job((char[]){(char)('a' + i), 0}, LW_NS_PER_S);
	take(&chooser, 9, jobs);
	lw_chooser_key(&chooser, LW_KEY_END, 0, 12);
	assert_non_null(strstr(line(&chooser, 3), "train f"));
	lw_chooser_key(&chooser, LW_KEY_UP, 0, 12);
	lw_chooser_key(&chooser, LW_KEY_UP, 0, 12);
	assert_non_null(strstr(line(&chooser, 3), "train f")); /* the cursor moved, they did not */
	lw_chooser_key(&chooser, LW_KEY_CLICK, 9, 12);
	assert_int_equal(chooser.at, 8);
	lw_chooser_key(&chooser, LW_KEY_HOME, 0, 12);
	assert_non_null(strstr(line(&chooser, 3), "train a"));
	lw_vec_free(&chooser.jobs);
}

static int open_none(void *context, const struct lw_job *job)
{
	(void)context;
	return lw_fail(LW_ERR_IO, "%s: No such file", job->dir);
}

static void what_cannot_be_followed_is_told_of_and_another_may_be_chosen(void **state)
{
	const struct lw_job jobs[] = {job("a", LW_NS_PER_S), job("b", LW_NS_PER_S)};
	struct lw_chooser chooser = {.chosen = -1, .now_ns = 300 * LW_NS_PER_S, .open = open_none};

	(void)state;
	take(&chooser, 2, jobs);
	assert_false(lw_chooser_key(&chooser, LW_KEY_ENTER, 0, 12));
	assert_non_null(strstr(line(&chooser, 11), "! a: No such file"));
	assert_int_equal(chooser.chosen, -1);
	assert_false(lw_chooser_key(&chooser, LW_KEY_DOWN, 0, 12));
	assert_non_null(strstr(line(&chooser, 11), "q leave"));
	/* Escape leaves what is open, and no more */
	assert_false(lw_chooser_key(&chooser, '?', 0, 12));
	assert_non_null(strstr(line(&chooser, 2), "being recorded on this host"));
	assert_false(lw_chooser_key(&chooser, LW_KEY_ESCAPE, 0, 12));
	assert_non_null(strstr(line(&chooser, 3), "train a"));
	assert_false(lw_chooser_key(&chooser, LW_KEY_ESCAPE, 0, 12));
	assert_non_null(strstr(line(&chooser, 11), "q leaves"));
	assert_true(lw_chooser_key(&chooser, 'q', 0, 12));
	lw_vec_free(&chooser.jobs);
}

static int find_none_then_one(void *context, lw_job_list *ret_jobs)
{
	int *n_looks = context;
	struct lw_job found = job("a", 1);

	return (*n_looks)++ ? lw_vec_push(ret_jobs, found) : LW_OK;
}

static void it_looks_again_once_a_second(void **state)
{
	int n_looks = 0;
	struct lw_chooser chooser = {.chosen = -1, .find = find_none_then_one, .context = &n_looks};

	(void)state;
	assert_true(lw_chooser_tick(&chooser));
	assert_false(lw_chooser_tick(&chooser));
	assert_int_equal(chooser.jobs.n, 0);
	chooser.looked_ns -= LW_NS_PER_S;
	assert_true(lw_chooser_tick(&chooser));
	assert_int_equal(n_looks, 2);
	assert_int_equal(chooser.jobs.n, 1);
	lw_vec_free(&chooser.jobs);
}

static void a_run_that_is_being_written_says_when_it_began(void **state)
{
	struct make_run spec = make_run_job(2, 3);
	struct lw_job found = {0};

	(void)state;
	snprintf(found.path, sizeof(found.path), "%s", run_fixture_path("job.lapwing"));
	spec.extra_sql = "UPDATE run SET created_realtime_ns = 77000000000, closed = 0";
	make_run_write(found.path, &spec);
	assert_int_equal(lw_job_read(&found), LW_OK);
	assert_int_equal(found.started_ns, 77 * LW_NS_PER_S);
	assert_int_equal(found.n_ranks, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_come_and_go_and_the_choice_stays),
		cmocka_unit_test(an_age_that_is_not_known_is_not_made_up),
		cmocka_unit_test(the_files_of_one_job_are_one_line),
		cmocka_unit_test(lines_stay_while_the_cursor_moves_among_them),
		cmocka_unit_test(what_cannot_be_followed_is_told_of_and_another_may_be_chosen),
		cmocka_unit_test(it_looks_again_once_a_second),
		cmocka_unit_test(a_run_that_is_being_written_says_when_it_began),
	};

	return cmocka_run_group_tests(tests, run_fixture_make, run_fixture_remove);
}
