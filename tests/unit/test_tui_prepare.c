/* SPDX-License-Identifier: Apache-2.0 */
/* What the analysing thread prepares: views take it, show the same with it as without, and may be asked at any moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/tui/runs.h"
#include "tui/app.h"

static char path[64];
static const char *const paths[1] = {path};

static void write_run(const char *name)
{
	struct make_run spec;

	snprintf(path, sizeof(path), "/tmp/lapwing-prepare-%d", getpid());
	unlink(path);
	assert_true(tui_run(name, &spec));
	make_run_write(path, &spec);
}

static void open_app(struct lw_app *app, struct lw_data *data, bool is_apart)
{
	*data = (struct lw_data){.paths = paths, .n_paths = 1};
	*app = (struct lw_app){0};
	assert_int_equal(is_apart ? lw_data_begin(data) : lw_data_load(data), LW_OK);
	assert_int_equal(lw_app_init(app, data, "run"), LW_OK);
	assert_int_equal(lw_app_resize(app, 120, 40), LW_OK);
}

static void close_app(struct lw_app *app, struct lw_data *data)
{
	lw_app_done(app);
	lw_data_done(data);
}

static void press(struct lw_app *app, const char *keys)
{
	char text[64];

	snprintf(text, sizeof(text), "%s", keys);
	assert_int_equal(lw_app_keys(app, text), LW_OK);
}

static char *screen_of(struct lw_app *app)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	lw_app_draw_all(app);
	assert_int_equal(lw_app_write_screen(app, out), LW_OK);
	fclose(out);
	return text;
}

static void wait_for(struct lw_app *app)
{
	while (app->data->loader) {
		lw_app_tick(app);
		usleep(1000);
	}
	assert_non_null(app->data->analysis);
}

/* In place of the C library's: who was made nicer, and by how much? */
static long nice_tid;
static int niceness;

int setpriority(__priority_which_t which, id_t who, int value)
{
	if (which == PRIO_PROCESS && (who == 0 || who == (id_t)gettid())) {
		nice_tid = gettid();
		niceness = value;
	}
	return (int)syscall(SYS_setpriority, which, who, value);
}

static void the_analysis_of_a_running_job_steps_back_and_no_other(void **state)
{
	for (int is_read_only = 0; is_read_only < 2; is_read_only++) {
		struct lw_data data = {.paths = paths, .n_paths = 1, .is_read_only = is_read_only};

		(void)state;
		write_run("slow_rank");
		nice_tid = niceness = 0;
		assert_int_equal(lw_data_begin(&data), LW_OK);
		while (data.loader) {
			lw_data_poll(&data);
			usleep(1000);
		}
		assert_non_null(data.analysis);
		assert_int_equal(niceness, is_read_only ? 10 : 0);
		assert_true(nice_tid != gettid()); /* the screen is for the user, who waits */
		lw_data_done(&data);
	}
	unlink(path);
}

/* Keys that open what takes long, and which of it is then taken. */
static const struct {
	const char *keys;
	int taken; /* -1: it stays for other views */
} cases[] = {
	{"2", LW_PREPARED_LANES},
	{"2 t", LW_PREPARED_LANES},
	{"3 t t", -1},
	{"4", -1},
	{"4 t", LW_PREPARED_BATCHES},
	{"4 t t", LW_PREPARED_BATCHES},
	{"6", LW_PREPARED_CONNECTIONS},
	{"6 t", LW_PREPARED_CONNECTIONS},
};
enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };

static void views_show_the_same_with_what_was_prepared_as_without(void **state)
{
	static const char *const runs[] = {"slow_rank", "lossy", "ddp", "plain", "empty"};

	(void)state;
	for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
		write_run(runs[r]);
		for (size_t i = 0; i < N_CASES; i++) {
			struct lw_app apart, here;
			struct lw_data apart_data, here_data;
			char *wanted, *got;

			open_app(&here, &here_data, false);
			open_app(&apart, &apart_data, true);
			wait_for(&apart);
			for (int kind = 0; kind < LW_PREPARED_COUNT; kind++) {
				assert_null(here_data.prepared.of[kind]);
				assert_non_null(apart_data.prepared.of[kind]);
			}
			press(&here, cases[i].keys);
			press(&apart, cases[i].keys);
			for (int kind = 0; kind < LW_PREPARED_COUNT; kind++)
				assert_true((apart_data.prepared.of[kind] == NULL) ==
					    (kind == cases[i].taken));
			wanted = screen_of(&here);
			got = screen_of(&apart);
			assert_string_equal(got, wanted);
			free(wanted);
			free(got);
			close_app(&here, &here_data);
			close_app(&apart, &apart_data);
		}
	}
	unlink(path);
}

/* A second program on the same analysis (the fuzzer does that) makes for itself what the first has taken. */
static void what_is_taken_is_made_again(void **state)
{
	struct lw_app first, second = {0};
	struct lw_data data;

	(void)state;
	write_run("slow_rank");
	open_app(&first, &data, true);
	wait_for(&first);
	assert_int_equal(lw_app_init(&second, &data, "run"), LW_OK);
	assert_int_equal(lw_app_resize(&second, 120, 40), LW_OK);
	for (size_t i = 0; i < N_CASES; i++) {
		char *wanted, *got;

		press(&first, cases[i].keys);
		press(&second, cases[i].keys);
		wanted = screen_of(&first);
		got = screen_of(&second);
		assert_string_equal(got, wanted);
		free(wanted);
		free(got);
	}
	lw_app_done(&second);
	close_app(&first, &data);
	unlink(path);
}

/* Before there is anything to show, and while a newer analysis is made and takes the old one's place. */
static void keys_work_at_every_moment(void **state)
{
	(void)state;
	write_run("many_ranks");
	for (size_t i = 0; i < N_CASES; i += 3) {
		struct lw_app app;
		struct lw_data data;
		char *early;

		open_app(&app, &data, true);
		press(&app, "2");
		early = screen_of(&app);
		assert_true(data.analysis || strstr(early, " ..."));
		free(early);
		press(&app, cases[i].keys);
		wait_for(&app);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(lw_data_begin(&data), LW_OK);
			press(&app, "<Down> <Enter> <Esc> t + ]");
			wait_for(&app);
			/* the old one is gone: what is pressed first opens the view anew */
			press(&app, "<Down> <Enter> <Esc> y");
			press(&app, cases[i].keys);
		}
		if (i % 2)
			lw_data_forget(&data);
		close_app(&app, &data);
	}
	unlink(path);
}

/* Typed ahead: the view is there, and was never drawn. */
static void keys_may_come_before_the_first_picture(void **state)
{
	static const char views[] = "1234567890-";
	struct lw_app app;
	struct lw_data data;

	(void)state;
	write_run("slow_rank");
	open_app(&app, &data, false);
	for (const char *view = views; *view; view++) {
		/* not e and w, which write files */
		for (const char *first = "+_t]/.[fsazny"; *first; first++) {
			lw_app_done(&app);
			app = (struct lw_app){0};
			assert_int_equal(lw_app_init(&app, &data, "run"), LW_OK);
			lw_app_key(&app, (uint32_t)*view, 0, 0);
			lw_app_key(&app, (uint32_t)*first, 0, 0);
			lw_app_key(&app, 'c', 0, 0);
			for (uint32_t key = LW_KEY_FIRST; key < LW_KEY_LAST; key++)
				lw_app_key(&app, key, 3, 5);
			lw_app_draw_all(&app);
		}
	}
	close_app(&app, &data);
	unlink(path);
}

static void tensors_of_the_timeline_come_a_few_at_a_time(void **state)
{
	struct lw_app app;
	struct lw_data data;
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	(void)state;
	write_run("slow_rank");
	open_app(&app, &data, false);
	press(&app, "2");
	lw_app_key(&app, 't', 0, 0);
	lw_app_draw(&app);
	assert_int_equal(lw_app_write_screen(&app, out), LW_OK);
	fclose(out);
	assert_non_null(strstr(text, "preparing ..."));
	free(text);
	text = screen_of(&app);
	assert_null(strstr(text, "preparing ..."));
	free(text);
	assert_false(lw_app_tick(&app));
	close_app(&app, &data);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_analysis_of_a_running_job_steps_back_and_no_other),
		cmocka_unit_test(views_show_the_same_with_what_was_prepared_as_without),
		cmocka_unit_test(what_is_taken_is_made_again),
		cmocka_unit_test(keys_work_at_every_moment),
		cmocka_unit_test(keys_may_come_before_the_first_picture),
		cmocka_unit_test(tensors_of_the_timeline_come_a_few_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
