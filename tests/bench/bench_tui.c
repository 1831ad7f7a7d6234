/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_tui.c - what the screens of a run cost: until the first picture, and each picture after it.
 *
 *	bench_tui RUN [REPEATS]
 *
 * RUN is analysed twice: the first time nothing of it was stored, the second time its figures are in the file, and
 * the first picture comes from there. Then `lapwing tui RUN` of this build runs in a terminal of its own, and what is
 * timed is what its user waits for: from the key to the first and to the last byte that the terminal gets, when a
 * view is shown first and when it is shown again. Wall time, at 200 x 60. Prints one JSON line.
 */
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "tui/app.h"

enum { WIDTH = 200, HEIGHT = 60, MAX_REPEATS = 1000 };

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static _Noreturn void die(void)
{
	fprintf(stderr, "bench_tui: %s\n", lw_error_text());
	exit(1);
}

static int ascending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void begin(struct lw_app *app, struct lw_data *data)
{
	if (lw_data_begin(data) < 0 || lw_app_init(app, data, "run") < 0 ||
		lw_app_resize(app, WIDTH, HEIGHT) < 0)
		die();
	lw_app_draw(app);
}

static void wait_for(struct lw_app *app)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	while (!app->data->analysis) {
		if (!lw_app_tick(app))
			nanosleep(&moment, NULL);
		if (app->data->error[0]) {
			lw_fail(LW_ERR_IO, "%s", app->data->error);
			die();
		}
	}
}

/* The keys that change most of what a view shows. */
static const uint32_t keys[] = {
	LW_KEY_DOWN, LW_KEY_RIGHT, LW_KEY_PAGE_DOWN, '+', '_', LW_KEY_LEFT, LW_KEY_UP};
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

static void measure_view(struct lw_app *app, int view, size_t n_repeats)
{
	double took_ns[MAX_REPEATS], start_ns = now_ns(), open_ns;

	lw_app_show(app, view);
	lw_app_draw(app);
	open_ns = now_ns() - start_ns;
	while (lw_app_tick(app))
		lw_app_draw(app);
	for (size_t i = 0; i < n_repeats; i++) {
		start_ns = now_ns();
		lw_app_key(app, keys[i % N_KEYS], 0, 0);
		lw_app_draw(app);
		took_ns[i] = now_ns() - start_ns;
	}
	qsort(took_ns, n_repeats, sizeof(*took_ns), ascending);
	printf("%s\"%s\":{\"first_ns\":%.0f,\"redraw_ns\":%.0f,\"worst_ns\":%.0f}", view ? "," : "",
		lw_views[view]->name, open_ns, took_ns[n_repeats / 2], took_ns[n_repeats - 1]);
}

/* ---- the program in a terminal -------------------------------------------------------------------- */

enum { QUIET_MS = 700, SHORT_MS = 250, MOST_MS = 60000, TEXT_BYTES = 1 << 18 };

struct terminal {
	int fd;
	pid_t child;
	char text[TEXT_BYTES + 1]; /* what it was told since the last key */
	size_t n;
};

/* `lapwing` stands beside the folder of this program. */
static _Noreturn void become_lapwing(const char *path)
{
	char own[3000] = "", lapwing[3100];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[n > 0 ? n : 0] = 0;
	own[strrchr(own, '/') - own] = 0;
	snprintf(lapwing, sizeof(lapwing), "%s/../bin/lapwing", own);
	setenv("TERM", "xterm-256color", 1);
	setenv("XDG_CONFIG_HOME", "/dev/null", 1);
	execl(lapwing, "lapwing", "tui", "--view", "overview", path, NULL);
	_exit(127);
}

/* Takes what comes until it is @text (NULL: anything) and then nothing for @quiet_ms. Times since @start_ns. */
static void watch(struct terminal *t, const char *text, int quiet_ms, double start_ns,
	double *ret_first_ns, double *ret_last_ns)
{
	bool is_seen = false;

	*ret_first_ns = *ret_last_ns = 0;
	for (t->n = 0; now_ns() - start_ns < MOST_MS * 1e6;) {
		struct pollfd one = {.fd = t->fd, .events = POLLIN};
		ssize_t n;

		if (poll(&one, 1, is_seen ? quiet_ms : 100) == 0) {
			if (is_seen)
				return;
			continue;
		}
		if (t->n >= TEXT_BYTES / 2)
			t->n = 0;
		n = read(t->fd, t->text + t->n, TEXT_BYTES - t->n);
		if (n <= 0)
			break;
		*ret_last_ns = now_ns() - start_ns;
		if (!*ret_first_ns)
			*ret_first_ns = *ret_last_ns;
		t->n += (size_t)n;
		t->text[t->n] = 0;
		is_seen |= !text || strstr(t->text, text);
	}
	lw_fail(LW_ERR_IO, "lapwing tui showed nothing more");
	die();
}

static void press(
	struct terminal *t, char key, int quiet_ms, double *ret_first_ns, double *ret_last_ns)
{
	double start_ns = now_ns();

	if (write(t->fd, &key, 1) != 1)
		die();
	watch(t, NULL, quiet_ms, start_ns, ret_first_ns, ret_last_ns);
}

static void measure_shown(const char *path)
{
	static struct terminal t;
	struct winsize size = {.ws_row = HEIGHT, .ws_col = WIDTH};
	double first_ns, last_ns, again_ns, unused_ns;
	double start_ns = now_ns();

	t.child = forkpty(&t.fd, NULL, NULL, &size);
	if (t.child < 0)
		die();
	if (t.child == 0)
		become_lapwing(path);
	watch(&t, "Enter", QUIET_MS, start_ns, &first_ns,
		&last_ns); /* the hints: the analysis is there */
	printf("\"program_first_ns\":%.0f,\"program_ready_ns\":%.0f,\"shown\":{", first_ns,
		last_ns);
	for (int view = 1; view < LW_VIEW_COUNT; view++) {
		char key = (char)lw_key_of(LW_REQUEST_VIEW + (enum lw_request)view);

		press(&t, key, QUIET_MS, &first_ns, &last_ns);
		press(&t, '1', SHORT_MS, &unused_ns, &unused_ns);
		press(&t, key, SHORT_MS, &unused_ns, &again_ns);
		press(&t, '1', SHORT_MS, &unused_ns, &unused_ns);
		printf("%s\"%s\":{\"first_ns\":%.0f,\"whole_ns\":%.0f,\"again_ns\":%.0f}",
			view > 1 ? "," : "", lw_views[view]->name, first_ns, last_ns, again_ns);
	}
	printf("}");
	kill(t.child, SIGTERM);
	waitpid(t.child, NULL, 0);
	close(t.fd);
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : NULL;
	size_t n_repeats = argc > 2 ? strtoul(argv[2], NULL, 10) : 70;
	double start_ns, first_ns[2], analysis_ns[2];

	if (!path || n_repeats == 0 || n_repeats > MAX_REPEATS) {
		fprintf(stderr, "usage: bench_tui RUN [REPEATS], 1 to %d\n", MAX_REPEATS);
		return 2;
	}
	for (int turn = 0; turn < 2; turn++) {
		struct lw_data data = {.paths = &path, .n_paths = 1};
		struct lw_app app = {0};

		start_ns = now_ns();
		begin(&app, &data);
		first_ns[turn] = now_ns() - start_ns;
		wait_for(&app);
		analysis_ns[turn] = now_ns() - start_ns;
		if (turn == 1) {
			printf("{\"n_repeats\":%zu,\"first_unknown_ns\":%.0f,\"first_known_ns\":%.0f,"
			       "\"analysis_ns\":%.0f,\"views\":{",
				n_repeats, first_ns[0], first_ns[1], analysis_ns[1]);
			for (int view = 0; view < LW_VIEW_COUNT; view++)
				measure_view(&app, view, n_repeats);
			printf("},");
		}
		lw_app_done(&app);
		lw_data_done(&data);
	}
	fflush(stdout); /* or the child has it too */
	measure_shown(path);
	printf("}\n");
	return 0;
}
