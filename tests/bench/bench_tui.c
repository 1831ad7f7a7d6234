/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_tui.c - what the screens of a run cost: until the first picture, and each picture after it.
 *
 *	bench_tui RUN [REPEATS]
 *
 * RUN is analysed twice: the first time nothing of it was stored, the second time its figures are in the file, and
 * the first picture comes from there. Wall time for what the user waits for, at 200 x 60. Prints one JSON line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
			printf("}}\n");
		}
		lw_app_done(&app);
		lw_data_done(&data);
	}
	return 0;
}
