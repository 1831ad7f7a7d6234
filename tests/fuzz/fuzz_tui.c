/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_tui.c - keys, clicks, the wheel, commands, sizes and new analyses in any order on the screens of some runs.
 *
 * The first byte picks the run. Then a byte is a key; 0xf0 .. 0xff take the next bytes for what a character
 * cannot say: special keys, clicks, new sizes, time that passes, another analysis under the view that is shown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/tui/runs.h"
#include "tui/app.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"slow_rank", "empty", "many_ranks", "one_rank", "ddp", "plain"};
enum { N_RUNS = sizeof(names) / sizeof(names[0]), MAX_INPUT = 512, MAX_ANALYSES = 24 };

enum special { /* what a byte means; those below are keys from LW_KEY_FIRST on */
	FIRST_SPECIAL = 0xf0,
	ANALYSE_UNSEEN = 0xfb, /* and a key comes before it is drawn. Next byte: which run */
	ANALYSE = 0xfc,
	CLICK = 0xfd, /* next bytes: x, y */
	TICK = 0xfe,
	RESIZE = 0xff, /* next bytes: width, height */
};

static struct lw_data data; /* kept from input to input: most are about keys */
static const char *path;
static size_t shown;

/* With what sqlite puts beside it. */
static void remove_run(const char *file)
{
	static const char *const ends[] = {"", "-wal", "-shm"};
	char text[80];

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", file, ends[i]);
		unlink(text);
	}
}

/* The one before it is freed: what a view still holds of it a sanitizer sees. */
static void analyse(size_t which)
{
	static char files[N_RUNS][64];
	struct make_run spec;

	snprintf(files[which], sizeof(files[which]), "/dev/shm/lapwing-fuzz-%d-%zu", getpid(),
		which);
	tui_run(names[which], &spec);
	remove_run(files[which]);
	make_run_write(files[which], &spec);
	path = files[which];
	data.paths = &path;
	data.n_paths = 1;
	if (lw_data_load(&data) < 0)
		abort();
	remove_run(files[which]);
	shown = which;
}

/* What writes files is tested elsewhere. */
static bool is_writing(const struct lw_app *app, uint32_t key)
{
	const char *line = app->line;

	if (app->mode == LW_APP_COMMAND)
		return key == LW_KEY_ENTER && line[strspn(line, " ")] == 'w';
	if (app->mode == LW_APP_SEARCH)
		return false;
	return lw_key_request(key) == LW_REQUEST_EXPORT ||
	       lw_key_request(key) == LW_REQUEST_SNAPSHOT;
}

static void press(struct lw_app *app, uint32_t key, int x, int y)
{
	if (key < LW_KEY_LAST && !is_writing(app, key))
		lw_app_key(app, key, x, y);
}

/* Return: how many bytes after the first it took. */
static size_t play(struct lw_app *app, const uint8_t *bytes, size_t n, int *n_analyses)
{
	uint8_t x = n > 1 ? bytes[1] : 0, y = n > 2 ? bytes[2] : 0;

	switch (bytes[0]) {
	case RESIZE:
		if (lw_app_resize(app, x, y) < 0)
			abort();
		return 2;
	case CLICK:
		press(app, LW_KEY_CLICK, x, y);
		break;
	case ANALYSE:
	case ANALYSE_UNSEEN:
		if ((*n_analyses)++ < MAX_ANALYSES)
			analyse(x % N_RUNS);
		if (bytes[0] == ANALYSE)
			lw_app_draw(app);
		return 1;
	case TICK:
		lw_app_tick(app);
		break;
	default:
		press(app, bytes[0] >= FIRST_SPECIAL ? LW_KEY_FIRST + (bytes[0] & 0x0fu) : bytes[0],
			0, 0);
		break;
	}
	lw_app_draw(app);
	return bytes[0] == CLICK ? 2 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct lw_app app = {0};
	int n_analyses = 0;

	if (size < 2 || size > MAX_INPUT)
		return 0;
	if (!data.analysis || shown != (bytes[0] & 0x7fu) % N_RUNS)
		analyse((bytes[0] & 0x7fu) % N_RUNS);
	app.cells.is_ascii = bytes[0] & 0x80;
	if (lw_app_init(&app, &data, "run") < 0)
		abort();
	for (size_t i = 1; i < size; i++)
		i += play(&app, bytes + i, size - i, &n_analyses);
	lw_app_draw(&app);
	lw_app_done(&app);
	return 0;
}
